/* Tensors over memory that others own (src/adopt.c, include/hurray/adopt.h, spec 8.5, 8.6). */
#include "expect.h"

#include <stdio.h>

#include <hurray/address.h>
#include <hurray/adopt.h>

#include "random.h"

/* ---- owners and calls ---- */

typedef struct Owner {
    int released;
    void *data;
} Owner;

static void release_to_owner(void *data, void *context) {
    Owner *owner = context;
    owner->released++;
    owner->data = data;
}

static HurrayTensor *const untouched = (HurrayTensor *)(uintptr_t)0x77;

static _Alignas(4096) uint8_t host[3 * 4096];

static void *address(uintptr_t number) { return (void *)number; }

/* One call of hurray_tensor_from_strided, with what is usual filled in. */
typedef struct Call {
    HurrayBufferInfo info;
    uint8_t type_tag;
    uint32_t rank;
    const uint64_t *shape;
    const int64_t *strides;
    HurrayCopy copy;
    const HurrayAllocator *allocator;
    Owner owner;
} Call;

static HurrayStatus adopt(Call *call, HurrayTensor **out) {
    call->owner = (Owner){0, NULL};
    return hurray_tensor_from_strided(&call->info, call->type_tag, call->rank, call->shape,
                                      call->strides, release_to_owner, &call->owner, call->copy,
                                      call->allocator, out);
}

static void expect_adoption_failure(HurrayStatus expected, Call *call) {
    HurrayTensor *out = untouched;
    expect_failure(expected, adopt(call, &out));
    assert_ptr_equal(out, untouched);
    assert_int_equal(call->owner.released, 0); /* still the caller's */
}

static HurrayTensor *expect_adopted(Call *call) {
    HurrayTensor *tensor = NULL;
    expect_ok(adopt(call, &tensor));
    return tensor;
}

static bool next_index(uint64_t *index, const uint64_t *shape, uint32_t rank) {
    for (uint32_t k = rank; k-- > 0;) {
        if (++index[k] < shape[k]) return true;
        index[k] = 0;
    }
    return false;
}

static bool is_row_major(const uint64_t *shape, const int64_t *strides, uint32_t rank) {
    int64_t expected = 1;
    for (uint32_t k = rank; k-- > 0;) {
        if (shape[k] != 1 && strides[k] != expected) return false;
        expected *= (int64_t)shape[k];
    }
    return true;
}

/* Where the tensor has the element, as an address. */
static uintptr_t place_of(const HurrayTensor *tensor, const uint64_t *index) {
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
    int64_t offset = 0;
    HurrayElementPlace place = {0, 0};
    expect_ok(hurray_address_offset(fields, index, &offset));
    expect_ok(hurray_address_place(fields, offset, &place));
    return (uintptr_t)info->data + (uintptr_t)place.byte;
}

/* ---- sharing ---- */

static const struct {
    uint8_t tag;
    uint32_t bytes;
} types[] = {
    {HURRAY_TYPE_UINT8, 1},   {HURRAY_TYPE_FLOAT8_E5M2, 1}, {HURRAY_TYPE_BFLOAT16, 2},
    {HURRAY_TYPE_FLOAT32, 4}, {HURRAY_TYPE_COMPLEX64, 8},   {HURRAY_TYPE_FLOAT128, 16},
};
#define TYPE_COUNT (sizeof types / sizeof types[0])

static const uint8_t devices_with_addresses[] = {HURRAY_DEVICE_CPU, HURRAY_DEVICE_CUDA,
                                                 HURRAY_DEVICE_ROCM, HURRAY_DEVICE_HEXAGON,
                                                 HURRAY_DEVICE_LEVEL_ZERO};

/*
 * Random strided memory at every misalignment, on the CPU and on devices: shared exactly when the
 * rule says so, and then every element stays where it was.
 */
static void shared_elements_stay_where_they_are(void **state) {
    (void)state;
    uint64_t seed = 10;
    int shared_on_cpu = 0, refused = 0;
    for (int round = 0; round < 30000; round++) {
        uint64_t shape[4], index[4] = {0};
        int64_t strides[4], lowest = 0;
        uint32_t rank = (uint32_t)random_below(&seed, 5);
        size_t type = (size_t)random_below(&seed, TYPE_COUNT);
        for (uint32_t k = 0; k < rank; k++) {
            shape[k] = 1 + random_below(&seed, 3);
            strides[k] = random_between(&seed, -8, 8);
            if (strides[k] < 0) lowest += strides[k] * (int64_t)(shape[k] - 1);
        }
        uint8_t device = devices_with_addresses[random_below(&seed, 5)];
        bool cpu = device == HURRAY_DEVICE_CPU;
        uintptr_t low = (cpu ? (uintptr_t)host : (uintptr_t)0x10000) +
                        (uintptr_t)(random_below(&seed, 2) == 0 ? 64 * random_below(&seed, 20)
                                                                : random_below(&seed, 1000));
        uintptr_t first = low - (uintptr_t)(lowest * (int64_t)types[type].bytes);
        Call call = {
            .info = {.data = (void *)first, .device = {device, HURRAY_MEMORY_STANDARD, 1}},
            .type_tag = types[type].tag,
            .rank = rank,
            .shape = shape,
            .strides = strides,
            .copy = HURRAY_COPY_NEVER,
        };
        if (cpu && low % 64 != 0) {
            expect_adoption_failure(HURRAY_ERR_COPY_REQUIRED, &call);
            char measured[32];
            snprintf(measured, sizeof measured, "%zu-byte aligned", (size_t)(low & (~low + 1)));
            expect_message(measured);
            refused++;
            continue;
        }
        shared_on_cpu += cpu;
        HurrayTensor *tensor = expect_adopted(&call);
        const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
        const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
        do {
            int64_t offset = 0;
            for (uint32_t k = 0; k < rank; k++) offset += (int64_t)index[k] * strides[k];
            assert_int_equal(place_of(tensor, index),
                             first + (uintptr_t)(offset * (int64_t)types[type].bytes));
        } while (next_index(index, shape, rank));
        assert_ptr_equal(hurray_tensor_data(tensor), (void *)first);
        bool packed = is_row_major(shape, strides, rank);
        assert_int_equal(fields->layout.tag,
                         packed ? HURRAY_LAYOUT_ROW_MAJOR : HURRAY_LAYOUT_STRIDED);
        /* The buffer begins at most 63 bytes before the elements, and on the CPU with them. */
        assert_int_equal((uintptr_t)info->data, cpu ? low : low - low % 64);
        assert_int_equal(info->alignment, hurray_measured_alignment(info->data));
        assert_int_equal(info->device.tag, device);
        assert_int_equal(info->device.device_id, 1);
        assert_int_equal(call.owner.released, 0);
        hurray_tensor_release(tensor);
        assert_int_equal(call.owner.released, 1);
    }
    assert_in_range(shared_on_cpu, 1000, 30000);
    assert_in_range(refused, 1000, 30000);
}

/* The buffer ends with the last element: not a byte more is claimed. */
static void the_buffer_ends_with_the_elements(void **state) {
    (void)state;
    uint64_t shape[2] = {3, 2};
    int64_t strides[2] = {-10, 3};
    Call call = {.info = {.data = host + 640},
                 .type_tag = HURRAY_TYPE_FLOAT64,
                 .rank = 2,
                 .shape = shape,
                 .strides = strides,
                 .copy = HURRAY_COPY_NEVER};
    call.info.data = host + 64 + 20 * 8;
    HurrayTensor *tensor = expect_adopted(&call);
    const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
    assert_ptr_equal(info->data, host + 64);
    assert_int_equal(hurray_tensor_fields(tensor)->byte_offset, 160);
    assert_int_equal(info->byte_size, 160 + 3 * 8 + 8);
    hurray_tensor_release(tensor);
    assert_ptr_equal(call.owner.data, host + 64);

    call.strides = NULL; /* row-major */
    call.info.data = host;
    tensor = expect_adopted(&call);
    info = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
    assert_int_equal(info->byte_size, 48);
    assert_int_equal(info->alignment, 4096);
    assert_int_equal(hurray_tensor_fields(tensor)->layout.tag, HURRAY_LAYOUT_ROW_MAJOR);
    hurray_tensor_release(tensor);
}

/* Flags and sync mode are carried; a copy is writable again. */
static void flags_and_sync_mode_are_carried(void **state) {
    (void)state;
    uint64_t shape[1] = {4};
    Call call = {.info = {.data = host, .flags = HURRAY_BUFFER_READ_ONLY},
                 .type_tag = HURRAY_TYPE_INT32,
                 .rank = 1,
                 .shape = shape};
    HurrayTensor *tensor = expect_adopted(&call);
    assert_true(hurray_tensor_is_read_only(tensor));
    hurray_tensor_release(tensor);
    call.copy = HURRAY_COPY_ALWAYS;
    tensor = expect_adopted(&call);
    assert_int_equal(call.owner.released, 1); /* the elements were copied: at once */
    assert_false(hurray_tensor_is_read_only(tensor));
    hurray_tensor_release(tensor);
    assert_int_equal(call.owner.released, 1);
    call.copy = HURRAY_COPY_NEVER;
    call.info.device.tag = HURRAY_DEVICE_CUDA;
    call.info.sync_mode = HURRAY_SYNC_CONSUMER_STREAM;
    tensor = expect_adopted(&call);
    assert_int_equal(hurray_tensor_fields(tensor)->buffers[0].sync_mode,
                     HURRAY_SYNC_CONSUMER_STREAM);
    hurray_tensor_release(tensor);
}

/* ---- copying ---- */

static void *counting_allocate(size_t size, size_t alignment, bool zeroed, void *context) {
    ++*(int *)context;
    return hurray_aligned_alloc(size, alignment, zeroed);
}

static void counting_release(void *data, size_t size, void *context) {
    (void)size;
    ++*(int *)context;
    hurray_aligned_free(data);
}

/* Misaligned, or asked for: then the copy is row-major, has the same elements, and the owner has
 * been told by the time it is there. */
static void copied_elements_are_the_same(void **state) {
    (void)state;
    uint64_t seed = 11;
    for (size_t i = 0; i < sizeof host; i++) host[i] = (uint8_t)random_u64(&seed);
    for (int round = 0; round < 10000; round++) {
        uint64_t shape[4], index[4] = {0}, n = 0;
        int64_t strides[4];
        uint32_t rank = (uint32_t)random_below(&seed, 5);
        size_t type = (size_t)random_below(&seed, TYPE_COUNT);
        for (uint32_t k = 0; k < rank; k++) {
            shape[k] = 1 + random_below(&seed, 3);
            strides[k] = random_between(&seed, -8, 8);
        }
        if (random_below(&seed, 4) == 0) hurray_shape_row_major_strides(shape, rank, strides);
        bool always = random_below(&seed, 2) == 0;
        uint8_t *first = host + 4096 + (always ? random_below(&seed, 64) * 64 : 0) + !always;
        int calls = 0;
        HurrayAllocator allocator = {counting_allocate, counting_release, &calls};
        Call call = {
            .info = {.data = first},
            .type_tag = types[type].tag,
            .rank = rank,
            .shape = shape,
            .strides = strides,
            .copy = always ? HURRAY_COPY_ALWAYS : HURRAY_COPY_IF_NEEDED,
            .allocator = &allocator,
        };
        if (!always) { /* make the lowest element, not the first one, the misaligned one */
            int64_t lowest = 0;
            for (uint32_t k = 0; k < rank; k++) {
                if (strides[k] < 0) lowest += strides[k] * (int64_t)(shape[k] - 1);
            }
            call.info.data = first = first - lowest * (int64_t)types[type].bytes;
        }
        HurrayTensor *tensor = expect_adopted(&call);
        assert_int_equal(call.owner.released, 1);
        assert_int_equal(calls, 1);
        const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
        assert_int_equal(fields->layout.tag, HURRAY_LAYOUT_ROW_MAJOR);
        const uint8_t *copied = hurray_tensor_data(tensor);
        assert_true(copied < host || copied >= host + sizeof host);
        do {
            int64_t offset = 0;
            for (uint32_t k = 0; k < rank; k++) offset += (int64_t)index[k] * strides[k];
            assert_memory_equal(copied + n * types[type].bytes,
                                first + offset * (int64_t)types[type].bytes, types[type].bytes);
            n++;
        } while (next_index(index, shape, rank));
        hurray_tensor_release(tensor);
        assert_int_equal(calls, 2);
        assert_int_equal(call.owner.released, 1);
    }
}

/* Elements that the format packs lie one per byte at the owner's; packing is a copy. */
static void sub_byte_elements_are_packed(void **state) {
    (void)state;
    static const uint8_t tags[] = {HURRAY_TYPE_BOOL, HURRAY_TYPE_UINT2, HURRAY_TYPE_INT4,
                                   HURRAY_TYPE_FLOAT6_E3M2};
    uint64_t seed = 12;
    for (int round = 0; round < 4000; round++) {
        uint64_t shape[2] = {1 + random_below(&seed, 6), 1 + random_below(&seed, 6)};
        int64_t strides[2] = {random_between(&seed, -20, 20), random_between(&seed, -20, 20)};
        size_t t = (size_t)random_below(&seed, 4);
        Call call = {.info = {.data = host + 4096},
                     .type_tag = tags[t],
                     .rank = 2,
                     .shape = shape,
                     .strides = strides,
                     .copy = HURRAY_COPY_NEVER};
        expect_adoption_failure(HURRAY_ERR_COPY_REQUIRED, &call);
        call.copy = round % 2 == 0 ? HURRAY_COPY_IF_NEEDED : HURRAY_COPY_ALWAYS;
        HurrayTensor *tensor = expect_adopted(&call);
        assert_int_equal(call.owner.released, 1);
        uint8_t values[36],
            mask = (uint8_t)((1u << hurray_element_type_from_tag(tags[t])->bits) - 1);
        expect_ok(hurray_tensor_unpack(tensor, values));
        for (uint64_t i = 0; i < shape[0] * shape[1]; i++) {
            uint8_t byte = host[4096 + (int64_t)(i / shape[1]) * strides[0] +
                                (int64_t)(i % shape[1]) * strides[1]];
            uint8_t expected = t == 0 ? byte != 0 : byte & mask;
            assert_int_equal(values[i] & mask, expected);
        }
        hurray_tensor_release(tensor);
        call.info.device.tag = HURRAY_DEVICE_CUDA;
        expect_adoption_failure(HURRAY_ERR_UNSUPPORTED, &call);
        call.copy = HURRAY_COPY_NEVER;
        expect_adoption_failure(HURRAY_ERR_COPY_REQUIRED, &call);
    }
}

/* Memory of other devices is never touched, so it is never copied: also not when asked to. */
static void device_memory_is_not_copied(void **state) {
    (void)state;
    uint64_t shape[1] = {4};
    for (uint32_t device = 1; device < 256; device++) {
        if (hurray_device_check_tag((uint8_t)device) != HURRAY_OK) continue;
        Call call = {.info = {.data = address(0x1000), .device = {(uint8_t)device, 0, 0}},
                     .type_tag = HURRAY_TYPE_INT32,
                     .rank = 1,
                     .shape = shape,
                     .copy = HURRAY_COPY_ALWAYS};
        expect_adoption_failure(HURRAY_ERR_UNSUPPORTED, &call);
        call.copy = HURRAY_COPY_IF_NEEDED;
        HurrayTensor *tensor = expect_adopted(&call);
        assert_ptr_equal(hurray_tensor_data(tensor), address(0x1000));
        hurray_tensor_release(tensor);
        assert_int_equal(call.owner.released, 1);
    }
}

/* A handle is passed on as it is, and nothing may lie before it. */
static void handles_are_not_computed_with(void **state) {
    (void)state;
    uint64_t shape[2] = {2, 3};
    int64_t strides[2] = {5, 1}, backward[2] = {-5, 1};
    static const uint8_t devices[] = {HURRAY_DEVICE_METAL, HURRAY_DEVICE_VULKAN,
                                      HURRAY_DEVICE_WEBGPU, HURRAY_DEVICE_OPENCL, 0xF7};
    for (size_t i = 0; i < sizeof devices; i++) {
        Call call = {.info = {.data = address(0x1003), .device = {devices[i], 0, 0}},
                     .type_tag = HURRAY_TYPE_INT32,
                     .rank = 2,
                     .shape = shape,
                     .strides = strides,
                     .copy = HURRAY_COPY_NEVER};
        HurrayTensor *tensor = expect_adopted(&call);
        const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
        assert_ptr_equal(info->data, address(0x1003));
        assert_int_equal(info->byte_size, 8 * 4);
        assert_int_equal(hurray_tensor_fields(tensor)->byte_offset, 0);
        hurray_tensor_release(tensor);
        assert_ptr_equal(call.owner.data, address(0x1003));
        call.strides = backward;
        expect_adoption_failure(HURRAY_ERR_BAD_PRODUCER, &call);
    }
}

/* ---- nothing in it ---- */

static void empty_tensors_need_no_memory(void **state) {
    (void)state;
    for (int data = 0; data < 2; data++) {
        for (HurrayCopy copy = HURRAY_COPY_IF_NEEDED; copy <= HURRAY_COPY_ALWAYS; copy++) {
            uint64_t shape[3] = {3, 0, UINT64_C(1) << 62};
            int64_t strides[3] = {INT64_MAX, -7, 1};
            Call call = {.info = {.data = data ? host + 1 : NULL},
                         .type_tag = HURRAY_TYPE_FLOAT64,
                         .rank = 3,
                         .shape = shape,
                         .strides = strides,
                         .copy = copy};
            HurrayTensor *tensor = expect_adopted(&call);
            const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
            assert_int_equal(fields->layout.tag, HURRAY_LAYOUT_ROW_MAJOR);
            assert_int_equal(fields->byte_offset, 0);
            assert_int_equal(fields->buffers[0].byte_size, 0);
            if (copy != HURRAY_COPY_ALWAYS) assert_int_equal(fields->buffers[0].alignment, 1);
            assert_null(hurray_tensor_data(tensor));
            hurray_tensor_release(tensor);
            assert_int_equal(call.owner.released, 1);
        }
    }
    /* Also of a type that is packed. */
    uint64_t none[1] = {0};
    Call call = {.type_tag = HURRAY_TYPE_BOOL, .rank = 1, .shape = none, .copy = HURRAY_COPY_NEVER};
    hurray_tensor_release(expect_adopted(&call));
    assert_int_equal(call.owner.released, 1);
}

/* ---- what is refused ---- */

static void what_breaks_the_contract(void **state) {
    (void)state;
    uint64_t shape[65] = {4, 4}, count_overflows[2] = {UINT64_C(1) << 63, 2};
    uint64_t dynamic[2] = {HURRAY_DYNAMIC, 2}, byte_overflows[2] = {UINT64_C(1) << 62, 2};
    for (int k = 2; k < 65; k++) shape[k] = 1;
    const Call good = {
        .info = {.data = host}, .type_tag = HURRAY_TYPE_FLOAT64, .rank = 2, .shape = shape};
    for (HurrayCopy copy = HURRAY_COPY_IF_NEEDED; copy <= HURRAY_COPY_ALWAYS; copy++) {
        Call call = good;
        call.copy = copy;
        call.info.data = NULL;
        expect_adoption_failure(HURRAY_ERR_BAD_PRODUCER, &call);
        expect_message("NULL");
        call = good;
        call.copy = copy;
        call.rank = 65;
        expect_adoption_failure(HURRAY_ERR_BAD_PRODUCER, &call);
        call.rank = UINT32_MAX;
        expect_adoption_failure(HURRAY_ERR_BAD_PRODUCER, &call);
        call = good;
        call.copy = copy;
        call.shape = NULL;
        expect_adoption_failure(HURRAY_ERR_NULL_POINTER, &call);
        call.shape = count_overflows;
        expect_adoption_failure(HURRAY_ERR_INVALID_LAYOUT, &call);
        call.shape = dynamic;
        expect_adoption_failure(HURRAY_ERR_INVALID_LAYOUT, &call);
        call.shape = byte_overflows;
        expect_adoption_failure(HURRAY_ERR_BAD_PRODUCER, &call);
        static const uint8_t tags[] = {0x00, 0x05, 0x47, 0x80, 0xF0, 0xFE, 0xFF};
        for (size_t i = 0; i < sizeof tags; i++) {
            call = good;
            call.copy = copy;
            call.type_tag = tags[i];
            expect_adoption_failure(HURRAY_ERR_INVALID_TYPE, &call);
        }
        /* Places where no memory is, whether it would be shared or copied. */
        static const HurrayDevice places[] = {{9, 0, 0},    {0xFF, 0, 0}, {0, 3, 0},   {5, 1, 0},
                                              {0, 0xF0, 0}, {1, 4, 0},    {0xF0, 1, 0}};
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            call = good;
            call.copy = copy;
            call.info.device = places[i];
            expect_adoption_failure(HURRAY_ERR_INVALID_TYPE, &call);
        }
        call = good;
        call.copy = copy;
        call.info.sync_mode = HURRAY_SYNC_EVENT;
        expect_adoption_failure(HURRAY_ERR_INVALID_SYNC_MODE, &call);
        call.info.sync_mode = 3;
        expect_adoption_failure(HURRAY_ERR_INVALID_SYNC_MODE, &call);
    }
    Call call = good;
    HurrayTensor *out = untouched;
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_tensor_from_strided(NULL, HURRAY_TYPE_INT8, 2, shape, NULL, NULL, NULL,
                                              HURRAY_COPY_NEVER, NULL, &out));
    assert_ptr_equal(out, untouched);
    expect_failure(HURRAY_ERR_NULL_POINTER, adopt(&call, NULL));
}

static void strides_that_leave_the_address_space(void **state) {
    (void)state;
    static const struct {
        uint64_t shape[2];
        int64_t strides[2];
        uintptr_t data;
    } rows[] = {
        {{2, 2}, {INT64_MAX, 0}, 0x1000},    {{2, 2}, {INT64_MIN, 0}, 0x1000},
        {{3, 2}, {INT64_MAX, 1}, 0x1000}, /* 2^64 − 1 elements after the first */
        {{3, 3}, {INT64_MAX, 1}, 0x1000},    {{2, 1}, {-0x1000 / 4, 0}, 0x1000}, /* down to NULL */
        {{2, 1}, {-0xFF0 / 4, 0}, 0x1000},                                       /* down to 0x10 */
        {{2, 1}, {-0x1001, 0}, 0x1000},                                          /* below */
        {{2, 1}, {2, 0}, UINTPTR_MAX - 0xB}, /* four bytes too far */
        {{1, 1}, {0, 0}, UINTPTR_MAX - 2},   {{1, 1}, {0, 0}, 0x3C},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (uint8_t device = 0; device < 2; device++) {
            for (HurrayCopy copy = HURRAY_COPY_IF_NEEDED; copy <= HURRAY_COPY_ALWAYS; copy++) {
                Call call = {.info = {.data = address(rows[i].data), .device = {device, 0, 0}},
                             .type_tag = HURRAY_TYPE_FLOAT32,
                             .rank = 2,
                             .shape = rows[i].shape,
                             .strides = rows[i].strides,
                             .copy = copy};
                expect_adoption_failure(HURRAY_ERR_BAD_PRODUCER, &call);
            }
        }
    }
    /* Strides of dimensions with one element are not looked at. */
    uint64_t shape[3] = {1, 4, 1};
    int64_t strides[3] = {INT64_MIN, 1, INT64_MAX};
    Call call = {.info = {.data = host},
                 .type_tag = HURRAY_TYPE_FLOAT32,
                 .rank = 3,
                 .shape = shape,
                 .strides = strides,
                 .copy = HURRAY_COPY_NEVER};
    HurrayTensor *tensor = expect_adopted(&call);
    assert_int_equal(hurray_tensor_fields(tensor)->layout.tag, HURRAY_LAYOUT_ROW_MAJOR);
    hurray_tensor_release(tensor);
}

/* Nobody needs to be told. */
static void owners_are_optional(void **state) {
    (void)state;
    HurrayBufferInfo info = {.data = host};
    uint64_t shape[1] = {4};
    for (HurrayCopy copy = HURRAY_COPY_IF_NEEDED; copy <= HURRAY_COPY_ALWAYS; copy++) {
        HurrayTensor *tensor = NULL;
        expect_ok(hurray_tensor_from_strided(&info, HURRAY_TYPE_INT8, 1, shape, NULL, NULL, NULL,
                                             copy, NULL, &tensor));
        hurray_tensor_release(tensor);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_elements_stay_where_they_are),
        cmocka_unit_test(the_buffer_ends_with_the_elements),
        cmocka_unit_test(flags_and_sync_mode_are_carried),
        cmocka_unit_test(copied_elements_are_the_same),
        cmocka_unit_test(sub_byte_elements_are_packed),
        cmocka_unit_test(device_memory_is_not_copied),
        cmocka_unit_test(handles_are_not_computed_with),
        cmocka_unit_test(empty_tensors_need_no_memory),
        cmocka_unit_test(what_breaks_the_contract),
        cmocka_unit_test(strides_that_leave_the_address_space),
        cmocka_unit_test(owners_are_optional),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
