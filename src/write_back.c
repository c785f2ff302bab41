/* Beginning to write to the disk (write_back.h): a call of Linux; elsewhere nothing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sync_file_range */
#endif

#include "write_back.h"

#include <fcntl.h>

#ifdef SYNC_FILE_RANGE_WRITE

void hri_begin_write_back(int descriptor, uint64_t offset, uint64_t size) {
    /* Without the flags that wait, no error of the disk is taken from the file: fsync has it. */
    (void)sync_file_range(descriptor, (off_t)offset, (off_t)size, SYNC_FILE_RANGE_WRITE);
}

#else

void hri_begin_write_back(int descriptor, uint64_t offset, uint64_t size) {
    (void)descriptor, (void)offset, (void)size;
}

#endif
