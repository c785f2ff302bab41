/*
 * Aligned memory on top of malloc (include/hurray/memory.h).
 *
 * A block is asked for with room to move up to the alignment; a small header in front of the address
 * handed out remembers where the block begins. That is portable, leaves a large zeroed block to
 * calloc (untouched pages cost nothing), and lets realloc do what it can.
 *
 * Memory is made by the system when it is first touched, page by page, which can take longer than
 * filling it. Large data is therefore put at the beginning of a huge page, and the system asked for
 * such pages, where it can have them.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* madvise */
#endif

#include <hurray/memory.h>

#include <stdlib.h>
#include <string.h>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#endif

#include "checked.h"

typedef struct Header {
    void *block; /* what malloc gave */
    size_t size; /* what the caller asked for */
} Header;

#define HUGE_PAGE ((size_t)2 << 20) /* of x86-64, and of Arm with pages of 4 KiB */
/* Bytes from which on data is placed for huge pages. The room for that is never touched. */
#define LARGE (2 * HUGE_PAGE)

/* Pages that lie wholly in the data, so that no memory is used for what is around it. */
static void ask_for_huge_pages(void *data, size_t size) {
#ifdef MADV_HUGEPAGE
    size_t before = (size_t)(~(uintptr_t)data + 1) & (HUGE_PAGE - 1);
    if (size < LARGE || before > size) return;
    (void)madvise((char *)data + before, (size - before) & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
#else
    (void)data, (void)size;
#endif
}

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
    if (!is_power_of_two_u64(alignment)) return NULL;
    if (size >= LARGE && alignment < HUGE_PAGE) alignment = HUGE_PAGE;
    if (!block_size(size, alignment, &total)) return NULL;
    void *block = zeroed ? calloc(1, total) : malloc(total);
    if (block == NULL) return NULL;
    void *data = place_header(block, data_offset(block, alignment), size);
    ask_for_huge_pages(data, size);
    return data;
}

void *hurray_aligned_resize(void *data, size_t size, size_t alignment) {
    if (data == NULL) return hurray_aligned_alloc(size, alignment, false);
    size_t total;
    if (!is_power_of_two_u64(alignment) || !block_size(size, alignment, &total)) return NULL;
    Header old = header_of(data);
    size_t old_offset = (size_t)((char *)data - (char *)old.block);
    size_t kept = old.size < size ? old.size : size;
    /* The block may have been made for a larger alignment and the data lie further in. It stays there
     * if it can: pages that realloc has moved without touching them are not copied after all. */
    if (size > SIZE_MAX - old_offset) return NULL;
    if (total < old_offset + size) total = old_offset + size;
    void *block = realloc(old.block, total);
    if (block == NULL) return NULL;
    size_t offset = old_offset;
    if ((((uintptr_t)block + offset) & (alignment - 1)) != 0) {
        offset = data_offset(block, alignment);
        memmove((char *)block + offset, (char *)block + old_offset, kept);
    }
    void *moved = place_header(block, offset, size);
    ask_for_huge_pages(moved, size);
    return moved;
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
