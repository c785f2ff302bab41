/*
 * CRC-32C with the CRC32 instructions of 64-bit ARM, which are optional in ARMv8.0: Linux says
 * whether the CPU has them, elsewhere the compiler has to know. Nothing on other architectures.
 */
#include "crc32c.h"

#if defined(__GNUC__) && defined(__aarch64__) && defined(__AARCH64EL__) && \
    (defined(__linux__) || defined(__ARM_FEATURE_CRC32))

#include <string.h>
#ifndef __ARM_FEATURE_CRC32
#include <sys/auxv.h>
#endif

/* Written out, since GCC and Clang do not agree on how a function is given the intrinsics. */
static inline uint32_t take_8(uint32_t state, const uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(state) : "r"(word));
    return state;
}

static inline uint32_t take_1(uint32_t state, uint8_t byte) {
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(state) : "r"((uint32_t)byte));
    return state;
}

static uint32_t take_arm(uint32_t state, const uint8_t *bytes, size_t size) {
    const size_t stretch = HRI_CRC32C_STRETCH;
    for (; size >= 3 * stretch; bytes += 3 * stretch, size -= 3 * stretch) {
        uint32_t second = 0, third = 0;
        for (size_t i = 0; i < stretch; i += 8) {
            state = take_8(state, bytes + i);
            second = take_8(second, bytes + stretch + i);
            third = take_8(third, bytes + 2 * stretch + i);
        }
        state = hri_crc32c_join(state, second, third);
    }
    for (; size >= 8; bytes += 8, size -= 8) state = take_8(state, bytes);
    for (; size > 0; bytes++, size--) state = take_1(state, *bytes);
    return state;
}

HriCrc32cKernel *hri_crc32c_arm(void) {
#ifdef __ARM_FEATURE_CRC32
    return take_arm;
#else
    const unsigned long has_crc32 = 1ul << 7; /* HWCAP_CRC32 */
    return getauxval(AT_HWCAP) & has_crc32 ? take_arm : NULL;
#endif
}

#else

HriCrc32cKernel *hri_crc32c_arm(void) { return NULL; }

#endif
