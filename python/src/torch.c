/*
 * Tensor.to_torch (spec 8.7). What DLPack carries as it is goes through torch's own C functions
 * straight into a torch.Tensor; everything else, and every refusal, is hurray/_torch.py.
 */
#include "core.h"

/* torch's C functions, once torch is imported; NULL without an exception where it has none. They stay
 * for as long as the process (DLPack). */
static const HurrayDLPackExchangeAPI *exchange_api(CoreState *state) {
    const HurrayDLPackExchangeAPI *api = state->torch_api;
    if (api != NULL) return api;
    PyObject *torch = core_loaded_module("torch");
    PyObject *type = torch == NULL ? NULL : PyObject_GetAttrString(torch, "Tensor");
    Py_XDECREF(torch);
    if (type != NULL && PyType_Check(type)) api = dlpack_exchange_api(state, (PyTypeObject *)type);
    Py_XDECREF(type);
    PyErr_Clear();
    if (api != NULL && api->managed_tensor_to_py_object_no_sync == NULL) api = NULL;
    state->torch_api = api; /* the same one, whoever comes first */
    return api;
}

/* Whether torch can hold it as it is: on the CPU, writable, no stride that is negative. */
static bool is_plain(const HurrayDLManagedTensorVersioned *managed) {
    const HurrayDLTensor *dl_tensor = &managed->dl_tensor;
    if ((managed->flags & HURRAY_DL_FLAG_READ_ONLY) != 0) return false;
    for (int32_t k = 0; k < dl_tensor->ndim; k++) {
        if (dl_tensor->strides[k] < 0) return false;
    }
    return dl_tensor->device.device_type == HURRAY_DL_CPU;
}

/* NULL without an exception where there is a reason to go another way, which then tells. */
static PyObject *share_plain(const HurrayDLPackExchangeAPI *api, HurrayTensor *tensor) {
    HurrayDLManagedTensorVersioned *managed = NULL;
    if (hurray_tensor_to_dlpack(tensor, 0, &managed) != HURRAY_OK) return NULL;
    if (!is_plain(managed)) {
        managed->deleter(managed);
        return NULL;
    }
    void *made = NULL;
    /* It takes `managed` over, also when it fails. */
    if (api->managed_tensor_to_py_object_no_sync(managed, &made) == 0) return made;
    PyErr_Clear();
    return NULL;
}

PyDoc_STRVAR(
    to_torch_doc,
    "to_torch($self, /)\n--\n\n"
    "A torch.Tensor over the same memory (spec 8.7).\n\n"
    "Zero-copy for every dtype that DLPack carries and the float8 types that torch has;\n"
    "bool is unpacked, and tiled, Morton and Hilbert layouts become row-major, both copies.\n"
    "COO, CSR and CSC tensors become torch's, all components shared and verified.\n"
    "ImportError without torch; UnsupportedError, naming what is in the way, for what torch\n"
    "cannot hold: other types and layouts, negative strides, read-only memory.\n"
    "copy.deepcopy(t).to_torch() copies the last two."
    "\n\n"
    ">>> hurray.asarray([1.0, 2.0]).to_torch()\n"
    "tensor([1., 2.], dtype=torch.float64)");

static PyObject *tensor_to_torch(PyObject *self, PyObject *unused) {
    (void)unused;
    const HurrayDLPackExchangeAPI *api = exchange_api(core_state_of(self));
    PyObject *shared = api == NULL ? NULL : share_plain(api, tensor_of(self));
    return shared != NULL ? shared : core_call_glue("hurray._torch", "to_torch", self);
}

PyMethodDef torch_tensor_methods[] = {
    {"to_torch", tensor_to_torch, METH_NOARGS, to_torch_doc},
    {NULL, NULL, 0, NULL},
};
