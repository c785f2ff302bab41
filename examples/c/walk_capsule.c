/*
 * Hands a tensor to other code in the same process, and reads it there knowing nothing but the
 * frozen heads of capsule.h: `consume` below calls no function of libhurray, and would work as well
 * in a program that does not link it, or links another version of it.
 *
 *     cc walk_capsule.c $(pkg-config --cflags --libs hurray) -o walk_capsule && ./walk_capsule
 *
 * In Python, the two pointers travel in a PyCapsule: see the example at the top of capsule.h.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hurray/hurray.h>

static void check(HurrayStatus status, const char *what) {
    if (status == HURRAY_OK) return;
    fprintf(stderr, "walk_capsule: %s: %s\n", what, hurray_error_message());
    exit(EXIT_FAILURE);
}

/* ---- the consumer ---- */

/* Before anything else is read: are these what they should be? */
static bool is_ours(const void *list_pointer, const void *context_pointer) {
    const HurrayBufferListHead *list = (const HurrayBufferListHead *)list_pointer;
    const HurrayTensorContextHead *context = (const HurrayTensorContextHead *)context_pointer;
    /* Magic first: behind another one there may be anything, and less of it than a head. */
    if (memcmp(list->magic, HURRAY_BUFFER_LIST_MAGIC, sizeof list->magic) != 0) return false;
    if (memcmp(context->magic, HURRAY_TENSOR_CONTEXT_MAGIC, sizeof context->magic) != 0)
        return false;
    if (list->abi_version != HURRAY_C_ABI_VERSION) return false;
    if (context->abi_version != HURRAY_C_ABI_VERSION) return false;
    /* Later makers may append fields; what is described here is all there. */
    return list->struct_size >= sizeof *list && context->struct_size >= sizeof *context;
}

/* Takes both over and releases them when it has seen enough. False: they stay the caller's. */
static bool consume(void *list_pointer, void *context_pointer) {
    if (!is_ours(list_pointer, context_pointer)) return false;
    HurrayBufferListHead *list = (HurrayBufferListHead *)list_pointer;
    HurrayTensorContextHead *context = (HurrayTensorContextHead *)context_pointer;

    printf("%" PRIu64 " bytes of descriptor, magic \"%.4s\"\n", context->descriptor_length,
           (const char *)context->descriptor);
    for (uint64_t i = 0; i < list->length; i++) {
        const HurrayBufferRecord *record = &list->records[i];
        printf("buffer %" PRIu64 ": %" PRIu64 " bytes on device kind %u, %s\n", i,
               record->byte_size, (unsigned)record->device_tag,
               (record->flags & HURRAY_BUFFER_READ_ONLY) != 0 ? "read-only" : "writable");
        /* Only bytes on the CPU that nobody is still writing may be touched. */
        if (record->device_tag != HURRAY_DEVICE_CPU ||
            record->sync_mode != HURRAY_SYNC_PRODUCER_SYNCED) {
            continue;
        }
        const uint8_t *bytes = (const uint8_t *)record->data;
        for (uint64_t k = 0; k < record->byte_size; k++) printf(" %u", (unsigned)bytes[k]);
        printf("\n");
    }

    list->release(list);
    printf("the list is released\n");
    context->release(context);
    printf("the context is released\n");
    return true;
}

/* ---- the producer ---- */

static void on_release(void *data, void *context) {
    printf("the producer's %s are no longer in use\n", (const char *)context);
    hurray_aligned_free(data);
}

/* A uint8 array of [2, 4], in memory of this program's that hurray is lent. */
static HurrayTensor *make_tensor(void) {
    static char name[] = "bytes";
    uint8_t *data = hurray_aligned_alloc(8, HURRAY_MIN_BUFFER_ALIGNMENT, false);
    if (data == NULL) {
        fprintf(stderr, "walk_capsule: out of memory\n");
        exit(EXIT_FAILURE);
    }
    for (uint8_t i = 0; i < 8; i++) data[i] = (uint8_t)(10 * i);

    const HurrayBufferInfo info = {
        .data = data,
        .byte_size = 8,
        .alignment = HURRAY_MIN_BUFFER_ALIGNMENT,
        .flags = HURRAY_BUFFER_READ_ONLY,
    };
    HurrayBuffer *buffer;
    check(hurray_buffer_create(&info, on_release, name, &buffer), "buffer");

    const uint64_t shape[] = {2, 4};
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 2,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_ROW_MAJOR},
        .buffer_count = 1,
    };
    HurrayTensor *tensor;
    check(hurray_tensor_create(&fields, &buffer, &tensor), "tensor");
    return tensor;
}

int main(void) {
    HurrayTensor *tensor = make_tensor();
    HurrayBufferList *list;
    HurrayTensorContext *context;
    check(hurray_tensor_export(tensor, &list, &context), "export");

    /* List and context keep the memory alive by themselves. */
    hurray_tensor_release(tensor);
    printf("the producer has let go\n");

    if (!consume(list, context)) {
        fprintf(stderr, "walk_capsule: the consumer refused what was exported\n");
        check(hurray_buffer_list_destroy(&list), "destroy");
        check(hurray_tensor_context_destroy(&context), "destroy");
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
