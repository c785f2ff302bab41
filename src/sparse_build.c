/*
 * The buffers of a sparse layout from index tuples and values (convert_sparse.h).
 *
 * Tuples that come in order are written as they come. For CSR and CSC those that do not are counted
 * by row, put in their rows, and sorted there: the rows are short where there are many of them, so
 * that this is faster than sorting all of them at once.
 */
#include "convert_sparse.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "checked.h"
#include "fail.h"
#include "parallel.h"

#ifdef __GNUC__
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE static inline
#endif

/* Runs `function` with the size of a value as a constant where it is a common one. */
#define WITH_VALUE_SIZE(size, function, ...)       \
    switch (size) {                                \
    case 1: function(__VA_ARGS__, 1); break;       \
    case 2: function(__VA_ARGS__, 2); break;       \
    case 4: function(__VA_ARGS__, 4); break;       \
    case 8: function(__VA_ARGS__, 8); break;       \
    case 16: function(__VA_ARGS__, 16); break;     \
    default: function(__VA_ARGS__, (size)); break; \
    }

/* Sizes were found on the way through the same bytes before; nothing is written beyond them. */
static HurrayStatus fail_changed(uint64_t position) {
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                    "the indices, at value %" PRIu64 ", are not those that were counted: expected "
                    "bytes that stay as they are",
                    position);
}

static uint8_t *destination(const SparseBuilder *builder, uint32_t buffer) {
    return builder->destinations[buffer];
}

/* ---- in order ---- */

static void write_coo(const SparseBuilder *builder, const TupleReader *reader) {
    size_t rank = builder->fields->rank;
    uint8_t *to = destination(builder, 1) + (size_t)reader->first * rank * 8;
    for (size_t i = 0; i < reader->count * rank; i++) store_u64(to + 8 * i, reader->tuples[i]);
}

/* *row is the last row whose beginning is written. */
static void write_compressed(const SparseBuilder *builder, const TupleReader *reader,
                             uint64_t *row) {
    uint32_t major = builder->dimensions[0], minor = builder->dimensions[1];
    uint8_t *indices = destination(builder, 1) + (size_t)reader->first * 8;
    uint8_t *pointers = destination(builder, 2);
    for (size_t i = 0; i < reader->count; i++) {
        const uint64_t *tuple = reader->tuples + 2 * i;
        store_u64(indices + 8 * i, tuple[minor]);
        while (*row < tuple[major]) store_u64(pointers + (size_t)++*row * 8, reader->first + i);
    }
}

/* What has been written of a tree. */
typedef struct TreeState {
    bool has_previous;
    uint64_t previous[HURRAY_MAX_RANK];
    uint64_t counts[HURRAY_MAX_RANK]; /* entries of each level */
} TreeState;

static void write_pointer(const SparseBuilder *builder, const TreeState *state, uint32_t level) {
    uint64_t parent = level == 0 ? 0 : state->counts[level - 1];
    store_u64(destination(builder, 2 * level + 1) + (size_t)parent * 8, state->counts[level]);
}

static HurrayStatus write_tree(const SparseBuilder *builder, const TupleReader *reader,
                               TreeState *state) {
    uint32_t rank = builder->fields->rank;
    for (size_t i = 0; i < reader->count; i++) {
        const uint64_t *tuple = reader->tuples + i * rank;
        uint32_t level = 0;
        while (state->has_previous && level < rank &&
               tuple[builder->dimensions[level]] == state->previous[builder->dimensions[level]]) {
            level++;
        }
        /* Entries from this level down are new, and so are the parents of those further down. */
        for (uint32_t new_level = level; new_level < rank; new_level++) {
            uint64_t coordinate = tuple[builder->dimensions[new_level]];
            if (state->counts[new_level] == builder->level_counts[new_level]) {
                return fail_changed(reader->first + i);
            }
            if (new_level + 1 < rank) write_pointer(builder, state, new_level + 1);
            store_u64(destination(builder, 2 * new_level + 2) +
                          (size_t)state->counts[new_level] * 8,
                      coordinate);
            state->counts[new_level]++;
        }
        memcpy(state->previous, tuple, rank * sizeof *tuple);
        state->has_previous = true;
    }
    return HURRAY_OK;
}

static void finish(const SparseBuilder *builder, uint64_t nnz, uint64_t row,
                   const TreeState *state) {
    if (builder->layout->tag == HURRAY_LAYOUT_CSF) {
        store_u64(destination(builder, 1), 0);
        store_u64(destination(builder, 1) + 8, state->counts[0]);
        for (uint32_t level = 1; level < builder->fields->rank; level++) {
            write_pointer(builder, state, level);
        }
    } else if (builder->layout->tag != HURRAY_LAYOUT_COO) {
        uint64_t rows = builder->fields->shape[builder->dimensions[0]];
        uint8_t *pointers = destination(builder, 2);
        store_u64(pointers, 0);
        while (row < rows) store_u64(pointers + (size_t)++row * 8, nnz);
    }
}

HurrayStatus hri_build_in_order(const SparseBuilder *builder, TupleReader *reader) {
    TreeState state = {.has_previous = false};
    uint64_t row = 0;
    HurrayStatus status = hri_tuples_next(reader);
    while (status == HURRAY_OK && reader->count != 0) {
        switch (builder->layout->tag) {
        case HURRAY_LAYOUT_COO: write_coo(builder, reader); break;
        case HURRAY_LAYOUT_CSF: status = write_tree(builder, reader, &state); break;
        default: write_compressed(builder, reader, &row); break;
        }
        if (status == HURRAY_OK) status = hri_tuples_next(reader);
    }
    if (status == HURRAY_OK) finish(builder, reader->position, row, &state);
    return status;
}

ALWAYS_INLINE void gather(const SparseBuilder *builder, const Keyed *sorted, size_t size) {
    size_t nnz = (size_t)builder->layout->sparse.nnz;
    for (size_t i = 0; i < nnz; i++) {
        memcpy(builder->built + i * size, builder->values + (size_t)sorted[i].position * size,
               size);
    }
}

void hri_gather_values(const SparseBuilder *builder, const Keyed *sorted){
    WITH_VALUE_SIZE(builder -> value_bytes, gather, builder, sorted)}

/* ---- by counting ---- */

/*
 * Rows are counted in two steps, so that memory is written in few places at a time. First tuples
 * and values go to their bucket, which is a range of rows, or rather to where that range will end
 * up in the result; the row within it and the column share a number for the while. Then each
 * bucket, which fits into the second cache, is copied out and put back row by row; threads share the
 * buckets.
 */
#define MAX_BUCKETS 1024u
#define BUCKET_ENTRIES 16384u /* on average */
/* For which another thread is worth its start. */
#define ENTRIES_PER_THREAD 131072u

typedef struct Buckets {
    uint32_t row_shift;   /* a bucket has 2^row_shift rows */
    uint32_t column_bits; /* an index is less than 2^column_bits */
    uint32_t count;
    uint64_t next[MAX_BUCKETS]; /* where the next entry goes */
    uint64_t end[MAX_BUCKETS];
} Buckets;

/* The smallest number that is enough for all indices below `extent`, which is not 0. */
static uint32_t index_bits(uint64_t extent) {
    uint32_t bits = 0;
    while (bits < 64 && (extent - 1) >> bits != 0) bits++;
    return bits;
}

static void plan_buckets(const SparseBuilder *builder, Buckets *buckets) {
    uint64_t rows = builder->fields->shape[builder->dimensions[0]];
    uint64_t columns = builder->fields->shape[builder->dimensions[1]];
    uint64_t wanted = builder->layout->sparse.nnz / BUCKET_ENTRIES + 1;
    if (wanted > MAX_BUCKETS) wanted = MAX_BUCKETS;
    buckets->row_shift = 0;
    while (rows != 0 && (rows - 1) >> buckets->row_shift >= wanted) buckets->row_shift++;
    buckets->count = rows == 0 ? 0 : (uint32_t)((rows - 1) >> buckets->row_shift) + 1;
    buckets->column_bits = columns == 0 ? 0 : index_bits(columns);
    memset(buckets->next, 0, sizeof buckets->next);
}

/* Examines the tuples, and finds where each bucket begins and ends. */
static HurrayStatus count_buckets(const SparseBuilder *builder, const HurrayBytes *buffers,
                                  TupleReader *reader, Buckets *buckets, bool *is_in_order) {
    TupleExamination examination;
    hri_examination_init(&examination, builder->fields, builder->dimensions);
    HurrayStatus status = hri_tuples_begin(reader, builder->fields, buffers);
    if (status == HURRAY_OK) status = hri_tuples_next(reader);
    while (status == HURRAY_OK && reader->count != 0) {
        const uint64_t *major = reader->tuples + builder->dimensions[0];
        for (size_t i = 0; i < reader->count; i++) {
            buckets->next[major[2 * i] >> buckets->row_shift]++;
        }
        status = hri_examine(&examination, reader);
        if (status == HURRAY_OK) status = hri_tuples_next(reader);
    }
    uint64_t sum = 0;
    for (uint32_t i = 0; i < buckets->count; i++) {
        uint64_t count = buckets->next[i];
        buckets->next[i] = sum;
        sum += count;
        buckets->end[i] = sum;
    }
    *is_in_order = examination.is_in_order;
    return status;
}

/* Puts a block of tuples, with their values, into their buckets. False where one is full: the bytes
 * are not those that were counted. */
ALWAYS_INLINE bool scatter(const SparseBuilder *builder, const TupleReader *reader,
                           Buckets *buckets, size_t size) {
    uint32_t shift = buckets->row_shift, bits = buckets->column_bits;
    uint64_t in_bucket = (UINT64_C(1) << shift) - 1;
    const uint64_t *row = reader->tuples + builder->dimensions[0];
    const uint64_t *column = reader->tuples + builder->dimensions[1];
    uint8_t *indices = destination(builder, 1), *built = builder->built;
    const uint8_t *value = builder->values + (size_t)reader->first * size;
    size_t count = reader->count;
    for (size_t i = 0; i < count; i++, value += size) {
        uint64_t bucket = row[2 * i] >> shift;
        size_t at = (size_t)buckets->next[bucket]++;
        if (at >= buckets->end[bucket]) return false;
        store_u64(indices + at * 8, (row[2 * i] & in_bucket) << bits | column[2 * i]);
        memcpy(built + at * size, value, size);
    }
    return true;
}

ALWAYS_INLINE HurrayStatus scatter_all(const SparseBuilder *builder, const HurrayBytes *buffers,
                                       TupleReader *reader, Buckets *buckets, size_t size) {
    HurrayStatus status = hri_tuples_begin(reader, builder->fields, buffers);
    if (status == HURRAY_OK) status = hri_tuples_next(reader);
    while (status == HURRAY_OK && reader->count != 0) {
        if (!scatter(builder, reader, buckets, size)) return fail_changed(reader->first);
        status = hri_tuples_next(reader);
    }
    return status;
}

static HurrayStatus scatter_sized(const SparseBuilder *builder, const HurrayBytes *buffers,
                                  TupleReader *reader, Buckets *buckets) {
    HurrayStatus status = HURRAY_OK;
    WITH_VALUE_SIZE(builder->value_bytes, status = scatter_all, builder, buffers, reader, buckets)
    return status;
}

/* ---- sorting rows ---- */

/* Scratch for one row, made when a row needs it. */
typedef struct RowScratch {
    size_t capacity; /* entries */
    Keyed *items;    /* two times capacity */
    uint8_t *values;
} RowScratch;

static HurrayStatus reserve_row(const SparseBuilder *builder, size_t count, RowScratch *scratch) {
    if (count <= scratch->capacity) return HURRAY_OK;
    uint64_t nnz = builder->layout->sparse.nnz, bytes;
    uint64_t capacity = count > nnz / 2 ? nnz : 2 * (uint64_t)count; /* rows seldom grow further */
    size_t size;
    free(scratch->items);
    free(scratch->values);
    *scratch = (RowScratch){0};
    uint64_t item =
        2 * sizeof(Keyed) > builder->value_bytes ? 2 * sizeof(Keyed) : builder->value_bytes;
    if (!checked_mul_u64(capacity, item, &bytes) || !checked_size(bytes, &size)) {
        return hri_fail_memory(capacity);
    }
    scratch->items = malloc((size_t)capacity * 2 * sizeof(Keyed));
    scratch->values = malloc((size_t)capacity * builder->value_bytes);
    if (scratch->items == NULL || scratch->values == NULL) return hri_fail_memory(bytes);
    scratch->capacity = (size_t)capacity;
    return HURRAY_OK;
}

/*
 * A short row: each entry goes where as many are before it. Every pair is compared, but no
 * comparison decides where to go on, which is what takes time where order is random. Equal ones
 * stay in order.
 */
#define FEW_IN_ROW 24u

ALWAYS_INLINE void rank_row(uint8_t *indices, uint8_t *values, size_t count, size_t size) {
    uint64_t row[FEW_IN_ROW];
    uint8_t row_values[FEW_IN_ROW * 16];
    uint32_t ranks[FEW_IN_ROW] = {0};
    for (size_t i = 0; i < count; i++) {
        uint64_t index = row[i] = load_u64(indices + 8 * i);
        uint32_t rank = (uint32_t)i;
        for (size_t before = 0; before < i; before++) {
            uint32_t is_less = index < row[before];
            ranks[before] += is_less;
            rank -= is_less;
        }
        ranks[i] = rank;
    }
    memcpy(row_values, values, count * size);
    for (size_t i = 0; i < count; i++) {
        store_u64(indices + 8 * (size_t)ranks[i], row[i]);
        memcpy(values + ranks[i] * size, row_values + i * size, size);
    }
}

static HurrayStatus sort_row(const SparseBuilder *builder, size_t begin, size_t count,
                             RowScratch *scratch) {
    size_t size = builder->value_bytes;
    uint8_t *indices = destination(builder, 1) + begin * 8;
    uint8_t *values = builder->built + begin * size;
    if (count <= FEW_IN_ROW && size <= 16) {
        WITH_VALUE_SIZE(size, rank_row, indices, values, count)
        return HURRAY_OK;
    }
    HurrayStatus status = reserve_row(builder, count, scratch);
    if (status != HURRAY_OK) return status;
    for (size_t i = 0; i < count; i++) scratch->items[i] = (Keyed){load_u64(indices + 8 * i), i};
    memcpy(scratch->values, values, count * size);
    uint64_t extent = builder->fields->shape[builder->dimensions[1]];
    const Keyed *sorted = hri_sort_keyed(scratch->items, scratch->items + scratch->capacity, count,
                                         index_bits(extent));
    for (size_t i = 0; i < count; i++) store_u64(indices + 8 * i, sorted[i].key);
    SparseBuilder row = *builder;
    HurrayLayout layout = {.tag = builder->layout->tag, .sparse = {.nnz = count}};
    row.layout = &layout;
    row.values = scratch->values;
    row.built = values;
    hri_gather_values(&row, sorted);
    return HURRAY_OK;
}

/* Whether a row has an index before `count` that is not less than the one after it. */
static bool has_disorder(const uint8_t *indices, size_t count, size_t *out) {
    for (size_t i = 1; i < count; i++) {
        if (load_u64(indices + 8 * (i - 1)) < load_u64(indices + 8 * i)) continue;
        *out = i;
        return true;
    }
    return false;
}

/* Says which two values have this index. They were in different places before they were sorted. */
static HurrayStatus name_duplicate(const SparseBuilder *builder, const HurrayBytes *buffers,
                                   TupleReader *reader, const uint64_t *tuple) {
    uint64_t earlier = 0;
    bool has_earlier = false;
    HurrayStatus status = hri_tuples_begin(reader, builder->fields, buffers);
    if (status == HURRAY_OK) status = hri_tuples_next(reader);
    while (status == HURRAY_OK && reader->count != 0) {
        for (size_t i = 0; i < reader->count; i++) {
            if (memcmp(reader->tuples + 2 * i, tuple, 2 * sizeof *tuple) != 0) continue;
            uint64_t position = reader->first + i;
            if (has_earlier) return hri_fail_duplicate(builder->fields, earlier, position, tuple);
            has_earlier = true;
            earlier = position;
        }
        status = hri_tuples_next(reader);
    }
    return status != HURRAY_OK ? status : fail_changed(earlier);
}

/* Sorts the rows that need it among those from `row` on, which begin at entry `begin`. */
static HurrayStatus sort_rows(const SparseBuilder *builder, uint64_t row, uint64_t end_row,
                              uint64_t begin, RowScratch *scratch, uint64_t *duplicate) {
    const uint8_t *pointers = destination(builder, 2);
    for (; row < end_row; row++) {
        uint64_t end = load_u64(pointers + ((size_t)row + 1) * 8);
        const uint8_t *indices = destination(builder, 1) + (size_t)begin * 8;
        size_t count = (size_t)(end - begin), at;
        if (has_disorder(indices, count, &at)) {
            HurrayStatus status = sort_row(builder, (size_t)begin, count, scratch);
            if (status != HURRAY_OK) return status;
            if (has_disorder(indices, count, &at)) {
                duplicate[builder->dimensions[0]] = row;
                duplicate[builder->dimensions[1]] = load_u64(indices + 8 * at);
                return HURRAY_ERR_INVALID_LAYOUT; /* the caller finds out where */
            }
        }
        begin = end;
    }
    return HURRAY_OK;
}

/* A bucket, copied out of the result. */
typedef struct BucketCopy {
    uint8_t *keys; /* u64, as scatter() wrote them */
    uint8_t *values;
} BucketCopy;

/* Counts the rows of a bucket, and makes their pointers where they begin: pointers[r + 1] for r. */
static void count_rows(const Buckets *buckets, const BucketCopy *copy, size_t count,
                       uint8_t *pointers, uint64_t rows, uint64_t begin) {
    memset(pointers, 0, (size_t)rows * 8);
    for (size_t i = 0; i < count; i++) {
        uint64_t row = load_u64(copy->keys + 8 * i) >> buckets->column_bits;
        uint8_t *pointer = pointers + 8 * (size_t)row;
        store_u64(pointer, load_u64(pointer) + 1);
    }
    for (uint64_t row = 0; row < rows; row++, pointers += 8) {
        uint64_t in_row = load_u64(pointers);
        store_u64(pointers, begin);
        begin += in_row;
    }
}

/* Back into the result, each to where its row goes on; pointers end up where rows end. */
ALWAYS_INLINE void place_rows(const SparseBuilder *builder, const Buckets *buckets,
                              const BucketCopy *copy, size_t count, uint8_t *pointers,
                              size_t size) {
    uint32_t bits = buckets->column_bits;
    uint64_t columns = (UINT64_C(1) << bits) - 1;
    uint8_t *indices = destination(builder, 1), *built = builder->built;
    const uint8_t *keys = copy->keys, *values = copy->values;
    for (size_t i = 0; i < count; i++) {
        uint64_t key = load_u64(keys + 8 * i);
        uint8_t *pointer = pointers + 8 * (size_t)(key >> bits);
        size_t at = (size_t)load_u64(pointer);
        store_u64(pointer, at + 1);
        store_u64(indices + 8 * at, key & columns);
        memcpy(built + at * size, values + i * size, size);
    }
}

/* What threads share while they finish buckets, and what each has of its own. */
typedef struct Finish {
    const SparseBuilder *builder;
    const Buckets *buckets;
    uint64_t largest; /* entries of a bucket */
    uint8_t *copies;  /* thread after thread */
    struct {
        RowScratch scratch;
        uint64_t duplicate[2]; /* in the first row that has one; HURRAY_DYNAMIC: none */
    } threads[HURRAY_MAX_THREADS];
} Finish;

static HurrayStatus finish_bucket(void *context, uint32_t thread, uint64_t bucket) {
    Finish *finish = context;
    const SparseBuilder *builder = finish->builder;
    const Buckets *buckets = finish->buckets;
    uint64_t all_rows = builder->fields->shape[builder->dimensions[0]];
    uint64_t row = bucket << buckets->row_shift, rows = UINT64_C(1) << buckets->row_shift;
    if (rows > all_rows - row) rows = all_rows - row;
    uint64_t begin = bucket == 0 ? 0 : buckets->end[bucket - 1];
    size_t count = (size_t)(buckets->end[bucket] - begin), size = builder->value_bytes;
    uint8_t *pointers = destination(builder, 2) + ((size_t)row + 1) * 8;
    uint8_t *own = finish->copies + (size_t)finish->largest * thread * (8 + size);
    const BucketCopy copy = {own, own + (size_t)finish->largest * 8};
    memcpy(copy.keys, destination(builder, 1) + (size_t)begin * 8, count * 8);
    memcpy(copy.values, builder->built + (size_t)begin * size, count * size);
    count_rows(buckets, &copy, count, pointers, rows, begin);
    WITH_VALUE_SIZE(size, place_rows, builder, buckets, &copy, count, pointers)

    uint64_t duplicate[2] = {HURRAY_DYNAMIC, HURRAY_DYNAMIC};
    uint64_t *first = finish->threads[thread].duplicate;
    uint32_t major = builder->dimensions[0];
    HurrayStatus status =
        sort_rows(builder, row, row + rows, begin, &finish->threads[thread].scratch, duplicate);
    if (duplicate[0] == HURRAY_DYNAMIC) return status;
    /* The others go on: whatever the number of threads, the first row is told. */
    if (duplicate[major] < first[major]) memcpy(first, duplicate, sizeof duplicate);
    return HURRAY_OK;
}

static HurrayStatus finish_buckets(const SparseBuilder *builder, const Buckets *buckets,
                                   uint64_t *duplicate) {
    Finish finish = {.builder = builder, .buckets = buckets, .largest = 1};
    uint64_t item = 8 + (uint64_t)builder->value_bytes, bytes;
    size_t size;
    for (uint32_t i = 0; i < buckets->count; i++) {
        uint64_t count = buckets->end[i] - (i == 0 ? 0 : buckets->end[i - 1]);
        if (count > finish.largest) finish.largest = count;
    }
    /* Not more copies than there are entries: where most are in one bucket, one thread has most of the
     * work anyway. */
    uint64_t nnz = builder->layout->sparse.nnz, most = nnz / finish.largest;
    uint32_t threads = hri_threads_for(nnz, ENTRIES_PER_THREAD);
    if (threads > most) threads = most == 0 ? 1 : (uint32_t)most;
    if (!checked_mul_u64(finish.largest, item * threads, &bytes) || !checked_size(bytes, &size)) {
        return hri_fail_memory(finish.largest);
    }
    finish.copies = malloc(size);
    if (finish.copies == NULL) return hri_fail_memory(size);
    for (uint32_t i = 0; i < threads; i++) {
        finish.threads[i].duplicate[0] = finish.threads[i].duplicate[1] = HURRAY_DYNAMIC;
    }
    store_u64(destination(builder, 2), 0);
    HurrayStatus status = hri_parallel(buckets->count, threads, finish_bucket, &finish);
    uint32_t major = builder->dimensions[0];
    for (uint32_t i = 0; i < threads; i++) {
        const uint64_t *first = finish.threads[i].duplicate;
        if (first[major] < duplicate[major])
            memcpy(duplicate, first, sizeof finish.threads[i].duplicate);
        free(finish.threads[i].scratch.items);
        free(finish.threads[i].scratch.values);
    }
    free(finish.copies);
    return status;
}

HurrayStatus hri_build_compressed(const SparseBuilder *builder, const HurrayBytes *buffers) {
    TupleReader reader;
    Buckets buckets;
    bool is_in_order = false;
    plan_buckets(builder, &buckets);
    HurrayStatus status = count_buckets(builder, buffers, &reader, &buckets, &is_in_order);
    if (status != HURRAY_OK) return status;
    if (is_in_order) {
        uint64_t nnz = builder->layout->sparse.nnz;
        status = hri_tuples_begin(&reader, builder->fields, buffers);
        if (status == HURRAY_OK) status = hri_build_in_order(builder, &reader);
        if (nnz != 0) memcpy(builder->built, builder->values, (size_t)nnz * builder->value_bytes);
        return status;
    }
    uint64_t duplicate[2] = {HURRAY_DYNAMIC, HURRAY_DYNAMIC};
    status = scatter_sized(builder, buffers, &reader, &buckets);
    if (status == HURRAY_OK) status = finish_buckets(builder, &buckets, duplicate);
    if (status != HURRAY_OK || duplicate[0] == HURRAY_DYNAMIC) return status;
    return name_duplicate(builder, buffers, &reader, duplicate);
}
