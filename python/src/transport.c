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

/* Called without the GIL, after a signal: runs the handlers. */
static bool handle_signals(void *context) {
    Transport *transport = context;
    PyEval_RestoreThread(transport->saved);
    bool go_on = PyErr_CheckSignals() == 0;
    transport->saved = PyEval_SaveThread();
    return go_on;
}

/* Until there is something to read, or another thread has closed the transport. */
static HurrayStatus wait_readable(Transport *transport) {
    struct pollfd files[2] = {{transport->file.descriptor, POLLIN, 0},
                              {transport->wake[0], POLLIN, 0}};
    while (poll(files, 2, -1) < 0) {
        /* Whatever else can be wrong, reading will say so. */
        if (errno != EINTR) return HURRAY_OK;
        if (!handle_signals(transport)) return HURRAY_ERR_INTERRUPTED;
    }
    return files[1].revents != 0 ? HURRAY_ERR_CLOSED : HURRAY_OK;
}

static HurrayStatus read_file(uint8_t *bytes, size_t size, size_t *out_read, void *context) {
    Transport *transport = context;
    transport->saved = PyEval_SaveThread();
    HurrayStatus status = transport->wake[0] < 0 ? HURRAY_OK : wait_readable(transport);
    if (status == HURRAY_OK) {
        status = hurray_open_file_read(&transport->file, bytes, size, out_read);
    }
    PyEval_RestoreThread(transport->saved);
    return status;
}

static HurrayStatus write_file(const HurrayBytes *pieces, uint32_t count, void *context) {
    Transport *transport = context;
    transport->saved = PyEval_SaveThread();
    HurrayStatus status = hurray_open_file_write(&transport->file, pieces, count);
    PyEval_RestoreThread(transport->saved);
    return status;
}

static HurrayStatus read_memory(uint8_t *bytes, size_t size, size_t *out_read, void *context) {
    Transport *transport = context;
    size_t left = (size_t)transport->view.len - transport->position;
    size_t taken = size < left ? size : left;
    const char *from = (const char *)transport->view.buf + transport->position;
    if (taken >= CORE_LARGE_COPY) {
        Py_BEGIN_ALLOW_THREADS
        memcpy(bytes, from, taken);
        Py_END_ALLOW_THREADS
    } else if (taken != 0) {
        memcpy(bytes, from, taken);
    }
    transport->position += taken;
    *out_read = taken;
    return HURRAY_OK;
}

static HurrayStatus write_memory(const HurrayBytes *pieces, uint32_t count, void *context) {
    Transport *transport = context;
    HurraySink sink = hurray_memory_sink(&transport->memory);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count && bytes < CORE_LARGE_COPY; i++) bytes += pieces[i].size;
    PyThreadState *saved = bytes >= CORE_LARGE_COPY ? PyEval_SaveThread() : NULL;
    HurrayStatus status = sink.write(pieces, count, sink.context);
    if (saved != NULL) PyEval_RestoreThread(saved);
    return status;
}

HurraySource transport_source(Transport *transport) {
    return (HurraySource){transport->view.obj != NULL ? read_memory : read_file, transport};
}

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

/*
 * Whether an object of the io module is one whose bytes are not those of its descriptor: a file that
 * compresses has the descriptor of what it compresses into. -1 with an exception.
 */
static int hides_its_bytes(PyObject *object) {
    PyObject *io = PyImport_ImportModule("io");
    if (io == NULL) return -1;
    PyObject *base = PyObject_GetAttrString(io, "BufferedIOBase");
    PyObject *plain = Py_BuildValue("(NNNN)", PyObject_GetAttrString(io, "BufferedReader"),
                                    PyObject_GetAttrString(io, "BufferedWriter"),
                                    PyObject_GetAttrString(io, "BufferedRandom"),
                                    PyObject_GetAttrString(io, "BufferedRWPair"));
    Py_DECREF(io);
    int buffered = base == NULL || plain == NULL ? -1 : PyObject_IsInstance(object, base);
    if (buffered > 0) {
        int known = PyObject_IsInstance(object, plain);
        buffered = known < 0 ? -1 : !known;
    }
    Py_XDECREF(base);
    Py_XDECREF(plain);
    return buffered;
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

/* Brings the position of the descriptor to that of a file object which has read ahead, or which has
 * not yet written all. */
static bool synchronize(PyObject *object, int descriptor, bool writing) {
    if (writing && PyObject_HasAttrString(object, "flush")) {
        PyObject *result = PyObject_CallMethod(object, "flush", NULL);
        Py_XDECREF(result);
        return result != NULL;
    }
    if (writing || !PyObject_HasAttrString(object, "tell")) return true;
    PyObject *position = PyObject_CallMethod(object, "tell", NULL);
    if (position == NULL) { /* pipes and sockets have none */
        if (!PyErr_ExceptionMatches(PyExc_OSError)) return false;
        PyErr_Clear();
        return true;
    }
    long long offset = PyLong_AsLongLong(position);
    Py_DECREF(position);
    if (offset == -1 && PyErr_Occurred()) return false;
    (void)lseek(descriptor, (off_t)offset,
                SEEK_SET); /* where there is no position, there is none */
    return true;
}

static bool refuse(PyObject *object, const char *role, const char *expected) {
    PyErr_Format(PyExc_TypeError, "%s is %.200s; expected %s", role, Py_TYPE(object)->tp_name,
                 expected);
    return false;
}

static bool open_fileno(CoreState *state, PyObject *object, bool writing, const char *expected,
                        Transport *transport) {
    const char *role = writing ? "destination" : "source";
    if (!PyObject_HasAttrString(object, "fileno")) return refuse(object, role, expected);
    int hidden = hides_its_bytes(object);
    if (hidden < 0) return false;
    if (hidden > 0) {
        PyErr_Format(PyExc_TypeError,
                     "%s is %.200s, whose fileno() is not where its bytes are; expected %s", role,
                     Py_TYPE(object)->tp_name, expected);
        return false;
    }
    int descriptor = PyObject_AsFileDescriptor(object);
    if (descriptor < 0 || !synchronize(object, descriptor, writing)) return false;
    transport->file.descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    return transport->file.descriptor >= 0 || fail_errno(state, NULL);
}

/* A pipe to wake a reader with, where the file is one that waits. */
static bool prepare_to_wake(CoreState *state, Transport *transport) {
    struct stat about;
    if (fstat(transport->file.descriptor, &about) == 0 && S_ISREG(about.st_mode)) return true;
    if (pipe(transport->wake) < 0) return fail_errno(state, NULL);
    for (int i = 0; i < 2; i++) {
        (void)fcntl(transport->wake[i], F_SETFD, FD_CLOEXEC);
        (void)fcntl(transport->wake[i], F_SETFL, O_NONBLOCK);
    }
    return true;
}

static bool prepare(Transport *transport) {
    *transport = (Transport)TRANSPORT_CLOSED;
    transport->file.interrupted = handle_signals;
    transport->file.context = transport;
    transport->lock = PyThread_allocate_lock();
    if (transport->lock == NULL) PyErr_NoMemory();
    return transport->lock != NULL;
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
    return opened && prepare_to_wake(state, transport);
}

bool transport_open_for_writing(CoreState *state, PyObject *object, Transport *transport) {
    static const char expected[] = "a path, an object with fileno(), or None";
    if (!prepare(transport)) return false;
    transport->to_memory = object == NULL;
    if (object == NULL) return true;
    if (is_memory_file(object)) {
        return refuse(object, "destination", "None, and then getvalue() of the StreamWriter");
    }
    if (is_path(object)) return open_path(state, object, O_WRONLY | O_CREAT | O_TRUNC, transport);
    return open_fileno(state, object, true, expected, transport);
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
    transport->owner = PyThread_get_thread_ident();
    return true;
}

bool transport_lock(Transport *transport) {
    if (transport_try_lock(transport)) return true;
    if (transport->owner == PyThread_get_thread_ident()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the stream is in use by the code that was interrupted");
        return false;
    }
    Py_BEGIN_ALLOW_THREADS
    PyThread_acquire_lock(transport->lock, WAIT_LOCK);
    Py_END_ALLOW_THREADS
    transport->owner = PyThread_get_thread_ident();
    return true;
}

void transport_unlock(Transport *transport) {
    transport->owner = 0;
    PyThread_release_lock(transport->lock);
}

void transport_interrupt(Transport *transport) {
    transport->closed = true;
    if (transport->wake[1] < 0) return;
    ssize_t written;
    do {
        written = write(transport->wake[1], "", 1);
    } while (written < 0 && errno == EINTR);
}
