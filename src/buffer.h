/* What the library may do to a buffer that callers may not. */
#ifndef HURRAY_SRC_BUFFER_H
#define HURRAY_SRC_BUFFER_H

#include <hurray/buffer.h>

/* Undoes hurray_buffer_create: frees an unshared buffer without calling its release callback, so
 * that the memory is the caller's again. */
void hri_buffer_abandon(HurrayBuffer *buffer);

/*
 * A buffer over memory that came from `allocator` (NULL: the default one), which was asked for
 * `allocated` bytes and gets it back with the last reference. No data: nothing is given back. On
 * failure the memory is still the caller's.
 */
HurrayStatus hri_buffer_take_over(const HurrayBufferInfo *info, const HurrayAllocator *allocator,
                                  size_t allocated, HurrayBuffer **out);

#endif
