/*
 * What several dense layouts have in common: how far their elements reach, and what makes their
 * offsets reversible.
 */
#ifndef HURRAY_SRC_DENSE_H
#define HURRAY_SRC_DENSE_H

#include <hurray/descriptor_fields.h>

/*
 * The least size of buffer 0, byte_offset included, when elements lie up to `before` elements before
 * byte_offset and up to `after` elements past it. HURRAY_ERR_INVALID_LAYOUT, naming the layout, when
 * they begin before the buffer, or end past 2^64 bytes.
 */
HurrayStatus hri_reach_bytes(const HurrayDescriptorFields *fields, HurrayPacking packing,
                             const char *layout_name, uint64_t before, uint64_t after,
                             uint64_t *out_bytes);

/*
 * A digit of an offset. Where elements lie in strides, or in strides within strides as in nested
 * tiles, an offset is a sum of digits times their steps, and an index is a sum of the same digits times
 * their weights. A strided tensor has a digit for each dimension, a tiled one a digit for each
 * dimension of each level.
 */
typedef struct Digit {
    uint64_t extent; /* it counts 0 … extent − 1; 2 or more */
    uint64_t step;   /* elements from one value to the next */
    uint64_t weight; /* index[dimension] grows by this */
    uint32_t dimension;
    bool is_descending; /* the offset falls by `step` */
} Digit;

/*
 * Digits of valid fields without an empty or dynamic dimension. Tiles of all levels together hold
 * fewer than 2^64 elements, so at most 63 of their digits have an extent of 2 or more; one for each
 * dimension are added by the shape.
 */
#define HRI_MAX_DIGITS (HURRAY_MAX_RANK + 63u)

/* False where the layout has no digits: Morton, Hilbert, and everything that is not dense. */
bool hri_digits(const HurrayDescriptorFields *fields, Digit digits[HRI_MAX_DIGITS],
                uint32_t *out_count);

/*
 * Brings digits into the order of their steps, largest first. True when each step is longer than
 * everything below it reaches: then no two indices share an offset, and division finds the digits.
 * Packed arrangements are of this kind, with gaps between rows or not, and so are transposed and
 * reversed ones; a step of 0 is not. Others may be without collisions, but are not decided here.
 */
bool hri_digits_sort(Digit *digits, uint32_t count);

/* The index at an offset, from sorted digits; false where no element lies. Edge tiles are taken as
 * whole: the index may be outside the shape. */
bool hri_digits_index(const Digit *digits, uint32_t count, uint32_t rank, int64_t offset,
                      uint64_t *index);

/* Whether an index is inside a shape. */
bool hri_index_in_bounds(const uint64_t *index, const uint64_t *shape, uint32_t rank);

/* The digits of a tiled tensor, for hri_digits. (layout_tiled.c) */
uint32_t hri_tiled_digits(const HurrayDescriptorFields *fields, Digit digits[HRI_MAX_DIGITS]);

#endif
