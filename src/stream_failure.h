/*
 * A failure that lasts: stream codecs that have failed say the same again, on whatever thread they
 * are asked.
 */
#ifndef HURRAY_SRC_STREAM_FAILURE_H
#define HURRAY_SRC_STREAM_FAILURE_H

#include <stdio.h>

#include "fail.h"

typedef struct StreamFailure {
    HurrayStatus status; /* HURRAY_OK: none */
    int number;          /* errno of HURRAY_ERR_IO */
    char message[512];
} StreamFailure;

/* Keeps the failure that was just reported on this thread; returns its status. */
static inline HurrayStatus keep_failure(StreamFailure *failure, HurrayStatus status) {
    failure->status = status;
    failure->number = hurray_error_number();
    snprintf(failure->message, sizeof failure->message, "%s", hurray_error_message());
    return status;
}

/* Reports it again; HURRAY_OK where there is none. */
static inline HurrayStatus repeat_failure(const StreamFailure *failure) {
    if (failure->status == HURRAY_OK) return HURRAY_OK;
    if (failure->status == HURRAY_ERR_IO)
        return hri_fail_io(failure->number, "%s", failure->message);
    return hri_fail(failure->status, "%s", failure->message);
}

#endif
