/*
 * Quantization schemes (spec 3): how stored integers and small floats stand for real values. The
 * library carries and checks the parameters; it does not compute with them.
 *
 *   scheme       type_tag of the stored elements           parameters
 *   per_tensor   int8 … uint32, int4, uint4, int2, uint2   in the descriptor
 *   per_channel  the same                                  float32 scales, int32 zero points
 *   per_block    int8, uint8, int4, uint4, int2, uint2     float scales, int32 zero points
 *   nf4          uint4                                     float32 scales
 *   mxfp         float8_e4m3, float8_e5m2, float4_e2m1,    float8_e8m0 scales
 *                float6_e2m3, float6_e3m2, int8, int4
 *
 * Scales stand in a buffer behind those of the layout, zero points in another, or behind the scales
 * in the same. Both are little-endian, and their buffers have exactly the size that follows from
 * their number: shape[axis] of each for per-channel, else one for each block.
 *
 * A block is `block_size` elements along `axis`; there are blocks_per_axis = ceil(shape[axis] /
 * block_size) side by side. An element is in block
 *
 *     outer · blocks_per_axis + index[axis] / block_size
 *
 * where `outer` is the row-major index over the other dimensions. block_size is a power of two: for
 * per-block at least 2 and for NF4 at least 8, for both at most shape[axis], unless that is 0; for
 * MXFP 16 … 2048 and a divisor of shape[axis].
 *
 * Padding: a partial last block (per-block, NF4) is stored in full in row-major and column-major
 * tensors. Everything lies as if the extent of the axis were blocks_per_axis · block_size; elements
 * behind the real extent are written as zero and ignored. hurray_address_strides and
 * hurray_descriptor_required_bytes count that in. Other layouts store no such padding.
 *
 * A block-paged tensor has no NF4 and no MXFP, per-channel along axis 1 or 2 only, and per-block
 * along axis 0 with its page_size as block_size: then there is a pair for each token that the pool
 * has room for, num_pages · page_size of them.
 *
 * The levels of NF4, for q = 0 … 15:
 *
 *     −1.0, −0.6961928009986877, −0.5250730514526367, −0.39491748809814453,
 *     −0.28444138169288635, −0.18477343022823334, −0.09105003625154495, 0.0,
 *     0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
 *     0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0
 */
#ifndef HURRAY_QUANTIZATION_H
#define HURRAY_QUANTIZATION_H

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"
#include "status.h"

HURRAY_BEGIN_DECLS

enum {
    HURRAY_SCHEME_PER_TENSOR = 0x01,  /* x = scale · (q − zero_point) */
    HURRAY_SCHEME_PER_CHANNEL = 0x02, /* the same, a pair for each index of `axis` */
    HURRAY_SCHEME_PER_BLOCK = 0x03, /* the same, a pair for each `block_size` elements of `axis` */
    HURRAY_SCHEME_NF4 = 0x04,       /* x = scale · NormalFloat4 level, a scale per block */
    HURRAY_SCHEME_MXFP = 0x05       /* x = 2^(e − 127) · value, an e8m0 exponent per block */
};

/* A buffer index that is not there: zero_point_buffer of a symmetric scheme. */
#define HURRAY_NO_BUFFER UINT32_MAX

/* The size of a parameter buffer that a dynamic dimension leaves open. */
#define HURRAY_UNKNOWN_SIZE UINT64_MAX

/* A scheme with its parameters. Which fields apply is said beside each; the others are ignored. */
typedef struct HurrayQuantization {
    uint8_t scheme;
    uint8_t scale_type;         /* per-channel: float32; per-block: float16, bfloat16, float32 */
    float scale;                /* per-tensor: finite, not 0 */
    int32_t zero_point;         /* per-tensor: in the range of the stored type */
    uint32_t axis;              /* all but per-tensor */
    uint32_t block_size;        /* per-block, NF4, MXFP: elements along axis */
    uint32_t scale_buffer;      /* all but per-tensor: index into the buffer table */
    uint32_t zero_point_buffer; /* per-channel, per-block; HURRAY_NO_BUFFER makes it symmetric */
    const uint8_t *trailing; /* bytes of a decoded section after the known fields, kept as read */
    uint32_t trailing_size;
} HurrayQuantization;

/* "per_tensor", "per_channel", "per_block", "nf4", "mxfp"; NULL for a tag without a name. */
HURRAY_API const char *hurray_scheme_name(uint8_t scheme);

/*
 * What the parameters must satisfy by themselves: ranges of axis, block size and buffer indices
 * that some tensor could make right, a scale that is finite and not 0, a scale type that the scheme
 * has. HURRAY_ERR_INTERNAL, also for a scheme that is not in the table above.
 * hurray_descriptor_validate checks the rest, against the tensor.
 */
HURRAY_API HurrayStatus hurray_quantization_check(const HurrayQuantization *quantization);

/*
 * Whether a block-paged tensor can have the scheme, whatever its elements and shape are: which
 * scheme it is, its axis and block size, and that its buffers come after those of the layout.
 * HURRAY_ERR_INTERNAL.
 */
HURRAY_API HurrayStatus hurray_quantization_check_paged(const HurrayQuantization *quantization,
                                                        const HurrayBlockPagedLayout *paged);

/* Checks, and counts the bytes of the section, without the length that stands before it. */
HURRAY_API HurrayStatus hurray_quantization_encoded_size(const HurrayQuantization *quantization,
                                                         uint64_t *out_bytes);
/* Writes the section, trailing bytes included. HURRAY_ERR_BUFFER_TOO_SMALL. */
HURRAY_API HurrayStatus hurray_quantization_encode(const HurrayQuantization *quantization,
                                                   uint8_t *bytes, uintptr_t capacity,
                                                   uintptr_t *out_length);
/*
 * Reads a section of exactly `length` bytes and checks it. `trailing` of the result points into
 * `bytes`. Errors of the check, HURRAY_ERR_VERSION_MISMATCH, and HURRAY_ERR_INVALID_LAYOUT for one
 * that is too short, unknown flags and reserved bytes that are not 0.
 */
HURRAY_API HurrayStatus hurray_quantization_decode(const uint8_t *bytes, uintptr_t length,
                                                   HurrayQuantization *out);

HURRAY_END_DECLS

#endif
