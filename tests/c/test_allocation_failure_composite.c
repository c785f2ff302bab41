/*
 * Every allocation in turn fails, in composites, partitions and capsules: the operation then says
 * HURRAY_ERR_OUT_OF_MEMORY, leaves its out-parameters alone, and leaves behind exactly the blocks
 * that were there before.
 */
#include "failing.h"

#include <hurray/capsule.h>
#include <hurray/composite.h>

/* ---- operations, which clean up after themselves when they succeed ---- */

static _Alignas(64) uint8_t host[4096];
static int released; /* buffers whose owner was told */

static void count_release(void *data, void *context) {
    (void)data, (void)context;
    released++;
}

/* A partition of 40 slices into a head, an empty one among them, as a writer checks it. */
#define SLICES 40
static const uint64_t head_shape[3] = {SLICES - 1, 2, 3};
static uint64_t slice_offsets[SLICES * 3], slice_shapes[SLICES * 3];

static void lay_out_slices(void) {
    for (uint64_t i = 0; i < SLICES; i++) {
        slice_offsets[3 * i] = i;
        slice_shapes[3 * i] = i < SLICES - 1;
        slice_shapes[3 * i + 1] = 2;
        slice_shapes[3 * i + 2] = 3;
    }
    slice_offsets[3 * (SLICES - 1)] = SLICES - 1;
}

static HurrayStatus push_slices(HurrayCompositeValidator *validator) {
    bool complete = false;
    HurrayDescriptorFields head = {
        .type_tag = HURRAY_TYPE_INT8,
        .rank = 3,
        .shape = head_shape,
        .layout = {HURRAY_LAYOUT_COMPOSITE, {.composite = {HURRAY_RULE_PARTITION, 0, SLICES}}},
    };
    HurrayStatus status = hurray_composite_validator_push(validator, &head, &complete);
    for (size_t i = 0; status == HURRAY_OK && i < SLICES; i++) {
        HurrayShard shard = {head_shape, slice_offsets + 3 * i};
        HurrayBufferHandle handle = {.byte_size = 64, .alignment = 64};
        HurrayDescriptorFields member = {
            .type_tag = HURRAY_TYPE_INT8,
            .rank = 3,
            .shape = slice_shapes + 3 * i,
            .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
            .buffer_count = 1,
            .buffers = &handle,
            .shard = &shard,
        };
        status = hurray_composite_validator_push(validator, &member, &complete);
    }
    if (status == HURRAY_OK) assert_true(complete);
    return status;
}

static HurrayStatus validate_composite(void) {
    const HurrayCompositeOptions options = {HURRAY_MAX_COMPOSITE_DEPTH, true};
    HurrayCompositeValidator *validator = NULL;
    HurrayStatus status = hurray_composite_validator_create(&options, &validator);
    if (status != HURRAY_OK) {
        assert_null(validator);
        return status;
    }
    status = push_slices(validator);
    /* After a failure it is as good as new once it is reset. */
    int failed = failing;
    failing = -1;
    assert_int_equal(hurray_composite_validator_reset(validator), HURRAY_OK);
    assert_int_equal(push_slices(validator), HURRAY_OK);
    assert_int_equal(hurray_composite_validator_destroy(&validator), HURRAY_OK);
    failing = failed;
    return status;
}

static HurrayStatus check_partition(void) {
    const HurrayBoxes boxes = {3, SLICES, slice_offsets, slice_shapes};
    return hurray_partition_check(&boxes, head_shape);
}

/* The fault is found, unless memory for saying it is missing. */
static HurrayStatus check_broken_partition(void) {
    const HurrayBoxes boxes = {3, SLICES, slice_offsets, slice_shapes};
    slice_shapes[3 * 7 + 2]--;
    HurrayStatus status = hurray_partition_check(&boxes, head_shape);
    slice_shapes[3 * 7 + 2]++;
    return status == HURRAY_ERR_INTERNAL ? HURRAY_OK : status;
}

static HurrayStatus index_partition(void) {
    const HurrayBoxes boxes = {3, SLICES, slice_offsets, slice_shapes};
    HurrayPartitionIndex *index = NULL;
    HurrayStatus status = hurray_partition_index_create(&boxes, &index);
    if (status != HURRAY_OK) {
        assert_null(index);
    } else {
        assert_int_equal(hurray_partition_index_destroy(&index), HURRAY_OK);
    }
    return status;
}

static HurrayStatus fill_list(void) {
    HurrayBufferList *list = NULL;
    HurrayStatus status = hurray_buffer_list_new(2, &list);
    if (status != HURRAY_OK) {
        assert_null(list);
        return status;
    }
    for (int i = 0; status == HURRAY_OK && i < 20; i++) {
        const HurrayBufferInfo info = {.data = host, .byte_size = 64, .alignment = 64};
        HurrayBuffer *buffer = NULL;
        status = hurray_buffer_create(&info, count_release, NULL, &buffer);
        if (status != HURRAY_OK) break;
        status = hurray_buffer_list_push(list, buffer);
        if (status != HURRAY_OK) assert_int_equal(hurray_buffer_destroy(buffer), HURRAY_OK);
    }
    assert_int_equal(hurray_buffer_list_destroy(&list), HURRAY_OK);
    return status;
}

static HurrayTensor *tensor; /* what is exported */

static HurrayStatus cross_over(void) {
    HurrayBufferList *list = NULL;
    HurrayTensorContext *context = NULL;
    HurrayTensor *imported = NULL;
    const HurrayDecodeOptions permissive = {.permissive = true};
    HurrayStatus status = hurray_tensor_export(tensor, &list, &context);
    if (status != HURRAY_OK) {
        assert_true(list == NULL && context == NULL);
        return status;
    }
    status = hurray_tensor_import((HurrayBufferListHead *)list, (HurrayTensorContextHead *)context,
                                  &permissive, &imported);
    if (status == HURRAY_OK) {
        hurray_tensor_release(imported);
    } else {
        assert_null(imported);
        assert_int_equal(hurray_tensor_context_destroy(&context), HURRAY_OK);
        assert_int_equal(hurray_buffer_list_destroy(&list), HURRAY_OK);
    }
    return status;
}

/* What crosses over: at the greatest rank the descriptor does not fit on the stack. */
static const uint64_t sides[2] = {4, 4};
static const uint64_t tile[2] = {2, 2};
static const HurrayTileLevel level = {tile, HURRAY_LAYOUT_ROW_MAJOR, HURRAY_LAYOUT_COL_MAJOR, NULL,
                                      NULL};
static const uint32_t modes[3] = {2, 1, 0};
static const uint8_t unknown[5] = {5, 4, 3, 2, 1};
static const struct {
    HurrayLayout layout;
    uint32_t rank, buffer_count;
} travellers[] = {
    {{HURRAY_LAYOUT_ROW_MAJOR, {NULL}}, 1, 1},
    {{HURRAY_LAYOUT_ROW_MAJOR, {NULL}}, HURRAY_MAX_RANK, 1},
    {{HURRAY_LAYOUT_TILED, {.tiled = {1, &level}}}, 2, 1},
    {{HURRAY_LAYOUT_CSR, {.sparse = {.nnz = 1}}}, 2, 3},
    {{HURRAY_LAYOUT_CSF, {.sparse = {.nnz = 1, .mode_order = modes}}}, 3, 7},
    {{0xF1, {.extension = {3, unknown, sizeof unknown}}}, 2, 2},
};
#define TRAVELLERS (sizeof travellers / sizeof travellers[0])

static void make_tensor(size_t traveller) {
    static uint64_t ones[HURRAY_MAX_RANK];
    uint32_t rank = travellers[traveller].rank;
    HurrayBuffer *buffers[7] = {NULL};
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_INT8,
        .rank = rank,
        .shape = travellers[traveller].layout.tag == HURRAY_LAYOUT_TILED ? sides : ones,
        .layout = travellers[traveller].layout,
        .buffer_count = travellers[traveller].buffer_count,
        .permissive = true,
    };
    for (uint32_t k = 0; k < rank; k++) ones[k] = 1;
    for (uint32_t i = 0; i < fields.buffer_count; i++) {
        const HurrayBufferInfo info = {.data = host, .byte_size = 64, .alignment = 64};
        expect_ok(hurray_buffer_create(&info, count_release, NULL, &buffers[i]));
    }
    expect_ok(hurray_tensor_create(&fields, buffers, &tensor));
}

/* ---- in turn ---- */

static void each_allocation_fails(const char *name, HurrayStatus (*operation)(void), int least) {
    int before = blocks, before_released = released;
    calls = 0;
    failing = -1;
    expect_ok(operation());
    int needed = calls, told = released - before_released;
    assert_true(needed >= least);
    assert_int_equal(blocks, before);
    for (int which = 0; which < needed; which++) {
        hri_fail(HURRAY_OK, STALE_MESSAGE);
        calls = 0;
        failing = which;
        before_released = released;
        HurrayStatus status = operation();
        int made = calls;
        failing = -1;
        if (blocks != before || made <= which || released - before_released > told) {
            fail_msg("%s: allocation %d fails: %d blocks left, %d of %d owners told", name, which,
                     blocks - before, released - before_released, told);
        }
        expect_status_at(status, HURRAY_ERR_OUT_OF_MEMORY, name, __FILE__, __LINE__);
    }
}

static void composites(void **state) {
    (void)state;
    lay_out_slices();
    each_allocation_fails("partition check", check_partition, 2);
    each_allocation_fails("broken partition", check_broken_partition, 3);
    each_allocation_fails("partition index", index_partition, 6);
}

/* The second push in the operation is not part of what may fail. */
static void validators(void **state) {
    (void)state;
    lay_out_slices();
    int before = blocks;
    HurrayStatus status = HURRAY_ERR_OUT_OF_MEMORY;
    for (int which = 0; status != HURRAY_OK; which++) {
        calls = 0;
        failing = which;
        status = validate_composite();
        failing = -1;
        assert_int_equal(blocks, before);
        assert_true(which < 100);
        if (status != HURRAY_OK) assert_int_equal(status, HURRAY_ERR_OUT_OF_MEMORY);
        if (status == HURRAY_OK) assert_true(which > 8);
    }
}

static void capsules(void **state) {
    (void)state;
    each_allocation_fails("list", fill_list, 25);
    for (size_t i = 0; i < TRAVELLERS; i++) {
        make_tensor(i);
        int before = released;
        each_allocation_fails("crossing", cross_over, 3);
        assert_int_equal(released, before);
        hurray_tensor_release(tensor);
        assert_int_equal(released, before + (int)travellers[i].buffer_count);
    }
    assert_int_equal(blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(composites),
        cmocka_unit_test(validators),
        cmocka_unit_test(capsules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
