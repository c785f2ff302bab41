/* The exceptions of spec 8.1, and the one place where a library status becomes one of them. */
#include "core.h"

typedef struct ErrorSpec {
    size_t slot;      /* in CoreState */
    const char *name; /* qualified */
    PyObject **base;  /* a built-in */
    const char *doc;
} ErrorSpec;

#define SLOT(field) offsetof(CoreState, field)

static int add_error(PyObject *module, CoreState *state, const ErrorSpec *spec) {
    PyObject *error = PyErr_NewExceptionWithDoc(spec->name, spec->doc, *spec->base, NULL);
    if (error == NULL) return -1;
    *(PyObject **)((char *)state + spec->slot) = error;
    return PyModule_AddObjectRef(module, strrchr(spec->name, '.') + 1, error);
}

/* An exception that callers may catch under either of two names. */
static PyObject *new_double_error(const char *name, const char *doc, PyObject *first,
                                  PyObject *second) {
    PyObject *bases = PyTuple_Pack(2, first, second);
    if (bases == NULL) return NULL;
    PyObject *error = PyErr_NewExceptionWithDoc(name, doc, bases, NULL);
    Py_DECREF(bases);
    return error;
}

int errors_setup(PyObject *module, CoreState *state) {
    const ErrorSpec specs[] = {
        {SLOT(InvalidDescriptorError), "hurray.InvalidDescriptorError", &PyExc_ValueError,
         "A descriptor, layout, quantization scheme or section is not valid (spec 8.1)."},
        {SLOT(BufferError), "hurray.BufferError", &PyExc_ValueError,
         "A buffer is too small or misaligned, or a capsule is unusable (spec 8.1).\n\n"
         "Not the built-in BufferError."},
        {SLOT(CopyRequiredError), "hurray.CopyRequiredError", &PyExc_ValueError,
         "copy=False was asked for, but only a copy can do it (spec 8.1)."},
        {SLOT(UnsupportedError), "hurray.UnsupportedError", &PyExc_NotImplementedError,
         "This type, layout or device cannot take this path (spec 8.1)."},
        {SLOT(FileError), "hurray.FileError", &PyExc_OSError,
         "A file container is missing, corrupt, truncated or not permitted (spec 8.1)."},
        {SLOT(StreamError), "hurray.StreamError", &PyExc_OSError,
         "The framing of a stream is broken, or it is over a limit or finished (spec 8.1)."},
        {SLOT(InternalError), "hurray.InternalError", &PyExc_RuntimeError,
         "A bug in hurray (spec 8.1)."},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(specs); i++) {
        if (add_error(module, state, &specs[i]) < 0) return -1;
    }
    state->ExportRefused = new_double_error(
        "hurray.ExportRefusedError",
        "DLPack or the buffer protocol cannot carry this tensor: an UnsupportedError that is a\n"
        "built-in BufferError too, as consumers of those protocols expect (spec 8.1).",
        PyExc_BufferError, state->UnsupportedError);
    if (state->ExportRefused == NULL) return -1;
    state->MissingName =
        new_double_error("hurray.MissingNameError", "A file has no tensor of this name (spec 8.1).",
                         state->FileError, PyExc_KeyError);
    return state->MissingName == NULL ? -1 : 0;
}

static PyObject *exception_of(CoreState *state, HurrayStatus status) {
    switch (status) {
    case HURRAY_ERR_INVALID_MAGIC:
    case HURRAY_ERR_VERSION_MISMATCH:
    case HURRAY_ERR_INVALID_LAYOUT:
    case HURRAY_ERR_INVALID_TYPE:
    case HURRAY_ERR_INVALID_SYNC_MODE:
    case HURRAY_ERR_SYNC_MODE_MISMATCH:
    case HURRAY_ERR_INTERNAL:
    case HURRAY_ERR_DATA_INVALID: return state->InvalidDescriptorError;
    case HURRAY_ERR_BUFFER_TOO_SMALL:
    case HURRAY_ERR_BAD_PRODUCER:
    case HURRAY_ERR_NULL_POINTER: return state->BufferError;
    case HURRAY_ERR_INDEX_OUT_OF_BOUNDS: return PyExc_IndexError;
    case HURRAY_ERR_OUT_OF_MEMORY: return PyExc_MemoryError;
    case HURRAY_ERR_INVALID_ARGUMENT: return PyExc_ValueError;
    case HURRAY_ERR_UNSUPPORTED: return state->UnsupportedError;
    case HURRAY_ERR_COPY_REQUIRED: return state->CopyRequiredError;
    case HURRAY_ERR_IO:
    case HURRAY_ERR_FILE_INVALID: return state->FileError;
    case HURRAY_ERR_STREAM_INVALID:
    case HURRAY_ERR_CLOSED: return state->StreamError;
    case HURRAY_ERR_NOT_FOUND: return state->MissingName;
    default: return state->InternalError;
    }
}

PyObject *raise_status(CoreState *state, HurrayStatus status) {
    return raise_status_for_path(state, status, NULL);
}

/* FileError(errno, message[, path]), which an OSError shows in its own way. */
static void raise_io(CoreState *state, PyObject *path) {
    int number = hurray_error_number();
    PyObject *error =
        path == NULL
            ? PyObject_CallFunction(state->FileError, "is", number, hurray_error_message())
            : PyObject_CallFunction(state->FileError, "isO", number, hurray_error_message(), path);
    if (error != NULL) PyErr_SetObject(state->FileError, error);
    Py_XDECREF(error);
}

PyObject *raise_status_for_path(CoreState *state, HurrayStatus status, PyObject *path) {
    if (status == HURRAY_ERR_INTERRUPTED && PyErr_Occurred()) return NULL;
    if (status == HURRAY_ERR_IO && hurray_error_number() != 0) {
        raise_io(state, path);
        return NULL;
    }
    if (status != HURRAY_ERR_FILE_INVALID || path == NULL) {
        return raise_status_as(exception_of(state, status), status);
    }
    return PyErr_Format(state->FileError, "%S: %s", path, hurray_error_message());
}

PyObject *raise_status_as(PyObject *exception, HurrayStatus status) {
    const char *message = hurray_error_message();
    PyErr_SetString(exception, *message != '\0' ? message : hurray_status_name(status));
    return NULL;
}
