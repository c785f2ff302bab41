/* What the creation functions and asarray share (spec 8.4). */
#ifndef HURRAY_PYTHON_CONSTRUCT_H
#define HURRAY_PYTHON_CONSTRUCT_H

#include "core.h"

/* ---- asarray.c ---- */

/* A Tensor of anything asarray takes: the object itself when it is one and `copy` allows. */
PyObject *asarray_object(CoreState *state, PyObject *object, PyObject *device, HurrayCopy copy);
extern PyMethodDef asarray_functions[]; /* asarray */

/* ---- nested.c ---- */

/*
 * A new tensor of numbers in nested lists, tuples or other sequences, or of one number, of the type
 * given or, if `dtype` is NULL, the one its numbers need. ValueError naming the place where the
 * nesting is ragged or deeper than 64, TypeError for what is no number, OverflowError for integers
 * out of range. Where array objects are among the leaves, NumPy puts them together.
 */
PyObject *tensor_from_nested(CoreState *state, PyObject *object, PyObject *dtype);
/* Whether an object is such a sequence: one of its own kind, and no array or text. */
bool nested_is_sequence(CoreState *state, PyObject *object);

#endif
