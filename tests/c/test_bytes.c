/*
 * Little-endian cursor and writer (src/bytes.h). Readers stand on mallocs of the exact size, so that
 * the sanitizers see a byte read beyond them.
 */
#include "expect.h"

#include <math.h>

#include "bytes.h"

static const uint8_t ascending[8] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF};

static void lowest_byte_first_at_any_address(void **state) {
    (void)state;
    for (size_t shift = 0; shift < 8; shift++) {
        uint8_t place[16];
        memcpy(place + shift, ascending, 8);
        assert_int_equal(load_u16(place + shift), 0x2301);
        assert_int_equal(load_u32(place + shift), 0x67452301);
        assert_true(load_u64(place + shift) == UINT64_C(0xEFCDAB8967452301));
        memset(place, 0, sizeof place);
        store_u32(place + shift, 0x67452301);
        assert_memory_equal(place + shift, ascending, 4);
        store_u64(place + shift, UINT64_C(0xEFCDAB8967452301));
        assert_memory_equal(place + shift, ascending, 8);
    }
}

/* A value of each kind, read by the function of its width. */
static uint64_t read_kind(ByteReader *reader, int kind) {
    uint64_t bits = 0;
    int32_t i32;
    float f32;
    double f64;
    switch (kind) {
    case 0: return read_u8(reader);
    case 1: return read_u16(reader);
    case 2: return read_u32(reader);
    case 3: return read_u64(reader);
    case 4: i32 = read_i32(reader); return (uint32_t)i32;
    case 5:
        read_f32(reader, &f32);
        uint32_t f32_bits;
        memcpy(&f32_bits, &f32, 4);
        return f32_bits;
    case 6:
        read_f64(reader, &f64);
        memcpy(&bits, &f64, 8);
        return bits;
    default: fail(); return 0;
    }
}
static const size_t widths[] = {1, 2, 4, 8, 4, 4, 8};
#define KIND_COUNT 7

static void every_kind_at_every_length(void **state) {
    (void)state;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        for (size_t length = 0; length <= 8; length++) {
            uint8_t *exact = malloc(length == 0 ? 1 : length);
            memcpy(exact, ascending, length);
            ByteReader reader = {exact, length, 0, false};
            uint64_t value = read_kind(&reader, kind), expected = 0;
            if (length >= widths[kind]) {
                for (size_t i = widths[kind]; i-- > 0;) expected = expected << 8 | ascending[i];
                assert_false(reader.failed);
                assert_int_equal(reader.position, widths[kind]);
            } else { /* nothing is given, and nothing is left to give */
                assert_true(reader.failed);
                assert_int_equal(reader_left(&reader), 0);
                assert_int_equal(read_kind(&reader, kind), 0);
            }
            assert_true(value == expected);
            free(exact);
        }
    }
}

static void pieces_in_place(void **state) {
    (void)state;
    ByteReader reader = {ascending, 8, 0, false};
    assert_ptr_equal(read_bytes(&reader, 3), ascending);
    assert_ptr_equal(read_bytes(&reader, 0), ascending + 3);
    assert_int_equal(reader_left(&reader), 5);
    assert_ptr_equal(read_bytes(&reader, 5), ascending + 3);
    assert_ptr_equal(read_bytes(&reader, 0), ascending + 8);
    assert_false(reader.failed);
    assert_null(read_bytes(&reader, 1));
    assert_true(reader.failed);
    ByteReader again = {ascending, 8, 4, false};
    assert_null(read_bytes(&again, SIZE_MAX)); /* position + count would wrap */
    assert_true(again.failed);
}

static void zeros_are_told_from_others(void **state) {
    (void)state;
    for (size_t at = 0; at < 6; at++) {
        uint8_t *exact = calloc(5, 1);
        if (at < 5) exact[at] = 0x40;
        ByteReader reader = {exact, 5, 0, false};
        assert_int_equal(read_zeros(&reader, 5), at == 5);
        assert_int_equal(reader.position, 5);
        ByteReader beyond = {exact, 5, 0, false};
        assert_false(read_zeros(&beyond, 6));
        assert_true(beyond.failed);
        free(exact);
    }
}

/* As a double, whatever precision constants have. */
static const double large = 1e300;

static void write_all(ByteWriter *writer) {
    write_u8(writer, 0xFE);
    write_u16(writer, 0x1234);
    write_u32(writer, 0x89ABCDEF);
    write_u64(writer, UINT64_C(0x0123456789ABCDEF));
    write_f32(writer, &(float){-1.5f});
    write_f64(writer, &large);
    write_zeros(writer, 3);
    write_bytes(writer, "tail", 4);
    write_bytes(writer, NULL, 0);
}
#define ALL_SIZE (1 + 2 + 4 + 8 + 4 + 8 + 3 + 4)

static void what_is_written_is_read(void **state) {
    (void)state;
    uint8_t *exact = malloc(ALL_SIZE);
    ByteWriter writer = {exact, ALL_SIZE, 0, 0};
    write_all(&writer);
    assert_int_equal(writer.position, ALL_SIZE);
    ByteReader reader = {exact, ALL_SIZE, 0, false};
    assert_int_equal(read_u8(&reader), 0xFE);
    assert_int_equal(read_u16(&reader), 0x1234);
    assert_int_equal(read_u32(&reader), 0x89ABCDEF);
    assert_true(read_u64(&reader) == UINT64_C(0x0123456789ABCDEF));
    float f32;
    double f64;
    read_f32(&reader, &f32);
    read_f64(&reader, &f64);
    assert_true(f32 == -1.5f && f64 == large);
    assert_true(read_zeros(&reader, 3));
    assert_memory_equal(read_bytes(&reader, 4), "tail", 4);
    assert_false(reader.failed);
    assert_int_equal(reader_left(&reader), 0);
    free(exact);
}

/* Without a place it counts; with too small a one, it counts and stores only what fits. */
static void writing_counts_and_stays_inside(void **state) {
    (void)state;
    ByteWriter counter = {NULL, 0, 0, 0};
    write_all(&counter);
    assert_int_equal(counter.position, ALL_SIZE);
    uint8_t whole[ALL_SIZE];
    ByteWriter writer = {whole, ALL_SIZE, 0, 0};
    write_all(&writer);
    for (size_t capacity = 0; capacity < ALL_SIZE; capacity++) {
        uint8_t *exact = malloc(capacity == 0 ? 1 : capacity);
        memset(exact, 0xA5, capacity);
        ByteWriter cut = {exact, capacity, 0, 0};
        write_all(&cut);
        assert_int_equal(cut.position, ALL_SIZE);
        for (size_t i = 0; i < capacity; i++) assert_true(exact[i] == whole[i] || exact[i] == 0xA5);
        free(exact);
    }
}

/* NaN payloads and negative zero survive: floats are moved as bits. */
static void floats_keep_their_bits(void **state) {
    (void)state;
    static const uint64_t patterns[] = {
        UINT64_C(0x8000000000000000), UINT64_C(0x7FF8000000000001),
        UINT64_C(0xFFF8DEADBEEF1234), UINT64_C(0x7FF0000000000000),
        UINT64_C(0x0000000000000001), UINT64_C(0x7FF0000000000001), /* a signalling NaN */
    };
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        uint8_t bytes[8];
        ByteWriter writer = {bytes, 8, 0, 0};
        double value;
        memcpy(&value, &patterns[i], 8);
        write_f64(&writer, &value);
        assert_true(load_u64(bytes) == patterns[i]);
        ByteReader reader = {bytes, 8, 0, false};
        read_f64(&reader, &value);
        uint64_t back;
        memcpy(&back, &value, 8);
        assert_true(back == patterns[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lowest_byte_first_at_any_address),
        cmocka_unit_test(every_kind_at_every_length),
        cmocka_unit_test(pieces_in_place),
        cmocka_unit_test(zeros_are_told_from_others),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(writing_counts_and_stays_inside),
        cmocka_unit_test(floats_keep_their_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
