/*
 * Copying elements between strided arrangements in memory, whole-byte ones and packed ones.
 *
 * What there is to be done, and which thread does what, is planned first (transcode_plan.h). All
 * positions are integers, counted from element [0, …, 0]; a pointer is formed only to an element that
 * is read or written.
 *
 * A plan's last two axes are a plane, which one function copies; the axes before them are stepped
 * through. Where the source runs along the other axis of the plane than the destination, as in a
 * transposition, the plane is copied in tiles, so that no cache line is fetched twice.
 */
#include <hurray/transcode.h>
#include <stddef.h>
#include <string.h>

#include "bytes.h"
#include "checked.h"
#include "fail.h"
#include "pack.h"
#include "past_cache.h"
#include "transcode_plan.h"

#ifdef __GNUC__
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define PREFETCH(address, for_writing) __builtin_prefetch(address, for_writing)
#else
#define ALWAYS_INLINE static inline
#define PREFETCH(address, for_writing) ((void)(address))
#endif

/* Where there are vectors of 16 bytes; Clang has the function, and GCC from 12 on. */
#if defined(__has_builtin) && (defined(__SSE2__) || defined(__ARM_NEON))
#if __has_builtin(__builtin_shufflevector)
#define HAS_SHUFFLE
#endif
#endif

/* ---- shapes ---- */

/* *out_count is 0 when there is nothing to do. */
static HurrayStatus check_shape(uint32_t rank, const uint64_t *shape, uint64_t *out_count) {
    if (rank > HURRAY_MAX_RANK) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "rank is %u: expected at most %u",
                        (unsigned)rank, HURRAY_MAX_RANK);
    }
    if (rank > 0 && shape == NULL) return hri_fail_null("shape");
    return hurray_shape_count(shape, rank, out_count);
}

/* ---- planes ---- */

/* What a plane needs besides its position. */
typedef struct Job {
    const Axis *axes; /* two: rows, and the columns within a row of the destination */
    const uint8_t *source;
    uint8_t *destination;
    size_t element_bytes; /* of whole-byte elements */
    uint32_t bits;        /* of packed ones */
    bool sign_extend;
    bool is_transposed;
    bool is_large;    /* the whole copy: more than is expected to stay in a cache */
    bool is_in_lines; /* ... and all that is written begins and ends at cache lines */
} Job;

/* Copies the plane that begins at these two positions. */
typedef void CopyPlane(const Job *job, int64_t source, int64_t destination);

/* Steps through all axes of a plan but its plane. */
static void for_each_plane(const Plan *plan, Job *job, CopyPlane *copy) {
    int64_t index[HURRAY_MAX_RANK + 2] = {0};
    int64_t source = plan->source, destination = plan->destination;
    uint32_t outer = plan->rank - 2;
    job->axes = plan->axes + outer;
    job->is_transposed = plan->is_transposed;
    for (;;) {
        copy(job, source, destination);
        uint32_t i = outer;
        for (; i > 0; i--) {
            const Axis *axis = &plan->axes[i - 1];
            if (++index[i - 1] < axis->extent) {
                source += axis->source;
                destination += axis->destination;
                break;
            }
            index[i - 1] = 0;
            source -= (axis->extent - 1) * axis->source;
            destination -= (axis->extent - 1) * axis->destination;
        }
        if (i == 0) return;
    }
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- whole-byte elements: row by row ---- */

/*
 * Up to 32 bytes two moves that may overlap do it, which costs less than a call; the branches
 * always go the same way. Where `size` is a constant, one move is left.
 */
ALWAYS_INLINE void move_element(uint8_t *to, const uint8_t *from, size_t size) {
    if (size == 1 || size == 2 || size == 4 || size == 8 || size == 16 || size > 32) {
        memcpy(to, from, size);
    } else if (size > 16) {
        memcpy(to, from, 16);
        memcpy(to + (size - 16), from + (size - 16), 16);
    } else if (size > 8) {
        memcpy(to, from, 8);
        memcpy(to + (size - 8), from + (size - 8), 8);
    } else if (size > 4) {
        memcpy(to, from, 4);
        memcpy(to + (size - 4), from + (size - 4), 4);
    } else { /* 3 */
        memcpy(to, from, 2);
        to[2] = from[2];
    }
}

ALWAYS_INLINE void copy_rows(const Job *job, int64_t source, int64_t destination, int64_t rows,
                             int64_t columns, size_t size) {
    const Axis row = job->axes[0], column = job->axes[1];
    for (int64_t r = 0; r < rows; r++) {
        const uint8_t *from = job->source + (source + r * row.source);
        uint8_t *to = job->destination + (destination + r * row.destination);
        for (int64_t c = 0; c < columns; c++) {
            move_element(to + c * column.destination, from + c * column.source, size);
        }
    }
}

/* ---- whole-byte elements: large ones ---- */

enum {
    /* Pieces of a row before the next one, whose pieces are in the same pages of the source. */
    PIECES = 32,
    /* Pieces that the hardware would have foreseen before they end. */
    PIECE_BYTES = 1024
};

static void copy_piece(const Job *job, uint8_t *to, const uint8_t *from, size_t size) {
    if (job->is_in_lines) {
        hri_copy_past_cache(to, from, size);
    } else {
        memcpy(to, from, size);
    }
}

/* Elements of a cache line or more, as rows of tiles are. What lies apart the hardware does not foresee:
 * the piece below each is asked for when it is copied, where it comes soon. */
static void copy_plane_pieces(const Job *job, int64_t source, int64_t destination) {
    const Axis row = job->axes[0], column = job->axes[1];
    const size_t size = job->element_bytes;
    const bool is_apart = job->is_large && column.source != (int64_t)size && size <= PIECE_BYTES;
    for (int64_t first = 0; first < column.extent; first += PIECES) {
        int64_t end = smaller(first + PIECES, column.extent);
        for (int64_t r = 0; r < row.extent; r++) {
            const uint8_t *from = job->source + (source + r * row.source);
            uint8_t *to = job->destination + (destination + r * row.destination);
            bool has_next = is_apart && r + 1 < row.extent;
            for (int64_t c = first; c < end; c++) {
                const uint8_t *piece = from + c * column.source;
                for (size_t i = 0; has_next && i < size; i += HRI_LINE) {
                    PREFETCH(piece + row.source + i, 0);
                }
                copy_piece(job, to + c * column.destination, piece, size);
            }
        }
    }
}

/* ---- whole-byte elements: transpositions ---- */

/*
 * A whole tile is read column by column into a buffer and written row by row from there, so that
 * each cache line is fetched once: lines that are a power of two apart, as the rows of many arrays
 * are, compete for the same few places in the cache and would not stay there until the tile is
 * done.
 *
 * Narrow elements are transposed in registers, a square at a time: of 8 / size elements in 64-bit
 * words, word i being a piece of the source's column i. Words are loaded as little-endian
 * (bytes.h), which makes the first element the lowest on every host.
 */
enum {
    TILE_BYTES = 16384,
    LINES_BYTES = 1024 /* rows of a square, as long as a tile's: 8 · 64, 4 · 128, 4 · 256, 512 */
};

/* In elements: 64 · 64 of 4 bytes are the whole buffer, and so are 32 · 32 of 16. */
#define TILE_EDGE(size) ((size) <= 4 ? 64 : 32)

/* `lane` bits, or groups of them, that are odd in `a` and even in `b` change places. */
ALWAYS_INLINE void exchange(uint64_t *a, uint64_t *b, unsigned lane) {
    const uint64_t even = UINT64_MAX / ((UINT64_C(1) << lane) + 1);
    uint64_t first = *a, second = *b;
    *a = (first & even) | (second & even) << lane;
    *b = (first >> lane & even) | (second & ~even);
}

ALWAYS_INLINE void transpose_1(const uint8_t *from, size_t step, uint8_t *to, int64_t stride) {
    uint64_t a = load_u64(from), b = load_u64(from + step);
    uint64_t c = load_u64(from + 2 * step), d = load_u64(from + 3 * step);
    uint64_t e = load_u64(from + 4 * step), f = load_u64(from + 5 * step);
    uint64_t g = load_u64(from + 6 * step), h = load_u64(from + 7 * step);
    exchange(&a, &b, 8), exchange(&c, &d, 8), exchange(&e, &f, 8), exchange(&g, &h, 8);
    exchange(&a, &c, 16), exchange(&b, &d, 16), exchange(&e, &g, 16), exchange(&f, &h, 16);
    exchange(&a, &e, 32), exchange(&b, &f, 32), exchange(&c, &g, 32), exchange(&d, &h, 32);
    store_u64(to, a), store_u64(to + stride, b);
    store_u64(to + 2 * stride, c), store_u64(to + 3 * stride, d);
    store_u64(to + 4 * stride, e), store_u64(to + 5 * stride, f);
    store_u64(to + 6 * stride, g), store_u64(to + 7 * stride, h);
}

ALWAYS_INLINE void transpose_2(const uint8_t *from, size_t step, uint8_t *to, int64_t stride) {
    uint64_t a = load_u64(from), b = load_u64(from + step);
    uint64_t c = load_u64(from + 2 * step), d = load_u64(from + 3 * step);
    exchange(&a, &b, 16), exchange(&c, &d, 16);
    exchange(&a, &c, 32), exchange(&b, &d, 32);
    store_u64(to, a), store_u64(to + stride, b);
    store_u64(to + 2 * stride, c), store_u64(to + 3 * stride, d);
}

/* Elements of 4 bytes in vectors, which are worth twice the words. */
#ifdef HAS_SHUFFLE
enum {
    SQUARE_OF_4 = 4
};

typedef uint32_t Quad __attribute__((vector_size(16)));

ALWAYS_INLINE Quad load_quad(const uint8_t *from) {
    Quad quad;
    memcpy(&quad, from, sizeof quad);
    return quad;
}

ALWAYS_INLINE void store_quad(uint8_t *to, Quad quad) { memcpy(to, &quad, sizeof quad); }

/* The lower halves interleaved, and the upper ones. */
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)

ALWAYS_INLINE void transpose_4(const uint8_t *from, size_t step, uint8_t *to, int64_t stride) {
    Quad a = load_quad(from), b = load_quad(from + step);
    Quad c = load_quad(from + 2 * step), d = load_quad(from + 3 * step);
    Quad ac_low = ZIP_LOW(a, c), ac_high = ZIP_HIGH(a, c);
    Quad bd_low = ZIP_LOW(b, d), bd_high = ZIP_HIGH(b, d);
    store_quad(to, ZIP_LOW(ac_low, bd_low));
    store_quad(to + stride, ZIP_HIGH(ac_low, bd_low));
    store_quad(to + 2 * stride, ZIP_LOW(ac_high, bd_high));
    store_quad(to + 3 * stride, ZIP_HIGH(ac_high, bd_high));
}

#else
enum {
    SQUARE_OF_4 = 2
};

ALWAYS_INLINE void transpose_4(const uint8_t *from, size_t step, uint8_t *to, int64_t stride) {
    uint64_t a = load_u64(from), b = load_u64(from + step);
    exchange(&a, &b, 32);
    store_u64(to, a), store_u64(to + stride, b);
}
#endif

/* Rows and columns of a square; one element where it is as wide as a word. */
#define SQUARE(size) ((size) == 1 ? 8 : (size) == 2 ? 4 : (size) == 4 ? SQUARE_OF_4 : 1)

ALWAYS_INLINE void transpose_square(const uint8_t *from, size_t step, uint8_t *to, int64_t stride,
                                    size_t size) {
    switch (size) {
    case 1: transpose_1(from, step, to, stride); break;
    case 2: transpose_2(from, step, to, stride); break;
    case 4: transpose_4(from, step, to, stride); break;
    default: memcpy(to, from, size);
    }
}

/* A whole tile, with the source's columns and the destination's rows each in one piece. */
ALWAYS_INLINE void transpose_tile(const uint8_t *source, int64_t source_stride,
                                  uint8_t *destination, int64_t destination_stride,
                                  bool next_follows, bool in_lines, size_t size) {
    const int64_t edge = TILE_EDGE(size), width = edge * (int64_t)size, line = HRI_LINE;
    const int64_t square = SQUARE(size);
    uint8_t tile[TILE_BYTES], lines[LINES_BYTES];
    for (int64_t c = 0; c < edge; c++) {
        const uint8_t *column = source + c * source_stride;
        memcpy(tile + c * width, column, (size_t)width);
        /* The tile below this one comes next; too many streams for the hardware to foresee it. */
        for (int64_t i = 0; next_follows && i < width; i += line) {
            PREFETCH(column + width + i, 0);
            if (!in_lines) PREFETCH(destination + (edge + c) * destination_stride + i, 1);
        }
    }
    for (int64_t r = 0; r < edge; r += square) {
        uint8_t *row = destination + r * destination_stride;
        uint8_t *to = in_lines ? lines : row;
        int64_t stride = in_lines ? width : destination_stride;
        for (int64_t c = 0; c < edge; c += square) {
            transpose_square(tile + c * width + r * (int64_t)size, (size_t)width,
                             to + c * (int64_t)size, stride, size);
        }
        for (int64_t i = 0; in_lines && i < square; i++) {
            hri_copy_past_cache(row + i * destination_stride, lines + i * width, (size_t)width);
        }
    }
}

/* The source's columns go down the tiles first, as they do in memory. */
ALWAYS_INLINE void copy_tiles(const Job *job, int64_t source, int64_t destination, size_t size,
                              bool is_fixed_size) {
    const Axis row = job->axes[0], column = job->axes[1];
    const int64_t edge = TILE_EDGE(size), bytes = (int64_t)size;
    const bool is_dense = is_fixed_size && row.source == bytes && column.destination == bytes;
    for (int64_t c = 0; c < column.extent; c += edge) {
        int64_t columns = smaller(edge, column.extent - c);
        for (int64_t r = 0; r < row.extent; r += edge) {
            int64_t rows = smaller(edge, row.extent - r);
            int64_t from = source + r * row.source + c * column.source;
            int64_t to = destination + r * row.destination + c * column.destination;
            if (is_dense && rows == edge && columns == edge) {
                transpose_tile(job->source + from, column.source, job->destination + to,
                               row.destination, row.extent - r >= 2 * edge, job->is_in_lines, size);
            } else {
                copy_rows(job, from, to, rows, columns, size);
            }
        }
    }
}

/* ---- whole-byte elements: all ---- */

#define DEFINE_COPY(size)                                                                        \
    static void copy_plane_##size(const Job *job, int64_t source, int64_t destination) {         \
        if (job->is_transposed) {                                                                \
            copy_tiles(job, source, destination, size, true);                                    \
        } else {                                                                                 \
            copy_rows(job, source, destination, job->axes[0].extent, job->axes[1].extent, size); \
        }                                                                                        \
    }

DEFINE_COPY(1)
DEFINE_COPY(2)
DEFINE_COPY(4)
DEFINE_COPY(8)
DEFINE_COPY(16)

static void copy_plane_any(const Job *job, int64_t source, int64_t destination) {
    if (job->is_transposed) {
        copy_tiles(job, source, destination, job->element_bytes, false);
    } else {
        copy_rows(job, source, destination, job->axes[0].extent, job->axes[1].extent,
                  job->element_bytes);
    }
}

static CopyPlane *copy_of_size(size_t size) {
    switch (size) {
    case 1: return copy_plane_1;
    case 2: return copy_plane_2;
    case 4: return copy_plane_4;
    case 8: return copy_plane_8;
    case 16: return copy_plane_16;
    default: return copy_plane_any;
    }
}

/*
 * From elements to bytes. An axis along which both sides are contiguous is then one larger element.
 * Returns the size of what is left to be moved one by one.
 */
static size_t plan_in_bytes(Plan *plan, size_t element_bytes) {
    int64_t size = (int64_t)element_bytes;
    plan->source *= size;
    plan->destination *= size;
    for (uint32_t i = 0; i < plan->rank; i++) {
        plan->axes[i].source *= size;
        plan->axes[i].destination *= size;
    }
    if (plan->rank > 0) {
        Axis last = plan->axes[plan->rank - 1];
        if (last.source == size && last.destination == size) {
            plan->rank--;
            return (size_t)(last.extent * size);
        }
    }
    return element_bytes;
}

/* Whether all rows that are written begin at cache lines: of tiles of a transposition, or pieces, which
 * end there too. */
static bool is_in_lines(const Plan *plan, const Job *job) {
    uintptr_t bits = (uintptr_t)(job->destination + plan->destination);
    bool in_pieces = job->element_bytes >= HRI_LINE;
    uint32_t axes = in_pieces ? plan->rank : plan->rank - 1;
    if (in_pieces) bits |= (uintptr_t)job->element_bytes;
    for (uint32_t i = 0; i < axes; i++) bits |= (uintptr_t)plan->axes[i].destination;
    return bits % HRI_LINE == 0;
}

static void copy_slice(Plan *plan, const void *context) {
    Job job = *(const Job *)context;
    job.element_bytes = plan_in_bytes(plan, job.element_bytes);
    hri_plan_choose_plane(plan);
    job.is_in_lines = job.is_large && is_in_lines(plan, &job);
    bool in_pieces = job.is_large && job.element_bytes >= HRI_LINE;
    for_each_plane(plan, &job, in_pieces ? copy_plane_pieces : copy_of_size(job.element_bytes));
    if (job.is_in_lines) hri_past_cache_end();
}

HurrayStatus hurray_copy_strided(uint32_t rank, const uint64_t *shape, uint32_t element_bytes,
                                 const void *source, const int64_t *source_strides,
                                 void *destination, const int64_t *destination_strides) {
    uint64_t count;
    HurrayStatus status = check_shape(rank, shape, &count);
    if (status != HURRAY_OK) return status;
    if (element_bytes == 0) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT, "element_bytes is 0: expected at least 1");
    }
    if (count == 0) return HURRAY_OK;
    if (source == NULL) return hri_fail_null("source");
    if (destination == NULL) return hri_fail_null("destination");
    if (rank > 0 && source_strides == NULL) return hri_fail_null("source_strides");
    if (rank > 0 && destination_strides == NULL) return hri_fail_null("destination_strides");

    Plan plan;
    status = hri_plan_make(rank, shape, source_strides, destination_strides, element_bytes, &plan);
    if (status != HURRAY_OK) return status;
    const Job job = {
        .source = source,
        .destination = destination,
        .element_bytes = element_bytes,
        .is_large = count >= HRI_PAST_CACHE_BYTES / element_bytes && hri_can_pass_cache(),
    };
    return hri_plan_do(&plan, element_bytes, SLICES_OF_BYTES, copy_slice, &job);
}

/* ---- packed elements ---- */

/* Where an element lies: its lowest bit, within the byte. At 6 bits it may end in the next. */
typedef struct Place {
    size_t byte;
    unsigned shift;
} Place;

static uint32_t group_of(uint32_t bits) { return bits == 6 ? 4 : 8 / bits; }

/* `position` counts elements, from the first of a group. */
static Place place_of(uint32_t bits, int64_t position) {
    uint64_t at = (uint64_t)position;
    if (bits == 6) {
        unsigned bit = (unsigned)(at & 3) * 6;
        return (Place){(size_t)(at >> 2) * 3 + bit / 8, bit % 8};
    }
    unsigned shift = bits == 1 ? 3 : bits == 2 ? 2 : 1;
    return (Place){(size_t)(at >> shift), (unsigned)(at & ((1u << shift) - 1)) * bits};
}

static uint8_t get_element(const uint8_t *packed, uint32_t bits, int64_t position, uint8_t sign) {
    Place place = place_of(bits, position);
    unsigned value = packed[place.byte];
    if (place.shift + bits > 8) value |= (unsigned)packed[place.byte + 1] << 8;
    value = value >> place.shift & ((1u << bits) - 1);
    return (uint8_t)((value ^ sign) - sign);
}

/* Into bits that are zero. */
static void put_element(uint8_t *packed, uint32_t bits, int64_t position, uint8_t value) {
    Place place = place_of(bits, position);
    unsigned field = bits == 1 ? value != 0 : value & ((1u << bits) - 1);
    field <<= place.shift;
    packed[place.byte] = (uint8_t)(packed[place.byte] | field);
    if (field > 0xFF) packed[place.byte + 1] = (uint8_t)(packed[place.byte + 1] | field >> 8);
}

/* How many elements from `position` on belong to a group that began before it. */
static int64_t head_of(uint32_t bits, int64_t position, int64_t count) {
    int64_t group = group_of(bits), within = position & (group - 1);
    return within == 0 ? 0 : smaller(group - within, count);
}

/* `count` elements that are `stride` apart. */
static void read_elements(const Job *job, int64_t position, int64_t stride, int64_t count,
                          uint8_t *values) {
    uint8_t sign = (uint8_t)(job->sign_extend ? 1u << (job->bits - 1) : 0u);
    int64_t single = stride == 1 ? head_of(job->bits, position, count) : count;
    for (int64_t i = 0; i < single; i++) {
        values[i] = get_element(job->source, job->bits, position + i * stride, sign);
    }
    if (single == count) return;
    const uint8_t *rest = job->source + place_of(job->bits, position + single).byte;
    hri_unpack_with(hri_pack_kernels_best(), job->bits, job->sign_extend, rest,
                    (size_t)(count - single), values + single);
}

/* `count` elements, one after the other, into bits that are zero; those around them stay. */
static void write_elements(const Job *job, int64_t position, const uint8_t *values, int64_t count) {
    int64_t i = 0, head = head_of(job->bits, position, count);
    for (; i < head; i++) put_element(job->destination, job->bits, position + i, values[i]);
    int64_t whole = (count - i) / group_of(job->bits) * group_of(job->bits);
    if (whole > 0) {
        uint8_t *to = job->destination + place_of(job->bits, position + i).byte;
        hri_pack_with(hri_pack_kernels_best(), job->bits, values + i, (size_t)whole, to);
    }
    for (i += whole; i < count; i++) {
        put_element(job->destination, job->bits, position + i, values[i]);
    }
}

enum {
    BUFFER_ROWS = 64,
    BUFFER_COLUMNS = 256
};

/* The rows of the destination, bytes; in tiles where the packed source runs across them. */
static void unpack_plane(const Job *job, int64_t source, int64_t destination) {
    const Axis row = job->axes[0], column = job->axes[1];
    uint8_t buffer[BUFFER_COLUMNS * BUFFER_ROWS];
    if (!job->is_transposed) {
        for (int64_t r = 0; r < row.extent; r++) {
            read_elements(job, source + r * row.source, column.source, column.extent,
                          job->destination + (destination + r * row.destination));
        }
        return;
    }
    for (int64_t c = 0; c < column.extent; c += BUFFER_ROWS) {
        int64_t columns = smaller(BUFFER_ROWS, column.extent - c);
        for (int64_t r = 0; r < row.extent; r += BUFFER_COLUMNS) {
            int64_t rows = smaller(BUFFER_COLUMNS, row.extent - r);
            for (int64_t k = 0; k < columns; k++) {
                read_elements(job, source + (c + k) * column.source + r * row.source, row.source,
                              rows, buffer + k * BUFFER_COLUMNS);
            }
            const Axis axes[2] = {{rows, 1, row.destination}, {columns, BUFFER_COLUMNS, 1}};
            Job turn = {.axes = axes, .source = buffer, .is_transposed = true};
            turn.destination = job->destination;
            copy_plane_1(&turn, 0, destination + r * row.destination + c);
        }
    }
}

/* The rows of the destination, packed; gathered in a buffer where they are not one piece. */
static void pack_plane(const Job *job, int64_t source, int64_t destination) {
    const Axis row = job->axes[0], column = job->axes[1];
    uint8_t buffer[BUFFER_COLUMNS * BUFFER_ROWS];
    if (column.source == 1) {
        for (int64_t r = 0; r < row.extent; r++) {
            write_elements(job, destination + r * row.destination,
                           job->source + (source + r * row.source), column.extent);
        }
        return;
    }
    for (int64_t c = 0; c < column.extent; c += BUFFER_COLUMNS) {
        int64_t columns = smaller(BUFFER_COLUMNS, column.extent - c);
        for (int64_t r = 0; r < row.extent; r += BUFFER_ROWS) {
            int64_t rows = smaller(BUFFER_ROWS, row.extent - r);
            const Axis axes[2] = {{rows, row.source, BUFFER_COLUMNS}, {columns, column.source, 1}};
            Job gather = {.axes = axes, .source = job->source, .destination = buffer};
            gather.is_transposed = job->is_transposed;
            copy_plane_1(&gather, source + r * row.source + c * column.source, 0);
            for (int64_t k = 0; k < rows; k++) {
                write_elements(job, destination + (r + k) * row.destination + c,
                               buffer + k * BUFFER_COLUMNS, columns);
            }
        }
    }
}

static HurrayStatus check_packing(uint32_t bits) {
    if (hri_pack_width_index(bits) >= 0) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                    "elements of %u bits are not packed: expected 1, 2, 4 or 6", (unsigned)bits);
}

/* Positions of the source that are negative are made positive, by whole groups. */
static void raise_source(Plan *plan, Job *job) {
    int64_t lowest = plan->source;
    for (uint32_t i = 0; i < plan->rank; i++) {
        const Axis *axis = &plan->axes[i];
        if (axis->source < 0) lowest += (axis->extent - 1) * axis->source;
    }
    if (lowest >= 0) return;
    int64_t group = group_of(job->bits), groups = -lowest / group + (-lowest % group != 0);
    plan->source += groups * group;
    job->source -= groups * (job->bits == 6 ? 3 : 1);
}

static void unpack_slice(Plan *plan, const void *context) {
    Job job = *(const Job *)context;
    raise_source(plan, &job);
    hri_plan_choose_plane(plan);
    for_each_plane(plan, &job, unpack_plane);
}

/* Whether both sides are one piece, in the same order. */
static bool is_one_piece(const Plan *plan) {
    return plan->rank == 0 || (plan->rank == 1 && plan->axes[0].source == 1);
}

/* Into bits that are zero, unless it is one piece. */
static void pack_slice(Plan *plan, const void *context) {
    Job job = *(const Job *)context;
    if (is_one_piece(plan)) {
        int64_t count = plan->rank == 0 ? 1 : plan->axes[0].extent;
        hri_pack_with(hri_pack_kernels_best(), job.bits, job.source + plan->source, (size_t)count,
                      job.destination + place_of(job.bits, plan->destination).byte);
        return;
    }
    hri_plan_choose_plane(plan);
    for_each_plane(plan, &job, pack_plane);
}

HurrayStatus hurray_unpack_strided(uint32_t rank, const uint64_t *shape, HurrayPacking packing,
                                   bool sign_extend, const uint8_t *source,
                                   const int64_t *source_strides, uint8_t *values) {
    uint64_t count;
    int64_t value_strides[HURRAY_MAX_RANK];
    HurrayStatus status = check_packing(packing.bits);
    if (status == HURRAY_OK) status = check_shape(rank, shape, &count);
    if (status != HURRAY_OK || count == 0) return status;
    if (source == NULL) return hri_fail_null("source");
    if (values == NULL) return hri_fail_null("values");
    if (rank > 0 && source_strides == NULL) return hri_fail_null("source_strides");

    Plan plan;
    (void)hurray_shape_row_major_strides(shape, rank, value_strides);
    status = hri_plan_make(rank, shape, source_strides, value_strides, 1, &plan);
    if (status != HURRAY_OK) return status;
    const Job job = {
        .source = source, .destination = values, .bits = packing.bits, .sign_extend = sign_extend};
    return hri_plan_do(&plan, 1, SLICES_OF_BYTES, unpack_slice, &job);
}

HurrayStatus hurray_pack_strided(uint32_t rank, const uint64_t *shape, HurrayPacking packing,
                                 const uint8_t *values, const int64_t *value_strides,
                                 uint8_t *destination) {
    uint64_t count, size;
    int64_t destination_strides[HURRAY_MAX_RANK];
    HurrayStatus status = check_packing(packing.bits);
    if (status == HURRAY_OK) status = check_shape(rank, shape, &count);
    if (status != HURRAY_OK || count == 0) return status;
    if (values == NULL) return hri_fail_null("values");
    if (destination == NULL) return hri_fail_null("destination");
    if (rank > 0 && value_strides == NULL) return hri_fail_null("value_strides");

    Plan plan;
    (void)hurray_shape_row_major_strides(shape, rank, destination_strides);
    status = hri_plan_make(rank, shape, value_strides, destination_strides, 1, &plan);
    if (status != HURRAY_OK) return status;
    if (!is_one_piece(&plan)) {
        size = divide_up_u64(count, group_of(packing.bits)) * (packing.bits == 6 ? 3 : 1);
        memset(destination, 0, (size_t)size);
    }
    const Job job = {.source = values, .destination = destination, .bits = packing.bits};
    return hri_plan_do(&plan, 1, SLICES_OF_GROUPS, pack_slice, &job);
}
