/*
 * What differs between layouts, as one table: a row per layout, filled in by the file of that
 * layout. Nothing else in the library switches on a layout tag.
 */
#ifndef HURRAY_SRC_LAYOUT_H
#define HURRAY_SRC_LAYOUT_H

#include <hurray/descriptor.h>
#include <hurray/layout.h>

#include "arena.h"
#include "bytes.h"

typedef struct LayoutKind {
    uint8_t tag;
    const char *name;
    uint32_t min_rank;
    uint32_t max_rank;
    uint32_t buffer_count; /* its own, quantization parameters apart */

    /* The fields on the wire; NULL where there are none. Decoding takes arrays from the arena, no
     * more bytes than it reads. */
    HurrayStatus (*decode)(ByteReader *reader, uint32_t rank, Arena *arena, HurrayLayout *out);
    void (*encode)(const HurrayLayout *layout, uint32_t rank, ByteWriter *writer);
    /* Pointers there that must be there. */
    HurrayStatus (*check_fields)(const HurrayLayout *layout, uint32_t rank);
    bool (*equal)(const HurrayLayout *a, const HurrayLayout *b, uint32_t rank);
    /* Deep copy: bytes it takes from the arena, and the copy. */
    size_t (*footprint)(const HurrayLayout *layout, uint32_t rank);
    void (*copy)(HurrayLayout *layout, uint32_t rank, Arena *arena);

    /* What each own buffer is for, "data" and the like. */
    const char *const *buffer_roles;
    /* The least size of each own buffer in bytes, u64[buffer_count], byte_offset included; 0 where a
     * dynamic dimension leaves it unknown. Fails where no buffer could be large enough. `shape` and
     * the layout's fields have been checked. */
    HurrayStatus (*required_bytes)(const HurrayDescriptorFields *fields, HurrayPacking packing,
                                   uint64_t *out);

    /* i64[rank] strides in elements; false where a dynamic dimension leaves them unknown. NULL for
     * layouts that have none. */
    bool (*strides)(const HurrayDescriptorFields *fields, int64_t *out);
} LayoutKind;

/* The row of a tag; NULL when it has none. */
const LayoutKind *hri_layout_kind(uint8_t tag);

/* Rows of the files beside this one. */
extern const LayoutKind hri_layout_row_major; /* layout_packed.c */
extern const LayoutKind hri_layout_col_major;
extern const LayoutKind hri_layout_strided; /* layout_strided.c */

/* The roles of a dense layout: {"data"}. */
extern const char *const hri_dense_roles[];

#endif
