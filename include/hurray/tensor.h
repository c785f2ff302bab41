/*
 * A tensor: a descriptor and the buffers it describes.
 *
 * Immutable and shared by an atomic reference count; what the buffers hold may change, where they
 * are and what the descriptor says may not. Views are tensors that share the buffers.
 */
#ifndef HURRAY_TENSOR_H
#define HURRAY_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "buffer.h"
#include "descriptor.h"
#include "status.h"
#include "verify.h"

HURRAY_BEGIN_DECLS

typedef struct HurrayTensor HurrayTensor;

/*
 * Puts a tensor together. `fields` says everything but the buffer table: fields->buffers is ignored,
 * the handles come from the `fields->buffer_count` buffers themselves. All rules of a descriptor are
 * checked, and that all buffers are on one device. On success the tensor takes over the caller's
 * reference to each buffer; on failure they stay the caller's. Anything `fields` points to is
 * copied.
 */
HURRAY_API HurrayStatus hurray_tensor_create(const HurrayDescriptorFields *fields,
                                             HurrayBuffer *const *buffers, HurrayTensor **out);

/* One more reference; returns its argument. NULL stays NULL. */
HURRAY_API HurrayTensor *hurray_tensor_retain(HurrayTensor *tensor);
/* Drops a reference; the last one drops the buffers. NULL is fine. May be called on any thread. */
HURRAY_API void hurray_tensor_release(HurrayTensor *tensor);

/* The descriptor, with the buffers' handles; valid as long as the tensor. NULL for NULL. */
HURRAY_API const HurrayDescriptorFields *hurray_tensor_fields(const HurrayTensor *tensor);
/* Buffer `index`, borrowed; NULL when there is none such. */
HURRAY_API HurrayBuffer *hurray_tensor_buffer(const HurrayTensor *tensor, uint32_t index);
/* Where all buffers are. */
HURRAY_API HurrayDevice hurray_tensor_device(const HurrayTensor *tensor);
/*
 * Strides in elements, i64[rank]; NULL where the layout has none, a dynamic dimension leaves them
 * unknown, or rank is 0.
 */
HURRAY_API const int64_t *hurray_tensor_strides(const HurrayTensor *tensor);
/* The number of elements; UINT64_MAX while a dimension is dynamic. */
HURRAY_API uint64_t hurray_tensor_count(const HurrayTensor *tensor);
/* Whether any buffer is marked HURRAY_BUFFER_READ_ONLY. */
HURRAY_API bool hurray_tensor_is_read_only(const HurrayTensor *tensor);

/*
 * The address of element [0, …, 0] of a dense tensor on a device with addresses, otherwise that of
 * buffer 0; NULL for an empty tensor. Never dereferenced on other devices than the CPU.
 */
HURRAY_API void *hurray_tensor_data(const HurrayTensor *tensor);

/*
 * Whether the bytes may be read by this process: on the CPU, and producer_synced.
 * HURRAY_ERR_UNSUPPORTED naming the device or the sync mode. Staged bytes count as readable when
 * `staged_too`.
 */
HURRAY_API HurrayStatus hurray_tensor_check_readable(const HurrayTensor *tensor, bool staged_too);

/*
 * hurray_verify of the tensor's descriptor and buffers, which must be readable or staged on the host
 * (else HURRAY_ERR_UNSUPPORTED): whether indices, pointers and scales in them are what they must be.
 */
HURRAY_API HurrayStatus hurray_tensor_verify(const HurrayTensor *tensor, HurrayViolation *out);

/*
 * The view with the two dimensions exchanged, sharing the buffer: row-major <-> column-major, or
 * strided. HURRAY_ERR_INVALID_ARGUMENT unless rank is 2, HURRAY_ERR_UNSUPPORTED for other layouts
 * and for tensors with a shard or quantization section.
 */
HURRAY_API HurrayStatus hurray_tensor_transpose(HurrayTensor *tensor, HurrayTensor **out);

/*
 * The bytes of buffer `index` as a row-major uint8 tensor [byte_size] that shares them.
 * HURRAY_ERR_INDEX_OUT_OF_BOUNDS.
 */
HURRAY_API HurrayStatus hurray_tensor_buffer_view(HurrayTensor *tensor, uint32_t index,
                                                  HurrayTensor **out);

/*
 * The same bytes as elements of another type of the same width, sharing the buffers: what float8
 * needs where only uint8 is spoken, and back. HURRAY_ERR_INVALID_ARGUMENT when widths differ,
 * HURRAY_ERR_INVALID_TYPE for a tag that is not in the table, HURRAY_ERR_UNSUPPORTED for private
 * types and quantized tensors.
 */
HURRAY_API HurrayStatus hurray_tensor_reinterpret(HurrayTensor *tensor, uint8_t type_tag,
                                                  HurrayTensor **out);

/*
 * A row-major copy of a readable row-major, column-major or strided tensor in new memory on the CPU
 * (allocator NULL: the default one): same type, shape and elements, byte_offset 0, sections kept.
 * HURRAY_ERR_UNSUPPORTED for other layouts, quantized tensors and unreadable bytes,
 * HURRAY_ERR_INVALID_LAYOUT for a dynamic dimension, HURRAY_ERR_OUT_OF_MEMORY.
 */
HURRAY_API HurrayStatus hurray_tensor_copy(const HurrayTensor *tensor,
                                           const HurrayAllocator *allocator, HurrayTensor **out);

/*
 * The elements of a readable dense tensor of a 1, 2, 4 or 6-bit type as row-major bytes, one each,
 * into `values` (hurray_tensor_count bytes). Signed integers are sign-extended.
 */
HURRAY_API HurrayStatus hurray_tensor_unpack(const HurrayTensor *tensor, uint8_t *values);

HURRAY_END_DECLS

#endif
