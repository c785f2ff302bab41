/*
 * The fixed parts of a file container (spec 4): where fields stand, and how header and trailer are
 * written. What only reads or only writes is in file_reader.c and file_writer.c.
 */
#ifndef HURRAY_SRC_FILE_FORMAT_H
#define HURRAY_SRC_FILE_FORMAT_H

#include <stdint.h>

#include "bytes.h"

/* Bytes. */
#define HRI_FILE_HEADER_SIZE 64u
#define HRI_FILE_TRAILER_SIZE 40u
#define HRI_FILE_MIN_SIZE (HRI_FILE_HEADER_SIZE + HRI_FILE_TRAILER_SIZE)
/* Descriptors and sections stand at multiples of this. */
#define HRI_FILE_SECTION_ALIGNMENT 8u

#define HRI_FILE_MAGIC "HRRYFILE"
#define HRI_FILE_MAGIC_SIZE 8u
#define HRI_FILE_END_MAGIC "HRRY"
#define HRI_FILE_END_MAGIC_SIZE 4u
#define HRI_FILE_VERSION_MAJOR 1u
#define HRI_FILE_VERSION_MINOR 0u

/* file_flags */
#define HRI_FILE_HAS_KV_METADATA (1u << 0)
#define HRI_FILE_SORTED_INDEX (1u << 1)
#define HRI_FILE_HAS_INDEX_CRC32C (1u << 2)
#define HRI_FILE_KNOWN_FLAGS \
    (HRI_FILE_HAS_KV_METADATA | HRI_FILE_SORTED_INDEX | HRI_FILE_HAS_INDEX_CRC32C)

/* tensor_count_hint where the writer does not know. */
#define HRI_FILE_COUNT_UNKNOWN UINT64_MAX

/* Offsets of fields in the header. */
#define HRI_HEADER_MAGIC 0u
#define HRI_HEADER_VERSION_MAJOR 8u
#define HRI_HEADER_VERSION_MINOR 9u
#define HRI_HEADER_RESERVED_2 10u /* 2 bytes */
#define HRI_HEADER_FLAGS 12u
#define HRI_HEADER_ALIGNMENT 16u
#define HRI_HEADER_FIRST_DESCRIPTOR 20u
#define HRI_HEADER_COUNT_HINT 28u
#define HRI_HEADER_RESERVED_28 36u /* 28 bytes */

/* Offsets of fields in the trailer. */
#define HRI_TRAILER_INDEX_OFFSET 0u
#define HRI_TRAILER_INDEX_LENGTH 8u
#define HRI_TRAILER_KV_OFFSET 16u
#define HRI_TRAILER_KV_LENGTH 24u
#define HRI_TRAILER_INDEX_CRC 28u
#define HRI_TRAILER_RESERVED_4 32u /* 4 bytes */
#define HRI_TRAILER_MAGIC 36u

/* Bytes of the index before its first entry, and of an entry without its name: name_length u16 (the
 * name), descriptor_offset u64, descriptor_length u32, data_offset u64, data_length u64, flags u32. */
#define HRI_INDEX_PREFIX_SIZE 8u
#define HRI_INDEX_ENTRY_SIZE 34u

typedef struct HriFileTrailer {
    uint64_t index_offset, index_length;
    uint64_t kv_offset;
    uint32_t kv_length;
    uint32_t index_crc32c;
} HriFileTrailer;

/* Up to the next multiple of a power of two; the caller has seen that it fits. */
static inline uint64_t hri_file_aligned(uint64_t position, uint64_t alignment) {
    return (position + (alignment - 1)) & ~(alignment - 1);
}

/* The first descriptor follows the header at once. */
static inline void hri_file_header_write(ByteWriter *writer, uint32_t flags, uint32_t alignment,
                                         uint64_t count_hint) {
    write_bytes(writer, HRI_FILE_MAGIC, HRI_FILE_MAGIC_SIZE);
    write_u8(writer, HRI_FILE_VERSION_MAJOR);
    write_u8(writer, HRI_FILE_VERSION_MINOR);
    write_u16(writer, 0);
    write_u32(writer, flags);
    write_u32(writer, alignment);
    write_u64(writer, HRI_FILE_HEADER_SIZE);
    write_u64(writer, count_hint);
    write_zeros(writer, 28);
}

static inline void hri_file_trailer_write(ByteWriter *writer, const HriFileTrailer *trailer) {
    write_u64(writer, trailer->index_offset);
    write_u64(writer, trailer->index_length);
    write_u64(writer, trailer->kv_offset);
    write_u32(writer, trailer->kv_length);
    write_u32(writer, trailer->index_crc32c);
    write_u32(writer, 0);
    write_bytes(writer, HRI_FILE_END_MAGIC, HRI_FILE_END_MAGIC_SIZE);
}

#endif
