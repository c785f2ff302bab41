/*
 * Finding and walking over what sparse and block-paged tensors store (include/hurray/sparse.h, spec
 * 2.6 - 2.9).
 *
 * CSR, CSC and CSF are one thing here: a tree with a level for each dimension. Pointers say which
 * entries of a level belong to an entry of the level above, coordinates say which index each stands
 * for, and the entries of the leaf level are the values. The root level of CSR and CSC is not
 * stored: it has an entry for each row or column.
 */
#include <hurray/sparse.h>

#include <inttypes.h>

#include "bytes.h"
#include "checked.h"
#include "fail.h"
#include "layout.h"

/* ---- entries of buffers ---- */

/* A buffer as unsigned integers of 4 or 8 bytes. */
typedef struct Entries {
    const char *role;
    const uint8_t *data;
    uint64_t count;
    uint32_t width;
} Entries;

static const char *const *roles_of(const HurrayDescriptorFields *fields) {
    return hri_layout_kind(fields->layout.tag)->buffer_roles;
}

static Entries entries_of(const char *const *roles, const HurrayBytes *buffers, uint32_t buffer,
                          uint32_t width) {
    return (Entries){
        .role = roles[buffer],
        .data = buffers[buffer].data,
        .count = buffers[buffer].size / width,
        .width = width,
    };
}

/* at < count */
static uint64_t entry_at(const Entries *entries, uint64_t at) {
    const uint8_t *p = entries->data + (size_t)at * entries->width;
    return entries->width == 8 ? load_u64(p) : load_u32(p);
}

static HurrayStatus read_entry(const Entries *entries, uint64_t at, uint64_t *out) {
    if (at >= entries->count) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "%s holds %" PRIu64 " entries; entry %" PRIu64 " is needed", entries->role,
                        entries->count, at);
    }
    *out = entry_at(entries, at);
    return HURRAY_OK;
}

/* A stored index, about to be taken for one of a dimension. */
static HurrayStatus check_stored(const Entries *entries, uint64_t at, uint64_t value,
                                 uint64_t extent) {
    if (value < extent) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                    "%s[%" PRIu64 "] is %" PRIu64 "; expected less than %" PRIu64, entries->role,
                    at, value, extent);
}

/* What lies between pointers[at] and pointers[at + 1]: in order, and within `limit` of `target`. */
static HurrayStatus read_slice(const Entries *pointers, uint64_t at, uint64_t limit,
                               const char *target, uint64_t *out_begin, uint64_t *out_end) {
    uint64_t begin = 0, end = 0;
    HurrayStatus status = read_entry(pointers, at, &begin);
    if (status == HURRAY_OK) status = read_entry(pointers, at + 1, &end);
    if (status != HURRAY_OK) return status;
    if (begin > end) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "%s[%" PRIu64 "] is %" PRIu64 ", less than the %" PRIu64 " before it",
                        pointers->role, at + 1, end, begin);
    }
    if (end > limit) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "%s[%" PRIu64 "] is %" PRIu64 "; expected at most the %" PRIu64
                        " entries of %s",
                        pointers->role, at + 1, end, limit, target);
    }
    *out_begin = begin;
    *out_end = end;
    return HURRAY_OK;
}

/* ---- what callers give ---- */

static HurrayStatus check_pointers(const HurrayDescriptorFields *fields,
                                   const HurrayBytes *buffers) {
    if (fields == NULL) return hri_fail_null("fields");
    return buffers == NULL ? hri_fail_null("buffers") : HURRAY_OK;
}

/* Buffer 0 apart, which is not read. */
static HurrayStatus check_data(const HurrayBytes *buffers, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        if (buffers[i].data == NULL && buffers[i].size != 0) {
            return hri_fail(HURRAY_ERR_NULL_POINTER,
                            "buffers[%" PRIu32 "].data is NULL, with a size of %" PRIu64, i,
                            buffers[i].size);
        }
    }
    return HURRAY_OK;
}

static HurrayStatus check_sparse(const HurrayDescriptorFields *fields, const HurrayBytes *buffers) {
    HurrayStatus status = check_pointers(fields, buffers);
    if (status != HURRAY_OK) return status;
    if (hurray_layout_class(fields->layout.tag) != HURRAY_LAYOUT_CLASS_SPARSE) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED, "layout tag 0x%02X is not sparse",
                        fields->layout.tag);
    }
    for (uint32_t k = 0; k < fields->rank; k++) {
        if (fields->shape[k] == HURRAY_DYNAMIC) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "shape[%" PRIu32 "] is dynamic; expected a known extent", k);
        }
    }
    const LayoutKind *kind = hri_layout_kind(fields->layout.tag);
    return check_data(buffers, hri_layout_buffer_count(kind, fields->rank));
}

static HurrayStatus check_argument(const char *name, uint64_t value, const char *what,
                                   uint64_t extent) {
    if (value < extent) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                    "%s is %" PRIu64 "; expected less than %s, %" PRIu64, name, value, what,
                    extent);
}

static HurrayStatus check_wanted(const HurrayDescriptorFields *fields, const uint64_t *index) {
    for (uint32_t k = 0; k < fields->rank; k++) {
        if (index[k] < fields->shape[k]) continue;
        return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                        "index[%" PRIu32 "] is %" PRIu64 ", the extent %" PRIu64, k, index[k],
                        fields->shape[k]);
    }
    return HURRAY_OK;
}

/* ---- COO ---- */

/* The indices, of which there is a tuple for each value. */
static HurrayStatus open_tuples(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                                Entries *out) {
    *out = entries_of(roles_of(fields), buffers, 1, 8);
    uint64_t nnz = fields->layout.sparse.nnz;
    if (out->count / fields->rank >= nnz) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                    "indices holds %" PRIu64 " entries, less than %" PRIu32 " for each of %" PRIu64
                    " values",
                    out->count, fields->rank, nnz);
}

/* < 0, 0 or > 0 as tuple `position` comes before `index`, is it, or comes after it. */
static HurrayStatus compare_tuple(const HurrayDescriptorFields *fields, const Entries *tuples,
                                  uint64_t position, const uint64_t *index, int *out) {
    for (uint32_t k = 0; k < fields->rank; k++) {
        uint64_t at = position * fields->rank + k;
        uint64_t value = entry_at(tuples, at);
        HurrayStatus status = check_stored(tuples, at, value, fields->shape[k]);
        if (status != HURRAY_OK) return status;
        if (value != index[k]) {
            *out = value < index[k] ? -1 : 1;
            return HURRAY_OK;
        }
    }
    *out = 0;
    return HURRAY_OK;
}

static HurrayStatus find_tuple(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                               const uint64_t *index, uint64_t *out_position) {
    Entries tuples;
    HurrayStatus status = open_tuples(fields, buffers, &tuples);
    uint64_t begin = 0, end = fields->layout.sparse.nnz, found = HURRAY_NOT_STORED;
    bool is_sorted = fields->layout.sparse.is_sorted;
    while (status == HURRAY_OK && begin < end && found == HURRAY_NOT_STORED) {
        uint64_t position = is_sorted ? begin + (end - begin) / 2 : begin;
        int order = 0;
        status = compare_tuple(fields, &tuples, position, index, &order);
        if (order == 0) {
            found = position;
        } else if (is_sorted && order > 0) {
            end = position;
        } else {
            begin = position + 1;
        }
    }
    if (status == HURRAY_OK) *out_position = found;
    return status;
}

static HurrayStatus next_tuple(HurraySparseCursor *cursor, uint64_t *index,
                               uint64_t *out_position) {
    const HurrayDescriptorFields *fields = cursor->fields;
    Entries tuples;
    HurrayStatus status = open_tuples(fields, cursor->buffers, &tuples);
    if (status != HURRAY_OK) return status;
    uint64_t position = cursor->place[0], tuple[HURRAY_MAX_RANK];
    for (uint32_t k = 0; k < fields->rank; k++) {
        uint64_t at = position * fields->rank + k;
        tuple[k] = entry_at(&tuples, at);
        status = check_stored(&tuples, at, tuple[k], fields->shape[k]);
        if (status != HURRAY_OK) return status;
    }
    memcpy(index, tuple, fields->rank * sizeof *index);
    *out_position = position;
    cursor->place[0]++;
    return HURRAY_OK;
}

/* ---- trees: CSR, CSC, CSF ---- */

typedef struct Tree {
    const HurrayDescriptorFields *fields;
    const HurrayBytes *buffers;
    const char *const *roles;
    bool root_is_dense; /* CSR and CSC: level 0 is not stored */
} Tree;

static Tree open_tree(const HurrayDescriptorFields *fields, const HurrayBytes *buffers) {
    return (Tree){
        .fields = fields,
        .buffers = buffers,
        .roles = roles_of(fields),
        .root_is_dense = fields->layout.tag != HURRAY_LAYOUT_CSF,
    };
}

static uint32_t dimension_of(const Tree *tree, uint32_t level) {
    switch (tree->fields->layout.tag) {
    case HURRAY_LAYOUT_CSR: return level;
    case HURRAY_LAYOUT_CSC: return 1 - level;
    default: return tree->fields->layout.sparse.mode_order[level];
    }
}

/* Of a level that is stored. */
static Entries coordinates_of(const Tree *tree, uint32_t level) {
    uint32_t buffer = tree->root_is_dense ? 1 : 2 * level + 2;
    return entries_of(tree->roles, tree->buffers, buffer, 8);
}

static Entries pointers_of(const Tree *tree, uint32_t level) {
    uint32_t buffer = tree->root_is_dense ? 2 : 2 * level + 1;
    return entries_of(tree->roles, tree->buffers, buffer, 8);
}

/* Entries of `level` that belong to entry `parent` of the level above. The root has parent 0. */
static HurrayStatus children(const Tree *tree, uint32_t level, uint64_t parent, uint64_t *out_begin,
                             uint64_t *out_end) {
    if (level == 0 && tree->root_is_dense) {
        *out_begin = 0;
        *out_end = tree->fields->shape[dimension_of(tree, 0)];
        return HURRAY_OK;
    }
    Entries pointers = pointers_of(tree, level), coordinates = coordinates_of(tree, level);
    uint64_t limit = coordinates.count, nnz = tree->fields->layout.sparse.nnz;
    const char *target = coordinates.role;
    if (level == tree->fields->rank - 1 && nnz < limit) {
        limit = nnz;
        target = "values";
    }
    return read_slice(&pointers, parent, limit, target, out_begin, out_end);
}

/* Which index of its dimension entry `place` of a level stands for. */
static HurrayStatus coordinate_at(const Tree *tree, uint32_t level, uint64_t place, uint64_t *out) {
    if (level == 0 && tree->root_is_dense) {
        *out = place;
        return HURRAY_OK;
    }
    Entries coordinates = coordinates_of(tree, level);
    *out = entry_at(&coordinates, place);
    return check_stored(&coordinates, place, *out, tree->fields->shape[dimension_of(tree, level)]);
}

/* The entry with this coordinate among begin … end − 1 of a stored level, which children() gave. */
static HurrayStatus search(const Tree *tree, uint32_t level, uint64_t begin, uint64_t end,
                           uint64_t wanted, uint64_t *out) {
    Entries coordinates = coordinates_of(tree, level);
    uint64_t extent = tree->fields->shape[dimension_of(tree, level)];
    *out = HURRAY_NOT_STORED;
    while (begin < end) {
        uint64_t middle = begin + (end - begin) / 2, coordinate = entry_at(&coordinates, middle);
        HurrayStatus status = check_stored(&coordinates, middle, coordinate, extent);
        if (status != HURRAY_OK) return status;
        if (coordinate == wanted) {
            *out = middle;
            return HURRAY_OK;
        }
        if (coordinate < wanted) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return HURRAY_OK;
}

/* From the root to a leaf, or to where there is no way on. */
static HurrayStatus find_leaf(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                              const uint64_t *index, uint64_t *out_position) {
    Tree tree = open_tree(fields, buffers);
    uint64_t place = 0;
    for (uint32_t level = 0; level < fields->rank && place != HURRAY_NOT_STORED; level++) {
        uint64_t begin, end, wanted = index[dimension_of(&tree, level)];
        HurrayStatus status = children(&tree, level, place, &begin, &end);
        if (status != HURRAY_OK) return status;
        if (level == 0 && tree.root_is_dense) {
            place = wanted;
            continue;
        }
        status = search(&tree, level, begin, end, wanted, &place);
        if (status != HURRAY_OK) return status;
    }
    *out_position = place;
    return HURRAY_OK;
}

/*
 * A walk through a tree: place[level] is the entry that comes next at a level, end[level] where its
 * siblings end. Above the leaves the entry before it is the one whose children are being visited.
 */

/* Opens the children of `parent`. They begin where those of the parent before it ended. */
static HurrayStatus open_children(HurraySparseCursor *cursor, const Tree *tree, uint32_t level,
                                  uint64_t parent) {
    uint64_t begin = 0, end = 0;
    HurrayStatus status = children(tree, level, parent, &begin, &end);
    if (status != HURRAY_OK) return status;
    if (begin != cursor->place[level]) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "%s[%" PRIu64 "] is %" PRIu64 "; expected %" PRIu64,
                        pointers_of(tree, level).role, parent, begin, cursor->place[level]);
    }
    cursor->end[level] = end;
    return HURRAY_OK;
}

/* Up and down until a leaf comes next. There is a value left, so that there should be one. */
static HurrayStatus advance(HurraySparseCursor *cursor, const Tree *tree) {
    uint32_t leaf = tree->fields->rank - 1, level = leaf;
    while (cursor->place[leaf] == cursor->end[leaf]) {
        if (cursor->place[level] < cursor->end[level]) {
            HurrayStatus status = open_children(cursor, tree, level + 1, cursor->place[level]);
            if (status != HURRAY_OK) return status;
            cursor->place[level]++;
            level++;
        } else if (level != 0) {
            level--;
        } else {
            return hri_fail(
                HURRAY_ERR_INVALID_LAYOUT, "%s ends at %" PRIu64 "; expected nnz, %" PRIu64,
                pointers_of(tree, leaf).role, cursor->place[leaf], tree->fields->layout.sparse.nnz);
        }
    }
    return HURRAY_OK;
}

static HurrayStatus next_leaf(HurraySparseCursor *cursor, uint64_t *index, uint64_t *out_position) {
    const HurrayDescriptorFields *fields = cursor->fields;
    Tree tree = open_tree(fields, cursor->buffers);
    HurrayStatus status = advance(cursor, &tree);
    uint32_t leaf = fields->rank - 1;
    uint64_t found[HURRAY_MAX_RANK];
    for (uint32_t level = 0; status == HURRAY_OK && level <= leaf; level++) {
        uint64_t place = cursor->place[level] - (level == leaf ? 0 : 1);
        status = coordinate_at(&tree, level, place, &found[dimension_of(&tree, level)]);
    }
    if (status != HURRAY_OK) return status;
    memcpy(index, found, fields->rank * sizeof *index);
    *out_position = cursor->place[leaf]++;
    return HURRAY_OK;
}

/* ---- all sparse layouts ---- */

HurrayStatus hurray_sparse_find(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                                const uint64_t *index, uint64_t *out_position) {
    if (index == NULL) return hri_fail_null("index");
    if (out_position == NULL) return hri_fail_null("out_position");
    HurrayStatus status = check_sparse(fields, buffers);
    if (status == HURRAY_OK) status = check_wanted(fields, index);
    if (status != HURRAY_OK) return status;
    return fields->layout.tag == HURRAY_LAYOUT_COO
               ? find_tuple(fields, buffers, index, out_position)
               : find_leaf(fields, buffers, index, out_position);
}

HurrayStatus hurray_sparse_begin(HurraySparseCursor *cursor, const HurrayDescriptorFields *fields,
                                 const HurrayBytes *buffers) {
    if (cursor == NULL) return hri_fail_null("cursor");
    HurrayStatus status = check_sparse(fields, buffers);
    if (status != HURRAY_OK) return status;
    HurraySparseCursor start = {.fields = fields, .buffers = buffers};
    if (fields->layout.tag != HURRAY_LAYOUT_COO) {
        Tree tree = open_tree(fields, buffers);
        status = open_children(&start, &tree, 0, 0);
    }
    if (status == HURRAY_OK) *cursor = start;
    return status;
}

HurrayStatus hurray_sparse_next(HurraySparseCursor *cursor, uint64_t *index,
                                uint64_t *out_position) {
    if (cursor == NULL) return hri_fail_null("cursor");
    if (index == NULL) return hri_fail_null("index");
    if (out_position == NULL) return hri_fail_null("out_position");
    const HurrayDescriptorFields *fields = cursor->fields;
    bool is_coo = fields->layout.tag == HURRAY_LAYOUT_COO;
    uint64_t position = cursor->place[is_coo ? 0 : fields->rank - 1];
    if (position == fields->layout.sparse.nnz) {
        *out_position = HURRAY_NOT_STORED;
        return HURRAY_OK;
    }
    return is_coo ? next_tuple(cursor, index, out_position)
                  : next_leaf(cursor, index, out_position);
}

/* ---- block-paged ---- */

/* The entries of the block table that belong to a sequence. */
static HurrayStatus read_pages(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                               uint64_t sequence, uint64_t *out_begin, uint64_t *out_end) {
    HurrayStatus status = check_pointers(fields, buffers);
    if (status != HURRAY_OK) return status;
    if (fields->layout.tag != HURRAY_LAYOUT_BLOCK_PAGED) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED, "layout tag 0x%02X is not block_paged",
                        fields->layout.tag);
    }
    status = check_data(buffers, 3);
    const HurrayBlockPagedLayout *paged = &fields->layout.paged;
    if (status == HURRAY_OK) {
        status = check_argument("sequence", sequence, "num_seqs", paged->num_seqs);
    }
    if (status != HURRAY_OK) return status;
    uint32_t width = paged->wide_indices ? 8 : 4;
    Entries table = entries_of(roles_of(fields), buffers, 1, width);
    Entries pointers = entries_of(roles_of(fields), buffers, 2, width);
    return read_slice(&pointers, sequence, table.count, table.role, out_begin, out_end);
}

HurrayStatus hurray_paged_capacity(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                                   uint64_t sequence, uint64_t *out_tokens) {
    if (out_tokens == NULL) return hri_fail_null("out_tokens");
    uint64_t begin = 0, end = 0;
    HurrayStatus status = read_pages(fields, buffers, sequence, &begin, &end);
    if (status != HURRAY_OK) return status;
    if (!checked_mul_u64(end - begin, fields->layout.paged.page_size, out_tokens)) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "sequence %" PRIu64 " has %" PRIu64 " pages, room for 2^64 tokens or more",
                        sequence, end - begin);
    }
    return HURRAY_OK;
}

/* The page in the pool that token `token` of a sequence lies on. */
static HurrayStatus find_page(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                              uint64_t sequence, uint64_t token, uint64_t *out) {
    uint64_t begin = 0, end = 0;
    HurrayStatus status = read_pages(fields, buffers, sequence, &begin, &end);
    if (status != HURRAY_OK) return status;
    const HurrayBlockPagedLayout *paged = &fields->layout.paged;
    if (token / paged->page_size >= end - begin) {
        return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                        "token is %" PRIu64 "; sequence %" PRIu64 " has %" PRIu64
                        " pages of %" PRIu32,
                        token, sequence, end - begin, paged->page_size);
    }
    uint64_t at = begin + token / paged->page_size;
    Entries table = entries_of(roles_of(fields), buffers, 1, paged->wide_indices ? 8 : 4);
    uint64_t page = entry_at(&table, at);
    status = check_stored(&table, at, page, paged->num_pages);
    if (status == HURRAY_OK) *out = page;
    return status;
}

/* An extent that offsets are computed with. */
static HurrayStatus check_row(const HurrayDescriptorFields *fields, uint32_t k, const char *name,
                              uint64_t value) {
    if (fields->shape[k] == HURRAY_DYNAMIC) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "shape[%" PRIu32 "] is dynamic; expected a known extent", k);
    }
    return check_argument(name, value, k == 1 ? "shape[1]" : "shape[2]", fields->shape[k]);
}

HurrayStatus hurray_paged_offset(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                                 uint64_t sequence, uint64_t token, uint64_t head, uint64_t dim,
                                 int64_t *out_offset) {
    if (out_offset == NULL) return hri_fail_null("out_offset");
    uint64_t page = 0;
    HurrayStatus status = find_page(fields, buffers, sequence, token, &page);
    if (status == HURRAY_OK) status = check_row(fields, 1, "head", head);
    if (status == HURRAY_OK) status = check_row(fields, 2, "dim", dim);
    if (status != HURRAY_OK) return status;
    uint32_t page_size = fields->layout.paged.page_size;
    uint64_t offset;
    if (!checked_mul_u64(page, page_size, &offset) ||
        !checked_add_u64(offset, token % page_size, &offset) ||
        !checked_mul_u64(offset, fields->shape[1], &offset) ||
        !checked_add_u64(offset, head, &offset) ||
        !checked_mul_u64(offset, fields->shape[2], &offset) ||
        !checked_add_u64(offset, dim, &offset) || offset > INT64_MAX) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "page %" PRIu64 " of %" PRIu32 " x %" PRIu64 " x %" PRIu64
                        " elements lies at offset 2^63 or beyond",
                        page, page_size, fields->shape[1], fields->shape[2]);
    }
    *out_offset = (int64_t)offset;
    return HURRAY_OK;
}
