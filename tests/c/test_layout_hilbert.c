/*
 * Hilbert layouts (src/layout_hilbert.c, spec 2.5): the curve of the specification, what makes a
 * Hilbert curve one, their bytes, how much buffer they take, and each rule they can break.
 */
#include "dense_cases.h"

#include "random.h"

typedef struct Case {
    HurrayDescriptorFields fields;
    HurrayBufferHandle buffer;
    uint64_t shape[HURRAY_MAX_RANK];
} Case;

static void cube(Case *c, uint32_t rank, uint32_t order) {
    memset(c, 0, sizeof *c);
    for (uint32_t k = 0; k < rank; k++) c->shape[k] = UINT64_C(1) << order;
    c->buffer = (HurrayBufferHandle){.byte_size = UINT64_MAX, .alignment = 64};
    c->fields = (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_INT8,
        .rank = rank,
        .shape = c->shape,
        .layout = {.tag = HURRAY_LAYOUT_HILBERT, .hilbert = {.order = order, .rank = rank}},
        .buffer_count = 1,
        .buffers = &c->buffer,
    };
}

static void the_curve_of_the_specification(void **state) {
    (void)state;
    static const uint64_t curve[16][2] = {{0, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 3},
                                          {1, 3}, {1, 2}, {2, 2}, {2, 3}, {3, 3}, {3, 2},
                                          {3, 1}, {2, 1}, {2, 0}, {3, 0}};
    Case c;
    cube(&c, 2, 2);
    for (int64_t h = 0; h < 16; h++) {
        uint64_t index[2];
        int64_t offset = -1;
        expect_ok(hurray_address_offset(&c.fields, curve[h], &offset));
        assert_int_equal(offset, h);
        expect_ok(hurray_address_index(&c.fields, h, index));
        assert_memory_equal(index, curve[h], sizeof index);
    }
}

static void expect_neighbours(const uint64_t *a, const uint64_t *b, uint32_t rank) {
    uint64_t distance = 0;
    for (uint32_t k = 0; k < rank; k++) distance += a[k] > b[k] ? a[k] - b[k] : b[k] - a[k];
    assert_int_equal(distance, 1);
}

/* Starting in a corner, from neighbour to neighbour; everywhere once, as each offset leads back. */
static void it_goes_from_neighbour_to_neighbour(void **state) {
    (void)state;
    for (uint32_t rank = 2; rank <= 12; rank++) {
        for (uint32_t order = 1; order * rank <= 12; order++) {
            Case c;
            uint64_t index[12], before[12] = {0};
            cube(&c, rank, order);
            int64_t last = (INT64_C(1) << rank * order) - 1;
            expect_bijection(&c.fields, 0, last);
            for (int64_t h = 0; h <= last; h++) {
                expect_ok(hurray_address_index(&c.fields, h, index));
                if (h == 0) assert_memory_equal(index, before, rank * sizeof(uint64_t));
                if (h > 0) expect_neighbours(before, index, rank);
                memcpy(before, index, sizeof index);
            }
        }
    }
}

static void it_does_so_in_the_largest_cubes(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (uint32_t rank = 2; rank <= 63; rank++) {
        Case c;
        cube(&c, rank, 63 / rank);
        for (uint32_t round = 0; round < 100; round++) {
            uint64_t a[63], b[63];
            int64_t h = (int64_t)(random_u64(&seed) >> (64 - 63 / rank * rank)), back = 0;
            if (h == 0) continue;
            expect_ok(hurray_address_index(&c.fields, h - 1, a));
            expect_ok(hurray_address_index(&c.fields, h, b));
            expect_neighbours(a, b, rank);
            expect_ok(hurray_address_offset(&c.fields, b, &back));
            assert_int_equal(back, h);
        }
    }
}

static void buffers_hold_the_cube(void **state) {
    (void)state;
    static const uint8_t types[] = {HURRAY_TYPE_BOOL, HURRAY_TYPE_FLOAT6_E3M2, HURRAY_TYPE_FLOAT64};
    for (uint32_t rank = 2; rank <= 6; rank++) {
        for (uint32_t order = 1; order * rank <= 12; order++) {
            Case c;
            HurrayPacking packing;
            uint64_t bytes = 0;
            cube(&c, rank, order);
            c.fields.type_tag = types[(rank + order) % 3];
            c.fields.byte_offset = 5;
            expect_ok(hurray_packing_of(c.fields.type_tag, NULL, &packing));
            expect_ok(hurray_packing_size(packing, UINT64_C(1) << rank * order, &bytes));
            assert_int_equal(required_of(&c.fields), 5 + bytes);
            expect_exact_size(&c.fields, &c.buffer);
            expect_wire_form(&c.fields);
        }
    }
}

static void expect_broken_rule(Case *c, const char *part) {
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_validate(&c->fields));
    expect_message(part);
}

static void rules_of_order_and_rank(void **state) {
    (void)state;
    Case c;
    cube(&c, 2, 3);
    c.fields.layout.hilbert.rank = 3;
    expect_broken_rule(&c, "hilbert_rank is 3");
    static const uint32_t orders[] = {0, 32, 60, 64, 0x80000000u, UINT32_MAX};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        cube(&c, 2, 3);
        c.fields.layout.hilbert.order = orders[i];
        expect_broken_rule(&c, "hilbert_order is ");
        c.shape[0] = c.shape[1] = HURRAY_DYNAMIC;
        expect_broken_rule(&c, "hilbert_order is ");
    }
    cube(&c, 64, 1); /* 2^64 elements; of 63 dimensions 2^63 */
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_validate(&c.fields));
    cube(&c, 63, 1);
    assert_int_equal(required_of(&c.fields), UINT64_C(1) << 63);
    c.fields.type_tag = HURRAY_TYPE_INT16;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_validate(&c.fields));
}

static void every_extent_is_a_side_of_the_cube(void **state) {
    (void)state;
    static const uint64_t extents[] = {0, 1, 4, 7, 9, 16};
    Case c;
    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++) {
        cube(&c, 2, 3);
        c.shape[1] = extents[i];
        expect_broken_rule(&c, "of dimension 1; expected 2^hilbert_order, 8");
        c.shape[0] = HURRAY_DYNAMIC;
        expect_broken_rule(&c, "of dimension 1; expected 2^hilbert_order, 8");
    }
    cube(&c, 2, 3);
    c.shape[1] = HURRAY_DYNAMIC;
    expect_ok(hurray_descriptor_validate(&c.fields));
    assert_int_equal(required_of(&c.fields), 0);
}

static void comparison_sees_the_order(void **state) {
    (void)state;
    Case a, b;
    cube(&a, 2, 3);
    cube(&b, 2, 3);
    assert_true(hurray_descriptor_equal(&a.fields, &b.fields));
    b.fields.layout.hilbert.order = 2;
    assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
    b.fields.layout.hilbert = (HurrayHilbertLayout){.order = 3, .rank = 3};
    assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_curve_of_the_specification),
        cmocka_unit_test(it_goes_from_neighbour_to_neighbour),
        cmocka_unit_test(it_does_so_in_the_largest_cubes),
        cmocka_unit_test(buffers_hold_the_cube),
        cmocka_unit_test(rules_of_order_and_rank),
        cmocka_unit_test(every_extent_is_a_side_of_the_cube),
        cmocka_unit_test(comparison_sees_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
