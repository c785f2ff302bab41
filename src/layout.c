/* The table of layouts by tag and name (include/hurray/layout.h, spec 2). */
#include "layout.h"

#include <string.h>

#include "fail.h"

static const LayoutKind *const kinds[] = {
    &hri_layout_row_major, &hri_layout_col_major,   &hri_layout_strided,   &hri_layout_tiled,
    &hri_layout_morton,    &hri_layout_coo,         &hri_layout_csr,       &hri_layout_csc,
    &hri_layout_csf,       &hri_layout_block_paged, &hri_layout_composite, &hri_layout_hilbert,
};

#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

const char *const hri_dense_roles[] = {"data"};

static bool is_private(uint8_t tag) {
    return tag >= HURRAY_LAYOUT_PRIVATE_FIRST && tag <= HURRAY_LAYOUT_PRIVATE_LAST;
}

const LayoutKind *hri_layout_kind(uint8_t tag) {
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (kinds[i]->tag == tag) return kinds[i];
    }
    return is_private(tag) ? &hri_layout_private : NULL;
}

const LayoutKind *hri_layout_kind_of(const HurrayDescriptorFields *fields) {
    const LayoutKind *kind = hri_layout_kind(fields->layout.tag);
    if (kind == NULL && fields->permissive &&
        hurray_layout_tag_kind(fields->layout.tag) == HURRAY_LAYOUT_TAG_RESERVED) {
        return &hri_layout_opaque;
    }
    return kind;
}

uint32_t hri_layout_buffer_count(const LayoutKind *kind, uint32_t rank) {
    return kind->buffer_count + kind->buffers_per_rank * rank;
}

const char *hurray_layout_name(uint8_t tag) {
    const LayoutKind *kind = is_private(tag) ? NULL : hri_layout_kind(tag);
    return kind == NULL ? NULL : kind->name;
}

uint8_t hurray_layout_from_name(const char *name) {
    for (size_t i = 0; name != NULL && i < KIND_COUNT; i++) {
        if (strcmp(kinds[i]->name, name) == 0) return kinds[i]->tag;
    }
    return 0;
}

HurrayLayoutTagKind hurray_layout_tag_kind(uint8_t tag) {
    if (tag == 0x00 || tag == 0xFF) return HURRAY_LAYOUT_TAG_INVALID;
    if (is_private(tag)) return HURRAY_LAYOUT_TAG_PRIVATE;
    return hri_layout_kind(tag) != NULL ? HURRAY_LAYOUT_TAG_NAMED : HURRAY_LAYOUT_TAG_RESERVED;
}

HurrayLayoutClass hurray_layout_class(uint8_t tag) {
    const LayoutKind *kind = hri_layout_kind(tag);
    return kind == NULL ? HURRAY_LAYOUT_CLASS_UNKNOWN : kind->layout_class;
}

HurrayStatus hurray_layout_buffer_count(uint8_t tag, uint32_t rank, uint32_t *out) {
    if (out == NULL) return hri_fail_null("out");
    const LayoutKind *kind = hri_layout_kind(tag);
    if (kind == NULL || kind->any_buffer_count) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "the number of buffers of layout tag 0x%02X is not known", tag);
    }
    *out = hri_layout_buffer_count(kind, rank);
    return HURRAY_OK;
}
