/*
 * What functions return (spec 7.1, 7.2).
 *
 * A function that can fail returns a HurrayStatus: 0 when it succeeded, a negative HURRAY_ERR_…
 * when it did not. Results go through out-parameters, which are left alone on failure. A required
 * pointer that is NULL gives HURRAY_ERR_NULL_POINTER. hurray_error_message() then holds a sentence
 * that names the field, the value found and what was expected.
 */
#ifndef HURRAY_STATUS_H
#define HURRAY_STATUS_H

#include <stdint.h>

#include "api.h"

HURRAY_BEGIN_DECLS

typedef int32_t HurrayStatus;

/* Codes -1 … -11 are part of the ABI; later ones may grow in number but keep their values. */
enum {
    HURRAY_OK = 0,
    HURRAY_ERR_INVALID_MAGIC = -1,
    HURRAY_ERR_VERSION_MISMATCH = -2,
    HURRAY_ERR_INVALID_LAYOUT = -3, /* any structural fault that has no code of its own */
    HURRAY_ERR_INVALID_TYPE = -4,   /* element type, device or memory class tag */
    HURRAY_ERR_BUFFER_TOO_SMALL = -5,
    HURRAY_ERR_NULL_POINTER = -6,
    HURRAY_ERR_INTERNAL_PANIC = -7, /* never returned by this library */
    HURRAY_ERR_INVALID_SYNC_MODE = -8,
    HURRAY_ERR_SYNC_MODE_MISMATCH = -9,
    HURRAY_ERR_INTERNAL = -10, /* also: quantization and composite rules */
    HURRAY_ERR_INDEX_OUT_OF_BOUNDS = -11,
    HURRAY_ERR_OUT_OF_MEMORY = -12,
    HURRAY_ERR_INVALID_ARGUMENT = -13, /* a value that no tensor could make right */
    HURRAY_ERR_UNSUPPORTED = -14,      /* valid, but not by this path */
    HURRAY_ERR_COPY_REQUIRED = -15,    /* the caller forbade the copy that would be needed */
    HURRAY_ERR_BAD_PRODUCER = -16,     /* what another library handed over breaks its contract */
    HURRAY_ERR_DATA_INVALID = -17,     /* bytes in the buffers break a rule (see verify.h) */
    HURRAY_ERR_IO = -18,               /* the system refused: hurray_error_number says why */
    HURRAY_ERR_FILE_INVALID = -19,     /* a file container that is not what spec 4 says */
    HURRAY_ERR_STREAM_INVALID = -20,   /* a stream that ends too early, or is over a limit */
    HURRAY_ERR_NOT_FOUND = -21,        /* a name that is not there */
    HURRAY_ERR_CLOSED = -22,           /* a writer or reader that is finished or closed */
    HURRAY_ERR_INTERRUPTED = -23       /* the caller's interrupt callback said to give up */
};

/* The constant's name, "HURRAY_ERR_INVALID_MAGIC"; "unknown status" for any other number. */
HURRAY_API const char *hurray_status_name(HurrayStatus status);

/*
 * Why the last function that failed on this thread did so: one sentence without a newline, UTF-8,
 * valid until the next failure on this thread. Empty before the first failure.
 */
HURRAY_API const char *hurray_error_message(void);

/*
 * errno of the last HURRAY_ERR_IO on this thread; 0 before the first, and where a file simply ended
 * or no system call was to blame.
 */
HURRAY_API int hurray_error_number(void);

/* The version of the established functions (spec 7.2) that this header declares. */
#define HURRAY_C_ABI_VERSION 4u

/* The version of the library that is running, to be compared with HURRAY_C_ABI_VERSION. */
HURRAY_API uint32_t hurray_c_abi_version(void);

HURRAY_END_DECLS

#endif
