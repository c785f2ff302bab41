/*
 * Composites, rows and verification of files (src/file_reader_items.c, src/file_reader_rows.c,
 * src/file_reader_verify.c).
 */
#include "files.h"

#include <inttypes.h>

#include "random.h"

/* ---- composites ---- */

static uint64_t find(HurrayFileReader *reader, const char *name) {
    uint64_t index = 0;
    expect_ok(hurray_file_reader_find(reader, name, strlen(name), &index));
    return index;
}

/* The item at `name` has the members named, in order. */
static void expect_item(HurrayFileReader *reader, const char *const *names, size_t count) {
    uint64_t first = 0, end = 0;
    expect_ok(hurray_file_reader_item(reader, find(reader, names[0]), &first, &end));
    assert_int_equal(end - first, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t index;
        expect_ok(hurray_file_reader_in_order(reader, first + i, &index));
        assert_int_equal(index, find(reader, names[i]));
    }
}

static void expect_roots(HurrayFileReader *reader, const char *const *names, size_t count) {
    uint64_t roots[8], found = 0;
    expect_ok(hurray_file_reader_roots(reader, NULL, 0, &found));
    assert_int_equal(found, count);
    expect_ok(hurray_file_reader_roots(reader, roots, 8, &found));
    assert_int_equal(found, count);
    for (size_t i = 0; i < count; i++) assert_int_equal(roots[i], find(reader, names[i]));
    if (count < 2) return;
    found = 77;
    expect_failure(HURRAY_ERR_BUFFER_TOO_SMALL,
                   hurray_file_reader_roots(reader, roots, count - 1, &found));
    assert_int_equal(found, 77);
}

static void members_are_what_follows_the_head_in_the_file(void **state) {
    (void)state;
    Bytes bytes = read_vector("files/nested_sorted.hrry");
    HurrayFileReader *reader = expect_open(&bytes, BY_MAP);
    uint64_t count = hurray_file_reader_count(reader), index;
    const char *names[8];
    char storage[8][32];
    assert_true(count <= 8);
    for (uint64_t i = 0; i < count; i++) {
        HurrayFileEntry entry;
        expect_ok(hurray_file_reader_in_order(reader, i, &index));
        expect_ok(hurray_file_reader_entry(reader, index, &entry));
        snprintf(storage[i], sizeof storage[i], "%.*s", (int)entry.name_length, entry.name);
        names[i] = storage[i];
    }
    assert_string_equal(names[0], "z"); /* a group of two, the first of which is one of two */
    assert_string_equal(names[1], "z.0");
    expect_item(reader, names, 5);
    expect_item(reader, names + 1, 3);
    for (size_t i = 2; i < 5; i++) expect_item(reader, names + i, 1);
    expect_roots(reader, names, 1);
    expect_ok(hurray_file_reader_destroy(&reader));
    release_bytes(&bytes);
}

static void what_is_no_member_is_found_beside_composites(void **state) {
    (void)state;
    Bytes bytes = read_vector("files/sorted_composite.hrry");
    HurrayFileReader *reader = expect_open(&bytes, BY_CALLBACKS);
    const char *const grid[] = {"grid", "grid.0", "grid.1"};
    expect_item(reader, grid, 3);
    uint64_t roots[4], count;
    expect_ok(hurray_file_reader_roots(reader, roots, 4, &count));
    assert_int_equal(count, 2);
    assert_int_equal(hurray_file_reader_count(reader), 4);
    bool has_grid = false;
    for (uint64_t i = 0; i < count; i++) {
        assert_true(roots[i] != find(reader, "grid.0") && roots[i] != find(reader, "grid.1"));
        has_grid |= roots[i] == find(reader, "grid");
    }
    assert_true(has_grid);
    expect_ok(hurray_file_reader_destroy(&reader));
    release_bytes(&bytes);
}

static void a_torn_composite_is_refused(void **state) {
    (void)state;
    Bytes bytes = read_vector("files_invalid/torn_composite.hrry");
    HurrayFileReader *reader = expect_open(&bytes, BY_MAP);
    uint64_t head, first = 7, end = 7, count = 7;
    expect_ok(hurray_file_reader_in_order(reader, 0, &head));
    expect_failure(HURRAY_ERR_FILE_INVALID, hurray_file_reader_item(reader, head, &first, &end));
    expect_message("torn");
    expect_failure(HURRAY_ERR_FILE_INVALID, hurray_file_reader_roots(reader, NULL, 0, &count));
    expect_message("torn");
    assert_true(first == 7 && end == 7 && count == 7);
    expect_ok(hurray_file_reader_destroy(&reader));
    release_bytes(&bytes);

    bytes = read_vector("files_invalid/partition_gap.hrry");
    reader = expect_open(&bytes, BY_MAP);
    expect_ok(hurray_file_reader_in_order(reader, 0, &head));
    expect_failure(HURRAY_ERR_INTERNAL, hurray_file_reader_item(reader, head, &first, &end));
    expect_ok(hurray_file_reader_roots(reader, NULL, 0, &count)); /* it is all there, but wrong */
    expect_ok(hurray_file_reader_destroy(&reader));
    release_bytes(&bytes);
}

/* ---- files of one tensor ---- */

static Bytes write_one(const HurrayTensor *tensor, bool checksums) {
    HurrayMemoryFile memory = {NULL, 0, 0};
    HurraySink sink = hurray_memory_sink(&memory);
    HurrayFileWriterOptions options = {.checksums = checksums};
    HurrayFileWriter *writer = NULL;
    expect_ok(hurray_file_writer_create(&sink, &options, &writer));
    expect_ok(hurray_file_writer_add(writer, "w", 1, tensor));
    expect_ok(hurray_file_writer_finish(writer));
    expect_ok(hurray_file_writer_destroy(&writer));
    return (Bytes){memory.bytes, memory.size};
}

/* `lead` bytes, then elements that are random bytes. */
static HurrayTensor *random_tensor(HurrayDescriptorFields fields, uint64_t lead) {
    uint64_t size = 0, seed = fields.type_tag;
    HurrayBuffer *buffer = NULL;
    HurrayTensor *tensor = NULL;
    fields.layout.tag = HURRAY_LAYOUT_ROW_MAJOR;
    fields.buffer_count = 1;
    fields.byte_offset = lead;
    expect_ok(hurray_descriptor_required_bytes(&fields, 0, &size, NULL));
    expect_ok(hurray_buffer_allocate(size, true, NULL, &buffer));
    uint8_t *data = hurray_buffer_info(buffer)->data;
    for (uint64_t i = 0; i < size; i++) data[i] = (uint8_t)random_u64(&seed);
    expect_ok(hurray_tensor_create(&fields, &buffer, &tensor));
    return tensor;
}

/* ---- rows ---- */

/* Rows start … stop - 1 of a tensor whose rows take `row_bits` bits. */
static void expect_rows(HurrayFileReader *reader, HurrayTensor *whole, uint64_t start,
                        uint64_t stop, uint64_t row_bits) {
    HurrayTensor *rows = NULL;
    expect_ok(hurray_file_reader_rows(reader, 0, start, stop, &rows));
    const HurrayDescriptorFields *a = hurray_tensor_fields(rows), *b = hurray_tensor_fields(whole);
    assert_int_equal(a->type_tag, b->type_tag);
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->shape[0], stop - start);
    for (uint32_t k = 1; k < a->rank; k++) assert_int_equal(a->shape[k], b->shape[k]);
    uint64_t bits = (stop - start) * row_bits;
    const uint8_t *found = hurray_tensor_data(rows);
    const uint8_t *expected = (const uint8_t *)hurray_tensor_data(whole) + start * row_bits / 8;
    if (bits >= 8) assert_memory_equal(found, expected, (size_t)(bits / 8));
    if (bits % 8 != 0) { /* elements begin at the lowest bit */
        uint32_t mask = (1u << bits % 8) - 1;
        assert_int_equal(found[bits / 8] & mask, expected[bits / 8] & mask);
    }
    if (b->shard != NULL) {
        assert_int_equal(a->shard->shard_offset[0], b->shard->shard_offset[0] + start);
        assert_int_equal(a->shard->shard_offset[1], b->shard->shard_offset[1]);
        assert_int_equal(a->shard->parent_shape[0], b->shard->parent_shape[0]);
    }
    assert_null(a->statistics);
    hurray_tensor_release(rows);
}

static void rows_of(HurrayDescriptorFields fields, uint64_t lead, uint64_t row_bits) {
    HurrayTensor *whole = random_tensor(fields, lead);
    Bytes bytes = write_one(whole, false);
    for (Way way = 0; way < WAYS; way++) {
        HurrayFileReader *reader = expect_open(&bytes, way);
        HurrayTensor *rows = NULL;
        for (uint64_t start = 0; start <= fields.shape[0]; start++) {
            for (uint64_t stop = start; stop <= fields.shape[0]; stop++) {
                if (start * row_bits % 8 == 0) {
                    expect_rows(reader, whole, start, stop, row_bits);
                } else {
                    expect_failure(HURRAY_ERR_UNSUPPORTED,
                                   hurray_file_reader_rows(reader, 0, start, stop, &rows));
                }
            }
        }
        expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                       hurray_file_reader_rows(reader, 0, 0, fields.shape[0] + 1, &rows));
        expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                       hurray_file_reader_rows(reader, 0, 2, 1, &rows));
        expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                       hurray_file_reader_rows(reader, 0, UINT64_MAX, UINT64_MAX, &rows));
        assert_null(rows);
        expect_ok(hurray_file_reader_destroy(&reader));
    }
    release_bytes(&bytes);
    hurray_tensor_release(whole);
}

static void rows_are_those_of_the_whole(void **state) {
    (void)state;
    const uint64_t shape[3] = {9, 5, 3}, odd[2] = {7, 3}, vector[1] = {11},
                   long_rows[2] = {5, 6000};
    const uint64_t parent[2] = {20, 3}, offset[2] = {4, 0};
    const HurrayShard shard = {.parent_shape = parent, .shard_offset = offset};
    const HurrayStatistics statistics = {.computed_mask = 1, .nnz = 4};
    const HurrayDescriptorFields float32 = {
        .type_tag = HURRAY_TYPE_FLOAT32, .rank = 3, .shape = shape, .statistics = &statistics};
    rows_of(float32, 0, 15 * 32);
    rows_of(float32, 12, 15 * 32);
    rows_of(
        (HurrayDescriptorFields){
            .type_tag = HURRAY_TYPE_UINT8, .rank = 2, .shape = odd, .shard = &shard},
        0, 3 * 8);
    rows_of((HurrayDescriptorFields){.type_tag = HURRAY_TYPE_INT4, .rank = 2, .shape = odd}, 0, 12);
    rows_of((HurrayDescriptorFields){.type_tag = HURRAY_TYPE_BOOL, .rank = 1, .shape = vector}, 3,
            1);
    rows_of(
        (HurrayDescriptorFields){.type_tag = HURRAY_TYPE_COMPLEX128, .rank = 2, .shape = long_rows},
        0, 6000 * 128);
}

static void rows_without_elements_cost_nothing(void **state) {
    (void)state;
    const uint64_t no_rows[2] = {0, 4}, empty_rows[3] = {6, (uint64_t)1 << 40, 0};
    rows_of((HurrayDescriptorFields){.type_tag = HURRAY_TYPE_FLOAT32, .rank = 2, .shape = no_rows},
            0, 128);
    rows_of((HurrayDescriptorFields){.type_tag = HURRAY_TYPE_UINT8, .rank = 3, .shape = empty_rows},
            0, 0);
}

static void a_slice_is_cut_to_the_rows_there_are(void **state) {
    (void)state;
    const uint64_t shape[2] = {3, 2};
    HurrayTensor *whole = random_tensor(
        (HurrayDescriptorFields){.type_tag = HURRAY_TYPE_UINT8, .rank = 2, .shape = shape}, 0);
    Bytes bytes = write_one(whole, false);
    HurrayFileReader *reader = expect_open(&bytes, BY_MAP);
    const int64_t bounds[] = {INT64_MIN, -4, -3, -2, -1, 0, 1, 2, 3, 4, INT64_MAX};
    const uint64_t meant[] = {0, 0, 0, 1, 2, 0, 1, 2, 3, 3, 3};
    const size_t count = sizeof bounds / sizeof bounds[0];
    for (size_t i = 0; i < count * count; i++) {
        uint64_t start = meant[i / count], stop = meant[i % count];
        HurrayTensor *slice = NULL, *rows = NULL;
        expect_ok(
            hurray_file_reader_slice(reader, 0, bounds[i / count], bounds[i % count], &slice));
        expect_ok(hurray_file_reader_rows(reader, 0, start, stop < start ? start : stop, &rows));
        const HurrayDescriptorFields *a = hurray_tensor_fields(slice),
                                     *b = hurray_tensor_fields(rows);
        assert_int_equal(a->shape[0], b->shape[0]);
        assert_int_equal(a->byte_offset, b->byte_offset);
        assert_ptr_equal(hurray_buffer_info(hurray_tensor_buffer(slice, 0))->data,
                         hurray_buffer_info(hurray_tensor_buffer(rows, 0))->data);
        hurray_tensor_release(rows);
        hurray_tensor_release(slice);
    }
    expect_ok(hurray_file_reader_destroy(&reader));
    hurray_tensor_release(whole);
    release_bytes(&bytes);
}

static void what_has_no_rows_says_why(void **state) {
    (void)state;
    Bytes bytes = read_vector("files/everything.hrry");
    HurrayFileReader *reader = expect_open(&bytes, BY_MAP);
    uint32_t refused = 0;
    for (uint64_t i = 0; i < hurray_file_reader_count(reader); i++) {
        HurrayDescriptor *descriptor = NULL;
        HurrayTensor *rows = NULL;
        expect_ok(hurray_file_reader_descriptor(reader, i, &descriptor));
        const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
        bool plain = fields->layout.tag == HURRAY_LAYOUT_ROW_MAJOR && fields->rank != 0 &&
                     fields->quantization == NULL &&
                     !hurray_shape_is_dynamic(fields->shape, fields->rank);
        hri_fail(HURRAY_OK, STALE_MESSAGE);
        HurrayStatus status = hurray_file_reader_rows(reader, i, 0, 0, &rows);
        if (plain) {
            assert_int_equal(status, HURRAY_OK);
        } else {
            assert_int_equal(status, HURRAY_ERR_UNSUPPORTED);
            expect_message("entry ");
            refused++;
        }
        hurray_tensor_release(rows);
        hurray_descriptor_destroy(descriptor);
    }
    assert_true(refused > 5);
    expect_ok(hurray_file_reader_destroy(&reader));
    release_bytes(&bytes);
}

/* ---- verification ---- */

static HurrayStatus verify(Bytes *bytes, Way way, bool deep) {
    HurrayFileReader *reader = expect_open(bytes, way);
    hri_fail(HURRAY_OK, STALE_MESSAGE);
    HurrayStatus status = hurray_file_reader_verify(reader, 0, deep, NULL);
    HurrayFileReader *kept = reader;
    hurray_file_reader_destroy(&kept);
    return status;
}

static void each_byte_of_padding_and_data_counts(void **state) {
    (void)state;
    const uint64_t shape[2] = {3, 7};
    HurrayTensor *tensor = random_tensor(
        (HurrayDescriptorFields){.type_tag = HURRAY_TYPE_UINT8, .rank = 2, .shape = shape}, 0);
    for (uint32_t checksums = 0; checksums < 2; checksums++) {
        Bytes bytes = write_one(tensor, checksums == 1);
        HurrayFileReader *reader = expect_open(&bytes, BY_MEMORY);
        HurrayFileEntry entry;
        expect_ok(hurray_file_reader_entry(reader, 0, &entry));
        expect_ok(hurray_file_reader_destroy(&reader));
        assert_int_equal(entry.data_length, 21);
        expect_ok(verify(&bytes, BY_MAP, false));
        expect_ok(verify(&bytes, BY_MAP, true));
        uint64_t end = entry.data_offset + entry.data_length;
        for (uint64_t at = entry.descriptor_offset + entry.descriptor_length; at < end + 3; at++) {
            bool is_data = at >= entry.data_offset && at < end;
            bytes.data[at] ^= 0x10;
            HurrayStatus status = verify(&bytes, at % 2 == 0 ? BY_MEMORY : BY_CALLBACKS, false);
            bytes.data[at] ^= 0x10;
            if (is_data && checksums == 0) {
                assert_int_equal(status, HURRAY_OK);
            } else {
                assert_int_equal(status, HURRAY_ERR_FILE_INVALID);
                expect_message("entry 0 \"w\": ");
                expect_message(is_data ? "CRC-32C" : "padding byte");
            }
        }
        release_bytes(&bytes);
    }
    hurray_tensor_release(tensor);
}

static void verification_is_deep_on_request(void **state) {
    (void)state;
    /* Indices of a COO tensor: [0, 9] is out of bounds. */
    const uint64_t shape[2] = {4, 4};
    HurrayBuffer *buffers[2] = {NULL, NULL};
    HurrayTensor *tensor = NULL;
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 2,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_COO, .sparse = {.nnz = 1, .is_sorted = 1}},
        .buffer_count = 2,
    };
    expect_ok(hurray_buffer_allocate(1, true, NULL, &buffers[0]));
    expect_ok(hurray_buffer_allocate(16, true, NULL, &buffers[1]));
    ((uint8_t *)hurray_buffer_info(buffers[1])->data)[8] = 9;
    expect_ok(hurray_tensor_create(&fields, buffers, &tensor));
    Bytes bytes = write_one(tensor, true);
    hurray_tensor_release(tensor);
    expect_ok(verify(&bytes, BY_MAP, false));
    HurrayFileReader *reader = expect_open(&bytes, BY_READING);
    HurrayViolation violation = {HURRAY_VIOLATION_NONE, 0, 0, 0, 0};
    expect_failure(HURRAY_ERR_DATA_INVALID, hurray_file_reader_verify(reader, 0, true, &violation));
    expect_message("entry 0 \"w\": ");
    assert_int_equal(violation.buffer, 1);
    assert_int_equal(violation.found, 9);
    expect_ok(hurray_file_reader_destroy(&reader));
    release_bytes(&bytes);
}

/* An entry of that key which is not what we write is no list of checksums. */
static void checksums_of_another_number_are_refused(void **state) {
    (void)state;
    const uint64_t shape[1] = {8};
    HurrayTensor *tensor = random_tensor(
        (HurrayDescriptorFields){.type_tag = HURRAY_TYPE_UINT8, .rank = 1, .shape = shape}, 0);
    Bytes bytes = write_one(tensor, true);
    HurrayFileReader *reader = expect_open(&bytes, BY_MEMORY);
    HurrayFileInfo info = *hurray_file_reader_info(reader);
    expect_ok(hurray_file_reader_destroy(&reader));
    /* count, key_length, key, tag, length, checksum */
    uint8_t *tag = bytes.data + info.metadata_offset + 4 + 2 + strlen(HURRAY_CHECKSUMS_KEY);
    assert_int_equal(*tag, HURRAY_VALUE_BYTES);
    *tag = HURRAY_VALUE_STRING;
    memset(tag + 5, 'x', 4);
    assert_int_equal(verify(&bytes, BY_MEMORY, false), HURRAY_ERR_FILE_INVALID);
    expect_message(HURRAY_CHECKSUMS_KEY);
    release_bytes(&bytes);
    hurray_tensor_release(tensor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_what_follows_the_head_in_the_file),
        cmocka_unit_test(what_is_no_member_is_found_beside_composites),
        cmocka_unit_test(a_torn_composite_is_refused),
        cmocka_unit_test(rows_are_those_of_the_whole),
        cmocka_unit_test(rows_without_elements_cost_nothing),
        cmocka_unit_test(a_slice_is_cut_to_the_rows_there_are),
        cmocka_unit_test(what_has_no_rows_says_why),
        cmocka_unit_test(each_byte_of_padding_and_data_counts),
        cmocka_unit_test(verification_is_deep_on_request),
        cmocka_unit_test(checksums_of_another_number_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
