/*
 * What files of the container layer share beside <hurray/io.h>: words for an errno, and whether to
 * go on after EINTR.
 */
#ifndef HURRAY_SRC_IO_H
#define HURRAY_SRC_IO_H

#include <hurray/io.h>
#include <stddef.h>

/* Bytes that the system's words for an errno fit in. */
#define HRI_REASON_SIZE 128

/* What errno `number` means, in `text` (HRI_REASON_SIZE bytes); returns it. */
const char *hri_reason(int number, char *text);

/* After EINTR: HURRAY_OK to try again, HURRAY_ERR_INTERRUPTED when the caller wants no more. */
HurrayStatus hri_interrupted(bool (*interrupted)(void *context), void *context, const char *what);

/* Told of each call that has written, in order. `tell` NULL: nobody is. */
typedef struct HriWritten {
    void (*tell)(size_t bytes, void *context);
    void *context;
} HriWritten;

/* As hurray_open_file_write, with at most `most` bytes to a call. */
HurrayStatus hri_open_file_write(const HurrayOpenFile *file, const HurrayBytes *pieces,
                                 uint32_t count, size_t most, HriWritten written);

#endif
