/*
 * Memory for a buffer whose bytes are still arriving. Its size was declared by someone who may not
 * mean it: up to 64 MiB it is allocated as declared, above that it grows as bytes come, so that it
 * never holds more than about twice of them.
 */
#ifndef HURRAY_SRC_STREAM_BUFFER_H
#define HURRAY_SRC_STREAM_BUFFER_H

#include <hurray/buffer.h>

/* Bytes. */
#define HRI_TRUSTED_BUFFER_SIZE (UINT64_C(64) << 20)

/* Zeroed but for the size, nothing is allocated. */
typedef struct ArrivingBuffer {
    uint64_t size; /* declared, bytes */
    uint8_t *data;
    size_t capacity; /* of data, at most `size` */
    size_t filled;
} ArrivingBuffer;

/* Where the next bytes go, 1 … size - filled of them; there must be some to come. `allocator`, here
 * and below, is the same each time; NULL: the default one. HURRAY_ERR_OUT_OF_MEMORY. */
HurrayStatus hri_arriving_space(ArrivingBuffer *arriving, const HurrayAllocator *allocator,
                                uint8_t **out, size_t *out_size);

/* All are there: makes a buffer on the CPU of them, 64-aligned (4096 from a page up), and forgets
 * them. An empty one has no address, and keeps `empty_alignment`. */
HurrayStatus hri_arriving_finish(ArrivingBuffer *arriving, const HurrayAllocator *allocator,
                                 uint32_t empty_alignment, HurrayBuffer **out);

/* Frees what there is. */
void hri_arriving_discard(ArrivingBuffer *arriving, const HurrayAllocator *allocator);

#endif
