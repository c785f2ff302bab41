/* Buffers: ownership, accessors, handoffs, reference counts (src/buffer.c, spec 1.5, 7.2). */
#include "expect.h"

#include <pthread.h>
#include <stdatomic.h>

#include <hurray/buffer.h>

#include "buffer.h"

/* An owner that counts how often it was told, and with what. */
typedef struct Owner {
    atomic_int released;
    void *data;
} Owner;

static void release_to_owner(void *data, void *context) {
    Owner *owner = context;
    owner->data = data;
    atomic_fetch_add(&owner->released, 1);
}

/* Addresses on devices are never dereferenced, so any number will do. */
static void *device_address(uintptr_t number) { return (void *)number; }

static _Alignas(4096) uint8_t host[8192];

static HurrayBufferInfo host_info(void) {
    return (HurrayBufferInfo){.data = host, .byte_size = sizeof host, .alignment = 4096};
}

static void the_owner_is_told_once_by_the_last_reference(void **state) {
    (void)state;
    Owner owner = {0, NULL};
    HurrayBufferInfo info = host_info();
    HurrayBuffer *buffer = NULL;
    expect_ok(hurray_buffer_create(&info, release_to_owner, &owner, &buffer));
    for (int i = 0; i < 5; i++) assert_ptr_equal(hurray_buffer_retain(buffer), buffer);
    for (int i = 0; i < 5; i++) expect_ok(hurray_buffer_destroy(buffer));
    assert_int_equal(owner.released, 0);
    expect_ok(hurray_buffer_destroy(buffer));
    assert_int_equal(owner.released, 1);
    assert_ptr_equal(owner.data, host);
    /* Without anyone to tell. */
    expect_ok(hurray_buffer_create(&info, NULL, NULL, &buffer));
    expect_ok(hurray_buffer_destroy(buffer));
    /* An abandoned buffer tells nobody. */
    expect_ok(hurray_buffer_create(&info, release_to_owner, &owner, &buffer));
    hri_buffer_abandon(buffer);
    assert_int_equal(owner.released, 1);
    assert_null(hurray_buffer_retain(NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_destroy(NULL));
}

static void what_goes_in_comes_out(void **state) {
    (void)state;
    HurrayBufferInfo info = {
        .data = device_address(0x1040),
        .byte_size = UINT64_C(1) << 40,
        .alignment = 64,
        .device = {HURRAY_DEVICE_CUDA, HURRAY_MEMORY_UNIFIED, 7},
        .sync_mode = HURRAY_SYNC_EVENT,
        .flags = HURRAY_BUFFER_READ_ONLY,
    };
    HurrayBuffer *buffer = NULL;
    expect_ok(hurray_buffer_create(&info, NULL, NULL, &buffer));
    const HurrayBufferInfo *back = hurray_buffer_info(buffer);
    assert_ptr_equal(back->data, info.data);
    assert_true(back->byte_size == info.byte_size);
    assert_int_equal(back->alignment, 64);
    assert_int_equal(back->device.tag, HURRAY_DEVICE_CUDA);
    assert_int_equal(back->device.memory_class, HURRAY_MEMORY_UNIFIED);
    assert_int_equal(back->device.device_id, 7);
    assert_int_equal(back->sync_mode, HURRAY_SYNC_EVENT);
    assert_int_equal(back->flags, HURRAY_BUFFER_READ_ONLY);

    HurrayBufferHandle handle = hurray_buffer_handle(buffer);
    void *data = NULL;
    uint64_t byte_size = 0;
    uint32_t alignment = 0;
    uint8_t device_tag = 0, sync_mode = 0, memory_class = 0;
    expect_ok(hurray_buffer_data_ptr(buffer, &data));
    expect_ok(hurray_buffer_byte_size(buffer, &byte_size));
    expect_ok(hurray_buffer_alignment(buffer, &alignment));
    expect_ok(hurray_buffer_device_tag(buffer, &device_tag));
    expect_ok(hurray_buffer_sync_mode(buffer, &sync_mode));
    expect_ok(hurray_buffer_memory_class(buffer, &memory_class));
    assert_ptr_equal(data, info.data);
    assert_true(byte_size == info.byte_size && handle.byte_size == info.byte_size);
    assert_true(alignment == 64 && handle.alignment == 64);
    assert_true(device_tag == HURRAY_DEVICE_CUDA && handle.device_tag == HURRAY_DEVICE_CUDA);
    assert_true(sync_mode == HURRAY_SYNC_EVENT && handle.sync_mode == HURRAY_SYNC_EVENT);
    assert_true(memory_class == 2 && handle.memory_class == 2);

    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_data_ptr(NULL, &data));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_data_ptr(buffer, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_byte_size(NULL, &byte_size));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_byte_size(buffer, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_alignment(NULL, &alignment));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_alignment(buffer, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_device_tag(NULL, &device_tag));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_device_tag(buffer, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_sync_mode(NULL, &sync_mode));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_sync_mode(buffer, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_memory_class(NULL, &memory_class));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_memory_class(buffer, NULL));
    assert_null(hurray_buffer_info(NULL));
    assert_int_equal(hurray_buffer_handle(NULL).alignment, 0);
    expect_ok(hurray_buffer_destroy(buffer));
}

/* On failure the memory is still the caller's, and the out-parameter untouched. */
static void expect_refused(HurrayStatus expected, HurrayBufferInfo info) {
    Owner owner = {0, NULL};
    HurrayBuffer *const marker = device_address(0x77), *buffer = marker;
    expect_failure(expected, hurray_buffer_create(&info, release_to_owner, &owner, &buffer));
    assert_ptr_equal(buffer, marker);
    assert_int_equal(owner.released, 0);
    if (info.data == NULL || info.flags != 0 || info.device.device_id != 0) return;
    expect_failure(expected,
                   hurray_buffer_from_ptr(info.data, info.byte_size, info.alignment,
                                          info.device.tag, info.sync_mode, info.device.memory_class,
                                          release_to_owner, &owner, &buffer));
    assert_ptr_equal(buffer, marker);
    assert_int_equal(owner.released, 0);
}

static void what_is_refused(void **state) {
    (void)state;
    HurrayBufferInfo info = host_info();
    info.data = NULL;
    expect_refused(HURRAY_ERR_NULL_POINTER, info);
    info.device.tag = HURRAY_DEVICE_CUDA;
    expect_refused(HURRAY_ERR_NULL_POINTER, info);

    /* The address of the host is compared with the promise; that of a device is not. */
    for (uint32_t shift = 1; shift < 4096; shift *= 2) {
        info = host_info();
        info.data = host + shift;
        info.byte_size = 64;
        for (uint32_t alignment = 64; alignment <= 4096; alignment *= 2) {
            info.alignment = alignment;
            info.device.tag = HURRAY_DEVICE_CPU;
            info.flags = 0;
            bool kept = alignment <= shift;
            HurrayBuffer *buffer = NULL;
            if (kept) {
                expect_ok(hurray_buffer_create(&info, NULL, NULL, &buffer));
                expect_ok(hurray_buffer_destroy(buffer));
            } else {
                expect_refused(HURRAY_ERR_INVALID_LAYOUT, info);
            }
            info.device.tag = HURRAY_DEVICE_ROCM;
            expect_ok(hurray_buffer_create(&info, NULL, NULL, &buffer));
            expect_ok(hurray_buffer_destroy(buffer));
            info.flags = HURRAY_BUFFER_STAGED_ON_HOST;
            if (!kept) expect_refused(HURRAY_ERR_INVALID_LAYOUT, info);
        }
    }

    info = host_info();
    info.alignment = 96;
    expect_refused(HURRAY_ERR_INVALID_LAYOUT, info);
    info.alignment = 32;
    expect_refused(HURRAY_ERR_INVALID_LAYOUT, info);
    info = host_info();
    info.sync_mode = HURRAY_SYNC_EVENT;
    expect_refused(HURRAY_ERR_INVALID_SYNC_MODE, info);
    info.sync_mode = 3;
    info.device.tag = HURRAY_DEVICE_CUDA;
    expect_refused(HURRAY_ERR_INVALID_SYNC_MODE, info);
    info = host_info();
    info.device.memory_class = HURRAY_MEMORY_PEER;
    expect_refused(HURRAY_ERR_INVALID_TYPE, info);
    info.device.tag = 9;
    expect_refused(HURRAY_ERR_INVALID_TYPE, info);

    HurrayBuffer *buffer;
    info = host_info();
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_create(NULL, NULL, NULL, &buffer));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_create(&info, NULL, NULL, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_buffer_from_ptr(host, 64, 64, 0, 0, 0, NULL, NULL, NULL));
    for (uint64_t size = 0; size < 2; size++) {
        expect_failure(HURRAY_ERR_NULL_POINTER,
                       hurray_buffer_from_ptr(NULL, size, 64, 0, 0, 0, NULL, NULL, &buffer));
    }
}

static void from_ptr_owns_like_create(void **state) {
    (void)state;
    Owner owner = {0, NULL};
    HurrayBuffer *buffer = NULL;
    expect_ok(hurray_buffer_from_ptr(host + 64, 100, 64, HURRAY_DEVICE_CPU, 0,
                                     HURRAY_MEMORY_HOST_PINNED, release_to_owner, &owner, &buffer));
    const HurrayBufferInfo *info = hurray_buffer_info(buffer);
    assert_ptr_equal(info->data, host + 64);
    assert_int_equal(info->byte_size, 100);
    assert_int_equal(info->device.memory_class, HURRAY_MEMORY_HOST_PINNED);
    assert_int_equal(info->device.device_id, 0);
    assert_int_equal(info->flags, 0);
    expect_ok(hurray_buffer_destroy(buffer));
    assert_int_equal(owner.released, 1);
    assert_ptr_equal(owner.data, host + 64);
}

/* An empty buffer may be at NULL, is released all the same, and needs no 64-alignment. */
static void empty_buffers(void **state) {
    (void)state;
    for (uint32_t alignment = 1; alignment <= 4096; alignment *= 2) {
        Owner owner = {0, host};
        HurrayBufferInfo info = {.alignment = alignment};
        HurrayBuffer *buffer = NULL;
        expect_ok(hurray_buffer_create(&info, release_to_owner, &owner, &buffer));
        expect_ok(hurray_buffer_destroy(buffer));
        assert_int_equal(owner.released, 1);
        assert_null(owner.data);
    }
}

/* ---- allocation ---- */

/* An allocator that counts, and hands out memory of the default one. */
typedef struct Counter {
    int allocated, released;
    size_t size, alignment, released_size;
    bool zeroed;
    size_t misfit; /* how far off the alignment it gives memory */
} Counter;

static void *counting_allocate(size_t size, size_t alignment, bool zeroed, void *context) {
    Counter *counter = context;
    *counter = (Counter){
        counter->allocated + 1, counter->released, size, alignment, counter->released_size, zeroed,
        counter->misfit};
    uint8_t *data = hurray_aligned_alloc(size + counter->misfit, alignment, zeroed);
    return data + counter->misfit;
}

static void counting_release(void *data, size_t size, void *context) {
    Counter *counter = context;
    counter->released++;
    counter->released_size = size;
    hurray_aligned_free((uint8_t *)data - counter->misfit);
}

static void *no_allocation(size_t size, size_t alignment, bool zeroed, void *context) {
    (void)size, (void)alignment, (void)zeroed, (void)context;
    return NULL;
}

static void allocated_buffers_are_aligned_and_writable(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1, 63, 64, 4095, 4096, 4097, 1000000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int own = 0; own < 2; own++) {
            Counter counter = {0};
            HurrayAllocator allocator = {counting_allocate, counting_release, &counter};
            uint32_t alignment = sizes[i] < 4096 ? 64 : 4096;
            HurrayBuffer *buffer = NULL;
            expect_ok(hurray_buffer_allocate(sizes[i], true, own ? &allocator : NULL, &buffer));
            memset(&allocator, 0xFF, sizeof allocator); /* was copied */
            const HurrayBufferInfo *info = hurray_buffer_info(buffer);
            assert_true(info->byte_size == sizes[i]);
            assert_int_equal(info->alignment, alignment);
            assert_int_equal((uintptr_t)info->data % alignment, 0);
            assert_int_equal(info->device.tag, HURRAY_DEVICE_CPU);
            uint8_t *bytes = info->data;
            for (uint64_t k = 0; k < sizes[i]; k++) assert_int_equal(bytes[k], 0);
            memset(bytes, 0x5A, (size_t)sizes[i]);
            expect_ok(hurray_buffer_destroy(buffer));
            assert_int_equal(counter.allocated, own);
            assert_int_equal(counter.released, own);
            if (!own) continue;
            assert_true(counter.size == sizes[i] && counter.released_size == sizes[i]);
            assert_int_equal(counter.alignment, alignment);
            assert_true(counter.zeroed);
        }
    }
}

static void allocating_nothing_asks_nobody(void **state) {
    (void)state;
    Counter counter = {0};
    HurrayAllocator allocator = {counting_allocate, counting_release, &counter};
    for (int own = 0; own < 2; own++) {
        HurrayBuffer *buffer = NULL;
        expect_ok(hurray_buffer_allocate(0, own, own ? &allocator : NULL, &buffer));
        assert_null(hurray_buffer_info(buffer)->data);
        assert_int_equal(hurray_buffer_info(buffer)->alignment, 64);
        expect_ok(hurray_buffer_destroy(buffer));
    }
    assert_int_equal(counter.allocated + counter.released, 0);
}

static void allocation_that_fails_leaves_nothing(void **state) {
    (void)state;
    HurrayBuffer *buffer = device_address(0x77);
    HurrayAllocator none = {no_allocation, counting_release, NULL};
    expect_failure(HURRAY_ERR_OUT_OF_MEMORY, hurray_buffer_allocate(100, false, &none, &buffer));
    expect_failure(HURRAY_ERR_OUT_OF_MEMORY,
                   hurray_buffer_allocate(UINT64_MAX, false, NULL, &buffer));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_allocate(1, false, NULL, NULL));
    /* An allocator that breaks its promise gets its memory back. */
    Counter counter = {.misfit = 8};
    HurrayAllocator sloppy = {counting_allocate, counting_release, &counter};
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_buffer_allocate(100, false, &sloppy, &buffer));
    assert_int_equal(counter.allocated, 1);
    assert_int_equal(counter.released, 1);
    assert_ptr_equal(buffer, device_address(0x77));
}

/* ---- handoff ---- */

static void release_event(void *event, void *context) { (void)event, (void)context; }

static HurrayBuffer *device_buffer(uint8_t device_tag, uint8_t sync_mode) {
    HurrayBuffer *buffer = NULL;
    expect_ok(hurray_buffer_from_ptr(device_address(0x1000), 64, 64, device_tag, sync_mode, 0, NULL,
                                     NULL, &buffer));
    return buffer;
}

static void handoffs_must_match_the_declared_mode(void **state) {
    (void)state;
    HurraySyncEventPayload event = {device_address(1), HURRAY_DEVICE_CUDA, release_event, NULL};
    HurraySyncConsumerStreamPayload stream = {device_address(2), HURRAY_DEVICE_CUDA};
    for (uint8_t mode = 0; mode < 3; mode++) {
        HurrayBuffer *buffer = device_buffer(HURRAY_DEVICE_CUDA, mode);
        HurrayStatus results[3] = {
            hurray_buffer_handoff_producer_synced(buffer),
            hurray_buffer_handoff_event(buffer, &event),
            hurray_buffer_handoff_consumer_stream(buffer, &stream),
        };
        for (uint8_t k = 0; k < 3; k++) {
            assert_int_equal(results[k], k == mode ? HURRAY_OK : HURRAY_ERR_SYNC_MODE_MISMATCH);
        }
        expect_ok(hurray_buffer_destroy(buffer));
    }
}

static void handoffs_must_be_complete(void **state) {
    (void)state;
    const HurraySyncEventPayload event = {device_address(1), HURRAY_DEVICE_ROCM, release_event,
                                          NULL};
    const HurraySyncConsumerStreamPayload stream = {device_address(2), HURRAY_DEVICE_ROCM};
    HurrayBuffer *evented = device_buffer(HURRAY_DEVICE_ROCM, HURRAY_SYNC_EVENT);
    HurrayBuffer *streamed = device_buffer(HURRAY_DEVICE_ROCM, HURRAY_SYNC_CONSUMER_STREAM);
    expect_ok(hurray_buffer_handoff_event(evented, &event));
    expect_ok(hurray_buffer_handoff_consumer_stream(streamed, &stream));

    HurraySyncEventPayload broken = event;
    broken.sync_handle = NULL;
    expect_failure(HURRAY_ERR_SYNC_MODE_MISMATCH, hurray_buffer_handoff_event(evented, &broken));
    broken = event;
    broken.sync_handle_device_tag = HURRAY_DEVICE_CUDA;
    expect_failure(HURRAY_ERR_SYNC_MODE_MISMATCH, hurray_buffer_handoff_event(evented, &broken));
    broken = event;
    broken.event_release_fn = NULL;
    expect_failure(HURRAY_ERR_SYNC_MODE_MISMATCH, hurray_buffer_handoff_event(evented, &broken));
    HurraySyncConsumerStreamPayload lost = {NULL, HURRAY_DEVICE_ROCM};
    expect_failure(HURRAY_ERR_SYNC_MODE_MISMATCH,
                   hurray_buffer_handoff_consumer_stream(streamed, &lost));
    lost = (HurraySyncConsumerStreamPayload){device_address(2), HURRAY_DEVICE_CPU};
    expect_failure(HURRAY_ERR_SYNC_MODE_MISMATCH,
                   hurray_buffer_handoff_consumer_stream(streamed, &lost));

    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_handoff_producer_synced(NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_handoff_event(NULL, &event));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_handoff_event(evented, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_handoff_consumer_stream(NULL, &stream));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_handoff_consumer_stream(streamed, NULL));
    expect_ok(hurray_buffer_destroy(evented));
    expect_ok(hurray_buffer_destroy(streamed));
}

/* ---- threads ---- */

#define THREADS 4
#define ROUNDS 20000

static void *retain_and_drop(void *buffer) {
    for (int i = 0; i < ROUNDS; i++) {
        hurray_buffer_retain(buffer);
        hurray_buffer_destroy(buffer);
    }
    hurray_buffer_destroy(buffer);
    return NULL;
}

/* Each thread holds a reference and lets it go at the end: the last one, whoever it is, releases. */
static void references_are_counted_across_threads(void **state) {
    (void)state;
    Owner owner = {0, NULL};
    HurrayBufferInfo info = host_info();
    HurrayBuffer *buffer = NULL;
    expect_ok(hurray_buffer_create(&info, release_to_owner, &owner, &buffer));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        hurray_buffer_retain(buffer);
        assert_int_equal(pthread_create(&threads[i], NULL, retain_and_drop, buffer), 0);
    }
    assert_int_equal(owner.released, 0); /* ours is still there */
    expect_ok(hurray_buffer_destroy(buffer));
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(owner.released, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_owner_is_told_once_by_the_last_reference),
        cmocka_unit_test(what_goes_in_comes_out),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(from_ptr_owns_like_create),
        cmocka_unit_test(empty_buffers),
        cmocka_unit_test(allocated_buffers_are_aligned_and_writable),
        cmocka_unit_test(allocating_nothing_asks_nobody),
        cmocka_unit_test(allocation_that_fails_leaves_nothing),
        cmocka_unit_test(handoffs_must_match_the_declared_mode),
        cmocka_unit_test(handoffs_must_be_complete),
        cmocka_unit_test(references_are_counted_across_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
