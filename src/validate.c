/*
 * The rules a descriptor must satisfy (spec 1 – 3), whether it was read, or is about to be written.
 * Parts check themselves where they live; here is what concerns more than one of them.
 */
#include <hurray/descriptor.h>
#include <hurray/device.h>
#include <inttypes.h>

#include "fail.h"
#include "layout.h"
#include "quantization.h"
#include "sections.h"

/* A permissive reader carries elements of a type it does not know. */
static bool is_carried_type(const HurrayDescriptorFields *fields) {
    return fields->permissive && hurray_element_type_is_reserved(fields->type_tag);
}

static HurrayStatus check_type(const HurrayDescriptorFields *fields, HurrayPacking *packing) {
    /* Elements of unknown width count as 0 bytes: what does not depend on it is checked. */
    *packing = (HurrayPacking){.bits = 0, .group_elements = 1, .group_bytes = 0};
    bool is_private = hurray_element_type_is_private(fields->type_tag);
    const HurrayElementType *known = hurray_element_type_from_tag(fields->type_tag);
    if (known != NULL && fields->extension_type == NULL) { /* nearly always */
        return hurray_packing_from_bits(known->bits, packing);
    }
    bool is_known = known != NULL;
    if (!is_private && !is_known && !is_carried_type(fields)) {
        return hri_fail(HURRAY_ERR_INVALID_TYPE, "type tag 0x%02X is not an element type",
                        fields->type_tag);
    }
    if (!is_private && fields->extension_type != NULL) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "an extension type section beside type tag 0x%02X, which is not a private "
                        "extension",
                        fields->type_tag);
    }
    if (is_private && fields->extension_type == NULL) {
        /* Behind an opaque layout nobody can find the section. */
        if (hri_layout_kind_of(fields) == &hri_layout_opaque) return HURRAY_OK;
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "type tag 0x%02X is private and must describe itself: the extension type "
                        "section is missing",
                        fields->type_tag);
    }
    HurrayStatus status = HURRAY_OK;
    if (is_private) status = hurray_extension_type_check(fields->extension_type);
    if (status == HURRAY_OK && (is_private || is_known)) {
        status = hurray_packing_of(fields->type_tag, fields->extension_type, packing);
    }
    return status;
}

static HurrayStatus check_layout_tag(const HurrayDescriptorFields *fields, const LayoutKind **out) {
    *out = hri_layout_kind_of(fields);
    if (*out != NULL) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                    hurray_layout_tag_kind(fields->layout.tag) == HURRAY_LAYOUT_TAG_INVALID
                        ? "layout tag 0x%02X is invalid"
                        : "layout tag 0x%02X is not assigned",
                    fields->layout.tag);
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

static HurrayStatus check_buffer_count(const HurrayDescriptorFields *fields,
                                       const LayoutKind *kind) {
    uint32_t own = hri_layout_buffer_count(kind, fields->rank);
    uint32_t parameters =
        fields->quantization == NULL ? 0 : hri_quantization_buffer_count(fields->quantization);
    bool open_ended = kind->any_buffer_count || hri_quantization_is_opaque(fields->quantization);
    if (fields->buffer_count > HURRAY_MAX_BUFFERS) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "buffer count %" PRIu32 " is greater than %u",
                        fields->buffer_count, HURRAY_MAX_BUFFERS);
    }
    if (open_ended ? fields->buffer_count < own + parameters
                   : fields->buffer_count != own + parameters) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "buffer count %" PRIu32 "; layout %s has %s%" PRIu32
                        " and the quantization scheme %" PRIu32,
                        fields->buffer_count, kind->name, open_ended ? "at least " : "", own,
                        parameters);
    }
    return HURRAY_OK;
}

/* Whether a handle differs from one that was found right in nothing but a size that is no less
 * allowed. */
static bool is_alike(const HurrayBufferHandle *handle, const HurrayBufferHandle *right) {
    return handle->alignment == right->alignment && handle->device_tag == right->device_tag &&
           handle->sync_mode == right->sync_mode && handle->memory_class == right->memory_class &&
           (handle->byte_size == 0 || right->byte_size != 0);
}

/* One by one, and that all are in the same place. */
static HurrayStatus check_handles(const HurrayDescriptorFields *fields) {
    if (fields->buffers == NULL && fields->buffer_count != 0) return hri_fail_null("buffers");
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        const HurrayBufferHandle *handle = &fields->buffers[i], *first = &fields->buffers[0];
        if (i != 0 && is_alike(handle, first)) continue;
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
    return HURRAY_OK;
}

static HurrayStatus check_byte_offset(const HurrayDescriptorFields *fields,
                                      const LayoutKind *kind) {
    if (kind->offset_is_zero && fields->byte_offset != 0) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "byte_offset %" PRIu64 " with layout %s; expected 0", fields->byte_offset,
                        kind->name);
    }
    if (fields->buffer_count != 0 && fields->byte_offset > fields->buffers[0].byte_size) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "byte_offset %" PRIu64 " is past buffer 0 of %" PRIu64 " bytes",
                        fields->byte_offset, fields->buffers[0].byte_size);
    }
    return HURRAY_OK;
}

static HurrayStatus check_buffers(const HurrayDescriptorFields *fields, const LayoutKind *kind) {
    HurrayStatus status = check_buffer_count(fields, kind);
    if (status == HURRAY_OK) status = check_handles(fields);
    if (status == HURRAY_OK) status = check_byte_offset(fields, kind);
    return status;
}

static HurrayStatus check_sections(const HurrayDescriptorFields *fields, const LayoutKind *kind) {
    HurrayStatus status = HURRAY_OK;
    if (fields->quantization != NULL) {
        status = hri_quantization_check(fields, hri_layout_buffer_count(kind, fields->rank));
    }
    if (status == HURRAY_OK && fields->shard != NULL && kind->no_shard) {
        status = hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                          "a shard section with layout %s, which has none", kind->name);
    }
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
    if (status == HURRAY_OK) status = check_layout_tag(fields, kind);
    if (status == HURRAY_OK) status = check_shape(fields, *kind);
    if (status == HURRAY_OK && (*kind)->check_fields != NULL) {
        status = (*kind)->check_fields(fields);
    }
    return status;
}

/* That each of the layout's buffers holds what the shape reaches. */
static HurrayStatus check_sizes(const HurrayDescriptorFields *fields, const LayoutKind *kind,
                                HurrayPacking packing) {
    if (kind->required_bytes == NULL) return HURRAY_OK;
    uint64_t required[HURRAY_MAX_BUFFERS];
    uint32_t count = hri_layout_buffer_count(kind, fields->rank);
    HurrayStatus status = kind->required_bytes(fields, packing, required);
    for (uint32_t i = 0; status == HURRAY_OK && i < count; i++) {
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
    uint32_t count = hri_layout_buffer_count(kind, fields->rank);
    if (buffer >= count || kind->required_bytes == NULL) {
        return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                        "buffer %" PRIu32 " of layout %s, which has %" PRIu32 " of known size",
                        buffer, kind->name, kind->required_bytes == NULL ? 0 : count);
    }
    if (packing.bits == 0) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED, "the width of type tag 0x%02X is not known",
                        fields->type_tag);
    }
    uint64_t required[HURRAY_MAX_BUFFERS];
    status = kind->required_bytes(fields, packing, required);
    if (status != HURRAY_OK) return status;
    *out_bytes = required[buffer];
    if (out_role != NULL) *out_role = kind->buffer_roles[buffer];
    return HURRAY_OK;
}

HurrayStatus hurray_descriptor_parameter_bytes(const HurrayDescriptorFields *fields,
                                               uint32_t buffer, uint64_t *out_bytes,
                                               const char **out_role) {
    if (out_bytes == NULL) return hri_fail_null("out_bytes");
    HurrayPacking packing;
    const LayoutKind *kind = NULL;
    HurrayStatus status = check_form(fields, &kind, &packing);
    if (status == HURRAY_OK) status = check_buffer_count(fields, kind);
    if (status != HURRAY_OK) return status;
    if (fields->quantization == NULL) {
        return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                        "buffer %" PRIu32 " of a tensor that is not quantized", buffer);
    }
    const char *role = NULL;
    uint32_t own = hri_layout_buffer_count(kind, fields->rank);
    status = hri_quantization_buffer_bytes(fields, own, buffer, out_bytes, &role);
    if (status == HURRAY_OK && out_role != NULL) *out_role = role;
    return status;
}

HurrayStatus hurray_descriptor_check_authored(const HurrayDescriptorFields *fields) {
    if (fields == NULL) return hri_fail_null("fields");
    const HurrayStatistics *statistics = fields->statistics;
    if (statistics == NULL) return HURRAY_OK;
    HurrayStatus status = hurray_statistics_check_authored(statistics);
    if (status != HURRAY_OK) return status;
    if ((statistics->computed_mask & HURRAY_STATISTICS_NNZ) == 0 ||
        hurray_layout_class(fields->layout.tag) != HURRAY_LAYOUT_CLASS_SPARSE ||
        statistics->nnz == fields->layout.sparse.nnz) {
        return HURRAY_OK;
    }
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                    "statistics: nnz is %" PRIu64 "; expected that of the layout, %" PRIu64,
                    statistics->nnz, fields->layout.sparse.nnz);
}
