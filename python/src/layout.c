/*
 * Layouts (spec 2, 8.9): an abstract class, and what the class of each layout has in common with
 * the others.
 */
#include "layout.h"

#include <string.h>

static const LayoutClass *const classes[CORE_LAYOUT_CLASSES] = {
    &layout_row_major_class,   &layout_col_major_class, &layout_strided_class,
    &layout_tiled_class,       &layout_morton_class,    &layout_coo_class,
    &layout_csr_class,         &layout_csc_class,       &layout_csf_class,
    &layout_block_paged_class, &layout_composite_class, &layout_hilbert_class,
    &layout_private_class,     &layout_unknown_class,
};

const LayoutClass *layout_class_of_tag(uint8_t tag) {
    for (size_t i = 0; i < CORE_LAYOUT_CLASSES; i++) {
        if (classes[i]->tag != 0 && classes[i]->tag == tag) return classes[i];
    }
    bool is_private = hurray_layout_tag_kind(tag) == HURRAY_LAYOUT_TAG_PRIVATE;
    return is_private ? &layout_private_class : &layout_unknown_class;
}

static PyTypeObject *type_of_class(CoreState *state, const LayoutClass *class) {
    size_t i = 0;
    while (classes[i] != class) i++;
    return state->layout_types[i];
}

static const LayoutClass *class_of_type(CoreState *state, const PyTypeObject *type) {
    size_t i = 0;
    while (state->layout_types[i] != type) i++; /* types have no subtypes */
    return classes[i];
}

/* ---- numbers and words ---- */

bool layout_read_u64(CoreState *state, PyObject *value, const char *name, uint64_t *out) {
    if (argument_as_u64(value, name, out)) return true;
    if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return false;
    PyErr_Clear();
    argument_refuse(state->InvalidDescriptorError, name, value, "0 to 2**64 - 1");
    return false;
}

bool layout_read_u32(CoreState *state, PyObject *value, const char *name, uint32_t *out) {
    int64_t number;
    int overflow;
    if (!argument_as_i64(value, name, &number, &overflow)) return false;
    *out = (uint32_t)number;
    if (overflow == 0 && number >= 0 && number <= UINT32_MAX) return true;
    argument_refuse(state->InvalidDescriptorError, name, value, "0 to 2**32 - 1");
    return false;
}

static bool read_i64(CoreState *state, PyObject *value, const char *name, int64_t *out) {
    int overflow;
    if (!argument_as_i64(value, name, out, &overflow)) return false;
    if (overflow == 0) return true;
    argument_refuse(state->InvalidDescriptorError, name, value, "a number of 64 bits");
    return false;
}

/* The items of a sequence that can be one per dimension: a new tuple. */
static PyObject *read_items(CoreState *state, PyObject *value, const char *name, uint32_t *count) {
    PyObject *items = argument_as_tuple(value, name);
    if (items == NULL) return NULL;
    Py_ssize_t size = PyTuple_GET_SIZE(items);
    *count = (uint32_t)size;
    if (size <= (Py_ssize_t)HURRAY_MAX_RANK) return items;
    PyErr_Format(state->InvalidDescriptorError, "%s has %zd items; expected at most %u", name, size,
                 HURRAY_MAX_RANK);
    Py_DECREF(items);
    return NULL;
}

/* A function that reads a sequence with one that reads a number. */
#define READ_SEQUENCE(function, read_one, type)                                                 \
    bool function(CoreState *state, PyObject *value, const char *name, type *out,               \
                  uint32_t *count) {                                                            \
        PyObject *items = read_items(state, value, name, count);                                \
        bool read = items != NULL;                                                              \
        for (uint32_t k = 0; read && k < *count; k++) {                                         \
            char item_name[48];                                                                 \
            PyOS_snprintf(item_name, sizeof item_name, "%s[%u]", name, (unsigned)k);            \
            read = read_one(state, PyTuple_GET_ITEM(items, (Py_ssize_t)k), item_name, &out[k]); \
        }                                                                                       \
        Py_XDECREF(items);                                                                      \
        return read;                                                                            \
    }

READ_SEQUENCE(layout_read_u64s, layout_read_u64, uint64_t)
READ_SEQUENCE(layout_read_u32s, layout_read_u32, uint32_t)
READ_SEQUENCE(layout_read_i64s, read_i64, int64_t)

PyObject *layout_u32_tuple(const uint32_t *numbers, uint32_t count) {
    PyObject *tuple = PyTuple_New(count);
    for (uint32_t k = 0; tuple != NULL && k < count; k++) {
        PyObject *number = PyLong_FromUnsignedLong(numbers[k]);
        if (number == NULL) {
            Py_CLEAR(tuple);
        } else {
            PyTuple_SET_ITEM(tuple, k, number);
        }
    }
    return tuple;
}

bool layout_read_word(PyObject *value, const char *name, const char *const *words, uint8_t *out) {
    const char *text = argument_as_string(value, name);
    if (text == NULL) return false;
    for (uint8_t i = 0; words[i] != NULL; i++) {
        *out = i;
        if (strcmp(words[i], text) == 0) return true;
    }
    PyObject *list = PyUnicode_FromFormat("'%s'", words[0]);
    for (size_t i = 1; list != NULL && words[i] != NULL; i++) {
        PyUnicode_AppendAndDel(&list, PyUnicode_FromFormat(", '%s'", words[i]));
    }
    if (list != NULL) PyErr_Format(PyExc_ValueError, "%s is %R; expected %U", name, value, list);
    Py_XDECREF(list);
    return false;
}

/* ---- making ---- */

void *layout_copy_block(const void *bytes, size_t size) {
    void *block = PyMem_Malloc(size);
    if (block == NULL) {
        PyErr_NoMemory();
    } else if (size != 0) {
        memcpy(block, bytes, size);
    }
    return block;
}

static PyObject *make(CoreState *state, const LayoutClass *class, const HurrayLayout *layout,
                      uint32_t rank) {
    PyTypeObject *type = type_of_class(state, class);
    PyObject *self = type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    LayoutObject *object = layout_of(self);
    object->class = class;
    object->layout = *layout;
    object->rank = class->has_rank ? rank : 0;
    object->arguments =
        class->arguments == NULL ? PyTuple_New(0) : class->arguments(state, layout, rank);
    bool made = object->arguments != NULL;
    if (made && class->keep != NULL) {
        made = class->keep(&object->layout, rank, object->arguments, &object->storage);
    }
    if (!made) Py_CLEAR(self);
    return self;
}

PyObject *layout_new(CoreState *state, const HurrayLayout *layout, uint32_t rank) {
    return make(state, layout_class_of_tag(layout->tag), layout, rank);
}

/*
 * Whether a tensor of that shape can have this layout: as elements of one bit, in the middle of a
 * buffer without end, so that only layout and shape are in question.
 */
static HurrayStatus check_shape(const HurrayLayout *layout, const uint64_t *shape, uint32_t rank) {
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_BOOL,
        .rank = rank,
        .shape = shape,
        .byte_offset = UINT64_C(1) << 62, /* 2^64 elements of 1 bit take 2^61 bytes */
        .layout = *layout,
        .permissive = true,
    };
    uint64_t bytes;
    HurrayStatus status = hurray_descriptor_required_bytes(&fields, 0, &bytes, NULL);
    /* All else is in order where only the buffers are not known. */
    return status == HURRAY_ERR_INDEX_OUT_OF_BOUNDS ? HURRAY_OK : status;
}

/* What can be said without a shape: everything is checked that holds for some extents. */
static bool check_alone(CoreState *state, const LayoutClass *class, const LayoutDraft *draft) {
    if (!class->checked_alone) return true;
    uint64_t shape[HURRAY_MAX_RANK];
    for (uint32_t k = 0; k < HURRAY_MAX_RANK; k++) shape[k] = HURRAY_DYNAMIC;
    HurrayLayout layout = draft->layout;
    if (layout.tag == HURRAY_LAYOUT_BLOCK_PAGED) layout.paged.paged_axis = 0; /* spec 2.9 */
    if (layout.tag == HURRAY_LAYOUT_CSF) layout.sparse.nnz = 0; /* a matter of the tensor */
    HurrayStatus status =
        check_shape(&layout, shape, class->has_rank ? draft->rank : class->alone_rank);
    if (status != HURRAY_OK) raise_status(state, status);
    return status == HURRAY_OK;
}

PyObject *layout_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    CoreState *state = PyType_GetModuleState(type);
    const LayoutClass *class = class_of_type(state, type);
    PyObject *arguments[ARGUMENTS_MAX];
    if (!arguments_parse_new(class->signature, args, kwargs, arguments)) return NULL;
    LayoutDraft draft = {.layout = {.tag = class->tag}};
    PyObject *self = NULL;
    if ((class->parse == NULL || class->parse(state, arguments, &draft)) &&
        check_alone(state, class, &draft)) {
        self = make(state, class, &draft.layout, draft.rank);
    }
    Py_XDECREF(draft.bytes);
    return self;
}

/* ---- for tensors ---- */

static bool check_rank(CoreState *state, const LayoutObject *self, uint32_t rank) {
    if (!self->class->has_rank || self->rank == rank) return true;
    PyErr_Format(state->InvalidDescriptorError,
                 "layout %s has fields for %u dimensions; the shape has %u",
                 hurray_layout_name(self->layout.tag), self->rank, rank);
    return false;
}

bool layout_for_rank(CoreState *state, PyObject *object, uint32_t rank, HurrayLayout *out) {
    if (!PyObject_TypeCheck(object, state->LayoutType)) {
        PyErr_Format(PyExc_TypeError, "layout must be a hurray.Layout, not %.200s",
                     Py_TYPE(object)->tp_name);
        return false;
    }
    *out = layout_of(object)->layout;
    return check_rank(state, layout_of(object), rank);
}

/* ---- what all classes have ---- */

PyObject *layout_get_argument(PyObject *self, void *index) {
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
    uint32_t count;
    HurrayStatus status =
        hurray_layout_buffer_count(layout_of(self)->layout.tag, layout_of(self)->rank, &count);
    if (status != HURRAY_OK) Py_RETURN_NONE; /* only its author knows */
    return PyLong_FromUnsignedLong(count);
}

static PyObject *get_is_dense(PyObject *self, void *closure) {
    (void)closure;
    uint8_t tag = layout_of(self)->layout.tag;
    return PyBool_FromLong(hurray_layout_class(tag) == HURRAY_LAYOUT_CLASS_DENSE);
}

static PyObject *get_is_virtual(PyObject *self, void *closure) {
    (void)closure;
    uint8_t tag = layout_of(self)->layout.tag;
    return PyBool_FromLong(hurray_layout_class(tag) == HURRAY_LAYOUT_CLASS_VIRTUAL);
}

PyDoc_STRVAR(
    validate_against_shape_doc,
    "validate_against_shape($self, shape, /)\n--\n\n"
    "Returns None if a tensor of that shape can have this layout.\n\n"
    "shape: a sequence of extents, None where dynamic. InvalidDescriptorError says what\n"
    "does not fit: the rank, an extent, or a number of elements that reaches 2^64\n"
    "(spec 2)."
    "\n\n"
    ">>> hurray.MortonLayout([2, 2]).validate_against_shape([4, 3])\n"
    ">>> hurray.MortonLayout([2, 2]).validate_against_shape([5, 3])\n"
    "Traceback (most recent call last):\n"
    "    ...\n"
    "hurray.InvalidDescriptorError: morton layout: morton_bits[0] is 2, too few for the extent 5");

static PyObject *validate_against_shape(PyObject *self, PyObject *shape_object) {
    CoreState *state = core_state_of(self);
    const LayoutObject *object = layout_of(self);
    uint64_t shape[HURRAY_MAX_RANK];
    uint32_t rank;
    if (!shape_from_object(state, shape_object, shape, &rank)) return NULL;
    if (!check_rank(state, object, rank)) return NULL;
    HurrayStatus status = check_shape(&object->layout, shape, rank);
    if (status != HURRAY_OK) return raise_status(state, status);
    Py_RETURN_NONE;
}

/* One argument; a tag in hexadecimal, as the spec writes them. */
static PyObject *argument_repr(const char *name, PyObject *value) {
    if (strcmp(name, "tag") != 0) return PyUnicode_FromFormat("%s=%R", name, value);
    char text[8];
    return PyUnicode_FromFormat("tag=%s", hex_byte((uint8_t)PyLong_AsLong(value), text));
}

/* "strides=(1, 2)"; an argument that is None does not apply and is left out. */
static PyObject *arguments_repr(const LayoutObject *self) {
    PyObject *text = PyUnicode_FromString("");
    for (Py_ssize_t i = 0; text != NULL && i < PyTuple_GET_SIZE(self->arguments); i++) {
        PyObject *value = PyTuple_GET_ITEM(self->arguments, i);
        if (value == Py_None) continue;
        if (PyUnicode_GET_LENGTH(text) != 0) {
            PyUnicode_AppendAndDel(&text, PyUnicode_FromString(", "));
        }
        if (text == NULL) break;
        PyUnicode_AppendAndDel(&text,
                               argument_repr(self->class->signature->arguments[i].name, value));
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
    PyMem_Free(layout_of(self)->storage);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- the module's function ---- */

PyDoc_STRVAR(layout_tag_kind_doc,
             "layout_tag_kind($module, tag, /)\n--\n\n"
             "What kind of layout tag a byte is: 'named', 'reserved', 'private' or 'invalid'\n"
             "(spec 2). OverflowError for a number that is no byte."
             "\n\n"
             ">>> hurray.layout_tag_kind(hurray.RowMajorLayout().tag)\n"
             "'named'\n"
             ">>> hurray.layout_tag_kind(0xF0)\n"
             "'private'");

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
    {"name", get_name, NULL,
     "str: such as 'row_major'; 'extension' for private and unknown layouts.", NULL},
    {"buffer_count", get_buffer_count, NULL,
     "int: buffers of a tensor of this layout, those of quantization apart; None for private\n"
     "and unknown layouts.",
     NULL},
    {"is_dense", get_is_dense, NULL, "bool: every element is stored.", NULL},
    {"is_virtual", get_is_virtual, NULL, "bool: members hold the elements, not buffers.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(
    layout_doc,
    "Where the elements of a tensor lie in its buffers (spec 2, 8.9).\n\n"
    "The base of all layouts, not constructed itself. Layouts are immutable, compared and\n"
    "hashed by value. A number that its field cannot hold, and fields that no shape would\n"
    "make right, are an InvalidDescriptorError."
    "\n\n"
    ">>> layout = hurray.CsrLayout(nnz=5)\n"
    ">>> isinstance(layout, hurray.Layout), layout.name, layout.buffer_count\n"
    "(True, 'csr', 3)\n"
    ">>> layout == hurray.CsrLayout(5)\n"
    "True");

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

static PyMethodDef functions[] = {
    {"layout_tag_kind", layout_tag_kind, METH_O, layout_tag_kind_doc},
    {NULL, NULL, 0, NULL},
};

int layout_setup(PyObject *module, CoreState *state) {
    state->LayoutType = core_add_type(module, &layout_spec, NULL);
    if (state->LayoutType == NULL) return -1;
    for (size_t i = 0; i < CORE_LAYOUT_CLASSES; i++) {
        state->layout_types[i] = core_add_type(module, classes[i]->spec, state->LayoutType);
        if (state->layout_types[i] == NULL) return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
