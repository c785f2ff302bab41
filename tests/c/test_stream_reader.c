/*
 * Streams read (include/hurray/stream_reader.h, spec 5): the golden ones exactly, in pieces of every
 * size, broken ones refused with a message that says where, each limit, and the reader over pipes and
 * sockets whose other end takes its time.
 */
#define _XOPEN_SOURCE 700 /* setitimer, nanosleep, sigaction */

#include "streams.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <hurray/verify.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

static HurrayStreamReader *open_memory(MemorySource *memory, const HurrayStreamOptions *options) {
    HurrayStreamReader *reader = NULL;
    HurraySource source = memory_source(memory);
    expect_ok(hurray_stream_reader_create(&source, options, &reader));
    return reader;
}

/* Reads until something fails, or the end. */
static HurrayStatus read_all(HurrayStreamReader *reader) {
    HurrayStreamPart part = {HURRAY_STREAM_MORE, NULL, NULL, 0, false};
    while (part.kind != HURRAY_STREAM_END) {
        release_part(&part);
        HurrayStatus status = hurray_stream_reader_next(reader, &part);
        if (status != HURRAY_OK) return status;
    }
    return HURRAY_OK;
}

static HurrayStatus read_bytes_all(const uint8_t *bytes, size_t size,
                                   const HurrayStreamOptions *options) {
    MemorySource memory = {bytes, size, 0, SIZE_MAX, 0};
    HurrayStreamReader *reader = open_memory(&memory, options);
    HurrayStatus status = read_all(reader); /* its message is the caller's to look at */
    assert_int_equal(hurray_stream_reader_destroy(&reader), HURRAY_OK);
    return status;
}

/* ---- golden streams ---- */

/* The rules by which depth and item_complete follow from the descriptors. */
typedef struct Expectation {
    uint32_t depth;
    uint32_t left[HURRAY_MAX_COMPOSITE_DEPTH];
} Expectation;

static void expect_next(Expectation *open, const HurrayStreamPart *part, const GoldenPart *golden) {
    expect_part(part, golden);
    assert_int_equal(part->depth, open->depth);
    if (part->kind == HURRAY_STREAM_HEAD) {
        open->left[open->depth++] = golden->fields.layout.composite.member_count;
        if (open->left[open->depth - 1] != 0) {
            assert_false(part->item_complete);
            return;
        }
        open->depth--;
    }
    while (open->depth != 0 && --open->left[open->depth - 1] == 0) open->depth--;
    assert_true(part->item_complete == (open->depth == 0));
}

static void read_golden(const GoldenStream *golden, size_t most, uint64_t seed) {
    size_t length;
    uint8_t *bytes = read_vector(golden->file, &length);
    MemorySource memory = {bytes, length, 0, most, seed};
    HurrayStreamReader *reader = open_memory(&memory, NULL);
    HurrayStreamPart part;
    Expectation open = {0};
    for (size_t i = 0; i < golden->count; i++) {
        expect_ok(hurray_stream_reader_next(reader, &part));
        expect_next(&open, &part, &golden->parts[i]);
        release_part(&part);
    }
    for (int i = 0; i < 2; i++) { /* the end lasts */
        expect_ok(hurray_stream_reader_next(reader, &part));
        assert_int_equal(part.kind, HURRAY_STREAM_END);
        assert_true(part.tensor == NULL && part.head == NULL);
    }
    assert_int_equal(hurray_stream_reader_position(reader), length);
    expect_ok(hurray_stream_reader_destroy(&reader));
    assert_null(reader);
    free(bytes);
}

static void golden_streams_are_read_exactly(void **state) {
    (void)state;
    assert_true(GOLDEN_COUNT >= 7);
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        read_golden(&golden_streams[i], SIZE_MAX, 0);
        read_golden(&golden_streams[i], 1, 0);
        for (uint64_t seed = 1; seed <= 20; seed++) {
            read_golden(&golden_streams[i], 2 * seed * seed, seed);
        }
    }
}

/* The decoder through `space`, one byte at a time or as much as it asks for: it never asks for a byte
 * of the next part. */
static void decode_golden(const GoldenStream *golden, size_t most) {
    size_t length, position = 0, count = 0;
    uint8_t *bytes = read_vector(golden->file, &length);
    HurrayStreamDecoder *decoder = NULL;
    HurrayStreamPart part;
    Expectation open = {0};
    uint64_t items = 0;
    expect_ok(hurray_stream_decoder_create(NULL, &decoder));
    while (position < length) {
        uint8_t *space;
        size_t size;
        expect_ok(hurray_stream_decoder_space(decoder, &space, &size));
        assert_true(size >= 1 && size <= length - position);
        if (size > most) size = most;
        memcpy(space, bytes + position, size);
        position += size;
        expect_ok(hurray_stream_decoder_advance(decoder, size, &part));
        assert_int_equal(hurray_stream_decoder_position(decoder), position);
        if (part.kind == HURRAY_STREAM_MORE) continue;
        items += part.item_complete;
        expect_next(&open, &part, &golden->parts[count++]);
        release_part(&part);
        assert_int_equal(hurray_stream_decoder_items(decoder), items);
    }
    assert_int_equal(count, golden->count);
    expect_ok(hurray_stream_decoder_finish(decoder));
    expect_ok(hurray_stream_decoder_destroy(&decoder));
    free(bytes);
}

static void decoder_asks_for_no_more_than_it_needs(void **state) {
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        decode_golden(&golden_streams[i], SIZE_MAX);
        decode_golden(&golden_streams[i], 1);
        decode_golden(&golden_streams[i], 7);
    }
}

/* ---- broken streams ---- */

#define TRUNCATED HURRAY_ERR_STREAM_INVALID
static const struct {
    const char *file;
    const char *because; /* in the manifest */
    HurrayStatus status;
    const char *said[2]; /* parts of the message */
} broken_streams[] = {
    {"cut_in_buffer_0.hrs", "truncated", TRUNCATED, {"byte 70, in item 0", "buffer 0: "}},
    {"cut_in_descriptor.hrs", "truncated", TRUNCATED, {"byte 117, in item 1", "descriptor: "}},
    {"cut_in_last_buffer.hrs", "truncated", TRUNCATED, {"byte 305, in item", "buffer "}},
    {"cut_in_prefix.hrs", "shorter than 10 bytes", TRUNCATED, {"byte 84,", "of the 10 bytes"}},
    {"garbage_after_item.hrs",
     "shorter than 10 bytes",
     TRUNCATED,
     {"byte 307,", "of the 10 bytes"}},
    {"dynamic_partition_head.hrs",
     "dynamic partition or overlay head",
     HURRAY_ERR_INTERNAL,
     {"item 0, which begins at byte 0", "dynamic"}},
    {"group_role.hrs", "role in a group", HURRAY_ERR_INTERNAL, {"part 1,", "under a group"}},
    {"nested_9.hrs", "nested too deep", HURRAY_ERR_INTERNAL, {"part 8,", "deeper than 8"}},
    {"overlay_correction_first.hrs",
     "overlay role",
     HURRAY_ERR_INTERNAL,
     {"part 1,", "member_role 0; expected 1"}},
    {"overlay_no_members.hrs",
     "overlay without base",
     HURRAY_ERR_INTERNAL,
     {"item 0,", "at least a base"}},
    {"overlay_no_role.hrs", "overlay role", HURRAY_ERR_INTERNAL, {"item 0, part ", "no composite"}},
    {"overlay_small_base.hrs",
     "base does not span",
     HURRAY_ERR_INTERNAL,
     {"part 1,", "the base covers"}},
    {"overlay_two_bases.hrs",
     "overlay role",
     HURRAY_ERR_INTERNAL,
     {"item 0, part ", "member_role 1; expected 0"}},
    {"partition_gap.hrs", "partition gap", HURRAY_ERR_INTERNAL, {"item 0, part ", "uncovered"}},
    {"partition_no_shard.hrs", "member shard", HURRAY_ERR_INTERNAL, {"part ", "no shard section"}},
    {"partition_overlap.hrs", "partition overlap", HURRAY_ERR_INTERNAL, {"part ", "overlap"}},
    {"partition_parent.hrs", "member shard", HURRAY_ERR_INTERNAL, {"part ", "parent_shape["}},
    {"partition_role.hrs", "role in a partition", HURRAY_ERR_INTERNAL, {"part ", "a partition"}},
    {"partition_wrong_type.hrs", "member type", HURRAY_ERR_INTERNAL, {"part ", "type tag 0x"}},
    {"quantized_under_int_head.hrs",
     "quantized member under this head",
     HURRAY_ERR_INTERNAL,
     {"part ", "it is quantized"}},
    {"torn.hrs", "torn composite", TRUNCATED, {"byte 274, in item 0", "torn: 1 of 2 members"}},
};
#define BROKEN_COUNT (sizeof broken_streams / sizeof broken_streams[0])

static size_t count_files(const char *directory) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", getenv("HURRAY_VECTORS"), directory);
    DIR *stream = opendir(path);
    assert_non_null(stream);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;) count += entry->d_name[0] != '.';
    closedir(stream);
    return count;
}

static void broken_streams_are_refused(void **state) {
    (void)state;
    assert_int_equal(count_files("streams_invalid"), BROKEN_COUNT);
    for (size_t i = 0; i < BROKEN_COUNT; i++) {
        char name[128];
        size_t length;
        snprintf(name, sizeof name, "streams_invalid/%s", broken_streams[i].file);
        uint8_t *bytes = read_vector(name, &length);
        for (uint64_t most = 1; most < 100000; most *= 300) {
            MemorySource memory = {bytes, length, 0, (size_t)most, 0};
            HurrayStreamReader *reader = open_memory(&memory, NULL);
            expect_failure(broken_streams[i].status, read_all(reader));
            expect_message(broken_streams[i].said[0]);
            expect_message(broken_streams[i].said[1]);
            HurrayStreamPart part; /* it does not recover */
            expect_failure(broken_streams[i].status, hurray_stream_reader_next(reader, &part));
            expect_message(broken_streams[i].said[1]);
            expect_ok(hurray_stream_reader_destroy(&reader));
        }
        free(bytes);
    }
}

/* Well-formed streams whose data breaks a rule: read as they are, found by verify. */
static void unsound_data_is_read_and_found(void **state) {
    (void)state;
    char path[1024];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/verify", getenv("HURRAY_VECTORS"));
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        char name[1024];
        size_t length;
        assert_true(snprintf(name, sizeof name, "verify/%s", entry->d_name) < (int)sizeof name);
        uint8_t *bytes = read_vector(name, &length);
        MemorySource memory = {bytes, length, 0, SIZE_MAX, 0};
        HurrayStreamReader *reader = open_memory(&memory, NULL);
        HurrayStreamPart part;
        expect_ok(hurray_stream_reader_next(reader, &part));
        assert_int_equal(part.kind, HURRAY_STREAM_TENSOR);
        expect_failure(HURRAY_ERR_DATA_INVALID, hurray_tensor_verify(part.tensor, NULL));
        release_part(&part);
        expect_ok(hurray_stream_reader_next(reader, &part));
        assert_int_equal(part.kind, HURRAY_STREAM_END);
        expect_ok(hurray_stream_reader_destroy(&reader));
        free(bytes);
        count++;
    }
    closedir(directory);
    assert_int_equal(count, count_files("verify"));
    assert_true(count >= 28);
}

/* ---- truncation ---- */

/* What must be said of a stream cut off after `cut` bytes; "" where that is a clean end. */
static void expected_end(const GoldenStream *golden, size_t cut, char *out, size_t size) {
    uint64_t begin = 0;
    size_t item = 0, part = 0;
    Expectation open = {0};
    char place[64];
    out[0] = '\0';
    for (size_t i = 0; i < golden->count; i++) {
        const HurrayDescriptorFields *fields = &golden->parts[i].fields;
        uint64_t length = 0;
        expect_ok(hurray_descriptor_encoded_size(fields, &length));
        int used = snprintf(place, sizeof place, "byte %zu, in item %zu", cut, item);
        if (part != 0) snprintf(place + used, sizeof place - (size_t)used, ", part %zu", part);
        if (cut == begin) {
            if (part != 0) snprintf(out, size, "%s: the input is torn", place);
            return;
        }
        if (cut < begin + length) {
            uint64_t end = cut < begin + 10 ? 10 : length;
            snprintf(out, size, "%s, descriptor: %" PRIu64 " of the %" PRIu64 " bytes", place,
                     begin + end - cut, end);
            return;
        }
        begin += length;
        for (uint32_t b = 0; b < fields->buffer_count; b++) {
            uint64_t bytes = fields->buffers[b].byte_size;
            if (cut < begin + bytes) {
                snprintf(out, size,
                         "%s, buffer %" PRIu32 ": %" PRIu64 " of its %" PRIu64 " bytes are missing",
                         place, b, begin + bytes - cut, bytes);
                return;
            }
            begin += bytes;
        }
        if (fields->layout.tag == HURRAY_LAYOUT_COMPOSITE &&
            fields->layout.composite.member_count != 0) {
            open.left[open.depth++] = fields->layout.composite.member_count;
            part++;
            continue;
        }
        while (open.depth != 0 && --open.left[open.depth - 1] == 0) open.depth--;
        part = open.depth == 0 ? 0 : part + 1;
        item += open.depth == 0;
    }
    assert_int_equal(cut, begin);
}

static void truncation_is_located_at_every_byte(void **state) {
    (void)state;
    static const char *const files[] = {"streams/everything.hrs", "streams/composite.hrs",
                                        "streams/overlay.hrs", "streams/nested_8.hrs",
                                        "streams/group_of_none.hrs"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const GoldenStream *golden = golden_stream(files[i]);
        size_t length;
        uint8_t *bytes = read_vector(files[i], &length);
        for (size_t cut = 0; cut <= length; cut++) {
            char expected[256];
            expected_end(golden, cut, expected, sizeof expected);
            uint8_t *exactly = malloc(cut + 1);
            memcpy(exactly, bytes, cut);
            if (expected[0] == '\0') {
                expect_ok(read_bytes_all(exactly, cut, NULL));
            } else {
                expect_failure(HURRAY_ERR_STREAM_INVALID, read_bytes_all(exactly, cut, NULL));
                expect_message(expected);
            }
            free(exactly);
        }
        free(bytes);
    }
}

/* A descriptor that does not decode keeps its own status, and the place is said. */
static void wrong_descriptors_keep_their_status(void **state) {
    (void)state;
    static const struct {
        size_t offset; /* in the descriptor of item 1 */
        uint8_t value;
        HurrayStatus status;
        const char *said;
    } faults[] = {
        {0, 'X', HURRAY_ERR_INVALID_MAGIC, "magic is 58"},
        {4, 2, HURRAY_ERR_VERSION_MISMATCH, "version_major 2"},
        {6, 19, HURRAY_ERR_INVALID_LAYOUT, "descriptor_length 19"},
        {14, 0xFF, HURRAY_ERR_INVALID_TYPE, "0xFF"},
        {15, 0xFF, HURRAY_ERR_INVALID_LAYOUT, "0xFF"},
        {16, 65, HURRAY_ERR_INVALID_LAYOUT, "rank 65"},
        {50, 1, HURRAY_ERR_INVALID_SYNC_MODE, "sync"},
    };
    HurrayMemoryFile file = {0};
    HurraySink sink = hurray_memory_sink(&file);
    HurrayStreamWriter *writer = NULL;
    expect_ok(hurray_stream_writer_create(&sink, NULL, &writer));
    for (uint8_t i = 0; i < 2; i++) {
        HurrayTensor *tensor = count_up(5, i);
        expect_ok(hurray_stream_writer_write(writer, tensor));
        hurray_tensor_release(tensor);
    }
    expect_ok(hurray_stream_writer_destroy(&writer));
    const size_t second = COUNT_UP_DESCRIPTOR + 5;
    assert_int_equal(file.size, 2 * second);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        uint8_t *at = file.bytes + second + faults[i].offset, kept = *at;
        *at = faults[i].value;
        expect_failure(faults[i].status, read_bytes_all(file.bytes, file.size, NULL));
        expect_message("item 1, which begins at byte 58 of the stream: ");
        expect_message(faults[i].said);
        *at = kept;
    }
    expect_ok(read_bytes_all(file.bytes, file.size, NULL));
    hurray_aligned_free(file.bytes);
}

/* ---- limits ---- */

/* An allocator that counts what is there. */
typedef struct Counting {
    size_t held, most, calls;
} Counting;

static void *counting_allocate(size_t size, size_t alignment, bool zeroed, void *context) {
    Counting *counting = context;
    assert_true(alignment >= HURRAY_MIN_BUFFER_ALIGNMENT);
    counting->calls++;
    counting->held += size;
    if (counting->held > counting->most) counting->most = counting->held;
    return hurray_aligned_alloc(size, alignment, zeroed);
}

static void counting_release(void *data, size_t size, void *context) {
    Counting *counting = context;
    counting->held -= size;
    hurray_aligned_free(data);
}

static void limits_hold_before_anything_is_allocated(void **state) {
    (void)state;
    Counting counting = {0};
    const HurrayAllocator allocator = {counting_allocate, counting_release, &counting};
    HurrayTensor *tensor = count_up(100, 0);
    HurrayMemoryFile file = {0};
    HurraySink sink = hurray_memory_sink(&file);
    HurrayStreamWriter *writer = NULL;
    expect_ok(hurray_stream_writer_create(&sink, NULL, &writer));
    expect_ok(hurray_stream_writer_write(writer, tensor));
    expect_ok(hurray_stream_writer_destroy(&writer));
    hurray_tensor_release(tensor);

    HurrayStreamOptions options;
    hurray_stream_options_init(&options);
    assert_int_equal(options.max_descriptor_bytes, 16 << 20);
    assert_true(options.max_buffer_bytes == UINT64_MAX && options.max_composite_depth == 8);
    options.allocator = &allocator;
    options.max_descriptor_bytes = COUNT_UP_DESCRIPTOR;
    options.max_buffer_bytes = 100;
    expect_ok(read_bytes_all(file.bytes, file.size, &options));
    assert_int_equal(counting.calls, 1);
    assert_int_equal(counting.held, 0);

    counting.calls = 0;
    options.max_buffer_bytes = 99;
    expect_failure(HURRAY_ERR_STREAM_INVALID, read_bytes_all(file.bytes, file.size, &options));
    expect_message("item 0, which begins at byte 0");
    expect_message("buffer 0 has 100 bytes, over the limit, max_buffer_bytes 99");
    options.max_buffer_bytes = 100;
    options.max_descriptor_bytes = COUNT_UP_DESCRIPTOR - 1;
    /* The ten bytes that tell are enough. */
    expect_failure(HURRAY_ERR_STREAM_INVALID, read_bytes_all(file.bytes, 10, &options));
    expect_message("descriptor_length 53 is over the limit, max_descriptor_bytes 52");
    assert_int_equal(counting.calls, 0);
    hurray_aligned_free(file.bytes);
}

static void depth_is_limited(void **state) {
    (void)state;
    static const struct {
        const char *file;
        uint32_t depth;
    } streams[] = {{"streams/group_of_none.hrs", 1},
                   {"streams/composite.hrs", 1},
                   {"streams/nested_8.hrs", 8}};
    HurrayStreamOptions options;
    hurray_stream_options_init(&options);
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        size_t length;
        uint8_t *bytes = read_vector(streams[i].file, &length);
        for (uint32_t depth = 0; depth <= HURRAY_MAX_COMPOSITE_DEPTH; depth++) {
            options.max_composite_depth = depth;
            if (depth >= streams[i].depth) {
                expect_ok(read_bytes_all(bytes, length, &options));
                continue;
            }
            expect_failure(HURRAY_ERR_STREAM_INVALID, read_bytes_all(bytes, length, &options));
            char said[64];
            snprintf(said, sizeof said, "depth %u, over the limit, max_composite_depth %u",
                     depth + 1, depth);
            expect_message(said);
        }
        free(bytes);
    }
    HurrayStreamDecoder *decoder = NULL;
    options.max_composite_depth = 9;
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, hurray_stream_decoder_create(&options, &decoder));
    assert_null(decoder);
}

/* ---- handles ---- */

/* The bytes of a stream of one tensor of uint8 [64] with this handle. */
static size_t stream_of_handle(HurrayBufferHandle handle, uint8_t *bytes, size_t capacity) {
    const uint64_t shape = 64;
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 1,
        .shape = &shape,
        .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
        .buffer_count = 1,
        .buffers = &handle,
    };
    uintptr_t length = 0;
    expect_ok(hurray_descriptor_encode(&fields, bytes, capacity, &length));
    assert_true(capacity - length >= 64);
    for (uint8_t i = 0; i < 64; i++) bytes[length + i] = i;
    return length + 64;
}

/* What a descriptor says of the producer's memory does not hold of ours. */
static void what_was_read_lies_in_host_memory(void **state) {
    (void)state;
    static const HurrayBufferHandle handles[] = {
        {64, 64, HURRAY_DEVICE_CPU, HURRAY_SYNC_PRODUCER_SYNCED, HURRAY_MEMORY_STANDARD},
        {64, 4096, HURRAY_DEVICE_CPU, HURRAY_SYNC_PRODUCER_SYNCED, HURRAY_MEMORY_HOST_PINNED},
        {64, 1u << 31, HURRAY_DEVICE_CUDA, HURRAY_SYNC_EVENT, HURRAY_MEMORY_STANDARD},
        {64, 256, HURRAY_DEVICE_ROCM, HURRAY_SYNC_CONSUMER_STREAM, HURRAY_MEMORY_PEER},
        {64, 64, 0xF3, HURRAY_SYNC_PRODUCER_SYNCED, HURRAY_MEMORY_STANDARD},
    };
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        uint8_t bytes[256];
        size_t size = stream_of_handle(handles[i], bytes, sizeof bytes);
        MemorySource memory = {bytes, size, 0, SIZE_MAX, 0};
        HurrayStreamReader *reader = open_memory(&memory, NULL);
        HurrayStreamPart part;
        expect_ok(hurray_stream_reader_next(reader, &part));
        expect_counts_up(part.tensor, 64, 0);
        const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(part.tensor, 0));
        assert_int_equal(info->device.tag, HURRAY_DEVICE_CPU);
        assert_int_equal(info->device.memory_class, HURRAY_MEMORY_STANDARD);
        assert_int_equal(info->sync_mode, HURRAY_SYNC_PRODUCER_SYNCED);
        assert_int_equal(info->alignment, 64);
        assert_int_equal(info->flags, 0);
        expect_ok(hurray_tensor_check_readable(part.tensor, false));
        release_part(&part);
        expect_ok(hurray_stream_reader_destroy(&reader));

        HurrayStreamOptions options;
        hurray_stream_options_init(&options);
        options.cross_machine = true;
        if (handles[i].sync_mode == HURRAY_SYNC_PRODUCER_SYNCED) {
            expect_ok(read_bytes_all(bytes, size, &options));
        } else {
            expect_failure(HURRAY_ERR_INVALID_SYNC_MODE, read_bytes_all(bytes, size, &options));
            expect_message("item 0");
            expect_message(hurray_sync_mode_name(handles[i].sync_mode));
        }
    }
}

/* A permissive reader carries a layout it does not know, but not in a stream: where would it end? */
static void unassigned_layouts_end_a_stream(void **state) {
    (void)state;
    uint8_t bytes[256];
    size_t size = stream_of_handle((HurrayBufferHandle){.byte_size = 64, .alignment = 64}, bytes,
                                   sizeof bytes);
    bytes[15] = 0x3E;
    HurrayStreamOptions options;
    hurray_stream_options_init(&options);
    expect_any_failure(read_bytes_all(bytes, size, &options));
    options.decode.permissive = true;
    expect_failure(HURRAY_ERR_STREAM_INVALID, read_bytes_all(bytes, size, &options));
    expect_message("layout tag 0x3E");
    bytes[15] = HURRAY_LAYOUT_ROW_MAJOR;
    bytes[14] = 0x7F; /* a type it does not know is no obstacle */
    expect_ok(read_bytes_all(bytes, size, &options));
}

/* ---- sizes ---- */

/* Advances as if `total` bytes of the buffer had come; memory is not written. */
static HurrayStatus pretend(HurrayStreamDecoder *decoder, uint64_t total, HurrayStreamPart *part) {
    while (total != 0) {
        uint8_t *space;
        size_t size;
        HurrayStatus status = hurray_stream_decoder_space(decoder, &space, &size);
        if (status != HURRAY_OK) return status;
        if (size > total) size = (size_t)total;
        status = hurray_stream_decoder_advance(decoder, size, part);
        if (status != HURRAY_OK) return status;
        total -= size;
    }
    return HURRAY_OK;
}

static HurrayStreamDecoder *decoder_before(uint64_t byte_size, const HurrayStreamOptions *options) {
    uint8_t bytes[256];
    size_t size = stream_of_handle((HurrayBufferHandle){.byte_size = byte_size, .alignment = 64},
                                   bytes, sizeof bytes) -
                  64;
    HurrayStreamDecoder *decoder = NULL;
    HurrayStreamPart part;
    size_t used;
    expect_ok(hurray_stream_decoder_create(options, &decoder));
    expect_ok(hurray_stream_decoder_push(decoder, bytes, size, &used, &part));
    assert_int_equal(used, size);
    assert_int_equal(part.kind, HURRAY_STREAM_MORE);
    return decoder;
}

#define MIB (UINT64_C(1) << 20)

static void a_declared_size_is_not_trusted(void **state) {
    (void)state;
    Counting counting = {0};
    const HurrayAllocator allocator = {counting_allocate, counting_release, &counting};
    HurrayStreamOptions options;
    hurray_stream_options_init(&options);
    options.allocator = &allocator;
    HurrayStreamPart part;
    static const uint64_t sizes[] = {64 * MIB + 1, UINT64_C(1) << 60, UINT64_MAX};
    for (size_t i = 0; i < 3; i++) {
        counting.most = 0;
        HurrayStreamDecoder *decoder = decoder_before(sizes[i], &options);
        assert_int_equal(counting.most, 0); /* nothing arrived */
        expect_ok(pretend(decoder, 1000, &part));
        assert_int_equal(counting.most, 64 * MIB);
        expect_failure(HURRAY_ERR_STREAM_INVALID, hurray_stream_decoder_finish(decoder));
        char said[96];
        snprintf(said, sizeof said, "%" PRIu64 " of its %" PRIu64 " bytes", sizes[i] - 1000,
                 sizes[i]);
        expect_message(said);
        expect_ok(hurray_stream_decoder_destroy(&decoder));
        assert_int_equal(counting.held, 0);
    }
}

/* Bytes that came before memory was moved are still there, whoever allocates. */
static void buffers_grow_as_bytes_arrive(void **state) {
    (void)state;
    for (int own = 0; own < 2; own++) {
        Counting counting = {0};
        const HurrayAllocator allocator = {counting_allocate, counting_release, &counting};
        HurrayStreamOptions options;
        hurray_stream_options_init(&options);
        if (own) options.allocator = &allocator;
        const uint64_t total = 150 * MIB;
        HurrayStreamDecoder *decoder = decoder_before(total, &options);
        HurrayStreamPart part = {HURRAY_STREAM_MORE, NULL, NULL, 0, false};
        for (uint64_t arrived = 0; arrived < total;) {
            uint8_t *space;
            size_t size;
            expect_ok(hurray_stream_decoder_space(decoder, &space, &size));
            assert_true(arrived == 0 || arrived + size <= 2 * arrived ||
                        arrived + size <= 64 * MIB);
            if (size > 16 * MIB) size = 16 * MIB;
            memcpy(space, &arrived, sizeof arrived);
            expect_ok(hurray_stream_decoder_advance(decoder, size, &part));
            arrived += size;
        }
        assert_int_equal(part.kind, HURRAY_STREAM_TENSOR);
        const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(part.tensor, 0));
        assert_int_equal(info->byte_size, total);
        assert_int_equal(info->alignment, HURRAY_PAGE_ALIGNMENT);
        assert_int_equal((uintptr_t)info->data % HURRAY_PAGE_ALIGNMENT, 0);
        for (uint64_t at = 0; at < total; at += 16 * MIB) {
            uint64_t found;
            memcpy(&found, (const uint8_t *)info->data + at, sizeof found);
            assert_int_equal(found, at);
        }
        if (own) assert_int_equal(counting.held, total);
        release_part(&part);
        assert_int_equal(counting.held, 0);
        expect_ok(hurray_stream_decoder_destroy(&decoder));
    }
}

/* Positions beyond 4 GiB, by way of tensors of 48 MiB, of which no byte is touched; and a single one
 * of more, where memory that is moved need not be copied. */
static void beyond_four_gigabytes(void **state) {
    (void)state;
    uint8_t bytes[256];
    const uint64_t size = 48 * MIB;
    size_t length = stream_of_handle((HurrayBufferHandle){.byte_size = size, .alignment = 64},
                                     bytes, sizeof bytes) -
                    64;
    HurrayStreamDecoder *decoder = NULL;
    HurrayStreamPart part;
    size_t used;
    expect_ok(hurray_stream_decoder_create(NULL, &decoder));
    for (int i = 0; i < 100; i++) {
        expect_ok(hurray_stream_decoder_push(decoder, bytes, length, &used, &part));
        expect_ok(pretend(decoder, size, &part));
        assert_int_equal(part.kind, HURRAY_STREAM_TENSOR);
        release_part(&part);
    }
    const uint64_t position = 100 * (size + length);
    assert_true(position > UINT64_C(1) << 32);
    assert_int_equal(hurray_stream_decoder_position(decoder), position);
    bytes[0] = '?';
    expect_failure(HURRAY_ERR_INVALID_MAGIC,
                   hurray_stream_decoder_push(decoder, bytes, length, &used, &part));
    char said[64];
    snprintf(said, sizeof said, "item 100, which begins at byte %" PRIu64, position);
    expect_message(said);
    expect_ok(hurray_stream_decoder_destroy(&decoder));
#if !defined(SANITIZED) && defined(__GLIBC__) && SIZE_MAX > UINT32_MAX
    const uint64_t large = (UINT64_C(4) << 30) + 1;
    decoder = decoder_before(large, NULL);
    expect_ok(pretend(decoder, large, &part));
    assert_int_equal(part.kind, HURRAY_STREAM_TENSOR);
    const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(part.tensor, 0));
    assert_int_equal(info->byte_size, large);
    ((uint8_t *)info->data)[large - 1] = 1;
    release_part(&part);
    expect_ok(hurray_stream_decoder_destroy(&decoder));
#endif
}

/* ---- misuse ---- */

static void misuse_is_noticed(void **state) {
    (void)state;
    HurrayStreamDecoder *decoder = NULL;
    HurrayStreamReader *reader = NULL;
    HurrayStreamPart part;
    uint8_t *space;
    size_t size;
    const HurraySource nothing = {NULL, NULL};
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_stream_decoder_create(NULL, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_stream_reader_create(NULL, NULL, &reader));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_stream_reader_create(&nothing, NULL, &reader));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_stream_reader_next(NULL, &part));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_stream_decoder_destroy(NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_stream_reader_destroy(NULL));
    expect_ok(hurray_stream_decoder_destroy(&decoder));
    expect_ok(hurray_stream_reader_destroy(&reader));

    expect_ok(hurray_stream_decoder_create(NULL, &decoder));
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, hurray_stream_decoder_advance(decoder, 1, &part));
    expect_ok(hurray_stream_decoder_space(decoder, &space, &size));
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT,
                   hurray_stream_decoder_advance(decoder, size + 1, &part));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_stream_decoder_advance(decoder, size, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_stream_decoder_space(decoder, NULL, &size));
    expect_ok(hurray_stream_decoder_advance(decoder, 0, &part));
    assert_int_equal(part.kind, HURRAY_STREAM_MORE);
    expect_ok(hurray_stream_decoder_push(decoder, NULL, 0, &size, &part));
    assert_int_equal(part.kind, HURRAY_STREAM_MORE);
    expect_ok(hurray_stream_decoder_finish(decoder)); /* nothing has happened yet */
    expect_ok(hurray_stream_decoder_destroy(&decoder));
}

/* ---- sources that fail ---- */

typedef struct Failing {
    MemorySource memory;
    HurrayStatus status; /* given once the memory is at its end */
    int calls;
} Failing;

static HurrayStatus fail_at_end(uint8_t *bytes, size_t size, size_t *out_read, void *context) {
    Failing *source = context;
    HurrayStatus status = read_memory(bytes, size, out_read, &source->memory);
    if (status != HURRAY_OK || *out_read != 0) return status;
    source->calls++;
    if (source->status == HURRAY_ERR_IO) return hri_fail_io(5, "the disk is on fire");
    return hri_fail(source->status, "somebody wants to go");
}

static void failures_of_the_source_are_kept(void **state) {
    (void)state;
    size_t length;
    uint8_t *bytes = read_vector("streams/composite.hrs", &length);
    for (int io = 0; io < 2; io++) {
        Failing failing = {.memory = {bytes, 100, 0, 33, 0},
                           .status = io ? HURRAY_ERR_IO : HURRAY_ERR_INTERRUPTED};
        const HurraySource source = {fail_at_end, &failing};
        HurrayStreamReader *reader = NULL;
        expect_ok(hurray_stream_reader_create(&source, NULL, &reader));
        expect_failure(failing.status, read_all(reader));
        if (io) {
            HurrayStreamPart part;
            hri_fail_io(0, "another one");
            expect_failure(HURRAY_ERR_IO, hurray_stream_reader_next(reader, &part));
            expect_message("the disk is on fire");
            assert_int_equal(hurray_error_number(), 5);
            assert_int_equal(failing.calls, 1); /* it was not asked again */
        } else {
            failing.memory.size = length; /* nothing was lost */
            expect_failure(HURRAY_ERR_INTERRUPTED, read_all(reader));
            assert_int_equal(hurray_stream_reader_position(reader), length);
        }
        expect_ok(hurray_stream_reader_destroy(&reader));
    }
    free(bytes);
}

static HurrayStatus boast(uint8_t *bytes, size_t size, size_t *out_read, void *context) {
    (void)bytes, (void)context;
    *out_read = size + 1;
    return HURRAY_OK;
}

static void a_source_that_boasts_is_refused(void **state) {
    (void)state;
    const HurraySource source = {boast, NULL};
    HurrayStreamReader *reader = NULL;
    HurrayStreamPart part;
    expect_ok(hurray_stream_reader_create(&source, NULL, &reader));
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, hurray_stream_reader_next(reader, &part));
    expect_ok(hurray_stream_reader_destroy(&reader));
}

/* ---- pipes and sockets ---- */

/* Writes bytes to a descriptor, as a producer who takes its time; then closes it. */
typedef struct Producer {
    const uint8_t *bytes;
    size_t size;
    size_t most; /* bytes at once */
    int descriptor;
    long pause; /* nanoseconds in between */
} Producer;

static void *produce(void *context) {
    const Producer *producer = context;
    for (size_t at = 0; at < producer->size;) {
        size_t size = producer->size - at < producer->most ? producer->size - at : producer->most;
        ssize_t written = write(producer->descriptor, producer->bytes + at, size);
        if (written < 0) break;
        at += (size_t)written;
        const struct timespec pause = {0, producer->pause};
        if (producer->pause != 0) nanosleep(&pause, NULL);
    }
    close(producer->descriptor);
    return NULL;
}

static void make_ends(bool sockets, bool nonblocking, int ends[2]) {
    assert_int_equal(sockets ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends), 0);
    if (nonblocking) assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
}

static void slow_producers(void **state) {
    (void)state;
    const GoldenStream *golden = golden_stream("streams/composite.hrs");
    size_t length;
    uint8_t *bytes = read_vector(golden->file, &length);
    for (int kind = 0; kind < 4; kind++) {
        int ends[2];
        make_ends(kind % 2 == 1, kind / 2 == 1, ends);
        Producer producer = {bytes, length, 3, ends[1], 100000};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, produce, &producer), 0);
        HurrayOpenFile file = {.descriptor = ends[0]};
        const HurraySource source = hurray_open_file_source(&file);
        HurrayStreamReader *reader = NULL;
        HurrayStreamPart part;
        expect_ok(hurray_stream_reader_create(&source, NULL, &reader));
        for (size_t i = 0; i < golden->count; i++) {
            expect_ok(hurray_stream_reader_next(reader, &part));
            expect_part(&part, &golden->parts[i]);
            release_part(&part);
        }
        expect_ok(hurray_stream_reader_next(reader, &part));
        assert_int_equal(part.kind, HURRAY_STREAM_END);
        expect_ok(hurray_stream_reader_destroy(&reader));
        pthread_join(thread, NULL);
        close(ends[0]);
    }
    free(bytes);
}

/* Each part is there as soon as its last byte is, though nothing more is sent: a reader that waited for
 * more would wait forever. */
static void a_part_needs_no_byte_of_the_next(void **state) {
    (void)state;
    const GoldenStream *golden = golden_stream("streams/everything.hrs");
    size_t length, at = 0;
    uint8_t *bytes = read_vector(golden->file, &length);
    int ends[2];
    make_ends(false, false, ends);
    HurrayOpenFile file = {.descriptor = ends[0]};
    const HurraySource source = hurray_open_file_source(&file);
    HurrayStreamReader *reader = NULL;
    HurrayStreamPart part;
    expect_ok(hurray_stream_reader_create(&source, NULL, &reader));
    alarm(60);
    for (size_t i = 0; i < golden->count; i++) {
        const HurrayDescriptorFields *fields = &golden->parts[i].fields;
        uint64_t size = 0;
        expect_ok(hurray_descriptor_encoded_size(fields, &size));
        for (uint32_t b = 0; b < fields->buffer_count; b++) size += fields->buffers[b].byte_size;
        assert_int_equal(write(ends[1], bytes + at, (size_t)size), size);
        at += (size_t)size;
        expect_ok(hurray_stream_reader_next(reader, &part));
        expect_part(&part, &golden->parts[i]);
        release_part(&part);
    }
    alarm(0);
    assert_int_equal(at, length);
    close(ends[1]);
    expect_ok(hurray_stream_reader_next(reader, &part));
    assert_int_equal(part.kind, HURRAY_STREAM_END);
    expect_ok(hurray_stream_reader_destroy(&reader));
    close(ends[0]);
    free(bytes);
}

/* Tensors large and small by turns, so that bytes come ahead and in place, through a pipe that holds
 * less than one of them. */
static void large_and_small_by_turns(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1,     70000, 3,      32768, 32767, 64,     300000,
                                     65536, 0,     200000, 10,    4096,  100000, 1000};
    enum {
        COUNT = sizeof sizes / sizeof sizes[0]
    };
    HurrayMemoryFile memory = {0};
    HurraySink sink = hurray_memory_sink(&memory);
    HurrayStreamWriter *writer = NULL;
    expect_ok(hurray_stream_writer_create(&sink, NULL, &writer));
    for (uint8_t i = 0; i < COUNT; i++) {
        HurrayTensor *tensor = count_up(sizes[i], i);
        expect_ok(hurray_stream_writer_write(writer, tensor));
        hurray_tensor_release(tensor);
    }
    expect_ok(hurray_stream_writer_finish(writer));
    expect_ok(hurray_stream_writer_destroy(&writer));
    for (size_t most = 1000; most < 1000000; most *= 10) {
        int ends[2];
        make_ends(most == 10000, most == 100000, ends);
        Producer producer = {memory.bytes, memory.size, most, ends[1], 0};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, produce, &producer), 0);
        HurrayOpenFile file = {.descriptor = ends[0]};
        const HurraySource source = hurray_open_file_source(&file);
        HurrayStreamReader *reader = NULL;
        HurrayStreamPart part;
        expect_ok(hurray_stream_reader_create(&source, NULL, &reader));
        for (uint8_t i = 0; i < COUNT; i++) {
            expect_ok(hurray_stream_reader_next(reader, &part));
            expect_counts_up(part.tensor, sizes[i], i);
            release_part(&part);
        }
        expect_ok(hurray_stream_reader_next(reader, &part));
        assert_int_equal(part.kind, HURRAY_STREAM_END);
        assert_int_equal(hurray_stream_reader_position(reader), memory.size);
        expect_ok(hurray_stream_reader_destroy(&reader));
        pthread_join(thread, NULL);
        close(ends[0]);
    }
    hurray_aligned_free(memory.bytes);
}

static void nothing_but_interrupt(int number) { (void)number; }

static int interruptions; /* how many have been; negative: give up each time */

static bool go_on(void *context) {
    (void)context;
    interruptions++;
    return interruptions > 0;
}

/* Signals all the time: reading goes on; and where the caller gives up, it can be taken up again. */
static void signals_interrupt_and_lose_nothing(void **state) {
    (void)state;
    const GoldenStream *golden = golden_stream("streams/composite.hrs");
    size_t length;
    uint8_t *bytes = read_vector(golden->file, &length);
    struct sigaction action = {.sa_handler = nothing_but_interrupt}, before;
    sigaction(SIGALRM, &action, &before);
    for (int give_up = 0; give_up < 2; give_up++) {
        int ends[2];
        make_ends(false, false, ends);
        /* The thread that produces takes no signals. */
        sigset_t alarms, mask;
        sigemptyset(&alarms);
        sigaddset(&alarms, SIGALRM);
        pthread_sigmask(SIG_BLOCK, &alarms, &mask);
        Producer producer = {bytes, length, 40, ends[1], 5000000};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, produce, &producer), 0);
        pthread_sigmask(SIG_SETMASK, &mask, NULL);
        const struct itimerval often = {{0, 1000}, {0, 1000}};
        setitimer(ITIMER_REAL, &often, NULL);

        interruptions = give_up ? INT32_MIN / 2 : 0;
        HurrayOpenFile file = {.descriptor = ends[0], .interrupted = go_on};
        const HurraySource source = hurray_open_file_source(&file);
        HurrayStreamReader *reader = NULL;
        HurrayStreamPart part;
        int gave_up = 0;
        expect_ok(hurray_stream_reader_create(&source, NULL, &reader));
        for (size_t i = 0; i < golden->count;) {
            HurrayStatus status = hurray_stream_reader_next(reader, &part);
            if (give_up && status == HURRAY_ERR_INTERRUPTED) {
                gave_up++;
                continue;
            }
            expect_status_at(status, HURRAY_OK, "next", __FILE__, __LINE__);
            expect_part(&part, &golden->parts[i++]);
            release_part(&part);
        }
        const struct itimerval never = {{0, 0}, {0, 0}};
        setitimer(ITIMER_REAL, &never, NULL);
        assert_true(give_up ? gave_up > 0 : interruptions > 0);
        expect_ok(hurray_stream_reader_destroy(&reader));
        pthread_join(thread, NULL);
        close(ends[0]);
    }
    sigaction(SIGALRM, &before, NULL);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_streams_are_read_exactly),
        cmocka_unit_test(decoder_asks_for_no_more_than_it_needs),
        cmocka_unit_test(broken_streams_are_refused),
        cmocka_unit_test(unsound_data_is_read_and_found),
        cmocka_unit_test(truncation_is_located_at_every_byte),
        cmocka_unit_test(wrong_descriptors_keep_their_status),
        cmocka_unit_test(limits_hold_before_anything_is_allocated),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(what_was_read_lies_in_host_memory),
        cmocka_unit_test(unassigned_layouts_end_a_stream),
        cmocka_unit_test(a_declared_size_is_not_trusted),
        cmocka_unit_test(buffers_grow_as_bytes_arrive),
        cmocka_unit_test(beyond_four_gigabytes),
        cmocka_unit_test(misuse_is_noticed),
        cmocka_unit_test(failures_of_the_source_are_kept),
        cmocka_unit_test(a_source_that_boasts_is_refused),
        cmocka_unit_test(slow_producers),
        cmocka_unit_test(a_part_needs_no_byte_of_the_next),
        cmocka_unit_test(large_and_small_by_turns),
        cmocka_unit_test(signals_interrupt_and_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
