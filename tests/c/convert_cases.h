/*
 * Random dense layouts over small shapes, and a conversion that looks at one bit at a time: what the
 * tests and the fuzz target of conversions compare with. Numbers come from a function of the user's.
 */
#ifndef HURRAY_TESTS_CONVERT_CASES_H
#define HURRAY_TESTS_CONVERT_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <hurray/address.h>
#include <hurray/descriptor.h>

enum {
    CASE_RANK = 6,
    CASE_LEVELS = 3,
    CASE_KINDS = 6 /* of layouts, see make_layout */
};

/* 0 … bound − 1; bound > 0. */
typedef uint64_t ChooseNumber(void *context, uint64_t bound);

typedef struct Choices {
    ChooseNumber *choose;
    void *context;
} Choices;

static inline uint64_t pick(const Choices *choices, uint64_t bound) {
    return choices->choose(choices->context, bound);
}

/* A layout with what it points to. */
typedef struct CaseLayout {
    HurrayLayout layout;
    int64_t strides[CASE_RANK];
    HurrayTileLevel levels[CASE_LEVELS];
    uint64_t tiles[CASE_LEVELS][CASE_RANK];
    int64_t outer[CASE_LEVELS][CASE_RANK], inner[CASE_RANK];
    uint32_t bits[CASE_RANK];
} CaseLayout;

/* Strides of a shape in any order of dimensions, some of them negative, with gaps of up to `gaps`. */
static inline void make_strides(const Choices *choices, const uint64_t *shape, uint32_t rank,
                                uint64_t gaps, int64_t *strides) {
    uint32_t order[CASE_RANK] = {0};
    for (uint32_t k = 0; k < rank; k++) {
        uint32_t at = (uint32_t)pick(choices, k + 1);
        order[k] = order[at];
        order[at] = k;
    }
    uint64_t step = 1 + pick(choices, gaps + 1);
    for (uint32_t i = 0; i < rank; i++) {
        bool is_negative = pick(choices, 3) == 0;
        strides[order[i]] = is_negative ? -(int64_t)step : (int64_t)step;
        step = step * shape[order[i]] + pick(choices, gaps + 1);
    }
}

/* One of row-major, column-major and strided. */
static inline uint8_t make_arrangement(const Choices *choices, const uint64_t *shape, uint32_t rank,
                                       uint64_t gaps, int64_t *strides) {
    uint8_t tag = (uint8_t)(1 + pick(choices, 3));
    if (tag == HURRAY_LAYOUT_STRIDED) make_strides(choices, shape, rank, gaps, strides);
    return tag;
}

/* Tiles of up to three levels, from the innermost outward; mostly some that do not fit the shape. */
static inline void make_tiles(const Choices *choices, const uint64_t *shape, uint32_t rank,
                              CaseLayout *out) {
    uint32_t count = 1 + (uint32_t)pick(choices, CASE_LEVELS);
    for (uint32_t i = count; i > 0; i--) {
        for (uint32_t k = 0; k < rank; k++) {
            uint64_t below = i == count ? 1 : out->tiles[i][k];
            out->tiles[i - 1][k] = below * (1 + pick(choices, i == count ? 9 : 3));
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t grid[CASE_RANK];
        for (uint32_t k = 0; k < rank; k++) {
            uint64_t over = i == 0 ? shape[k] : out->tiles[i - 1][k];
            grid[k] = (over + out->tiles[i][k] - 1) / out->tiles[i][k];
        }
        out->levels[i] = (HurrayTileLevel){
            .tile_shape = out->tiles[i],
            .outer_strides = out->outer[i],
            .inner_strides = out->inner,
            .outer_layout = make_arrangement(choices, grid, rank, i == 0 ? 2 : 0, out->outer[i]),
            .inner_layout = HURRAY_LAYOUT_TILED,
        };
    }
    out->levels[count - 1].inner_layout =
        make_arrangement(choices, out->tiles[count - 1], rank, 0, out->inner);
    out->layout.tag = HURRAY_LAYOUT_TILED;
    out->layout.tiled = (HurrayTiledLayout){count, out->levels};
}

static inline uint32_t bits_for(uint64_t extent) {
    uint32_t bits = 1;
    while (UINT64_C(1) << bits < extent) bits++;
    return bits;
}

static inline bool fits_hilbert(const uint64_t *shape, uint32_t rank) {
    for (uint32_t k = 0; k < rank; k++) {
        if (shape[k] != shape[0] || shape[k] != UINT64_C(1) << bits_for(shape[k])) return false;
    }
    return rank >= 2;
}

/* A layout of the given kind; row-major where that kind has no layout for the shape. */
static inline void make_layout(const Choices *choices, uint32_t kind, const uint64_t *shape,
                               uint32_t rank, CaseLayout *out) {
    memset(out, 0, sizeof *out);
    out->layout.tag = HURRAY_LAYOUT_ROW_MAJOR;
    if (rank == 0) return;
    switch (kind) {
    case 1: out->layout.tag = HURRAY_LAYOUT_COL_MAJOR; break;
    case 2:
        make_strides(choices, shape, rank, 2, out->strides);
        out->layout.tag = HURRAY_LAYOUT_STRIDED;
        out->layout.strides = out->strides;
        break;
    case 3: make_tiles(choices, shape, rank, out); break;
    case 4:
        for (uint32_t k = 0; k < rank; k++) {
            out->bits[k] = bits_for(shape[k]) + (pick(choices, 8) == 0 ? 1 : 0);
        }
        out->layout.tag = HURRAY_LAYOUT_MORTON;
        out->layout.morton_bits = out->bits;
        break;
    case 5:
        if (!fits_hilbert(shape, rank)) break;
        out->layout.tag = HURRAY_LAYOUT_HILBERT;
        out->layout.hilbert = (HurrayHilbertLayout){bits_for(shape[0]), rank};
        break;
    default: break;
    }
}

/* ---- bit by bit ---- */

static inline uint32_t case_bits(const HurrayDescriptorFields *fields) {
    HurrayPacking packing = {0, 0, 0};
    return hurray_packing_of(fields->type_tag, fields->extension_type, &packing) == HURRAY_OK
               ? packing.bits
               : 0;
}

/* The position of an element's lowest bit in the buffer; UINT64_MAX when that fails. */
static inline uint64_t bit_of_element(const HurrayDescriptorFields *fields, const uint64_t *index) {
    int64_t offset = 0;
    HurrayElementPlace place = {0, 0};
    if (hurray_address_offset(fields, index, &offset) != HURRAY_OK ||
        hurray_address_place(fields, offset, &place) != HURRAY_OK) {
        return UINT64_MAX;
    }
    return place.byte * 8 + place.bit;
}

static inline bool get_bit(const uint8_t *bytes, uint64_t at) {
    return (bytes[at / 8] >> at % 8 & 1) != 0;
}

static inline void set_bit(uint8_t *bytes, uint64_t at, bool value) {
    uint8_t mask = (uint8_t)(1u << at % 8);
    bytes[at / 8] = (uint8_t)(value ? bytes[at / 8] | mask : bytes[at / 8] & ~mask);
}

static inline bool next_case_index(const HurrayDescriptorFields *fields, uint64_t *index) {
    for (uint32_t k = fields->rank; k > 0; k--) {
        if (++index[k - 1] < fields->shape[k - 1]) return true;
        index[k - 1] = 0;
    }
    return false;
}

/*
 * What a destination of `size` bytes, `required` of them reached by the layout, should hold: elements
 * copied bit by bit, zeros between them, and what `before` had elsewhere. Where padding lies before the
 * first element, and where the layout begins, only the library knows: there `result` decides, between
 * zero and what was. False when it has anything else, or an address cannot be computed.
 */
static inline bool converted_as_expected(const HurrayDescriptorFields *from, const uint8_t *source,
                                         const HurrayDescriptorFields *to, const uint8_t *before,
                                         const uint8_t *result, uint64_t size, uint64_t required,
                                         uint8_t *expected) {
    uint32_t bits = case_bits(from);
    uint64_t index[CASE_RANK] = {0}, first = UINT64_MAX;
    if (bits == 0) return false;
    memcpy(expected, before, (size_t)size);
    do {
        uint64_t at = bit_of_element(to, index);
        if (at == UINT64_MAX) return false;
        if (at < first) first = at;
    } while (next_case_index(to, index));
    uint64_t low = first / 8;
    memset(expected + low, 0, (size_t)(required - low));
    for (uint64_t i = 0; i < low; i++) {
        /* Only a layout with negative strides, or a group of elements, begins before its first one. */
        if (result[i] == 0) expected[i] = 0;
    }
    do {
        uint64_t at = bit_of_element(to, index), was = bit_of_element(from, index);
        if (was == UINT64_MAX) return false;
        for (uint32_t b = 0; b < bits; b++) set_bit(expected, at + b, get_bit(source, was + b));
    } while (next_case_index(to, index));
    return memcmp(expected, result, (size_t)size) == 0;
}

#endif
