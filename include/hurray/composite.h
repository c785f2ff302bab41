/*
 * Composites (spec 2.10): a head, whose layout says how its members make up one tensor, followed by
 * the members, each a tensor or a head of its own.
 *
 * The head has the type and shape of the whole, and neither buffers nor byte_offset, quantization
 * or member section. Where a member belongs is said in sections of its own:
 *
 *   partition  each member has a shard section: parent_shape is the shape of the head, and the
 *              boxes cover it exactly, without overlap
 *   overlay    each has a shard and a member section: first the base, which spans the whole, then
 *              corrections in the order in which they apply; no heads
 *   group      any tensors without a member section
 *
 * Members of a partition or overlay have the type of the head; quantized ones go with float16,
 * bfloat16, float32 and float64. Partition and overlay heads have no dynamic dimension.
 *
 * The validator takes descriptors in the order of a stream or file and says, after each, whether
 * the item they belong to is complete:
 *
 *     HurrayCompositeValidator *validator;
 *     hurray_composite_validator_create(NULL, &validator);
 *     while (next_descriptor(&fields)) {
 *         bool complete;
 *         status = hurray_composite_validator_push(validator, fields, &complete);
 *         if (status != HURRAY_OK) … the message says which member breaks which rule
 *     }
 *     status = hurray_composite_validator_finish(validator);    torn in the middle of an item?
 *     hurray_composite_validator_destroy(&validator);
 *
 * Memory grows with what has arrived, never with what a head announces.
 */
#ifndef HURRAY_COMPOSITE_H
#define HURRAY_COMPOSITE_H

#include <stdbool.h>
#include <stdint.h>

#include "descriptor.h"
#include "status.h"

HURRAY_BEGIN_DECLS

/* How deep composites nest: a plain tensor stands at depth 0, its head at 1, and so on. */
#define HURRAY_MAX_COMPOSITE_DEPTH 8u

typedef struct HurrayCompositeOptions {
    uint32_t max_depth; /* 0 … 8 */
    /* What a writer owes beyond what a reader checks: no empty box inside another one. */
    bool as_writer;
} HurrayCompositeOptions;

typedef struct HurrayCompositeValidator HurrayCompositeValidator;

/* Options NULL: a reader, depth 8. HURRAY_ERR_INVALID_ARGUMENT for a greater depth. */
HURRAY_API HurrayStatus hurray_composite_validator_create(const HurrayCompositeOptions *options,
                                                          HurrayCompositeValidator **out);
/* Frees it and nulls the pointer; a pointer to NULL is fine. */
HURRAY_API HurrayStatus hurray_composite_validator_destroy(HurrayCompositeValidator **validator);

/*
 * Takes the next descriptor, which must be valid by itself and need not outlive the call. Outside
 * of an item it begins one: a plain tensor is complete at once, a head opens a composite. Inside,
 * it is the next member of the innermost open head, and is checked against it; a head that has all
 * its members is checked and closed, and so on outward. `out_complete` says whether that ended the
 * item.
 *
 * HURRAY_ERR_INTERNAL names the member (its position in each open head), the rule, what was found
 * and what was expected. After an error the validator is at fault until it is reset: push and
 * finish give HURRAY_ERR_INVALID_ARGUMENT.
 */
HURRAY_API HurrayStatus hurray_composite_validator_push(HurrayCompositeValidator *validator,
                                                        const HurrayDescriptorFields *fields,
                                                        bool *out_complete);

/* The input has ended. HURRAY_ERR_INTERNAL, saying how many members are missing, inside an item. */
HURRAY_API HurrayStatus
hurray_composite_validator_finish(const HurrayCompositeValidator *validator);

/* Forgets everything, as if new. */
HURRAY_API HurrayStatus hurray_composite_validator_reset(HurrayCompositeValidator *validator);

/* The number of heads that are open: 0 outside of an item. */
HURRAY_API uint32_t hurray_composite_validator_depth(const HurrayCompositeValidator *validator);

/* ---- partitions ---- */

/* Boxes within a common shape: box i is offset[i·rank …] with shape[i·rank …]. */
typedef struct HurrayBoxes {
    uint32_t rank;
    uint64_t count;
    const uint64_t *offsets; /* u64[count · rank] */
    const uint64_t *shapes;  /* u64[count · rank] */
} HurrayBoxes;

/*
 * Whether the boxes cover `shape` (u64[rank]) exactly: no element missing, none twice. Empty boxes
 * cover nothing. O(n log n) per dimension for any arrangement, and memory in proportion to n; grids
 * need little more than one dimension's work. An arrangement that is neither a grid nor near to
 * one, of many dimensions and boxes, is accepted by random measures, which err with a probability
 * below 2^-100.
 *
 * HURRAY_ERR_INTERNAL names a box that is out of bounds, an overlapping pair, or how many elements
 * no box covers; where tens of millions of pairs have been compared without finding one, the counts
 * of elements only. HURRAY_ERR_INVALID_LAYOUT for a rank above 64, and a shape that is dynamic or
 * holds 2^64 elements.
 */
HURRAY_API HurrayStatus hurray_partition_check(const HurrayBoxes *boxes, const uint64_t *shape);

/* Finds the member of a partition that holds an index. Immutable: any number of threads may ask. */
typedef struct HurrayPartitionIndex HurrayPartitionIndex;

/* Copies the boxes. O(n log² n). HURRAY_ERR_INTERNAL for a box that reaches 2^64. */
HURRAY_API HurrayStatus hurray_partition_index_create(const HurrayBoxes *boxes,
                                                      HurrayPartitionIndex **out);
HURRAY_API HurrayStatus hurray_partition_index_destroy(HurrayPartitionIndex **index);

/*
 * The box that holds `index` (u64[rank]) and, where `out_local` (u64[rank]) is not NULL, the index
 * within it. HURRAY_ERR_INDEX_OUT_OF_BOUNDS when no box does. O(log n) for grids and whatever
 * straight cuts divide evenly; where boxes overlap, one of them, in up to n steps.
 */
HURRAY_API HurrayStatus hurray_partition_find(const HurrayPartitionIndex *partition,
                                              const uint64_t *index, uint64_t *out_box,
                                              uint64_t *out_local);

HURRAY_END_DECLS

#endif
