/* Aligned memory (src/memory.c, include/hurray/memory.h). */
#include "expect.h"

#include <hurray/memory.h>

static const size_t sizes[] = {0, 1, 7, 63, 64, 65, 4095, 4096, 100000, 3000000};
#define SIZE_COUNT (sizeof sizes / sizeof sizes[0])

static void expect_aligned(const void *data, size_t alignment) {
    assert_non_null(data);
    assert_int_equal((uintptr_t)data & (alignment - 1), 0);
}

static uint8_t pattern(size_t i) { return (uint8_t)(i * 31 + i / 251 + 1); }

static void fill(uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; i++) data[i] = pattern(i);
}

static void expect_filled(const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (data[i] != pattern(i)) fail_msg("byte %zu of %zu is not what it was", i, size);
    }
}

static void every_power_of_two_is_kept(void **state) {
    (void)state;
    for (size_t alignment = 1; alignment <= (size_t)1 << 20; alignment *= 2) {
        for (size_t i = 0; i < SIZE_COUNT; i++) {
            uint8_t *data = hurray_aligned_alloc(sizes[i], alignment, false);
            expect_aligned(data, alignment);
            fill(data, sizes[i]); /* all of it is ours: ASan would say otherwise */
            expect_filled(data, sizes[i]);
            hurray_aligned_free(data);
        }
    }
}

static void zeroed_is_zero_also_where_memory_was_used_before(void **state) {
    (void)state;
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        uint8_t *used = hurray_aligned_alloc(sizes[i], 64, false);
        assert_non_null(used);
        fill(used, sizes[i]);
        hurray_aligned_free(used);
        uint8_t *data = hurray_aligned_alloc(sizes[i], 64, true);
        expect_aligned(data, 64);
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(data[k], 0);
        hurray_aligned_free(data);
    }
}

/* From any size and alignment to any other: the common part of the contents stays. */
static void resize_keeps_contents_and_alignment(void **state) {
    (void)state;
    static const size_t alignments[] = {1, 8, 64, 4096, 65536};
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        for (size_t k = 0; k < SIZE_COUNT; k++) {
            for (size_t a = 0; a < 25; a++) {
                uint8_t *data = hurray_aligned_alloc(sizes[i], alignments[a / 5], false);
                fill(data, sizes[i]);
                data = hurray_aligned_resize(data, sizes[k], alignments[a % 5]);
                expect_aligned(data, alignments[a % 5]);
                expect_filled(data, sizes[i] < sizes[k] ? sizes[i] : sizes[k]);
                fill(data, sizes[k]);
                expect_filled(data, sizes[k]);
                hurray_aligned_free(data);
            }
        }
    }
}

static void large_data_begins_at_a_huge_page_and_keeps_its_contents(void **state) {
    (void)state;
    static const size_t large[] = {100, (4u << 20) - 1, 4u << 20, (9u << 20) + 5};
    static const size_t alignments[] = {4096, 4u << 20};
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 4; k++) {
            for (size_t a = 0; a < 4; a++) {
                uint8_t *data = hurray_aligned_alloc(large[i], alignments[a / 2], i % 2 == 0);
                expect_aligned(data, i < 2 ? alignments[a / 2] : 2u << 20);
                if (i == 2) assert_true(data[0] == 0 && data[large[i] - 1] == 0);
                fill(data, large[i]);
                data = hurray_aligned_resize(data, large[k], alignments[a % 2]);
                expect_aligned(data, alignments[a % 2]);
                expect_filled(data, large[i] < large[k] ? large[i] : large[k]);
                memset(data, 1, large[k]);
                hurray_aligned_free(data);
            }
        }
    }
}

static void resizing_nothing_allocates(void **state) {
    (void)state;
    uint8_t *data = hurray_aligned_resize(NULL, 100, 128);
    expect_aligned(data, 128);
    fill(data, 100);
    hurray_aligned_free(data);
    hurray_aligned_free(NULL);
}

/* Sizes that overflow with alignment and header fail before malloc is asked, and change nothing. */
static void impossible_sizes_and_alignments_give_null(void **state) {
    (void)state;
    for (size_t alignment = 1; alignment != 0; alignment *= 2) {
        for (size_t below = 0; below < 16; below++) {
            assert_null(hurray_aligned_alloc(SIZE_MAX - below, alignment, false));
            assert_null(hurray_aligned_alloc(SIZE_MAX - below, alignment, true));
        }
        assert_null(hurray_aligned_alloc(SIZE_MAX - alignment + 1, alignment, false));
    }
    static const size_t no_powers[] = {0, 3, 6, 63, 65, 96, SIZE_MAX};
    for (size_t i = 0; i < sizeof no_powers / sizeof no_powers[0]; i++) {
        assert_null(hurray_aligned_alloc(10, no_powers[i], false));
        assert_null(hurray_aligned_resize(NULL, 10, no_powers[i]));
    }
    uint8_t *data = hurray_aligned_alloc(1000, 64, false);
    fill(data, 1000);
    assert_null(hurray_aligned_resize(data, SIZE_MAX - 40, 64));
    assert_null(hurray_aligned_resize(data, 10, 48));
    expect_filled(data, 1000);
    hurray_aligned_free(data);
}

static void the_default_allocator_is_these_functions(void **state) {
    (void)state;
    const HurrayAllocator *allocator = hurray_default_allocator();
    assert_ptr_equal(allocator, hurray_default_allocator());
    uint8_t *data = allocator->allocate(5000, 4096, true, allocator->context);
    expect_aligned(data, 4096);
    for (size_t i = 0; i < 5000; i++) assert_int_equal(data[i], 0);
    fill(data, 5000);
    data = hurray_aligned_resize(data, 9000, 4096);
    expect_filled(data, 5000);
    allocator->release(data, 9000, allocator->context);
}

static void measured_alignment_is_the_lowest_bit_up_to_a_page(void **state) {
    (void)state;
    assert_int_equal(hurray_measured_alignment(NULL), 1);
    for (uint32_t bit = 0; bit < 8 * sizeof(uintptr_t); bit++) {
        uint32_t expected = bit < 12 ? 1u << bit : 4096;
        uintptr_t address = (uintptr_t)1 << bit;
        assert_int_equal(hurray_measured_alignment((void *)address), expected);
        for (uint32_t higher = bit + 1; higher < 8 * sizeof(uintptr_t); higher++) {
            uintptr_t more = address | (uintptr_t)1 << higher;
            assert_int_equal(hurray_measured_alignment((void *)more), expected);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_power_of_two_is_kept),
        cmocka_unit_test(zeroed_is_zero_also_where_memory_was_used_before),
        cmocka_unit_test(resize_keeps_contents_and_alignment),
        cmocka_unit_test(large_data_begins_at_a_huge_page_and_keeps_its_contents),
        cmocka_unit_test(resizing_nothing_allocates),
        cmocka_unit_test(impossible_sizes_and_alignments_give_null),
        cmocka_unit_test(the_default_allocator_is_these_functions),
        cmocka_unit_test(measured_alignment_is_the_lowest_bit_up_to_a_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
