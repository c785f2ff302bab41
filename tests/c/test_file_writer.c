/*
 * The file writer (src/file_writer.c): golden files come out as they went in, the layout is that of
 * spec 4, what breaks a rule is refused, and a sink may fail at any time.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tensors.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/mman.h>

#include <hurray/composite.h>
#include <hurray/crc32c.h>

#include "bytes.h"

/* ---- a plain reader of files that are known to be good ---- */

typedef struct Entry {
    struct {
        const uint8_t *data;
        size_t length;
    } name;
    uint64_t descriptor_offset, data_offset, data_length;
    uint32_t descriptor_length;
} Entry;

typedef struct Parsed {
    const uint8_t *bytes;
    size_t size;
    uint32_t flags, alignment;
    uint64_t hint, index_offset, index_length, kv_offset, count;
    uint32_t kv_length, crc;
    Entry entries[64]; /* in the order of the index */
} Parsed;

static void parse(const uint8_t *bytes, size_t size, Parsed *out) {
    assert_true(size >= 104);
    assert_memory_equal(bytes, "HRRYFILE\1\0\0\0", 12);
    assert_memory_equal(bytes + size - 8, "\0\0\0\0HRRY", 8);
    const uint8_t *trailer = bytes + size - 40;
    *out = (Parsed){
        .bytes = bytes,
        .size = size,
        .flags = load_u32(bytes + 12),
        .alignment = load_u32(bytes + 16),
        .hint = load_u64(bytes + 28),
        .index_offset = load_u64(trailer),
        .index_length = load_u64(trailer + 8),
        .kv_offset = load_u64(trailer + 16),
        .kv_length = load_u32(trailer + 24),
        .crc = load_u32(trailer + 28),
    };
    assert_true(load_u64(bytes + 20) == 64);
    ByteReader reader = {.bytes = bytes + out->index_offset, .length = (size_t)out->index_length};
    out->count = read_u64(&reader);
    assert_true(out->count <= 64);
    for (uint64_t i = 0; i < out->count; i++) {
        Entry *entry = &out->entries[i];
        entry->name.length = read_u16(&reader);
        entry->name.data = read_bytes(&reader, entry->name.length);
        entry->descriptor_offset = read_u64(&reader);
        entry->descriptor_length = read_u32(&reader);
        entry->data_offset = read_u64(&reader);
        entry->data_length = read_u64(&reader);
        assert_int_equal(read_u32(&reader), 0);
    }
    assert_true(!reader.failed && reader_left(&reader) == 0);
    assert_true(out->index_offset + out->index_length + 40 == size);
}

static int by_offset(const void *a, const void *b) {
    const Entry *first = a, *second = b;
    return first->descriptor_offset < second->descriptor_offset ? -1 : 1;
}

static bool is_named(const Entry *entry, const char *name) {
    return entry->name.length == strlen(name) &&
           memcmp(entry->name.data, name, entry->name.length) == 0;
}

/* ---- golden files ---- */

static void write_again(HurrayFileWriter *writer, const Parsed *file, const Entry *entry) {
    HurrayDescriptor *descriptor = NULL;
    const HurrayDecodeOptions options = {.permissive = true};
    expect_ok(hurray_descriptor_decode_with(file->bytes + entry->descriptor_offset,
                                            entry->descriptor_length, &options, &descriptor));
    const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
    const char *name = (const char *)entry->name.data;
    if (fields->layout.tag == HURRAY_LAYOUT_COMPOSITE) {
        expect_ok(hurray_file_writer_add_head(writer, name, entry->name.length, fields));
    } else {
        HurrayBuffer *buffers[HURRAY_MAX_BUFFERS];
        HurrayTensor *tensor = NULL;
        uint64_t at = entry->data_offset;
        for (uint32_t i = 0; i < fields->buffer_count; i++) {
            at = (at + file->alignment - 1) / file->alignment * file->alignment;
            HurrayBufferInfo info = {
                .byte_size = fields->buffers[i].byte_size,
                .alignment = fields->buffers[i].alignment,
                .device = {fields->buffers[i].device_tag, fields->buffers[i].memory_class, 0},
                .sync_mode = fields->buffers[i].sync_mode,
                .flags = HURRAY_BUFFER_STAGED_ON_HOST};
            info.data = hurray_aligned_alloc((size_t)info.byte_size, 4096, false);
            memcpy(info.data, file->bytes + at, (size_t)info.byte_size);
            at += info.byte_size;
            expect_ok(hurray_buffer_create(&info, NULL, NULL, &buffers[i]));
        }
        expect_ok(hurray_tensor_create(fields, buffers, &tensor));
        expect_ok(hurray_file_writer_add(writer, name, entry->name.length, tensor));
        for (uint32_t i = 0; i < fields->buffer_count; i++) {
            hurray_aligned_free(hurray_buffer_info(hurray_tensor_buffer(tensor, i))->data);
        }
        hurray_tensor_release(tensor);
    }
    expect_ok(hurray_descriptor_destroy(descriptor));
}

/* Decoded, and written with the options that its header tells of: the same bytes. */
static void rebuild(const char *path) {
    static uint8_t bytes[1 << 20];
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    size_t size = fread(bytes, 1, sizeof bytes, stream);
    assert_true(feof(stream));
    fclose(stream);
    Parsed file;
    parse(bytes, size, &file);

    HurrayKeyValues *metadata = NULL;
    if (file.kv_length != 0) {
        expect_ok(hurray_key_values_decode(bytes + file.kv_offset, file.kv_length, &metadata));
    }
    const HurrayFileWriterOptions options = {
        .alignment = file.alignment,
        .sorted_index = file.flags >> 1 & 1,
        .no_index_checksum = !(file.flags >> 2 & 1),
        .tensor_count = file.hint == UINT64_MAX ? 0 : file.hint,
        .metadata = file.flags & 1 ? metadata : NULL,
    };
    HurrayMemoryFile memory = {NULL, 0, 0};
    const HurraySink sink = hurray_memory_sink(&memory);
    HurrayFileWriter *writer = NULL;
    expect_ok(hurray_file_writer_create(&sink, &options, &writer));
    qsort(file.entries, (size_t)file.count, sizeof(Entry), by_offset);
    for (uint64_t i = 0; i < file.count; i++) write_again(writer, &file, &file.entries[i]);
    for (uint32_t i = 0; !(file.flags & 1) && i < hurray_key_values_count(metadata); i++) {
        expect_ok(hurray_file_writer_add_metadata(writer, hurray_key_values_at(metadata, i)));
    }
    expect_ok(hurray_file_writer_finish(writer));
    assert_true(hurray_file_writer_position(writer) == size);
    expect_ok(hurray_file_writer_destroy(&writer));
    expect_ok(hurray_key_values_destroy(&metadata));
    assert_int_equal(memory.size, size);
    for (size_t i = 0; i < size; i++) {
        if (memory.bytes[i] != bytes[i]) fail_msg("%s differs at byte %zu", path, i);
    }
    hurray_aligned_free(memory.bytes);
}

static void golden_files(void **state) {
    (void)state;
    const char *directory = getenv("HURRAY_VECTORS");
    if (directory == NULL) fail_msg("HURRAY_VECTORS does not say where the vectors are");
    char path[1024];
    snprintf(path, sizeof path, "%s/files", directory);
    DIR *files = opendir(path);
    assert_non_null(files);
    int count = 0;
    for (struct dirent *file; (file = readdir(files)) != NULL;) {
        if (file->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/files/%s", directory, file->d_name);
        rebuild(path);
        count++;
    }
    closedir(files);
    assert_true(count >= 9);
}

/* ---- layout and options ---- */

static HurrayFileWriter *begin(HurrayMemoryFile *memory, const HurrayFileWriterOptions *options) {
    HurrayFileWriter *writer = NULL;
    *memory = (HurrayMemoryFile){NULL, 0, 0};
    const HurraySink sink = hurray_memory_sink(memory);
    fill_tensor_bytes();
    expect_ok(hurray_file_writer_create(&sink, options, &writer));
    return writer;
}

static void end(HurrayFileWriter *writer, HurrayMemoryFile *memory, Parsed *file) {
    expect_ok(hurray_file_writer_finish(writer));
    expect_ok(hurray_file_writer_destroy(&writer));
    assert_null(writer);
    parse(memory->bytes, memory->size, file);
}

static void places(void **state) {
    (void)state;
    HurrayMemoryFile memory;
    Parsed file;
    HurrayTensor *bytes = make_bytes_tensor(tensor_bytes, 100), *csr = make_csr_tensor(0);
    HurrayFileWriter *writer = begin(&memory, NULL);
    expect_ok(add_tensor(writer, "b", bytes));
    expect_ok(add_tensor(writer, "a", csr));
    end(writer, &memory, &file);
    assert_int_equal(file.flags, 4);
    assert_true(file.hint == UINT64_MAX && file.kv_offset == 0 && file.kv_length == 0);
    const Entry *b = &file.entries[0], *a = &file.entries[1];
    assert_true(is_named(b, "b") && is_named(a, "a"));
    assert_true(b->descriptor_offset == 64 && b->data_offset == 4096 && b->data_length == 100);
    assert_memory_equal(memory.bytes + 4096, tensor_bytes, 100);
    /* Behind 100 bytes comes 4200; the two empty buffers end where the third one begins. */
    assert_true(a->descriptor_offset == 4200 && a->data_offset == 8192 && a->data_length == 32);
    assert_true(file.index_offset == 8224);
    assert_int_equal(file.crc, hurray_crc32c(0, memory.bytes + 8224, (size_t)file.index_length));
    hurray_aligned_free(memory.bytes);

    const HurrayFileWriterOptions options = {
        .alignment = 8192, .sorted_index = true, .no_index_checksum = true, .tensor_count = 2};
    writer = begin(&memory, &options);
    expect_ok(add_tensor(writer, "b", bytes));
    expect_ok(add_tensor(writer, "a", csr));
    end(writer, &memory, &file);
    assert_int_equal(file.flags, 2);
    assert_true(file.hint == 2 && file.crc == 0 && file.alignment == 8192);
    assert_true(is_named(&file.entries[0], "a") && is_named(&file.entries[1], "b"));
    assert_true(file.entries[0].data_offset == 16384 && file.entries[1].data_offset == 8192);
    hurray_aligned_free(memory.bytes);
    hurray_tensor_release(csr);
    hurray_tensor_release(bytes);
}

/* Names in byte order: a prefix first, and bytes without sign. */
static void sorted_names(void **state) {
    (void)state;
    static const char *const names[] = {"\xC3\xA9", "b", "a.b", "a", "z", "a.", "B", "ab"};
    static const char *const sorted[] = {"B", "a", "a.", "a.b", "ab", "b", "z", "\xC3\xA9"};
    const HurrayFileWriterOptions options = {.sorted_index = true};
    HurrayMemoryFile memory;
    Parsed file;
    HurrayTensor *tensor = make_bytes_tensor(tensor_bytes, 1);
    HurrayFileWriter *writer = begin(&memory, &options);
    for (size_t i = 0; i < 8; i++) expect_ok(add_tensor(writer, names[i], tensor));
    end(writer, &memory, &file);
    for (size_t i = 0; i < 8; i++) assert_true(is_named(&file.entries[i], sorted[i]));
    hurray_aligned_free(memory.bytes);
    hurray_tensor_release(tensor);
}

static void checksums(void **state) {
    (void)state;
    const HurrayFileWriterOptions options = {.checksums = true};
    HurrayMemoryFile memory;
    Parsed file;
    HurrayKeyValues *metadata = NULL;
    HurrayTensor *csr = make_csr_tensor(5), *bytes = make_bytes_tensor(tensor_bytes, 77);
    HurrayFileWriter *writer = begin(&memory, &options);
    expect_ok(add_tensor(writer, "csr", csr));
    expect_ok(add_head(writer, "head", 1));
    expect_ok(add_tensor(writer, NULL, bytes));
    end(writer, &memory, &file);
    assert_int_equal(file.flags, 5);
    expect_ok(hurray_key_values_decode(memory.bytes + file.kv_offset, file.kv_length, &metadata));
    assert_int_equal(hurray_key_values_count(metadata), 1);
    const HurrayKeyValue *sums = hurray_key_values_find(metadata, "hurray.crc32c", 13);
    assert_true(sums != NULL && sums->tag == HURRAY_VALUE_BYTES);
    assert_int_equal(sums->values->text.length, 12);
    for (size_t i = 0; i < 3; i++) {
        const Entry *entry = &file.entries[i];
        const uint8_t *stored = (const uint8_t *)sums->values->text.data + 4 * i;
        uint32_t sum =
            hurray_crc32c(0, memory.bytes + entry->data_offset, (size_t)entry->data_length);
        assert_int_equal(load_u32(stored), sum);
        if (i == 1) assert_int_equal(sum, 0);
    }
    assert_true(file.entries[0].data_length > 8192);
    expect_ok(hurray_key_values_destroy(&metadata));
    hurray_aligned_free(memory.bytes);

    /* No tensors: an entry of no bytes. */
    writer = begin(&memory, &options);
    end(writer, &memory, &file);
    expect_ok(hurray_key_values_decode(memory.bytes + file.kv_offset, file.kv_length, &metadata));
    assert_int_equal(hurray_key_values_at(metadata, 0)->values->text.length, 0);
    expect_ok(hurray_key_values_destroy(&metadata));
    hurray_aligned_free(memory.bytes);
    hurray_tensor_release(bytes);
    hurray_tensor_release(csr);
}

static void member_names(void **state) {
    (void)state;
    static const char *const expected[] = {"h", "h.0", "h.1", "h.1.0", "own", "own.0", "h.3", "t"};
    HurrayMemoryFile memory;
    Parsed file;
    HurrayTensor *tensor = make_bytes_tensor(tensor_bytes, 10);
    HurrayFileWriter *writer = begin(&memory, NULL);
    expect_failure(HURRAY_ERR_NULL_POINTER, add_tensor(writer, NULL, tensor));
    expect_ok(add_head(writer, "h", 4));
    expect_ok(add_tensor(writer, NULL, tensor));
    expect_ok(add_head(writer, NULL, 1));
    expect_ok(add_tensor(writer, NULL, tensor));
    expect_ok(add_head(writer, "own", 1));
    expect_ok(add_tensor(writer, NULL, tensor));
    expect_failure(HURRAY_ERR_INTERNAL, hurray_file_writer_finish(writer));
    expect_ok(add_tensor(writer, NULL, tensor));
    expect_failure(HURRAY_ERR_NULL_POINTER, add_tensor(writer, NULL, tensor));
    expect_ok(add_tensor(writer, "t", tensor));
    end(writer, &memory, &file);
    assert_true(file.count == 8);
    for (size_t i = 0; i < 8; i++) assert_true(is_named(&file.entries[i], expected[i]));
    const Entry *head = &file.entries[0];
    assert_true(head->data_length == 0);
    assert_true(head->data_offset == head->descriptor_offset + head->descriptor_length);
    assert_true(file.entries[1].descriptor_offset == (head->data_offset + 7) / 8 * 8);
    hurray_aligned_free(memory.bytes);
    hurray_tensor_release(tensor);
}

/* ---- refused ---- */

static void refused_options(void **state) {
    (void)state;
    static const uint32_t alignments[] = {1, 64, 2048, 4095, 4097, 12288, 4194304, 0x80000000u};
    HurrayMemoryFile memory = {NULL, 0, 0};
    const HurraySink sink = hurray_memory_sink(&memory), none = {NULL, NULL};
    HurrayFileWriter *writer = NULL;
    for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
        const HurrayFileWriterOptions options = {.alignment = alignments[i]};
        expect_failure(HURRAY_ERR_INVALID_ARGUMENT,
                       hurray_file_writer_create(&sink, &options, &writer));
        expect_message("alignment is");
    }
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_writer_create(&none, NULL, &writer));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_writer_create(NULL, NULL, &writer));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_writer_open(NULL, NULL, &writer));
    assert_null(writer);
    assert_int_equal(memory.size, 0);

    const HurrayScalar value = {.int64 = 1};
    const HurrayKeyValue entry = {{"hurray.crc32c", 13}, HURRAY_VALUE_INT64, 0, 1, &value};
    const HurrayFileWriterOptions checks = {.checksums = true};
    writer = begin(&memory, &checks);
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, hurray_file_writer_add_metadata(writer, &entry));
    expect_message("hurray.crc32c");
    expect_ok(hurray_file_writer_finish(writer));
    expect_failure(HURRAY_ERR_CLOSED, hurray_file_writer_add_metadata(writer, &entry));
    expect_ok(hurray_file_writer_destroy(&writer));
    hurray_aligned_free(memory.bytes);
}

static void refused_tensors(void **state) {
    (void)state;
    static char long_name[HURRAY_MAX_NAME_LENGTH + 1];
    memset(long_name, 'n', sizeof long_name);
    HurrayMemoryFile memory;
    Parsed file;
    HurrayTensor *tensor = make_bytes_tensor(tensor_bytes, 10);
    HurrayFileWriter *writer = begin(&memory, NULL);
    expect_ok(add_tensor(writer, "there", tensor));
    uint64_t position = hurray_file_writer_position(writer);
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, add_tensor(writer, "", tensor));
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT,
                   hurray_file_writer_add(writer, long_name, sizeof long_name, tensor));
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, add_tensor(writer, "a\xED\xA0\x80", tensor));
    expect_message("byte 1");
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, add_tensor(writer, "there", tensor));
    expect_message("\"there\"");

    HurrayTensor *far = NULL;
    HurrayBuffer *buffer = NULL;
    const uint64_t shape[1] = {64};
    const HurrayBufferInfo device = {.data = tensor_bytes,
                                     .byte_size = 64,
                                     .alignment = 64,
                                     .device = {HURRAY_DEVICE_CUDA, 0, 0}};
    HurrayDescriptorFields fields = {.type_tag = HURRAY_TYPE_UINT8,
                                     .rank = 1,
                                     .shape = shape,
                                     .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
                                     .buffer_count = 1};
    expect_ok(hurray_buffer_create(&device, NULL, NULL, &buffer));
    expect_ok(hurray_tensor_create(&fields, &buffer, &far));
    expect_failure(HURRAY_ERR_UNSUPPORTED, add_tensor(writer, "far", far));
    expect_message("cuda");
    hurray_tensor_release(far);
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT,
                   hurray_file_writer_add_head(writer, "head", 4, &fields));

    /* Outside of a composite, a member that says it is one. */
    const HurrayDescriptorFields bad = {.type_tag = HURRAY_TYPE_UINT8, .layout = {0x0B, {NULL}}};
    expect_any_failure(hurray_file_writer_add_head(writer, "head", 4, &bad));
    assert_true(hurray_file_writer_position(writer) == position);

    /* All that left the writer as it was. */
    expect_ok(hurray_file_writer_add(writer, long_name, HURRAY_MAX_NAME_LENGTH, tensor));
    end(writer, &memory, &file);
    assert_true(file.count == 2);
    hurray_aligned_free(memory.bytes);

    writer = begin(&memory, NULL);
    expect_ok(hurray_file_writer_finish(writer));
    expect_failure(HURRAY_ERR_CLOSED, hurray_file_writer_finish(writer));
    expect_failure(HURRAY_ERR_CLOSED, add_tensor(writer, "late", tensor));
    expect_ok(hurray_file_writer_destroy(&writer));
    expect_ok(hurray_file_writer_destroy(&writer));
    hurray_aligned_free(memory.bytes);
    hurray_tensor_release(tensor);
}

/* A member that breaks a rule leaves the composite torn: nothing more goes in. */
static void torn_composite(void **state) {
    (void)state;
    static const uint64_t shape[1] = {100};
    const HurrayDescriptorFields head = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 1,
        .shape = shape,
        .layout = {HURRAY_LAYOUT_COMPOSITE, {.composite = {HURRAY_RULE_PARTITION, 0, 2}}},
    };
    HurrayMemoryFile memory;
    HurrayTensor *tensor = make_bytes_tensor(tensor_bytes, 10);
    HurrayFileWriter *writer = begin(&memory, NULL);
    expect_ok(hurray_file_writer_add_head(writer, "head", 4, &head));
    uint64_t position = hurray_file_writer_position(writer);
    expect_failure(HURRAY_ERR_INTERNAL, add_tensor(writer, NULL, tensor));
    assert_true(hurray_file_writer_position(writer) == position);
    expect_failure(HURRAY_ERR_CLOSED, add_tensor(writer, "t", tensor));
    expect_failure(HURRAY_ERR_CLOSED, hurray_file_writer_finish(writer));
    expect_ok(hurray_file_writer_destroy(&writer));
    hurray_aligned_free(memory.bytes);
    hurray_tensor_release(tensor);
}

/* ---- sinks ---- */

typedef struct Failing {
    HurraySink inner;
    int writes, failing;
} Failing;

static HurrayStatus failing_write(const HurrayBytes *pieces, uint32_t count, void *context) {
    Failing *sink = context;
    if (sink->writes++ == sink->failing) return hri_fail_io(28, "the sink is full");
    return sink->inner.write(pieces, count, sink->inner.context);
}

static HurrayStatus write_all(const HurraySink *sink, HurrayFileWriter **writer) {
    const HurrayFileWriterOptions options = {.checksums = true, .sorted_index = true};
    HurrayTensor *bytes = make_bytes_tensor(tensor_bytes, 100), *csr = make_csr_tensor(3);
    HurrayStatus status = hurray_file_writer_create(sink, &options, writer);
    if (status == HURRAY_OK) status = add_tensor(*writer, "bytes", bytes);
    if (status == HURRAY_OK) status = add_head(*writer, "head", 2);
    if (status == HURRAY_OK) status = add_tensor(*writer, NULL, csr);
    if (status == HURRAY_OK) status = add_tensor(*writer, NULL, bytes);
    if (status == HURRAY_OK) status = hurray_file_writer_finish(*writer);
    hurray_tensor_release(csr);
    hurray_tensor_release(bytes);
    return status;
}

static void failing_sinks(void **state) {
    (void)state;
    int writes = 1;
    for (int failing = -1; failing < writes; failing++) {
        HurrayMemoryFile memory = {NULL, 0, 0};
        Failing context = {hurray_memory_sink(&memory), 0, failing};
        const HurraySink sink = {failing_write, &context};
        HurrayFileWriter *writer = NULL;
        if (failing < 0) {
            expect_ok(write_all(&sink, &writer));
            writes = context.writes;
            assert_true(writes >= 6);
        } else {
            expect_failure(HURRAY_ERR_IO, write_all(&sink, &writer));
            expect_message("the sink is full");
            assert_int_equal(context.writes, failing + 1);
            assert_int_equal(writer == NULL, failing == 0);
            if (writer != NULL) {
                expect_failure(HURRAY_ERR_CLOSED, hurray_file_writer_finish(writer));
            }
        }
        expect_ok(hurray_file_writer_destroy(&writer));
        hurray_aligned_free(memory.bytes);
    }
}

/* ---- many at once ---- */

#define MANY 1000

/* uint8[1, 1, …] of 64 dimensions: a descriptor of more than 512 bytes. */
static HurrayTensor *make_tensor_of_many_dimensions(void) {
    uint64_t shape[HURRAY_MAX_RANK];
    HurrayBuffer *buffer = make_buffer(tensor_bytes, 1);
    HurrayTensor *tensor = NULL;
    for (size_t i = 0; i < HURRAY_MAX_RANK; i++) shape[i] = 1;
    const HurrayDescriptorFields fields = {.type_tag = HURRAY_TYPE_UINT8,
                                           .rank = HURRAY_MAX_RANK,
                                           .shape = shape,
                                           .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
                                           .buffer_count = 1};
    expect_ok(hurray_tensor_create(&fields, &buffer, &tensor));
    return tensor;
}

/* uint8[1] of a private layout with 40,000 bytes of its own: a descriptor as long. */
static HurrayTensor *make_tensor_of_long_descriptor(void) {
    static const uint8_t data[40000] = {7, 8, 9};
    static const uint64_t shape[1] = {1};
    HurrayBuffer *buffer = make_buffer(tensor_bytes, 1);
    HurrayTensor *tensor = NULL;
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8, .rank = 1, .shape = shape, .buffer_count = 1};
    fields.layout.tag = HURRAY_LAYOUT_PRIVATE_FIRST;
    fields.layout.extension.extension_layout_id = 1;
    fields.layout.extension.extension_data = data;
    fields.layout.extension.extension_data_length = sizeof data;
    expect_ok(hurray_tensor_create(&fields, &buffer, &tensor));
    return tensor;
}

typedef struct Many {
    HurrayTensor *kinds[5];
    char names[MANY][16];
    HurrayFileItem items[MANY];
} Many;

/* All kinds mixed: small ones, empty ones, of several buffers, with long descriptors. */
static void make_many(Many *many) {
    fill_tensor_bytes();
    many->kinds[0] = make_bytes_tensor(tensor_bytes, 100);
    many->kinds[1] = make_csr_tensor(5);
    many->kinds[2] = make_bytes_tensor(NULL, 0);
    many->kinds[3] = make_tensor_of_many_dimensions();
    many->kinds[4] = make_tensor_of_long_descriptor();
    for (size_t i = 0; i < MANY; i++) {
        int length = snprintf(many->names[i], sizeof many->names[i], "t%zu", i);
        /* Runs of each kind, then a mixture. */
        size_t kind = i < MANY / 2 ? i * 10 / MANY : i % 7 % 5;
        many->items[i] = (HurrayFileItem){many->names[i], (size_t)length, many->kinds[kind]};
    }
}

static void release_many(Many *many) {
    for (size_t i = 0; i < 5; i++) hurray_tensor_release(many->kinds[i]);
}

static void add_one_by_one(HurrayFileWriter *writer, const Many *many, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const HurrayFileItem *item = &many->items[i];
        expect_ok(hurray_file_writer_add(writer, item->name, item->name_length, item->tensor));
    }
}

static void expect_same(HurrayMemoryFile *one, HurrayMemoryFile *other) {
    assert_int_equal(one->size, other->size);
    assert_memory_equal(one->bytes, other->bytes, one->size);
    hurray_aligned_free(one->bytes);
    hurray_aligned_free(other->bytes);
}

/* The same bytes as one by one, in fewer calls. */
static void many_at_once(void **state) {
    (void)state;
    static Many many;
    const HurrayFileWriterOptions options = {.checksums = true};
    HurrayMemoryFile expected, memory = {NULL, 0, 0};
    make_many(&many);
    HurrayFileWriter *writer = begin(&expected, &options);
    add_one_by_one(writer, &many, MANY);
    expect_ok(hurray_file_writer_finish(writer));
    expect_ok(hurray_file_writer_destroy(&writer));

    Failing context = {hurray_memory_sink(&memory), 0, -1};
    const HurraySink sink = {failing_write, &context};
    size_t added = 0;
    expect_ok(hurray_file_writer_create(&sink, &options, &writer));
    expect_ok(hurray_file_writer_add_many(writer, NULL, 0, &added));
    assert_int_equal(context.writes, 1); /* the header */
    expect_ok(hurray_file_writer_add_many(writer, many.items, 100, &added));
    assert_int_equal(added, 100);
    assert_true(context.writes <= 1 + 4);
    assert_int_equal(hurray_file_writer_position(writer), memory.size);
    expect_ok(hurray_file_writer_add_many(writer, many.items + 100, MANY - 100, &added));
    assert_int_equal(added, MANY - 100);
    assert_int_equal(hurray_file_writer_position(writer), memory.size);
    assert_true(context.writes < MANY / 2);
    expect_ok(hurray_file_writer_finish(writer));
    expect_ok(hurray_file_writer_destroy(&writer));
    expect_same(&expected, &memory);
    release_many(&many);
}

/* What comes before one that is refused is written; the writer goes on. */
static void one_of_many_refused(void **state) {
    (void)state;
    static Many many;
    make_many(&many);
    for (size_t refused = 0; refused < 150; refused += refused < 5 ? 1 : 29) {
        HurrayMemoryFile expected, memory;
        HurrayFileWriter *writer = begin(&expected, NULL);
        add_one_by_one(writer, &many, refused);
        expect_ok(hurray_file_writer_finish(writer));
        expect_ok(hurray_file_writer_destroy(&writer));

        writer = begin(&memory, NULL);
        size_t added = MANY;
        HurrayFileItem kept = many.items[refused];
        many.items[refused].name_length = 0;
        expect_failure(HURRAY_ERR_INVALID_ARGUMENT,
                       hurray_file_writer_add_many(writer, many.items, MANY, &added));
        expect_message("a name has 0 bytes");
        many.items[refused] = kept;
        many.items[refused].tensor = NULL;
        assert_int_equal(added, refused);
        assert_int_equal(hurray_file_writer_position(writer), memory.size);
        expect_failure(HURRAY_ERR_NULL_POINTER,
                       hurray_file_writer_add_many(writer, many.items + refused, 1, &added));
        many.items[refused] = kept;
        assert_int_equal(added, 0);
        expect_ok(hurray_file_writer_finish(writer));
        expect_failure(HURRAY_ERR_CLOSED,
                       hurray_file_writer_add_many(writer, many.items, 1, &added));
        expect_ok(hurray_file_writer_destroy(&writer));
        expect_same(&expected, &memory);
    }
    HurrayMemoryFile memory;
    HurrayFileWriter *writer = begin(&memory, NULL);
    size_t added = 7;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_writer_add_many(NULL, NULL, 0, &added));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_file_writer_add_many(writer, NULL, 1, &added));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_file_writer_add_many(writer, many.items, 1, NULL));
    assert_int_equal(added, 7);
    expect_ok(hurray_file_writer_destroy(&writer));
    hurray_aligned_free(memory.bytes);
    release_many(&many);
}

/* A sink that fails anywhere ends the writer; a composite that is torn does, too. */
static void many_into_failing_sinks(void **state) {
    (void)state;
    static Many many;
    size_t added;
    make_many(&many);
    for (int failing = 1; failing < 6; failing++) {
        HurrayMemoryFile memory = {NULL, 0, 0};
        Failing context = {hurray_memory_sink(&memory), 0, failing};
        const HurraySink sink = {failing_write, &context};
        HurrayFileWriter *writer = NULL;
        expect_ok(hurray_file_writer_create(&sink, NULL, &writer));
        many.items[400].name_length = failing % 2 ? 0 : 2; /* also while a refusal is on its way */
        expect_failure(HURRAY_ERR_IO,
                       hurray_file_writer_add_many(writer, many.items, MANY, &added));
        expect_message("the sink is full");
        assert_int_equal(context.writes, failing + 1);
        expect_failure(HURRAY_ERR_CLOSED,
                       hurray_file_writer_add_many(writer, many.items, 1, &added));
        assert_int_equal(added, 0);
        expect_ok(hurray_file_writer_destroy(&writer));
        hurray_aligned_free(memory.bytes);
    }
    HurrayMemoryFile memory;
    HurrayFileWriter *writer = begin(&memory, NULL);
    const HurrayFileItem members[3] = {{NULL, 0, many.kinds[0]}, {NULL, 0, many.kinds[0]}};
    expect_ok(add_head(writer, "head", 2));
    expect_ok(hurray_file_writer_add_many(writer, members, 2, &added));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_file_writer_add_many(writer, members, 1, &added));
    expect_ok(hurray_file_writer_finish(writer));
    expect_ok(hurray_file_writer_destroy(&writer));
    hurray_aligned_free(memory.bytes);
    release_many(&many);
}

/* Counts what goes by, and keeps the end of it. */
typedef struct Counting {
    uint64_t total;
    uint8_t end[4096];
    size_t kept;
} Counting;

static HurrayStatus count_write(const HurrayBytes *pieces, uint32_t count, void *context) {
    Counting *counting = context;
    for (uint32_t i = 0; i < count; i++) {
        counting->total += pieces[i].size;
        if (pieces[i].size > sizeof counting->end - counting->kept) {
            counting->kept = 0;
        } else {
            memcpy(counting->end + counting->kept, pieces[i].data, (size_t)pieces[i].size);
            counting->kept += (size_t)pieces[i].size;
        }
    }
    return HURRAY_OK;
}

/* Two tensors of more than 2^32 elements each, the second one from an offset above 2^32 on. */
static void big_files(void **state) {
    (void)state;
    const uint64_t size = UINT64_C(5) << 30;
    uint8_t *zeros =
        mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) skip(); /* no room for addresses */
    static Counting counting;
    const HurraySink sink = {count_write, &counting};
    HurrayFileWriter *writer = NULL;
    HurrayTensor *tensor = make_bytes_tensor(zeros, size);
    expect_ok(hurray_file_writer_create(&sink, NULL, &writer));
    expect_ok(add_tensor(writer, "a", tensor));
    expect_ok(add_tensor(writer, "b", tensor));
    counting.kept = 0;
    expect_ok(hurray_file_writer_finish(writer));
    assert_true(hurray_file_writer_position(writer) == counting.total);
    expect_ok(hurray_file_writer_destroy(&writer));
    assert_int_equal(counting.kept, 8 + 2 * 35 + 40);
    const uint8_t *first = counting.end + 8 + 3, *second = first + 35;
    assert_true(load_u64(first) == 64);
    assert_true(load_u64(first + 12) == 4096 && load_u64(first + 20) == size);
    assert_true(load_u64(second) == 4096 + size);
    assert_true(load_u64(second + 12) == 8192 + size && load_u64(second + 20) == size);
    assert_true(load_u64(counting.end + 78) == 8192 + 2 * size);
    assert_true(counting.total == 8192 + 2 * size + 8 + 2 * 35 + 40);
    hurray_tensor_release(tensor);
    munmap(zeros, (size_t)size);
}

/* What is kept is the index: the names of 100,000 tensors are unique in no time. */
static void many_tensors(void **state) {
    (void)state;
    static Counting counting;
    const HurraySink sink = {count_write, &counting};
    HurrayFileWriter *writer = NULL;
    HurrayTensor *tensor = make_bytes_tensor(tensor_bytes, 1);
    const HurrayFileWriterOptions options = {.sorted_index = true};
    expect_ok(hurray_file_writer_create(&sink, &options, &writer));
    char name[32];
    for (int i = 0; i < 100000; i++) {
        snprintf(name, sizeof name, "layers.%d.weight", i);
        expect_ok(add_tensor(writer, name, tensor));
    }
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, add_tensor(writer, name, tensor));
    expect_ok(hurray_file_writer_finish(writer));
    expect_ok(hurray_file_writer_destroy(&writer));
    hurray_tensor_release(tensor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_files),        cmocka_unit_test(places),
        cmocka_unit_test(sorted_names),        cmocka_unit_test(checksums),
        cmocka_unit_test(member_names),        cmocka_unit_test(refused_options),
        cmocka_unit_test(refused_tensors),     cmocka_unit_test(torn_composite),
        cmocka_unit_test(failing_sinks),       cmocka_unit_test(big_files),
        cmocka_unit_test(many_tensors),        cmocka_unit_test(many_at_once),
        cmocka_unit_test(one_of_many_refused), cmocka_unit_test(many_into_failing_sinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
