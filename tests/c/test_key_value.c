/* Metadata (src/key_value.c): what goes in comes out, byte for byte; what breaks a rule is refused. */
#include "expect.h"

#include <hurray/key_value.h>

#include "bytes.h"
#include "random.h"
#include "utf8.h"

#define TEXT(literal) \
    (HurrayText) { literal, (uint32_t)(sizeof literal - 1) }

static void add(HurrayKeyValues *list, const char *key, uint8_t tag, HurrayScalar value) {
    const HurrayKeyValue entry = {
        .key = {key, (uint32_t)strlen(key)}, .tag = tag, .count = 1, .values = &value};
    expect_ok(hurray_key_values_add(list, &entry));
}

/* An entry of each type, arrays and the empty one among them. */
static HurrayKeyValues *everything(void) {
    HurrayKeyValues *list = NULL;
    expect_ok(hurray_key_values_create(&list));
    add(list, "string", HURRAY_VALUE_STRING, (HurrayScalar){.text = TEXT("\xC3\xBC")});
    add(list, "int", HURRAY_VALUE_INT64, (HurrayScalar){.int64 = -5});
    add(list, "uint", HURRAY_VALUE_UINT64, (HurrayScalar){.uint64 = UINT64_MAX});
    add(list, "float", HURRAY_VALUE_FLOAT64, (HurrayScalar){.float64 = 0.1});
    add(list, "bool", HURRAY_VALUE_BOOL, (HurrayScalar){.boolean = true});
    add(list, "bytes", HURRAY_VALUE_BYTES, (HurrayScalar){.text = TEXT("\xFF\0\x80")});
    add(list, "empty", HURRAY_VALUE_STRING, (HurrayScalar){.text = {NULL, 0}});
    const HurrayScalar words[3] = {{.text = TEXT("a")}, {.text = {NULL, 0}}, {.text = TEXT("bc")}};
    HurrayKeyValue entry = {TEXT("words"), HURRAY_VALUE_ARRAY, HURRAY_VALUE_STRING, 3, words};
    expect_ok(hurray_key_values_add(list, &entry));
    const HurrayScalar flags[2] = {{.boolean = false}, {.boolean = true}};
    entry = (HurrayKeyValue){TEXT("flags"), HURRAY_VALUE_ARRAY, HURRAY_VALUE_BOOL, 2, flags};
    expect_ok(hurray_key_values_add(list, &entry));
    entry = (HurrayKeyValue){TEXT("none"), HURRAY_VALUE_ARRAY, HURRAY_VALUE_STRING, 0, NULL};
    expect_ok(hurray_key_values_add(list, &entry));
    return list;
}

static uint8_t *encoded(const HurrayKeyValues *list, size_t *length) {
    uint64_t size = 0;
    expect_ok(hurray_key_values_encoded_size(list, &size));
    uint8_t *bytes = malloc((size_t)size);
    expect_ok(hurray_key_values_encode(list, bytes, (size_t)size, length));
    assert_true(*length == size);
    return bytes;
}

static void all_types(void **state) {
    (void)state;
    HurrayKeyValues *list = everything(), *again = NULL;
    size_t length, second;
    uint8_t *bytes = encoded(list, &length);
    expect_ok(hurray_key_values_decode(bytes, length, &again));
    uint8_t *twice = encoded(again, &second);
    assert_int_equal(second, length);
    assert_memory_equal(twice, bytes, length);

    assert_int_equal(hurray_key_values_count(again), 10);
    assert_null(hurray_key_values_at(again, 10));
    assert_null(hurray_key_values_find(again, "in", 2));
    assert_int_equal(hurray_key_values_find(again, "int", 3)->values->int64, -5);
    assert_true(hurray_key_values_find(again, "uint", 4)->values->uint64 == UINT64_MAX);
    assert_true(hurray_key_values_find(again, "float", 5)->values->float64 == 0.1);
    assert_true(hurray_key_values_find(again, "bool", 4)->values->boolean);
    const HurrayKeyValue *raw = hurray_key_values_find(again, "bytes", 5);
    assert_int_equal(raw->values->text.length, 3);
    assert_memory_equal(raw->values->text.data, "\xFF\0\x80", 3);
    const HurrayKeyValue *words = hurray_key_values_at(again, 7);
    assert_int_equal(words->count, 3);
    assert_memory_equal(words->values[2].text.data, "bc", 2);
    assert_int_equal(hurray_key_values_find(again, "none", 4)->count, 0);

    /* A decoded list goes on growing. */
    add(again, "more", HURRAY_VALUE_INT64, (HurrayScalar){.int64 = 1});
    assert_int_equal(hurray_key_values_at(again, 10)->values->int64, 1);
    free(twice);
    free(bytes);
    expect_ok(hurray_key_values_destroy(&again));
    expect_ok(hurray_key_values_destroy(&list));
    assert_null(list);
    expect_ok(hurray_key_values_destroy(&list));
    assert_int_equal(hurray_key_values_count(NULL), 0);
}

/* The wire format, spelled out once. */
static void known_bytes(void **state) {
    (void)state;
    HurrayKeyValues *list = NULL;
    expect_ok(hurray_key_values_create(&list));
    add(list, "k", HURRAY_VALUE_STRING, (HurrayScalar){.text = TEXT("v!")});
    const HurrayScalar flags[2] = {{.boolean = true}, {.boolean = false}};
    const HurrayKeyValue entry = {TEXT("f"), HURRAY_VALUE_ARRAY, HURRAY_VALUE_BOOL, 2, flags};
    expect_ok(hurray_key_values_add(list, &entry));
    const uint8_t expected[] = {2,   0, 0, 0,   1, 0, 'k', 1, 2, 0, 0, 0, 'v',
                                '!', 1, 0, 'f', 7, 5, 2,   0, 0, 0, 1, 0};
    size_t length;
    uint8_t *bytes = encoded(list, &length);
    assert_int_equal(length, sizeof expected);
    assert_memory_equal(bytes, expected, sizeof expected);
    uint8_t untouched = 7;
    expect_failure(HURRAY_ERR_BUFFER_TOO_SMALL,
                   hurray_key_values_encode(list, &untouched, 1, &length));
    assert_int_equal(untouched, 7);
    free(bytes);
    expect_ok(hurray_key_values_destroy(&list));
}

static void refused_entries(void **state) {
    (void)state;
    HurrayKeyValues *list = everything();
    const HurrayScalar value = {.text = TEXT("\xFF")};
    const HurrayKeyValue good = {TEXT("new"), HURRAY_VALUE_BYTES, 0, 1, &value};
    static char long_key[HURRAY_MAX_KEY_LENGTH + 1];
    memset(long_key, 'k', sizeof long_key);
    const struct {
        const char *says;
        HurrayKeyValue entry;
    } wrong[] = {
        {"0 bytes", {{"", 0}, HURRAY_VALUE_BYTES, 0, 1, &value}},
        {"65536 bytes", {{long_key, sizeof long_key}, HURRAY_VALUE_BYTES, 0, 1, &value}},
        {"not UTF-8", {TEXT("a\xC0\x80"), HURRAY_VALUE_BYTES, 0, 1, &value}},
        {"there already", {TEXT("int"), HURRAY_VALUE_BYTES, 0, 1, &value}},
        {"tag must be", {TEXT("new"), 0, 0, 1, &value}},
        {"tag must be", {TEXT("new"), 8, 0, 1, &value}},
        {"tag must be", {TEXT("new"), 0xF0, 0, 1, &value}},
        {"element_tag", {TEXT("new"), HURRAY_VALUE_ARRAY, 7, 1, &value}},
        {"element_tag", {TEXT("new"), HURRAY_VALUE_ARRAY, 0, 0, NULL}},
        {"element_tag", {TEXT("new"), HURRAY_VALUE_BYTES, 6, 1, &value}},
        {"count", {TEXT("new"), HURRAY_VALUE_BYTES, 0, 2, &value}},
        {"not UTF-8", {TEXT("new"), HURRAY_VALUE_STRING, 0, 1, &value}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        expect_failure(HURRAY_ERR_INVALID_ARGUMENT, hurray_key_values_add(list, &wrong[i].entry));
        expect_message(wrong[i].says);
        assert_int_equal(hurray_key_values_count(list), 10);
    }
    HurrayKeyValue nothing = good;
    nothing.values = NULL;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_key_values_add(list, &nothing));
    expect_ok(hurray_key_values_add(list, &good));
    HurrayKeyValue longest = good;
    longest.key = (HurrayText){long_key, HURRAY_MAX_KEY_LENGTH};
    expect_ok(hurray_key_values_add(list, &longest));
    expect_ok(hurray_key_values_destroy(&list));
}

static void expect_invalid(const uint8_t *bytes, size_t size, const char *says) {
    HurrayKeyValues *list = NULL;
    /* In a block of exactly this size, so that a sanitizer sees each byte too far. */
    uint8_t *exact = malloc(size == 0 ? 1 : size);
    memcpy(exact, bytes, size);
    expect_failure(HURRAY_ERR_FILE_INVALID, hurray_key_values_decode(exact, size, &list));
    if (says != NULL) expect_message(says);
    assert_null(list);
    free(exact);
}

static void refused_sections(void **state) {
    (void)state;
#define SECTION(says, ...)                            \
    do {                                              \
        static const uint8_t bytes[] = {__VA_ARGS__}; \
        expect_invalid(bytes, sizeof bytes, says);    \
    } while (0)
    SECTION("cannot hold 1 entries", 1, 0, 0, 0);
    SECTION("cannot hold 4294967295 entries", 255, 255, 255, 255, 1, 0, 'a', 5, 1);
    SECTION("key_length is 0", 1, 0, 0, 0, 0, 0, 5, 1, 1);
    SECTION("the key is not UTF-8", 1, 0, 0, 0, 1, 0, 0xFF, 5, 1);
    SECTION("value_tag is 0", 1, 0, 0, 0, 1, 0, 'a', 0, 1);
    SECTION("value_tag is 240", 1, 0, 0, 0, 1, 0, 'a', 0xF0, 1);
    SECTION("other than 0 and 1", 1, 0, 0, 0, 1, 0, 'a', 5, 2);
    SECTION("a string is not UTF-8", 1, 0, 0, 0, 1, 0, 'a', 1, 1, 0, 0, 0, 0x80);
    SECTION("ends within", 1, 0, 0, 0, 1, 0, 'a', 6, 2, 0, 0, 0, 0x80);
    SECTION("element tag is 7", 1, 0, 0, 0, 1, 0, 'a', 7, 7, 0, 0, 0, 0);
    SECTION("ends within", 1, 0, 0, 0, 1, 0, 'a', 7, 2, 0xFF, 0xFF, 0xFF, 0xFF);
    SECTION("ends within", 1, 0, 0, 0, 1, 0, 'a', 7, 1, 2, 0, 0, 0, 0, 0, 0, 0);
    SECTION("1 bytes follow", 1, 0, 0, 0, 1, 0, 'a', 5, 1, 0);
    SECTION("there already", 2, 0, 0, 0, 1, 0, 'a', 5, 1, 1, 0, 'a', 5, 0);
#undef SECTION
    HurrayKeyValues *list = everything();
    size_t length;
    uint8_t *bytes = encoded(list, &length);
    for (size_t cut = 0; cut < length; cut++) expect_invalid(bytes, cut, NULL);
    free(bytes);
    expect_ok(hurray_key_values_destroy(&list));
}

/* Whatever a bit of a section is flipped to: refused, or the bytes that it came from. */
static void flipped_bits(void **state) {
    (void)state;
    HurrayKeyValues *list = everything(), *other = NULL;
    size_t length, again;
    uint8_t *bytes = encoded(list, &length);
    for (size_t bit = 0; bit < 8 * length; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (hurray_key_values_decode(bytes, length, &other) == HURRAY_OK) {
            uint8_t *written = encoded(other, &again);
            assert_int_equal(again, length);
            assert_memory_equal(written, bytes, length);
            free(written);
            expect_ok(hurray_key_values_destroy(&other));
        }
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free(bytes);
    expect_ok(hurray_key_values_destroy(&list));
}

/* 200,000 keys take a moment, not the hours of a comparison of each with each. */
static void many_keys(void **state) {
    (void)state;
    const uint32_t count = 200000;
    uint8_t *bytes = malloc(4 + (size_t)count * 8);
    ByteWriter writer = {.bytes = bytes, .capacity = 4 + (size_t)count * 8};
    write_u32(&writer, count);
    for (uint32_t i = 0; i < count; i++) {
        char key[5];
        for (uint32_t k = 0, rest = i; k < 4; k++, rest /= 32) key[k] = (char)('A' + rest % 32);
        write_u16(&writer, 4);
        write_bytes(&writer, key, 4);
        write_u8(&writer, HURRAY_VALUE_BOOL);
        write_u8(&writer, i & 1);
    }
    HurrayKeyValues *list = NULL;
    expect_ok(hurray_key_values_decode(bytes, (size_t)writer.position, &list));
    assert_int_equal(hurray_key_values_count(list), count);
    for (uint32_t i = 0; i < count; i += 777) {
        const HurrayKeyValue *entry = hurray_key_values_at(list, i);
        assert_ptr_equal(hurray_key_values_find(list, entry->key.data, 4), entry);
        assert_int_equal(entry->values->boolean, i & 1);
    }
    expect_ok(hurray_key_values_destroy(&list));
    free(bytes);
}

/* ---- UTF-8 ---- */

/* Table 3-7 of Unicode, as ranges of each byte. */
static bool is_character(const uint8_t *b, size_t size) {
    static const uint8_t table[][9] = {
        {1, 0x00, 0x7F},
        {2, 0xC2, 0xDF, 0x80, 0xBF},
        {3, 0xE0, 0xE0, 0xA0, 0xBF, 0x80, 0xBF},
        {3, 0xE1, 0xEC, 0x80, 0xBF, 0x80, 0xBF},
        {3, 0xED, 0xED, 0x80, 0x9F, 0x80, 0xBF},
        {3, 0xEE, 0xEF, 0x80, 0xBF, 0x80, 0xBF},
        {4, 0xF0, 0xF0, 0x90, 0xBF, 0x80, 0xBF, 0x80, 0xBF},
        {4, 0xF1, 0xF3, 0x80, 0xBF, 0x80, 0xBF, 0x80, 0xBF},
        {4, 0xF4, 0xF4, 0x80, 0x8F, 0x80, 0xBF, 0x80, 0xBF},
    };
    for (size_t row = 0; row < sizeof table / sizeof table[0]; row++) {
        size_t matched = 0;
        while (matched < table[row][0] && matched < size &&
               b[matched] >= table[row][1 + 2 * matched] &&
               b[matched] <= table[row][2 + 2 * matched]) {
            matched++;
        }
        if (matched == table[row][0]) return size == matched;
    }
    return false;
}

/* All of up to three bytes, and four at the edges; alone, and behind more ASCII than a word holds. */
static void utf8(void **state) {
    (void)state;
    static const uint8_t edges[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0,
                                    0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xEC, 0xED,
                                    0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
    const size_t count = sizeof edges;
    uint8_t text[20] = "seventeen letters";
    for (size_t i = 0; i < count * count * count * count; i++) {
        uint8_t b[4] = {edges[i % count], edges[i / count % count],
                        edges[i / count / count % count], edges[i / count / count / count]};
        for (size_t size = 1; size <= 4; size++) {
            assert_int_equal(hri_utf8_character(b, size) == size, is_character(b, size));
        }
        memcpy(text + 9, b, 4);
        size_t valid = hri_utf8_valid_length(text, 13), at = 9;
        while (at < 13) {
            size_t length = hri_utf8_character(text + at, 13 - at);
            if (length == 0) break;
            at += length;
        }
        assert_int_equal(valid, at);
    }
    for (uint32_t i = 0; i < 1u << 16; i++) {
        const uint8_t b[2] = {(uint8_t)i, (uint8_t)(i >> 8)};
        assert_int_equal(hri_utf8_character(b, 2) == 2, is_character(b, 2));
    }
    assert_int_equal(hri_utf8_valid_length(NULL, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_types),
        cmocka_unit_test(known_bytes),
        cmocka_unit_test(refused_entries),
        cmocka_unit_test(refused_sections),
        cmocka_unit_test(flipped_bits),
        cmocka_unit_test(many_keys),
        cmocka_unit_test(utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
