/*
 * Lookup and iteration in sparse and block-paged tensors (src/sparse.c): against a dense array, and
 * with stored indices and pointers that lie. Buffers are mallocs of exactly their size, at odd
 * addresses.
 */
#include <stdio.h>

#include "round_trip.h"

#include <hurray/sparse.h>

#include "bytes.h"
#include "layout.h"
#include "random.h"

#define MAX_TEST_RANK 5u
#define MAX_BUFFERS (2 * MAX_TEST_RANK + 1)
#define MAX_ELEMENTS 600

/* A dense array of flags, and the same as a sparse tensor. */
typedef struct Sample {
    HurrayDescriptorFields fields;
    uint64_t shape[MAX_TEST_RANK];
    uint32_t mode_order[MAX_TEST_RANK];
    HurrayBufferHandle handles[MAX_BUFFERS];
    HurrayBytes buffers[MAX_BUFFERS];
    uint8_t *blocks[MAX_BUFFERS];  /* buffers[i].data is one past, so that it is not aligned */
    uint64_t count;                /* elements of the dense array */
    uint64_t stored[MAX_ELEMENTS]; /* in row-major order: the position + 1, or 0 */
} Sample;

static uint64_t row_major_at(const Sample *sample, const uint64_t *index) {
    uint64_t at = 0;
    for (uint32_t k = 0; k < sample->fields.rank; k++) at = at * sample->shape[k] + index[k];
    return at;
}

/* The index with this number when dimensions count in the order given. */
static void index_at(const Sample *sample, const uint32_t *order, uint64_t number,
                     uint64_t *index) {
    for (uint32_t level = sample->fields.rank; level-- > 0;) {
        index[order[level]] = number % sample->shape[order[level]];
        number /= sample->shape[order[level]];
    }
}

static void give_bytes(Sample *sample, uint32_t i, const uint8_t *bytes, uint64_t size) {
    free(sample->blocks[i]);
    sample->blocks[i] = malloc((size_t)size + 1);
    assert_non_null(sample->blocks[i]);
    if (size != 0) memcpy(sample->blocks[i] + 1, bytes, (size_t)size);
    sample->buffers[i] = (HurrayBytes){sample->blocks[i] + 1, size};
    sample->handles[i] = (HurrayBufferHandle){.byte_size = size, .alignment = 64};
}

static void give(Sample *sample, uint32_t i, const uint64_t *entries, uint64_t count) {
    uint8_t *bytes = malloc((size_t)count * 8 + 1);
    assert_non_null(bytes);
    for (uint64_t e = 0; e < count; e++) store_u64(bytes + e * 8, entries[e]);
    give_bytes(sample, i, bytes, count * 8);
    free(bytes);
}

static void release(Sample *sample) {
    for (uint32_t i = 0; i < MAX_BUFFERS; i++) free(sample->blocks[i]);
}

static uint64_t get_entry(const Sample *sample, uint32_t i, uint64_t at) {
    return load_u64(sample->blocks[i] + 1 + at * 8);
}

static void set_entry(Sample *sample, uint32_t i, uint64_t at, uint64_t value) {
    store_u64(sample->blocks[i] + 1 + at * 8, value);
}

/* Every level of a tree over the stored elements, which come sorted by `order`. */
static void give_tree(Sample *sample, const uint32_t *order, uint64_t (*tuples)[MAX_TEST_RANK],
                      uint64_t nnz) {
    uint32_t rank = sample->fields.rank;
    static uint64_t pos[MAX_ELEMENTS + 1], crd[MAX_ELEMENTS];
    uint64_t parents[MAX_ELEMENTS] = {0}; /* of each tuple, at the level above */
    uint64_t parent_count = 1;
    for (uint32_t level = 0; level < rank; level++) {
        uint64_t count = 0;
        memset(pos, 0, sizeof pos);
        for (uint64_t i = 0; i < nnz; i++) {
            uint64_t parent = parents[i];
            bool is_new = i == 0;
            for (uint32_t above = 0; above <= level && !is_new; above++) {
                is_new = tuples[i][order[above]] != tuples[i - 1][order[above]];
            }
            if (is_new) {
                crd[count++] = tuples[i][order[level]];
                pos[parent + 1]++;
            }
            parents[i] = count - 1;
        }
        for (uint64_t p = 0; p < parent_count; p++) pos[p + 1] += pos[p];
        give(sample, 2 * level + 1, pos, parent_count + 1);
        give(sample, 2 * level + 2, crd, count);
        parent_count = count;
    }
}

static void give_compressed(Sample *sample, uint32_t major, uint64_t (*tuples)[MAX_TEST_RANK],
                            uint64_t nnz) {
    static uint64_t pointers[MAX_ELEMENTS + 2], indices[MAX_ELEMENTS];
    memset(pointers, 0, sizeof pointers);
    for (uint64_t i = 0; i < nnz; i++) {
        pointers[tuples[i][major] + 1]++;
        indices[i] = tuples[i][1 - major];
    }
    for (uint64_t r = 0; r < sample->shape[major]; r++) pointers[r + 1] += pointers[r];
    give(sample, 1, indices, nnz);
    give(sample, 2, pointers, sample->shape[major] + 1);
}

/* With probability `fill` of 10, an element is stored. */
static void make(Sample *sample, uint64_t *seed, uint8_t tag, uint32_t rank, bool is_sorted,
                 uint64_t fill) {
    *sample = (Sample){.count = 1};
    sample->fields = (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_INT8,
        .rank = rank,
        .shape = sample->shape,
        .layout = {.tag = tag},
        .buffers = sample->handles,
    };
    assert_int_equal(hurray_layout_buffer_count(tag, rank, &sample->fields.buffer_count), 0);
    uint32_t order[MAX_TEST_RANK] = {0, 1, 2, 3, 4};
    for (uint32_t k = 0; k < rank; k++) {
        sample->shape[k] = random_below(seed, 10) == 0 ? 0 : 1 + random_below(seed, 4);
        sample->count *= sample->shape[k];
        uint32_t other = (uint32_t)random_below(seed, k + 1);
        order[k] = order[other];
        order[other] = k;
    }
    if (tag == HURRAY_LAYOUT_COO || tag == HURRAY_LAYOUT_CSR) {
        for (uint32_t k = 0; k < rank; k++) order[k] = k;
    } else if (tag == HURRAY_LAYOUT_CSC) {
        order[0] = 1, order[1] = 0;
    }
    static uint64_t tuples[MAX_ELEMENTS][MAX_TEST_RANK];
    uint64_t nnz = 0;
    for (uint64_t i = 0; i < sample->count; i++) {
        index_at(sample, order, i, tuples[nnz]);
        if (random_below(seed, 10) < fill) nnz++;
    }
    for (uint64_t i = 1; i < nnz && !is_sorted; i++) { /* shuffled */
        uint64_t other = random_below(seed, i + 1), keep[MAX_TEST_RANK];
        memcpy(keep, tuples[i], sizeof keep);
        memcpy(tuples[i], tuples[other], sizeof keep);
        memcpy(tuples[other], keep, sizeof keep);
    }
    for (uint64_t i = 0; i < nnz; i++) sample->stored[row_major_at(sample, tuples[i])] = i + 1;
    memcpy(sample->mode_order, order, sizeof order);
    sample->fields.layout.sparse = (HurraySparseLayout){nnz, is_sorted, sample->mode_order};
    if (tag == HURRAY_LAYOUT_COO) {
        static uint64_t flat[MAX_ELEMENTS * MAX_TEST_RANK];
        for (uint64_t i = 0; i < nnz; i++) memcpy(flat + i * rank, tuples[i], rank * 8);
        give(sample, 1, flat, nnz * rank);
    } else if (tag == HURRAY_LAYOUT_CSF) {
        give_tree(sample, order, tuples, nnz);
    } else {
        give_compressed(sample, tag == HURRAY_LAYOUT_CSR ? 0 : 1, tuples, nnz);
    }
    sample->handles[0] = (HurrayBufferHandle){.byte_size = nnz, .alignment = 64};
    expect_ok(hurray_descriptor_validate(&sample->fields));
}

/* Any layout, rank and density. */
static void make_any(Sample *sample, uint64_t *seed) {
    uint64_t fill = random_below(seed, 11);
    switch (random_below(seed, 4)) {
    case 0:
        make(sample, seed, HURRAY_LAYOUT_COO, 1 + (uint32_t)random_below(seed, 4),
             random_below(seed, 2) == 0, fill);
        break;
    case 1: make(sample, seed, HURRAY_LAYOUT_CSR, 2, true, fill); break;
    case 2: make(sample, seed, HURRAY_LAYOUT_CSC, 2, true, fill); break;
    default:
        make(sample, seed, HURRAY_LAYOUT_CSF, 3 + (uint32_t)random_below(seed, 2), true, fill);
        break;
    }
}

/* ---- sound tensors ---- */

static void every_element_is_found_or_known_to_be_absent(void **state) {
    (void)state;
    static const uint32_t order[MAX_TEST_RANK] = {0, 1, 2, 3, 4};
    uint64_t seed = 1;
    for (int round = 0; round < 1500; round++) {
        Sample sample;
        make_any(&sample, &seed);
        for (uint64_t i = 0; i < sample.count; i++) {
            uint64_t index[MAX_TEST_RANK], position = 77;
            index_at(&sample, order, i, index);
            expect_ok(hurray_sparse_find(&sample.fields, sample.buffers, index, &position));
            uint64_t expected = sample.stored[i] == 0 ? HURRAY_NOT_STORED : sample.stored[i] - 1;
            assert_true(position == expected);
        }
        release(&sample);
    }
}

static void a_walk_sees_each_stored_element_once_in_order(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (int round = 0; round < 1500; round++) {
        Sample sample;
        make_any(&sample, &seed);
        HurraySparseCursor cursor;
        expect_ok(hurray_sparse_begin(&cursor, &sample.fields, sample.buffers));
        uint64_t index[MAX_TEST_RANK], position = 77;
        for (uint64_t p = 0; p < sample.fields.layout.sparse.nnz; p++) {
            expect_ok(hurray_sparse_next(&cursor, index, &position));
            assert_int_equal(position, p);
            assert_int_equal(sample.stored[row_major_at(&sample, index)], p + 1);
        }
        for (int again = 0; again < 2; again++) {
            index[0] = 1234;
            expect_ok(hurray_sparse_next(&cursor, index, &position));
            assert_true(position == HURRAY_NOT_STORED);
            assert_int_equal(index[0], 1234);
        }
        release(&sample);
    }
}

/* The example of spec 2.8. */
static void the_csf_example(void **state) {
    (void)state;
    static const uint64_t levels[6][5] = {{0, 2},    {0, 1},       {0, 2, 3},
                                          {0, 2, 1}, {0, 1, 2, 4}, {1, 3, 0, 2}};
    static const uint64_t counts[6] = {2, 2, 3, 3, 4, 4};
    static const uint64_t expected[4][3] = {{0, 0, 1}, {0, 2, 3}, {1, 1, 0}, {1, 1, 2}};
    Sample sample = {.shape = {2, 3, 4}, .mode_order = {0, 1, 2}};
    sample.fields = (HurrayDescriptorFields){.type_tag = HURRAY_TYPE_FLOAT32,
                                             .rank = 3,
                                             .shape = sample.shape,
                                             .layout = {.tag = HURRAY_LAYOUT_CSF}};
    sample.fields.layout.sparse = (HurraySparseLayout){4, false, sample.mode_order};
    for (uint32_t i = 0; i < 6; i++) give(&sample, i + 1, levels[i], counts[i]);
    HurraySparseCursor cursor;
    uint64_t index[3], position = 0;
    expect_ok(hurray_sparse_begin(&cursor, &sample.fields, sample.buffers));
    for (uint64_t p = 0; p < 4; p++) {
        expect_ok(hurray_sparse_next(&cursor, index, &position));
        assert_int_equal(position, p);
        assert_memory_equal(index, expected[p], sizeof index);
        expect_ok(hurray_sparse_find(&sample.fields, sample.buffers, expected[p], &position));
        assert_int_equal(position, p);
    }
    release(&sample);
}

/* ---- what callers do wrong ---- */

static void indices_out_of_bounds_are_named(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int round = 0; round < 300; round++) {
        Sample sample;
        make_any(&sample, &seed);
        if (sample.count != 0) {
            uint32_t k = (uint32_t)random_below(&seed, sample.fields.rank);
            uint64_t index[MAX_TEST_RANK] = {0}, position = 77;
            char name[32];
            index[k] = random_below(&seed, 2) == 0 ? sample.shape[k] : UINT64_MAX;
            snprintf(name, sizeof name, "index[%u]", (unsigned)k);
            expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                           hurray_sparse_find(&sample.fields, sample.buffers, index, &position));
            expect_message(name);
            assert_int_equal(position, 77);
        }
        release(&sample);
    }
}

static void null_pointers_other_layouts_and_dynamic_extents(void **state) {
    (void)state;
    uint64_t seed = 4, index[MAX_TEST_RANK] = {0}, position = 77;
    HurraySparseCursor cursor;
    Sample sample;
    make(&sample, &seed, HURRAY_LAYOUT_COO, 1, true, 10);
    sample.shape[0] = 4;
    const HurrayDescriptorFields *fields = &sample.fields;
    const HurrayBytes *buffers = sample.buffers;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_sparse_find(NULL, buffers, index, &position));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_sparse_find(fields, NULL, index, &position));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_sparse_find(fields, buffers, NULL, &position));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_sparse_find(fields, buffers, index, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_sparse_begin(NULL, fields, buffers));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_sparse_begin(&cursor, NULL, buffers));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_sparse_begin(&cursor, fields, NULL));
    expect_ok(hurray_sparse_begin(&cursor, fields, buffers));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_sparse_next(NULL, index, &position));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_sparse_next(&cursor, NULL, &position));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_sparse_next(&cursor, index, NULL));
    sample.buffers[1] = (HurrayBytes){NULL, 8};
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_sparse_find(fields, buffers, index, &position));
    expect_message("buffers[1]");
    sample.buffers[1] = (HurrayBytes){NULL, 0};
    sample.fields.layout.sparse.nnz = 0;
    expect_ok(hurray_sparse_find(fields, buffers, index, &position));
    assert_true(position == HURRAY_NOT_STORED);
    sample.shape[0] = HURRAY_DYNAMIC;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT,
                   hurray_sparse_find(fields, buffers, index, &position));
    expect_message("shape[0] is dynamic");
    sample.fields.layout.tag = HURRAY_LAYOUT_ROW_MAJOR;
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_sparse_find(fields, buffers, index, &position));
    sample.fields.layout.tag = 0x0C;
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_sparse_begin(&cursor, fields, buffers));
    release(&sample);
}

/* ---- stored entries that lie ---- */

/* Looks everywhere, and walks to the end or the first fault. Gives the last failure, or OK. */
static HurrayStatus look_everywhere(const Sample *sample) {
    static const uint32_t order[MAX_TEST_RANK] = {0, 1, 2, 3, 4};
    HurrayStatus worst = HURRAY_OK;
    for (uint64_t i = 0; i < sample->count; i++) {
        uint64_t index[MAX_TEST_RANK], position = 77;
        index_at(sample, order, i, index);
        HurrayStatus status =
            hurray_sparse_find(&sample->fields, sample->buffers, index, &position);
        if (status == HURRAY_OK) {
            assert_true(position < sample->fields.layout.sparse.nnz ||
                        position == HURRAY_NOT_STORED);
        } else {
            assert_int_equal(position, 77);
            worst = status;
        }
    }
    HurraySparseCursor cursor;
    uint64_t index[MAX_TEST_RANK], position = 0;
    HurrayStatus status = hurray_sparse_begin(&cursor, &sample->fields, sample->buffers);
    while (status == HURRAY_OK && position != HURRAY_NOT_STORED) {
        uint64_t before[MAX_TEST_RANK];
        memset(index, 0x55, sizeof index);
        memcpy(before, index, sizeof index);
        status = hurray_sparse_next(&cursor, index, &position);
        if (status != HURRAY_OK) {
            assert_memory_equal(index, before, sizeof index);
            assert_int_equal(hurray_sparse_next(&cursor, index, &position), status);
            break;
        }
        if (position == HURRAY_NOT_STORED) break;
        for (uint32_t k = 0; k < sample->fields.rank; k++) {
            assert_true(index[k] < sample->shape[k]);
        }
    }
    return status != HURRAY_OK ? status : worst;
}

/* Whatever a single entry is replaced by: no access outside, and no index that is out of bounds. */
static void any_entry_may_lie(void **state) {
    (void)state;
    static const uint64_t lies[] = {0,
                                    1,
                                    2,
                                    3,
                                    4,
                                    5,
                                    7,
                                    100,
                                    UINT64_C(1) << 32,
                                    UINT64_C(1) << 61,
                                    UINT64_MAX / 8,
                                    UINT64_MAX - 1,
                                    UINT64_MAX};
    uint64_t seed = 5;
    int failures = 0;
    for (int round = 0; round < 60; round++) {
        Sample sample;
        make_any(&sample, &seed);
        for (uint32_t i = 1; i < sample.fields.buffer_count; i++) {
            for (uint64_t at = 0; at < sample.buffers[i].size / 8; at++) {
                uint64_t before = get_entry(&sample, i, at);
                uint64_t lie = lies[random_below(&seed, sizeof lies / sizeof lies[0])];
                set_entry(&sample, i, at, lie);
                if (look_everywhere(&sample) != HURRAY_OK) failures++;
                set_entry(&sample, i, at, UINT64_MAX);
                HurrayStatus status = look_everywhere(&sample);
                /* What leads to no value may be overlooked; indices of elements may not. */
                if (sample.fields.layout.tag == HURRAY_LAYOUT_COO) {
                    assert_int_equal(status, HURRAY_ERR_INDEX_OUT_OF_BOUNDS);
                }
                set_entry(&sample, i, at, before);
            }
        }
        assert_int_equal(look_everywhere(&sample), HURRAY_OK);
        release(&sample);
    }
    assert_true(failures > 100);
}

/* Buffers of random bytes, and of any length: whole entries, halves, none. */
static void any_bytes_of_any_length(void **state) {
    (void)state;
    uint64_t seed = 6;
    for (int round = 0; round < 1500; round++) {
        Sample sample;
        make_any(&sample, &seed);
        for (uint32_t i = 1; i < sample.fields.buffer_count; i++) {
            uint8_t bytes[200];
            uint64_t length = random_below(&seed, sizeof bytes);
            for (size_t b = 0; b < sizeof bytes; b++) {
                bytes[b] = b % 8 == 0 ? (uint8_t)random_below(&seed, 6) : 0;
            }
            if (random_below(&seed, 2) == 0) give_bytes(&sample, i, bytes, length);
        }
        look_everywhere(&sample);
        release(&sample);
    }
}

/* A buffer that ends early is noticed when the walk gets there, wherever it was cut. */
static void buffers_cut_short(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 200; round++) {
        Sample sample;
        make_any(&sample, &seed);
        for (uint32_t i = 1; i < sample.fields.buffer_count; i++) {
            if (sample.fields.layout.sparse.nnz == 0) continue;
            uint64_t whole = sample.buffers[i].size;
            uint8_t bytes[MAX_ELEMENTS * 8 * MAX_TEST_RANK];
            memcpy(bytes, sample.buffers[i].data, (size_t)whole);
            give_bytes(&sample, i, bytes, whole - 1 - random_below(&seed, whole));
            HurrayStatus status = look_everywhere(&sample);
            bool may_pass = sample.fields.layout.tag == HURRAY_LAYOUT_CSR ||
                            sample.fields.layout.tag == HURRAY_LAYOUT_CSC;
            if (!may_pass || i == 1) assert_int_equal(status, HURRAY_ERR_INVALID_LAYOUT);
            give_bytes(&sample, i, bytes, whole);
        }
        release(&sample);
    }
}

/* CSR of shape [3, 4]: rows of 2, 0 and 1 elements. */
static void make_csr(Sample *sample) {
    static const uint64_t col_indices[] = {1, 3, 0}, row_ptr[] = {0, 2, 2, 3};
    *sample = (Sample){.shape = {3, 4}, .count = 12};
    sample->fields = (HurrayDescriptorFields){.type_tag = HURRAY_TYPE_INT8,
                                              .rank = 2,
                                              .shape = sample->shape,
                                              .layout = {.tag = HURRAY_LAYOUT_CSR},
                                              .buffer_count = 3,
                                              .buffers = sample->handles};
    sample->fields.layout.sparse.nnz = 3;
    give(sample, 1, col_indices, 3);
    give(sample, 2, row_ptr, 4);
}

static void expect_find(Sample *sample, uint64_t row, uint64_t column, HurrayStatus expected,
                        const char *message) {
    uint64_t index[2] = {row, column}, position = 77;
    expect_failure(expected,
                   hurray_sparse_find(&sample->fields, sample->buffers, index, &position));
    expect_message(message);
    assert_int_equal(position, 77);
}

static void expect_walk(Sample *sample, HurrayStatus expected, const char *message) {
    HurraySparseCursor cursor;
    uint64_t index[MAX_TEST_RANK], position = 0;
    hri_fail(HURRAY_OK, STALE_MESSAGE);
    HurrayStatus status = hurray_sparse_begin(&cursor, &sample->fields, sample->buffers);
    while (status == HURRAY_OK && position != HURRAY_NOT_STORED) {
        status = hurray_sparse_next(&cursor, index, &position);
    }
    assert_int_equal(status, expected);
    expect_message(message);
}

static void faults_are_named_with_position_and_value(void **state) {
    (void)state;
    Sample sample;
    make_csr(&sample);
    set_entry(&sample, 1, 1, 4);
    expect_find(&sample, 0, 3, HURRAY_ERR_INDEX_OUT_OF_BOUNDS, "col_indices[1] is 4");
    expect_walk(&sample, HURRAY_ERR_INDEX_OUT_OF_BOUNDS, "col_indices[1] is 4");
    set_entry(&sample, 1, 1, 3);
    set_entry(&sample, 2, 1, 9);
    expect_find(&sample, 0, 3, HURRAY_ERR_INVALID_LAYOUT, "row_ptr[1] is 9");
    expect_find(&sample, 1, 3, HURRAY_ERR_INVALID_LAYOUT, "row_ptr[2] is 2");
    expect_walk(&sample, HURRAY_ERR_INVALID_LAYOUT, "row_ptr[1] is 9");
    set_entry(&sample, 2, 1, 2);
    set_entry(&sample, 2, 0, 1);
    expect_walk(&sample, HURRAY_ERR_INVALID_LAYOUT, "row_ptr[0] is 1; expected 0");
    set_entry(&sample, 2, 0, 0);
    set_entry(&sample, 2, 3, 2);
    expect_walk(&sample, HURRAY_ERR_INVALID_LAYOUT, "row_ptr ends at 2; expected nnz, 3");
    set_entry(&sample, 2, 3, 4); /* a fourth entry there is, but it has no value */
    static const uint64_t four[] = {1, 3, 0, 2};
    give(&sample, 1, four, 4);
    expect_walk(&sample, HURRAY_ERR_INVALID_LAYOUT, "row_ptr[3] is 4; expected at most the 3");
    set_entry(&sample, 2, 3, 3);
    static const uint64_t short_row_ptr[] = {0, 2};
    give(&sample, 2, short_row_ptr, 2);
    expect_find(&sample, 1, 0, HURRAY_ERR_INVALID_LAYOUT, "row_ptr holds 2 entries; entry 2");
    release(&sample);
    uint64_t seed = 8;
    make(&sample, &seed, HURRAY_LAYOUT_COO, 3, true, 10);
    while (sample.count == 0) {
        release(&sample);
        make(&sample, &seed, HURRAY_LAYOUT_COO, 3, true, 10);
    }
    set_entry(&sample, 1, 2, 1000);
    expect_walk(&sample, HURRAY_ERR_INDEX_OUT_OF_BOUNDS, "indices[2] is 1000");
    sample.buffers[1].size -= 8;
    expect_walk(&sample, HURRAY_ERR_INVALID_LAYOUT, "indices holds");
    release(&sample);
}

/* Rows that are empty, and parents without children: neither ends a walk. */
static void empty_slices_are_stepped_over(void **state) {
    (void)state;
    static const uint64_t levels[6][5] = {{0, 3}, {0, 1, 2}, {0, 0, 2, 2}, {0, 2}, {0, 0, 1}, {3}};
    static const uint64_t counts[6] = {2, 3, 4, 2, 3, 1};
    Sample sample = {.shape = {3, 3, 4}, .mode_order = {2, 1, 0}};
    sample.shape[0] = 4, sample.shape[2] = 3;
    sample.fields = (HurrayDescriptorFields){.type_tag = HURRAY_TYPE_FLOAT32,
                                             .rank = 3,
                                             .shape = sample.shape,
                                             .layout = {.tag = HURRAY_LAYOUT_CSF}};
    sample.fields.layout.sparse = (HurraySparseLayout){1, false, sample.mode_order};
    for (uint32_t i = 0; i < 6; i++) give(&sample, i + 1, levels[i], counts[i]);
    HurraySparseCursor cursor;
    uint64_t index[3], position = 0;
    expect_ok(hurray_sparse_begin(&cursor, &sample.fields, sample.buffers));
    expect_ok(hurray_sparse_next(&cursor, index, &position));
    assert_int_equal(position, 0);
    static const uint64_t expected[3] = {3, 2, 1};
    assert_memory_equal(index, expected, sizeof index);
    expect_ok(hurray_sparse_next(&cursor, index, &position));
    assert_true(position == HURRAY_NOT_STORED);
    sample.fields.layout.sparse.nnz = 2; /* one that no pointer leads to */
    static const uint64_t two[] = {3, 3};
    give(&sample, 6, two, 2);
    expect_walk(&sample, HURRAY_ERR_INVALID_LAYOUT, "pos_2 ends at 1; expected nnz, 2");
    release(&sample);
}

/* ---- block-paged ---- */

static void give_narrow(Sample *sample, uint32_t i, const uint64_t *entries, uint64_t count,
                        bool wide) {
    if (wide) {
        give(sample, i, entries, count);
        return;
    }
    uint8_t bytes[MAX_ELEMENTS * 4];
    for (uint64_t e = 0; e < count; e++) store_u32(bytes + e * 4, (uint32_t)entries[e]);
    give_bytes(sample, i, bytes, count * 4);
}

typedef struct Paged {
    Sample sample;
    uint64_t table[64], seq_ptr[9];
} Paged;

static void make_paged(Paged *paged, uint64_t *seed, bool wide) {
    *paged = (Paged){.sample = {.count = 0}};
    Sample *sample = &paged->sample;
    HurrayBlockPagedLayout *layout = &sample->fields.layout.paged;
    sample->fields = (HurrayDescriptorFields){.type_tag = HURRAY_TYPE_INT8,
                                              .rank = 3,
                                              .shape = sample->shape,
                                              .layout = {.tag = HURRAY_LAYOUT_BLOCK_PAGED},
                                              .buffer_count = 3,
                                              .buffers = sample->handles};
    *layout = (HurrayBlockPagedLayout){
        .page_size = 1 + (uint32_t)random_below(seed, 5),
        .num_pages = 1 + random_below(seed, 9),
        .num_seqs = (uint32_t)random_below(seed, 8),
        .wide_indices = wide,
    };
    sample->shape[0] = HURRAY_DYNAMIC; /* tokens have no part in it */
    sample->shape[1] = 1 + random_below(seed, 3);
    sample->shape[2] = 1 + random_below(seed, 4);
    for (uint32_t s = 0; s < layout->num_seqs; s++) {
        paged->seq_ptr[s + 1] = paged->seq_ptr[s] + random_below(seed, 5);
    }
    uint64_t entries = paged->seq_ptr[layout->num_seqs];
    for (uint64_t e = 0; e < entries; e++) {
        paged->table[e] = random_below(seed, layout->num_pages);
    }
    give_narrow(sample, 1, paged->table, entries, wide);
    give_narrow(sample, 2, paged->seq_ptr, layout->num_seqs + 1u, wide);
    uint64_t pool = layout->num_pages * layout->page_size * sample->shape[1] * sample->shape[2];
    sample->handles[0] = (HurrayBufferHandle){.byte_size = pool, .alignment = 64};
    expect_ok(hurray_descriptor_validate(&sample->fields));
}

static void tokens_lie_where_the_block_table_says(void **state) {
    (void)state;
    uint64_t seed = 9;
    for (int round = 0; round < 1000; round++) {
        Paged paged;
        make_paged(&paged, &seed, round % 2 == 0);
        const Sample *sample = &paged.sample;
        const HurrayBlockPagedLayout *layout = &sample->fields.layout.paged;
        uint64_t heads = sample->shape[1], dims = sample->shape[2];
        for (uint32_t s = 0; s < layout->num_seqs; s++) {
            uint64_t tokens = 0, pages = paged.seq_ptr[s + 1] - paged.seq_ptr[s];
            expect_ok(hurray_paged_capacity(&sample->fields, sample->buffers, s, &tokens));
            assert_int_equal(tokens, pages * layout->page_size);
            for (uint64_t t = 0; t < tokens; t++) {
                uint64_t page = paged.table[paged.seq_ptr[s] + t / layout->page_size];
                uint64_t slot = page * layout->page_size + t % layout->page_size;
                uint64_t h = random_below(&seed, heads), d = random_below(&seed, dims);
                int64_t offset = -1;
                expect_ok(
                    hurray_paged_offset(&sample->fields, sample->buffers, s, t, h, d, &offset));
                assert_int_equal(offset, (slot * heads + h) * dims + d);
                assert_true((uint64_t)offset < sample->handles[0].byte_size);
            }
            int64_t offset = -1;
            expect_failure(
                HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                hurray_paged_offset(&sample->fields, sample->buffers, s, tokens, 0, 0, &offset));
            expect_message("token");
            expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                           hurray_paged_offset(&sample->fields, sample->buffers, s, UINT64_MAX, 0,
                                               0, &offset));
            assert_int_equal(offset, -1);
        }
        release(&paged.sample);
    }
}

/* One sequence of two pages, 5 and 3, of 4 tokens of 2 heads of 8. */
static void make_simple(Sample *sample) {
    static const uint64_t table[] = {5, 3}, seq_ptr[] = {0, 2};
    *sample = (Sample){.shape = {8, 2, 8}};
    sample->fields = (HurrayDescriptorFields){.type_tag = HURRAY_TYPE_INT8,
                                              .rank = 3,
                                              .shape = sample->shape,
                                              .layout = {.tag = HURRAY_LAYOUT_BLOCK_PAGED}};
    sample->fields.layout.paged = (HurrayBlockPagedLayout){
        .page_size = 4, .num_pages = 6, .num_seqs = 1, .wide_indices = true};
    give(sample, 1, table, 2);
    give(sample, 2, seq_ptr, 2);
}

static void expect_place(const Sample *sample, const uint64_t at[4], HurrayStatus expected,
                         const char *message) {
    int64_t offset = -7;
    expect_failure(expected, hurray_paged_offset(&sample->fields, sample->buffers, at[0], at[1],
                                                 at[2], at[3], &offset));
    expect_message(message);
    assert_int_equal(offset, -7);
}

static void what_paged_lookups_refuse(void **state) {
    (void)state;
    static const uint64_t first[4] = {0, 0, 0, 0}, second[4] = {0, 4, 0, 0};
    Sample sample;
    make_simple(&sample);
    int64_t offset = 0;
    uint64_t tokens = 77;
    expect_ok(hurray_paged_offset(&sample.fields, sample.buffers, 0, 4, 0, 0, &offset));
    assert_int_equal(offset, 3 * 4 * 2 * 8);
    expect_place(&sample, (uint64_t[4]){1, 0, 0, 0}, HURRAY_ERR_INDEX_OUT_OF_BOUNDS, "sequence");
    expect_place(&sample, (uint64_t[4]){0, 8, 0, 0}, HURRAY_ERR_INDEX_OUT_OF_BOUNDS, "token is 8");
    expect_place(&sample, (uint64_t[4]){0, 0, 2, 0}, HURRAY_ERR_INDEX_OUT_OF_BOUNDS, "head is 2");
    expect_place(&sample, (uint64_t[4]){0, 0, 0, 8}, HURRAY_ERR_INDEX_OUT_OF_BOUNDS, "dim is 8");
    set_entry(&sample, 1, 1, 6);
    expect_place(&sample, second, HURRAY_ERR_INDEX_OUT_OF_BOUNDS, "block_table[1] is 6");
    set_entry(&sample, 2, 1, 3);
    expect_place(&sample, first, HURRAY_ERR_INVALID_LAYOUT, "seq_ptr[1] is 3");
    set_entry(&sample, 2, 0, 4);
    expect_place(&sample, first, HURRAY_ERR_INVALID_LAYOUT, "seq_ptr[1] is 3, less than the 4");
    expect_failure(HURRAY_ERR_INVALID_LAYOUT,
                   hurray_paged_capacity(&sample.fields, sample.buffers, 0, &tokens));
    set_entry(&sample, 2, 0, 0);
    set_entry(&sample, 2, 1, 2);
    for (uint32_t k = 1; k < 3; k++) {
        uint64_t extent = sample.shape[k];
        sample.shape[k] = HURRAY_DYNAMIC;
        expect_place(&sample, first, HURRAY_ERR_INVALID_LAYOUT, "is dynamic");
        sample.shape[k] = UINT64_C(1) << 61; /* not a valid tensor, and still not a wrong offset */
        expect_place(&sample, first, HURRAY_ERR_INVALID_LAYOUT, "2^63");
        sample.shape[k] = extent;
    }
    sample.buffers[1].size = UINT64_MAX; /* as if there were so many; nothing is read of them */
    set_entry(&sample, 2, 1, UINT64_MAX / 8);
    expect_ok(hurray_paged_capacity(&sample.fields, sample.buffers, 0, &tokens));
    assert_true(tokens == UINT64_MAX / 8 * 4);
    sample.fields.layout.paged.page_size = 9;
    tokens = 77;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT,
                   hurray_paged_capacity(&sample.fields, sample.buffers, 0, &tokens));
    expect_message("2^64 tokens");
    sample.fields.layout.paged.page_size = 4;
    sample.buffers[1].size = 16;
    set_entry(&sample, 2, 1, 2);
    sample.buffers[2].size = 15;
    expect_place(&sample, first, HURRAY_ERR_INVALID_LAYOUT, "seq_ptr holds 1 entries; entry 1");
    sample.buffers[2] = (HurrayBytes){NULL, 16};
    expect_place(&sample, first, HURRAY_ERR_NULL_POINTER, "buffers[2]");
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_paged_offset(NULL, sample.buffers, 0, 0, 0, 0, &offset));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_paged_offset(&sample.fields, NULL, 0, 0, 0, 0, &offset));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_paged_offset(&sample.fields, sample.buffers, 0, 0, 0, 0, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_paged_capacity(&sample.fields, sample.buffers, 0, NULL));
    sample.fields.layout.tag = HURRAY_LAYOUT_COO;
    expect_place(&sample, first, HURRAY_ERR_UNSUPPORTED, "not block_paged");
    assert_int_equal(tokens, 77);
    release(&sample);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_found_or_known_to_be_absent),
        cmocka_unit_test(a_walk_sees_each_stored_element_once_in_order),
        cmocka_unit_test(the_csf_example),
        cmocka_unit_test(indices_out_of_bounds_are_named),
        cmocka_unit_test(null_pointers_other_layouts_and_dynamic_extents),
        cmocka_unit_test(any_entry_may_lie),
        cmocka_unit_test(any_bytes_of_any_length),
        cmocka_unit_test(buffers_cut_short),
        cmocka_unit_test(faults_are_named_with_position_and_value),
        cmocka_unit_test(empty_slices_are_stepped_over),
        cmocka_unit_test(tokens_lie_where_the_block_table_says),
        cmocka_unit_test(what_paged_lookups_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
