/*
 * What the files of verification have in common: verify.c, which is the whole, and those for the
 * layouts that keep indices.
 *
 * Data is nearly always right, so that each rule is written twice: as a loop without branches,
 * which only finds out whether anything is wrong and runs about as fast as memory is read, and as a
 * plain search for the first violation, for the case that something is.
 */
#ifndef HURRAY_SRC_VERIFY_H
#define HURRAY_SRC_VERIFY_H

#include <hurray/verify.h>

#include "bytes.h"

/* ---- entries of buffers ---- */

/* How a buffer's entries are written; the width in bytes but for the last. */
typedef enum EntryForm {
    ENTRY_U8 = 1,
    ENTRY_U16 = 2,
    ENTRY_U32 = 4,
    ENTRY_U64 = 8,
    ENTRY_HOST_U64 = 64 /* an array of this host's */
} EntryForm;

typedef struct Entries {
    const char *role;
    uint32_t buffer;
    EntryForm form;
    const uint8_t *data;
    uint64_t count;
} Entries;

static inline uint32_t form_size(EntryForm form) {
    return form == ENTRY_HOST_U64 ? 8 : (uint32_t)form;
}

/* Known when it is compiled. */
static inline bool host_is_little_endian(void) {
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1;
}

/* The entry at a position that is there. With a constant form it is a single load. */
static inline uint64_t load(const uint8_t *data, uint64_t at, EntryForm form) {
    switch (form) {
    case ENTRY_U8: return data[(size_t)at];
    case ENTRY_U16: return load_u16(data + (size_t)at * 2);
    case ENTRY_U32: return load_u32(data + (size_t)at * 4);
    case ENTRY_U64: /* compilers make vectors of a plain copy, but not of bytes put together */
        if (!host_is_little_endian()) return load_u64(data + (size_t)at * 8);
        break;
    case ENTRY_HOST_U64: break;
    }
    uint64_t value;
    memcpy(&value, data + (size_t)at * 8, sizeof value);
    return value;
}

static inline uint64_t entry_at(const Entries *entries, uint64_t at) {
    return load(entries->data, at, entries->form);
}

/* One of the layout's own buffers. */
Entries hri_entries_of(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                       uint32_t buffer, EntryForm form);

/* What is read at a time, before it is looked whether anything was wrong. */
#define HRI_VERIFY_CHUNK 4096u

/* Good are the entries with (entry − low) & mask <= span, and the one that is `also`. */
typedef struct Range {
    uint64_t low;
    uint64_t mask;
    uint64_t span;
    uint64_t also;
} Range;

/* The first of `count` entries that is not in the range; `count` when all are. */
uint64_t hri_first_outside(const Entries *entries, uint64_t count, Range range);

/* ---- violations ---- */

/* Where `out` is not NULL, writes it. */
void hri_record(HurrayViolation *out, HurrayViolationKind kind, uint32_t buffer, uint64_t position,
                uint64_t found, uint64_t expected);

/* Records an entry, with a message; for the kinds whose `found` is its value. Scales, zero points
 * and duplicates have messages of their own. */
HurrayStatus hri_report_entry(HurrayViolation *out, HurrayViolationKind kind,
                              const Entries *entries, uint64_t at, uint64_t expected);

/* That there are as many entries as needed. */
HurrayStatus hri_check_enough(HurrayViolation *out, const Entries *entries, uint64_t needed);

/* ---- layouts: valid fields, and buffers of the sizes that stand there ---- */

HurrayStatus hri_verify_coo(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                            HurrayViolation *out); /* verify_coo.c */
HurrayStatus hri_verify_csr(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                            HurrayViolation *out); /* this and the rest: verify_pointers.c */
HurrayStatus hri_verify_csc(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                            HurrayViolation *out);
HurrayStatus hri_verify_csf(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                            HurrayViolation *out);
HurrayStatus hri_verify_paged(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                              HurrayViolation *out);

#endif
