/*
 * Hostile sequences of descriptors through the composite validator.
 *
 * The input is a stream (spec 5): descriptors, each followed by the bytes of its buffers. Buffers
 * are stepped over as far as there are bytes, so that sequences can be short. What is read must not
 * depend on more than the sequence: a second validator, which was at fault before, says the same. A
 * partition that was accepted holds each element in one member, wherever it is looked up.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <hurray/composite.h>

#include "fuzz.h"

/* Descriptors of one input; more are not looked at. */
#define MOST 512

typedef struct Sequence {
    HurrayDescriptor *descriptors[MOST];
    size_t count;
} Sequence;

static void read_sequence(const uint8_t *data, size_t size, Sequence *sequence) {
    size_t position = 0;
    const HurrayDecodeOptions options = {.permissive = size % 2 == 1};
    while (position < size && sequence->count < MOST) {
        HurrayDescriptor *descriptor = NULL;
        if (hurray_descriptor_decode_with(data + position, size - position, &options,
                                          &descriptor) != HURRAY_OK) {
            return;
        }
        uint32_t length = 0;
        require(hurray_descriptor_peek_length(data + position, size - position, &length) ==
                HURRAY_OK);
        require(length <= size - position);
        position += length;
        const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
        for (uint32_t i = 0; i < fields->buffer_count; i++) {
            if (fields->buffers[i].byte_size <= size - position) {
                position += (size_t)fields->buffers[i].byte_size;
            }
        }
        sequence->descriptors[sequence->count++] = descriptor;
    }
}

/* How many are taken before one is refused; whether the last of them ended an item. */
static size_t take(HurrayCompositeValidator *validator, const Sequence *sequence,
                   HurrayStatus *status, bool *complete) {
    *status = HURRAY_OK;
    for (size_t i = 0; i < sequence->count; i++) {
        *complete = false;
        *status = hurray_composite_validator_push(
            validator, hurray_descriptor_fields(sequence->descriptors[i]), complete);
        require(hurray_composite_validator_depth(validator) <= HURRAY_MAX_COMPOSITE_DEPTH);
        if (*status != HURRAY_OK) {
            require(*status < 0 && !*complete && hurray_error_message()[0] != '\0');
            return i;
        }
        require(*complete == (hurray_composite_validator_depth(validator) == 0));
    }
    return sequence->count;
}

/* An element of a box, its first or its last, is found in that box alone. */
static void look_up(const HurrayPartitionIndex *index, const HurrayBoxes *boxes, uint64_t box,
                    bool last) {
    const uint64_t *offset = boxes->offsets + box * boxes->rank;
    const uint64_t *extents = boxes->shapes + box * boxes->rank;
    uint64_t at[HURRAY_MAX_RANK], local[HURRAY_MAX_RANK], found = UINT64_MAX;
    if (hurray_shape_is_empty(extents, boxes->rank)) return;
    for (uint32_t k = 0; k < boxes->rank; k++) at[k] = offset[k] + (last ? extents[k] - 1 : 0);
    require(hurray_partition_find(index, at, &found, local) == HURRAY_OK && found == box);
    for (uint32_t k = 0; k < boxes->rank; k++) require(local[k] == at[k] - offset[k]);
}

/* The boxes of the first composite, when it is a partition of tensors: looked at by themselves. */
static void check_first_partition(const Sequence *sequence) {
    if (sequence->count == 0) return;
    const HurrayDescriptorFields *head = hurray_descriptor_fields(sequence->descriptors[0]);
    if (head->layout.tag != HURRAY_LAYOUT_COMPOSITE ||
        head->layout.composite.composition_rule != HURRAY_RULE_PARTITION) {
        return;
    }
    static uint64_t offsets[MOST * HURRAY_MAX_RANK], shapes[MOST * HURRAY_MAX_RANK];
    HurrayBoxes boxes = {head->rank, 0, offsets, shapes};
    for (size_t i = 1; i < sequence->count; i++) {
        const HurrayDescriptorFields *member = hurray_descriptor_fields(sequence->descriptors[i]);
        if (member->rank != head->rank || member->shard == NULL) break;
        for (uint32_t k = 0; k < head->rank; k++) {
            offsets[boxes.count * boxes.rank + k] = member->shard->shard_offset[k];
            shapes[boxes.count * boxes.rank + k] = member->shape[k];
        }
        boxes.count++;
    }
    if (hurray_partition_check(&boxes, head->shape) != HURRAY_OK) {
        require(hurray_error_message()[0] != '\0');
        return;
    }
    HurrayPartitionIndex *index = NULL;
    require(hurray_partition_index_create(&boxes, &index) == HURRAY_OK);
    for (uint64_t box = 0; box < boxes.count; box++) {
        look_up(index, &boxes, box, false);
        look_up(index, &boxes, box, true);
    }
    require(hurray_partition_index_destroy(&index) == HURRAY_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Sequence sequence = {.count = 0};
    read_sequence(data, size, &sequence);

    const HurrayCompositeOptions options = {.max_depth = HURRAY_MAX_COMPOSITE_DEPTH,
                                            .as_writer = size % 4 >= 2};
    HurrayCompositeValidator *validator = NULL, *again = NULL;
    require(hurray_composite_validator_create(&options, &validator) == HURRAY_OK);
    require(hurray_composite_validator_create(&options, &again) == HURRAY_OK);
    HurrayStatus status, status_again, end;
    bool complete = true, complete_again = true;
    const size_t taken = take(validator, &sequence, &status, &complete);
    end = hurray_composite_validator_finish(validator);
    require((end == HURRAY_OK) == (status == HURRAY_OK && complete));

    /* Once more after a reset in the middle of it all. */
    take(again, &sequence, &status_again, &complete_again);
    require(hurray_composite_validator_reset(again) == HURRAY_OK);
    complete_again = true;
    require(take(again, &sequence, &status_again, &complete_again) == taken);
    require(status_again == status && complete_again == complete);
    require(hurray_composite_validator_finish(again) == end);

    check_first_partition(&sequence);
    require(hurray_composite_validator_destroy(&again) == HURRAY_OK);
    require(hurray_composite_validator_destroy(&validator) == HURRAY_OK);
    while (sequence.count > 0) {
        require(hurray_descriptor_destroy(sequence.descriptors[--sequence.count]) == HURRAY_OK);
    }
    return 0;
}
