/*
 * A tensor in the making: row-major, on the CPU, in new memory, filled in before anyone sees it.
 *
 *     NewTensor made = {.function = "zeros"};
 *     if (!new_tensor_set_shape(state, &made, shape) || !new_tensor_set_type(state, &made, dtype, …)
 *         || !new_tensor_allocate(state, &made, true)) return NULL;
 *     … write made.data, made.bytes bytes …
 *     return new_tensor_finish(state, &made);
 */
#ifndef HURRAY_PYTHON_NEW_TENSOR_H
#define HURRAY_PYTHON_NEW_TENSOR_H

#include "core.h"

typedef struct NewTensor {
    const char *function; /* "zeros", for messages */
    const HurrayElementType *type;
    uint32_t rank;
    uint64_t shape[HURRAY_MAX_RANK];
    uint64_t count; /* elements; from allocate on */
    uint64_t bytes; /* packed; from allocate on */
    uint8_t *data;  /* from allocate on; NULL when there are no bytes */
    HurrayBuffer *buffer;
} NewTensor;

/* Reads a shape argument. InvalidDescriptorError naming function and index for a dynamic extent. */
bool new_tensor_set_shape(CoreState *state, NewTensor *made, PyObject *shape);
/* `dtype` is a Dtype, or NULL for the fallback. UnsupportedError unless it is a standard type. */
bool new_tensor_set_type(CoreState *state, NewTensor *made, PyObject *dtype, uint8_t fallback);
/* Whether a device= argument, or NULL, is where memory is allocated: the CPU. UnsupportedError. */
bool new_tensor_check_device(CoreState *state, const char *function, PyObject *device);

/* Memory for the shape and type set. InvalidDescriptorError, MemoryError when there is too much. */
bool new_tensor_allocate(CoreState *state, NewTensor *made, bool zeroed);
/* The Tensor; takes the memory over, also on failure. */
PyObject *new_tensor_finish(CoreState *state, NewTensor *made);
/* Gives the memory back. Returns NULL. */
PyObject *new_tensor_abandon(NewTensor *made);

#endif
