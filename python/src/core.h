/*
 * What the files of the extension share: the state of a module, and the functions they offer each
 * other. A file per Python concept; each makes its types in its own `…_setup(module, state)`.
 *
 * Nothing here is static and mutable: state hangs on the module, so that every interpreter has its
 * own. Types cannot be subclassed, which makes Py_TYPE(self) the exact type and its state ours.
 *
 * Threads may run at the same time. Objects do not change once they are made, nor does the state
 * once the module is there, but for the few fields that are atomic.
 */
#ifndef HURRAY_PYTHON_CORE_H
#define HURRAY_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <hurray/hurray.h>
#include <stdatomic.h>
#include <stdbool.h>

/* A METH_FASTCALL | METH_KEYWORDS function in a PyMethodDef. */
#define CORE_METHOD(function) ((PyCFunction)(void (*)(void))(function))

/* ---- threads ---- */

/*
 * Around statements that no two threads may run at once with the same `object`. With a GIL that is
 * so anyway; without, the object's own lock is held. Nothing in between waits, runs Python code or
 * jumps out.
 */
#ifdef Py_GIL_DISABLED
#define CORE_LOCK(object) Py_BEGIN_CRITICAL_SECTION(object)
#define CORE_UNLOCK() Py_END_CRITICAL_SECTION()
#else
#define CORE_LOCK(object) {
#define CORE_UNLOCK() }
#endif

/* ---- module state ---- */

/* Attribute and keyword names that are looked up on hot paths, interned once. X(identifier) */
#define CORE_NAMES(X)            \
    X(__array__)                 \
    X(__array_interface__)       \
    X(__dlpack__)                \
    X(__dlpack_c_exchange_api__) \
    X(__dlpack_device__)         \
    X(__hurray__)                \
    X(copy)                      \
    X(dl_device)                 \
    X(is_conj)                   \
    X(is_neg)                    \
    X(max_version)               \
    X(requires_grad)             \
    X(stream)                    \
    X(to_scipy)

#define CORE_MAX_METHODS 40
#define CORE_MAX_GETSET 48
#define CORE_LAYOUT_CLASSES 14
#define CORE_SCHEME_CLASSES 5

typedef struct CoreState {
    /* errors.c */
    PyObject *InvalidDescriptorError;
    PyObject *BufferError;
    PyObject *CopyRequiredError;
    PyObject *UnsupportedError;
    PyObject *FileError;
    PyObject *StreamError;
    PyObject *InternalError;
    PyObject *ExportRefused; /* built-in BufferError and UnsupportedError at once (spec 8.1) */
    PyObject *MissingName;   /* FileError and KeyError at once */

    /* dtype.c */
    PyTypeObject *DtypeType;
    PyObject *dtypes[256]; /* by tag; NULL for tags that are no type */

    /* device.c */
    PyTypeObject *DeviceType;
    PyObject *cpu; /* Device('cpu'), which nearly every tensor has */

    /* layout.c */
    PyTypeObject *LayoutType; /* abstract base */
    PyTypeObject *layout_types[CORE_LAYOUT_CLASSES];

    /* scheme.c */
    PyTypeObject *scheme_types[CORE_SCHEME_CLASSES];

    /* sections.c */
    PyTypeObject *StatisticsType;
    PyTypeObject *ShardType;
    PyTypeObject *ExtensionTypeType;

    /* descriptor.c */
    PyTypeObject *DescriptorType;
    PyTypeObject *BufferHandleType;

    /* tensor.c: the type, and the tables of several files that it points to */
    PyTypeObject *TensorType;
    PyMethodDef tensor_methods[CORE_MAX_METHODS];
    PyGetSetDef tensor_getset[CORE_MAX_GETSET];

    /* numpy.c */
    PyTypeObject *AlignedAllocatorType;
    _Atomic(void **) numpy_api; /* NumPy's C API table, NULL until NumPy is first needed */
    PyObject *ml_dtypes[256];   /* descr objects by tag; not changed any more once it is … */
    atomic_bool has_ml_dtypes;  /* … filled, when ml_dtypes is first needed */

    /* dlpack.c */
    PyObject *exchange_api;       /* the capsule behind Tensor.__dlpack_c_exchange_api__ */
    PyObject *dlpack_max_version; /* (1, 3), what consumers of ours say */
    PyObject *dlpack_cpu;         /* (1, 0), the __dlpack_device__ that nearly every tensor has */

    /* torch.c */
    _Atomic(const HurrayDLPackExchangeAPI *) torch_api; /* NULL until torch is first needed */

    /* pickle.c */
    PyObject *restore_tensor; /* hurray._core._restore_tensor, which pickles call */

    /* stream_writer.c, stream_reader.c */
    PyTypeObject *StreamWriterType;
    PyTypeObject *StreamReaderType;

    /* composite.c */
    PyTypeObject *CompositeType;
    PyObject *restore_composite; /* hurray._core._restore_composite, likewise */

    struct {
#define X(name) PyObject *name;
        CORE_NAMES(X)
#undef X
    } names;
} CoreState;

extern struct PyModuleDef core_module; /* module.c */

static inline CoreState *core_state_of_module(PyObject *module) {
    return (CoreState *)PyModule_GetState(module);
}

/* The state behind an object whose type is one of ours. */
static inline CoreState *core_state_of(PyObject *self) {
    return (CoreState *)PyType_GetModuleState(Py_TYPE(self));
}

/* The state of this interpreter's module where no object leads to it; NULL with an exception. */
CoreState *core_state_find(void);

/* An imported module, without importing it: new reference, or NULL without an exception. */
PyObject *core_loaded_module(const char *name);

/* module.function(argument) of the package's Python code, imported by its full name. */
PyObject *core_call_glue(const char *module, const char *function, PyObject *argument);

/* Makes a heap type in the module and adds it under its own name. Borrowed from the state; NULL
 * with an exception. */
PyTypeObject *core_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject *base);

/* ---- errors.c ---- */

int errors_setup(PyObject *module, CoreState *state);

/*
 * Sets the exception of a failed library call, with the library's message, and returns NULL.
 * This is the one place where a HurrayStatus becomes a class:
 *   INVALID_MAGIC, VERSION_MISMATCH, INVALID_LAYOUT, INVALID_TYPE, INVALID_SYNC_MODE,
 *   SYNC_MODE_MISMATCH, INTERNAL (quantization, composite), DATA_INVALID -> InvalidDescriptorError
 *   BUFFER_TOO_SMALL, BAD_PRODUCER, NULL_POINTER -> hurray.BufferError
 *   INDEX_OUT_OF_BOUNDS -> IndexError   OUT_OF_MEMORY -> MemoryError
 *   INVALID_ARGUMENT -> ValueError      UNSUPPORTED -> UnsupportedError
 *   COPY_REQUIRED -> CopyRequiredError  INTERNAL_PANIC, unknown -> InternalError
 *   IO (with its errno), FILE_INVALID -> FileError   STREAM_INVALID, CLOSED -> StreamError
 *   NOT_FOUND -> MissingName            INTERRUPTED: the exception that a signal handler raised
 */
PyObject *raise_status(CoreState *state, HurrayStatus status);

/* The same for a function that was given a path, which a FileError then names. NULL: no path. */
PyObject *raise_status_for_path(CoreState *state, HurrayStatus status, PyObject *path);

/* The same message as an exception of the caller's choice. Returns NULL. */
PyObject *raise_status_as(PyObject *exception, HurrayStatus status);

/* ---- owner.c: a Python object that keeps memory alive ---- */

/*
 * A context for owner_release that holds a new reference to `object` and knows its interpreter;
 * NULL with MemoryError.
 */
void *owner_new(PyObject *object);
/* A HurrayReleaseCallback: drops the reference, from any thread, attached to Python or not. While
 * the interpreter goes down the reference is left alone. */
void owner_release(void *data, void *context);
/* Undoes owner_new on a path that failed; the caller holds the GIL. */
void owner_discard(void *context);

/* ---- dtype.c ---- */

int dtype_setup(PyObject *module, CoreState *state);
/* The Dtype of a tag, borrowed: NULL with InvalidDescriptorError for no type. */
PyObject *dtype_from_tag(CoreState *state, uint8_t tag);
/* The tag of a Dtype; false with TypeError naming `argument` for anything else. */
bool dtype_as_tag(CoreState *state, PyObject *object, const char *argument, uint8_t *out);

/* ---- device.c ---- */

int device_setup(PyObject *module, CoreState *state);
/* A new reference to a Device of that value; the cpu one is shared. NULL with an exception. */
PyObject *device_new(CoreState *state, HurrayDevice device);
/* The value of a Device; false with TypeError naming `argument` for anything else. */
bool device_as_value(CoreState *state, PyObject *object, const char *argument, HurrayDevice *out);

/* ---- layout.c ---- */

int layout_setup(PyObject *module, CoreState *state);
/* A new Layout object of that value; NULL with an exception. */
PyObject *layout_new(CoreState *state, const HurrayLayout *layout, uint32_t rank);
/* The value of a Layout for a tensor of `rank` dimensions, borrowing its arrays; false with
 * TypeError naming hurray.Layout for anything else, InvalidDescriptorError for another rank. */
bool layout_for_rank(CoreState *state, PyObject *object, uint32_t rank, HurrayLayout *out);

/* ---- scheme.c ---- */

int scheme_setup(PyObject *module, CoreState *state);
/* A new scheme object; UnsupportedError for one that has no class. */
PyObject *scheme_new(CoreState *state, const HurrayQuantization *quantization);
/* The value of a scheme, borrowing its trailing bytes; false with TypeError naming `argument`. */
bool scheme_as_value(CoreState *state, PyObject *object, const char *argument,
                     HurrayQuantization *out);

/* ---- sections.c ---- */

int sections_setup(PyObject *module, CoreState *state);
PyObject *statistics_new(CoreState *state, const HurrayStatistics *statistics);
PyObject *shard_new(CoreState *state, const HurrayShard *shard, uint32_t rank);
PyObject *extension_type_new(CoreState *state, const HurrayExtensionType *type);
/* "base", "correction", or None for NULL. */
PyObject *member_role_new(const HurrayCompositeMember *member);
/* Their values, borrowing arrays; false with TypeError naming the argument. A shard of another rank
 * is an InvalidDescriptorError, another role a ValueError. */
bool statistics_as_value(CoreState *state, PyObject *object, HurrayStatistics *out);
bool shard_for_rank(CoreState *state, PyObject *object, uint32_t rank, HurrayShard *out);
bool extension_type_as_value(CoreState *state, PyObject *object, HurrayExtensionType *out);
bool member_role_as_value(PyObject *object, HurrayCompositeMember *out);

/* ---- descriptor.c ---- */

int descriptor_setup(PyObject *module, CoreState *state);
/* A new Descriptor that is a copy of valid fields. */
PyObject *descriptor_new(CoreState *state, const HurrayDescriptorFields *fields);
/* A new tuple of BufferHandle; `device` is the Device they all show. */
PyObject *buffer_handles_new(CoreState *state, const HurrayDescriptorFields *fields,
                             PyObject *device);
/* shape as Python shows it: a tuple of int, None where dynamic. */
PyObject *shape_tuple(const uint64_t *shape, uint32_t rank);
/* i64[rank] as a tuple of int. */
PyObject *strides_tuple(const int64_t *strides, uint32_t rank);

/*
 * Reads a shape: any sequence of ints >= 0 or None (dynamic), or one int. Writes at most
 * HURRAY_MAX_RANK extents. False with an exception: TypeError for other things,
 * InvalidDescriptorError for negative entries (mentioning None), entries of 2^64 − 1 and more, and
 * more than 64 of them.
 */
bool shape_from_object(CoreState *state, PyObject *object, uint64_t *shape, uint32_t *rank);

/* Bytes as both of them show them, None while a dimension leaves them open: packed elements of dense
 * tensors; all buffers of quantized ones and of other layouts. */
PyObject *fields_nbytes(CoreState *state, const HurrayDescriptorFields *fields);

/* The bytes of a descriptor, a new bytes object; NULL with an exception. */
PyObject *fields_encoded(CoreState *state, const HurrayDescriptorFields *fields);

/* The sections of a descriptor; as integers they are closures of attributes. */
enum {
    FIELDS_QUANTIZATION,
    FIELDS_STATISTICS,
    FIELDS_SHARD,
    FIELDS_EXTENSION_TYPE,
    FIELDS_MEMBER_ROLE
};
/* A new object for one of them, None where it is absent. */
PyObject *fields_section(CoreState *state, const HurrayDescriptorFields *fields, void *section);

/* ---- tensor.c ---- */

typedef struct TensorObject {
    PyObject_HEAD HurrayTensor *tensor;
    PyObject *device; /* the Device of all buffers */
    PyObject *weak_references;
} TensorObject;

int tensor_setup(PyObject *module, CoreState *state);
/* A new Tensor that takes over one reference to `tensor`, also on failure (NULL). */
PyObject *tensor_wrap(CoreState *state, HurrayTensor *tensor);

/* tp_new; in tensor_constructor.c. */
PyObject *tensor_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);

static inline bool tensor_check(CoreState *state, PyObject *object) {
    return Py_IS_TYPE(object, state->TensorType);
}

/* Whether it is a Tensor of any interpreter's module, where no state is at hand to ask. */
bool tensor_is_any(PyObject *object);

static inline HurrayTensor *tensor_of(PyObject *self) { return ((TensorObject *)self)->tensor; }

/*
 * copy= of every function that has it: None -> IF_NEEDED, False -> NEVER, True -> ALWAYS (by truth
 * value). False with an exception.
 */
bool copy_from_object(PyObject *object, HurrayCopy *out);

/* From this many bytes on, a copy releases the GIL. */
#define CORE_LARGE_COPY (1u << 18)

/* ---- components.c ---- */

extern PyGetSetDef component_tensor_getset[]; /* nnz, values, indices … col_ptr */

/* ---- composite.c ---- */

int composite_setup(PyObject *module, CoreState *state);
/* A new Composite of a head, copied, and a tuple of members. `as_writer` checks what an author owes
 * beyond what a reader demands. NULL with an exception. */
PyObject *composite_new(CoreState *state, const HurrayDescriptorFields *head, PyObject *members,
                        bool as_writer);
/* The head and the tuple of members of a Composite, borrowed. */
const HurrayDescriptorFields *composite_head(PyObject *self);
PyObject *composite_members(PyObject *self);

static inline bool composite_check(CoreState *state, PyObject *object) {
    return Py_IS_TYPE(object, state->CompositeType);
}

/* ---- convert.c ---- */

/* A row-major copy of a dense, readable tensor without quantization, whose elements do not lie at
 * strides (tiled, Morton, Hilbert); NULL with an exception. */
PyObject *tensor_to_row_major(CoreState *state, const HurrayTensor *tensor);
extern PyMethodDef convert_tensor_methods[]; /* to_layout, verify */

/* ---- file_writer.c, file_reader.c: what hurray/_files.py is made of ---- */

int file_writer_setup(PyObject *module, CoreState *state);
int file_reader_setup(PyObject *module, CoreState *state);

/* ---- stream_writer.c, stream_reader.c ---- */

int stream_writer_setup(PyObject *module, CoreState *state);
int stream_reader_setup(PyObject *module, CoreState *state);

/* ---- construct.c: zeros … eye, asarray ---- */

int construct_setup(PyObject *module, CoreState *state);

/* ---- buffer_protocol.c ---- */

/* The Py_bf_getbuffer / Py_bf_releasebuffer slots of Tensor. */
int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags);
void tensor_releasebuffer(PyObject *self, Py_buffer *view);
/* The struct-module code of a dtype ("f", "Zd", …); NULL where it has none. */
const char *buffer_format(uint8_t type_tag);
/*
 * A tensor over an object with the buffer protocol: typed by its format, shared or copied by the
 * rule of adopt.h. UnsupportedError for a format without a dtype.
 */
PyObject *tensor_from_buffer(CoreState *state, PyObject *object, HurrayCopy copy);

/* ---- dlpack.c ---- */

int dlpack_setup(PyObject *module, CoreState *state);
/* from_dlpack(object, device=None, copy=…): `device` is a Device or NULL. */
PyObject *tensor_from_dlpack(CoreState *state, PyObject *object, PyObject *device, HurrayCopy copy);
/* Whether type(object) has __dlpack__. */
bool dlpack_is_producer(CoreState *state, PyObject *object);
/* The C functions that a type offers, in a version that we know; NULL without an exception. */
const HurrayDLPackExchangeAPI *dlpack_exchange_api(CoreState *state, PyTypeObject *type);
extern PyMethodDef dlpack_tensor_methods[]; /* __dlpack__, __dlpack_device__ */

/* ---- capsule.c ---- */

int capsule_setup(PyObject *module, CoreState *state);
/* from_hurray(object) */
PyObject *tensor_from_hurray(CoreState *state, PyObject *object);
extern PyMethodDef capsule_tensor_methods[]; /* __hurray__ */

/* ---- pickle.c ---- */

int pickle_setup(PyObject *module, CoreState *state);
extern PyMethodDef pickle_tensor_methods[]; /* __reduce_ex__ */

/* ---- numpy.c ---- */

int numpy_setup(PyObject *module, CoreState *state);
/* Whether the object is a numpy.ndarray; never imports NumPy (an array exists only where it is). */
bool numpy_is_array(CoreState *state, PyObject *object);
/* The same for numpy.generic. */
bool numpy_is_scalar(CoreState *state, PyObject *object);
/* from_numpy(array, copy=…) */
PyObject *tensor_from_numpy(CoreState *state, PyObject *array, HurrayCopy copy);
/* The same for any strides, where a tensor can have them; `array` must be an ndarray. */
PyObject *tensor_from_array(CoreState *state, PyObject *array, HurrayCopy copy);
/* The type and shape (room for HURRAY_MAX_RANK) of an ndarray; false with UnsupportedError. */
bool numpy_describe_array(CoreState *state, PyObject *array, uint8_t *type_tag, uint32_t *rank,
                          uint64_t *shape);
/* A tensor of what numpy.asarray makes of an object. ImportError where there is no NumPy. */
PyObject *tensor_through_numpy(CoreState *state, PyObject *object, HurrayCopy copy);
/* A row-major copy of a Tensor with elements of another type, converted by NumPy. */
PyObject *tensor_cast(CoreState *state, PyObject *tensor, uint8_t type_tag);
extern PyMethodDef numpy_tensor_methods[]; /* __array__, to_numpy */
extern PyGetSetDef numpy_tensor_getset[];  /* __array_interface__ */

/* ---- capsule.c ---- */

int capsule_setup(PyObject *module, CoreState *state);
/* from_hurray(object) */
PyObject *tensor_from_hurray(CoreState *state, PyObject *object);
extern PyMethodDef capsule_tensor_methods[]; /* __hurray__ */

/* ---- torch.c ---- */

extern PyMethodDef torch_tensor_methods[]; /* to_torch */

/* ---- sparse.c ---- */

int sparse_setup(PyObject *module, CoreState *state);
extern PyMethodDef sparse_tensor_methods[]; /* to_scipy, to_sparse */

/* ---- pickle.c ---- */

int pickle_setup(PyObject *module, CoreState *state);
/* A Tensor like `tensor`, of any layout, in memory of its own: row-major where it was strided.
 * UnsupportedError where the bytes cannot be read. */
PyObject *tensor_deep_copy(CoreState *state, const HurrayTensor *tensor);
extern PyMethodDef pickle_tensor_methods[]; /* __copy__, __deepcopy__, __reduce_ex__ */

#endif
