/* The table of layouts by tag and name (include/hurray/layout.h, spec 2). */
#include "layout.h"

#include <string.h>

static const LayoutKind *const kinds[] = {
    &hri_layout_row_major,
    &hri_layout_col_major,
    &hri_layout_strided,
};

const char *const hri_dense_roles[] = {"data"};

#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

const LayoutKind *hri_layout_kind(uint8_t tag) {
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (kinds[i]->tag == tag) return kinds[i];
    }
    return NULL;
}

/* Every tag that spec 2 names, those without a row yet included: tools tell them from reserved. */
static const struct {
    uint8_t tag;
    const char *name;
} names[] = {
    {0x01, "row_major"},   {0x02, "col_major"}, {0x03, "strided"}, {0x04, "tiled"},
    {0x05, "morton"},      {0x06, "coo"},       {0x07, "csr"},     {0x08, "csc"},
    {0x09, "csf"},         {0x0A, "block_paged"}, {0x0B, "composite"}, {0x40, "hilbert"},
};

#define NAME_COUNT (sizeof names / sizeof names[0])

const char *hurray_layout_name(uint8_t tag) {
    for (size_t i = 0; i < NAME_COUNT; i++) {
        if (names[i].tag == tag) return names[i].name;
    }
    return NULL;
}

uint8_t hurray_layout_from_name(const char *name) {
    for (size_t i = 0; name != NULL && i < NAME_COUNT; i++) {
        if (strcmp(names[i].name, name) == 0) return names[i].tag;
    }
    return 0;
}

HurrayLayoutTagKind hurray_layout_tag_kind(uint8_t tag) {
    if (tag == 0x00 || tag == 0xFF) return HURRAY_LAYOUT_TAG_INVALID;
    if (tag >= HURRAY_LAYOUT_PRIVATE_FIRST && tag <= HURRAY_LAYOUT_PRIVATE_LAST) {
        return HURRAY_LAYOUT_TAG_PRIVATE;
    }
    return hurray_layout_name(tag) != NULL ? HURRAY_LAYOUT_TAG_NAMED : HURRAY_LAYOUT_TAG_RESERVED;
}
