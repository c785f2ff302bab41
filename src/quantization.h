/*
 * The wire form and the rules of the quantization section (spec 3), for the descriptor: one table
 * row per scheme, with its name, tag, size, codec and check.
 */
#ifndef HURRAY_SRC_QUANTIZATION_H
#define HURRAY_SRC_QUANTIZATION_H

#include <hurray/descriptor_fields.h>
#include <hurray/quantization.h>

#include "bytes.h"

/*
 * Reads the section payload that `reader` covers exactly (the u32 length before it was read by the
 * caller). Bytes after the scheme's fields become `trailing`, pointing into the payload. A
 * permissive reader takes a scheme whose tag is not assigned, or private, as it is.
 */
HurrayStatus hri_quantization_decode(ByteReader *reader, bool permissive, HurrayQuantization *out);

/* Bytes of the payload that hri_quantization_encode writes. */
uint32_t hri_quantization_size(const HurrayQuantization *quantization);

/* Writes the payload, without the length before it. The scheme must be known or opaque. */
void hri_quantization_encode(const HurrayQuantization *quantization, ByteWriter *writer);

/* What the parameters must satisfy by themselves: axis and block ranges that no tensor could make
 * right, a scale of 0, a scale type that the scheme does not have. */
HurrayStatus hri_quantization_check_parameters(const HurrayQuantization *quantization);

/*
 * All of spec 3 against the descriptor it stands in: stored type, axis, block size, indices and
 * exact sizes of the parameter buffers. `layout_buffers` is the number of buffers that belong to
 * the layout; parameters come after them. Dynamic dimensions leave unchecked what depends on them.
 */
HurrayStatus hri_quantization_check(const HurrayDescriptorFields *fields, uint32_t layout_buffers);

/*
 * The exact size of buffer `buffer` of the table, which must hold parameters, and what these are;
 * HURRAY_UNKNOWN_SIZE where a dynamic dimension leaves it open. Checks all that
 * hri_quantization_check does but sizes, of a scheme that is known.
 * HURRAY_ERR_INDEX_OUT_OF_BOUNDS for a buffer that holds none.
 */
HurrayStatus hri_quantization_buffer_bytes(const HurrayDescriptorFields *fields,
                                           uint32_t layout_buffers, uint32_t buffer,
                                           uint64_t *out_bytes, const char **out_role);

/* Number of buffers the scheme refers to: 0, 1 or 2 (1 when scales and zero points share one). */
uint32_t hri_quantization_buffer_count(const HurrayQuantization *quantization);

/*
 * The extent that dimension `axis` occupies in row-major and column-major storage: shape[axis], but
 * up to whole blocks where a per-block or NF4 scheme pads that axis. False on overflow.
 */
bool hri_quantization_stored_extent(const HurrayDescriptorFields *fields, uint32_t axis,
                                    uint64_t *out);

/* Whether the scheme is one that a permissive reader carries without knowing it; NULL is not. Then
 * `trailing` is the whole payload after the scheme tag. */
bool hri_quantization_is_opaque(const HurrayQuantization *quantization);

bool hri_quantization_equal(const HurrayQuantization *a, const HurrayQuantization *b);

#endif
