/* Overflow-safe arithmetic (src/checked.h), compared with what the compiler's builtins find. */
#include "expect.h"

#include "checked.h"
#include "random.h"

/* Values around which overflow begins, and some in between. */
static const uint64_t edges[] = {
    0,
    1,
    2,
    3,
    7,
    8,
    UINT32_MAX - 1,
    UINT32_MAX,
    (uint64_t)UINT32_MAX + 1,
    (uint64_t)UINT32_MAX + 2,
    INT64_MAX - 1,
    INT64_MAX,
    (uint64_t)INT64_MAX + 1,
    (uint64_t)INT64_MAX + 2,
    UINT64_MAX / 3,
    UINT64_MAX / 3 + 1,
    UINT64_MAX - 1,
    UINT64_MAX,
};
#define EDGE_COUNT (sizeof edges / sizeof edges[0])

#define UNTOUCHED UINT64_C(0xA5A5A5A5A5A5A5A5)

static void compare(uint64_t a, uint64_t b) {
    uint64_t exact, out = UNTOUCHED;
    bool fits = !__builtin_add_overflow(a, b, &exact);
    assert_int_equal(checked_add_u64(a, b, &out), fits);
    assert_true(out == (fits ? exact : UNTOUCHED));

    out = UNTOUCHED;
    fits = !__builtin_mul_overflow(a, b, &exact);
    assert_int_equal(checked_mul_u64(a, b, &out), fits);
    assert_true(out == (fits ? exact : UNTOUCHED));

    if (b != 0) { /* q is the least with q · b >= a */
        uint64_t q = divide_up_u64(a, b), product;
        assert_true(__builtin_mul_overflow(q, b, &product) || product >= a);
        assert_true(q == 0 ? a == 0 : (q - 1) * b < a);
    }
}

static void sums_products_and_quotients(void **state) {
    (void)state;
    for (size_t i = 0; i < EDGE_COUNT; i++) {
        for (size_t k = 0; k < EDGE_COUNT; k++) compare(edges[i], edges[k]);
    }
    uint64_t seed = 1;
    for (int i = 0; i < 100000; i++) {
        uint64_t a = random_u64(&seed) >> random_below(&seed, 64);
        compare(a, random_u64(&seed) >> random_below(&seed, 64));
    }
}

/* Numbers may stand in both operands and the result. */
static void results_may_replace_operands(void **state) {
    (void)state;
    uint64_t value = 20;
    assert_true(checked_add_u64(value, value, &value));
    assert_true(value == 40);
    assert_true(checked_mul_u64(value, value, &value));
    assert_true(value == 1600);
    assert_false(checked_mul_u64(value, UINT64_MAX, &value));
    assert_true(value == 1600);
}

static void sizes(void **state) {
    (void)state;
    for (size_t i = 0; i < EDGE_COUNT; i++) {
        size_t out = 77;
        bool fits = (uint64_t)(size_t)edges[i] == edges[i];
        assert_int_equal(checked_size(edges[i], &out), fits);
        assert_true(out == (fits ? (size_t)edges[i] : 77));
    }
}

static void magnitudes(void **state) {
    (void)state;
    assert_true(magnitude_i64(INT64_MIN) == UINT64_C(1) << 63);
    assert_true(magnitude_i64(0) == 0);
    for (size_t i = 0; i < EDGE_COUNT; i++) {
        if (edges[i] > INT64_MAX) continue;
        assert_true(magnitude_i64((int64_t)edges[i]) == edges[i]);
        assert_true(magnitude_i64(-(int64_t)edges[i]) == edges[i]);
    }
}

static void powers_of_two(void **state) {
    (void)state;
    assert_false(is_power_of_two_u64(0));
    for (uint32_t high = 0; high < 64; high++) {
        assert_true(is_power_of_two_u64(UINT64_C(1) << high));
        for (uint32_t low = 0; low < high; low++) {
            assert_false(is_power_of_two_u64(UINT64_C(1) << high | UINT64_C(1) << low));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_products_and_quotients),
        cmocka_unit_test(results_may_replace_operands),
        cmocka_unit_test(sizes),
        cmocka_unit_test(magnitudes),
        cmocka_unit_test(powers_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
