/*
 * Index tuples in the order of a layout (convert_sparse.h): finding out whether they are, and
 * sorting them by radix, byte by byte of a key, if they are not.
 */
#include "convert_sparse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "fail.h"

/* ---- keys ---- */

/* Of the indices below an extent. */
static uint32_t bits_of(uint64_t extent) {
    uint32_t bits = 0;
    for (uint64_t last = extent == 0 ? 0 : extent - 1; last != 0; last >>= 1) bits++;
    return bits;
}

void hri_order_init(TupleOrder *order, const HurrayDescriptorFields *fields,
                    const uint32_t *dimensions) {
    uint32_t bits = 0;
    order->rank = fields->rank;
    for (uint32_t level = fields->rank; level-- > 0;) {
        uint64_t extent = fields->shape[dimensions[level]];
        uint32_t width = bits_of(extent);
        order->dimensions[level] = dimensions[level];
        order->extents[level] = extent;
        /* An extent of 1 has no bits, and must not be shifted by 64. */
        order->shifts[level] = width == 0 ? 0 : bits;
        order->masks[level] = width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;
        bits += width;
    }
    order->is_by_bits = bits <= 64;
    order->key_bits = order->is_by_bits ? bits : 64;
}

static uint64_t encode(const TupleOrder *order, const uint64_t *tuple) {
    uint64_t key = 0;
    if (order->is_by_bits) {
        for (uint32_t level = 0; level < order->rank; level++) {
            key |= tuple[order->dimensions[level]] << order->shifts[level];
        }
        return key;
    }
    for (uint32_t level = 0; level < order->rank; level++) {
        key = key * order->extents[level] + tuple[order->dimensions[level]];
    }
    return key;
}

void hri_order_decode(const TupleOrder *order, uint64_t key, uint64_t *tuple) {
    if (order->is_by_bits) {
        for (uint32_t level = 0; level < order->rank; level++) {
            tuple[order->dimensions[level]] = key >> order->shifts[level] & order->masks[level];
        }
        return;
    }
    for (uint32_t level = order->rank; level-- > 0;) {
        tuple[order->dimensions[level]] = key % order->extents[level];
        key /= order->extents[level];
    }
}

/* ---- sorting ---- */

/* Up to here insertion is faster than counting. */
#define FEW 40u

static void sort_few(Keyed *items, size_t count) {
    for (size_t i = 1; i < count; i++) {
        Keyed item = items[i];
        size_t at = i;
        for (; at > 0 && items[at - 1].key > item.key; at--) items[at] = items[at - 1];
        items[at] = item;
    }
}

/* False, and nothing moved, when all have the same byte there. */
static bool sort_by_byte(const Keyed *from, Keyed *to, size_t count, uint32_t shift) {
    size_t starts[256] = {0}, start = 0;
    for (size_t i = 0; i < count; i++) starts[from[i].key >> shift & 0xFF]++;
    if (starts[from[0].key >> shift & 0xFF] == count) return false;
    for (uint32_t digit = 0; digit < 256; digit++) {
        size_t here = starts[digit];
        starts[digit] = start;
        start += here;
    }
    for (size_t i = 0; i < count; i++) to[starts[from[i].key >> shift & 0xFF]++] = from[i];
    return true;
}

Keyed *hri_sort_keyed(Keyed *items, Keyed *scratch, size_t count, uint32_t key_bits) {
    if (count <= FEW) {
        sort_few(items, count);
        return items;
    }
    for (uint32_t shift = 0; shift < key_bits; shift += 8) {
        if (!sort_by_byte(items, scratch, count, shift)) continue;
        Keyed *sorted = scratch;
        scratch = items;
        items = sorted;
    }
    return items;
}

/* "[1, 2, …]", cut where it does not fit. */
static void print_tuple(const uint64_t *tuple, uint32_t rank, char *text, size_t size) {
    size_t length = 0;
    for (uint32_t k = 0; k < rank && length + 24 < size; k++) {
        int more =
            snprintf(text + length, size - length, "%s%" PRIu64, k == 0 ? "[" : ", ", tuple[k]);
        if (more > 0) length += (size_t)more;
    }
    snprintf(text + length, size - length, "]");
}

HurrayStatus hri_fail_duplicate(const HurrayDescriptorFields *fields, uint64_t position,
                                uint64_t other, const uint64_t *tuple) {
    char text[200];
    print_tuple(tuple, fields->rank, text, sizeof text);
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                    "indices: tuple %" PRIu64 " is %s, as is tuple %" PRIu64
                    "; expected each index once",
                    other, text, position);
}

static HurrayStatus check_unique(const HurrayDescriptorFields *fields, const TupleOrder *order,
                                 const Keyed *sorted, size_t count) {
    for (size_t i = 1; i < count; i++) {
        if (sorted[i].key != sorted[i - 1].key) continue;
        uint64_t tuple[HURRAY_MAX_RANK];
        hri_order_decode(order, sorted[i].key, tuple);
        return hri_fail_duplicate(fields, sorted[i - 1].position, sorted[i].position, tuple);
    }
    return HURRAY_OK;
}

static HurrayStatus collect_keys(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                                 const TupleOrder *order, Keyed *keyed) {
    TupleReader reader;
    HurrayStatus status = hri_tuples_begin(&reader, fields, buffers);
    if (status == HURRAY_OK) status = hri_tuples_next(&reader);
    while (status == HURRAY_OK && reader.count != 0) {
        for (size_t i = 0; i < reader.count; i++) {
            *keyed++ = (Keyed){encode(order, reader.tuples + i * order->rank), reader.first + i};
        }
        status = hri_tuples_next(&reader);
    }
    return status;
}

HurrayStatus hri_sort_tuples(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                             const TupleOrder *order, Keyed **out) {
    uint64_t nnz = fields->layout.sparse.nnz, bytes;
    size_t size;
    if (!checked_mul_u64(nnz, sizeof(Keyed), &bytes) || !checked_size(bytes, &size)) {
        return hri_fail_memory(nnz);
    }
    Keyed *keyed = malloc(size == 0 ? 1 : size), *scratch = malloc(size == 0 ? 1 : size);
    HurrayStatus status = HURRAY_OK;
    if (keyed == NULL || scratch == NULL) status = hri_fail_memory(bytes);
    if (status == HURRAY_OK) status = collect_keys(fields, buffers, order, keyed);
    Keyed *sorted = NULL;
    if (status == HURRAY_OK) {
        sorted = hri_sort_keyed(keyed, scratch, (size_t)nnz, order->key_bits);
        status = check_unique(fields, order, sorted, (size_t)nnz);
    }
    if (status != HURRAY_OK) sorted = NULL;
    if (keyed != sorted) free(keyed);
    if (scratch != sorted) free(scratch);
    if (status == HURRAY_OK) *out = sorted;
    return status;
}

/* ---- looking whether there is anything to sort ---- */

void hri_examination_init(TupleExamination *examination, const HurrayDescriptorFields *fields,
                          const uint32_t *dimensions) {
    *examination = (TupleExamination){
        .fields = fields,
        .dimensions = dimensions,
        .must_be_sorted =
            fields->layout.tag == HURRAY_LAYOUT_COO && fields->layout.sparse.is_sorted,
        .is_in_order = true,
    };
}

/* The first level at which two tuples differ; rank when they do not. */
static uint32_t first_difference(const uint64_t *a, const uint64_t *b, const uint32_t *dimensions,
                                 uint32_t rank) {
    uint32_t level = 0;
    while (level < rank && a[dimensions[level]] == b[dimensions[level]]) level++;
    return level;
}

/* COO: that a tuple comes after the one before it, by dimension 0 first. */
static HurrayStatus check_promise(const HurrayDescriptorFields *fields, const uint64_t *previous,
                                  const uint64_t *tuple, uint64_t position) {
    uint32_t k = 0;
    while (k < fields->rank - 1 && tuple[k] == previous[k]) k++;
    if (tuple[k] > previous[k]) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                    "indices[%" PRIu64 "] is %" PRIu64 ", in tuple %" PRIu64
                    ", which should come after the one before it with %" PRIu64 ": is_sorted is 1",
                    position * fields->rank + k, tuple[k], position, previous[k]);
}

HurrayStatus hri_examine(TupleExamination *examination, const TupleReader *reader) {
    const HurrayDescriptorFields *fields = examination->fields;
    const uint32_t *dimensions = examination->dimensions;
    uint32_t rank = fields->rank;
    if (!examination->must_be_sorted && !examination->is_in_order) return HURRAY_OK;
    const uint64_t *previous = examination->previous, *tuple = reader->tuples;
    for (size_t i = 0; i < reader->count; i++, previous = tuple, tuple += rank) {
        uint32_t level = 0;
        if (i != 0 || examination->has_previous) {
            if (examination->must_be_sorted) {
                HurrayStatus status = check_promise(fields, previous, tuple, reader->first + i);
                if (status != HURRAY_OK) return status;
            }
            level = first_difference(tuple, previous, dimensions, rank);
            if (level == rank) {
                return hri_fail_duplicate(fields, reader->first + i - 1, reader->first + i, tuple);
            }
            if (tuple[dimensions[level]] < previous[dimensions[level]]) {
                examination->is_in_order = false;
                if (!examination->must_be_sorted) return HURRAY_OK;
            }
        }
        for (; level < rank; level++) examination->level_counts[level]++;
    }
    if (reader->count != 0) {
        memcpy(examination->previous, previous, rank * sizeof *previous);
        examination->has_previous = true;
    }
    return HURRAY_OK;
}
