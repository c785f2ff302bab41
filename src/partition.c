/*
 * Exact covers of a shape by boxes (include/hurray/composite.h, spec 2.10).
 *
 * The check rests on one fact. Write the boxes and, with weight −1, the whole shape as functions
 * that are 1 inside and 0 outside; they are an exact cover when the weighted sum is 0 everywhere.
 * Seen along one dimension that sum is piecewise constant, so it is 0 when at every coordinate the
 * boxes that begin there and those that end there (with the sign turned) add up to 0 — the same
 * question about their cross-sections, in one dimension less. Equal cross-sections are added up
 * first: in a grid whatever ends at a coordinate begins there again, and everything cancels at
 * once. That makes n boxes cost n log n per dimension.
 *
 * Arrangements that do not cancel could double at each dimension. Past a budget the work is left to
 * random measures, which take n steps for any arrangement: give each interval between coordinates a
 * random length; in an exact cover the volumes of the boxes add up to that of the shape whatever
 * the lengths, in any other only by chance. (The difference is a polynomial in the lengths, of
 * degree 1 in each dimension, whose coefficients are the signed corners of the boxes; it is the
 * zero polynomial just when the cover is exact.)
 *
 * What is found wrong is then named by a sweep that compares pairs, as many as a limit allows.
 */
#include "partition.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checked.h"
#include "fail.h"

/* Events per box that are sorted. Not even boxes that never cancel need more in rank 5:
 * 2 + 4 + 8 + 16 + 32. */
#define EVENTS_PER_BOX 64u
/* Pairs compared to name a fault: all of 8192 boxes, less than a second's work. */
#define PAIR_LIMIT (UINT64_C(1) << 25)

/* ---- boxes ---- */

/* The boxes that hold elements, in the dimensions where not all reach from end to end. The shape
 * itself is the box after the last. */
typedef struct Cover {
    const HurrayBoxes *boxes;
    const uint64_t *shape;
    uint32_t rank;
    uint32_t dimensions[HURRAY_MAX_RANK]; /* u32[rank], into boxes and shape */
    uint64_t budget;                      /* events that may still be sorted */
} Cover;

static uint64_t low_of(const Cover *cover, uint64_t box, uint32_t k) {
    const HurrayBoxes *boxes = cover->boxes;
    return box == boxes->count ? 0 : boxes->offsets[box * boxes->rank + cover->dimensions[k]];
}

static uint64_t extent_of(const Cover *cover, uint64_t box, uint32_t k) {
    const HurrayBoxes *boxes = cover->boxes;
    const uint64_t *extents =
        box == boxes->count ? cover->shape : boxes->shapes + box * boxes->rank;
    return extents[cover->dimensions[k]];
}

/* One past the last; that it fits was checked. */
static uint64_t end_of(const Cover *cover, uint64_t box, uint32_t k) {
    return low_of(cover, box, k) + extent_of(cover, box, k);
}

/* ---- sorting with a context, which qsort does not have ---- */

/* A side of a box, seen along the dimension at hand. */
typedef struct Event {
    uint64_t coordinate;
    uint64_t box;
    int64_t weight; /* all weights together are at most the number of boxes */
} Event;

/* Orders the cross-sections of two boxes in dimensions `from` …, 0 when they are the same. */
static int compare_sections(const Cover *cover, uint32_t from, uint64_t a, uint64_t b) {
    for (uint32_t k = from; k < cover->rank; k++) {
        uint64_t low_a = low_of(cover, a, k), low_b = low_of(cover, b, k);
        if (low_a != low_b) return low_a < low_b ? -1 : 1;
        uint64_t extent_a = extent_of(cover, a, k), extent_b = extent_of(cover, b, k);
        if (extent_a != extent_b) return extent_a < extent_b ? -1 : 1;
    }
    return 0;
}

static bool comes_first(const Cover *cover, uint32_t from, const Event *a, const Event *b) {
    if (a->coordinate != b->coordinate) return a->coordinate < b->coordinate;
    return compare_sections(cover, from, a->box, b->box) <= 0;
}

/* Merges the sorted runs [left, middle) and [middle, end) of `events` into `out`. */
static void merge(const Cover *cover, uint32_t from, const Event *events, size_t left,
                  size_t middle, size_t end, Event *out) {
    size_t right = middle;
    for (size_t i = left; i < end; i++) {
        bool take_left = right >= end ||
                         (left < middle && comes_first(cover, from, &events[left], &events[right]));
        out[i] = take_left ? events[left++] : events[right++];
    }
}

/* Sorts by coordinate, then by cross-section in dimensions `from` …: a merge sort from the bottom
 * up. `spare` is as large as `events`; the result is in `events`. */
static void sort_events(const Cover *cover, uint32_t from, Event *events, Event *spare,
                        size_t count) {
    Event *source = events, *target = spare;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t start = 0; start < count; start += 2 * width) {
            size_t middle = start + width < count ? start + width : count;
            size_t end = middle + width < count ? middle + width : count;
            merge(cover, from, source, start, middle, end, target);
        }
        Event *swap = source;
        source = target;
        target = swap;
    }
    if (source != events) memcpy(events, source, count * sizeof *events);
}

/* ---- the sum of cross-sections ---- */

typedef enum Verdict {
    IS_ZERO,
    IS_NOT_ZERO,
    OVER_BUDGET,
    NO_MEMORY
} Verdict;

/* Where a group of events at one coordinate ends. */
static size_t group_end(const Event *events, size_t start, size_t count) {
    size_t end = start + 1;
    while (end < count && events[end].coordinate == events[start].coordinate) end++;
    return end;
}

/* Adds up equal cross-sections at equal coordinates, in place; the number that is left. */
static size_t cancel(const Cover *cover, uint32_t from, Event *events, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count;) {
        Event sum = events[i++];
        while (i < count && events[i].coordinate == sum.coordinate &&
               compare_sections(cover, from, sum.box, events[i].box) == 0) {
            sum.weight += events[i++].weight;
        }
        if (sum.weight != 0) events[kept++] = sum;
    }
    return kept;
}

/* Whether all items reach equally far, so that the dimension makes no difference. */
static bool is_uniform(const Cover *cover, uint32_t dimension, const Event *items, size_t count) {
    for (size_t i = 1; i < count; i++) {
        if (low_of(cover, items[i].box, dimension) != low_of(cover, items[0].box, dimension) ||
            extent_of(cover, items[i].box, dimension) !=
                extent_of(cover, items[0].box, dimension)) {
            return false;
        }
    }
    return true;
}

static Verdict sum_is_zero(Cover *cover, uint32_t dimension, const Event *items, size_t count);

/*
 * Whether the sum at every coordinate is 0. Each item adds at one coordinate what it takes away at
 * another, so that when all sums but one are 0 that one is as well: the largest is left out.
 */
static Verdict sum_groups(Cover *cover, uint32_t from, const Event *events, size_t count) {
    size_t largest = 0, most = 0;
    for (size_t start = 0, end; start < count; start = end) {
        end = group_end(events, start, count);
        if (end - start > most) {
            most = end - start;
            largest = start;
        }
    }
    Verdict verdict = IS_ZERO;
    for (size_t start = 0, end; start < count && verdict == IS_ZERO; start = end) {
        end = group_end(events, start, count);
        if (start != largest) verdict = sum_is_zero(cover, from, events + start, end - start);
    }
    return verdict;
}

/*
 * Whether the weighted items, in dimensions `dimension` …, add up to 0 everywhere. Recurses once
 * per dimension. A group holds one side of a box, not both, as the box is not empty: never more
 * items than the boxes there are, so that sizes that fit at first fit on every level.
 */
static Verdict sum_is_zero(Cover *cover, uint32_t dimension, const Event *items, size_t count) {
    while (dimension < cover->rank && is_uniform(cover, dimension, items, count)) dimension++;
    if (dimension == cover->rank) {
        int64_t sum = 0;
        for (size_t i = 0; i < count; i++) sum += items[i].weight;
        return sum == 0 ? IS_ZERO : IS_NOT_ZERO;
    }
    if (count > cover->budget / 2) return OVER_BUDGET;
    cover->budget -= 2 * (uint64_t)count;
    Event *events = malloc(4 * count * sizeof *events); /* two sides each, and as much to sort */
    if (events == NULL) return NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        uint64_t box = items[i].box;
        events[2 * i] = (Event){low_of(cover, box, dimension), box, items[i].weight};
        events[2 * i + 1] = (Event){end_of(cover, box, dimension), box, -items[i].weight};
    }
    sort_events(cover, dimension + 1, events, events + 2 * count, 2 * count);
    size_t left = cancel(cover, dimension + 1, events, 2 * count);
    Verdict verdict = sum_groups(cover, dimension + 1, events, left);
    free(events);
    return verdict;
}

/* ---- random measures ---- */

/* Volumes are counted modulo the prime 2^31 − 1, in four ways at once: together they agree by
 * chance with a probability below (64 / 2^31)^4 = 2^−100. */
#define PRIME UINT64_C(0x7FFFFFFF)
#define WAYS 4

/* The finalizer of SplitMix64: each bit of the result depends on all of the argument. */
static uint64_t scramble(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Nobody can choose boxes to suit the lengths: those depend on the boxes, on where things happen to
 * lie in memory, and on the time. */
static uint64_t choose_key(const Cover *cover, const Event *items, size_t count) {
    uint64_t key = scramble((uint64_t)(uintptr_t)items ^ (uint64_t)time(NULL));
    key = scramble(key ^ (uint64_t)(uintptr_t)&key ^ ((uint64_t)clock() << 32));
    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < cover->rank; k++) {
            key = scramble(key + low_of(cover, items[i].box, k));
            key = scramble(key + extent_of(cover, items[i].box, k));
        }
    }
    return key;
}

/* The lengths of [0, coordinate). */
static void measure(uint64_t key, uint64_t coordinate, uint64_t lengths[WAYS]) {
    uint64_t bits = key ^ coordinate;
    for (int i = 0; i < WAYS; i += 2) {
        bits = scramble(bits + key);
        lengths[i] = bits & PRIME;
        lengths[i + 1] = (bits >> 32) & PRIME;
    }
}

static bool measures_agree(const Cover *cover, const Event *items, size_t count) {
    uint64_t key = choose_key(cover, items, count), sum[WAYS] = {0};
    for (size_t i = 0; i < count; i++) {
        uint64_t volume[WAYS] = {1, 1, 1, 1};
        for (uint32_t k = 0; k < cover->rank; k++) {
            uint64_t low[WAYS], end[WAYS], own = scramble(key + k);
            measure(own, low_of(cover, items[i].box, k), low);
            measure(own, end_of(cover, items[i].box, k), end);
            for (int way = 0; way < WAYS; way++) {
                volume[way] = volume[way] * ((end[way] + PRIME - low[way]) % PRIME) % PRIME;
            }
        }
        for (int way = 0; way < WAYS; way++) {
            sum[way] += items[i].weight < 0 ? PRIME - volume[way] : volume[way];
            sum[way] %= PRIME;
        }
    }
    return (sum[0] | sum[1] | sum[2] | sum[3]) == 0;
}

/* ---- saying what is wrong ---- */

static bool overlap(const Cover *cover, uint64_t a, uint64_t b) {
    for (uint32_t k = 0; k < cover->rank; k++) {
        if (low_of(cover, a, k) >= end_of(cover, b, k)) return false;
        if (low_of(cover, b, k) >= end_of(cover, a, k)) return false;
    }
    return true;
}

/* Sorts the boxes by where they begin in one dimension. */
static void sort_along(const Cover *cover, uint32_t dimension, const Event *items, size_t count,
                       Event *events) {
    for (size_t i = 0; i < count; i++) {
        events[i] = (Event){low_of(cover, items[i].box, dimension), items[i].box, 0};
    }
    sort_events(cover, cover->rank, events, events + count, count);
}

/* The dimension in which the boxes begin at the most places: there a sweep has the fewest open. */
static uint32_t best_dimension(const Cover *cover, const Event *items, size_t count,
                               Event *events) {
    uint32_t best = 0;
    size_t most = 0;
    for (uint32_t k = 0; k < cover->rank; k++) {
        sort_along(cover, k, items, count, events);
        size_t distinct = 1;
        for (size_t i = 1; i < count; i++) {
            distinct += events[i].coordinate != events[i - 1].coordinate;
        }
        if (distinct > most) {
            most = distinct;
            best = k;
        }
    }
    return best;
}

typedef enum Search {
    FOUND_NONE,
    FOUND_PAIR,
    GAVE_UP
} Search;

/* Goes through boxes sorted along a dimension, comparing each with those that have not ended yet,
 * of which `open` keeps a list. */
static Search find_overlap(const Cover *cover, uint32_t dimension, const Event *events,
                           uint64_t *open, size_t count, uint64_t pairs, uint64_t pair[2]) {
    size_t open_count = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t box = events[i].box;
        size_t kept = 0;
        if (open_count > pairs) return GAVE_UP;
        pairs -= open_count;
        for (size_t j = 0; j < open_count; j++) {
            uint64_t other = open[j];
            if (end_of(cover, other, dimension) <= events[i].coordinate) continue;
            if (overlap(cover, box, other)) {
                pair[0] = other < box ? other : box;
                pair[1] = other < box ? box : other;
                return FOUND_PAIR;
            }
            open[kept++] = other;
        }
        open[kept++] = box;
        open_count = kept;
    }
    return FOUND_NONE;
}

/* The elements of a box or of the shape, in all dimensions; the count of the shape fits. */
static uint64_t volume(const uint64_t *extents, uint32_t rank) {
    uint64_t product = 1;
    for (uint32_t k = 0; k < rank; k++) product *= extents[k];
    return product;
}

static HurrayStatus fail_pair(const uint64_t pair[2]) {
    return hri_fail(HURRAY_ERR_INTERNAL, "partition: members %" PRIu64 " and %" PRIu64 " overlap",
                    pair[0], pair[1]);
}

static HurrayStatus fail_missing(uint64_t missing, uint64_t elements) {
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "partition: the members leave %" PRIu64 " of %" PRIu64 " elements uncovered",
                    missing, elements);
}

/* By the counts alone. Without a pair that overlaps, as far as anyone knows. */
static HurrayStatus fail_counts(const Cover *cover, const Event *items, size_t count,
                                bool disjoint) {
    const HurrayBoxes *boxes = cover->boxes;
    uint64_t elements = volume(cover->shape, boxes->rank), covered = 0;
    bool fits = true;
    for (size_t i = 0; fits && i < count; i++) {
        uint64_t own = volume(boxes->shapes + items[i].box * boxes->rank, boxes->rank);
        fits = checked_add_u64(covered, own, &covered);
    }
    if (disjoint) return fail_missing(elements - covered, elements);
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "partition: the %zu members hold %s%" PRIu64 " elements and do not cover each "
                    "of %" PRIu64 " exactly once",
                    count, fits ? "" : "more than ", covered, elements);
}

/* `items` are the boxes without the shape, which they do not cover exactly. */
static HurrayStatus name_fault(const Cover *cover, const Event *items, size_t count,
                               uint64_t pairs) {
    if (cover->rank == 0 && count > 1) return fail_pair((uint64_t[]){items[0].box, items[1].box});
    if (cover->rank == 0 || count == 0) return fail_counts(cover, items, count, true);
    Event *events = malloc(3 * count * sizeof *events); /* sorting needs one more, and `open` */
    if (events == NULL) return hri_fail_memory(3 * count * sizeof *events);
    uint32_t dimension = best_dimension(cover, items, count, events);
    sort_along(cover, dimension, items, count, events);
    uint64_t pair[2];
    Search search = find_overlap(cover, dimension, events, (uint64_t *)(events + 2 * count), count,
                                 pairs, pair);
    free(events);
    return search == FOUND_PAIR ? fail_pair(pair)
                                : fail_counts(cover, items, count, search == FOUND_NONE);
}

/* ---- the check ---- */

static HurrayStatus check_bounds(const HurrayBoxes *boxes, const uint64_t *shape) {
    for (uint64_t i = 0; i < boxes->count; i++) {
        for (uint32_t k = 0; k < boxes->rank; k++) {
            uint64_t low = boxes->offsets[i * boxes->rank + k];
            uint64_t extent = boxes->shapes[i * boxes->rank + k];
            if (low > shape[k] || extent > shape[k] - low) {
                return hri_fail(HURRAY_ERR_INTERNAL,
                                "partition: member %" PRIu64 " reaches from %" PRIu64
                                " over %" PRIu64 " elements of dimension %" PRIu32
                                ", whose extent is %" PRIu64,
                                i, low, extent, k, shape[k]);
            }
        }
    }
    return HURRAY_OK;
}

/* A scalar is covered by one member. */
static HurrayStatus check_scalar(uint64_t count) {
    if (count == 1) return HURRAY_OK;
    return count == 0 ? fail_missing(1, 1) : fail_pair((uint64_t[]){0, 1});
}

/* The boxes that hold elements, and the dimensions in which some do not reach all the way. */
static size_t collect(Cover *cover, Event *items) {
    const HurrayBoxes *boxes = cover->boxes;
    bool cut[HURRAY_MAX_RANK] = {false};
    size_t count = 0;
    for (uint64_t i = 0; i < boxes->count; i++) {
        const uint64_t *extents = boxes->shapes + i * boxes->rank;
        if (hurray_shape_is_empty(extents, boxes->rank)) continue;
        items[count++] = (Event){0, i, 1};
        for (uint32_t k = 0; k < boxes->rank; k++) cut[k] |= extents[k] != cover->shape[k];
    }
    for (uint32_t k = 0; k < boxes->rank; k++) {
        if (cut[k]) cover->dimensions[cover->rank++] = k;
    }
    return count;
}

/* Room for the boxes and the shape, or NULL. Eight times that is a size_t as well. */
static Event *allocate_items(uint64_t count) {
    size_t size;
    if (!checked_size(count, &size) || size >= SIZE_MAX / sizeof(Event) / 8) return NULL;
    return malloc((size + 1) * sizeof(Event));
}

static HurrayStatus check_cover(const HurrayBoxes *boxes, const uint64_t *shape,
                                PartitionEffort effort) {
    Event *items = allocate_items(boxes->count);
    if (items == NULL) return hri_fail_memory(boxes->count);
    Cover cover = {.boxes = boxes, .shape = shape, .budget = effort.events};
    size_t count = collect(&cover, items);
    items[count] = (Event){0, boxes->count, -1};
    HurrayStatus status = HURRAY_OK;
    Verdict verdict = sum_is_zero(&cover, 0, items, count + 1);
    if (verdict == OVER_BUDGET) {
        verdict = measures_agree(&cover, items, count + 1) ? IS_ZERO : IS_NOT_ZERO;
    }
    if (verdict == NO_MEMORY) status = hri_fail_memory(4 * (count + 1) * sizeof *items);
    if (verdict == IS_NOT_ZERO) status = name_fault(&cover, items, count, effort.pairs);
    free(items);
    return status;
}

HurrayStatus hri_partition_check(const HurrayBoxes *boxes, const uint64_t *shape,
                                 PartitionEffort effort) {
    if (boxes == NULL) return hri_fail_null("boxes");
    if (boxes->rank == 0) return check_scalar(boxes->count);
    if (shape == NULL) return hri_fail_null("shape");
    if (boxes->count != 0 && (boxes->offsets == NULL || boxes->shapes == NULL)) {
        return hri_fail_null(boxes->offsets == NULL ? "boxes.offsets" : "boxes.shapes");
    }
    if (boxes->rank > HURRAY_MAX_RANK) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "rank %" PRIu32 " is greater than %u",
                        boxes->rank, HURRAY_MAX_RANK);
    }
    uint64_t elements;
    HurrayStatus status = hurray_shape_count(shape, boxes->rank, &elements);
    if (status == HURRAY_OK) status = check_bounds(boxes, shape);
    if (status != HURRAY_OK || elements == 0) return status;
    return check_cover(boxes, shape, effort);
}

HurrayStatus hurray_partition_check(const HurrayBoxes *boxes, const uint64_t *shape) {
    uint64_t events = UINT64_MAX;
    if (boxes != NULL) checked_mul_u64(boxes->count, EVENTS_PER_BOX, &events);
    if (events < 4096) events = 4096;
    return hri_partition_check(boxes, shape, (PartitionEffort){events, PAIR_LIMIT});
}
