/*
 * Files read (include/hurray/file_reader.h): the golden ones, in every way that a file can be opened;
 * those that spec 4.6 refuses; what becomes of bytes that are changed or missing; sizes beyond 32 bits;
 * files that change while they are open; threads.
 */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sys/stat.h>

#include "files_table.h"

#define GOLDEN_COUNT (sizeof golden_files / sizeof golden_files[0])
#define REFUSED_COUNT (sizeof refused_files / sizeof refused_files[0])

/* ---- golden files ---- */

static void expect_values(HurrayFileReader *reader, const GoldenFile *file) {
    const HurrayKeyValues *found = NULL, *again = NULL;
    expect_ok(hurray_file_reader_metadata(reader, &found));
    expect_ok(hurray_file_reader_metadata(reader, &again));
    assert_ptr_equal(found, again);
    assert_int_equal(hurray_key_values_count(found), file->value_count);
    for (size_t i = 0; i < file->value_count; i++) {
        const HurrayKeyValue *golden = &file->values[i];
        const HurrayKeyValue *entry =
            hurray_key_values_find(found, golden->key.data, golden->key.length);
        assert_non_null(entry);
        assert_int_equal(entry->tag, golden->tag);
        assert_int_equal(entry->element_tag, golden->element_tag);
        assert_int_equal(entry->count, golden->count);
        uint8_t tag = golden->tag == HURRAY_VALUE_ARRAY ? golden->element_tag : golden->tag;
        for (uint32_t k = 0; k < golden->count; k++) {
            const HurrayScalar *a = &entry->values[k], *b = &golden->values[k];
            if (tag == HURRAY_VALUE_STRING || tag == HURRAY_VALUE_BYTES) {
                assert_int_equal(a->text.length, b->text.length);
                assert_memory_equal(a->text.data, b->text.data, b->text.length);
            } else if (tag == HURRAY_VALUE_BOOL) {
                assert_int_equal(a->boolean, b->boolean);
            } else {
                assert_memory_equal(a, b, sizeof(uint64_t));
            }
        }
    }
}

static void expect_buffers(const HurrayTensor *tensor, const GoldenTensor *golden, Way way) {
    for (uint32_t i = 0; i < golden->fields.buffer_count; i++) {
        const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, i));
        const HurrayBufferHandle *handle = &golden->fields.buffers[i];
        assert_true(info->byte_size == handle->byte_size);
        bool staged = handle->device_tag != HURRAY_DEVICE_CPU;
        assert_int_equal((info->flags & HURRAY_BUFFER_STAGED_ON_HOST) != 0, staged);
        bool read_only = way == BY_MAP_READ_ONLY;
        assert_int_equal((info->flags & HURRAY_BUFFER_READ_ONLY) != 0, read_only);
        if (handle->byte_size == 0) {
            assert_null(info->data);
        } else {
            assert_memory_equal(info->data, golden->buffers[i], (size_t)handle->byte_size);
        }
    }
}

static void expect_tensor(HurrayFileReader *reader, uint64_t index, const GoldenTensor *golden,
                          Way way) {
    HurrayDescriptor *descriptor = NULL;
    expect_ok(hurray_file_reader_descriptor(reader, index, &descriptor));
    assert_true(hurray_descriptor_equal(hurray_descriptor_fields(descriptor), &golden->fields));
    hurray_descriptor_destroy(descriptor);
    HurrayTensor *tensor = NULL;
    if (golden->fields.layout.tag == HURRAY_LAYOUT_COMPOSITE) {
        expect_failure(HURRAY_ERR_INVALID_ARGUMENT,
                       hurray_file_reader_tensor(reader, index, &tensor));
        assert_null(tensor);
    } else {
        expect_ok(hurray_file_reader_tensor(reader, index, &tensor));
        assert_true(hurray_descriptor_equal(hurray_tensor_fields(tensor), &golden->fields));
        expect_buffers(tensor, golden, way);
        hurray_tensor_release(tensor);
    }
    expect_ok(hurray_file_reader_verify(reader, index, false, NULL));
}

static void expect_golden(HurrayFileReader *reader, const GoldenFile *file, Way way) {
    assert_int_equal(hurray_file_reader_count(reader), file->count);
    uint64_t index = 0, previous = 0;
    for (size_t position = 0; position < file->count; position++) {
        const GoldenTensor *golden = &file->tensors[position];
        expect_ok(hurray_file_reader_find(reader, golden->name.data, golden->name.length, &index));
        HurrayFileEntry entry;
        expect_ok(hurray_file_reader_entry(reader, index, &entry));
        assert_int_equal(entry.name_length, golden->name.length);
        assert_memory_equal(entry.name, golden->name.data, entry.name_length);
        assert_true(entry.descriptor_offset > previous);
        previous = entry.descriptor_offset;
        uint64_t at_position;
        expect_ok(hurray_file_reader_in_order(reader, position, &at_position));
        assert_int_equal(at_position, index);
        expect_tensor(reader, index, golden, way);
    }
    expect_failure(HURRAY_ERR_NOT_FOUND, hurray_file_reader_find(reader, "no such", 7, &index));
    expect_message("\"no such\"");
    expect_failure(HURRAY_ERR_NOT_FOUND, hurray_file_reader_find(reader, "", 0, &index));
    HurrayFileEntry none;
    expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                   hurray_file_reader_entry(reader, file->count, &none));
    expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                   hurray_file_reader_in_order(reader, file->count, &index));
    expect_values(reader, file);
}

static void golden_files_read_exactly_in_every_way(void **state) {
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        Bytes bytes = read_vector(golden_files[i].file);
        for (Way way = 0; way < WAYS; way++) {
            HurrayFileReader *reader = expect_open(&bytes, way);
            assert_true(hurray_file_reader_info(reader)->size == bytes.size);
            expect_golden(reader, &golden_files[i], way);
            expect_ok(hurray_file_reader_destroy(&reader));
            assert_null(reader);
        }
        release_bytes(&bytes);
    }
}

static void a_golden_file_opens_by_its_path(void **state) {
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        char path[1024];
        vector_path(golden_files[i].file, path);
        HurrayFileReader *reader = NULL;
        expect_ok(hurray_file_reader_open(path, NULL, &reader));
        expect_golden(reader, &golden_files[i], BY_MAP);
        expect_ok(hurray_file_reader_destroy(&reader));
    }
}

/* ---- refused files ---- */

/* The first refusal of anything that is in a file. */
static HurrayStatus look_at_all(HurrayFileReader *reader) {
    const HurrayKeyValues *values;
    HurrayStatus status = hurray_file_reader_metadata(reader, &values);
    for (uint64_t i = 0; status == HURRAY_OK && i < hurray_file_reader_count(reader); i++) {
        HurrayTensor *tensor = NULL;
        uint64_t first, end;
        status = hurray_file_reader_tensor(reader, i, &tensor);
        if (status == HURRAY_ERR_INVALID_ARGUMENT) status = HURRAY_OK; /* a head */
        hurray_tensor_release(tensor);
        if (status == HURRAY_OK) status = hurray_file_reader_item(reader, i, &first, &end);
    }
    return status;
}

static void refused_files_are_refused_by_name_of_the_fault(void **state) {
    (void)state;
    for (size_t i = 0; i < REFUSED_COUNT; i++) {
        Bytes bytes = read_vector(refused_files[i].file);
        for (Way way = 0; way < WAYS; way++) {
            if (way == BY_MEMORY && bytes.size == 0) continue;
            HurrayFileReader *reader = NULL;
            hri_fail(HURRAY_OK, STALE_MESSAGE);
            HurrayStatus status = open_bytes(&bytes, way, NULL, &reader);
            if (status == HURRAY_OK) {
                status = look_at_all(reader);
            } else {
                assert_null(reader);
            }
            if (status != refused_files[i].status) print_error("%s: ", refused_files[i].file);
            expect_status_at(status, refused_files[i].status, refused_files[i].file, __FILE__,
                             __LINE__);
            expect_message(refused_files[i].named);
            expect_ok(hurray_file_reader_destroy(&reader));
        }
        release_bytes(&bytes);
    }
}

/* ---- changed and missing bytes ---- */

/* Each tensor is the descriptor and the bytes that stand where the index says. */
static void expect_what_the_bytes_say(HurrayFileReader *reader, const Bytes *file) {
    for (uint64_t i = 0; i < hurray_file_reader_count(reader); i++) {
        HurrayFileEntry entry;
        HurrayTensor *tensor = NULL;
        expect_ok(hurray_file_reader_entry(reader, i, &entry));
        if (hurray_file_reader_tensor(reader, i, &tensor) != HURRAY_OK) continue;
        HurrayDescriptor *descriptor = NULL;
        expect_ok(hurray_descriptor_decode(file->data + entry.descriptor_offset,
                                           entry.descriptor_length, &descriptor));
        const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
        assert_int_equal(fields->buffer_count, hurray_tensor_fields(tensor)->buffer_count);
        uint64_t alignment = hurray_file_reader_info(reader)->alignment, end = entry.data_offset;
        for (uint32_t k = 0; k < fields->buffer_count; k++) {
            const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, k));
            uint64_t begin = (end + alignment - 1) / alignment * alignment;
            end = begin + info->byte_size;
            assert_true(end <= file->size && info->byte_size == fields->buffers[k].byte_size);
            if (info->byte_size == 0) continue;
            assert_memory_equal(info->data, file->data + begin, (size_t)info->byte_size);
        }
        assert_true(end == entry.data_offset + entry.data_length);
        hurray_descriptor_destroy(descriptor);
        hurray_tensor_release(tensor);
    }
}

static void walk(HurrayFileReader *reader) {
    uint64_t first, end, roots;
    const HurrayKeyValues *values;
    (void)hurray_file_reader_metadata(reader, &values);
    (void)hurray_file_reader_roots(reader, NULL, 0, &roots);
    for (uint64_t i = 0; i < hurray_file_reader_count(reader); i++) {
        HurrayFileEntry entry;
        uint64_t found;
        expect_ok(hurray_file_reader_entry(reader, i, &entry));
        expect_ok(hurray_file_reader_find(reader, entry.name, entry.name_length, &found));
        assert_int_equal(found, i);
        (void)hurray_file_reader_item(reader, i, &first, &end);
    }
}

/* A bit of a byte, and the whole byte. Padding is long: of it, the bytes at its ends. */
static void flip_everything(const char *file) {
    Bytes bytes = read_vector(file);
    bytes.data[12] &= (uint8_t)~HAS_CRC; /* else no change of the index would get past it */
    memset(bytes.data + bytes.size - 12, 0, 4);
    for (size_t at = 0; at < bytes.size; at++) {
        bool dull = at > 8 && at + 8 < bytes.size && bytes.data[at] == 0 &&
                    memcmp(bytes.data + at - 8, bytes.data + at - 7, 15) == 0;
        if (dull) continue;
        for (uint32_t bit = 0; bit <= 8; bit++) {
            uint8_t mask = (uint8_t)(bit == 8 ? 0xFF : 1u << bit);
            bytes.data[at] ^= mask;
            HurrayFileReader *reader = NULL;
            Way way = (Way)(BY_MEMORY + at % 3);
            hri_fail(HURRAY_OK, STALE_MESSAGE);
            HurrayStatus status = open_bytes(&bytes, way, NULL, &reader);
            if (status == HURRAY_OK) {
                walk(reader);
                expect_what_the_bytes_say(reader, &bytes);
            } else {
                assert_null(reader);
                expect_any_failure_at(status, "opening", __FILE__, __LINE__);
            }
            expect_ok(hurray_file_reader_destroy(&reader));
            bytes.data[at] ^= mask;
        }
    }
    release_bytes(&bytes);
}

static void a_changed_byte_is_refused_or_what_it_says(void **state) {
    (void)state;
    flip_everything("files/plain.hrry");
    flip_everything("files/kv_flag_clear.hrry");
    flip_everything("files/nested_sorted.hrry");
    flip_everything("files/trailing_empty_buffer.hrry");
}

static void a_file_cut_anywhere_is_refused(void **state) {
    (void)state;
    Bytes bytes = read_vector("files/kv_flag_clear.hrry");
    for (size_t size = 0; size < bytes.size; size++) {
        Bytes cut = {bytes.data, size};
        HurrayFileReader *reader = NULL;
        Way way = size % 2 == 0 && size != 0 ? BY_MEMORY : BY_CALLBACKS;
        expect_failure(HURRAY_ERR_FILE_INVALID, open_bytes(&cut, way, NULL, &reader));
    }
    release_bytes(&bytes);
}

/* ---- mappings ---- */

static HurrayFileReader *open_with(int descriptor, HurrayFileReaderOptions options) {
    HurrayFileReader *reader = NULL;
    expect_ok(hurray_file_reader_open_descriptor(descriptor, &options, &reader));
    return reader;
}

static void a_tensor_outlives_its_reader_and_never_writes_to_the_file(void **state) {
    (void)state;
    Bytes bytes = read_vector("files/plain.hrry");
    int descriptor = file_of(bytes);
    for (uint32_t prefetch = 0; prefetch < 2; prefetch++) {
        HurrayFileReader *reader =
            open_with(descriptor, (HurrayFileReaderOptions){.prefetch = prefetch == 1});
        HurrayTensor *first = NULL, *second = NULL;
        HurrayFileEntry entry;
        expect_ok(hurray_file_reader_entry(reader, 0, &entry));
        expect_ok(hurray_file_reader_tensor(reader, 0, &first));
        expect_ok(hurray_file_reader_tensor(reader, 0, &second));
        expect_ok(hurray_file_reader_destroy(&reader));
        uint8_t *a = hurray_tensor_data(first), *b = hurray_tensor_data(second);
        assert_ptr_equal(a, b);
        assert_memory_equal(a, bytes.data + entry.data_offset, 16);
        a[0] ^= 0xFF;
        hurray_tensor_release(first);
        assert_int_equal(b[0], bytes.data[entry.data_offset] ^ 0xFF);
        hurray_tensor_release(second);
    }
    Bytes after = make_bytes(bytes.size);
    assert_true(pread(descriptor, after.data, after.size, 0) == (ssize_t)after.size);
    assert_memory_equal(after.data, bytes.data, bytes.size);
    release_bytes(&after);
    release_bytes(&bytes);
    close(descriptor);
}

static void a_file_that_shrinks_is_noticed_before_it_is_touched(void **state) {
    (void)state;
    Bytes bytes = read_vector("files/plain.hrry");
    int descriptor = file_of(bytes);
    HurrayFileReader *mapped = open_with(descriptor, (HurrayFileReaderOptions){.check_size = true});
    HurrayFileReader *unchecked = open_with(descriptor, (HurrayFileReaderOptions){0});
    HurrayFileReader *reading =
        open_with(descriptor, (HurrayFileReaderOptions){.access = HURRAY_FILE_READ});
    HurrayTensor *tensor = NULL, *out[2] = {NULL, NULL};
    expect_ok(hurray_file_reader_tensor(mapped, 2, &tensor));
    hurray_tensor_release(tensor);
    tensor = NULL;
    assert_int_equal(ftruncate(descriptor, 100), 0);

    const uint64_t indices[2] = {0, 2};
    expect_failure(HURRAY_ERR_FILE_INVALID, hurray_file_reader_tensor(mapped, 2, &tensor));
    expect_message("has 100 now");
    expect_failure(HURRAY_ERR_FILE_INVALID, hurray_file_reader_tensors(mapped, indices, 2, 0, out));
    expect_failure(HURRAY_ERR_FILE_INVALID, hurray_file_reader_rows(mapped, 0, 0, 1, &tensor));
    expect_failure(HURRAY_ERR_FILE_INVALID, hurray_file_reader_verify(mapped, 0, true, NULL));
    /* Without the check, what is read by calls fails as they do, and nothing raises a signal. */
    expect_failure(HURRAY_ERR_IO, hurray_file_reader_tensor(unchecked, 2, &tensor));
    expect_failure(HURRAY_ERR_IO, hurray_file_reader_verify(unchecked, 1, true, NULL));
    expect_failure(HURRAY_ERR_IO, hurray_file_reader_tensor(reading, 0, &tensor));
    expect_failure(HURRAY_ERR_IO, hurray_file_reader_tensors(reading, indices, 2, 0, out));
    assert_null(tensor);
    assert_null(out[0]);
    assert_null(out[1]);
    uint64_t found; /* the index is kept */
    expect_ok(hurray_file_reader_find(reading, "type_int4", 9, &found));
    expect_ok(hurray_file_reader_destroy(&mapped));
    expect_ok(hurray_file_reader_destroy(&unchecked));
    expect_ok(hurray_file_reader_destroy(&reading));
    release_bytes(&bytes);
    close(descriptor);
}

/* ---- sizes beyond 32 bits ---- */

enum {
    FOUR_GIB_SHIFT = 32
};

#define FOUR_GIB ((uint64_t)1 << FOUR_GIB_SHIFT)

static HurrayDescriptorFields bytes_of_shape(uint32_t rank, const uint64_t *shape,
                                             const HurrayBufferHandle *handle) {
    return (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = rank,
        .shape = shape,
        .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
        .buffer_count = 1,
        .buffers = handle,
    };
}

/* "large", more than 2^32 elements, then "small" behind it; all but a few bytes is a hole. */
static int sparse_file(void) {
    const uint64_t long_shape[2] = {FOUR_GIB / 16 + 1, 16}, short_shape[1] = {4};
    const HurrayBufferHandle long_handle = {.byte_size = FOUR_GIB + 16, .alignment = 64};
    const HurrayBufferHandle short_handle = {.byte_size = 4, .alignment = 64};
    HurrayDescriptorFields large = bytes_of_shape(2, long_shape, &long_handle);
    HurrayDescriptorFields small = bytes_of_shape(1, short_shape, &short_handle);
    Bytes first = encoded(&large), second = encoded(&small);
    const uint64_t second_at = FOUR_GIB + 4096 + 16, end = FOUR_GIB + 3 * 4096;
    const RawEntry entries[2] = {
        {"large", 64, (uint32_t)first.size, 4096, FOUR_GIB + 16},
        {"small", second_at, (uint32_t)second.size, FOUR_GIB + 2 * 4096, 4},
    };
    uint8_t header[64];
    raw_header(header, HAS_CRC, 4096, 64);
    Bytes tail = raw_tail(HAS_CRC, end, entries, 2);
    int descriptor = temporary_file();
    write_at(descriptor, 0, header, sizeof header);
    write_at(descriptor, 64, first.data, first.size);
    write_at(descriptor, 4096 + FOUR_GIB, "0123456789abcdef", 16);
    write_at(descriptor, second_at, second.data, second.size);
    write_at(descriptor, FOUR_GIB + 2 * 4096, "tiny", 4);
    write_at(descriptor, end, tail.data, tail.size);
    release_bytes(&tail);
    release_bytes(&first);
    release_bytes(&second);
    return descriptor;
}

static void tensors_beyond_four_gib_are_found(void **state) {
    (void)state;
    if (sizeof(size_t) < 8) skip();
    int descriptor = sparse_file();
    for (HurrayFileAccess access = HURRAY_FILE_MAP; access <= HURRAY_FILE_READ; access++) {
        HurrayFileReader *reader =
            open_with(descriptor, (HurrayFileReaderOptions){.access = access});
        HurrayTensor *tensor = NULL;
        expect_ok(hurray_file_reader_tensor(reader, 1, &tensor));
        assert_memory_equal(hurray_tensor_data(tensor), "tiny", 4);
        hurray_tensor_release(tensor);
        expect_ok(hurray_file_reader_rows(reader, 0, FOUR_GIB / 16, FOUR_GIB / 16 + 1, &tensor));
        assert_memory_equal(hurray_tensor_data(tensor), "0123456789abcdef", 16);
        assert_int_equal(hurray_tensor_count(tensor), 16);
        hurray_tensor_release(tensor);
        if (access != HURRAY_FILE_READ) {
            expect_ok(hurray_file_reader_tensor(reader, 0, &tensor));
            assert_true(hurray_tensor_count(tensor) == FOUR_GIB + 16);
            const uint8_t *data = hurray_tensor_data(tensor);
            assert_memory_equal(data + FOUR_GIB, "0123456789abcdef", 16);
            assert_int_equal(data[FOUR_GIB - 1], 0);
            hurray_tensor_release(tensor);
        }
        expect_ok(hurray_file_reader_destroy(&reader));
    }
    close(descriptor);
}

/* ---- what the system refuses ---- */

static void the_system_says_why_a_file_does_not_open(void **state) {
    (void)state;
    HurrayFileReader *reader = NULL;
    expect_failure(HURRAY_ERR_IO, hurray_file_reader_open("/nowhere/file.hrry", NULL, &reader));
    expect_message("\"/nowhere/file.hrry\"");
    assert_int_equal(hurray_error_number(), ENOENT);
    char path[1024];
    vector_path("files", path);
    expect_failure(HURRAY_ERR_IO, hurray_file_reader_open(path, NULL, &reader));
    assert_int_equal(hurray_error_number(), EISDIR);
    expect_failure(HURRAY_ERR_IO, hurray_file_reader_open_descriptor(-1, NULL, &reader));
    assert_int_equal(hurray_error_number(), EBADF);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    expect_failure(HURRAY_ERR_IO, hurray_file_reader_open_descriptor(ends[0], NULL, &reader));
    assert_int_equal(hurray_error_number(), ESPIPE);
    close(ends[0]);
    close(ends[1]);
    assert_null(reader);
}

static void nothing_stays_open(void **state) {
    (void)state;
    int before = open("/dev/null", O_RDONLY);
    close(before);
    char path[1024];
    vector_path("files/plain.hrry", path);
    HurrayFileReader *reader = NULL;
    expect_ok(hurray_file_reader_open(path, NULL, &reader));
    expect_ok(hurray_file_reader_destroy(&reader));
    vector_path("files_invalid/crc_wrong.hrry", path);
    expect_failure(HURRAY_ERR_FILE_INVALID, hurray_file_reader_open(path, NULL, &reader));
    int after = open("/dev/null", O_RDONLY);
    close(after);
    assert_int_equal(before, after);
}

static void what_is_missing_is_named(void **state) {
    (void)state;
    Bytes bytes = read_vector("files/plain.hrry");
    HurrayFileReader *reader = expect_open(&bytes, BY_MEMORY);
    HurrayFileReaderOptions odd = {.access = (HurrayFileAccess)7};
    HurrayRandomAccess nothing = {0};
    uint64_t number;
    HurrayTensor *tensor;
    HurrayDescriptor *descriptor;
    HurrayFileReader *other;
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, open_bytes(&bytes, BY_MEMORY, &odd, &other));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_reader_open(NULL, NULL, &other));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_reader_open_descriptor(0, NULL, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_reader_open_memory(NULL, NULL, &other));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_reader_open_callbacks(NULL, NULL, &other));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_file_reader_open_callbacks(&nothing, NULL, &other));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_reader_find(reader, NULL, 0, &number));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_reader_entry(reader, 0, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_reader_in_order(NULL, 0, &number));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_reader_metadata(reader, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_reader_descriptor(NULL, 0, &descriptor));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_reader_tensor(reader, 0, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_reader_rows(NULL, 0, 0, 0, &tensor));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_reader_item(reader, 0, NULL, &number));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_reader_roots(reader, NULL, 0, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_reader_verify(NULL, 0, false, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_reader_destroy(NULL));
    expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, hurray_file_reader_tensor(reader, 3, &tensor));
    expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                   hurray_file_reader_descriptor(reader, UINT64_MAX, &descriptor));
    expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                   hurray_file_reader_rows(reader, 1ull << 32, 0, 0, &tensor));
    expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                   hurray_file_reader_item(reader, 3, &number, &number));
    expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                   hurray_file_reader_verify(reader, 3, false, NULL));
    assert_null(hurray_file_reader_info(NULL));
    assert_int_equal(hurray_file_reader_count(NULL), 0);
    expect_ok(hurray_file_reader_destroy(&reader));
    expect_ok(hurray_file_reader_destroy(&reader));
    release_bytes(&bytes);
}

static void memory_of_a_device_is_not_read(void **state) {
    (void)state;
    HurrayBufferInfo info = {.data = (void *)(uintptr_t)4096,
                             .byte_size = 4096,
                             .alignment = 64,
                             .device = {HURRAY_DEVICE_CUDA, HURRAY_MEMORY_STANDARD, 0}};
    HurrayBuffer *buffer = NULL;
    HurrayFileReader *reader = NULL;
    expect_ok(hurray_buffer_create(&info, NULL, NULL, &buffer));
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_file_reader_open_memory(buffer, NULL, &reader));
    expect_message("cuda");
    hurray_buffer_destroy(buffer);
}

/* ---- threads ---- */

typedef struct Shared {
    HurrayFileReader *reader;
    const GoldenFile *file;
    Way way;
} Shared;

static void *use(void *context) {
    const Shared *shared = context;
    for (int round = 0; round < 20; round++) {
        expect_golden(shared->reader, shared->file, shared->way);
        uint64_t roots, indices[32], count = 0;
        expect_ok(hurray_file_reader_roots(shared->reader, NULL, 0, &roots));
        for (uint64_t i = 0; i < shared->file->count; i++) {
            const HurrayDescriptorFields *fields = &shared->file->tensors[i].fields;
            if (fields->layout.tag == HURRAY_LAYOUT_COMPOSITE) continue;
            expect_ok(hurray_file_reader_in_order(shared->reader, i, &indices[count++]));
        }
        HurrayTensor *tensors[32];
        expect_ok(hurray_file_reader_tensors(shared->reader, indices, count, 2, tensors));
        for (uint64_t i = 0; i < count; i++) hurray_tensor_release(tensors[i]);
    }
    return NULL;
}

static void eight_threads_may_use_one_reader(void **state) {
    (void)state;
    Bytes bytes = read_vector(golden_files[0].file);
    for (Way way = 0; way < WAYS; way++) {
        Shared shared = {expect_open(&bytes, way), &golden_files[0], way};
        pthread_t threads[8];
        for (int i = 0; i < 8; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, use, &shared), 0);
        }
        for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
        expect_ok(hurray_file_reader_destroy(&shared.reader));
    }
    release_bytes(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_files_read_exactly_in_every_way),
        cmocka_unit_test(a_golden_file_opens_by_its_path),
        cmocka_unit_test(refused_files_are_refused_by_name_of_the_fault),
        cmocka_unit_test(a_changed_byte_is_refused_or_what_it_says),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(a_tensor_outlives_its_reader_and_never_writes_to_the_file),
        cmocka_unit_test(a_file_that_shrinks_is_noticed_before_it_is_touched),
        cmocka_unit_test(tensors_beyond_four_gib_are_found),
        cmocka_unit_test(the_system_says_why_a_file_does_not_open),
        cmocka_unit_test(nothing_stays_open),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(memory_of_a_device_is_not_read),
        cmocka_unit_test(eight_threads_may_use_one_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
