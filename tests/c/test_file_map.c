/*
 * Files that are mapped (src/file_map.h): what becomes of one whose mapping the system refuses. The
 * linker routes mmap through the functions below (--wrap, see meson.build).
 */
#include "files.h"

#include <errno.h>
#include <sys/mman.h>

/* ---- mappings that are refused ---- */

typedef enum Refusal {
    NOTHING,
    WRITABLE,
    ANY
} Refusal;

static Refusal refused = NOTHING;

void *__real_mmap(void *address, size_t length, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t length, int protection, int flags, int file, off_t offset);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int file,
                    off_t offset);
void *__wrap_mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
    bool writable = (protection & PROT_WRITE) != 0;
    if (file >= 0 && (refused == ANY || (refused == WRITABLE && writable))) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap(address, length, protection, flags, file, offset);
}
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int file,
                    off_t offset) {
    return __wrap_mmap(address, length, protection, flags, file, offset);
}

/* Where a private writable mapping of that size is refused, a read-only one will do; where that is,
 * too, reading (spec 8.12). */
static void what_cannot_be_mapped_is_read_only_or_read(void **state) {
    (void)state;
    Bytes bytes = read_vector("files/plain.hrry");
    int descriptor = file_of(bytes);
    for (Refusal refusal = NOTHING; refusal <= ANY; refusal++) {
        const HurrayFileReaderOptions options = {.prefetch = true};
        HurrayFileReader *reader = NULL;
        refused = refusal;
        expect_ok(hurray_file_reader_open_descriptor(descriptor, &options, &reader));
        refused = NOTHING;
        HurrayFileEntry entry;
        HurrayTensor *tensor = NULL, *again = NULL;
        expect_ok(hurray_file_reader_entry(reader, 0, &entry));
        expect_ok(hurray_file_reader_tensor(reader, 0, &tensor));
        expect_ok(hurray_file_reader_tensor(reader, 0, &again));
        const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
        assert_int_equal((info->flags & HURRAY_BUFFER_READ_ONLY) != 0, refusal == WRITABLE);
        assert_int_equal(info->data == hurray_tensor_data(again), refusal != ANY);
        assert_memory_equal(info->data, bytes.data + entry.data_offset, (size_t)entry.data_length);
        hurray_tensor_release(again);
        hurray_tensor_release(tensor);
        expect_ok(hurray_file_reader_destroy(&reader));
    }
    release_bytes(&bytes);
    close(descriptor);
}

/* ---- reading ahead ---- */

static int calls;
static bool third_time_no(void *context) {
    (void)context;
    return ++calls < 3;
}

/* A long one can be interrupted, and nothing stays behind. */
static void reading_ahead_may_be_given_up(void **state) {
    (void)state;
    const uint64_t size = (uint64_t)1 << 30; /* a hole */
    uint8_t header[64];
    raw_header(header, HAS_CRC, 4096, 64);
    Bytes tail = raw_tail(HAS_CRC, size, NULL, 0);
    int descriptor = temporary_file();
    write_at(descriptor, 0, header, sizeof header);
    write_at(descriptor, size, tail.data, tail.size);
    HurrayFileReaderOptions options = {.prefetch = true, .interrupted = third_time_no};
    HurrayFileReader *reader = NULL;
    expect_failure(HURRAY_ERR_INTERRUPTED,
                   hurray_file_reader_open_descriptor(descriptor, &options, &reader));
    assert_null(reader);
    assert_int_equal(calls, 3);
    release_bytes(&tail);
    close(descriptor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_mapped_is_read_only_or_read),
        cmocka_unit_test(reading_ahead_may_be_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
