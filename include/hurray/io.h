/*
 * Where bytes come from and go to: the only place where the containers touch the system.
 *
 * File and stream codecs are written against these callbacks; what is behind them, a descriptor of
 * an open file, a socket, memory or an interpreter, they do not know. Each function has an
 * implementation for descriptors and for memory here.
 */
#ifndef HURRAY_IO_H
#define HURRAY_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sparse.h"
#include "status.h"

HURRAY_BEGIN_DECLS

/* Writes all `count` pieces, in order, or fails. Pieces may be empty. */
typedef struct HurraySink {
    HurrayStatus (*write)(const HurrayBytes *pieces, uint32_t count, void *context);
    void *context;
} HurraySink;

/* Reads 1 … `size` bytes (size > 0), as many as are there, waiting only for the first; 0: the end. */
typedef struct HurraySource {
    HurrayStatus (*read)(uint8_t *bytes, size_t size, size_t *out_read, void *context);
    void *context;
} HurraySource;

/* Bytes that can be read anywhere. `read_at` fills all of `size` bytes from `offset`, within
 * `size` of the whole, or fails; it may be called on several threads when `concurrent`. */
typedef struct HurrayRandomAccess {
    uint64_t size;
    HurrayStatus (*read_at)(uint64_t offset, uint8_t *bytes, size_t size, void *context);
    void *context;
    bool concurrent;
} HurrayRandomAccess;

/*
 * A descriptor of an open file, as POSIX read and write take it. EINTR, EAGAIN (waited for with
 * poll), short reads and writes and limits on the number of pieces are handled. `interrupted`, which
 * may be NULL, is called with `context` after EINTR and between the calls of a long write, 256 MiB
 * each at most: false gives up with HURRAY_ERR_INTERRUPTED.
 * HURRAY_ERR_IO with the errno; the message says what was being done, "write to descriptor 5".
 * The descriptor stays the caller's.
 */
typedef struct HurrayOpenFile {
    int descriptor;
    bool (*interrupted)(void *context);
    void *context;
} HurrayOpenFile;

HURRAY_API HurrayStatus hurray_open_file_write(const HurrayOpenFile *file,
                                               const HurrayBytes *pieces, uint32_t count);
HURRAY_API HurrayStatus hurray_open_file_read(const HurrayOpenFile *file, uint8_t *bytes,
                                              size_t size, size_t *out_read);
HURRAY_API HurrayStatus hurray_open_file_read_at(const HurrayOpenFile *file, uint64_t offset,
                                                 uint8_t *bytes, size_t size);
/* The same as callbacks; `file` must outlive them. */
HURRAY_API HurraySink hurray_open_file_sink(HurrayOpenFile *file);
HURRAY_API HurraySource hurray_open_file_source(HurrayOpenFile *file);

/* A sink that keeps what is written; grows by doubling. Zero it first; free `bytes` with
 * hurray_aligned_free. */
typedef struct HurrayMemoryFile {
    uint8_t *bytes; /* 64-aligned */
    size_t size;
    size_t capacity;
} HurrayMemoryFile;

HURRAY_API HurraySink hurray_memory_sink(HurrayMemoryFile *file);

HURRAY_END_DECLS

#endif
