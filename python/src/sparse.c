/*
 * Sparse tensors put together from their components, which are tensors themselves and whose memory
 * is shared (spec 8.8): sparse_coo, and what the glue for SciPy, PyData sparse and PyTorch needs to
 * do the same.
 *
 * Indices that somebody else wrote are verified before a tensor follows them anywhere.
 */
#include <string.h>

#include "arguments.h"
#include "construct.h"
#include "core.h"
#include "new_tensor.h"

/* Of all layouts made here: CSF of the highest rank. */
#define MOST_COMPONENTS (2 * HURRAY_MAX_RANK + 1)

/* ---- components ---- */

static const HurrayDescriptorFields *fields_of(PyObject *tensor) {
    return hurray_tensor_fields(tensor_of(tensor));
}

/* Lets a refusal that is under way say which component it is about. */
static void name_refusal(CoreState *state, const char *name) {
    PyObject *const named[] = {state->CopyRequiredError, state->UnsupportedError};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(named); i++) {
        if (!PyErr_ExceptionMatches(named[i])) continue;
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyErr_NormalizeException(&type, &value, &traceback);
        PyErr_Format(named[i], "%s: %S", name, value);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return;
    }
}

/* Whether a buffer of the tensor's own memory can begin at its first element. */
static bool is_component(const HurrayTensor *tensor) {
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    return fields->layout.tag == HURRAY_LAYOUT_ROW_MAJOR && fields->quantization == NULL &&
           fields->byte_offset % HURRAY_MIN_BUFFER_ALIGNMENT == 0;
}

/* The tensor, or a row-major copy of it: elements one after another from an aligned address on.
 * Steals `tensor`. */
static PyObject *straightened(CoreState *state, PyObject *tensor, HurrayCopy copy) {
    if (is_component(tensor_of(tensor))) return tensor;
    HurrayTensor *straight = NULL;
    if (copy == HURRAY_COPY_NEVER) {
        PyErr_SetString(state->CopyRequiredError,
                        "its elements do not lie one after another from a 64-byte aligned address "
                        "on; sharing them without a copy needs that");
    } else {
        HurrayStatus status = hurray_tensor_copy(tensor_of(tensor), NULL, &straight);
        if (status != HURRAY_OK) raise_status(state, status);
    }
    Py_DECREF(tensor);
    return straight == NULL ? NULL : tensor_wrap(state, straight);
}

/* A component of anything that asarray takes; `dtype`, or NULL, is for plain numbers. */
static PyObject *component_of(CoreState *state, PyObject *object, const char *name, PyObject *dtype,
                              HurrayCopy copy) {
    PyObject *tensor;
    if (dtype != NULL && copy != HURRAY_COPY_NEVER && nested_is_sequence(state, object)) {
        tensor = tensor_from_nested(state, object, dtype);
    } else {
        tensor = asarray_object(state, object, NULL, copy);
    }
    if (tensor != NULL) tensor = straightened(state, tensor, copy);
    if (tensor == NULL) name_refusal(state, name);
    return tensor;
}

/* ---- buffers ---- */

/* The part of a buffer from an offset on, which keeps the tensor alive. */
static HurrayBuffer *rest_of_buffer(CoreState *state, PyObject *tensor, uint64_t offset) {
    HurrayBufferInfo info = *hurray_buffer_info(hurray_tensor_buffer(tensor_of(tensor), 0));
    if (offset > info.byte_size) offset = info.byte_size; /* there are no elements */
    info.data = (uint8_t *)info.data + offset;
    info.byte_size -= offset;
    while (info.alignment > HURRAY_MIN_BUFFER_ALIGNMENT && offset % info.alignment != 0) {
        info.alignment /= 2;
    }
    void *context = owner_new(tensor);
    if (context == NULL) return NULL;
    HurrayBuffer *buffer = NULL;
    HurrayStatus status = hurray_buffer_create(&info, owner_release, context, &buffer);
    if (status == HURRAY_OK) return buffer;
    owner_discard(context);
    raise_status(state, status);
    return NULL;
}

/* A new reference to memory that begins with a component's first element. */
static HurrayBuffer *buffer_of_component(CoreState *state, PyObject *tensor) {
    uint64_t offset = fields_of(tensor)->byte_offset;
    if (offset != 0) return rest_of_buffer(state, tensor, offset);
    return hurray_buffer_retain(hurray_tensor_buffer(tensor_of(tensor), 0));
}

/*
 * A tensor that shares the memory of `count` components; the first are the values, which give the
 * element type. NULL with InvalidDescriptorError or BufferError where they do not go together.
 */
static HurrayTensor *assemble(CoreState *state, const HurrayLayout *layout, uint32_t rank,
                              const uint64_t *shape, PyObject *const *components, uint32_t count) {
    HurrayDescriptorFields fields = {
        .type_tag = fields_of(components[0])->type_tag,
        .extension_type = fields_of(components[0])->extension_type,
        .rank = rank,
        .shape = shape,
        .layout = *layout,
        .buffer_count = count,
    };
    HurrayBuffer *buffers[MOST_COMPONENTS];
    HurrayTensor *tensor = NULL;
    uint32_t taken = 0;
    while (taken < count) {
        buffers[taken] = buffer_of_component(state, components[taken]);
        if (buffers[taken] == NULL) break;
        taken++;
    }
    if (taken == count) {
        HurrayStatus status = hurray_tensor_create(&fields, buffers, &tensor);
        if (status == HURRAY_OK) return tensor;
        raise_status(state, status);
    }
    while (taken != 0) hurray_buffer_destroy(buffers[--taken]);
    return NULL;
}

/* ---- verification ---- */

/*
 * Verifies indices and pointers, read from the tensor's own buffers or, where `host` is given, from
 * copies of them: one tensor each, values left out. Those of a device are not touched, and pass
 * without copies. The GIL is released: `tensor` must be the caller's.
 */
static HurrayStatus verify(HurrayTensor *tensor, PyObject *const *host,
                           HurrayViolation *violation) {
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    HurrayBytes bytes[MOST_COMPONENTS] = {{NULL, 0}};
    if (host == NULL && hurray_tensor_check_readable(tensor, true) != HURRAY_OK) return HURRAY_OK;
    for (uint32_t i = 1; i < fields->buffer_count; i++) {
        HurrayBuffer *buffer = host == NULL ? hurray_tensor_buffer(tensor, i)
                                            : hurray_tensor_buffer(tensor_of(host[i - 1]), 0);
        const HurrayBufferInfo *info = hurray_buffer_info(buffer);
        bytes[i] = (HurrayBytes){info->data, info->byte_size};
    }
    HurrayStatus status;
    Py_BEGIN_ALLOW_THREADS
    status = hurray_verify(fields, bytes, fields->buffer_count, violation);
    Py_END_ALLOW_THREADS
    return status;
}

/* ---- sparse_coo ---- */

static bool check_dimensions(CoreState *state, PyObject *values, PyObject *indices, uint32_t rank) {
    const HurrayDescriptorFields *value = fields_of(values), *index = fields_of(indices);
    PyObject *shape = NULL;
    const char *expected = NULL;
    if (index->type_tag != HURRAY_TYPE_UINT64) {
        const HurrayElementType *type = hurray_element_type_from_tag(index->type_tag);
        PyErr_Format(state->UnsupportedError,
                     "indices must be uint64, not %s: convert them with .astype(numpy.uint64)%s",
                     type == NULL ? "of a private type" : type->name,
                     index->type_tag == HURRAY_TYPE_INT64
                         ? ", or share them as they are with .view(numpy.uint64)"
                         : "");
        return false;
    }
    if (index->rank != 2) {
        shape = shape_tuple(index->shape, index->rank);
        expected = "indices must have the shape [nnz, rank], not %R";
    } else if (index->shape[1] != rank) {
        PyErr_Format(state->InvalidDescriptorError,
                     "indices has %llu numbers for each value; shape has %u dimensions",
                     (unsigned long long)index->shape[1], rank);
        return false;
    } else if (value->rank != 1 || value->shape[0] != index->shape[0]) {
        shape = shape_tuple(value->shape, value->rank);
        expected = "values must have the shape [nnz], where indices has nnz rows, not %R";
    }
    if (expected == NULL) return true;
    if (shape != NULL) PyErr_Format(state->InvalidDescriptorError, expected, shape);
    Py_XDECREF(shape);
    return false;
}

static PyObject *make_coo(CoreState *state, const NewTensor *made, PyObject *const *components) {
    if (!check_dimensions(state, components[0], components[1], made->rank)) return NULL;
    HurrayLayout layout = {.tag = HURRAY_LAYOUT_COO};
    layout.sparse.nnz = fields_of(components[1])->shape[0];
    HurrayTensor *tensor = assemble(state, &layout, made->rank, made->shape, components, 2);
    if (tensor == NULL) return NULL;
    HurrayStatus status = verify(tensor, NULL, NULL);
    if (status == HURRAY_OK) return tensor_wrap(state, tensor);
    hurray_tensor_release(tensor);
    return raise_status(state, status);
}

PyDoc_STRVAR(
    sparse_coo_doc,
    "sparse_coo($module, /, values, indices, shape, *, copy=None)\n--\n\n"
    "A sparse tensor in coordinate format (spec 2.6, 8.8).\n\n"
    "values: the stored elements [nnz], anything that asarray takes. indices: uint64 [nnz, rank],\n"
    "where each of them is, in any order. shape: one int for each dimension.\n\n"
    "Memory is shared under the rule of from_numpy, values and indices each for itself.\n"
    "copy=False never copies (CopyRequiredError naming the component), copy=True always does.\n"
    "Indices are verified, unless they are on another device than the CPU.\n\n"
    "InvalidDescriptorError: values and indices of different lengths or other shapes than these, "
    "a\n"
    "dynamic dimension, an index out of bounds, two values at one index. UnsupportedError: "
    "indices\n"
    "of another dtype."
    "\n\n"
    ">>> indices = np.array([[0, 1], [2, 0]], np.uint64)\n"
    ">>> t = hurray.sparse_coo([7.0, 8.0], indices, shape=[3, 2])\n"
    ">>> t.to_layout(hurray.RowMajorLayout())\n"
    "hurray.Tensor([[0., 7.],\n"
    "               [0., 0.],\n"
    "               [8., 0.]], dtype=float64)");

static PyObject *sparse_coo(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames) {
    static const Signature signature = {"sparse_coo",
                                        {{"values", ARGUMENT_REQUIRED},
                                         {"indices", ARGUMENT_REQUIRED},
                                         {"shape", ARGUMENT_REQUIRED},
                                         {"copy", ARGUMENT_KEYWORD_ONLY}}};
    CoreState *state = core_state_of_module(module);
    NewTensor made = {.function = "sparse_coo"};
    PyObject *arguments[4];
    HurrayCopy copy;
    if (!arguments_parse(&signature, args, nargs, kwnames, arguments) ||
        !copy_from_object(arguments[3], &copy) ||
        !new_tensor_set_shape(state, &made, arguments[2])) {
        return NULL;
    }
    PyObject *dtype = dtype_from_tag(state, HURRAY_TYPE_UINT64);
    PyObject *components[2] = {component_of(state, arguments[0], "values", NULL, copy), NULL};
    PyObject *tensor = NULL;
    if (components[0] != NULL) {
        components[1] = component_of(state, arguments[1], "indices", dtype, copy);
    }
    if (components[1] != NULL) tensor = make_coo(state, &made, components);
    Py_XDECREF(components[0]);
    Py_XDECREF(components[1]);
    return tensor;
}

/* ---- for the glue ---- */

/* Borrows the Tensors of a tuple; false with TypeError for anything else. */
static bool read_tensors(CoreState *state, PyObject *tuple, const char *name, PyObject **out,
                         uint32_t *count) {
    Py_ssize_t length = PyTuple_Check(tuple) ? PyTuple_GET_SIZE(tuple) : 0;
    bool fits = length > 0 && length <= MOST_COMPONENTS;
    for (Py_ssize_t i = 0; fits && i < length; i++) {
        out[i] = PyTuple_GET_ITEM(tuple, i);
        fits = tensor_check(state, out[i]) && is_component(tensor_of(out[i]));
    }
    *count = (uint32_t)length;
    if (!fits) PyErr_Format(PyExc_TypeError, "%s must be a tuple of row-major Tensors", name);
    return fits;
}

/* Whether components behind the values are of 64-bit integers. */
static bool check_indices(CoreState *state, PyObject *const *components, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint8_t tag = fields_of(components[i])->type_tag;
        if (tag == HURRAY_TYPE_UINT64 || tag == HURRAY_TYPE_INT64) continue;
        PyErr_Format(state->UnsupportedError, "indices must be uint64 or int64");
        return false;
    }
    return true;
}

/* "duplicate" or "index_order" for what the caller has a remedy for, else NULL. */
static const char *order_fault(const HurrayViolation *violation) {
    bool repeats = violation->kind == HURRAY_VIOLATION_DUPLICATE ||
                   (violation->kind == HURRAY_VIOLATION_INDEX_ORDER &&
                    violation->found == violation->expected);
    if (repeats) return hurray_violation_name(HURRAY_VIOLATION_DUPLICATE);
    if (violation->kind != HURRAY_VIOLATION_INDEX_ORDER) return NULL;
    return hurray_violation_name(HURRAY_VIOLATION_INDEX_ORDER);
}

static PyObject *finish(CoreState *state, HurrayTensor *tensor, PyObject *const *host) {
    HurrayViolation violation;
    HurrayStatus status = verify(tensor, host, &violation);
    if (status == HURRAY_OK) return tensor_wrap(state, tensor);
    hurray_tensor_release(tensor);
    const char *fault = status == HURRAY_ERR_DATA_INVALID ? order_fault(&violation) : NULL;
    return fault != NULL ? PyUnicode_FromString(fault) : raise_status(state, status);
}

PyDoc_STRVAR(
    from_components_doc,
    "_from_components($module, /, layout, shape, components, host_copies=None)\n--\n\n"
    "A tensor that shares the memory of its components: a tuple of row-major Tensors, the values\n"
    "first, then indices and pointers in the order of the layout, uint64 or int64. These are\n"
    "verified; host_copies, a tuple too, is read for those on a device.\n\n"
    "Where entries are in the wrong order or there twice, gives the str \"index_order\" or\n"
    "\"duplicate\" instead of raising InvalidDescriptorError, as for all other faults.");

static PyObject *from_components(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                                 PyObject *kwnames) {
    static const Signature signature = {"_from_components",
                                        {{"layout", ARGUMENT_REQUIRED},
                                         {"shape", ARGUMENT_REQUIRED},
                                         {"components", ARGUMENT_REQUIRED},
                                         {"host_copies", 0}}};
    CoreState *state = core_state_of_module(module);
    NewTensor made = {.function = "_from_components"};
    PyObject *arguments[4], *components[MOST_COMPONENTS], *host[MOST_COMPONENTS];
    uint32_t count, host_count;
    HurrayLayout layout;
    if (!arguments_parse(&signature, args, nargs, kwnames, arguments) ||
        !new_tensor_set_shape(state, &made, arguments[1]) ||
        !layout_for_rank(state, arguments[0], made.rank, &layout) ||
        !read_tensors(state, arguments[2], "components", components, &count) ||
        !check_indices(state, components + 1, count - 1)) {
        return NULL;
    }
    bool has_host = arguments[3] != NULL;
    if (has_host) {
        if (!read_tensors(state, arguments[3], "host_copies", host, &host_count)) return NULL;
        if (host_count != count - 1) {
            return PyErr_Format(PyExc_TypeError, "expected %u host_copies", count - 1);
        }
    }
    HurrayTensor *tensor = assemble(state, &layout, made.rank, made.shape, components, count);
    return tensor == NULL ? NULL : finish(state, tensor, has_host ? host : NULL);
}

static PyMethodDef functions[] = {
    {"sparse_coo", CORE_METHOD(sparse_coo), METH_FASTCALL | METH_KEYWORDS, sparse_coo_doc},
    {"_from_components", CORE_METHOD(from_components), METH_FASTCALL | METH_KEYWORDS,
     from_components_doc},
    {NULL, NULL, 0, NULL},
};

/* ---- to_scipy ---- */

PyDoc_STRVAR(
    to_scipy_doc,
    "to_scipy($self, /, *, array=False)\n--\n\n"
    "A SciPy csr_matrix, csc_matrix or coo_matrix over the same memory (spec 8.8).\n\n"
    "array=True gives the _array class, which for COO may have any number of dimensions. All\n"
    "components are shared, indices and pointers viewed as int64; bool values are unpacked, which\n"
    "is a copy. Indices are verified first.\n\n"
    "UnsupportedError: another layout, a matrix of other than 2 dimensions, values of a type that\n"
    "SciPy has not, quantized ones, another device. InvalidDescriptorError: an index or pointer\n"
    "that is wrong, a dynamic dimension. ImportError: no SciPy."
    "\n\n"
    ">>> t = hurray.asarray([[0, 7], [0, 0]]).to_layout(hurray.CsrLayout(0))\n"
    ">>> t.to_scipy().indptr\n"
    "array([0, 1, 1])");

static PyObject *tensor_to_scipy(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                 PyObject *kwnames) {
    static const Signature signature = {"to_scipy", {{"array", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *array;
    if (!arguments_parse(&signature, args, nargs, kwnames, &array)) return NULL;
    int wants_array = argument_as_bool(array, 0);
    PyObject *glue = wants_array < 0 ? NULL : PyImport_ImportModule("hurray._scipy");
    if (glue == NULL) return NULL;
    PyObject *matrix = PyObject_CallMethodObjArgs(glue, core_state_of(self)->names.to_scipy, self,
                                                  wants_array ? Py_True : Py_False, NULL);
    Py_DECREF(glue);
    return matrix;
}

/* ---- to_sparse ---- */

PyDoc_STRVAR(
    to_sparse_doc,
    "to_sparse($self, /)\n--\n\n"
    "An array of the PyData package sparse over the same memory (spec 8.8).\n\n"
    "COO becomes sparse.COO of the same rank; CSR and CSC become sparse.GCXS with compressed_axes\n"
    "(0,) and (1,). All components are shared, indices and pointers viewed as int64; COO that is\n"
    "not marked as sorted is sorted in a copy, and bool values are unpacked, which is one too.\n"
    "Indices are verified first.\n\n"
    "UnsupportedError: another layout, values of a type that Numba has not, quantized ones,\n"
    "another device. InvalidDescriptorError: an index or pointer that is wrong, a dynamic\n"
    "dimension. ImportError: no package sparse."
    "\n\n"
    ">>> t = hurray.eye(3).to_layout(hurray.CsrLayout(0))\n"
    ">>> t.to_sparse().nnz\n"
    "3");

static PyObject *tensor_to_sparse(PyObject *self, PyObject *unused) {
    (void)unused;
    return core_call_glue("hurray._pydata_sparse", "to_sparse", self);
}

PyMethodDef sparse_tensor_methods[] = {
    {"to_scipy", CORE_METHOD(tensor_to_scipy), METH_FASTCALL | METH_KEYWORDS, to_scipy_doc},
    {"to_sparse", tensor_to_sparse, METH_NOARGS, to_sparse_doc},
    {NULL, NULL, 0, NULL},
};

int sparse_setup(PyObject *module, CoreState *state) {
    (void)state;
    return PyModule_AddFunctions(module, functions);
}
