/* Morton and Hilbert offsets in bulk (curve.h, spec 2.4, 2.5). */
#include "curve.h"

#include <string.h>

#include "layout.h"

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* ---- Morton ---- */

static void prepare_morton(HriCurve *curve) {
    memset(&curve->morton, 0, sizeof curve->morton);
    for (uint32_t value = 0; value < 256; value++) {
        for (uint32_t b = 0; b < 8; b++) {
            uint64_t bit = value >> b & 1;
            /* Bits that would leave the word belong to coordinates that no tensor has. */
            if (b * curve->rank < 64) curve->morton.spread[value] |= bit << b * curve->rank;
            curve->morton.low[b % curve->rank][value] |= (uint8_t)(bit << b / curve->rank);
        }
    }
}

/* A coordinate, spread over its positions, a byte at a time. */
static uint64_t spread(const HriCurve *curve, uint64_t coordinate, uint32_t dimension) {
    uint64_t code = 0;
    for (uint32_t at = dimension; coordinate != 0; at += 8 * curve->rank, coordinate >>= 8) {
        code |= curve->morton.spread[coordinate & 255] << at;
    }
    return code;
}

static void morton_row(const HriCurve *curve, const uint64_t *index, size_t count,
                       uint64_t *offsets) {
    uint32_t last = curve->rank - 1;
    uint64_t others = 0, at = index[last];
    for (uint32_t k = 0; k < last; k++) others |= spread(curve, index[k], k);
    while (count > 0) {
        uint64_t base = others | spread(curve, at & ~UINT64_C(255), last);
        const uint64_t *low = curve->morton.spread + (at & 255);
        size_t run = smaller(count, 256 - (size_t)(at & 255));
        for (size_t i = 0; i < run; i++) offsets[i] = base | low[i] << last;
        offsets += run;
        count -= run;
        at += run;
    }
}

/* Coordinate `dimension` of a code whose lowest byte is left out. */
static uint64_t compact_high(const HriCurve *curve, uint64_t code, uint32_t dimension) {
    uint64_t coordinate = 0;
    for (uint32_t at = dimension, b = 0; at < 64; at += curve->rank, b++) {
        if (at >= 8) coordinate |= (code >> at & 1) << b;
    }
    return coordinate;
}

static void morton_walk(const HriCurve *curve, uint64_t offset, size_t count, uint64_t *indices) {
    for (size_t done = 0; done < count;) {
        uint64_t code = offset + done;
        size_t first = (size_t)(code & 255), run = smaller(count - done, 256 - first);
        for (uint32_t k = 0; k < curve->rank; k++) {
            uint64_t base = compact_high(curve, code, k), *out = indices + k * count + done;
            const uint8_t *low = k < 8 ? curve->morton.low[k] + first : NULL;
            for (size_t i = 0; i < run; i++) out[i] = low == NULL ? base : base | low[i];
        }
        done += run;
    }
}

/* ---- the Hilbert automaton ---- */

#define MAX_TABLE_RANK 4u
#define MAX_TURNS 384u
#define MAX_TURN_KEYS 8192u /* two bits for each source, one for each flip and one for `inverted` */

/*
 * What the steps of Skilling's transform have done to the bits that are still to come: bit k of the
 * transformed digit is bit source[k] of the original, flipped or not; and whether the flips after the
 * Gray code invert the result.
 */
typedef struct Turn {
    uint8_t source[MAX_TABLE_RANK];
    uint8_t flip[MAX_TABLE_RANK];
    uint8_t inverted;
} Turn;

static uint32_t key_of(const Turn *turn) {
    uint32_t key = turn->inverted;
    for (uint32_t k = 0; k < MAX_TABLE_RANK; k++) {
        key = key << 3 | (uint32_t)(turn->source[k] << 1 | turn->flip[k]);
    }
    return key;
}

static void exchange(uint8_t *a, uint8_t *b) {
    uint8_t c = *a;
    *a = *b;
    *b = c;
}

/* One digit, dimension 0 its highest bit, from coordinates to code; `turn` becomes the next one. */
static uint32_t step(Turn *turn, uint32_t rank, uint32_t digit) {
    uint8_t a[MAX_TABLE_RANK], gray = 0;
    uint32_t code = 0;
    for (uint32_t k = 0; k < rank; k++) {
        a[k] = (uint8_t)((digit >> (rank - 1 - turn->source[k]) & 1) ^ turn->flip[k]);
    }
    for (uint32_t j = 0; j < rank; j++) {
        if (a[j] != 0) {
            turn->flip[0] ^= 1;
        } else {
            exchange(&turn->source[0], &turn->source[j]);
            exchange(&turn->flip[0], &turn->flip[j]);
        }
    }
    for (uint32_t j = 0; j < rank; j++) {
        gray ^= a[j];
        code = code << 1 | (uint32_t)(gray ^ turn->inverted);
    }
    turn->inverted ^= gray;
    return code;
}

/* The turns that can be reached from the first one, numbered as they are found, and what each does to
 * one digit: next turn << rank | code. */
static void explore(uint32_t rank, uint16_t steps[MAX_TURNS << MAX_TABLE_RANK], uint32_t *turns) {
    uint16_t numbers[MAX_TURN_KEYS]; /* plus one; 0: not met yet */
    Turn met[MAX_TURNS] = {{{0, 1, 2, 3}, {0, 0, 0, 0}, 0}};
    memset(numbers, 0, sizeof numbers);
    numbers[key_of(&met[0])] = 1;
    *turns = 1;
    for (uint32_t t = 0; t < *turns; t++) {
        for (uint32_t digit = 0; digit < UINT32_C(1) << rank; digit++) {
            Turn next = met[t];
            uint32_t code = step(&next, rank, digit);
            uint16_t *number = &numbers[key_of(&next)];
            if (*number == 0) {
                met[*turns] = next;
                *number = (uint16_t)++*turns;
            }
            steps[t << rank | digit] = (uint16_t)((uint32_t)(*number - 1) << rank | code);
        }
    }
}

/* The digit at bit `b` of all coordinates, from table order: `digits` bits each, the last lowest. */
static uint32_t digit_at(uint32_t coordinates, uint32_t rank, uint32_t digits, uint32_t b) {
    uint32_t digit = 0;
    for (uint32_t k = rank; k > 0; k--) {
        digit = digit << 1 | (coordinates >> ((k - 1) * digits + b) & 1);
    }
    return digit;
}

static void fill_tables(HriCurve *curve, const uint16_t *steps, uint32_t turns) {
    uint32_t rank = curve->rank, width = rank * curve->digits, one = (1u << rank) - 1;
    for (uint32_t entry = 0; entry < turns << width; entry++) {
        uint32_t turn = entry >> width, coordinates = entry & ((1u << width) - 1), code = 0;
        for (uint32_t b = curve->digits; b > 0; b--) {
            uint32_t next = steps[turn << rank | digit_at(coordinates, rank, curve->digits, b - 1)];
            code = code << rank | (next & one);
            turn = next >> rank;
        }
        curve->hilbert.to_code[entry] = (uint16_t)(turn << width | code);
        curve->hilbert.to_index[(entry >> width) << width | code] =
            (uint16_t)(turn << width | coordinates);
    }
}

/*
 * The order is rounded up to whole steps: zeros above the highest bits, which only exchange
 * coordinates and so go round in a cycle of turns. Which turn makes them end at the first one?
 */
static uint16_t turn_before_zeros(const uint16_t *steps, uint32_t rank, uint32_t zeros) {
    uint16_t turn = 0;
    uint32_t cycle = 0;
    do {
        turn = (uint16_t)(steps[(uint32_t)turn << rank] >> rank);
        cycle++;
    } while (turn != 0);
    uint32_t forward = (cycle - zeros % cycle) % cycle;
    for (uint32_t i = 0; i < forward; i++) turn = (uint16_t)(steps[(uint32_t)turn << rank] >> rank);
    return turn;
}

static void prepare_hilbert(HriCurve *curve) {
    static const uint8_t digits[MAX_TABLE_RANK + 1] = {0, 0, 4, 2, 1};
    uint32_t order = curve->fields->layout.hilbert.order, turns = 0;
    uint16_t steps[MAX_TURNS << MAX_TABLE_RANK];
    if (curve->rank > MAX_TABLE_RANK) return;
    curve->digits = digits[curve->rank];
    curve->levels = (order + curve->digits - 1) / curve->digits;
    explore(curve->rank, steps, &turns);
    fill_tables(curve, steps, turns);
    curve->first_turn =
        turn_before_zeros(steps, curve->rank, curve->levels * curve->digits - order);
}

/* ---- Hilbert, by tables ---- */

#define MAX_LEVELS 16u /* 8 in rank 2, 11 in rank 3, 15 in rank 4 */

/* Where a row or a walk is: what came out of the levels above each one, level 0 the highest. */
typedef struct Trail {
    uint32_t turns[MAX_LEVELS + 1];
    uint64_t results[MAX_LEVELS + 1];
} Trail;

/* The highest level whose digit an increment has just changed: above it, nothing rolled over. */
static uint32_t changed_level(uint64_t at, uint32_t levels, uint32_t width) {
    uint32_t level = levels - 1;
    uint64_t mask = (UINT64_C(1) << width) - 1;
    for (at >>= width; level > 0; at >>= width) {
        level--;
        if ((at & mask) != 0) break;
    }
    return level;
}

/* Coordinates but the last, in table order, at every level. */
static void gather_digits(const HriCurve *curve, const uint64_t *index, uint32_t *others) {
    uint32_t mask = (1u << curve->digits) - 1;
    for (uint32_t level = 0; level < curve->levels; level++) {
        uint32_t shift = curve->digits * (curve->levels - 1 - level);
        others[level] = 0;
        for (uint32_t k = 0; k + 1 < curve->rank; k++) {
            others[level] = (others[level] | ((uint32_t)(index[k] >> shift) & mask))
                            << curve->digits;
        }
    }
}

static void hilbert_row(const HriCurve *curve, const uint64_t *index, size_t count,
                        uint64_t *offsets) {
    uint32_t digits = curve->digits, width = curve->rank * digits, last = curve->levels - 1;
    uint32_t mask = (1u << digits) - 1, code_mask = (1u << width) - 1, others[MAX_LEVELS];
    uint64_t at = index[curve->rank - 1];
    Trail trail = {.turns = {curve->first_turn}};
    gather_digits(curve, index, others);
    for (uint32_t from = 0; count > 0; from = changed_level(at, curve->levels, digits)) {
        for (uint32_t level = from; level < last; level++) {
            uint32_t digit = (uint32_t)(at >> digits * (last - level)) & mask;
            uint32_t entry =
                curve->hilbert.to_code[trail.turns[level] << width | others[level] | digit];
            trail.turns[level + 1] = entry >> width;
            trail.results[level + 1] = trail.results[level] << width | (entry & code_mask);
        }
        uint32_t low = (uint32_t)at & mask;
        const uint16_t *table =
            curve->hilbert.to_code + (trail.turns[last] << width | others[last] | low);
        uint64_t base = trail.results[last] << width;
        size_t run = smaller(count, (size_t)mask + 1 - low);
        for (size_t i = 0; i < run; i++) offsets[i] = base | (table[i] & code_mask);
        offsets += run;
        count -= run;
        at += run;
    }
}

/* Writes coordinate k of a run, from table entries. */
static void write_coordinate(const HriCurve *curve, const uint16_t *table, size_t run, uint32_t k,
                             uint64_t base, uint64_t *out) {
    uint32_t shift = curve->digits * (curve->rank - 1 - k), mask = (1u << curve->digits) - 1;
    for (size_t i = 0; i < run; i++) out[i] = base | ((uint32_t)table[i] >> shift & mask);
}

static void hilbert_walk(const HriCurve *curve, uint64_t offset, size_t count, uint64_t *indices) {
    uint32_t rank = curve->rank, digits = curve->digits, width = rank * digits;
    uint32_t last = curve->levels - 1, mask = (1u << digits) - 1, code_mask = (1u << width) - 1;
    Trail trails[MAX_TABLE_RANK] = {{{0}, {0}}}; /* turns in the first, results in each */
    trails[0].turns[0] = curve->first_turn;
    uint32_t from = 0;
    for (size_t done = 0; done < count;) {
        uint64_t at = offset + done;
        for (uint32_t level = from; level < last; level++) {
            uint32_t digit = (uint32_t)(at >> width * (last - level)) & code_mask;
            uint32_t entry = curve->hilbert.to_index[trails[0].turns[level] << width | digit];
            trails[0].turns[level + 1] = entry >> width;
            for (uint32_t k = 0; k < rank; k++) {
                trails[k].results[level + 1] =
                    trails[k].results[level] << digits | (entry >> digits * (rank - 1 - k) & mask);
            }
        }
        uint32_t low = (uint32_t)at & code_mask;
        const uint16_t *table = curve->hilbert.to_index + (trails[0].turns[last] << width | low);
        size_t run = smaller(count - done, (size_t)code_mask + 1 - low);
        for (uint32_t k = 0; k < rank; k++) {
            write_coordinate(curve, table, run, k, trails[k].results[last] << digits,
                             indices + k * count + done);
        }
        done += run;
        from = changed_level(offset + done, curve->levels, width);
    }
}

/* ---- one by one, where tables would be too large ---- */

static void single_row(const HriCurve *curve, const uint64_t *index, size_t count,
                       uint64_t *offsets) {
    uint64_t at[HURRAY_MAX_RANK];
    memcpy(at, index, curve->rank * sizeof(uint64_t));
    for (size_t i = 0; i < count; i++, at[curve->rank - 1]++) {
        offsets[i] = (uint64_t)hri_layout_hilbert.offset(curve->fields, at);
    }
}

static void single_walk(const HriCurve *curve, uint64_t offset, size_t count, uint64_t *indices) {
    uint64_t index[HURRAY_MAX_RANK];
    for (size_t i = 0; i < count; i++) {
        (void)hri_layout_hilbert.index(curve->fields, offset + i, index);
        for (uint32_t k = 0; k < curve->rank; k++) indices[k * count + i] = index[k];
    }
}

/* ---- both ---- */

static bool is_morton(const HriCurve *curve) {
    return curve->fields->layout.tag == HURRAY_LAYOUT_MORTON;
}

void hri_curve_prepare(const HurrayDescriptorFields *fields, HriCurve *out) {
    out->fields = fields;
    out->rank = fields->rank;
    out->digits = out->levels = 0;
    out->first_turn = 0;
    if (is_morton(out)) {
        prepare_morton(out);
    } else {
        prepare_hilbert(out);
    }
}

void hri_curve_row(const HriCurve *curve, const uint64_t *index, size_t count, uint64_t *offsets) {
    if (is_morton(curve)) {
        morton_row(curve, index, count, offsets);
    } else if (curve->digits != 0) {
        hilbert_row(curve, index, count, offsets);
    } else {
        single_row(curve, index, count, offsets);
    }
}

void hri_curve_walk(const HriCurve *curve, uint64_t offset, size_t count, uint64_t *indices) {
    if (is_morton(curve)) {
        morton_walk(curve, offset, count, indices);
    } else if (curve->digits != 0) {
        hilbert_walk(curve, offset, count, indices);
    } else {
        single_walk(curve, offset, count, indices);
    }
}

/* ---- squares ---- */

uint64_t hri_curve_square(const HriCurve *curve, const uint64_t corner[2], uint32_t *turn) {
    *turn = 0;
    if (is_morton(curve)) return spread(curve, corner[0], 0) | spread(curve, corner[1], 1);
    /* A step takes 4 bits of each coordinate in rank 2: the last one is the square. */
    uint64_t code = 0;
    uint32_t now = curve->first_turn;
    for (uint32_t level = curve->levels - 1; level > 0; level--) {
        uint32_t row = (uint32_t)(corner[0] >> 4 * level) & 15;
        uint32_t column = (uint32_t)(corner[1] >> 4 * level) & 15;
        uint32_t entry = curve->hilbert.to_code[now << 8 | row << 4 | column];
        code = code << 8 | (entry & 255);
        now = entry >> 8;
    }
    *turn = now;
    return code << 8;
}

void hri_curve_square_order(const HriCurve *curve, uint32_t turn, uint8_t order[HRI_SQUARE_COUNT]) {
    for (uint32_t i = 0; i < HRI_SQUARE_COUNT; i++) {
        order[i] = is_morton(curve) ? (uint8_t)(curve->morton.spread[i / HRI_SQUARE_EDGE] |
                                                curve->morton.spread[i % HRI_SQUARE_EDGE] << 1)
                                    : (uint8_t)curve->hilbert.to_code[turn << 8 | i];
    }
}
