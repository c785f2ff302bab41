/*
 * Every allocation in turn fails: an operation then says HURRAY_ERR_OUT_OF_MEMORY, leaves its
 * out-parameter alone, and leaves behind exactly the blocks that were there before.
 */
#include "failing.h"

#include <hurray/dlpack.h>
#include <hurray/print.h>
#include <hurray/tensor.h>

/* ---- the operations: what each makes, and how it is taken apart ---- */

static void *const untouched = (void *)(uintptr_t)0x77;

static _Alignas(64) uint8_t host[4096];
static const uint64_t shape[2] = {3, 4};
static int released; /* owners of memory that were told */

static void count_release(void *data, void *context) {
    (void)data, (void)context;
    released++;
}

static HurrayDescriptorFields dense(uint8_t type_tag, uint8_t layout) {
    return (HurrayDescriptorFields){.type_tag = type_tag,
                                    .rank = 2,
                                    .shape = shape,
                                    .layout = {layout, {NULL}},
                                    .buffer_count = 1};
}

static HurrayTensor *host_tensor(uint8_t type_tag, uint8_t layout) {
    HurrayBufferInfo info = {.data = host, .byte_size = sizeof host, .alignment = 64};
    HurrayBuffer *buffer = NULL;
    HurrayTensor *tensor = NULL;
    HurrayDescriptorFields fields = dense(type_tag, layout);
    expect_ok(hurray_buffer_create(&info, NULL, NULL, &buffer));
    expect_ok(hurray_tensor_create(&fields, &buffer, &tensor));
    return tensor;
}

static void destroy_descriptor(void *made) { expect_ok(hurray_descriptor_destroy(made)); }
static void destroy_buffer(void *made) { expect_ok(hurray_buffer_destroy(made)); }
static void destroy_tensor(void *made) { hurray_tensor_release(made); }
static void destroy_versioned(void *made) {
    HurrayDLManagedTensorVersioned *managed = made;
    managed->deleter(managed);
}
static void destroy_legacy(void *made) {
    HurrayDLManagedTensor *managed = made;
    managed->deleter(managed);
}

typedef HurrayStatus (*Operation)(void *input, void **out);

/* Calls a function whose last parameter is the address of a pointer to `type`. */
#define RESULT(type, ...)              \
    type *made = *out;                 \
    HurrayStatus status = __VA_ARGS__; \
    *out = made;                       \
    return status

static uint8_t encoded[256];
static uintptr_t encoded_length;

static HurrayStatus decode(void *input, void **out) {
    (void)input;
    RESULT(HurrayDescriptor, hurray_descriptor_decode(encoded, encoded_length, &made));
}
static HurrayStatus create_descriptor(void *input, void **out) {
    RESULT(HurrayDescriptor, hurray_descriptor_create(hurray_tensor_fields(input), &made));
}
static HurrayStatus create_buffer(void *input, void **out) {
    (void)input;
    HurrayBufferInfo info = {.data = host, .byte_size = 64, .alignment = 64};
    RESULT(HurrayBuffer, hurray_buffer_create(&info, count_release, NULL, &made));
}
static HurrayStatus allocate_buffer(void *input, void **out) {
    (void)input;
    RESULT(HurrayBuffer, hurray_buffer_allocate(5000, true, NULL, &made));
}
static HurrayStatus allocate_buffer_elsewhere(void *input, void **out) {
    (void)input;
    RESULT(HurrayBuffer, hurray_buffer_allocate(5000, false, hurray_default_allocator(), &made));
}
static HurrayStatus transpose(void *input, void **out) {
    RESULT(HurrayTensor, hurray_tensor_transpose(input, &made));
}
static HurrayStatus buffer_view(void *input, void **out) {
    RESULT(HurrayTensor, hurray_tensor_buffer_view(input, 0, &made));
}
static HurrayStatus reinterpret(void *input, void **out) {
    uint8_t tag = hurray_tensor_fields(input)->type_tag;
    RESULT(HurrayTensor, hurray_tensor_reinterpret(input, tag, &made));
}
static HurrayStatus copy(void *input, void **out) {
    RESULT(HurrayTensor, hurray_tensor_copy(input, NULL, &made));
}
static HurrayStatus export_versioned(void *input, void **out) {
    RESULT(HurrayDLManagedTensorVersioned, hurray_tensor_to_dlpack(input, 0, &made));
}
static HurrayStatus export_legacy(void *input, void **out) {
    RESULT(HurrayDLManagedTensor, hurray_tensor_to_dlpack_legacy(input, &made));
}

static HurrayStatus adopt(uint8_t type_tag, size_t misfit, HurrayCopy wish, void **out) {
    static const int64_t strides[2] = {9, 2};
    HurrayBufferInfo info = {.data = host + misfit};
    RESULT(HurrayTensor,
           hurray_tensor_from_strided(&info, type_tag, 2, shape, strides, count_release, NULL, wish,
                                      hurray_default_allocator(), &made));
}
static HurrayStatus adopt_shared(void *input, void **out) {
    (void)input;
    return adopt(HURRAY_TYPE_FLOAT32, 0, HURRAY_COPY_NEVER, out);
}
static HurrayStatus adopt_copied(void *input, void **out) {
    (void)input;
    return adopt(HURRAY_TYPE_FLOAT32, 4, HURRAY_COPY_IF_NEEDED, out);
}
static HurrayStatus adopt_packed(void *input, void **out) {
    (void)input;
    return adopt(HURRAY_TYPE_BOOL, 0, HURRAY_COPY_ALWAYS, out);
}

/* A foreign managed tensor, whose deleter counts. */
static void count_versioned(HurrayDLManagedTensorVersioned *self) {
    (void)self;
    released++;
}
static void count_legacy(HurrayDLManagedTensor *self) {
    (void)self;
    released++;
}
static int64_t dl_shape[2] = {3, 4};
static HurrayDLTensor foreign(size_t misfit) {
    return (HurrayDLTensor){.data = host + misfit,
                            .device = {1, 0},
                            .ndim = 2,
                            .dtype = {HURRAY_DL_FLOAT, 32, 1},
                            .shape = dl_shape};
}
static HurrayStatus import_versioned(void *input, void **out) {
    static HurrayDLManagedTensorVersioned managed;
    (void)input;
    managed = (HurrayDLManagedTensorVersioned){
        .version = {1, 0}, .deleter = count_versioned, .dl_tensor = foreign(0)};
    RESULT(HurrayTensor, hurray_tensor_from_dlpack(&managed, HURRAY_COPY_NEVER, NULL, &made));
}
static HurrayStatus import_copied(void *input, void **out) {
    static HurrayDLManagedTensorVersioned managed;
    (void)input;
    managed = (HurrayDLManagedTensorVersioned){
        .version = {1, 0}, .deleter = count_versioned, .dl_tensor = foreign(8)};
    RESULT(HurrayTensor, hurray_tensor_from_dlpack(&managed, HURRAY_COPY_IF_NEEDED, NULL, &made));
}
static HurrayStatus import_legacy(void *input, void **out) {
    static HurrayDLManagedTensor managed;
    (void)input;
    managed = (HurrayDLManagedTensor){.deleter = count_legacy, .dl_tensor = foreign(0)};
    RESULT(HurrayTensor,
           hurray_tensor_from_dlpack_legacy(&managed, HURRAY_COPY_NEVER, NULL, &made));
}

static const struct {
    const char *name;
    Operation operation;
    void (*destroy)(void *made);
    uint8_t type, layout; /* of the input */
    int least, most;      /* allocations there may be */
    int released;         /* owners told once it is made and destroyed */
} rows[] = {
    /* Decoding a dense descriptor allocates at most once (spec 7.4). */
    {"decode", decode, destroy_descriptor, 3, 1, 1, 1, 0},
    {"create descriptor", create_descriptor, destroy_descriptor, 3, 1, 1, 1, 0},
    {"create buffer", create_buffer, destroy_buffer, 3, 1, 1, 1, 1},
    {"allocate buffer", allocate_buffer, destroy_buffer, 3, 1, 2, 2, 0},
    {"allocate buffer elsewhere", allocate_buffer_elsewhere, destroy_buffer, 3, 1, 3, 3, 0},
    {"transpose", transpose, destroy_tensor, 3, 1, 1, 1, 0},
    {"buffer view", buffer_view, destroy_tensor, 3, 1, 1, 1, 0},
    {"reinterpret", reinterpret, destroy_tensor, 3, 1, 1, 1, 0},
    {"copy", copy, destroy_tensor, 3, 1, 3, 3, 0},
    {"copy columns", copy, destroy_tensor, 3, 2, 3, 4, 0},
    {"copy bits", copy, destroy_tensor, HURRAY_TYPE_BOOL, 2, 4, 6, 0},
    {"copy six-bit elements", copy, destroy_tensor, HURRAY_TYPE_FLOAT6_E2M3, 1, 3, 5, 0},
    {"export", export_versioned, destroy_versioned, 3, 1, 1, 1, 0},
    {"export legacy", export_legacy, destroy_legacy, 3, 1, 1, 1, 0},
    {"adopt", adopt_shared, destroy_tensor, 3, 1, 2, 2, 1},
    {"adopt by copy", adopt_copied, destroy_tensor, 3, 1, 4, 5, 1},
    {"adopt packed", adopt_packed, destroy_tensor, 3, 1, 4, 6, 1},
    {"import", import_versioned, destroy_tensor, 3, 1, 2, 2, 1},
    {"import by copy", import_copied, destroy_tensor, 3, 1, 3, 4, 1},
    {"import legacy", import_legacy, destroy_tensor, 3, 1, 2, 2, 1},
};
#define ROW_COUNT (sizeof rows / sizeof rows[0])

static void run(size_t row, void *input, int which, HurrayStatus *status, void **out) {
    calls = 0;
    failing = which;
    *out = untouched;
    *status = rows[row].operation(input, out);
    failing = -1;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    HurrayTensor *sample = host_tensor(HURRAY_TYPE_FLOAT32, HURRAY_LAYOUT_ROW_MAJOR);
    expect_ok(hurray_descriptor_encode(hurray_tensor_fields(sample), encoded, sizeof encoded,
                                       &encoded_length));
    hurray_tensor_release(sample);
    for (size_t row = 0; row < ROW_COUNT; row++) {
        HurrayTensor *input = host_tensor(rows[row].type, rows[row].layout);
        HurrayStatus status;
        void *out;
        int before = blocks;
        released = 0;
        run(row, input, -1, &status, &out);
        int needed = calls;
        if (status != HURRAY_OK || needed < rows[row].least || needed > rows[row].most) {
            fail_msg("%s: %s, %d allocations; %s", rows[row].name, hurray_status_name(status),
                     needed, hurray_error_message());
        }
        rows[row].destroy(out);
        assert_int_equal(blocks, before);
        assert_int_equal(released, rows[row].released);

        for (int which = 0; which < needed; which++) {
            hri_fail(HURRAY_OK, STALE_MESSAGE);
            released = 0;
            run(row, input, which, &status, &out);
            if (status != HURRAY_ERR_OUT_OF_MEMORY || out != untouched || blocks != before ||
                released != 0) {
                fail_msg("%s: allocation %d fails: %s, %d blocks left, %d owners told",
                         rows[row].name, which, hurray_status_name(status), blocks - before,
                         released);
            }
            expect_status_at(status, HURRAY_ERR_OUT_OF_MEMORY, rows[row].name, __FILE__, __LINE__);
        }
        /* The input is none the worse. */
        run(row, input, -1, &status, &out);
        assert_int_equal(status, HURRAY_OK);
        rows[row].destroy(out);
        hurray_tensor_release(input);
    }
    assert_int_equal(blocks, 0);
}

/* ---- descriptors of every kind ---- */

static const int64_t strides[2] = {-8, 2};
static const uint64_t tiles[2][2] = {{4, 4}, {2, 2}};
static const HurrayTileLevel levels[2] = {
    {tiles[0], HURRAY_LAYOUT_ROW_MAJOR, HURRAY_LAYOUT_TILED, NULL, NULL},
    {tiles[1], HURRAY_LAYOUT_COL_MAJOR, HURRAY_LAYOUT_STRIDED, NULL, (const int64_t[]){1, 2}},
};
static const uint32_t bits[2] = {2, 2}, modes[3] = {2, 0, 1};
static const uint64_t square[3] = {4, 4, 4};
static const uint8_t unknown[7] = {1, 2, 3, 4, 5, 6, 7};

static const struct {
    const char *name;
    HurrayLayout layout;
    uint32_t rank, buffer_count;
} kinds[] = {
    {"row-major", {HURRAY_LAYOUT_ROW_MAJOR, {NULL}}, 2, 1},
    {"strided", {HURRAY_LAYOUT_STRIDED, {.strides = strides}}, 2, 1},
    {"tiled", {HURRAY_LAYOUT_TILED, {.tiled = {2, levels}}}, 2, 1},
    {"morton", {HURRAY_LAYOUT_MORTON, {.morton_bits = bits}}, 2, 1},
    {"hilbert", {HURRAY_LAYOUT_HILBERT, {.hilbert = {2, 2}}}, 2, 1},
    {"coo", {HURRAY_LAYOUT_COO, {.sparse = {.nnz = 3}}}, 3, 2},
    {"csr", {HURRAY_LAYOUT_CSR, {.sparse = {.nnz = 3}}}, 2, 3},
    {"csf", {HURRAY_LAYOUT_CSF, {.sparse = {.nnz = 3, .mode_order = modes}}}, 3, 7},
    {"block-paged", {HURRAY_LAYOUT_BLOCK_PAGED, {.paged = {2, 3, 0, 2, 0, 1, false}}}, 3, 3},
    {"composite", {HURRAY_LAYOUT_COMPOSITE, {.composite = {HURRAY_RULE_GROUP, 0, 2}}}, 0, 0},
    {"private", {0xF3, {.extension = {9, unknown, sizeof unknown}}}, 2, 4},
    {"unassigned", {0x7A, {.opaque = {unknown, sizeof unknown, 0}}}, 2, 0},
};
#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

static const HurrayDecodeOptions permissive = {.permissive = true};

static bool ignore(const char *text, size_t length, void *context) {
    (void)text, (void)length, (void)context;
    return true;
}

/* Fails, or succeeds with nothing left but what it gave. One allocation each. */
static void expect_one_allocation(const char *name, HurrayStatus status, int made,
                                  HurrayDescriptor *out, int before) {
    expect_status_at(status, failing == 0 ? HURRAY_ERR_OUT_OF_MEMORY : HURRAY_OK, name, __FILE__,
                     __LINE__);
    assert_int_equal(made, 1);
    if (status == HURRAY_OK) {
        expect_ok(hurray_descriptor_destroy(out));
    } else {
        assert_ptr_equal(out, untouched);
    }
    assert_int_equal(blocks, before);
}

static void descriptors_of_every_kind(void **state) {
    (void)state;
    HurrayBufferHandle handles[7];
    HurrayQuantization quantization = {.scheme = HURRAY_SCHEME_PER_TENSOR, .scale = 1};
    const HurrayShard shard = {square, (const uint64_t[3]){0}};
    const HurrayStatistics statistics = {.computed_mask = HURRAY_STATISTICS_SPECIALS};
    for (int i = 0; i < 7; i++) {
        handles[i] = (HurrayBufferHandle){.byte_size = 256, .alignment = 64};
    }
    for (size_t i = 0; i < KIND_COUNT; i++) {
        HurrayDescriptorFields fields = {
            .type_tag = HURRAY_TYPE_INT8,
            .rank = kinds[i].rank,
            .shape = square,
            .byte_offset = kinds[i].layout.tag == HURRAY_LAYOUT_STRIDED ? 24 : 0,
            .layout = kinds[i].layout,
            .buffer_count = kinds[i].buffer_count,
            .buffers = handles,
            .permissive = true,
        };
        HurrayLayoutClass class = hurray_layout_class(fields.layout.tag);
        if (class == HURRAY_LAYOUT_CLASS_DENSE) {
            fields.quantization = &quantization;
            fields.shard = &shard;
            fields.statistics = &statistics;
        }
        uint8_t bytes[512];
        uintptr_t length = 0;
        expect_status_at(hurray_descriptor_encode(&fields, bytes, sizeof bytes, &length), HURRAY_OK,
                         kinds[i].name, __FILE__, __LINE__);
        int before = blocks;
        for (int which = 0; which >= -1; which--) {
            HurrayDescriptor *out = untouched;
            hri_fail(HURRAY_OK, STALE_MESSAGE);
            calls = 0;
            failing = which;
            HurrayStatus status = hurray_descriptor_decode_with(bytes, length, &permissive, &out);
            expect_one_allocation(kinds[i].name, status, calls, out, before);

            out = untouched;
            hri_fail(HURRAY_OK, STALE_MESSAGE);
            calls = 0;
            status = hurray_descriptor_create(&fields, &out);
            expect_one_allocation(kinds[i].name, status, calls, out, before);

            /* The table is printed; that it is valid cannot be said. */
            const HurrayPrintOptions options = {.decode = permissive};
            HurrayStatus verdict = 1;
            calls = 0;
            expect_ok(hurray_descriptor_print(bytes, length, &options, ignore, NULL, &verdict));
            assert_int_equal(verdict, which == 0 ? HURRAY_ERR_OUT_OF_MEMORY : HURRAY_OK);
            assert_int_equal(calls, 1);
            assert_int_equal(blocks, before);
        }
        failing = -1;
    }
}

/* A tensor that cannot be made leaves its buffers to the caller. */
static void tensors_that_fail_leave_their_buffers(void **state) {
    (void)state;
    HurrayBufferInfo info = {.data = host, .byte_size = sizeof host, .alignment = 64};
    HurrayBuffer *buffer = NULL;
    HurrayTensor *tensor = untouched;
    HurrayDescriptorFields fields = dense(HURRAY_TYPE_INT8, HURRAY_LAYOUT_ROW_MAJOR);
    released = 0;
    expect_ok(hurray_buffer_create(&info, count_release, NULL, &buffer));
    int before = blocks;
    calls = 0;
    failing = 0;
    expect_failure(HURRAY_ERR_OUT_OF_MEMORY, hurray_tensor_create(&fields, &buffer, &tensor));
    assert_int_equal(calls, 1);
    failing = -1;
    assert_ptr_equal(tensor, untouched);
    assert_int_equal(blocks, before);
    assert_int_equal(released, 0);
    expect_ok(hurray_buffer_destroy(buffer));
    assert_int_equal(released, 1);
}

static void memory_that_cannot_grow_stays(void **state) {
    (void)state;
    failing = -1;
    uint8_t *data = hurray_aligned_alloc(100, 64, true);
    memset(data, 0x5A, 100);
    for (int zeroed = 0; zeroed < 2; zeroed++) {
        calls = 0;
        failing = 0;
        assert_null(hurray_aligned_alloc(100, 64, zeroed != 0));
    }
    calls = 0;
    failing = 0;
    assert_null(hurray_aligned_resize(data, 100000, 64));
    failing = -1;
    for (int i = 0; i < 100; i++) assert_int_equal(data[i], 0x5A);
    hurray_aligned_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(descriptors_of_every_kind),
        cmocka_unit_test(tensors_that_fail_leave_their_buffers),
        cmocka_unit_test(memory_that_cannot_grow_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
