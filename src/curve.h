/*
 * Morton and Hilbert offsets in bulk, for whoever moves many elements: a row of coordinates at a
 * time, or a run of the curve, from tables instead of bit by bit. They give what the layouts' own
 * `offset` and `index` give for one element; tables are worth their making from some thousand
 * elements on.
 *
 * Everything is table look-ups and needs no instructions of any particular CPU: an element costs a load
 * and an OR, less than the bit-spreading instructions that some have.
 */
#ifndef HURRAY_SRC_CURVE_H
#define HURRAY_SRC_CURVE_H

#include <hurray/descriptor_fields.h>
#include <stddef.h>

/*
 * A Hilbert curve is an automaton: what it does to a digit, one bit of each coordinate, depends on
 * how the curve is turned there. It has 8 turns in rank 2, 48 in rank 3, 384 in rank 4; a table
 * takes several digits in one step. Entries are next turn << (rank · digits) | result.
 */
#define HRI_CURVE_TABLE_SIZE (384u * 16u)

/* About 24 KiB, made to live on a stack; constant once prepared, so that threads may share it. */
typedef struct HriCurve {
    const HurrayDescriptorFields *fields;
    uint32_t rank;
    uint32_t digits; /* Hilbert: bits of each coordinate that a step takes; 0: without tables */
    uint32_t levels; /* steps to a code */
    uint16_t first_turn;
    union {
        struct {
            uint16_t to_code[HRI_CURVE_TABLE_SIZE];  /* by coordinates, the last one lowest */
            uint16_t to_index[HRI_CURVE_TABLE_SIZE]; /* by code */
        } hilbert;
        struct {
            uint64_t spread[256]; /* bit b at b · rank */
            uint8_t low[8][256];  /* what the lowest byte of a code adds to coordinate k */
        } morton;
    };
} HriCurve;

/* `fields`: valid, Morton or Hilbert, without a dynamic dimension; borrowed. */
void hri_curve_prepare(const HurrayDescriptorFields *fields, HriCurve *out);

/* The offsets of `count` elements of a row: from `index` (u64[rank]) on, the last coordinate
 * ascending. All must be in bounds. */
void hri_curve_row(const HriCurve *curve, const uint64_t *index, size_t count, uint64_t *offsets);

/*
 * The indices of `count` consecutive offsets: coordinate k of element i goes to
 * indices[k · count + i]. Positions without an element, which only Morton has, give indices outside
 * the shape. Hilbert: offset + count is at most 2^(rank · order).
 */
void hri_curve_walk(const HriCurve *curve, uint64_t offset, size_t count, uint64_t *indices);

/*
 * Rank 2: the elements of a square of 16 · 16, whose corner is at multiples of 16, have 256 offsets in a
 * row. In which order they do depends on how the curve is turned there, which it can be in up to 8 ways.
 */
enum {
    HRI_SQUARE_EDGE = 16,
    HRI_SQUARE_COUNT = HRI_SQUARE_EDGE * HRI_SQUARE_EDGE,
    HRI_SQUARE_TURNS = 8
};

/* The first offset of the square at a corner, and its turn. Hilbert: of order 4 or more. */
uint64_t hri_curve_square(const HriCurve *curve, const uint64_t corner[2], uint32_t *turn);

/* At 16 · row + column, the offset within a square that has this turn. */
void hri_curve_square_order(const HriCurve *curve, uint32_t turn, uint8_t order[HRI_SQUARE_COUNT]);

#endif
