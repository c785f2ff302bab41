/*
 * Quantization schemes (spec 3): how stored integers and small floats stand for real values. The
 * library carries and checks the parameters; it does not compute with them.
 */
#ifndef HURRAY_QUANTIZATION_H
#define HURRAY_QUANTIZATION_H

#include <stdbool.h>
#include <stdint.h>

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

HURRAY_END_DECLS

#endif
