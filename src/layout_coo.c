/*
 * COO (spec 2.6): nnz values, and for each of them its whole index. What the indices are is a
 * matter of verification and of those who follow them; the descriptor says how many there are.
 */
#include "fail.h"
#include "layout.h"
#include "layout_sparse.h"

static HurrayStatus decode(ByteReader *reader, uint32_t rank, Arena *arena, HurrayLayout *out) {
    (void)rank, (void)arena;
    out->sparse.nnz = read_u64(reader);
    uint8_t is_sorted = read_u8(reader);
    bool reserved_is_zero = read_zeros(reader, 7);
    if (reader->failed) return HURRAY_OK;
    if (is_sorted > 1) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "coo layout: is_sorted is %u; expected 0 or 1",
                        is_sorted);
    }
    if (!reserved_is_zero) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "coo layout: the 7 reserved bytes are not all 0");
    }
    out->sparse.is_sorted = is_sorted == 1;
    return HURRAY_OK;
}

static void encode(const HurrayLayout *layout, uint32_t rank, ByteWriter *writer) {
    (void)rank;
    write_u64(writer, layout->sparse.nnz);
    write_u8(writer, layout->sparse.is_sorted);
    write_zeros(writer, 7);
}

static bool equal(const HurrayLayout *a, const HurrayLayout *b, uint32_t rank) {
    (void)rank;
    return a->sparse.nnz == b->sparse.nnz && a->sparse.is_sorted == b->sparse.is_sorted;
}

static HurrayStatus required_bytes(const HurrayDescriptorFields *fields, HurrayPacking packing,
                                   uint64_t *out) {
    HurrayStatus status = hri_sparse_values_bytes(fields, packing, &out[0]);
    if (status != HURRAY_OK) return status;
    return hri_sparse_entries_bytes("indices", "nnz", fields->layout.sparse.nnz, fields->rank,
                                    &out[1]);
}

static const char *const roles[] = {"values", "indices"};

const LayoutKind hri_layout_coo = {
    .tag = HURRAY_LAYOUT_COO,
    .name = "coo",
    .layout_class = HURRAY_LAYOUT_CLASS_SPARSE,
    .min_rank = 1,
    .max_rank = HURRAY_MAX_RANK,
    .buffer_count = 2,
    .offset_is_zero = true,
    .decode = decode,
    .encode = encode,
    .equal = equal,
    .buffer_roles = roles,
    .required_bytes = required_bytes,
};
