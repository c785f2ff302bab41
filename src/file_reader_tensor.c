/* Tensors out of a file: descriptors checked against the index, and buffers over what is there. */
#include "file_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "checked.h"
#include "fail.h"
#include "file_index_names.h"

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

static HurrayStatus decode(const HurrayFileReader *reader, const HurrayFileEntry *entry,
                           const uint8_t *bytes, HurrayDescriptor **out) {
    uint32_t length;
    HurrayStatus status = hurray_descriptor_peek_length(bytes, entry->descriptor_length, &length);
    if (status == HURRAY_OK && length != entry->descriptor_length) {
        return hri_fail(HURRAY_ERR_FILE_INVALID,
                        "descriptor_length is %" PRIu32 " in the index, but %" PRIu32
                        " in the descriptor",
                        entry->descriptor_length, length);
    }
    if (status != HURRAY_OK) return status;
    return hurray_descriptor_decode_with(bytes, length, &reader->options.decode, out);
}

/* Descriptors are short: most fit on the stack. */
#define USUAL_LENGTH 512u

static HurrayStatus read_descriptor(HurrayFileReader *reader, const HurrayFileEntry *entry,
                                    HurrayDescriptor **out) {
    uint8_t usual[USUAL_LENGTH], *bytes = usual;
    if (entry->descriptor_length > USUAL_LENGTH) bytes = malloc(entry->descriptor_length);
    if (bytes == NULL) return hri_fail_memory(entry->descriptor_length);
    HurrayStatus status =
        hri_file_read(reader, entry->descriptor_offset, bytes, entry->descriptor_length);
    if (status == HURRAY_OK) status = decode(reader, entry, bytes, out);
    if (bytes != usual) free(bytes);
    return status;
}

HurrayStatus hri_file_descriptor(HurrayFileReader *reader, uint32_t entry, HurrayDescriptor **out,
                                 uint64_t *out_offsets) {
    HurrayFileEntry where = hri_file_index_entry(&reader->index, entry);
    HurrayDescriptor *descriptor = NULL;
    HurrayStatus status = read_descriptor(reader, &where, &descriptor);
    if (status == HURRAY_OK) {
        status =
            check_against_entry(reader, &where, hurray_descriptor_fields(descriptor), out_offsets);
    }
    if (status != HURRAY_OK) {
        if (descriptor != NULL) hurray_descriptor_destroy(descriptor);
        return hri_file_fail_in(reader, entry, status);
    }
    *out = descriptor;
    return HURRAY_OK;
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
    hurray_buffer_destroy(context);
}

/* The part of `owner` that is a buffer of this handle. */
static HurrayStatus slice(HurrayBuffer *owner, uint64_t offset, const HurrayBufferHandle *handle,
                          bool read_only, HurrayBuffer **out) {
    const HurrayBufferInfo *whole = hurray_buffer_info(owner);
    bool empty = handle->byte_size == 0;
    HurrayBufferInfo info = {
        .data = empty ? NULL : (uint8_t *)whole->data + (size_t)offset,
        .byte_size = handle->byte_size,
        .alignment = handle->alignment,
        .device = {handle->device_tag, handle->memory_class, 0},
        .sync_mode = handle->sync_mode,
        .flags = whole->flags & HURRAY_BUFFER_READ_ONLY,
    };
    if (read_only) info.flags |= HURRAY_BUFFER_READ_ONLY;
    if (handle->device_tag != HURRAY_DEVICE_CPU) info.flags |= HURRAY_BUFFER_STAGED_ON_HOST;
    while (((uintptr_t)info.data & (info.alignment - 1)) != 0) info.alignment /= 2;
    HurrayStatus status = hurray_buffer_create(&info, empty ? NULL : release_owner, owner, out);
    if (status == HURRAY_OK && !empty) hurray_buffer_retain(owner);
    return status;
}

HurrayStatus hri_file_tensor(const HurrayDescriptorFields *fields, HurrayBuffer *owner,
                             const uint64_t *offsets, bool read_only, HurrayTensor **out) {
    HurrayBuffer *buffers[HURRAY_MAX_BUFFERS] = {NULL};
    HurrayStatus status = HURRAY_OK;
    uint32_t made = 0;
    while (status == HURRAY_OK && made < fields->buffer_count) {
        status = slice(owner, offsets[made], &fields->buffers[made], read_only, &buffers[made]);
        if (status == HURRAY_OK) made++;
    }
    if (status == HURRAY_OK) status = hurray_tensor_create(fields, buffers, out);
    if (status == HURRAY_OK) return status;
    while (made > 0) hurray_buffer_destroy(buffers[--made]);
    return status;
}

/* The tensor of an entry over `reader->bytes`. */
static HurrayStatus share(HurrayFileReader *reader, uint32_t entry, HurrayTensor **out) {
    HurrayDescriptor *descriptor;
    uint64_t offsets[HURRAY_MAX_BUFFERS];
    HurrayStatus status = hri_file_descriptor(reader, entry, &descriptor, offsets);
    if (status != HURRAY_OK) return status;
    const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
    status = hri_file_check_tensor(reader, entry, fields);
    if (status == HURRAY_OK) {
        status = hri_file_tensor(fields, reader->bytes, offsets, reader->read_only, out);
        if (status != HURRAY_OK) status = hri_file_fail_in(reader, entry, status);
    }
    hurray_descriptor_destroy(descriptor);
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
