/*
 * The buffer protocol (PEP 3118), both ways: memoryview(t) for dense tensors on the CPU whose dtype
 * has a format code (spec 8.3), and tensors over whatever exports a buffer (spec 8.4).
 */
#include "host_array.h"
#include "new_tensor.h"

/* ---- format codes ---- */

/* 64-bit integers under the code that NumPy gives its own int64, so that the dtypes are the same. */
#define CODE_INT64 (sizeof(long) == 8 ? "l" : "q")
#define CODE_UINT64 (sizeof(long) == 8 ? "L" : "Q")

const char *buffer_format(uint8_t type_tag) {
    switch (type_tag) {
    case HURRAY_TYPE_FLOAT16: return "e";
    case HURRAY_TYPE_FLOAT32: return "f";
    case HURRAY_TYPE_FLOAT64: return "d";
    case HURRAY_TYPE_INT8: return "b";
    case HURRAY_TYPE_UINT8: return "B";
    case HURRAY_TYPE_INT16: return "h";
    case HURRAY_TYPE_UINT16: return "H";
    case HURRAY_TYPE_INT32: return "i";
    case HURRAY_TYPE_UINT32: return "I";
    case HURRAY_TYPE_INT64: return CODE_INT64;
    case HURRAY_TYPE_UINT64: return CODE_UINT64;
    case HURRAY_TYPE_COMPLEX64: return "Zf";
    case HURRAY_TYPE_COMPLEX128: return "Zd";
    default: return NULL;
    }
}

/* What a code says of an element; the exporter's itemsize gives the width. */
typedef struct FormatCode {
    const char *codes;
    uint8_t by_bytes[5]; /* type tags for 1, 2, 4, 8 and 16 bytes; 0: none */
} FormatCode;

/*
 * The width comes from itemsize because exporters disagree about prefixes: ctypes writes "<l" for a
 * long of eight bytes. A code of fixed width allows that width only.
 */
static const FormatCode format_codes[] = {
    {"b", {HURRAY_TYPE_INT8}},
    {"B", {HURRAY_TYPE_UINT8}},
    {"h", {0, HURRAY_TYPE_INT16}},
    {"H", {0, HURRAY_TYPE_UINT16}},
    {"i", {0, HURRAY_TYPE_INT16, HURRAY_TYPE_INT32}},
    {"I", {0, HURRAY_TYPE_UINT16, HURRAY_TYPE_UINT32}},
    {"l", {0, 0, HURRAY_TYPE_INT32, HURRAY_TYPE_INT64}},
    {"L", {0, 0, HURRAY_TYPE_UINT32, HURRAY_TYPE_UINT64}},
    {"q", {0, 0, 0, HURRAY_TYPE_INT64}},
    {"Q", {0, 0, 0, HURRAY_TYPE_UINT64}},
    {"n", {0, 0, HURRAY_TYPE_INT32, HURRAY_TYPE_INT64}},
    {"N", {0, 0, HURRAY_TYPE_UINT32, HURRAY_TYPE_UINT64}},
    {"e", {0, HURRAY_TYPE_FLOAT16}},
    {"f", {0, 0, HURRAY_TYPE_FLOAT32}},
    {"d", {0, 0, 0, HURRAY_TYPE_FLOAT64}},
    {"?", {HURRAY_TYPE_BOOL}},
    {"Zf", {0, 0, 0, HURRAY_TYPE_COMPLEX64}},
    {"Zd", {0, 0, 0, 0, HURRAY_TYPE_COMPLEX128}},
    {"F", {0, 0, 0, HURRAY_TYPE_COMPLEX64}}, /* the struct module's names from Python 3.14 on */
    {"D", {0, 0, 0, 0, HURRAY_TYPE_COMPLEX128}},
};

static int width_index(Py_ssize_t bytes) {
    switch (bytes) {
    case 1: return 0;
    case 2: return 1;
    case 4: return 2;
    case 8: return 3;
    case 16: return 4;
    default: return -1;
    }
}

static bool is_foreign_order(char prefix) {
    return PY_LITTLE_ENDIAN ? prefix == '>' || prefix == '!' : prefix == '<';
}

/* The type tag of a format; 0 with UnsupportedError naming it. */
static uint8_t tag_of_format(CoreState *state, const char *format, Py_ssize_t itemsize) {
    if (format == NULL) format = "B";
    if (is_foreign_order(*format)) {
        PyErr_Format(state->UnsupportedError,
                     "buffer format '%s' is in the byte order of other machines", format);
        return 0;
    }
    bool has_prefix = *format != '\0' && strchr("@=<>!", *format) != NULL;
    const char *code = has_prefix ? format + 1 : format;
    int width = width_index(itemsize);
    for (size_t i = 0; width >= 0 && i < Py_ARRAY_LENGTH(format_codes); i++) {
        uint8_t tag = format_codes[i].by_bytes[width];
        if (tag != 0 && strcmp(code, format_codes[i].codes) == 0) return tag;
    }
    PyErr_Format(state->UnsupportedError,
                 "buffer format '%s' with items of %zd bytes has no Hurray dtype", format,
                 itemsize);
    return 0;
}

/* ---- out: memoryview(t) ---- */

/* Where there is nothing to point at, consumers still like an address. */
static const char no_elements[64];

/* The format and bytes of all elements; -1 where the protocol cannot say it. */
static int describe_elements(CoreState *state, const HostArray *array, Py_buffer *view) {
    const HurrayElementType *type = hurray_element_type_from_tag(array->type_tag);
    const char *format = buffer_format(array->type_tag);
    if (format == NULL) {
        PyErr_Format(state->ExportRefused,
                     "dtype %s has no buffer format code; to_numpy() gives an array",
                     type == NULL ? "private" : type->name);
        return -1;
    }
    view->itemsize = type->bits / 8;
    if (array->count > (uint64_t)PY_SSIZE_T_MAX / (type->bits / 8u)) {
        PyErr_SetString(state->ExportRefused, "the tensor has more bytes than a buffer can count");
        return -1;
    }
    view->len = (Py_ssize_t)array->count * view->itemsize;
    view->format = (char *)(uintptr_t)format; /* the struct has no const; nobody writes it */
    return 0;
}

/* Whether the strides suit a consumer that asked with `flags`; -1 with an exception if not. */
static int check_order(CoreState *state, const HostArray *array, int flags) {
    bool needs_row_major = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS ||
                           (flags & PyBUF_STRIDES) != PyBUF_STRIDES;
    bool needs_col_major = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS;
    bool needs_either = (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;
    if (!needs_row_major && !needs_col_major && !needs_either) return 0;
    bool row_major = host_array_is_row_major(array);
    if (needs_row_major && !row_major) {
        PyErr_SetString(state->ExportRefused,
                        "the tensor is not C-contiguous, and the consumer asks for no strides");
        return -1;
    }
    bool col_major = host_array_is_col_major(array);
    if ((needs_col_major && !col_major) || (needs_either && !row_major && !col_major)) {
        PyErr_Format(state->ExportRefused, "the tensor is not %scontiguous",
                     needs_col_major ? "Fortran " : "");
        return -1;
    }
    return 0;
}

/* shape and strides into one block, which releasebuffer frees. */
static int describe_dimensions(const HostArray *array, Py_buffer *view, int flags) {
    view->ndim = (int)array->rank;
    view->internal = NULL;
    view->shape = view->strides = NULL;
    if ((flags & PyBUF_ND) != PyBUF_ND) {
        view->ndim = 1; /* plain bytes */
        return 0;
    }
    if (array->rank == 0) return 0;
    Py_ssize_t *block = PyMem_New(Py_ssize_t, 2 * (size_t)array->rank);
    if (block == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    host_array_byte_strides(array, view->itemsize, block, block + array->rank);
    view->internal = block;
    view->shape = block;
    if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES) view->strides = block + array->rank;
    return 0;
}

int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    view->obj = NULL;
    CoreState *state = core_state_of(self);
    HostArray array;
    if (!host_array_of(tensor_of(self), state->ExportRefused, state->ExportRefused, &array)) {
        return -1;
    }
    if (array.read_only && (flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
        PyErr_SetString(state->ExportRefused, "the tensor is read-only");
        return -1;
    }
    if (describe_elements(state, &array, view) < 0 || check_order(state, &array, flags) < 0 ||
        describe_dimensions(&array, view, flags) < 0) {
        return -1;
    }
    if ((flags & PyBUF_FORMAT) != PyBUF_FORMAT) view->format = NULL;
    view->buf = array.data != NULL ? array.data : (void *)(uintptr_t)no_elements;
    view->readonly = array.read_only;
    view->suboffsets = NULL;
    view->obj = Py_NewRef(self);
    return 0;
}

void tensor_releasebuffer(PyObject *self, Py_buffer *view) {
    (void)self;
    PyMem_Free(view->internal);
}

/* ---- in: tensors over exporters ---- */

/*
 * shape, and strides in elements, of a view. False where a stride is no whole number of elements,
 * as in a column of a table.
 */
static bool read_dimensions(const Py_buffer *view, uint64_t *shape, int64_t *strides) {
    for (int k = 0; k < view->ndim; k++) {
        shape[k] = (uint64_t)view->shape[k];
        strides[k] = view->strides[k] / view->itemsize;
        if (view->shape[k] > 1 && view->strides[k] % view->itemsize != 0) return false;
    }
    return true;
}

/* Elements that lie at odd distances: a row-major copy made by the exporter's rules. */
static PyObject *copy_odd_strides(CoreState *state, const HostArray *array, Py_buffer *view) {
    NewTensor made = {
        .function = "asarray",
        .type = hurray_element_type_from_tag(array->type_tag),
        .rank = array->rank,
    };
    memcpy(made.shape, array->shape, array->rank * sizeof *made.shape);
    if (!new_tensor_allocate(state, &made, false)) return NULL;
    if (PyBuffer_ToContiguous(made.data, view, view->len, 'C') < 0)
        return new_tensor_abandon(&made);
    return new_tensor_finish(state, &made);
}

static PyObject *tensor_from_view(CoreState *state, PyObject *memoryview, HurrayCopy copy) {
    Py_buffer *view = PyMemoryView_GET_BUFFER(memoryview);
    if (view->suboffsets != NULL) {
        PyErr_SetString(state->UnsupportedError,
                        "the buffer is indirect (it has suboffsets); pass a contiguous copy of it");
        return NULL;
    }
    uint8_t tag = tag_of_format(state, view->format, view->itemsize);
    if (tag == 0) return NULL;
    uint64_t shape[HURRAY_MAX_RANK];
    int64_t strides[HURRAY_MAX_RANK];
    HostArray array = {
        .data = view->buf,
        .type_tag = tag,
        .read_only = view->readonly != 0,
        .rank = (uint32_t)view->ndim, /* PyBUF_MAX_NDIM is 64 */
        .shape = shape,
        .strides = strides,
    };
    if (read_dimensions(view, shape, strides)) {
        return host_array_adopt(state, &array, memoryview, copy);
    }
    if (copy == HURRAY_COPY_NEVER) {
        PyErr_Format(state->CopyRequiredError,
                     "the strides of the buffer are no multiples of its %zd-byte items; sharing it "
                     "without a copy needs that",
                     view->itemsize);
        return NULL;
    }
    return copy_odd_strides(state, &array, view);
}

PyObject *tensor_from_buffer(CoreState *state, PyObject *object, HurrayCopy copy) {
    PyObject *memoryview = PyMemoryView_FromObject(object);
    if (memoryview == NULL) return NULL;
    PyObject *tensor = tensor_from_view(state, memoryview, copy);
    Py_DECREF(memoryview);
    return tensor;
}
