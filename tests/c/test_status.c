/* Status codes, their names, and the message of a thread (src/status.c, spec 7.1, 7.2). */
#include "expect.h"

#include <pthread.h>

#include <hurray/status.h>

#include "fail.h"

static void codes_of_the_abi(void **state) {
    (void)state;
    static const struct {
        HurrayStatus constant;
        HurrayStatus number;
        const char *name;
    } rows[] = {
        {HURRAY_OK, 0, "HURRAY_OK"},
        {HURRAY_ERR_INVALID_MAGIC, -1, "HURRAY_ERR_INVALID_MAGIC"},
        {HURRAY_ERR_VERSION_MISMATCH, -2, "HURRAY_ERR_VERSION_MISMATCH"},
        {HURRAY_ERR_INVALID_LAYOUT, -3, "HURRAY_ERR_INVALID_LAYOUT"},
        {HURRAY_ERR_INVALID_TYPE, -4, "HURRAY_ERR_INVALID_TYPE"},
        {HURRAY_ERR_BUFFER_TOO_SMALL, -5, "HURRAY_ERR_BUFFER_TOO_SMALL"},
        {HURRAY_ERR_NULL_POINTER, -6, "HURRAY_ERR_NULL_POINTER"},
        {HURRAY_ERR_INTERNAL_PANIC, -7, "HURRAY_ERR_INTERNAL_PANIC"},
        {HURRAY_ERR_INVALID_SYNC_MODE, -8, "HURRAY_ERR_INVALID_SYNC_MODE"},
        {HURRAY_ERR_SYNC_MODE_MISMATCH, -9, "HURRAY_ERR_SYNC_MODE_MISMATCH"},
        {HURRAY_ERR_INTERNAL, -10, "HURRAY_ERR_INTERNAL"},
        {HURRAY_ERR_INDEX_OUT_OF_BOUNDS, -11, "HURRAY_ERR_INDEX_OUT_OF_BOUNDS"},
        {HURRAY_ERR_OUT_OF_MEMORY, -12, "HURRAY_ERR_OUT_OF_MEMORY"},
        {HURRAY_ERR_INVALID_ARGUMENT, -13, "HURRAY_ERR_INVALID_ARGUMENT"},
        {HURRAY_ERR_UNSUPPORTED, -14, "HURRAY_ERR_UNSUPPORTED"},
        {HURRAY_ERR_COPY_REQUIRED, -15, "HURRAY_ERR_COPY_REQUIRED"},
        {HURRAY_ERR_BAD_PRODUCER, -16, "HURRAY_ERR_BAD_PRODUCER"},
        {HURRAY_ERR_DATA_INVALID, -17, "HURRAY_ERR_DATA_INVALID"},
        {HURRAY_ERR_IO, -18, "HURRAY_ERR_IO"},
        {HURRAY_ERR_FILE_INVALID, -19, "HURRAY_ERR_FILE_INVALID"},
        {HURRAY_ERR_STREAM_INVALID, -20, "HURRAY_ERR_STREAM_INVALID"},
        {HURRAY_ERR_NOT_FOUND, -21, "HURRAY_ERR_NOT_FOUND"},
        {HURRAY_ERR_CLOSED, -22, "HURRAY_ERR_CLOSED"},
        {HURRAY_ERR_INTERRUPTED, -23, "HURRAY_ERR_INTERRUPTED"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(rows[i].constant, rows[i].number);
        assert_string_equal(hurray_status_name(rows[i].number), rows[i].name);
    }
    static const HurrayStatus others[] = {1, -24, 255, -1000, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_string_equal(hurray_status_name(others[i]), "unknown status");
    }
    assert_int_equal(hurray_c_abi_version(), 4);
    assert_int_equal(HURRAY_C_ABI_VERSION, 4);
}

static void failing_returns_the_status_and_keeps_the_sentence(void **state) {
    (void)state;
    assert_int_equal(hri_fail(HURRAY_ERR_UNSUPPORTED, "%s of %d", "three", 4),
                     HURRAY_ERR_UNSUPPORTED);
    assert_string_equal(hurray_error_message(), "three of 4");
    assert_int_equal(hri_fail_null("tensor"), HURRAY_ERR_NULL_POINTER);
    assert_string_equal(hurray_error_message(), "tensor is NULL");
    assert_int_equal(hri_fail_memory(18446744073709551615ULL), HURRAY_ERR_OUT_OF_MEMORY);
    expect_message("18446744073709551615 bytes");
}

/* Whatever came from outside and into a sentence, the sentence is one line of UTF-8. */
static void sentences_are_utf8_on_one_line(void **state) {
    (void)state;
    static const struct {
        const char *given, *shown;
    } rows[] = {
        {"plain", "plain"},
        {"2^63 − 1 … 日本 \xF0\x9F\x8E\x89", "2^63 − 1 … 日本 \xF0\x9F\x8E\x89"},
        {"two\nlines\r\tand\x7F", "two lines  and "},
        {"controls \xC2\x80\xC2\x9B\xC2\x9F, not \xC2\xA0", "controls       , not \xC2\xA0"},
        {"lines \xE2\x80\xA8\xE2\x80\xA9 turned \xE2\x80\xAE\xE2\x81\xA6",
         "lines        turned       "},
        {"kept \xE2\x80\xA7\xE2\x80\xAF\xE2\x81\xA5\xE2\x81\xAA",
         "kept \xE2\x80\xA7\xE2\x80\xAF\xE2\x81\xA5\xE2\x81\xAA"},
        {"lone \x80 and \xBF", "lone ? and ?"},
        {"never \xC0\xAF \xFE \xFF", "never ?? ? ?"},
        {"cut \xE2\x80", "cut ??"},
        {"cut \xC3 inside", "cut ? inside"},
        {"surrogate \xED\xA0\x80", "surrogate ???"},
        {"overlong \xE0\x80\x80 \xF0\x80\x80\x80", "overlong ??? ????"},
        {"beyond \xF4\x90\x80\x80 \xF5\x80\x80\x80", "beyond ???? ????"},
        {"edge \xF4\x8F\xBF\xBF \xED\x9F\xBF \xEE\x80\x80",
         "edge \xF4\x8F\xBF\xBF \xED\x9F\xBF \xEE\x80\x80"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        hri_fail(HURRAY_ERR_INTERNAL, "%s", rows[i].given);
        assert_string_equal(hurray_error_message(), rows[i].shown);
    }
}

/* Cut at 511 bytes, never inside a character. */
static void long_sentences_are_cut_between_characters(void **state) {
    (void)state;
    for (size_t lead = 0; lead < 4; lead++) {
        char text[1024] = "";
        size_t length = 0;
        while (length < lead) text[length++] = 'x';
        while (length < 1000) {
            memcpy(text + length, "\xE2\x80\xA6", 3);
            length += 3;
        }
        text[length] = '\0';
        hri_fail(HURRAY_ERR_INTERNAL, "%s", text);
        size_t kept = strlen(hurray_error_message());
        assert_in_range(kept, 508, 511);
        assert_memory_equal(hurray_error_message(), text, lead + (kept - lead) / 3 * 3);
        for (size_t i = lead + (kept - lead) / 3 * 3; i < kept; i++) {
            assert_int_equal(hurray_error_message()[i], '?');
        }
    }
}

static void *fail_elsewhere(void *seen) {
    *(int *)seen = hurray_error_message()[0] == '\0';
    hri_fail(HURRAY_ERR_INTERNAL, "of the other thread");
    if (strcmp(hurray_error_message(), "of the other thread") != 0) *(int *)seen = -1;
    return NULL;
}

static void messages_belong_to_threads(void **state) {
    (void)state;
    hri_fail(HURRAY_ERR_INTERNAL, "of this thread");
    pthread_t thread;
    int began_empty = 0;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &began_empty), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(began_empty, 1);
    assert_string_equal(hurray_error_message(), "of this thread");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_of_the_abi),
        cmocka_unit_test(failing_returns_the_status_and_keeps_the_sentence),
        cmocka_unit_test(sentences_are_utf8_on_one_line),
        cmocka_unit_test(long_sentences_are_cut_between_characters),
        cmocka_unit_test(messages_belong_to_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
