/*
 * How many threads the library may use.
 *
 * Copies and conversions of some MiB, and reading a file into memory, are shared among threads that are
 * started for the call and have ended when it returns. Everything smaller stays on the thread that
 * asks. Results do not depend on the number of threads.
 */
#ifndef HURRAY_PARALLEL_H
#define HURRAY_PARALLEL_H

#include <stdint.h>

#include "api.h"

HURRAY_BEGIN_DECLS

/* The most threads that one call uses, the calling one included; more than that are capped. */
#define HURRAY_MAX_THREADS 64u

/*
 * Sets the most threads that one call uses from now on, in the whole process; 1: never start any. 0, as
 * in the beginning: one for each CPU that the calling thread may run on, at most 8. What the caller of a
 * function asks for with a parameter of its own goes before.
 */
HURRAY_API void hurray_set_max_threads(uint32_t threads);

/* The most threads that a call on this thread would use now: 1 … HURRAY_MAX_THREADS. */
HURRAY_API uint32_t hurray_max_threads(void);

HURRAY_END_DECLS

#endif
