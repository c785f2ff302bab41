/*
 * Layouts (spec 2): where element [i_0, i_1, …] of a tensor lies in its buffers.
 *
 * Buffer 0 holds the elements, little-endian; dense layouts have no other. Those of sparse and
 * block-paged layouts are listed below. hurray_descriptor_required_bytes says how large each has to
 * be. Buffers of quantization parameters come after those of the layout.
 */
#ifndef HURRAY_LAYOUT_H
#define HURRAY_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"

HURRAY_BEGIN_DECLS

enum {
    HURRAY_LAYOUT_ROW_MAJOR = 0x01,
    HURRAY_LAYOUT_COL_MAJOR = 0x02,
    HURRAY_LAYOUT_STRIDED = 0x03,
    HURRAY_LAYOUT_TILED = 0x04,
    HURRAY_LAYOUT_MORTON = 0x05,
    HURRAY_LAYOUT_COO = 0x06,
    HURRAY_LAYOUT_CSR = 0x07,
    HURRAY_LAYOUT_CSC = 0x08,
    HURRAY_LAYOUT_CSF = 0x09,
    HURRAY_LAYOUT_BLOCK_PAGED = 0x0A,
    HURRAY_LAYOUT_COMPOSITE = 0x0B,
    HURRAY_LAYOUT_HILBERT = 0x40,
    HURRAY_LAYOUT_PRIVATE_FIRST = 0xF0,
    HURRAY_LAYOUT_PRIVATE_LAST = 0xFE
};

#define HURRAY_MAX_TILE_LEVELS 8u

/* One level of a tiled layout: tiles of `tile_shape`, arranged by `outer`, filled by `inner`. */
typedef struct HurrayTileLevel {
    const uint64_t *tile_shape;   /* u64[rank], each > 0 */
    uint8_t outer_layout;         /* row_major, col_major or strided (tags) */
    uint8_t inner_layout;         /* those, or tiled: the next level says how */
    const int64_t *outer_strides; /* i64[rank] in tiles, when outer_layout is strided */
    const int64_t *inner_strides; /* i64[rank] in elements, when inner_layout is strided */
} HurrayTileLevel;

/*
 * Tiled (spec 2.3). Tensors are split into tiles, edge tiles stored whole. Element `i` lies in tile
 * t[k] = i[k] / tile_shape[k], there at e[k] = i[k] % tile_shape[k], and in the buffer at the
 * element offset outer(t) · (elements of a tile) + inner(e).
 */
typedef struct HurrayTiledLayout {
    uint32_t level_count;          /* 1 … 8; all but the last have inner_layout tiled */
    const HurrayTileLevel *levels; /* outermost first */
} HurrayTiledLayout;

/* Hilbert (spec 2.5): every extent is 2^order. */
typedef struct HurrayHilbertLayout {
    uint32_t order;
    uint32_t rank; /* that of the tensor, >= 2 */
} HurrayHilbertLayout;

/*
 * COO, CSR, CSC, CSF (spec 2.6 – 2.8): `nnz` stored elements. Their buffers, in this order; indices
 * and pointers are u64, little-endian:
 *
 *   COO  values; indices, rank of them for each value: those of one value, then those of the next
 *   CSR  values, row after row; col_indices, one for each value, increasing within a row;
 *        row_ptr, rows + 1 of them: row r is values row_ptr[r] … row_ptr[r + 1] − 1
 *   CSC  values, column after column; row_indices; col_ptr, likewise
 *   CSF  values; then for each level its pos and its crd: node p of the level above has the
 *        children pos[p] … pos[p + 1] − 1 of this one, whose indices are in crd; the first level
 *        has one parent, and the nodes of the last are the values
 */
typedef struct HurraySparseLayout {
    uint64_t nnz;
    bool is_sorted;             /* COO: lexicographically, dimension 0 first */
    const uint32_t *mode_order; /* CSF: u32[rank], the dimension stored at each level */
} HurraySparseLayout;

enum {
    HURRAY_KV_KEY = 0,
    HURRAY_KV_VALUE = 1,
    HURRAY_KV_FUSED = 2
};
/* HurrayBlockPagedLayout.layer_index: no layer. */
#define HURRAY_NO_LAYER UINT32_MAX

/*
 * Block-paged (spec 2.9): tokens of sequences in pages of a pool, found through a block table. The
 * shape is [tokens, heads, head_dim]. Buffers: page_pool, the pages one after another, each
 * [page_size, heads, head_dim]; block_table, the pages of all sequences in order; seq_ptr,
 * num_seqs + 1 of them: sequence s has the pages seq_ptr[s] … seq_ptr[s + 1] − 1 of block_table.
 */
typedef struct HurrayBlockPagedLayout {
    uint32_t page_size;  /* tokens per page, >= 1 */
    uint64_t num_pages;  /* in the pool */
    uint32_t paged_axis; /* 0 */
    uint32_t num_seqs;
    uint8_t kv_role;      /* HURRAY_KV_… */
    uint32_t layer_index; /* or HURRAY_NO_LAYER */
    bool wide_indices;    /* block_table and seq_ptr are u64, else u32 */
} HurrayBlockPagedLayout;

enum {
    HURRAY_RULE_PARTITION = 1,
    HURRAY_RULE_OVERLAY = 2,
    HURRAY_RULE_GROUP = 3
};
enum {
    HURRAY_COMBINE_NONE = 0,
    HURRAY_COMBINE_REPLACE = 1,
    HURRAY_COMBINE_ADD = 2
};

/*
 * The head of a composite (spec 2.10): the next `member_count` tensors belong to it. composite.h
 * says what these and the head have to be like.
 */
typedef struct HurrayCompositeLayout {
    uint8_t composition_rule; /* HURRAY_RULE_… */
    uint8_t combine_op;       /* overlay: HURRAY_COMBINE_REPLACE or _ADD; else 0 */
    uint32_t member_count;
} HurrayCompositeLayout;

/* A private layout (spec 2.11): named by an id, with data that only those who know it understand. */
typedef struct HurrayPrivateLayout {
    uint64_t extension_layout_id;
    const uint8_t *extension_data;
    uint32_t extension_data_length;
} HurrayPrivateLayout;

/*
 * What a permissive reader keeps of a layout whose tag is not assigned: everything from the layout
 * fields to the end of the descriptor, re-emitted as it is, with the flags that say what is in it.
 * Such a descriptor has no buffer table anyone could find.
 */
typedef struct HurrayOpaqueLayout {
    const uint8_t *bytes;
    uint32_t length;
    uint32_t flags;
} HurrayOpaqueLayout;

/*
 * A layout: its tag and the fields that go with it. Pointers are borrowed. Row-major and
 * column-major have no fields: (HurrayLayout){HURRAY_LAYOUT_ROW_MAJOR, {NULL}}.
 */
typedef struct HurrayLayout {
    uint8_t tag;
    union {
        const int64_t
            *strides; /* strided: i64[rank], in elements; negative reverses, 0 broadcasts */
        HurrayTiledLayout tiled;
        const uint32_t
            *morton_bits; /* Morton: u32[rank], each > 0, extent k is at most 2^bits[k] */
        HurrayHilbertLayout hilbert;
        HurraySparseLayout sparse; /* COO, CSR, CSC, CSF */
        HurrayBlockPagedLayout paged;
        HurrayCompositeLayout composite;
        HurrayPrivateLayout extension; /* tags 0xF0 … 0xFE */
        HurrayOpaqueLayout opaque;     /* tags that are not assigned, from a permissive reader */
    };
} HurrayLayout;

/* What a layout is, in the words of the table of spec 2. */
typedef enum HurrayLayoutClass {
    HURRAY_LAYOUT_CLASS_UNKNOWN, /* private, or no layout at all */
    HURRAY_LAYOUT_CLASS_DENSE,
    HURRAY_LAYOUT_CLASS_SPARSE,
    HURRAY_LAYOUT_CLASS_INDIRECT,
    HURRAY_LAYOUT_CLASS_VIRTUAL
} HurrayLayoutClass;
HURRAY_API HurrayLayoutClass hurray_layout_class(uint8_t tag);

/*
 * The number of buffers that belong to the layout at this rank, quantization parameters apart.
 * HURRAY_ERR_UNSUPPORTED for private layouts and unassigned tags.
 */
HURRAY_API HurrayStatus hurray_layout_buffer_count(uint8_t tag, uint32_t rank, uint32_t *out);

/* "row_major", …; NULL for a tag without a name. */
HURRAY_API const char *hurray_layout_name(uint8_t tag);
/* The tag of such a name; 0, which is no layout, when there is none. */
HURRAY_API uint8_t hurray_layout_from_name(const char *name);

/* The four kinds of tag that tools tell apart (spec 2). */
typedef enum HurrayLayoutTagKind {
    HURRAY_LAYOUT_TAG_INVALID,
    HURRAY_LAYOUT_TAG_NAMED,
    HURRAY_LAYOUT_TAG_RESERVED,
    HURRAY_LAYOUT_TAG_PRIVATE
} HurrayLayoutTagKind;
HURRAY_API HurrayLayoutTagKind hurray_layout_tag_kind(uint8_t tag);

HURRAY_END_DECLS

#endif
