/*
 * Files for tests: the golden ones, with what the manifest says is in them; files put together from
 * raw parts, right or wrong; and every way to open one.
 */
#ifndef HURRAY_TESTS_FILES_H
#define HURRAY_TESTS_FILES_H

#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700 /* fileno, pread, pwrite; before any other header */
#endif

#include "expect.h"

#include <stdio.h>
#include <unistd.h>

#include <hurray/crc32c.h>
#include <hurray/file_reader.h>
#include <hurray/file_writer.h>

#include "bytes.h"

typedef struct GoldenTensor {
    HurrayText name;
    HurrayDescriptorFields fields;
    const uint8_t *const *buffers; /* NULL where there are none */
} GoldenTensor;

typedef struct GoldenFile {
    const char *file;
    size_t count;
    const GoldenTensor *tensors; /* in order of writing */
    size_t value_count;
    const HurrayKeyValue *values; /* in no order */
} GoldenFile;

typedef struct RefusedFile {
    const char *file;
    const char *named; /* what the message has to name */
    HurrayStatus status;
} RefusedFile;

/* ---- bytes ---- */

typedef struct Bytes {
    uint8_t *data; /* 4096-aligned, to be freed with release_bytes */
    size_t size;
} Bytes;

static inline Bytes make_bytes(size_t size) {
    Bytes bytes = {hurray_aligned_alloc(size, 4096, true), size};
    assert_non_null(bytes.data);
    return bytes;
}

static inline void release_bytes(Bytes *bytes) {
    hurray_aligned_free(bytes->data);
    bytes->data = NULL;
}

static inline void vector_path(const char *file, char path[1024]) {
    const char *directory = getenv("HURRAY_VECTORS");
    if (directory == NULL) fail_msg("HURRAY_VECTORS does not say where the vectors are");
    assert_true(snprintf(path, 1024, "%s/%s", directory, file) < 1024);
}

static inline Bytes read_path(const char *path) {
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) fail_msg("cannot read %s", path);
    fseek(stream, 0, SEEK_END);
    Bytes bytes = make_bytes((size_t)ftell(stream));
    rewind(stream);
    assert_true(fread(bytes.data, 1, bytes.size, stream) == bytes.size);
    fclose(stream);
    return bytes;
}

static inline Bytes read_vector(const char *file) {
    char path[1024];
    vector_path(file, path);
    return read_path(path);
}

/* A new file without a name, open for reading and writing. */
static inline int temporary_file(void) {
    FILE *file = tmpfile();
    assert_non_null(file);
    int descriptor = dup(fileno(file));
    assert_true(descriptor >= 0);
    fclose(file);
    return descriptor;
}

static inline void write_at(int descriptor, uint64_t offset, const void *bytes, size_t size) {
    assert_true(pwrite(descriptor, bytes, size, (off_t)offset) == (ssize_t)size);
}

static inline int file_of(Bytes bytes) {
    int descriptor = temporary_file();
    write_at(descriptor, 0, bytes.data, bytes.size);
    return descriptor;
}

/* ---- files from raw parts ---- */

enum {
    HAS_KV = 1,
    SORTED = 2,
    HAS_CRC = 4
};

typedef struct RawEntry {
    const char *name;
    uint64_t descriptor_offset;
    uint32_t descriptor_length;
    uint64_t data_offset, data_length;
} RawEntry;

static inline void raw_header(uint8_t header[64], uint32_t flags, uint32_t alignment,
                              uint64_t first) {
    memset(header, 0, 64);
    memcpy(header, "HRRYFILE\1", 9);
    store_u32(header + 12, flags);
    store_u32(header + 16, alignment);
    store_u64(header + 20, first);
    store_u64(header + 28, UINT64_MAX);
}

/* Index and trailer, to stand at `offset`. */
static inline Bytes raw_tail(uint32_t flags, uint64_t offset, const RawEntry *entries,
                             size_t count) {
    size_t length = 8;
    for (size_t i = 0; i < count; i++) length += 34 + strlen(entries[i].name);
    Bytes tail = make_bytes(length + 40);
    ByteWriter writer = {.bytes = tail.data, .capacity = tail.size};
    write_u64(&writer, count);
    for (size_t i = 0; i < count; i++) {
        const RawEntry *entry = &entries[i];
        write_u16(&writer, (uint16_t)strlen(entry->name));
        write_bytes(&writer, entry->name, strlen(entry->name));
        write_u64(&writer, entry->descriptor_offset);
        write_u32(&writer, entry->descriptor_length);
        write_u64(&writer, entry->data_offset);
        write_u64(&writer, entry->data_length);
        write_u32(&writer, 0);
    }
    write_u64(&writer, offset);
    write_u64(&writer, length);
    write_zeros(&writer, 12);
    write_u32(&writer, (flags & HAS_CRC) != 0 ? hurray_crc32c(0, tail.data, length) : 0);
    write_zeros(&writer, 4);
    write_bytes(&writer, "HRRY", 4);
    return tail;
}

/* A file at alignment 4096 whose tensor region, of zeros, ends at `end`. */
static inline Bytes raw_file(uint32_t flags, uint64_t first, uint64_t end, const RawEntry *entries,
                             size_t count) {
    Bytes tail = raw_tail(flags, end, entries, count);
    Bytes file = make_bytes((size_t)end + tail.size);
    raw_header(file.data, flags, 4096, first);
    memcpy(file.data + end, tail.data, tail.size);
    release_bytes(&tail);
    return file;
}

/* The bytes of a descriptor. */
static inline Bytes encoded(const HurrayDescriptorFields *fields) {
    uint64_t size = 0;
    uintptr_t length = 0;
    expect_ok(hurray_descriptor_encoded_size(fields, &size));
    Bytes bytes = make_bytes((size_t)size);
    expect_ok(hurray_descriptor_encode(fields, bytes.data, bytes.size, &length));
    return bytes;
}

/* ---- opening ---- */

typedef enum Way {
    BY_MAP,
    BY_MAP_READ_ONLY,
    BY_READING,
    BY_MEMORY,
    BY_COPIED_MEMORY,
    BY_CALLBACKS,
    WAYS
} Way;

static inline void free_memory(void *data, void *context) {
    (void)data;
    hurray_aligned_free(context);
}

/* A copy of the bytes. */
static inline HurrayBuffer *memory_of(Bytes bytes) {
    uint8_t *copy = hurray_aligned_alloc(bytes.size, 64, false);
    assert_non_null(copy);
    if (bytes.size != 0) memcpy(copy, bytes.data, bytes.size);
    HurrayBufferInfo info = {.data = copy, .byte_size = bytes.size, .alignment = 64};
    HurrayBuffer *buffer = NULL;
    expect_ok(hurray_buffer_create(&info, free_memory, copy, &buffer));
    return buffer;
}

static inline HurrayStatus read_bytes_at(uint64_t offset, uint8_t *bytes, size_t size,
                                         void *context) {
    const Bytes *file = context;
    assert_true(offset <= file->size && size <= file->size - offset && size != 0);
    memcpy(bytes, file->data + offset, size);
    return HURRAY_OK;
}

/* Opens `bytes`, which must outlive a reader by callbacks. */
static inline HurrayStatus open_bytes(Bytes *bytes, Way way, const HurrayFileReaderOptions *more,
                                      HurrayFileReader **out) {
    HurrayFileReaderOptions options = {.access = HURRAY_FILE_MAP};
    if (more != NULL) options = *more;
    HurrayStatus status;
    if (way == BY_MAP_READ_ONLY) options.access = HURRAY_FILE_MAP_READ_ONLY;
    if (way == BY_READING || way == BY_COPIED_MEMORY) options.access = HURRAY_FILE_READ;
    if (way <= BY_READING) {
        int descriptor = file_of(*bytes);
        status = hurray_file_reader_open_descriptor(descriptor, &options, out);
        close(descriptor);
    } else if (way == BY_CALLBACKS) {
        HurrayRandomAccess access = {bytes->size, read_bytes_at, bytes, false};
        status = hurray_file_reader_open_callbacks(&access, &options, out);
    } else {
        HurrayBuffer *memory = memory_of(*bytes);
        status = hurray_file_reader_open_memory(memory, &options, out);
        hurray_buffer_destroy(memory);
    }
    return status;
}

static inline HurrayFileReader *expect_open(Bytes *bytes, Way way) {
    HurrayFileReader *reader = NULL;
    expect_ok(open_bytes(bytes, way, NULL, &reader));
    return reader;
}

/* Whether tensors lie where the file does. */
static inline bool is_shared(Way way) {
    return way == BY_MAP || way == BY_MAP_READ_ONLY || way == BY_MEMORY;
}

#endif
