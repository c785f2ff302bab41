/* Descriptors, paths and memory behind Python's streams (transport.h, spec 5, 8.13). */
#include "transport.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- errors ---- */

static bool fail_errno(CoreState *state, PyObject *path) {
    PyObject *error =
        path == NULL ? PyObject_CallFunction(state->FileError, "is", errno, strerror(errno))
                     : PyObject_CallFunction(state->FileError, "isO", errno, strerror(errno), path);
    if (error != NULL) PyErr_SetObject(state->FileError, error);
    Py_XDECREF(error);
    return false;
}

/* ---- waiting ---- */

/* Bytes that come without a wait before signals are looked at again. */
#define UNATTENDED ((size_t)64 << 20)

/* Until transport_attach; an operation that asks for bytes many times lets go of the GIL once. */
static void detach(Transport *transport) {
    if (transport->saved == NULL) transport->saved = PyEval_SaveThread();
}

void transport_attach(Transport *transport) {
    PyThreadState *saved = transport->saved;
    transport->saved = NULL;
    if (saved != NULL) PyEval_RestoreThread(saved);
}

/* Called without the GIL, after a signal: runs the handlers. */
static bool handle_signals(void *context) {
    Transport *transport = context;
    PyEval_RestoreThread(transport->saved);
    bool go_on = PyErr_CheckSignals() == 0;
    transport->saved = PyEval_SaveThread();
    return go_on;
}

/* Makes the pipe that wakes a reader, in the process that waits: after a fork the other process has
 * the old one too, and must not wake this one. Without a pipe the reader looks up now and then. */
static void prepare_to_wake(Transport *transport) {
    if (atomic_load(&transport->wake_process) == getpid()) return;
    for (int i = 0; i < 2; i++) {
        if (transport->wake[i] >= 0) close(transport->wake[i]);
        transport->wake[i] = -1;
    }
    if (pipe(transport->wake) == 0) {
        for (int i = 0; i < 2; i++) {
            (void)fcntl(transport->wake[i], F_SETFD, FD_CLOEXEC);
            (void)fcntl(transport->wake[i], F_SETFL, O_NONBLOCK);
        }
    }
    atomic_store(&transport->wake_process, getpid());
}

/* Until there is something to read, or another thread has closed the transport. */
static HurrayStatus wait_readable(Transport *transport) {
    prepare_to_wake(transport);
    struct pollfd files[2] = {{transport->file.descriptor, POLLIN, 0},
                              {transport->wake[0], POLLIN, 0}};
    const int patience = transport->wake[0] >= 0 ? -1 : 100 /* ms */;
    int timeout = 100 /* ms */, ready;
    /* A signal that came while bytes were at work interrupts no wait: it is looked for in one that
     * lasts, since looking takes the GIL, and most waits for the next bytes are over at once. */
    while (!atomic_load(&transport->closed) && (ready = poll(files, 2, timeout)) <= 0) {
        /* Whatever else can be wrong, reading will say so. */
        if (ready < 0 && errno != EINTR) return HURRAY_OK;
        if (!handle_signals(transport)) return HURRAY_ERR_INTERRUPTED;
        timeout = patience;
    }
    return atomic_load(&transport->closed) ? HURRAY_ERR_CLOSED : HURRAY_OK;
}

/* ---- reading and writing ---- */

/* From a place of its own, so that the position of the file object it belongs to stays true. */
static HurrayStatus read_there(Transport *transport, uint8_t *bytes, size_t size,
                               size_t *out_read) {
    const size_t most = (size_t)1 << 30;
    ssize_t got = pread(transport->file.descriptor, bytes, size < most ? size : most,
                        (off_t)transport->offset);
    if (got < 0) { /* says why, or has better luck */
        HurrayStatus status =
            hurray_open_file_read_at(&transport->file, (uint64_t)transport->offset, bytes, 1);
        if (status != HURRAY_OK) return status;
        got = 1;
    }
    transport->offset += got;
    *out_read = (size_t)got;
    return HURRAY_OK;
}

static HurrayStatus read_file(Transport *transport, uint8_t *bytes, size_t size, size_t *out_read) {
    detach(transport);
    if (transport->unattended >= UNATTENDED) {
        transport->unattended = 0;
        if (!handle_signals(transport)) return HURRAY_ERR_INTERRUPTED;
    }
    HurrayStatus status = transport->waits ? wait_readable(transport) : HURRAY_OK;
    if (status == HURRAY_OK) {
        status = transport->offset >= 0
                     ? read_there(transport, bytes, size, out_read)
                     : hurray_open_file_read(&transport->file, bytes, size, out_read);
    }
    if (status == HURRAY_OK) transport->unattended += *out_read;
    return status;
}

static void read_memory(Transport *transport, uint8_t *bytes, size_t size, size_t *out_read) {
    size_t left = (size_t)transport->view.len - transport->position;
    size_t taken = size < left ? size : left;
    if (taken >= CORE_LARGE_COPY) detach(transport);
    if (taken != 0) {
        memcpy(bytes, (const char *)transport->view.buf + transport->position, taken);
    }
    transport->position += taken;
    *out_read = taken;
}

/* What there is in memory comes before what the descriptor has. */
static HurrayStatus read_any(uint8_t *bytes, size_t size, size_t *out_read, void *context) {
    Transport *transport = context;
    bool in_memory = transport->position < (size_t)transport->view.len;
    if (!in_memory && transport->file.descriptor >= 0) {
        return read_file(transport, bytes, size, out_read);
    }
    read_memory(transport, bytes, size, out_read);
    return HURRAY_OK;
}

static HurrayStatus write_file(const HurrayBytes *pieces, uint32_t count, void *context) {
    Transport *transport = context;
    detach(transport);
    HurrayStatus status = hurray_open_file_write(&transport->file, pieces, count);
    transport_attach(transport);
    return status;
}

static HurrayStatus write_memory(const HurrayBytes *pieces, uint32_t count, void *context) {
    Transport *transport = context;
    HurraySink sink = hurray_memory_sink(&transport->memory);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count && bytes < CORE_LARGE_COPY; i++) bytes += pieces[i].size;
    if (bytes >= CORE_LARGE_COPY) detach(transport);
    HurrayStatus status = sink.write(pieces, count, sink.context);
    transport_attach(transport);
    return status;
}

HurraySource transport_source(Transport *transport) { return (HurraySource){read_any, transport}; }

HurraySink transport_sink(Transport *transport) {
    return (HurraySink){transport->to_memory ? write_memory : write_file, transport};
}

/* ---- opening ---- */

static bool is_path(PyObject *object) {
    return PyUnicode_Check(object) ||
           PyObject_HasAttrString((PyObject *)Py_TYPE(object), "__fspath__");
}

static bool open_path(CoreState *state, PyObject *object, int flags, Transport *transport) {
    PyObject *encoded;
    if (!PyUnicode_FSConverter(object, &encoded)) return false;
    transport->path = Py_NewRef(object);
    do {
        Py_BEGIN_ALLOW_THREADS
        transport->file.descriptor = open(PyBytes_AS_STRING(encoded), flags | O_CLOEXEC, 0666);
        Py_END_ALLOW_THREADS
    } while (transport->file.descriptor < 0 && errno == EINTR && PyErr_CheckSignals() == 0);
    Py_DECREF(encoded);
    if (transport->file.descriptor >= 0) return true;
    return PyErr_Occurred() ? false : fail_errno(state, object);
}

/* ---- file objects ---- */

/* The classes of the io module that matter here. */
typedef struct FileClasses {
    PyObject *text;     /* TextIOBase */
    PyObject *buffered; /* BufferedIOBase */
    PyObject *reader;   /* BufferedReader, and so on: these pass on the bytes of their .raw */
    PyObject *plain;
} FileClasses;

static void clear_classes(FileClasses *classes) {
    Py_CLEAR(classes->text);
    Py_CLEAR(classes->buffered);
    Py_CLEAR(classes->reader);
    Py_CLEAR(classes->plain);
}

static bool find_classes(FileClasses *out) {
    *out = (FileClasses){0};
    PyObject *io = PyImport_ImportModule("io");
    if (io == NULL) return false;
    out->text = PyObject_GetAttrString(io, "TextIOBase");
    out->buffered = PyObject_GetAttrString(io, "BufferedIOBase");
    out->reader = PyObject_GetAttrString(io, "BufferedReader");
    out->plain = Py_BuildValue("(NNN)", PyObject_GetAttrString(io, "BufferedReader"),
                               PyObject_GetAttrString(io, "BufferedWriter"),
                               PyObject_GetAttrString(io, "BufferedRandom"));
    Py_DECREF(io);
    if (out->text != NULL && out->buffered != NULL && out->reader != NULL && out->plain != NULL) {
        return true;
    }
    clear_classes(out);
    return false;
}

/*
 * Why the bytes of a file object are not those of its descriptor, NULL where they are: a file that
 * compresses has the descriptor of what it compresses into, and may itself be the .raw of another.
 * An exception may be set instead.
 */
static const char *hides_its_bytes(const FileClasses *classes, PyObject *object) {
    const char *reason = NULL;
    int is = PyObject_IsInstance(object, classes->text);
    if (is > 0) reason = "holds text: pass its .buffer";
    Py_INCREF(object);
    while (is == 0 && (is = PyObject_IsInstance(object, classes->buffered)) > 0) {
        if ((is = PyObject_IsInstance(object, classes->plain)) <= 0) {
            if (is == 0) reason = "has bytes that are not those of its fileno()";
            break;
        }
        PyObject *raw = PyObject_GetAttrString(object, "raw");
        Py_DECREF(object);
        object = raw;
        if (raw == NULL) break;
        is = 0;
    }
    Py_XDECREF(object);
    return reason;
}

/*
 * What a reader of a pipe or socket has taken from it already, and where nothing leads back: it comes
 * first. When it has nothing it must not wait for more, which only a descriptor that does not block
 * can be asked without.
 */
static bool take_ahead(PyObject *object, int descriptor, Transport *transport) {
    struct pollfd file = {descriptor, POLLIN, 0};
    int flags = poll(&file, 1, 0) == 0 ? fcntl(descriptor, F_GETFL) : -1;
    bool blocks = flags >= 0 && (flags & O_NONBLOCK) == 0;
    if (blocks) (void)fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
    PyObject *ahead = PyObject_CallMethod(object, "peek", "i", 1);
    if (blocks) (void)fcntl(descriptor, F_SETFL, flags);
    Py_ssize_t size = ahead == NULL ? -1 : PyObject_Size(ahead);
    Py_XDECREF(ahead);
    if (size <= 0) return size == 0;
    PyObject *bytes = PyObject_CallMethod(object, "read", "n", size);
    bool taken = bytes != NULL && PyObject_GetBuffer(bytes, &transport->view, PyBUF_SIMPLE) == 0;
    Py_XDECREF(bytes);
    return taken;
}

static bool is_memory_file(PyObject *object) {
    PyObject *io = PyImport_ImportModule("io");
    PyObject *type = io == NULL ? NULL : PyObject_GetAttrString(io, "BytesIO");
    int is = type == NULL ? 0 : PyObject_IsInstance(object, type);
    Py_XDECREF(io);
    Py_XDECREF(type);
    PyErr_Clear();
    return is > 0;
}

/* Writes what the object has kept back. */
static bool flush(PyObject *object) {
    if (!PyObject_HasAttrString(object, "flush")) return true;
    PyObject *result = PyObject_CallMethod(object, "flush", NULL);
    Py_XDECREF(result);
    return result != NULL;
}

/* Reading begins where the object is; its descriptor may be further on. */
static bool find_position(const FileClasses *classes, PyObject *object, int descriptor,
                          Transport *transport) {
    if (!PyObject_HasAttrString(object, "tell")) return true;
    PyObject *position = PyObject_CallMethod(object, "tell", NULL);
    if (position == NULL) { /* pipes and sockets have none */
        if (!PyErr_ExceptionMatches(PyExc_OSError)) return false;
        PyErr_Clear();
        int reads_ahead = PyObject_IsInstance(object, classes->reader);
        return reads_ahead <= 0 ? reads_ahead == 0 : take_ahead(object, descriptor, transport);
    }
    long long offset = PyLong_AsLongLong(position);
    Py_DECREF(position);
    if (offset == -1 && PyErr_Occurred()) return false;
    transport->offset = offset;
    return true;
}

static bool refuse(PyObject *object, const char *role, const char *expected) {
    PyErr_Format(PyExc_TypeError, "%s is %.200s; expected %s", role, Py_TYPE(object)->tp_name,
                 expected);
    return false;
}

static bool open_object(CoreState *state, const FileClasses *classes, PyObject *object,
                        bool writing, Transport *transport) {
    const char *reason = hides_its_bytes(classes, object);
    if (reason != NULL) {
        PyErr_Format(PyExc_TypeError, "%s is %.200s, which %s", writing ? "destination" : "source",
                     Py_TYPE(object)->tp_name, reason);
    }
    if (PyErr_Occurred()) return false;
    int descriptor = PyObject_AsFileDescriptor(object);
    if (descriptor < 0) return false;
    if (writing ? !flush(object) : !find_position(classes, object, descriptor, transport))
        return false;
    transport->file.descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    return transport->file.descriptor >= 0 || fail_errno(state, NULL);
}

static bool open_fileno(CoreState *state, PyObject *object, bool writing, const char *expected,
                        Transport *transport) {
    FileClasses classes;
    if (!PyObject_HasAttrString(object, "fileno")) {
        return refuse(object, writing ? "destination" : "source", expected);
    }
    if (!find_classes(&classes)) return false;
    bool opened = open_object(state, &classes, object, writing, transport);
    clear_classes(&classes);
    return opened;
}

static bool prepare(Transport *transport) {
    *transport = (Transport)TRANSPORT_CLOSED;
    transport->file.interrupted = handle_signals;
    transport->file.context = transport;
    transport->lock = PyThread_allocate_lock();
    if (transport->lock == NULL) PyErr_NoMemory();
    return transport->lock != NULL;
}

/* Bytes that a pipe is to hold: as much as Linux gives without privileges. Of the usual 64 KiB each
 * call moves so little that waking the other end takes as long as copying. */
#define PIPE_BYTES (1 << 20)

/* What is no pipe, has room enough or must have no more stays as it is. */
static void enlarge_pipe(int descriptor) {
#ifdef F_SETPIPE_SZ
    int size = fcntl(descriptor, F_GETPIPE_SZ);
    if (size > 0 && size < PIPE_BYTES) (void)fcntl(descriptor, F_SETPIPE_SZ, PIPE_BYTES);
#else
    (void)descriptor;
#endif
}

bool transport_open_for_reading(CoreState *state, PyObject *object, Transport *transport) {
    static const char expected[] = "a path, an object with fileno() or a bytes-like object";
    if (!prepare(transport)) return false;
    if (is_memory_file(object)) {
        return refuse(object, "source", "a bytes-like object: pass its getvalue()");
    }
    bool opened;
    if (is_path(object)) {
        opened = open_path(state, object, O_RDONLY, transport);
    } else if (PyObject_CheckBuffer(object)) {
        return PyObject_GetBuffer(object, &transport->view, PyBUF_SIMPLE) == 0;
    } else {
        opened = open_fileno(state, object, false, expected, transport);
    }
    if (!opened) return false;
    struct stat about;
    transport->waits = fstat(transport->file.descriptor, &about) != 0 || !S_ISREG(about.st_mode);
    enlarge_pipe(transport->file.descriptor);
    return true;
}

bool transport_open_for_writing(CoreState *state, PyObject *object, Transport *transport) {
    static const char expected[] = "a path, an object with fileno(), or None";
    if (!prepare(transport)) return false;
    transport->to_memory = object == NULL;
    if (object == NULL) return true;
    if (is_memory_file(object)) {
        return refuse(object, "destination", "None, and then getvalue() of the StreamWriter");
    }
    bool opened = is_path(object)
                      ? open_path(state, object, O_WRONLY | O_CREAT | O_TRUNC, transport)
                      : open_fileno(state, object, true, expected, transport);
    if (opened) enlarge_pipe(transport->file.descriptor);
    return opened;
}

bool transport_close_file(CoreState *state, Transport *transport) {
    int descriptor = transport->file.descriptor, result;
    if (descriptor < 0) return true;
    transport->file.descriptor = -1;
    Py_BEGIN_ALLOW_THREADS
    result = close(descriptor);
    Py_END_ALLOW_THREADS
    return result == 0 || errno == EINTR || fail_errno(state, transport->path);
}

void transport_release(Transport *transport) {
    if (transport->file.descriptor >= 0) {
        Py_BEGIN_ALLOW_THREADS
        close(transport->file.descriptor);
        Py_END_ALLOW_THREADS
    }
    transport->file.descriptor = -1;
    hurray_aligned_free(transport->memory.bytes);
    transport->memory = (HurrayMemoryFile){0};
    PyBuffer_Release(&transport->view);
    Py_CLEAR(transport->path);
}

void transport_close(Transport *transport) {
    transport_release(transport);
    /* Not before: another thread may be about to use it. */
    for (int i = 0; i < 2; i++) {
        if (transport->wake[i] >= 0) close(transport->wake[i]);
        transport->wake[i] = -1;
    }
    if (transport->lock != NULL) PyThread_free_lock(transport->lock);
    transport->lock = NULL;
}

/* ---- one at a time ---- */

bool transport_try_lock(Transport *transport) {
    if (!PyThread_acquire_lock(transport->lock, NOWAIT_LOCK)) return false;
    atomic_store(&transport->owner, PyThread_get_thread_ident());
    return true;
}

bool transport_lock(Transport *transport) {
    if (transport_try_lock(transport)) return true;
    const unsigned long self = PyThread_get_thread_ident();
    if (atomic_load(&transport->owner) == self) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the stream is in use by the code that was interrupted");
        return false;
    }
    PyLockStatus got;
    do {
        Py_BEGIN_ALLOW_THREADS
        got = PyThread_acquire_lock_timed(transport->lock, -1, 1);
        Py_END_ALLOW_THREADS
    } while (got != PY_LOCK_ACQUIRED && PyErr_CheckSignals() == 0);
    if (got == PY_LOCK_ACQUIRED) atomic_store(&transport->owner, self);
    return got == PY_LOCK_ACQUIRED;
}

void transport_unlock(Transport *transport) {
    atomic_store(&transport->owner, 0);
    PyThread_release_lock(transport->lock);
}

void transport_interrupt(Transport *transport) {
    atomic_store(&transport->closed, true);
    /* Nobody waits yet, or nobody in this process. */
    if (atomic_load(&transport->wake_process) != getpid() || transport->wake[1] < 0) return;
    ssize_t written;
    do {
        written = write(transport->wake[1], "", 1);
    } while (written < 0 && errno == EINTR);
}
