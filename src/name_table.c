/* A hash table of names (name_table.h): open addressing, one 8-byte slot after another. */
#include "name_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bytes.h"
#include "checked.h"
#include "fail.h"

/* ---- SipHash-1-3 (Aumasson and Bernstein): one round for each word, three at the end ---- */

static inline uint64_t rotate(uint64_t word, unsigned bits) {
    return word << bits | word >> (64 - bits);
}

static inline void sip_round(uint64_t v[4]) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static inline void sip_take(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

static uint32_t hash_name(const uint64_t key[2], HriName name) {
    uint64_t v[4] = {key[0] ^ UINT64_C(0x736F6D6570736575), key[1] ^ UINT64_C(0x646F72616E646F6D),
                     key[0] ^ UINT64_C(0x6C7967656E657261), key[1] ^ UINT64_C(0x7465646279746573)};
    const uint8_t *bytes = (const uint8_t *)name.data;
    size_t left = name.length;
    for (; left >= 8; bytes += 8, left -= 8) sip_take(v, load_u64(bytes));
    uint64_t last = (uint64_t)name.length << 56;
    for (size_t i = 0; i < left; i++) last |= (uint64_t)bytes[i] << 8 * i;
    sip_take(v, last);
    v[2] ^= 0xFF;
    for (int i = 0; i < 3; i++) sip_round(v);
    uint64_t hash = v[0] ^ v[1] ^ v[2] ^ v[3];
    return (uint32_t)(hash ^ hash >> 32);
}

/* Not for secrets: only nobody can know it when the file is made. */
static void choose_key(HriNameTable *table) {
    static const char somewhere = 0;
    struct timespec now = {0};
    timespec_get(&now, TIME_UTC);
    table->key[0] = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30;
    table->key[1] = (uint64_t)(uintptr_t)table->slots ^ (uint64_t)(uintptr_t)&somewhere << 20;
}

/* ---- the table ---- */

static void place(HriNameSlot *slots, uint64_t capacity, HriNameSlot slot) {
    uint64_t at = slot.hash & (capacity - 1);
    while (slots[at].name != HRI_NO_NAME) at = (at + 1) & (capacity - 1);
    slots[at] = slot;
}

HurrayStatus hri_name_table_reserve(HriNameTable *table, uint32_t more) {
    uint64_t needed = 2 * ((uint64_t)table->count + more), capacity = table->capacity;
    if (needed <= capacity) return HURRAY_OK;
    if (capacity == 0) capacity = 16;
    while (capacity < needed) capacity *= 2;
    size_t bytes;
    /* The last number is HRI_NO_NAME. The hash, of 32 bits, reaches every slot. */
    if (needed / 2 > UINT32_MAX - 1 || !checked_size(capacity * sizeof(HriNameSlot), &bytes)) {
        return hri_fail_memory(capacity * sizeof(HriNameSlot));
    }
    HriNameSlot *slots = malloc(bytes);
    if (slots == NULL) return hri_fail_memory(bytes);
    memset(slots, 0xFF, bytes);
    for (uint64_t i = 0; i < table->capacity; i++) {
        if (table->slots[i].name != HRI_NO_NAME) place(slots, capacity, table->slots[i]);
    }
    free(table->slots);
    table->slots = slots;
    if (table->capacity == 0) choose_key(table);
    table->capacity = capacity;
    return HURRAY_OK;
}

/* The slot of a name, or the free one where its search ends; the table must have slots. */
static HriNameSlot *find_slot(const HriNameTable *table, HriName name, uint32_t hash,
                              HriNameAt *name_at, const void *owner) {
    uint64_t at = hash & (table->capacity - 1);
    for (;; at = (at + 1) & (table->capacity - 1)) {
        HriNameSlot *slot = &table->slots[at];
        if (slot->name == HRI_NO_NAME) return slot;
        if (slot->hash != hash) continue;
        HriName other = name_at(owner, slot->name);
        if (other.length == name.length && memcmp(other.data, name.data, name.length) == 0) {
            return slot;
        }
    }
}

uint32_t hri_name_table_find(const HriNameTable *table, HriName name, HriNameAt *name_at,
                             const void *owner) {
    if (table->count == 0) return HRI_NO_NAME;
    return find_slot(table, name, hash_name(table->key, name), name_at, owner)->name;
}

uint32_t hri_name_table_find_or_add(HriNameTable *table, HriName name, HriNameAt *name_at,
                                    const void *owner) {
    assert(2 * ((uint64_t)table->count + 1) <= table->capacity);
    uint32_t hash = hash_name(table->key, name);
    HriNameSlot *slot = find_slot(table, name, hash, name_at, owner);
    uint32_t found = slot->name;
    if (found == HRI_NO_NAME) *slot = (HriNameSlot){hash, table->count++};
    return found;
}

void hri_name_table_add(HriNameTable *table, HriName name) {
    assert(2 * ((uint64_t)table->count + 1) <= table->capacity);
    place(table->slots, table->capacity,
          (HriNameSlot){hash_name(table->key, name), table->count++});
}

void hri_name_table_clear(HriNameTable *table) {
    free(table->slots);
    *table = (HriNameTable){.slots = NULL};
}
