/*
 * The structure of a file (spec 4.1, 4.4, 4.5) from bytes that somebody else has read: header and
 * trailer say where the index is, the index where everything else is. Every rule of spec 4.6 that
 * can be told without looking at a descriptor is checked here.
 */
#ifndef HURRAY_SRC_FILE_INDEX_H
#define HURRAY_SRC_FILE_INDEX_H

#include <hurray/file_reader.h>

#include "name_table.h"

typedef struct FileIndex {
    uint8_t *bytes;      /* the section, owned */
    uint64_t *places;    /* u64[count]: where in `bytes` each entry begins */
    uint32_t *by_offset; /* u32[count], a permutation; NULL: the index is in order of offsets */
    uint32_t *position;  /* u32[count], its inverse */
    HriNameTable names;  /* empty where the index is sorted */
    bool is_sorted;
    uint32_t count;
} FileIndex;

/*
 * Reads header (HRI_FILE_HEADER_SIZE bytes) and trailer (HRI_FILE_TRAILER_SIZE bytes) of a file of
 * `size` bytes, at least both of them, into all of `out`. HURRAY_ERR_FILE_INVALID.
 */
HurrayStatus hri_file_info_decode(const uint8_t *header, const uint8_t *trailer, uint64_t size,
                                  HurrayFileInfo *out, uint64_t *out_first_descriptor,
                                  uint32_t *out_checksum);

/*
 * Reads an index of info->index_length bytes; takes `bytes` (from malloc) over on success only.
 * Linear in the bytes. HURRAY_ERR_FILE_INVALID, HURRAY_ERR_OUT_OF_MEMORY; HURRAY_ERR_UNSUPPORTED for
 * 2^32 - 1 entries and more.
 */
HurrayStatus hri_file_index_create(const HurrayFileInfo *info, uint64_t first_descriptor,
                                   uint32_t checksum, uint8_t *bytes, FileIndex *out);
void hri_file_index_destroy(FileIndex *index);

/* Entry `entry` < count. */
HurrayFileEntry hri_file_index_entry(const FileIndex *index, uint32_t entry);
/* Whether there is an entry of that name, and which. */
bool hri_file_index_find(const FileIndex *index, const char *name, size_t length,
                         uint32_t *out_entry);

/* The entry at a position in order of offsets, and back. */
static inline uint32_t file_index_at(const FileIndex *index, uint32_t position) {
    return index->by_offset == NULL ? position : index->by_offset[position];
}
static inline uint32_t file_index_position(const FileIndex *index, uint32_t entry) {
    return index->position == NULL ? entry : index->position[entry];
}

#endif
