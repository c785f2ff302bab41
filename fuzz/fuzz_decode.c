/*
 * Hostile bytes through the descriptor decoder.
 *
 * Whatever is accepted must be a descriptor that the library itself would write: it validates,
 * encodes into exactly the bytes announced, and those decode to an equal descriptor that encodes
 * to the same bytes again. Whatever is refused leaves a reason behind.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <hurray/descriptor.h>

#include "fuzz.h"

/* The encoding of `descriptor`, to be freed; its length in *out_length. */
static uint8_t *encode(const HurrayDescriptor *descriptor, uintptr_t *out_length) {
    const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
    uint64_t announced = 0;
    require(hurray_descriptor_validate(fields) == HURRAY_OK);
    require(hurray_descriptor_encoded_size(fields, &announced) == HURRAY_OK);
    require(announced >= HURRAY_DESCRIPTOR_HEADER_SIZE && announced <= UINT32_MAX);

    uint8_t *bytes = malloc((size_t)announced);
    require(bytes != NULL);
    require(hurray_descriptor_encode(fields, bytes, (uintptr_t)announced - 1, out_length) ==
            HURRAY_ERR_BUFFER_TOO_SMALL);
    require(hurray_descriptor_encode(fields, bytes, (uintptr_t)announced, out_length) == HURRAY_OK);
    require(*out_length == announced);
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    HurrayDescriptor *first = NULL;
    const HurrayStatus status = hurray_descriptor_decode(data, size, &first);
    if (status != HURRAY_OK) {
        require(status < 0 && first == NULL);
        require(hurray_error_message()[0] != '\0');
        return 0;
    }

    uintptr_t first_length = 0;
    uint8_t *first_bytes = encode(first, &first_length);

    HurrayDescriptor *second = NULL;
    require(hurray_descriptor_decode(first_bytes, first_length, &second) == HURRAY_OK);
    require(
        hurray_descriptor_equal(hurray_descriptor_fields(first), hurray_descriptor_fields(second)));

    uintptr_t second_length = 0;
    uint8_t *second_bytes = encode(second, &second_length);
    require(second_length == first_length && memcmp(first_bytes, second_bytes, first_length) == 0);

    free(second_bytes);
    free(first_bytes);
    require(hurray_descriptor_destroy(second) == HURRAY_OK);
    require(hurray_descriptor_destroy(first) == HURRAY_OK);
    return 0;
}
