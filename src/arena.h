/*
 * A block of memory handed out piece by piece, so that a descriptor with all its arrays is a single
 * allocation. The size is computed before; running out is a mistake of ours.
 */
#ifndef HURRAY_SRC_ARENA_H
#define HURRAY_SRC_ARENA_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ARENA_ALIGNMENT 8u

typedef struct Arena {
    uint8_t *next; /* aligned to ARENA_ALIGNMENT */
    uint8_t *end;
} Arena;

/* What a piece of this many bytes takes from the arena. */
static inline size_t arena_footprint(size_t bytes) {
    return (bytes + (ARENA_ALIGNMENT - 1)) & ~(size_t)(ARENA_ALIGNMENT - 1);
}

static inline void *arena_take(Arena *arena, size_t bytes) {
    size_t footprint = arena_footprint(bytes);
    assert(footprint <= (size_t)(arena->end - arena->next));
    void *piece = arena->next;
    arena->next += footprint;
    return piece;
}

/* A copy of `bytes` bytes; NULL for none. */
static inline void *arena_copy(Arena *arena, const void *source, size_t bytes) {
    if (bytes == 0) return NULL;
    return memcpy(arena_take(arena, bytes), source, bytes);
}

#endif
