/* What the library may do to a buffer that callers may not. */
#ifndef HURRAY_SRC_BUFFER_H
#define HURRAY_SRC_BUFFER_H

#include <hurray/buffer.h>

/* Undoes hurray_buffer_create, or given the first of them hri_buffers_create: frees unshared buffers
 * without calling their release callback, so that the memory is the caller's again. */
void hri_buffer_abandon(HurrayBuffer *buffer);

/*
 * Buffers that are released together, in one block, whose handles have been checked: `release` is
 * called once, with the data of the first, when the last reference to any of them is gone. It is
 * given a copy of the `context_size` bytes of `context`, pointers or what needs no greater alignment.
 * Each of `out` is a reference. Fails for addresses as hurray_buffer_create does.
 */
HurrayStatus hri_buffers_create(const HurrayBufferInfo *infos, uint32_t count,
                                HurrayReleaseCallback release, const void *context,
                                size_t context_size, HurrayBuffer **out);

/* hurray_buffer_destroy of each. */
void hri_buffers_drop(HurrayBuffer *const *buffers, uint32_t count);

/*
 * A buffer over memory that came from `allocator` (NULL: the default one), which was asked for
 * `allocated` bytes and gets it back with the last reference. No data: nothing is given back. On
 * failure the memory is still the caller's.
 */
HurrayStatus hri_buffer_take_over(const HurrayBufferInfo *info, const HurrayAllocator *allocator,
                                  size_t allocated, HurrayBuffer **out);

#endif
