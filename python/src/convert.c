/*
 * Tensors in other layouts, and whether what is in them is sound (spec 2, 3): libhurray's conversions
 * and its verification as methods of Tensor.
 */
#include "arguments.h"
#include "core.h"

/* ---- other layouts ---- */

/* Whether a copy of its size is worth releasing the GIL for. */
static bool is_large(const HurrayTensor *tensor) {
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        if (fields->buffers[i].byte_size >= CORE_LARGE_COPY) return true;
        bytes += fields->buffers[i].byte_size;
    }
    /* A sparse one may be much larger as a dense one. */
    uint64_t count = hurray_tensor_count(tensor);
    return bytes >= CORE_LARGE_COPY || count >= CORE_LARGE_COPY;
}

static const HurrayLayout row_major = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}};

static bool lies_at_strides(uint8_t tag) {
    return tag == HURRAY_LAYOUT_ROW_MAJOR || tag == HURRAY_LAYOUT_COL_MAJOR ||
           tag == HURRAY_LAYOUT_STRIDED;
}

/* Between sparse layouts, and to them from dense ones, which it takes at strides. */
static HurrayStatus to_sparse(const HurrayTensor *tensor, const HurrayLayout *layout,
                              HurrayTensor **out) {
    uint8_t tag = hurray_tensor_fields(tensor)->layout.tag;
    if (hurray_layout_class(tag) != HURRAY_LAYOUT_CLASS_DENSE || lies_at_strides(tag)) {
        return hurray_tensor_to_sparse(tensor, layout, NULL, out);
    }
    HurrayTensor *dense = NULL;
    HurrayStatus status = hurray_tensor_to_layout(tensor, &row_major, NULL, &dense);
    if (status == HURRAY_OK) status = hurray_tensor_to_sparse(dense, layout, NULL, out);
    hurray_tensor_release(dense);
    return status;
}

/* From sparse layouts, which become row-major or column-major first. */
static HurrayStatus from_sparse(const HurrayTensor *tensor, const HurrayLayout *layout,
                                HurrayTensor **out) {
    if (layout->tag == HURRAY_LAYOUT_ROW_MAJOR || layout->tag == HURRAY_LAYOUT_COL_MAJOR) {
        return hurray_tensor_to_dense(tensor, layout, NULL, out);
    }
    HurrayTensor *dense = NULL;
    HurrayStatus status = hurray_tensor_to_dense(tensor, NULL, NULL, &dense);
    if (status == HURRAY_OK) status = hurray_tensor_to_layout(dense, layout, NULL, out);
    hurray_tensor_release(dense);
    return status;
}

static HurrayStatus convert(const HurrayTensor *tensor, const HurrayLayout *layout,
                            HurrayTensor **out) {
    uint8_t tag = hurray_tensor_fields(tensor)->layout.tag;
    if (hurray_layout_class(layout->tag) == HURRAY_LAYOUT_CLASS_SPARSE) {
        return to_sparse(tensor, layout, out);
    }
    if (hurray_layout_class(tag) == HURRAY_LAYOUT_CLASS_SPARSE &&
        hurray_layout_class(layout->tag) == HURRAY_LAYOUT_CLASS_DENSE) {
        return from_sparse(tensor, layout, out);
    }
    return hurray_tensor_to_layout(tensor, layout, NULL, out);
}

static PyObject *to_layout(CoreState *state, const HurrayTensor *tensor,
                           const HurrayLayout *layout) {
    HurrayTensor *converted = NULL;
    PyThreadState *saved = is_large(tensor) ? PyEval_SaveThread() : NULL;
    HurrayStatus status = convert(tensor, layout, &converted);
    if (saved != NULL) PyEval_RestoreThread(saved);
    return status == HURRAY_OK ? tensor_wrap(state, converted) : raise_status(state, status);
}

PyObject *tensor_to_row_major(CoreState *state, const HurrayTensor *tensor) {
    return to_layout(state, tensor, &row_major);
}

PyDoc_STRVAR(
    to_layout_doc,
    "to_layout($self, /, layout)\n--\n\n"
    "A copy in another layout: same dtype, shape, elements and sections, in new memory of the\n"
    "CPU (spec 2.1 to 2.8).\n\n"
    "Any dense layout becomes any other, also of quantized tensors. COO, CSR, CSC and CSF become\n"
    "each other, which keeps every stored element, zeros too, and dense; from a dense tensor,\n"
    "elements are stored whose bits are not all zero. Results are sorted and without gaps: nnz "
    "and\n"
    "is_sorted are found out here, and what `layout` says of them is not looked at.\n\n"
    "TypeError: no Layout. InvalidDescriptorError: the layout does not fit the shape, the shape "
    "is\n"
    "dynamic, or stored indices and pointers are broken (IndexError for one out of bounds).\n"
    "UnsupportedError: block-paged, composite, private layouts; strides in which elements "
    "overlap;\n"
    "sparse tensors whose quantization has parameters in buffers; bytes that cannot be read here."
    "\n\n"
    ">>> t = hurray.asarray([[0, 7], [0, 0]])\n"
    ">>> t.to_layout(hurray.ColMajorLayout()).strides\n"
    "(1, 2)\n"
    ">>> sparse = t.to_layout(hurray.CsrLayout(0))\n"
    ">>> sparse.nnz\n"
    "1\n"
    ">>> sparse.to_layout(hurray.RowMajorLayout())\n"
    "hurray.Tensor([[0, 7],\n"
    "               [0, 0]], dtype=int64)");

static PyObject *tensor_to_layout(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                  PyObject *kwnames) {
    static const Signature signature = {"to_layout",
                                        {{"layout", ARGUMENT_REQUIRED | ARGUMENT_KEEP_NONE}}};
    CoreState *state = core_state_of(self);
    PyObject *object;
    HurrayLayout layout;
    if (!arguments_parse(&signature, args, nargs, kwnames, &object)) return NULL;
    uint32_t rank = hurray_tensor_fields(tensor_of(self))->rank;
    if (!layout_for_rank(state, object, rank, &layout)) return NULL;
    /* The library would take bytes that stand in for a device's; but nothing moves unasked. */
    HurrayStatus status = hurray_tensor_check_readable(tensor_of(self), false);
    if (status != HURRAY_OK) return raise_status(state, status);
    return to_layout(state, tensor_of(self), &layout);
}

/* ---- whether it is sound ---- */

PyDoc_STRVAR(
    verify_doc,
    "verify($self, /)\n--\n\n"
    "Reads what is in the buffers besides elements, and checks it (spec 2.6 to 2.9, 3).\n\n"
    "Indices and pointers of sparse and block-paged layouts, scales and zero points of a\n"
    "quantization scheme, and what statistics claim; elements are never looked at. Making\n"
    "or loading a tensor does not do that. None when all is well; otherwise\n"
    "InvalidDescriptorError, which says which entry of which buffer is wrong, what it is\n"
    "and what was expected. Time is linear in the buffers. UnsupportedError where the\n"
    "bytes cannot be read."
    "\n\n"
    ">>> coo, values = hurray.CooLayout(2), np.ones(2)\n"
    ">>> indices = np.array([[0], [9]], np.uint64)\n"
    ">>> t = hurray.Tensor(values, hurray.float64, [5], layout=coo, aux_buffers=[indices])\n"
    ">>> t.verify()\n"
    "Traceback (most recent call last):\n"
    "    ...\n"
    "hurray.InvalidDescriptorError: indices[1] is 9; expected less than the extent 5");

static PyObject *tensor_verify(PyObject *self, PyObject *unused) {
    (void)unused;
    HurrayStatus status;
    PyThreadState *saved = is_large(tensor_of(self)) ? PyEval_SaveThread() : NULL;
    status = hurray_tensor_verify(tensor_of(self), NULL);
    if (saved != NULL) PyEval_RestoreThread(saved);
    if (status != HURRAY_OK) return raise_status(core_state_of(self), status);
    Py_RETURN_NONE;
}

PyMethodDef convert_tensor_methods[] = {
    {"to_layout", CORE_METHOD(tensor_to_layout), METH_FASTCALL | METH_KEYWORDS, to_layout_doc},
    {"verify", tensor_verify, METH_NOARGS, verify_doc},
    {NULL, NULL, 0, NULL},
};
