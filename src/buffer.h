/* What the library may do to a buffer that callers may not. */
#ifndef HURRAY_SRC_BUFFER_H
#define HURRAY_SRC_BUFFER_H

#include <hurray/buffer.h>

/* Undoes hurray_buffer_create: frees an unshared buffer without calling its release callback, so
 * that the memory is the caller's again. */
void hri_buffer_abandon(HurrayBuffer *buffer);

#endif
