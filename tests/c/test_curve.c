/* Morton and Hilbert offsets in bulk (src/curve.c) are those of the layouts, one by one. */
#include "dense_cases.h"

#include "curve.h"
#include "layout.h"
#include "random.h"

typedef struct Case {
    HurrayDescriptorFields fields;
    uint64_t shape[HURRAY_MAX_RANK];
    uint32_t bits[HURRAY_MAX_RANK];
    uint64_t offsets; /* from 0 on, what a walk may cover */
} Case;

static void hilbert_case(uint32_t rank, uint32_t order, Case *c) {
    for (uint32_t k = 0; k < rank; k++) c->shape[k] = UINT64_C(1) << order;
    c->offsets = UINT64_C(1) << rank * order;
    c->fields = (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_INT8,
        .rank = rank,
        .shape = c->shape,
        .layout = {.tag = HURRAY_LAYOUT_HILBERT, .hilbert = {.order = order, .rank = rank}}};
}

/* Codes below 2^63: no bit of a coordinate stands higher. */
static void morton_case(uint64_t *seed, uint32_t rank, Case *c) {
    uint32_t left = 63;
    for (uint32_t k = 0; k < rank; k++) {
        uint32_t others = rank - 1 - k, most = (62 - k) / rank + 1;
        if (most > left - others) most = left - others;
        c->bits[k] = 1 + (uint32_t)random_below(seed, most);
        c->shape[k] = 1 + (random_u64(seed) >> (64 - c->bits[k]));
        left -= c->bits[k];
    }
    c->offsets = UINT64_C(1) << 63;
    c->fields =
        (HurrayDescriptorFields){.type_tag = HURRAY_TYPE_INT8,
                                 .rank = rank,
                                 .shape = c->shape,
                                 .layout = {.tag = HURRAY_LAYOUT_MORTON, {.morton_bits = c->bits}}};
}

static void expect_row(const HriCurve *curve, const Case *c, const uint64_t *index, size_t count) {
    uint64_t at[HURRAY_MAX_RANK], *offsets = malloc(count * sizeof(uint64_t) + (count == 0));
    int64_t expected = 0;
    assert_non_null(offsets);
    memcpy(at, index, c->fields.rank * sizeof(uint64_t));
    hri_curve_row(curve, index, count, offsets);
    for (size_t i = 0; i < count; i++, at[c->fields.rank - 1]++) {
        expect_ok(hurray_address_offset(&c->fields, at, &expected));
        assert_int_equal(offsets[i], expected);
    }
    free(offsets);
}

static void expect_walk(const HriCurve *curve, const Case *c, uint64_t offset, size_t count) {
    uint32_t rank = c->fields.rank;
    uint64_t index[HURRAY_MAX_RANK],
        *indices = malloc(rank * count * sizeof(uint64_t) + (count == 0));
    assert_non_null(indices);
    hri_curve_walk(curve, offset, count, indices);
    for (size_t i = 0; i < count; i++) {
        bool is_element =
            hri_layout_kind(c->fields.layout.tag)->index(&c->fields, offset + i, index);
        bool in_bounds = true;
        for (uint32_t k = 0; k < rank; k++) in_bounds &= indices[k * count + i] < c->shape[k];
        assert_int_equal(in_bounds, is_element);
        for (uint32_t k = 0; k < rank; k++) assert_int_equal(indices[k * count + i], index[k]);
    }
    free(indices);
}

/* Rows and walks from anywhere, across the boundaries of tables. */
static void expect_bulk(uint64_t *seed, const Case *c) {
    static HriCurve curve; /* large */
    hri_curve_prepare(&c->fields, &curve);
    for (uint32_t round = 0; round < 8; round++) {
        uint64_t index[HURRAY_MAX_RANK], longest = 1 + random_below(seed, 700);
        for (uint32_t k = 0; k < c->fields.rank; k++) index[k] = random_below(seed, c->shape[k]);
        uint64_t *last = &index[c->fields.rank - 1], extent = c->shape[c->fields.rank - 1];
        if (round % 2 == 0) *last &= ~UINT64_C(0xF0); /* a boundary is near */
        if (longest > extent - *last) longest = extent - *last;
        expect_row(&curve, c, index, (size_t)longest);
        expect_row(&curve, c, index, 0);

        uint64_t from = random_below(seed, c->offsets), count = 1 + random_below(seed, 700);
        if (count > c->offsets - from) count = c->offsets - from;
        expect_walk(&curve, c, from, (size_t)count);
        expect_walk(&curve, c, from, 0);
    }
}

static void hilbert_in_bulk(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (uint32_t rank = 2; rank <= 9; rank++) {
        for (uint32_t order = 1; order <= 63 / rank; order++) {
            Case c;
            hilbert_case(rank, order, &c);
            expect_bulk(&seed, &c);
        }
    }
}

static void morton_in_bulk(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (uint32_t rank = 1; rank <= 63; rank++) {
        for (uint32_t round = 0; round < (rank < 10 ? 30 : 3); round++) {
            Case c;
            morton_case(&seed, rank, &c);
            expect_ok(hri_layout_morton.check_fields(&c.fields));
            expect_bulk(&seed, &c);
        }
    }
}

/* Squares anywhere, whole ones or with elements that are outside the shape. */
static void expect_squares(uint64_t *seed, const Case *c) {
    static HriCurve curve;
    hri_curve_prepare(&c->fields, &curve);
    for (uint32_t round = 0; round < 16; round++) {
        uint64_t corner[2];
        uint8_t order[HRI_SQUARE_COUNT];
        uint32_t turn = HRI_SQUARE_TURNS;
        int64_t expected = 0;
        for (uint32_t k = 0; k < 2; k++) {
            corner[k] = random_below(seed, c->shape[k]) & ~UINT64_C(15);
        }
        uint64_t first = hri_curve_square(&curve, corner, &turn);
        assert_true(turn < HRI_SQUARE_TURNS);
        hri_curve_square_order(&curve, turn, order);
        for (uint32_t i = 0; i < HRI_SQUARE_COUNT; i++) {
            uint64_t index[2] = {corner[0] + i / 16, corner[1] + i % 16};
            if (index[0] >= c->shape[0] || index[1] >= c->shape[1]) continue;
            expect_ok(hurray_address_offset(&c->fields, index, &expected));
            assert_int_equal(first + order[i], expected);
        }
    }
}

static void squares(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (uint32_t order = 4; order <= 31; order++) {
        Case c;
        hilbert_case(2, order, &c);
        expect_squares(&seed, &c);
    }
    for (uint32_t round = 0; round < 100; round++) {
        Case c;
        morton_case(&seed, 2, &c);
        expect_squares(&seed, &c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hilbert_in_bulk),
        cmocka_unit_test(morton_in_bulk),
        cmocka_unit_test(squares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
