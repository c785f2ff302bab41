/*
 * Verification of pointers, and of what lies between them (spec 2.7 - 2.9): CSR, CSC, CSF and
 * block-paged tensors.
 */
#include <inttypes.h>

#include "fail.h"
#include "layout.h"
#include "verify.h"

/* ---- pointers ---- */

/*
 * Numbers below 2^63, as all that are right are here, are compared by the sign of their difference:
 * with that, and blocks of a constant size, compilers make vectors of the loops on every processor.
 */
#define BLOCK 64u
#define SIGN (UINT64_C(1) << 63)

static inline bool scan_ascending(const uint8_t *data, uint64_t count, EntryForm form) {
    uint64_t signs = load(data, 0, form), i = 1;
    for (; count - i >= BLOCK; i += BLOCK) {
        const uint8_t *block = data + (size_t)i * form_size(form);
        const uint8_t *before = block - form_size(form);
        for (uint32_t j = 0; j < BLOCK; j++) {
            uint64_t pointer = load(block, j, form);
            signs |= pointer | (pointer - load(before, j, form));
        }
    }
    for (; i < count; i++) {
        uint64_t pointer = load(data, i, form);
        signs |= pointer | (pointer - load(data, i - 1, form));
    }
    return (signs & SIGN) == 0;
}

/* Whether they do, of at least one; false also when one is 2^63 or more, which none can be. */
static bool never_decreases(const Entries *pointers, uint64_t count) {
    switch (pointers->form) {
    case ENTRY_U32: return scan_ascending(pointers->data, count, ENTRY_U32);
    case ENTRY_U64: return scan_ascending(pointers->data, count, ENTRY_U64);
    default: return scan_ascending(pointers->data, count, ENTRY_HOST_U64);
    }
}

/* The first violation among pointers that have one. */
static HurrayStatus report_pointer(HurrayViolation *out, const Entries *pointers, uint64_t count,
                                   uint64_t limit, bool exact) {
    if (entry_at(pointers, 0) != 0) {
        return hri_report_entry(out, HURRAY_VIOLATION_POINTER_START, pointers, 0, 0);
    }
    uint64_t at = 0, before = 0;
    for (;; at++) {
        uint64_t pointer = entry_at(pointers, at);
        if (pointer < before) {
            return hri_report_entry(out, HURRAY_VIOLATION_POINTER_DECREASES, pointers, at, before);
        }
        before = pointer;
        if (at == count - 1) break;
        if (pointer > limit) {
            return hri_report_entry(out, HURRAY_VIOLATION_POINTER_PAST_END, pointers, at, limit);
        }
    }
    return hri_report_entry(
        out, exact ? HURRAY_VIOLATION_POINTER_END : HURRAY_VIOLATION_POINTER_PAST_END, pointers, at,
        limit);
}

/*
 * The first `count` pointers, of at least one: from 0 on, never decreasing, to exactly `limit`, or
 * at most that.
 */
static HurrayStatus check_pointers(HurrayViolation *out, const Entries *pointers, uint64_t count,
                                   uint64_t limit, bool exact) {
    HurrayStatus status = hri_check_enough(out, pointers, count);
    if (status != HURRAY_OK) return status;
    uint64_t last = entry_at(pointers, count - 1);
    bool ends_well = exact ? last == limit : last <= limit;
    if (entry_at(pointers, 0) == 0 && ends_well && never_decreases(pointers, count)) {
        return HURRAY_OK;
    }
    return report_pointer(out, pointers, count, limit, exact);
}

/* ---- coordinates in slices ---- */

/* What a look at all coordinates at once tells. */
typedef struct Survey {
    uint64_t descents; /* coordinates that are not greater than the one before them */
    bool outside;
} Survey;

static void survey_one(uint64_t before, uint64_t coordinate, uint64_t extent, Survey *all) {
    all->descents += coordinate <= before;
    all->outside |= coordinate >= extent;
}

/* `count` coordinates, one or more. An extent of 2^63 or more is for the plain loop. */
static Survey survey(const uint8_t *data, uint64_t count, uint64_t extent) {
    Survey all = {0, load(data, 0, ENTRY_U64) >= extent};
    uint64_t i = 1, signs = 0;
    for (; extent <= SIGN && count - i >= BLOCK; i += BLOCK) {
        const uint8_t *block = data + (size_t)i * 8, *before = block - 8;
        for (uint32_t j = 0; j < BLOCK; j++) {
            uint64_t coordinate = load(block, j, ENTRY_U64);
            signs |= coordinate | (extent - 1 - coordinate);
            all.descents += (coordinate - load(before, j, ENTRY_U64) - 1) >> 63;
        }
    }
    for (; i < count; i++) {
        survey_one(load(data, i - 1, ENTRY_U64), load(data, i, ENTRY_U64), extent, &all);
    }
    all.outside |= (signs & SIGN) != 0; /* and then the descents mean nothing */
    return all;
}

/* The descents that are none, because a slice begins there. */
static uint64_t descents_between(const Entries *pointers, uint64_t parents,
                                 const Entries *coordinates) {
    uint64_t descents = 0, begin = 0; /* the first slice begins at 0 */
    for (uint64_t parent = 0; parent < parents; parent++) {
        uint64_t end = load(pointers->data, parent + 1, ENTRY_U64);
        if (begin != 0 && begin != end) {
            descents += load(coordinates->data, begin, ENTRY_U64) <=
                        load(coordinates->data, begin - 1, ENTRY_U64);
        }
        begin = end;
    }
    return descents;
}

static HurrayStatus report_coordinate(HurrayViolation *out, const Entries *pointers,
                                      uint64_t parents, const Entries *coordinates,
                                      uint64_t extent) {
    for (uint64_t parent = 0; parent < parents; parent++) {
        uint64_t begin = entry_at(pointers, parent), end = entry_at(pointers, parent + 1);
        for (uint64_t at = begin; at < end; at++) {
            uint64_t coordinate = entry_at(coordinates, at);
            if (coordinate >= extent) {
                return hri_report_entry(out, HURRAY_VIOLATION_INDEX_OUT_OF_BOUNDS, coordinates, at,
                                        extent);
            }
            uint64_t before = at == begin ? 0 : entry_at(coordinates, at - 1);
            if (at != begin && coordinate <= before) {
                return hri_report_entry(out, HURRAY_VIOLATION_INDEX_ORDER, coordinates, at, before);
            }
        }
    }
    return HURRAY_OK; /* not reached: something was wrong */
}

/*
 * Coordinates below `extent` that strictly increase in each slice. The pointers, one more than
 * parents, are right, and all coordinates are there.
 */
static HurrayStatus check_coordinates(HurrayViolation *out, const Entries *pointers,
                                      uint64_t parents, const Entries *coordinates,
                                      uint64_t extent) {
    uint64_t count = entry_at(pointers, parents);
    if (count == 0) return HURRAY_OK;
    Survey all = survey(coordinates->data, count, extent);
    if (!all.outside &&
        (all.descents == 0 || all.descents == descents_between(pointers, parents, coordinates))) {
        return HURRAY_OK;
    }
    return report_coordinate(out, pointers, parents, coordinates, extent);
}

/* ---- CSR, CSC ---- */

/*
 * How many pointers there are when nobody knows how many rows: as many as it takes to reach nnz,
 * since all rows after that are empty.
 */
static uint64_t count_pointers(const Entries *pointers, uint64_t nnz) {
    for (uint64_t i = 0; i < pointers->count; i++) {
        if (entry_at(pointers, i) >= nnz) return i + 1;
    }
    return pointers->count == 0 ? 1 : pointers->count;
}

/* `major` is the dimension that the pointers are for. */
static HurrayStatus verify_compressed(const HurrayDescriptorFields *fields,
                                      const HurrayBytes *buffers, uint32_t major,
                                      HurrayViolation *out) {
    Entries coordinates = hri_entries_of(fields, buffers, 1, ENTRY_U64);
    Entries pointers = hri_entries_of(fields, buffers, 2, ENTRY_U64);
    uint64_t nnz = fields->layout.sparse.nnz, extent = fields->shape[major];
    uint64_t count = extent == HURRAY_DYNAMIC ? count_pointers(&pointers, nnz) : extent + 1;
    HurrayStatus status = check_pointers(out, &pointers, count, nnz, true);
    if (status == HURRAY_OK) status = hri_check_enough(out, &coordinates, nnz);
    if (status != HURRAY_OK) return status;
    return check_coordinates(out, &pointers, count - 1, &coordinates, fields->shape[1 - major]);
}

HurrayStatus hri_verify_csr(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                            HurrayViolation *out) {
    return verify_compressed(fields, buffers, 0, out);
}

HurrayStatus hri_verify_csc(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                            HurrayViolation *out) {
    return verify_compressed(fields, buffers, 1, out);
}

/* ---- CSF ---- */

/*
 * Level by level: how many entries one has is what its last pointer says, and that is how many
 * slices the next one has. The leaf level has nnz, and without values there is not even a root.
 */
HurrayStatus hri_verify_csf(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                            HurrayViolation *out) {
    const HurraySparseLayout *layout = &fields->layout.sparse;
    uint64_t parents = 1; /* pos_0 = [0, n_0] */
    for (uint32_t level = 0; level < fields->rank; level++) {
        Entries pointers = hri_entries_of(fields, buffers, 2 * level + 1, ENTRY_U64);
        Entries coordinates = hri_entries_of(fields, buffers, 2 * level + 2, ENTRY_U64);
        bool exact = level == fields->rank - 1 || layout->nnz == 0;
        uint64_t limit = exact ? layout->nnz : coordinates.count;
        HurrayStatus status = check_pointers(out, &pointers, parents + 1, limit, exact);
        if (status == HURRAY_OK && exact) status = hri_check_enough(out, &coordinates, limit);
        if (status == HURRAY_OK) {
            uint64_t extent = fields->shape[layout->mode_order[level]];
            status = check_coordinates(out, &pointers, parents, &coordinates, extent);
        }
        if (status != HURRAY_OK) return status;
        parents = entry_at(&pointers, parents); /* at most what the buffer holds */
    }
    return HURRAY_OK;
}

/* ---- block-paged ---- */

/* Entries of the first `used` pages' ids. */
static HurrayStatus check_pages(HurrayViolation *out, const Entries *table, uint64_t used,
                                uint64_t num_pages) {
    uint64_t at = 0;
    if (num_pages != 0) {
        at = hri_first_outside(table, used, (Range){0, UINT64_MAX, num_pages - 1, 0});
    }
    return at == used ? HURRAY_OK
                      : hri_report_entry(out, HURRAY_VIOLATION_PAGE_ID, table, at, num_pages);
}

HurrayStatus hri_verify_paged(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                              HurrayViolation *out) {
    const HurrayBlockPagedLayout *layout = &fields->layout.paged;
    EntryForm form = layout->wide_indices ? ENTRY_U64 : ENTRY_U32;
    Entries table = hri_entries_of(fields, buffers, 1, form);
    Entries pointers = hri_entries_of(fields, buffers, 2, form);
    uint64_t sequences = layout->num_seqs;
    HurrayStatus status = check_pointers(out, &pointers, sequences + 1, table.count, false);
    if (status != HURRAY_OK) return status;
    return check_pages(out, &table, entry_at(&pointers, sequences), layout->num_pages);
}

HurrayStatus hurray_verify_index_buffers(const HurrayBlockPagedLayout *layout,
                                         const uint64_t *seq_ptr, uint64_t seq_ptr_count,
                                         const uint64_t *block_table, uint64_t block_table_count,
                                         HurrayViolation *out) {
    if (layout == NULL) return hri_fail_null("layout");
    if (seq_ptr == NULL && seq_ptr_count != 0) return hri_fail_null("seq_ptr");
    if (block_table == NULL && block_table_count != 0) return hri_fail_null("block_table");
    const char *const *roles = hri_layout_block_paged.buffer_roles;
    Entries table = {roles[1], 1, ENTRY_HOST_U64, (const uint8_t *)block_table, block_table_count};
    Entries pointers = {roles[2], 2, ENTRY_HOST_U64, (const uint8_t *)seq_ptr, seq_ptr_count};
    uint64_t sequences = layout->num_seqs, num_pages = layout->num_pages;
    if (seq_ptr_count > sequences + 1) {
        hri_record(out, HURRAY_VIOLATION_POINTER_END, 2, sequences, seq_ptr_count, sequences + 1);
        return hri_fail(HURRAY_ERR_DATA_INVALID,
                        "seq_ptr holds %" PRIu64 " entries; expected num_seqs + 1, %" PRIu64,
                        seq_ptr_count, sequences + 1);
    }
    HurrayStatus status = check_pointers(out, &pointers, sequences + 1, block_table_count, true);
    if (status != HURRAY_OK) return status;
    if (!layout->wide_indices && num_pages > UINT32_MAX) num_pages = UINT64_C(1) << 32;
    return check_pages(out, &table, block_table_count, num_pages);
}
