/*
 * Python numbers and the elements of standard types: what kind a number is, and its conversion,
 * element by element as NumPy does it.
 */
#ifndef HURRAY_PYTHON_NUMBER_H
#define HURRAY_PYTHON_NUMBER_H

#include "core.h"

/* In order of promotion. */
typedef enum NumberKind {
    NUMBER_NONE, /* no number */
    NUMBER_BOOL,
    NUMBER_INT,
    NUMBER_FLOAT,
    NUMBER_COMPLEX
} NumberKind;

/*
 * The kind of an object: Python's numbers, scalars of array libraries, and what has __index__,
 * __float__ or __complex__. Never raises; str and bytes are no numbers.
 */
NumberKind number_kind(PyObject *object);

/* bool, int64, float64, complex128. */
uint8_t number_type(NumberKind kind);

/* Whether `value`, a NUMBER_INT, is beyond int64 but within uint64. False without an exception. */
bool number_needs_uint64(PyObject *value);

/*
 * Writes one element of a standard type: bool as a byte of 0 or 1, others as they lie in memory.
 * Floats lose their fraction in integers and round to nearest, ties to even, in narrower floats
 * (beyond the range: infinity). False with an exception: OverflowError naming the dtype for an
 * integer out of range, TypeError for a complex number in a real type and for what is no number.
 */
bool number_store(PyObject *value, const HurrayElementType *type, void *element);

/* Bytes of an element as number_store writes it: 1 for bool. */
static inline size_t number_size(const HurrayElementType *type) {
    return type->bits < 8 ? 1 : type->bits / 8u;
}

/* The bits of IEEE binary16 and of bfloat16, and back. bfloat16 rounds by way of float32, as NumPy's
 * does. */
uint16_t number_to_half(double value);
uint16_t number_to_bfloat16(double value);
float number_from_half(uint16_t bits);
float number_from_bfloat16(uint16_t bits);

/* `count` copies of an element of 1, 2, 4, 8 or 16 bytes. */
void number_fill(void *elements, size_t count, const void *element, size_t size);

#endif
