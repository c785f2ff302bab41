/*
 * Shapes (spec 1.4): u64 extents, rank 0 … 64. Rank 0 is a scalar, one element. An extent of 0 makes
 * the tensor empty, whatever the others multiply to. HURRAY_DYNAMIC is an extent that is not known
 * yet; nothing that depends on it can be computed.
 */
#ifndef HURRAY_SHAPE_H
#define HURRAY_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"

HURRAY_BEGIN_DECLS

#define HURRAY_MAX_RANK 64u
#define HURRAY_DYNAMIC UINT64_MAX

HURRAY_API bool hurray_shape_is_dynamic(const uint64_t *shape, uint32_t rank);
HURRAY_API bool hurray_shape_is_empty(const uint64_t *shape, uint32_t rank);

/*
 * The product of the extents. HURRAY_ERR_INVALID_LAYOUT when a dimension is dynamic or the product
 * reaches 2^64. `shape` may be NULL when rank is 0.
 */
HURRAY_API HurrayStatus hurray_shape_count(const uint64_t *shape, uint32_t rank,
                                           uint64_t *out_count);

/*
 * Strides, in elements, of the packed arrangement with the last (row-major) or first (column-major)
 * dimension fastest: i64[rank] into `strides`. An extent of 0 counts as 1, as in NumPy; a stride that
 * leaves the range of i64 (empty shapes, 1-bit elements by the exabyte) is given as INT64_MAX.
 * False, and nothing written, when a dimension is dynamic.
 */
HURRAY_API bool hurray_shape_row_major_strides(const uint64_t *shape, uint32_t rank,
                                               int64_t *strides);
HURRAY_API bool hurray_shape_col_major_strides(const uint64_t *shape, uint32_t rank,
                                               int64_t *strides);

HURRAY_END_DECLS

#endif
