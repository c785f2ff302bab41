/*
 * Work that is shared by threads (include/hurray/parallel.h): cut it into parts, more than there are
 * threads so that none waits long for the others, and let hri_parallel run them.
 *
 *     static HurrayStatus fill(void *context, uint32_t thread, uint64_t part) { … }
 *
 *     uint32_t threads = hri_threads_for(bytes, 4 << 20);
 *     status = hri_parallel(parts, threads, fill, &context);
 *
 * It costs some ten microseconds for each thread beyond the first, which is why hri_threads_for gives
 * 1 for small work, and nothing for a single one.
 */
#ifndef HURRAY_SRC_PARALLEL_H
#define HURRAY_SRC_PARALLEL_H

#include <hurray/parallel.h>
#include <hurray/status.h>
#include <stddef.h>

/* Does one part; `thread`, from 0 for the caller's own, tells apart those that run at the same time. */
typedef HurrayStatus HriPart(void *context, uint32_t thread, uint64_t part);

/* How many threads share `bytes` of work, of which each is to have `each` (> 0) at least: 1 or more, up
 * to hurray_max_threads. */
uint32_t hri_threads_for(uint64_t bytes, uint64_t each);

/*
 * Runs `run` for parts 0 … parts − 1, which are taken in this order by whichever of `threads` threads
 * is free (capped at HURRAY_MAX_THREADS and `parts`; fewer where the system gives no more, and always
 * the caller's). After a part has failed none is begun; the first failure is returned, with its
 * message, as if it had happened on the caller's thread. Threads have ended on return.
 */
HurrayStatus hri_parallel(uint64_t parts, uint32_t threads, HriPart *run, void *context);

#endif
