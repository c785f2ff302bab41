/* Plans of strided copies, and how threads share them (transcode_plan.h). */
#include "transcode_plan.h"

#include <string.h>

#include "checked.h"
#include "fail.h"
#include "parallel.h"

/* ---- making ---- */

/*
 * Adds (extent - 1) · |stride| to *span, the distance between the outermost elements; false when
 * the sum is more than memory can hold at `unit` bytes each.
 */
static bool widen_span(int64_t stride, uint64_t extent, uint64_t unit, uint64_t *span) {
    uint64_t width;
    return checked_mul_u64(magnitude_i64(stride), extent - 1, &width) &&
           checked_add_u64(*span, width, span) && *span <= (uint64_t)PTRDIFF_MAX / unit;
}

/*
 * Takes over the axes that have more than one index, each written in ascending order. An axis along
 * which the destination stands still is reduced to its last index, which is the one that stays.
 */
static void add_axis(Plan *plan, uint64_t extent, int64_t source, int64_t destination) {
    int64_t last = (int64_t)(extent - 1);
    if (destination == 0) {
        plan->source += last * source;
        return;
    }
    if (destination < 0) {
        plan->source += last * source;
        plan->destination += last * destination;
        source = -source;
        destination = -destination;
    }
    plan->axes[plan->rank++] = (Axis){(int64_t)extent, source, destination};
}

/* Largest step of the destination first. Insertion: ranks are small and mostly in order. */
static void sort_axes(Plan *plan) {
    for (uint32_t i = 1; i < plan->rank; i++) {
        Axis axis = plan->axes[i];
        uint32_t at = i;
        while (at > 0 && plan->axes[at - 1].destination < axis.destination) {
            plan->axes[at] = plan->axes[at - 1];
            at--;
        }
        plan->axes[at] = axis;
    }
}

/* Makes one axis of neighbours that step through memory like one. */
static void merge_axes(Plan *plan) {
    uint32_t kept = 0;
    for (uint32_t i = 1; i < plan->rank; i++) {
        Axis *outer = &plan->axes[kept], *inner = &plan->axes[i];
        /* Modulo 2^64 is exact enough: steps that are equal only so do not fit into one span. */
        uint64_t source = (uint64_t)inner->source * (uint64_t)inner->extent;
        uint64_t destination = (uint64_t)inner->destination * (uint64_t)inner->extent;
        if ((uint64_t)outer->source == source && (uint64_t)outer->destination == destination) {
            *outer = (Axis){outer->extent * inner->extent, inner->source, inner->destination};
        } else {
            plan->axes[++kept] = *inner;
        }
    }
    if (plan->rank > 0) plan->rank = kept + 1;
}

HurrayStatus hri_plan_make(uint32_t rank, const uint64_t *shape, const int64_t *source_strides,
                           const int64_t *destination_strides, uint64_t unit, Plan *plan) {
    uint64_t source_span = 0, destination_span = 0;
    plan->rank = 0;
    plan->source = plan->destination = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] == 1) continue;
        if (!widen_span(source_strides[i], shape[i], unit, &source_span) ||
            !widen_span(destination_strides[i], shape[i], unit, &destination_span)) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "the strides of dimension %u, of extent %llu, reach beyond what this "
                            "machine can address",
                            (unsigned)i, (unsigned long long)shape[i]);
        }
        add_axis(plan, shape[i], source_strides[i], destination_strides[i]);
    }
    sort_axes(plan);
    merge_axes(plan);
    return HURRAY_OK;
}

/* ---- slices ---- */

/* Bytes for which another thread is worth its start. */
#define BYTES_PER_THREAD ((uint64_t)2 << 20)

enum {
    SLICES_PER_THREAD = 8, /* so that none waits long for the others */
    SLICE_MULTIPLE = 64    /* a multiple of all groups; and of tiles, which may stay whole */
};

/* Whether no two elements are written to the same place, as far as one sees at a glance: each axis steps
 * over everything that those after it reach. Then slices may be written at the same time. */
static bool is_distinct(const Plan *plan, uint64_t *count) {
    int64_t reach = 0;
    *count = 1;
    for (uint32_t i = plan->rank; i > 0; i--) {
        const Axis *axis = &plan->axes[i - 1];
        if (axis->destination <= reach) return false;
        reach += (axis->extent - 1) * axis->destination;
        *count *= (uint64_t)axis->extent; /* at most reach + 1 */
    }
    return true;
}

typedef struct Slices {
    const Plan *plan;
    uint32_t axis;
    int64_t length; /* along the axis, but for the last */
    DoPlan *run;
    const void *job;
} Slices;

static HurrayStatus do_slice(void *context, uint32_t thread, uint64_t part) {
    const Slices *slices = context;
    (void)thread;
    Plan plan = *slices->plan;
    Axis *axis = &plan.axes[slices->axis];
    int64_t first = (int64_t)part * slices->length;
    plan.source += first * axis->source;
    plan.destination += first * axis->destination;
    axis->extent -= first;
    if (axis->extent > slices->length) axis->extent = slices->length;
    if (axis->extent == 1) {
        plan.rank--;
        memmove(axis, axis + 1, (plan.rank - slices->axis) * sizeof(Axis));
    }
    slices->run(&plan, slices->job);
    return HURRAY_OK;
}

/* The outermost axis, or the longest where that one is too short to be shared. */
static uint32_t choose_axis(const Plan *plan, int64_t slices) {
    uint32_t longest = 0;
    if (plan->axes[0].extent >= slices) return 0;
    for (uint32_t i = 1; i < plan->rank; i++) {
        if (plan->axes[i].extent > plan->axes[longest].extent) longest = i;
    }
    return longest;
}

HurrayStatus hri_plan_do(Plan *plan, uint64_t unit, Slicing slicing, DoPlan *run, const void *job) {
    uint64_t count = 0;
    uint32_t threads = 1;
    if (plan->rank > 0 && is_distinct(plan, &count)) {
        threads = hri_threads_for(count * unit, BYTES_PER_THREAD);
    }
    if (threads == 1) {
        run(plan, job);
        return HURRAY_OK;
    }
    int64_t wanted = (int64_t)threads * SLICES_PER_THREAD;
    bool in_groups = slicing == SLICES_OF_GROUPS;
    Slices slices = {.plan = plan, .run = run, .job = job};
    if (!in_groups) slices.axis = choose_axis(plan, wanted);
    uint64_t extent = (uint64_t)plan->axes[slices.axis].extent;
    uint64_t length = divide_up_u64(extent, (uint64_t)wanted);
    if (in_groups || length >= SLICE_MULTIPLE) {
        length = divide_up_u64(length, SLICE_MULTIPLE) * SLICE_MULTIPLE;
    }
    slices.length = (int64_t)length;
    return hri_parallel(divide_up_u64(extent, length), threads, do_slice, &slices);
}

/* ---- planes ---- */

void hri_plan_choose_plane(Plan *plan) {
    plan->is_transposed = false;
    while (plan->rank < 2) {
        memmove(plan->axes + 1, plan->axes, plan->rank * sizeof(Axis));
        plan->axes[0] = (Axis){1, 0, 0};
        plan->rank++;
    }
    uint32_t fastest = plan->rank - 1;
    for (uint32_t i = 0; i + 1 < plan->rank; i++) {
        uint64_t step = magnitude_i64(plan->axes[i].source);
        if (step != 0 && step < magnitude_i64(plan->axes[fastest].source)) fastest = i;
    }
    if (fastest == plan->rank - 1) return;
    Axis axis = plan->axes[fastest];
    memmove(plan->axes + fastest, plan->axes + fastest + 1,
            (plan->rank - 2 - fastest) * sizeof(Axis));
    plan->axes[plan->rank - 2] = axis;
    plan->is_transposed = true;
}
