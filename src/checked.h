/*
 * Overflow-safe arithmetic on sizes. Every number from outside goes through these before it is used
 * as one: each returns false, and leaves *out alone, when the exact result does not fit.
 */
#ifndef HURRAY_SRC_CHECKED_H
#define HURRAY_SRC_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool checked_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    if (a > UINT64_MAX - b) return false;
    *out = a + b;
    return true;
}

static inline bool checked_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    /* Mostly they are small, and a division takes ten times as long as to see that. */
    if ((a | b) >> 32 != 0 && b != 0 && a > UINT64_MAX / b) return false;
    *out = a * b;
    return true;
}

static inline bool checked_size(uint64_t a, size_t *out) {
    if (a > SIZE_MAX) return false;
    *out = (size_t)a;
    return true;
}

/* |a| without the overflow of -INT64_MIN. */
static inline uint64_t magnitude_i64(int64_t a) {
    return a < 0 ? UINT64_C(0) - (uint64_t)a : (uint64_t)a;
}

static inline uint64_t divide_up_u64(uint64_t a, uint64_t b) {
    return b == 1 ? a : a / b + (a % b != 0);
}

static inline bool is_power_of_two_u64(uint64_t a) { return a != 0 && (a & (a - 1)) == 0; }

#endif
