/*
 * Packing with NEON, which every 64-bit ARM CPU has. Nothing on other architectures, 32-bit ARM
 * included.
 *
 * The loads and stores that spread consecutive elements over two to four registers do most of the
 * work: register k then holds the elements at place k of each group.
 */
#include "pack.h"

#if defined(__aarch64__) && defined(__ARM_NEON)

#include <arm_neon.h>

/* 1, 2, 4, … 128, twice: the bit that a byte's element has in its packed byte. */
static uint8x16_t own_bits(void) {
    static const uint8_t bits[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    return vld1q_u8(bits);
}

/* The bits of non-zero bytes, each at its place. */
static inline uint8x16_t placed_truth(const uint8_t *values, uint8x16_t places) {
    uint8x16_t bytes = vld1q_u8(values);
    return vandq_u8(vtstq_u8(bytes, bytes), places);
}

static inline uint8x16_t low_bits(uint8x16_t value, int bits) {
    return vandq_u8(value, vdupq_n_u8((uint8_t)((1 << bits) - 1)));
}

static inline uint8x16_t extended(uint8x16_t value, uint8x16_t sign) {
    return vsubq_u8(veorq_u8(value, sign), sign);
}

static size_t pack_1_neon(const uint8_t *values, size_t count, uint8_t *packed) {
    const uint8x16_t places = own_bits();
    size_t i = 0;
    for (; count - i >= 64; i += 64) {
        /* Pairwise sums, three times, of eight bytes with a bit each are their packed byte. */
        uint8x16_t low =
            vpaddq_u8(placed_truth(values + i, places), placed_truth(values + i + 16, places));
        uint8x16_t high =
            vpaddq_u8(placed_truth(values + i + 32, places), placed_truth(values + i + 48, places));
        uint8x16_t sums = vpaddq_u8(low, high);
        vst1_u8(packed + i / 8, vget_low_u8(vpaddq_u8(sums, sums)));
    }
    return i;
}

static size_t unpack_1_neon(const uint8_t *packed, size_t count, uint8_t sign, uint8_t *values) {
    const uint8x16_t places = own_bits();
    const uint8x16_t one = vdupq_n_u8(sign ? 0xFF : 1);
    size_t i = 0;
    for (; count - i >= 16; i += 16) {
        uint8x16_t bytes = vcombine_u8(vdup_n_u8(packed[i / 8]), vdup_n_u8(packed[i / 8 + 1]));
        vst1q_u8(values + i, vandq_u8(vtstq_u8(bytes, places), one));
    }
    return i;
}

static size_t pack_2_neon(const uint8_t *values, size_t count, uint8_t *packed) {
    size_t i = 0;
    for (; count - i >= 64; i += 64) {
        uint8x16x4_t v = vld4q_u8(values + i);
        uint8x16_t low = vorrq_u8(low_bits(v.val[0], 2), vshlq_n_u8(low_bits(v.val[1], 2), 2));
        uint8x16_t high = vorrq_u8(vshlq_n_u8(low_bits(v.val[2], 2), 4), vshlq_n_u8(v.val[3], 6));
        vst1q_u8(packed + i / 4, vorrq_u8(low, high));
    }
    return i;
}

static size_t unpack_2_neon(const uint8_t *packed, size_t count, uint8_t sign, uint8_t *values) {
    const uint8x16_t signs = vdupq_n_u8(sign);
    size_t i = 0;
    for (; count - i >= 64; i += 64) {
        uint8x16_t bytes = vld1q_u8(packed + i / 4);
        uint8x16x4_t v;
        v.val[0] = extended(low_bits(bytes, 2), signs);
        v.val[1] = extended(low_bits(vshrq_n_u8(bytes, 2), 2), signs);
        v.val[2] = extended(low_bits(vshrq_n_u8(bytes, 4), 2), signs);
        v.val[3] = extended(vshrq_n_u8(bytes, 6), signs);
        vst4q_u8(values + i, v);
    }
    return i;
}

static size_t pack_4_neon(const uint8_t *values, size_t count, uint8_t *packed) {
    size_t i = 0;
    for (; count - i >= 32; i += 32) {
        uint8x16x2_t v = vld2q_u8(values + i);
        vst1q_u8(packed + i / 2, vorrq_u8(low_bits(v.val[0], 4), vshlq_n_u8(v.val[1], 4)));
    }
    return i;
}

static size_t unpack_4_neon(const uint8_t *packed, size_t count, uint8_t sign, uint8_t *values) {
    const uint8x16_t signs = vdupq_n_u8(sign);
    size_t i = 0;
    for (; count - i >= 32; i += 32) {
        uint8x16_t bytes = vld1q_u8(packed + i / 2);
        uint8x16x2_t v;
        v.val[0] = extended(low_bits(bytes, 4), signs);
        v.val[1] = extended(vshrq_n_u8(bytes, 4), signs);
        vst2q_u8(values + i, v);
    }
    return i;
}

static size_t pack_6_neon(const uint8_t *values, size_t count, uint8_t *packed) {
    size_t i = 0;
    for (; count - i >= 64; i += 64) {
        uint8x16x4_t v = vld4q_u8(values + i);
        uint8x16_t second = low_bits(v.val[1], 6), third = low_bits(v.val[2], 6);
        uint8x16x3_t bytes;
        bytes.val[0] = vorrq_u8(low_bits(v.val[0], 6), vshlq_n_u8(second, 6));
        bytes.val[1] = vorrq_u8(vshrq_n_u8(second, 2), vshlq_n_u8(third, 4));
        bytes.val[2] = vorrq_u8(vshrq_n_u8(third, 4), vshlq_n_u8(v.val[3], 2));
        vst3q_u8(packed + i / 4 * 3, bytes);
    }
    return i;
}

static size_t unpack_6_neon(const uint8_t *packed, size_t count, uint8_t sign, uint8_t *values) {
    const uint8x16_t signs = vdupq_n_u8(sign);
    size_t i = 0;
    for (; count - i >= 64; i += 64) {
        uint8x16x3_t bytes = vld3q_u8(packed + i / 4 * 3);
        uint8x16_t second = vorrq_u8(vshrq_n_u8(bytes.val[0], 6), vshlq_n_u8(bytes.val[1], 2));
        uint8x16_t third = vorrq_u8(vshrq_n_u8(bytes.val[1], 4), vshlq_n_u8(bytes.val[2], 4));
        uint8x16x4_t v;
        v.val[0] = extended(low_bits(bytes.val[0], 6), signs);
        v.val[1] = extended(low_bits(second, 6), signs);
        v.val[2] = extended(low_bits(third, 6), signs);
        v.val[3] = extended(vshrq_n_u8(bytes.val[2], 2), signs);
        vst4q_u8(values + i, v);
    }
    return i;
}

static const HriPackKernels neon_kernels = {
    .name = "neon",
    .widths = {{pack_1_neon, unpack_1_neon},
               {pack_2_neon, unpack_2_neon},
               {pack_4_neon, unpack_4_neon},
               {pack_6_neon, unpack_6_neon}},
};

const HriPackKernels *hri_pack_kernels_neon(void) { return &neon_kernels; }

#else

const HriPackKernels *hri_pack_kernels_neon(void) { return NULL; }

#endif
