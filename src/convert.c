/*
 * Dense layouts to dense layouts (include/hurray/convert.h): what may be converted, the zeros between
 * elements, and new tensors. How elements are moved is told in convert.h.
 */
#include <hurray/convert.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "convert.h"
#include "fail.h"
#include "layout.h"
#include "parallel.h"
#include "quantization.h"
#include "sections.h"

/* ---- what may be converted ---- */

static bool is_dense(uint8_t tag) {
    const LayoutKind *kind = hri_layout_kind(tag);
    return kind != NULL && kind->layout_class == HURRAY_LAYOUT_CLASS_DENSE;
}

static HurrayStatus check_dense(const HurrayDescriptorFields *fields, const char *name) {
    if (!is_dense(fields->layout.tag)) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "%s: layout tag 0x%02X is not dense; expected row_major, col_major, "
                        "strided, tiled, morton or hilbert",
                        name, fields->layout.tag);
    }
    if (hri_quantization_is_opaque(fields->quantization)) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "%s: quantization scheme 0x%02X is unknown, and so is what it pads", name,
                        fields->quantization->scheme);
    }
    return HURRAY_OK;
}

static bool same_type(const HurrayDescriptorFields *from, const HurrayDescriptorFields *to) {
    if (from->type_tag != to->type_tag) return false;
    if (!hurray_element_type_is_private(from->type_tag)) return true;
    return hri_extension_type_equal(from->extension_type, to->extension_type);
}

static bool same_scheme(const HurrayQuantization *from, const HurrayQuantization *to) {
    if (from == NULL || to == NULL) return from == to;
    return hri_quantization_equal(from, to);
}

/* That both say the same of everything but where elements lie. They are valid one by one. */
static HurrayStatus check_alike(const HurrayDescriptorFields *from,
                                const HurrayDescriptorFields *to) {
    if (!same_type(from, to)) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "type tags 0x%02X and 0x%02X, or their extension types, differ; elements "
                        "keep their type",
                        from->type_tag, to->type_tag);
    }
    if (from->rank != to->rank) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "rank is %" PRIu32 " in the source, %" PRIu32 " in the destination",
                        from->rank, to->rank);
    }
    for (uint32_t k = 0; k < from->rank; k++) {
        if (from->shape[k] != to->shape[k]) {
            return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                            "shape[%" PRIu32 "] is %" PRIu64 " in the source, %" PRIu64
                            " in the destination",
                            k, from->shape[k], to->shape[k]);
        }
    }
    if (!same_scheme(from->quantization, to->quantization)) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "quantization differs between source and destination; elements are moved "
                        "as they are stored");
    }
    return HURRAY_OK;
}

/* Valid fields without a dynamic dimension; gives what buffer 0 has to hold. */
static HurrayStatus check_side(const HurrayDescriptorFields *fields, const char *name,
                               uint64_t *required) {
    HurrayStatus status = check_dense(fields, name);
    if (status == HURRAY_OK) {
        status = hurray_descriptor_required_bytes(fields, 0, required, NULL);
    }
    if (status == HURRAY_OK && hurray_shape_is_dynamic(fields->shape, fields->rank)) {
        status =
            hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                     "%s: a dimension is dynamic, so that there are no elements to convert", name);
    }
    return status;
}

static HurrayStatus check_sizes(uint64_t source_size, uint64_t source_required,
                                uint64_t destination_size, uint64_t destination_required) {
    if (source_required > source_size) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "source_size is %" PRIu64 "; layout and shape need %" PRIu64 " bytes",
                        source_size, source_required);
    }
    if (destination_required > destination_size) {
        return hri_fail(HURRAY_ERR_BUFFER_TOO_SMALL,
                        "destination_size is %" PRIu64 "; layout and shape need %" PRIu64 " bytes",
                        destination_size, destination_required);
    }
    if (source_required > PTRDIFF_MAX || destination_required > PTRDIFF_MAX) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "%" PRIu64 " bytes are more than this machine can address",
                        source_required > PTRDIFF_MAX ? source_required : destination_required);
    }
    return HURRAY_OK;
}

/* ---- arrangements ---- */

/* How many elements the digits reach before the first one. */
static uint64_t reach_before(const Digit *digits, uint32_t count) {
    uint64_t before = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (digits[i].is_descending) before += (digits[i].extent - 1) * digits[i].step;
    }
    return before;
}

/* Where the elements of valid fields lie, without an empty or dynamic dimension. */
static void arrange(const HurrayDescriptorFields *fields, Arrangement *out) {
    out->fields = fields;
    out->digit_count = 0;
    out->has_digits = hri_digits(fields, out->digits, &out->digit_count);
    out->before = reach_before(out->digits, out->digit_count);
}

/* That no two elements are written to the same place. Sorts the digits, which may have any order. */
static HurrayStatus check_distinct(Arrangement *to) {
    if (!to->has_digits || hri_digits_sort(to->digits, to->digit_count)) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_UNSUPPORTED,
                    "destination: the strides of layout %s overlap or interleave; expected each to "
                    "be longer than all shorter ones together reach",
                    hurray_layout_name(to->fields->layout.tag));
}

/* ---- converting ---- */

HurrayStatus hri_conversion_clear(const Conversion *conversion) {
    const Arrangement *to = &conversion->to;
    uint64_t before, elements;
    HurrayStatus status = hurray_packing_size(conversion->packing, to->before, &before);
    if (status == HURRAY_OK) {
        status = hurray_packing_size(conversion->packing, conversion->count, &elements);
    }
    if (status != HURRAY_OK) return status;
    uint64_t covered = conversion->required - to->fields->byte_offset + before;
    if (conversion->packing.bits < 8 || covered != elements) {
        memset(conversion->destination - (size_t)before, 0, (size_t)covered);
    }
    return HURRAY_OK;
}

/* Bytes for which another thread is worth its start; and slabs for each, so that none waits long. */
enum {
    BYTES_PER_THREAD = 1 << 20,
    SLABS_PER_THREAD = 8
};

typedef struct Slabs {
    const Conversion *conversion;
    Division division;
    uint64_t length;        /* of each but the last, along the division's dimension */
    const Squares *squares; /* or */
    const Blocks *blocks;
    size_t workspace; /* bytes for each thread that moves blocks */
    uint8_t *memory;  /* of all threads */
} Slabs;

static Slabs cut_into_slabs(const Conversion *conversion, Division division, uint32_t *threads) {
    uint64_t extent = conversion->shape[division.dimension];
    uint64_t grains = divide_up_u64(extent, division.grain);
    *threads = hri_threads_for(conversion->required, BYTES_PER_THREAD);
    if (*threads > grains) *threads = (uint32_t)grains;
    return (Slabs){
        .conversion = conversion,
        .division = division,
        .length = divide_up_u64(grains, *threads * SLABS_PER_THREAD) * division.grain,
    };
}

static HurrayStatus convert_slab(void *context, uint32_t thread, uint64_t part) {
    const Slabs *slabs = context;
    uint32_t k = slabs->division.dimension;
    uint64_t first = part * slabs->length, end = slabs->conversion->shape[k];
    if (end - first > slabs->length) end = first + slabs->length;
    Slab slab = {k, first, end};
    if (slabs->squares != NULL) {
        hri_squares_convert(slabs->conversion, slabs->squares, slab);
    } else {
        hri_blocks_convert(slabs->conversion, slabs->blocks, slab,
                           slabs->memory + thread * slabs->workspace);
    }
    return HURRAY_OK;
}

static HurrayStatus convert_slabs(Slabs *slabs, uint32_t threads, bool is_clear) {
    const Conversion *conversion = slabs->conversion;
    uint64_t extent = conversion->shape[slabs->division.dimension];
    HurrayStatus status = is_clear ? HURRAY_OK : hri_conversion_clear(conversion);
    if (status != HURRAY_OK) return status;
    return hri_parallel(divide_up_u64(extent, slabs->length), threads, convert_slab, slabs);
}

static HurrayStatus move_blocks(const Conversion *conversion, bool is_clear) {
    Blocks blocks;
    uint32_t threads;
    hri_blocks_prepare(conversion, &blocks);
    Slabs slabs = cut_into_slabs(conversion, blocks.division, &threads);
    slabs.blocks = &blocks;
    slabs.workspace = (hri_blocks_workspace(conversion, &blocks) + 63) / 64 * 64;
    slabs.memory = malloc(threads * slabs.workspace); /* before anything is written */
    if (slabs.memory == NULL) return hri_fail_memory(threads * slabs.workspace);
    HurrayStatus status = convert_slabs(&slabs, threads, is_clear);
    free(slabs.memory);
    return status;
}

static HurrayStatus move_squares(const Conversion *conversion, size_t size, bool is_clear) {
    Squares *squares = malloc(size);
    uint32_t threads;
    if (squares == NULL) return hri_fail_memory(size);
    hri_squares_prepare(conversion, squares);
    Slabs slabs = cut_into_slabs(conversion, hri_squares_division(squares), &threads);
    slabs.squares = squares;
    HurrayStatus status = convert_slabs(&slabs, threads, is_clear);
    free(squares);
    return status;
}

/* Moves all elements. A destination that is zero already needs no clearing. */
static HurrayStatus move_elements(const Conversion *conversion, bool is_clear) {
    Boxes boxes;
    size_t size = hri_squares_size(conversion);
    if (size != 0) return move_squares(conversion, size, is_clear);
    if (!hri_boxes_prepare(conversion, &boxes)) return move_blocks(conversion, is_clear);
    uint32_t k = boxes.division.dimension;
    HurrayStatus status = is_clear ? HURRAY_OK : hri_conversion_clear(conversion);
    if (status != HURRAY_OK) return status;
    return hri_boxes_convert(conversion, &boxes, (Slab){k, 0, conversion->shape[k]});
}

HurrayStatus hri_conversion_prepare(const HurrayDescriptorFields *from, const uint8_t *source,
                                    uint64_t source_size, const HurrayDescriptorFields *to,
                                    uint8_t *destination, uint64_t destination_size,
                                    Conversion *out) {
    static const uint64_t one = 1;
    uint64_t source_required = 0, required = 0;
    HurrayStatus status = check_side(from, "source", &source_required);
    if (status == HURRAY_OK) status = check_side(to, "destination", &required);
    if (status == HURRAY_OK) status = check_alike(from, to);
    if (status == HURRAY_OK) status = hurray_shape_count(from->shape, from->rank, &out->count);
    if (status == HURRAY_OK) {
        status = check_sizes(source_size, source_required, destination_size, required);
    }
    if (status != HURRAY_OK || out->count == 0) return status;
    if (source == NULL || destination == NULL) {
        return hri_fail_null(source == NULL ? "source" : "destination");
    }
    out->rank = from->rank == 0 ? 1 : from->rank;
    out->shape = from->rank == 0 ? &one : from->shape;
    out->source = source + (size_t)from->byte_offset;
    out->destination = destination + (size_t)to->byte_offset;
    out->required = required;
    arrange(from, &out->from);
    arrange(to, &out->to);
    status = hurray_packing_of(from->type_tag, from->extension_type, &out->packing);
    return status == HURRAY_OK ? check_distinct(&out->to) : status;
}

static HurrayStatus convert(const HurrayDescriptorFields *from, const uint8_t *source,
                            uint64_t source_size, const HurrayDescriptorFields *to,
                            uint8_t *destination, uint64_t destination_size, bool is_clear) {
    Conversion conversion;
    HurrayStatus status = hri_conversion_prepare(from, source, source_size, to, destination,
                                                 destination_size, &conversion);
    if (status != HURRAY_OK || conversion.count == 0) return status;
    return move_elements(&conversion, is_clear);
}

HurrayStatus hurray_convert(const HurrayDescriptorFields *from, const void *source,
                            uint64_t source_size, const HurrayDescriptorFields *to,
                            void *destination, uint64_t destination_size) {
    if (from == NULL || to == NULL) return hri_fail_null(from == NULL ? "from" : "to");
    /* What a permissive reader lets pass would leave it open where elements lie. */
    HurrayDescriptorFields strict_from = *from, strict_to = *to;
    strict_from.permissive = strict_to.permissive = false;
    return convert(&strict_from, source, source_size, &strict_to, destination, destination_size,
                   false);
}

/* ---- new tensors ---- */

/*
 * The least byte_offset in a layout: what lies before element [0, …, 0], when strides are negative.
 * Reaches beyond 2^64 come out wrong, and are refused when buffer sizes are computed.
 */
static HurrayStatus least_byte_offset(const HurrayDescriptorFields *fields, uint64_t *out) {
    const LayoutKind *kind = hri_layout_kind(fields->layout.tag);
    Digit digits[HRI_MAX_DIGITS];
    uint32_t count = 0;
    HurrayPacking packing;
    if (fields->rank < kind->min_rank) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "rank is %" PRIu32 "; layout %s needs at least %" PRIu32, fields->rank,
                        kind->name, kind->min_rank);
    }
    HurrayStatus status = kind->check_fields == NULL ? HURRAY_OK : kind->check_fields(fields);
    if (status == HURRAY_OK) {
        status = hurray_packing_of(fields->type_tag, fields->extension_type, &packing);
    }
    if (status != HURRAY_OK) return status;
    *out = 0;
    if (hurray_shape_is_empty(fields->shape, fields->rank) ||
        hurray_shape_is_dynamic(fields->shape, fields->rank) ||
        !hri_digits(fields, digits, &count)) {
        return HURRAY_OK;
    }
    return hurray_packing_size(packing, reach_before(digits, count), out);
}

/* The tensor over a new buffer 0, and the others of `tensor`; takes over `buffer` on success. */
static HurrayStatus assemble(const HurrayTensor *tensor, const HurrayDescriptorFields *fields,
                             HurrayBuffer *buffer, HurrayTensor **out) {
    HurrayBuffer *buffers[HURRAY_MAX_BUFFERS] = {buffer};
    for (uint32_t i = 1; i < fields->buffer_count; i++) {
        buffers[i] = hurray_tensor_buffer(tensor, i);
    }
    HurrayStatus status = hurray_tensor_create(fields, buffers, out);
    for (uint32_t i = 1; status == HURRAY_OK && i < fields->buffer_count; i++) {
        hurray_buffer_retain(buffers[i]);
    }
    return status;
}

/* The fields of the new tensor, and the size of its buffer. */
static HurrayStatus plan_tensor(const HurrayTensor *tensor, const HurrayLayout *layout,
                                HurrayDescriptorFields *out, uint64_t *required) {
    *out = *hurray_tensor_fields(tensor);
    HurrayStatus status = check_dense(out, "source");
    out->layout = *layout;
    out->byte_offset = 0;
    out->permissive = false;
    if (status == HURRAY_OK) status = check_dense(out, "destination");
    if (status == HURRAY_OK) status = least_byte_offset(out, &out->byte_offset);
    return status == HURRAY_OK ? check_side(out, "destination", required) : status;
}

HurrayStatus hurray_tensor_to_layout(const HurrayTensor *tensor, const HurrayLayout *layout,
                                     const HurrayAllocator *allocator, HurrayTensor **out) {
    if (tensor == NULL || layout == NULL) return hri_fail_null(tensor ? "layout" : "tensor");
    if (out == NULL) return hri_fail_null("out");
    /* Parameters that stand in for those on a device could not be beside a buffer on the CPU. */
    bool staged_too = hurray_tensor_buffer(tensor, 1) == NULL;
    HurrayDescriptorFields from, to;
    uint64_t required = 0;
    HurrayStatus status = hurray_tensor_check_readable(tensor, staged_too);
    if (status == HURRAY_OK) status = plan_tensor(tensor, layout, &to, &required);
    if (status != HURRAY_OK) return status;
    from = *hurray_tensor_fields(tensor);
    from.permissive = false;

    HurrayBuffer *buffer = NULL;
    status = hurray_buffer_allocate(required, true, allocator, &buffer);
    if (status != HURRAY_OK) return status;
    const HurrayBufferInfo *source = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
    status = convert(&from, source->data, source->byte_size, &to, hurray_buffer_info(buffer)->data,
                     required, true);
    if (status == HURRAY_OK) status = assemble(tensor, &to, buffer, out);
    if (status != HURRAY_OK) hurray_buffer_destroy(buffer);
    return status;
}
