/*
 * Every allocation in turn fails, in metadata and in the file writer: the operation then says
 * HURRAY_ERR_OUT_OF_MEMORY, leaves its out-parameters alone and the old file in its place, and leaves
 * behind exactly the blocks that were there before.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "failing.h"
#include "tensors.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include <hurray/key_value.h>

/* Its result is freed by the library, so it counts; the C library's own allocations do not fail. */
char *__real_realpath(const char *path, char *out);
char *__wrap_realpath(const char *path, char *out);
char *__wrap_realpath(const char *path, char *out) {
    if (fails()) {
        errno = ENOMEM;
        return NULL;
    }
    char *resolved = __real_realpath(path, out);
    if (resolved != NULL) blocks++;
    return resolved;
}

/* ---- operations, which clean up after themselves when they succeed ---- */

static HurrayStatus fill_metadata(HurrayKeyValues **out) {
    HurrayKeyValues *list = NULL;
    HurrayStatus status = hurray_key_values_create(&list);
    for (uint32_t i = 0; status == HURRAY_OK && i < 40; i++) {
        char key[8];
        const HurrayScalar values[2] = {{.text = {"first", 5}}, {.text = {"second", 6}}};
        const HurrayKeyValue entry = {
            .key = {key, (uint32_t)snprintf(key, sizeof key, "%u", i)},
            .tag = HURRAY_VALUE_ARRAY,
            .element_tag = HURRAY_VALUE_STRING,
            .count = 2,
            .values = values,
        };
        status = hurray_key_values_add(list, &entry);
        /* What failed has not been added, and is not in the way. */
        assert_int_equal(hurray_key_values_count(list), i + (status == HURRAY_OK));
        assert_int_equal(hurray_key_values_find(list, key, entry.key.length) != NULL,
                         status == HURRAY_OK);
    }
    if (status == HURRAY_OK) {
        *out = list;
    } else if (list != NULL) {
        assert_int_equal(hurray_key_values_destroy(&list), HURRAY_OK);
    }
    return status;
}

static HurrayStatus metadata_there_and_back(void) {
    static uint8_t bytes[4096];
    HurrayKeyValues *list = NULL, *again = NULL;
    size_t length = 0;
    HurrayStatus status = fill_metadata(&list);
    if (status != HURRAY_OK) return status;
    status = hurray_key_values_encode(list, bytes, sizeof bytes, &length);
    if (status == HURRAY_OK) status = hurray_key_values_decode(bytes, length, &again);
    assert_int_equal(again != NULL, status == HURRAY_OK);
    assert_int_equal(hurray_key_values_destroy(&again), HURRAY_OK);
    assert_int_equal(hurray_key_values_destroy(&list), HURRAY_OK);
    return status;
}

static HurrayTensor *bytes_tensor, *csr_tensor; /* what is written */
static HurrayKeyValues *metadata;
static char directory[PATH_MAX], path[PATH_MAX + 8];

static HurrayStatus write_items(HurrayFileWriter *writer) {
    char name[32];
    HurrayStatus status = HURRAY_OK;
    for (int i = 0; status == HURRAY_OK && i < 40; i++) {
        snprintf(name, sizeof name, "tensor %d", i);
        uint64_t position = hurray_file_writer_position(writer);
        status = add_tensor(writer, name, i % 2 ? bytes_tensor : csr_tensor);
        if (status != HURRAY_OK) assert_true(hurray_file_writer_position(writer) == position);
    }
    HurrayFileItem many[8];
    for (int i = 0; i < 8; i++) {
        static const char names[] = "abcdefgh";
        many[i] = (HurrayFileItem){&names[i], 1, i % 2 ? bytes_tensor : csr_tensor};
    }
    size_t added = 0;
    if (status == HURRAY_OK) status = hurray_file_writer_add_many(writer, many, 8, &added);
    assert_int_equal(added == 8, status == HURRAY_OK);
    if (status == HURRAY_OK) status = add_head(writer, "head", 2);
    if (status == HURRAY_OK) status = add_tensor(writer, NULL, bytes_tensor);
    if (status == HURRAY_OK) status = add_tensor(writer, NULL, csr_tensor);
    return status == HURRAY_OK ? hurray_file_writer_finish(writer) : status;
}

static const HurrayFileWriterOptions *options(void) {
    static HurrayFileWriterOptions all = {.checksums = true, .sorted_index = true};
    all.metadata = metadata;
    return &all;
}

static HurrayStatus drop(const HurrayBytes *pieces, uint32_t count, void *context) {
    (void)pieces, (void)count, (void)context;
    return HURRAY_OK;
}

static HurrayStatus write_to_sink(void) {
    const HurraySink sink = {drop, NULL};
    HurrayFileWriter *writer = NULL;
    HurrayStatus status = hurray_file_writer_create(&sink, options(), &writer);
    assert_int_equal(writer != NULL, status == HURRAY_OK);
    if (status == HURRAY_OK) status = write_items(writer);
    assert_int_equal(hurray_file_writer_destroy(&writer), HURRAY_OK);
    return status;
}

/* Through a link that leads to nothing yet, and then over the file. */
static HurrayStatus write_to_path(void) {
    HurrayStatus status = HURRAY_OK;
    for (int round = 0; status == HURRAY_OK && round < 2; round++) {
        HurrayFileWriter *writer = NULL;
        status = hurray_file_writer_open(path, options(), &writer);
        if (status == HURRAY_OK) status = write_items(writer);
        assert_int_equal(hurray_file_writer_destroy(&writer), HURRAY_OK);
    }
    return status;
}

/* ---- in turn ---- */

static int files_in_directory(void) {
    DIR *files = opendir(directory);
    int count = -2; /* the directory and its parent */
    assert_non_null(files);
    while (readdir(files) != NULL) count++;
    closedir(files);
    return count;
}

static void remove_target(void) {
    char target[PATH_MAX + 8];
    snprintf(target, sizeof target, "%s/file", directory);
    remove(target);
}

static void each_allocation_fails(const char *name, HurrayStatus (*operation)(void), int least) {
    int before = blocks;
    remove_target();
    calls = 0;
    failing = -1;
    expect_ok(operation());
    int needed = calls;
    assert_true(needed >= least);
    assert_int_equal(blocks, before);
    for (int which = 0; which < needed; which++) {
        remove_target();
        hri_fail(HURRAY_OK, STALE_MESSAGE);
        calls = 0;
        failing = which;
        HurrayStatus status = operation();
        failing = -1;
        if (blocks != before) {
            fail_msg("%s: allocation %d fails: %d blocks left", name, which, blocks - before);
        }
        expect_status_at(status, HURRAY_ERR_OUT_OF_MEMORY, name, __FILE__, __LINE__);
        /* The link, and perhaps the file of a first round. */
        assert_true(files_in_directory() <= 2);
    }
}

static void in_metadata(void **state) {
    (void)state;
    each_allocation_fails("metadata", metadata_there_and_back, 50);
}

static void in_writer(void **state) {
    (void)state;
    each_allocation_fails("sink", write_to_sink, 60);
}

static void on_path(void **state) {
    (void)state;
    each_allocation_fails("path", write_to_path, 130);
}

static int prepare(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/hurray-test-XXXXXX", base == NULL ? "/tmp" : base);
    if (mkdtemp(directory) == NULL) return -1;
    snprintf(path, sizeof path, "%s/link", directory);
    fill_tensor_bytes();
    bytes_tensor = make_bytes_tensor(tensor_bytes, 100);
    csr_tensor = make_csr_tensor(3);
    return fill_metadata(&metadata) == HURRAY_OK ? symlink("file", path) : -1;
}

static int clean_up(void **state) {
    (void)state;
    hurray_key_values_destroy(&metadata);
    hurray_tensor_release(csr_tensor);
    hurray_tensor_release(bytes_tensor);
    remove_target();
    remove(path);
    return rmdir(directory) != 0 || blocks != 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_metadata),
        cmocka_unit_test(in_writer),
        cmocka_unit_test(on_path),
    };
    return cmocka_run_group_tests(tests, prepare, clean_up);
}
