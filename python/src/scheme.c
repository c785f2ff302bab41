/*
 * Quantization schemes (spec 3, 8.10): a class each, with constructors that check the parameters,
 * and their bytes.
 */
#include <float.h>
#include <string.h>

#include "arguments.h"
#include "value.h"

/* In the order of CoreState.scheme_types; a scheme's tag is its place here, plus 1. */
enum {
    PER_TENSOR,
    PER_CHANNEL,
    PER_BLOCK,
    NORMAL_FLOAT,
    MICROSCALED
};

/* ---- values ---- */

static const char *const per_tensor_names[] = {"scale", "zero_point", NULL};
static const char *const per_channel_names[] = {"axis", "scale_buffer_index",
                                                "zero_point_buffer_index", NULL};
static const char *const per_block_names[] = {
    "axis", "block_size", "scale_buffer_index", "zero_point_buffer_index", "scale_type", NULL};
static const char *const blocks_names[] = {"axis", "block_size", "scale_buffer_index", NULL};

/* By symmetry, where that makes a difference. */
static const ValueForm forms[CORE_SCHEME_CLASSES][2] = {
    [PER_TENSOR] = {{"PerTensorAffine", per_tensor_names, NULL, false},
                    {"PerTensorAffine", per_tensor_names, NULL, false}},
    [PER_CHANNEL] = {{"PerChannelAffine.asymmetric", per_channel_names, NULL, false},
                     {"PerChannelAffine.symmetric", per_channel_names, NULL, false}},
    [PER_BLOCK] = {{"PerBlockAffine.asymmetric", per_block_names, NULL, false},
                   {"PerBlockAffine.symmetric", per_block_names, NULL, false}},
    [NORMAL_FLOAT] = {{"NF4", blocks_names, NULL, false}, {"NF4", blocks_names, NULL, false}},
    [MICROSCALED] = {{"MXFP", blocks_names, NULL, false}, {"MXFP", blocks_names, NULL, false}},
};

/* The shortest decimal that is this float32, as Python shows a float: 0.1, not 0.10000000149. */
static PyObject *shortest_float(float value) {
    double shortest = (double)value;
    for (int digits = 1; digits <= FLT_DECIMAL_DIG; digits++) {
        char *text = PyOS_double_to_string((double)value, 'e', digits - 1, 0, NULL);
        if (text == NULL) return NULL;
        double rounded = PyOS_string_to_double(text, NULL, NULL);
        PyMem_Free(text);
        if (rounded == -1.0 && PyErr_Occurred()) return NULL;
        if ((float)rounded != value) continue;
        shortest = rounded;
        break;
    }
    return PyFloat_FromDouble(shortest);
}

static PyObject *zero_points_or_none(uint32_t index) {
    return index == HURRAY_NO_BUFFER ? Py_NewRef(Py_None) : PyLong_FromUnsignedLong(index);
}

static PyObject *values_of_scheme(CoreState *state, const HurrayQuantization *q) {
    switch (q->scheme) {
    case HURRAY_SCHEME_PER_TENSOR:
        return Py_BuildValue("(di)", (double)q->scale, (int)q->zero_point);
    case HURRAY_SCHEME_PER_CHANNEL:
        return Py_BuildValue("(IIN)", q->axis, q->scale_buffer,
                             zero_points_or_none(q->zero_point_buffer));
    case HURRAY_SCHEME_PER_BLOCK:
        return Py_BuildValue("(IIINO)", q->axis, q->block_size, q->scale_buffer,
                             zero_points_or_none(q->zero_point_buffer),
                             dtype_from_tag(state, q->scale_type));
    default: return Py_BuildValue("(III)", q->axis, q->block_size, q->scale_buffer);
    }
}

/* ---- making ---- */

/* `trailing` is a bytes object with what the scheme's pointer should show, or NULL. */
static PyObject *make(CoreState *state, const HurrayQuantization *quantization,
                      PyObject *trailing) {
    size_t index = quantization->scheme - HURRAY_SCHEME_PER_TENSOR;
    bool symmetric = quantization->zero_point_buffer == HURRAY_NO_BUFFER;
    ValueObject *self = value_new(state->scheme_types[index], &forms[index][symmetric],
                                  values_of_scheme(state, quantization));
    if (self == NULL) return NULL;
    self->scheme = *quantization;
    self->scheme.trailing = NULL;
    if (trailing != NULL) {
        self->kept = Py_NewRef(trailing);
        self->scheme.trailing = (const uint8_t *)PyBytes_AS_STRING(trailing);
    }
    return (PyObject *)self;
}

PyObject *scheme_new(CoreState *state, const HurrayQuantization *quantization) {
    if (hurray_scheme_name(quantization->scheme) == NULL) {
        char text[8];
        PyErr_Format(state->UnsupportedError,
                     "quantization scheme %s has no class; the descriptor's encode() keeps it",
                     hex_byte(quantization->scheme, text));
        return NULL;
    }
    if (quantization->trailing_size == 0) return make(state, quantization, NULL);
    PyObject *trailing = PyBytes_FromStringAndSize((const char *)quantization->trailing,
                                                   (Py_ssize_t)quantization->trailing_size);
    PyObject *self = trailing == NULL ? NULL : make(state, quantization, trailing);
    Py_XDECREF(trailing);
    return self;
}

/* Of parameters that have not been checked. */
static PyObject *make_checked(CoreState *state, const HurrayQuantization *quantization) {
    HurrayStatus status = hurray_quantization_check(quantization);
    return status == HURRAY_OK ? make(state, quantization, NULL) : raise_status(state, status);
}

bool scheme_as_value(CoreState *state, PyObject *object, const char *argument,
                     HurrayQuantization *out) {
    for (size_t i = 0; i < CORE_SCHEME_CLASSES; i++) {
        if (!Py_IS_TYPE(object, state->scheme_types[i])) continue;
        *out = value_of(object)->scheme;
        return true;
    }
    PyErr_Format(PyExc_TypeError,
                 "%s must be a quantization scheme (PerTensorAffine, PerChannelAffine, "
                 "PerBlockAffine, NF4 or MXFP), not %.200s",
                 argument, Py_TYPE(object)->tp_name);
    return false;
}

/* ---- arguments ---- */

static bool read_number(CoreState *state, PyObject *value, const char *name, int64_t least,
                        int64_t most, int64_t *out) {
    int overflow;
    if (!argument_as_i64(value, name, out, &overflow)) return false;
    if (overflow == 0 && *out >= least && *out <= most) return true;
    char expected[64];
    PyOS_snprintf(expected, sizeof expected, "%lld to %lld", (long long)least, (long long)most);
    argument_refuse(state->InvalidDescriptorError, name, value, expected);
    return false;
}

static bool read_u32(CoreState *state, PyObject *value, const char *name, uint32_t *out) {
    int64_t number;
    if (!read_number(state, value, name, 0, UINT32_MAX, &number)) return false;
    *out = (uint32_t)number;
    return true;
}

/* An index that is there; the one that stands for none is out of range. */
static bool read_zero_points(CoreState *state, PyObject *value, uint32_t *out) {
    int64_t number;
    if (!read_number(state, value, "zero_point_buffer_index", 0, HURRAY_NO_BUFFER - 1, &number)) {
        return false;
    }
    *out = (uint32_t)number;
    return true;
}

/* ---- PerTensorAffine ---- */

static const Signature per_tensor_signature = {
    "PerTensorAffine", {{"scale", ARGUMENT_REQUIRED}, {"zero_point", ARGUMENT_REQUIRED}}};

static PyObject *per_tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    CoreState *state = PyType_GetModuleState(type);
    PyObject *values[2];
    int64_t zero_point;
    if (!arguments_parse_new(&per_tensor_signature, args, kwargs, values)) return NULL;
    double scale = PyFloat_AsDouble(values[0]);
    if (scale == -1.0 && PyErr_Occurred()) return NULL;
    if (!read_number(state, values[1], "zero_point", INT32_MIN, INT32_MAX, &zero_point)) {
        return NULL;
    }
    HurrayQuantization quantization = {
        .scheme = HURRAY_SCHEME_PER_TENSOR,
        .scale = (float)scale,
        .zero_point = (int32_t)zero_point,
        .zero_point_buffer = HURRAY_NO_BUFFER,
    };
    return make_checked(state, &quantization);
}

/* Shows the scale as short as float32 is. */
static PyObject *per_tensor_repr(PyObject *self) {
    const HurrayQuantization *quantization = &value_of(self)->scheme;
    PyObject *scale = shortest_float(quantization->scale);
    if (scale == NULL) return NULL;
    PyObject *text = PyUnicode_FromFormat("PerTensorAffine(scale=%R, zero_point=%d)", scale,
                                          (int)quantization->zero_point);
    Py_DECREF(scale);
    return text;
}

/* ---- the classes with buffers ---- */

/* All arguments that any of them has. */
enum {
    AXIS,
    BLOCK_SIZE,
    SCALE_BUFFER,
    ZERO_POINT_BUFFER,
    SCALE_TYPE,
    SCHEME_ARGUMENTS
};

static const char *const argument_names[SCHEME_ARGUMENTS] = {
    "axis", "block_size", "scale_buffer_index", "zero_point_buffer_index", "scale_type"};

/* From values in the order of the signature, each of whose names is one of the above. */
static PyObject *make_from_arguments(CoreState *state, uint8_t scheme, const Signature *signature,
                                     PyObject *const *given) {
    PyObject *values[SCHEME_ARGUMENTS] = {NULL};
    for (int i = 0; signature->arguments[i].name != NULL; i++) {
        int which = 0;
        while (strcmp(argument_names[which], signature->arguments[i].name) != 0) which++;
        values[which] = given[i];
    }
    HurrayQuantization quantization = {
        .scheme = scheme,
        .scale_type = HURRAY_TYPE_FLOAT32, /* of those that have no other */
        .zero_point_buffer = HURRAY_NO_BUFFER,
    };
    bool read =
        read_u32(state, values[AXIS], "axis", &quantization.axis) &&
        (values[BLOCK_SIZE] == NULL ||
         read_u32(state, values[BLOCK_SIZE], "block_size", &quantization.block_size)) &&
        read_u32(state, values[SCALE_BUFFER], "scale_buffer_index", &quantization.scale_buffer) &&
        (values[ZERO_POINT_BUFFER] == NULL ||
         read_zero_points(state, values[ZERO_POINT_BUFFER], &quantization.zero_point_buffer)) &&
        (values[SCALE_TYPE] == NULL ||
         dtype_as_tag(state, values[SCALE_TYPE], "scale_type", &quantization.scale_type));
    return read ? make_checked(state, &quantization) : NULL;
}

/* A class method that makes an object. */
#define SCHEME_METHOD(function, scheme, ...)                                                    \
    static const Signature function##_signature = __VA_ARGS__;                                  \
    static PyObject *function(PyObject *type, PyObject *const *args, Py_ssize_t nargs,          \
                              PyObject *kwnames) {                                              \
        PyObject *values[SCHEME_ARGUMENTS];                                                     \
        if (!arguments_parse(&function##_signature, args, nargs, kwnames, values)) return NULL; \
        return make_from_arguments(PyType_GetModuleState((PyTypeObject *)type), scheme,         \
                                   &function##_signature, values);                              \
    }

SCHEME_METHOD(per_channel_symmetric, HURRAY_SCHEME_PER_CHANNEL,
              {"symmetric",
               {{"axis", ARGUMENT_REQUIRED}, {"scale_buffer_index", ARGUMENT_REQUIRED}}})
SCHEME_METHOD(per_channel_asymmetric, HURRAY_SCHEME_PER_CHANNEL,
              {"asymmetric",
               {{"axis", ARGUMENT_REQUIRED},
                {"scale_buffer_index", ARGUMENT_REQUIRED},
                {"zero_point_buffer_index", ARGUMENT_REQUIRED}}})
SCHEME_METHOD(per_block_symmetric, HURRAY_SCHEME_PER_BLOCK,
              {"symmetric",
               {{"axis", ARGUMENT_REQUIRED},
                {"block_size", ARGUMENT_REQUIRED},
                {"scale_buffer_index", ARGUMENT_REQUIRED},
                {"scale_type", ARGUMENT_REQUIRED}}})
SCHEME_METHOD(per_block_asymmetric, HURRAY_SCHEME_PER_BLOCK,
              {"asymmetric",
               {{"axis", ARGUMENT_REQUIRED},
                {"block_size", ARGUMENT_REQUIRED},
                {"scale_buffer_index", ARGUMENT_REQUIRED},
                {"zero_point_buffer_index", ARGUMENT_REQUIRED},
                {"scale_type", ARGUMENT_REQUIRED}}})

static const Signature nf4_signature = {"NF4",
                                        {{"axis", ARGUMENT_REQUIRED},
                                         {"block_size", ARGUMENT_REQUIRED},
                                         {"scale_buffer_index", ARGUMENT_REQUIRED}}};
static const Signature mxfp_signature = {"MXFP",
                                         {{"axis", ARGUMENT_REQUIRED},
                                          {"block_size", ARGUMENT_REQUIRED},
                                          {"scale_buffer_index", ARGUMENT_REQUIRED}}};

static PyObject *new_from_arguments(PyTypeObject *type, uint8_t scheme, const Signature *signature,
                                    PyObject *args, PyObject *kwargs) {
    PyObject *values[SCHEME_ARGUMENTS];
    if (!arguments_parse_new(signature, args, kwargs, values)) return NULL;
    return make_from_arguments(PyType_GetModuleState(type), scheme, signature, values);
}

static PyObject *nf4_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    return new_from_arguments(type, HURRAY_SCHEME_NF4, &nf4_signature, args, kwargs);
}

static PyObject *mxfp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    return new_from_arguments(type, HURRAY_SCHEME_MXFP, &mxfp_signature, args, kwargs);
}

/* ---- bytes ---- */

PyDoc_STRVAR(encode_doc, "encode($self, /)\n--\n\n"
                         "The scheme as the bytes of a quantization section (spec 3).\n\n"
                         "Those that decode_quantization found behind its fields are kept."
                         "\n\n"
                         ">>> hurray.PerTensorAffine(0.5, 3).encode().hex(' ', 4)\n"
                         "'01010000 0000003f 03000000 00000000'");

static PyObject *scheme_encode(PyObject *self, PyObject *ignored) {
    (void)ignored;
    const HurrayQuantization *quantization = &value_of(self)->scheme;
    uint64_t size;
    uintptr_t length;
    HurrayStatus status = hurray_quantization_encoded_size(quantization, &size);
    if (status != HURRAY_OK) return raise_status(core_state_of(self), status);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (bytes == NULL) return NULL;
    status = hurray_quantization_encode(quantization, (uint8_t *)PyBytes_AS_STRING(bytes),
                                        (uintptr_t)size, &length);
    if (status == HURRAY_OK) return bytes;
    Py_DECREF(bytes);
    return raise_status(core_state_of(self), status);
}

PyDoc_STRVAR(
    decode_doc,
    "decode_quantization($module, bytes, /)\n--\n\n"
    "The scheme that the bytes of a quantization section stand for (spec 3).\n\n"
    "bytes: bytes-like, without the length before the section. Those behind the fields of\n"
    "the scheme are kept for encode(). InvalidDescriptorError names what is wrong."
    "\n\n"
    ">>> hurray.decode_quantization(hurray.NF4(0, 64, 1).encode())\n"
    "NF4(axis=0, block_size=64, scale_buffer_index=1)");

static PyObject *decode_quantization(PyObject *module, PyObject *argument) {
    CoreState *state = core_state_of_module(module);
    if (!PyObject_CheckBuffer(argument)) {
        return PyErr_Format(PyExc_TypeError, "bytes must be bytes-like, not %.200s",
                            Py_TYPE(argument)->tp_name);
    }
    Py_buffer view;
    if (PyObject_GetBuffer(argument, &view, PyBUF_SIMPLE) < 0) return NULL;
    static const uint8_t none = 0; /* the address of an empty buffer may be NULL */
    HurrayQuantization quantization;
    HurrayStatus status = hurray_quantization_decode(view.buf != NULL ? view.buf : &none,
                                                     (uintptr_t)view.len, &quantization);
    PyObject *self =
        status == HURRAY_OK ? scheme_new(state, &quantization) : raise_status(state, status);
    PyBuffer_Release(&view);
    return self;
}

/* Through the bytes, which say everything. */
static PyObject *scheme_reduce(PyObject *self, PyObject *ignored) {
    PyObject *bytes = scheme_encode(self, ignored);
    PyObject *module = PyType_GetModule(Py_TYPE(self));
    PyObject *decode = module == NULL || bytes == NULL
                           ? NULL
                           : PyObject_GetAttrString(module, "decode_quantization");
    if (decode != NULL) return Py_BuildValue("N(N)", decode, bytes);
    Py_XDECREF(bytes);
    return NULL;
}

/* ---- the types ---- */

#define SCHEME_METHODS                                                                           \
    {"encode", scheme_encode, METH_NOARGS, encode_doc},                                          \
        {"__reduce__", scheme_reduce, METH_NOARGS, NULL},                                        \
        {"__copy__", value_copy, METH_NOARGS, NULL}, {"__deepcopy__", value_copy, METH_O, NULL}, \
        {NULL, NULL, 0, NULL},

#define AXIS_DOC "int: the dimension along which scales differ."
#define BLOCK_DOC "int: elements along axis that share a scale."
#define SCALES_DOC "int: which buffer of the tensor holds the scales."
#define ZERO_POINTS_DOC "int: which buffer holds the int32 zero points; None when symmetric."

PyDoc_STRVAR(per_tensor_doc,
             "PerTensorAffine(scale, zero_point)\n--\n\n"
             "x = scale * (q - zero_point) for all elements (spec 3). scale: float32, finite and\n"
             "not 0; zero_point: int32, in the range of the stored type: int8 … uint32, int4,\n"
             "uint4, int2, uint2. InvalidDescriptorError for other numbers. Not hashable."
             "\n\n"
             ">>> hurray.PerTensorAffine(scale=0.5, zero_point=3)\n"
             "PerTensorAffine(scale=0.5, zero_point=3)");

static PyMethodDef per_tensor_methods[] = {SCHEME_METHODS};
static PyGetSetDef per_tensor_getset[] = {
    VALUE_ATTRIBUTE("scale", 0, "float: the scale, as float32."),
    VALUE_ATTRIBUTE("zero_point", 1, "int: what stands for 0."),
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot per_tensor_slots[] = {
    {Py_tp_doc, (char *)per_tensor_doc},
    {Py_tp_new, per_tensor_new},
    {Py_tp_repr, per_tensor_repr},
    {Py_tp_hash, PyObject_HashNotImplemented},
    {Py_tp_richcompare, value_richcompare},
    {Py_tp_methods, per_tensor_methods},
    {Py_tp_getset, per_tensor_getset},
    {Py_tp_dealloc, value_dealloc},
    {0, NULL},
};

PyDoc_STRVAR(
    per_channel_doc,
    "x = scale * (q - zero_point), a pair for each index of `axis` (spec 3): float32\n"
    "scales [shape[axis]], int32 zero points likewise. Stored as int8 … uint32, int4,\n"
    "uint4, int2, uint2. Made by symmetric and asymmetric."
    "\n\n"
    ">>> scheme = hurray.PerChannelAffine.symmetric(axis=0, scale_buffer_index=1)\n"
    ">>> aux = [np.array([0.5, 2], np.float32)]\n"
    ">>> t = hurray.Tensor(bytes(4), hurray.int8, [2, 2], aux_buffers=aux, quantization=scheme)\n"
    ">>> t.buffer_count\n"
    "2");
PyDoc_STRVAR(per_channel_symmetric_doc,
             "symmetric($type, /, axis, scale_buffer_index)\n--\n\n"
             "The scheme without zero points. InvalidDescriptorError for numbers out of range."
             "\n\n"
             ">>> hurray.PerChannelAffine.symmetric(0, 1).zero_point_buffer_index is None\n"
             "True");
PyDoc_STRVAR(
    per_channel_asymmetric_doc,
    "asymmetric($type, /, axis, scale_buffer_index, zero_point_buffer_index)\n--\n\n"
    "The scheme with zero points, which may share the buffer of the scales: behind them.\n"
    "InvalidDescriptorError for numbers out of range."
    "\n\n"
    ">>> hurray.PerChannelAffine.asymmetric(0, 1, 2)\n"
    "PerChannelAffine.asymmetric(axis=0, scale_buffer_index=1, zero_point_buffer_index=2)");

#define CLASS_METHOD(name, function, doc) \
    {name, CORE_METHOD(function), METH_FASTCALL | METH_KEYWORDS | METH_CLASS, doc}

static PyMethodDef per_channel_methods[] = {
    CLASS_METHOD("symmetric", per_channel_symmetric, per_channel_symmetric_doc),
    CLASS_METHOD("asymmetric", per_channel_asymmetric, per_channel_asymmetric_doc), SCHEME_METHODS};
static PyGetSetDef per_channel_getset[] = {
    VALUE_ATTRIBUTE("axis", 0, AXIS_DOC),
    VALUE_ATTRIBUTE("scale_buffer_index", 1, SCALES_DOC),
    VALUE_ATTRIBUTE("zero_point_buffer_index", 2, ZERO_POINTS_DOC),
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(
    per_block_doc,
    "x = scale * (q - zero_point), a pair for each `block_size` elements along `axis`\n"
    "(spec 3): a power of two from 2 on, at most the extent. Scales are float16, bfloat16\n"
    "or float32, zero points int32; stored as int8, uint8, int4, uint4, int2, uint2. Made\n"
    "by symmetric and asymmetric."
    "\n\n"
    ">>> scheme = hurray.PerBlockAffine.symmetric(0, 32, 1, hurray.float16)\n"
    ">>> aux = [np.ones(2, np.float16)]\n"
    ">>> t = hurray.Tensor(bytes(64), hurray.int8, [64], aux_buffers=aux, quantization=scheme)\n"
    ">>> t.quantization.block_size\n"
    "32");
PyDoc_STRVAR(per_block_symmetric_doc,
             "symmetric($type, /, axis, block_size, scale_buffer_index, scale_type)\n--\n\n"
             "The scheme without zero points. InvalidDescriptorError for numbers out of range and\n"
             "another scale type."
             "\n\n"
             ">>> hurray.PerBlockAffine.symmetric(0, 32, 1, hurray.bfloat16).scale_type\n"
             "hurray.bfloat16");
PyDoc_STRVAR(
    per_block_asymmetric_doc,
    "asymmetric($type, /, axis, block_size, scale_buffer_index, zero_point_buffer_index,\n"
    "           scale_type)\n--\n\n"
    "The scheme with zero points, which may share the buffer of the scales: behind them.\n"
    "InvalidDescriptorError for numbers out of range and another scale type."
    "\n\n"
    ">>> hurray.PerBlockAffine.asymmetric(0, 32, 1, 2, hurray.float16).zero_point_buffer_index\n"
    "2");

static PyMethodDef per_block_methods[] = {
    CLASS_METHOD("symmetric", per_block_symmetric, per_block_symmetric_doc),
    CLASS_METHOD("asymmetric", per_block_asymmetric, per_block_asymmetric_doc), SCHEME_METHODS};
static PyGetSetDef per_block_getset[] = {
    VALUE_ATTRIBUTE("axis", 0, AXIS_DOC),
    VALUE_ATTRIBUTE("block_size", 1, BLOCK_DOC),
    VALUE_ATTRIBUTE("scale_buffer_index", 2, SCALES_DOC),
    VALUE_ATTRIBUTE("zero_point_buffer_index", 3, ZERO_POINTS_DOC),
    VALUE_ATTRIBUTE("scale_type", 4, "Dtype: of the scales: float16, bfloat16 or float32."),
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(nf4_doc,
             "NF4(axis, block_size, scale_buffer_index)\n--\n\n"
             "x = scale * one of 16 levels of a normal distribution (spec 3), a float32 scale for\n"
             "each `block_size` elements along `axis`: a power of two from 8 on, at most the\n"
             "extent. Stored as uint4. InvalidDescriptorError for numbers out of range."
             "\n\n"
             ">>> hurray.NF4(axis=0, block_size=64, scale_buffer_index=1)\n"
             "NF4(axis=0, block_size=64, scale_buffer_index=1)");
PyDoc_STRVAR(
    mxfp_doc,
    "MXFP(axis, block_size, scale_buffer_index)\n--\n\n"
    "x = 2**(e - 127) * value (spec 3), a float8_e8m0 exponent for each `block_size`\n"
    "elements along `axis`: a power of two, 16 … 2048, that divides the extent. Stored as\n"
    "a float of 8, 6 or 4 bits, int8 or int4. InvalidDescriptorError for numbers out of\n"
    "range."
    "\n\n"
    ">>> hurray.MXFP(axis=0, block_size=32, scale_buffer_index=1)\n"
    "MXFP(axis=0, block_size=32, scale_buffer_index=1)");

static PyMethodDef blocks_methods[] = {SCHEME_METHODS};
static PyGetSetDef blocks_getset[] = {
    VALUE_ATTRIBUTE("axis", 0, AXIS_DOC),
    VALUE_ATTRIBUTE("block_size", 1, BLOCK_DOC),
    VALUE_ATTRIBUTE("scale_buffer_index", 2, SCALES_DOC),
    {NULL, NULL, NULL, NULL, NULL},
};

/* The slots of a hashable class; the first ones differ. */
#define SCHEME_SLOTS(variable, methods, getset, ...) \
    static PyType_Slot variable[] = {                \
        __VA_ARGS__,                                 \
        {Py_tp_repr, value_repr},                    \
        {Py_tp_hash, value_hash},                    \
        {Py_tp_richcompare, value_richcompare},      \
        {Py_tp_methods, methods},                    \
        {Py_tp_getset, getset},                      \
        {Py_tp_dealloc, value_dealloc},              \
        {0, NULL},                                   \
    }

SCHEME_SLOTS(per_channel_slots, per_channel_methods, per_channel_getset,
             {Py_tp_doc, (char *)per_channel_doc});
SCHEME_SLOTS(per_block_slots, per_block_methods, per_block_getset,
             {Py_tp_doc, (char *)per_block_doc});
SCHEME_SLOTS(nf4_slots, blocks_methods, blocks_getset, {Py_tp_doc, (char *)nf4_doc},
             {Py_tp_new, nf4_new});
SCHEME_SLOTS(mxfp_slots, blocks_methods, blocks_getset, {Py_tp_doc, (char *)mxfp_doc},
             {Py_tp_new, mxfp_new});

#define SCHEME_SPEC(variable, class_name, more_flags, class_slots)           \
    static PyType_Spec variable = {                                          \
        .name = "hurray." class_name,                                        \
        .basicsize = sizeof(ValueObject),                                    \
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | more_flags, \
        .slots = class_slots,                                                \
    }

SCHEME_SPEC(per_tensor_spec, "PerTensorAffine", 0, per_tensor_slots);
SCHEME_SPEC(per_channel_spec, "PerChannelAffine", Py_TPFLAGS_DISALLOW_INSTANTIATION,
            per_channel_slots);
SCHEME_SPEC(per_block_spec, "PerBlockAffine", Py_TPFLAGS_DISALLOW_INSTANTIATION, per_block_slots);
SCHEME_SPEC(nf4_spec, "NF4", 0, nf4_slots);
SCHEME_SPEC(mxfp_spec, "MXFP", 0, mxfp_slots);

static PyMethodDef functions[] = {
    {"decode_quantization", decode_quantization, METH_O, decode_doc},
    {NULL, NULL, 0, NULL},
};

int scheme_setup(PyObject *module, CoreState *state) {
    PyType_Spec *const specs[CORE_SCHEME_CLASSES] = {
        [PER_TENSOR] = &per_tensor_spec, [PER_CHANNEL] = &per_channel_spec,
        [PER_BLOCK] = &per_block_spec,   [NORMAL_FLOAT] = &nf4_spec,
        [MICROSCALED] = &mxfp_spec,
    };
    for (size_t i = 0; i < CORE_SCHEME_CLASSES; i++) {
        state->scheme_types[i] = core_add_type(module, specs[i], NULL);
        if (state->scheme_types[i] == NULL) return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
