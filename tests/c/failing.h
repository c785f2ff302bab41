/*
 * Allocations that fail on demand. The linker routes malloc, calloc, realloc and free of a program that
 * includes this, once, through the functions below (--wrap, see meson.build). They count blocks and, when
 * told to, fail once.
 */
#ifndef HURRAY_TESTS_FAILING_H
#define HURRAY_TESTS_FAILING_H

#include "expect.h"

#include <stdbool.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *data, size_t size);
void __real_free(void *data);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *data, size_t size);
void __wrap_free(void *data);

static int blocks;       /* allocated and not freed */
static int calls;        /* allocations since the count began */
static int failing = -1; /* which of them fails; −1: none */
static size_t greatest;  /* of the blocks of malloc, in bytes, since the count began */

static bool fails(void) { return calls++ == failing; }

void *__wrap_malloc(size_t size) {
    if (size > greatest) greatest = size;
    void *data = fails() ? NULL : __real_malloc(size);
    if (data != NULL) blocks++;
    return data;
}

void *__wrap_calloc(size_t count, size_t size) {
    void *data = fails() ? NULL : __real_calloc(count, size);
    if (data != NULL) blocks++;
    return data;
}

void *__wrap_realloc(void *data, size_t size) {
    void *moved = fails() ? NULL : __real_realloc(data, size);
    if (data == NULL && moved != NULL) blocks++;
    return moved;
}

void __wrap_free(void *data) {
    if (data != NULL) blocks--;
    __real_free(data);
}

#endif
