/*
 * Tensors read into memory (src/file_load.c): many at once, with threads, into one aligned block; rows
 * alone; reads that fail or are interrupted in the middle.
 */
#include "files.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "random.h"

/* ---- a file of some size ---- */

enum {
    TENSORS = 24
};

/* Extents of tensor i, uint8: a few bytes, some pages, and now and then more than a chunk. */
static uint64_t extent_of(uint32_t i) {
    if (i % 8 == 7) return (12u << 20) + i;
    return i % 3 == 0 ? i : 4096 * (uint64_t)(i % 5) + i;
}

static uint8_t byte_of(uint32_t tensor, uint64_t at) {
    return (uint8_t)((at * 31 + at / 4096 * 7 + tensor) ^ at >> 20);
}

static void fill(uint8_t *data, uint32_t tensor, uint64_t size) {
    for (uint64_t k = 0; k < size; k++) data[k] = byte_of(tensor, k);
}

static HurrayTensor *make_tensor(uint32_t i) {
    const uint64_t shape[1] = {extent_of(i)};
    HurrayBuffer *buffer = NULL;
    HurrayTensor *tensor = NULL;
    expect_ok(hurray_buffer_allocate(shape[0], false, NULL, &buffer));
    fill(hurray_buffer_info(buffer)->data, i, shape[0]);
    HurrayDescriptorFields fields = {.type_tag = HURRAY_TYPE_UINT8,
                                     .rank = 1,
                                     .shape = shape,
                                     .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
                                     .buffer_count = 1};
    expect_ok(hurray_tensor_create(&fields, &buffer, &tensor));
    return tensor;
}

static HurrayMemoryFile written;

static int write_file(void **state) {
    (void)state;
    HurraySink sink = hurray_memory_sink(&written);
    HurrayFileWriter *writer = NULL;
    expect_ok(hurray_file_writer_create(&sink, NULL, &writer));
    for (uint32_t i = 0; i < TENSORS; i++) {
        char name[16];
        HurrayTensor *tensor = make_tensor(i);
        snprintf(name, sizeof name, "t%u", i);
        expect_ok(hurray_file_writer_add(writer, name, strlen(name), tensor));
        hurray_tensor_release(tensor);
    }
    expect_ok(hurray_file_writer_finish(writer));
    expect_ok(hurray_file_writer_destroy(&writer));
    return 0;
}

static int free_file(void **state) {
    (void)state;
    hurray_aligned_free(written.bytes);
    return 0;
}

static Bytes file_bytes(void) { return (Bytes){written.bytes, written.size}; }

/* ---- an allocator that counts ---- */

typedef struct Counted {
    atomic_size_t blocks, bytes, released;
} Counted;

static void *count_allocation(size_t size, size_t alignment, bool zeroed, void *context) {
    Counted *counted = context;
    assert_true(alignment >= 64);
    counted->blocks++;
    counted->bytes += size;
    return hurray_aligned_alloc(size, alignment, zeroed);
}

static void count_release(void *data, size_t size, void *context) {
    Counted *counted = context;
    counted->released += size;
    hurray_aligned_free(data);
}

static void *refuse_allocation(size_t size, size_t alignment, bool zeroed, void *context) {
    (void)size, (void)alignment, (void)zeroed, (void)context;
    return NULL;
}

/* ---- loading ---- */

static void expect_loaded(HurrayTensor *tensor, uint32_t i) {
    const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
    const uint8_t *data = info->data;
    assert_true(info->byte_size == extent_of(i));
    assert_int_equal(info->flags, 0);
    if (info->byte_size >= 4096) assert_int_equal((uintptr_t)data % 4096, 0);
    for (uint64_t k = 0; k < info->byte_size; k++) {
        if (data[k] != byte_of(i, k)) fail_msg("tensor %u, byte %zu", i, (size_t)k);
    }
}

static void load_all(Way way, uint32_t threads) {
    Bytes bytes = file_bytes();
    Counted counted = {0};
    const HurrayAllocator allocator = {count_allocation, count_release, &counted};
    HurrayFileReaderOptions options = {.access = HURRAY_FILE_READ, .allocator = &allocator};
    HurrayFileReader *reader = NULL;
    HurrayTensor *tensors[TENSORS];
    uint64_t indices[TENSORS], data = 0;
    expect_ok(open_bytes(&bytes, way, &options, &reader));
    for (uint32_t i = 0; i < TENSORS; i++) { /* in an order that is not the file's */
        indices[i] = i * 5 % TENSORS;
        data += extent_of(i);
    }
    expect_ok(hurray_file_reader_tensors(reader, indices, TENSORS, threads, tensors));
    expect_ok(hurray_file_reader_destroy(&reader));
    /* One block: the data, and at most a page of padding for each. */
    assert_int_equal(counted.blocks, 1);
    assert_true(counted.bytes >= data && counted.bytes <= data + TENSORS * 4096);
    for (uint32_t i = 0; i < TENSORS; i++) {
        assert_int_equal(counted.released, 0);
        expect_loaded(tensors[i], (uint32_t)indices[i]);
        hurray_tensor_release(tensors[i]);
    }
    assert_int_equal(counted.released, counted.bytes);
}

static void all_tensors_come_in_one_block_however_many_threads_read(void **state) {
    (void)state;
    const uint32_t threads[] = {0, 1, 2, 8, UINT32_MAX};
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        load_all(BY_READING, threads[i]);
        load_all(BY_COPIED_MEMORY, threads[i]);
    }
    load_all(BY_CALLBACKS, 8); /* one at a time, as they ask for */
}

static void a_mapped_file_gives_views_of_itself(void **state) {
    (void)state;
    Bytes bytes = file_bytes();
    HurrayFileReader *reader = expect_open(&bytes, BY_MAP);
    const uint64_t indices[3] = {23, 7, 7};
    HurrayTensor *tensors[3];
    expect_ok(hurray_file_reader_tensors(reader, indices, 3, 0, tensors));
    expect_ok(hurray_file_reader_destroy(&reader));
    assert_ptr_equal(hurray_tensor_data(tensors[1]), hurray_tensor_data(tensors[2]));
    for (uint32_t i = 0; i < 3; i++) {
        expect_loaded(tensors[i], (uint32_t)indices[i]);
        hurray_tensor_release(tensors[i]);
    }
}

static void a_tensor_asked_for_twice_is_loaded_twice(void **state) {
    (void)state;
    Bytes bytes = file_bytes();
    HurrayFileReader *reader = expect_open(&bytes, BY_READING);
    const uint64_t indices[2] = {4, 4};
    HurrayTensor *tensors[2];
    expect_ok(hurray_file_reader_tensors(reader, indices, 2, 0, tensors));
    assert_ptr_not_equal(hurray_tensor_data(tensors[0]), hurray_tensor_data(tensors[1]));
    for (uint32_t i = 0; i < 2; i++) {
        expect_loaded(tensors[i], 4);
        hurray_tensor_release(tensors[i]);
    }
    expect_ok(hurray_file_reader_tensors(reader, NULL, 0, 0, NULL));
    expect_ok(hurray_file_reader_destroy(&reader));
}

static void all_or_none(void **state) {
    (void)state;
    Bytes bytes = file_bytes();
    const uint64_t indices[3] = {0, 1, TENSORS};
    for (Way way = 0; way < WAYS; way++) {
        HurrayFileReader *reader = expect_open(&bytes, way);
        HurrayTensor *tensors[3] = {NULL, NULL, NULL};
        expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                       hurray_file_reader_tensors(reader, indices, 3, 0, tensors));
        assert_null(tensors[0]);
        expect_ok(hurray_file_reader_destroy(&reader));
    }
    const HurrayAllocator allocator = {refuse_allocation, count_release, NULL};
    HurrayFileReaderOptions options = {.access = HURRAY_FILE_READ, .allocator = &allocator};
    HurrayFileReader *reader = NULL;
    HurrayTensor *tensors[2] = {NULL, NULL};
    expect_ok(open_bytes(&bytes, BY_READING, &options, &reader));
    expect_failure(HURRAY_ERR_OUT_OF_MEMORY,
                   hurray_file_reader_tensors(reader, indices, 2, 0, tensors));
    assert_null(tensors[0]);
    expect_ok(hurray_file_reader_destroy(&reader));
}

/* ---- reads that fail ---- */

/* Callbacks that several threads may use, and that fail from a number on. */
typedef struct Failing {
    atomic_uint reads;
    unsigned failing; /* UINT_MAX: never */
} Failing;

static HurrayStatus read_or_fail(uint64_t offset, uint8_t *bytes, size_t size, void *context) {
    Failing *failing = context;
    if (atomic_fetch_add(&failing->reads, 1) >= failing->failing) {
        return hri_fail_io(EIO, "the disk at %llu is broken", (unsigned long long)offset);
    }
    memcpy(bytes, written.bytes + offset, size);
    return HURRAY_OK;
}

static void a_failure_on_any_thread_is_told_to_the_one_that_asked(void **state) {
    (void)state;
    uint64_t indices[TENSORS];
    for (uint32_t i = 0; i < TENSORS; i++) indices[i] = i;
    bool failed = true;
    for (unsigned more = 0; failed; more++) {
        Failing failing = {0, UINT32_MAX};
        HurrayRandomAccess access = {written.size, read_or_fail, &failing, true};
        HurrayFileReader *reader = NULL;
        HurrayTensor *tensors[TENSORS] = {NULL};
        expect_ok(hurray_file_reader_open_callbacks(&access, NULL, &reader));
        failing.failing = atomic_load(&failing.reads) + more;
        hri_fail_io(ENOENT, STALE_MESSAGE);
        HurrayStatus status = hurray_file_reader_tensors(reader, indices, TENSORS, 4, tensors);
        failed = status != HURRAY_OK;
        if (failed) {
            assert_int_equal(status, HURRAY_ERR_IO);
            assert_int_equal(hurray_error_number(), EIO);
            expect_message("is broken");
        }
        for (uint32_t i = 0; i < TENSORS; i++) {
            assert_int_equal(tensors[i] == NULL, failed);
            hurray_tensor_release(tensors[i]);
        }
        expect_ok(hurray_file_reader_destroy(&reader));
        assert_true(more < 200);
    }
}

/* What is read for a tensor is its descriptor and its data. */
typedef struct Metered {
    uint64_t bytes;
} Metered;

static HurrayStatus read_metered(uint64_t offset, uint8_t *bytes, size_t size, void *context) {
    ((Metered *)context)->bytes += size;
    memcpy(bytes, written.bytes + offset, size);
    return HURRAY_OK;
}

static void a_tensor_costs_its_own_bytes(void **state) {
    (void)state;
    Metered metered = {0};
    HurrayRandomAccess access = {written.size, read_metered, &metered, false};
    HurrayFileReader *reader = NULL;
    expect_ok(hurray_file_reader_open_callbacks(&access, NULL, &reader));
    assert_true(metered.bytes == 64 + 40 + hurray_file_reader_info(reader)->index_length);
    for (uint64_t i = 0; i < TENSORS; i++) {
        HurrayTensor *tensor = NULL;
        HurrayFileEntry entry;
        expect_ok(hurray_file_reader_entry(reader, i, &entry));
        metered.bytes = 0;
        expect_ok(hurray_file_reader_tensor(reader, i, &tensor));
        assert_true(metered.bytes == entry.descriptor_length + entry.data_length);
        hurray_tensor_release(tensor);
        if (entry.data_length < 8) continue;
        metered.bytes = 0;
        expect_ok(hurray_file_reader_rows(reader, i, 3, 8, &tensor));
        assert_true(metered.bytes == entry.descriptor_length + 5);
        hurray_tensor_release(tensor);
    }
    expect_ok(hurray_file_reader_destroy(&reader));
}

/* Which thread filled each huge page. */
typedef struct Pages {
    pthread_mutex_t lock;
    uintptr_t base; /* of the data, from `reading` on */
    pthread_t thread[64];
    bool filled[64];
    int shared;
} Pages;

static HurrayStatus read_pages(uint64_t offset, uint8_t *bytes, size_t size, void *context) {
    Pages *pages = context;
    memcpy(bytes, written.bytes + offset, size);
    if (pages->base == 0 || size < 8192) return HURRAY_OK; /* descriptors, and before loading */
    pthread_mutex_lock(&pages->lock);
    for (uintptr_t page = (uintptr_t)bytes >> 21; page <= ((uintptr_t)bytes + size - 1) >> 21;
         page++) {
        size_t i = page - (pages->base >> 21);
        assert_true(i < 64);
        pages->shared += pages->filled[i] && !pthread_equal(pages->thread[i], pthread_self());
        pages->thread[i] = pthread_self();
        pages->filled[i] = true;
    }
    pthread_mutex_unlock(&pages->lock);
    return HURRAY_OK;
}

static void *keep_base(size_t size, size_t alignment, bool zeroed, void *context) {
    uint8_t *data = hurray_aligned_alloc(size, alignment, zeroed);
    ((Pages *)context)->base = (uintptr_t)data;
    return data;
}

static void release_base(void *data, size_t size, void *context) {
    (void)size, (void)context;
    hurray_aligned_free(data);
}

/* Or each of them would clear it first. */
static void a_huge_page_is_filled_by_one_thread(void **state) {
    (void)state;
    Pages pages = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const HurrayAllocator allocator = {keep_base, release_base, &pages};
    const HurrayFileReaderOptions options = {.allocator = &allocator};
    const HurrayRandomAccess access = {written.size, read_pages, &pages, true};
    HurrayFileReader *reader = NULL;
    HurrayTensor *tensors[TENSORS];
    uint64_t indices[TENSORS];
    for (uint32_t i = 0; i < TENSORS; i++) indices[i] = i;
    expect_ok(hurray_file_reader_open_callbacks(&access, &options, &reader));
    expect_ok(hurray_file_reader_tensors(reader, indices, TENSORS, 2, tensors));
    assert_int_equal(pages.base % (2 << 20), 0);
    assert_true(pages.filled[0] && pages.filled[17]); /* of 36 MiB */
    assert_int_equal(pages.shared, 0);
    for (uint32_t i = 0; i < TENSORS; i++) {
        expect_loaded(tensors[i], i);
        hurray_tensor_release(tensors[i]);
    }
    expect_ok(hurray_file_reader_destroy(&reader));
}

static bool give_up(void *context) {
    (*(int *)context)++;
    return false;
}

static void reading_much_may_be_given_up(void **state) {
    (void)state;
    int asked = 0;
    Bytes bytes = file_bytes();
    HurrayFileReaderOptions options = {
        .access = HURRAY_FILE_READ, .interrupted = give_up, .interrupt_context = &asked};
    HurrayFileReader *reader = NULL;
    HurrayTensor *tensor = NULL;
    expect_ok(open_bytes(&bytes, BY_READING, &options, &reader));
    expect_failure(HURRAY_ERR_INTERRUPTED, hurray_file_reader_tensor(reader, 7, &tensor));
    assert_int_equal(asked, 1);
    expect_ok(hurray_file_reader_tensor(reader, 4, &tensor)); /* small: over before one can ask */
    hurray_tensor_release(tensor);
    expect_ok(hurray_file_reader_destroy(&reader));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_tensors_come_in_one_block_however_many_threads_read),
        cmocka_unit_test(a_mapped_file_gives_views_of_itself),
        cmocka_unit_test(a_tensor_asked_for_twice_is_loaded_twice),
        cmocka_unit_test(all_or_none),
        cmocka_unit_test(a_failure_on_any_thread_is_told_to_the_one_that_asked),
        cmocka_unit_test(a_tensor_costs_its_own_bytes),
        cmocka_unit_test(a_huge_page_is_filled_by_one_thread),
        cmocka_unit_test(reading_much_may_be_given_up),
    };
    return cmocka_run_group_tests(tests, write_file, free_file);
}
