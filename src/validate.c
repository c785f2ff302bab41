/*
 * The rules a descriptor must satisfy (spec 1 – 3), whether it was read, or is about to be written.
 * Parts check themselves where they live; here is what concerns more than one of them.
 */
#include <hurray/device.h>
#include <inttypes.h>

#include "fail.h"
#include "layout.h"
#include "quantization.h"
#include "sections.h"

static HurrayStatus check_type(const HurrayDescriptorFields *fields, HurrayPacking *packing) {
    bool is_private = hurray_element_type_is_private(fields->type_tag);
    if (!is_private && hurray_element_type_from_tag(fields->type_tag) == NULL) {
        return hri_fail(HURRAY_ERR_INVALID_TYPE, "type tag 0x%02X is not an element type",
                        fields->type_tag);
    }
    if (is_private && fields->extension_type == NULL) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "type tag 0x%02X is private and must describe itself: the extension type "
                        "section is missing",
                        fields->type_tag);
    }
    if (!is_private && fields->extension_type != NULL) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "an extension type section beside type tag 0x%02X, which is not a private "
                        "extension",
                        fields->type_tag);
    }
    if (is_private) {
        HurrayStatus status = hurray_extension_type_check(fields->extension_type);
        if (status != HURRAY_OK) return status;
    }
    return hurray_packing_of(fields->type_tag, fields->extension_type, packing);
}

static HurrayStatus check_layout_tag(uint8_t tag, const LayoutKind **out) {
    *out = hri_layout_kind(tag);
    if (*out != NULL) return HURRAY_OK;
    const char *name = hurray_layout_name(tag);
    if (name != NULL) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED, "layout %s (tag 0x%02X) is not supported yet", name,
                        tag);
    }
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "layout tag 0x%02X is not a layout", tag);
}

static HurrayStatus check_shape(const HurrayDescriptorFields *fields, const LayoutKind *kind) {
    if (fields->rank > HURRAY_MAX_RANK) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "rank %" PRIu32 " is greater than %u",
                        fields->rank, HURRAY_MAX_RANK);
    }
    if (fields->shape == NULL && fields->rank != 0) return hri_fail_null("shape");
    if (fields->rank < kind->min_rank || fields->rank > kind->max_rank) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "rank %" PRIu32 " with layout %s; expected %" PRIu32 " … %" PRIu32,
                        fields->rank, kind->name, kind->min_rank, kind->max_rank);
    }
    if (hurray_shape_is_dynamic(fields->shape, fields->rank)) return HURRAY_OK;
    uint64_t count;
    return hurray_shape_count(fields->shape, fields->rank, &count);
}

/* Handles one by one, that they agree about the device, and their number. */
static HurrayStatus check_buffers(const HurrayDescriptorFields *fields, const LayoutKind *kind) {
    uint32_t parameters =
        fields->quantization == NULL ? 0 : hri_quantization_buffer_count(fields->quantization);
    if (fields->buffer_count != kind->buffer_count + parameters) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "buffer count %" PRIu32 "; layout %s has %" PRIu32
                        " and the quantization scheme %" PRIu32,
                        fields->buffer_count, kind->name, kind->buffer_count, parameters);
    }
    if (fields->buffers == NULL && fields->buffer_count != 0) return hri_fail_null("buffers");
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        const HurrayBufferHandle *handle = &fields->buffers[i], *first = &fields->buffers[0];
        HurrayStatus status = hurray_buffer_handle_check(handle);
        if (status != HURRAY_OK) return status;
        if (handle->device_tag != first->device_tag ||
            handle->memory_class != first->memory_class) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "buffer %" PRIu32 " is on device 0x%02X, memory class 0x%02X, but "
                            "buffer 0 on 0x%02X, 0x%02X; all must be on one",
                            i, handle->device_tag, handle->memory_class, first->device_tag,
                            first->memory_class);
        }
    }
    if (fields->byte_offset > fields->buffers[0].byte_size) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "byte_offset %" PRIu64 " is past buffer 0 of %" PRIu64 " bytes",
                        fields->byte_offset, fields->buffers[0].byte_size);
    }
    return HURRAY_OK;
}

static HurrayStatus check_sections(const HurrayDescriptorFields *fields, const LayoutKind *kind) {
    HurrayStatus status = HURRAY_OK;
    if (fields->quantization != NULL) status = hri_quantization_check(fields, kind->buffer_count);
    if (status == HURRAY_OK && fields->shard != NULL) {
        status = hri_shard_check(fields->shard, fields->rank, fields->shape);
    }
    if (status == HURRAY_OK && fields->statistics != NULL) {
        status = hurray_statistics_check(fields->statistics);
    }
    if (status == HURRAY_OK && fields->member != NULL) status = hri_member_check(fields->member);
    return status;
}

/* Everything that does not depend on the buffer table; gives the layout and the packing. */
static HurrayStatus check_form(const HurrayDescriptorFields *fields, const LayoutKind **kind,
                               HurrayPacking *packing) {
    if (fields == NULL) return hri_fail_null("fields");
    HurrayStatus status = check_type(fields, packing);
    if (status == HURRAY_OK) status = check_layout_tag(fields->layout.tag, kind);
    if (status == HURRAY_OK) status = check_shape(fields, *kind);
    if (status == HURRAY_OK && (*kind)->check_fields != NULL) {
        status = (*kind)->check_fields(&fields->layout, fields->rank);
    }
    return status;
}

/* That each of the layout's buffers holds what the shape reaches. */
static HurrayStatus check_sizes(const HurrayDescriptorFields *fields, const LayoutKind *kind,
                                HurrayPacking packing) {
    uint64_t required[HURRAY_MAX_BUFFERS];
    HurrayStatus status = kind->required_bytes(fields, packing, required);
    for (uint32_t i = 0; status == HURRAY_OK && i < kind->buffer_count; i++) {
        if (required[i] > fields->buffers[i].byte_size) {
            status = hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                              "buffer %" PRIu32 " (%s) holds %" PRIu64
                              " bytes; layout %s with this shape and byte_offset %" PRIu64
                              " needs %" PRIu64,
                              i, kind->buffer_roles[i], fields->buffers[i].byte_size, kind->name,
                              fields->byte_offset, required[i]);
        }
    }
    return status;
}

HurrayStatus hurray_descriptor_validate(const HurrayDescriptorFields *fields) {
    HurrayPacking packing;
    const LayoutKind *kind = NULL;
    HurrayStatus status = check_form(fields, &kind, &packing);
    if (status == HURRAY_OK) status = check_buffers(fields, kind);
    if (status == HURRAY_OK) status = check_sections(fields, kind);
    if (status == HURRAY_OK) status = check_sizes(fields, kind, packing);
    return status;
}

HurrayStatus hurray_descriptor_required_bytes(const HurrayDescriptorFields *fields, uint32_t buffer,
                                              uint64_t *out_bytes, const char **out_role) {
    if (out_bytes == NULL) return hri_fail_null("out_bytes");
    HurrayPacking packing;
    const LayoutKind *kind = NULL;
    HurrayStatus status = check_form(fields, &kind, &packing);
    if (status != HURRAY_OK) return status;
    if (buffer >= kind->buffer_count) {
        return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                        "buffer %" PRIu32 " of layout %s, which has %" PRIu32, buffer, kind->name,
                        kind->buffer_count);
    }
    uint64_t required[HURRAY_MAX_BUFFERS];
    status = kind->required_bytes(fields, packing, required);
    if (status != HURRAY_OK) return status;
    *out_bytes = required[buffer];
    if (out_role != NULL) *out_role = kind->buffer_roles[buffer];
    return HURRAY_OK;
}
