/* Small transpositions: what lies in columns in a staging area goes out in rows. */
#ifndef HURRAY_SRC_TRANSPOSE_H
#define HURRAY_SRC_TRANSPOSE_H

#include <stddef.h>
#include <stdint.h>

/* Rows and columns of `size`-byte elements. Column j of the staging area begins at j · pitch bytes,
 * without gaps; element [i, j] is to go to byte row_offsets[i] + column_offsets[j]. */
typedef struct Transposition {
    const uint8_t *stage;
    size_t pitch;
    uint8_t *to;
    const int64_t *row_offsets, *column_offsets;
    uint32_t rows, columns;
    size_t size;
} Transposition;

/* Fast where several columns in a row of the destination are neighbours, and elements of 1, 2, 4, 8 or
 * 16 bytes; right in any case. */
void hri_transpose(const Transposition *transposition);

#endif
