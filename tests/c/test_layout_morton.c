/*
 * Morton layouts (src/layout_morton.c, spec 2.4), with even bits and uneven ones: their bytes, their
 * addresses against the definition, how much buffer they take, and each rule they can break.
 */
#include "dense_cases.h"

#include "random.h"

enum {
    RANK = 5
};

typedef struct Case {
    HurrayDescriptorFields fields;
    HurrayBufferHandle buffer;
    uint64_t shape[RANK];
    uint32_t bits[RANK];
} Case;

/* Up to 2^max_bits elements in each dimension. */
static void random_case(uint64_t *seed, uint32_t max_bits, Case *c) {
    uint32_t rank = 1 + (uint32_t)random_below(seed, RANK);
    memset(c, 0, sizeof *c);
    for (uint32_t k = 0; k < rank; k++) {
        c->bits[k] = 1 + (uint32_t)random_below(seed, max_bits);
        c->shape[k] = 1 + random_below(seed, UINT64_C(1) << c->bits[k]);
    }
    c->fields = (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_INT8,
        .rank = rank,
        .shape = c->shape,
        .layout = {.tag = HURRAY_LAYOUT_MORTON, {.morton_bits = c->bits}},
    };
}

static uint64_t code_of(const Case *c, const uint64_t *index) {
    uint64_t code = 0;
    for (uint32_t d = 0; d < c->fields.rank; d++) {
        for (uint32_t b = 0; b < c->bits[d]; b++) {
            if ((index[d] >> b & 1) != 0) code |= UINT64_C(1) << (b * c->fields.rank + d);
        }
    }
    return code;
}

static void last_index(const Case *c, uint64_t *index) {
    for (uint32_t k = 0; k < c->fields.rank; k++) index[k] = c->shape[k] - 1;
}

/* The larger of 2^Σ bits and 1 + the code of the last index. */
static uint64_t elements_of(const Case *c) {
    uint64_t index[RANK], full = 1;
    for (uint32_t k = 0; k < c->fields.rank; k++) full <<= c->bits[k];
    last_index(c, index);
    return full > code_of(c, index) ? full : code_of(c, index) + 1;
}

static void the_example_of_the_specification(void **state) {
    (void)state;
    uint64_t seed = 0, index[2] = {2, 3};
    int64_t offset = 0;
    Case c;
    random_case(&seed, 1, &c);
    c.fields.rank = 2;
    c.shape[0] = c.shape[1] = 4;
    c.bits[0] = c.bits[1] = 2;
    expect_ok(hurray_address_offset(&c.fields, index, &offset));
    assert_int_equal(offset, 14);
    assert_int_equal(required_of(&c.fields), 16);
}

static void offsets_are_interleaved_bits(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (uint32_t round = 0; round < 500; round++) {
        Case c;
        uint64_t index[RANK] = {0}, last[RANK];
        int64_t offset = 0;
        random_case(&seed, 3, &c);
        last_index(&c, last);
        do {
            expect_ok(hurray_address_offset(&c.fields, index, &offset));
            assert_int_equal(offset, code_of(&c, index));
            assert_true((uint64_t)offset <= code_of(&c, last)); /* grows with every coordinate */
        } while (next_index(c.shape, c.fields.rank, index));
        expect_bijection(&c.fields, 0, (int64_t)code_of(&c, last));
    }
}

static void buffers_hold_the_last_element(void **state) {
    (void)state;
    static const uint8_t types[] = {HURRAY_TYPE_BOOL, HURRAY_TYPE_INT4, HURRAY_TYPE_FLOAT6_E3M2,
                                    HURRAY_TYPE_INT8, HURRAY_TYPE_FLOAT64};
    uint64_t seed = 2;
    uint32_t beyond = 0;
    for (uint32_t round = 0; round < 2000; round++) {
        Case c;
        uint64_t bytes = 0, full = 1;
        HurrayPacking packing;
        random_case(&seed, 1 + round % 7, &c);
        c.fields.type_tag = types[random_below(&seed, sizeof types)];
        c.fields.byte_offset = random_below(&seed, 9);
        expect_ok(hurray_packing_of(c.fields.type_tag, NULL, &packing));
        expect_ok(hurray_packing_size(packing, elements_of(&c), &bytes));
        assert_int_equal(required_of(&c.fields), c.fields.byte_offset + bytes);
        expect_exact_size(&c.fields, &c.buffer);
        for (uint32_t k = 0; k < c.fields.rank; k++) full <<= c.bits[k];
        beyond += elements_of(&c) > full;
    }
    assert_true(beyond > 100); /* uneven bits do that */
}

static void bytes_of_every_rank(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (uint32_t round = 0; round < 60; round++) {
        Case c;
        random_case(&seed, 4, &c);
        expect_exact_size(&c.fields, &c.buffer);
        expect_wire_form(&c.fields);
        Case other = c;
        other.fields.layout.morton_bits = other.bits;
        assert_true(hurray_descriptor_equal(&c.fields, &other.fields));
        other.bits[random_below(&seed, c.fields.rank)]++;
        assert_false(hurray_descriptor_equal(&c.fields, &other.fields));
    }
}

static void bytes_of_the_highest_rank(void **state) {
    (void)state;
    uint64_t shape[63];
    uint32_t bits[63];
    HurrayBufferHandle buffer = {.byte_size = UINT64_MAX, .alignment = 64};
    for (uint32_t k = 0; k < 63; k++) {
        shape[k] = 2;
        bits[k] = 1;
    }
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_BOOL,
        .rank = 63,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_MORTON, {.morton_bits = bits}},
        .buffer_count = 1,
        .buffers = &buffer,
    };
    assert_int_equal(required_of(&fields), UINT64_C(1) << 60);
    expect_wire_form(&fields);
}

/* ---- rules ---- */

static void plain_case(Case *c, uint32_t bits_0, uint32_t bits_1) {
    uint64_t seed = 0;
    random_case(&seed, 1, c);
    c->fields.rank = 2;
    c->shape[0] = c->shape[1] = 2;
    c->bits[0] = bits_0;
    c->bits[1] = bits_1;
    c->buffer = (HurrayBufferHandle){.byte_size = UINT64_MAX, .alignment = 64};
    c->fields.buffers = &c->buffer;
    c->fields.buffer_count = 1;
}

static void expect_broken_rule(Case *c, const char *part) {
    static const uint64_t extents[] = {2, 0, HURRAY_DYNAMIC};
    for (size_t i = 0; i < 3; i++) {
        c->shape[0] = extents[i];
        expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_validate(&c->fields));
        expect_message(part);
    }
}

static void rules_of_the_bits(void **state) {
    (void)state;
    Case c;
    plain_case(&c, 1, 1);
    expect_ok(hurray_descriptor_validate(&c.fields));
    plain_case(&c, 0, 1);
    expect_broken_rule(&c, "morton_bits[0] is 0");
    plain_case(&c, 1, 1);
    c.shape[1] = 3; /* also beside a dimension that is empty or unknown */
    expect_broken_rule(&c, "morton_bits[1] is 1, too few for the extent 3");
    plain_case(&c, 32, 32);
    expect_broken_rule(&c, "add up to 64");
    plain_case(&c, UINT32_MAX, UINT32_MAX);
    expect_broken_rule(&c, "add up to 8589934590");
    plain_case(&c, 1, 1);
    c.fields.layout.morton_bits = NULL;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_validate(&c.fields));
}

static void codes_that_overflow(void **state) {
    (void)state;
    Case c;
    plain_case(&c, 62,
               1); /* 2^63 elements: bytes that fit, as long as nobody takes the last bits */
    assert_int_equal(required_of(&c.fields), UINT64_C(1) << 63);
    c.fields.type_tag = HURRAY_TYPE_INT16;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_validate(&c.fields));
    c.fields.type_tag = HURRAY_TYPE_INT8;
    c.shape[0] = UINT64_C(1) << 32; /* bit 31 stands at 62, bit 32 would stand at 64 */
    assert_int_equal(required_of(&c.fields), UINT64_C(1) << 63);
    c.shape[0] += 1;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_validate(&c.fields));
    expect_message("2^64");
    c.shape[1] = 0;
    expect_ok(hurray_descriptor_validate(&c.fields));
    assert_int_equal(required_of(&c.fields), 0);
    c.shape[1] = HURRAY_DYNAMIC;
    expect_ok(hurray_descriptor_validate(&c.fields));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_specification),
        cmocka_unit_test(offsets_are_interleaved_bits),
        cmocka_unit_test(buffers_hold_the_last_element),
        cmocka_unit_test(bytes_of_every_rank),
        cmocka_unit_test(bytes_of_the_highest_rank),
        cmocka_unit_test(rules_of_the_bits),
        cmocka_unit_test(codes_that_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
