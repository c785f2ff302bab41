/*
 * The descriptor as bytes and as an object (src/descriptor.c), and its rules (src/validate.c, spec 1).
 * Bytes to decode always stand on mallocs of their exact length, so that the sanitizers see a read
 * beyond them. What each section may hold has tests of its own.
 */
#include "expect.h"

#include <pthread.h>
#include <stdatomic.h>

#include <hurray/descriptor.h>
#include <hurray/device.h>

/* ---- samples: fields, with everything they point to in one struct ---- */

typedef struct Sample {
    HurrayDescriptorFields fields;
    uint64_t shape[3];
    int64_t strides[3];
    HurrayBufferHandle buffers[3];
    HurrayQuantization quantization;
    uint8_t trailing[5];
    uint64_t parent_shape[3], shard_offset[3];
    HurrayShard shard;
    HurrayStatistics statistics;
    HurrayExtensionType extension_type;
    HurrayCompositeMember member;
} Sample;

/* The worked example of spec 1.10. */
static const uint8_t worked_bytes[61] = {
    0x48, 0x52, 0x52, 0x59, 0x01, 0x00, 0x3D, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x01,
    0x02, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0xC0, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
};

static void make_worked(Sample *sample) {
    *sample = (Sample){
        .shape = {3, 4},
        .buffers = {{.byte_size = 192, .alignment = 64}},
    };
    sample->fields = (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_FLOAT32,
        .rank = 2,
        .shape = sample->shape,
        .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
        .buffer_count = 1,
        .buffers = sample->buffers,
    };
}

/* Quantized on a GPU, with bytes kept from a newer section, shard, statistics and role. */
static void make_quantized(Sample *sample) {
    *sample = (Sample){
        .shape = {4, 6},
        .buffers = {{128, 64, HURRAY_DEVICE_CUDA, HURRAY_SYNC_EVENT, HURRAY_MEMORY_UNIFIED},
                    {24, 256, HURRAY_DEVICE_CUDA, HURRAY_SYNC_PRODUCER_SYNCED,
                     HURRAY_MEMORY_UNIFIED},
                    {24, 64, HURRAY_DEVICE_CUDA, HURRAY_SYNC_CONSUMER_STREAM,
                     HURRAY_MEMORY_UNIFIED}},
        .quantization = {.scheme = HURRAY_SCHEME_PER_CHANNEL,
                         .scale_type = HURRAY_TYPE_FLOAT32,
                         .axis = 1,
                         .scale_buffer = 1,
                         .zero_point_buffer = 2,
                         .trailing_size = 5},
        .trailing = {1, 2, 3, 4, 5},
        .parent_shape = {8, 6},
        .shard_offset = {4, 0},
        .statistics = {.computed_mask = HURRAY_STATISTICS_NNZ | HURRAY_STATISTICS_RANGE,
                       .nnz = 7,
                       .value_min = -0.0,
                       .value_max = 1.5,
                       .value_abs_max = 1.5},
        .member = {HURRAY_ROLE_BASE},
    };
    sample->quantization.trailing = sample->trailing;
    sample->shard = (HurrayShard){sample->parent_shape, sample->shard_offset};
    sample->fields = (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 2,
        .shape = sample->shape,
        .byte_offset = 100,
        .layout = {HURRAY_LAYOUT_COL_MAJOR, {NULL}},
        .buffer_count = 3,
        .buffers = sample->buffers,
        .quantization = &sample->quantization,
        .shard = &sample->shard,
        .statistics = &sample->statistics,
        .member = &sample->member,
    };
}

/* A private type, with strides of both signs. */
static void make_private(Sample *sample) {
    *sample = (Sample){
        .shape = {2, 3, 4},
        .strides = {-12, 0, 2},
        .buffers = {{1000, 4096, 0xF3, HURRAY_SYNC_PRODUCER_SYNCED, 0xF1}},
        .statistics = {.computed_mask = HURRAY_STATISTICS_NM, .nm_n = 2, .nm_m = 4},
        .extension_type = {.bit_width = 24,
                           .packing_factor = 1,
                           .is_float = true,
                           .sign_bits = 1,
                           .exponent_bits = 8,
                           .mantissa_bits = 15,
                           .exponent_bias = 127,
                           .has_nan = true},
        .member = {HURRAY_ROLE_CORRECTION},
    };
    sample->fields = (HurrayDescriptorFields){
        .type_tag = 0xFA,
        .rank = 3,
        .shape = sample->shape,
        .byte_offset = 36,
        .layout = {HURRAY_LAYOUT_STRIDED, {sample->strides}},
        .buffer_count = 1,
        .buffers = sample->buffers,
        .statistics = &sample->statistics,
        .extension_type = &sample->extension_type,
        .member = &sample->member,
    };
}

static void make_scalar(Sample *sample) {
    make_worked(sample);
    sample->fields.rank = 0;
    sample->fields.shape = NULL;
}

typedef void (*Make)(Sample *sample);
static const Make makes[] = {make_worked, make_quantized, make_private, make_scalar};
#define MAKE_COUNT (sizeof makes / sizeof makes[0])

#define ROOM 512

static size_t encode(const HurrayDescriptorFields *fields, uint8_t bytes[ROOM]) {
    uintptr_t length = 0;
    expect_ok(hurray_descriptor_encode(fields, bytes, ROOM, &length));
    return length;
}

/* Decodes a copy of exactly these bytes. */
static HurrayStatus decode(const uint8_t *bytes, size_t length, HurrayDescriptor **out) {
    uint8_t *exact = malloc(length == 0 ? 1 : length);
    memcpy(exact, bytes, length);
    HurrayStatus status = hurray_descriptor_decode(exact, length, out);
    free(exact); /* a descriptor must not point into it */
    return status;
}

static HurrayDescriptor *const untouched = (HurrayDescriptor *)(uintptr_t)0x77;

static void expect_decode_failure(HurrayStatus expected, const uint8_t *bytes, size_t length) {
    HurrayDescriptor *out = untouched;
    expect_failure(expected, decode(bytes, length, &out));
    assert_ptr_equal(out, untouched);
}

static void store_length(uint8_t *bytes, size_t length) {
    for (int i = 0; i < 4; i++) bytes[6 + i] = (uint8_t)(length >> 8 * i);
}

/* ---- there and back ---- */

static void the_worked_example_both_ways(void **state) {
    (void)state;
    Sample sample;
    make_worked(&sample);
    uint8_t bytes[ROOM];
    uint64_t size = 0;
    expect_ok(hurray_descriptor_encoded_size(&sample.fields, &size));
    assert_int_equal(size, 61);
    assert_int_equal(encode(&sample.fields, bytes), 61);
    assert_memory_equal(bytes, worked_bytes, 61);

    uint32_t length = 0;
    expect_ok(hurray_descriptor_peek_length(worked_bytes, 10, &length));
    assert_int_equal(length, 61);
    HurrayDescriptor *descriptor = NULL;
    expect_ok(decode(worked_bytes, 61, &descriptor));
    const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
    assert_int_equal(fields->type_tag, HURRAY_TYPE_FLOAT32);
    assert_int_equal(fields->rank, 2);
    assert_int_equal(fields->shape[0], 3);
    assert_int_equal(fields->shape[1], 4);
    assert_int_equal(fields->byte_offset, 0);
    assert_int_equal(fields->layout.tag, HURRAY_LAYOUT_ROW_MAJOR);
    assert_int_equal(fields->buffer_count, 1);
    assert_int_equal(fields->buffers[0].byte_size, 192);
    assert_int_equal(fields->buffers[0].alignment, 64);
    assert_null(fields->quantization);
    assert_null(fields->shard);
    assert_null(fields->statistics);
    assert_null(fields->extension_type);
    assert_null(fields->member);
    assert_true(hurray_descriptor_equal(fields, &sample.fields));
    expect_ok(hurray_descriptor_destroy(descriptor));
}

static void samples_survive_the_wire(void **state) {
    (void)state;
    for (size_t i = 0; i < MAKE_COUNT; i++) {
        Sample sample;
        makes[i](&sample);
        uint8_t bytes[ROOM], again[ROOM];
        size_t length = encode(&sample.fields, bytes);
        HurrayDescriptor *descriptor = NULL;
        expect_ok(decode(bytes, length, &descriptor));
        const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
        assert_true(hurray_descriptor_equal(fields, &sample.fields));
        expect_ok(hurray_descriptor_validate(fields));
        assert_int_equal(encode(fields, again), length);
        assert_memory_equal(again, bytes, length);
        expect_ok(hurray_descriptor_destroy(descriptor));
    }
}

static void bytes_after_the_descriptor_are_not_looked_at(void **state) {
    (void)state;
    uint8_t more[70];
    memcpy(more, worked_bytes, 61);
    memset(more + 61, 0xEE, 9);
    HurrayDescriptor *descriptor = NULL;
    for (size_t length = 61; length <= 70; length++) {
        expect_ok(decode(more, length, &descriptor));
        expect_ok(hurray_descriptor_destroy(descriptor));
    }
}

/* ---- damage ---- */

/* Cut at every length: with the length field as it was, and with it made to agree. */
static void every_truncation_is_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < MAKE_COUNT; i++) {
        Sample sample;
        makes[i](&sample);
        uint8_t bytes[ROOM];
        size_t whole = encode(&sample.fields, bytes);
        for (size_t length = 0; length < whole; length++) {
            uint8_t cut[ROOM];
            memcpy(cut, bytes, length);
            expect_decode_failure(HURRAY_ERR_INVALID_LAYOUT, cut, length);
            if (length < 10) continue;
            store_length(cut, length);
            HurrayDescriptor *out = untouched;
            expect_any_failure(decode(cut, length, &out));
            assert_ptr_equal(out, untouched);
            /* A reader that trusted the length would find the missing bytes behind it. */
            memcpy(cut, bytes, whole);
            store_length(cut, length);
            expect_any_failure(decode(cut, whole, &out));
            assert_ptr_equal(out, untouched);
            cut[5] = 9;
            expect_any_failure(decode(cut, whole, &out));
        }
    }
}

static void lengths_that_disagree(void **state) {
    (void)state;
    uint8_t bytes[100] = {0};
    memcpy(bytes, worked_bytes, 61);
    for (uint32_t length = 0; length < 100; length++) {
        store_length(bytes, length);
        if (length == 61) continue;
        expect_decode_failure(HURRAY_ERR_INVALID_LAYOUT, bytes, 100);
    }
    static const uint32_t huge[] = {101, 1u << 20, UINT32_MAX - 7, UINT32_MAX};
    for (size_t i = 0; i < 4; i++) {
        store_length(bytes, huge[i]);
        expect_decode_failure(HURRAY_ERR_INVALID_LAYOUT, bytes, 100);
    }
}

/* A later minor version may append parts: skipped, and not written again. */
static void later_minor_versions_may_append(void **state) {
    (void)state;
    for (size_t i = 0; i < MAKE_COUNT; i++) {
        Sample sample;
        makes[i](&sample);
        uint8_t bytes[ROOM], again[ROOM], original[ROOM];
        size_t whole = encode(&sample.fields, original);
        for (size_t more = 0; more < 40; more += 13) {
            memcpy(bytes, original, whole);
            memset(bytes + whole, 0xEE, more);
            store_length(bytes, whole + more);
            if (more != 0) expect_decode_failure(HURRAY_ERR_INVALID_LAYOUT, bytes, whole + more);
            for (uint32_t minor = 1; minor < 256; minor += 127) {
                bytes[5] = (uint8_t)minor;
                HurrayDescriptor *descriptor = NULL;
                expect_ok(decode(bytes, whole + more, &descriptor));
                const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
                assert_true(hurray_descriptor_equal(fields, &sample.fields));
                assert_int_equal(encode(fields, again), whole);
                assert_memory_equal(again, original, whole);
                expect_ok(hurray_descriptor_destroy(descriptor));
                /* Flags stay flags. */
                bytes[10] |= 0x20;
                expect_decode_failure(HURRAY_ERR_INVALID_LAYOUT, bytes, whole + more);
                bytes[10] &= 0x1F;
            }
        }
    }
}

/* One byte of the worked example replaced: the code that spec 7.2 promises. */
static void faults_have_their_codes(void **state) {
    (void)state;
    static const struct {
        size_t at;
        uint8_t value;
        HurrayStatus expected;
        const char *says;
    } rows[] = {
        {0, 'h', HURRAY_ERR_INVALID_MAGIC, "68 52 52 59"},
        {3, 0, HURRAY_ERR_INVALID_MAGIC, "HRRY"},
        {4, 0, HURRAY_ERR_VERSION_MISMATCH, "version_major 0"},
        {4, 2, HURRAY_ERR_VERSION_MISMATCH, "version_major 2"},
        {10, 0x20, HURRAY_ERR_INVALID_LAYOUT, "flags"},
        {13, 0x80, HURRAY_ERR_INVALID_LAYOUT, "flags 0x80000000"},
        {14, 0x00, HURRAY_ERR_INVALID_TYPE, "0x00"},
        {14, 0x47, HURRAY_ERR_INVALID_TYPE, "0x47"},
        {14, 0x05, HURRAY_ERR_INVALID_TYPE, "0x05"},
        {14, 0xFF, HURRAY_ERR_INVALID_TYPE, "0xFF"},
        {14, 0xF0, HURRAY_ERR_INVALID_LAYOUT, "extension type"},
        {10, 0x04, HURRAY_ERR_INVALID_LAYOUT, ""}, /* flag without a section, type not private */
        {15, 0x00, HURRAY_ERR_INVALID_LAYOUT, "0x00"},
        {15, 0x3F, HURRAY_ERR_INVALID_LAYOUT, "0x3F"},
        {15, 0xFF, HURRAY_ERR_INVALID_LAYOUT, "0xFF"},
        {16, 65, HURRAY_ERR_INVALID_LAYOUT, "rank 65"},
        {19, 1, HURRAY_ERR_INVALID_LAYOUT, "rank"},
        {21, 1, HURRAY_ERR_INVALID_LAYOUT, "buffer 0"},      /* shape 259, 4 */
        {36, 193, HURRAY_ERR_INVALID_LAYOUT, "byte_offset"}, /* past the end */
        {36, 145, HURRAY_ERR_INVALID_LAYOUT, "buffer 0"},    /* leaves too little */
        {44, 0, HURRAY_ERR_INVALID_LAYOUT, ""},
        {44, 2, HURRAY_ERR_INVALID_LAYOUT, ""},
        {45, 47, HURRAY_ERR_INVALID_LAYOUT, "47"}, /* one byte short */
        {53, 65, HURRAY_ERR_INVALID_LAYOUT, "power of two"},
        {53, 32, HURRAY_ERR_INVALID_LAYOUT, "alignment 32"},
        {53, 0, HURRAY_ERR_INVALID_LAYOUT, "alignment 0"},
        {57, 9, HURRAY_ERR_INVALID_TYPE, "device"},
        {57, 0xFF, HURRAY_ERR_INVALID_TYPE, "device"},
        {58, 1, HURRAY_ERR_INVALID_SYNC_MODE, "CPU"},
        {58, 3, HURRAY_ERR_INVALID_SYNC_MODE, "sync mode 3"},
        {59, 3, HURRAY_ERR_INVALID_TYPE, "peer"},
        {59, 4, HURRAY_ERR_INVALID_TYPE, "memory class"},
        {59, 0xF0, HURRAY_ERR_INVALID_TYPE, "memory class"},
        {60, 1, HURRAY_ERR_INVALID_LAYOUT, "reserved"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t bytes[61];
        memcpy(bytes, worked_bytes, 61);
        bytes[rows[i].at] = rows[i].value;
        expect_decode_failure(rows[i].expected, bytes, 61);
        expect_message(rows[i].says);
    }
}

static void the_prefix_by_itself(void **state) {
    (void)state;
    uint32_t length = 77;
    for (size_t have = 0; have < 10; have++) {
        expect_failure(HURRAY_ERR_INVALID_LAYOUT,
                       hurray_descriptor_peek_length(worked_bytes, have, &length));
    }
    uint8_t bytes[10];
    memcpy(bytes, worked_bytes, 10);
    store_length(bytes, 19);
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_peek_length(bytes, 10, &length));
    assert_int_equal(length, 77);
    store_length(bytes, UINT32_MAX);
    expect_ok(hurray_descriptor_peek_length(bytes, 10, &length));
    assert_true(length == UINT32_MAX);
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_peek_length(NULL, 0, &length));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_peek_length(bytes, 10, NULL));
    HurrayDescriptor *out = untouched;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_decode(NULL, 0, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_decode(worked_bytes, 61, NULL));
    assert_ptr_equal(out, untouched);
}

/* ---- encoding into too little ---- */

static void encoding_needs_room_and_writes_nothing_without(void **state) {
    (void)state;
    for (size_t i = 0; i < MAKE_COUNT; i++) {
        Sample sample;
        makes[i](&sample);
        uint8_t whole[ROOM];
        size_t length = encode(&sample.fields, whole);
        for (size_t capacity = 0; capacity <= length; capacity++) {
            uint8_t *exact = malloc(capacity == 0 ? 1 : capacity);
            memset(exact, 0xA5, capacity);
            uintptr_t written = 77;
            if (capacity == length) {
                expect_ok(hurray_descriptor_encode(&sample.fields, exact, capacity, &written));
                assert_int_equal(written, length);
                assert_memory_equal(exact, whole, length);
            } else {
                expect_failure(HURRAY_ERR_BUFFER_TOO_SMALL,
                               hurray_descriptor_encode(&sample.fields, exact, capacity, &written));
                assert_int_equal(written, 77);
                for (size_t k = 0; k < capacity; k++) assert_int_equal(exact[k], 0xA5);
            }
            free(exact);
        }
    }
    Sample sample;
    make_worked(&sample);
    uint8_t bytes[ROOM];
    uintptr_t length = 77;
    uint64_t size = 77;
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_descriptor_encode(NULL, bytes, sizeof bytes, &length));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_descriptor_encode(&sample.fields, NULL, sizeof bytes, &length));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_descriptor_encode(&sample.fields, bytes, sizeof bytes, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_encoded_size(&sample.fields, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_encoded_size(NULL, &size));
    assert_true(length == 77 && size == 77);
}

/* Lengths are u32: what would not fit is counted, not read, and refused. */
static void sections_longer_than_a_descriptor_can_be(void **state) {
    (void)state;
    static const uint32_t sizes[] = {UINT32_MAX, UINT32_MAX - 19, UINT32_MAX - 20,
                                     UINT32_MAX - 100};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        Sample sample;
        uint64_t size = 77;
        make_quantized(&sample);
        sample.quantization.trailing_size = sizes[i];
        expect_failure(HURRAY_ERR_INVALID_LAYOUT,
                       hurray_descriptor_encoded_size(&sample.fields, &size));
        assert_int_equal(size, 77);
    }
}

/* ---- objects ---- */

/* What was given may change and go: the descriptor is a copy. */
static void created_descriptors_stand_alone(void **state) {
    (void)state;
    for (size_t i = 0; i < MAKE_COUNT; i++) {
        Sample *sample = malloc(sizeof *sample), compare;
        makes[i](sample);
        makes[i](&compare);
        HurrayDescriptor *descriptor = NULL;
        expect_ok(hurray_descriptor_create(&sample->fields, &descriptor));
        memset(sample, 0xFF, sizeof *sample);
        free(sample);
        const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
        assert_true(hurray_descriptor_equal(fields, &compare.fields));
        uint8_t bytes[ROOM], expected[ROOM];
        size_t length = encode(&compare.fields, expected);
        assert_int_equal(encode(fields, bytes), length);
        assert_memory_equal(bytes, expected, length);
        expect_ok(hurray_descriptor_destroy(descriptor));
    }
    HurrayDescriptor *out = untouched;
    Sample sample;
    make_worked(&sample);
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_create(NULL, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_create(&sample.fields, NULL));
    sample.fields.type_tag = 0;
    expect_failure(HURRAY_ERR_INVALID_TYPE, hurray_descriptor_create(&sample.fields, &out));
    assert_ptr_equal(out, untouched);
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_destroy(NULL));
    assert_null(hurray_descriptor_fields(NULL));
}

/* A change of one field of a sample; each leaves it valid. */
typedef void (*Change)(Sample *sample);
#define CHANGE(name, make, statement)  \
    static void name(Sample *sample) { \
        make(sample);                  \
        statement;                     \
    }
CHANGE(change_type, make_worked, sample->fields.type_tag = HURRAY_TYPE_INT32)
CHANGE(change_rank, make_worked, sample->fields.rank = 1)
CHANGE(change_shape, make_worked, sample->shape[1] = 5)
CHANGE(change_offset, make_worked, sample->fields.byte_offset = 1)
CHANGE(change_layout, make_worked, sample->fields.layout.tag = HURRAY_LAYOUT_COL_MAJOR)
CHANGE(change_size, make_worked, sample->buffers[0].byte_size++)
CHANGE(change_alignment, make_worked, sample->buffers[0].alignment = 128)
CHANGE(change_class, make_worked, sample->buffers[0].memory_class = 1)
CHANGE(change_statistics_there, make_worked, sample->fields.statistics = &sample->statistics)
CHANGE(change_member_there, make_worked, sample->fields.member = &sample->member)
CHANGE(change_device, make_quantized,
       for (int i = 0; i < 3; i++) sample->buffers[i].device_tag = HURRAY_DEVICE_ROCM)
CHANGE(change_sync, make_quantized, sample->buffers[2].sync_mode = HURRAY_SYNC_EVENT)
CHANGE(change_scheme, make_quantized, sample->quantization.scheme = HURRAY_SCHEME_PER_BLOCK;
       sample->quantization.block_size = 2; sample->buffers[1].byte_size = 48;
       sample->buffers[2].byte_size = 48)
CHANGE(change_scale_buffer, make_quantized, sample->quantization.scale_buffer = 2;
       sample->quantization.zero_point_buffer = 1)
CHANGE(change_trailing, make_quantized, sample->trailing[4] = 6)
CHANGE(change_trailing_size, make_quantized, sample->quantization.trailing_size = 4)
CHANGE(change_no_trailing, make_quantized, sample->quantization.trailing_size = 0;
       sample->quantization.trailing = NULL)
CHANGE(change_parent, make_quantized, sample->parent_shape[1] = 7)
CHANGE(change_shard_offset, make_quantized, sample->shard_offset[0] = 3)
CHANGE(change_no_shard, make_quantized, sample->fields.shard = NULL)
CHANGE(change_mask, make_quantized, sample->statistics.computed_mask = 1)
CHANGE(change_zero_sign, make_quantized, sample->statistics.value_min = 0.0)
CHANGE(change_unclaimed, make_quantized, sample->statistics.value_mean = 1.0)
CHANGE(change_role, make_quantized, sample->member.role = HURRAY_ROLE_CORRECTION)
CHANGE(change_strides, make_private, sample->strides[2] = 3)
CHANGE(change_bias, make_private, sample->extension_type.exponent_bias = 126)
CHANGE(change_width, make_private, sample->extension_type.bit_width = 16)
CHANGE(change_private_tag, make_private, sample->fields.type_tag = 0xFB)

static const struct {
    Make make;
    Change change;
} changes[] = {
    {make_worked, change_type},
    {make_worked, change_rank},
    {make_worked, change_shape},
    {make_worked, change_offset},
    {make_worked, change_layout},
    {make_worked, change_size},
    {make_worked, change_alignment},
    {make_worked, change_class},
    {make_worked, change_statistics_there},
    {make_worked, change_member_there},
    {make_quantized, change_device},
    {make_quantized, change_sync},
    {make_quantized, change_scheme},
    {make_quantized, change_scale_buffer},
    {make_quantized, change_trailing},
    {make_quantized, change_trailing_size},
    {make_quantized, change_no_trailing},
    {make_quantized, change_parent},
    {make_quantized, change_shard_offset},
    {make_quantized, change_no_shard},
    {make_quantized, change_mask},
    {make_quantized, change_zero_sign},
    {make_quantized, change_unclaimed},
    {make_quantized, change_role},
    {make_private, change_strides},
    {make_private, change_bias},
    {make_private, change_width},
    {make_private, change_private_tag},
};

/* Equal is: the same bytes. So any change of a field makes a difference to both. */
static void equality_is_that_of_the_bytes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        Sample one, other;
        changes[i].make(&one);
        changes[i].make(&other);
        assert_true(hurray_descriptor_equal(&one.fields, &other.fields));
        changes[i].change(&other);
        uint8_t one_bytes[ROOM], other_bytes[ROOM];
        size_t one_length = encode(&one.fields, one_bytes);
        size_t other_length = encode(&other.fields, other_bytes);
        bool same = one_length == other_length && memcmp(one_bytes, other_bytes, one_length) == 0;
        if (same) fail_msg("change %zu does not reach the wire", i);
        if (hurray_descriptor_equal(&one.fields, &other.fields))
            fail_msg("change %zu is missed", i);
        assert_false(hurray_descriptor_equal(&other.fields, &one.fields));
    }
    Sample sample;
    make_worked(&sample);
    assert_false(hurray_descriptor_equal(&sample.fields, NULL));
    assert_false(hurray_descriptor_equal(NULL, &sample.fields));
    assert_false(hurray_descriptor_equal(NULL, NULL));
    for (size_t i = 0; i < MAKE_COUNT; i++) {
        for (size_t k = 0; k < MAKE_COUNT; k++) {
            Sample other;
            makes[i](&sample);
            makes[k](&other);
            assert_int_equal(hurray_descriptor_equal(&sample.fields, &other.fields), i == k);
        }
    }
}

/* ---- accessors of spec 7.2 ---- */

static void accessors(void **state) {
    (void)state;
    HurrayDescriptor *descriptor = NULL;
    Sample sample;
    make_private(&sample);
    expect_ok(hurray_descriptor_create(&sample.fields, &descriptor));
    uint8_t byte = 0;
    uint32_t word = 0;
    uint64_t wide = 0;
    expect_ok(hurray_descriptor_element_type_tag(descriptor, &byte));
    assert_int_equal(byte, 0xFA);
    expect_ok(hurray_descriptor_layout_tag(descriptor, &byte));
    assert_int_equal(byte, HURRAY_LAYOUT_STRIDED);
    expect_ok(hurray_descriptor_rank(descriptor, &word));
    assert_int_equal(word, 3);
    expect_ok(hurray_descriptor_byte_offset(descriptor, &wide));
    assert_int_equal(wide, 36);
    expect_ok(hurray_descriptor_buffer_count(descriptor, &word));
    assert_int_equal(word, 1);

    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_element_type_tag(NULL, &byte));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_element_type_tag(descriptor, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_layout_tag(NULL, &byte));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_layout_tag(descriptor, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_rank(NULL, &word));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_rank(descriptor, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_byte_offset(NULL, &wide));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_byte_offset(descriptor, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_buffer_count(NULL, &word));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_buffer_count(descriptor, NULL));
    expect_ok(hurray_descriptor_destroy(descriptor));
}

/* Capacity in, rank out; what does not fit is not written, but the rank is. */
static void the_shape_is_copied_into_what_is_large_enough(void **state) {
    (void)state;
    for (size_t i = 0; i < MAKE_COUNT; i++) {
        Sample sample;
        makes[i](&sample);
        HurrayDescriptor *descriptor = NULL;
        expect_ok(hurray_descriptor_create(&sample.fields, &descriptor));
        uint32_t actual = sample.fields.rank;
        for (uintptr_t capacity = 0; capacity < 6; capacity++) {
            uint64_t dims[6] = {77, 77, 77, 77, 77, 77};
            uintptr_t rank = capacity;
            bool fits = capacity >= actual;
            if (fits) {
                expect_ok(hurray_descriptor_shape(descriptor, dims, &rank));
            } else {
                expect_failure(HURRAY_ERR_BUFFER_TOO_SMALL,
                               hurray_descriptor_shape(descriptor, dims, &rank));
            }
            assert_int_equal(rank, actual);
            for (uint32_t k = 0; k < 6; k++) {
                assert_int_equal(dims[k], fits && k < actual ? sample.shape[k] : 77);
            }
            rank = capacity;
            if (actual == 0) { /* nothing to write */
                expect_ok(hurray_descriptor_shape(descriptor, NULL, &rank));
            } else {
                expect_failure(HURRAY_ERR_BUFFER_TOO_SMALL,
                               hurray_descriptor_shape(descriptor, NULL, &rank));
            }
            assert_int_equal(rank, actual);
        }
        uint64_t dims[3];
        uintptr_t rank = 3;
        expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_shape(NULL, dims, &rank));
        expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_shape(descriptor, dims, NULL));
        assert_int_equal(rank, 3);
        expect_ok(hurray_descriptor_destroy(descriptor));
    }
}

/* ---- rules that concern several parts ---- */

static void expect_invalid(HurrayStatus expected, const Sample *sample, const char *says) {
    expect_failure(expected, hurray_descriptor_validate(&sample->fields));
    expect_message(says);
    uint8_t bytes[ROOM];
    uintptr_t length;
    HurrayDescriptor *out;
    expect_failure(expected, hurray_descriptor_encode(&sample->fields, bytes, ROOM, &length));
    expect_failure(expected, hurray_descriptor_create(&sample->fields, &out));
}

static void buffers_agree_about_their_place(void **state) {
    (void)state;
    Sample sample;
    for (int i = 1; i < 3; i++) {
        make_quantized(&sample);
        sample.buffers[i].device_tag = HURRAY_DEVICE_VULKAN;
        expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample, "buffer");
        make_quantized(&sample);
        sample.buffers[i].memory_class = HURRAY_MEMORY_STANDARD;
        expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample, "buffer");
    }
}

static void pointers_and_counts_must_be_there(void **state) {
    (void)state;
    Sample sample;
    make_worked(&sample);
    sample.fields.shape = NULL;
    expect_invalid(HURRAY_ERR_NULL_POINTER, &sample, "shape");
    make_worked(&sample);
    sample.fields.buffers = NULL;
    expect_invalid(HURRAY_ERR_NULL_POINTER, &sample, "buffers");
    make_private(&sample);
    sample.fields.layout.strides = NULL;
    expect_invalid(HURRAY_ERR_NULL_POINTER, &sample, "strides");
    static const uint32_t counts[] = {0, 1, 2, 4, 255, 256, UINT32_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        make_quantized(&sample);
        sample.fields.buffer_count = counts[i];
        expect_any_failure(hurray_descriptor_validate(&sample.fields));
    }
    make_worked(&sample);
    sample.fields.rank = UINT32_MAX;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample, "rank");
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_validate(NULL));
}

static void private_types_and_their_section_come_together(void **state) {
    (void)state;
    Sample sample;
    make_private(&sample);
    sample.fields.extension_type = NULL;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample, "extension type");
    make_private(&sample);
    sample.fields.type_tag = HURRAY_TYPE_FLOAT32;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample, "extension type");
    make_private(&sample);
    sample.extension_type.bit_width = 12;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample, "bit_width");
}

/* A tag that is not assigned is no layout: nothing behind it is interpreted. */
static void other_layout_tags(void **state) {
    (void)state;
    for (uint32_t tag = 0; tag < 256; tag++) {
        HurrayLayoutTagKind kind = hurray_layout_tag_kind((uint8_t)tag);
        if (kind == HURRAY_LAYOUT_TAG_NAMED || kind == HURRAY_LAYOUT_TAG_PRIVATE) continue;
        Sample sample;
        make_worked(&sample);
        sample.fields.layout.tag = (uint8_t)tag;
        expect_any_failure(hurray_descriptor_validate(&sample.fields));
        expect_message("layout tag");
        uint8_t bytes[61];
        memcpy(bytes, worked_bytes, 61);
        bytes[15] = (uint8_t)tag;
        HurrayDescriptor *out = untouched;
        expect_any_failure(decode(bytes, 61, &out));
        assert_ptr_equal(out, untouched);
    }
}

/* What is required is what is accepted: a byte less is refused. */
static void required_bytes_are_the_least_accepted(void **state) {
    (void)state;
    for (size_t i = 0; i < MAKE_COUNT; i++) {
        Sample sample;
        makes[i](&sample);
        uint64_t required = 77;
        const char *role = NULL;
        const HurrayBufferHandle *buffers = sample.fields.buffers;
        sample.fields.buffers = NULL; /* is not looked at */
        expect_ok(hurray_descriptor_required_bytes(&sample.fields, 0, &required, &role));
        expect_ok(hurray_descriptor_required_bytes(&sample.fields, 0, &required, NULL));
        assert_string_equal(role, "data");
        sample.fields.buffers = buffers;
        sample.buffers[0].byte_size = required;
        expect_ok(hurray_descriptor_validate(&sample.fields));
        sample.buffers[0].byte_size = required - 1;
        expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_validate(&sample.fields));
        required = 77;
        for (uint32_t other = 1; other < 4; other++) {
            expect_failure(
                HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                hurray_descriptor_required_bytes(&sample.fields, other, &required, &role));
        }
        sample.fields.type_tag = 0;
        expect_failure(HURRAY_ERR_INVALID_TYPE,
                       hurray_descriptor_required_bytes(&sample.fields, 0, &required, &role));
        assert_int_equal(required, 77);
        expect_failure(HURRAY_ERR_NULL_POINTER,
                       hurray_descriptor_required_bytes(&sample.fields, 0, NULL, &role));
        expect_failure(HURRAY_ERR_NULL_POINTER,
                       hurray_descriptor_required_bytes(NULL, 0, &required, &role));
    }
    Sample sample;
    uint64_t required = 0;
    make_worked(&sample);
    sample.fields.byte_offset = 9;
    sample.shape[0] = HURRAY_DYNAMIC;
    expect_ok(hurray_descriptor_required_bytes(&sample.fields, 0, &required, NULL));
    assert_int_equal(required, 9);
    /* Nobody knows how wide the elements of a type without a name are. */
    make_worked(&sample);
    sample.fields.type_tag = 0x7F;
    sample.fields.permissive = true;
    required = 77;
    expect_failure(HURRAY_ERR_UNSUPPORTED,
                   hurray_descriptor_required_bytes(&sample.fields, 0, &required, NULL));
    expect_message("0x7F");
    assert_int_equal(required, 77);
    /* Quantization that no validation has seen must not divide by zero or index beyond the shape. */
    make_quantized(&sample);
    sample.quantization.axis = 100;
    expect_ok(hurray_descriptor_required_bytes(&sample.fields, 0, &required, NULL));
    sample.quantization.scheme = HURRAY_SCHEME_PER_BLOCK;
    sample.quantization.axis = 0;
    expect_ok(hurray_descriptor_required_bytes(&sample.fields, 0, &required, NULL));
    sample.quantization.scheme = 0x99;
    expect_ok(hurray_descriptor_required_bytes(&sample.fields, 0, &required, NULL));
    assert_int_equal(required, 124);
}

/* Of a type that a permissive reader carries only the width is unknown: whatever does not depend on
 * it holds. */
static void carried_types_have_index_buffers_and_ranges(void **state) {
    (void)state;
    uint64_t shape[2] = {4, 8};
    HurrayBufferHandle buffers[2] = {{.alignment = 64}, {.byte_size = 7 * 2 * 8, .alignment = 64}};
    HurrayDescriptorFields fields = {
        .type_tag = 0xAA,
        .rank = 2,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_COO, .sparse = {.nnz = 7}},
        .buffer_count = 2,
        .buffers = buffers,
        .permissive = true,
    };
    expect_ok(hurray_descriptor_validate(&fields));
    buffers[1].byte_size -= 1;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_validate(&fields));
    expect_message("buffer 1 (indices)");
    const int64_t strides[2] = {INT64_MAX, INT64_MAX};
    fields.layout = (HurrayLayout){.tag = HURRAY_LAYOUT_STRIDED, .strides = strides};
    fields.buffer_count = 1;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_validate(&fields));
    fields.layout.strides = (const int64_t[]){-8, 1};
    expect_ok(hurray_descriptor_validate(&fields));
}

/* Rules of handles hold for each, not only for the first, which the others mostly are like. */
static void every_handle_is_checked(void **state) {
    (void)state;
    uint64_t shape[2] = {2, 2};
    HurrayBufferHandle buffers[3];
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_INT8,
        .rank = 2,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_CSR, .sparse = {.nnz = 0}},
        .buffer_count = 3,
        .buffers = buffers,
    };
    const struct {
        HurrayBufferHandle handle;
        HurrayStatus status;
    } faults[] = {
        {{.byte_size = 64, .alignment = 32}, HURRAY_ERR_INVALID_LAYOUT},
        {{.byte_size = 64, .alignment = 96}, HURRAY_ERR_INVALID_LAYOUT},
        {{.byte_size = 64, .alignment = 64, .device_tag = HURRAY_DEVICE_CUDA},
         HURRAY_ERR_INVALID_LAYOUT},
        {{.byte_size = 64, .alignment = 64, .device_tag = 0x0A}, HURRAY_ERR_INVALID_TYPE},
        {{.byte_size = 64, .alignment = 64, .memory_class = HURRAY_MEMORY_HOST_PINNED},
         HURRAY_ERR_INVALID_LAYOUT},
        {{.byte_size = 64, .alignment = 64, .sync_mode = HURRAY_SYNC_EVENT},
         HURRAY_ERR_INVALID_SYNC_MODE},
    };
    for (uint32_t which = 0; which < 3; which++) {
        for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
            for (uint32_t k = 0; k < 3; k++) {
                buffers[k] = (HurrayBufferHandle){.byte_size = 64, .alignment = 64};
            }
            expect_ok(hurray_descriptor_validate(&fields));
            buffers[which] = faults[i].handle;
            if (which != 0) {
                expect_failure(faults[i].status, hurray_descriptor_validate(&fields));
            } else {
                assert_int_not_equal(hurray_descriptor_validate(&fields), HURRAY_OK);
            }
        }
    }
    /* What an empty one may be, one with bytes may not. */
    for (uint32_t k = 0; k < 3; k++) {
        buffers[k] = (HurrayBufferHandle){.byte_size = 0, .alignment = 1};
    }
    buffers[2] = (HurrayBufferHandle){.byte_size = 24, .alignment = 64};
    expect_ok(hurray_descriptor_validate(&fields));
    buffers[2].alignment = 1;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_validate(&fields));
    expect_message("alignment 1 of a buffer of 24 bytes");
}

/* A partial last block counts as a whole one, to the end of the range. */
static void blocks_that_overflow_when_padded(void **state) {
    (void)state;
    uint64_t shape[1] = {UINT64_MAX - 2}, required = 77;
    HurrayQuantization blocks = {.scheme = HURRAY_SCHEME_PER_BLOCK,
                                 .scale_type = HURRAY_TYPE_FLOAT32,
                                 .block_size = 16,
                                 .scale_buffer = 1,
                                 .zero_point_buffer = HURRAY_NO_BUFFER};
    HurrayDescriptorFields fields = {.type_tag = HURRAY_TYPE_INT8,
                                     .rank = 1,
                                     .shape = shape,
                                     .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
                                     .quantization = &blocks};
    expect_failure(HURRAY_ERR_INVALID_LAYOUT,
                   hurray_descriptor_required_bytes(&fields, 0, &required, NULL));
    shape[0] = UINT64_MAX - 15;
    expect_ok(hurray_descriptor_required_bytes(&fields, 0, &required, NULL));
    assert_true(required == UINT64_MAX - 15);
    fields.byte_offset = 15;
    expect_ok(hurray_descriptor_required_bytes(&fields, 0, &required, NULL));
    fields.byte_offset = 16;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT,
                   hurray_descriptor_required_bytes(&fields, 0, &required, NULL));
}

static void authors_owe_the_nnz_of_the_layout(void **state) {
    (void)state;
    HurrayStatistics statistics = {.computed_mask = HURRAY_STATISTICS_NNZ, .nnz = 3};
    const uint64_t shape[1] = {9};
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_INT8,
        .rank = 1,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_COO, .sparse = {.nnz = 3}},
        .statistics = &statistics,
    };
    assert_int_equal(hurray_descriptor_check_authored(&fields), HURRAY_OK);
    fields.layout.sparse.nnz = 4;
    assert_int_equal(hurray_descriptor_check_authored(&fields), HURRAY_ERR_INVALID_LAYOUT);
    statistics.computed_mask = 0;
    assert_int_equal(hurray_descriptor_check_authored(&fields), HURRAY_OK);
    statistics.computed_mask = HURRAY_STATISTICS_SPARSITY;
    statistics.sparsity_ratio = 2;
    assert_int_equal(hurray_descriptor_check_authored(&fields), HURRAY_ERR_INVALID_LAYOUT);
    fields.statistics = NULL;
    assert_int_equal(hurray_descriptor_check_authored(&fields), HURRAY_OK);
    statistics = (HurrayStatistics){.computed_mask = HURRAY_STATISTICS_NNZ, .nnz = 3};
    fields.statistics = &statistics;
    fields.layout = (HurrayLayout){HURRAY_LAYOUT_ROW_MAJOR, {NULL}};
    assert_int_equal(hurray_descriptor_check_authored(&fields), HURRAY_OK);
    assert_int_equal(hurray_descriptor_check_authored(NULL), HURRAY_ERR_NULL_POINTER);
}

/* ---- bytes that somebody else may change ---- */

typedef struct Flipping {
    volatile uint8_t *byte;
    uint8_t values[2];
    atomic_bool done;
} Flipping;

static void *flip(void *context) {
    Flipping *flipping = context;
    while (!flipping->done) {
        *flipping->byte = flipping->values[0];
        *flipping->byte = flipping->values[1];
    }
    return NULL;
}

/* A layout that takes much memory comes and goes: what is decoded stays within what was taken for it. */
static void a_layout_tag_that_changes(void **state) {
    (void)state;
    static const uint64_t shape[1] = {256}, edges[8] = {128, 64, 32, 16, 8, 4, 2, 1};
    HurrayTileLevel levels[8];
    uint8_t bytes[256];
    uintptr_t length = 0;
    for (size_t i = 0; i < 8; i++) {
        levels[i] = (HurrayTileLevel){.tile_shape = &edges[i],
                                      .outer_layout = HURRAY_LAYOUT_ROW_MAJOR,
                                      .inner_layout =
                                          i < 7 ? HURRAY_LAYOUT_TILED : HURRAY_LAYOUT_ROW_MAJOR};
    }
    const HurrayBufferHandle buffer = {.byte_size = 256, .alignment = 64};
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 1,
        .shape = shape,
        .layout = {HURRAY_LAYOUT_TILED, {.tiled = {8, levels}}},
        .buffer_count = 1,
        .buffers = &buffer,
    };
    expect_ok(hurray_descriptor_encode(&fields, bytes, sizeof bytes, &length));
    Flipping flipping = {&bytes[15], {HURRAY_LAYOUT_ROW_MAJOR, HURRAY_LAYOUT_TILED}, false};
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, flip, &flipping), 0);
    for (int i = 0; i < 200000; i++) {
        HurrayDescriptor *descriptor = NULL;
        if (hurray_descriptor_decode(bytes, length, &descriptor) == HURRAY_OK) {
            assert_int_equal(hurray_descriptor_fields(descriptor)->layout.tiled.level_count, 8);
            hurray_descriptor_destroy(descriptor);
        }
    }
    flipping.done = true;
    pthread_join(other, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(authors_owe_the_nnz_of_the_layout),
        cmocka_unit_test(the_worked_example_both_ways),
        cmocka_unit_test(carried_types_have_index_buffers_and_ranges),
        cmocka_unit_test(samples_survive_the_wire),
        cmocka_unit_test(bytes_after_the_descriptor_are_not_looked_at),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(lengths_that_disagree),
        cmocka_unit_test(later_minor_versions_may_append),
        cmocka_unit_test(faults_have_their_codes),
        cmocka_unit_test(the_prefix_by_itself),
        cmocka_unit_test(encoding_needs_room_and_writes_nothing_without),
        cmocka_unit_test(sections_longer_than_a_descriptor_can_be),
        cmocka_unit_test(created_descriptors_stand_alone),
        cmocka_unit_test(equality_is_that_of_the_bytes),
        cmocka_unit_test(accessors),
        cmocka_unit_test(the_shape_is_copied_into_what_is_large_enough),
        cmocka_unit_test(buffers_agree_about_their_place),
        cmocka_unit_test(pointers_and_counts_must_be_there),
        cmocka_unit_test(private_types_and_their_section_come_together),
        cmocka_unit_test(other_layout_tags),
        cmocka_unit_test(required_bytes_are_the_least_accepted),
        cmocka_unit_test(every_handle_is_checked),
        cmocka_unit_test(blocks_that_overflow_when_padded),
        cmocka_unit_test(a_layout_tag_that_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
