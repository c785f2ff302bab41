/* Conversion by strided copies (convert.h): tiles are further dimensions, edge tiles boxes of their
 * own. */
#include <hurray/transcode.h>

#include "checked.h"
#include "convert.h"

/* Boxes that are always worth it, and elements that a box must have where there are more. */
enum {
    FEW_BOXES = 8,
    BOX_ELEMENTS = 512
};

/* ---- axes ---- */

/* Stride per `weight` of dimension k on one side; some digit's weight divides it. */
static int64_t stride_of(const Arrangement *side, uint32_t k, uint64_t weight) {
    const Digit *digit = NULL;
    for (uint32_t i = 0; i < side->digit_count; i++) {
        const Digit *other = &side->digits[i];
        if (other->dimension != k || other->weight > weight) continue;
        if (digit == NULL || other->weight > digit->weight) digit = other;
    }
    if (digit == NULL) return 0;
    uint64_t stride = digit->step * (weight / digit->weight);
    return (int64_t)(digit->is_descending ? UINT64_C(0) - stride : stride);
}

/* Adds the weights of dimension k, descending and each once; those past the shape never count. */
static bool add_weights(const Arrangement *side, uint32_t k, uint64_t extent, uint64_t *weights,
                        uint32_t *count) {
    for (uint32_t i = 0; i < side->digit_count; i++) {
        uint64_t weight = side->digits[i].weight;
        uint32_t at = *count;
        if (side->digits[i].dimension != k || weight >= extent) continue;
        while (at > 0 && weights[at - 1] < weight) at--;
        if (at > 0 && weights[at - 1] == weight) continue;
        if (*count == HURRAY_MAX_RANK) return false;
        for (uint32_t j = (*count)++; j > at; j--) weights[j] = weights[j - 1];
        weights[at] = weight;
    }
    return true;
}

/* The axes of dimension k. False where tiles of the two sides do not fit into each other, or with too
 * many axes. */
static bool add_axes(const Conversion *conversion, uint32_t k, Boxes *boxes, uint32_t *used) {
    uint64_t weights[HURRAY_MAX_RANK], above = conversion->shape[k];
    uint32_t count = 0;
    if (above < 2) return true;
    if (!add_weights(&conversion->from, k, above, weights, &count) ||
        !add_weights(&conversion->to, k, above, weights, &count) ||
        count > HURRAY_MAX_RANK - *used) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && above % weights[i] != 0) return false;
        boxes->axes[(*used)++] = (BoxAxis){
            .extent = above / weights[i],
            .weight = weights[i],
            .from = stride_of(&conversion->from, k, weights[i]),
            .to = stride_of(&conversion->to, k, weights[i]),
        };
        above = weights[i];
    }
    return true;
}

/*
 * A dimension falls into pieces: as many whole tiles as there are, then as many tiles of the next level
 * as fit into what is left, and so on. Piece `axis` has `extent` steps of that axis, and whole axes
 * below.
 */
typedef struct Piece {
    uint32_t axis;
    uint64_t extent;
    int64_t from, to; /* where it begins, from the element at index 0 of the dimension */
} Piece;

/* The pieces of index first … end − 1, at most one for each axis; `first` is a multiple of the largest
 * weight. Returns how many. */
static uint32_t cut(const BoxAxis *axes, uint32_t first_axis, uint32_t end_axis, uint64_t first,
                    uint64_t end, Piece *pieces) {
    uint32_t count = 0;
    Piece piece = {.axis = first_axis};
    if (first_axis < end_axis) {
        uint64_t start = first / axes[first_axis].weight;
        piece.from = (int64_t)start * axes[first_axis].from;
        piece.to = (int64_t)start * axes[first_axis].to;
    }
    uint64_t left = end - first;
    for (; piece.axis < end_axis && left > 0; piece.axis++) {
        const BoxAxis *axis = &axes[piece.axis];
        piece.extent = left / axis->weight;
        left %= axis->weight;
        if (piece.extent == 0) continue;
        pieces[count++] = piece;
        piece.from += (int64_t)piece.extent * axis->from;
        piece.to += (int64_t)piece.extent * axis->to;
    }
    return count;
}

/* Slabs of the dimension that moves the destination on furthest. */
static Division divide(const Conversion *conversion, const Boxes *boxes) {
    Division division = {0, conversion->shape[0]};
    uint64_t furthest = 0;
    for (uint32_t k = 0; k < conversion->rank; k++) {
        const BoxAxis *axis = &boxes->axes[boxes->first_axis[k]];
        if (boxes->first_axis[k] == boxes->first_axis[k + 1]) continue;
        uint64_t step = magnitude_i64(axis->to);
        if (step > furthest) {
            furthest = step;
            division = (Division){k, axis->weight};
        }
    }
    return division;
}

/* The axis along which elements are closest on one side; strides of 0 do not count. */
static uint32_t closest_axis(const Boxes *boxes, uint32_t count, bool is_source) {
    uint64_t least = UINT64_MAX;
    uint32_t closest = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t step = magnitude_i64(is_source ? boxes->axes[i].from : boxes->axes[i].to);
        if (step != 0 && step < least) {
            least = step;
            closest = i;
        }
    }
    return closest;
}

/* Tiles that are turned round on the way: their planes are small and lie apart, which blocks are better
 * at. Without tiles a box has large planes. */
static bool is_transposed(const Boxes *boxes, uint32_t rank) {
    uint32_t count = boxes->first_axis[rank];
    bool is_tiled = false;
    for (uint32_t k = 0; k < rank; k++) {
        if (boxes->first_axis[k + 1] - boxes->first_axis[k] > 1) is_tiled = true;
    }
    return is_tiled && closest_axis(boxes, count, true) != closest_axis(boxes, count, false);
}

bool hri_boxes_prepare(const Conversion *conversion, Boxes *out) {
    uint32_t used = 0;
    if (!conversion->from.has_digits || !conversion->to.has_digits ||
        conversion->packing.bits < 8) {
        return false;
    }
    out->count = 1;
    for (uint32_t k = 0; k < conversion->rank; k++) {
        Piece pieces[HURRAY_MAX_RANK];
        out->first_axis[k] = used;
        if (!add_axes(conversion, k, out, &used)) return false;
        uint32_t count = cut(out->axes, out->first_axis[k], used, 0, conversion->shape[k], pieces);
        if (count > 1) out->count *= count; /* at most the number of elements */
    }
    out->first_axis[conversion->rank] = used;
    out->division = divide(conversion, out);
    if (is_transposed(out, conversion->rank)) return false;
    return out->count <= FEW_BOXES || conversion->count / out->count >= BOX_ELEMENTS;
}

/* ---- copying ---- */

/* A box that is being put together, and its position on both sides. */
typedef struct Box {
    uint32_t rank;
    uint64_t shape[HURRAY_MAX_RANK];
    int64_t from_strides[HURRAY_MAX_RANK], to_strides[HURRAY_MAX_RANK];
    int64_t from, to;
} Box;

static void add_piece(Box *box, const BoxAxis *axes, uint32_t end_axis, const Piece *piece) {
    box->from += piece->from;
    box->to += piece->to;
    for (uint32_t i = piece->axis; i < end_axis; i++) {
        box->shape[box->rank] = i == piece->axis ? piece->extent : axes[i].extent;
        box->from_strides[box->rank] = axes[i].from;
        box->to_strides[box->rank] = axes[i].to;
        box->rank++;
    }
}

static HurrayStatus copy_box(const Conversion *conversion, const Box *box) {
    int64_t size = (int64_t)conversion->packing.group_bytes;
    return hurray_copy_strided(box->rank, box->shape, conversion->packing.group_bytes,
                               conversion->source + box->from * size, box->from_strides,
                               conversion->destination + box->to * size, box->to_strides);
}

HurrayStatus hri_boxes_convert(const Conversion *conversion, const Boxes *boxes, Slab slab) {
    Piece pieces[HURRAY_MAX_RANK];
    uint32_t begin[HURRAY_MAX_RANK], end[HURRAY_MAX_RANK], at[HURRAY_MAX_RANK], used = 0;
    const uint32_t *first_axis = boxes->first_axis;
    for (uint32_t k = 0; k < conversion->rank; k++) {
        bool is_cut = k == slab.dimension;
        begin[k] = at[k] = used;
        used += cut(boxes->axes, first_axis[k], first_axis[k + 1], is_cut ? slab.first : 0,
                    is_cut ? slab.end : conversion->shape[k], pieces + used);
        end[k] = used;
    }
    for (;;) {
        Box box = {.rank = 0};
        for (uint32_t k = 0; k < conversion->rank; k++) {
            if (at[k] < end[k]) add_piece(&box, boxes->axes, first_axis[k + 1], &pieces[at[k]]);
        }
        HurrayStatus status = copy_box(conversion, &box);
        if (status != HURRAY_OK) return status;
        uint32_t k = conversion->rank;
        for (; k > 0; k--) {
            if (at[k - 1] + 1 < end[k - 1]) {
                at[k - 1]++;
                break;
            }
            at[k - 1] = begin[k - 1];
        }
        if (k == 0) return HURRAY_OK;
    }
}
