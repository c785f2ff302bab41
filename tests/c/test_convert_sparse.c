/*
 * Sparse conversions (src/convert_sparse.c and the files it is made of): every pair of layouts and
 * every width of element against naive code, whose result is the only one that is canonical; stored
 * indices and pointers that lie; buffers of exactly their size at odd addresses; allocators that
 * fail.
 */
#include <stdio.h>

#include "expect.h"

#include <hurray/address.h>
#include <hurray/convert_sparse.h>
#include <hurray/parallel.h>
#include <hurray/pack.h>

#include "bytes.h"
#include "layout.h"
#include "random.h"

#define MAX_TEST_RANK 5u
#define MAX_BUFFERS (1 + 2 * MAX_TEST_RANK)
#define MAX_ELEMENTS 1100u
#define MAX_VALUE 25u

/* ---- elements ---- */

typedef struct Width {
    uint8_t tag;
    HurrayExtensionType extension; /* of private types */
} Width;

static const Width widths[] = {
    {.tag = HURRAY_TYPE_BOOL},
    {.tag = HURRAY_TYPE_INT2},
    {.tag = HURRAY_TYPE_UINT4},
    {.tag = HURRAY_TYPE_INT8},
    {.tag = HURRAY_TYPE_FLOAT6_E2M3},
    {.tag = HURRAY_TYPE_FLOAT16},
    {.tag = HURRAY_TYPE_FLOAT32},
    {.tag = HURRAY_TYPE_FLOAT64},
    {.tag = HURRAY_TYPE_COMPLEX128},
    {0xF0, {.bit_width = 1, .packing_factor = 8}},
    {0xF1, {.bit_width = 4, .packing_factor = 2}},
    {0xF2, {.bit_width = 24, .packing_factor = 1}},
    {0xFE, {.bit_width = 8 * MAX_VALUE, .packing_factor = 1}},
};
#define WIDTHS (sizeof widths / sizeof widths[0])

/* A stored element. */
typedef struct Element {
    uint64_t index[MAX_TEST_RANK];
    uint8_t value[MAX_VALUE]; /* one byte of a packed one */
} Element;

/* Elements of a tensor, and the tensor. */
typedef struct Sample {
    HurrayDescriptorFields fields;
    uint64_t shape[MAX_TEST_RANK];
    uint32_t mode_order[MAX_TEST_RANK];
    int64_t strides[MAX_TEST_RANK];
    HurrayPacking packing;
    size_t value_bytes;
    HurrayBytes buffers[MAX_BUFFERS];
    uint8_t *blocks[MAX_BUFFERS]; /* buffers[i].data is one past, so that it is not aligned */
    uint64_t nnz;
    Element elements[MAX_ELEMENTS];
} Sample;

static void give_bytes(Sample *sample, uint32_t i, const uint8_t *bytes, uint64_t size) {
    free(sample->blocks[i]);
    sample->blocks[i] = malloc((size_t)size + 1);
    assert_non_null(sample->blocks[i]);
    if (size != 0) memcpy(sample->blocks[i] + 1, bytes, (size_t)size);
    sample->buffers[i] = (HurrayBytes){sample->blocks[i] + 1, size};
}

static void give(Sample *sample, uint32_t i, const uint64_t *entries, uint64_t count) {
    uint8_t *bytes = malloc((size_t)count * 8 + 1);
    assert_non_null(bytes);
    for (uint64_t e = 0; e < count; e++) store_u64(bytes + e * 8, entries[e]);
    give_bytes(sample, i, bytes, count * 8);
    free(bytes);
}

static void release(Sample *sample) {
    for (uint32_t i = 0; i < MAX_BUFFERS; i++) free(sample->blocks[i]);
    free(sample);
}

/* ---- naive layouts ---- */

static const uint32_t *sort_order;
static uint32_t sort_rank;

static int compare_elements(const void *a, const void *b) {
    const Element *left = a, *right = b;
    for (uint32_t level = 0; level < sort_rank; level++) {
        uint64_t l = left->index[sort_order[level]], r = right->index[sort_order[level]];
        if (l != r) return l < r ? -1 : 1;
    }
    return 0;
}

static void sort_elements(Sample *sample, const uint32_t *order) {
    sort_order = order;
    sort_rank = sample->fields.rank;
    qsort(sample->elements, (size_t)sample->nnz, sizeof(Element), compare_elements);
}

static void give_values(Sample *sample) {
    static uint8_t bytes[MAX_ELEMENTS * MAX_VALUE], packed[MAX_ELEMENTS * MAX_VALUE];
    for (uint64_t i = 0; i < sample->nnz; i++) {
        memcpy(bytes + i * sample->value_bytes, sample->elements[i].value, sample->value_bytes);
    }
    uint64_t size;
    expect_ok(hurray_packing_size(sample->packing, sample->nnz, &size));
    if (sample->packing.bits < 8) {
        expect_ok(hurray_pack_bits(sample->packing.bits, bytes, sample->nnz, packed));
    }
    give_bytes(sample, 0, sample->packing.bits < 8 ? packed : bytes, size);
}

static void give_tree(Sample *sample, const uint32_t *order) {
    static uint64_t pos[MAX_ELEMENTS + 1], crd[MAX_ELEMENTS], parents[MAX_ELEMENTS];
    uint64_t parent_count = 1;
    memset(parents, 0, sizeof parents);
    for (uint32_t level = 0; level < sample->fields.rank; level++) {
        uint64_t count = 0;
        memset(pos, 0, sizeof pos);
        for (uint64_t i = 0; i < sample->nnz; i++) {
            bool is_new = i == 0;
            for (uint32_t above = 0; above <= level && !is_new; above++) {
                is_new = sample->elements[i].index[order[above]] !=
                         sample->elements[i - 1].index[order[above]];
            }
            if (is_new) {
                crd[count++] = sample->elements[i].index[order[level]];
                pos[parents[i] + 1]++;
            }
            parents[i] = count - 1;
        }
        for (uint64_t p = 0; p < parent_count; p++) pos[p + 1] += pos[p];
        give(sample, 2 * level + 1, pos, parent_count + 1);
        give(sample, 2 * level + 2, crd, count);
        parent_count = count;
    }
}

static void give_compressed(Sample *sample, uint32_t major) {
    static uint64_t pointers[MAX_ELEMENTS + 2], indices[MAX_ELEMENTS];
    memset(pointers, 0, sizeof pointers);
    for (uint64_t i = 0; i < sample->nnz; i++) {
        pointers[sample->elements[i].index[major] + 1]++;
        indices[i] = sample->elements[i].index[1 - major];
    }
    for (uint64_t r = 0; r < sample->shape[major]; r++) pointers[r + 1] += pointers[r];
    give(sample, 1, indices, sample->nnz);
    give(sample, 2, pointers, sample->shape[major] + 1);
}

static void give_tuples(Sample *sample) {
    static uint64_t tuples[MAX_ELEMENTS * MAX_TEST_RANK];
    uint32_t rank = sample->fields.rank;
    for (uint64_t i = 0; i < sample->nnz; i++) {
        for (uint32_t k = 0; k < rank; k++) tuples[i * rank + k] = sample->elements[i].index[k];
    }
    give(sample, 1, tuples, sample->nnz * rank);
}

/* Lays the elements out anew. An unsorted COO tensor has them as they are. */
static void lay_out(Sample *sample, const HurrayLayout *layout) {
    static const uint32_t up[] = {0, 1, 2, 3, 4}, down[] = {1, 0};
    sample->fields.layout = *layout;
    sample->fields.layout.sparse.nnz = sample->nnz;
    const uint32_t *order = up;
    if (layout->tag == HURRAY_LAYOUT_CSC) order = down;
    if (layout->tag == HURRAY_LAYOUT_CSF) {
        memcpy(sample->mode_order, layout->sparse.mode_order,
               sample->fields.rank * sizeof(uint32_t));
        sample->fields.layout.sparse.mode_order = order = sample->mode_order;
    }
    if (layout->tag != HURRAY_LAYOUT_COO || layout->sparse.is_sorted) sort_elements(sample, order);
    give_values(sample);
    switch (layout->tag) {
    case HURRAY_LAYOUT_COO: give_tuples(sample); break;
    case HURRAY_LAYOUT_CSF: give_tree(sample, order); break;
    default: give_compressed(sample, order[0]); break;
    }
}

/* ---- random samples ---- */

/* Elements at random places, with probability `fill` of 10, in random order. */
static Sample *make(uint64_t *seed, const Width *width, uint32_t rank, const uint64_t *shape,
                    uint64_t fill, bool with_zeros) {
    Sample *sample = calloc(1, sizeof *sample);
    assert_non_null(sample);
    memcpy(sample->shape, shape, rank * sizeof *shape);
    sample->fields = (HurrayDescriptorFields){
        .type_tag = width->tag,
        .rank = rank,
        .shape = sample->shape,
        .extension_type = width->tag >= 0xF0 ? &width->extension : NULL,
    };
    expect_ok(hurray_packing_of(width->tag, sample->fields.extension_type, &sample->packing));
    sample->value_bytes = sample->packing.bits < 8 ? 1 : sample->packing.group_bytes;
    uint64_t count;
    expect_ok(hurray_shape_count(shape, rank, &count));
    assert_true(count <= MAX_ELEMENTS);
    for (uint64_t i = 0; i < count; i++) {
        if (random_below(seed, 10) >= fill) continue;
        Element *element = &sample->elements[sample->nnz++];
        uint64_t number = i;
        for (uint32_t k = rank; k-- > 0;) {
            element->index[k] = number % shape[k];
            number /= shape[k];
        }
        bool is_zero = with_zeros && random_below(seed, 4) == 0;
        for (size_t b = 0; b < sample->value_bytes && !is_zero; b++) {
            element->value[b] = (uint8_t)random_below(seed, b == 0 ? 4 : 256); /* often 0 */
            if (sample->packing.bits < 8) {
                element->value[b] = (uint8_t)random_below(seed, 1u << sample->packing.bits);
            }
        }
        if (!with_zeros && element->value[0] == 0) {
            element->value[sample->value_bytes - 1] = sample->packing.bits < 8 ? 1 : 0x80;
        }
    }
    for (uint64_t i = 1; i < sample->nnz; i++) {
        uint64_t other = random_below(seed, i + 1);
        Element keep = sample->elements[i];
        sample->elements[i] = sample->elements[other];
        sample->elements[other] = keep;
    }
    return sample;
}

static Sample *copy_of(const Sample *sample) {
    Sample *copy = malloc(sizeof *copy);
    assert_non_null(copy);
    *copy = *sample;
    copy->fields.shape = copy->shape;
    memset(copy->blocks, 0, sizeof copy->blocks);
    return copy;
}

static void random_shape(uint64_t *seed, uint32_t rank, uint64_t *shape) {
    static const uint64_t limits[] = {0, 60, 30, 9, 5, 4};
    for (uint32_t k = 0; k < rank; k++) {
        shape[k] = random_below(seed, 20) == 0 ? 0 : 1 + random_below(seed, limits[rank]);
    }
}

static void random_order(uint64_t *seed, uint32_t rank, uint32_t *order) {
    for (uint32_t k = 0; k < rank; k++) {
        uint32_t other = (uint32_t)random_below(seed, k + 1);
        order[k] = k;
        order[k] = order[other];
        order[other] = k;
    }
}

/* A random sparse layout that this rank has; `order` holds its mode order. */
static HurrayLayout random_layout(uint64_t *seed, uint32_t rank, uint32_t *order) {
    HurrayLayout layout = {.tag = HURRAY_LAYOUT_COO, .sparse = {.nnz = 0}};
    layout.sparse.is_sorted = random_below(seed, 2) == 0;
    uint64_t choice = random_below(seed, 3);
    if (rank == 2 && choice != 0) {
        layout.tag = choice == 1 ? HURRAY_LAYOUT_CSR : HURRAY_LAYOUT_CSC;
    } else if (rank > 2 && choice != 0) {
        random_order(seed, rank, order);
        layout.tag = HURRAY_LAYOUT_CSF;
        layout.sparse.mode_order = order;
    }
    return layout;
}

/* ---- conversions ---- */

static uint32_t own_buffers(const Sample *sample) {
    uint32_t count;
    expect_ok(hurray_layout_buffer_count(sample->fields.layout.tag, sample->fields.rank, &count));
    return count;
}

/* Converts, and compares with what the elements give when they are laid out by hand. */
static void check_conversion(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                             const Sample *elements, const HurrayLayout *target) {
    Sample *expected = copy_of(elements);
    HurrayLayout canonical = *target;
    if (canonical.tag == HURRAY_LAYOUT_COO) canonical.sparse.is_sorted = true;
    lay_out(expected, &canonical);
    HurraySparseConversion *conversion = NULL;
    expect_ok(hurray_sparse_conversion_create(fields, buffers, target, &conversion));
    const HurrayLayout *layout = hurray_sparse_conversion_layout(conversion);
    assert_int_equal(layout->tag, target->tag);
    assert_int_equal(layout->sparse.nnz, expected->nnz);
    if (target->tag == HURRAY_LAYOUT_COO) assert_true(layout->sparse.is_sorted);
    uint32_t count = own_buffers(expected);
    assert_int_equal(hurray_sparse_conversion_buffer_count(conversion), count);
    assert_int_equal(hurray_sparse_conversion_buffer_size(conversion, count), 0);
    uint8_t *blocks[MAX_BUFFERS];
    void *destinations[MAX_BUFFERS];
    for (uint32_t i = 0; i < count; i++) {
        uint64_t size = hurray_sparse_conversion_buffer_size(conversion, i);
        assert_int_equal(size, expected->buffers[i].size);
        blocks[i] = malloc((size_t)size + 1);
        assert_non_null(blocks[i]);
        memset(blocks[i], 0xA5, (size_t)size + 1);
        destinations[i] = blocks[i] + 1;
    }
    for (int again = 0; again < 2; again++) {
        expect_ok(hurray_sparse_conversion_fill(conversion, destinations));
        for (uint32_t i = 0; i < count; i++) {
            assert_memory_equal(destinations[i], expected->buffers[i].data,
                                (size_t)expected->buffers[i].size);
        }
    }
    for (uint32_t i = 0; i < count; i++) free(blocks[i]);
    hurray_sparse_conversion_destroy(&conversion);
    assert_null(conversion);
    release(expected);
}

static void sparse_to_sparse(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (uint32_t round = 0; round < 3000; round++) {
        uint32_t rank = 1 + (uint32_t)random_below(&seed, MAX_TEST_RANK);
        uint32_t source_order[MAX_TEST_RANK], target_order[MAX_TEST_RANK];
        uint64_t shape[MAX_TEST_RANK];
        random_shape(&seed, rank, shape);
        Sample *sample =
            make(&seed, &widths[round % WIDTHS], rank, shape, random_below(&seed, 11), true);
        HurrayLayout source = random_layout(&seed, rank, source_order);
        HurrayLayout target = random_layout(&seed, rank, target_order);
        lay_out(sample, &source);
        check_conversion(&sample->fields, sample->buffers, sample, &target);
        release(sample);
    }
}

/* Long rows, which are sorted in another way than short ones. */
static void long_rows(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (uint32_t round = 0; round < 4 * WIDTHS; round++) {
        uint64_t shape[2] = {round % 2 == 0 ? 2 : 500, round % 2 == 0 ? 500 : 2};
        Sample *sample = make(&seed, &widths[round % WIDTHS], 2, shape, 9, true);
        HurrayLayout coo = {.tag = HURRAY_LAYOUT_COO};
        HurrayLayout target = {.tag = HURRAY_LAYOUT_CSR};
        if (round >= 2 * WIDTHS) target.tag = HURRAY_LAYOUT_CSC;
        lay_out(sample, &coo);
        check_conversion(&sample->fields, sample->buffers, sample, &target);
        release(sample);
    }
}

/* Elements in the far corner of shapes whose coordinates take more than 64 bits side by side,
 * and of extents of 1 beside one that takes all 64. */
static void large_extents(void **state) {
    (void)state;
    static const uint64_t shapes[][3] = {
        {(UINT64_C(1) << 20) + 1, (UINT64_C(1) << 20) + 1, (UINT64_C(1) << 22) - 9},
        {1, UINT64_MAX - 1, 1},
        {3, UINT64_MAX / 3 - 1, 1},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        Sample *sample = calloc(1, sizeof *sample);
        assert_non_null(sample);
        memcpy(sample->shape, shapes[s], sizeof shapes[s]);
        sample->fields = (HurrayDescriptorFields){
            .type_tag = HURRAY_TYPE_UINT8, .rank = 3, .shape = sample->shape};
        sample->packing = (HurrayPacking){8, 1, 1};
        sample->value_bytes = 1;
        for (uint64_t i = 0; i < 100; i++) {
            Element *element = &sample->elements[sample->nnz++];
            element->value[0] = (uint8_t)i;
            /* i * 37 % 101 takes no value twice, and no order. */
            element->index[1] = shapes[s][1] - 1 - i * 37 % 101;
            element->index[0] = (i * 11) % (shapes[s][0] < 3 ? shapes[s][0] : 3);
            element->index[2] = shapes[s][2] - 1 - (shapes[s][2] == 1 ? 0 : i % 7);
        }
        uint32_t order[3] = {2, 0, 1};
        HurrayLayout coo = {.tag = HURRAY_LAYOUT_COO};
        HurrayLayout csf = {.tag = HURRAY_LAYOUT_CSF, .sparse = {.mode_order = order}};
        lay_out(sample, &coo);
        check_conversion(&sample->fields, sample->buffers, sample, &csf);
        check_conversion(&sample->fields, sample->buffers, sample, &coo);
        release(sample);
    }
}

/* CSR where row and column take 64 bits together: not by counting. */
static void wide_matrix(void **state) {
    (void)state;
    Sample *sample = calloc(1, sizeof *sample);
    assert_non_null(sample);
    sample->shape[0] = 3;
    sample->shape[1] = UINT64_MAX / 3 - 1;
    sample->fields =
        (HurrayDescriptorFields){.type_tag = HURRAY_TYPE_UINT8, .rank = 2, .shape = sample->shape};
    sample->packing = (HurrayPacking){8, 1, 1};
    sample->value_bytes = 1;
    for (uint64_t i = 0; i < 50; i++) {
        Element *element = &sample->elements[sample->nnz++];
        *element =
            (Element){.index = {i % 3, sample->shape[1] - 1 - i * 37 % 101}, .value = {(uint8_t)i}};
    }
    HurrayLayout coo = {.tag = HURRAY_LAYOUT_COO}, csr = {.tag = HURRAY_LAYOUT_CSR};
    lay_out(sample, &coo);
    check_conversion(&sample->fields, sample->buffers, sample, &csr);
    release(sample);
}

/* Enough elements for many buckets, compared entry by entry with where they came from. */
static void many_elements(void **state) {
    (void)state;
    enum {
        ROWS = 2003,
        COLUMNS = 509,
        COUNT = 200000
    };
    uint64_t shape[2] = {ROWS, COLUMNS};
    uint8_t *indices = malloc((size_t)COUNT * 16), *values = malloc((size_t)COUNT * 4);
    assert_true(indices != NULL && values != NULL);
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t place = i * 611953 % ((uint64_t)ROWS * COLUMNS); /* both prime: none twice */
        store_u64(indices + 16 * i, place / COLUMNS);
        store_u64(indices + 16 * i + 8, place % COLUMNS);
        store_u32(values + 4 * i, (uint32_t)place);
    }
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT32,
        .rank = 2,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_COO, .sparse = {.nnz = COUNT}},
    };
    HurrayBytes buffers[2] = {{values, COUNT * 4}, {indices, COUNT * 16}};
    for (uint32_t major = 0; major < 2; major++) {
        HurrayLayout target = {.tag = major == 0 ? HURRAY_LAYOUT_CSR : HURRAY_LAYOUT_CSC};
        HurraySparseConversion *conversion;
        expect_ok(hurray_sparse_conversion_create(&fields, buffers, &target, &conversion));
        uint8_t *made[3];
        for (uint32_t i = 0; i < 3; i++) {
            made[i] = malloc((size_t)hurray_sparse_conversion_buffer_size(conversion, i));
            assert_non_null(made[i]);
        }
        expect_ok(
            hurray_sparse_conversion_fill(conversion, (void *const[]){made[0], made[1], made[2]}));
        assert_int_equal(load_u64(made[2]), 0);
        assert_int_equal(load_u64(made[2] + shape[major] * 8), COUNT);
        for (uint64_t row = 0; row < shape[major]; row++) {
            uint64_t begin = load_u64(made[2] + row * 8), end = load_u64(made[2] + row * 8 + 8);
            assert_true(begin <= end && end <= COUNT);
            for (uint64_t i = begin; i < end; i++) {
                uint64_t column = load_u64(made[1] + i * 8);
                assert_true(i == begin || load_u64(made[1] + i * 8 - 8) < column);
                uint64_t place = major == 0 ? row * COLUMNS + column : column * COLUMNS + row;
                assert_int_equal(load_u32(made[0] + i * 4), place);
            }
        }
        for (uint32_t i = 0; i < 3; i++) free(made[i]);
        hurray_sparse_conversion_destroy(&conversion);
    }
    free(indices);
    free(values);
}

/* ---- dense ---- */

/* The element at an offset of a dense buffer, read and written bit by bit. */
static void move_element(const HurrayDescriptorFields *fields, HurrayPacking packing,
                         const uint64_t *index, uint8_t *data, uint8_t *value, bool is_put) {
    int64_t offset;
    HurrayElementPlace place;
    expect_ok(hurray_address_offset(fields, index, &offset));
    expect_ok(hurray_address_place(fields, offset, &place));
    for (uint32_t bit = 0; bit < packing.bits; bit++) {
        uint64_t at = place.byte * 8 + place.bit + bit;
        uint8_t mask = (uint8_t)(1u << at % 8), own = (uint8_t)(1u << bit % 8);
        if (is_put) {
            bool is_set = (value[bit / 8] & own) != 0;
            data[at / 8] = (uint8_t)(is_set ? data[at / 8] | mask : data[at / 8] & ~mask);
        } else if ((data[at / 8] & mask) != 0) {
            value[bit / 8] |= own;
        }
    }
}

/* Row-major, column-major or strided with gaps, and some dimensions backward. */
static void random_dense(uint64_t *seed, HurrayDescriptorFields *fields, HurrayPacking packing,
                         int64_t *strides) {
    static const uint8_t tags[] = {HURRAY_LAYOUT_ROW_MAJOR, HURRAY_LAYOUT_COL_MAJOR,
                                   HURRAY_LAYOUT_STRIDED};
    fields->layout = (HurrayLayout){.tag = tags[random_below(seed, 3)]};
    fields->byte_offset = packing.group_bytes * random_below(seed, 3);
    if (fields->layout.tag != HURRAY_LAYOUT_STRIDED) return;
    uint32_t order[MAX_TEST_RANK];
    random_order(seed, fields->rank, order);
    int64_t step = random_between(seed, 1, 2), before = 0;
    for (uint32_t level = fields->rank; level-- > 0;) {
        int64_t extent = (int64_t)fields->shape[order[level]];
        bool is_backward = random_below(seed, 4) == 0;
        strides[order[level]] = is_backward ? -step : step;
        if (extent == 0) continue;
        if (is_backward) before += step * (extent - 1);
        step *= extent + (random_below(seed, 3) == 0);
    }
    fields->layout.strides = strides;
    fields->byte_offset += ((uint64_t)before / packing.group_elements + 1) * packing.group_bytes;
}

static void dense_to_sparse(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (uint32_t round = 0; round < 3000; round++) {
        uint32_t rank = 1 + (uint32_t)random_below(&seed, MAX_TEST_RANK);
        uint32_t order[MAX_TEST_RANK];
        uint64_t shape[MAX_TEST_RANK], size;
        random_shape(&seed, rank, shape);
        Sample *sample =
            make(&seed, &widths[round % WIDTHS], rank, shape, random_below(&seed, 11), false);
        HurrayDescriptorFields dense = sample->fields;
        int64_t strides[MAX_TEST_RANK];
        random_dense(&seed, &dense, sample->packing, strides);
        expect_ok(hurray_descriptor_required_bytes(&dense, 0, &size, NULL));
        uint8_t *block = malloc((size_t)size + 1);
        assert_non_null(block);
        memset(block, 0xFF, (size_t)size + 1); /* gaps and padding hold anything */
        uint64_t count;
        expect_ok(hurray_shape_count(shape, rank, &count));
        for (uint64_t i = 0; i < count; i++) {
            uint64_t index[MAX_TEST_RANK], number = i;
            uint8_t zero[MAX_VALUE] = {0};
            for (uint32_t k = rank; k-- > 0; number /= shape[k]) index[k] = number % shape[k];
            move_element(&dense, sample->packing, index, block + 1, zero, true);
        }
        for (uint64_t i = 0; i < sample->nnz; i++) {
            Element *element = &sample->elements[i];
            move_element(&dense, sample->packing, element->index, block + 1, element->value, true);
        }
        HurrayBytes buffer = {block + 1, size};
        HurrayLayout target = random_layout(&seed, rank, order);
        check_conversion(&dense, &buffer, sample, &target);
        free(block);
        release(sample);
    }
}

/* A broadcast dimension stores its element at each of its indices. */
static void broadcast(void **state) {
    (void)state;
    static const uint64_t shape[2] = {3, 2};
    static const int64_t strides[2] = {0, 1};
    static const uint8_t data[2] = {0, 9};
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 2,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_STRIDED, .strides = strides},
    };
    uint64_t seed = 4;
    Sample *sample = make(&seed, &widths[3], 2, shape, 0, false);
    for (uint64_t row = 0; row < 3; row++) {
        sample->elements[sample->nnz++] = (Element){.index = {row, 1}, .value = {9}};
    }
    HurrayBytes buffer = {data, 2};
    HurrayLayout target = {.tag = HURRAY_LAYOUT_CSR};
    check_conversion(&fields, &buffer, sample, &target);
    release(sample);
}

/* -0.0 and NaN are stored, 0.0 is not. */
static void bits_decide(void **state) {
    (void)state;
    static const uint64_t shape[1] = {4};
    uint8_t data[16] = {0};
    store_u32(data + 4, 0x80000000u);
    store_u32(data + 12, 0x7FC00001u);
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_FLOAT32, .rank = 1, .shape = shape, .layout = {.tag = 1}};
    uint64_t seed = 5;
    Sample *sample = make(&seed, &widths[6], 1, shape, 0, false);
    sample->nnz = 2;
    sample->elements[0] = (Element){.index = {1}, .value = {0, 0, 0, 0x80}};
    sample->elements[1] = (Element){.index = {3}, .value = {1, 0, 0xC0, 0x7F}};
    HurrayBytes buffer = {data, 16};
    HurrayLayout target = {.tag = HURRAY_LAYOUT_COO};
    check_conversion(&fields, &buffer, sample, &target);
    release(sample);
}

static void sparse_to_dense(void **state) {
    (void)state;
    uint64_t seed = 6;
    for (uint32_t round = 0; round < 3000; round++) {
        uint32_t rank = 1 + (uint32_t)random_below(&seed, MAX_TEST_RANK);
        uint32_t order[MAX_TEST_RANK];
        uint64_t shape[MAX_TEST_RANK], size;
        random_shape(&seed, rank, shape);
        Sample *sample =
            make(&seed, &widths[round % WIDTHS], rank, shape, random_below(&seed, 11), true);
        HurrayLayout source = random_layout(&seed, rank, order);
        lay_out(sample, &source);
        HurrayDescriptorFields dense = sample->fields;
        bool is_row_major = random_below(&seed, 2) == 0;
        dense.layout =
            (HurrayLayout){.tag = is_row_major ? HURRAY_LAYOUT_ROW_MAJOR : HURRAY_LAYOUT_COL_MAJOR};
        expect_ok(hurray_descriptor_required_bytes(&dense, 0, &size, NULL));
        uint8_t *expected = calloc(1, (size_t)size + 1), *made = malloc((size_t)size + 1);
        assert_true(expected != NULL && made != NULL);
        for (uint64_t i = 0; i < sample->nnz; i++) {
            Element *element = &sample->elements[i];
            move_element(&dense, sample->packing, element->index, expected, element->value, true);
        }
        bool is_zeroed = random_below(&seed, 2) == 0;
        memset(made, is_zeroed ? 0 : 0xFF, (size_t)size + 1);
        const HurrayLayout *target = is_row_major && round % 2 == 0 ? NULL : &dense.layout;
        if (size != 0) {
            expect_failure(HURRAY_ERR_BUFFER_TOO_SMALL,
                           hurray_sparse_to_dense(&sample->fields, sample->buffers, target,
                                                  is_zeroed, made + 1, size - 1));
        }
        expect_ok(hurray_sparse_to_dense(&sample->fields, sample->buffers, target, is_zeroed,
                                         made + 1, size));
        assert_memory_equal(made + 1, expected, (size_t)size);
        free(expected);
        free(made);
        release(sample);
    }
}

/* ---- the example of spec 2.8 ---- */

static void example(void **state) {
    (void)state;
    static const uint64_t shape[3] = {2, 3, 4};
    static const uint64_t entries[7][5] = {{0},       {0, 2},       {0, 1},      {0, 2, 3},
                                           {0, 2, 1}, {0, 1, 2, 4}, {1, 3, 0, 2}};
    static const uint64_t counts[7] = {0, 2, 2, 3, 3, 4, 4};
    uint8_t dense[24] = {0};
    dense[1] = 1, dense[11] = 2, dense[16] = 3, dense[18] = 4;
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8, .rank = 3, .shape = shape, .layout = {.tag = 1}};
    HurrayBytes buffer = {dense, sizeof dense};
    HurrayLayout target = {.tag = HURRAY_LAYOUT_CSF}; /* no mode_order: dimension 0 first */
    HurraySparseConversion *conversion;
    expect_ok(hurray_sparse_conversion_create(&fields, &buffer, &target, &conversion));
    const HurrayLayout *layout = hurray_sparse_conversion_layout(conversion);
    for (uint32_t level = 0; level < 3; level++) {
        assert_int_equal(layout->sparse.mode_order[level], level);
    }
    uint8_t made[7][40];
    expect_ok(hurray_sparse_conversion_fill(
        conversion,
        (void *const[]){made[0], made[1], made[2], made[3], made[4], made[5], made[6]}));
    assert_memory_equal(made[0], ((const uint8_t[]){1, 2, 3, 4}), 4);
    for (uint32_t i = 1; i < 7; i++) {
        assert_int_equal(hurray_sparse_conversion_buffer_size(conversion, i), counts[i] * 8);
        for (uint64_t e = 0; e < counts[i]; e++) {
            assert_int_equal(load_u64(made[i] + e * 8), entries[i][e]);
        }
    }
    hurray_sparse_conversion_destroy(&conversion);
}

/* ---- what is refused ---- */

/* Converts to everything that there is, and to dense; the last status that was not success. */
static HurrayStatus convert_to_all(const HurrayDescriptorFields *fields,
                                   const HurrayBytes *buffers) {
    static const uint8_t tags[] = {HURRAY_LAYOUT_COO, HURRAY_LAYOUT_CSR, HURRAY_LAYOUT_CSC,
                                   HURRAY_LAYOUT_CSF};
    HurrayStatus worst = HURRAY_OK;
    for (size_t t = 0; t < 4; t++) {
        if (t == 3 ? fields->rank < 3 : t != 0 && fields->rank != 2) continue;
        HurrayLayout target = {.tag = tags[t]};
        HurraySparseConversion *conversion = NULL;
        HurrayStatus status =
            hurray_sparse_conversion_create(fields, buffers, &target, &conversion);
        void *made[MAX_BUFFERS] = {NULL};
        for (uint32_t i = 0; i < hurray_sparse_conversion_buffer_count(conversion); i++) {
            made[i] = malloc((size_t)hurray_sparse_conversion_buffer_size(conversion, i) + 1);
            assert_non_null(made[i]);
        }
        if (status == HURRAY_OK) status = hurray_sparse_conversion_fill(conversion, made);
        for (uint32_t i = 0; i < MAX_BUFFERS; i++) free(made[i]);
        hurray_sparse_conversion_destroy(&conversion);
        if (t != 0 && worst == HURRAY_OK) assert_int_equal(status, HURRAY_OK);
        if (worst != HURRAY_OK) assert_int_equal(status, worst);
        worst = status;
    }
    uint8_t dense[MAX_ELEMENTS * MAX_VALUE];
    HurrayStatus status = hurray_sparse_to_dense(fields, buffers, NULL, false, dense, sizeof dense);
    assert_int_equal(status, worst);
    return status;
}

/* Entry `at` of a buffer replaced, for one conversion of each kind. */
static void expect_fault(Sample *sample, uint32_t buffer, uint64_t at, uint64_t value,
                         HurrayStatus expected, const char *part) {
    uint8_t *entry = sample->blocks[buffer] + 1 + at * 8;
    uint64_t good = load_u64(entry);
    store_u64(entry, value);
    expect_failure(expected, convert_to_all(&sample->fields, sample->buffers));
    expect_message(part);
    store_u64(entry, good);
    expect_ok(convert_to_all(&sample->fields, sample->buffers));
}

static Sample *fixed(uint32_t rank, uint8_t tag, bool is_sorted, const uint64_t *shape,
                     const uint64_t (*tuples)[3], uint64_t nnz) {
    static const uint32_t order[3] = {0, 1, 2};
    uint64_t seed = 7;
    Sample *sample = make(&seed, &widths[3], rank, shape, 0, false);
    for (uint64_t i = 0; i < nnz; i++) {
        Element *element = &sample->elements[sample->nnz++];
        memcpy(element->index, tuples[i], sizeof tuples[i]);
        element->value[0] = (uint8_t)(i + 1);
    }
    HurrayLayout layout = {.tag = tag};
    if (tag == HURRAY_LAYOUT_COO) layout.sparse.is_sorted = is_sorted;
    if (tag == HURRAY_LAYOUT_CSF) layout.sparse.mode_order = order;
    lay_out(sample, &layout);
    return sample;
}

static const uint64_t matrix_shape[2] = {4, 5};
static const uint64_t matrix[5][3] = {{0, 1}, {0, 4}, {2, 0}, {2, 3}, {3, 2}};
static const uint64_t cube_shape[3] = {2, 3, 4};
static const uint64_t cube[4][3] = {{0, 0, 1}, {0, 2, 3}, {1, 1, 0}, {1, 1, 2}};

static void coo_faults(void **state) {
    (void)state;
    static const uint64_t jumbled[5][3] = {{2, 3}, {0, 1}, {3, 2}, {0, 4}, {2, 0}};
    Sample *sample = fixed(2, HURRAY_LAYOUT_COO, false, matrix_shape, jumbled, 5);
    expect_fault(sample, 1, 4, 4, HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                 "indices[4] is 4; expected less than 4");
    expect_fault(sample, 1, 9, UINT64_MAX, HURRAY_ERR_INDEX_OUT_OF_BOUNDS, "indices[9] is 184467");
    expect_fault(sample, 1, 9, 3, HURRAY_ERR_INVALID_LAYOUT, "tuple 4 is"); /* (2, 3) again */
    HurrayLayout csr = {.tag = HURRAY_LAYOUT_CSR};
    store_u64(sample->blocks[1] + 1 + 72, 3);
    HurraySparseConversion *conversion;
    uint8_t made[3][64];
    expect_ok(hurray_sparse_conversion_create(&sample->fields, sample->buffers, &csr, &conversion));
    expect_failure(
        HURRAY_ERR_INVALID_LAYOUT,
        hurray_sparse_conversion_fill(conversion, (void *const[]){made[0], made[1], made[2]}));
    expect_message("tuple 4 is [2, 3], as is tuple 0");
    hurray_sparse_conversion_destroy(&conversion);
    release(sample);

    sample = fixed(2, HURRAY_LAYOUT_COO, true, matrix_shape, matrix, 5);
    expect_fault(sample, 1, 3, 0, HURRAY_ERR_INVALID_LAYOUT, "tuple 1"); /* (0,1) (0,0) */
    expect_fault(sample, 1, 3, 1, HURRAY_ERR_INVALID_LAYOUT, "tuple 1"); /* twice */
    expect_fault(sample, 1, 6, 0, HURRAY_ERR_INVALID_LAYOUT, "is_sorted is 1");
    release(sample);
}

/* Two values of one index that are read a long time after one another. */
static void duplicates_far_apart(void **state) {
    (void)state;
    enum {
        NNZ = 3000
    };
    const uint64_t shape[2] = {7, 1000};
    const HurrayLayout targets[] = {{.tag = HURRAY_LAYOUT_CSR}, {.tag = HURRAY_LAYOUT_CSC}};
    static uint8_t values[NNZ], indices[NNZ * 16], made[3][NNZ * 8 + 8];
    for (uint64_t i = 0; i < NNZ; i++) { /* backwards, so that they are not in order either way */
        store_u64(indices + i * 16, (NNZ - 1 - i) / 1000);
        store_u64(indices + i * 16 + 8, (NNZ - 1 - i) % 1000);
    }
    memcpy(indices + 16 * 2900, indices + 16 * 17, 16);
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 2,
        .shape = shape,
        .layout = {HURRAY_LAYOUT_COO, {.sparse = {.nnz = NNZ}}},
    };
    const HurrayBytes buffers[] = {{values, NNZ}, {indices, sizeof indices}};
    for (size_t t = 0; t < 2; t++) {
        HurraySparseConversion *conversion;
        expect_ok(hurray_sparse_conversion_create(&fields, buffers, &targets[t], &conversion));
        expect_failure(
            HURRAY_ERR_INVALID_LAYOUT,
            hurray_sparse_conversion_fill(conversion, (void *const[]){made[0], made[1], made[2]}));
        expect_message("tuple 2900");
        expect_message("tuple 17");
        hurray_sparse_conversion_destroy(&conversion);
    }
}

/* Of many values, so that threads share the work: whatever their number, the bytes are the same, and so
 * is what is said of the first of several rows that have an index twice. */
static void threads_build_as_one_does(void **state) {
    (void)state;
    enum {
        NNZ = 530000,
        PRIME = 530017 /* i · 48271 modulo PRIME differ */
    };
    const uint64_t shape[2] = {9000, 59};
    const HurrayLayout targets[] = {{.tag = HURRAY_LAYOUT_CSR}, {.tag = HURRAY_LAYOUT_CSC}};
    uint8_t *values = malloc(NNZ), *indices = malloc(NNZ * 16), *made[2][3];
    size_t sizes[3] = {NNZ, NNZ * 8, 0};
    assert_true(values != NULL && indices != NULL);
    for (uint64_t i = 0; i < NNZ; i++) {
        uint64_t place = i * 48271 % PRIME;
        store_u64(indices + i * 16, place % 9000);
        store_u64(indices + i * 16 + 8, place / 9000);
        values[i] = (uint8_t)place;
    }
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 2,
        .shape = shape,
        .layout = {HURRAY_LAYOUT_COO, {.sparse = {.nnz = NNZ}}},
    };
    const HurrayBytes buffers[] = {{values, NNZ}, {indices, NNZ * 16}};
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t b = 0; b < 3; b++) {
            made[i][b] = malloc(NNZ * 8);
            assert_non_null(made[i][b]);
        }
    }
    for (size_t t = 0; t < 4; t++) {
        char message[200] = "";
        sizes[2] = ((size_t)shape[t % 2] + 1) * 8;
        if (t == 2) {
            memcpy(indices + 16 * 400000, indices + 16 * 17, 16);
            memcpy(indices + 16 * 500000, indices + 16 * 23, 16);
        }
        for (uint32_t threads = 1; threads < 5; threads++) {
            HurraySparseConversion *conversion;
            uint8_t **out = made[threads != 1];
            hurray_set_max_threads(threads);
            expect_ok(
                hurray_sparse_conversion_create(&fields, buffers, &targets[t % 2], &conversion));
            HurrayStatus status =
                hurray_sparse_conversion_fill(conversion, (void *const[]){out[0], out[1], out[2]});
            assert_int_equal(status, t < 2 ? HURRAY_OK : HURRAY_ERR_INVALID_LAYOUT);
            for (uint32_t b = 0; t < 2 && b < 3; b++) {
                assert_memory_equal(out[b], made[0][b], sizes[b]);
            }
            if (threads == 1) snprintf(message, sizeof message, "%s", hurray_error_message());
            if (t >= 2) assert_string_equal(hurray_error_message(), message);
            hurray_sparse_conversion_destroy(&conversion);
        }
        for (uint64_t i = 0; t == 0 && i + 1 < 9000; i++) { /* rows end where the next one begins */
            assert_true(load_u64(made[0][2] + 8 * i) < load_u64(made[0][2] + 8 * i + 8));
        }
    }
    hurray_set_max_threads(0);
    for (uint32_t i = 0; i < 6; i++) free(made[i / 3][i % 3]);
    free(values);
    free(indices);
}

/* Bytes that change after sizes were told: a tree that grows is noticed before it leaves its room. */
static void bytes_that_change_on_the_way(void **state) {
    (void)state;
    static const uint64_t before[4][3] = {{0, 0, 1}, {0, 0, 2}, {0, 0, 3}, {1, 1, 2}};
    static const uint64_t after[4][3] = {{0, 0, 1}, {0, 1, 2}, {0, 2, 3}, {1, 1, 2}};
    Sample *sample = fixed(3, HURRAY_LAYOUT_COO, true, cube_shape, before, 4);
    HurrayLayout csf = {.tag = HURRAY_LAYOUT_CSF};
    HurraySparseConversion *conversion;
    expect_ok(hurray_sparse_conversion_create(&sample->fields, sample->buffers, &csf, &conversion));
    void *made[7];
    for (uint32_t i = 0; i < 7; i++) {
        made[i] = malloc((size_t)hurray_sparse_conversion_buffer_size(conversion, i));
        assert_non_null(made[i]);
    }
    expect_ok(hurray_sparse_conversion_fill(conversion, made));
    for (uint64_t i = 0; i < 12; i++) {
        store_u64(sample->blocks[1] + 1 + i * 8, after[i / 3][i % 3]);
    }
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_sparse_conversion_fill(conversion, made));
    expect_message("stay as they are");
    for (uint32_t i = 0; i < 7; i++) free(made[i]);
    hurray_sparse_conversion_destroy(&conversion);
    release(sample);
}

static void compressed_faults(void **state) {
    (void)state;
    for (int is_csc = 0; is_csc < 2; is_csc++) {
        Sample *sample = fixed(2, HURRAY_LAYOUT_CSR, true, matrix_shape, matrix, 5);
        if (is_csc) { /* the transposed matrix: the same buffers */
            sample->fields.layout.tag = HURRAY_LAYOUT_CSC;
            sample->shape[0] = 5, sample->shape[1] = 4;
        }
        const char *indices = is_csc ? "row_indices" : "col_indices";
        char expected[80];
        snprintf(expected, sizeof expected, "%s[3] is 5; expected less than 5", indices);
        expect_fault(sample, 1, 3, 5, HURRAY_ERR_INDEX_OUT_OF_BOUNDS, expected);
        snprintf(expected, sizeof expected, "%s[1] is 1; expected more than the 1", indices);
        expect_fault(sample, 1, 1, 1, HURRAY_ERR_INVALID_LAYOUT, expected);
        expect_fault(sample, 1, 1, 0, HURRAY_ERR_INVALID_LAYOUT, "[1] is 0");
        /* pointers 0 2 2 4 5 */
        expect_fault(sample, 2, 0, 1, HURRAY_ERR_INVALID_LAYOUT, "_ptr[0] is 1; expected 0");
        expect_fault(sample, 2, 3, 1, HURRAY_ERR_INVALID_LAYOUT, "_ptr[3] is 1; expected 2 ... 5");
        expect_fault(sample, 2, 1, UINT64_MAX, HURRAY_ERR_INVALID_LAYOUT, "_ptr[1] is 1844674");
        expect_fault(sample, 2, 4, 4, HURRAY_ERR_INVALID_LAYOUT, "_ptr ends at 4; expected nnz, 5");
        expect_fault(sample, 2, 4, 6, HURRAY_ERR_INVALID_LAYOUT, "_ptr[4] is 6");
        release(sample);
    }
}

static void csf_faults(void **state) {
    (void)state;
    Sample *sample = fixed(3, HURRAY_LAYOUT_CSF, true, cube_shape, cube, 4);
    expect_fault(sample, 1, 0, 1, HURRAY_ERR_INVALID_LAYOUT, "pos_0[0] is 1; expected 0");
    expect_fault(sample, 1, 1, 1, HURRAY_ERR_INVALID_LAYOUT, "pos_2 ends at 2; expected nnz, 4");
    expect_fault(sample, 1, 1, 3, HURRAY_ERR_INVALID_LAYOUT, "pos_0[1] is 3");
    expect_fault(sample, 2, 1, 0, HURRAY_ERR_INVALID_LAYOUT, "crd_0[1] is 0; expected more");
    expect_fault(sample, 2, 1, 2, HURRAY_ERR_INDEX_OUT_OF_BOUNDS, "crd_0[1] is 2; expected less");
    expect_fault(sample, 3, 1, UINT64_MAX, HURRAY_ERR_INVALID_LAYOUT, "pos_1[1] is 1844");
    expect_fault(sample, 3, 1, 3, HURRAY_ERR_INVALID_LAYOUT, "crd_1[2] is 1; expected more");
    expect_fault(sample, 3, 1, 0, HURRAY_ERR_INVALID_LAYOUT, "crd_1[2] is 1; expected more");
    expect_fault(sample, 4, 1, 0, HURRAY_ERR_INVALID_LAYOUT, "crd_1[1] is 0; expected more");
    expect_fault(sample, 5, 2, 0, HURRAY_ERR_INVALID_LAYOUT, "pos_2[2] is 0");
    expect_fault(sample, 6, 3, 4, HURRAY_ERR_INDEX_OUT_OF_BOUNDS, "crd_2[3] is 4");
    expect_fault(sample, 6, 3, 0, HURRAY_ERR_INVALID_LAYOUT, "crd_2[3] is 0; expected more");
    /* Inner buffers may be shorter than what pointers need: the descriptor does not know. */
    HurrayBytes whole = sample->buffers[3];
    sample->buffers[3].size = 16;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, convert_to_all(&sample->fields, sample->buffers));
    expect_message("pos_1 holds 2 entries; entry 2 is needed");
    sample->buffers[3].size = 0;
    sample->buffers[3].data = NULL;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, convert_to_all(&sample->fields, sample->buffers));
    sample->buffers[3] = whole;
    release(sample);
}

/* Any entry of any buffer, and any length, replaced by anything: an answer, and nothing else. */
static void hostile_entries(void **state) {
    (void)state;
    uint64_t seed = 8;
    for (uint32_t round = 0; round < 4000; round++) {
        uint32_t rank = 1 + (uint32_t)random_below(&seed, 4), order[MAX_TEST_RANK];
        uint64_t shape[MAX_TEST_RANK];
        for (uint32_t k = 0; k < rank; k++) shape[k] = 1 + random_below(&seed, 4);
        Sample *sample = make(&seed, &widths[3], rank, shape, 5, true);
        HurrayLayout layout = random_layout(&seed, rank, order);
        lay_out(sample, &layout);
        for (int change = 0; change < 2; change++) {
            uint32_t i = 1 + (uint32_t)random_below(&seed, own_buffers(sample) - 1);
            uint64_t entries = sample->buffers[i].size / 8;
            if (entries == 0) continue;
            uint64_t value = random_below(&seed, 6);
            if (random_below(&seed, 4) == 0) value = random_u64(&seed);
            store_u64(sample->blocks[i] + 1 + random_below(&seed, entries) * 8, value);
            if (random_below(&seed, 8) != 0) continue;
            uint8_t *shorter = malloc((size_t)sample->buffers[i].size);
            assert_non_null(shorter);
            uint64_t size = random_below(&seed, sample->buffers[i].size);
            memcpy(shorter, sample->blocks[i] + 1, (size_t)size);
            give_bytes(sample, i, shorter, size);
            free(shorter);
        }
        convert_to_all(&sample->fields, sample->buffers);
        release(sample);
    }
}

static HurrayStatus create(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                           const HurrayLayout *target) {
    HurraySparseConversion *conversion = (HurraySparseConversion *)(uintptr_t)0x77;
    HurrayStatus status = hurray_sparse_conversion_create(fields, buffers, target, &conversion);
    if (status != HURRAY_OK) assert_ptr_equal(conversion, (void *)(uintptr_t)0x77);
    if (status == HURRAY_OK) hurray_sparse_conversion_destroy(&conversion);
    return status;
}

static void refusals(void **state) {
    (void)state;
    Sample *sample = fixed(3, HURRAY_LAYOUT_CSF, true, cube_shape, cube, 4);
    HurrayDescriptorFields fields = sample->fields;
    HurrayLayout target = {.tag = HURRAY_LAYOUT_CSR};
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, create(&fields, sample->buffers, &target));
    expect_message("rank 3 with target layout csr; expected 2 ... 2");
    uint32_t order[3] = {0, 1, 1};
    target = (HurrayLayout){.tag = HURRAY_LAYOUT_CSF, .sparse = {.mode_order = order}};
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, create(&fields, sample->buffers, &target));
    expect_message("mode_order[2] is 1");
    order[2] = 3;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, create(&fields, sample->buffers, &target));
    target.tag = HURRAY_LAYOUT_TILED;
    expect_failure(HURRAY_ERR_UNSUPPORTED, create(&fields, sample->buffers, &target));
    uint8_t dense[24];
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_sparse_to_dense(&fields, sample->buffers, &target,
                                                                  false, dense, sizeof dense));
    target = (HurrayLayout){.tag = HURRAY_LAYOUT_COO};
    expect_failure(HURRAY_ERR_NULL_POINTER, create(NULL, sample->buffers, &target));
    expect_failure(HURRAY_ERR_NULL_POINTER, create(&fields, NULL, &target));
    expect_failure(HURRAY_ERR_NULL_POINTER, create(&fields, sample->buffers, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_sparse_conversion_create(&fields, sample->buffers, &target, NULL));
    fields.layout.tag = HURRAY_LAYOUT_BLOCK_PAGED;
    expect_failure(HURRAY_ERR_UNSUPPORTED, create(&fields, sample->buffers, &target));
    fields.layout = (HurrayLayout){.tag = HURRAY_LAYOUT_ROW_MAJOR};
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_sparse_to_dense(&fields, sample->buffers, NULL,
                                                                  false, dense, sizeof dense));
    fields = sample->fields;
    uint64_t dynamic[3] = {2, HURRAY_DYNAMIC, 4};
    fields.shape = dynamic;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, create(&fields, sample->buffers, &target));
    expect_message("shape[1] is dynamic");
    HurrayBytes values = sample->buffers[0];
    sample->buffers[0].size = 3;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, create(&sample->fields, sample->buffers, &target));
    expect_message("values, buffer 0, has 3 bytes; expected at least 4");
    sample->buffers[0] = (HurrayBytes){NULL, 4};
    expect_failure(HURRAY_ERR_NULL_POINTER, create(&sample->fields, sample->buffers, &target));
    sample->buffers[0] = values;
    HurraySparseConversion *conversion;
    expect_ok(
        hurray_sparse_conversion_create(&sample->fields, sample->buffers, &target, &conversion));
    void *none[2] = {dense, NULL};
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_sparse_conversion_fill(conversion, none));
    expect_message("destinations[1] is NULL; expected room for 96 bytes");
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_sparse_conversion_fill(conversion, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_sparse_conversion_fill(NULL, none));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_sparse_to_dense(&sample->fields, sample->buffers, NULL, false, NULL, 24));
    hurray_sparse_conversion_destroy(&conversion);
    hurray_sparse_conversion_destroy(&conversion);
    hurray_sparse_conversion_destroy(NULL);
    assert_null(hurray_sparse_conversion_layout(NULL));
    release(sample);
}

/* ---- tensors ---- */

static int allocations, allowed;

static void *count_allocate(size_t size, size_t alignment, bool zeroed, void *context) {
    (void)context;
    if (allowed-- == 0) return NULL;
    allocations++;
    return hurray_aligned_alloc(size, alignment, zeroed);
}

static void count_release(void *data, size_t size, void *context) {
    (void)size, (void)context;
    allocations--;
    hurray_aligned_free(data);
}

static HurrayTensor *tensor_of(const Sample *sample, const HurrayQuantization *quantization,
                               const HurrayShard *shard) {
    HurrayDescriptorFields fields = sample->fields;
    HurrayBuffer *buffers[MAX_BUFFERS];
    fields.buffer_count = own_buffers(sample);
    fields.quantization = quantization;
    fields.shard = shard;
    for (uint32_t i = 0; i < fields.buffer_count; i++) {
        uint64_t size = sample->buffers[i].size;
        expect_ok(hurray_buffer_allocate(size, false, NULL, &buffers[i]));
        void *data = hurray_buffer_info(buffers[i])->data;
        if (size != 0) memcpy(data, sample->buffers[i].data, (size_t)size);
    }
    HurrayTensor *tensor = NULL;
    expect_ok(hurray_tensor_create(&fields, buffers, &tensor));
    return tensor;
}

/* Through every layout and back to the first; every data allocation in turn fails. */
static void tensors(void **state) {
    (void)state;
    static const uint8_t tags[] = {HURRAY_LAYOUT_CSC, HURRAY_LAYOUT_COO, HURRAY_LAYOUT_CSR};
    const HurrayAllocator counting = {count_allocate, count_release, NULL};
    HurrayQuantization scheme = {
        .scheme = HURRAY_SCHEME_PER_TENSOR, .scale = 0.5f, .zero_point = 3};
    Sample *sample = fixed(2, HURRAY_LAYOUT_CSR, true, matrix_shape, matrix, 5);
    HurrayTensor *first = tensor_of(sample, &scheme, NULL), *tensor = hurray_tensor_retain(first);
    allocations = 0;
    for (size_t t = 0; t < 6; t++) {
        HurrayTensor *next = NULL;
        HurrayLayout target = {.tag = tags[t % 3]};
        bool is_dense = t == 3; /* a detour */
        target.tag = is_dense ? HURRAY_LAYOUT_COL_MAJOR : target.tag;
        int before = allocations;
        HurrayStatus status = HURRAY_ERR_OUT_OF_MEMORY;
        for (int failing = 0; status == HURRAY_ERR_OUT_OF_MEMORY; failing++) {
            assert_true(failing < 5);
            allowed = failing;
            status = is_dense ? hurray_tensor_to_dense(tensor, &target, &counting, &next)
                              : hurray_tensor_to_sparse(tensor, &target, &counting, &next);
            if (status != HURRAY_OK) assert_int_equal(allocations, before);
            if (status != HURRAY_OK) assert_null(next);
        }
        expect_ok(status);
        hurray_tensor_release(tensor);
        tensor = next;
        assert_float_equal(hurray_tensor_fields(tensor)->quantization->scale, 0.5f, 0);
    }
    assert_true(hurray_tensor_fields(tensor)->layout.tag == HURRAY_LAYOUT_CSR);
    for (uint32_t i = 0; i < 3; i++) {
        const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, i));
        assert_int_equal(info->byte_size, sample->buffers[i].size);
        assert_memory_equal(info->data, sample->buffers[i].data, (size_t)info->byte_size);
    }
    hurray_tensor_release(tensor);
    hurray_tensor_release(first);
    assert_int_equal(allocations, 0);
    release(sample);
}

static void tensor_refusals(void **state) {
    (void)state;
    HurrayTensor *out = NULL;
    HurrayLayout target = {.tag = HURRAY_LAYOUT_COO};
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_to_sparse(NULL, &target, NULL, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_to_dense(NULL, NULL, NULL, &out));

    Sample *sample = fixed(2, HURRAY_LAYOUT_CSR, true, matrix_shape, matrix, 5);
    HurrayTensor *tensor = tensor_of(sample, NULL, NULL);
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_to_sparse(tensor, NULL, NULL, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_to_sparse(tensor, &target, NULL, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_to_dense(tensor, NULL, NULL, NULL));
    HurrayLayout morton = {.tag = HURRAY_LAYOUT_MORTON};
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_tensor_to_dense(tensor, &morton, NULL, &out));
    hurray_tensor_release(tensor);
    release(sample);

    /* Scales for parts of the tensor. */
    static const uint64_t shape[2] = {2, 2};
    HurrayQuantization scheme = {.scheme = HURRAY_SCHEME_PER_CHANNEL,
                                 .scale_type = HURRAY_TYPE_FLOAT32,
                                 .scale_buffer = 1,
                                 .zero_point_buffer = HURRAY_NO_BUFFER};
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_INT8,
        .rank = 2,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_ROW_MAJOR},
        .buffer_count = 2,
        .quantization = &scheme,
    };
    HurrayBuffer *buffers[2];
    expect_ok(hurray_buffer_allocate(4, true, NULL, &buffers[0]));
    expect_ok(hurray_buffer_allocate(8, true, NULL, &buffers[1]));
    expect_ok(hurray_tensor_create(&fields, buffers, &tensor));
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_tensor_to_sparse(tensor, &target, NULL, &out));
    expect_message("per_channel");
    hurray_tensor_release(tensor);

    /* A shard may be anything but CSF. */
    static const uint64_t parent[3] = {4, 4, 4}, offset[3] = {0, 1, 0};
    HurrayShard shard = {parent, offset};
    sample = fixed(3, HURRAY_LAYOUT_COO, true, cube_shape, cube, 4);
    tensor = tensor_of(sample, NULL, &shard);
    HurrayLayout csf = {.tag = HURRAY_LAYOUT_CSF};
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_tensor_to_sparse(tensor, &csf, NULL, &out));
    expect_message("shard");
    expect_ok(hurray_tensor_to_dense(tensor, NULL, NULL, &out));
    assert_int_equal(hurray_tensor_fields(out)->shard->shard_offset[1], 1);
    hurray_tensor_release(out);
    hurray_tensor_release(tensor);
    release(sample);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sparse_to_sparse),
        cmocka_unit_test(long_rows),
        cmocka_unit_test(large_extents),
        cmocka_unit_test(wide_matrix),
        cmocka_unit_test(many_elements),
        cmocka_unit_test(dense_to_sparse),
        cmocka_unit_test(broadcast),
        cmocka_unit_test(bits_decide),
        cmocka_unit_test(sparse_to_dense),
        cmocka_unit_test(example),
        cmocka_unit_test(duplicates_far_apart),
        cmocka_unit_test(threads_build_as_one_does),
        cmocka_unit_test(bytes_that_change_on_the_way),
        cmocka_unit_test(coo_faults),
        cmocka_unit_test(compressed_faults),
        cmocka_unit_test(csf_faults),
        cmocka_unit_test(hostile_entries),
        cmocka_unit_test(refusals),
        cmocka_unit_test(tensors),
        cmocka_unit_test(tensor_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
