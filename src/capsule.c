/* Buffer lists, tensor contexts, and tensors in and out of them (include/hurray/capsule.h). */
#include <hurray/capsule.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "descriptor.h"
#include "fail.h"
#include "references.h"
#include "tensor.h"

struct HurrayBufferList {
    HurrayBufferListHead head;
    HurrayBufferRecord *records; /* what head.records shows */
    HurrayBuffer *const *buffers;
    size_t capacity;   /* of both; 0: they are not the list's own */
    uint64_t borrowed; /* so many of the first buffers are kept by the tensor of an Export */
};

struct HurrayTensorContext {
    HurrayTensorContextHead head;
    void *owner;
    HurrayOwnerReleaseFn release;
    /* the descriptor's bytes follow, where it is not a part of an Export */
};

/* ---- lists ---- */

/* Everything that is the list's own but its struct. */
static void clear_list(HurrayBufferList *list) {
    for (uint64_t i = list->borrowed; i < list->head.length; i++) {
        hurray_buffer_destroy(list->buffers[i]);
    }
    if (list->capacity == 0) return;
    free(list->records);
    free((void *)list->buffers);
}

static void release_list(HurrayBufferListHead *self) {
    HurrayBufferList *list = (HurrayBufferList *)self;
    clear_list(list);
    free(list);
}

/* Makes room for `capacity` buffers, in arrays of the list's own. */
static HurrayStatus reserve(HurrayBufferList *list, uint64_t capacity) {
    if (capacity <= list->capacity) return HURRAY_OK;
    if (capacity > SIZE_MAX / sizeof(HurrayBufferRecord)) return hri_fail_memory(capacity);
    size_t count = (size_t)capacity, length = (size_t)list->head.length;
    HurrayBufferRecord *records = malloc(count * sizeof *records);
    HurrayBuffer **buffers = malloc(count * sizeof *buffers);
    if (records == NULL || buffers == NULL) {
        free(records);
        free(buffers);
        return hri_fail_memory(count * (sizeof *records + sizeof *buffers));
    }
    if (length != 0) {
        memcpy(records, list->records, length * sizeof *records);
        memcpy(buffers, list->buffers, length * sizeof *buffers);
    }
    if (list->capacity != 0) {
        free(list->records);
        free((void *)list->buffers);
    }
    list->head.records = list->records = records;
    list->buffers = buffers;
    list->capacity = count;
    return HURRAY_OK;
}

static void start_list(HurrayBufferList *list, void (*release)(HurrayBufferListHead *self)) {
    *list = (HurrayBufferList){
        .head =
            {
                .abi_version = HURRAY_C_ABI_VERSION,
                .struct_size = (uint32_t)sizeof *list,
                .release = release,
            },
    };
    memcpy(list->head.magic, HURRAY_BUFFER_LIST_MAGIC, sizeof list->head.magic);
}

HurrayStatus hurray_buffer_list_new(uint64_t capacity_hint, HurrayBufferList **out) {
    if (out == NULL) return hri_fail_null("out");
    HurrayBufferList *list = malloc(sizeof *list);
    if (list == NULL) return hri_fail_memory(sizeof *list);
    start_list(list, release_list);
    /* A hint is no promise: more than a descriptor can name is not reserved in advance. */
    HurrayStatus status =
        reserve(list, capacity_hint < HURRAY_MAX_BUFFERS ? capacity_hint : HURRAY_MAX_BUFFERS);
    if (status != HURRAY_OK) {
        release_list(&list->head);
        return status;
    }
    *out = list;
    return HURRAY_OK;
}

static HurrayBufferRecord record_of(const HurrayBuffer *buffer) {
    const HurrayBufferInfo *info = hurray_buffer_info(buffer);
    return (HurrayBufferRecord){
        .data = info->data,
        .byte_size = info->byte_size,
        .alignment = info->alignment,
        .device_tag = info->device.tag,
        .sync_mode = info->sync_mode,
        .memory_class = info->device.memory_class,
        .flags = (uint8_t)info->flags,
        .device_id = info->device.device_id,
    };
}

HurrayStatus hurray_buffer_list_push(HurrayBufferList *list, HurrayBuffer *buffer) {
    if (list == NULL || buffer == NULL) return hri_fail_null(list ? "buffer" : "list");
    if (list->head.length >= list->capacity) {
        HurrayStatus status = reserve(list, list->head.length == 0 ? 4 : 2 * list->head.length);
        if (status != HURRAY_OK) return status;
    }
    list->records[list->head.length] = record_of(buffer);
    ((HurrayBuffer **)list->buffers)[list->head.length++] = buffer;
    return HURRAY_OK;
}

HurrayStatus hurray_buffer_list_len(const HurrayBufferList *list, uint64_t *out) {
    if (list == NULL || out == NULL) return hri_fail_null(out ? "list" : "out");
    *out = list->head.length;
    return HURRAY_OK;
}

HurrayStatus hurray_buffer_list_get(const HurrayBufferList *list, uint64_t index,
                                    HurrayBuffer **out) {
    if (list == NULL || out == NULL) return hri_fail_null(out ? "list" : "out");
    if (index >= list->head.length) {
        return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, "buffer %" PRIu64 " of a list of %" PRIu64,
                        index, list->head.length);
    }
    *out = list->buffers[index];
    return HURRAY_OK;
}

HurrayStatus hurray_buffer_list_destroy(HurrayBufferList **list) {
    if (list == NULL) return hri_fail_null("list");
    if (*list != NULL) (*list)->head.release(&(*list)->head);
    *list = NULL;
    return HURRAY_OK;
}

/* ---- contexts ---- */

static void release_context(HurrayTensorContextHead *self) {
    HurrayTensorContext *context = (HurrayTensorContext *)self;
    if (context->release != NULL) context->release(context->owner);
    free(context);
}

static void start_context(HurrayTensorContext *context, const uint8_t *descriptor, uint64_t length,
                          void (*release)(HurrayTensorContextHead *self)) {
    *context = (HurrayTensorContext){
        .head =
            {
                .abi_version = HURRAY_C_ABI_VERSION,
                .struct_size = (uint32_t)sizeof *context,
                .descriptor = descriptor,
                .descriptor_length = length,
                .release = release,
            },
    };
    memcpy(context->head.magic, HURRAY_TENSOR_CONTEXT_MAGIC, sizeof context->head.magic);
}

HurrayStatus hurray_tensor_context_new(uint32_t abi_version, const uint8_t *descriptor,
                                       uint64_t len, void *owner, HurrayOwnerReleaseFn release,
                                       HurrayTensorContext **out) {
    if (out == NULL) return hri_fail_null("out");
    if (descriptor == NULL && len != 0) return hri_fail_null("descriptor");
    if (len > SIZE_MAX - sizeof(HurrayTensorContext)) return hri_fail_memory(len);
    HurrayTensorContext *context = malloc(sizeof *context + (size_t)len);
    if (context == NULL) return hri_fail_memory(sizeof *context + len);
    uint8_t *copy = (uint8_t *)(context + 1);
    start_context(context, len == 0 ? NULL : copy, len, release_context);
    context->head.abi_version = abi_version;
    context->owner = owner;
    context->release = release;
    if (len != 0) memcpy(copy, descriptor, (size_t)len);
    *out = context;
    return HURRAY_OK;
}

HurrayStatus hurray_tensor_context_abi_version(const HurrayTensorContext *context, uint32_t *out) {
    if (context == NULL || out == NULL) return hri_fail_null(out ? "context" : "out");
    *out = context->head.abi_version;
    return HURRAY_OK;
}

HurrayStatus hurray_tensor_context_descriptor(const HurrayTensorContext *context,
                                              const uint8_t **out, uint64_t *out_len) {
    if (context == NULL || out == NULL || out_len == NULL) {
        return hri_fail_null(context == NULL ? "context" : out == NULL ? "out" : "out_len");
    }
    *out = context->head.descriptor;
    *out_len = context->head.descriptor_length;
    return HURRAY_OK;
}

HurrayStatus hurray_tensor_context_destroy(HurrayTensorContext **context) {
    if (context == NULL) return hri_fail_null("context");
    if (*context != NULL) (*context)->head.release(&(*context)->head);
    *context = NULL;
    return HURRAY_OK;
}

/* ---- export ---- */

/* A list and a context in one block, which is freed with the second of them. */
typedef struct Export {
    HurrayBufferList list; /* first: the same address */
    HurrayTensorContext context;
    HurrayTensor *tensor; /* a reference; it keeps the buffers of the list, too */
    atomic_size_t parts;  /* list and context, as far as they have not been released */
    HurrayBufferRecord records[];
    /* the descriptor's bytes follow */
} Export;

static void release_part(Export *export) {
    if (!references_drop(&export->parts, 1)) return;
    hurray_tensor_release(export->tensor);
    free(export);
}

static void release_exported_list(HurrayBufferListHead *self) {
    Export *export = (Export *)self;
    clear_list(&export->list);
    release_part(export);
}

static void release_exported_context(HurrayTensorContextHead *self) {
    release_part((Export *)((char *)self - offsetof(Export, context)));
}

static HurrayStatus export_encoded(HurrayTensor *tensor, const uint8_t *descriptor, size_t length,
                                   Export **out) {
    uint32_t count = hurray_tensor_fields(tensor)->buffer_count;
    size_t size = sizeof(Export) + count * sizeof(HurrayBufferRecord) + length;
    Export *export = malloc(size);
    if (export == NULL) return hri_fail_memory(size);

    HurrayBuffer *const *buffers = hri_tensor_buffers(tensor);
    for (uint32_t i = 0; i < count; i++) export->records[i] = record_of(buffers[i]);
    uint8_t *bytes = memcpy(export->records + count, descriptor, length);
    start_list(&export->list, release_exported_list);
    export->list.head.length = export->list.borrowed = count;
    export->list.head.records = export->list.records = export->records;
    export->list.buffers = buffers;
    start_context(&export->context, bytes, length, release_exported_context);
    export->tensor = hurray_tensor_retain(tensor);
    atomic_init(&export->parts, 2);
    *out = export;
    return HURRAY_OK;
}

HurrayStatus hurray_tensor_export(HurrayTensor *tensor, HurrayBufferList **out_list,
                                  HurrayTensorContext **out_context) {
    if (tensor == NULL || out_list == NULL || out_context == NULL) {
        return hri_fail_null(tensor == NULL ? "tensor" : out_list ? "out_context" : "out_list");
    }
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    uint8_t usual[HRI_USUAL_DESCRIPTOR_SIZE], *bytes = usual;
    uint64_t size = 0;
    HurrayStatus status = hri_descriptor_write(fields, usual, sizeof usual, &size);
    if (status == HURRAY_OK && size > sizeof usual) {
        bytes = malloc((size_t)size);
        if (bytes == NULL) return hri_fail_memory(size);
        status = hri_descriptor_write(fields, bytes, (size_t)size, &size);
    }
    Export *export = NULL;
    if (status == HURRAY_OK) status = export_encoded(tensor, bytes, (size_t)size, &export);
    if (bytes != usual) free(bytes);
    if (status != HURRAY_OK) return status;
    *out_list = &export->list;
    *out_context = &export->context;
    return HURRAY_OK;
}

/* ---- import ---- */

/* What the head of either begins with; nothing of a foreign struct is read past its magic. */
typedef struct HeadPrefix {
    char magic[8];
    uint32_t abi_version;
    uint32_t struct_size;
} HeadPrefix;

static HurrayStatus check_head(const char *what, const void *head, const char *magic,
                               size_t head_size) {
    HeadPrefix prefix;
    if (memcmp(head, magic, sizeof prefix.magic) != 0) {
        return hri_fail(HURRAY_ERR_INVALID_MAGIC,
                        "the %s does not begin with \"%s\": it was made by another implementation",
                        what, magic);
    }
    memcpy(&prefix, head, sizeof prefix);
    if (prefix.abi_version != HURRAY_C_ABI_VERSION) {
        return hri_fail(HURRAY_ERR_VERSION_MISMATCH,
                        "the %s has ABI version %" PRIu32 "; this library knows %u", what,
                        prefix.abi_version, HURRAY_C_ABI_VERSION);
    }
    if (prefix.struct_size < head_size) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "the %s has struct_size %" PRIu32 "; expected at least %zu", what,
                        prefix.struct_size, head_size);
    }
    return HURRAY_OK;
}

HurrayStatus hurray_capsule_check(const HurrayBufferListHead *list,
                                  const HurrayTensorContextHead *context) {
    if (list == NULL) return hri_fail_null("list");
    HurrayStatus status = check_head("buffer list", list, HURRAY_BUFFER_LIST_MAGIC, sizeof *list);
    if (status != HURRAY_OK) return status;
    if (context == NULL) return hri_fail_null("context");
    status = check_head("tensor context", context, HURRAY_TENSOR_CONTEXT_MAGIC, sizeof *context);
    if (status != HURRAY_OK) return status;
    if (list->release == NULL || context->release == NULL) {
        return hri_fail_null(list->release == NULL ? "list.release" : "context.release");
    }
    if (list->records == NULL && list->length != 0) return hri_fail_null("list.records");
    if (context->descriptor_length > UINTPTR_MAX) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "the tensor context has descriptor_length %" PRIu64
                        ", more than there can be in memory",
                        context->descriptor_length);
    }
    return HURRAY_OK;
}

/* What was taken in; all buffers made of it live as long as one of them does. */
typedef struct Imported {
    HurrayBufferListHead *list;
    HurrayTensorContextHead *context;
} Imported;

static void release_imported(void *data, void *context) {
    (void)data;
    Imported *imported = context;
    imported->list->release(imported->list);
    imported->context->release(imported->context);
}

/* The buffer must be what the descriptor says of it. */
static HurrayStatus check_record(const HurrayBufferRecord *record, const HurrayBufferHandle *handle,
                                 uint64_t index) {
    if (record->byte_size == handle->byte_size && record->device_tag == handle->device_tag &&
        record->sync_mode == handle->sync_mode && record->memory_class == handle->memory_class &&
        record->alignment == handle->alignment) {
        return HURRAY_OK;
    }
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                    "buffer %" PRIu64 " of the list (%" PRIu64 " bytes, alignment %" PRIu32
                    ", device 0x%02X) is not what the descriptor says (%" PRIu64
                    " bytes, alignment %" PRIu32 ", device 0x%02X)",
                    index, record->byte_size, record->alignment, record->device_tag,
                    handle->byte_size, handle->alignment, handle->device_tag);
}

/* What each buffer is, which must be what the descriptor, already checked, says. */
static HurrayStatus read_records(const HurrayBufferListHead *list,
                                 const HurrayDescriptorFields *fields, HurrayBufferInfo *infos) {
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        const HurrayBufferRecord *record = &list->records[i];
        HurrayStatus status = check_record(record, &fields->buffers[i], i);
        if (status != HURRAY_OK) return status;
        infos[i] = (HurrayBufferInfo){
            .data = record->data,
            .byte_size = record->byte_size,
            .alignment = record->alignment,
            .device = {record->device_tag, record->memory_class, record->device_id},
            .sync_mode = record->sync_mode,
            .flags = record->flags & (HURRAY_BUFFER_READ_ONLY | HURRAY_BUFFER_STAGED_ON_HOST),
        };
    }
    return HURRAY_OK;
}

static HurrayStatus import_tensor(HurrayBufferListHead *list, HurrayTensorContextHead *context,
                                  const HurrayDescriptorFields *fields, HurrayTensor **out) {
    if (fields->buffer_count != list->length) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "the list holds %" PRIu64 " buffers, the descriptor names %" PRIu32,
                        list->length, fields->buffer_count);
    }
    if (fields->buffer_count == 0) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "a descriptor without buffers (layout tag 0x%02X) is no tensor",
                        fields->layout.tag);
    }
    HurrayBufferInfo infos[HURRAY_MAX_BUFFERS];
    HurrayBuffer *buffers[HURRAY_MAX_BUFFERS];
    const Imported imported = {list, context};
    HurrayStatus status = read_records(list, fields, infos);
    if (status == HURRAY_OK) {
        status = hri_buffers_create(infos, fields->buffer_count, release_imported, &imported,
                                    sizeof imported, buffers);
    }
    if (status != HURRAY_OK) return status;
    status = hri_tensor_create_checked(fields, buffers, out);
    if (status != HURRAY_OK) hri_buffer_abandon(buffers[0]);
    return status;
}

HurrayStatus hurray_tensor_import(HurrayBufferListHead *list, HurrayTensorContextHead *context,
                                  const HurrayDecodeOptions *options, HurrayTensor **out) {
    if (out == NULL) return hri_fail_null("out");
    HurrayStatus status = hurray_capsule_check(list, context);
    if (status != HURRAY_OK) return status;
    DescriptorScratch scratch;
    const HurrayDescriptorFields *fields = NULL;
    status = hri_descriptor_decode_scratch(
        context->descriptor, (uintptr_t)context->descriptor_length, options, &scratch, &fields);
    if (status != HURRAY_OK) return status;
    status = import_tensor(list, context, fields, out);
    hri_descriptor_scratch_free(&scratch);
    return status;
}
