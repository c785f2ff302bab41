/*
 * Optional sections of a descriptor (spec 1.7), quantization apart.
 */
#ifndef HURRAY_SECTIONS_H
#define HURRAY_SECTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "element_type.h"
#include "status.h"

HURRAY_BEGIN_DECLS

/* The box of a larger tensor that this one is: for each k, offset[k] + shape[k] <= parent[k]. */
typedef struct HurrayShard {
    const uint64_t *parent_shape; /* u64[rank], no dynamic extent */
    const uint64_t *shard_offset; /* u64[rank] */
} HurrayShard;

/* Bits of HurrayStatistics.computed_mask: which fields are claimed. */
enum {
    HURRAY_STATISTICS_NNZ = 1u << 0,
    HURRAY_STATISTICS_SPARSITY = 1u << 1,
    HURRAY_STATISTICS_RANGE = 1u << 2,   /* value_min, value_max, value_abs_max */
    HURRAY_STATISTICS_MOMENTS = 1u << 3, /* value_mean, value_stddev */
    HURRAY_STATISTICS_NM = 1u << 4,      /* nm_n, nm_m */
    HURRAY_STATISTICS_SPECIALS = 1u << 5 /* has_nan, has_inf */
};

/* Advice about the (dequantized) values. A field whose bit is clear is unknown; write 0 there. */
typedef struct HurrayStatistics {
    uint32_t computed_mask;
    uint64_t nnz;
    double sparsity_ratio; /* share of zeros, 0 … 1 */
    double value_min;
    double value_max;
    double value_abs_max;
    double value_mean;
    double value_stddev; /* of the population, >= 0 */
    uint8_t nm_n;        /* at most n non-zeros in each group of m */
    uint8_t nm_m;
    uint8_t has_nan; /* 0 or 1 */
    uint8_t has_inf; /* 0 or 1 */
} HurrayStatistics;

/*
 * The private element type 0xF0 … 0xFE described: enough to size it, and to read it if it is an
 * IEEE-like float. The float fields are 0 on integers.
 */
typedef struct HurrayExtensionType {
    uint32_t bit_width;     /* 1, 2, 4 or a positive multiple of 8 */
    uint8_t packing_factor; /* elements per byte: 8 / bit_width below 8 bits, else 1 */
    bool is_float;
    bool is_signed; /* integers only */
    uint8_t sign_bits;
    uint8_t exponent_bits;
    uint8_t mantissa_bits;
    uint32_t exponent_bias;
    bool has_nan;
    bool has_inf;
} HurrayExtensionType;

/* What a tensor is within an overlay composite. */
enum {
    HURRAY_ROLE_CORRECTION = 0,
    HURRAY_ROLE_BASE = 1
};
typedef struct HurrayCompositeMember {
    uint8_t role;
} HurrayCompositeMember;

/*
 * What a reader checks of statistics: no unknown bit in the mask. HURRAY_ERR_INVALID_LAYOUT.
 * hurray_statistics_check_authored adds what an author owes (spec 1.7): ratio in 0 … 1, deviation
 * not negative, n <= m, flags 0 or 1, each only where its bit is set.
 */
HURRAY_API HurrayStatus hurray_statistics_check(const HurrayStatistics *statistics);
HURRAY_API HurrayStatus hurray_statistics_check_authored(const HurrayStatistics *statistics);

/* HURRAY_ERR_INVALID_LAYOUT naming the field that breaks its rule above. */
HURRAY_API HurrayStatus hurray_extension_type_check(const HurrayExtensionType *type);

/*
 * Packing of an element type, private or not. `extension` is needed for a private tag and ignored
 * for others. HURRAY_ERR_INVALID_TYPE for a tag that names nothing, or private without a section.
 */
HURRAY_API HurrayStatus hurray_packing_of(uint8_t type_tag, const HurrayExtensionType *extension,
                                          HurrayPacking *out);

HURRAY_END_DECLS

#endif
