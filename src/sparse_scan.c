/*
 * What a dense tensor would store: its elements whose bits are not all zero (convert_sparse.h).
 *
 * Memory is read once, in its own order, so that a column-major tensor is not jumped through for
 * the sake of rows; sorting what was found is left to those who need it. The innermost dimensions
 * that lie behind one another make one run, and in a run zero bytes are skipped eight at a time.
 */
#include "convert_sparse.h"

#include <hurray/address.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "checked.h"
#include "fail.h"

typedef struct Scan {
    const HurrayDescriptorFields *fields;
    const uint8_t *data; /* element [0, …, 0] */
    HurrayPacking packing;
    size_t value_bytes;
    uint32_t dimensions[HURRAY_MAX_RANK]; /* outermost first */
    int64_t strides[HURRAY_MAX_RANK];     /* by dimension */
    uint32_t outer;                       /* levels that are not part of a run */
    uint64_t run;                         /* elements of one */
    int64_t step;                         /* from one to the next */
    uint64_t index[HURRAY_MAX_RANK];      /* of the element looked at, by dimension */
    ScannedElements *found;
} Scan;

/* ---- what is found ---- */

static HurrayStatus grow_block(uint8_t **block, uint64_t count, uint64_t item) {
    uint64_t bytes;
    size_t size;
    if (!checked_mul_u64(count, item, &bytes) || !checked_size(bytes, &size)) {
        return hri_fail_memory(count);
    }
    uint8_t *grown = realloc(*block, size);
    if (grown == NULL) return hri_fail_memory(bytes);
    *block = grown;
    return HURRAY_OK;
}

static HurrayStatus grow(const Scan *scan) {
    ScannedElements *found = scan->found;
    uint64_t capacity = found->capacity == 0 ? 64 : found->capacity + found->capacity / 2;
    uint64_t tuple_bytes = UINT64_C(8) * scan->fields->rank;
    HurrayStatus status = grow_block(&found->indices, capacity, tuple_bytes);
    if (status == HURRAY_OK) status = grow_block(&found->values, capacity, scan->value_bytes);
    if (status == HURRAY_OK) found->capacity = capacity;
    return status;
}

/* Element `at` of the current run, with these bytes. */
static HurrayStatus store(Scan *scan, uint64_t at, const uint8_t *value) {
    ScannedElements *found = scan->found;
    uint32_t rank = scan->fields->rank;
    if (found->nnz == found->capacity) {
        HurrayStatus status = grow(scan);
        if (status != HURRAY_OK) return status;
    }
    for (uint32_t level = rank; level-- > scan->outer;) {
        uint64_t extent = scan->fields->shape[scan->dimensions[level]];
        bool is_last = level == scan->outer; /* what is left is less than the extent */
        scan->index[scan->dimensions[level]] = is_last ? at : at % extent;
        if (!is_last) at /= extent;
    }
    uint8_t *tuple = found->indices + (size_t)found->nnz * rank * 8;
    for (uint32_t k = 0; k < rank; k++) store_u64(tuple + 8 * k, scan->index[k]);
    memcpy(found->values + (size_t)found->nnz * scan->value_bytes, value, scan->value_bytes);
    found->nnz++;
    return HURRAY_OK;
}

/* ---- runs ---- */

/* The first byte from `at` on that is not zero; `size` when there is none. */
static size_t skip_zeros(const uint8_t *bytes, size_t at, size_t size) {
    while (size - at >= 32) {
        uint64_t words[4];
        memcpy(words, bytes + at, sizeof words);
        if ((words[0] | words[1] | words[2] | words[3]) != 0) break;
        at += 32;
    }
    while (size - at >= 8) {
        uint64_t word;
        memcpy(&word, bytes + at, sizeof word);
        if (word != 0) break;
        at += 8;
    }
    while (at < size && bytes[at] == 0) at++;
    return at;
}

static HurrayStatus scan_contiguous(Scan *scan, const uint8_t *elements) {
    size_t size = (size_t)scan->run * scan->value_bytes, at = 0;
    while ((at = skip_zeros(elements, at, size)) < size) {
        size_t element = at / scan->value_bytes;
        HurrayStatus status = store(scan, element, elements + element * scan->value_bytes);
        if (status != HURRAY_OK) return status;
        at = (element + 1) * scan->value_bytes;
    }
    return HURRAY_OK;
}

static HurrayStatus scan_steps(Scan *scan, int64_t offset) {
    size_t size = scan->value_bytes;
    for (uint64_t at = 0; at < scan->run; at++) {
        int64_t element = offset + (int64_t)at * scan->step;
        const uint8_t *value = scan->data + element * (int64_t)size;
        if (skip_zeros(value, 0, size) == size) continue;
        HurrayStatus status = store(scan, at, value);
        if (status != HURRAY_OK) return status;
    }
    return HURRAY_OK;
}

/* The group of packed elements that one at `offset` is in; where in it goes to *within. */
static const uint8_t *group_of(const Scan *scan, int64_t offset, uint32_t *within) {
    int64_t per_group = (int64_t)scan->packing.group_elements;
    int64_t group = offset / per_group, rest = offset % per_group;
    if (rest < 0) {
        rest += per_group;
        group--;
    }
    *within = (uint32_t)rest;
    return scan->data + group * (int64_t)scan->packing.group_bytes;
}

static uint8_t packed_element(const Scan *scan, const uint8_t *group, uint32_t within) {
    uint32_t bit = within * scan->packing.bits, mask = (1u << scan->packing.bits) - 1;
    uint32_t byte = bit / 8;
    uint32_t word = group[byte];
    if (bit % 8 + scan->packing.bits > 8) word |= (uint32_t)group[byte + 1] << 8;
    return (uint8_t)(word >> bit % 8 & mask);
}

static HurrayStatus scan_packed(Scan *scan, int64_t offset) {
    uint32_t per_group = scan->packing.group_elements;
    for (uint64_t at = 0; at < scan->run;) {
        uint32_t within;
        const uint8_t *group = group_of(scan, offset + (int64_t)at * scan->step, &within);
        bool is_whole = scan->step == 1 && within == 0 && scan->run - at >= per_group;
        if (is_whole &&
            skip_zeros(group, 0, scan->packing.group_bytes) == scan->packing.group_bytes) {
            at += per_group;
            continue;
        }
        uint8_t value = packed_element(scan, group, within);
        if (value != 0) {
            HurrayStatus status = store(scan, at, &value);
            if (status != HURRAY_OK) return status;
        }
        at++;
    }
    return HURRAY_OK;
}

static HurrayStatus scan_run(Scan *scan, int64_t offset) {
    if (scan->packing.bits < 8) return scan_packed(scan, offset);
    if (scan->step != 1) return scan_steps(scan, offset);
    return scan_contiguous(scan, scan->data + offset * (int64_t)scan->value_bytes);
}

/* ---- the order of runs ---- */

/* Longest strides first; equal ones, and those that do not matter, stay in the order given. */
static void sort_dimensions(Scan *scan) {
    for (uint32_t i = 1; i < scan->fields->rank; i++) {
        uint32_t dimension = scan->dimensions[i], at = i;
        uint64_t step = magnitude_i64(scan->strides[dimension]);
        while (at > 0 && magnitude_i64(scan->strides[scan->dimensions[at - 1]]) < step) {
            scan->dimensions[at] = scan->dimensions[at - 1];
            at--;
        }
        scan->dimensions[at] = dimension;
    }
}

/* The innermost levels that one stride leads through. */
static void find_run(Scan *scan) {
    uint32_t level = scan->fields->rank - 1;
    scan->run = scan->fields->shape[scan->dimensions[level]];
    scan->step = scan->strides[scan->dimensions[level]];
    while (level > 0) {
        uint32_t dimension = scan->dimensions[level - 1];
        uint64_t stride = (uint64_t)scan->strides[dimension];
        if (stride != (uint64_t)scan->step * scan->run)
            break; /* modulo 2^64: both fit, or neither */
        scan->run *= scan->fields->shape[dimension];
        level--;
    }
    scan->outer = level;
}

/* Like the hands of a clock; false after the last run. */
static bool next_run(Scan *scan, int64_t *offset) {
    for (uint32_t level = scan->outer; level-- > 0;) {
        uint32_t dimension = scan->dimensions[level];
        uint64_t extent = scan->fields->shape[dimension];
        uint64_t stride = (uint64_t)scan->strides[dimension]; /* sums modulo 2^64 */
        if (++scan->index[dimension] < extent) {
            *offset = (int64_t)((uint64_t)*offset + stride);
            return true;
        }
        scan->index[dimension] = 0;
        *offset = (int64_t)((uint64_t)*offset - stride * (extent - 1));
    }
    return false;
}

HurrayStatus hri_scan_dense(const HurrayDescriptorFields *fields, const uint8_t *data,
                            HurrayPacking packing, const uint32_t *dimensions,
                            ScannedElements *out) {
    ScannedElements found = {0};
    Scan scan = {
        .fields = fields,
        .data = data,
        .packing = packing,
        .value_bytes = packing.bits < 8 ? 1 : packing.group_bytes,
        .found = &found,
    };
    memcpy(scan.dimensions, dimensions, fields->rank * sizeof *dimensions);
    HurrayStatus status = hurray_address_strides(fields, scan.strides);
    if (status != HURRAY_OK) return status;
    for (uint32_t k = 0; k < fields->rank; k++) {
        if (fields->shape[k] == 1) scan.strides[k] = INT64_MAX; /* never taken: out of the way */
    }
    if (!hurray_shape_is_empty(fields->shape, fields->rank)) {
        int64_t offset = 0;
        sort_dimensions(&scan);
        find_run(&scan);
        do status = scan_run(&scan, offset);
        while (status == HURRAY_OK && next_run(&scan, &offset));
    }
    if (status == HURRAY_OK) {
        *out = found;
        return HURRAY_OK;
    }
    free(found.indices);
    free(found.values);
    return status;
}
