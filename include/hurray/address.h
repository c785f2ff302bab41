/*
 * Addressing (spec 2): from a logical index to the place of the element.
 */
#ifndef HURRAY_ADDRESS_H
#define HURRAY_ADDRESS_H

#include <stdint.h>

#include "descriptor.h"

HURRAY_BEGIN_DECLS

/* Where an element lies in buffer 0. */
typedef struct HurrayElementPlace {
    uint64_t byte; /* of the element's lowest bit, from the start of the buffer */
    uint32_t bit;  /* 0 unless the element is narrower than a byte */
} HurrayElementPlace;

/*
 * The linear element offset of `index` (u64[rank]) in a tensor of a dense layout (row-major,
 * column-major, strided, tiled, Morton, Hilbert), relative to byte_offset.
 * HURRAY_ERR_INDEX_OUT_OF_BOUNDS naming the dimension; HURRAY_ERR_UNSUPPORTED for other layouts,
 * and for strides that lead 2^63 elements away or further; HURRAY_ERR_INVALID_LAYOUT where it
 * depends on a dynamic dimension. `fields` must be valid.
 */
HURRAY_API HurrayStatus hurray_address_offset(const HurrayDescriptorFields *fields,
                                              const uint64_t *index, int64_t *out_offset);

/*
 * The inverse: the index (u64[rank], into `out_index`) of the element at a linear element offset.
 * HURRAY_ERR_INDEX_OUT_OF_BOUNDS where no element lies: padding, a gap between rows, the outside.
 * HURRAY_ERR_UNSUPPORTED for layouts that are not dense, and for strides (tiled ones included) that
 * overlap, broadcast or interleave: each must be longer than all shorter ones together reach.
 * HURRAY_ERR_INVALID_LAYOUT with a dynamic dimension. `fields` must be valid.
 */
HURRAY_API HurrayStatus hurray_address_index(const HurrayDescriptorFields *fields, int64_t offset,
                                             uint64_t *out_index);

/* The place of the element at a linear element offset of a valid tensor. */
HURRAY_API HurrayStatus hurray_address_place(const HurrayDescriptorFields *fields, int64_t offset,
                                             HurrayElementPlace *out);

/*
 * Strides in elements, i64[rank], of a row-major, column-major or strided tensor, with what its
 * quantization pads counted in. HURRAY_ERR_UNSUPPORTED for layouts without strides,
 * HURRAY_ERR_INVALID_LAYOUT where they depend on a dynamic dimension.
 */
HURRAY_API HurrayStatus hurray_address_strides(const HurrayDescriptorFields *fields,
                                               int64_t *strides);

HURRAY_END_DECLS

#endif
