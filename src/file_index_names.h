/* The names of an index: how they are found, and how entries are named in messages. */
#ifndef HURRAY_SRC_FILE_INDEX_NAMES_H
#define HURRAY_SRC_FILE_INDEX_NAMES_H

#include "file_index.h"

/* Bytes of a name that a message shows, and of the label around it. */
#define HRI_ENTRY_LABEL_NAME 64u
#define HRI_ENTRY_LABEL_SIZE (HRI_ENTRY_LABEL_NAME + 32u)

/* `entry 3 "weight"`, of an entry whose name is UTF-8; returns `label`. */
const char *hri_file_entry_label(const FileIndex *index, uint32_t number,
                                 char label[HRI_ENTRY_LABEL_SIZE]);

/* `"weight"`, of any bytes; returns `label`. */
const char *hri_file_name_label(const char *name, size_t length, char label[HRI_ENTRY_LABEL_SIZE]);

/* That names are unique, and ascending when the index says it is `sorted`; makes what finding one
 * needs. HURRAY_ERR_FILE_INVALID, HURRAY_ERR_OUT_OF_MEMORY. */
HurrayStatus hri_file_index_names(FileIndex *index, bool sorted);

#endif
