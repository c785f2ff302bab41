/*
 * Small transpositions (transpose.h). Narrow elements are turned round in registers, a square of 8, 4
 * or 2 of them at a time, one 64-bit word for each column. Words are loaded as little-endian, which
 * makes the first element the lowest on every host.
 */
#include "transpose.h"

#include <stdbool.h>
#include <string.h>

#include "bytes.h"

#ifdef __GNUC__
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE static inline
#endif

/* `lane` bits, or groups of them, that are odd in `a` and even in `b` change places. */
ALWAYS_INLINE void exchange(uint64_t *a, uint64_t *b, unsigned lane) {
    const uint64_t even = UINT64_MAX / ((UINT64_C(1) << lane) + 1);
    uint64_t first = *a, second = *b;
    *a = (first & even) | (second & even) << lane;
    *b = (first >> lane & even) | (second & ~even);
}

/* Turns `edge` words of `edge` elements round. */
ALWAYS_INLINE void turn(uint64_t *words, unsigned edge) {
    const unsigned bits = 64 / edge;
    for (unsigned step = 1; step < edge; step *= 2) {
        for (unsigned i = 0; i < edge; i++) {
            if ((i & step) == 0) exchange(&words[i], &words[i + step], step * bits);
        }
    }
}

ALWAYS_INLINE void move_square(const Transposition *t, uint32_t row, uint32_t column, unsigned edge,
                               size_t size) {
    uint64_t words[8];
    const uint8_t *from = t->stage + column * t->pitch + row * size;
    for (unsigned j = 0; j < edge; j++) words[j] = load_u64(from + j * t->pitch);
    turn(words, edge);
    uint8_t *to = t->to + t->column_offsets[column];
    for (unsigned i = 0; i < edge; i++) store_u64(to + t->row_offsets[row + i], words[i]);
}

ALWAYS_INLINE void move_singly(const Transposition *t, uint32_t first_row, uint32_t end_row,
                               uint32_t first_column, uint32_t end_column, size_t size) {
    for (uint32_t i = first_row; i < end_row; i++) {
        uint8_t *to = t->to + t->row_offsets[i];
        const uint8_t *from = t->stage + i * size;
        for (uint32_t j = first_column; j < end_column; j++) {
            memcpy(to + t->column_offsets[j], from + j * t->pitch, size);
        }
    }
}

/* Vectors are worth two words each. Clang, and GCC from 12 on. */
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define HAS_SHUFFLE
#endif
#endif

#ifdef HAS_SHUFFLE
typedef uint32_t Quad __attribute__((vector_size(16)));

#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)

ALWAYS_INLINE void move_quads(const Transposition *t, uint32_t row, uint32_t column) {
    Quad in[4], out[4];
    const uint8_t *from = t->stage + column * t->pitch + row * 4;
    for (unsigned j = 0; j < 4; j++) memcpy(&in[j], from + j * t->pitch, sizeof in[j]);
    Quad even_low = ZIP_LOW(in[0], in[2]), even_high = ZIP_HIGH(in[0], in[2]);
    Quad odd_low = ZIP_LOW(in[1], in[3]), odd_high = ZIP_HIGH(in[1], in[3]);
    out[0] = ZIP_LOW(even_low, odd_low);
    out[1] = ZIP_HIGH(even_low, odd_low);
    out[2] = ZIP_LOW(even_high, odd_high);
    out[3] = ZIP_HIGH(even_high, odd_high);
    uint8_t *to = t->to + t->column_offsets[column];
    for (unsigned i = 0; i < 4; i++) memcpy(to + t->row_offsets[row + i], &out[i], sizeof out[i]);
}

enum {
    EDGE_OF_4 = 4
};
#else
ALWAYS_INLINE void move_quads(const Transposition *t, uint32_t row, uint32_t column) {
    move_square(t, row, column, 2, 4);
}

enum {
    EDGE_OF_4 = 2
};
#endif

static bool are_neighbours(const int64_t *offsets, unsigned count, int64_t size) {
    for (unsigned j = 1; j < count; j++) {
        if (offsets[j] - offsets[j - 1] != size) return false;
    }
    return true;
}

/* Whether all columns come in whole squares of neighbours. */
static bool is_regular(const Transposition *t, unsigned edge, int64_t size) {
    for (uint32_t j = 0; j < t->columns; j += edge) {
        if (t->columns - j < edge || !are_neighbours(t->column_offsets + j, edge, size))
            return false;
    }
    return true;
}

/* As many rows as a square has. */
ALWAYS_INLINE void move_rows(const Transposition *t, uint32_t row, unsigned edge, size_t size,
                             bool regular) {
    for (uint32_t column = 0; column < t->columns;) {
        if (!regular && (t->columns - column < edge ||
                         !are_neighbours(t->column_offsets + column, edge, (int64_t)size))) {
            move_singly(t, row, row + edge, column, column + 1, size);
            column++;
            continue;
        }
        if (size == 4) {
            move_quads(t, row, column);
        } else {
            move_square(t, row, column, edge, size);
        }
        column += edge;
    }
}

/*
 * Rows first, so that each line of the destination is finished before the next is begun: lines of
 * different rows are often a power of two apart and displace each other. `edge` is 1 where elements
 * are as wide as a word.
 */
ALWAYS_INLINE void move_all(const Transposition *transposition, unsigned edge, size_t size) {
    const Transposition t = *transposition; /* which no store can change, as the compiler sees */
    uint32_t row = 0;
    bool regular = edge > 1 && is_regular(&t, edge, (int64_t)size);
    for (; edge > 1 && t.rows - row >= edge; row += edge) {
        if (regular) {
            move_rows(&t, row, edge, size, true);
        } else {
            move_rows(&t, row, edge, size, false);
        }
    }
    move_singly(&t, row, t.rows, 0, t.columns, size);
}

void hri_transpose(const Transposition *transposition) {
    switch (transposition->size) {
    case 1: move_all(transposition, 8, 1); break;
    case 2: move_all(transposition, 4, 2); break;
    case 4: move_all(transposition, EDGE_OF_4, 4); break;
    case 8: move_all(transposition, 1, 8); break;
    case 16: move_all(transposition, 1, 16); break;
    default: move_all(transposition, 1, transposition->size); break;
    }
}
