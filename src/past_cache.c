/* Stores that go past the caches, where there are none (past_cache.h): of x86 in past_cache_x86.c. */
#include "past_cache.h"

#include <string.h>

#if !(defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__)))

bool hri_can_pass_cache(void) { return false; }

void hri_copy_past_cache(uint8_t *to, const uint8_t *from, size_t size) { memcpy(to, from, size); }

void hri_past_cache_end(void) {}

#endif
