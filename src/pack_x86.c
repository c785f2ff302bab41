/*
 * Packing on x86: SSE2, which every 64-bit CPU has, and AVX2. Compiled with GCC and Clang only,
 * whose target attribute lets one file hold both; nothing on other architectures.
 *
 * The widths 2 and 4 go in steps that halve or double the number of bytes. join_… takes two
 * registers of one `width`-bit field to a byte and gives one with two to a byte, in order; split_…
 * is its inverse.
 */
#include "pack.h"

#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))

#include <immintrin.h>
#include <string.h>

#define TARGET(name) __attribute__((target(name)))

/* ---- SSE2: 16 bytes at a time ---- */

TARGET("sse2") static inline __m128i load_128(const uint8_t *bytes) {
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

TARGET("sse2") static inline void store_128(uint8_t *bytes, __m128i value) {
    _mm_storeu_si128((__m128i *)(void *)bytes, value);
}

/* In each 16-bit lane: the field of the high byte beside that of the low one, the rest cleared. */
TARGET("sse2") static inline __m128i pair_fields_128(__m128i fields, int width) {
    __m128i used = _mm_set1_epi8((char)((1 << width) - 1));
    fields = _mm_and_si128(fields, used);
    __m128i moved = _mm_srl_epi16(fields, _mm_cvtsi32_si128(8 - width));
    __m128i both = _mm_set1_epi16((short)((1 << 2 * width) - 1));
    return _mm_and_si128(_mm_or_si128(fields, moved), both);
}

TARGET("sse2") static inline __m128i join_128(__m128i first, __m128i second, int width) {
    return _mm_packus_epi16(pair_fields_128(first, width), pair_fields_128(second, width));
}

TARGET("sse2") static inline void split_128(__m128i fields, int width, __m128i out[2]) {
    __m128i used = _mm_set1_epi8((char)((1 << width) - 1));
    __m128i even = _mm_and_si128(fields, used);
    __m128i odd = _mm_and_si128(_mm_srl_epi16(fields, _mm_cvtsi32_si128(width)), used);
    out[0] = _mm_unpacklo_epi8(even, odd);
    out[1] = _mm_unpackhi_epi8(even, odd);
}

TARGET("sse2") static inline void store_signed_128(uint8_t *bytes, __m128i value, __m128i sign) {
    store_128(bytes, _mm_sub_epi8(_mm_xor_si128(value, sign), sign));
}

TARGET("sse2")
static size_t pack_1_sse2(const uint8_t *values, size_t count, uint8_t *packed) {
    size_t i = 0;
    for (; count - i >= 16; i += 16) {
        __m128i is_zero = _mm_cmpeq_epi8(load_128(values + i), _mm_setzero_si128());
        uint16_t bits = (uint16_t)~_mm_movemask_epi8(is_zero);
        memcpy(packed + i / 8, &bits, sizeof bits);
    }
    return i;
}

TARGET("sse2")
static size_t unpack_1_sse2(const uint8_t *packed, size_t count, uint8_t sign, uint8_t *values) {
    const __m128i own_bit = _mm_set1_epi64x((long long)0x8040201008040201);
    const __m128i one = _mm_set1_epi8(sign ? -1 : 1);
    size_t i = 0;
    for (; count - i >= 16; i += 16) {
        uint16_t bits;
        memcpy(&bits, packed + i / 8, sizeof bits);
        __m128i bytes = _mm_cvtsi32_si128(bits);
        bytes = _mm_unpacklo_epi8(bytes, bytes);                   /* 0 0 1 1 */
        bytes = _mm_unpacklo_epi16(bytes, bytes);                  /* 0 0 0 0 1 1 1 1 */
        bytes = _mm_shuffle_epi32(bytes, _MM_SHUFFLE(1, 1, 0, 0)); /* eight of each */
        __m128i is_set = _mm_cmpeq_epi8(_mm_and_si128(bytes, own_bit), own_bit);
        store_128(values + i, _mm_and_si128(is_set, one));
    }
    return i;
}

TARGET("sse2")
static size_t pack_2_sse2(const uint8_t *values, size_t count, uint8_t *packed) {
    size_t i = 0;
    for (; count - i >= 64; i += 64) {
        const uint8_t *from = values + i;
        __m128i low = join_128(load_128(from), load_128(from + 16), 2);
        __m128i high = join_128(load_128(from + 32), load_128(from + 48), 2);
        store_128(packed + i / 4, join_128(low, high, 4));
    }
    return i;
}

TARGET("sse2")
static size_t unpack_2_sse2(const uint8_t *packed, size_t count, uint8_t sign, uint8_t *values) {
    const __m128i signs = _mm_set1_epi8((char)sign);
    size_t i = 0;
    for (; count - i >= 64; i += 64) {
        __m128i halves[2], quarters[4];
        split_128(load_128(packed + i / 4), 4, halves);
        split_128(halves[0], 2, quarters);
        split_128(halves[1], 2, quarters + 2);
        for (size_t k = 0; k < 4; k++) store_signed_128(values + i + 16 * k, quarters[k], signs);
    }
    return i;
}

TARGET("sse2")
static size_t pack_4_sse2(const uint8_t *values, size_t count, uint8_t *packed) {
    size_t i = 0;
    for (; count - i >= 32; i += 32) {
        __m128i joined = join_128(load_128(values + i), load_128(values + i + 16), 4);
        store_128(packed + i / 2, joined);
    }
    return i;
}

TARGET("sse2")
static size_t unpack_4_sse2(const uint8_t *packed, size_t count, uint8_t sign, uint8_t *values) {
    const __m128i signs = _mm_set1_epi8((char)sign);
    size_t i = 0;
    for (; count - i >= 32; i += 32) {
        __m128i halves[2];
        split_128(load_128(packed + i / 2), 4, halves);
        store_signed_128(values + i, halves[0], signs);
        store_signed_128(values + i + 16, halves[1], signs);
    }
    return i;
}

/* 6 bits want byte shuffles, which SSE2 lacks: the portable word is as good. */
static const HriPackKernels sse2_kernels = {
    .name = "sse2",
    .widths = {{pack_1_sse2, unpack_1_sse2},
               {pack_2_sse2, unpack_2_sse2},
               {pack_4_sse2, unpack_4_sse2},
               {NULL, NULL}},
};

const HriPackKernels *hri_pack_kernels_sse2(void) {
    return __builtin_cpu_supports("sse2") ? &sse2_kernels : NULL;
}

/* ---- AVX2: 32 bytes at a time ---- */

TARGET("avx2") static inline __m256i load_256(const uint8_t *bytes) {
    return _mm256_loadu_si256((const __m256i *)(const void *)bytes);
}

TARGET("avx2") static inline void store_256(uint8_t *bytes, __m256i value) {
    _mm256_storeu_si256((__m256i *)(void *)bytes, value);
}

/*
 * AVX2 interleaves within each half of a register. Exchanging the two middle quarters before an
 * unpack, and after a pack, puts the result in order.
 */
TARGET("avx2") static inline __m256i swap_middle(__m256i value) {
    return _mm256_permute4x64_epi64(value, _MM_SHUFFLE(3, 1, 2, 0));
}

TARGET("avx2") static inline __m256i pair_fields_256(__m256i fields, int width) {
    __m256i used = _mm256_set1_epi8((char)((1 << width) - 1));
    fields = _mm256_and_si256(fields, used);
    __m256i moved = _mm256_srl_epi16(fields, _mm_cvtsi32_si128(8 - width));
    __m256i both = _mm256_set1_epi16((short)((1 << 2 * width) - 1));
    return _mm256_and_si256(_mm256_or_si256(fields, moved), both);
}

TARGET("avx2") static inline __m256i join_256(__m256i first, __m256i second, int width) {
    return swap_middle(
        _mm256_packus_epi16(pair_fields_256(first, width), pair_fields_256(second, width)));
}

TARGET("avx2") static inline void split_256(__m256i fields, int width, __m256i out[2]) {
    __m256i used = _mm256_set1_epi8((char)((1 << width) - 1));
    fields = swap_middle(fields);
    __m256i even = _mm256_and_si256(fields, used);
    __m256i odd = _mm256_and_si256(_mm256_srl_epi16(fields, _mm_cvtsi32_si128(width)), used);
    out[0] = _mm256_unpacklo_epi8(even, odd);
    out[1] = _mm256_unpackhi_epi8(even, odd);
}

TARGET("avx2") static inline void store_signed_256(uint8_t *bytes, __m256i value, __m256i sign) {
    store_256(bytes, _mm256_sub_epi8(_mm256_xor_si256(value, sign), sign));
}

/*
 * Packing reads far more than it writes, and out of memory one core waits for what it reads: the
 * hardware's own prefetching stops at each page. Two pages ahead were the best of 2 to 32 KiB,
 * 1.3 times as fast as none at 64 MiB and no slower in cache.
 */
TARGET("avx2") static inline void prefetch_ahead(const uint8_t *values, size_t i, size_t count) {
    const size_t ahead = 8192;
    if (count - i > ahead) _mm_prefetch((const char *)values + i + ahead, _MM_HINT_T0);
}

TARGET("avx2") static inline uint32_t truth_of_32(const uint8_t *values) {
    __m256i is_zero = _mm256_cmpeq_epi8(load_256(values), _mm256_setzero_si256());
    return ~(uint32_t)_mm256_movemask_epi8(is_zero);
}

TARGET("avx2")
static size_t pack_1_avx2(const uint8_t *values, size_t count, uint8_t *packed) {
    size_t i = 0;
    for (; count - i >= 64; i += 64) {
        prefetch_ahead(values, i, count);
        uint32_t bits[2] = {truth_of_32(values + i), truth_of_32(values + i + 32)};
        memcpy(packed + i / 8, bits, sizeof bits);
    }
    return i;
}

TARGET("avx2")
static size_t unpack_1_avx2(const uint8_t *packed, size_t count, uint8_t sign, uint8_t *values) {
    /* Each of the four bytes eight times; a shuffle stays in its half, and both hold all four. */
    const __m256i eight_times =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i own_bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    const __m256i one = _mm256_set1_epi8(sign ? -1 : 1);
    size_t i = 0;
    for (; count - i >= 32; i += 32) {
        int32_t bits;
        memcpy(&bits, packed + i / 8, sizeof bits);
        __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), eight_times);
        __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, own_bit), own_bit);
        store_256(values + i, _mm256_and_si256(is_set, one));
    }
    return i;
}

TARGET("avx2")
static size_t pack_2_avx2(const uint8_t *values, size_t count, uint8_t *packed) {
    size_t i = 0;
    for (; count - i >= 128; i += 128) {
        const uint8_t *from = values + i;
        prefetch_ahead(values, i, count);
        prefetch_ahead(values, i + 64, count);
        __m256i low = join_256(load_256(from), load_256(from + 32), 2);
        __m256i high = join_256(load_256(from + 64), load_256(from + 96), 2);
        store_256(packed + i / 4, join_256(low, high, 4));
    }
    return i;
}

TARGET("avx2")
static size_t unpack_2_avx2(const uint8_t *packed, size_t count, uint8_t sign, uint8_t *values) {
    const __m256i signs = _mm256_set1_epi8((char)sign);
    size_t i = 0;
    for (; count - i >= 128; i += 128) {
        __m256i halves[2], quarters[4];
        split_256(load_256(packed + i / 4), 4, halves);
        split_256(halves[0], 2, quarters);
        split_256(halves[1], 2, quarters + 2);
        for (size_t k = 0; k < 4; k++) store_signed_256(values + i + 32 * k, quarters[k], signs);
    }
    return i;
}

TARGET("avx2")
static size_t pack_4_avx2(const uint8_t *values, size_t count, uint8_t *packed) {
    size_t i = 0;
    for (; count - i >= 64; i += 64) {
        prefetch_ahead(values, i, count);
        __m256i joined = join_256(load_256(values + i), load_256(values + i + 32), 4);
        store_256(packed + i / 2, joined);
    }
    return i;
}

TARGET("avx2")
static size_t unpack_4_avx2(const uint8_t *packed, size_t count, uint8_t sign, uint8_t *values) {
    const __m256i signs = _mm256_set1_epi8((char)sign);
    size_t i = 0;
    for (; count - i >= 64; i += 64) {
        __m256i halves[2];
        split_256(load_256(packed + i / 2), 4, halves);
        store_signed_256(values + i, halves[0], signs);
        store_signed_256(values + i + 32, halves[1], signs);
    }
    return i;
}

/* 32 elements are 24 bytes: in each half of a register, four groups of 3 bytes and 4 unused. */
TARGET("avx2")
static size_t pack_6_avx2(const uint8_t *values, size_t count, uint8_t *packed) {
    const __m256i used = _mm256_set1_epi8(0x3F);
    const __m256i to_pairs = _mm256_set1_epi16(0x4001);      /* bytes: a · 1 + b · 64 */
    const __m256i to_groups = _mm256_set1_epi32(0x10000001); /* 16 bits: ab · 1 + cd · 4096 */
    const __m256i drop_fourth = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const __m256i close_gap = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 7, 7);
    size_t i = 0;
    for (; count - i >= 32; i += 32) {
        prefetch_ahead(values, i, count);
        __m256i pairs =
            _mm256_maddubs_epi16(_mm256_and_si256(load_256(values + i), used), to_pairs);
        __m256i groups = _mm256_shuffle_epi8(_mm256_madd_epi16(pairs, to_groups), drop_fourth);
        groups = _mm256_permutevar8x32_epi32(groups, close_gap);
        uint8_t *to = packed + i / 4 * 3;
        store_128(to, _mm256_castsi256_si128(groups));
        _mm_storel_epi64((__m128i *)(void *)(to + 16), _mm256_extracti128_si256(groups, 1));
    }
    return i;
}

TARGET("avx2")
static size_t unpack_6_avx2(const uint8_t *packed, size_t count, uint8_t sign, uint8_t *values) {
    /* Both loads stay within the 24 bytes: 0 … 15 and 8 … 23, the second used from its 4th on. */
    const __m256i to_groups =
        _mm256_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, /* bytes 0 … 11 */
                         4, 5, 6, -1, 7, 8, 9, -1, 10, 11, 12, -1, 13, 14, 15, -1);
    const __m256i signs = _mm256_set1_epi8((char)sign);
    size_t i = 0;
    for (; count - i >= 32; i += 32) {
        const uint8_t *from = packed + i / 4 * 3;
        __m256i groups =
            _mm256_inserti128_si256(_mm256_castsi128_si256(load_128(from)), load_128(from + 8), 1);
        groups = _mm256_shuffle_epi8(groups, to_groups);
        __m256i elements = _mm256_and_si256(groups, _mm256_set1_epi32(0x3F));
        for (int k = 1; k < 4; k++) {
            __m256i moved = _mm256_slli_epi32(groups, 2 * k); /* from bit 6k to bit 8k */
            __m256i field = _mm256_set1_epi32(0x3F << 8 * k);
            elements = _mm256_or_si256(elements, _mm256_and_si256(moved, field));
        }
        store_signed_256(values + i, elements, signs);
    }
    return i;
}

static const HriPackKernels avx2_kernels = {
    .name = "avx2",
    .widths = {{pack_1_avx2, unpack_1_avx2},
               {pack_2_avx2, unpack_2_avx2},
               {pack_4_avx2, unpack_4_avx2},
               {pack_6_avx2, unpack_6_avx2}},
};

const HriPackKernels *hri_pack_kernels_avx2(void) {
    return __builtin_cpu_supports("avx2") ? &avx2_kernels : NULL;
}

#else

const HriPackKernels *hri_pack_kernels_sse2(void) { return NULL; }
const HriPackKernels *hri_pack_kernels_avx2(void) { return NULL; }

#endif
