/*
 * Conversions between dense layouts: every pair of them, for every width of elements, against a
 * conversion that looks at one bit at a time.
 */
#include "convert_cases.h"
#include "expect.h"
#include "random.h"

#include <hurray/convert.h>
#include <hurray/memory.h>
#include <hurray/parallel.h>

#include "convert.h"
#include "past_cache.h"

enum {
    PAIR_ROUNDS = 12,
    LARGE_ROUNDS = 4,
    SLAB_ROUNDS = 250,
    SQUARE_ROUNDS = 300,
    MARGIN = 16
};

static uint64_t choose(void *context, uint64_t bound) { return random_below(context, bound); }

static const HurrayExtensionType three_bytes = {.bit_width = 24, .packing_factor = 1},
                                 five_bytes = {.bit_width = 40, .packing_factor = 1};

/* A type of each width: 1, 2, 4, 6, 8, 16, 32, 64 and 128 bits, and private ones of 24 and 40. */
static const uint8_t types[] = {
    HURRAY_TYPE_BOOL,          HURRAY_TYPE_UINT2,        HURRAY_TYPE_INT4,
    HURRAY_TYPE_FLOAT6_E2M3,   HURRAY_TYPE_UINT8,        HURRAY_TYPE_FLOAT16,
    HURRAY_TYPE_FLOAT32,       HURRAY_TYPE_INT64,        HURRAY_TYPE_FLOAT128,
    HURRAY_TYPE_PRIVATE_FIRST, HURRAY_TYPE_PRIVATE_LAST,
};
#define TYPE_COUNT (sizeof types / sizeof types[0])

/* One side of a conversion: fields, and a buffer of exactly the size required, or more. */
typedef struct CaseSide {
    CaseLayout layout;
    HurrayDescriptorFields fields;
    uint64_t required, size;
    uint8_t *bytes;
} CaseSide;

static void fill_randomly(uint64_t *random, uint8_t *bytes, uint64_t size) {
    for (uint64_t i = 0; i < size; i++) bytes[i] = (uint8_t)random_u64(random);
}

/* Leaves as much room before element 0 as negative strides need. */
static void find_byte_offset(uint64_t *random, CaseSide *side) {
    side->fields.byte_offset = random_below(random, 3) * 8;
    while (hurray_descriptor_required_bytes(&side->fields, 0, &side->required, NULL) != HURRAY_OK) {
        side->fields.byte_offset = side->fields.byte_offset * 2 + 8;
        assert_true(side->fields.byte_offset < UINT64_C(1) << 40);
    }
}

static void make_side(uint64_t *random, uint8_t type, uint32_t kind, const uint64_t *shape,
                      uint32_t rank, CaseSide *side) {
    Choices choices = {choose, random};
    make_layout(&choices, kind, shape, rank, &side->layout);
    side->fields = (HurrayDescriptorFields){
        .type_tag = type,
        .rank = rank,
        .shape = shape,
        .layout = side->layout.layout,
        .buffer_count = 1,
    };
    if (hurray_element_type_is_private(type)) {
        side->fields.extension_type =
            type == HURRAY_TYPE_PRIVATE_FIRST ? &three_bytes : &five_bytes;
    }
    find_byte_offset(random, side);
    side->size = side->required + (random_below(random, 2) == 0 ? 0 : MARGIN);
    side->bytes = malloc((size_t)side->size + 1);
    assert_non_null(side->bytes);
    side->bytes = realloc(side->bytes, side->size == 0 ? 1 : (size_t)side->size); /* exact */
    assert_non_null(side->bytes);
    fill_randomly(random, side->bytes, side->size);
}

static uint8_t *copy_of(const uint8_t *bytes, uint64_t size) {
    uint8_t *copy = malloc(size == 0 ? 1 : (size_t)size);
    assert_non_null(copy);
    memcpy(copy, bytes, (size_t)size);
    return copy;
}

static bool has_negative_strides(const HurrayLayout *layout) {
    return layout->tag == HURRAY_LAYOUT_STRIDED || layout->tag == HURRAY_LAYOUT_TILED;
}

static void expect_converted(const CaseSide *from, const CaseSide *to, const uint8_t *before) {
    uint8_t *expected = copy_of(before, to->size);
    if (!converted_as_expected(&from->fields, from->bytes, &to->fields, before, to->bytes, to->size,
                               to->required, expected)) {
        print_error("type 0x%02X, rank %u, layout 0x%02X to 0x%02X\n", from->fields.type_tag,
                    (unsigned)from->fields.rank, from->fields.layout.tag, to->fields.layout.tag);
        for (uint32_t k = 0; k < from->fields.rank; k++) {
            print_error("extent %u\n", (unsigned)from->fields.shape[k]);
        }
        fail();
    }
    if (!has_negative_strides(&to->fields.layout)) {
        assert_memory_equal(to->bytes, before, (size_t)to->fields.byte_offset);
    }
    free(expected);
}

/* Converts one way and back; the elements are the same again, and padding makes no difference. */
static void expect_pair(uint64_t *random, uint8_t type, uint32_t from_kind, uint32_t to_kind,
                        const uint64_t *shape, uint32_t rank) {
    CaseSide from, to;
    make_side(random, type, from_kind, shape, rank, &from);
    make_side(random, type, to_kind, shape, rank, &to);
    uint8_t *before = copy_of(to.bytes, to.size), *source = copy_of(from.bytes, from.size);
    expect_ok(hurray_convert(&from.fields, from.bytes, from.size, &to.fields, to.bytes, to.size));
    assert_memory_equal(source, from.bytes, (size_t)from.size);
    expect_converted(&from, &to, before);

    /* Back into bytes that hold something else: elements, with zeros between them. */
    uint8_t *first = copy_of(to.bytes, to.size);
    fill_randomly(random, from.bytes, from.size);
    uint8_t *garbage = copy_of(from.bytes, from.size);
    expect_ok(hurray_convert(&to.fields, to.bytes, to.size, &from.fields, from.bytes, from.size));
    expect_converted(&to, &from, garbage);

    /* And once more: what was padding in the source at first is zero now, the result is the same. */
    memcpy(to.bytes, before, (size_t)to.size);
    expect_ok(hurray_convert(&from.fields, from.bytes, from.size, &to.fields, to.bytes, to.size));
    assert_memory_equal(to.bytes, first, (size_t)to.size);
    free(garbage);
    free(first);
    free(source);
    free(before);
    free(from.bytes);
    free(to.bytes);
}

/* A shape of at most some thousand elements; powers of two where a Hilbert curve is wanted. */
static uint32_t make_shape(uint64_t *random, bool is_hilbert, uint64_t *shape) {
    static const uint64_t most[] = {1, 300, 40, 14, 7, 4};
    uint32_t rank = 1 + (uint32_t)random_below(random, 5);
    if (is_hilbert && rank < 2) rank = 2;
    uint64_t edge = UINT64_C(1) << (1 + random_below(random, rank == 2 ? 5 : rank == 3 ? 3 : 2));
    for (uint32_t k = 0; k < rank; k++) {
        shape[k] = is_hilbert ? edge : 1 + random_below(random, most[rank]);
    }
    return rank;
}

static void every_pair_for_every_width(void **state) {
    uint64_t random = 1;
    (void)state;
    for (uint32_t pair = 0; pair < CASE_KINDS * CASE_KINDS; pair++) {
        uint32_t from = pair / CASE_KINDS, to = pair % CASE_KINDS;
        for (size_t t = 0; t < TYPE_COUNT; t++) {
            for (int round = 0; round < PAIR_ROUNDS; round++) {
                uint64_t shape[CASE_RANK];
                bool is_hilbert = from == 5 || to == 5;
                uint32_t rank = make_shape(&random, is_hilbert, shape);
                expect_pair(&random, types[t], from, to, shape, rank);
            }
        }
    }
}

/* Several blocks, whole squares and what is left beside them. */
static void every_pair_of_larger_arrays(void **state) {
    static const uint64_t shapes[][3] = {{150, 203, 1}, {31, 9, 67}, {5, 1, 3001}, {128, 128, 1}};
    uint64_t random = 2;
    (void)state;
    for (uint32_t pair = 0; pair < CASE_KINDS * CASE_KINDS; pair++) {
        for (size_t t = 0; t < TYPE_COUNT; t++) {
            size_t i = (size_t)random_below(&random, LARGE_ROUNDS);
            uint32_t from = pair / CASE_KINDS, to = pair % CASE_KINDS;
            if (from == 5 || to == 5) i = 3;
            if (i == 2 && (from == 4 || to == 4))
                i = 1; /* 2^36 positions for its 15,005 elements */
            expect_pair(&random, types[t], from, to, shapes[i], i == 0 || i == 3 ? 2 : 3);
        }
    }
}

/* Of some MiB, so that threads share the work: whatever their number, the bytes are the same. */
static void threads_convert_as_one_does(void **state) {
    static const uint64_t shapes[][2] = {{1100, 1031}, {7, 160001}, {1024, 1024}};
    uint64_t random = 5;
    (void)state;
    for (uint32_t pair = 0; pair < CASE_KINDS * CASE_KINDS; pair++) {
        uint32_t kind = pair / CASE_KINDS, other = pair % CASE_KINDS;
        uint8_t type = pair % 2 == 0 ? HURRAY_TYPE_FLOAT32 : HURRAY_TYPE_INT64;
        size_t i = kind == 5 || other == 5 ? 2 : kind == 4 || other == 4 ? 0 : pair % 2;
        CaseSide from, to;
        make_side(&random, type, kind, shapes[i], 2, &from);
        make_side(&random, type, other, shapes[i], 2, &to);
        uint8_t *expected = copy_of(to.bytes, to.size), *before = copy_of(to.bytes, to.size);
        hurray_set_max_threads(1);
        expect_ok(
            hurray_convert(&from.fields, from.bytes, from.size, &to.fields, expected, to.size));
        for (uint32_t threads = 2; threads < 5; threads++) {
            memcpy(to.bytes, before, (size_t)to.size);
            hurray_set_max_threads(threads);
            expect_ok(
                hurray_convert(&from.fields, from.bytes, from.size, &to.fields, to.bytes, to.size));
            assert_memory_equal(to.bytes, expected, (size_t)to.size);
        }
        free(before);
        free(expected);
        free(from.bytes);
        free(to.bytes);
    }
    hurray_set_max_threads(0);
}

/* Element [i, j] of either side, `size` bytes: where it lies. */
static const uint8_t *element_of(const HurrayDescriptorFields *fields, const uint8_t *bytes,
                                 size_t size, uint64_t i, uint64_t j) {
    uint64_t rows = fields->shape[0], columns = fields->shape[1], offset = i * columns + j;
    if (fields->layout.tag == HURRAY_LAYOUT_COL_MAJOR) offset = j * rows + i;
    if (fields->layout.tag == HURRAY_LAYOUT_TILED) { /* 64 · 64, rows of tiles that are rows */
        offset = (i / 64 * ((columns + 63) / 64) + j / 64) * 4096 + i % 64 * 64 + j % 64;
    }
    return bytes + (size_t)(fields->byte_offset + offset * size);
}

/* Results that no cache holds are written past it where their lines are whole. Each time one is, and one
 * begins beside a line. */
static void large_results(void **state) {
    static const struct {
        uint8_t type;
        uint32_t size;
        uint64_t shape[2];
    } cases[] = {
        {HURRAY_TYPE_UINT8, 1, {5824, 5824}},   {HURRAY_TYPE_FLOAT16, 2, {4128, 4128}},
        {HURRAY_TYPE_FLOAT32, 4, {2896, 2928}}, {HURRAY_TYPE_FLOAT32, 4, {2905, 2912}},
        {HURRAY_TYPE_INT64, 8, {2051, 2056}},   {HURRAY_TYPE_FLOAT128, 16, {1460, 1460}},
    };
    static const uint64_t tile[2] = {64, 64};
    HurrayTileLevel level = {.tile_shape = tile, .outer_layout = 1, .inner_layout = 1};
    const HurrayLayout layouts[] = {{HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
                                    {HURRAY_LAYOUT_COL_MAJOR, {NULL}},
                                    {HURRAY_LAYOUT_TILED, {.tiled = {1, &level}}}};
    static const uint8_t pairs[][2] = {{0, 1}, {1, 0}, {0, 2}, {2, 0}};
    uint64_t random = 11;
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
            HurrayDescriptorFields from = {.type_tag = cases[c].type,
                                           .rank = 2,
                                           .shape = cases[c].shape,
                                           .layout = layouts[pairs[p][0]],
                                           .buffer_count = 1};
            HurrayDescriptorFields to = from;
            uint64_t from_size = 0, to_size = 0;
            size_t size = cases[c].size;
            to.layout = layouts[pairs[p][1]];
            to.byte_offset = (c + p) % 2 * 16;
            expect_ok(hurray_descriptor_required_bytes(&from, 0, &from_size, NULL));
            expect_ok(hurray_descriptor_required_bytes(&to, 0, &to_size, NULL));
            assert_true(to_size >= HRI_PAST_CACHE_BYTES);
            uint8_t *source = malloc((size_t)from_size);
            uint8_t *result = hurray_aligned_alloc((size_t)to_size, 64, false);
            assert_true(source != NULL && result != NULL);
            for (uint64_t i = 0; i + 8 <= from_size; i += 8) {
                uint64_t word = random_u64(&random);
                memcpy(source + i, &word, sizeof word);
            }
            expect_ok(hurray_convert(&from, source, from_size, &to, result, to_size));
            size_t differences = 0;
            for (uint64_t i = 0; i < cases[c].shape[0]; i++) {
                for (uint64_t j = i % 7; j < cases[c].shape[1]; j += 7) { /* some of each line */
                    differences += memcmp(element_of(&from, source, size, i, j),
                                          element_of(&to, result, size, i, j), size) != 0;
                }
            }
            assert_int_equal(differences, 0);
            hurray_aligned_free(result);
            free(source);
        }
    }
}

static void scalars_and_single_elements(void **state) {
    static const uint64_t ones[5] = {1, 1, 1, 1, 1};
    uint64_t random = 3;
    (void)state;
    for (uint32_t rank = 0; rank < 6; rank++) {
        for (size_t t = 0; t < TYPE_COUNT; t++) {
            for (uint32_t pair = 0; pair < CASE_KINDS * CASE_KINDS; pair++) {
                expect_pair(&random, types[t], pair / CASE_KINDS, pair % CASE_KINDS, ones, rank);
            }
        }
    }
}

/* A conversion one slab after another, by one of the ways; false where it cannot go this way. */
static bool convert_in_slabs(uint64_t *random, const Conversion *conversion, int way) {
    Boxes boxes;
    Blocks blocks;
    Division division;
    size_t squares = hri_squares_size(conversion);
    void *workspace = NULL;
    if (way == 0) {
        if (!hri_boxes_prepare(conversion, &boxes)) return false;
        division = boxes.division;
    } else if (way == 1) {
        hri_blocks_prepare(conversion, &blocks);
        workspace = malloc(hri_blocks_workspace(conversion, &blocks));
        assert_non_null(workspace);
        division = blocks.division;
    } else {
        if (squares == 0) return false;
        workspace = malloc(squares);
        assert_non_null(workspace);
        hri_squares_prepare(conversion, workspace);
        division = hri_squares_division(workspace);
    }
    expect_ok(hri_conversion_clear(conversion));
    uint64_t end = conversion->shape[division.dimension];
    for (uint64_t at = 0, next; at < end; at = next) {
        next = at + division.grain * (1 + random_below(random, 2));
        if (next > end) next = end;
        Slab slab = {division.dimension, at, next};
        switch (way) {
        case 0: expect_ok(hri_boxes_convert(conversion, &boxes, slab)); break;
        case 1: hri_blocks_convert(conversion, &blocks, slab, workspace); break;
        default: hri_squares_convert(conversion, workspace, slab); break;
        }
    }
    free(workspace);
    return true;
}

/* In slabs, by every way that there is. Returns whether squares are one. */
static bool expect_slabs(uint64_t *random, const CaseSide *from, const CaseSide *to) {
    uint8_t *before = copy_of(to->bytes, to->size);
    bool is_possible = false;
    for (int way = 0; way < 3; way++) {
        Conversion conversion;
        memcpy(to->bytes, before, (size_t)to->size);
        expect_ok(hri_conversion_prepare(&from->fields, from->bytes, from->size, &to->fields,
                                         to->bytes, to->size, &conversion));
        is_possible = convert_in_slabs(random, &conversion, way);
        if (is_possible) expect_converted(from, to, before);
    }
    free(before);
    return is_possible;
}

static void slabs_give_the_whole(void **state) {
    uint64_t random = 4;
    (void)state;
    for (int round = 0; round < SLAB_ROUNDS; round++) {
        uint64_t shape[CASE_RANK];
        uint32_t kind = (uint32_t)random_below(&random, CASE_KINDS);
        uint32_t other = (uint32_t)random_below(&random, CASE_KINDS);
        uint8_t type = types[random_below(&random, TYPE_COUNT)];
        uint32_t rank = make_shape(&random, kind == 5 || other == 5, shape);
        shape[0] *= kind == 5 || other == 5 ? 1 : 1 + random_below(&random, 20);
        CaseSide from, to;
        make_side(&random, type, kind, shape, rank, &from);
        make_side(&random, type, other, shape, rank, &to);
        expect_slabs(&random, &from, &to);
        free(from.bytes);
        free(to.bytes);
    }
}

/* Strides of which one is 1, in either order, the other of either sign and with a gap; or tiles that
 * have 16 elements together, or do not. */
static void make_rows(uint64_t *random, const uint64_t *shape, CaseSide *side) {
    uint32_t k = (uint32_t)random_below(random, 2);
    int64_t stride = (int64_t)(shape[k] + random_below(random, 4));
    side->layout.strides[k] = 1;
    side->layout.strides[1 - k] = random_below(random, 2) == 0 ? stride : -stride;
    side->layout.layout = (HurrayLayout){HURRAY_LAYOUT_STRIDED, {.strides = side->layout.strides}};
    if (random_below(random, 2) == 0) {
        side->layout.tiles[0][0] = 8 + 8 * random_below(random, 4);
        side->layout.tiles[0][1] = 8 + 8 * random_below(random, 4);
        side->layout.levels[0] = (HurrayTileLevel){
            .tile_shape = side->layout.tiles[0],
            .outer_layout = (uint8_t)(1 + random_below(random, 2)),
            .inner_layout = (uint8_t)(1 + random_below(random, 2)),
        };
        side->layout.layout.tag = HURRAY_LAYOUT_TILED;
        side->layout.layout.tiled = (HurrayTiledLayout){1, side->layout.levels};
    }
    free(side->bytes);
    side->fields.layout = side->layout.layout;
    find_byte_offset(random, side);
    side->size = side->required;
    side->bytes = malloc((size_t)side->size);
    assert_non_null(side->bytes);
    fill_randomly(random, side->bytes, side->size);
}

/* Squares of a curve: whole ones, and what the shape leaves of others, in both directions. */
static void squares_of_curves(void **state) {
    uint64_t random = 10;
    uint32_t by_squares = 0, otherwise = 0;
    (void)state;
    for (int round = 0; round < SQUARE_ROUNDS; round++) {
        uint8_t type = types[random_below(&random, TYPE_COUNT)];
        uint64_t edge = UINT64_C(16) << random_below(&random, 3);
        uint64_t shape[2] = {14 + random_below(&random, 100), 14 + random_below(&random, 100)};
        uint32_t kind = random_below(&random, 2) == 0 ? 4 : 5;
        if (kind == 5) shape[0] = shape[1] = edge;
        CaseSide curve, other;
        make_side(&random, type, kind, shape, 2, &curve);
        make_side(&random, type, 0, shape, 2, &other);
        if (random_below(&random, 3) != 0) make_rows(&random, shape, &other);
        bool is_possible = expect_slabs(&random, &curve, &other);
        assert_int_equal(expect_slabs(&random, &other, &curve), is_possible);
        *(is_possible ? &by_squares : &otherwise) += 1;
        free(curve.bytes);
        free(other.bytes);
    }
    assert_true(by_squares > SQUARE_ROUNDS / 3);
    assert_true(otherwise > SQUARE_ROUNDS / 10);
}

/* ---- quantized tensors ---- */

static void quantized_padding_is_zero(void **state) {
    uint64_t random = 5, shape[3] = {3, 21, 5};
    HurrayQuantization quantization = {.scheme = HURRAY_SCHEME_NF4,
                                       .axis = 1,
                                       .block_size = 8,
                                       .scale_buffer = 1,
                                       .zero_point_buffer = HURRAY_NO_BUFFER};
    (void)state;
    for (uint32_t pair = 0; pair < CASE_KINDS * CASE_KINDS; pair++) {
        for (uint32_t axis = 0; axis < 3; axis++) {
            CaseSide sides[2];
            quantization.axis = axis;
            for (int i = 0; i < 2; i++) {
                uint32_t kind = i == 0 ? pair / CASE_KINDS : pair % CASE_KINDS;
                make_side(&random, HURRAY_TYPE_UINT4, kind, shape, 3, &sides[i]);
                free(sides[i].bytes);
                sides[i].fields.quantization = &quantization;
                find_byte_offset(&random, &sides[i]);
                sides[i].size = sides[i].required;
                sides[i].bytes = malloc((size_t)sides[i].size);
                assert_non_null(sides[i].bytes);
                fill_randomly(&random, sides[i].bytes, sides[i].size);
            }
            uint8_t *before = copy_of(sides[1].bytes, sides[1].size);
            expect_ok(hurray_convert(&sides[0].fields, sides[0].bytes, sides[0].size,
                                     &sides[1].fields, sides[1].bytes, sides[1].size));
            expect_converted(&sides[0], &sides[1], before);
            free(before);
            free(sides[0].bytes);
            free(sides[1].bytes);
        }
    }
}

/* ---- what is refused ---- */

static HurrayDescriptorFields fields_of(const uint64_t *shape, uint32_t rank, uint8_t layout) {
    return (HurrayDescriptorFields){.type_tag = HURRAY_TYPE_FLOAT32,
                                    .rank = rank,
                                    .shape = shape,
                                    .layout = {layout, {NULL}},
                                    .buffer_count = 1};
}

static void arguments_are_checked(void **state) {
    uint64_t shape[2] = {3, 4}, other[2] = {3, 5}, open[2] = {3, HURRAY_DYNAMIC};
    uint8_t source[64] = {0}, out[64], untouched[64];
    memset(out, 0xA5, sizeof out);
    memcpy(untouched, out, sizeof out);
    HurrayDescriptorFields from = fields_of(shape, 2, HURRAY_LAYOUT_ROW_MAJOR);
    HurrayDescriptorFields to = fields_of(shape, 2, HURRAY_LAYOUT_COL_MAJOR), bad;
    HurrayQuantization quantization = {.scheme = HURRAY_SCHEME_PER_TENSOR, .scale = 1};
    (void)state;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_convert(NULL, source, 64, &to, out, 64));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_convert(&from, source, 64, NULL, out, 64));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_convert(&from, NULL, 64, &to, out, 64));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_convert(&from, source, 64, &to, NULL, 64));
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_convert(&from, source, 47, &to, out, 64));
    expect_message("source_size is 47");
    expect_failure(HURRAY_ERR_BUFFER_TOO_SMALL, hurray_convert(&from, source, 48, &to, out, 47));
    expect_message("destination_size is 47");
    bad = to;
    bad.type_tag = HURRAY_TYPE_INT32;
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, hurray_convert(&from, source, 64, &bad, out, 64));
    bad = to;
    bad.shape = other;
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, hurray_convert(&from, source, 64, &bad, out, 64));
    expect_message("shape[1]");
    bad.rank = 1;
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, hurray_convert(&from, source, 64, &bad, out, 64));
    bad = to;
    bad.quantization = &quantization;
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, hurray_convert(&from, source, 64, &bad, out, 64));
    bad.quantization = &(HurrayQuantization){.scheme = 0x77};
    bad.permissive = true;
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_convert(&from, source, 64, &bad, out, 64));
    bad = to;
    bad.shape = open;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_convert(&bad, source, 64, &bad, out, 64));
    expect_message("dynamic");
    bad = to;
    bad.layout.tag = HURRAY_LAYOUT_COO;
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_convert(&from, source, 64, &bad, out, 64));
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_convert(&bad, source, 64, &to, out, 64));
    bad = to;
    bad.type_tag = HURRAY_TYPE_PRIVATE_FIRST;
    bad.extension_type = &three_bytes;
    HurrayExtensionType named = three_bytes;
    HurrayDescriptorFields private_to = bad;
    named.is_signed = true;
    private_to.extension_type = &named;
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT,
                   hurray_convert(&bad, source, 64, &private_to, out, 64));
    assert_memory_equal(out, untouched, sizeof out);
}

static void overlapping_destinations_are_refused(void **state) {
    static const int64_t overlapping[][2] = {{0, 1}, {1, 1}, {3, 1}, {4, 0}, {-2, 1}};
    uint64_t shape[2] = {3, 4};
    uint8_t source[64] = {0}, out[64];
    HurrayDescriptorFields from = fields_of(shape, 2, HURRAY_LAYOUT_ROW_MAJOR);
    (void)state;
    for (size_t i = 0; i < sizeof overlapping / sizeof overlapping[0]; i++) {
        HurrayDescriptorFields to = fields_of(shape, 2, HURRAY_LAYOUT_STRIDED);
        to.layout.strides = overlapping[i];
        to.byte_offset = 16;
        expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_convert(&from, source, 64, &to, out, 64));
        expect_message("overlap");
        /* As a source they are fine. */
        expect_ok(hurray_convert(&to, source, 64, &from, out, 64));
    }
}

static void broadcasts_are_written_out(void **state) {
    const int64_t strides[3] = {0, -1, 0};
    uint64_t shape[3] = {2, 3, 4};
    const uint8_t source[3] = {7, 8, 9};
    uint8_t out[24];
    HurrayDescriptorFields from = fields_of(shape, 3, HURRAY_LAYOUT_STRIDED);
    HurrayDescriptorFields to = fields_of(shape, 3, HURRAY_LAYOUT_ROW_MAJOR);
    from.type_tag = to.type_tag = HURRAY_TYPE_UINT8;
    from.layout.strides = strides;
    from.byte_offset = 2;
    (void)state;
    expect_ok(hurray_convert(&from, source, sizeof source, &to, out, sizeof out));
    for (size_t i = 0; i < sizeof out; i++) assert_int_equal(out[i], 9 - i / 4 % 3);
}

static void empty_and_huge_shapes(void **state) {
    uint64_t empty[2] = {0, UINT64_C(1) << 40}, huge[2] = {UINT64_C(1) << 40, UINT64_C(1) << 40};
    uint64_t large[2] = {UINT64_C(1) << 32, UINT64_C(1) << 29};
    const int64_t still[2] = {0, 0};
    uint8_t byte = 1;
    HurrayDescriptorFields from = fields_of(empty, 2, HURRAY_LAYOUT_ROW_MAJOR);
    HurrayDescriptorFields to = fields_of(empty, 2, HURRAY_LAYOUT_COL_MAJOR);
    (void)state;
    expect_ok(hurray_convert(&from, NULL, 0, &to, NULL, 0));
    from.shape = to.shape = huge;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT,
                   hurray_convert(&from, &byte, UINT64_MAX, &to, &byte, UINT64_MAX));
    from.layout = (HurrayLayout){HURRAY_LAYOUT_STRIDED, {.strides = still}};
    expect_failure(HURRAY_ERR_INVALID_LAYOUT,
                   hurray_convert(&from, &byte, 4, &to, &byte, UINT64_MAX));
    expect_failure(HURRAY_ERR_INVALID_LAYOUT,
                   hurray_convert(&from, &byte, 4, &from, &byte, UINT64_MAX));
    from.shape = to.shape = large; /* 2^63 bytes, which no pointer spans */
    expect_failure(HURRAY_ERR_BUFFER_TOO_SMALL,
                   hurray_convert(&from, &byte, 4, &to, &byte, UINT64_MAX / 4));
    expect_failure(HURRAY_ERR_INVALID_LAYOUT,
                   hurray_convert(&from, &byte, 4, &to, &byte, UINT64_MAX));
    expect_message("more than this machine can address");
}

/* Dimensions without end: rank 64, every other one of extent 2. */
static void high_ranks(void **state) {
    uint64_t random = 6, shape[HURRAY_MAX_RANK], tile[HURRAY_MAX_RANK];
    uint8_t source[4096], there[8192], back[4096];
    (void)state;
    for (uint32_t k = 0; k < HURRAY_MAX_RANK; k++) {
        shape[k] = k % 6 == 0 ? 2 : 1;
        tile[k] = k % 12 == 0 ? 2 : 1;
    }
    HurrayTileLevel level = {.tile_shape = tile, .outer_layout = 2, .inner_layout = 2};
    HurrayDescriptorFields from = fields_of(shape, HURRAY_MAX_RANK, HURRAY_LAYOUT_ROW_MAJOR);
    HurrayDescriptorFields to = from;
    to.layout = (HurrayLayout){HURRAY_LAYOUT_TILED, {.tiled = {1, &level}}};
    from.type_tag = to.type_tag = HURRAY_TYPE_UINT16;
    fill_randomly(&random, source, sizeof source);
    expect_ok(hurray_convert(&from, source, sizeof source, &to, there, sizeof there));
    expect_ok(hurray_convert(&to, there, sizeof there, &from, back, sizeof back));
    assert_memory_equal(source, back, 4096);
}

/* ---- new tensors ---- */

static HurrayTensor *tensor_over(const CaseSide *side, const HurrayQuantization *quantization) {
    HurrayBuffer *buffers[2] = {NULL, NULL};
    HurrayDescriptorFields fields = side->fields;
    HurrayTensor *tensor = NULL;
    expect_ok(hurray_buffer_allocate(side->size, false, NULL, &buffers[0]));
    memcpy(hurray_buffer_info(buffers[0])->data, side->bytes, (size_t)side->size);
    if (quantization != NULL) {
        expect_ok(hurray_buffer_allocate(3 * 3 * 4, true, NULL, &buffers[1]));
        fields.quantization = quantization;
        fields.buffer_count = 2;
    }
    expect_ok(hurray_tensor_create(&fields, buffers, &tensor));
    return tensor;
}

static void new_tensors(void **state) {
    uint64_t random = 7;
    (void)state;
    for (int round = 0; round < SLAB_ROUNDS; round++) {
        uint64_t shape[CASE_RANK];
        uint32_t kind = (uint32_t)random_below(&random, CASE_KINDS);
        uint32_t other = (uint32_t)random_below(&random, CASE_KINDS);
        uint8_t type = types[random_below(&random, TYPE_COUNT)];
        uint32_t rank = make_shape(&random, kind == 5 || other == 5, shape);
        CaseSide from, to;
        make_side(&random, type, kind, shape, rank, &from);
        make_side(&random, type, other, shape, rank, &to);
        HurrayTensor *tensor = tensor_over(&from, NULL), *converted = NULL;
        expect_ok(hurray_tensor_to_layout(tensor, &to.layout.layout, NULL, &converted));
        free(to.bytes);
        to.fields = *hurray_tensor_fields(converted);
        const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(converted, 0));
        expect_ok(hurray_descriptor_required_bytes(&to.fields, 0, &to.required, NULL));
        assert_int_equal(to.required, info->byte_size);
        to.size = info->byte_size;
        to.bytes = info->data;
        uint8_t *zeros = calloc(1, (size_t)to.size + 1);
        assert_non_null(zeros);
        expect_converted(&from, &to, zeros);
        free(zeros);
        free(from.bytes);
        hurray_tensor_release(converted);
        hurray_tensor_release(tensor);
    }
}

static void new_quantized_tensors(void **state) {
    uint64_t random = 8, shape[2] = {3, 21};
    HurrayQuantization quantization = {.scheme = HURRAY_SCHEME_NF4,
                                       .axis = 1,
                                       .block_size = 8,
                                       .scale_buffer = 1,
                                       .zero_point_buffer = HURRAY_NO_BUFFER};
    const uint64_t tile[2] = {2, 4};
    HurrayTileLevel level = {.tile_shape = tile, .outer_layout = 1, .inner_layout = 1};
    const HurrayLayout tiled = {HURRAY_LAYOUT_TILED, {.tiled = {1, &level}}};
    const HurrayLayout columns = {HURRAY_LAYOUT_COL_MAJOR, {NULL}};
    (void)state;
    CaseSide from;
    make_side(&random, HURRAY_TYPE_UINT4, 0, shape, 2, &from);
    free(from.bytes);
    from.fields.quantization = &quantization;
    find_byte_offset(&random, &from);
    from.size = from.required;
    from.bytes = calloc(1, (size_t)from.size);
    assert_non_null(from.bytes);
    HurrayTensor *tensor = tensor_over(&from, &quantization), *one = NULL, *two = NULL;
    expect_ok(hurray_tensor_to_layout(tensor, &tiled, NULL, &one));
    expect_ok(hurray_tensor_to_layout(one, &columns, NULL, &two));
    assert_int_equal(hurray_buffer_info(hurray_tensor_buffer(one, 0))->byte_size, 4 * 24 / 2);
    assert_int_equal(hurray_buffer_info(hurray_tensor_buffer(two, 0))->byte_size, 3 * 24 / 2);
    assert_ptr_equal(hurray_tensor_buffer(two, 1), hurray_tensor_buffer(tensor, 1));
    hurray_tensor_release(tensor);
    hurray_tensor_release(one);
    hurray_tensor_release(two);
    free(from.bytes);
}

static void *allocate_nothing(size_t size, size_t alignment, bool zeroed, void *context) {
    (void)size, (void)alignment, (void)zeroed;
    *(int *)context += 1;
    return NULL;
}

static void tensors_that_cannot_be(void **state) {
    uint64_t random = 9, shape[2] = {3, 21};
    int calls = 0;
    const HurrayAllocator nothing = {allocate_nothing, NULL, &calls};
    const HurrayLayout columns = {HURRAY_LAYOUT_COL_MAJOR, {NULL}},
                       coo = {HURRAY_LAYOUT_COO, {NULL}};
    const int64_t far[2] = {INT64_MIN, INT64_MIN}, still[2] = {0, 0};
    const HurrayLayout too_far = {HURRAY_LAYOUT_STRIDED, {.strides = far}};
    const HurrayLayout broadcast = {HURRAY_LAYOUT_STRIDED, {.strides = still}};
    const HurrayLayout missing = {HURRAY_LAYOUT_STRIDED, {.strides = NULL}};
    const HurrayLayout hilbert = {HURRAY_LAYOUT_HILBERT, {.hilbert = {2, 2}}};
    CaseSide from;
    (void)state;
    make_side(&random, HURRAY_TYPE_INT4, 0, shape, 2, &from);
    HurrayTensor *tensor = tensor_over(&from, NULL), *out = NULL;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_to_layout(NULL, &columns, NULL, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_to_layout(tensor, NULL, NULL, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_to_layout(tensor, &columns, NULL, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_to_layout(tensor, &missing, NULL, &out));
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_tensor_to_layout(tensor, &coo, NULL, &out));
    expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_tensor_to_layout(tensor, &broadcast, NULL, &out));
    expect_any_failure(hurray_tensor_to_layout(tensor, &too_far, NULL, &out));
    expect_any_failure(hurray_tensor_to_layout(tensor, &hilbert, NULL, &out));
    expect_failure(HURRAY_ERR_OUT_OF_MEMORY,
                   hurray_tensor_to_layout(tensor, &columns, &nothing, &out));
    assert_int_equal(calls, 1);
    assert_null(out);
    hurray_tensor_release(tensor);
    free(from.bytes);

    make_side(&random, HURRAY_TYPE_INT4, 0, shape, 0, &from);
    tensor = tensor_over(&from, NULL);
    expect_failure(HURRAY_ERR_INVALID_LAYOUT,
                   hurray_tensor_to_layout(tensor, &columns, NULL, &out));
    expect_message("rank is 0");
    assert_null(out);
    hurray_tensor_release(tensor);
    free(from.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_for_every_width),
        cmocka_unit_test(every_pair_of_larger_arrays),
        cmocka_unit_test(threads_convert_as_one_does),
        cmocka_unit_test(large_results),
        cmocka_unit_test(scalars_and_single_elements),
        cmocka_unit_test(slabs_give_the_whole),
        cmocka_unit_test(squares_of_curves),
        cmocka_unit_test(quantized_padding_is_zero),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(overlapping_destinations_are_refused),
        cmocka_unit_test(broadcasts_are_written_out),
        cmocka_unit_test(empty_and_huge_shapes),
        cmocka_unit_test(high_ranks),
        cmocka_unit_test(new_tensors),
        cmocka_unit_test(new_quantized_tensors),
        cmocka_unit_test(tensors_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
