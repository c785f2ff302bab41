/*
 * The index at an offset (hurray_address_index, src/dense.c) of packed and strided tensors; tiled ones
 * and curves are in the tests of their layouts.
 */
#include "dense_cases.h"

#include "dense.h"
#include "random.h"

enum {
    RANK = 4
};

static void packed_offsets_lead_back(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (uint32_t round = 0; round < 1000; round++) {
        uint64_t shape[RANK], count;
        uint32_t rank = 1 + (uint32_t)random_below(&seed, RANK);
        for (uint32_t k = 0; k < rank; k++) shape[k] = 1 + random_below(&seed, 5);
        HurrayDescriptorFields fields = {.type_tag = HURRAY_TYPE_INT8,
                                         .rank = rank,
                                         .shape = shape,
                                         .layout = {.tag = (uint8_t)(1 + round % 2)}};
        expect_ok(hurray_shape_count(shape, rank, &count));
        expect_bijection(&fields, 0, (int64_t)count - 1);
    }
}

/* Dimensions in any order, reversed or not, with gaps or without. */
static void orderly_strides_lead_back(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (uint32_t round = 0; round < 1000; round++) {
        uint64_t shape[RANK];
        int64_t strides[RANK] = {0}, step = random_between(&seed, 1, 3), low = 0, high = 0;
        uint32_t rank = 1 + (uint32_t)random_below(&seed, RANK);
        uint32_t first = (uint32_t)random_below(&seed, rank);
        for (uint32_t i = 0; i < rank; i++) {
            uint32_t k = (first + i) % rank;
            shape[k] = 1 + random_below(&seed, 5);
            strides[k] = random_below(&seed, 2) == 0 ? step : -step;
            int64_t reach = ((int64_t)shape[k] - 1) * strides[k];
            *(reach < 0 ? &low : &high) += reach;
            step = step * (int64_t)shape[k] + random_between(&seed, 0, 2);
        }
        HurrayDescriptorFields fields = {
            .type_tag = HURRAY_TYPE_INT8,
            .rank = rank,
            .shape = shape,
            .layout = {.tag = HURRAY_LAYOUT_STRIDED, {.strides = strides}}};
        expect_bijection(&fields, low, high);
    }
}

/* Where two elements may share a place, nothing is said; a true inverse is never wrong. */
static void wild_strides_lead_back_or_nowhere(void **state) {
    (void)state;
    uint64_t seed = 3;
    uint32_t refused = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        uint64_t shape[RANK], index[RANK] = {0}, back[RANK];
        int64_t strides[RANK], offset = 0;
        uint32_t rank = 1 + (uint32_t)random_below(&seed, RANK);
        for (uint32_t k = 0; k < rank; k++) {
            shape[k] = 1 + random_below(&seed, 4);
            strides[k] = random_between(&seed, -20, 20);
            index[k] = random_below(&seed, shape[k]);
        }
        HurrayDescriptorFields fields = {
            .type_tag = HURRAY_TYPE_INT8,
            .rank = rank,
            .shape = shape,
            .layout = {.tag = HURRAY_LAYOUT_STRIDED, {.strides = strides}}};
        expect_ok(hurray_address_offset(&fields, index, &offset));
        HurrayStatus status = hurray_address_index(&fields, offset, back);
        if (status == HURRAY_OK) {
            assert_memory_equal(back, index, rank * sizeof(uint64_t));
        } else {
            assert_int_equal(status, HURRAY_ERR_UNSUPPORTED);
            refused++;
        }
    }
    assert_true(refused > 1000 && refused < 19000);
}

static void extremes(void **state) {
    (void)state;
    uint64_t shape[2] = {3, 2}, index[2];
    int64_t strides[2] = {INT64_MAX / 2, INT64_MIN};
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_BOOL,
        .rank = 2,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_STRIDED, {.strides = strides}}};
    expect_ok(hurray_address_index(&fields, INT64_MAX - 1, index));
    assert_true(index[0] == 2 && index[1] == 0);
    expect_ok(hurray_address_index(&fields, INT64_MIN, index));
    assert_true(index[0] == 0 && index[1] == 1);
    expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, hurray_address_index(&fields, INT64_MAX, index));
    strides[0] = 0;
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_address_index(&fields, 0, index));
    shape[0] = 1; /* of one element no stride matters */
    expect_ok(hurray_address_index(&fields, 0, index));
}

static void scalars_have_one_offset(void **state) {
    (void)state;
    HurrayDescriptorFields fields = {.type_tag = HURRAY_TYPE_INT8,
                                     .layout = {.tag = HURRAY_LAYOUT_ROW_MAJOR}};
    expect_ok(hurray_address_index(&fields, 0, NULL));
    expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, hurray_address_index(&fields, 1, NULL));
    expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, hurray_address_index(&fields, -1, NULL));
}

static void what_has_no_inverse(void **state) {
    (void)state;
    uint64_t shape[2] = {HURRAY_DYNAMIC, 4}, index[2] = {0, 0}, tile[2] = {2, 2};
    int64_t strides[2] = {4, 1}, offset = 77;
    HurrayTileLevel level = {.tile_shape = tile, .outer_layout = 1, .inner_layout = 1};
    uint32_t bits[2] = {2, 2};
    HurrayDescriptorFields fields = {.type_tag = HURRAY_TYPE_INT8, .rank = 2, .shape = shape};
    for (uint32_t tag = 0; tag < 256; tag++) {
        bool is_dense = hurray_layout_class((uint8_t)tag) == HURRAY_LAYOUT_CLASS_DENSE;
        HurrayStatus expected = is_dense ? HURRAY_ERR_INVALID_LAYOUT : HURRAY_ERR_UNSUPPORTED;
        fields.layout = (HurrayLayout){.tag = (uint8_t)tag, .strides = strides};
        if (tag == HURRAY_LAYOUT_TILED) fields.layout.tiled = (HurrayTiledLayout){1, &level};
        if (tag == HURRAY_LAYOUT_MORTON) fields.layout.morton_bits = bits;
        if (tag == HURRAY_LAYOUT_HILBERT) fields.layout.hilbert = (HurrayHilbertLayout){2, 2};
        shape[0] = HURRAY_DYNAMIC;
        expect_failure(expected, hurray_address_index(&fields, 0, index));
        if (tag != HURRAY_LAYOUT_STRIDED) { /* whose offsets need no shape */
            expect_failure(expected, hurray_address_offset(&fields, index, &offset));
        }
        if (!is_dense) continue;
        shape[0] = 4;
        expect_ok(hurray_address_index(&fields, 0, index));
        expect_failure(HURRAY_ERR_NULL_POINTER, hurray_address_index(NULL, 0, index));
        expect_failure(HURRAY_ERR_NULL_POINTER, hurray_address_index(&fields, 0, NULL));
        expect_failure(HURRAY_ERR_NULL_POINTER, hurray_address_offset(&fields, NULL, &offset));
        expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                       hurray_address_offset(&fields, (uint64_t[2]){0, 4}, &offset));
        expect_message("index[1] is 4");
        shape[0] = 0;
        expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, hurray_address_index(&fields, 0, index));
    }
    assert_int_equal(offset, 77);
}

/* Bits by the exabyte: no reach overflows unnoticed. */
static void digits_whose_reach_overflows(void **state) {
    (void)state;
    Digit digits[2] = {{.extent = 3, .step = 1}, {.extent = 3, .step = UINT64_C(1) << 63}};
    assert_false(hri_digits_sort(digits, 2));
    digits[0] = (Digit){.extent = 2, .step = UINT64_MAX};
    digits[1] = (Digit){.extent = 2, .step = 1};
    assert_false(hri_digits_sort(digits, 2));
    digits[0].step -= 1;
    assert_true(hri_digits_sort(digits, 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_offsets_lead_back),
        cmocka_unit_test(orderly_strides_lead_back),
        cmocka_unit_test(wild_strides_lead_back_or_nowhere),
        cmocka_unit_test(extremes),
        cmocka_unit_test(scalars_have_one_offset),
        cmocka_unit_test(what_has_no_inverse),
        cmocka_unit_test(digits_whose_reach_overflows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
