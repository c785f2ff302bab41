/*
 * The established functions (spec 7.2), as a program knows them that was written before this
 * library: everything is declared here, with no header of ours, and linked to the shared library.
 * What is exercised is that each name is there, takes what it says, and does what it means.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- ABI version 4, declared by hand ---- */

typedef int32_t HurrayStatus;

#define HURRAY_C_ABI_VERSION 4

#define HURRAY_OK 0
#define HURRAY_ERR_INVALID_MAGIC (-1)
#define HURRAY_ERR_VERSION_MISMATCH (-2)
#define HURRAY_ERR_INVALID_LAYOUT (-3)
#define HURRAY_ERR_INVALID_TYPE (-4)
#define HURRAY_ERR_BUFFER_TOO_SMALL (-5)
#define HURRAY_ERR_NULL_POINTER (-6)
#define HURRAY_ERR_INTERNAL_PANIC (-7)
#define HURRAY_ERR_INVALID_SYNC_MODE (-8)
#define HURRAY_ERR_SYNC_MODE_MISMATCH (-9)
#define HURRAY_ERR_INTERNAL (-10)
#define HURRAY_ERR_INDEX_OUT_OF_BOUNDS (-11)

typedef struct HurrayBuffer HurrayBuffer;
typedef struct HurrayBufferList HurrayBufferList;
typedef struct HurrayDescriptor HurrayDescriptor;
typedef struct HurrayTensorContext HurrayTensorContext;

typedef void (*HurrayReleaseCallback)(void *data, void *context);
typedef void (*HurrayEventReleaseFn)(void *event, void *context);
typedef void (*HurrayOwnerReleaseFn)(void *owner);

typedef struct HurraySyncEventPayload {
    void *sync_handle;
    uint8_t sync_handle_device_tag;
    HurrayEventReleaseFn event_release_fn;
    void *event_release_context;
} HurraySyncEventPayload;

typedef struct HurraySyncConsumerStreamPayload {
    void *consumer_stream;
    uint8_t consumer_stream_device_tag;
} HurraySyncConsumerStreamPayload;

#ifdef _WIN32
#define IMPORTED __declspec(dllimport)
#else
#define IMPORTED extern
#endif

IMPORTED uint32_t hurray_c_abi_version(void);
IMPORTED const char *hurray_status_name(HurrayStatus);
IMPORTED const char *hurray_error_message(void);

IMPORTED HurrayStatus hurray_buffer_from_ptr(void *data, uint64_t byte_size, uint32_t alignment,
                                             uint8_t device_tag, uint8_t sync_mode,
                                             uint8_t memory_class, HurrayReleaseCallback release,
                                             void *release_context, HurrayBuffer **out);
IMPORTED HurrayStatus hurray_buffer_destroy(HurrayBuffer *);
IMPORTED HurrayStatus hurray_buffer_data_ptr(const HurrayBuffer *, void **);
IMPORTED HurrayStatus hurray_buffer_byte_size(const HurrayBuffer *, uint64_t *);
IMPORTED HurrayStatus hurray_buffer_alignment(const HurrayBuffer *, uint32_t *);
IMPORTED HurrayStatus hurray_buffer_device_tag(const HurrayBuffer *, uint8_t *);
IMPORTED HurrayStatus hurray_buffer_sync_mode(const HurrayBuffer *, uint8_t *);
IMPORTED HurrayStatus hurray_buffer_memory_class(const HurrayBuffer *, uint8_t *);
IMPORTED HurrayStatus hurray_buffer_handoff_producer_synced(const HurrayBuffer *);
IMPORTED HurrayStatus hurray_buffer_handoff_event(const HurrayBuffer *,
                                                  const HurraySyncEventPayload *);
IMPORTED HurrayStatus hurray_buffer_handoff_consumer_stream(
    const HurrayBuffer *, const HurraySyncConsumerStreamPayload *);

IMPORTED HurrayStatus hurray_buffer_list_new(uint64_t capacity_hint, HurrayBufferList **out);
IMPORTED HurrayStatus hurray_buffer_list_push(HurrayBufferList *, HurrayBuffer *);
IMPORTED HurrayStatus hurray_buffer_list_len(const HurrayBufferList *, uint64_t *out);
IMPORTED HurrayStatus hurray_buffer_list_get(const HurrayBufferList *, uint64_t index,
                                             HurrayBuffer **out);
IMPORTED HurrayStatus hurray_buffer_list_destroy(HurrayBufferList **);

IMPORTED HurrayStatus hurray_descriptor_decode(const uint8_t *bytes, uintptr_t len,
                                               HurrayDescriptor **out);
IMPORTED HurrayStatus hurray_descriptor_destroy(HurrayDescriptor *);
IMPORTED HurrayStatus hurray_descriptor_element_type_tag(const HurrayDescriptor *, uint8_t *);
IMPORTED HurrayStatus hurray_descriptor_layout_tag(const HurrayDescriptor *, uint8_t *);
IMPORTED HurrayStatus hurray_descriptor_rank(const HurrayDescriptor *, uint32_t *);
IMPORTED HurrayStatus hurray_descriptor_shape(const HurrayDescriptor *, uint64_t *out_dims,
                                              uintptr_t *inout_rank);
IMPORTED HurrayStatus hurray_descriptor_byte_offset(const HurrayDescriptor *, uint64_t *);
IMPORTED HurrayStatus hurray_descriptor_buffer_count(const HurrayDescriptor *, uint32_t *);

IMPORTED HurrayStatus hurray_tensor_context_new(uint32_t abi_version, const uint8_t *descriptor,
                                                uint64_t len, void *owner,
                                                HurrayOwnerReleaseFn release,
                                                HurrayTensorContext **out);
IMPORTED HurrayStatus hurray_tensor_context_abi_version(const HurrayTensorContext *, uint32_t *out);
IMPORTED HurrayStatus hurray_tensor_context_descriptor(const HurrayTensorContext *,
                                                       const uint8_t **out, uint64_t *out_len);
IMPORTED HurrayStatus hurray_tensor_context_destroy(HurrayTensorContext **);

/* ---- checking ---- */

static int failures;

#define CHECK(condition)   \
    ((condition) ? (void)0 \
                 : (void)(failures++, fprintf(stderr, "line %d: %s\n", __LINE__, #condition)))

/* Succeeds, or fails with this status and a message. */
#define GIVES(expected, call) check_status((call), (expected), #call, __LINE__)

static void check_status(HurrayStatus status, HurrayStatus expected, const char *call, int line) {
    if (status == expected && (status == HURRAY_OK || hurray_error_message()[0] != '\0')) return;
    failures++;
    fprintf(stderr, "line %d: %s gave %s: %s\n", line, call, hurray_status_name(status),
            hurray_error_message());
}

/* ---- buffers ---- */

#if defined(__GNUC__)
#define ALIGNED __attribute__((aligned(64)))
#else
#define ALIGNED _Alignas(64)
#endif
static ALIGNED uint8_t host[256];
static int calls;
static void *last_data, *last_context;

static void on_release(void *data, void *context) {
    calls++;
    last_data = data;
    last_context = context;
}
static void on_owner_release(void *owner) {
    calls++;
    last_context = owner;
}

static void names_and_version(void) {
    CHECK(hurray_c_abi_version() == HURRAY_C_ABI_VERSION);
    static const char *const names[] = {
        "HURRAY_OK",
        "HURRAY_ERR_INVALID_MAGIC",
        "HURRAY_ERR_VERSION_MISMATCH",
        "HURRAY_ERR_INVALID_LAYOUT",
        "HURRAY_ERR_INVALID_TYPE",
        "HURRAY_ERR_BUFFER_TOO_SMALL",
        "HURRAY_ERR_NULL_POINTER",
        "HURRAY_ERR_INTERNAL_PANIC",
        "HURRAY_ERR_INVALID_SYNC_MODE",
        "HURRAY_ERR_SYNC_MODE_MISMATCH",
        "HURRAY_ERR_INTERNAL",
        "HURRAY_ERR_INDEX_OUT_OF_BOUNDS",
    };
    for (int i = 0; i < 12; i++) CHECK(strcmp(hurray_status_name(-i), names[i]) == 0);
}

static void buffers(void) {
    HurrayBuffer *buffer = NULL;
    int context;
    calls = 0;
    GIVES(HURRAY_OK,
          hurray_buffer_from_ptr(host, sizeof host, 64, 0, 0, 0, on_release, &context, &buffer));
    void *data = NULL;
    uint64_t byte_size = 0;
    uint32_t alignment = 0;
    uint8_t device_tag = 9, sync_mode = 9, memory_class = 9;
    GIVES(HURRAY_OK, hurray_buffer_data_ptr(buffer, &data));
    GIVES(HURRAY_OK, hurray_buffer_byte_size(buffer, &byte_size));
    GIVES(HURRAY_OK, hurray_buffer_alignment(buffer, &alignment));
    GIVES(HURRAY_OK, hurray_buffer_device_tag(buffer, &device_tag));
    GIVES(HURRAY_OK, hurray_buffer_sync_mode(buffer, &sync_mode));
    GIVES(HURRAY_OK, hurray_buffer_memory_class(buffer, &memory_class));
    CHECK(data == host && byte_size == sizeof host && alignment == 64);
    CHECK(device_tag == 0 && sync_mode == 0 && memory_class == 0);

    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_data_ptr(NULL, &data));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_data_ptr(buffer, NULL));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_byte_size(NULL, &byte_size));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_byte_size(buffer, NULL));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_alignment(NULL, &alignment));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_alignment(buffer, NULL));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_device_tag(NULL, &device_tag));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_device_tag(buffer, NULL));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_sync_mode(NULL, &sync_mode));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_sync_mode(buffer, NULL));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_memory_class(NULL, &memory_class));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_memory_class(buffer, NULL));

    CHECK(calls == 0);
    GIVES(HURRAY_OK, hurray_buffer_destroy(buffer));
    CHECK(calls == 1 && last_data == host && last_context == &context);
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_destroy(NULL));
}

static void buffers_that_cannot_be(void) {
    HurrayBuffer *buffer = NULL;
    calls = 0;
    GIVES(HURRAY_ERR_NULL_POINTER,
          hurray_buffer_from_ptr(NULL, 0, 64, 0, 0, 0, on_release, NULL, &buffer));
    GIVES(HURRAY_ERR_NULL_POINTER,
          hurray_buffer_from_ptr(host, 16, 64, 0, 0, 0, on_release, NULL, NULL));
    GIVES(HURRAY_ERR_INVALID_LAYOUT,
          hurray_buffer_from_ptr(host, 16, 96, 0, 0, 0, on_release, NULL, &buffer));
    GIVES(HURRAY_ERR_INVALID_LAYOUT,
          hurray_buffer_from_ptr(host + 8, 16, 64, 0, 0, 0, on_release, NULL, &buffer));
    GIVES(HURRAY_ERR_INVALID_TYPE,
          hurray_buffer_from_ptr(host, 16, 64, 0x77, 0, 0, on_release, NULL, &buffer));
    GIVES(HURRAY_ERR_INVALID_TYPE,
          hurray_buffer_from_ptr(host, 16, 64, 0, 0, 9, on_release, NULL, &buffer));
    GIVES(HURRAY_ERR_INVALID_SYNC_MODE,
          hurray_buffer_from_ptr(host, 16, 64, 1, 3, 0, on_release, NULL, &buffer));
    GIVES(HURRAY_ERR_INVALID_SYNC_MODE,
          hurray_buffer_from_ptr(host, 16, 64, 0, 1, 0, on_release, NULL, &buffer));
    CHECK(buffer == NULL && calls == 0);
    /* Without anyone to tell. */
    GIVES(HURRAY_OK, hurray_buffer_from_ptr(host, 16, 64, 0, 0, 0, NULL, NULL, &buffer));
    GIVES(HURRAY_OK, hurray_buffer_destroy(buffer));
}

static HurrayBuffer *on_cuda(uint8_t sync_mode) {
    HurrayBuffer *buffer = NULL;
    /* Never dereferenced. */
    GIVES(HURRAY_OK, hurray_buffer_from_ptr((void *)(uintptr_t)0x4000, 16, 64, 1, sync_mode, 0,
                                            NULL, NULL, &buffer));
    return buffer;
}

static void handoffs(void) {
    for (uint8_t mode = 0; mode < 3; mode++) {
        HurrayBuffer *buffer = on_cuda(mode);
        int handle;
        HurraySyncEventPayload event = {&handle, 1, on_release, NULL};
        HurraySyncConsumerStreamPayload stream = {&handle, 1};
        GIVES(mode == 0 ? HURRAY_OK : HURRAY_ERR_SYNC_MODE_MISMATCH,
              hurray_buffer_handoff_producer_synced(buffer));
        GIVES(mode == 1 ? HURRAY_OK : HURRAY_ERR_SYNC_MODE_MISMATCH,
              hurray_buffer_handoff_event(buffer, &event));
        GIVES(mode == 2 ? HURRAY_OK : HURRAY_ERR_SYNC_MODE_MISMATCH,
              hurray_buffer_handoff_consumer_stream(buffer, &stream));
        event.sync_handle_device_tag = stream.consumer_stream_device_tag = 2;
        GIVES(HURRAY_ERR_SYNC_MODE_MISMATCH, hurray_buffer_handoff_event(buffer, &event));
        GIVES(HURRAY_ERR_SYNC_MODE_MISMATCH,
              hurray_buffer_handoff_consumer_stream(buffer, &stream));
        event = (HurraySyncEventPayload){&handle, 1, NULL, NULL};
        GIVES(HURRAY_ERR_SYNC_MODE_MISMATCH, hurray_buffer_handoff_event(buffer, &event));
        event = (HurraySyncEventPayload){NULL, 1, on_release, NULL};
        stream = (HurraySyncConsumerStreamPayload){NULL, 1};
        GIVES(HURRAY_ERR_SYNC_MODE_MISMATCH, hurray_buffer_handoff_event(buffer, &event));
        GIVES(HURRAY_ERR_SYNC_MODE_MISMATCH,
              hurray_buffer_handoff_consumer_stream(buffer, &stream));
        GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_handoff_event(buffer, NULL));
        GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_handoff_consumer_stream(buffer, NULL));
        GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_handoff_event(NULL, &event));
        GIVES(HURRAY_OK, hurray_buffer_destroy(buffer));
    }
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_handoff_producer_synced(NULL));
}

/* ---- lists ---- */

static void lists(void) {
    HurrayBufferList *list = NULL;
    HurrayBuffer *buffers[5], *found = NULL;
    uint64_t length = 9;
    calls = 0;
    GIVES(HURRAY_OK, hurray_buffer_list_new(2, &list));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_list_new(2, NULL));
    for (int i = 0; i < 5; i++) {
        GIVES(HURRAY_OK, hurray_buffer_from_ptr(host, (uint64_t)i, 64, 0, 0, 0, on_release, NULL,
                                                &buffers[i]));
        GIVES(HURRAY_OK, hurray_buffer_list_push(list, buffers[i]));
    }
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_list_push(list, NULL));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_list_push(NULL, buffers[0]));
    GIVES(HURRAY_OK, hurray_buffer_list_len(list, &length));
    CHECK(length == 5);
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_list_len(NULL, &length));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_list_len(list, NULL));
    for (uint64_t i = 0; i < 5; i++) {
        GIVES(HURRAY_OK, hurray_buffer_list_get(list, i, &found));
        CHECK(found == buffers[i]);
    }
    found = NULL;
    GIVES(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, hurray_buffer_list_get(list, 5, &found));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_list_get(NULL, 0, &found));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_list_get(list, 0, NULL));
    CHECK(found == NULL && calls == 0);
    GIVES(HURRAY_OK, hurray_buffer_list_destroy(&list));
    CHECK(list == NULL && calls == 5);
    GIVES(HURRAY_OK, hurray_buffer_list_destroy(&list));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_buffer_list_destroy(NULL));
}

/* ---- descriptors ---- */

/* float32 [3, 4], row-major, one CPU buffer of 192 bytes, byte_offset 16. */
static const uint8_t example[61] = {
    0x48, 0x52, 0x52, 0x59, 1, 0, 0x3D, 0, 0, 0, 0, 0,  0, 0, 3, 1,  2, 0, 0, 0, 3,
    0,    0,    0,    0,    0, 0, 0,    4, 0, 0, 0, 0,  0, 0, 0, 16, 0, 0, 0, 0, 0,
    0,    0,    1,    0xC0, 0, 0, 0,    0, 0, 0, 0, 64, 0, 0, 0, 0,  0, 0, 0};

static void descriptors(void) {
    HurrayDescriptor *descriptor = NULL;
    uint8_t type_tag = 9, layout_tag = 9;
    uint32_t rank = 9, buffer_count = 9;
    uint64_t byte_offset = 9, dims[3] = {9, 9, 9};
    GIVES(HURRAY_OK, hurray_descriptor_decode(example, sizeof example, &descriptor));
    GIVES(HURRAY_OK, hurray_descriptor_element_type_tag(descriptor, &type_tag));
    GIVES(HURRAY_OK, hurray_descriptor_layout_tag(descriptor, &layout_tag));
    GIVES(HURRAY_OK, hurray_descriptor_rank(descriptor, &rank));
    GIVES(HURRAY_OK, hurray_descriptor_byte_offset(descriptor, &byte_offset));
    GIVES(HURRAY_OK, hurray_descriptor_buffer_count(descriptor, &buffer_count));
    CHECK(type_tag == 3 && layout_tag == 1 && rank == 2 && byte_offset == 16 && buffer_count == 1);

    uintptr_t capacity = 3;
    GIVES(HURRAY_OK, hurray_descriptor_shape(descriptor, dims, &capacity));
    CHECK(capacity == 2 && dims[0] == 3 && dims[1] == 4 && dims[2] == 9);
    capacity = 2;
    GIVES(HURRAY_OK, hurray_descriptor_shape(descriptor, dims, &capacity));
    CHECK(capacity == 2);
    for (uintptr_t few = 0; few < 2; few++) {
        capacity = few;
        dims[0] = 9;
        GIVES(HURRAY_ERR_BUFFER_TOO_SMALL, hurray_descriptor_shape(descriptor, dims, &capacity));
        CHECK(capacity == 2 && dims[0] == 9);
    }
    capacity = 7;
    GIVES(HURRAY_ERR_BUFFER_TOO_SMALL, hurray_descriptor_shape(descriptor, NULL, &capacity));
    CHECK(capacity == 2);

    GIVES(HURRAY_ERR_NULL_POINTER, hurray_descriptor_shape(NULL, dims, &capacity));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_descriptor_shape(descriptor, dims, NULL));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_descriptor_element_type_tag(NULL, &type_tag));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_descriptor_element_type_tag(descriptor, NULL));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_descriptor_layout_tag(NULL, &layout_tag));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_descriptor_layout_tag(descriptor, NULL));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_descriptor_rank(NULL, &rank));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_descriptor_rank(descriptor, NULL));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_descriptor_byte_offset(NULL, &byte_offset));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_descriptor_byte_offset(descriptor, NULL));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_descriptor_buffer_count(NULL, &buffer_count));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_descriptor_buffer_count(descriptor, NULL));
    GIVES(HURRAY_OK, hurray_descriptor_destroy(descriptor));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_descriptor_destroy(NULL));
}

/* The codes programs may rely on. */
static void faulty_descriptors(void) {
    static const struct {
        size_t at;
        uint8_t byte;
        HurrayStatus status;
    } faults[] = {
        {0, 0, HURRAY_ERR_INVALID_MAGIC},      {4, 2, HURRAY_ERR_VERSION_MISMATCH},
        {14, 0, HURRAY_ERR_INVALID_TYPE},      {14, 0x47, HURRAY_ERR_INVALID_TYPE},
        {57, 0x77, HURRAY_ERR_INVALID_TYPE},   {58, 3, HURRAY_ERR_INVALID_SYNC_MODE},
        {58, 1, HURRAY_ERR_INVALID_SYNC_MODE}, {59, 9, HURRAY_ERR_INVALID_TYPE},
        {6, 19, HURRAY_ERR_INVALID_LAYOUT},    {10, 0x20, HURRAY_ERR_INVALID_LAYOUT},
        {16, 65, HURRAY_ERR_INVALID_LAYOUT},   {53, 63, HURRAY_ERR_INVALID_LAYOUT},
        {60, 1, HURRAY_ERR_INVALID_LAYOUT},    {44, 2, HURRAY_ERR_INVALID_LAYOUT},
        {45, 0x10, HURRAY_ERR_INVALID_LAYOUT},
    };
    HurrayDescriptor *descriptor = NULL;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        uint8_t bytes[sizeof example];
        memcpy(bytes, example, sizeof bytes);
        bytes[faults[i].at] = faults[i].byte;
        GIVES(faults[i].status, hurray_descriptor_decode(bytes, sizeof bytes, &descriptor));
    }
    GIVES(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_decode(example, 60, &descriptor));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_descriptor_decode(NULL, 61, &descriptor));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_descriptor_decode(example, 61, NULL));
    CHECK(descriptor == NULL);
}

/* ---- contexts ---- */

static void contexts(void) {
    HurrayTensorContext *context = NULL;
    int owner;
    uint32_t version = 9;
    uint64_t length = 9;
    const uint8_t *bytes = NULL;
    calls = 0;
    GIVES(HURRAY_OK, hurray_tensor_context_new(4, example, sizeof example, &owner, on_owner_release,
                                               &context));
    GIVES(HURRAY_OK, hurray_tensor_context_abi_version(context, &version));
    GIVES(HURRAY_OK, hurray_tensor_context_descriptor(context, &bytes, &length));
    CHECK(version == 4 && length == sizeof example && bytes != example);
    CHECK(bytes != NULL && memcmp(bytes, example, sizeof example) == 0);
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_tensor_context_abi_version(NULL, &version));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_tensor_context_abi_version(context, NULL));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_tensor_context_descriptor(NULL, &bytes, &length));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_tensor_context_descriptor(context, NULL, &length));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_tensor_context_descriptor(context, &bytes, NULL));
    CHECK(calls == 0);
    GIVES(HURRAY_OK, hurray_tensor_context_destroy(&context));
    CHECK(context == NULL && calls == 1 && last_context == &owner);
    GIVES(HURRAY_OK, hurray_tensor_context_destroy(&context));
    GIVES(HURRAY_ERR_NULL_POINTER, hurray_tensor_context_destroy(NULL));
    CHECK(calls == 1);

    GIVES(HURRAY_ERR_NULL_POINTER,
          hurray_tensor_context_new(4, NULL, 1, &owner, on_owner_release, &context));
    GIVES(HURRAY_ERR_NULL_POINTER,
          hurray_tensor_context_new(4, example, 1, &owner, on_owner_release, NULL));
    CHECK(context == NULL && calls == 1);
    GIVES(HURRAY_OK, hurray_tensor_context_new(4, NULL, 0, NULL, NULL, &context));
    GIVES(HURRAY_OK, hurray_tensor_context_descriptor(context, &bytes, &length));
    CHECK(bytes == NULL && length == 0);
    GIVES(HURRAY_OK, hurray_tensor_context_destroy(&context));
}

int main(void) {
    names_and_version();
    buffers();
    buffers_that_cannot_be();
    handoffs();
    lists();
    descriptors();
    faulty_descriptors();
    contexts();
    if (failures == 0) printf("all established functions are as they should be\n");
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
