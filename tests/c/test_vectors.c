/*
 * The golden vectors of an independent encoder (tests/vectors): each field of the valid ones, refusal
 * of the invalid ones by a message that names what is wrong, offsets of elements; and what becomes of a
 * valid one when a bit of it flips: decoded strictly and permissively, printed, verified.
 *
 * What is expected comes from the manifest by way of vectors_to_c.py, the bytes from the directory
 * that the environment variable HURRAY_VECTORS names.
 */
#include "expect.h"

#include <stdio.h>

#include <hurray/address.h>
#include <hurray/descriptor.h>
#include <hurray/print.h>
#include <hurray/verify.h>

typedef struct ValidVector {
    const char *file;
    HurrayDescriptorFields fields;
} ValidVector;

typedef struct InvalidVector {
    const char *file;
    const char *because;
    const char *named;   /* what the message has to name */
    HurrayStatus status; /* 0: any error that has no code of its own */
} InvalidVector;

typedef struct AddressingVector {
    const char *file;
    uint32_t rank;
    size_t count;
    const uint64_t *indices; /* u64[count][rank] */
    const int64_t *offsets;  /* i64[count] */
} AddressingVector;

#include "vectors_table.h"

#define VALID_COUNT (sizeof valid_vectors / sizeof valid_vectors[0])
#define INVALID_COUNT (sizeof invalid_vectors / sizeof invalid_vectors[0])
#define ADDRESSING_COUNT (sizeof addressing_vectors / sizeof addressing_vectors[0])

/* The bytes of a vector, in a malloc of exactly their number. */
static uint8_t *read_vector(const char *file, size_t *length) {
    const char *directory = getenv("HURRAY_VECTORS");
    if (directory == NULL) fail_msg("HURRAY_VECTORS does not say where the vectors are");
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", directory, file);
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) fail_msg("cannot read %s", path);
    uint8_t buffer[1 << 16];
    *length = fread(buffer, 1, sizeof buffer, stream);
    assert_true(feof(stream) && !ferror(stream));
    fclose(stream);
    uint8_t *bytes = malloc(*length == 0 ? 1 : *length);
    memcpy(bytes, buffer, *length);
    return bytes;
}

static HurrayDescriptor *expect_decoded(const uint8_t *bytes, size_t length) {
    HurrayDescriptor *descriptor = NULL;
    expect_ok(hurray_descriptor_decode(bytes, length, &descriptor));
    return descriptor;
}

static uint8_t *expect_encoded(const HurrayDescriptorFields *fields, size_t *length) {
    uint64_t size = 0;
    uintptr_t written = 0;
    expect_ok(hurray_descriptor_encoded_size(fields, &size));
    uint8_t *bytes = malloc((size_t)size);
    expect_ok(hurray_descriptor_encode(fields, bytes, (uintptr_t)size, &written));
    assert_true(written == size);
    *length = written;
    return bytes;
}

/* ---- valid ---- */

static void compare_quantization(const HurrayQuantization *found,
                                 const HurrayQuantization *expected) {
    assert_int_equal(found->scheme, expected->scheme);
    assert_memory_equal(&found->scale, &expected->scale, sizeof expected->scale);
    assert_int_equal(found->zero_point, expected->zero_point);
    assert_int_equal(found->axis, expected->axis);
    assert_int_equal(found->block_size, expected->block_size);
    assert_int_equal(found->scale_buffer, expected->scale_buffer);
    if (expected->scheme == HURRAY_SCHEME_PER_CHANNEL ||
        expected->scheme == HURRAY_SCHEME_PER_BLOCK) {
        assert_int_equal(found->zero_point_buffer, expected->zero_point_buffer);
        assert_int_equal(found->scale_type, expected->scale_type);
    }
    assert_int_equal(found->trailing_size, 0);
}

static void compare_double(double found, double expected) {
    assert_memory_equal(&found, &expected, sizeof expected);
}

/* Claimed fields only: the others are unknown, whatever the bytes say. */
static void compare_statistics(const HurrayStatistics *found, const HurrayStatistics *expected) {
    uint32_t mask = expected->computed_mask;
    assert_int_equal(found->computed_mask, mask);
    if ((mask & HURRAY_STATISTICS_NNZ) != 0) assert_true(found->nnz == expected->nnz);
    if ((mask & HURRAY_STATISTICS_SPARSITY) != 0) {
        compare_double(found->sparsity_ratio, expected->sparsity_ratio);
    }
    if ((mask & HURRAY_STATISTICS_RANGE) != 0) {
        compare_double(found->value_min, expected->value_min);
        compare_double(found->value_max, expected->value_max);
        compare_double(found->value_abs_max, expected->value_abs_max);
    }
    if ((mask & HURRAY_STATISTICS_MOMENTS) != 0) {
        compare_double(found->value_mean, expected->value_mean);
        compare_double(found->value_stddev, expected->value_stddev);
    }
    if ((mask & HURRAY_STATISTICS_NM) != 0) {
        assert_int_equal(found->nm_n, expected->nm_n);
        assert_int_equal(found->nm_m, expected->nm_m);
    }
    if ((mask & HURRAY_STATISTICS_SPECIALS) != 0) {
        assert_int_equal(found->has_nan, expected->has_nan);
        assert_int_equal(found->has_inf, expected->has_inf);
    }
}

static void compare_extension(const HurrayExtensionType *found,
                              const HurrayExtensionType *expected) {
    assert_int_equal(found->bit_width, expected->bit_width);
    assert_int_equal(found->packing_factor, expected->packing_factor);
    assert_int_equal(found->is_float, expected->is_float);
    assert_int_equal(found->is_signed, expected->is_signed);
    assert_int_equal(found->sign_bits, expected->sign_bits);
    assert_int_equal(found->exponent_bits, expected->exponent_bits);
    assert_int_equal(found->mantissa_bits, expected->mantissa_bits);
    assert_int_equal(found->exponent_bias, expected->exponent_bias);
    assert_int_equal(found->has_nan, expected->has_nan);
    assert_int_equal(found->has_inf, expected->has_inf);
}

static void compare_fields(const HurrayDescriptorFields *found,
                           const HurrayDescriptorFields *expected) {
    size_t rank_bytes = expected->rank * sizeof(uint64_t);
    assert_int_equal(found->type_tag, expected->type_tag);
    assert_int_equal(found->rank, expected->rank);
    if (rank_bytes != 0) assert_memory_equal(found->shape, expected->shape, rank_bytes);
    assert_true(found->byte_offset == expected->byte_offset);
    assert_int_equal(found->layout.tag, expected->layout.tag);
    if (expected->layout.tag == HURRAY_LAYOUT_STRIDED) {
        assert_memory_equal(found->layout.strides, expected->layout.strides, rank_bytes);
    }
    assert_int_equal(found->buffer_count, expected->buffer_count);
    for (uint32_t i = 0; i < expected->buffer_count; i++) {
        const HurrayBufferHandle *a = &found->buffers[i], *b = &expected->buffers[i];
        assert_true(a->byte_size == b->byte_size);
        assert_int_equal(a->alignment, b->alignment);
        assert_int_equal(a->device_tag, b->device_tag);
        assert_int_equal(a->sync_mode, b->sync_mode);
        assert_int_equal(a->memory_class, b->memory_class);
    }
    assert_int_equal(found->quantization != NULL, expected->quantization != NULL);
    assert_int_equal(found->shard != NULL, expected->shard != NULL);
    assert_int_equal(found->statistics != NULL, expected->statistics != NULL);
    assert_int_equal(found->extension_type != NULL, expected->extension_type != NULL);
    assert_int_equal(found->member != NULL, expected->member != NULL);
    if (expected->quantization != NULL) {
        compare_quantization(found->quantization, expected->quantization);
    }
    if (expected->shard != NULL) {
        assert_memory_equal(found->shard->parent_shape, expected->shard->parent_shape, rank_bytes);
        assert_memory_equal(found->shard->shard_offset, expected->shard->shard_offset, rank_bytes);
    }
    if (expected->statistics != NULL) compare_statistics(found->statistics, expected->statistics);
    if (expected->extension_type != NULL) {
        compare_extension(found->extension_type, expected->extension_type);
    }
    if (expected->member != NULL) assert_int_equal(found->member->role, expected->member->role);
}

static void valid_vectors_decode_to_what_is_expected(void **state) {
    (void)state;
    assert_true(VALID_COUNT >= 106);
    for (size_t i = 0; i < VALID_COUNT; i++) {
        size_t length, again_length;
        uint8_t *bytes = read_vector(valid_vectors[i].file, &length);
        HurrayDescriptor *descriptor = expect_decoded(bytes, length);
        const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
        compare_fields(fields, &valid_vectors[i].fields);
        uint8_t *again = expect_encoded(fields, &again_length);
        assert_int_equal(again_length, length);
        assert_memory_equal(again, bytes, length);
        free(again);
        free(bytes);
        expect_ok(hurray_descriptor_destroy(descriptor));
    }
}

/* From the expected fields to the bytes, without the bytes. (Statistics that an author would not
 * have claimed, and unclaimed bytes, are only kept, so those vectors are left out.) */
static void valid_vectors_can_be_written_from_their_fields(void **state) {
    (void)state;
    for (size_t i = 0; i < VALID_COUNT; i++) {
        if (valid_vectors[i].fields.statistics != NULL) continue;
        size_t length, written;
        uint8_t *bytes = read_vector(valid_vectors[i].file, &length);
        uint8_t *made = expect_encoded(&valid_vectors[i].fields, &written);
        if (written != length || memcmp(made, bytes, length) != 0) {
            fail_msg("%s is not what its fields encode to", valid_vectors[i].file);
        }
        free(made);
        free(bytes);
    }
}

/* Cut at any length, the bytes are refused. */
static void truncated_vectors_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < VALID_COUNT; i++) {
        size_t length;
        uint8_t *bytes = read_vector(valid_vectors[i].file, &length);
        for (size_t kept = 0; kept < length; kept++) {
            uint8_t *cut = malloc(kept == 0 ? 1 : kept);
            memcpy(cut, bytes, kept);
            HurrayDescriptor *out = NULL;
            expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_descriptor_decode(cut, kept, &out));
            for (size_t k = 0; kept >= 10 && k < 4; k++) cut[6 + k] = (uint8_t)(kept >> 8 * k);
            expect_any_failure(hurray_descriptor_decode(cut, kept, &out));
            assert_null(out);
            free(cut);
        }
        free(bytes);
    }
}

/* ---- with a bit flipped ---- */

static const HurrayDecodeOptions permissive = {.permissive = true};

/* Bytes that a buffer may have, and then exactly so many are there to be read. */
#define SMALL_BUFFER 4096u

/* What the buffers hold is for verification to say; it neither reads past them nor writes. */
static void verify_small_buffers(const HurrayDescriptorFields *fields, uint8_t filling) {
    HurrayBytes buffers[HURRAY_MAX_BUFFERS];
    uint8_t *blocks[HURRAY_MAX_BUFFERS] = {NULL};
    uint32_t count = 0;
    while (count < fields->buffer_count && fields->buffers[count].byte_size <= SMALL_BUFFER) {
        size_t size = (size_t)fields->buffers[count].byte_size;
        blocks[count] = malloc(size == 0 ? 1 : size);
        memset(blocks[count], filling, size);
        buffers[count] = (HurrayBytes){blocks[count], size};
        count++;
    }
    if (count == fields->buffer_count) {
        HurrayViolation violation, untouched;
        memset(&violation, 0xA5, sizeof violation);
        untouched = violation;
        hri_fail(HURRAY_OK, STALE_MESSAGE);
        HurrayStatus status = hurray_verify(fields, buffers, count, &violation);
        if (status != HURRAY_OK) expect_any_failure_at(status, "verify", __FILE__, __LINE__);
        if (status == HURRAY_ERR_DATA_INVALID) {
            assert_non_null(hurray_violation_name(violation.kind));
            assert_int_not_equal(violation.kind, HURRAY_VIOLATION_NONE);
            assert_true(violation.buffer < count || violation.buffer == HURRAY_NO_BUFFER);
        } else {
            assert_memory_equal(&violation, &untouched, sizeof violation);
            /* The rest is right, or nobody knows it. */
            assert_true(status == HURRAY_OK || status == HURRAY_ERR_UNSUPPORTED);
        }
    }
    for (uint32_t i = 0; i < count; i++) free(blocks[i]);
}

static bool count_line(const char *text, size_t length, void *context) {
    assert_true(length > 0 && text[length - 1] == '\n');
    ++*(size_t *)context;
    return true;
}

/* The table ends with what decoding says. */
static void expect_printed(const uint8_t *bytes, size_t length, const HurrayDecodeOptions *options,
                           HurrayStatus verdict) {
    HurrayPrintOptions print = {.decode = *options};
    HurrayStatus said = 1;
    size_t lines = 0;
    expect_ok(hurray_descriptor_print(bytes, length, &print, count_line, &lines, &said));
    assert_int_equal(said, verdict);
    assert_true(lines > 1);
}

/* What is accepted after a flip is a descriptor of its own: it encodes to what decodes equal. */
static HurrayStatus check_flipped(const uint8_t *bytes, size_t length,
                                  const HurrayDecodeOptions *options, uint8_t filling) {
    HurrayDescriptor *descriptor = NULL, *back = NULL;
    hri_fail(HURRAY_OK, STALE_MESSAGE);
    HurrayStatus status = hurray_descriptor_decode_with(bytes, length, options, &descriptor);
    expect_printed(bytes, length, options, status);
    if (status != HURRAY_OK) {
        assert_null(descriptor);
        expect_any_failure_at(status, "decode", __FILE__, __LINE__);
        return status;
    }
    const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
    size_t again_length;
    uint8_t *again = expect_encoded(fields, &again_length);
    expect_ok(hurray_descriptor_decode_with(again, again_length, options, &back));
    assert_true(hurray_descriptor_equal(fields, hurray_descriptor_fields(back)));
    if (bytes[5] == 0) { /* of a later minor version, parts may have been skipped */
        assert_int_equal(again_length, length);
        assert_memory_equal(again, bytes, length);
    }
    verify_small_buffers(fields, filling);
    expect_ok(hurray_descriptor_destroy(back));
    expect_ok(hurray_descriptor_destroy(descriptor));
    free(again);
    return status;
}

static void flipped_bits_are_refused_or_mean_something(void **state) {
    static const HurrayDecodeOptions strict = {.permissive = false};
    static const uint8_t fillings[] = {0, 1, 0xFF};
    size_t accepted = 0, only_permitted = 0;
    (void)state;
    for (size_t i = 0; i < VALID_COUNT; i++) {
        size_t length;
        uint8_t *bytes = read_vector(valid_vectors[i].file, &length);
        for (size_t bit = 0; bit < length * 8; bit++) {
            uint8_t filling = fillings[bit % 3];
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            bool is_strict = check_flipped(bytes, length, &strict, filling) == HURRAY_OK;
            bool is_permitted = check_flipped(bytes, length, &permissive, filling) == HURRAY_OK;
            assert_true(is_permitted || !is_strict);
            accepted += is_strict;
            only_permitted += is_permitted && !is_strict;
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        free(bytes);
    }
    assert_true(accepted > 10000 && only_permitted > 500); /* neither reader is idle */
}

/* ---- invalid ---- */

static bool has_code_of_its_own(HurrayStatus status) {
    return status == HURRAY_ERR_INVALID_MAGIC || status == HURRAY_ERR_VERSION_MISMATCH ||
           status == HURRAY_ERR_INVALID_TYPE || status == HURRAY_ERR_NULL_POINTER ||
           status == HURRAY_ERR_INVALID_SYNC_MODE || status == HURRAY_ERR_SYNC_MODE_MISMATCH ||
           status == HURRAY_ERR_INDEX_OUT_OF_BOUNDS || status == HURRAY_ERR_UNSUPPORTED;
}

static void invalid_vectors_are_refused(void **state) {
    (void)state;
    assert_true(INVALID_COUNT >= 169);
    for (size_t i = 0; i < INVALID_COUNT; i++) {
        const InvalidVector *vector = &invalid_vectors[i];
        size_t length;
        uint8_t *bytes = read_vector(vector->file, &length);
        HurrayDescriptor *descriptor = NULL;
        hri_fail(HURRAY_OK, STALE_MESSAGE);
        HurrayStatus status = hurray_descriptor_decode(bytes, length, &descriptor);
        expect_any_failure_at(status, vector->file, __FILE__, __LINE__);
        assert_null(descriptor);
        if (vector->status != 0 ? status != vector->status : has_code_of_its_own(status)) {
            fail_msg("%s (%s) gave %s: %s", vector->file, vector->because,
                     hurray_status_name(status), hurray_error_message());
        }
        if (strstr(hurray_error_message(), vector->named) == NULL) {
            fail_msg("%s (%s): \"%s\" does not name \"%s\"", vector->file, vector->because,
                     hurray_error_message(), vector->named);
        }
        free(bytes);
    }
}

/* ---- addressing ---- */

static void elements_are_where_the_tables_say(void **state) {
    (void)state;
    assert_true(ADDRESSING_COUNT >= 13);
    for (size_t i = 0; i < ADDRESSING_COUNT; i++) {
        const AddressingVector *vector = &addressing_vectors[i];
        size_t length;
        uint8_t *bytes = read_vector(vector->file, &length);
        HurrayDescriptor *descriptor = expect_decoded(bytes, length);
        const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
        assert_int_equal(fields->rank, vector->rank);
        for (size_t k = 0; k < vector->count; k++) {
            int64_t offset = INT64_MIN;
            expect_ok(hurray_address_offset(fields, vector->indices + k * vector->rank, &offset));
            assert_true(offset == vector->offsets[k]);
        }
        expect_ok(hurray_descriptor_destroy(descriptor));
        free(bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_vectors_decode_to_what_is_expected),
        cmocka_unit_test(valid_vectors_can_be_written_from_their_fields),
        cmocka_unit_test(truncated_vectors_are_refused),
        cmocka_unit_test(flipped_bits_are_refused_or_mean_something),
        cmocka_unit_test(invalid_vectors_are_refused),
        cmocka_unit_test(elements_are_where_the_tables_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
