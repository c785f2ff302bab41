/* Block-paged tensors as descriptors (src/layout_paged.c). Quantized ones: test_quantization.c. */
#include "round_trip.h"

#include "layout.h"

typedef struct Sample {
    HurrayDescriptorFields fields;
    uint64_t shape[3];
    HurrayBufferHandle buffers[3];
} Sample;

/* 9 tokens of 2 heads of 8 float16; 5 pages of 4 tokens; 2 sequences. */
static void make(Sample *sample, bool wide) {
    *sample = (Sample){
        .shape = {9, 2, 8},
        .buffers = {{.byte_size = 5 * 4 * 2 * 8 * 2, .alignment = 64},
                    {.byte_size = 0, .alignment = 64},
                    {.byte_size = wide ? 24 : 12, .alignment = 64}},
    };
    sample->fields = (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_FLOAT16,
        .rank = 3,
        .shape = sample->shape,
        .layout = {.tag = HURRAY_LAYOUT_BLOCK_PAGED,
                   .paged = {.page_size = 4,
                             .num_pages = 5,
                             .num_seqs = 2,
                             .kv_role = HURRAY_KV_VALUE,
                             .layer_index = HURRAY_NO_LAYER,
                             .wide_indices = wide}},
        .buffer_count = 3,
        .buffers = sample->buffers,
    };
}

static void round_trips(void **state) {
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        for (uint8_t role = HURRAY_KV_KEY; role <= HURRAY_KV_FUSED; role++) {
            Sample sample;
            make(&sample, wide);
            sample.fields.layout.paged.kv_role = role;
            sample.fields.layout.paged.layer_index = role == 0 ? HURRAY_NO_LAYER : role;
            expect_round_trip(&sample.fields, NULL);
        }
    }
}

static void fields_as_the_spec_lays_them_out(void **state) {
    (void)state;
    Sample sample;
    uint8_t bytes[ROOM];
    make(&sample, true);
    encode_valid(&sample.fields, bytes);
    assert_memory_equal(bytes + layout_at(3), "\4\0\0\0\5\0\0\0\0\0\0\0\0\0\0\0\2\0\0\0\1", 21);
    assert_memory_equal(bytes + layout_at(3) + 21, "\xFF\xFF\xFF\xFF\1\0\0\0\0\0\0\3", 12);
}

static void what_is_not_a_value_is_refused(void **state) {
    (void)state;
    Sample sample;
    uint8_t bytes[ROOM];
    make(&sample, false);
    expect_reserved(&sample.fields, layout_at(3) + 26, 6);
    size_t length = encode_valid(&sample.fields, bytes);
    for (unsigned value = 2; value <= 255; value++) {
        bytes[layout_at(3) + 25] = (uint8_t)value;
        expect_unreadable(bytes, length, NULL, "block_table_index_type");
    }
    sample.fields.layout.paged.page_size = 0;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "page_size");
    for (unsigned role = 3; role <= 255; role++) {
        make(&sample, false);
        sample.fields.layout.paged.kv_role = (uint8_t)role;
        expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "kv_role");
    }
    for (uint32_t axis = 1; axis != 0; axis *= 2) {
        make(&sample, false);
        sample.fields.layout.paged.paged_axis = axis;
        expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "paged_axis");
    }
}

static void buffers_are_large_enough(void **state) {
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        Sample sample;
        make(&sample, wide);
        expect_tight(&sample.fields, sample.buffers, 3);
        sample.fields.layout.paged.num_seqs = UINT32_MAX;
        sample.buffers[2].byte_size = (UINT64_C(1) << 32) * (wide ? 8 : 4);
        expect_tight(&sample.fields, sample.buffers, 3);
    }
}

/* The pool belongs to the pages: however many tokens there are, and if nobody knows. */
static void the_pool_does_not_depend_on_tokens(void **state) {
    (void)state;
    static const uint64_t tokens[] = {0, 1, 20, 21, HURRAY_DYNAMIC};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        Sample sample;
        make(&sample, false);
        sample.shape[0] = tokens[i];
        expect_tight(&sample.fields, sample.buffers, 3);
    }
}

static void dynamic_or_empty_rows(void **state) {
    (void)state;
    for (uint32_t k = 1; k < 3; k++) {
        Sample sample;
        uint64_t size = 1;
        for (int empty = 0; empty < 2; empty++) {
            make(&sample, false);
            sample.shape[k] = empty ? 0 : HURRAY_DYNAMIC;
            sample.buffers[0].byte_size = 0;
            expect_tight(&sample.fields, sample.buffers, 3);
            expect_ok(hurray_descriptor_required_bytes(&sample.fields, 0, &size, NULL));
            assert_int_equal(size, 0);
            sample.fields.layout.paged.num_pages = UINT64_MAX / 4;
            expect_ok(hurray_descriptor_validate(&sample.fields));
            sample.fields.layout.paged.num_pages++;
            expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "num_pages");
        }
    }
}

static void sizes_do_not_wrap(void **state) {
    (void)state;
    Sample sample;
    make(&sample, false);
    sample.buffers[0].byte_size = UINT64_MAX;
    sample.fields.layout.paged.num_pages = UINT64_MAX / (4 * 2 * 8 * 2);
    expect_ok(hurray_descriptor_validate(&sample.fields));
    sample.fields.layout.paged.num_pages++; /* times 256 bytes: 2^64 */
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "num_pages");
    for (int bit = 57; bit < 64; bit++) {
        sample.fields.layout.paged.num_pages = UINT64_C(1) << bit;
        expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "num_pages");
    }
    make(&sample, false);
    sample.shape[0] = 0;
    sample.shape[1] = UINT64_MAX - 1;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "page_pool");
    sample.shape[1] = UINT64_C(1) << 59;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "page_pool");
}

static void rank_offset_and_shard(void **state) {
    (void)state;
    Sample sample;
    make(&sample, false);
    sample.fields.rank = 2;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "rank");
    make(&sample, false);
    sample.fields.byte_offset = 8;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "byte_offset");
    make(&sample, false);
    sample.fields.buffer_count = 2;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "buffer count");
    make(&sample, false);
    uint64_t zeros[3] = {0};
    HurrayShard shard = {sample.shape, zeros};
    sample.fields.shard = &shard;
    expect_invalid(HURRAY_ERR_INVALID_LAYOUT, &sample.fields, "shard");
}

static void every_field_makes_a_difference(void **state) {
    (void)state;
    for (int field = 0; field < 6; field++) {
        Sample a, b;
        make(&a, true);
        make(&b, true);
        assert_true(hurray_descriptor_equal(&a.fields, &b.fields));
        HurrayBlockPagedLayout *paged = &b.fields.layout.paged;
        switch (field) {
        case 0: paged->page_size = 3; break;
        case 1: paged->num_pages = 4; break;
        case 2: paged->num_seqs = 1; break;
        case 3: paged->kv_role = HURRAY_KV_KEY; break;
        case 4: paged->layer_index = 0; break;
        default: paged->wide_indices = false; break;
        }
        assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
        assert_true(hurray_descriptor_hash(&a.fields) != hurray_descriptor_hash(&b.fields));
        expect_round_trip(&b.fields, NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(fields_as_the_spec_lays_them_out),
        cmocka_unit_test(what_is_not_a_value_is_refused),
        cmocka_unit_test(buffers_are_large_enough),
        cmocka_unit_test(the_pool_does_not_depend_on_tokens),
        cmocka_unit_test(dynamic_or_empty_rows),
        cmocka_unit_test(sizes_do_not_wrap),
        cmocka_unit_test(rank_offset_and_shard),
        cmocka_unit_test(every_field_makes_a_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
