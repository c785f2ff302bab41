/* Counts of references to what is shared between threads. */
#ifndef HURRAY_SRC_REFERENCES_H
#define HURRAY_SRC_REFERENCES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Gives back `count` references that the caller has. True when these were the last: nobody else
 * knows of it any more. Then nobody can count either, so that looking is enough, which takes a small
 * part of the time of an atomic change.
 */
static inline bool references_drop(atomic_size_t *references, size_t count) {
    /* Release so that our writes are seen by the last one; acquire so that the last one sees all. */
    return atomic_load_explicit(references, memory_order_acquire) == count ||
           atomic_fetch_sub_explicit(references, count, memory_order_acq_rel) == count;
}

#endif
