/*
 * The head of a composite (spec 2.10): a tensor whose elements lie in the tensors that follow it.
 * It says how they belong together and owns nothing itself. What the members must be is checked
 * where they arrive; here is what the head can be told to be by itself.
 */
#include <inttypes.h>

#include "fail.h"
#include "layout.h"

#define OPEN_ENDED UINT32_MAX /* a member_count that later versions may give a meaning */
#define PRIVATE_RULE_FIRST 0xF0
#define PRIVATE_RULE_LAST 0xFE

static HurrayStatus decode(ByteReader *reader, uint32_t rank, Arena *arena, HurrayLayout *out) {
    (void)rank, (void)arena;
    out->composite.composition_rule = read_u8(reader);
    out->composite.combine_op = read_u8(reader);
    bool reserved_is_zero = read_zeros(reader, 2);
    out->composite.member_count = read_u32(reader);
    if (!reserved_is_zero && !reader->failed) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "composite layout: the 2 reserved bytes are not both 0");
    }
    return HURRAY_OK;
}

static void encode(const HurrayLayout *layout, uint32_t rank, ByteWriter *writer) {
    (void)rank;
    write_u8(writer, layout->composite.composition_rule);
    write_u8(writer, layout->composite.combine_op);
    write_zeros(writer, 2);
    write_u32(writer, layout->composite.member_count);
}

static HurrayStatus check_rule(const HurrayDescriptorFields *fields) {
    uint8_t rule = fields->layout.composite.composition_rule;
    if (rule >= HURRAY_RULE_PARTITION && rule <= HURRAY_RULE_GROUP) return HURRAY_OK;
    bool is_private = rule >= PRIVATE_RULE_FIRST && rule <= PRIVATE_RULE_LAST;
    if (is_private && fields->permissive) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "composite layout: composition_rule is 0x%02X%s; expected 1 (partition), 2 "
                    "(overlay) or 3 (group)",
                    rule, is_private ? ", which is private" : "");
}

static HurrayStatus check_combine_op(const HurrayCompositeLayout *composite) {
    uint8_t op = composite->combine_op;
    bool is_overlay = composite->composition_rule == HURRAY_RULE_OVERLAY;
    if (is_overlay ? op == HURRAY_COMBINE_REPLACE || op == HURRAY_COMBINE_ADD
                   : op == HURRAY_COMBINE_NONE) {
        return HURRAY_OK;
    }
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "composite layout: combine_op is %u with composition_rule %u; expected %s", op,
                    composite->composition_rule,
                    is_overlay ? "1 (replace) or 2 (add)" : "0, there is nothing to combine");
}

/* Boxes can cover only a shape that is known. */
static HurrayStatus check_extents(const HurrayDescriptorFields *fields) {
    uint8_t rule = fields->layout.composite.composition_rule;
    if (rule != HURRAY_RULE_PARTITION && rule != HURRAY_RULE_OVERLAY) return HURRAY_OK;
    for (uint32_t k = 0; k < fields->rank; k++) {
        if (fields->shape[k] == HURRAY_DYNAMIC) {
            return hri_fail(HURRAY_ERR_INTERNAL,
                            "composite layout: dimension %" PRIu32
                            " of the head of a %s is dynamic; expected a known extent",
                            k, rule == HURRAY_RULE_PARTITION ? "partition" : "overlay");
        }
    }
    return HURRAY_OK;
}

static HurrayStatus check_sections(const HurrayDescriptorFields *fields) {
    if (fields->quantization == NULL && fields->member == NULL) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "a %s section on the head of a composite; only its members can have one",
                    fields->quantization != NULL ? "quantization" : "composite member");
}

static HurrayStatus check_fields(const HurrayDescriptorFields *fields) {
    HurrayStatus status = check_rule(fields);
    if (status == HURRAY_OK) status = check_combine_op(&fields->layout.composite);
    if (status == HURRAY_OK) status = check_extents(fields);
    if (status == HURRAY_OK) status = check_sections(fields);
    if (status == HURRAY_OK && fields->layout.composite.member_count == OPEN_ENDED) {
        status = hri_fail(HURRAY_ERR_INTERNAL,
                          "composite layout: member_count is 0x%08" PRIX32
                          ", an open end; expected the number of members",
                          OPEN_ENDED);
    }
    return status;
}

static bool equal(const HurrayLayout *a, const HurrayLayout *b, uint32_t rank) {
    (void)rank;
    const HurrayCompositeLayout *x = &a->composite, *y = &b->composite;
    return x->composition_rule == y->composition_rule && x->combine_op == y->combine_op &&
           x->member_count == y->member_count;
}

const LayoutKind hri_layout_composite = {
    .tag = HURRAY_LAYOUT_COMPOSITE,
    .name = "composite",
    .layout_class = HURRAY_LAYOUT_CLASS_VIRTUAL,
    .min_rank = 0,
    .max_rank = HURRAY_MAX_RANK,
    .offset_is_zero = true,
    .decode = decode,
    .encode = encode,
    .check_fields = check_fields,
    .equal = equal,
};
