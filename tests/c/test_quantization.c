/*
 * Quantization schemes (src/quantization.c): the section's bytes there and back, and each rule of
 * spec 3 from both sides of its boundary.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <hurray/descriptor.h>
#include <hurray/element_type.h>
#include <hurray/shape.h>

#include "quantization.h"

#define NO_BUFFER HURRAY_NO_BUFFER
#define ROOM 64 /* more than a section here takes */

static const uint8_t all_schemes[] = {
    HURRAY_SCHEME_PER_TENSOR, HURRAY_SCHEME_PER_CHANNEL, HURRAY_SCHEME_PER_BLOCK,
    HURRAY_SCHEME_NF4,        HURRAY_SCHEME_MXFP,
};
#define SCHEME_COUNT (sizeof all_schemes)

static const HurrayQuantization per_tensor = {
    .scheme = HURRAY_SCHEME_PER_TENSOR,
    .scale = 0.5f,
    .zero_point = -3,
    .zero_point_buffer = NO_BUFFER,
};
static const HurrayQuantization per_channel = {
    .scheme = HURRAY_SCHEME_PER_CHANNEL,
    .scale_type = HURRAY_TYPE_FLOAT32,
    .scale_buffer = 1,
    .zero_point_buffer = NO_BUFFER,
};
static const HurrayQuantization per_block = {
    .scheme = HURRAY_SCHEME_PER_BLOCK,
    .scale_type = HURRAY_TYPE_FLOAT16,
    .axis = 1,
    .block_size = 32,
    .scale_buffer = 1,
    .zero_point_buffer = NO_BUFFER,
};
static const HurrayQuantization nf4 = {
    .scheme = HURRAY_SCHEME_NF4,
    .axis = 1,
    .block_size = 64,
    .scale_buffer = 1,
    .zero_point_buffer = NO_BUFFER,
};
static const HurrayQuantization mxfp = {
    .scheme = HURRAY_SCHEME_MXFP,
    .axis = 1,
    .block_size = 32,
    .scale_buffer = 1,
    .zero_point_buffer = NO_BUFFER,
};

/* ---- a descriptor around a scheme ---- */

typedef struct Case {
    uint64_t shape[4];
    HurrayBufferHandle buffers[5];
    HurrayQuantization quantization;
    HurrayDescriptorFields fields;
} Case;

/* Of shape [rows, columns], row-major, with one data buffer and `parameters` empty ones. */
static void set_up(Case *c, const HurrayQuantization *quantization, uint8_t type, uint64_t rows,
                   uint64_t columns, uint32_t parameters) {
    memset(c, 0, sizeof *c);
    c->shape[0] = rows;
    c->shape[1] = columns;
    c->quantization = *quantization;
    c->fields = (HurrayDescriptorFields){
        .type_tag = type,
        .rank = 2,
        .shape = c->shape,
        .layout = {.tag = HURRAY_LAYOUT_ROW_MAJOR},
        .buffer_count = 1 + parameters,
        .buffers = c->buffers,
        .quantization = &c->quantization,
    };
}

static void set_up_valid(Case *c, uint8_t scheme) {
    switch (scheme) {
    case HURRAY_SCHEME_PER_TENSOR: set_up(c, &per_tensor, HURRAY_TYPE_INT8, 8, 64, 0); return;
    case HURRAY_SCHEME_PER_CHANNEL:
        set_up(c, &per_channel, HURRAY_TYPE_INT8, 8, 64, 1);
        c->buffers[1].byte_size = 32; /* 8 rows of float32 */
        return;
    case HURRAY_SCHEME_PER_BLOCK:
        set_up(c, &per_block, HURRAY_TYPE_INT8, 8, 64, 1);
        c->buffers[1].byte_size = 32; /* 8 · 2 blocks of float16 */
        return;
    case HURRAY_SCHEME_NF4:
        set_up(c, &nf4, HURRAY_TYPE_UINT4, 8, 64, 1);
        c->buffers[1].byte_size = 32; /* 8 · 1 blocks of float32 */
        return;
    default:
        set_up(c, &mxfp, HURRAY_TYPE_FLOAT4_E2M1, 8, 64, 1);
        c->buffers[1].byte_size = 16; /* 8 · 2 blocks of a byte */
        return;
    }
}

static HurrayStatus check(const Case *c) { return hri_quantization_check(&c->fields, 1); }

static void expect_valid(const Case *c) {
    HurrayStatus status = check(c);
    if (status != HURRAY_OK) print_error("%s\n", hurray_error_message());
    assert_int_equal(status, HURRAY_OK);
}

static void expect_message(const char *part) {
    if (strstr(hurray_error_message(), part) != NULL) return;
    print_error("\"%s\" does not say \"%s\"\n", hurray_error_message(), part);
    fail();
}

/* A broken rule: the code that spec 7.2 keeps for quantization, and a message that says `part`. */
static void expect_rule(HurrayStatus status, const char *part) {
    assert_int_equal(status, HURRAY_ERR_INTERNAL);
    expect_message("quantization: ");
    expect_message(part);
}

static void expect_broken(const Case *c, const char *part) { expect_rule(check(c), part); }

/* ---- bytes ---- */

static size_t encode(const HurrayQuantization *quantization, uint8_t bytes[ROOM]) {
    ByteWriter writer = {bytes, ROOM, 0, 0};
    hri_quantization_encode(quantization, &writer);
    assert_true(writer.position <= ROOM);
    return (size_t)writer.position;
}

/* From a block of exactly `length` bytes, so that a sanitizer sees each step outside. */
static HurrayStatus decode_as(const uint8_t *bytes, size_t length, bool permissive,
                              HurrayQuantization *out) {
    uint8_t *exact = malloc(length);
    assert_true(exact != NULL || length == 0);
    if (length != 0) memcpy(exact, bytes, length);
    ByteReader reader = {.bytes = exact, .length = length};
    HurrayStatus status = hri_quantization_decode(&reader, permissive, out);
    if (status == HURRAY_OK) {
        assert_false(reader.failed);
        assert_int_equal(reader_left(&reader), 0);
        if (out->trailing_size == 0) {
            assert_null(out->trailing);
        } else {
            assert_ptr_equal(out->trailing, exact + length - out->trailing_size);
            out->trailing = bytes + length - out->trailing_size;
        }
    }
    free(exact);
    return status;
}

static HurrayStatus decode(const uint8_t *bytes, size_t length, HurrayQuantization *out) {
    return decode_as(bytes, length, false, out);
}

static uint64_t random_state = 0x9E3779B97F4A7C15u;
static uint32_t random_u32(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32);
}

/* Any field may hold anything: a section that breaks a rule must come back as it was, too. */
static HurrayQuantization random_quantization(uint8_t scheme, const uint8_t *trailing) {
    HurrayQuantization quantization = {
        .scheme = scheme,
        .scale_type = (uint8_t)random_u32(),
        .scale = (float)random_u32() / 7.0f,
        .zero_point = (int32_t)(random_u32() >> 1) - (INT32_MAX / 2),
        .axis = random_u32(),
        .block_size = random_u32(),
        .scale_buffer = random_u32(),
        .zero_point_buffer = random_u32() % 2 == 0 ? NO_BUFFER : random_u32() >> 1,
        .trailing_size = random_u32() % 9,
    };
    if (quantization.trailing_size != 0) quantization.trailing = trailing;
    return quantization;
}

static void round_trip_keeps_everything(void **state) {
    (void)state;
    static const uint8_t trailing[9] = {0xFF, 0, 1, 2, 3, 4, 5, 6, 0x80};
    static const size_t sizes[SCHEME_COUNT] = {16, 20, 24, 16, 16};
    for (size_t s = 0; s < SCHEME_COUNT; s++) {
        for (int i = 0; i < 200; i++) {
            HurrayQuantization before = random_quantization(all_schemes[s], trailing);
            uint8_t bytes[ROOM];
            uint8_t again[ROOM];
            size_t length = encode(&before, bytes);
            assert_int_equal(length, sizes[s] + before.trailing_size);

            HurrayQuantization after;
            assert_int_equal(decode(bytes, length, &after), HURRAY_OK);
            assert_true(hri_quantization_equal(&before, &after));
            assert_int_equal(encode(&after, again), length);
            assert_memory_equal(bytes, again, length);
        }
    }
}

static void the_section_is_as_the_spec_lays_it_out(void **state) {
    (void)state;
    static const uint8_t expected[] = {
        0x03, 0x01, 0, 0, /* per-block, version 1, not symmetric */
        0x01, 0,    0, 0, /* axis */
        0x20, 0,    0, 0, /* block_size */
        0x02, 0,    0, 0, /* scale_buffer */
        0x04, 0x03, 0, 0, /* zero_point_buffer */
        0x02, 0,    0, 0, /* scale_type */
        0xAB, 0xCD,       /* trailing */
    };
    HurrayQuantization quantization;
    assert_int_equal(decode(expected, sizeof expected, &quantization), HURRAY_OK);
    assert_int_equal(quantization.scheme, HURRAY_SCHEME_PER_BLOCK);
    assert_int_equal(quantization.axis, 1);
    assert_int_equal(quantization.block_size, 32);
    assert_int_equal(quantization.scale_buffer, 2);
    assert_int_equal(quantization.zero_point_buffer, 0x304);
    assert_int_equal(quantization.scale_type, HURRAY_TYPE_BFLOAT16);
    assert_int_equal(quantization.trailing_size, 2);

    uint8_t bytes[ROOM];
    encode(&per_tensor, bytes);
    assert_memory_equal(bytes, "\x01\x01\0\0\0\0\0\x3F\xFD\xFF\xFF\xFF\0\0\0\0", 16);
    encode(&per_channel, bytes);
    assert_memory_equal(bytes, "\x02\x01\x01\0\0\0\0\0\x01\0\0\0\xFF\xFF\xFF\xFF\x03\0\0\0", 20);
}

static void a_section_cut_short_is_refused(void **state) {
    (void)state;
    for (size_t s = 0; s < SCHEME_COUNT; s++) {
        Case c;
        set_up_valid(&c, all_schemes[s]);
        uint8_t bytes[ROOM];
        size_t length = encode(&c.quantization, bytes);
        for (size_t cut = 0; cut < length; cut++) {
            HurrayQuantization out = {.scheme = 0x77};
            assert_int_equal(decode(bytes, cut, &out), HURRAY_ERR_INVALID_LAYOUT);
            expect_message("quantization: ");
            assert_int_equal(out.scheme, 0x77);
        }
    }
}

/* No bit is overlooked: it is refused, or it is somewhere in the struct. */
static void every_bit_counts(void **state) {
    (void)state;
    for (size_t s = 0; s < SCHEME_COUNT; s++) {
        Case c;
        set_up_valid(&c, all_schemes[s]);
        uint8_t bytes[ROOM];
        uint8_t again[ROOM];
        size_t length = encode(&c.quantization, bytes);
        for (size_t bit = 0; bit < length * 8; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            HurrayQuantization out;
            if (decode(bytes, length, &out) == HURRAY_OK) {
                assert_false(hri_quantization_equal(&out, &c.quantization));
                assert_int_equal(encode(&out, again), length);
                assert_memory_equal(bytes, again, length);
            }
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

static void reserved_bytes_are_zero(void **state) {
    (void)state;
    static const size_t first[SCHEME_COUNT] = {12, 17, 21, 16, 16};
    for (size_t s = 0; s < SCHEME_COUNT; s++) {
        Case c;
        set_up_valid(&c, all_schemes[s]);
        uint8_t bytes[ROOM];
        HurrayQuantization out;
        size_t length = encode(&c.quantization, bytes);
        for (size_t at = first[s]; at < length; at++) {
            bytes[at] = 0x80;
            assert_int_equal(decode(bytes, length, &out), HURRAY_ERR_INVALID_LAYOUT);
            expect_message("reserved");
            bytes[at] = 0;
        }
    }
}

static void versions_and_schemes_that_are_not_known(void **state) {
    (void)state;
    uint8_t bytes[ROOM];
    HurrayQuantization out;
    size_t length = encode(&per_tensor, bytes);
    for (unsigned version = 0; version <= 0xFF; version++) {
        bytes[1] = (uint8_t)version;
        HurrayStatus expected = version == 1 ? HURRAY_OK : HURRAY_ERR_VERSION_MISMATCH;
        assert_int_equal(decode(bytes, length, &out), expected);
    }
    bytes[1] = 1;
    memset(bytes + 2, 0, ROOM - 2);
    for (unsigned tag = 0; tag <= 0xFF; tag++) {
        bytes[0] = (uint8_t)tag;
        HurrayQuantization quantization = {.scheme = (uint8_t)tag};
        if (tag >= 0x01 && tag <= 0x05) {
            assert_non_null(hurray_scheme_name((uint8_t)tag));
            continue;
        }
        assert_null(hurray_scheme_name((uint8_t)tag));
        expect_rule(decode(bytes, ROOM, &out), "scheme 0x");
        expect_rule(hri_quantization_check_parameters(&quantization), "scheme 0x");
        assert_int_equal(hri_quantization_buffer_count(&quantization), 0);
        /* What can be carried is equal to itself. */
        bool carried = tag != 0 && tag != 0xFF;
        assert_int_equal(hri_quantization_equal(&quantization, &quantization), carried);
    }
}

/* Whatever stands after the tag, version and flags too, is only for those who know the scheme. */
static void permissive_readers_carry_schemes_that_are_not_known(void **state) {
    (void)state;
    for (unsigned tag = 0; tag <= 0xFF; tag++) {
        uint8_t bytes[ROOM], again[ROOM];
        for (size_t i = 1; i < sizeof bytes; i++) bytes[i] = (uint8_t)random_u32();
        bytes[0] = (uint8_t)tag;
        HurrayQuantization out = {.scheme = 0x77};
        if (tag >= HURRAY_SCHEME_PER_TENSOR && tag <= HURRAY_SCHEME_MXFP) {
            bytes[1] = 2; /* these are known, and so is the version */
            assert_int_equal(decode_as(bytes, ROOM, true, &out), HURRAY_ERR_VERSION_MISMATCH);
            continue;
        }
        if (tag == 0 || tag == 0xFF) {
            expect_rule(decode_as(bytes, ROOM, true, &out), "scheme 0x");
            continue;
        }
        for (size_t length = 0; length < 4; length++) {
            assert_int_equal(decode_as(bytes, length, true, &out), HURRAY_ERR_INVALID_LAYOUT);
            expect_message("header");
            assert_int_equal(out.scheme, 0x77);
        }
        for (size_t length = 4; length <= ROOM; length++) {
            expect_rule(decode(bytes, length, &out), "scheme 0x");
            assert_int_equal(decode_as(bytes, length, true, &out), HURRAY_OK);
            assert_true(hri_quantization_is_opaque(&out));
            assert_int_equal(out.trailing_size, length - 1);
            assert_int_equal(encode(&out, again), length);
            assert_memory_equal(again, bytes, length);
            out.scheme = 0x77;
        }
    }
}

static void what_is_checked_of_a_carried_scheme(void **state) {
    (void)state;
    static const uint8_t bytes[3] = {1, 2, 3};
    Case c;
    set_up_valid(&c, HURRAY_SCHEME_PER_TENSOR);
    c.quantization = (HurrayQuantization){.scheme = 0x06, .trailing = bytes, .trailing_size = 3};
    expect_broken(&c, "scheme 0x06");
    c.fields.permissive = true;
    c.fields.type_tag = HURRAY_TYPE_FLOAT64; /* who knows what it can store */
    expect_valid(&c);
    c.quantization.trailing_size = 2;
    assert_int_equal(check(&c), HURRAY_ERR_INVALID_LAYOUT);
    expect_message("header");
    c.quantization.trailing_size = UINT32_MAX;
    assert_int_equal(check(&c), HURRAY_ERR_INVALID_LAYOUT);
    expect_message("trailing_size");
    c.quantization.trailing_size = 3;
    c.quantization.trailing = NULL;
    assert_int_equal(check(&c), HURRAY_ERR_NULL_POINTER);
    c.quantization.scheme = 0x00;
    expect_broken(&c, "scheme 0x00");
    assert_false(hri_quantization_is_opaque(&c.quantization));
    assert_false(hri_quantization_is_opaque(NULL));
    assert_false(hri_quantization_is_opaque(&per_tensor));

    HurrayQuantization a = {.scheme = 0x06, .trailing = bytes, .trailing_size = 3};
    HurrayQuantization b = {.scheme = 0x06, .trailing = bytes + 1, .trailing_size = 2};
    assert_false(hri_quantization_equal(&a, &b));
    a.trailing_size = 2;
    assert_false(hri_quantization_equal(&a, &b));
    b.trailing = bytes;
    assert_true(hri_quantization_equal(&a, &b));
    b.scheme = 0xF0;
    assert_false(hri_quantization_equal(&a, &b));
}

static void scheme_names(void **state) {
    (void)state;
    assert_string_equal(hurray_scheme_name(HURRAY_SCHEME_PER_TENSOR), "per_tensor");
    assert_string_equal(hurray_scheme_name(HURRAY_SCHEME_PER_CHANNEL), "per_channel");
    assert_string_equal(hurray_scheme_name(HURRAY_SCHEME_PER_BLOCK), "per_block");
    assert_string_equal(hurray_scheme_name(HURRAY_SCHEME_NF4), "nf4");
    assert_string_equal(hurray_scheme_name(HURRAY_SCHEME_MXFP), "mxfp");
}

static void only_the_symmetric_flag_and_only_where_it_belongs(void **state) {
    (void)state;
    for (size_t s = 0; s < SCHEME_COUNT; s++) {
        Case c;
        set_up_valid(&c, all_schemes[s]);
        uint8_t bytes[ROOM];
        HurrayQuantization out;
        size_t length = encode(&c.quantization, bytes);
        bool affine_buffers = all_schemes[s] == HURRAY_SCHEME_PER_CHANNEL ||
                              all_schemes[s] == HURRAY_SCHEME_PER_BLOCK;
        assert_int_equal(bytes[2], affine_buffers ? 1 : 0);
        for (unsigned bit = 0; bit < 16; bit++) {
            if (bit == 0 && affine_buffers) continue;
            bytes[2 + bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(decode(bytes, length, &out), HURRAY_ERR_INVALID_LAYOUT);
            expect_message("flags");
            bytes[2 + bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

static void the_symmetric_flag_and_the_zero_point_buffer_agree(void **state) {
    (void)state;
    const HurrayQuantization *both[] = {&per_channel, &per_block};
    for (size_t i = 0; i < 2; i++) {
        HurrayQuantization quantization = *both[i];
        uint8_t bytes[ROOM];
        HurrayQuantization out;
        size_t length = encode(&quantization, bytes);
        bytes[2] = 0; /* 0xFFFFFFFF, but not symmetric */
        expect_rule(decode(bytes, length, &out), "zero_point_buffer is 0xffffffff");

        quantization.zero_point_buffer = 2;
        encode(&quantization, bytes);
        assert_int_equal(bytes[2], 0);
        assert_int_equal(decode(bytes, length, &out), HURRAY_OK);
        bytes[2] = 1; /* symmetric, but with a buffer */
        expect_rule(decode(bytes, length, &out), "zero_point_buffer is 0x00000002");
    }
}

static void equality_is_of_what_is_written(void **state) {
    (void)state;
    HurrayQuantization a = nf4;
    HurrayQuantization b = nf4;
    b.scale = 3; /* no field of NF4 */
    b.zero_point_buffer = 7;
    b.scale_type = HURRAY_TYPE_FLOAT16;
    assert_true(hri_quantization_equal(&a, &b));
    b.axis = 0;
    assert_false(hri_quantization_equal(&a, &b));
    b = mxfp;
    assert_false(hri_quantization_equal(&a, &b));

    a = b = per_tensor;
    a.scale = 0.0f;
    b.scale = -0.0f; /* equal numbers, different bits */
    assert_false(hri_quantization_equal(&a, &b));
    a.scale = b.scale = NAN;
    assert_true(hri_quantization_equal(&a, &b));

    uint8_t trailing[2][2] = {{1, 2}, {1, 2}};
    a.trailing = trailing[0];
    b.trailing = trailing[1];
    a.trailing_size = b.trailing_size = 2;
    assert_true(hri_quantization_equal(&a, &b));
    trailing[1][1] = 3;
    assert_false(hri_quantization_equal(&a, &b));
    trailing[1][1] = 2;
    b.trailing_size = 1;
    assert_false(hri_quantization_equal(&a, &b));
}

static void buffers_are_counted(void **state) {
    (void)state;
    assert_int_equal(hri_quantization_buffer_count(&per_tensor), 0);
    assert_int_equal(hri_quantization_buffer_count(&nf4), 1);
    assert_int_equal(hri_quantization_buffer_count(&mxfp), 1);
    const HurrayQuantization *both[] = {&per_channel, &per_block};
    for (size_t i = 0; i < 2; i++) {
        HurrayQuantization quantization = *both[i];
        assert_int_equal(hri_quantization_buffer_count(&quantization), 1);
        quantization.zero_point_buffer = 2;
        assert_int_equal(hri_quantization_buffer_count(&quantization), 2);
        quantization.zero_point_buffer = quantization.scale_buffer;
        assert_int_equal(hri_quantization_buffer_count(&quantization), 1);
    }
    HurrayQuantization zeroed = nf4; /* the field that NF4 does not have left at 0 */
    zeroed.zero_point_buffer = 0;
    assert_int_equal(hri_quantization_buffer_count(&zeroed), 1);
    Case c;
    set_up_valid(&c, HURRAY_SCHEME_NF4);
    c.quantization.zero_point_buffer = 0;
    expect_valid(&c);
}

/* ---- the parameters by themselves ---- */

static void scales_are_finite_and_not_zero(void **state) {
    (void)state;
    static const float good[] = {1.0f, -1.0f, FLT_MIN / 2, -FLT_MIN / 2, FLT_MAX, -FLT_MAX};
    const float bad[] = {0.0f, -0.0f, NAN, -NAN, INFINITY, -INFINITY};
    Case c;
    set_up_valid(&c, HURRAY_SCHEME_PER_TENSOR);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        c.quantization.scale = good[i];
        expect_valid(&c);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        c.quantization.scale = bad[i];
        expect_broken(&c, "scale is");
        expect_rule(hri_quantization_check_parameters(&c.quantization), "finite and not 0");
    }
}

/* Only the per-tensor scheme has a scale in its section; others ignore the field. */
static void other_schemes_ignore_the_scale(void **state) {
    (void)state;
    for (size_t s = 1; s < SCHEME_COUNT; s++) {
        Case c;
        set_up_valid(&c, all_schemes[s]);
        c.quantization.scale = NAN;
        c.quantization.zero_point = INT32_MIN;
        expect_valid(&c);
    }
}

static void expect_block_size(uint8_t scheme, uint32_t block_size, bool good) {
    Case c;
    set_up_valid(&c, scheme);
    c.quantization.block_size = block_size;
    HurrayStatus status = hri_quantization_check_parameters(&c.quantization);
    if (good) {
        assert_int_equal(status, HURRAY_OK);
    } else {
        expect_rule(status, "block_size");
        expect_broken(&c, "block_size");
    }
}

static void block_sizes_are_powers_of_two_in_range(void **state) {
    (void)state;
    static const struct {
        uint8_t scheme;
        uint32_t least;
        uint32_t most;
    } ranges[] = {
        {HURRAY_SCHEME_PER_BLOCK, 2, 0x80000000u},
        {HURRAY_SCHEME_NF4, 8, 0x80000000u},
        {HURRAY_SCHEME_MXFP, 16, 2048},
    };
    for (size_t i = 0; i < 3; i++) {
        uint8_t scheme = ranges[i].scheme;
        for (uint32_t size = 0; size < 5000; size++) {
            bool power = size != 0 && (size & (size - 1)) == 0;
            bool good = power && size >= ranges[i].least && size <= ranges[i].most;
            expect_block_size(scheme, size, good);
        }
        expect_block_size(scheme, 0x80000000u, ranges[i].most == 0x80000000u);
        expect_block_size(scheme, 0x80000001u, false);
        expect_block_size(scheme, UINT32_MAX, false);
    }
}

static void scale_types_are_those_of_the_scheme(void **state) {
    (void)state;
    for (unsigned tag = 0; tag <= 0xFF; tag++) {
        HurrayQuantization quantization = per_block;
        quantization.scale_type = (uint8_t)tag;
        HurrayStatus status = hri_quantization_check_parameters(&quantization);
        if (tag >= 1 && tag <= 3) {
            assert_int_equal(status, HURRAY_OK);
        } else {
            expect_rule(status, "scale_type of per_block");
            expect_message("expected float16, bfloat16, float32");
        }
        quantization = per_channel;
        quantization.scale_type = (uint8_t)tag;
        status = hri_quantization_check_parameters(&quantization);
        if (tag == 3) {
            assert_int_equal(status, HURRAY_OK);
        } else {
            expect_rule(status, "scale_type of per_channel");
        }
    }
}

static void what_no_tensor_could_make_right(void **state) {
    (void)state;
    for (size_t s = 1; s < SCHEME_COUNT; s++) {
        Case c;
        set_up_valid(&c, all_schemes[s]);
        c.quantization.axis = HURRAY_MAX_RANK - 1;
        assert_int_equal(hri_quantization_check_parameters(&c.quantization), HURRAY_OK);
        c.quantization.axis = HURRAY_MAX_RANK;
        expect_rule(hri_quantization_check_parameters(&c.quantization), "axis 64");
        c.quantization.axis = 0;
        c.quantization.scale_buffer = HURRAY_MAX_BUFFERS - 1;
        assert_int_equal(hri_quantization_check_parameters(&c.quantization), HURRAY_OK);
        c.quantization.scale_buffer = HURRAY_MAX_BUFFERS;
        expect_rule(hri_quantization_check_parameters(&c.quantization), "scale_buffer 255");
    }
    HurrayQuantization quantization = per_block;
    quantization.zero_point_buffer = HURRAY_MAX_BUFFERS;
    expect_rule(hri_quantization_check_parameters(&quantization), "zero_point_buffer 255");
}

static void trailing_bytes_are_there_and_fit(void **state) {
    (void)state;
    uint8_t byte = 1;
    HurrayQuantization quantization = per_tensor;
    quantization.trailing_size = 1;
    assert_int_equal(hri_quantization_check_parameters(&quantization), HURRAY_ERR_NULL_POINTER);
    expect_message("trailing");
    quantization.trailing = &byte;
    assert_int_equal(hri_quantization_check_parameters(&quantization), HURRAY_OK);
    quantization.trailing_size = UINT32_MAX - 16;
    assert_int_equal(hri_quantization_check_parameters(&quantization), HURRAY_OK);
    quantization.trailing_size = UINT32_MAX - 15;
    assert_int_equal(hri_quantization_check_parameters(&quantization), HURRAY_ERR_INVALID_LAYOUT);
    expect_message("trailing_size");
}

/* ---- against the descriptor ---- */

static const char *const stored_types[SCHEME_COUNT] = {
    " int8 uint8 int16 uint16 int32 uint32 int4 uint4 int2 uint2 ",
    " int8 uint8 int16 uint16 int32 uint32 int4 uint4 int2 uint2 ",
    " int8 uint8 int4 uint4 int2 uint2 ",
    " uint4 ",
    " float8_e4m3 float8_e5m2 float4_e2m1 float6_e2m3 float6_e3m2 int8 int4 ",
};

static bool is_stored_type(size_t scheme_index, uint8_t tag) {
    const HurrayElementType *type = hurray_element_type_from_tag(tag);
    if (type == NULL) return false;
    char word[32];
    snprintf(word, sizeof word, " %s ", type->name);
    return strstr(stored_types[scheme_index], word) != NULL;
}

static void stored_types_are_those_of_the_scheme(void **state) {
    (void)state;
    for (size_t s = 0; s < SCHEME_COUNT; s++) {
        Case c;
        set_up_valid(&c, all_schemes[s]);
        c.quantization.zero_point = 0;
        for (unsigned tag = 0; tag <= 0xFF; tag++) {
            c.fields.type_tag = (uint8_t)tag;
            if (is_stored_type(s, (uint8_t)tag)) {
                expect_valid(&c);
            } else {
                expect_broken(&c, "stored type of");
                expect_message(hurray_scheme_name(all_schemes[s]));
            }
        }
    }
}

static void zero_points_are_in_the_range_of_the_stored_type(void **state) {
    (void)state;
    static const struct {
        uint8_t type;
        int64_t least;
        int64_t most;
    } ranges[] = {
        {HURRAY_TYPE_INT2, -2, 1},
        {HURRAY_TYPE_UINT2, 0, 3},
        {HURRAY_TYPE_INT4, -8, 7},
        {HURRAY_TYPE_UINT4, 0, 15},
        {HURRAY_TYPE_INT8, -128, 127},
        {HURRAY_TYPE_UINT8, 0, 255},
        {HURRAY_TYPE_INT16, -32768, 32767},
        {HURRAY_TYPE_UINT16, 0, 65535},
        {HURRAY_TYPE_INT32, INT32_MIN, INT32_MAX},
        {HURRAY_TYPE_UINT32, 0, UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        Case c;
        set_up_valid(&c, HURRAY_SCHEME_PER_TENSOR);
        c.fields.type_tag = ranges[i].type;
        const int64_t points[] = {ranges[i].least - 1, ranges[i].least, 0, ranges[i].most,
                                  ranges[i].most + 1};
        for (size_t k = 0; k < 5; k++) {
            if (points[k] < INT32_MIN || points[k] > INT32_MAX) continue;
            c.quantization.zero_point = (int32_t)points[k];
            if (k == 0 || k == 4) {
                expect_broken(&c, "zero_point");
            } else {
                expect_valid(&c);
            }
        }
    }
}

static void per_tensor_suits_every_shape(void **state) {
    (void)state;
    Case c;
    set_up_valid(&c, HURRAY_SCHEME_PER_TENSOR);
    c.shape[0] = HURRAY_DYNAMIC;
    expect_valid(&c);
    c.shape[0] = 0;
    expect_valid(&c);
    c.fields.rank = 0;
    c.fields.shape = NULL;
    expect_valid(&c);
}

static void the_axis_is_below_the_rank_and_known(void **state) {
    (void)state;
    for (size_t s = 1; s < SCHEME_COUNT; s++) {
        Case c;
        set_up_valid(&c, all_schemes[s]);
        c.shape[0] = c.shape[1] = 64;
        c.shape[2] = c.shape[3] = 1;
        uint64_t scale_bytes[] = {256, 256, 64 * 2 * 2, 64 * 4, 64 * 2};
        c.buffers[1].byte_size = scale_bytes[s];
        c.quantization.axis = 1;
        expect_valid(&c);
        c.quantization.axis = 2;
        expect_broken(&c, "axis 2 is not below rank 2");
        c.quantization.axis = UINT32_MAX;
        expect_broken(&c, "axis 4294967295");

        c.quantization.axis = 1;
        c.shape[1] = HURRAY_DYNAMIC;
        expect_broken(&c, "axis 1 is dynamic");
        c.shape[1] = HURRAY_DYNAMIC - 1; /* long, but known */
        assert_int_equal(check(&c), HURRAY_ERR_INTERNAL);
        assert_null(strstr(hurray_error_message(), "dynamic"));
        c.fields.rank = 0;
        expect_broken(&c, "below rank 0");
    }
}

static void a_dynamic_dimension_elsewhere_leaves_block_counts_unchecked(void **state) {
    (void)state;
    static const uint8_t by_blocks[] = {HURRAY_SCHEME_PER_BLOCK, HURRAY_SCHEME_NF4,
                                        HURRAY_SCHEME_MXFP};
    for (size_t s = 0; s < sizeof by_blocks; s++) {
        Case c;
        set_up_valid(&c, by_blocks[s]);
        c.shape[0] = HURRAY_DYNAMIC;
        for (uint64_t bytes = 0; bytes < 40; bytes++) {
            c.buffers[1].byte_size = bytes;
            expect_valid(&c);
        }
        c.quantization.scale_buffer = 2; /* what does not depend on it is checked */
        expect_broken(&c, "scale_buffer 2");
        c.quantization.scale_buffer = 1;
        c.quantization.block_size = 128;
        expect_broken(&c, "block_size 128");
    }
    /* Channels are along the axis alone, so that their number is known. */
    Case c;
    set_up_valid(&c, HURRAY_SCHEME_PER_CHANNEL);
    c.shape[1] = HURRAY_DYNAMIC;
    expect_valid(&c);
    c.buffers[1].byte_size++;
    expect_broken(&c, "has 33 bytes, expected 32");
}

static void a_block_is_no_longer_than_its_axis(void **state) {
    (void)state;
    const HurrayQuantization *padding[] = {&per_block, &nf4};
    for (size_t i = 0; i < 2; i++) {
        Case c;
        set_up(&c, padding[i], HURRAY_TYPE_UINT4, 3, 64, 1);
        uint64_t scale_size = i == 0 ? 2 : 4;
        c.quantization.block_size = 64;
        c.buffers[1].byte_size = 3 * scale_size;
        expect_valid(&c);
        c.shape[1] = 63;
        expect_broken(&c, "block_size 64 is greater than the extent 63 of axis 1");
        c.shape[1] = 65; /* a partial last block */
        c.buffers[1].byte_size = 3 * 2 * scale_size;
        expect_valid(&c);
        c.shape[1] = 0; /* no block to be too long */
        c.buffers[1].byte_size = 0;
        expect_valid(&c);
        c.shape[1] = 1;
        expect_broken(&c, "extent 1");
    }
    Case c;
    set_up(&c, &per_block, HURRAY_TYPE_UINT4, 1, 0x80000000u, 1);
    c.quantization.block_size = 0x80000000u;
    c.buffers[1].byte_size = 2;
    expect_valid(&c);
    c.shape[1]--;
    expect_broken(&c, "2147483648");
}

static void an_mxfp_axis_is_a_positive_multiple(void **state) {
    (void)state;
    Case c;
    set_up_valid(&c, HURRAY_SCHEME_MXFP);
    for (uint64_t extent = 0; extent <= 130; extent++) {
        c.shape[1] = extent;
        c.buffers[1].byte_size = 8 * (extent / 32);
        if (extent != 0 && extent % 32 == 0) {
            expect_valid(&c);
        } else {
            expect_broken(&c, "positive multiple of block_size 32");
        }
    }
    c.shape[0] = 0; /* an empty tensor is no exception */
    c.shape[1] = 64;
    c.buffers[1].byte_size = 0;
    expect_valid(&c);
    c.shape[1] = 0;
    expect_broken(&c, "positive multiple");
}

static void parameter_buffers_come_after_those_of_the_layout(void **state) {
    (void)state;
    for (size_t s = 1; s < SCHEME_COUNT; s++) {
        Case c;
        set_up_valid(&c, all_schemes[s]);
        for (uint32_t index = 0; index < 5; index++) {
            c.quantization.scale_buffer = index;
            c.buffers[index % 4].byte_size = c.buffers[1].byte_size;
            c.fields.buffer_count = 4;
            for (uint32_t layout_buffers = 1; layout_buffers < 4; layout_buffers++) {
                HurrayStatus status = hri_quantization_check(&c.fields, layout_buffers);
                if (index >= layout_buffers && index < 4) {
                    assert_int_equal(status, HURRAY_OK);
                } else {
                    expect_rule(status, "scale_buffer");
                }
            }
        }
    }
}

static void zero_point_buffers_come_after_those_of_the_layout(void **state) {
    (void)state;
    Case c;
    set_up(&c, &per_channel, HURRAY_TYPE_INT8, 6, 4, 2);
    c.buffers[1].byte_size = c.buffers[2].byte_size = 24;
    c.quantization.zero_point_buffer = 2;
    expect_valid(&c);
    c.quantization.zero_point_buffer = 3;
    expect_broken(&c, "zero_point_buffer 3");
    c.quantization.zero_point_buffer = 0;
    expect_broken(&c, "zero_point_buffer 0");
    c.quantization.scale_buffer = 2;
    c.quantization.zero_point_buffer = 1; /* in any order */
    expect_valid(&c);
    expect_rule(hri_quantization_check(&c.fields, 2), "zero_point_buffer 1");
}

/* `bytes` is right for buffer `index`, and neither one less nor one more is. */
static void expect_exactly(Case *c, uint32_t index, uint64_t bytes) {
    c->buffers[index].byte_size = bytes;
    expect_valid(c);
    char found[96];
    for (int step = -1; step <= 1; step += 2) {
        if (step < 0 && bytes == 0) continue;
        c->buffers[index].byte_size = step < 0 ? bytes - 1 : bytes + 1;
        snprintf(found, sizeof found,
                 "_buffer %" PRIu32 " has %" PRIu64 " bytes, expected %" PRIu64, index,
                 c->buffers[index].byte_size, bytes);
        expect_broken(c, found);
    }
    c->buffers[index].byte_size = bytes;
}

static void parameter_buffers_have_exactly_their_size(void **state) {
    (void)state;
    static const struct {
        uint8_t scale_type;
        uint64_t size;
    } scales[] = {{HURRAY_TYPE_FLOAT16, 2}, {HURRAY_TYPE_BFLOAT16, 2}, {HURRAY_TYPE_FLOAT32, 4}};
    for (size_t i = 0; i < 3; i++) {
        for (uint64_t columns = 32; columns < 100; columns++) {
            uint64_t blocks = 3 * ((columns + 31) / 32);
            Case c;
            set_up(&c, &per_block, HURRAY_TYPE_INT4, 3, columns, 2);
            c.quantization.scale_type = scales[i].scale_type;
            expect_exactly(&c, 1, blocks * scales[i].size);
            c.quantization.zero_point_buffer = 2;
            c.buffers[2].byte_size = blocks * 4;
            expect_exactly(&c, 1, blocks * scales[i].size);
            expect_exactly(&c, 2, blocks * 4);
            c.quantization.zero_point_buffer = 1;
            expect_exactly(&c, 1, blocks * (scales[i].size + 4));
        }
    }
    Case c;
    set_up(&c, &per_channel, HURRAY_TYPE_UINT32, 6, 4, 2);
    expect_exactly(&c, 1, 24);
    c.quantization.axis = 1;
    expect_exactly(&c, 1, 16);
    c.quantization.zero_point_buffer = 2;
    c.buffers[2].byte_size = 16;
    expect_exactly(&c, 1, 16);
    expect_exactly(&c, 2, 16);
    c.quantization.zero_point_buffer = 1;
    expect_exactly(&c, 1, 32);
    c.shape[1] = 0;
    expect_exactly(&c, 1, 0);
    set_up_valid(&c, HURRAY_SCHEME_NF4);
    expect_exactly(&c, 1, 32);
    set_up_valid(&c, HURRAY_SCHEME_MXFP);
    expect_exactly(&c, 1, 16);
}

static void block_counts_do_not_wrap(void **state) {
    (void)state;
    Case c;
    set_up(&c, &per_block, HURRAY_TYPE_INT8, 0, 0, 1);
    c.fields.rank = 4;
    c.quantization.axis = 2;
    c.quantization.block_size = 2;

    const uint64_t many[4] = {UINT64_C(1) << 32, UINT64_C(1) << 31, 4, 1};
    memcpy(c.shape, many, sizeof many); /* 2^64 blocks */
    expect_broken(&c, "2^64 blocks or more");
    c.shape[2] = 2; /* 2^63 blocks of 2 bytes */
    expect_broken(&c, "take 2^64 bytes or more");
    c.shape[1] /= 2; /* 2^62 of them */
    expect_exactly(&c, 1, UINT64_C(1) << 63);
    c.quantization.scale_type = HURRAY_TYPE_FLOAT32;
    expect_broken(&c, "take 2^64 bytes or more");
    c.quantization.scale_type = HURRAY_TYPE_FLOAT16; /* it is the two together that do not fit */
    c.shape[1] /= 2;
    c.quantization.zero_point_buffer = 1;
    expect_broken(&c, "has 9223372036854775808 bytes, expected 13835058055282163712");
    c.shape[1] *= 2;
    expect_broken(&c, "take 2^64 bytes or more");
}

static void an_empty_tensor_has_no_blocks(void **state) {
    (void)state;
    const uint64_t shapes[][4] = {
        {UINT64_MAX - 1, UINT64_MAX - 1, 64, 0},
        {0, UINT64_MAX - 1, 64, UINT64_MAX - 1},
        {UINT64_MAX - 1, UINT64_MAX - 1, 0, UINT64_MAX - 1},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        Case c;
        set_up(&c, &per_block, HURRAY_TYPE_INT8, 0, 0, 1);
        c.fields.rank = 4;
        c.quantization.axis = 2;
        memcpy(c.shape, shapes[i], sizeof c.shape);
        expect_exactly(&c, 1, 0);
    }
}

/* ---- padding ---- */

static uint64_t stored(const Case *c, uint32_t axis) {
    uint64_t extent = 12345;
    assert_true(hri_quantization_stored_extent(&c->fields, axis, &extent));
    return extent;
}

static void a_partial_last_block_is_stored_in_full(void **state) {
    (void)state;
    const HurrayQuantization *padding[] = {&per_block, &nf4};
    for (size_t i = 0; i < 2; i++) {
        Case c;
        set_up(&c, padding[i], HURRAY_TYPE_UINT4, 3, 0, 1);
        c.quantization.block_size = 8;
        for (uint64_t extent = 0; extent < 40; extent++) {
            c.shape[1] = extent;
            for (uint8_t tag = HURRAY_LAYOUT_ROW_MAJOR; tag <= HURRAY_LAYOUT_STRIDED; tag++) {
                c.fields.layout.tag = tag;
                uint64_t whole = (extent + 7) / 8 * 8;
                assert_int_equal(stored(&c, 1), tag == HURRAY_LAYOUT_STRIDED ? extent : whole);
                assert_int_equal(stored(&c, 0), 3);
            }
        }
        c.fields.layout.tag = HURRAY_LAYOUT_ROW_MAJOR;
        c.shape[1] = HURRAY_DYNAMIC;
        assert_true(stored(&c, 1) == HURRAY_DYNAMIC);
        c.shape[1] = UINT64_MAX - 7; /* 2^64 − 8: whole blocks */
        assert_true(stored(&c, 1) == UINT64_MAX - 7);
        c.shape[1]++;
        uint64_t untouched = 7;
        assert_false(hri_quantization_stored_extent(&c.fields, 1, &untouched));
        assert_int_equal(untouched, 7);
    }
}

static void other_schemes_do_not_pad(void **state) {
    (void)state;
    const uint8_t others[] = {HURRAY_SCHEME_PER_TENSOR, HURRAY_SCHEME_PER_CHANNEL,
                              HURRAY_SCHEME_MXFP};
    for (size_t i = 0; i < sizeof others; i++) {
        Case c;
        set_up_valid(&c, others[i]);
        c.quantization.axis = 1;
        c.shape[1] = 33;
        assert_int_equal(stored(&c, 1), 33);
    }
    Case c;
    set_up_valid(&c, HURRAY_SCHEME_PER_BLOCK);
    c.shape[1] = 33;
    assert_int_equal(stored(&c, 1), 64);
    c.quantization.block_size = 0; /* not checked yet: no division by it */
    assert_int_equal(stored(&c, 1), 33);
    c.fields.quantization = NULL;
    assert_int_equal(stored(&c, 1), 33);
}

/* ---- block-paged tensors ---- */

static HurrayStatus check_paged(const Case *c) { return hri_quantization_check(&c->fields, 3); }

static void expect_paged(const Case *c) {
    HurrayStatus status = check_paged(c);
    if (status != HURRAY_OK) print_error("%s\n", hurray_error_message());
    assert_int_equal(status, HURRAY_OK);
}

/* Shape [tokens, 2, 8] in `num_pages` pages of 16 tokens; parameters in buffers 3 and 4. */
static void set_up_paged(Case *c, const HurrayQuantization *quantization, uint64_t tokens,
                         uint64_t num_pages, uint32_t parameters) {
    set_up(c, quantization, HURRAY_TYPE_INT8, tokens, 2, 2 + parameters);
    c->shape[2] = 8;
    c->fields.rank = 3;
    c->fields.layout = (HurrayLayout){.tag = HURRAY_LAYOUT_BLOCK_PAGED,
                                      .paged = {.page_size = 16, .num_pages = num_pages}};
    c->quantization.scale_buffer = 3;
}

/* A scale for each slot of each page: the number of tokens, heads and dimensions has no part in
 * it. */
static void paged_blocks_are_pages(void **state) {
    (void)state;
    static const uint64_t tokens[] = {0, 1, 15, 16, 80, 1000};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        Case c;
        HurrayQuantization quantization = per_block;
        quantization.axis = 0;
        quantization.block_size = 16;
        set_up_paged(&c, &quantization, tokens[i], 5, 1);
        c.buffers[3].byte_size = 5 * 16 * 2;
        expect_paged(&c);
        c.shape[1] = HURRAY_DYNAMIC;
        expect_paged(&c);
        for (int wrong = -1; wrong <= 1; wrong += 2) {
            c.buffers[3].byte_size = (uint64_t)(5 * 16 * 2 + wrong);
            expect_rule(check_paged(&c), "80 entries of 2");
        }
        c.quantization.zero_point_buffer = 3; /* both in one buffer */
        c.buffers[3].byte_size = 5 * 16 * (2 + 4);
        expect_paged(&c);
        c.quantization.zero_point_buffer = 4;
        c.fields.buffer_count = 5;
        c.buffers[3].byte_size = 5 * 16 * 2;
        expect_rule(check_paged(&c), "zero_point_buffer 4 has 0 bytes, expected 320");
    }
}

static void paged_blocks_are_along_the_tokens(void **state) {
    (void)state;
    Case c;
    HurrayQuantization quantization = per_block;
    quantization.axis = 0;
    quantization.block_size = 16;
    set_up_paged(&c, &quantization, 64, 0, 1);
    expect_paged(&c); /* no pages, no scales */
    for (uint32_t axis = 1; axis < 3; axis++) {
        c.quantization.axis = axis;
        expect_rule(check_paged(&c), "axis");
    }
    c.quantization.axis = 0;
    for (uint32_t block = 2; block <= 64; block *= 2) {
        if (block == 16) continue;
        c.quantization.block_size = block;
        expect_rule(check_paged(&c), "page_size 16");
    }
    c.quantization.block_size = c.fields.layout.paged.page_size = 24;
    expect_rule(check_paged(&c), "power of two");
    c.quantization.block_size = c.fields.layout.paged.page_size = 1;
    expect_rule(check_paged(&c), "power of two");
    c.quantization.block_size = c.fields.layout.paged.page_size = 2;
    c.fields.layout.paged.num_pages = UINT64_MAX / 2 + 1;
    expect_rule(check_paged(&c), "num_pages");
    c.fields.layout.paged.num_pages = UINT64_MAX / 2;
    expect_rule(check_paged(&c), "2^64");
    c.shape[0] = HURRAY_DYNAMIC;
    expect_rule(check_paged(&c), "dynamic");
}

static void paged_channels_are_heads_or_their_elements(void **state) {
    (void)state;
    static const uint64_t extents[3] = {64, 2, 8};
    for (uint32_t axis = 0; axis < 3; axis++) {
        Case c;
        set_up_paged(&c, &per_channel, 64, 4, 1);
        c.quantization.axis = axis;
        c.buffers[3].byte_size = extents[axis] * 4;
        if (axis == 0) {
            expect_rule(check_paged(&c), "expected 1 or 2");
            continue;
        }
        expect_paged(&c);
        c.shape[0] = HURRAY_DYNAMIC;
        expect_paged(&c);
        c.quantization.scale_buffer = 2; /* seq_ptr */
        expect_rule(check_paged(&c), "scale_buffer");
    }
}

static void other_schemes_on_paged_tensors(void **state) {
    (void)state;
    static const uint8_t bytes[3] = {1, 0, 0};
    Case c;
    set_up_paged(&c, &per_tensor, 64, 4, 0);
    expect_paged(&c);
    c.shape[0] = HURRAY_DYNAMIC;
    expect_paged(&c);
    set_up_paged(&c, &nf4, 64, 4, 1);
    c.fields.type_tag = HURRAY_TYPE_UINT4;
    expect_rule(check_paged(&c), "nf4");
    set_up_paged(&c, &mxfp, 64, 4, 1);
    expect_rule(check_paged(&c), "mxfp");
    HurrayQuantization carried = {.scheme = 0xF0, .trailing = bytes, .trailing_size = 3};
    set_up_paged(&c, &carried, 64, 4, 1);
    c.fields.permissive = true;
    expect_paged(&c);
}

/* ---- schemes by themselves ---- */

static void a_scheme_alone_goes_there_and_back(void **state) {
    (void)state;
    static const uint8_t more[3] = {1, 2, 3};
    for (size_t i = 0; i < SCHEME_COUNT; i++) {
        Case c;
        uint8_t bytes[ROOM], expected[ROOM];
        uint64_t size = 0;
        uintptr_t length = 0;
        HurrayQuantization out;
        set_up_valid(&c, all_schemes[i]);
        c.quantization.trailing = more;
        c.quantization.trailing_size = sizeof more;
        assert_int_equal(hurray_quantization_check(&c.quantization), HURRAY_OK);
        assert_int_equal(hurray_quantization_encoded_size(&c.quantization, &size), HURRAY_OK);
        assert_int_equal(size, encode(&c.quantization, expected));
        assert_int_equal(hurray_quantization_encode(&c.quantization, bytes, size - 1, &length),
                         HURRAY_ERR_BUFFER_TOO_SMALL);
        assert_int_equal(hurray_quantization_encode(&c.quantization, bytes, size, &length),
                         HURRAY_OK);
        assert_int_equal(length, size);
        assert_memory_equal(bytes, expected, size);
        assert_int_equal(hurray_quantization_decode(bytes, length, &out), HURRAY_OK);
        assert_true(hri_quantization_equal(&out, &c.quantization));
        assert_ptr_equal(out.trailing, bytes + size - sizeof more);
        assert_int_equal(hurray_quantization_decode(bytes, 3, &out), HURRAY_ERR_INVALID_LAYOUT);
    }
}

static void a_scheme_alone_is_checked(void **state) {
    (void)state;
    uint8_t bytes[ROOM];
    uintptr_t length;
    uint64_t size;
    HurrayQuantization quantization = nf4;
    quantization.block_size = 24;
    expect_rule(hurray_quantization_check(&quantization), "block_size");
    expect_rule(hurray_quantization_encoded_size(&quantization, &size), "block_size");
    expect_rule(hurray_quantization_encode(&quantization, bytes, ROOM, &length), "block_size");
    expect_rule(hurray_quantization_decode(bytes, encode(&quantization, bytes), &quantization),
                "block_size");
    quantization = (HurrayQuantization){.scheme = 0xF0};
    expect_rule(hurray_quantization_check(&quantization), "scheme 0xf0");
    assert_int_equal(hurray_quantization_check(NULL), HURRAY_ERR_NULL_POINTER);
    assert_int_equal(hurray_quantization_encoded_size(&nf4, NULL), HURRAY_ERR_NULL_POINTER);
    assert_int_equal(hurray_quantization_encode(&nf4, NULL, 0, &length), HURRAY_ERR_NULL_POINTER);
    assert_int_equal(hurray_quantization_encode(&nf4, bytes, ROOM, NULL), HURRAY_ERR_NULL_POINTER);
    assert_int_equal(hurray_quantization_decode(NULL, 0, &quantization), HURRAY_ERR_NULL_POINTER);
    assert_int_equal(hurray_quantization_decode(bytes, 0, NULL), HURRAY_ERR_NULL_POINTER);
}

static void a_scheme_alone_is_checked_against_pages(void **state) {
    (void)state;
    const HurrayBlockPagedLayout paged = {.page_size = 32, .num_pages = 4};
    HurrayQuantization quantization = per_tensor;
    assert_int_equal(hurray_quantization_check_paged(&quantization, &paged), HURRAY_OK);
    quantization = per_channel;
    quantization.axis = 1;
    expect_rule(hurray_quantization_check_paged(&quantization, &paged), "scale_buffer 1");
    quantization.scale_buffer = 3;
    assert_int_equal(hurray_quantization_check_paged(&quantization, &paged), HURRAY_OK);
    quantization.axis = 0;
    expect_rule(hurray_quantization_check_paged(&quantization, &paged), "axis");
    quantization = per_block;
    quantization.scale_buffer = 3;
    expect_rule(hurray_quantization_check_paged(&quantization, &paged), "axis");
    quantization.axis = 0;
    assert_int_equal(hurray_quantization_check_paged(&quantization, &paged), HURRAY_OK);
    quantization.block_size = 16;
    expect_rule(hurray_quantization_check_paged(&quantization, &paged), "page_size 32");
    expect_rule(hurray_quantization_check_paged(&nf4, &paged), "nf4");
    assert_int_equal(hurray_quantization_check_paged(&nf4, NULL), HURRAY_ERR_NULL_POINTER);
    assert_int_equal(hurray_quantization_check_paged(NULL, &paged), HURRAY_ERR_NULL_POINTER);
}

/* The size that is asked for is the one that is accepted. */
static void sizes_of_parameter_buffers_can_be_asked_for(void **state) {
    (void)state;
    for (size_t i = 0; i < SCHEME_COUNT; i++) {
        Case c;
        uint64_t bytes = 0;
        const char *role = NULL;
        set_up_valid(&c, all_schemes[i]);
        assert_int_equal(hurray_descriptor_parameter_bytes(&c.fields, 0, &bytes, &role),
                         HURRAY_ERR_INDEX_OUT_OF_BOUNDS);
        if (c.fields.buffer_count == 1) continue;
        assert_int_equal(hurray_descriptor_parameter_bytes(&c.fields, 1, &bytes, &role), HURRAY_OK);
        assert_int_equal(bytes, c.buffers[1].byte_size);
        assert_string_equal(role, "scales");
        c.fields.buffers = NULL; /* only their number counts */
        assert_int_equal(hurray_descriptor_parameter_bytes(&c.fields, 1, &bytes, NULL), HURRAY_OK);
        c.shape[c.quantization.axis == 0] = HURRAY_DYNAMIC;
        assert_int_equal(hurray_descriptor_parameter_bytes(&c.fields, 1, &bytes, NULL), HURRAY_OK);
        bool by_blocks = c.quantization.block_size != 0;
        assert_true((bytes == HURRAY_UNKNOWN_SIZE) == by_blocks);
        c.quantization.axis = 2;
        expect_rule(hurray_descriptor_parameter_bytes(&c.fields, 1, &bytes, NULL), "axis 2");
        c.fields.buffer_count = 1;
        assert_int_equal(hurray_descriptor_parameter_bytes(&c.fields, 1, &bytes, NULL),
                         HURRAY_ERR_INVALID_LAYOUT);
        assert_int_equal(hurray_descriptor_parameter_bytes(&c.fields, 1, NULL, NULL),
                         HURRAY_ERR_NULL_POINTER);
    }
    Case c;
    uint64_t bytes = 0;
    const char *role = NULL;
    HurrayQuantization shared = per_channel;
    shared.zero_point_buffer = shared.scale_buffer;
    set_up(&c, &shared, HURRAY_TYPE_INT8, 8, 64, 1);
    assert_int_equal(hurray_descriptor_parameter_bytes(&c.fields, 1, &bytes, &role), HURRAY_OK);
    assert_int_equal(bytes, 64);
    assert_string_equal(role, "scales and zero points");
    shared.zero_point_buffer = 2;
    set_up(&c, &shared, HURRAY_TYPE_INT8, 8, 64, 2);
    assert_int_equal(hurray_descriptor_parameter_bytes(&c.fields, 2, &bytes, &role), HURRAY_OK);
    assert_int_equal(bytes, 32);
    assert_string_equal(role, "zero points");
    c.fields.quantization = NULL;
    c.fields.buffer_count = 1;
    assert_int_equal(hurray_descriptor_parameter_bytes(&c.fields, 1, &bytes, NULL),
                     HURRAY_ERR_INDEX_OUT_OF_BOUNDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scheme_alone_goes_there_and_back),
        cmocka_unit_test(a_scheme_alone_is_checked),
        cmocka_unit_test(a_scheme_alone_is_checked_against_pages),
        cmocka_unit_test(sizes_of_parameter_buffers_can_be_asked_for),
        cmocka_unit_test(round_trip_keeps_everything),
        cmocka_unit_test(the_section_is_as_the_spec_lays_it_out),
        cmocka_unit_test(a_section_cut_short_is_refused),
        cmocka_unit_test(every_bit_counts),
        cmocka_unit_test(reserved_bytes_are_zero),
        cmocka_unit_test(versions_and_schemes_that_are_not_known),
        cmocka_unit_test(permissive_readers_carry_schemes_that_are_not_known),
        cmocka_unit_test(what_is_checked_of_a_carried_scheme),
        cmocka_unit_test(scheme_names),
        cmocka_unit_test(only_the_symmetric_flag_and_only_where_it_belongs),
        cmocka_unit_test(the_symmetric_flag_and_the_zero_point_buffer_agree),
        cmocka_unit_test(equality_is_of_what_is_written),
        cmocka_unit_test(buffers_are_counted),
        cmocka_unit_test(scales_are_finite_and_not_zero),
        cmocka_unit_test(other_schemes_ignore_the_scale),
        cmocka_unit_test(block_sizes_are_powers_of_two_in_range),
        cmocka_unit_test(scale_types_are_those_of_the_scheme),
        cmocka_unit_test(what_no_tensor_could_make_right),
        cmocka_unit_test(trailing_bytes_are_there_and_fit),
        cmocka_unit_test(stored_types_are_those_of_the_scheme),
        cmocka_unit_test(zero_points_are_in_the_range_of_the_stored_type),
        cmocka_unit_test(per_tensor_suits_every_shape),
        cmocka_unit_test(the_axis_is_below_the_rank_and_known),
        cmocka_unit_test(a_dynamic_dimension_elsewhere_leaves_block_counts_unchecked),
        cmocka_unit_test(a_block_is_no_longer_than_its_axis),
        cmocka_unit_test(an_mxfp_axis_is_a_positive_multiple),
        cmocka_unit_test(parameter_buffers_come_after_those_of_the_layout),
        cmocka_unit_test(zero_point_buffers_come_after_those_of_the_layout),
        cmocka_unit_test(parameter_buffers_have_exactly_their_size),
        cmocka_unit_test(block_counts_do_not_wrap),
        cmocka_unit_test(an_empty_tensor_has_no_blocks),
        cmocka_unit_test(a_partial_last_block_is_stored_in_full),
        cmocka_unit_test(other_schemes_do_not_pad),
        cmocka_unit_test(paged_blocks_are_pages),
        cmocka_unit_test(paged_blocks_are_along_the_tokens),
        cmocka_unit_test(paged_channels_are_heads_or_their_elements),
        cmocka_unit_test(other_schemes_on_paged_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
