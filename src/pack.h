/*
 * How pack.c chooses among its kernels, shared by it, the files with faster twins, and the tests
 * that compare them.
 */
#ifndef HURRAY_SRC_PACK_H
#define HURRAY_SRC_PACK_H

#include <hurray/pack.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A kernel handles as many elements as suit it, from the first on, and returns how many: all, or a
 * multiple of 8, so that what is left begins at a whole byte at every width. It touches nothing
 * beyond the bytes of the elements that it handles.
 */
typedef size_t HriPackKernel(const uint8_t *values, size_t count, uint8_t *packed);

/*
 * `sign` is the sign bit of an element, 1 << (bits - 1), or 0 not to extend it: both kinds are then
 * (v ^ sign) - sign in a byte.
 */
typedef size_t HriUnpackKernel(const uint8_t *packed, size_t count, uint8_t sign, uint8_t *values);

typedef struct HriPackWidth {
    HriPackKernel *pack; /* NULL: there is none that would be faster */
    HriUnpackKernel *unpack;
} HriPackWidth;

typedef struct HriPackKernels {
    const char *name;
    HriPackWidth widths[4]; /* 1, 2, 4, 6 bits, see hri_pack_width_index */
} HriPackKernels;

/* Where the widths stand in the table; -1 for one that is not packed. */
static inline int hri_pack_width_index(uint32_t bits) {
    switch (bits) {
    case 1: return 0;
    case 2: return 1;
    case 4: return 2;
    case 6: return 3;
    default: return -1;
    }
}

/* Always there. The others are NULL on another architecture or a CPU without the instructions. */
const HriPackKernels *hri_pack_kernels_portable(void);
const HriPackKernels *hri_pack_kernels_sse2(void);
const HriPackKernels *hri_pack_kernels_avx2(void);
const HriPackKernels *hri_pack_kernels_neon(void);
/* The fastest of them here. */
const HriPackKernels *hri_pack_kernels_best(void);

/* `bits` is one of the four; `kernels` do what they can of it and the portable ones the rest. */
void hri_pack_with(const HriPackKernels *kernels, uint32_t bits, const uint8_t *values,
                   size_t count, uint8_t *packed);
void hri_unpack_with(const HriPackKernels *kernels, uint32_t bits, bool sign_extend,
                     const uint8_t *packed, size_t count, uint8_t *values);

#endif
