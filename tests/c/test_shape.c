/* Element counts and packed strides of shapes (src/shape.c, spec 1.4). */
#include "expect.h"

#include <hurray/shape.h>

#include "random.h"

static void scalars_have_one_element(void **state) {
    (void)state;
    uint64_t count = 0;
    int64_t nothing = 77;
    expect_ok(hurray_shape_count(NULL, 0, &count));
    assert_int_equal(count, 1);
    assert_false(hurray_shape_is_dynamic(NULL, 0));
    assert_false(hurray_shape_is_empty(NULL, 0));
    assert_true(hurray_shape_row_major_strides(NULL, 0, &nothing));
    assert_true(hurray_shape_col_major_strides(NULL, 0, &nothing));
    assert_int_equal(nothing, 77);
}

/* The product, whichever extents overflow on the way: a zero anywhere decides. */
static void counts_of_random_shapes(void **state) {
    (void)state;
    static const uint64_t extents[] = {
        0, 1, 1, 2, 3, 10, 1u << 16, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX - 1};
    uint64_t seed = 2;
    for (int round = 0; round < 50000; round++) {
        uint64_t shape[64];
        uint32_t rank = (uint32_t)random_below(&seed, round % 100 == 0 ? 65 : 6);
        bool empty = false, overflow = false;
        uint64_t product = 1, count = 77;
        for (uint32_t k = 0; k < rank; k++) {
            shape[k] = extents[random_below(&seed, sizeof extents / sizeof extents[0])];
            if (shape[k] == 0) {
                empty = true;
            } else if (__builtin_mul_overflow(product, shape[k], &product)) {
                overflow = true;
                product = UINT64_MAX; /* stays too large */
            }
        }
        assert_int_equal(hurray_shape_is_empty(shape, rank), empty);
        assert_false(hurray_shape_is_dynamic(shape, rank));
        if (overflow && !empty) {
            expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_shape_count(shape, rank, &count));
            assert_int_equal(count, 77);
        } else {
            expect_ok(hurray_shape_count(shape, rank, &count));
            assert_true(count == (empty ? 0 : product));
        }
    }
}

static void a_dynamic_dimension_leaves_the_count_unknown(void **state) {
    (void)state;
    for (uint32_t rank = 1; rank <= 64; rank++) {
        for (uint32_t at = 0; at < rank; at++) {
            uint64_t shape[64], count = 77;
            int64_t strides[64] = {0};
            for (uint32_t k = 0; k < rank; k++) shape[k] = k == at ? HURRAY_DYNAMIC : k % 3;
            assert_true(hurray_shape_is_dynamic(shape, rank));
            expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_shape_count(shape, rank, &count));
            expect_message("dynamic");
            assert_int_equal(count, 77);
            assert_false(hurray_shape_row_major_strides(shape, rank, strides));
            assert_false(hurray_shape_col_major_strides(shape, rank, strides));
            for (uint32_t k = 0; k < rank; k++) assert_int_equal(strides[k], 0);
        }
    }
}

/* Steps through all indices, last dimension fastest, and finds the offsets in order 0, 1, 2, …. */
static void expect_consecutive(const uint64_t *shape, uint32_t rank, const int64_t *strides) {
    uint64_t index[64] = {0}, count = 0;
    expect_ok(hurray_shape_count(shape, rank, &count));
    for (uint64_t expected = 0; expected < count; expected++) {
        int64_t offset = 0;
        for (uint32_t k = 0; k < rank; k++) offset += (int64_t)index[k] * strides[k];
        assert_int_equal(offset, expected);
        for (uint32_t k = rank; k-- > 0 && ++index[k] == shape[k];) index[k] = 0;
    }
}

static void packed_strides_visit_memory_in_order(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int round = 0; round < 3000; round++) {
        uint32_t rank = (uint32_t)random_below(&seed, 6);
        uint64_t shape[64], reversed[64];
        int64_t strides[64], reversed_strides[64];
        for (uint32_t k = 0; k < rank; k++) shape[k] = random_below(&seed, 5);
        assert_true(hurray_shape_row_major_strides(shape, rank, strides));
        expect_consecutive(shape, rank, strides);
        assert_true(hurray_shape_col_major_strides(shape, rank, strides));
        for (uint32_t k = 0; k < rank; k++) {
            reversed[k] = shape[rank - 1 - k];
            reversed_strides[k] = strides[rank - 1 - k];
        }
        expect_consecutive(reversed, rank, reversed_strides);
    }
}

/* Extents of 0 count as 1; what leaves i64 is the largest i64, never a wrapped number. */
static void strides_at_the_edges(void **state) {
    (void)state;
    uint64_t empty[4] = {5, 0, 3, 2};
    int64_t strides[64];
    assert_true(hurray_shape_row_major_strides(empty, 4, strides));
    const int64_t row_major[4] = {6, 6, 2, 1};
    assert_memory_equal(strides, row_major, sizeof row_major);
    assert_true(hurray_shape_col_major_strides(empty, 4, strides));
    const int64_t col_major[4] = {1, 5, 5, 15};
    assert_memory_equal(strides, col_major, sizeof col_major);

    uint64_t large[4] = {2, 0, UINT64_C(1) << 62, 3};
    assert_true(hurray_shape_row_major_strides(large, 4, strides));
    const int64_t clamped[4] = {INT64_MAX, INT64_MAX, 3, 1};
    assert_memory_equal(strides, clamped, sizeof clamped);

    uint64_t largest[2] = {1, INT64_MAX};
    assert_true(hurray_shape_row_major_strides(largest, 2, strides));
    assert_true(strides[0] == INT64_MAX);
    uint64_t beyond[3] = {UINT64_C(1) << 63, UINT64_MAX - 1, 7};
    assert_true(hurray_shape_col_major_strides(beyond, 3, strides));
    assert_true(strides[1] == INT64_MAX && strides[2] == INT64_MAX);
    uint64_t deep[64];
    for (uint32_t k = 0; k < 64; k++) deep[k] = 2;
    assert_true(hurray_shape_row_major_strides(deep, 64, strides));
    for (uint32_t k = 0; k < 64; k++) {
        assert_true(strides[63 - k] == (k < 63 ? INT64_C(1) << k : INT64_MAX));
    }
}

static void null_is_refused(void **state) {
    (void)state;
    uint64_t shape[1] = {1}, count = 77;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_shape_count(shape, 1, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_shape_count(NULL, 1, &count));
    assert_int_equal(count, 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_have_one_element),
        cmocka_unit_test(counts_of_random_shapes),
        cmocka_unit_test(a_dynamic_dimension_leaves_the_count_unknown),
        cmocka_unit_test(packed_strides_visit_memory_in_order),
        cmocka_unit_test(strides_at_the_edges),
        cmocka_unit_test(null_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
