/*
 * How a descriptor is held in memory: the public fields, the sections they point to, and an arena
 * with the arrays behind them, all in one block. Tensors embed the same struct.
 */
#ifndef HURRAY_SRC_DESCRIPTOR_H
#define HURRAY_SRC_DESCRIPTOR_H

#include <hurray/descriptor.h>

#include "arena.h"

struct HurrayDescriptor {
    HurrayDescriptorFields fields; /* points into the rest of this struct and into the arena */
    HurrayQuantization quantization;
    HurrayShard shard;
    HurrayStatistics statistics;
    HurrayExtensionType extension_type;
    HurrayCompositeMember member;
};

/* Bytes of arena that a deep copy of valid fields takes. */
size_t hri_descriptor_footprint(const HurrayDescriptorFields *fields);

/* Makes `out` a deep copy of valid fields, with arrays in the arena. */
void hri_descriptor_copy(const HurrayDescriptorFields *fields, Arena *arena,
                         struct HurrayDescriptor *out);

#endif
