/*
 * The three ways from one dense layout to another, and what they share.
 *
 * convert_boxes.c: where both sides count in digits that fit together, as rows, columns and tiles
 * mostly do, the tensor falls into boxes that are strided on both sides, with more dimensions than it
 * has itself, and hurray_copy_strided copies them.
 *
 * convert_squares.c: a curve of rank 2 on one side, and on the other elements that lie together 16 at a
 * time. A square of 16 · 16 elements is a piece of the curve, in one of a few orders.
 *
 * convert_blocks.c: everything else, block by block of the index space. In all layouts but Hilbert an
 * offset is a sum of one part for each coordinate, so that a block needs only a short table for each
 * dimension; Hilbert gives a table for the whole block. Packed elements pass through a byte each.
 *
 * Either way any slab of the index space can be converted by itself. Threads share strided copies by
 * slices of their own, squares and blocks by slabs; a conversion is constant once prepared.
 */
#ifndef HURRAY_SRC_CONVERT_H
#define HURRAY_SRC_CONVERT_H

#include <hurray/descriptor_fields.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dense.h"

/* One side: where the elements lie. */
typedef struct Arrangement {
    const HurrayDescriptorFields *fields;
    bool has_digits; /* else a curve */
    uint32_t digit_count;
    Digit digits[HRI_MAX_DIGITS];
    uint64_t before; /* elements lie up to so many before element [0, …, 0] */
} Arrangement;

/* A conversion of one element or more. Both sides fit into memory, padding included. */
typedef struct Conversion {
    uint32_t rank; /* 1 … 64: a scalar is taken as a vector */
    const uint64_t *shape;
    uint64_t count; /* elements */
    HurrayPacking packing;
    Arrangement from, to;
    const uint8_t *source; /* element [0, …, 0] */
    uint8_t *destination;
    uint64_t required; /* bytes of the destination */
} Conversion;

/* Checks all that hurray_convert does, of strict fields, and fills *out in. Where there is no element
 * only `count` is set. */
HurrayStatus hri_conversion_prepare(const HurrayDescriptorFields *from, const uint8_t *source,
                                    uint64_t source_size, const HurrayDescriptorFields *to,
                                    uint8_t *destination, uint64_t destination_size,
                                    Conversion *out);

/* Zeros wherever no element will be written, from the first to the last of the bytes required; before
 * any slab is converted. */
HurrayStatus hri_conversion_clear(const Conversion *conversion);

/* The part of a tensor where index[dimension] is first … end − 1. */
typedef struct Slab {
    uint32_t dimension;
    uint64_t first, end;
} Slab;

/* How a conversion can be divided: into slabs of `dimension` that begin at multiples of `grain`. */
typedef struct Division {
    uint32_t dimension;
    uint64_t grain;
} Division;

/* ---- convert_boxes.c ---- */

/* A dimension of a box: `extent` steps, each `weight` along a dimension of the tensor. */
typedef struct BoxAxis {
    uint64_t extent; /* of whole ones; the outermost of a dimension has what the shape leaves */
    uint64_t weight;
    int64_t from, to; /* strides in elements */
} BoxAxis;

typedef struct Boxes {
    BoxAxis axes[HURRAY_MAX_RANK];
    uint32_t first_axis[HURRAY_MAX_RANK + 1]; /* those of dimension k, outermost first */
    uint64_t count;                           /* boxes of the whole tensor */
    Division division;
} Boxes;

/* False where digits do not fit together, where elements are packed, and where the boxes would be so
 * many and small that blocks are better. */
bool hri_boxes_prepare(const Conversion *conversion, Boxes *out);
HurrayStatus hri_boxes_convert(const Conversion *conversion, const Boxes *boxes, Slab slab);

/* ---- convert_squares.c ---- */

typedef struct Squares Squares;

/* The bytes of memory that a conversion takes this way, aligned as malloc's are; 0 where it cannot. */
size_t hri_squares_size(const Conversion *conversion);
/* Fills `out`, of as many bytes, in; constant from then on. */
void hri_squares_prepare(const Conversion *conversion, Squares *out);
Division hri_squares_division(const Squares *squares);
void hri_squares_convert(const Conversion *conversion, const Squares *squares, Slab slab);

/* ---- convert_blocks.c ---- */

/* The offsets of coordinates start … start + count − 1 of dimension k of a side that has digits, times
 * `unit`. */
void hri_fill_offsets(const Arrangement *side, uint32_t k, uint64_t start, uint32_t count,
                      int64_t unit, int64_t *out);

/*
 * How the index space is cut into blocks. The destination must hold zeros where elements are packed:
 * bits are added to it, and a byte may belong to several blocks, so that there is one slab only.
 */
typedef struct Blocks {
    uint64_t extents[HURRAY_MAX_RANK]; /* powers of two */
    uint32_t order[HURRAY_MAX_RANK];   /* dimensions as blocks step through them, outermost first */
    uint32_t from_run, to_run;         /* dimensions along which each side's elements are closest */
    bool from_follows;                 /* the source goes on from block to block along from_run */
    bool to_follows;                   /* or the destination along to_run */
    Division division;
} Blocks;

void hri_blocks_prepare(const Conversion *conversion, Blocks *out);
/* The bytes of memory that converting takes, one slab at a time; aligned as malloc's are. */
size_t hri_blocks_workspace(const Conversion *conversion, const Blocks *blocks);
void hri_blocks_convert(const Conversion *conversion, const Blocks *blocks, Slab slab,
                        void *workspace);

#endif
