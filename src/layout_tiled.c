/*
 * Tiled (spec 2.3): tiles of one size in an arrangement of their own, filled in another one, down to
 * eight levels of tiles within tiles.
 *
 * A level arranges tiles; what it arranges them over is the shape at the first level, and one tile
 * of the level above at the others. The last level also arranges elements within its tile.
 */
#include <inttypes.h>

#include "checked.h"
#include "dense.h"
#include "fail.h"
#include "layout.h"

/* ---- the wire ---- */

static bool is_arrangement(uint8_t tag) {
    return tag == HURRAY_LAYOUT_ROW_MAJOR || tag == HURRAY_LAYOUT_COL_MAJOR ||
           tag == HURRAY_LAYOUT_STRIDED;
}

static HurrayStatus check_codes(const HurrayTileLevel *level, uint32_t at) {
    if (!is_arrangement(level->outer_layout)) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "tiled layout, level %" PRIu32 ": outer_layout is 0x%02X; expected 1 "
                        "(row_major), 2 (col_major) or 3 (strided)",
                        at, level->outer_layout);
    }
    if (!is_arrangement(level->inner_layout) && level->inner_layout != HURRAY_LAYOUT_TILED) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "tiled layout, level %" PRIu32 ": inner_layout is 0x%02X; expected 1 "
                        "(row_major), 2 (col_major), 3 (strided) or 4 (tiled)",
                        at, level->inner_layout);
    }
    if (level->inner_layout == HURRAY_LAYOUT_TILED && at + 1 == HURRAY_MAX_TILE_LEVELS) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "tiled layout, level %" PRIu32 ": inner_layout is 4 (tiled); expected at "
                        "most %u levels",
                        at, HURRAY_MAX_TILE_LEVELS);
    }
    return HURRAY_OK;
}

/* u64[rank] or i64[rank], whose bits are the same; NULL, and reader->failed, when they are not
 * there: the arena holds what the wire does, no more. */
static void *read_words(ByteReader *reader, uint32_t rank, Arena *arena) {
    if (reader_left(reader) < (size_t)rank * 8) {
        reader->failed = true;
        return NULL;
    }
    uint64_t *words = arena_take(arena, (size_t)rank * sizeof(uint64_t));
    for (uint32_t k = 0; k < rank; k++) words[k] = read_u64(reader);
    return words;
}

static HurrayStatus decode_level(ByteReader *reader, uint32_t rank, uint32_t at, Arena *arena,
                                 HurrayTileLevel *level) {
    level->tile_shape = read_words(reader, rank, arena);
    level->outer_layout = read_u8(reader);
    level->inner_layout = read_u8(reader);
    uint16_t reserved = read_u16(reader);
    if (reader->failed) return HURRAY_OK;
    HurrayStatus status = check_codes(level, at);
    if (status != HURRAY_OK) return status;
    if (reserved != 0) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "tiled layout, level %" PRIu32 ": reserved bytes are 0x%02X 0x%02X; "
                        "expected 0",
                        at, reserved & 0xFFu, (unsigned)reserved >> 8);
    }
    if (level->outer_layout == HURRAY_LAYOUT_STRIDED) {
        level->outer_strides = read_words(reader, rank, arena);
    }
    if (level->inner_layout == HURRAY_LAYOUT_STRIDED) {
        level->inner_strides = read_words(reader, rank, arena);
    }
    return HURRAY_OK;
}

/* The levels are gathered here first, since their number shows at the end. */
static HurrayStatus decode(ByteReader *reader, uint32_t rank, Arena *arena, HurrayLayout *out) {
    HurrayTileLevel levels[HURRAY_MAX_TILE_LEVELS] = {{NULL, 0, 0, NULL, NULL}};
    uint32_t count = 0;
    do {
        HurrayStatus status = decode_level(reader, rank, count, arena, &levels[count]);
        if (status != HURRAY_OK || reader->failed) return status;
    } while (levels[count++].inner_layout == HURRAY_LAYOUT_TILED);
    out->tiled.level_count = count;
    out->tiled.levels = arena_copy(arena, levels, count * sizeof(HurrayTileLevel));
    return HURRAY_OK;
}

static void write_strides(uint8_t arrangement, const int64_t *strides, uint32_t rank,
                          ByteWriter *writer) {
    if (arrangement != HURRAY_LAYOUT_STRIDED) return;
    for (uint32_t k = 0; k < rank; k++) write_u64(writer, (uint64_t)strides[k]);
}

static void encode(const HurrayLayout *layout, uint32_t rank, ByteWriter *writer) {
    for (uint32_t i = 0; i < layout->tiled.level_count; i++) {
        const HurrayTileLevel *level = &layout->tiled.levels[i];
        for (uint32_t k = 0; k < rank; k++) write_u64(writer, level->tile_shape[k]);
        write_u8(writer, level->outer_layout);
        write_u8(writer, level->inner_layout);
        write_zeros(writer, 2);
        write_strides(level->outer_layout, level->outer_strides, rank, writer);
        write_strides(level->inner_layout, level->inner_strides, rank, writer);
    }
}

/* ---- copies and comparison ---- */

static bool equal_strides(uint8_t arrangement, const int64_t *a, const int64_t *b, uint32_t rank) {
    return arrangement != HURRAY_LAYOUT_STRIDED ||
           memcmp(a, b, (size_t)rank * sizeof(int64_t)) == 0;
}

static bool equal(const HurrayLayout *a, const HurrayLayout *b, uint32_t rank) {
    if (a->tiled.level_count != b->tiled.level_count) return false;
    for (uint32_t i = 0; i < a->tiled.level_count; i++) {
        const HurrayTileLevel *x = &a->tiled.levels[i], *y = &b->tiled.levels[i];
        if (x->outer_layout != y->outer_layout || x->inner_layout != y->inner_layout ||
            memcmp(x->tile_shape, y->tile_shape, (size_t)rank * sizeof(uint64_t)) != 0 ||
            !equal_strides(x->outer_layout, x->outer_strides, y->outer_strides, rank) ||
            !equal_strides(x->inner_layout, x->inner_strides, y->inner_strides, rank)) {
            return false;
        }
    }
    return true;
}

static size_t footprint(const HurrayLayout *layout, uint32_t rank) {
    const HurrayTiledLayout *tiled = &layout->tiled;
    size_t bytes = arena_footprint(tiled->level_count * sizeof(HurrayTileLevel));
    for (uint32_t i = 0; i < tiled->level_count; i++) {
        size_t arrays = 1 + (size_t)(tiled->levels[i].outer_layout == HURRAY_LAYOUT_STRIDED) +
                        (size_t)(tiled->levels[i].inner_layout == HURRAY_LAYOUT_STRIDED);
        bytes += arrays * arena_footprint((size_t)rank * sizeof(uint64_t));
    }
    return bytes;
}

static const int64_t *copy_strides(uint8_t arrangement, const int64_t *strides, uint32_t rank,
                                   Arena *arena) {
    if (arrangement != HURRAY_LAYOUT_STRIDED) return NULL;
    return arena_copy(arena, strides, (size_t)rank * sizeof(int64_t));
}

static void copy(HurrayLayout *layout, uint32_t rank, Arena *arena) {
    HurrayTiledLayout *tiled = &layout->tiled;
    HurrayTileLevel *levels =
        arena_copy(arena, tiled->levels, tiled->level_count * sizeof(HurrayTileLevel));
    for (uint32_t i = 0; i < tiled->level_count; i++) {
        HurrayTileLevel *level = &levels[i];
        level->tile_shape = arena_copy(arena, level->tile_shape, (size_t)rank * sizeof(uint64_t));
        level->outer_strides = copy_strides(level->outer_layout, level->outer_strides, rank, arena);
        level->inner_strides = copy_strides(level->inner_layout, level->inner_strides, rank, arena);
    }
    tiled->levels = levels;
}

/* ---- reach ---- */

static const HurrayTileLevel *last_level(const HurrayTiledLayout *tiled) {
    return &tiled->levels[tiled->level_count - 1];
}

/* Elements of a tile; it has been checked that they are fewer than 2^64. */
static uint64_t tile_elements(const HurrayTileLevel *level, uint32_t rank) {
    uint64_t product = 1;
    for (uint32_t k = 0; k < rank; k++) product *= level->tile_shape[k];
    return product;
}

/*
 * The grid of tiles that a level arranges. `shape` is the tensor's and matters at level 0 only,
 * where edge tiles count as whole.
 */
static void tile_grid(const HurrayTiledLayout *tiled, uint32_t at, const uint64_t *shape,
                      uint32_t rank, uint64_t *grid) {
    const uint64_t *tiles = tiled->levels[at].tile_shape;
    const uint64_t *over = at == 0 ? shape : tiled->levels[at - 1].tile_shape;
    for (uint32_t k = 0; k < rank; k++) grid[k] = divide_up_u64(over[k], tiles[k]);
}

/* Adds how far an arrangement of `unit` elements each reaches. False when that comes to 2^64. */
static bool add_reach(uint8_t arrangement, const int64_t *strides, uint32_t rank,
                      const uint64_t *extents, uint64_t unit, uint64_t *before, uint64_t *after) {
    uint64_t low = 0, high = 1;
    uint32_t fault;
    if (arrangement == HURRAY_LAYOUT_STRIDED) {
        if (!hri_strided_spread(rank, extents, strides, &low, &high, &fault)) return false;
    } else {
        for (uint32_t k = 0; k < rank; k++) {
            if (!checked_mul_u64(high, extents[k], &high)) return false;
        }
        high -= 1;
    }
    return checked_mul_u64(low, unit, &low) && checked_mul_u64(high, unit, &high) &&
           checked_add_u64(*before, low, before) && checked_add_u64(*after, high, after);
}

static HurrayStatus fail_reach(uint32_t at, const char *part) {
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                    "tiled layout, level %" PRIu32 ": %s reach 2^64 elements or more", at, part);
}

/* How far the elements of a whole tile of level 0 lie from its first one; does not depend on the
 * shape. */
static HurrayStatus tile_reach(const HurrayTiledLayout *tiled, uint32_t rank, uint64_t *before,
                               uint64_t *after) {
    const HurrayTileLevel *last = last_level(tiled);
    uint64_t grid[HURRAY_MAX_RANK];
    *before = *after = 0;
    if (!add_reach(last->inner_layout, last->inner_strides, rank, last->tile_shape, 1, before,
                   after)) {
        return fail_reach(tiled->level_count - 1, "inner_strides");
    }
    for (uint32_t i = tiled->level_count - 1; i > 0; i--) {
        const HurrayTileLevel *level = &tiled->levels[i];
        tile_grid(tiled, i, NULL, rank, grid);
        if (!add_reach(level->outer_layout, level->outer_strides, rank, grid,
                       tile_elements(level, rank), before, after)) {
            return fail_reach(i, "outer_strides");
        }
    }
    return HURRAY_OK;
}

static HurrayStatus required_bytes(const HurrayDescriptorFields *fields, HurrayPacking packing,
                                   uint64_t *out) {
    const HurrayTiledLayout *tiled = &fields->layout.tiled;
    const HurrayTileLevel *first = &tiled->levels[0];
    uint32_t rank = fields->rank;
    out[0] = fields->byte_offset;
    if (hurray_shape_is_empty(fields->shape, rank) ||
        hurray_shape_is_dynamic(fields->shape, rank)) {
        return HURRAY_OK;
    }
    uint64_t before, after, grid[HURRAY_MAX_RANK];
    HurrayStatus status = tile_reach(tiled, rank, &before, &after);
    if (status != HURRAY_OK) return status;
    tile_grid(tiled, 0, fields->shape, rank, grid);
    if (!add_reach(first->outer_layout, first->outer_strides, rank, grid,
                   tile_elements(first, rank), &before, &after)) {
        return fail_reach(0, "whole tiles of this shape");
    }
    return hri_reach_bytes(fields, packing, "tiled", before, after, out);
}

/* ---- checks ---- */

static HurrayStatus check_level_pointers(const HurrayTiledLayout *tiled, uint32_t at) {
    const HurrayTileLevel *level = &tiled->levels[at];
    bool is_last = at + 1 == tiled->level_count;
    if (level->tile_shape == NULL) return hri_fail_null("layout.tiled.levels[].tile_shape");
    if (level->outer_layout == HURRAY_LAYOUT_STRIDED && level->outer_strides == NULL) {
        return hri_fail_null("layout.tiled.levels[].outer_strides");
    }
    if (level->inner_layout == HURRAY_LAYOUT_STRIDED && level->inner_strides == NULL) {
        return hri_fail_null("layout.tiled.levels[].inner_strides");
    }
    if ((level->inner_layout == HURRAY_LAYOUT_TILED) == is_last) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "tiled layout, level %" PRIu32 " of %" PRIu32 ": inner_layout is %u; "
                        "expected 4 (tiled) above the last level, and only there",
                        at, tiled->level_count, level->inner_layout);
    }
    return HURRAY_OK;
}

static HurrayStatus check_tile(const HurrayTiledLayout *tiled, uint32_t at, uint32_t rank) {
    const uint64_t *tile = tiled->levels[at].tile_shape;
    const uint64_t *outer = at == 0 ? NULL : tiled->levels[at - 1].tile_shape;
    uint64_t product = 1;
    for (uint32_t k = 0; k < rank; k++) {
        if (tile[k] == 0) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "tiled layout, level %" PRIu32 ": tile_shape[%" PRIu32 "] is 0; "
                            "expected at least 1",
                            at, k);
        }
        if (outer != NULL && outer[k] % tile[k] != 0) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "tiled layout, level %" PRIu32 ": tile_shape[%" PRIu32 "] is %" PRIu64
                            "; expected a divisor of the outer tile's %" PRIu64,
                            at, k, tile[k], outer[k]);
        }
        if (!checked_mul_u64(product, tile[k], &product)) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "tiled layout, level %" PRIu32 ": a tile has 2^64 elements or more "
                            "with tile_shape[%" PRIu32 "] of %" PRIu64,
                            at, k, tile[k]);
        }
    }
    return HURRAY_OK;
}

static HurrayStatus check_fields(const HurrayDescriptorFields *fields) {
    const HurrayTiledLayout *tiled = &fields->layout.tiled;
    if (tiled->level_count == 0 || tiled->level_count > HURRAY_MAX_TILE_LEVELS) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "tiled layout: level_count is %" PRIu32 "; expected 1 to %u",
                        tiled->level_count, HURRAY_MAX_TILE_LEVELS);
    }
    if (tiled->levels == NULL) return hri_fail_null("layout.tiled.levels");
    HurrayStatus status = HURRAY_OK;
    for (uint32_t i = 0; status == HURRAY_OK && i < tiled->level_count; i++) {
        status = check_codes(&tiled->levels[i], i);
        if (status == HURRAY_OK) status = check_level_pointers(tiled, i);
        if (status == HURRAY_OK) status = check_tile(tiled, i, fields->rank);
    }
    uint64_t before, after;
    return status == HURRAY_OK ? tile_reach(tiled, fields->rank, &before, &after) : status;
}

/* ---- addresses ---- */

/* All arithmetic modulo 2^64: the offset of a valid tensor fits, its parts need not. */
static uint64_t arranged(uint8_t arrangement, const int64_t *strides, uint32_t rank,
                         const uint64_t *extents, const uint64_t *at) {
    uint64_t offset = 0;
    for (uint32_t k = 0; k < rank; k++) {
        uint32_t j = rank - 1 - k;
        if (arrangement == HURRAY_LAYOUT_ROW_MAJOR) offset = offset * extents[k] + at[k];
        if (arrangement == HURRAY_LAYOUT_COL_MAJOR) offset = offset * extents[j] + at[j];
        if (arrangement == HURRAY_LAYOUT_STRIDED) offset += (uint64_t)strides[k] * at[k];
    }
    return offset;
}

static int64_t offset_of(const HurrayDescriptorFields *fields, const uint64_t *index) {
    const HurrayTiledLayout *tiled = &fields->layout.tiled;
    const HurrayTileLevel *last = last_level(tiled);
    uint32_t rank = fields->rank;
    uint64_t offset = 0, grid[HURRAY_MAX_RANK], tile[HURRAY_MAX_RANK], within[HURRAY_MAX_RANK];
    memcpy(within, index, (size_t)rank * sizeof(uint64_t));
    for (uint32_t i = 0; i < tiled->level_count; i++) {
        const HurrayTileLevel *level = &tiled->levels[i];
        tile_grid(tiled, i, fields->shape, rank, grid);
        for (uint32_t k = 0; k < rank; k++) {
            tile[k] = within[k] / level->tile_shape[k];
            within[k] %= level->tile_shape[k];
        }
        offset += arranged(level->outer_layout, level->outer_strides, rank, grid, tile) *
                  tile_elements(level, rank);
    }
    offset += arranged(last->inner_layout, last->inner_strides, rank, last->tile_shape, within);
    return (int64_t)offset;
}

/* Adds the digits of one arrangement of `unit` elements each. */
static uint32_t add_digits(uint8_t arrangement, const int64_t *strides, uint32_t rank,
                           const uint64_t *extents, uint64_t unit, const uint64_t *weights,
                           Digit *digits, uint32_t count) {
    uint64_t packed = unit;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t k = arrangement == HURRAY_LAYOUT_ROW_MAJOR ? rank - 1 - i : i;
        bool is_strided = arrangement == HURRAY_LAYOUT_STRIDED;
        if (extents[k] < 2) continue;
        digits[count++] = (Digit){.extent = extents[k],
                                  .step = is_strided ? magnitude_i64(strides[k]) * unit : packed,
                                  .weight = weights == NULL ? 1 : weights[k],
                                  .dimension = k,
                                  .is_descending = is_strided && strides[k] < 0};
        packed *= extents[k];
    }
    return count;
}

uint32_t hri_tiled_digits(const HurrayDescriptorFields *fields, Digit digits[HRI_MAX_DIGITS]) {
    const HurrayTiledLayout *tiled = &fields->layout.tiled;
    const HurrayTileLevel *last = last_level(tiled);
    uint32_t rank = fields->rank, count = 0;
    uint64_t grid[HURRAY_MAX_RANK];
    for (uint32_t i = 0; i < tiled->level_count; i++) {
        const HurrayTileLevel *level = &tiled->levels[i];
        tile_grid(tiled, i, fields->shape, rank, grid);
        count = add_digits(level->outer_layout, level->outer_strides, rank, grid,
                           tile_elements(level, rank), level->tile_shape, digits, count);
    }
    return add_digits(last->inner_layout, last->inner_strides, rank, last->tile_shape, 1, NULL,
                      digits, count);
}

static bool index_of(const HurrayDescriptorFields *fields, uint64_t offset, uint64_t *index) {
    Digit digits[HRI_MAX_DIGITS];
    uint32_t count = hri_tiled_digits(fields, digits);
    return hri_digits_sort(digits, count) &&
           hri_digits_index(digits, count, fields->rank, (int64_t)offset, index) &&
           hri_index_in_bounds(index, fields->shape, fields->rank);
}

const LayoutKind hri_layout_tiled = {
    .tag = HURRAY_LAYOUT_TILED,
    .name = "tiled",
    .layout_class = HURRAY_LAYOUT_CLASS_DENSE,
    .min_rank = 1,
    .max_rank = HURRAY_MAX_RANK,
    .buffer_count = 1,
    /* The struct of a level is longer than its fields, and its arrays may need rounding up. */
    .more_arena = HURRAY_MAX_TILE_LEVELS * (sizeof(HurrayTileLevel) + 3 * ARENA_ALIGNMENT),
    .decode = decode,
    .encode = encode,
    .check_fields = check_fields,
    .equal = equal,
    .footprint = footprint,
    .copy = copy,
    .buffer_roles = hri_dense_roles,
    .required_bytes = required_bytes,
    .offset = offset_of,
    .index = index_of,
};
