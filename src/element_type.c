/* The table of element types (include/hurray/element_type.h, spec 1.3) and their sizes. */
#include <hurray/element_type.h>

#include <inttypes.h>
#include <string.h>

#include "checked.h"
#include "fail.h"

/* clang-format off */
static const HurrayElementType table[] = {
/*   name           tag   tier bits align float  signed integer complex standard */
    {"float16",     0x01, 1,   16,  2,  true,  true,  false, false, true},
    {"bfloat16",    0x02, 1,   16,  2,  true,  true,  false, false, true},
    {"float32",     0x03, 1,   32,  4,  true,  true,  false, false, true},
    {"float64",     0x04, 1,   64,  8,  true,  true,  false, false, true},
    {"int8",        0x10, 1,    8,  1,  false, true,  true,  false, true},
    {"uint8",       0x11, 1,    8,  1,  false, false, true,  false, true},
    {"int16",       0x12, 1,   16,  2,  false, true,  true,  false, true},
    {"uint16",      0x13, 1,   16,  2,  false, false, true,  false, true},
    {"int32",       0x14, 1,   32,  4,  false, true,  true,  false, true},
    {"uint32",      0x15, 1,   32,  4,  false, false, true,  false, true},
    {"int64",       0x16, 1,   64,  8,  false, true,  true,  false, true},
    {"uint64",      0x17, 1,   64,  8,  false, false, true,  false, true},
    {"bool",        0x20, 1,    1,  1,  false, false, false, false, true},
    {"float8_e4m3", 0x40, 2,    8,  1,  true,  true,  false, false, false},
    {"float8_e5m2", 0x41, 2,    8,  1,  true,  true,  false, false, false},
    {"float8_e8m0", 0x42, 2,    8,  1,  true,  false, false, false, false},
    {"float4_e2m1", 0x43, 2,    4,  1,  true,  true,  false, false, false},
    {"float6_e2m3", 0x44, 2,    6,  1,  true,  true,  false, false, false},
    {"float6_e3m2", 0x45, 2,    6,  1,  true,  true,  false, false, false},
    {"float128",    0x46, 2,  128, 16,  true,  true,  false, false, false},
    {"int4",        0x48, 2,    4,  1,  false, true,  true,  false, false},
    {"uint4",       0x49, 2,    4,  1,  false, false, true,  false, false},
    {"int2",        0x4A, 2,    2,  1,  false, true,  true,  false, false},
    {"uint2",       0x4B, 2,    2,  1,  false, false, true,  false, false},
    {"complex64",   0x50, 2,   64,  4,  true,  true,  false, true,  true},
    {"complex128",  0x51, 2,  128,  8,  true,  true,  false, true,  true},
};
/* clang-format on */

#define TABLE_SIZE (sizeof table / sizeof table[0])

const HurrayElementType *hurray_element_type_from_tag(uint8_t tag) {
    size_t low = 0, high = TABLE_SIZE;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table[middle].tag < tag) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < TABLE_SIZE && table[low].tag == tag ? &table[low] : NULL;
}

const HurrayElementType *hurray_element_type_from_name(const char *name) {
    for (size_t i = 0; name != NULL && i < TABLE_SIZE; i++) {
        if (strcmp(table[i].name, name) == 0) return &table[i];
    }
    return NULL;
}

const HurrayElementType *hurray_element_type_at(uint32_t index) {
    return index < TABLE_SIZE ? &table[index] : NULL;
}

bool hurray_element_type_is_private(uint8_t tag) {
    return tag >= HURRAY_TYPE_PRIVATE_FIRST && tag <= HURRAY_TYPE_PRIVATE_LAST;
}

bool hurray_element_type_is_reserved(uint8_t tag) {
    return tag != 0x00 && tag != 0x47 && tag < HURRAY_TYPE_PRIVATE_FIRST &&
           hurray_element_type_from_tag(tag) == NULL;
}

HurrayStatus hurray_packing_from_bits(uint32_t bits, HurrayPacking *out) {
    if (out == NULL) return hri_fail_null("out");
    if (bits == 1 || bits == 2 || bits == 4) {
        *out = (HurrayPacking){bits, 8 / bits, 1};
    } else if (bits == 6) {
        *out = (HurrayPacking){6, 4, 3};
    } else if (bits != 0 && bits % 8 == 0) {
        *out = (HurrayPacking){bits, 1, bits / 8};
    } else {
        return hri_fail(HURRAY_ERR_INVALID_TYPE,
                        "an element of %" PRIu32 " bits; expected 1, 2, 4, 6 or a multiple of 8",
                        bits);
    }
    return HURRAY_OK;
}

HurrayStatus hurray_packing_size(HurrayPacking packing, uint64_t count, uint64_t *out_bytes) {
    if (out_bytes == NULL) return hri_fail_null("out_bytes");
    if (packing.group_elements == 0) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT, "packing has groups of 0 elements");
    }
    uint64_t groups = divide_up_u64(count, packing.group_elements);
    if (!checked_mul_u64(groups, packing.group_bytes, out_bytes)) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "%" PRIu64 " elements of %" PRIu32 " bits take 2^64 bytes or more", count,
                        packing.bits);
    }
    return HURRAY_OK;
}

HurrayStatus hurray_element_type_size(uint8_t tag, uint64_t count, uint64_t *out_bytes) {
    const HurrayElementType *type = hurray_element_type_from_tag(tag);
    if (type == NULL) {
        return hri_fail(HURRAY_ERR_INVALID_TYPE,
                        hurray_element_type_is_private(tag)
                            ? "type tag 0x%02X is private: its size stands in its extension type"
                            : "type tag 0x%02X is not an element type",
                        tag);
    }
    HurrayPacking packing = {0};
    HurrayStatus status = hurray_packing_from_bits(type->bits, &packing);
    return status != HURRAY_OK ? status : hurray_packing_size(packing, count, out_bytes);
}
