/*
 * Copying elements between strided arrangements in memory. Whole-byte elements of any size are moved
 * as they are; packed ones go through one byte each. Padding is never read.
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
 * the addresses of element [0, …, 0]; strides count elements, may be negative or zero (a zero stride
 * in the destination keeps the last element written). Nothing is required of the addresses. The
 * element count of `shape` must be known to fit; the arrays must not overlap.
 */
HURRAY_API HurrayStatus hurray_copy_strided(uint32_t rank, const uint64_t *shape,
                                            uint32_t element_bytes, const void *source,
                                            const int64_t *source_strides, void *destination,
                                            const int64_t *destination_strides);

/*
 * Unpacks a strided array of sub-byte elements into row-major bytes, one each (see pack.h for
 * sign_extend). `source` is the byte at which element offset 0 begins; strides count elements.
 */
HURRAY_API HurrayStatus hurray_unpack_strided(uint32_t rank, const uint64_t *shape,
                                              HurrayPacking packing, bool sign_extend,
                                              const uint8_t *source, const int64_t *source_strides,
                                              uint8_t *values);

/*
 * Packs a strided array of bytes, one element each, into row-major sub-byte elements.
 * `destination` receives hurray_packing_size bytes.
 */
HURRAY_API HurrayStatus hurray_pack_strided(uint32_t rank, const uint64_t *shape,
                                            HurrayPacking packing, const uint8_t *values,
                                            const int64_t *value_strides, uint8_t *destination);

HURRAY_END_DECLS

#endif
