/*
 * Every allocation in turn fails while streams are read and written: that gives
 * HURRAY_ERR_OUT_OF_MEMORY and leaves no block behind. And how few allocations a tensor takes.
 */
#include "failing.h"

#include <hurray/stream_reader.h>
#include <hurray/stream_writer.h>

/* ---- the stream: a tensor of two kinds of buffers, and a partition in two, in a group ---- */

static _Alignas(64) uint8_t host[8192];
static uint8_t stream[32768]; /* as it was written when nothing failed */
static size_t stream_size;

typedef struct Destination {
    uint8_t *bytes;
    size_t size;
} Destination;

static HurrayStatus keep(const HurrayBytes *pieces, uint32_t count, void *context) {
    Destination *destination = context;
    for (uint32_t i = 0; i < count; i++) {
        size_t size = (size_t)pieces[i].size;
        assert_true(size <= sizeof stream - destination->size);
        if (size != 0) memcpy(destination->bytes + destination->size, pieces[i].data, size);
        destination->size += size;
    }
    return HURRAY_OK;
}

static HurrayStatus give(uint8_t *bytes, size_t size, size_t *out_read, void *context) {
    size_t *position = context;
    if (size > 997) size = 997;
    if (size > stream_size - *position) size = stream_size - *position;
    memcpy(bytes, stream + *position, size);
    *position += size;
    *out_read = size;
    return HURRAY_OK;
}

static HurrayTensor *members[3];
static const uint64_t whole = 8000, half = 4000;
static const uint64_t offsets[2] = {0, 4000};
static const uint8_t long_data[1000];
static const uint64_t known_id = 5;

static HurrayTensor *make_tensor(const HurrayDescriptorFields *fields) {
    HurrayBuffer *buffers[2];
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        const HurrayBufferInfo info = {
            .data = host, .byte_size = i == 0 ? 4000 : 0, .alignment = 64};
        expect_ok(hurray_buffer_create(&info, NULL, NULL, &buffers[i]));
    }
    HurrayTensor *tensor = NULL;
    expect_ok(hurray_tensor_create(fields, buffers, &tensor));
    return tensor;
}

static void make_members(void) {
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 1,
        .shape = &half,
        .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
        .buffer_count = 1,
    };
    for (int i = 0; i < 2; i++) {
        const HurrayShard shard = {&whole, &offsets[i]};
        fields.shard = &shard;
        members[i] = make_tensor(&fields);
    }
    /* A descriptor longer than the writer and the decoder have room for at first. */
    fields.shard = NULL;
    fields.layout = (HurrayLayout){0xF1, {.extension = {known_id, long_data, sizeof long_data}}};
    fields.buffer_count = 2;
    members[2] = make_tensor(&fields);
}

enum {
    PARTS = 5
};

/* Part 0 is the head of the group, 1 that of the partition, then come the members. */
static HurrayStatus write_part(HurrayStreamWriter *writer, int part) {
    if (part >= 2) return hurray_stream_writer_write(writer, members[part - 2]);
    const HurrayDescriptorFields head = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 1,
        .shape = &whole,
        .layout = {HURRAY_LAYOUT_COMPOSITE,
                   {.composite = {part == 0 ? HURRAY_RULE_GROUP : HURRAY_RULE_PARTITION, 0, 2}}},
    };
    return hurray_stream_writer_write_head(writer, &head);
}

static HurrayStatus write_stream(void) {
    static uint8_t bytes[sizeof stream];
    Destination destination = {bytes, 0};
    const HurraySink sink = {keep, &destination};
    HurrayStreamWriter *writer = NULL;
    HurrayStatus first = HURRAY_OK, status = hurray_stream_writer_create(&sink, NULL, &writer);
    if (status != HURRAY_OK) {
        assert_null(writer);
        return status;
    }
    for (int part = 0; status == HURRAY_OK && part < PARTS; part++) {
        status = write_part(writer, part);
        if (status == HURRAY_OK) continue;
        /* What failed is tried again: it goes on as if nothing had been, or not at all. */
        first = status;
        failing = -1;
        status = write_part(writer, part);
        assert_true(status == HURRAY_OK || status == first);
    }
    if (status == HURRAY_OK) {
        assert_int_equal(hurray_stream_writer_finish(writer), HURRAY_OK);
        if (first != HURRAY_OK) {
            assert_int_equal(destination.size, stream_size);
            assert_memory_equal(stream, bytes, stream_size);
        }
        memcpy(stream, bytes, destination.size);
        stream_size = destination.size;
    }
    assert_int_equal(hurray_stream_writer_destroy(&writer), HURRAY_OK);
    return first;
}

static void *allocate(size_t size, size_t alignment, bool zeroed, void *context) {
    (void)context;
    return hurray_aligned_alloc(size, alignment, zeroed);
}

static void release(void *data, size_t size, void *context) {
    (void)context;
    assert_int_equal(size, half);
    hurray_aligned_free(data);
}

static const HurrayAllocator own = {allocate, release, NULL};
static const HurrayAllocator *allocator; /* of the reader */

static HurrayStatus read_stream(void) {
    size_t position = 0;
    const HurraySource source = {give, &position};
    HurrayStreamOptions options;
    HurrayStreamReader *reader = NULL;
    HurrayStreamPart part = {HURRAY_STREAM_MORE, NULL, NULL, 0, false};
    hurray_stream_options_init(&options);
    options.decode = (HurrayDecodeOptions){false, &known_id, 1};
    options.allocator = allocator;
    HurrayStatus status = hurray_stream_reader_create(&source, &options, &reader);
    if (status != HURRAY_OK) {
        assert_null(reader);
        return status;
    }
    int parts = 0;
    while (status == HURRAY_OK && part.kind != HURRAY_STREAM_END) {
        status = hurray_stream_reader_next(reader, &part);
        if (status != HURRAY_OK) break;
        parts += part.kind != HURRAY_STREAM_END;
        hurray_tensor_release(part.tensor);
        if (part.head != NULL) hurray_descriptor_destroy(part.head);
    }
    if (status == HURRAY_OK) {
        assert_int_equal(parts, 5);
    } else { /* it lasts */
        int failed = failing;
        failing = -1;
        assert_int_equal(hurray_stream_reader_next(reader, &part), status);
        failing = failed;
    }
    assert_int_equal(hurray_stream_reader_destroy(&reader), HURRAY_OK);
    return status;
}

/* ---- in turn ---- */

static void each_allocation_fails(const char *name, HurrayStatus (*operation)(void), int least) {
    int before = blocks;
    calls = 0;
    failing = -1;
    expect_ok(operation());
    int needed = calls;
    assert_true(needed >= least);
    assert_int_equal(blocks, before);
    for (int which = 0; which < needed; which++) {
        hri_fail(HURRAY_OK, STALE_MESSAGE);
        calls = 0;
        failing = which;
        HurrayStatus status = operation();
        failing = -1;
        if (blocks != before) {
            fail_msg("%s: allocation %d fails: %d blocks left", name, which, blocks - before);
        }
        expect_status_at(status, HURRAY_ERR_OUT_OF_MEMORY, name, __FILE__, __LINE__);
    }
}

static void streams(void **state) {
    (void)state;
    make_members();
    each_allocation_fails("writing", write_stream, 5);
    each_allocation_fails("reading", read_stream, 20);
    allocator = &own;
    each_allocation_fails("reading with an allocator", read_stream, 23);
    for (int i = 0; i < 3; i++) hurray_tensor_release(members[i]);
}

/* Written: none. Read: descriptor, bytes, buffer and tensor, and nothing else. */
static void allocations_of_a_tensor(void **state) {
    (void)state;
    make_members();
    static uint8_t bytes[sizeof stream];
    Destination destination = {bytes, 0};
    const HurraySink sink = {keep, &destination};
    HurrayStreamWriter *writer = NULL;
    expect_ok(hurray_stream_writer_create(&sink, NULL, &writer));
    HurrayTensor *tensor = members[0];
    calls = 0;
    for (int i = 0; i < 4; i++) expect_ok(hurray_stream_writer_write(writer, tensor));
    assert_int_equal(calls, 0);
    expect_ok(hurray_stream_writer_destroy(&writer));

    memcpy(stream, bytes, destination.size);
    stream_size = destination.size;
    size_t position = 0;
    const HurraySource source = {give, &position};
    HurrayStreamReader *reader = NULL;
    HurrayStreamPart part;
    expect_ok(hurray_stream_reader_create(&source, NULL, &reader));
    calls = 0;
    for (int i = 0; i < 4; i++) {
        expect_ok(hurray_stream_reader_next(reader, &part));
        hurray_tensor_release(part.tensor);
    }
    assert_true(calls <= 4 * 4);
    expect_ok(hurray_stream_reader_destroy(&reader));
    for (int i = 0; i < 3; i++) hurray_tensor_release(members[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams),
        cmocka_unit_test(allocations_of_a_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
