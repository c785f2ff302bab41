/*
 * Buffer lists, tensor contexts, and whole tensors in and out of them (src/capsule.c, spec 7.2,
 * 7.3): what goes in comes out, each owner is told exactly once, and what is refused stays the
 * caller's.
 */
#include "expect.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <hurray/capsule.h>

/* An owner that counts how often it was told. */
typedef struct Owner {
    atomic_int released;
} Owner;

static void release_buffer(void *data, void *context) {
    (void)data;
    atomic_fetch_add(&((Owner *)context)->released, 1);
}

static void release_owner(void *owner) { atomic_fetch_add(&((Owner *)owner)->released, 1); }

static _Alignas(64) uint8_t host[3][4096];

static void *device_address(uintptr_t number) { return (void *)number; }

static HurrayBuffer *new_buffer(HurrayBufferInfo info, Owner *owner) {
    HurrayBuffer *buffer = NULL;
    expect_ok(hurray_buffer_create(&info, release_buffer, owner, &buffer));
    return buffer;
}

static HurrayBufferInfo host_info(int which, uint64_t byte_size) {
    return (HurrayBufferInfo){.data = host[which], .byte_size = byte_size, .alignment = 64};
}

/* ---- lists ---- */

static void lists_hold_what_is_pushed(void **state) {
    (void)state;
    static const uint64_t hints[] = {0, 1, 7, 300, UINT64_MAX};
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        HurrayBufferList *list = NULL;
        Owner owner = {0};
        HurrayBuffer *buffers[600], *found = NULL;
        uint64_t length = 9;
        expect_ok(hurray_buffer_list_new(hints[i], &list));
        expect_ok(hurray_buffer_list_len(list, &length));
        assert_true(length == 0);
        for (uint64_t k = 0; k < 600; k++) {
            expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, hurray_buffer_list_get(list, k, &found));
            assert_null(found);
            buffers[k] = new_buffer(host_info(0, k), &owner);
            expect_ok(hurray_buffer_list_push(list, buffers[k]));
            expect_ok(hurray_buffer_list_len(list, &length));
            assert_true(length == k + 1);
        }
        for (uint64_t k = 0; k < 600; k++) {
            expect_ok(hurray_buffer_list_get(list, k, &found));
            assert_ptr_equal(found, buffers[k]);
        }
        found = NULL;
        expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                       hurray_buffer_list_get(list, UINT64_MAX, &found));
        assert_null(found);
        assert_int_equal(owner.released, 0);
        expect_ok(hurray_buffer_list_destroy(&list));
        assert_null(list);
        assert_int_equal(owner.released, 600);
        expect_ok(hurray_buffer_list_destroy(&list));
    }
}

static void lists_without_arguments(void **state) {
    (void)state;
    HurrayBufferList *list = NULL;
    HurrayBuffer *buffer = NULL;
    Owner owner = {0};
    uint64_t length = 9;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_list_new(0, NULL));
    expect_ok(hurray_buffer_list_new(0, &list));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_list_push(list, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_list_len(NULL, &length));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_list_len(list, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_list_get(NULL, 0, &buffer));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_list_get(list, 0, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_list_destroy(NULL));
    assert_true(length == 9 && buffer == NULL);
    /* A buffer that is not taken stays the caller's. */
    buffer = new_buffer(host_info(0, 64), &owner);
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_list_push(NULL, buffer));
    expect_ok(hurray_buffer_destroy(buffer));
    assert_int_equal(owner.released, 1);
    expect_ok(hurray_buffer_list_destroy(&list));
}

static void records_say_what_buffers_are(void **state) {
    (void)state;
    Owner owner = {0};
    HurrayBufferInfo infos[] = {
        host_info(1, 100),
        {.data = device_address(0x7F0040),
         .byte_size = UINT64_C(1) << 40,
         .alignment = 64,
         .device = {HURRAY_DEVICE_ROCM, HURRAY_MEMORY_PEER, 3},
         .sync_mode = HURRAY_SYNC_CONSUMER_STREAM,
         .flags = HURRAY_BUFFER_READ_ONLY},
        {.alignment = 1},
    };
    HurrayBufferList *list = NULL;
    expect_ok(hurray_buffer_list_new(0, &list));
    for (size_t i = 0; i < 3; i++) {
        expect_ok(hurray_buffer_list_push(list, new_buffer(infos[i], &owner)));
    }
    HurrayBufferListHead *head = (HurrayBufferListHead *)list;
    assert_memory_equal(head->magic, "HRRYBUFS", 8);
    assert_int_equal(head->abi_version, 4);
    assert_true(head->struct_size >= sizeof *head);
    assert_true(head->length == 3);
    for (size_t i = 0; i < 3; i++) {
        const HurrayBufferRecord *record = &head->records[i];
        assert_ptr_equal(record->data, infos[i].data);
        assert_true(record->byte_size == infos[i].byte_size);
        assert_true(record->alignment == infos[i].alignment);
        assert_int_equal(record->device_tag, infos[i].device.tag);
        assert_int_equal(record->memory_class, infos[i].device.memory_class);
        assert_int_equal(record->device_id, infos[i].device.device_id);
        assert_int_equal(record->sync_mode, infos[i].sync_mode);
        assert_true(record->flags == infos[i].flags);
        assert_true(record->reserved == 0);
    }
    head->release(head);
    assert_int_equal(owner.released, 3);
}

/* ---- contexts ---- */

static void contexts_keep_a_copy(void **state) {
    (void)state;
    uint8_t bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)i;
    for (uint64_t length = 0; length <= sizeof bytes; length += 60) {
        Owner owner = {0};
        HurrayTensorContext *context = NULL;
        expect_ok(hurray_tensor_context_new(4, bytes, length, &owner, release_owner, &context));
        const uint8_t *copy = bytes;
        uint64_t copied = 9;
        uint32_t version = 0;
        expect_ok(hurray_tensor_context_abi_version(context, &version));
        assert_int_equal(version, 4);
        expect_ok(hurray_tensor_context_descriptor(context, &copy, &copied));
        assert_true(copied == length);
        assert_true((copy == NULL) == (length == 0));
        if (length != 0) {
            assert_ptr_not_equal(copy, bytes);
            assert_memory_equal(copy, bytes, (size_t)length);
        }
        HurrayTensorContextHead *head = (HurrayTensorContextHead *)context;
        assert_memory_equal(head->magic, "HRRYCTXT", 8);
        assert_int_equal(head->abi_version, 4);
        assert_true(head->struct_size >= sizeof *head);
        assert_ptr_equal(head->descriptor, copy);
        assert_true(head->descriptor_length == length);
        assert_int_equal(owner.released, 0);
        if (length % 120 == 0) {
            head->release(head);
        } else {
            expect_ok(hurray_tensor_context_destroy(&context));
            assert_null(context);
            expect_ok(hurray_tensor_context_destroy(&context));
        }
        assert_int_equal(owner.released, 1);
    }
    /* Nothing to say, nobody to tell, and whatever version the caller says. */
    HurrayTensorContext *context = NULL;
    uint32_t version = 0;
    expect_ok(hurray_tensor_context_new(77, NULL, 0, NULL, NULL, &context));
    expect_ok(hurray_tensor_context_abi_version(context, &version));
    assert_int_equal(version, 77);
    expect_ok(hurray_tensor_context_destroy(&context));
}

static void contexts_without_arguments(void **state) {
    (void)state;
    uint8_t bytes[4] = {0};
    const uint8_t *copy = bytes;
    uint64_t length = 9;
    uint32_t version = 9;
    Owner owner = {0};
    HurrayTensorContext *context = NULL;
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_tensor_context_new(4, bytes, 4, &owner, release_owner, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_tensor_context_new(4, NULL, 1, &owner, release_owner, &context));
    expect_failure(HURRAY_ERR_OUT_OF_MEMORY, hurray_tensor_context_new(4, bytes, UINT64_MAX, &owner,
                                                                       release_owner, &context));
    assert_null(context);
    assert_int_equal(owner.released, 0);
    expect_ok(hurray_tensor_context_new(4, bytes, 4, &owner, release_owner, &context));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_context_abi_version(NULL, &version));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_context_abi_version(context, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_context_descriptor(NULL, &copy, &length));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_tensor_context_descriptor(context, NULL, &length));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_context_descriptor(context, &copy, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_context_destroy(NULL));
    assert_true(copy == bytes && length == 9 && version == 9);
    expect_ok(hurray_tensor_context_destroy(&context));
    assert_int_equal(owner.released, 1);
}

/* ---- tensors ---- */

static const uint64_t shape[2] = {3, 4};

/* The tensors that travel: what their buffers are, and the rest of the descriptor. */
typedef struct Sample {
    const char *name;
    uint32_t buffer_count;
    HurrayBufferInfo buffers[3];
    HurrayDescriptorFields fields;
} Sample;

static const HurrayShard shard = {(uint64_t[]){30, 40}, (uint64_t[]){3, 4}};
static const HurrayStatistics statistics = {.computed_mask = HURRAY_STATISTICS_NNZ, .nnz = 5};

#define DENSE                                     \
    {.type_tag = HURRAY_TYPE_FLOAT32,             \
     .rank = 2,                                   \
     .shape = shape,                              \
     .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}}, \
     .buffer_count = 1}

static const Sample samples[] = {
    {"dense", 1, {{.data = host[0], .byte_size = 48, .alignment = 64}}, DENSE},
    {"csr",
     3,
     {{.data = host[0], .byte_size = 40, .alignment = 64},
      {.data = host[1], .byte_size = 48, .alignment = 64},
      {.data = host[2], .byte_size = 56, .alignment = 64}},
     {.type_tag = HURRAY_TYPE_FLOAT32,
      .rank = 2,
      .shape = shape,
      .layout = {HURRAY_LAYOUT_CSR, {.sparse = {.nnz = 5}}},
      .buffer_count = 3}},
    {"device",
     1,
     {{.data = (void *)(uintptr_t)0xDEAD0040,
       .byte_size = 48,
       .alignment = 64,
       .device = {HURRAY_DEVICE_CUDA, HURRAY_MEMORY_UNIFIED, 5},
       .sync_mode = HURRAY_SYNC_EVENT}},
     DENSE},
    {"read-only",
     1,
     {{.data = host[0], .byte_size = 48, .alignment = 64, .flags = HURRAY_BUFFER_READ_ONLY}},
     DENSE},
    {"staged",
     1,
     {{.data = host[0],
       .byte_size = 48,
       .alignment = 64,
       .device = {HURRAY_DEVICE_VULKAN, HURRAY_MEMORY_STANDARD, 1},
       .flags = HURRAY_BUFFER_STAGED_ON_HOST}},
     DENSE},
    {"empty",
     1,
     {{.alignment = 1}},
     {.type_tag = HURRAY_TYPE_INT8,
      .rank = 1,
      .shape = (const uint64_t[]){0},
      .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
      .buffer_count = 1}},
    {"with sections",
     1,
     {{.data = host[0], .byte_size = 48, .alignment = 64}},
     {.type_tag = HURRAY_TYPE_FLOAT32,
      .rank = 2,
      .shape = shape,
      .layout = {HURRAY_LAYOUT_COL_MAJOR, {NULL}},
      .buffer_count = 1,
      .shard = &shard,
      .statistics = &statistics}},
    /* Its descriptor is longer than what export keeps on the stack. */
    {"of rank 64",
     1,
     {{.data = host[0], .byte_size = 64, .alignment = 64}},
     {.type_tag = HURRAY_TYPE_INT8,
      .rank = 64,
      .shape =
          (const uint64_t[64]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                               1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                               1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 9},
      .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
      .buffer_count = 1}},
};
#define SAMPLE_COUNT (sizeof samples / sizeof samples[0])

static HurrayTensor *make(const Sample *sample, Owner *owner) {
    HurrayBuffer *buffers[3];
    HurrayTensor *tensor = NULL;
    for (uint32_t i = 0; i < sample->buffer_count; i++) {
        buffers[i] = new_buffer(sample->buffers[i], owner);
    }
    expect_ok(hurray_tensor_create(&sample->fields, buffers, &tensor));
    return tensor;
}

/* What crossed over: both structs, and how many owners are to be told in the end. */
typedef struct Crossing {
    HurrayBufferList *list;
    HurrayTensorContext *context;
    Owner owner;
    int owners;
} Crossing;

static Crossing *new_crossing(const Sample *sample) {
    Crossing *crossing = calloc(1, sizeof *crossing);
    assert_non_null(crossing);
    HurrayTensor *tensor = make(sample, &crossing->owner);
    expect_ok(hurray_tensor_export(tensor, &crossing->list, &crossing->context));
    crossing->owners = (int)sample->buffer_count;
    hurray_tensor_release(tensor);
    assert_int_equal(crossing->owner.released, 0);
    return crossing;
}

static HurrayBufferListHead *list_of(const Crossing *crossing) {
    return (HurrayBufferListHead *)crossing->list;
}
static HurrayTensorContextHead *context_of(const Crossing *crossing) {
    return (HurrayTensorContextHead *)crossing->context;
}

/* Both are released, in one order or the other; the buffers outlive all but the last. */
static void finish_crossing(Crossing *crossing, bool list_first) {
    if (list_first) expect_ok(hurray_buffer_list_destroy(&crossing->list));
    if (!list_first) expect_ok(hurray_tensor_context_destroy(&crossing->context));
    assert_int_equal(crossing->owner.released, 0);
    expect_ok(hurray_buffer_list_destroy(&crossing->list));
    expect_ok(hurray_tensor_context_destroy(&crossing->context));
    assert_int_equal(crossing->owner.released, crossing->owners);
    free(crossing);
}

static void expect_same(const Sample *sample, const HurrayTensor *tensor) {
    HurrayBufferHandle handles[3];
    HurrayDescriptorFields fields = sample->fields;
    fields.buffers = handles;
    for (uint32_t i = 0; i < sample->buffer_count; i++) {
        const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, i));
        const HurrayBufferInfo *expected = &sample->buffers[i];
        handles[i] =
            (HurrayBufferHandle){expected->byte_size, expected->alignment, expected->device.tag,
                                 expected->sync_mode, expected->device.memory_class};
        assert_ptr_equal(info->data, expected->data);
        assert_int_equal(info->device.device_id, expected->device.device_id);
        assert_true(info->flags == expected->flags);
    }
    assert_true(hurray_descriptor_equal(hurray_tensor_fields(tensor), &fields));
}

static void tensors_cross_over(void **state) {
    (void)state;
    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        Crossing *crossing = new_crossing(&samples[i]);
        assert_true(list_of(crossing)->length == samples[i].buffer_count);
        HurrayTensor *tensor = NULL;
        expect_ok(hurray_tensor_import(list_of(crossing), context_of(crossing), NULL, &tensor));
        expect_same(&samples[i], tensor);
        /* And on. */
        HurrayBufferList *list = NULL;
        HurrayTensorContext *context = NULL;
        HurrayTensor *further = NULL;
        expect_ok(hurray_tensor_export(tensor, &list, &context));
        hurray_tensor_release(tensor);
        expect_ok(hurray_tensor_import((HurrayBufferListHead *)list,
                                       (HurrayTensorContextHead *)context, NULL, &further));
        expect_same(&samples[i], further);
        assert_int_equal(crossing->owner.released, 0);
        hurray_tensor_release(further);
        assert_int_equal(crossing->owner.released, crossing->owners);
        free(crossing);
    }
}

static void what_nobody_consumes_is_released(void **state) {
    (void)state;
    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        finish_crossing(new_crossing(&samples[i]), true);
        finish_crossing(new_crossing(&samples[i]), false);
    }
}

/* What is pushed is the list's; what was there before is the tensor's, whatever becomes of the list. */
static void exported_lists_take_more(void **state) {
    (void)state;
    for (int more = 1; more <= 9; more += 4) {
        Crossing *crossing = new_crossing(&samples[1]);
        Owner others = {0};
        const HurrayBufferInfo info = samples[1].buffers[0];
        HurrayBuffer *first = NULL, *again = NULL;
        uint64_t length = 0;
        expect_ok(hurray_buffer_list_get(crossing->list, 0, &first));
        for (int i = 0; i < more; i++) {
            expect_ok(hurray_buffer_list_push(crossing->list, new_buffer(info, &others)));
        }
        expect_ok(hurray_buffer_list_len(crossing->list, &length));
        assert_int_equal(length, 3 + more);
        expect_ok(hurray_buffer_list_get(crossing->list, 0, &again));
        assert_ptr_equal(again, first);
        const HurrayBufferListHead *head = list_of(crossing);
        assert_ptr_equal(head->records[0].data, hurray_buffer_info(first)->data);
        assert_int_equal(head->records[2 + more].byte_size, info.byte_size);
        expect_ok(hurray_buffer_list_destroy(&crossing->list));
        assert_int_equal(others.released, more);
        assert_int_equal(crossing->owner.released, 0);
        expect_ok(hurray_tensor_context_destroy(&crossing->context));
        assert_int_equal(crossing->owner.released, 3);
        free(crossing);
    }
}

/* A buffer that was taken out keeps everything alive. */
static void buffers_outlive_the_tensor(void **state) {
    (void)state;
    Crossing *crossing = new_crossing(&samples[1]);
    HurrayTensor *tensor = NULL;
    expect_ok(hurray_tensor_import(list_of(crossing), context_of(crossing), NULL, &tensor));
    HurrayBuffer *buffer = hurray_buffer_retain(hurray_tensor_buffer(tensor, 2));
    hurray_tensor_release(tensor);
    assert_int_equal(crossing->owner.released, 0);
    expect_ok(hurray_buffer_destroy(buffer));
    assert_int_equal(crossing->owner.released, 3);
    free(crossing);
}

static void *consume(void *argument) {
    Crossing *crossing = argument;
    HurrayTensor *tensor = NULL;
    if (hurray_tensor_import(list_of(crossing), context_of(crossing), NULL, &tensor) != HURRAY_OK) {
        return NULL;
    }
    for (int i = 0; i < 1000; i++) hurray_tensor_release(hurray_tensor_retain(tensor));
    hurray_tensor_release(tensor);
    return crossing;
}

static void another_thread_consumes(void **state) {
    (void)state;
    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        /* The producer keeps a tensor of its own, and lets go meanwhile. */
        Crossing *crossing = calloc(1, sizeof *crossing);
        assert_non_null(crossing);
        HurrayTensor *tensor = make(&samples[i], &crossing->owner);
        expect_ok(hurray_tensor_export(tensor, &crossing->list, &crossing->context));
        pthread_t thread;
        void *result = NULL;
        assert_int_equal(pthread_create(&thread, NULL, consume, crossing), 0);
        for (int k = 0; k < 1000; k++) hurray_tensor_release(hurray_tensor_retain(tensor));
        hurray_tensor_release(tensor);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, crossing);
        assert_int_equal(crossing->owner.released, (int)samples[i].buffer_count);
        free(crossing);
    }
}

/* ---- what is refused ---- */

typedef void (*Fault)(HurrayBufferListHead *list, HurrayTensorContextHead *context,
                      HurrayBufferRecord *record);

#define FAULT(name, statement)                                                     \
    static void name(HurrayBufferListHead *list, HurrayTensorContextHead *context, \
                     HurrayBufferRecord *record) {                                 \
        (void)list, (void)context, (void)record;                                   \
        statement;                                                                 \
    }

FAULT(list_magic, list->magic[7] ^= 1)
FAULT(context_magic, context->magic[0] = 0)
FAULT(list_version, list->abi_version = 5)
FAULT(context_version, context->abi_version = 3)
FAULT(list_size, list->struct_size = sizeof *list - 1)
FAULT(context_size, context->struct_size = 0)
FAULT(list_release, list->release = NULL)
FAULT(context_release, context->release = NULL)
FAULT(no_records, list->records = NULL)
FAULT(fewer_buffers, list->length--)
FAULT(more_buffers, list->length++)
FAULT(many_buffers, list->length += UINT64_C(1) << 32)
FAULT(byte_size, record->byte_size++)
FAULT(alignment, record->alignment *= 2)
FAULT(device_tag, record->device_tag = HURRAY_DEVICE_CUDA)
FAULT(sync_mode, record->sync_mode = HURRAY_SYNC_EVENT)
FAULT(memory_class, record->memory_class = HURRAY_MEMORY_UNIFIED)
FAULT(device_id, record->device_id = 1)
FAULT(staging, record->flags ^= HURRAY_BUFFER_STAGED_ON_HOST)
FAULT(no_data, record->data = NULL)
FAULT(misplaced, record->data = (uint8_t *)record->data + 1)
FAULT(no_descriptor, context->descriptor = NULL)
FAULT(short_descriptor, context->descriptor_length--)

static const struct {
    const char *name;
    Fault fault;
    HurrayStatus status;
} faults[] = {
    {"list magic", list_magic, HURRAY_ERR_INVALID_MAGIC},
    {"context magic", context_magic, HURRAY_ERR_INVALID_MAGIC},
    {"list version", list_version, HURRAY_ERR_VERSION_MISMATCH},
    {"context version", context_version, HURRAY_ERR_VERSION_MISMATCH},
    {"list size", list_size, HURRAY_ERR_INVALID_LAYOUT},
    {"context size", context_size, HURRAY_ERR_INVALID_LAYOUT},
    {"list release", list_release, HURRAY_ERR_NULL_POINTER},
    {"context release", context_release, HURRAY_ERR_NULL_POINTER},
    {"no records", no_records, HURRAY_ERR_NULL_POINTER},
    {"fewer buffers", fewer_buffers, HURRAY_ERR_INVALID_LAYOUT},
    {"more buffers", more_buffers, HURRAY_ERR_INVALID_LAYOUT},
    {"many buffers", many_buffers, HURRAY_ERR_INVALID_LAYOUT},
    {"byte size", byte_size, HURRAY_ERR_INVALID_LAYOUT},
    {"alignment", alignment, HURRAY_ERR_INVALID_LAYOUT},
    {"device tag", device_tag, HURRAY_ERR_INVALID_LAYOUT},
    {"sync mode", sync_mode, HURRAY_ERR_INVALID_LAYOUT},
    {"memory class", memory_class, HURRAY_ERR_INVALID_LAYOUT},
    {"device id", device_id, HURRAY_ERR_INVALID_LAYOUT},
    {"staging", staging, HURRAY_ERR_INVALID_ARGUMENT},
    {"no data", no_data, HURRAY_ERR_NULL_POINTER},
    {"misplaced", misplaced, HURRAY_ERR_INVALID_LAYOUT},
    {"no descriptor", no_descriptor, HURRAY_ERR_NULL_POINTER},
    {"short descriptor", short_descriptor, HURRAY_ERR_INVALID_LAYOUT},
};

/* Each fault in a CSR tensor, in each of its records; then the structs, put right, still work. */
static void faults_are_refused_and_stay_the_callers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        for (int which = 0; which < 3; which++) {
            Crossing *crossing = new_crossing(&samples[1]);
            HurrayBufferListHead *list = list_of(crossing), list_before = *list;
            HurrayTensorContextHead *context = context_of(crossing), context_before = *context;
            HurrayBufferRecord records[4] = {list->records[0], list->records[1], list->records[2],
                                             list->records[2]};
            list->records = records;
            HurrayTensor *const untouched = (void *)records, *tensor = untouched;
            faults[i].fault(list, context, &records[which]);
            hri_fail(HURRAY_OK, STALE_MESSAGE);
            expect_status_at(hurray_tensor_import(list, context, NULL, &tensor), faults[i].status,
                             faults[i].name, __FILE__, __LINE__);
            assert_ptr_equal(tensor, untouched);
            assert_int_equal(crossing->owner.released, 0);
            *list = list_before;
            *context = context_before;
            expect_ok(hurray_tensor_import(list, context, NULL, &tensor));
            hurray_tensor_release(tensor);
            assert_int_equal(crossing->owner.released, 3);
            free(crossing);
        }
    }
}

/* What can be said before anything behind the heads is read: all faults up to "fewer buffers". */
static void heads_are_checked_by_themselves(void **state) {
    (void)state;
    Crossing *crossing = new_crossing(&samples[0]);
    HurrayBufferListHead *list = list_of(crossing), list_before = *list;
    HurrayTensorContextHead *context = context_of(crossing), context_before = *context;
    expect_ok(hurray_capsule_check(list, context));
    for (size_t i = 0; faults[i].fault != fewer_buffers; i++) {
        faults[i].fault(list, context, NULL);
        expect_status_at(hurray_capsule_check(list, context), faults[i].status, faults[i].name,
                         __FILE__, __LINE__);
        *list = list_before;
        *context = context_before;
    }
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_capsule_check(NULL, context));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_capsule_check(list, NULL));
    list_magic(list, context, NULL); /* comes first */
    expect_failure(HURRAY_ERR_INVALID_MAGIC, hurray_capsule_check(list, NULL));
    *list = list_before;
    finish_crossing(crossing, false);
}

/* Nothing past the magic of a foreign struct is read: it may be shorter than ours. */
static void foreign_structs_are_not_looked_into(void **state) {
    (void)state;
    Crossing *crossing = new_crossing(&samples[0]);
    char *foreign = malloc(8);
    assert_non_null(foreign);
    memcpy(foreign, "FOREIGN!", 8);
    HurrayTensor *tensor = NULL;
    expect_failure(HURRAY_ERR_INVALID_MAGIC,
                   hurray_tensor_import((void *)foreign, context_of(crossing), NULL, &tensor));
    expect_failure(HURRAY_ERR_INVALID_MAGIC,
                   hurray_tensor_import(list_of(crossing), (void *)foreign, NULL, &tensor));
    /* Swapped. */
    expect_failure(
        HURRAY_ERR_INVALID_MAGIC,
        hurray_tensor_import((void *)crossing->context, (void *)crossing->list, NULL, &tensor));
    free(foreign);
    finish_crossing(crossing, true);
}

static void crossing_without_arguments(void **state) {
    (void)state;
    Owner owner = {0};
    HurrayTensor *tensor = make(&samples[0], &owner), *made = NULL;
    HurrayBufferList *list = NULL;
    HurrayTensorContext *context = NULL;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_export(NULL, &list, &context));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_export(tensor, NULL, &context));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_export(tensor, &list, NULL));
    assert_true(list == NULL && context == NULL);
    hurray_tensor_release(tensor);
    assert_int_equal(owner.released, 1);
    Crossing *crossing = new_crossing(&samples[0]);
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_tensor_import(NULL, context_of(crossing), NULL, &made));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_tensor_import(list_of(crossing), NULL, NULL, &made));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_tensor_import(list_of(crossing), context_of(crossing), NULL, NULL));
    finish_crossing(crossing, false);
}

/* A head of a composite is no tensor: its members are. */
static void heads_do_not_cross(void **state) {
    (void)state;
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_FLOAT32,
        .rank = 2,
        .shape = shape,
        .layout = {HURRAY_LAYOUT_COMPOSITE, {.composite = {HURRAY_RULE_GROUP, 0, 0}}},
    };
    uint8_t bytes[128];
    uintptr_t length;
    Owner owner = {0};
    HurrayBufferList *list = NULL;
    HurrayTensorContext *context = NULL;
    HurrayTensor *tensor = NULL;
    expect_ok(hurray_descriptor_encode(&fields, bytes, sizeof bytes, &length));
    expect_ok(hurray_buffer_list_new(0, &list));
    expect_ok(hurray_tensor_context_new(4, bytes, length, &owner, release_owner, &context));
    expect_failure(HURRAY_ERR_UNSUPPORTED,
                   hurray_tensor_import((void *)list, (void *)context, NULL, &tensor));
    expect_ok(hurray_buffer_list_destroy(&list));
    expect_ok(hurray_tensor_context_destroy(&context));
    assert_int_equal(owner.released, 1);
}

/* A producer of its own: static structs that are longer than ours, with another release. */
typedef struct Foreign {
    HurrayBufferListHead list;
    uint8_t more[100];
    HurrayBufferRecord record;
    HurrayTensorContextHead context;
    int list_released, context_released;
    bool list_was_first;
} Foreign;

static Foreign foreign;

static void release_foreign_list(HurrayBufferListHead *self) {
    assert_ptr_equal(self, &foreign.list);
    foreign.list_released++;
    foreign.list_was_first = foreign.context_released == 0;
}
static void release_foreign_context(HurrayTensorContextHead *self) {
    assert_ptr_equal(self, &foreign.context);
    foreign.context_released++;
}

static void producers_of_their_own(void **state) {
    (void)state;
    uint8_t bytes[256];
    uintptr_t length;
    HurrayBufferHandle handle = {.byte_size = 48, .alignment = 64};
    HurrayDescriptorFields fields = samples[0].fields;
    fields.buffers = &handle;
    expect_ok(hurray_descriptor_encode(&fields, bytes, sizeof bytes, &length));
    foreign = (Foreign){
        .list = {"HRRYBUFS", 4, sizeof foreign.list + 100, 1, &foreign.record,
                 release_foreign_list},
        .record = {.data = host[0], .byte_size = 48, .alignment = 64, .flags = 0xF1},
        /* Bytes after the descriptor are ignored. */
        .context = {"HRRYCTXT", 4, sizeof foreign.context, bytes, sizeof bytes,
                    release_foreign_context},
    };
    HurrayTensor *tensor = NULL;
    expect_ok(hurray_tensor_import(&foreign.list, &foreign.context, NULL, &tensor));
    assert_true(hurray_tensor_is_read_only(tensor));
    assert_true(hurray_buffer_info(hurray_tensor_buffer(tensor, 0))->flags ==
                HURRAY_BUFFER_READ_ONLY);
    assert_int_equal(foreign.list_released + foreign.context_released, 0);
    hurray_tensor_release(tensor);
    assert_int_equal(foreign.list_released, 1);
    assert_int_equal(foreign.context_released, 1);
    assert_true(foreign.list_was_first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_hold_what_is_pushed),
        cmocka_unit_test(lists_without_arguments),
        cmocka_unit_test(records_say_what_buffers_are),
        cmocka_unit_test(contexts_keep_a_copy),
        cmocka_unit_test(contexts_without_arguments),
        cmocka_unit_test(tensors_cross_over),
        cmocka_unit_test(what_nobody_consumes_is_released),
        cmocka_unit_test(exported_lists_take_more),
        cmocka_unit_test(buffers_outlive_the_tensor),
        cmocka_unit_test(another_thread_consumes),
        cmocka_unit_test(faults_are_refused_and_stay_the_callers),
        cmocka_unit_test(heads_are_checked_by_themselves),
        cmocka_unit_test(foreign_structs_are_not_looked_into),
        cmocka_unit_test(crossing_without_arguments),
        cmocka_unit_test(heads_do_not_cross),
        cmocka_unit_test(producers_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
