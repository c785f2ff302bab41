/*
 * What readers do with parts that they do not know: private layouts and tags that are not assigned
 * (src/layout_private.c), and beside them types, schemes, composition rules and minor versions.
 */
#include "round_trip.h"

#include "layout.h"
#include "random.h"

static const HurrayDecodeOptions permissive = {.permissive = true};
static const uint64_t known_ids[] = {7, UINT64_C(0x1122334455667788)};
static const HurrayDecodeOptions knowing = {.known_layout_ids = known_ids, .known_layout_count = 2};

typedef struct Sample {
    HurrayDescriptorFields fields;
    uint64_t shape[2];
    HurrayBufferHandle buffers[4];
    uint8_t data[5];
    HurrayQuantization quantization;
} Sample;

static void make_private(Sample *sample, uint8_t tag, uint64_t id, uint32_t length) {
    *sample = (Sample){.shape = {3, 4}, .data = {9, 8, 7, 6, 5}};
    for (int i = 0; i < 4; i++) {
        sample->buffers[i] = (HurrayBufferHandle){.byte_size = 10, .alignment = 64};
    }
    sample->fields = (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_INT8,
        .rank = 2,
        .shape = sample->shape,
        .byte_offset = 10,
        .layout = {.tag = tag, .extension = {id, sample->data, length}},
        .buffer_count = 4,
        .buffers = sample->buffers,
    };
    if (length == 0) sample->fields.layout.extension.extension_data = NULL;
}

/* A layout with a tag that is not assigned, carrying `data`. */
static void make_opaque(Sample *sample, uint8_t tag, uint32_t length) {
    *sample = (Sample){.shape = {3, HURRAY_DYNAMIC}, .data = {0xFF, 0, 1, 2, 3}};
    sample->fields = (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_INT8,
        .rank = 2,
        .shape = sample->shape,
        .byte_offset = UINT64_MAX,
        .layout = {.tag = tag, .opaque = {sample->data, length, 0x1B}},
        .permissive = true,
    };
}

static void make_dense(Sample *sample) {
    *sample = (Sample){
        .shape = {3, 4},
        .buffers = {{.byte_size = 48, .alignment = 64}, {.byte_size = 3, .alignment = 64}},
    };
    sample->fields = (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_INT8,
        .rank = 2,
        .shape = sample->shape,
        .layout = {.tag = HURRAY_LAYOUT_ROW_MAJOR},
        .buffer_count = 1,
        .buffers = sample->buffers,
    };
}

/* ---- private layouts ---- */

static void private_layouts_are_for_those_who_know_them(void **state) {
    (void)state;
    Sample sample;
    uint8_t bytes[ROOM];
    HurrayDescriptor *out = NULL;
    for (unsigned tag = HURRAY_LAYOUT_PRIVATE_FIRST; tag <= HURRAY_LAYOUT_PRIVATE_LAST; tag++) {
        for (uint32_t length = 0; length <= 5; length += 5) {
            make_private(&sample, (uint8_t)tag, known_ids[1], length);
            expect_round_trip(&sample.fields, &knowing);
            size_t size = encode_valid(&sample.fields, bytes);
            expect_unreadable(bytes, size, NULL, "extension_layout_id");
            expect_ok(decode_copy(bytes, size, &permissive, &out));
            const HurrayDescriptorFields *fields = hurray_descriptor_fields(out);
            assert_int_equal(fields->layout.extension.extension_layout_id, known_ids[1]);
            assert_int_equal(fields->layout.extension.extension_data_length, length);
            expect_same(fields, &sample.fields);
            hurray_descriptor_destroy(out);
            make_private(&sample, (uint8_t)tag, 8, length);
            size = encode_valid(&sample.fields, bytes);
            expect_unreadable(bytes, size, &knowing, "extension_layout_id 8");
        }
    }
}

static void known_ids_must_be_there(void **state) {
    (void)state;
    static const HurrayDecodeOptions missing = {.known_layout_count = 1};
    Sample sample;
    uint8_t bytes[ROOM];
    HurrayDescriptor *out = NULL;
    make_private(&sample, 0xF0, known_ids[0], 5);
    size_t size = encode_valid(&sample.fields, bytes);
    expect_failure(HURRAY_ERR_NULL_POINTER, decode_copy(bytes, size, &missing, &out));
    expect_message("known_layout_ids");
    assert_null(out);
}

static void private_fields_as_the_spec_lays_them_out(void **state) {
    (void)state;
    Sample sample;
    uint8_t bytes[ROOM];
    make_private(&sample, 0xF7, known_ids[1], 5);
    encode_valid(&sample.fields, bytes);
    assert_memory_equal(bytes + layout_at(2), "\x88\x77\x66\x55\x44\x33\x22\x11\5\0\0\0", 12);
    assert_memory_equal(bytes + layout_at(2) + 12, "\x09\x08\x07\x06\x05\4", 6);
    /* A length that goes on past the end costs nothing but an error. */
    memset(bytes + layout_at(2) + 8, 0xFF, 4);
    expect_unreadable(bytes, layout_at(2) + 12 + 6 + 64, &permissive, "layout fields");
}

/* Any rank, any number of buffers but none, and parameters after at least one of its own. */
static void what_is_checked_of_private_layouts(void **state) {
    (void)state;
    Sample sample;
    make_private(&sample, 0xF0, 7, 5);
    sample.fields.rank = 0;
    expect_round_trip(&sample.fields, &knowing);
    for (uint32_t count = 1; count <= 4; count++) {
        sample.fields.buffer_count = count;
        expect_round_trip(&sample.fields, &knowing);
    }
    sample.fields.buffer_count = 0;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "buffer count 0");
    make_private(&sample, 0xF0, 7, 5);
    sample.fields.byte_offset = 11;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "byte_offset");
    make_private(&sample, 0xF0, 7, 5);
    sample.fields.layout.extension.extension_data = NULL;
    expect_invalid(HURRAY_ERR_NULL_POINTER, &sample.fields, "extension_data");
    make_private(&sample, 0xF0, 7, 5);
    sample.quantization = (HurrayQuantization){.scheme = HURRAY_SCHEME_PER_CHANNEL,
                                               .scale_type = HURRAY_TYPE_FLOAT32,
                                               .scale_buffer = 3,
                                               .zero_point_buffer = HURRAY_NO_BUFFER};
    sample.fields.quantization = &sample.quantization;
    sample.buffers[3].byte_size = 12;
    expect_round_trip(&sample.fields, &knowing);
    sample.quantization.scale_buffer = 0;
    expect_invalid(HURRAY_ERR_INTERNAL, &sample.fields, "scale_buffer");
    sample.quantization.scale_buffer = 3;
    sample.fields.buffer_count = 1;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "buffer count 1");
}

static void every_private_field_makes_a_difference(void **state) {
    (void)state;
    for (int field = 0; field < 4; field++) {
        Sample a, b;
        make_private(&a, 0xF0, 7, 5);
        make_private(&b, field == 0 ? 0xF1 : 0xF0, field == 1 ? 8 : 7, field == 2 ? 4 : 5);
        if (field == 3) b.data[4]++;
        assert_true(hurray_descriptor_equal(&a.fields, &a.fields));
        assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
    }
}

/* ---- tags that are not assigned ---- */

static void unassigned_layouts_are_carried_whole(void **state) {
    (void)state;
    unsigned count = 0;
    for (unsigned tag = 0; tag <= 255; tag++) {
        if (hurray_layout_tag_kind((uint8_t)tag) != HURRAY_LAYOUT_TAG_RESERVED) continue;
        count++;
        for (uint32_t length = 0; length <= 5; length++) {
            Sample sample;
            uint8_t bytes[ROOM];
            make_opaque(&sample, (uint8_t)tag, length);
            size_t size = encode_valid(&sample.fields, bytes);
            assert_int_equal(size, layout_at(2) + length);
            assert_int_equal(bytes[10], 0x1B);
            expect_unreadable(bytes, size, NULL, "not assigned");
            expect_round_trip(&sample.fields, &permissive);
            sample.fields.permissive = false;
            expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "not assigned");
        }
    }
    assert_int_equal(count, 256 - 2 - 15 - 12);
}

static void invalid_tags_are_for_nobody(void **state) {
    (void)state;
    static const uint8_t tags[] = {0x00, 0xFF};
    for (size_t i = 0; i < sizeof tags; i++) {
        Sample sample;
        uint8_t bytes[ROOM];
        make_opaque(&sample, 0x0C, 5);
        size_t size = encode_valid(&sample.fields, bytes);
        bytes[15] = tags[i];
        expect_unreadable(bytes, size, &permissive, "invalid");
        make_opaque(&sample, tags[i], 5);
        expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "invalid");
    }
}

/* What stands before the layout fields is known, and checked. */
static void what_is_checked_of_unassigned_layouts(void **state) {
    (void)state;
    Sample sample;
    uint8_t bytes[ROOM];
    HurrayStatistics statistics = {.computed_mask = 0};
    make_opaque(&sample, 0x0C, 5);
    size_t size = encode_valid(&sample.fields, bytes);
    bytes[10] = 0x20;
    expect_unreadable(bytes, size, &permissive, "flags");
    bytes[10] = 0x04;
    expect_unreadable(bytes, size, &permissive, "extension type");
    bytes[14] = 0xF0; /* now it is a private type */
    HurrayDescriptor *out = NULL;
    expect_ok(decode_copy(bytes, size, &permissive, &out));
    hurray_descriptor_destroy(out);
    bytes[10] = 0;
    expect_unreadable(bytes, size, &permissive, "extension type");
    bytes[14] = 0xFF;
    expect_unreadable(bytes, size, &permissive, "type tag");
    sample.fields.layout.opaque.flags = 0x20;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "flags");
    make_opaque(&sample, 0x0C, 5);
    sample.fields.layout.opaque.bytes = NULL;
    expect_invalid(HURRAY_ERR_NULL_POINTER, &sample.fields, "opaque.bytes");
    make_opaque(&sample, 0x0C, 5);
    sample.fields.statistics = &statistics;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "section");
    make_opaque(&sample, 0x0C, 5);
    sample.fields.buffer_count = 1;
    sample.fields.buffers = sample.buffers;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "buffer count 1");
}

static void every_opaque_byte_makes_a_difference(void **state) {
    (void)state;
    Sample a, b;
    make_opaque(&a, 0x0C, 5);
    make_opaque(&b, 0x0C, 5);
    assert_true(hurray_descriptor_equal(&a.fields, &b.fields));
    b.data[3]++;
    assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
    make_opaque(&b, 0x0C, 4);
    assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
    make_opaque(&b, 0x0D, 5);
    assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
    make_opaque(&b, 0x0C, 5);
    b.fields.layout.opaque.flags = 0;
    assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
}

/* Whatever follows the tag comes back as it was. */
static void any_descriptor_can_become_opaque(void **state) {
    (void)state;
    uint64_t seed = 5;
    Sample sample;
    uint8_t bytes[ROOM], again[ROOM];
    make_dense(&sample);
    size_t size = encode_valid(&sample.fields, bytes);
    for (int round = 0; round < 500; round++) {
        bytes[15] = 0x0C;
        for (size_t i = layout_at(2); i < size; i++) bytes[i] = (uint8_t)random_u64(&seed);
        HurrayDescriptor *out = NULL;
        uintptr_t length = 0;
        expect_ok(decode_copy(bytes, size, &permissive, &out));
        const HurrayDescriptorFields *fields = hurray_descriptor_fields(out);
        expect_ok(hurray_descriptor_encode(fields, again, ROOM, &length));
        assert_int_equal(length, size);
        assert_memory_equal(again, bytes, size);
        hurray_descriptor_destroy(out);
    }
}

/* ---- other parts that are not known ---- */

static void unassigned_types_are_carried(void **state) {
    (void)state;
    Sample sample;
    uint8_t bytes[ROOM];
    make_dense(&sample);
    sample.fields.type_tag = 0x05;
    sample.fields.permissive = true;
    sample.buffers[0].byte_size = 0; /* nobody knows how much there should be */
    expect_round_trip(&sample.fields, &permissive);
    size_t size = encode_valid(&sample.fields, bytes);
    expect_unreadable(bytes, size, NULL, "type tag 0x05");
    static const uint8_t never[] = {0x00, 0x47, 0xFF};
    for (size_t i = 0; i < sizeof never; i++) {
        bytes[14] = never[i];
        expect_unreadable(bytes, size, &permissive, "type tag");
    }
}

static void unassigned_schemes_are_carried(void **state) {
    (void)state;
    for (unsigned tag = 0; tag <= 255; tag++) {
        if (tag >= HURRAY_SCHEME_PER_TENSOR && tag <= HURRAY_SCHEME_MXFP) continue;
        Sample sample;
        uint8_t bytes[ROOM];
        make_dense(&sample);
        memset(sample.data, 0xA5, sizeof sample.data);
        sample.quantization = (HurrayQuantization){
            .scheme = (uint8_t)tag, .trailing = sample.data, .trailing_size = 5};
        sample.fields.quantization = &sample.quantization;
        sample.fields.permissive = true;
        if (tag == 0 || tag == 255) {
            expect_invalid(HURRAY_ERR_INTERNAL, &sample.fields, "scheme");
            continue;
        }
        for (uint32_t count = 1; count <= 2; count++) { /* it may have parameters, or not */
            sample.fields.buffer_count = count;
            expect_round_trip(&sample.fields, &permissive);
        }
        size_t size = encode_valid(&sample.fields, bytes);
        expect_unreadable(bytes, size, NULL, "scheme");
        sample.fields.permissive = false;
        expect_invalid(HURRAY_ERR_INTERNAL, &sample.fields, "scheme");
    }
}

/* Bytes of a later minor version after the last section are skipped, and not written again. */
static void future_minor_versions(void **state) {
    (void)state;
    Sample sample;
    uint8_t bytes[ROOM];
    make_private(&sample, 0xF0, 7, 5);
    size_t size = encode_valid(&sample.fields, bytes);
    for (unsigned extra = 0; extra < 40; extra++) {
        bytes[5] = 1;
        memset(bytes + size, 0xEE, extra);
        bytes[LENGTH_AT] = (uint8_t)(size + extra);
        bytes[LENGTH_AT + 1] = (uint8_t)((size + extra) >> 8);
        HurrayDescriptor *out = NULL;
        expect_ok(decode_copy(bytes, size + extra, &knowing, &out));
        expect_same(hurray_descriptor_fields(out), &sample.fields);
        hurray_descriptor_destroy(out);
        bytes[5] = 0;
        if (extra != 0) expect_unreadable(bytes, size + extra, &knowing, "descriptor_length");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(private_layouts_are_for_those_who_know_them),
        cmocka_unit_test(known_ids_must_be_there),
        cmocka_unit_test(private_fields_as_the_spec_lays_them_out),
        cmocka_unit_test(what_is_checked_of_private_layouts),
        cmocka_unit_test(every_private_field_makes_a_difference),
        cmocka_unit_test(unassigned_layouts_are_carried_whole),
        cmocka_unit_test(invalid_tags_are_for_nobody),
        cmocka_unit_test(what_is_checked_of_unassigned_layouts),
        cmocka_unit_test(every_opaque_byte_makes_a_difference),
        cmocka_unit_test(any_descriptor_can_become_opaque),
        cmocka_unit_test(unassigned_types_are_carried),
        cmocka_unit_test(unassigned_schemes_are_carried),
        cmocka_unit_test(future_minor_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
