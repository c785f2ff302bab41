/*
 * Taking in dense memory that another library owns, with one rule about sharing and copying
 * (spec 8.5, 8.6), whichever protocol it came by.
 *
 * On the CPU, memory is shared when the lowest address of its elements is 64-aligned, or there are
 * no elements; otherwise the elements are copied into aligned memory. Elements that the format packs
 * below a byte come one per byte and are always copied. On other devices nothing is ever touched: an
 * address that is not 64-aligned is rounded down, and byte_offset makes up for it.
 */
#ifndef HURRAY_ADOPT_H
#define HURRAY_ADOPT_H

#include <stdbool.h>
#include <stdint.h>

#include "buffer.h"
#include "memory.h"
#include "status.h"
#include "tensor.h"

HURRAY_BEGIN_DECLS

/* What to do where memory cannot be shared as it is. */
typedef enum HurrayCopy {
    HURRAY_COPY_IF_NEEDED,
    HURRAY_COPY_NEVER,
    HURRAY_COPY_ALWAYS
} HurrayCopy;

/*
 * A tensor over strided elements in somebody else's memory. `info` says where: `data` is the address
 * of element [0, …, 0] (on a device without addresses, its handle), device, sync mode and flags are
 * taken from it, byte_size and alignment are measured instead. `strides` counts elements, NULL for
 * row-major. Contiguous elements give a row-major tensor, others a strided one.
 *
 * On success `release`, which may be NULL, is taken over: it is called once with `context` and an
 * address of the memory, when the last reference goes, or at once when the elements were copied.
 * HURRAY_ERR_COPY_REQUIRED says what stands in the way of HURRAY_COPY_NEVER, with the alignment
 * measured; HURRAY_ERR_UNSUPPORTED that memory of another device would have to be copied;
 * HURRAY_ERR_BAD_PRODUCER that data is NULL or the strides leave the address space.
 */
HURRAY_API HurrayStatus hurray_tensor_from_strided(
    const HurrayBufferInfo *info, uint8_t type_tag, uint32_t rank, const uint64_t *shape,
    const int64_t *strides, HurrayReleaseCallback release, void *context, HurrayCopy copy,
    const HurrayAllocator *allocator, HurrayTensor **out);

HURRAY_END_DECLS

#endif
