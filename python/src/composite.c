/*
 * hurray.Composite (spec 2.10, 8.10): a head, which has the type and shape of the whole, and its
 * members, Tensors or Composites. What belongs together how is libhurray's to judge (composite.h).
 *
 * A Composite is made after its members and never changes, so that none can contain itself.
 */
#include "core.h"

#include <structmember.h>

#include "arguments.h"

typedef struct CompositeObject {
    PyObject_HEAD HurrayDescriptor *head;
    PyObject *members; /* tuple of Tensor and Composite */
    PyObject *weak_references;
} CompositeObject;

static CompositeObject *composite_of(PyObject *self) { return (CompositeObject *)self; }

static const HurrayDescriptorFields *head_of(PyObject *self) {
    return hurray_descriptor_fields(composite_of(self)->head);
}

const HurrayDescriptorFields *composite_head(PyObject *self) { return head_of(self); }

PyObject *composite_members(PyObject *self) { return composite_of(self)->members; }

/* ---- what goes together ---- */

static PyObject *member_tuple(PyObject *object) {
    if (PySequence_Check(object) && !PyUnicode_Check(object) && !PyObject_CheckBuffer(object)) {
        return PySequence_Tuple(object);
    }
    return PyErr_Format(PyExc_TypeError,
                        "members must be a sequence of Tensor and Composite, not %.200s",
                        Py_TYPE(object)->tp_name);
}

static bool check_member_types(CoreState *state, PyObject *members) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(members); i++) {
        PyObject *member = PyTuple_GET_ITEM(members, i);
        if (tensor_check(state, member) || composite_check(state, member)) continue;
        PyErr_Format(PyExc_TypeError, "members[%zd] is %.200s; expected a Tensor or a Composite", i,
                     Py_TYPE(member)->tp_name);
        return false;
    }
    return true;
}

/* A head and all below it, in the order of a file. */
typedef struct Walk {
    CoreState *state;
    HurrayCompositeValidator *validator;
    uint64_t count; /* of descriptors so far */
} Walk;

static bool push(Walk *walk, const HurrayDescriptorFields *fields) {
    bool complete;
    HurrayStatus status = hurray_composite_validator_push(walk->validator, fields, &complete);
    if (status != HURRAY_OK) raise_status(walk->state, status);
    /* One member may stand in many places, so that few objects make a long walk. */
    return status == HURRAY_OK && ((++walk->count & 0xFFFF) != 0 || PyErr_CheckSignals() == 0);
}

/* The validator's limit of depth bounds the recursion. */
static bool push_all(Walk *walk, const HurrayDescriptorFields *head, PyObject *members) {
    if (!push(walk, head)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(members); i++) {
        PyObject *member = PyTuple_GET_ITEM(members, i);
        bool pushed = composite_check(walk->state, member)
                          ? push_all(walk, head_of(member), composite_of(member)->members)
                          : push(walk, hurray_tensor_fields(tensor_of(member)));
        if (!pushed) return false;
    }
    return true;
}

static bool check_members(CoreState *state, const HurrayDescriptorFields *head, PyObject *members,
                          bool as_writer) {
    if (PyTuple_GET_SIZE(members) != (Py_ssize_t)head->layout.composite.member_count) {
        PyErr_Format(state->InvalidDescriptorError, "%zd members; the head has member_count %u",
                     PyTuple_GET_SIZE(members), head->layout.composite.member_count);
        return false;
    }
    const HurrayCompositeOptions options = {HURRAY_MAX_COMPOSITE_DEPTH, as_writer};
    Walk walk = {.state = state};
    HurrayStatus status = hurray_composite_validator_create(&options, &walk.validator);
    if (status != HURRAY_OK) return raise_status(state, status) != NULL;
    bool valid = push_all(&walk, head, members);
    if (valid) {
        status = hurray_composite_validator_finish(walk.validator);
        valid = status == HURRAY_OK || raise_status(state, status) != NULL;
    }
    hurray_composite_validator_destroy(&walk.validator);
    return valid;
}

/* ---- making ---- */

PyObject *composite_new(CoreState *state, const HurrayDescriptorFields *head, PyObject *members,
                        bool as_writer) {
    HurrayDescriptor *descriptor = NULL;
    if (!check_member_types(state, members)) return NULL;
    HurrayStatus status = hurray_descriptor_create(head, &descriptor);
    if (status == HURRAY_OK && as_writer) status = hurray_descriptor_check_authored(head);
    CompositeObject *self = NULL;
    if (status != HURRAY_OK) {
        raise_status(state, status);
    } else if (check_members(state, head, members, as_writer)) {
        self = PyObject_New(CompositeObject, state->CompositeType);
    }
    if (self == NULL) {
        if (descriptor != NULL) hurray_descriptor_destroy(descriptor);
        return NULL;
    }
    self->head = descriptor;
    self->members = Py_NewRef(members);
    self->weak_references = NULL;
    return (PyObject *)self;
}

enum {
    COMPOSITION_RULE,
    SHAPE,
    DTYPE,
    MEMBERS,
    COMBINE_OP,
    SHARD,
    STATISTICS,
    EXTENSION_TYPE,
    ARGUMENT_COUNT
};

static const Signature composite_signature = {
    "Composite",
    {{"composition_rule", ARGUMENT_REQUIRED},
     {"shape", ARGUMENT_REQUIRED | ARGUMENT_KEYWORD_ONLY},
     {"dtype", ARGUMENT_REQUIRED | ARGUMENT_KEYWORD_ONLY},
     {"members", ARGUMENT_REQUIRED | ARGUMENT_KEYWORD_ONLY},
     {"combine_op", ARGUMENT_KEYWORD_ONLY},
     {"shard", ARGUMENT_KEYWORD_ONLY},
     {"statistics", ARGUMENT_KEYWORD_ONLY},
     {"extension_type", ARGUMENT_KEYWORD_ONLY}}};

/* The head as the constructor was told it, and what it points to. */
typedef struct Plan {
    HurrayDescriptorFields fields;
    uint64_t shape[HURRAY_MAX_RANK];
    HurrayShard shard;
    HurrayStatistics statistics;
    HurrayExtensionType extension_type;
} Plan;

static bool read_sections(CoreState *state, PyObject *const *values, Plan *plan) {
    HurrayDescriptorFields *fields = &plan->fields;
    if (values[SHARD] != NULL) {
        fields->shard = &plan->shard;
        if (!shard_for_rank(state, values[SHARD], fields->rank, &plan->shard)) return false;
    }
    if (values[STATISTICS] != NULL) {
        fields->statistics = &plan->statistics;
        if (!statistics_as_value(state, values[STATISTICS], &plan->statistics)) return false;
    }
    if (values[EXTENSION_TYPE] == NULL) return true;
    fields->extension_type = &plan->extension_type;
    return extension_type_as_value(state, values[EXTENSION_TYPE], &plan->extension_type);
}

static PyObject *make(CoreState *state, PyObject *layout, PyObject *members,
                      PyObject *const *values) {
    Plan plan = {.fields = {.buffer_count = 0}};
    plan.fields.shape = plan.shape;
    if (!dtype_as_tag(state, values[DTYPE], "dtype", &plan.fields.type_tag) ||
        !shape_from_object(state, values[SHAPE], plan.shape, &plan.fields.rank) ||
        !layout_for_rank(state, layout, plan.fields.rank, &plan.fields.layout) ||
        !read_sections(state, values, &plan)) {
        return NULL;
    }
    return composite_new(state, &plan.fields, members, true);
}

static PyObject *composite_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    CoreState *state = PyType_GetModuleState(type);
    PyObject *values[ARGUMENT_COUNT];
    if (!arguments_parse_new(&composite_signature, args, kwargs, values)) return NULL;
    PyObject *members = member_tuple(values[MEMBERS]);
    if (members == NULL) return NULL;
    PyObject *combine_op = values[COMBINE_OP] == NULL ? Py_None : values[COMBINE_OP];
    /* Which words there are, and that they fit each other, is known to the layout's class. */
    PyObject *layout =
        PyObject_CallMethod(PyType_GetModule(type), "CompositeLayout", "OnO",
                            values[COMPOSITION_RULE], PyTuple_GET_SIZE(members), combine_op);
    PyObject *composite = layout == NULL ? NULL : make(state, layout, members, values);
    Py_XDECREF(layout);
    Py_DECREF(members);
    return composite;
}

static void composite_dealloc(PyObject *self) {
    CompositeObject *composite = composite_of(self);
    PyTypeObject *type = Py_TYPE(self);
    if (composite->weak_references != NULL) PyObject_ClearWeakRefs(self);
    hurray_descriptor_destroy(composite->head);
    Py_DECREF(composite->members);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- what it says about itself ---- */

static PyObject *get_members(PyObject *self, void *closure) {
    (void)closure;
    return Py_NewRef(composite_of(self)->members);
}

static PyObject *get_member_count(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromSsize_t(PyTuple_GET_SIZE(composite_of(self)->members));
}

static PyObject *get_layout(PyObject *self, void *closure) {
    (void)closure;
    return layout_new(core_state_of(self), &head_of(self)->layout, head_of(self)->rank);
}

static PyObject *get_shape(PyObject *self, void *closure) {
    (void)closure;
    return shape_tuple(head_of(self)->shape, head_of(self)->rank);
}

static PyObject *get_ndim(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLong(head_of(self)->rank);
}

static PyObject *get_dtype(PyObject *self, void *closure) {
    (void)closure;
    return Py_XNewRef(dtype_from_tag(core_state_of(self), head_of(self)->type_tag));
}

static PyObject *get_descriptor(PyObject *self, void *closure) {
    (void)closure;
    return descriptor_new(core_state_of(self), head_of(self));
}

static PyObject *get_section(PyObject *self, void *section) {
    return fields_section(core_state_of(self), head_of(self), section);
}

static PyObject *composite_repr(PyObject *self) {
    return core_call_glue("hurray._composite", "composite_repr", self);
}

PyDoc_STRVAR(
    to_numpy_doc,
    "to_numpy($self, /)\n--\n\n"
    "The whole as a new numpy.ndarray of the head's type and shape (spec 2.10, 8.10).\n\n"
    "A partition's members stand where their shards say. Of an overlay, the base comes\n"
    "first, then the corrections in order: 'replace' puts each in the place of what was\n"
    "there, 'add' adds it, in the head's type. Sparse corrections touch the elements that\n"
    "they store, others their whole box. Quantized members are dequantized (spec 3).\n\n"
    "UnsupportedError for a group, which is no single array, and for members that have no\n"
    "array, naming them. ImportError without NumPy, or ml_dtypes where a type needs it."
    "\n\n"
    ">>> def row(i):\n"
    "...     place = hurray.Shard(parent_shape=[2, 1], shard_offset=[i, 0])\n"
    "...     return hurray.Tensor(bytes([7 + i]), hurray.uint8, [1, 1], shard=place)\n"
    ">>> rows = [row(0), row(1)]\n"
    ">>> hurray.Composite('partition', shape=[2, 1], dtype=hurray.uint8, members=rows).to_numpy()\n"
    "array([[7],\n"
    "       [8]], dtype=uint8)");

static PyObject *composite_to_numpy(PyObject *self, PyObject *unused) {
    (void)unused;
    return core_call_glue("hurray._composite", "to_numpy", self);
}

/* ---- equality ---- */

/* The fields, with a table of what the buffers hold: how they are aligned is no part of a value. */
static HurrayDescriptorFields value_fields(const HurrayTensor *tensor,
                                           HurrayBufferHandle *handles) {
    HurrayDescriptorFields fields = *hurray_tensor_fields(tensor);
    for (uint32_t i = 0; i < fields.buffer_count; i++) {
        handles[i] = fields.buffers[i];
        handles[i].alignment = HURRAY_MIN_BUFFER_ALIGNMENT;
    }
    fields.buffers = handles;
    return fields;
}

static bool have_equal_bytes(const HurrayTensor *a, const HurrayTensor *b, uint32_t index) {
    const HurrayBufferInfo *one = hurray_buffer_info(hurray_tensor_buffer(a, index));
    const HurrayBufferInfo *other = hurray_buffer_info(hurray_tensor_buffer(b, index));
    if (one->data == other->data || one->byte_size == 0) return true;
    if (hurray_tensor_check_readable(a, true) != HURRAY_OK ||
        hurray_tensor_check_readable(b, true) != HURRAY_OK) {
        return false; /* other memory, which cannot be looked at */
    }
    size_t bytes = (size_t)one->byte_size;
    int difference;
    PyThreadState *saved = bytes < CORE_LARGE_COPY ? NULL : PyEval_SaveThread();
    difference = memcmp(one->data, other->data, bytes);
    if (saved != NULL) PyEval_RestoreThread(saved);
    return difference == 0;
}

/* Whether two tensors are described alike and hold the same bytes. */
static bool are_equal_tensors(const HurrayTensor *a, const HurrayTensor *b) {
    HurrayBufferHandle handles[2][HURRAY_MAX_BUFFERS];
    HurrayDescriptorFields one = value_fields(a, handles[0]);
    HurrayDescriptorFields other = value_fields(b, handles[1]);
    if (!hurray_descriptor_equal(&one, &other)) return false;
    for (uint32_t i = 0; i < one.buffer_count; i++) {
        if (!have_equal_bytes(a, b, i)) return false;
    }
    return true;
}

static bool are_equal_composites(CoreState *state, PyObject *a, PyObject *b);

static bool are_equal_members(CoreState *state, PyObject *a, PyObject *b) {
    if (a == b) return true;
    if (!Py_IS_TYPE(a, Py_TYPE(b))) return false;
    return composite_check(state, a) ? are_equal_composites(state, a, b)
                                     : are_equal_tensors(tensor_of(a), tensor_of(b));
}

static bool are_equal_composites(CoreState *state, PyObject *a, PyObject *b) {
    PyObject *members[] = {composite_of(a)->members, composite_of(b)->members};
    if (!hurray_descriptor_equal(head_of(a), head_of(b))) return false; /* as many members, too */
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(members[0]); i++) {
        if (!are_equal_members(state, PyTuple_GET_ITEM(members[0], i),
                               PyTuple_GET_ITEM(members[1], i))) {
            return false;
        }
    }
    return true;
}

static PyObject *composite_richcompare(PyObject *self, PyObject *other, int operation) {
    CoreState *state = core_state_of(self);
    if (!composite_check(state, other) || (operation != Py_EQ && operation != Py_NE)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    bool equal = self == other || are_equal_composites(state, self, other);
    return PyBool_FromLong(equal == (operation == Py_EQ));
}

/* ---- pickling: the head's bytes and the members ---- */

static PyObject *composite_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *descriptor = get_descriptor(self, NULL);
    if (descriptor == NULL) return NULL;
    PyObject *bytes = PyObject_CallMethod(descriptor, "encode", NULL);
    Py_DECREF(descriptor);
    if (bytes == NULL) return NULL;
    return Py_BuildValue("O(NO)", core_state_of(self)->restore_composite, bytes,
                         composite_of(self)->members);
}

PyDoc_STRVAR(restore_doc, "_restore_composite($module, /, descriptor, members)\n--\n\n"
                          "The Composite in a pickle: the encoded descriptor of its head, and a "
                          "tuple of its members.");

static PyObject *restore_composite(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                                   PyObject *kwnames) {
    static const Signature signature = {
        "_restore_composite", {{"descriptor", ARGUMENT_REQUIRED}, {"members", ARGUMENT_REQUIRED}}};
    static const HurrayDecodeOptions options = {.permissive = true};
    CoreState *state = core_state_of_module(module);
    PyObject *values[2];
    Py_buffer view;
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    if (PyObject_GetBuffer(values[0], &view, PyBUF_SIMPLE) < 0) return NULL;
    HurrayDescriptor *descriptor = NULL;
    HurrayStatus status =
        hurray_descriptor_decode_with(view.buf, (uintptr_t)view.len, &options, &descriptor);
    PyBuffer_Release(&view);
    if (status != HURRAY_OK) return raise_status(state, status);
    const HurrayDescriptorFields *head = hurray_descriptor_fields(descriptor);
    PyObject *composite = NULL;
    PyObject *members = member_tuple(values[1]);
    if (members != NULL && head->layout.tag != HURRAY_LAYOUT_COMPOSITE) {
        PyErr_SetString(state->InvalidDescriptorError, "the descriptor is no head of a composite");
    } else if (members != NULL) {
        composite = composite_new(state, head, members, false);
    }
    Py_XDECREF(members);
    hurray_descriptor_destroy(descriptor);
    return composite;
}

/* ---- the type ---- */

static PyMethodDef composite_methods[] = {
    {"to_numpy", composite_to_numpy, METH_NOARGS, to_numpy_doc},
    {"__reduce__", composite_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef composite_getset[] = {
    {"members", get_members, NULL, "tuple of Tensor and Composite: the very objects given.", NULL},
    {"member_count", get_member_count, NULL, "int: the number of members.", NULL},
    {"layout", get_layout, NULL,
     "CompositeLayout: composition_rule, member_count and combine_op; a new object each time.",
     NULL},
    {"shape", get_shape, NULL,
     "Extents of the whole: a tuple of int; None where dynamic, in a group.", NULL},
    {"ndim", get_ndim, NULL, "int: the number of dimensions of the whole.", NULL},
    {"dtype", get_dtype, NULL,
     "Dtype: of the values of the whole; InvalidDescriptorError naming a tag that is not assigned.",
     NULL},
    {"shard", get_section, NULL,
     "Shard: where it lies in a partition that it is a member of; None.", (void *)FIELDS_SHARD},
    {"statistics", get_section, NULL, "The Statistics, or None.", (void *)FIELDS_STATISTICS},
    {"extension_type", get_section, NULL, "The ExtensionType of a private dtype, or None.",
     (void *)FIELDS_EXTENSION_TYPE},
    {"descriptor", get_descriptor, NULL, "Descriptor: of the head, which has no buffers.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef composite_member_table[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CompositeObject, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(
    composite_doc,
    "Composite(composition_rule, *, shape, dtype, members, combine_op=None, shard=None,\n"
    "          statistics=None, extension_type=None)\n--\n\n"
    "Several tensors that make up one (spec 2.10, 8.10).\n\n"
    "composition_rule and what it asks of `members`, a sequence of Tensor and Composite:\n\n"
    "'partition': each has a shard; their boxes cover `shape` exactly, without overlap.\n"
    "'overlay': a base with member_role='base', which spans the whole, then corrections with\n"
    "member_role='correction', each with a shard; combine_op is 'replace' or 'add'. No\n"
    "Composites.\n"
    "'group': any, without a member_role.\n\n"
    "`shape` and `dtype` are those of the whole; members of partitions and overlays have the\n"
    "same dtype, or are quantized under a floating-point one. Composites nest 8 deep; `shard`\n"
    "says where this one lies in a partition. The members are kept as they are, nothing is\n"
    "copied. Immutable; equal to another with equal heads and members of equal descriptors and\n"
    "bytes. It has no buffers and speaks no protocol of tensors: see to_numpy().\n\n"
    "TypeError names members[i]; ValueError a word that is none; InvalidDescriptorError the\n"
    "member and the rule that it breaks."
    "\n\n"
    ">>> top, end = hurray.Shard([2, 2], [0, 0]), hurray.Shard([2, 2], [1, 0])\n"
    ">>> parts = [\n"
    "...     hurray.Tensor(bytes([1, 2]), hurray.uint8, [1, 2], shard=top),\n"
    "...     hurray.Tensor(bytes([3, 4]), hurray.uint8, [1, 2], shard=end),\n"
    "... ]\n"
    ">>> hurray.Composite('partition', shape=[2, 2], dtype=hurray.uint8, members=parts)\n"
    "hurray.Composite(rule='partition', shape=(2, 2), dtype=uint8, members=[Tensor, Tensor])");

static PyType_Slot composite_slots[] = {
    {Py_tp_doc, (char *)composite_doc},        {Py_tp_new, composite_tp_new},
    {Py_tp_dealloc, composite_dealloc},        {Py_tp_repr, composite_repr},
    {Py_tp_hash, PyObject_HashNotImplemented}, {Py_tp_richcompare, composite_richcompare},
    {Py_tp_methods, composite_methods},        {Py_tp_getset, composite_getset},
    {Py_tp_members, composite_member_table},   {0, NULL},
};

static PyType_Spec composite_spec = {
    .name = "hurray.Composite",
    .basicsize = sizeof(CompositeObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = composite_slots,
};

static PyMethodDef functions[] = {
    {"_restore_composite", CORE_METHOD(restore_composite), METH_FASTCALL | METH_KEYWORDS,
     restore_doc},
    {NULL, NULL, 0, NULL},
};

int composite_setup(PyObject *module, CoreState *state) {
    state->CompositeType = core_add_type(module, &composite_spec, NULL);
    if (state->CompositeType == NULL || PyModule_AddFunctions(module, functions) < 0) return -1;
    state->restore_composite = PyObject_GetAttrString(module, "_restore_composite");
    return state->restore_composite == NULL ? -1 : 0;
}
