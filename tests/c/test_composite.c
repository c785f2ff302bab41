/*
 * The composite validator (src/composite.c, spec 2.10): each rule from both sides, nesting, torn
 * input, and the composites of the golden streams (spec 5), valid and not.
 */
#include "expect.h"

#include <dirent.h>
#include <stdio.h>

#include <hurray/composite.h>

/* ---- descriptors ---- */

/* A descriptor with room for what it points to; its `fields` are filled in by `fields_of`. */
typedef struct Item {
    uint32_t rank;
    uint64_t shape[4];
    uint64_t offset[4];
    uint64_t parent[4];
    uint8_t type_tag;
    uint8_t rule; /* of a head; 0 for a tensor */
    uint8_t combine_op;
    uint32_t member_count;
    bool has_shard, has_role, is_quantized;
    uint8_t role;
    uint16_t private_bits; /* of a private type */
    bool permissive;
    /* What the fields point to. */
    HurrayBufferHandle handle;
    HurrayQuantization quantization;
    HurrayShard shard;
    HurrayExtensionType type;
    HurrayCompositeMember member;
} Item;

static HurrayDescriptorFields fields_of(Item *item) {
    HurrayDescriptorFields fields = {
        .type_tag = item->type_tag,
        .rank = item->rank,
        .shape = item->shape,
        .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
        .permissive = item->permissive,
    };
    if (item->rule != 0) {
        fields.layout.tag = HURRAY_LAYOUT_COMPOSITE;
        fields.layout.composite =
            (HurrayCompositeLayout){item->rule, item->combine_op, item->member_count};
    } else {
        item->handle = (HurrayBufferHandle){.byte_size = 1 << 20, .alignment = 64};
        fields.buffer_count = 1;
        fields.buffers = &item->handle;
    }
    if (item->is_quantized) {
        item->quantization = (HurrayQuantization){.scheme = HURRAY_SCHEME_PER_TENSOR, .scale = 1};
        fields.quantization = &item->quantization;
    }
    if (item->has_shard) {
        item->shard = (HurrayShard){item->parent, item->offset};
        fields.shard = &item->shard;
    }
    if (item->type_tag >= 0xF0) {
        item->type = (HurrayExtensionType){.bit_width = item->private_bits, .packing_factor = 1};
        fields.extension_type = &item->type;
    }
    if (item->has_role) {
        item->member = (HurrayCompositeMember){item->role};
        fields.member = &item->member;
    }
    return fields;
}

static Item tensor(uint64_t rows, uint64_t columns) {
    return (Item){.rank = 2, .shape = {rows, columns}, .type_tag = HURRAY_TYPE_FLOAT32};
}

static Item head(uint8_t rule, uint64_t rows, uint64_t columns, uint32_t member_count) {
    Item item = tensor(rows, columns);
    item.rule = rule;
    item.combine_op = rule == HURRAY_RULE_OVERLAY ? HURRAY_COMBINE_ADD : HURRAY_COMBINE_NONE;
    item.member_count = member_count;
    return item;
}

static Item placed(Item item, uint64_t row, uint64_t column, uint64_t rows, uint64_t columns) {
    item.has_shard = true;
    item.offset[0] = row;
    item.offset[1] = column;
    item.parent[0] = rows;
    item.parent[1] = columns;
    return item;
}

static Item with_role(Item item, uint8_t role) {
    item.has_role = true;
    item.role = role;
    return item;
}

static Item of_type(Item item, uint8_t type_tag) {
    item.type_tag = type_tag;
    return item;
}

static Item quantized(Item item) {
    item.is_quantized = true;
    item.type_tag = HURRAY_TYPE_INT8;
    return item;
}

/* ---- pushing ---- */

static HurrayCompositeValidator *new_validator(uint32_t max_depth, bool as_writer) {
    HurrayCompositeOptions options = {max_depth, as_writer};
    HurrayCompositeValidator *validator = NULL;
    expect_ok(hurray_composite_validator_create(&options, &validator));
    return validator;
}

static HurrayStatus push(HurrayCompositeValidator *validator, Item item, bool *complete) {
    HurrayDescriptorFields fields = fields_of(&item);
    if (hurray_descriptor_validate(&fields) != HURRAY_OK) {
        fail_msg("an item that is not valid itself: %s", hurray_error_message());
    }
    return hurray_composite_validator_push(validator, &fields, complete);
}

/* Taken, and the item is complete with it, or not. */
static void expect_taken(HurrayCompositeValidator *validator, Item item, bool ends) {
    bool complete = !ends;
    expect_ok(push(validator, item, &complete));
    assert_int_equal(complete, ends);
}

/* Refused for this reason; from then on nothing is taken, until the validator is reset. */
static void expect_refused(HurrayCompositeValidator *validator, Item item, const char *reason) {
    bool complete = true;
    expect_failure(HURRAY_ERR_INTERNAL, push(validator, item, &complete));
    expect_message(reason);
    assert_true(complete);
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, push(validator, tensor(1, 1), &complete));
    expect_message("reset");
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, hurray_composite_validator_finish(validator));
    expect_ok(hurray_composite_validator_reset(validator));
    expect_ok(hurray_composite_validator_finish(validator));
    assert_int_equal(hurray_composite_validator_depth(validator), 0);
    expect_taken(validator, tensor(1, 1), true);
}

/* The members of one head, the last of which ends the item. */
static void expect_composite(HurrayCompositeValidator *validator, Item first, const Item *members,
                             size_t count) {
    expect_taken(validator, first, count == 0);
    for (size_t i = 0; i < count; i++) expect_taken(validator, members[i], i + 1 == count);
    expect_ok(hurray_composite_validator_finish(validator));
}

/* The same with a last member that is refused. */
static void expect_refused_last(HurrayCompositeValidator *validator, Item first,
                                const Item *members, size_t count, const char *reason) {
    expect_taken(validator, first, false);
    for (size_t i = 0; i + 1 < count; i++) expect_taken(validator, members[i], false);
    expect_refused(validator, members[count - 1], reason);
}

/* A validator at work in each test. */
static int set_up(void **state) {
    *state = new_validator(HURRAY_MAX_COMPOSITE_DEPTH, false);
    return 0;
}

static int tear_down(void **state) {
    HurrayCompositeValidator *validator = *state;
    expect_ok(hurray_composite_validator_destroy(&validator));
    assert_null(validator);
    return 0;
}

/* ---- the validator as an object ---- */

static void arguments(void **state) {
    HurrayCompositeValidator *validator = *state, *none = NULL;
    HurrayCompositeOptions options = {9, false};
    bool complete = true;
    Item item = tensor(1, 1);
    HurrayDescriptorFields fields = fields_of(&item);
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, hurray_composite_validator_create(&options, &none));
    expect_message("max_depth 9");
    assert_null(none);
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_composite_validator_create(NULL, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_composite_validator_destroy(NULL));
    expect_ok(hurray_composite_validator_destroy(&none));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_composite_validator_reset(NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_composite_validator_finish(NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_composite_validator_push(NULL, &fields, &complete));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_composite_validator_push(validator, NULL, &complete));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_composite_validator_push(validator, &fields, NULL));
    assert_int_equal(hurray_composite_validator_depth(NULL), 0);
    fields.rank = HURRAY_MAX_RANK + 1;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT,
                   hurray_composite_validator_push(validator, &fields, &complete));
    expect_ok(hurray_composite_validator_reset(validator));
    /* Options NULL: as deep as it goes. */
    expect_ok(hurray_composite_validator_create(NULL, &none));
    for (uint32_t i = 0; i < HURRAY_MAX_COMPOSITE_DEPTH; i++) {
        expect_taken(none, head(HURRAY_RULE_GROUP, 1, 1, 1), false);
        assert_int_equal(hurray_composite_validator_depth(none), i + 1);
    }
    expect_ok(hurray_composite_validator_destroy(&none));
}

static void tensors_are_complete_at_once(void **state) {
    for (int i = 0; i < 3; i++) {
        expect_taken(*state, tensor(2, 3), true);
        /* One that travels alone may have a shard or a role. */
        expect_taken(*state, with_role(placed(tensor(2, 3), 1, 1, 9, 9), HURRAY_ROLE_BASE), true);
        expect_ok(hurray_composite_validator_finish(*state));
    }
}

/* ---- partition ---- */

static void partitions(void **state) {
    const Item halves[] = {placed(tensor(2, 6), 0, 0, 4, 6), placed(tensor(2, 6), 2, 0, 4, 6)};
    expect_composite(*state, head(HURRAY_RULE_PARTITION, 4, 6, 2), halves, 2);
    /* In any order. */
    const Item others[] = {placed(tensor(2, 6), 2, 0, 4, 6), placed(tensor(2, 6), 0, 0, 4, 6)};
    expect_composite(*state, head(HURRAY_RULE_PARTITION, 4, 6, 2), others, 2);
    /* Of nothing, in nothing. */
    expect_composite(*state, head(HURRAY_RULE_PARTITION, 0, 6, 0), NULL, 0);
    expect_refused(*state, head(HURRAY_RULE_PARTITION, 4, 6, 0), "leave 24 of 24 ");
    /* A scalar has one member. */
    Item scalar = head(HURRAY_RULE_PARTITION, 0, 0, 1);
    Item value = placed(tensor(0, 0), 0, 0, 0, 0);
    scalar.rank = value.rank = 0;
    expect_composite(*state, scalar, &value, 1);
    scalar.member_count = 2;
    const Item values[] = {value, value};
    expect_refused_last(*state, scalar, values, 2, "members 0 and 1 overlap");
    scalar.member_count = 0;
    expect_refused(*state, scalar, "leave 1 of 1 ");
}

static void members_of_a_partition_fit(void **state) {
    const Item first = head(HURRAY_RULE_PARTITION, 4, 6, 2);
    const Item half = placed(tensor(2, 6), 0, 0, 4, 6);
    const Item gap[] = {half, placed(tensor(1, 6), 3, 0, 4, 6)};
    expect_refused_last(*state, first, gap, 2, "leave 6 of 24 elements uncovered");
    const Item twice[] = {half, half};
    expect_refused_last(*state, first, twice, 2, "members 0 and 1 overlap");
    const Item bare[] = {half, tensor(2, 6)};
    expect_refused_last(*state, first, bare, 2, "composite member 1: no shard section");
    const Item parent[] = {half, placed(tensor(2, 6), 2, 0, 4, 7)};
    expect_refused_last(*state, first, parent, 2,
                        "composite member 1: parent_shape[1] is 7, the extent of the head 6");
    Item line = placed(tensor(2, 1), 2, 0, 4, 6);
    line.rank = 1;
    const Item rank[] = {half, line};
    expect_refused_last(*state, first, rank, 2,
                        "composite member 1: rank 1 under a head of rank 2");
    const Item type[] = {half, of_type(placed(tensor(2, 6), 2, 0, 4, 6), HURRAY_TYPE_INT32)};
    expect_refused_last(*state, first, type, 2, "composite member 1: type tag 0x14");
    for (uint8_t role = 0; role < 2; role++) {
        const Item roles[] = {half, with_role(placed(tensor(2, 6), 2, 0, 4, 6), role)};
        expect_refused_last(*state, first, roles, 2, "composite member section");
    }
}

/* That a box is in bounds is a rule of the descriptor; others are refused here. */
static void boxes_are_in_bounds(void **state) {
    static const struct {
        uint64_t rows, at;
    } boxes[] = {{3, 2}, {5, 0}, {1, 4}, {UINT64_MAX, 3}, {1, UINT64_MAX}};
    for (size_t i = 0; i < sizeof boxes / sizeof boxes[0]; i++) {
        expect_taken(*state, head(HURRAY_RULE_PARTITION, 4, 6, 2), false);
        Item item = placed(tensor(boxes[i].rows, 6), boxes[i].at, 0, 4, 6);
        HurrayDescriptorFields fields = fields_of(&item);
        bool complete;
        expect_failure(HURRAY_ERR_INTERNAL,
                       hurray_composite_validator_push(*state, &fields, &complete));
        expect_message("whose extent is 4");
        expect_ok(hurray_composite_validator_reset(*state));
    }
}

/* A reader takes empty boxes anywhere; a writer none that lie inside another. */
static void empty_boxes(void **state) {
    HurrayCompositeValidator *writer = new_validator(HURRAY_MAX_COMPOSITE_DEPTH, true);
    const Item first = head(HURRAY_RULE_PARTITION, 4, 6, 3);
    const Item upper = placed(tensor(2, 6), 0, 0, 4, 6), lower = placed(tensor(2, 6), 2, 0, 4, 6);
    static const struct {
        uint64_t rows, columns, row, column;
        bool inside;
    } empties[] = {
        {0, 6, 0, 0, false}, {0, 6, 2, 0, false}, {0, 6, 4, 0, false}, /* at the edges */
        {0, 6, 1, 0, true},  {0, 6, 3, 0, true},  {0, 1, 1, 5, true},  {0, 0, 1, 1, true},
        {0, 0, 1, 0, false}, {0, 0, 2, 3, false}, {3, 0, 0, 3, false}, {2, 0, 2, 3, true},
        {2, 0, 2, 6, false}, {2, 0, 1, 3, false}, {0, 3, 4, 2, false}, {0, 0, 4, 6, false},
    };
    for (size_t i = 0; i < sizeof empties / sizeof empties[0]; i++) {
        Item empty = placed(tensor(empties[i].rows, empties[i].columns), empties[i].row,
                            empties[i].column, 4, 6);
        const Item members[] = {upper, empty, lower};
        expect_composite(*state, first, members, 3);
        if (empties[i].inside) {
            expect_refused_last(writer, first, members, 3,
                                "member 1 is empty and lies inside member");
        } else {
            expect_composite(writer, first, members, 3);
        }
    }
    /* Empty ones beside each other are inside nothing, in a head without elements either. */
    const Item nothing[] = {placed(tensor(0, 6), 0, 0, 0, 6), placed(tensor(0, 6), 0, 0, 0, 6)};
    expect_composite(writer, head(HURRAY_RULE_PARTITION, 0, 6, 2), nothing, 2);
    Item scalar = head(HURRAY_RULE_PARTITION, 0, 0, 1), value = placed(tensor(0, 0), 0, 0, 0, 0);
    scalar.rank = value.rank = 0;
    expect_composite(writer, scalar, &value, 1);
    expect_ok(hurray_composite_validator_destroy(&writer));
}

/* ---- types ---- */

static void quantized_members_are_real_numbers(void **state) {
    static const struct {
        uint8_t type_tag;
        bool accepts;
    } heads[] = {
        {HURRAY_TYPE_FLOAT16, true},      {HURRAY_TYPE_BFLOAT16, true},
        {HURRAY_TYPE_FLOAT32, true},      {HURRAY_TYPE_FLOAT64, true},
        {HURRAY_TYPE_INT8, false},        {HURRAY_TYPE_UINT8, false},
        {HURRAY_TYPE_BOOL, false},        {HURRAY_TYPE_FLOAT8_E4M3, false},
        {HURRAY_TYPE_COMPLEX64, false},   {HURRAY_TYPE_FLOAT128, false},
        {HURRAY_TYPE_FLOAT4_E2M1, false},
    };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        Item partition = of_type(head(HURRAY_RULE_PARTITION, 4, 6, 1), heads[i].type_tag);
        Item overlay = of_type(head(HURRAY_RULE_OVERLAY, 4, 6, 1), heads[i].type_tag);
        Item member = quantized(placed(tensor(4, 6), 0, 0, 4, 6));
        Item base = with_role(member, HURRAY_ROLE_BASE);
        if (heads[i].accepts) {
            expect_composite(*state, partition, &member, 1);
            expect_composite(*state, overlay, &base, 1);
        } else {
            expect_refused_last(*state, partition, &member, 1,
                                "composite member 0: it is quantized");
            expect_refused_last(*state, overlay, &base, 1, "composite member 0: it is quantized");
        }
        /* In a group nobody asks. */
        Item loose = quantized(tensor(4, 6));
        expect_composite(*state, of_type(head(HURRAY_RULE_GROUP, 4, 6, 1), heads[i].type_tag),
                         &loose, 1);
    }
    /* Next to members that are what the head says. */
    const Item mixed[] = {placed(tensor(2, 6), 0, 0, 4, 6),
                          quantized(placed(tensor(2, 6), 2, 0, 4, 6))};
    expect_composite(*state, head(HURRAY_RULE_PARTITION, 4, 6, 2), mixed, 2);
}

static void private_types_are_equal_by_tag_and_section(void **state) {
    Item first = of_type(head(HURRAY_RULE_PARTITION, 4, 6, 1), 0xF3);
    Item member = of_type(placed(tensor(4, 6), 0, 0, 4, 6), 0xF3);
    first.private_bits = member.private_bits = 24;
    expect_composite(*state, first, &member, 1);
    member.private_bits = 32;
    expect_refused_last(*state, first, &member, 1, "private type 0xF3 is described differently");
    member.private_bits = 24;
    member.type_tag = 0xF4;
    expect_refused_last(*state, first, &member, 1, "type tag 0xF4 under a head of type tag 0xF3");
}

/* ---- overlay ---- */

static void overlays(void **state) {
    const Item base = with_role(placed(tensor(4, 6), 0, 0, 4, 6), HURRAY_ROLE_BASE);
    const Item patch = with_role(placed(tensor(2, 2), 1, 3, 4, 6), HURRAY_ROLE_CORRECTION);
    const Item members[] = {base, patch, patch}; /* corrections may overlap */
    for (size_t count = 1; count <= 3; count++) {
        Item first = head(HURRAY_RULE_OVERLAY, 4, 6, (uint32_t)count);
        expect_composite(*state, first, members, count);
        first.combine_op = HURRAY_COMBINE_REPLACE;
        expect_composite(*state, first, members, count);
    }
    expect_refused(*state, head(HURRAY_RULE_OVERLAY, 4, 6, 0), "at least a base");

    Item first = head(HURRAY_RULE_OVERLAY, 4, 6, 2);
    expect_refused_last(*state, first, &patch, 1, "composite member 0: member_role 0; expected 1");
    const Item bases[] = {base, base};
    expect_refused_last(*state, first, bases, 2, "composite member 1: member_role 1; expected 0");
    const Item loose[] = {base, placed(tensor(2, 2), 1, 3, 4, 6)};
    expect_refused_last(*state, first, loose, 2, "no composite member section");
    const Item unplaced = with_role(tensor(4, 6), HURRAY_ROLE_BASE);
    expect_refused_last(*state, first, &unplaced, 1,
                        "no shard section; expected one under an over");
    Item small = with_role(placed(tensor(4, 5), 0, 0, 4, 6), HURRAY_ROLE_BASE);
    expect_refused_last(*state, first, &small, 1, "the base covers 0 … 5 of dimension 1");
    small.offset[1] = 1;
    expect_refused_last(*state, first, &small, 1, "the base covers 1 … 6 of dimension 1");
    const Item integers[] = {base, of_type(patch, HURRAY_TYPE_INT32)};
    expect_refused_last(*state, first, integers, 2, "composite member 1: type tag");
    /* A head has no role. */
    const Item heads[] = {base, placed(head(HURRAY_RULE_GROUP, 2, 2, 1), 1, 3, 4, 6)};
    expect_refused_last(*state, first, heads, 2, "a composite head cannot have a role");
}

/* ---- group, private rules ---- */

static void groups(void **state) {
    expect_composite(*state, head(HURRAY_RULE_GROUP, 4, 6, 0), NULL, 0);
    const Item anything[] = {tensor(1, 2), of_type(tensor(0, 0), HURRAY_TYPE_BOOL),
                             placed(tensor(4, 6), 3, 3, 9, 9), quantized(tensor(2, 2))};
    expect_composite(*state, head(HURRAY_RULE_GROUP, 4, 6, 4), anything, 4);
    Item dynamic = head(HURRAY_RULE_GROUP, HURRAY_DYNAMIC, 6, 1);
    expect_composite(*state, dynamic, anything, 1);
    for (uint8_t role = 0; role < 2; role++) {
        Item member = with_role(tensor(1, 2), role);
        expect_refused_last(*state, head(HURRAY_RULE_GROUP, 4, 6, 2), &member, 1,
                            "a composite member section");
    }
}

/* Members of a rule that nobody knows are counted, no more. */
static void private_rules(void **state) {
    Item first = head(0xF7, HURRAY_DYNAMIC, 6, 3);
    first.permissive = true;
    const Item anything[] = {with_role(tensor(1, 2), HURRAY_ROLE_BASE), tensor(3, 3),
                             of_type(placed(tensor(4, 6), 3, 3, 9, 9), HURRAY_TYPE_BOOL)};
    expect_composite(*state, first, anything, 3);
    HurrayDescriptorFields fields = fields_of(&first);
    fields.permissive = false;
    expect_failure(HURRAY_ERR_INTERNAL, hurray_descriptor_validate(&fields));
}

/* ---- heads alone ---- */

static void heads_that_are_no_descriptors(void **state) {
    (void)state;
    for (uint8_t rule = HURRAY_RULE_PARTITION; rule <= HURRAY_RULE_OVERLAY; rule++) {
        Item dynamic = head(rule, 4, HURRAY_DYNAMIC, 1);
        HurrayDescriptorFields fields = fields_of(&dynamic);
        expect_failure(HURRAY_ERR_INTERNAL, hurray_descriptor_validate(&fields));
        expect_message("dynamic");
    }
    Item faults[6];
    for (int i = 0; i < 6; i++) faults[i] = head(HURRAY_RULE_GROUP, 4, 6, 1);
    faults[0].member_count = UINT32_MAX;
    faults[1].combine_op = HURRAY_COMBINE_ADD;
    faults[2] = with_role(faults[2], HURRAY_ROLE_BASE);
    faults[3].is_quantized = true;
    faults[4].rule = 4;
    faults[5].rule = HURRAY_RULE_OVERLAY;
    for (int i = 0; i < 6; i++) {
        HurrayDescriptorFields fields = fields_of(&faults[i]);
        expect_failure(HURRAY_ERR_INTERNAL, hurray_descriptor_validate(&fields));
    }
}

/* ---- nesting ---- */

static void each_depth_has_its_limit(void **state) {
    (void)state;
    for (uint32_t limit = 0; limit <= HURRAY_MAX_COMPOSITE_DEPTH; limit++) {
        HurrayCompositeValidator *validator = new_validator(limit, false);
        for (int round = 0; round < 2; round++) {
            for (uint32_t i = 0; i < limit; i++) {
                expect_taken(validator, head(HURRAY_RULE_GROUP, 1, 1, 1), false);
            }
            expect_taken(validator, tensor(1, 1), true);
            expect_ok(hurray_composite_validator_finish(validator));
            for (uint32_t i = 0; i < limit; i++) {
                expect_taken(validator, head(HURRAY_RULE_GROUP, 1, 1, 1), false);
            }
            expect_refused(validator, head(HURRAY_RULE_GROUP, 1, 1, 0), "nest deeper than");
        }
        expect_ok(hurray_composite_validator_destroy(&validator));
    }
}

/* Partitions of partitions, in pre-order; what is wrong deep inside says where. */
static void push_quarters(HurrayCompositeValidator *validator, bool whole) {
    expect_taken(validator, head(HURRAY_RULE_PARTITION, 4, 4, 2), false);
    expect_taken(validator, placed(tensor(2, 4), 0, 0, 4, 4), false);
    expect_taken(validator, placed(head(HURRAY_RULE_PARTITION, 2, 4, 3), 2, 0, 4, 4), false);
    expect_taken(validator, placed(tensor(2, 1), 0, 0, 2, 4), false);
    expect_taken(validator, placed(head(HURRAY_RULE_GROUP, 2, 1, 0), 0, 1, 2, 4), false);
    if (whole) {
        expect_taken(validator, placed(tensor(2, 2), 0, 2, 2, 4), true);
    } else {
        expect_refused(validator, placed(tensor(2, 2), 0, 1, 2, 4),
                       "composite member 1: partition: members 1 and 2 overlap");
    }
}

static void nested_partitions(void **state) {
    for (int round = 0; round < 3; round++) {
        push_quarters(*state, true);
        push_quarters(*state, false);
    }
    /* A member deep inside. */
    expect_taken(*state, head(HURRAY_RULE_GROUP, 1, 1, 3), false);
    expect_taken(*state, tensor(1, 1), false);
    expect_taken(*state, head(HURRAY_RULE_GROUP, 1, 1, 2), false);
    expect_taken(*state, tensor(1, 1), false);
    expect_taken(*state, head(HURRAY_RULE_OVERLAY, 1, 1, 2), false);
    assert_int_equal(hurray_composite_validator_depth(*state), 3);
    expect_refused(*state, tensor(1, 1), "composite member 1.1.0: no shard section");
    /* The shape of a nested head counts, and that it is a member as others are. */
    expect_taken(*state, head(HURRAY_RULE_PARTITION, 4, 4, 2), false);
    expect_refused(*state, head(HURRAY_RULE_PARTITION, 2, 4, 1), "no shard section");
    expect_taken(*state, head(HURRAY_RULE_PARTITION, 4, 4, 2), false);
    expect_refused(*state,
                   of_type(placed(head(HURRAY_RULE_GROUP, 2, 4, 0), 0, 0, 4, 4), HURRAY_TYPE_INT8),
                   "type tag 0x10");
}

/* Many heads that close at once. */
static void closing_goes_outward(void **state) {
    for (int i = 0; i < 7; i++) expect_taken(*state, head(HURRAY_RULE_GROUP, 1, 1, 1), false);
    expect_taken(*state, head(HURRAY_RULE_GROUP, 1, 1, 0), true);
    for (int i = 0; i < 7; i++) expect_taken(*state, head(HURRAY_RULE_GROUP, 1, 1, 2), false);
    expect_taken(*state, head(HURRAY_RULE_GROUP, 1, 1, 0), false);
    for (int i = 0; i < 6; i++) expect_taken(*state, tensor(1, 1), false);
    expect_taken(*state, tensor(1, 1), true);
}

/* ---- torn input, great counts ---- */

static void input_is_torn_at_each_point(void **state) {
    HurrayCompositeValidator *validator = *state;
    const Item items[] = {
        head(HURRAY_RULE_PARTITION, 4, 6, 2),
        placed(tensor(2, 6), 0, 0, 4, 6),
        placed(head(HURRAY_RULE_GROUP, 2, 6, 2), 2, 0, 4, 6),
        tensor(1, 1),
        tensor(1, 1),
    };
    static const char *const said[] = {"0 of 2 ", "1 of 2 ", "0 of 2 ", "1 of 2 "};
    static const uint32_t depths[] = {1, 1, 2, 2};
    for (size_t cut = 1; cut < 5; cut++) {
        for (size_t i = 0; i < cut; i++) expect_taken(validator, items[i], false);
        expect_failure(HURRAY_ERR_INTERNAL, hurray_composite_validator_finish(validator));
        expect_message("torn");
        expect_message(said[cut - 1]);
        assert_int_equal(hurray_composite_validator_depth(validator), depths[cut - 1]);
        /* Asking does no harm. */
        for (size_t i = cut; i < 5; i++) expect_taken(validator, items[i], i == 4);
        expect_ok(hurray_composite_validator_finish(validator));
        for (size_t i = 0; i < cut; i++) expect_taken(validator, items[i], false);
        expect_ok(hurray_composite_validator_reset(validator));
    }
}

/* What a head announces costs nothing. */
static void great_counts_are_no_promise(void **state) {
    Item first = head(HURRAY_RULE_PARTITION, UINT64_C(1) << 40, 2, UINT32_MAX - 1);
    expect_taken(*state, first, false);
    for (uint64_t i = 0; i < 1000; i++) {
        expect_taken(*state, placed(tensor(1, 2), i, 0, UINT64_C(1) << 40, 2), false);
    }
    expect_failure(HURRAY_ERR_INTERNAL, hurray_composite_validator_finish(*state));
    expect_message("1000 of 4294967294 ");
}

/* ---- golden streams ---- */

static const struct {
    const char *file;
    const char *because; /* in the manifest; NULL for a valid one */
    const char *said;    /* part of the message; NULL when the stream is cut off outside of rules */
} streams[] = {
    {"streams/composite.hrs", NULL, NULL},
    {"streams/empty.hrs", NULL, NULL},
    {"streams/everything.hrs", NULL, NULL},
    {"streams/grid.hrs", NULL, NULL},
    {"streams/group_of_none.hrs", NULL, NULL},
    {"streams/nested_8.hrs", NULL, NULL},
    {"streams/overlay.hrs", NULL, NULL},
    {"streams_invalid/cut_in_buffer_0.hrs", "truncated", NULL},
    {"streams_invalid/cut_in_descriptor.hrs", "truncated", NULL},
    {"streams_invalid/cut_in_last_buffer.hrs", "truncated", NULL},
    {"streams_invalid/cut_in_prefix.hrs", "shorter than 10 bytes", NULL},
    {"streams_invalid/garbage_after_item.hrs", "shorter than 10 bytes", NULL},
    {"streams_invalid/dynamic_partition_head.hrs", "dynamic partition or overlay head", "dynamic"},
    {"streams_invalid/group_role.hrs", "role in a group", "under a group"},
    {"streams_invalid/nested_9.hrs", "nested too deep", "nest deeper than 8"},
    {"streams_invalid/overlay_correction_first.hrs", "overlay role", "member_role 0; expected 1"},
    {"streams_invalid/overlay_no_members.hrs", "overlay without base", "at least a base"},
    {"streams_invalid/overlay_no_role.hrs", "overlay role", "no composite member section"},
    {"streams_invalid/overlay_small_base.hrs", "base does not span", "the base covers"},
    {"streams_invalid/overlay_two_bases.hrs", "overlay role", "member_role 1; expected 0"},
    {"streams_invalid/partition_gap.hrs", "partition gap", "uncovered"},
    {"streams_invalid/partition_no_shard.hrs", "member shard", "no shard section"},
    {"streams_invalid/partition_overlap.hrs", "partition overlap", "overlap"},
    {"streams_invalid/partition_parent.hrs", "member shard", "parent_shape["},
    {"streams_invalid/partition_role.hrs", "role in a partition", "under a partition"},
    {"streams_invalid/partition_wrong_type.hrs", "member type", "under a head of type tag"},
    {"streams_invalid/quantized_under_int_head.hrs", "quantized member under this head",
     "it is quantized"},
    {"streams_invalid/torn.hrs", "torn composite", "torn"},
};
#define STREAM_COUNT (sizeof streams / sizeof streams[0])

static void path_of(const char *name, char path[1024]) {
    const char *vectors = getenv("HURRAY_VECTORS");
    if (vectors == NULL) vectors = "tests/vectors";
    assert_true(snprintf(path, 1024, "%s/%s", vectors, name) < 1024);
}

static uint8_t *read_file(const char *name, size_t *length) {
    char path[1024];
    path_of(name, path);
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail_msg("cannot open %s", path);
    fseek(file, 0, SEEK_END);
    *length = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*length + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *length, file), *length);
    fclose(file);
    return bytes;
}

static bool is_truncated; /* the last stream ended within a descriptor or a buffer */

/* One descriptor of a stream, and the bytes it describes stepped over. */
static HurrayStatus read_item(HurrayCompositeValidator *validator, const uint8_t *bytes,
                              size_t length, size_t *position) {
    uint32_t descriptor_length;
    HurrayDescriptor *descriptor = NULL;
    is_truncated = true;
    HurrayStatus status =
        hurray_descriptor_peek_length(bytes + *position, length - *position, &descriptor_length);
    if (status != HURRAY_OK) return status;
    if (descriptor_length > length - *position) return HURRAY_ERR_INVALID_LAYOUT;
    is_truncated = false;
    status = hurray_descriptor_decode(bytes + *position, length - *position, &descriptor);
    if (status != HURRAY_OK) return status;
    *position += descriptor_length;
    const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
    bool complete;
    status = hurray_composite_validator_push(validator, fields, &complete);
    for (uint32_t i = 0; status == HURRAY_OK && i < fields->buffer_count; i++) {
        is_truncated = fields->buffers[i].byte_size > length - *position;
        if (is_truncated) status = HURRAY_ERR_INVALID_LAYOUT;
        if (!is_truncated) *position += (size_t)fields->buffers[i].byte_size;
    }
    expect_status_at(hurray_descriptor_destroy(descriptor), HURRAY_OK, "destroy", __FILE__,
                     __LINE__);
    return status;
}

static HurrayStatus read_stream(HurrayCompositeValidator *validator, const char *name) {
    size_t length, position = 0;
    uint8_t *bytes = read_file(name, &length);
    HurrayStatus status = HURRAY_OK;
    while (status == HURRAY_OK && position < length) {
        status = read_item(validator, bytes, length, &position);
    }
    if (status == HURRAY_OK) status = hurray_composite_validator_finish(validator);
    free(bytes);
    return status;
}

static void golden_streams(void **state) {
    for (size_t i = 0; i < STREAM_COUNT; i++) {
        expect_ok(hurray_composite_validator_reset(*state));
        if (streams[i].because == NULL) {
            expect_ok(read_stream(*state, streams[i].file));
        } else if (streams[i].said == NULL) {
            assert_true(read_stream(*state, streams[i].file) < 0);
            assert_true(is_truncated);
        } else {
            expect_failure(HURRAY_ERR_INTERNAL, read_stream(*state, streams[i].file));
            expect_message(streams[i].said);
            assert_false(is_truncated);
        }
    }
}

/* Each file is in the table, and the table says what the manifest says. */
static void no_stream_is_forgotten(void **state) {
    (void)state;
    static const char *const directories[] = {"streams", "streams_invalid"};
    size_t files = 0, length;
    for (int i = 0; i < 2; i++) {
        char path[1024];
        path_of(directories[i], path);
        DIR *directory = opendir(path);
        assert_non_null(directory);
        for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
            files += strstr(entry->d_name, ".hrs") != NULL;
        }
        closedir(directory);
    }
    assert_int_equal(files, STREAM_COUNT);
    uint8_t *manifest = read_file("manifest.json", &length);
    manifest[length] = '\0';
    for (size_t i = 0; i < STREAM_COUNT; i++) {
        const char *at = strstr((const char *)manifest, streams[i].file);
        assert_non_null(at);
        if (streams[i].because == NULL) continue;
        /* "because" stands before "file" in the same object. */
        const char *start = at;
        while (start > (const char *)manifest && *start != '{') start--;
        const char *reason = strstr(start, streams[i].because);
        assert_true(reason != NULL && reason < at);
    }
    free(manifest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(arguments, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tensors_are_complete_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(partitions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(members_of_a_partition_fit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(boxes_are_in_bounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(empty_boxes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(quantized_members_are_real_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(private_types_are_equal_by_tag_and_section, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(overlays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(groups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(private_rules, set_up, tear_down),
        cmocka_unit_test(heads_that_are_no_descriptors),
        cmocka_unit_test(each_depth_has_its_limit),
        cmocka_unit_test_setup_teardown(nested_partitions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(closing_goes_outward, set_up, tear_down),
        cmocka_unit_test_setup_teardown(input_is_torn_at_each_point, set_up, tear_down),
        cmocka_unit_test_setup_teardown(great_counts_are_no_promise, set_up, tear_down),
        cmocka_unit_test_setup_teardown(golden_streams, set_up, tear_down),
        cmocka_unit_test(no_stream_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
