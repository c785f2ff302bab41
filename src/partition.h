/* The check of a partition with its effort in the open, for tests. */
#ifndef HURRAY_SRC_PARTITION_H
#define HURRAY_SRC_PARTITION_H

#include <hurray/composite.h>

/* How much work goes into certainty, and into saying what is wrong. */
typedef struct PartitionEffort {
    uint64_t events; /* sides of boxes sorted, before random measures decide */
    uint64_t pairs;  /* of boxes compared, before a fault is named without its place */
} PartitionEffort;

/* hurray_partition_check with another effort than its own. */
HurrayStatus hri_partition_check(const HurrayBoxes *boxes, const uint64_t *shape,
                                 PartitionEffort effort);

#endif
