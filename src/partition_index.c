/*
 * The box of a partition that holds an index (include/hurray/composite.h): a balanced tree over the
 * boxes, each node with the bounds of those below it. Where boxes do not overlap, and cuts run
 * between them as in grids, a search follows one path.
 */
#include <hurray/composite.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "fail.h"

/* More boxes than this are split. */
#define LEAF_SIZE 4u
/* Nodes that wait during a search: one a level, and a cut leaves a quarter or more on each side, so
 * that a tree over 2^64 boxes has log_{4/3} 2^64 < 155 levels. */
#define MAX_WAITING 160u

/* Boxes order[first] … order[first + count − 1]; children are nodes `child` and `child + 1`, 0 for
 * a leaf. */
typedef struct Node {
    size_t first;
    size_t count;
    size_t child;
} Node;

struct HurrayPartitionIndex {
    uint32_t rank;
    size_t count;
    size_t node_count;
    uint64_t *lows;   /* u64[count · rank], where each box begins */
    uint64_t *highs;  /* u64[count · rank], where it ends */
    uint64_t *bounds; /* u64[node · 2 · rank]: the least low and the greatest high below a node */
    size_t *order;
    Node *nodes;
};

/* ---- building ---- */

static uint64_t key_of(const HurrayPartitionIndex *tree, size_t box, uint32_t dimension) {
    return tree->lows[box * tree->rank + dimension];
}

static void measure_bounds(HurrayPartitionIndex *tree, size_t node) {
    const Node *n = &tree->nodes[node];
    uint64_t *low = tree->bounds + node * 2 * tree->rank, *high = low + tree->rank;
    for (uint32_t k = 0; k < tree->rank; k++) {
        low[k] = UINT64_MAX;
        high[k] = 0;
        for (size_t i = 0; i < n->count; i++) {
            size_t at = tree->order[n->first + i] * tree->rank + k;
            if (tree->lows[at] < low[k]) low[k] = tree->lows[at];
            if (tree->highs[at] > high[k]) high[k] = tree->highs[at];
        }
    }
}

/* The dimension in which the boxes of a node begin farthest apart. */
static uint32_t widest_dimension(const HurrayPartitionIndex *tree, const Node *node) {
    uint32_t widest = 0;
    uint64_t most = 0;
    for (uint32_t k = 0; k < tree->rank; k++) {
        uint64_t least = UINT64_MAX, greatest = 0;
        for (size_t i = 0; i < node->count; i++) {
            uint64_t key = key_of(tree, tree->order[node->first + i], k);
            if (key < least) least = key;
            if (key > greatest) greatest = key;
        }
        if (greatest - least > most) {
            most = greatest - least;
            widest = k;
        }
    }
    return widest;
}

/* Sifts order[root] down a heap of `count` entries. */
static void sift_down(const HurrayPartitionIndex *tree, uint32_t dimension, size_t *order,
                      size_t root, size_t count) {
    for (size_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
        if (child + 1 < count &&
            key_of(tree, order[child], dimension) < key_of(tree, order[child + 1], dimension)) {
            child++;
        }
        if (key_of(tree, order[root], dimension) >= key_of(tree, order[child], dimension)) return;
        size_t swap = order[root];
        order[root] = order[child];
        order[child] = swap;
        root = child;
    }
}

/* Heap sort: in place, n log n whatever comes. */
static void sort_order(const HurrayPartitionIndex *tree, uint32_t dimension, size_t *order,
                       size_t count) {
    for (size_t root = count / 2; root-- > 0;) sift_down(tree, dimension, order, root, count);
    for (size_t end = count; end-- > 1;) {
        size_t swap = order[0];
        order[0] = order[end];
        order[end] = swap;
        sift_down(tree, dimension, order, 0, end);
    }
}

/* Where to cut sorted boxes: the middle, or the change of key nearest to it within the inner half,
 * so that a cut runs between boxes rather than through a row of them. */
static size_t cut_near_middle(const HurrayPartitionIndex *tree, uint32_t dimension,
                              const size_t *order, size_t count) {
    size_t middle = count / 2;
    for (size_t step = 0; step < count / 4; step++) {
        size_t right = middle + step, left = middle - step;
        if (key_of(tree, order[right - 1], dimension) != key_of(tree, order[right], dimension)) {
            return right;
        }
        if (key_of(tree, order[left - 1], dimension) != key_of(tree, order[left], dimension)) {
            return left;
        }
    }
    return middle;
}

/* Nodes are appended in breadth-first order; each is split when its turn comes. */
static void build(HurrayPartitionIndex *tree) {
    tree->nodes[0] = (Node){0, tree->count, 0};
    tree->node_count = 1;
    for (size_t i = 0; i < tree->node_count; i++) {
        Node *node = &tree->nodes[i];
        measure_bounds(tree, i);
        if (node->count <= LEAF_SIZE || tree->rank == 0) continue;
        size_t *order = tree->order + node->first;
        uint32_t dimension = widest_dimension(tree, node);
        sort_order(tree, dimension, order, node->count);
        size_t cut = cut_near_middle(tree, dimension, order, node->count);
        node->child = tree->node_count;
        tree->nodes[tree->node_count++] = (Node){node->first, cut, 0};
        tree->nodes[tree->node_count++] = (Node){node->first + cut, node->count - cut, 0};
    }
}

/* ---- objects ---- */

/* A leaf holds at least a quarter of LEAF_SIZE + 1 boxes, so that there are fewer leaves than boxes
 * and fewer than two nodes a box. */
static bool allocate(HurrayPartitionIndex *tree) {
    size_t values, bounds, node_limit = 2 * tree->count + 1;
    uint64_t product;
    if (!checked_mul_u64(tree->count, (uint64_t)tree->rank * sizeof(uint64_t), &product) ||
        !checked_size(product, &values) ||
        !checked_mul_u64(node_limit, 2 * (uint64_t)tree->rank * sizeof(uint64_t), &product) ||
        !checked_size(product, &bounds) || node_limit > SIZE_MAX / sizeof(Node)) {
        return false;
    }
    tree->lows = malloc(values + 1);
    tree->highs = malloc(values + 1);
    tree->bounds = malloc(bounds + 1);
    tree->order = malloc((tree->count + 1) * sizeof *tree->order);
    tree->nodes = malloc(node_limit * sizeof *tree->nodes);
    return tree->lows != NULL && tree->highs != NULL && tree->bounds != NULL &&
           tree->order != NULL && tree->nodes != NULL;
}

static HurrayStatus copy_boxes(const HurrayBoxes *boxes, HurrayPartitionIndex *tree) {
    for (size_t i = 0; i < tree->count * tree->rank; i++) {
        tree->lows[i] = boxes->offsets[i];
        if (!checked_add_u64(boxes->offsets[i], boxes->shapes[i], &tree->highs[i])) {
            return hri_fail(HURRAY_ERR_INTERNAL, "partition: box %zu reaches 2^64 in dimension %zu",
                            i / tree->rank, i % tree->rank);
        }
    }
    for (size_t i = 0; i < tree->count; i++) tree->order[i] = i;
    return HURRAY_OK;
}

HurrayStatus hurray_partition_index_create(const HurrayBoxes *boxes, HurrayPartitionIndex **out) {
    if (boxes == NULL || out == NULL) return hri_fail_null(out ? "boxes" : "out");
    if (boxes->rank > HURRAY_MAX_RANK) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "rank %" PRIu32 " is greater than %u",
                        boxes->rank, HURRAY_MAX_RANK);
    }
    bool no_arrays = boxes->offsets == NULL || boxes->shapes == NULL;
    if (boxes->rank != 0 && boxes->count != 0 && no_arrays) {
        return hri_fail_null("boxes.offsets or boxes.shapes");
    }
    HurrayPartitionIndex *tree = calloc(1, sizeof *tree);
    if (tree == NULL) return hri_fail_memory(sizeof *tree);
    tree->rank = boxes->rank;
    HurrayStatus status = HURRAY_OK;
    if (boxes->count > SIZE_MAX / 64 || (tree->count = (size_t)boxes->count, !allocate(tree))) {
        status = hri_fail_memory(boxes->count);
    }
    if (status == HURRAY_OK) status = copy_boxes(boxes, tree);
    if (status != HURRAY_OK) {
        hurray_partition_index_destroy(&tree);
        return status;
    }
    build(tree);
    *out = tree;
    return HURRAY_OK;
}

HurrayStatus hurray_partition_index_destroy(HurrayPartitionIndex **index) {
    if (index == NULL) return hri_fail_null("index");
    HurrayPartitionIndex *tree = *index;
    if (tree == NULL) return HURRAY_OK;
    free(tree->lows);
    free(tree->highs);
    free(tree->bounds);
    free(tree->order);
    free(tree->nodes);
    free(tree);
    *index = NULL;
    return HURRAY_OK;
}

/* ---- finding ---- */

static bool lies_between(uint32_t rank, const uint64_t *index, const uint64_t *low,
                         const uint64_t *high) {
    for (uint32_t k = 0; k < rank; k++) {
        if (index[k] < low[k] || index[k] >= high[k]) return false;
    }
    return true;
}

/* The first box of a leaf that holds the index; tree->count when none does. */
static size_t find_in_leaf(const HurrayPartitionIndex *tree, const Node *leaf,
                           const uint64_t *index) {
    for (size_t i = 0; i < leaf->count; i++) {
        size_t box = tree->order[leaf->first + i];
        if (lies_between(tree->rank, index, tree->lows + box * tree->rank,
                         tree->highs + box * tree->rank)) {
            return box;
        }
    }
    return tree->count;
}

static size_t find(const HurrayPartitionIndex *tree, const uint64_t *index) {
    /* Both children of a node may hold the index: one waits while the other is searched. */
    size_t waiting[MAX_WAITING], count = 0;
    waiting[count++] = 0;
    while (count != 0) {
        size_t at = waiting[--count];
        const uint64_t *low = tree->bounds + at * 2 * tree->rank;
        if (!lies_between(tree->rank, index, low, low + tree->rank)) continue;
        const Node *node = &tree->nodes[at];
        if (node->child == 0) {
            size_t box = find_in_leaf(tree, node, index);
            if (box != tree->count) return box;
            continue;
        }
        waiting[count++] = node->child + 1;
        waiting[count++] = node->child;
    }
    return tree->count;
}

HurrayStatus hurray_partition_find(const HurrayPartitionIndex *partition, const uint64_t *index,
                                   uint64_t *out_box, uint64_t *out_local) {
    if (partition == NULL || out_box == NULL) {
        return hri_fail_null(out_box ? "partition" : "out_box");
    }
    if (index == NULL && partition->rank != 0) return hri_fail_null("index");
    size_t box = find(partition, index);
    if (box == partition->count) {
        return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                        "no member of the partition holds the index");
    }
    *out_box = box;
    for (uint32_t k = 0; out_local != NULL && k < partition->rank; k++) {
        out_local[k] = index[k] - partition->lows[box * partition->rank + k];
    }
    return HURRAY_OK;
}
