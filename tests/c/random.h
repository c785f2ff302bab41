/* Repeatable random numbers for the tests: the same at every run, on every machine. */
#ifndef HURRAY_TESTS_RANDOM_H
#define HURRAY_TESTS_RANDOM_H

#include <stdint.h>

/* SplitMix64; any start value will do. */
static inline uint64_t random_u64(uint64_t *state) {
    *state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* 0 … bound − 1; bound > 0. */
static inline uint64_t random_below(uint64_t *state, uint64_t bound) {
    return random_u64(state) % bound;
}

/* low … high, both included. */
static inline int64_t random_between(uint64_t *state, int64_t low, int64_t high) {
    return low + (int64_t)random_below(state, (uint64_t)(high - low) + 1);
}

#endif
