/*
 * CRC-32C with the instruction of SSE4.2, on 64-bit x86. Compiled with GCC and Clang only, whose
 * target attribute lets the rest of the library do without; nothing on other architectures.
 */
#include "crc32c.h"

#if defined(__GNUC__) && defined(__x86_64__)

#include <nmmintrin.h>
#include <string.h>

#define TARGET __attribute__((target("sse4.2")))

TARGET static inline uint64_t take_8(uint64_t state, const uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return _mm_crc32_u64(state, word);
}

TARGET
static uint32_t take_x86(uint32_t state, const uint8_t *bytes, size_t size) {
    const size_t stretch = HRI_CRC32C_STRETCH;
    for (; size >= 3 * stretch; bytes += 3 * stretch, size -= 3 * stretch) {
        uint64_t first = state, second = 0, third = 0;
        for (size_t i = 0; i < stretch; i += 8) {
            first = take_8(first, bytes + i);
            second = take_8(second, bytes + stretch + i);
            third = take_8(third, bytes + 2 * stretch + i);
        }
        state = hri_crc32c_join((uint32_t)first, (uint32_t)second, (uint32_t)third);
    }
    uint64_t rest = state;
    for (; size >= 8; bytes += 8, size -= 8) rest = take_8(rest, bytes);
    state = (uint32_t)rest;
    for (; size > 0; bytes++, size--) state = _mm_crc32_u8(state, *bytes);
    return state;
}

HriCrc32cKernel *hri_crc32c_x86(void) { return __builtin_cpu_supports("sse4.2") ? take_x86 : NULL; }

#else

HriCrc32cKernel *hri_crc32c_x86(void) { return NULL; }

#endif
