/*
 * Layouts (spec 2): where element [i_0, i_1, …] of a tensor lies in its buffers.
 */
#ifndef HURRAY_LAYOUT_H
#define HURRAY_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"

HURRAY_BEGIN_DECLS

enum {
    HURRAY_LAYOUT_ROW_MAJOR = 0x01,
    HURRAY_LAYOUT_COL_MAJOR = 0x02,
    HURRAY_LAYOUT_STRIDED = 0x03,
    HURRAY_LAYOUT_PRIVATE_FIRST = 0xF0,
    HURRAY_LAYOUT_PRIVATE_LAST = 0xFE
};

/*
 * A layout: its tag and the fields that go with it. Pointers are borrowed; their lengths are the
 * tensor's rank. Row-major and column-major have no fields: (HurrayLayout){HURRAY_LAYOUT_ROW_MAJOR}.
 */
typedef struct HurrayLayout {
    uint8_t tag;
    const int64_t *strides; /* strided: i64[rank], in elements; negative reverses, 0 broadcasts */
} HurrayLayout;

/* "row_major", …; NULL for a tag without a name. */
HURRAY_API const char *hurray_layout_name(uint8_t tag);
/* The tag of such a name; 0, which is no layout, when there is none. */
HURRAY_API uint8_t hurray_layout_from_name(const char *name);

/* The four kinds of tag that tools tell apart (spec 2). */
typedef enum HurrayLayoutTagKind {
    HURRAY_LAYOUT_TAG_INVALID,
    HURRAY_LAYOUT_TAG_NAMED,
    HURRAY_LAYOUT_TAG_RESERVED,
    HURRAY_LAYOUT_TAG_PRIVATE
} HurrayLayoutTagKind;
HURRAY_API HurrayLayoutTagKind hurray_layout_tag_kind(uint8_t tag);

HURRAY_END_DECLS

#endif
