/* Threads for the time of a call (include/hurray/parallel.h, parallel.h). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity, _SC_NPROCESSORS_ONLN */
#endif

#include "parallel.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "fail.h"

/* What the automatic choice goes up to: more share one memory, or one disk, without getting more. */
#define MAX_AUTOMATIC_THREADS 8u

/* ---- how many ---- */

static atomic_uint limit; /* 0: automatic */

void hurray_set_max_threads(uint32_t threads) {
    atomic_store(&limit, threads > HURRAY_MAX_THREADS ? HURRAY_MAX_THREADS : threads);
}

static long available_processors(void) {
#ifdef CPU_COUNT
    cpu_set_t set; /* too small for machines with more than 1024 */
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    return sysconf(_SC_NPROCESSORS_ONLN);
}

uint32_t hurray_max_threads(void) {
    uint32_t threads = atomic_load(&limit);
    if (threads != 0) return threads;
    long processors = available_processors();
    if (processors < 1) return 1;
    return processors < (long)MAX_AUTOMATIC_THREADS ? (uint32_t)processors : MAX_AUTOMATIC_THREADS;
}

uint32_t hri_threads_for(uint64_t bytes, uint64_t each) {
    uint64_t most = bytes / each;
    if (most < 2) return 1; /* without asking the system */
    uint32_t threads = hurray_max_threads();
    return threads < most ? threads : (uint32_t)most;
}

/* ---- running ---- */

typedef struct Work {
    HriPart *run;
    void *context;
    uint64_t parts;
    atomic_uint_least64_t next; /* part that nobody has taken */
    atomic_uint threads;        /* numbers given out */
    atomic_bool failed;         /* nobody need go on; who set it tells the failure */
    HurrayStatus status;
    int number;
    char message[512];
} Work;

static void note_failure(Work *work, HurrayStatus status) {
    if (atomic_exchange(&work->failed, true)) return;
    work->status = status;
    work->number = hurray_error_number();
    snprintf(work->message, sizeof work->message, "%s", hurray_error_message());
}

static void take_parts(Work *work, uint32_t thread) {
    while (!atomic_load(&work->failed)) {
        uint64_t part = atomic_fetch_add(&work->next, 1);
        if (part >= work->parts) break;
        HurrayStatus status = work->run(work->context, thread, part);
        if (status != HURRAY_OK) note_failure(work, status);
    }
}

static void *help(void *work) {
    take_parts(work, atomic_fetch_add(&((Work *)work)->threads, 1));
    return NULL;
}

/* Signals are for the threads of the caller. */
static uint32_t start_helpers(Work *work, uint32_t count, pthread_t *helpers) {
    sigset_t all, before;
    uint32_t started = 0;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return 0;
    while (started < count && pthread_create(&helpers[started], NULL, help, work) == 0) started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static HurrayStatus run_alone(uint64_t parts, HriPart *run, void *context) {
    HurrayStatus status = HURRAY_OK;
    for (uint64_t i = 0; status == HURRAY_OK && i < parts; i++) status = run(context, 0, i);
    return status;
}

HurrayStatus hri_parallel(uint64_t parts, uint32_t threads, HriPart *run, void *context) {
    if (threads > HURRAY_MAX_THREADS) threads = HURRAY_MAX_THREADS;
    if (threads > parts) threads = (uint32_t)parts;
    if (threads < 2) return run_alone(parts, run, context);
    Work work = {.run = run, .context = context, .parts = parts};
    pthread_t helpers[HURRAY_MAX_THREADS];
    atomic_init(&work.next, 0);
    atomic_init(&work.threads, 1);
    atomic_init(&work.failed, false);
    uint32_t started = start_helpers(&work, threads - 1, helpers);
    take_parts(&work, 0);
    while (started > 0) pthread_join(helpers[--started], NULL);
    if (work.status == HURRAY_ERR_IO) return hri_fail_io(work.number, "%s", work.message);
    if (work.status != HURRAY_OK) return hri_fail(work.status, "%s", work.message);
    return HURRAY_OK;
}
