/* Stores that go past the caches, on x86 with SSE2 (past_cache.h). Compiled with GCC and Clang only. */
#include "past_cache.h"

#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))

#include <immintrin.h>
#include <string.h>

bool hri_can_pass_cache(void) { return __builtin_cpu_supports("sse2") != 0; }

/* A line at a time, which leaves the CPU at once when its four quarters are there. */
__attribute__((target("sse2"))) void hri_copy_past_cache(uint8_t *to, const uint8_t *from,
                                                         size_t size) {
    for (size_t i = 0; i < size; i += HRI_LINE) {
        const __m128i *line = (const __m128i *)(const void *)(from + i);
        __m128i *out = (__m128i *)(void *)(to + i);
        __m128i a = _mm_loadu_si128(line), b = _mm_loadu_si128(line + 1);
        __m128i c = _mm_loadu_si128(line + 2), d = _mm_loadu_si128(line + 3);
        _mm_stream_si128(out, a);
        _mm_stream_si128(out + 1, b);
        _mm_stream_si128(out + 2, c);
        _mm_stream_si128(out + 3, d);
    }
}

__attribute__((target("sse2"))) void hri_past_cache_end(void) { _mm_sfence(); }

#endif
