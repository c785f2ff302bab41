/*
 * Verification of indices, pointers and quantization parameters (include/hurray/verify.h, spec 2.6 - 2.9
 * and 3).
 *
 * Data is nearly always right, so that each rule is written twice: as a loop without branches, which
 * only finds out whether anything is wrong and runs about as fast as memory is read, and as a plain
 * search for the first violation, for the case that something is.
 */
#include <hurray/verify.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "bytes.h"
#include "checked.h"
#include "fail.h"
#include "layout.h"
#include "quantization.h"

/* ---- entries of buffers ---- */

/* How a buffer's entries are written; the width in bytes but for the last. */
typedef enum EntryForm {
    ENTRY_U8 = 1,
    ENTRY_U16 = 2,
    ENTRY_U32 = 4,
    ENTRY_U64 = 8,
    ENTRY_HOST_U64 = 64 /* an array of this host's */
} EntryForm;

typedef struct Entries {
    const char *role;
    uint32_t buffer;
    EntryForm form;
    const uint8_t *data;
    uint64_t count;
} Entries;

static inline uint32_t form_size(EntryForm form) {
    return form == ENTRY_HOST_U64 ? 8 : (uint32_t)form;
}

/* Known when it is compiled. */
static inline bool host_is_little_endian(void) {
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1;
}

/* The entry at a position that is there. With a constant form it is a single load. */
static inline uint64_t load(const uint8_t *data, uint64_t at, EntryForm form) {
    switch (form) {
    case ENTRY_U8: return data[(size_t)at];
    case ENTRY_U16: return load_u16(data + (size_t)at * 2);
    case ENTRY_U32: return load_u32(data + (size_t)at * 4);
    case ENTRY_U64: /* compilers make vectors of a plain copy, but not of bytes put together */
        if (!host_is_little_endian()) return load_u64(data + (size_t)at * 8);
        break;
    case ENTRY_HOST_U64: break;
    }
    uint64_t value;
    memcpy(&value, data + (size_t)at * 8, sizeof value);
    return value;
}

static uint64_t entry_at(const Entries *entries, uint64_t at) {
    return load(entries->data, at, entries->form);
}

/* One of the layout's own buffers. */
static Entries entries_of(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                          uint32_t buffer, EntryForm form) {
    return (Entries){
        .role = hri_layout_kind(fields->layout.tag)->buffer_roles[buffer],
        .buffer = buffer,
        .form = form,
        .data = buffers[buffer].data,
        .count = buffers[buffer].size / (uint32_t)form,
    };
}

/* ---- violations ---- */

/* What a message says between "X[i] is …; expected " and the expected number. */
static const struct {
    const char *name;
    const char *expectation;
} kinds[] = {
    [HURRAY_VIOLATION_NONE] = {"none", ""},
    [HURRAY_VIOLATION_BUFFER_TOO_SMALL] = {"buffer_too_small", ""},
    [HURRAY_VIOLATION_POINTER_START] = {"pointer_start", "to start at"},
    [HURRAY_VIOLATION_POINTER_DECREASES] = {"pointer_decreases", "at least the one before it,"},
    [HURRAY_VIOLATION_POINTER_PAST_END] = {"pointer_past_end",
                                           "at most the number of entries to point to,"},
    [HURRAY_VIOLATION_POINTER_END] = {"pointer_end", "to end at"},
    [HURRAY_VIOLATION_INDEX_OUT_OF_BOUNDS] = {"index_out_of_bounds", "less than the extent"},
    [HURRAY_VIOLATION_INDEX_ORDER] = {"index_order", "more than the one before it,"},
    [HURRAY_VIOLATION_DUPLICATE] = {"duplicate", ""},
    [HURRAY_VIOLATION_PAGE_ID] = {"page_id", "less than num_pages"},
    [HURRAY_VIOLATION_SCALE] = {"scale", ""},
    [HURRAY_VIOLATION_ZERO_POINT] = {"zero_point", ""},
    [HURRAY_VIOLATION_STATISTICS] = {"statistics", ""},
};

const char *hurray_violation_name(HurrayViolationKind kind) {
    size_t at = (size_t)kind;
    return at < sizeof kinds / sizeof kinds[0] ? kinds[at].name : NULL;
}

static void record(HurrayViolation *out, HurrayViolationKind kind, uint32_t buffer,
                   uint64_t position, uint64_t found, uint64_t expected) {
    if (out != NULL) *out = (HurrayViolation){kind, buffer, position, found, expected};
}

/* For kinds that have an expectation. */
static HurrayStatus report(HurrayViolation *out, HurrayViolationKind kind, const Entries *entries,
                           uint64_t at, uint64_t expected) {
    uint64_t found = entry_at(entries, at);
    record(out, kind, entries->buffer, at, found, expected);
    return hri_fail(HURRAY_ERR_DATA_INVALID, "%s[%" PRIu64 "] is %" PRIu64 "; expected %s %" PRIu64,
                    entries->role, at, found, kinds[kind].expectation, expected);
}

static HurrayStatus check_enough(HurrayViolation *out, const Entries *entries, uint64_t needed) {
    if (entries->count >= needed) return HURRAY_OK;
    record(out, HURRAY_VIOLATION_BUFFER_TOO_SMALL, entries->buffer, entries->count, entries->count,
           needed);
    return hri_fail(HURRAY_ERR_DATA_INVALID,
                    "%s holds %" PRIu64 " entries; expected at least %" PRIu64, entries->role,
                    entries->count, needed);
}

/* ---- entries in a range ---- */

/* Good are the entries with (entry − low) & mask <= span, and the one that is `also`. */
typedef struct Range {
    uint64_t low;
    uint64_t mask;
    uint64_t span;
    uint64_t also;
} Range;

static inline bool is_outside(uint64_t entry, Range range) {
    return (((entry - range.low) & range.mask) > range.span) & (entry != range.also);
}

/* What is read at a time, before it is looked whether anything was wrong. */
#define CHUNK 4096u

static inline uint64_t scan_range(const uint8_t *data, uint64_t count, Range range,
                                  EntryForm form) {
    uint64_t begin = 0;
    while (begin < count) {
        uint64_t end = count - begin < CHUNK ? count : begin + CHUNK;
        bool outside = false;
        for (uint64_t i = begin; i < end; i++) outside |= is_outside(load(data, i, form), range);
        if (outside) break;
        begin = end;
    }
    while (begin < count && !is_outside(load(data, begin, form), range)) begin++;
    return begin;
}

/* The first of `count` entries that is not in the range; `count` when all are. */
static uint64_t first_outside(const Entries *entries, uint64_t count, Range range) {
    switch (entries->form) {
    case ENTRY_U8: return scan_range(entries->data, count, range, ENTRY_U8);
    case ENTRY_U16: return scan_range(entries->data, count, range, ENTRY_U16);
    case ENTRY_U32: return scan_range(entries->data, count, range, ENTRY_U32);
    case ENTRY_U64: return scan_range(entries->data, count, range, ENTRY_U64);
    case ENTRY_HOST_U64: break;
    }
    return scan_range(entries->data, count, range, ENTRY_HOST_U64);
}

/* ---- pointers ---- */

/*
 * Numbers below 2^63, as all that are right are here, are compared by the sign of their difference: with
 * that, and blocks of a constant size, compilers make vectors of the loops on every processor.
 */
#define BLOCK 64u
#define SIGN (UINT64_C(1) << 63)

static inline bool scan_ascending(const uint8_t *data, uint64_t count, EntryForm form) {
    uint64_t signs = load(data, 0, form), i = 1;
    for (; count - i >= BLOCK; i += BLOCK) {
        const uint8_t *block = data + (size_t)i * form_size(form);
        const uint8_t *before = block - form_size(form);
        for (uint32_t j = 0; j < BLOCK; j++) {
            uint64_t pointer = load(block, j, form);
            signs |= pointer | (pointer - load(before, j, form));
        }
    }
    for (; i < count; i++) {
        uint64_t pointer = load(data, i, form);
        signs |= pointer | (pointer - load(data, i - 1, form));
    }
    return (signs & SIGN) == 0;
}

/* Whether they do, of at least one; false also when one is 2^63 or more, which none can be. */
static bool never_decreases(const Entries *pointers, uint64_t count) {
    switch (pointers->form) {
    case ENTRY_U32: return scan_ascending(pointers->data, count, ENTRY_U32);
    case ENTRY_U64: return scan_ascending(pointers->data, count, ENTRY_U64);
    default: return scan_ascending(pointers->data, count, ENTRY_HOST_U64);
    }
}

/* The first violation among pointers that have one. */
static HurrayStatus report_pointer(HurrayViolation *out, const Entries *pointers, uint64_t count,
                                   uint64_t limit, bool exact) {
    if (entry_at(pointers, 0) != 0) {
        return report(out, HURRAY_VIOLATION_POINTER_START, pointers, 0, 0);
    }
    uint64_t at = 0, before = 0;
    for (;; at++) {
        uint64_t pointer = entry_at(pointers, at);
        if (pointer < before) {
            return report(out, HURRAY_VIOLATION_POINTER_DECREASES, pointers, at, before);
        }
        before = pointer;
        if (at == count - 1) break;
        if (pointer > limit) {
            return report(out, HURRAY_VIOLATION_POINTER_PAST_END, pointers, at, limit);
        }
    }
    return report(out, exact ? HURRAY_VIOLATION_POINTER_END : HURRAY_VIOLATION_POINTER_PAST_END,
                  pointers, at, limit);
}

/*
 * The first `count` pointers, of at least one: from 0 on, never decreasing, to exactly `limit`, or at
 * most that.
 */
static HurrayStatus check_pointers(HurrayViolation *out, const Entries *pointers, uint64_t count,
                                   uint64_t limit, bool exact) {
    HurrayStatus status = check_enough(out, pointers, count);
    if (status != HURRAY_OK) return status;
    uint64_t last = entry_at(pointers, count - 1);
    bool ends_well = exact ? last == limit : last <= limit;
    if (entry_at(pointers, 0) == 0 && ends_well && never_decreases(pointers, count)) {
        return HURRAY_OK;
    }
    return report_pointer(out, pointers, count, limit, exact);
}

/* ---- coordinates in slices ---- */

/* What a look at all coordinates at once tells. */
typedef struct Survey {
    uint64_t descents; /* coordinates that are not greater than the one before them */
    bool outside;
} Survey;

static void survey_one(uint64_t before, uint64_t coordinate, uint64_t extent, Survey *all) {
    all->descents += coordinate <= before;
    all->outside |= coordinate >= extent;
}

/* `count` coordinates, one or more. An extent of 2^63 or more is for the plain loop. */
static Survey survey(const uint8_t *data, uint64_t count, uint64_t extent) {
    Survey all = {0, load(data, 0, ENTRY_U64) >= extent};
    uint64_t i = 1, signs = 0;
    for (; extent <= SIGN && count - i >= BLOCK; i += BLOCK) {
        const uint8_t *block = data + (size_t)i * 8, *before = block - 8;
        for (uint32_t j = 0; j < BLOCK; j++) {
            uint64_t coordinate = load(block, j, ENTRY_U64);
            signs |= coordinate | (extent - 1 - coordinate);
            all.descents += (coordinate - load(before, j, ENTRY_U64) - 1) >> 63;
        }
    }
    for (; i < count; i++) {
        survey_one(load(data, i - 1, ENTRY_U64), load(data, i, ENTRY_U64), extent, &all);
    }
    all.outside |= (signs & SIGN) != 0; /* and then the descents mean nothing */
    return all;
}

/* The descents that are none, because a slice begins there. */
static uint64_t descents_between(const Entries *pointers, uint64_t parents,
                                 const Entries *coordinates) {
    uint64_t descents = 0, begin = 0; /* the first slice begins at 0 */
    for (uint64_t parent = 0; parent < parents; parent++) {
        uint64_t end = load(pointers->data, parent + 1, ENTRY_U64);
        if (begin != 0 && begin != end) {
            descents += load(coordinates->data, begin, ENTRY_U64) <=
                        load(coordinates->data, begin - 1, ENTRY_U64);
        }
        begin = end;
    }
    return descents;
}

static HurrayStatus report_coordinate(HurrayViolation *out, const Entries *pointers,
                                      uint64_t parents, const Entries *coordinates,
                                      uint64_t extent) {
    for (uint64_t parent = 0; parent < parents; parent++) {
        uint64_t begin = entry_at(pointers, parent), end = entry_at(pointers, parent + 1);
        for (uint64_t at = begin; at < end; at++) {
            uint64_t coordinate = entry_at(coordinates, at);
            if (coordinate >= extent) {
                return report(out, HURRAY_VIOLATION_INDEX_OUT_OF_BOUNDS, coordinates, at, extent);
            }
            uint64_t before = at == begin ? 0 : entry_at(coordinates, at - 1);
            if (at != begin && coordinate <= before) {
                return report(out, HURRAY_VIOLATION_INDEX_ORDER, coordinates, at, before);
            }
        }
    }
    return HURRAY_OK;
}

/*
 * Coordinates below `extent` that strictly increase in each slice. The pointers, one more than parents,
 * are right, and all coordinates are there.
 */
static HurrayStatus check_coordinates(HurrayViolation *out, const Entries *pointers,
                                      uint64_t parents, const Entries *coordinates,
                                      uint64_t extent) {
    uint64_t count = entry_at(pointers, parents);
    if (count == 0) return HURRAY_OK;
    Survey all = survey(coordinates->data, count, extent);
    if (!all.outside &&
        (all.descents == 0 || all.descents == descents_between(pointers, parents, coordinates))) {
        return HURRAY_OK;
    }
    return report_coordinate(out, pointers, parents, coordinates, extent);
}

/* ---- CSR, CSC ---- */

/*
 * How many pointers there are when nobody knows how many rows: as many as it takes to reach nnz, since
 * all rows after that are empty.
 */
static uint64_t count_pointers(const Entries *pointers, uint64_t nnz) {
    for (uint64_t i = 0; i < pointers->count; i++) {
        if (entry_at(pointers, i) >= nnz) return i + 1;
    }
    return pointers->count == 0 ? 1 : pointers->count;
}

/* `major` is the dimension that the pointers are for. */
static HurrayStatus verify_compressed(const HurrayDescriptorFields *fields,
                                      const HurrayBytes *buffers, uint32_t major,
                                      HurrayViolation *out) {
    Entries coordinates = entries_of(fields, buffers, 1, ENTRY_U64);
    Entries pointers = entries_of(fields, buffers, 2, ENTRY_U64);
    uint64_t nnz = fields->layout.sparse.nnz, extent = fields->shape[major];
    uint64_t count = extent == HURRAY_DYNAMIC ? count_pointers(&pointers, nnz) : extent + 1;
    HurrayStatus status = check_pointers(out, &pointers, count, nnz, true);
    if (status == HURRAY_OK) status = check_enough(out, &coordinates, nnz);
    if (status != HURRAY_OK) return status;
    return check_coordinates(out, &pointers, count - 1, &coordinates, fields->shape[1 - major]);
}

static HurrayStatus verify_csr(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                               HurrayViolation *out) {
    return verify_compressed(fields, buffers, 0, out);
}

static HurrayStatus verify_csc(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                               HurrayViolation *out) {
    return verify_compressed(fields, buffers, 1, out);
}

/* ---- CSF ---- */

/*
 * Level by level: how many entries one has is what its last pointer says, and that is how many slices the
 * next one has. The leaf level has nnz, and without values there is not even a root.
 */
static HurrayStatus verify_csf(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                               HurrayViolation *out) {
    const HurraySparseLayout *layout = &fields->layout.sparse;
    uint64_t parents = 1; /* pos_0 = [0, n_0] */
    for (uint32_t level = 0; level < fields->rank; level++) {
        Entries pointers = entries_of(fields, buffers, 2 * level + 1, ENTRY_U64);
        Entries coordinates = entries_of(fields, buffers, 2 * level + 2, ENTRY_U64);
        bool exact = level == fields->rank - 1 || layout->nnz == 0;
        uint64_t limit = exact ? layout->nnz : coordinates.count;
        HurrayStatus status = check_pointers(out, &pointers, parents + 1, limit, exact);
        if (status == HURRAY_OK && exact) status = check_enough(out, &coordinates, limit);
        if (status == HURRAY_OK) {
            uint64_t extent = fields->shape[layout->mode_order[level]];
            status = check_coordinates(out, &pointers, parents, &coordinates, extent);
        }
        if (status != HURRAY_OK) return status;
        parents = entry_at(&pointers, parents); /* at most what the buffer holds */
    }
    return HURRAY_OK;
}

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
    record(out, HURRAY_VIOLATION_DUPLICATE, tuples->entries.buffer, at, tuple, original);
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
        record(out, HURRAY_VIOLATION_INDEX_ORDER, tuples->entries.buffer, at, index, before);
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
            return report(out, HURRAY_VIOLATION_INDEX_OUT_OF_BOUNDS, &tuples->entries, at,
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
        end = tuples->count - begin < CHUNK ? tuples->count : begin + CHUNK;
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

static HurrayStatus verify_coo(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                               HurrayViolation *out) {
    Tuples tuples = {
        .entries = entries_of(fields, buffers, 1, ENTRY_U64),
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

/* ---- block-paged ---- */

/* Entries of the first `used` pages' ids. */
static HurrayStatus check_pages(HurrayViolation *out, const Entries *table, uint64_t used,
                                uint64_t num_pages) {
    uint64_t at = 0;
    if (num_pages != 0) {
        at = first_outside(table, used, (Range){0, UINT64_MAX, num_pages - 1, 0});
    }
    return at == used ? HURRAY_OK : report(out, HURRAY_VIOLATION_PAGE_ID, table, at, num_pages);
}

static HurrayStatus verify_paged(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                                 HurrayViolation *out) {
    const HurrayBlockPagedLayout *layout = &fields->layout.paged;
    EntryForm form = layout->wide_indices ? ENTRY_U64 : ENTRY_U32;
    Entries table = entries_of(fields, buffers, 1, form);
    Entries pointers = entries_of(fields, buffers, 2, form);
    uint64_t sequences = layout->num_seqs;
    HurrayStatus status = check_pointers(out, &pointers, sequences + 1, table.count, false);
    if (status != HURRAY_OK) return status;
    return check_pages(out, &table, entry_at(&pointers, sequences), layout->num_pages);
}

HurrayStatus hurray_verify_index_buffers(const HurrayBlockPagedLayout *layout,
                                         const uint64_t *seq_ptr, uint64_t seq_ptr_count,
                                         const uint64_t *block_table, uint64_t block_table_count,
                                         HurrayViolation *out) {
    if (layout == NULL) return hri_fail_null("layout");
    if (seq_ptr == NULL && seq_ptr_count != 0) return hri_fail_null("seq_ptr");
    if (block_table == NULL && block_table_count != 0) return hri_fail_null("block_table");
    const char *const *roles = hri_layout_block_paged.buffer_roles;
    Entries table = {roles[1], 1, ENTRY_HOST_U64, (const uint8_t *)block_table, block_table_count};
    Entries pointers = {roles[2], 2, ENTRY_HOST_U64, (const uint8_t *)seq_ptr, seq_ptr_count};
    uint64_t sequences = layout->num_seqs, num_pages = layout->num_pages;
    if (seq_ptr_count > sequences + 1) {
        record(out, HURRAY_VIOLATION_POINTER_END, 2, sequences, seq_ptr_count, sequences + 1);
        return hri_fail(HURRAY_ERR_DATA_INVALID,
                        "seq_ptr holds %" PRIu64 " entries; expected num_seqs + 1, %" PRIu64,
                        seq_ptr_count, sequences + 1);
    }
    HurrayStatus status = check_pointers(out, &pointers, sequences + 1, block_table_count, true);
    if (status != HURRAY_OK) return status;
    if (!layout->wide_indices && num_pages > UINT32_MAX) num_pages = UINT64_C(1) << 32;
    return check_pages(out, &table, block_table_count, num_pages);
}

/* ---- quantization parameters ---- */

/* Bits of the magnitude of a scale type, and of that of its infinity. */
typedef struct ScaleForm {
    EntryForm form;
    uint64_t magnitude;
    uint64_t infinity;
} ScaleForm;

static ScaleForm scale_form(uint8_t type) {
    switch (type) {
    case HURRAY_TYPE_FLOAT16: return (ScaleForm){ENTRY_U16, 0x7FFF, 0x7C00};
    case HURRAY_TYPE_BFLOAT16: return (ScaleForm){ENTRY_U16, 0x7FFF, 0x7F80};
    default: return (ScaleForm){ENTRY_U32, 0x7FFFFFFF, 0x7F800000};
    }
}

/* What a scale is that should not be there. */
static const char *describe_scale(ScaleForm form, uint64_t bits) {
    uint64_t magnitude = bits & form.magnitude;
    if (magnitude > form.infinity) return "NaN";
    if (magnitude == form.infinity) return "infinite";
    return magnitude == 0 ? "zero" : "negative";
}

static HurrayStatus report_scale(HurrayViolation *out, const Entries *scales, uint64_t at,
                                 const char *what, const char *expectation) {
    uint64_t bits = entry_at(scales, at);
    record(out, HURRAY_VIOLATION_SCALE, scales->buffer, at, bits, 0);
    return hri_fail(HURRAY_ERR_DATA_INVALID,
                    "%s[%" PRIu64 "] has the bits 0x%0*" PRIX64 ", %s; expected %s", scales->role,
                    at, 2 * (int)scales->form, bits, what, expectation);
}

/* Magnitude 1 … infinity − 1, whatever the sign. */
static HurrayStatus check_affine_scales(HurrayViolation *out, const Entries *scales,
                                        ScaleForm form) {
    Range range = {1, form.magnitude, form.infinity - 2, 1};
    uint64_t at = first_outside(scales, scales->count, range);
    if (at == scales->count) return HURRAY_OK;
    return report_scale(out, scales, at, describe_scale(form, entry_at(scales, at)),
                        "a finite number other than 0");
}

/* Bits 0 … infinity − 1, and negative zero, which is not less than 0. */
static HurrayStatus check_nf4_scales(HurrayViolation *out, const Entries *scales, ScaleForm form) {
    Range range = {0, UINT64_MAX, form.infinity - 1, form.magnitude + 1};
    uint64_t at = first_outside(scales, scales->count, range);
    if (at == scales->count) return HURRAY_OK;
    return report_scale(out, scales, at, describe_scale(form, entry_at(scales, at)),
                        "a finite number, at least 0");
}

static HurrayStatus check_e8m0_scales(HurrayViolation *out, const Entries *scales) {
    uint64_t at = first_outside(scales, scales->count, (Range){1, 0xFF, 0xFD, 1});
    if (at == scales->count) return HURRAY_OK;
    return report_scale(out, scales, at, "no value of float8_e8m0", "0x01 … 0xFE");
}

/* int32 entries against the range of a stored type of at most 32 bits. */
static HurrayStatus check_zero_points(HurrayViolation *out, const Entries *zero_points,
                                      uint8_t type_tag) {
    const HurrayElementType *type = hurray_element_type_from_tag(type_tag);
    int64_t size = INT64_C(1) << type->bits;
    int64_t least = type->is_signed ? -size / 2 : 0, most = least + size - 1;
    if (most > INT32_MAX) most = INT32_MAX;
    Range range = {(uint64_t)least, UINT32_MAX, (uint64_t)(most - least), (uint32_t)least};
    uint64_t at = first_outside(zero_points, zero_points->count, range);
    if (at == zero_points->count) return HURRAY_OK;
    uint64_t bits = entry_at(zero_points, at);
    int64_t found = (int64_t)bits - (bits > INT32_MAX ? INT64_C(1) << 32 : 0);
    record(out, HURRAY_VIOLATION_ZERO_POINT, zero_points->buffer, at, (uint64_t)found,
           (uint64_t)(found < least ? least : most));
    return hri_fail(HURRAY_ERR_DATA_INVALID,
                    "%s[%" PRIu64 "] is %" PRId64 "; expected %" PRId64 " … %" PRId64
                    ", the range of %s",
                    zero_points->role, at, found, least, most, type->name);
}

static Entries parameters_of(const HurrayBytes *buffers, uint32_t buffer, const char *role,
                             EntryForm form) {
    const HurrayBytes *bytes = &buffers[buffer];
    return (Entries){role, buffer, form, bytes->data, bytes->size / (uint32_t)form};
}

/* Per-channel and per-block. Sizes were checked, or follow no rule where a dimension is dynamic. */
static HurrayStatus verify_affine(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                                  HurrayViolation *out) {
    const HurrayQuantization *quantization = fields->quantization;
    ScaleForm form = scale_form(quantization->scale_type);
    uint32_t zero_point_buffer = quantization->zero_point_buffer;
    bool is_shared = zero_point_buffer == quantization->scale_buffer;
    Entries scales = parameters_of(buffers, quantization->scale_buffer, "scales", form.form);
    if (is_shared) { /* all scales, then as many zero points */
        scales.count = buffers[quantization->scale_buffer].size / ((uint32_t)form.form + 4u);
    }
    HurrayStatus status = check_affine_scales(out, &scales, form);
    if (status != HURRAY_OK || zero_point_buffer == HURRAY_NO_BUFFER) return status;
    Entries zero_points = parameters_of(buffers, zero_point_buffer, "zero points", ENTRY_U32);
    if (is_shared) {
        if (scales.count != 0) zero_points.data += (size_t)scales.count * (uint32_t)form.form;
        zero_points.count = scales.count;
    }
    return check_zero_points(out, &zero_points, fields->type_tag);
}

static HurrayStatus verify_quantization(const HurrayDescriptorFields *fields,
                                        const HurrayBytes *buffers, HurrayViolation *out) {
    const HurrayQuantization *quantization = fields->quantization;
    ScaleForm form = scale_form(HURRAY_TYPE_FLOAT32);
    Entries scales;
    switch (quantization->scheme) {
    case HURRAY_SCHEME_PER_CHANNEL:
    case HURRAY_SCHEME_PER_BLOCK: return verify_affine(fields, buffers, out);
    case HURRAY_SCHEME_NF4:
        scales = parameters_of(buffers, quantization->scale_buffer, "scales", form.form);
        return check_nf4_scales(out, &scales, form);
    case HURRAY_SCHEME_MXFP:
        scales = parameters_of(buffers, quantization->scale_buffer, "scales", ENTRY_U8);
        return check_e8m0_scales(out, &scales);
    default: return HURRAY_OK; /* per-tensor: all of it stands in the descriptor */
    }
}

/* ---- statistics ---- */

static HurrayStatus verify_statistics(const HurrayDescriptorFields *fields, HurrayViolation *out) {
    const HurrayStatistics *statistics = fields->statistics;
    if (hurray_statistics_check_authored(statistics) != HURRAY_OK) { /* which left the message */
        record(out, HURRAY_VIOLATION_STATISTICS, HURRAY_NO_BUFFER, 0, 0, 0);
        return HURRAY_ERR_DATA_INVALID;
    }
    if ((statistics->computed_mask & HURRAY_STATISTICS_NNZ) == 0 ||
        hurray_layout_class(fields->layout.tag) != HURRAY_LAYOUT_CLASS_SPARSE ||
        statistics->nnz == fields->layout.sparse.nnz) {
        return HURRAY_OK;
    }
    record(out, HURRAY_VIOLATION_STATISTICS, HURRAY_NO_BUFFER, 0, statistics->nnz,
           fields->layout.sparse.nnz);
    return hri_fail(HURRAY_ERR_DATA_INVALID,
                    "statistics: nnz is %" PRIu64 "; expected that of the layout, %" PRIu64,
                    statistics->nnz, fields->layout.sparse.nnz);
}

/* ---- the whole ---- */

/* Layouts that keep indices. */
static const struct {
    uint8_t tag;
    HurrayStatus (*verify)(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                           HurrayViolation *out);
} indexed[] = {
    {HURRAY_LAYOUT_COO, verify_coo},           {HURRAY_LAYOUT_CSR, verify_csr},
    {HURRAY_LAYOUT_CSC, verify_csc},           {HURRAY_LAYOUT_CSF, verify_csf},
    {HURRAY_LAYOUT_BLOCK_PAGED, verify_paged},
};

static HurrayStatus verify_layout(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                                  HurrayViolation *out) {
    for (size_t i = 0; i < sizeof indexed / sizeof indexed[0]; i++) {
        if (indexed[i].tag == fields->layout.tag) return indexed[i].verify(fields, buffers, out);
    }
    return HURRAY_OK;
}

/* A permissive reader carries what it does not know, and leaves its data alone. */
static HurrayStatus check_known(const HurrayDescriptorFields *fields) {
    const char *what = NULL;
    uint8_t tag = 0;
    if (hri_layout_kind_of(fields) == &hri_layout_opaque) {
        what = "layout", tag = fields->layout.tag;
    } else if (hurray_element_type_is_reserved(fields->type_tag)) {
        what = "type", tag = fields->type_tag;
    } else if (hri_quantization_is_opaque(fields->quantization)) {
        what = "quantization scheme", tag = fields->quantization->scheme;
    }
    if (what == NULL) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_UNSUPPORTED,
                    "the rules of %s tag 0x%02X are not known: the tensor cannot be verified", what,
                    tag);
}

static HurrayStatus check_buffer(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                                 uint32_t i) {
    uint64_t size = buffers[i].size, declared = fields->buffers[i].byte_size;
    if (i == 0 && buffers[i].data == NULL && size == 0) return HURRAY_OK; /* never read */
    if (size != declared) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "buffers[%" PRIu32 "].size is %" PRIu64
                        "; expected the byte_size in its handle, %" PRIu64,
                        i, size, declared);
    }
    if (size != 0 && buffers[i].data == NULL) {
        return hri_fail(HURRAY_ERR_NULL_POINTER,
                        "buffers[%" PRIu32 "].data is NULL, with a size of %" PRIu64, i, size);
    }
    size_t addressable;
    if (checked_size(size, &addressable)) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                    "buffers[%" PRIu32 "].size is %" PRIu64 ", more than this host can address", i,
                    size);
}

HurrayStatus hurray_verify(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                           uint32_t count, HurrayViolation *out) {
    if (fields == NULL) return hri_fail_null("fields");
    if (buffers == NULL && count != 0) return hri_fail_null("buffers");
    HurrayStatus status = hurray_descriptor_validate(fields);
    if (status == HURRAY_OK) status = check_known(fields);
    if (status != HURRAY_OK) return status;
    if (count != fields->buffer_count) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "count is %" PRIu32 "; expected the %" PRIu32 " buffers of the descriptor",
                        count, fields->buffer_count);
    }
    for (uint32_t i = 0; status == HURRAY_OK && i < count; i++) {
        status = check_buffer(fields, buffers, i);
    }
    if (status == HURRAY_OK) status = verify_layout(fields, buffers, out);
    if (status == HURRAY_OK && fields->quantization != NULL) {
        status = verify_quantization(fields, buffers, out);
    }
    if (status == HURRAY_OK && fields->statistics != NULL) {
        status = verify_statistics(fields, out);
    }
    return status;
}
