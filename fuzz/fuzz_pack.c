/*
 * Bit packing and unpacking, against the definition in spec 1.3 read bit by bit.
 *
 * The first byte chooses width and sign, the second how far the arrays are from an aligned address;
 * the rest are elements. Every set of kernels that this machine has must give what the definition
 * says, in arrays of exactly the size they are promised.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <hurray/element_type.h>
#include <hurray/pack.h>

#include "../src/pack.h"
#include "fuzz.h"

typedef struct Case {
    uint32_t bits;
    bool sign_extend;
    size_t shift; /* of the arrays from the addresses malloc gives */
    const uint8_t *values;
    size_t count;
    size_t packed_size;
} Case;

/* The element that stands in `value`: at one bit, whether it is not zero. */
static uint8_t element(const Case *c, uint8_t value) {
    return c->bits == 1 ? value != 0 : (uint8_t)(value & ((1u << c->bits) - 1));
}

static void pack_by_definition(const Case *c, uint8_t *packed) {
    memset(packed, 0, c->packed_size);
    for (size_t i = 0; i < c->count; i++) {
        for (uint32_t b = 0; b < c->bits; b++) {
            size_t at = i * c->bits + b; /* 6 bits: groups of 24 are whole bytes, too */
            packed[at / 8] |= (uint8_t)((element(c, c->values[i]) >> b & 1) << at % 8);
        }
    }
}

static uint8_t unpacked_by_definition(const Case *c, uint8_t value) {
    uint8_t bare = element(c, value), sign = (uint8_t)(1u << (c->bits - 1));
    return c->sign_extend && (bare & sign) != 0 ? (uint8_t)(bare | ~(sign | (sign - 1u))) : bare;
}

/* `size` bytes that end where their block ends, for ASan to see what is read behind. */
static uint8_t *exact(const Case *c, size_t size, void **block) {
    *block = malloc(c->shift + size + 1);
    require(*block != NULL);
    uint8_t *array = realloc(*block, c->shift + size == 0 ? 1 : c->shift + size);
    require(array != NULL);
    *block = array;
    return array + c->shift;
}

static void check_kernels(const Case *c, const HriPackKernels *kernels, const uint8_t *expected) {
    if (kernels == NULL) return;
    void *packed_block, *values_block;
    uint8_t *packed = exact(c, c->packed_size, &packed_block);
    uint8_t *values = exact(c, c->count, &values_block);
    if (c->count != 0) memcpy(values, c->values, c->count);
    hri_pack_with(kernels, c->bits, values, c->count, packed);
    require(c->packed_size == 0 || memcmp(packed, expected, c->packed_size) == 0);
    hri_unpack_with(kernels, c->bits, c->sign_extend, packed, c->count, values);
    for (size_t i = 0; i < c->count; i++) {
        require(values[i] == unpacked_by_definition(c, c->values[i]));
    }
    free(packed_block);
    free(values_block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint32_t widths[] = {1, 2, 4, 6};
    if (size < 2) return 0;
    Case c = {
        .bits = widths[data[0] % 4],
        .sign_extend = (data[0] & 4) != 0,
        .shift = data[1] % 64,
        .values = data + 2,
        .count = size - 2,
    };
    HurrayPacking packing;
    uint64_t packed_size = 0;
    require(hurray_packing_from_bits(c.bits, &packing) == HURRAY_OK);
    require(hurray_packing_size(packing, c.count, &packed_size) == HURRAY_OK);
    c.packed_size = (size_t)packed_size;
    uint8_t *expected = malloc(c.packed_size + 1);
    require(expected != NULL);
    pack_by_definition(&c, expected);
    check_kernels(&c, hri_pack_kernels_portable(), expected);
    check_kernels(&c, hri_pack_kernels_sse2(), expected);
    check_kernels(&c, hri_pack_kernels_avx2(), expected);
    check_kernels(&c, hri_pack_kernels_neon(), expected);
    free(expected);
    return 0;
}
