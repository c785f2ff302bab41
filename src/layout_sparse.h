/*
 * What COO, CSR, CSC and CSF have in common (spec 2.6 - 2.8): `nnz` values in buffer 0, and buffers
 * of u64 entries that say where they belong. None of it depends on the shape, dynamic or not.
 */
#ifndef HURRAY_SRC_LAYOUT_SPARSE_H
#define HURRAY_SRC_LAYOUT_SPARSE_H

#include "layout.h"

/* Bytes of the nnz values. HURRAY_ERR_INVALID_LAYOUT naming nnz when they are 2^64 or more. */
HurrayStatus hri_sparse_values_bytes(const HurrayDescriptorFields *fields, HurrayPacking packing,
                                     uint64_t *out);

/* Bytes of count * per_count u64 entries in the buffer called `role`; `what` is counted. */
HurrayStatus hri_sparse_entries_bytes(const char *role, const char *what, uint64_t count,
                                      uint32_t per_count, uint64_t *out);

#endif
