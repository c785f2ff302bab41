/*
 * Descriptors of open files and growing memory (include/hurray/io.h), with the system calls of
 * POSIX.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700 /* writev, pread, IOV_MAX, the strerror_r that returns an int */
#endif

#include "io.h"

#include <errno.h>
#include <hurray/memory.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "checked.h"
#include "fail.h"

/* Bytes of one system call. Linux stops a little below 2 GiB by itself; macOS refuses more. Writing
 * to a disk no signal cuts short: this is what one waits for at most. */
#define MAX_CALL_BYTES ((size_t)1 << 28)

/* Pieces of one system call. */
#if defined(IOV_MAX) && IOV_MAX < 256
#define MAX_CALL_PIECES IOV_MAX
#else
#define MAX_CALL_PIECES 256
#endif

const char *hri_reason(int number, char *text) {
    if (strerror_r(number, text, HRI_REASON_SIZE) != 0) {
        snprintf(text, HRI_REASON_SIZE, "errno %d", number);
    }
    return text;
}

HurrayStatus hri_interrupted(bool (*interrupted)(void *context), void *context, const char *what) {
    if (interrupted == NULL || interrupted(context)) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERRUPTED, "%s was interrupted", what);
}

/* ---- waiting and giving up ---- */

static HurrayStatus fail_call(const HurrayOpenFile *file, int number, const char *what) {
    char reason[HRI_REASON_SIZE];
    return hri_fail_io(number, "%s descriptor %d: %s", what, file->descriptor,
                       hri_reason(number, reason));
}

/* Until the descriptor is ready for `events`; also when it never will be, as the call then says. */
static HurrayStatus wait_ready(const HurrayOpenFile *file, short events, const char *what) {
    struct pollfd waiting = {.fd = file->descriptor, .events = events};
    while (poll(&waiting, 1, -1) < 0) {
        if (errno != EINTR && errno != EAGAIN) return fail_call(file, errno, what);
        HurrayStatus status = hri_interrupted(file->interrupted, file->context, what);
        if (status != HURRAY_OK) return status;
    }
    return HURRAY_OK;
}

/* After a call that failed: HURRAY_OK when it is worth another try. */
static HurrayStatus recover(const HurrayOpenFile *file, int number, short events,
                            const char *what) {
    if (number == EINTR) return hri_interrupted(file->interrupted, file->context, what);
    if (number == EAGAIN || number == EWOULDBLOCK) return wait_ready(file, events, what);
    return fail_call(file, number, what);
}

/* ---- writing ---- */

/* How far a gathering write has come: piece `next`, of which `done` bytes are written. */
typedef struct Progress {
    const HurrayBytes *pieces;
    uint32_t count;
    uint32_t next;
    uint64_t done;
} Progress;

/* The pieces of the next call, of at most `room` bytes; how many. */
static int gather(const Progress *progress, struct iovec *call, size_t room) {
    uint64_t done = progress->done;
    int used = 0;
    for (uint32_t i = progress->next; i < progress->count && room > 0; i++, done = 0) {
        uint64_t left = progress->pieces[i].size - done;
        if (left == 0) continue;
        if (used == MAX_CALL_PIECES) break;
        size_t length = left < room ? (size_t)left : room;
        /* writev takes the same struct as readv, and writes through neither. */
        call[used].iov_base = (void *)(uintptr_t)(progress->pieces[i].data + done);
        call[used++].iov_len = length;
        room -= length;
    }
    return used;
}

static void advance(Progress *progress, size_t written) {
    while (written > 0) {
        uint64_t left = progress->pieces[progress->next].size - progress->done;
        if (written < left) {
            progress->done += written;
            return;
        }
        written -= (size_t)left;
        progress->next++;
        progress->done = 0;
    }
}

static HurrayStatus check_pieces(const HurrayBytes *pieces, uint32_t count) {
    if (count != 0 && pieces == NULL) return hri_fail_null("pieces");
    for (uint32_t i = 0; i < count; i++) {
        if (pieces[i].size != 0 && pieces[i].data == NULL) return hri_fail_null("pieces[].data");
    }
    return HURRAY_OK;
}

HurrayStatus hri_open_file_write(const HurrayOpenFile *file, const HurrayBytes *pieces,
                                 uint32_t count, size_t most, HriWritten written) {
    if (file == NULL) return hri_fail_null("file");
    HurrayStatus status = check_pieces(pieces, count);
    if (status != HURRAY_OK) return status;
    struct iovec call[MAX_CALL_PIECES];
    Progress progress = {.pieces = pieces, .count = count};
    int used;
    while ((used = gather(&progress, call, most)) > 0) {
        ssize_t bytes = writev(file->descriptor, call, used);
        if (bytes > 0) {
            advance(&progress, (size_t)bytes);
            if (written.tell != NULL) written.tell((size_t)bytes, written.context);
            /* A signal may have come during the call, cutting it short or not; the next call would
             * not say. */
            if (progress.next < count) {
                status = hri_interrupted(file->interrupted, file->context, "write to");
            }
        } else {
            /* No bytes and no error is nothing that POSIX knows of; trying on might take for ever. */
            status = recover(file, bytes == 0 ? EIO : errno, POLLOUT, "write to");
        }
        if (status != HURRAY_OK) return status;
    }
    return HURRAY_OK;
}

HurrayStatus hurray_open_file_write(const HurrayOpenFile *file, const HurrayBytes *pieces,
                                    uint32_t count) {
    return hri_open_file_write(file, pieces, count, MAX_CALL_BYTES, (HriWritten){NULL, NULL});
}

/* ---- reading ---- */

HurrayStatus hurray_open_file_read(const HurrayOpenFile *file, uint8_t *bytes, size_t size,
                                   size_t *out_read) {
    if (file == NULL) return hri_fail_null("file");
    if (bytes == NULL) return hri_fail_null("bytes");
    if (out_read == NULL) return hri_fail_null("out_read");
    if (size > MAX_CALL_BYTES) size = MAX_CALL_BYTES;
    for (;;) {
        ssize_t length = read(file->descriptor, bytes, size);
        if (length >= 0) {
            *out_read = (size_t)length;
            return HURRAY_OK;
        }
        HurrayStatus status = recover(file, errno, POLLIN, "read from");
        if (status != HURRAY_OK) return status;
    }
}

HurrayStatus hurray_open_file_read_at(const HurrayOpenFile *file, uint64_t offset, uint8_t *bytes,
                                      size_t size) {
    if (file == NULL) return hri_fail_null("file");
    if (size != 0 && bytes == NULL) return hri_fail_null("bytes");
    /* off_t is 64 bits wide everywhere that matters, but need not be. */
    const uint64_t last = sizeof(off_t) < 8 ? INT32_MAX : INT64_MAX;
    if (offset > last || size > last - offset) {
        return hri_fail_io(EOVERFLOW, "read from descriptor %d: no file reaches byte %llu + %zu",
                           file->descriptor, (unsigned long long)offset, size);
    }
    while (size > 0) {
        size_t part = size < MAX_CALL_BYTES ? size : MAX_CALL_BYTES;
        ssize_t length = pread(file->descriptor, bytes, part, (off_t)offset);
        if (length == 0) {
            return hri_fail_io(0, "descriptor %d ends at byte %llu, %zu bytes too early",
                               file->descriptor, (unsigned long long)offset, size);
        }
        if (length < 0) {
            HurrayStatus status = recover(file, errno, POLLIN, "read from");
            if (status != HURRAY_OK) return status;
            continue;
        }
        bytes += length;
        offset += (uint64_t)length;
        size -= (size_t)length;
    }
    return HURRAY_OK;
}

static HurrayStatus sink_write(const HurrayBytes *pieces, uint32_t count, void *context) {
    return hurray_open_file_write(context, pieces, count);
}

static HurrayStatus source_read(uint8_t *bytes, size_t size, size_t *out_read, void *context) {
    return hurray_open_file_read(context, bytes, size, out_read);
}

HurraySink hurray_open_file_sink(HurrayOpenFile *file) {
    return (HurraySink){.write = sink_write, .context = file};
}

HurraySource hurray_open_file_source(HurrayOpenFile *file) {
    return (HurraySource){.read = source_read, .context = file};
}

/* ---- memory ---- */

/* Room for `size` bytes in all, twice what there was if that is more. */
static HurrayStatus grow(HurrayMemoryFile *file, size_t size) {
    if (size <= file->capacity) return HURRAY_OK;
    size_t capacity = file->capacity > SIZE_MAX / 2 ? size : 2 * file->capacity;
    if (capacity < size) capacity = size;
    if (capacity < 4096) capacity = 4096;
    uint8_t *bytes = hurray_aligned_resize(file->bytes, capacity, HURRAY_MIN_BUFFER_ALIGNMENT);
    if (bytes == NULL) return hri_fail_memory(capacity);
    file->bytes = bytes;
    file->capacity = capacity;
    return HURRAY_OK;
}

static HurrayStatus memory_write(const HurrayBytes *pieces, uint32_t count, void *context) {
    HurrayMemoryFile *file = context;
    if (file == NULL) return hri_fail_null("context");
    HurrayStatus status = check_pieces(pieces, count);
    if (status != HURRAY_OK) return status;
    uint64_t total = file->size;
    for (uint32_t i = 0; i < count; i++) {
        if (!checked_add_u64(total, pieces[i].size, &total)) return hri_fail_memory(UINT64_MAX);
    }
    size_t size;
    if (!checked_size(total, &size)) return hri_fail_memory(total);
    status = grow(file, size);
    if (status != HURRAY_OK) return status;
    for (uint32_t i = 0; i < count; i++) {
        if (pieces[i].size == 0) continue;
        memcpy(file->bytes + file->size, pieces[i].data, (size_t)pieces[i].size);
        file->size += (size_t)pieces[i].size;
    }
    return HURRAY_OK;
}

HurraySink hurray_memory_sink(HurrayMemoryFile *file) {
    return (HurraySink){.write = memory_write, .context = file};
}
