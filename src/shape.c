/* Element counts and packed strides of a shape (include/hurray/shape.h, spec 1.4). */
#include <hurray/shape.h>

#include <inttypes.h>

#include "checked.h"
#include "fail.h"

bool hurray_shape_is_dynamic(const uint64_t *shape, uint32_t rank) {
    for (uint32_t k = 0; k < rank; k++) {
        if (shape[k] == HURRAY_DYNAMIC) return true;
    }
    return false;
}

bool hurray_shape_is_empty(const uint64_t *shape, uint32_t rank) {
    for (uint32_t k = 0; k < rank; k++) {
        if (shape[k] == 0) return true;
    }
    return false;
}

HurrayStatus hurray_shape_count(const uint64_t *shape, uint32_t rank, uint64_t *out_count) {
    if (out_count == NULL) return hri_fail_null("out_count");
    if (shape == NULL && rank != 0) return hri_fail_null("shape");
    uint64_t count = 1;
    bool empty = false, overflow = false;
    for (uint32_t k = 0; k < rank; k++) {
        if (shape[k] == HURRAY_DYNAMIC) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "shape[%" PRIu32 "] is dynamic, so that elements cannot be counted", k);
        }
        if (shape[k] == 0) empty = true;
        if (!overflow && !checked_mul_u64(count, shape[k], &count)) overflow = true;
    }
    if (overflow && !empty) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "shape: the product of its %" PRIu32 " extents is 2^64 or more", rank);
    }
    *out_count = empty ? 0 : count;
    return HURRAY_OK;
}

/* One step of a packed arrangement: gives the stride of a dimension and grows it by its extent. */
static int64_t next_stride(uint64_t *stride, uint64_t extent) {
    uint64_t here = *stride;
    if (extent > 1 && !checked_mul_u64(here, extent, stride)) *stride = INT64_MAX;
    if (*stride > INT64_MAX) *stride = INT64_MAX;
    return (int64_t)here;
}

bool hurray_shape_row_major_strides(const uint64_t *shape, uint32_t rank, int64_t *strides) {
    if (hurray_shape_is_dynamic(shape, rank)) return false;
    uint64_t stride = 1;
    for (uint32_t k = rank; k-- > 0;) strides[k] = next_stride(&stride, shape[k]);
    return true;
}

bool hurray_shape_col_major_strides(const uint64_t *shape, uint32_t rank, int64_t *strides) {
    if (hurray_shape_is_dynamic(shape, rank)) return false;
    uint64_t stride = 1;
    for (uint32_t k = 0; k < rank; k++) strides[k] = next_stride(&stride, shape[k]);
    return true;
}
