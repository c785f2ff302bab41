/*
 * Descriptors and the handles of their buffers (spec 1, 8.10), and shapes on their way between
 * Python and the library.
 */
#include "arguments.h"
#include "core.h"

/* ---- shapes and strides ---- */

PyObject *shape_tuple(const uint64_t *shape, uint32_t rank) {
    PyObject *tuple = PyTuple_New(rank);
    for (uint32_t k = 0; tuple != NULL && k < rank; k++) {
        bool dynamic = shape[k] == HURRAY_DYNAMIC;
        PyObject *extent = dynamic ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(shape[k]);
        if (extent == NULL) {
            Py_CLEAR(tuple);
        } else {
            PyTuple_SET_ITEM(tuple, k, extent);
        }
    }
    return tuple;
}

PyObject *strides_tuple(const int64_t *strides, uint32_t rank) {
    PyObject *tuple = PyTuple_New(rank);
    for (uint32_t k = 0; tuple != NULL && k < rank; k++) {
        PyObject *stride = PyLong_FromLongLong(strides[k]);
        if (stride == NULL) {
            Py_CLEAR(tuple);
        } else {
            PyTuple_SET_ITEM(tuple, k, stride);
        }
    }
    return tuple;
}

/* One entry; `name` is "shape[2]". */
static bool read_extent(CoreState *state, PyObject *item, const char *name, uint64_t *out) {
    if (item == Py_None) {
        *out = HURRAY_DYNAMIC;
        return true;
    }
    if (!PyIndex_Check(item)) {
        PyErr_Format(PyExc_TypeError, "%s must be an int or None, not %.200s", name,
                     Py_TYPE(item)->tp_name);
        return false;
    }
    PyObject *number = PyNumber_Index(item);
    if (number == NULL) return false;
    *out = PyLong_AsUnsignedLongLong(number);
    /* Out of range is the one way that can fail, and looks like the one value not allowed. */
    bool valid = *out != UINT64_MAX;
    if (!valid) {
        PyErr_Clear();
        argument_refuse(state->InvalidDescriptorError, name, number,
                        "0 to 2**64 - 2, or None for a dynamic dimension");
    }
    Py_DECREF(number);
    return valid;
}

static bool read_extents(CoreState *state, PyObject *items, uint64_t *shape, uint32_t *rank) {
    Py_ssize_t count = PyTuple_GET_SIZE(items);
    if (count > (Py_ssize_t)HURRAY_MAX_RANK) {
        PyErr_Format(state->InvalidDescriptorError,
                     "shape has %zd dimensions; there can be %u at most", count, HURRAY_MAX_RANK);
        return false;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        char name[32];
        PyOS_snprintf(name, sizeof name, "shape[%d]", (int)k);
        if (!read_extent(state, PyTuple_GET_ITEM(items, k), name, &shape[k])) return false;
    }
    *rank = (uint32_t)count;
    return true;
}

bool shape_from_object(CoreState *state, PyObject *object, uint64_t *shape, uint32_t *rank) {
    /* An array is a sequence, and may be an index as well; a NumPy scalar is an index only. */
    if (PyIndex_Check(object) && !PySequence_Check(object)) {
        *rank = 1;
        return read_extent(state, object, "shape", &shape[0]);
    }
    PyObject *items = argument_as_tuple(object, "shape");
    if (items == NULL) return false;
    bool read = read_extents(state, items, shape, rank);
    Py_DECREF(items);
    return read;
}

/* ---- what descriptors and tensors say alike ---- */

/* The number of elements. False when a dynamic dimension leaves it open. */
static bool count_elements(const HurrayDescriptorFields *fields, uint64_t *count) {
    return !hurray_shape_is_dynamic(fields->shape, fields->rank) &&
           hurray_shape_count(fields->shape, fields->rank, count) == HURRAY_OK;
}

/* Bytes of all buffers; they lie in memory together, or are counted by whoever made them up. */
static PyObject *all_bytes(const HurrayDescriptorFields *fields) {
    PyObject *sum = PyLong_FromLong(0);
    for (uint32_t i = 0; sum != NULL && i < fields->buffer_count; i++) {
        PyObject *size = PyLong_FromUnsignedLongLong(fields->buffers[i].byte_size);
        PyObject *next = size == NULL ? NULL : PyNumber_Add(sum, size);
        Py_XDECREF(size);
        Py_SETREF(sum, next);
    }
    return sum;
}

PyObject *fields_nbytes(CoreState *state, const HurrayDescriptorFields *fields) {
    bool is_dense = hurray_layout_class(fields->layout.tag) == HURRAY_LAYOUT_CLASS_DENSE;
    if (!is_dense || fields->quantization != NULL) return all_bytes(fields);
    uint64_t count, bytes;
    if (!count_elements(fields, &count)) Py_RETURN_NONE;
    HurrayPacking packing;
    HurrayStatus status = hurray_packing_of(fields->type_tag, fields->extension_type, &packing);
    if (status == HURRAY_OK) status = hurray_packing_size(packing, count, &bytes);
    if (status != HURRAY_OK) return raise_status(state, status);
    return PyLong_FromUnsignedLongLong(bytes);
}

PyObject *fields_section(CoreState *state, const HurrayDescriptorFields *fields, void *section) {
    switch ((intptr_t)section) {
    case FIELDS_QUANTIZATION:
        if (fields->quantization == NULL) Py_RETURN_NONE;
        return scheme_new(state, fields->quantization);
    case FIELDS_STATISTICS:
        if (fields->statistics == NULL) Py_RETURN_NONE;
        return statistics_new(state, fields->statistics);
    case FIELDS_SHARD:
        if (fields->shard == NULL) Py_RETURN_NONE;
        return shard_new(state, fields->shard, fields->rank);
    case FIELDS_EXTENSION_TYPE:
        if (fields->extension_type == NULL) Py_RETURN_NONE;
        return extension_type_new(state, fields->extension_type);
    default: return member_role_new(fields->member);
    }
}

PyObject *fields_encoded(CoreState *state, const HurrayDescriptorFields *fields) {
    uint8_t usual[512]; /* long enough for nearly all, which then need not be measured first */
    uint64_t size;
    uintptr_t length;
    HurrayStatus status = hurray_descriptor_encode(fields, usual, sizeof usual, &length);
    if (status == HURRAY_OK) {
        return PyBytes_FromStringAndSize((const char *)usual, (Py_ssize_t)length);
    }
    if (status == HURRAY_ERR_BUFFER_TOO_SMALL) {
        status = hurray_descriptor_encoded_size(fields, &size);
    }
    if (status != HURRAY_OK) return raise_status(state, status);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size); /* below 4 GiB */
    if (bytes == NULL) return NULL;
    status = hurray_descriptor_encode(fields, (uint8_t *)PyBytes_AS_STRING(bytes), (uintptr_t)size,
                                      &length);
    if (status == HURRAY_OK) return bytes;
    Py_DECREF(bytes);
    return raise_status(state, status);
}

/* ---- BufferHandle ---- */

typedef struct BufferHandleObject {
    PyObject_HEAD HurrayBufferHandle handle;
    PyObject *device; /* the Device that handle.device_tag and .memory_class belong to */
} BufferHandleObject;

static BufferHandleObject *handle_of(PyObject *self) { return (BufferHandleObject *)self; }

static PyObject *buffer_handle_new(CoreState *state, const HurrayBufferHandle *handle,
                                   PyObject *device) {
    PyTypeObject *type = state->BufferHandleType;
    PyObject *self = type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    handle_of(self)->handle = *handle;
    handle_of(self)->device = Py_NewRef(device);
    return self;
}

PyObject *buffer_handles_new(CoreState *state, const HurrayDescriptorFields *fields,
                             PyObject *device) {
    PyObject *tuple = PyTuple_New(fields->buffer_count);
    for (uint32_t i = 0; tuple != NULL && i < fields->buffer_count; i++) {
        PyObject *handle = buffer_handle_new(state, &fields->buffers[i], device);
        if (handle == NULL) {
            Py_CLEAR(tuple);
        } else {
            PyTuple_SET_ITEM(tuple, i, handle);
        }
    }
    return tuple;
}

static void buffer_handle_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(handle_of(self)->device);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *get_byte_size(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLongLong(handle_of(self)->handle.byte_size);
}

static PyObject *get_alignment(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLong(handle_of(self)->handle.alignment);
}

static PyObject *get_sync_mode(PyObject *self, void *closure) {
    (void)closure;
    return PyUnicode_FromString(hurray_sync_mode_name(handle_of(self)->handle.sync_mode));
}

static PyObject *get_handle_device(PyObject *self, void *closure) {
    (void)closure;
    return Py_NewRef(handle_of(self)->device);
}

static PyObject *get_is_empty(PyObject *self, void *closure) {
    (void)closure;
    return PyBool_FromLong(handle_of(self)->handle.byte_size == 0);
}

static PyObject *buffer_handle_repr(PyObject *self) {
    const HurrayBufferHandle *handle = &handle_of(self)->handle;
    return PyUnicode_FromFormat(
        "BufferHandle(byte_size=%llu, alignment=%u, sync_mode='%s', device=%R)",
        (unsigned long long)handle->byte_size, handle->alignment,
        hurray_sync_mode_name(handle->sync_mode), handle_of(self)->device);
}

/* All that counts, as Python compares and hashes it. */
static PyObject *buffer_handle_key(PyObject *self) {
    const HurrayBufferHandle *handle = &handle_of(self)->handle;
    return Py_BuildValue("(KIiO)", (unsigned long long)handle->byte_size, handle->alignment,
                         handle->sync_mode, handle_of(self)->device);
}

static PyObject *buffer_handle_richcompare(PyObject *self, PyObject *other, int operation) {
    bool comparable = Py_IS_TYPE(other, Py_TYPE(self));
    if (!comparable || (operation != Py_EQ && operation != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    PyObject *mine = buffer_handle_key(self);
    PyObject *theirs = buffer_handle_key(other);
    PyObject *result = NULL;
    if (mine != NULL && theirs != NULL) result = PyObject_RichCompare(mine, theirs, operation);
    Py_XDECREF(mine);
    Py_XDECREF(theirs);
    return result;
}

static Py_hash_t buffer_handle_hash(PyObject *self) {
    PyObject *key = buffer_handle_key(self);
    if (key == NULL) return -1;
    Py_hash_t hash = PyObject_Hash(key);
    Py_DECREF(key);
    return hash;
}

static PyObject *buffer_handle_copy(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return Py_NewRef(self);
}

static PyObject *buffer_handle_reduce(PyObject *self, PyObject *ignored) {
    (void)ignored;
    const HurrayBufferHandle *handle = &handle_of(self)->handle;
    PyObject *restore = PyObject_GetAttrString((PyObject *)Py_TYPE(self), "_restore");
    if (restore == NULL) return NULL;
    return Py_BuildValue("N(KIsO)", restore, (unsigned long long)handle->byte_size,
                         handle->alignment, hurray_sync_mode_name(handle->sync_mode),
                         handle_of(self)->device);
}

/* The mode of a name; what none has is refused by the check of the whole handle. */
static uint8_t sync_mode_of_name(const char *name) {
    uint8_t mode = HURRAY_SYNC_PRODUCER_SYNCED;
    while (mode <= HURRAY_SYNC_CONSUMER_STREAM && strcmp(hurray_sync_mode_name(mode), name) != 0) {
        mode++;
    }
    return mode;
}

/* Unpickles. A pickle is not believed: what no descriptor says, no handle says. */
static PyObject *buffer_handle_restore(PyObject *type, PyObject *args) {
    CoreState *state = PyType_GetModuleState((PyTypeObject *)type);
    PyObject *byte_size, *alignment, *device;
    const char *sync_mode;
    HurrayBufferHandle handle = {0};
    HurrayDevice where;
    uint64_t promised;
    if (!PyArg_ParseTuple(args, "OOsO:_restore", &byte_size, &alignment, &sync_mode, &device) ||
        !argument_as_u64(byte_size, "byte_size", &handle.byte_size) ||
        !argument_as_u64(alignment, "alignment", &promised) ||
        !device_as_value(state, device, "device", &where)) {
        return NULL;
    }
    handle.alignment = promised <= UINT32_MAX ? (uint32_t)promised : 0; /* 0 is refused, too */
    handle.device_tag = where.tag;
    handle.memory_class = where.memory_class;
    handle.sync_mode = sync_mode_of_name(sync_mode);
    HurrayStatus status = hurray_buffer_handle_check(&handle);
    if (status != HURRAY_OK) return raise_status(state, status);
    return buffer_handle_new(state, &handle, device);
}

static PyMethodDef buffer_handle_methods[] = {
    {"_restore", buffer_handle_restore, METH_VARARGS | METH_CLASS, NULL},
    {"__reduce__", buffer_handle_reduce, METH_NOARGS, NULL},
    {"__copy__", buffer_handle_copy, METH_NOARGS, NULL},
    {"__deepcopy__", buffer_handle_copy, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef buffer_handle_getset[] = {
    {"byte_size", get_byte_size, NULL, "int: bytes of the buffer.", NULL},
    {"alignment", get_alignment, NULL,
     "int: bytes, the power of two to which its address is promised to be aligned.", NULL},
    {"sync_mode", get_sync_mode, NULL,
     "str: when its bytes may be used: 'producer_synced' (at once), 'event' or "
     "'consumer_stream'.",
     NULL},
    {"device", get_handle_device, NULL, "Device: where it is.", NULL},
    {"is_empty", get_is_empty, NULL, "bool: it has no bytes, and perhaps no address.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(
    buffer_handle_doc,
    "What a descriptor says about one buffer (spec 1.5, 8.10): sizes and promises, no\n"
    "address. It keeps neither tensor nor buffer alive. Compared and hashed by value; not\n"
    "constructed: see Tensor.buffer_handles."
    "\n\n"
    ">>> h = hurray.zeros(3).buffer_handles[0]\n"
    ">>> h.byte_size, h.alignment, h.sync_mode\n"
    "(24, 64, 'producer_synced')");

static PyType_Slot buffer_handle_slots[] = {
    {Py_tp_doc, (char *)buffer_handle_doc}, {Py_tp_repr, buffer_handle_repr},
    {Py_tp_hash, buffer_handle_hash},       {Py_tp_richcompare, buffer_handle_richcompare},
    {Py_tp_methods, buffer_handle_methods}, {Py_tp_getset, buffer_handle_getset},
    {Py_tp_dealloc, buffer_handle_dealloc}, {0, NULL},
};

static PyType_Spec buffer_handle_spec = {
    .name = "hurray.BufferHandle",
    .basicsize = sizeof(BufferHandleObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = buffer_handle_slots,
};

/* ---- Descriptor: making ---- */

typedef struct DescriptorObject {
    PyObject_HEAD HurrayDescriptor *descriptor;
    PyObject *device; /* of all its buffers; device_id 0, which a descriptor does not know better */
} DescriptorObject;

static const HurrayDescriptorFields *fields_of(PyObject *self) {
    return hurray_descriptor_fields(((DescriptorObject *)self)->descriptor);
}

/* Takes over `descriptor`, also on failure. */
static PyObject *descriptor_wrap(CoreState *state, HurrayDescriptor *descriptor) {
    const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
    HurrayDevice device = {.tag = HURRAY_DEVICE_CPU};
    if (fields->buffer_count != 0) {
        device.tag = fields->buffers[0].device_tag;
        device.memory_class = fields->buffers[0].memory_class;
    }
    PyObject *where = device_new(state, device);
    DescriptorObject *self =
        where == NULL ? NULL : PyObject_New(DescriptorObject, state->DescriptorType);
    if (self == NULL) {
        Py_XDECREF(where);
        hurray_descriptor_destroy(descriptor);
        return NULL;
    }
    self->descriptor = descriptor;
    self->device = where;
    return (PyObject *)self;
}

PyObject *descriptor_new(CoreState *state, const HurrayDescriptorFields *fields) {
    HurrayDescriptor *descriptor;
    HurrayStatus status = hurray_descriptor_create(fields, &descriptor);
    if (status != HURRAY_OK) return raise_status(state, status);
    return descriptor_wrap(state, descriptor);
}

static void descriptor_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    hurray_descriptor_destroy(((DescriptorObject *)self)->descriptor);
    Py_DECREF(((DescriptorObject *)self)->device);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(decode_doc,
             "decode($type, /, bytes, *, permissive=False)\n--\n\n"
             "Reads the descriptor that bytes-like `bytes` begin with; those after its own length\n"
             "are ignored (spec 1).\n\n"
             "InvalidDescriptorError names the field that breaks a rule, its value and what was\n"
             "expected. permissive=True carries tags that are not assigned, private layouts and\n"
             "quantized tensors without padding; what nobody knows is encoded again as it was."
             "\n\n"
             ">>> data = hurray.zeros((2, 3)).descriptor.encode()\n"
             ">>> hurray.Descriptor.decode(data).shape\n"
             "(2, 3)");

static const Signature decode_signature = {
    "decode", {{"bytes", ARGUMENT_REQUIRED}, {"permissive", ARGUMENT_KEYWORD_ONLY}}};

/* False with the exception of an object that gives no buffer. */
static bool decode_buffer(PyObject *object, const HurrayDecodeOptions *options,
                          HurrayStatus *status, HurrayDescriptor **out) {
    static const uint8_t none = 0; /* the address of an empty buffer may be NULL */
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) < 0) return false;
    const uint8_t *bytes = view.buf != NULL ? view.buf : &none;
    *status = hurray_descriptor_decode_with(bytes, (uintptr_t)view.len, options, out);
    PyBuffer_Release(&view);
    return true;
}

static PyObject *descriptor_decode(PyObject *type, PyObject *const *args, Py_ssize_t nargs,
                                   PyObject *kwnames) {
    CoreState *state = PyType_GetModuleState((PyTypeObject *)type);
    PyObject *values[2] = {nargs == 1 ? args[0] : NULL, NULL};
    bool is_plain = nargs == 1 && kwnames == NULL;
    if (!is_plain && !arguments_parse(&decode_signature, args, nargs, kwnames, values)) return NULL;
    int permissive = argument_as_bool(values[1], 0);
    if (permissive < 0) return NULL;
    HurrayDecodeOptions options = {.permissive = permissive != 0};
    HurrayDescriptor *descriptor = NULL;
    HurrayStatus status;
    if (PyBytes_CheckExact(values[0])) {
        status = hurray_descriptor_decode_with((const uint8_t *)PyBytes_AS_STRING(values[0]),
                                               (uintptr_t)PyBytes_GET_SIZE(values[0]), &options,
                                               &descriptor);
    } else if (!decode_buffer(values[0], &options, &status, &descriptor)) {
        return NULL;
    }
    return status == HURRAY_OK ? descriptor_wrap(state, descriptor) : raise_status(state, status);
}

/* Unpickles: like decode, but what a permissive reader made is read by one. */
static PyObject *descriptor_restore(PyObject *type, PyObject *bytes) {
    CoreState *state = PyType_GetModuleState((PyTypeObject *)type);
    char *data;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(bytes, &data, &length) < 0) return NULL;
    HurrayDecodeOptions options = {.permissive = false};
    HurrayDescriptor *descriptor;
    HurrayStatus status;
    do {
        status = hurray_descriptor_decode_with((const uint8_t *)data, (uintptr_t)length, &options,
                                               &descriptor);
        if (status == HURRAY_OK) return descriptor_wrap(state, descriptor);
        options.permissive = !options.permissive;
    } while (options.permissive);
    return raise_status(state, status);
}

/* ---- Descriptor: bytes ---- */

static PyObject *get_encoded_len(PyObject *self, void *closure) {
    (void)closure;
    uint64_t size;
    HurrayStatus status = hurray_descriptor_encoded_size(fields_of(self), &size);
    if (status != HURRAY_OK) return raise_status(core_state_of(self), status);
    return PyLong_FromUnsignedLongLong(size);
}

PyDoc_STRVAR(encode_doc, "encode($self, /)\n--\n\n"
                         "The descriptor as bytes, format version 1.0 (spec 1)."
                         "\n\n"
                         ">>> d = hurray.zeros((2, 3)).descriptor\n"
                         ">>> len(d.encode()) == d.encoded_len\n"
                         "True");

static PyObject *descriptor_encode(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return fields_encoded(core_state_of(self), fields_of(self));
}

static PyObject *descriptor_reduce(PyObject *self, PyObject *ignored) {
    PyObject *bytes = descriptor_encode(self, ignored);
    if (bytes == NULL) return NULL;
    PyObject *restore = PyObject_GetAttrString((PyObject *)Py_TYPE(self), "_restore");
    if (restore == NULL) {
        Py_DECREF(bytes);
        return NULL;
    }
    return Py_BuildValue("N(N)", restore, bytes);
}

static PyObject *descriptor_copy(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return Py_NewRef(self);
}

static PyObject *descriptor_richcompare(PyObject *self, PyObject *other, int operation) {
    bool comparable = Py_IS_TYPE(other, Py_TYPE(self));
    if (!comparable || (operation != Py_EQ && operation != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    bool equal = hurray_descriptor_equal(fields_of(self), fields_of(other));
    return PyBool_FromLong(equal == (operation == Py_EQ));
}

/* ---- Descriptor: what it says ---- */

static PyObject *get_version(PyObject *self, void *closure) {
    (void)self;
    (void)closure;
    return Py_BuildValue("(ii)", (int)HURRAY_FORMAT_VERSION_MAJOR,
                         (int)HURRAY_FORMAT_VERSION_MINOR);
}

static PyObject *get_shape(PyObject *self, void *closure) {
    (void)closure;
    return shape_tuple(fields_of(self)->shape, fields_of(self)->rank);
}

static PyObject *get_ndim(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLong(fields_of(self)->rank);
}

static PyObject *get_size(PyObject *self, void *closure) {
    (void)closure;
    uint64_t count;
    if (!count_elements(fields_of(self), &count)) Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(count);
}

static PyObject *get_nbytes(PyObject *self, void *closure) {
    (void)closure;
    return fields_nbytes(core_state_of(self), fields_of(self));
}

static PyObject *get_dtype(PyObject *self, void *closure) {
    (void)closure;
    return Py_XNewRef(dtype_from_tag(core_state_of(self), fields_of(self)->type_tag));
}

static PyObject *get_device(PyObject *self, void *closure) {
    (void)closure;
    return Py_NewRef(((DescriptorObject *)self)->device);
}

static PyObject *get_layout(PyObject *self, void *closure) {
    (void)closure;
    return layout_new(core_state_of(self), &fields_of(self)->layout, fields_of(self)->rank);
}

static PyObject *get_byte_offset(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLongLong(fields_of(self)->byte_offset);
}

static PyObject *get_strides(PyObject *self, void *closure) {
    (void)closure;
    int64_t strides[HURRAY_MAX_RANK];
    HurrayStatus status = hurray_address_strides(fields_of(self), strides);
    if (status != HURRAY_OK) return raise_status_as(PyExc_AttributeError, status);
    return strides_tuple(strides, fields_of(self)->rank);
}

static PyObject *get_buffer_count(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLong(fields_of(self)->buffer_count);
}

static PyObject *get_buffer_handles(PyObject *self, void *closure) {
    (void)closure;
    return buffer_handles_new(core_state_of(self), fields_of(self),
                              ((DescriptorObject *)self)->device);
}

static PyObject *get_section(PyObject *self, void *section) {
    return fields_section(core_state_of(self), fields_of(self), section);
}

/* "float32", or "0x60" where a permissive reader took a tag that is nobody's yet. */
static PyObject *dtype_text(CoreState *state, uint8_t tag) {
    PyObject *dtype = dtype_from_tag(state, tag);
    if (dtype != NULL) return PyObject_Str(dtype);
    char text[8];
    PyErr_Clear();
    return PyUnicode_FromString(hex_byte(tag, text));
}

static PyObject *descriptor_repr(PyObject *self) {
    PyObject *shape = get_shape(self, NULL);
    PyObject *dtype = dtype_text(core_state_of(self), fields_of(self)->type_tag);
    PyObject *result = NULL;
    if (shape != NULL && dtype != NULL) {
        const char *layout = hurray_layout_name(fields_of(self)->layout.tag);
        result = PyUnicode_FromFormat(
            "hurray.Descriptor(dtype=%S, shape=%R, layout='%s', buffers=%u)", dtype, shape,
            layout != NULL ? layout : "extension", fields_of(self)->buffer_count);
    }
    Py_XDECREF(shape);
    Py_XDECREF(dtype);
    return result;
}

/* ---- Descriptor: the type ---- */

static PyMethodDef descriptor_methods[] = {
    {"decode", CORE_METHOD(descriptor_decode), METH_FASTCALL | METH_KEYWORDS | METH_CLASS,
     decode_doc},
    {"_restore", descriptor_restore, METH_O | METH_CLASS, NULL},
    {"encode", descriptor_encode, METH_NOARGS, encode_doc},
    {"__reduce__", descriptor_reduce, METH_NOARGS, NULL},
    {"__copy__", descriptor_copy, METH_NOARGS, NULL},
    {"__deepcopy__", descriptor_copy, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef descriptor_getset[] = {
    {"version", get_version, NULL, "tuple: (major, minor) of the format it encodes to.", NULL},
    {"encoded_len", get_encoded_len, NULL, "int: bytes of encode().", NULL},
    {"shape", get_shape, NULL, "tuple of int: extents; None where dynamic.", NULL},
    {"ndim", get_ndim, NULL, "int: the number of dimensions, 0 to 64.", NULL},
    {"size", get_size, NULL, "int: the number of elements; None if a dimension is dynamic.", NULL},
    {"nbytes", get_nbytes, NULL,
     "int: bytes of the packed elements, None if a dimension is dynamic; of tensors that are\n"
     "quantized or not dense the bytes of all buffers.",
     NULL},
    {"dtype", get_dtype, NULL,
     "Dtype: of the stored elements. InvalidDescriptorError naming the tag where it is not\n"
     "assigned, which a permissive reader carries: repr shows it, and encode()[14] is it.",
     NULL},
    {"device", get_device, NULL,
     "Device: of all buffers; device_id is 0, since a descriptor has none.", NULL},
    {"layout", get_layout, NULL, "Layout: where elements lie in the buffers.", NULL},
    {"byte_offset", get_byte_offset, NULL, "int: bytes to element [0, …, 0] in buffer 0.", NULL},
    {"strides", get_strides, NULL,
     "tuple of int: elements from one index to the next; AttributeError where the layout has\n"
     "none, or a dynamic dimension leaves them open.",
     NULL},
    {"buffer_count", get_buffer_count, NULL, "int: the number of buffers.", NULL},
    {"buffer_handles", get_buffer_handles, NULL, "tuple of BufferHandle.", NULL},
    {"quantization", get_section, NULL, "The quantization scheme, or None.",
     (void *)FIELDS_QUANTIZATION},
    {"statistics", get_section, NULL, "The Statistics, or None.", (void *)FIELDS_STATISTICS},
    {"shard", get_section, NULL, "The Shard, or None.", (void *)FIELDS_SHARD},
    {"extension_type", get_section, NULL, "The ExtensionType, or None.",
     (void *)FIELDS_EXTENSION_TYPE},
    {"member_role", get_section, NULL,
     "str: 'base' or 'correction' for a member of an overlay; else None.",
     (void *)FIELDS_MEMBER_ROLE},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(descriptor_doc,
             "Everything about a tensor but its bytes (spec 1, 8.10). Immutable; compared by what\n"
             "it encodes to. Not constructed: see Tensor.descriptor and Descriptor.decode(bytes)."
             "\n\n"
             ">>> d = hurray.zeros((2, 3)).descriptor\n"
             ">>> d.shape, d.dtype, d.layout, d.nbytes\n"
             "((2, 3), hurray.float64, RowMajorLayout(), 48)");

static PyType_Slot descriptor_slots[] = {
    {Py_tp_doc, (char *)descriptor_doc},       {Py_tp_repr, descriptor_repr},
    {Py_tp_hash, PyObject_HashNotImplemented}, {Py_tp_richcompare, descriptor_richcompare},
    {Py_tp_methods, descriptor_methods},       {Py_tp_getset, descriptor_getset},
    {Py_tp_dealloc, descriptor_dealloc},       {0, NULL},
};

static PyType_Spec descriptor_spec = {
    .name = "hurray.Descriptor",
    .basicsize = sizeof(DescriptorObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = descriptor_slots,
};

/* ---- the annotated table, for the `hurray` command ---- */

/* Keeps a line; false, which ends the printing, with an exception. */
static bool keep_line(const char *text, size_t length, void *context) {
    PyObject *line = PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "replace");
    bool kept = line != NULL && PyList_Append(context, line) == 0;
    Py_XDECREF(line);
    return kept;
}

PyDoc_STRVAR(
    print_descriptor_doc,
    "_print_descriptor($module, bytes, first_offset=0, color=False, permissive=False, /)\n"
    "--\n\n"
    "tuple: the annotated table of the descriptor that bytes begin with, broken ones up to\n"
    "where they can be followed, and whether it is valid. first_offset: what to call the\n"
    "offset of the first byte.");

static PyObject *print_descriptor(PyObject *module, PyObject *args) {
    Py_buffer bytes;
    unsigned long long first_offset = 0;
    int color = 0, permissive = 0;
    if (!PyArg_ParseTuple(args, "y*|Kpp:_print_descriptor", &bytes, &first_offset, &color,
                          &permissive)) {
        return NULL;
    }
    uint32_t digits = 0; /* of the last offset, so that columns stay columns */
    for (uint64_t rest = first_offset + (uint64_t)bytes.len; rest != 0; rest /= 10) digits++;
    const HurrayPrintOptions options = {.first_offset = first_offset,
                                        .offset_width = digits > 6 ? digits : 6,
                                        .color = color,
                                        .decode.permissive = permissive};
    HurrayStatus verdict = HURRAY_OK;
    PyObject *text = NULL, *empty = NULL;
    PyObject *lines = PyList_New(0);
    if (lines != NULL) {
        HurrayStatus status = hurray_descriptor_print(bytes.buf, (uintptr_t)bytes.len, &options,
                                                      keep_line, lines, &verdict);
        if (status == HURRAY_OK) {
            empty = PyUnicode_FromStringAndSize(NULL, 0);
        } else if (!PyErr_Occurred()) {
            raise_status(core_state_of_module(module), status);
        }
    }
    if (empty != NULL) text = PyUnicode_Join(empty, lines);
    Py_XDECREF(empty);
    Py_XDECREF(lines);
    PyBuffer_Release(&bytes);
    return text == NULL ? NULL
                        : Py_BuildValue("(NO)", text, verdict == HURRAY_OK ? Py_True : Py_False);
}

PyDoc_STRVAR(descriptor_length_doc,
             "_descriptor_length($module, prefix, /)\n--\n\n"
             "int: the bytes of a descriptor, from its first 10 (spec 5). InvalidDescriptorError.");

static PyObject *descriptor_length(PyObject *module, PyObject *prefix) {
    Py_buffer bytes;
    uint32_t length;
    if (PyObject_GetBuffer(prefix, &bytes, PyBUF_SIMPLE) < 0) return NULL;
    HurrayStatus status = hurray_descriptor_peek_length(bytes.buf, (uintptr_t)bytes.len, &length);
    PyBuffer_Release(&bytes);
    if (status != HURRAY_OK) return raise_status(core_state_of_module(module), status);
    return PyLong_FromUnsignedLong(length);
}

static PyMethodDef functions[] = {
    {"_print_descriptor", print_descriptor, METH_VARARGS, print_descriptor_doc},
    {"_descriptor_length", descriptor_length, METH_O, descriptor_length_doc},
    {NULL, NULL, 0, NULL},
};

/* Puts what a class method gives when it is asked for in its place: making that anew takes a tenth of
 * a decoding. */
static int bind_once(PyTypeObject *type, const char *class_method) {
    PyObject *bound = PyObject_GetAttrString((PyObject *)type, class_method);
    int result = bound == NULL ? -1 : PyDict_SetItemString(type->tp_dict, class_method, bound);
    Py_XDECREF(bound);
    PyType_Modified(type);
    return result;
}

int descriptor_setup(PyObject *module, CoreState *state) {
    state->DescriptorType = core_add_type(module, &descriptor_spec, NULL);
    if (state->DescriptorType == NULL || bind_once(state->DescriptorType, "decode") < 0) return -1;
    state->BufferHandleType = core_add_type(module, &buffer_handle_spec, NULL);
    if (state->BufferHandleType == NULL) return -1;
    return PyModule_AddFunctions(module, functions);
}
