/* Heads of composites as descriptors (src/layout_composite.c); members among themselves
 * elsewhere. */
#include "round_trip.h"

#include "layout.h"

static const HurrayDecodeOptions permissive = {.permissive = true};

typedef struct Sample {
    HurrayDescriptorFields fields;
    uint64_t shape[2];
} Sample;

static void make(Sample *sample, uint8_t rule, uint8_t op) {
    *sample = (Sample){.shape = {8, 8}};
    sample->fields = (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_FLOAT32,
        .rank = 2,
        .shape = sample->shape,
        .layout = {.tag = HURRAY_LAYOUT_COMPOSITE, .composite = {rule, op, 0x0102}},
    };
}

static void round_trips(void **state) {
    (void)state;
    static const struct {
        uint8_t rule, op;
    } heads[] = {{HURRAY_RULE_PARTITION, HURRAY_COMBINE_NONE},
                 {HURRAY_RULE_OVERLAY, HURRAY_COMBINE_REPLACE},
                 {HURRAY_RULE_OVERLAY, HURRAY_COMBINE_ADD},
                 {HURRAY_RULE_GROUP, HURRAY_COMBINE_NONE}};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        Sample sample;
        make(&sample, heads[i].rule, heads[i].op);
        expect_round_trip(&sample.fields, NULL);
        sample.fields.layout.composite.member_count = UINT32_MAX - 1;
        expect_round_trip(&sample.fields, NULL);
        sample.fields.layout.composite.member_count = 0;
        expect_round_trip(&sample.fields, NULL);
        sample.fields.rank = 0;
        expect_round_trip(&sample.fields, NULL);
    }
}

static void fields_as_the_spec_lays_them_out(void **state) {
    (void)state;
    Sample sample;
    uint8_t bytes[ROOM];
    make(&sample, HURRAY_RULE_OVERLAY, HURRAY_COMBINE_ADD);
    size_t length = encode_valid(&sample.fields, bytes);
    assert_int_equal(length, layout_at(2) + 9);
    assert_memory_equal(bytes + layout_at(2), "\2\2\0\0\2\1\0\0\0", 9);
    expect_reserved(&sample.fields, layout_at(2) + 2, 2);
}

/* Every pair of rule and operation: the spec's list, and nothing else. */
static void rules_and_operations(void **state) {
    (void)state;
    for (unsigned rule = 0; rule <= 255; rule++) {
        for (unsigned op = 0; op <= 255; op++) {
            Sample sample;
            make(&sample, (uint8_t)rule, (uint8_t)op);
            bool is_private = rule >= 0xF0 && rule <= 0xFE;
            bool known = (rule >= 1 && rule <= 3) || is_private;
            bool suits = rule == HURRAY_RULE_OVERLAY ? op == 1 || op == 2 : op == 0;
            sample.fields.permissive = true;
            if (!known) {
                expect_invalid(HURRAY_ERR_INTERNAL, &sample.fields, "composition_rule");
            } else if (!suits) {
                expect_invalid(HURRAY_ERR_INTERNAL, &sample.fields, "combine_op");
            } else {
                expect_ok(hurray_descriptor_validate(&sample.fields));
            }
            sample.fields.permissive = false;
            if (is_private) {
                expect_invalid(HURRAY_ERR_INTERNAL, &sample.fields, "composition_rule");
            }
        }
    }
}

static void private_rules_need_a_permissive_reader(void **state) {
    (void)state;
    Sample sample;
    uint8_t bytes[ROOM];
    make(&sample, 0xF0, HURRAY_COMBINE_NONE);
    sample.shape[0] = HURRAY_DYNAMIC; /* nobody knows what it needs */
    sample.fields.permissive = true;
    expect_round_trip(&sample.fields, &permissive);
    size_t length = encode_valid(&sample.fields, bytes);
    expect_unreadable(bytes, length, NULL, "composition_rule is 0xF0");
}

static void the_number_of_members_is_known(void **state) {
    (void)state;
    Sample sample;
    make(&sample, HURRAY_RULE_GROUP, HURRAY_COMBINE_NONE);
    sample.fields.layout.composite.member_count = UINT32_MAX;
    expect_invalid(HURRAY_ERR_INTERNAL, &sample.fields, "member_count");
    sample.fields.permissive = true;
    expect_invalid(HURRAY_ERR_INTERNAL, &sample.fields, "member_count");
}

static void boxes_need_known_extents(void **state) {
    (void)state;
    for (uint32_t k = 0; k < 2; k++) {
        Sample sample;
        make(&sample, HURRAY_RULE_PARTITION, HURRAY_COMBINE_NONE);
        sample.shape[k] = HURRAY_DYNAMIC;
        expect_invalid(HURRAY_ERR_INTERNAL, &sample.fields, "partition is dynamic");
        make(&sample, HURRAY_RULE_OVERLAY, HURRAY_COMBINE_ADD);
        sample.shape[k] = HURRAY_DYNAMIC;
        expect_invalid(HURRAY_ERR_INTERNAL, &sample.fields, "overlay is dynamic");
        make(&sample, HURRAY_RULE_GROUP, HURRAY_COMBINE_NONE);
        sample.shape[k] = HURRAY_DYNAMIC;
        expect_round_trip(&sample.fields, NULL);
    }
}

static void a_head_owns_nothing(void **state) {
    (void)state;
    Sample sample;
    HurrayBufferHandle buffer = {.byte_size = 256, .alignment = 64};
    HurrayQuantization quantization = {.scheme = HURRAY_SCHEME_PER_TENSOR, .scale = 1};
    HurrayCompositeMember member = {HURRAY_ROLE_BASE};
    make(&sample, HURRAY_RULE_GROUP, HURRAY_COMBINE_NONE);
    sample.fields.buffer_count = 1;
    sample.fields.buffers = &buffer;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "buffer count 1");
    make(&sample, HURRAY_RULE_GROUP, HURRAY_COMBINE_NONE);
    sample.fields.byte_offset = 1;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "byte_offset");
    make(&sample, HURRAY_RULE_GROUP, HURRAY_COMBINE_NONE);
    sample.fields.type_tag = HURRAY_TYPE_INT8;
    sample.fields.quantization = &quantization;
    expect_invalid(HURRAY_ERR_INTERNAL, &sample.fields, "quantization section");
    make(&sample, HURRAY_RULE_GROUP, HURRAY_COMBINE_NONE);
    sample.fields.member = &member;
    expect_invalid(HURRAY_ERR_INTERNAL, &sample.fields, "composite member section");
    uint64_t bytes = 0;
    sample.fields.member = NULL;
    expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                   hurray_descriptor_required_bytes(&sample.fields, 0, &bytes, NULL));
}

/* A head may be a member of a partition, and have statistics and a type of its own. */
static void other_sections_may_stand_on_a_head(void **state) {
    (void)state;
    Sample sample;
    static const uint64_t parent_shape[2] = {16, 8}, offset[2] = {8, 0};
    HurrayShard shard = {parent_shape, offset};
    HurrayStatistics statistics = {.computed_mask = HURRAY_STATISTICS_NNZ, .nnz = 7};
    HurrayExtensionType type = {.bit_width = 24, .packing_factor = 1};
    make(&sample, HURRAY_RULE_PARTITION, HURRAY_COMBINE_NONE);
    sample.fields.shard = &shard;
    sample.fields.statistics = &statistics;
    sample.fields.type_tag = 0xF2;
    sample.fields.extension_type = &type;
    expect_round_trip(&sample.fields, NULL);
}

static void every_field_makes_a_difference(void **state) {
    (void)state;
    Sample a, b;
    make(&a, HURRAY_RULE_OVERLAY, HURRAY_COMBINE_ADD);
    make(&b, HURRAY_RULE_OVERLAY, HURRAY_COMBINE_ADD);
    assert_true(hurray_descriptor_equal(&a.fields, &b.fields));
    b.fields.layout.composite.combine_op = HURRAY_COMBINE_REPLACE;
    assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
    make(&b, HURRAY_RULE_OVERLAY, HURRAY_COMBINE_ADD);
    b.fields.layout.composite.member_count++;
    assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
    make(&b, HURRAY_RULE_GROUP, HURRAY_COMBINE_NONE);
    assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(fields_as_the_spec_lays_them_out),
        cmocka_unit_test(rules_and_operations),
        cmocka_unit_test(private_rules_need_a_permissive_reader),
        cmocka_unit_test(the_number_of_members_is_known),
        cmocka_unit_test(boxes_need_known_extents),
        cmocka_unit_test(a_head_owns_nothing),
        cmocka_unit_test(other_sections_may_stand_on_a_head),
        cmocka_unit_test(every_field_makes_a_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
