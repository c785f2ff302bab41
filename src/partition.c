/*
 * Exact covers of a shape by boxes (include/hurray/composite.h, spec 2.10).
 *
 * The check rests on one fact. Write the boxes and, with weight −1, the whole shape as functions
 * that are 1 inside and 0 outside; they are an exact cover when the weighted sum is 0 everywhere.
 * Seen along one dimension that sum is piecewise constant, so it is 0 when at every coordinate the
 * boxes that begin there and those that end there (with the sign turned) add up to 0 — the same
 * question about their cross-sections, in one dimension less. Equal cross-sections are added up
 * first: in a grid whatever ends at a coordinate begins there again, and everything cancels at once.
 * That makes n boxes cost n log n per dimension. Arrangements that do not cancel could double at each
 * dimension; past a budget the work is left to a sweep, which compares pairs.
 */
#include <hurray/composite.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "fail.h"

/* ---- boxes ---- */

/* Box i reaches from low(i)[k] up to, not including, low(i)[k] + extent(i)[k]. The shape itself is
 * the box after the last. */
typedef struct Cover {
    const HurrayBoxes *boxes;
    const uint64_t *shape;
    const uint64_t *zeros; /* u64[rank] */
    uint32_t rank;
    uint64_t budget; /* events that may still be sorted */
} Cover;

static const uint64_t *low_of(const Cover *cover, uint64_t box) {
    return box == cover->boxes->count ? cover->zeros : cover->boxes->offsets + box * cover->rank;
}

static const uint64_t *extent_of(const Cover *cover, uint64_t box) {
    return box == cover->boxes->count ? cover->shape : cover->boxes->shapes + box * cover->rank;
}

static bool is_empty(const uint64_t *extents, uint32_t rank) {
    for (uint32_t k = 0; k < rank; k++) {
        if (extents[k] == 0) return true;
    }
    return false;
}

/* ---- sorting with a context, which qsort does not have ---- */

/* A side of a box, seen along the dimension at hand. */
typedef struct Event {
    uint64_t coordinate;
    uint64_t box;
    int64_t weight;
} Event;

/* Orders the cross-sections of two boxes in dimensions `from` …, 0 when they are the same. */
static int compare_sections(const Cover *cover, uint32_t from, uint64_t a, uint64_t b) {
    const uint64_t *low_a = low_of(cover, a), *low_b = low_of(cover, b);
    const uint64_t *extent_a = extent_of(cover, a), *extent_b = extent_of(cover, b);
    for (uint32_t k = from; k < cover->rank; k++) {
        if (low_a[k] != low_b[k]) return low_a[k] < low_b[k] ? -1 : 1;
        if (extent_a[k] != extent_b[k]) return extent_a[k] < extent_b[k] ? -1 : 1;
    }
    return 0;
}

static bool comes_first(const Cover *cover, uint32_t dimension, const Event *a, const Event *b) {
    if (a->coordinate != b->coordinate) return a->coordinate < b->coordinate;
    return compare_sections(cover, dimension + 1, a->box, b->box) <= 0;
}

/* Bottom-up merge sort; `spare` is as large as `events`. The result is in `events`. */
static void sort_events(const Cover *cover, uint32_t dimension, Event *events, Event *spare,
                        size_t count) {
    Event *from = events, *to = spare;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t start = 0; start < count; start += 2 * width) {
            size_t middle = start + width < count ? start + width : count;
            size_t end = middle + width < count ? middle + width : count;
            size_t left = start, right = middle;
            for (size_t i = start; i < end; i++) {
                bool take_left = left < middle && (right >= end || comes_first(cover, dimension,
                                                                               &from[left],
                                                                               &from[right]));
                to[i] = take_left ? from[left++] : from[right++];
            }
        }
        Event *swap = from;
        from = to;
        to = swap;
    }
    if (from != events) memcpy(events, from, count * sizeof *events);
}

/* ---- the sum of cross-sections ---- */

typedef enum Verdict {
    IS_ZERO,
    IS_NOT_ZERO,
    OVER_BUDGET,
    NO_MEMORY
} Verdict;

static Verdict sum_is_zero(Cover *cover, uint32_t dimension, const Event *items, size_t count);

/* Adds up equal cross-sections of the events at one coordinate, in place; the number that is left. */
static size_t cancel(const Cover *cover, uint32_t dimension, Event *group, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count;) {
        Event sum = group[i++];
        while (i < count &&
               compare_sections(cover, dimension + 1, sum.box, group[i].box) == 0) {
            sum.weight += group[i++].weight;
        }
        if (sum.weight != 0) group[kept++] = sum;
    }
    return kept;
}

static Verdict sum_groups(Cover *cover, uint32_t dimension, Event *events, size_t count) {
    for (size_t start = 0; start < count;) {
        size_t end = start + 1;
        while (end < count && events[end].coordinate == events[start].coordinate) end++;
        size_t left = cancel(cover, dimension, events + start, end - start);
        Verdict verdict =
            left == 0 ? IS_ZERO : sum_is_zero(cover, dimension + 1, events + start, left);
        if (verdict != IS_ZERO) return verdict;
        start = end;
    }
    return IS_ZERO;
}

/* Whether the weighted items, in dimensions `dimension` …, add up to 0 everywhere. Recurses once per
 * dimension. */
static Verdict sum_is_zero(Cover *cover, uint32_t dimension, const Event *items, size_t count) {
    if (dimension == cover->rank) {
        int64_t sum = 0;
        for (size_t i = 0; i < count; i++) sum += items[i].weight;
        return sum == 0 ? IS_ZERO : IS_NOT_ZERO;
    }
    if (count > cover->budget / 2) return OVER_BUDGET;
    cover->budget -= 2 * count;
    Event *events = malloc(4 * count * sizeof *events); /* two sides each, and as much to sort */
    if (events == NULL) return NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        uint64_t low = low_of(cover, items[i].box)[dimension];
        uint64_t extent = extent_of(cover, items[i].box)[dimension];
        events[2 * i] = (Event){low, items[i].box, items[i].weight};
        events[2 * i + 1] = (Event){low + extent, items[i].box, -items[i].weight};
    }
    sort_events(cover, dimension, events, events + 2 * count, 2 * count);
    Verdict verdict = sum_groups(cover, dimension, events, 2 * count);
    free(events);
    return verdict;
}

/* ---- the sweep: slower, but it can name what is wrong ---- */

static bool overlap(const Cover *cover, uint64_t a, uint64_t b) {
    const uint64_t *low_a = low_of(cover, a), *low_b = low_of(cover, b);
    const uint64_t *extent_a = extent_of(cover, a), *extent_b = extent_of(cover, b);
    for (uint32_t k = 0; k < cover->rank; k++) {
        /* As differences: low + extent is known to fit, but need not be computed. */
        if (low_a[k] <= low_b[k] ? low_b[k] - low_a[k] >= extent_a[k]
                                 : low_a[k] - low_b[k] >= extent_b[k]) {
            return false;
        }
    }
    return true;
}

/* The dimension in which the most neighbours in sorted order begin at different places: there the
 * sweep has the fewest boxes open at a time. */
static uint32_t best_dimension(const Cover *cover, const Event *items, size_t count, Event *events,
                               Event *spare) {
    uint32_t best = 0;
    size_t most = 0;
    for (uint32_t k = 0; k < cover->rank; k++) {
        for (size_t i = 0; i < count; i++) {
            events[i] = (Event){low_of(cover, items[i].box)[k], items[i].box, 0};
        }
        sort_events(cover, cover->rank, events, spare, count);
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

/* Finds an overlapping pair among the items, going along one dimension and comparing each box with
 * those that have not ended yet. */
static bool find_overlap(const Cover *cover, uint32_t dimension, Event *events, uint64_t *open,
                         size_t count, uint64_t *first, uint64_t *second) {
    size_t open_count = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t box = events[i].box;
        size_t kept = 0;
        for (size_t j = 0; j < open_count; j++) {
            uint64_t other = open[j];
            uint64_t end = low_of(cover, other)[dimension] + extent_of(cover, other)[dimension];
            if (end <= events[i].coordinate) continue;
            if (overlap(cover, box, other)) {
                *first = other < box ? other : box;
                *second = other < box ? box : other;
                return true;
            }
            open[kept++] = other;
        }
        open[kept++] = box;
        open_count = kept;
    }
    return false;
}

static uint64_t volume(const uint64_t *extents, uint32_t rank) {
    uint64_t product = 1;
    for (uint32_t k = 0; k < rank; k++) product *= extents[k]; /* at most that of the shape */
    return product;
}

/* Elements of the shape that are in no box, where no two boxes overlap. */
static uint64_t count_missing(const Cover *cover, const Event *items, size_t count) {
    uint64_t covered = 0;
    for (size_t i = 0; i < count; i++) {
        covered += volume(extent_of(cover, items[i].box), cover->rank);
    }
    return volume(cover->shape, cover->rank) - covered;
}

static HurrayStatus sweep(const Cover *cover, const Event *items, size_t count) {
    if (count > SIZE_MAX / 3 / sizeof(Event)) return hri_fail_memory(UINT64_MAX);
    Event *events = malloc((count == 0 ? 1 : 3 * count) * sizeof *events);
    if (events == NULL) return hri_fail_memory(3 * count * sizeof *events);
    uint32_t dimension = best_dimension(cover, items, count, events, events + count);
    for (size_t i = 0; i < count; i++) {
        events[i] = (Event){low_of(cover, items[i].box)[dimension], items[i].box, 0};
    }
    sort_events(cover, cover->rank, events, events + count, count);
    uint64_t first = 0, second = 0;
    bool found = cover->rank != 0
                     ? find_overlap(cover, dimension, events, (uint64_t *)(events + 2 * count),
                                    count, &first, &second)
                     : count > 1;
    free(events);
    if (found && cover->rank == 0) first = items[0].box, second = items[1].box;
    if (found) {
        return hri_fail(HURRAY_ERR_INTERNAL,
                        "partition: members %" PRIu64 " and %" PRIu64 " overlap", first, second);
    }
    uint64_t missing = count_missing(cover, items, count);
    if (missing == 0) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INTERNAL,
                    "partition: the members leave %" PRIu64 " of %" PRIu64 " elements uncovered",
                    missing, volume(cover->shape, cover->rank));
}

/* ---- the check ---- */

static HurrayStatus check_bounds(const HurrayBoxes *boxes, const uint64_t *shape) {
    for (uint64_t i = 0; i < boxes->count; i++) {
        for (uint32_t k = 0; k < boxes->rank; k++) {
            uint64_t low = boxes->offsets[i * boxes->rank + k];
            uint64_t extent = boxes->shapes[i * boxes->rank + k];
            if (low > shape[k] || extent > shape[k] - low) {
                return hri_fail(HURRAY_ERR_INTERNAL,
                                "partition: member %" PRIu64 " reaches from %" PRIu64 " over %" PRIu64
                                " elements of dimension %" PRIu32 ", whose extent is %" PRIu64,
                                i, low, extent, k, shape[k]);
            }
        }
    }
    return HURRAY_OK;
}

/* The boxes that hold elements; the shape comes last with weight −1, when it holds any. */
static size_t collect_items(const Cover *cover, Event *items, size_t *box_count) {
    size_t count = 0;
    for (uint64_t i = 0; i < cover->boxes->count; i++) {
        if (!is_empty(extent_of(cover, i), cover->rank)) items[count++] = (Event){0, i, 1};
    }
    *box_count = count;
    if (!is_empty(cover->shape, cover->rank)) {
        items[count++] = (Event){0, cover->boxes->count, -1};
    }
    return count;
}

HurrayStatus hurray_partition_check(const HurrayBoxes *boxes, const uint64_t *shape) {
    if (boxes == NULL) return hri_fail_null("boxes");
    bool no_arrays = boxes->offsets == NULL || boxes->shapes == NULL;
    if (boxes->rank != 0 && (shape == NULL || (no_arrays && boxes->count != 0))) {
        return hri_fail_null(shape == NULL ? "shape" : "boxes.offsets or boxes.shapes");
    }
    if (boxes->rank > HURRAY_MAX_RANK) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "rank %" PRIu32 " is greater than %u",
                        boxes->rank, HURRAY_MAX_RANK);
    }
    uint64_t elements;
    HurrayStatus status = hurray_shape_count(shape, boxes->rank, &elements);
    if (status == HURRAY_OK) status = check_bounds(boxes, shape);
    if (status != HURRAY_OK) return status;

    static const uint64_t zeros[HURRAY_MAX_RANK];
    size_t capacity;
    if (!checked_size(boxes->count, &capacity) || capacity >= SIZE_MAX / sizeof(Event) / 8) {
        return hri_fail_memory(boxes->count);
    }
    Event *items = malloc((capacity + 1) * sizeof *items);
    if (items == NULL) return hri_fail_memory((capacity + 1) * sizeof *items);
    /* A grid needs 2 events per box and dimension at the first, and none after; leave room for
     * arrangements that cancel later. */
    Cover cover = {boxes, shape, zeros, boxes->rank,
                   16 * (boxes->count + 1) * (boxes->rank + 1)};
    size_t box_count;
    size_t item_count = collect_items(&cover, items, &box_count);
    Verdict verdict = sum_is_zero(&cover, 0, items, item_count);
    if (verdict == NO_MEMORY) {
        status = hri_fail_memory(4 * item_count * sizeof *items);
    } else if (verdict != IS_ZERO) {
        status = sweep(&cover, items, box_count); /* finds out, and says what is wrong */
    }
    free(items);
    return status;
}
