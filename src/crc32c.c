/*
 * CRC-32C (include/hurray/crc32c.h): the portable kernel, which takes eight bytes at a time through
 * eight tables, and the choice of a faster one.
 *
 * The register holds a polynomial of degree 31 over GF(2), reflected: bit 31 is the coefficient of
 * x^0. A byte that goes through multiplies it by x^8, modulo the generator.
 */
#include "crc32c.h"

#include "bytes.h"

/* x^32 is congruent to this. */
#define GENERATOR 0x82F63B78u

/*
 * tables[j][n]: the register n after j + 1 zero bytes. The register is linear, so the entries for
 * single bits, e0 … e7, make up all others. That of bit 7 in the first table is the generator.
 */
#define ENTRY(n, e0, e1, e2, e3, e4, e5, e6, e7)                                         \
    (((n) & 1 ? e0 : 0) ^ ((n) & 2 ? e1 : 0) ^ ((n) & 4 ? e2 : 0) ^ ((n) & 8 ? e3 : 0) ^ \
     ((n) & 16 ? e4 : 0) ^ ((n) & 32 ? e5 : 0) ^ ((n) & 64 ? e6 : 0) ^ ((n) & 128 ? e7 : 0))
#define ENTRIES_4(n, ...)                                                            \
    ENTRY(n, __VA_ARGS__), ENTRY((n) + 1, __VA_ARGS__), ENTRY((n) + 2, __VA_ARGS__), \
        ENTRY((n) + 3, __VA_ARGS__)
#define ENTRIES_16(n, ...)                                                                       \
    ENTRIES_4(n, __VA_ARGS__), ENTRIES_4((n) + 4, __VA_ARGS__), ENTRIES_4((n) + 8, __VA_ARGS__), \
        ENTRIES_4((n) + 12, __VA_ARGS__)
#define ENTRIES_64(n, ...)                                         \
    ENTRIES_16(n, __VA_ARGS__), ENTRIES_16((n) + 16, __VA_ARGS__), \
        ENTRIES_16((n) + 32, __VA_ARGS__), ENTRIES_16((n) + 48, __VA_ARGS__)
#define TABLE(...)                                                                          \
    {ENTRIES_64(0, __VA_ARGS__), ENTRIES_64(64, __VA_ARGS__), ENTRIES_64(128, __VA_ARGS__), \
     ENTRIES_64(192, __VA_ARGS__)}

/* clang-format off */
static const uint32_t tables[8][256] = {
    TABLE(0xF26B8303, 0xE13B70F7, 0xC79A971F, 0x8AD958CF,
          0x105EC76F, 0x20BD8EDE, 0x417B1DBC, GENERATOR),
    TABLE(0x13A29877, 0x274530EE, 0x4E8A61DC, 0x9D14C3B8,
          0x3FC5F181, 0x7F8BE302, 0xFF17C604, 0xFBC3FAF9),
    TABLE(0xA541927E, 0x4F6F520D, 0x9EDEA41A, 0x38513EC5,
          0x70A27D8A, 0xE144FB14, 0xC76580D9, 0x8B277743),
    TABLE(0xDD45AAB8, 0xBF672381, 0x7B2231F3, 0xF64463E6,
          0xE964B13D, 0xD725148B, 0xABA65FE7, 0x52A0C93F),
    TABLE(0x38116FAC, 0x7022DF58, 0xE045BEB0, 0xC5670B91,
          0x8F2261D3, 0x1BA8B557, 0x37516AAE, 0x6EA2D55C),
    TABLE(0xEF306B19, 0xDB8CA0C3, 0xB2F53777, 0x6006181F,
          0xC00C303E, 0x85F4168D, 0x0E045BEB, 0x1C08B7D6),
    TABLE(0x68032CC8, 0xD0065990, 0xA5E0C5D1, 0x4E2DFD53,
          0x9C5BFAA6, 0x3D5B83BD, 0x7AB7077A, 0xF56E0EF4),
    TABLE(0x493C7D27, 0x9278FA4E, 0x211D826D, 0x423B04DA,
          0x847609B4, 0x0D006599, 0x1A00CB32, 0x34019664),
};
/* clang-format on */

static uint32_t take_portable(uint32_t state, const uint8_t *bytes, size_t size) {
    for (; size >= 8; bytes += 8, size -= 8) {
        uint32_t low = state ^ load_u32(bytes), high = load_u32(bytes + 4);
        state = tables[7][low & 0xFF] ^ tables[6][low >> 8 & 0xFF] ^ tables[5][low >> 16 & 0xFF] ^
                tables[4][low >> 24] ^ tables[3][high & 0xFF] ^ tables[2][high >> 8 & 0xFF] ^
                tables[1][high >> 16 & 0xFF] ^ tables[0][high >> 24];
    }
    for (; size > 0; bytes++, size--) state = state >> 8 ^ tables[0][(state ^ *bytes) & 0xFF];
    return state;
}

HriCrc32cKernel *hri_crc32c_portable(void) { return take_portable; }

/* The product modulo the generator: b, 32 times as x·b, added up where a has a coefficient. */
static uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (int power = 31; power >= 0; power--) {
        product ^= b & (0u - (a >> power & 1u));
        b = b >> 1 ^ (GENERATOR & (0u - (b & 1u)));
    }
    return product;
}

uint32_t hri_crc32c_join(uint32_t first, uint32_t second, uint32_t third) {
    /* x^n for n the bits of one stretch, and of two. */
    const uint32_t one = 0x28461564, two = 0xBF455269;
    return multiply(two, first) ^ multiply(one, second) ^ third;
}

uint32_t hurray_crc32c(uint32_t crc, const void *bytes, size_t size) {
    if (size == 0) return crc;
    HriCrc32cKernel *kernel = hri_crc32c_x86();
    if (kernel == NULL) kernel = hri_crc32c_arm();
    if (kernel == NULL) kernel = take_portable;
    return ~kernel(~crc, bytes, size);
}
