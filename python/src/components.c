/*
 * The components of sparse tensors (spec 8.3): their buffers as tensors that share the memory. On
 * tensors that have no such component the attribute is absent.
 */
#include "core.h"

#include <string.h>

static const HurrayDescriptorFields *fields_of(PyObject *self) {
    return hurray_tensor_fields(tensor_of(self));
}

static PyObject *raise_absent(PyObject *self, const char *name) {
    const char *layout = hurray_layout_name(fields_of(self)->layout.tag);
    return PyErr_Format(PyExc_AttributeError,
                        "'Tensor' object has no attribute '%s': its layout is %s", name,
                        layout == NULL ? "an extension" : layout);
}

static bool is_sparse(PyObject *self) {
    return hurray_layout_class(fields_of(self)->layout.tag) == HURRAY_LAYOUT_CLASS_SPARSE;
}

/* A row-major view of buffer `index` as elements of a type. */
static PyObject *view_of_buffer(PyObject *self, uint32_t index, uint8_t type_tag,
                                const HurrayExtensionType *extension_type, uint32_t rank,
                                const uint64_t *shape) {
    CoreState *state = core_state_of(self);
    HurrayBuffer *buffer = hurray_tensor_buffer(tensor_of(self), index);
    HurrayDescriptorFields fields = {
        .type_tag = type_tag,
        .rank = rank,
        .shape = shape,
        .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
        .buffer_count = 1,
        .extension_type = extension_type,
    };
    HurrayTensor *view = NULL;
    HurrayStatus status = hurray_tensor_create(&fields, &buffer, &view);
    if (status != HURRAY_OK) return raise_status(state, status);
    hurray_buffer_retain(buffer); /* which the view took over */
    return tensor_wrap(state, view);
}

static PyObject *get_nnz(PyObject *self, void *closure) {
    (void)closure;
    if (!is_sparse(self)) return raise_absent(self, "nnz");
    return PyLong_FromUnsignedLongLong(fields_of(self)->layout.sparse.nnz);
}

static PyObject *get_values(PyObject *self, void *closure) {
    (void)closure;
    if (!is_sparse(self)) return raise_absent(self, "values");
    const HurrayDescriptorFields *fields = fields_of(self);
    const uint64_t shape[1] = {fields->layout.sparse.nnz};
    return view_of_buffer(self, 0, fields->type_tag, fields->extension_type, 1, shape);
}

/* A buffer of uint64: which one, of which layout, how it is called, and what its shape is. */
typedef struct Component {
    const char *name;
    uint8_t layout;
    uint32_t buffer;
    enum {
        NNZ_BY_RANK,
        ONE_EACH,
        POINTERS
    } kind;
    uint32_t dimension; /* of pointers: that which they count, and one more */
} Component;

static const Component components[] = {
    {"indices", HURRAY_LAYOUT_COO, 1, NNZ_BY_RANK, 0},
    {"col_indices", HURRAY_LAYOUT_CSR, 1, ONE_EACH, 0},
    {"row_ptr", HURRAY_LAYOUT_CSR, 2, POINTERS, 0},
    {"row_indices", HURRAY_LAYOUT_CSC, 1, ONE_EACH, 0},
    {"col_ptr", HURRAY_LAYOUT_CSC, 2, POINTERS, 1},
};

/* As many pointers as there are where the dimension is dynamic. */
static uint64_t pointer_count(PyObject *self, const Component *component) {
    uint64_t extent = fields_of(self)->shape[component->dimension];
    if (extent != HURRAY_DYNAMIC) return extent + 1;
    return fields_of(self)->buffers[component->buffer].byte_size / sizeof(uint64_t);
}

static PyObject *get_component(PyObject *self, void *closure) {
    const Component *component = closure;
    const HurrayDescriptorFields *fields = fields_of(self);
    if (fields->layout.tag != component->layout) return raise_absent(self, component->name);
    uint64_t shape[2] = {fields->layout.sparse.nnz, fields->rank};
    if (component->kind == POINTERS) shape[0] = pointer_count(self, component);
    uint32_t rank = component->kind == NNZ_BY_RANK ? 2 : 1;
    return view_of_buffer(self, component->buffer, HURRAY_TYPE_UINT64, NULL, rank, shape);
}

PyGetSetDef component_tensor_getset[] = {
    {"nnz", get_nnz, NULL, "int: the number of stored elements; sparse layouts only.", NULL},
    {"values", get_values, NULL,
     "Tensor [nnz]: the stored elements, sharing their memory; sparse layouts only.", NULL},
    {"indices", get_component, NULL,
     "Tensor of uint64 [nnz, ndim]: the index of each value, sharing memory; COO only.",
     (void *)&components[0]},
    {"col_indices", get_component, NULL,
     "Tensor of uint64 [nnz]: the column of each value, sharing memory; CSR only.",
     (void *)&components[1]},
    {"row_ptr", get_component, NULL,
     "Tensor of uint64 [rows + 1]: where each row begins, sharing memory; CSR only.",
     (void *)&components[2]},
    {"row_indices", get_component, NULL,
     "Tensor of uint64 [nnz]: the row of each value, sharing memory; CSC only.",
     (void *)&components[3]},
    {"col_ptr", get_component, NULL,
     "Tensor of uint64 [columns + 1]: where each column begins, sharing memory; CSC only.",
     (void *)&components[4]},
    {NULL, NULL, NULL, NULL, NULL},
};
