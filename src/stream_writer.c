/*
 * The stream writer (include/hurray/stream_writer.h, spec 5): a descriptor goes into a small buffer
 * of the writer's, and from there together with the buffers, which stay where they are, to the sink.
 */
#include <hurray/stream_writer.h>

#include <hurray/composite.h>
#include <stdlib.h>

#include "descriptor.h"
#include "fail.h"
#include "layout.h"
#include "stream_failure.h"

/* Bytes that a descriptor is given room for at first; most take no more. */
#define SMALL_DESCRIPTOR 512u

struct HurrayStreamWriter {
    HurraySink sink;
    HurrayStreamWriterOptions options;
    HurrayCompositeValidator *validator;
    StreamFailure failure; /* something that cannot be taken back is half written */
    bool finished;
    uint64_t position;
    uint8_t *bytes; /* of the descriptor at hand */
    size_t capacity;
};

HurrayStatus hurray_stream_writer_create(const HurraySink *sink,
                                         const HurrayStreamWriterOptions *options,
                                         HurrayStreamWriter **out) {
    if (sink == NULL || out == NULL) return hri_fail_null(out == NULL ? "out" : "sink");
    if (sink->write == NULL) return hri_fail_null("sink->write");
    const HurrayCompositeOptions composites = {HURRAY_MAX_COMPOSITE_DEPTH, true};
    HurrayCompositeValidator *validator;
    HurrayStatus status = hurray_composite_validator_create(&composites, &validator);
    if (status != HURRAY_OK) return status;

    HurrayStreamWriter *writer = calloc(1, sizeof *writer);
    uint8_t *bytes = malloc(SMALL_DESCRIPTOR);
    if (writer == NULL || bytes == NULL) {
        free(bytes);
        free(writer);
        hurray_composite_validator_destroy(&validator);
        return hri_fail_memory(sizeof *writer + SMALL_DESCRIPTOR);
    }
    writer->sink = *sink;
    if (options != NULL) writer->options = *options;
    writer->validator = validator;
    writer->bytes = bytes;
    writer->capacity = SMALL_DESCRIPTOR;
    *out = writer;
    return HURRAY_OK;
}

HurrayStatus hurray_stream_writer_destroy(HurrayStreamWriter **writer) {
    if (writer == NULL) return hri_fail_null("writer");
    if (*writer == NULL) return HURRAY_OK;
    hurray_composite_validator_destroy(&(*writer)->validator);
    free((*writer)->bytes);
    free(*writer);
    *writer = NULL;
    return HURRAY_OK;
}

uint64_t hurray_stream_writer_position(const HurrayStreamWriter *writer) {
    return writer == NULL ? 0 : writer->position;
}

/* ---- one tensor or head ---- */

static HurrayStatus check_usable(const HurrayStreamWriter *writer) {
    HurrayStatus status = repeat_failure(&writer->failure);
    if (status == HURRAY_OK && writer->finished) {
        return hri_fail(HURRAY_ERR_CLOSED, "the stream is finished: nothing more can be written");
    }
    return status;
}

/* Encodes valid fields into the writer's own bytes, which grow for the rare descriptor that is longer. */
static HurrayStatus encode(HurrayStreamWriter *writer, const HurrayDescriptorFields *fields,
                           uint64_t *out_length) {
    HurrayStatus status = hri_descriptor_write(fields, writer->bytes, writer->capacity, out_length);
    if (status != HURRAY_OK || *out_length <= writer->capacity) return status;
    size_t size = (size_t)*out_length; /* at most 2^32 − 1 */
    uint8_t *bytes = realloc(writer->bytes, size);
    if (bytes == NULL) return hri_fail_memory(size);
    writer->bytes = bytes;
    writer->capacity = size;
    return hri_descriptor_write(fields, writer->bytes, writer->capacity, out_length);
}

/* Whether it may stand here. What is refused in the middle of a composite ends the writer, since the
 * head is out; elsewhere nothing has happened. */
static HurrayStatus check_place(HurrayStreamWriter *writer, const HurrayDescriptorFields *fields) {
    bool inside = hurray_composite_validator_depth(writer->validator) != 0;
    bool complete;
    HurrayStatus status = hurray_composite_validator_push(writer->validator, fields, &complete);
    if (status == HURRAY_OK) return HURRAY_OK;
    if (inside) return keep_failure(&writer->failure, status);
    hurray_composite_validator_reset(writer->validator);
    return status;
}

/* Writes pieces[0], to be the descriptor of valid fields, and `count` buffers behind it. */
static HurrayStatus put(HurrayStreamWriter *writer, const HurrayDescriptorFields *fields,
                        HurrayBytes *pieces, uint32_t count) {
    if (hri_layout_kind_of(fields) == &hri_layout_opaque) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "layout tag 0x%02X is not assigned: no reader of a stream would know where "
                        "its buffer table is, nor where the next item begins",
                        fields->layout.tag);
    }
    uint64_t length = 0;
    HurrayStatus status = encode(writer, fields, &length);
    if (status == HURRAY_OK) status = check_place(writer, fields);
    if (status != HURRAY_OK) return status;
    pieces[0] = (HurrayBytes){writer->bytes, length};
    status = writer->sink.write(pieces, count + 1, writer->sink.context);
    if (status != HURRAY_OK) return keep_failure(&writer->failure, status);
    for (uint32_t i = 0; i <= count; i++) writer->position += pieces[i].size;
    return HURRAY_OK;
}

static HurrayStatus check_cross_machine(const HurrayDescriptorFields *fields) {
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        uint8_t mode = fields->buffers[i].sync_mode;
        if (mode != HURRAY_SYNC_PRODUCER_SYNCED) {
            return hri_fail(HURRAY_ERR_INVALID_SYNC_MODE,
                            "buffer %u has sync mode %s; across machines only producer_synced is "
                            "legal",
                            (unsigned)i, hurray_sync_mode_name(mode));
        }
    }
    return HURRAY_OK;
}

HurrayStatus hurray_stream_writer_write(HurrayStreamWriter *writer, const HurrayTensor *tensor) {
    if (writer == NULL || tensor == NULL) return hri_fail_null(tensor ? "writer" : "tensor");
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    HurrayStatus status = check_usable(writer);
    if (status == HURRAY_OK && writer->options.cross_machine) status = check_cross_machine(fields);
    if (status == HURRAY_OK) status = hurray_tensor_check_readable(tensor, true);
    if (status != HURRAY_OK) return status;
    HurrayBytes pieces[1 + HURRAY_MAX_BUFFERS];
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, i));
        pieces[1 + i] = (HurrayBytes){info->data, info->byte_size};
    }
    return put(writer, fields, pieces, fields->buffer_count);
}

HurrayStatus hurray_stream_writer_write_head(HurrayStreamWriter *writer,
                                             const HurrayDescriptorFields *head) {
    if (writer == NULL || head == NULL) return hri_fail_null(head ? "writer" : "head");
    HurrayStatus status = check_usable(writer);
    if (status != HURRAY_OK) return status;
    if (head->layout.tag != HURRAY_LAYOUT_COMPOSITE) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "layout tag 0x%02X is not that of a composite, 0x%02X", head->layout.tag,
                        HURRAY_LAYOUT_COMPOSITE);
    }
    status = hurray_descriptor_validate(head);
    if (status != HURRAY_OK) return status;
    HurrayBytes piece;
    return put(writer, head, &piece, 0);
}

HurrayStatus hurray_stream_writer_finish(HurrayStreamWriter *writer) {
    if (writer == NULL) return hri_fail_null("writer");
    HurrayStatus status = repeat_failure(&writer->failure);
    if (status == HURRAY_OK) status = hurray_composite_validator_finish(writer->validator);
    if (status == HURRAY_OK) writer->finished = true;
    return status;
}
