/*
 * New tensors (spec 8.4): zeros, ones, empty, full and their twins with _like, arange, linspace, eye.
 * All of it works without NumPy, and gives what NumPy would.
 */
#include "construct.h"

#include <math.h>
#include <string.h>

#include "arguments.h"
#include "new_tensor.h"
#include "number.h"

/* ---- filling ---- */

/* Every element; `element` is as number_store wrote it. Large ones without the GIL. */
static void fill_elements(NewTensor *made, const void *element) {
    PyThreadState *saved = made->bytes < CORE_LARGE_COPY ? NULL : PyEval_SaveThread();
    if (made->type->tag != HURRAY_TYPE_BOOL) {
        number_fill(made->data, (size_t)made->count, element, number_size(made->type));
    } else if (made->count != 0) {
        bool truth = *(const uint8_t *)element != 0;
        memset(made->data, truth ? 0xFF : 0, (size_t)made->bytes);
        /* Unused bits of the last byte are zero. */
        unsigned used = (unsigned)(made->count % 8);
        if (truth && used != 0) made->data[made->bytes - 1] = (uint8_t)((1u << used) - 1);
    }
    if (saved != NULL) PyEval_RestoreThread(saved);
}

static PyObject *make_filled(CoreState *state, NewTensor *made, PyObject *value) {
    uint8_t element[16] = {0};
    if (!number_store(value, made->type, element)) return NULL;
    static const uint8_t zero[16] = {0};
    bool is_zero = memcmp(element, zero, sizeof zero) == 0; /* not -0.0, which has a bit set */
    if (!new_tensor_allocate(state, made, is_zero)) return NULL;
    if (!is_zero) fill_elements(made, element);
    return new_tensor_finish(state, made);
}

static PyObject *make_empty(CoreState *state, NewTensor *made) {
    if (!new_tensor_allocate(state, made, false)) return NULL;
    bool has_unused_bits = made->type->bits < 8 && made->bytes != 0;
    if (has_unused_bits) made->data[made->bytes - 1] = 0;
    return new_tensor_finish(state, made);
}

/* ---- zeros, ones, empty, full ---- */

/* What becomes of the elements; FULL has its value from the caller. */
typedef enum Contents {
    ZEROS,
    ONES,
    EMPTY,
    FULL
} Contents;

static PyObject *make(CoreState *state, NewTensor *made, Contents contents, PyObject *value) {
    if (contents == EMPTY) return make_empty(state, made);
    if (contents == FULL) return make_filled(state, made, value);
    return make_filled(state, made, contents == ONES ? Py_True : Py_False);
}

/* The dtype that a fill value asks for; 0 with TypeError for what is no number. */
static uint8_t type_of_value(const char *function, PyObject *value) {
    NumberKind kind = number_kind(value);
    if (kind == NUMBER_NONE) {
        PyErr_Format(PyExc_TypeError, "%s(): fill_value must be a number, not '%.200s'", function,
                     Py_TYPE(value)->tp_name);
        return 0;
    }
    if (kind == NUMBER_INT && number_needs_uint64(value)) return HURRAY_TYPE_UINT64;
    return number_type(kind);
}

static PyObject *create(PyObject *module, const char *function, Contents contents,
                        PyObject *const *values, PyObject *fill_value, PyObject *dtype,
                        PyObject *device) {
    CoreState *state = core_state_of_module(module);
    NewTensor made = {.function = function};
    uint8_t fallback = HURRAY_TYPE_FLOAT64;
    if (!new_tensor_set_shape(state, &made, values[0])) return NULL;
    if (fill_value != NULL && (fallback = type_of_value(function, fill_value)) == 0) return NULL;
    if (!new_tensor_set_type(state, &made, dtype, fallback) ||
        !new_tensor_check_device(state, function, device)) {
        return NULL;
    }
    return make(state, &made, contents, fill_value);
}

#define CREATION_TAIL                                                                        \
    "\n\ndtype is a standard type (others: UnsupportedError), device the CPU, device_id 0\n" \
    "(others: UnsupportedError). InvalidDescriptorError for a dynamic or negative extent, "  \
    "MemoryError for "                                                                       \
    "more\n"                                                                                 \
    "bytes than there are (spec 8.4)."

PyDoc_STRVAR(zeros_doc, "zeros($module, /, shape, *, dtype=None, device=None)\n--\n\n"
                        "A new row-major tensor of zeros, float64 by default. Large ones cost "
                        "nothing until touched." CREATION_TAIL "\n\n"
                        ">>> hurray.zeros((2, 3), dtype=hurray.int16)\n"
                        "hurray.Tensor([[0, 0, 0],\n"
                        "               [0, 0, 0]], dtype=int16)");

static PyObject *zeros(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                       PyObject *kwnames) {
    static const Signature signature = {"zeros",
                                        {{"shape", ARGUMENT_REQUIRED},
                                         {"dtype", ARGUMENT_KEYWORD_ONLY},
                                         {"device", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *values[3];
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    return create(module, "zeros", ZEROS, values, NULL, values[1], values[2]);
}

PyDoc_STRVAR(ones_doc, "ones($module, /, shape, *, dtype=None, device=None)\n--\n\n"
                       "A new row-major tensor of ones, float64 by default." CREATION_TAIL "\n\n"
                       ">>> hurray.ones(3)\n"
                       "hurray.Tensor([1., 1., 1.], dtype=float64)");

static PyObject *ones(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                      PyObject *kwnames) {
    static const Signature signature = {"ones",
                                        {{"shape", ARGUMENT_REQUIRED},
                                         {"dtype", ARGUMENT_KEYWORD_ONLY},
                                         {"device", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *values[3];
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    return create(module, "ones", ONES, values, NULL, values[1], values[2]);
}

PyDoc_STRVAR(empty_doc, "empty($module, /, shape, *, dtype=None, device=None)\n--\n\n"
                        "A new row-major tensor whose elements are whatever was in the memory, "
                        "float64 by default." CREATION_TAIL "\n\n"
                        ">>> hurray.empty((2, 3)).shape\n"
                        "(2, 3)");

static PyObject *empty(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                       PyObject *kwnames) {
    static const Signature signature = {"empty",
                                        {{"shape", ARGUMENT_REQUIRED},
                                         {"dtype", ARGUMENT_KEYWORD_ONLY},
                                         {"device", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *values[3];
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    return create(module, "empty", EMPTY, values, NULL, values[1], values[2]);
}

PyDoc_STRVAR(full_doc, "full($module, /, shape, fill_value, *, dtype=None, device=None)\n--\n\n"
                       "A new row-major tensor with the same number everywhere: bool, int64 "
                       "(uint64 where only that holds\n"
                       "it), float64 or complex128, as the number is. OverflowError where it does "
                       "not fit dtype, TypeError\n"
                       "for a complex number in a real type." CREATION_TAIL "\n\n"
                       ">>> hurray.full((2, 2), 7)\n"
                       "hurray.Tensor([[7, 7],\n"
                       "               [7, 7]], dtype=int64)");

static PyObject *full(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                      PyObject *kwnames) {
    static const Signature signature = {"full",
                                        {{"shape", ARGUMENT_REQUIRED},
                                         {"fill_value", ARGUMENT_REQUIRED},
                                         {"dtype", ARGUMENT_KEYWORD_ONLY},
                                         {"device", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *values[4];
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    return create(module, "full", FULL, values, values[1], values[2], values[3]);
}

/* ---- …_like ---- */

/* Shape and type of what a new tensor is to be like. */
static bool read_model(CoreState *state, PyObject *model, NewTensor *made, uint8_t *tag) {
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor_of(model));
    *tag = fields->type_tag;
    made->rank = fields->rank;
    for (uint32_t k = 0; k < fields->rank; k++) {
        made->shape[k] = fields->shape[k];
        if (fields->shape[k] != HURRAY_DYNAMIC) continue;
        PyErr_Format(state->InvalidDescriptorError,
                     "%s(): shape[%u] is dynamic; memory needs every extent", made->function, k);
        return false;
    }
    return true;
}

/* On the model's device, unless another one is named. */
static bool check_like_device(CoreState *state, const char *function, PyObject *model,
                              PyObject *device) {
    if (device == NULL && tensor_check(state, model)) device = ((TensorObject *)model)->device;
    return new_tensor_check_device(state, function, device);
}

static PyObject *create_like(PyObject *module, const char *function, Contents contents,
                             PyObject *model, PyObject *fill_value, PyObject *dtype,
                             PyObject *device) {
    CoreState *state = core_state_of_module(module);
    NewTensor made = {.function = function};
    uint8_t fallback = 0;
    bool known;
    if (tensor_check(state, model)) {
        known = read_model(state, model, &made, &fallback);
    } else if (numpy_is_array(state, model)) { /* without taking it in, which may copy it */
        known = numpy_describe_array(state, model, &fallback, &made.rank, made.shape);
    } else {
        model = asarray_object(state, model, NULL, HURRAY_COPY_IF_NEEDED);
        if (model == NULL) return NULL;
        known = read_model(state, model, &made, &fallback) &&
                check_like_device(state, function, model, device);
        Py_DECREF(model);
        model = Py_None;
    }
    if (!known || !check_like_device(state, function, model, device) ||
        !new_tensor_set_type(state, &made, dtype, fallback)) {
        return NULL;
    }
    return make(state, &made, contents, fill_value);
}

PyDoc_STRVAR(zeros_like_doc,
             "zeros_like($module, /, x, *, dtype=None, device=None)\n--\n\n"
             "zeros of the shape and dtype of x: a Tensor, or what asarray takes." CREATION_TAIL
             "\n\n"
             ">>> hurray.zeros_like(hurray.asarray([1, 2, 3]))\n"
             "hurray.Tensor([0, 0, 0], dtype=int64)");

static PyObject *zeros_like(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames) {
    static const Signature signature = {"zeros_like",
                                        {{"x", ARGUMENT_REQUIRED},
                                         {"dtype", ARGUMENT_KEYWORD_ONLY},
                                         {"device", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *values[3];
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    return create_like(module, "zeros_like", ZEROS, values[0], NULL, values[1], values[2]);
}

PyDoc_STRVAR(ones_like_doc,
             "ones_like($module, /, x, *, dtype=None, device=None)\n--\n\n"
             "ones of the shape and dtype of x: a Tensor, or what asarray takes." CREATION_TAIL
             "\n\n"
             ">>> hurray.ones_like(hurray.asarray([1, 2, 3]))\n"
             "hurray.Tensor([1, 1, 1], dtype=int64)");

static PyObject *ones_like(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames) {
    static const Signature signature = {"ones_like",
                                        {{"x", ARGUMENT_REQUIRED},
                                         {"dtype", ARGUMENT_KEYWORD_ONLY},
                                         {"device", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *values[3];
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    return create_like(module, "ones_like", ONES, values[0], NULL, values[1], values[2]);
}

PyDoc_STRVAR(empty_like_doc,
             "empty_like($module, /, x, *, dtype=None, device=None)\n--\n\n"
             "empty of the shape and dtype of x: a Tensor, or what asarray takes." CREATION_TAIL
             "\n\n"
             ">>> hurray.empty_like(hurray.ones((2, 3)), dtype=hurray.float16).dtype\n"
             "hurray.float16");

static PyObject *empty_like(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames) {
    static const Signature signature = {"empty_like",
                                        {{"x", ARGUMENT_REQUIRED},
                                         {"dtype", ARGUMENT_KEYWORD_ONLY},
                                         {"device", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *values[3];
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    return create_like(module, "empty_like", EMPTY, values[0], NULL, values[1], values[2]);
}

PyDoc_STRVAR(
    full_like_doc,
    "full_like($module, /, x, fill_value, *, dtype=None, device=None)\n--\n\n"
    "full of the shape and dtype of x: a Tensor, or what asarray takes. OverflowError where the "
    "number\n"
    "does not fit the dtype, TypeError for a complex number in a real type." CREATION_TAIL "\n\n"
    ">>> hurray.full_like(hurray.ones(3), 0.5)\n"
    "hurray.Tensor([0.5, 0.5, 0.5], dtype=float64)");

static PyObject *full_like(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames) {
    static const Signature signature = {"full_like",
                                        {{"x", ARGUMENT_REQUIRED},
                                         {"fill_value", ARGUMENT_REQUIRED},
                                         {"dtype", ARGUMENT_KEYWORD_ONLY},
                                         {"device", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *values[4];
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    return create_like(module, "full_like", FULL, values[0], values[1], values[2], values[3]);
}

/* ---- eye ---- */

/* The elements (i, i + k) that exist: the first one's linear index, and how many there are. */
static uint64_t find_diagonal(const NewTensor *made, int64_t k, uint64_t *first) {
    uint64_t rows = made->shape[0], columns = made->shape[1];
    uint64_t skipped = k < 0 ? (uint64_t)0 - (uint64_t)k : (uint64_t)k;
    uint64_t row = k < 0 ? skipped : 0, column = k < 0 ? 0 : skipped;
    if (row >= rows || column >= columns) return 0;
    *first = row * columns + column;
    return rows - row < columns - column ? rows - row : columns - column;
}

static PyObject *make_eye(CoreState *state, NewTensor *made, int64_t k) {
    uint8_t one[16] = {0};
    if (!number_store(Py_True, made->type, one) || !new_tensor_allocate(state, made, true)) {
        return NULL;
    }
    size_t size = number_size(made->type);
    uint64_t place = 0, length = find_diagonal(made, k, &place);
    for (uint64_t i = 0; i < length; i++, place += made->shape[1] + 1) {
        if (made->type->tag == HURRAY_TYPE_BOOL) {
            made->data[place / 8] = (uint8_t)(made->data[place / 8] | 1u << place % 8);
        } else {
            memcpy(made->data + place * size, one, size);
        }
    }
    return new_tensor_finish(state, made);
}

/* A number of rows or columns. */
static bool read_extent(CoreState *state, const char *name, PyObject *object, uint64_t *out) {
    if (!PyIndex_Check(object)) {
        PyErr_Format(PyExc_TypeError, "eye(): %s must be an int, not '%.200s'", name,
                     Py_TYPE(object)->tp_name);
        return false;
    }
    if (argument_as_u64(object, name, out) && *out != HURRAY_DYNAMIC) return true;
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_OverflowError)) return false;
    PyErr_Clear();
    argument_refuse(state->InvalidDescriptorError, name, object, "0 to 2**64 - 2");
    return false;
}

/* A diagonal further off than int64_t is outside all the same: it is clipped. */
static bool read_diagonal(PyObject *object, int64_t *out) {
    int overflow = 0;
    *out = 0;
    if (object != NULL && !argument_as_i64(object, "k", out, &overflow)) return false;
    if (overflow != 0) *out = overflow < 0 ? INT64_MIN : INT64_MAX;
    return true;
}

PyDoc_STRVAR(eye_doc,
             "eye($module, /, n_rows, n_cols=None, *, k=0, dtype=None, device=None)\n--\n\n"
             "A new tensor [n_rows, n_cols] (square by default) with ones on diagonal k, above the "
             "main one where\n"
             "k > 0, and zeros elsewhere; float64 by default." CREATION_TAIL "\n\n"
             ">>> hurray.eye(2, 3, k=1)\n"
             "hurray.Tensor([[0., 1., 0.],\n"
             "               [0., 0., 1.]], dtype=float64)");

static PyObject *eye(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    static const Signature signature = {"eye",
                                        {{"n_rows", ARGUMENT_REQUIRED},
                                         {"n_cols", 0},
                                         {"k", ARGUMENT_KEYWORD_ONLY},
                                         {"dtype", ARGUMENT_KEYWORD_ONLY},
                                         {"device", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *values[5];
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    CoreState *state = core_state_of_module(module);
    NewTensor made = {.function = "eye", .rank = 2};
    int64_t k;
    if (!read_diagonal(values[2], &k) || !read_extent(state, "n_rows", values[0], &made.shape[0]) ||
        !read_extent(state, "n_cols", values[1] == NULL ? values[0] : values[1], &made.shape[1]) ||
        !new_tensor_set_type(state, &made, values[3], HURRAY_TYPE_FLOAT64) ||
        !new_tensor_check_device(state, "eye", values[4])) {
        return NULL;
    }
    return make_eye(state, &made, k);
}

/* ---- arange ---- */

/*
 * The first two elements as numbers. Like NumPy, the rest is then counted in the precision of the
 * type (of float for the 16-bit ones) from these two, once they are rounded to it.
 */
typedef struct Progression {
    double first, second;
} Progression;

/* Elements i ≥ 2 every `stride` places; a complex array has two of these. */
static void count_doubles(double *elements, size_t stride, uint64_t count, Progression p) {
    double step = p.second - p.first;
    for (uint64_t i = 0; i < count; i++) {
        elements[i * stride] = i == 0 ? p.first : i == 1 ? p.second : p.first + (double)i * step;
    }
}

static void count_floats(float *elements, size_t stride, uint64_t count, Progression p) {
    float first = (float)p.first, second = (float)p.second, step = second - first;
    for (uint64_t i = 0; i < count; i++) {
        elements[i * stride] = i == 0 ? first : i == 1 ? second : first + (float)i * step;
    }
}

static void count_narrow(uint16_t *elements, uint64_t count, Progression p,
                         uint16_t (*narrow)(double), float (*widen)(uint16_t)) {
    float first = widen(narrow(p.first)), second = widen(narrow(p.second)), step = second - first;
    for (uint64_t i = 0; i < count; i++) {
        float value = i == 0 ? first : i == 1 ? second : first + (float)i * step;
        elements[i] = narrow((double)value);
    }
}

static void count_up(NewTensor *made, Progression real, Progression imaginary) {
    void *data = made->data;
    uint64_t count = made->count;
    PyThreadState *saved = made->bytes < CORE_LARGE_COPY ? NULL : PyEval_SaveThread();
    switch (made->type->tag) {
    case HURRAY_TYPE_FLOAT16:
        count_narrow(data, count, real, number_to_half, number_from_half);
        break;
    case HURRAY_TYPE_BFLOAT16:
        count_narrow(data, count, real, number_to_bfloat16, number_from_bfloat16);
        break;
    case HURRAY_TYPE_FLOAT32: count_floats(data, 1, count, real); break;
    case HURRAY_TYPE_COMPLEX64:
        count_floats(data, 2, count, real);
        count_floats((float *)data + 1, 2, count, imaginary);
        break;
    case HURRAY_TYPE_COMPLEX128:
        count_doubles(data, 2, count, real);
        count_doubles((double *)data + 1, 2, count, imaginary);
        break;
    default: count_doubles(data, 1, count, real); break;
    }
    if (saved != NULL) PyEval_RestoreThread(saved);
}

/* A whole number of a floating-point computation as an element. OverflowError naming the dtype. */
static bool store_whole(const NewTensor *made, uint64_t index, double whole) {
    const HurrayElementType *type = made->type;
    double span = ldexp(1.0, type->bits - (type->is_signed ? 1 : 0));
    double lowest = type->is_signed ? -span : 0.0;
    if (!(whole >= lowest && whole < span)) {
        PyErr_Format(PyExc_OverflowError, "%s(): an element is out of range for %s", made->function,
                     type->name);
        return false;
    }
    /* Modulo 2^64, so that one conversion serves all widths. */
    uint64_t bits = whole < 0 ? (uint64_t)(int64_t)whole : (uint64_t)whole;
    size_t size = type->bits / 8u;
    uint8_t *element = made->data + index * size;
    switch (size) {
    case 1: *element = (uint8_t)bits; break;
    case 2: memcpy(element, &(uint16_t){(uint16_t)bits}, 2); break;
    case 4: memcpy(element, &(uint32_t){(uint32_t)bits}, 4); break;
    default: memcpy(element, &bits, 8); break;
    }
    return true;
}

/* first + i · step modulo 2^64: the ends are known to fit, so that everything between does. */
static void count_integers(NewTensor *made, uint64_t first, uint64_t step) {
    PyThreadState *saved = made->bytes < CORE_LARGE_COPY ? NULL : PyEval_SaveThread();
    uint64_t value = first;
    for (uint64_t i = 0; i < made->count; i++, value += step) {
        switch (made->type->bits) {
        case 8: made->data[i] = (uint8_t)value; break;
        case 16: ((uint16_t *)(void *)made->data)[i] = (uint16_t)value; break;
        case 32: ((uint32_t *)(void *)made->data)[i] = (uint32_t)value; break;
        default: ((uint64_t *)(void *)made->data)[i] = value; break;
        }
    }
    if (saved != NULL) PyEval_RestoreThread(saved);
}

typedef struct Range {
    PyObject *start, *stop, *step; /* borrowed */
    NumberKind kind;
    PyObject *dtype; /* NULL: by kind */
} Range;

/* From a length as a number: UINT64_MAX − 1 at most, which no memory holds. */
static bool set_length(NewTensor *made, double length) {
    if (!(length < 0x1p63)) {
        if (isfinite(length)) {
            PyErr_NoMemory();
        } else {
            PyErr_SetString(PyExc_ValueError,
                            "arange(): start, stop and step lead to no finite length");
        }
        return false;
    }
    made->shape[0] = length > 0 ? (uint64_t)ceil(length) : 0;
    return true;
}

static bool refuse_zero_step(void) {
    PyErr_SetString(PyExc_ValueError, "arange(): step must not be zero");
    return false;
}

/* ceil((stop − start) / step), exactly: −((start − stop) // step). */
static bool integer_length(const Range *range, NewTensor *made) {
    int moving = PyObject_IsTrue(range->step);
    if (moving < 0) return false;
    if (moving == 0) return refuse_zero_step();
    PyObject *distance = PyNumber_Subtract(range->start, range->stop);
    PyObject *steps = distance == NULL ? NULL : PyNumber_FloorDivide(distance, range->step);
    PyObject *length = steps == NULL ? NULL : PyNumber_Negative(steps);
    bool ok = false;
    if (length != NULL) {
        int overflow = 0;
        long long value = PyLong_AsLongLongAndOverflow(length, &overflow);
        ok = overflow <= 0;
        if (!ok) PyErr_NoMemory();
        made->shape[0] = overflow == 0 && value > 0 ? (uint64_t)value : 0;
    }
    Py_XDECREF(length);
    Py_XDECREF(steps);
    Py_XDECREF(distance);
    return ok;
}

/* start + index · step, of ints; a new reference. */
static PyObject *integer_at(const Range *range, uint64_t index) {
    PyObject *factor = PyLong_FromUnsignedLongLong(index);
    PyObject *distance = factor == NULL ? NULL : PyNumber_Multiply(factor, range->step);
    PyObject *value = distance == NULL ? NULL : PyNumber_Add(range->start, distance);
    Py_XDECREF(factor);
    Py_XDECREF(distance);
    return value;
}

/* int64, or uint64 where only that holds both ends. */
static uint8_t integer_range_type(const Range *range, PyObject *last) {
    bool start_huge = number_needs_uint64(range->start), last_huge = number_needs_uint64(last);
    int negative = PyObject_RichCompareBool(start_huge ? last : range->start, Py_False, Py_LT);
    if (negative < 0) PyErr_Clear();
    return (start_huge || last_huge) && negative == 0 ? HURRAY_TYPE_UINT64 : HURRAY_TYPE_INT64;
}

static PyObject *arange_of_integers(CoreState *state, const Range *range, NewTensor *made,
                                    PyObject *last) {
    if (!new_tensor_set_type(state, made, range->dtype, integer_range_type(range, last))) {
        return NULL;
    }
    if (made->type->is_integer) {
        uint8_t scratch[8];
        bool fits = made->shape[0] == 0 || (number_store(range->start, made->type, scratch) &&
                                            number_store(last, made->type, scratch));
        if (!fits || !new_tensor_allocate(state, made, false)) return NULL;
        count_integers(made, PyLong_AsUnsignedLongLongMask(range->start),
                       PyLong_AsUnsignedLongLongMask(range->step));
    } else {
        double first = PyLong_AsDouble(range->start), step = PyLong_AsDouble(range->step);
        if (PyErr_Occurred() || !new_tensor_allocate(state, made, false)) return NULL;
        count_up(made, (Progression){first, first + step}, (Progression){0, 0});
    }
    return new_tensor_finish(state, made);
}

/* As NumPy has it, a distance too small for the quotient still is a step, if not backwards. */
static double quotient(double distance, double step) {
    double steps = distance / step;
    return steps == 0.0 && distance != 0.0 && !signbit(steps) ? 1.0 : steps;
}

static PyObject *arange_of_floats(CoreState *state, const Range *range, NewTensor *made) {
    double start = PyFloat_AsDouble(range->start);
    double stop = PyErr_Occurred() ? 0 : PyFloat_AsDouble(range->stop);
    double step = PyErr_Occurred() ? 0 : PyFloat_AsDouble(range->step);
    if (PyErr_Occurred()) return NULL;
    if (step == 0.0 && !refuse_zero_step()) return NULL;
    if (!set_length(made, quotient(stop - start, step)) ||
        !new_tensor_set_type(state, made, range->dtype, HURRAY_TYPE_FLOAT64) ||
        !new_tensor_allocate(state, made, false)) {
        return NULL;
    }
    if (!made->type->is_integer) {
        count_up(made, (Progression){start, start + step}, (Progression){0, 0});
        return new_tensor_finish(state, made);
    }
    for (uint64_t i = 0; i < made->count; i++) {
        double value = trunc(start + (double)i * step);
        if (!store_whole(made, i, value)) return new_tensor_abandon(made);
    }
    return new_tensor_finish(state, made);
}

/* As many steps as lead along from start to stop: the real part of (stop − start) / step. */
static PyObject *arange_of_complex(CoreState *state, const Range *range, NewTensor *made) {
    Py_complex zero = {0, 0};
    Py_complex start = PyComplex_AsCComplex(range->start);
    Py_complex stop = PyErr_Occurred() ? zero : PyComplex_AsCComplex(range->stop);
    Py_complex step = PyErr_Occurred() ? zero : PyComplex_AsCComplex(range->step);
    if (PyErr_Occurred()) return NULL;
    double square = step.real * step.real + step.imag * step.imag;
    if (square == 0.0 && !refuse_zero_step()) return NULL;
    double along = (stop.real - start.real) * step.real + (stop.imag - start.imag) * step.imag;
    if (!set_length(made, along / square) ||
        !new_tensor_set_type(state, made, range->dtype, HURRAY_TYPE_COMPLEX128)) {
        return NULL;
    }
    if (!made->type->is_complex) {
        PyErr_Format(PyExc_TypeError, "arange(): %s takes no complex number", made->type->name);
        return NULL;
    }
    if (!new_tensor_allocate(state, made, false)) return NULL;
    count_up(made, (Progression){start.real, start.real + step.real},
             (Progression){start.imag, start.imag + step.imag});
    return new_tensor_finish(state, made);
}

/* With integers made ints of Python's own, which the arithmetic relies on. */
static PyObject *arange_exactly(CoreState *state, Range *range, NewTensor *made) {
    PyObject *start = PyNumber_Index(range->start);
    PyObject *stop = start == NULL ? NULL : PyNumber_Index(range->stop);
    PyObject *step = stop == NULL ? NULL : PyNumber_Index(range->step);
    PyObject *result = NULL;
    if (step != NULL) {
        Range exact = {start, stop, step, range->kind, range->dtype};
        if (integer_length(&exact, made)) {
            PyObject *last = integer_at(&exact, made->shape[0] == 0 ? 0 : made->shape[0] - 1);
            if (last != NULL) result = arange_of_integers(state, &exact, made, last);
            Py_XDECREF(last);
        }
    }
    Py_XDECREF(start);
    Py_XDECREF(stop);
    Py_XDECREF(step);
    return result;
}

/* The widest kind among arguments that may be absent; NUMBER_NONE with TypeError. */
static NumberKind common_kind(const char *function, PyObject *const *values, size_t count) {
    NumberKind common = NUMBER_BOOL;
    for (size_t i = 0; i < count; i++) {
        if (values[i] == NULL) continue;
        NumberKind kind = number_kind(values[i]);
        if (kind == NUMBER_NONE) {
            PyErr_Format(PyExc_TypeError, "%s() takes numbers, not '%.200s'", function,
                         Py_TYPE(values[i])->tp_name);
            return NUMBER_NONE;
        }
        if (kind > common) common = kind;
    }
    return common;
}

static PyObject *make_arange(CoreState *state, Range *range) {
    NewTensor made = {.function = "arange", .rank = 1};
    uint8_t tag;
    if (range->dtype != NULL) {
        if (!dtype_as_tag(state, range->dtype, "dtype", &tag)) return NULL;
        if (tag == HURRAY_TYPE_BOOL) {
            PyErr_SetString(state->UnsupportedError, "arange() does not count in bool");
            return NULL;
        }
    }
    switch (range->kind) {
    case NUMBER_COMPLEX: return arange_of_complex(state, range, &made);
    case NUMBER_FLOAT: return arange_of_floats(state, range, &made);
    default: return arange_exactly(state, range, &made);
    }
}

PyDoc_STRVAR(arange_doc,
             "arange($module, /, start, stop=None, step=None, *, dtype=None, device=None)\n--\n\n"
             "A new 1-D tensor start, start + step, … before stop; arange(n) counts from 0. int64 "
             "(uint64 where\n"
             "only that holds the ends), float64 or complex128, as the arguments are. ceil((stop - "
             "start) / step)\n"
             "elements, of which complex numbers count the real part.\n\n"
             "ValueError for a step of 0 and for a length that is not finite, OverflowError where "
             "an element does\n"
             "not fit dtype. bool is not counted in (UnsupportedError)." CREATION_TAIL "\n\n"
             ">>> hurray.arange(4)\n"
             "hurray.Tensor([0, 1, 2, 3], dtype=int64)\n"
             ">>> hurray.arange(1, 2, 0.25)\n"
             "hurray.Tensor([1.  , 1.25, 1.5 , 1.75], dtype=float64)");

static PyObject *arange(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames) {
    static const Signature signature = {"arange",
                                        {{"start", ARGUMENT_REQUIRED},
                                         {"stop", 0},
                                         {"step", 0},
                                         {"dtype", ARGUMENT_KEYWORD_ONLY},
                                         {"device", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *values[5];
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    CoreState *state = core_state_of_module(module);
    if (!new_tensor_check_device(state, "arange", values[4])) return NULL;
    Range range = {.kind = common_kind("arange", values, 3), .dtype = values[3]};
    if (range.kind == NUMBER_NONE) return NULL;
    bool only_stop = values[1] == NULL;
    range.start = only_stop ? Py_False : values[0];
    range.stop = only_stop ? values[0] : values[1];
    range.step = values[2] == NULL ? Py_True : values[2];
    return make_arange(state, &range);
}

/* ---- linspace ---- */

typedef struct Span {
    double start, stop;
    uint64_t steps; /* from start to stop */
    bool endpoint;
} Span;

/* Element `index`, in the order of operations NumPy has. */
static double span_at(const Span *span, uint64_t count, uint64_t index) {
    if (span->endpoint && count > 1 && index == count - 1) return span->stop;
    double delta = span->stop - span->start;
    if (span->steps == 0) return (double)index * delta + span->start;
    double step = delta / (double)span->steps;
    if (step == 0.0) return (double)index / (double)span->steps * delta + span->start;
    return (double)index * step + span->start;
}

static bool store_span_element(const NewTensor *made, uint64_t index, double real,
                               double imaginary) {
    uint8_t *element = made->data + index * number_size(made->type);
    switch (made->type->tag) {
    case HURRAY_TYPE_BOOL:
        if (real == 0.0 && imaginary == 0.0) return true; /* NaN is true, as in NumPy */
        made->data[index / 8] = (uint8_t)(made->data[index / 8] | 1u << index % 8);
        return true;
    case HURRAY_TYPE_FLOAT16: memcpy(element, &(uint16_t){number_to_half(real)}, 2); return true;
    case HURRAY_TYPE_BFLOAT16:
        memcpy(element, &(uint16_t){number_to_bfloat16(real)}, 2);
        return true;
    case HURRAY_TYPE_FLOAT32: memcpy(element, &(float){(float)real}, 4); return true;
    case HURRAY_TYPE_FLOAT64: memcpy(element, &real, 8); return true;
    case HURRAY_TYPE_COMPLEX64:
        memcpy(element, &(float[2]){(float)real, (float)imaginary}, 8);
        return true;
    case HURRAY_TYPE_COMPLEX128: memcpy(element, &(double[2]){real, imaginary}, 16); return true;
    default: return store_whole(made, index, floor(real));
    }
}

static PyObject *make_linspace(CoreState *state, NewTensor *made, const Span *real,
                               const Span *imaginary) {
    if (!new_tensor_allocate(state, made, made->type->tag == HURRAY_TYPE_BOOL)) return NULL;
    for (uint64_t i = 0; i < made->count; i++) {
        double re = span_at(real, made->count, i);
        double im = made->type->is_complex ? span_at(imaginary, made->count, i) : 0.0;
        if (!store_span_element(made, i, re, im)) return new_tensor_abandon(made);
        if ((i & 0xFFFFF) == 0xFFFFF && PyErr_CheckSignals() < 0) return new_tensor_abandon(made);
    }
    return new_tensor_finish(state, made);
}

static bool read_num(PyObject *object, uint64_t *out) {
    int64_t value;
    int overflow;
    if (!argument_as_i64(object, "num", &value, &overflow)) return false;
    if (overflow > 0) {
        PyErr_NoMemory();
        return false;
    }
    if (overflow < 0 || value < 0) {
        PyErr_SetString(PyExc_ValueError, "linspace(): num must not be negative");
        return false;
    }
    *out = (uint64_t)value;
    return true;
}

PyDoc_STRVAR(
    linspace_doc,
    "linspace($module, /, start, stop, num, *, endpoint=True, dtype=None, device=None)\n--\n\n"
    "A new 1-D tensor of num numbers at equal distances from start to stop, or just short of it "
    "with\n"
    "endpoint=False; float64, or complex128 where start or stop is complex. Rounded down in "
    "integer\n"
    "types (OverflowError out of range). ValueError for a negative num." CREATION_TAIL "\n\n"
    ">>> hurray.linspace(0, 1, 5)\n"
    "hurray.Tensor([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float64)");

static PyObject *linspace(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                          PyObject *kwnames) {
    enum {
        START,
        STOP,
        NUM,
        ENDPOINT,
        DTYPE,
        DEVICE,
        ARGUMENT_COUNT
    };
    static const Signature signature = {"linspace",
                                        {{"start", ARGUMENT_REQUIRED},
                                         {"stop", ARGUMENT_REQUIRED},
                                         {"num", ARGUMENT_REQUIRED},
                                         {"endpoint", ARGUMENT_KEYWORD_ONLY},
                                         {"dtype", ARGUMENT_KEYWORD_ONLY},
                                         {"device", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *values[ARGUMENT_COUNT];
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    CoreState *state = core_state_of_module(module);
    NewTensor made = {.function = "linspace", .rank = 1};
    NumberKind kind = common_kind("linspace", values, 2);
    uint8_t fallback = kind == NUMBER_COMPLEX ? HURRAY_TYPE_COMPLEX128 : HURRAY_TYPE_FLOAT64;
    int endpoint = argument_as_bool(values[ENDPOINT], 1);
    if (kind == NUMBER_NONE || endpoint < 0 || !read_num(values[NUM], &made.shape[0]) ||
        !new_tensor_set_type(state, &made, values[DTYPE], fallback) ||
        !new_tensor_check_device(state, "linspace", values[DEVICE])) {
        return NULL;
    }
    if (kind == NUMBER_COMPLEX && !made.type->is_complex) {
        PyErr_Format(PyExc_TypeError, "linspace(): %s takes no complex number", made.type->name);
        return NULL;
    }
    Py_complex start = PyComplex_AsCComplex(values[START]);
    Py_complex stop = PyErr_Occurred() ? start : PyComplex_AsCComplex(values[STOP]);
    if (PyErr_Occurred()) return NULL;
    uint64_t num = made.shape[0];
    uint64_t steps = endpoint && num > 0 ? num - 1 : num;
    Span real = {start.real, stop.real, steps, endpoint != 0};
    Span imaginary = {start.imag, stop.imag, steps, endpoint != 0};
    return make_linspace(state, &made, &real, &imaginary);
}

/* ---- setup ---- */

#define FUNCTION(name) {#name, CORE_METHOD(name), METH_FASTCALL | METH_KEYWORDS, name##_doc}

static PyMethodDef functions[] = {
    FUNCTION(zeros),      FUNCTION(ones),      FUNCTION(empty),      FUNCTION(full),
    FUNCTION(zeros_like), FUNCTION(ones_like), FUNCTION(empty_like), FUNCTION(full_like),
    FUNCTION(arange),     FUNCTION(linspace),  FUNCTION(eye),        {NULL, NULL, 0, NULL},
};

int construct_setup(PyObject *module, CoreState *state) {
    (void)state;
    if (PyModule_AddFunctions(module, functions) < 0) return -1;
    return PyModule_AddFunctions(module, asarray_functions);
}
