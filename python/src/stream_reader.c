/*
 * hurray.StreamReader (spec 5, 8.13): tensors and composites out of a file, a pipe, a socket or memory;
 * and the decoder underneath hurray.aio, which is fed instead.
 *
 * libhurray hands out the parts of an item, a head, then each member; here they become one object.
 */
#include "core.h"

#include <structmember.h>

#include "arguments.h"
#include "transport.h"

/* ---- items out of parts ---- */

/* A composite in the making. */
typedef struct OpenHead {
    HurrayDescriptor *head;
    PyObject *members; /* list */
} OpenHead;

typedef struct Assembly {
    bool lost; /* a part is missing, for want of memory: what follows makes no sense */
    uint32_t depth;
    OpenHead open[HURRAY_MAX_COMPOSITE_DEPTH];
} Assembly;

static void assembly_clear(Assembly *assembly) {
    while (assembly->depth > 0) {
        OpenHead *open = &assembly->open[--assembly->depth];
        hurray_descriptor_destroy(open->head);
        Py_CLEAR(open->members);
    }
}

static bool is_full(const OpenHead *open) {
    const HurrayDescriptorFields *head = hurray_descriptor_fields(open->head);
    return PyList_GET_SIZE(open->members) == (Py_ssize_t)head->layout.composite.member_count;
}

/* The Composite that the innermost head and its members make, which stop being open. */
static PyObject *close_head(CoreState *state, Assembly *assembly) {
    OpenHead *open = &assembly->open[--assembly->depth];
    PyObject *members = PyList_AsTuple(open->members);
    PyObject *composite =
        members == NULL
            ? NULL
            : composite_new(state, hurray_descriptor_fields(open->head), members, false);
    Py_XDECREF(members);
    hurray_descriptor_destroy(open->head);
    Py_DECREF(open->members);
    return composite;
}

static bool open_head(CoreState *state, Assembly *assembly, HurrayDescriptor *head) {
    PyObject *members = PyList_New(0);
    if (members == NULL || assembly->depth == HURRAY_MAX_COMPOSITE_DEPTH) {
        if (members != NULL) PyErr_SetString(state->InternalError, "composites nest too deep");
        hurray_descriptor_destroy(head);
        Py_XDECREF(members);
        return false;
    }
    assembly->open[assembly->depth++] = (OpenHead){head, members};
    return true;
}

static bool take_part(CoreState *state, Assembly *assembly, const HurrayStreamPart *part,
                      PyObject **out) {
    PyObject *item = NULL;
    *out = NULL;
    if (part->kind == HURRAY_STREAM_HEAD) {
        if (!open_head(state, assembly, part->head)) return false;
    } else {
        item = tensor_wrap(state, part->tensor);
        if (item == NULL) return false;
    }
    for (;;) {
        if (item != NULL && assembly->depth == 0) break;
        OpenHead *open = &assembly->open[assembly->depth - 1];
        if (item != NULL) {
            int appended = PyList_Append(open->members, item);
            Py_CLEAR(item);
            if (appended < 0) return false;
        }
        if (!is_full(open)) return true;
        item = close_head(state, assembly);
        if (item == NULL) return false;
    }
    *out = item;
    return true;
}

/* Takes a part over. The item that it completes goes into `*out`, NULL while there is more to come.
 * False with an exception. */
static bool assembly_take(CoreState *state, Assembly *assembly, const HurrayStreamPart *part,
                          PyObject **out) {
    assembly->lost = !take_part(state, assembly, part, out);
    return !assembly->lost;
}

/* False with an exception when an earlier part could not be taken. */
static bool assembly_is_sound(CoreState *state, const Assembly *assembly) {
    if (!assembly->lost) return true;
    PyErr_SetString(state->StreamError,
                    "an earlier item was lost when memory ran out: reading cannot go on");
    return false;
}

/* ---- limits ---- */

enum {
    SOURCE,
    MAX_DESCRIPTOR_BYTES,
    MAX_BUFFER_BYTES,
    MAX_COMPOSITE_DEPTH,
    CROSS_MACHINE,
    COUNT
};

/* Reads the limits among the arguments; absent ones keep their defaults. */
static bool read_options(PyObject *const *values, HurrayStreamOptions *out) {
    uint64_t depth = HURRAY_MAX_COMPOSITE_DEPTH;
    hurray_stream_options_init(out);
    PyObject *value = values[MAX_DESCRIPTOR_BYTES];
    if (value != NULL &&
        !argument_as_u64(value, "max_descriptor_bytes", &out->max_descriptor_bytes)) {
        return false;
    }
    value = values[MAX_BUFFER_BYTES];
    if (value != NULL && !argument_as_u64(value, "max_buffer_bytes", &out->max_buffer_bytes)) {
        return false;
    }
    value = values[MAX_COMPOSITE_DEPTH];
    if (value != NULL && !argument_as_u64(value, "max_composite_depth", &depth)) return false;
    if (depth > HURRAY_MAX_COMPOSITE_DEPTH) {
        argument_refuse(PyExc_ValueError, "max_composite_depth", value, "0 to 8");
        return false;
    }
    out->max_composite_depth = (uint32_t)depth;
    int across = argument_as_bool(values[CROSS_MACHINE], false);
    out->cross_machine = across > 0;
    return across >= 0;
}

/* ---- StreamReader ---- */

typedef struct ReaderObject {
    PyObject_HEAD HurrayStreamReader *reader;
    Transport transport;
    Assembly assembly;
    uint64_t start; /* byte where the item at hand begins */
    PyObject *weak_references;
} ReaderObject;

static ReaderObject *reader_of(PyObject *self) { return (ReaderObject *)self; }

static bool make_reader(CoreState *state, PyObject *const *values, ReaderObject *self) {
    HurrayStreamOptions options;
    if (!read_options(values, &options) ||
        !transport_open_for_reading(state, values[SOURCE], &self->transport)) {
        return false;
    }
    const HurraySource source = transport_source(&self->transport);
    HurrayStatus status = hurray_stream_reader_create(&source, &options, &self->reader);
    return status == HURRAY_OK || raise_status(state, status) != NULL;
}

static PyObject *reader_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static const Signature signature = {"StreamReader",
                                        {{"source", ARGUMENT_REQUIRED | ARGUMENT_KEEP_NONE},
                                         {"max_descriptor_bytes", ARGUMENT_KEYWORD_ONLY},
                                         {"max_buffer_bytes", ARGUMENT_KEYWORD_ONLY},
                                         {"max_composite_depth", ARGUMENT_KEYWORD_ONLY},
                                         {"cross_machine", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *values[COUNT];
    if (!arguments_parse_new(&signature, args, kwargs, values)) return NULL;
    ReaderObject *self = PyObject_GC_New(ReaderObject, type);
    if (self == NULL) return NULL;
    self->reader = NULL;
    self->transport = (Transport)TRANSPORT_CLOSED;
    self->assembly.lost = false;
    self->assembly.depth = 0;
    self->start = 0;
    self->weak_references = NULL;
    bool made = make_reader(PyType_GetModuleState(type), values, self);
    PyObject_GC_Track((PyObject *)self);
    if (made) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static void reader_dealloc(PyObject *self) {
    ReaderObject *reader = reader_of(self);
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (reader->weak_references != NULL) PyObject_ClearWeakRefs(self);
    hurray_stream_reader_destroy(&reader->reader);
    assembly_clear(&reader->assembly);
    transport_close(&reader->transport);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* A path or bytes-like object may be of any class, and know the reader. */
static int reader_traverse(PyObject *self, visitproc visit, void *arg) {
    const ReaderObject *reader = reader_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(reader->transport.path);
    Py_VISIT(reader->transport.view.obj);
    for (uint32_t i = 0; i < reader->assembly.depth; i++) {
        Py_VISIT(reader->assembly.open[i].members);
    }
    return 0;
}

/* Gives everything back but the lock; the caller holds it. */
static void release_reader(ReaderObject *reader) {
    hurray_stream_reader_destroy(&reader->reader);
    assembly_clear(&reader->assembly);
    transport_release(&reader->transport);
}

/* As closed; nobody is in an operation, who would hold a reference. */
static int reader_clear(PyObject *self) {
    atomic_store(&reader_of(self)->transport.closed, true);
    release_reader(reader_of(self));
    return 0;
}

/* What a reader that was woken says: the end between items, a StreamError within one. */
static PyObject *fail_closed(CoreState *state, const ReaderObject *reader) {
    const uint64_t position = hurray_stream_reader_position(reader->reader);
    if (position == reader->start) return NULL;
    return PyErr_Format(
        state->StreamError,
        "closed while waiting at byte %llu, inside an item that begins at byte %llu",
        (unsigned long long)position, (unsigned long long)reader->start);
}

/* The next item, or NULL: at the end without an exception. */
static PyObject *read_item(CoreState *state, ReaderObject *reader) {
    PyObject *item = NULL;
    if (!assembly_is_sound(state, &reader->assembly)) return NULL;
    while (item == NULL) {
        HurrayStreamPart part;
        HurrayStatus status = hurray_stream_reader_next(reader->reader, &part);
        transport_attach(&reader->transport);
        if (status == HURRAY_ERR_CLOSED) return fail_closed(state, reader);
        if (status != HURRAY_OK) {
            return raise_status_for_path(state, status, reader->transport.path);
        }
        if (part.kind == HURRAY_STREAM_END) return NULL;
        if (!assembly_take(state, &reader->assembly, &part, &item)) return NULL;
    }
    reader->start = hurray_stream_reader_position(reader->reader);
    return item;
}

/* Ends an operation: whoever is the last in a reader that was closed gives everything back. */
static void leave(ReaderObject *reader) {
    Transport *transport = &reader->transport;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    bool closed;
    do {
        closed = atomic_load(&transport->closed);
        if (closed) release_reader(reader);
        transport_unlock(transport);
        /* One that closed it just before the unlocking has found it locked. */
    } while (!closed && atomic_load(&transport->closed) && transport_try_lock(transport));
    PyErr_Restore(type, value, traceback);
}

static PyObject *reader_next(PyObject *self) {
    ReaderObject *reader = reader_of(self);
    Transport *transport = &reader->transport;
    if (atomic_load(&transport->closed) || !transport_lock(transport)) return NULL;
    PyObject *item =
        atomic_load(&transport->closed) ? NULL : read_item(core_state_of(self), reader);
    leave(reader);
    return item;
}

PyDoc_STRVAR(
    close_doc,
    "close($self, /)\n--\n\n"
    "Stop reading; the stream is exhausted from now on. A source with fileno() stays open.\n\n"
    "From any thread: one that waits for an item stops iterating; inside an item it gets\n"
    "a StreamError.\n\n"
    ">>> import hurray\n"
    ">>> with hurray.StreamWriter() as writer:\n"
    "...     writer.write(hurray.arange(3))\n"
    ">>> reader = hurray.StreamReader(writer.getvalue())\n"
    ">>> reader.close()\n"
    ">>> list(reader)\n"
    "[]");

static PyObject *reader_close(PyObject *self, PyObject *unused) {
    (void)unused;
    ReaderObject *reader = reader_of(self);
    transport_interrupt(&reader->transport);
    if (transport_try_lock(&reader->transport)) leave(reader);
    Py_RETURN_NONE;
}

static PyObject *enter(PyObject *self, PyObject *unused) {
    (void)unused;
    return Py_NewRef(self);
}

static PyObject *reader_exit(PyObject *self, PyObject *args) {
    (void)args;
    return reader_close(self, NULL);
}

static PyMethodDef reader_methods[] = {
    {"close", reader_close, METH_NOARGS, close_doc},
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", reader_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef reader_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ReaderObject, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(
    reader_doc,
    "StreamReader(source, *, max_descriptor_bytes=16777216, max_buffer_bytes=None,\n"
    "             max_composite_depth=8, cross_machine=False)\n--\n\n"
    "Iterates over the tensors and composites of a stream (spec 5, 8.13).\n\n"
    "source: a path; an object with fileno() (a file, a pipe, a socket, sys.stdin.buffer), whose\n"
    "descriptor is duplicated, so that it stays open; a bytes-like object. An item is there as\n"
    "soon as its last byte is; waiting does not hold the GIL. What has arrived is read ahead, so\n"
    "the source is not to be read by others in between. A file object is read from where it is,\n"
    "and stays there when it is a regular file; one of text is refused, and one that compresses.\n"
    "Buffers are new memory, 64-aligned.\n\n"
    "Threads may share a reader: each item goes to one of them. A signal handler that raises\n"
    "stops next(), which may be called again; nothing is lost.\n\n"
    "Limits are checked before memory is allocated: bytes of a descriptor, bytes of one buffer\n"
    "(None: any, but memory grows with what arrives), levels of composites, 0 to 8.\n"
    "cross_machine: handles must be producer_synced.\n\n"
    "InvalidDescriptorError: a descriptor or composite is broken. StreamError, with byte counts:\n"
    "the stream ends inside an item, or is over a limit. FileError: the system refused.\n\n"
    ">>> import hurray\n"
    ">>> with hurray.StreamWriter() as writer:\n"
    "...     writer.write(hurray.ones((2, 2)))\n"
    ">>> with hurray.StreamReader(writer.getvalue()) as reader:\n"
    "...     t = next(reader)\n"
    ">>> t.shape\n"
    "(2, 2)");

static PyType_Slot reader_slots[] = {
    {Py_tp_traverse, reader_traverse}, {Py_tp_clear, reader_clear},
    {Py_tp_doc, (char *)reader_doc},   {Py_tp_new, reader_tp_new},
    {Py_tp_dealloc, reader_dealloc},   {Py_tp_methods, reader_methods},
    {Py_tp_members, reader_members},   {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, reader_next},     {0, NULL},
};

static PyType_Spec reader_spec = {
    .name = "hurray.StreamReader",
    .basicsize = sizeof(ReaderObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = reader_slots,
};

/* ---- a decoder that is fed ---- */

typedef struct DecoderObject {
    PyObject_HEAD HurrayStreamDecoder *decoder;
    Assembly assembly;
} DecoderObject;

static DecoderObject *decoder_of(PyObject *self) { return (DecoderObject *)self; }

static PyObject *decoder_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static const Signature signature = {"_StreamDecoder",
                                        {{"max_descriptor_bytes", ARGUMENT_KEYWORD_ONLY},
                                         {"max_buffer_bytes", ARGUMENT_KEYWORD_ONLY},
                                         {"max_composite_depth", ARGUMENT_KEYWORD_ONLY},
                                         {"cross_machine", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *values[COUNT] = {NULL};
    HurrayStreamOptions options;
    if (!arguments_parse_new(&signature, args, kwargs, values + MAX_DESCRIPTOR_BYTES) ||
        !read_options(values, &options)) {
        return NULL;
    }
    DecoderObject *self = PyObject_New(DecoderObject, type);
    if (self == NULL) return NULL;
    self->decoder = NULL;
    self->assembly.lost = false;
    self->assembly.depth = 0;
    HurrayStatus status = hurray_stream_decoder_create(&options, &self->decoder);
    if (status == HURRAY_OK) return (PyObject *)self;
    Py_DECREF(self);
    return raise_status(PyType_GetModuleState(type), status);
}

static void decoder_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    hurray_stream_decoder_destroy(&decoder_of(self)->decoder);
    assembly_clear(&decoder_of(self)->assembly);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Feeds until an item is complete or the bytes are used up; false with an exception. */
static bool feed_until_item(CoreState *state, DecoderObject *self, const Py_buffer *view,
                            size_t *used, PyObject **item) {
    *item = NULL;
    if (!assembly_is_sound(state, &self->assembly)) return false;
    while (*item == NULL && *used < (size_t)view->len) {
        HurrayStreamPart part;
        size_t taken = 0;
        HurrayStatus status =
            hurray_stream_decoder_push(self->decoder, (const uint8_t *)view->buf + *used,
                                       (size_t)view->len - *used, &taken, &part);
        if (status != HURRAY_OK) return raise_status(state, status) != NULL;
        *used += taken;
        if (part.kind == HURRAY_STREAM_MORE) continue;
        if (!assembly_take(state, &self->assembly, &part, item)) return false;
    }
    return true;
}

PyDoc_STRVAR(feed_doc, "feed($self, data, start=0, /)\n--\n\n"
                       "tuple: the item that bytes from `start` on complete, or None, and where "
                       "the next begin.");

static PyObject *feed(CoreState *state, DecoderObject *self, const Py_buffer *view,
                      Py_ssize_t start) {
    PyObject *item = NULL;
    size_t used = (size_t)start;
    if (start < 0 || start > view->len) {
        return PyErr_Format(PyExc_ValueError, "start is %zd; expected 0 to %zd", start, view->len);
    }
    if (!feed_until_item(state, self, view, &used, &item)) return NULL;
    return Py_BuildValue("(Nn)", item == NULL ? Py_NewRef(Py_None) : item, (Py_ssize_t)used);
}

/* One thread at a time, also where there is no GIL that sees to it. */
static PyObject *decoder_feed(PyObject *self, PyObject *args) {
    Py_buffer view;
    Py_ssize_t start = 0;
    PyObject *result;
    if (!PyArg_ParseTuple(args, "y*|n:feed", &view, &start)) return NULL;
#ifdef Py_GIL_DISABLED
    Py_BEGIN_CRITICAL_SECTION(self);
    result = feed(core_state_of(self), decoder_of(self), &view, start);
    Py_END_CRITICAL_SECTION();
#else
    result = feed(core_state_of(self), decoder_of(self), &view, start);
#endif
    PyBuffer_Release(&view);
    return result;
}

PyDoc_STRVAR(decoder_finish_doc, "finish($self, /)\n--\n\n"
                                 "The input has ended. StreamError inside an item.");

static PyObject *decoder_finish(PyObject *self, PyObject *unused) {
    (void)unused;
    HurrayStatus status = hurray_stream_decoder_finish(decoder_of(self)->decoder);
    if (status != HURRAY_OK) return raise_status(core_state_of(self), status);
    Py_RETURN_NONE;
}

static PyMethodDef decoder_methods[] = {
    {"feed", decoder_feed, METH_VARARGS, feed_doc},
    {"finish", decoder_finish, METH_NOARGS, decoder_finish_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(decoder_doc,
             "_StreamDecoder(*, max_descriptor_bytes=16777216, max_buffer_bytes=None,\n"
             "               max_composite_depth=8, cross_machine=False)\n--\n\n"
             "Items out of bytes that come in pieces, without I/O: what hurray.aio reads with.");

static PyType_Slot decoder_slots[] = {
    {Py_tp_doc, (char *)decoder_doc},
    {Py_tp_new, decoder_tp_new},
    {Py_tp_dealloc, decoder_dealloc},
    {Py_tp_methods, decoder_methods},
    {0, NULL},
};

static PyType_Spec decoder_spec = {
    .name = "hurray._core._StreamDecoder",
    .basicsize = sizeof(DecoderObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = decoder_slots,
};

int stream_reader_setup(PyObject *module, CoreState *state) {
    state->StreamReaderType = core_add_type(module, &reader_spec, NULL);
    if (state->StreamReaderType == NULL) return -1;
    PyTypeObject *decoder = core_add_type(module, &decoder_spec, NULL);
    Py_XDECREF(decoder); /* the module has it */
    return decoder == NULL ? -1 : 0;
}
