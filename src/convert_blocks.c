/* Conversion block by block, from tables of offsets (convert.h). */
#include <hurray/pack.h>
#include <string.h>

#include "checked.h"
#include "convert.h"
#include "curve.h"
#include "layout.h"
#include "transpose.h"

#ifdef __GNUC__
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define ALWAYS_INLINE static inline
#define PREFETCH(address) ((void)(address))
#endif

/*
 * What a block holds at most: in both sides' caches with room to spare. 64 · 64 elements of 4 bytes
 * are 64 pieces of 4 cache lines, whichever way they lie.
 */
enum {
    BLOCK_ELEMENTS = 4096,
    BLOCK_BYTES = 16384,
    CACHE_LINE_BITS = 512,
    /* Dimensions of a block that have an extent of 2 or more: 2^12 elements. */
    MAX_AXES = 12,
    /* Elements in one piece from which on moving it whole beats looking up each one. */
    SHORT_RUN = 4,
    SHORT_PACKED_RUN = 16,
    /* Along the outermost dimension. */
    ENOUGH_SLABS = 16
};

/* ---- the shape of blocks ---- */

/* The dimension along which elements lie closest; the last one for curves, which do not mind. */
static uint32_t closest_dimension(const Conversion *conversion, const Arrangement *side,
                                  uint32_t otherwise) {
    uint64_t least = UINT64_MAX;
    uint32_t closest = otherwise;
    for (uint32_t i = 0; i < side->digit_count; i++) {
        const Digit *digit = &side->digits[i];
        if (digit->weight != 1 || conversion->shape[digit->dimension] < 2) continue;
        if (digit->step != 0 && digit->step < least) {
            least = digit->step;
            closest = digit->dimension;
        }
    }
    return closest;
}

/* Doubles an extent while that brings in more elements, up to `most`. */
static void grow(uint64_t *extent, uint64_t shape, uint64_t most, uint64_t *room) {
    while (*extent < shape && *extent < most && *room >= 2) {
        *extent *= 2;
        *room /= 2;
    }
}

static void choose_extents(const Conversion *conversion, Blocks *out) {
    uint64_t bits = conversion->packing.bits, bytes = (bits + 7) / 8;
    uint64_t room = BLOCK_BYTES / bytes, line = CACHE_LINE_BITS / bits, before;
    if (room > BLOCK_ELEMENTS) room = BLOCK_ELEMENTS;
    for (uint32_t k = 0; k < conversion->rank; k++) out->extents[k] = 1;
    grow(&out->extents[out->to_run], conversion->shape[out->to_run], line, &room);
    grow(&out->extents[out->from_run], conversion->shape[out->from_run], line, &room);
    do { /* then all alike */
        before = room;
        for (uint32_t k = conversion->rank; k > 0; k--) {
            uint64_t *extent = &out->extents[k - 1];
            grow(extent, conversion->shape[k - 1], *extent * 2, &room);
        }
    } while (room != before);
}

/* Whether the next block along dimension k mostly begins where this one ends. */
static bool follows(const Arrangement *side, uint32_t k, uint64_t extent) {
    for (uint32_t i = 0; i < side->digit_count; i++) {
        const Digit *digit = &side->digits[i];
        if (digit->dimension == k && digit->weight == 1) {
            return digit->step == 1 && !digit->is_descending && digit->extent / 2 >= extent;
        }
    }
    return false;
}

/* Slabs of the outermost dimension, or that of most blocks where those are too few for threads to share.
 * Packed elements of several blocks share bytes, which are one slab's therefore. */
static Division divide(const Conversion *conversion, const Blocks *blocks) {
    const uint64_t *shape = conversion->shape, *extents = blocks->extents;
    uint32_t outer = blocks->order[0];
    if (conversion->packing.bits < 8) return (Division){outer, shape[outer]};
    for (uint32_t k = 0; shape[outer] / extents[outer] < ENOUGH_SLABS && k < conversion->rank;
         k++) {
        if (shape[k] / extents[k] > shape[outer] / extents[outer]) outer = k;
    }
    return (Division){outer, extents[outer]};
}

void hri_blocks_prepare(const Conversion *conversion, Blocks *out) {
    uint32_t last = conversion->rank - 1, used = 0;
    /* A Hilbert curve gives its offsets along the last dimension, a curve on the other side follows. */
    out->to_run = closest_dimension(conversion, &conversion->to, last);
    out->from_run = closest_dimension(conversion, &conversion->from, out->to_run);
    if (!conversion->to.has_digits) out->to_run = out->from_run;
    choose_extents(conversion, out);
    out->from_follows = out->from_run != out->to_run &&
                        follows(&conversion->from, out->from_run, out->extents[out->from_run]);
    out->to_follows = out->from_run != out->to_run && !out->from_follows &&
                      follows(&conversion->to, out->to_run, out->extents[out->to_run]);
    uint32_t inner = out->from_follows ? out->from_run : out->to_run;
    for (uint32_t k = 0; k <= last; k++) {
        if (k != inner) out->order[used++] = k;
    }
    out->order[last] = inner;
    out->division = divide(conversion, out);
}

/* ---- offsets ---- */

/* One side within a block: an element's offset is `origin`, plus its entry for each axis. In bytes;
 * where elements are packed, in elements. */
typedef struct Side {
    const Arrangement *arrangement;
    const HurrayDescriptorFields *fields;
    bool is_morton, is_hilbert;
    int64_t unit;          /* bytes of an element, or 1 */
    int64_t origin;        /* of all dimensions in `parts` */
    int64_t *parts;        /* rank: what each dimension's start adds */
    int64_t *tables;       /* axis after axis */
    int64_t *row;          /* a row of a Hilbert block that does not run along the last dimension */
    uint64_t *offsets;     /* Hilbert: the whole block, last dimension fastest */
    HriCurve *curve;       /* Hilbert */
    uint32_t *run_lengths; /* pieces of the run axis that lie together */
    uint32_t run_count;
} Side;

/* A dimension in which blocks are longer than 1. */
typedef struct Axis {
    uint32_t dimension;
    uint32_t count;  /* in this block */
    uint32_t extent; /* at most */
    uint32_t table;  /* where its entries begin in `tables` */
    uint32_t pitch;  /* elements of a block, last dimension fastest, from one value to the next */
} Axis;

typedef struct Work {
    const Conversion *conversion;
    const Blocks *blocks;
    Slab slab;
    uint32_t axis_count;
    Axis axes[MAX_AXES];
    uint32_t block_elements; /* at most */
    uint64_t start[HURRAY_MAX_RANK];
    Side from, to;
    int64_t source_bias, destination_bias; /* packed: elements that make offsets positive */
    uint8_t *stage;                        /* a block; packed: a byte each */
    uint8_t *line;                         /* packed: a row of it */
    bool source_follows;                   /* where a row ends, that of the next block begins */
} Work;

void hri_fill_offsets(const Arrangement *side, uint32_t k, uint64_t start, uint32_t count,
                      int64_t unit, int64_t *out) {
    for (uint32_t done = 0; done < count;) {
        uint64_t at = start + done, offset = 0, step = 0, left = count - done;
        for (uint32_t i = 0; i < side->digit_count; i++) {
            const Digit *digit = &side->digits[i];
            if (digit->dimension != k) continue;
            uint64_t value = at / digit->weight % digit->extent;
            uint64_t signed_step = digit->is_descending ? UINT64_C(0) - digit->step : digit->step;
            offset += value * signed_step;
            if (digit->weight != 1) continue;
            step = signed_step;
            if (digit->extent - value < left) left = digit->extent - value;
        }
        for (; left > 0; left--, offset += step) out[done++] = (int64_t)offset * unit;
    }
}

/* What one coordinate adds to a Morton code. */
static int64_t morton_part(const HurrayDescriptorFields *fields, uint32_t k, uint64_t coordinate) {
    uint64_t index[HURRAY_MAX_RANK] = {0};
    index[k] = coordinate;
    return hri_layout_morton.offset(fields, index);
}

/*
 * Blocks begin at multiples of their extents, powers of two: the bits of a coordinate are those of the
 * start and those within the block, and so are their Morton codes. The tables of a Morton side are made
 * once, for the first block.
 */
static void fill_morton(const Side *side, const Axis *axis) {
    for (uint32_t i = 0; i < axis->extent; i++) {
        side->tables[axis->table + i] = morton_part(side->fields, axis->dimension, i) * side->unit;
    }
}

/* What the start of the block adds in dimension k; 0 where tables hold it. */
static void set_part(Side *side, uint32_t k, uint64_t start, int64_t value) {
    if (side->is_morton) value = morton_part(side->fields, k, start) * side->unit;
    side->origin += value - side->parts[k];
    side->parts[k] = value;
}

/* Where a block begins in a dimension that it does not extend along. */
static void move_point(Side *side, uint32_t k, uint64_t start) {
    int64_t value = 0;
    if (side->is_hilbert) return;
    if (!side->is_morton) hri_fill_offsets(side->arrangement, k, start, 1, side->unit, &value);
    set_part(side, k, start, value);
}

static void move_axis(Side *side, const Axis *axis, uint64_t start) {
    if (side->is_hilbert) return;
    if (!side->is_morton) {
        hri_fill_offsets(side->arrangement, axis->dimension, start, axis->count, side->unit,
                         side->tables + axis->table);
    }
    set_part(side, axis->dimension, start, 0);
}

/* All offsets of a Hilbert block. Extents are powers of two there, and blocks are whole. */
static void fill_hilbert(const Work *work, Side *side) {
    uint32_t last = work->conversion->rank - 1, rows = work->block_elements;
    const Axis *along = NULL;
    uint64_t index[HURRAY_MAX_RANK];
    memcpy(index, work->start, work->conversion->rank * sizeof(uint64_t));
    for (uint32_t a = 0; a < work->axis_count; a++) {
        if (work->axes[a].dimension == last) along = &work->axes[a];
    }
    uint32_t length = along == NULL ? 1 : along->count;
    for (uint32_t row = 0; row < rows; row += length) {
        for (uint32_t a = 0; a < work->axis_count; a++) {
            const Axis *axis = &work->axes[a];
            index[axis->dimension] = work->start[axis->dimension] + row / axis->pitch % axis->count;
        }
        hri_curve_row(side->curve, index, length, side->offsets + row);
    }
    for (uint32_t i = 0; i < rows; i++) side->offsets[i] *= (uint64_t)side->unit;
}

/* ---- rows ---- */

/* A row of a block: along one axis, at a value of each other one. */
typedef struct Row {
    uint32_t index[MAX_AXES];
    uint32_t position; /* of its first element in the block, last dimension fastest */
} Row;

/* The next row along axis `run`, or plane along `run` and `other`; false after the last. */
static bool next_plane(const Work *work, uint32_t run, uint32_t other, Row *row) {
    for (uint32_t a = work->axis_count; a > 0; a--) {
        const Axis *axis = &work->axes[a - 1];
        if (a - 1 == run || a - 1 == other) continue;
        if (++row->index[a - 1] < axis->count) {
            row->position += axis->pitch;
            return true;
        }
        row->position -= (axis->count - 1) * axis->pitch;
        row->index[a - 1] = 0;
    }
    return false;
}

static bool next_row(const Work *work, uint32_t run, Row *row) {
    return next_plane(work, run, run, row);
}

/* The offsets of a row are what is returned plus those at *table. */
static int64_t row_offsets(const Work *work, const Side *side, uint32_t run, const Row *row,
                           const int64_t **table) {
    const Axis *axis = &work->axes[run];
    if (side->is_hilbert && axis->pitch == 1) {
        *table = (const int64_t *)(side->offsets + row->position);
        return 0;
    }
    if (side->is_hilbert) {
        for (uint32_t i = 0; i < axis->count; i++) {
            side->row[i] = (int64_t)side->offsets[row->position + i * axis->pitch];
        }
        *table = side->row;
        return 0;
    }
    int64_t offset = side->origin;
    for (uint32_t a = 0; a < work->axis_count; a++) {
        if (a != run) offset += side->tables[work->axes[a].table + row->index[a]];
    }
    *table = side->tables + axis->table;
    return offset;
}

/* Where the table of an axis steps by more than one element on the sides given (`other` may be NULL).
 * Rows of a Hilbert side differ, and are taken as all in pieces. */
static void find_runs(Side *side, const Side *other, const Axis *axis) {
    uint32_t count = 0, length = 1;
    side->run_count = axis->count;
    if (side->is_hilbert || (other != NULL && other->is_hilbert)) return;
    for (uint32_t i = 1; i <= axis->count; i++, length++) {
        const int64_t *a = side->tables + axis->table + i;
        const int64_t *b = other == NULL ? NULL : other->tables + axis->table + i;
        if (i < axis->count && a[0] - a[-1] == side->unit &&
            (b == NULL || b[0] - b[-1] == other->unit)) {
            continue;
        }
        side->run_lengths[count++] = length;
        length = 0;
    }
    side->run_count = count;
}

/* ---- whole-byte elements ---- */

/* A row, element by element. A table that is NULL stands for elements without gaps. */
typedef void CopyRow(const uint8_t *from, const int64_t *from_table, uint8_t *to,
                     const int64_t *to_table, size_t count, size_t size);

ALWAYS_INLINE void copy_row(const uint8_t *from, const int64_t *from_table, uint8_t *to,
                            const int64_t *to_table, size_t count, size_t size) {
    if (to_table == NULL) {
        for (size_t i = 0; i < count; i++) memcpy(to + i * size, from + from_table[i], size);
    } else if (from_table == NULL) {
        for (size_t i = 0; i < count; i++) memcpy(to + to_table[i], from + i * size, size);
    } else {
        for (size_t i = 0; i < count; i++) memcpy(to + to_table[i], from + from_table[i], size);
    }
}

#define DEFINE_COPY_ROW(constant)                                                                \
    static void copy_row_##constant(const uint8_t *from, const int64_t *from_table, uint8_t *to, \
                                    const int64_t *to_table, size_t count, size_t size) {        \
        (void)size;                                                                              \
        copy_row(from, from_table, to, to_table, count, constant);                               \
    }

DEFINE_COPY_ROW(1)
DEFINE_COPY_ROW(2)
DEFINE_COPY_ROW(3)
DEFINE_COPY_ROW(4)
DEFINE_COPY_ROW(8)
DEFINE_COPY_ROW(16)

static void copy_row_any(const uint8_t *from, const int64_t *from_table, uint8_t *to,
                         const int64_t *to_table, size_t count, size_t size) {
    copy_row(from, from_table, to, to_table, count, size);
}

static CopyRow *copy_of_size(size_t size) {
    switch (size) {
    case 1: return copy_row_1;
    case 2: return copy_row_2;
    case 3: return copy_row_3;
    case 4: return copy_row_4;
    case 8: return copy_row_8;
    case 16: return copy_row_16;
    default: return copy_row_any;
    }
}

/* memcpy, but without a call where that would cost more than it does. */
static void move_run(uint8_t *to, const uint8_t *from, size_t size) {
    enum {
        PART = 16,
        MOST = 128
    };
    if (size < PART || size > MOST) {
        memcpy(to, from, size);
        return;
    }
    for (size_t i = 0; i + PART < size; i += PART) memcpy(to + i, from + i, PART);
    memcpy(to + (size - PART), from + (size - PART), PART);
}

static uint32_t axis_of(const Work *work, uint32_t dimension) {
    uint32_t axis = 0;
    for (uint32_t a = 0; a < work->axis_count; a++) {
        if (work->axes[a].dimension == dimension) axis = a;
    }
    return axis;
}

/* Whether each row of a side along an axis is in one piece. */
static bool is_in_one_piece(Side *side, const Axis *axis) {
    find_runs(side, NULL, axis);
    return side->run_count == 1;
}

/* Directly, in rows that suit the destination, or the source where the destination is a curve. */
static void copy_in_rows(Work *work) {
    const Conversion *conversion = work->conversion;
    uint32_t run = axis_of(work, work->blocks->to_run);
    const Axis *axis = &work->axes[run];
    size_t size = conversion->packing.group_bytes;
    CopyRow *copy = copy_of_size(size);
    Row row = {{0}, 0};
    bool from_is_whole = is_in_one_piece(&work->from, axis);
    bool to_is_whole = is_in_one_piece(&work->to, axis);
    find_runs(&work->to, &work->from, axis);
    bool in_runs = axis->count / work->to.run_count >= SHORT_RUN;
    do {
        const int64_t *from_table, *to_table;
        int64_t from = row_offsets(work, &work->from, run, &row, &from_table);
        int64_t to = row_offsets(work, &work->to, run, &row, &to_table);
        if (!in_runs && to_is_whole) {
            copy(conversion->source + from, from_table,
                 conversion->destination + (to + to_table[0]), NULL, axis->count, size);
        } else if (!in_runs) {
            copy(conversion->source + (from_is_whole ? from + from_table[0] : from),
                 from_is_whole ? NULL : from_table, conversion->destination + to, to_table,
                 axis->count, size);
        }
        for (uint32_t i = 0, at = 0; in_runs && i < work->to.run_count;
             at += work->to.run_lengths[i++]) {
            move_run(conversion->destination + (to + to_table[at]),
                     conversion->source + (from + from_table[at]), work->to.run_lengths[i] * size);
        }
    } while (next_row(work, run, &row));
}

/* ---- whole-byte elements that run along different dimensions ---- */

/* Asks for what will be needed when the next block begins where this row ends. */
static void prefetch(const uint8_t *next, size_t bytes) {
    for (size_t i = 0; i < bytes; i += CACHE_LINE_BITS / 8) PREFETCH(next + i);
}

/*
 * Reads the rows of a plane one after another as the source has them, into the stage. Lines that are a
 * power of two apart, as rows often are, compete for the same few places in a cache and would not stay
 * there until all of a line has been used.
 */
static void read_plane(Work *work, uint32_t run, uint32_t across, const Row *row) {
    const Axis *axis = &work->axes[run], *other = &work->axes[across];
    const size_t size = work->conversion->packing.group_bytes;
    Side *side = &work->from;
    CopyRow *copy = copy_of_size(size);
    Row at = *row;
    bool in_runs = axis->count / side->run_count >= SHORT_RUN;
    for (uint32_t j = 0; j < other->count; j++) {
        const int64_t *table;
        at.index[across] = j;
        const uint8_t *from = work->conversion->source;
        int64_t base = row_offsets(work, side, run, &at, &table);
        uint8_t *to = work->stage + j * axis->extent * size;
        if (!in_runs) copy(from + base, table, to, NULL, axis->count, size);
        for (uint32_t i = 0, k = 0; in_runs && i < side->run_count; k += side->run_lengths[i++]) {
            move_run(to + k * size, from + (base + table[k]), side->run_lengths[i] * size);
        }
        if (work->source_follows) {
            prefetch(from + (base + table[0]) + axis->count * size, axis->count * size);
        }
    }
}

/* Asks for what a plane is to be written to, or for what follows its rows. Stores wait for their lines
 * one after another where nothing has asked before; these are on their way while the plane is read. */
static void prefetch_destination(const Side *side, const Transposition *transposition,
                                 bool following) {
    size_t ahead = following ? transposition->columns * transposition->size : 0;
    for (uint32_t i = 0; i < transposition->rows; i++) {
        const uint8_t *to = transposition->to + transposition->row_offsets[i] + ahead;
        for (uint32_t run = 0, j = 0; run < side->run_count; j += side->run_lengths[run++]) {
            prefetch(to + transposition->column_offsets[j],
                     side->run_lengths[run] * transposition->size);
        }
    }
}

/* Whether another block as large comes after this one along an axis. */
static bool is_followed(const Work *work, const Axis *axis) {
    uint64_t left = work->conversion->shape[axis->dimension] - work->start[axis->dimension];
    return left >= 2 * (uint64_t)axis->extent;
}

static void copy_in_planes(Work *work) {
    uint32_t run = axis_of(work, work->blocks->from_run);
    uint32_t across = axis_of(work, work->blocks->to_run);
    const Axis *rows = &work->axes[run], *columns = &work->axes[across];
    Row row = {{0}, 0};
    Transposition transposition = {
        .stage = work->stage,
        .pitch = rows->extent * (size_t)work->conversion->packing.group_bytes,
        .rows = rows->count,
        .columns = columns->count,
        .size = work->conversion->packing.group_bytes,
    };
    find_runs(&work->from, NULL, rows);
    find_runs(&work->to, NULL, columns);
    work->source_follows =
        work->from.run_count == 1 && work->blocks->from_follows && is_followed(work, rows);
    bool destination_follows =
        work->to.run_count == 1 && work->blocks->to_follows && is_followed(work, columns);
    do {
        /* Offsets along the columns, and the base, which is that of the plane's first element. */
        int64_t base = row_offsets(work, &work->to, across, &row, &transposition.column_offsets);
        transposition.row_offsets = work->to.tables + rows->table;
        transposition.to = work->conversion->destination + (base - transposition.row_offsets[0]);
        prefetch_destination(&work->to, &transposition, destination_follows);
        read_plane(work, run, across, &row);
        hri_transpose(&transposition);
    } while (next_plane(work, run, across, &row));
}

static bool is_transposed(const Work *work) {
    return work->conversion->packing.bits >= 8 &&
           axis_of(work, work->blocks->from_run) != axis_of(work, work->blocks->to_run);
}

/* ---- packed elements ---- */

/* Where an element lies: its lowest bit within the byte. At 6 bits it may end in the next one. */
typedef struct Place {
    size_t byte;
    unsigned shift;
} Place;

static Place place_of(HurrayPacking packing, uint64_t position) {
    unsigned shift = packing.bits == 1 ? 3 : packing.bits == 4 ? 1 : 2; /* groups of 8, 2, 4 */
    unsigned bit = (unsigned)(position & ((1u << shift) - 1)) * packing.bits;
    return (Place){(size_t)(position >> shift) * packing.group_bytes + bit / 8, bit % 8};
}

static uint8_t get_element(HurrayPacking packing, const uint8_t *packed, uint64_t position) {
    Place place = place_of(packing, position);
    unsigned value = packed[place.byte];
    if (place.shift + packing.bits > 8) value |= (unsigned)packed[place.byte + 1] << 8;
    return (uint8_t)(value >> place.shift & ((1u << packing.bits) - 1));
}

/* Into bits that are zero. */
static void put_element(HurrayPacking packing, uint8_t *packed, uint64_t position, uint8_t value) {
    Place place = place_of(packing, position);
    unsigned field = (unsigned)value << place.shift;
    packed[place.byte] = (uint8_t)(packed[place.byte] | field);
    if (field > 0xFF) packed[place.byte + 1] = (uint8_t)(packed[place.byte + 1] | field >> 8);
}

/* How many elements from `position` on belong to a group that began before it. */
static uint32_t head_of(HurrayPacking packing, uint64_t position, uint32_t count) {
    uint32_t within = (uint32_t)(position % packing.group_elements);
    uint32_t head = within == 0 ? 0 : packing.group_elements - within;
    return head < count ? head : count;
}

static void read_run(HurrayPacking packing, const uint8_t *packed, uint64_t position,
                     uint32_t count, uint8_t *values) {
    uint32_t head = head_of(packing, position, count);
    for (uint32_t i = 0; i < head; i++) values[i] = get_element(packing, packed, position + i);
    if (head == count) return;
    (void)hurray_unpack_bits(packing.bits, false, packed + place_of(packing, position + head).byte,
                             count - head, values + head);
}

/* Into bits that are zero; those around them stay. */
static void write_run(HurrayPacking packing, uint8_t *packed, uint64_t position, uint32_t count,
                      const uint8_t *values) {
    uint32_t i = 0, head = head_of(packing, position, count);
    for (; i < head; i++) put_element(packing, packed, position + i, values[i]);
    uint32_t whole = (count - i) / packing.group_elements * packing.group_elements;
    if (whole > 0) {
        (void)hurray_pack_bits(packing.bits, values + i, whole,
                               packed + place_of(packing, position + i).byte);
    }
    for (i += whole; i < count; i++) put_element(packing, packed, position + i, values[i]);
}

/* Brings the block into the stage. */
static void unpack_block(Work *work, const uint8_t *packed) {
    HurrayPacking packing = work->conversion->packing;
    uint32_t run = axis_of(work, work->blocks->from_run);
    const Axis *axis = &work->axes[run];
    Side *side = &work->from;
    Row row = {{0}, 0};
    find_runs(side, NULL, axis);
    bool in_runs = axis->count / side->run_count >= SHORT_PACKED_RUN;
    do {
        const int64_t *table;
        uint64_t base = (uint64_t)(row_offsets(work, side, run, &row, &table) + work->source_bias);
        uint8_t *to = work->stage + row.position;
        uint8_t *line = in_runs && axis->pitch == 1 ? to : work->line;
        for (uint32_t i = 0, at = 0; in_runs && i < side->run_count; at += side->run_lengths[i++]) {
            read_run(packing, packed, base + (uint64_t)table[at], side->run_lengths[i], line + at);
        }
        for (uint32_t i = 0; !in_runs && i < axis->count; i++) {
            to[i * axis->pitch] = get_element(packing, packed, base + (uint64_t)table[i]);
        }
        for (uint32_t i = 0; in_runs && line != to && i < axis->count; i++) {
            to[i * axis->pitch] = line[i];
        }
    } while (next_row(work, run, &row));
}

/* Adds the stage to the destination. */
static void pack_block(Work *work, uint8_t *packed) {
    HurrayPacking packing = work->conversion->packing;
    uint32_t run = axis_of(work, work->blocks->to_run);
    const Axis *axis = &work->axes[run];
    Side *side = &work->to;
    Row row = {{0}, 0};
    find_runs(side, NULL, axis);
    bool in_runs = axis->count / side->run_count >= SHORT_PACKED_RUN;
    do {
        const int64_t *table;
        uint64_t base =
            (uint64_t)(row_offsets(work, side, run, &row, &table) + work->destination_bias);
        const uint8_t *from = work->stage + row.position;
        const uint8_t *line = in_runs && axis->pitch == 1 ? from : work->line;
        for (uint32_t i = 0; in_runs && line != from && i < axis->count; i++) {
            work->line[i] = from[i * axis->pitch];
        }
        for (uint32_t i = 0, at = 0; in_runs && i < side->run_count; at += side->run_lengths[i++]) {
            write_run(packing, packed, base + (uint64_t)table[at], side->run_lengths[i], line + at);
        }
        for (uint32_t i = 0; !in_runs && i < axis->count; i++) {
            put_element(packing, packed, base + (uint64_t)table[i], from[i * axis->pitch]);
        }
    } while (next_row(work, run, &row));
}

/* ---- all blocks ---- */

/* Elements that whole groups before element [0, …, 0] have, and the first of their bytes. */
static int64_t bias_of(const Conversion *conversion, const Arrangement *side, size_t *bytes) {
    HurrayPacking packing = conversion->packing;
    uint64_t groups = divide_up_u64(side->before, packing.group_elements);
    *bytes = (size_t)(groups * packing.group_bytes);
    return (int64_t)(groups * packing.group_elements);
}

static void convert_block(Work *work) {
    const Conversion *conversion = work->conversion;
    if (work->from.is_hilbert) fill_hilbert(work, &work->from);
    if (work->to.is_hilbert) fill_hilbert(work, &work->to);
    if (conversion->packing.bits >= 8) {
        if (is_transposed(work)) {
            copy_in_planes(work);
        } else {
            copy_in_rows(work);
        }
        return;
    }
    size_t before;
    work->source_bias = bias_of(conversion, &conversion->from, &before);
    unpack_block(work, conversion->source - before);
    work->destination_bias = bias_of(conversion, &conversion->to, &before);
    pack_block(work, conversion->destination - before);
}

/* Brings a block to its place in dimension k. */
static void move_block(Work *work, uint32_t k, uint64_t start) {
    Axis *axis = &work->axes[axis_of(work, k)];
    work->start[k] = start;
    if (axis->dimension != k) {
        move_point(&work->from, k, start);
        move_point(&work->to, k, start);
        return;
    }
    uint64_t end = k == work->slab.dimension ? work->slab.end : work->conversion->shape[k];
    axis->count = end - start < axis->extent ? (uint32_t)(end - start) : axis->extent;
    move_axis(&work->from, axis, start);
    move_axis(&work->to, axis, start);
}

static void convert_blocks(Work *work) {
    const Conversion *conversion = work->conversion;
    const Blocks *blocks = work->blocks;
    for (uint32_t k = 0; k < conversion->rank; k++) {
        move_block(work, k, k == work->slab.dimension ? work->slab.first : 0);
    }
    for (;;) {
        convert_block(work);
        uint32_t i = conversion->rank;
        for (; i > 0; i--) {
            uint32_t k = blocks->order[i - 1];
            bool is_cut = k == work->slab.dimension;
            uint64_t left = (is_cut ? work->slab.end : conversion->shape[k]) - work->start[k];
            if (left > blocks->extents[k]) {
                move_block(work, k, work->start[k] + blocks->extents[k]);
                break;
            }
            move_block(work, k, is_cut ? work->slab.first : 0);
        }
        if (i == 0) return;
    }
}

/* ---- memory ---- */

/* The axes of a block; one at least, so that there are rows. Returns the entries of a table. */
static uint32_t add_axes(Work *work) {
    const Blocks *blocks = work->blocks;
    uint32_t entries = 0, last = work->conversion->rank - 1;
    work->axis_count = 0;
    work->block_elements = 1;
    for (uint32_t k = 0; k <= last; k++) {
        bool is_needed = k == last && work->axis_count == 0;
        if (blocks->extents[k] < 2 && !is_needed) continue;
        work->axes[work->axis_count++] = (Axis){
            .dimension = k,
            .extent = (uint32_t)blocks->extents[k],
            .table = entries,
        };
        entries += (uint32_t)blocks->extents[k];
    }
    for (uint32_t a = work->axis_count; a > 0; a--) {
        work->axes[a - 1].pitch = work->block_elements;
        work->block_elements *= work->axes[a - 1].extent;
    }
    return entries;
}

static void *take(uint8_t **memory, size_t bytes) {
    void *taken = *memory;
    *memory += bytes;
    return taken;
}

/* All memory of a side: what it takes of `memory`, or how much it would take when that is NULL. */
static size_t prepare_side(const Work *work, uint32_t entries, const Arrangement *arrangement,
                           uint8_t *memory, Side *side) {
    const LayoutKind *kind = hri_layout_kind(arrangement->fields->layout.tag);
    side->is_morton = kind == &hri_layout_morton;
    side->is_hilbert = kind == &hri_layout_hilbert;
    size_t curve_bytes = side->is_hilbert ? (sizeof(HriCurve) + 7) / 8 * 8 : 0;
    size_t offsets_bytes = side->is_hilbert ? work->block_elements * sizeof(uint64_t) : 0;
    size_t parts_bytes = work->conversion->rank * sizeof(int64_t);
    size_t tables_bytes = entries * sizeof(int64_t);
    size_t runs_bytes = (entries + 1) / 2 * 2 * sizeof(uint32_t);
    if (memory == NULL) {
        return curve_bytes + offsets_bytes + parts_bytes + 2 * tables_bytes + runs_bytes;
    }
    side->arrangement = arrangement;
    side->fields = arrangement->fields;
    side->unit = work->conversion->packing.bits < 8 ? 1 : work->conversion->packing.group_bytes;
    side->origin = 0;
    side->curve = take(&memory, curve_bytes);
    side->offsets = take(&memory, offsets_bytes);
    side->parts = take(&memory, parts_bytes);
    side->tables = take(&memory, tables_bytes);
    side->row = take(&memory, tables_bytes);
    side->run_lengths = take(&memory, runs_bytes);
    memset(side->parts, 0, parts_bytes);
    if (side->is_hilbert) hri_curve_prepare(arrangement->fields, side->curve);
    for (uint32_t a = 0; side->is_morton && a < work->axis_count; a++) {
        fill_morton(side, &work->axes[a]);
    }
    return 0;
}

/* What the parts of the memory take, in the order in which they lie there. */
typedef struct Workspace {
    uint32_t entries; /* of a table */
    size_t from, to;  /* the sides */
    size_t stage;     /* a block, twice */
} Workspace;

static Workspace measure(Work *work) {
    const Conversion *conversion = work->conversion;
    Workspace size = {.entries = add_axes(work)};
    size.from = prepare_side(work, size.entries, &conversion->from, NULL, &work->from);
    size.to = prepare_side(work, size.entries, &conversion->to, NULL, &work->to);
    if (conversion->packing.bits < 8) {
        size.stage = work->block_elements;
    } else if (is_transposed(work)) {
        size.stage = (size_t)work->block_elements * conversion->packing.group_bytes;
    }
    return size;
}

size_t hri_blocks_workspace(const Conversion *conversion, const Blocks *blocks) {
    Work work = {.conversion = conversion, .blocks = blocks};
    Workspace size = measure(&work);
    return size.from + size.to + 2 * size.stage;
}

void hri_blocks_convert(const Conversion *conversion, const Blocks *blocks, Slab slab,
                        void *workspace) {
    Work work = {.conversion = conversion, .blocks = blocks, .slab = slab};
    uint8_t *memory = workspace;
    Workspace size = measure(&work);
    prepare_side(&work, size.entries, &conversion->from, memory, &work.from);
    prepare_side(&work, size.entries, &conversion->to, memory + size.from, &work.to);
    work.stage = memory + size.from + size.to;
    work.line = work.stage + size.stage;
    convert_blocks(&work);
}
