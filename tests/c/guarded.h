/*
 * Bytes at any alignment that notice when something around them is written. Before them lies a
 * canary, and behind them either another or the end of the block, where AddressSanitizer stands
 * guard.
 */
#ifndef HURRAY_TESTS_GUARDED_H
#define HURRAY_TESTS_GUARDED_H

#include "expect.h"
#include "random.h"

typedef struct Guarded {
    uint8_t *block, *data;
    size_t lead, size, trail;
} Guarded;

enum {
    CANARY = 0xA5
};

/* Filled with the canary too. */
static inline Guarded guarded(uint64_t *seed, size_t size) {
    Guarded bytes = {.size = size};
    bytes.lead = (size_t)random_below(seed, 65);
    bytes.trail = (size_t)random_below(seed, 2) * 32;
    size_t total = bytes.lead + size + bytes.trail;
    bytes.block = malloc(total == 0 ? 1 : total);
    assert_non_null(bytes.block);
    memset(bytes.block, CANARY, total);
    bytes.data = bytes.block + bytes.lead;
    return bytes;
}

static inline void release_guarded(Guarded *bytes) {
    for (size_t i = 0; i < bytes->lead; i++) assert_int_equal(bytes->block[i], CANARY);
    for (size_t i = 0; i < bytes->trail; i++) {
        assert_int_equal(bytes->data[bytes->size + i], CANARY);
    }
    free(bytes->block);
}

static inline void fill_randomly(uint64_t *seed, uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)random_u64(seed);
}

/* Truth values: zeros often enough, and other bytes than 1. */
static inline void fill_sparsely(uint64_t *seed, uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)(random_below(seed, 2) == 0 ? 0 : 1u << random_below(seed, 8));
    }
}

#endif
