/* From index to offset and back in dense layouts, and where elements lie (include/hurray/address.h,
 * spec 2). */
#include <hurray/address.h>

#include <inttypes.h>

#include "checked.h"
#include "dense.h"
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
        return hri_fail(
            HURRAY_ERR_INVALID_LAYOUT,
            "strides of layout %s are unknown: a dimension is dynamic, or buffer 0 has no "
            "room for the padding of quantization blocks",
            kind->name);
    }
    return HURRAY_OK;
}

static HurrayStatus check_index(const HurrayDescriptorFields *fields, const uint64_t *index) {
    if (index == NULL && fields->rank != 0) return hri_fail_null("index");
    for (uint32_t k = 0; k < fields->rank; k++) {
        if (index[k] >= fields->shape[k]) {
            return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                            "index[%" PRIu32 "] is %" PRIu64 ", the extent %" PRIu64, k, index[k],
                            fields->shape[k]);
        }
    }
    return HURRAY_OK;
}

/* That offsets of this layout are numbers to compute, and known. */
static HurrayStatus check_computed(const HurrayDescriptorFields *fields, const LayoutKind *kind) {
    if (kind == NULL || (kind->strides == NULL && kind->offset == NULL)) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "layout tag 0x%02X is not dense: where its elements lie is in its data",
                        fields->layout.tag);
    }
    if (kind->strides == NULL && hurray_shape_is_dynamic(fields->shape, fields->rank)) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "offsets of layout %s are unknown: a dimension is dynamic", kind->name);
    }
    return HURRAY_OK;
}

/* Σ index[k] · strides[k]. Extents that are dynamic, or bits that fill exabytes, can take it out of
 * the range of i64. */
static HurrayStatus sum_strides(const HurrayDescriptorFields *fields, const uint64_t *index,
                                const int64_t *strides, int64_t *out_offset) {
    uint64_t forward = 0, backward = 0, step;
    bool fits = true;
    for (uint32_t k = 0; k < fields->rank && fits; k++) {
        uint64_t *sum = strides[k] < 0 ? &backward : &forward;
        fits = checked_mul_u64(index[k], magnitude_i64(strides[k]), &step) &&
               checked_add_u64(*sum, step, sum);
    }
    bool is_negative = backward > forward;
    uint64_t distance = is_negative ? backward - forward : forward - backward;
    if (!fits || distance > (uint64_t)INT64_MAX) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "layout %s: the element offset of this index is 2^63 or more",
                        hurray_layout_name(fields->layout.tag));
    }
    *out_offset = is_negative ? -(int64_t)distance : (int64_t)distance;
    return HURRAY_OK;
}

HurrayStatus hurray_address_offset(const HurrayDescriptorFields *fields, const uint64_t *index,
                                   int64_t *out_offset) {
    if (fields == NULL) return hri_fail_null("fields");
    if (out_offset == NULL) return hri_fail_null("out_offset");
    const LayoutKind *kind = hri_layout_kind(fields->layout.tag);
    int64_t strides[HURRAY_MAX_RANK];
    HurrayStatus status = check_computed(fields, kind);
    if (status == HURRAY_OK && kind->strides != NULL) {
        status = hurray_address_strides(fields, strides);
    }
    if (status == HURRAY_OK) status = check_index(fields, index);
    if (status != HURRAY_OK) return status;
    if (kind->strides == NULL) {
        *out_offset = kind->offset(fields, index);
        return HURRAY_OK;
    }
    return sum_strides(fields, index, strides, out_offset);
}

/* Finds the index at an offset where the layout is one of digits; *found tells whether there is. */
static HurrayStatus index_from_digits(const HurrayDescriptorFields *fields, Digit *digits,
                                      uint32_t count, int64_t offset, uint64_t *index,
                                      bool *found) {
    if (!hri_digits_sort(digits, count)) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "layout %s: strides overlap or interleave, so that an offset may belong to "
                        "several indices",
                        hurray_layout_name(fields->layout.tag));
    }
    *found = hri_digits_index(digits, count, fields->rank, offset, index) &&
             hri_index_in_bounds(index, fields->shape, fields->rank);
    return HURRAY_OK;
}

HurrayStatus hurray_address_index(const HurrayDescriptorFields *fields, int64_t offset,
                                  uint64_t *out_index) {
    if (fields == NULL) return hri_fail_null("fields");
    if (out_index == NULL && fields->rank != 0) return hri_fail_null("out_index");
    const LayoutKind *kind = hri_layout_kind(fields->layout.tag);
    HurrayStatus status = check_computed(fields, kind);
    if (status != HURRAY_OK) return status;
    if (hurray_shape_is_dynamic(fields->shape, fields->rank)) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "the elements of layout %s are unknown: a dimension is dynamic",
                        kind->name);
    }
    Digit digits[HRI_MAX_DIGITS];
    uint64_t index[HURRAY_MAX_RANK];
    uint32_t count;
    bool found = false;
    if (hurray_shape_is_empty(fields->shape, fields->rank)) {
        found = false;
    } else if (hri_digits(fields, digits, &count)) {
        status = index_from_digits(fields, digits, count, offset, index, &found);
    } else if (kind->index != NULL) {
        found = offset >= 0 && kind->index(fields, (uint64_t)offset, index);
    }
    if (status != HURRAY_OK) return status;
    if (!found) {
        return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                        "offset %" PRId64 " is not that of an element; layout %s has padding, a "
                        "gap or its end there",
                        offset, kind->name);
    }
    for (uint32_t k = 0; k < fields->rank; k++) out_index[k] = index[k];
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
