/* Buffer lists, tensor contexts, and tensors in and out of them (include/hurray/capsule.h). */
#include <hurray/capsule.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "fail.h"

struct HurrayBufferList {
    HurrayBufferListHead head;
    HurrayBufferRecord *records; /* what head.records shows */
    HurrayBuffer **buffers;
    size_t capacity;
};

struct HurrayTensorContext {
    HurrayTensorContextHead head;
    void *owner;
    HurrayOwnerReleaseFn release;
    uint8_t descriptor[]; /* what head.descriptor shows */
};

/* ---- lists ---- */

static void release_list(HurrayBufferListHead *self) {
    HurrayBufferList *list = (HurrayBufferList *)self;
    for (uint64_t i = 0; i < list->head.length; i++) hurray_buffer_destroy(list->buffers[i]);
    free(list->records);
    free(list->buffers);
    free(list);
}

/* Makes room for `capacity` buffers. */
static HurrayStatus reserve(HurrayBufferList *list, uint64_t capacity) {
    if (capacity <= list->capacity) return HURRAY_OK;
    if (capacity > SIZE_MAX / sizeof(HurrayBufferRecord)) return hri_fail_memory(capacity);
    size_t count = (size_t)capacity;
    HurrayBufferRecord *records = realloc(list->records, count * sizeof *records);
    if (records == NULL) return hri_fail_memory(count * sizeof *records);
    list->head.records = list->records = records;
    HurrayBuffer **buffers = realloc(list->buffers, count * sizeof *buffers);
    if (buffers == NULL) return hri_fail_memory(count * sizeof *buffers);
    list->buffers = buffers;
    list->capacity = count;
    return HURRAY_OK;
}

HurrayStatus hurray_buffer_list_new(uint64_t capacity_hint, HurrayBufferList **out) {
    if (out == NULL) return hri_fail_null("out");
    HurrayBufferList *list = calloc(1, sizeof *list);
    if (list == NULL) return hri_fail_memory(sizeof *list);
    memcpy(list->head.magic, HURRAY_BUFFER_LIST_MAGIC, sizeof list->head.magic);
    list->head.abi_version = HURRAY_C_ABI_VERSION;
    list->head.struct_size = (uint32_t)sizeof *list;
    list->head.release = release_list;
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
    if (list->head.length == list->capacity) {
        HurrayStatus status = reserve(list, list->capacity == 0 ? 4 : 2 * (uint64_t)list->capacity);
        if (status != HURRAY_OK) return status;
    }
    list->records[list->head.length] = record_of(buffer);
    list->buffers[list->head.length++] = buffer;
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
    if (*list != NULL) release_list(&(*list)->head);
    *list = NULL;
    return HURRAY_OK;
}

/* ---- contexts ---- */

static void release_context(HurrayTensorContextHead *self) {
    HurrayTensorContext *context = (HurrayTensorContext *)self;
    if (context->release != NULL) context->release(context->owner);
    free(context);
}

HurrayStatus hurray_tensor_context_new(uint32_t abi_version, const uint8_t *descriptor,
                                       uint64_t len, void *owner, HurrayOwnerReleaseFn release,
                                       HurrayTensorContext **out) {
    if (out == NULL) return hri_fail_null("out");
    if (descriptor == NULL && len != 0) return hri_fail_null("descriptor");
    if (len > SIZE_MAX - sizeof(HurrayTensorContext)) return hri_fail_memory(len);
    HurrayTensorContext *context = malloc(sizeof *context + (size_t)len);
    if (context == NULL) return hri_fail_memory(sizeof *context + len);
    *context = (HurrayTensorContext){
        .head =
            {
                .abi_version = abi_version,
                .struct_size = (uint32_t)sizeof *context,
                .descriptor = len == 0 ? NULL : context->descriptor,
                .descriptor_length = len,
                .release = release_context,
            },
        .owner = owner,
        .release = release,
    };
    memcpy(context->head.magic, HURRAY_TENSOR_CONTEXT_MAGIC, sizeof context->head.magic);
    if (len != 0) memcpy(context->descriptor, descriptor, (size_t)len);
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
    if (*context != NULL) release_context(&(*context)->head);
    *context = NULL;
    return HURRAY_OK;
}

/* ---- export ---- */

static void release_tensor(void *owner) { hurray_tensor_release(owner); }

static HurrayStatus export_list(const HurrayTensor *tensor, HurrayBufferList **out) {
    uint32_t count = hurray_tensor_fields(tensor)->buffer_count;
    HurrayBufferList *list = NULL;
    HurrayStatus status = hurray_buffer_list_new(count, &list);
    for (uint32_t i = 0; status == HURRAY_OK && i < count; i++) {
        HurrayBuffer *buffer = hurray_buffer_retain(hurray_tensor_buffer(tensor, i));
        status = hurray_buffer_list_push(list, buffer);
        if (status != HURRAY_OK) hurray_buffer_destroy(buffer);
    }
    if (status != HURRAY_OK) {
        hurray_buffer_list_destroy(&list);
        return status;
    }
    *out = list;
    return HURRAY_OK;
}

#define SMALL_DESCRIPTOR 512u

static HurrayStatus export_context(HurrayTensor *tensor, HurrayTensorContext **out) {
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    uint64_t size;
    HurrayStatus status = hurray_descriptor_encoded_size(fields, &size);
    if (status != HURRAY_OK) return status;
    uint8_t small[SMALL_DESCRIPTOR], *bytes = small;
    if (size > sizeof small && (bytes = malloc((size_t)size)) == NULL) return hri_fail_memory(size);
    uintptr_t length;
    status = hurray_descriptor_encode(fields, bytes, (uintptr_t)size, &length);
    if (status == HURRAY_OK) {
        status = hurray_tensor_context_new(HURRAY_C_ABI_VERSION, bytes, length, tensor,
                                           release_tensor, out);
    }
    if (status == HURRAY_OK) hurray_tensor_retain(tensor);
    if (bytes != small) free(bytes);
    return status;
}

HurrayStatus hurray_tensor_export(HurrayTensor *tensor, HurrayBufferList **out_list,
                                  HurrayTensorContext **out_context) {
    if (tensor == NULL || out_list == NULL || out_context == NULL) {
        return hri_fail_null(tensor == NULL ? "tensor" : out_list ? "out_context" : "out_list");
    }
    HurrayBufferList *list = NULL;
    HurrayStatus status = export_list(tensor, &list);
    if (status == HURRAY_OK) status = export_context(tensor, out_context);
    if (status != HURRAY_OK) {
        hurray_buffer_list_destroy(&list);
        return status;
    }
    *out_list = list;
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

/* What was taken in, shared by all buffers made of it; released with the last of them. */
typedef struct Imported {
    HurrayBufferListHead *list;
    HurrayTensorContextHead *context;
    atomic_uint buffers;
} Imported;

static void release_imported(void *data, void *context) {
    (void)data;
    Imported *imported = context;
    if (atomic_fetch_sub_explicit(&imported->buffers, 1, memory_order_acq_rel) != 1) return;
    imported->list->release(imported->list);
    imported->context->release(imported->context);
    free(imported);
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

/* Buffers over the records that do not own them yet: their release is set free at the end. */
static HurrayStatus wrap_records(const HurrayBufferListHead *list,
                                 const HurrayDescriptorFields *fields, Imported *imported,
                                 HurrayBuffer **buffers, uint32_t *made) {
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        const HurrayBufferRecord *record = &list->records[i];
        HurrayStatus status = check_record(record, &fields->buffers[i], i);
        if (status != HURRAY_OK) return status;
        HurrayBufferInfo info = {
            .data = record->data,
            .byte_size = record->byte_size,
            .alignment = record->alignment,
            .device = {record->device_tag, record->memory_class, record->device_id},
            .sync_mode = record->sync_mode,
            .flags = record->flags & (HURRAY_BUFFER_READ_ONLY | HURRAY_BUFFER_STAGED_ON_HOST),
        };
        status = hurray_buffer_create(&info, release_imported, imported, &buffers[i]);
        if (status != HURRAY_OK) return status;
        ++*made;
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
    Imported *imported = malloc(sizeof *imported);
    if (imported == NULL) return hri_fail_memory(sizeof *imported);
    imported->list = list;
    imported->context = context;
    /* One more than the buffers, so that nothing is released on the way. */
    atomic_init(&imported->buffers, fields->buffer_count + 1);
    HurrayBuffer *buffers[HURRAY_MAX_BUFFERS];
    uint32_t made = 0;
    HurrayStatus status = wrap_records(list, fields, imported, buffers, &made);
    if (status == HURRAY_OK) status = hurray_tensor_create(fields, buffers, out);
    if (status != HURRAY_OK) {
        for (uint32_t i = 0; i < made; i++) hurray_buffer_destroy(buffers[i]);
        free(imported);
        return status;
    }
    release_imported(NULL, imported);
    return HURRAY_OK;
}

HurrayStatus hurray_tensor_import(HurrayBufferListHead *list, HurrayTensorContextHead *context,
                                  const HurrayDecodeOptions *options, HurrayTensor **out) {
    if (out == NULL) return hri_fail_null("out");
    HurrayStatus status = hurray_capsule_check(list, context);
    if (status != HURRAY_OK) return status;
    HurrayDescriptor *descriptor = NULL;
    status = hurray_descriptor_decode_with(
        context->descriptor, (uintptr_t)context->descriptor_length, options, &descriptor);
    if (status != HURRAY_OK) return status;
    status = import_tensor(list, context, hurray_descriptor_fields(descriptor), out);
    hurray_descriptor_destroy(descriptor);
    return status;
}
