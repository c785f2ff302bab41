/*
 * The metadata of a file (spec 4.3): keys with typed values, in order.
 *
 * A list is made entry by entry, or decoded from the bytes of a section, which it then copies. All
 * strings are UTF-8 with a length, not ended by a zero.
 */
#ifndef HURRAY_KEY_VALUE_H
#define HURRAY_KEY_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

HURRAY_BEGIN_DECLS

/* Bytes of a key, 1 … this. */
#define HURRAY_MAX_KEY_LENGTH 65535u

typedef enum HurrayValueTag {
    HURRAY_VALUE_STRING = 1,
    HURRAY_VALUE_INT64 = 2,
    HURRAY_VALUE_UINT64 = 3,
    HURRAY_VALUE_FLOAT64 = 4,
    HURRAY_VALUE_BOOL = 5,
    HURRAY_VALUE_BYTES = 6,
    HURRAY_VALUE_ARRAY = 7
} HurrayValueTag;

/* Text or bytes, borrowed; `data` may be NULL when `length` is 0. */
typedef struct HurrayText {
    const char *data;
    uint32_t length;
} HurrayText;

/* One value that is no array. */
typedef union HurrayScalar {
    HurrayText text; /* string (UTF-8) and bytes */
    int64_t int64;
    uint64_t uint64;
    double float64;
    bool boolean;
} HurrayScalar;

typedef struct HurrayKeyValue {
    HurrayText key;
    uint8_t tag;         /* HurrayValueTag */
    uint8_t element_tag; /* of an array: 1 … 6; else 0 */
    uint32_t count;      /* of an array; else 1 */
    const HurrayScalar *values;
} HurrayKeyValue;

typedef struct HurrayKeyValues HurrayKeyValues;

/* An empty list. */
HURRAY_API HurrayStatus hurray_key_values_create(HurrayKeyValues **out);
/* Frees it and nulls the pointer; a pointer to NULL is fine. */
HURRAY_API HurrayStatus hurray_key_values_destroy(HurrayKeyValues **list);

/*
 * Appends a copy of `entry`. HURRAY_ERR_INVALID_ARGUMENT for an empty or too long key, one that is
 * there already, text that is not UTF-8, an unknown tag, and what does not fit 32-bit lengths.
 */
HURRAY_API HurrayStatus hurray_key_values_add(HurrayKeyValues *list, const HurrayKeyValue *entry);

/* 0 for NULL. */
HURRAY_API uint32_t hurray_key_values_count(const HurrayKeyValues *list);
/* Entry `index`, in order; valid until the list changes. NULL where there is none. */
HURRAY_API const HurrayKeyValue *hurray_key_values_at(const HurrayKeyValues *list, uint32_t index);
/* The entry of that key; NULL where there is none. */
HURRAY_API const HurrayKeyValue *hurray_key_values_find(const HurrayKeyValues *list,
                                                        const char *key, size_t length);

/* Bytes of the section: HURRAY_ERR_INVALID_ARGUMENT above 2^32 - 1. */
HURRAY_API HurrayStatus hurray_key_values_encoded_size(const HurrayKeyValues *list,
                                                       uint64_t *out_bytes);
/* Writes the section; HURRAY_ERR_BUFFER_TOO_SMALL, with nothing written. */
HURRAY_API HurrayStatus hurray_key_values_encode(const HurrayKeyValues *list, uint8_t *bytes,
                                                 size_t capacity, size_t *out_length);
/*
 * Reads a section that is exactly `size` bytes. HURRAY_ERR_FILE_INVALID names the entry, the rule and
 * what was found. Memory is bounded by a small multiple of `size`.
 */
HURRAY_API HurrayStatus hurray_key_values_decode(const uint8_t *bytes, size_t size,
                                                 HurrayKeyValues **out);

HURRAY_END_DECLS

#endif
