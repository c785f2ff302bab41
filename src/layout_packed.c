/*
 * Row-major and column-major (spec 2.1): elements packed without gaps, last or first dimension
 * fastest. The only thing that stretches them is a quantization scheme that pads a partial last
 * block (spec 3).
 */
#include <inttypes.h>

#include "checked.h"
#include "fail.h"
#include "layout.h"
#include "quantization.h"

/* The shape as stored, padding included; false on overflow. `fields` has no dynamic dimension. */
static bool stored_shape(const HurrayDescriptorFields *fields, uint64_t *out) {
    for (uint32_t k = 0; k < fields->rank; k++) {
        if (!hri_quantization_stored_extent(fields, k, &out[k])) return false;
    }
    return true;
}

/* Bytes up to the end of the elements of a packed shape, byte_offset included. */
static HurrayStatus packed_end(const HurrayDescriptorFields *fields, HurrayPacking packing,
                               const uint64_t *shape, uint64_t *out) {
    uint64_t count, bytes;
    HurrayStatus status = hurray_shape_count(shape, fields->rank, &count);
    if (status == HURRAY_OK) status = hurray_packing_size(packing, count, &bytes);
    if (status != HURRAY_OK) return status;
    if (!checked_add_u64(bytes, fields->byte_offset, out)) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "byte_offset %" PRIu64 " and the %" PRIu64
                        " bytes of the elements add up to 2^64 or more",
                        fields->byte_offset, bytes);
    }
    return HURRAY_OK;
}

static HurrayStatus required_bytes(const HurrayDescriptorFields *fields, HurrayPacking packing,
                                   uint64_t *out) {
    out[0] = fields->byte_offset;
    if (hurray_shape_is_empty(fields->shape, fields->rank) ||
        hurray_shape_is_dynamic(fields->shape, fields->rank)) {
        return HURRAY_OK;
    }
    /* Writers exist that do not pad; a permissive reader takes what they wrote (spec 3). */
    if (fields->permissive) return packed_end(fields, packing, fields->shape, out);
    uint64_t shape[HURRAY_MAX_RANK];
    if (!stored_shape(fields, shape)) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "shape: an extent padded to whole quantization blocks is 2^64 or more");
    }
    return packed_end(fields, packing, shape, out);
}

/* The shape that strides follow from. False where nobody knows it: a dimension is dynamic, or the
 * buffer of a permissive descriptor does not hold the padding, so that it was left out somehow. */
static bool known_shape(const HurrayDescriptorFields *fields, uint64_t *out) {
    if (hurray_shape_is_dynamic(fields->shape, fields->rank) || !stored_shape(fields, out)) {
        return false;
    }
    if (!fields->permissive || fields->quantization == NULL ||
        hurray_shape_is_empty(fields->shape, fields->rank)) {
        return true;
    }
    HurrayPacking packing;
    uint64_t end = 0;
    return hurray_packing_of(fields->type_tag, fields->extension_type, &packing) == HURRAY_OK &&
           packed_end(fields, packing, out, &end) == HURRAY_OK &&
           end <= fields->buffers[0].byte_size;
}

static bool row_major_strides(const HurrayDescriptorFields *fields, int64_t *out) {
    uint64_t shape[HURRAY_MAX_RANK];
    return known_shape(fields, shape) && hurray_shape_row_major_strides(shape, fields->rank, out);
}

static bool col_major_strides(const HurrayDescriptorFields *fields, int64_t *out) {
    uint64_t shape[HURRAY_MAX_RANK];
    return known_shape(fields, shape) && hurray_shape_col_major_strides(shape, fields->rank, out);
}

const LayoutKind hri_layout_row_major = {
    .tag = HURRAY_LAYOUT_ROW_MAJOR,
    .name = "row_major",
    .layout_class = HURRAY_LAYOUT_CLASS_DENSE,
    .min_rank = 0,
    .max_rank = HURRAY_MAX_RANK,
    .buffer_count = 1,
    .buffer_roles = hri_dense_roles,
    .required_bytes = required_bytes,
    .strides = row_major_strides,
};

const LayoutKind hri_layout_col_major = {
    .tag = HURRAY_LAYOUT_COL_MAJOR,
    .name = "col_major",
    .layout_class = HURRAY_LAYOUT_CLASS_DENSE,
    .min_rank = 1,
    .max_rank = HURRAY_MAX_RANK,
    .buffer_count = 1,
    .buffer_roles = hri_dense_roles,
    .required_bytes = required_bytes,
    .strides = col_major_strides,
};
