/*
 * Copying elements between strided arrangements in memory. Whole-byte elements of any size are
 * moved as they are; packed ones go through one byte each. Padding is never read.
 */
#ifndef HURRAY_TRANSCODE_H
#define HURRAY_TRANSCODE_H

#include <stdbool.h>
#include <stdint.h>

#include "element_type.h"
#include "status.h"

HURRAY_BEGIN_DECLS

/*
 * Copies a rank-dimensional array of `element_bytes`-sized elements. `source` and `destination` are
 * the addresses of element [0, …, 0]; strides count elements, may be negative or zero (a zero
 * stride in the destination keeps the last element along it; which one stays where other strides
 * make elements meet is not specified). Nothing is required of the addresses, and no pointer but
 * `shape` is looked at when there are no elements. The two arrays must not overlap.
 *
 * HURRAY_ERR_INVALID_LAYOUT for a rank above 64, a dynamic dimension, and a shape or strides that
 * reach beyond what memory can hold; HURRAY_ERR_INVALID_ARGUMENT for elements of 0 bytes.
 */
HURRAY_API HurrayStatus hurray_copy_strided(uint32_t rank, const uint64_t *shape,
                                            uint32_t element_bytes, const void *source,
                                            const int64_t *source_strides, void *destination,
                                            const int64_t *destination_strides);

/*
 * Unpacks a strided array of sub-byte elements into row-major bytes, one each (see pack.h for
 * sign_extend). `source` is the byte at which element [0, …, 0] begins, which is the first of a
 * group; strides count elements and may be negative or zero. Errors as above, and
 * HURRAY_ERR_INVALID_ARGUMENT for a packing of other than 1, 2, 4 or 6 bits.
 */
HURRAY_API HurrayStatus hurray_unpack_strided(uint32_t rank, const uint64_t *shape,
                                              HurrayPacking packing, bool sign_extend,
                                              const uint8_t *source, const int64_t *source_strides,
                                              uint8_t *values);

/*
 * Packs a strided array of bytes, one element each, into row-major sub-byte elements (see pack.h
 * for which bits count). `destination` receives hurray_packing_size bytes. Errors as above.
 */
HURRAY_API HurrayStatus hurray_pack_strided(uint32_t rank, const uint64_t *shape,
                                            HurrayPacking packing, const uint8_t *values,
                                            const int64_t *value_strides, uint8_t *destination);

HURRAY_END_DECLS

#endif
