/*
 * Where the streams of Python come from and go to: a path, an object with fileno(), or memory. The GIL
 * is not held while waiting, signal handlers run, and a reader that waits is woken when another thread
 * closes it.
 */
#ifndef HURRAY_PYTHON_TRANSPORT_H
#define HURRAY_PYTHON_TRANSPORT_H

#include "core.h"

#include <stdatomic.h>
#include <sys/types.h>

typedef struct Transport {
    HurrayOpenFile file; /* descriptor -1: memory, or closed */
    int64_t offset; /* in a regular file that somebody else has open; -1: that of the descriptor */
    bool waits;     /* reading may take long: it is no regular file */
    int wake[2];    /* a pipe that ends the wait of a reader; -1: none */
    _Atomic(pid_t) wake_process; /* that made it; 0: none has waited yet */
    size_t unattended;           /* bytes read since signals were looked at */
    PyThreadState *saved;        /* while the GIL is released; NULL while it is held */
    HurrayMemoryFile memory;     /* of a writer into memory */
    Py_buffer view;  /* of a reader: all there is, or what comes before the file; obj NULL: none */
    size_t position; /* in it */
    PyObject *path;  /* as given, for messages; NULL */
    bool to_memory;
    _Atomic(bool) closed;         /* asked for, perhaps while another thread is in an operation */
    PyThread_type_lock lock;      /* one operation at a time */
    _Atomic(unsigned long) owner; /* the thread that is in one; 0: none */
} Transport;

/* Opens `object` for reading: a path, an object with fileno(), or bytes-like. False with TypeError for
 * other things, FileError for what the system refuses. The transport must not move afterwards. */
bool transport_open_for_reading(CoreState *state, PyObject *object, Transport *transport);
/* The same for writing; NULL: into memory. A path is created, and truncated. */
bool transport_open_for_writing(CoreState *state, PyObject *object, Transport *transport);
/* Closes the descriptor of a writer, whose last error may only show now; keeps memory. */
bool transport_close_file(CoreState *state, Transport *transport);
/* Closes and frees what there is, but what other threads may be waiting with. */
void transport_release(Transport *transport);
/* All of it; fine when nothing was opened (TRANSPORT_CLOSED). */
void transport_close(Transport *transport);

#define TRANSPORT_CLOSED {.file = {.descriptor = -1}, .offset = -1, .wake = {-1, -1}}

HurraySource transport_source(Transport *transport);
HurraySink transport_sink(Transport *transport);

/* Takes the GIL back, which a source has let go of when it had to wait: to be called whenever a function
 * that reads has returned, before anything of Python is touched. */
void transport_attach(Transport *transport);

/* Begins an operation; waits, without the GIL, until no other thread is in one. False with
 * RuntimeError when this thread is: in a signal handler that ran while it was waiting; and with what a
 * signal handler raised. */
bool transport_lock(Transport *transport);
void transport_unlock(Transport *transport);
/* The same without waiting; false when there is an operation. */
bool transport_try_lock(Transport *transport);
/* Ends the wait of a thread that reads: it fails with HURRAY_ERR_CLOSED. */
void transport_interrupt(Transport *transport);

#endif
