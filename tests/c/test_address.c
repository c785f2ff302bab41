/* From a logical index to the place of an element (src/address.c, spec 2). */
#include "expect.h"

#include <hurray/address.h>

#include "random.h"

static const uint8_t types[] = {
    HURRAY_TYPE_BOOL,  HURRAY_TYPE_UINT2,   HURRAY_TYPE_INT4,    HURRAY_TYPE_FLOAT6_E3M2,
    HURRAY_TYPE_UINT8, HURRAY_TYPE_FLOAT16, HURRAY_TYPE_FLOAT64, HURRAY_TYPE_FLOAT128,
};
#define TYPE_COUNT (sizeof types / sizeof types[0])

/* The sum of index times stride; for row- and column-major tensors, with the strides of the shape. */
static void offsets_are_sums_of_strides(void **state) {
    (void)state;
    uint64_t seed = 6;
    for (int round = 0; round < 20000; round++) {
        uint64_t shape[5], index[5];
        int64_t given[5], strides[5], reported[5];
        uint8_t tag = (uint8_t)(1 + random_below(&seed, 3));
        uint32_t rank = (tag == HURRAY_LAYOUT_ROW_MAJOR ? 0 : 1) + (uint32_t)random_below(&seed, 5);
        int64_t expected = 0;
        for (uint32_t k = 0; k < rank; k++) {
            shape[k] = 1 + random_below(&seed, 9);
            index[k] = random_below(&seed, shape[k]);
            given[k] = random_between(&seed, -1000, 1000);
        }
        if (tag == HURRAY_LAYOUT_ROW_MAJOR) hurray_shape_row_major_strides(shape, rank, strides);
        if (tag == HURRAY_LAYOUT_COL_MAJOR) hurray_shape_col_major_strides(shape, rank, strides);
        if (tag == HURRAY_LAYOUT_STRIDED) memcpy(strides, given, sizeof given);
        for (uint32_t k = 0; k < rank; k++) expected += (int64_t)index[k] * strides[k];
        HurrayDescriptorFields fields = {
            .type_tag = HURRAY_TYPE_INT8, .rank = rank, .shape = shape, .layout = {tag, {given}}};
        int64_t offset = -1;
        expect_ok(hurray_address_offset(&fields, index, &offset));
        assert_int_equal(offset, expected);
        expect_ok(hurray_address_strides(&fields, reported));
        assert_memory_equal(reported, strides, rank * sizeof(int64_t));

        if (rank == 0) continue;
        uint32_t outside = (uint32_t)random_below(&seed, rank);
        index[outside] = random_below(&seed, 2) == 0 ? shape[outside] : UINT64_MAX;
        offset = 77;
        expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                       hurray_address_offset(&fields, index, &offset));
        char name[16] = "index[0]";
        name[6] = (char)('0' + outside);
        expect_message(name);
        assert_int_equal(offset, 77);
    }
}

/* Counting bits from the start of the buffer, element o begins at 8 · byte_offset + o · width,
 * also where o is negative, and also where four elements share three bytes. */
static void places_count_bits_from_byte_offset(void **state) {
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        int64_t bits = hurray_element_type_from_tag(types[i])->bits;
        HurrayDescriptorFields fields = {.type_tag = types[i], .byte_offset = 1000};
        for (int64_t offset = -60; offset <= 60; offset++) {
            HurrayElementPlace place = {0, 99};
            expect_ok(hurray_address_place(&fields, offset, &place));
            assert_int_equal((int64_t)place.byte * 8 + place.bit, 8000 + offset * bits);
            assert_true(place.bit < 8);
            if (bits >= 8) assert_int_equal(place.bit, 0);
        }
    }
}

static void places_of_private_types(void **state) {
    (void)state;
    HurrayExtensionType wide = {.bit_width = 24, .packing_factor = 1};
    HurrayExtensionType narrow = {.bit_width = 2, .packing_factor = 4};
    HurrayDescriptorFields fields = {.type_tag = 0xF7, .byte_offset = 5, .extension_type = &wide};
    HurrayElementPlace place;
    expect_ok(hurray_address_place(&fields, 3, &place));
    assert_int_equal(place.byte, 14);
    assert_int_equal(place.bit, 0);
    fields.extension_type = &narrow;
    expect_ok(hurray_address_place(&fields, 7, &place));
    assert_int_equal(place.byte, 6);
    assert_int_equal(place.bit, 6);
    fields.extension_type = NULL;
    place.byte = 77;
    expect_failure(HURRAY_ERR_INVALID_TYPE, hurray_address_place(&fields, 0, &place));
    assert_int_equal(place.byte, 77);
}

/* Blocks are stored whole: a partial last one stretches its axis, and what comes before. */
static void quantization_padding_counts_in_packed_strides(void **state) {
    (void)state;
    uint64_t shape[3] = {2, 10, 3};
    HurrayQuantization blocks = {.scheme = HURRAY_SCHEME_PER_BLOCK,
                                 .scale_type = HURRAY_TYPE_FLOAT32,
                                 .axis = 1,
                                 .block_size = 8,
                                 .scale_buffer = 1,
                                 .zero_point_buffer = HURRAY_NO_BUFFER};
    HurrayDescriptorFields fields = {.type_tag = HURRAY_TYPE_INT8,
                                     .rank = 3,
                                     .shape = shape,
                                     .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
                                     .quantization = &blocks};
    int64_t strides[3];
    expect_ok(hurray_address_strides(&fields, strides));
    const int64_t row_major[3] = {48, 3, 1};
    assert_memory_equal(strides, row_major, sizeof row_major);
    fields.layout.tag = HURRAY_LAYOUT_COL_MAJOR;
    expect_ok(hurray_address_strides(&fields, strides));
    const int64_t col_major[3] = {1, 2, 32};
    assert_memory_equal(strides, col_major, sizeof col_major);
}

/* Along a dynamic dimension every index is in bounds; bits of 2^61 bytes are 2^64. */
static void offsets_beyond_63_bits_do_not_wrap(void **state) {
    (void)state;
    uint64_t shape[2] = {HURRAY_DYNAMIC, 4}, index[2] = {UINT64_C(1) << 40, 1};
    int64_t strides[2] = {INT64_C(1) << 22, -2}, offset = 77;
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_BOOL,
        .rank = 2,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_STRIDED, .strides = strides},
    };
    expect_ok(hurray_address_offset(&fields, index, &offset));
    assert_int_equal(offset, (INT64_C(1) << 62) - 2);
    offset = 77;
    for (uint32_t shift = 23; shift < 62; shift++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            strides[0] = sign * (INT64_C(1) << shift);
            strides[1] = 2 * sign;
            expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_address_offset(&fields, index, &offset));
            expect_message("2^63");
        }
    }
    fields.layout = (HurrayLayout){HURRAY_LAYOUT_ROW_MAJOR, {NULL}};
    shape[0] = index[0] = UINT64_MAX - 1;
    shape[1] = 1;
    index[0] -= 1;
    index[1] = 0;
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_address_offset(&fields, index, &offset));
    assert_int_equal(offset, 77);
    index[0] = INT64_MAX;
    expect_ok(hurray_address_offset(&fields, index, &offset));
    assert_true(offset == INT64_MAX);
}

/* A permissive reader lets padding be left out. Where elements lie then, nobody knows. */
static void without_their_padding_elements_have_no_place(void **state) {
    (void)state;
    uint64_t shape[2] = {2, 10}, index[2] = {1, 9}, required = 0;
    HurrayQuantization blocks = {.scheme = HURRAY_SCHEME_NF4,
                                 .axis = 1,
                                 .block_size = 8,
                                 .scale_buffer = 1,
                                 .zero_point_buffer = HURRAY_NO_BUFFER};
    HurrayBufferHandle buffers[2] = {{.alignment = 64}, {.byte_size = 16, .alignment = 64}};
    HurrayDescriptorFields fields = {.type_tag = HURRAY_TYPE_UINT4,
                                     .rank = 2,
                                     .shape = shape,
                                     .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
                                     .buffer_count = 2,
                                     .buffers = buffers,
                                     .quantization = &blocks,
                                     .permissive = true};
    for (uint8_t tag = HURRAY_LAYOUT_ROW_MAJOR; tag <= HURRAY_LAYOUT_COL_MAJOR; tag++) {
        int64_t strides[2], offset = 77;
        fields.layout.tag = tag;
        expect_ok(hurray_descriptor_required_bytes(&fields, 0, &required, NULL));
        assert_int_equal(required, 10);
        fields.permissive = false;
        expect_ok(hurray_descriptor_required_bytes(&fields, 0, &required, NULL));
        assert_int_equal(required, 16);
        fields.permissive = true;
        buffers[0].byte_size = required;
        expect_ok(hurray_descriptor_validate(&fields));
        expect_ok(hurray_address_strides(&fields, strides));
        expect_ok(hurray_address_offset(&fields, index, &offset));
        assert_int_equal(offset, tag == HURRAY_LAYOUT_ROW_MAJOR ? 25 : 19);
        buffers[0].byte_size = required - 1;
        expect_ok(hurray_descriptor_validate(&fields));
        expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_address_strides(&fields, strides));
        expect_message("padding");
        expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_address_offset(&fields, index, &offset));
        shape[0] = 0; /* of no elements, strides are known */
        expect_ok(hurray_address_strides(&fields, strides));
        shape[0] = 2;
    }
}

static void what_has_no_offset(void **state) {
    (void)state;
    uint64_t shape[2] = {HURRAY_DYNAMIC, 4}, index[2] = {0, 0};
    int64_t strides[2] = {77, 77}, offset = 77;
    HurrayElementPlace place;
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_INT8, .rank = 2, .shape = shape, .layout = {0, {strides}}};
    for (uint32_t tag = 0; tag < 256; tag++) {
        fields.layout.tag = (uint8_t)tag;
        if (tag == HURRAY_LAYOUT_STRIDED) { /* strides that are given are known */
            expect_ok(hurray_address_offset(&fields, index, &offset));
            assert_int_equal(offset, 0);
            offset = 77;
            continue;
        }
        bool packed = tag == HURRAY_LAYOUT_ROW_MAJOR || tag == HURRAY_LAYOUT_COL_MAJOR;
        bool dense = hurray_layout_class((uint8_t)tag) == HURRAY_LAYOUT_CLASS_DENSE;
        expect_failure(dense ? HURRAY_ERR_INVALID_LAYOUT : HURRAY_ERR_UNSUPPORTED,
                       hurray_address_offset(&fields, index, &offset));
        expect_failure(packed ? HURRAY_ERR_INVALID_LAYOUT : HURRAY_ERR_UNSUPPORTED,
                       hurray_address_strides(&fields, strides));
    }
    assert_true(offset == 77 && strides[0] == 77);
    fields.layout.tag = HURRAY_LAYOUT_STRIDED;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_address_offset(NULL, index, &offset));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_address_offset(&fields, NULL, &offset));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_address_offset(&fields, index, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_address_strides(NULL, strides));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_address_strides(&fields, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_address_place(NULL, 0, &place));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_address_place(&fields, 0, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_beyond_63_bits_do_not_wrap),
        cmocka_unit_test(offsets_are_sums_of_strides),
        cmocka_unit_test(places_count_bits_from_byte_offset),
        cmocka_unit_test(places_of_private_types),
        cmocka_unit_test(quantization_padding_counts_in_packed_strides),
        cmocka_unit_test(without_their_padding_elements_have_no_place),
        cmocka_unit_test(what_has_no_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
