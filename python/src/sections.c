/*
 * The optional sections of a descriptor (spec 1.7, 8.10): Statistics, Shard, ExtensionType, and the
 * role of a member. Quantization is in scheme.c.
 */
#include <string.h>

#include "arguments.h"
#include "layout.h"
#include "value.h"

/* A number that its field holds, or InvalidDescriptorError. */
static bool read_u8(CoreState *state, PyObject *value, const char *name, uint8_t *out) {
    uint32_t number;
    if (!layout_read_u32(state, value, name, &number)) return false;
    *out = (uint8_t)number;
    if (number <= UINT8_MAX) return true;
    argument_refuse(state->InvalidDescriptorError, name, value, "0 to 255");
    return false;
}

static bool read_f64(PyObject *value, double *out) {
    *out = PyFloat_AsDouble(value);
    return *out != -1.0 || !PyErr_Occurred();
}

/* type._restore, with which all of these are unpickled: it takes the values as they are. */
static PyObject *section_reduce(PyObject *self, PyObject *ignored) {
    (void)ignored;
    PyObject *restore = PyObject_GetAttrString((PyObject *)Py_TYPE(self), "_restore");
    return restore == NULL ? NULL : Py_BuildValue("NO", restore, value_of(self)->values);
}

#define SECTION_METHODS(restore)                                                                 \
    {"_restore", restore, METH_VARARGS | METH_CLASS, NULL},                                      \
        {"__reduce__", section_reduce, METH_NOARGS, NULL},                                       \
        {"__copy__", value_copy, METH_NOARGS, NULL}, {"__deepcopy__", value_copy, METH_O, NULL}, \
        {NULL, NULL, 0, NULL},

#define SECTION_TYPE(prefix, class_name, doc, methods, getset)  \
    static PyType_Slot prefix##_slots[] =                       \
        {                                                       \
            {Py_tp_doc, (char *)doc},                           \
            {Py_tp_new, prefix##_tp_new},                       \
            {Py_tp_repr, value_repr},                           \
            {Py_tp_hash, value_hash},                           \
            {Py_tp_richcompare, value_richcompare},             \
            {Py_tp_methods, methods},                           \
            {Py_tp_getset, getset},                             \
            {Py_tp_dealloc, value_dealloc},                     \
            {0, NULL},                                          \
    };                                                          \
    static PyType_Spec prefix##_spec = {                        \
        .name = "hurray." class_name,                           \
        .basicsize = sizeof(ValueObject),                       \
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, \
        .slots = prefix##_slots,                                \
    }

/* ---- Statistics ---- */

enum {
    NNZ,
    SPARSITY_RATIO,
    VALUE_MIN,
    VALUE_MAX,
    VALUE_ABS_MAX,
    VALUE_MEAN,
    VALUE_STDDEV,
    NM_N,
    NM_M,
    HAS_NAN,
    HAS_INF,
    STATISTICS_VALUES
};

static const char *const statistics_names[] = {
    "nnz",          "sparsity_ratio", "value_min", "value_max", "value_abs_max", "value_mean",
    "value_stddev", "nm_n",           "nm_m",      "has_nan",   "has_inf",       NULL};
static const ValueForm statistics_form = {"Statistics", statistics_names, NULL, false};

static const Signature statistics_signature = {"Statistics",
                                               {{"nnz", ARGUMENT_KEYWORD_ONLY},
                                                {"sparsity_ratio", ARGUMENT_KEYWORD_ONLY},
                                                {"value_min", ARGUMENT_KEYWORD_ONLY},
                                                {"value_max", ARGUMENT_KEYWORD_ONLY},
                                                {"value_abs_max", ARGUMENT_KEYWORD_ONLY},
                                                {"value_mean", ARGUMENT_KEYWORD_ONLY},
                                                {"value_stddev", ARGUMENT_KEYWORD_ONLY},
                                                {"nm_n", ARGUMENT_KEYWORD_ONLY},
                                                {"nm_m", ARGUMENT_KEYWORD_ONLY},
                                                {"has_nan", ARGUMENT_KEYWORD_ONLY},
                                                {"has_inf", ARGUMENT_KEYWORD_ONLY}}};

/* The values that share each bit of the mask. */
static const struct {
    uint32_t bit;
    int first, last;
} groups[] = {
    {HURRAY_STATISTICS_NNZ, NNZ, NNZ},
    {HURRAY_STATISTICS_SPARSITY, SPARSITY_RATIO, SPARSITY_RATIO},
    {HURRAY_STATISTICS_RANGE, VALUE_MIN, VALUE_ABS_MAX},
    {HURRAY_STATISTICS_MOMENTS, VALUE_MEAN, VALUE_STDDEV},
    {HURRAY_STATISTICS_NM, NM_N, NM_M},
    {HURRAY_STATISTICS_SPECIALS, HAS_NAN, HAS_INF},
};

/* The mask of what is there; false with InvalidDescriptorError for half a group. */
static bool read_mask(CoreState *state, PyObject *const *values, uint32_t *mask) {
    *mask = 0;
    for (size_t g = 0; g < Py_ARRAY_LENGTH(groups); g++) {
        bool all = true, any = false;
        int missing = groups[g].first, present = groups[g].first;
        for (int i = groups[g].first; i <= groups[g].last; i++) {
            if (values[i] == NULL) missing = i;
            if (values[i] != NULL) present = i;
            all = all && values[i] != NULL;
            any = any || values[i] != NULL;
        }
        if (all) *mask |= groups[g].bit;
        if (all == any) continue;
        PyErr_Format(state->InvalidDescriptorError,
                     "%s is given without %s; both are claimed together or not at all",
                     statistics_names[present], statistics_names[missing]);
        return false;
    }
    return true;
}

static bool read_statistics(CoreState *state, PyObject *const *values, HurrayStatistics *out) {
    *out = (HurrayStatistics){0};
    double *const doubles[STATISTICS_VALUES] = {
        [SPARSITY_RATIO] = &out->sparsity_ratio, [VALUE_MIN] = &out->value_min,
        [VALUE_MAX] = &out->value_max,           [VALUE_ABS_MAX] = &out->value_abs_max,
        [VALUE_MEAN] = &out->value_mean,         [VALUE_STDDEV] = &out->value_stddev,
    };
    uint8_t *const bytes[STATISTICS_VALUES] = {
        [NM_N] = &out->nm_n,
        [NM_M] = &out->nm_m,
        [HAS_NAN] = &out->has_nan,
        [HAS_INF] = &out->has_inf,
    };
    if (!read_mask(state, values, &out->computed_mask)) return false;
    for (int i = 0; i < STATISTICS_VALUES; i++) {
        const char *name = statistics_names[i];
        if (values[i] == NULL) continue;
        if (doubles[i] != NULL ? !read_f64(values[i], doubles[i])
            : bytes[i] != NULL ? !read_u8(state, values[i], name, bytes[i])
                               : !layout_read_u64(state, values[i], name, &out->nnz)) {
            return false;
        }
    }
    return true;
}

static PyObject *one_statistic(const HurrayStatistics *s, int index) {
    switch (index) {
    case NNZ: return PyLong_FromUnsignedLongLong(s->nnz);
    case SPARSITY_RATIO: return PyFloat_FromDouble(s->sparsity_ratio);
    case VALUE_MIN: return PyFloat_FromDouble(s->value_min);
    case VALUE_MAX: return PyFloat_FromDouble(s->value_max);
    case VALUE_ABS_MAX: return PyFloat_FromDouble(s->value_abs_max);
    case VALUE_MEAN: return PyFloat_FromDouble(s->value_mean);
    case VALUE_STDDEV: return PyFloat_FromDouble(s->value_stddev);
    case NM_N: return PyLong_FromLong(s->nm_n);
    case NM_M: return PyLong_FromLong(s->nm_m);
    case HAS_NAN: return PyBool_FromLong(s->has_nan);
    default: return PyBool_FromLong(s->has_inf);
    }
}

static PyObject *values_of_statistics(const HurrayStatistics *statistics) {
    PyObject *values = PyTuple_New(STATISTICS_VALUES);
    for (size_t g = 0; values != NULL && g < Py_ARRAY_LENGTH(groups); g++) {
        bool claimed = (statistics->computed_mask & groups[g].bit) != 0;
        for (int i = groups[g].first; values != NULL && i <= groups[g].last; i++) {
            PyObject *value = claimed ? one_statistic(statistics, i) : Py_NewRef(Py_None);
            if (value == NULL) {
                Py_CLEAR(values);
            } else {
                PyTuple_SET_ITEM(values, i, value);
            }
        }
    }
    return values;
}

PyObject *statistics_new(CoreState *state, const HurrayStatistics *statistics) {
    ValueObject *self =
        value_new(state->StatisticsType, &statistics_form, values_of_statistics(statistics));
    if (self != NULL) self->statistics = *statistics;
    return (PyObject *)self;
}

bool statistics_as_value(CoreState *state, PyObject *object, HurrayStatistics *out) {
    if (!Py_IS_TYPE(object, state->StatisticsType)) {
        PyErr_Format(PyExc_TypeError, "statistics must be a hurray.Statistics, not %.200s",
                     Py_TYPE(object)->tp_name);
        return false;
    }
    *out = value_of(object)->statistics;
    return true;
}

static PyObject *statistics_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    CoreState *state = PyType_GetModuleState(type);
    PyObject *values[STATISTICS_VALUES];
    HurrayStatistics statistics;
    if (!arguments_parse_new(&statistics_signature, args, kwargs, values) ||
        !read_statistics(state, values, &statistics)) {
        return NULL;
    }
    HurrayStatus status = hurray_statistics_check_authored(&statistics);
    return status == HURRAY_OK ? statistics_new(state, &statistics) : raise_status(state, status);
}

/* A reader takes what no author may write, so that it must survive pickling, too. */
static PyObject *statistics_restore(PyObject *type, PyObject *args) {
    CoreState *state = PyType_GetModuleState((PyTypeObject *)type);
    PyObject *values[STATISTICS_VALUES];
    HurrayStatistics statistics;
    if (PyTuple_GET_SIZE(args) != STATISTICS_VALUES) {
        return PyErr_Format(PyExc_TypeError, "_restore() takes %d values", STATISTICS_VALUES);
    }
    for (Py_ssize_t i = 0; i < STATISTICS_VALUES; i++) {
        PyObject *value = PyTuple_GET_ITEM(args, i);
        values[i] = value == Py_None ? NULL : value;
    }
    return read_statistics(state, values, &statistics) ? statistics_new(state, &statistics) : NULL;
}

static PyObject *get_computed_mask(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLong(value_of(self)->statistics.computed_mask);
}

PyDoc_STRVAR(
    compute_doc,
    "compute($type, tensor, /)\n--\n\n"
    "Measures a tensor whose bytes can be read: all that applies to it (spec 1.7).\n\n"
    "Of quantized tensors the dequantized values count; of sparse ones nnz is the number\n"
    "of stored elements, and those that are not stored are zeros among the others. Left\n"
    "out are: the ratio, range and moments of an empty tensor; range and moments where a\n"
    "NaN is among the values or they are complex; moments where an infinity is; nm, which\n"
    "is n:4 along the last dimension, where no zeros make it or the tensor is sparse.\n\n"
    "Needs NumPy, and ml_dtypes for narrow floats. UnsupportedError for other layouts,\n"
    "private dtypes, dynamic shapes and bytes that cannot be read."
    "\n\n"
    ">>> s = hurray.Statistics.compute(hurray.asarray([0.0, 1.0, 3.0, 0.0]))\n"
    ">>> s.nnz, s.sparsity_ratio, s.value_max, s.value_mean\n"
    "(2, 0.5, 3.0, 1.0)");

static PyObject *statistics_compute(PyObject *type, PyObject *tensor) {
    CoreState *state = PyType_GetModuleState((PyTypeObject *)type);
    if (!tensor_check(state, tensor)) {
        return PyErr_Format(PyExc_TypeError, "tensor must be a hurray.Tensor, not %.200s",
                            Py_TYPE(tensor)->tp_name);
    }
    return core_call_glue("hurray._statistics", "compute", tensor);
}

PyDoc_STRVAR(statistics_doc,
             "Statistics(*, nnz=None, sparsity_ratio=None, value_min=None, value_max=None,\n"
             "           value_abs_max=None, value_mean=None, value_stddev=None, nm_n=None,\n"
             "           nm_m=None, has_nan=None, has_inf=None)\n--\n\n"
             "Advice about the (dequantized) values of a tensor (spec 1.7); None is not claimed.\n"
             "value_min, value_max and value_abs_max come together, so do value_mean and\n"
             "value_stddev (of the population), nm_n and nm_m, has_nan and has_inf.\n\n"
             "InvalidDescriptorError for half a group, a ratio outside 0 … 1, a negative\n"
             "deviation, nm_n > nm_m. Statistics.compute(tensor) measures them."
             "\n\n"
             ">>> hurray.Statistics(has_nan=False, has_inf=False)\n"
             "Statistics(has_nan=False, has_inf=False)");

static PyMethodDef statistics_methods[] = {
    {"compute", statistics_compute, METH_O | METH_CLASS, compute_doc},
    SECTION_METHODS(statistics_restore)};

static PyGetSetDef statistics_getset[] = {
    {"computed_mask", get_computed_mask, NULL, "int: a bit for each group that is claimed.", NULL},
    VALUE_ATTRIBUTE("nnz", NNZ, "int: elements that are not zero; of a sparse layout, stored."),
    VALUE_ATTRIBUTE("sparsity_ratio", SPARSITY_RATIO, "float: the share of zeros, 0 to 1."),
    VALUE_ATTRIBUTE("value_min", VALUE_MIN, "float: the least value."),
    VALUE_ATTRIBUTE("value_max", VALUE_MAX, "float: the greatest value."),
    VALUE_ATTRIBUTE("value_abs_max", VALUE_ABS_MAX, "float: the greatest absolute value."),
    VALUE_ATTRIBUTE("value_mean", VALUE_MEAN, "float: the mean."),
    VALUE_ATTRIBUTE("value_stddev", VALUE_STDDEV, "float: the population's standard deviation."),
    VALUE_ATTRIBUTE("nm_n", NM_N, "int: at most this many non-zeros in each group of nm_m."),
    VALUE_ATTRIBUTE("nm_m", NM_M, "int: elements in a group of an n:m pattern."),
    VALUE_ATTRIBUTE("has_nan", HAS_NAN, "bool: a value is a NaN."),
    VALUE_ATTRIBUTE("has_inf", HAS_INF, "bool: a value is infinite."),
    {NULL, NULL, NULL, NULL, NULL},
};

SECTION_TYPE(statistics, "Statistics", statistics_doc, statistics_methods, statistics_getset);

/* ---- Shard ---- */

static const char *const shard_names[] = {"parent_shape", "shard_offset", NULL};
static const ValueForm shard_form = {"Shard", shard_names, NULL, false};
static const Signature shard_signature = {
    "Shard", {{"parent_shape", ARGUMENT_REQUIRED}, {"shard_offset", ARGUMENT_REQUIRED}}};

PyObject *shard_new(CoreState *state, const HurrayShard *shard, uint32_t rank) {
    PyObject *values = Py_BuildValue("(NN)", shape_tuple(shard->parent_shape, rank),
                                     shape_tuple(shard->shard_offset, rank));
    ValueObject *self = value_new(state->ShardType, &shard_form, values);
    if (self == NULL) return NULL;
    size_t size = rank * sizeof(uint64_t);
    self->kept = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(2 * size));
    if (self->kept == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    /* Bytes objects are aligned for that: their data stand behind a header of words. */
    uint64_t *extents = (uint64_t *)(void *)PyBytes_AS_STRING(self->kept);
    if (rank != 0) {
        memcpy(extents, shard->parent_shape, size);
        memcpy(extents + rank, shard->shard_offset, size);
    }
    self->shard = (HurrayShard){extents, extents + rank};
    self->rank = rank;
    return (PyObject *)self;
}

bool shard_for_rank(CoreState *state, PyObject *object, uint32_t rank, HurrayShard *out) {
    if (!Py_IS_TYPE(object, state->ShardType)) {
        PyErr_Format(PyExc_TypeError, "shard must be a hurray.Shard, not %.200s",
                     Py_TYPE(object)->tp_name);
        return false;
    }
    *out = value_of(object)->shard;
    if (value_of(object)->rank == rank) return true;
    PyErr_Format(state->InvalidDescriptorError,
                 "shard has %u dimensions; the tensor's shape has %u", value_of(object)->rank,
                 rank);
    return false;
}

/* As the box of no elements at that offset: what holds for any extents. */
static bool check_shard(CoreState *state, const HurrayShard *shard, uint32_t rank) {
    static const uint64_t nothing[HURRAY_MAX_RANK] = {0};
    const HurrayBufferHandle handle = {.byte_size = 1, .alignment = HURRAY_MIN_BUFFER_ALIGNMENT};
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = rank,
        .shape = nothing,
        .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
        .buffer_count = 1,
        .buffers = &handle,
        .shard = shard,
    };
    HurrayStatus status = hurray_descriptor_validate(&fields);
    if (status != HURRAY_OK) raise_status(state, status);
    return status == HURRAY_OK;
}

static PyObject *shard_from_values(CoreState *state, PyObject *const *values) {
    uint64_t parent[HURRAY_MAX_RANK], offset[HURRAY_MAX_RANK];
    uint32_t rank, offsets;
    if (!layout_read_u64s(state, values[0], "parent_shape", parent, &rank) ||
        !layout_read_u64s(state, values[1], "shard_offset", offset, &offsets)) {
        return NULL;
    }
    if (rank != offsets) {
        return PyErr_Format(state->InvalidDescriptorError,
                            "parent_shape has %u dimensions, shard_offset %u", rank, offsets);
    }
    const HurrayShard shard = {parent, offset};
    return check_shard(state, &shard, rank) ? shard_new(state, &shard, rank) : NULL;
}

static PyObject *shard_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *values[2];
    if (!arguments_parse_new(&shard_signature, args, kwargs, values)) return NULL;
    return shard_from_values(PyType_GetModuleState(type), values);
}

static PyObject *shard_restore(PyObject *type, PyObject *args) {
    return PyObject_Call(type, args, NULL);
}

PyDoc_STRVAR(
    shard_doc,
    "Shard(parent_shape, shard_offset)\n--\n\n"
    "The box of a larger tensor that a tensor is (spec 1.7): of parent_shape, at\n"
    "shard_offset, its own shape long. Sequences of ints, one per dimension, none dynamic.\n\n"
    "InvalidDescriptorError for different lengths and an offset outside of the parent."
    "\n\n"
    ">>> half = hurray.Shard(parent_shape=[4, 6], shard_offset=[2, 0])\n"
    ">>> hurray.Tensor(bytes(12), hurray.uint8, [2, 6], shard=half).shard\n"
    "Shard(parent_shape=(4, 6), shard_offset=(2, 0))");

static PyMethodDef shard_methods[] = {SECTION_METHODS(shard_restore)};

static PyGetSetDef shard_getset[] = {
    VALUE_ATTRIBUTE("parent_shape", 0, "tuple of int: extents of the larger tensor."),
    VALUE_ATTRIBUTE("shard_offset", 1, "tuple of int: where in it the box begins."),
    {NULL, NULL, NULL, NULL, NULL},
};

SECTION_TYPE(shard, "Shard", shard_doc, shard_methods, shard_getset);

/* ---- ExtensionType ---- */

enum {
    BIT_WIDTH,
    IS_FLOAT,
    IS_SIGNED,
    SIGN_BITS,
    EXPONENT_BITS,
    MANTISSA_BITS,
    EXPONENT_BIAS,
    TYPE_HAS_NAN,
    TYPE_HAS_INF,
    TYPE_VALUES
};

static const char *const type_names[] = {
    "bit_width",     "is_float",      "is_signed", "sign_bits", "exponent_bits",
    "mantissa_bits", "exponent_bias", "has_nan",   "has_inf",   NULL};
static const ValueForm type_form = {"ExtensionType", type_names, NULL, true};

static const Signature type_signature = {"ExtensionType",
                                         {{"bit_width", ARGUMENT_REQUIRED | ARGUMENT_KEYWORD_ONLY},
                                          {"is_float", ARGUMENT_KEYWORD_ONLY},
                                          {"is_signed", ARGUMENT_KEYWORD_ONLY},
                                          {"sign_bits", ARGUMENT_KEYWORD_ONLY},
                                          {"exponent_bits", ARGUMENT_KEYWORD_ONLY},
                                          {"mantissa_bits", ARGUMENT_KEYWORD_ONLY},
                                          {"exponent_bias", ARGUMENT_KEYWORD_ONLY},
                                          {"has_nan", ARGUMENT_KEYWORD_ONLY},
                                          {"has_inf", ARGUMENT_KEYWORD_ONLY}}};

PyObject *extension_type_new(CoreState *state, const HurrayExtensionType *t) {
    PyObject *values = Py_BuildValue(
        "(INNIIIINN)", t->bit_width, PyBool_FromLong(t->is_float), PyBool_FromLong(t->is_signed),
        (unsigned)t->sign_bits, (unsigned)t->exponent_bits, (unsigned)t->mantissa_bits,
        t->exponent_bias, PyBool_FromLong(t->has_nan), PyBool_FromLong(t->has_inf));
    ValueObject *self = value_new(state->ExtensionTypeType, &type_form, values);
    if (self != NULL) self->extension_type = *t;
    return (PyObject *)self;
}

bool extension_type_as_value(CoreState *state, PyObject *object, HurrayExtensionType *out) {
    if (!Py_IS_TYPE(object, state->ExtensionTypeType)) {
        PyErr_Format(PyExc_TypeError, "extension_type must be a hurray.ExtensionType, not %.200s",
                     Py_TYPE(object)->tp_name);
        return false;
    }
    *out = value_of(object)->extension_type;
    return true;
}

static bool read_flag(PyObject *value, bool *out) {
    int flag = argument_as_bool(value, 0);
    *out = flag > 0;
    return flag >= 0;
}

static bool read_bits(CoreState *state, PyObject *value, const char *name, uint8_t *out) {
    return value == NULL || read_u8(state, value, name, out);
}

static PyObject *extension_type_from_values(CoreState *state, PyObject *const *values) {
    HurrayExtensionType type = {0};
    if (!layout_read_u32(state, values[BIT_WIDTH], "bit_width", &type.bit_width) ||
        !read_flag(values[IS_FLOAT], &type.is_float) ||
        !read_flag(values[IS_SIGNED], &type.is_signed) ||
        !read_bits(state, values[SIGN_BITS], "sign_bits", &type.sign_bits) ||
        !read_bits(state, values[EXPONENT_BITS], "exponent_bits", &type.exponent_bits) ||
        !read_bits(state, values[MANTISSA_BITS], "mantissa_bits", &type.mantissa_bits) ||
        (values[EXPONENT_BIAS] != NULL &&
         !layout_read_u32(state, values[EXPONENT_BIAS], "exponent_bias", &type.exponent_bias)) ||
        !read_flag(values[TYPE_HAS_NAN], &type.has_nan) ||
        !read_flag(values[TYPE_HAS_INF], &type.has_inf)) {
        return NULL;
    }
    bool packs = type.bit_width > 0 && type.bit_width < 8;
    type.packing_factor = packs ? (uint8_t)(8 / type.bit_width) : 1;
    HurrayStatus status = hurray_extension_type_check(&type);
    return status == HURRAY_OK ? extension_type_new(state, &type) : raise_status(state, status);
}

static PyObject *extension_type_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *values[TYPE_VALUES];
    if (!arguments_parse_new(&type_signature, args, kwargs, values)) return NULL;
    return extension_type_from_values(PyType_GetModuleState(type), values);
}

static PyObject *extension_type_restore(PyObject *type, PyObject *args) {
    PyObject *values[TYPE_VALUES];
    if (PyTuple_GET_SIZE(args) != TYPE_VALUES) {
        return PyErr_Format(PyExc_TypeError, "_restore() takes %d values", TYPE_VALUES);
    }
    for (Py_ssize_t i = 0; i < TYPE_VALUES; i++) values[i] = PyTuple_GET_ITEM(args, i);
    return extension_type_from_values(PyType_GetModuleState((PyTypeObject *)type), values);
}

static PyObject *get_packing_factor(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromLong(value_of(self)->extension_type.packing_factor);
}

PyDoc_STRVAR(buffer_size_doc,
             "buffer_size_bytes($self, count, /)\n--\n\n"
             "Bytes of `count` packed elements (spec 1.3): ceil(count * bit_width / 8).\n\n"
             "InvalidDescriptorError when that is 2^64 or more."
             "\n\n"
             ">>> hurray.ExtensionType(bit_width=4).buffer_size_bytes(5)\n"
             "3");

static PyObject *buffer_size_bytes(PyObject *self, PyObject *argument) {
    CoreState *state = core_state_of(self);
    uint64_t count, bytes;
    if (!argument_as_u64(argument, "count", &count)) return NULL;
    HurrayPacking packing;
    HurrayStatus status =
        hurray_packing_from_bits(value_of(self)->extension_type.bit_width, &packing);
    if (status == HURRAY_OK) status = hurray_packing_size(packing, count, &bytes);
    if (status != HURRAY_OK) return raise_status(state, status);
    return PyLong_FromUnsignedLongLong(bytes);
}

PyDoc_STRVAR(type_doc,
             "ExtensionType(*, bit_width, is_float=False, is_signed=False, sign_bits=0,\n"
             "              exponent_bits=0, mantissa_bits=0, exponent_bias=0, has_nan=False,\n"
             "              has_inf=False)\n--\n\n"
             "A private element type (tags 0xF0 to 0xFE) described: enough to size it (spec 1.7).\n"
             "bit_width: 1, 2, 4 or a multiple of 8. is_signed is for integers, all that follows\n"
             "for floats. InvalidDescriptorError names the field that breaks a rule."
             "\n\n"
             ">>> e = hurray.ExtensionType(bit_width=4)\n"
             ">>> e.packing_factor\n"
             "2");

static PyMethodDef type_methods[] = {
    {"buffer_size_bytes", buffer_size_bytes, METH_O, buffer_size_doc},
    SECTION_METHODS(extension_type_restore)};

static PyGetSetDef type_getset[] = {
    VALUE_ATTRIBUTE("bit_width", BIT_WIDTH, "int: bits of an element."),
    {"packing_factor", get_packing_factor, NULL, "int: elements per byte below 8 bits, else 1.",
     NULL},
    VALUE_ATTRIBUTE("is_float", IS_FLOAT, "bool: a float; else an integer."),
    VALUE_ATTRIBUTE("is_signed", IS_SIGNED, "bool: a signed integer."),
    VALUE_ATTRIBUTE("sign_bits", SIGN_BITS, "int: 0 or 1, of a float."),
    VALUE_ATTRIBUTE("exponent_bits", EXPONENT_BITS, "int: of a float."),
    VALUE_ATTRIBUTE("mantissa_bits", MANTISSA_BITS, "int: of a float."),
    VALUE_ATTRIBUTE("exponent_bias", EXPONENT_BIAS, "int: of a float."),
    VALUE_ATTRIBUTE("has_nan", TYPE_HAS_NAN, "bool: the float type has NaNs."),
    VALUE_ATTRIBUTE("has_inf", TYPE_HAS_INF, "bool: the float type has infinities."),
    {NULL, NULL, NULL, NULL, NULL},
};

SECTION_TYPE(extension_type, "ExtensionType", type_doc, type_methods, type_getset);

/* ---- roles ---- */

/* By their numbers in the format. */
static const char *const roles[] = {
    [HURRAY_ROLE_CORRECTION] = "correction", [HURRAY_ROLE_BASE] = "base", NULL};

PyObject *member_role_new(const HurrayCompositeMember *member) {
    if (member == NULL) Py_RETURN_NONE;
    return PyUnicode_FromString(roles[member->role]);
}

bool member_role_as_value(PyObject *object, HurrayCompositeMember *out) {
    return layout_read_word(object, "member_role", roles, &out->role);
}

int sections_setup(PyObject *module, CoreState *state) {
    state->StatisticsType = core_add_type(module, &statistics_spec, NULL);
    if (state->StatisticsType == NULL) return -1;
    state->ShardType = core_add_type(module, &shard_spec, NULL);
    if (state->ShardType == NULL) return -1;
    state->ExtensionTypeType = core_add_type(module, &extension_type_spec, NULL);
    return state->ExtensionTypeType == NULL ? -1 : 0;
}
