/* Bytes of a file that the disk begins to write before anyone waits for them. */
#ifndef HURRAY_SRC_WRITE_BACK_H
#define HURRAY_SRC_WRITE_BACK_H

#include <stdint.h>

/* Has the system begin to write these bytes of an open file to the disk, and does not wait for it.
 * Nothing where it knows no such thing. What fails is told by fsync, which is still needed. */
void hri_begin_write_back(int descriptor, uint64_t offset, uint64_t size);

#endif
