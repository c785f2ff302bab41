/*
 * Conversions to and from sparse layouts (spec 2.6 - 2.8): COO, CSR, CSC and CSF of any mode order
 * into one another, into dense tensors, and from them.
 *
 * Elements keep their bits, whatever their type: packed ones, private types and floats with a NaN
 * payload included. Between sparse layouts every stored element stays stored, zeros too. From a
 * dense tensor, an element is stored when its bits are not all zero, so that −0.0 and NaN are, and
 * 0.0 is not. Into a dense one, elements that are not stored become zero bits. Quantization does
 * not change that: where a zero point is not 0, all zero bits still stand for what is not stored.
 *
 * Results are canonical: sorted, without duplicates, COO with is_sorted, buffers of the exact size.
 * A COO tensor that says it is not sorted is sorted on the way. Nothing that is stored is trusted;
 * a whole source is read, so that success means that its indices and pointers are sound.
 *
 * Errors of all functions here: HURRAY_ERR_NULL_POINTER, also for a buffer without data that has
 * bytes; HURRAY_ERR_UNSUPPORTED for a layout on either side that is not of those above (dense means
 * row-major, column-major and strided); HURRAY_ERR_INVALID_LAYOUT for a rank that the target does
 * not have (CSR and CSC: 2, CSF: 3 or more, COO: 1 or more), a mode_order that is no permutation, a
 * dynamic dimension, a buffer that is too small, and stored pointers or indices out of order or
 * there twice; HURRAY_ERR_INDEX_OUT_OF_BOUNDS for a stored index beyond its extent;
 * HURRAY_ERR_OUT_OF_MEMORY. The message names buffer, position and value.
 */
#ifndef HURRAY_CONVERT_SPARSE_H
#define HURRAY_CONVERT_SPARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "descriptor.h"
#include "layout.h"
#include "memory.h"
#include "sparse.h"
#include "status.h"
#include "tensor.h"

HURRAY_BEGIN_DECLS

/* ---- tensors ---- */

/*
 * A readable sparse or dense tensor as a new sparse one on the CPU, in memory of `allocator` (NULL:
 * the default one). `target` says which layout by its tag and, for CSF, mode_order (NULL: dimension
 * 0 first); its other fields are ignored.
 *
 *     HurrayLayout csr = {.tag = HURRAY_LAYOUT_CSR};
 *     status = hurray_tensor_to_sparse(tensor, &csr, NULL, &out);
 *
 * Sections are kept. HURRAY_ERR_UNSUPPORTED for bytes that may not be read here, for quantization
 * schemes with parameters in buffers (all but per-tensor), and for a shard section where the target
 * is CSF.
 */
HURRAY_API HurrayStatus hurray_tensor_to_sparse(const HurrayTensor *tensor,
                                                const HurrayLayout *target,
                                                const HurrayAllocator *allocator,
                                                HurrayTensor **out);

/*
 * A readable sparse tensor as a new dense one, likewise. `target` is row-major, as is NULL, or
 * column-major.
 */
HURRAY_API HurrayStatus hurray_tensor_to_dense(const HurrayTensor *tensor,
                                               const HurrayLayout *target,
                                               const HurrayAllocator *allocator,
                                               HurrayTensor **out);

/* ---- buffers ---- */

/*
 * The same without tensors: first how large the result is, then the result in the caller's memory.
 *
 *     HurraySparseConversion *conversion;
 *     status = hurray_sparse_conversion_create(&fields, buffers, &target, &conversion);
 *     … hurray_sparse_conversion_buffer_size(conversion, i) bytes for each buffer i …
 *     status = hurray_sparse_conversion_fill(conversion, destinations);
 *     hurray_sparse_conversion_destroy(&conversion);
 *
 * `fields` must be valid (see hurray_descriptor_validate), `buffers` are those of its layout,
 * buffer 0 included, at any alignment. Both must outlive the conversion, and the bytes stay as they
 * are.
 */
typedef struct HurraySparseConversion HurraySparseConversion;

/* Looks at the source as far as sizes depend on it: a dense one, or a target of CSF, as a whole. */
HURRAY_API HurrayStatus hurray_sparse_conversion_create(const HurrayDescriptorFields *fields,
                                                        const HurrayBytes *buffers,
                                                        const HurrayLayout *target,
                                                        HurraySparseConversion **out);

/* The layout of the result, complete with nnz; valid as long as the conversion. NULL for NULL. */
HURRAY_API const HurrayLayout *
hurray_sparse_conversion_layout(const HurraySparseConversion *conversion);
/* The number of its buffers; 0 for NULL. */
HURRAY_API uint32_t hurray_sparse_conversion_buffer_count(const HurraySparseConversion *conversion);
/* Bytes of buffer `index`; 0 where there is none such. */
HURRAY_API uint64_t hurray_sparse_conversion_buffer_size(const HurraySparseConversion *conversion,
                                                         uint32_t index);

/*
 * Writes the result: destinations[i] has room for all bytes of buffer i, at any alignment, and
 * overlaps nothing; NULL where there are none. After a failure what they hold is not specified. May
 * be called again.
 */
HURRAY_API HurrayStatus hurray_sparse_conversion_fill(HurraySparseConversion *conversion,
                                                      void *const *destinations);

/* Frees it and sets the pointer to NULL. A pointer to NULL is fine. */
HURRAY_API void hurray_sparse_conversion_destroy(HurraySparseConversion **conversion);

/*
 * Writes a sparse tensor into `destination` as a packed row-major (`target` NULL or of that tag) or
 * column-major one: hurray_packing_size bytes of all elements, unused bits zero. With `is_zeroed`
 * the caller says that these bytes are zero already. HURRAY_ERR_BUFFER_TOO_SMALL, with nothing
 * written, when `capacity` is less. After other failures what is there is not specified. `fields`
 * and `buffers` as above.
 */
HURRAY_API HurrayStatus hurray_sparse_to_dense(const HurrayDescriptorFields *fields,
                                               const HurrayBytes *buffers,
                                               const HurrayLayout *target, bool is_zeroed,
                                               void *destination, uint64_t capacity);

HURRAY_END_DECLS

#endif
