/* Dicts to the KV section of a file and back (metadata.h). */
#include "metadata.h"

/* One entry in the making, and where its values are for that long. */
typedef struct Entry {
    CoreState *state;
    PyObject *key;
    HurrayKeyValue value;
    HurrayScalar single;
    HurrayScalar *elements; /* of a list; NULL */
} Entry;

static bool refuse_type(const Entry *entry, PyObject *found, Py_ssize_t index) {
    static const char expected[] =
        "expected str, int, float, bool, bytes, or a list of one of them";
    if (index < 0) {
        PyErr_Format(PyExc_TypeError, "kv[%R] is %.200s; %s", entry->key, Py_TYPE(found)->tp_name,
                     expected);
    } else {
        PyErr_Format(PyExc_TypeError, "kv[%R][%zd] is %.200s; %s", entry->key, index,
                     Py_TYPE(found)->tp_name, expected);
    }
    return false;
}

static bool refuse_integer(const Entry *entry) {
    PyErr_Format(PyExc_OverflowError,
                 "kv[%R] has an int beyond 64 bits; expected -2**63 to 2**64 - 1", entry->key);
    return false;
}

static bool as_text(const Entry *entry, const char *data, Py_ssize_t length, HurrayScalar *out) {
    if ((uint64_t)length > UINT32_MAX) {
        PyErr_Format(PyExc_ValueError, "kv[%R] has %zd bytes; expected at most 2**32 - 1",
                     entry->key, length);
        return false;
    }
    out->text = (HurrayText){data, (uint32_t)length};
    return true;
}

/* UTF-8 of a str; NULL with a ValueError where there is none. */
static const char *encode_text(const Entry *entry, PyObject *text, Py_ssize_t *length) {
    const char *bytes = PyUnicode_AsUTF8AndSize(text, length);
    if (bytes == NULL && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Format(PyExc_ValueError, "kv[%R] holds surrogates; expected text that UTF-8 can hold",
                     entry->key);
    }
    return bytes;
}

/* int64 where it fits, above that uint64. */
static bool as_integer(const Entry *entry, PyObject *object, uint8_t *tag, HurrayScalar *out) {
    int overflow = 0;
    PyObject *number = PyNumber_Index(object);
    if (number == NULL) return false;
    out->int64 = PyLong_AsLongLongAndOverflow(number, &overflow);
    *tag = HURRAY_VALUE_INT64;
    if (overflow > 0) {
        *tag = HURRAY_VALUE_UINT64;
        out->uint64 = PyLong_AsUnsignedLongLong(number);
        if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError))
            PyErr_Clear();
        else
            overflow = 0;
    }
    Py_DECREF(number);
    return overflow == 0 ? !PyErr_Occurred() : refuse_integer(entry);
}

/* One value that is no list; `index` is its place in a list, -1 outside. */
static bool as_scalar(const Entry *entry, PyObject *object, Py_ssize_t index, uint8_t *tag,
                      HurrayScalar *out) {
    if (PyUnicode_Check(object)) {
        Py_ssize_t length;
        const char *text = encode_text(entry, object, &length);
        *tag = HURRAY_VALUE_STRING;
        return text != NULL && as_text(entry, text, length, out);
    }
    if (PyBytes_Check(object)) {
        *tag = HURRAY_VALUE_BYTES;
        return as_text(entry, PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object), out);
    }
    if (PyBool_Check(object)) {
        *tag = HURRAY_VALUE_BOOL;
        out->boolean = object == Py_True;
        return true;
    }
    if (PyFloat_Check(object)) {
        *tag = HURRAY_VALUE_FLOAT64;
        out->float64 = PyFloat_AS_DOUBLE(object);
        return true;
    }
    if (PyIndex_Check(object)) return as_integer(entry, object, tag, out);
    return refuse_type(entry, object, index);
}

/* Integers of which one needs uint64 are all written so. */
static bool widen(Entry *entry, uint8_t tag, Py_ssize_t i) {
    uint8_t *kind = &entry->value.element_tag;
    bool integers = (tag == HURRAY_VALUE_INT64 || tag == HURRAY_VALUE_UINT64) &&
                    (*kind == HURRAY_VALUE_INT64 || *kind == HURRAY_VALUE_UINT64);
    if (!integers) {
        PyErr_Format(PyExc_TypeError, "kv[%R][%zd] is of another type than those before it",
                     entry->key, i);
        return false;
    }
    *kind = HURRAY_VALUE_UINT64;
    return true;
}

static bool check_unsigned(const Entry *entry, const uint8_t *tags, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        if (tags[i] == HURRAY_VALUE_INT64 && entry->elements[i].int64 < 0) {
            PyErr_Format(PyExc_OverflowError,
                         "kv[%R] has an int below 0 and one above 2**63 - 1; they fit no one type",
                         entry->key);
            return false;
        }
    }
    return true;
}

static bool fill_list(Entry *entry, PyObject *items, uint8_t *tags) {
    Py_ssize_t count = PyTuple_GET_SIZE(items);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GET_ITEM(items, i);
        if (!as_scalar(entry, item, i, &tags[i], &entry->elements[i])) return false;
        if (i == 0) entry->value.element_tag = tags[0];
        if (tags[i] != entry->value.element_tag && !widen(entry, tags[i], i)) return false;
    }
    return entry->value.element_tag != HURRAY_VALUE_UINT64 || check_unsigned(entry, tags, count);
}

static bool as_list(Entry *entry, PyObject *items) {
    Py_ssize_t count = PyTuple_GET_SIZE(items);
    if ((uint64_t)count > UINT32_MAX) {
        PyErr_Format(PyExc_ValueError, "kv[%R] has %zd entries; expected at most 2**32 - 1",
                     entry->key, count);
        return false;
    }
    size_t room = count == 0 ? 1 : (size_t)count;
    uint8_t *tags = PyMem_Calloc(room, 1);
    entry->elements = PyMem_Calloc(room, sizeof *entry->elements);
    entry->value.tag = HURRAY_VALUE_ARRAY;
    entry->value.element_tag = HURRAY_VALUE_STRING; /* what an empty one is written as */
    entry->value.count = (uint32_t)count;
    entry->value.values = entry->elements;
    bool filled = tags != NULL && entry->elements != NULL && fill_list(entry, items, tags);
    if (tags == NULL || entry->elements == NULL) PyErr_NoMemory();
    PyMem_Free(tags);
    return filled;
}

static bool add_entry(CoreState *state, HurrayKeyValues *list, PyObject *key, PyObject *object) {
    Entry entry = {.state = state, .key = key};
    if (!PyUnicode_Check(key)) {
        PyErr_Format(PyExc_TypeError, "a key of kv is %.200s; expected str", Py_TYPE(key)->tp_name);
        return false;
    }
    Py_ssize_t length;
    const char *text = encode_text(&entry, key, &length);
    if (text == NULL) return false;
    if ((uint64_t)length > UINT32_MAX) length = UINT32_MAX; /* too long all the same */
    entry.value.key = (HurrayText){text, (uint32_t)length};
    PyObject *items =
        PyList_Check(object) || PyTuple_Check(object) ? PySequence_Tuple(object) : NULL;
    bool converted;
    if (items != NULL) {
        converted = as_list(&entry, items);
    } else {
        entry.value.count = 1;
        entry.value.values = &entry.single;
        converted =
            !PyErr_Occurred() && as_scalar(&entry, object, -1, &entry.value.tag, &entry.single);
    }
    HurrayStatus status = converted ? hurray_key_values_add(list, &entry.value) : HURRAY_OK;
    if (status != HURRAY_OK) raise_status(state, status);
    Py_XDECREF(items);
    PyMem_Free(entry.elements);
    return converted && status == HURRAY_OK;
}

bool metadata_from_dict(CoreState *state, PyObject *dict, HurrayKeyValues **out) {
    if (dict != NULL && !PyDict_Check(dict)) {
        PyErr_Format(PyExc_TypeError, "kv is %.200s; expected a dict", Py_TYPE(dict)->tp_name);
        return false;
    }
    HurrayKeyValues *list = NULL;
    HurrayStatus status = hurray_key_values_create(&list);
    if (status != HURRAY_OK) return raise_status(state, status) != NULL;
    /* A copy: values can run code, which might change the dict. */
    PyObject *items = dict == NULL ? PyList_New(0) : PyDict_Items(dict);
    bool added = items != NULL;
    for (Py_ssize_t i = 0; added && i < PyList_GET_SIZE(items); i++) {
        PyObject *pair = PyList_GET_ITEM(items, i);
        added = add_entry(state, list, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
    }
    Py_XDECREF(items);
    if (added) {
        *out = list;
    } else {
        hurray_key_values_destroy(&list);
    }
    return added;
}

/* ---- back ---- */

static PyObject *scalar_to_object(uint8_t tag, const HurrayScalar *value) {
    switch (tag) {
    case HURRAY_VALUE_STRING:
        return PyUnicode_DecodeUTF8(value->text.data, (Py_ssize_t)value->text.length, NULL);
    case HURRAY_VALUE_INT64: return PyLong_FromLongLong(value->int64);
    case HURRAY_VALUE_UINT64: return PyLong_FromUnsignedLongLong(value->uint64);
    case HURRAY_VALUE_FLOAT64: return PyFloat_FromDouble(value->float64);
    case HURRAY_VALUE_BOOL: return PyBool_FromLong(value->boolean);
    default: return PyBytes_FromStringAndSize(value->text.data, (Py_ssize_t)value->text.length);
    }
}

static PyObject *entry_to_object(const HurrayKeyValue *entry) {
    if (entry->tag != HURRAY_VALUE_ARRAY) return scalar_to_object(entry->tag, entry->values);
    PyObject *list = PyList_New((Py_ssize_t)entry->count);
    for (uint32_t i = 0; list != NULL && i < entry->count; i++) {
        PyObject *item = scalar_to_object(entry->element_tag, &entry->values[i]);
        if (item == NULL) {
            Py_CLEAR(list);
        } else {
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
        }
    }
    return list;
}

PyObject *metadata_to_dict(const HurrayKeyValues *list) {
    PyObject *dict = PyDict_New();
    for (uint32_t i = 0; dict != NULL && i < hurray_key_values_count(list); i++) {
        const HurrayKeyValue *entry = hurray_key_values_at(list, i);
        PyObject *key = PyUnicode_DecodeUTF8(entry->key.data, (Py_ssize_t)entry->key.length, NULL);
        PyObject *value = key == NULL ? NULL : entry_to_object(entry);
        if (value == NULL || PyDict_SetItem(dict, key, value) < 0) Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return dict;
}
