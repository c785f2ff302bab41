/*
 * Reading what a sparse tensor stores, as index tuples (convert_sparse.h).
 *
 * Everything that is followed is checked here, each time it is read: that indices are in bounds,
 * that pointers begin at 0, never decrease and end where entries do, and that siblings of a tree
 * increase strictly. The walk through a tree visits every entry of every level, those without
 * children too.
 */
#include "convert_sparse.h"

#include <inttypes.h>
#include <string.h>

#include "bytes.h"
#include "checked.h"
#include "fail.h"
#include "layout.h"

void hri_sparse_dimensions(const HurrayLayout *layout, uint32_t rank, uint32_t *dimensions) {
    for (uint32_t level = 0; level < rank; level++) {
        switch (layout->tag) {
        case HURRAY_LAYOUT_CSC: dimensions[level] = rank - 1 - level; break;
        case HURRAY_LAYOUT_CSF: dimensions[level] = layout->sparse.mode_order[level]; break;
        default: dimensions[level] = level; break;
        }
    }
}

static const char *role_of(const TupleReader *reader, uint32_t buffer) {
    return hri_layout_kind(reader->fields->layout.tag)->buffer_roles[buffer];
}

static uint64_t entries_in(const TupleReader *reader, uint32_t buffer) {
    return reader->buffers[buffer].size / 8;
}

/* Entry `at`, less than entries_in. */
static uint64_t entry_at(const TupleReader *reader, uint32_t buffer, uint64_t at) {
    return load_u64(reader->buffers[buffer].data + (size_t)at * 8);
}

static HurrayStatus fail_bounds(const TupleReader *reader, uint32_t buffer, uint64_t at,
                                uint64_t value, uint64_t extent) {
    return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                    "%s[%" PRIu64 "] is %" PRIu64 "; expected less than %" PRIu64,
                    role_of(reader, buffer), at, value, extent);
}

/* ---- COO ---- */

/* Loads the tuples of a matrix; false where one is out of bounds. */
static bool load_pairs(uint64_t *tuples, const uint8_t *entries, size_t count,
                       const uint64_t *shape) {
    uint64_t rows = shape[0], columns = shape[1];
    bool is_outside = false;
    for (size_t i = 0; i < count; i++) {
        uint64_t row = load_u64(entries + 16 * i), column = load_u64(entries + 16 * i + 8);
        tuples[2 * i] = row;
        tuples[2 * i + 1] = column;
        is_outside |= (row >= rows) | (column >= columns);
    }
    return !is_outside;
}

static bool load_tuples(uint64_t *tuples, const uint8_t *entries, size_t count, uint32_t rank,
                        const uint64_t *shape) {
    bool is_outside = false;
    for (size_t i = 0; i < count * rank; i++) tuples[i] = load_u64(entries + i * 8);
    for (uint32_t k = 0; k < rank; k++) {
        uint64_t extent = shape[k];
        for (size_t i = k; i < count * rank; i += rank) is_outside |= tuples[i] >= extent;
    }
    return !is_outside;
}

static HurrayStatus find_out_of_bounds(const TupleReader *reader, size_t count) {
    uint32_t rank = reader->fields->rank;
    for (size_t i = 0; i < count * rank; i++) {
        uint64_t extent = reader->fields->shape[i % rank];
        if (reader->tuples[i] >= extent) {
            return fail_bounds(reader, 1, reader->position * rank + i, reader->tuples[i], extent);
        }
    }
    return HURRAY_OK;
}

static HurrayStatus read_tuples(TupleReader *reader, size_t count) {
    uint32_t rank = reader->fields->rank;
    const uint8_t *entries = reader->buffers[1].data + (size_t)reader->position * rank * 8;
    const uint64_t *shape = reader->fields->shape;
    bool is_inside = rank == 2 ? load_pairs(reader->tuples, entries, count, shape)
                               : load_tuples(reader->tuples, entries, count, rank, shape);
    if (!is_inside) return find_out_of_bounds(reader, count);
    reader->count = count;
    reader->position += count;
    return HURRAY_OK;
}

/* ---- trees ---- */

static bool is_tree(const TupleReader *reader) {
    return reader->fields->layout.tag != HURRAY_LAYOUT_COO;
}

/* CSR and CSC: the root has an entry for each row or column, and is not stored. */
static bool has_dense_root(const TupleReader *reader) {
    return reader->fields->layout.tag != HURRAY_LAYOUT_CSF;
}

static uint32_t pointer_buffer(const TupleReader *reader, uint32_t level) {
    return has_dense_root(reader) ? 2 : 2 * level + 1;
}

static uint32_t coordinate_buffer(const TupleReader *reader, uint32_t level) {
    return has_dense_root(reader) ? 1 : 2 * level + 2;
}

/* How far pointers into a level may reach. */
static uint64_t level_limit(const TupleReader *reader, uint32_t level) {
    uint64_t limit = entries_in(reader, coordinate_buffer(reader, level));
    uint64_t nnz = reader->fields->layout.sparse.nnz;
    return level == reader->fields->rank - 1 && nnz < limit ? nnz : limit;
}

/* The children of entry `parent` of the level above, which begin where those before it ended. */
static HurrayStatus open_children(TupleReader *reader, uint32_t level, uint64_t parent) {
    uint32_t buffer = pointer_buffer(reader, level);
    uint64_t entries = entries_in(reader, buffer), limit = level_limit(reader, level);
    if (entries < 2 || parent > entries - 2) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "%s holds %" PRIu64 " entries; entry %" PRIu64 " is needed",
                        role_of(reader, buffer), entries, parent + 1);
    }
    uint64_t begin = entry_at(reader, buffer, parent), end = entry_at(reader, buffer, parent + 1);
    if (begin != reader->place[level]) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "%s[%" PRIu64 "] is %" PRIu64 "; expected %" PRIu64,
                        role_of(reader, buffer), parent, begin, reader->place[level]);
    }
    if (begin > end || end > limit) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "%s[%" PRIu64 "] is %" PRIu64 "; expected %" PRIu64 " ... %" PRIu64
                        ", as there are so many entries in %s",
                        role_of(reader, buffer), parent + 1, end, begin, limit,
                        role_of(reader, coordinate_buffer(reader, level)));
    }
    reader->begin[level] = begin;
    reader->end[level] = end;
    return HURRAY_OK;
}

/* Takes the coordinate of entry place[level], and steps over it. */
static HurrayStatus take_coordinate(TupleReader *reader, uint32_t level) {
    uint32_t dimension = reader->dimensions[level];
    uint64_t place = reader->place[level];
    if (level == 0 && has_dense_root(reader)) {
        reader->current[dimension] = place;
        reader->place[level]++;
        return HURRAY_OK;
    }
    uint32_t buffer = coordinate_buffer(reader, level);
    uint64_t coordinate = entry_at(reader, buffer, place);
    uint64_t extent = reader->fields->shape[dimension];
    if (coordinate >= extent) return fail_bounds(reader, buffer, place, coordinate, extent);
    if (place != reader->begin[level] && coordinate <= reader->current[dimension]) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "%s[%" PRIu64 "] is %" PRIu64 "; expected more than the %" PRIu64
                        " before it",
                        role_of(reader, buffer), place, coordinate, reader->current[dimension]);
    }
    reader->current[dimension] = coordinate;
    reader->place[level]++;
    return HURRAY_OK;
}

/* Up and down until a leaf comes next, or the root has no more entries. */
static HurrayStatus find_leaves(TupleReader *reader) {
    uint32_t leaf = reader->fields->rank - 1, level = leaf;
    while (reader->place[leaf] == reader->end[leaf]) {
        if (level != leaf && reader->place[level] < reader->end[level]) {
            uint64_t parent = reader->place[level];
            HurrayStatus status = take_coordinate(reader, level);
            if (status == HURRAY_OK) status = open_children(reader, level + 1, parent);
            if (status != HURRAY_OK) return status;
            level++;
        } else if (level != 0) {
            level--;
        } else {
            break;
        }
    }
    return HURRAY_OK;
}

static HurrayStatus read_leaves(TupleReader *reader, size_t room) {
    uint32_t rank = reader->fields->rank, leaf = rank - 1;
    uint64_t *tuple = reader->tuples;
    while (reader->count < room) {
        if (reader->place[leaf] == reader->end[leaf]) {
            HurrayStatus status = find_leaves(reader);
            if (status != HURRAY_OK || reader->place[leaf] == reader->end[leaf]) return status;
        }
        HurrayStatus status = take_coordinate(reader, leaf);
        if (status != HURRAY_OK) return status;
        for (uint32_t k = 0; k < rank; k++) *tuple++ = reader->current[k];
        reader->count++;
        reader->position++;
    }
    return HURRAY_OK;
}

/* At the end of a tree: that its leaves are as many as the values. */
static HurrayStatus check_end(const TupleReader *reader) {
    uint64_t nnz = reader->fields->layout.sparse.nnz;
    if (!is_tree(reader) || reader->position == nnz) return HURRAY_OK;
    uint32_t buffer = pointer_buffer(reader, reader->fields->rank - 1);
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "%s ends at %" PRIu64 "; expected nnz, %" PRIu64,
                    role_of(reader, buffer), reader->position, nnz);
}

/* ---- any ---- */

HurrayStatus hri_tuples_begin(TupleReader *reader, const HurrayDescriptorFields *fields,
                              const HurrayBytes *buffers) {
    reader->fields = fields;
    reader->buffers = buffers;
    reader->order = NULL;
    reader->keyed = NULL;
    reader->first = reader->position = 0;
    reader->count = 0;
    hri_sparse_dimensions(&fields->layout, fields->rank, reader->dimensions);
    for (uint32_t level = 0; level < fields->rank; level++) {
        reader->begin[level] = reader->place[level] = reader->end[level] = 0;
    }
    if (!is_tree(reader)) return HURRAY_OK;
    if (has_dense_root(reader)) {
        reader->end[0] = fields->shape[reader->dimensions[0]];
        /* There is one pointer more than rows, also where there are no rows. */
        if (entry_at(reader, 2, 0) == 0) return HURRAY_OK;
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "%s[0] is %" PRIu64 "; expected 0",
                        role_of(reader, 2), entry_at(reader, 2, 0));
    }
    return open_children(reader, 0, 0);
}

static void decode_keys(TupleReader *reader, size_t count) {
    for (size_t i = 0; i < count; i++) {
        hri_order_decode(reader->order, reader->keyed[reader->position + i].key,
                         reader->tuples + i * reader->fields->rank);
    }
    reader->count = count;
    reader->position += count;
}

HurrayStatus hri_tuples_next(TupleReader *reader) {
    uint64_t left = reader->fields->layout.sparse.nnz - reader->position;
    size_t room = HRI_TUPLE_ENTRIES / reader->fields->rank;
    if (left < room) room = (size_t)left;
    reader->first = reader->position;
    reader->count = 0;
    if (reader->order != NULL) {
        decode_keys(reader, room);
        return HURRAY_OK;
    }
    if (!is_tree(reader)) return room == 0 ? HURRAY_OK : read_tuples(reader, room);
    /* A tree is walked to its end, so that what lies behind the last value is checked as well. */
    HurrayStatus status = room == 0 ? find_leaves(reader) : read_leaves(reader, room);
    if (status == HURRAY_OK && reader->count == 0) status = check_end(reader);
    return status;
}
