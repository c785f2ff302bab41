/*
 * From one dense layout to another (spec 2.1 – 2.5): row-major, column-major, strided, tiled with
 * tiles in tiles, Morton and Hilbert, each to each. Elements are moved as they are, whatever their
 * type: packed ones of 1, 2, 4 and 6 bits, private ones of any whole number of bytes. What a quantized
 * tensor stores is moved likewise; its parameters do not depend on the layout.
 *
 * Padding is never read. In the destination it is written as zero: the padding of edge tiles and of
 * partial quantization blocks, gaps between strides, unused positions of Morton codes, unused bits. So
 * the same elements always give the same bytes.
 */
#ifndef HURRAY_CONVERT_H
#define HURRAY_CONVERT_H

#include <stdint.h>

#include "descriptor.h"
#include "memory.h"
#include "status.h"
#include "tensor.h"

HURRAY_BEGIN_DECLS

/*
 * Writes the elements that `source` holds as `from` says to `destination` as `to` says. Both point at
 * the beginning of buffer 0, `byte_offset` counts from there, and neither needs any alignment; sizes
 * are in bytes, those of hurray_descriptor_required_bytes at least. The two must not overlap. Buffer
 * tables are not looked at; otherwise fields must be valid, and are the same but for layout and
 * byte_offset (shard, statistics and member sections may differ). Bytes of the destination before its
 * first element and past those required stay as they are.
 *
 * HURRAY_ERR_UNSUPPORTED for layouts that are not dense, for a destination whose strides overlap or
 * interleave (each must be longer than all shorter ones together reach, see hurray_address_index), and
 * for unknown quantization schemes. HURRAY_ERR_INVALID_ARGUMENT when type, shape or scheme differ.
 * HURRAY_ERR_INVALID_LAYOUT for a dynamic dimension or a source too small, or with what validation
 * says. HURRAY_ERR_BUFFER_TOO_SMALL for the destination. HURRAY_ERR_OUT_OF_MEMORY: some hundred KiB may
 * be needed. Nothing has been written then.
 */
HURRAY_API HurrayStatus hurray_convert(const HurrayDescriptorFields *from, const void *source,
                                       uint64_t source_size, const HurrayDescriptorFields *to,
                                       void *destination, uint64_t destination_size);

/*
 * A copy of a readable dense tensor in another dense layout, or in the same, in new memory on the CPU
 * (allocator NULL: the default one): same type, shape, sections and elements. The new buffer is as
 * large as required; byte_offset is the least that the layout allows, 0 unless strides are negative.
 * Buffers of quantization parameters are shared with `tensor`. `layout` is copied:
 *
 *     const uint64_t tile_shape[] = {64, 64, 3};
 *     const HurrayTileLevel level = {.tile_shape = tile_shape,
 *                                    .outer_layout = HURRAY_LAYOUT_ROW_MAJOR,
 *                                    .inner_layout = HURRAY_LAYOUT_ROW_MAJOR};
 *     const HurrayLayout tiles = {.tag = HURRAY_LAYOUT_TILED, .tiled = {1, &level}};
 *     status = hurray_tensor_to_layout(image, &tiles, NULL, &tiled);
 *
 * Errors as above, and HURRAY_ERR_UNSUPPORTED for unreadable bytes.
 */
HURRAY_API HurrayStatus hurray_tensor_to_layout(const HurrayTensor *tensor,
                                                const HurrayLayout *layout,
                                                const HurrayAllocator *allocator,
                                                HurrayTensor **out);

HURRAY_END_DECLS

#endif
