/* Element offsets of strided layouts and where they lie (include/hurray/address.h, spec 2). */
#include <hurray/address.h>

#include <inttypes.h>

#include "fail.h"
#include "layout.h"

HurrayStatus hurray_address_strides(const HurrayDescriptorFields *fields, int64_t *strides) {
    if (fields == NULL || strides == NULL) return hri_fail_null(fields ? "strides" : "fields");
    const LayoutKind *kind = hri_layout_kind(fields->layout.tag);
    if (kind == NULL || kind->strides == NULL) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED, "layout tag 0x%02X has no strides",
                        fields->layout.tag);
    }
    if (!kind->strides(fields, strides)) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "strides of layout %s are unknown: a dimension is dynamic", kind->name);
    }
    return HURRAY_OK;
}

HurrayStatus hurray_address_offset(const HurrayDescriptorFields *fields, const uint64_t *index,
                                   int64_t *out_offset) {
    if (out_offset == NULL) return hri_fail_null("out_offset");
    int64_t strides[HURRAY_MAX_RANK];
    HurrayStatus status = hurray_address_strides(fields, strides);
    if (status != HURRAY_OK) return status;
    if (index == NULL && fields->rank != 0) return hri_fail_null("index");
    uint64_t offset = 0; /* modulo 2^64: the sum fits i64, its parts need not */
    for (uint32_t k = 0; k < fields->rank; k++) {
        if (index[k] >= fields->shape[k]) {
            return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                            "index[%" PRIu32 "] is %" PRIu64 ", the extent %" PRIu64, k, index[k],
                            fields->shape[k]);
        }
        offset += index[k] * (uint64_t)strides[k];
    }
    *out_offset = (int64_t)offset;
    return HURRAY_OK;
}

HurrayStatus hurray_address_place(const HurrayDescriptorFields *fields, int64_t offset,
                                  HurrayElementPlace *out) {
    if (fields == NULL || out == NULL) return hri_fail_null(fields ? "out" : "fields");
    HurrayPacking packing;
    HurrayStatus status = hurray_packing_of(fields->type_tag, fields->extension_type, &packing);
    if (status != HURRAY_OK) return status;
    int64_t per_group = (int64_t)packing.group_elements;
    int64_t group = offset / per_group, within = offset % per_group;
    if (within < 0) { /* floor division, so that `within` counts upward */
        group -= 1;
        within += per_group;
    }
    uint64_t bit = (uint64_t)within * packing.bits;
    out->byte = fields->byte_offset + (uint64_t)group * packing.group_bytes + bit / 8;
    out->bit = packing.bits < 8 ? (uint32_t)(bit % 8) : 0;
    return HURRAY_OK;
}
