/* What reading an entry does not need and may still be wrong: padding, checksums, data. */
#include "file_reader.h"

#include <hurray/crc32c.h>
#include <hurray/file_writer.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "fail.h"
#include "file_format.h"

/* Bytes that are looked at together. */
#define PIECE_SIZE ((size_t)1 << 18)

/* What is done with the bytes of a range, piece by piece. */
typedef struct Scan {
    HurrayFileReader *reader;
    uint8_t *piece; /* PIECE_SIZE bytes */
} Scan;

static size_t piece_length(uint64_t left) { return left < PIECE_SIZE ? (size_t)left : PIECE_SIZE; }

/* ---- padding ---- */

static HurrayStatus check_zeros(const Scan *scan, uint64_t begin, uint64_t end) {
    while (begin < end) {
        size_t length = piece_length(end - begin);
        HurrayStatus status = hri_file_read(scan->reader, begin, scan->piece, length);
        if (status != HURRAY_OK) return status;
        for (size_t i = 0; i < length; i++) {
            if (scan->piece[i] == 0) continue;
            return hri_fail(HURRAY_ERR_FILE_INVALID,
                            "the padding byte at %" PRIu64 " is 0x%02X, expected 0", begin + i,
                            scan->piece[i]);
        }
        begin += length;
    }
    return HURRAY_OK;
}

/* Between the descriptor and each buffer, where there is no more than alignment asks for; a longer
 * gap is nobody's (spec 4.2). */
static HurrayStatus check_padding(const Scan *scan, const HurrayFileEntry *entry,
                                  const HurrayDescriptorFields *fields, const uint64_t *offsets) {
    uint64_t end = entry->descriptor_offset + entry->descriptor_length;
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        if (offsets[i] >= end && offsets[i] - end < scan->reader->info.alignment) {
            HurrayStatus status = check_zeros(scan, end, offsets[i]);
            if (status != HURRAY_OK) return status;
        }
        end = offsets[i] + fields->buffers[i].byte_size;
    }
    /* Behind the last one only up to the next multiple of 8, which lies within the file: the trailer
     * is longer. */
    return check_zeros(scan, end, hri_file_aligned(end, HRI_FILE_SECTION_ALIGNMENT));
}

/* ---- checksums ---- */

/* The checksum that the file has for an entry; `out_there` when it has any. */
static HurrayStatus find_checksum(HurrayFileReader *reader, uint32_t entry, uint32_t *out,
                                  bool *out_there) {
    const HurrayKeyValues *metadata;
    HurrayStatus status = hurray_file_reader_metadata(reader, &metadata);
    if (status != HURRAY_OK) return status;
    const HurrayKeyValue *checksums =
        hurray_key_values_find(metadata, HURRAY_CHECKSUMS_KEY, strlen(HURRAY_CHECKSUMS_KEY));
    *out_there = checksums != NULL;
    if (checksums == NULL) return HURRAY_OK;
    if (checksums->tag != HURRAY_VALUE_BYTES ||
        checksums->values[0].text.length != 4 * (uint64_t)reader->index.count) {
        return hri_fail(HURRAY_ERR_FILE_INVALID,
                        "metadata \"" HURRAY_CHECKSUMS_KEY "\": value_tag %u and %" PRIu32
                        " bytes; expected bytes (6), 4 for each of %" PRIu32 " tensors",
                        checksums->tag,
                        checksums->tag == HURRAY_VALUE_BYTES ? checksums->values[0].text.length : 0,
                        reader->index.count);
    }
    const char *bytes = checksums->values[0].text.data;
    uint32_t position = file_index_position(&reader->index, entry);
    *out = load_u32((const uint8_t *)bytes + 4 * (size_t)position);
    return HURRAY_OK;
}

static HurrayStatus check_checksum(const Scan *scan, uint32_t number,
                                   const HurrayFileEntry *entry) {
    uint32_t expected = 0, found = 0;
    bool there;
    HurrayStatus status = find_checksum(scan->reader, number, &expected, &there);
    if (status != HURRAY_OK || !there) return status;
    for (uint64_t done = 0; done < entry->data_length;) {
        size_t length = piece_length(entry->data_length - done);
        status = hri_file_read(scan->reader, entry->data_offset + done, scan->piece, length);
        if (status != HURRAY_OK) return status;
        found = hurray_crc32c(found, scan->piece, length);
        done += length;
    }
    if (found == expected) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_FILE_INVALID,
                    "the data of %" PRIu64 " bytes at %" PRIu64 " have CRC-32C 0x%08" PRIx32
                    ", but the metadata say 0x%08" PRIx32,
                    entry->data_length, entry->data_offset, found, expected);
}

/* ---- the whole ---- */

static HurrayStatus check_data(HurrayFileReader *reader, uint32_t number, HurrayViolation *out) {
    HurrayTensor *tensor;
    HurrayStatus status = hurray_file_reader_tensor(reader, number, &tensor);
    if (status != HURRAY_OK) return status; /* names the entry */
    status = hurray_tensor_verify(tensor, out);
    hurray_tensor_release(tensor);
    return status == HURRAY_OK ? status : hri_file_fail_in(reader, number, status);
}

static HurrayStatus check_bytes(HurrayFileReader *reader, uint32_t number,
                                const HurrayDescriptorFields *fields, const uint64_t *offsets) {
    Scan scan = {reader, malloc(PIECE_SIZE)};
    if (scan.piece == NULL) return hri_fail_memory(PIECE_SIZE);
    HurrayFileEntry entry = hri_file_index_entry(&reader->index, number);
    HurrayStatus status = check_padding(&scan, &entry, fields, offsets);
    if (status == HURRAY_OK) status = check_checksum(&scan, number, &entry);
    free(scan.piece);
    return status == HURRAY_OK ? status : hri_file_fail_in(reader, number, status);
}

HurrayStatus hurray_file_reader_verify(HurrayFileReader *reader, uint64_t index, bool deep,
                                       HurrayViolation *out) {
    if (reader == NULL) return hri_fail_null("reader");
    HurrayStatus status = hri_file_check_entry(reader, index);
    if (status == HURRAY_OK) status = hri_file_check_size(reader);
    if (status != HURRAY_OK) return status;
    uint32_t number = (uint32_t)index;
    uint64_t offsets[HURRAY_MAX_BUFFERS];
    HurrayDescriptor *descriptor;
    status = hri_file_descriptor(reader, number, &descriptor, offsets);
    if (status != HURRAY_OK) return status;
    const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
    status = check_bytes(reader, number, fields, offsets);
    bool is_head = fields->layout.tag == HURRAY_LAYOUT_COMPOSITE;
    hurray_descriptor_destroy(descriptor);
    if (status != HURRAY_OK || !deep || is_head) return status;
    return check_data(reader, number, out);
}
