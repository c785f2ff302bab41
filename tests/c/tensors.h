/* A few tensors to be written: dense, of three buffers with an empty one, and composites. */
#ifndef HURRAY_TESTS_TENSORS_H
#define HURRAY_TESTS_TENSORS_H

#include "expect.h"

#include <hurray/file_writer.h>
#include <hurray/tensor.h>

static _Alignas(64) uint8_t tensor_bytes[16384];

static inline void fill_tensor_bytes(void) {
    for (size_t i = 0; i < sizeof tensor_bytes; i++) tensor_bytes[i] = (uint8_t)(i * 31 + i / 256);
}

static inline HurrayBuffer *make_buffer(uint8_t *data, uint64_t size) {
    HurrayBuffer *buffer = NULL;
    const HurrayBufferInfo info = {.data = data, .byte_size = size, .alignment = 64};
    expect_ok(hurray_buffer_create(&info, NULL, NULL, &buffer));
    return buffer;
}

/* uint8[size]. */
static inline HurrayTensor *make_bytes_tensor(uint8_t *data, uint64_t size) {
    HurrayTensor *tensor = NULL;
    HurrayBuffer *buffer = make_buffer(data, size);
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 1,
        .shape = &size,
        .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
        .buffer_count = 1,
    };
    expect_ok(hurray_tensor_create(&fields, &buffer, &tensor));
    return tensor;
}

/* CSR float32[3, 4] with `nnz` elements: values, columns, row pointers. */
static inline HurrayTensor *make_csr_tensor(uint64_t nnz) {
    static const uint64_t shape[2] = {3, 4};
    HurrayTensor *tensor = NULL;
    HurrayBuffer *buffers[3] = {
        make_buffer(nnz == 0 ? NULL : tensor_bytes, 4 * nnz),
        make_buffer(nnz == 0 ? NULL : tensor_bytes + 4096, 8 * nnz),
        make_buffer(tensor_bytes + 8192, 8 * (shape[0] + 1)),
    };
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_FLOAT32,
        .rank = 2,
        .shape = shape,
        .layout = {HURRAY_LAYOUT_CSR, {.sparse = {.nnz = nnz}}},
        .buffer_count = 3,
    };
    expect_ok(hurray_tensor_create(&fields, buffers, &tensor));
    return tensor;
}

static inline HurrayDescriptorFields head_fields(uint32_t members) {
    static const uint64_t shape[1] = {100};
    return (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 1,
        .shape = shape,
        .layout = {HURRAY_LAYOUT_COMPOSITE, {.composite = {HURRAY_RULE_GROUP, 0, members}}},
    };
}

/* Under a name that is a string. */
static inline HurrayStatus add_tensor(HurrayFileWriter *writer, const char *name,
                                      const HurrayTensor *tensor) {
    return hurray_file_writer_add(writer, name, name == NULL ? 0 : strlen(name), tensor);
}

static inline HurrayStatus add_head(HurrayFileWriter *writer, const char *name, uint32_t members) {
    const HurrayDescriptorFields head = head_fields(members);
    return hurray_file_writer_add_head(writer, name, name == NULL ? 0 : strlen(name), &head);
}

#endif
