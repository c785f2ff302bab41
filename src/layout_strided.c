/*
 * Strided (spec 2.2): one signed stride per dimension, in elements. What makes it delicate is the
 * reach: with strides of both signs the elements spread to both sides of byte_offset, and all of
 * them must lie in the buffer.
 */
#include <inttypes.h>

#include "checked.h"
#include "fail.h"
#include "layout.h"

static HurrayStatus decode(ByteReader *reader, uint32_t rank, Arena *arena, HurrayLayout *out) {
    if (reader_left(reader) < (size_t)rank * 8) { /* the arena holds what the wire does, no more */
        reader->failed = true;
        return HURRAY_OK;
    }
    int64_t *strides = arena_take(arena, (size_t)rank * sizeof(int64_t));
    for (uint32_t k = 0; k < rank; k++) {
        uint64_t bits = read_u64(reader);
        memcpy(&strides[k], &bits, sizeof bits);
    }
    out->strides = strides;
    return HURRAY_OK;
}

static void encode(const HurrayLayout *layout, uint32_t rank, ByteWriter *writer) {
    for (uint32_t k = 0; k < rank; k++) write_u64(writer, (uint64_t)layout->strides[k]);
}

static HurrayStatus check_fields(const HurrayDescriptorFields *fields) {
    return fields->layout.strides == NULL ? hri_fail_null("layout.strides") : HURRAY_OK;
}

static bool equal(const HurrayLayout *a, const HurrayLayout *b, uint32_t rank) {
    return memcmp(a->strides, b->strides, (size_t)rank * sizeof(int64_t)) == 0;
}

static size_t footprint(const HurrayLayout *layout, uint32_t rank) {
    (void)layout;
    return arena_footprint((size_t)rank * sizeof(int64_t));
}

static void copy(HurrayLayout *layout, uint32_t rank, Arena *arena) {
    layout->strides = arena_copy(arena, layout->strides, (size_t)rank * sizeof(int64_t));
}

bool hri_strided_spread(uint32_t rank, const uint64_t *shape, const int64_t *strides,
                        uint64_t *before, uint64_t *after, uint32_t *fault) {
    *before = *after = 0;
    for (uint32_t k = 0; k < rank; k++) {
        uint64_t *side = strides[k] < 0 ? before : after;
        uint64_t distance;
        if (!checked_mul_u64(magnitude_i64(strides[k]), shape[k] - 1, &distance) ||
            !checked_add_u64(*side, distance, side)) {
            *fault = k;
            return false;
        }
    }
    return true;
}

static HurrayStatus required_bytes(const HurrayDescriptorFields *fields, HurrayPacking packing,
                                   uint64_t *out) {
    out[0] = fields->byte_offset;
    if (hurray_shape_is_empty(fields->shape, fields->rank) ||
        hurray_shape_is_dynamic(fields->shape, fields->rank)) {
        return HURRAY_OK;
    }
    uint64_t before, after, bytes_before, groups_after, bytes_after;
    uint32_t fault = 0;
    if (!hri_strided_spread(fields->rank, fields->shape, fields->layout.strides, &before, &after,
                            &fault)) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "strided layout: stride %" PRId64 " over %" PRIu64
                        " elements of dimension %" PRIu32 " reaches 2^64 elements or more",
                        fields->layout.strides[fault], fields->shape[fault], fault);
    }
    /* Element −before lies in the group that begins this many bytes before byte_offset. */
    HurrayStatus status = hurray_packing_size(packing, before, &bytes_before);
    if (status != HURRAY_OK) return status;
    if (bytes_before > fields->byte_offset) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "strided layout: strides reach %" PRIu64
                        " bytes before byte_offset %" PRIu64 ", outside buffer 0",
                        bytes_before, fields->byte_offset);
    }
    if (!checked_add_u64(after / packing.group_elements, 1, &groups_after) ||
        !checked_mul_u64(groups_after, packing.group_bytes, &bytes_after) ||
        !checked_add_u64(bytes_after, fields->byte_offset, &out[0])) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "strided layout: strides reach %" PRIu64
                        " elements past byte_offset %" PRIu64 ", beyond 2^64 bytes",
                        after, fields->byte_offset);
    }
    return HURRAY_OK;
}

static bool strides(const HurrayDescriptorFields *fields, int64_t *out) {
    memcpy(out, fields->layout.strides, (size_t)fields->rank * sizeof(int64_t));
    return true;
}

const LayoutKind hri_layout_strided = {
    .tag = HURRAY_LAYOUT_STRIDED,
    .name = "strided",
    .layout_class = HURRAY_LAYOUT_CLASS_DENSE,
    .min_rank = 1,
    .max_rank = HURRAY_MAX_RANK,
    .buffer_count = 1,
    .decode = decode,
    .encode = encode,
    .check_fields = check_fields,
    .equal = equal,
    .footprint = footprint,
    .copy = copy,
    .buffer_roles = hri_dense_roles,
    .required_bytes = required_bytes,
    .strides = strides,
};
