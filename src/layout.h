/*
 * What differs between layouts, as one table: a row per layout, filled in by the file of that
 * layout. Nothing else in the library switches on a layout tag.
 */
#ifndef HURRAY_SRC_LAYOUT_H
#define HURRAY_SRC_LAYOUT_H

#include <hurray/descriptor_fields.h>
#include <hurray/layout.h>

#include "arena.h"
#include "bytes.h"

typedef struct LayoutKind {
    uint8_t tag; /* 0 for rows that stand for many tags */
    const char *name;
    HurrayLayoutClass layout_class;
    uint32_t min_rank;
    uint32_t max_rank;

    /* Its own buffers, quantization parameters apart: buffer_count + buffers_per_rank · rank. */
    uint32_t buffer_count;
    uint32_t buffers_per_rank;
    bool any_buffer_count; /* nobody but its author knows how many: at least one */
    bool offset_is_zero;   /* byte_offset must be 0 */
    bool no_shard;         /* a shard section is illegal */

    /* The fields on the wire; NULL where there are none. Decoding takes arrays from the arena, no
     * more bytes than it reads and `more_arena` together. */
    size_t more_arena;
    HurrayStatus (*decode)(ByteReader *reader, uint32_t rank, Arena *arena, HurrayLayout *out);
    void (*encode)(const HurrayLayout *layout, uint32_t rank, ByteWriter *writer);
    /* What the fields must satisfy, by themselves and beside rank, shape and type; also that
     * pointers are there. Shape and type have been checked. */
    HurrayStatus (*check_fields)(const HurrayDescriptorFields *fields);
    bool (*equal)(const HurrayLayout *a, const HurrayLayout *b, uint32_t rank);
    /* Deep copy: bytes it takes from the arena, and the copy. */
    size_t (*footprint)(const HurrayLayout *layout, uint32_t rank);
    void (*copy)(HurrayLayout *layout, uint32_t rank, Arena *arena);

    /* What each own buffer is for, "data" and the like; NULL where nobody knows. */
    const char *const *buffer_roles;
    /* The least size of each own buffer in bytes, one u64 each, byte_offset included; 0 where a
     * dynamic dimension leaves it unknown. Fails where no buffer could be large enough. NULL where
     * nobody knows. */
    HurrayStatus (*required_bytes)(const HurrayDescriptorFields *fields, HurrayPacking packing,
                                   uint64_t *out);

    /* i64[rank] strides in elements; false where a dynamic dimension leaves them unknown. NULL for
     * layouts that have none. */
    bool (*strides)(const HurrayDescriptorFields *fields, int64_t *out);
    /* Dense layouts without strides: the element offset of an index that is in bounds; and the
     * index at an offset, false where that is padding. */
    int64_t (*offset)(const HurrayDescriptorFields *fields, const uint64_t *index);
    bool (*index)(const HurrayDescriptorFields *fields, uint64_t offset, uint64_t *index);
} LayoutKind;

/* The row of a tag, private ones included; NULL for tags that are not assigned. */
const LayoutKind *hri_layout_kind(uint8_t tag);
/* The row for a descriptor: that of its tag, or the opaque one when it is permissive. NULL when it
 * has none. */
const LayoutKind *hri_layout_kind_of(const HurrayDescriptorFields *fields);
/* Own buffers of a layout at this rank. */
uint32_t hri_layout_buffer_count(const LayoutKind *kind, uint32_t rank);

/* Rows of the files beside this one. */
extern const LayoutKind hri_layout_row_major; /* layout_packed.c */
extern const LayoutKind hri_layout_col_major;
extern const LayoutKind hri_layout_strided; /* layout_strided.c */
extern const LayoutKind hri_layout_tiled;   /* layout_tiled.c */
extern const LayoutKind hri_layout_morton;  /* layout_morton.c */
extern const LayoutKind hri_layout_hilbert; /* layout_hilbert.c */
extern const LayoutKind hri_layout_coo;     /* layout_coo.c */
extern const LayoutKind hri_layout_csr;     /* layout_compressed.c */
extern const LayoutKind hri_layout_csc;
extern const LayoutKind hri_layout_csf;         /* layout_csf.c */
extern const LayoutKind hri_layout_block_paged; /* layout_paged.c */
extern const LayoutKind hri_layout_composite;   /* layout_composite.c */
extern const LayoutKind hri_layout_private;     /* layout_private.c */
extern const LayoutKind hri_layout_opaque;

/* The roles of a dense layout: {"data"}. */
extern const char *const hri_dense_roles[];

/*
 * How far the elements of a strided arrangement lie before and after the first, as counts: lo =
 * −*before, hi = *after of spec 2.2. False when one of them reaches 2^64, with the dimension at
 * fault. No extent is 0 or dynamic. (layout_strided.c)
 */
bool hri_strided_spread(uint32_t rank, const uint64_t *shape, const int64_t *strides,
                        uint64_t *before, uint64_t *after, uint32_t *fault);

#endif
