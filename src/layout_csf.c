/*
 * CSF (spec 2.8): a tree of as many levels as dimensions. Level L stores dimension mode_order[L]:
 * the coordinates crd_L, and in pos_L where the children of each entry of the level above begin and
 * end. How many entries the inner levels have is known only to the pointers themselves.
 */
#include <inttypes.h>

#include "fail.h"
#include "layout.h"
#include "layout_sparse.h"

static HurrayStatus decode(ByteReader *reader, uint32_t rank, Arena *arena, HurrayLayout *out) {
    uint64_t nnz = read_u64(reader);
    if (reader_left(reader) < (size_t)rank * 4) { /* the arena holds what the wire does, no more */
        reader->failed = true;
        return HURRAY_OK;
    }
    uint32_t *mode_order = arena_take(arena, (size_t)rank * sizeof(uint32_t));
    for (uint32_t level = 0; level < rank; level++) mode_order[level] = read_u32(reader);
    out->sparse.nnz = nnz;
    out->sparse.mode_order = mode_order;
    if (!read_zeros(reader, 8) && !reader->failed) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "csf layout: the 8 reserved bytes are not all 0");
    }
    return HURRAY_OK;
}

static void encode(const HurrayLayout *layout, uint32_t rank, ByteWriter *writer) {
    write_u64(writer, layout->sparse.nnz);
    for (uint32_t level = 0; level < rank; level++) {
        write_u32(writer, layout->sparse.mode_order[level]);
    }
    write_zeros(writer, 8);
}

/* mode_order is a permutation: no value out of range, none twice. */
static HurrayStatus check_fields(const HurrayDescriptorFields *fields) {
    const uint32_t *mode_order = fields->layout.sparse.mode_order;
    if (mode_order == NULL) return hri_fail_null("layout.sparse.mode_order");
    uint64_t seen = 0; /* a bit for each dimension; there are at most 64 */
    for (uint32_t level = 0; level < fields->rank; level++) {
        uint32_t mode = mode_order[level];
        if (mode >= fields->rank) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "csf layout: mode_order[%" PRIu32 "] is %" PRIu32
                            "; expected a dimension below rank %" PRIu32,
                            level, mode, fields->rank);
        }
        if ((seen >> mode & 1) != 0) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "csf layout: mode_order[%" PRIu32 "] is %" PRIu32
                            " a second time; expected a permutation of the dimensions",
                            level, mode);
        }
        seen |= UINT64_C(1) << mode;
    }
    return HURRAY_OK;
}

static bool equal(const HurrayLayout *a, const HurrayLayout *b, uint32_t rank) {
    return a->sparse.nnz == b->sparse.nnz &&
           memcmp(a->sparse.mode_order, b->sparse.mode_order, rank * sizeof(uint32_t)) == 0;
}

static size_t footprint(const HurrayLayout *layout, uint32_t rank) {
    (void)layout;
    return arena_footprint((size_t)rank * sizeof(uint32_t));
}

static void copy(HurrayLayout *layout, uint32_t rank, Arena *arena) {
    layout->sparse.mode_order =
        arena_copy(arena, layout->sparse.mode_order, (size_t)rank * sizeof(uint32_t));
}

/* The values, pos_0 = [0, n_0], and the leaf coordinates, one for each value. */
static HurrayStatus required_bytes(const HurrayDescriptorFields *fields, HurrayPacking packing,
                                   uint64_t *out) {
    uint32_t leaf = 2 * fields->rank;
    for (uint32_t i = 1; i < leaf; i++) out[i] = 0;
    out[1] = 16;
    HurrayStatus status = hri_sparse_values_bytes(fields, packing, &out[0]);
    if (status != HURRAY_OK) return status;
    return hri_sparse_entries_bytes("leaf coordinates", "nnz", fields->layout.sparse.nnz, 1,
                                    &out[leaf]);
}

#define LEVEL(tens, ones) "pos_" #tens #ones, "crd_" #tens #ones
#define TEN_LEVELS(tens)                                                            \
    LEVEL(tens, 0), LEVEL(tens, 1), LEVEL(tens, 2), LEVEL(tens, 3), LEVEL(tens, 4), \
        LEVEL(tens, 5), LEVEL(tens, 6), LEVEL(tens, 7), LEVEL(tens, 8), LEVEL(tens, 9)

static const char *const roles[1 + 2 * HURRAY_MAX_RANK] = {
    "values",      TEN_LEVELS(), TEN_LEVELS(1), TEN_LEVELS(2), TEN_LEVELS(3), TEN_LEVELS(4),
    TEN_LEVELS(5), LEVEL(6, 0),  LEVEL(6, 1),   LEVEL(6, 2),   LEVEL(6, 3),
};

const LayoutKind hri_layout_csf = {
    .tag = HURRAY_LAYOUT_CSF,
    .name = "csf",
    .layout_class = HURRAY_LAYOUT_CLASS_SPARSE,
    .min_rank = 3,
    .max_rank = HURRAY_MAX_RANK,
    .buffer_count = 1,
    .buffers_per_rank = 2,
    .offset_is_zero = true,
    .no_shard = true,
    .decode = decode,
    .encode = encode,
    .check_fields = check_fields,
    .equal = equal,
    .footprint = footprint,
    .copy = copy,
    .buffer_roles = roles,
    .required_bytes = required_bytes,
};
