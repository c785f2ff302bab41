/* The classes of dense layouts (spec 2.1 - 2.5, 8.9). */
#include "layout.h"

#include <string.h>

/* ---- RowMajorLayout, ColMajorLayout ---- */

static const Signature row_major_signature = {"RowMajorLayout", {{NULL, 0}}};
static const Signature col_major_signature = {"ColMajorLayout", {{NULL, 0}}};

PyDoc_STRVAR(row_major_doc, "RowMajorLayout()\n--\n\n"
                            "Elements packed without gaps, the last dimension fastest (spec 2.1)."
                            "\n\n"
                            ">>> hurray.zeros((2, 3)).layout\n"
                            "RowMajorLayout()\n"
                            ">>> hurray.zeros((2, 3)).strides\n"
                            "(3, 1)");
PyDoc_STRVAR(col_major_doc,
             "ColMajorLayout()\n--\n\n"
             "Elements packed without gaps, the first dimension fastest (spec 2.1). Rank 1 … 64."
             "\n\n"
             ">>> t = hurray.ones((2, 3)).to_layout(hurray.ColMajorLayout())\n"
             ">>> t.strides\n"
             "(1, 2)");

static PyType_Slot row_major_slots[] = {
    {Py_tp_doc, (char *)row_major_doc}, {Py_tp_new, layout_tp_new}, {0, NULL}};
static PyType_Slot col_major_slots[] = {
    {Py_tp_doc, (char *)col_major_doc}, {Py_tp_new, layout_tp_new}, {0, NULL}};

LAYOUT_SPEC(row_major_spec, "RowMajorLayout", row_major_slots);
LAYOUT_SPEC(col_major_spec, "ColMajorLayout", col_major_slots);

const LayoutClass layout_row_major_class = {
    .tag = HURRAY_LAYOUT_ROW_MAJOR,
    .spec = &row_major_spec,
    .signature = &row_major_signature,
};

const LayoutClass layout_col_major_class = {
    .tag = HURRAY_LAYOUT_COL_MAJOR,
    .spec = &col_major_spec,
    .signature = &col_major_signature,
};

/* ---- StridedLayout ---- */

static const Signature strided_signature = {"StridedLayout", {{"strides", ARGUMENT_REQUIRED}}};

static bool strided_parse(CoreState *state, PyObject *const *arguments, LayoutDraft *draft) {
    draft->layout.strides = draft->strides[0];
    return layout_read_i64s(state, arguments[0], "strides", draft->strides[0], &draft->rank);
}

static PyObject *strided_arguments(CoreState *state, const HurrayLayout *layout, uint32_t rank) {
    (void)state;
    PyObject *strides = strides_tuple(layout->strides, rank);
    return strides == NULL ? NULL : Py_BuildValue("(N)", strides);
}

static bool strided_keep(HurrayLayout *layout, uint32_t rank, PyObject *arguments, void **storage) {
    (void)arguments;
    *storage = layout_copy_block(layout->strides, rank * sizeof(int64_t));
    layout->strides = *storage;
    return *storage != NULL;
}

PyDoc_STRVAR(strided_doc,
             "StridedLayout(strides)\n--\n\n"
             "A step per dimension, in elements (spec 2.2); negative ones reverse a dimension, 0\n"
             "repeats it. byte_offset of the tensor says where element [0, …, 0] is.\n\n"
             "InvalidDescriptorError for more than 64 strides, or one beyond 64 bits."
             "\n\n"
             ">>> every_other = hurray.StridedLayout([4, 2])\n"
             ">>> hurray.Tensor(bytes(range(8)), hurray.uint8, [2, 2], layout=every_other)\n"
             "hurray.Tensor([[0, 2],\n"
             "               [4, 6]], dtype=uint8)");

static PyGetSetDef strided_getset[] = {
    LAYOUT_ATTRIBUTE("strides", 0, "tuple of int: elements from one index to the next."),
    {NULL, NULL, NULL, NULL, NULL},
};

LAYOUT_SLOTS(strided_slots, strided_doc, strided_getset);
LAYOUT_SPEC(strided_spec, "StridedLayout", strided_slots);

const LayoutClass layout_strided_class = {
    .tag = HURRAY_LAYOUT_STRIDED,
    .spec = &strided_spec,
    .signature = &strided_signature,
    .has_rank = true,
    .parse = strided_parse,
    .arguments = strided_arguments,
    .keep = strided_keep,
};

/* ---- TiledLayout ---- */

enum {
    TILE_SHAPE,
    OUTER_LAYOUT,
    INNER_LAYOUT,
    OUTER_STRIDES,
    INNER_STRIDES,
    INNER_TILED
};

static const Signature tiled_signature = {"TiledLayout",
                                          {{"tile_shape", ARGUMENT_REQUIRED},
                                           {"outer_layout", 0},
                                           {"inner_layout", 0},
                                           {"outer_strides", 0},
                                           {"inner_strides", 0},
                                           {"inner_tiled", 0}}};

static const char *const outer_words[] = {"row_major", "col_major", "strided", NULL};
static const char *const inner_words[] = {"row_major", "col_major", "strided", "tiled", NULL};

/* One of the arrangements by its name, as a tag: those of the table of spec 2. */
static bool read_arrangement(PyObject *value, const char *name, const char *const *words,
                             uint8_t *out) {
    uint8_t word = 0;
    if (value != NULL && !layout_read_word(value, name, words, &word)) return false;
    *out = hurray_layout_from_name(words[word]);
    return true;
}

/* Whether an argument is there exactly where the arrangement calls for it. */
static bool check_presence(CoreState *state, const char *name, PyObject *value, bool needed,
                           const char *arrangement, const char *word) {
    if ((value != NULL) == needed) return true;
    PyErr_Format(state->InvalidDescriptorError,
                 needed ? "%s is missing; it is needed where %s is '%s'"
                        : "%s does not apply; it goes only with %s '%s'",
                 name, arrangement, word);
    return false;
}

static bool read_strides(CoreState *state, PyObject *value, const char *name, uint8_t arrangement,
                         const char *arrangement_name, LayoutDraft *draft, int64_t *strides,
                         const int64_t **out) {
    bool needed = arrangement == HURRAY_LAYOUT_STRIDED;
    if (!check_presence(state, name, value, needed, arrangement_name, "strided")) return false;
    if (value == NULL) return true;
    uint32_t count;
    if (!layout_read_i64s(state, value, name, strides, &count)) return false;
    *out = strides;
    if (count == draft->rank) return true;
    PyErr_Format(state->InvalidDescriptorError, "%s has %u items; expected %u as in tile_shape",
                 name, count, draft->rank);
    return false;
}

/* The levels of inner_tiled behind the one there is. */
static bool append_levels(CoreState *state, PyObject *inner, LayoutDraft *draft) {
    bool is_tiled = PyObject_TypeCheck(inner, state->LayoutType) &&
                    layout_of(inner)->layout.tag == HURRAY_LAYOUT_TILED;
    if (!is_tiled) {
        PyErr_Format(PyExc_TypeError, "inner_tiled must be a TiledLayout, not %.200s",
                     Py_TYPE(inner)->tp_name);
        return false;
    }
    const HurrayTiledLayout *tiled = &layout_of(inner)->layout.tiled;
    if (layout_of(inner)->rank != draft->rank) {
        PyErr_Format(state->InvalidDescriptorError,
                     "inner_tiled has %u dimensions; expected %u as in tile_shape",
                     layout_of(inner)->rank, draft->rank);
        return false;
    }
    if (tiled->level_count >= HURRAY_MAX_TILE_LEVELS) {
        PyErr_Format(state->InvalidDescriptorError, "inner_tiled makes %u levels; at most %u nest",
                     tiled->level_count + 1, HURRAY_MAX_TILE_LEVELS);
        return false;
    }
    memcpy(draft->levels + 1, tiled->levels, tiled->level_count * sizeof(HurrayTileLevel));
    draft->layout.tiled.level_count = 1 + tiled->level_count;
    return true;
}

static bool tiled_parse(CoreState *state, PyObject *const *arguments, LayoutDraft *draft) {
    HurrayTileLevel *level = &draft->levels[0];
    level->tile_shape = draft->extents;
    draft->layout.tiled = (HurrayTiledLayout){1, draft->levels};
    if (!layout_read_u64s(state, arguments[TILE_SHAPE], "tile_shape", draft->extents,
                          &draft->rank) ||
        !read_arrangement(arguments[OUTER_LAYOUT], "outer_layout", outer_words,
                          &level->outer_layout) ||
        !read_arrangement(arguments[INNER_LAYOUT], "inner_layout", inner_words,
                          &level->inner_layout) ||
        !read_strides(state, arguments[OUTER_STRIDES], "outer_strides", level->outer_layout,
                      "outer_layout", draft, draft->strides[0], &level->outer_strides) ||
        !read_strides(state, arguments[INNER_STRIDES], "inner_strides", level->inner_layout,
                      "inner_layout", draft, draft->strides[1], &level->inner_strides)) {
        return false;
    }
    PyObject *inner = arguments[INNER_TILED];
    bool nests = level->inner_layout == HURRAY_LAYOUT_TILED;
    if (!check_presence(state, "inner_tiled", inner, nests, "inner_layout", "tiled")) return false;
    return inner == NULL || append_levels(state, inner, draft);
}

static PyObject *strides_or_none(uint8_t arrangement, const int64_t *strides, uint32_t rank) {
    return arrangement == HURRAY_LAYOUT_STRIDED ? strides_tuple(strides, rank) : Py_NewRef(Py_None);
}

static PyObject *inner_or_none(CoreState *state, const HurrayTiledLayout *tiled, uint32_t rank) {
    if (tiled->level_count == 1) return Py_NewRef(Py_None);
    HurrayLayout inner = {.tag = HURRAY_LAYOUT_TILED};
    inner.tiled = (HurrayTiledLayout){tiled->level_count - 1, tiled->levels + 1};
    return layout_new(state, &inner, rank);
}

static PyObject *tiled_arguments(CoreState *state, const HurrayLayout *layout, uint32_t rank) {
    const HurrayTileLevel *level = &layout->tiled.levels[0];
    return Py_BuildValue("(NssNNN)", shape_tuple(level->tile_shape, rank),
                         hurray_layout_name(level->outer_layout),
                         hurray_layout_name(level->inner_layout),
                         strides_or_none(level->outer_layout, level->outer_strides, rank),
                         strides_or_none(level->inner_layout, level->inner_strides, rank),
                         inner_or_none(state, &layout->tiled, rank));
}

/* A copy of `words` of 8 bytes at *next, which moves on; NULL stays NULL. */
static const void *keep_words(const void *words, uint32_t rank, char **next) {
    if (words == NULL) return NULL;
    size_t size = (size_t)rank * 8;
    const void *kept = memcpy(*next, words, size);
    *next += size;
    return kept;
}

/* One block: the levels, then three arrays for each at most. */
static bool tiled_keep(HurrayLayout *layout, uint32_t rank, PyObject *arguments, void **storage) {
    (void)arguments;
    HurrayTiledLayout *tiled = &layout->tiled;
    size_t head = tiled->level_count * sizeof(HurrayTileLevel);
    HurrayTileLevel *levels = PyMem_Malloc(head + (size_t)tiled->level_count * 3 * rank * 8);
    *storage = levels;
    if (levels == NULL) return PyErr_NoMemory() != NULL;
    memcpy(levels, tiled->levels, head);
    char *next = (char *)levels + head;
    for (uint32_t i = 0; i < tiled->level_count; i++) {
        bool outer = levels[i].outer_layout == HURRAY_LAYOUT_STRIDED;
        bool inner = levels[i].inner_layout == HURRAY_LAYOUT_STRIDED;
        levels[i].tile_shape = keep_words(levels[i].tile_shape, rank, &next);
        levels[i].outer_strides = outer ? keep_words(levels[i].outer_strides, rank, &next) : NULL;
        levels[i].inner_strides = inner ? keep_words(levels[i].inner_strides, rank, &next) : NULL;
    }
    tiled->levels = levels;
    return true;
}

PyDoc_STRVAR(
    tiled_doc,
    "TiledLayout(tile_shape, outer_layout='row_major', inner_layout='row_major',\n"
    "            outer_strides=None, inner_strides=None, inner_tiled=None)\n--\n\n"
    "Tiles of one shape, edge tiles stored whole (spec 2.3). outer_layout arranges the\n"
    "tiles: 'row_major', 'col_major', or 'strided' with outer_strides in tiles;\n"
    "inner_layout the elements of a tile: those, with inner_strides in elements, or\n"
    "'tiled' with inner_tiled, a TiledLayout whose tiles divide these; at most 8 levels.\n\n"
    "ValueError for another word. InvalidDescriptorError for an extent of 0, strides or\n"
    "an inner layout missing or out of place."
    "\n\n"
    ">>> t = hurray.arange(24).to_numpy().reshape(4, 6)\n"
    ">>> tiled = hurray.asarray(t).to_layout(hurray.TiledLayout([2, 3]))\n"
    ">>> tiled.buffer(0).to_numpy().view(np.int64)[:6]\n"
    "array([0, 1, 2, 6, 7, 8])");

static PyGetSetDef tiled_getset[] = {
    LAYOUT_ATTRIBUTE("tile_shape", TILE_SHAPE, "tuple of int: elements along each dimension."),
    LAYOUT_ATTRIBUTE("outer_layout", OUTER_LAYOUT, "str: how tiles are arranged."),
    LAYOUT_ATTRIBUTE("inner_layout", INNER_LAYOUT, "str: how a tile is filled."),
    LAYOUT_ATTRIBUTE("outer_strides", OUTER_STRIDES, "tuple of int, in tiles, or None."),
    LAYOUT_ATTRIBUTE("inner_strides", INNER_STRIDES, "tuple of int, in elements, or None."),
    LAYOUT_ATTRIBUTE("inner_tiled", INNER_TILED, "TiledLayout of each tile, or None."),
    {NULL, NULL, NULL, NULL, NULL},
};

LAYOUT_SLOTS(tiled_slots, tiled_doc, tiled_getset);
LAYOUT_SPEC(tiled_spec, "TiledLayout", tiled_slots);

const LayoutClass layout_tiled_class = {
    .tag = HURRAY_LAYOUT_TILED,
    .spec = &tiled_spec,
    .signature = &tiled_signature,
    .has_rank = true,
    .checked_alone = true,
    .parse = tiled_parse,
    .arguments = tiled_arguments,
    .keep = tiled_keep,
};

/* ---- MortonLayout ---- */

static const Signature morton_signature = {"MortonLayout", {{"morton_bits", ARGUMENT_REQUIRED}}};

static bool morton_parse(CoreState *state, PyObject *const *arguments, LayoutDraft *draft) {
    draft->layout.morton_bits = draft->counts;
    return layout_read_u32s(state, arguments[0], "morton_bits", draft->counts, &draft->rank);
}

static PyObject *morton_arguments(CoreState *state, const HurrayLayout *layout, uint32_t rank) {
    (void)state;
    return Py_BuildValue("(N)", layout_u32_tuple(layout->morton_bits, rank));
}

static bool morton_keep(HurrayLayout *layout, uint32_t rank, PyObject *arguments, void **storage) {
    (void)arguments;
    *storage = layout_copy_block(layout->morton_bits, rank * sizeof(uint32_t));
    layout->morton_bits = *storage;
    return *storage != NULL;
}

PyDoc_STRVAR(morton_doc,
             "MortonLayout(morton_bits)\n--\n\n"
             "Z-order: the bits of the indices interleaved, lowest first, dimension 0 first\n"
             "(spec 2.4). morton_bits: bits per dimension, each at least 1; an extent is at most\n"
             "2 to the power of its bits. InvalidDescriptorError."
             "\n\n"
             ">>> t = hurray.asarray([[0, 1], [2, 3]]).to_layout(hurray.MortonLayout([1, 1]))\n"
             ">>> t.buffer(0).to_numpy().view(np.int64)\n"
             "array([0, 2, 1, 3])");

static PyGetSetDef morton_getset[] = {
    LAYOUT_ATTRIBUTE("morton_bits", 0, "tuple of int: bits of the index in each dimension."),
    {NULL, NULL, NULL, NULL, NULL},
};

LAYOUT_SLOTS(morton_slots, morton_doc, morton_getset);
LAYOUT_SPEC(morton_spec, "MortonLayout", morton_slots);

const LayoutClass layout_morton_class = {
    .tag = HURRAY_LAYOUT_MORTON,
    .spec = &morton_spec,
    .signature = &morton_signature,
    .has_rank = true,
    .checked_alone = true,
    .parse = morton_parse,
    .arguments = morton_arguments,
    .keep = morton_keep,
};

/* ---- HilbertLayout ---- */

static const Signature hilbert_signature = {
    "HilbertLayout", {{"hilbert_order", ARGUMENT_REQUIRED}, {"hilbert_rank", ARGUMENT_REQUIRED}}};

static bool hilbert_parse(CoreState *state, PyObject *const *arguments, LayoutDraft *draft) {
    HurrayHilbertLayout *hilbert = &draft->layout.hilbert;
    if (!layout_read_u32(state, arguments[0], "hilbert_order", &hilbert->order) ||
        !layout_read_u32(state, arguments[1], "hilbert_rank", &hilbert->rank)) {
        return false;
    }
    draft->rank = hilbert->rank;
    return true;
}

static PyObject *hilbert_arguments(CoreState *state, const HurrayLayout *layout, uint32_t rank) {
    (void)state, (void)rank;
    return Py_BuildValue("(II)", layout->hilbert.order, layout->hilbert.rank);
}

PyDoc_STRVAR(hilbert_doc,
             "HilbertLayout(hilbert_order, hilbert_rank)\n--\n\n"
             "Along the Hilbert curve (spec 2.5) of hilbert_rank >= 2 dimensions, each of extent\n"
             "2 to the power of hilbert_order > 0. InvalidDescriptorError."
             "\n\n"
             ">>> t = hurray.asarray([[0, 1], [2, 3]])\n"
             ">>> t.to_layout(hurray.HilbertLayout(1, 2)).buffer(0).to_numpy().view(np.int64)\n"
             "array([0, 1, 3, 2])");

static PyGetSetDef hilbert_getset[] = {
    LAYOUT_ATTRIBUTE("hilbert_order", 0, "int: log2 of every extent."),
    LAYOUT_ATTRIBUTE("hilbert_rank", 1, "int: the number of dimensions."),
    {NULL, NULL, NULL, NULL, NULL},
};

LAYOUT_SLOTS(hilbert_slots, hilbert_doc, hilbert_getset);
LAYOUT_SPEC(hilbert_spec, "HilbertLayout", hilbert_slots);

const LayoutClass layout_hilbert_class = {
    .tag = HURRAY_LAYOUT_HILBERT,
    .spec = &hilbert_spec,
    .signature = &hilbert_signature,
    .has_rank = true,
    .checked_alone = true,
    .parse = hilbert_parse,
    .arguments = hilbert_arguments,
};
