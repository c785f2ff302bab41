/*
 * What a descriptor says about one buffer (spec 1.5): sizes and promises, no address. Zero tags are
 * a buffer on the CPU whose bytes may be read at once.
 */
#ifndef HURRAY_BUFFER_HANDLE_H
#define HURRAY_BUFFER_HANDLE_H

#include <stdint.h>

#include "status.h"

HURRAY_BEGIN_DECLS

typedef struct HurrayBufferHandle {
    /* At least hurray_descriptor_required_bytes. 0: an empty buffer, whose pointer may be NULL. */
    uint64_t byte_size;
    uint32_t alignment;   /* bytes, a power of two; at least 64 unless the buffer is empty */
    uint8_t device_tag;   /* HURRAY_DEVICE_… */
    uint8_t sync_mode;    /* HURRAY_SYNC_…; producer_synced on the CPU */
    uint8_t memory_class; /* HURRAY_MEMORY_… */
} HurrayBufferHandle;

/*
 * Checks one handle by itself: alignment, tags, the device/memory-class pair, sync mode.
 * HURRAY_ERR_INVALID_LAYOUT (alignment), _INVALID_TYPE (tags), _INVALID_SYNC_MODE.
 */
HURRAY_API HurrayStatus hurray_buffer_handle_check(const HurrayBufferHandle *handle);

HURRAY_END_DECLS

#endif
