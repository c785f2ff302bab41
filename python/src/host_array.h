/*
 * Dense arrays in host memory: the one shape that NumPy, the buffer protocol and Tensor can all
 * describe, and the way from each to each.
 */
#ifndef HURRAY_PYTHON_HOST_ARRAY_H
#define HURRAY_PYTHON_HOST_ARRAY_H

#include "core.h"

/* Elements at strides in memory that this process may read. Pointers are borrowed. */
typedef struct HostArray {
    void *data; /* element [0, …, 0]; NULL only when there are no elements */
    uint8_t type_tag;
    bool read_only;
    uint32_t rank;
    const uint64_t *shape;  /* u64[rank], none dynamic */
    const int64_t *strides; /* i64[rank], in elements; NULL: row-major */
    uint64_t count;         /* of elements */
} HostArray;

/*
 * A tensor over somebody's array, shared or copied by the rule of adopt.h; elements narrower than a
 * byte lie one per byte there and are packed. `array->count` is found out here. When the memory is
 * shared, the tensor keeps `owner` alive; a large copy releases the GIL, so the caller must hold a
 * reference to `owner` itself.
 */
PyObject *host_array_adopt(CoreState *state, const HostArray *array, PyObject *owner,
                           HurrayCopy copy);

/*
 * Describes a tensor's elements, packed ones as they lie. False with `refused` (an exception)
 * naming the layout, quantization, device or sync mode that is in the way, or with `dynamic` naming
 * the dimension.
 */
bool host_array_of(const HurrayTensor *tensor, PyObject *refused, PyObject *dynamic,
                   HostArray *out);

/* Whether elements lie in row-major (column-major) order without gaps; where one element or none is
 * stepped over, any stride will do. */
bool host_array_is_row_major(const HostArray *array);
bool host_array_is_col_major(const HostArray *array);

/*
 * shape and strides as Python and NumPy count them: in Py_ssize_t, strides in bytes. Both receive
 * `rank` entries; a stride too large to count, which nothing can ever step over, becomes the element
 * size.
 */
void host_array_byte_strides(const HostArray *array, Py_ssize_t element_bytes, Py_ssize_t *shape,
                             Py_ssize_t *strides);

#endif
