/*
 * hurray.Tensor (spec 8.3): the constructor, what a tensor says about itself, and its views. The
 * protocols that hand its memory over live in files of their own.
 */
#include "core.h"

#include <structmember.h>

#include "arguments.h"
#include "new_tensor.h"

/* ---- making ---- */

/* Another library's deleter may run Python code, which must neither see nor lose an exception that
 * is under way. */
static void release_quietly(HurrayTensor *tensor) {
    PyObject *error, *value, *traceback;
    PyErr_Fetch(&error, &value, &traceback);
    hurray_tensor_release(tensor);
    PyErr_Restore(error, value, traceback);
}

PyObject *tensor_wrap(CoreState *state, HurrayTensor *tensor) {
    PyObject *device = device_new(state, hurray_tensor_device(tensor));
    TensorObject *self = device == NULL ? NULL : PyObject_New(TensorObject, state->TensorType);
    if (self == NULL) {
        Py_XDECREF(device);
        release_quietly(tensor);
        return NULL;
    }
    self->tensor = tensor;
    self->device = device;
    self->weak_references = NULL;
    return (PyObject *)self;
}

static void tensor_dealloc(PyObject *self) {
    TensorObject *object = (TensorObject *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (object->weak_references != NULL) PyObject_ClearWeakRefs(self);
    release_quietly(object->tensor);
    Py_XDECREF(object->device);
    PyObject_Free(self);
    Py_DECREF(type);
}

bool copy_from_object(PyObject *object, HurrayCopy *out) {
    *out = HURRAY_COPY_IF_NEEDED;
    if (object == NULL || object == Py_None) return true;
    int truth = PyObject_IsTrue(object);
    if (truth < 0) return false;
    *out = truth ? HURRAY_COPY_ALWAYS : HURRAY_COPY_NEVER;
    return true;
}

/* ---- what it says about itself ---- */

static const HurrayDescriptorFields *fields_of(PyObject *self) {
    return hurray_tensor_fields(tensor_of(self));
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
    uint64_t count = hurray_tensor_count(tensor_of(self));
    if (count == UINT64_MAX) Py_RETURN_NONE;
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
    return Py_NewRef(((TensorObject *)self)->device);
}

static PyObject *get_layout(PyObject *self, void *closure) {
    (void)closure;
    return layout_new(core_state_of(self), &fields_of(self)->layout, fields_of(self)->rank);
}

static PyObject *get_byte_offset(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLongLong(fields_of(self)->byte_offset);
}

static PyObject *get_descriptor(PyObject *self, void *closure) {
    (void)closure;
    return descriptor_new(core_state_of(self), fields_of(self));
}

static PyObject *get_buffer_handles(PyObject *self, void *closure) {
    (void)closure;
    return buffer_handles_new(core_state_of(self), fields_of(self), ((TensorObject *)self)->device);
}

static PyObject *get_buffer_count(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLong(fields_of(self)->buffer_count);
}

static PyObject *get_strides(PyObject *self, void *closure) {
    (void)closure;
    const HurrayDescriptorFields *fields = fields_of(self);
    int64_t strides[HURRAY_MAX_RANK];
    HurrayStatus status = hurray_address_strides(fields, strides);
    if (status != HURRAY_OK) return raise_status_as(PyExc_AttributeError, status);
    return strides_tuple(strides, fields->rank);
}

static PyObject *get_readonly(PyObject *self, void *closure) {
    (void)closure;
    return PyBool_FromLong(hurray_tensor_is_read_only(tensor_of(self)));
}

static PyObject *get_section(PyObject *self, void *section) {
    return fields_section(core_state_of(self), fields_of(self), section);
}

/* ---- views ---- */

static PyObject *get_transpose(PyObject *self, void *closure) {
    (void)closure;
    HurrayTensor *view = NULL;
    HurrayStatus status = hurray_tensor_transpose(tensor_of(self), &view);
    if (status != HURRAY_OK) return raise_status(core_state_of(self), status);
    return tensor_wrap(core_state_of(self), view);
}

PyDoc_STRVAR(buffer_doc,
             "buffer($self, index, /)\n--\n\n"
             "The bytes of one buffer as a uint8 tensor [byte_size], sharing its memory.\n\n"
             "The view keeps the memory alive. IndexError when there is no such buffer (spec 8.3)."
             "\n\n"
             ">>> hurray.asarray([1, 2]).buffer(0).shape\n"
             "(16,)");

static PyObject *tensor_buffer(PyObject *self, PyObject *argument) {
    int64_t index;
    int overflow;
    if (!argument_as_i64(argument, "buffer index", &index, &overflow)) return NULL;
    CoreState *state = core_state_of(self);
    long count = (long)fields_of(self)->buffer_count;
    if (index < 0 && overflow == 0) index += count;
    if (overflow != 0 || index < 0 || index >= count) {
        char expected[64];
        PyOS_snprintf(expected, sizeof expected, "-%ld to %ld, for %ld buffers", count, count - 1,
                      count);
        argument_refuse(PyExc_IndexError, "buffer index", argument, expected);
        return NULL;
    }
    HurrayTensor *view = NULL;
    HurrayStatus status = hurray_tensor_buffer_view(tensor_of(self), (uint32_t)index, &view);
    if (status != HURRAY_OK) return raise_status(state, status);
    return tensor_wrap(state, view);
}

/* ---- display ---- */

static PyObject *tensor_repr(PyObject *self) {
    return core_call_glue("hurray._display", "tensor_repr", self);
}

static PyObject *tensor_str(PyObject *self) {
    return core_call_glue("hurray._display", "tensor_str", self);
}

/* ---- helpers of the glue for torch ---- */

PyDoc_STRVAR(unpacked_doc,
             "_unpacked($self, /)\n--\n\n"
             "A sub-byte tensor's elements as a row-major uint8 copy, one byte each.");

static PyObject *tensor_unpacked(PyObject *self, PyObject *unused) {
    (void)unused;
    CoreState *state = core_state_of(self);
    HurrayDescriptorFields fields = *fields_of(self);
    uint64_t count = hurray_tensor_count(tensor_of(self));
    HurrayBuffer *buffer = NULL;
    HurrayTensor *tensor = NULL;
    HurrayStatus status = hurray_tensor_check_readable(tensor_of(self), false);
    if (status == HURRAY_OK) status = hurray_shape_count(fields.shape, fields.rank, &count);
    if (status == HURRAY_OK) status = hurray_buffer_allocate(count, false, NULL, &buffer);
    if (status != HURRAY_OK) return raise_status(state, status);
    Py_BEGIN_ALLOW_THREADS
    status = hurray_tensor_unpack(tensor_of(self), hurray_buffer_info(buffer)->data);
    Py_END_ALLOW_THREADS
    if (status == HURRAY_OK) {
        HurrayDescriptorFields bytes = {
            .type_tag = HURRAY_TYPE_UINT8,
            .rank = fields.rank,
            .shape = fields.shape,
            .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
            .buffer_count = 1,
        };
        status = hurray_tensor_create(&bytes, &buffer, &tensor);
    }
    if (status != HURRAY_OK) {
        hurray_buffer_destroy(buffer);
        return raise_status(state, status);
    }
    return tensor_wrap(state, tensor);
}

PyDoc_STRVAR(reinterpret_doc,
             "_reinterpret($self, dtype, /)\n--\n\n"
             "The same bytes as elements of another dtype of the same width, sharing the memory.");

static PyObject *tensor_reinterpret(PyObject *self, PyObject *dtype) {
    CoreState *state = core_state_of(self);
    uint8_t tag;
    if (!dtype_as_tag(state, dtype, "dtype", &tag)) return NULL;
    HurrayTensor *view = NULL;
    HurrayStatus status = hurray_tensor_reinterpret(tensor_of(self), tag, &view);
    if (status != HURRAY_OK) return raise_status(state, status);
    return tensor_wrap(state, view);
}

/* Of a dimension that is longer, NumPy shows so many elements at either end and an ellipsis. */
static uint64_t cut_extent(uint64_t extent, uint64_t edge) {
    return extent <= 2 * edge ? extent : 2 * edge + 1;
}

/* Where in the tensor the element at `index` of the cut one is. */
static void uncut_index(const HurrayDescriptorFields *fields, const HurrayDescriptorFields *cut,
                        uint64_t edge, const uint64_t *index, uint64_t *out) {
    for (uint32_t k = 0; k < fields->rank; k++) {
        bool is_behind = index[k] > edge;
        out[k] = is_behind ? fields->shape[k] - (cut->shape[k] - index[k]) : index[k];
    }
}

static void step(const HurrayDescriptorFields *fields, uint64_t *index) {
    for (uint32_t k = fields->rank; k-- > 0 && ++index[k] == fields->shape[k];) index[k] = 0;
}

/* Copies the elements of the cut tensor, row-major into zeroed memory. */
static HurrayStatus copy_edges(const HurrayTensor *tensor, const HurrayDescriptorFields *cut,
                               uint64_t count, uint64_t edge, uint8_t *out) {
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    const uint8_t *data = hurray_buffer_info(hurray_tensor_buffer(tensor, 0))->data;
    size_t size = hurray_element_type_from_tag(fields->type_tag)->bits / 8;
    uint64_t index[HURRAY_MAX_RANK] = {0}, whole[HURRAY_MAX_RANK];
    for (uint64_t i = 0; i < count; i++, step(cut, index)) {
        int64_t offset;
        HurrayElementPlace place;
        uncut_index(fields, cut, edge, index, whole);
        HurrayStatus status = hurray_address_offset(fields, whole, &offset);
        if (status == HURRAY_OK) status = hurray_address_place(fields, offset, &place);
        if (status != HURRAY_OK) return status;
        if (size != 0) {
            memcpy(out + i * size, data + place.byte, size);
        } else {
            out[i / 8] |= (uint8_t)((data[place.byte] >> place.bit & 1u) << i % 8);
        }
    }
    return HURRAY_OK;
}

PyDoc_STRVAR(edges_doc,
             "_edges($self, edge, /)\n--\n\n"
             "What NumPy shows of a large dense tensor of a standard type: of each dimension that\n"
             "is longer than 2 * edge the first and last `edge` and one between; row-major.");

static PyObject *tensor_edges(PyObject *self, PyObject *argument) {
    CoreState *state = core_state_of(self);
    HurrayTensor *tensor = tensor_of(self);
    const HurrayDescriptorFields *fields = fields_of(self);
    NewTensor made = {
        .function = "_edges",
        .type = hurray_element_type_from_tag(fields->type_tag),
        .rank = fields->rank,
    };
    uint64_t edge;
    if (!argument_as_u64(argument, "edge", &edge)) return NULL;
    if (edge > UINT32_MAX) edge = UINT32_MAX;
    for (uint32_t k = 0; k < made.rank; k++) made.shape[k] = cut_extent(fields->shape[k], edge);
    HurrayStatus status = hurray_tensor_check_readable(tensor, false);
    if (status != HURRAY_OK) return raise_status(state, status);
    if (made.type == NULL || !made.type->is_standard) {
        return PyErr_Format(state->UnsupportedError, "_edges() shows standard types only");
    }
    if (!new_tensor_allocate(state, &made, true)) return NULL;
    const HurrayDescriptorFields cut = {.rank = made.rank, .shape = made.shape};
    status = copy_edges(tensor, &cut, made.count, edge, made.data);
    if (status == HURRAY_OK) return new_tensor_finish(state, &made);
    new_tensor_abandon(&made);
    return raise_status(state, status);
}

PyDoc_STRVAR(dir_doc, "__dir__($self, /)\n--\n\n"
                      "Every attribute that this tensor has, which depends on its layout.");

/* Takes out of a list of names those that hasattr denies. */
static bool remove_absent(PyObject *self, PyObject *names) {
    for (const PyGetSetDef *def = core_state_of(self)->tensor_getset; def->name != NULL; def++) {
        PyObject *value = def->get(self, def->closure);
        Py_XDECREF(value);
        if (value != NULL) continue;
        bool is_absent = PyErr_ExceptionMatches(PyExc_AttributeError);
        if (!is_absent && !PyErr_ExceptionMatches(PyExc_Exception)) return false;
        PyErr_Clear();
        PyObject *gone = is_absent ? PyObject_CallMethod(names, "remove", "s", def->name) : NULL;
        if (is_absent && gone == NULL) return false;
        Py_XDECREF(gone);
    }
    return true;
}

static PyObject *tensor_dir(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *names = PyObject_CallMethod((PyObject *)&PyBaseObject_Type, "__dir__", "O", self);
    if (names != NULL && !remove_absent(self, names)) Py_CLEAR(names);
    return names;
}

PyDoc_STRVAR(sizeof_doc, "__sizeof__($self, /)\n--\n\n"
                         "Bytes of the object and of the buffers it keeps alive.");

static PyObject *tensor_sizeof(PyObject *self, PyObject *unused) {
    (void)unused;
    uint64_t bytes = sizeof(TensorObject);
    for (uint32_t i = 0; i < fields_of(self)->buffer_count; i++) {
        bytes += fields_of(self)->buffers[i].byte_size;
    }
    return PyLong_FromUnsignedLongLong(bytes);
}

/* ---- the type ---- */

static PyMethodDef own_methods[] = {
    {"buffer", tensor_buffer, METH_O, buffer_doc},
    {"__sizeof__", tensor_sizeof, METH_NOARGS, sizeof_doc},
    {"__dir__", tensor_dir, METH_NOARGS, dir_doc},
    {"_unpacked", tensor_unpacked, METH_NOARGS, unpacked_doc},
    {"_reinterpret", tensor_reinterpret, METH_O, reinterpret_doc},
    {"_edges", tensor_edges, METH_O, edges_doc},
    {NULL, NULL, 0, NULL},
};

#define SECTION(name) (void *)(uintptr_t)#name

static PyGetSetDef own_getset[] = {
    {"shape", get_shape, NULL, "Extents: a tuple of int, None where dynamic.", NULL},
    {"ndim", get_ndim, NULL, "The number of dimensions, 0 for a scalar.", NULL},
    {"size", get_size, NULL, "The number of elements; None while a dimension is dynamic.", NULL},
    {"nbytes", get_nbytes, NULL,
     "Bytes of the elements, packed without gaps, None while a dimension is dynamic; of tensors\n"
     "that are quantized or not dense the bytes of all buffers.",
     NULL},
    {"dtype", get_dtype, NULL,
     "The Dtype of the stored elements; InvalidDescriptorError naming a tag that is not assigned.",
     NULL},
    {"device", get_device, NULL, "The Device where the buffers are.", NULL},
    {"layout", get_layout, NULL, "A Layout equal to this tensor's; a new object each time.", NULL},
    {"quantization", get_section, NULL, "The quantization scheme, or None.",
     (void *)FIELDS_QUANTIZATION},
    {"statistics", get_section, NULL, "The Statistics, or None.", (void *)FIELDS_STATISTICS},
    {"shard", get_section, NULL, "The Shard, or None.", (void *)FIELDS_SHARD},
    {"extension_type", get_section, NULL, "The ExtensionType, or None.",
     (void *)FIELDS_EXTENSION_TYPE},
    {"member_role", get_section, NULL, "'base', 'correction' or None.", (void *)FIELDS_MEMBER_ROLE},
    {"byte_offset", get_byte_offset, NULL, "Bytes from the start of buffer 0 to element 0.", NULL},
    {"descriptor", get_descriptor, NULL, "A Descriptor of this tensor.", NULL},
    {"buffer_handles", get_buffer_handles, NULL,
     "What the descriptor says of each buffer: a tuple of BufferHandle.", NULL},
    {"buffer_count", get_buffer_count, NULL, "The number of buffers.", NULL},
    {"strides", get_strides, NULL,
     "Steps in elements, one per dimension; AttributeError where the layout has none.", NULL},
    {"readonly", get_readonly, NULL, "Whether the memory must not be written.", NULL},
    {"T", get_transpose, NULL,
     "The transpose of a matrix, sharing its memory; ValueError unless ndim is 2.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(
    tensor_doc,
    "Tensor(buffer, dtype, shape, device=None, *, aux_buffers=(), layout=None,\n"
    "       quantization=None, statistics=None, shard=None, extension_type=None,\n"
    "       member_role=None, byte_offset=0)\n--\n\n"
    "A tensor: dtype, shape and layout over buffers (spec 8.3).\n\n"
    "The constructor copies the bytes of `buffer` and `aux_buffers` into 64-aligned memory of\n"
    "its own; from_numpy, from_dlpack and from_torch share memory instead. `shape` is a\n"
    "sequence of ints, None where an extent is dynamic. Buffers are those of the layout, in\n"
    "its order, then those of the quantization scheme. They may be larger than needed, those\n"
    "of parameters apart, and nothing is inferred from them. A `device` other than the CPU\n"
    "declares a placement: the bytes stay host memory, and handing out their address is\n"
    "refused. A private dtype needs an extension_type; member_role is 'base' or 'correction'.\n\n"
    "InvalidDescriptorError: dtype, shape, layout, the number of buffers and the sections do\n"
    "not go together. BufferError: a buffer is smaller than they need.\n"
    "UnsupportedError: a composite layout, for which there is hurray.Composite."
    "\n\n"
    ">>> hurray.Tensor(bytes([1, 2, 3, 4, 5, 6]), hurray.uint8, [2, 3])\n"
    "hurray.Tensor([[1, 2, 3],\n"
    "               [4, 5, 6]], dtype=uint8)\n"
    ">>> hurray.Tensor(b'\\x21\\x43', hurray.dtype.int4, [4]).to_numpy()\n"
    "array([1, 2, 3, 4], dtype=int4)");

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* The methods and attributes of all files, collected into the tables that the type points to. */
static void collect_tables(CoreState *state) {
    const PyMethodDef *const sources[] = {own_methods,           dlpack_tensor_methods,
                                          numpy_tensor_methods,  capsule_tensor_methods,
                                          pickle_tensor_methods, convert_tensor_methods,
                                          sparse_tensor_methods, torch_tensor_methods};
    size_t used = 0;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(sources); i++) {
        for (const PyMethodDef *method = sources[i]; method->ml_name != NULL; method++) {
            assert(used + 1 < CORE_MAX_METHODS);
            state->tensor_methods[used++] = *method;
        }
    }
    used = Py_ARRAY_LENGTH(own_getset) - 1;
    memcpy(state->tensor_getset, own_getset, used * sizeof(PyGetSetDef));
    const PyGetSetDef *const more[] = {component_tensor_getset, numpy_tensor_getset};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(more); i++) {
        for (const PyGetSetDef *getset = more[i]; getset->name != NULL; getset++) {
            assert(used + 1 < CORE_MAX_GETSET);
            state->tensor_getset[used++] = *getset;
        }
    }
}

bool tensor_is_any(PyObject *object) { return Py_TYPE(object)->tp_dealloc == tensor_dealloc; }

int tensor_setup(PyObject *module, CoreState *state) {
    collect_tables(state);
    PyType_Slot slots[] = {
        {Py_tp_doc, (void *)tensor_doc},
        {Py_tp_new, tensor_tp_new},
        {Py_tp_dealloc, tensor_dealloc},
        {Py_tp_repr, tensor_repr},
        {Py_tp_str, tensor_str},
        {Py_tp_methods, state->tensor_methods},
        {Py_tp_getset, state->tensor_getset},
        {Py_tp_members, members},
        {Py_bf_getbuffer, tensor_getbuffer},
        {Py_bf_releasebuffer, tensor_releasebuffer},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "hurray.Tensor",
        .basicsize = sizeof(TensorObject),
        .flags = Py_TPFLAGS_DEFAULT,
        .slots = slots,
    };
    state->TensorType = core_add_type(module, &spec, NULL);
    return state->TensorType == NULL ? -1 : 0;
}
