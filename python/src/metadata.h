/* The metadata of a file as a dict (spec 4.3, 8.12). */
#ifndef HURRAY_PYTHON_METADATA_H
#define HURRAY_PYTHON_METADATA_H

#include "core.h"

/*
 * A list of the entries of a dict: str -> str, int, float, bool, bytes, or a list of one of them. NULL
 * (absent) gives an empty one. False with an exception that names kv[key]: TypeError for other things,
 * OverflowError for ints that do not fit 64 bits, ValueError for what the format cannot hold.
 */
bool metadata_from_dict(CoreState *state, PyObject *dict, HurrayKeyValues **out);
/* A new dict; NULL with an exception. */
PyObject *metadata_to_dict(const HurrayKeyValues *list);

#endif
