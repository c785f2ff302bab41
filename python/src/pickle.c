/*
 * Copies and pickles of tensors (spec 8.3): of every layout, with every section. A pickle is the
 * descriptor's bytes and the buffers, which protocol 5 carries out of band, without a copy.
 */
#include "core.h"

#include "arguments.h"

/* ---- buffers ---- */

static void release_aligned(void *data, void *context) {
    (void)context;
    hurray_aligned_free(data);
}

static void release_reference(void *data, void *context) {
    (void)data;
    hurray_buffer_destroy(context);
}

static void copy_memory(void *destination, const void *source, size_t bytes) {
    if (bytes >= CORE_LARGE_COPY) {
        Py_BEGIN_ALLOW_THREADS
        memcpy(destination, source, bytes);
        Py_END_ALLOW_THREADS
    } else if (bytes != 0) {
        memcpy(destination, source, bytes);
    }
}

/* What is promised of memory of our own for a buffer that was promised `alignment`. */
static uint32_t own_alignment(uint32_t alignment) {
    if (alignment < HURRAY_MIN_BUFFER_ALIGNMENT) return HURRAY_MIN_BUFFER_ALIGNMENT;
    return alignment > HURRAY_PAGE_ALIGNMENT ? HURRAY_PAGE_ALIGNMENT : alignment;
}

/* A buffer like `info` over a copy of the bytes; NULL with an exception. */
static HurrayBuffer *copy_of_buffer(CoreState *state, HurrayBufferInfo info) {
    const void *source = info.data;
    size_t bytes = (size_t)info.byte_size; /* there is memory of that size */
    info.data = NULL;
    if (bytes != 0) {
        info.alignment = own_alignment(info.alignment);
        info.data = hurray_aligned_alloc(bytes, info.alignment, false);
        if (info.data == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        copy_memory(info.data, source, bytes);
    }
    HurrayBuffer *buffer = NULL;
    HurrayStatus status = hurray_buffer_create(&info, release_aligned, NULL, &buffer);
    if (status == HURRAY_OK) return buffer;
    hurray_aligned_free(info.data);
    raise_status(state, status);
    return NULL;
}

/* A tensor over `count` buffers it takes over, also on failure. */
static PyObject *assemble(CoreState *state, const HurrayDescriptorFields *fields,
                          HurrayBuffer *const *buffers, uint32_t count) {
    HurrayTensor *tensor = NULL;
    HurrayStatus status = HURRAY_OK;
    bool complete = count == fields->buffer_count;
    if (complete) status = hurray_tensor_create(fields, buffers, &tensor);
    if (complete && status == HURRAY_OK) return tensor_wrap(state, tensor);
    for (uint32_t i = 0; i < count; i++) hurray_buffer_destroy(buffers[i]);
    return complete ? raise_status(state, status) : NULL; /* the exception is set already */
}

/* ---- copies ---- */

/* Whether a copy may lay the elements out anew: nothing but elements is in the buffer. */
static bool is_compactable(const HurrayTensor *tensor) {
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
    HurrayPacking unused; /* types that are only carried have none */
    bool strided = fields->layout.tag == HURRAY_LAYOUT_ROW_MAJOR ||
                   fields->layout.tag == HURRAY_LAYOUT_COL_MAJOR ||
                   fields->layout.tag == HURRAY_LAYOUT_STRIDED;
    return strided && fields->quantization == NULL && fields->buffer_count == 1 &&
           hurray_tensor_count(tensor) != UINT64_MAX &&
           hurray_packing_of(fields->type_tag, fields->extension_type, &unused) == HURRAY_OK &&
           (info->flags & HURRAY_BUFFER_STAGED_ON_HOST) == 0;
}

static PyObject *compact_copy(CoreState *state, const HurrayTensor *tensor) {
    HurrayTensor *copy = NULL;
    HurrayStatus status;
    if (hurray_buffer_info(hurray_tensor_buffer(tensor, 0))->byte_size >= CORE_LARGE_COPY) {
        Py_BEGIN_ALLOW_THREADS
        status = hurray_tensor_copy(tensor, NULL, &copy);
        Py_END_ALLOW_THREADS
    } else {
        status = hurray_tensor_copy(tensor, NULL, &copy);
    }
    return status == HURRAY_OK ? tensor_wrap(state, copy) : raise_status(state, status);
}

PyObject *tensor_deep_copy(CoreState *state, const HurrayTensor *tensor) {
    HurrayStatus status = hurray_tensor_check_readable(tensor, true);
    if (status != HURRAY_OK) return raise_status(state, status);
    if (is_compactable(tensor)) return compact_copy(state, tensor);
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    HurrayBuffer *buffers[HURRAY_MAX_BUFFERS];
    uint32_t made = 0;
    while (made < fields->buffer_count) {
        HurrayBufferInfo info = *hurray_buffer_info(hurray_tensor_buffer(tensor, made));
        info.flags &= ~(uint32_t)HURRAY_BUFFER_READ_ONLY;
        if ((buffers[made] = copy_of_buffer(state, info)) == NULL) break;
        made++;
    }
    return assemble(state, fields, buffers, made);
}

PyDoc_STRVAR(copy_doc, "__copy__($self, /)\n--\n\n"
                       "The tensor itself: it is immutable but for the bytes it shares.");

static PyObject *tensor_copy(PyObject *self, PyObject *unused) {
    (void)unused;
    return Py_NewRef(self);
}

PyDoc_STRVAR(deepcopy_doc,
             "__deepcopy__($self, memo, /)\n--\n\n"
             "A copy in writable memory of its own (spec 8.3).\n\n"
             "Row-major for row-major, column-major and strided tensors; all buffers as they are\n"
             "for other layouts and quantized tensors. UnsupportedError where the bytes cannot be\n"
             "read: they are on a device, or not producer_synced.");

static PyObject *tensor_deepcopy(PyObject *self, PyObject *memo) {
    (void)memo;
    return tensor_deep_copy(core_state_of(self), tensor_of(self));
}

/* ---- out ---- */

/* Buffer `index` as a uint8 tensor on the CPU, which it is, or is staged on: something that exports
 * its bytes. */
static PyObject *bytes_view(CoreState *state, HurrayTensor *tensor, uint32_t index) {
    HurrayBuffer *whole = hurray_tensor_buffer(tensor, index), *bytes = NULL;
    HurrayBufferInfo info = *hurray_buffer_info(whole);
    info.device = (HurrayDevice){HURRAY_DEVICE_CPU, HURRAY_MEMORY_STANDARD, 0};
    info.flags &= HURRAY_BUFFER_READ_ONLY;
    HurrayStatus status =
        hurray_buffer_create(&info, release_reference, hurray_buffer_retain(whole), &bytes);
    if (status != HURRAY_OK) {
        hurray_buffer_destroy(whole);
        return raise_status(state, status);
    }
    uint64_t shape[1] = {info.byte_size};
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 1,
        .shape = shape,
        .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
        .buffer_count = 1,
    };
    return assemble(state, &fields, &bytes, 1);
}

/* For pickle protocol 5, which takes the memory itself. */
static PyObject *pickle_buffer(CoreState *state, HurrayTensor *tensor, uint32_t index) {
    PyObject *view = bytes_view(state, tensor, index);
    if (view == NULL) return NULL;
    PyObject *buffer = PyPickleBuffer_FromObject(view);
    Py_DECREF(view);
    return buffer;
}

/* For older protocols. */
static PyObject *bytes_of_buffer(HurrayTensor *tensor, uint32_t index) {
    const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, index));
    if (info->byte_size > (uint64_t)PY_SSIZE_T_MAX) return PyErr_NoMemory();
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)info->byte_size);
    if (bytes != NULL) copy_memory(PyBytes_AS_STRING(bytes), info->data, (size_t)info->byte_size);
    return bytes;
}

/* A tuple of all buffers as the protocol takes them. */
static PyObject *pickled_buffers(CoreState *state, HurrayTensor *tensor, int protocol) {
    uint32_t count = hurray_tensor_fields(tensor)->buffer_count;
    PyObject *buffers = PyTuple_New((Py_ssize_t)count);
    for (uint32_t i = 0; buffers != NULL && i < count; i++) {
        PyObject *item =
            protocol >= 5 ? pickle_buffer(state, tensor, i) : bytes_of_buffer(tensor, i);
        if (item == NULL) {
            Py_CLEAR(buffers);
        } else {
            PyTuple_SET_ITEM(buffers, (Py_ssize_t)i, item);
        }
    }
    return buffers;
}

/* A byte for each buffer: 1 where it may be written, which bytes objects cannot say themselves. */
static PyObject *writable_flags(HurrayTensor *tensor) {
    char flags[HURRAY_MAX_BUFFERS];
    uint32_t count = hurray_tensor_fields(tensor)->buffer_count;
    for (uint32_t i = 0; i < count; i++) {
        const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, i));
        flags[i] = (info->flags & HURRAY_BUFFER_READ_ONLY) == 0;
    }
    return PyBytes_FromStringAndSize(flags, (Py_ssize_t)count);
}

PyDoc_STRVAR(reduce_doc,
             "__reduce_ex__($self, protocol, /)\n--\n\n"
             "The tensor for pickle (spec 8.3): its descriptor and its buffers.\n\n"
             "From protocol 5 on each buffer is a pickle.PickleBuffer, which crosses out of band\n"
             "without a copy. UnsupportedError where the bytes cannot be read: they are on a\n"
             "device, or not producer_synced.");

static PyObject *tensor_reduce(PyObject *self, PyObject *argument) {
    CoreState *state = core_state_of(self);
    HurrayTensor *tensor = tensor_of(self);
    long protocol = PyLong_AsLong(argument);
    if (protocol == -1 && PyErr_Occurred()) return NULL;
    HurrayStatus status = hurray_tensor_check_readable(tensor, true);
    if (status != HURRAY_OK) return raise_status(state, status);
    PyObject *descriptor = fields_encoded(state, hurray_tensor_fields(tensor));
    PyObject *buffers = pickled_buffers(state, tensor, protocol >= 5 ? 5 : 4);
    PyObject *writable = protocol >= 5 ? Py_NewRef(Py_None) : writable_flags(tensor);
    PyObject *result = NULL;
    if (descriptor != NULL && buffers != NULL && writable != NULL) {
        result = Py_BuildValue("O(OOiO)", state->restore_tensor, descriptor, buffers,
                               (int)hurray_tensor_device(tensor).device_id, writable);
    }
    Py_XDECREF(descriptor);
    Py_XDECREF(buffers);
    Py_XDECREF(writable);
    return result;
}

PyMethodDef pickle_tensor_methods[] = {
    {"__copy__", tensor_copy, METH_NOARGS, copy_doc},
    {"__deepcopy__", tensor_deepcopy, METH_O, deepcopy_doc},
    {"__reduce_ex__", tensor_reduce, METH_O, reduce_doc},
    {NULL, NULL, 0, NULL},
};

/* ---- in: nothing in a pickle is believed ---- */

enum {
    DESCRIPTOR,
    BUFFERS,
    DEVICE_ID,
    WRITABLE,
    ARGUMENT_COUNT
};

/* What a pickle says beside the descriptor and the buffers. */
typedef struct Extras {
    int32_t device_id;
    const char
        *writable; /* a byte for each buffer; NULL: what the memory given is, the buffer is */
} Extras;

static bool read_extras(CoreState *state, PyObject *const *values, uint32_t count, Extras *out) {
    *out = (Extras){0, NULL};
    if (values[DEVICE_ID] != NULL) {
        int64_t id;
        int overflow;
        if (!argument_as_i64(values[DEVICE_ID], "device_id", &id, &overflow)) return false;
        if (overflow != 0 || id < 0 || id > INT32_MAX) {
            PyErr_Format(state->InvalidDescriptorError, "device_id %R is no device id",
                         values[DEVICE_ID]);
            return false;
        }
        out->device_id = (int32_t)id;
    }
    if (values[WRITABLE] == NULL) return true;
    if (!PyBytes_Check(values[WRITABLE]) ||
        PyBytes_GET_SIZE(values[WRITABLE]) != (Py_ssize_t)count) {
        PyErr_Format(state->InvalidDescriptorError,
                     "writable must be bytes, one for each of %u buffers", count);
        return false;
    }
    out->writable = PyBytes_AS_STRING(values[WRITABLE]);
    return true;
}

/* How one buffer is to be made of what a pickle holds. */
typedef struct Given {
    HurrayBufferInfo info; /* of the memory given: what the descriptor says, at its address */
    PyObject *memory;      /* the memoryview that keeps it */
    bool share;
} Given;

/* Memory is shared where its address allows it, as everywhere, but never written where its owner
 * said that it must not be. */
static bool read_given(CoreState *state, PyObject *memory, const HurrayBufferHandle *handle,
                       uint32_t index, const Extras *extras, Given *out) {
    const Py_buffer *view = PyMemoryView_GET_BUFFER(memory);
    if (!PyBuffer_IsContiguous(view, 'C')) {
        PyErr_Format(state->BufferError, "buffer %u of the pickle is not contiguous", index);
        return false;
    }
    if ((uint64_t)view->len < handle->byte_size) {
        PyErr_Format(state->BufferError,
                     "buffer %u of the pickle has %zd bytes; its descriptor says %llu", index,
                     view->len, (unsigned long long)handle->byte_size);
        return false;
    }
    bool read_only = extras->writable == NULL ? view->readonly != 0 : extras->writable[index] == 0;
    uint32_t measured = hurray_measured_alignment(view->buf);
    *out = (Given){
        .info =
            {
                .data = handle->byte_size == 0 ? NULL : view->buf,
                .byte_size = handle->byte_size,
                .alignment = handle->alignment,
                .device = {handle->device_tag, handle->memory_class, extras->device_id},
                .sync_mode = handle->sync_mode,
                .flags = read_only ? HURRAY_BUFFER_READ_ONLY : 0,
            },
        .memory = memory,
        .share = handle->byte_size != 0 && measured >= HURRAY_MIN_BUFFER_ALIGNMENT &&
                 (read_only || !view->readonly),
    };
    if (out->share && measured < handle->alignment) out->info.alignment = measured;
    if (handle->device_tag != HURRAY_DEVICE_CPU) {
        out->info.flags |= HURRAY_BUFFER_STAGED_ON_HOST; /* there is no other memory in a pickle */
    }
    return true;
}

static HurrayBuffer *make_given(CoreState *state, const Given *given) {
    if (!given->share) return copy_of_buffer(state, given->info);
    void *owner = owner_new(given->memory);
    HurrayBuffer *buffer = NULL;
    if (owner == NULL) return NULL;
    HurrayStatus status = hurray_buffer_create(&given->info, owner_release, owner, &buffer);
    if (status == HURRAY_OK) return buffer;
    owner_discard(owner);
    raise_status(state, status);
    return NULL;
}

/* Buffer `index` of what the descriptor says, made of what the pickle holds. */
static HurrayBuffer *restore_buffer(CoreState *state, PyObject *object,
                                    const HurrayBufferHandle *handle, uint32_t index,
                                    const Extras *extras) {
    PyObject *memory = PyMemoryView_FromObject(object);
    if (memory == NULL) return NULL;
    Given given;
    HurrayBuffer *buffer = NULL;
    if (read_given(state, memory, handle, index, extras, &given)) {
        buffer = make_given(state, &given);
    }
    Py_DECREF(memory);
    return buffer;
}

static PyObject *restore(CoreState *state, const HurrayDescriptorFields *fields,
                         PyObject *const *values) {
    PyObject *buffers = values[BUFFERS];
    uint32_t count = fields->buffer_count, made = 0;
    if (count == 0 || PyTuple_GET_SIZE(buffers) != (Py_ssize_t)count) {
        return PyErr_Format(state->InvalidDescriptorError,
                            "the pickle of a tensor holds %zd buffers, its descriptor names %u",
                            PyTuple_GET_SIZE(buffers), count);
    }
    Extras extras;
    if (!read_extras(state, values, count, &extras)) return NULL;
    HurrayBuffer *made_buffers[HURRAY_MAX_BUFFERS];
    while (made < count) {
        made_buffers[made] = restore_buffer(state, PyTuple_GET_ITEM(buffers, (Py_ssize_t)made),
                                            &fields->buffers[made], made, &extras);
        if (made_buffers[made] == NULL) break;
        made++;
    }
    PyObject *tensor = assemble(state, fields, made_buffers, made);
    if (tensor == NULL) return NULL;
    HurrayStatus status = hurray_tensor_check_readable(tensor_of(tensor), true);
    if (status == HURRAY_OK) return tensor;
    Py_DECREF(tensor); /* one that waits for an event, which no pickle can bring */
    return raise_status_as(state->InvalidDescriptorError, status);
}

static HurrayDescriptor *decode(CoreState *state, PyObject *object) {
    static const HurrayDecodeOptions options = {.permissive = true};
    HurrayDescriptor *descriptor = NULL;
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) < 0) return NULL;
    HurrayStatus status =
        hurray_descriptor_decode_with(view.buf, (uintptr_t)view.len, &options, &descriptor);
    PyBuffer_Release(&view);
    if (status != HURRAY_OK) raise_status(state, status);
    return descriptor;
}

PyDoc_STRVAR(restore_doc,
             "_restore_tensor($module, /, descriptor, buffers, device_id=0, writable=None)\n--\n\n"
             "The tensor in a pickle: what Tensor.__reduce_ex__ calls by this name.\n\n"
             "`buffers` is a tuple of bytes-like objects, `writable` has a byte for each. Memory "
             "at 64-aligned\n"
             "addresses is shared, other memory copied. InvalidDescriptorError for a descriptor\n"
             "that is not valid or names other buffers, hurray.BufferError for short ones.");

static PyObject *restore_tensor(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                                PyObject *kwnames) {
    static const Signature signature = {"_restore_tensor",
                                        {{"descriptor", ARGUMENT_REQUIRED},
                                         {"buffers", ARGUMENT_REQUIRED},
                                         {"device_id", 0},
                                         {"writable", 0}}};
    PyObject *values[ARGUMENT_COUNT];
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    CoreState *state = core_state_of_module(module);
    if (!PyTuple_Check(values[BUFFERS])) {
        return PyErr_Format(PyExc_TypeError, "buffers must be a tuple, not %.200s",
                            Py_TYPE(values[BUFFERS])->tp_name);
    }
    HurrayDescriptor *descriptor = decode(state, values[DESCRIPTOR]);
    if (descriptor == NULL) return NULL;
    PyObject *tensor = restore(state, hurray_descriptor_fields(descriptor), values);
    hurray_descriptor_destroy(descriptor);
    return tensor;
}

/* ---- setup ---- */

static PyMethodDef functions[] = {
    {"_restore_tensor", CORE_METHOD(restore_tensor), METH_FASTCALL | METH_KEYWORDS, restore_doc},
    {NULL, NULL, 0, NULL},
};

int pickle_setup(PyObject *module, CoreState *state) {
    if (PyModule_AddFunctions(module, functions) < 0) return -1;
    state->restore_tensor = PyObject_GetAttrString(module, "_restore_tensor");
    return state->restore_tensor == NULL ? -1 : 0;
}
