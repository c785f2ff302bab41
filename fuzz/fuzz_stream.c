/*
 * Hostile streams (spec 5) through the decoder, in pieces of any size.
 *
 * The first byte of the input chooses how it is cut and whether the decoder is permissive; the rest
 * is the stream. Cut differently, the same comes out: parts, bytes, status, message. What comes out
 * is written again, and is then what was read, but for what a reader states anew: where the buffers
 * are and how they are aligned (spec 1.5), and a minor version of the future (1.9).
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <hurray/io.h>
#include <hurray/stream_reader.h>
#include <hurray/stream_writer.h>

#include "fuzz.h"

/* Bytes of a buffer that a declared size may cost: reading to the end of small inputs is enough. */
#define MOST_BUFFER_BYTES (UINT64_C(1) << 40)

typedef struct Outcome {
    HurrayStatus status;
    char message[512];
    uint64_t parts, items, position;
    HurrayMemoryFile written;
    bool writable; /* no composite that a writer would refuse */
} Outcome;

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* ---- what was read, said again independently of tensor and writer ---- */

static void append(HurrayMemoryFile *file, const uint8_t *bytes, uint64_t size) {
    const HurraySink sink = hurray_memory_sink(file);
    const HurrayBytes piece = {bytes, size};
    require(sink.write(&piece, 1, sink.context) == HURRAY_OK);
}

/* The descriptor as a reader hands it out: host memory, and no more than we write ourselves. */
static void append_descriptor(HurrayMemoryFile *file, const HurrayDescriptorFields *read) {
    HurrayBufferHandle handles[HURRAY_MAX_BUFFERS];
    HurrayDescriptorFields fields = *read;
    for (uint32_t i = 0; i < fields.buffer_count; i++) {
        const HurrayBufferHandle *handle = &read->buffers[i];
        uint32_t alignment = handle->byte_size < 4096 ? 64 : 4096;
        if (handle->byte_size == 0) alignment = handle->alignment;
        handles[i] = (HurrayBufferHandle){.byte_size = handle->byte_size, .alignment = alignment};
    }
    fields.buffers = handles;
    uint64_t size = 0;
    uintptr_t length = 0;
    require(hurray_descriptor_encoded_size(&fields, &size) == HURRAY_OK);
    uint8_t *bytes = malloc((size_t)size);
    require(bytes != NULL);
    require(hurray_descriptor_encode(&fields, bytes, (uintptr_t)size, &length) == HURRAY_OK);
    append(file, bytes, length);
    free(bytes);
}

/* The stream up to `end`, where a part was complete. */
static void restate(const uint8_t *stream, size_t end, bool permissive, HurrayMemoryFile *file) {
    const HurrayDecodeOptions options = {.permissive = permissive};
    for (size_t position = 0; position < end;) {
        HurrayDescriptor *descriptor = NULL;
        uint32_t length = 0;
        require(hurray_descriptor_peek_length(stream + position, end - position, &length) ==
                HURRAY_OK);
        require(hurray_descriptor_decode_with(stream + position, end - position, &options,
                                              &descriptor) == HURRAY_OK);
        const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
        append_descriptor(file, fields);
        position += length;
        for (uint32_t i = 0; i < fields->buffer_count; i++) {
            require(fields->buffers[i].byte_size <= end - position);
            append(file, stream + position, fields->buffers[i].byte_size);
            position += (size_t)fields->buffers[i].byte_size;
        }
        require(hurray_descriptor_destroy(descriptor) == HURRAY_OK);
    }
}

/* ---- decoding ---- */

static void check_tensor(const HurrayTensor *tensor) {
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    require(hurray_descriptor_validate(fields) == HURRAY_OK);
    require(hurray_tensor_check_readable(tensor, false) == HURRAY_OK);
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, i));
        require(info->byte_size == 0 || (uintptr_t)info->data % 64 == 0);
    }
}

/* Writes the part on, unless it belongs to a composite that a reader accepts and a writer does not. */
static void take_part(HurrayStreamWriter *writer, HurrayStreamPart *part, Outcome *outcome) {
    HurrayStatus status = HURRAY_OK;
    if (part->kind == HURRAY_STREAM_TENSOR) {
        require(part->tensor != NULL && part->head == NULL);
        check_tensor(part->tensor);
        if (outcome->writable) status = hurray_stream_writer_write(writer, part->tensor);
        hurray_tensor_release(part->tensor);
    } else {
        require(part->kind == HURRAY_STREAM_HEAD && part->head != NULL && part->tensor == NULL);
        const HurrayDescriptorFields *head = hurray_descriptor_fields(part->head);
        if (outcome->writable) status = hurray_stream_writer_write_head(writer, head);
        require(hurray_descriptor_destroy(part->head) == HURRAY_OK);
    }
    if (status != HURRAY_OK) {
        require(status == HURRAY_ERR_INTERNAL);
        outcome->writable = false;
    }
    outcome->parts++;
}

/* One step: up to `size` bytes through `space`, or pushed. Returns how many were taken. */
static size_t step(HurrayStreamDecoder *decoder, const uint8_t *bytes, size_t size, bool push,
                   HurrayStreamPart *part, HurrayStatus *status) {
    size_t used = 0;
    if (push) {
        *status = hurray_stream_decoder_push(decoder, bytes, size, &used, part);
        return used;
    }
    uint8_t *space;
    size_t room;
    *status = hurray_stream_decoder_space(decoder, &space, &room);
    if (*status != HURRAY_OK) return 0;
    require(room >= 1);
    if (size > room) size = room;
    memcpy(space, bytes, size);
    *status = hurray_stream_decoder_advance(decoder, size, part);
    return size;
}

static void decode(const uint8_t *stream, size_t size, const HurrayStreamOptions *options,
                   uint32_t seed, Outcome *outcome) {
    HurrayStreamDecoder *decoder = NULL;
    HurrayStreamWriter *writer = NULL;
    *outcome = (Outcome){.writable = true};
    const HurraySink sink = hurray_memory_sink(&outcome->written);
    require(hurray_stream_decoder_create(options, &decoder) == HURRAY_OK);
    require(hurray_stream_writer_create(&sink, NULL, &writer) == HURRAY_OK);
    size_t position = 0;
    HurrayStatus status = HURRAY_OK;
    while (status == HURRAY_OK && position < size) {
        HurrayStreamPart part = {HURRAY_STREAM_MORE, NULL, NULL, 0, false};
        size_t most = seed == 0 ? size : 1 + next_random(&seed) % 200;
        if (most > size - position) most = size - position;
        bool push = seed == 0 || next_random(&seed) % 2 == 0;
        position += step(decoder, stream + position, most, push, &part, &status);
        if (status != HURRAY_OK || part.kind == HURRAY_STREAM_MORE) continue;
        require(hurray_stream_decoder_position(decoder) == position);
        outcome->position = position;
        take_part(writer, &part, outcome);
    }
    outcome->items = hurray_stream_decoder_items(decoder);
    if (status == HURRAY_OK) status = hurray_stream_decoder_finish(decoder);
    outcome->status = status;
    if (status != HURRAY_OK) {
        require(status < 0 && hurray_error_message()[0] != '\0');
        strcpy(outcome->message, hurray_error_message());
    }
    require(hurray_stream_writer_destroy(&writer) == HURRAY_OK);
    require(hurray_stream_decoder_destroy(&decoder) == HURRAY_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    /* The seeds are streams: 'H' is the first byte of one, and of those that stand for themselves. */
    const uint8_t choice = data[0];
    if (choice != 'H') data++, size--;
    HurrayStreamOptions options;
    hurray_stream_options_init(&options);
    options.max_buffer_bytes = MOST_BUFFER_BYTES;
    options.decode.permissive = choice % 2 == 1;

    Outcome whole, pieces;
    decode(data, size, &options, 0, &whole);
    decode(data, size, &options, 1 + choice, &pieces);
    require(whole.status == pieces.status && strcmp(whole.message, pieces.message) == 0);
    require(whole.parts == pieces.parts && whole.items == pieces.items);
    require(whole.position == pieces.position && whole.writable == pieces.writable);

    if (whole.writable) {
        HurrayMemoryFile expected = {0};
        restate(data, (size_t)whole.position, options.decode.permissive, &expected);
        require(whole.written.size == expected.size);
        require(expected.size == 0 ||
                memcmp(whole.written.bytes, expected.bytes, expected.size) == 0);
        hurray_aligned_free(expected.bytes);
    }
    hurray_aligned_free(whole.written.bytes);
    hurray_aligned_free(pieces.written.bytes);
    return 0;
}
