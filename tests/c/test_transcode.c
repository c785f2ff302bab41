/*
 * Strided copies, packing and unpacking: compared with a loop over all indices, on random shapes
 * and strides, in buffers that end where the last element does.
 */
#include "guarded.h"

#include <hurray/parallel.h>
#include <hurray/shape.h>
#include <hurray/transcode.h>

static uint64_t seed = 2;

/* ---- random arrangements ---- */

typedef struct Arrangement {
    int64_t strides[HURRAY_MAX_RANK];
    int64_t lowest, highest; /* positions of the outermost elements; [0, …, 0] is at 0 */
} Arrangement;

static uint64_t element_count(uint32_t rank, const uint64_t *shape) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) count *= shape[i];
    return count;
}

/* Position of the element with this row-major number. */
static int64_t position_of(uint32_t rank, const uint64_t *shape, const int64_t *strides,
                           uint64_t number) {
    int64_t position = 0;
    for (uint32_t i = rank; i > 0; i--) {
        position += (int64_t)(number % shape[i - 1]) * strides[i - 1];
        number /= shape[i - 1];
    }
    return position;
}

/* Up to rank 6; mostly small, now and then with an axis or two that fill whole tiles. */
static uint32_t random_shape(uint64_t *shape) {
    uint32_t rank = (uint32_t)random_below(&seed, 7);
    for (uint32_t i = 0; i < rank; i++) shape[i] = 1 + random_below(&seed, rank > 4 ? 4 : 7);
    if (rank > 0 && rank <= 3 && random_below(&seed, 3) == 0) {
        shape[random_below(&seed, rank)] = 50 + random_below(&seed, 300);
        shape[random_below(&seed, rank)] = 30 + random_below(&seed, 200);
    }
    if (rank > 0 && random_below(&seed, 40) == 0) shape[random_below(&seed, rank)] = 0;
    return rank;
}

static void measure(uint32_t rank, const uint64_t *shape, Arrangement *out) {
    out->lowest = out->highest = 0;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t reach = shape[i] == 0 ? 0 : (int64_t)(shape[i] - 1) * out->strides[i];
        *(reach < 0 ? &out->lowest : &out->highest) += reach;
    }
}

/*
 * Axes in any order, dense or with gaps, some of them backwards. No two elements meet, unless
 * strides of zero are asked for. Axes of extent 1 may have any stride.
 */
static void arrange(uint32_t rank, const uint64_t *shape, bool with_zeros, Arrangement *out) {
    uint32_t order[HURRAY_MAX_RANK];
    int64_t step = 1;
    bool keep_order = random_below(&seed, 3) == 0, has_gaps = random_below(&seed, 2) == 0;
    for (uint32_t i = 0; i < rank; i++) order[i] = rank - 1 - i;
    for (uint32_t i = rank; !keep_order && i > 1; i--) {
        uint32_t other = (uint32_t)random_below(&seed, i), axis = order[i - 1];
        order[i - 1] = order[other];
        order[other] = axis;
    }
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t axis = order[i];
        if (has_gaps && random_below(&seed, 3) == 0) step += random_between(&seed, 0, 3);
        out->strides[axis] = random_below(&seed, 6) == 0 ? -step : step;
        if (shape[axis] > 1) step *= (int64_t)shape[axis];
        if (with_zeros && random_below(&seed, 8) == 0) out->strides[axis] = 0;
        if (shape[axis] == 1 && random_below(&seed, 2) == 0) {
            out->strides[axis] = (int64_t)random_u64(&seed);
        }
    }
    measure(rank, shape, out);
}

/* ---- whole-byte elements ---- */

static void check_copy(uint32_t rank, const uint64_t *shape, uint32_t element_bytes,
                       const Arrangement *from, const Arrangement *to) {
    size_t size = element_bytes;
    uint64_t count = element_count(rank, shape);
    size_t source_size = count == 0 ? 0 : (size_t)(from->highest - from->lowest + 1) * size;
    size_t destination_size = count == 0 ? 0 : (size_t)(to->highest - to->lowest + 1) * size;
    Guarded source = guarded(&seed, source_size), destination = guarded(&seed, destination_size);
    uint8_t *expected = malloc(destination_size + 1);
    assert_non_null(expected);
    fill_randomly(&seed, source.data, source_size);
    memset(expected, CANARY, destination_size);
    for (uint64_t i = 0; i < count; i++) {
        int64_t source_at = position_of(rank, shape, from->strides, i) - from->lowest;
        int64_t destination_at = position_of(rank, shape, to->strides, i) - to->lowest;
        memcpy(expected + (size_t)destination_at * size, source.data + (size_t)source_at * size,
               size);
    }
    const uint8_t *first = count == 0 ? NULL : source.data - from->lowest * (int64_t)size;
    uint8_t *second = count == 0 ? NULL : destination.data - to->lowest * (int64_t)size;
    expect_ok(
        hurray_copy_strided(rank, shape, element_bytes, first, from->strides, second, to->strides));
    assert_memory_equal(destination.data, expected, destination_size);
    free(expected);
    release_guarded(&source);
    release_guarded(&destination);
}

static void copies_agree_with_a_loop(void **state) {
    (void)state;
    for (int round = 0; round < 12000; round++) {
        static const uint32_t sizes[] = {1, 2, 4, 8, 16};
        uint64_t shape[HURRAY_MAX_RANK];
        uint32_t rank = random_shape(shape);
        uint32_t size =
            round % 3 == 0 ? 1 + (uint32_t)random_below(&seed, 40) : sizes[random_below(&seed, 5)];
        Arrangement from = {.lowest = 0}, to = {.lowest = 0};
        arrange(rank, shape, random_below(&seed, 2) == 0, &from);
        arrange(rank, shape, random_below(&seed, 4) == 0, &to);
        check_copy(rank, shape, size, &from, &to);
    }
}

/* Sizes around those of tiles, dense, so that whole tiles and what is left of them meet. */
static void transpositions_agree_with_a_loop(void **state) {
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 4, 8, 12, 16};
    static const uint64_t extents[] = {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200};
    for (int round = 0; round < 600; round++) {
        uint64_t shape[2] = {extents[random_below(&seed, 12)], extents[random_below(&seed, 12)]};
        Arrangement from = {.strides = {1, (int64_t)shape[0]}};
        Arrangement to = {.strides = {(int64_t)shape[1], 1}};
        measure(2, shape, &from);
        measure(2, shape, &to);
        check_copy(2, shape, sizes[random_below(&seed, 7)], &from, &to);
    }
}

/* ---- large arrays ---- */

enum {
    MOST_THREADS = 5
};

/* Enough for threads to share; of extents that they cannot share evenly. The strides of the source, and
 * those of the destination where it is not row-major. */
typedef struct Large {
    uint32_t rank, size;
    uint64_t shape[3];
    int64_t from[3], to[3];
} Large;

static const Large large_arrays[] = {
    {1, 1, {(4 << 20) + 13}, {1}, {1}},
    {2, 4, {1100, 1031}, {1, 1100}, {1031, 1}},
    {3, 4, {3, 701, 600}, {1, 1800, 3}, {420600, 600, 1}},
    {3, 8, {5, 7, 20011}, {1, 5, 35}, {140077, 20011, 1}},
    {2, 2, {2000, 1301}, {0, 1}, {1310, 1}},
    {2, 1, {3001, 1500}, {1500, 1}, {1, 0}}, /* where elements meet there is an order */
};

static void threads_copy_as_one_does(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof large_arrays / sizeof large_arrays[0]; i++) {
        const Large *array = &large_arrays[i];
        Arrangement from = {.lowest = 0}, to = {.lowest = 0};
        for (uint32_t k = 0; k < array->rank; k++) {
            from.strides[k] = array->from[k];
            to.strides[k] = k == i % array->rank ? -array->to[k] : array->to[k];
        }
        measure(array->rank, array->shape, &from);
        measure(array->rank, array->shape, &to);
        for (uint32_t threads = 1; threads <= MOST_THREADS; threads++) {
            hurray_set_max_threads(threads);
            check_copy(array->rank, array->shape, array->size, &from, &to);
        }
    }
    hurray_set_max_threads(0);
}

static void rank_64(void **state) {
    (void)state;
    for (int round = 0; round < 200; round++) {
        uint64_t shape[HURRAY_MAX_RANK];
        Arrangement from = {.lowest = 0}, to = {.lowest = 0};
        uint64_t twos = 0;
        for (uint32_t i = 0; i < HURRAY_MAX_RANK; i++) {
            bool is_two = twos < 12 && random_below(&seed, 5) == 0;
            shape[i] = is_two ? 2 : 1;
            twos += is_two;
        }
        arrange(HURRAY_MAX_RANK, shape, true, &from);
        arrange(HURRAY_MAX_RANK, shape, false, &to);
        check_copy(HURRAY_MAX_RANK, shape, 4, &from, &to);
    }
}

static void a_scalar_needs_no_arrays(void **state) {
    (void)state;
    const uint64_t value = 0x0123456789ABCDEF;
    uint64_t copy = 0;
    uint8_t packed = CANARY, byte = CANARY;
    HurrayPacking bits = {4, 2, 1};
    expect_ok(hurray_copy_strided(0, NULL, 8, &value, NULL, &copy, NULL));
    assert_true(copy == value);
    expect_ok(hurray_pack_strided(0, NULL, bits, (const uint8_t *)"\x0E", NULL, &packed));
    assert_int_equal(packed, 0x0E);
    expect_ok(hurray_unpack_strided(0, NULL, bits, true, &packed, NULL, &byte));
    assert_int_equal(byte, 0xFE);
}

static void the_last_element_stays_where_the_destination_stands_still(void **state) {
    (void)state;
    const uint64_t shape[] = {3, 4};
    const int64_t forward[] = {4, 1}, backward[] = {-4, -1}, still[] = {0, 0};
    const uint8_t source[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    uint8_t out[1];
    expect_ok(hurray_copy_strided(2, shape, 1, source, forward, out, still));
    assert_int_equal(out[0], 11);
    expect_ok(hurray_copy_strided(2, shape, 1, source + 11, backward, out, still));
    assert_int_equal(out[0], 0);
}

/* ---- packed elements ---- */

static HurrayPacking random_packing(void) {
    static const uint32_t widths[] = {1, 2, 4, 6};
    HurrayPacking packing;
    expect_ok(hurray_packing_from_bits(widths[random_below(&seed, 4)], &packing));
    return packing;
}

/* Bit by bit: groups of 6-bit elements follow each other without a gap. */
static uint8_t element_at(const uint8_t *packed, uint32_t bits, bool sign_extend,
                          uint64_t position) {
    int value = 0;
    for (uint32_t j = 0; j < bits; j++) {
        uint64_t at = position * bits + j;
        value |= (packed[at / 8] >> at % 8 & 1) << j;
    }
    if (sign_extend && value >= 1 << (bits - 1)) value -= 1 << bits;
    return (uint8_t)value;
}

static void check_unpack(uint32_t rank, const uint64_t *shape, const Arrangement *from) {
    HurrayPacking packing = random_packing();
    bool sign_extend = random_below(&seed, 2) == 0;
    size_t count = (size_t)element_count(rank, shape), group = packing.group_elements;
    /* Groups before that of element [0, …, 0], which begins one, and all. */
    size_t before = count == 0 ? 0 : ((size_t)-from->lowest + group - 1) / group;
    size_t groups = count == 0 ? 0 : before + (size_t)from->highest / group + 1;
    Guarded source = guarded(&seed, groups * packing.group_bytes), values = guarded(&seed, count);
    fill_randomly(&seed, source.data, source.size);
    const uint8_t *first = count == 0 ? NULL : source.data + before * packing.group_bytes;
    expect_ok(hurray_unpack_strided(rank, shape, packing, sign_extend, first, from->strides,
                                    count == 0 ? NULL : values.data));
    for (size_t i = 0; i < count; i++) {
        int64_t at = (int64_t)(before * group) + position_of(rank, shape, from->strides, i);
        assert_int_equal(values.data[i],
                         element_at(source.data, packing.bits, sign_extend, (uint64_t)at));
    }
    release_guarded(&source);
    release_guarded(&values);
}

static void check_pack(uint32_t rank, const uint64_t *shape, const Arrangement *from) {
    HurrayPacking packing = random_packing();
    uint64_t count = element_count(rank, shape), size;
    expect_ok(hurray_packing_size(packing, count, &size));
    size_t value_count = count == 0 ? 0 : (size_t)(from->highest - from->lowest + 1);
    Guarded values = guarded(&seed, value_count), packed = guarded(&seed, (size_t)size);
    fill_randomly(&seed, values.data, value_count);
    if (packing.bits == 1) fill_sparsely(&seed, values.data, value_count);
    expect_ok(hurray_pack_strided(rank, shape, packing,
                                  count == 0 ? NULL : values.data - from->lowest, from->strides,
                                  count == 0 ? NULL : packed.data));
    uint64_t all = size / packing.group_bytes * packing.group_elements;
    for (uint64_t i = 0; i < all; i++) {
        unsigned expected = 0; /* what is unused is zero */
        if (i < count) {
            expected = values.data[position_of(rank, shape, from->strides, i) - from->lowest];
            expected = packing.bits == 1 ? expected != 0 : expected & ((1u << packing.bits) - 1);
        }
        assert_int_equal(element_at(packed.data, packing.bits, false, i), expected);
    }
    release_guarded(&values);
    release_guarded(&packed);
}

static void packed_elements_agree_with_a_loop(void **state) {
    (void)state;
    for (int round = 0; round < 6000; round++) {
        uint64_t shape[HURRAY_MAX_RANK];
        uint32_t rank = random_shape(shape);
        Arrangement from = {.lowest = 0};
        arrange(rank, shape, random_below(&seed, 2) == 0, &from);
        check_unpack(rank, shape, &from);
        check_pack(rank, shape, &from);
    }
}

static void threads_pack_and_unpack_as_one_does(void **state) {
    (void)state;
    for (size_t i = 0; i + 1 < sizeof large_arrays / sizeof large_arrays[0]; i++) {
        const Large *array = &large_arrays[i];
        uint64_t shape[3] = {array->shape[0] * array->size, array->shape[1], array->shape[2]};
        Arrangement from = {.lowest = 0};
        for (uint32_t k = 0; k < array->rank; k++) {
            bool is_outer = array->from[k] > array->from[0];
            from.strides[k] = array->from[k] * (is_outer ? array->size : 1);
        }
        measure(array->rank, shape, &from);
        for (uint32_t threads = 1; threads <= MOST_THREADS; threads += 2) {
            hurray_set_max_threads(threads);
            check_unpack(array->rank, shape, &from);
            check_pack(array->rank, shape, &from);
        }
    }
    hurray_set_max_threads(0);
}

static void packing_undoes_unpacking(void **state) {
    (void)state;
    for (int round = 0; round < 2000; round++) {
        HurrayPacking packing = random_packing();
        uint64_t shape[1] = {random_below(&seed, 400)}, size;
        int64_t strides[1] = {1};
        expect_ok(hurray_packing_size(packing, shape[0], &size));
        Guarded values = guarded(&seed, (size_t)shape[0]), packed = guarded(&seed, (size_t)size);
        Guarded again = guarded(&seed, (size_t)size);
        fill_randomly(&seed, values.data, values.size);
        expect_ok(hurray_pack_strided(1, shape, packing, values.data, strides, packed.data));
        expect_ok(hurray_unpack_strided(1, shape, packing, round % 2 == 0, packed.data, strides,
                                        values.data));
        expect_ok(hurray_pack_strided(1, shape, packing, values.data, strides, again.data));
        assert_memory_equal(packed.data, again.data, (size_t)size);
        release_guarded(&values);
        release_guarded(&packed);
        release_guarded(&again);
    }
}

/* ---- what is refused ---- */

static void missing_pointers(void **state) {
    (void)state;
    const uint64_t shape[] = {2};
    const int64_t strides[] = {1};
    const HurrayPacking bits = {1, 8, 1};
    uint8_t in[2] = {1, 0}, out[2];
    const HurrayStatus null = HURRAY_ERR_NULL_POINTER;
    expect_failure(null, hurray_copy_strided(1, NULL, 1, in, strides, out, strides));
    expect_failure(null, hurray_copy_strided(1, shape, 1, NULL, strides, out, strides));
    expect_failure(null, hurray_copy_strided(1, shape, 1, in, NULL, out, strides));
    expect_failure(null, hurray_copy_strided(1, shape, 1, in, strides, NULL, strides));
    expect_failure(null, hurray_copy_strided(1, shape, 1, in, strides, out, NULL));
    expect_failure(null, hurray_unpack_strided(1, NULL, bits, false, in, strides, out));
    expect_failure(null, hurray_unpack_strided(1, shape, bits, false, NULL, strides, out));
    expect_failure(null, hurray_unpack_strided(1, shape, bits, false, in, NULL, out));
    expect_failure(null, hurray_unpack_strided(1, shape, bits, false, in, strides, NULL));
    expect_failure(null, hurray_pack_strided(1, NULL, bits, in, strides, out));
    expect_failure(null, hurray_pack_strided(1, shape, bits, NULL, strides, out));
    expect_failure(null, hurray_pack_strided(1, shape, bits, in, NULL, out));
    expect_failure(null, hurray_pack_strided(1, shape, bits, in, strides, NULL));
}

static void impossible_arguments(void **state) {
    (void)state;
    uint64_t shape[HURRAY_MAX_RANK + 1];
    int64_t ones[HURRAY_MAX_RANK + 1];
    const HurrayPacking bits = {1, 8, 1}, bytes = {8, 1, 1}, odd = {3, 8, 3};
    const HurrayStatus layout = HURRAY_ERR_INVALID_LAYOUT, argument = HURRAY_ERR_INVALID_ARGUMENT;
    uint8_t in[2] = {0}, out[2];
    for (uint32_t i = 0; i <= HURRAY_MAX_RANK; i++) shape[i] = 1, ones[i] = 1;
    expect_failure(layout, hurray_copy_strided(65, shape, 1, in, ones, out, ones));
    expect_failure(layout, hurray_unpack_strided(65, shape, bits, false, in, ones, out));
    expect_failure(layout, hurray_pack_strided(65, shape, bits, in, ones, out));
    expect_failure(argument, hurray_copy_strided(1, shape, 0, in, ones, out, ones));
    expect_failure(argument, hurray_unpack_strided(1, shape, bytes, false, in, ones, out));
    expect_failure(argument, hurray_pack_strided(1, shape, bytes, in, ones, out));
    expect_failure(argument, hurray_unpack_strided(1, shape, odd, false, in, ones, out));
    expect_failure(argument, hurray_pack_strided(1, shape, odd, in, ones, out));
    shape[0] = shape[1] = UINT64_C(1) << 32;
    expect_failure(layout, hurray_copy_strided(2, shape, 1, in, ones, out, ones));
    shape[0] = HURRAY_DYNAMIC;
    expect_failure(layout, hurray_copy_strided(1, shape, 1, in, ones, out, ones));
}

/* No address is this far away, whatever the sign, in one axis or in the sum of all. */
static void strides_beyond_memory(void **state) {
    (void)state;
    const int64_t far[] = {INT64_MAX, INT64_MIN, INT64_MAX / 2 + 1, INT64_MIN / 2 - 1};
    const HurrayPacking bits = {1, 8, 1};
    uint64_t shape[] = {3, 2};
    const int64_t near[] = {2, 1};
    uint8_t in[6] = {0}, out[6];
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        const int64_t strides[] = {far[i], 1};
        const HurrayStatus layout = HURRAY_ERR_INVALID_LAYOUT;
        expect_failure(layout, hurray_copy_strided(2, shape, 1, in, strides, out, near));
        expect_failure(layout, hurray_copy_strided(2, shape, 1, in, near, out, strides));
        expect_failure(layout, hurray_unpack_strided(2, shape, bits, false, in, strides, out));
        expect_failure(layout, hurray_pack_strided(2, shape, bits, in, strides, out));
    }
    const int64_t sum[] = {INT64_MAX / 4, INT64_MAX / 2 + 3};
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_copy_strided(2, shape, 1, in, sum, out, near));
    shape[0] = UINT64_C(1) << 62;
    const int64_t still[] = {0, 0}, wide[] = {2, 1};
    expect_failure(HURRAY_ERR_INVALID_LAYOUT,
                   hurray_copy_strided(2, shape, 4, in, still, out, wide));
}

static void empty_arrays_touch_nothing(void **state) {
    (void)state;
    const uint64_t shape[] = {UINT64_MAX - 1, 0, UINT64_C(1) << 40};
    const HurrayPacking bits = {6, 4, 3};
    expect_ok(hurray_copy_strided(3, shape, 8, NULL, NULL, NULL, NULL));
    expect_ok(hurray_unpack_strided(3, shape, bits, false, NULL, NULL, NULL));
    expect_ok(hurray_pack_strided(3, shape, bits, NULL, NULL, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_agree_with_a_loop),
        cmocka_unit_test(transpositions_agree_with_a_loop),
        cmocka_unit_test(threads_copy_as_one_does),
        cmocka_unit_test(rank_64),
        cmocka_unit_test(a_scalar_needs_no_arrays),
        cmocka_unit_test(the_last_element_stays_where_the_destination_stands_still),
        cmocka_unit_test(packed_elements_agree_with_a_loop),
        cmocka_unit_test(threads_pack_and_unpack_as_one_does),
        cmocka_unit_test(packing_undoes_unpacking),
        cmocka_unit_test(missing_pointers),
        cmocka_unit_test(impossible_arguments),
        cmocka_unit_test(strides_beyond_memory),
        cmocka_unit_test(empty_arrays_touch_nothing),
    };
    return cmocka_run_group_tests_name("transcode", tests, NULL, NULL);
}
