/*
 * Layouts (spec 2, 8.9): an abstract class, and a class for each layout.
 *
 * A layout object is the tuple of its constructor's arguments, normalised, beside the C struct that
 * says the same. Everything but reading the arguments and naming them back is common to all
 * classes: attributes, repr, comparison, hash, pickling. A new class is a row of `classes`.
 */
#include <stddef.h>
#include <string.h>

#include "arguments.h"
#include "core.h"

/* A layout in the making, with room for the array of its fields. */
typedef struct Draft {
    HurrayLayout layout;
    uint32_t rank; /* of the fields; 0 where there are none */
    int64_t numbers[HURRAY_MAX_RANK];
} Draft;

typedef struct LayoutClass {
    uint8_t tag;
    size_t slot; /* of the type in CoreState */
    PyType_Spec *spec;
    const Signature *signature;
    int buffer_count;
    bool is_dense;
    bool is_virtual;
    bool has_strides; /* a number per dimension, so that an object fits one rank only */
    /* Arguments to fields; false with an exception. NULL where there are no arguments. */
    bool (*parse)(CoreState *state, PyObject *const *arguments, Draft *draft);
    /* The inverse: a new tuple, in order of the signature. */
    PyObject *(*arguments)(const HurrayLayout *layout, uint32_t rank);
} LayoutClass;

typedef struct LayoutObject {
    PyObject_HEAD const LayoutClass *class;
    HurrayLayout layout; /* its arrays are `numbers` */
    uint32_t rank;
    int64_t *numbers;    /* i64[rank]; NULL where there are none */
    PyObject *arguments; /* tuple, as the constructor takes them */
} LayoutObject;

static LayoutObject *layout_of(PyObject *self) { return (LayoutObject *)self; }

static const LayoutClass *class_of_tag(uint8_t tag);
static const LayoutClass *class_of_type(CoreState *state, const PyTypeObject *type);

static PyTypeObject *type_of_class(CoreState *state, const LayoutClass *class) {
    return *(PyTypeObject **)((char *)state + class->slot);
}

/* ---- making ---- */

static PyObject *make(CoreState *state, const LayoutClass *class, const HurrayLayout *layout,
                      uint32_t rank) {
    PyTypeObject *type = type_of_class(state, class);
    PyObject *self = type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    LayoutObject *object = layout_of(self);
    object->class = class;
    object->layout = *layout;
    object->rank = rank;
    if (class->has_strides) {
        object->numbers = PyMem_Malloc(rank * sizeof(int64_t));
        if (object->numbers == NULL) {
            Py_DECREF(self);
            return PyErr_NoMemory();
        }
        if (rank != 0) memcpy(object->numbers, layout->strides, rank * sizeof(int64_t));
        object->layout.strides = object->numbers;
    }
    object->arguments = class->arguments == NULL ? PyTuple_New(0) : class->arguments(layout, rank);
    if (object->arguments == NULL) Py_CLEAR(self);
    return self;
}

PyObject *layout_new(CoreState *state, const HurrayLayout *layout, uint32_t rank) {
    const LayoutClass *class = class_of_tag(layout->tag);
    if (class != NULL) return make(state, class, layout, rank);
    char text[8];
    PyErr_Format(state->UnsupportedError, "layout tag %s has no class yet",
                 hex_byte(layout->tag, text));
    return NULL;
}

bool layout_as_value(CoreState *state, PyObject *object, HurrayLayout *out, uint32_t *out_rank) {
    if (!PyObject_TypeCheck(object, state->LayoutType)) {
        PyErr_Format(PyExc_TypeError, "layout must be a hurray.Layout, not %.200s",
                     Py_TYPE(object)->tp_name);
        return false;
    }
    *out = layout_of(object)->layout;
    *out_rank = layout_of(object)->rank;
    return true;
}

static PyObject *layout_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    CoreState *state = PyType_GetModuleState(type);
    const LayoutClass *class = class_of_type(state, type);
    PyObject *arguments[ARGUMENTS_MAX];
    if (!arguments_parse_new(class->signature, args, kwargs, arguments)) return NULL;
    Draft draft = {.layout = {.tag = class->tag}};
    if (class->parse != NULL && !class->parse(state, arguments, &draft)) return NULL;
    return make(state, class, &draft.layout, draft.rank);
}

/* ---- what all classes have ---- */

static PyObject *get_argument(PyObject *self, void *index) {
    return Py_NewRef(PyTuple_GET_ITEM(layout_of(self)->arguments, (Py_ssize_t)(intptr_t)index));
}

static PyObject *get_tag(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromLong(layout_of(self)->layout.tag);
}

static PyObject *get_name(PyObject *self, void *closure) {
    (void)closure;
    const char *name = hurray_layout_name(layout_of(self)->layout.tag);
    return PyUnicode_FromString(name != NULL ? name : "extension");
}

static PyObject *get_buffer_count(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromLong(layout_of(self)->class->buffer_count);
}

static PyObject *get_is_dense(PyObject *self, void *closure) {
    (void)closure;
    return PyBool_FromLong(layout_of(self)->class->is_dense);
}

static PyObject *get_is_virtual(PyObject *self, void *closure) {
    (void)closure;
    return PyBool_FromLong(layout_of(self)->class->is_virtual);
}

PyDoc_STRVAR(validate_against_shape_doc,
             "validate_against_shape($self, shape, /)\n--\n\n"
             "Returns None if a tensor of that shape can have this layout.\n\n"
             "shape: a sequence of extents, None where dynamic. InvalidDescriptorError says what\n"
             "does not fit: the rank, or a number of elements that reaches 2^64 (spec 2).");

/* Big enough for whatever a layout can address, so that only the shape is in question: elements of
 * one bit, in the middle of a buffer without end. */
static HurrayStatus check_shape(const LayoutObject *self, const uint64_t *shape, uint32_t rank) {
    const HurrayBufferHandle handle = {.byte_size = UINT64_MAX,
                                       .alignment = HURRAY_MIN_BUFFER_ALIGNMENT};
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_BOOL,
        .rank = rank,
        .shape = shape,
        .byte_offset = UINT64_C(1) << 62, /* 2^64 elements of 1 bit take 2^61 bytes */
        .layout = self->layout,
        .buffer_count = 1,
        .buffers = &handle,
    };
    return hurray_descriptor_validate(&fields);
}

static PyObject *validate_against_shape(PyObject *self, PyObject *shape_object) {
    CoreState *state = core_state_of(self);
    const LayoutObject *object = layout_of(self);
    uint64_t shape[HURRAY_MAX_RANK];
    uint32_t rank;
    if (!shape_from_object(state, shape_object, shape, &rank)) return NULL;
    if (object->class->has_strides && object->rank != rank) {
        PyErr_Format(state->InvalidDescriptorError,
                     "layout %s has fields for %u dimensions; the shape has %u",
                     hurray_layout_name(object->layout.tag), object->rank, rank);
        return NULL;
    }
    HurrayStatus status = check_shape(object, shape, rank);
    if (status != HURRAY_OK) return raise_status(state, status);
    Py_RETURN_NONE;
}

/* "strides=(1, 2)"; an argument that is None does not apply and is left out. */
static PyObject *arguments_repr(const LayoutObject *self) {
    PyObject *text = PyUnicode_FromString("");
    const char *separator = "";
    for (Py_ssize_t i = 0; text != NULL && i < PyTuple_GET_SIZE(self->arguments); i++) {
        PyObject *value = PyTuple_GET_ITEM(self->arguments, i);
        if (value == Py_None) continue;
        const char *name = self->class->signature->arguments[i].name;
        PyUnicode_AppendAndDel(&text, PyUnicode_FromFormat("%s%s=%R", separator, name, value));
        separator = ", ";
    }
    return text;
}

static PyObject *layout_repr(PyObject *self) {
    PyObject *arguments = arguments_repr(layout_of(self));
    if (arguments == NULL) return NULL;
    PyObject *text =
        PyUnicode_FromFormat("%s(%U)", layout_of(self)->class->signature->function, arguments);
    Py_DECREF(arguments);
    return text;
}

static PyObject *layout_richcompare(PyObject *self, PyObject *other, int operation) {
    bool comparable = Py_IS_TYPE(other, Py_TYPE(self));
    if (!comparable || (operation != Py_EQ && operation != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyObject_RichCompare(layout_of(self)->arguments, layout_of(other)->arguments, operation);
}

static Py_hash_t layout_hash(PyObject *self) {
    Py_hash_t hash = PyObject_Hash(layout_of(self)->arguments);
    if (hash == -1) return -1;
    hash ^= (Py_hash_t)layout_of(self)->layout.tag << 16;
    return hash == -1 ? -2 : hash;
}

static PyObject *layout_reduce(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return PyTuple_Pack(2, (PyObject *)Py_TYPE(self), layout_of(self)->arguments);
}

static PyObject *layout_copy(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return Py_NewRef(self);
}

static void layout_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(layout_of(self)->arguments);
    PyMem_Free(layout_of(self)->numbers);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- the module's function ---- */

PyDoc_STRVAR(layout_tag_kind_doc,
             "layout_tag_kind($module, tag, /)\n--\n\n"
             "What kind of layout tag a byte is: 'named', 'reserved', 'private' or 'invalid'\n"
             "(spec 2). OverflowError for a number that is no byte.");

static PyObject *layout_tag_kind(PyObject *module, PyObject *number) {
    (void)module;
    uint8_t tag;
    if (!argument_as_u8(number, "tag", &tag)) return NULL;
    switch (hurray_layout_tag_kind(tag)) {
    case HURRAY_LAYOUT_TAG_NAMED: return PyUnicode_FromString("named");
    case HURRAY_LAYOUT_TAG_RESERVED: return PyUnicode_FromString("reserved");
    case HURRAY_LAYOUT_TAG_PRIVATE: return PyUnicode_FromString("private");
    default: return PyUnicode_FromString("invalid");
    }
}

/* ---- Layout ---- */

static PyMethodDef layout_methods[] = {
    {"validate_against_shape", validate_against_shape, METH_O, validate_against_shape_doc},
    {"__reduce__", layout_reduce, METH_NOARGS, NULL},
    {"__copy__", layout_copy, METH_NOARGS, NULL},
    {"__deepcopy__", layout_copy, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef layout_getset[] = {
    {"tag", get_tag, NULL, "int: the byte that stands for it in a descriptor.", NULL},
    {"name", get_name, NULL, "str: such as 'row_major'.", NULL},
    {"buffer_count", get_buffer_count, NULL,
     "int: buffers of a tensor of this layout, those of quantization apart.", NULL},
    {"is_dense", get_is_dense, NULL, "bool: every element is stored.", NULL},
    {"is_virtual", get_is_virtual, NULL, "bool: members hold the elements, not buffers.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(
    layout_doc,
    "Where the elements of a tensor lie in its buffers (spec 2, 8.9).\n\n"
    "The base of all layouts, not constructed itself. Layouts are immutable, compared and\n"
    "hashed by value.");

static PyType_Slot layout_slots[] = {
    {Py_tp_doc, (char *)layout_doc}, {Py_tp_repr, layout_repr},
    {Py_tp_hash, layout_hash},       {Py_tp_richcompare, layout_richcompare},
    {Py_tp_methods, layout_methods}, {Py_tp_getset, layout_getset},
    {Py_tp_dealloc, layout_dealloc}, {0, NULL},
};

static PyType_Spec layout_spec = {
    .name = "hurray.Layout",
    .basicsize = sizeof(LayoutObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = layout_slots,
};

/* A class of layouts, whose slots are its docstring, its attributes and the common constructor. */
#define LAYOUT_SPEC(variable, class_name, class_slots)          \
    static PyType_Spec variable = {                             \
        .name = "hurray." class_name,                           \
        .basicsize = sizeof(LayoutObject),                      \
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, \
        .slots = class_slots,                                   \
    }

/* An attribute that is the constructor's argument of that index. */
#define LAYOUT_ATTRIBUTE(name, index, doc) \
    {name, get_argument, NULL, doc, (void *)(intptr_t)(index)}

/* ---- RowMajorLayout, ColMajorLayout ---- */

static const Signature row_major_signature = {"RowMajorLayout", {{NULL, 0}}};
static const Signature col_major_signature = {"ColMajorLayout", {{NULL, 0}}};

PyDoc_STRVAR(row_major_doc, "RowMajorLayout()\n--\n\n"
                            "Elements packed without gaps, the last dimension fastest (spec 2.1).");
PyDoc_STRVAR(col_major_doc,
             "ColMajorLayout()\n--\n\n"
             "Elements packed without gaps, the first dimension fastest (spec 2.1). Rank 1 … 64.");

static PyType_Slot row_major_slots[] = {
    {Py_tp_doc, (char *)row_major_doc}, {Py_tp_new, layout_tp_new}, {0, NULL}};
static PyType_Slot col_major_slots[] = {
    {Py_tp_doc, (char *)col_major_doc}, {Py_tp_new, layout_tp_new}, {0, NULL}};

LAYOUT_SPEC(row_major_spec, "RowMajorLayout", row_major_slots);
LAYOUT_SPEC(col_major_spec, "ColMajorLayout", col_major_slots);

/* ---- StridedLayout ---- */

static const Signature strided_signature = {"StridedLayout", {{"strides", ARGUMENT_REQUIRED}}};

static bool read_stride(CoreState *state, PyObject *item, Py_ssize_t index, int64_t *out) {
    char name[32];
    int overflow;
    PyOS_snprintf(name, sizeof name, "strides[%d]", (int)index);
    if (!argument_as_i64(item, name, out, &overflow)) return false;
    if (overflow == 0) return true;
    argument_refuse(state->InvalidDescriptorError, name, item, "a number of 64 bits");
    return false;
}

static bool strided_parse(CoreState *state, PyObject *const *arguments, Draft *draft) {
    PyObject *items = argument_as_tuple(arguments[0], "strides");
    if (items == NULL) return false;
    Py_ssize_t rank = PyTuple_GET_SIZE(items);
    bool read = rank <= (Py_ssize_t)HURRAY_MAX_RANK;
    if (!read) {
        PyErr_Format(state->InvalidDescriptorError, "strides has %zd items; expected at most %u",
                     rank, HURRAY_MAX_RANK);
    }
    for (Py_ssize_t k = 0; read && k < rank; k++) {
        read = read_stride(state, PyTuple_GET_ITEM(items, k), k, &draft->numbers[k]);
    }
    Py_DECREF(items);
    draft->rank = (uint32_t)rank;
    draft->layout.strides = draft->numbers;
    return read;
}

static PyObject *strided_arguments(const HurrayLayout *layout, uint32_t rank) {
    PyObject *strides = strides_tuple(layout->strides, rank);
    return strides == NULL ? NULL : Py_BuildValue("(N)", strides);
}

PyDoc_STRVAR(strided_doc,
             "StridedLayout(strides)\n--\n\n"
             "A step per dimension, in elements (spec 2.2); negative ones reverse a dimension, 0\n"
             "repeats it. byte_offset of the tensor says where element [0, …, 0] is.\n\n"
             "InvalidDescriptorError for more than 64 strides, or one beyond 64 bits.");

static PyGetSetDef strided_getset[] = {
    LAYOUT_ATTRIBUTE("strides", 0, "tuple of int: elements from one index to the next."),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot strided_slots[] = {
    {Py_tp_doc, (char *)strided_doc},
    {Py_tp_new, layout_tp_new},
    {Py_tp_getset, strided_getset},
    {0, NULL},
};

LAYOUT_SPEC(strided_spec, "StridedLayout", strided_slots);

/* ---- the table ---- */

static const LayoutClass classes[] = {
    {
        .tag = HURRAY_LAYOUT_ROW_MAJOR,
        .slot = offsetof(CoreState, RowMajorLayoutType),
        .spec = &row_major_spec,
        .signature = &row_major_signature,
        .buffer_count = 1,
        .is_dense = true,
    },
    {
        .tag = HURRAY_LAYOUT_COL_MAJOR,
        .slot = offsetof(CoreState, ColMajorLayoutType),
        .spec = &col_major_spec,
        .signature = &col_major_signature,
        .buffer_count = 1,
        .is_dense = true,
    },
    {
        .tag = HURRAY_LAYOUT_STRIDED,
        .slot = offsetof(CoreState, StridedLayoutType),
        .spec = &strided_spec,
        .signature = &strided_signature,
        .buffer_count = 1,
        .is_dense = true,
        .has_strides = true,
        .parse = strided_parse,
        .arguments = strided_arguments,
    },
};

static const LayoutClass *class_of_tag(uint8_t tag) {
    for (size_t i = 0; i < Py_ARRAY_LENGTH(classes); i++) {
        if (classes[i].tag == tag) return &classes[i];
    }
    return NULL;
}

static const LayoutClass *class_of_type(CoreState *state, const PyTypeObject *type) {
    size_t i = 0;
    while (type_of_class(state, &classes[i]) != type) i++; /* types have no subtypes */
    return &classes[i];
}

static PyMethodDef functions[] = {
    {"layout_tag_kind", layout_tag_kind, METH_O, layout_tag_kind_doc},
    {NULL, NULL, 0, NULL},
};

int layout_setup(PyObject *module, CoreState *state) {
    state->LayoutType = core_add_type(module, &layout_spec, NULL);
    if (state->LayoutType == NULL) return -1;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(classes); i++) {
        PyTypeObject *type = core_add_type(module, classes[i].spec, state->LayoutType);
        if (type == NULL) return -1;
        *(PyTypeObject **)((char *)state + classes[i].slot) = type;
    }
    return PyModule_AddFunctions(module, functions);
}
