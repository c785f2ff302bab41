/* What a fuzz target offers, and how it says that a property does not hold. */
#ifndef HURRAY_FUZZ_H
#define HURRAY_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* One input. Returns 0; called by libFuzzer, or by replay.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Like assert, and never compiled out. */
#define require(condition) ((condition) ? (void)0 : require_failed(#condition, __FILE__, __LINE__))

static inline void require_failed(const char *condition, const char *file, int line) {
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

#endif
