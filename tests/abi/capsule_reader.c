/*
 * A module that exchanges capsules and knows nothing of libhurray but the layout that
 * <hurray/capsule.h> documents: it includes no header of ours and links no library of ours. As a
 * consumer it reads the two structs and the descriptor's bytes (spec 1); as a producer it makes
 * both, with release functions of its own.
 */
#include "capsule_reader.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

/* ---- the frozen layout ---- */

#define ABI_VERSION 4u

typedef struct Record {
    void *data;
    uint64_t byte_size;
    uint32_t alignment;
    uint8_t device_tag;
    uint8_t sync_mode;
    uint8_t memory_class;
    uint8_t flags; /* bit 0: read-only */
    int32_t device_id;
    uint32_t reserved;
} Record;

typedef struct List {
    char magic[8];
    uint32_t abi_version;
    uint32_t struct_size;
    uint64_t length;
    const Record *records;
    void (*release)(struct List *self);
} List;

typedef struct Context {
    char magic[8];
    uint32_t abi_version;
    uint32_t struct_size;
    const uint8_t *descriptor;
    uint64_t descriptor_length;
    void (*release)(struct Context *self);
} Context;

/* ---- the consumer ---- */

static uint64_t little_endian(const uint8_t *bytes, int count) {
    uint64_t value = 0;
    for (int i = count; i-- > 0;) value = value << 8 | bytes[i];
    return value;
}

static bool is_known(const List *list, const Context *context) {
    if (memcmp(list->magic, "HRRYBUFS", 8) != 0 || memcmp(context->magic, "HRRYCTXT", 8) != 0) {
        return false;
    }
    if (list->abi_version != ABI_VERSION || context->abi_version != ABI_VERSION) return false;
    return list->struct_size >= sizeof *list && context->struct_size >= sizeof *context;
}

static double sum_of(const Record *record) {
    double sum = 0;
    for (uint64_t i = 0; i < record->byte_size / sizeof(float); i++) {
        float value;
        memcpy(&value, (const uint8_t *)record->data + i * sizeof value, sizeof value);
        sum += (double)value;
    }
    return sum;
}

static void read_descriptor(const uint8_t *bytes, Reading *reading) {
    reading->type_tag = bytes[14];
    reading->layout_tag = bytes[15];
    reading->rank = (uint32_t)little_endian(bytes + 16, 4);
    for (uint32_t k = 0; k < reading->rank; k++) {
        reading->shape[k] = little_endian(bytes + 20 + 8 * (size_t)k, 8);
    }
}

EXPORTED bool read_capsule(void *list_pointer, void *context_pointer, Reading *reading);

EXPORTED bool read_capsule(void *list_pointer, void *context_pointer, Reading *reading) {
    List *list = list_pointer;
    Context *context = context_pointer;
    if (!is_known(list, context)) return false;
    if (context->descriptor_length < 20 || memcmp(context->descriptor, "HRRY", 4) != 0)
        return false;
    memset(reading, 0, sizeof *reading);
    read_descriptor(context->descriptor, reading);
    reading->buffer_count = list->length;
    for (uint64_t i = 0; i < list->length && i < 4; i++) {
        reading->byte_sizes[i] = list->records[i].byte_size;
    }
    if (list->length != 0) {
        const Record *first = &list->records[0];
        reading->read_only = (first->flags & 1) != 0;
        reading->device_id = first->device_id;
        if (first->device_tag == 0) reading->sum = sum_of(first);
    }
    list->release(list);
    context->release(context);
    return true;
}

/* ---- the producer ---- */

typedef struct OwnList {
    List head;
    Record record;
    int *released;
} OwnList;

typedef struct OwnContext {
    Context head;
    uint8_t descriptor[53];
    int *released;
} OwnContext;

static void release_list(List *self) {
    ++*((OwnList *)self)->released;
    free(self);
}

static void release_context(Context *self) {
    ++*((OwnContext *)self)->released;
    free(self);
}

static void put(uint8_t *bytes, uint64_t value, int count) {
    for (int i = 0; i < count; i++) bytes[i] = (uint8_t)(value >> 8 * i);
}

/* float32 [count], row-major, one buffer on the CPU. */
static void write_descriptor(uint8_t bytes[53], uint32_t count, uint64_t byte_size) {
    memset(bytes, 0, 53);
    memcpy(bytes, "HRRY\1\0", 6);
    put(bytes + 6, 53, 4);
    bytes[14] = 3;
    bytes[15] = 1;
    put(bytes + 16, 1, 4);
    put(bytes + 20, count, 8);
    bytes[36] = 1;
    put(bytes + 37, byte_size, 8);
    put(bytes + 45, 64, 4);
}

EXPORTED void make_capsule(float *values, uint32_t count, void **list, void **context,
                           int *released);

EXPORTED void make_capsule(float *values, uint32_t count, void **list, void **context,
                           int *released) {
    OwnList *own_list = calloc(1, sizeof *own_list);
    OwnContext *own_context = calloc(1, sizeof *own_context);
    if (own_list == NULL || own_context == NULL) abort();
    uint64_t byte_size = count * (uint64_t)sizeof(float);
    own_list->record = (Record){.data = values, .byte_size = byte_size, .alignment = 64};
    own_list->released = released;
    own_list->head = (List){.abi_version = ABI_VERSION,
                            .struct_size = sizeof *own_list,
                            .length = 1,
                            .records = &own_list->record,
                            .release = release_list};
    memcpy(own_list->head.magic, "HRRYBUFS", 8);
    write_descriptor(own_context->descriptor, count, byte_size);
    own_context->released = released;
    own_context->head = (Context){.abi_version = ABI_VERSION,
                                  .struct_size = sizeof *own_context,
                                  .descriptor = own_context->descriptor,
                                  .descriptor_length = sizeof own_context->descriptor,
                                  .release = release_context};
    memcpy(own_context->head.magic, "HRRYCTXT", 8);
    *list = own_list;
    *context = own_context;
}
