/*
 * The native protocol from both sides (spec 7.3, 8.11): Tensor.__hurray__ as a producer, from_hurray
 * as a consumer. What is in a capsule is known to libhurray (hurray/capsule.h); here are the capsule
 * itself and its names.
 */
#include "core.h"

#include "arguments.h"

/* ---- producer ---- */

/* A capsule nobody consumed frees what is in it; consumers rename it. What a release leads to may be
 * Python code, which must neither see nor lose an exception that is under way. */
static void delete_capsule(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, HURRAY_CAPSULE_NAME)) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    HurrayBufferList *list = PyCapsule_GetPointer(capsule, HURRAY_CAPSULE_NAME);
    HurrayTensorContext *context = PyCapsule_GetContext(capsule);
    hurray_buffer_list_destroy(&list);
    hurray_tensor_context_destroy(&context);
    PyErr_Restore(type, value, traceback);
}

/* Takes over both, also on failure. */
static PyObject *new_capsule(HurrayBufferList *list, HurrayTensorContext *context) {
    PyObject *capsule = PyCapsule_New(list, HURRAY_CAPSULE_NAME, delete_capsule);
    if (capsule == NULL) {
        hurray_buffer_list_destroy(&list);
    } else if (PyCapsule_SetContext(capsule, context) == 0) {
        return capsule;
    }
    Py_XDECREF(capsule);
    hurray_tensor_context_destroy(&context);
    return NULL;
}

/* Host memory that stands in for a device's is no pointer that a consumer could use. */
static bool check_not_staged(CoreState *state, const HurrayTensor *tensor) {
    const HurrayBufferInfo *first = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
    if (first == NULL || (first->flags & HURRAY_BUFFER_STAGED_ON_HOST) == 0) return true;
    raise_status(state, hurray_tensor_check_readable(tensor, false)); /* says why */
    return false;
}

PyDoc_STRVAR(
    hurray_doc,
    "__hurray__($self, /, stream=None)\n--\n\n"
    "A fresh capsule \"hurray_tensor\" that holds the tensor: its descriptor and the\n"
    "memory of all its buffers, shared (spec 7.3, 8.11).\n\n"
    "For every dtype, layout and device. stream may be any stream of the device or None:\n"
    "what the descriptor says of synchronization counts. UnsupportedError for a tensor\n"
    "whose device is only declared, its bytes being host memory."
    "\n\n"
    ">>> t = hurray.ones(3)\n"
    ">>> hurray.from_hurray(t).buffer(0).to_numpy().ctypes.data == t.to_numpy().ctypes.data\n"
    "True");

static PyObject *tensor_hurray(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *kwnames) {
    static const Signature signature = {"__hurray__", {{"stream", 0}}};
    PyObject *stream;
    if (!arguments_parse(&signature, args, nargs, kwnames, &stream)) return NULL;
    if (stream != NULL && !PyIndex_Check(stream)) {
        return PyErr_Format(PyExc_TypeError, "stream must be an integer or None, not %.200s",
                            Py_TYPE(stream)->tp_name);
    }
    CoreState *state = core_state_of(self);
    if (!check_not_staged(state, tensor_of(self))) return NULL;
    HurrayBufferList *list = NULL;
    HurrayTensorContext *context = NULL;
    HurrayStatus status = hurray_tensor_export(tensor_of(self), &list, &context);
    return status == HURRAY_OK ? new_capsule(list, context) : raise_status(state, status);
}

PyMethodDef capsule_tensor_methods[] = {
    {"__hurray__", CORE_METHOD(tensor_hurray), METH_FASTCALL | METH_KEYWORDS, hurray_doc},
    {NULL, NULL, 0, NULL},
};

/* ---- consumer ---- */

/* What a capsule held, and its name, which lives as long as its producer's code. */
typedef struct Content {
    const char *name;
    HurrayBufferListHead *list;
    HurrayTensorContextHead *context;
} Content;

static void refuse_object(CoreState *state, PyObject *object) {
    if (!PyCapsule_CheckExact(object)) {
        PyErr_Format(state->BufferError, "__hurray__ returned %.200s; expected a capsule",
                     Py_TYPE(object)->tp_name);
        return;
    }
    const char *name = PyCapsule_GetName(object);
    if (name != NULL && strcmp(name, HURRAY_USED_CAPSULE_NAME) == 0) {
        PyErr_SetString(state->BufferError,
                        "the capsule has been consumed already: __hurray__() gives a fresh one");
    } else {
        PyErr_Format(state->BufferError,
                     "a capsule named '%.100s'; expected '" HURRAY_CAPSULE_NAME "'",
                     name == NULL ? "(null)" : name);
    }
}

/* Looks at the heads, which says whose they are before anything else of them is read, and renames
 * the capsule, so that nobody else can take it over. */
static bool take_renamed(CoreState *state, PyObject *capsule, Content *out) {
    if (!PyCapsule_IsValid(capsule, HURRAY_CAPSULE_NAME)) {
        refuse_object(state, capsule);
        return false;
    }
    *out = (Content){PyCapsule_GetName(capsule), PyCapsule_GetPointer(capsule, HURRAY_CAPSULE_NAME),
                     PyCapsule_GetContext(capsule)};
    HurrayStatus status = hurray_capsule_check(out->list, out->context);
    if (status == HURRAY_OK) return PyCapsule_SetName(capsule, HURRAY_USED_CAPSULE_NAME) == 0;
    /* No descriptor is at fault. */
    raise_status_as(status == HURRAY_ERR_VERSION_MISMATCH ? state->UnsupportedError
                                                          : state->BufferError,
                    status);
    return false;
}

/* The same with no other thread of ours in between, where there is no GIL that sees to it. */
static bool take(CoreState *state, PyObject *capsule, Content *out) {
    bool taken;
    CORE_LOCK(capsule);
    taken = take_renamed(state, capsule, out);
    CORE_UNLOCK();
    return taken;
}

static PyObject *import_capsule(CoreState *state, PyObject *capsule) {
    /* Whatever a tensor can be is handed over, private layouts included: nothing looks at the data. */
    static const HurrayDecodeOptions options = {.permissive = true};
    Content content;
    HurrayTensor *tensor = NULL;
    if (!take(state, capsule, &content)) return NULL;
    HurrayStatus status = hurray_tensor_import(content.list, content.context, &options, &tensor);
    if (status == HURRAY_OK) return tensor_wrap(state, tensor);
    if (PyCapsule_SetName(capsule, content.name) < 0) return NULL;
    return raise_status(state, status);
}

/* An AttributeError is under way: of the method, or for want of it? Then it becomes a TypeError. */
static void explain_no_method(CoreState *state, PyObject *object) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *method = PyObject_GetAttr(object, state->names.__hurray__);
    if (method != NULL) {
        PyErr_Restore(type, value, traceback);
    } else {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    }
    Py_XDECREF(method);
    if (method != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError)) return;
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "from_hurray() needs an object with __hurray__, not %.200s",
                 Py_TYPE(object)->tp_name);
}

PyObject *tensor_from_hurray(CoreState *state, PyObject *object) {
    /* Without making a bound method of it, where it is one of a class. */
    PyObject *capsule = PyObject_VectorcallMethod(state->names.__hurray__, &object, 1, NULL);
    if (capsule == NULL) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError)) explain_no_method(state, object);
        return NULL;
    }
    PyObject *tensor = import_capsule(state, capsule);
    Py_DECREF(capsule);
    return tensor;
}

PyDoc_STRVAR(from_hurray_doc,
             "from_hurray($module, /, obj)\n--\n\n"
             "A Tensor over the memory of any object with __hurray__, never copied (spec 8.11).\n\n"
             "Every dtype, layout, section and device comes over; the producer's memory is kept\n"
             "alive. TypeError without the method; hurray.BufferError for what is no capsule of\n"
             "Hurray's, or one consumed before; UnsupportedError for another ABI version;\n"
             "InvalidDescriptorError when descriptor and buffers do not go together."
             "\n\n"
             ">>> class Producer:\n"
             "...     def __hurray__(self, stream=None):\n"
             "...         return hurray.asarray([1, 2, 3]).__hurray__()\n"
             ">>> hurray.from_hurray(Producer())\n"
             "hurray.Tensor([1, 2, 3], dtype=int64)");

static PyObject *from_hurray(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames) {
    static const Signature signature = {"from_hurray",
                                        {{"obj", ARGUMENT_REQUIRED | ARGUMENT_KEEP_NONE}}};
    PyObject *object;
    if (!arguments_parse(&signature, args, nargs, kwnames, &object)) return NULL;
    return tensor_from_hurray(core_state_of_module(module), object);
}

/* ---- setup ---- */

static PyMethodDef functions[] = {
    {"from_hurray", CORE_METHOD(from_hurray), METH_FASTCALL | METH_KEYWORDS, from_hurray_doc},
    {NULL, NULL, 0, NULL},
};

int capsule_setup(PyObject *module, CoreState *state) {
    (void)state;
    return PyModule_AddFunctions(module, functions);
}
