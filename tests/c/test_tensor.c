/* Tensors, their views and copies (src/tensor.c, include/hurray/tensor.h). */
#include "expect.h"

#include <pthread.h>
#include <stdatomic.h>

#include <hurray/address.h>
#include <hurray/tensor.h>

#include "random.h"

/* ---- making ---- */

typedef struct Owner {
    atomic_int released;
} Owner;

static void release_to_owner(void *data, void *context) {
    (void)data;
    atomic_fetch_add(&((Owner *)context)->released, 1);
}

static void *address(uintptr_t number) { return (void *)number; }

static HurrayTensor *const untouched = (HurrayTensor *)(uintptr_t)0x77;

static HurrayBuffer *make_buffer(HurrayBufferInfo info, Owner *owner) {
    HurrayBuffer *buffer = NULL;
    if (info.alignment == 0) info.alignment = 64;
    expect_ok(hurray_buffer_create(&info, owner == NULL ? NULL : release_to_owner, owner, &buffer));
    return buffer;
}

static HurrayDescriptorFields dense(uint8_t type_tag, uint32_t rank, const uint64_t *shape,
                                    uint64_t byte_offset, uint8_t layout, const int64_t *strides) {
    return (HurrayDescriptorFields){
        .type_tag = type_tag,
        .rank = rank,
        .shape = shape,
        .byte_offset = byte_offset,
        .layout = {layout, {strides}},
        .buffer_count = 1,
    };
}

/* A tensor over one buffer, which it takes over. */
static HurrayTensor *make_tensor(HurrayDescriptorFields fields, HurrayBuffer *buffer) {
    HurrayTensor *tensor = NULL;
    expect_ok(hurray_tensor_create(&fields, &buffer, &tensor));
    return tensor;
}

static _Alignas(64) uint8_t host[16384];

static void fill_host(uint64_t seed) {
    for (size_t i = 0; i < sizeof host; i++) host[i] = (uint8_t)random_u64(&seed);
}

static HurrayBufferInfo host_info(void) {
    return (HurrayBufferInfo){.data = host, .byte_size = sizeof host};
}

static const uint64_t three_by_four[2] = {3, 4};

static HurrayTensor *small_tensor(Owner *owner) {
    return make_tensor(
        dense(HURRAY_TYPE_FLOAT32, 2, three_by_four, 16, HURRAY_LAYOUT_ROW_MAJOR, NULL),
        make_buffer(host_info(), owner));
}

static void a_tensor_says_what_it_is_made_of(void **state) {
    (void)state;
    Owner owner = {0};
    uint64_t shape[2] = {3, 4};
    HurrayBuffer *buffer = make_buffer(host_info(), &owner);
    HurrayDescriptorFields fields =
        dense(HURRAY_TYPE_FLOAT32, 2, shape, 16, HURRAY_LAYOUT_ROW_MAJOR, NULL);
    HurrayBufferHandle lie = {.byte_size = 1, .alignment = 3};
    fields.buffers = &lie; /* ignored: the handles are those of the buffers */
    HurrayTensor *tensor = make_tensor(fields, buffer);
    memset(shape, 0xFF, sizeof shape); /* was copied */

    HurrayBufferHandle handle = hurray_buffer_handle(buffer);
    fields.shape = three_by_four;
    fields.buffers = &handle;
    assert_true(hurray_descriptor_equal(hurray_tensor_fields(tensor), &fields));
    assert_ptr_equal(hurray_tensor_buffer(tensor, 0), buffer);
    assert_null(hurray_tensor_buffer(tensor, 1));
    assert_int_equal(hurray_tensor_device(tensor).tag, HURRAY_DEVICE_CPU);
    assert_int_equal(hurray_tensor_strides(tensor)[0], 4);
    assert_int_equal(hurray_tensor_strides(tensor)[1], 1);
    assert_int_equal(hurray_tensor_count(tensor), 12);
    assert_false(hurray_tensor_is_read_only(tensor));
    assert_ptr_equal(hurray_tensor_data(tensor), host + 16);
    expect_ok(hurray_tensor_check_readable(tensor, false));

    assert_ptr_equal(hurray_tensor_retain(tensor), tensor);
    hurray_tensor_release(tensor);
    assert_int_equal(owner.released, 0);
    hurray_tensor_release(tensor);
    assert_int_equal(owner.released, 1);
}

static void of_null_nothing_is_said(void **state) {
    (void)state;
    assert_null(hurray_tensor_retain(NULL));
    hurray_tensor_release(NULL);
    assert_null(hurray_tensor_fields(NULL));
    assert_null(hurray_tensor_buffer(NULL, 0));
    assert_int_equal(hurray_tensor_device(NULL).tag, 0);
    assert_null(hurray_tensor_strides(NULL));
    assert_int_equal(hurray_tensor_count(NULL), 0);
    assert_false(hurray_tensor_is_read_only(NULL));
    assert_null(hurray_tensor_data(NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_check_readable(NULL, true));
    HurrayTensor *out = untouched;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_transpose(NULL, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_buffer_view(NULL, 0, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_reinterpret(NULL, 1, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_copy(NULL, NULL, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_unpack(NULL, host));
    assert_ptr_equal(out, untouched);
    HurrayTensor *tensor = small_tensor(NULL);
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_transpose(tensor, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_buffer_view(tensor, 0, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_reinterpret(tensor, 1, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_copy(tensor, NULL, NULL));
    hurray_tensor_release(tensor);
}

/* On failure the buffers are the caller's as before. */
static void refused_tensors_leave_the_buffers(void **state) {
    (void)state;
    Owner owner = {0};
    HurrayBuffer *buffer = make_buffer(host_info(), &owner), *two[2] = {buffer, buffer};
    HurrayDescriptorFields fields = dense(HURRAY_TYPE_FLOAT32, 2, three_by_four, sizeof host - 47,
                                          HURRAY_LAYOUT_ROW_MAJOR, NULL);
    HurrayTensor *out = untouched;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_tensor_create(&fields, &buffer, &out));
    fields.byte_offset = 0;
    fields.type_tag = 0x47;
    expect_failure(HURRAY_ERR_INVALID_TYPE, hurray_tensor_create(&fields, &buffer, &out));
    fields.type_tag = HURRAY_TYPE_FLOAT32;
    static const uint32_t counts[] = {0, 2, 256, UINT32_MAX};
    for (size_t i = 0; i < 4; i++) {
        fields.buffer_count = counts[i];
        expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_tensor_create(&fields, two, &out));
    }
    fields.buffer_count = 1;
    HurrayBuffer *none = NULL;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_create(&fields, &none, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_create(&fields, NULL, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_create(NULL, &buffer, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_create(&fields, &buffer, NULL));
    assert_ptr_equal(out, untouched);
    assert_int_equal(owner.released, 0);
    expect_ok(hurray_buffer_destroy(buffer));
    assert_int_equal(owner.released, 1);
}

/* ---- several buffers ---- */

static const uint64_t four_by_six[2] = {4, 6};
static const HurrayQuantization channels = {.scheme = HURRAY_SCHEME_PER_CHANNEL,
                                            .scale_type = HURRAY_TYPE_FLOAT32,
                                            .axis = 0,
                                            .scale_buffer = 1,
                                            .zero_point_buffer = HURRAY_NO_BUFFER};

static HurrayDescriptorFields quantized_fields(void) {
    HurrayDescriptorFields fields =
        dense(HURRAY_TYPE_INT8, 2, four_by_six, 0, HURRAY_LAYOUT_ROW_MAJOR, NULL);
    fields.buffer_count = 2;
    fields.quantization = &channels;
    return fields;
}

static void buffers_are_on_one_device(void **state) {
    (void)state;
    static const struct {
        HurrayDevice first, second;
        uint32_t first_flags, second_flags;
        HurrayStatus expected;
    } rows[] = {
        {{1, 0, 3}, {1, 0, 3}, 0, 0, HURRAY_OK},
        {{1, 0, 3}, {1, 0, 3}, HURRAY_BUFFER_READ_ONLY, 0, HURRAY_OK},
        {{1, 0, 3}, {1, 0, 4}, 0, 0, HURRAY_ERR_INVALID_LAYOUT},
        {{1, 0, 3}, {1, 2, 3}, 0, 0, HURRAY_ERR_INVALID_LAYOUT},
        {{1, 0, 3}, {2, 0, 3}, 0, 0, HURRAY_ERR_INVALID_LAYOUT},
        {{1, 0, 3}, {1, 0, 3}, HURRAY_BUFFER_STAGED_ON_HOST, 0, HURRAY_ERR_INVALID_ARGUMENT},
        {{1, 0, 3}, {1, 0, 3}, 0, HURRAY_BUFFER_STAGED_ON_HOST, HURRAY_ERR_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Owner owner = {0};
        HurrayBufferInfo info = {.data = host, .byte_size = 24, .device = rows[i].first};
        info.flags = rows[i].first_flags;
        HurrayBuffer *buffers[2] = {make_buffer(info, &owner), NULL};
        info = (HurrayBufferInfo){.data = host + 64, .byte_size = 16, .device = rows[i].second};
        info.flags = rows[i].second_flags;
        buffers[1] = make_buffer(info, &owner);
        HurrayDescriptorFields fields = quantized_fields();
        HurrayTensor *tensor = NULL;
        if (rows[i].expected == HURRAY_OK) {
            expect_ok(hurray_tensor_create(&fields, buffers, &tensor));
            assert_int_equal(hurray_tensor_is_read_only(tensor), rows[i].first_flags != 0);
            assert_int_equal(hurray_tensor_device(tensor).device_id, 3);
            assert_ptr_equal(hurray_tensor_buffer(tensor, 1), buffers[1]);
            hurray_tensor_release(tensor);
        } else {
            expect_failure(rows[i].expected, hurray_tensor_create(&fields, buffers, &tensor));
            assert_null(tensor);
            assert_int_equal(owner.released, 0);
            hurray_buffer_destroy(buffers[0]);
            hurray_buffer_destroy(buffers[1]);
        }
        assert_int_equal(owner.released, 2);
    }
}

static void any_read_only_buffer_makes_the_tensor_so(void **state) {
    (void)state;
    for (uint32_t which = 0; which < 4; which++) {
        HurrayBuffer *buffers[2];
        for (uint32_t i = 0; i < 2; i++) {
            HurrayBufferInfo info = {.data = host + 64 * i, .byte_size = i == 0 ? 24 : 16};
            info.flags = (which >> i & 1) != 0 ? HURRAY_BUFFER_READ_ONLY : 0;
            buffers[i] = make_buffer(info, NULL);
        }
        HurrayDescriptorFields fields = quantized_fields();
        HurrayTensor *tensor = NULL;
        expect_ok(hurray_tensor_create(&fields, buffers, &tensor));
        assert_int_equal(hurray_tensor_is_read_only(tensor), which != 0);
        hurray_tensor_release(tensor);
    }
}

/* ---- addresses and readability ---- */

/* byte_offset is added to addresses, never to handles; of an empty tensor there is nothing. */
static void data_is_the_address_of_the_first_element(void **state) {
    (void)state;
    for (uint8_t device = 0; device <= 8; device++) {
        for (int staged = 0; staged < 2; staged++) {
            if (staged != 0 && device == HURRAY_DEVICE_CPU) continue;
            HurrayBufferInfo info = {
                .data = host, .byte_size = 128, .device = {device, HURRAY_MEMORY_STANDARD, 0}};
            info.flags = staged != 0 ? HURRAY_BUFFER_STAGED_ON_HOST : 0;
            HurrayTensor *tensor = make_tensor(
                dense(HURRAY_TYPE_FLOAT32, 2, three_by_four, 80, HURRAY_LAYOUT_ROW_MAJOR, NULL),
                make_buffer(info, NULL));
            bool computed = staged != 0 || hurray_device_has_addresses(device);
            assert_ptr_equal(hurray_tensor_data(tensor), computed ? host + 80 : host);
            hurray_tensor_release(tensor);
        }
    }
    uint64_t empty[2] = {3, 0};
    HurrayTensor *tensor =
        make_tensor(dense(HURRAY_TYPE_FLOAT32, 2, empty, 80, HURRAY_LAYOUT_ROW_MAJOR, NULL),
                    make_buffer(host_info(), NULL));
    assert_null(hurray_tensor_data(tensor));
    assert_int_equal(hurray_tensor_count(tensor), 0);
    hurray_tensor_release(tensor);
}

static void only_synced_host_bytes_are_readable(void **state) {
    (void)state;
    for (uint32_t device = 0; device < 256; device++) {
        if (hurray_device_check_tag((uint8_t)device) != HURRAY_OK) continue;
        for (uint8_t sync = 0; sync < 3; sync++) {
            if (sync != 0 && device == HURRAY_DEVICE_CPU) continue;
            for (uint32_t staged = 0; staged < 2; staged++) {
                HurrayBufferInfo info = {.data = host,
                                         .byte_size = 64,
                                         .device = {(uint8_t)device, 0, 0},
                                         .sync_mode = sync};
                info.flags = staged != 0 ? HURRAY_BUFFER_STAGED_ON_HOST : 0;
                HurrayTensor *tensor = make_tensor(
                    dense(HURRAY_TYPE_FLOAT32, 2, three_by_four, 0, HURRAY_LAYOUT_ROW_MAJOR, NULL),
                    make_buffer(info, NULL));
                bool host_bytes = device == HURRAY_DEVICE_CPU || staged != 0;
                if (host_bytes && sync == 0) {
                    expect_ok(hurray_tensor_check_readable(tensor, true));
                } else {
                    expect_failure(HURRAY_ERR_UNSUPPORTED,
                                   hurray_tensor_check_readable(tensor, true));
                    HurrayTensor *out = untouched;
                    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_tensor_copy(tensor, NULL, &out));
                    assert_ptr_equal(out, untouched);
                }
                if (host_bytes && sync == 0 && staged == 0) {
                    expect_ok(hurray_tensor_check_readable(tensor, false));
                } else {
                    expect_failure(HURRAY_ERR_UNSUPPORTED,
                                   hurray_tensor_check_readable(tensor, false));
                }
                hurray_tensor_release(tensor);
            }
        }
    }
}

static void dynamic_tensors_have_no_count(void **state) {
    (void)state;
    uint64_t shape[2] = {HURRAY_DYNAMIC, 4};
    int64_t strides[2] = {4, 1};
    uint8_t values[8];
    static const uint8_t types[] = {HURRAY_TYPE_UINT8, HURRAY_TYPE_FLOAT32, HURRAY_TYPE_INT4,
                                    HURRAY_TYPE_BOOL};
    for (size_t i = 0; i < sizeof types; i++) {
        for (uint8_t layout = HURRAY_LAYOUT_ROW_MAJOR; layout <= HURRAY_LAYOUT_STRIDED; layout++) {
            bool strided = layout == HURRAY_LAYOUT_STRIDED;
            HurrayTensor *tensor =
                make_tensor(dense(types[i], 2, shape, 0, layout, strided ? strides : NULL),
                            make_buffer(host_info(), NULL));
            assert_true(hurray_tensor_count(tensor) == UINT64_MAX);
            if (!strided) assert_null(hurray_tensor_strides(tensor));
            HurrayTensor *out = untouched;
            expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_tensor_copy(tensor, NULL, &out));
            expect_message("dynamic");
            if (types[i] == HURRAY_TYPE_INT4 || types[i] == HURRAY_TYPE_BOOL) {
                expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_tensor_unpack(tensor, values));
            }
            assert_ptr_equal(out, untouched);
            hurray_tensor_release(tensor);
        }
    }
}

/* ---- views ---- */

/* Element by element: t.T[j, i] is where t[i, j] is; and t.T.T is t. */
static void transposes_exchange_indices(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 300; round++) {
        uint64_t shape[2] = {1 + random_below(&seed, 5), 1 + random_below(&seed, 5)};
        int64_t strides[2] = {random_between(&seed, -7, 7), random_between(&seed, -7, 7)};
        uint8_t layout = (uint8_t)(1 + round % 3);
        Owner owner = {0};
        HurrayTensor *tensor = make_tensor(
            dense(HURRAY_TYPE_FLOAT16, 2, shape, 1000, layout, layout == 3 ? strides : NULL),
            make_buffer(host_info(), &owner));
        HurrayTensor *transposed = NULL, *back = NULL;
        expect_ok(hurray_tensor_transpose(tensor, &transposed));
        expect_ok(hurray_tensor_transpose(transposed, &back));
        const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
        const HurrayDescriptorFields *view = hurray_tensor_fields(transposed);
        assert_true(hurray_descriptor_equal(fields, hurray_tensor_fields(back)));
        assert_ptr_equal(hurray_tensor_data(transposed), hurray_tensor_data(tensor));
        assert_ptr_equal(hurray_tensor_buffer(transposed, 0), hurray_tensor_buffer(tensor, 0));
        for (uint64_t i = 0; i < shape[0]; i++) {
            for (uint64_t j = 0; j < shape[1]; j++) {
                int64_t here = -1, there = -2;
                expect_ok(hurray_address_offset(fields, (uint64_t[2]){i, j}, &here));
                expect_ok(hurray_address_offset(view, (uint64_t[2]){j, i}, &there));
                assert_int_equal(here, there);
            }
        }
        hurray_tensor_release(tensor);
        hurray_tensor_release(back);
        assert_int_equal(owner.released, 0); /* the view keeps the buffer */
        hurray_tensor_release(transposed);
        assert_int_equal(owner.released, 1);
    }
}

static void what_is_not_transposed(void **state) {
    (void)state;
    HurrayTensor *out = untouched;
    uint64_t shape[3] = {1, 1, 1};
    for (uint32_t rank = 0; rank <= 3; rank++) {
        if (rank == 2) continue;
        HurrayTensor *tensor =
            make_tensor(dense(HURRAY_TYPE_INT8, rank, shape, 0, HURRAY_LAYOUT_ROW_MAJOR, NULL),
                        make_buffer(host_info(), NULL));
        expect_failure(HURRAY_ERR_INVALID_ARGUMENT, hurray_tensor_transpose(tensor, &out));
        hurray_tensor_release(tensor);
    }
    const uint64_t parent[2] = {9, 9}, offset[2] = {1, 2};
    const HurrayShard shard = {parent, offset};
    HurrayDescriptorFields fields =
        dense(HURRAY_TYPE_INT8, 2, three_by_four, 0, HURRAY_LAYOUT_ROW_MAJOR, NULL);
    fields.shard = &shard;
    HurrayTensor *tensor = make_tensor(fields, make_buffer(host_info(), NULL));
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_tensor_transpose(tensor, &out));
    expect_message("shard");
    hurray_tensor_release(tensor);

    const HurrayQuantization scale = {
        .scheme = HURRAY_SCHEME_PER_TENSOR, .scale = 0.5f, .zero_point = 3};
    fields.shard = NULL;
    fields.quantization = &scale;
    tensor = make_tensor(fields, make_buffer(host_info(), NULL));
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_tensor_transpose(tensor, &out));
    expect_message("quantization");
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_tensor_reinterpret(tensor, 0x11, &out));
    hurray_tensor_release(tensor);

    const uint64_t tile_shape[2] = {2, 2};
    const HurrayTileLevel level = {tile_shape, HURRAY_LAYOUT_ROW_MAJOR, HURRAY_LAYOUT_ROW_MAJOR,
                                   NULL, NULL};
    fields.quantization = NULL;
    fields.layout = (HurrayLayout){HURRAY_LAYOUT_TILED, {.tiled = {1, &level}}};
    tensor = make_tensor(fields, make_buffer(host_info(), NULL));
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_tensor_transpose(tensor, &out));
    expect_message("layout tiled");
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_tensor_copy(tensor, NULL, &out));
    expect_message("strides");
    hurray_tensor_release(tensor);
    assert_ptr_equal(out, untouched);
}

static void buffer_views_are_the_bytes(void **state) {
    (void)state;
    Owner owner = {0};
    HurrayBufferInfo infos[2] = {{.data = host, .byte_size = 24},
                                 {.data = host + 64, .byte_size = 16}};
    HurrayBuffer *buffers[2] = {make_buffer(infos[0], &owner), make_buffer(infos[1], &owner)};
    HurrayDescriptorFields fields = quantized_fields();
    HurrayTensor *tensor = NULL, *views[2] = {NULL, NULL}, *out = untouched;
    expect_ok(hurray_tensor_create(&fields, buffers, &tensor));
    for (uint32_t i = 0; i < 2; i++) {
        expect_ok(hurray_tensor_buffer_view(tensor, i, &views[i]));
        const HurrayDescriptorFields *view = hurray_tensor_fields(views[i]);
        assert_int_equal(view->type_tag, HURRAY_TYPE_UINT8);
        assert_int_equal(view->rank, 1);
        assert_true(view->shape[0] == infos[i].byte_size);
        assert_int_equal(view->layout.tag, HURRAY_LAYOUT_ROW_MAJOR);
        assert_int_equal(view->byte_offset, 0);
        assert_null(view->quantization);
        assert_ptr_equal(hurray_tensor_data(views[i]), infos[i].data);
        assert_ptr_equal(hurray_tensor_buffer(views[i], 0), buffers[i]);
    }
    expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, hurray_tensor_buffer_view(tensor, 2, &out));
    expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                   hurray_tensor_buffer_view(tensor, UINT32_MAX, &out));
    assert_ptr_equal(out, untouched);
    hurray_tensor_release(tensor);
    assert_int_equal(owner.released, 0);
    hurray_tensor_release(views[0]);
    assert_int_equal(owner.released, 1); /* each view keeps its buffer, not all of them */
    hurray_tensor_release(views[1]);
    assert_int_equal(owner.released, 2);
}

static void the_view_of_an_empty_buffer(void **state) {
    (void)state;
    uint64_t empty[1] = {0};
    HurrayBufferInfo info = {.alignment = 1};
    HurrayTensor *view = NULL, *tensor = make_tensor(dense(HURRAY_TYPE_FLOAT64, 1, empty, 0,
                                                           HURRAY_LAYOUT_ROW_MAJOR, NULL),
                                                     make_buffer(info, NULL));
    expect_ok(hurray_tensor_buffer_view(tensor, 0, &view));
    assert_int_equal(hurray_tensor_count(view), 0);
    assert_null(hurray_tensor_data(view));
    hurray_tensor_release(view);
    hurray_tensor_release(tensor);
}

/* Between types of one width, and no others; private types are left alone. */
static void reinterpreting_changes_the_type_only(void **state) {
    (void)state;
    uint64_t shape[2] = {3, 4};
    int64_t strides[2] = {-8, 2};
    const HurrayElementType *from, *to;
    for (uint32_t i = 0; (from = hurray_element_type_at(i)) != NULL; i++) {
        Owner owner = {0};
        HurrayTensor *tensor =
            make_tensor(dense(from->tag, 2, shape, 1024, HURRAY_LAYOUT_STRIDED, strides),
                        make_buffer(host_info(), &owner));
        for (uint32_t k = 0; (to = hurray_element_type_at(k)) != NULL; k++) {
            HurrayTensor *view = untouched;
            if (from->bits != to->bits) {
                expect_failure(HURRAY_ERR_INVALID_ARGUMENT,
                               hurray_tensor_reinterpret(tensor, to->tag, &view));
                assert_ptr_equal(view, untouched);
                continue;
            }
            expect_ok(hurray_tensor_reinterpret(tensor, to->tag, &view));
            HurrayDescriptorFields expected = *hurray_tensor_fields(tensor);
            expected.type_tag = to->tag;
            assert_true(hurray_descriptor_equal(hurray_tensor_fields(view), &expected));
            assert_ptr_equal(hurray_tensor_data(view), hurray_tensor_data(tensor));
            hurray_tensor_release(view);
        }
        HurrayTensor *out = untouched;
        expect_failure(HURRAY_ERR_INVALID_TYPE, hurray_tensor_reinterpret(tensor, 0x47, &out));
        expect_failure(HURRAY_ERR_INVALID_TYPE, hurray_tensor_reinterpret(tensor, 0xF0, &out));
        assert_ptr_equal(out, untouched);
        hurray_tensor_release(tensor);
        assert_int_equal(owner.released, 1);
    }
    HurrayExtensionType extension = {.bit_width = 8, .packing_factor = 1};
    HurrayDescriptorFields fields = dense(0xF0, 2, shape, 0, HURRAY_LAYOUT_ROW_MAJOR, NULL);
    fields.extension_type = &extension;
    HurrayTensor *out = untouched, *tensor = make_tensor(fields, make_buffer(host_info(), NULL));
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_tensor_reinterpret(tensor, 0x11, &out));
    hurray_tensor_release(tensor);
}

/* ---- copies ---- */

/* The bits of the element at a place, lowest first, into `bytes`. */
static void read_element(const uint8_t *buffer, HurrayElementPlace place, uint32_t bits,
                         uint8_t bytes[16]) {
    memset(bytes, 0, 16);
    for (uint32_t i = 0; i < bits; i++) {
        uint64_t at = place.byte * 8 + place.bit + i;
        bytes[i / 8] |= (uint8_t)((buffer[at / 8] >> at % 8 & 1) << i % 8);
    }
}

static const uint8_t copied_types[] = {
    HURRAY_TYPE_BOOL,
    HURRAY_TYPE_UINT2,
    HURRAY_TYPE_INT2,
    HURRAY_TYPE_INT4,
    HURRAY_TYPE_UINT4,
    HURRAY_TYPE_FLOAT6_E2M3,
    HURRAY_TYPE_INT8,
    HURRAY_TYPE_FLOAT16,
    HURRAY_TYPE_FLOAT32,
    HURRAY_TYPE_FLOAT64,
    HURRAY_TYPE_FLOAT128,
    0xF5,
    0xF6,
};
#define COPIED_COUNT (sizeof copied_types)

/* 0xF5 is 24 bits wide, 0xF6 a signed integer of 4. */
static const HurrayExtensionType extension_24 = {.bit_width = 24, .packing_factor = 1};
static const HurrayExtensionType extension_4 = {
    .bit_width = 4, .packing_factor = 2, .is_signed = true};

static uint32_t set_type(HurrayDescriptorFields *fields, uint8_t tag) {
    fields->type_tag = tag;
    fields->extension_type = tag == 0xF5 ? &extension_24 : tag == 0xF6 ? &extension_4 : NULL;
    if (fields->extension_type != NULL) return fields->extension_type->bit_width;
    return hurray_element_type_from_tag(tag)->bits;
}

/* Calls with every index of the shape, row-major. */
static bool next_index(uint64_t *index, const uint64_t *shape, uint32_t rank) {
    for (uint32_t k = rank; k-- > 0;) {
        if (++index[k] < shape[k]) return true;
        index[k] = 0;
    }
    return false;
}

/* Each element of the copy has the bits of the one in the original, and the bits after the last
 * one are clear; unpacked, they are the values. */
static void expect_copied(const HurrayTensor *tensor, const HurrayTensor *copy, uint32_t bits) {
    const HurrayDescriptorFields *from = hurray_tensor_fields(tensor);
    const HurrayDescriptorFields *to = hurray_tensor_fields(copy);
    assert_int_equal(to->layout.tag, HURRAY_LAYOUT_ROW_MAJOR);
    assert_int_equal(to->type_tag, from->type_tag);
    assert_int_equal(to->rank, from->rank);
    assert_int_equal(to->byte_offset, 0);
    if (from->rank != 0) assert_memory_equal(to->shape, from->shape, from->rank * sizeof(uint64_t));
    if (hurray_tensor_count(tensor) == 0) return;
    const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(copy, 0));
    const uint8_t *source = hurray_buffer_info(hurray_tensor_buffer(tensor, 0))->data;
    const uint8_t *copied = info->data;

    uint8_t *values = bits < 8 ? malloc((size_t)hurray_tensor_count(tensor)) : NULL;
    if (bits < 8) expect_ok(hurray_tensor_unpack(tensor, values));
    uint64_t index[64] = {0}, n = 0;
    do {
        int64_t offset = 0;
        HurrayElementPlace place;
        uint8_t original[16], element[16];
        expect_ok(hurray_address_offset(from, index, &offset));
        expect_ok(hurray_address_place(from, offset, &place));
        read_element(source, place, bits, original);
        expect_ok(hurray_address_place(to, (int64_t)n, &place));
        read_element(copied, place, bits, element);
        assert_memory_equal(element, original, 16);
        if (values != NULL) {
            bool is_signed = from->type_tag == HURRAY_TYPE_INT4 ||
                             from->type_tag == HURRAY_TYPE_INT2 || from->type_tag == 0xF6;
            bool negative = is_signed && (original[0] >> (bits - 1)) != 0;
            uint8_t expected = (uint8_t)(original[0] | (negative ? 0xFF << bits : 0));
            assert_int_equal(values[n], expected);
        }
        n++;
    } while (next_index(index, from->shape, from->rank));
    assert_true(n == hurray_tensor_count(tensor));
    free(values);
    for (uint64_t at = n * bits; at < info->byte_size * 8; at++) {
        assert_int_equal(copied[at / 8] >> at % 8 & 1, 0);
    }
}

static void copies_have_the_same_elements(void **state) {
    (void)state;
    uint64_t seed = 8;
    fill_host(9);
    for (int round = 0; round < 4000; round++) {
        uint64_t shape[4];
        int64_t strides[4];
        uint8_t layout = (uint8_t)(1 + random_below(&seed, 3));
        uint32_t rank =
            (layout == HURRAY_LAYOUT_ROW_MAJOR ? 0 : 1) + (uint32_t)random_below(&seed, 4);
        for (uint32_t k = 0; k < rank; k++) {
            shape[k] =
                random_below(&seed, 8) == 0 ? random_below(&seed, 2) : 1 + random_below(&seed, 5);
            strides[k] = random_between(&seed, -9, 9); /* negative, broadcast, overlapping */
        }
        HurrayDescriptorFields fields =
            dense(0, rank, shape, 0, layout, layout == HURRAY_LAYOUT_STRIDED ? strides : NULL);
        uint32_t bits = set_type(&fields, copied_types[random_below(&seed, COPIED_COUNT)]);
        fields.byte_offset = layout == HURRAY_LAYOUT_STRIDED ? 2000 : random_below(&seed, 50);
        HurrayStatistics statistics = {.computed_mask = HURRAY_STATISTICS_NNZ, .nnz = 3};
        HurrayCompositeMember member = {HURRAY_ROLE_BASE};
        if (round % 2 == 0) {
            fields.statistics = &statistics;
            fields.member = &member;
        }
        HurrayTensor *tensor = make_tensor(fields, make_buffer(host_info(), NULL)), *copy = NULL;
        expect_ok(hurray_tensor_copy(tensor, NULL, &copy));
        expect_copied(tensor, copy, bits);
        const HurrayDescriptorFields *copied = hurray_tensor_fields(copy);
        assert_int_equal(copied->statistics != NULL, round % 2 == 0);
        assert_int_equal(copied->member != NULL, round % 2 == 0);
        hurray_tensor_release(copy);
        hurray_tensor_release(tensor);
    }
}

/* Through the caller's allocator; of staged bytes as of others, and then on the CPU. */
static void *allocate_one(size_t size, size_t alignment, bool zeroed, void *context) {
    ++*(int *)context;
    return hurray_aligned_alloc(size, alignment, zeroed);
}

static void release_one(void *data, size_t size, void *context) {
    (void)size;
    ++*(int *)context;
    hurray_aligned_free(data);
}

static void copies_are_on_the_cpu_and_writable(void **state) {
    (void)state;
    int calls = 0;
    HurrayAllocator allocator = {allocate_one, release_one, &calls};
    HurrayBufferInfo info = host_info();
    info.device = (HurrayDevice){HURRAY_DEVICE_METAL, HURRAY_MEMORY_UNIFIED, 2};
    info.flags = HURRAY_BUFFER_STAGED_ON_HOST | HURRAY_BUFFER_READ_ONLY;
    HurrayTensor *copy = NULL, *tensor = make_tensor(dense(HURRAY_TYPE_FLOAT32, 2, three_by_four, 8,
                                                           HURRAY_LAYOUT_COL_MAJOR, NULL),
                                                     make_buffer(info, NULL));
    expect_ok(hurray_tensor_copy(tensor, &allocator, &copy));
    assert_int_equal(calls, 1);
    expect_copied(tensor, copy, 32);
    HurrayDevice device = hurray_tensor_device(copy);
    assert_true(device.tag == HURRAY_DEVICE_CPU && device.memory_class == 0);
    assert_int_equal(device.device_id, 0);
    assert_false(hurray_tensor_is_read_only(copy));
    expect_ok(hurray_tensor_check_readable(copy, false));
    hurray_tensor_release(copy);
    hurray_tensor_release(tensor);
    assert_int_equal(calls, 2);
}

static void what_is_not_copied_or_unpacked(void **state) {
    (void)state;
    HurrayTensor *out = untouched, *tensor = small_tensor(NULL);
    uint8_t values[12];
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_tensor_unpack(tensor, values));
    hurray_tensor_release(tensor);
    HurrayDescriptorFields fields =
        dense(HURRAY_TYPE_INT4, 2, three_by_four, 0, HURRAY_LAYOUT_COL_MAJOR, NULL);
    tensor = make_tensor(fields, make_buffer(host_info(), NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_unpack(tensor, NULL));
    hurray_tensor_release(tensor);
    const HurrayQuantization scale = {
        .scheme = HURRAY_SCHEME_PER_TENSOR, .scale = 0.5f, .zero_point = 3};
    fields.quantization = &scale;
    tensor = make_tensor(fields, make_buffer(host_info(), NULL));
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_tensor_copy(tensor, NULL, &out));
    assert_ptr_equal(out, untouched);
    hurray_tensor_release(tensor);
    /* Of a device, not a byte is read. */
    HurrayBufferInfo info = {
        .data = address(0x1000), .byte_size = 64, .device = {HURRAY_DEVICE_CUDA, 0, 0}};
    fields.quantization = NULL;
    tensor = make_tensor(fields, make_buffer(info, NULL));
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_tensor_unpack(tensor, values));
    hurray_tensor_release(tensor);
    /* Nothing is written for nothing. */
    uint64_t empty[2] = {0, 5};
    tensor = make_tensor(dense(HURRAY_TYPE_INT4, 2, empty, 0, HURRAY_LAYOUT_ROW_MAJOR, NULL),
                         make_buffer(host_info(), NULL));
    expect_ok(hurray_tensor_unpack(tensor, NULL));
    hurray_tensor_release(tensor);
}

/* ---- threads ---- */

#define THREADS 4

static void *view_and_drop(void *tensor) {
    for (int i = 0; i < 3000; i++) {
        HurrayTensor *view = NULL;
        if (hurray_tensor_transpose(tensor, &view) != HURRAY_OK) return tensor;
        hurray_tensor_retain(tensor);
        hurray_tensor_release(view);
        hurray_tensor_release(tensor);
    }
    hurray_tensor_release(tensor);
    return NULL;
}

static void tensors_are_shared_by_threads(void **state) {
    (void)state;
    Owner owner = {0};
    HurrayTensor *tensor = small_tensor(&owner);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        hurray_tensor_retain(tensor);
        assert_int_equal(pthread_create(&threads[i], NULL, view_and_drop, tensor), 0);
    }
    hurray_tensor_release(tensor);
    for (int i = 0; i < THREADS; i++) {
        void *result = tensor;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
    assert_int_equal(owner.released, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_says_what_it_is_made_of),
        cmocka_unit_test(of_null_nothing_is_said),
        cmocka_unit_test(refused_tensors_leave_the_buffers),
        cmocka_unit_test(buffers_are_on_one_device),
        cmocka_unit_test(any_read_only_buffer_makes_the_tensor_so),
        cmocka_unit_test(data_is_the_address_of_the_first_element),
        cmocka_unit_test(only_synced_host_bytes_are_readable),
        cmocka_unit_test(dynamic_tensors_have_no_count),
        cmocka_unit_test(transposes_exchange_indices),
        cmocka_unit_test(what_is_not_transposed),
        cmocka_unit_test(buffer_views_are_the_bytes),
        cmocka_unit_test(the_view_of_an_empty_buffer),
        cmocka_unit_test(reinterpreting_changes_the_type_only),
        cmocka_unit_test(copies_have_the_same_elements),
        cmocka_unit_test(copies_are_on_the_cpu_and_writable),
        cmocka_unit_test(what_is_not_copied_or_unpacked),
        cmocka_unit_test(tensors_are_shared_by_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
