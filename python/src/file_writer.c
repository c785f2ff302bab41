/*
 * hurray.save underneath (spec 4.7, 8.12): tensors and composites into a file that is there when it is
 * whole. What Python is better at, arrays of others and progress bars, is in hurray/_files.py.
 */
#include "core.h"

#include "arguments.h"
#include "metadata.h"

typedef struct WriterObject {
    PyObject_HEAD HurrayFileWriter *writer;
    PyThreadState *saved; /* while the GIL is released */
    PyObject *path;
    bool busy;
} WriterObject;

static WriterObject *writer_of(PyObject *self) { return (WriterObject *)self; }

/* Called without the GIL, after a signal: runs the handlers. */
static bool handle_signals(void *context) {
    WriterObject *writer = context;
    PyEval_RestoreThread(writer->saved);
    bool go_on = PyErr_CheckSignals() == 0;
    writer->saved = PyEval_SaveThread();
    return go_on;
}

enum {
    PATH,
    KV,
    ALIGNMENT,
    SORTED_INDEX,
    CHECKSUMS,
    COUNT_HINT,
    ARGUMENT_COUNT
};

static const Signature writer_signature = {"_FileWriter",
                                           {{"path", ARGUMENT_REQUIRED},
                                            {"kv", ARGUMENT_KEYWORD_ONLY},
                                            {"alignment", ARGUMENT_KEYWORD_ONLY},
                                            {"sorted_index", ARGUMENT_KEYWORD_ONLY},
                                            {"checksums", ARGUMENT_KEYWORD_ONLY},
                                            {"count", ARGUMENT_KEYWORD_ONLY}}};

static bool read_options(PyObject *const *values, HurrayFileWriterOptions *options) {
    uint64_t alignment = HURRAY_FILE_MIN_ALIGNMENT;
    if (values[ALIGNMENT] != NULL && !argument_as_u64(values[ALIGNMENT], "alignment", &alignment)) {
        return false;
    }
    /* Which ones are valid the library knows; to it, 0 is the default. */
    if (alignment == 0 || alignment > HURRAY_FILE_MAX_ALIGNMENT) {
        argument_refuse(PyExc_ValueError, "alignment", values[ALIGNMENT],
                        "a power of two from 4096 to 2097152");
        return false;
    }
    options->alignment = (uint32_t)alignment;
    int sorted = argument_as_bool(values[SORTED_INDEX], false);
    int checksums = argument_as_bool(values[CHECKSUMS], false);
    if (sorted < 0 || checksums < 0) return false;
    options->sorted_index = sorted;
    options->checksums = checksums;
    return values[COUNT_HINT] == NULL ||
           argument_as_u64(values[COUNT_HINT], "count", &options->tensor_count);
}

static bool open_writer(CoreState *state, PyObject *const *values, WriterObject *self) {
    HurrayFileWriterOptions options = {.interrupted = handle_signals, .interrupt_context = self};
    HurrayKeyValues *metadata = NULL;
    PyObject *encoded = NULL;
    bool opened = false;
    if (!read_options(values, &options) || !PyUnicode_FSConverter(values[PATH], &encoded)) {
        return false;
    }
    if (metadata_from_dict(state, values[KV], &metadata)) {
        options.metadata = metadata;
        self->saved = PyEval_SaveThread();
        HurrayStatus status =
            hurray_file_writer_open(PyBytes_AS_STRING(encoded), &options, &self->writer);
        PyEval_RestoreThread(self->saved);
        opened = status == HURRAY_OK;
        if (!opened) raise_status_for_path(state, status, values[PATH]);
    }
    hurray_key_values_destroy(&metadata);
    Py_DECREF(encoded);
    return opened;
}

static PyObject *writer_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *values[ARGUMENT_COUNT];
    if (!arguments_parse_new(&writer_signature, args, kwargs, values)) return NULL;
    WriterObject *self = PyObject_New(WriterObject, type);
    if (self == NULL) return NULL;
    self->writer = NULL;
    self->path = Py_NewRef(values[PATH]);
    self->busy = false;
    if (open_writer(PyType_GetModuleState(type), values, self)) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static void writer_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    hurray_file_writer_destroy(&writer_of(self)->writer);
    Py_DECREF(writer_of(self)->path);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- adding ---- */

typedef struct Name {
    const char *text; /* NULL: what the library calls it */
    size_t length;
} Name;

static HurrayStatus add_item(CoreState *state, HurrayFileWriter *writer, Name name,
                             PyObject *item) {
    if (tensor_check(state, item)) {
        return hurray_file_writer_add(writer, name.text, name.length, tensor_of(item));
    }
    HurrayStatus status =
        hurray_file_writer_add_head(writer, name.text, name.length, composite_head(item));
    PyObject *members = composite_members(item);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(members) && status == HURRAY_OK; i++) {
        status = add_item(state, writer, (Name){NULL, 0}, PyTuple_GET_ITEM(members, i));
    }
    return status;
}

/* The same exception, with the name of the tensor before its message. */
static PyObject *raise_for_name(CoreState *state, HurrayStatus status, PyObject *path,
                                PyObject *name) {
    raise_status_for_path(state, status, path);
    if (status == HURRAY_ERR_IO || status == HURRAY_ERR_INTERRUPTED) return NULL;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_Format(type, "%.256R: %s", name, hurray_error_message());
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return NULL;
}

static bool begin(CoreState *state, WriterObject *writer) {
    if (!writer->busy && writer->writer != NULL) return writer->busy = true;
    PyErr_SetString(state->FileError, writer->busy ? "the file is being written by another thread"
                                                   : "the file is finished");
    return false;
}

/* Items and their names; what was read of them without exceptions is what the library is given. */
typedef struct Batch {
    size_t count;
    PyObject *const *names; /* [count], as is the rest */
    PyObject *const *items;
    HurrayFileItem *arguments; /* tensor NULL: a composite */
} Batch;

static bool read_item(CoreState *state, PyObject *name, PyObject *item, HurrayFileItem *out) {
    Py_ssize_t length = 0;
    if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "a name is %.200s; expected str", Py_TYPE(name)->tp_name);
        return false;
    }
    bool is_tensor = tensor_check(state, item);
    if (!is_tensor && !composite_check(state, item)) {
        PyErr_Format(PyExc_TypeError, "%R is %.200s; expected a Tensor or a Composite", name,
                     Py_TYPE(item)->tp_name);
        return false;
    }
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    *out = (HurrayFileItem){text, (size_t)length, is_tensor ? tensor_of(item) : NULL};
    return text != NULL;
}

/* Without the GIL: runs of tensors at once, composites one by one. `out_added` items came before one
 * that is refused: all of them, maybe, where it was the sink that failed. */
static HurrayStatus add_batch(CoreState *state, HurrayFileWriter *writer, const Batch *batch,
                              size_t *out_added) {
    HurrayStatus status = HURRAY_OK;
    size_t done = 0;
    while (done < batch->count && status == HURRAY_OK) {
        const HurrayFileItem *first = &batch->arguments[done];
        size_t run = 0, added = 0;
        while (done + run < batch->count && first[run].tensor != NULL) run++;
        if (run != 0) {
            status = hurray_file_writer_add_many(writer, first, run, &added);
        } else {
            status = add_item(state, writer, (Name){first->name, first->name_length},
                              batch->items[done]);
            added = status == HURRAY_OK;
        }
        done += added;
    }
    *out_added = done;
    return status;
}

static PyObject *write_batch(CoreState *state, WriterObject *writer, const Batch *batch) {
    size_t added = 0;
    for (size_t i = 0; i < batch->count; i++) {
        if (!read_item(state, batch->names[i], batch->items[i], &batch->arguments[i])) return NULL;
    }
    if (!begin(state, writer)) return NULL;
    writer->saved = PyEval_SaveThread();
    HurrayStatus status = add_batch(state, writer->writer, batch, &added);
    PyEval_RestoreThread(writer->saved);
    writer->busy = false;
    if (status != HURRAY_OK) {
        size_t refused = added < batch->count ? added : batch->count - 1; /* none fails of none */
        return raise_for_name(state, status, writer->path, batch->names[refused]);
    }
    return PyLong_FromUnsignedLongLong(hurray_file_writer_position(writer->writer));
}

PyDoc_STRVAR(add_doc, "add($self, name, item, /)\n--\n\n"
                      "int: bytes of the file so far, with a Tensor or Composite added.");

static PyObject *writer_add(PyObject *self, PyObject *args) {
    PyObject *name, *item;
    HurrayFileItem argument;
    if (!PyArg_ParseTuple(args, "UO:add", &name, &item)) return NULL;
    const Batch batch = {1, &name, &item, &argument};
    return write_batch(core_state_of(self), writer_of(self), &batch);
}

PyDoc_STRVAR(add_many_doc, "add_many($self, names, items, /)\n--\n\n"
                           "int: the same for a tuple of items; small ones are written together.");

static PyObject *writer_add_many(PyObject *self, PyObject *args) {
    PyObject *names, *items;
    if (!PyArg_ParseTuple(args, "O!O!:add_many", &PyTuple_Type, &names, &PyTuple_Type, &items)) {
        return NULL;
    }
    size_t count = (size_t)PyTuple_GET_SIZE(items);
    if (PyTuple_GET_SIZE(names) != PyTuple_GET_SIZE(items)) {
        return PyErr_Format(PyExc_ValueError, "%zd names of %zd items", PyTuple_GET_SIZE(names),
                            PyTuple_GET_SIZE(items));
    }
    HurrayFileItem *arguments = PyMem_New(HurrayFileItem, count + 1);
    if (arguments == NULL) return PyErr_NoMemory();
    const Batch batch = {count, PySequence_Fast_ITEMS(names), PySequence_Fast_ITEMS(items),
                         arguments};
    PyObject *position = write_batch(core_state_of(self), writer_of(self), &batch);
    PyMem_Free(arguments);
    return position;
}

PyDoc_STRVAR(finish_doc, "finish($self, /)\n--\n\n"
                         "Write the index, flush, and give the file its name.");

static PyObject *writer_finish(PyObject *self, PyObject *unused) {
    (void)unused;
    CoreState *state = core_state_of(self);
    WriterObject *writer = writer_of(self);
    if (!begin(state, writer)) return NULL;
    writer->saved = PyEval_SaveThread();
    HurrayStatus status = hurray_file_writer_finish(writer->writer);
    if (status == HURRAY_OK) hurray_file_writer_destroy(&writer->writer);
    PyEval_RestoreThread(writer->saved);
    writer->busy = false;
    if (status != HURRAY_OK) return raise_status_for_path(state, status, writer->path);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(abandon_doc, "abandon($self, /)\n--\n\n"
                          "Remove what was written, unless it is finished.");

static PyObject *writer_abandon(PyObject *self, PyObject *unused) {
    (void)unused;
    WriterObject *writer = writer_of(self);
    if (writer->writer != NULL && !writer->busy) hurray_file_writer_destroy(&writer->writer);
    Py_RETURN_NONE;
}

static PyMethodDef writer_methods[] = {
    {"add", writer_add, METH_VARARGS, add_doc},
    {"add_many", writer_add_many, METH_VARARGS, add_many_doc},
    {"finish", writer_finish, METH_NOARGS, finish_doc},
    {"abandon", writer_abandon, METH_NOARGS, abandon_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(writer_doc,
             "_FileWriter(path, *, kv=None, alignment=4096, sorted_index=False, checksums=False,\n"
             "            count=None)\n--\n\n"
             "A file in the making: what hurray.save writes with.");

static PyType_Slot writer_slots[] = {
    {Py_tp_doc, (char *)writer_doc},
    {Py_tp_new, writer_tp_new},
    {Py_tp_dealloc, writer_dealloc},
    {Py_tp_methods, writer_methods},
    {0, NULL},
};

static PyType_Spec writer_spec = {
    .name = "hurray._core._FileWriter",
    .basicsize = sizeof(WriterObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = writer_slots,
};

PyDoc_STRVAR(check_metadata_doc, "_check_metadata($module, kv, /)\n--\n\n"
                                 "Raises what save would raise for such metadata.");

static PyObject *check_metadata(PyObject *module, PyObject *dict) {
    HurrayKeyValues *list = NULL;
    if (!metadata_from_dict(core_state_of_module(module), dict, &list)) return NULL;
    hurray_key_values_destroy(&list);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_check_metadata", check_metadata, METH_O, check_metadata_doc},
    {NULL, NULL, 0, NULL},
};

int file_writer_setup(PyObject *module, CoreState *state) {
    (void)state;
    PyTypeObject *type = core_add_type(module, &writer_spec, NULL);
    if (type == NULL) return -1;
    Py_DECREF(type); /* the module has it */
    return PyModule_AddFunctions(module, functions);
}
