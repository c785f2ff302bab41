/* Dense arrays in host memory (host_array.h; spec 8.3, 8.5). */
#include "host_array.h"

/* ---- in ---- */

/* The lowest address of any element. `strides` may be NULL. */
static uintptr_t lowest_address(const HostArray *array, uint64_t element_bytes) {
    uintptr_t lowest = (uintptr_t)array->data;
    for (uint32_t k = 0; array->strides != NULL && k < array->rank; k++) {
        if (array->strides[k] >= 0 || array->shape[k] < 2) continue;
        uint64_t step = (uint64_t)0 - (uint64_t)array->strides[k];
        lowest -= (uintptr_t)(step * (array->shape[k] - 1) * element_bytes);
    }
    return lowest;
}

/* What hurray_tensor_from_strided is going to decide: known beforehand, a copy needs no owner. */
static bool is_shareable(const HostArray *array, const HurrayElementType *type, uint64_t count) {
    if (count == 0) return true;
    if (type->bits < 8) return false;
    uintptr_t lowest = lowest_address(array, type->bits / 8u);
    return lowest % HURRAY_MIN_BUFFER_ALIGNMENT == 0;
}

static HurrayStatus adopt(const HostArray *array, HurrayReleaseCallback release, void *context,
                          HurrayCopy copy, HurrayTensor **out) {
    HurrayBufferInfo info = {
        .data = array->data,
        .device = {HURRAY_DEVICE_CPU, HURRAY_MEMORY_STANDARD, 0},
        .sync_mode = HURRAY_SYNC_PRODUCER_SYNCED,
        .flags = array->read_only ? HURRAY_BUFFER_READ_ONLY : 0,
    };
    return hurray_tensor_from_strided(&info, array->type_tag, array->rank, array->shape,
                                      array->strides, release, context, copy, NULL, out);
}

static HurrayStatus adopt_copy(const HostArray *array, uint64_t bytes, HurrayCopy copy,
                               HurrayTensor **out) {
    if (bytes < CORE_LARGE_COPY || copy == HURRAY_COPY_NEVER) {
        return adopt(array, NULL, NULL, copy, out);
    }
    HurrayStatus status;
    Py_BEGIN_ALLOW_THREADS
    status = adopt(array, NULL, NULL, copy, out);
    Py_END_ALLOW_THREADS
    return status;
}

PyObject *host_array_adopt(CoreState *state, const HostArray *array, PyObject *owner,
                           HurrayCopy copy) {
    const HurrayElementType *type = hurray_element_type_from_tag(array->type_tag);
    uint64_t count;
    HurrayStatus status = hurray_shape_count(array->shape, array->rank, &count);
    if (status != HURRAY_OK) return raise_status(state, status);
    HurrayTensor *tensor = NULL;
    if (copy != HURRAY_COPY_ALWAYS && is_shareable(array, type, count)) {
        void *context = owner_new(owner);
        if (context == NULL) return NULL;
        status = adopt(array, owner_release, context, copy, &tensor);
        if (status != HURRAY_OK) owner_discard(context);
    } else {
        uint64_t element_bytes = type->bits < 8 ? 1 : type->bits / 8u;
        uint64_t bytes = count > CORE_LARGE_COPY ? count : count * element_bytes;
        status = adopt_copy(array, bytes, copy, &tensor);
    }
    if (status != HURRAY_OK) return raise_status(state, status);
    return tensor_wrap(state, tensor);
}

/* ---- out ---- */

static bool is_dense(uint8_t layout_tag) {
    return layout_tag == HURRAY_LAYOUT_ROW_MAJOR || layout_tag == HURRAY_LAYOUT_COL_MAJOR ||
           layout_tag == HURRAY_LAYOUT_STRIDED;
}

static bool check_description(const HurrayDescriptorFields *fields, PyObject *refused) {
    if (fields->quantization != NULL) {
        PyErr_SetString(refused, "the tensor is quantized: its stored elements are not its values "
                                 "(buffer(0) has the bytes)");
        return false;
    }
    if (!is_dense(fields->layout.tag)) {
        const char *name = hurray_layout_name(fields->layout.tag);
        PyErr_Format(refused, "layout %s: its elements do not lie at strides in memory",
                     name == NULL ? "extension" : name);
        return false;
    }
    return true;
}

static bool check_shape(const HurrayDescriptorFields *fields, PyObject *refused,
                        PyObject *dynamic) {
    for (uint32_t k = 0; k < fields->rank; k++) {
        if (fields->shape[k] == HURRAY_DYNAMIC) {
            PyErr_Format(dynamic, "shape[%u] is dynamic: an array needs every extent", k);
            return false;
        }
        if (fields->shape[k] > PY_SSIZE_T_MAX) {
            PyErr_Format(refused, "shape[%u] is %llu, more than an array can count", k,
                         (unsigned long long)fields->shape[k]);
            return false;
        }
    }
    return true;
}

bool host_array_of(const HurrayTensor *tensor, PyObject *refused, PyObject *dynamic,
                   HostArray *out) {
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    if (!check_description(fields, refused)) return false;
    if (!check_shape(fields, refused, dynamic)) return false;
    HurrayStatus status = hurray_tensor_check_readable(tensor, false);
    if (status != HURRAY_OK) {
        raise_status_as(refused, status);
        return false;
    }
    *out = (HostArray){
        .data = hurray_tensor_data(tensor),
        .type_tag = fields->type_tag,
        .read_only = hurray_tensor_is_read_only(tensor),
        .rank = fields->rank,
        .shape = fields->shape,
        .strides = hurray_tensor_strides(tensor),
        .count = hurray_tensor_count(tensor),
    };
    return true;
}

/* ---- order ---- */

static bool is_packed_along(const HostArray *array, uint32_t first, int32_t direction) {
    if (array->count == 0) return true;
    uint64_t expected = 1;
    for (uint32_t i = 0; i < array->rank; i++) {
        uint32_t k = direction > 0 ? first + i : first - i;
        if (array->shape[k] == 1) continue;
        if (array->strides[k] < 0 || (uint64_t)array->strides[k] != expected) return false;
        expected *= array->shape[k]; /* at most count */
    }
    return true;
}

bool host_array_is_row_major(const HostArray *array) {
    return array->rank == 0 || array->strides == NULL ||
           is_packed_along(array, array->rank - 1, -1);
}

bool host_array_is_col_major(const HostArray *array) {
    return array->rank < 2 ? host_array_is_row_major(array) : is_packed_along(array, 0, 1);
}

void host_array_byte_strides(const HostArray *array, Py_ssize_t element_bytes, Py_ssize_t *shape,
                             Py_ssize_t *strides) {
    Py_ssize_t limit = PY_SSIZE_T_MAX / element_bytes;
    for (uint32_t k = 0; k < array->rank; k++) {
        int64_t stride = array->strides[k];
        bool countable = stride <= limit && stride >= -limit;
        shape[k] = (Py_ssize_t)array->shape[k];
        strides[k] = countable ? (Py_ssize_t)stride * element_bytes : element_bytes;
    }
}
