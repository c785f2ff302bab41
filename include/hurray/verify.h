/*
 * Verification: what spec 2.6 - 2.9 and 3 demand of the bytes in the buffers, which decoding a
 * descriptor or opening a file does not look at.
 *
 *     HurrayViolation violation;
 *     HurrayStatus status = hurray_verify(fields, buffers, fields->buffer_count, &violation);
 *     if (status == HURRAY_ERR_DATA_INVALID) puts(hurray_error_message());
 *
 * The message says what is wrong, where, and what was expected; `violation` says it in numbers.
 *
 * Checked, in this order, up to the first violation:
 *
 * 1. The layout's own indices and pointers. COO: every index in bounds, no tuple twice, and
 *    strictly increasing order where the layout says so. CSR, CSC, CSF: pointers start at 0, never
 *    decrease and end where they must; coordinates in bounds and strictly increasing within each
 *    slice; in CSF level by level, from the root. Block-paged: the same of seq_ptr, and that pages
 *    in use are in the pool.
 * 2. Quantization parameters: affine scales finite and not 0, NF4 scales finite and not negative,
 *    MXFP scale bytes neither 0x00 nor 0xFF, zero points in the range of the stored type.
 * 3. What an author owes of the statistics section (spec 1.7), an nnz that is the layout's
 *    included.
 *
 * Elements, buffer 0, are never looked at: a tensor carries every bit pattern, those that
 * float8_e8m0 has no value for and unused bits behind the last packed element included. Nor are
 * padding and entries of index and pointer buffers beyond those in use.
 *
 * A dynamic dimension bounds indices only by 2^64 - 1, which no extent reaches. Where the number of
 * pointers depends on it, they must reach nnz somewhere in the buffer, and are checked up to there.
 * Of a private layout only its author can check the data: it is taken to be right.
 *
 * Everything runs in linear time and takes no memory, except that COO tensors which are not in
 * order are searched for duplicates by a radix sort: 32 bytes for each stored element, time
 * proportional to rank * nnz, whatever the data.
 */
#ifndef HURRAY_VERIFY_H
#define HURRAY_VERIFY_H

#include <stdint.h>

#include "descriptor.h"
#include "layout.h"
#include "sparse.h"
#include "status.h"

HURRAY_BEGIN_DECLS

/* Which rule is broken; beside it, what `found` and `expected` of the violation are. */
typedef enum HurrayViolationKind {
    HURRAY_VIOLATION_NONE,
    /* Fewer entries than needed: how many there are; how many there must be at least. */
    HURRAY_VIOLATION_BUFFER_TOO_SMALL,
    /* The first pointer: its value; 0. */
    HURRAY_VIOLATION_POINTER_START,
    /* A pointer: its value; that of the one before it, which is greater. */
    HURRAY_VIOLATION_POINTER_DECREASES,
    /* A pointer: its value; the number of entries there are to point to, which is less. */
    HURRAY_VIOLATION_POINTER_PAST_END,
    /* The last pointer: its value; what it has to be, nnz for one. */
    HURRAY_VIOLATION_POINTER_END,
    /* An index: its value; the extent of its dimension, which it should be below. */
    HURRAY_VIOLATION_INDEX_OUT_OF_BOUNDS,
    /* An index: its value; that of the one before it in its slice, which is not less. In COO: the
     * one before it in its dimension, which is greater while all dimensions before agree. */
    HURRAY_VIOLATION_INDEX_ORDER,
    /* The first entry of a COO tuple: the number of the tuple; that of the tuple it repeats. */
    HURRAY_VIOLATION_DUPLICATE,
    /* An entry of block_table: its value; the number of pages, which it should be below. */
    HURRAY_VIOLATION_PAGE_ID,
    /* A scale: its bits; 0. */
    HURRAY_VIOLATION_SCALE,
    /* A zero point: its value; the nearest that is valid. Both in two's complement of 64 bits. */
    HURRAY_VIOLATION_ZERO_POINT,
    /* The statistics section: nnz of it and of the layout; both 0 for other fields. */
    HURRAY_VIOLATION_STATISTICS
} HurrayViolationKind;

/* "index_out_of_bounds", …; "none"; NULL for a number that is no kind. */
HURRAY_API const char *hurray_violation_name(HurrayViolationKind kind);

typedef struct HurrayViolation {
    HurrayViolationKind kind;
    uint32_t buffer; /* in the buffer table; HURRAY_NO_BUFFER: the fault is in the descriptor */
    /* Which entry of that buffer, from 0; of COO indices, tuple * rank + dimension. Zero points
     * that share a buffer with the scales count from the first zero point. */
    uint64_t position;
    uint64_t found;
    uint64_t expected;
} HurrayViolation;

/*
 * Verifies a tensor: the descriptor itself (see hurray_descriptor_validate, whose errors it gives),
 * then all of the above. `buffers` are the `count` buffers of the table, each of exactly the
 * byte_size that stands there, in memory of this process, at any alignment; nobody may change them
 * meanwhile. Buffer 0 may be {NULL, 0}.
 *
 * HURRAY_ERR_DATA_INVALID for a violation. Then, and only then, `out`, which may be NULL, is
 * written. HURRAY_ERR_UNSUPPORTED for element types, layouts and schemes that only a permissive
 * reader carries; HURRAY_ERR_INVALID_ARGUMENT for buffers of another number or size;
 * HURRAY_ERR_NULL_POINTER, also for a buffer without data that has bytes; HURRAY_ERR_OUT_OF_MEMORY.
 */
HURRAY_API HurrayStatus hurray_verify(const HurrayDescriptorFields *fields,
                                      const HurrayBytes *buffers, uint32_t count,
                                      HurrayViolation *out);

/*
 * Verifies the index buffers of a block-paged layout before there is a tensor, as numbers of this
 * host: seq_ptr has num_seqs + 1 entries, starts at 0, never decreases and ends at exactly
 * `block_table_count`; each entry of block_table is less than num_pages, and than 2^32 where
 * indices are not wide. Errors and `out` as above, buffer 1 being block_table and 2 seq_ptr; one
 * that is too long is a POINTER_END at entry num_seqs, with both lengths. Nothing else in `layout`
 * is looked at.
 */
HURRAY_API HurrayStatus hurray_verify_index_buffers(const HurrayBlockPagedLayout *layout,
                                                    const uint64_t *seq_ptr, uint64_t seq_ptr_count,
                                                    const uint64_t *block_table,
                                                    uint64_t block_table_count,
                                                    HurrayViolation *out);

HURRAY_END_DECLS

#endif
