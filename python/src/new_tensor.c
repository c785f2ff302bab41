/* Tensors in the making (new_tensor.h; spec 8.4). */
#include "new_tensor.h"

bool new_tensor_set_shape(CoreState *state, NewTensor *made, PyObject *shape) {
    if (!shape_from_object(state, shape, made->shape, &made->rank)) return false;
    for (uint32_t k = 0; k < made->rank; k++) {
        if (made->shape[k] != HURRAY_DYNAMIC) continue;
        PyErr_Format(state->InvalidDescriptorError,
                     "%s(): shape[%u] is dynamic; memory needs every extent", made->function, k);
        return false;
    }
    return true;
}

bool new_tensor_set_type(CoreState *state, NewTensor *made, PyObject *dtype, uint8_t fallback) {
    uint8_t tag = fallback;
    if (dtype != NULL && !dtype_as_tag(state, dtype, "dtype", &tag)) return false;
    made->type = hurray_element_type_from_tag(tag);
    if (made->type != NULL && made->type->is_standard) return true;
    PyErr_Format(state->UnsupportedError, "%s() makes standard types only, not %s", made->function,
                 made->type == NULL ? "private ones" : made->type->name);
    return false;
}

bool new_tensor_check_device(CoreState *state, const char *function, PyObject *device) {
    HurrayDevice value;
    if (device == NULL) return true;
    if (!device_as_value(state, device, "device", &value)) return false;
    bool is_here = value.tag == HURRAY_DEVICE_CPU && value.device_id == 0 &&
                   value.memory_class == HURRAY_MEMORY_STANDARD;
    if (is_here) return true;
    PyErr_Format(state->UnsupportedError,
                 "%s() allocates standard memory of the CPU, device_id 0, only: not on %R",
                 function, device);
    return false;
}

bool new_tensor_allocate(CoreState *state, NewTensor *made, bool zeroed) {
    HurrayStatus status = hurray_shape_count(made->shape, made->rank, &made->count);
    if (status == HURRAY_OK) {
        status = hurray_element_type_size(made->type->tag, made->count, &made->bytes);
    }
    if (status == HURRAY_OK) {
        status = hurray_buffer_allocate(made->bytes, zeroed, NULL, &made->buffer);
    }
    if (status != HURRAY_OK) {
        raise_status(state, status);
        return false;
    }
    made->data = hurray_buffer_info(made->buffer)->data;
    return true;
}

PyObject *new_tensor_finish(CoreState *state, NewTensor *made) {
    HurrayDescriptorFields fields = {
        .type_tag = made->type->tag,
        .rank = made->rank,
        .shape = made->shape,
        .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
        .buffer_count = 1,
    };
    HurrayTensor *tensor = NULL;
    HurrayStatus status = hurray_tensor_create(&fields, &made->buffer, &tensor);
    if (status != HURRAY_OK) {
        new_tensor_abandon(made);
        return raise_status(state, status);
    }
    made->buffer = NULL;
    return tensor_wrap(state, tensor);
}

PyObject *new_tensor_abandon(NewTensor *made) {
    if (made->buffer != NULL) hurray_buffer_destroy(made->buffer);
    made->buffer = NULL;
    return NULL;
}
