/*
 * Tensors that cross between this program, which links libhurray, and a module that does not
 * (capsule_reader.c), in both directions (spec 7.3).
 *
 *     test_capsule_reader MODULE
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hurray/capsule.h>

#include "capsule_reader.h"

static int failures;

#define CHECK(condition)   \
    ((condition) ? (void)0 \
                 : (void)(failures++, fprintf(stderr, "line %d: %s\n", __LINE__, #condition)))

#define MUST(call)                                                                         \
    do {                                                                                   \
        if ((call) != HURRAY_OK) {                                                         \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, hurray_error_message()); \
            exit(EXIT_FAILURE);                                                            \
        }                                                                                  \
    } while (0)

static ReadCapsule read_capsule;
static MakeCapsule make_capsule;

static const uint64_t shape[2] = {3, 4};
static _Alignas(64) float values[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static _Alignas(64) uint8_t indices[128];

static void count_release(void *data, void *context) {
    (void)data;
    ++*(int *)context;
}

/* Exports a tensor of these buffers and drops it; `released` counts the buffers that are gone. */
static void export_tensor(HurrayLayout layout, const HurrayBufferInfo *infos, uint32_t count,
                          int *released, HurrayBufferList **list, HurrayTensorContext **context) {
    HurrayBuffer *buffers[3];
    HurrayTensor *tensor = NULL;
    HurrayDescriptorFields fields = {.type_tag = HURRAY_TYPE_FLOAT32,
                                     .rank = 2,
                                     .shape = shape,
                                     .layout = layout,
                                     .buffer_count = count};
    for (uint32_t i = 0; i < count; i++) {
        MUST(hurray_buffer_create(&infos[i], count_release, released, &buffers[i]));
    }
    MUST(hurray_tensor_create(&fields, buffers, &tensor));
    MUST(hurray_tensor_export(tensor, list, context));
    hurray_tensor_release(tensor);
    CHECK(*released == 0);
}

static void dense_tensors_are_read(void) {
    HurrayBufferInfo info = {
        .data = values, .byte_size = 48, .alignment = 64, .flags = HURRAY_BUFFER_READ_ONLY};
    HurrayBufferList *list = NULL;
    HurrayTensorContext *context = NULL;
    int released = 0;
    Reading reading;
    export_tensor((HurrayLayout){HURRAY_LAYOUT_ROW_MAJOR, {NULL}}, &info, 1, &released, &list,
                  &context);
    CHECK(read_capsule(list, context, &reading));
    CHECK(released == 1);
    CHECK(reading.type_tag == 3 && reading.layout_tag == 1 && reading.rank == 2);
    CHECK(reading.shape[0] == 3 && reading.shape[1] == 4);
    CHECK(reading.buffer_count == 1 && reading.byte_sizes[0] == 48);
    CHECK(reading.sum > 77.9 && reading.sum < 78.1);
    CHECK(reading.read_only);
}

static void sparse_tensors_are_read(void) {
    const HurrayBufferInfo infos[3] = {
        {.data = values, .byte_size = 20, .alignment = 64},
        {.data = indices, .byte_size = 40, .alignment = 64},
        {.data = indices, .byte_size = 48, .alignment = 64},
    };
    HurrayBufferList *list = NULL;
    HurrayTensorContext *context = NULL;
    int released = 0;
    Reading reading;
    HurrayLayout layout = {HURRAY_LAYOUT_COO, {NULL}};
    layout.sparse = (HurraySparseLayout){.nnz = 2};
    export_tensor(layout, infos, 2, &released, &list, &context);
    CHECK(read_capsule(list, context, &reading));
    CHECK(released == 2 && reading.buffer_count == 2 && reading.layout_tag == HURRAY_LAYOUT_COO);
    CHECK(reading.byte_sizes[0] == 20 && reading.byte_sizes[1] == 40);
}

static void device_pointers_pass_through(void) {
    HurrayBufferInfo info = {.data = (void *)(uintptr_t)0xDEAD0000,
                             .byte_size = 48,
                             .alignment = 4096,
                             .device = {HURRAY_DEVICE_CUDA, HURRAY_MEMORY_STANDARD, 6},
                             .sync_mode = HURRAY_SYNC_CONSUMER_STREAM};
    HurrayBufferList *list = NULL;
    HurrayTensorContext *context = NULL;
    int released = 0;
    Reading reading;
    export_tensor((HurrayLayout){HURRAY_LAYOUT_COL_MAJOR, {NULL}}, &info, 1, &released, &list,
                  &context);
    CHECK(read_capsule(list, context, &reading));
    CHECK(released == 1 && reading.device_id == 6 && !reading.read_only);
}

/* A capsule of another version is not taken: it stays ours. */
static void strangers_are_refused(void) {
    HurrayBufferInfo info = {.data = values, .byte_size = 48, .alignment = 64};
    HurrayBufferList *list = NULL;
    HurrayTensorContext *context = NULL;
    int released = 0;
    Reading reading;
    export_tensor((HurrayLayout){HURRAY_LAYOUT_ROW_MAJOR, {NULL}}, &info, 1, &released, &list,
                  &context);
    ((HurrayTensorContextHead *)context)->abi_version = 5;
    CHECK(!read_capsule(list, context, &reading));
    CHECK(!read_capsule(context, list, &reading));
    CHECK(released == 0);
    MUST(hurray_tensor_context_destroy(&context));
    MUST(hurray_buffer_list_destroy(&list));
    CHECK(released == 1);
}

static void what_the_module_makes_is_taken_in(void) {
    void *list = NULL, *context = NULL;
    int released = 0;
    HurrayTensor *tensor = NULL;
    make_capsule(values, 12, &list, &context, &released);
    MUST(hurray_tensor_import(list, context, NULL, &tensor));
    CHECK(hurray_tensor_data(tensor) == values && hurray_tensor_count(tensor) == 12);
    CHECK(hurray_tensor_fields(tensor)->type_tag == HURRAY_TYPE_FLOAT32);
    CHECK(released == 0);
    hurray_tensor_release(tensor);
    CHECK(released == 2);
    /* What is refused stays ours, and the module frees it. */
    make_capsule(values, 12, &list, &context, &released);
    ((HurrayBufferListHead *)list)->length = 2;
    CHECK(hurray_tensor_import(list, context, NULL, &tensor) == HURRAY_ERR_INVALID_LAYOUT);
    CHECK(released == 2);
    ((HurrayBufferListHead *)list)->release(list);
    ((HurrayTensorContextHead *)context)->release(context);
    CHECK(released == 4);
}

/* A function pointer out of an object pointer, as POSIX means it. */
static void find(void *module, const char *name, void *function) {
    void *symbol = dlsym(module, name);
    if (symbol == NULL) {
        fprintf(stderr, "no %s in the module: %s\n", name, dlerror());
        exit(EXIT_FAILURE);
    }
    memcpy(function, &symbol, sizeof symbol);
}

int main(int argc, char **argv) {
    void *module = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (module == NULL) {
        fprintf(stderr, "usage: test_capsule_reader MODULE%s%s\n", argc == 2 ? ": " : "",
                argc == 2 ? dlerror() : "");
        return EXIT_FAILURE;
    }
    find(module, "read_capsule", &read_capsule);
    find(module, "make_capsule", &make_capsule);
    dense_tensors_are_read();
    sparse_tensors_are_read();
    device_pointers_pass_through();
    strangers_are_refused();
    what_the_module_makes_is_taken_in();
    dlclose(module);
    if (failures == 0) printf("tensors cross in both directions\n");
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
