/*
 * CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected, initial value and final exclusive-or all
 * ones; the check value of "123456789" is 0xE3069283), the checksum of spec 4.5 and 8.12. Uses the
 * processor's instruction where there is one.
 */
#ifndef HURRAY_CRC32C_H
#define HURRAY_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#include "api.h"

HURRAY_BEGIN_DECLS

/* The checksum of bytes that follow others whose checksum is `crc`; 0 for none before. */
HURRAY_API uint32_t hurray_crc32c(uint32_t crc, const void *bytes, size_t size);

HURRAY_END_DECLS

#endif
