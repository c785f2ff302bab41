/*
 * Hilbert (spec 2.5): the curve that visits the elements of a cube of 2^order in each of `rank`
 * dimensions, from neighbour to neighbour. The mapping is Skilling's (Programming the Hilbert curve,
 * 2004), on an array of coordinates in place. What it does not need here is speed: curve.h has that.
 */
#include <inttypes.h>

#include "checked.h"
#include "dense.h"
#include "fail.h"
#include "layout.h"

static HurrayStatus decode(ByteReader *reader, uint32_t rank, Arena *arena, HurrayLayout *out) {
    (void)rank;
    (void)arena;
    out->hilbert.order = read_u32(reader);
    out->hilbert.rank = read_u32(reader);
    return HURRAY_OK;
}

static void encode(const HurrayLayout *layout, uint32_t rank, ByteWriter *writer) {
    (void)rank;
    write_u32(writer, layout->hilbert.order);
    write_u32(writer, layout->hilbert.rank);
}

static bool equal(const HurrayLayout *a, const HurrayLayout *b, uint32_t rank) {
    (void)rank;
    return a->hilbert.order == b->hilbert.order && a->hilbert.rank == b->hilbert.rank;
}

static HurrayStatus check_fields(const HurrayDescriptorFields *fields) {
    const HurrayHilbertLayout *hilbert = &fields->layout.hilbert;
    if (hilbert->rank != fields->rank) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "hilbert layout: hilbert_rank is %" PRIu32 "; expected the rank, %" PRIu32,
                        hilbert->rank, fields->rank);
    }
    if (hilbert->order == 0 || hilbert->order > 63 / fields->rank) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "hilbert layout: hilbert_order is %" PRIu32 "; expected 1 to %" PRIu32
                        ", for fewer than 2^64 elements of rank %" PRIu32,
                        hilbert->order, 63 / fields->rank, fields->rank);
    }
    for (uint32_t k = 0; k < fields->rank; k++) {
        uint64_t extent = fields->shape[k], expected = UINT64_C(1) << hilbert->order;
        if (extent == expected || extent == HURRAY_DYNAMIC) continue;
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "hilbert layout: extent %" PRIu64 " of dimension %" PRIu32
                        "; expected 2^hilbert_order, %" PRIu64,
                        extent, k, expected);
    }
    return HURRAY_OK;
}

static HurrayStatus required_bytes(const HurrayDescriptorFields *fields, HurrayPacking packing,
                                   uint64_t *out) {
    out[0] = fields->byte_offset;
    if (hurray_shape_is_dynamic(fields->shape, fields->rank)) return HURRAY_OK;
    uint64_t count = UINT64_C(1) << fields->layout.hilbert.order * fields->rank;
    return hri_reach_bytes(fields, packing, "hilbert", 0, count - 1, out);
}

/* One step of Skilling's transform, its own inverse: the bits of a[0] below `bit` are flipped, or
 * change places with those of a[j]. */
static void flip_or_exchange(uint32_t *a, uint32_t j, uint32_t bit) {
    uint32_t below = bit - 1;
    if ((a[j] & bit) != 0) {
        a[0] ^= below;
    } else {
        uint32_t differing = (a[0] ^ a[j]) & below;
        a[0] ^= differing;
        a[j] ^= differing;
    }
}

static void transpose_coordinates(uint32_t *a, uint32_t rank, uint32_t order) {
    uint32_t highest = UINT32_C(1) << (order - 1), flips = 0;
    for (uint32_t bit = highest; bit > 1; bit >>= 1) {
        for (uint32_t j = 0; j < rank; j++) flip_or_exchange(a, j, bit);
    }
    for (uint32_t j = 1; j < rank; j++) a[j] ^= a[j - 1];
    for (uint32_t bit = highest; bit > 1; bit >>= 1) {
        if ((a[rank - 1] & bit) != 0) flips ^= bit - 1;
    }
    for (uint32_t j = 0; j < rank; j++) a[j] ^= flips;
}

static void restore_coordinates(uint32_t *a, uint32_t rank, uint32_t order) {
    uint32_t flips = a[rank - 1] >> 1;
    for (uint32_t j = rank - 1; j > 0; j--) a[j] ^= a[j - 1];
    a[0] ^= flips;
    for (uint32_t bit = 2; bit < UINT32_C(1) << order; bit <<= 1) {
        for (uint32_t j = rank; j > 0; j--) flip_or_exchange(a, j - 1, bit);
    }
}

static int64_t offset_of(const HurrayDescriptorFields *fields, const uint64_t *index) {
    uint32_t rank = fields->rank, order = fields->layout.hilbert.order, a[HURRAY_MAX_RANK];
    uint64_t offset = 0;
    for (uint32_t j = 0; j < rank; j++) a[j] = (uint32_t)index[j]; /* below 2^31 */
    transpose_coordinates(a, rank, order);
    for (uint32_t bit = order; bit > 0; bit--) {
        for (uint32_t j = 0; j < rank; j++) offset = offset << 1 | (a[j] >> (bit - 1) & 1);
    }
    return (int64_t)offset;
}

static bool index_of(const HurrayDescriptorFields *fields, uint64_t offset, uint64_t *index) {
    uint32_t rank = fields->rank, order = fields->layout.hilbert.order, a[HURRAY_MAX_RANK] = {0};
    if (offset >> order * rank != 0) return false;
    for (uint32_t at = 0; at < order * rank; at++) {
        a[rank - 1 - at % rank] |= (uint32_t)(offset >> at & 1) << at / rank;
    }
    restore_coordinates(a, rank, order);
    for (uint32_t j = 0; j < rank; j++) index[j] = a[j];
    return true;
}

const LayoutKind hri_layout_hilbert = {
    .tag = HURRAY_LAYOUT_HILBERT,
    .name = "hilbert",
    .layout_class = HURRAY_LAYOUT_CLASS_DENSE,
    .min_rank = 2,
    .max_rank = HURRAY_MAX_RANK,
    .buffer_count = 1,
    .decode = decode,
    .encode = encode,
    .check_fields = check_fields,
    .equal = equal,
    .buffer_roles = hri_dense_roles,
    .required_bytes = required_bytes,
    .offset = offset_of,
    .index = index_of,
};
