/* Sizes of sparse layouts' buffers (layout_sparse.h). */
#include "layout_sparse.h"

#include <inttypes.h>

#include "checked.h"
#include "fail.h"

HurrayStatus hri_sparse_values_bytes(const HurrayDescriptorFields *fields, HurrayPacking packing,
                                     uint64_t *out) {
    uint64_t nnz = fields->layout.sparse.nnz;
    if (hurray_packing_size(packing, nnz, out) == HURRAY_OK) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                    "nnz %" PRIu64 ": that many values of %" PRIu32 " bits take 2^64 bytes or more",
                    nnz, packing.bits);
}

HurrayStatus hri_sparse_entries_bytes(const char *role, const char *what, uint64_t count,
                                      uint32_t per_count, uint64_t *out) {
    if (checked_mul_u64(count, UINT64_C(8) * per_count, out)) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                    "%s %" PRIu64 ": its %s, %" PRIu32 " u64 each, take 2^64 bytes or more", what,
                    count, role, per_count);
}
