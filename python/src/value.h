/*
 * Small frozen objects that are their constructor's arguments (schemes, sections): a tuple of
 * values in the order of their names, with attributes, repr, comparison and hash made of it.
 */
#ifndef HURRAY_PYTHON_VALUE_H
#define HURRAY_PYTHON_VALUE_H

#include "core.h"

/* How an object shows itself. One type may have several. */
typedef struct ValueForm {
    const char *constructor;  /* "PerBlockAffine.symmetric" */
    const char *const *names; /* of the values, ended by NULL */
    const char *hidden;       /* one that repr leaves out, though it is there; or NULL */
    bool hides_false;         /* repr leaves out what is 0 or False, the default of all */
} ValueForm;

typedef struct ValueObject {
    PyObject_HEAD const ValueForm *form;
    PyObject *values; /* tuple; None for one that does not apply */
    PyObject *kept;   /* what keeps arrays of the C value alive, or NULL */
    union {
        HurrayQuantization scheme;
        HurrayStatistics statistics;
        HurrayShard shard;
        HurrayExtensionType extension_type;
    };
    uint32_t rank; /* of a shard */
} ValueObject;

static inline ValueObject *value_of(PyObject *self) { return (ValueObject *)self; }

/* A new object with its values, which it takes over, also on failure. NULL values are a failure that
 * has its exception already. */
ValueObject *value_new(PyTypeObject *type, const ValueForm *form, PyObject *values);

PyObject *value_repr(PyObject *self);
PyObject *value_richcompare(PyObject *self, PyObject *other, int operation);
Py_hash_t value_hash(PyObject *self);
void value_dealloc(PyObject *self);
/* __copy__ and __deepcopy__ */
PyObject *value_copy(PyObject *self, PyObject *ignored);
/* The getter of a value; the closure is its index. */
PyObject *value_get(PyObject *self, void *index);

#define VALUE_ATTRIBUTE(name, index, doc) {name, value_get, NULL, doc, (void *)(intptr_t)(index)}

#endif
