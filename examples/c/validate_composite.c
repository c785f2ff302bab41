/*
 * A matrix in four shards, as a partition: checks that the shards cover it, finds the shard that
 * holds an index, and shows how an overlap is refused.
 *
 *     cc validate_composite.c $(pkg-config --cflags --libs hurray) -o validate_composite
 *     ./validate_composite
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <hurray/hurray.h>

/*
 *               4 columns   6 columns
 *             +-----------+------------+
 *      5 rows | 0         | 1          |
 *             +-----------+------------+
 *      3 rows | 2         | 3          |
 *             +-----------+------------+
 */
enum {
    MEMBERS = 4,
    RANK = 2
};
static const uint64_t whole[RANK] = {8, 10};
static const uint64_t offsets[MEMBERS][RANK] = {{0, 0}, {0, 4}, {5, 0}, {5, 4}};
static const uint64_t shapes[MEMBERS][RANK] = {{5, 4}, {5, 6}, {3, 4}, {3, 6}};

static void check(HurrayStatus status, const char *what) {
    if (status == HURRAY_OK) return;
    fprintf(stderr, "validate_composite: %s: %s\n", what, hurray_error_message());
    exit(EXIT_FAILURE);
}

/*
 * Gives the validator the head and its members, in the order of a stream or file; there, each would
 * come from hurray_descriptor_decode. HURRAY_OK when they make up one whole tensor.
 */
static HurrayStatus validate(HurrayCompositeValidator *validator,
                             const uint64_t (*member_offsets)[RANK]) {
    /* The head has the shape of the whole and no bytes of its own. */
    const HurrayDescriptorFields head = {
        .type_tag = HURRAY_TYPE_FLOAT32,
        .rank = RANK,
        .shape = whole,
        .layout = {.tag = HURRAY_LAYOUT_COMPOSITE,
                   .composite = {.composition_rule = HURRAY_RULE_PARTITION,
                                 .member_count = MEMBERS}},
    };
    bool complete;
    HurrayStatus status = hurray_composite_validator_push(validator, &head, &complete);

    for (uint32_t i = 0; i < MEMBERS && status == HURRAY_OK; i++) {
        /* A member is any tensor of that type; its shard section says where it belongs. */
        const HurrayShard shard = {.parent_shape = whole, .shard_offset = member_offsets[i]};
        const HurrayBufferHandle buffer = {.byte_size = shapes[i][0] * shapes[i][1] * 4,
                                           .alignment = HURRAY_MIN_BUFFER_ALIGNMENT};
        const HurrayDescriptorFields member = {
            .type_tag = HURRAY_TYPE_FLOAT32,
            .rank = RANK,
            .shape = shapes[i],
            .layout = {.tag = HURRAY_LAYOUT_ROW_MAJOR},
            .buffer_count = 1,
            .buffers = &buffer,
            .shard = &shard,
        };
        status = hurray_composite_validator_push(validator, &member, &complete);
        if (status == HURRAY_OK) {
            printf("  member %" PRIu32 ": %s\n", i, complete ? "complete" : "more to come");
        }
    }
    if (status != HURRAY_OK) return status;
    return hurray_composite_validator_finish(validator);
}

/* Which member holds the element, and where in it. */
static void find(const HurrayPartitionIndex *partition, uint64_t row, uint64_t column) {
    uint64_t member, local[RANK];
    check(hurray_partition_find(partition, (const uint64_t[]){row, column}, &member, local),
          "find");
    printf("[%" PRIu64 ", %" PRIu64 "] is element [%" PRIu64 ", %" PRIu64 "] of member %" PRIu64
           "\n",
           row, column, local[0], local[1], member);
}

int main(void) {
    HurrayCompositeValidator *validator;
    check(hurray_composite_validator_create(NULL, &validator), "create");

    printf("four shards:\n");
    check(validate(validator, offsets), "validate");

    /* The same boxes again, to be searched. It copies them, and any number of threads may ask. */
    const HurrayBoxes boxes = {
        .rank = RANK, .count = MEMBERS, .offsets = offsets[0], .shapes = shapes[0]};
    HurrayPartitionIndex *partition;
    check(hurray_partition_index_create(&boxes, &partition), "index");
    find(partition, 0, 0);
    find(partition, 4, 9);
    find(partition, 7, 4);
    check(hurray_partition_index_destroy(&partition), "destroy");

    /* One shard a column too far to the left. The validator is used again: after an item that was
     * completed it is ready for the next, after an error it would have to be reset. */
    const uint64_t moved[MEMBERS][RANK] = {{0, 0}, {0, 3}, {5, 0}, {5, 4}};
    printf("an overlap:\n");
    if (validate(validator, moved) == HURRAY_OK) {
        fprintf(stderr, "validate_composite: an overlap was accepted\n");
        return EXIT_FAILURE;
    }
    printf("  refused: %s\n", hurray_error_message());
    check(hurray_composite_validator_destroy(&validator), "destroy");
    return EXIT_SUCCESS;
}
