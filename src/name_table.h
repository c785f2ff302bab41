/*
 * Finding names among those seen before, 0 … count − 1, in constant time: duplicates in files and
 * metadata. The names themselves stay with the caller.
 *
 * The hash is SipHash-1-3 under a key of its own for each table, so that nobody can make a file whose
 * names all collide.
 */
#ifndef HURRAY_SRC_NAME_TABLE_H
#define HURRAY_SRC_NAME_TABLE_H

#include <hurray/status.h>
#include <stddef.h>
#include <stdint.h>

#define HRI_NO_NAME UINT32_MAX

typedef struct HriNameSlot {
    uint32_t hash;
    uint32_t name; /* number of the name; HRI_NO_NAME: free */
} HriNameSlot;

/* Zero it first. */
typedef struct HriNameTable {
    HriNameSlot *slots;
    uint64_t capacity; /* of slots, a power of two, at least twice the count; 0 at first */
    uint32_t count;
    uint64_t key[2];
} HriNameTable;

typedef struct HriName {
    const char *data;
    size_t length;
} HriName;

/* Name `number` of `owner`. */
typedef HriName HriNameAt(const void *owner, uint32_t number);

/* Makes room for `more` names. HURRAY_ERR_OUT_OF_MEMORY, also from 2^32 - 1 names on. */
HurrayStatus hri_name_table_reserve(HriNameTable *table, uint32_t more);
/* The number of a name; HRI_NO_NAME when it is not there. */
uint32_t hri_name_table_find(const HriNameTable *table, HriName name, HriNameAt *name_at,
                             const void *owner);
/* Both: the number of a name that is there, or HRI_NO_NAME and it is added, for which there is room. */
uint32_t hri_name_table_find_or_add(HriNameTable *table, HriName name, HriNameAt *name_at,
                                    const void *owner);
/* Adds name number `count`, for which there is room and which is not there. */
void hri_name_table_add(HriNameTable *table, HriName name);
/* Frees the slots and zeroes it. */
void hri_name_table_clear(HriNameTable *table);

#endif
