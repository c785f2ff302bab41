/*
 * The descriptor (spec 1): everything about a tensor but its bytes, in self-delimiting bytes of its
 * own.
 *
 * To write one, fill a HurrayDescriptorFields on the stack and encode it:
 *
 *     uint64_t shape[2] = {3, 4};
 *     HurrayBufferHandle buffer = {.byte_size = 192, .alignment = 64};
 *     HurrayDescriptorFields fields = {
 *         .type_tag = HURRAY_TYPE_FLOAT32, .rank = 2, .shape = shape,
 *         .layout = {HURRAY_LAYOUT_ROW_MAJOR}, .buffer_count = 1, .buffers = &buffer,
 *     };
 *     uint8_t bytes[128];
 *     uintptr_t length;
 *     HurrayStatus status = hurray_descriptor_encode(&fields, bytes, sizeof bytes, &length);
 *
 * To read one, hurray_descriptor_decode gives a handle whose hurray_descriptor_fields are the same
 * struct. Nothing is ever half valid: encode, decode and create check every rule of spec 1 – 3 that
 * concerns a descriptor, down to the reach of each stride.
 */
#ifndef HURRAY_DESCRIPTOR_H
#define HURRAY_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "descriptor_fields.h"
#include "status.h"

HURRAY_BEGIN_DECLS

#define HURRAY_FORMAT_VERSION_MAJOR 1u
#define HURRAY_FORMAT_VERSION_MINOR 0u
#define HURRAY_DESCRIPTOR_MAGIC "HRRY"
/* Bytes that tell how long the descriptor is. */
#define HURRAY_DESCRIPTOR_PREFIX_SIZE 10u
/* Bytes of the fixed header, the least a descriptor_length can be. */
#define HURRAY_DESCRIPTOR_HEADER_SIZE 20u

/* A checked descriptor that owns its fields. Immutable, so any number of threads may read it. */
typedef struct HurrayDescriptor HurrayDescriptor;

/* All rules. The codes are those of spec 7.2; the message names field, value and expectation. */
HURRAY_API HurrayStatus hurray_descriptor_validate(const HurrayDescriptorFields *fields);

/*
 * The least size in bytes of one of the layout's own buffers, so that everything the shape reaches
 * lies inside (spec 2), and what that buffer is for ("data", …; out_role may be NULL). Padding of
 * quantized tensors is counted in; quantization.h says how large buffers of parameters are. The
 * buffer table of `fields` is not looked at. A dynamic dimension leaves only byte_offset known.
 * HURRAY_ERR_INDEX_OUT_OF_BOUNDS past the layout's buffers; else what validate says of the rest.
 */
HURRAY_API HurrayStatus hurray_descriptor_required_bytes(const HurrayDescriptorFields *fields,
                                                         uint32_t buffer, uint64_t *out_bytes,
                                                         const char **out_role);

/*
 * The exact size in bytes of a buffer of quantization parameters (spec 3), `buffer` being its index
 * in the table, and what it holds ("scales", "zero points", "scales and zero points"; out_role may
 * be NULL). HURRAY_UNKNOWN_SIZE where the number of blocks depends on a dynamic dimension. Of the
 * buffer table, only buffer_count is looked at. HURRAY_ERR_INDEX_OUT_OF_BOUNDS for a buffer that
 * holds no parameters, and without quantization; else what validate says of the rest.
 */
HURRAY_API HurrayStatus hurray_descriptor_parameter_bytes(const HurrayDescriptorFields *fields,
                                                          uint32_t buffer, uint64_t *out_bytes,
                                                          const char **out_role);

/*
 * What an author owes beyond what a reader checks (spec 1.7): statistics that
 * hurray_statistics_check_authored accepts, with the nnz of a sparse layout. `fields` must be valid.
 * HURRAY_ERR_INVALID_LAYOUT.
 */
HURRAY_API HurrayStatus hurray_descriptor_check_authored(const HurrayDescriptorFields *fields);

/* Validates, and counts the bytes that encoding takes. */
HURRAY_API HurrayStatus hurray_descriptor_encoded_size(const HurrayDescriptorFields *fields,
                                                       uint64_t *out_bytes);

/*
 * Validates and writes the descriptor, version 1.0, into `bytes`. HURRAY_ERR_BUFFER_TOO_SMALL, with
 * nothing written, when `capacity` is less than hurray_descriptor_encoded_size.
 */
HURRAY_API HurrayStatus hurray_descriptor_encode(const HurrayDescriptorFields *fields,
                                                 uint8_t *bytes, uintptr_t capacity,
                                                 uintptr_t *out_length);

/*
 * Reads the first 10 bytes of a descriptor: its whole length in bytes, at least 20. Needs no more
 * than HURRAY_DESCRIPTOR_PREFIX_SIZE bytes; for streams and skipping.
 */
HURRAY_API HurrayStatus hurray_descriptor_peek_length(const uint8_t *bytes, uintptr_t length,
                                                      uint32_t *out_descriptor_length);

/*
 * Decodes the descriptor that `bytes` begins with; bytes after its own length are ignored. One
 * allocation, proportional to the length. `out` is freed with hurray_descriptor_destroy.
 */
HURRAY_API HurrayStatus hurray_descriptor_decode(const uint8_t *bytes, uintptr_t length,
                                                 HurrayDescriptor **out);

/* What a reader may be told; zero is a strict reader that knows no private layout. */
typedef struct HurrayDecodeOptions {
    /* Accept what the spec marks so: tags that are not assigned (element types, layouts, schemes),
     * private layouts and composition rules, quantized tensors without padding. The data of such
     * tensors is carried, never looked at. */
    bool permissive;
    /* Private layouts that the caller understands, by extension_layout_id. */
    const uint64_t *known_layout_ids;
    uint32_t known_layout_count;
} HurrayDecodeOptions;

/* hurray_descriptor_decode with options (NULL: none). */
HURRAY_API HurrayStatus hurray_descriptor_decode_with(const uint8_t *bytes, uintptr_t length,
                                                      const HurrayDecodeOptions *options,
                                                      HurrayDescriptor **out);

/* Validates `fields` and copies them, arrays and sections included, into a descriptor of its own. */
HURRAY_API HurrayStatus hurray_descriptor_create(const HurrayDescriptorFields *fields,
                                                 HurrayDescriptor **out);

/* HURRAY_ERR_NULL_POINTER for NULL; else frees it. */
HURRAY_API HurrayStatus hurray_descriptor_destroy(HurrayDescriptor *descriptor);

/* The contents; valid as long as the descriptor. NULL for NULL. */
HURRAY_API const HurrayDescriptorFields *
hurray_descriptor_fields(const HurrayDescriptor *descriptor);

/*
 * Whether both would encode to the same bytes. Floats compare by their bits; handles, sections and
 * bytes kept from a quantization section count. NULL equals nothing.
 */
HURRAY_API bool hurray_descriptor_equal(const HurrayDescriptorFields *a,
                                        const HurrayDescriptorFields *b);

/* A hash of valid fields: equal descriptors have equal ones, on every host. */
HURRAY_API uint64_t hurray_descriptor_hash(const HurrayDescriptorFields *fields);

/* Established accessors (spec 7.2). */
HURRAY_API HurrayStatus hurray_descriptor_element_type_tag(const HurrayDescriptor *descriptor,
                                                           uint8_t *out);
HURRAY_API HurrayStatus hurray_descriptor_layout_tag(const HurrayDescriptor *descriptor,
                                                     uint8_t *out);
HURRAY_API HurrayStatus hurray_descriptor_rank(const HurrayDescriptor *descriptor, uint32_t *out);
/*
 * Copies the extents into `out_dims`. `inout_rank` holds the capacity before, the rank after, also
 * when out_dims is NULL or too small: then HURRAY_ERR_BUFFER_TOO_SMALL.
 */
HURRAY_API HurrayStatus hurray_descriptor_shape(const HurrayDescriptor *descriptor,
                                                uint64_t *out_dims, uintptr_t *inout_rank);
HURRAY_API HurrayStatus hurray_descriptor_byte_offset(const HurrayDescriptor *descriptor,
                                                      uint64_t *out);
HURRAY_API HurrayStatus hurray_descriptor_buffer_count(const HurrayDescriptor *descriptor,
                                                       uint32_t *out);

HURRAY_END_DECLS

#endif
