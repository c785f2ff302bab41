/*
 * Tensors to and from DLPack (src/dlpack.c, include/hurray/dlpack.h, spec 8.6). Device addresses are
 * numbers that nobody dereferences.
 */
#include "expect.h"

#include <pthread.h>
#include <stdatomic.h>

#include <hurray/dlpack.h>

#include "random.h"

static HurrayTensor *const untouched = (HurrayTensor *)(uintptr_t)0x77;
static _Alignas(4096) uint8_t host[4096];

static void *address(uintptr_t number) { return (void *)number; }

/* ---- the ABI ---- */

/* Offsets that other libraries were compiled with (64-bit hosts). */
static void the_structs_lie_as_others_have_them(void **state) {
    (void)state;
    assert_int_equal(sizeof(HurrayDLDevice), 8);
    assert_int_equal(sizeof(HurrayDLDataType), 4);
    assert_int_equal(offsetof(HurrayDLDataType, bits), 1);
    assert_int_equal(offsetof(HurrayDLDataType, lanes), 2);
    assert_int_equal(sizeof(HurrayDLPackVersion), 8);
    if (sizeof(void *) != 8) return;
    assert_int_equal(sizeof(HurrayDLTensor), 48);
    assert_int_equal(offsetof(HurrayDLTensor, data), 0);
    assert_int_equal(offsetof(HurrayDLTensor, device), 8);
    assert_int_equal(offsetof(HurrayDLTensor, ndim), 16);
    assert_int_equal(offsetof(HurrayDLTensor, dtype), 20);
    assert_int_equal(offsetof(HurrayDLTensor, shape), 24);
    assert_int_equal(offsetof(HurrayDLTensor, strides), 32);
    assert_int_equal(offsetof(HurrayDLTensor, byte_offset), 40);
    assert_int_equal(sizeof(HurrayDLManagedTensor), 64);
    assert_int_equal(offsetof(HurrayDLManagedTensor, manager_ctx), 48);
    assert_int_equal(offsetof(HurrayDLManagedTensor, deleter), 56);
    assert_int_equal(sizeof(HurrayDLManagedTensorVersioned), 80);
    assert_int_equal(offsetof(HurrayDLManagedTensorVersioned, manager_ctx), 8);
    assert_int_equal(offsetof(HurrayDLManagedTensorVersioned, deleter), 16);
    assert_int_equal(offsetof(HurrayDLManagedTensorVersioned, flags), 24);
    assert_int_equal(offsetof(HurrayDLManagedTensorVersioned, dl_tensor), 32);
    assert_int_equal(sizeof(HurrayDLPackExchangeAPIHeader), 16);
    assert_int_equal(sizeof(HurrayDLPackExchangeAPI), 56);
    assert_int_equal(offsetof(HurrayDLPackExchangeAPI, managed_tensor_allocator), 16);
    assert_int_equal(offsetof(HurrayDLPackExchangeAPI, current_work_stream), 48);
}

/* ---- element types ---- */

static const struct {
    uint8_t tag, code, bits;
    bool exported;
} types[] = {
    {HURRAY_TYPE_INT8, 0, 8, true},          {HURRAY_TYPE_INT16, 0, 16, true},
    {HURRAY_TYPE_INT32, 0, 32, true},        {HURRAY_TYPE_INT64, 0, 64, true},
    {HURRAY_TYPE_UINT8, 1, 8, true},         {HURRAY_TYPE_UINT16, 1, 16, true},
    {HURRAY_TYPE_UINT32, 1, 32, true},       {HURRAY_TYPE_UINT64, 1, 64, true},
    {HURRAY_TYPE_FLOAT16, 2, 16, true},      {HURRAY_TYPE_FLOAT32, 2, 32, true},
    {HURRAY_TYPE_FLOAT64, 2, 64, true},      {HURRAY_TYPE_BFLOAT16, 4, 16, true},
    {HURRAY_TYPE_COMPLEX64, 5, 64, true},    {HURRAY_TYPE_COMPLEX128, 5, 128, true},
    {HURRAY_TYPE_BOOL, 6, 8, false},         {HURRAY_TYPE_FLOAT8_E4M3, 10, 8, false},
    {HURRAY_TYPE_FLOAT8_E5M2, 12, 8, false}, {HURRAY_TYPE_FLOAT8_E8M0, 14, 8, false},
};
#define TYPE_COUNT (sizeof types / sizeof types[0])

static void every_type_tag(void **state) {
    (void)state;
    for (uint32_t tag = 0; tag < 256; tag++) {
        HurrayDLDataType dtype = {77, 77, 77};
        size_t i = 0;
        while (i < TYPE_COUNT && types[i].tag != tag) i++;
        if (i < TYPE_COUNT && types[i].exported) {
            expect_ok(hurray_element_type_to_dlpack((uint8_t)tag, &dtype));
            assert_int_equal(dtype.code, types[i].code);
            assert_int_equal(dtype.bits, types[i].bits);
            assert_int_equal(dtype.lanes, 1);
        } else {
            expect_failure(HURRAY_ERR_UNSUPPORTED,
                           hurray_element_type_to_dlpack((uint8_t)tag, &dtype));
            assert_int_equal(dtype.code, 77);
            const HurrayElementType *type = hurray_element_type_from_tag((uint8_t)tag);
            if (type != NULL) expect_message(type->name);
        }
    }
    HurrayDLDataType dtype;
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_element_type_to_dlpack(HURRAY_TYPE_BOOL, &dtype));
    expect_message("1 bit");
    expect_message("__array__");
    expect_message("__hurray__");
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_element_type_to_dlpack(3, NULL));
}

static void every_code_and_width(void **state) {
    (void)state;
    for (uint32_t code = 0; code < 256; code++) {
        for (uint32_t bits = 0; bits < 256; bits++) {
            HurrayDLDataType dtype = {(uint8_t)code, (uint8_t)bits, 1};
            uint8_t tag = 0x77;
            size_t i = 0;
            while (i < TYPE_COUNT && (types[i].code != code || types[i].bits != bits)) i++;
            if (i == TYPE_COUNT) {
                expect_failure(HURRAY_ERR_UNSUPPORTED,
                               hurray_element_type_from_dlpack(dtype, &tag));
                assert_int_equal(tag, 0x77);
                continue;
            }
            expect_ok(hurray_element_type_from_dlpack(dtype, &tag));
            assert_int_equal(tag, types[i].tag);
            static const uint16_t lanes[] = {0, 2, 4, 255, UINT16_MAX};
            for (size_t k = 0; k < 5; k++) {
                dtype.lanes = lanes[k];
                tag = 0x77;
                expect_failure(HURRAY_ERR_UNSUPPORTED,
                               hurray_element_type_from_dlpack(dtype, &tag));
                expect_message("lanes");
                assert_int_equal(tag, 0x77);
            }
        }
    }
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_element_type_from_dlpack((HurrayDLDataType){2, 32, 1}, NULL));
}

/* ---- export ---- */

typedef struct Owner {
    atomic_int released;
} Owner;

static void release_to_owner(void *data, void *context) {
    (void)data;
    atomic_fetch_add(&((Owner *)context)->released, 1);
}

/* A tensor over one buffer; `fields` lacks only the buffers. */
static HurrayTensor *make_tensor(HurrayDescriptorFields fields, HurrayBufferInfo info,
                                 Owner *owner) {
    HurrayBuffer *buffer = NULL;
    HurrayTensor *tensor = NULL;
    if (info.alignment == 0) info.alignment = 64;
    expect_ok(hurray_buffer_create(&info, owner == NULL ? NULL : release_to_owner, owner, &buffer));
    fields.buffer_count = 1;
    expect_ok(hurray_tensor_create(&fields, &buffer, &tensor));
    return tensor;
}

static const uint64_t three_by_four[2] = {3, 4};

static HurrayDescriptorFields three_by_four_floats(uint8_t layout, const int64_t *strides) {
    return (HurrayDescriptorFields){.type_tag = HURRAY_TYPE_FLOAT32,
                                    .rank = 2,
                                    .shape = three_by_four,
                                    .byte_offset = 128,
                                    .layout = {layout, {strides}}};
}

static HurrayBufferInfo host_info(void) {
    return (HurrayBufferInfo){.data = host, .byte_size = sizeof host};
}

static void expect_no_export(HurrayStatus expected, HurrayTensor *tensor) {
    HurrayDLManagedTensorVersioned *versioned = address(0x77);
    HurrayDLManagedTensor *legacy = address(0x77);
    HurrayDLTensor view = {.ndim = 77};
    expect_failure(expected, hurray_tensor_check_dlpack(tensor));
    expect_failure(expected, hurray_tensor_to_dlpack(tensor, 0, &versioned));
    expect_failure(expected, hurray_tensor_to_dlpack_legacy(tensor, &legacy));
    expect_failure(expected, hurray_tensor_view_dlpack(tensor, &view));
    assert_ptr_equal(versioned, address(0x77));
    assert_ptr_equal(legacy, address(0x77));
    assert_int_equal(view.ndim, 77);
}

static void expect_dl_tensor(const HurrayDLTensor *dl_tensor, const HurrayTensor *tensor) {
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    assert_int_equal(dl_tensor->ndim, fields->rank);
    for (uint32_t k = 0; k < fields->rank; k++) {
        assert_int_equal(dl_tensor->shape[k], fields->shape[k]);
        assert_int_equal(dl_tensor->strides[k], hurray_tensor_strides(tensor)[k]);
    }
    if (fields->rank == 0) assert_null(dl_tensor->strides);
    assert_ptr_equal(dl_tensor->data, hurray_tensor_data(tensor));
    assert_int_equal(dl_tensor->dtype.lanes, 1);
    int32_t device_type = 0;
    HurrayDevice device = hurray_tensor_device(tensor);
    expect_ok(hurray_device_to_dlpack(device, &device_type));
    assert_int_equal(dl_tensor->device.device_type, device_type);
    assert_int_equal(dl_tensor->device.device_id, device.device_id);
}

static void exports_hold_the_tensor_until_deleted(void **state) {
    (void)state;
    const int64_t strides[2] = {-4, 1};
    for (uint8_t layout = HURRAY_LAYOUT_ROW_MAJOR; layout <= HURRAY_LAYOUT_STRIDED; layout++) {
        Owner owner = {0};
        HurrayTensor *tensor = make_tensor(
            three_by_four_floats(layout, layout == 3 ? strides : NULL), host_info(), &owner);
        HurrayDLManagedTensorVersioned *versioned = NULL, *copied = NULL;
        HurrayDLManagedTensor *legacy = NULL;
        HurrayDLTensor view;
        expect_ok(hurray_tensor_check_dlpack(tensor));
        expect_ok(hurray_tensor_to_dlpack(tensor, 0, &versioned));
        expect_ok(hurray_tensor_to_dlpack(tensor, HURRAY_DL_FLAG_IS_COPIED, &copied));
        expect_ok(hurray_tensor_to_dlpack_legacy(tensor, &legacy));
        expect_ok(hurray_tensor_view_dlpack(tensor, &view));
        expect_dl_tensor(&versioned->dl_tensor, tensor);
        expect_dl_tensor(&legacy->dl_tensor, tensor);
        expect_dl_tensor(&view, tensor);
        assert_int_equal(view.byte_offset, 0);
        assert_int_equal(versioned->version.major, 1);
        assert_int_equal(versioned->version.minor, 3);
        assert_int_equal(versioned->flags, 0);
        assert_int_equal(copied->flags, HURRAY_DL_FLAG_IS_COPIED);
        /* A consumer that writes into shape and strides harms no one else. */
        versioned->dl_tensor.shape[0] = versioned->dl_tensor.strides[1] = -1;
        legacy->dl_tensor.shape[0] = legacy->dl_tensor.strides[1] = -1;
        expect_dl_tensor(&copied->dl_tensor, tensor);

        hurray_tensor_release(tensor);
        versioned->deleter(versioned);
        copied->deleter(copied);
        assert_int_equal(owner.released, 0);
        legacy->deleter(legacy);
        assert_int_equal(owner.released, 1);
    }
}

static void scalars_and_empties(void **state) {
    (void)state;
    HurrayDescriptorFields fields = {.type_tag = HURRAY_TYPE_FLOAT64,
                                     .byte_offset = 64,
                                     .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}}};
    HurrayTensor *tensor = make_tensor(fields, host_info(), NULL);
    HurrayDLManagedTensorVersioned *managed = NULL;
    expect_ok(hurray_tensor_to_dlpack(tensor, 0, &managed));
    expect_dl_tensor(&managed->dl_tensor, tensor);
    assert_ptr_equal(managed->dl_tensor.data, host + 64);
    managed->deleter(managed);
    hurray_tensor_release(tensor);

    uint64_t empty[3] = {2, 0, 3};
    fields.rank = 3;
    fields.shape = empty;
    for (uint8_t device = 0; device <= 8; device++) {
        HurrayBufferInfo info = host_info();
        info.device.tag = device;
        tensor = make_tensor(fields, info, NULL);
        expect_ok(hurray_tensor_to_dlpack(tensor, 0, &managed));
        expect_dl_tensor(&managed->dl_tensor, tensor);
        assert_null(managed->dl_tensor.data);
        assert_int_equal(managed->dl_tensor.byte_offset, 0);
        assert_non_null(managed->dl_tensor.strides);
        managed->deleter(managed);
        hurray_tensor_release(tensor);
    }
}

/* All pairs of the table: those DLPack has a word for are exported, addresses with byte_offset in
 * them, handles beside it. */
static void exports_from_every_device(void **state) {
    (void)state;
    for (uint32_t device = 0; device < 256; device++) {
        for (uint32_t memory_class = 0; memory_class < 256; memory_class++) {
            HurrayDevice place = {(uint8_t)device, (uint8_t)memory_class, 5};
            if (hurray_device_check_pair(place.tag, place.memory_class) != HURRAY_OK) continue;
            HurrayBufferInfo info = {.data = host, .byte_size = 1000, .device = place};
            HurrayTensor *tensor =
                make_tensor(three_by_four_floats(HURRAY_LAYOUT_ROW_MAJOR, NULL), info, NULL);
            int32_t device_type = 0;
            HurrayDLTensor view;
            if (hurray_device_to_dlpack(place, &device_type) != HURRAY_OK) {
                expect_no_export(HURRAY_ERR_UNSUPPORTED, tensor);
            } else {
                bool addresses = hurray_device_has_addresses(place.tag);
                expect_ok(hurray_tensor_view_dlpack(tensor, &view));
                expect_dl_tensor(&view, tensor);
                assert_ptr_equal(view.data, addresses ? host + 128 : host);
                assert_int_equal(view.byte_offset, addresses ? 0 : 128);
            }
            hurray_tensor_release(tensor);
        }
    }
}

static void read_only_tensors_say_so_or_do_not_travel(void **state) {
    (void)state;
    HurrayBufferInfo info = host_info();
    info.flags = HURRAY_BUFFER_READ_ONLY;
    HurrayTensor *tensor =
        make_tensor(three_by_four_floats(HURRAY_LAYOUT_ROW_MAJOR, NULL), info, NULL);
    HurrayDLManagedTensorVersioned *versioned = NULL;
    HurrayDLManagedTensor *legacy = address(0x77);
    expect_ok(hurray_tensor_to_dlpack(tensor, HURRAY_DL_FLAG_IS_COPIED, &versioned));
    assert_int_equal(versioned->flags, HURRAY_DL_FLAG_IS_COPIED | HURRAY_DL_FLAG_READ_ONLY);
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_tensor_to_dlpack_legacy(tensor, &legacy));
    expect_message("read-only");
    assert_ptr_equal(legacy, address(0x77));
    versioned->deleter(versioned);
    hurray_tensor_release(tensor);
}

static void what_is_not_exported(void **state) {
    (void)state;
    HurrayDescriptorFields fields = three_by_four_floats(HURRAY_LAYOUT_ROW_MAJOR, NULL);
    /* Types. */
    const HurrayElementType *type;
    for (uint32_t i = 0; (type = hurray_element_type_at(i)) != NULL; i++) {
        HurrayDLDataType dtype;
        fields.type_tag = type->tag;
        HurrayTensor *tensor = make_tensor(fields, host_info(), NULL);
        if (hurray_element_type_to_dlpack(type->tag, &dtype) == HURRAY_OK) {
            expect_ok(hurray_tensor_check_dlpack(tensor));
        } else {
            expect_no_export(HURRAY_ERR_UNSUPPORTED, tensor);
        }
        hurray_tensor_release(tensor);
    }
    const HurrayExtensionType extension = {.bit_width = 32, .packing_factor = 1};
    fields.type_tag = 0xF0;
    fields.extension_type = &extension;
    HurrayTensor *tensor = make_tensor(fields, host_info(), NULL);
    expect_no_export(HURRAY_ERR_UNSUPPORTED, tensor);
    expect_message("private");
    hurray_tensor_release(tensor);

    /* Sections that change what the elements mean. */
    const HurrayQuantization scale = {
        .scheme = HURRAY_SCHEME_PER_TENSOR, .scale = 0.5f, .zero_point = 3};
    fields = three_by_four_floats(HURRAY_LAYOUT_ROW_MAJOR, NULL);
    fields.type_tag = HURRAY_TYPE_INT8;
    fields.quantization = &scale;
    tensor = make_tensor(fields, host_info(), NULL);
    expect_no_export(HURRAY_ERR_UNSUPPORTED, tensor);
    expect_message("quantized");
    hurray_tensor_release(tensor);

    /* Extents. */
    uint64_t shape[2] = {HURRAY_DYNAMIC, 4};
    const int64_t strides[2] = {4, 1};
    fields = three_by_four_floats(HURRAY_LAYOUT_STRIDED, strides);
    fields.shape = shape;
    tensor = make_tensor(fields, host_info(), NULL);
    expect_no_export(HURRAY_ERR_INVALID_LAYOUT, tensor);
    expect_message("dynamic");
    hurray_tensor_release(tensor);
    fields.layout = (HurrayLayout){HURRAY_LAYOUT_ROW_MAJOR, {NULL}};
    tensor = make_tensor(fields, host_info(), NULL);
    expect_no_export(HURRAY_ERR_INVALID_LAYOUT, tensor);
    hurray_tensor_release(tensor);
    shape[0] = (uint64_t)INT64_MAX + 1;
    shape[1] = 0;
    tensor = make_tensor(fields, host_info(), NULL);
    expect_no_export(HURRAY_ERR_INVALID_LAYOUT, tensor);
    hurray_tensor_release(tensor);
    shape[0] = INT64_MAX;
    tensor = make_tensor(fields, host_info(), NULL);
    expect_ok(hurray_tensor_check_dlpack(tensor));
    hurray_tensor_release(tensor);

    /* Layouts without strides. */
    const uint64_t tile_shape[2] = {2, 2};
    const HurrayTileLevel level = {tile_shape, HURRAY_LAYOUT_ROW_MAJOR, HURRAY_LAYOUT_ROW_MAJOR,
                                   NULL, NULL};
    fields = three_by_four_floats(HURRAY_LAYOUT_TILED, NULL);
    fields.layout.tiled = (HurrayTiledLayout){1, &level};
    tensor = make_tensor(fields, host_info(), NULL);
    expect_no_export(HURRAY_ERR_UNSUPPORTED, tensor);
    expect_message("layout tiled");
    hurray_tensor_release(tensor);

    /* Memory that is not what it says, or not ready. */
    fields = three_by_four_floats(HURRAY_LAYOUT_ROW_MAJOR, NULL);
    HurrayBufferInfo info = host_info();
    info.device.tag = HURRAY_DEVICE_CUDA;
    info.flags = HURRAY_BUFFER_STAGED_ON_HOST;
    tensor = make_tensor(fields, info, NULL);
    expect_no_export(HURRAY_ERR_UNSUPPORTED, tensor);
    expect_message("host memory");
    hurray_tensor_release(tensor);
    for (uint8_t sync = HURRAY_SYNC_EVENT; sync <= HURRAY_SYNC_CONSUMER_STREAM; sync++) {
        info.flags = 0;
        info.sync_mode = sync;
        tensor = make_tensor(fields, info, NULL);
        expect_no_export(HURRAY_ERR_UNSUPPORTED, tensor);
        expect_message(hurray_sync_mode_name(sync));
        hurray_tensor_release(tensor);
    }
    expect_no_export(HURRAY_ERR_NULL_POINTER, NULL);
    tensor = make_tensor(fields, host_info(), NULL);
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_view_dlpack(tensor, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_to_dlpack(tensor, 0, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_to_dlpack_legacy(tensor, NULL));
    hurray_tensor_release(tensor);
}

/* ---- import: a producer that counts its deletions ---- */

typedef struct Producer {
    HurrayDLManagedTensorVersioned versioned;
    HurrayDLManagedTensor legacy;
    int64_t shape[65], strides[65];
    int deleted;
} Producer;

static void delete_versioned(HurrayDLManagedTensorVersioned *self) {
    ((Producer *)self->manager_ctx)->deleted++;
}

static void delete_legacy(HurrayDLManagedTensor *self) {
    ((Producer *)self->manager_ctx)->deleted++;
}

/* [3, 4] float32 in host memory, row-major. */
static void make_producer(Producer *producer) {
    *producer = (Producer){.shape = {3, 4}, .strides = {4, 1}};
    for (int k = 2; k < 65; k++) producer->shape[k] = producer->strides[k] = 1;
    producer->versioned = (HurrayDLManagedTensorVersioned){
        .version = {1, 0},
        .manager_ctx = producer,
        .deleter = delete_versioned,
        .dl_tensor = {.data = host,
                      .device = {1, 0},
                      .ndim = 2,
                      .dtype = {HURRAY_DL_FLOAT, 32, 1},
                      .shape = producer->shape,
                      .strides = producer->strides},
    };
    producer->legacy.manager_ctx = producer;
    producer->legacy.deleter = delete_legacy;
}

/* Each test goes both ways, versioned and legacy. */
enum {
    VERSIONED,
    LEGACY,
    FORMS
};

static HurrayStatus take(Producer *producer, int form, HurrayCopy copy, HurrayTensor **out) {
    producer->deleted = 0;
    producer->legacy.dl_tensor = producer->versioned.dl_tensor;
    if (form == LEGACY) {
        return hurray_tensor_from_dlpack_legacy(&producer->legacy, copy, NULL, out);
    }
    return hurray_tensor_from_dlpack(&producer->versioned, copy, NULL, out);
}

static HurrayTensor *expect_taken(Producer *producer, int form, HurrayCopy copy) {
    HurrayTensor *tensor = NULL;
    expect_ok(take(producer, form, copy, &tensor));
    return tensor;
}

/* Refused however the copy is wished for, and still the producer's. */
static void expect_not_taken(HurrayStatus expected, Producer *producer) {
    for (int form = VERSIONED; form < FORMS; form++) {
        for (HurrayCopy copy = HURRAY_COPY_IF_NEEDED; copy <= HURRAY_COPY_ALWAYS; copy++) {
            HurrayTensor *out = untouched;
            expect_failure(expected, take(producer, form, copy, &out));
            assert_ptr_equal(out, untouched);
            assert_int_equal(producer->deleted, 0);
        }
    }
}

static void the_deleter_runs_once(void **state) {
    (void)state;
    for (int form = VERSIONED; form < FORMS; form++) {
        Producer producer;
        make_producer(&producer);
        HurrayTensor *tensor = expect_taken(&producer, form, HURRAY_COPY_NEVER);
        HurrayTensor *view = NULL;
        assert_ptr_equal(hurray_tensor_data(tensor), host);
        expect_ok(hurray_tensor_transpose(tensor, &view));
        hurray_tensor_release(tensor);
        assert_int_equal(producer.deleted, 0);
        hurray_tensor_release(view);
        assert_int_equal(producer.deleted, 1);

        tensor = expect_taken(&producer, form, HURRAY_COPY_ALWAYS);
        assert_int_equal(producer.deleted, 1); /* at once */
        assert_ptr_not_equal(hurray_tensor_data(tensor), host);
        hurray_tensor_release(tensor);
        assert_int_equal(producer.deleted, 1);

        /* A producer whose memory needs no deleter. */
        producer.versioned.deleter = NULL;
        producer.legacy.deleter = NULL;
        hurray_tensor_release(expect_taken(&producer, form, HURRAY_COPY_NEVER));
        hurray_tensor_release(expect_taken(&producer, form, HURRAY_COPY_ALWAYS));
        assert_int_equal(producer.deleted, 0);
    }
}

static void producers_that_break_the_rules(void **state) {
    (void)state;
    Producer producer;
    HurrayDLTensor *dl_tensor = &producer.versioned.dl_tensor;
    static const int32_t ranks[] = {-1, 65, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < 4; i++) {
        make_producer(&producer);
        dl_tensor->ndim = ranks[i];
        expect_not_taken(HURRAY_ERR_BAD_PRODUCER, &producer);
        expect_message("ndim");
    }
    static const int64_t extents[] = {-1, INT64_MIN};
    for (size_t i = 0; i < 4; i++) {
        make_producer(&producer);
        producer.shape[i / 2] = extents[i % 2];
        expect_not_taken(HURRAY_ERR_BAD_PRODUCER, &producer);
        expect_message("shape[");
    }
    make_producer(&producer);
    producer.shape[0] = -1; /* beside an extent of 0, too */
    producer.shape[1] = 0;
    expect_not_taken(HURRAY_ERR_BAD_PRODUCER, &producer);
    make_producer(&producer);
    dl_tensor->shape = NULL;
    expect_not_taken(HURRAY_ERR_BAD_PRODUCER, &producer);
    make_producer(&producer);
    dl_tensor->data = NULL;
    expect_not_taken(HURRAY_ERR_BAD_PRODUCER, &producer);
    expect_message("NULL");
    dl_tensor->byte_offset = 4096;
    expect_not_taken(HURRAY_ERR_BAD_PRODUCER, &producer);
    make_producer(&producer);
    dl_tensor->byte_offset = UINT64_MAX;
    expect_not_taken(HURRAY_ERR_BAD_PRODUCER, &producer);
    make_producer(&producer);
    producer.strides[0] = INT64_MAX;
    expect_not_taken(HURRAY_ERR_BAD_PRODUCER, &producer);
    make_producer(&producer);
    producer.strides[1] = INT64_MIN;
    expect_not_taken(HURRAY_ERR_BAD_PRODUCER, &producer);
    make_producer(&producer);
    producer.shape[0] = producer.shape[1] = INT64_MAX; /* count overflows */
    expect_not_taken(HURRAY_ERR_INVALID_LAYOUT, &producer);
    make_producer(&producer);
    dl_tensor->strides = NULL;
    producer.shape[0] = INT64_MAX;
    producer.shape[1] = 2; /* bytes overflow */
    expect_not_taken(HURRAY_ERR_BAD_PRODUCER, &producer);
    HurrayTensor *out = untouched;
    make_producer(&producer);
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_from_dlpack(NULL, 0, NULL, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_from_dlpack_legacy(NULL, 0, NULL, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, take(&producer, VERSIONED, 0, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, take(&producer, LEGACY, 0, NULL));
    assert_ptr_equal(out, untouched);
}

static void what_has_no_counterpart(void **state) {
    (void)state;
    Producer producer;
    HurrayDLTensor *dl_tensor = &producer.versioned.dl_tensor;
    static const HurrayDLDataType dtypes[] = {
        {HURRAY_DL_FLOAT, 32, 2},  {HURRAY_DL_FLOAT, 32, 0}, {3, 64, 1}, {7, 8, 1},
        {HURRAY_DL_FLOAT, 128, 1}, {HURRAY_DL_BOOL, 1, 1},   {17, 4, 1}, {255, 255, 1},
        {HURRAY_DL_INT, 4, 1},     {HURRAY_DL_UINT, 1, 1},   {11, 8, 1},
    };
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        make_producer(&producer);
        dl_tensor->dtype = dtypes[i];
        expect_not_taken(HURRAY_ERR_UNSUPPORTED, &producer);
        expect_message("DLPack type code");
    }
    static const int32_t devices[] = {0, 5, 6, 9, 12, 17, 18, -1, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        make_producer(&producer);
        dl_tensor->device.device_type = devices[i];
        expect_not_taken(HURRAY_ERR_UNSUPPORTED, &producer);
        expect_message("device type");
    }
    static const uint32_t majors[] = {0, 2, 3, UINT32_MAX};
    for (size_t i = 0; i < 4; i++) {
        make_producer(&producer);
        producer.versioned.version.major = majors[i];
        memset(dl_tensor, 0xFF, sizeof *dl_tensor); /* another version's struct: not looked at */
        HurrayTensor *out = untouched;
        expect_failure(HURRAY_ERR_VERSION_MISMATCH, take(&producer, VERSIONED, 0, &out));
        assert_ptr_equal(out, untouched);
        assert_int_equal(producer.deleted, 0);
    }
    make_producer(&producer);
    producer.versioned.version.minor = 99;
    hurray_tensor_release(expect_taken(&producer, VERSIONED, HURRAY_COPY_NEVER));
    assert_int_equal(producer.deleted, 1);
}

static void older_producers_leave_strides_out(void **state) {
    (void)state;
    for (int form = VERSIONED; form < FORMS; form++) {
        Producer producer;
        make_producer(&producer);
        producer.versioned.dl_tensor.strides = NULL;
        HurrayTensor *tensor = expect_taken(&producer, form, HURRAY_COPY_NEVER);
        assert_int_equal(hurray_tensor_fields(tensor)->layout.tag, HURRAY_LAYOUT_ROW_MAJOR);
        assert_int_equal(hurray_tensor_strides(tensor)[0], 4);
        hurray_tensor_release(tensor);
        producer.versioned.dl_tensor.ndim = 0;
        producer.versioned.dl_tensor.shape = NULL;
        tensor = expect_taken(&producer, form, HURRAY_COPY_NEVER);
        assert_int_equal(hurray_tensor_fields(tensor)->rank, 0);
        assert_int_equal(hurray_tensor_count(tensor), 1);
        hurray_tensor_release(tensor);
        make_producer(&producer);
        producer.versioned.dl_tensor.ndim = 64;
        tensor = expect_taken(&producer, form, HURRAY_COPY_NEVER);
        assert_int_equal(hurray_tensor_fields(tensor)->rank, 64);
        hurray_tensor_release(tensor);
    }
}

/* byte_offset counts in where the elements are; the alignment that matters is that of the lowest. */
static void misaligned_memory_is_copied_or_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof host; i++) host[i] = (uint8_t)(i * 7 + i / 256);
    for (int form = VERSIONED; form < FORMS; form++) {
        for (uint64_t offset = 0; offset < 128; offset++) {
            for (int backward = 0; backward < 2; backward++) {
                Producer producer;
                make_producer(&producer);
                producer.versioned.dl_tensor.byte_offset = offset + (backward ? 44 : 0);
                if (backward) producer.strides[0] = -4, producer.strides[1] = -1;
                uint32_t alignment = hurray_measured_alignment(host + offset);
                HurrayTensor *out = untouched;
                if (alignment >= 64) {
                    out = expect_taken(&producer, form, HURRAY_COPY_NEVER);
                    assert_ptr_equal(hurray_tensor_data(out), host + offset + (backward ? 44 : 0));
                    hurray_tensor_release(out);
                } else {
                    expect_failure(HURRAY_ERR_COPY_REQUIRED,
                                   take(&producer, form, HURRAY_COPY_NEVER, &out));
                    assert_ptr_equal(out, untouched);
                    assert_int_equal(producer.deleted, 0);
                    expect_message("byte aligned");
                    expect_message("64");
                }
                for (HurrayCopy copy = HURRAY_COPY_IF_NEEDED; copy <= HURRAY_COPY_ALWAYS;
                     copy += 2) {
                    HurrayTensor *tensor = expect_taken(&producer, form, copy);
                    bool shared = copy == HURRAY_COPY_IF_NEEDED && alignment >= 64;
                    assert_int_equal(producer.deleted, !shared);
                    const uint8_t *data = hurray_tensor_data(tensor);
                    const int64_t *strides = hurray_tensor_strides(tensor);
                    for (int64_t n = 0; n < 12; n++) {
                        int64_t from = backward ? 11 - n : n;
                        assert_memory_equal(data + 4 * (n / 4 * strides[0] + n % 4 * strides[1]),
                                            host + offset + 4 * (uint64_t)from, 4);
                    }
                    hurray_tensor_release(tensor);
                    assert_int_equal(producer.deleted, 1);
                }
            }
        }
    }
}

static void strides_of_every_kind_are_kept(void **state) {
    (void)state;
    static const int64_t kinds[][2] = {{4, 1}, {1, 3}, {8, 2}, {0, 1}, {0, 0}, {-4, 1}, {4, -1}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        for (int form = VERSIONED; form < FORMS; form++) {
            Producer producer;
            make_producer(&producer);
            memcpy(producer.strides, kinds[i], sizeof kinds[i]);
            int64_t lowest =
                (kinds[i][0] < 0 ? 2 * kinds[i][0] : 0) + (kinds[i][1] < 0 ? 3 * kinds[i][1] : 0);
            producer.versioned.dl_tensor.data = host + 1024 - 4 * lowest;
            HurrayTensor *tensor = expect_taken(&producer, form, HURRAY_COPY_NEVER);
            assert_int_equal(hurray_tensor_fields(tensor)->layout.tag,
                             i == 0 ? HURRAY_LAYOUT_ROW_MAJOR : HURRAY_LAYOUT_STRIDED);
            assert_memory_equal(hurray_tensor_strides(tensor), kinds[i], sizeof kinds[i]);
            assert_ptr_equal(hurray_tensor_data(tensor), host + 1024 - 4 * lowest);
            hurray_tensor_release(tensor);
        }
    }
}

/* Every device of the table, at addresses that are nowhere. */
static void devices_are_never_touched(void **state) {
    (void)state;
    for (int32_t number = 1; number <= 16; number++) {
        HurrayDevice device;
        if (number == 1 || hurray_device_from_dlpack(number, 4, &device) != HURRAY_OK) continue;
        for (uintptr_t k = 0; k < 130; k++) {
            for (int form = VERSIONED; form < FORMS; form++) {
                Producer producer;
                make_producer(&producer);
                HurrayDLTensor *dl_tensor = &producer.versioned.dl_tensor;
                dl_tensor->device = (HurrayDLDevice){number, 4};
                dl_tensor->data = address(0x1000 + k);
                dl_tensor->byte_offset = 12;
                HurrayTensor *out = untouched;
                expect_failure(HURRAY_ERR_UNSUPPORTED,
                               take(&producer, form, HURRAY_COPY_ALWAYS, &out));
                assert_int_equal(producer.deleted, 0);
                HurrayTensor *tensor = expect_taken(
                    &producer, form, k % 2 == 0 ? HURRAY_COPY_NEVER : HURRAY_COPY_IF_NEEDED);
                const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
                assert_int_equal(info->device.tag, device.tag);
                assert_int_equal(info->device.memory_class, device.memory_class);
                assert_int_equal(info->device.device_id, 4);
                uint64_t byte_offset = hurray_tensor_fields(tensor)->byte_offset;
                if (hurray_device_has_addresses(device.tag)) {
                    assert_int_equal((uintptr_t)info->data % 64, 0);
                    assert_true(byte_offset < 64);
                    assert_int_equal((uintptr_t)info->data + byte_offset, 0x1000 + k + 12);
                    assert_ptr_equal(hurray_tensor_data(tensor), address(0x1000 + k + 12));
                } else {
                    assert_ptr_equal(info->data, address(0x1000 + k));
                    assert_int_equal(byte_offset, 12);
                }
                assert_int_equal(info->byte_size, byte_offset + 48);
                assert_int_equal(producer.deleted, 0);

                /* And out again: the same memory. */
                HurrayDLTensor view;
                expect_ok(hurray_tensor_view_dlpack(tensor, &view));
                assert_int_equal(view.device.device_type, number);
                assert_int_equal(view.device.device_id, 4);
                assert_int_equal((uintptr_t)view.data + view.byte_offset, 0x1000 + k + 12);
                hurray_tensor_release(tensor);
                assert_int_equal(producer.deleted, 1);
            }
        }
    }
}

/* Behind a handle, elements before byte_offset are fine as far as it covers them. */
static void negative_strides_behind_handles(void **state) {
    (void)state;
    static const int32_t numbers[] = {4, 7, 8, 15};
    for (size_t i = 0; i < 4; i++) {
        for (uint64_t offset = 20; offset < 50; offset++) {
            Producer producer;
            make_producer(&producer);
            producer.versioned.dl_tensor.device.device_type = numbers[i];
            producer.versioned.dl_tensor.byte_offset = offset;
            producer.strides[0] = -4; /* two rows of 16 bytes before */
            HurrayTensor *out = untouched;
            if (offset < 32) {
                expect_failure(HURRAY_ERR_BAD_PRODUCER,
                               take(&producer, VERSIONED, HURRAY_COPY_NEVER, &out));
                assert_int_equal(producer.deleted, 0);
            } else {
                out = expect_taken(&producer, VERSIONED, HURRAY_COPY_NEVER);
                assert_int_equal(hurray_tensor_fields(out)->byte_offset, offset);
                hurray_tensor_release(out);
            }
        }
    }
}

static void flags_of_the_producer(void **state) {
    (void)state;
    Producer producer;
    make_producer(&producer);
    for (uint64_t flags = 0; flags < 8; flags++) {
        producer.versioned.flags = flags;
        bool read_only = (flags & HURRAY_DL_FLAG_READ_ONLY) != 0;
        HurrayTensor *tensor = expect_taken(&producer, VERSIONED, HURRAY_COPY_NEVER);
        assert_int_equal(hurray_tensor_is_read_only(tensor), read_only);
        HurrayDLManagedTensorVersioned *again = NULL;
        expect_ok(hurray_tensor_to_dlpack(tensor, 0, &again));
        assert_int_equal(again->flags, read_only ? HURRAY_DL_FLAG_READ_ONLY : 0);
        again->deleter(again);
        hurray_tensor_release(tensor);
        tensor = expect_taken(&producer, VERSIONED, HURRAY_COPY_ALWAYS);
        assert_false(hurray_tensor_is_read_only(tensor));
        hurray_tensor_release(tensor);
    }
}

static void bools_are_packed(void **state) {
    (void)state;
    static const uint8_t bytes[12] = {1, 0, 1, 1, 0, 0, 0, 0, 1, 2, 0, 255};
    memcpy(host, bytes, sizeof bytes);
    for (int form = VERSIONED; form < FORMS; form++) {
        Producer producer;
        make_producer(&producer);
        producer.versioned.dl_tensor.dtype = (HurrayDLDataType){HURRAY_DL_BOOL, 8, 1};
        HurrayTensor *out = untouched;
        expect_failure(HURRAY_ERR_COPY_REQUIRED, take(&producer, form, HURRAY_COPY_NEVER, &out));
        assert_ptr_equal(out, untouched);
        HurrayTensor *tensor = expect_taken(&producer, form, HURRAY_COPY_IF_NEEDED);
        assert_int_equal(producer.deleted, 1);
        assert_int_equal(hurray_tensor_fields(tensor)->type_tag, HURRAY_TYPE_BOOL);
        assert_int_equal(hurray_tensor_fields(tensor)->buffers[0].byte_size, 2);
        const uint8_t *packed = hurray_tensor_data(tensor);
        assert_int_equal(packed[0], 0x0D);
        assert_int_equal(packed[1], 0x0B);
        hurray_tensor_release(tensor);
        producer.versioned.dl_tensor.device.device_type = 2;
        expect_failure(HURRAY_ERR_UNSUPPORTED, take(&producer, form, HURRAY_COPY_IF_NEEDED, &out));
        assert_int_equal(producer.deleted, 0);
    }
}

static void empty_imports(void **state) {
    (void)state;
    for (int form = VERSIONED; form < FORMS; form++) {
        for (int data = 0; data < 2; data++) {
            for (HurrayCopy copy = HURRAY_COPY_IF_NEEDED; copy <= HURRAY_COPY_ALWAYS; copy++) {
                Producer producer;
                make_producer(&producer);
                producer.shape[1] = 0;
                producer.strides[0] = INT64_MIN;
                producer.versioned.dl_tensor.data = data ? host + 3 : NULL;
                HurrayTensor *tensor = expect_taken(&producer, form, copy);
                assert_int_equal(hurray_tensor_count(tensor), 0);
                assert_int_equal(hurray_tensor_fields(tensor)->layout.tag, HURRAY_LAYOUT_ROW_MAJOR);
                hurray_tensor_release(tensor);
                assert_int_equal(producer.deleted, 1);
            }
        }
    }
}

/* ---- there and back ---- */

/* What is exported and taken in again is the same tensor over the same memory. */
static void round_trips_share_everything(void **state) {
    (void)state;
    uint64_t seed = 13;
    for (int round = 0; round < 5000; round++) {
        uint64_t shape[4];
        int64_t strides[4], lowest = 0, highest = 0;
        uint32_t rank = (uint32_t)random_below(&seed, 5);
        for (uint32_t k = 0; k < rank; k++) {
            shape[k] = 1 + random_below(&seed, 3);
            strides[k] = random_between(&seed, -9, 9);
            int64_t reach = strides[k] * (int64_t)(shape[k] - 1);
            reach < 0 ? (lowest += reach) : (highest += reach);
        }
        size_t t = (size_t)random_below(&seed, 14);
        uint64_t bytes = types[t].bits / 8;
        Owner owner = {0};
        HurrayDescriptorFields fields = {
            .type_tag = types[t].tag,
            .rank = rank,
            .shape = shape,
            .byte_offset = 64 * random_below(&seed, 3) + (uint64_t)-lowest * bytes,
            .layout = {rank == 0 ? HURRAY_LAYOUT_ROW_MAJOR : HURRAY_LAYOUT_STRIDED, {strides}},
        };
        HurrayTensor *tensor = make_tensor(fields, host_info(), &owner), *back = NULL;
        int form = round % 2;
        if (form == VERSIONED) {
            HurrayDLManagedTensorVersioned *managed = NULL;
            expect_ok(hurray_tensor_to_dlpack(tensor, 0, &managed));
            expect_ok(hurray_tensor_from_dlpack(managed, HURRAY_COPY_NEVER, NULL, &back));
        } else {
            HurrayDLManagedTensor *managed = NULL;
            expect_ok(hurray_tensor_to_dlpack_legacy(tensor, &managed));
            expect_ok(hurray_tensor_from_dlpack_legacy(managed, HURRAY_COPY_NEVER, NULL, &back));
        }
        const HurrayDescriptorFields *there = hurray_tensor_fields(back);
        assert_int_equal(there->type_tag, types[t].tag);
        assert_int_equal(there->rank, rank);
        for (uint32_t k = 0; k < rank; k++) {
            assert_int_equal(there->shape[k], shape[k]);
            /* Packed tensors come back row-major, whose strides differ where they do not matter. */
            if (shape[k] != 1) assert_int_equal(hurray_tensor_strides(back)[k], strides[k]);
        }
        assert_ptr_equal(hurray_tensor_data(back), hurray_tensor_data(tensor));
        uint64_t end = (uint64_t)(highest - lowest + 1) * bytes;
        assert_int_equal(there->buffers[0].byte_size, end);
        hurray_tensor_release(tensor);
        assert_int_equal(owner.released, 0);
        hurray_tensor_release(back);
        assert_int_equal(owner.released, 1);
    }
}

/* Deleters may run on any thread. */
static void *delete_elsewhere(void *managed) {
    HurrayDLManagedTensorVersioned *self = managed;
    self->deleter(self);
    return NULL;
}

static void deleters_run_on_other_threads(void **state) {
    (void)state;
    Owner owner = {0};
    HurrayTensor *tensor =
        make_tensor(three_by_four_floats(HURRAY_LAYOUT_ROW_MAJOR, NULL), host_info(), &owner);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        HurrayDLManagedTensorVersioned *managed = NULL;
        expect_ok(hurray_tensor_to_dlpack(tensor, 0, &managed));
        assert_int_equal(pthread_create(&threads[i], NULL, delete_elsewhere, managed), 0);
    }
    hurray_tensor_release(tensor);
    for (int i = 0; i < 8; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(owner.released, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_structs_lie_as_others_have_them),
        cmocka_unit_test(every_type_tag),
        cmocka_unit_test(every_code_and_width),
        cmocka_unit_test(exports_hold_the_tensor_until_deleted),
        cmocka_unit_test(scalars_and_empties),
        cmocka_unit_test(exports_from_every_device),
        cmocka_unit_test(read_only_tensors_say_so_or_do_not_travel),
        cmocka_unit_test(what_is_not_exported),
        cmocka_unit_test(the_deleter_runs_once),
        cmocka_unit_test(producers_that_break_the_rules),
        cmocka_unit_test(what_has_no_counterpart),
        cmocka_unit_test(older_producers_leave_strides_out),
        cmocka_unit_test(misaligned_memory_is_copied_or_refused),
        cmocka_unit_test(strides_of_every_kind_are_kept),
        cmocka_unit_test(devices_are_never_touched),
        cmocka_unit_test(negative_strides_behind_handles),
        cmocka_unit_test(flags_of_the_producer),
        cmocka_unit_test(bools_are_packed),
        cmocka_unit_test(empty_imports),
        cmocka_unit_test(round_trips_share_everything),
        cmocka_unit_test(deleters_run_on_other_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
