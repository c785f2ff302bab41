/*
 * Packing of sub-byte elements. Every kernel this machine can run is compared with a reference that
 * moves one bit at a time, on random bytes, counts and addresses.
 */
#include "guarded.h"

#include <hurray/pack.h>

#include "pack.h"

static const uint32_t widths[] = {1, 2, 4, 6};
enum {
    WIDTHS = 4
};

static uint64_t seed = 1;

static size_t packed_size(uint32_t bits, size_t count) {
    return bits == 6 ? (count + 3) / 4 * 3 : (count * bits + 7) / 8;
}

/* ---- the reference: bit by bit. Groups of 6-bit elements follow each other without a gap. ---- */

static void pack_naively(uint32_t bits, const uint8_t *values, size_t count, uint8_t *packed) {
    memset(packed, 0, packed_size(bits, count));
    for (size_t i = 0; i < count; i++) {
        unsigned value = bits == 1 ? values[i] != 0 : values[i];
        for (unsigned j = 0; j < bits; j++) {
            size_t at = i * bits + j;
            packed[at / 8] = (uint8_t)(packed[at / 8] | (value >> j & 1) << at % 8);
        }
    }
}

static void unpack_naively(uint32_t bits, bool sign_extend, const uint8_t *packed, size_t count,
                           uint8_t *values) {
    for (size_t i = 0; i < count; i++) {
        int value = 0;
        for (unsigned j = 0; j < bits; j++) {
            size_t at = i * bits + j;
            value |= (packed[at / 8] >> at % 8 & 1) << j;
        }
        if (sign_extend && value >= 1 << (bits - 1)) value -= 1 << bits;
        values[i] = (uint8_t)value;
    }
}

/* ---- properties ---- */

static void check_kernels(const HriPackKernels *kernels, uint32_t bits, size_t count) {
    size_t size = packed_size(bits, count);
    Guarded values = guarded(&seed, count), packed = guarded(&seed, size),
            result = guarded(&seed, count);
    uint8_t *expected_packed = malloc(size + 1), *expected = malloc(count + 1);
    assert_non_null(expected_packed);
    assert_non_null(expected);
    fill_randomly(&seed, values.data, count);
    if (bits == 1) fill_sparsely(&seed, values.data, count);

    hri_pack_with(kernels, bits, values.data, count, packed.data);
    pack_naively(bits, values.data, count, expected_packed);
    assert_memory_equal(packed.data, expected_packed, size);
    for (int sign_extend = 0; sign_extend < 2; sign_extend++) {
        /* Whatever the unused bits hold is ignored. */
        unsigned used = (unsigned)(count * bits % 8);
        if (used != 0) packed.data[count * bits / 8] |= (uint8_t)(0xFFu << used);
        hri_unpack_with(kernels, bits, sign_extend, packed.data, count, result.data);
        unpack_naively(bits, sign_extend, packed.data, count, expected);
        assert_memory_equal(result.data, expected, count);
    }
    free(expected_packed);
    free(expected);
    release_guarded(&values);
    release_guarded(&packed);
    release_guarded(&result);
}

static void check_all_counts(const HriPackKernels *kernels) {
    if (kernels == NULL) skip();
    for (uint32_t i = 0; i < WIDTHS; i++) {
        for (size_t count = 0; count <= 300; count++) {
            for (int k = 0; k < 3; k++) check_kernels(kernels, widths[i], count);
        }
        for (int k = 0; k < 20; k++)
            check_kernels(kernels, widths[i], (size_t)random_below(&seed, 40000));
    }
}

static void portable_is_the_reference(void **state) {
    (void)state;
    check_all_counts(hri_pack_kernels_portable());
}

static void sse2_is_the_reference(void **state) {
    (void)state;
    check_all_counts(hri_pack_kernels_sse2());
}

static void avx2_is_the_reference(void **state) {
    (void)state;
    check_all_counts(hri_pack_kernels_avx2());
}

static void neon_is_the_reference(void **state) {
    (void)state;
    check_all_counts(hri_pack_kernels_neon());
}

/* A kernel leaves off at a whole byte, and what it says it did is all that it did. */
static void kernels_stop_at_whole_bytes(void **state) {
    (void)state;
    const HriPackKernels *all[] = {hri_pack_kernels_portable(), hri_pack_kernels_sse2(),
                                   hri_pack_kernels_avx2(), hri_pack_kernels_neon()};
    uint8_t values[400] = {0}, packed[400];
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        for (size_t w = 0; all[k] != NULL && w < WIDTHS; w++) {
            const HriPackWidth *width = &all[k]->widths[w];
            for (size_t count = 0; width->pack != NULL && count <= sizeof values; count++) {
                memset(packed, CANARY, sizeof packed);
                size_t done = width->pack(values, count, packed);
                assert_true(done <= count && (done == count || done % 8 == 0));
                size_t end = packed_size(widths[w], done);
                for (size_t i = end; i < sizeof packed; i++) assert_int_equal(packed[i], CANARY);
            }
        }
    }
}

static void unpacking_undoes_packing(void **state) {
    (void)state;
    for (int round = 0; round < 2000; round++) {
        uint32_t bits = widths[random_below(&seed, WIDTHS)];
        size_t count = (size_t)random_below(&seed, 300), size = packed_size(bits, count);
        Guarded values = guarded(&seed, count), packed = guarded(&seed, size),
                result = guarded(&seed, count);
        fill_randomly(&seed, values.data, count);
        for (size_t i = 0; i < count; i++) {
            values.data[i] = (uint8_t)(values.data[i] & ((1u << bits) - 1));
        }
        expect_ok(hurray_pack_bits(bits, values.data, count, packed.data));
        expect_ok(hurray_unpack_bits(bits, false, packed.data, count, result.data));
        assert_memory_equal(values.data, result.data, count);
        expect_ok(hurray_unpack_bits(bits, true, packed.data, count, result.data));
        for (size_t i = 0; i < count; i++) {
            int value = values.data[i];
            if (value >= 1 << (bits - 1)) value -= 1 << bits;
            assert_int_equal((int8_t)result.data[i], value);
        }
        release_guarded(&values);
        release_guarded(&packed);
        release_guarded(&result);
    }
}

static void large_arrays(void **state) {
    (void)state;
    size_t count = (1u << 20) + 13;
    uint8_t *values = malloc(count), *packed = malloc(count), *expected = malloc(count);
    assert_true(values != NULL && packed != NULL && expected != NULL);
    for (uint32_t i = 0; i < WIDTHS; i++) {
        fill_sparsely(&seed, values, count);
        expect_ok(hurray_pack_bits(widths[i], values, count, packed));
        pack_naively(widths[i], values, count, expected);
        assert_memory_equal(packed, expected, packed_size(widths[i], count));
        expect_ok(hurray_unpack_bits(widths[i], true, packed, count, values));
        unpack_naively(widths[i], true, packed, count, expected);
        assert_memory_equal(values, expected, count);
    }
    free(values);
    free(packed);
    free(expected);
}

/* ---- examples ---- */

static void examples_of_the_specification(void **state) {
    (void)state;
    const uint8_t truth[] = {1, 0, 1, 1, 0}, nibbles[] = {5, 12, 3}, pairs[] = {3, 1, 2};
    const uint8_t sixes[] = {1, 2, 4, 8};
    uint8_t packed[3];
    expect_ok(hurray_pack_bits(1, truth, 5, packed));
    assert_memory_equal(packed, "\x0D", 1);
    expect_ok(hurray_pack_bits(4, nibbles, 3, packed));
    assert_memory_equal(packed, "\xC5\x03", 2);
    expect_ok(hurray_pack_bits(2, pairs, 3, packed));
    assert_memory_equal(packed, "\x27", 1);
    expect_ok(hurray_pack_bits(6, sixes, 4, packed));
    assert_memory_equal(packed, "\x81\x40\x20", 3);
}

static void a_byte_is_true_unless_zero_and_cut_otherwise(void **state) {
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++) {
        uint8_t value = (uint8_t)byte, packed[3];
        expect_ok(hurray_pack_bits(1, &value, 1, packed));
        assert_int_equal(packed[0], byte != 0);
        expect_ok(hurray_pack_bits(4, &value, 1, packed));
        assert_int_equal(packed[0], byte & 15);
        expect_ok(hurray_pack_bits(6, &value, 1, packed));
        assert_int_equal(packed[0], byte & 63);
        assert_true(packed[1] == 0 && packed[2] == 0);
    }
}

static void bad_arguments(void **state) {
    (void)state;
    uint8_t byte = 0, out[3] = {CANARY, CANARY, CANARY};
    const uint32_t others[] = {0, 3, 5, 7, 8, 9, 16, UINT32_MAX};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        expect_failure(HURRAY_ERR_INVALID_ARGUMENT, hurray_pack_bits(others[i], &byte, 1, out));
        expect_failure(HURRAY_ERR_INVALID_ARGUMENT,
                       hurray_unpack_bits(others[i], false, &byte, 1, out));
    }
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_pack_bits(1, NULL, 1, out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_pack_bits(1, &byte, 1, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_unpack_bits(6, true, NULL, 1, out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_unpack_bits(6, true, &byte, 1, NULL));
    expect_ok(hurray_pack_bits(2, NULL, 0, NULL));
    expect_ok(hurray_unpack_bits(2, false, NULL, 0, NULL));
    assert_true(out[0] == CANARY && out[1] == CANARY && out[2] == CANARY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(portable_is_the_reference),
        cmocka_unit_test(sse2_is_the_reference),
        cmocka_unit_test(avx2_is_the_reference),
        cmocka_unit_test(neon_is_the_reference),
        cmocka_unit_test(kernels_stop_at_whole_bytes),
        cmocka_unit_test(unpacking_undoes_packing),
        cmocka_unit_test(large_arrays),
        cmocka_unit_test(examples_of_the_specification),
        cmocka_unit_test(a_byte_is_true_unless_zero_and_cut_otherwise),
        cmocka_unit_test(bad_arguments),
    };
    return cmocka_run_group_tests_name("pack", tests, NULL, NULL);
}
