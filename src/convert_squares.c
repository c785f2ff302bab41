/*
 * Conversion between a curve of rank 2 and elements that lie together 16 at a time, such as rows,
 * columns and large tiles (convert.h).
 *
 * A square is moved through a staging area in the nearest cache: 256 elements change places by a table
 * that fits there too, and the 16 rows are read or written whole. Squares of narrow elements are taken
 * several at a time, so that a row of them is a cache line.
 */
#include <string.h>

#include "checked.h"
#include "convert.h"
#include "curve.h"
#include "layout.h"

#ifdef __GNUC__
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define PREFETCH(address, for_writing) __builtin_prefetch(address, for_writing)
#else
#define ALWAYS_INLINE static inline
#define PREFETCH(address, for_writing) ((void)(address))
#endif

enum {
    EDGE = HRI_SQUARE_EDGE,
    COUNT = HRI_SQUARE_COUNT,
    CACHE_LINE = 64,
    MOST_BYTES = 16, /* of an element */
    MOST_SQUARES = 4 /* at a time: rows of 16 bytes */
};

struct Squares {
    HriCurve curve;
    bool to_curve;
    uint32_t run;     /* the dimension in which the other side has 16 elements together */
    uint32_t at_once; /* squares, along `run` */
    /* For each turn, where in the source's square the elements of the destination's come from. Elements of
     * the other side are counted with those along `run` fastest. */
    uint8_t tables[HRI_SQUARE_TURNS][COUNT];
    int64_t starts[]; /* bytes: what every 16th coordinate along `run` adds on the other side */
};

/* ---- preparing ---- */

static const Arrangement *curve_side(const Conversion *conversion) {
    return conversion->from.has_digits ? &conversion->to : &conversion->from;
}

static const Arrangement *other_side(const Conversion *conversion) {
    return conversion->from.has_digits ? &conversion->from : &conversion->to;
}

/* Whether 16 elements along dimension k lie together, from each multiple of 16 on. */
static bool lie_together(const Conversion *conversion, const Arrangement *side, uint32_t k) {
    for (uint32_t i = 0; i < side->digit_count; i++) {
        const Digit *digit = &side->digits[i];
        if (digit->dimension != k || digit->weight != 1) continue;
        return digit->step == 1 && !digit->is_descending &&
               (digit->extent % EDGE == 0 || digit->extent >= conversion->shape[k]);
    }
    return false;
}

size_t hri_squares_size(const Conversion *conversion) {
    const uint64_t *shape = conversion->shape;
    const Arrangement *other = other_side(conversion);
    if (conversion->rank != 2 || conversion->packing.bits < 8 ||
        conversion->packing.group_bytes > MOST_BYTES || shape[0] < EDGE || shape[1] < EDGE ||
        conversion->from.has_digits == conversion->to.has_digits) {
        return 0;
    }
    bool is_second = lie_together(conversion, other, 1);
    if (!is_second && !lie_together(conversion, other, 0)) return 0;
    /* 8 bytes for 16 of at most 2^63 / 16 elements, as there are 16 along the other dimension */
    return sizeof(Squares) +
           (size_t)divide_up_u64(shape[is_second ? 1 : 0], EDGE) * sizeof(int64_t);
}

static void fill_table(Squares *squares, uint32_t turn) {
    uint8_t order[COUNT], *table = squares->tables[turn];
    hri_curve_square_order(&squares->curve, turn, order);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint8_t place = (uint8_t)(squares->run == 1 ? i : i % EDGE * EDGE + i / EDGE);
        table[squares->to_curve ? order[i] : place] = squares->to_curve ? place : order[i];
    }
}

void hri_squares_prepare(const Conversion *conversion, Squares *out) {
    const Arrangement *other = other_side(conversion);
    int64_t size = conversion->packing.group_bytes;
    out->to_curve = other == &conversion->from;
    out->run = lie_together(conversion, other, 1) ? 1 : 0;
    out->at_once = size == 1 ? 4 : size == 2 ? 2 : 1;
    hri_curve_prepare(curve_side(conversion)->fields, &out->curve);
    bool is_morton = curve_side(conversion)->fields->layout.tag == HURRAY_LAYOUT_MORTON;
    for (uint32_t turn = 0; turn < (is_morton ? 1 : HRI_SQUARE_TURNS); turn++) {
        fill_table(out, turn);
    }
    uint64_t count = divide_up_u64(conversion->shape[out->run], EDGE);
    for (uint64_t i = 0; i < count; i++) {
        hri_fill_offsets(other, out->run, i * EDGE, 1, size, &out->starts[i]);
    }
}

Division hri_squares_division(const Squares *squares) { return (Division){1 - squares->run, EDGE}; }

/* ---- moving ---- */

/* Squares side by side along `run`: whole ones, or one that the shape cuts off. */
typedef struct Group {
    uint32_t squares;
    bool is_whole;
    const uint8_t *table[MOST_SQUARES];
    int64_t curve[MOST_SQUARES]; /* bytes: where it begins on the curve */
    int64_t start[MOST_SQUARES]; /* and along `run` on the other side */
} Group;

/* What a strip of squares has in common. */
typedef struct Strip {
    const uint8_t *source;
    uint8_t *destination;
    const int64_t *rows; /* EDGE: bytes, what each row across `run` adds on the other side */
    bool to_curve;
    size_t size;
} Strip;

typedef void MoveGroup(const Strip *strip, const Group *group);

ALWAYS_INLINE void permute(const uint8_t *from, const uint8_t *table, uint8_t *to, size_t size) {
    for (size_t i = 0; i < COUNT; i++) memcpy(to + i * size, from + table[i] * size, size);
}

ALWAYS_INLINE void move_group(const Strip *strip, const Group *group, size_t size) {
    uint8_t stage[COUNT * MOST_BYTES]; /* several squares only of the narrowest elements */
    const size_t square = COUNT * size, row = EDGE * size;
    const uint32_t squares = size > 2 ? 1 : group->squares;
    for (uint32_t s = 0; !strip->to_curve && s < squares; s++) {
        permute(strip->source + group->curve[s], group->table[s], stage + s * square, size);
    }
    for (uint32_t r = 0; r < EDGE; r++) {
        for (uint32_t s = 0; s < squares; s++) {
            uint8_t *staged = stage + s * square + r * row;
            int64_t other = strip->rows[r] + group->start[s];
            if (strip->to_curve) {
                memcpy(staged, strip->source + other, row);
            } else {
                memcpy(strip->destination + other, staged, row);
            }
        }
    }
    for (uint32_t s = 0; strip->to_curve && s < squares; s++) {
        permute(stage + s * square, group->table[s], strip->destination + group->curve[s], size);
    }
}

#define DEFINE_MOVE_GROUP(constant)                                             \
    static void move_group_##constant(const Strip *strip, const Group *group) { \
        move_group(strip, group, constant);                                     \
    }

DEFINE_MOVE_GROUP(1)
DEFINE_MOVE_GROUP(2)
DEFINE_MOVE_GROUP(3)
DEFINE_MOVE_GROUP(4)
DEFINE_MOVE_GROUP(8)
DEFINE_MOVE_GROUP(16)

static void move_group_any(const Strip *strip, const Group *group) {
    move_group(strip, group, strip->size);
}

static MoveGroup *move_of_size(size_t size) {
    switch (size) {
    case 1: return move_group_1;
    case 2: return move_group_2;
    case 3: return move_group_3;
    case 4: return move_group_4;
    case 8: return move_group_8;
    case 16: return move_group_16;
    default: return move_group_any;
    }
}

/* What is inside the shape of a square at its edge, element by element. */
static void move_edge(const Strip *strip, const Group *group, uint64_t rows, uint64_t columns) {
    int64_t size = (int64_t)strip->size;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t place = strip->to_curve ? group->table[0][i] : i;
        uint32_t on_curve = strip->to_curve ? i : group->table[0][i];
        uint32_t row = place / EDGE, column = place % EDGE;
        if (row >= rows || column >= columns) continue;
        int64_t curve = group->curve[0] + on_curve * size;
        int64_t other = strip->rows[row] + group->start[0] + column * size;
        memcpy(strip->destination + (strip->to_curve ? curve : other),
               strip->source + (strip->to_curve ? other : curve), strip->size);
    }
}

/* Asks for what the next group needs while this one is moved: there are too many pieces for the
 * hardware to foresee. */
static void prefetch_group(const Strip *strip, const Group *group) {
    const uint8_t *curve = strip->to_curve ? strip->destination : strip->source;
    const uint8_t *other = strip->to_curve ? strip->source : strip->destination;
    for (uint32_t s = 0; s < group->squares; s++) {
        const uint8_t *square = curve + group->curve[s];
        for (size_t i = 0; i < COUNT * strip->size; i += CACHE_LINE) {
            if (strip->to_curve) {
                PREFETCH(square + i, 1);
            } else {
                PREFETCH(square + i, 0);
            }
        }
    }
    for (uint32_t r = 0; r < EDGE; r++) {
        const uint8_t *row = other + (strip->rows[r] + group->start[0]);
        for (size_t i = 0; i < EDGE * strip->size; i += CACHE_LINE) {
            if (strip->to_curve) {
                PREFETCH(row + i, 0);
            } else {
                PREFETCH(row + i, 1);
            }
        }
    }
}

/* The squares from `column` along `run` on, of which the shape has `columns` left. */
static void make_group(const Squares *squares, const Strip *strip, uint64_t row, uint64_t rows,
                       uint64_t column, uint64_t columns, Group *out) {
    uint64_t whole = rows < EDGE ? 0 : columns / EDGE;
    out->is_whole = whole > 0;
    out->squares = whole > squares->at_once ? squares->at_once : whole > 0 ? (uint32_t)whole : 1;
    for (uint32_t s = 0; s < out->squares; s++, column += EDGE) {
        uint64_t corner[2];
        uint32_t turn;
        corner[squares->run] = column;
        corner[1 - squares->run] = row;
        uint64_t first = hri_curve_square(&squares->curve, corner, &turn);
        out->curve[s] = (int64_t)first * (int64_t)strip->size;
        out->table[s] = squares->tables[turn];
        out->start[s] = squares->starts[column / EDGE];
    }
}

/* `rows` rows of squares' elements from `row` on, at most 16, and all `columns`. */
static void convert_strip(const Squares *squares, const Strip *strip, uint64_t row, uint64_t rows,
                          uint64_t columns) {
    MoveGroup *move = move_of_size(strip->size);
    Group groups[2];
    uint32_t now = 0;
    make_group(squares, strip, row, rows, 0, columns, &groups[0]);
    for (uint64_t column = 0; column < columns; now = 1 - now) {
        Group *group = &groups[now], *next = &groups[1 - now];
        uint64_t first = column;
        column += group->squares * EDGE;
        if (column < columns) {
            make_group(squares, strip, row, rows, column, columns - column, next);
            if (next->is_whole) prefetch_group(strip, next);
        }
        if (group->is_whole) {
            move(strip, group);
        } else {
            move_edge(strip, group, rows, columns - first);
        }
    }
}

void hri_squares_convert(const Conversion *conversion, const Squares *squares, Slab slab) {
    int64_t rows[EDGE], size = conversion->packing.group_bytes;
    const Strip strip = {
        .source = conversion->source,
        .destination = conversion->destination,
        .rows = rows,
        .to_curve = squares->to_curve,
        .size = (size_t)size,
    };
    for (uint64_t row = slab.first, count; row < slab.end; row += count) {
        count = slab.end - row < EDGE ? slab.end - row : EDGE;
        hri_fill_offsets(other_side(conversion), slab.dimension, row, (uint32_t)count, size, rows);
        convert_strip(squares, &strip, row, count, conversion->shape[squares->run]);
    }
}
