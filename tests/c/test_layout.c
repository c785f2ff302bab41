/*
 * Layout tags and names (src/layout.c), and the reach of dense layouts (src/layout_packed.c,
 * src/layout_strided.c, spec 2.1, 2.2): a descriptor is accepted exactly when the bytes of every
 * element, found one by one, lie inside buffer 0.
 */
#include "expect.h"

#include <hurray/descriptor.h>
#include <hurray/layout.h>

#include "random.h"

static const struct {
    uint8_t tag;
    const char *name;
} named[] = {
    {0x01, "row_major"}, {0x02, "col_major"},   {0x03, "strided"},   {0x04, "tiled"},
    {0x05, "morton"},    {0x06, "coo"},         {0x07, "csr"},       {0x08, "csc"},
    {0x09, "csf"},       {0x0A, "block_paged"}, {0x0B, "composite"}, {0x40, "hilbert"},
};
#define NAMED_COUNT (sizeof named / sizeof named[0])

static void every_tag_is_classified(void **state) {
    (void)state;
    for (uint32_t tag = 0; tag < 256; tag++) {
        const char *name = NULL;
        for (size_t i = 0; i < NAMED_COUNT; i++) {
            if (named[i].tag == tag) name = named[i].name;
        }
        HurrayLayoutTagKind expected = HURRAY_LAYOUT_TAG_RESERVED;
        if (tag == 0x00 || tag == 0xFF) expected = HURRAY_LAYOUT_TAG_INVALID;
        if (tag >= 0xF0 && tag <= 0xFE) expected = HURRAY_LAYOUT_TAG_PRIVATE;
        if (name != NULL) expected = HURRAY_LAYOUT_TAG_NAMED;
        assert_int_equal(hurray_layout_tag_kind((uint8_t)tag), expected);
        if (name == NULL) {
            assert_null(hurray_layout_name((uint8_t)tag));
        } else {
            assert_string_equal(hurray_layout_name((uint8_t)tag), name);
            assert_int_equal(hurray_layout_from_name(name), tag);
        }
    }
    uint32_t count = 77;
    for (uint32_t tag = 0; tag < 256; tag++) {
        if (hurray_layout_tag_kind((uint8_t)tag) == HURRAY_LAYOUT_TAG_NAMED) continue;
        expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_layout_buffer_count((uint8_t)tag, 2, &count));
        assert_int_equal(count, 77);
    }
    assert_int_equal(hurray_layout_from_name("Strided"), 0);
    assert_int_equal(hurray_layout_from_name(""), 0);
    assert_int_equal(hurray_layout_from_name(NULL), 0);
}

/* ---- reach ---- */

static const struct {
    uint8_t tag;
    int64_t group_elements, group_bytes;
} types[] = {
    {HURRAY_TYPE_BOOL, 8, 1},        {HURRAY_TYPE_UINT2, 4, 1},   {HURRAY_TYPE_INT4, 2, 1},
    {HURRAY_TYPE_FLOAT6_E2M3, 4, 3}, {HURRAY_TYPE_UINT8, 1, 1},   {HURRAY_TYPE_FLOAT16, 1, 2},
    {HURRAY_TYPE_FLOAT32, 1, 4},     {HURRAY_TYPE_FLOAT64, 1, 8}, {HURRAY_TYPE_FLOAT128, 1, 16},
};
#define TYPE_COUNT (sizeof types / sizeof types[0])

static int64_t floor_divide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/* The first byte and the end of what all elements occupy, relative to byte_offset, one by one. */
static void enumerate(const uint64_t *shape, uint32_t rank, const int64_t *strides, size_t type,
                      int64_t *begin, int64_t *end) {
    uint64_t index[64] = {0};
    *begin = INT64_MAX;
    *end = INT64_MIN;
    for (;;) {
        int64_t offset = 0;
        for (uint32_t k = 0; k < rank; k++) offset += (int64_t)index[k] * strides[k];
        int64_t group = floor_divide(offset, types[type].group_elements);
        int64_t first = group * types[type].group_bytes;
        if (first < *begin) *begin = first;
        if (first + types[type].group_bytes > *end) *end = first + types[type].group_bytes;
        uint32_t k = rank;
        while (k-- > 0 && ++index[k] == shape[k]) index[k] = 0;
        if (k == UINT32_MAX) return;
    }
}

static void expect_reach(const HurrayDescriptorFields *fields, bool inside) {
    if (inside) {
        expect_ok(hurray_descriptor_validate(fields));
    } else {
        expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_validate(fields));
    }
}

static void strided_elements_lie_inside_exactly_when_accepted(void **state) {
    (void)state;
    uint64_t seed = 4;
    uint32_t accepted = 0, refused = 0;
    for (int round = 0; round < 40000; round++) {
        uint64_t shape[4];
        int64_t strides[4], begin, end;
        uint32_t rank = 1 + (uint32_t)random_below(&seed, 4);
        for (uint32_t k = 0; k < rank; k++) {
            shape[k] = 1 + random_below(&seed, 4);
            strides[k] = random_between(&seed, -9, 9);
        }
        size_t type = (size_t)random_below(&seed, TYPE_COUNT);
        enumerate(shape, rank, strides, type, &begin, &end);
        /* Buffers and offsets from just too small to just large enough, and some at random. */
        for (int k = 0; k < 4; k++) {
            int64_t byte_offset = -begin + random_between(&seed, -3, 3);
            if (byte_offset < 0) byte_offset = 0;
            int64_t size = byte_offset + end + random_between(&seed, -3, 3);
            if (size < byte_offset) size = byte_offset;
            HurrayBufferHandle buffer = {.byte_size = (uint64_t)size, .alignment = 64};
            HurrayDescriptorFields fields = {
                .type_tag = types[type].tag,
                .rank = rank,
                .shape = shape,
                .byte_offset = (uint64_t)byte_offset,
                .layout = {HURRAY_LAYOUT_STRIDED, {strides}},
                .buffer_count = 1,
                .buffers = &buffer,
            };
            bool inside = byte_offset + begin >= 0 && byte_offset + end <= size;
            expect_reach(&fields, inside);
            inside ? accepted++ : refused++;
        }
    }
    assert_in_range(accepted, 10000, 150000);
    assert_in_range(refused, 10000, 150000);
}

static void packed_elements_lie_inside_exactly_when_accepted(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (int round = 0; round < 20000; round++) {
        uint64_t shape[4];
        int64_t strides[4], begin, end;
        bool row_major = random_below(&seed, 2) == 0;
        uint32_t rank = (uint32_t)random_below(&seed, 5);
        if (!row_major && rank == 0) rank = 1;
        for (uint32_t k = 0; k < rank; k++) shape[k] = 1 + random_below(&seed, 4);
        if (row_major) {
            hurray_shape_row_major_strides(shape, rank, strides);
        } else {
            hurray_shape_col_major_strides(shape, rank, strides);
        }
        size_t type = (size_t)random_below(&seed, TYPE_COUNT);
        enumerate(shape, rank, strides, type, &begin, &end);
        uint64_t byte_offset = random_below(&seed, 20);
        for (int64_t extra = -2; extra <= 2; extra++) {
            int64_t size = (int64_t)byte_offset + end + extra;
            if (size < 0) continue;
            HurrayBufferHandle buffer = {.byte_size = (uint64_t)size, .alignment = 64};
            HurrayDescriptorFields fields = {
                .type_tag = types[type].tag,
                .rank = rank,
                .shape = shape,
                .byte_offset = byte_offset,
                .layout = {row_major ? HURRAY_LAYOUT_ROW_MAJOR : HURRAY_LAYOUT_COL_MAJOR, {NULL}},
                .buffer_count = 1,
                .buffers = &buffer,
            };
            expect_reach(&fields, extra >= 0);
        }
    }
}

/* Shapes without elements reach nothing, but byte_offset stays inside, and strides are not looked
 * at; an unknown extent leaves the reach unknown. */
static void empty_and_dynamic_shapes_reach_nothing(void **state) {
    (void)state;
    static const int64_t wild[3] = {INT64_MIN, INT64_MAX, -1};
    static const uint64_t special[] = {0, HURRAY_DYNAMIC};
    for (uint8_t tag = HURRAY_LAYOUT_ROW_MAJOR; tag <= HURRAY_LAYOUT_STRIDED; tag++) {
        for (size_t i = 0; i < 6; i++) {
            uint64_t shape[3] = {UINT64_MAX - 1, 1u << 30, UINT64_C(1) << 40};
            shape[i % 3] = special[i / 3];
            for (uint64_t byte_offset = 0; byte_offset < 3; byte_offset++) {
                HurrayBufferHandle buffer = {.byte_size = 1, .alignment = 64};
                HurrayDescriptorFields fields = {
                    .type_tag = HURRAY_TYPE_FLOAT64,
                    .rank = 3,
                    .shape = shape,
                    .byte_offset = byte_offset,
                    .layout = {tag, {tag == HURRAY_LAYOUT_STRIDED ? wild : NULL}},
                    .buffer_count = 1,
                    .buffers = &buffer,
                };
                expect_reach(&fields, byte_offset <= 1);
            }
        }
    }
}

/* Reaches that only fit a number when computed wrongly. */
static void overflowing_reach_is_refused(void **state) {
    (void)state;
    static const struct {
        uint64_t shape[3];
        int64_t strides[3];
        uint8_t type;
    } rows[] = {
        {{3, 1, 1}, {INT64_MAX, 0, 0}, HURRAY_TYPE_UINT8},             /* 2^64 − 2 */
        {{3, 1, 1}, {INT64_MIN, 0, 0}, HURRAY_TYPE_UINT8},             /* −2^64 */
        {{2, 2, 1}, {INT64_MIN, INT64_MIN, 0}, HURRAY_TYPE_UINT8},     /* −2^64, as a sum */
        {{2, 2, 1}, {INT64_MIN, INT64_MAX, 0}, HURRAY_TYPE_UINT8},     /* to both sides */
        {{3, 2, 1}, {INT64_MAX, 1, 0}, HURRAY_TYPE_UINT8},             /* 2^64 − 1 */
        {{3, 3, 1}, {INT64_MAX, 1, 0}, HURRAY_TYPE_UINT8},             /* 2^64 */
        {{2, 1, 1}, {INT64_C(1) << 61, 0, 0}, HURRAY_TYPE_FLOAT64},    /* 2^64 bytes */
        {{2, 1, 1}, {-(INT64_C(1) << 61), 0, 0}, HURRAY_TYPE_FLOAT64}, /* −2^64 bytes */
        {{UINT64_MAX - 1, 1, 1}, {1, 0, 0}, HURRAY_TYPE_FLOAT16},
        {{UINT64_C(1) << 32, UINT64_C(1) << 31, 1}, {INT64_C(1) << 32, -1, 0}, HURRAY_TYPE_UINT8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int large = 0; large < 2; large++) {
            HurrayBufferHandle buffer = {.byte_size = large ? UINT64_MAX - 2 : 4096,
                                         .alignment = 64};
            HurrayDescriptorFields fields = {
                .type_tag = rows[i].type,
                .rank = 3,
                .shape = rows[i].shape,
                .byte_offset = 64,
                .layout = {HURRAY_LAYOUT_STRIDED, {rows[i].strides}},
                .buffer_count = 1,
                .buffers = &buffer,
            };
            expect_reach(&fields, false);
        }
    }
}

/* The largest buffer there can be, filled to its last byte: nothing wraps, nothing is refused. */
static void the_largest_reach_is_accepted(void **state) {
    (void)state;
    HurrayBufferHandle buffer = {.byte_size = UINT64_MAX, .alignment = 64};
    uint64_t shape[1] = {UINT64_MAX - 1};
    int64_t strides[1] = {1};
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 1,
        .shape = shape,
        .layout = {HURRAY_LAYOUT_STRIDED, {strides}},
        .buffer_count = 1,
        .buffers = &buffer,
    };
    for (fields.byte_offset = 0; fields.byte_offset < 4; fields.byte_offset++) {
        expect_reach(&fields, fields.byte_offset <= 1);
        fields.layout.tag = HURRAY_LAYOUT_ROW_MAJOR;
        expect_reach(&fields, fields.byte_offset <= 1);
        fields.layout.tag = HURRAY_LAYOUT_STRIDED;
    }
    strides[0] = -1;
    for (uint64_t below = 0; below < 5; below++) { /* lowest byte 2, 1, 0, −1, −2 */
        fields.byte_offset = UINT64_MAX - 1 - below;
        expect_reach(&fields, below <= 1);
    }
}

/* Ranks and pointers that a layout cannot have. */
static void ranks_and_missing_strides(void **state) {
    (void)state;
    uint64_t shape[65];
    int64_t strides[65];
    for (size_t k = 0; k < 65; k++) {
        shape[k] = 1;
        strides[k] = 0;
    }
    HurrayBufferHandle buffer = {.byte_size = 64, .alignment = 64};
    for (uint8_t tag = HURRAY_LAYOUT_ROW_MAJOR; tag <= HURRAY_LAYOUT_STRIDED; tag++) {
        for (uint32_t rank = 0; rank <= 65; rank++) {
            HurrayDescriptorFields fields = {
                .type_tag = HURRAY_TYPE_UINT8,
                .rank = rank,
                .shape = shape,
                .layout = {tag, {tag == HURRAY_LAYOUT_STRIDED ? strides : NULL}},
                .buffer_count = 1,
                .buffers = &buffer,
            };
            expect_reach(&fields, rank <= 64 && (rank >= 1 || tag == HURRAY_LAYOUT_ROW_MAJOR));
            fields.layout.strides = NULL;
            if (tag == HURRAY_LAYOUT_STRIDED && rank >= 1 && rank <= 64) {
                expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_validate(&fields));
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tag_is_classified),
        cmocka_unit_test(strided_elements_lie_inside_exactly_when_accepted),
        cmocka_unit_test(packed_elements_lie_inside_exactly_when_accepted),
        cmocka_unit_test(empty_and_dynamic_shapes_reach_nothing),
        cmocka_unit_test(overflowing_reach_is_refused),
        cmocka_unit_test(the_largest_reach_is_accepted),
        cmocka_unit_test(ranks_and_missing_strides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
