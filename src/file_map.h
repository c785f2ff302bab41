/* Files by path and descriptor, and their mappings: the system calls behind a file reader. */
#ifndef HURRAY_SRC_FILE_MAP_H
#define HURRAY_SRC_FILE_MAP_H

#include <hurray/buffer.h>
#include <hurray/file_reader.h>

/* Opens for reading; the descriptor is not inherited by programs that are started. */
HurrayStatus hri_file_open(const char *path, int *out_descriptor);
HurrayStatus hri_file_duplicate(int descriptor, int *out_descriptor);
void hri_file_close(int descriptor);
/* Bytes, as of now. */
HurrayStatus hri_file_size(int descriptor, uint64_t *out_size);

/*
 * Maps the first `size` (> 0) bytes, which stay mapped until the buffer is gone, whatever becomes of
 * the descriptor. It is read-only, and flagged so, for HURRAY_FILE_MAP_READ_ONLY and where the system
 * refuses more. NULL in `out`, and success, where the system or this library cannot map at all.
 */
HurrayStatus hri_file_map(int descriptor, uint64_t size, HurrayFileAccess access,
                          HurrayBuffer **out);
/* Has the system read all of a mapping ahead, unless `interrupted` ends it. */
HurrayStatus hri_file_prefetch(const HurrayBuffer *mapping, bool (*interrupted)(void *context),
                               void *context);

#endif
