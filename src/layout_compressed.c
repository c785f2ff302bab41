/*
 * CSR and CSC (spec 2.7): a matrix by rows or by columns. The entries of row r (column c) are those
 * from ptr[r] to ptr[r + 1], each a value with the index in the other dimension.
 */
#include "fail.h"
#include "layout.h"
#include "layout_sparse.h"

static HurrayStatus decode(ByteReader *reader, uint32_t rank, Arena *arena, HurrayLayout *out) {
    (void)rank, (void)arena;
    out->sparse.nnz = read_u64(reader);
    if (!read_zeros(reader, 8) && !reader->failed) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "%s layout: the 8 reserved bytes are not all 0",
                        hurray_layout_name(out->tag));
    }
    return HURRAY_OK;
}

static void encode(const HurrayLayout *layout, uint32_t rank, ByteWriter *writer) {
    (void)rank;
    write_u64(writer, layout->sparse.nnz);
    write_zeros(writer, 8);
}

static bool equal(const HurrayLayout *a, const HurrayLayout *b, uint32_t rank) {
    (void)rank;
    return a->sparse.nnz == b->sparse.nnz;
}

/* `extent` is the number of rows (columns): one pointer more. No known extent is 2^64 - 1. */
static HurrayStatus compressed_bytes(const HurrayDescriptorFields *fields, HurrayPacking packing,
                                     const char *const *roles, const char *what, uint64_t extent,
                                     uint64_t *out) {
    HurrayStatus status = hri_sparse_values_bytes(fields, packing, &out[0]);
    if (status != HURRAY_OK) return status;
    status = hri_sparse_entries_bytes(roles[1], "nnz", fields->layout.sparse.nnz, 1, &out[1]);
    out[2] = 0;
    if (status != HURRAY_OK || extent == HURRAY_DYNAMIC) return status;
    return hri_sparse_entries_bytes(roles[2], what, extent + 1, 1, &out[2]);
}

static const char *const csr_roles[] = {"values", "col_indices", "row_ptr"};
static const char *const csc_roles[] = {"values", "row_indices", "col_ptr"};

static HurrayStatus csr_bytes(const HurrayDescriptorFields *fields, HurrayPacking packing,
                              uint64_t *out) {
    return compressed_bytes(fields, packing, csr_roles, "rows + 1 =", fields->shape[0], out);
}

static HurrayStatus csc_bytes(const HurrayDescriptorFields *fields, HurrayPacking packing,
                              uint64_t *out) {
    return compressed_bytes(fields, packing, csc_roles, "columns + 1 =", fields->shape[1], out);
}

const LayoutKind hri_layout_csr = {
    .tag = HURRAY_LAYOUT_CSR,
    .name = "csr",
    .layout_class = HURRAY_LAYOUT_CLASS_SPARSE,
    .min_rank = 2,
    .max_rank = 2,
    .buffer_count = 3,
    .offset_is_zero = true,
    .decode = decode,
    .encode = encode,
    .equal = equal,
    .buffer_roles = csr_roles,
    .required_bytes = csr_bytes,
};

const LayoutKind hri_layout_csc = {
    .tag = HURRAY_LAYOUT_CSC,
    .name = "csc",
    .layout_class = HURRAY_LAYOUT_CLASS_SPARSE,
    .min_rank = 2,
    .max_rank = 2,
    .buffer_count = 3,
    .offset_is_zero = true,
    .decode = decode,
    .encode = encode,
    .equal = equal,
    .buffer_roles = csc_roles,
    .required_bytes = csc_bytes,
};
