/*
 * Layouts of which only somebody else knows what they mean (spec 2.11). Private ones name
 * themselves and carry data of a stated length. A tag that is not assigned tells not even that
 * much: what follows it is kept, whole and unread.
 */
#include <inttypes.h>

#include "fail.h"
#include "layout.h"

/* ---- private ---- */

static HurrayStatus decode_private(ByteReader *reader, uint32_t rank, Arena *arena,
                                   HurrayLayout *out) {
    (void)rank;
    uint64_t id = read_u64(reader);
    uint32_t length = read_u32(reader);
    const uint8_t *data = read_bytes(reader, length);
    if (reader->failed) return HURRAY_OK;
    out->extension.extension_layout_id = id;
    out->extension.extension_data = arena_copy(arena, data, length);
    out->extension.extension_data_length = length;
    return HURRAY_OK;
}

static void encode_private(const HurrayLayout *layout, uint32_t rank, ByteWriter *writer) {
    (void)rank;
    write_u64(writer, layout->extension.extension_layout_id);
    write_u32(writer, layout->extension.extension_data_length);
    write_bytes(writer, layout->extension.extension_data, layout->extension.extension_data_length);
}

static HurrayStatus check_private(const HurrayDescriptorFields *fields) {
    const HurrayPrivateLayout *layout = &fields->layout.extension;
    return layout->extension_data == NULL && layout->extension_data_length != 0
               ? hri_fail_null("layout.extension.extension_data")
               : HURRAY_OK;
}

static bool equal_bytes(const uint8_t *a, const uint8_t *b, uint32_t length) {
    return length == 0 || memcmp(a, b, length) == 0;
}

static bool equal_private(const HurrayLayout *a, const HurrayLayout *b, uint32_t rank) {
    (void)rank;
    const HurrayPrivateLayout *x = &a->extension, *y = &b->extension;
    return x->extension_layout_id == y->extension_layout_id &&
           x->extension_data_length == y->extension_data_length &&
           equal_bytes(x->extension_data, y->extension_data, x->extension_data_length);
}

static size_t footprint_private(const HurrayLayout *layout, uint32_t rank) {
    (void)rank;
    return arena_footprint(layout->extension.extension_data_length);
}

static void copy_private(HurrayLayout *layout, uint32_t rank, Arena *arena) {
    (void)rank;
    layout->extension.extension_data = arena_copy(arena, layout->extension.extension_data,
                                                  layout->extension.extension_data_length);
}

const LayoutKind hri_layout_private = {
    .name = "private",
    .layout_class = HURRAY_LAYOUT_CLASS_UNKNOWN,
    .min_rank = 0,
    .max_rank = HURRAY_MAX_RANK,
    .buffer_count = 1,
    .any_buffer_count = true,
    .decode = decode_private,
    .encode = encode_private,
    .check_fields = check_private,
    .equal = equal_private,
    .footprint = footprint_private,
    .copy = copy_private,
};

/* ---- not assigned ---- */

/* The flags among the bytes that stand before the layout fields, so that they are known (spec
 * 1.2). */
#define HAS_EXTENSION_TYPE 0x04u
#define KNOWN_FLAGS 0x1Fu

static HurrayStatus decode_opaque(ByteReader *reader, uint32_t rank, Arena *arena,
                                  HurrayLayout *out) {
    (void)rank;
    size_t left = reader_left(reader); /* of a descriptor_length, which is a u32 */
    out->opaque.bytes = arena_copy(arena, read_bytes(reader, left), left);
    out->opaque.length = (uint32_t)left;
    return HURRAY_OK;
}

static void encode_opaque(const HurrayLayout *layout, uint32_t rank, ByteWriter *writer) {
    (void)rank;
    write_bytes(writer, layout->opaque.bytes, layout->opaque.length);
}

/* Nobody can tell sections from the rest, so there are none, nor buffers, beside the bytes. */
static HurrayStatus check_opaque(const HurrayDescriptorFields *fields) {
    const HurrayOpaqueLayout *layout = &fields->layout.opaque;
    if (layout->bytes == NULL && layout->length != 0) return hri_fail_null("layout.opaque.bytes");
    if (fields->quantization != NULL || fields->shard != NULL || fields->statistics != NULL ||
        fields->extension_type != NULL || fields->member != NULL) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "a section beside layout tag 0x%02X, which is not assigned; expected it "
                        "within layout.opaque.bytes",
                        fields->layout.tag);
    }
    if ((layout->flags & ~KNOWN_FLAGS) != 0) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "layout.opaque.flags 0x%08" PRIX32
                        " have unknown bits; expected none above bit 4",
                        layout->flags);
    }
    bool has_extension_type = (layout->flags & HAS_EXTENSION_TYPE) != 0;
    if (has_extension_type != hurray_element_type_is_private(fields->type_tag)) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "the extension type flag is %s beside type tag 0x%02X; expected it exactly "
                        "with a private one",
                        has_extension_type ? "set" : "not set", fields->type_tag);
    }
    return HURRAY_OK;
}

static bool equal_opaque(const HurrayLayout *a, const HurrayLayout *b, uint32_t rank) {
    (void)rank;
    return a->opaque.length == b->opaque.length &&
           equal_bytes(a->opaque.bytes, b->opaque.bytes, a->opaque.length);
}

static size_t footprint_opaque(const HurrayLayout *layout, uint32_t rank) {
    (void)rank;
    return arena_footprint(layout->opaque.length);
}

static void copy_opaque(HurrayLayout *layout, uint32_t rank, Arena *arena) {
    (void)rank;
    layout->opaque.bytes = arena_copy(arena, layout->opaque.bytes, layout->opaque.length);
}

const LayoutKind hri_layout_opaque = {
    .name = "unassigned",
    .layout_class = HURRAY_LAYOUT_CLASS_UNKNOWN,
    .min_rank = 0,
    .max_rank = HURRAY_MAX_RANK,
    .decode = decode_opaque,
    .encode = encode_opaque,
    .check_fields = check_opaque,
    .equal = equal_opaque,
    .footprint = footprint_opaque,
    .copy = copy_opaque,
};
