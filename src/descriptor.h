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

/* Bytes that hold most descriptors, for those who have room on the stack. */
#define HRI_USUAL_DESCRIPTOR_SIZE 512u

/*
 * Encodes valid fields, without checking them again, and tells the size. Longer than `capacity`, what
 * is in `bytes` is a part of it only, of no use. HURRAY_ERR_INVALID_LAYOUT for 2^32 bytes or more.
 */
HurrayStatus hri_descriptor_write(const HurrayDescriptorFields *fields, uint8_t *bytes,
                                  size_t capacity, uint64_t *out_size);

/* A descriptor that is decoded to be looked at or copied, on the stack unless it is long. */
typedef struct DescriptorScratch {
    struct HurrayDescriptor descriptor;
    uint64_t arena[128];
    struct HurrayDescriptor *block; /* NULL when it is not needed */
} DescriptorScratch;

/* hurray_descriptor_decode_with into `scratch`; on success `out` is valid until it is freed. */
HurrayStatus hri_descriptor_decode_scratch(const uint8_t *bytes, uintptr_t length,
                                           const HurrayDecodeOptions *options,
                                           DescriptorScratch *scratch,
                                           const HurrayDescriptorFields **out);
void hri_descriptor_scratch_free(DescriptorScratch *scratch);

/* Bytes of arena that a deep copy of valid fields takes. */
size_t hri_descriptor_footprint(const HurrayDescriptorFields *fields);

/* Makes `out` a deep copy of valid fields, with arrays in the arena. */
void hri_descriptor_copy(const HurrayDescriptorFields *fields, Arena *arena,
                         struct HurrayDescriptor *out);

#endif
