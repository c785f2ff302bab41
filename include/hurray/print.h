/*
 * The annotated table of a descriptor (spec 1 – 3): a row for each field, with its offset, its
 * bytes in hex, its name and what it says. Broken descriptors are shown, too, up to where they
 * can be followed, so that one sees what is wrong with them:
 *
 *     offset  bytes                    field
 *          0  48 52 52 59              magic = "HRRY"
 *          4  02                       version_major = 2  <- expected 1
 *        ...  56 more bytes are not shown
 *     HURRAY_ERR_VERSION_MISMATCH: version_major 2; this library reads 1
 *
 * The text goes to a function of the caller's, a line at a time; nothing else is printed. It is
 * UTF-8, for bytes of any kind: of those that are data, only the hex is shown.
 */
#ifndef HURRAY_PRINT_H
#define HURRAY_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "descriptor.h"
#include "status.h"

HURRAY_BEGIN_DECLS

/*
 * Takes a line, its newline included: `length` bytes at `text`, which is not terminated by a zero
 * and gone after the call. `context` is the caller's own. False ends the printing.
 */
typedef bool (*HurrayPrintWrite)(const char *text, size_t length, void *context);

#define HURRAY_PRINT_MAX_OFFSET_WIDTH 20u
#define HURRAY_PRINT_MAX_BYTES_PER_ROW 32u

/* Zero is a good choice for each. */
typedef struct HurrayPrintOptions {
    HurrayDecodeOptions decode; /* how strictly to read */
    uint64_t first_offset;      /* what to call the offset of the first byte */
    uint32_t offset_width;      /* characters, 1 … 20; 0: 6 */
    uint32_t bytes_per_row;     /* 1 … 32; 0: 8. A longer field goes on in the next row. */
    uint32_t data_rows;         /* of uninterpreted bytes in one place, at most; 0: 16 */
    bool no_heading;            /* leave out the line that names the columns */
    bool color;                 /* ANSI escapes: for terminals only */
} HurrayPrintOptions;

/*
 * Prints the table of the descriptor that `bytes` begins with, then a line with the verdict:
 * "valid", or the name of the status that hurray_descriptor_decode_with gives and what
 * hurray_error_message says. That status goes to `out_verdict` (may be NULL), too, and its
 * message remains the last one.
 *
 * The result is about the printing: HURRAY_OK whatever the verdict is,
 * HURRAY_ERR_INVALID_ARGUMENT for options out of range, HURRAY_ERR_INTERNAL as soon as `write`
 * returns false; out_verdict is then left alone. `bytes` may be NULL when `length` is 0;
 * `options` may be NULL.
 *
 * Costs what decoding does. The text is at most proportional to the descriptor's length.
 */
HURRAY_API HurrayStatus hurray_descriptor_print(const uint8_t *bytes, uintptr_t length,
                                                const HurrayPrintOptions *options,
                                                HurrayPrintWrite write, void *context,
                                                HurrayStatus *out_verdict);

HURRAY_END_DECLS

#endif
