/*
 * Memory with an owner: an address, what a descriptor says about it, and who is told when nobody
 * needs it any more (spec 1.5, 7.2).
 *
 * A buffer is shared by an atomic reference count; the release callback runs exactly once, on the
 * thread that drops the last reference, with no lock held. Device memory is never dereferenced,
 * allocated or copied here: pointers pass through.
 */
#ifndef HURRAY_BUFFER_H
#define HURRAY_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "buffer_handle.h"
#include "device.h"
#include "memory.h"
#include "status.h"

HURRAY_BEGIN_DECLS

typedef struct HurrayBuffer HurrayBuffer;

/* Frees `data`, or tells its owner. `context` is what was given beside the callback. */
typedef void (*HurrayReleaseCallback)(void *data, void *context);

/* HurrayBufferInfo.flags */
enum {
    /* The bytes must not be written through this buffer. */
    HURRAY_BUFFER_READ_ONLY = 1u << 0,
    /* `data` is host memory that stands in for the device named: it can be saved and streamed, but
     * its address must not be handed to anyone as a device pointer. */
    HURRAY_BUFFER_STAGED_ON_HOST = 1u << 1
};

/* All there is to know about a buffer. `alignment` is a promise about `data`. */
typedef struct HurrayBufferInfo {
    void *data; /* may be NULL when byte_size is 0 */
    uint64_t byte_size;
    uint32_t alignment;
    HurrayDevice device;
    uint8_t sync_mode;
    uint32_t flags;
} HurrayBufferInfo;

/*
 * Takes over memory. On success the buffer owns it: `release`, which may be NULL, is called once
 * with (data, context) when the last reference goes; on failure the caller still owns it. Checks the
 * handle (see hurray_buffer_handle_check) and, for addresses on the CPU or staged there, that `data`
 * has the alignment declared (HURRAY_ERR_INVALID_LAYOUT) and is not NULL with bytes in it
 * (HURRAY_ERR_NULL_POINTER).
 */
HURRAY_API HurrayStatus hurray_buffer_create(const HurrayBufferInfo *info,
                                             HurrayReleaseCallback release, void *context,
                                             HurrayBuffer **out);

/*
 * A buffer of `byte_size` new bytes on the CPU, 64-aligned (4096 from a page up), zero if `zeroed`,
 * from `allocator` (NULL: the default one). An empty buffer has data NULL and alignment 64.
 * HURRAY_ERR_OUT_OF_MEMORY.
 */
HURRAY_API HurrayStatus hurray_buffer_allocate(uint64_t byte_size, bool zeroed,
                                               const HurrayAllocator *allocator,
                                               HurrayBuffer **out);

/* One more reference to the same buffer; returns its argument. NULL stays NULL. */
HURRAY_API HurrayBuffer *hurray_buffer_retain(HurrayBuffer *buffer);

/* What is in it; valid as long as the buffer. NULL for NULL. */
HURRAY_API const HurrayBufferInfo *hurray_buffer_info(const HurrayBuffer *buffer);
/* The part of it that a descriptor states. */
HURRAY_API HurrayBufferHandle hurray_buffer_handle(const HurrayBuffer *buffer);

/*
 * ---- Established functions (spec 7.2) ----
 */

/*
 * Like hurray_buffer_create, field by field, with device id 0 and no flags. NULL data is
 * HURRAY_ERR_NULL_POINTER at every size.
 */
HURRAY_API HurrayStatus hurray_buffer_from_ptr(void *data, uint64_t byte_size, uint32_t alignment,
                                               uint8_t device_tag, uint8_t sync_mode,
                                               uint8_t memory_class, HurrayReleaseCallback release,
                                               void *release_context, HurrayBuffer **out);

/* Drops a reference; the last one calls the release callback. HURRAY_ERR_NULL_POINTER for NULL. */
HURRAY_API HurrayStatus hurray_buffer_destroy(HurrayBuffer *buffer);

HURRAY_API HurrayStatus hurray_buffer_data_ptr(const HurrayBuffer *buffer, void **out);
HURRAY_API HurrayStatus hurray_buffer_byte_size(const HurrayBuffer *buffer, uint64_t *out);
HURRAY_API HurrayStatus hurray_buffer_alignment(const HurrayBuffer *buffer, uint32_t *out);
HURRAY_API HurrayStatus hurray_buffer_device_tag(const HurrayBuffer *buffer, uint8_t *out);
HURRAY_API HurrayStatus hurray_buffer_sync_mode(const HurrayBuffer *buffer, uint8_t *out);
HURRAY_API HurrayStatus hurray_buffer_memory_class(const HurrayBuffer *buffer, uint8_t *out);

/* What comes with a buffer whose sync_mode is event: wait on it, then release it once. */
typedef void (*HurrayEventReleaseFn)(void *event, void *context);
typedef struct HurraySyncEventPayload {
    void *sync_handle;
    uint8_t sync_handle_device_tag;
    HurrayEventReleaseFn event_release_fn;
    void *event_release_context;
} HurraySyncEventPayload;

/* What comes with a buffer whose sync_mode is consumer_stream: the only stream to use it on. */
typedef struct HurraySyncConsumerStreamPayload {
    void *consumer_stream;
    uint8_t consumer_stream_device_tag;
} HurraySyncConsumerStreamPayload;

/*
 * Checks that a handoff fits the buffer's sync mode: same mode, handle not NULL, the buffer's device
 * tag, a release function for the event. HURRAY_ERR_SYNC_MODE_MISMATCH otherwise.
 */
HURRAY_API HurrayStatus hurray_buffer_handoff_producer_synced(const HurrayBuffer *buffer);
HURRAY_API HurrayStatus hurray_buffer_handoff_event(const HurrayBuffer *buffer,
                                                    const HurraySyncEventPayload *payload);
HURRAY_API HurrayStatus hurray_buffer_handoff_consumer_stream(
    const HurrayBuffer *buffer, const HurraySyncConsumerStreamPayload *payload);

HURRAY_END_DECLS

#endif
