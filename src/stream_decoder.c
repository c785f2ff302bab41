/*
 * The stream decoder (include/hurray/stream_reader.h, spec 5): a state machine that is either within
 * a descriptor or within a buffer of the tensor it described. Its caller moves the bytes.
 */
#include <hurray/stream_reader.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "file_format.h"
#include "layout.h"
#include "stream_buffer.h"
#include "stream_failure.h"
#include "tensor.h"

/* Bytes that a descriptor is given room for at first; most take no more. */
#define SMALL_DESCRIPTOR 512u

struct HurrayStreamDecoder {
    HurrayStreamOptions options; /* allocator: NULL, or the one below */
    HurrayAllocator allocator;
    HurrayCompositeValidator *validator;
    StreamFailure failure;

    uint64_t position; /* bytes taken */
    uint64_t items;    /* completed */
    uint64_t part;     /* of the item at hand: the head is 0, then what follows it in order */
    uint64_t start;    /* position where the descriptor at hand begins */
    size_t offered;    /* bytes of the last space */

    /* The descriptor as it arrives: first its prefix, then all of it. */
    uint8_t *bytes;
    size_t capacity;
    size_t filled;
    size_t needed;

    /* While buffers arrive; NULL before. */
    HurrayDescriptor *descriptor;
    uint32_t depth; /* open heads around it */
    bool completes; /* it is the last of its item */
    uint32_t buffer_count;
    HurrayBuffer *buffers[HURRAY_MAX_BUFFERS];
    ArrivingBuffer arriving; /* buffer number buffer_count */
};

/* ---- making ---- */

void hurray_stream_options_init(HurrayStreamOptions *out) {
    if (out == NULL) return;
    *out = (HurrayStreamOptions){
        .max_descriptor_bytes = HURRAY_STREAM_MAX_DESCRIPTOR_BYTES,
        .max_buffer_bytes = UINT64_MAX,
        .max_composite_depth = HURRAY_MAX_COMPOSITE_DEPTH,
    };
}

HurrayStatus hurray_stream_decoder_create(const HurrayStreamOptions *options,
                                          HurrayStreamDecoder **out) {
    if (out == NULL) return hri_fail_null("out");
    HurrayStreamOptions defaults;
    hurray_stream_options_init(&defaults);
    if (options == NULL) options = &defaults;
    const HurrayCompositeOptions composites = {.max_depth = options->max_composite_depth};
    HurrayCompositeValidator *validator;
    HurrayStatus status = hurray_composite_validator_create(&composites, &validator);
    if (status != HURRAY_OK) return status;

    HurrayStreamDecoder *decoder = calloc(1, sizeof *decoder);
    uint8_t *bytes = malloc(SMALL_DESCRIPTOR);
    if (decoder == NULL || bytes == NULL) {
        free(bytes);
        free(decoder);
        hurray_composite_validator_destroy(&validator);
        return hri_fail_memory(sizeof *decoder + SMALL_DESCRIPTOR);
    }
    decoder->options = *options;
    if (options->allocator != NULL) {
        decoder->allocator = *options->allocator;
        decoder->options.allocator = &decoder->allocator;
    }
    decoder->validator = validator;
    decoder->bytes = bytes;
    decoder->capacity = SMALL_DESCRIPTOR;
    decoder->needed = HURRAY_DESCRIPTOR_PREFIX_SIZE;
    *out = decoder;
    return HURRAY_OK;
}

HurrayStatus hurray_stream_decoder_destroy(HurrayStreamDecoder **decoder) {
    if (decoder == NULL) return hri_fail_null("decoder");
    if (*decoder == NULL) return HURRAY_OK;
    hri_arriving_discard(&(*decoder)->arriving, (*decoder)->options.allocator);
    for (uint32_t i = 0; i < (*decoder)->buffer_count; i++) {
        hurray_buffer_destroy((*decoder)->buffers[i]);
    }
    if ((*decoder)->descriptor != NULL) hurray_descriptor_destroy((*decoder)->descriptor);
    hurray_composite_validator_destroy(&(*decoder)->validator);
    free((*decoder)->bytes);
    free(*decoder);
    *decoder = NULL;
    return HURRAY_OK;
}

uint64_t hurray_stream_decoder_position(const HurrayStreamDecoder *decoder) {
    return decoder == NULL ? 0 : decoder->position;
}

uint64_t hurray_stream_decoder_items(const HurrayStreamDecoder *decoder) {
    return decoder == NULL ? 0 : decoder->items;
}

/* ---- where things go wrong ---- */

typedef struct Place {
    char text[64];
} Place;

/* "item 3", and which of its descriptors where it has several. */
static Place place_of(const HurrayStreamDecoder *decoder) {
    Place place;
    if (decoder->part == 0) {
        snprintf(place.text, sizeof place.text, "item %" PRIu64, decoder->items);
    } else {
        snprintf(place.text, sizeof place.text, "item %" PRIu64 ", part %" PRIu64, decoder->items,
                 decoder->part);
    }
    return place;
}

/* Says the failure again with its place in front. */
static HurrayStatus fail_in_place(const HurrayStreamDecoder *decoder, HurrayStatus status) {
    char message[512];
    snprintf(message, sizeof message, "%s", hurray_error_message());
    return hri_fail(status, "%s, which begins at byte %" PRIu64 " of the stream: %s",
                    place_of(decoder).text, decoder->start, message);
}

/* ---- descriptors ---- */

static HurrayStatus check_length(const HurrayStreamDecoder *decoder, uint32_t length) {
    if (length <= decoder->options.max_descriptor_bytes) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_STREAM_INVALID,
                    "descriptor_length %" PRIu32
                    " is over the limit, max_descriptor_bytes %" PRIu64,
                    length, decoder->options.max_descriptor_bytes);
}

static HurrayStatus check_handle(const HurrayStreamDecoder *decoder, uint32_t index,
                                 const HurrayBufferHandle *handle) {
    if (handle->byte_size > decoder->options.max_buffer_bytes) {
        return hri_fail(HURRAY_ERR_STREAM_INVALID,
                        "buffer %" PRIu32 " has %" PRIu64
                        " bytes, over the limit, max_buffer_bytes %" PRIu64,
                        index, handle->byte_size, decoder->options.max_buffer_bytes);
    }
    if (decoder->options.cross_machine && handle->sync_mode != HURRAY_SYNC_PRODUCER_SYNCED) {
        return hri_fail(HURRAY_ERR_INVALID_SYNC_MODE,
                        "buffer %" PRIu32
                        " has sync mode %s; across machines only producer_synced is legal",
                        index, hurray_sync_mode_name(handle->sync_mode));
    }
    return HURRAY_OK;
}

/* A limit that the caller has set; the eight levels of the format itself are a rule of composites. */
static HurrayStatus check_depth(const HurrayStreamDecoder *decoder,
                                const HurrayDescriptorFields *fields) {
    uint32_t limit = decoder->options.max_composite_depth;
    if (fields->layout.tag != HURRAY_LAYOUT_COMPOSITE || limit == HURRAY_MAX_COMPOSITE_DEPTH ||
        decoder->depth < limit) {
        return HURRAY_OK;
    }
    return hri_fail(HURRAY_ERR_STREAM_INVALID,
                    "a composite at depth %" PRIu32
                    ", over the limit, max_composite_depth %" PRIu32,
                    decoder->depth + 1, limit);
}

/* That the tensor may come, before anything is allocated for it. */
static HurrayStatus check_fields(HurrayStreamDecoder *decoder,
                                 const HurrayDescriptorFields *fields) {
    if (hri_layout_kind_of(fields) == &hri_layout_opaque) {
        return hri_fail(HURRAY_ERR_STREAM_INVALID,
                        "layout tag 0x%02X is not assigned, so that nobody knows where its buffer "
                        "table is, nor where the next item begins",
                        fields->layout.tag);
    }
    HurrayStatus status = HURRAY_OK;
    for (uint32_t i = 0; status == HURRAY_OK && i < fields->buffer_count; i++) {
        status = check_handle(decoder, i, &fields->buffers[i]);
    }
    decoder->depth = hurray_composite_validator_depth(decoder->validator);
    if (status == HURRAY_OK) status = check_depth(decoder, fields);
    if (status != HURRAY_OK) return status;
    return hurray_composite_validator_push(decoder->validator, fields, &decoder->completes);
}

/* A part is whole: the next descriptor comes. */
static void end_part(HurrayStreamDecoder *decoder, HurrayStreamPart *out) {
    out->depth = decoder->depth;
    out->item_complete = decoder->completes;
    decoder->part = decoder->completes ? 0 : decoder->part + 1;
    decoder->items += decoder->completes;
    decoder->descriptor = NULL;
    decoder->buffer_count = 0;
    decoder->start = decoder->position;
}

/* ---- buffers ---- */

/* The bytes are in host memory now, whatever the descriptor said about them (spec 1.5). */
static HurrayStatus end_buffer(HurrayStreamDecoder *decoder, uint32_t empty_alignment) {
    HurrayStatus status =
        hri_arriving_finish(&decoder->arriving, decoder->options.allocator, empty_alignment,
                            &decoder->buffers[decoder->buffer_count]);
    if (status == HURRAY_OK) decoder->buffer_count++;
    return status;
}

/* The descriptor is valid; so it stays over buffers that differ in their alignment only, which they
 * have. Where a handle told of another place the bytes are in now, all is looked at again. */
static HurrayStatus make_tensor(HurrayStreamDecoder *decoder, const HurrayDescriptorFields *fields,
                                HurrayTensor **out) {
    HurrayBufferHandle handles[HURRAY_MAX_BUFFERS];
    bool same_place = fields->buffer_count != 0;
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        const HurrayBufferHandle *told = &fields->buffers[i];
        handles[i] = hurray_buffer_handle(decoder->buffers[i]);
        same_place &= handles[i].device_tag == told->device_tag &&
                      handles[i].memory_class == told->memory_class &&
                      handles[i].sync_mode == told->sync_mode;
    }
    if (!same_place) return hurray_tensor_create(fields, decoder->buffers, out);
    HurrayDescriptorFields complete = *fields;
    complete.buffers = handles;
    return hri_tensor_create_checked(&complete, decoder->buffers, out);
}

/* Goes on to the next buffer with bytes in it; with the last one, the tensor is complete. */
static HurrayStatus next_buffer(HurrayStreamDecoder *decoder, HurrayStreamPart *out) {
    const HurrayDescriptorFields *fields = hurray_descriptor_fields(decoder->descriptor);
    while (decoder->buffer_count < fields->buffer_count) {
        const HurrayBufferHandle *handle = &fields->buffers[decoder->buffer_count];
        decoder->arriving.size = handle->byte_size;
        if (handle->byte_size != 0) return HURRAY_OK;
        HurrayStatus status = end_buffer(decoder, handle->alignment);
        if (status != HURRAY_OK) return status;
    }
    HurrayStatus status = make_tensor(decoder, fields, &out->tensor);
    if (status != HURRAY_OK) return status;
    hurray_descriptor_destroy(decoder->descriptor);
    out->kind = HURRAY_STREAM_TENSOR;
    end_part(decoder, out);
    return HURRAY_OK;
}

static HurrayStatus take_buffer_bytes(HurrayStreamDecoder *decoder, size_t size,
                                      HurrayStreamPart *out) {
    decoder->arriving.filled += size;
    if (decoder->arriving.filled < decoder->arriving.size) return HURRAY_OK;
    HurrayStatus status = end_buffer(decoder, 0);
    return status == HURRAY_OK ? next_buffer(decoder, out) : status;
}

/* ---- descriptors again: they lead to buffers ---- */

/* The prefix is there: how much more belongs to the descriptor. */
static HurrayStatus read_prefix(HurrayStreamDecoder *decoder) {
    if (memcmp(decoder->bytes, HRI_FILE_MAGIC, HRI_FILE_MAGIC_SIZE) == 0) {
        return hri_fail(HURRAY_ERR_STREAM_INVALID,
                        "\"%s\" begins a file of tensors, which is read by its index; expected a "
                        "stream",
                        HRI_FILE_MAGIC);
    }
    uint32_t length;
    HurrayStatus status = hurray_descriptor_peek_length(decoder->bytes, decoder->filled, &length);
    if (status == HURRAY_OK) status = check_length(decoder, length);
    if (status == HURRAY_OK) decoder->needed = length;
    return status;
}

static HurrayStatus read_descriptor(HurrayStreamDecoder *decoder, HurrayStreamPart *out) {
    HurrayStatus status = hurray_descriptor_decode_with(
        decoder->bytes, decoder->filled, &decoder->options.decode, &decoder->descriptor);
    if (status != HURRAY_OK) return status;
    const HurrayDescriptorFields *fields = hurray_descriptor_fields(decoder->descriptor);
    status = check_fields(decoder, fields);
    if (status != HURRAY_OK) return status;
    decoder->filled = 0;
    decoder->needed = HURRAY_DESCRIPTOR_PREFIX_SIZE;
    if (fields->layout.tag != HURRAY_LAYOUT_COMPOSITE) return next_buffer(decoder, out);
    out->kind = HURRAY_STREAM_HEAD;
    out->head = decoder->descriptor;
    end_part(decoder, out);
    return HURRAY_OK;
}

static HurrayStatus take_descriptor_bytes(HurrayStreamDecoder *decoder, size_t size,
                                          HurrayStreamPart *out) {
    decoder->filled += size;
    if (decoder->filled < decoder->needed) return HURRAY_OK;
    return decoder->needed == HURRAY_DESCRIPTOR_PREFIX_SIZE ? read_prefix(decoder)
                                                            : read_descriptor(decoder, out);
}

/* Room for the descriptor, doubled as it arrives: its length, too, is only declared. */
static HurrayStatus descriptor_space(HurrayStreamDecoder *decoder) {
    if (decoder->filled < decoder->capacity) return HURRAY_OK;
    size_t capacity = decoder->capacity > SIZE_MAX / 2 ? SIZE_MAX : 2 * decoder->capacity;
    if (capacity > decoder->needed) capacity = decoder->needed;
    uint8_t *bytes = realloc(decoder->bytes, capacity);
    if (bytes == NULL) return hri_fail_memory(capacity);
    decoder->bytes = bytes;
    decoder->capacity = capacity;
    return HURRAY_OK;
}

/* ---- feeding ---- */

/* Keeps a failure for good. */
static HurrayStatus fail_for_good(HurrayStreamDecoder *decoder, HurrayStatus status) {
    return keep_failure(&decoder->failure, fail_in_place(decoder, status));
}

HurrayStatus hurray_stream_decoder_space(HurrayStreamDecoder *decoder, uint8_t **out,
                                         size_t *out_size) {
    if (decoder == NULL || out == NULL || out_size == NULL) {
        return hri_fail_null(decoder == NULL ? "decoder" : out == NULL ? "out" : "out_size");
    }
    HurrayStatus status = repeat_failure(&decoder->failure);
    if (status != HURRAY_OK) return status;
    if (decoder->descriptor != NULL) {
        status = hri_arriving_space(&decoder->arriving, decoder->options.allocator, out, out_size);
        if (status != HURRAY_OK) return fail_for_good(decoder, status);
    } else {
        status = descriptor_space(decoder);
        if (status != HURRAY_OK) return fail_for_good(decoder, status);
        size_t end = decoder->needed < decoder->capacity ? decoder->needed : decoder->capacity;
        *out = decoder->bytes + decoder->filled;
        *out_size = end - decoder->filled;
    }
    decoder->offered = *out_size;
    return HURRAY_OK;
}

HurrayStatus hurray_stream_decoder_advance(HurrayStreamDecoder *decoder, size_t size,
                                           HurrayStreamPart *out) {
    if (decoder == NULL || out == NULL) return hri_fail_null(out == NULL ? "out" : "decoder");
    HurrayStatus status = repeat_failure(&decoder->failure);
    if (status != HURRAY_OK) return status;
    if (size > decoder->offered) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "size %zu is more than the %zu bytes of the space", size, decoder->offered);
    }
    HurrayStreamPart part = {HURRAY_STREAM_MORE, NULL, NULL, 0, false};
    decoder->offered -= size;
    decoder->position += size;
    status = size == 0                     ? HURRAY_OK
             : decoder->descriptor == NULL ? take_descriptor_bytes(decoder, size, &part)
                                           : take_buffer_bytes(decoder, size, &part);
    if (status != HURRAY_OK) return fail_for_good(decoder, status);
    *out = part;
    return HURRAY_OK;
}

HurrayStatus hurray_stream_decoder_push(HurrayStreamDecoder *decoder, const uint8_t *bytes,
                                        size_t size, size_t *out_used, HurrayStreamPart *out) {
    if (decoder == NULL || out_used == NULL || out == NULL || (bytes == NULL && size != 0)) {
        return hri_fail_null(decoder == NULL    ? "decoder"
                             : out_used == NULL ? "out_used"
                             : out == NULL      ? "out"
                                                : "bytes");
    }
    HurrayStreamPart part = {HURRAY_STREAM_MORE, NULL, NULL, 0, false};
    size_t used = 0;
    while (used < size && part.kind == HURRAY_STREAM_MORE) {
        uint8_t *space;
        size_t count;
        HurrayStatus status = hurray_stream_decoder_space(decoder, &space, &count);
        if (status != HURRAY_OK) return status;
        if (count > size - used) count = size - used;
        memcpy(space, bytes + used, count);
        status = hurray_stream_decoder_advance(decoder, count, &part);
        if (status != HURRAY_OK) return status;
        used += count;
    }
    *out_used = used;
    *out = part;
    return HURRAY_OK;
}

/* ---- the end ---- */

/* The input ended where a descriptor may begin: fine between items only. */
static HurrayStatus end_between_parts(const HurrayStreamDecoder *decoder) {
    if (decoder->part == 0) return HURRAY_OK;
    hurray_composite_validator_finish(decoder->validator);
    char message[512];
    snprintf(message, sizeof message, "%s", hurray_error_message());
    return hri_fail(HURRAY_ERR_STREAM_INVALID, "the stream ends at byte %" PRIu64 ", in %s: %s",
                    decoder->position, place_of(decoder).text, message);
}

HurrayStatus hurray_stream_decoder_finish(const HurrayStreamDecoder *decoder) {
    if (decoder == NULL) return hri_fail_null("decoder");
    HurrayStatus status = repeat_failure(&decoder->failure);
    if (status != HURRAY_OK) return status;
    uint64_t position = decoder->position;
    if (decoder->descriptor != NULL) {
        return hri_fail(HURRAY_ERR_STREAM_INVALID,
                        "the stream ends at byte %" PRIu64 ", in %s, buffer %" PRIu32 ": %" PRIu64
                        " of its %" PRIu64 " bytes are missing",
                        position, place_of(decoder).text, decoder->buffer_count,
                        decoder->arriving.size - decoder->arriving.filled, decoder->arriving.size);
    }
    if (decoder->filled == 0) return end_between_parts(decoder);
    bool in_prefix = decoder->needed == HURRAY_DESCRIPTOR_PREFIX_SIZE;
    return hri_fail(HURRAY_ERR_STREAM_INVALID,
                    "the stream ends at byte %" PRIu64 ", in %s, descriptor: %zu of the %zu bytes "
                    "%s are missing",
                    position, place_of(decoder).text, decoder->needed - decoder->filled,
                    decoder->needed, in_prefix ? "that say how long it is" : "it has");
}
