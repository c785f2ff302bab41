/*
 * What a descriptor says (spec 1): a struct to fill or to read, put together from its parts.
 * descriptor.h encodes, decodes and checks it.
 */
#ifndef HURRAY_DESCRIPTOR_FIELDS_H
#define HURRAY_DESCRIPTOR_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "buffer_handle.h"
#include "element_type.h"
#include "layout.h"
#include "quantization.h"
#include "sections.h"
#include "shape.h"

HURRAY_BEGIN_DECLS

#define HURRAY_MAX_BUFFERS 255u

/* A descriptor in the open. Zero and NULL mean "not there"; every pointer is borrowed. */
typedef struct HurrayDescriptorFields {
    uint8_t type_tag;      /* HURRAY_TYPE_…, of the stored elements */
    uint32_t rank;         /* 0 … 64 */
    const uint64_t *shape; /* u64[rank]; HURRAY_DYNAMIC where unknown */
    uint64_t byte_offset;  /* of element [0, …, 0] in buffer 0 */
    HurrayLayout layout;
    uint32_t buffer_count; /* 1 … 255; 0 for the head of a composite */
    const HurrayBufferHandle *buffers;
    const HurrayQuantization *quantization;
    const HurrayShard *shard;
    const HurrayStatistics *statistics;
    const HurrayExtensionType *extension_type; /* exactly beside a private type_tag */
    const HurrayCompositeMember *member;
    bool permissive; /* came from a permissive reader: tags that nobody knows are carried */
} HurrayDescriptorFields;

HURRAY_END_DECLS

#endif
