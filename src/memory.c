/*
 * Aligned memory on top of malloc (include/hurray/memory.h).
 *
 * A block is asked for with room to move up to the alignment; a small header in front of the address
 * handed out remembers where the block begins. That is portable, leaves a large zeroed block to
 * calloc (untouched pages cost nothing), and lets realloc do what it can.
 */
#include <hurray/memory.h>

#include <stdlib.h>
#include <string.h>

#include "checked.h"

typedef struct Header {
    void *block; /* what malloc gave */
    size_t size; /* what the caller asked for */
} Header;

/* Enough in front for the header and, behind, to reach the next multiple of `alignment`. */
static bool block_size(size_t size, size_t alignment, size_t *out) {
    uint64_t total;
    return checked_add_u64(size, sizeof(Header), &total) &&
           checked_add_u64(total, alignment - 1, &total) && checked_size(total, out);
}

static size_t data_offset(const void *block, size_t alignment) {
    uintptr_t after_header = (uintptr_t)block + sizeof(Header);
    uintptr_t misfit = after_header & (alignment - 1);
    return sizeof(Header) + (misfit == 0 ? 0 : alignment - misfit);
}

/* memcpy, since an alignment below that of Header leaves no aligned place for it. */
static void *place_header(void *block, size_t offset, size_t size) {
    char *data = (char *)block + offset;
    Header header = {block, size};
    memcpy(data - sizeof header, &header, sizeof header);
    return data;
}

static Header header_of(const void *data) {
    Header header;
    memcpy(&header, (const char *)data - sizeof header, sizeof header);
    return header;
}

void *hurray_aligned_alloc(size_t size, size_t alignment, bool zeroed) {
    size_t total;
    if (!is_power_of_two_u64(alignment) || !block_size(size, alignment, &total)) return NULL;
    void *block = zeroed ? calloc(1, total) : malloc(total);
    if (block == NULL) return NULL;
    return place_header(block, data_offset(block, alignment), size);
}

void *hurray_aligned_resize(void *data, size_t size, size_t alignment) {
    if (data == NULL) return hurray_aligned_alloc(size, alignment, false);
    size_t total;
    if (!is_power_of_two_u64(alignment) || !block_size(size, alignment, &total)) return NULL;
    Header old = header_of(data);
    size_t old_offset = (size_t)((char *)data - (char *)old.block);
    size_t kept = old.size < size ? old.size : size;
    /* The block may have been made for a larger alignment and the data lie further in. */
    if (total < old_offset + kept) total = old_offset + kept;
    void *block = realloc(old.block, total);
    if (block == NULL) return NULL;
    size_t offset = data_offset(block, alignment);
    if (offset != old_offset) memmove((char *)block + offset, (char *)block + old_offset, kept);
    return place_header(block, offset, size);
}

void hurray_aligned_free(void *data) {
    if (data != NULL) free(header_of(data).block);
}

static void *default_allocate(size_t size, size_t alignment, bool zeroed, void *context) {
    (void)context;
    return hurray_aligned_alloc(size, alignment, zeroed);
}

static void default_release(void *data, size_t size, void *context) {
    (void)size;
    (void)context;
    hurray_aligned_free(data);
}

const HurrayAllocator *hurray_default_allocator(void) {
    static const HurrayAllocator allocator = {default_allocate, default_release, NULL};
    return &allocator;
}

uint32_t hurray_measured_alignment(const void *address) {
    uintptr_t bits = (uintptr_t)address;
    if (bits == 0) return 1;
    uintptr_t lowest = bits & (~bits + 1);
    return lowest > HURRAY_PAGE_ALIGNMENT ? HURRAY_PAGE_ALIGNMENT : (uint32_t)lowest;
}
