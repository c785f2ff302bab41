/* Element types and their sizes (src/element_type.c, spec 1.3). */
#include "expect.h"

#include <hurray/element_type.h>

/* Spec 1.3, row by row: name, tag, tier, bits, alignment. */
static const struct {
    const char *name;
    uint8_t tag, tier, bits, alignment;
    const char *nature; /* of f(loat), s(igned), i(nteger), c(omplex), standard (*) */
} spec[] = {
    {"float16", 0x01, 1, 16, 2, "fs*"},    {"bfloat16", 0x02, 1, 16, 2, "fs*"},
    {"float32", 0x03, 1, 32, 4, "fs*"},    {"float64", 0x04, 1, 64, 8, "fs*"},
    {"int8", 0x10, 1, 8, 1, "si*"},        {"uint8", 0x11, 1, 8, 1, "i*"},
    {"int16", 0x12, 1, 16, 2, "si*"},      {"uint16", 0x13, 1, 16, 2, "i*"},
    {"int32", 0x14, 1, 32, 4, "si*"},      {"uint32", 0x15, 1, 32, 4, "i*"},
    {"int64", 0x16, 1, 64, 8, "si*"},      {"uint64", 0x17, 1, 64, 8, "i*"},
    {"bool", 0x20, 1, 1, 1, "*"},          {"float8_e4m3", 0x40, 2, 8, 1, "fs"},
    {"float8_e5m2", 0x41, 2, 8, 1, "fs"},  {"float8_e8m0", 0x42, 2, 8, 1, "f"},
    {"float4_e2m1", 0x43, 2, 4, 1, "fs"},  {"float6_e2m3", 0x44, 2, 6, 1, "fs"},
    {"float6_e3m2", 0x45, 2, 6, 1, "fs"},  {"float128", 0x46, 2, 128, 16, "fs"},
    {"int4", 0x48, 2, 4, 1, "si"},         {"uint4", 0x49, 2, 4, 1, "i"},
    {"int2", 0x4A, 2, 2, 1, "si"},         {"uint2", 0x4B, 2, 2, 1, "i"},
    {"complex64", 0x50, 2, 64, 4, "fsc*"}, {"complex128", 0x51, 2, 128, 8, "fsc*"},
};
#define SPEC_COUNT (sizeof spec / sizeof spec[0])

static bool has(const char *nature, char letter) { return strchr(nature, letter) != NULL; }

static void every_row_of_the_table(void **state) {
    (void)state;
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        const HurrayElementType *type = hurray_element_type_from_tag(spec[i].tag);
        assert_non_null(type);
        assert_string_equal(type->name, spec[i].name);
        assert_int_equal(type->tag, spec[i].tag);
        assert_int_equal(type->tier, spec[i].tier);
        assert_int_equal(type->bits, spec[i].bits);
        assert_int_equal(type->alignment, spec[i].alignment);
        assert_int_equal(type->is_float, has(spec[i].nature, 'f'));
        assert_int_equal(type->is_signed, has(spec[i].nature, 's'));
        assert_int_equal(type->is_integer, has(spec[i].nature, 'i'));
        assert_int_equal(type->is_complex, has(spec[i].nature, 'c'));
        assert_int_equal(type->is_standard, has(spec[i].nature, '*'));
        assert_ptr_equal(hurray_element_type_from_name(spec[i].name), type);
        assert_ptr_equal(hurray_element_type_at((uint32_t)i), type);
    }
    assert_null(hurray_element_type_at((uint32_t)SPEC_COUNT));
    assert_null(hurray_element_type_at(UINT32_MAX));
}

static void no_other_tag_or_name(void **state) {
    (void)state;
    uint32_t named = 0;
    for (uint32_t tag = 0; tag < 256; tag++) {
        const HurrayElementType *type = hurray_element_type_from_tag((uint8_t)tag);
        if (type != NULL) named++;
        assert_true(type == NULL || type->tag == tag);
        assert_int_equal(hurray_element_type_is_private((uint8_t)tag), tag >= 0xF0 && tag <= 0xFE);
    }
    assert_int_equal(named, SPEC_COUNT);
    static const char *const strangers[] = {"", "float", "Float32", "float32 ", "float8", "uint1"};
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        assert_null(hurray_element_type_from_name(strangers[i]));
    }
    assert_null(hurray_element_type_from_name(NULL));
}

static void packing_of_every_width(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits <= 4096; bits++) {
        HurrayPacking packing = {99, 99, 99};
        bool valid =
            bits == 1 || bits == 2 || bits == 4 || bits == 6 || (bits != 0 && bits % 8 == 0);
        if (!valid) {
            expect_failure(HURRAY_ERR_INVALID_TYPE, hurray_packing_from_bits(bits, &packing));
            assert_int_equal(packing.bits, 99);
            continue;
        }
        expect_ok(hurray_packing_from_bits(bits, &packing));
        assert_int_equal(packing.bits, bits);
        /* The smallest number of whole elements in whole bytes. */
        assert_int_equal(packing.group_elements * bits, packing.group_bytes * 8);
        for (uint32_t fewer = 1; fewer < packing.group_elements; fewer++) {
            assert_int_not_equal(fewer * bits % 8, 0);
        }
    }
    HurrayPacking packing;
    expect_ok(hurray_packing_from_bits(UINT32_MAX - 7, &packing));
    assert_int_equal(packing.group_bytes, UINT32_MAX / 8);
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_packing_from_bits(8, NULL));
}

/* Sizes grow as the spec's formulas say, at each count around a byte or group boundary. */
static void sizes_of_small_counts(void **state) {
    (void)state;
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        for (uint64_t count = 0; count < 100; count++) {
            uint64_t bits = spec[i].bits, bytes = UINT64_MAX;
            uint64_t expected = bits == 6 ? (count + 3) / 4 * 3 : (count * bits + 7) / 8;
            expect_ok(hurray_element_type_size(spec[i].tag, count, &bytes));
            assert_int_equal(bytes, expected);
        }
    }
}

/* The largest count whose size is below 2^64, and the next one. count · bits may exceed 2^64. */
static void sizes_at_the_end_of_the_range(void **state) {
    (void)state;
    static const struct {
        uint32_t bits;
        uint64_t most, bytes; /* bytes of `most` elements */
    } rows[] = {
        {1, UINT64_MAX, UINT64_C(1) << 61},   {2, UINT64_MAX, UINT64_C(1) << 62},
        {4, UINT64_MAX, UINT64_C(1) << 63},   {6, UINT64_MAX, UINT64_C(3) << 62},
        {8, UINT64_MAX, UINT64_MAX},          {16, UINT64_MAX / 2, UINT64_MAX - 1},
        {24, UINT64_MAX / 3, UINT64_MAX},     {32, UINT64_MAX / 4, UINT64_MAX - 3},
        {64, UINT64_MAX / 8, UINT64_MAX - 7}, {128, UINT64_MAX / 16, UINT64_MAX - 15},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        HurrayPacking packing;
        uint64_t bytes = 5;
        expect_ok(hurray_packing_from_bits(rows[i].bits, &packing));
        if (rows[i].most != UINT64_MAX) {
            expect_failure(HURRAY_ERR_INVALID_LAYOUT,
                           hurray_packing_size(packing, rows[i].most + 1, &bytes));
            expect_failure(HURRAY_ERR_INVALID_LAYOUT,
                           hurray_packing_size(packing, UINT64_MAX, &bytes));
            assert_int_equal(bytes, 5);
        }
        expect_ok(hurray_packing_size(packing, rows[i].most, &bytes));
        assert_true(bytes == rows[i].bytes);
    }
}

static void sizes_of_what_is_no_type(void **state) {
    (void)state;
    uint64_t bytes = 5;
    for (uint32_t tag = 0; tag < 256; tag++) {
        if (hurray_element_type_from_tag((uint8_t)tag) != NULL) continue;
        expect_failure(HURRAY_ERR_INVALID_TYPE, hurray_element_type_size((uint8_t)tag, 1, &bytes));
        if (hurray_element_type_is_private((uint8_t)tag)) expect_message("private");
        assert_int_equal(bytes, 5);
    }
    HurrayPacking empty = {0, 0, 0};
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, hurray_packing_size(empty, 1, &bytes));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_packing_size((HurrayPacking){8, 1, 1}, 1, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_element_type_size(HURRAY_TYPE_INT8, 1, NULL));
    assert_int_equal(bytes, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_of_the_table),        cmocka_unit_test(no_other_tag_or_name),
        cmocka_unit_test(packing_of_every_width),        cmocka_unit_test(sizes_of_small_counts),
        cmocka_unit_test(sizes_at_the_end_of_the_range), cmocka_unit_test(sizes_of_what_is_no_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
