/*
 * hurray.StreamWriter (spec 5, 8.13): tensors and composites, one after another, into a file, a pipe, a
 * socket or memory; and the encoder underneath hurray.aio, which hands out pieces instead.
 */
#include "core.h"

#include <structmember.h>

#include "arguments.h"
#include "transport.h"

typedef struct WriterObject {
    PyObject_HEAD HurrayStreamWriter *writer;
    Transport transport;
    PyObject *weak_references;
} WriterObject;

static WriterObject *writer_of(PyObject *self) { return (WriterObject *)self; }

/* ---- items ---- */

/* Whether all of an item can be written, before any of it is: what was begun must be ended. */
static bool check_item(CoreState *state, PyObject *item) {
    if (tensor_check(state, item)) {
        HurrayStatus status = hurray_tensor_check_readable(tensor_of(item), true);
        return status == HURRAY_OK || raise_status(state, status) != NULL;
    }
    if (!composite_check(state, item)) {
        PyErr_Format(PyExc_TypeError, "item is %.200s; expected a Tensor or a Composite",
                     Py_TYPE(item)->tp_name);
        return false;
    }
    PyObject *members = composite_members(item);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(members); i++) {
        if (!check_item(state, PyTuple_GET_ITEM(members, i))) return false;
    }
    return true;
}

/* A Composite is as deep as the format allows, which bounds the recursion. `*at_hand` is the tensor
 * that the sink is given pieces of; NULL: a head. */
static HurrayStatus write_item(CoreState *state, HurrayStreamWriter *writer, PyObject *item,
                               HurrayTensor **at_hand) {
    *at_hand = tensor_check(state, item) ? tensor_of(item) : NULL;
    if (*at_hand != NULL) return hurray_stream_writer_write(writer, *at_hand);
    HurrayStatus status = hurray_stream_writer_write_head(writer, composite_head(item));
    PyObject *members = composite_members(item);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(members) && status == HURRAY_OK; i++) {
        status = write_item(state, writer, PyTuple_GET_ITEM(members, i), at_hand);
    }
    return status;
}

/* ---- StreamWriter ---- */

static bool make_writer(CoreState *state, const HurraySink *sink, PyObject *cross_machine,
                        HurrayStreamWriter **out) {
    int across = argument_as_bool(cross_machine, false);
    if (across < 0) return false;
    const HurrayStreamWriterOptions options = {.cross_machine = across};
    HurrayStatus status = hurray_stream_writer_create(sink, &options, out);
    return status == HURRAY_OK || raise_status(state, status) != NULL;
}

static PyObject *writer_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static const Signature signature = {
        "StreamWriter", {{"destination", 0}, {"cross_machine", ARGUMENT_KEYWORD_ONLY}}};
    CoreState *state = PyType_GetModuleState(type);
    PyObject *values[2];
    if (!arguments_parse_new(&signature, args, kwargs, values)) return NULL;
    WriterObject *self = PyObject_GC_New(WriterObject, type);
    if (self == NULL) return NULL;
    self->writer = NULL;
    self->weak_references = NULL;
    self->transport = (Transport)TRANSPORT_CLOSED;
    bool made = transport_open_for_writing(state, values[0], &self->transport);
    if (made) {
        const HurraySink sink = transport_sink(&self->transport);
        made = make_writer(state, &sink, values[1], &self->writer);
    }
    PyObject_GC_Track((PyObject *)self);
    if (made) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

/* A path may be an object of any class, and know the writer. */
static int writer_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(writer_of(self)->transport.path);
    return 0;
}

static int writer_clear(PyObject *self) {
    Py_CLEAR(writer_of(self)->transport.path);
    return 0;
}

static void writer_dealloc(PyObject *self) {
    WriterObject *writer = writer_of(self);
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (writer->weak_references != NULL) PyObject_ClearWeakRefs(self);
    hurray_stream_writer_destroy(&writer->writer);
    transport_close(&writer->transport);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* What a writer says that a signal handler has stopped: the exception of the handler at first. */
static PyObject *fail_write(CoreState *state, WriterObject *writer, HurrayStatus status) {
    if (status == HURRAY_ERR_INTERRUPTED && !PyErr_Occurred()) {
        PyErr_SetString(state->StreamError,
                        "an earlier write was interrupted: the stream ends inside an item");
        return NULL;
    }
    return raise_status_for_path(state, status, writer->transport.path);
}

PyDoc_STRVAR(
    write_doc,
    "write($self, item, /)\n--\n\n"
    "Write a Tensor or Composite, all of it (spec 5).\n\n"
    "Its bytes go out from where they are; waiting, for a slow reader too, does not hold\n"
    "the GIL. UnsupportedError, with nothing written: memory of a device, or buffers that\n"
    "are not producer_synced. StreamError after finish(); FileError: the system refused,\n"
    "and the stream ends inside an item. TypeError: something else.\n\n"
    ">>> import hurray\n"
    ">>> writer = hurray.StreamWriter()\n"
    ">>> writer.write(hurray.arange(3))\n"
    ">>> writer.write([1, 2])\n"
    "Traceback (most recent call last):\n"
    "TypeError: item is list; expected a Tensor or a Composite");

static PyObject *writer_write(PyObject *self, PyObject *item) {
    CoreState *state = core_state_of(self);
    WriterObject *writer = writer_of(self);
    HurrayTensor *at_hand;
    if (!check_item(state, item) || !transport_lock(&writer->transport)) return NULL;
    HurrayStatus status = write_item(state, writer->writer, item, &at_hand);
    transport_unlock(&writer->transport);
    if (status != HURRAY_OK) return fail_write(state, writer, status);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(finish_doc, "finish($self, /)\n--\n\n"
                         "No more will be written; closes what this writer opened. A second time "
                         "is fine.\n\n"
                         ">>> import hurray\n"
                         ">>> writer = hurray.StreamWriter()\n"
                         ">>> writer.finish()\n"
                         ">>> writer.write(hurray.arange(3))\n"
                         "Traceback (most recent call last):\n"
                         "hurray.StreamError: the stream is finished: nothing more can be "
                         "written");

static PyObject *writer_finish(PyObject *self, PyObject *unused) {
    (void)unused;
    WriterObject *writer = writer_of(self);
    if (!transport_lock(&writer->transport)) return NULL;
    HurrayStatus status = hurray_stream_writer_finish(writer->writer);
    if (status != HURRAY_OK) fail_write(core_state_of(self), writer, status);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    bool closed = transport_close_file(core_state_of(self), &writer->transport);
    if (type != NULL) PyErr_Restore(type, value, traceback);
    transport_unlock(&writer->transport);
    if (status != HURRAY_OK || !closed) return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(getvalue_doc, "getvalue($self, /)\n--\n\n"
                           "bytes: all that was written into memory so far, a copy.\n\n"
                           "StreamError for a writer with a destination.\n\n"
                           ">>> import hurray\n"
                           ">>> writer = hurray.StreamWriter()\n"
                           ">>> writer.write(hurray.arange(3))\n"
                           ">>> len(writer.getvalue()) == writer.position\n"
                           "True");

static PyObject *writer_getvalue(PyObject *self, PyObject *unused) {
    (void)unused;
    Transport *transport = &writer_of(self)->transport;
    if (!transport->to_memory) {
        PyErr_SetString(core_state_of(self)->StreamError,
                        "getvalue() is for a StreamWriter without a destination");
        return NULL;
    }
    if (!transport_lock(transport)) return NULL;
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)transport->memory.bytes,
                                                (Py_ssize_t)transport->memory.size);
    transport_unlock(transport);
    return bytes;
}

static PyObject *enter(PyObject *self, PyObject *unused) {
    (void)unused;
    return Py_NewRef(self);
}

/* After an exception in the block, what went wrong there is what the caller hears of. */
static PyObject *writer_exit(PyObject *self, PyObject *args) {
    bool failed = PyTuple_GET_SIZE(args) > 0 && PyTuple_GET_ITEM(args, 0) != Py_None;
    PyObject *result = writer_finish(self, NULL);
    if (result != NULL || !failed) return result;
    PyErr_Clear();
    Py_RETURN_NONE;
}

static PyObject *writer_position(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLongLong(hurray_stream_writer_position(writer_of(self)->writer));
}

static PyMethodDef writer_methods[] = {
    {"write", writer_write, METH_O, write_doc},
    {"finish", writer_finish, METH_NOARGS, finish_doc},
    {"getvalue", writer_getvalue, METH_NOARGS, getvalue_doc},
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", writer_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef writer_getset[] = {
    {"position", writer_position, NULL, "int: bytes written so far.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef writer_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(WriterObject, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(
    writer_doc,
    "StreamWriter(destination=None, *, cross_machine=False)\n--\n\n"
    "Writes tensors one after another (spec 5, 8.13).\n\n"
    "destination: a path, which is created or emptied; an object with fileno() (a file, a pipe,\n"
    "a socket, sys.stdout.buffer), whose descriptor is duplicated, so that it stays open; None:\n"
    "memory, see getvalue(). What a file object has kept back is flushed first; one of text is\n"
    "refused, and one that compresses. cross_machine: the reader is elsewhere, buffers must be\n"
    "producer_synced. A context manager that finishes. Threads may share it: items do not mix.\n"
    "A signal handler that raises stops a write that waits; the stream then ends inside an "
    "item.\n\n"
    ">>> import hurray\n"
    ">>> with hurray.StreamWriter() as writer:\n"
    "...     writer.write(hurray.arange(3))\n"
    ">>> [t.shape for t in hurray.StreamReader(writer.getvalue())]\n"
    "[(3,)]");

static PyType_Slot writer_slots[] = {
    {Py_tp_traverse, writer_traverse},
    {Py_tp_clear, writer_clear},
    {Py_tp_doc, (char *)writer_doc},
    {Py_tp_new, writer_tp_new},
    {Py_tp_dealloc, writer_dealloc},
    {Py_tp_methods, writer_methods},
    {Py_tp_getset, writer_getset},
    {Py_tp_members, writer_members},
    {0, NULL},
};

static PyType_Spec writer_spec = {
    .name = "hurray.StreamWriter",
    .basicsize = sizeof(WriterObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = writer_slots,
};

/* ---- pieces, for an event loop to write ---- */

/* What a sink is given for one tensor or head becomes a list: the descriptor as bytes, each buffer as
 * a view that keeps the tensor alive. */
typedef struct Pieces {
    CoreState *state;
    PyObject *list;
    HurrayTensor *tensor; /* of which the pieces are; NULL: a head */
} Pieces;

/* A memoryview of buffer `index`, or a copy where nobody may see its address. */
static PyObject *buffer_piece(Pieces *pieces, uint32_t index, HurrayBytes bytes) {
    const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(pieces->tensor, index));
    if ((info->flags & HURRAY_BUFFER_STAGED_ON_HOST) != 0) {
        return PyBytes_FromStringAndSize((const char *)bytes.data, (Py_ssize_t)bytes.size);
    }
    HurrayTensor *view = NULL;
    HurrayStatus status = hurray_tensor_buffer_view(pieces->tensor, index, &view);
    if (status != HURRAY_OK) return raise_status(pieces->state, status);
    PyObject *wrapped = tensor_wrap(pieces->state, view);
    PyObject *memory = wrapped == NULL ? NULL : PyMemoryView_FromObject(wrapped);
    Py_XDECREF(wrapped);
    return memory;
}

static bool append(PyObject *list, PyObject *item) {
    bool appended = item != NULL && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return appended;
}

/* The first piece is the descriptor; the rest are the buffers, in order. */
static HurrayStatus collect(const HurrayBytes *given, uint32_t count, void *context) {
    Pieces *pieces = context;
    for (uint32_t i = 0; i < count; i++) {
        PyObject *piece = i == 0 ? PyBytes_FromStringAndSize((const char *)given[0].data,
                                                             (Py_ssize_t)given[0].size)
                                 : buffer_piece(pieces, i - 1, given[i]);
        if (!append(pieces->list, piece)) return HURRAY_ERR_INTERRUPTED; /* with an exception */
    }
    return HURRAY_OK;
}

PyDoc_STRVAR(pieces_doc, "_stream_pieces($module, item, /, *, cross_machine=False)\n--\n\n"
                         "list: the bytes of an item of a stream, as objects with the buffer\n"
                         "protocol; buffers are shared, not copied. What hurray.aio writes.");

static PyObject *stream_pieces(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *kwnames) {
    static const Signature signature = {
        "_stream_pieces", {{"item", ARGUMENT_REQUIRED}, {"cross_machine", ARGUMENT_KEYWORD_ONLY}}};
    CoreState *state = core_state_of_module(module);
    PyObject *values[2];
    HurrayStreamWriter *writer = NULL;
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    if (!check_item(state, values[0])) return NULL;
    Pieces pieces = {.state = state, .list = PyList_New(0)};
    const HurraySink sink = {collect, &pieces};
    bool collected = pieces.list != NULL && make_writer(state, &sink, values[1], &writer);
    if (collected) {
        HurrayStatus status = write_item(state, writer, values[0], &pieces.tensor);
        collected = status == HURRAY_OK || raise_status(state, status) != NULL;
    }
    hurray_stream_writer_destroy(&writer);
    if (!collected) Py_CLEAR(pieces.list);
    return pieces.list;
}

static PyMethodDef functions[] = {
    {"_stream_pieces", CORE_METHOD(stream_pieces), METH_FASTCALL | METH_KEYWORDS, pieces_doc},
    {NULL, NULL, 0, NULL},
};

int stream_writer_setup(PyObject *module, CoreState *state) {
    state->StreamWriterType = core_add_type(module, &writer_spec, NULL);
    if (state->StreamWriterType == NULL) return -1;
    return PyModule_AddFunctions(module, functions);
}
