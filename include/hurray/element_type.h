/*
 * Element types (spec 1.3): one table row each, with tag, name, width and nature.
 *
 * Elements narrower than a byte are packed without padding, least significant bit first, in groups:
 * 8, 4 or 2 elements of 1, 2 or 4 bits to a byte, 4 elements of 6 bits to three bytes. HurrayPacking
 * says so in numbers for every type, private ones included, and all sizes follow from it.
 */
#ifndef HURRAY_ELEMENT_TYPE_H
#define HURRAY_ELEMENT_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"

HURRAY_BEGIN_DECLS

enum {
    HURRAY_TYPE_FLOAT16 = 0x01,
    HURRAY_TYPE_BFLOAT16 = 0x02,
    HURRAY_TYPE_FLOAT32 = 0x03,
    HURRAY_TYPE_FLOAT64 = 0x04,
    HURRAY_TYPE_INT8 = 0x10,
    HURRAY_TYPE_UINT8 = 0x11,
    HURRAY_TYPE_INT16 = 0x12,
    HURRAY_TYPE_UINT16 = 0x13,
    HURRAY_TYPE_INT32 = 0x14,
    HURRAY_TYPE_UINT32 = 0x15,
    HURRAY_TYPE_INT64 = 0x16,
    HURRAY_TYPE_UINT64 = 0x17,
    HURRAY_TYPE_BOOL = 0x20,
    HURRAY_TYPE_FLOAT8_E4M3 = 0x40,
    HURRAY_TYPE_FLOAT8_E5M2 = 0x41,
    HURRAY_TYPE_FLOAT8_E8M0 = 0x42,
    HURRAY_TYPE_FLOAT4_E2M1 = 0x43,
    HURRAY_TYPE_FLOAT6_E2M3 = 0x44,
    HURRAY_TYPE_FLOAT6_E3M2 = 0x45,
    HURRAY_TYPE_FLOAT128 = 0x46,
    HURRAY_TYPE_INT4 = 0x48,
    HURRAY_TYPE_UINT4 = 0x49,
    HURRAY_TYPE_INT2 = 0x4A,
    HURRAY_TYPE_UINT2 = 0x4B,
    HURRAY_TYPE_COMPLEX64 = 0x50,
    HURRAY_TYPE_COMPLEX128 = 0x51,
    HURRAY_TYPE_PRIVATE_FIRST = 0xF0, /* 0xF0 … 0xFE: sized by an extension type section */
    HURRAY_TYPE_PRIVATE_LAST = 0xFE
};

typedef struct HurrayElementType {
    const char *name;
    uint8_t tag;
    uint8_t tier;      /* 1 or 2 */
    uint8_t bits;      /* one element: 1 … 128 */
    uint8_t alignment; /* bytes, of one element: 1 for sub-byte types */
    bool is_float;     /* complex types too */
    bool is_signed;
    bool is_integer; /* neither floats nor bool */
    bool is_complex;
    bool is_standard; /* tier 1 or complex: what array frameworks have */
} HurrayElementType;

/* `group_elements` consecutive elements of `bits` bits occupy `group_bytes` whole bytes. */
typedef struct HurrayPacking {
    uint32_t bits;
    uint32_t group_elements; /* 1 from 8 bits up */
    uint32_t group_bytes;
} HurrayPacking;

/* The row of a tag, a static object; NULL when the tag names none (unassigned, private, invalid). */
HURRAY_API const HurrayElementType *hurray_element_type_from_tag(uint8_t tag);
/* The row of a name such as "float32"; NULL when there is none, or for NULL. */
HURRAY_API const HurrayElementType *hurray_element_type_from_name(const char *name);
/* The rows in order of tag: index 0 … count − 1; NULL beyond, so that one can loop without a count. */
HURRAY_API const HurrayElementType *hurray_element_type_at(uint32_t index);

/* 0xF0 … 0xFE */
HURRAY_API bool hurray_element_type_is_private(uint8_t tag);
/* A tag that a later version may assign, and a permissive reader carries; not 0x00, 0x47, 0xFF. */
HURRAY_API bool hurray_element_type_is_reserved(uint8_t tag);

/*
 * The packing of elements `bits` wide. HURRAY_ERR_INVALID_TYPE unless bits is 1, 2, 4, 6 or a
 * positive multiple of 8.
 */
HURRAY_API HurrayStatus hurray_packing_from_bits(uint32_t bits, HurrayPacking *out);

/*
 * Bytes of `count` packed elements: whole groups, so ceil(count / group_elements) · group_bytes.
 * HURRAY_ERR_INVALID_LAYOUT when that is 2^64 or more.
 */
HURRAY_API HurrayStatus hurray_packing_size(HurrayPacking packing, uint64_t count,
                                            uint64_t *out_bytes);

/* The same from a tag; HURRAY_ERR_INVALID_TYPE for one that is not in the table, private included. */
HURRAY_API HurrayStatus hurray_element_type_size(uint8_t tag, uint64_t count, uint64_t *out_bytes);

HURRAY_END_DECLS

#endif
