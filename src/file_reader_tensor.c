/* Tensors out of a file: descriptors checked against the index, and buffers over what is there. */
#include "file_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "checked.h"
#include "descriptor.h"
#include "fail.h"
#include "file_index_names.h"
#include "tensor.h"

HurrayStatus hri_file_fail_in(const HurrayFileReader *reader, uint32_t entry, HurrayStatus status) {
    /* An errno would be lost; and the system did not fail because of an entry. */
    if (status == HURRAY_ERR_IO || status == HURRAY_ERR_INTERRUPTED ||
        status == HURRAY_ERR_OUT_OF_MEMORY) {
        return status;
    }
    char message[512], label[HRI_ENTRY_LABEL_SIZE];
    snprintf(message, sizeof message, "%s", hurray_error_message());
    return hri_fail(status, "%s: %s", hri_file_entry_label(&reader->index, entry, label), message);
}

/* ---- descriptors ---- */

/* Where buffer after buffer begins (spec 4.2), and the length of the whole; false when that is 2^64
 * or more. */
static bool place_buffers(const HurrayDescriptorFields *fields, uint64_t data_offset,
                          uint32_t alignment, uint64_t *offsets, uint64_t *out_length) {
    uint64_t end = data_offset;
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        if (!checked_add_u64(end, alignment - 1, &end)) return false;
        offsets[i] = end & ~(uint64_t)(alignment - 1);
        if (!checked_add_u64(offsets[i], fields->buffers[i].byte_size, &end)) return false;
    }
    *out_length = end - data_offset;
    return true;
}

static HurrayStatus check_against_entry(const HurrayFileReader *reader,
                                        const HurrayFileEntry *entry,
                                        const HurrayDescriptorFields *fields, uint64_t *offsets) {
    uint32_t alignment = reader->info.alignment;
    if (fields->buffer_count != 0 && entry->data_offset % alignment != 0) {
        return hri_fail(HURRAY_ERR_FILE_INVALID,
                        "data_offset is %" PRIu64
                        ", expected a multiple of data_buffer_alignment, %" PRIu32,
                        entry->data_offset, alignment);
    }
    uint64_t length;
    if (!place_buffers(fields, entry->data_offset, alignment, offsets, &length)) {
        return hri_fail(HURRAY_ERR_FILE_INVALID,
                        "data_length is %" PRIu64
                        ", but the buffers of the descriptor take 2^64 bytes or more",
                        entry->data_length);
    }
    if (length == entry->data_length) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_FILE_INVALID,
                    "data_length is %" PRIu64 ", but the %" PRIu32
                    " buffers of the descriptor take %" PRIu64 " bytes at alignment %" PRIu32,
                    entry->data_length, fields->buffer_count, length, alignment);
}

static HurrayStatus check_length(const HurrayFileEntry *entry, const uint8_t *bytes) {
    uint32_t length;
    HurrayStatus status = hurray_descriptor_peek_length(bytes, entry->descriptor_length, &length);
    if (status == HURRAY_OK && length != entry->descriptor_length) {
        return hri_fail(HURRAY_ERR_FILE_INVALID,
                        "descriptor_length is %" PRIu32 " in the index, but %" PRIu32
                        " in the descriptor",
                        entry->descriptor_length, length);
    }
    return status;
}

/* Where a descriptor is decoded to: into a block of its own, or for a look. */
typedef struct Decoded {
    HurrayDescriptor *block; /* NULL: there is none */
    DescriptorScratch *scratch;
    const HurrayDescriptorFields *fields;
} Decoded;

/* A look when there is a scratch. */
static HurrayStatus decode(const HurrayFileReader *reader, const HurrayFileEntry *entry,
                           const uint8_t *bytes, Decoded *out) {
    HurrayStatus status = check_length(entry, bytes);
    if (status != HURRAY_OK) return status;
    if (out->scratch != NULL) {
        return hri_descriptor_decode_scratch(bytes, entry->descriptor_length,
                                             &reader->options.decode, out->scratch, &out->fields);
    }
    status = hurray_descriptor_decode_with(bytes, entry->descriptor_length, &reader->options.decode,
                                           &out->block);
    if (status == HURRAY_OK) out->fields = hurray_descriptor_fields(out->block);
    return status;
}

static HurrayStatus read_descriptor(HurrayFileReader *reader, const HurrayFileEntry *entry,
                                    Decoded *out) {
    uint8_t usual[HRI_USUAL_DESCRIPTOR_SIZE], *bytes = usual;
    if (entry->descriptor_length > sizeof usual) bytes = malloc(entry->descriptor_length);
    if (bytes == NULL) return hri_fail_memory(entry->descriptor_length);
    HurrayStatus status =
        hri_file_read(reader, entry->descriptor_offset, bytes, entry->descriptor_length);
    if (status == HURRAY_OK) status = decode(reader, entry, bytes, out);
    if (bytes != usual) free(bytes);
    return status;
}

static void discard(Decoded *decoded) {
    if (decoded->fields == NULL) return;
    if (decoded->scratch != NULL) {
        hri_descriptor_scratch_free(decoded->scratch);
    } else {
        hurray_descriptor_destroy(decoded->block);
    }
}

/* On success what `out` holds is the caller's to discard. */
static HurrayStatus read_checked(HurrayFileReader *reader, uint32_t entry, Decoded *out,
                                 uint64_t *out_offsets) {
    HurrayFileEntry where = hri_file_index_entry(&reader->index, entry);
    HurrayStatus status = read_descriptor(reader, &where, out);
    if (status == HURRAY_OK) status = check_against_entry(reader, &where, out->fields, out_offsets);
    if (status == HURRAY_OK) return status;
    discard(out);
    return hri_file_fail_in(reader, entry, status);
}

HurrayStatus hri_file_descriptor(HurrayFileReader *reader, uint32_t entry, HurrayDescriptor **out,
                                 uint64_t *out_offsets) {
    Decoded decoded = {NULL, NULL, NULL};
    HurrayStatus status = read_checked(reader, entry, &decoded, out_offsets);
    if (status == HURRAY_OK) *out = decoded.block;
    return status;
}

HurrayStatus hurray_file_reader_descriptor(HurrayFileReader *reader, uint64_t index,
                                           HurrayDescriptor **out) {
    if (reader == NULL || out == NULL) return hri_fail_null(reader == NULL ? "reader" : "out");
    HurrayStatus status = hri_file_check_entry(reader, index);
    uint64_t offsets[HURRAY_MAX_BUFFERS];
    return status != HURRAY_OK ? status
                               : hri_file_descriptor(reader, (uint32_t)index, out, offsets);
}

/* ---- tensors over memory ---- */

static void release_owner(void *data, void *context) {
    (void)data;
    HurrayBuffer *owner;
    memcpy(&owner, context, sizeof owner);
    hurray_buffer_destroy(owner);
}

/* The part of `whole` that is a buffer of this handle. False when its address is not as aligned as the
 * handle says, which the part then does not say. */
static bool cut(const HurrayBufferInfo *whole, uint64_t offset, const HurrayBufferHandle *handle,
                bool read_only, HurrayBufferInfo *out) {
    *out = (HurrayBufferInfo){
        .data = handle->byte_size == 0 ? NULL : (uint8_t *)whole->data + (size_t)offset,
        .byte_size = handle->byte_size,
        .alignment = handle->alignment,
        .device = {handle->device_tag, handle->memory_class, 0},
        .sync_mode = handle->sync_mode,
        .flags = whole->flags & HURRAY_BUFFER_READ_ONLY,
    };
    if (read_only) out->flags |= HURRAY_BUFFER_READ_ONLY;
    if (handle->device_tag != HURRAY_DEVICE_CPU) out->flags |= HURRAY_BUFFER_STAGED_ON_HOST;
    while (((uintptr_t)out->data & (out->alignment - 1)) != 0) out->alignment /= 2;
    return out->alignment == handle->alignment;
}

HurrayStatus hri_file_tensor(const HurrayDescriptorFields *fields, bool valid, HurrayBuffer *owner,
                             const uint64_t *offsets, bool read_only, HurrayTensor **out) {
    HurrayBufferInfo infos[HURRAY_MAX_BUFFERS];
    HurrayBuffer *buffers[HURRAY_MAX_BUFFERS];
    const HurrayBufferInfo *whole = hurray_buffer_info(owner);
    uint32_t count = fields->buffer_count;
    if (count == 0) return hurray_tensor_create(fields, buffers, out);
    for (uint32_t i = 0; i < count; i++) {
        valid &= cut(whole, offsets[i], &fields->buffers[i], read_only, &infos[i]);
    }
    HurrayStatus status =
        hri_buffers_create(infos, count, release_owner, &owner, sizeof owner, buffers);
    if (status != HURRAY_OK) return status;
    hurray_buffer_retain(owner);
    status = valid ? hri_tensor_create_checked(fields, buffers, out)
                   : hurray_tensor_create(fields, buffers, out);
    if (status != HURRAY_OK) hri_buffers_drop(buffers, count);
    return status;
}

/* The tensor of an entry over `reader->bytes`. */
static HurrayStatus share(HurrayFileReader *reader, uint32_t entry, HurrayTensor **out) {
    DescriptorScratch scratch;
    Decoded decoded = {NULL, &scratch, NULL};
    uint64_t offsets[HURRAY_MAX_BUFFERS];
    HurrayStatus status = read_checked(reader, entry, &decoded, offsets);
    if (status != HURRAY_OK) return status;
    status = hri_file_check_tensor(reader, entry, decoded.fields);
    if (status == HURRAY_OK) {
        status =
            hri_file_tensor(decoded.fields, true, reader->bytes, offsets, reader->read_only, out);
        if (status != HURRAY_OK) status = hri_file_fail_in(reader, entry, status);
    }
    discard(&decoded);
    return status;
}

HurrayStatus hri_file_check_tensor(const HurrayFileReader *reader, uint32_t entry,
                                   const HurrayDescriptorFields *fields) {
    if (fields->layout.tag != HURRAY_LAYOUT_COMPOSITE) return HURRAY_OK;
    char label[HRI_ENTRY_LABEL_SIZE];
    return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                    "%s is the head of a composite, which has no data of its own",
                    hri_file_entry_label(&reader->index, entry, label));
}

HurrayStatus hurray_file_reader_tensor(HurrayFileReader *reader, uint64_t index,
                                       HurrayTensor **out) {
    return hurray_file_reader_tensors(reader, &index, 1, 1, out);
}

/* Tensors over shared memory: all or none. */
static HurrayStatus share_all(HurrayFileReader *reader, const uint64_t *indices, size_t count,
                              HurrayTensor **out) {
    HurrayTensor *one, **made = &one;
    if (count > 1) made = malloc(count * sizeof(HurrayTensor *));
    if (made == NULL) return hri_fail_memory(count * sizeof(HurrayTensor *));
    HurrayStatus status = HURRAY_OK;
    size_t done = 0;
    while (done < count) {
        status = share(reader, (uint32_t)indices[done], &made[done]);
        if (status != HURRAY_OK) break;
        done++;
    }
    if (status == HURRAY_OK) {
        for (size_t i = 0; i < count; i++) out[i] = made[i];
    } else {
        while (done > 0) hurray_tensor_release(made[--done]);
    }
    if (made != &one) free(made);
    return status;
}

HurrayStatus hurray_file_reader_tensors(HurrayFileReader *reader, const uint64_t *indices,
                                        uint64_t count, uint32_t threads, HurrayTensor **out) {
    if (reader == NULL) return hri_fail_null("reader");
    if (count == 0) return HURRAY_OK;
    if (indices == NULL || out == NULL) return hri_fail_null(indices == NULL ? "indices" : "out");
    HurrayStatus status = HURRAY_OK;
    for (uint64_t i = 0; status == HURRAY_OK && i < count; i++) {
        status = hri_file_check_entry(reader, indices[i]);
    }
    if (status == HURRAY_OK) status = hri_file_check_size(reader);
    if (status != HURRAY_OK) return status;
    size_t size;
    if (count > UINT64_MAX / sizeof(HurrayTensor *) ||
        !checked_size(count * sizeof(HurrayTensor *), &size)) {
        return hri_fail_memory(UINT64_MAX);
    }
    if (reader->shares) return share_all(reader, indices, (size_t)count, out);
    return hri_file_load(reader, indices, (size_t)count, threads, out);
}
