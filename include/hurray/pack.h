/*
 * Sub-byte elements, packed as spec 1.3 says, to and from one byte each.
 *
 * The portable versions in pack.c define the result; x86 and ARM have faster twins in files of their
 * own, chosen at run time.
 */
#ifndef HURRAY_PACK_H
#define HURRAY_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"

HURRAY_BEGIN_DECLS

/*
 * Packs `count` bytes into elements of `bits` (1, 2, 4 or 6) bits. At 1 bit every non-zero byte is
 * 1; at others the low bits are taken and the rest ignored. `packed` receives hurray_packing_size
 * bytes, unused high bits zero. The two ranges must not overlap. HURRAY_ERR_INVALID_ARGUMENT for
 * other widths; pointers may be NULL only when count is 0.
 */
HURRAY_API HurrayStatus hurray_pack_bits(uint32_t bits, const uint8_t *values, uint64_t count,
                                         uint8_t *packed);

/*
 * The inverse: one byte per element, its low bits; with `sign_extend` the highest of them is copied
 * upward, so that the byte is an int8. Reads hurray_packing_size bytes, unused bits ignored.
 */
HURRAY_API HurrayStatus hurray_unpack_bits(uint32_t bits, bool sign_extend, const uint8_t *packed,
                                           uint64_t count, uint8_t *values);

HURRAY_END_DECLS

#endif
