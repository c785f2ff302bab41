/* Python numbers as elements (number.h; spec 8.4). */
#include "number.h"

#include <string.h>

/* ---- kinds ---- */

/* A scalar that exports itself as a buffer of no dimensions, as NumPy's do. */
static NumberKind kind_of_buffer(PyObject *object) {
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_FORMAT | PyBUF_STRIDES) < 0) {
        PyErr_Clear();
        return NUMBER_NONE;
    }
    NumberKind kind = NUMBER_NONE;
    const char *format = view.format == NULL ? "B" : view.format;
    if (*format != '\0' && strchr("@=<>!", *format) != NULL) format++;
    if (view.ndim == 0 && *format != '\0') {
        if (strcmp(format, "?") == 0) {
            kind = NUMBER_BOOL;
        } else if (*format == 'Z' || *format == 'F' || *format == 'D') {
            kind = NUMBER_COMPLEX;
        } else if (strchr("efdg", *format) != NULL && format[1] == '\0') {
            kind = NUMBER_FLOAT;
        } else if (strchr("bBhHiIlLqQnN", *format) != NULL && format[1] == '\0') {
            kind = NUMBER_INT;
        }
    }
    PyBuffer_Release(&view);
    return kind;
}

NumberKind number_kind(PyObject *object) {
    if (PyBool_Check(object)) return NUMBER_BOOL;
    if (PyLong_Check(object)) return NUMBER_INT;
    if (PyFloat_Check(object)) return NUMBER_FLOAT;
    if (PyComplex_Check(object)) return NUMBER_COMPLEX;
    if (PyUnicode_Check(object)) return NUMBER_NONE;
    if (PyObject_CheckBuffer(object)) {
        NumberKind kind = kind_of_buffer(object);
        if (kind != NUMBER_NONE || PySequence_Check(object)) return kind;
    }
    if (PyIndex_Check(object)) return NUMBER_INT;
    PyNumberMethods *methods = Py_TYPE(object)->tp_as_number;
    if (methods != NULL && methods->nb_float != NULL) return NUMBER_FLOAT;
    bool is_complex = PyObject_HasAttrString((PyObject *)Py_TYPE(object), "__complex__") == 1;
    return is_complex ? NUMBER_COMPLEX : NUMBER_NONE;
}

uint8_t number_type(NumberKind kind) {
    switch (kind) {
    case NUMBER_BOOL: return HURRAY_TYPE_BOOL;
    case NUMBER_INT: return HURRAY_TYPE_INT64;
    case NUMBER_COMPLEX: return HURRAY_TYPE_COMPLEX128;
    default: return HURRAY_TYPE_FLOAT64;
    }
}

bool number_needs_uint64(PyObject *value) {
    PyObject *integer = PyNumber_Index(value);
    int overflow = 0;
    bool needs = false;
    if (integer != NULL) {
        PyLong_AsLongLongAndOverflow(integer, &overflow);
        if (overflow > 0) {
            unsigned long long unused = PyLong_AsUnsignedLongLong(integer);
            needs = !(unused == ULLONG_MAX && PyErr_Occurred());
        }
        Py_DECREF(integer);
    }
    PyErr_Clear();
    return needs;
}

/* ---- floats ---- */

static uint64_t bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Drops `shift` bits, rounding to nearest and ties to even. */
static uint64_t round_off(uint64_t bits, unsigned shift) {
    uint64_t odd = bits >> shift & 1;
    return (bits + ((UINT64_C(1) << (shift - 1)) - 1) + odd) >> shift;
}

/*
 * From 52 bits of fraction to 10, and from an exponent bias of 1023 to one of 15. A carry out of the
 * fraction lands in the exponent, where it belongs.
 */
uint16_t number_to_half(double value) {
    uint64_t bits = bits_of_double(value);
    uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
    uint64_t magnitude = bits & UINT64_C(0x7FFFFFFFFFFFFFFF);
    uint64_t infinity = UINT64_C(0x7FF) << 52;
    if (magnitude > infinity) { /* NaN: what fits of its payload, but never nothing */
        uint16_t payload = (uint16_t)(magnitude >> 42 & 0x3FF);
        return (uint16_t)(sign | 0x7C00 | (payload == 0 ? 1 : payload));
    }
    unsigned exponent = (unsigned)(magnitude >> 52); /* biased by 1023 */
    if (exponent > 1023 + 15) return (uint16_t)(sign | 0x7C00);
    if (exponent > 1023 - 15) { /* normal, up to 65504; from 65520 on it rounds to infinity */
        return (uint16_t)(sign | round_off(magnitude - ((UINT64_C(1023) - 15) << 52), 42));
    }
    /* A multiple of 2^-24; less than half of that is 0. */
    if (exponent < 1023 - 25) return sign;
    uint64_t significand = (magnitude & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    return (uint16_t)(sign | round_off(significand, 1023 + 28 - exponent));
}

uint16_t number_to_bfloat16(double value) {
    float narrow = (float)value;
    uint32_t bits = bits_of_float(narrow);
    if (narrow != narrow) return (uint16_t)((bits >> 16 & 0x8000) | 0x7FC0);
    return (uint16_t)round_off(bits, 16);
}

float number_from_half(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
    if (exponent == 0) { /* fraction · 2^-24, exact in a float */
        float magnitude = (float)fraction * 0x1p-24f;
        return float_of_bits(sign | bits_of_float(magnitude));
    }
    uint32_t biased = exponent == 0x1F ? 0xFF : exponent + (127 - 15);
    return float_of_bits(sign | biased << 23 | fraction << 13);
}

float number_from_bfloat16(uint16_t bits) { return float_of_bits((uint32_t)bits << 16); }

/* ---- storing ---- */

static bool refuse_type(PyObject *value, const HurrayElementType *type) {
    PyErr_Format(PyExc_TypeError, "%s takes no '%.200s'", type->name, Py_TYPE(value)->tp_name);
    return false;
}

static bool refuse_range(PyObject *integer, const HurrayElementType *type) {
    /* Not the number itself: it may have more digits than Python agrees to print. */
    int negative = PyObject_RichCompareBool(integer, Py_False, Py_LT);
    if (negative < 0) return false;
    PyErr_Format(PyExc_OverflowError, "a%s integer is out of range for %s",
                 negative ? " negative" : "n", type->name);
    return false;
}

static bool store_signed(PyObject *integer, const HurrayElementType *type, void *element) {
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(integer, &overflow);
    if (value == -1 && overflow == 0 && PyErr_Occurred()) return false;
    long long limit = type->bits == 64 ? LLONG_MAX : (1LL << (type->bits - 1)) - 1;
    if (overflow != 0 || value > limit || value < -limit - 1) return refuse_range(integer, type);
    switch (type->bits) {
    case 8: *(int8_t *)element = (int8_t)value; break;
    case 16: memcpy(element, &(int16_t){(int16_t)value}, 2); break;
    case 32: memcpy(element, &(int32_t){(int32_t)value}, 4); break;
    default: memcpy(element, &(int64_t){value}, 8); break;
    }
    return true;
}

static bool store_unsigned(PyObject *integer, const HurrayElementType *type, void *element) {
    unsigned long long value = PyLong_AsUnsignedLongLong(integer);
    if (value == ULLONG_MAX && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return false;
        PyErr_Clear();
        return refuse_range(integer, type);
    }
    if (type->bits < 64 && value >> type->bits != 0) return refuse_range(integer, type);
    switch (type->bits) {
    case 8: *(uint8_t *)element = (uint8_t)value; break;
    case 16: memcpy(element, &(uint16_t){(uint16_t)value}, 2); break;
    case 32: memcpy(element, &(uint32_t){(uint32_t)value}, 4); break;
    default: memcpy(element, &(uint64_t){value}, 8); break;
    }
    return true;
}

/* Without its fraction. Not by PyNumber_Long alone, which reads the bytes of a buffer as digits. */
static PyObject *as_integer(PyObject *value) {
    if (PyIndex_Check(value)) return PyNumber_Index(value);
    PyNumberMethods *methods = Py_TYPE(value)->tp_as_number;
    if (methods != NULL && methods->nb_int != NULL) return PyNumber_Long(value);
    double number = PyFloat_AsDouble(value);
    return number == -1.0 && PyErr_Occurred() ? NULL : PyLong_FromDouble(number);
}

static bool store_integer(PyObject *value, const HurrayElementType *type, void *element) {
    PyObject *integer = as_integer(value);
    if (integer == NULL) return false;
    bool ok = type->is_signed ? store_signed(integer, type, element)
                              : store_unsigned(integer, type, element);
    Py_DECREF(integer);
    return ok;
}

static bool store_real(PyObject *value, const HurrayElementType *type, void *element) {
    double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) return false;
    switch (type->tag) {
    case HURRAY_TYPE_FLOAT16: memcpy(element, &(uint16_t){number_to_half(number)}, 2); break;
    case HURRAY_TYPE_BFLOAT16: memcpy(element, &(uint16_t){number_to_bfloat16(number)}, 2); break;
    case HURRAY_TYPE_FLOAT32: memcpy(element, &(float){(float)number}, 4); break;
    default: memcpy(element, &number, 8); break;
    }
    return true;
}

static bool store_complex(PyObject *value, const HurrayElementType *type, void *element) {
    Py_complex number = PyComplex_AsCComplex(value);
    if (number.real == -1.0 && PyErr_Occurred()) return false;
    if (type->tag == HURRAY_TYPE_COMPLEX64) {
        memcpy(element, &(float[2]){(float)number.real, (float)number.imag}, 8);
    } else {
        memcpy(element, &(double[2]){number.real, number.imag}, 16);
    }
    return true;
}

static bool store_bool(PyObject *value, void *element) {
    int truth = PyObject_IsTrue(value);
    if (truth < 0) return false;
    *(uint8_t *)element = (uint8_t)truth;
    return true;
}

bool number_store(PyObject *value, const HurrayElementType *type, void *element) {
    /* The common pairs first; everything else asks what it has. */
    if (PyFloat_CheckExact(value) && type->is_float && !type->is_complex) {
        return store_real(value, type, element);
    }
    if (PyLong_CheckExact(value) && type->is_integer) {
        return type->is_signed ? store_signed(value, type, element)
                               : store_unsigned(value, type, element);
    }
    NumberKind kind = number_kind(value);
    if (kind == NUMBER_NONE) return refuse_type(value, type);
    if (type->tag == HURRAY_TYPE_BOOL) return store_bool(value, element);
    if (type->is_complex) return store_complex(value, type, element);
    if (kind == NUMBER_COMPLEX) return refuse_type(value, type);
    return type->is_float ? store_real(value, type, element) : store_integer(value, type, element);
}

/* ---- filling ---- */

/* Copies of copies, doubling up to a block that stays in the cache, then that block again. */
void number_fill(void *elements, size_t count, const void *element, size_t size) {
    uint8_t *bytes = elements;
    size_t total = count * size, block = 4096;
    if (count == 0) return;
    if (size == 1) {
        memset(bytes, *(const uint8_t *)element, total);
        return;
    }
    memcpy(bytes, element, size);
    size_t done = size;
    while (done < total) {
        size_t step = done < block ? done : block;
        if (step > total - done) step = total - done;
        memcpy(bytes + done, bytes, step);
        done += step;
    }
}
