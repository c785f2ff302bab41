/*
 * Shard, statistics, extension type and composite member (src/sections.c): their bytes there and
 * back, each rule of spec 1.7 from both sides of its boundary, and the packing of private types.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <hurray/shape.h>

#include "sections.h"

#define ROOM 128

static void expect_message(const char *part) {
    if (strstr(hurray_error_message(), part) != NULL) return;
    print_error("\"%s\" does not say \"%s\"\n", hurray_error_message(), part);
    fail();
}

/* All of this chapter's faults are structural. */
static void expect_fault(HurrayStatus status, const char *part) {
    assert_int_equal(status, HURRAY_ERR_INVALID_LAYOUT);
    expect_message(part);
}

/*
 * The kinds of section behind one face: read `bytes`, and write what was read into `again`. The
 * number of bytes written is returned, 0 when they were refused.
 */
typedef size_t (*Codec)(ByteReader *reader, uint8_t again[ROOM]);

static size_t statistics_codec(ByteReader *reader, uint8_t again[ROOM]) {
    HurrayStatistics statistics;
    if (hri_statistics_decode(reader, &statistics) != HURRAY_OK) return 0;
    ByteWriter writer = {again, ROOM, 0, 0};
    hri_statistics_encode(&statistics, &writer);
    return (size_t)writer.position;
}

static size_t extension_codec(ByteReader *reader, uint8_t again[ROOM]) {
    HurrayExtensionType type;
    if (hri_extension_type_decode(reader, &type) != HURRAY_OK) return 0;
    ByteWriter writer = {again, ROOM, 0, 0};
    hri_extension_type_encode(&type, &writer);
    return (size_t)writer.position;
}

static size_t member_codec(ByteReader *reader, uint8_t again[ROOM]) {
    HurrayCompositeMember member;
    if (hri_member_decode(reader, &member) != HURRAY_OK) return 0;
    ByteWriter writer = {again, ROOM, 0, 0};
    hri_member_encode(&member, &writer);
    return (size_t)writer.position;
}

#define SHARD_RANK 3
static size_t shard_codec(ByteReader *reader, uint8_t again[ROOM]) {
    uint64_t parent_shape[SHARD_RANK];
    uint64_t shard_offset[SHARD_RANK];
    HurrayShard shard;
    if (hri_shard_decode(reader, SHARD_RANK, parent_shape, shard_offset, &shard) != HURRAY_OK) {
        return 0;
    }
    ByteWriter writer = {again, ROOM, 0, 0};
    hri_shard_encode(&shard, SHARD_RANK, &writer);
    return (size_t)writer.position;
}

/* A section of each kind, with something in each field; the rest of `bytes` is zero. */
typedef struct Kind {
    const char *name;
    Codec codec;
    size_t size;
    uint8_t bytes[ROOM];
    uint8_t reserved[20]; /* offsets, ended by a 0 */
} Kind;

static const Kind kinds[] = {
    {
        "statistics",
        statistics_codec,
        72,
        {0x3F, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8},
        {4, 5, 6, 7, 68, 69, 70, 71, 0},
    },
    {
        "extension type",
        extension_codec,
        20,
        {16, 0, 0, 0, 1, 1, 0, 1, 5, 10, 0, 0, 15, 0, 0, 0, 1, 1, 0, 0},
        {10, 11, 18, 19, 0},
    },
    {
        "composite member",
        member_codec,
        16,
        {1},
        {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0},
    },
    {
        "shard",
        shard_codec,
        SHARD_RANK * 16,
        {8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0x80},
        {0},
    },
};
#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

/* From a block of exactly `length` bytes, so that a sanitizer sees each step outside. */
static size_t run(const Kind *kind, const uint8_t *bytes, size_t length, uint8_t again[ROOM]) {
    uint8_t *exact = malloc(length);
    assert_true(exact != NULL || length == 0);
    if (length != 0) memcpy(exact, bytes, length);
    ByteReader reader = {.bytes = exact, .length = length};
    size_t written = kind->codec(&reader, again);
    if (written != 0) assert_int_equal(reader.position, written);
    free(exact);
    return written;
}

static void sections_come_back_as_they_were(void **state) {
    (void)state;
    for (size_t k = 0; k < KIND_COUNT; k++) {
        uint8_t again[ROOM];
        /* The section ends where its size says: what follows is left for the next one. */
        for (size_t length = kinds[k].size; length < kinds[k].size + 3; length++) {
            assert_int_equal(run(&kinds[k], kinds[k].bytes, length, again), kinds[k].size);
            assert_memory_equal(again, kinds[k].bytes, kinds[k].size);
        }
    }
}

static void a_section_cut_short_is_refused(void **state) {
    (void)state;
    for (size_t k = 0; k < KIND_COUNT; k++) {
        uint8_t again[ROOM];
        for (size_t length = 0; length < kinds[k].size; length++) {
            assert_int_equal(run(&kinds[k], kinds[k].bytes, length, again), 0);
            expect_message(kinds[k].name);
        }
    }
}

static void reserved_bytes_are_zero(void **state) {
    (void)state;
    for (size_t k = 0; k < KIND_COUNT; k++) {
        for (const uint8_t *offset = kinds[k].reserved; *offset != 0; offset++) {
            uint8_t bytes[ROOM];
            uint8_t again[ROOM];
            memcpy(bytes, kinds[k].bytes, ROOM);
            bytes[*offset] = 0x40;
            assert_int_equal(run(&kinds[k], bytes, kinds[k].size, again), 0);
            expect_message(kinds[k].name);
            expect_message("reserved");
        }
    }
}

/* No bit is overlooked: it is refused, or it is somewhere in the struct. */
static void every_bit_counts(void **state) {
    (void)state;
    for (size_t k = 0; k < KIND_COUNT; k++) {
        uint8_t bytes[ROOM];
        memcpy(bytes, kinds[k].bytes, ROOM);
        for (size_t bit = 0; bit < kinds[k].size * 8; bit++) {
            uint8_t again[ROOM];
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            size_t written = run(&kinds[k], bytes, kinds[k].size, again);
            if (written != 0) assert_memory_equal(bytes, again, kinds[k].size);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

/* ---- shard ---- */

static HurrayStatus check_box(uint64_t parent, uint64_t offset, uint64_t extent) {
    uint64_t parents[2] = {5, parent};
    uint64_t offsets[2] = {0, offset};
    uint64_t shape[2] = {5, extent};
    return hri_shard_check(&(HurrayShard){parents, offsets}, 2, shape);
}

static void a_shard_lies_within_its_parent(void **state) {
    (void)state;
    assert_int_equal(check_box(8, 4, 4), HURRAY_OK);
    assert_int_equal(check_box(8, 0, 8), HURRAY_OK);
    assert_int_equal(check_box(8, 8, 0), HURRAY_OK);
    assert_int_equal(check_box(0, 0, 0), HURRAY_OK);
    expect_fault(check_box(8, 5, 4), "shard_offset 5 + extent 4 of dimension 1");
    expect_fault(check_box(8, 4, 5), "shard_offset 4 + extent 5 of dimension 1");
    expect_fault(check_box(8, 9, 0), "shard_offset 9");
    expect_fault(check_box(7, 4, 4), "7");

    uint64_t large = UINT64_MAX - 1; /* the greatest extent that is not dynamic */
    assert_int_equal(check_box(large, large - 1, 1), HURRAY_OK);
    assert_int_equal(check_box(large, 0, large), HURRAY_OK);
    expect_fault(check_box(large, large, 1), "shard_offset");
    expect_fault(check_box(large, UINT64_MAX, 0), "shard_offset");
    expect_fault(check_box(8, UINT64_MAX - 3, 8), "shard_offset"); /* wraps to 4 */
    expect_fault(check_box(large, large, large), "shard_offset");
}

static void nothing_of_a_shard_is_dynamic(void **state) {
    (void)state;
    expect_fault(check_box(HURRAY_DYNAMIC, 0, 4), "dimension 1 of parent_shape is dynamic");
    expect_fault(check_box(8, 0, HURRAY_DYNAMIC), "dimension 1 of the tensor is dynamic");
    expect_fault(check_box(HURRAY_DYNAMIC, HURRAY_DYNAMIC, 0), "dynamic");
    expect_fault(check_box(HURRAY_DYNAMIC, 0, HURRAY_DYNAMIC), "dynamic");
}

static void a_scalar_shard_has_no_fields(void **state) {
    (void)state;
    ByteReader reader = {.bytes = (const uint8_t *)"", .length = 0};
    HurrayShard shard;
    assert_int_equal(hri_shard_decode(&reader, 0, NULL, NULL, &shard), HURRAY_OK);
    assert_int_equal(hri_shard_check(&shard, 0, NULL), HURRAY_OK);
    assert_true(hri_shard_equal(&shard, &shard, 0));
    ByteWriter writer = {0};
    hri_shard_encode(&shard, 0, &writer);
    assert_int_equal(writer.position, 0);
}

static void a_shard_has_both_arrays(void **state) {
    (void)state;
    uint64_t extents[1] = {4};
    HurrayShard shard = {NULL, extents};
    assert_int_equal(hri_shard_check(&shard, 1, extents), HURRAY_ERR_NULL_POINTER);
    expect_message("parent_shape");
    shard = (HurrayShard){extents, NULL};
    assert_int_equal(hri_shard_check(&shard, 1, extents), HURRAY_ERR_NULL_POINTER);
    expect_message("shard_offset");
}

static void shards_compare_by_value(void **state) {
    (void)state;
    uint64_t a[2] = {1, 2};
    uint64_t b[2] = {1, 2};
    uint64_t c[2] = {1, 3};
    assert_true(hri_shard_equal(&(HurrayShard){a, b}, &(HurrayShard){b, a}, 2));
    assert_false(hri_shard_equal(&(HurrayShard){a, b}, &(HurrayShard){a, c}, 2));
    assert_false(hri_shard_equal(&(HurrayShard){a, b}, &(HurrayShard){c, b}, 2));
    assert_true(hri_shard_equal(&(HurrayShard){a, b}, &(HurrayShard){c, c}, 1));
}

/* ---- statistics ---- */

static const HurrayStatistics full_statistics = {
    .computed_mask = 0x3F,
    .nnz = 3,
    .sparsity_ratio = 0.25,
    .value_min = -1.5,
    .value_max = 2,
    .value_abs_max = 2,
    .value_mean = 0.5,
    .value_stddev = 1.25,
    .nm_n = 2,
    .nm_m = 4,
    .has_inf = 1,
};

static void each_statistic_has_its_place(void **state) {
    (void)state;
    uint8_t bytes[72];
    ByteWriter writer = {bytes, sizeof bytes, 0, 0};
    hri_statistics_encode(&full_statistics, &writer);
    assert_int_equal(writer.position, 72);
    static const double expected[] = {0.25, -1.5, 2, 2, 0.5, 1.25};
    assert_int_equal(load_u32(bytes), 0x3F);
    assert_int_equal(load_u64(bytes + 8), 3);
    for (size_t i = 0; i < 6; i++) {
        ByteReader reader = {.bytes = bytes + 16 + 8 * i, .length = 8};
        double value;
        read_f64(&reader, &value);
        assert_true(value == expected[i]);
    }
    assert_memory_equal(bytes + 64, "\x02\x04\x00\x01\0\0\0\0", 8);

    HurrayStatistics out;
    ByteReader reader = {.bytes = bytes, .length = 72};
    assert_int_equal(hri_statistics_decode(&reader, &out), HURRAY_OK);
    assert_true(hri_statistics_equal(&out, &full_statistics));
    assert_true(out.value_stddev == 1.25);
    out.value_mean = -0.0;
    HurrayStatistics zero = out;
    zero.value_mean = 0.0;
    assert_false(hri_statistics_equal(&out, &zero));
    out.value_mean = zero.value_mean = (double)NAN;
    assert_true(hri_statistics_equal(&out, &zero));
}

static void a_reader_refuses_only_the_mask(void **state) {
    (void)state;
    HurrayStatistics odd = {
        .sparsity_ratio = 7.5,
        .value_stddev = -2,
        .nm_n = 5,
        .nm_m = 4,
        .has_nan = 2,
        .has_inf = 255,
    };
    for (unsigned bit = 0; bit < 32; bit++) {
        odd.computed_mask = 1u << bit;
        if (bit < 6) {
            assert_int_equal(hurray_statistics_check(&odd), HURRAY_OK);
        } else {
            expect_fault(hurray_statistics_check(&odd), "computed_mask");
            expect_fault(hurray_statistics_check_authored(&odd), "computed_mask");
        }
    }
    odd.computed_mask = 0x3F;
    assert_int_equal(hurray_statistics_check(&odd), HURRAY_OK);
    odd.computed_mask = 0; /* nothing is claimed, so nothing is wrong */
    assert_int_equal(hurray_statistics_check_authored(&odd), HURRAY_OK);
    assert_int_equal(hurray_statistics_check(NULL), HURRAY_ERR_NULL_POINTER);
    assert_int_equal(hurray_statistics_check_authored(NULL), HURRAY_ERR_NULL_POINTER);
}

static void authored_ratio(double ratio, bool good) {
    HurrayStatistics statistics = full_statistics;
    statistics.sparsity_ratio = ratio;
    HurrayStatus status = hurray_statistics_check_authored(&statistics);
    if (good) {
        assert_int_equal(status, HURRAY_OK);
    } else {
        expect_fault(status, "sparsity_ratio");
    }
    statistics.computed_mask ^= HURRAY_STATISTICS_SPARSITY;
    assert_int_equal(hurray_statistics_check_authored(&statistics), HURRAY_OK);
}

static void authored_deviation(double deviation, bool good) {
    HurrayStatistics statistics = full_statistics;
    statistics.value_stddev = deviation;
    HurrayStatus status = hurray_statistics_check_authored(&statistics);
    if (good) {
        assert_int_equal(status, HURRAY_OK);
    } else {
        expect_fault(status, "value_stddev");
    }
    statistics.computed_mask ^= HURRAY_STATISTICS_MOMENTS;
    assert_int_equal(hurray_statistics_check_authored(&statistics), HURRAY_OK);
}

static void an_author_owes_sense(void **state) {
    (void)state;
    assert_int_equal(hurray_statistics_check_authored(&full_statistics), HURRAY_OK);
    authored_ratio(0, true);
    authored_ratio(-0.0, true);
    authored_ratio(1, true);
    authored_ratio(-5e-324, false);
    authored_ratio(nextafter(1, 2), false);
    authored_ratio((double)NAN, false);
    authored_ratio((double)INFINITY, false);
    authored_deviation(0, true);
    authored_deviation(-0.0, true);
    authored_deviation((double)INFINITY, true);
    authored_deviation((double)NAN, true); /* of values among which there is one */
    authored_deviation(-5e-324, false);
    authored_deviation(-(double)INFINITY, false);
}

static void authored_bytes_are_in_range(void **state) {
    (void)state;
    HurrayStatistics statistics = full_statistics;
    for (unsigned n = 0; n <= 6; n++) {
        statistics.nm_n = (uint8_t)n;
        HurrayStatus status = hurray_statistics_check_authored(&statistics);
        if (n <= 4) {
            assert_int_equal(status, HURRAY_OK);
        } else {
            expect_fault(status, "nm_n");
        }
    }
    statistics = full_statistics;
    uint8_t *flags[2] = {&statistics.has_nan, &statistics.has_inf};
    const char *const names[2] = {"has_nan is 2", "has_inf is 2"};
    for (int i = 0; i < 2; i++) {
        for (unsigned value = 0; value <= 1; value++) {
            *flags[i] = (uint8_t)value;
            assert_int_equal(hurray_statistics_check_authored(&statistics), HURRAY_OK);
        }
        *flags[i] = 2;
        expect_fault(hurray_statistics_check_authored(&statistics), names[i]);
        *flags[i] = 0;
    }
}

/* ---- extension type ---- */

static const HurrayExtensionType int24 = {.bit_width = 24, .packing_factor = 1, .is_signed = true};
static const HurrayExtensionType half = {
    .bit_width = 16,
    .packing_factor = 1,
    .is_float = true,
    .sign_bits = 1,
    .exponent_bits = 5,
    .mantissa_bits = 10,
    .exponent_bias = 15,
    .has_nan = true,
    .has_inf = true,
};

static void widths_have_whole_bytes_or_divide_one(void **state) {
    (void)state;
    static const uint32_t far[] = {UINT32_MAX, UINT32_MAX - 7, 0x80000000u};
    for (uint32_t i = 0; i < 300 + 3; i++) {
        uint32_t width = i < 300 ? i : far[i - 300];
        bool good = width == 1 || width == 2 || width == 4 || (width >= 8 && width % 8 == 0);
        HurrayExtensionType type = int24;
        type.bit_width = width;
        type.packing_factor = (uint8_t)(width != 0 && width < 8 ? 8 / width : 1);
        HurrayStatus status = hurray_extension_type_check(&type);
        HurrayPacking packing = {0};
        if (!good) {
            expect_fault(status, "bit_width");
            expect_fault(hurray_packing_of(0xF0, &type, &packing), "bit_width");
            continue;
        }
        assert_int_equal(status, HURRAY_OK);
        assert_int_equal(hurray_packing_of(0xF0, &type, &packing), HURRAY_OK);
        assert_int_equal(packing.bits, width);
        assert_int_equal(packing.group_elements, type.packing_factor);
        assert_int_equal(packing.group_bytes, width < 8 ? 1 : width / 8);
    }
    assert_int_equal(hurray_extension_type_check(NULL), HURRAY_ERR_NULL_POINTER);
}

/* The wording is relied on by those who show these messages. */
static void width_faults_say_what_is_expected(void **state) {
    (void)state;
    HurrayExtensionType type = int24;
    type.bit_width = 0;
    expect_fault(hurray_extension_type_check(&type), "greater than 0");
    type.bit_width = 3;
    expect_fault(hurray_extension_type_check(&type), "1, 2 or 4");
    type.bit_width = 12;
    expect_fault(hurray_extension_type_check(&type), "multiple of 8");
}

static void packing_factors_follow_from_the_width(void **state) {
    (void)state;
    static const uint32_t widths[] = {1, 2, 4, 8, 16, 24};
    static const unsigned factors[] = {8, 4, 2, 1, 1, 1};
    for (size_t i = 0; i < 6; i++) {
        for (unsigned factor = 0; factor <= 9; factor++) {
            HurrayExtensionType type = int24;
            type.bit_width = widths[i];
            type.packing_factor = (uint8_t)factor;
            HurrayStatus status = hurray_extension_type_check(&type);
            if (factor == factors[i]) {
                assert_int_equal(status, HURRAY_OK);
            } else {
                expect_fault(status, "packing_factor");
            }
        }
    }
}

static void integers_have_no_float_fields(void **state) {
    (void)state;
    HurrayExtensionType type = int24;
    assert_int_equal(hurray_extension_type_check(&type), HURRAY_OK);
    type.is_signed = false;
    assert_int_equal(hurray_extension_type_check(&type), HURRAY_OK);
    /* From the last field to the first: the earliest wrong one is the one that is named. */
    type.has_inf = true;
    expect_fault(hurray_extension_type_check(&type), "has_inf is 1 on an integer");
    type.has_nan = true;
    expect_fault(hurray_extension_type_check(&type), "has_nan is 1 on an integer");
    type.exponent_bias = 1;
    expect_fault(hurray_extension_type_check(&type), "exponent_bias is 1 on an integer");
    type.mantissa_bits = 1;
    expect_fault(hurray_extension_type_check(&type), "mantissa_bits is 1 on an integer");
    type.exponent_bits = 1;
    expect_fault(hurray_extension_type_check(&type), "exponent_bits is 1 on an integer");
    type.sign_bits = 1;
    expect_fault(hurray_extension_type_check(&type), "sign_bits is 1 on an integer");
}

static void floats_have_sign_bits_in_place_of_is_signed(void **state) {
    (void)state;
    HurrayExtensionType type = half;
    assert_int_equal(hurray_extension_type_check(&type), HURRAY_OK);
    type.sign_bits = 0;
    type.exponent_bits = 255; /* their sum is not compared with the width */
    type.mantissa_bits = 255;
    type.exponent_bias = UINT32_MAX;
    assert_int_equal(hurray_extension_type_check(&type), HURRAY_OK);
    type.sign_bits = 2;
    expect_fault(hurray_extension_type_check(&type), "sign_bits is 2");
    type = half;
    type.is_signed = true;
    expect_fault(hurray_extension_type_check(&type), "is_signed is 1 on a float");
}

static void bools_of_an_extension_type_are_0_or_1(void **state) {
    (void)state;
    static const struct {
        size_t offset;
        const char *name;
    } flags[] = {{5, "is_float"}, {6, "is_signed"}, {16, "has_nan"}, {17, "has_inf"}};
    for (size_t i = 0; i < 4; i++) {
        uint8_t bytes[20] = {8, 0, 0, 0, 1};
        for (unsigned value = 0; value <= 0xFF; value++) {
            bytes[flags[i].offset] = (uint8_t)value;
            ByteReader reader = {.bytes = bytes, .length = sizeof bytes};
            HurrayExtensionType type = {.bit_width = 77};
            HurrayStatus status = hri_extension_type_decode(&reader, &type);
            if (value <= 1) {
                assert_int_equal(status, HURRAY_OK);
            } else {
                expect_fault(status, flags[i].name);
                assert_int_equal(type.bit_width, 77);
            }
        }
    }
}

static void extension_types_compare_by_value(void **state) {
    (void)state;
    HurrayExtensionType type = half;
    assert_true(hri_extension_type_equal(&type, &half));
    type.exponent_bias++;
    assert_false(hri_extension_type_equal(&type, &half));
    assert_false(hri_extension_type_equal(&int24, &half));
}

static void packing_of_every_tag(void **state) {
    (void)state;
    for (unsigned tag = 0; tag <= 0xFF; tag++) {
        const HurrayElementType *row = hurray_element_type_from_tag((uint8_t)tag);
        HurrayPacking packing = {.bits = 99};
        HurrayStatus status = hurray_packing_of((uint8_t)tag, NULL, &packing);
        if (row != NULL) {
            assert_int_equal(status, HURRAY_OK);
            assert_int_equal(packing.bits, row->bits);
            /* The section is ignored beside a standard type. */
            assert_int_equal(hurray_packing_of((uint8_t)tag, &int24, &packing), HURRAY_OK);
            assert_int_equal(packing.bits, row->bits);
            continue;
        }
        assert_int_equal(status, HURRAY_ERR_INVALID_TYPE);
        assert_int_equal(packing.bits, 99);
        bool is_private = tag >= 0xF0 && tag <= 0xFE;
        status = hurray_packing_of((uint8_t)tag, &int24, &packing);
        assert_int_equal(status, is_private ? HURRAY_OK : HURRAY_ERR_INVALID_TYPE);
        assert_int_equal(packing.bits, is_private ? 24 : 99);
    }
    assert_int_equal(hurray_packing_of(HURRAY_TYPE_INT8, NULL, NULL), HURRAY_ERR_NULL_POINTER);
}

/* ---- composite member ---- */

static void a_member_is_base_or_correction(void **state) {
    (void)state;
    for (unsigned role = 0; role <= 0xFF; role++) {
        HurrayStatus status = hri_member_check(&(HurrayCompositeMember){(uint8_t)role});
        if (role <= 1) {
            assert_int_equal(status, HURRAY_OK);
        } else {
            expect_fault(status, "member_role");
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_come_back_as_they_were),
        cmocka_unit_test(a_section_cut_short_is_refused),
        cmocka_unit_test(reserved_bytes_are_zero),
        cmocka_unit_test(every_bit_counts),
        cmocka_unit_test(a_shard_lies_within_its_parent),
        cmocka_unit_test(nothing_of_a_shard_is_dynamic),
        cmocka_unit_test(a_scalar_shard_has_no_fields),
        cmocka_unit_test(a_shard_has_both_arrays),
        cmocka_unit_test(shards_compare_by_value),
        cmocka_unit_test(each_statistic_has_its_place),
        cmocka_unit_test(a_reader_refuses_only_the_mask),
        cmocka_unit_test(an_author_owes_sense),
        cmocka_unit_test(authored_bytes_are_in_range),
        cmocka_unit_test(widths_have_whole_bytes_or_divide_one),
        cmocka_unit_test(width_faults_say_what_is_expected),
        cmocka_unit_test(packing_factors_follow_from_the_width),
        cmocka_unit_test(integers_have_no_float_fields),
        cmocka_unit_test(floats_have_sign_bits_in_place_of_is_signed),
        cmocka_unit_test(bools_of_an_extension_type_are_0_or_1),
        cmocka_unit_test(extension_types_compare_by_value),
        cmocka_unit_test(packing_of_every_tag),
        cmocka_unit_test(a_member_is_base_or_correction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
