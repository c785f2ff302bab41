/*
 * Packing of sub-byte elements (spec 1.3): the portable kernels, which define the result, and the
 * choice of faster ones.
 *
 * The portable kernels work on eight elements at once, held in the bytes of a 64-bit word with the
 * first element lowest. Packing halves the number of lanes three times: neighbouring fields of
 * `width` bits in lanes of `lane` bits move together into lanes twice as wide. Unpacking goes the
 * other way. Words are read and written byte by byte (bytes.h), so the byte order of the host plays
 * no part.
 */
#include <assert.h>
#include <hurray/pack.h>
#include <string.h>

#include "bytes.h"
#include "checked.h"
#include "fail.h"
#include "pack.h"

#ifdef __GNUC__
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE static inline
#endif

/* ---- eight elements in a word ---- */

/* `pattern` in every lane of a word; `lane` is 8, 16, 32 or 64 bits. */
ALWAYS_INLINE uint64_t in_lanes(uint64_t pattern, unsigned lane) {
    return lane == 64 ? pattern : pattern * (UINT64_MAX / ((UINT64_C(1) << lane) - 1));
}

ALWAYS_INLINE uint64_t join_lanes(uint64_t word, unsigned width, unsigned lane) {
    uint64_t field = (UINT64_C(1) << width) - 1;
    return (word & in_lanes(field, 2 * lane)) |
           (word >> (lane - width) & in_lanes(field << width, 2 * lane));
}

ALWAYS_INLINE uint64_t split_lanes(uint64_t word, unsigned width, unsigned lane) {
    uint64_t field = (UINT64_C(1) << width) - 1;
    return (word & in_lanes(field, 2 * lane)) | (word & in_lanes(field << width, 2 * lane))
                                                    << (lane - width);
}

ALWAYS_INLINE uint64_t pack_word(uint64_t word, unsigned bits) {
    if (bits == 1) {
        /* The sum carries into the highest bit of a byte from any lower one, never out of it. */
        uint64_t low = in_lanes(0x7F, 8);
        uint64_t truth = (((word & low) + low) | word) >> 7 & in_lanes(1, 8);
        /*
         * Bit 8i has to go to bit 56 + i: the factor holds 2^(56 - 7i). A product of byte i with
         * term j lies at 8i + 56 - 7j, different for every pair, so nothing carries.
         */
        return truth * UINT64_C(0x0102040810204080) >> 56;
    }
    word = join_lanes(word, bits, 8);
    word = join_lanes(word, 2 * bits, 16);
    return join_lanes(word, 4 * bits, 32);
}

ALWAYS_INLINE uint64_t unpack_word(uint64_t word, unsigned bits, uint8_t sign) {
    if (bits == 1) {
        /* Byte i keeps bit i alone; adding 0x7F lifts whatever it is to bit 7, without a carry. */
        word = word * in_lanes(1, 8) & UINT64_C(0x8040201008040201);
        word = (word + in_lanes(0x7F, 8)) >> 7 & in_lanes(1, 8);
    } else {
        word = split_lanes(word, 4 * bits, 32);
        word = split_lanes(word, 2 * bits, 16);
        word = split_lanes(word, bits, 8);
    }
    /* The bits above the sign, 2^8 - 2^bits, are the sign, 2^(bits - 1), times 2^(9 - bits) - 2. */
    return word | (word & in_lanes(sign, 8)) * ((UINT64_C(1) << (9 - bits)) - 2);
}

/* ---- portable kernels ---- */

/* Bytes of fewer than eight elements: whole groups. */
static size_t rest_size(size_t count, unsigned bits) {
    return bits == 6 ? (count + 3) / 4 * 3 : (count * bits + 7) / 8;
}

ALWAYS_INLINE void store_low_bytes(uint8_t *bytes, uint64_t word, size_t count) {
    for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)(word >> 8 * i);
}

ALWAYS_INLINE uint64_t load_low_bytes(const uint8_t *bytes, size_t count) {
    uint64_t word = 0;
    for (size_t i = 0; i < count; i++) word |= (uint64_t)bytes[i] << 8 * i;
    return word;
}

ALWAYS_INLINE size_t pack_portably(const uint8_t *values, size_t count, uint8_t *packed,
                                   unsigned bits) {
    size_t i = 0;
    for (; count - i >= 8; i += 8) {
        store_low_bytes(packed + i / 8 * bits, pack_word(load_u64(values + i), bits), bits);
    }
    if (i < count) {
        uint64_t last = load_low_bytes(values + i, count - i);
        store_low_bytes(packed + i / 8 * bits, pack_word(last, bits), rest_size(count - i, bits));
    }
    return count;
}

ALWAYS_INLINE size_t unpack_portably(const uint8_t *packed, size_t count, uint8_t sign,
                                     uint8_t *values, unsigned bits) {
    size_t i = 0;
    for (; count - i >= 8; i += 8) {
        uint64_t word = load_low_bytes(packed + i / 8 * bits, bits);
        store_u64(values + i, unpack_word(word, bits, sign));
    }
    if (i < count) {
        uint64_t last = load_low_bytes(packed + i / 8 * bits, rest_size(count - i, bits));
        store_low_bytes(values + i, unpack_word(last, bits, sign), count - i);
    }
    return count;
}

static size_t pack_1(const uint8_t *values, size_t count, uint8_t *packed) {
    return pack_portably(values, count, packed, 1);
}

static size_t pack_2(const uint8_t *values, size_t count, uint8_t *packed) {
    return pack_portably(values, count, packed, 2);
}

static size_t pack_4(const uint8_t *values, size_t count, uint8_t *packed) {
    return pack_portably(values, count, packed, 4);
}

static size_t pack_6(const uint8_t *values, size_t count, uint8_t *packed) {
    return pack_portably(values, count, packed, 6);
}

static size_t unpack_1(const uint8_t *packed, size_t count, uint8_t sign, uint8_t *values) {
    return unpack_portably(packed, count, sign, values, 1);
}

static size_t unpack_2(const uint8_t *packed, size_t count, uint8_t sign, uint8_t *values) {
    return unpack_portably(packed, count, sign, values, 2);
}

static size_t unpack_4(const uint8_t *packed, size_t count, uint8_t sign, uint8_t *values) {
    return unpack_portably(packed, count, sign, values, 4);
}

static size_t unpack_6(const uint8_t *packed, size_t count, uint8_t sign, uint8_t *values) {
    return unpack_portably(packed, count, sign, values, 6);
}

static const HriPackKernels portable_kernels = {
    .name = "portable",
    .widths = {{pack_1, unpack_1}, {pack_2, unpack_2}, {pack_4, unpack_4}, {pack_6, unpack_6}},
};

const HriPackKernels *hri_pack_kernels_portable(void) { return &portable_kernels; }

/* ---- choice ---- */

/* Asked anew every time, which costs less than sharing the answer between threads would. */
const HriPackKernels *hri_pack_kernels_best(void) {
    const HriPackKernels *kernels = hri_pack_kernels_avx2();
    if (kernels == NULL) kernels = hri_pack_kernels_sse2();
    if (kernels == NULL) kernels = hri_pack_kernels_neon();
    return kernels == NULL ? &portable_kernels : kernels;
}

void hri_pack_with(const HriPackKernels *kernels, uint32_t bits, const uint8_t *values,
                   size_t count, uint8_t *packed) {
    int width = hri_pack_width_index(bits);
    assert(width >= 0);
    HriPackKernel *pack = kernels->widths[width].pack;
    size_t done = pack == NULL ? 0 : pack(values, count, packed);
    if (done == count) return;
    portable_kernels.widths[width].pack(values + done, count - done, packed + done / 8 * bits);
}

void hri_unpack_with(const HriPackKernels *kernels, uint32_t bits, bool sign_extend,
                     const uint8_t *packed, size_t count, uint8_t *values) {
    int width = hri_pack_width_index(bits);
    assert(width >= 0);
    uint8_t sign = (uint8_t)(sign_extend ? 1u << (bits - 1) : 0u);
    HriUnpackKernel *unpack = kernels->widths[width].unpack;
    size_t done = unpack == NULL ? 0 : unpack(packed, count, sign, values);
    if (done == count) return;
    portable_kernels.widths[width].unpack(packed + done / 8 * bits, count - done, sign,
                                          values + done);
}

static HurrayStatus check_arguments(uint32_t bits, const uint8_t *values, uint64_t count,
                                    const uint8_t *packed, size_t *out_count) {
    if (hri_pack_width_index(bits) < 0) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "elements of %u bits are not packed: expected 1, 2, 4 or 6",
                        (unsigned)bits);
    }
    if (count == 0) return HURRAY_OK;
    if (values == NULL) return hri_fail_null("values");
    if (packed == NULL) return hri_fail_null("packed");
    if (!checked_size(count, out_count)) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "count %llu is more bytes than this machine can address",
                        (unsigned long long)count);
    }
    return HURRAY_OK;
}

HurrayStatus hurray_pack_bits(uint32_t bits, const uint8_t *values, uint64_t count,
                              uint8_t *packed) {
    size_t size = 0;
    HurrayStatus status = check_arguments(bits, values, count, packed, &size);
    if (status == HURRAY_OK && size != 0)
        hri_pack_with(hri_pack_kernels_best(), bits, values, size, packed);
    return status;
}

HurrayStatus hurray_unpack_bits(uint32_t bits, bool sign_extend, const uint8_t *packed,
                                uint64_t count, uint8_t *values) {
    size_t size = 0;
    HurrayStatus status = check_arguments(bits, values, count, packed, &size);
    if (status == HURRAY_OK && size != 0) {
        hri_unpack_with(hri_pack_kernels_best(), bits, sign_extend, packed, size, values);
    }
    return status;
}
