/*
 * The structure of files (src/file_index.h): which places of descriptors and data an index may name,
 * how names are found among many, and the order of writing.
 */
#include "files.h"

#include "file_index.h"
#include "random.h"

/* Opens a file of raw entries, whose tensor region ends at `end`. */
static HurrayStatus open_raw(uint32_t flags, uint64_t first, uint64_t end, const RawEntry *entries,
                             size_t count, HurrayFileReader **out) {
    Bytes file = raw_file(flags, first, end, entries, count);
    HurrayStatus status = open_bytes(&file, BY_MEMORY, NULL, out);
    release_bytes(&file);
    return status;
}

static void accept(uint64_t first, uint64_t end, const RawEntry *entries, size_t count) {
    HurrayFileReader *reader = NULL;
    expect_ok(open_raw(HAS_CRC, first, end, entries, count, &reader));
    assert_int_equal(hurray_file_reader_count(reader), count);
    expect_ok(hurray_file_reader_destroy(&reader));
}

#define REFUSE(message, first, end, ...)                                                    \
    do {                                                                                    \
        const RawEntry refused[] = {__VA_ARGS__};                                           \
        HurrayFileReader *reader = NULL;                                                    \
        expect_failure(                                                                     \
            HURRAY_ERR_FILE_INVALID,                                                        \
            open_raw(0, first, end, refused, sizeof refused / sizeof refused[0], &reader)); \
        expect_message(message);                                                            \
    } while (0)

/* ---- places ---- */

static void extents_may_touch_and_leave_gaps(void **state) {
    (void)state;
    /* Back to back: the data of one ends where the descriptor of the next begins. */
    const RawEntry touching[] = {{"a", 64, 24, 4096, 8}, {"b", 4104, 4088, 8192, 1}};
    accept(64, 8200, touching, 2);
    /* Descriptors first, then all data, which are in another order than they are. */
    const RawEntry apart[] = {
        {"a", 64, 24, 12288, 10}, {"b", 88, 24, 4096, 4096}, {"c", 112, 24, 8192, 4096}};
    accept(64, 16384, apart, 3);
    /* The data before the descriptor, from the first of them on. */
    const RawEntry before[] = {{"a", 4000, 24, 8192, 8}, {"b", 8200, 24, 4096, 4096}};
    accept(4000, 12288, before, 2);
    /* Extents without bytes overlap nothing, even at the end of the region and inside others. */
    const RawEntry empty[] = {
        {"a", 64, 24, 8192, 0}, {"b", 88, 24, 4096, 100}, {"c", 112, 24, 4100, 0}};
    accept(64, 8192, empty, 3);
    /* Gaps anywhere. */
    const RawEntry gaps[] = {{"a", 1024, 24, 8192, 8}, {"b", 20480, 24, 40960, 8}};
    accept(1024, 65536, gaps, 2);
}

static void no_byte_belongs_to_two(void **state) {
    (void)state;
    REFUSE("overlap", 64, 8192, {"a", 64, 32, 4096, 8}, {"b", 88, 24, 4096 + 4096, 0});
    REFUSE("the data of entry 0 \"a\", at 4096 to 4105, and the descriptor of entry 1 \"b\"", 64,
           16384, {"a", 64, 24, 4096, 9}, {"b", 4104, 24, 8192, 8});
    /* Its own: the data begin within the descriptor. */
    REFUSE("overlap", 64, 16384, {"a", 64, 4040, 4096, 8});
    /* One inside another, and three of which the outer two do. */
    REFUSE("overlap", 64, 16384, {"a", 64, 24, 4096, 8192}, {"b", 8192, 24, 12288, 1});
    REFUSE("overlap", 64, 65536, {"a", 64, 24, 4096, 20000}, {"b", 88, 24, 8192, 8},
           {"c", 112, 24, 32768, 8});
    REFUSE("overlap", 64, 8192, {"a", 64, 24, 4096, 8}, {"b", 64, 24, 4096 + 4096, 0});
}

static void everything_lies_in_the_tensor_region(void **state) {
    (void)state;
    REFUSE("outside the tensor region", 64, 4104, {"a", 64, 24, 4096, 9});
    REFUSE("outside the tensor region", 64, 4104, {"a", 4088, 24, 4096, 0});
    REFUSE("outside the tensor region", 64, 4096, {"a", 64, 24, 8192, 0});
    REFUSE("outside the tensor region", 64, 8192, {"a", 64, 24, 4096, UINT64_MAX});
    REFUSE("outside the tensor region", 64, 8192, {"a", 64, UINT32_MAX, 4096, 8});
    REFUSE("outside the tensor region", 4096, 16384, {"a", 4096, 24, 0, 8});
    REFUSE("first_descriptor_offset is 64, but the smallest descriptor_offset in the index 72", 64,
           8192, {"a", 72, 24, 4096, 8});
    REFUSE("descriptor_length is 19", 64, 8192, {"a", 64, 19, 4096, 8});
    REFUSE("data_offset is 4104", 64, 8192, {"a", 64, 24, 4104, 8});
}

static void an_empty_file_names_a_place_within_it(void **state) {
    (void)state;
    HurrayFileReader *reader = NULL;
    expect_ok(open_raw(HAS_CRC, 64, 64, NULL, 0, &reader));
    uint64_t roots = 7;
    expect_ok(hurray_file_reader_roots(reader, NULL, 0, &roots));
    assert_int_equal(roots, 0);
    expect_ok(hurray_file_reader_destroy(&reader));
    expect_failure(HURRAY_ERR_FILE_INVALID, open_raw(0, 1 << 20, 64, NULL, 0, &reader));
    expect_failure(HURRAY_ERR_FILE_INVALID, open_raw(0, UINT64_MAX - 7, 64, NULL, 0, &reader));
}

/* ---- many names ---- */

enum {
    MANY = 3000
};

static char names[MANY][16];
static RawEntry many[MANY];

/* Entries in the order of writing, names in none. */
static void make_many(void) {
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "t%u", i * 7919u % 65521u);
        many[i] = (RawEntry){names[i], 64 + 24 * (uint64_t)i, 24, 64 + 24 * (uint64_t)MANY, 0};
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const RawEntry *)a)->name, ((const RawEntry *)b)->name);
}

static void shuffle(uint64_t seed) {
    for (uint32_t i = MANY - 1; i > 0; i--) {
        uint32_t other = (uint32_t)random_below(&seed, i + 1);
        RawEntry kept = many[i];
        many[i] = many[other];
        many[other] = kept;
    }
}

static void expect_found(uint32_t flags) {
    HurrayFileReader *reader = NULL;
    const uint64_t end = 64 + 24 * (uint64_t)MANY;
    expect_ok(open_raw(flags, 64, end, many, MANY, &reader));
    for (uint32_t i = 0; i < MANY; i++) {
        uint64_t found, in_order;
        HurrayFileEntry entry;
        expect_ok(hurray_file_reader_find(reader, many[i].name, strlen(many[i].name), &found));
        assert_int_equal(found, i);
        expect_ok(hurray_file_reader_entry(reader, i, &entry));
        assert_true(entry.descriptor_offset == many[i].descriptor_offset);
        expect_ok(
            hurray_file_reader_in_order(reader, (entry.descriptor_offset - 64) / 24, &in_order));
        assert_int_equal(in_order, i);
    }
    uint64_t found = 7;
    const char *absent[] = {"", "t", "t70000", "t0\n", "u", "\xFF"};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        expect_failure(HURRAY_ERR_NOT_FOUND,
                       hurray_file_reader_find(reader, absent[i], strlen(absent[i]), &found));
    }
    assert_int_equal(found, 7);
    expect_ok(hurray_file_reader_destroy(&reader));
}

static void every_name_is_found_in_any_order_of_the_index(void **state) {
    (void)state;
    make_many();
    expect_found(HAS_CRC);
    shuffle(1);
    expect_found(HAS_CRC);
    qsort(many, MANY, sizeof many[0], by_name);
    expect_found(HAS_CRC | SORTED);
    expect_found(HAS_CRC);
}

static void a_name_that_stands_twice_is_refused(void **state) {
    (void)state;
    const uint64_t end = 64 + 24 * (uint64_t)MANY;
    for (uint32_t sorted = 0; sorted < 2; sorted++) {
        make_many();
        qsort(many, MANY, sizeof many[0], by_name);
        many[MANY - 1].name = many[MANY - 2].name;
        if (sorted == 0) shuffle(2);
        HurrayFileReader *reader = NULL;
        expect_failure(HURRAY_ERR_FILE_INVALID,
                       open_raw(sorted == 1 ? SORTED : 0, 64, end, many, MANY, &reader));
        expect_message("has the same name");
    }
    make_many();
    HurrayFileReader *reader = NULL;
    expect_failure(HURRAY_ERR_FILE_INVALID, open_raw(SORTED, 64, end, many, MANY, &reader));
    expect_message("SORTED_INDEX");
}

/* Names are ordered as bytes, not as characters of a signed type; a prefix comes first. */
static void names_sort_by_bytes(void **state) {
    (void)state;
    const RawEntry sorted[] = {{"a", 64, 24, 256, 0},   {"a.", 88, 24, 256, 0},
                               {"ab", 112, 24, 256, 0}, {"z", 136, 24, 256, 0},
                               {"é", 160, 24, 256, 0},  {"權", 184, 24, 256, 0}};
    HurrayFileReader *reader = NULL;
    expect_ok(open_raw(SORTED, 64, 256, sorted, 6, &reader));
    uint64_t found;
    for (uint64_t i = 0; i < 6; i++) {
        expect_ok(hurray_file_reader_find(reader, sorted[i].name, strlen(sorted[i].name), &found));
        assert_int_equal(found, i);
    }
    expect_ok(hurray_file_reader_destroy(&reader));
    const RawEntry prefix_last[] = {{"ab", 64, 24, 256, 0}, {"a", 88, 24, 256, 0}};
    expect_failure(HURRAY_ERR_FILE_INVALID, open_raw(SORTED, 64, 256, prefix_last, 2, &reader));
}

/* A message shows a long name in part, whole characters of it, and no line breaks. */
static void messages_show_names_in_one_line(void **state) {
    (void)state;
    char name[200];
    for (size_t i = 0; i + 3 < sizeof name; i += 3) memcpy(name + i, "權", 3);
    memcpy(name, "a\nb", 3);
    name[198] = '\0';
    const RawEntry entry[] = {{name, 64, 24, 4100, 8}};
    HurrayFileReader *reader = NULL;
    expect_failure(HURRAY_ERR_FILE_INVALID, open_raw(0, 64, 8192, entry, 1, &reader));
    expect_message("entry 0 \"a?b權");
    expect_message("權…\": data_offset is 4100");
}

/* Random extents: accepted exactly when no two have a byte in common. */
static void overlap_is_found_wherever_it_is(void **state) {
    (void)state;
    uint64_t seed = 3;
    uint32_t accepted = 0, refused = 0;
    for (uint32_t round = 0; round < 3000; round++) {
        RawEntry entries[4];
        static const char *const letters[] = {"a", "b", "c", "d"};
        static uint8_t owners[40000];
        memset(owners, 0, sizeof owners);
        uint64_t first = UINT64_MAX;
        bool overlap = false;
        for (uint32_t i = 0; i < 4; i++) {
            entries[i] = (RawEntry){letters[i], 64 + 8 * random_below(&seed, 2500), 24,
                                    4096 * (1 + random_below(&seed, 8)),
                                    random_below(&seed, 3) * random_below(&seed, 2500)};
            if (entries[i].descriptor_offset < first) first = entries[i].descriptor_offset;
            for (uint64_t k = 0; k < 24; k++) {
                overlap |= owners[entries[i].descriptor_offset + k]++ != 0;
            }
            for (uint64_t k = 0; k < entries[i].data_length; k++) {
                overlap |= owners[entries[i].data_offset + k]++ != 0;
            }
        }
        bool outside = false;
        for (uint32_t i = 0; i < 4; i++) outside |= entries[i].data_offset < first;
        HurrayFileReader *reader = NULL;
        HurrayStatus status = open_raw(0, first, sizeof owners, entries, 4, &reader);
        assert_int_equal(status, overlap || outside ? HURRAY_ERR_FILE_INVALID : HURRAY_OK);
        if (status == HURRAY_OK) accepted++;
        if (overlap) refused++;
        expect_ok(hurray_file_reader_destroy(&reader));
    }
    assert_true(accepted > 100 && refused > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extents_may_touch_and_leave_gaps),
        cmocka_unit_test(no_byte_belongs_to_two),
        cmocka_unit_test(everything_lies_in_the_tensor_region),
        cmocka_unit_test(an_empty_file_names_a_place_within_it),
        cmocka_unit_test(every_name_is_found_in_any_order_of_the_index),
        cmocka_unit_test(a_name_that_stands_twice_is_refused),
        cmocka_unit_test(names_sort_by_bytes),
        cmocka_unit_test(messages_show_names_in_one_line),
        cmocka_unit_test(overlap_is_found_wherever_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
