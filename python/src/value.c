/* Frozen objects that are tuples of their arguments (value.h). */
#include "value.h"

#include <string.h>

ValueObject *value_new(PyTypeObject *type, const ValueForm *form, PyObject *values) {
    if (values == NULL) return NULL;
    PyObject *self = type->tp_alloc(type, 0);
    if (self == NULL) {
        Py_DECREF(values);
        return NULL;
    }
    value_of(self)->form = form;
    value_of(self)->values = values;
    return value_of(self);
}

PyObject *value_get(PyObject *self, void *index) {
    return Py_NewRef(PyTuple_GET_ITEM(value_of(self)->values, (Py_ssize_t)(intptr_t)index));
}

/* 1 for a value that repr shows, 0 for one that it leaves out, -1 with an exception. */
static int is_shown(const ValueForm *form, const char *name, PyObject *value) {
    if (value == Py_None) return 0;
    if (form->hidden != NULL && strcmp(name, form->hidden) == 0) return 0;
    return form->hides_false ? PyObject_IsTrue(value) : 1;
}

PyObject *value_repr(PyObject *self) {
    const ValueForm *form = value_of(self)->form;
    PyObject *text = PyUnicode_FromFormat("%s(", form->constructor);
    const char *separator = "";
    for (Py_ssize_t i = 0; text != NULL && form->names[i] != NULL; i++) {
        PyObject *value = PyTuple_GET_ITEM(value_of(self)->values, i);
        int shown = is_shown(form, form->names[i], value);
        if (shown == 0) continue;
        if (shown < 0) {
            Py_CLEAR(text);
            break;
        }
        PyUnicode_AppendAndDel(&text,
                               PyUnicode_FromFormat("%s%s=%R", separator, form->names[i], value));
        separator = ", ";
    }
    if (text != NULL) PyUnicode_AppendAndDel(&text, PyUnicode_FromString(")"));
    return text;
}

static bool is_nan(PyObject *value) {
    return PyFloat_Check(value) && Py_IS_NAN(PyFloat_AS_DOUBLE(value));
}

/* -1 with an exception. NaNs are the same value. */
static int equal_values(PyObject *a, PyObject *b) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++) {
        PyObject *x = PyTuple_GET_ITEM(a, i), *y = PyTuple_GET_ITEM(b, i);
        int equal = is_nan(x) && is_nan(y) ? 1 : PyObject_RichCompareBool(x, y, Py_EQ);
        if (equal != 1) return equal;
    }
    return 1;
}

/* Bytes that are kept count: they are what decoding found behind the fields. */
PyObject *value_richcompare(PyObject *self, PyObject *other, int operation) {
    bool comparable = Py_IS_TYPE(other, Py_TYPE(self));
    if (!comparable || (operation != Py_EQ && operation != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    ValueObject *a = value_of(self), *b = value_of(other);
    int equal = equal_values(a->values, b->values);
    if (equal == 1) {
        equal = a->kept == NULL || b->kept == NULL
                    ? a->kept == b->kept
                    : PyObject_RichCompareBool(a->kept, b->kept, Py_EQ);
    }
    if (equal < 0) return NULL;
    return PyBool_FromLong((equal == 1) == (operation == Py_EQ));
}

/* Of the type too, and the same for all NaNs. */
Py_hash_t value_hash(PyObject *self) {
    Py_uhash_t hash = (Py_uhash_t)(uintptr_t)Py_TYPE(self) >> 4;
    PyObject *values = value_of(self)->values;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); i++) {
        PyObject *value = PyTuple_GET_ITEM(values, i);
        Py_hash_t next = is_nan(value) ? 1 : PyObject_Hash(value);
        if (next == -1) return -1;
        hash = (hash ^ (Py_uhash_t)next) * 1000003u;
    }
    return (Py_hash_t)hash == -1 ? -2 : (Py_hash_t)hash;
}

PyObject *value_copy(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return Py_NewRef(self);
}

void value_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(value_of(self)->values);
    Py_XDECREF(value_of(self)->kept);
    type->tp_free(self);
    Py_DECREF(type);
}
