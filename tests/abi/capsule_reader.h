/* Between the host of test_capsule_reader.c and its module: nothing of libhurray is in here. */
#ifndef HURRAY_TESTS_CAPSULE_READER_H
#define HURRAY_TESTS_CAPSULE_READER_H

#include <stdbool.h>
#include <stdint.h>

/* What the module found in a capsule. */
typedef struct Reading {
    uint8_t type_tag;
    uint8_t layout_tag;
    uint32_t rank;
    uint64_t shape[64];
    uint64_t buffer_count;
    uint64_t byte_sizes[4]; /* of the first buffers */
    double sum;             /* of the float32 elements of buffer 0, when it is on the CPU */
    bool read_only;
    int32_t device_id;
} Reading;

/*
 * Takes over the pointer and the context of a capsule, reads them, releases both. False, with
 * nothing taken over, when they are not what the module knows.
 */
typedef bool (*ReadCapsule)(void *list, void *context, Reading *reading);

/* Makes the pointer and the context of a capsule over `values`; each release counts. */
typedef void (*MakeCapsule)(float *values, uint32_t count, void **list, void **context,
                            int *released);

#endif
