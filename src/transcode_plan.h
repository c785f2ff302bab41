/*
 * How a strided copy is gone about (transcode.c).
 *
 * Every copy begins with a plan: the axes of the shape, reduced to those that matter and ordered
 * for the memory that is written. All positions are integers, 64 bits wide and counted from element
 * [0, …, 0]. Threads share a large plan, which is cut into slices along one axis.
 */
#ifndef HURRAY_SRC_TRANSCODE_PLAN_H
#define HURRAY_SRC_TRANSCODE_PLAN_H

#include <hurray/shape.h>
#include <hurray/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Axis {
    int64_t extent; /* 2 or more, except for the axes that fill a plane up */
    int64_t source; /* strides */
    int64_t destination;
} Axis;

/* Where rank is 0 there is one element, at the two starts. */
typedef struct Plan {
    uint32_t rank;
    bool is_transposed; /* the source runs along the last axis but one */
    int64_t source;     /* start */
    int64_t destination;
    Axis axes[HURRAY_MAX_RANK + 2];
} Plan;

/*
 * Reduces, orders and merges the axes of a shape without a 0. `unit` is the bytes of an element, at
 * most.
 */
HurrayStatus hri_plan_make(uint32_t rank, const uint64_t *shape, const int64_t *source_strides,
                           const int64_t *destination_strides, uint64_t unit, Plan *out);

/* Whether slices of a plan are to begin where packed elements begin a byte of the destination. */
typedef enum Slicing {
    SLICES_OF_BYTES,
    SLICES_OF_GROUPS
} Slicing;

/* Does a plan, or a slice of one, which it may change. */
typedef void DoPlan(Plan *plan, const void *job);

/*
 * Does a plan of elements of `unit` bytes at most, one slice after another, and with threads where it
 * is large. Slices of groups are cut along the outermost axis, at multiples of 64, which suits row-major
 * destinations.
 */
HurrayStatus hri_plan_do(Plan *plan, uint64_t unit, Slicing slicing, DoPlan *run, const void *job);

/*
 * Brings the axis with the source's smallest step next to the last, if it is not the last itself,
 * and sees to it that there are two at least. They are what is copied at a time, a plane.
 */
void hri_plan_choose_plane(Plan *plan);

#endif
