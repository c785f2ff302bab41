/* Composites in a file: members are the tensors that follow their head in order of offsets
 * (spec 4.6). */
#include "file_reader.h"

#include <hurray/composite.h>
#include <inttypes.h>

#include "fail.h"
#include "file_index_names.h"

/* ---- an item, validated ---- */

static HurrayStatus push(HurrayFileReader *reader, uint32_t position,
                         HurrayCompositeValidator *validator, bool *complete) {
    uint32_t entry = file_index_at(&reader->index, position);
    uint64_t offsets[HURRAY_MAX_BUFFERS];
    HurrayDescriptor *descriptor;
    HurrayStatus status = hri_file_descriptor(reader, entry, &descriptor, offsets);
    if (status != HURRAY_OK) return status;
    status =
        hurray_composite_validator_push(validator, hurray_descriptor_fields(descriptor), complete);
    hurray_descriptor_destroy(descriptor);
    return status == HURRAY_OK ? status : hri_file_fail_in(reader, entry, status);
}

HurrayStatus hurray_file_reader_item(HurrayFileReader *reader, uint64_t index, uint64_t *out_first,
                                     uint64_t *out_end) {
    if (reader == NULL) return hri_fail_null("reader");
    if (out_first == NULL || out_end == NULL) {
        return hri_fail_null(out_first == NULL ? "out_first" : "out_end");
    }
    HurrayStatus status = hri_file_check_entry(reader, index);
    if (status != HURRAY_OK) return status;
    HurrayCompositeValidator *validator;
    status = hurray_composite_validator_create(NULL, &validator);
    if (status != HURRAY_OK) return status;

    uint32_t first = file_index_position(&reader->index, (uint32_t)index), end = first;
    bool complete = false;
    while (status == HURRAY_OK && !complete && end < reader->index.count) {
        status = push(reader, end++, validator, &complete);
    }
    if (status == HURRAY_OK && !complete) {
        char label[HRI_ENTRY_LABEL_SIZE];
        status =
            hri_fail(HURRAY_ERR_FILE_INVALID,
                     "%s is the head of a composite that is torn: the file ends with %" PRIu32
                     " tensors after it, in the middle of its members",
                     hri_file_entry_label(&reader->index, (uint32_t)index, label), end - first - 1);
    }
    hurray_composite_validator_destroy(&validator);
    if (status != HURRAY_OK) return status;
    *out_first = first;
    *out_end = end;
    return HURRAY_OK;
}

/* ---- what is no member ---- */

/* How many members an entry announces: 0 unless it is a head. */
static HurrayStatus count_members(HurrayFileReader *reader, uint32_t entry, uint32_t *out) {
    *out = 0;
    if (hri_file_index_entry(&reader->index, entry).data_length != 0) return HURRAY_OK;
    uint64_t offsets[HURRAY_MAX_BUFFERS];
    HurrayDescriptor *descriptor;
    HurrayStatus status = hri_file_descriptor(reader, entry, &descriptor, offsets);
    if (status != HURRAY_OK) return status;
    const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
    if (fields->layout.tag == HURRAY_LAYOUT_COMPOSITE) *out = fields->layout.composite.member_count;
    hurray_descriptor_destroy(descriptor);
    return HURRAY_OK;
}

HurrayStatus hurray_file_reader_roots(HurrayFileReader *reader, uint64_t *out, uint64_t capacity,
                                      uint64_t *out_count) {
    if (reader == NULL || out_count == NULL) {
        return hri_fail_null(reader == NULL ? "reader" : "out_count");
    }
    /* Whatever its depth, a member is one of those that are still to come: 2^32 heads announce less
     * than 2^64. */
    uint64_t roots = 0, pending = 0;
    uint32_t root = 0;
    for (uint32_t position = 0; position < reader->index.count; position++) {
        uint32_t entry = file_index_at(&reader->index, position), members;
        HurrayStatus status = count_members(reader, entry, &members);
        if (status != HURRAY_OK) return status;
        if (pending == 0) {
            root = entry;
            if (out != NULL && roots < capacity) out[roots] = entry;
            roots++;
        } else {
            pending--;
        }
        pending += members;
    }
    if (pending != 0) {
        char label[HRI_ENTRY_LABEL_SIZE];
        return hri_fail(HURRAY_ERR_FILE_INVALID,
                        "%s is the head of a composite that is torn: %" PRIu64
                        " of its members are not in the file",
                        hri_file_entry_label(&reader->index, root, label), pending);
    }
    if (out != NULL && roots > capacity) {
        return hri_fail(HURRAY_ERR_BUFFER_TOO_SMALL,
                        "%" PRIu64 " items begin in the file, but there is room for %" PRIu64,
                        roots, capacity);
    }
    *out_count = roots;
    return HURRAY_OK;
}
