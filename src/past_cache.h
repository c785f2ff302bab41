/*
 * Stores that go past the caches. A line that is written whole need not be fetched first, and what is
 * too large to stay in a cache displaces nothing there. Where the CPU has no such stores this is
 * memcpy.
 */
#ifndef HURRAY_SRC_PAST_CACHE_H
#define HURRAY_SRC_PAST_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HRI_LINE = 64 /* bytes */
};

/* Bytes from which on a result is not expected in a cache when it is used. */
#define HRI_PAST_CACHE_BYTES ((uint64_t)32 << 20)

/* Whether it would be more than memcpy. */
bool hri_can_pass_cache(void);

/* `to` and `size` are multiples of HRI_LINE. */
void hri_copy_past_cache(uint8_t *to, const uint8_t *from, size_t size);

/* After the last hri_copy_past_cache of a thread, before others may read what it wrote. */
void hri_past_cache_end(void);

#endif
