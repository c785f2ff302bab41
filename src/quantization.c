/*
 * The quantization section (spec 3): its bytes, and its rules against the descriptor it stands in.
 *
 * One row of `schemes` says all in which a scheme differs; what the schemes have in common is
 * written once, below it. A new scheme is a new row with its two codec functions.
 *
 * Too few bytes, unknown flags and reserved bytes that are not zero are structural faults, as
 * everywhere; another scheme_version is a version mismatch. All other rules give
 * HURRAY_ERR_INTERNAL, the code that spec 7.2 keeps for quantization.
 */
#include "quantization.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checked.h"
#include "fail.h"

#define HEADER_SIZE 4u
#define LARGEST_SECTION 24u /* of the known fields of any scheme, header included */
#define SCHEME_VERSION 1u
#define FLAG_SYMMETRIC 0x0001u
#define ZERO_POINT_SIZE 4u /* int32, whatever the scales are */

typedef struct Scheme {
    const char *name;
    uint8_t tag;
    uint8_t size;         /* bytes of the section without trailing ones, header included */
    bool has_zero_points; /* a buffer of them, unless SYMMETRIC */
    bool pads;            /* a partial last block is stored in full where the layout allows it */
    uint32_t least_block; /* both 0: not by blocks */
    uint32_t most_block;
    const uint8_t *stored_types; /* this and the next: type tags, 0 ends the list */
    const uint8_t *scale_types;  /* NULL: the scale is in the section itself */
    uint8_t fields_size;         /* bytes of its own fields; up to `size` there are zeros */
    void (*read_fields)(const uint8_t *, HurrayQuantization *);
    void (*write_fields)(const HurrayQuantization *, ByteWriter *);
    /* Of a scheme with blocks: does the axis suit the block size? The parameters are checked. */
    HurrayStatus (*check_extent)(const HurrayQuantization *, uint64_t extent);
    /* Beside a block-paged layout (spec 2.9), instead of check_extent; NULL: not there. */
    HurrayStatus (*check_paged)(const HurrayDescriptorFields *);
} Scheme;

/* ---- the fields of each scheme ---- */

static void read_per_tensor(const uint8_t *bytes, HurrayQuantization *out) {
    uint32_t bits[2] = {load_u32(bytes), load_u32(bytes + 4)};
    memcpy(&out->scale, &bits[0], sizeof bits[0]); /* as bits: see read_f32 */
    memcpy(&out->zero_point, &bits[1], sizeof bits[1]);
}

static void write_per_tensor(const HurrayQuantization *quantization, ByteWriter *writer) {
    write_f32(writer, &quantization->scale);
    write_u32(writer, (uint32_t)quantization->zero_point);
}

static void read_per_channel(const uint8_t *bytes, HurrayQuantization *out) {
    out->axis = load_u32(bytes);
    out->scale_buffer = load_u32(bytes + 4);
    out->zero_point_buffer = load_u32(bytes + 8);
    out->scale_type = bytes[12];
}

static void write_per_channel(const HurrayQuantization *quantization, ByteWriter *writer) {
    write_u32(writer, quantization->axis);
    write_u32(writer, quantization->scale_buffer);
    write_u32(writer, quantization->zero_point_buffer);
    write_u8(writer, quantization->scale_type);
}

/* NF4 and MXFP */
static void read_blocks(const uint8_t *bytes, HurrayQuantization *out) {
    out->axis = load_u32(bytes);
    out->block_size = load_u32(bytes + 4);
    out->scale_buffer = load_u32(bytes + 8);
}

static void write_blocks(const HurrayQuantization *quantization, ByteWriter *writer) {
    write_u32(writer, quantization->axis);
    write_u32(writer, quantization->block_size);
    write_u32(writer, quantization->scale_buffer);
}

static void read_per_block(const uint8_t *bytes, HurrayQuantization *out) {
    read_blocks(bytes, out);
    out->zero_point_buffer = load_u32(bytes + 12);
    out->scale_type = bytes[16];
}

static void write_per_block(const HurrayQuantization *quantization, ByteWriter *writer) {
    write_blocks(quantization, writer);
    write_u32(writer, quantization->zero_point_buffer);
    write_u8(writer, quantization->scale_type);
}

/* ---- the extent of the axis ---- */

static HurrayStatus check_partial_blocks(const HurrayQuantization *quantization, uint64_t extent) {
    if (extent == 0 || quantization->block_size <= extent) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "quantization: block_size %" PRIu32 " is greater than the extent %" PRIu64
                    " of axis %" PRIu32,
                    quantization->block_size, extent, quantization->axis);
}

static HurrayStatus check_whole_blocks(const HurrayQuantization *quantization, uint64_t extent) {
    if (extent != 0 && extent % quantization->block_size == 0) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "quantization: the extent %" PRIu64 " of axis %" PRIu32
                    " is not a positive multiple of block_size %" PRIu32,
                    extent, quantization->axis, quantization->block_size);
}

/* ---- block-paged tensors ---- */

static HurrayStatus check_paged_tensor(const HurrayDescriptorFields *fields) {
    (void)fields; /* one scale, wherever the tokens lie */
    return HURRAY_OK;
}

static HurrayStatus check_paged_channels(const HurrayDescriptorFields *fields) {
    uint32_t axis = fields->quantization->axis;
    if (axis == 1 || axis == 2) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "quantization: axis of per_channel with a block_paged layout is %" PRIu32
                    ", expected 1 or 2",
                    axis);
}

/* The blocks are the pages, whatever the number of tokens. */
static HurrayStatus check_paged_blocks(const HurrayDescriptorFields *fields) {
    const HurrayQuantization *quantization = fields->quantization;
    uint32_t page_size = fields->layout.paged.page_size;
    if (quantization->axis != 0) {
        return hri_fail(HURRAY_ERR_INTERNAL,
                        "quantization: axis of per_block with a block_paged layout is %" PRIu32
                        ", expected 0",
                        quantization->axis);
    }
    if (quantization->block_size == page_size) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "quantization: block_size of per_block with a block_paged layout is %" PRIu32
                    ", expected its page_size %" PRIu32,
                    quantization->block_size, page_size);
}

/* ---- the table ---- */

static const uint8_t integers_to_32_bits[] = {
    HURRAY_TYPE_INT8,
    HURRAY_TYPE_UINT8,
    HURRAY_TYPE_INT16,
    HURRAY_TYPE_UINT16,
    HURRAY_TYPE_INT32,
    HURRAY_TYPE_UINT32,
    HURRAY_TYPE_INT4,
    HURRAY_TYPE_UINT4,
    HURRAY_TYPE_INT2,
    HURRAY_TYPE_UINT2,
    0,
};
static const uint8_t integers_to_8_bits[] = {
    HURRAY_TYPE_INT8,
    HURRAY_TYPE_UINT8,
    HURRAY_TYPE_INT4,
    HURRAY_TYPE_UINT4,
    HURRAY_TYPE_INT2,
    HURRAY_TYPE_UINT2,
    0,
};
static const uint8_t only_uint4[] = {HURRAY_TYPE_UINT4, 0};
static const uint8_t microscaled[] = {
    HURRAY_TYPE_FLOAT8_E4M3, HURRAY_TYPE_FLOAT8_E5M2,
    HURRAY_TYPE_FLOAT4_E2M1, HURRAY_TYPE_FLOAT6_E2M3,
    HURRAY_TYPE_FLOAT6_E3M2, HURRAY_TYPE_INT8,
    HURRAY_TYPE_INT4,        0,
};
static const uint8_t only_float32[] = {HURRAY_TYPE_FLOAT32, 0};
static const uint8_t floats_to_32_bits[] = {
    HURRAY_TYPE_FLOAT16,
    HURRAY_TYPE_BFLOAT16,
    HURRAY_TYPE_FLOAT32,
    0,
};
static const uint8_t only_e8m0[] = {HURRAY_TYPE_FLOAT8_E8M0, 0};

#define LARGEST_POWER_OF_TWO 0x80000000u /* that a u32 holds */

static const Scheme schemes[] = {
    {
        .name = "per_tensor",
        .tag = HURRAY_SCHEME_PER_TENSOR,
        .size = 16,
        .stored_types = integers_to_32_bits,
        .fields_size = 8,
        .read_fields = read_per_tensor,
        .write_fields = write_per_tensor,
        .check_paged = check_paged_tensor,
    },
    {
        .name = "per_channel",
        .tag = HURRAY_SCHEME_PER_CHANNEL,
        .size = 20,
        .has_zero_points = true,
        .stored_types = integers_to_32_bits,
        .scale_types = only_float32,
        .fields_size = 13,
        .read_fields = read_per_channel,
        .write_fields = write_per_channel,
        .check_paged = check_paged_channels,
    },
    {
        .name = "per_block",
        .tag = HURRAY_SCHEME_PER_BLOCK,
        .size = 24,
        .has_zero_points = true,
        .pads = true,
        .least_block = 2,
        .most_block = LARGEST_POWER_OF_TWO,
        .stored_types = integers_to_8_bits,
        .scale_types = floats_to_32_bits,
        .fields_size = 17,
        .read_fields = read_per_block,
        .write_fields = write_per_block,
        .check_extent = check_partial_blocks,
        .check_paged = check_paged_blocks,
    },
    {
        .name = "nf4",
        .tag = HURRAY_SCHEME_NF4,
        .size = 16,
        .pads = true,
        .least_block = 8,
        .most_block = LARGEST_POWER_OF_TWO,
        .stored_types = only_uint4,
        .scale_types = only_float32,
        .fields_size = 12,
        .read_fields = read_blocks,
        .write_fields = write_blocks,
        .check_extent = check_partial_blocks,
    },
    {
        .name = "mxfp",
        .tag = HURRAY_SCHEME_MXFP,
        .size = 16,
        .least_block = 16,
        .most_block = 2048,
        .stored_types = microscaled,
        .scale_types = only_e8m0,
        .fields_size = 12,
        .read_fields = read_blocks,
        .write_fields = write_blocks,
        .check_extent = check_whole_blocks,
    },
};

static const Scheme *scheme_of(uint8_t tag) {
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (schemes[i].tag == tag) return &schemes[i];
    }
    return NULL;
}

const char *hurray_scheme_name(uint8_t scheme) {
    const Scheme *row = scheme_of(scheme);
    return row == NULL ? NULL : row->name;
}

/* A tag that no scheme has, but that one may have some day or among those who agreed on it. */
static bool is_carried(uint8_t tag) { return tag != 0x00 && tag != 0xFF && scheme_of(tag) == NULL; }

bool hri_quantization_is_opaque(const HurrayQuantization *quantization) {
    return quantization != NULL && is_carried(quantization->scheme);
}

/* Index of the zero points; HURRAY_NO_BUFFER where there are none, whatever the field holds. */
static uint32_t zero_points_of(const Scheme *scheme, const HurrayQuantization *quantization) {
    return scheme->has_zero_points ? quantization->zero_point_buffer : HURRAY_NO_BUFFER;
}

uint32_t hri_quantization_buffer_count(const HurrayQuantization *quantization) {
    const Scheme *scheme = scheme_of(quantization->scheme);
    if (scheme == NULL || scheme->scale_types == NULL) return 0;
    uint32_t zero_points = zero_points_of(scheme, quantization);
    return zero_points == HURRAY_NO_BUFFER || zero_points == quantization->scale_buffer ? 1 : 2;
}

/* ---- bytes ---- */

static HurrayStatus fail_scheme(uint8_t tag) {
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "quantization: scheme 0x%02x is not known, expected 0x%02x … 0x%02x",
                    (unsigned)tag, HURRAY_SCHEME_PER_TENSOR, HURRAY_SCHEME_MXFP);
}

/* That there is a header at all. */
static HurrayStatus check_header_size(size_t size) {
    if (size >= HEADER_SIZE) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                    "quantization: the section has %zu bytes, its header takes %u", size,
                    HEADER_SIZE);
}

/* The header after the tag, against what the scheme has. */
static HurrayStatus read_header(ByteReader *reader, const Scheme *scheme, bool *out_symmetric) {
    size_t size = reader_left(reader) + 1; /* with the tag */
    uint8_t version = read_u8(reader);
    uint16_t flags = read_u16(reader);
    if (version != SCHEME_VERSION) {
        return hri_fail(HURRAY_ERR_VERSION_MISMATCH,
                        "quantization: scheme_version of %s is %u, expected %u", scheme->name,
                        (unsigned)version, SCHEME_VERSION);
    }
    uint16_t known = scheme->has_zero_points ? FLAG_SYMMETRIC : 0;
    if ((flags & ~known) != 0) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "quantization: flags of %s are 0x%04x, expected none but 0x%04x",
                        scheme->name, (unsigned)flags, (unsigned)known);
    }
    if (size < scheme->size) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "quantization: the section has %zu bytes, %s takes %u", size, scheme->name,
                        (unsigned)scheme->size);
    }
    *out_symmetric = (flags & FLAG_SYMMETRIC) != 0;
    return HURRAY_OK;
}

/* The zero bytes that fill a section up to its size; three at most. */
static HurrayStatus check_filling(const uint8_t *bytes, size_t count) {
    uint32_t value = 0;
    for (size_t i = 0; i < count; i++) value |= (uint32_t)bytes[i] << 8 * i;
    if (value == 0) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                    "quantization: the %zu reserved bytes hold 0x%" PRIx32 ", expected 0", count,
                    value);
}

static HurrayStatus check_symmetry(bool symmetric, uint32_t zero_point_buffer) {
    if (symmetric == (zero_point_buffer == HURRAY_NO_BUFFER)) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "quantization: zero_point_buffer is 0x%08" PRIx32
                    " with the SYMMETRIC flag %s, expected %s 0x%08" PRIx32,
                    zero_point_buffer, symmetric ? "set" : "clear",
                    symmetric ? "exactly" : "anything but", HURRAY_NO_BUFFER);
}

/* What is left of the section. */
static HurrayStatus read_trailing(ByteReader *reader, HurrayQuantization *out) {
    size_t trailing = reader_left(reader);
    if (trailing > UINT32_MAX) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "quantization: %zu bytes are more than a section can have", trailing);
    }
    if (trailing != 0) {
        out->trailing = read_bytes(reader, trailing);
        out->trailing_size = (uint32_t)trailing;
    }
    return HURRAY_OK;
}

/* All after the tag of a scheme that is known. */
static HurrayStatus read_known(ByteReader *reader, const Scheme *scheme, HurrayQuantization *out) {
    bool symmetric = false;
    HurrayStatus status = read_header(reader, scheme, &symmetric);
    if (status != HURRAY_OK) return status;
    size_t size = scheme->size - HEADER_SIZE;
    const uint8_t *bytes = read_bytes(reader, size); /* which were counted */
    scheme->read_fields(bytes, out);
    status = check_filling(bytes + scheme->fields_size, size - scheme->fields_size);
    if (status == HURRAY_OK && scheme->has_zero_points) {
        status = check_symmetry(symmetric, out->zero_point_buffer);
    }
    return status;
}

HurrayStatus hri_quantization_decode(ByteReader *reader, bool permissive, HurrayQuantization *out) {
    HurrayStatus status = check_header_size(reader_left(reader));
    if (status != HURRAY_OK) return status;
    HurrayQuantization quantization = {.scheme = read_u8(reader),
                                       .zero_point_buffer = HURRAY_NO_BUFFER};
    const Scheme *scheme = scheme_of(quantization.scheme);
    if (scheme != NULL) {
        status = read_known(reader, scheme, &quantization);
    } else if (!permissive || !is_carried(quantization.scheme)) {
        status = fail_scheme(quantization.scheme);
    }
    if (status == HURRAY_OK) status = read_trailing(reader, &quantization);
    if (status == HURRAY_OK) *out = quantization;
    return status;
}

/* The section as the scheme defines it, exactly scheme->size bytes. */
static void write_known(const Scheme *scheme, const HurrayQuantization *quantization,
                        ByteWriter *writer) {
    uint64_t start = writer->position;
    bool symmetric = scheme->has_zero_points && quantization->zero_point_buffer == HURRAY_NO_BUFFER;
    write_u8(writer, scheme->tag);
    write_u8(writer, SCHEME_VERSION);
    write_u16(writer, symmetric ? FLAG_SYMMETRIC : 0);
    scheme->write_fields(quantization, writer);
    write_zeros(writer, scheme->size - (size_t)(writer->position - start));
}

uint32_t hri_quantization_size(const HurrayQuantization *quantization) {
    const Scheme *scheme = scheme_of(quantization->scheme);
    return (scheme != NULL ? scheme->size : 1u) + quantization->trailing_size;
}

void hri_quantization_encode(const HurrayQuantization *quantization, ByteWriter *writer) {
    const Scheme *scheme = scheme_of(quantization->scheme);
    assert(scheme != NULL || is_carried(quantization->scheme));
    if (scheme != NULL) {
        write_known(scheme, quantization, writer);
    } else {
        write_u8(writer, quantization->scheme);
    }
    write_bytes(writer, quantization->trailing, quantization->trailing_size);
}

/* By the bytes, so that fields which the scheme does not have make no difference. */
static bool equal_known(const Scheme *scheme, const HurrayQuantization *a,
                        const HurrayQuantization *b) {
    uint8_t bytes[2][LARGEST_SECTION];
    ByteWriter writers[2] = {{bytes[0], LARGEST_SECTION, 0, 0}, {bytes[1], LARGEST_SECTION, 0, 0}};
    write_known(scheme, a, &writers[0]);
    write_known(scheme, b, &writers[1]);
    return memcmp(bytes[0], bytes[1], scheme->size) == 0;
}

bool hri_quantization_equal(const HurrayQuantization *a, const HurrayQuantization *b) {
    if (a->scheme != b->scheme || a->trailing_size != b->trailing_size) return false;
    const Scheme *scheme = scheme_of(a->scheme);
    if (scheme == NULL ? !is_carried(a->scheme) : !equal_known(scheme, a, b)) return false;
    return a->trailing_size == 0 || memcmp(a->trailing, b->trailing, a->trailing_size) == 0;
}

/* ---- the parameters by themselves ---- */

static const char *type_name(uint8_t tag) {
    const HurrayElementType *type = hurray_element_type_from_tag(tag);
    return type == NULL ? "no standard type" : type->name;
}

static HurrayStatus fail_type(const Scheme *scheme, const char *field, uint8_t tag,
                              const uint8_t *list) {
    char names[128] = "";
    size_t length = 0;
    for (const uint8_t *entry = list; *entry != 0; entry++) {
        int added = snprintf(names + length, sizeof names - length, "%s%s",
                             entry == list ? "" : ", ", type_name(*entry));
        if (added > 0 && (size_t)added < sizeof names - length) length += (size_t)added;
    }
    return hri_fail(HURRAY_ERR_INTERNAL, "quantization: %s of %s is 0x%02x (%s), expected %s",
                    field, scheme->name, (unsigned)tag, type_name(tag), names);
}

/* That `tag` is in the list; else a message that names the field, the tag and the list. */
static HurrayStatus check_type(const Scheme *scheme, const char *field, uint8_t tag,
                               const uint8_t *list) {
    for (const uint8_t *entry = list; *entry != 0; entry++) {
        if (*entry == tag) return HURRAY_OK;
    }
    return fail_type(scheme, field, tag, list);
}

static HurrayStatus check_scale(float scale) {
    if (isfinite(scale) && scale != 0) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERNAL, "quantization: scale is %g, expected finite and not 0",
                    (double)scale);
}

static HurrayStatus check_block_size(const Scheme *scheme, uint32_t block_size) {
    if (is_power_of_two_u64(block_size) && block_size >= scheme->least_block &&
        block_size <= scheme->most_block) {
        return HURRAY_OK;
    }
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "quantization: block_size of %s is %" PRIu32
                    ", expected a power of two in %" PRIu32 " … %" PRIu32,
                    scheme->name, block_size, scheme->least_block, scheme->most_block);
}

static HurrayStatus check_index_range(const char *field, uint32_t index) {
    if (index < HURRAY_MAX_BUFFERS) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "quantization: %s %" PRIu32 " is not below %u, the most buffers there can be",
                    field, index, HURRAY_MAX_BUFFERS);
}

/* What schemes with parameter buffers have in common. */
static HurrayStatus check_buffered(const Scheme *scheme, const HurrayQuantization *quantization) {
    if (quantization->axis >= HURRAY_MAX_RANK) {
        return hri_fail(HURRAY_ERR_INTERNAL,
                        "quantization: axis %" PRIu32 " is not below %u, the greatest rank",
                        quantization->axis, HURRAY_MAX_RANK);
    }
    HurrayStatus status = HURRAY_OK;
    if (scheme->least_block != 0) status = check_block_size(scheme, quantization->block_size);
    if (status == HURRAY_OK && scheme->has_zero_points) {
        status = check_type(scheme, "scale_type", quantization->scale_type, scheme->scale_types);
    }
    if (status == HURRAY_OK) status = check_index_range("scale_buffer", quantization->scale_buffer);
    uint32_t zero_points = zero_points_of(scheme, quantization);
    if (status == HURRAY_OK && zero_points != HURRAY_NO_BUFFER) {
        status = check_index_range("zero_point_buffer", zero_points);
    }
    return status;
}

/* `name` of the scheme, and `size`: what stands in the section before the trailing bytes. */
static HurrayStatus check_trailing(const HurrayQuantization *quantization, const char *name,
                                   uint32_t size) {
    if (quantization->trailing_size == 0) return HURRAY_OK;
    if (quantization->trailing == NULL) return hri_fail_null("quantization.trailing");
    if (quantization->trailing_size > UINT32_MAX - size) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "quantization: trailing_size %" PRIu32
                        " is more than a section can have after the %" PRIu32 " bytes of %s",
                        quantization->trailing_size, size, name);
    }
    return HURRAY_OK;
}

HurrayStatus hri_quantization_check_parameters(const HurrayQuantization *quantization) {
    const Scheme *scheme = scheme_of(quantization->scheme);
    if (scheme == NULL) return fail_scheme(quantization->scheme);
    HurrayStatus status = check_trailing(quantization, scheme->name, scheme->size);
    if (status != HURRAY_OK) return status;
    return scheme->scale_types == NULL ? check_scale(quantization->scale)
                                       : check_buffered(scheme, quantization);
}

/* ---- against the descriptor ---- */

static HurrayStatus check_zero_point(int32_t zero_point, uint8_t type_tag) {
    const HurrayElementType *type = hurray_element_type_from_tag(type_tag);
    assert(type != NULL && type->is_integer && type->bits <= 32);
    int64_t count = INT64_C(1) << type->bits;
    int64_t least = type->is_signed ? -count / 2 : 0;
    int64_t most = least + count - 1;
    if (zero_point >= least && zero_point <= most) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "quantization: zero_point %" PRId32 " is not in the range %" PRId64
                    " … %" PRId64 " of %s",
                    zero_point, least, most, type->name);
}

static HurrayStatus check_axis(const HurrayDescriptorFields *fields) {
    uint32_t axis = fields->quantization->axis;
    if (axis >= fields->rank) {
        return hri_fail(HURRAY_ERR_INTERNAL,
                        "quantization: axis %" PRIu32 " is not below rank %" PRIu32, axis,
                        fields->rank);
    }
    if (fields->shape[axis] == HURRAY_DYNAMIC) {
        return hri_fail(HURRAY_ERR_INTERNAL,
                        "quantization: axis %" PRIu32 " is dynamic, expected a known extent", axis);
    }
    return HURRAY_OK;
}

static HurrayStatus check_index(const HurrayDescriptorFields *fields, uint32_t layout_buffers,
                                const char *field, uint32_t index) {
    if (index >= layout_buffers && index < fields->buffer_count) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "quantization: %s %" PRIu32 " is no parameter buffer, expected one of %" PRIu32
                    " buffers after the layout's first %" PRIu32,
                    field, index, fields->buffer_count, layout_buffers);
}

static bool is_paged(const HurrayDescriptorFields *fields) {
    return fields->layout.tag == HURRAY_LAYOUT_BLOCK_PAGED;
}

/* One scale for each slot of each page, whatever the shape. */
static HurrayStatus count_slots(const HurrayBlockPagedLayout *paged, uint64_t *out_count) {
    if (checked_mul_u64(paged->num_pages, paged->page_size, out_count)) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "quantization: num_pages %" PRIu64 " of page_size %" PRIu32
                    " have 2^64 slots or more",
                    paged->num_pages, paged->page_size);
}

/*
 * How many scales there are: one per index of the axis, one per block, or one per slot of a page.
 * `out_known` is false where the number of blocks depends on a dynamic dimension.
 */
static HurrayStatus count_scales(const HurrayDescriptorFields *fields, const Scheme *scheme,
                                 bool *out_known, uint64_t *out_count) {
    const HurrayQuantization *quantization = fields->quantization;
    uint64_t extent = fields->shape[quantization->axis];
    bool by_blocks = scheme->least_block != 0;
    if (by_blocks && is_paged(fields)) {
        *out_known = true;
        return count_slots(&fields->layout.paged, out_count);
    }
    *out_known = !by_blocks || !hurray_shape_is_dynamic(fields->shape, fields->rank);
    *out_count = extent;
    if (!by_blocks || !*out_known) return HURRAY_OK;

    /* An empty tensor has none, even where its other dimensions multiply to more than 2^64. */
    bool empty = hurray_shape_is_empty(fields->shape, fields->rank);
    uint64_t count = empty ? 0 : divide_up_u64(extent, quantization->block_size);
    for (uint32_t k = 0; k < fields->rank; k++) {
        if (k == quantization->axis || checked_mul_u64(count, fields->shape[k], &count)) continue;
        return hri_fail(HURRAY_ERR_INTERNAL,
                        "quantization: %s has 2^64 blocks or more with block_size %" PRIu32
                        " on axis %" PRIu32,
                        scheme->name, quantization->block_size, quantization->axis);
    }
    *out_count = count;
    return HURRAY_OK;
}

static HurrayStatus count_bytes(const char *field, uint64_t entries, uint32_t entry_size,
                                uint64_t *out) {
    if (checked_mul_u64(entries, entry_size, out)) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "quantization: %" PRIu64 " entries of %" PRIu32
                    " bytes for %s take 2^64 bytes or more",
                    entries, entry_size, field);
}

static HurrayStatus check_size(const HurrayDescriptorFields *fields, const char *field,
                               uint32_t index, uint64_t entries, uint32_t entry_size) {
    uint64_t bytes = 0;
    HurrayStatus status = count_bytes(field, entries, entry_size, &bytes);
    if (status != HURRAY_OK) return status;
    uint64_t found = fields->buffers[index].byte_size;
    if (found == bytes) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "quantization: %s %" PRIu32 " has %" PRIu64 " bytes, expected %" PRIu64
                    ": %" PRIu64 " entries of %" PRIu32,
                    field, index, found, bytes, entries, entry_size);
}

/* The entries of one parameter buffer; a size of 0 says that it is none. */
typedef struct Parameters {
    const char *field; /* that names the buffer */
    const char *role;
    uint32_t entry_size; /* bytes */
} Parameters;

static Parameters parameters_in(const HurrayQuantization *quantization, const Scheme *scheme,
                                uint32_t buffer) {
    uint8_t type = scheme->has_zero_points ? quantization->scale_type : scheme->scale_types[0];
    uint32_t scale_size = hurray_element_type_from_tag(type)->bits / 8u;
    uint32_t zero_points = zero_points_of(scheme, quantization);
    if (buffer == quantization->scale_buffer && buffer == zero_points) {
        return (Parameters){"shared scale_buffer", "scales and zero points",
                            scale_size + ZERO_POINT_SIZE}; /* all scales, then all zero points */
    }
    if (buffer == quantization->scale_buffer) {
        return (Parameters){"scale_buffer", "scales", scale_size};
    }
    if (buffer == zero_points) {
        return (Parameters){"zero_point_buffer", "zero points", ZERO_POINT_SIZE};
    }
    return (Parameters){0};
}

static HurrayStatus check_sizes(const HurrayDescriptorFields *fields, const Scheme *scheme) {
    const HurrayQuantization *quantization = fields->quantization;
    bool known = false;
    uint64_t count = 0;
    HurrayStatus status = count_scales(fields, scheme, &known, &count);
    if (status != HURRAY_OK || !known) return status;

    uint32_t scales = quantization->scale_buffer,
             zero_points = zero_points_of(scheme, quantization);
    Parameters parameters = parameters_in(quantization, scheme, scales);
    status = check_size(fields, parameters.field, scales, count, parameters.entry_size);
    if (status != HURRAY_OK || zero_points == HURRAY_NO_BUFFER || zero_points == scales) {
        return status;
    }
    parameters = parameters_in(quantization, scheme, zero_points);
    return check_size(fields, parameters.field, zero_points, count, parameters.entry_size);
}

static HurrayStatus check_indices(const HurrayDescriptorFields *fields, const Scheme *scheme,
                                  uint32_t layout_buffers) {
    const HurrayQuantization *quantization = fields->quantization;
    HurrayStatus status =
        check_index(fields, layout_buffers, "scale_buffer", quantization->scale_buffer);
    uint32_t zero_points = zero_points_of(scheme, quantization);
    if (status != HURRAY_OK || zero_points == HURRAY_NO_BUFFER) return status;
    return check_index(fields, layout_buffers, "zero_point_buffer", zero_points);
}

static HurrayStatus check_paged(const HurrayDescriptorFields *fields, const Scheme *scheme) {
    if (scheme->check_paged != NULL) return scheme->check_paged(fields);
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "quantization: scheme %s with a block_paged layout, expected per_tensor, "
                    "per_channel or per_block",
                    scheme->name);
}

/* The axis against the shape, or against the pages. */
static HurrayStatus check_along_axis(const HurrayDescriptorFields *fields, const Scheme *scheme) {
    HurrayStatus status = check_axis(fields);
    if (status != HURRAY_OK || is_paged(fields) || scheme->check_extent == NULL) return status;
    return scheme->check_extent(fields->quantization, fields->shape[fields->quantization->axis]);
}

/* Of a scheme that is not known: that a permissive reader kept it, and that it has a header. */
static HurrayStatus check_opaque(const HurrayDescriptorFields *fields) {
    const HurrayQuantization *quantization = fields->quantization;
    if (!fields->permissive) return fail_scheme(quantization->scheme);
    if (quantization->trailing_size < HEADER_SIZE - 1) {
        return check_header_size((size_t)quantization->trailing_size + 1);
    }
    return check_trailing(quantization, "its tag", 1);
}

/* All but the sizes of parameter buffers, of a scheme that is known. */
static HurrayStatus check_known(const HurrayDescriptorFields *fields, const Scheme *scheme,
                                uint32_t layout_buffers) {
    HurrayStatus status = check_type(scheme, "stored type", fields->type_tag, scheme->stored_types);
    if (status == HURRAY_OK && is_paged(fields)) status = check_paged(fields, scheme);
    if (status != HURRAY_OK) return status;
    if (scheme->scale_types == NULL) {
        return check_zero_point(fields->quantization->zero_point, fields->type_tag);
    }
    status = check_along_axis(fields, scheme);
    return status != HURRAY_OK ? status : check_indices(fields, scheme, layout_buffers);
}

HurrayStatus hri_quantization_check(const HurrayDescriptorFields *fields, uint32_t layout_buffers) {
    const HurrayQuantization *quantization = fields->quantization;
    if (hri_quantization_is_opaque(quantization)) return check_opaque(fields);
    HurrayStatus status = hri_quantization_check_parameters(quantization);
    if (status != HURRAY_OK) return status;
    const Scheme *scheme = scheme_of(quantization->scheme);
    status = check_known(fields, scheme, layout_buffers);
    if (status != HURRAY_OK || scheme->scale_types == NULL) return status;
    return check_sizes(fields, scheme);
}

HurrayStatus hri_quantization_buffer_bytes(const HurrayDescriptorFields *fields,
                                           uint32_t layout_buffers, uint32_t buffer,
                                           uint64_t *out_bytes, const char **out_role) {
    const HurrayQuantization *quantization = fields->quantization;
    HurrayStatus status = hri_quantization_check_parameters(quantization);
    if (status != HURRAY_OK) return status;
    const Scheme *scheme = scheme_of(quantization->scheme);
    status = check_known(fields, scheme, layout_buffers);
    if (status != HURRAY_OK) return status;

    Parameters parameters = {0};
    if (scheme->scale_types != NULL) parameters = parameters_in(quantization, scheme, buffer);
    if (parameters.entry_size == 0) {
        return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                        "buffer %" PRIu32 " holds no parameters of scheme %s", buffer,
                        scheme->name);
    }
    bool known = false;
    uint64_t count = 0;
    status = count_scales(fields, scheme, &known, &count);
    if (status != HURRAY_OK) return status;
    *out_role = parameters.role;
    if (!known) {
        *out_bytes = HURRAY_UNKNOWN_SIZE;
        return HURRAY_OK;
    }
    return count_bytes(parameters.field, count, parameters.entry_size, out_bytes);
}

/* ---- for those who have a scheme alone ---- */

HurrayStatus hurray_quantization_check(const HurrayQuantization *quantization) {
    if (quantization == NULL) return hri_fail_null("quantization");
    return hri_quantization_check_parameters(quantization);
}

HurrayStatus hurray_quantization_check_paged(const HurrayQuantization *quantization,
                                             const HurrayBlockPagedLayout *paged) {
    if (paged == NULL) return hri_fail_null("paged");
    HurrayStatus status = hurray_quantization_check(quantization);
    if (status != HURRAY_OK) return status;
    HurrayDescriptorFields fields = {
        .rank = 3,
        .layout = {.tag = HURRAY_LAYOUT_BLOCK_PAGED, .paged = *paged},
        .buffer_count = HURRAY_MAX_BUFFERS,
        .quantization = quantization,
    };
    const Scheme *scheme = scheme_of(quantization->scheme);
    status = check_paged(&fields, scheme);
    if (status != HURRAY_OK || scheme->scale_types == NULL) return status;
    uint32_t own = 0;
    status = hurray_layout_buffer_count(fields.layout.tag, fields.rank, &own);
    return status != HURRAY_OK ? status : check_indices(&fields, scheme, own);
}

HurrayStatus hurray_quantization_encoded_size(const HurrayQuantization *quantization,
                                              uint64_t *out_bytes) {
    if (out_bytes == NULL) return hri_fail_null("out_bytes");
    HurrayStatus status = hurray_quantization_check(quantization);
    if (status != HURRAY_OK) return status;
    *out_bytes = (uint64_t)scheme_of(quantization->scheme)->size + quantization->trailing_size;
    return HURRAY_OK;
}

HurrayStatus hurray_quantization_encode(const HurrayQuantization *quantization, uint8_t *bytes,
                                        uintptr_t capacity, uintptr_t *out_length) {
    if (bytes == NULL || out_length == NULL) return hri_fail_null(bytes ? "out_length" : "bytes");
    uint64_t size = 0;
    HurrayStatus status = hurray_quantization_encoded_size(quantization, &size);
    if (status != HURRAY_OK) return status;
    if (size > capacity) {
        return hri_fail(HURRAY_ERR_BUFFER_TOO_SMALL,
                        "quantization: the section takes %" PRIu64 " bytes; there is room for %ju",
                        size, (uintmax_t)capacity);
    }
    ByteWriter writer = {bytes, capacity, 0, 0};
    hri_quantization_encode(quantization, &writer);
    *out_length = (uintptr_t)size;
    return HURRAY_OK;
}

HurrayStatus hurray_quantization_decode(const uint8_t *bytes, uintptr_t length,
                                        HurrayQuantization *out) {
    if (bytes == NULL || out == NULL) return hri_fail_null(bytes ? "out" : "bytes");
    ByteReader reader = {.bytes = bytes, .length = length};
    HurrayQuantization quantization;
    HurrayStatus status = hri_quantization_decode(&reader, false, &quantization);
    if (status == HURRAY_OK) status = hri_quantization_check_parameters(&quantization);
    if (status == HURRAY_OK) *out = quantization;
    return status;
}

bool hri_quantization_stored_extent(const HurrayDescriptorFields *fields, uint32_t axis,
                                    uint64_t *out) {
    const HurrayQuantization *quantization = fields->quantization;
    const Scheme *scheme = quantization == NULL ? NULL : scheme_of(quantization->scheme);
    uint64_t extent = fields->shape[axis];
    bool packed = fields->layout.tag == HURRAY_LAYOUT_ROW_MAJOR ||
                  fields->layout.tag == HURRAY_LAYOUT_COL_MAJOR;
    if (scheme == NULL || !scheme->pads || !packed || axis != quantization->axis ||
        extent == HURRAY_DYNAMIC || quantization->block_size == 0) {
        *out = extent;
        return true;
    }
    uint64_t block = quantization->block_size;
    return checked_mul_u64(divide_up_u64(extent, block), block, out);
}
