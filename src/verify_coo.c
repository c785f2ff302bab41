/*
 * Verification of COO tuples (spec 2.6): in bounds, in order where that is promised, and no two
 * alike. Where there is no order, two that are alike are found by sorting, which takes the same
 * time whatever the data: a hash could be driven into comparing all with all.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "checked.h"
#include "fail.h"
#include "verify.h"

/* ---- COO ---- */

typedef struct Tuples {
    Entries entries;
    uint64_t count;
    uint32_t rank;
    const uint64_t *shape;
} Tuples;

typedef struct TupleFaults {
    bool outside;
    bool disorder; /* a tuple does not come after the one before it */
} TupleFaults;

/* Of tuples begin … end − 1. With a constant rank the inner loops are unrolled. */
static inline TupleFaults scan_tuples(const Tuples *tuples, uint64_t begin, uint64_t end,
                                      uint32_t rank) {
    TupleFaults faults = {false, false};
    for (uint64_t t = begin; t < end; t++) {
        const uint8_t *tuple = tuples->entries.data + (size_t)t * rank * 8;
        const uint8_t *before = t == 0 ? tuple : tuple - (size_t)rank * 8;
        bool is_after = t == 0;
        for (uint32_t k = rank; k-- > 0;) { /* the last dimension counts least */
            uint64_t a = load(before, k, ENTRY_U64), b = load(tuple, k, ENTRY_U64);
            faults.outside |= b >= tuples->shape[k];
            is_after = (b > a) | ((b == a) & is_after);
        }
        faults.disorder |= !is_after;
    }
    return faults;
}

static TupleFaults look_at_tuples(const Tuples *tuples, uint64_t begin, uint64_t end) {
    switch (tuples->rank) {
    case 1: return scan_tuples(tuples, begin, end, 1);
    case 2: return scan_tuples(tuples, begin, end, 2);
    case 3: return scan_tuples(tuples, begin, end, 3);
    case 4: return scan_tuples(tuples, begin, end, 4);
    default: return scan_tuples(tuples, begin, end, tuples->rank);
    }
}

static HurrayStatus report_duplicate(HurrayViolation *out, const Tuples *tuples, uint64_t tuple,
                                     uint64_t original) {
    uint64_t at = tuple * tuples->rank;
    hri_record(out, HURRAY_VIOLATION_DUPLICATE, tuples->entries.buffer, at, tuple, original);
    return hri_fail(HURRAY_ERR_DATA_INVALID,
                    "indices: tuple %" PRIu64 ", from entry %" PRIu64 " on, repeats tuple %" PRIu64
                    "; expected no two alike",
                    tuple, at, original);
}

/* Of a tuple that is not the first. */
static HurrayStatus check_order(HurrayViolation *out, const Tuples *tuples, uint64_t tuple) {
    for (uint32_t k = 0; k < tuples->rank; k++) {
        uint64_t at = tuple * tuples->rank + k;
        uint64_t before = entry_at(&tuples->entries, at - tuples->rank);
        uint64_t index = entry_at(&tuples->entries, at);
        if (index > before) return HURRAY_OK;
        if (index == before) continue;
        hri_record(out, HURRAY_VIOLATION_INDEX_ORDER, tuples->entries.buffer, at, index, before);
        return hri_fail(HURRAY_ERR_DATA_INVALID,
                        "indices[%" PRIu64 "], dimension %" PRIu32 " of tuple %" PRIu64
                        ", is %" PRIu64 "; expected tuples to increase, and the one before it has "
                        "%" PRIu64,
                        at, k, tuple, index, before);
    }
    return report_duplicate(out, tuples, tuple, tuple - 1);
}

static HurrayStatus check_tuple(HurrayViolation *out, const Tuples *tuples, uint64_t tuple,
                                bool is_sorted) {
    for (uint32_t k = 0; k < tuples->rank; k++) {
        uint64_t at = tuple * tuples->rank + k;
        if (entry_at(&tuples->entries, at) >= tuples->shape[k]) {
            return hri_report_entry(out, HURRAY_VIOLATION_INDEX_OUT_OF_BOUNDS, &tuples->entries, at,
                                    tuples->shape[k]);
        }
    }
    return is_sorted && tuple != 0 ? check_order(out, tuples, tuple) : HURRAY_OK;
}

/* Bounds, and order if it is promised; whether there is order is found out in any case. */
static HurrayStatus check_tuples(HurrayViolation *out, const Tuples *tuples, bool is_sorted,
                                 bool *in_order) {
    *in_order = true;
    uint64_t end;
    for (uint64_t begin = 0; begin < tuples->count; begin = end) {
        end = tuples->count - begin < HRI_VERIFY_CHUNK ? tuples->count : begin + HRI_VERIFY_CHUNK;
        TupleFaults faults = look_at_tuples(tuples, begin, end);
        *in_order &= !faults.disorder;
        if (!faults.outside && !(faults.disorder && is_sorted)) continue;
        HurrayStatus status = HURRAY_OK;
        for (uint64_t t = begin; status == HURRAY_OK && t < end; t++) {
            status = check_tuple(out, tuples, t, is_sorted);
        }
        return status;
    }
    return HURRAY_OK;
}

/* ---- duplicates among COO tuples ---- */

/* A tuple, and a number made from some of its dimensions to sort it by. */
typedef struct Keyed {
    uint64_t key;
    uint64_t tuple;
} Keyed;

#define DIGITS 256u

/* One pass of a radix sort: by byte `digit` of the key, equal ones left in their order. */
static void scatter(const Keyed *from, Keyed *to, uint64_t count, uint32_t digit,
                    const uint64_t histogram[DIGITS]) {
    uint64_t next[DIGITS], total = 0;
    for (uint32_t d = 0; d < DIGITS; d++) {
        next[d] = total;
        total += histogram[d];
    }
    for (uint64_t i = 0; i < count; i++) to[next[from[i].key >> 8 * digit & 0xFF]++] = from[i];
}

/* Sorts by key, stably; returns where the result is, one of the two. Never more than 8 passes. */
static Keyed *sort_by_key(Keyed *items, Keyed *spare, uint64_t count) {
    uint64_t histograms[8][DIGITS] = {{0}};
    for (uint64_t i = 0; i < count; i++) {
        for (uint32_t digit = 0; digit < 8; digit++) {
            histograms[digit][items[i].key >> 8 * digit & 0xFF]++;
        }
    }
    for (uint32_t digit = 0; digit < 8; digit++) {
        if (histograms[digit][items[0].key >> 8 * digit & 0xFF] == count) continue; /* all alike */
        scatter(items, spare, count, digit, histograms[digit]);
        Keyed *sorted = spare;
        spare = items;
        items = sorted;
    }
    return items;
}

/* The lowest dimension from which on those before `end` can be counted through in 64 bits. */
static uint32_t first_of_group(const Tuples *tuples, uint32_t end) {
    uint32_t first = end - 1;
    uint64_t product = tuples->shape[first];
    while (first > 0 && checked_mul_u64(product, tuples->shape[first - 1], &product)) first--;
    return first;
}

/* Sorts tuples whose indices are in bounds, equal ones in the order in which they stand. */
static Keyed *sort_tuples(const Tuples *tuples, Keyed *items, Keyed *spare) {
    for (uint64_t i = 0; i < tuples->count; i++) items[i].tuple = i;
    for (uint32_t end = tuples->rank, first; end > 0; end = first) {
        first = first_of_group(tuples, end);
        for (uint64_t i = 0; i < tuples->count; i++) {
            uint64_t key = 0;
            for (uint32_t k = first; k < end; k++) {
                key *= tuples->shape[k];
                key += entry_at(&tuples->entries, items[i].tuple * tuples->rank + k);
            }
            items[i].key = key;
        }
        Keyed *sorted = sort_by_key(items, spare, tuples->count);
        if (sorted == spare) spare = items;
        items = sorted;
    }
    return items;
}

/* Same key, which is of the first dimensions only, and the same altogether. */
static bool is_same_tuple(const Tuples *tuples, const Keyed *a, const Keyed *b) {
    if (a->key != b->key) return false;
    size_t size = (size_t)tuples->rank * 8;
    const uint8_t *data = tuples->entries.data;
    return memcmp(data + (size_t)a->tuple * size, data + (size_t)b->tuple * size, size) == 0;
}

/* Among tuples that are in bounds, but in no order. */
static HurrayStatus check_duplicates(HurrayViolation *out, const Tuples *tuples) {
    uint64_t bytes;
    size_t size;
    if (!checked_mul_u64(tuples->count, 2 * sizeof(Keyed), &bytes) || !checked_size(bytes, &size)) {
        return hri_fail_memory(UINT64_MAX);
    }
    Keyed *items = malloc(size);
    if (items == NULL) return hri_fail_memory(bytes);
    const Keyed *sorted = sort_tuples(tuples, items, items + tuples->count);
    uint64_t first = tuples->count, original = 0; /* the earliest that repeats another one */
    for (uint64_t i = 1; i < tuples->count; i++) {
        if (sorted[i].tuple < first && is_same_tuple(tuples, &sorted[i - 1], &sorted[i])) {
            first = sorted[i].tuple;
            original = sorted[i - 1].tuple;
        }
    }
    free(items);
    return first == tuples->count ? HURRAY_OK : report_duplicate(out, tuples, first, original);
}

HurrayStatus hri_verify_coo(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                            HurrayViolation *out) {
    Tuples tuples = {
        .entries = hri_entries_of(fields, buffers, 1, ENTRY_U64),
        .count = fields->layout.sparse.nnz,
        .rank = fields->rank,
        .shape = fields->shape,
    };
    /* There is room for all: the descriptor was checked. */
    assert(tuples.entries.count / tuples.rank >= tuples.count);
    bool in_order;
    HurrayStatus status = check_tuples(out, &tuples, fields->layout.sparse.is_sorted, &in_order);
    return status != HURRAY_OK || in_order ? status : check_duplicates(out, &tuples);
}
