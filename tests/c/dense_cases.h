/* What every dense layout must satisfy, for the tests of each: its bytes, and its addresses. */
#ifndef HURRAY_TESTS_DENSE_CASES_H
#define HURRAY_TESTS_DENSE_CASES_H

#include "expect.h"

#include <hurray/address.h>
#include <hurray/descriptor.h>

/* A copy that ends where its block does, so that AddressSanitizer sees what is read past it. */
static inline uint8_t *exact_copy(const uint8_t *bytes, size_t length) {
    uint8_t *copy = malloc(length == 0 ? 1 : length);
    assert_non_null(copy);
    memcpy(copy, bytes, length);
    return copy;
}

static inline void expect_same_bytes(const HurrayDescriptorFields *fields, const uint8_t *bytes,
                                     size_t length) {
    uint8_t *again = malloc(length);
    uintptr_t written = 0;
    assert_non_null(again);
    expect_ok(hurray_descriptor_encode(fields, again, length, &written));
    assert_int_equal(written, length);
    assert_memory_equal(again, bytes, length);
    free(again);
}

/* Cut after any byte, whether descriptor_length knows of it or not, a descriptor is refused. */
static inline void expect_truncations_refused(const uint8_t *bytes, size_t length) {
    for (size_t cut = 0; cut < length; cut++) {
        HurrayDescriptor *descriptor = NULL;
        uint8_t *shorter = exact_copy(bytes, cut);
        expect_any_failure(hurray_descriptor_decode(shorter, cut, &descriptor));
        if (cut >= HURRAY_DESCRIPTOR_PREFIX_SIZE) {
            for (size_t i = 0; i < 4; i++) shorter[6 + i] = (uint8_t)(cut >> 8 * i);
            expect_any_failure(hurray_descriptor_decode(shorter, cut, &descriptor));
        }
        assert_null(descriptor);
        free(shorter);
    }
}

/* With any bit flipped it is refused, or means what its bytes say. */
static inline void expect_flips_survived(const uint8_t *bytes, size_t length) {
    enum {
        MINOR_VERSION = 5 /* a newer one is read, and written as ours */
    };
    uint8_t *flipped = exact_copy(bytes, length);
    for (size_t bit = 0; bit < length * 8; bit++) {
        HurrayDescriptor *descriptor = NULL;
        flipped[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (hurray_descriptor_decode(flipped, length, &descriptor) == HURRAY_OK) {
            const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
            if (bit / 8 != MINOR_VERSION) expect_same_bytes(fields, flipped, length);
            hurray_descriptor_destroy(descriptor);
        }
        flipped[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free(flipped);
}

/* Valid fields survive encoding and copying, and nothing that is not whole is taken for them. */
static inline void expect_wire_form(const HurrayDescriptorFields *fields) {
    uint64_t size = 0;
    uintptr_t length = 0;
    HurrayDescriptor *decoded = NULL, *copied = NULL;
    expect_ok(hurray_descriptor_encoded_size(fields, &size));
    uint8_t *bytes = malloc((size_t)size);
    assert_non_null(bytes);
    expect_ok(hurray_descriptor_encode(fields, bytes, (uintptr_t)size, &length));
    assert_int_equal(length, size);
    expect_ok(hurray_descriptor_decode(bytes, length, &decoded));
    expect_ok(hurray_descriptor_create(fields, &copied));
    const HurrayDescriptorFields *a = hurray_descriptor_fields(decoded);
    const HurrayDescriptorFields *b = hurray_descriptor_fields(copied);
    assert_true(hurray_descriptor_equal(fields, a) && hurray_descriptor_equal(a, b));
    assert_true(hurray_descriptor_hash(a) == hurray_descriptor_hash(b));
    expect_same_bytes(a, bytes, length);
    expect_same_bytes(b, bytes, length);
    expect_truncations_refused(bytes, length);
    expect_flips_survived(bytes, length);
    hurray_descriptor_destroy(copied);
    hurray_descriptor_destroy(decoded);
    free(bytes);
}

/* The next index in row-major order; false after the last. */
static inline bool next_index(const uint64_t *shape, uint32_t rank, uint64_t *index) {
    for (uint32_t k = rank; k > 0; k--) {
        if (++index[k - 1] < shape[k - 1]) return true;
        index[k - 1] = 0;
    }
    return false;
}

/*
 * Every offset from `low` to `high`, and some around them, is that of one element, which has that
 * offset, or of none; and all elements are among them.
 */
static inline void expect_bijection(const HurrayDescriptorFields *fields, int64_t low,
                                    int64_t high) {
    uint64_t index[HURRAY_MAX_RANK], found = 0, count = 0;
    expect_ok(hurray_shape_count(fields->shape, fields->rank, &count));
    for (int64_t offset = low - 3; offset <= high + 3; offset++) {
        int64_t back = 0;
        memset(index, 0x77, sizeof index);
        HurrayStatus status = hurray_address_index(fields, offset, index);
        if (status == HURRAY_OK) {
            expect_ok(hurray_address_offset(fields, index, &back));
            assert_int_equal(back, offset);
            assert_in_range((uintmax_t)(offset - low), 0, (uintmax_t)(high - low));
            found++;
        } else {
            assert_int_equal(status, HURRAY_ERR_INDEX_OUT_OF_BOUNDS);
            assert_true(index[0] == UINT64_C(0x7777777777777777));
        }
    }
    assert_int_equal(found, count);
}

/* What the one buffer of the fields has to hold. */
static inline uint64_t required_of(const HurrayDescriptorFields *fields) {
    uint64_t bytes = UINT64_MAX;
    const char *role = NULL;
    expect_ok(hurray_descriptor_required_bytes(fields, 0, &bytes, &role));
    assert_string_equal(role, "data");
    return bytes;
}

/* The buffer may be that large, and no smaller. */
static inline void expect_exact_size(HurrayDescriptorFields *fields, HurrayBufferHandle *buffer) {
    uint64_t required = required_of(fields);
    fields->buffers = buffer;
    fields->buffer_count = 1;
    *buffer = (HurrayBufferHandle){.byte_size = required, .alignment = 64};
    expect_ok(hurray_descriptor_validate(fields));
    if (required == 0) return;
    buffer->byte_size = required - 1;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_validate(fields));
    buffer->byte_size = required;
}

#endif
