/*
 * Streams written (include/hurray/stream_writer.h, spec 5): the golden ones to the byte, from where
 * the bytes are, in one call for each tensor; what is refused, and what that does to the stream; and
 * pipes whose other end takes its time.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */

#include "streams.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- golden streams ---- */

/* What was written is the golden stream to the byte. */
static void expect_written(HurrayStreamWriter **writer, HurrayMemoryFile *file,
                           const GoldenStream *golden) {
    size_t length;
    uint8_t *bytes = read_vector(golden->file, &length);
    expect_ok(hurray_stream_writer_finish(*writer));
    assert_int_equal(hurray_stream_writer_position(*writer), length);
    assert_int_equal(file->size, length);
    if (length != 0) assert_memory_equal(file->bytes, bytes, length);
    expect_ok(hurray_stream_writer_destroy(writer));
    assert_null(*writer);
    hurray_aligned_free(file->bytes);
    *file = (HurrayMemoryFile){0};
    free(bytes);
}

static void golden_streams_are_written_to_the_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        const GoldenStream *golden = &golden_streams[i];
        HurrayMemoryFile file = {0};
        HurraySink sink = hurray_memory_sink(&file);
        HurrayStreamWriter *writer = NULL;
        expect_ok(hurray_stream_writer_create(&sink, NULL, &writer));
        for (size_t k = 0; k < golden->count; k++) {
            expect_ok(write_golden(writer, &golden->parts[k]));
        }
        expect_written(&writer, &file, golden);
    }
}

static void golden_streams_are_passed_on_to_the_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        size_t length;
        uint8_t *bytes = read_vector(golden_streams[i].file, &length);
        MemorySource memory = {bytes, length, 0, 1000, 77};
        const HurraySource source = memory_source(&memory);
        HurrayMemoryFile file = {0};
        HurraySink sink = hurray_memory_sink(&file);
        HurrayStreamReader *reader = NULL;
        HurrayStreamWriter *writer = NULL;
        HurrayStreamPart part;
        expect_ok(hurray_stream_reader_create(&source, NULL, &reader));
        expect_ok(hurray_stream_writer_create(&sink, NULL, &writer));
        while (expect_ok(hurray_stream_reader_next(reader, &part)),
               part.kind != HURRAY_STREAM_END) {
            expect_ok(write_part(writer, &part));
            release_part(&part);
        }
        expect_ok(hurray_stream_reader_destroy(&reader));
        expect_written(&writer, &file, &golden_streams[i]);
        free(bytes);
    }
}

/* ---- the sink ---- */

typedef struct Watched {
    int calls;
    uint64_t bytes;
    const uint8_t *second; /* where the piece after the descriptor lies */
    uint32_t count;
    bool fails;
} Watched;

static HurrayStatus watch(const HurrayBytes *pieces, uint32_t count, void *context) {
    Watched *watched = context;
    watched->calls++;
    if (watched->fails) return hri_fail_io(28, "the disk is full");
    watched->count = count;
    watched->second = count > 1 ? pieces[1].data : NULL;
    for (uint32_t i = 0; i < count; i++) watched->bytes += pieces[i].size;
    return HURRAY_OK;
}

static HurrayStreamWriter *open_watched(Watched *watched,
                                        const HurrayStreamWriterOptions *options) {
    const HurraySink sink = {watch, watched};
    HurrayStreamWriter *writer = NULL;
    expect_ok(hurray_stream_writer_create(&sink, options, &writer));
    return writer;
}

static void a_tensor_is_one_write_from_where_it_is(void **state) {
    (void)state;
    Watched watched = {0};
    HurrayStreamWriter *writer = open_watched(&watched, NULL);
    HurrayTensor *tensor = count_up(1000, 1);
    expect_ok(hurray_stream_writer_write(writer, tensor));
    assert_int_equal(watched.calls, 1);
    assert_int_equal(watched.count, 2);
    assert_ptr_equal(watched.second, hurray_tensor_data(tensor));
    assert_int_equal(watched.bytes, 1000 + COUNT_UP_DESCRIPTOR);
    assert_int_equal(hurray_stream_writer_position(writer), watched.bytes);
    hurray_tensor_release(tensor);
    expect_ok(hurray_stream_writer_destroy(&writer));
}

static void a_sink_that_failed_is_not_asked_again(void **state) {
    (void)state;
    Watched watched = {0};
    HurrayStreamWriter *writer = open_watched(&watched, NULL);
    HurrayTensor *tensor = count_up(10, 1);
    expect_ok(hurray_stream_writer_write(writer, tensor));
    watched.fails = true;
    for (int i = 0; i < 3; i++) {
        expect_failure(HURRAY_ERR_IO, i < 2 ? hurray_stream_writer_write(writer, tensor)
                                            : hurray_stream_writer_finish(writer));
        expect_message("the disk is full");
        assert_int_equal(hurray_error_number(), 28);
        hri_fail_io(0, "something else in between");
    }
    assert_int_equal(watched.calls, 2);
    assert_int_equal(hurray_stream_writer_position(writer), 10 + COUNT_UP_DESCRIPTOR);
    hurray_tensor_release(tensor);
    expect_ok(hurray_stream_writer_destroy(&writer));
}

/* ---- what is refused ---- */

/* A uint8 tensor [64] that declares a device. */
static HurrayTensor *on_device(uint8_t tag, uint8_t sync_mode, uint32_t flags) {
    static _Alignas(64) uint8_t bytes[64];
    const HurrayBufferInfo info = {
        .data = bytes,
        .byte_size = 64,
        .alignment = 64,
        .device = {tag, HURRAY_MEMORY_STANDARD, 0},
        .sync_mode = sync_mode,
        .flags = flags,
    };
    HurrayBuffer *buffer = NULL;
    HurrayTensor *tensor = NULL;
    const uint64_t shape = 64;
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 1,
        .shape = &shape,
        .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
        .buffer_count = 1,
    };
    expect_ok(hurray_buffer_create(&info, NULL, NULL, &buffer));
    expect_ok(hurray_tensor_create(&fields, &buffer, &tensor));
    return tensor;
}

static void only_readable_bytes_are_written(void **state) {
    (void)state;
    static const struct {
        uint8_t tag, sync_mode;
        uint32_t flags;
        HurrayStatus here, across;
        const char *said;
    } cases[] = {
        {HURRAY_DEVICE_CPU, HURRAY_SYNC_PRODUCER_SYNCED, 0, HURRAY_OK, HURRAY_OK, ""},
        {HURRAY_DEVICE_CUDA, HURRAY_SYNC_PRODUCER_SYNCED, 0, HURRAY_ERR_UNSUPPORTED,
         HURRAY_ERR_UNSUPPORTED, "cuda"},
        {HURRAY_DEVICE_CUDA, HURRAY_SYNC_PRODUCER_SYNCED, HURRAY_BUFFER_STAGED_ON_HOST, HURRAY_OK,
         HURRAY_OK, ""},
        {HURRAY_DEVICE_ROCM, HURRAY_SYNC_EVENT, HURRAY_BUFFER_STAGED_ON_HOST,
         HURRAY_ERR_UNSUPPORTED, HURRAY_ERR_INVALID_SYNC_MODE, "event"},
        {HURRAY_DEVICE_CUDA, HURRAY_SYNC_CONSUMER_STREAM, 0, HURRAY_ERR_UNSUPPORTED,
         HURRAY_ERR_INVALID_SYNC_MODE, "consumer_stream"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        HurrayTensor *tensor = on_device(cases[i].tag, cases[i].sync_mode, cases[i].flags);
        for (int across = 0; across < 2; across++) {
            Watched watched = {0};
            const HurrayStreamWriterOptions options = {.cross_machine = across == 1};
            HurrayStreamWriter *writer = open_watched(&watched, &options);
            HurrayStatus expected = across ? cases[i].across : cases[i].here;
            if (expected == HURRAY_OK) {
                expect_ok(hurray_stream_writer_write(writer, tensor));
            } else {
                expect_failure(expected, hurray_stream_writer_write(writer, tensor));
                expect_message(cases[i].said);
                assert_int_equal(watched.calls, 0);
            }
            /* It goes on. */
            HurrayTensor *other = count_up(3, 0);
            expect_ok(hurray_stream_writer_write(writer, other));
            expect_ok(hurray_stream_writer_finish(writer));
            hurray_tensor_release(other);
            expect_ok(hurray_stream_writer_destroy(&writer));
        }
        hurray_tensor_release(tensor);
    }
}

static const uint64_t four = 4;
/* A head over `members` of uint8 [4]. */
static HurrayDescriptorFields head_of(uint8_t rule, uint32_t members) {
    return (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 1,
        .shape = &four,
        .layout = {HURRAY_LAYOUT_COMPOSITE, {.composite = {rule, 0, members}}},
    };
}

static void finishing(void **state) {
    (void)state;
    Watched watched = {0};
    HurrayStreamWriter *writer = open_watched(&watched, NULL);
    HurrayTensor *tensor = count_up(4, 0);
    const HurrayDescriptorFields head = head_of(HURRAY_RULE_GROUP, 2);
    expect_ok(hurray_stream_writer_write_head(writer, &head));
    expect_ok(hurray_stream_writer_write(writer, tensor));
    expect_failure(HURRAY_ERR_INTERNAL, hurray_stream_writer_finish(writer));
    expect_message("1 of 2 members");
    expect_ok(hurray_stream_writer_write(writer, tensor)); /* it may still be completed */
    expect_ok(hurray_stream_writer_finish(writer));
    expect_ok(hurray_stream_writer_finish(writer));
    const int calls = watched.calls;
    expect_failure(HURRAY_ERR_CLOSED, hurray_stream_writer_write(writer, tensor));
    expect_failure(HURRAY_ERR_CLOSED, hurray_stream_writer_write_head(writer, &head));
    assert_int_equal(watched.calls, calls);
    hurray_tensor_release(tensor);
    expect_ok(hurray_stream_writer_destroy(&writer));
}

/* The member is refused before it is written; with the head out, the stream cannot be saved. */
static void a_refused_member_ends_the_stream(void **state) {
    (void)state;
    Watched watched = {0};
    HurrayStreamWriter *writer = open_watched(&watched, NULL);
    HurrayTensor *tensor = count_up(4, 0); /* without a shard */
    const HurrayDescriptorFields head = head_of(HURRAY_RULE_PARTITION, 1);
    expect_ok(hurray_stream_writer_write_head(writer, &head));
    for (int i = 0; i < 3; i++) {
        expect_failure(HURRAY_ERR_INTERNAL, i < 2 ? hurray_stream_writer_write(writer, tensor)
                                                  : hurray_stream_writer_finish(writer));
        expect_message("no shard section");
    }
    assert_int_equal(watched.calls, 1);
    hurray_tensor_release(tensor);
    expect_ok(hurray_stream_writer_destroy(&writer));
}

static void a_refused_head_leaves_the_writer_as_it_was(void **state) {
    (void)state;
    Watched watched = {0};
    HurrayStreamWriter *writer = open_watched(&watched, NULL);
    HurrayTensor *tensor = count_up(4, 0);
    HurrayDescriptorFields head = head_of(HURRAY_RULE_OVERLAY, 0);
    head.layout.composite.combine_op = HURRAY_COMBINE_ADD;
    expect_failure(HURRAY_ERR_INTERNAL, hurray_stream_writer_write_head(writer, &head));
    expect_message("at least a base");
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT,
                   hurray_stream_writer_write_head(writer, hurray_tensor_fields(tensor)));
    assert_int_equal(watched.calls, 0);
    expect_ok(hurray_stream_writer_write(writer, tensor));
    expect_ok(hurray_stream_writer_finish(writer));
    hurray_tensor_release(tensor);
    expect_ok(hurray_stream_writer_destroy(&writer));
}

static void composites_nest_eight_levels(void **state) {
    (void)state;
    Watched watched = {0};
    HurrayStreamWriter *writer = open_watched(&watched, NULL);
    const HurrayDescriptorFields head = head_of(HURRAY_RULE_GROUP, 1);
    for (uint32_t i = 0; i < HURRAY_MAX_COMPOSITE_DEPTH; i++) {
        expect_ok(hurray_stream_writer_write_head(writer, &head));
    }
    expect_failure(HURRAY_ERR_INTERNAL, hurray_stream_writer_write_head(writer, &head));
    expect_message("deeper than 8");
    expect_ok(hurray_stream_writer_destroy(&writer));
}

/* What a writer owes beyond what a reader checks: no empty box inside another. */
static void empty_boxes_inside_others_are_refused(void **state) {
    (void)state;
    for (uint64_t offset = 0; offset <= 2; offset += 2) {
        Watched watched = {0};
        HurrayStreamWriter *writer = open_watched(&watched, NULL);
        const HurrayDescriptorFields head = head_of(HURRAY_RULE_PARTITION, 2);
        expect_ok(hurray_stream_writer_write_head(writer, &head));
        for (int empty = 0; empty < 2; empty++) {
            const uint64_t zero = 0;
            const HurrayShard shard = {&four, empty ? &offset : &zero};
            HurrayBuffer *buffer = NULL;
            HurrayTensor *tensor = NULL;
            const HurrayDescriptorFields fields = {
                .type_tag = HURRAY_TYPE_UINT8,
                .rank = 1,
                .shape = empty ? &zero : &four,
                .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
                .buffer_count = 1,
                .shard = &shard,
            };
            expect_ok(hurray_buffer_allocate(empty ? 0 : 4, true, NULL, &buffer));
            expect_ok(hurray_tensor_create(&fields, &buffer, &tensor));
            if (empty && offset == 2) {
                expect_failure(HURRAY_ERR_INTERNAL, hurray_stream_writer_write(writer, tensor));
            } else {
                expect_ok(hurray_stream_writer_write(writer, tensor));
            }
            hurray_tensor_release(tensor);
        }
        expect_ok(hurray_stream_writer_destroy(&writer));
    }
}

static void unassigned_layouts_are_refused(void **state) {
    (void)state;
    HurrayTensor *donor = count_up(64, 0);
    uint8_t bytes[128];
    uintptr_t length = 0;
    expect_ok(hurray_descriptor_encode(hurray_tensor_fields(donor), bytes, sizeof bytes, &length));
    bytes[15] = 0x3E;
    HurrayDescriptor *opaque = NULL;
    HurrayTensor *tensor = NULL;
    const HurrayDecodeOptions permissive = {.permissive = true};
    expect_ok(hurray_descriptor_decode_with(bytes, length, &permissive, &opaque));
    expect_ok(hurray_tensor_create(hurray_descriptor_fields(opaque), NULL, &tensor));
    Watched watched = {0};
    HurrayStreamWriter *writer = open_watched(&watched, NULL);
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_stream_writer_write(writer, tensor));
    expect_message("layout tag 0x3E");
    assert_int_equal(watched.calls, 0);
    expect_ok(hurray_stream_writer_write(writer, donor));
    hurray_tensor_release(tensor);
    hurray_tensor_release(donor);
    expect_ok(hurray_descriptor_destroy(opaque));
    expect_ok(hurray_stream_writer_destroy(&writer));
}

static void misuse_is_noticed(void **state) {
    (void)state;
    Watched watched = {0};
    HurrayStreamWriter *writer = NULL;
    const HurraySink sink = {watch, &watched}, nothing = {NULL, NULL};
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_stream_writer_create(NULL, NULL, &writer));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_stream_writer_create(&nothing, NULL, &writer));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_stream_writer_create(&sink, NULL, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_stream_writer_destroy(NULL));
    expect_ok(hurray_stream_writer_destroy(&writer));
    writer = open_watched(&watched, NULL);
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_stream_writer_write(writer, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_stream_writer_write_head(writer, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_stream_writer_finish(NULL));
    assert_int_equal(hurray_stream_writer_position(NULL), 0);
    expect_ok(hurray_stream_writer_destroy(&writer));
}

/* ---- sizes ---- */

/* Descriptors longer than any the writer has room for at first, and short ones after them. */
static void long_descriptors(void **state) {
    (void)state;
    HurrayMemoryFile file = {0};
    HurraySink sink = hurray_memory_sink(&file);
    HurrayStreamWriter *writer = NULL;
    static uint8_t data[100000];
    const uint64_t known = 7;
    static const uint32_t lengths[] = {1, 100000, 400, 500, 65536, 0};
    const size_t count = sizeof lengths / sizeof lengths[0];
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .layout = {0xF1, {.extension = {known, data, 0}}},
        .buffer_count = 1,
    };
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 7);
    expect_ok(hurray_stream_writer_create(&sink, NULL, &writer));
    for (size_t i = 0; i < count; i++) {
        HurrayBuffer *buffer = NULL;
        HurrayTensor *tensor = NULL;
        fields.layout.extension.extension_data_length = lengths[i];
        expect_ok(hurray_buffer_allocate(4, true, NULL, &buffer));
        expect_ok(hurray_tensor_create(&fields, &buffer, &tensor));
        expect_ok(hurray_stream_writer_write(writer, tensor));
        hurray_tensor_release(tensor);
    }
    expect_ok(hurray_stream_writer_destroy(&writer));

    HurrayStreamOptions options;
    hurray_stream_options_init(&options);
    options.decode = (HurrayDecodeOptions){false, &known, 1};
    MemorySource memory = {file.bytes, file.size, 0, 777, 0};
    const HurraySource source = memory_source(&memory);
    HurrayStreamReader *reader = NULL;
    HurrayStreamPart part;
    expect_ok(hurray_stream_reader_create(&source, &options, &reader));
    for (size_t i = 0; i < count; i++) {
        expect_ok(hurray_stream_reader_next(reader, &part));
        const HurrayPrivateLayout *layout = &part_fields(&part)->layout.extension;
        assert_int_equal(layout->extension_data_length, lengths[i]);
        if (lengths[i] != 0) assert_memory_equal(layout->extension_data, data, lengths[i]);
        release_part(&part);
    }
    expect_ok(hurray_stream_reader_next(reader, &part));
    assert_int_equal(part.kind, HURRAY_STREAM_END);
    expect_ok(hurray_stream_reader_destroy(&reader));
    hurray_aligned_free(file.bytes);
}

/* A tensor of more than 4 GiB, of which no byte is touched, between two small ones. */
static void beyond_four_gigabytes(void **state) {
    (void)state;
#if SIZE_MAX > UINT32_MAX
    const uint64_t size = (UINT64_C(5) << 30) + 12;
    void *data =
        mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) skip(); /* address space is limited here */
    const HurrayBufferInfo info = {.data = data, .byte_size = size, .alignment = 4096};
    HurrayBuffer *buffer = NULL;
    HurrayTensor *large = NULL, *small = count_up(1, 1);
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 1,
        .shape = &size,
        .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
        .buffer_count = 1,
    };
    expect_ok(hurray_buffer_create(&info, NULL, NULL, &buffer));
    expect_ok(hurray_tensor_create(&fields, &buffer, &large));
    Watched watched = {0};
    HurrayStreamWriter *writer = open_watched(&watched, NULL);
    expect_ok(hurray_stream_writer_write(writer, small));
    expect_ok(hurray_stream_writer_write(writer, large));
    expect_ok(hurray_stream_writer_write(writer, small));
    const uint64_t total = size + 2 + 3 * COUNT_UP_DESCRIPTOR;
    assert_int_equal(watched.bytes, total);
    assert_int_equal(hurray_stream_writer_position(writer), total);
    expect_ok(hurray_stream_writer_destroy(&writer));
    hurray_tensor_release(large);
    hurray_tensor_release(small);
    munmap(data, (size_t)size);
#endif
}

/* ---- pipes and sockets ---- */

/* Takes what comes, a little at a time. */
typedef struct Consumer {
    int descriptor;
    uint8_t *bytes;
    size_t size, capacity;
} Consumer;

static void *consume(void *context) {
    Consumer *consumer = context;
    const struct timespec pause = {0, 20000};
    for (;;) {
        size_t most = consumer->capacity - consumer->size;
        if (most > 5000) most = 5000;
        ssize_t got = read(consumer->descriptor, consumer->bytes + consumer->size, most);
        if (got <= 0) return NULL;
        consumer->size += (size_t)got;
        nanosleep(&pause, NULL);
    }
}

/* Back-pressure: a full pipe is waited for, blocking or not, and nothing is lost. */
static void slow_consumers(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1, 300000, 5, 70000, 0, 200000, 64};
    enum {
        COUNT = sizeof sizes / sizeof sizes[0]
    };
    for (int kind = 0; kind < 4; kind++) {
        int ends[2];
        bool sockets = kind % 2 == 1;
        assert_int_equal(sockets ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends), 0);
        if (kind / 2 == 1) assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
        Consumer consumer = {.descriptor = ends[0], .capacity = 1 << 20};
        consumer.bytes = malloc(consumer.capacity);
        assert_non_null(consumer.bytes);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, consume, &consumer), 0);

        HurrayOpenFile file = {.descriptor = ends[1]};
        const HurraySink sink = hurray_open_file_sink(&file);
        HurrayStreamWriter *writer = NULL;
        expect_ok(hurray_stream_writer_create(&sink, NULL, &writer));
        for (uint8_t i = 0; i < COUNT; i++) {
            HurrayTensor *tensor = count_up(sizes[i], i);
            expect_ok(hurray_stream_writer_write(writer, tensor));
            hurray_tensor_release(tensor);
        }
        expect_ok(hurray_stream_writer_finish(writer));
        close(ends[1]);
        pthread_join(thread, NULL);
        close(ends[0]);
        assert_int_equal(consumer.size, hurray_stream_writer_position(writer));
        expect_ok(hurray_stream_writer_destroy(&writer));

        MemorySource memory = {consumer.bytes, consumer.size, 0, SIZE_MAX, 0};
        const HurraySource source = memory_source(&memory);
        HurrayStreamReader *reader = NULL;
        HurrayStreamPart part;
        expect_ok(hurray_stream_reader_create(&source, NULL, &reader));
        for (uint8_t i = 0; i < COUNT; i++) {
            expect_ok(hurray_stream_reader_next(reader, &part));
            expect_counts_up(part.tensor, sizes[i], i);
            release_part(&part);
        }
        expect_ok(hurray_stream_reader_destroy(&reader));
        free(consumer.bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_streams_are_written_to_the_byte),
        cmocka_unit_test(golden_streams_are_passed_on_to_the_byte),
        cmocka_unit_test(a_tensor_is_one_write_from_where_it_is),
        cmocka_unit_test(a_sink_that_failed_is_not_asked_again),
        cmocka_unit_test(only_readable_bytes_are_written),
        cmocka_unit_test(finishing),
        cmocka_unit_test(a_refused_member_ends_the_stream),
        cmocka_unit_test(a_refused_head_leaves_the_writer_as_it_was),
        cmocka_unit_test(composites_nest_eight_levels),
        cmocka_unit_test(empty_boxes_inside_others_are_refused),
        cmocka_unit_test(unassigned_layouts_are_refused),
        cmocka_unit_test(misuse_is_noticed),
        cmocka_unit_test(long_descriptors),
        cmocka_unit_test(beyond_four_gigabytes),
        cmocka_unit_test(slow_consumers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
