/*
 * The optional sections of a descriptor, quantization apart (spec 1.7): their bytes and their
 * rules, and the packing of an element type, which a private type has from its own section.
 *
 * Decoders check what only the bytes can show: that they are all there, that reserved ones are zero
 * and that a bool is 0 or 1. What a caller can get wrong in the structs, too, is left to the
 * checks, so that a section is judged alike whether it was read or is about to be written.
 */
#include "sections.h"

#include <hurray/shape.h>
#include <inttypes.h>
#include <string.h>

#include "checked.h"
#include "fail.h"

#define STATISTICS_SIZE 72u
#define STATISTICS_KNOWN_BITS 0x3Fu
#define EXTENSION_TYPE_SIZE 20u
#define COMPOSITE_MEMBER_SIZE 16u
#define COMPOSITE_MEMBER_ZEROS 15u

/* A reader of the next `size` bytes alone: within it nothing can be missing any more. */
static HurrayStatus take_section(ByteReader *reader, const char *name, size_t size,
                                 ByteReader *out) {
    size_t left = reader_left(reader);
    const uint8_t *bytes = read_bytes(reader, size);
    if (bytes == NULL) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "%s: %zu bytes are left of the %zu it takes",
                        name, left, size);
    }
    *out = (ByteReader){.bytes = bytes, .length = size};
    return HURRAY_OK;
}

static HurrayStatus check_reserved(const char *name, uint32_t offset, uint32_t value) {
    if (value == 0) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                    "%s: the reserved bytes at offset %" PRIu32 " hold 0x%" PRIx32 ", expected 0",
                    name, offset, value);
}

/* ---- shard ---- */

static const uint64_t *read_extents(ByteReader *reader, uint32_t rank, uint64_t *extents) {
    for (uint32_t k = 0; k < rank; k++) extents[k] = read_u64(reader);
    return extents;
}

HurrayStatus hri_shard_decode(ByteReader *reader, uint32_t rank, uint64_t *parent_shape,
                              uint64_t *shard_offset, HurrayShard *out) {
    ByteReader section = {0};
    HurrayStatus status = take_section(reader, "shard", (size_t)rank * 16, &section);
    if (status != HURRAY_OK) return status;
    out->parent_shape = read_extents(&section, rank, parent_shape);
    out->shard_offset = read_extents(&section, rank, shard_offset);
    return HURRAY_OK;
}

void hri_shard_encode(const HurrayShard *shard, uint32_t rank, ByteWriter *writer) {
    for (uint32_t k = 0; k < rank; k++) write_u64(writer, shard->parent_shape[k]);
    for (uint32_t k = 0; k < rank; k++) write_u64(writer, shard->shard_offset[k]);
}

static HurrayStatus check_shard_dimension(uint32_t k, uint64_t offset, uint64_t extent,
                                          uint64_t parent) {
    if (extent == HURRAY_DYNAMIC || parent == HURRAY_DYNAMIC) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "shard: dimension %" PRIu32 " of %s is dynamic, a shard needs its extent",
                        k, extent == HURRAY_DYNAMIC ? "the tensor" : "parent_shape");
    }
    uint64_t end;
    if (!checked_add_u64(offset, extent, &end) || end > parent) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "shard: shard_offset %" PRIu64 " + extent %" PRIu64 " of dimension %" PRIu32
                        " is not within %" PRIu64 " of parent_shape",
                        offset, extent, k, parent);
    }
    return HURRAY_OK;
}

HurrayStatus hri_shard_check(const HurrayShard *shard, uint32_t rank, const uint64_t *shape) {
    if (rank == 0) return HURRAY_OK;
    if (shard->parent_shape == NULL) return hri_fail_null("shard.parent_shape");
    if (shard->shard_offset == NULL) return hri_fail_null("shard.shard_offset");
    for (uint32_t k = 0; k < rank; k++) {
        HurrayStatus status =
            check_shard_dimension(k, shard->shard_offset[k], shape[k], shard->parent_shape[k]);
        if (status != HURRAY_OK) return status;
    }
    return HURRAY_OK;
}

static bool equal_extents(const uint64_t *a, const uint64_t *b, uint32_t rank) {
    for (uint32_t k = 0; k < rank; k++) {
        if (a[k] != b[k]) return false;
    }
    return true;
}

bool hri_shard_equal(const HurrayShard *a, const HurrayShard *b, uint32_t rank) {
    return equal_extents(a->parent_shape, b->parent_shape, rank) &&
           equal_extents(a->shard_offset, b->shard_offset, rank);
}

/* ---- statistics ---- */

HurrayStatus hri_statistics_decode(ByteReader *reader, HurrayStatistics *out) {
    ByteReader section = {0};
    HurrayStatus status = take_section(reader, "statistics", STATISTICS_SIZE, &section);
    if (status != HURRAY_OK) return status;

    HurrayStatistics statistics = {.computed_mask = read_u32(&section)};
    status = check_reserved("statistics", 4, read_u32(&section));
    if (status != HURRAY_OK) return status;
    statistics.nnz = read_u64(&section);
    read_f64(&section, &statistics.sparsity_ratio);
    read_f64(&section, &statistics.value_min);
    read_f64(&section, &statistics.value_max);
    read_f64(&section, &statistics.value_abs_max);
    read_f64(&section, &statistics.value_mean);
    read_f64(&section, &statistics.value_stddev);
    statistics.nm_n = read_u8(&section);
    statistics.nm_m = read_u8(&section);
    statistics.has_nan = read_u8(&section);
    statistics.has_inf = read_u8(&section);
    status = check_reserved("statistics", 68, read_u32(&section));
    if (status != HURRAY_OK) return status;
    *out = statistics;
    return HURRAY_OK;
}

void hri_statistics_encode(const HurrayStatistics *statistics, ByteWriter *writer) {
    write_u32(writer, statistics->computed_mask);
    write_u32(writer, 0);
    write_u64(writer, statistics->nnz);
    write_f64(writer, &statistics->sparsity_ratio);
    write_f64(writer, &statistics->value_min);
    write_f64(writer, &statistics->value_max);
    write_f64(writer, &statistics->value_abs_max);
    write_f64(writer, &statistics->value_mean);
    write_f64(writer, &statistics->value_stddev);
    write_u8(writer, statistics->nm_n);
    write_u8(writer, statistics->nm_m);
    write_u8(writer, statistics->has_nan);
    write_u8(writer, statistics->has_inf);
    write_u32(writer, 0);
}

HurrayStatus hurray_statistics_check(const HurrayStatistics *statistics) {
    if (statistics == NULL) return hri_fail_null("statistics");
    if ((statistics->computed_mask & ~STATISTICS_KNOWN_BITS) != 0) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "statistics: computed_mask 0x%" PRIx32 " has bits outside 0x%x",
                        statistics->computed_mask, STATISTICS_KNOWN_BITS);
    }
    return HURRAY_OK;
}

static HurrayStatus check_statistics_flag(const char *field, uint8_t value) {
    if (value <= 1) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "statistics: %s is %u, expected 0 or 1", field,
                    (unsigned)value);
}

HurrayStatus hurray_statistics_check_authored(const HurrayStatistics *statistics) {
    HurrayStatus status = hurray_statistics_check(statistics);
    if (status != HURRAY_OK) return status;
    uint32_t mask = statistics->computed_mask;

    /* Written so that a NaN is refused: it is no share of anything. */
    if ((mask & HURRAY_STATISTICS_SPARSITY) != 0 &&
        !(statistics->sparsity_ratio >= 0 && statistics->sparsity_ratio <= 1)) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "statistics: sparsity_ratio %g is not in 0 … 1",
                        statistics->sparsity_ratio);
    }
    /* And so that one is not: the deviation of values among which there is a NaN. */
    if ((mask & HURRAY_STATISTICS_MOMENTS) != 0 && statistics->value_stddev < 0) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "statistics: value_stddev %g is negative, expected at least 0",
                        statistics->value_stddev);
    }
    if ((mask & HURRAY_STATISTICS_NM) != 0 && statistics->nm_n > statistics->nm_m) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "statistics: nm_n %u is greater than nm_m %u",
                        (unsigned)statistics->nm_n, (unsigned)statistics->nm_m);
    }
    if ((mask & HURRAY_STATISTICS_SPECIALS) != 0) {
        status = check_statistics_flag("has_nan", statistics->has_nan);
        if (status == HURRAY_OK) status = check_statistics_flag("has_inf", statistics->has_inf);
    }
    return status;
}

bool hri_statistics_equal(const HurrayStatistics *a, const HurrayStatistics *b) {
    /* By the bytes: the bits of the floats count, the padding of the structs does not. */
    uint8_t bytes[2][STATISTICS_SIZE];
    ByteWriter writers[2] = {{bytes[0], STATISTICS_SIZE, 0, 0}, {bytes[1], STATISTICS_SIZE, 0, 0}};
    hri_statistics_encode(a, &writers[0]);
    hri_statistics_encode(b, &writers[1]);
    return memcmp(bytes[0], bytes[1], STATISTICS_SIZE) == 0;
}

/* ---- extension type ---- */

/* A byte that says yes or no. The struct has a bool for it, so no check can see another value. */
static HurrayStatus read_flag(ByteReader *section, const char *field, bool *out) {
    uint8_t value = read_u8(section);
    if (value > 1) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "extension type: %s is %u, expected 0 or 1",
                        field, (unsigned)value);
    }
    *out = value == 1;
    return HURRAY_OK;
}

static HurrayStatus decode_extension_fields(ByteReader *section, HurrayExtensionType *out) {
    HurrayStatus status;
    out->bit_width = read_u32(section);
    out->packing_factor = read_u8(section);
    if ((status = read_flag(section, "is_float", &out->is_float)) != HURRAY_OK) return status;
    if ((status = read_flag(section, "is_signed", &out->is_signed)) != HURRAY_OK) return status;
    out->sign_bits = read_u8(section);
    out->exponent_bits = read_u8(section);
    out->mantissa_bits = read_u8(section);
    status = check_reserved("extension type", 10, read_u16(section));
    if (status != HURRAY_OK) return status;
    out->exponent_bias = read_u32(section);
    if ((status = read_flag(section, "has_nan", &out->has_nan)) != HURRAY_OK) return status;
    if ((status = read_flag(section, "has_inf", &out->has_inf)) != HURRAY_OK) return status;
    return check_reserved("extension type", 18, read_u16(section));
}

HurrayStatus hri_extension_type_decode(ByteReader *reader, HurrayExtensionType *out) {
    ByteReader section = {0};
    HurrayStatus status = take_section(reader, "extension type", EXTENSION_TYPE_SIZE, &section);
    if (status != HURRAY_OK) return status;
    HurrayExtensionType type = {0};
    status = decode_extension_fields(&section, &type);
    if (status == HURRAY_OK) *out = type;
    return status;
}

void hri_extension_type_encode(const HurrayExtensionType *type, ByteWriter *writer) {
    write_u32(writer, type->bit_width);
    write_u8(writer, type->packing_factor);
    write_u8(writer, type->is_float);
    write_u8(writer, type->is_signed);
    write_u8(writer, type->sign_bits);
    write_u8(writer, type->exponent_bits);
    write_u8(writer, type->mantissa_bits);
    write_u16(writer, 0);
    write_u32(writer, type->exponent_bias);
    write_u8(writer, type->has_nan);
    write_u8(writer, type->has_inf);
    write_u16(writer, 0);
}

/* Stricter than the widths of standard types: 6 bits are not for private ones (spec 1.7). */
static HurrayStatus check_width(const HurrayExtensionType *type) {
    uint32_t width = type->bit_width;
    if (width == 0) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "extension type: bit_width is 0, expected greater than 0");
    }
    if (width < 8 && !is_power_of_two_u64(width)) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "extension type: bit_width is %" PRIu32 ", expected 1, 2 or 4 below 8",
                        width);
    }
    if (width >= 8 && width % 8 != 0) {
        return hri_fail(
            HURRAY_ERR_INVALID_LAYOUT,
            "extension type: bit_width is %" PRIu32 ", expected a multiple of 8 from 8 up", width);
    }
    uint32_t packing = width < 8 ? 8 / width : 1;
    if (type->packing_factor != packing) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "extension type: packing_factor is %u, expected %" PRIu32 " at %" PRIu32
                        " bits",
                        (unsigned)type->packing_factor, packing, width);
    }
    return HURRAY_OK;
}

static HurrayStatus check_float_fields(const HurrayExtensionType *type) {
    if (type->is_signed) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "extension type: is_signed is 1 on a float, expected 0 beside sign_bits");
    }
    if (type->sign_bits > 1) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "extension type: sign_bits is %u, expected 0 or 1",
                        (unsigned)type->sign_bits);
    }
    return HURRAY_OK;
}

static HurrayStatus check_integer_fields(const HurrayExtensionType *type) {
    const struct {
        const char *name;
        uint32_t value;
    } fields[] = {
        {"sign_bits", type->sign_bits},
        {"exponent_bits", type->exponent_bits},
        {"mantissa_bits", type->mantissa_bits},
        {"exponent_bias", type->exponent_bias},
        {"has_nan", type->has_nan},
        {"has_inf", type->has_inf},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].value != 0) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "extension type: %s is %" PRIu32 " on an integer, expected 0",
                            fields[i].name, fields[i].value);
        }
    }
    return HURRAY_OK;
}

HurrayStatus hurray_extension_type_check(const HurrayExtensionType *type) {
    if (type == NULL) return hri_fail_null("type");
    HurrayStatus status = check_width(type);
    if (status != HURRAY_OK) return status;
    return type->is_float ? check_float_fields(type) : check_integer_fields(type);
}

bool hri_extension_type_equal(const HurrayExtensionType *a, const HurrayExtensionType *b) {
    uint8_t bytes[2][EXTENSION_TYPE_SIZE];
    ByteWriter writers[2] = {{bytes[0], EXTENSION_TYPE_SIZE, 0, 0},
                             {bytes[1], EXTENSION_TYPE_SIZE, 0, 0}};
    hri_extension_type_encode(a, &writers[0]);
    hri_extension_type_encode(b, &writers[1]);
    return memcmp(bytes[0], bytes[1], EXTENSION_TYPE_SIZE) == 0;
}

HurrayStatus hurray_packing_of(uint8_t type_tag, const HurrayExtensionType *extension,
                               HurrayPacking *out) {
    if (out == NULL) return hri_fail_null("out");
    if (!hurray_element_type_is_private(type_tag)) {
        const HurrayElementType *type = hurray_element_type_from_tag(type_tag);
        if (type == NULL) {
            return hri_fail(HURRAY_ERR_INVALID_TYPE,
                            "element type: tag 0x%02x is not assigned, so it has no size",
                            (unsigned)type_tag);
        }
        return hurray_packing_from_bits(type->bits, out);
    }
    if (extension == NULL) {
        return hri_fail(HURRAY_ERR_INVALID_TYPE,
                        "element type: private tag 0x%02x has no extension type section to size it",
                        (unsigned)type_tag);
    }
    HurrayStatus status = hurray_extension_type_check(extension);
    if (status != HURRAY_OK) return status;
    return hurray_packing_from_bits(extension->bit_width, out);
}

/* ---- composite member ---- */

HurrayStatus hri_member_decode(ByteReader *reader, HurrayCompositeMember *out) {
    ByteReader section = {0};
    HurrayStatus status = take_section(reader, "composite member", COMPOSITE_MEMBER_SIZE, &section);
    if (status != HURRAY_OK) return status;
    uint8_t role = read_u8(&section);
    for (uint32_t i = 0; i < COMPOSITE_MEMBER_ZEROS; i++) {
        status = check_reserved("composite member", 1 + i, read_u8(&section));
        if (status != HURRAY_OK) return status;
    }
    out->role = role;
    return HURRAY_OK;
}

void hri_member_encode(const HurrayCompositeMember *member, ByteWriter *writer) {
    write_u8(writer, member->role);
    write_zeros(writer, COMPOSITE_MEMBER_ZEROS);
}

HurrayStatus hri_member_check(const HurrayCompositeMember *member) {
    if (member->role == HURRAY_ROLE_CORRECTION || member->role == HURRAY_ROLE_BASE) {
        return HURRAY_OK;
    }
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                    "composite member: member_role is %u, expected %d (correction) or %d (base)",
                    (unsigned)member->role, HURRAY_ROLE_CORRECTION, HURRAY_ROLE_BASE);
}
