/*
 * NumPy: tensors over its arrays, arrays over tensors, and its memory made 64-aligned (spec 8.5).
 *
 * NumPy is imported when one of these is first needed. Its C API is a table of pointers, the same
 * for the whole process, that the module state keeps; NumPy's macros index a variable PyArray_API,
 * which here is a parameter or local of every function that uses them.
 */
#include "arguments.h"
#include "host_array.h"
#include "new_tensor.h"

/* Runs on NumPy 1.23 and later, built with the headers of any NumPy 2. */
#define NPY_TARGET_VERSION NPY_1_23_API_VERSION
/* The header declares its table extern under this name; nothing refers to it. */
#define PY_ARRAY_UNIQUE_SYMBOL hurray_numpy_table_is_in_the_module_state
#define NO_IMPORT_ARRAY
#include <numpy/arrayobject.h>
#undef PyArray_API

/* ---- NumPy's table ---- */

static PyObject *import_core_module(void) {
    PyObject *numpy = PyImport_ImportModule("numpy"); /* a missing one is named by its error */
    if (numpy == NULL) return NULL;
    Py_DECREF(numpy);
    PyObject *module = PyImport_ImportModule("numpy._core._multiarray_umath");
    if (module == NULL && PyErr_ExceptionMatches(PyExc_ModuleNotFoundError)) {
        PyErr_Clear();
        module = PyImport_ImportModule("numpy.core._multiarray_umath"); /* NumPy 1 */
    }
    return module;
}

static int check_version(void **PyArray_API) {
    if (NPY_VERSION >= PyArray_GetNDArrayCVersion() &&
        NPY_FEATURE_VERSION <= PyArray_GetNDArrayCFeatureVersion()) {
        return 0;
    }
    if (NPY_VERSION < PyArray_GetNDArrayCVersion()) {
        PyErr_SetString(PyExc_ImportError, "this numpy is newer than the ones hurray knows");
    } else {
        PyErr_SetString(PyExc_ImportError, "hurray needs numpy 1.23 or later");
    }
    return -1;
}

/* NumPy's API table; NULL with ImportError. */
static void **numpy_table(CoreState *state) {
    void **table = state->numpy_api;
    if (table != NULL) return table;
    PyObject *module = import_core_module();
    if (module == NULL) return NULL;
    PyObject *capsule = PyObject_GetAttrString(module, "_ARRAY_API");
    Py_DECREF(module);
    if (capsule == NULL) return NULL;
    table = PyCapsule_GetPointer(capsule, NULL);
    Py_DECREF(capsule);
    if (table == NULL || check_version(table) < 0) return NULL;
    state->numpy_api = table; /* the same one, whoever comes first */
    return table;
}

/* The table where somebody imported NumPy already; NULL without an exception. */
static void **loaded_table(CoreState *state) {
    void **table = state->numpy_api;
    if (table != NULL) return table;
    PyObject *numpy = core_loaded_module("numpy");
    if (numpy == NULL) return NULL;
    Py_DECREF(numpy);
    table = numpy_table(state);
    if (table == NULL) PyErr_Clear(); /* half imported, or none of ours to use */
    return table;
}

bool numpy_is_array(CoreState *state, PyObject *object) {
    void **PyArray_API = loaded_table(state);
    return PyArray_API != NULL && PyArray_Check(object);
}

bool numpy_is_scalar(CoreState *state, PyObject *object) {
    void **PyArray_API = loaded_table(state);
    return PyArray_API != NULL && PyArray_IsScalar(object, Generic);
}

/* ---- dtypes ---- */

/* What NumPy has itself. Written out rather than derived: the numbers are part of its ABI. */
typedef struct NativeType {
    uint8_t tag;
    int number;
    const char *typestr; /* behind the byte order */
} NativeType;

static const NativeType native_types[] = {
    {HURRAY_TYPE_BOOL, NPY_BOOL, "b1"},           {HURRAY_TYPE_INT8, NPY_INT8, "i1"},
    {HURRAY_TYPE_UINT8, NPY_UINT8, "u1"},         {HURRAY_TYPE_INT16, NPY_INT16, "i2"},
    {HURRAY_TYPE_UINT16, NPY_UINT16, "u2"},       {HURRAY_TYPE_INT32, NPY_INT32, "i4"},
    {HURRAY_TYPE_UINT32, NPY_UINT32, "u4"},       {HURRAY_TYPE_INT64, NPY_INT64, "i8"},
    {HURRAY_TYPE_UINT64, NPY_UINT64, "u8"},       {HURRAY_TYPE_FLOAT16, NPY_FLOAT16, "f2"},
    {HURRAY_TYPE_FLOAT32, NPY_FLOAT32, "f4"},     {HURRAY_TYPE_FLOAT64, NPY_FLOAT64, "f8"},
    {HURRAY_TYPE_COMPLEX64, NPY_COMPLEX64, "c8"}, {HURRAY_TYPE_COMPLEX128, NPY_COMPLEX128, "c16"},
};

static const NativeType *native_type(uint8_t tag) {
    for (size_t i = 0; i < Py_ARRAY_LENGTH(native_types); i++) {
        if (native_types[i].tag == tag) return &native_types[i];
    }
    return NULL;
}

/* What ml_dtypes has under other names; the rest is called alike. Its float8_e4m3 is another type,
 * with infinities. */
typedef struct MlType {
    uint8_t tag;
    const char *name;
} MlType;

static const MlType ml_types[] = {
    {HURRAY_TYPE_BFLOAT16, "bfloat16"},
    {HURRAY_TYPE_FLOAT8_E4M3, "float8_e4m3fn"},
    {HURRAY_TYPE_FLOAT8_E5M2, "float8_e5m2"},
    {HURRAY_TYPE_FLOAT8_E8M0, "float8_e8m0fnu"},
    {HURRAY_TYPE_FLOAT4_E2M1, "float4_e2m1fn"},
    {HURRAY_TYPE_FLOAT6_E2M3, "float6_e2m3fn"},
    {HURRAY_TYPE_FLOAT6_E3M2, "float6_e3m2fn"},
    {HURRAY_TYPE_INT4, "int4"},
    {HURRAY_TYPE_UINT4, "uint4"},
    {HURRAY_TYPE_INT2, "int2"},
    {HURRAY_TYPE_UINT2, "uint2"},
};

/* The descr of one of the types; NULL without an exception where this ml_dtypes has none. */
static PyArray_Descr *ml_descr(void **PyArray_API, PyObject *ml_dtypes, const char *name) {
    PyObject *scalar = PyObject_GetAttrString(ml_dtypes, name);
    PyArray_Descr *descr = NULL;
    if (scalar == NULL || PyArray_DescrConverter(scalar, &descr) != NPY_SUCCEED) {
        PyErr_Clear();
        descr = NULL;
    }
    Py_XDECREF(scalar);
    return descr;
}

/* Fills the module's table of ml_dtypes types from the imported package. */
static void remember_ml_dtypes(void **PyArray_API, CoreState *state, PyObject *ml_dtypes) {
    PyArray_Descr *found[Py_ARRAY_LENGTH(ml_types)];
    for (size_t i = 0; i < Py_ARRAY_LENGTH(ml_types); i++) {
        found[i] = ml_descr(PyArray_API, ml_dtypes, ml_types[i].name);
    }
    CORE_LOCK(ml_dtypes);
    for (size_t i = 0; !state->has_ml_dtypes && i < Py_ARRAY_LENGTH(ml_types); i++) {
        state->ml_dtypes[ml_types[i].tag] = (PyObject *)found[i];
        found[i] = NULL;
    }
    state->has_ml_dtypes = true;
    CORE_UNLOCK();
    /* Another thread came first. */
    for (size_t i = 0; i < Py_ARRAY_LENGTH(ml_types); i++) Py_XDECREF(found[i]);
}

/* Whether ml_dtypes is there, importing it if `import`. False without an exception. */
static bool has_ml_dtypes(void **PyArray_API, CoreState *state, bool import) {
    if (state->has_ml_dtypes) return true;
    PyObject *module =
        import ? PyImport_ImportModule("ml_dtypes") : core_loaded_module("ml_dtypes");
    if (module == NULL) {
        PyErr_Clear();
        return false;
    }
    remember_ml_dtypes(PyArray_API, state, module);
    Py_DECREF(module);
    return true;
}

/* The NumPy dtype of a type, a new reference; NULL with UnsupportedError. */
static PyArray_Descr *descr_of_tag(void **PyArray_API, CoreState *state, uint8_t tag) {
    const NativeType *native = native_type(tag);
    if (native != NULL) return PyArray_DescrFromType(native->number);
    const HurrayElementType *type = hurray_element_type_from_tag(tag);
    const char *name = type == NULL ? "of a private type" : type->name;
    bool known = false;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(ml_types); i++) known |= ml_types[i].tag == tag;
    if (!known) {
        PyErr_Format(state->UnsupportedError, "dtype %s has no counterpart in NumPy or ml_dtypes",
                     name);
        return NULL;
    }
    if (!has_ml_dtypes(PyArray_API, state, true)) {
        PyErr_Format(state->UnsupportedError,
                     "dtype %s needs the package ml_dtypes, which is not installed", name);
        return NULL;
    }
    if (state->ml_dtypes[tag] == NULL) {
        PyErr_Format(state->UnsupportedError,
                     "dtype %s needs a newer ml_dtypes than the one installed", name);
        return NULL;
    }
    return (PyArray_Descr *)Py_NewRef(state->ml_dtypes[tag]);
}

/* The type of a NumPy dtype; 0 where there is none. Goes by what it is called nowhere. */
static uint8_t tag_of_descr(void **PyArray_API, CoreState *state, PyArray_Descr *descr) {
    if (!PyArray_ISNBO(descr->byteorder)) return 0;
    switch (descr->type_num) {
    case NPY_LONGLONG: return HURRAY_TYPE_INT64;   /* the one of these two that is not */
    case NPY_ULONGLONG: return HURRAY_TYPE_UINT64; /* NPY_INT64 */
#if NPY_SIZEOF_LONG == 4
    case NPY_LONG: return HURRAY_TYPE_INT32;
    case NPY_ULONG: return HURRAY_TYPE_UINT32;
#endif
    default: break;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(native_types); i++) {
        if (native_types[i].number == descr->type_num) return native_types[i].tag;
    }
    if (descr->type_num < NPY_USERDEF || !has_ml_dtypes(PyArray_API, state, false)) return 0;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(ml_types); i++) {
        PyArray_Descr *known = (PyArray_Descr *)state->ml_dtypes[ml_types[i].tag];
        if (known != NULL && known->type_num == descr->type_num) return ml_types[i].tag;
    }
    return 0;
}

/* ---- tensors over arrays ---- */

/* Masked arrays have a part that a tensor would lose. */
static int check_unmasked(void **PyArray_API, CoreState *state, PyObject *array) {
    if (Py_IS_TYPE(array, &PyArray_Type)) return 0;
    PyObject *module = core_loaded_module("numpy.ma");
    if (module == NULL) return 0;
    PyObject *masked = PyObject_GetAttrString(module, "MaskedArray");
    Py_DECREF(module);
    int is_masked = masked == NULL ? -1 : PyObject_IsInstance(array, masked);
    Py_XDECREF(masked);
    if (is_masked == 1) {
        PyErr_SetString(state->UnsupportedError,
                        "a masked array would lose its mask; pass .filled() or .data");
        return -1;
    }
    return is_masked;
}

/* The type of an array's elements; 0 with UnsupportedError naming the dtype. */
static uint8_t element_tag(void **PyArray_API, CoreState *state, PyArrayObject *array) {
    PyArray_Descr *descr = PyArray_DESCR(array);
    uint8_t tag = tag_of_descr(PyArray_API, state, descr);
    if (tag == 0) {
        PyErr_Format(state->UnsupportedError, "NumPy dtype %R has no Hurray dtype%s",
                     (PyObject *)descr,
                     PyArray_ISNBO(descr->byteorder) ? "" : " (its byte order is not native)");
    }
    return tag;
}

/*
 * shape and, where `strides` is given, strides in elements. False where a stride is no whole number
 * of elements, as in a column of a structured array.
 */
static bool read_dimensions(PyArrayObject *array, uint32_t element_bytes, uint64_t *shape,
                            int64_t *strides) {
    int rank = PyArray_NDIM(array);
    for (int k = 0; k < rank; k++) {
        shape[k] = (uint64_t)PyArray_DIMS(array)[k];
        if (strides == NULL) continue;
        npy_intp stride = PyArray_STRIDES(array)[k];
        strides[k] = stride / (npy_intp)element_bytes;
        if (shape[k] > 1 && stride % (npy_intp)element_bytes != 0) return false;
    }
    return true;
}

/* A C-contiguous copy by NumPy, taken over; for strides that cannot be counted in elements. */
static PyObject *adopt_contiguous(void **PyArray_API, CoreState *state, PyArrayObject *array,
                                  HurrayCopy copy) {
    if (copy == HURRAY_COPY_NEVER) {
        PyErr_SetString(state->CopyRequiredError,
                        "the strides of the array are no multiples of its item size; sharing it "
                        "without a copy needs that");
        return NULL;
    }
    PyObject *contiguous = PyArray_NewCopy(array, NPY_CORDER);
    if (contiguous == NULL) return NULL;
    PyObject *tensor = tensor_from_array(state, contiguous, HURRAY_COPY_IF_NEEDED);
    Py_DECREF(contiguous);
    return tensor;
}

static PyObject *adopt_array(void **PyArray_API, CoreState *state, PyArrayObject *array,
                             HurrayCopy copy) {
    if (check_unmasked(PyArray_API, state, (PyObject *)array) < 0) return NULL;
    uint8_t tag = element_tag(PyArray_API, state, array);
    if (tag == 0) return NULL;
    uint32_t bits = hurray_element_type_from_tag(tag)->bits;
    bool contiguous = PyArray_IS_C_CONTIGUOUS(array);
    uint64_t shape[HURRAY_MAX_RANK]; /* NumPy has at most 64 dimensions */
    int64_t strides[HURRAY_MAX_RANK];
    if (!read_dimensions(array, bits < 8 ? 1 : bits / 8, shape, contiguous ? NULL : strides)) {
        return adopt_contiguous(PyArray_API, state, array, copy);
    }
    HostArray host = {
        .data = PyArray_DATA(array),
        .type_tag = tag,
        .read_only = !PyArray_ISWRITEABLE(array),
        .rank = (uint32_t)PyArray_NDIM(array),
        .shape = shape,
        .strides = contiguous ? NULL : strides,
    };
    return host_array_adopt(state, &host, (PyObject *)array, copy);
}

PyObject *tensor_from_array(CoreState *state, PyObject *array, HurrayCopy copy) {
    void **PyArray_API = numpy_table(state);
    if (PyArray_API == NULL) return NULL;
    return adopt_array(PyArray_API, state, (PyArrayObject *)array, copy);
}

bool numpy_describe_array(CoreState *state, PyObject *object, uint8_t *type_tag, uint32_t *rank,
                          uint64_t *shape) {
    void **PyArray_API = numpy_table(state);
    if (PyArray_API == NULL) return false;
    PyArrayObject *array = (PyArrayObject *)object;
    *type_tag = element_tag(PyArray_API, state, array);
    *rank = (uint32_t)PyArray_NDIM(array);
    for (uint32_t k = 0; k < *rank; k++) shape[k] = (uint64_t)PyArray_DIMS(array)[k];
    return *type_tag != 0;
}

PyObject *tensor_from_numpy(CoreState *state, PyObject *object, HurrayCopy copy) {
    void **PyArray_API = numpy_table(state);
    if (PyArray_API == NULL) return NULL;
    if (!PyArray_Check(object)) {
        PyErr_Format(PyExc_TypeError, "from_numpy() takes a numpy.ndarray, not '%.200s'",
                     Py_TYPE(object)->tp_name);
        return NULL;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    if (!PyArray_IS_C_CONTIGUOUS(array)) {
        if (element_tag(PyArray_API, state, array) == 0) return NULL;
        PyErr_SetString(state->UnsupportedError,
                        "from_numpy() takes C-contiguous arrays only; numpy.ascontiguousarray "
                        "makes one");
        return NULL;
    }
    return adopt_array(PyArray_API, state, array, copy);
}

PyDoc_STRVAR(
    from_numpy_doc,
    "from_numpy($module, /, array, *, copy=None)\n--\n\n"
    "A tensor over a C-contiguous numpy.ndarray of the same shape (spec 8.5).\n\n"
    "Shares the array's memory, and keeps the array alive, when its address is a multiple of 64 "
    "bytes\n"
    "or it is empty; copies it otherwise. copy=False never copies (CopyRequiredError with the "
    "alignment\n"
    "measured), copy=True always does. A read-only array gives a read-only tensor. bool and the\n"
    "sub-byte types of ml_dtypes are packed, which is a copy.\n\n"
    "UnsupportedError: not C-contiguous, masked, or a dtype without a counterpart (structured, "
    "object,\n"
    "string, datetime, longdouble, not in native byte order). TypeError: no ndarray.\n"
    "ImportError: no NumPy."
    "\n\n"
    ">>> hurray.from_numpy(np.array([1.5, 2.5], np.float32))\n"
    "hurray.Tensor([1.5, 2.5], dtype=float32)");

static PyObject *from_numpy(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames) {
    static const Signature signature = {
        "from_numpy", {{"array", ARGUMENT_REQUIRED}, {"copy", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *values[2];
    HurrayCopy copy;
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    if (!copy_from_object(values[1], &copy)) return NULL;
    return tensor_from_numpy(core_state_of_module(module), values[0], copy);
}

/* ---- arrays over tensors ---- */

/* An array over the tensor's own memory, which keeps the tensor alive. Steals `descr`. */
static PyObject *view_array(void **PyArray_API, const HostArray *host, PyArray_Descr *descr,
                            PyObject *tensor) {
    Py_ssize_t shape[HURRAY_MAX_RANK], strides[HURRAY_MAX_RANK];
    Py_ssize_t element_bytes = hurray_element_type_from_tag(host->type_tag)->bits / 8;
    host_array_byte_strides(host, element_bytes, shape, strides);
    /* Without elements there is no address: NumPy then allocates the little it needs. */
    PyObject *array = PyArray_NewFromDescr(&PyArray_Type, descr, (int)host->rank, shape,
                                           host->data == NULL ? NULL : strides, host->data,
                                           host->read_only ? 0 : NPY_ARRAY_WRITEABLE, NULL);
    if (array == NULL) return NULL;
    if (PyArray_SetBaseObject((PyArrayObject *)array, Py_NewRef(tensor)) < 0) {
        Py_DECREF(array);
        return NULL;
    }
    if (host->read_only) PyArray_CLEARFLAGS((PyArrayObject *)array, NPY_ARRAY_WRITEABLE);
    return array;
}

/* A new array of one byte per element. ml_dtypes keeps the unused high bits zero. Steals `descr`. */
static PyObject *unpacked_array(void **PyArray_API, CoreState *state, const HostArray *host,
                                PyArray_Descr *descr) {
    Py_ssize_t shape[HURRAY_MAX_RANK];
    for (uint32_t k = 0; k < host->rank; k++) shape[k] = (Py_ssize_t)host->shape[k];
    PyObject *array =
        PyArray_NewFromDescr(&PyArray_Type, descr, (int)host->rank, shape, NULL, NULL, 0, NULL);
    if (array == NULL || host->count == 0) return array;
    HurrayPacking packing;
    hurray_packing_from_bits(hurray_element_type_from_tag(host->type_tag)->bits, &packing);
    uint8_t *values = PyArray_DATA((PyArrayObject *)array);
    PyThreadState *saved = host->count < CORE_LARGE_COPY ? NULL : PyEval_SaveThread();
    HurrayStatus status = hurray_unpack_strided(host->rank, host->shape, packing, false, host->data,
                                                host->strides, values);
    if (saved != NULL) PyEval_RestoreThread(saved);
    if (status != HURRAY_OK) {
        Py_DECREF(array);
        return raise_status(state, status);
    }
    return array;
}

/* What is asked of __array__ and to_numpy. */
typedef struct ArrayRequest {
    const char *method; /* for messages */
    bool all_types;     /* tier 2 as well */
    PyObject *dtype;    /* NULL: the tensor's own */
    HurrayCopy copy;
} ArrayRequest;

static bool is_type_wanted(CoreState *state, const ArrayRequest *request, uint8_t tag) {
    const HurrayElementType *type = hurray_element_type_from_tag(tag);
    if (request->all_types || (type != NULL && type->is_standard)) return true;
    PyErr_Format(state->UnsupportedError,
                 "dtype %s is no standard type, which is what %s gives; to_numpy() gives those of "
                 "ml_dtypes",
                 type == NULL ? "of a private type" : type->name, request->method);
    return false;
}

static bool refuse_copy(CoreState *state, const char *what, const char *name) {
    PyErr_Format(state->CopyRequiredError, "%s %s needs a copy, and copy=False forbids it", what,
                 name);
    return false;
}

/* The array that `dtype` asks for, from the tensor's own. Steals `array`. */
static PyObject *cast_array(void **PyArray_API, CoreState *state, PyObject *array,
                            const ArrayRequest *request, bool is_fresh) {
    PyArray_Descr *wanted = NULL;
    PyObject *result = NULL;
    if (request->dtype == NULL) {
        /* as it is */
    } else if (Py_IS_TYPE(request->dtype, state->DtypeType)) {
        uint8_t tag;
        if (!dtype_as_tag(state, request->dtype, "dtype", &tag)) goto done;
        wanted = descr_of_tag(PyArray_API, state, tag);
        if (wanted == NULL) goto done;
    } else if (PyArray_DescrConverter(request->dtype, &wanted) != NPY_SUCCEED) {
        goto done;
    }
    if (wanted != NULL && !PyArray_EquivTypes(PyArray_DESCR((PyArrayObject *)array), wanted)) {
        if (request->copy == HURRAY_COPY_NEVER) {
            PyErr_Format(state->CopyRequiredError,
                         "a cast to %S needs a copy, and copy=False forbids it",
                         (PyObject *)wanted);
            goto done;
        }
        result = PyArray_CastToType((PyArrayObject *)array, wanted, 0);
        wanted = NULL; /* stolen */
    } else if (request->copy == HURRAY_COPY_ALWAYS && !is_fresh) {
        result = PyArray_NewCopy((PyArrayObject *)array, NPY_KEEPORDER);
    } else {
        result = Py_NewRef(array);
    }
done:
    Py_XDECREF(wanted);
    Py_DECREF(array);
    return result;
}

/* `is_copy`: nobody else has the tensor's memory. */
static PyObject *array_at_strides(void **PyArray_API, CoreState *state, PyObject *tensor,
                                  const ArrayRequest *request, bool is_copy) {
    HostArray host;
    if (!host_array_of(tensor_of(tensor), state->UnsupportedError, state->InvalidDescriptorError,
                       &host) ||
        !is_type_wanted(state, request, host.type_tag)) {
        return NULL;
    }
    const HurrayElementType *type = hurray_element_type_from_tag(host.type_tag);
    bool packed = type != NULL && type->bits < 8;
    if (packed && request->copy == HURRAY_COPY_NEVER) {
        refuse_copy(state, "unpacking", type->name);
        return NULL;
    }
    PyArray_Descr *descr = descr_of_tag(PyArray_API, state, host.type_tag);
    if (descr == NULL) return NULL;
    PyObject *array = packed ? unpacked_array(PyArray_API, state, &host, descr)
                             : view_array(PyArray_API, &host, descr, tensor);
    if (array == NULL) return NULL;
    if (request->dtype == NULL && request->copy != HURRAY_COPY_ALWAYS) return array;
    return cast_array(PyArray_API, state, array, request, packed || is_copy);
}

/* Whether the elements lie at no strides, but can be brought into row-major order. */
static bool is_scattered(const HurrayDescriptorFields *fields) {
    uint8_t tag = fields->layout.tag;
    return fields->quantization == NULL &&
           (tag == HURRAY_LAYOUT_TILED || tag == HURRAY_LAYOUT_MORTON ||
            tag == HURRAY_LAYOUT_HILBERT);
}

static PyObject *array_of_tensor(void **PyArray_API, CoreState *state, PyObject *tensor,
                                 const ArrayRequest *request) {
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor_of(tensor));
    if (!is_scattered(fields)) {
        return array_at_strides(PyArray_API, state, tensor, request, false);
    }
    if (!is_type_wanted(state, request, fields->type_tag)) return NULL;
    HurrayStatus status = hurray_tensor_check_readable(tensor_of(tensor), false);
    if (status != HURRAY_OK) return raise_status(state, status);
    if (request->copy == HURRAY_COPY_NEVER) {
        refuse_copy(state, "an array of layout", hurray_layout_name(fields->layout.tag));
        return NULL;
    }
    PyObject *row_major = tensor_to_row_major(state, tensor_of(tensor));
    if (row_major == NULL) return NULL;
    PyObject *array = array_at_strides(PyArray_API, state, row_major, request, true);
    Py_DECREF(row_major);
    return array;
}

static PyObject *export_array(PyObject *self, const Signature *signature, PyObject *const *args,
                              Py_ssize_t nargs, PyObject *kwnames, bool all_types) {
    CoreState *state = core_state_of(self);
    PyObject *values[2];
    if (!arguments_parse(signature, args, nargs, kwnames, values)) return NULL;
    ArrayRequest request = {signature->function, all_types, values[0], HURRAY_COPY_IF_NEEDED};
    if (!copy_from_object(values[1], &request.copy)) return NULL;
    void **PyArray_API = numpy_table(state);
    if (PyArray_API == NULL) return NULL;
    return array_of_tensor(PyArray_API, state, self, &request);
}

PyDoc_STRVAR(
    array_doc,
    "__array__($self, /, dtype=None, copy=None)\n--\n\n"
    "A numpy.ndarray of the same shape over the tensor's memory, which it keeps alive (spec "
    "8.5).\n\n"
    "For dense CPU tensors of a standard type. bool is unpacked, another dtype is cast to, and\n"
    "tiled, Morton and Hilbert layouts become row-major: copies, which copy=False refuses\n"
    "(CopyRequiredError). copy=True always copies. bfloat16 needs ml_dtypes. UnsupportedError\n"
    "names what is in the way: device, layout, quantization, tier 2 dtype; InvalidDescriptorError\n"
    "a dynamic dimension; ImportError NumPy."
    "\n\n"
    ">>> np.asarray(hurray.asarray([1, 2, 3]))  # calls it\n"
    "array([1, 2, 3])");

static PyObject *tensor_array(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *kwnames) {
    static const Signature signature = {"__array__", {{"dtype", 0}, {"copy", 0}}};
    return export_array(self, &signature, args, nargs, kwnames, false);
}

PyDoc_STRVAR(to_numpy_doc,
             "to_numpy($self, /, dtype=None, copy=None)\n--\n\n"
             "Like __array__, with the types of ml_dtypes for tier 2 (spec 8.5).\n\n"
             "float8 types are shared; those narrower than a byte are unpacked, one byte per "
             "element, which is a\n"
             "copy. float128 and private types have no counterpart: UnsupportedError."
             "\n\n"
             ">>> hurray.asarray([True, False]).to_numpy()\n"
             "array([ True, False])");

static PyObject *tensor_to_numpy(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                 PyObject *kwnames) {
    static const Signature signature = {"to_numpy", {{"dtype", 0}, {"copy", 0}}};
    return export_array(self, &signature, args, nargs, kwnames, true);
}

PyMethodDef numpy_tensor_methods[] = {
    {"__array__", CORE_METHOD(tensor_array), METH_FASTCALL | METH_KEYWORDS, array_doc},
    {"to_numpy", CORE_METHOD(tensor_to_numpy), METH_FASTCALL | METH_KEYWORDS, to_numpy_doc},
    {NULL, NULL, 0, NULL},
};

/* ---- __array_interface__ ---- */

/* A tuple of Py_ssize_t as Python sees it. */
static PyObject *ssize_tuple(const Py_ssize_t *values, uint32_t count) {
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (uint32_t k = 0; tuple != NULL && k < count; k++) {
        PyObject *value = PyLong_FromSsize_t(values[k]);
        if (value == NULL) {
            Py_CLEAR(tuple);
        } else {
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)k, value);
        }
    }
    return tuple;
}

static PyObject *interface_dict(const HostArray *host, const char *typestr) {
    Py_ssize_t shape[HURRAY_MAX_RANK], strides[HURRAY_MAX_RANK];
    Py_ssize_t element_bytes = hurray_element_type_from_tag(host->type_tag)->bits / 8;
    host_array_byte_strides(host, element_bytes, shape, strides);
    PyObject *shape_object = ssize_tuple(shape, host->rank);
    PyObject *strides_object =
        host_array_is_row_major(host) ? Py_NewRef(Py_None) : ssize_tuple(strides, host->rank);
    PyObject *dict = NULL;
    if (shape_object != NULL && strides_object != NULL) {
        char order = element_bytes == 1 ? '|' : PY_LITTLE_ENDIAN ? '<' : '>';
        PyObject *typestr_object = PyUnicode_FromFormat("%c%s", order, typestr);
        dict = Py_BuildValue("{s:i,s:O,s:N,s:(NO),s:O}", "version", 3, "shape", shape_object,
                             "typestr", typestr_object, "data", PyLong_FromVoidPtr(host->data),
                             host->read_only ? Py_True : Py_False, "strides", strides_object);
    }
    Py_XDECREF(shape_object);
    Py_XDECREF(strides_object);
    return dict;
}

static PyObject *get_array_interface(PyObject *self, void *closure) {
    (void)closure;
    HostArray host;
    if (!host_array_of(tensor_of(self), PyExc_AttributeError, PyExc_AttributeError, &host)) {
        return NULL;
    }
    const NativeType *native = native_type(host.type_tag);
    if (native == NULL || host.type_tag == HURRAY_TYPE_BOOL) {
        const HurrayElementType *type = hurray_element_type_from_tag(host.type_tag);
        PyErr_Format(PyExc_AttributeError, "dtype %s has no __array_interface__",
                     type == NULL ? "of a private type" : type->name);
        return NULL;
    }
    return interface_dict(&host, native->typestr);
}

PyGetSetDef numpy_tensor_getset[] = {
    {"__array_interface__", get_array_interface, NULL,
     "NumPy's array interface, version 3: a dict with shape (elements), typestr, strides (bytes, "
     "or\n"
     "None for row-major) and data (address, read-only). Absent (AttributeError) where NumPy has "
     "no\n"
     "such type, or the tensor is not dense memory of the CPU (spec 8.5).",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- through NumPy: other protocols, and casts ---- */

/* numpy.asarray(object); with copy=False where NumPy knows the word. */
static PyObject *call_asarray(void **PyArray_API, PyObject *object, HurrayCopy copy) {
    PyObject *numpy = PyImport_ImportModule("numpy");
    if (numpy == NULL) return NULL;
    bool strictly =
        copy == HURRAY_COPY_NEVER && PyArray_GetNDArrayCFeatureVersion() >= NPY_2_0_API_VERSION;
    PyObject *function = PyObject_GetAttrString(numpy, "asarray");
    PyObject *args = PyTuple_Pack(1, object);
    PyObject *kwargs = strictly ? Py_BuildValue("{s:O}", "copy", Py_False) : NULL;
    PyObject *array = NULL;
    if (function != NULL && args != NULL && (kwargs != NULL || !strictly)) {
        array = PyObject_Call(function, args, kwargs);
    }
    Py_XDECREF(kwargs);
    Py_XDECREF(args);
    Py_XDECREF(function);
    Py_DECREF(numpy);
    return array;
}

/* NumPy says "a copy is needed" with a ValueError; here that has a class of its own. */
static void reword_copy_error(CoreState *state) {
    if (!PyErr_ExceptionMatches(PyExc_ValueError)) return;
    PyErr_Clear();
    PyErr_SetString(state->CopyRequiredError,
                    "NumPy cannot view this object as an array without a copy, and copy=False "
                    "forbids it");
}

PyObject *tensor_through_numpy(CoreState *state, PyObject *object, HurrayCopy copy) {
    void **PyArray_API = numpy_table(state);
    if (PyArray_API == NULL) return NULL;
    PyObject *array = call_asarray(PyArray_API, object, copy);
    if (array == NULL) {
        if (copy == HURRAY_COPY_NEVER) reword_copy_error(state);
        return NULL;
    }
    PyObject *tensor = tensor_from_array(state, array, copy);
    Py_DECREF(array);
    return tensor;
}

/* NumPy's cast, straight into the memory of a new tensor. */
static PyObject *cast_into_new(void **PyArray_API, CoreState *state, PyArrayObject *source,
                               uint8_t tag, PyArray_Descr *descr) {
    NewTensor made = {
        .function = "asarray",
        .type = hurray_element_type_from_tag(tag),
        .rank = (uint32_t)PyArray_NDIM(source),
    };
    for (uint32_t k = 0; k < made.rank; k++) made.shape[k] = (uint64_t)PyArray_DIMS(source)[k];
    if (!new_tensor_allocate(state, &made, false)) return NULL;
    if (made.count != 0) {
        Py_INCREF(descr);
        PyObject *target =
            PyArray_NewFromDescr(&PyArray_Type, descr, (int)made.rank, PyArray_DIMS(source), NULL,
                                 made.data, NPY_ARRAY_CARRAY, NULL);
        int failed = target == NULL || PyArray_CopyInto((PyArrayObject *)target, source) < 0;
        Py_XDECREF(target);
        if (failed) return new_tensor_abandon(&made);
    }
    return new_tensor_finish(state, &made);
}

PyObject *tensor_cast(CoreState *state, PyObject *tensor, uint8_t tag) {
    void **PyArray_API = numpy_table(state);
    if (PyArray_API == NULL) return NULL;
    ArrayRequest request = {"asarray()", true, NULL, HURRAY_COPY_IF_NEEDED};
    PyObject *source = array_of_tensor(PyArray_API, state, tensor, &request);
    if (source == NULL) return NULL;
    PyArray_Descr *descr = descr_of_tag(PyArray_API, state, tag);
    PyObject *result = NULL;
    if (descr != NULL && hurray_element_type_from_tag(tag)->bits < 8) {
        Py_INCREF(descr);
        PyObject *cast = PyArray_CastToType((PyArrayObject *)source, descr, 0);
        if (cast != NULL) result = tensor_from_array(state, cast, HURRAY_COPY_IF_NEEDED);
        Py_XDECREF(cast);
    } else if (descr != NULL) {
        result = cast_into_new(PyArray_API, state, (PyArrayObject *)source, tag, descr);
    }
    Py_XDECREF(descr);
    Py_DECREF(source);
    return result;
}

/* ---- aligned_allocator ---- */

/*
 * NumPy's data-memory handler (NEP 49). An array keeps a reference to the capsule around the handler
 * that made it, and frees through it, so the functions below outlive every block. NumPy keeps the
 * current handler in a context variable: a new thread begins with NumPy's own.
 */

static void *handler_malloc(void *context, size_t size) {
    (void)context;
    return hurray_aligned_alloc(size, HURRAY_MIN_BUFFER_ALIGNMENT, false);
}

static void *handler_calloc(void *context, size_t count, size_t size) {
    (void)context;
    if (size != 0 && count > SIZE_MAX / size) return NULL;
    return hurray_aligned_alloc(count * size, HURRAY_MIN_BUFFER_ALIGNMENT, true);
}

static void *handler_realloc(void *context, void *data, size_t size) {
    (void)context;
    return hurray_aligned_resize(data, size, HURRAY_MIN_BUFFER_ALIGNMENT);
}

static void handler_free(void *context, void *data, size_t size) {
    (void)context;
    (void)size;
    hurray_aligned_free(data);
}

static const PyDataMem_Handler aligned_handler = {
    .name = "hurray_aligned",
    .version = 1,
    .allocator = {NULL, handler_malloc, handler_calloc, handler_realloc, handler_free},
};

typedef struct AlignedAllocatorObject {
    PyObject_HEAD atomic_bool is_taken; /* by the thread that enters it, until one has left it */
    _Atomic(PyObject *) previous;       /* the handler to restore; NULL while not active */
} AlignedAllocatorObject;

static AlignedAllocatorObject *allocator_of(PyObject *self) {
    return (AlignedAllocatorObject *)self;
}

/* Makes our handler NumPy's; the one before it as a new reference, NULL with an exception. */
static PyObject *install_handler(void **PyArray_API) {
    /* NumPy reads the handler only; the capsule takes no const. */
    PyObject *handler = PyCapsule_New((void *)(uintptr_t)&aligned_handler, "mem_handler", NULL);
    if (handler == NULL) return NULL;
    PyObject *previous = PyDataMem_SetHandler(handler);
    Py_DECREF(handler);
    return previous;
}

static PyObject *allocator_enter(PyObject *self, PyObject *unused) {
    (void)unused;
    AlignedAllocatorObject *allocator = allocator_of(self);
    void **PyArray_API = numpy_table(core_state_of(self));
    if (PyArray_API == NULL) return NULL;
    if (atomic_exchange(&allocator->is_taken, true)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "this aligned_allocator is already active; nest a second one instead");
        return NULL;
    }
    PyObject *previous = install_handler(PyArray_API);
    allocator->previous = previous;
    if (previous != NULL) return Py_NewRef(self);
    allocator->is_taken = false;
    return NULL;
}

static PyObject *allocator_exit(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)args;
    (void)nargs;
    AlignedAllocatorObject *allocator = allocator_of(self);
    void **PyArray_API = numpy_table(core_state_of(self));
    if (PyArray_API == NULL) return NULL;
    PyObject *previous = atomic_exchange(&allocator->previous, NULL);
    if (previous == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this aligned_allocator is not active");
        return NULL;
    }
    PyObject *ours = PyDataMem_SetHandler(previous);
    if (ours == NULL) {
        allocator->previous = previous; /* still active: to be left once more */
        return NULL;
    }
    Py_DECREF(ours);
    Py_DECREF(previous);
    allocator->is_taken = false;
    Py_RETURN_NONE;
}

static PyObject *allocator_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static const Signature signature = {"aligned_allocator", {{NULL, 0}}};
    PyObject *values[1];
    if (!arguments_parse_new(&signature, args, kwargs, values)) return NULL;
    return type->tp_alloc(type, 0);
}

static int allocator_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(allocator_of(self)->previous);
    return 0;
}

static int allocator_clear(PyObject *self) {
    Py_XDECREF(atomic_exchange(&allocator_of(self)->previous, NULL));
    return 0;
}

static void allocator_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    allocator_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(allocator_doc, "aligned_allocator()\n--\n\n"
                            "A context manager in which NumPy's new arrays are 64-byte aligned "
                            "(spec 8.5), so that from_numpy\n"
                            "shares them.\n\n"
                            "Installs a data-memory handler (NEP 49) named \"hurray_aligned\" and "
                            "restores the previous one on\n"
                            "exit. Nests; entering an object again while it is active is a "
                            "RuntimeError. The arrays may outlive\n"
                            "the block; threads started inside do not inherit it. Entering without "
                            "NumPy is an ImportError.\n\n"
                            "Each object restores the handler that it found when it was entered. "
                            "Two that are left out of\n"
                            "order (the outer one first) thus leave the outer one's handler "
                            "behind, \"hurray_aligned\": new\n"
                            "arrays stay aligned until another handler is set; nothing else "
                            "breaks."
                            "\n\n"
                            ">>> with hurray.aligned_allocator():\n"
                            "...     a = np.ones(1000)\n"
                            ">>> a.ctypes.data % 64\n"
                            "0\n"
                            ">>> t = hurray.from_numpy(a, copy=False)");

static PyMethodDef allocator_methods[] = {
    {"__enter__", allocator_enter, METH_NOARGS, NULL},
    {"__exit__", CORE_METHOD(allocator_exit), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot allocator_slots[] = {
    {Py_tp_doc, (void *)(uintptr_t)allocator_doc},
    {Py_tp_new, allocator_new},
    {Py_tp_traverse, allocator_traverse},
    {Py_tp_clear, allocator_clear},
    {Py_tp_dealloc, allocator_dealloc},
    {Py_tp_methods, allocator_methods},
    {0, NULL},
};

static PyType_Spec allocator_spec = {
    .name = "hurray.aligned_allocator",
    .basicsize = sizeof(AlignedAllocatorObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = allocator_slots,
};

/* ---- setup ---- */

static PyMethodDef functions[] = {
    {"from_numpy", CORE_METHOD(from_numpy), METH_FASTCALL | METH_KEYWORDS, from_numpy_doc},
    {NULL, NULL, 0, NULL},
};

int numpy_setup(PyObject *module, CoreState *state) {
    state->AlignedAllocatorType = core_add_type(module, &allocator_spec, NULL);
    if (state->AlignedAllocatorType == NULL) return -1;
    return PyModule_AddFunctions(module, functions);
}
