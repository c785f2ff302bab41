/*
 * How crc32c.c chooses among its kernels, shared by it, the files with faster twins, and the test
 * that compares them.
 */
#ifndef HURRAY_SRC_CRC32C_H
#define HURRAY_SRC_CRC32C_H

#include <hurray/crc32c.h>
#include <stdint.h>

/* Takes the register, before the final exclusive-or, through `size` bytes. */
typedef uint32_t HriCrc32cKernel(uint32_t state, const uint8_t *bytes, size_t size);

/* Always there. The others are NULL on another architecture or a CPU without the instructions. */
HriCrc32cKernel *hri_crc32c_portable(void);
HriCrc32cKernel *hri_crc32c_x86(void);
HriCrc32cKernel *hri_crc32c_arm(void);

/*
 * The instruction takes three cycles, and a new one can begin in each. So three stretches of this
 * many bytes, one behind the other, are gone through at once, and their states put together.
 */
#define HRI_CRC32C_STRETCH 8192u

/*
 * The state after `first`, `second` and `third`, each the state of its stretch; only the first one
 * began with what was before, the others with 0. (The register is linear: it can be moved over zeros
 * and added up.)
 */
uint32_t hri_crc32c_join(uint32_t first, uint32_t second, uint32_t third);

#endif
