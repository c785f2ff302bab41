/* Matching arguments with a signature (arguments.h); errors are worded like CPython's. */
#include "arguments.h"

#include <string.h>

/* Arguments that are absent become NULL. */
static bool take_positional(const Signature *signature, PyObject *const *args, Py_ssize_t nargs,
                            PyObject **values) {
    int most = 0;
    for (int i = 0; signature->arguments[i].name != NULL; i++) {
        bool is_positional = (signature->arguments[i].flags & ARGUMENT_KEYWORD_ONLY) == 0;
        values[i] = is_positional && i < nargs ? args[i] : NULL;
        most += is_positional;
    }
    if (nargs <= most) return true;
    PyErr_Format(PyExc_TypeError, "%s() takes at most %d positional argument%s (%zd given)",
                 signature->function, most, most == 1 ? "" : "s", nargs);
    return false;
}

/* Most names differ in their first character; a null character may stand in a str. */
static bool is_called(PyObject *name, const char *expected) {
    if (PyUnicode_KIND(name) != PyUnicode_1BYTE_KIND) return false;
    const char *text = (const char *)PyUnicode_1BYTE_DATA(name);
    return text[0] == expected[0] && strcmp(text, expected) == 0 &&
           (size_t)PyUnicode_GET_LENGTH(name) == strlen(expected);
}

static bool take_keyword(const Signature *signature, Py_ssize_t nargs, PyObject *name,
                         PyObject *value, PyObject **values) {
    if (!PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "keywords must be strings");
        return false;
    }
    for (int i = 0; signature->arguments[i].name != NULL; i++) {
        if (!is_called(name, signature->arguments[i].name)) continue;
        if (values[i] == NULL) {
            values[i] = value;
            return true;
        }
        if (i < nargs) {
            PyErr_Format(PyExc_TypeError,
                         "argument for %s() given by name ('%s') and position (%d)",
                         signature->function, signature->arguments[i].name, i + 1);
        } else {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%s'",
                         signature->function, signature->arguments[i].name);
        }
        return false;
    }
    PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'",
                 signature->function, name);
    return false;
}

static bool fail_missing(const Signature *signature, int index) {
    const Argument *argument = &signature->arguments[index];
    if ((argument->flags & ARGUMENT_KEYWORD_ONLY) != 0) {
        PyErr_Format(PyExc_TypeError, "%s() missing required keyword-only argument '%s'",
                     signature->function, argument->name);
    } else {
        PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s' (pos %d)",
                     signature->function, argument->name, index + 1);
    }
    return false;
}

/* Everything is in its place: are all there that must be? */
static bool finish(const Signature *signature, PyObject **values) {
    for (int i = 0; signature->arguments[i].name != NULL; i++) {
        unsigned flags = signature->arguments[i].flags;
        if (values[i] == NULL && (flags & ARGUMENT_REQUIRED) != 0) {
            return fail_missing(signature, i);
        }
        bool keep = (flags & (ARGUMENT_REQUIRED | ARGUMENT_KEEP_NONE)) != 0;
        if (values[i] == Py_None && !keep) values[i] = NULL;
    }
    return true;
}

bool arguments_parse(const Signature *signature, PyObject *const *args, Py_ssize_t nargs,
                     PyObject *kwnames, PyObject **values) {
    if (!take_positional(signature, args, nargs, values)) return false;
    Py_ssize_t named = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i);
        if (!take_keyword(signature, nargs, name, args[nargs + i], values)) return false;
    }
    return finish(signature, values);
}

bool arguments_parse_new(const Signature *signature, PyObject *args, PyObject *kwargs,
                         PyObject **values) {
    Py_ssize_t nargs = PyTuple_GET_SIZE(args);
    PyObject *const *items = ((PyTupleObject *)args)->ob_item;
    if (!take_positional(signature, items, nargs, values)) return false;
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (kwargs != NULL && PyDict_Next(kwargs, &position, &name, &value)) {
        if (!take_keyword(signature, nargs, name, value, values)) return false;
    }
    return finish(signature, values);
}

/* ---- one argument ---- */

void argument_refuse(PyObject *exception, const char *name, PyObject *value, const char *expected) {
    PyObject *text = PyObject_Repr(value);
    if (text == NULL && PyErr_ExceptionMatches(PyExc_ValueError)) {
        PyErr_Clear();
        text = PyUnicode_FromString("a number of thousands of digits");
    }
    if (text != NULL) PyErr_Format(exception, "%s is %U; expected %s", name, text, expected);
    Py_XDECREF(text);
}

static PyObject *as_index(PyObject *value, const char *name) {
    if (PyIndex_Check(value)) return PyNumber_Index(value);
    PyErr_Format(PyExc_TypeError, "%s must be an int, not %.200s", name, Py_TYPE(value)->tp_name);
    return NULL;
}

bool argument_as_i64(PyObject *value, const char *name, int64_t *out, int *overflow) {
    PyObject *number = as_index(value, name);
    if (number == NULL) return false;
    *out = PyLong_AsLongLongAndOverflow(number, overflow);
    Py_DECREF(number);
    return true; /* an int cannot fail otherwise */
}

bool argument_as_u64(PyObject *value, const char *name, uint64_t *out) {
    PyObject *number = as_index(value, name);
    if (number == NULL) return false;
    *out = PyLong_AsUnsignedLongLong(number);
    bool failed = *out == UINT64_MAX && PyErr_Occurred();
    if (failed && PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        argument_refuse(PyExc_OverflowError, name, number, "0 to 2**64 - 1");
    }
    Py_DECREF(number);
    return !failed;
}

bool argument_as_u8(PyObject *value, const char *name, uint8_t *out) {
    int64_t number;
    int overflow;
    if (!argument_as_i64(value, name, &number, &overflow)) return false;
    if (overflow != 0 || number < 0 || number > UINT8_MAX) {
        argument_refuse(PyExc_OverflowError, name, value, "0 to 255");
        return false;
    }
    *out = (uint8_t)number;
    return true;
}

const char *argument_as_string(PyObject *value, const char *name) {
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s must be a str, not %.200s", name,
                     Py_TYPE(value)->tp_name);
        return NULL;
    }
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(value, &length);
    if (text == NULL || strlen(text) == (size_t)length) return text;
    PyErr_Format(PyExc_ValueError, "%s is %R; a null character is in no name", name, value);
    return NULL;
}

PyObject *argument_as_tuple(PyObject *value, const char *name) {
    bool text = PyUnicode_Check(value) || PyBytes_Check(value) || PyByteArray_Check(value);
    if (!text && PySequence_Check(value)) return PySequence_Tuple(value);
    PyErr_Format(PyExc_TypeError, "%s must be a sequence of ints, not %.200s", name,
                 Py_TYPE(value)->tp_name);
    return NULL;
}
