/*
 * CRC-32C: published values, and every kernel that this machine can run against the definition, bit by
 * bit.
 */
#include "expect.h"

#include "crc32c.h"
#include "random.h"

static uint32_t by_definition(uint32_t state, const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) {
        state ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) state = state >> 1 ^ (state & 1 ? 0x82F63B78u : 0);
    }
    return state;
}

/* The check value of the algorithm, and the examples of RFC 3720, B.4. */
static void published_values(void **state) {
    (void)state;
    uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
    for (uint8_t i = 0; i < 32; i++) {
        ones[i] = 0xFF;
        up[i] = i;
        down[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(hurray_crc32c(0, "123456789", 9), 0xE3069283u);
    assert_int_equal(hurray_crc32c(0, zeros, 32), 0x8A9136AAu);
    assert_int_equal(hurray_crc32c(0, ones, 32), 0x62A8AB43u);
    assert_int_equal(hurray_crc32c(0, up, 32), 0x46DD794Eu);
    assert_int_equal(hurray_crc32c(0, down, 32), 0x113FDB5Cu);
    assert_int_equal(hurray_crc32c(0, NULL, 0), 0);
    assert_int_equal(hurray_crc32c(7, NULL, 0), 7);
}

/* Long enough for the interleaved stretches twice, at every remainder, from every address. */
static void check_kernel(HriCrc32cKernel *kernel) {
    if (kernel == NULL) skip(); /* not the instructions of this machine */
    const size_t stretches = 3 * HRI_CRC32C_STRETCH;
    uint64_t seed = 1;
    uint8_t *bytes = malloc(2 * stretches + 64);
    for (size_t i = 0; i < 2 * stretches + 64; i++) bytes[i] = (uint8_t)random_u64(&seed);
    for (size_t size = 0; size < 80; size++) {
        for (size_t from = 0; from < 9; from++) {
            uint32_t before = (uint32_t)random_u64(&seed);
            assert_int_equal(kernel(before, bytes + from, size),
                             by_definition(before, bytes + from, size));
        }
    }
    for (size_t round = 1; round <= 2; round++) {
        for (size_t off = 0; off < 20; off++) {
            size_t size = round * stretches - 10 + off;
            assert_int_equal(kernel(~0u, bytes + off, size), by_definition(~0u, bytes + off, size));
        }
    }
    free(bytes);
}

static void portable(void **state) {
    (void)state;
    check_kernel(hri_crc32c_portable());
}

static void x86(void **state) {
    (void)state;
    check_kernel(hri_crc32c_x86());
}

static void arm(void **state) {
    (void)state;
    check_kernel(hri_crc32c_arm());
}

/* The portable kernel, called as the instruction would be: the joining is right everywhere. */
static void stretches_join(void **state) {
    (void)state;
    const size_t stretch = HRI_CRC32C_STRETCH;
    HriCrc32cKernel *kernel = hri_crc32c_portable();
    uint64_t seed = 2;
    uint8_t *bytes = malloc(3 * stretch);
    for (size_t i = 0; i < 3 * stretch; i++) bytes[i] = (uint8_t)random_u64(&seed);
    uint32_t joined =
        hri_crc32c_join(kernel(0x12345678u, bytes, stretch), kernel(0, bytes + stretch, stretch),
                        kernel(0, bytes + 2 * stretch, stretch));
    assert_int_equal(joined, kernel(0x12345678u, bytes, 3 * stretch));
    free(bytes);
}

/* Wherever the bytes are cut in two. */
static void goes_on(void **state) {
    (void)state;
    uint8_t bytes[100];
    uint64_t seed = 3;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)random_u64(&seed);
    uint32_t whole = hurray_crc32c(0, bytes, sizeof bytes);
    for (size_t cut = 0; cut <= sizeof bytes; cut++) {
        uint32_t first = hurray_crc32c(0, bytes, cut);
        assert_int_equal(hurray_crc32c(first, bytes + cut, sizeof bytes - cut), whole);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_values),
        cmocka_unit_test(portable),
        cmocka_unit_test(x86),
        cmocka_unit_test(arm),
        cmocka_unit_test(stretches_join),
        cmocka_unit_test(goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
