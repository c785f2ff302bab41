/*
 * The annotated table of a descriptor (src/print.c): its text for a few descriptors, and what must
 * hold for any bytes at all. Every table is taken apart again: its rows must be the bytes, all of
 * them, in order, and where the decoder accepts the bytes no row may be marked as wrong.
 */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <hurray/hurray.h>

/* ---- a sink that keeps what it is given ---- */

typedef struct Sink {
    char *text; /* terminated by a zero that `length` does not count */
    size_t length, capacity;
    size_t calls;
    size_t refuse_at; /* the call that fails, counted from 1; 0: none */
} Sink;

static bool keep(const char *text, size_t length, void *context) {
    Sink *sink = context;
    sink->calls++;
    if (sink->calls == sink->refuse_at) return false;
    if (sink->length + length + 1 > sink->capacity) {
        sink->capacity = 2 * (sink->length + length + 1);
        sink->text = realloc(sink->text, sink->capacity);
        assert_non_null(sink->text);
    }
    memcpy(sink->text + sink->length, text, length);
    sink->length += length;
    sink->text[sink->length] = '\0';
    return true;
}

static void empty(Sink *sink) {
    free(sink->text);
    *sink = (Sink){0};
}

/* ---- bytes at a malloc of their exact size, so that a read beyond them is noticed ---- */

typedef struct Bytes {
    uint8_t *data;
    size_t length;
} Bytes;

static Bytes copy_of(const uint8_t *data, size_t length) {
    Bytes bytes = {malloc(length == 0 ? 1 : length), length};
    assert_non_null(bytes.data);
    if (length != 0) memcpy(bytes.data, data, length);
    if (length == 0) {
        free(bytes.data);
        bytes.data = NULL;
    }
    return bytes;
}

/* ---- a table taken apart ---- */

typedef struct Table {
    uint64_t shown;  /* bytes in hex */
    uint64_t hidden; /* bytes that "… more" rows count */
    size_t lines;
    bool marked; /* some row says that it is wrong */
    char verdict[640];
} Table;

static unsigned hex_digit(char digit) {
    if (digit >= '0' && digit <= '9') return (unsigned)(digit - '0');
    assert_in_range(digit, 'A', 'F');
    return (unsigned)(digit - 'A') + 10;
}

/* A row of bytes or of "…": what it shows is what stands at its place. */
static void read_row(const char *line, size_t length, const Bytes *bytes, uint64_t first_offset,
                     uint32_t offset_width, uint32_t bytes_per_row, Table *table) {
    uint64_t at = table->shown + table->hidden, number;
    int digits;
    char offset[32];
    assert_true(length > offset_width + 2);
    assert_true(length < 400);
    if (memchr(line, '<', length) != NULL) table->marked = true;
    snprintf(offset, sizeof offset, "%*s  ", (int)offset_width, "...");
    if (strncmp(line, offset, strlen(offset)) == 0) {
        assert_int_equal(sscanf(line + strlen(offset), "%" SCNu64 " more byte%n", &number, &digits),
                         1);
        table->hidden += number;
        return;
    }
    digits =
        snprintf(offset, sizeof offset, "%*" PRIu64 "  ", (int)offset_width, first_offset + at);
    assert_memory_equal(line, offset, (size_t)digits);
    const char *hex = line + digits;
    for (uint32_t i = 0; i < bytes_per_row && (size_t)(hex - line) + 2 <= length; i++, hex += 3) {
        if (hex[0] == ' ') break;
        assert_true(at + i < bytes->length);
        assert_int_equal(hex_digit(hex[0]) << 4 | hex_digit(hex[1]), bytes->data[at + i]);
        table->shown++;
    }
}

static Table read_table(const Sink *sink, const Bytes *bytes, const HurrayPrintOptions *options) {
    Table table = {0};
    uint32_t width = options->offset_width == 0 ? 6 : options->offset_width;
    uint32_t per_row = options->bytes_per_row == 0 ? 8 : options->bytes_per_row;
    const char *line = sink->text;
    assert_int_equal(sink->text[sink->length - 1], '\n');
    for (;; table.lines++) {
        size_t length = strcspn(line, "\n");
        assert_true(length == 0 || line[length - 1] != ' ');
        if (line[length + 1] == '\0') { /* the last */
            assert_true(length < sizeof table.verdict);
            memcpy(table.verdict, line, length);
            break;
        }
        for (size_t i = 0; i < length; i++) assert_in_range(line[i], ' ', '~');
        if (table.lines != 0 || options->no_heading) {
            read_row(line, length, bytes, options->first_offset, width, per_row, &table);
        }
        line += length + 1;
    }
    assert_int_equal(sink->calls, table.lines + 1);
    return table;
}

/* ---- the property ---- */

static const HurrayPrintOptions everything = {.data_rows = UINT32_MAX};
static const HurrayPrintOptions everything_permissive = {
    .data_rows = UINT32_MAX,
    .decode = {.permissive = true},
};

/*
 * Prints, takes the table apart and holds it against what the decoder says. The bytes of a valid
 * descriptor are all shown; those of a broken one are shown, or counted, to their end.
 */
static HurrayStatus check(const Bytes *bytes, const HurrayPrintOptions *options) {
    static const uint8_t nothing[1] = {0};
    HurrayDescriptor *descriptor = NULL;
    char expected[640] = "valid";
    HurrayStatus status = hurray_descriptor_decode_with(
        bytes->data == NULL ? nothing : bytes->data, bytes->length, &options->decode, &descriptor);
    if (status != HURRAY_OK) {
        snprintf(expected, sizeof expected, "%s: %s", hurray_status_name(status),
                 hurray_error_message());
    }
    hurray_descriptor_destroy(descriptor);

    Sink sink = {0};
    HurrayStatus verdict = 99;
    assert_int_equal(
        hurray_descriptor_print(bytes->data, bytes->length, options, keep, &sink, &verdict),
        HURRAY_OK);
    Table table = read_table(&sink, bytes, options);
    assert_int_equal(verdict, status);
    assert_string_equal(table.verdict, expected);
    if (status != HURRAY_OK) assert_non_null(strstr(expected, hurray_error_message()));
    uint32_t length = 0;
    uint64_t there = bytes->length;
    if (bytes->length != 0 &&
        hurray_descriptor_peek_length(bytes->data, bytes->length, &length) == HURRAY_OK &&
        length < there) {
        there = length;
    }
    if (table.shown + table.hidden != there || (status == HURRAY_OK && table.marked) ||
        (status == HURRAY_OK && options->data_rows == UINT32_MAX && table.shown != there)) {
        print_error("%s", sink.text);
        fail_msg("%" PRIu64 " of %" PRIu64 " bytes shown, %" PRIu64 " counted", table.shown, there,
                 table.hidden);
    }
    assert_true(table.lines <= there + 5);       /* a byte per row, at least, but for a handful */
    assert_null(strstr(sink.text, "levels[8]")); /* 8 levels are all that a layout can have */
    empty(&sink);
    return status;
}

/* ---- vectors ---- */

typedef void Visit(const char *name, const Bytes *bytes);

static Bytes load_file(const char *path) {
    static uint8_t buffer[1 << 16];
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail_msg("cannot open %s", path);
    size_t length = fread(buffer, 1, sizeof buffer, file);
    assert_true(length < sizeof buffer);
    fclose(file);
    return copy_of(buffer, length);
}

static size_t for_each(const char *kind, Visit *visit) {
    char directory[1024], path[2048];
    const char *root = getenv("HURRAY_VECTORS");
    if (root == NULL) fail_msg("HURRAY_VECTORS does not say where the vectors are");
    snprintf(directory, sizeof directory, "%s/%s", root, kind);
    DIR *listing = opendir(directory);
    if (listing == NULL) fail_msg("cannot open %s", directory);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        Bytes bytes = load_file(path);
        visit(entry->d_name, &bytes);
        free(bytes.data);
        count++;
    }
    closedir(listing);
    assert_true(count > 50);
    return count;
}

static bool seen_layouts[256], seen_schemes[256];

static void visit_valid(const char *name, const Bytes *bytes) {
    HurrayStatus status = check(bytes, &everything);
    if (status != HURRAY_OK) fail_msg("%s: %s", name, hurray_error_message());
    HurrayDescriptor *descriptor;
    assert_int_equal(hurray_descriptor_decode(bytes->data, bytes->length, &descriptor), HURRAY_OK);
    const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
    seen_layouts[fields->layout.tag] = true;
    if (fields->quantization != NULL) seen_schemes[fields->quantization->scheme] = true;
    hurray_descriptor_destroy(descriptor);
    assert_int_equal(check(bytes, &everything_permissive), HURRAY_OK);
}

static void all_bytes_of_a_valid_descriptor_are_shown(void **state) {
    (void)state;
    for_each("valid", visit_valid);
    for (unsigned tag = 0; tag <= 0xFF; tag++) {
        if (hurray_layout_tag_kind((uint8_t)tag) == HURRAY_LAYOUT_TAG_NAMED) {
            if (!seen_layouts[tag]) fail_msg("no vector of layout 0x%02X", tag);
        }
        if (hurray_scheme_name((uint8_t)tag) != NULL && !seen_schemes[tag]) {
            fail_msg("no vector of scheme 0x%02X", tag);
        }
    }
}

static void visit_invalid(const char *name, const Bytes *bytes) {
    if (check(bytes, &everything) == HURRAY_OK) fail_msg("%s is accepted", name);
    check(bytes, &everything_permissive);
}

static void every_fault_is_named(void **state) {
    (void)state;
    for_each("invalid", visit_invalid);
}

static void visit_truncations(const char *name, const Bytes *bytes) {
    (void)name;
    for (size_t length = 0; length < bytes->length; length++) {
        Bytes part = copy_of(bytes->data, length);
        HurrayStatus status = check(&part, &everything);
        assert_int_not_equal(status, HURRAY_OK);
        assert_int_not_equal(check(&part, &everything_permissive), HURRAY_OK);
        free(part.data);
        /* The same cut, with a length that does not tell. */
        part = copy_of(bytes->data, length);
        if (length >= HURRAY_DESCRIPTOR_HEADER_SIZE) {
            for (size_t i = 0; i < 4; i++) part.data[6 + i] = (uint8_t)(length >> 8 * i);
            check(&part, &everything);
            check(&part, &everything_permissive);
        }
        free(part.data);
    }
}

static void a_descriptor_may_end_anywhere(void **state) {
    (void)state;
    for_each("valid", visit_truncations);
}

static void visit_bit_flips(const char *name, const Bytes *bytes) {
    (void)name;
    for (size_t bit = 0; bit < 8 * bytes->length; bit++) {
        bytes->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        check(bytes, &everything);
        check(bytes, &everything_permissive);
        bytes->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void any_bit_may_be_wrong(void **state) {
    (void)state;
    for_each("valid", visit_bit_flips);
}

/* Without escapes it is the plain table, and no color goes beyond its line. */
static void visit_colors(const char *name, const Bytes *bytes) {
    (void)name;
    HurrayPrintOptions options = everything;
    Sink plain = {0}, colored = {0};
    hurray_descriptor_print(bytes->data, bytes->length, &options, keep, &plain, NULL);
    options.color = true;
    hurray_descriptor_print(bytes->data, bytes->length, &options, keep, &colored, NULL);
    char *out = colored.text;
    bool active = false;
    for (const char *in = colored.text; *in != '\0'; in++) {
        if (*in == '\x1b') {
            active = strncmp(in, "\x1b[0m", 4) != 0;
            in = strchr(in, 'm');
            assert_non_null(in);
            continue;
        }
        if (*in == '\n') {
            assert_false(active);
            while (out != colored.text && out[-1] == ' ') out--;
        }
        *out++ = *in;
    }
    *out = '\0';
    assert_string_equal(colored.text, plain.text);
    empty(&plain);
    empty(&colored);
}

static void colors_add_nothing_but_color(void **state) {
    (void)state;
    for_each("valid", visit_colors);
    for_each("invalid", visit_colors);
}

static void visit_refusals(const char *name, const Bytes *bytes) {
    (void)name;
    Sink sink = {0};
    hurray_descriptor_print(bytes->data, bytes->length, NULL, keep, &sink, NULL);
    size_t calls = sink.calls;
    empty(&sink);
    for (size_t refused = 1; refused <= calls; refused++) {
        Sink broken = {.refuse_at = refused};
        HurrayStatus verdict = 99;
        assert_int_equal(
            hurray_descriptor_print(bytes->data, bytes->length, NULL, keep, &broken, &verdict),
            HURRAY_ERR_INTERNAL);
        assert_non_null(strstr(hurray_error_message(), "write"));
        assert_int_equal(verdict, 99);
        assert_int_equal(broken.calls, refused);
        empty(&broken);
    }
}

static void a_sink_that_fails_is_not_asked_again(void **state) {
    (void)state;
    for_each("valid", visit_refusals);
    for_each("invalid", visit_refusals);
}

static void visit_widths(const char *name, const Bytes *bytes) {
    static const uint32_t widths[] = {1, 2, 3, 5, 8, 16, 32};
    (void)name;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        HurrayPrintOptions options = everything;
        options.bytes_per_row = widths[i];
        options.offset_width = i % 2 == 0 ? 20 : 4;
        options.first_offset = i % 2 == 0 ? UINT64_C(1) << 63 : 0;
        options.no_heading = i % 3 == 0;
        check(bytes, &options);
        options.data_rows = 1;
        check(bytes, &options);
    }
}

static void columns_are_as_wide_as_wanted(void **state) {
    (void)state;
    for_each("valid", visit_widths);
    for_each("invalid", visit_widths);
}

static void options_out_of_range_are_refused(void **state) {
    (void)state;
    Sink sink = {0};
    HurrayPrintOptions options = {.offset_width = HURRAY_PRINT_MAX_OFFSET_WIDTH + 1};
    HurrayStatus verdict = 99;
    assert_int_equal(hurray_descriptor_print(NULL, 0, &options, keep, &sink, &verdict),
                     HURRAY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(hurray_error_message(), "offset_width"));
    options = (HurrayPrintOptions){.bytes_per_row = HURRAY_PRINT_MAX_BYTES_PER_ROW + 1};
    assert_int_equal(hurray_descriptor_print(NULL, 0, &options, keep, &sink, &verdict),
                     HURRAY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(hurray_error_message(), "bytes_per_row"));
    options = (HurrayPrintOptions){.decode = {.known_layout_count = 1}};
    assert_int_equal(hurray_descriptor_print(NULL, 0, &options, keep, &sink, &verdict),
                     HURRAY_ERR_NULL_POINTER);
    assert_int_equal(hurray_descriptor_print(NULL, 1, NULL, keep, &sink, &verdict),
                     HURRAY_ERR_NULL_POINTER);
    assert_int_equal(hurray_descriptor_print(NULL, 0, NULL, NULL, &sink, &verdict),
                     HURRAY_ERR_NULL_POINTER);
    assert_int_equal(sink.calls, 0);
    assert_int_equal(verdict, 99);
}

/* ---- golden text ---- */

static void expect_text(const uint8_t *data, size_t length, const HurrayPrintOptions *options,
                        const char *expected) {
    Bytes bytes = copy_of(data, length);
    Sink sink = {0};
    assert_int_equal(hurray_descriptor_print(bytes.data, length, options, keep, &sink, NULL),
                     HURRAY_OK);
    assert_string_equal(sink.text, expected);
    empty(&sink);
    free(bytes.data);
}

/* float32 [3, 4], row-major, one CPU buffer of 192 bytes: the worked example of spec 1.10. */
static const uint8_t worked[61] = {
    0x48, 0x52, 0x52, 0x59, 0x01, 0x00, 0x3D, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x01,
    0x02, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0xC0, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
};

static void the_worked_example(void **state) {
    (void)state;
    expect_text(worked, sizeof worked, NULL,
                "offset  bytes                    field\n"
                "     0  48 52 52 59              magic = \"HRRY\"\n"
                "     4  01                       version_major = 1\n"
                "     5  00                       version_minor = 0\n"
                "     6  3D 00 00 00              descriptor_length = 61\n"
                "    10  00 00 00 00              flags = 0x00000000 (none)\n"
                "    14  03                       type_tag = 0x03 (float32)\n"
                "    15  01                       layout_tag = 0x01 (row_major)\n"
                "    16  02 00 00 00              rank = 2\n"
                "    20  03 00 00 00 00 00 00 00  shape[0] = 3\n"
                "    28  04 00 00 00 00 00 00 00  shape[1] = 4\n"
                "    36  00 00 00 00 00 00 00 00  byte_offset = 0\n"
                "    44  01                       buffer_count = 1\n"
                "    45  C0 00 00 00 00 00 00 00  buffers[0].byte_size = 192 (data)\n"
                "    53  40 00 00 00              buffers[0].alignment = 64\n"
                "    57  00                       buffers[0].device_tag = 0x00 (cpu)\n"
                "    58  00                       buffers[0].sync_mode = 0 (producer_synced)\n"
                "    59  00                       buffers[0].memory_class = 0 (standard)\n"
                "    60  00                       buffers[0].reserved = 0\n"
                "valid\n");
}

static void a_newer_major_is_not_followed(void **state) {
    (void)state;
    uint8_t bytes[sizeof worked];
    memcpy(bytes, worked, sizeof worked);
    bytes[4] = 2;
    expect_text(bytes, sizeof bytes, NULL,
                "offset  bytes                    field\n"
                "     0  48 52 52 59              magic = \"HRRY\"\n"
                "     4  02                       version_major = 2  <- expected 1\n"
                "   ...  56 more bytes are not shown\n"
                "HURRAY_ERR_VERSION_MISMATCH: version_major 2; this library reads 1\n");
}

static void an_end_in_the_middle_is_shown(void **state) {
    (void)state;
    const HurrayPrintOptions options = {.first_offset = 1000, .no_heading = true};
    expect_text(
        worked, 31, &options,
        "  1000  48 52 52 59              magic = \"HRRY\"\n"
        "  1004  01                       version_major = 1\n"
        "  1005  00                       version_minor = 0\n"
        "  1006  3D 00 00 00              descriptor_length = 61  <- only 31 bytes are there\n"
        "  1010  00 00 00 00              flags = 0x00000000 (none)\n"
        "  1014  03                       type_tag = 0x03 (float32)\n"
        "  1015  01                       layout_tag = 0x01 (row_major)\n"
        "  1016  02 00 00 00              rank = 2\n"
        "  1020  03 00 00 00 00 00 00 00  shape[0] = 3\n"
        "  1028  04 00 00                 shape[1]  <- the input ends here, with 3 of 8 bytes\n"
        "HURRAY_ERR_INVALID_LAYOUT: descriptor_length 61, but there are only 31 bytes\n");
    expect_text(
        worked, 0, &options,
        "  1000                           magic  <- the input ends here, with 0 of 4 bytes\n"
        "HURRAY_ERR_INVALID_LAYOUT: descriptor: 0 bytes, fewer than the 10 of its prefix\n");
}

static void later_versions_may_say_more(void **state) {
    (void)state;
    uint8_t bytes[sizeof worked + 9] = {0};
    memcpy(bytes, worked, sizeof worked);
    bytes[5] = 1;
    bytes[6] = sizeof bytes;
    memset(bytes + sizeof worked, 0xEE, 9);
    Bytes copy = copy_of(bytes, sizeof bytes);
    Sink sink = {0};
    assert_int_equal(check(&copy, &everything), HURRAY_OK);
    hurray_descriptor_print(copy.data, copy.length, NULL, keep, &sink, NULL);
    assert_non_null(strstr(sink.text,
                           "    61  EE EE EE EE EE EE EE EE  unknown, 9 bytes of a later "
                           "version\n"
                           "    69  EE\n"
                           "valid\n"));
    empty(&sink);
    copy.data[5] = 0; /* but this one has no more to say */
    assert_int_not_equal(check(&copy, &everything), HURRAY_OK);
    hurray_descriptor_print(copy.data, copy.length, NULL, keep, &sink, NULL);
    assert_non_null(strstr(sink.text, "unknown, 9 bytes  <- the last part has ended\n"));
    empty(&sink);
    free(copy.data);
}

static void quantized_tiles(void **state) {
    (void)state;
    const uint64_t shape[2] = {32, 64}, tiles[2][2] = {{16, 32}, {4, 8}};
    const int64_t strides[2] = {4, 1};
    const HurrayTileLevel levels[2] = {
        {.tile_shape = tiles[0],
         .outer_layout = HURRAY_LAYOUT_ROW_MAJOR,
         .inner_layout = HURRAY_LAYOUT_TILED},
        {.tile_shape = tiles[1],
         .outer_layout = HURRAY_LAYOUT_STRIDED,
         .inner_layout = HURRAY_LAYOUT_COL_MAJOR,
         .outer_strides = strides},
    };
    const HurrayBufferHandle buffers[2] = {{.byte_size = 1024, .alignment = 64},
                                           {.byte_size = 64, .alignment = 64}};
    const HurrayQuantization mxfp = {
        .scheme = HURRAY_SCHEME_MXFP,
        .axis = 1,
        .block_size = 32,
        .scale_buffer = 1,
        .scale_type = HURRAY_TYPE_FLOAT8_E8M0,
        .zero_point_buffer = HURRAY_NO_BUFFER,
    };
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_FLOAT4_E2M1,
        .rank = 2,
        .shape = shape,
        .layout = {HURRAY_LAYOUT_TILED, .tiled = {2, levels}},
        .buffer_count = 2,
        .buffers = buffers,
        .quantization = &mxfp,
    };
    uint8_t bytes[256];
    uintptr_t length = 0;
    if (hurray_descriptor_encode(&fields, bytes, sizeof bytes, &length) != HURRAY_OK) {
        fail_msg("%s", hurray_error_message());
    }
    expect_text(bytes, length, NULL,
                "offset  bytes                    field\n"
                "     0  48 52 52 59              magic = \"HRRY\"\n"
                "     4  01                       version_major = 1\n"
                "     5  00                       version_minor = 0\n"
                "     6  99 00 00 00              descriptor_length = 153\n"
                "    10  01 00 00 00              flags = 0x00000001 (HAS_QUANTIZATION)\n"
                "    14  43                       type_tag = 0x43 (float4_e2m1)\n"
                "    15  04                       layout_tag = 0x04 (tiled)\n"
                "    16  02 00 00 00              rank = 2\n"
                "    20  20 00 00 00 00 00 00 00  shape[0] = 32\n"
                "    28  40 00 00 00 00 00 00 00  shape[1] = 64\n"
                "    36  00 00 00 00 00 00 00 00  byte_offset = 0\n"
                "    44  10 00 00 00 00 00 00 00  levels[0].tile_shape[0] = 16\n"
                "    52  20 00 00 00 00 00 00 00  levels[0].tile_shape[1] = 32\n"
                "    60  01                       levels[0].outer_layout = 0x01 (row_major)\n"
                "    61  04                       levels[0].inner_layout = 0x04 (tiled)\n"
                "    62  00 00                    levels[0].reserved = 0\n"
                "    64  04 00 00 00 00 00 00 00  levels[1].tile_shape[0] = 4\n"
                "    72  08 00 00 00 00 00 00 00  levels[1].tile_shape[1] = 8\n"
                "    80  03                       levels[1].outer_layout = 0x03 (strided)\n"
                "    81  02                       levels[1].inner_layout = 0x02 (col_major)\n"
                "    82  00 00                    levels[1].reserved = 0\n"
                "    84  04 00 00 00 00 00 00 00  levels[1].outer_strides[0] = 4\n"
                "    92  01 00 00 00 00 00 00 00  levels[1].outer_strides[1] = 1\n"
                "   100  02                       buffer_count = 2\n"
                "   101  00 04 00 00 00 00 00 00  buffers[0].byte_size = 1024 (data)\n"
                "   109  40 00 00 00              buffers[0].alignment = 64\n"
                "   113  00                       buffers[0].device_tag = 0x00 (cpu)\n"
                "   114  00                       buffers[0].sync_mode = 0 (producer_synced)\n"
                "   115  00                       buffers[0].memory_class = 0 (standard)\n"
                "   116  00                       buffers[0].reserved = 0\n"
                "   117  40 00 00 00 00 00 00 00  buffers[1].byte_size = 64\n"
                "   125  40 00 00 00              buffers[1].alignment = 64\n"
                "   129  00                       buffers[1].device_tag = 0x00 (cpu)\n"
                "   130  00                       buffers[1].sync_mode = 0 (producer_synced)\n"
                "   131  00                       buffers[1].memory_class = 0 (standard)\n"
                "   132  00                       buffers[1].reserved = 0\n"
                "   133  10 00 00 00              quantization.length = 16\n"
                "   137  05                       quantization.scheme_tag = 0x05 (mxfp)\n"
                "   138  01                       quantization.scheme_version = 1\n"
                "   139  00 00                    quantization.flags = 0x0000 (none)\n"
                "   141  01 00 00 00              quantization.axis = 1\n"
                "   145  20 00 00 00              quantization.block_size = 32\n"
                "   149  01 00 00 00              quantization.scale_buffer = 1\n"
                "valid\n");
}

/* A scalar in private layout 77, whose data has more bytes than rows to show, none of them text. */
static void opaque_data_is_hex_and_not_all_of_it(void **state) {
    (void)state;
    uint8_t data[30];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(0xF0 + i);
    const HurrayBufferHandle buffer = {.byte_size = 4, .alignment = 64};
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_FLOAT32,
        .layout = {0xF7, .extension = {77, data, sizeof data}},
        .buffer_count = 1,
        .buffers = &buffer,
        .permissive = true,
    };
    uint8_t bytes[256];
    uintptr_t length = 0;
    if (hurray_descriptor_encode(&fields, bytes, sizeof bytes, &length) != HURRAY_OK) {
        fail_msg("%s", hurray_error_message());
    }
    const HurrayPrintOptions options = {.data_rows = 2, .decode = {.permissive = true}};
    Sink sink = {0};
    hurray_descriptor_print(bytes, length, &options, keep, &sink, NULL);
    assert_non_null(strstr(sink.text,
                           "    15  F7                       layout_tag = 0xF7 (private)\n"
                           "    16  00 00 00 00              rank = 0\n"
                           "    20  00 00 00 00 00 00 00 00  byte_offset = 0\n"
                           "    28  4D 00 00 00 00 00 00 00  extension_layout_id = 77\n"
                           "    36  1E 00 00 00              extension_data_length = 30\n"
                           "    40  F0 F1 F2 F3 F4 F5 F6 F7  extension_data, 30 bytes\n"
                           "    48  F8 F9 FA FB FC FD FE FF\n"
                           "   ...  14 more bytes\n"
                           "    70  01                       buffer_count = 1\n"));
    empty(&sink);

    const uint64_t known = 77;
    Bytes copy = copy_of(bytes, length);
    HurrayPrintOptions told = everything;
    assert_int_not_equal(check(&copy, &told), HURRAY_OK);
    assert_int_equal(check(&copy, &everything_permissive), HURRAY_OK);
    told.decode.known_layout_ids = &known;
    told.decode.known_layout_count = 1;
    assert_int_equal(check(&copy, &told), HURRAY_OK);
    copy.data[36] = 0xFF; /* more than is there */
    assert_int_not_equal(check(&copy, &told), HURRAY_OK);
    visit_bit_flips("", &copy);
    visit_truncations("", &copy);
    free(copy.data);
}

static void what_is_not_assigned_is_carried_by_the_permissive(void **state) {
    (void)state;
    Bytes copy = copy_of(worked, sizeof worked);
    copy.data[15] = 0x41;
    assert_int_equal(check(&copy, &everything), HURRAY_ERR_INVALID_LAYOUT);
    assert_int_equal(check(&copy, &everything_permissive), HURRAY_OK);
    Sink sink = {0};
    hurray_descriptor_print(copy.data, copy.length, &everything_permissive, keep, &sink, NULL);
    assert_non_null(strstr(sink.text, "layout_tag = 0x41 (not assigned)\n"));
    assert_non_null(strstr(sink.text, "    44  01 C0 00 00 00 00 00 00  unknown, 17 bytes\n"));
    empty(&sink);
    hurray_descriptor_print(copy.data, copy.length, NULL, keep, &sink, NULL);
    assert_non_null(strstr(sink.text, "layout_tag = 0x41  <- not assigned\n"));
    assert_non_null(
        strstr(sink.text, "   ...  17 more bytes are not shown\nHURRAY_ERR_INVALID_LAYOUT"));
    empty(&sink);
    for (unsigned tag = 0; tag <= 0xFF; tag++) {
        copy.data[15] = (uint8_t)tag;
        check(&copy, &everything);
        check(&copy, &everything_permissive);
    }
    copy.data[15] = HURRAY_LAYOUT_ROW_MAJOR;
    for (unsigned tag = 0; tag <= 0xFF; tag++) {
        copy.data[14] = (uint8_t)tag;
        check(&copy, &everything);
        check(&copy, &everything_permissive);
    }
    free(copy.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_example),
        cmocka_unit_test(a_newer_major_is_not_followed),
        cmocka_unit_test(an_end_in_the_middle_is_shown),
        cmocka_unit_test(later_versions_may_say_more),
        cmocka_unit_test(quantized_tiles),
        cmocka_unit_test(opaque_data_is_hex_and_not_all_of_it),
        cmocka_unit_test(what_is_not_assigned_is_carried_by_the_permissive),
        cmocka_unit_test(all_bytes_of_a_valid_descriptor_are_shown),
        cmocka_unit_test(every_fault_is_named),
        cmocka_unit_test(a_descriptor_may_end_anywhere),
        cmocka_unit_test(any_bit_may_be_wrong),
        cmocka_unit_test(colors_add_nothing_but_color),
        cmocka_unit_test(a_sink_that_fails_is_not_asked_again),
        cmocka_unit_test(columns_are_as_wide_as_wanted),
        cmocka_unit_test(options_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
