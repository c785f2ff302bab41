/* The classes of sparse layouts (spec 2.6 - 2.8, 8.9). */
#include "layout.h"

#define NNZ_DOC "int: the number of stored elements."

/* ---- CooLayout ---- */

static const Signature coo_signature = {"CooLayout",
                                        {{"nnz", ARGUMENT_REQUIRED}, {"is_sorted", 0}}};

static bool coo_parse(CoreState *state, PyObject *const *arguments, LayoutDraft *draft) {
    int is_sorted = argument_as_bool(arguments[1], 0);
    draft->layout.sparse.is_sorted = is_sorted > 0;
    return is_sorted >= 0 && layout_read_u64(state, arguments[0], "nnz", &draft->layout.sparse.nnz);
}

static PyObject *coo_arguments(CoreState *state, const HurrayLayout *layout, uint32_t rank) {
    (void)state, (void)rank;
    return Py_BuildValue("(KO)", (unsigned long long)layout->sparse.nnz,
                         layout->sparse.is_sorted ? Py_True : Py_False);
}

PyDoc_STRVAR(coo_doc,
             "CooLayout(nnz, is_sorted=False)\n--\n\n"
             "Coordinates (spec 2.6): buffers values [nnz] and indices, uint64 [nnz, rank].\n"
             "is_sorted promises them in lexicographic order, dimension 0 first. None twice.\n\n"
             "InvalidDescriptorError for an nnz outside of 64 bits."
             "\n\n"
             ">>> t = hurray.asarray([[0, 7], [0, 0]]).to_layout(hurray.CooLayout(0))\n"
             ">>> t.layout, t.indices\n"
             "(CooLayout(nnz=1, is_sorted=True), hurray.Tensor([[0, 1]], dtype=uint64))");

static PyGetSetDef coo_getset[] = {
    LAYOUT_ATTRIBUTE("nnz", 0, NNZ_DOC),
    LAYOUT_ATTRIBUTE("is_sorted", 1, "bool: the indices are in lexicographic order."),
    {NULL, NULL, NULL, NULL, NULL},
};

LAYOUT_SLOTS(coo_slots, coo_doc, coo_getset);
LAYOUT_SPEC(coo_spec, "CooLayout", coo_slots);

const LayoutClass layout_coo_class = {
    .tag = HURRAY_LAYOUT_COO,
    .spec = &coo_spec,
    .signature = &coo_signature,
    .parse = coo_parse,
    .arguments = coo_arguments,
};

/* ---- CsrLayout, CscLayout ---- */

static const Signature csr_signature = {"CsrLayout", {{"nnz", ARGUMENT_REQUIRED}}};
static const Signature csc_signature = {"CscLayout", {{"nnz", ARGUMENT_REQUIRED}}};

static bool compressed_parse(CoreState *state, PyObject *const *arguments, LayoutDraft *draft) {
    return layout_read_u64(state, arguments[0], "nnz", &draft->layout.sparse.nnz);
}

static PyObject *compressed_arguments(CoreState *state, const HurrayLayout *layout, uint32_t rank) {
    (void)state, (void)rank;
    return Py_BuildValue("(K)", (unsigned long long)layout->sparse.nnz);
}

PyDoc_STRVAR(csr_doc,
             "CsrLayout(nnz)\n--\n\n"
             "Compressed rows of a matrix (spec 2.7): buffers values [nnz], col_indices, uint64\n"
             "[nnz], and row_ptr, uint64 [rows + 1]; columns increase within a row.\n\n"
             "InvalidDescriptorError for an nnz outside of 64 bits."
             "\n\n"
             ">>> t = hurray.asarray([[0, 7], [8, 9]]).to_layout(hurray.CsrLayout(0))\n"
             ">>> t.values\n"
             "hurray.Tensor([7, 8, 9], dtype=int64)\n"
             ">>> t.col_indices\n"
             "hurray.Tensor([1, 0, 1], dtype=uint64)\n"
             ">>> t.row_ptr\n"
             "hurray.Tensor([0, 1, 3], dtype=uint64)");
PyDoc_STRVAR(
    csc_doc,
    "CscLayout(nnz)\n--\n\n"
    "Compressed columns of a matrix (spec 2.7): buffers values [nnz], row_indices, uint64\n"
    "[nnz], and col_ptr, uint64 [columns + 1]; rows increase within a column.\n\n"
    "InvalidDescriptorError for an nnz outside of 64 bits."
    "\n\n"
    ">>> t = hurray.asarray([[0, 7], [8, 9]]).to_layout(hurray.CscLayout(0))\n"
    ">>> t.values\n"
    "hurray.Tensor([8, 7, 9], dtype=int64)\n"
    ">>> t.row_indices\n"
    "hurray.Tensor([1, 0, 1], dtype=uint64)\n"
    ">>> t.col_ptr\n"
    "hurray.Tensor([0, 1, 3], dtype=uint64)");

static PyGetSetDef compressed_getset[] = {
    LAYOUT_ATTRIBUTE("nnz", 0, NNZ_DOC),
    {NULL, NULL, NULL, NULL, NULL},
};

LAYOUT_SLOTS(csr_slots, csr_doc, compressed_getset);
LAYOUT_SLOTS(csc_slots, csc_doc, compressed_getset);
LAYOUT_SPEC(csr_spec, "CsrLayout", csr_slots);
LAYOUT_SPEC(csc_spec, "CscLayout", csc_slots);

const LayoutClass layout_csr_class = {
    .tag = HURRAY_LAYOUT_CSR,
    .spec = &csr_spec,
    .signature = &csr_signature,
    .parse = compressed_parse,
    .arguments = compressed_arguments,
};

const LayoutClass layout_csc_class = {
    .tag = HURRAY_LAYOUT_CSC,
    .spec = &csc_spec,
    .signature = &csc_signature,
    .parse = compressed_parse,
    .arguments = compressed_arguments,
};

/* ---- CsfLayout ---- */

static const Signature csf_signature = {
    "CsfLayout", {{"nnz", ARGUMENT_REQUIRED}, {"mode_order", ARGUMENT_REQUIRED}}};

static bool csf_parse(CoreState *state, PyObject *const *arguments, LayoutDraft *draft) {
    draft->layout.sparse.mode_order = draft->counts;
    return layout_read_u64(state, arguments[0], "nnz", &draft->layout.sparse.nnz) &&
           layout_read_u32s(state, arguments[1], "mode_order", draft->counts, &draft->rank);
}

static PyObject *csf_arguments(CoreState *state, const HurrayLayout *layout, uint32_t rank) {
    (void)state;
    return Py_BuildValue("(KN)", (unsigned long long)layout->sparse.nnz,
                         layout_u32_tuple(layout->sparse.mode_order, rank));
}

static bool csf_keep(HurrayLayout *layout, uint32_t rank, PyObject *arguments, void **storage) {
    (void)arguments;
    *storage = layout_copy_block(layout->sparse.mode_order, rank * sizeof(uint32_t));
    layout->sparse.mode_order = *storage;
    return *storage != NULL;
}

PyDoc_STRVAR(csf_doc,
             "CsfLayout(nnz, mode_order)\n--\n\n"
             "Compressed fibers of three dimensions and more (spec 2.8): buffers values [nnz],\n"
             "then pos and crd, uint64, of each level. mode_order: the dimension that each level\n"
             "stores, a permutation of 0 … rank - 1. InvalidDescriptorError where it is none."
             "\n\n"
             ">>> t = hurray.ones((1, 2, 2)).to_layout(hurray.CsfLayout(0, [0, 1, 2]))\n"
             ">>> t.nnz, t.buffer_count\n"
             "(4, 7)");

static PyGetSetDef csf_getset[] = {
    LAYOUT_ATTRIBUTE("nnz", 0, NNZ_DOC),
    LAYOUT_ATTRIBUTE("mode_order", 1, "tuple of int: the dimension stored at each level."),
    {NULL, NULL, NULL, NULL, NULL},
};

LAYOUT_SLOTS(csf_slots, csf_doc, csf_getset);
LAYOUT_SPEC(csf_spec, "CsfLayout", csf_slots);

const LayoutClass layout_csf_class = {
    .tag = HURRAY_LAYOUT_CSF,
    .spec = &csf_spec,
    .signature = &csf_signature,
    .has_rank = true,
    .checked_alone = true,
    .parse = csf_parse,
    .arguments = csf_arguments,
    .keep = csf_keep,
};
