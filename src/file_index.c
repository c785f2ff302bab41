/* The structure of a file: header, trailer, and where the index says things are (spec 4.6). */
#include "file_index.h"

#include <hurray/crc32c.h>
#include <hurray/file_writer.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "checked.h"
#include "fail.h"
#include "file_format.h"
#include "file_index_names.h"
#include "utf8.h"

/* Bytes of the shortest entry: names have one. */
#define MIN_ENTRY_SIZE (HRI_INDEX_ENTRY_SIZE + 1u)

#define FAIL(...) hri_fail(HURRAY_ERR_FILE_INVALID, __VA_ARGS__)

/* ---- header and trailer ---- */

static HurrayStatus decode_header(const uint8_t *header, HurrayFileInfo *info, uint64_t *first) {
    ByteReader reader = {.bytes = header, .length = HRI_FILE_HEADER_SIZE};
    const uint8_t *magic = read_bytes(&reader, 8);
    if (memcmp(magic, HRI_FILE_MAGIC, 8) != 0) {
        return FAIL("header: magic is %02X %02X %02X %02X %02X %02X %02X %02X, expected \"%s\"",
                    magic[0], magic[1], magic[2], magic[3], magic[4], magic[5], magic[6], magic[7],
                    HRI_FILE_MAGIC);
    }
    info->version_major = read_u8(&reader);
    info->version_minor = read_u8(&reader);
    if (info->version_major != HRI_FILE_VERSION_MAJOR) {
        return FAIL("header: container_version_major is %u, expected %u", info->version_major,
                    HRI_FILE_VERSION_MAJOR);
    }
    if (!read_zeros(&reader, 2)) {
        return FAIL("header: the reserved bytes 10 and 11 are not zero");
    }
    info->flags = read_u32(&reader);
    if ((info->flags & ~HRI_FILE_KNOWN_FLAGS) != 0) {
        return FAIL("header: file_flags 0x%08" PRIx32 " has reserved bits, expected none above 2",
                    info->flags);
    }
    info->alignment = read_u32(&reader);
    if (!is_power_of_two_u64(info->alignment) || info->alignment < HURRAY_FILE_MIN_ALIGNMENT ||
        info->alignment > HURRAY_FILE_MAX_ALIGNMENT) {
        return FAIL("header: data_buffer_alignment is %" PRIu32
                    ", expected a power of two from %u to %u",
                    info->alignment, HURRAY_FILE_MIN_ALIGNMENT, HURRAY_FILE_MAX_ALIGNMENT);
    }
    *first = read_u64(&reader);
    info->tensor_count_hint = read_u64(&reader);
    if (!read_zeros(&reader, 28)) {
        return FAIL("header: the reserved bytes 36 to 63 are not zero");
    }
    return HURRAY_OK;
}

/* That a section lies between header and trailer. */
static HurrayStatus check_section(const char *name, uint64_t offset, uint64_t length,
                                  uint64_t size) {
    uint64_t limit = size - HRI_FILE_TRAILER_SIZE;
    if (offset % 8 != 0) {
        return FAIL("trailer: %s_offset is %" PRIu64 ", expected a multiple of 8", name, offset);
    }
    if (offset < HRI_FILE_HEADER_SIZE) {
        return FAIL("trailer: %s_offset is %" PRIu64 ", within the header of %u bytes", name,
                    offset, HRI_FILE_HEADER_SIZE);
    }
    if (offset > limit || length > limit - offset) {
        return FAIL("trailer: %s_offset %" PRIu64 " and %s_length %" PRIu64
                    " reach past the trailer, which begins at %" PRIu64,
                    name, offset, name, length, limit);
    }
    return HURRAY_OK;
}

/* Whether there is a KV section, and where: its length decides, the flag is a hint (spec 4.1). */
static HurrayStatus check_metadata_section(const HurrayFileInfo *info) {
    if (info->metadata_length == 0) {
        if (info->metadata_offset != 0) {
            return FAIL("trailer: kv_offset is %" PRIu64 " beside a kv_length of 0, expected 0",
                        info->metadata_offset);
        }
        if ((info->flags & HRI_FILE_HAS_KV_METADATA) != 0) {
            return FAIL("header: HAS_KV_METADATA is set, but the trailer's kv_length is 0");
        }
        return HURRAY_OK;
    }
    HurrayStatus status =
        check_section("kv", info->metadata_offset, info->metadata_length, info->size);
    if (status != HURRAY_OK) return status;
    if (info->metadata_offset < info->index_offset + info->index_length &&
        info->index_offset < info->metadata_offset + info->metadata_length) {
        return FAIL("trailer: the kv section of %" PRIu32 " bytes at %" PRIu64
                    " overlaps the index of %" PRIu64 " bytes at %" PRIu64,
                    info->metadata_length, info->metadata_offset, info->index_length,
                    info->index_offset);
    }
    return HURRAY_OK;
}

static HurrayStatus decode_trailer(const uint8_t *trailer, HurrayFileInfo *info,
                                   uint32_t *checksum) {
    ByteReader reader = {.bytes = trailer, .length = HRI_FILE_TRAILER_SIZE};
    info->index_offset = read_u64(&reader);
    info->index_length = read_u64(&reader);
    info->metadata_offset = read_u64(&reader);
    info->metadata_length = read_u32(&reader);
    *checksum = read_u32(&reader);
    bool reserved_is_zero = read_zeros(&reader, 4);
    const uint8_t *magic = read_bytes(&reader, 4);
    if (memcmp(magic, HRI_FILE_END_MAGIC, 4) != 0) {
        return FAIL(
            "trailer: magic is %02X %02X %02X %02X, expected \"%s\" in the file's last 4 bytes",
            magic[0], magic[1], magic[2], magic[3], HRI_FILE_END_MAGIC);
    }
    if (!reserved_is_zero) return FAIL("trailer: the reserved bytes 32 to 35 are not zero");
    HurrayStatus status =
        check_section("index", info->index_offset, info->index_length, info->size);
    if (status != HURRAY_OK) return status;
    if (info->index_length < HRI_INDEX_PREFIX_SIZE) {
        return FAIL("trailer: index_length is %" PRIu64 ", expected at least %u",
                    info->index_length, HRI_INDEX_PREFIX_SIZE);
    }
    if ((info->flags & HRI_FILE_HAS_INDEX_CRC32C) == 0 && *checksum != 0) {
        return FAIL("trailer: index_crc32c is 0x%08" PRIx32
                    ", but HAS_INDEX_CRC32C is not set; expected 0",
                    *checksum);
    }
    return check_metadata_section(info);
}

HurrayStatus hri_file_info_decode(const uint8_t *header, const uint8_t *trailer, uint64_t size,
                                  HurrayFileInfo *out, uint64_t *out_first_descriptor,
                                  uint32_t *out_checksum) {
    HurrayFileInfo info = {.size = size};
    uint64_t first = 0;
    HurrayStatus status = decode_header(header, &info, &first);
    if (status == HURRAY_OK) status = decode_trailer(trailer, &info, out_checksum);
    if (status != HURRAY_OK) return status;
    if (first < HRI_FILE_HEADER_SIZE || first % 8 != 0 || first >= size) {
        return FAIL("header: first_descriptor_offset is %" PRIu64
                    ", expected a multiple of 8 from %u within the file of %" PRIu64 " bytes",
                    first, HRI_FILE_HEADER_SIZE, size);
    }
    *out = info;
    *out_first_descriptor = first;
    return HURRAY_OK;
}

/* ---- entries ---- */

HurrayFileEntry hri_file_index_entry(const FileIndex *index, uint32_t entry) {
    const uint8_t *bytes = index->bytes + index->places[entry];
    uint32_t name_length = load_u16(bytes);
    const uint8_t *fields = bytes + 2 + name_length;
    return (HurrayFileEntry){
        .name = (const char *)bytes + 2,
        .name_length = name_length,
        .descriptor_offset = load_u64(fields),
        .descriptor_length = load_u32(fields + 8),
        .data_offset = load_u64(fields + 12),
        .data_length = load_u64(fields + 20),
    };
}

#define FAIL_ENTRY(index, number, format, ...) \
    FAIL("index, %s: " format,                 \
         hri_file_entry_label((index), (number), (char[HRI_ENTRY_LABEL_SIZE]){0}), __VA_ARGS__)

/* What entries have to stay within. */
typedef struct Region {
    uint64_t begin; /* first_descriptor_offset */
    uint64_t end;   /* where the first section after the tensors begins */
    uint32_t alignment;
} Region;

static Region tensor_region(const HurrayFileInfo *info, uint64_t first) {
    uint64_t end = info->index_offset;
    if (info->metadata_length != 0 && info->metadata_offset < end) end = info->metadata_offset;
    return (Region){first, end, info->alignment};
}

static bool is_inside(const Region *region, uint64_t offset, uint64_t length) {
    return offset >= region->begin && offset <= region->end && length <= region->end - offset;
}

/* One entry by itself; its name is known to be good. */
static HurrayStatus check_entry(const FileIndex *index, uint32_t number, const Region *region) {
    HurrayFileEntry entry = hri_file_index_entry(index, number);
    if (entry.descriptor_offset % 8 != 0) {
        return FAIL_ENTRY(index, number,
                          "descriptor_offset is %" PRIu64 ", expected a multiple of 8",
                          entry.descriptor_offset);
    }
    if (entry.descriptor_length < HURRAY_DESCRIPTOR_HEADER_SIZE) {
        return FAIL_ENTRY(index, number, "descriptor_length is %" PRIu32 ", expected at least %u",
                          entry.descriptor_length, HURRAY_DESCRIPTOR_HEADER_SIZE);
    }
    if (!is_inside(region, entry.descriptor_offset, entry.descriptor_length)) {
        return FAIL_ENTRY(index, number,
                          "the descriptor of %" PRIu32 " bytes at %" PRIu64
                          " lies outside the tensor region, from %" PRIu64
                          " (first_descriptor_offset) to %" PRIu64,
                          entry.descriptor_length, entry.descriptor_offset, region->begin,
                          region->end);
    }
    if (entry.data_length != 0 && entry.data_offset % region->alignment != 0) {
        return FAIL_ENTRY(index, number,
                          "data_offset is %" PRIu64
                          ", expected a multiple of data_buffer_alignment, %" PRIu32,
                          entry.data_offset, region->alignment);
    }
    if (!is_inside(region, entry.data_offset, entry.data_length)) {
        return FAIL_ENTRY(index, number,
                          "the data of %" PRIu64 " bytes at data_offset %" PRIu64
                          " lies outside the tensor region, from %" PRIu64 " to %" PRIu64,
                          entry.data_length, entry.data_offset, region->begin, region->end);
    }
    return HURRAY_OK;
}

/* Steps over the entry at `reader`; its fields are looked at once it is known to be whole. */
static HurrayStatus step_entry(ByteReader *reader, uint32_t number, uint32_t count) {
    uint32_t name_length = read_u16(reader);
    const uint8_t *name = read_bytes(reader, name_length);
    read_bytes(reader, HRI_INDEX_ENTRY_SIZE - 6); /* between the name and the flags */
    uint32_t flags = read_u32(reader);
    if (reader->failed) {
        return FAIL("index: the count is %" PRIu32 ", but entry %" PRIu32
                    " reaches past the end of the section (%zu bytes)",
                    count, number, reader->length);
    }
    if (name_length == 0) return FAIL("index, entry %" PRIu32 ": the name is empty", number);
    if (hri_utf8_valid_length(name, name_length) != name_length) {
        return FAIL("index, entry %" PRIu32 ": the name of %" PRIu32 " bytes is not UTF-8", number,
                    name_length);
    }
    if (flags != 0) {
        return FAIL("index, entry %" PRIu32 ": flags are 0x%08" PRIx32 ", expected 0", number,
                    flags);
    }
    return HURRAY_OK;
}

static HurrayStatus read_entries(const Region *region, size_t length, FileIndex *index) {
    ByteReader reader = {
        .bytes = index->bytes, .length = length, .position = HRI_INDEX_PREFIX_SIZE};
    for (uint32_t i = 0; i < index->count; i++) {
        index->places[i] = reader.position;
        HurrayStatus status = step_entry(&reader, i, index->count);
        if (status == HURRAY_OK) status = check_entry(index, i, region);
        if (status != HURRAY_OK) return status;
    }
    if (reader_left(&reader) != 0) {
        return FAIL("index: %zu bytes follow its %" PRIu32 " entries, expected none",
                    reader_left(&reader), index->count);
    }
    return HURRAY_OK;
}

/* ---- order ---- */

typedef struct Keyed {
    uint64_t key;
    uint64_t item;
} Keyed;

/* Sorts by key, stably: a pass for each byte in which the keys differ, so in linear time whatever
 * they are. Returns which of the two arrays holds the result. */
static Keyed *sort_by_key(Keyed *from, Keyed *to, size_t count) {
    uint64_t differing = 0;
    for (size_t i = 1; i < count; i++) differing |= from[i].key ^ from[0].key;
    for (unsigned shift = 0; shift < 64; shift += 8) {
        if ((differing >> shift & 0xFF) == 0) continue;
        size_t starts[257] = {0};
        for (size_t i = 0; i < count; i++) starts[(from[i].key >> shift & 0xFF) + 1]++;
        for (size_t i = 0; i < 256; i++) starts[i + 1] += starts[i];
        for (size_t i = 0; i < count; i++) {
            to[starts[from[i].key >> shift & 0xFF]++] = from[i];
        }
        Keyed *sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

/* Room for sorting `count` keys: two arrays. */
static HurrayStatus allocate_keys(uint64_t count, Keyed **out) {
    uint64_t bytes;
    size_t size;
    if (!checked_mul_u64(count, 2 * sizeof(Keyed), &bytes) || !checked_size(bytes, &size)) {
        return hri_fail_memory(UINT64_MAX);
    }
    *out = malloc(size);
    return *out == NULL ? hri_fail_memory(bytes) : HURRAY_OK;
}

static HurrayStatus order_by_offset(FileIndex *index) {
    uint64_t previous = 0;
    bool ascending = true;
    for (uint32_t i = 0; i < index->count && ascending; i++) {
        uint64_t offset = hri_file_index_entry(index, i).descriptor_offset;
        ascending = offset >= previous;
        previous = offset;
    }
    if (ascending) return HURRAY_OK;

    Keyed *keys;
    HurrayStatus status = allocate_keys(index->count, &keys);
    if (status != HURRAY_OK) return status;
    size_t bytes = index->count * sizeof(uint32_t);
    index->by_offset = malloc(bytes);
    index->position = malloc(bytes);
    if (index->by_offset == NULL || index->position == NULL) {
        status = hri_fail_memory(bytes);
        goto done;
    }
    for (uint32_t i = 0; i < index->count; i++) {
        keys[i] = (Keyed){hri_file_index_entry(index, i).descriptor_offset, i};
    }
    const Keyed *sorted = sort_by_key(keys, keys + index->count, index->count);
    for (uint32_t i = 0; i < index->count; i++) {
        index->by_offset[i] = (uint32_t)sorted[i].item;
        index->position[sorted[i].item] = i;
    }
done:
    free(keys);
    return status;
}

/* ---- overlap ---- */

/* Whether each descriptor is followed by its data, and that by the next descriptor, as a writer lays
 * them out: then nothing overlaps. */
static bool is_laid_out_in_order(const FileIndex *index) {
    uint64_t end = 0;
    for (uint32_t i = 0; i < index->count; i++) {
        HurrayFileEntry entry = hri_file_index_entry(index, file_index_at(index, i));
        if (entry.descriptor_offset < end) return false;
        end = entry.descriptor_offset + entry.descriptor_length;
        if (entry.data_length == 0) continue;
        if (entry.data_offset < end) return false;
        end = entry.data_offset + entry.data_length;
    }
    return true;
}

/* An extent is the descriptor of entry item / 2, or its data. */
static uint64_t extent_end(const FileIndex *index, uint64_t item) {
    HurrayFileEntry entry = hri_file_index_entry(index, (uint32_t)(item / 2));
    return item % 2 == 0 ? entry.descriptor_offset + entry.descriptor_length
                         : entry.data_offset + entry.data_length;
}

static HurrayStatus fail_overlap(const FileIndex *index, const Keyed *a, const Keyed *b) {
    char first[HRI_ENTRY_LABEL_SIZE], second[HRI_ENTRY_LABEL_SIZE];
    return FAIL("index: the %s of %s, at %" PRIu64 " to %" PRIu64
                ", and the %s of %s, from %" PRIu64 ", overlap",
                a->item % 2 == 0 ? "descriptor" : "data",
                hri_file_entry_label(index, (uint32_t)(a->item / 2), first), a->key,
                extent_end(index, a->item), b->item % 2 == 0 ? "descriptor" : "data",
                hri_file_entry_label(index, (uint32_t)(b->item / 2), second), b->key);
}

static HurrayStatus check_overlap(const FileIndex *index) {
    if (is_laid_out_in_order(index)) return HURRAY_OK;
    Keyed *keys;
    HurrayStatus status = allocate_keys(2 * (uint64_t)index->count, &keys);
    if (status != HURRAY_OK) return status;
    size_t extents = 0;
    for (uint32_t i = 0; i < index->count; i++) {
        HurrayFileEntry entry = hri_file_index_entry(index, i);
        keys[extents++] = (Keyed){entry.descriptor_offset, 2 * (uint64_t)i};
        if (entry.data_length == 0) continue; /* nothing overlaps nothing */
        keys[extents++] = (Keyed){entry.data_offset, 2 * (uint64_t)i + 1};
    }
    const Keyed *sorted = sort_by_key(keys, keys + extents, extents);
    for (size_t i = 1; status == HURRAY_OK && i < extents; i++) {
        if (extent_end(index, sorted[i - 1].item) > sorted[i].key) {
            status = fail_overlap(index, &sorted[i - 1], &sorted[i]);
        }
    }
    free(keys);
    return status;
}

/* ---- the whole ---- */

static HurrayStatus check_checksum(const HurrayFileInfo *info, uint32_t checksum,
                                   const uint8_t *bytes) {
    if ((info->flags & HRI_FILE_HAS_INDEX_CRC32C) == 0) return HURRAY_OK;
    uint32_t found = hurray_crc32c(0, bytes, (size_t)info->index_length);
    if (found == checksum) return HURRAY_OK;
    return FAIL("index: its CRC-32C is 0x%08" PRIx32
                ", but index_crc32c in the trailer 0x%08" PRIx32,
                found, checksum);
}

static HurrayStatus check_count(const HurrayFileInfo *info, uint64_t count) {
    if (count > (info->index_length - HRI_INDEX_PREFIX_SIZE) / MIN_ENTRY_SIZE) {
        return FAIL("index: the count is %" PRIu64 ", more than its %" PRIu64 " bytes can hold",
                    count, info->index_length);
    }
    if (count >= UINT32_MAX || count > SIZE_MAX / sizeof(uint64_t)) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "index: the count is %" PRIu64 ", more than this library indexes", count);
    }
    return HURRAY_OK;
}

static HurrayStatus check_first(const FileIndex *index, uint64_t first) {
    if (index->count == 0) return HURRAY_OK;
    HurrayFileEntry entry = hri_file_index_entry(index, file_index_at(index, 0));
    if (entry.descriptor_offset == first) return HURRAY_OK;
    return FAIL("header: first_descriptor_offset is %" PRIu64
                ", but the smallest descriptor_offset in the index %" PRIu64,
                first, entry.descriptor_offset);
}

HurrayStatus hri_file_index_create(const HurrayFileInfo *info, uint64_t first_descriptor,
                                   uint32_t checksum, uint8_t *bytes, FileIndex *out) {
    HurrayStatus status = check_checksum(info, checksum, bytes);
    if (status != HURRAY_OK) return status;
    uint64_t count = load_u64(bytes);
    status = check_count(info, count);
    if (status != HURRAY_OK) return status;

    FileIndex index = {.bytes = bytes, .count = (uint32_t)count};
    size_t places = (size_t)count * sizeof(uint64_t);
    index.places = malloc(places == 0 ? 1 : places);
    if (index.places == NULL) return hri_fail_memory(places);
    Region region = tensor_region(info, first_descriptor);
    status = read_entries(&region, (size_t)info->index_length, &index);
    if (status == HURRAY_OK) {
        status = hri_file_index_names(&index, (info->flags & HRI_FILE_SORTED_INDEX) != 0);
    }
    if (status == HURRAY_OK) status = order_by_offset(&index);
    if (status == HURRAY_OK) status = check_first(&index, first_descriptor);
    if (status == HURRAY_OK) status = check_overlap(&index);
    if (status != HURRAY_OK) {
        index.bytes = NULL; /* stays the caller's */
        hri_file_index_destroy(&index);
        return status;
    }
    *out = index;
    return HURRAY_OK;
}

void hri_file_index_destroy(FileIndex *index) {
    hri_name_table_clear(&index->names);
    free(index->position);
    free(index->by_offset);
    free(index->places);
    free(index->bytes);
    *index = (FileIndex){0};
}
