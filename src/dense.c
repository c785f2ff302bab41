/* Reach and digits of dense layouts (dense.h). */
#include "dense.h"

#include <inttypes.h>
#include <string.h>

#include "checked.h"
#include "fail.h"
#include "layout.h"

HurrayStatus hri_reach_bytes(const HurrayDescriptorFields *fields, HurrayPacking packing,
                             const char *layout_name, uint64_t before, uint64_t after,
                             uint64_t *out_bytes) {
    uint64_t bytes_before, groups_after, bytes_after;
    /* Element −before lies in the group that begins this many bytes before byte_offset. */
    HurrayStatus status = hurray_packing_size(packing, before, &bytes_before);
    if (status != HURRAY_OK) return status;
    if (bytes_before > fields->byte_offset) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "%s layout: strides reach %" PRIu64 " bytes before byte_offset %" PRIu64
                        ", outside buffer 0",
                        layout_name, bytes_before, fields->byte_offset);
    }
    if (!checked_add_u64(after / packing.group_elements, 1, &groups_after) ||
        !checked_mul_u64(groups_after, packing.group_bytes, &bytes_after) ||
        !checked_add_u64(bytes_after, fields->byte_offset, out_bytes)) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "%s layout: elements reach %" PRIu64 " past byte_offset %" PRIu64
                        ", beyond 2^64 bytes",
                        layout_name, after, fields->byte_offset);
    }
    return HURRAY_OK;
}

static uint32_t stride_digits(const HurrayDescriptorFields *fields, const int64_t *strides,
                              Digit *digits) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < fields->rank; k++) {
        if (fields->shape[k] < 2) continue;
        digits[count++] = (Digit){.extent = fields->shape[k],
                                  .step = magnitude_i64(strides[k]),
                                  .weight = 1,
                                  .dimension = k,
                                  .is_descending = strides[k] < 0};
    }
    return count;
}

bool hri_digits(const HurrayDescriptorFields *fields, Digit digits[HRI_MAX_DIGITS],
                uint32_t *out_count) {
    const LayoutKind *kind = hri_layout_kind(fields->layout.tag);
    int64_t strides[HURRAY_MAX_RANK];
    if (kind == &hri_layout_tiled) {
        *out_count = hri_tiled_digits(fields, digits);
        return true;
    }
    if (kind == NULL || kind->strides == NULL || !kind->strides(fields, strides)) return false;
    *out_count = stride_digits(fields, strides, digits);
    return true;
}

bool hri_digits_sort(Digit *digits, uint32_t count) {
    /* Insertion: mostly they are in order, or in the opposite one. */
    for (uint32_t i = 1; i < count; i++) {
        Digit digit = digits[i];
        uint32_t at = i;
        for (; at > 0 && digits[at - 1].step < digit.step; at--) digits[at] = digits[at - 1];
        digits[at] = digit;
    }
    uint64_t reach = 0, width;
    for (uint32_t i = count; i > 0; i--) {
        const Digit *digit = &digits[i - 1];
        if (digit->step <= reach || !checked_mul_u64(digit->extent - 1, digit->step, &width) ||
            !checked_add_u64(reach, width, &reach)) {
            return false;
        }
    }
    return true;
}

/* From the lowest offset that the digits make, which is not 0 where some descend. */
static bool from_lowest(const Digit *digits, uint32_t count, int64_t offset, uint64_t *out) {
    uint64_t before = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (digits[i].is_descending) before += (digits[i].extent - 1) * digits[i].step;
    }
    if (offset >= 0) return checked_add_u64(before, (uint64_t)offset, out);
    *out = before - magnitude_i64(offset);
    return magnitude_i64(offset) <= before;
}

bool hri_digits_index(const Digit *digits, uint32_t count, uint32_t rank, int64_t offset,
                      uint64_t *index) {
    uint64_t left;
    if (!from_lowest(digits, count, offset, &left)) return false;
    for (uint32_t k = 0; k < rank; k++) index[k] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const Digit *digit = &digits[i];
        uint64_t value = left / digit->step;
        if (value >= digit->extent) return false; /* a gap: what is below does not reach so far */
        left -= value * digit->step;
        if (digit->is_descending) value = digit->extent - 1 - value;
        index[digit->dimension] += value * digit->weight;
    }
    return left == 0;
}

bool hri_index_in_bounds(const uint64_t *index, const uint64_t *shape, uint32_t rank) {
    for (uint32_t k = 0; k < rank; k++) {
        if (index[k] >= shape[k]) return false;
    }
    return true;
}
