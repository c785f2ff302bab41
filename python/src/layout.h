/*
 * What the files of the layout classes share: the object, and what a class has to say of itself.
 *
 * A layout object is the tuple of its constructor's arguments, normalised, beside the C struct that
 * says the same. Everything but reading the arguments and naming them back is common to all classes
 * (layout.c): attributes, repr, comparison, hash, pickling. A new class is a LayoutClass in one of
 * layout_dense.c, layout_sparse.c and layout_other.c, and its line in the table of layout.c.
 */
#ifndef HURRAY_PYTHON_LAYOUT_H
#define HURRAY_PYTHON_LAYOUT_H

#include "arguments.h"
#include "core.h"

/* A layout in the making, with room for whatever its fields point to. */
typedef struct LayoutDraft {
    HurrayLayout layout;
    uint32_t rank;                       /* of the fields; 0 where there are none */
    uint64_t extents[HURRAY_MAX_RANK];   /* tile shape */
    int64_t strides[2][HURRAY_MAX_RANK]; /* the strides of a layout; outer and inner of a tile */
    uint32_t counts[HURRAY_MAX_RANK];    /* Morton bits, mode order */
    HurrayTileLevel levels[HURRAY_MAX_TILE_LEVELS];
    PyObject *bytes; /* a reference of its own to what the fields point into, or NULL */
} LayoutDraft;

typedef struct LayoutClass {
    uint8_t tag; /* 0 where it stands for many: then they are an argument */
    PyType_Spec *spec;
    const Signature *signature;
    bool has_rank; /* its fields are for tensors of one rank only */
    /* Whether the library's checks apply before there is a shape, and the rank at which. */
    bool checked_alone;
    uint32_t alone_rank; /* where has_rank is false */
    /* Arguments to fields; false with an exception. NULL where there are no arguments. */
    bool (*parse)(CoreState *state, PyObject *const *arguments, LayoutDraft *draft);
    /* The inverse: a new tuple, in order of the signature. */
    PyObject *(*arguments)(CoreState *state, const HurrayLayout *layout, uint32_t rank);
    /* Lets the fields point to memory that lives as long as the object: a block from PyMem that the
     * object frees, in `storage`, or its arguments. False with MemoryError. NULL where they point to
     * nothing. */
    bool (*keep)(HurrayLayout *layout, uint32_t rank, PyObject *arguments, void **storage);
} LayoutClass;

typedef struct LayoutObject {
    PyObject_HEAD const LayoutClass *class;
    HurrayLayout layout;
    uint32_t rank; /* of its fields; 0 where there are none */
    void *storage;
    PyObject *arguments; /* tuple, as the constructor takes them */
} LayoutObject;

static inline LayoutObject *layout_of(PyObject *self) { return (LayoutObject *)self; }

/* ---- layout.c, for the classes ---- */

/* tp_new of all classes. */
PyObject *layout_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);
/* The getter of an argument; the closure is its index. */
PyObject *layout_get_argument(PyObject *self, void *index);
/* A block with a copy of `size` bytes. NULL with MemoryError. */
void *layout_copy_block(const void *bytes, size_t size);
/* The class of a tag; never NULL. */
const LayoutClass *layout_class_of_tag(uint8_t tag);

/* Numbers in the range of the field; false with TypeError, or InvalidDescriptorError otherwise. */
bool layout_read_u64(CoreState *state, PyObject *value, const char *name, uint64_t *out);
bool layout_read_u32(CoreState *state, PyObject *value, const char *name, uint32_t *out);
/* Sequences of at most HURRAY_MAX_RANK of them, likewise. */
bool layout_read_u64s(CoreState *state, PyObject *value, const char *name, uint64_t *out,
                      uint32_t *count);
bool layout_read_u32s(CoreState *state, PyObject *value, const char *name, uint32_t *out,
                      uint32_t *count);
bool layout_read_i64s(CoreState *state, PyObject *value, const char *name, int64_t *out,
                      uint32_t *count);
/* u32[count] as a tuple of int. */
PyObject *layout_u32_tuple(const uint32_t *numbers, uint32_t count);

/* One of `words`, ended by NULL; gives its place. False with TypeError, or ValueError that lists
 * them. */
bool layout_read_word(PyObject *value, const char *name, const char *const *words, uint8_t *out);

/* A class of layouts, whose slots are its docstring, its attributes and the common constructor. */
#define LAYOUT_SPEC(variable, class_name, class_slots)          \
    static PyType_Spec variable = {                             \
        .name = "hurray." class_name,                           \
        .basicsize = sizeof(LayoutObject),                      \
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, \
        .slots = class_slots,                                   \
    }

/* The slots of a class with attributes. */
#define LAYOUT_SLOTS(variable, doc, getset) \
    static PyType_Slot variable[] = {       \
        {Py_tp_doc, (char *)doc},           \
        {Py_tp_new, layout_tp_new},         \
        {Py_tp_getset, getset},             \
        {0, NULL},                          \
    }

/* An attribute that is the constructor's argument of that index. */
#define LAYOUT_ATTRIBUTE(name, index, doc) \
    {name, layout_get_argument, NULL, doc, (void *)(intptr_t)(index)}

/* ---- the classes ---- */

extern const LayoutClass layout_row_major_class; /* layout_dense.c */
extern const LayoutClass layout_col_major_class;
extern const LayoutClass layout_strided_class;
extern const LayoutClass layout_tiled_class;
extern const LayoutClass layout_morton_class;
extern const LayoutClass layout_hilbert_class;
extern const LayoutClass layout_coo_class; /* layout_sparse.c */
extern const LayoutClass layout_csr_class;
extern const LayoutClass layout_csc_class;
extern const LayoutClass layout_csf_class;
extern const LayoutClass layout_block_paged_class; /* layout_other.c */
extern const LayoutClass layout_composite_class;
extern const LayoutClass layout_private_class;
extern const LayoutClass layout_unknown_class;

#endif
