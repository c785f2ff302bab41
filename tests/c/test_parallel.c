/*
 * Threads for the time of a call (src/parallel.c): every part is done once, failures reach the caller, and
 * one thread will do where the system gives no more. Starting a thread goes through a function of the
 * test's own (--wrap, see meson.build).
 */
#include "expect.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <hurray/parallel.h>

#include "fail.h"
#include "parallel.h"

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument);

static unsigned started, most_to_start = UINT32_MAX;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument) {
    if (started == most_to_start) return EAGAIN;
    started++;
    return __real_pthread_create(thread, attributes, start, argument);
}

enum {
    PARTS = 1000
};

typedef struct Log {
    atomic_uint runs[PARTS];
    atomic_uint threads[HURRAY_MAX_THREADS]; /* parts that each has done */
    atomic_uint done;
    uint64_t failing; /* from this part on */
} Log;

static HurrayStatus record(void *context, uint32_t thread, uint64_t part) {
    Log *log = context;
    if (part >= log->failing) {
        return hri_fail_io(ENOSPC, "part %u failed", (unsigned)part);
    }
    atomic_fetch_add(&log->runs[part], 1);
    atomic_fetch_add(&log->threads[thread], 1);
    atomic_fetch_add(&log->done, 1);
    return HURRAY_OK;
}

static void expect_once_each(uint64_t parts, uint32_t threads, uint32_t expected_starts) {
    Log log = {.failing = PARTS};
    started = 0;
    expect_ok(hri_parallel(parts, threads, record, &log));
    assert_int_equal(started, expected_starts);
    assert_int_equal(atomic_load(&log.done), parts);
    for (uint64_t i = 0; i < PARTS; i++) assert_int_equal(atomic_load(&log.runs[i]), i < parts);
    for (uint32_t i = started + 1; i < HURRAY_MAX_THREADS; i++) {
        assert_int_equal(atomic_load(&log.threads[i]), 0);
    }
}

static void every_part_is_done_once(void **state) {
    (void)state;
    const uint64_t parts[] = {0, 1, 2, 3, 7, PARTS};
    const uint32_t threads[] = {0, 1, 2, 3, 8, HURRAY_MAX_THREADS, UINT32_MAX};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        for (size_t j = 0; j < sizeof threads / sizeof threads[0]; j++) {
            uint64_t most = parts[i] < HURRAY_MAX_THREADS ? parts[i] : HURRAY_MAX_THREADS;
            uint64_t used = threads[j] < most ? threads[j] : most;
            expect_once_each(parts[i], threads[j], used == 0 ? 0 : (uint32_t)used - 1);
        }
    }
}

static void fewer_threads_do_it_too(void **state) {
    (void)state;
    for (most_to_start = 0; most_to_start < 4; most_to_start++) {
        expect_once_each(PARTS, 5, most_to_start);
    }
    most_to_start = UINT32_MAX;
}

static void the_first_failure_is_the_callers(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads < 5; threads++) {
        for (uint64_t failing = 0; failing < 20; failing++) {
            Log log = {.failing = failing};
            hri_fail_io(ENOENT, "an old message");
            assert_int_equal(hri_parallel(PARTS, threads, record, &log), HURRAY_ERR_IO);
            assert_int_equal(hurray_error_number(), ENOSPC);
            assert_non_null(strstr(hurray_error_message(), "failed"));
            assert_int_equal(atomic_load(&log.done), failing);
        }
    }
}

static HurrayStatus refuse(void *context, uint32_t thread, uint64_t part) {
    (void)context, (void)thread;
    return hri_fail(HURRAY_ERR_UNSUPPORTED, "part %u is unsupported", (unsigned)part);
}

static void any_status_is_kept(void **state) {
    (void)state;
    assert_int_equal(hri_parallel(1, 4, refuse, NULL), HURRAY_ERR_UNSUPPORTED);
    assert_string_equal(hurray_error_message(), "part 0 is unsupported");
    assert_int_equal(hri_parallel(4, 4, refuse, NULL), HURRAY_ERR_UNSUPPORTED);
    assert_non_null(strstr(hurray_error_message(), "is unsupported"));
}

static void the_number_of_threads_can_be_set(void **state) {
    (void)state;
    uint32_t automatic = hurray_max_threads();
    assert_in_range(automatic, 1, 8);
    assert_int_equal(hri_threads_for(UINT64_MAX, 1), automatic);
    for (uint32_t threads = 1; threads <= HURRAY_MAX_THREADS; threads++) {
        hurray_set_max_threads(threads);
        assert_int_equal(hurray_max_threads(), threads);
        assert_int_equal(hri_threads_for(UINT64_MAX, 1), threads);
        assert_int_equal(hri_threads_for(100, 10), threads < 10 ? threads : 10);
        assert_int_equal(hri_threads_for(19, 10), 1);
        assert_int_equal(hri_threads_for(0, 10), 1);
    }
    hurray_set_max_threads(UINT32_MAX);
    assert_int_equal(hurray_max_threads(), HURRAY_MAX_THREADS);
    hurray_set_max_threads(0);
    assert_int_equal(hurray_max_threads(), automatic);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_is_done_once),
        cmocka_unit_test(fewer_threads_do_it_too),
        cmocka_unit_test(the_first_failure_is_the_callers),
        cmocka_unit_test(any_status_is_kept),
        cmocka_unit_test(the_number_of_threads_can_be_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
