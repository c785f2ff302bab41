/*
 * The descriptor as bytes and as an object (include/hurray/descriptor.h, spec 1).
 *
 * Decoding reads the parts into one block, then asks validate.c about the whole. No number from the
 * bytes is used as a size before it was compared with the length that is there.
 */
#include "descriptor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "fail.h"
#include "layout.h"
#include "quantization.h"
#include "sections.h"

enum {
    HAS_QUANTIZATION = 1u << 0,
    HAS_SHARD = 1u << 1,
    HAS_EXTENSION_TYPE = 1u << 2,
    HAS_STATISTICS = 1u << 3,
    HAS_COMPOSITE_MEMBER = 1u << 4,
    KNOWN_FLAGS = (1u << 5) - 1
};

#define HANDLE_WIRE_SIZE 16u
#define LENGTH_PLACE 6u /* in the header */

/* ---- encode ---- */

static uint32_t flags_of(const HurrayDescriptorFields *fields) {
    if (hri_layout_kind_of(fields) == &hri_layout_opaque) return fields->layout.opaque.flags;
    return (fields->quantization != NULL ? (uint32_t)HAS_QUANTIZATION : 0) |
           (fields->shard != NULL ? (uint32_t)HAS_SHARD : 0) |
           (fields->extension_type != NULL ? (uint32_t)HAS_EXTENSION_TYPE : 0) |
           (fields->statistics != NULL ? (uint32_t)HAS_STATISTICS : 0) |
           (fields->member != NULL ? (uint32_t)HAS_COMPOSITE_MEMBER : 0);
}

/* Parts that every descriptor has are put together first, then written at once. */
static void write_header(const HurrayDescriptorFields *fields, ByteWriter *writer) {
    uint8_t raw[HURRAY_DESCRIPTOR_HEADER_SIZE];
    memcpy(raw, HURRAY_DESCRIPTOR_MAGIC, 4);
    raw[4] = HURRAY_FORMAT_VERSION_MAJOR;
    raw[5] = HURRAY_FORMAT_VERSION_MINOR;
    store_u32(raw + LENGTH_PLACE, 0);
    store_u32(raw + 10, flags_of(fields));
    raw[14] = fields->type_tag;
    raw[15] = fields->layout.tag;
    store_u32(raw + 16, fields->rank);
    write_bytes(writer, raw, sizeof raw);
}

static void write_shape(const HurrayDescriptorFields *fields, ByteWriter *writer) {
    uint8_t raw[(HURRAY_MAX_RANK + 1) * 8];
    for (uint32_t k = 0; k < fields->rank; k++) store_u64(raw + 8 * k, fields->shape[k]);
    store_u64(raw + 8 * fields->rank, fields->byte_offset);
    write_bytes(writer, raw, 8 * ((size_t)fields->rank + 1));
}

static void write_handle(const HurrayBufferHandle *handle, ByteWriter *writer) {
    uint8_t raw[HANDLE_WIRE_SIZE];
    store_u64(raw, handle->byte_size);
    store_u32(raw + 8, handle->alignment);
    raw[12] = handle->device_tag;
    raw[13] = handle->sync_mode;
    raw[14] = handle->memory_class;
    raw[15] = 0;
    write_bytes(writer, raw, sizeof raw);
}

static void write_quantization(const HurrayQuantization *quantization, ByteWriter *writer) {
    write_u32(writer, hri_quantization_size(quantization));
    hri_quantization_encode(quantization, writer);
}

static void write_sections(const HurrayDescriptorFields *fields, ByteWriter *writer) {
    if (fields->quantization != NULL) write_quantization(fields->quantization, writer);
    if (fields->shard != NULL) hri_shard_encode(fields->shard, fields->rank, writer);
    if (fields->statistics != NULL) hri_statistics_encode(fields->statistics, writer);
    if (fields->extension_type != NULL) hri_extension_type_encode(fields->extension_type, writer);
    if (fields->member != NULL) hri_member_encode(fields->member, writer);
}

/* Writes valid fields, with 0 for the length that is not known before. */
static void write_descriptor(const HurrayDescriptorFields *fields, ByteWriter *writer) {
    write_header(fields, writer);
    write_shape(fields, writer);
    const LayoutKind *kind = hri_layout_kind_of(fields);
    if (kind->encode != NULL) kind->encode(&fields->layout, fields->rank, writer);
    if (kind == &hri_layout_opaque) return; /* the rest is in it */
    write_u8(writer, (uint8_t)fields->buffer_count);
    for (uint32_t i = 0; i < fields->buffer_count; i++) write_handle(&fields->buffers[i], writer);
    write_sections(fields, writer);
}

HurrayStatus hri_descriptor_write(const HurrayDescriptorFields *fields, uint8_t *bytes,
                                  size_t capacity, uint64_t *out_size) {
    ByteWriter writer = {bytes, capacity, 0, 0};
    write_descriptor(fields, &writer);
    if (writer.position > UINT32_MAX) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "the descriptor would take %" PRIu64
                        " bytes; descriptor_length holds 2^32 − 1",
                        writer.position);
    }
    if (writer.position <= capacity) store_u32(bytes + LENGTH_PLACE, (uint32_t)writer.position);
    *out_size = writer.position;
    return HURRAY_OK;
}

HurrayStatus hurray_descriptor_encoded_size(const HurrayDescriptorFields *fields,
                                            uint64_t *out_bytes) {
    if (out_bytes == NULL) return hri_fail_null("out_bytes");
    HurrayStatus status = hurray_descriptor_validate(fields);
    return status != HURRAY_OK ? status : hri_descriptor_write(fields, NULL, 0, out_bytes);
}

HurrayStatus hurray_descriptor_encode(const HurrayDescriptorFields *fields, uint8_t *bytes,
                                      uintptr_t capacity, uintptr_t *out_length) {
    if (bytes == NULL) return hri_fail_null("bytes");
    if (out_length == NULL) return hri_fail_null("out_length");
    uint8_t usual[HRI_USUAL_DESCRIPTOR_SIZE];
    uint64_t size = 0;
    HurrayStatus status = hurray_descriptor_validate(fields);
    if (status == HURRAY_OK) status = hri_descriptor_write(fields, usual, sizeof usual, &size);
    if (status != HURRAY_OK) return status;
    if (size > capacity) {
        return hri_fail(HURRAY_ERR_BUFFER_TOO_SMALL,
                        "the descriptor takes %" PRIu64 " bytes, there is room for %" PRIu64, size,
                        (uint64_t)capacity);
    }
    if (size <= sizeof usual) {
        memcpy(bytes, usual, (size_t)size);
    } else {
        status = hri_descriptor_write(fields, bytes, capacity, &size);
    }
    *out_length = (uintptr_t)size;
    return status;
}

/* ---- decode ---- */

HurrayStatus hurray_descriptor_peek_length(const uint8_t *bytes, uintptr_t length,
                                           uint32_t *out_descriptor_length) {
    if (bytes == NULL) return hri_fail_null("bytes");
    if (out_descriptor_length == NULL) return hri_fail_null("out_descriptor_length");
    if (length < HURRAY_DESCRIPTOR_PREFIX_SIZE) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "descriptor: %" PRIu64 " bytes, fewer than the %u of its prefix",
                        (uint64_t)length, HURRAY_DESCRIPTOR_PREFIX_SIZE);
    }
    if (memcmp(bytes, HURRAY_DESCRIPTOR_MAGIC, 4) != 0) {
        return hri_fail(HURRAY_ERR_INVALID_MAGIC,
                        "magic is %02X %02X %02X %02X; expected 48 52 52 59 (\"HRRY\")", bytes[0],
                        bytes[1], bytes[2], bytes[3]);
    }
    if (bytes[4] != HURRAY_FORMAT_VERSION_MAJOR) {
        return hri_fail(HURRAY_ERR_VERSION_MISMATCH, "version_major %u; this library reads %u",
                        bytes[4], HURRAY_FORMAT_VERSION_MAJOR);
    }
    uint32_t descriptor_length = load_u32(bytes + 6);
    if (descriptor_length < HURRAY_DESCRIPTOR_HEADER_SIZE) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "descriptor_length %" PRIu32 " is less than the %u of the fixed header",
                        descriptor_length, HURRAY_DESCRIPTOR_HEADER_SIZE);
    }
    *out_descriptor_length = descriptor_length;
    return HURRAY_OK;
}

/*
 * What decides how much memory the rest takes, read once: whoever can write to the bytes may change them
 * on the way, and gets nonsense or an error then, but nothing outside of that memory.
 */
typedef struct Start {
    uint32_t length; /* descriptor_length */
    uint8_t header[HURRAY_DESCRIPTOR_HEADER_SIZE];
} Start;

/* The rest of the fixed header. */
static HurrayStatus read_header(const uint8_t *header, uint32_t *flags,
                                HurrayDescriptorFields *fields) {
    *flags = load_u32(header + 10);
    fields->type_tag = header[14];
    fields->layout.tag = header[15];
    fields->rank = load_u32(header + 16);
    if ((*flags & ~(uint32_t)KNOWN_FLAGS) != 0) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "flags 0x%08" PRIX32 " have unknown bits; expected none above bit 4",
                        *flags);
    }
    if (fields->rank > HURRAY_MAX_RANK) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "rank %" PRIu32 " is greater than %u",
                        fields->rank, HURRAY_MAX_RANK);
    }
    return HURRAY_OK;
}

static HurrayStatus ends_inside(const char *part, const ByteReader *reader) {
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "descriptor_length %zu ends inside the %s",
                    reader->length, part);
}

static HurrayStatus read_shape(ByteReader *reader, Arena *arena, HurrayDescriptorFields *fields) {
    size_t extents = (size_t)fields->rank * 8;
    if (reader_left(reader) < extents + 8) return ends_inside("shape", reader);
    const uint8_t *bytes = read_bytes(reader, extents + 8);
    uint64_t *shape = arena_take(arena, extents);
    for (uint32_t k = 0; k < fields->rank; k++) shape[k] = load_u64(bytes + 8 * k);
    fields->shape = shape;
    fields->byte_offset = load_u64(bytes + extents);
    return HURRAY_OK;
}

static bool is_known_layout(const HurrayPrivateLayout *layout, const HurrayDecodeOptions *options) {
    for (uint32_t i = 0; i < options->known_layout_count; i++) {
        if (options->known_layout_ids[i] == layout->extension_layout_id) return true;
    }
    return options->permissive;
}

static HurrayStatus read_layout(ByteReader *reader, const HurrayDecodeOptions *options,
                                Arena *arena, HurrayDescriptorFields *fields) {
    const LayoutKind *kind = hri_layout_kind_of(fields);
    /* Without a row nobody knows how long the fields are: validation says what is wrong. */
    if (kind == NULL) return hurray_descriptor_validate(fields);
    if (kind->decode == NULL) return HURRAY_OK;
    HurrayStatus status = kind->decode(reader, fields->rank, arena, &fields->layout);
    if (status != HURRAY_OK) return status;
    if (reader->failed) return ends_inside("layout fields", reader);
    if (kind == &hri_layout_private && !is_known_layout(&fields->layout.extension, options)) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "layout tag 0x%02X is private, extension_layout_id %" PRIu64
                        " is not one that this reader was told it knows",
                        fields->layout.tag, fields->layout.extension.extension_layout_id);
    }
    return HURRAY_OK;
}

static HurrayStatus read_buffers(ByteReader *reader, Arena *arena, HurrayDescriptorFields *fields) {
    uint32_t count = read_u8(reader);
    if (reader->failed || reader_left(reader) < (size_t)count * HANDLE_WIRE_SIZE) {
        return ends_inside("buffer table", reader);
    }
    HurrayBufferHandle *handles = arena_take(arena, count * sizeof(HurrayBufferHandle));
    const uint8_t *bytes = read_bytes(reader, (size_t)count * HANDLE_WIRE_SIZE);
    for (uint32_t i = 0; i < count; i++, bytes += HANDLE_WIRE_SIZE) {
        handles[i] = (HurrayBufferHandle){
            .byte_size = load_u64(bytes),
            .alignment = load_u32(bytes + 8),
            .device_tag = bytes[12],
            .sync_mode = bytes[13],
            .memory_class = bytes[14],
        };
        if (bytes[15] != 0) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "buffer %" PRIu32 ": reserved byte is 0x%02X; expected 0", i,
                            bytes[15]);
        }
    }
    fields->buffers = handles;
    fields->buffer_count = count;
    return HURRAY_OK;
}

static HurrayStatus read_quantization(ByteReader *reader, Arena *arena,
                                      struct HurrayDescriptor *out) {
    bool permissive = out->fields.permissive;
    uint32_t length = read_u32(reader);
    const uint8_t *payload = read_bytes(reader, length);
    if (payload == NULL) return ends_inside("quantization section", reader);
    ByteReader section = {payload, length, 0, false};
    HurrayStatus status = hri_quantization_decode(&section, permissive, &out->quantization);
    if (status != HURRAY_OK) return status;
    out->quantization.trailing =
        arena_copy(arena, out->quantization.trailing, out->quantization.trailing_size);
    out->fields.quantization = &out->quantization;
    return HURRAY_OK;
}

static HurrayStatus read_shard(ByteReader *reader, Arena *arena, struct HurrayDescriptor *out) {
    uint32_t rank = out->fields.rank;
    if (reader_left(reader) < (size_t)rank * 16) return ends_inside("shard section", reader);
    uint64_t *parent_shape = arena_take(arena, (size_t)rank * sizeof(uint64_t));
    uint64_t *shard_offset = arena_take(arena, (size_t)rank * sizeof(uint64_t));
    out->fields.shard = &out->shard;
    return hri_shard_decode(reader, rank, parent_shape, shard_offset, &out->shard);
}

/* In the order of spec 1.7, which is not the order of the flag bits. */
static HurrayStatus read_sections(ByteReader *reader, uint32_t flags, Arena *arena,
                                  struct HurrayDescriptor *out) {
    HurrayStatus status = HURRAY_OK;
    if ((flags & HAS_QUANTIZATION) != 0) status = read_quantization(reader, arena, out);
    if (status == HURRAY_OK && (flags & HAS_SHARD) != 0) status = read_shard(reader, arena, out);
    if (status == HURRAY_OK && (flags & HAS_STATISTICS) != 0) {
        out->fields.statistics = &out->statistics;
        status = hri_statistics_decode(reader, &out->statistics);
    }
    if (status == HURRAY_OK && (flags & HAS_EXTENSION_TYPE) != 0) {
        out->fields.extension_type = &out->extension_type;
        status = hri_extension_type_decode(reader, &out->extension_type);
    }
    if (status == HURRAY_OK && (flags & HAS_COMPOSITE_MEMBER) != 0) {
        out->fields.member = &out->member;
        status = hri_member_decode(reader, &out->member);
    }
    return status;
}

/* A greater minor version may have appended parts that we skip (spec 1.9); ours has not. */
static HurrayStatus check_end(const ByteReader *reader) {
    if (reader->failed) return ends_inside("last section", reader);
    uint8_t minor = reader->bytes[5];
    if (reader_left(reader) != 0 && minor <= HURRAY_FORMAT_VERSION_MINOR) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "descriptor_length %zu, but its parts end at byte %zu", reader->length,
                        reader->position);
    }
    return HURRAY_OK;
}

/* Of the bytes that check_start has looked at. */
static HurrayStatus read_descriptor(const uint8_t *bytes, const Start *start,
                                    const HurrayDecodeOptions *options, Arena *arena,
                                    struct HurrayDescriptor *out) {
    uint32_t flags = 0;
    ByteReader whole = {bytes, start->length, HURRAY_DESCRIPTOR_HEADER_SIZE, false};
    ByteReader *reader = &whole;
    HurrayDescriptorFields *fields = &out->fields;
    fields->permissive = options->permissive;
    HurrayStatus status = read_header(start->header, &flags, fields);
    if (status == HURRAY_OK) status = read_shape(reader, arena, fields);
    if (status == HURRAY_OK) status = read_layout(reader, options, arena, fields);
    if (status == HURRAY_OK && hri_layout_kind_of(fields) == &hri_layout_opaque) {
        fields->layout.opaque.flags = flags; /* everything to the end was taken as it is */
        return hurray_descriptor_validate(fields);
    }
    if (status == HURRAY_OK) status = read_buffers(reader, arena, fields);
    if (status == HURRAY_OK) status = read_sections(reader, flags, arena, out);
    if (status == HURRAY_OK) status = check_end(reader);
    if (status == HURRAY_OK) status = hurray_descriptor_validate(fields);
    return status;
}

/* A block for a descriptor and an arena behind it. */
static struct HurrayDescriptor *allocate(size_t arena_bytes, Arena *arena) {
    size_t head = arena_footprint(sizeof(struct HurrayDescriptor));
    struct HurrayDescriptor *descriptor = malloc(head + arena_bytes);
    if (descriptor == NULL) {
        hri_fail_memory(head + arena_bytes);
        return NULL;
    }
    memset(descriptor, 0, sizeof *descriptor);
    arena->next = (uint8_t *)descriptor + head;
    arena->end = arena->next + arena_bytes;
    return descriptor;
}

/*
 * Every array in memory is as long as on the wire, so the wire length bounds the arena, but for two
 * things: each array (shape, buffers, that of the layout, trailing bytes, two of the shard) may need
 * rounding up, and a layout may hold more than it reads.
 */
#define MAX_ARRAYS 6u

static size_t arena_of(const Start *start) {
    const LayoutKind *kind = hri_layout_kind(start->header[15]);
    return start->length + MAX_ARRAYS * ARENA_ALIGNMENT + (kind == NULL ? 0 : kind->more_arena);
}

HurrayStatus hurray_descriptor_decode(const uint8_t *bytes, uintptr_t length,
                                      HurrayDescriptor **out) {
    return hurray_descriptor_decode_with(bytes, length, NULL, out);
}

/* What must be so before anything is read into memory. */
static HurrayStatus check_start(const uint8_t *bytes, uintptr_t length,
                                const HurrayDecodeOptions *options, Start *out) {
    if (options->known_layout_ids == NULL && options->known_layout_count != 0) {
        return hri_fail_null("options.known_layout_ids");
    }
    HurrayStatus status = hurray_descriptor_peek_length(bytes, length, &out->length);
    if (status != HURRAY_OK) return status;
    if (out->length > length) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "descriptor_length %" PRIu32 ", but there are only %" PRIu64 " bytes",
                        out->length, (uint64_t)length);
    }
    memcpy(out->header, bytes, sizeof out->header);
    return HURRAY_OK;
}

static const HurrayDecodeOptions strict = {false, NULL, 0};

HurrayStatus hurray_descriptor_decode_with(const uint8_t *bytes, uintptr_t length,
                                           const HurrayDecodeOptions *options,
                                           HurrayDescriptor **out) {
    if (out == NULL) return hri_fail_null("out");
    if (options == NULL) options = &strict;
    Start start;
    HurrayStatus status = check_start(bytes, length, options, &start);
    if (status != HURRAY_OK) return status;
    Arena arena;
    HurrayDescriptor *descriptor = allocate(arena_of(&start), &arena);
    if (descriptor == NULL) return HURRAY_ERR_OUT_OF_MEMORY;
    status = read_descriptor(bytes, &start, options, &arena, descriptor);
    if (status != HURRAY_OK) {
        free(descriptor);
        return status;
    }
    *out = descriptor;
    return HURRAY_OK;
}

HurrayStatus hri_descriptor_decode_scratch(const uint8_t *bytes, uintptr_t length,
                                           const HurrayDecodeOptions *options,
                                           DescriptorScratch *scratch,
                                           const HurrayDescriptorFields **out) {
    if (options == NULL) options = &strict;
    Start start;
    HurrayStatus status = check_start(bytes, length, options, &start);
    if (status != HURRAY_OK) return status;
    scratch->block = NULL;
    if (arena_of(&start) > sizeof scratch->arena) {
        status = hurray_descriptor_decode_with(bytes, length, options, &scratch->block);
        if (status == HURRAY_OK) *out = &scratch->block->fields;
        return status;
    }
    memset(&scratch->descriptor, 0, sizeof scratch->descriptor);
    Arena arena = {(uint8_t *)scratch->arena, (uint8_t *)scratch->arena + sizeof scratch->arena};
    status = read_descriptor(bytes, &start, options, &arena, &scratch->descriptor);
    if (status == HURRAY_OK) *out = &scratch->descriptor.fields;
    return status;
}

void hri_descriptor_scratch_free(DescriptorScratch *scratch) { free(scratch->block); }

/* ---- objects ---- */

size_t hri_descriptor_footprint(const HurrayDescriptorFields *fields) {
    size_t rank_bytes = (size_t)fields->rank * sizeof(uint64_t);
    size_t bytes = arena_footprint(rank_bytes) +
                   arena_footprint(fields->buffer_count * sizeof(HurrayBufferHandle));
    const LayoutKind *kind = hri_layout_kind_of(fields);
    if (kind->footprint != NULL) bytes += kind->footprint(&fields->layout, fields->rank);
    if (fields->quantization != NULL) {
        bytes += arena_footprint(fields->quantization->trailing_size);
    }
    if (fields->shard != NULL) bytes += 2 * arena_footprint(rank_bytes);
    return bytes;
}

void hri_descriptor_copy(const HurrayDescriptorFields *fields, Arena *arena,
                         struct HurrayDescriptor *out) {
    size_t rank_bytes = (size_t)fields->rank * sizeof(uint64_t);
    HurrayDescriptorFields *copy = &out->fields;
    *copy = *fields;
    copy->shape = arena_copy(arena, fields->shape, rank_bytes);
    copy->buffers =
        arena_copy(arena, fields->buffers, fields->buffer_count * sizeof(HurrayBufferHandle));
    const LayoutKind *kind = hri_layout_kind_of(fields);
    if (kind->copy != NULL) kind->copy(&copy->layout, fields->rank, arena);
    if (fields->quantization != NULL) {
        out->quantization = *fields->quantization;
        out->quantization.trailing =
            arena_copy(arena, fields->quantization->trailing, fields->quantization->trailing_size);
        copy->quantization = &out->quantization;
    }
    if (fields->shard != NULL) {
        out->shard.parent_shape = arena_copy(arena, fields->shard->parent_shape, rank_bytes);
        out->shard.shard_offset = arena_copy(arena, fields->shard->shard_offset, rank_bytes);
        copy->shard = &out->shard;
    }
    if (fields->statistics != NULL) {
        out->statistics = *fields->statistics;
        copy->statistics = &out->statistics;
    }
    if (fields->extension_type != NULL) {
        out->extension_type = *fields->extension_type;
        copy->extension_type = &out->extension_type;
    }
    if (fields->member != NULL) {
        out->member = *fields->member;
        copy->member = &out->member;
    }
}

HurrayStatus hurray_descriptor_create(const HurrayDescriptorFields *fields,
                                      HurrayDescriptor **out) {
    if (out == NULL) return hri_fail_null("out");
    HurrayStatus status = hurray_descriptor_validate(fields);
    if (status != HURRAY_OK) return status;
    Arena arena;
    HurrayDescriptor *descriptor = allocate(hri_descriptor_footprint(fields), &arena);
    if (descriptor == NULL) return HURRAY_ERR_OUT_OF_MEMORY;
    hri_descriptor_copy(fields, &arena, descriptor);
    *out = descriptor;
    return HURRAY_OK;
}

HurrayStatus hurray_descriptor_destroy(HurrayDescriptor *descriptor) {
    if (descriptor == NULL) return hri_fail_null("descriptor");
    free(descriptor);
    return HURRAY_OK;
}

const HurrayDescriptorFields *hurray_descriptor_fields(const HurrayDescriptor *descriptor) {
    return descriptor == NULL ? NULL : &descriptor->fields;
}

/* ---- comparison ---- */

static bool equal_handles(const HurrayDescriptorFields *a, const HurrayDescriptorFields *b) {
    for (uint32_t i = 0; i < a->buffer_count; i++) {
        const HurrayBufferHandle *x = &a->buffers[i], *y = &b->buffers[i];
        if (x->byte_size != y->byte_size || x->alignment != y->alignment ||
            x->device_tag != y->device_tag || x->sync_mode != y->sync_mode ||
            x->memory_class != y->memory_class) {
            return false;
        }
    }
    return true;
}

static bool equal_layouts(const HurrayDescriptorFields *a, const HurrayDescriptorFields *b) {
    const LayoutKind *kind = hri_layout_kind_of(a);
    return kind != NULL && kind == hri_layout_kind_of(b) &&
           (kind->equal == NULL || kind->equal(&a->layout, &b->layout, a->rank));
}

static bool equal_sections(const HurrayDescriptorFields *a, const HurrayDescriptorFields *b) {
    return flags_of(a) == flags_of(b) &&
           (a->quantization == NULL || hri_quantization_equal(a->quantization, b->quantization)) &&
           (a->shard == NULL || hri_shard_equal(a->shard, b->shard, a->rank)) &&
           (a->statistics == NULL || hri_statistics_equal(a->statistics, b->statistics)) &&
           (a->extension_type == NULL ||
            hri_extension_type_equal(a->extension_type, b->extension_type)) &&
           (a->member == NULL || a->member->role == b->member->role);
}

bool hurray_descriptor_equal(const HurrayDescriptorFields *a, const HurrayDescriptorFields *b) {
    if (a == NULL || b == NULL) return false;
    return a->type_tag == b->type_tag && a->layout.tag == b->layout.tag && a->rank == b->rank &&
           a->byte_offset == b->byte_offset && a->buffer_count == b->buffer_count &&
           (a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof(uint64_t)) == 0) &&
           equal_layouts(a, b) && equal_handles(a, b) && equal_sections(a, b);
}

/* FNV-1a over the encoding, byte by byte. Strong enough for a hash table, and the same everywhere. */
uint64_t hurray_descriptor_hash(const HurrayDescriptorFields *fields) {
    if (fields == NULL) return 0;
    ByteWriter hasher = {NULL, 0, 0, UINT64_C(0xCBF29CE484222325)};
    write_descriptor(fields, &hasher);
    return hasher.hash;
}

/* ---- established accessors ---- */

HurrayStatus hurray_descriptor_element_type_tag(const HurrayDescriptor *descriptor, uint8_t *out) {
    if (descriptor == NULL || out == NULL) return hri_fail_null(out ? "descriptor" : "out");
    *out = descriptor->fields.type_tag;
    return HURRAY_OK;
}

HurrayStatus hurray_descriptor_layout_tag(const HurrayDescriptor *descriptor, uint8_t *out) {
    if (descriptor == NULL || out == NULL) return hri_fail_null(out ? "descriptor" : "out");
    *out = descriptor->fields.layout.tag;
    return HURRAY_OK;
}

HurrayStatus hurray_descriptor_rank(const HurrayDescriptor *descriptor, uint32_t *out) {
    if (descriptor == NULL || out == NULL) return hri_fail_null(out ? "descriptor" : "out");
    *out = descriptor->fields.rank;
    return HURRAY_OK;
}

HurrayStatus hurray_descriptor_shape(const HurrayDescriptor *descriptor, uint64_t *out_dims,
                                     uintptr_t *inout_rank) {
    if (descriptor == NULL || inout_rank == NULL) {
        return hri_fail_null(inout_rank ? "descriptor" : "inout_rank");
    }
    uintptr_t capacity = *inout_rank;
    uint32_t rank = descriptor->fields.rank;
    *inout_rank = rank;
    if (rank != 0 && (out_dims == NULL || capacity < rank)) {
        return hri_fail(HURRAY_ERR_BUFFER_TOO_SMALL,
                        "out_dims has room for %" PRIu64 " extents; the rank is %" PRIu32,
                        out_dims == NULL ? 0 : (uint64_t)capacity, rank);
    }
    if (rank != 0) memcpy(out_dims, descriptor->fields.shape, rank * sizeof(uint64_t));
    return HURRAY_OK;
}

HurrayStatus hurray_descriptor_byte_offset(const HurrayDescriptor *descriptor, uint64_t *out) {
    if (descriptor == NULL || out == NULL) return hri_fail_null(out ? "descriptor" : "out");
    *out = descriptor->fields.byte_offset;
    return HURRAY_OK;
}

HurrayStatus hurray_descriptor_buffer_count(const HurrayDescriptor *descriptor, uint32_t *out) {
    if (descriptor == NULL || out == NULL) return hri_fail_null(out ? "descriptor" : "out");
    *out = descriptor->fields.buffer_count;
    return HURRAY_OK;
}
