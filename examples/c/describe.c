/*
 * Describes a tensor in bytes, and reads the description back.
 *
 *     cc describe.c $(pkg-config --cflags --libs hurray) -o describe && ./describe
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <hurray/hurray.h>

static int failed(void) {
    fprintf(stderr, "describe: %s\n", hurray_error_message());
    return EXIT_FAILURE;
}

int main(void) {
    /* A 3 × 4 array of float32, row after row, in 48 bytes that begin at a multiple of 64. */
    const uint64_t shape[] = {3, 4};
    const HurrayBufferHandle buffer = {.byte_size = 48, .alignment = 64};
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_FLOAT32,
        .rank = 2,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_ROW_MAJOR},
        .buffer_count = 1,
        .buffers = &buffer,
    };
    uint8_t bytes[128];
    uintptr_t length;
    if (hurray_descriptor_encode(&fields, bytes, sizeof bytes, &length) != HURRAY_OK) {
        return failed();
    }

    HurrayDescriptor *descriptor;
    if (hurray_descriptor_decode(bytes, length, &descriptor) != HURRAY_OK) {
        return failed();
    }
    const HurrayDescriptorFields *read = hurray_descriptor_fields(descriptor);
    printf("%zu bytes describe an array of %" PRIu64 " × %" PRIu64 " elements of type %s\n",
           (size_t)length, read->shape[0], read->shape[1],
           hurray_element_type_from_tag(read->type_tag)->name);
    hurray_descriptor_destroy(descriptor);
    return EXIT_SUCCESS;
}
