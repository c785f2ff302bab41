/* COO, CSR, CSC and CSF as descriptors (src/layout_coo.c, layout_compressed.c, layout_csf.c). */
#include "round_trip.h"

#include <stdio.h>

#include "layout.h"
#include "random.h"

#define MANY UINT64_C(0x2000000000000000) /* times 8 is 2^64 */

typedef struct Sample {
    HurrayDescriptorFields fields;
    uint64_t shape[HURRAY_MAX_RANK];
    uint32_t mode_order[HURRAY_MAX_RANK];
    HurrayBufferHandle buffers[1 + 2 * HURRAY_MAX_RANK];
    uint64_t parent_shape[HURRAY_MAX_RANK], shard_offset[HURRAY_MAX_RANK];
    HurrayShard shard;
} Sample;

/* All extents 5, float32, buffers of exactly the size that spec 2.6 - 2.8 say. */
static void make(Sample *sample, uint8_t tag, uint32_t rank, uint64_t nnz) {
    *sample = (Sample){.shard = {NULL, NULL}};
    sample->fields = (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_FLOAT32,
        .rank = rank,
        .shape = sample->shape,
        .layout = {.tag = tag, .sparse = {nnz, false, NULL}},
        .buffers = sample->buffers,
    };
    for (uint32_t k = 0; k < rank; k++) {
        sample->shape[k] = rank > 20 ? 1 : 5;
        sample->mode_order[k] = rank - 1 - k;
    }
    uint32_t count = 0;
    assert_int_equal(hurray_layout_buffer_count(tag, rank, &count), HURRAY_OK);
    sample->fields.buffer_count = count;
    for (uint32_t i = 0; i < count; i++) sample->buffers[i].alignment = 64;
    sample->buffers[0].byte_size = nnz * 4;
    switch (tag) {
    case HURRAY_LAYOUT_COO: sample->buffers[1].byte_size = nnz * 8 * rank; break;
    case HURRAY_LAYOUT_CSF:
        sample->fields.layout.sparse.mode_order = sample->mode_order;
        sample->buffers[1].byte_size = 16;
        sample->buffers[2 * rank].byte_size = nnz * 8;
        break;
    default:
        sample->buffers[1].byte_size = nnz * 8;
        sample->buffers[2].byte_size = 48;
        break;
    }
}

static const struct {
    uint8_t tag;
    uint32_t rank;
} forms[] = {
    {HURRAY_LAYOUT_COO, 1}, {HURRAY_LAYOUT_COO, 2}, {HURRAY_LAYOUT_COO, 64}, {HURRAY_LAYOUT_CSR, 2},
    {HURRAY_LAYOUT_CSC, 2}, {HURRAY_LAYOUT_CSF, 3}, {HURRAY_LAYOUT_CSF, 64},
};
#define FORM_COUNT (sizeof forms / sizeof forms[0])

static void round_trips(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (size_t f = 0; f < FORM_COUNT; f++) {
        for (uint64_t nnz = 0; nnz < 4; nnz++) {
            Sample sample;
            make(&sample, forms[f].tag, forms[f].rank, nnz);
            if (forms[f].tag == HURRAY_LAYOUT_COO) sample.fields.layout.sparse.is_sorted = nnz % 2;
            for (uint32_t k = forms[f].rank - 1; k > 0; k--) { /* any permutation will do */
                uint32_t other = (uint32_t)random_below(&seed, k + 1);
                uint32_t mode = sample.mode_order[k];
                sample.mode_order[k] = sample.mode_order[other];
                sample.mode_order[other] = mode;
            }
            expect_round_trip(&sample.fields, NULL);
        }
    }
}

static void fields_as_the_spec_lays_them_out(void **state) {
    (void)state;
    Sample sample;
    uint8_t bytes[ROOM];
    make(&sample, HURRAY_LAYOUT_COO, 2, 0x0102);
    sample.fields.layout.sparse.is_sorted = true;
    encode_valid(&sample.fields, bytes);
    assert_memory_equal(bytes + layout_at(2), "\2\1\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2", 17);
    make(&sample, HURRAY_LAYOUT_CSR, 2, 0x0102);
    encode_valid(&sample.fields, bytes);
    assert_memory_equal(bytes + layout_at(2), "\2\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\3", 17);
    make(&sample, HURRAY_LAYOUT_CSF, 3, 0x0102);
    encode_valid(&sample.fields, bytes);
    assert_memory_equal(bytes + layout_at(3), "\2\1\0\0\0\0\0\0\2\0\0\0\1\0\0\0\0\0\0\0", 20);
    assert_memory_equal(bytes + layout_at(3) + 20, "\0\0\0\0\0\0\0\0\7", 9);
}

static void what_is_not_a_value_is_refused(void **state) {
    (void)state;
    Sample sample;
    uint8_t bytes[ROOM];
    make(&sample, HURRAY_LAYOUT_COO, 2, 3);
    expect_reserved(&sample.fields, layout_at(2) + 9, 7);
    size_t length = encode_valid(&sample.fields, bytes);
    for (unsigned value = 2; value <= 255; value++) {
        bytes[layout_at(2) + 8] = (uint8_t)value;
        expect_unreadable(bytes, length, NULL, "is_sorted");
    }
    make(&sample, HURRAY_LAYOUT_CSR, 2, 3);
    expect_reserved(&sample.fields, layout_at(2) + 8, 8);
    make(&sample, HURRAY_LAYOUT_CSC, 2, 3);
    expect_reserved(&sample.fields, layout_at(2) + 8, 8);
    make(&sample, HURRAY_LAYOUT_CSF, 5, 3);
    expect_reserved(&sample.fields, layout_at(5) + 8 + 5 * 4, 8);
}

/* Also at a width where several values share a byte. */
static void buffers_are_as_large_as_nnz_says(void **state) {
    (void)state;
    for (size_t f = 0; f < FORM_COUNT; f++) {
        Sample sample;
        make(&sample, forms[f].tag, forms[f].rank, 5);
        expect_tight(&sample.fields, sample.buffers, sample.fields.buffer_count);
        sample.fields.type_tag = HURRAY_TYPE_FLOAT6_E2M3; /* 5 in two groups of 3 bytes */
        sample.buffers[0].byte_size = 6;
        expect_tight(&sample.fields, sample.buffers, sample.fields.buffer_count);
        for (uint32_t i = 0; i < sample.fields.buffer_count; i++) sample.buffers[i].byte_size += 9;
        expect_ok(hurray_descriptor_validate(&sample.fields));
    }
}

static void buffers_have_the_names_of_the_spec(void **state) {
    (void)state;
    Sample sample;
    uint64_t size = 0;
    const char *role = NULL;
    make(&sample, HURRAY_LAYOUT_CSF, 64, 1);
    for (uint32_t level = 0; level < 64; level++) {
        char name[16];
        snprintf(name, sizeof name, "pos_%u", (unsigned)level);
        expect_ok(hurray_descriptor_required_bytes(&sample.fields, 2 * level + 1, &size, &role));
        assert_string_equal(role, name);
        snprintf(name, sizeof name, "crd_%u", (unsigned)level);
        expect_ok(hurray_descriptor_required_bytes(&sample.fields, 2 * level + 2, &size, &role));
        assert_string_equal(role, name);
    }
    expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                   hurray_descriptor_required_bytes(&sample.fields, 129, &size, &role));
    make(&sample, HURRAY_LAYOUT_CSC, 2, 1);
    expect_ok(hurray_descriptor_required_bytes(&sample.fields, 1, &size, &role));
    assert_string_equal(role, "row_indices");
    expect_ok(hurray_descriptor_required_bytes(&sample.fields, 2, &size, &role));
    assert_string_equal(role, "col_ptr");
}

/* CSR counts rows, CSC columns; an empty matrix still has a pointer. */
static void pointers_follow_the_compressed_dimension(void **state) {
    (void)state;
    Sample sample;
    uint64_t size = 0;
    static const uint8_t tags[2] = {HURRAY_LAYOUT_CSR, HURRAY_LAYOUT_CSC};
    for (uint32_t major = 0; major < 2; major++) {
        make(&sample, tags[major], 2, 0);
        sample.shape[1 - major] = 1000;
        sample.shape[major] = 7;
        expect_ok(hurray_descriptor_required_bytes(&sample.fields, 2, &size, NULL));
        assert_int_equal(size, 64);
        sample.shape[major] = 0;
        expect_ok(hurray_descriptor_required_bytes(&sample.fields, 2, &size, NULL));
        assert_int_equal(size, 8);
    }
}

/* A dynamic dimension leaves the pointers over it unknown, and nothing else. */
static void dynamic_dimensions(void **state) {
    (void)state;
    Sample sample;
    uint64_t size = 1;
    for (size_t f = 0; f < FORM_COUNT; f++) {
        for (uint32_t k = 0; k < forms[f].rank; k++) {
            make(&sample, forms[f].tag, forms[f].rank, 3);
            sample.shape[k] = HURRAY_DYNAMIC;
            expect_ok(hurray_descriptor_validate(&sample.fields));
            sample.buffers[0].byte_size--;
            expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "(values)");
            sample.fields.layout.sparse.nnz = MANY;
            expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "nnz");
        }
    }
    make(&sample, HURRAY_LAYOUT_CSR, 2, 3);
    sample.shape[0] = HURRAY_DYNAMIC;
    expect_ok(hurray_descriptor_required_bytes(&sample.fields, 2, &size, NULL));
    assert_int_equal(size, 0);
    sample.shape[0] = 5;
    sample.shape[1] = HURRAY_DYNAMIC;
    expect_tight(&sample.fields, sample.buffers, 3);
}

static void sizes_do_not_wrap(void **state) {
    (void)state;
    Sample sample;
    for (size_t f = 0; f < FORM_COUNT; f++) {
        make(&sample, forms[f].tag, forms[f].rank, 3);
        for (uint32_t i = 0; i < sample.fields.buffer_count; i++) {
            sample.buffers[i].byte_size = UINT64_MAX;
        }
        sample.fields.type_tag = HURRAY_TYPE_BOOL; /* so that the values fit */
        expect_ok(hurray_descriptor_validate(&sample.fields));
        uint32_t per_value = forms[f].tag == HURRAY_LAYOUT_COO ? forms[f].rank : 1;
        sample.fields.layout.sparse.nnz = (MANY - 1) / per_value;
        expect_ok(hurray_descriptor_validate(&sample.fields));
        sample.fields.layout.sparse.nnz++;
        expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "nnz");
        sample.fields.layout.sparse.nnz = UINT64_MAX;
        expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "nnz");
        sample.fields.type_tag = HURRAY_TYPE_FLOAT128;
        expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "values of 128 bits");
    }
    make(&sample, HURRAY_LAYOUT_CSR, 2, 0);
    sample.buffers[2].byte_size = UINT64_MAX;
    sample.shape[1] = 0;
    sample.shape[0] = MANY - 2;
    expect_ok(hurray_descriptor_validate(&sample.fields));
    sample.shape[0] = MANY - 1;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "rows + 1");
}

static void mode_order_is_a_permutation(void **state) {
    (void)state;
    Sample sample;
    make(&sample, HURRAY_LAYOUT_CSF, 64, 1);
    for (uint32_t level = 0; level < 64; level++) {
        uint32_t mode = sample.mode_order[level];
        sample.mode_order[level] = sample.mode_order[(level + 1) % 64];
        expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "mode_order");
        sample.mode_order[level] = 64;
        expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "mode_order");
        sample.mode_order[level] = UINT32_MAX;
        expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "mode_order");
        sample.mode_order[level] = mode;
    }
    sample.fields.layout.sparse.mode_order = NULL;
    expect_invalid(HURRAY_ERR_NULL_POINTER, &sample.fields, "mode_order");
}

static void rank_offset_and_shard(void **state) {
    (void)state;
    static const struct {
        uint8_t tag;
        uint32_t bad_rank;
    } ranks[] = {
        {HURRAY_LAYOUT_COO, 0}, {HURRAY_LAYOUT_CSR, 1}, {HURRAY_LAYOUT_CSR, 3},
        {HURRAY_LAYOUT_CSC, 1}, {HURRAY_LAYOUT_CSC, 3}, {HURRAY_LAYOUT_CSF, 2},
    };
    Sample sample;
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        make(&sample, ranks[i].tag, ranks[i].bad_rank, 0);
        expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "rank");
    }
    for (size_t f = 0; f < FORM_COUNT; f++) {
        make(&sample, forms[f].tag, forms[f].rank, 3);
        sample.fields.byte_offset = 4;
        expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "byte_offset");
        sample.fields.byte_offset = 0;
        sample.fields.buffer_count--;
        expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "buffer count");
        sample.fields.buffer_count++;
        memcpy(sample.parent_shape, sample.shape, sizeof sample.shape);
        sample.shard = (HurrayShard){sample.parent_shape, sample.shard_offset};
        sample.fields.shard = &sample.shard;
        if (forms[f].tag == HURRAY_LAYOUT_CSF) {
            expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "shard");
        } else {
            expect_round_trip(&sample.fields, NULL);
            sample.shape[0] = HURRAY_DYNAMIC;
            expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "dynamic");
        }
    }
}

static void every_field_makes_a_difference(void **state) {
    (void)state;
    Sample a, b;
    for (size_t f = 0; f < FORM_COUNT; f++) {
        make(&a, forms[f].tag, forms[f].rank, 3);
        make(&b, forms[f].tag, forms[f].rank, 3);
        assert_true(hurray_descriptor_equal(&a.fields, &b.fields));
        b.fields.layout.sparse.nnz = 2;
        assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
        assert_true(hurray_descriptor_hash(&a.fields) != hurray_descriptor_hash(&b.fields));
    }
    make(&a, HURRAY_LAYOUT_COO, 3, 3);
    make(&b, HURRAY_LAYOUT_COO, 3, 3);
    b.fields.layout.sparse.is_sorted = true;
    assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
    make(&a, HURRAY_LAYOUT_CSF, 3, 3);
    make(&b, HURRAY_LAYOUT_CSF, 3, 3);
    b.mode_order[0] = 1;
    b.mode_order[1] = 2;
    assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(fields_as_the_spec_lays_them_out),
        cmocka_unit_test(what_is_not_a_value_is_refused),
        cmocka_unit_test(buffers_are_as_large_as_nnz_says),
        cmocka_unit_test(buffers_have_the_names_of_the_spec),
        cmocka_unit_test(pointers_follow_the_compressed_dimension),
        cmocka_unit_test(dynamic_dimensions),
        cmocka_unit_test(sizes_do_not_wrap),
        cmocka_unit_test(mode_order_is_a_permutation),
        cmocka_unit_test(rank_offset_and_shard),
        cmocka_unit_test(every_field_makes_a_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
