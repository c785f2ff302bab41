/*
 * The classes of layouts that are neither dense nor sparse (spec 2.9 - 2.11, 8.9): block-paged,
 * composite, private and unknown ones.
 */
#include "layout.h"

#include <string.h>

/* ---- BlockPagedLayout ---- */

enum {
    PAGE_SIZE,
    NUM_PAGES,
    PAGED_AXIS,
    NUM_SEQS,
    KV_ROLE,
    LAYER_INDEX,
    BLOCK_TABLE_INDEX_TYPE,
    PAGED_ARGUMENTS
};

static const Signature paged_signature = {"BlockPagedLayout",
                                          {{"page_size", ARGUMENT_REQUIRED},
                                           {"num_pages", ARGUMENT_REQUIRED},
                                           {"paged_axis", ARGUMENT_REQUIRED},
                                           {"num_seqs", ARGUMENT_REQUIRED},
                                           {"kv_role", 0},
                                           {"layer_index", 0},
                                           {"block_table_index_type", 0}}};

/* By their numbers in the format. */
static const char *const role_words[] = {
    [HURRAY_KV_KEY] = "key", [HURRAY_KV_VALUE] = "value", [HURRAY_KV_FUSED] = "fused", NULL};
static const char *const index_words[] = {"uint32", "uint64", NULL};

static bool read_layer(CoreState *state, PyObject *value, uint32_t *out) {
    *out = HURRAY_NO_LAYER;
    if (value == NULL) return true;
    if (!layout_read_u32(state, value, "layer_index", out)) return false;
    if (*out != HURRAY_NO_LAYER) return true;
    PyErr_Format(state->InvalidDescriptorError,
                 "layer_index is %R, which stands for no layer; expected less, or None", value);
    return false;
}

static bool paged_parse(CoreState *state, PyObject *const *arguments, LayoutDraft *draft) {
    HurrayBlockPagedLayout *paged = &draft->layout.paged;
    uint8_t wide = 0;
    if (arguments[KV_ROLE] != NULL &&
        !layout_read_word(arguments[KV_ROLE], "kv_role", role_words, &paged->kv_role)) {
        return false;
    }
    if (arguments[BLOCK_TABLE_INDEX_TYPE] != NULL &&
        !layout_read_word(arguments[BLOCK_TABLE_INDEX_TYPE], "block_table_index_type", index_words,
                          &wide)) {
        return false;
    }
    paged->wide_indices = wide != 0;
    return layout_read_u32(state, arguments[PAGE_SIZE], "page_size", &paged->page_size) &&
           layout_read_u64(state, arguments[NUM_PAGES], "num_pages", &paged->num_pages) &&
           layout_read_u32(state, arguments[PAGED_AXIS], "paged_axis", &paged->paged_axis) &&
           layout_read_u32(state, arguments[NUM_SEQS], "num_seqs", &paged->num_seqs) &&
           read_layer(state, arguments[LAYER_INDEX], &paged->layer_index);
}

static PyObject *paged_arguments(CoreState *state, const HurrayLayout *layout, uint32_t rank) {
    (void)state, (void)rank;
    const HurrayBlockPagedLayout *paged = &layout->paged;
    bool has_layer = paged->layer_index != HURRAY_NO_LAYER;
    PyObject *layer = has_layer ? PyLong_FromUnsignedLong(paged->layer_index) : Py_NewRef(Py_None);
    return Py_BuildValue("(IKIIsNs)", paged->page_size, (unsigned long long)paged->num_pages,
                         paged->paged_axis, paged->num_seqs, role_words[paged->kv_role], layer,
                         index_words[paged->wide_indices]);
}

/* A sequence of entries of any length, or a tensor of them: u64[count] from PyMem. */
static uint64_t *read_entries(CoreState *state, PyObject *value, const char *name,
                              uint64_t *count) {
    PyObject *items = NULL;
    if (tensor_check(state, value)) {
        PyObject *view = PyMemoryView_FromObject(value);
        if (view != NULL) items = PySequence_Tuple(view);
        Py_XDECREF(view);
    } else {
        items = argument_as_tuple(value, name);
    }
    if (items == NULL) return NULL;
    Py_ssize_t size = PyTuple_GET_SIZE(items);
    uint64_t *entries = PyMem_Malloc((size_t)size * sizeof(uint64_t));
    bool read = entries != NULL;
    if (!read) PyErr_NoMemory();
    for (Py_ssize_t i = 0; read && i < size; i++) {
        char item_name[48];
        PyOS_snprintf(item_name, sizeof item_name, "%s[%lld]", name, (long long)i);
        read = layout_read_u64(state, PyTuple_GET_ITEM(items, i), item_name, &entries[i]);
    }
    Py_DECREF(items);
    *count = (uint64_t)size;
    if (read) return entries;
    PyMem_Free(entries);
    return NULL;
}

PyDoc_STRVAR(
    validate_index_buffers_doc,
    "validate_index_buffers($self, seq_ptr, block_table)\n--\n\n"
    "Returns None if the entries of both index buffers are right (spec 2.9).\n\n"
    "seq_ptr: num_seqs + 1 ints from 0 that never decrease and end at len(block_table);\n"
    "block_table: page ids below num_pages. Sequences or 1-D tensors.\n"
    "InvalidDescriptorError names the first entry at fault."
    "\n\n"
    ">>> paged = hurray.BlockPagedLayout(page_size=16, num_pages=8, paged_axis=0, num_seqs=2)\n"
    ">>> paged.validate_index_buffers(seq_ptr=[0, 2, 3], block_table=[5, 0, 7])\n"
    ">>> paged.validate_index_buffers(seq_ptr=[0, 2, 3], block_table=[5, 0, 8])\n"
    "Traceback (most recent call last):\n"
    "    ...\n"
    "hurray.InvalidDescriptorError: block_table[2] is 8; expected less than num_pages 8");

static const Signature index_buffers_signature = {
    "validate_index_buffers", {{"seq_ptr", ARGUMENT_REQUIRED}, {"block_table", ARGUMENT_REQUIRED}}};

static PyObject *validate_index_buffers(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                        PyObject *kwnames) {
    CoreState *state = core_state_of(self);
    PyObject *values[2];
    if (!arguments_parse(&index_buffers_signature, args, nargs, kwnames, values)) return NULL;
    uint64_t pointers, pages;
    uint64_t *seq_ptr = read_entries(state, values[0], "seq_ptr", &pointers);
    if (seq_ptr == NULL) return NULL;
    uint64_t *block_table = read_entries(state, values[1], "block_table", &pages);
    PyObject *result = NULL;
    if (block_table != NULL) {
        HurrayStatus status = hurray_verify_index_buffers(&layout_of(self)->layout.paged, seq_ptr,
                                                          pointers, block_table, pages, NULL);
        result = status == HURRAY_OK ? Py_NewRef(Py_None) : raise_status(state, status);
    }
    PyMem_Free(block_table);
    PyMem_Free(seq_ptr);
    return result;
}

PyDoc_STRVAR(
    validate_quantization_doc,
    "validate_quantization_compatibility($self, scheme, /)\n--\n\n"
    "Returns None if a tensor of this layout can have that quantization scheme\n"
    "(spec 2.9): per-tensor; per-channel on axis 1 or 2; per-block on axis 0 with\n"
    "block_size = page_size; parameter buffers from index 3 on.\n"
    "InvalidDescriptorError says what does not fit."
    "\n\n"
    ">>> paged = hurray.BlockPagedLayout(page_size=16, num_pages=8, paged_axis=0, num_seqs=2)\n"
    ">>> paged.validate_quantization_compatibility(hurray.PerTensorAffine(0.5, 0))");

static PyObject *validate_quantization(PyObject *self, PyObject *scheme) {
    CoreState *state = core_state_of(self);
    HurrayQuantization quantization;
    if (!scheme_as_value(state, scheme, "scheme", &quantization)) return NULL;
    HurrayStatus status =
        hurray_quantization_check_paged(&quantization, &layout_of(self)->layout.paged);
    if (status != HURRAY_OK) return raise_status(state, status);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    paged_doc,
    "BlockPagedLayout(page_size, num_pages, paged_axis, num_seqs, kv_role='key',\n"
    "                 layer_index=None, block_table_index_type='uint32')\n--\n\n"
    "A paged cache of keys and values, [tokens, heads, head_dim] (spec 2.9): buffers\n"
    "page_pool, block_table and seq_ptr. page_size: tokens per page, at least 1; kv_role:\n"
    "'key', 'value' or 'fused'; block_table_index_type: 'uint32' or 'uint64', of seq_ptr,\n"
    "too. A tensor needs paged_axis 0; another one can be held and shown.\n\n"
    "ValueError for another word; InvalidDescriptorError for numbers out of range."
    "\n\n"
    ">>> paged = hurray.BlockPagedLayout(page_size=16, num_pages=8, paged_axis=0, num_seqs=2)\n"
    ">>> paged.kv_role, paged.block_table_index_type\n"
    "('key', 'uint32')");

static PyMethodDef paged_methods[] = {
    {"validate_index_buffers", CORE_METHOD(validate_index_buffers), METH_FASTCALL | METH_KEYWORDS,
     validate_index_buffers_doc},
    {"validate_quantization_compatibility", validate_quantization, METH_O,
     validate_quantization_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef paged_getset[] = {
    LAYOUT_ATTRIBUTE("page_size", PAGE_SIZE, "int: tokens per page."),
    LAYOUT_ATTRIBUTE("num_pages", NUM_PAGES, "int: pages in the pool."),
    LAYOUT_ATTRIBUTE("paged_axis", PAGED_AXIS, "int: the dimension of the tokens, 0."),
    LAYOUT_ATTRIBUTE("num_seqs", NUM_SEQS, "int: the number of sequences."),
    LAYOUT_ATTRIBUTE("kv_role", KV_ROLE, "str: 'key', 'value' or 'fused'."),
    LAYOUT_ATTRIBUTE("layer_index", LAYER_INDEX, "int, or None for no layer."),
    LAYOUT_ATTRIBUTE("block_table_index_type", BLOCK_TABLE_INDEX_TYPE,
                     "str: 'uint32' or 'uint64', of block_table and seq_ptr."),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot paged_slots[] = {
    {Py_tp_doc, (char *)paged_doc},
    {Py_tp_new, layout_tp_new},
    {Py_tp_methods, paged_methods},
    {Py_tp_getset, paged_getset},
    {0, NULL},
};

LAYOUT_SPEC(paged_spec, "BlockPagedLayout", paged_slots);

const LayoutClass layout_block_paged_class = {
    .tag = HURRAY_LAYOUT_BLOCK_PAGED,
    .spec = &paged_spec,
    .signature = &paged_signature,
    .checked_alone = true,
    .alone_rank = 3,
    .parse = paged_parse,
    .arguments = paged_arguments,
};

/* ---- CompositeLayout ---- */

enum {
    COMPOSITION_RULE,
    MEMBER_COUNT,
    COMBINE_OP
};

static const Signature composite_signature = {"CompositeLayout",
                                              {{"composition_rule", ARGUMENT_REQUIRED},
                                               {"member_count", ARGUMENT_REQUIRED},
                                               {"combine_op", 0}}};

/* By their numbers in the format, less 1. */
static const char *const rule_words[] = {
    [HURRAY_RULE_PARTITION - 1] = "partition",
    [HURRAY_RULE_OVERLAY - 1] = "overlay",
    [HURRAY_RULE_GROUP - 1] = "group",
    NULL,
};
static const char *const op_words[] = {
    [HURRAY_COMBINE_REPLACE - 1] = "replace", [HURRAY_COMBINE_ADD - 1] = "add", NULL};

/* A rule by its name, or a private one by its number. */
static bool read_rule(PyObject *value, uint8_t *out) {
    if (!PyLong_Check(value)) {
        bool read = layout_read_word(value, "composition_rule", rule_words, out);
        *out = (uint8_t)(*out + 1);
        return read;
    }
    if (!argument_as_u8(value, "composition_rule", out)) return false;
    if (*out > HURRAY_RULE_GROUP) return true; /* the library knows which of them are private */
    PyErr_Format(PyExc_ValueError, "composition_rule is %R; expected the name of a rule", value);
    return false;
}

static bool read_combine_op(PyObject *value, HurrayCompositeLayout *composite) {
    bool is_overlay = composite->composition_rule == HURRAY_RULE_OVERLAY;
    if (value == NULL && is_overlay) {
        PyErr_SetString(PyExc_ValueError,
                        "combine_op is missing: an overlay needs 'replace' or 'add'");
        return false;
    }
    if (value == NULL) return true;
    if (!layout_read_word(value, "combine_op", op_words, &composite->combine_op)) return false;
    composite->combine_op++;
    if (is_overlay) return true;
    PyErr_Format(PyExc_ValueError, "combine_op is %R; only an overlay has one", value);
    return false;
}

static bool composite_parse(CoreState *state, PyObject *const *arguments, LayoutDraft *draft) {
    HurrayCompositeLayout *composite = &draft->layout.composite;
    return read_rule(arguments[COMPOSITION_RULE], &composite->composition_rule) &&
           layout_read_u32(state, arguments[MEMBER_COUNT], "member_count",
                           &composite->member_count) &&
           read_combine_op(arguments[COMBINE_OP], composite);
}

static PyObject *composite_arguments(CoreState *state, const HurrayLayout *layout, uint32_t rank) {
    (void)state, (void)rank;
    const HurrayCompositeLayout *composite = &layout->composite;
    uint8_t rule = composite->composition_rule;
    const char *op =
        composite->combine_op == HURRAY_COMBINE_NONE ? NULL : op_words[composite->combine_op - 1];
    PyObject *rule_object = rule <= HURRAY_RULE_GROUP ? PyUnicode_FromString(rule_words[rule - 1])
                                                      : PyLong_FromLong(rule);
    return Py_BuildValue("(NIz)", rule_object, composite->member_count, op);
}

PyDoc_STRVAR(
    composite_doc,
    "CompositeLayout(composition_rule, member_count, combine_op=None)\n--\n\n"
    "The head of a composite (spec 2.10): how its members make up one tensor.\n"
    "composition_rule: 'partition', 'overlay' or 'group'; private ones, from a permissive\n"
    "reader, are their number. combine_op: 'replace' or 'add' for an overlay, which needs\n"
    "one; else None. A hurray.Composite has such a layout, a Tensor never does.\n\n"
    "ValueError for other words, or a combine_op missing or out of place."
    "\n\n"
    ">>> parts = [hurray.ones(2), hurray.zeros(3)]\n"
    ">>> hurray.Composite('group', shape=[5], dtype=hurray.float64, members=parts).layout\n"
    "CompositeLayout(composition_rule='group', member_count=2)");

static PyGetSetDef composite_getset[] = {
    LAYOUT_ATTRIBUTE("composition_rule", COMPOSITION_RULE,
                     "str: 'partition', 'overlay' or 'group'; int for a private rule."),
    LAYOUT_ATTRIBUTE("member_count", MEMBER_COUNT, "int: the number of members."),
    LAYOUT_ATTRIBUTE("combine_op", COMBINE_OP, "str: 'replace' or 'add' of an overlay; else None."),
    {NULL, NULL, NULL, NULL, NULL},
};

LAYOUT_SLOTS(composite_slots, composite_doc, composite_getset);
LAYOUT_SPEC(composite_spec, "CompositeLayout", composite_slots);

const LayoutClass layout_composite_class = {
    .tag = HURRAY_LAYOUT_COMPOSITE,
    .spec = &composite_spec,
    .signature = &composite_signature,
    .checked_alone = true,
    .parse = composite_parse,
    .arguments = composite_arguments,
};

/* ---- bytes as an argument ---- */

/* At most 2^32 − 1 of them, as a new bytes object. */
static PyObject *read_bytes(CoreState *state, PyObject *value, const char *name) {
    if (value == NULL) return PyBytes_FromStringAndSize(NULL, 0);
    if (!PyObject_CheckBuffer(value)) {
        PyErr_Format(PyExc_TypeError, "%s must be bytes-like, not %.200s", name,
                     Py_TYPE(value)->tp_name);
        return NULL;
    }
    PyObject *bytes = PyBytes_FromObject(value);
    if (bytes == NULL || (uint64_t)PyBytes_GET_SIZE(bytes) <= UINT32_MAX) return bytes;
    PyErr_Format(state->InvalidDescriptorError, "%s has %zd bytes; expected less than 2**32", name,
                 PyBytes_GET_SIZE(bytes));
    Py_DECREF(bytes);
    return NULL;
}

static const uint8_t *data_of(PyObject *bytes) { return (const uint8_t *)PyBytes_AS_STRING(bytes); }

/* ---- PrivateExtensionLayout ---- */

enum {
    TAG,
    EXTENSION_LAYOUT_ID,
    EXTENSION_DATA
};

static const Signature private_signature = {"PrivateExtensionLayout",
                                            {{"tag", ARGUMENT_REQUIRED},
                                             {"extension_layout_id", ARGUMENT_REQUIRED},
                                             {"extension_data", 0}}};

static bool private_parse(CoreState *state, PyObject *const *arguments, LayoutDraft *draft) {
    HurrayPrivateLayout *extension = &draft->layout.extension;
    uint8_t tag;
    if (!argument_as_u8(arguments[TAG], "tag", &tag)) return false;
    if (hurray_layout_tag_kind(tag) != HURRAY_LAYOUT_TAG_PRIVATE) {
        char text[8];
        PyErr_Format(state->InvalidDescriptorError, "tag is %s; expected 0xF0 to 0xFE",
                     hex_byte(tag, text));
        return false;
    }
    if (!layout_read_u64(state, arguments[EXTENSION_LAYOUT_ID], "extension_layout_id",
                         &extension->extension_layout_id)) {
        return false;
    }
    draft->bytes = read_bytes(state, arguments[EXTENSION_DATA], "extension_data");
    if (draft->bytes == NULL) return false;
    draft->layout.tag = tag;
    extension->extension_data = data_of(draft->bytes);
    extension->extension_data_length = (uint32_t)PyBytes_GET_SIZE(draft->bytes);
    return true;
}

static PyObject *private_arguments(CoreState *state, const HurrayLayout *layout, uint32_t rank) {
    (void)state, (void)rank;
    const HurrayPrivateLayout *extension = &layout->extension;
    PyObject *data = PyBytes_FromStringAndSize((const char *)extension->extension_data,
                                               (Py_ssize_t)extension->extension_data_length);
    return Py_BuildValue("(BKN)", layout->tag, (unsigned long long)extension->extension_layout_id,
                         data);
}

static bool private_keep(HurrayLayout *layout, uint32_t rank, PyObject *arguments, void **storage) {
    (void)rank, (void)storage;
    layout->extension.extension_data = data_of(PyTuple_GET_ITEM(arguments, EXTENSION_DATA));
    return true;
}

PyDoc_STRVAR(
    private_doc,
    "PrivateExtensionLayout(tag, extension_layout_id, extension_data=b'')\n--\n\n"
    "A layout that only those who agreed on it understand (spec 2.11). tag: 0xF0 to 0xFE;\n"
    "extension_layout_id: 64 bits; extension_data: bytes, carried as they are.\n\n"
    "InvalidDescriptorError for another tag or numbers out of range."
    "\n\n"
    ">>> hurray.PrivateExtensionLayout(0xF0, 42, b'ours')\n"
    "PrivateExtensionLayout(tag=0xF0, extension_layout_id=42, extension_data=b'ours')");

static PyGetSetDef private_getset[] = {
    LAYOUT_ATTRIBUTE("extension_layout_id", EXTENSION_LAYOUT_ID, "int: which private layout."),
    LAYOUT_ATTRIBUTE("extension_data", EXTENSION_DATA, "bytes: what its author keeps there."),
    {NULL, NULL, NULL, NULL, NULL},
};

LAYOUT_SLOTS(private_slots, private_doc, private_getset);
LAYOUT_SPEC(private_spec, "PrivateExtensionLayout", private_slots);

const LayoutClass layout_private_class = {
    .spec = &private_spec,
    .signature = &private_signature,
    .parse = private_parse,
    .arguments = private_arguments,
    .keep = private_keep,
};

/* ---- UnknownLayout ---- */

enum {
    RAW_BYTES = 1
};

static const Signature unknown_signature = {"UnknownLayout",
                                            {{"tag", ARGUMENT_REQUIRED}, {"raw_bytes", 0}}};

static bool check_unknown_tag(CoreState *state, uint8_t tag) {
    char text[8];
    hex_byte(tag, text);
    switch (hurray_layout_tag_kind(tag)) {
    case HURRAY_LAYOUT_TAG_RESERVED: return true;
    case HURRAY_LAYOUT_TAG_INVALID:
        PyErr_Format(state->InvalidDescriptorError, "tag %s is invalid; no layout has it", text);
        return false;
    default:
        PyErr_Format(PyExc_ValueError, "tag %s is not unknown: use hurray.%s", text,
                     layout_class_of_tag(tag)->signature->function);
        return false;
    }
}

static bool unknown_parse(CoreState *state, PyObject *const *arguments, LayoutDraft *draft) {
    uint8_t tag;
    if (!argument_as_u8(arguments[TAG], "tag", &tag) || !check_unknown_tag(state, tag)) {
        return false;
    }
    draft->bytes = read_bytes(state, arguments[RAW_BYTES], "raw_bytes");
    if (draft->bytes == NULL) return false;
    draft->layout.tag = tag;
    draft->layout.opaque =
        (HurrayOpaqueLayout){data_of(draft->bytes), (uint32_t)PyBytes_GET_SIZE(draft->bytes), 0};
    return true;
}

static PyObject *unknown_arguments(CoreState *state, const HurrayLayout *layout, uint32_t rank) {
    (void)state, (void)rank;
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)layout->opaque.bytes,
                                                (Py_ssize_t)layout->opaque.length);
    return Py_BuildValue("(BN)", layout->tag, bytes);
}

static bool unknown_keep(HurrayLayout *layout, uint32_t rank, PyObject *arguments, void **storage) {
    (void)rank, (void)storage;
    layout->opaque.bytes = data_of(PyTuple_GET_ITEM(arguments, RAW_BYTES));
    return true;
}

PyDoc_STRVAR(
    unknown_doc,
    "UnknownLayout(tag, raw_bytes=b'')\n--\n\n"
    "A layout whose tag is not assigned, as a permissive reader finds it (spec 2.11).\n"
    "raw_bytes: everything from the layout fields to the end of the descriptor. Shown and\n"
    "compared only: no Tensor can have it, because nobody knows its buffers.\n\n"
    "ValueError, naming the class, for a tag that has one; InvalidDescriptorError for\n"
    "0x00 and 0xFF."
    "\n\n"
    ">>> hurray.UnknownLayout(0x7F, b'later')\n"
    "UnknownLayout(tag=0x7F, raw_bytes=b'later')");

static PyGetSetDef unknown_getset[] = {
    LAYOUT_ATTRIBUTE("raw_bytes", RAW_BYTES, "bytes: from the layout fields to the end."),
    {NULL, NULL, NULL, NULL, NULL},
};

LAYOUT_SLOTS(unknown_slots, unknown_doc, unknown_getset);
LAYOUT_SPEC(unknown_spec, "UnknownLayout", unknown_slots);

const LayoutClass layout_unknown_class = {
    .spec = &unknown_spec,
    .signature = &unknown_signature,
    .parse = unknown_parse,
    .arguments = unknown_arguments,
    .keep = unknown_keep,
};
