/*
 * Assertions about what functions return, shared by the tests. A failure must come with a sentence
 * of its own: the message of an earlier one does not count.
 */
#ifndef HURRAY_TESTS_EXPECT_H
#define HURRAY_TESTS_EXPECT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <hurray/status.h>

#include "fail.h"

#define STALE_MESSAGE "stale message"

/* `call` succeeds. */
#define expect_ok(call)                  \
    (hri_fail(HURRAY_OK, STALE_MESSAGE), \
     expect_status_at((call), HURRAY_OK, #call, __FILE__, __LINE__))

/* `call` fails with this status, and says why. */
#define expect_failure(status, call)     \
    (hri_fail(HURRAY_OK, STALE_MESSAGE), \
     expect_status_at((call), (status), #call, __FILE__, __LINE__))

/* `call` fails with any error status, and says why. */
#define expect_any_failure(call) \
    (hri_fail(HURRAY_OK, STALE_MESSAGE), expect_any_failure_at((call), #call, __FILE__, __LINE__))

/* The last message has this in it. */
#define expect_message(part) expect_message_at((part), __FILE__, __LINE__)

static inline void fail_at(const char *file, int line) {
    _fail(file, line);
    abort(); /* cmocka does not return */
}

static inline void expect_sentence_at(const char *call, const char *file, int line) {
    const char *message = hurray_error_message();
    if (strcmp(message, STALE_MESSAGE) != 0 && message[0] != '\0' &&
        strchr(message, '\n') == NULL) {
        return;
    }
    print_error("%s failed without a sentence of its own: \"%s\"\n", call, message);
    fail_at(file, line);
}

static inline void expect_status_at(HurrayStatus status, HurrayStatus expected, const char *call,
                                    const char *file, int line) {
    if (status != expected) {
        print_error("%s gave %s, expected %s; message: %s\n", call, hurray_status_name(status),
                    hurray_status_name(expected), hurray_error_message());
        fail_at(file, line);
    }
    if (status != HURRAY_OK) expect_sentence_at(call, file, line);
}

static inline void expect_any_failure_at(HurrayStatus status, const char *call, const char *file,
                                         int line) {
    if (status >= HURRAY_OK) {
        print_error("%s gave %s, expected an error\n", call, hurray_status_name(status));
        fail_at(file, line);
    }
    expect_sentence_at(call, file, line);
}

static inline void expect_message_at(const char *part, const char *file, int line) {
    if (strstr(hurray_error_message(), part) != NULL) return;
    print_error("\"%s\" does not say \"%s\"\n", hurray_error_message(), part);
    fail_at(file, line);
}

#endif
