/*
 * Conversions between dense layouts that the input chooses, shapes and types included.
 *
 * The result is what copying bit by bit gives, padding is zero, nothing outside the buffers is touched
 * (they have exactly the size required), and the way back gives the elements again.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <hurray/convert.h>

#include "../tests/c/convert_cases.h"
#include "fuzz.h"

enum {
    MOST_ELEMENTS = 5000,
    MOST_BYTES = 1 << 16
};

typedef struct Input {
    const uint8_t *data;
    size_t size;
} Input;

/* The next byte decides; zeros follow the end. */
static uint64_t choose(void *context, uint64_t bound) {
    Input *input = context;
    if (input->size == 0) return 0;
    input->size--;
    return *input->data++ % bound;
}

typedef struct Side {
    CaseLayout layout;
    HurrayDescriptorFields fields;
    uint64_t required;
    uint8_t *bytes;
} Side;

/* Buffer contents that depend on nothing but `seed`. */
static void fill(uint8_t *bytes, uint64_t size, uint32_t seed) {
    for (uint64_t i = 0; i < size; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(seed >> 24);
    }
}

/* False where the layout does not fit the shape, or takes too much memory. */
static bool make_side(const Choices *choices, const HurrayDescriptorFields *common, uint32_t seed,
                      Side *out) {
    make_layout(choices, (uint32_t)pick(choices, CASE_KINDS), common->shape, common->rank,
                &out->layout);
    out->fields = *common;
    out->fields.layout = out->layout.layout;
    out->fields.byte_offset = pick(choices, 32);
    while (hurray_descriptor_required_bytes(&out->fields, 0, &out->required, NULL) != HURRAY_OK) {
        out->fields.byte_offset = out->fields.byte_offset * 2 + 1;
        if (out->fields.byte_offset > MOST_BYTES) return false;
    }
    if (out->required > MOST_BYTES) return false;
    out->bytes = malloc((size_t)out->required);
    require(out->bytes != NULL);
    fill(out->bytes, out->required, seed);
    return true;
}

static uint8_t *copy_of(const uint8_t *bytes, uint64_t size) {
    uint8_t *copy = malloc((size_t)size);
    require(copy != NULL);
    memcpy(copy, bytes, (size_t)size);
    return copy;
}

static void check(const Side *from, const Side *to) {
    uint8_t *before = copy_of(to->bytes, to->required), *expected = copy_of(before, to->required);
    require(hurray_convert(&from->fields, from->bytes, from->required, &to->fields, to->bytes,
                           to->required) == HURRAY_OK);
    require(converted_as_expected(&from->fields, from->bytes, &to->fields, before, to->bytes,
                                  to->required, to->required, expected));
    free(expected);
    free(before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t types[] = {
        HURRAY_TYPE_BOOL,          HURRAY_TYPE_UINT2, HURRAY_TYPE_INT4,
        HURRAY_TYPE_FLOAT6_E2M3,   HURRAY_TYPE_UINT8, HURRAY_TYPE_FLOAT16,
        HURRAY_TYPE_FLOAT32,       HURRAY_TYPE_INT64, HURRAY_TYPE_FLOAT128,
        HURRAY_TYPE_PRIVATE_FIRST,
    };
    Input input = {data, size};
    const Choices choices = {choose, &input};
    uint64_t shape[CASE_RANK], count = 1;
    HurrayExtensionType extension = {.bit_width = 8, .packing_factor = 1};
    HurrayDescriptorFields common = {.buffer_count = 1, .shape = shape};
    common.type_tag = types[pick(&choices, sizeof types)];
    extension.bit_width *= 1 + (uint32_t)pick(&choices, 40);
    if (common.type_tag == HURRAY_TYPE_PRIVATE_FIRST) common.extension_type = &extension;
    common.rank = (uint32_t)pick(&choices, CASE_RANK + 1);
    bool is_cube = pick(&choices, 3) == 0;
    for (uint32_t k = 0; k < common.rank; k++) {
        shape[k] =
            is_cube ? UINT64_C(1) << (k == 0 ? 1 + pick(&choices, 5) : 1) : 1 + pick(&choices, 200);
        if (is_cube && k > 0) shape[k] = shape[0];
        count *= shape[k];
        if (count > MOST_ELEMENTS) return 0;
    }
    Side from = {.bytes = NULL}, to = {.bytes = NULL};
    if (make_side(&choices, &common, 1, &from) && make_side(&choices, &common, 2, &to)) {
        check(&from, &to);
        fill(from.bytes, from.required, 3);
        check(&to, &from);
    }
    free(from.bytes);
    free(to.bytes);
    return 0;
}
