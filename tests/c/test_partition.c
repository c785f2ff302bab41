/*
 * Exact covers, and the member that holds an index (src/partition.c, src/partition_index.c, spec
 * 2.10): random covers of many makes are accepted; with one thing wrong they are refused, and what
 * is said about the fault is true, counted element by element where shapes are small.
 */
#include "expect.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include <hurray/composite.h>
#include <hurray/shape.h>

#include "partition.h"
#include "random.h"

/* Times are printed always, and judged only where they mean something. */
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(HURRAY_UNTIMED)
#define TIMED 1
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || \
    __has_feature(thread_sanitizer)
#undef TIMED
#define TIMED 0
#endif
#endif
#else
#define TIMED 0
#endif

static double now(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* ---- boxes that grow ---- */

typedef struct Set {
    uint32_t rank;
    uint64_t count, capacity;
    uint64_t *offsets, *shapes;
    uint64_t shape[HURRAY_MAX_RANK];
} Set;

static Set new_set(uint32_t rank, const uint64_t *shape) {
    Set set = {.rank = rank};
    if (rank != 0) memcpy(set.shape, shape, rank * sizeof *shape);
    return set;
}

static void add(Set *set, const uint64_t *offset, const uint64_t *extents) {
    size_t row = set->rank * sizeof(uint64_t);
    if (set->count == set->capacity) {
        set->capacity = set->capacity == 0 ? 16 : 2 * set->capacity;
        set->offsets = realloc(set->offsets, (size_t)set->capacity * row + 1);
        set->shapes = realloc(set->shapes, (size_t)set->capacity * row + 1);
        assert_true(set->offsets != NULL && set->shapes != NULL);
    }
    memcpy(set->offsets + set->count * set->rank, offset, row);
    memcpy(set->shapes + set->count * set->rank, extents, row);
    set->count++;
}

static uint64_t *offset_of(const Set *set, uint64_t i) { return set->offsets + i * set->rank; }
static uint64_t *extents_of(const Set *set, uint64_t i) { return set->shapes + i * set->rank; }

static void swap_rows(uint64_t *a, uint64_t *b, uint32_t rank) {
    for (uint32_t k = 0; k < rank; k++) {
        uint64_t swap = a[k];
        a[k] = b[k];
        b[k] = swap;
    }
}

static void shuffle(Set *set, uint64_t *random) {
    for (uint64_t i = set->count; i > 1; i--) {
        uint64_t j = random_below(random, i);
        if (j == i - 1) continue;
        swap_rows(offset_of(set, i - 1), offset_of(set, j), set->rank);
        swap_rows(extents_of(set, i - 1), extents_of(set, j), set->rank);
    }
}

static void drop(Set *set, uint64_t i) {
    set->count--;
    if (i == set->count) return;
    swap_rows(offset_of(set, i), offset_of(set, set->count), set->rank);
    swap_rows(extents_of(set, i), extents_of(set, set->count), set->rank);
}

static void free_set(Set *set) {
    free(set->offsets);
    free(set->shapes);
    *set = (Set){0};
}

static HurrayBoxes boxes_of(const Set *set) {
    return (HurrayBoxes){set->rank, set->count, set->offsets, set->shapes};
}

static HurrayStatus check(const Set *set) {
    HurrayBoxes boxes = boxes_of(set);
    return hurray_partition_check(&boxes, set->shape);
}

/* The same by random measures alone. */
static HurrayStatus check_by_measure(const Set *set) {
    HurrayBoxes boxes = boxes_of(set);
    return hri_partition_check(&boxes, set->shape, (PartitionEffort){0, UINT64_MAX});
}

static void expect_cover(const Set *set) {
    expect_ok(check(set));
    expect_ok(check_by_measure(set));
}

/* ---- makers of covers ---- */

/* Cuts a box of the set in two, anywhere, along a random dimension; false when it cannot be cut. */
static bool cut(Set *set, uint64_t i, uint64_t *random) {
    uint64_t offset[HURRAY_MAX_RANK], extents[HURRAY_MAX_RANK];
    uint32_t k = (uint32_t)random_below(random, set->rank);
    if (extents_of(set, i)[k] < 2) return false;
    uint64_t at = 1 + random_below(random, extents_of(set, i)[k] - 1);
    memcpy(offset, offset_of(set, i), set->rank * sizeof *offset);
    memcpy(extents, extents_of(set, i), set->rank * sizeof *extents);
    extents_of(set, i)[k] = at;
    offset[k] += at;
    extents[k] -= at;
    add(set, offset, extents);
    return true;
}

static Set guillotine(uint32_t rank, const uint64_t *shape, uint64_t cuts, uint64_t *random) {
    static const uint64_t zeros[HURRAY_MAX_RANK];
    Set set = new_set(rank, shape);
    add(&set, zeros, shape);
    for (uint64_t i = 0; i < cuts; i++) cut(&set, random_below(random, set.count), random);
    shuffle(&set, random);
    return set;
}

/* Cuts every box in halves, along the dimensions in turn. */
static Set kd_tree(uint32_t rank, const uint64_t *shape, uint32_t levels, uint64_t *random) {
    static const uint64_t zeros[HURRAY_MAX_RANK];
    Set set = new_set(rank, shape);
    add(&set, zeros, shape);
    for (uint32_t level = 0; level < levels; level++) {
        for (uint64_t i = 0, count = set.count; i < count; i++) cut(&set, i, random);
    }
    shuffle(&set, random);
    return set;
}

/* parts[k] slabs along dimension k, the elements dealt out like array_split. */
static Set grid(uint32_t rank, const uint64_t *shape, const uint64_t *parts) {
    Set set = new_set(rank, shape);
    uint64_t at[HURRAY_MAX_RANK] = {0}, offset[HURRAY_MAX_RANK], extents[HURRAY_MAX_RANK];
    for (;;) {
        for (uint32_t k = 0; k < rank; k++) {
            offset[k] = at[k] * shape[k] / parts[k];
            extents[k] = (at[k] + 1) * shape[k] / parts[k] - offset[k];
        }
        add(&set, offset, extents);
        uint32_t k = rank;
        while (k > 0 && ++at[k - 1] == parts[k - 1]) at[--k] = 0;
        if (k == 0) return set;
    }
}

/* Five boxes that no straight cut divides, blown up, in the first two of `rank` dimensions. */
static void add_pinwheel(Set *set, uint64_t row, uint64_t column, uint64_t unit) {
    static const uint64_t five[5][4] = {
        {0, 0, 1, 2}, {0, 2, 2, 1}, {2, 1, 1, 2}, {1, 0, 2, 1}, {1, 1, 1, 1}};
    for (int i = 0; i < 5; i++) {
        uint64_t offset[HURRAY_MAX_RANK] = {row + five[i][0] * unit, column + five[i][1] * unit};
        uint64_t extents[HURRAY_MAX_RANK] = {five[i][2] * unit, five[i][3] * unit};
        for (uint32_t k = 2; k < set->rank; k++) extents[k] = set->shape[k];
        add(set, offset, extents);
    }
}

/* Pinwheels of 3 × 3 units, rows × columns of them. */
static Set pinwheels(uint32_t rank, uint64_t rows, uint64_t columns, uint64_t unit) {
    uint64_t shape[HURRAY_MAX_RANK];
    for (uint32_t k = 0; k < rank; k++) shape[k] = k == 0 ? 3 * unit * rows : 3 * unit * columns;
    Set set = new_set(rank, shape);
    for (uint64_t row = 0; row < rows; row++) {
        for (uint64_t column = 0; column < columns; column++) {
            add_pinwheel(&set, 3 * unit * row, 3 * unit * column, unit);
        }
    }
    return set;
}

/* Row i is cut at i + 1: no two rows alike. */
static Set staircase(uint64_t n) {
    uint64_t shape[2] = {n, n + 1};
    Set set = new_set(2, shape);
    for (uint64_t i = 0; i < n; i++) {
        add(&set, (uint64_t[]){i, 0}, (uint64_t[]){1, i + 1});
        add(&set, (uint64_t[]){i, i + 1}, (uint64_t[]){1, n - i});
    }
    return set;
}

static void add_empty(Set *set, uint64_t *random) {
    uint64_t offset[HURRAY_MAX_RANK], extents[HURRAY_MAX_RANK];
    for (uint32_t k = 0; k < set->rank; k++) {
        offset[k] = random_below(random, set->shape[k] + 1);
        extents[k] = random_below(random, set->shape[k] - offset[k] + 1);
    }
    extents[random_below(random, set->rank)] = 0;
    add(set, offset, extents);
}

/* ---- counting element by element ---- */

static bool holds(const Set *set, uint64_t i, const uint64_t *index) {
    for (uint32_t k = 0; k < set->rank; k++) {
        if (index[k] < offset_of(set, i)[k] ||
            index[k] - offset_of(set, i)[k] >= extents_of(set, i)[k]) {
            return false;
        }
    }
    return true;
}

/* Steps an index through a shape; false after the last. */
static bool step(uint32_t rank, const uint64_t *shape, uint64_t *index) {
    for (uint32_t k = rank; k-- > 0;) {
        if (++index[k] < shape[k]) return true;
        index[k] = 0;
    }
    return false;
}

static void count_elements(const Set *set, uint64_t *missing, uint64_t *twice) {
    uint64_t index[HURRAY_MAX_RANK] = {0};
    *missing = *twice = 0;
    if (hurray_shape_is_empty(set->shape, set->rank)) return;
    do {
        uint64_t holders = 0;
        for (uint64_t i = 0; i < set->count; i++) holders += holds(set, i, index);
        *missing += holders == 0;
        *twice += holders > 1;
    } while (step(set->rank, set->shape, index));
}

static bool boxes_overlap(const Set *set, uint64_t a, uint64_t b) {
    for (uint32_t k = 0; k < set->rank; k++) {
        uint64_t low_a = offset_of(set, a)[k], low_b = offset_of(set, b)[k];
        if (low_a + extents_of(set, a)[k] <= low_b || low_b + extents_of(set, b)[k] <= low_a) {
            return false;
        }
        if (extents_of(set, a)[k] == 0 || extents_of(set, b)[k] == 0) return false;
    }
    return true;
}

/* What the last message says about the set is true. */
static void expect_true_message(const Set *set) {
    const char *message = hurray_error_message();
    uint64_t a, b, elements;
    if (sscanf(message, "partition: members %" SCNu64 " and %" SCNu64 " overlap", &a, &b) == 2) {
        assert_true(a < b && b < set->count);
        assert_true(boxes_overlap(set, a, b));
        return;
    }
    if (sscanf(message, "partition: the members leave %" SCNu64 " of %" SCNu64, &a, &b) == 2) {
        assert_int_equal(hurray_shape_count(set->shape, set->rank, &elements), HURRAY_OK);
        assert_true(b == elements && a > 0);
        if (elements > 5000) return;
        uint64_t missing, twice;
        count_elements(set, &missing, &twice);
        assert_true(twice == 0 && missing == a);
        return;
    }
    fail_msg("not understood: %s", message);
}

static void expect_no_cover(const Set *set) {
    expect_failure(HURRAY_ERR_INTERNAL, check(set));
    expect_true_message(set);
    expect_failure(HURRAY_ERR_INTERNAL, check_by_measure(set));
    expect_true_message(set);
}

/* Agrees with counting, where there are few elements. */
static void expect_as_counted(const Set *set) {
    uint64_t missing, twice;
    count_elements(set, &missing, &twice);
    if (missing == 0 && twice == 0) {
        expect_cover(set);
    } else {
        expect_no_cover(set);
        if (twice != 0) expect_message("overlap");
        if (twice == 0) expect_message("uncovered");
    }
}

/* ---- properties ---- */

/* Each way to break an exact cover by a box, one element at a time. Empty boxes cannot break it. */
static void break_everywhere(Set *set, uint64_t i) {
    uint64_t *offset = offset_of(set, i), *extents = extents_of(set, i);
    for (uint32_t k = 0; k < set->rank; k++) {
        uint64_t room = set->shape[k] - offset[k] - extents[k];
        extents[k]--;
        expect_no_cover(set); /* shrunk */
        expect_message("uncovered");
        offset[k]++;
        expect_no_cover(set); /* shrunk from below */
        expect_message("uncovered");
        extents[k]++;
        if (room > 0) {
            expect_no_cover(set); /* moved */
            expect_message("overlap");
        } else {
            expect_failure(HURRAY_ERR_INTERNAL, check(set));
            expect_message("whose extent is");
        }
        offset[k]--;
        extents[k]++;
        if (room > 0) {
            expect_no_cover(set); /* grown */
            expect_message("overlap");
        } else {
            expect_failure(HURRAY_ERR_INTERNAL, check(set));
            expect_message("whose extent is");
        }
        extents[k]--;
        if (offset[k] > 0) {
            offset[k]--;
            expect_no_cover(set); /* moved down */
            expect_message("overlap");
            offset[k]++;
        }
    }
    uint64_t again[2][HURRAY_MAX_RANK]; /* the set may move as it grows */
    memcpy(again[0], offset, set->rank * sizeof *offset);
    memcpy(again[1], extents, set->rank * sizeof *extents);
    add(set, again[0], again[1]);
    expect_no_cover(set); /* twice */
    expect_message("overlap");
    drop(set, set->count - 1);
}

static void expect_fragile(Set *set, uint64_t *random) {
    expect_cover(set);
    uint64_t victim = random_below(random, set->count);
    if (!hurray_shape_is_empty(extents_of(set, victim), set->rank)) {
        break_everywhere(set, victim);
        expect_cover(set);
        drop(set, victim);
        expect_no_cover(set);
        expect_message("uncovered");
    }
}

static void random_shape(uint32_t rank, uint64_t most, uint64_t *shape, uint64_t *random) {
    for (uint32_t k = 0; k < rank; k++) shape[k] = 1 + random_below(random, most);
}

static void random_cuts_cover_and_break(void **state) {
    (void)state;
    uint64_t random = 1;
    static const uint64_t most[7] = {0, 1000, 40, 12, 6, 4, 4};
    for (int round = 0; round < 600; round++) {
        uint32_t rank = 1 + (uint32_t)random_below(&random, 6);
        uint64_t shape[6];
        random_shape(rank, most[rank], shape, &random);
        Set set = guillotine(rank, shape, random_below(&random, 40), &random);
        for (int i = 0; i < 3 && round % 3 == 0; i++) add_empty(&set, &random);
        expect_as_counted(&set);
        expect_fragile(&set, &random);
        free_set(&set);
    }
}

static void grids_and_trees_cover_and_break(void **state) {
    (void)state;
    uint64_t random = 2;
    for (int round = 0; round < 200; round++) {
        uint32_t rank = 1 + (uint32_t)random_below(&random, 6);
        uint64_t shape[6], parts[6];
        random_shape(rank, UINT64_C(1) << 10, shape, &random);
        /* More parts than elements leave some of them empty. */
        for (uint32_t k = 0; k < rank; k++) parts[k] = 1 + random_below(&random, 4);
        if (round % 5 == 0) shape[0] = 2;
        Set set = grid(rank, shape, parts);
        shuffle(&set, &random);
        expect_fragile(&set, &random);
        free_set(&set);
        set = kd_tree(rank, shape, (uint32_t)random_below(&random, 9), &random);
        expect_fragile(&set, &random);
        free_set(&set);
    }
}

/* Rank 64: no more than 2^64 elements, so that most extents are 1 or 2. */
static void the_greatest_rank_covers_and_breaks(void **state) {
    (void)state;
    uint64_t random = 3;
    for (int round = 0; round < 30; round++) {
        uint64_t shape[HURRAY_MAX_RANK];
        for (uint32_t k = 0; k < HURRAY_MAX_RANK; k++) shape[k] = k % 4 == 0 ? 3 : 1 + (k % 4 == 1);
        Set set = guillotine(HURRAY_MAX_RANK, shape, random_below(&random, 60), &random);
        expect_fragile(&set, &random);
        free_set(&set);
    }
}

/* Extents near 2^64: nothing overflows. */
static void great_extents(void **state) {
    (void)state;
    uint64_t random = 4;
    const uint64_t shapes[][3] = {{UINT64_MAX - 1, 1, 1},
                                  {UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, 1},
                                  {UINT64_C(1) << 21, UINT64_C(1) << 21, UINT64_C(1) << 21}};
    for (int round = 0; round < 60; round++) {
        Set set = guillotine(3, shapes[round % 3], random_below(&random, 50), &random);
        expect_fragile(&set, &random);
        free_set(&set);
    }
}

/* Boxes at random: mostly no covers, with many faults at once. */
static void anything_goes_as_counted(void **state) {
    (void)state;
    uint64_t random = 5;
    for (int round = 0; round < 4000; round++) {
        uint32_t rank = 1 + (uint32_t)random_below(&random, 4);
        uint64_t shape[4];
        random_shape(rank, 4, shape, &random);
        Set set = guillotine(rank, shape, random_below(&random, 6), &random);
        for (uint64_t i = random_below(&random, 3); i > 0; i--) {
            /* Another box, or one replaced. */
            uint64_t offset[4], extents[4];
            for (uint32_t k = 0; k < rank; k++) {
                offset[k] = random_below(&random, shape[k] + 1);
                extents[k] = random_below(&random, shape[k] - offset[k] + 1);
            }
            if (random_below(&random, 2) == 0) drop(&set, random_below(&random, set.count));
            add(&set, offset, extents);
        }
        expect_as_counted(&set);
        free_set(&set);
    }
}

static void pinwheels_and_stairs(void **state) {
    (void)state;
    uint64_t random = 6;
    for (uint64_t n = 1; n < 12; n++) {
        for (uint32_t rank = 2; rank < 5; rank++) {
            Set set = pinwheels(rank, n, 13 - n, 1 + n % 3);
            shuffle(&set, &random);
            expect_fragile(&set, &random);
            free_set(&set);
        }
        Set set = staircase(10 * n);
        shuffle(&set, &random);
        expect_fragile(&set, &random);
        free_set(&set);
    }
}

/* Weights that cancel although boxes overlap: what one holds twice the other misses. */
static void volumes_alone_prove_nothing(void **state) {
    (void)state;
    uint64_t shape[2] = {4, 4};
    Set set = new_set(2, shape);
    add(&set, (uint64_t[]){0, 0}, (uint64_t[]){2, 4});
    add(&set, (uint64_t[]){1, 0}, (uint64_t[]){2, 4});
    expect_no_cover(&set);
    expect_message("members 0 and 1 overlap");
    free_set(&set);
}

/* ---- edges ---- */

static void scalars_and_empty_shapes(void **state) {
    (void)state;
    HurrayBoxes scalar = {0, 1, NULL, NULL};
    expect_ok(hurray_partition_check(&scalar, NULL));
    scalar.count = 0;
    expect_failure(HURRAY_ERR_INTERNAL, hurray_partition_check(&scalar, NULL));
    expect_message("leave 1 of 1 ");
    scalar.count = UINT64_MAX;
    expect_failure(HURRAY_ERR_INTERNAL, hurray_partition_check(&scalar, NULL));
    expect_message("members 0 and 1 overlap");

    uint64_t empty[2] = {0, UINT64_MAX - 1};
    Set set = new_set(2, empty);
    expect_cover(&set); /* by nothing */
    add(&set, (uint64_t[]){0, 5}, (uint64_t[]){0, 7});
    add(&set, (uint64_t[]){0, 5}, (uint64_t[]){0, 7});
    expect_cover(&set);
    add(&set, (uint64_t[]){0, 5}, (uint64_t[]){1, 7});
    expect_failure(HURRAY_ERR_INTERNAL, check(&set));
    expect_message("member 2 reaches from 0 over 1 elements of dimension 0, whose extent is 0");
    free_set(&set);

    uint64_t one[1] = {1};
    set = new_set(1, one);
    expect_no_cover(&set);
    add(&set, (uint64_t[]){1}, (uint64_t[]){0});
    expect_no_cover(&set);
    add(&set, (uint64_t[]){0}, (uint64_t[]){1});
    expect_cover(&set);
    free_set(&set);
}

static void what_is_not_a_partition_at_all(void **state) {
    (void)state;
    uint64_t values[2] = {0, 0}, shape[HURRAY_MAX_RANK + 1] = {4};
    HurrayBoxes boxes = {1, 1, values, values};
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_partition_check(NULL, shape));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_partition_check(&boxes, NULL));
    boxes.shapes = NULL;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_partition_check(&boxes, shape));
    boxes = (HurrayBoxes){1, 1, NULL, values};
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_partition_check(&boxes, shape));
    boxes = (HurrayBoxes){1, 0, NULL, NULL};
    expect_failure(HURRAY_ERR_INTERNAL, hurray_partition_check(&boxes, shape));
    boxes = (HurrayBoxes){HURRAY_MAX_RANK + 1, 0, NULL, NULL};
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_partition_check(&boxes, shape));
    boxes = (HurrayBoxes){1, 1, values, values};
    shape[0] = HURRAY_DYNAMIC;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_partition_check(&boxes, shape));
    shape[0] = shape[1] = UINT64_C(1) << 32;
    boxes = (HurrayBoxes){2, 1, values, values};
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_partition_check(&boxes, shape));
    /* low + extent would wrap to 0. */
    shape[0] = 4;
    values[0] = 1;
    uint64_t extent = UINT64_MAX;
    boxes = (HurrayBoxes){1, 1, values, &extent};
    expect_failure(HURRAY_ERR_INTERNAL, hurray_partition_check(&boxes, shape));
    expect_message("whose extent is 4");
}

/* A fault past the limit of pairs is still refused, with what is known. */
static void faults_without_a_place(void **state) {
    (void)state;
    uint64_t shape[2] = {100, 100}, parts[2] = {10, 10};
    Set set = grid(2, shape, parts);
    HurrayBoxes boxes = boxes_of(&set);
    PartitionEffort none = {UINT64_MAX, 0};
    expect_ok(hri_partition_check(&boxes, shape, none));
    extents_of(&set, 37)[0]--;
    expect_failure(HURRAY_ERR_INTERNAL, hri_partition_check(&boxes, shape, none));
    expect_message(
        "the 100 members hold 9990 elements and do not cover each of 10000 exactly once");
    free_set(&set);

    /* Their number does not fit in 64 bits. */
    uint64_t great[1] = {UINT64_MAX - 1};
    set = new_set(1, great);
    for (int i = 0; i < 3; i++) add(&set, (uint64_t[]){0}, great);
    extents_of(&set, 2)[0]--;
    boxes = boxes_of(&set);
    expect_failure(HURRAY_ERR_INTERNAL, hri_partition_check(&boxes, great, none));
    expect_message("more than ");
    free_set(&set);
}

/* ---- finding ---- */

static void expect_found(const Set *set, const HurrayPartitionIndex *tree, const uint64_t *index) {
    uint64_t expected = 0, box = 77, local[HURRAY_MAX_RANK];
    while (expected < set->count && !holds(set, expected, index)) expected++;
    if (expected == set->count) {
        expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                       hurray_partition_find(tree, index, &box, local));
        assert_true(box == 77);
        return;
    }
    expect_ok(hurray_partition_find(tree, index, &box, local));
    assert_true(box == expected);
    for (uint32_t k = 0; k < set->rank; k++) {
        assert_true(local[k] == index[k] - offset_of(set, box)[k]);
    }
    expect_ok(hurray_partition_find(tree, index, &box, NULL));
}

/* Every element, and those around the shape. */
static void expect_all_found(const Set *set) {
    HurrayBoxes boxes = boxes_of(set);
    HurrayPartitionIndex *tree = NULL;
    expect_ok(hurray_partition_index_create(&boxes, &tree));
    uint64_t index[HURRAY_MAX_RANK] = {0}, around[HURRAY_MAX_RANK];
    for (uint32_t k = 0; k < set->rank; k++) around[k] = set->shape[k] + 1;
    do {
        expect_found(set, tree, index);
    } while (step(set->rank, around, index));
    for (uint32_t k = 0; k < set->rank; k++) index[k] = UINT64_MAX;
    expect_found(set, tree, index);
    expect_ok(hurray_partition_index_destroy(&tree));
    assert_null(tree);
}

static void every_element_is_found(void **state) {
    (void)state;
    uint64_t random = 7;
    static const uint64_t most[5] = {0, 300, 20, 8, 5};
    for (int round = 0; round < 150; round++) {
        uint32_t rank = 1 + (uint32_t)random_below(&random, 4);
        uint64_t shape[4];
        random_shape(rank, most[rank], shape, &random);
        Set set = guillotine(rank, shape, random_below(&random, 60), &random);
        for (int i = 0; i < round % 3; i++) add_empty(&set, &random);
        if (round % 4 == 0) drop(&set, random_below(&random, set.count));
        expect_all_found(&set);
        free_set(&set);
    }
    Set set = pinwheels(2, 3, 4, 1);
    expect_all_found(&set);
    free_set(&set);
    set = staircase(20);
    expect_all_found(&set);
    free_set(&set);
}

static void finding_at_the_edges(void **state) {
    (void)state;
    HurrayPartitionIndex *tree = NULL;
    uint64_t box = 9, local = 9;
    /* Scalars, as many as there may be: there is nothing to compare. */
    for (uint64_t count = 0; count < 10; count++) {
        HurrayBoxes scalars = {0, count, NULL, NULL};
        expect_ok(hurray_partition_index_create(&scalars, &tree));
        if (count == 0) {
            expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                           hurray_partition_find(tree, NULL, &box, &local));
        } else {
            expect_ok(hurray_partition_find(tree, NULL, &box, &local));
            assert_true(box == 0 && local == 9);
        }
        expect_ok(hurray_partition_index_destroy(&tree));
    }
    /* Overlapping and equal boxes: one that holds the index. */
    uint64_t shape[1] = {10};
    Set set = new_set(1, shape);
    for (int i = 0; i < 100; i++) add(&set, (uint64_t[]){3}, (uint64_t[]){4});
    HurrayBoxes boxes = boxes_of(&set);
    expect_ok(hurray_partition_index_create(&boxes, &tree));
    expect_ok(hurray_partition_find(tree, (uint64_t[]){6}, &box, &local));
    assert_true(box < 100 && local == 3);
    expect_failure(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                   hurray_partition_find(tree, (uint64_t[]){7}, &box, &local));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_partition_find(NULL, shape, &box, &local));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_partition_find(tree, NULL, &box, &local));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_partition_find(tree, shape, NULL, &local));
    expect_ok(hurray_partition_index_destroy(&tree));
    expect_ok(hurray_partition_index_destroy(&tree));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_partition_index_destroy(NULL));

    HurrayPartitionIndex *untouched = (void *)&box;
    tree = untouched;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_partition_index_create(NULL, &tree));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_partition_index_create(&boxes, NULL));
    boxes.shapes = NULL;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_partition_index_create(&boxes, &tree));
    boxes = boxes_of(&set);
    boxes.rank = HURRAY_MAX_RANK + 1;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_partition_index_create(&boxes, &tree));
    boxes = boxes_of(&set);
    boxes.rank = HURRAY_MAX_RANK;
    boxes.count = UINT64_MAX / 8; /* as an array */
    expect_failure(HURRAY_ERR_OUT_OF_MEMORY, hurray_partition_index_create(&boxes, &tree));
    boxes.count = UINT64_C(1) << 57; /* as bounds of its nodes */
    expect_failure(HURRAY_ERR_OUT_OF_MEMORY, hurray_partition_index_create(&boxes, &tree));
    boxes = boxes_of(&set);
    extents_of(&set, 50)[0] = UINT64_MAX - 2;
    expect_failure(HURRAY_ERR_INTERNAL, hurray_partition_index_create(&boxes, &tree));
    expect_message("box 50 reaches 2^64 in dimension 0");
    assert_ptr_equal(tree, untouched);
    free_set(&set);
}

/* ---- cost ---- */

/* Prints how long the check takes, when exact and when one box is too short, and lookups. */
static void measure_cost(const char *name, Set *set, double most) {
    double start = now();
    HurrayStatus exact = check(set);
    double checked = now() - start;
    assert_int_equal(exact, HURRAY_OK);
    uint64_t victim = set->count / 2;
    while (hurray_shape_is_empty(extents_of(set, victim), set->rank)) victim++;
    extents_of(set, victim)[0]--;
    start = now();
    HurrayStatus broken = check(set);
    double refused = now() - start;
    assert_int_equal(broken, HURRAY_ERR_INTERNAL);
    extents_of(set, victim)[0]++;

    HurrayPartitionIndex *tree = NULL;
    HurrayBoxes boxes = boxes_of(set);
    start = now();
    expect_ok(hurray_partition_index_create(&boxes, &tree));
    double built = now() - start;
    uint64_t random = 8, index[HURRAY_MAX_RANK], box;
    start = now();
    for (int i = 0; i < 100000; i++) {
        for (uint32_t k = 0; k < set->rank; k++) index[k] = random_below(&random, set->shape[k]);
        if (hurray_partition_find(tree, index, &box, NULL) != HURRAY_OK) fail();
    }
    double found = now() - start;
    expect_ok(hurray_partition_index_destroy(&tree));
    printf("%-26s %8" PRIu64 " boxes: exact %7.2f ms, broken %8.2f ms, index %7.2f ms, "
           "lookup %6.0f ns\n",
           name, set->count, 1e3 * checked, 1e3 * refused, 1e3 * built, 1e4 * found);
    if (TIMED && most > 0) assert_true(checked < most && refused < most);
    free_set(set);
}

static void thousands_of_members(void **state) {
    (void)state;
    uint64_t random = 9;
    Set set = grid(3, (uint64_t[]){1000, 1000, 1000}, (uint64_t[]){25, 20, 20});
    shuffle(&set, &random);
    measure_cost("grid 25 x 20 x 20", &set, 1);
    set = grid(2, (uint64_t[]){1000, 1000}, (uint64_t[]){100, 100});
    shuffle(&set, &random);
    measure_cost("grid 100 x 100", &set, 1);
    set = grid(1, (uint64_t[]){1000000}, (uint64_t[]){100000});
    shuffle(&set, &random);
    measure_cost("slices", &set, 1);
    set = pinwheels(2, 45, 45, 4);
    shuffle(&set, &random);
    measure_cost("pinwheels 45 x 45", &set, 1);
    set = staircase(5000);
    shuffle(&set, &random);
    measure_cost("staircase", &set, 1);
    for (uint32_t rank = 2; rank <= 8; rank++) {
        uint64_t shape[8];
        for (uint32_t k = 0; k < rank; k++) shape[k] = rank < 5 ? 10000 : 250;
        set = kd_tree(rank, shape, 13, &random);
        char name[32];
        snprintf(name, sizeof name, "kd-tree of rank %" PRIu32, rank);
        measure_cost(name, &set, 3);
    }
}

static void the_greatest_rank_is_not_slow(void **state) {
    (void)state;
    uint64_t random = 10, shape[HURRAY_MAX_RANK];
    for (uint32_t k = 0; k < HURRAY_MAX_RANK; k++) shape[k] = k < 63 ? 2 : 1;
    Set set = guillotine(HURRAY_MAX_RANK, shape, 4000, &random);
    measure_cost("cuts of rank 64", &set, 5);
}

static void cost_grows_with_n_log_n(void **state) {
    (void)state;
    uint64_t random = 11;
    for (uint64_t n = 10; n <= (TIMED ? 100 : 22); n = n * 10 / 4) {
        char name[32];
        Set set = grid(3, (uint64_t[]){1000, 1000, 1000}, (uint64_t[]){n, n, n});
        shuffle(&set, &random);
        snprintf(name, sizeof name, "grid %" PRIu64 "^3", n);
        measure_cost(name, &set, 0);
    }
    for (uint64_t n = 1000; n <= (TIMED ? 1000000 : 10000); n *= 10) {
        Set set = grid(1, (uint64_t[]){10000000}, (uint64_t[]){n});
        shuffle(&set, &random);
        measure_cost("slices", &set, 0);
    }
    for (uint32_t levels = 10; levels <= (TIMED ? 16 : 11); levels += 2) {
        Set set = kd_tree(4, (uint64_t[]){60000, 60000, 60000, 60000}, levels, &random);
        measure_cost("kd-tree of rank 4", &set, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_cuts_cover_and_break),
        cmocka_unit_test(grids_and_trees_cover_and_break),
        cmocka_unit_test(the_greatest_rank_covers_and_breaks),
        cmocka_unit_test(great_extents),
        cmocka_unit_test(anything_goes_as_counted),
        cmocka_unit_test(pinwheels_and_stairs),
        cmocka_unit_test(volumes_alone_prove_nothing),
        cmocka_unit_test(scalars_and_empty_shapes),
        cmocka_unit_test(what_is_not_a_partition_at_all),
        cmocka_unit_test(faults_without_a_place),
        cmocka_unit_test(every_element_is_found),
        cmocka_unit_test(finding_at_the_edges),
        cmocka_unit_test(thousands_of_members),
        cmocka_unit_test(the_greatest_rank_is_not_slow),
        cmocka_unit_test(cost_grows_with_n_log_n),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
