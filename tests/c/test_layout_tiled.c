/*
 * Tiled layouts (src/layout_tiled.c, spec 2.3) of any depth and arrangement: their bytes, their
 * addresses against the definition, how much buffer they take, and each rule they can break.
 */
#include "dense_cases.h"

#include "dense.h"
#include "layout.h"
#include "random.h"

enum {
    RANK = 3
};

typedef struct Case {
    HurrayDescriptorFields fields;
    HurrayBufferHandle buffer;
    uint64_t shape[RANK];
    HurrayTileLevel levels[HURRAY_MAX_TILE_LEVELS];
    uint64_t tiles[HURRAY_MAX_TILE_LEVELS][RANK];
    int64_t outer[HURRAY_MAX_TILE_LEVELS][RANK], inner[HURRAY_MAX_TILE_LEVELS][RANK];
    bool is_packed; /* no level is strided */
} Case;

static void random_strides(uint64_t *seed, const uint64_t *extents, uint32_t rank, int64_t *out) {
    bool is_orderly = random_below(seed, 2) == 0;
    int64_t step = random_between(seed, 1, 3);
    for (uint32_t k = 0; k < rank; k++) {
        out[k] = is_orderly ? step : random_between(seed, -6, 6);
        if (is_orderly && random_below(seed, 3) == 0) out[k] = -out[k];
        step = step * (int64_t)extents[k] + random_between(seed, 0, 1);
    }
}

static void random_case(uint64_t *seed, uint32_t levels, bool is_packed, Case *c) {
    uint8_t arrangements = is_packed ? 2 : 3;
    uint32_t rank = 1 + (uint32_t)random_below(seed, RANK);
    memset(c, 0, sizeof *c);
    c->is_packed = true;
    for (uint32_t k = 0; k < rank; k++) {
        uint64_t extent = 1 + random_below(seed, 3);
        for (uint32_t i = levels; i > 0; i--) {
            c->tiles[i - 1][k] = extent;
            if (extent < 6) extent *= 1 + random_below(seed, 2);
        }
        c->shape[k] = 1 + random_below(seed, 2 * c->tiles[0][k] + 1);
    }
    for (uint32_t i = 0; i < levels; i++) {
        uint64_t grid[RANK];
        for (uint32_t k = 0; k < rank; k++) {
            uint64_t over = i == 0 ? c->shape[k] : c->tiles[i - 1][k];
            grid[k] = (over + c->tiles[i][k] - 1) / c->tiles[i][k];
        }
        c->levels[i] = (HurrayTileLevel){
            .tile_shape = c->tiles[i],
            .outer_layout = (uint8_t)(1 + random_below(seed, arrangements)),
            .inner_layout = i + 1 < levels ? HURRAY_LAYOUT_TILED
                                           : (uint8_t)(1 + random_below(seed, arrangements)),
            .outer_strides = c->outer[i],
            .inner_strides = c->inner[i],
        };
        random_strides(seed, grid, rank, c->outer[i]);
        random_strides(seed, c->tiles[i], rank, c->inner[i]);
        if (c->levels[i].outer_layout == HURRAY_LAYOUT_STRIDED ||
            c->levels[i].inner_layout == HURRAY_LAYOUT_STRIDED) {
            c->is_packed = false;
        }
    }
    c->fields = (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_INT8,
        .rank = rank,
        .shape = c->shape,
        .layout = {.tag = HURRAY_LAYOUT_TILED,
                   .tiled = {.level_count = levels, .levels = c->levels}},
    };
}

/* ---- the definition ---- */

static int64_t place_in(uint8_t arrangement, const int64_t *strides, const uint64_t *extents,
                        const uint64_t *at, uint32_t rank) {
    int64_t packed[RANK], offset = 0;
    if (arrangement == HURRAY_LAYOUT_ROW_MAJOR) {
        assert_true(hurray_shape_row_major_strides(extents, rank, packed));
    } else if (arrangement == HURRAY_LAYOUT_COL_MAJOR) {
        assert_true(hurray_shape_col_major_strides(extents, rank, packed));
    } else {
        memcpy(packed, strides, rank * sizeof(int64_t));
    }
    for (uint32_t k = 0; k < rank; k++) offset += packed[k] * (int64_t)at[k];
    return offset;
}

static int64_t place_in_tiles(const HurrayTileLevel *level, const uint64_t *extents,
                              const uint64_t *at, uint32_t rank) {
    uint64_t grid[RANK], tile[RANK], within[RANK];
    int64_t elements = 1;
    for (uint32_t k = 0; k < rank; k++) {
        uint64_t size = level->tile_shape[k];
        grid[k] = (extents[k] + size - 1) / size;
        tile[k] = at[k] / size;
        within[k] = at[k] % size;
        elements *= (int64_t)size;
    }
    int64_t inside =
        level->inner_layout == HURRAY_LAYOUT_TILED
            ? place_in_tiles(level + 1, level->tile_shape, within, rank)
            : place_in(level->inner_layout, level->inner_strides, level->tile_shape, within, rank);
    return place_in(level->outer_layout, level->outer_strides, grid, tile, rank) * elements +
           inside;
}

/* The lowest and highest offsets of whole tiles, padding included. */
static void whole_reach(const Case *c, int64_t *low, int64_t *high) {
    uint64_t whole[RANK], index[RANK] = {0};
    uint32_t rank = c->fields.rank;
    for (uint32_t k = 0; k < rank; k++) {
        uint64_t tile = c->tiles[0][k];
        whole[k] = (c->shape[k] + tile - 1) / tile * tile;
    }
    *low = *high = 0;
    do {
        int64_t offset = place_in_tiles(c->levels, whole, index, rank);
        if (offset < *low) *low = offset;
        if (offset > *high) *high = offset;
    } while (next_index(whole, rank, index));
}

/* ---- properties ---- */

static void the_example_of_the_specification(void **state) {
    (void)state;
    uint64_t shape[2] = {6, 8}, tile[2] = {2, 4}, index[2] = {3, 5};
    int64_t offset = 0;
    HurrayTileLevel level = {.tile_shape = tile, .outer_layout = 1, .inner_layout = 1};
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_INT8,
        .rank = 2,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_TILED, .tiled = {.level_count = 1, .levels = &level}}};
    expect_ok(hurray_address_offset(&fields, index, &offset));
    assert_int_equal(offset, 29);
    assert_int_equal(required_of(&fields), 48);
    shape[0] = 5, shape[1] = 7; /* edge tiles are whole */
    assert_int_equal(required_of(&fields), 48);
}

static void offsets_are_those_of_the_definition(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (uint32_t round = 0; round < 3000; round++) {
        Case c;
        uint64_t index[RANK] = {0};
        random_case(&seed, 1 + round % HURRAY_MAX_TILE_LEVELS, round % 3 == 0, &c);
        do {
            int64_t offset = 0;
            expect_ok(hurray_address_offset(&c.fields, index, &offset));
            assert_int_equal(offset, place_in_tiles(c.levels, c.shape, index, c.fields.rank));
        } while (next_index(c.shape, c.fields.rank, index));
    }
}

/* Always where no level is strided; where strides are told apart, otherwise. */
static void offsets_lead_back_to_their_index(void **state) {
    (void)state;
    uint64_t seed = 2;
    uint32_t reversible = 0, unsupported = 0;
    for (uint32_t round = 0; round < 2000; round++) {
        Case c;
        int64_t low, high;
        uint64_t index[RANK];
        random_case(&seed, 1 + round % HURRAY_MAX_TILE_LEVELS, round % 2 == 0, &c);
        whole_reach(&c, &low, &high);
        HurrayStatus status = hurray_address_index(&c.fields, 0, index);
        if (status == HURRAY_ERR_UNSUPPORTED) {
            expect_message("overlap");
            assert_false(c.is_packed);
            assert_false(hri_layout_tiled.index(&c.fields, 0, index));
            unsupported++;
            continue;
        }
        expect_bijection(&c.fields, low, high);
        assert_true(hri_layout_tiled.index(&c.fields, 0, index));
        reversible += !c.is_packed;
    }
    assert_true(reversible > 100 && unsupported > 100);
}

static void buffers_hold_whole_tiles(void **state) {
    (void)state;
    static const uint8_t types[] = {HURRAY_TYPE_BOOL, HURRAY_TYPE_INT4, HURRAY_TYPE_FLOAT6_E3M2,
                                    HURRAY_TYPE_INT8, HURRAY_TYPE_FLOAT64};
    uint64_t seed = 3;
    for (uint32_t round = 0; round < 2000; round++) {
        Case c;
        int64_t low, high;
        HurrayPacking packing;
        random_case(&seed, 1 + round % HURRAY_MAX_TILE_LEVELS, round % 3 == 0, &c);
        whole_reach(&c, &low, &high);
        c.fields.type_tag = types[random_below(&seed, sizeof types)];
        expect_ok(hurray_packing_of(c.fields.type_tag, NULL, &packing));
        uint64_t groups_before =
            ((uint64_t)-low + packing.group_elements - 1) / packing.group_elements;
        uint64_t groups_after = (uint64_t)high / packing.group_elements + 1;
        c.fields.byte_offset = groups_before * packing.group_bytes;
        assert_int_equal(required_of(&c.fields),
                         c.fields.byte_offset + groups_after * packing.group_bytes);
        expect_exact_size(&c.fields, &c.buffer);
        if (low < 0) {
            c.fields.byte_offset -= 1;
            expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_validate(&c.fields));
            expect_message("before byte_offset");
        }
    }
}

static void bytes_of_every_depth(void **state) {
    (void)state;
    uint64_t seed = 4;
    for (uint32_t round = 0; round < 40; round++) {
        Case c;
        int64_t low, high;
        random_case(&seed, 1 + round % HURRAY_MAX_TILE_LEVELS, round % 3 == 0, &c);
        whole_reach(&c, &low, &high);
        c.fields.byte_offset = (uint64_t)-low;
        expect_exact_size(&c.fields, &c.buffer);
        expect_wire_form(&c.fields);
    }
}

/* Any field that differs makes layouts different, and strides that do not count do not. */
static void comparison_sees_every_field(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (uint32_t round = 0; round < 500; round++) {
        Case a, b;
        uint64_t again = seed;
        uint32_t levels = 1 + round % HURRAY_MAX_TILE_LEVELS, at = round / 8 % levels;
        random_case(&seed, levels, false, &a);
        random_case(&again, levels, false, &b);
        assert_true(hurray_descriptor_equal(&a.fields, &b.fields));
        bool outer_counts = a.levels[at].outer_layout == HURRAY_LAYOUT_STRIDED;
        bool inner_counts = a.levels[at].inner_layout == HURRAY_LAYOUT_STRIDED;
        b.outer[at][0]++;
        assert_int_equal(hurray_descriptor_equal(&a.fields, &b.fields), !outer_counts);
        b.outer[at][0]--;
        b.inner[at][0]++;
        assert_int_equal(hurray_descriptor_equal(&a.fields, &b.fields), !inner_counts);
        b.inner[at][0]--;
        b.tiles[at][0]++;
        assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
        b.tiles[at][0]--;
        b.levels[at].outer_layout = (uint8_t)(a.levels[at].outer_layout % 3 + 1);
        assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
        b.levels[at].outer_layout = a.levels[at].outer_layout;
        b.levels[levels - 1].inner_layout = (uint8_t)(a.levels[levels - 1].inner_layout % 3 + 1);
        assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
        b.levels[levels - 1].inner_layout = a.levels[levels - 1].inner_layout;
        b.fields.layout.tiled.level_count--;
        assert_false(hurray_descriptor_equal(&a.fields, &b.fields));
    }
}

/* ---- rules ---- */

/* [8, 8] in tiles of [4, 4] in tiles of [2, 2], whatever the shape. */
static void plain_case(Case *c) {
    memset(c, 0, sizeof *c);
    for (uint32_t k = 0; k < 2; k++) {
        c->shape[k] = 8;
        c->tiles[0][k] = 4;
        c->tiles[1][k] = 2;
    }
    c->levels[0] = (HurrayTileLevel){c->tiles[0], 1, HURRAY_LAYOUT_TILED, c->outer[0], NULL};
    c->levels[1] = (HurrayTileLevel){c->tiles[1], 1, 1, c->outer[1], c->inner[1]};
    c->buffer = (HurrayBufferHandle){.byte_size = UINT64_MAX, .alignment = 64};
    c->fields = (HurrayDescriptorFields){
        .type_tag = HURRAY_TYPE_INT8,
        .rank = 2,
        .shape = c->shape,
        .layout = {.tag = HURRAY_LAYOUT_TILED, .tiled = {.level_count = 2, .levels = c->levels}},
        .buffer_count = 1,
        .buffers = &c->buffer,
    };
}

/* These do not involve the shape: they hold when it is empty, and when it is not known. */
static void expect_broken_rule(Case *c, const char *part) {
    static const uint64_t extents[] = {8, 0, HURRAY_DYNAMIC};
    for (size_t i = 0; i < 3; i++) {
        c->shape[0] = extents[i];
        expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_validate(&c->fields));
        expect_message(part);
    }
}

static void rules_of_the_fields(void **state) {
    (void)state;
    Case c;
    plain_case(&c);
    expect_ok(hurray_descriptor_validate(&c.fields));
    c.tiles[1][1] = 0;
    expect_broken_rule(&c, "level 1: tile_shape[1] is 0");
    c.tiles[1][1] = 3;
    expect_broken_rule(&c, "expected a divisor of the outer tile's 4");
    c.tiles[1][1] = 8;
    expect_broken_rule(&c, "expected a divisor of the outer tile's 4");

    plain_case(&c);
    c.levels[1].outer_layout = 0;
    expect_broken_rule(&c, "level 1: outer_layout is 0x00");
    c.levels[1].outer_layout = HURRAY_LAYOUT_TILED;
    expect_broken_rule(&c, "level 1: outer_layout is 0x04");
    plain_case(&c);
    c.levels[1].inner_layout = HURRAY_LAYOUT_MORTON;
    expect_broken_rule(&c, "level 1: inner_layout is 0x05");
    c.levels[1].inner_layout = HURRAY_LAYOUT_TILED;
    expect_broken_rule(&c, "level 1 of 2: inner_layout is 4");
    plain_case(&c);
    c.levels[0].inner_layout = 1;
    expect_broken_rule(&c, "level 0 of 2: inner_layout is 1");
    plain_case(&c);
    c.fields.layout.tiled.level_count = 0;
    expect_broken_rule(&c, "level_count is 0");
    c.fields.layout.tiled.level_count = 9;
    expect_broken_rule(&c, "level_count is 9");
}

static void more_than_eight_levels(void **state) {
    (void)state;
    Case c;
    plain_case(&c);
    for (uint32_t i = 0; i < HURRAY_MAX_TILE_LEVELS; i++) {
        c.levels[i] = (HurrayTileLevel){c.tiles[0], 1, HURRAY_LAYOUT_TILED, NULL, NULL};
    }
    c.fields.layout.tiled.level_count = HURRAY_MAX_TILE_LEVELS;
    expect_broken_rule(&c, "at most 8 levels");
    c.levels[7].inner_layout = 1;
    c.shape[0] = 8;
    expect_ok(hurray_descriptor_validate(&c.fields));
}

static void fields_that_overflow(void **state) {
    (void)state;
    Case c;
    plain_case(&c);
    c.tiles[0][0] = c.tiles[0][1] = UINT64_C(1) << 32;
    expect_broken_rule(&c, "a tile has 2^64 elements or more");
    plain_case(&c);
    c.levels[1].inner_layout = HURRAY_LAYOUT_STRIDED;
    c.inner[1][0] = c.inner[1][1] = INT64_MIN;
    expect_broken_rule(&c, "inner_strides reach 2^64");
    plain_case(&c);
    c.levels[1].outer_layout = HURRAY_LAYOUT_STRIDED;
    c.outer[1][0] = INT64_C(1) << 62; /* times tiles of four elements */
    expect_broken_rule(&c, "level 1: outer_strides reach 2^64");

    /* These do: where the shape is not known or empty, nothing is wrong. */
    plain_case(&c);
    c.levels[0].outer_layout = HURRAY_LAYOUT_STRIDED;
    c.outer[0][0] = INT64_C(1) << 60;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_validate(&c.fields));
    expect_message("whole tiles of this shape reach 2^64");
    c.shape[1] = 0;
    expect_ok(hurray_descriptor_validate(&c.fields));
    assert_int_equal(required_of(&c.fields), 0);
    c.shape[1] = HURRAY_DYNAMIC;
    expect_ok(hurray_descriptor_validate(&c.fields));
    plain_case(&c);
    c.tiles[0][0] = UINT64_C(1) << 62; /* a row of two of them, eight bytes to an element */
    c.fields.type_tag = HURRAY_TYPE_FLOAT64;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_validate(&c.fields));
    expect_message("2^64");
}

static void pointers_that_are_missing(void **state) {
    (void)state;
    Case c;
    plain_case(&c);
    c.levels[1].tile_shape = NULL;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_validate(&c.fields));
    plain_case(&c);
    c.levels[1].outer_layout = HURRAY_LAYOUT_STRIDED;
    c.levels[1].outer_strides = NULL;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_validate(&c.fields));
    plain_case(&c);
    c.levels[1].inner_layout = HURRAY_LAYOUT_STRIDED;
    c.levels[1].inner_strides = NULL;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_validate(&c.fields));
    plain_case(&c);
    c.fields.layout.tiled.levels = NULL;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_descriptor_validate(&c.fields));
}

static void reserved_bytes_and_codes_on_the_wire(void **state) {
    (void)state;
    enum {
        CODES = 20 + 16 + 8 + 16 /* header, shape, byte_offset, tile_shape */
    };
    static const struct {
        size_t at;
        uint8_t value;
        const char *part;
    } faults[] = {
        {CODES, 4, "level 0: outer_layout is 0x04"},
        {CODES + 1, 0, "level 0: inner_layout is 0x00"},
        {CODES + 2, 7, "level 0: reserved bytes are 0x07 0x00"},
        {CODES + 3, 9, "level 0: reserved bytes are 0x00 0x09"},
        {CODES + 4 + 16 + 1, 4, "descriptor"}, /* a third level is not there */
    };
    Case c;
    uint8_t bytes[256];
    uintptr_t length;
    HurrayDescriptor *descriptor = NULL;
    plain_case(&c);
    expect_ok(hurray_descriptor_encode(&c.fields, bytes, sizeof bytes, &length));
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        uint8_t *broken = exact_copy(bytes, length);
        broken[faults[i].at] = faults[i].value;
        expect_any_failure(hurray_descriptor_decode(broken, length, &descriptor));
        if (i < 4) expect_message(faults[i].part);
        free(broken);
    }
}

/* 64 dimensions, eight levels of strides: as much as the format allows in a descriptor. */
static void the_largest_fields_there_are(void **state) {
    (void)state;
    uint64_t shape[HURRAY_MAX_RANK], tile[HURRAY_MAX_RANK];
    int64_t strides[HURRAY_MAX_RANK];
    HurrayTileLevel levels[HURRAY_MAX_TILE_LEVELS];
    HurrayBufferHandle buffer;
    for (uint32_t k = 0; k < HURRAY_MAX_RANK; k++) {
        shape[k] = tile[k] = 1 + (k % 32 == 0);
        strides[k] = 1 + k;
    }
    for (uint32_t i = 0; i < HURRAY_MAX_TILE_LEVELS; i++) {
        bool is_last = i + 1 == HURRAY_MAX_TILE_LEVELS;
        levels[i] = (HurrayTileLevel){tile, 3, is_last ? 3 : HURRAY_LAYOUT_TILED, strides, strides};
    }
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_INT8,
        .rank = HURRAY_MAX_RANK,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_TILED, .tiled = {HURRAY_MAX_TILE_LEVELS, levels}}};
    expect_exact_size(&fields, &buffer);
    assert_int_equal(buffer.byte_size, 1 + 1 + 33);
    HurrayDescriptor *descriptor = NULL;
    uint8_t bytes[16384];
    uintptr_t length;
    expect_ok(hurray_descriptor_encode(&fields, bytes, sizeof bytes, &length));
    expect_ok(hurray_descriptor_decode(bytes, length, &descriptor));
    expect_same_bytes(hurray_descriptor_fields(descriptor), bytes, length);
    hurray_descriptor_destroy(descriptor);
    expect_truncations_refused(bytes, length);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_specification),
        cmocka_unit_test(offsets_are_those_of_the_definition),
        cmocka_unit_test(offsets_lead_back_to_their_index),
        cmocka_unit_test(buffers_hold_whole_tiles),
        cmocka_unit_test(bytes_of_every_depth),
        cmocka_unit_test(comparison_sees_every_field),
        cmocka_unit_test(rules_of_the_fields),
        cmocka_unit_test(more_than_eight_levels),
        cmocka_unit_test(fields_that_overflow),
        cmocka_unit_test(pointers_that_are_missing),
        cmocka_unit_test(reserved_bytes_and_codes_on_the_wire),
        cmocka_unit_test(the_largest_fields_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
