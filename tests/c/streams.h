/*
 * Streams for tests: the golden ones, with what the manifest says is in them; sources that give
 * their bytes in pieces; and reading everything there is.
 */
#ifndef HURRAY_TESTS_STREAMS_H
#define HURRAY_TESTS_STREAMS_H

#include "expect.h"

#include <stdio.h>

#include <hurray/io.h>
#include <hurray/stream_reader.h>
#include <hurray/stream_writer.h>

#include "random.h"

/* A descriptor of a stream, and the bytes of its buffers. */
typedef struct GoldenPart {
    HurrayDescriptorFields fields;
    const uint8_t *const *buffers; /* NULL where there are none */
} GoldenPart;

typedef struct GoldenStream {
    const char *file;
    size_t count;
    const GoldenPart *parts;
} GoldenStream;

#include "streams_table.h"

#define GOLDEN_COUNT (sizeof golden_streams / sizeof golden_streams[0])

/* The golden stream of this name. */
static inline const GoldenStream *golden_stream(const char *file) {
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        if (strcmp(golden_streams[i].file, file) == 0) return &golden_streams[i];
    }
    fail_msg("the manifest has no %s", file);
    return NULL;
}

/* The bytes of a vector, in a malloc of exactly their number. */
static inline uint8_t *read_vector(const char *file, size_t *length) {
    const char *directory = getenv("HURRAY_VECTORS");
    if (directory == NULL) fail_msg("HURRAY_VECTORS does not say where the vectors are");
    char path[1024];
    assert_true(snprintf(path, sizeof path, "%s/%s", directory, file) < (int)sizeof path);
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) fail_msg("cannot read %s", path);
    static uint8_t buffer[1 << 16];
    *length = fread(buffer, 1, sizeof buffer, stream);
    assert_true(feof(stream) && !ferror(stream));
    fclose(stream);
    uint8_t *bytes = malloc(*length == 0 ? 1 : *length);
    assert_non_null(bytes);
    memcpy(bytes, buffer, *length);
    return bytes;
}

/* ---- sources ---- */

/* Bytes in memory, `most` of them at a time, or, with a seed, 1 … most at random. */
typedef struct MemorySource {
    const uint8_t *bytes;
    size_t size, position, most;
    uint64_t seed; /* 0: none */
} MemorySource;

static inline HurrayStatus read_memory(uint8_t *bytes, size_t size, size_t *out_read,
                                       void *context) {
    MemorySource *source = context;
    assert_true(size > 0);
    size_t most = source->most;
    if (source->seed != 0) most = 1 + (size_t)random_below(&source->seed, most);
    if (size > most) size = most;
    if (size > source->size - source->position) size = source->size - source->position;
    if (size != 0) memcpy(bytes, source->bytes + source->position, size);
    source->position += size;
    *out_read = size;
    return HURRAY_OK;
}

static inline HurraySource memory_source(MemorySource *source) {
    return (HurraySource){read_memory, source};
}

/* ---- parts ---- */

static inline void release_part(HurrayStreamPart *part) {
    hurray_tensor_release(part->tensor);
    if (part->head != NULL) expect_ok(hurray_descriptor_destroy(part->head));
    *part = (HurrayStreamPart){HURRAY_STREAM_MORE, NULL, NULL, 0, false};
}

static inline const HurrayDescriptorFields *part_fields(const HurrayStreamPart *part) {
    return part->kind == HURRAY_STREAM_HEAD ? hurray_descriptor_fields(part->head)
                                            : hurray_tensor_fields(part->tensor);
}

/* The part is exactly this: descriptor, and each byte. */
static inline void expect_part(const HurrayStreamPart *part, const GoldenPart *golden) {
    const HurrayDescriptorFields *fields = part_fields(part);
    assert_non_null(fields);
    assert_true((part->kind == HURRAY_STREAM_HEAD) ==
                (golden->fields.layout.tag == HURRAY_LAYOUT_COMPOSITE));
    assert_true(hurray_descriptor_equal(fields, &golden->fields));
    for (uint32_t i = 0; i < golden->fields.buffer_count; i++) {
        const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(part->tensor, i));
        assert_int_equal(info->byte_size, golden->fields.buffers[i].byte_size);
        if (info->byte_size == 0) continue;
        assert_int_equal((uintptr_t)info->data % HURRAY_MIN_BUFFER_ALIGNMENT, 0);
        assert_memory_equal(info->data, golden->buffers[i], (size_t)info->byte_size);
    }
}

/* A tensor with the contents of a golden part. */
static inline HurrayTensor *tensor_of(const GoldenPart *golden) {
    HurrayBuffer *buffers[HURRAY_MAX_BUFFERS];
    for (uint32_t i = 0; i < golden->fields.buffer_count; i++) {
        uint64_t size = golden->fields.buffers[i].byte_size;
        if (size == 0) {
            const HurrayBufferInfo empty = {.alignment = golden->fields.buffers[i].alignment};
            expect_ok(hurray_buffer_create(&empty, NULL, NULL, &buffers[i]));
        } else {
            expect_ok(hurray_buffer_allocate(size, false, NULL, &buffers[i]));
            memcpy(hurray_buffer_info(buffers[i])->data, golden->buffers[i], (size_t)size);
        }
    }
    HurrayTensor *tensor = NULL;
    expect_ok(hurray_tensor_create(&golden->fields, buffers, &tensor));
    return tensor;
}

static inline HurrayStatus write_golden(HurrayStreamWriter *writer, const GoldenPart *golden) {
    if (golden->fields.layout.tag == HURRAY_LAYOUT_COMPOSITE) {
        return hurray_stream_writer_write_head(writer, &golden->fields);
    }
    HurrayTensor *tensor = tensor_of(golden);
    HurrayStatus status = hurray_stream_writer_write(writer, tensor);
    hurray_tensor_release(tensor);
    return status;
}

static inline HurrayStatus write_part(HurrayStreamWriter *writer, const HurrayStreamPart *part) {
    return part->kind == HURRAY_STREAM_HEAD
               ? hurray_stream_writer_write_head(writer, hurray_descriptor_fields(part->head))
               : hurray_stream_writer_write(writer, part->tensor);
}

/* A row-major uint8 tensor of `size` bytes: seed, seed + 1, … */
static inline HurrayTensor *count_up(uint64_t size, uint8_t seed) {
    HurrayBuffer *buffer = NULL;
    expect_ok(hurray_buffer_allocate(size, false, NULL, &buffer));
    uint8_t *bytes = hurray_buffer_info(buffer)->data;
    for (uint64_t i = 0; i < size; i++) bytes[i] = (uint8_t)(seed + i);
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 1,
        .shape = &size,
        .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
        .buffer_count = 1,
    };
    HurrayTensor *tensor = NULL;
    expect_ok(hurray_tensor_create(&fields, &buffer, &tensor));
    return tensor;
}

/* That it is one. */
static inline void expect_counts_up(const HurrayTensor *tensor, uint64_t size, uint8_t seed) {
    assert_non_null(tensor);
    assert_int_equal(hurray_tensor_count(tensor), size);
    const uint8_t *bytes = hurray_tensor_data(tensor);
    for (uint64_t i = 0; i < size; i++) {
        if (bytes[i] != (uint8_t)(seed + i)) fail_msg("byte %llu differs", (unsigned long long)i);
    }
}

/* Bytes of the descriptor of such a tensor. */
#define COUNT_UP_DESCRIPTOR 53u

#endif
