/*
 * How the library reports a failure: set the thread's message, return the status.
 *
 *     if (rank > HURRAY_MAX_RANK) return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "rank %u is …", rank);
 */
#ifndef HURRAY_SRC_FAIL_H
#define HURRAY_SRC_FAIL_H

#include <hurray/status.h>

#ifdef __GNUC__
#define HRI_PRINTF(sentence, first) __attribute__((format(printf, sentence, first)))
#else
#define HRI_PRINTF(sentence, first)
#endif

/* Formats the sentence for hurray_error_message, cut at 511 bytes; returns `status`. */
HurrayStatus hri_fail(HurrayStatus status, const char *format, ...) HRI_PRINTF(2, 3);

/* The same for HURRAY_ERR_IO, with the errno of the call that failed (hurray_error_number); 0: none. */
HurrayStatus hri_fail_io(int number, const char *format, ...) HRI_PRINTF(2, 3);

/* HURRAY_ERR_NULL_POINTER for a parameter of this name. */
HurrayStatus hri_fail_null(const char *parameter);

/* HURRAY_ERR_OUT_OF_MEMORY for this many bytes. */
HurrayStatus hri_fail_memory(unsigned long long bytes);

#endif
