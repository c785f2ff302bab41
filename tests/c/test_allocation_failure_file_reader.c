/*
 * Every allocation of a file reader in turn fails: a function then says HURRAY_ERR_OUT_OF_MEMORY,
 * leaves its out-parameters alone, and leaves behind exactly the blocks that were there before.
 */
#include "files.h"

#include "failing.h"

/* ---- the operations: what each makes, and how it is taken apart ---- */

static void *const untouched = (void *)(uintptr_t)0x77;

static Bytes file;
static HurrayBuffer *memory;

typedef HurrayStatus (*Operation)(HurrayFileReader *reader, void **out);

static HurrayStatus open_way(Way way, void **out) {
    HurrayFileReader *made = *out;
    HurrayStatus status;
    HurrayRandomAccess access = {file.size, read_bytes_at, &file, false};
    if (way == BY_CALLBACKS) {
        status = hurray_file_reader_open_callbacks(&access, NULL, &made);
    } else if (way == BY_MEMORY) {
        status = hurray_file_reader_open_memory(memory, NULL, &made);
    } else {
        char path[1024];
        vector_path("files/nested_sorted.hrry", path);
        status = hurray_file_reader_open(path, NULL, &made);
    }
    *out = made;
    return status;
}

static HurrayStatus open_path(HurrayFileReader *reader, void **out) {
    (void)reader;
    return open_way(BY_MAP, out);
}
static HurrayStatus open_memory(HurrayFileReader *reader, void **out) {
    (void)reader;
    return open_way(BY_MEMORY, out);
}
static HurrayStatus open_callbacks(HurrayFileReader *reader, void **out) {
    (void)reader;
    return open_way(BY_CALLBACKS, out);
}
static void close_reader(void *made) {
    HurrayFileReader *reader = made;
    expect_ok(hurray_file_reader_destroy(&reader));
}

static HurrayStatus get_descriptor(HurrayFileReader *reader, void **out) {
    HurrayDescriptor *made = *out;
    HurrayStatus status = hurray_file_reader_descriptor(reader, 0, &made);
    *out = made;
    return status;
}
static void destroy_descriptor(void *made) { expect_ok(hurray_descriptor_destroy(made)); }

/* An entry with data. */
static uint64_t some_tensor(const HurrayFileReader *reader) {
    HurrayFileEntry entry = {.data_length = 0};
    uint64_t index = 0;
    while (hurray_file_reader_entry(reader, index, &entry) == HURRAY_OK && entry.data_length == 0) {
        index++;
    }
    return index;
}

static HurrayStatus get_tensor(HurrayFileReader *reader, void **out) {
    HurrayTensor *made = *out;
    HurrayStatus status = hurray_file_reader_tensor(reader, some_tensor(reader), &made);
    *out = made;
    return status;
}
static HurrayStatus get_two_tensors(HurrayFileReader *reader, void **out) {
    HurrayTensor *made[2] = {*out, *out};
    const uint64_t indices[2] = {some_tensor(reader), some_tensor(reader)};
    HurrayStatus status = hurray_file_reader_tensors(reader, indices, 2, 1, made);
    if (status == HURRAY_OK) hurray_tensor_release(made[1]);
    *out = made[0];
    return status;
}
static HurrayStatus get_rows(HurrayFileReader *reader, void **out) {
    HurrayTensor *made = *out;
    HurrayStatus status = hurray_file_reader_rows(reader, some_tensor(reader), 0, 1, &made);
    *out = made;
    return status;
}
static void release_tensor(void *made) { hurray_tensor_release(made); }

static HurrayStatus get_metadata(HurrayFileReader *reader, void **out) {
    const HurrayKeyValues *made = *out;
    HurrayStatus status = hurray_file_reader_metadata(reader, &made);
    *out = (void *)(uintptr_t)made;
    return status;
}
static HurrayStatus find_item(HurrayFileReader *reader, void **out) {
    uint64_t head, first = 7, end = 7;
    expect_ok(hurray_file_reader_in_order(reader, 0, &head));
    HurrayStatus status = hurray_file_reader_item(reader, head, &first, &end);
    if (status == HURRAY_OK) *out = reader;
    if (status != HURRAY_OK) assert_true(first == 7 && end == 7);
    return status;
}
static HurrayStatus find_roots(HurrayFileReader *reader, void **out) {
    uint64_t count = 7;
    HurrayStatus status = hurray_file_reader_roots(reader, NULL, 0, &count);
    if (status == HURRAY_OK) *out = reader;
    if (status != HURRAY_OK) assert_true(count == 7);
    return status;
}
static HurrayStatus verify_deeply(HurrayFileReader *reader, void **out) {
    HurrayStatus status = hurray_file_reader_verify(reader, some_tensor(reader), true, NULL);
    if (status == HURRAY_OK) *out = reader;
    return status;
}
static void leave(void *made) { (void)made; }

static const struct {
    const char *name;
    Operation run;
    void (*take_apart)(void *made);
    bool keeps; /* what it made stays with the reader */
} operations[] = {
    {"open_path", open_path, close_reader, false},
    {"open_memory", open_memory, close_reader, false},
    {"open_callbacks", open_callbacks, close_reader, false},
    {"descriptor", get_descriptor, destroy_descriptor, false},
    {"tensor", get_tensor, release_tensor, false},
    {"tensors", get_two_tensors, release_tensor, false},
    {"rows", get_rows, release_tensor, false},
    {"item", find_item, leave, false},
    {"roots", find_roots, leave, false},
    {"verify", verify_deeply, leave, false},
    {"metadata", get_metadata, leave, true},
};

/* How many allocations of an operation failed before it succeeded. */
static int fail_each(size_t operation, HurrayFileReader *reader) {
    for (int which = 0;; which++) {
        assert_true(which < 100);
        int before = blocks;
        void *made = untouched;
        hri_fail(HURRAY_OK, STALE_MESSAGE);
        calls = 0;
        failing = which;
        HurrayStatus status = operations[operation].run(reader, &made);
        failing = -1;
        if (status == HURRAY_OK) {
            assert_true(calls <= which);
            assert_ptr_not_equal(made, untouched);
            operations[operation].take_apart(made);
            if (!operations[operation].keeps) assert_int_equal(blocks, before);
            return which;
        }
        expect_status_at(status, HURRAY_ERR_OUT_OF_MEMORY, operations[operation].name, __FILE__,
                         __LINE__);
        assert_ptr_equal(made, untouched);
        assert_int_equal(blocks, before);
    }
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    const char *const files[] = {"files/nested_sorted.hrry", "files/everything.hrry"};
    for (size_t k = 0; k < 2; k++) {
        file = read_vector(files[k]);
        memory = memory_of(file);
        int before = blocks;
        for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
            for (Way way = BY_MEMORY; way <= BY_CALLBACKS; way++) {
                HurrayFileReader *reader = expect_open(&file, way);
                const HurrayKeyValues *values;
                if (!operations[i].keeps) expect_ok(hurray_file_reader_metadata(reader, &values));
                assert_true(fail_each(i, reader) > 0);
                expect_ok(hurray_file_reader_destroy(&reader));
                assert_int_equal(blocks, before);
            }
        }
        hurray_buffer_destroy(memory);
        release_bytes(&file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
