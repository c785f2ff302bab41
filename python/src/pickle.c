/*
 * Pickling of tensors (spec 8.3): the descriptor, the device, and the bytes of each buffer, which
 * stay where they are until the pickler asks for them when it takes them out of band (protocol 5).
 */
#include "arguments.h"
#include "core.h"

/* ---- taking apart ---- */

static PyObject *encode_descriptor(CoreState *state, const HurrayDescriptorFields *fields) {
    uint64_t size = 0;
    uintptr_t written = 0;
    HurrayStatus status = hurray_descriptor_encoded_size(fields, &size);
    if (status != HURRAY_OK) return raise_status(state, status);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (bytes == NULL) return NULL;
    status = hurray_descriptor_encode(fields, (uint8_t *)PyBytes_AS_STRING(bytes), size, &written);
    if (status == HURRAY_OK) return bytes;
    Py_DECREF(bytes);
    return raise_status(state, status);
}

/* One buffer as the pickler wants it: a PickleBuffer over the memory itself, or bytes. */
static PyObject *pickle_buffer(CoreState *state, HurrayTensor *tensor, uint32_t index,
                               bool out_of_band) {
    const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, index));
    /* Bytes that stand in for a device's export no buffer. */
    if (!out_of_band || (info->flags & HURRAY_BUFFER_STAGED_ON_HOST) != 0) {
        return PyBytes_FromStringAndSize(info->data, (Py_ssize_t)info->byte_size);
    }
    HurrayTensor *view = NULL;
    HurrayStatus status = hurray_tensor_buffer_view(tensor, index, &view);
    if (status != HURRAY_OK) return raise_status(state, status);
    PyObject *bytes = tensor_wrap(state, view);
    if (bytes == NULL) return NULL;
    PyObject *picklable = PyPickleBuffer_FromObject(bytes);
    Py_DECREF(bytes);
    return picklable;
}

static PyObject *pickle_buffers(CoreState *state, HurrayTensor *tensor, bool out_of_band) {
    uint32_t count = hurray_tensor_fields(tensor)->buffer_count;
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (uint32_t i = 0; tuple != NULL && i < count; i++) {
        PyObject *buffer = pickle_buffer(state, tensor, i, out_of_band);
        if (buffer == NULL) {
            Py_CLEAR(tuple);
        } else {
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, buffer);
        }
    }
    return tuple;
}

PyDoc_STRVAR(
    reduce_ex_doc,
    "__reduce_ex__($self, protocol, /)\n--\n\n"
    "What pickle stores (spec 8.3): with protocol 5 the buffers may travel out of band,\n"
    "without a copy. UnsupportedError where the bytes cannot be read: on a device, or not\n"
    "ready.");

static PyObject *tensor_reduce_ex(PyObject *self, PyObject *number) {
    CoreState *state = core_state_of(self);
    HurrayTensor *tensor = tensor_of(self);
    long protocol = PyLong_AsLong(number);
    if (protocol == -1 && PyErr_Occurred()) return NULL;
    HurrayStatus status = hurray_tensor_check_readable(tensor, true);
    if (status != HURRAY_OK) return raise_status(state, status);
    PyObject *module = PyType_GetModule(Py_TYPE(self)), *result = NULL;
    PyObject *rebuild = PyObject_GetAttrString(module, "_rebuild_tensor");
    PyObject *descriptor = encode_descriptor(state, hurray_tensor_fields(tensor));
    PyObject *buffers = descriptor == NULL ? NULL : pickle_buffers(state, tensor, protocol >= 5);
    if (rebuild != NULL && buffers != NULL) {
        PyObject *device = ((TensorObject *)self)->device;
        result = Py_BuildValue("O(OOO)", rebuild, descriptor, device, buffers);
    }
    Py_XDECREF(buffers);
    Py_XDECREF(descriptor);
    Py_XDECREF(rebuild);
    return result;
}

PyMethodDef pickle_tensor_methods[] = {
    {"__reduce_ex__", tensor_reduce_ex, METH_O, reduce_ex_doc},
    {NULL, NULL, 0, NULL},
};

/* ---- putting together ---- */

/*
 * A buffer of what came back: the very memory where its address is aligned, else a copy. A bytes
 * object is copied always: that the pickler made one does not make a tensor read-only.
 */
static HurrayBuffer *buffer_of_object(CoreState *state, PyObject *object, HurrayDevice device) {
    PyObject *memoryview = PyMemoryView_FromObject(object);
    if (memoryview == NULL) return NULL;
    HurrayBuffer *buffer = NULL;
    const Py_buffer *view = PyMemoryView_GET_BUFFER(memoryview);
    uint32_t alignment = hurray_measured_alignment(view->buf);
    if (!PyBuffer_IsContiguous(view, 'C')) {
        PyErr_SetString(state->BufferError, "the bytes of a pickled buffer are not contiguous");
    } else if (PyBytes_CheckExact(object) || alignment < HURRAY_MIN_BUFFER_ALIGNMENT) {
        buffer = tensor_new_buffer(state, view->buf, (size_t)view->len, device);
    } else {
        HurrayBufferInfo info = {
            .data = view->buf,
            .byte_size = (uint64_t)view->len,
            .alignment = alignment,
            .device = device,
            .flags = (view->readonly ? HURRAY_BUFFER_READ_ONLY : 0u) |
                     (device.tag == HURRAY_DEVICE_CPU ? 0u : HURRAY_BUFFER_STAGED_ON_HOST),
        };
        void *context = owner_new(memoryview);
        HurrayStatus status = context == NULL
                                  ? HURRAY_ERR_OUT_OF_MEMORY
                                  : hurray_buffer_create(&info, owner_release, context, &buffer);
        if (status != HURRAY_OK && context != NULL) {
            owner_discard(context);
            raise_status(state, status);
        }
    }
    Py_DECREF(memoryview);
    return buffer;
}

static PyObject *rebuild_of_fields(CoreState *state, const HurrayDescriptorFields *fields,
                                   HurrayDevice device, PyObject *objects) {
    HurrayBuffer *buffers[HURRAY_MAX_BUFFERS];
    HurrayTensor *tensor = NULL;
    uint32_t count = 0;
    if (PyTuple_GET_SIZE(objects) != (Py_ssize_t)fields->buffer_count) {
        return PyErr_Format(state->InvalidDescriptorError,
                            "a pickled tensor has %zd buffers; its descriptor says %u",
                            PyTuple_GET_SIZE(objects), (unsigned)fields->buffer_count);
    }
    for (; count < fields->buffer_count; count++) {
        buffers[count] =
            buffer_of_object(state, PyTuple_GET_ITEM(objects, (Py_ssize_t)count), device);
        if (buffers[count] == NULL) break;
    }
    if (count == fields->buffer_count) {
        HurrayStatus status = hurray_tensor_create(fields, buffers, &tensor);
        if (status == HURRAY_OK) return tensor_wrap(state, tensor);
        raise_status(state, status);
    }
    while (count > 0) hurray_buffer_destroy(buffers[--count]);
    return NULL;
}

PyDoc_STRVAR(rebuild_doc, "_rebuild_tensor($module, descriptor, device, buffers, /)\n--\n\n"
                          "The tensor that Tensor.__reduce_ex__ took apart.");

static PyObject *rebuild_tensor(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                                PyObject *kwnames) {
    static const Signature signature = {"_rebuild_tensor",
                                        {{"descriptor", ARGUMENT_REQUIRED},
                                         {"device", ARGUMENT_REQUIRED},
                                         {"buffers", ARGUMENT_REQUIRED}}};
    CoreState *state = core_state_of_module(module);
    PyObject *values[3];
    HurrayDevice device;
    if (!arguments_parse(&signature, args, nargs, kwnames, values) ||
        !device_as_value(state, values[1], "device", &device)) {
        return NULL;
    }
    if (!PyBytes_Check(values[0]) || !PyTuple_Check(values[2])) {
        PyErr_SetString(PyExc_TypeError, "a pickled tensor has a bytes descriptor and a tuple of "
                                         "buffers");
        return NULL;
    }
    HurrayDescriptor *descriptor = NULL;
    HurrayStatus status =
        hurray_descriptor_decode((const uint8_t *)PyBytes_AS_STRING(values[0]),
                                 (uintptr_t)PyBytes_GET_SIZE(values[0]), &descriptor);
    if (status != HURRAY_OK) return raise_status(state, status);
    PyObject *tensor =
        rebuild_of_fields(state, hurray_descriptor_fields(descriptor), device, values[2]);
    hurray_descriptor_destroy(descriptor);
    return tensor;
}

static PyMethodDef functions[] = {
    {"_rebuild_tensor", CORE_METHOD(rebuild_tensor), METH_FASTCALL | METH_KEYWORDS, rebuild_doc},
    {NULL, NULL, 0, NULL},
};

int pickle_setup(PyObject *module, CoreState *state) {
    (void)state;
    return PyModule_AddFunctions(module, functions);
}
