/*
 * hurray.open and hurray.load underneath (spec 4.6, 8.12): a file of named tensors, mapped, read, in
 * memory, or behind a callable. What Python is better at, remote paths and being a Mapping, is in
 * hurray/_files.py.
 */
#include "core.h"

#include "arguments.h"
#include "metadata.h"

typedef struct ReaderObject {
    PyObject_HEAD HurrayFileReader *reader;
    PyObject *source;  /* what it was made of: for messages, and kept alive */
    PyObject *read_at; /* of a source behind a callable; NULL */
    bool closed;
    int users; /* calls that are going on; the last one closes */
} ReaderObject;

static ReaderObject *reader_of(PyObject *self) { return (ReaderObject *)self; }

/* ---- a source behind a callable ---- */

/* Bytes that are asked for at once: what a copy may cost beyond the tensor. */
#define PIECE_BYTES ((size_t)8 << 20)

static HurrayStatus read_piece(PyObject *read_at, uint64_t offset, uint8_t *bytes, size_t size) {
    PyObject *piece =
        PyObject_CallFunction(read_at, "Kn", (unsigned long long)offset, (Py_ssize_t)size);
    Py_buffer view;
    if (piece == NULL) return HURRAY_ERR_INTERRUPTED;
    int got = PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE);
    Py_DECREF(piece);
    if (got < 0) return HURRAY_ERR_INTERRUPTED;
    bool whole = (size_t)view.len == size;
    if (whole) {
        memcpy(bytes, view.buf, size);
    } else {
        PyErr_Format(PyExc_EOFError, "%zd bytes at offset %llu; expected %zu", view.len,
                     (unsigned long long)offset, size);
    }
    PyBuffer_Release(&view);
    return whole ? HURRAY_OK : HURRAY_ERR_INTERRUPTED;
}

/* Called with the GIL, which the library keeps around it; Python code releases it. An exception is left
 * in place. */
static HurrayStatus read_by_call(uint64_t offset, uint8_t *bytes, size_t size, void *context) {
    HurrayStatus status = HURRAY_OK;
    while (size > 0 && status == HURRAY_OK) {
        size_t piece = size < PIECE_BYTES ? size : PIECE_BYTES;
        status = read_piece(context, offset, bytes, piece);
        offset += piece;
        bytes += piece;
        size -= piece;
    }
    return status;
}

/* ---- the GIL ---- */

/* Of a thread that is in a call without the GIL; NULL with it. */
static _Thread_local PyThreadState *saved_state;

static bool calls_python(const ReaderObject *reader) {
    return reader->read_at != NULL && !PyMemoryView_Check(reader->read_at);
}

/* Around a call that reads: whoever calls back into Python keeps the GIL. */
static PyThreadState *allow_threads(const ReaderObject *reader) {
    if (calls_python(reader)) return NULL;
    return saved_state = PyEval_SaveThread();
}

static void end_allow_threads(PyThreadState *saved) {
    if (saved == NULL) return;
    saved_state = NULL;
    PyEval_RestoreThread(saved);
}

/* Called between pieces of what is read: a long load can be interrupted. */
static bool handle_signals(void *context) {
    (void)context;
    PyThreadState *saved = saved_state;
    if (saved == NULL) return true; /* Python code runs anyway */
    end_allow_threads(saved);
    bool go_on = PyErr_CheckSignals() == 0;
    saved_state = PyEval_SaveThread();
    return go_on;
}

/* ---- errors ---- */

/* An exception of the callable becomes the cause of a FileError; OSErrors keep their number. */
static PyObject *raise_call_failure(CoreState *state) {
    PyObject *type, *value, *traceback;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return NULL; /* KeyboardInterrupt and the like */
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL) PyException_SetTraceback(value, traceback);
    PyObject *number = PyObject_GetAttrString(value, "errno");
    if (number == NULL) PyErr_Clear();
    PyObject *text = PyObject_Str(value);
    PyObject *error = text == NULL ? NULL
                      : number != NULL && number != Py_None
                          ? PyObject_CallFunction(state->FileError, "OO", number, text)
                          : PyObject_CallFunction(state->FileError, "O", text);
    if (error != NULL) {
        PyException_SetCause(error, Py_NewRef(value));
        PyErr_SetObject(state->FileError, error);
    }
    Py_XDECREF(error);
    Py_XDECREF(text);
    Py_XDECREF(number);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return NULL;
}

static PyObject *raise_failure(CoreState *state, const ReaderObject *reader, HurrayStatus status) {
    if (status == HURRAY_ERR_INTERRUPTED && PyErr_Occurred()) {
        return calls_python(reader) ? raise_call_failure(state) : NULL;
    }
    PyObject *path = PyObject_CheckBuffer(reader->source) || PyTuple_Check(reader->source) ||
                             PyLong_Check(reader->source)
                         ? NULL
                         : reader->source;
    return raise_status_for_path(state, status, path);
}

/* ---- opening ---- */

/* Over a bytes-like object: shared where it is 64-aligned, else NULL without an exception. */
static HurrayBuffer *buffer_over(CoreState *state, PyObject *object) {
    PyObject *view = PyMemoryView_FromObject(object);
    if (view == NULL) return NULL;
    const Py_buffer *memory = PyMemoryView_GET_BUFFER(view);
    HurrayBuffer *buffer = NULL;
    uint32_t alignment = hurray_measured_alignment(memory->buf);
    if (!PyBuffer_IsContiguous(memory, 'C')) {
        PyErr_SetString(state->BufferError, "source is not contiguous");
    } else if (memory->len > 0 && alignment >= HURRAY_MIN_BUFFER_ALIGNMENT) {
        const HurrayBufferInfo info = {.data = memory->buf,
                                       .byte_size = (uint64_t)memory->len,
                                       .alignment = alignment,
                                       .flags = memory->readonly ? HURRAY_BUFFER_READ_ONLY : 0};
        void *owner = owner_new(view);
        if (owner != NULL) {
            HurrayStatus status = hurray_buffer_create(&info, owner_release, owner, &buffer);
            if (status != HURRAY_OK) {
                owner_discard(owner);
                raise_status(state, status);
            }
        }
    }
    Py_DECREF(view);
    return buffer;
}

static HurrayStatus read_view(uint64_t offset, uint8_t *bytes, size_t size, void *context) {
    const Py_buffer *memory = PyMemoryView_GET_BUFFER((PyObject *)context);
    memcpy(bytes, (const char *)memory->buf + offset, size);
    return HURRAY_OK;
}

/* Bytes that are not aligned are read, as a file would be. */
static HurrayStatus open_unaligned(ReaderObject *self, PyObject *object,
                                   const HurrayFileReaderOptions *options) {
    self->read_at = PyMemoryView_FromObject(object);
    if (self->read_at == NULL) return HURRAY_ERR_INTERRUPTED;
    const HurrayRandomAccess access = {(uint64_t)PyMemoryView_GET_BUFFER(self->read_at)->len,
                                       read_view, self->read_at, true};
    return hurray_file_reader_open_callbacks(&access, options, &self->reader);
}

static HurrayStatus open_memory(CoreState *state, ReaderObject *self, PyObject *object,
                                const HurrayFileReaderOptions *options) {
    HurrayBuffer *buffer = buffer_over(state, object);
    if (buffer == NULL) {
        return PyErr_Occurred() ? HURRAY_ERR_INTERRUPTED : open_unaligned(self, object, options);
    }
    HurrayStatus status = hurray_file_reader_open_memory(buffer, options, &self->reader);
    hurray_buffer_destroy(buffer);
    return status;
}

static HurrayStatus open_callable(ReaderObject *self, PyObject *pair,
                                  HurrayFileReaderOptions options) {
    uint64_t size;
    PyObject *length, *read_at;
    if (!PyArg_ParseTuple(pair, "OO", &length, &read_at) ||
        !argument_as_u64(length, "the size of source", &size)) {
        return HURRAY_ERR_INTERRUPTED;
    }
    self->read_at = Py_NewRef(read_at);
    options.access = HURRAY_FILE_READ;
    /* Concurrent, so that the library takes no lock around a call in which the GIL changes hands: a
     * thread that waits for such a lock with the GIL would wait forever. read_at brings its own. */
    const HurrayRandomAccess access = {size, read_by_call, read_at, true};
    return hurray_file_reader_open_callbacks(&access, &options, &self->reader);
}

static HurrayStatus open_path(ReaderObject *self, PyObject *object,
                              const HurrayFileReaderOptions *options) {
    PyObject *encoded;
    HurrayStatus status;
    if (!PyUnicode_FSConverter(object, &encoded)) return HURRAY_ERR_INTERRUPTED;
    Py_BEGIN_ALLOW_THREADS
    status = hurray_file_reader_open(PyBytes_AS_STRING(encoded), options, &self->reader);
    Py_END_ALLOW_THREADS
    Py_DECREF(encoded);
    return status;
}

static HurrayStatus open_source(CoreState *state, ReaderObject *self, PyObject *source,
                                const HurrayFileReaderOptions *options) {
    HurrayStatus status;
    if (PyTuple_Check(source)) return open_callable(self, source, *options);
    if (PyLong_Check(source)) {
        int descriptor = PyObject_AsFileDescriptor(source);
        if (descriptor < 0) return HURRAY_ERR_INTERRUPTED;
        Py_BEGIN_ALLOW_THREADS
        status = hurray_file_reader_open_descriptor(descriptor, options, &self->reader);
        Py_END_ALLOW_THREADS
        return status;
    }
    if (PyObject_CheckBuffer(source)) return open_memory(state, self, source, options);
    return open_path(self, source, options);
}

/* mmap: True, False or "r". */
static bool read_access(PyObject *object, HurrayFileAccess *out) {
    *out = HURRAY_FILE_MAP;
    if (object == NULL) return true;
    if (PyUnicode_Check(object)) {
        *out = HURRAY_FILE_MAP_READ_ONLY;
        if (PyUnicode_CompareWithASCIIString(object, "r") == 0) return true;
        argument_refuse(PyExc_ValueError, "mmap", object, "True, False or 'r'");
        return false;
    }
    int truth = PyObject_IsTrue(object);
    if (truth == 0) *out = HURRAY_FILE_READ;
    return truth >= 0;
}

static PyObject *reader_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static const Signature signature = {"_FileReader",
                                        {{"source", ARGUMENT_REQUIRED | ARGUMENT_KEEP_NONE},
                                         {"mmap", ARGUMENT_KEYWORD_ONLY},
                                         {"prefetch", ARGUMENT_KEYWORD_ONLY},
                                         {"check_size", ARGUMENT_KEYWORD_ONLY}}};
    CoreState *state = PyType_GetModuleState(type);
    PyObject *values[4];
    HurrayFileReaderOptions options = {.access = HURRAY_FILE_MAP, .interrupted = handle_signals};
    if (!arguments_parse_new(&signature, args, kwargs, values)) return NULL;
    int prefetch = argument_as_bool(values[2], false);
    int check_size = argument_as_bool(values[3], false);
    if (prefetch < 0 || check_size < 0 || !read_access(values[1], &options.access)) return NULL;
    options.prefetch = prefetch;
    options.check_size = check_size;
    ReaderObject *self = PyObject_GC_New(ReaderObject, type);
    if (self == NULL) return NULL;
    self->reader = NULL;
    self->source = Py_NewRef(values[0]);
    self->read_at = NULL;
    self->closed = false;
    self->users = 0;
    HurrayStatus status = open_source(state, self, values[0], &options);
    PyObject_GC_Track((PyObject *)self);
    if (status == HURRAY_OK) return (PyObject *)self;
    raise_failure(state, self, status);
    Py_DECREF(self);
    return NULL;
}

/* A callable knows a file object, which may know the exception that it raised, whose frames know the
 * reader. */
static int reader_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(reader_of(self)->source);
    Py_VISIT(reader_of(self)->read_at);
    return 0;
}

static int reader_clear(PyObject *self) {
    ReaderObject *reader = reader_of(self);
    reader->closed = true;
    hurray_file_reader_destroy(&reader->reader);
    Py_CLEAR(reader->source);
    Py_CLEAR(reader->read_at);
    return 0;
}

static void reader_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    reader_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* ---- one call ---- */

static bool begin(CoreState *state, ReaderObject *reader) {
    if (reader->closed) {
        PyErr_SetString(state->FileError, "the file is closed");
        return false;
    }
    reader->users++;
    return true;
}

static void end(ReaderObject *reader) {
    if (--reader->users == 0 && reader->closed) hurray_file_reader_destroy(&reader->reader);
}

static bool miss(CoreState *state, PyObject *name) {
    PyErr_Format(state->MissingName, "no tensor %.256R: a name is text without surrogates", name);
    return false;
}

/* The entry of a name; MissingName without one. */
static bool find(CoreState *state, const ReaderObject *reader, PyObject *name, uint64_t *out) {
    Py_ssize_t length;
    if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "name is %.200s; expected str", Py_TYPE(name)->tp_name);
        return false;
    }
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    if (text == NULL) {
        return PyErr_ExceptionMatches(PyExc_UnicodeEncodeError) ? miss(state, name) : false;
    }
    HurrayStatus status = hurray_file_reader_find(reader->reader, text, (size_t)length, out);
    return status == HURRAY_OK || raise_failure(state, reader, status) != NULL;
}

static PyObject *entry_name(const HurrayFileEntry *entry) {
    return PyUnicode_DecodeUTF8(entry->name, (Py_ssize_t)entry->name_length, NULL);
}

/* ---- many tensors at once ---- */

/* The head of a composite among the tensors of a batch. */
typedef struct BatchHead {
    HurrayDescriptor *descriptor;
    uint64_t before; /* tensors in front of it */
} BatchHead;

/*
 * Items to read: their tensors and heads, in the order of the file, which are then taken one after
 * another. Each head is looked at once: another look might find another, where a file object lies or
 * somebody writes into the file.
 */
typedef struct Batch {
    CoreState *state;
    ReaderObject *reader;
    uint64_t *indices; /* of tensors */
    uint64_t count, capacity;
    BatchHead *heads;
    uint64_t head_count, head_capacity;
    HurrayTensor **tensors; /* [count] */
    uint64_t taken, heads_taken;
} Batch;

/* Room for one more element of `size` bytes in an array of raw memory. */
static bool reserve(void *array, size_t size, uint64_t count, uint64_t *capacity) {
    void *old, *grown;
    if (count < *capacity) return true;
    uint64_t more = *capacity == 0 ? 64 : 2 * *capacity;
    memcpy(&old, array, sizeof old);
    grown = PyMem_RawRealloc(old, (size_t)more * size);
    if (grown == NULL) return PyErr_NoMemory() != NULL;
    memcpy(array, &grown, sizeof grown);
    *capacity = more;
    return true;
}

static bool batch_add(Batch *batch, uint64_t index) {
    if (!reserve(&batch->indices, sizeof *batch->indices, batch->count, &batch->capacity)) {
        return false;
    }
    batch->indices[batch->count++] = index;
    return true;
}

/* Takes `head` over, also when it fails. */
static bool batch_add_head(Batch *batch, HurrayDescriptor *head) {
    if (!reserve(&batch->heads, sizeof *batch->heads, batch->head_count, &batch->head_capacity)) {
        hurray_descriptor_destroy(head);
        return false;
    }
    batch->heads[batch->head_count++] = (BatchHead){head, batch->count};
    return true;
}

static void batch_clear(Batch *batch) {
    for (uint64_t i = batch->taken; batch->tensors != NULL && i < batch->count; i++) {
        hurray_tensor_release(batch->tensors[i]);
    }
    for (uint64_t i = 0; i < batch->head_count; i++) {
        hurray_descriptor_destroy(batch->heads[i].descriptor);
    }
    PyMem_RawFree(batch->tensors);
    PyMem_RawFree(batch->heads);
    PyMem_RawFree(batch->indices);
}

static bool fail(const Batch *batch, HurrayStatus status) {
    raise_failure(batch->state, batch->reader, status);
    return false;
}

static bool fail_changed(const Batch *batch) {
    PyErr_SetString(batch->state->FileError, "the file changed while it was being read");
    return false;
}

/* Whether an entry is a head: only those without data can be. False with an exception. */
static bool head_of(const Batch *batch, uint64_t index, HurrayDescriptor **out) {
    HurrayFileReader *reader = batch->reader->reader;
    HurrayFileEntry entry;
    *out = NULL;
    HurrayStatus status = hurray_file_reader_entry(reader, index, &entry);
    if (status == HURRAY_OK && entry.data_length == 0) {
        status = hurray_file_reader_descriptor(reader, index, out);
    }
    if (status != HURRAY_OK) return fail(batch, status);
    if (*out != NULL && hurray_descriptor_fields(*out)->layout.tag != HURRAY_LAYOUT_COMPOSITE) {
        hurray_descriptor_destroy(*out);
        *out = NULL;
    }
    return true;
}

/* Adds the tensor or head at an entry; `*missing` parts are still to come. */
static bool batch_add_part(Batch *batch, uint64_t index, uint64_t *missing) {
    HurrayDescriptor *head;
    if (!head_of(batch, index, &head)) return false;
    --*missing;
    if (head == NULL) return batch_add(batch, index);
    *missing += hurray_descriptor_fields(head)->layout.composite.member_count;
    return batch_add_head(batch, head);
}

/* Adds all of the item that begins at an entry. */
static bool batch_add_item(Batch *batch, uint64_t index) {
    HurrayFileReader *reader = batch->reader->reader;
    uint64_t first, last, missing = 1;
    if (!batch_add_part(batch, index, &missing)) return false;
    if (missing == 0) return true;
    HurrayStatus status = hurray_file_reader_item(reader, index, &first, &last);
    for (first++; status == HURRAY_OK && first < last && missing > 0; first++) {
        status = hurray_file_reader_in_order(reader, first, &index);
        if (status == HURRAY_OK && !batch_add_part(batch, index, &missing)) return false;
    }
    if (status != HURRAY_OK) return fail(batch, status);
    return (missing == 0 && first == last) || fail_changed(batch);
}

static bool batch_read(Batch *batch, uint32_t threads) {
    size_t room = batch->count == 0 ? 1 : (size_t)batch->count;
    batch->tensors = PyMem_RawCalloc(room, sizeof *batch->tensors);
    if (batch->tensors == NULL) return PyErr_NoMemory() != NULL;
    if (calls_python(batch->reader)) threads = 1; /* no other thread has the GIL */
    PyThreadState *saved = allow_threads(batch->reader);
    HurrayStatus status = hurray_file_reader_tensors(batch->reader->reader, batch->indices,
                                                     batch->count, threads, batch->tensors);
    end_allow_threads(saved);
    if (status == HURRAY_OK) return true;
    batch->taken = batch->count; /* there are none */
    return fail(batch, status);
}

/* The next item or member, at `depth` below an item: batch_add_item has seen that it is whole. */
static PyObject *batch_take(Batch *batch, uint32_t depth) {
    uint64_t next = batch->heads_taken;
    if (next == batch->head_count || batch->heads[next].before != batch->taken) {
        return tensor_wrap(batch->state, batch->tensors[batch->taken++]);
    }
    batch->heads_taken++;
    const HurrayDescriptorFields *fields = hurray_descriptor_fields(batch->heads[next].descriptor);
    uint32_t count = fields->layout.composite.member_count;
    if (depth == HURRAY_MAX_COMPOSITE_DEPTH) {
        fail_changed(batch);
        return NULL;
    }
    PyObject *members = PyTuple_New((Py_ssize_t)count);
    for (uint32_t i = 0; members != NULL && i < count; i++) {
        PyObject *member = batch_take(batch, depth + 1);
        if (member == NULL) {
            Py_CLEAR(members);
        } else {
            PyTuple_SET_ITEM(members, (Py_ssize_t)i, member);
        }
    }
    PyObject *composite =
        members == NULL ? NULL : composite_new(batch->state, fields, members, false);
    Py_XDECREF(members);
    return composite;
}

static PyObject *read_one(CoreState *state, ReaderObject *reader, uint64_t index) {
    Batch batch = {.state = state, .reader = reader};
    PyObject *item = NULL;
    if (batch_add_item(&batch, index) && batch_read(&batch, 0)) item = batch_take(&batch, 0);
    batch_clear(&batch);
    return item;
}

/* A dict of the entries `roots`, u64[count]. */
static PyObject *read_many(CoreState *state, ReaderObject *reader, const uint64_t *roots,
                           uint64_t count, uint32_t threads) {
    Batch batch = {.state = state, .reader = reader};
    bool read = true;
    for (uint64_t i = 0; i < count && read; i++) read = batch_add_item(&batch, roots[i]);
    read = read && batch_read(&batch, threads);
    PyObject *dict = read ? PyDict_New() : NULL;
    for (uint64_t i = 0; dict != NULL && i < count; i++) {
        HurrayFileEntry entry;
        hurray_file_reader_entry(reader->reader, roots[i], &entry); /* it is there */
        PyObject *item = batch_take(&batch, 0);
        PyObject *name = item == NULL ? NULL : entry_name(&entry);
        if (name == NULL || PyDict_SetItem(dict, name, item) < 0) Py_CLEAR(dict);
        Py_XDECREF(name);
        Py_XDECREF(item);
    }
    batch_clear(&batch);
    return dict;
}

/* The entries where items begin, in the order of the file, or those of `names`; freed with
 * PyMem_RawFree. */
static uint64_t *select_roots(CoreState *state, ReaderObject *reader, PyObject *names,
                              uint64_t *count) {
    PyObject *list = names == NULL ? NULL : PySequence_Fast(names, "names is not iterable");
    if (names != NULL && list == NULL) return NULL;
    uint64_t capacity = list == NULL ? hurray_file_reader_count(reader->reader)
                                     : (uint64_t)PySequence_Fast_GET_SIZE(list);
    uint64_t *roots = PyMem_RawMalloc(((size_t)capacity + 1) * sizeof *roots);
    bool found = roots != NULL || PyErr_NoMemory() != NULL;
    if (found && list == NULL) {
        PyThreadState *saved = allow_threads(reader);
        HurrayStatus status = hurray_file_reader_roots(reader->reader, roots, capacity, count);
        end_allow_threads(saved);
        found = status == HURRAY_OK || raise_failure(state, reader, status) != NULL;
    } else if (found) {
        for (*count = 0; found && *count < capacity; ++*count) {
            PyObject *name = PySequence_Fast_GET_ITEM(list, (Py_ssize_t)*count);
            found = find(state, reader, name, &roots[*count]);
        }
    }
    Py_XDECREF(list);
    if (!found) PyMem_RawFree(roots);
    return found ? roots : NULL;
}

PyDoc_STRVAR(load_doc,
             "load($self, /, names=None, threads=0)\n--\n\n"
             "dict: the items of these names, or all, in the order of the file. They share "
             "memory:\nthe mapping, or one block that was read by `threads` (0: as many as "
             "help).");

static PyObject *reader_load(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames) {
    static const Signature signature = {"load", {{"names", 0}, {"threads", 0}}};
    CoreState *state = core_state_of(self);
    ReaderObject *reader = reader_of(self);
    PyObject *values[2], *dict = NULL;
    uint64_t threads = 0, count = 0;
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    if (values[1] != NULL && !argument_as_u64(values[1], "threads", &threads)) return NULL;
    if (!begin(state, reader)) return NULL;
    uint64_t *roots = select_roots(state, reader, values[0], &count);
    if (roots != NULL) {
        dict = read_many(state, reader, roots, count, threads > 64 ? 64 : (uint32_t)threads);
    }
    PyMem_RawFree(roots);
    end(reader);
    return dict;
}

/* ---- one tensor ---- */

PyDoc_STRVAR(get_doc, "get($self, name, /)\n--\n\nThe Tensor or Composite of that name.");

static PyObject *reader_get(PyObject *self, PyObject *name) {
    CoreState *state = core_state_of(self);
    ReaderObject *reader = reader_of(self);
    uint64_t index;
    if (!begin(state, reader)) return NULL;
    PyObject *item = find(state, reader, name, &index) ? read_one(state, reader, index) : NULL;
    end(reader);
    return item;
}

PyDoc_STRVAR(rows_doc, "rows($self, name, rows, /)\n--\n\n"
                       "Tensor: a slice along dimension 0, of step 1; only its bytes are read.");

static PyObject *reader_rows(PyObject *self, PyObject *args) {
    CoreState *state = core_state_of(self);
    ReaderObject *reader = reader_of(self);
    PyObject *name, *slice;
    Py_ssize_t start, stop, step;
    uint64_t index;
    if (!PyArg_ParseTuple(args, "OO!:rows", &name, &PySlice_Type, &slice) ||
        PySlice_Unpack(slice, &start, &stop, &step) < 0 || !begin(state, reader)) {
        return NULL;
    }
    HurrayTensor *tensor = NULL;
    PyObject *rows = NULL;
    if (find(state, reader, name, &index)) {
        PyThreadState *saved = allow_threads(reader);
        HurrayStatus status = hurray_file_reader_slice(reader->reader, index, start, stop, &tensor);
        end_allow_threads(saved);
        rows =
            status == HURRAY_OK ? tensor_wrap(state, tensor) : raise_failure(state, reader, status);
    }
    end(reader);
    return rows;
}

PyDoc_STRVAR(descriptor_doc, "descriptor($self, name, /)\n--\n\nDescriptor: without its data.");

static PyObject *reader_descriptor(PyObject *self, PyObject *name) {
    CoreState *state = core_state_of(self);
    ReaderObject *reader = reader_of(self);
    HurrayDescriptor *descriptor = NULL;
    PyObject *result = NULL;
    uint64_t index;
    if (!begin(state, reader)) return NULL;
    if (find(state, reader, name, &index)) {
        PyThreadState *saved = allow_threads(reader);
        HurrayStatus status = hurray_file_reader_descriptor(reader->reader, index, &descriptor);
        end_allow_threads(saved);
        result = status == HURRAY_OK ? descriptor_new(state, hurray_descriptor_fields(descriptor))
                                     : raise_failure(state, reader, status);
        if (descriptor != NULL) hurray_descriptor_destroy(descriptor);
    }
    end(reader);
    return result;
}

PyDoc_STRVAR(verify_doc, "verify($self, name, deep=True, /)\n--\n\n"
                         "Raises what is wrong with one entry (a composite: with its head).");

static PyObject *reader_verify(PyObject *self, PyObject *args) {
    CoreState *state = core_state_of(self);
    ReaderObject *reader = reader_of(self);
    PyObject *name;
    int deep = 1;
    uint64_t index;
    if (!PyArg_ParseTuple(args, "O|p:verify", &name, &deep) || !begin(state, reader)) return NULL;
    bool sound = find(state, reader, name, &index);
    if (sound) {
        PyThreadState *saved = allow_threads(reader);
        HurrayStatus status = hurray_file_reader_verify(reader->reader, index, deep, NULL);
        if (status == HURRAY_OK) {
            uint64_t first, last;
            status = hurray_file_reader_item(reader->reader, index, &first, &last);
        }
        end_allow_threads(saved);
        sound = status == HURRAY_OK || raise_failure(state, reader, status) != NULL;
    }
    end(reader);
    if (!sound) return NULL;
    Py_RETURN_NONE;
}

/* ---- what there is ---- */

PyDoc_STRVAR(entry_doc, "entry($self, name, /)\n--\n\n"
                        "tuple of int: descriptor_offset, descriptor_length, data_offset and "
                        "data_length.");

static PyObject *reader_entry(PyObject *self, PyObject *name) {
    CoreState *state = core_state_of(self);
    ReaderObject *reader = reader_of(self);
    HurrayFileEntry entry;
    uint64_t index;
    if (!begin(state, reader)) return NULL;
    bool found = find(state, reader, name, &index) &&
                 hurray_file_reader_entry(reader->reader, index, &entry) == HURRAY_OK;
    end(reader);
    if (!found) return NULL;
    return Py_BuildValue("(KIKK)", (unsigned long long)entry.descriptor_offset,
                         entry.descriptor_length, (unsigned long long)entry.data_offset,
                         (unsigned long long)entry.data_length);
}

PyDoc_STRVAR(item_bytes_doc, "item_bytes($self, name, /)\n--\n\n"
                             "int: bytes of data of a tensor, or of all members of a composite.");

static PyObject *reader_item_bytes(PyObject *self, PyObject *name) {
    CoreState *state = core_state_of(self);
    ReaderObject *reader = reader_of(self);
    uint64_t index, first, last, total = 0;
    if (!begin(state, reader)) return NULL;
    bool known = find(state, reader, name, &index);
    if (known) {
        PyThreadState *saved = allow_threads(reader);
        HurrayStatus status = hurray_file_reader_item(reader->reader, index, &first, &last);
        for (; status == HURRAY_OK && first < last; first++) {
            HurrayFileEntry entry;
            status = hurray_file_reader_in_order(reader->reader, first, &index);
            if (status == HURRAY_OK) {
                status = hurray_file_reader_entry(reader->reader, index, &entry);
            }
            if (status == HURRAY_OK) total += entry.data_length; /* within the file, disjoint */
        }
        end_allow_threads(saved);
        known = status == HURRAY_OK || raise_failure(state, reader, status) != NULL;
    }
    end(reader);
    return known ? PyLong_FromUnsignedLongLong(total) : NULL;
}

/* The names of the entries indices[0 … count - 1]; NULL: of all, in the order of writing. */
static PyObject *name_list(CoreState *state, ReaderObject *reader, const uint64_t *indices,
                           uint64_t count) {
    PyObject *names = PyList_New((Py_ssize_t)count);
    for (uint64_t i = 0; names != NULL && i < count; i++) {
        HurrayFileEntry entry;
        uint64_t index;
        HurrayStatus status = HURRAY_OK;
        if (indices != NULL) {
            index = indices[i];
        } else {
            status = hurray_file_reader_in_order(reader->reader, i, &index);
        }
        if (status == HURRAY_OK) status = hurray_file_reader_entry(reader->reader, index, &entry);
        PyObject *name =
            status == HURRAY_OK ? entry_name(&entry) : raise_failure(state, reader, status);
        if (name == NULL) {
            Py_CLEAR(names);
        } else {
            PyList_SET_ITEM(names, (Py_ssize_t)i, name);
        }
    }
    return names;
}

PyDoc_STRVAR(names_doc, "names($self, members=False, /)\n--\n\n"
                        "list of str, in the order of writing: of items, or of every entry.");

static PyObject *reader_names(PyObject *self, PyObject *args) {
    CoreState *state = core_state_of(self);
    ReaderObject *reader = reader_of(self);
    PyObject *names = NULL;
    int members = 0;
    if (!PyArg_ParseTuple(args, "|p:names", &members) || !begin(state, reader)) return NULL;
    if (members) {
        names = name_list(state, reader, NULL, hurray_file_reader_count(reader->reader));
    } else {
        uint64_t count;
        uint64_t *roots = select_roots(state, reader, NULL, &count);
        if (roots != NULL) names = name_list(state, reader, roots, count);
        PyMem_RawFree(roots);
    }
    end(reader);
    return names;
}

PyDoc_STRVAR(kv_doc, "kv($self, /)\n--\n\ndict: the metadata.");

static PyObject *reader_kv(PyObject *self, PyObject *unused) {
    (void)unused;
    CoreState *state = core_state_of(self);
    ReaderObject *reader = reader_of(self);
    const HurrayKeyValues *list;
    if (!begin(state, reader)) return NULL;
    PyThreadState *saved = allow_threads(reader);
    HurrayStatus status = hurray_file_reader_metadata(reader->reader, &list);
    end_allow_threads(saved);
    PyObject *dict =
        status == HURRAY_OK ? metadata_to_dict(list) : raise_failure(state, reader, status);
    end(reader);
    return dict;
}

PyDoc_STRVAR(info_doc,
             "info($self, /)\n--\n\n"
             "dict: what header and trailer say: version, flags, alignment, size, offsets.");

static PyObject *reader_info(PyObject *self, PyObject *unused) {
    (void)unused;
    ReaderObject *reader = reader_of(self);
    if (!begin(core_state_of(self), reader)) return NULL;
    const HurrayFileInfo info = *hurray_file_reader_info(reader->reader);
    unsigned long long count = hurray_file_reader_count(reader->reader);
    end(reader);
    return Py_BuildValue(
        "{s(ii)sIsIsKsKsKsKsKsI}", "version", info.version_major, info.version_minor, "flags",
        info.flags, "alignment", info.alignment, "size", (unsigned long long)info.size, "count",
        count, "index_offset", (unsigned long long)info.index_offset, "index_length",
        (unsigned long long)info.index_length, "metadata_offset",
        (unsigned long long)info.metadata_offset, "metadata_length", info.metadata_length);
}

PyDoc_STRVAR(close_doc, "close($self, /)\n--\n\nTensors stay; calls that are going on end first.");

static PyObject *reader_close(PyObject *self, PyObject *unused) {
    (void)unused;
    ReaderObject *reader = reader_of(self);
    reader->closed = true;
    if (reader->users == 0) hurray_file_reader_destroy(&reader->reader);
    Py_RETURN_NONE;
}

static PyObject *reader_closed(PyObject *self, void *closure) {
    (void)closure;
    return PyBool_FromLong(reader_of(self)->closed);
}

static PyMethodDef reader_methods[] = {
    {"get", reader_get, METH_O, get_doc},
    {"load", CORE_METHOD(reader_load), METH_FASTCALL | METH_KEYWORDS, load_doc},
    {"rows", reader_rows, METH_VARARGS, rows_doc},
    {"descriptor", reader_descriptor, METH_O, descriptor_doc},
    {"verify", reader_verify, METH_VARARGS, verify_doc},
    {"entry", reader_entry, METH_O, entry_doc},
    {"item_bytes", reader_item_bytes, METH_O, item_bytes_doc},
    {"names", reader_names, METH_VARARGS, names_doc},
    {"kv", reader_kv, METH_NOARGS, kv_doc},
    {"info", reader_info, METH_NOARGS, info_doc},
    {"close", reader_close, METH_NOARGS, close_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef reader_getset[] = {
    {"closed", reader_closed, NULL, "bool: whether close() was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(
    reader_doc,
    "_FileReader(source, *, mmap=True, prefetch=False, check_size=False)\n--\n\n"
    "A file of named tensors: a path, a descriptor (int), a bytes-like object, or a tuple\n"
    "of its size and a callable read_at(offset, size) -> bytes. What hurray.open uses.");

static PyType_Slot reader_slots[] = {
    {Py_tp_traverse, reader_traverse}, {Py_tp_clear, reader_clear},
    {Py_tp_doc, (char *)reader_doc},   {Py_tp_new, reader_tp_new},
    {Py_tp_dealloc, reader_dealloc},   {Py_tp_methods, reader_methods},
    {Py_tp_getset, reader_getset},     {0, NULL},
};

static PyType_Spec reader_spec = {
    .name = "hurray._core._FileReader",
    .basicsize = sizeof(ReaderObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = reader_slots,
};

int file_reader_setup(PyObject *module, CoreState *state) {
    (void)state;
    PyTypeObject *type = core_add_type(module, &reader_spec, NULL);
    Py_XDECREF(type); /* the module has it */
    return type == NULL ? -1 : 0;
}
