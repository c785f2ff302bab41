/*
 * What holds for every descriptor, whatever its layout: shared by the tests of layouts. Bytes to
 * decode stand on mallocs of their exact length, so that the sanitizers see a read beyond them.
 */
#ifndef HURRAY_TESTS_ROUND_TRIP_H
#define HURRAY_TESTS_ROUND_TRIP_H

#include "expect.h"

#include <hurray/descriptor.h>

#include "bytes.h"

enum {
    ROOM = 8192 /* more than a descriptor here takes */
};

/* Where the layout fields begin, and where descriptor_length stands. */
static inline size_t layout_at(uint32_t rank) { return 28 + (size_t)rank * 8; }
enum {
    LENGTH_AT = 6
};

static inline size_t encode_valid(const HurrayDescriptorFields *fields, uint8_t bytes[ROOM]) {
    uintptr_t length = 0;
    expect_ok(hurray_descriptor_encode(fields, bytes, ROOM, &length));
    return length;
}

/* Reads a copy, which is gone when it returns. */
static inline HurrayStatus decode_copy(const uint8_t *bytes, size_t length,
                                       const HurrayDecodeOptions *options, HurrayDescriptor **out) {
    uint8_t *exact = malloc(length == 0 ? 1 : length);
    assert_non_null(exact);
    memcpy(exact, bytes, length);
    HurrayStatus status = hurray_descriptor_decode_with(exact, length, options, out);
    free(exact);
    return status;
}

static inline void expect_same(const HurrayDescriptorFields *a, const HurrayDescriptorFields *b) {
    uint8_t first[ROOM], second[ROOM];
    size_t length = encode_valid(a, first);
    assert_int_equal(encode_valid(b, second), length);
    assert_memory_equal(first, second, length);
    assert_true(hurray_descriptor_equal(a, b));
    assert_int_equal(hurray_descriptor_hash(a), hurray_descriptor_hash(b));
}

/* No byte can be missing, whether the descriptor says so or not. */
static inline void expect_whole(const HurrayDescriptorFields *fields,
                                const HurrayDecodeOptions *options) {
    uint8_t bytes[ROOM];
    size_t length = encode_valid(fields, bytes);
    HurrayDescriptor *out = NULL;
    for (size_t cut = 0; cut < length; cut++) {
        expect_any_failure(decode_copy(bytes, cut, options, &out));
    }
    /* What is carried unread may be of any length. */
    if (hurray_layout_tag_kind(fields->layout.tag) == HURRAY_LAYOUT_TAG_RESERVED) return;
    for (size_t cut = HURRAY_DESCRIPTOR_HEADER_SIZE; cut < length; cut++) {
        store_u32(bytes + LENGTH_AT, (uint32_t)cut);
        expect_any_failure(decode_copy(bytes, cut, options, &out));
    }
}

/* Through bytes and through a deep copy nothing is lost. */
static inline void expect_round_trip(const HurrayDescriptorFields *fields,
                                     const HurrayDecodeOptions *options) {
    uint8_t bytes[ROOM];
    size_t length = encode_valid(fields, bytes);
    HurrayDescriptor *read = NULL, *copy = NULL;
    expect_ok(decode_copy(bytes, length, options, &read));
    expect_same(fields, hurray_descriptor_fields(read));
    expect_ok(hurray_descriptor_create(hurray_descriptor_fields(read), &copy));
    hurray_descriptor_destroy(read);
    expect_same(fields, hurray_descriptor_fields(copy));
    hurray_descriptor_destroy(copy);
    expect_whole(fields, options);
}

/* Neither valid nor written, with a message that says `part`. */
static inline void expect_invalid_at(HurrayStatus status, const HurrayDescriptorFields *fields,
                                     const char *part, const char *file, int line) {
    uint8_t bytes[ROOM];
    uintptr_t length = 0;
    hri_fail(HURRAY_OK, STALE_MESSAGE);
    expect_status_at(hurray_descriptor_validate(fields), status, "validate", file, line);
    expect_message_at(part, file, line);
    hri_fail(HURRAY_OK, STALE_MESSAGE);
    expect_status_at(hurray_descriptor_encode(fields, bytes, ROOM, &length), status, "encode", file,
                     line);
}
#define expect_invalid(status, fields, part) \
    expect_invalid_at((status), (fields), (part), __FILE__, __LINE__)

/* These bytes are refused, with a message that says `part`. */
static inline void expect_unreadable_at(const uint8_t *bytes, size_t length,
                                        const HurrayDecodeOptions *options, const char *part,
                                        const char *file, int line) {
    HurrayDescriptor *out = NULL;
    hri_fail(HURRAY_OK, STALE_MESSAGE);
    expect_any_failure_at(decode_copy(bytes, length, options, &out), "decode", file, line);
    expect_message_at(part, file, line);
    if (out != NULL) fail_at(file, line);
}
#define expect_unreadable(bytes, length, options, part) \
    expect_unreadable_at((bytes), (length), (options), (part), __FILE__, __LINE__)

/* Every one of `count` reserved bytes at `at` must be 0. */
static inline void expect_reserved(const HurrayDescriptorFields *fields, size_t at, size_t count) {
    uint8_t bytes[ROOM];
    size_t length = encode_valid(fields, bytes);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(bytes[at + i], 0);
        bytes[at + i] = 0x40;
        expect_unreadable(bytes, length, NULL, "reserved");
        bytes[at + i] = 0;
    }
}

/* Each of the layout's buffers holds exactly what is required; with a byte less it is named. */
static inline void expect_tight(HurrayDescriptorFields *fields, HurrayBufferHandle *buffers,
                                uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const char *role = NULL;
        uint64_t size = 0;
        expect_ok(hurray_descriptor_required_bytes(fields, i, &size, &role));
        assert_int_equal(buffers[i].byte_size, size);
        if (size == 0) continue;
        buffers[i].byte_size--;
        expect_invalid(HURRAY_ERR_INVALID_LAYOUT, fields, role);
        buffers[i].byte_size++;
    }
}

#endif
