/*
 * A file from anywhere: refused with a sentence, or everything in it is where its index says, whoever
 * reads it. Files are looked at as they are, and once more with the checksum of the index switched off,
 * which else no change of the index would pass.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <hurray/file_reader.h>

#include "fuzz.h"

/* Entries of one file; more are not looked at. */
#define MOST 256

typedef struct File {
    uint8_t *bytes; /* 64-aligned */
    size_t size;
} File;

static HurrayStatus read_at(uint64_t offset, uint8_t *bytes, size_t size, void *context) {
    const File *file = context;
    require(size > 0 && offset <= file->size && size <= file->size - offset);
    memcpy(bytes, file->bytes + offset, size);
    return HURRAY_OK;
}

static HurrayStatus open_shared(const File *file, const HurrayFileReaderOptions *options,
                                HurrayFileReader **out) {
    HurrayBufferInfo info = {.data = file->bytes, .byte_size = file->size, .alignment = 64};
    HurrayBuffer *buffer = NULL;
    require(hurray_buffer_create(&info, NULL, NULL, &buffer) == HURRAY_OK);
    HurrayStatus status = hurray_file_reader_open_memory(buffer, options, out);
    hurray_buffer_destroy(buffer);
    return status;
}

/* Entry i is found by its name, and the order of writing is one, of places that ascend. */
static void check_index(HurrayFileReader *reader, const File *file) {
    uint64_t count = hurray_file_reader_count(reader), end = 0;
    for (uint64_t i = 0; i < count && i < MOST; i++) {
        HurrayFileEntry entry;
        uint64_t found, next;
        require(hurray_file_reader_entry(reader, i, &entry) == HURRAY_OK);
        require(hurray_file_reader_find(reader, entry.name, entry.name_length, &found) ==
                HURRAY_OK);
        require(found == i);
        require(entry.data_offset <= file->size);
        require(entry.data_length <= file->size - entry.data_offset);
        require(hurray_file_reader_in_order(reader, i, &next) == HURRAY_OK);
        require(hurray_file_reader_entry(reader, next, &entry) == HURRAY_OK);
        require(entry.descriptor_offset >= end);
        end = entry.descriptor_offset + entry.descriptor_length;
    }
    HurrayFileEntry none;
    require(hurray_file_reader_entry(reader, count, &none) == HURRAY_ERR_INDEX_OUT_OF_BOUNDS);
}

/* Both have the same bytes, and the first has those of the file. */
static void compare(const HurrayTensor *shared, const HurrayTensor *read, const File *file) {
    const HurrayDescriptorFields *fields = hurray_tensor_fields(shared);
    require(fields->buffer_count == hurray_tensor_fields(read)->buffer_count);
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        const HurrayBufferInfo *a = hurray_buffer_info(hurray_tensor_buffer(shared, i));
        const HurrayBufferInfo *b = hurray_buffer_info(hurray_tensor_buffer(read, i));
        require(a->byte_size == b->byte_size);
        if (a->byte_size == 0) continue;
        const uint8_t *data = a->data;
        require(data >= file->bytes && a->byte_size <= file->size);
        require((size_t)(data - file->bytes) <= file->size - a->byte_size);
        require(memcmp(data, b->data, (size_t)a->byte_size) == 0);
    }
}

static void check_tensor(HurrayFileReader *shared, HurrayFileReader *read, uint64_t i,
                         const File *file) {
    HurrayTensor *a = NULL, *b = NULL;
    HurrayStatus status = hurray_file_reader_tensor(shared, i, &a);
    require(hurray_file_reader_tensor(read, i, &b) == status);
    require((status == HURRAY_OK) == (a != NULL) && (a == NULL) == (b == NULL));
    if (a != NULL) compare(a, b, file);
    hurray_tensor_release(a);
    hurray_tensor_release(b);
    a = b = NULL;
    status = hurray_file_reader_rows(shared, i, 1, 2, &a);
    require(hurray_file_reader_rows(read, i, 1, 2, &b) == status);
    hurray_tensor_release(a);
    hurray_tensor_release(b);
}

static void check_whole(HurrayFileReader *shared, HurrayFileReader *read, const File *file) {
    const HurrayKeyValues *values;
    uint64_t roots = 0;
    (void)hurray_file_reader_metadata(shared, &values);
    HurrayStatus whole = hurray_file_reader_roots(shared, NULL, 0, &roots);
    require(roots <= hurray_file_reader_count(shared));
    for (uint64_t i = 0; i < hurray_file_reader_count(shared) && i < MOST; i++) {
        uint64_t first = 0, end = 0;
        HurrayStatus item = hurray_file_reader_item(shared, i, &first, &end);
        if (item == HURRAY_OK) {
            require(first < end && end <= hurray_file_reader_count(shared));
        }
        check_tensor(shared, read, i, file);
        HurrayStatus verdict = hurray_file_reader_verify(shared, i, true, NULL);
        require(hurray_file_reader_verify(read, i, true, NULL) == verdict);
        if (verdict != HURRAY_OK) require(hurray_error_message()[0] != '\0');
    }
    (void)whole;
}

static void look_at(File *file, bool permissive) {
    HurrayFileReaderOptions options = {.decode = {.permissive = permissive}};
    HurrayRandomAccess access = {file->size, read_at, file, true};
    HurrayFileReader *shared = NULL, *read = NULL;
    HurrayStatus status = open_shared(file, &options, &shared);
    require(hurray_file_reader_open_callbacks(&access, &options, &read) == status);
    if (status == HURRAY_OK) {
        check_index(shared, file);
        check_whole(shared, read, file);
    } else {
        require(shared == NULL && read == NULL && hurray_error_message()[0] != '\0');
    }
    require(hurray_file_reader_destroy(&shared) == HURRAY_OK);
    require(hurray_file_reader_destroy(&read) == HURRAY_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    File file = {hurray_aligned_alloc(size, 64, false), size};
    require(file.bytes != NULL);
    if (size != 0) memcpy(file.bytes, data, size);
    look_at(&file, size % 2 == 1);
    if (size >= 104) {
        file.bytes[12] &= (uint8_t)~4u;
        memset(file.bytes + size - 12, 0, 4);
        look_at(&file, size % 2 == 0);
    }
    hurray_aligned_free(file.bytes);
    return 0;
}
