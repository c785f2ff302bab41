/*
 * The composite validator (include/hurray/composite.h, spec 2.10): a stack of open heads, each with
 * what its members are compared with.
 */
#include <hurray/composite.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "fail.h"
#include "sections.h"

/* A head that still waits for members. */
typedef struct OpenHead {
    uint8_t rule;
    uint32_t member_count;
    uint32_t arrived;
    uint8_t type_tag;
    HurrayExtensionType extension_type; /* of a private type_tag */
    uint32_t rank;
    uint64_t shape[HURRAY_MAX_RANK];
    /* Partition: the members' boxes, as HurrayBoxes has them; grown as they arrive. */
    uint64_t *offsets;
    uint64_t *shapes;
    size_t capacity; /* in boxes */
} OpenHead;

struct HurrayCompositeValidator {
    HurrayCompositeOptions options;
    uint32_t depth;
    bool failed;
    OpenHead heads[HURRAY_MAX_COMPOSITE_DEPTH]; /* the outermost first */
};

/* ---- the validator as an object ---- */

HurrayStatus hurray_composite_validator_create(const HurrayCompositeOptions *options,
                                               HurrayCompositeValidator **out) {
    if (out == NULL) return hri_fail_null("out");
    if (options != NULL && options->max_depth > HURRAY_MAX_COMPOSITE_DEPTH) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT, "max_depth %" PRIu32 "; expected 0 … %u",
                        options->max_depth, HURRAY_MAX_COMPOSITE_DEPTH);
    }
    HurrayCompositeValidator *validator = calloc(1, sizeof *validator);
    if (validator == NULL) return hri_fail_memory(sizeof *validator);
    validator->options =
        options != NULL ? *options : (HurrayCompositeOptions){HURRAY_MAX_COMPOSITE_DEPTH, false};
    *out = validator;
    return HURRAY_OK;
}

static void close_head(HurrayCompositeValidator *validator) {
    OpenHead *head = &validator->heads[--validator->depth];
    free(head->offsets);
    free(head->shapes);
    *head = (OpenHead){0};
}

HurrayStatus hurray_composite_validator_reset(HurrayCompositeValidator *validator) {
    if (validator == NULL) return hri_fail_null("validator");
    while (validator->depth != 0) close_head(validator);
    validator->failed = false;
    return HURRAY_OK;
}

HurrayStatus hurray_composite_validator_destroy(HurrayCompositeValidator **validator) {
    if (validator == NULL) return hri_fail_null("validator");
    if (*validator == NULL) return HURRAY_OK;
    hurray_composite_validator_reset(*validator);
    free(*validator);
    *validator = NULL;
    return HURRAY_OK;
}

uint32_t hurray_composite_validator_depth(const HurrayCompositeValidator *validator) {
    return validator == NULL ? 0 : validator->depth;
}

/* ---- messages ---- */

#define PATH_SIZE (12u * HURRAY_MAX_COMPOSITE_DEPTH + 1u)

/* "2.0.14": positions in the outermost `depth` open heads, of the member at hand or of the head
 * after them. */
static const char *member_path(const HurrayCompositeValidator *validator, uint32_t depth,
                               char path[PATH_SIZE]) {
    size_t used = 0;
    path[0] = '\0';
    for (uint32_t i = 0; i < depth; i++) {
        int length = snprintf(path + used, PATH_SIZE - used, i == 0 ? "%" PRIu32 : ".%" PRIu32,
                              validator->heads[i].arrived);
        if (length > 0) used += (size_t)length;
    }
    return path;
}

#define FAIL_MEMBER(validator, format, ...)                       \
    hri_fail(HURRAY_ERR_INTERNAL, "composite member %s: " format, \
             member_path(validator, (validator)->depth, (char[PATH_SIZE]){0}), __VA_ARGS__)

/* Says the last failure again, with the place of the innermost head when it is a member itself. */
static HurrayStatus fail_in_head(const HurrayCompositeValidator *validator, HurrayStatus status) {
    if (validator->depth < 2) return status;
    char message[512], path[PATH_SIZE];
    snprintf(message, sizeof message, "%s", hurray_error_message());
    return hri_fail(status, "composite member %s: %s",
                    member_path(validator, validator->depth - 1, path), message);
}

/* ---- members against their head ---- */

/* Quantized members decode to real numbers, which any of the usual float types holds by
 * declaration. */
static bool accepts_quantized(uint8_t type_tag) {
    return type_tag == HURRAY_TYPE_FLOAT16 || type_tag == HURRAY_TYPE_BFLOAT16 ||
           type_tag == HURRAY_TYPE_FLOAT32 || type_tag == HURRAY_TYPE_FLOAT64;
}

static HurrayStatus check_type(const HurrayCompositeValidator *validator, const OpenHead *head,
                               const HurrayDescriptorFields *member) {
    if (member->quantization != NULL) {
        if (accepts_quantized(head->type_tag)) return HURRAY_OK;
        return FAIL_MEMBER(validator,
                           "it is quantized, so that its values are float32, under a head of type "
                           "tag 0x%02X; expected float16, bfloat16, float32 or float64",
                           head->type_tag);
    }
    if (member->type_tag != head->type_tag) {
        return FAIL_MEMBER(validator, "type tag 0x%02X under a head of type tag 0x%02X",
                           member->type_tag, head->type_tag);
    }
    if (member->extension_type != NULL &&
        !hri_extension_type_equal(member->extension_type, &head->extension_type)) {
        return FAIL_MEMBER(validator,
                           "private type 0x%02X is described differently from that of the head",
                           member->type_tag);
    }
    return HURRAY_OK;
}

/* Partition and overlay: where the member lies in the head. */
static HurrayStatus check_box(const HurrayCompositeValidator *validator, const OpenHead *head,
                              const HurrayDescriptorFields *member) {
    if (member->shard == NULL) {
        return FAIL_MEMBER(validator, "no shard section; expected one under %s",
                           head->rule == HURRAY_RULE_PARTITION ? "a partition" : "an overlay");
    }
    if (member->rank != head->rank) {
        return FAIL_MEMBER(validator, "rank %" PRIu32 " under a head of rank %" PRIu32,
                           member->rank, head->rank);
    }
    for (uint32_t k = 0; k < head->rank; k++) {
        if (member->shard->parent_shape[k] != head->shape[k]) {
            return FAIL_MEMBER(validator,
                               "parent_shape[%" PRIu32 "] is %" PRIu64
                               ", the extent of the head %" PRIu64,
                               k, member->shard->parent_shape[k], head->shape[k]);
        }
        uint64_t low = member->shard->shard_offset[k];
        if (low > head->shape[k] || member->shape[k] > head->shape[k] - low) {
            return FAIL_MEMBER(validator,
                               "it reaches from %" PRIu64 " over %" PRIu64
                               " elements of dimension %" PRIu32 ", whose extent is %" PRIu64,
                               low, member->shape[k], k, head->shape[k]);
        }
    }
    return check_type(validator, head, member);
}

/* Overlay: the first is the base, over the whole head; all others correct it. */
static HurrayStatus check_role(const HurrayCompositeValidator *validator, const OpenHead *head,
                               const HurrayDescriptorFields *member) {
    if (member->member == NULL) {
        return FAIL_MEMBER(validator, "%s; expected a role under an overlay",
                           member->layout.tag == HURRAY_LAYOUT_COMPOSITE
                               ? "a composite head cannot have a role"
                               : "no composite member section");
    }
    uint8_t expected = head->arrived == 0 ? HURRAY_ROLE_BASE : HURRAY_ROLE_CORRECTION;
    if (member->member->role != expected) {
        return FAIL_MEMBER(validator, "member_role %u; expected %u (%s)", member->member->role,
                           expected, expected == HURRAY_ROLE_BASE ? "base" : "correction");
    }
    for (uint32_t k = 0; head->arrived == 0 && k < head->rank; k++) {
        if (member->shard->shard_offset[k] != 0 || member->shape[k] != head->shape[k]) {
            return FAIL_MEMBER(validator,
                               "the base covers %" PRIu64 " … %" PRIu64 " of dimension %" PRIu32
                               "; expected all %" PRIu64,
                               member->shard->shard_offset[k],
                               member->shard->shard_offset[k] + member->shape[k], k,
                               head->shape[k]);
        }
    }
    return HURRAY_OK;
}

static HurrayStatus check_member(const HurrayCompositeValidator *validator, const OpenHead *head,
                                 const HurrayDescriptorFields *member) {
    bool placed = head->rule == HURRAY_RULE_PARTITION || head->rule == HURRAY_RULE_OVERLAY;
    HurrayStatus status = placed ? check_box(validator, head, member) : HURRAY_OK;
    if (status != HURRAY_OK) return status;
    if (head->rule == HURRAY_RULE_OVERLAY) return check_role(validator, head, member);
    if (member->member != NULL && (placed || head->rule == HURRAY_RULE_GROUP)) {
        return FAIL_MEMBER(validator, "a composite member section (role %u) under a %s",
                           member->member->role, placed ? "partition" : "group");
    }
    return HURRAY_OK;
}

/* ---- boxes of a partition ---- */

/* Room for one more box, doubling; what arrived bounds what is allocated. */
static HurrayStatus grow(OpenHead *head) {
    if (head->arrived < head->capacity) return HURRAY_OK;
    size_t box = head->rank * sizeof(uint64_t);
    if (head->capacity > SIZE_MAX / 2 / box) return hri_fail_memory(UINT64_MAX);
    size_t capacity = head->capacity == 0 ? 16 : 2 * head->capacity;
    uint64_t *offsets = realloc(head->offsets, capacity * box);
    if (offsets == NULL) return hri_fail_memory(capacity * box);
    head->offsets = offsets;
    uint64_t *shapes = realloc(head->shapes, capacity * box);
    if (shapes == NULL) return hri_fail_memory(capacity * box);
    head->shapes = shapes;
    head->capacity = capacity;
    return HURRAY_OK;
}

static HurrayStatus keep_box(OpenHead *head, const HurrayDescriptorFields *member) {
    if (head->rank == 0) return HURRAY_OK; /* counting is enough */
    HurrayStatus status = grow(head);
    if (status != HURRAY_OK) return status;
    size_t at = (size_t)head->arrived * head->rank, bytes = head->rank * sizeof(uint64_t);
    memcpy(head->offsets + at, member->shard->shard_offset, bytes);
    memcpy(head->shapes + at, member->shape, bytes);
    return HURRAY_OK;
}

/* Whether an empty box lies inside another: along each dimension it begins and ends within, and
 * where it has no extent, not at the edge. That other one cannot be empty. */
static bool lies_inside(const OpenHead *head, size_t empty, size_t other) {
    for (uint32_t k = 0; k < head->rank; k++) {
        uint64_t low = head->offsets[empty * head->rank + k];
        uint64_t end = low + head->shapes[empty * head->rank + k];
        uint64_t other_low = head->offsets[other * head->rank + k];
        uint64_t other_end = other_low + head->shapes[other * head->rank + k];
        if (low < other_low || end > other_end) return false;
        if (low == end && (low == other_low || end == other_end)) return false;
    }
    return true;
}

/* That no empty box lies inside another, where the boxes are a partition: the other one would be
 * the only one that holds the place where the empty one begins. */
static HurrayStatus check_empty_box(const OpenHead *head, const HurrayPartitionIndex *index,
                                    size_t empty) {
    uint64_t other;
    const uint64_t *low = head->offsets + empty * head->rank;
    if (hurray_partition_find(index, low, &other, NULL) != HURRAY_OK) return HURRAY_OK;
    if (!lies_inside(head, empty, (size_t)other)) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "partition: member %zu is empty and lies inside member %" PRIu64, empty, other);
}

static HurrayStatus check_empty_boxes(const OpenHead *head, const HurrayBoxes *boxes) {
    HurrayPartitionIndex *index = NULL;
    HurrayStatus status = HURRAY_OK;
    for (size_t i = 0; status == HURRAY_OK && i < head->arrived; i++) {
        if (!hurray_shape_is_empty(head->shapes + i * head->rank, head->rank)) continue;
        if (index == NULL) status = hurray_partition_index_create(boxes, &index);
        if (status == HURRAY_OK) status = check_empty_box(head, index, i);
    }
    hurray_partition_index_destroy(&index);
    return status;
}

/* ---- opening and closing ---- */

static HurrayStatus open_head(HurrayCompositeValidator *validator,
                              const HurrayDescriptorFields *fields) {
    if (validator->depth >= validator->options.max_depth) {
        HurrayStatus status =
            hri_fail(HURRAY_ERR_INTERNAL, "composites nest deeper than %" PRIu32 " levels",
                     validator->options.max_depth);
        return fail_in_head(validator, status);
    }
    OpenHead *head = &validator->heads[validator->depth++];
    *head = (OpenHead){
        .rule = fields->layout.composite.composition_rule,
        .member_count = fields->layout.composite.member_count,
        .type_tag = fields->type_tag,
        .rank = fields->rank,
    };
    if (fields->extension_type != NULL) head->extension_type = *fields->extension_type;
    if (fields->rank != 0) {
        memcpy(head->shape, fields->shape, (size_t)fields->rank * sizeof(uint64_t));
    }
    return HURRAY_OK;
}

/* What can only be said when all members are there. */
static HurrayStatus check_complete(const HurrayCompositeValidator *validator,
                                   const OpenHead *head) {
    if (head->rule == HURRAY_RULE_OVERLAY && head->arrived == 0) {
        return hri_fail(HURRAY_ERR_INTERNAL,
                        "an overlay without members; expected at least a base");
    }
    if (head->rule != HURRAY_RULE_PARTITION) return HURRAY_OK;
    HurrayBoxes boxes = {head->rank, head->arrived, head->offsets, head->shapes};
    HurrayStatus status = hurray_partition_check(&boxes, head->shape);
    if (status == HURRAY_OK && validator->options.as_writer && head->rank != 0) {
        status = check_empty_boxes(head, &boxes);
    }
    return status;
}

/* Closes every head that has all its members, from the innermost outward. */
static HurrayStatus close_complete(HurrayCompositeValidator *validator) {
    while (validator->depth != 0) {
        OpenHead *head = &validator->heads[validator->depth - 1];
        if (head->arrived < head->member_count) return HURRAY_OK;
        HurrayStatus status = check_complete(validator, head);
        if (status != HURRAY_OK) return fail_in_head(validator, status);
        close_head(validator);
        if (validator->depth != 0) validator->heads[validator->depth - 1].arrived++;
    }
    return HURRAY_OK;
}

static HurrayStatus push(HurrayCompositeValidator *validator,
                         const HurrayDescriptorFields *fields) {
    HurrayStatus status = HURRAY_OK;
    if (fields->rank > HURRAY_MAX_RANK) { /* the least of validity: there is room for no more */
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "rank %" PRIu32 " is greater than %u",
                        fields->rank, HURRAY_MAX_RANK);
    }
    OpenHead *parent = validator->depth == 0 ? NULL : &validator->heads[validator->depth - 1];
    if (parent != NULL) status = check_member(validator, parent, fields);
    if (status == HURRAY_OK && parent != NULL && parent->rule == HURRAY_RULE_PARTITION) {
        status = keep_box(parent, fields);
    }
    if (status != HURRAY_OK) return status;
    if (fields->layout.tag == HURRAY_LAYOUT_COMPOSITE) {
        status = open_head(validator, fields); /* the parent counts it when it is closed */
    } else if (parent != NULL) {
        parent->arrived++;
    }
    return status == HURRAY_OK ? close_complete(validator) : status;
}

static HurrayStatus check_not_failed(const HurrayCompositeValidator *validator) {
    if (!validator->failed) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                    "the validator has refused a member; reset it before the next item");
}

HurrayStatus hurray_composite_validator_push(HurrayCompositeValidator *validator,
                                             const HurrayDescriptorFields *fields,
                                             bool *out_complete) {
    if (validator == NULL || fields == NULL || out_complete == NULL) {
        return hri_fail_null(validator == NULL ? "validator"
                             : fields == NULL  ? "fields"
                                               : "out_complete");
    }
    HurrayStatus status = check_not_failed(validator);
    if (status == HURRAY_OK) status = push(validator, fields);
    if (status != HURRAY_OK) {
        validator->failed = true;
        return status;
    }
    *out_complete = validator->depth == 0;
    return HURRAY_OK;
}

HurrayStatus hurray_composite_validator_finish(const HurrayCompositeValidator *validator) {
    if (validator == NULL) return hri_fail_null("validator");
    HurrayStatus status = check_not_failed(validator);
    if (status != HURRAY_OK || validator->depth == 0) return status;
    const OpenHead *head = &validator->heads[validator->depth - 1];
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "the input is torn: %" PRIu32 " of %" PRIu32
                    " members of a composite have arrived (%" PRIu32 " heads are open)",
                    head->arrived, head->member_count, validator->depth);
}
