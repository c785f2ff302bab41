/*
 * asarray (spec 8.4): a Tensor of anything that holds numbers. Each protocol is tried in the order of
 * how much it says and how little it costs.
 */
#include <string.h>

#include "arguments.h"
#include "construct.h"
#include "new_tensor.h"
#include "number.h"

/* ---- one protocol each ---- */

static PyObject *copy_of_tensor(CoreState *state, PyObject *object) {
    HurrayStatus status = hurray_tensor_check_readable(tensor_of(object), false);
    if (status != HURRAY_OK) return raise_status(state, status);
    return tensor_deep_copy(state, tensor_of(object));
}

/* Whether type(object) has an attribute. */
static bool has_method(PyObject *object, PyObject *name) {
    return PyObject_HasAttr((PyObject *)Py_TYPE(object), name);
}

static bool has_array_protocol(CoreState *state, PyObject *object) {
    return has_method(object, state->names.__array__) ||
           has_method(object, state->names.__array_interface__) ||
           /* Some set the interface on the object, and __array_struct__ is for NumPy alone. */
           PyObject_HasAttr(object, state->names.__array_interface__) ||
           PyObject_HasAttrString(object, "__array_struct__");
}

/*
 * A protocol failed with `refusal`, its own word for "this I cannot carry". Clears that where the
 * object speaks another one, and leaves the exception otherwise.
 */
static void try_another(CoreState *state, PyObject *object, PyObject *refusal, bool has_another) {
    if (!PyErr_ExceptionMatches(refusal)) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback); /* looking for attributes would lose it */
    if (has_another || has_array_protocol(state, object)) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    } else {
        PyErr_Restore(type, value, traceback);
    }
}

/* NULL without an exception where there is another protocol to try. */
static PyObject *through_dlpack(CoreState *state, PyObject *object, PyObject *device,
                                HurrayCopy copy) {
    PyObject *tensor = tensor_from_dlpack(state, object, device, copy);
    if (tensor == NULL) {
        try_another(state, object, PyExc_BufferError, PyObject_CheckBuffer(object));
    }
    return tensor;
}

/* NULL without an exception where there is another protocol to try. */
static PyObject *through_hurray(CoreState *state, PyObject *object, HurrayCopy copy) {
    bool has_another = dlpack_is_producer(state, object) || PyObject_CheckBuffer(object);
    PyObject *tensor = tensor_from_hurray(state, object);
    if (tensor != NULL && copy == HURRAY_COPY_ALWAYS) {
        PyObject *made = copy_of_tensor(state, tensor);
        Py_DECREF(tensor);
        return made;
    }
    if (tensor == NULL) try_another(state, object, state->UnsupportedError, has_another);
    if (tensor == NULL && PyErr_Occurred()) {
        try_another(state, object, state->BufferError, has_another);
    }
    return tensor;
}

/* NULL without an exception where there is another protocol to try. */
static PyObject *through_buffer(CoreState *state, PyObject *object, HurrayCopy copy) {
    PyObject *tensor = tensor_from_buffer(state, object, copy);
    if (tensor == NULL) try_another(state, object, state->UnsupportedError, false);
    return tensor;
}

/* Numbers and nested sequences of them, which are always copied. */
static PyObject *from_numbers(CoreState *state, PyObject *object, PyObject *dtype,
                              HurrayCopy copy) {
    if (copy == HURRAY_COPY_NEVER) {
        PyErr_Format(state->CopyRequiredError,
                     "asarray() copies the numbers of '%.200s', and copy=False forbids it",
                     Py_TYPE(object)->tp_name);
        return NULL;
    }
    return tensor_from_nested(state, object, dtype);
}

static PyObject *refuse_object(PyObject *object) {
    return PyErr_Format(PyExc_TypeError, "asarray() takes arrays and numbers, not '%.200s'",
                        Py_TYPE(object)->tp_name);
}

/* What no array protocol describes; a `dtype` (or NULL) is obeyed at once. */
static PyObject *from_plain(CoreState *state, PyObject *object, PyObject *dtype, HurrayCopy copy) {
    if (nested_is_sequence(state, object) || number_kind(object) != NUMBER_NONE) {
        return from_numbers(state, object, dtype, copy);
    }
    return refuse_object(object);
}

/* Any object but a plain one: NULL without an exception where it speaks no protocol. */
static PyObject *through_protocol(CoreState *state, PyObject *object, PyObject *device,
                                  HurrayCopy copy) {
    if (tensor_check(state, object)) {
        return copy == HURRAY_COPY_ALWAYS ? copy_of_tensor(state, object) : Py_NewRef(object);
    }
    if (numpy_is_array(state, object)) return tensor_from_array(state, object, copy);
    if (has_method(object, state->names.__hurray__)) {
        PyObject *tensor = through_hurray(state, object, copy);
        if (tensor != NULL || PyErr_Occurred()) return tensor;
    }
    if (dlpack_is_producer(state, object)) {
        PyObject *tensor = through_dlpack(state, object, device, copy);
        if (tensor != NULL || PyErr_Occurred()) return tensor;
    }
    /* Memory comes before NumPy, which may be missing; what it cannot type may know NumPy. Scalars of
     * NumPy do, and some of them export plain bytes. */
    if (PyObject_CheckBuffer(object) && !numpy_is_scalar(state, object)) {
        PyObject *tensor = through_buffer(state, object, copy);
        if (tensor != NULL || PyErr_Occurred()) return tensor;
    }
    if (PyUnicode_Check(object) || !has_array_protocol(state, object)) return NULL;
    return tensor_through_numpy(state, object, copy);
}

/* Whether an object can be nothing but numbers: asked first, because it is the common case. */
static bool is_plain(PyObject *object) {
    return PyList_CheckExact(object) || PyTuple_CheckExact(object) || PyLong_CheckExact(object) ||
           PyFloat_CheckExact(object) || PyBool_Check(object) || PyComplex_CheckExact(object);
}

/* ---- dtype and device ---- */

static PyObject *convert(CoreState *state, PyObject *tensor, uint8_t tag, HurrayCopy copy) {
    const HurrayElementType *from =
        hurray_element_type_from_tag(hurray_tensor_fields(tensor_of(tensor))->type_tag);
    const HurrayElementType *to = hurray_element_type_from_tag(tag);
    if (from == NULL || to == NULL) {
        PyErr_SetString(state->UnsupportedError, "asarray() converts no private types");
        return NULL;
    }
    if (copy == HURRAY_COPY_NEVER) {
        PyErr_Format(state->CopyRequiredError,
                     "converting %s to %s needs a copy, and copy=False forbids it", from->name,
                     to->name);
        return NULL;
    }
    if (from->is_complex && !to->is_complex && to->tag != HURRAY_TYPE_BOOL) {
        PyErr_Format(PyExc_TypeError, "asarray(): %s takes no complex numbers", to->name);
        return NULL;
    }
    return tensor_cast(state, tensor, tag);
}

/* `dtype` is known to be a Dtype. */
static bool has_type(CoreState *state, PyObject *tensor, PyObject *dtype) {
    uint8_t tag = hurray_tensor_fields(tensor_of(tensor))->type_tag;
    return state->dtypes[tag] == dtype;
}

/* The tensor as the caller wants it. Steals `tensor`. */
static PyObject *with_type(CoreState *state, PyObject *tensor, PyObject *dtype, HurrayCopy copy) {
    uint8_t tag;
    if (has_type(state, tensor, dtype)) return tensor;
    PyObject *result = NULL;
    if (dtype_as_tag(state, dtype, "dtype", &tag)) result = convert(state, tensor, tag, copy);
    Py_DECREF(tensor);
    return result;
}

static bool check_device(CoreState *state, PyObject *tensor, PyObject *device) {
    HurrayDevice wanted, is = hurray_tensor_device(tensor_of(tensor));
    if (!device_as_value(state, device, "device", &wanted)) return false;
    if (wanted.tag == is.tag && wanted.memory_class == is.memory_class &&
        wanted.device_id == is.device_id) {
        return true;
    }
    PyErr_Format(state->UnsupportedError,
                 "asarray() moves nothing between devices: the elements are on %R, not on %R",
                 ((TensorObject *)tensor)->device, device);
    return false;
}

PyObject *asarray_object(CoreState *state, PyObject *object, PyObject *device, HurrayCopy copy) {
    if (is_plain(object)) return from_numbers(state, object, NULL, copy);
    PyObject *tensor = through_protocol(state, object, device, copy);
    if (tensor != NULL || PyErr_Occurred()) return tensor;
    return from_plain(state, object, NULL, copy);
}

static PyObject *make_asarray(CoreState *state, PyObject *object, PyObject *dtype, PyObject *device,
                              HurrayCopy copy) {
    if (is_plain(object)) return from_numbers(state, object, dtype, copy);
    /* A Tensor of another dtype is copied by the cast, and need not be before. */
    bool cast_copies = dtype != NULL && copy == HURRAY_COPY_ALWAYS && tensor_check(state, object) &&
                       !has_type(state, object, dtype);
    PyObject *tensor =
        through_protocol(state, object, device, cast_copies ? HURRAY_COPY_IF_NEEDED : copy);
    if (tensor != NULL) {
        return dtype == NULL ? tensor : with_type(state, tensor, dtype, copy);
    }
    return PyErr_Occurred() ? NULL : from_plain(state, object, dtype, copy);
}

PyDoc_STRVAR(
    asarray_doc,
    "asarray($module, /, obj, *, dtype=None, device=None, copy=None)\n--\n\n"
    "A Tensor of obj (spec 8.4): a Tensor (the same object where nothing changes), a numpy.ndarray "
    "of\n"
    "any strides, what has __hurray__, __dlpack__, the buffer protocol (typed by its format) or "
    "NumPy's array\n"
    "protocols, a number, or nested sequences of numbers, whose shape is their nesting.\n\n"
    "Memory is shared under the rule of from_numpy. Numbers give bool, int64 (uint64 where only "
    "that\n"
    "holds them), float64 or complex128. Another dtype is converted to by NumPy. copy=False never "
    "copies\n"
    "(CopyRequiredError), copy=True always does. Nothing is moved between devices "
    "(UnsupportedError).\n\n"
    "ValueError names the place where nested sequences are ragged or deeper than 64, TypeError "
    "what is\n"
    "no number (text never is), OverflowError an integer out of range."
    "\n\n"
    ">>> t = hurray.asarray([[1, 2], [3, 4]])\n"
    ">>> t\n"
    "hurray.Tensor([[1, 2],\n"
    "               [3, 4]], dtype=int64)\n"
    ">>> hurray.asarray(t) is t\n"
    "True\n"
    ">>> hurray.asarray(b'abc').dtype\n"
    "hurray.uint8");

static PyObject *asarray(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames) {
    static const Signature signature = {"asarray",
                                        {{"obj", ARGUMENT_REQUIRED},
                                         {"dtype", ARGUMENT_KEYWORD_ONLY},
                                         {"device", ARGUMENT_KEYWORD_ONLY},
                                         {"copy", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *values[4];
    HurrayCopy copy;
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    if (!copy_from_object(values[3], &copy)) return NULL;
    CoreState *state = core_state_of_module(module);
    uint8_t unused;
    if (values[1] != NULL && !dtype_as_tag(state, values[1], "dtype", &unused)) return NULL;
    HurrayDevice checked;
    if (values[2] != NULL && !device_as_value(state, values[2], "device", &checked)) return NULL;
    PyObject *tensor = make_asarray(state, values[0], values[1], values[2], copy);
    if (tensor != NULL && values[2] != NULL && !check_device(state, tensor, values[2])) {
        Py_CLEAR(tensor);
    }
    return tensor;
}

PyMethodDef asarray_functions[] = {
    {"asarray", CORE_METHOD(asarray), METH_FASTCALL | METH_KEYWORDS, asarray_doc},
    {NULL, NULL, 0, NULL},
};
