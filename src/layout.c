/* The table of layouts by tag and name (include/hurray/layout.h, spec 2). */
#include "layout.h"

#include <string.h>

#include "fail.h"

/* Rows by tag, for all of them that are assigned. */
static const LayoutKind *const by_tag[HURRAY_LAYOUT_HILBERT + 1] = {
    [HURRAY_LAYOUT_ROW_MAJOR] = &hri_layout_row_major,
    [HURRAY_LAYOUT_COL_MAJOR] = &hri_layout_col_major,
    [HURRAY_LAYOUT_STRIDED] = &hri_layout_strided,
    [HURRAY_LAYOUT_TILED] = &hri_layout_tiled,
    [HURRAY_LAYOUT_MORTON] = &hri_layout_morton,
    [HURRAY_LAYOUT_COO] = &hri_layout_coo,
    [HURRAY_LAYOUT_CSR] = &hri_layout_csr,
    [HURRAY_LAYOUT_CSC] = &hri_layout_csc,
    [HURRAY_LAYOUT_CSF] = &hri_layout_csf,
    [HURRAY_LAYOUT_BLOCK_PAGED] = &hri_layout_block_paged,
    [HURRAY_LAYOUT_COMPOSITE] = &hri_layout_composite,
    [HURRAY_LAYOUT_HILBERT] = &hri_layout_hilbert,
};

#define TAG_COUNT (sizeof by_tag / sizeof by_tag[0])

const char *const hri_dense_roles[] = {"data"};

static bool is_private(uint8_t tag) {
    return tag >= HURRAY_LAYOUT_PRIVATE_FIRST && tag <= HURRAY_LAYOUT_PRIVATE_LAST;
}

const LayoutKind *hri_layout_kind(uint8_t tag) {
    if (tag < TAG_COUNT && by_tag[tag] != NULL) return by_tag[tag];
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
    for (size_t tag = 0; name != NULL && tag < TAG_COUNT; tag++) {
        if (by_tag[tag] != NULL && strcmp(by_tag[tag]->name, name) == 0) return by_tag[tag]->tag;
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
