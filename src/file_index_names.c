/* Finding names in an index: by halving where it is sorted, else by a hash table. */
#include "file_index_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "fail.h"
#include "utf8.h"

static HriName name_of(const FileIndex *index, uint32_t entry) {
    const uint8_t *bytes = index->bytes + index->places[entry];
    return (HriName){(const char *)bytes + 2, load_u16(bytes)};
}

/* By bytes, a prefix first. */
static int compare(HriName a, HriName b) {
    int order = memcmp(a.data, b.data, a.length < b.length ? a.length : b.length);
    if (order != 0) return order;
    return (a.length > b.length) - (a.length < b.length);
}

static HurrayStatus fail_duplicate(const FileIndex *index, uint32_t a, uint32_t b) {
    char label[HRI_ENTRY_LABEL_SIZE];
    return hri_fail(HURRAY_ERR_FILE_INVALID, "index, %s: entry %" PRIu32 " has the same name",
                    hri_file_entry_label(index, b, label), a);
}

/* ---- messages ---- */

/* Up to HRI_ENTRY_LABEL_NAME bytes of whole characters, in quotes; what is no UTF-8, or would break
 * the line, as a question mark. */
static void quote(const char *name, size_t length, char *out) {
    const uint8_t *text = (const uint8_t *)name;
    size_t at = 0;
    *out++ = '"';
    while (at < length) {
        size_t size = hri_utf8_character(text + at, length - at);
        if (at + (size == 0 ? 1 : size) > HRI_ENTRY_LABEL_NAME) break;
        if (size <= 1) {
            bool shown = size == 1 && text[at] >= 0x20 && text[at] != 0x7F;
            *out++ = shown ? name[at] : '?';
            at++;
        } else {
            memcpy(out, name + at, size);
            out += size;
            at += size;
        }
    }
    strcpy(out, at < length ? "…\"" : "\"");
}

const char *hri_file_name_label(const char *name, size_t length, char label[HRI_ENTRY_LABEL_SIZE]) {
    quote(name, length, label);
    return label;
}

const char *hri_file_entry_label(const FileIndex *index, uint32_t number,
                                 char label[HRI_ENTRY_LABEL_SIZE]) {
    HriName name = name_of(index, number);
    int used = snprintf(label, HRI_ENTRY_LABEL_SIZE, "entry %" PRIu32 " ", number);
    quote(name.data, name.length, label + used);
    return label;
}

/* ---- sorted ---- */

static HurrayStatus check_sorted(const FileIndex *index) {
    for (uint32_t i = 1; i < index->count; i++) {
        int order = compare(name_of(index, i - 1), name_of(index, i));
        if (order == 0) return fail_duplicate(index, i - 1, i);
        if (order < 0) continue;
        char label[HRI_ENTRY_LABEL_SIZE];
        return hri_fail(HURRAY_ERR_FILE_INVALID,
                        "index, %s: SORTED_INDEX is set, but the name comes before that of the "
                        "entry in front",
                        hri_file_entry_label(index, i, label));
    }
    return HURRAY_OK;
}

static bool find_by_halving(const FileIndex *index, HriName name, uint32_t *out) {
    uint32_t low = 0, high = index->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = compare(name_of(index, middle), name);
        if (order == 0) {
            *out = middle;
            return true;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

/* ---- hashed ---- */

static HriName table_name(const void *owner, uint32_t number) { return name_of(owner, number); }

static HurrayStatus hash_names(FileIndex *index) {
    HurrayStatus status = hri_name_table_reserve(&index->names, index->count);
    for (uint32_t i = 0; status == HURRAY_OK && i < index->count; i++) {
        HriName name = name_of(index, i);
        uint32_t found = hri_name_table_find_or_add(&index->names, name, table_name, index);
        if (found != HRI_NO_NAME) return fail_duplicate(index, found, i);
    }
    return status;
}

/* ---- both ---- */

HurrayStatus hri_file_index_names(FileIndex *index, bool sorted) {
    index->is_sorted = sorted;
    return sorted ? check_sorted(index) : hash_names(index);
}

bool hri_file_index_find(const FileIndex *index, const char *name, size_t length,
                         uint32_t *out_entry) {
    HriName wanted = {name, length};
    if (index->is_sorted) return find_by_halving(index, wanted, out_entry);
    uint32_t found = hri_name_table_find(&index->names, wanted, table_name, index);
    if (found == HRI_NO_NAME) return false;
    *out_entry = found;
    return true;
}
