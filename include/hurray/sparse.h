/*
 * Addressing in sparse and block-paged tensors (spec 2.6 - 2.9): where these keep an element is
 * written in buffers of their own, so that finding one means reading them.
 *
 * A tensor comes as its descriptor and the bytes of the layout's own buffers, in their order, at
 * any alignment. Of a HurrayTensor:
 *
 *     HurrayBytes buffers[3];
 *     for (uint32_t i = 0; i < 3; i++) {
 *         const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, i));
 *         buffers[i] = (HurrayBytes){info->data, info->byte_size};
 *     }
 *
 * Nothing read from them is trusted: a pointer, an index or a page id is checked before it is
 * followed. What lies elsewhere is not looked at, so that success does not mean that the tensor as
 * a whole is sound. Buffer 0, the values or the pool, is never read: it may be {NULL, 0}.
 *
 * Errors of all functions here: HURRAY_ERR_UNSUPPORTED for other layouts; HURRAY_ERR_NULL_POINTER,
 * also for a buffer without data that has bytes; HURRAY_ERR_INDEX_OUT_OF_BOUNDS for an index that
 * is out of bounds, the caller's or a stored one; HURRAY_ERR_INVALID_LAYOUT for pointers that do
 * not fit, a buffer that ends too early, or an extent that is dynamic but needed. The message names
 * buffer, position and value. `fields` must be valid (see hurray_descriptor_validate).
 */
#ifndef HURRAY_SPARSE_H
#define HURRAY_SPARSE_H

#include <stdint.h>

#include "descriptor.h"
#include "shape.h"
#include "status.h"

HURRAY_BEGIN_DECLS

/* A buffer as bytes. Entries in it are little-endian. */
typedef struct HurrayBytes {
    const uint8_t *data; /* may be NULL when size is 0 */
    uint64_t size;
} HurrayBytes;

/* A position in the values that there is not. */
#define HURRAY_NOT_STORED UINT64_MAX

/*
 * The position of element `index` (u64[rank]) among the values of a COO, CSR, CSC or CSF tensor;
 * HURRAY_NOT_STORED for one that is not stored, and is therefore zero. Takes O(rank * log nnz)
 * where entries are sorted, as all are but those of a COO tensor that says it is not: there O(rank
 * * nnz). Where one that should be sorted is not, stored elements may be missed.
 */
HURRAY_API HurrayStatus hurray_sparse_find(const HurrayDescriptorFields *fields,
                                           const HurrayBytes *buffers, const uint64_t *index,
                                           uint64_t *out_position);

/*
 * A walk over the stored elements in the order of their values, position 0 … nnz − 1:
 *
 *     HurraySparseCursor cursor;
 *     uint64_t index[HURRAY_MAX_RANK], position;
 *     HurrayStatus status = hurray_sparse_begin(&cursor, fields, buffers);
 *     while (status == HURRAY_OK) {
 *         status = hurray_sparse_next(&cursor, index, &position);
 *         if (status != HURRAY_OK || position == HURRAY_NOT_STORED) break;
 *         …
 *     }
 *
 * It owns nothing; `fields` and `buffers` must outlive it. A walk that reaches the end has seen
 * that every index is in bounds, and every pointer that leads to a value in order. Its fields are
 * its own.
 */
typedef struct HurraySparseCursor {
    const HurrayDescriptorFields *fields;
    const HurrayBytes *buffers;
    uint64_t place[HURRAY_MAX_RANK]; /* at each level of the tree, the entry that comes next, … */
    uint64_t end[HURRAY_MAX_RANK];   /* … and where its siblings end; COO has only place[0] */
} HurraySparseCursor;

HURRAY_API HurrayStatus hurray_sparse_begin(HurraySparseCursor *cursor,
                                            const HurrayDescriptorFields *fields,
                                            const HurrayBytes *buffers);

/*
 * Gives the next stored element, its index (u64[rank]) and position, and steps over it. At the end
 * the position is HURRAY_NOT_STORED, and the index left alone. After a failure the cursor stands
 * still. A whole walk takes time proportional to the buffers.
 */
HURRAY_API HurrayStatus hurray_sparse_next(HurraySparseCursor *cursor, uint64_t *index,
                                           uint64_t *out_position);

/*
 * The number of tokens that the pages of sequence `sequence` have room for, in a block-paged
 * tensor. How many of them are in use is not part of the format. HURRAY_ERR_INVALID_LAYOUT also
 * where that is 2^64 or more.
 */
HURRAY_API HurrayStatus hurray_paged_capacity(const HurrayDescriptorFields *fields,
                                              const HurrayBytes *buffers, uint64_t sequence,
                                              uint64_t *out_tokens);

/*
 * The element offset in the pool of a block-paged tensor, of element `dim` of head `head` of token
 * `token` of sequence `sequence`; hurray_address_place turns it into byte and bit. A token must lie
 * on the pages of its sequence: token < capacity.
 */
HURRAY_API HurrayStatus hurray_paged_offset(const HurrayDescriptorFields *fields,
                                            const HurrayBytes *buffers, uint64_t sequence,
                                            uint64_t token, uint64_t head, uint64_t dim,
                                            int64_t *out_offset);

HURRAY_END_DECLS

#endif
