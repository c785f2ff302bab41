/* Files, opened and looked into (include/hurray/file_reader.h, spec 4). */
#include "file_reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "fail.h"
#include "file_format.h"
#include "file_index_names.h"
#include "file_map.h"

/* ---- where the bytes come from ---- */

static HurrayStatus read_file_at(uint64_t offset, uint8_t *bytes, size_t size, void *context) {
    return hurray_open_file_read_at(context, offset, bytes, size);
}

static HurrayStatus read_memory_at(uint64_t offset, uint8_t *bytes, size_t size, void *context) {
    const HurrayBufferInfo *info = hurray_buffer_info(context);
    memcpy(bytes, (const uint8_t *)info->data + (size_t)offset, size);
    return HURRAY_OK;
}

HurrayStatus hri_file_read(HurrayFileReader *reader, uint64_t offset, uint8_t *bytes, size_t size) {
    if (size == 0) return HURRAY_OK;
    const HurrayRandomAccess *access = &reader->access;
    if (access->concurrent) return access->read_at(offset, bytes, size, access->context);
    pthread_mutex_lock(&reader->one_at_a_time);
    HurrayStatus status = access->read_at(offset, bytes, size, access->context);
    pthread_mutex_unlock(&reader->one_at_a_time);
    return status;
}

HurrayStatus hri_file_check_size(const HurrayFileReader *reader) {
    uint64_t size;
    if (!reader->options.check_size || reader->file.descriptor < 0) return HURRAY_OK;
    HurrayStatus status = hri_file_size(reader->file.descriptor, &size);
    if (status != HURRAY_OK || size >= reader->info.size) return status;
    return hri_fail(HURRAY_ERR_FILE_INVALID,
                    "the file had %" PRIu64 " bytes when it was opened, and has %" PRIu64 " now",
                    reader->info.size, size);
}

/* ---- opening ---- */

/* A reader that knows its options and has nothing to read from. */
static HurrayStatus begin(const HurrayFileReaderOptions *options, HurrayFileReader **out) {
    HurrayFileReaderOptions none = {.access = HURRAY_FILE_MAP};
    if (options == NULL) options = &none;
    if (options->access > HURRAY_FILE_READ) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "access is %d, expected a HURRAY_FILE_… of %d "
                        "to %d",
                        (int)options->access, HURRAY_FILE_MAP, HURRAY_FILE_READ);
    }
    HurrayFileReader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) return hri_fail_memory(sizeof *reader);
    if (pthread_mutex_init(&reader->one_at_a_time, NULL) != 0) {
        free(reader);
        return hri_fail_memory(sizeof(pthread_mutex_t));
    }
    reader->options = *options;
    if (options->allocator != NULL) {
        reader->allocator = *options->allocator;
        reader->options.allocator = &reader->allocator;
    }
    reader->file = (HurrayOpenFile){-1, options->interrupted, options->interrupt_context};
    atomic_init(&reader->metadata, NULL);
    *out = reader;
    return HURRAY_OK;
}

/* Header, trailer and index. */
static HurrayStatus read_structure(HurrayFileReader *reader) {
    uint64_t size = reader->access.size, first;
    uint32_t checksum;
    if (size < HRI_FILE_MIN_SIZE) {
        return hri_fail(HURRAY_ERR_FILE_INVALID,
                        "the file has %" PRIu64 " bytes, expected at least %u, a header and a "
                        "trailer",
                        size, HRI_FILE_MIN_SIZE);
    }
    uint8_t header[HRI_FILE_HEADER_SIZE], trailer[HRI_FILE_TRAILER_SIZE];
    HurrayStatus status = hri_file_read(reader, 0, header, sizeof header);
    if (status == HURRAY_OK) {
        status = hri_file_read(reader, size - sizeof trailer, trailer, sizeof trailer);
    }
    if (status == HURRAY_OK) {
        status = hri_file_info_decode(header, trailer, size, &reader->info, &first, &checksum);
    }
    if (status != HURRAY_OK) return status;

    size_t length;
    if (!checked_size(reader->info.index_length, &length)) {
        return hri_fail_memory(reader->info.index_length);
    }
    uint8_t *bytes = malloc(length);
    if (bytes == NULL) return hri_fail_memory(length);
    status = hri_file_read(reader, reader->info.index_offset, bytes, length);
    if (status == HURRAY_OK) {
        status = hri_file_index_create(&reader->info, first, checksum, bytes, &reader->index);
    }
    if (status != HURRAY_OK) free(bytes);
    return status;
}

/* Takes `descriptor` over, also when it fails, as it does `reader`. */
static HurrayStatus open_file(HurrayFileReader *reader, int descriptor, HurrayFileReader **out) {
    reader->file.descriptor = descriptor;
    reader->access = (HurrayRandomAccess){0, read_file_at, &reader->file, true};
    HurrayStatus status = hri_file_size(descriptor, &reader->access.size);
    if (status == HURRAY_OK) status = read_structure(reader);
    if (status == HURRAY_OK && reader->options.access != HURRAY_FILE_READ) {
        status =
            hri_file_map(descriptor, reader->info.size, reader->options.access, &reader->bytes);
        reader->shares = reader->bytes != NULL;
    }
    if (status == HURRAY_OK && reader->shares && reader->options.prefetch) {
        status = hri_file_prefetch(reader->bytes, reader->options.interrupted,
                                   reader->options.interrupt_context);
    }
    if (status != HURRAY_OK) {
        hurray_file_reader_destroy(&reader);
        return status;
    }
    *out = reader;
    return HURRAY_OK;
}

HurrayStatus hurray_file_reader_open(const char *path, const HurrayFileReaderOptions *options,
                                     HurrayFileReader **out) {
    if (path == NULL || out == NULL) return hri_fail_null(path == NULL ? "path" : "out");
    HurrayFileReader *reader;
    HurrayStatus status = begin(options, &reader);
    if (status != HURRAY_OK) return status;
    int descriptor;
    status = hri_file_open(path, &descriptor);
    if (status == HURRAY_OK) return open_file(reader, descriptor, out);
    hurray_file_reader_destroy(&reader);
    return status;
}

HurrayStatus hurray_file_reader_open_descriptor(int descriptor,
                                                const HurrayFileReaderOptions *options,
                                                HurrayFileReader **out) {
    if (out == NULL) return hri_fail_null("out");
    HurrayFileReader *reader;
    HurrayStatus status = begin(options, &reader);
    if (status != HURRAY_OK) return status;
    int duplicate;
    status = hri_file_duplicate(descriptor, &duplicate);
    if (status == HURRAY_OK) return open_file(reader, duplicate, out);
    hurray_file_reader_destroy(&reader);
    return status;
}

static HurrayStatus check_memory(const HurrayBufferInfo *info) {
    bool on_host =
        info->device.tag == HURRAY_DEVICE_CPU || (info->flags & HURRAY_BUFFER_STAGED_ON_HOST) != 0;
    if (on_host && info->sync_mode == HURRAY_SYNC_PRODUCER_SYNCED) return HURRAY_OK;
    const char *name = hurray_device_name(info->device.tag);
    return hri_fail(HURRAY_ERR_UNSUPPORTED,
                    "the bytes of the file are on device %s with sync mode %s; expected memory of "
                    "the CPU that may be read at once",
                    name == NULL ? "private" : name, hurray_sync_mode_name(info->sync_mode));
}

HurrayStatus hurray_file_reader_open_memory(HurrayBuffer *bytes,
                                            const HurrayFileReaderOptions *options,
                                            HurrayFileReader **out) {
    if (bytes == NULL || out == NULL) return hri_fail_null(bytes == NULL ? "bytes" : "out");
    const HurrayBufferInfo *info = hurray_buffer_info(bytes);
    HurrayStatus status = check_memory(info);
    if (status != HURRAY_OK) return status;
    HurrayFileReader *reader;
    status = begin(options, &reader);
    if (status != HURRAY_OK) return status;
    reader->bytes = hurray_buffer_retain(bytes);
    reader->access = (HurrayRandomAccess){info->byte_size, read_memory_at, bytes, true};
    reader->shares = reader->options.access != HURRAY_FILE_READ;
    reader->read_only = reader->options.access == HURRAY_FILE_MAP_READ_ONLY;
    status = read_structure(reader);
    if (status != HURRAY_OK) {
        hurray_file_reader_destroy(&reader);
        return status;
    }
    *out = reader;
    return HURRAY_OK;
}

HurrayStatus hurray_file_reader_open_callbacks(const HurrayRandomAccess *access,
                                               const HurrayFileReaderOptions *options,
                                               HurrayFileReader **out) {
    if (access == NULL || access->read_at == NULL || out == NULL) {
        return hri_fail_null(out == NULL ? "out" : access == NULL ? "access" : "access->read_at");
    }
    HurrayFileReader *reader;
    HurrayStatus status = begin(options, &reader);
    if (status != HURRAY_OK) return status;
    reader->access = *access;
    status = read_structure(reader);
    if (status != HURRAY_OK) {
        hurray_file_reader_destroy(&reader);
        return status;
    }
    *out = reader;
    return HURRAY_OK;
}

HurrayStatus hurray_file_reader_destroy(HurrayFileReader **reader) {
    if (reader == NULL) return hri_fail_null("reader");
    HurrayFileReader *old = *reader;
    if (old == NULL) return HURRAY_OK;
    HurrayKeyValues *metadata = atomic_load(&old->metadata);
    hurray_key_values_destroy(&metadata);
    if (old->bytes != NULL) hurray_buffer_destroy(old->bytes);
    hri_file_close(old->file.descriptor);
    hri_file_index_destroy(&old->index);
    pthread_mutex_destroy(&old->one_at_a_time);
    free(old);
    *reader = NULL;
    return HURRAY_OK;
}

/* ---- the index ---- */

const HurrayFileInfo *hurray_file_reader_info(const HurrayFileReader *reader) {
    return reader == NULL ? NULL : &reader->info;
}

uint64_t hurray_file_reader_count(const HurrayFileReader *reader) {
    return reader == NULL ? 0 : reader->index.count;
}

HurrayStatus hri_file_check_entry(const HurrayFileReader *reader, uint64_t index) {
    if (index < reader->index.count) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, "entry %" PRIu64 " of a file with %" PRIu32,
                    index, reader->index.count);
}

HurrayStatus hurray_file_reader_entry(const HurrayFileReader *reader, uint64_t index,
                                      HurrayFileEntry *out) {
    if (reader == NULL || out == NULL) return hri_fail_null(reader == NULL ? "reader" : "out");
    HurrayStatus status = hri_file_check_entry(reader, index);
    if (status != HURRAY_OK) return status;
    *out = hri_file_index_entry(&reader->index, (uint32_t)index);
    return HURRAY_OK;
}

HurrayStatus hurray_file_reader_find(const HurrayFileReader *reader, const char *name,
                                     size_t name_length, uint64_t *out_index) {
    if (reader == NULL || name == NULL || out_index == NULL) {
        return hri_fail_null(reader == NULL ? "reader" : name == NULL ? "name" : "out_index");
    }
    uint32_t entry;
    if (!hri_file_index_find(&reader->index, name, name_length, &entry)) {
        char shown[HRI_ENTRY_LABEL_SIZE];
        return hri_fail(HURRAY_ERR_NOT_FOUND, "the file has no tensor named %s",
                        hri_file_name_label(name, name_length, shown));
    }
    *out_index = entry;
    return HURRAY_OK;
}

HurrayStatus hurray_file_reader_in_order(const HurrayFileReader *reader, uint64_t position,
                                         uint64_t *out_index) {
    if (reader == NULL || out_index == NULL) {
        return hri_fail_null(reader == NULL ? "reader" : "out_index");
    }
    HurrayStatus status = hri_file_check_entry(reader, position);
    if (status == HURRAY_OK) *out_index = file_index_at(&reader->index, (uint32_t)position);
    return status;
}

/* ---- metadata ---- */

static HurrayStatus read_metadata(HurrayFileReader *reader, HurrayKeyValues **out) {
    uint32_t length = reader->info.metadata_length;
    if (length == 0) return hurray_key_values_create(out);
    uint8_t *bytes = malloc(length);
    if (bytes == NULL) return hri_fail_memory(length);
    HurrayStatus status = hri_file_read(reader, reader->info.metadata_offset, bytes, length);
    if (status == HURRAY_OK) status = hurray_key_values_decode(bytes, length, out);
    free(bytes);
    return status;
}

HurrayStatus hurray_file_reader_metadata(HurrayFileReader *reader, const HurrayKeyValues **out) {
    if (reader == NULL || out == NULL) return hri_fail_null(reader == NULL ? "reader" : "out");
    HurrayKeyValues *known = atomic_load(&reader->metadata);
    if (known == NULL) {
        HurrayKeyValues *fresh;
        HurrayStatus status = read_metadata(reader, &fresh);
        if (status != HURRAY_OK) return status;
        /* Several threads may have come this far: the first one's list is everybody's. */
        if (atomic_compare_exchange_strong(&reader->metadata, &known, fresh)) {
            known = fresh;
        } else {
            hurray_key_values_destroy(&fresh);
        }
    }
    *out = known;
    return HURRAY_OK;
}
