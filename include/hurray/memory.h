/*
 * Aligned memory for data buffers, and the hook to take it from somewhere else.
 *
 * Only data buffers go through a HurrayAllocator; the library's own small objects use malloc.
 */
#ifndef HURRAY_MEMORY_H
#define HURRAY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

HURRAY_BEGIN_DECLS

/* Bytes. Every non-empty buffer is aligned at least so (spec 1.5); also the size of a cache line. */
#define HURRAY_MIN_BUFFER_ALIGNMENT 64u
/* Bytes. What we align to from a page up, and the most that an address is measured for. */
#define HURRAY_PAGE_ALIGNMENT 4096u

/*
 * Where data buffers come from. `allocate` returns `size` bytes (> 0) at a multiple of `alignment`
 * (a power of two >= 64), all zero if `zeroed`, or NULL. `release` gets exactly what `allocate`
 * returned, with the same size, possibly on another thread. `context` is passed through.
 */
typedef struct HurrayAllocator {
    void *(*allocate)(size_t size, size_t alignment, bool zeroed, void *context);
    void (*release)(void *data, size_t size, void *context);
    void *context;
} HurrayAllocator;

/*
 * The allocator that is used where NULL is given: portable, on top of malloc and calloc (so large
 * zeroed blocks cost nothing until they are touched). Its memory can be resized with
 * hurray_aligned_resize.
 */
HURRAY_API const HurrayAllocator *hurray_default_allocator(void);

/*
 * What the default allocator does, for those who manage memory themselves. `alignment` is a power
 * of two. NULL when there is not enough memory or `size` + `alignment` overflows. A size of 0 gives
 * a valid pointer to no bytes. Free with hurray_aligned_free only.
 */
HURRAY_API void *hurray_aligned_alloc(size_t size, size_t alignment, bool zeroed);
/* realloc with the alignment kept: on failure NULL, and `data` is still there. `data` may be NULL. */
HURRAY_API void *hurray_aligned_resize(void *data, size_t size, size_t alignment);
HURRAY_API void hurray_aligned_free(void *data); /* NULL is fine */

/* The largest power of two that divides the address, at most HURRAY_PAGE_ALIGNMENT; 1 for NULL. */
HURRAY_API uint32_t hurray_measured_alignment(const void *address);

HURRAY_END_DECLS

#endif
