/*
 * Every allocation in turn fails, in conversions and verification: the operation then says
 * HURRAY_ERR_OUT_OF_MEMORY, leaves its out-parameter and the destination alone, leaves behind exactly
 * the blocks that were there before, and gives the same as ever once there is memory again.
 */
#include "failing.h"

#include <limits.h>
#include <stdio.h>

#include <hurray/convert.h>
#include <hurray/convert_sparse.h>
#include <hurray/parallel.h>
#include <hurray/verify.h>

#include "bytes.h"

static void *const untouched = (void *)(uintptr_t)0x77;

enum {
    EDGE = 32, /* long rows: sorted with scratch of their own */
    MAX_BUFFERS = 7
};

typedef HurrayStatus (*Operation)(void *input, void **out);

/*
 * `operation` makes something out of `input` and puts it into *out, where `destroy` takes it apart.
 * Returns how many allocations it needs.
 */
static int each_allocation_fails(const char *name, Operation operation, void *input,
                                 void (*destroy)(void *made)) {
    int before = blocks, needed;
    void *out = untouched;
    calls = 0;
    expect_status_at(operation(input, &out), HURRAY_OK, name, __FILE__, __LINE__);
    needed = calls;
    destroy(out);
    assert_int_equal(blocks, before);
    for (int which = 0; which < needed; which++) {
        hri_fail(HURRAY_OK, STALE_MESSAGE);
        out = untouched;
        calls = 0;
        failing = which;
        HurrayStatus status = operation(input, &out);
        failing = -1;
        if (blocks != before || out != untouched) {
            fail_msg("%s: allocation %d of %d fails: %s, %d blocks left", name, which, needed,
                     hurray_status_name(status), blocks - before);
        }
        expect_status_at(status, HURRAY_ERR_OUT_OF_MEMORY, name, __FILE__, __LINE__);
    }
    out = untouched;
    expect_status_at(operation(input, &out), HURRAY_OK, name, __FILE__, __LINE__);
    destroy(out);
    assert_int_equal(blocks, before);
    return needed;
}

static void destroy_tensor(void *made) { hurray_tensor_release(made); }
static void destroy_nothing(void *made) { (void)made; }

/* ---- tensors to convert ---- */

static const HurrayExtensionType three_bytes = {.bit_width = 24, .packing_factor = 1};
static const uint8_t types[] = {
    HURRAY_TYPE_BOOL, HURRAY_TYPE_INT2,    HURRAY_TYPE_UINT4,      HURRAY_TYPE_FLOAT6_E2M3,
    HURRAY_TYPE_INT8, HURRAY_TYPE_FLOAT32, HURRAY_TYPE_COMPLEX128, 0xF0};
#define TYPES (sizeof types / sizeof types[0])

static const uint64_t plane[2] = {EDGE, EDGE}, cube[3] = {8, 16, 8};

/* Over memory of its own: buffers as large as `fields` require, filled with bytes that are not zero. */
static HurrayTensor *tensor_of(const HurrayDescriptorFields *fields) {
    HurrayBuffer *buffers[MAX_BUFFERS] = {NULL};
    HurrayTensor *tensor = NULL;
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        uint64_t bytes = 0;
        expect_ok(hurray_descriptor_required_bytes(fields, i, &bytes, NULL));
        expect_ok(hurray_buffer_allocate(bytes, true, NULL, &buffers[i]));
        uint8_t *data = hurray_buffer_info(buffers[i])->data;
        for (uint64_t at = 0; i == 0 && at < bytes; at++) data[at] = (uint8_t)(at * 7 + 1);
    }
    expect_ok(hurray_tensor_create(fields, buffers, &tensor));
    return tensor;
}

static HurrayDescriptorFields fields_of(uint8_t type, uint32_t rank, HurrayLayout layout) {
    return (HurrayDescriptorFields){
        .type_tag = type,
        .rank = rank,
        .shape = rank == 2 ? plane : cube,
        .layout = layout,
        .buffer_count = 1,
        .extension_type = type == 0xF0 ? &three_bytes : NULL,
    };
}

/* ---- dense to dense ---- */

static const int64_t apart[2] = {3, 3 * EDGE + 5};
static const uint64_t small_tiles[2] = {4, 2}, odd_tiles[2] = {5, 7};
static const HurrayTileLevel even = {small_tiles, 1, 1, NULL, NULL},
                             odd = {odd_tiles, 2, 1, NULL, NULL};
static const uint32_t bits[2] = {5, 6};
static const HurrayLayout dense[] = {
    {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
    {HURRAY_LAYOUT_COL_MAJOR, {NULL}},
    {HURRAY_LAYOUT_STRIDED, {.strides = apart}},
    {HURRAY_LAYOUT_TILED, {.tiled = {1, &even}}},
    {HURRAY_LAYOUT_TILED, {.tiled = {1, &odd}}},
    {HURRAY_LAYOUT_MORTON, {.morton_bits = bits}},
    {HURRAY_LAYOUT_HILBERT, {.hilbert = {5, 2}}},
};
#define DENSE (sizeof dense / sizeof dense[0])

typedef struct Job {
    HurrayTensor *tensor;
    const HurrayLayout *target;
    const HurrayAllocator *allocator;
} Job;

static HurrayStatus to_layout(void *input, void **out) {
    const Job *job = input;
    HurrayTensor *made = *out;
    HurrayStatus status = hurray_tensor_to_layout(job->tensor, job->target, job->allocator, &made);
    *out = made;
    return status;
}

/* Into memory that is there: it is written as a whole, or not at all. */
static HurrayStatus convert(void *input, void **out) {
    static uint8_t destination[1 << 17];
    const Job *job = input;
    HurrayDescriptorFields from = *hurray_tensor_fields(job->tensor), to = from;
    const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(job->tensor, 0));
    (void)out;
    to.layout = *job->target;
    memset(destination, 0xA5, sizeof destination);
    HurrayStatus status =
        hurray_convert(&from, info->data, info->byte_size, &to, destination, sizeof destination);
    for (size_t i = 0; status != HURRAY_OK && i < sizeof destination; i++) {
        if (destination[i] != 0xA5) fail_msg("byte %zu was written", i);
    }
    return status;
}

static void dense_layouts(void **state) {
    (void)state;
    int least = INT_MAX, most = 0;
    for (size_t t = 0; t < TYPES; t++) {
        for (size_t pair = 0; pair < DENSE * DENSE; pair++) {
            HurrayDescriptorFields fields = fields_of(types[t], 2, dense[pair / DENSE]);
            Job job = {tensor_of(&fields), &dense[pair % DENSE], NULL};
            char name[64];
            snprintf(name, sizeof name, "type 0x%02X, layout %zu to %zu", types[t], pair / DENSE,
                     pair % DENSE);
            int needed = each_allocation_fails(name, convert, &job, destroy_nothing);
            assert_in_range(needed, 0, 1);
            if (needed < least) least = needed;
            if (needed > most) most = needed;
            /* Memory of the result, its buffer, the tensor. */
            int whole = each_allocation_fails(name, to_layout, &job, destroy_tensor);
            assert_int_equal(whole, needed + 3);
            job.allocator = hurray_default_allocator();
            whole = each_allocation_fails(name, to_layout, &job, destroy_tensor);
            assert_int_equal(whole, needed + 4);
            hurray_tensor_release(job.tensor);
        }
    }
    assert_true(least == 0 && most == 1); /* both ways were taken */
    assert_int_equal(blocks, 0);
}

/* ---- sparse ---- */

static const uint32_t mode_order[3] = {1, 2, 0};
static const HurrayLayout sparse[] = {
    {HURRAY_LAYOUT_COO, {NULL}},
    {HURRAY_LAYOUT_CSR, {NULL}},
    {HURRAY_LAYOUT_CSC, {NULL}},
    {HURRAY_LAYOUT_CSF, {.sparse = {.mode_order = mode_order}}},
};
#define SPARSE (sizeof sparse / sizeof sparse[0])

static bool has_rank(const HurrayLayout *layout, uint32_t rank) {
    return layout->tag == HURRAY_LAYOUT_COO || (rank == 2) == (layout->tag != HURRAY_LAYOUT_CSF);
}

static HurrayStatus to_sparse(void *input, void **out) {
    const Job *job = input;
    HurrayTensor *made = *out;
    HurrayStatus status = hurray_tensor_to_sparse(job->tensor, job->target, job->allocator, &made);
    *out = made;
    return status;
}

static HurrayStatus to_dense(void *input, void **out) {
    const Job *job = input;
    HurrayTensor *made = *out;
    HurrayStatus status = hurray_tensor_to_dense(job->tensor, job->target, job->allocator, &made);
    *out = made;
    return status;
}

/* The bytes of a tensor as the functions without tensors take them. */
static void bytes_of(const HurrayTensor *tensor, HurrayBytes *out) {
    for (uint32_t i = 0; i < hurray_tensor_fields(tensor)->buffer_count; i++) {
        const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, i));
        out[i] = (HurrayBytes){info->data, info->byte_size};
    }
}

/* Creation, then filling; what cannot be filled for want of memory can be filled later. */
static HurrayStatus convert_in_steps(void *input, void **out) {
    static uint8_t destinations[MAX_BUFFERS][1 << 16], expected[MAX_BUFFERS][1 << 16];
    static void *const rooms[MAX_BUFFERS] = {destinations[0], destinations[1], destinations[2],
                                             destinations[3], destinations[4], destinations[5],
                                             destinations[6]};
    const Job *job = input;
    HurrayBytes buffers[MAX_BUFFERS];
    HurraySparseConversion *conversion = untouched;
    (void)out;
    bytes_of(job->tensor, buffers);
    HurrayStatus status = hurray_sparse_conversion_create(hurray_tensor_fields(job->tensor),
                                                          buffers, job->target, &conversion);
    if (status != HURRAY_OK) {
        assert_ptr_equal(conversion, untouched);
        return status;
    }
    memset(destinations, 0, sizeof destinations);
    status = hurray_sparse_conversion_fill(conversion, rooms);
    if (status == HURRAY_OK) {
        memcpy(expected, destinations, sizeof expected);
    } else {
        int failed = failing;
        failing = -1;
        memset(destinations, 0, sizeof destinations);
        assert_int_equal(hurray_sparse_conversion_fill(conversion, rooms), HURRAY_OK);
        assert_memory_equal(expected, destinations, sizeof expected);
        failing = failed;
    }
    hurray_sparse_conversion_destroy(&conversion);
    return status;
}

static HurrayStatus write_dense(void *input, void **out) {
    static uint8_t destination[1 << 17];
    const Job *job = input;
    HurrayBytes buffers[MAX_BUFFERS];
    (void)out;
    bytes_of(job->tensor, buffers);
    return hurray_sparse_to_dense(hurray_tensor_fields(job->tensor), buffers, job->target, false,
                                  destination, sizeof destination);
}

static HurrayStatus verify(void *input, void **out) {
    const Job *job = input;
    const HurrayDescriptorFields *fields = hurray_tensor_fields(job->tensor);
    HurrayBytes buffers[MAX_BUFFERS];
    HurrayViolation violation, before;
    (void)out;
    bytes_of(job->tensor, buffers);
    memset(&violation, 0xA5, sizeof violation);
    before = violation;
    HurrayStatus status = hurray_verify(fields, buffers, fields->buffer_count, &violation);
    assert_memory_equal(&violation, &before, sizeof before);
    return status;
}

/* All conversions of a tensor. */
static void convert_to_all(const char *name, HurrayTensor *tensor) {
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    bool is_sparse = hurray_layout_class(fields->layout.tag) == HURRAY_LAYOUT_CLASS_SPARSE;
    bool is_unsorted = fields->layout.tag == HURRAY_LAYOUT_COO && !fields->layout.sparse.is_sorted;
    for (size_t i = 0; i < SPARSE; i++) {
        if (!has_rank(&sparse[i], fields->rank)) continue;
        Job job = {tensor, &sparse[i], NULL};
        char text[96];
        snprintf(text, sizeof text, "%s to %s", name, hurray_layout_name(sparse[i].tag));
        int least = 2 + 2 * (int)(sparse[i].tag == HURRAY_LAYOUT_COO ? 2 : 3);
        int needed = each_allocation_fails(text, to_sparse, &job, destroy_tensor);
        assert_in_range(needed, least, 100);
        job.allocator = hurray_default_allocator();
        assert_true(each_allocation_fails(text, to_sparse, &job, destroy_tensor) > needed);
        each_allocation_fails(text, convert_in_steps, &job, destroy_nothing);
    }
    Job job = {tensor, NULL, NULL};
    int needed = each_allocation_fails(name, verify, &job, destroy_nothing);
    assert_int_equal(needed, is_unsorted);
    for (size_t i = 0; is_sparse && i < 2; i++) {
        job.target = &dense[i];
        job.allocator = NULL;
        needed = each_allocation_fails(name, write_dense, &job, destroy_nothing);
        assert_int_equal(needed, is_unsorted);
        needed += 3;
        assert_int_equal(each_allocation_fails(name, to_dense, &job, destroy_tensor), needed);
        job.allocator = hurray_default_allocator();
        assert_int_equal(each_allocation_fails(name, to_dense, &job, destroy_tensor), needed + 1);
    }
}

/* The same tensor with its tuples in reverse, values left where they are: sorting takes memory. */
static HurrayTensor *reversed(const HurrayTensor *sorted) {
    HurrayDescriptorFields fields = *hurray_tensor_fields(sorted);
    HurrayBytes from[MAX_BUFFERS];
    HurrayBuffer *buffers[2] = {NULL};
    HurrayTensor *tensor = NULL;
    size_t tuple = fields.rank * 8, nnz = (size_t)fields.layout.sparse.nnz;
    bytes_of(sorted, from);
    for (uint32_t i = 0; i < 2; i++) {
        expect_ok(hurray_buffer_allocate(from[i].size, false, NULL, &buffers[i]));
        memcpy(hurray_buffer_info(buffers[i])->data, from[i].data, (size_t)from[i].size);
    }
    uint8_t *indices = hurray_buffer_info(buffers[1])->data;
    for (size_t i = 0; i < nnz; i++) {
        memcpy(indices + i * tuple, from[1].data + (nnz - 1 - i) * tuple, tuple);
    }
    fields.layout.sparse.is_sorted = false;
    expect_ok(hurray_tensor_create(&fields, buffers, &tensor));
    return tensor;
}

static void sparse_layouts_of_type(uint8_t type, uint32_t rank) {
    char name[64];
    for (size_t d = 0; d < (rank == 2 ? 3 : 2); d++) {
        HurrayDescriptorFields fields = fields_of(type, rank, dense[d]);
        HurrayTensor *tensor = tensor_of(&fields);
        snprintf(name, sizeof name, "type 0x%02X, rank %u, dense %zu", type, (unsigned)rank, d);
        convert_to_all(name, tensor);
        hurray_tensor_release(tensor);
    }
    HurrayDescriptorFields fields = fields_of(type, rank, dense[0]);
    HurrayTensor *tensor = tensor_of(&fields);
    for (size_t s = 0; s < SPARSE; s++) {
        if (!has_rank(&sparse[s], rank)) continue;
        HurrayTensor *source = NULL;
        expect_ok(hurray_tensor_to_sparse(tensor, &sparse[s], NULL, &source));
        snprintf(name, sizeof name, "type 0x%02X, rank %u, %s", type, (unsigned)rank,
                 hurray_layout_name(sparse[s].tag));
        convert_to_all(name, source);
        if (sparse[s].tag == HURRAY_LAYOUT_COO) {
            HurrayTensor *unsorted = reversed(source);
            snprintf(name, sizeof name, "type 0x%02X, rank %u, unsorted", type, (unsigned)rank);
            convert_to_all(name, unsorted);
            hurray_tensor_release(unsorted);
        }
        hurray_tensor_release(source);
    }
    hurray_tensor_release(tensor);
}

static void sparse_layouts(void **state) {
    (void)state;
    for (size_t t = 0; t < TYPES; t++) {
        sparse_layouts_of_type(types[t], 2);
        sparse_layouts_of_type(types[t], 3);
        assert_int_equal(blocks, 0);
    }
}

/* Rows of up to a thousand entries each longer than the one before: scratch grows as they do. */
static void longer_and_longer_rows(void **state) {
    (void)state;
    enum {
        ROWS = 5,
        COLUMNS = 1000,
        NNZ = 30 + 90 + 270 + 810
    };
    static const uint64_t counts[ROWS] = {0, 30, 90, 270, 810}, shape[2] = {ROWS, COLUMNS};
    HurrayDescriptorFields fields = fields_of(HURRAY_TYPE_COMPLEX128, 2, sparse[0]);
    fields.shape = shape;
    fields.buffer_count = 2;
    fields.layout.sparse.nnz = NNZ;
    HurrayTensor *tensor = tensor_of(&fields);
    uint8_t *indices = hurray_buffer_info(hurray_tensor_buffer(tensor, 1))->data;
    for (uint64_t row = 0; row < ROWS; row++) {
        for (uint64_t i = 0; i < counts[row]; i++, indices += 16) {
            store_u64(indices, row);
            store_u64(indices + 8, COLUMNS - 1 - i);
        }
    }
    convert_to_all("longer and longer rows", tensor);
    hurray_tensor_release(tensor);
    assert_int_equal(blocks, 0);
}

/* Most rows are empty and all entries in a few: more threads do not mean more copies of them. */
static void threads_share_no_crowded_rows(void **state) {
    (void)state;
    enum {
        NNZ = 600000,
        CROWDED = 32768, /* rows, of up to 19 entries */
        ROWS = NNZ + 1
    };
    static const uint64_t shape[2] = {ROWS, 19};
    HurrayDescriptorFields fields = fields_of(HURRAY_TYPE_UINT8, 2, sparse[0]);
    fields.shape = shape;
    fields.buffer_count = 2;
    fields.layout.sparse.nnz = NNZ;
    fields.layout.sparse.is_sorted = false;
    const HurrayLayout target = {.tag = HURRAY_LAYOUT_CSR};
    HurraySparseConversion *conversion = NULL;
    uint8_t *values = calloc(NNZ, 1), *indices = malloc(NNZ * 16);
    void *out[3] = {malloc(NNZ), malloc(NNZ * 8), malloc((ROWS + 1) * 8)};
    for (uint64_t i = 0; i < NNZ; i++) {
        store_u64(indices + i * 16, i % CROWDED);
        store_u64(indices + i * 16 + 8, 18 - i / CROWDED);
    }
    const HurrayBytes from[2] = {{values, NNZ}, {indices, NNZ * 16}};
    expect_ok(hurray_sparse_conversion_create(&fields, from, &target, &conversion));
    hurray_set_max_threads(4);
    greatest = 0;
    expect_ok(hurray_sparse_conversion_fill(conversion, out));
    assert_in_range(greatest, 1, NNZ * 9); /* an index and a value of each */
    hurray_set_max_threads(0);
    hurray_sparse_conversion_destroy(&conversion);
    for (size_t i = 0; i < 3; i++) free(out[i]);
    free(indices);
    free(values);
    assert_int_equal(blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_layouts),
        cmocka_unit_test(sparse_layouts),
        cmocka_unit_test(longer_and_longer_rows),
        cmocka_unit_test(threads_share_no_crowded_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
