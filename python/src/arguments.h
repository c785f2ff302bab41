/*
 * Arguments of METH_FASTCALL | METH_KEYWORDS functions and of constructors, matched with a signature
 * that is a constant table:
 *
 *     static const Signature from_numpy_signature = {
 *         "from_numpy", {{"array", ARGUMENT_REQUIRED}, {"copy", ARGUMENT_KEYWORD_ONLY}}};
 *     enum { ARRAY, COPY, ARGUMENT_COUNT };
 *
 *     PyObject *values[ARGUMENT_COUNT];
 *     if (!arguments_parse(&from_numpy_signature, args, nargs, kwnames, values)) return NULL;
 *
 * Nothing is allocated, and nothing needs to be released: the values are the caller's references.
 */
#ifndef HURRAY_PYTHON_ARGUMENTS_H
#define HURRAY_PYTHON_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

enum {
    ARGUMENT_REQUIRED = 1u << 0,
    ARGUMENT_KEYWORD_ONLY = 1u << 1, /* after all others */
    ARGUMENT_KEEP_NONE = 1u << 2     /* see arguments_parse */
};

typedef struct Argument {
    const char *name; /* ASCII */
    unsigned flags;
} Argument;

#define ARGUMENTS_MAX 16

typedef struct Signature {
    const char *function;                  /* "from_numpy", for messages */
    Argument arguments[ARGUMENTS_MAX + 1]; /* ended by a NULL name, which C fills in */
} Signature;

/*
 * Fills `values`, one per argument of the signature, with borrowed references. NULL stands for an
 * argument that is absent; an optional one that is None is absent too (spec 8: an explicit None
 * means the default) unless ARGUMENT_KEEP_NONE. False with TypeError for too many or missing
 * arguments, ones given twice, and unknown names.
 */
bool arguments_parse(const Signature *signature, PyObject *const *args, Py_ssize_t nargs,
                     PyObject *kwnames, PyObject **values);

/*
 * The same by identity, for a hot function whose arguments are all optional and keyword-only: `names`
 * are theirs, interned, as those in calls mostly are. False without an exception when that does not
 * settle it; then arguments_parse does.
 */
static inline bool arguments_take_interned(PyObject *const *names, int count, PyObject *const *args,
                                           Py_ssize_t nargs, PyObject *kwnames, PyObject **values) {
    Py_ssize_t named = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
    if (nargs != 0 || named > count) return false;
    for (int i = 0; i < count; i++) values[i] = NULL;
    for (Py_ssize_t k = 0; k < named; k++) {
        int i = 0;
        while (i < count && names[i] != PyTuple_GET_ITEM(kwnames, k)) i++;
        if (i == count || values[i] != NULL) return false;
        if (args[k] != Py_None) values[i] = args[k];
    }
    return true;
}

/* The same for what tp_new receives: a tuple, and a dict or NULL. */
bool arguments_parse_new(const Signature *signature, PyObject *args, PyObject *kwargs,
                         PyObject **values);

/* "0xF2" into `text`: PyErr_Format and PyUnicode_FromFormat know no %X before CPython 3.12. Nor do
 * they take formats that are not ASCII. */
static inline const char *hex_byte(uint8_t byte, char text[8]) {
    PyOS_snprintf(text, 8, "0x%02X", byte);
    return text;
}

/* ---- one argument as a C value; `name` is for messages ---- */

/* By truth value; `fallback` when absent (NULL). -1 with an exception. */
static inline int argument_as_bool(PyObject *value, int fallback) {
    return value == NULL ? fallback : PyObject_IsTrue(value);
}

/* An int, or what has __index__. False with TypeError, or OverflowError outside the range. */
bool argument_as_u64(PyObject *value, const char *name, uint64_t *out);
bool argument_as_u8(PyObject *value, const char *name, uint8_t *out);

/*
 * The same for callers with an exception of their own for numbers out of range: `*overflow` is -1
 * or 1 when the number lies below or above those of int64_t, else 0. False with TypeError.
 */
bool argument_as_i64(PyObject *value, const char *name, int64_t *out, int *overflow);

/*
 * Raises `exception`: "shape[2] is -1; expected 0 to 5". A number with more digits than Python agrees
 * to print is not shown.
 */
void argument_refuse(PyObject *exception, const char *name, PyObject *value, const char *expected);

/* A str as UTF-8, borrowed from it; NULL with TypeError, or ValueError for a NUL inside. */
const char *argument_as_string(PyObject *value, const char *name);

/*
 * A new tuple of the items of a sequence: no str, bytes or bytearray, which are sequences by
 * accident, and nothing unordered. NULL with TypeError.
 */
PyObject *argument_as_tuple(PyObject *value, const char *name);

#endif
