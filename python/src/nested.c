/*
 * Nested sequences of numbers as tensors (spec 8.4). Two passes: one finds shape and kind, the other
 * writes elements. Code of the caller's can run in both (__index__, __float__), and may change the
 * lists: each is measured again where it is used.
 */
#include <string.h>

#include "construct.h"
#include "new_tensor.h"
#include "number.h"

/* Whether type(object) says that it is an array of some library. */
static bool is_array_like(CoreState *state, PyObject *object) {
    PyObject *type = (PyObject *)Py_TYPE(object);
    return PyObject_HasAttr(type, state->names.__array__) ||
           PyObject_HasAttr(type, state->names.__array_interface__);
}

bool nested_is_sequence(CoreState *state, PyObject *object) {
    if (PyList_Check(object) || PyTuple_Check(object)) return true;
    return PySequence_Check(object) && !PyUnicode_Check(object) && !PyObject_CheckBuffer(object) &&
           !is_array_like(state, object);
}

typedef struct Nest {
    CoreState *state;
    uint32_t rank;
    uint64_t shape[HURRAY_MAX_RANK];
    uint64_t place[HURRAY_MAX_RANK]; /* index of where the pass is */
    uint64_t seen;                   /* leaves */
    NumberKind kind;                 /* the widest so far */
    bool has_huge;                   /* an integer beyond int64 that fits uint64 */
    bool has_negative;
    bool has_arrays; /* then NumPy has to do it */
    /* the second pass */
    const HurrayElementType *type;
    uint8_t *next;
} Nest;

/* "[1][0]": the first `level` indices of the place. */
static PyObject *place_text(const Nest *nest, uint32_t level) {
    PyObject *text = PyUnicode_FromString("");
    for (uint32_t k = 0; text != NULL && k < level; k++) {
        PyObject *longer =
            PyUnicode_FromFormat("%U[%llu]", text, (unsigned long long)nest->place[k]);
        Py_DECREF(text);
        text = longer;
    }
    return text;
}

/* Raises `exception` about what is found at a place. */
static bool refuse_place(const Nest *nest, uint32_t level, PyObject *exception, const char *what) {
    PyObject *place = place_text(nest, level);
    if (place == NULL) return false;
    if (level == 0) {
        PyErr_Format(exception, "asarray(): %s", what);
    } else {
        PyErr_Format(exception, "asarray(): %s at %U", what, place);
    }
    Py_DECREF(place);
    return false;
}

static bool refuse_length(const Nest *nest, uint32_t level, Py_ssize_t length) {
    PyObject *place = place_text(nest, level);
    if (place == NULL) return false;
    PyErr_Format(PyExc_ValueError,
                 "asarray(): the nesting is ragged: %zd items at %s%U, where %llu were expected",
                 length, level == 0 ? "the top" : "", place,
                 (unsigned long long)nest->shape[level]);
    Py_DECREF(place);
    return false;
}

/* ---- shape ---- */

/* The lengths along the first items, all the way down. */
static bool find_shape(Nest *nest, PyObject *object) {
    Py_INCREF(object);
    bool ok = true;
    while (nested_is_sequence(nest->state, object)) {
        if (nest->rank == HURRAY_MAX_RANK) {
            ok = refuse_place(nest, 0, PyExc_ValueError,
                              "the nesting is deeper than 64 levels (or without end)");
            break;
        }
        Py_ssize_t length = PySequence_Size(object);
        if (length < 0) ok = false;
        if (length < 0) break;
        nest->shape[nest->rank++] = (uint64_t)length;
        if (length == 0) break;
        PyObject *first = PySequence_GetItem(object, 0);
        Py_SETREF(object, first);
        if (object == NULL) return false;
    }
    Py_DECREF(object);
    return ok;
}

/*
 * A list that holds one list many times can be far larger than memory: [a, a] forty times over. No
 * address space has 2^47 elements to spare, so that need not be tried.
 */
static bool check_count(const Nest *nest) {
    uint64_t count;
    HurrayStatus status = hurray_shape_count(nest->shape, nest->rank, &count);
    if (status == HURRAY_OK && count >> 47 == 0) return true;
    PyErr_NoMemory();
    return false;
}

/* ---- both passes ---- */

typedef bool (*LeafVisitor)(Nest *nest, PyObject *leaf);

/* Now and then, so that a list that is far too large can be interrupted. */
static bool check_signals(Nest *nest) {
    return (++nest->seen & 0xFFFF) != 0 || PyErr_CheckSignals() == 0;
}

/* Calls `visit` for every leaf in row-major order, checking that all is as long as it should be. */
static bool for_each_leaf(Nest *nest, PyObject *object, uint32_t level, LeafVisitor visit) {
    bool sequence = nested_is_sequence(nest->state, object);
    if (level == nest->rank) {
        if (sequence) {
            return refuse_place(nest, level, PyExc_ValueError,
                                "the nesting is ragged: a sequence, where a number was expected,");
        }
        return check_signals(nest) && visit(nest, object);
    }
    if (!sequence) {
        return refuse_place(nest, level, PyExc_ValueError,
                            "the nesting is ragged: no sequence, where one was expected,");
    }
    Py_ssize_t length = PySequence_Size(object);
    if (length < 0) return false;
    if ((uint64_t)length != nest->shape[level]) return refuse_length(nest, level, length);
    for (Py_ssize_t i = 0; i < length; i++) {
        PyObject *item = PySequence_GetItem(object, i);
        if (item == NULL) return false;
        nest->place[level] = (uint64_t)i;
        bool ok = for_each_leaf(nest, item, level + 1, visit);
        Py_DECREF(item);
        if (!ok) return false;
        if (nest->has_arrays) return true;
    }
    return true;
}

/* ---- kind ---- */

/* Integers that int64 does not hold: what would? */
static bool note_range(Nest *nest, PyObject *integer) {
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(integer, &overflow);
    if (value == -1 && overflow == 0 && PyErr_Occurred()) return false;
    nest->has_negative |= overflow < 0 || (overflow == 0 && value < 0);
    nest->has_huge |= overflow > 0;
    return true;
}

static bool refuse_leaf(Nest *nest, PyObject *leaf) {
    char what[160];
    PyOS_snprintf(what, sizeof what, "'%.100s' is no number,", Py_TYPE(leaf)->tp_name);
    return refuse_place(nest, nest->rank, PyExc_TypeError, what);
}

static bool note_leaf(Nest *nest, PyObject *leaf) {
    bool plain = PyFloat_Check(leaf) || PyLong_Check(leaf) || PyComplex_Check(leaf);
    if (!plain && !PyUnicode_Check(leaf) && !PyBytes_Check(leaf) && !PyByteArray_Check(leaf) &&
        (is_array_like(nest->state, leaf) || PyObject_CheckBuffer(leaf))) {
        nest->has_arrays = true;
        return true;
    }
    NumberKind kind = number_kind(leaf);
    if (kind == NUMBER_NONE) return refuse_leaf(nest, leaf);
    if (kind > nest->kind) nest->kind = kind;
    if (kind != NUMBER_INT) return true;
    if (PyLong_Check(leaf)) return note_range(nest, leaf);
    PyObject *integer = PyNumber_Index(leaf);
    bool ok = integer != NULL && note_range(nest, integer);
    Py_XDECREF(integer);
    return ok;
}

/* What is inferred; nothing at all gives float64, as in NumPy. */
static uint8_t inferred_type(const Nest *nest) {
    bool unsigned_only = nest->kind == NUMBER_INT && nest->has_huge && !nest->has_negative;
    return unsigned_only ? HURRAY_TYPE_UINT64 : number_type(nest->kind);
}

/* ---- elements ---- */

static bool store_leaf(Nest *nest, PyObject *leaf) {
    if (!number_store(leaf, nest->type, nest->next)) return false;
    nest->next += number_size(nest->type);
    return true;
}

/* bool elements come as bytes first. */
static bool store_bools(Nest *nest, PyObject *object, NewTensor *made) {
    uint8_t *values = PyMem_Malloc((size_t)made->count);
    if (values == NULL) {
        PyErr_NoMemory();
        return false;
    }
    nest->next = values;
    bool ok = for_each_leaf(nest, object, 0, store_leaf);
    if (ok) hurray_pack_bits(1, values, made->count, made->data);
    PyMem_Free(values);
    return ok;
}

static PyObject *store_elements(Nest *nest, PyObject *object, NewTensor *made) {
    if (!new_tensor_allocate(nest->state, made, false)) return NULL;
    nest->type = made->type;
    nest->next = made->data;
    bool ok = made->count == 0                      ? true
              : made->type->tag == HURRAY_TYPE_BOOL ? store_bools(nest, object, made)
                                                    : for_each_leaf(nest, object, 0, store_leaf);
    return ok ? new_tensor_finish(nest->state, made) : new_tensor_abandon(made);
}

static PyObject *through_numpy(CoreState *state, PyObject *object, PyObject *dtype) {
    uint8_t tag;
    PyObject *tensor = tensor_through_numpy(state, object, HURRAY_COPY_IF_NEEDED);
    if (tensor == NULL || dtype == NULL) return tensor;
    PyObject *result = NULL;
    if (dtype_as_tag(state, dtype, "dtype", &tag)) {
        bool same = hurray_tensor_fields(tensor_of(tensor))->type_tag == tag;
        result = same ? Py_NewRef(tensor) : tensor_cast(state, tensor, tag);
    }
    Py_DECREF(tensor);
    return result;
}

PyObject *tensor_from_nested(CoreState *state, PyObject *object, PyObject *dtype) {
    Nest nest = {.state = state};
    if (!find_shape(&nest, object) || !check_count(&nest)) return NULL;
    if (!for_each_leaf(&nest, object, 0, note_leaf)) return NULL;
    if (nest.has_arrays) return through_numpy(state, object, dtype);
    NewTensor made = {.function = "asarray", .rank = nest.rank};
    memcpy(made.shape, nest.shape, nest.rank * sizeof *made.shape);
    if (!new_tensor_set_type(state, &made, dtype, inferred_type(&nest))) return NULL;
    return store_elements(&nest, object, &made);
}
