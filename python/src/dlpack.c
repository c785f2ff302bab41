/*
 * DLPack from both sides (spec 8.6): Tensor.__dlpack__ and its C exchange API as a producer,
 * from_dlpack as a consumer. What the structs mean is known to libhurray (hurray/dlpack.h); here are
 * capsules, keyword arguments and the manners of producers.
 */
#include "core.h"

#include "arguments.h"

#define LEGACY_NAME "dltensor"
#define LEGACY_USED "used_dltensor"
#define VERSIONED_NAME "dltensor_versioned"
#define VERSIONED_USED "used_dltensor_versioned"
#define EXCHANGE_API_NAME "dlpack_exchange_api"

/* ---- producer ---- */

/* Frees what nobody took over. What is behind a deleter may be Python code, which must neither see
 * nor lose an exception that is under way. */
static void delete_versioned(HurrayDLManagedTensorVersioned *managed) {
    PyObject *type, *value, *traceback;
    if (managed->deleter == NULL) return;
    PyErr_Fetch(&type, &value, &traceback);
    managed->deleter(managed);
    PyErr_Restore(type, value, traceback);
}

static void delete_legacy(HurrayDLManagedTensor *managed) {
    PyObject *type, *value, *traceback;
    if (managed->deleter == NULL) return;
    PyErr_Fetch(&type, &value, &traceback);
    managed->deleter(managed);
    PyErr_Restore(type, value, traceback);
}

/* A capsule nobody consumed frees what is in it; consumers rename it. */
static void delete_legacy_capsule(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, LEGACY_NAME)) return;
    delete_legacy(PyCapsule_GetPointer(capsule, LEGACY_NAME));
}

static void delete_versioned_capsule(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, VERSIONED_NAME)) return;
    delete_versioned(PyCapsule_GetPointer(capsule, VERSIONED_NAME));
}

/* Consumers catch the built-in BufferError; only running out of memory is another matter. */
static PyObject *refuse_export(CoreState *state, HurrayStatus status) {
    if (status == HURRAY_ERR_OUT_OF_MEMORY) return raise_status(state, status);
    return raise_status_as(state->ExportRefused, status);
}

static PyObject *export_legacy(CoreState *state, HurrayTensor *tensor) {
    HurrayDLManagedTensor *managed = NULL;
    HurrayStatus status = hurray_tensor_to_dlpack_legacy(tensor, &managed);
    if (status != HURRAY_OK) return refuse_export(state, status);
    PyObject *capsule = PyCapsule_New(managed, LEGACY_NAME, delete_legacy_capsule);
    if (capsule == NULL) managed->deleter(managed);
    return capsule;
}

static PyObject *export_versioned(CoreState *state, HurrayTensor *tensor, uint64_t flags) {
    HurrayDLManagedTensorVersioned *managed = NULL;
    HurrayStatus status = hurray_tensor_to_dlpack(tensor, flags, &managed);
    if (status != HURRAY_OK) return refuse_export(state, status);
    PyObject *capsule = PyCapsule_New(managed, VERSIONED_NAME, delete_versioned_capsule);
    if (capsule == NULL) managed->deleter(managed);
    return capsule;
}

/* Two integers from a pair such as (1, 3) or (DLDeviceType.kDLCPU, 0). Copied into a tuple first: an
 * __index__ may change the list it stands in. */
static bool read_pair(PyObject *object, const char *name, long *first, long *second) {
    PyObject *pair = PySequence_Tuple(object);
    if (pair == NULL && !PyErr_ExceptionMatches(PyExc_TypeError)) return false;
    if (pair == NULL || PyTuple_GET_SIZE(pair) != 2 || !PyIndex_Check(PyTuple_GET_ITEM(pair, 0)) ||
        !PyIndex_Check(PyTuple_GET_ITEM(pair, 1))) {
        Py_XDECREF(pair);
        PyErr_Format(PyExc_TypeError, "%s must be a pair of integers, not %R", name, object);
        return false;
    }
    *first = PyLong_AsLong(PyTuple_GET_ITEM(pair, 0));
    if (*first != -1 || !PyErr_Occurred()) *second = PyLong_AsLong(PyTuple_GET_ITEM(pair, 1));
    Py_DECREF(pair);
    return !PyErr_Occurred();
}

/* Whether the consumer said that it knows DLPack 1: -1 with an exception. */
static int wants_versioned(PyObject *max_version) {
    long major, minor;
    if (max_version == NULL) return 0;
    if (!read_pair(max_version, "max_version", &major, &minor)) return -1;
    return major >= 1;
}

/* Memory does not move between devices here: dl_device may only name where it is. */
static bool check_dl_device(CoreState *state, PyObject *dl_device, const HurrayTensor *tensor) {
    if (dl_device == NULL) return true;
    long type, id;
    if (!read_pair(dl_device, "dl_device", &type, &id)) return false;
    HurrayDevice device = hurray_tensor_device(tensor);
    int32_t own_type = 0;
    /* What cannot be handed over at all is not refused for where it is. */
    HurrayStatus status = hurray_tensor_check_dlpack(tensor);
    if (status == HURRAY_OK) status = hurray_device_to_dlpack(device, &own_type);
    if (status != HURRAY_OK) {
        refuse_export(state, status);
        return false;
    }
    if (type == own_type && id == device.device_id) return true;
    PyErr_Format(state->ExportRefused,
                 "the tensor is on DLPack device (%d, %d) and is not moved to dl_device (%ld, %ld)",
                 (int)own_type, (int)device.device_id, type, id);
    return false;
}

/* Every tensor here is ready for any stream, so that the argument is only checked to be one. */
static bool check_stream(PyObject *stream) {
    if (stream == NULL || PyIndex_Check(stream)) return true;
    PyErr_Format(PyExc_TypeError, "stream must be an integer or None, not %.200s",
                 Py_TYPE(stream)->tp_name);
    return false;
}

/* A packed copy to export; says why the tensor cannot be exported before copying it. */
static HurrayTensor *copy_for_export(CoreState *state, HurrayTensor *tensor) {
    HurrayTensor *copy = NULL;
    HurrayStatus status = hurray_tensor_check_dlpack(tensor);
    if (status == HURRAY_OK) {
        Py_BEGIN_ALLOW_THREADS
        status = hurray_tensor_copy(tensor, NULL, &copy);
        Py_END_ALLOW_THREADS
    }
    if (status != HURRAY_OK) refuse_export(state, status);
    return copy;
}

PyDoc_STRVAR(
    dlpack_doc,
    "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n"
    "--\n\n"
    "A DLPack capsule that holds the tensor's memory (spec 8.6).\n\n"
    "\"dltensor_versioned\" when max_version is (1, 0) or more, else the legacy\n"
    "\"dltensor\". Shares the memory; copy=True exports a copy. stream may be anything, since\n"
    "the memory is ready for all of them.\n\n"
    "What DLPack cannot carry raises an exception that is both the built-in BufferError and\n"
    "hurray.UnsupportedError: bool, tier 2 and quantized types, layouts without strides,\n"
    "dynamic dimensions, a dl_device that is not the tensor's, a read-only tensor in a\n"
    "legacy capsule."
    "\n\n"
    ">>> np.from_dlpack(hurray.asarray([1, 2, 3]))  # calls it\n"
    "array([1, 2, 3])");

enum {
    EXPORT_STREAM,
    EXPORT_MAX_VERSION,
    EXPORT_DL_DEVICE,
    EXPORT_COPY,
    EXPORT_ARGUMENTS
};

static bool parse_export(CoreState *state, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames, PyObject **values) {
    static const Signature signature = {"__dlpack__",
                                        {{"stream", ARGUMENT_KEYWORD_ONLY},
                                         {"max_version", ARGUMENT_KEYWORD_ONLY},
                                         {"dl_device", ARGUMENT_KEYWORD_ONLY},
                                         {"copy", ARGUMENT_KEYWORD_ONLY}}};
    PyObject *const names[EXPORT_ARGUMENTS] = {state->names.stream, state->names.max_version,
                                               state->names.dl_device, state->names.copy};
    return arguments_take_interned(names, EXPORT_ARGUMENTS, args, nargs, kwnames, values) ||
           arguments_parse(&signature, args, nargs, kwnames, values);
}

static PyObject *tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *kwnames) {
    CoreState *state = core_state_of(self);
    PyObject *values[EXPORT_ARGUMENTS];
    HurrayCopy copy;
    if (!parse_export(state, args, nargs, kwnames, values) ||
        !check_stream(values[EXPORT_STREAM]) || !copy_from_object(values[EXPORT_COPY], &copy)) {
        return NULL;
    }
    HurrayTensor *tensor = tensor_of(self);
    int versioned = wants_versioned(values[EXPORT_MAX_VERSION]);
    if (versioned < 0 || !check_dl_device(state, values[EXPORT_DL_DEVICE], tensor)) {
        return NULL;
    }
    uint64_t flags = 0;
    if (copy == HURRAY_COPY_ALWAYS) {
        tensor = copy_for_export(state, tensor);
        if (tensor == NULL) return NULL;
        flags = HURRAY_DL_FLAG_IS_COPIED;
    }
    PyObject *capsule =
        versioned ? export_versioned(state, tensor, flags) : export_legacy(state, tensor);
    if (copy == HURRAY_COPY_ALWAYS) hurray_tensor_release(tensor);
    return capsule;
}

PyDoc_STRVAR(dlpack_device_doc,
             "__dlpack_device__($self, /)\n--\n\n"
             "(DLDeviceType, device_id) of the tensor's device (spec 8.6).\n\n"
             "UnsupportedError for peer memory, private devices and what DLPack has no number for."
             "\n\n"
             ">>> hurray.ones(3).__dlpack_device__()\n"
             "(1, 0)");

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused) {
    (void)unused;
    CoreState *state = core_state_of(self);
    HurrayDevice device = hurray_tensor_device(tensor_of(self));
    int32_t device_type = 0;
    HurrayStatus status = hurray_device_to_dlpack(device, &device_type);
    if (status != HURRAY_OK) return refuse_export(state, status);
    if (device_type == HURRAY_DL_CPU && device.device_id == 0) return Py_NewRef(state->dlpack_cpu);
    return Py_BuildValue("(ii)", (int)device_type, (int)device.device_id);
}

PyMethodDef dlpack_tensor_methods[] = {
    {"__dlpack__", CORE_METHOD(tensor_dlpack), METH_FASTCALL | METH_KEYWORDS, dlpack_doc},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, dlpack_device_doc},
    {NULL, NULL, 0, NULL},
};

/* ---- consumer: managed tensors ---- */

/* Whether taking the memory in will copy enough to let other threads run meanwhile. */
static bool is_large_copy(const HurrayDLTensor *dl_tensor, HurrayCopy copy) {
    if (dl_tensor->ndim < 0 || dl_tensor->ndim > (int32_t)HURRAY_MAX_RANK ||
        dl_tensor->shape == NULL) {
        return false;
    }
    double bytes = dl_tensor->dtype.bits / 8.0;
    for (int32_t k = 0; k < dl_tensor->ndim; k++) bytes *= (double)dl_tensor->shape[k];
    bool aligned =
        hurray_measured_alignment((char *)dl_tensor->data) >= HURRAY_MIN_BUFFER_ALIGNMENT &&
        dl_tensor->byte_offset == 0 && dl_tensor->dtype.code != HURRAY_DL_BOOL;
    return bytes >= CORE_LARGE_COPY && !(aligned && copy != HURRAY_COPY_ALWAYS);
}

/* What taking over has come to; false with an exception. */
static bool check_taken(CoreState *state, HurrayStatus status) {
    if (status == HURRAY_OK) return true;
    /* A version we do not know makes the capsule unusable; no descriptor is at fault. */
    if (status == HURRAY_ERR_VERSION_MISMATCH) {
        raise_status_as(state->BufferError, status);
    } else {
        raise_status(state, status);
    }
    return false;
}

/* Takes `managed` over into a tensor. False with an exception: then it is still the caller's. What
 * fails later has deleted it. */
static bool take_versioned(CoreState *state, HurrayDLManagedTensorVersioned *managed,
                           HurrayCopy copy, HurrayTensor **out) {
    HurrayStatus status;
    /* Nothing but the version may be read before it is known. */
    if (managed->version.major == HURRAY_DLPACK_VERSION_MAJOR &&
        is_large_copy(&managed->dl_tensor, copy)) {
        Py_BEGIN_ALLOW_THREADS
        status = hurray_tensor_from_dlpack(managed, copy, NULL, out);
        Py_END_ALLOW_THREADS
    } else {
        status = hurray_tensor_from_dlpack(managed, copy, NULL, out);
    }
    return check_taken(state, status);
}

static bool take_legacy(CoreState *state, HurrayDLManagedTensor *managed, HurrayCopy copy,
                        HurrayTensor **out) {
    HurrayStatus status;
    if (is_large_copy(&managed->dl_tensor, copy)) {
        Py_BEGIN_ALLOW_THREADS
        status = hurray_tensor_from_dlpack_legacy(managed, copy, NULL, out);
        Py_END_ALLOW_THREADS
    } else {
        status = hurray_tensor_from_dlpack_legacy(managed, copy, NULL, out);
    }
    return check_taken(state, status);
}

/* A Tensor of what a C function exported; `managed` is gone, whatever happens. */
static PyObject *import_managed(CoreState *state, HurrayDLManagedTensorVersioned *managed,
                                HurrayCopy copy) {
    HurrayTensor *tensor = NULL;
    if (take_versioned(state, managed, copy, &tensor)) return tensor_wrap(state, tensor);
    delete_versioned(managed);
    return NULL;
}

/* ---- consumer: capsules ---- */

/* Where the caller wants the memory to be. */
typedef struct Place {
    bool anywhere; /* where it is, and nothing else counts */
    long type, id;
} Place;

/* The memory must be where it was asked to be. What has an unknown version is refused later. */
static bool check_place(CoreState *state, const void *managed, bool versioned, Place place) {
    const HurrayDLManagedTensorVersioned *modern = managed;
    const HurrayDLManagedTensor *legacy = managed;
    if (place.anywhere || (versioned && modern->version.major != HURRAY_DLPACK_VERSION_MAJOR)) {
        return true;
    }
    HurrayDLDevice device = versioned ? modern->dl_tensor.device : legacy->dl_tensor.device;
    if (device.device_type == place.type && device.device_id == place.id) return true;
    PyErr_Format(state->BufferError,
                 "memory on DLPack device (%ld, %ld) was asked for, but this is on (%d, %d)",
                 place.type, place.id, (int)device.device_type, (int)device.device_id);
    return false;
}

static void refuse_capsule(CoreState *state, PyObject *capsule) {
    const char *name = PyCapsule_CheckExact(capsule) ? PyCapsule_GetName(capsule) : NULL;
    if (!PyCapsule_CheckExact(capsule)) {
        PyErr_Format(state->BufferError, "__dlpack__ returned %.200s; expected a capsule",
                     Py_TYPE(capsule)->tp_name);
    } else if (name != NULL && strncmp(name, "used_", 5) == 0) {
        PyErr_Format(state->BufferError, "the capsule '%.100s' has been consumed already", name);
    } else {
        PyErr_Format(state->BufferError,
                     "a capsule named '%.100s'; expected '" VERSIONED_NAME "' or '" LEGACY_NAME "'",
                     name == NULL ? "(null)" : name);
    }
}

/* Renames a capsule that is where it was asked to be, and gives what is in it; NULL with an
 * exception. */
static void *take_content(CoreState *state, PyObject *capsule, Place place, bool *versioned) {
    *versioned = PyCapsule_IsValid(capsule, VERSIONED_NAME);
    if (!*versioned && !PyCapsule_IsValid(capsule, LEGACY_NAME)) {
        refuse_capsule(state, capsule);
        return NULL;
    }
    void *content = PyCapsule_GetPointer(capsule, *versioned ? VERSIONED_NAME : LEGACY_NAME);
    if (content == NULL || !check_place(state, content, *versioned, place) ||
        PyCapsule_SetName(capsule, *versioned ? VERSIONED_USED : LEGACY_USED) < 0) {
        return NULL;
    }
    return content;
}

/*
 * A capsule is renamed before it is taken over, so that no other thread can take it too, and gets
 * its name back when nothing came of it.
 */
static PyObject *import_capsule(CoreState *state, PyObject *capsule, Place place, HurrayCopy copy) {
    bool versioned;
    void *content;
    CORE_LOCK(capsule);
    content = take_content(state, capsule, place, &versioned);
    CORE_UNLOCK();
    if (content == NULL) return NULL;
    HurrayTensor *tensor = NULL;
    bool taken = versioned ? take_versioned(state, content, copy, &tensor)
                           : take_legacy(state, content, copy, &tensor);
    if (taken) return tensor_wrap(state, tensor);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyCapsule_SetName(capsule, versioned ? VERSIONED_NAME : LEGACY_NAME);
    PyErr_Restore(type, value, traceback);
    return NULL;
}

/* ---- consumer: producers in Python ---- */

/* What a call of __dlpack__ is told. NULL members are left out. */
typedef struct Request {
    PyObject *max_version;
    PyObject *stream;
    PyObject *dl_device;
    PyObject *copy;
} Request;

static PyObject *call_dlpack(CoreState *state, PyObject *producer, const Request *request) {
    PyObject *const names[] = {state->names.max_version, state->names.stream,
                               state->names.dl_device, state->names.copy};
    PyObject *const given[] = {request->max_version, request->stream, request->dl_device,
                               request->copy};
    PyObject *stack[1 + Py_ARRAY_LENGTH(names)] = {producer}, *used[Py_ARRAY_LENGTH(names)];
    Py_ssize_t count = 0;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        if (given[i] == NULL) continue;
        used[count] = names[i];
        stack[1 + count++] = given[i];
    }
    PyObject *keywords = PyTuple_New(count);
    if (keywords == NULL) return NULL;
    for (Py_ssize_t i = 0; i < count; i++) PyTuple_SET_ITEM(keywords, i, Py_NewRef(used[i]));
    PyObject *capsule =
        PyObject_VectorcallMethod(state->names.__dlpack__, stack, 1, count ? keywords : NULL);
    Py_DECREF(keywords);
    return capsule;
}

/* Calls again without what a producer older than DLPack 1 does not know. */
static PyObject *call_older_dlpack(CoreState *state, PyObject *producer, Request request) {
    PyObject *capsule = call_dlpack(state, producer, &request);
    if (capsule != NULL || request.dl_device != NULL || !PyErr_ExceptionMatches(PyExc_TypeError)) {
        return capsule;
    }
    if (request.copy == Py_True) return NULL; /* to leave that out would share */
    PyErr_Clear();
    request.max_version = request.copy = NULL;
    return call_dlpack(state, producer, &request);
}

/* The producer's DLPack device; (1, 0), the CPU, when it does not say. */
static bool producer_device(CoreState *state, PyObject *producer, long *type, long *id) {
    *type = HURRAY_DL_CPU;
    *id = 0;
    PyObject *method = PyObject_GetAttr(producer, state->names.__dlpack_device__);
    if (method == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
        PyErr_Clear();
        return true;
    }
    PyObject *pair = PyObject_CallNoArgs(method);
    Py_DECREF(method);
    if (pair == NULL) return false;
    bool read = read_pair(pair, "what __dlpack_device__ returned", type, id);
    Py_DECREF(pair);
    return read;
}

/* The place that a Device names, in DLPack's numbers. */
static bool read_place(CoreState *state, PyObject *device, Place *place) {
    HurrayDevice wanted;
    int32_t type = 0;
    if (!device_as_value(state, device, "device", &wanted)) return false;
    HurrayStatus status = hurray_device_to_dlpack(wanted, &type);
    if (status != HURRAY_OK) {
        raise_status(state, status);
        return false;
    }
    *place = (Place){.type = type, .id = wanted.device_id};
    return true;
}

/* The request for memory where it is, or on another device when the caller asked for one. */
static bool fill_request(CoreState *state, PyObject *producer, PyObject *device, HurrayCopy *copy,
                         Request *request, Place *place) {
    long type, id;
    *place = (Place){.anywhere = true};
    if (!producer_device(state, producer, &type, &id)) return false;
    bool on_cpu = type == HURRAY_DL_CPU;
    *request = (Request){.max_version = state->dlpack_max_version};
    /* None names the default stream, which orders the producer's work before everybody's use. */
    if (!on_cpu) request->stream = Py_None;
    if (*copy == HURRAY_COPY_NEVER) request->copy = Py_False;
    if (*copy == HURRAY_COPY_ALWAYS && !on_cpu) {
        request->copy = Py_True; /* only the producer can copy there */
        *copy = HURRAY_COPY_IF_NEEDED;
    }
    if (device == NULL) return true;
    if (!read_place(state, device, place)) return false;
    if (place->type == type && place->id == id) return true;
    request->dl_device = Py_BuildValue("(ll)", place->type, place->id);
    return request->dl_device != NULL;
}

/*
 * A TypeError from a producer too old for an argument that cannot be left out becomes a refusal
 * that names what it cannot do.
 */
static void explain_old_producer(CoreState *state, PyObject *producer, PyObject *device,
                                 const Request *request) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return;
    const char *name = Py_TYPE(producer)->tp_name;
    if (request->dl_device != NULL) {
        PyErr_Clear();
        PyErr_Format(state->UnsupportedError,
                     "%.200s cannot move its memory to device %R (its __dlpack__ takes no "
                     "dl_device)",
                     name, device);
    } else if (request->copy == Py_True) {
        PyErr_Clear();
        PyErr_Format(state->UnsupportedError,
                     "%.200s cannot copy its memory, which is not on the CPU (its __dlpack__ takes "
                     "no copy)",
                     name);
    }
}

static PyObject *import_producer(CoreState *state, PyObject *producer, PyObject *device,
                                 HurrayCopy copy) {
    Request request = {NULL, NULL, NULL, NULL};
    Place place;
    PyObject *capsule = NULL;
    if (fill_request(state, producer, device, &copy, &request, &place)) {
        capsule = call_older_dlpack(state, producer, request);
        if (capsule == NULL) explain_old_producer(state, producer, device, &request);
    }
    Py_XDECREF(request.dl_device);
    if (capsule == NULL) return NULL;
    PyObject *tensor = import_capsule(state, capsule, place, copy);
    Py_DECREF(capsule);
    return tensor;
}

/* ---- consumer: producers in C ---- */

/*
 * A new reference to the capsule on a type or its bases; NULL without an exception. Looked up as
 * special methods are: no failed lookup, which most producers would pay for, makes an AttributeError.
 */
static PyObject *exchange_capsule(CoreState *state, PyTypeObject *type) {
    PyObject *name = state->names.__dlpack_c_exchange_api__;
    if (type == NULL) return NULL;
#if PY_VERSION_HEX >= 0x030D0000
    return _PyType_LookupRef(type, name);
#else
    return Py_XNewRef(_PyType_Lookup(type, name));
#endif
}

/*
 * The exchange API in a capsule, in a version that we know; a newer one may lead to an older one.
 * NULL without an exception otherwise.
 */
static const HurrayDLPackExchangeAPI *read_exchange_api(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, EXCHANGE_API_NAME)) return NULL;
    const HurrayDLPackExchangeAPIHeader *header = PyCapsule_GetPointer(capsule, EXCHANGE_API_NAME);
    while (header != NULL && header->version.major > HURRAY_DLPACK_VERSION_MAJOR) {
        header = header->prev_api;
    }
    if (header == NULL || header->version.major != HURRAY_DLPACK_VERSION_MAJOR) return NULL;
    const HurrayDLPackExchangeAPI *api = (const HurrayDLPackExchangeAPI *)(const void *)header;
    return api->managed_tensor_from_py_object_no_sync == NULL ? NULL : api;
}

const HurrayDLPackExchangeAPI *dlpack_exchange_api(CoreState *state, PyTypeObject *type) {
    PyObject *capsule = exchange_capsule(state, type);
    const HurrayDLPackExchangeAPI *api = capsule == NULL ? NULL : read_exchange_api(capsule);
    Py_XDECREF(capsule);
    return api;
}

/* 1 when object.name, or what calling it gives, is true; 0 when false or absent; -1 on error. */
static int ask(PyObject *object, PyObject *name, bool call) {
    PyObject *value = PyObject_GetAttr(object, name);
    if (value != NULL && call) Py_SETREF(value, PyObject_CallNoArgs(value));
    if (value == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
        PyErr_Clear();
        return 0;
    }
    int truth = PyObject_IsTrue(value);
    Py_DECREF(value);
    return truth;
}

/*
 * What a torch tensor may carry beside its memory, which the C functions export without a word: a
 * gradient, or a conjugation or negation that has not been applied to the elements yet. Nothing of
 * that is dropped silently.
 */
static bool check_lazy_state(CoreState *state, PyObject *object) {
    const struct {
        PyObject *name;
        bool call;
        const char *what;
    } questions[] = {
        {state->names.requires_grad, false, "requires grad: call .detach() first"},
        {state->names.is_conj, true, "is a conjugated view: call .resolve_conj() first"},
        {state->names.is_neg, true, "is a negated view: call .resolve_neg() first"},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(questions); i++) {
        int answer = ask(object, questions[i].name, questions[i].call);
        if (answer < 0) return false;
        if (answer > 0) {
            PyErr_Format(state->UnsupportedError, "the tensor %s", questions[i].what);
            return false;
        }
    }
    return true;
}

/*
 * What the C functions export: NULL without an exception when they do not, for then the other way
 * gives the refusal in the words meant for Python.
 */
static HurrayDLManagedTensorVersioned *call_exchange_api(const HurrayDLPackExchangeAPI *api,
                                                         PyObject *object) {
    HurrayDLManagedTensorVersioned *managed = NULL;
    if (api->managed_tensor_from_py_object_no_sync(object, &managed) == 0) return managed;
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
    return NULL;
}

/*
 * Through the C functions; NULL without an exception where they do not apply. Those of a base class
 * do not: their idea of the object may be narrower. They do not synchronize, so that memory of other
 * devices goes the way that names a stream.
 */
static PyObject *import_exchange(CoreState *state, PyObject *object, PyObject *capsule,
                                 HurrayCopy copy) {
    PyObject *inherited = exchange_capsule(state, Py_TYPE(object)->tp_base);
    Py_XDECREF(inherited); /* only its identity counts */
    const HurrayDLPackExchangeAPI *api = read_exchange_api(capsule);
    if (api == NULL || inherited == capsule) return NULL;
    HurrayDLManagedTensorVersioned *managed = call_exchange_api(api, object);
    if (managed == NULL) return NULL;
    if (managed->version.major == HURRAY_DLPACK_VERSION_MAJOR &&
        managed->dl_tensor.device.device_type != HURRAY_DL_CPU) {
        delete_versioned(managed);
        return NULL;
    }
    return import_managed(state, managed, copy);
}

bool dlpack_is_producer(CoreState *state, PyObject *object) {
    return _PyType_Lookup(Py_TYPE(object), state->names.__dlpack__) != NULL;
}

/* An object of a type with an exchange API: the C functions first, when no move is asked for. */
static PyObject *import_exchange_object(CoreState *state, PyObject *object, PyObject *device,
                                        PyObject *exchange, HurrayCopy copy) {
    if (!tensor_check(state, object) && !check_lazy_state(state, object)) return NULL;
    if (device == NULL) {
        PyObject *tensor = import_exchange(state, object, exchange, copy);
        if (tensor != NULL || PyErr_Occurred()) return tensor;
    }
    return import_producer(state, object, device, copy);
}

static PyObject *import_bare_capsule(CoreState *state, PyObject *capsule, PyObject *device,
                                     HurrayCopy copy) {
    Place place = {.anywhere = true};
    if (device != NULL && !read_place(state, device, &place)) return NULL;
    return import_capsule(state, capsule, place, copy);
}

PyObject *tensor_from_dlpack(CoreState *state, PyObject *object, PyObject *device,
                             HurrayCopy copy) {
    if (PyCapsule_CheckExact(object)) return import_bare_capsule(state, object, device, copy);
    if (!dlpack_is_producer(state, object)) {
        return PyErr_Format(PyExc_TypeError,
                            "from_dlpack() needs an object with __dlpack__, not %.200s",
                            Py_TYPE(object)->tp_name);
    }
    PyObject *exchange = exchange_capsule(state, Py_TYPE(object));
    if (exchange == NULL) return import_producer(state, object, device, copy);
    PyObject *tensor = import_exchange_object(state, object, device, exchange, copy);
    Py_DECREF(exchange);
    return tensor;
}

PyDoc_STRVAR(
    from_dlpack_doc,
    "from_dlpack($module, x, *, device=None, copy=None)\n--\n\n"
    "A Tensor over the memory of any DLPack producer (spec 8.6).\n\n"
    "On the CPU the memory is shared when its address is 64-aligned, otherwise copied into\n"
    "aligned memory; copy=False raises CopyRequiredError instead, copy=True always copies.\n"
    "Contiguous elements give a row-major tensor, others a strided one. bool, one byte per\n"
    "element in DLPack, is packed, which is a copy. Memory of other devices is never\n"
    "touched. `device` asks the producer to move its memory there.\n\n"
    "TypeError without __dlpack__; hurray.BufferError for a consumed or foreign capsule or\n"
    "a broken one; UnsupportedError for a type or device without a counterpart."
    "\n\n"
    ">>> a = np.arange(6).reshape(2, 3)\n"
    ">>> hurray.from_dlpack(a[:, ::-1])\n"
    "hurray.Tensor([[2, 1, 0],\n"
    "               [5, 4, 3]], dtype=int64)");

static PyObject *from_dlpack(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames) {
    static const Signature signature = {"from_dlpack",
                                        {{"x", ARGUMENT_REQUIRED},
                                         {"device", ARGUMENT_KEYWORD_ONLY},
                                         {"copy", ARGUMENT_KEYWORD_ONLY}}};
    enum {
        X,
        DEVICE,
        COPY,
        ARGUMENT_COUNT
    };
    PyObject *values[ARGUMENT_COUNT];
    HurrayCopy copy;
    if (!arguments_parse(&signature, args, nargs, kwnames, values) ||
        !copy_from_object(values[COPY], &copy)) {
        return NULL;
    }
    return tensor_from_dlpack(core_state_of_module(module), values[X], values[DEVICE], copy);
}

/* ---- the C exchange API of Tensor ---- */

/* What is wrong with a prototype beyond its dtype and sizes; NULL when nothing is. */
static const char *prototype_fault(const HurrayDLTensor *prototype) {
    if (prototype->device.device_type != HURRAY_DL_CPU)
        return "hurray allocates memory on the CPU only";
    if (prototype->ndim < 0 || prototype->ndim > (int32_t)HURRAY_MAX_RANK) {
        return "ndim of the prototype is not one of 0 ... 64";
    }
    if (prototype->ndim != 0 && prototype->shape == NULL) return "shape of the prototype is NULL";
    for (int32_t k = 0; k < prototype->ndim; k++) {
        if (prototype->shape[k] < 0) return "the prototype has a negative extent";
    }
    return NULL;
}

/* Makes an uninitialized CPU tensor of the prototype's dtype and shape. Needs no Python. */
static HurrayStatus allocate_like(const HurrayDLTensor *prototype,
                                  HurrayDLManagedTensorVersioned **out) {
    uint8_t tag;
    uint64_t count, bytes;
    HurrayBuffer *buffer = NULL;
    HurrayTensor *tensor = NULL;
    HurrayStatus status = hurray_element_type_from_dlpack(prototype->dtype, &tag);
    if (status != HURRAY_OK) return status;
    HurrayDescriptorFields fields = {
        .type_tag = tag,
        .rank = (uint32_t)prototype->ndim,
        .shape = (const uint64_t *)prototype->shape, /* i64, checked not to be negative */
        .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
        .buffer_count = 1,
    };
    status = hurray_shape_count(fields.shape, fields.rank, &count);
    if (status == HURRAY_OK) status = hurray_element_type_size(tag, count, &bytes);
    if (status == HURRAY_OK) status = hurray_buffer_allocate(bytes, false, NULL, &buffer);
    if (status != HURRAY_OK) return status;
    status = hurray_tensor_create(&fields, &buffer, &tensor);
    if (status != HURRAY_OK) {
        hurray_buffer_destroy(buffer);
        return status;
    }
    status = hurray_tensor_to_dlpack(tensor, 0, out);
    hurray_tensor_release(tensor);
    return status;
}

static int api_allocate(HurrayDLTensor *prototype, HurrayDLManagedTensorVersioned **out,
                        void *error_ctx,
                        void (*set_error)(void *error_ctx, const char *kind, const char *message)) {
    const char *fault = prototype_fault(prototype);
    HurrayStatus status = fault != NULL ? HURRAY_ERR_UNSUPPORTED : allocate_like(prototype, out);
    if (status == HURRAY_OK) return 0;
    if (set_error != NULL) {
        set_error(error_ctx, status == HURRAY_ERR_OUT_OF_MEMORY ? "MemoryError" : "BufferError",
                  fault != NULL ? fault : hurray_error_message());
    }
    return -1;
}

/* The C functions get a bare pointer; anything but a Tensor is refused. */
static bool check_api_object(PyObject *object) {
    if (object != NULL && tensor_is_any(object)) return true;
    PyErr_SetString(PyExc_TypeError, "the DLPack exchange API of hurray.Tensor got another object");
    return false;
}

static int api_from_object(void *py_object, HurrayDLManagedTensorVersioned **out) {
    if (!check_api_object(py_object)) return -1;
    HurrayStatus status = hurray_tensor_to_dlpack(tensor_of(py_object), 0, out);
    if (status == HURRAY_OK) return 0;
    refuse_export(core_state_of(py_object), status);
    return -1;
}

/* DLPack: "the ownership of the tensor is stolen", which includes the call that fails. */
static int api_to_object(HurrayDLManagedTensorVersioned *managed, void **out_py_object) {
    CoreState *state = core_state_find();
    *out_py_object = NULL;
    if (state == NULL) {
        delete_versioned(managed);
    } else {
        *out_py_object = import_managed(state, managed, HURRAY_COPY_IF_NEEDED);
    }
    return *out_py_object == NULL ? -1 : 0;
}

/* A bare DLTensor has no flags; the managed one can say that a tensor is read-only. */
static int api_view_object(void *py_object, HurrayDLTensor *out) {
    if (!check_api_object(py_object)) return -1;
    if (hurray_tensor_is_read_only(tensor_of(py_object))) {
        PyErr_SetString(core_state_of(py_object)->ExportRefused,
                        "the tensor is read-only, which a DLTensor cannot say: use "
                        "managed_tensor_from_py_object_no_sync, whose flags can");
        return -1;
    }
    HurrayStatus status = hurray_tensor_view_dlpack(tensor_of(py_object), out);
    if (status == HURRAY_OK) return 0;
    refuse_export(core_state_of(py_object), status);
    return -1;
}

/* No work is ever queued here: NULL is the default stream. */
static int api_current_stream(int32_t device_type, int32_t device_id, void **out_stream) {
    (void)device_type;
    (void)device_id;
    *out_stream = NULL;
    return 0;
}

static const HurrayDLPackExchangeAPI exchange_api = {
    .header = {{HURRAY_DLPACK_VERSION_MAJOR, HURRAY_DLPACK_VERSION_MINOR}, NULL},
    .managed_tensor_allocator = api_allocate,
    .managed_tensor_from_py_object_no_sync = api_from_object,
    .managed_tensor_to_py_object_no_sync = api_to_object,
    .dltensor_from_py_object_no_sync = api_view_object,
    .current_work_stream = api_current_stream,
};

/* ---- setup ---- */

static PyMethodDef functions[] = {
    {"from_dlpack", CORE_METHOD(from_dlpack), METH_FASTCALL | METH_KEYWORDS, from_dlpack_doc},
    {NULL, NULL, 0, NULL},
};

int dlpack_setup(PyObject *module, CoreState *state) {
    state->dlpack_max_version =
        Py_BuildValue("(II)", HURRAY_DLPACK_VERSION_MAJOR, HURRAY_DLPACK_VERSION_MINOR);
    state->dlpack_cpu = Py_BuildValue("(ii)", HURRAY_DL_CPU, 0);
    /* A capsule holds no const pointer; nobody may write through it. */
    state->exchange_api = PyCapsule_New((void *)(uintptr_t)&exchange_api, EXCHANGE_API_NAME, NULL);
    if (state->dlpack_max_version == NULL || state->dlpack_cpu == NULL ||
        state->exchange_api == NULL ||
        PyObject_SetAttr((PyObject *)state->TensorType, state->names.__dlpack_c_exchange_api__,
                         state->exchange_api) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
