/* Memory with an owner, shared by a reference count (include/hurray/buffer.h, spec 7.2). */
#include "buffer.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "fail.h"
#include "references.h"

/* Alone in its block, or an element of an array of buffers that live and die together: then the
 * first has what concerns all of them, and the others' release to references are not used. */
struct HurrayBuffer {
    HurrayBufferInfo info;
    HurrayBuffer *first; /* of the array; itself when it is alone */
    HurrayReleaseCallback release;
    void *context;
    atomic_size_t references;
};

HurrayBufferHandle hurray_buffer_handle(const HurrayBuffer *buffer) {
    if (buffer == NULL) return (HurrayBufferHandle){0};
    const HurrayBufferInfo *info = &buffer->info;
    return (HurrayBufferHandle){
        .byte_size = info->byte_size,
        .alignment = info->alignment,
        .device_tag = info->device.tag,
        .sync_mode = info->sync_mode,
        .memory_class = info->device.memory_class,
    };
}

/* A real address must keep what is promised about it; that of another device is not looked at. */
static HurrayStatus check_address(const HurrayBufferInfo *info) {
    if (info->data == NULL && info->byte_size != 0) {
        return hri_fail(HURRAY_ERR_NULL_POINTER, "data is NULL for a buffer of %" PRIu64 " bytes",
                        info->byte_size);
    }
    bool on_host =
        info->device.tag == HURRAY_DEVICE_CPU || (info->flags & HURRAY_BUFFER_STAGED_ON_HOST) != 0;
    if (on_host && ((uintptr_t)info->data & (info->alignment - 1)) != 0) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "alignment %" PRIu32 " is declared, but the address is %" PRIu32
                        "-byte aligned",
                        info->alignment, hurray_measured_alignment(info->data));
    }
    return HURRAY_OK;
}

HurrayStatus hurray_buffer_create(const HurrayBufferInfo *info, HurrayReleaseCallback release,
                                  void *context, HurrayBuffer **out) {
    if (info == NULL || out == NULL) return hri_fail_null(info == NULL ? "info" : "out");
    HurrayBuffer candidate = {.info = *info};
    HurrayBufferHandle handle = hurray_buffer_handle(&candidate);
    HurrayStatus status = hurray_buffer_handle_check(&handle);
    if (status == HURRAY_OK) status = check_address(info);
    if (status != HURRAY_OK) return status;

    HurrayBuffer *buffer = malloc(sizeof *buffer);
    if (buffer == NULL) return hri_fail_memory(sizeof *buffer);
    buffer->info = *info;
    buffer->first = buffer;
    buffer->release = release;
    buffer->context = context;
    atomic_init(&buffer->references, 1);
    *out = buffer;
    return HURRAY_OK;
}

HurrayStatus hri_buffers_create(const HurrayBufferInfo *infos, uint32_t count,
                                HurrayReleaseCallback release, const void *context,
                                size_t context_size, HurrayBuffer **out) {
    for (uint32_t i = 0; i < count; i++) {
        HurrayStatus status = check_address(&infos[i]);
        if (status != HURRAY_OK) return status;
    }
    size_t size = count * sizeof(HurrayBuffer) + context_size;
    HurrayBuffer *buffers = malloc(size);
    if (buffers == NULL) return hri_fail_memory(size);
    for (uint32_t i = 0; i < count; i++) {
        buffers[i].info = infos[i];
        buffers[i].first = buffers;
        out[i] = &buffers[i];
    }
    buffers->release = release;
    buffers->context = memcpy(buffers + count, context, context_size);
    atomic_init(&buffers->references, count);
    return HURRAY_OK;
}

/* What the release of memory from a caller's allocator needs: the allocator by value, and the size it
 * was asked for. */
typedef struct Allocation {
    HurrayAllocator allocator;
    size_t size;
} Allocation;

static void release_allocation(void *data, void *context) {
    Allocation *allocation = context;
    allocation->allocator.release(data, allocation->size, allocation->allocator.context);
    free(allocation);
}

static void release_default(void *data, void *context) {
    (void)context;
    hurray_aligned_free(data);
}

HurrayStatus hri_buffer_take_over(const HurrayBufferInfo *info, const HurrayAllocator *allocator,
                                  size_t allocated, HurrayBuffer **out) {
    if (allocator == NULL || info->data == NULL) {
        return hurray_buffer_create(info, release_default, NULL, out);
    }
    Allocation *allocation = malloc(sizeof *allocation);
    if (allocation == NULL) return hri_fail_memory(sizeof *allocation);
    *allocation = (Allocation){*allocator, allocated};
    HurrayStatus status = hurray_buffer_create(info, release_allocation, allocation, out);
    if (status != HURRAY_OK) free(allocation);
    return status;
}

HurrayStatus hurray_buffer_allocate(uint64_t byte_size, bool zeroed,
                                    const HurrayAllocator *allocator, HurrayBuffer **out) {
    if (out == NULL) return hri_fail_null("out");
    size_t size;
    if (!checked_size(byte_size, &size)) return hri_fail_memory(byte_size);
    uint32_t alignment =
        size < HURRAY_PAGE_ALIGNMENT ? HURRAY_MIN_BUFFER_ALIGNMENT : HURRAY_PAGE_ALIGNMENT;
    HurrayBufferInfo info = {.byte_size = byte_size, .alignment = alignment};
    if (size != 0) {
        info.data = allocator == NULL
                        ? hurray_aligned_alloc(size, alignment, zeroed)
                        : allocator->allocate(size, alignment, zeroed, allocator->context);
        if (info.data == NULL) return hri_fail_memory(byte_size);
    }
    HurrayStatus status = hri_buffer_take_over(&info, allocator, size, out);
    if (status != HURRAY_OK && allocator != NULL && size != 0) {
        allocator->release(info.data, size, allocator->context);
    } else if (status != HURRAY_OK) {
        hurray_aligned_free(info.data);
    }
    return status;
}

HurrayBuffer *hurray_buffer_retain(HurrayBuffer *buffer) {
    if (buffer != NULL) {
        atomic_fetch_add_explicit(&buffer->first->references, 1, memory_order_relaxed);
    }
    return buffer;
}

const HurrayBufferInfo *hurray_buffer_info(const HurrayBuffer *buffer) {
    return buffer == NULL ? NULL : &buffer->info;
}

HurrayStatus hurray_buffer_from_ptr(void *data, uint64_t byte_size, uint32_t alignment,
                                    uint8_t device_tag, uint8_t sync_mode, uint8_t memory_class,
                                    HurrayReleaseCallback release, void *release_context,
                                    HurrayBuffer **out) {
    if (data == NULL) return hri_fail_null("data");
    HurrayBufferInfo info = {
        .data = data,
        .byte_size = byte_size,
        .alignment = alignment,
        .device = {device_tag, memory_class, 0},
        .sync_mode = sync_mode,
    };
    return hurray_buffer_create(&info, release, release_context, out);
}

/* Gives back `count` references that the caller has to buffers of one array. */
static void drop(HurrayBuffer *first, size_t count) {
    if (!references_drop(&first->references, count)) return;
    if (first->release != NULL) first->release(first->info.data, first->context);
    free(first);
}

HurrayStatus hurray_buffer_destroy(HurrayBuffer *buffer) {
    if (buffer == NULL) return hri_fail_null("buffer");
    drop(buffer->first, 1);
    return HURRAY_OK;
}

void hri_buffers_drop(HurrayBuffer *const *buffers, uint32_t count) {
    for (uint32_t i = 0; i < count;) {
        HurrayBuffer *first = buffers[i]->first;
        uint32_t begin = i;
        while (++i < count && buffers[i]->first == first) continue;
        drop(first, i - begin);
    }
}

void hri_buffer_abandon(HurrayBuffer *buffer) { free(buffer); }

HurrayStatus hurray_buffer_data_ptr(const HurrayBuffer *buffer, void **out) {
    if (buffer == NULL || out == NULL) return hri_fail_null(out ? "buffer" : "out");
    *out = buffer->info.data;
    return HURRAY_OK;
}

HurrayStatus hurray_buffer_byte_size(const HurrayBuffer *buffer, uint64_t *out) {
    if (buffer == NULL || out == NULL) return hri_fail_null(out ? "buffer" : "out");
    *out = buffer->info.byte_size;
    return HURRAY_OK;
}

HurrayStatus hurray_buffer_alignment(const HurrayBuffer *buffer, uint32_t *out) {
    if (buffer == NULL || out == NULL) return hri_fail_null(out ? "buffer" : "out");
    *out = buffer->info.alignment;
    return HURRAY_OK;
}

HurrayStatus hurray_buffer_device_tag(const HurrayBuffer *buffer, uint8_t *out) {
    if (buffer == NULL || out == NULL) return hri_fail_null(out ? "buffer" : "out");
    *out = buffer->info.device.tag;
    return HURRAY_OK;
}

HurrayStatus hurray_buffer_sync_mode(const HurrayBuffer *buffer, uint8_t *out) {
    if (buffer == NULL || out == NULL) return hri_fail_null(out ? "buffer" : "out");
    *out = buffer->info.sync_mode;
    return HURRAY_OK;
}

HurrayStatus hurray_buffer_memory_class(const HurrayBuffer *buffer, uint8_t *out) {
    if (buffer == NULL || out == NULL) return hri_fail_null(out ? "buffer" : "out");
    *out = buffer->info.device.memory_class;
    return HURRAY_OK;
}

/* ---- handoff ---- */

static HurrayStatus check_mode(const HurrayBuffer *buffer, uint8_t handed_off) {
    if (buffer == NULL) return hri_fail_null("buffer");
    if (buffer->info.sync_mode == handed_off) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_SYNC_MODE_MISMATCH, "handoff as %s of a buffer declared %s",
                    hurray_sync_mode_name(handed_off),
                    hurray_sync_mode_name(buffer->info.sync_mode));
}

static HurrayStatus check_handle(const HurrayBuffer *buffer, const char *name, const void *handle,
                                 uint8_t device_tag) {
    if (handle == NULL) {
        return hri_fail(HURRAY_ERR_SYNC_MODE_MISMATCH, "%s is NULL in the handoff", name);
    }
    if (device_tag != buffer->info.device.tag) {
        return hri_fail(HURRAY_ERR_SYNC_MODE_MISMATCH,
                        "%s is of device 0x%02X, the buffer of 0x%02X", name, device_tag,
                        buffer->info.device.tag);
    }
    return HURRAY_OK;
}

HurrayStatus hurray_buffer_handoff_producer_synced(const HurrayBuffer *buffer) {
    return check_mode(buffer, HURRAY_SYNC_PRODUCER_SYNCED);
}

HurrayStatus hurray_buffer_handoff_event(const HurrayBuffer *buffer,
                                         const HurraySyncEventPayload *payload) {
    if (payload == NULL) return hri_fail_null("payload");
    HurrayStatus status = check_mode(buffer, HURRAY_SYNC_EVENT);
    if (status != HURRAY_OK) return status;
    if (payload->event_release_fn == NULL) {
        return hri_fail(HURRAY_ERR_SYNC_MODE_MISMATCH, "event_release_fn is NULL in the handoff");
    }
    return check_handle(buffer, "sync_handle", payload->sync_handle,
                        payload->sync_handle_device_tag);
}

HurrayStatus hurray_buffer_handoff_consumer_stream(const HurrayBuffer *buffer,
                                                   const HurraySyncConsumerStreamPayload *payload) {
    if (payload == NULL) return hri_fail_null("payload");
    HurrayStatus status = check_mode(buffer, HURRAY_SYNC_CONSUMER_STREAM);
    if (status != HURRAY_OK) return status;
    return check_handle(buffer, "consumer_stream", payload->consumer_stream,
                        payload->consumer_stream_device_tag);
}
