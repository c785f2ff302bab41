/*
 * Morton, or Z-order (spec 2.4): the bits of the coordinates interleaved, lowest first and dimension
 * 0 first. Bit b of coordinate d stands at b · rank + d, whatever the other dimensions have, so that
 * uneven bits leave positions unused and the code can exceed 2^Σ bits.
 */
#include <inttypes.h>

#include "checked.h"
#include "dense.h"
#include "fail.h"
#include "layout.h"

static HurrayStatus decode(ByteReader *reader, uint32_t rank, Arena *arena, HurrayLayout *out) {
    if (reader_left(reader) < (size_t)rank * 4) { /* the arena holds what the wire does, no more */
        reader->failed = true;
        return HURRAY_OK;
    }
    uint32_t *bits = arena_take(arena, (size_t)rank * sizeof(uint32_t));
    for (uint32_t k = 0; k < rank; k++) bits[k] = read_u32(reader);
    out->morton_bits = bits;
    return HURRAY_OK;
}

static void encode(const HurrayLayout *layout, uint32_t rank, ByteWriter *writer) {
    for (uint32_t k = 0; k < rank; k++) write_u32(writer, layout->morton_bits[k]);
}

static bool equal(const HurrayLayout *a, const HurrayLayout *b, uint32_t rank) {
    return memcmp(a->morton_bits, b->morton_bits, (size_t)rank * sizeof(uint32_t)) == 0;
}

static size_t footprint(const HurrayLayout *layout, uint32_t rank) {
    (void)layout;
    return arena_footprint((size_t)rank * sizeof(uint32_t));
}

static void copy(HurrayLayout *layout, uint32_t rank, Arena *arena) {
    layout->morton_bits = arena_copy(arena, layout->morton_bits, (size_t)rank * sizeof(uint32_t));
}

static HurrayStatus check_fields(const HurrayDescriptorFields *fields) {
    const uint32_t *bits = fields->layout.morton_bits;
    uint64_t total = 0;
    if (bits == NULL) return hri_fail_null("layout.morton_bits");
    for (uint32_t k = 0; k < fields->rank; k++) {
        uint64_t extent = fields->shape[k];
        if (bits[k] == 0) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "morton layout: morton_bits[%" PRIu32 "] is 0; expected at least 1", k);
        }
        if (extent != HURRAY_DYNAMIC && bits[k] < 64 && extent > UINT64_C(1) << bits[k]) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "morton layout: morton_bits[%" PRIu32 "] is %" PRIu32
                            ", too few for the extent %" PRIu64,
                            k, bits[k], extent);
        }
        total += bits[k]; /* at most 64 · 2^32 */
    }
    if (total >= 64) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "morton layout: morton_bits add up to %" PRIu64
                        "; expected at most 63, for fewer than 2^64 elements",
                        total);
    }
    return HURRAY_OK;
}

/*
 * Adds the coordinate of a dimension to a code. False when one of its bits stands at 64 or above,
 * which uneven bits can bring about.
 */
static bool add_coordinate(uint64_t coordinate, uint32_t dimension, uint32_t rank, uint64_t *code) {
    for (uint32_t at = dimension; coordinate != 0; at += rank, coordinate >>= 1) {
        if ((coordinate & 1) == 0) continue;
        if (at >= 64) return false;
        *code |= UINT64_C(1) << at;
    }
    return true;
}

static HurrayStatus required_bytes(const HurrayDescriptorFields *fields, HurrayPacking packing,
                                   uint64_t *out) {
    uint32_t rank = fields->rank, total = 0;
    uint64_t last = 0;
    out[0] = fields->byte_offset;
    if (hurray_shape_is_empty(fields->shape, rank) ||
        hurray_shape_is_dynamic(fields->shape, rank)) {
        return HURRAY_OK;
    }
    for (uint32_t k = 0; k < rank; k++) {
        total += fields->layout.morton_bits[k];
        if (!add_coordinate(fields->shape[k] - 1, k, rank, &last)) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "morton layout: extent %" PRIu64 " of dimension %" PRIu32
                            " brings codes to 2^64 or more",
                            fields->shape[k], k);
        }
    }
    uint64_t full = (UINT64_C(1) << total) - 1; /* the last of 2^Σ bits elements */
    return hri_reach_bytes(fields, packing, "morton", 0, last > full ? last : full, out);
}

static int64_t offset_of(const HurrayDescriptorFields *fields, const uint64_t *index) {
    uint64_t code = 0;
    for (uint32_t k = 0; k < fields->rank; k++) {
        (void)add_coordinate(index[k], k, fields->rank, &code);
    }
    return (int64_t)code;
}

static bool index_of(const HurrayDescriptorFields *fields, uint64_t offset, uint64_t *index) {
    for (uint32_t k = 0; k < fields->rank; k++) index[k] = 0;
    for (uint32_t at = 0; at < 64; at++) {
        index[at % fields->rank] |= (offset >> at & 1) << at / fields->rank;
    }
    return hri_index_in_bounds(index, fields->shape, fields->rank);
}

const LayoutKind hri_layout_morton = {
    .tag = HURRAY_LAYOUT_MORTON,
    .name = "morton",
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
    .offset = offset_of,
    .index = index_of,
};
