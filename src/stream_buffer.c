/* Memory for a buffer whose bytes are still arriving (stream_buffer.h). */
#include "stream_buffer.h"

#include <string.h>

#include "buffer.h"
#include "checked.h"
#include "fail.h"

/* The alignment that spec 5 asks for. */
static uint32_t alignment_of(uint64_t size) {
    return size < HURRAY_PAGE_ALIGNMENT ? HURRAY_MIN_BUFFER_ALIGNMENT : HURRAY_PAGE_ALIGNMENT;
}

/* Whoever brought an allocator may not have a way to resize. */
static uint8_t *resize(const ArrivingBuffer *arriving, const HurrayAllocator *allocator,
                       size_t capacity) {
    uint32_t alignment = alignment_of(arriving->size);
    if (allocator == NULL) return hurray_aligned_resize(arriving->data, capacity, alignment);
    uint8_t *data = allocator->allocate(capacity, alignment, false, allocator->context);
    if (data == NULL || arriving->data == NULL) return data;
    memcpy(data, arriving->data, arriving->filled);
    allocator->release(arriving->data, arriving->capacity, allocator->context);
    return data;
}

static HurrayStatus grow(ArrivingBuffer *arriving, const HurrayAllocator *allocator) {
    uint64_t wanted = HRI_TRUSTED_BUFFER_SIZE;
    size_t capacity;
    if (arriving->capacity != 0 && !checked_mul_u64(arriving->capacity, 2, &wanted)) {
        wanted = UINT64_MAX;
    }
    if (wanted > arriving->size) wanted = arriving->size;
    if (!checked_size(wanted, &capacity)) return hri_fail_memory(wanted);
    uint8_t *data = resize(arriving, allocator, capacity);
    if (data == NULL) return hri_fail_memory(wanted);
    arriving->data = data;
    arriving->capacity = capacity;
    return HURRAY_OK;
}

HurrayStatus hri_arriving_space(ArrivingBuffer *arriving, const HurrayAllocator *allocator,
                                uint8_t **out, size_t *out_size) {
    if (arriving->filled == arriving->capacity) {
        HurrayStatus status = grow(arriving, allocator);
        if (status != HURRAY_OK) return status;
    }
    *out = arriving->data + arriving->filled;
    *out_size = arriving->capacity - arriving->filled;
    return HURRAY_OK;
}

HurrayStatus hri_arriving_finish(ArrivingBuffer *arriving, const HurrayAllocator *allocator,
                                 uint32_t empty_alignment, HurrayBuffer **out) {
    HurrayBufferInfo info = {
        .data = arriving->data,
        .byte_size = arriving->size,
        .alignment = arriving->size == 0 ? empty_alignment : alignment_of(arriving->size),
    };
    HurrayStatus status = hri_buffer_take_over(&info, allocator, arriving->capacity, out);
    if (status != HURRAY_OK) return status;
    *arriving = (ArrivingBuffer){0};
    return HURRAY_OK;
}

void hri_arriving_discard(ArrivingBuffer *arriving, const HurrayAllocator *allocator) {
    if (arriving->data != NULL && allocator != NULL) {
        allocator->release(arriving->data, arriving->capacity, allocator->context);
    } else {
        hurray_aligned_free(arriving->data);
    }
    *arriving = (ArrivingBuffer){0};
}
