/*
 * The native protocol (spec 7.3, 8.11): Tensor.__hurray__ and from_hurray. What is in a capsule is
 * known to libhurray (hurray/capsule.h); here are its names, and who frees what.
 */
#include "arguments.h"
#include "core.h"

/* ---- producer ---- */

/* A capsule nobody consumed frees what is in it; consumers rename it. What is behind a release may
 * be Python code, which must neither see nor lose an exception that is under way. */
static void delete_capsule(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, HURRAY_CAPSULE_NAME)) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    HurrayBufferListHead *list = PyCapsule_GetPointer(capsule, HURRAY_CAPSULE_NAME);
    HurrayTensorContextHead *context = PyCapsule_GetContext(capsule);
    list->release(list);
    if (context != NULL) context->release(context);
    PyErr_Restore(type, value, traceback);
}

/* Bytes that stand in for a device's are nobody's to use there. */
static HurrayStatus check_not_staged(const HurrayTensor *tensor) {
    const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
    bool staged = info != NULL && (info->flags & HURRAY_BUFFER_STAGED_ON_HOST) != 0;
    return staged ? hurray_tensor_check_readable(tensor, false) : HURRAY_OK;
}

PyDoc_STRVAR(hurray_doc,
             "__hurray__($self, /, stream=None)\n--\n\n"
             "A capsule \"hurray_tensor\" with the buffers and the descriptor (spec 8.11), for\n"
             "from_hurray: of every dtype and layout, wherever the memory is. stream may be\n"
             "anything; what has to be waited for stands in the descriptor.\n\n"
             "UnsupportedError for a tensor that only declares its device.");

static PyObject *tensor_hurray(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *kwnames) {
    static const Signature signature = {"__hurray__", {{"stream", 0}}};
    CoreState *state = core_state_of(self);
    PyObject *values[1];
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    HurrayBufferList *list = NULL;
    HurrayTensorContext *context = NULL;
    HurrayStatus status = check_not_staged(tensor_of(self));
    if (status == HURRAY_OK) status = hurray_tensor_export(tensor_of(self), &list, &context);
    if (status != HURRAY_OK) return raise_status(state, status);
    PyObject *capsule = PyCapsule_New(list, HURRAY_CAPSULE_NAME, delete_capsule);
    if (capsule == NULL) {
        hurray_buffer_list_destroy(&list);
    } else if (PyCapsule_SetContext(capsule, context) == 0) {
        return capsule;
    }
    hurray_tensor_context_destroy(&context);
    Py_XDECREF(capsule);
    return NULL;
}

PyMethodDef capsule_tensor_methods[] = {
    {"__hurray__", CORE_METHOD(tensor_hurray), METH_FASTCALL | METH_KEYWORDS, hurray_doc},
    {NULL, NULL, 0, NULL},
};

/* ---- consumer ---- */

/* What cannot be taken in: a capsule that is not ours, or not of our version, or a bad descriptor. */
static PyObject *refuse_import(CoreState *state, HurrayStatus status,
                               const HurrayBufferListHead *list,
                               const HurrayTensorContextHead *context) {
    if (status == HURRAY_ERR_INVALID_MAGIC &&
        (memcmp(list->magic, HURRAY_BUFFER_LIST_MAGIC, sizeof list->magic) != 0 ||
         memcmp(context->magic, HURRAY_TENSOR_CONTEXT_MAGIC, sizeof context->magic) != 0)) {
        return raise_status_as(state->BufferError, status);
    }
    if (status == HURRAY_ERR_VERSION_MISMATCH && (list->abi_version != HURRAY_C_ABI_VERSION ||
                                                  context->abi_version != HURRAY_C_ABI_VERSION)) {
        return raise_status_as(state->UnsupportedError, status);
    }
    return raise_status(state, status);
}

/*
 * A capsule is renamed before it is taken over, so that no other thread can take it too, and gets
 * its name back when nothing came of it.
 */
static PyObject *import_capsule(CoreState *state, PyObject *capsule) {
    HurrayBufferListHead *list = PyCapsule_GetPointer(capsule, HURRAY_CAPSULE_NAME);
    HurrayTensorContextHead *context = PyCapsule_GetContext(capsule);
    if (list == NULL || (context == NULL && PyErr_Occurred())) return NULL;
    if (PyCapsule_SetName(capsule, HURRAY_USED_CAPSULE_NAME) < 0) return NULL;
    HurrayTensor *tensor = NULL;
    HurrayStatus status = hurray_tensor_import(list, context, NULL, &tensor);
    if (status == HURRAY_OK) return tensor_wrap(state, tensor);
    PyObject *type, *value, *traceback;
    refuse_import(state, status, list, context);
    PyErr_Fetch(&type, &value, &traceback);
    PyCapsule_SetName(capsule, HURRAY_CAPSULE_NAME);
    PyErr_Restore(type, value, traceback);
    return NULL;
}

static PyObject *refuse_capsule(CoreState *state, PyObject *capsule) {
    if (!PyCapsule_CheckExact(capsule)) {
        return PyErr_Format(state->BufferError, "__hurray__ returned %.200s; expected a capsule",
                            Py_TYPE(capsule)->tp_name);
    }
    const char *name = PyCapsule_GetName(capsule);
    if (name != NULL && strcmp(name, HURRAY_USED_CAPSULE_NAME) == 0) {
        return PyErr_Format(state->BufferError, "the capsule '%s' has been consumed already", name);
    }
    return PyErr_Format(state->BufferError,
                        "a capsule named '%.100s'; expected '" HURRAY_CAPSULE_NAME "'",
                        name == NULL ? "(null)" : name);
}

bool capsule_is_producer(CoreState *state, PyObject *object) {
    return PyObject_HasAttr((PyObject *)Py_TYPE(object), state->names.__hurray__);
}

PyObject *tensor_from_hurray(CoreState *state, PyObject *object) {
    PyObject *capsule = PyObject_CallMethodNoArgs(object, state->names.__hurray__);
    if (capsule == NULL) return NULL;
    PyObject *tensor = PyCapsule_IsValid(capsule, HURRAY_CAPSULE_NAME)
                           ? import_capsule(state, capsule)
                           : refuse_capsule(state, capsule);
    Py_DECREF(capsule);
    return tensor;
}

PyDoc_STRVAR(from_hurray_doc,
             "from_hurray($module, /, obj)\n--\n\n"
             "The tensor of any object with __hurray__, sharing its memory (spec 8.11): dtype,\n"
             "shape, layout, device and everything else as they are. The memory stays alive as\n"
             "long as the tensor.\n\n"
             "TypeError without the method. BufferError for a capsule that is consumed already,\n"
             "or another implementation's; UnsupportedError for one of another ABI version;\n"
             "InvalidDescriptorError for a descriptor that is not valid or has other buffers.");

static PyObject *from_hurray(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames) {
    static const Signature signature = {"from_hurray", {{"obj", ARGUMENT_REQUIRED}}};
    CoreState *state = core_state_of_module(module);
    PyObject *values[1];
    if (!arguments_parse(&signature, args, nargs, kwnames, values)) return NULL;
    if (!capsule_is_producer(state, values[0])) {
        return PyErr_Format(PyExc_TypeError,
                            "from_hurray() needs an object with __hurray__, not %.200s",
                            Py_TYPE(values[0])->tp_name);
    }
    return tensor_from_hurray(state, values[0]);
}

static PyMethodDef functions[] = {
    {"from_hurray", CORE_METHOD(from_hurray), METH_FASTCALL | METH_KEYWORDS, from_hurray_doc},
    {NULL, NULL, 0, NULL},
};

int capsule_setup(PyObject *module, CoreState *state) {
    (void)state;
    return PyModule_AddFunctions(module, functions);
}
