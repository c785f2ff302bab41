/*
 * Element types (spec 8.2): one Dtype object per tag, made when the module is, and compared by
 * identity ever after.
 */
#include "arguments.h"
#include "core.h"

typedef struct DtypeObject {
    PyObject_HEAD const HurrayElementType *row; /* the library's, or the one below */
    PyObject *name;
    uint8_t tag; /* row->tag is not that of a private type */
} DtypeObject;

/* What can be said of a type that describes itself in a section of each descriptor: no width (spec
 * 8.2), no nature, and tier 2, since no array framework has it. */
static const HurrayElementType private_row = {
    .name = "extension", .tag = HURRAY_TYPE_PRIVATE_FIRST, .tier = 2, .bits = 0, .alignment = 1};

static DtypeObject *dtype_of(PyObject *self) { return (DtypeObject *)self; }

/* ---- what other files use ---- */

PyObject *dtype_from_tag(CoreState *state, uint8_t tag) {
    if (state->dtypes[tag] == NULL) {
        char text[8];
        PyErr_Format(state->InvalidDescriptorError, "type tag %s is not an element type",
                     hex_byte(tag, text));
    }
    return state->dtypes[tag];
}

bool dtype_as_tag(CoreState *state, PyObject *object, const char *argument, uint8_t *out) {
    if (!Py_IS_TYPE(object, state->DtypeType)) {
        PyErr_Format(PyExc_TypeError, "%s must be a hurray.Dtype, not %.200s", argument,
                     Py_TYPE(object)->tp_name);
        return false;
    }
    *out = dtype_of(object)->tag;
    return true;
}

/* ---- class methods ---- */

/* "float16, bfloat16, …" */
static PyObject *all_names(void) {
    PyObject *names = PyUnicode_FromString(hurray_element_type_at(0)->name);
    for (uint32_t i = 1; names != NULL && hurray_element_type_at(i) != NULL; i++) {
        PyUnicode_AppendAndDel(&names,
                               PyUnicode_FromFormat(", %s", hurray_element_type_at(i)->name));
    }
    return names;
}

PyDoc_STRVAR(from_name_doc, "from_name($type, name, /)\n--\n\n"
                            "The element type of a name such as 'float32' or 'int4' (spec 1.3).\n\n"
                            "InvalidDescriptorError, listing the names, when there is none such."
                            "\n\n"
                            ">>> hurray.Dtype.from_name('int4') is hurray.dtype.int4\n"
                            "True");

static PyObject *dtype_from_name(PyObject *type, PyObject *name) {
    CoreState *state = PyType_GetModuleState((PyTypeObject *)type);
    const char *text = argument_as_string(name, "name");
    if (text == NULL) { /* a null character, or half of a surrogate pair: no name has one */
        if (!PyErr_ExceptionMatches(PyExc_ValueError)) return NULL;
        PyErr_Clear();
    }
    const HurrayElementType *row = hurray_element_type_from_name(text);
    if (row != NULL) return Py_NewRef(state->dtypes[row->tag]);
    PyObject *names = all_names();
    if (names == NULL) return NULL;
    PyErr_Format(state->InvalidDescriptorError, "%R is not an element type; there are %U", name,
                 names);
    Py_DECREF(names);
    return NULL;
}

PyDoc_STRVAR(from_tag_doc,
             "from_tag($type, tag, /)\n--\n\n"
             "The element type of a wire tag, always the same object (spec 1.3).\n\n"
             "0xF0 to 0xFE are private types: an ExtensionType section says what they are, and\n"
             "bit_width is 0. InvalidDescriptorError for a tag that is no type, OverflowError for\n"
             "a number that is no byte."
             "\n\n"
             ">>> hurray.Dtype.from_tag(hurray.float32.tag)\n"
             "hurray.float32");

static PyObject *dtype_from_tag_method(PyObject *type, PyObject *number) {
    uint8_t tag;
    if (!argument_as_u8(number, "tag", &tag)) return NULL;
    return Py_XNewRef(dtype_from_tag(PyType_GetModuleState((PyTypeObject *)type), tag));
}

/* ---- attributes ---- */

static PyObject *get_name(PyObject *self, void *closure) {
    (void)closure;
    return Py_NewRef(dtype_of(self)->name);
}

static PyObject *get_tag(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromLong(dtype_of(self)->tag);
}

/* A number or flag of the row; the closure is the offset of the field. */
static PyObject *get_number(PyObject *self, void *offset) {
    return PyLong_FromLong(*((const uint8_t *)dtype_of(self)->row + (uintptr_t)offset));
}

static PyObject *get_flag(PyObject *self, void *offset) {
    const char *row = (const char *)dtype_of(self)->row;
    return PyBool_FromLong(*(const bool *)(row + (uintptr_t)offset));
}

static PyObject *get_is_sub_byte(PyObject *self, void *closure) {
    (void)closure;
    uint8_t bits = dtype_of(self)->row->bits;
    return PyBool_FromLong(bits != 0 && bits < 8);
}

static PyObject *dtype_repr(PyObject *self) {
    const HurrayElementType *row = dtype_of(self)->row;
    if (row == &private_row) {
        char text[8];
        return PyUnicode_FromFormat("hurray.Dtype.from_tag(%s)",
                                    hex_byte(dtype_of(self)->tag, text));
    }
    return PyUnicode_FromFormat(row->is_standard ? "hurray.%s" : "hurray.dtype.%s", row->name);
}

static PyObject *dtype_str(PyObject *self) { return Py_NewRef(dtype_of(self)->name); }

/* Copying and pickling find the one object of the tag. */
static PyObject *dtype_reduce(PyObject *self, PyObject *ignored) {
    (void)ignored;
    PyObject *from_tag = PyObject_GetAttrString((PyObject *)Py_TYPE(self), "from_tag");
    if (from_tag == NULL) return NULL;
    return Py_BuildValue("N(i)", from_tag, dtype_of(self)->tag);
}

static int dtype_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static void dtype_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(dtype_of(self)->name);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- the module's function ---- */

PyDoc_STRVAR(
    buffer_size_bytes_doc,
    "buffer_size_bytes($module, /, dtype, count)\n--\n\n"
    "Bytes that `count` packed elements take (spec 1.3): elements below 8 bits lie without\n"
    "gaps, in whole bytes (6-bit ones in groups of three bytes).\n\n"
    "InvalidDescriptorError for 2^64 bytes or more, and for a private type, whose\n"
    "ExtensionType knows its size. OverflowError for a count that is not in 0 … 2^64 − 1."
    "\n\n"
    ">>> hurray.buffer_size_bytes(hurray.float32, 10)\n"
    "40\n"
    ">>> hurray.buffer_size_bytes(hurray.bool, 10)\n"
    "2");

static const Signature buffer_size_bytes_signature = {
    "buffer_size_bytes", {{"dtype", ARGUMENT_REQUIRED}, {"count", ARGUMENT_REQUIRED}}};

static PyObject *buffer_size_bytes(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                                   PyObject *kwnames) {
    CoreState *state = core_state_of_module(module);
    PyObject *values[2];
    uint8_t tag;
    uint64_t count, bytes;
    if (!arguments_parse(&buffer_size_bytes_signature, args, nargs, kwnames, values) ||
        !dtype_as_tag(state, values[0], "dtype", &tag) ||
        !argument_as_u64(values[1], "count", &count)) {
        return NULL;
    }
    if (hurray_element_type_is_private(tag)) {
        PyErr_Format(state->InvalidDescriptorError,
                     "%R is private: its width stands in its ExtensionType section; ask "
                     "ExtensionType.buffer_size_bytes(count)",
                     values[0]);
        return NULL;
    }
    HurrayStatus status = hurray_element_type_size(tag, count, &bytes);
    if (status != HURRAY_OK) return raise_status(state, status);
    return PyLong_FromUnsignedLongLong(bytes);
}

/* ---- the type ---- */

static PyMethodDef dtype_methods[] = {
    {"from_name", dtype_from_name, METH_O | METH_CLASS, from_name_doc},
    {"from_tag", dtype_from_tag_method, METH_O | METH_CLASS, from_tag_doc},
    {"__reduce__", dtype_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

#define FIELD(name) (void *)offsetof(HurrayElementType, name)

static PyGetSetDef dtype_getset[] = {
    {"name", get_name, NULL, "str: such as 'float32'; 'extension' for a private type.", NULL},
    {"tag", get_tag, NULL, "int: the byte that stands for it in a descriptor.", NULL},
    {"tier", get_number, NULL, "int: 1 for what array frameworks have in common, else 2.",
     FIELD(tier)},
    {"bit_width", get_number, NULL, "int: bits of one element; 0 for a private type.", FIELD(bits)},
    {"element_alignment", get_number, NULL,
     "int: bytes to which one element is aligned; 1 for sub-byte types.", FIELD(alignment)},
    {"is_float", get_flag, NULL, "bool: floating point; true for complex types too.",
     FIELD(is_float)},
    {"is_signed", get_flag, NULL, "bool: has values below zero.", FIELD(is_signed)},
    {"is_integer", get_flag, NULL, "bool: an integer; false for bool.", FIELD(is_integer)},
    {"is_complex", get_flag, NULL, "bool: complex64 or complex128.", FIELD(is_complex)},
    {"is_array_api", get_flag, NULL,
     "bool: array frameworks have it; true for tier 1 and complex types.", FIELD(is_standard)},
    {"is_sub_byte", get_is_sub_byte, NULL, "bool: narrower than 8 bits, thus packed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(dtype_doc,
             "An element type (spec 1.3, 8.2). One object per type, compared by identity.\n\n"
             "Not constructed: take hurray.float32, hurray.dtype.int4, Dtype.from_name(name) or\n"
             "Dtype.from_tag(tag)."
             "\n\n"
             ">>> d = hurray.bfloat16\n"
             ">>> d.name, d.bit_width, d.is_float\n"
             "('bfloat16', 16, True)");

static PyType_Slot dtype_slots[] = {
    {Py_tp_doc, (char *)dtype_doc}, {Py_tp_repr, dtype_repr},
    {Py_tp_str, dtype_str},         {Py_tp_methods, dtype_methods},
    {Py_tp_getset, dtype_getset},   {Py_tp_traverse, dtype_traverse},
    {Py_tp_dealloc, dtype_dealloc}, {0, NULL},
};

static PyType_Spec dtype_spec = {
    .name = "hurray.Dtype",
    .basicsize = sizeof(DtypeObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = dtype_slots,
};

static PyMethodDef functions[] = {
    {"buffer_size_bytes", CORE_METHOD(buffer_size_bytes), METH_FASTCALL | METH_KEYWORDS,
     buffer_size_bytes_doc},
    {NULL, NULL, 0, NULL},
};

static int add_dtype(CoreState *state, uint8_t tag, const HurrayElementType *row) {
    PyObject *self = state->DtypeType->tp_alloc(state->DtypeType, 0);
    if (self == NULL) return -1;
    dtype_of(self)->row = row;
    dtype_of(self)->tag = tag;
    dtype_of(self)->name = PyUnicode_InternFromString(row->name);
    state->dtypes[tag] = self;
    return dtype_of(self)->name == NULL ? -1 : 0;
}

int dtype_setup(PyObject *module, CoreState *state) {
    state->DtypeType = core_add_type(module, &dtype_spec, NULL);
    if (state->DtypeType == NULL) return -1;
    const HurrayElementType *row;
    for (uint32_t i = 0; (row = hurray_element_type_at(i)) != NULL; i++) {
        if (add_dtype(state, row->tag, row) < 0 ||
            PyModule_AddObjectRef(module, row->name, state->dtypes[row->tag]) < 0) {
            return -1;
        }
    }
    for (int tag = HURRAY_TYPE_PRIVATE_FIRST; tag <= HURRAY_TYPE_PRIVATE_LAST; tag++) {
        if (add_dtype(state, (uint8_t)tag, &private_row) < 0) return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
