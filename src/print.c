/*
 * The annotated table of a descriptor (include/hurray/print.h).
 *
 * This file walks the bytes itself, so that it can show what does not decode; whether they are
 * valid it asks the decoder. What it knows is the order, size and form of the fields: a list for
 * each layout, scheme and section. Names of values come from the library's own tables.
 *
 * The walk goes on past a value that is wrong, and halts where nobody could say what the next bytes
 * are. It only ever goes forward, a row per field, so that the text is bounded by the bytes.
 */
#include <hurray/print.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <hurray/device.h>

#include "bytes.h"
#include "fail.h"
#include "layout.h"

#define DEFAULT_OFFSET_WIDTH 6u
#define DEFAULT_BYTES_PER_ROW 8u
#define DEFAULT_DATA_ROWS 16u

#define LABEL_SIZE 64u
#define VALUE_SIZE 160u
/* The longest line is the verdict: a status name and a message of at most 511 bytes. */
#define LINE_SIZE 640u

typedef struct Printer {
    const uint8_t *bytes;
    size_t end;        /* of what belongs to the part that is walked, and is there */
    const char *whole; /* what ends there */
    size_t position;
    HurrayPrintOptions options; /* without zeros */
    HurrayPrintWrite write;
    void *context;
    bool sink_failed;
    bool halted; /* nobody knows what comes next, or the sink has failed */
    char line[LINE_SIZE];
    size_t used;
} Printer;

/* What a row says after its bytes. */
typedef struct Value {
    char text[VALUE_SIZE];
    size_t used;
    bool permissive; /* how it is read */
    bool wrong;
} Value;

typedef struct Field Field;
typedef void Describe(const Field *field, const uint8_t *raw, Value *out);
struct Field {
    const char *name;
    uint8_t size; /* bytes */
    Describe *describe;
    const char *const *names; /* of the values from `first_name` on; NULL ends them */
    uint8_t first_name;
    bool per_dimension; /* an array of `rank` such fields */
};

typedef struct FieldList {
    uint8_t tag;
    uint8_t count;
    const Field *fields;
} FieldList;

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* ---- text ---- */

HRI_PRINTF(2, 3) static void add(Value *value, const char *format, ...) {
    size_t room = sizeof value->text - value->used;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(value->text + value->used, room, format, arguments);
    va_end(arguments);
    if (length > 0) value->used += (size_t)length < room ? (size_t)length : room - 1;
}

/* Says that the value is not what it must be, and what that is. */
HRI_PRINTF(2, 3) static void complain(Value *value, const char *format, ...) {
    size_t room;
    va_list arguments;
    add(value, "  <- ");
    room = sizeof value->text - value->used;
    va_start(arguments, format);
    int length = vsnprintf(value->text + value->used, room, format, arguments);
    va_end(arguments);
    if (length > 0) value->used += (size_t)length < room ? (size_t)length : room - 1;
    value->wrong = true;
}

/* The locale's decimal point is not ours. */
static void add_float(Value *value, int digits, double number) {
    char text[48];
    snprintf(text, sizeof text, "%.*g", digits, number);
    for (const char *p = text; *p != '\0'; p++) {
        bool known = (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || *p == '+' || *p == '-';
        if (known) {
            add(value, "%c", *p);
        } else if (((uint8_t)*p & 0xC0) != 0x80) { /* of a character of several bytes, the first */
            add(value, ".");
        }
    }
}

/* ---- lines ---- */

static void put(Printer *printer, const char *text, size_t length) {
    size_t room = sizeof printer->line - printer->used;
    if (length > room) length = room;
    memcpy(printer->line + printer->used, text, length);
    printer->used += length;
}

static void put_string(Printer *printer, const char *text) { put(printer, text, strlen(text)); }

static void put_color(Printer *printer, const char *escape) {
    if (printer->options.color) put_string(printer, escape);
}

#define FAINT "\x1b[2m"
#define RED "\x1b[31m"
#define GREEN "\x1b[32m"
#define PLAIN "\x1b[0m"

static void end_line(Printer *printer) {
    while (printer->used != 0 && printer->line[printer->used - 1] == ' ') printer->used--;
    put(printer, "\n", 1);
    if (!printer->sink_failed && !printer->write(printer->line, printer->used, printer->context)) {
        printer->sink_failed = printer->halted = true;
    }
    printer->used = 0;
}

static void put_offset(Printer *printer, const char *text) {
    put_color(printer, FAINT);
    for (size_t i = strlen(text); i < printer->options.offset_width; i++) put(printer, " ", 1);
    put_string(printer, text);
    put_color(printer, PLAIN);
    put_string(printer, "  ");
}

static void put_hex(Printer *printer, const uint8_t *bytes, size_t count) {
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < printer->options.bytes_per_row; i++) {
        char text[3] = "   ";
        if (i < count) {
            text[0] = digits[bytes[i] >> 4];
            text[1] = digits[bytes[i] & 15];
        }
        put(printer, text, sizeof text);
    }
    put(printer, " ", 1);
}

/* Rows for the `count` bytes before the position, `limit` at most; the first has the text. */
static void put_rows(Printer *printer, size_t count, uint32_t limit, const char *label,
                     const Value *value) {
    size_t at = printer->position - count, width = printer->options.bytes_per_row;
    char offset[24];
    for (uint32_t row = 0; (row == 0 || at < printer->position) && !printer->sink_failed; row++) {
        size_t left = printer->position - at, here = left < width ? left : width;
        if (row == limit) {
            put_offset(printer, "...");
            snprintf(offset, sizeof offset, "%zu", left);
            put_string(printer, offset);
            put_string(printer, left == 1 ? " more byte" : " more bytes");
            end_line(printer);
            return;
        }
        snprintf(offset, sizeof offset, "%" PRIu64, printer->options.first_offset + at);
        put_offset(printer, offset);
        put_hex(printer, here == 0 ? NULL : printer->bytes + at, here);
        if (row == 0) {
            if (value->wrong) put_color(printer, RED);
            put_string(printer, label);
            put(printer, value->text, value->used);
            if (value->wrong) put_color(printer, PLAIN);
        }
        end_line(printer);
        at += here;
    }
}

/* ---- the walk ---- */

/*
 * Takes a field of `size` bytes. Where fewer are left it prints those, halts, and gives NULL.
 */
static const uint8_t *take(Printer *printer, const char *label, size_t size) {
    if (printer->halted) return NULL;
    size_t left = printer->end - printer->position;
    if (size <= left) {
        printer->position += size;
        return printer->bytes + (printer->position - size);
    }
    Value value = {.used = 0};
    complain(&value, "the %s ends here, with %zu of %zu %s", printer->whole, left, size,
             size == 1 ? "byte" : "bytes");
    printer->position += left;
    put_rows(printer, left, printer->options.data_rows, label, &value);
    printer->halted = true;
    return NULL;
}

/* A row for one field, remarked upon with `note`; its bytes, NULL when the walk has ended. */
static const uint8_t *walk_field(Printer *printer, const char *label, const Field *field,
                                 const char *note) {
    const uint8_t *raw = take(printer, label, field->size);
    if (raw == NULL) return NULL;
    Value value = {.permissive = printer->options.decode.permissive};
    add(&value, " = ");
    field->describe(field, raw, &value);
    if (note != NULL) add(&value, " (%s)", note);
    put_rows(printer, field->size, UINT32_MAX, label, &value);
    return printer->halted ? NULL : raw;
}

/* Rows for a list of fields, with what they belong to before each name. */
static bool walk_fields(Printer *printer, const char *part, const Field *fields, size_t count,
                        uint32_t rank) {
    char label[LABEL_SIZE];
    for (size_t i = 0; i < count; i++) {
        uint32_t repeat = fields[i].per_dimension ? rank : 1;
        for (uint32_t k = 0; k < repeat; k++) {
            if (fields[i].per_dimension) {
                snprintf(label, sizeof label, "%s%s[%" PRIu32 "]", part, fields[i].name, k);
            } else {
                snprintf(label, sizeof label, "%s%s", part, fields[i].name);
            }
            if (walk_field(printer, label, &fields[i], NULL) == NULL) return false;
        }
    }
    return !printer->halted;
}

/* A u32 that says how many bytes follow it. */
static bool walk_length(Printer *printer, const char *label, uint32_t *out) {
    const uint8_t *raw = take(printer, label, 4);
    if (raw == NULL) return false;
    size_t left = printer->end - printer->position;
    uint32_t length = load_u32(raw);
    Value value = {.used = 0};
    add(&value, " = %" PRIu32, length);
    if (length > left) complain(&value, "only %zu %s left", left, left == 1 ? "is" : "are");
    put_rows(printer, 4, UINT32_MAX, label, &value);
    *out = length;
    return !printer->halted;
}

/* Bytes that are only shown, and not all of them when they are many. */
static bool walk_data(Printer *printer, const char *label, size_t count) {
    if (count == 0) return !printer->halted;
    if (take(printer, label, count) == NULL) return false;
    Value value = {.used = 0};
    add(&value, ", %zu %s", count, count == 1 ? "byte" : "bytes");
    put_rows(printer, count, printer->options.data_rows, label, &value);
    return !printer->halted;
}

/* ---- the forms of fields ---- */

static uint64_t load(const Field *field, const uint8_t *raw) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < field->size; i++) value |= (uint64_t)raw[i] << 8 * i;
    return value;
}

static void as_unsigned(const Field *field, const uint8_t *raw, Value *out) {
    add(out, "%" PRIu64, load(field, raw));
}

static void as_i32(const Field *field, const uint8_t *raw, Value *out) {
    uint32_t bits = (uint32_t)load(field, raw);
    int32_t number;
    memcpy(&number, &bits, sizeof number);
    add(out, "%" PRId32, number);
}

static void as_i64(const Field *field, const uint8_t *raw, Value *out) {
    uint64_t bits = load(field, raw);
    int64_t number;
    memcpy(&number, &bits, sizeof number);
    add(out, "%" PRId64, number);
}

static void as_f32(const Field *field, const uint8_t *raw, Value *out) {
    uint32_t bits = (uint32_t)load(field, raw);
    float number;
    memcpy(&number, &bits, sizeof number);
    add_float(out, 9, (double)number);
}

static void as_f64(const Field *field, const uint8_t *raw, Value *out) {
    uint64_t bits = load(field, raw);
    double number;
    memcpy(&number, &bits, sizeof number);
    add_float(out, 17, number);
}

static void as_extent(const Field *field, const uint8_t *raw, Value *out) {
    as_unsigned(field, raw, out);
    if (load(field, raw) == HURRAY_DYNAMIC) add(out, " (dynamic)");
}

/* An index of which the greatest value says that there is none. */
static void as_optional(const Field *field, const uint8_t *raw, Value *out) {
    as_unsigned(field, raw, out);
    if (load(field, raw) == UINT32_MAX) add(out, " (none)");
}

static void as_zeros(const Field *field, const uint8_t *raw, Value *out) {
    bool zero = true;
    for (uint32_t i = 0; i < field->size; i++) zero = zero && raw[i] == 0;
    add(out, zero ? "0" : "not 0");
    if (!zero) complain(out, "expected 0");
}

/* A choice of few, named by the list of the field. */
static void as_choice(const Field *field, const uint8_t *raw, Value *out) {
    uint32_t count = 0;
    while (field->names[count] != NULL) count++;
    as_unsigned(field, raw, out);
    uint64_t value = load(field, raw);
    if (value >= field->first_name && value - field->first_name < count) {
        add(out, " (%s)", field->names[value - field->first_name]);
    } else {
        complain(out, "expected %u to %" PRIu32, field->first_name, field->first_name + count - 1);
    }
}

static void as_rule(const Field *field, const uint8_t *raw, Value *out) {
    if (raw[0] >= 0xF0 && raw[0] <= 0xFE) {
        add(out, "0x%02X (private)", raw[0]);
    } else {
        as_choice(field, raw, out);
    }
}

static bool is_private(uint8_t tag) { return tag >= 0xF0 && tag <= 0xFE; }

/* A tag: its name, or what else is to be said of it. Permissive readers carry those that a later
 * version may assign. */
static void add_tag(Value *out, uint8_t tag, const char *name, bool may_be_assigned) {
    add(out, "0x%02X", tag);
    if (name != NULL || is_private(tag)) {
        add(out, " (%s)", name != NULL ? name : "private");
    } else if (!may_be_assigned) {
        complain(out, "invalid");
    } else if (out->permissive) {
        add(out, " (not assigned)");
    } else {
        complain(out, "not assigned");
    }
}

static void as_element_type(const Field *field, const uint8_t *raw, Value *out) {
    (void)field;
    const HurrayElementType *type = hurray_element_type_from_tag(raw[0]);
    add_tag(out, raw[0], type == NULL ? NULL : type->name, hurray_element_type_is_reserved(raw[0]));
}

static void as_layout(const Field *field, const uint8_t *raw, Value *out) {
    (void)field;
    add_tag(out, raw[0], hurray_layout_name(raw[0]),
            hurray_layout_tag_kind(raw[0]) == HURRAY_LAYOUT_TAG_RESERVED);
}

static void as_scheme(const Field *field, const uint8_t *raw, Value *out) {
    (void)field;
    add_tag(out, raw[0], hurray_scheme_name(raw[0]), raw[0] != 0x00 && raw[0] != 0xFF);
}

static void as_device(const Field *field, const uint8_t *raw, Value *out) {
    (void)field;
    const char *name = hurray_device_name(raw[0]);
    add(out, "0x%02X", raw[0]);
    if (name != NULL || is_private(raw[0])) {
        add(out, " (%s)", name != NULL ? name : "private");
    } else {
        complain(out, raw[0] == 0xFF ? "invalid" : "not assigned");
    }
}

static void as_memory_class(const Field *field, const uint8_t *raw, Value *out) {
    (void)field;
    const char *name = hurray_memory_class_name(raw[0]);
    add(out, name != NULL ? "%u" : "0x%02X", raw[0]);
    if (name != NULL || is_private(raw[0])) {
        add(out, " (%s)", name != NULL ? name : "private");
    } else {
        complain(out, "not assigned");
    }
}

static void as_sync_mode(const Field *field, const uint8_t *raw, Value *out) {
    (void)field;
    const char *name = hurray_sync_mode_name(raw[0]);
    add(out, "%u", raw[0]);
    if (name != NULL) {
        add(out, " (%s)", name);
    } else {
        complain(out, "not assigned");
    }
}

/* Bits by name, in a field of theirs; those without one are wrong. */
static void add_bits(Value *out, uint32_t bits, const char *const *names, uint32_t count) {
    const char *separator = " (";
    for (uint32_t i = 0; i < count; i++) {
        if ((bits >> i & 1) == 0) continue;
        add(out, "%s%s", separator, names[i]);
        separator = ", ";
    }
    add(out, bits == 0 ? " (none)" : *separator == ',' ? ")" : "");
    if ((bits >> (count - 1) >> 1) != 0) complain(out, "unknown bits");
}

static void as_bits(const Field *field, const uint8_t *raw, Value *out) {
    uint32_t count = 0;
    while (field->names[count] != NULL) count++;
    uint32_t bits = (uint32_t)load(field, raw);
    add(out, "0x%0*" PRIX32, field->size * 2, bits);
    add_bits(out, bits, field->names, count);
}

#define EXTENTS(field) {.name = (field), .size = 8, .describe = as_extent, .per_dimension = true}
#define UNSIGNED(field, bytes) {.name = (field), .size = (bytes), .describe = as_unsigned}
#define CHOICE(field, list, first) \
    {.name = (field), .size = 1, .describe = as_choice, .names = (list), .first_name = (first)}
#define ZEROS(bytes) {.name = "reserved", .size = (bytes), .describe = as_zeros}
#define FIELD(field, bytes, form) {.name = (field), .size = (bytes), .describe = (form)}

static const char *const no_or_yes[] = {"no", "yes", NULL};

/* ---- layouts ---- */

static const char *const role_names[] = {"key", "value", "fused", NULL};
static const char *const index_names[] = {"uint32", "uint64", NULL};
static const char *const rule_names[] = {"partition", "overlay", "group", NULL};
static const char *const combine_names[] = {"none", "replace", "add", NULL};

static const Field strided_fields[] = {
    {.name = "strides", .size = 8, .describe = as_i64, .per_dimension = true},
};
static const Field morton_fields[] = {
    {.name = "morton_bits", .size = 4, .describe = as_unsigned, .per_dimension = true},
};
static const Field hilbert_fields[] = {UNSIGNED("hilbert_order", 4), UNSIGNED("hilbert_rank", 4)};
static const Field coo_fields[] = {
    UNSIGNED("nnz", 8),
    CHOICE("is_sorted", no_or_yes, 0),
    ZEROS(7),
};
static const Field compressed_fields[] = {UNSIGNED("nnz", 8), ZEROS(8)};
static const Field csf_fields[] = {
    UNSIGNED("nnz", 8),
    {.name = "mode_order", .size = 4, .describe = as_unsigned, .per_dimension = true},
    ZEROS(8),
};
static const Field paged_fields[] = {
    UNSIGNED("page_size", 4),
    UNSIGNED("num_pages", 8),
    UNSIGNED("paged_axis", 4),
    UNSIGNED("num_seqs", 4),
    CHOICE("kv_role", role_names, 0),
    FIELD("layer_index", 4, as_optional),
    CHOICE("block_table_index_type", index_names, 0),
    ZEROS(6),
};
static const Field composite_fields[] = {
    {"composition_rule", 1, as_rule, rule_names, 1, false},
    CHOICE("combine_op", combine_names, 0),
    ZEROS(2),
    UNSIGNED("member_count", 4),
};

/* Tiled, private and opaque layouts have walks of their own. */
static const FieldList layout_lists[] = {
    {HURRAY_LAYOUT_ROW_MAJOR, 0, NULL},
    {HURRAY_LAYOUT_COL_MAJOR, 0, NULL},
    {HURRAY_LAYOUT_STRIDED, LENGTH(strided_fields), strided_fields},
    {HURRAY_LAYOUT_MORTON, LENGTH(morton_fields), morton_fields},
    {HURRAY_LAYOUT_COO, LENGTH(coo_fields), coo_fields},
    {HURRAY_LAYOUT_CSR, LENGTH(compressed_fields), compressed_fields},
    {HURRAY_LAYOUT_CSC, LENGTH(compressed_fields), compressed_fields},
    {HURRAY_LAYOUT_CSF, LENGTH(csf_fields), csf_fields},
    {HURRAY_LAYOUT_BLOCK_PAGED, LENGTH(paged_fields), paged_fields},
    {HURRAY_LAYOUT_COMPOSITE, LENGTH(composite_fields), composite_fields},
    {HURRAY_LAYOUT_HILBERT, LENGTH(hilbert_fields), hilbert_fields},
};

static const FieldList *list_of(const FieldList *lists, size_t count, uint8_t tag) {
    for (size_t i = 0; i < count; i++) {
        if (lists[i].tag == tag) return &lists[i];
    }
    return NULL;
}

/* Which layouts can stand outside and inside of tiles, spec 2.3. */
static bool can_tile(uint8_t tag, bool inside) {
    return tag == HURRAY_LAYOUT_ROW_MAJOR || tag == HURRAY_LAYOUT_COL_MAJOR ||
           tag == HURRAY_LAYOUT_STRIDED || (inside && tag == HURRAY_LAYOUT_TILED);
}

static void as_outer_layout(const Field *field, const uint8_t *raw, Value *out) {
    as_layout(field, raw, out);
    if (!out->wrong && !can_tile(raw[0], false)) complain(out, "tiles cannot be arranged so");
}

static void as_inner_layout(const Field *field, const uint8_t *raw, Value *out) {
    as_layout(field, raw, out);
    if (!out->wrong && !can_tile(raw[0], true)) complain(out, "tiles cannot be filled so");
}

/* One level; the layout inside of its tiles goes to `out_inner`. */
static bool walk_level(Printer *printer, const char *part, uint32_t rank, uint8_t *out_inner) {
    static const Field head[] = {
        EXTENTS("tile_shape"),
        FIELD("outer_layout", 1, as_outer_layout),
        FIELD("inner_layout", 1, as_inner_layout),
        ZEROS(2),
    };
    static const Field outer_strides = {"outer_strides", 8, as_i64, NULL, 0, true};
    static const Field inner_strides = {"inner_strides", 8, as_i64, NULL, 0, true};
    if (!walk_fields(printer, part, head, LENGTH(head), rank)) return false;
    uint8_t outer = printer->bytes[printer->position - 4];
    uint8_t inner = printer->bytes[printer->position - 3];
    /* Of another layout it is not known whether it has strides. */
    printer->halted = !can_tile(outer, false) || !can_tile(inner, true);
    if (outer == HURRAY_LAYOUT_STRIDED) walk_fields(printer, part, &outer_strides, 1, rank);
    if (inner == HURRAY_LAYOUT_STRIDED) walk_fields(printer, part, &inner_strides, 1, rank);
    *out_inner = inner;
    return !printer->halted;
}

static bool walk_tiled(Printer *printer, uint32_t rank) {
    uint8_t inner = HURRAY_LAYOUT_TILED;
    for (uint32_t i = 0; i < HURRAY_MAX_TILE_LEVELS && inner == HURRAY_LAYOUT_TILED; i++) {
        char part[LABEL_SIZE];
        snprintf(part, sizeof part, "levels[%" PRIu32 "].", i);
        if (!walk_level(printer, part, rank, &inner)) return false;
    }
    printer->halted = inner == HURRAY_LAYOUT_TILED; /* one level too many */
    return !printer->halted;
}

static bool walk_private_layout(Printer *printer) {
    static const Field id = UNSIGNED("extension_layout_id", 8);
    uint32_t length;
    return walk_fields(printer, "", &id, 1, 0) &&
           walk_length(printer, "extension_data_length", &length) &&
           walk_data(printer, "extension_data", length);
}

static bool walk_layout(Printer *printer, uint8_t tag, uint32_t rank) {
    HurrayLayoutTagKind kind = hurray_layout_tag_kind(tag);
    if (tag == HURRAY_LAYOUT_TILED) return walk_tiled(printer, rank);
    if (kind == HURRAY_LAYOUT_TAG_PRIVATE) return walk_private_layout(printer);
    const FieldList *list = list_of(layout_lists, LENGTH(layout_lists), tag);
    if (list != NULL) return walk_fields(printer, "", list->fields, list->count, rank);
    /* Nobody knows where its fields end. */
    if (kind == HURRAY_LAYOUT_TAG_RESERVED && printer->options.decode.permissive) {
        walk_data(printer, "unknown", printer->end - printer->position);
    }
    printer->halted = true;
    return false;
}

/* ---- buffers ---- */

static bool walk_buffers(Printer *printer, uint8_t layout_tag, uint32_t rank) {
    static const Field count_field = UNSIGNED("buffer_count", 1);
    static const Field first = UNSIGNED("byte_size", 8);
    static const Field rest[] = {
        UNSIGNED("alignment", 4),
        FIELD("device_tag", 1, as_device),
        FIELD("sync_mode", 1, as_sync_mode),
        FIELD("memory_class", 1, as_memory_class),
        ZEROS(1),
    };
    const LayoutKind *kind = hri_layout_kind(layout_tag);
    uint32_t own = kind->buffer_roles == NULL ? 0 : hri_layout_buffer_count(kind, rank);
    const uint8_t *raw = walk_field(printer, "buffer_count", &count_field, NULL);
    uint32_t count = raw == NULL ? 0 : *raw;
    bool rank_fits = rank >= kind->min_rank && rank <= kind->max_rank;
    for (uint32_t i = 0; i < count && !printer->halted; i++) {
        char part[LABEL_SIZE], label[LABEL_SIZE];
        snprintf(part, sizeof part, "buffers[%" PRIu32 "].", i);
        snprintf(label, sizeof label, "buffers[%" PRIu32 "].%s", i, first.name);
        walk_field(printer, label, &first, rank_fits && i < own ? kind->buffer_roles[i] : NULL);
        walk_fields(printer, part, rest, LENGTH(rest), 0);
    }
    return !printer->halted;
}

/* ---- sections ---- */

static const Field per_tensor_fields[] = {
    FIELD("scale", 4, as_f32),
    FIELD("zero_point", 4, as_i32),
    ZEROS(4),
};
static const Field per_channel_fields[] = {
    UNSIGNED("axis", 4),
    UNSIGNED("scale_buffer", 4),
    FIELD("zero_point_buffer", 4, as_optional),
    FIELD("scale_type", 1, as_element_type),
    ZEROS(3),
};
static const Field per_block_fields[] = {
    UNSIGNED("axis", 4),
    UNSIGNED("block_size", 4),
    UNSIGNED("scale_buffer", 4),
    FIELD("zero_point_buffer", 4, as_optional),
    FIELD("scale_type", 1, as_element_type),
    ZEROS(3),
};
static const Field block_fields[] = {
    UNSIGNED("axis", 4),
    UNSIGNED("block_size", 4),
    UNSIGNED("scale_buffer", 4),
};

static const FieldList scheme_lists[] = {
    {HURRAY_SCHEME_PER_TENSOR, LENGTH(per_tensor_fields), per_tensor_fields},
    {HURRAY_SCHEME_PER_CHANNEL, LENGTH(per_channel_fields), per_channel_fields},
    {HURRAY_SCHEME_PER_BLOCK, LENGTH(per_block_fields), per_block_fields},
    {HURRAY_SCHEME_NF4, LENGTH(block_fields), block_fields},
    {HURRAY_SCHEME_MXFP, LENGTH(block_fields), block_fields},
};

/* The payload, to the printer's end. */
static bool walk_scheme(Printer *printer) {
    static const char *const flag_names[] = {"SYMMETRIC", NULL};
    static const Field tag_field = FIELD("scheme_tag", 1, as_scheme);
    static const Field head[] = {
        UNSIGNED("scheme_version", 1),
        {"flags", 2, as_bits, flag_names, 0, false},
    };
    static const char part[] = "quantization.";
    const uint8_t *tag = walk_field(printer, "quantization.scheme_tag", &tag_field, NULL);
    if (tag == NULL) return false;
    const FieldList *list = list_of(scheme_lists, LENGTH(scheme_lists), *tag);
    if (list == NULL) {
        return walk_data(printer, "quantization.unknown", printer->end - printer->position);
    }
    return walk_fields(printer, part, head, LENGTH(head), 0) &&
           walk_fields(printer, part, list->fields, list->count, 0) &&
           walk_data(printer, "quantization.trailing", printer->end - printer->position);
}

static bool walk_quantization(Printer *printer, uint32_t rank) {
    (void)rank;
    uint32_t length;
    if (!walk_length(printer, "quantization.length", &length)) return false;
    size_t end = printer->end, left = end - printer->position;
    const char *around = printer->whole;
    if (length <= left) printer->whole = "section";
    printer->end = printer->position + (length < left ? length : left);
    bool whole = walk_scheme(printer);
    printer->whole = around;
    printer->end = end;
    printer->halted = printer->halted || length > left;
    return whole && !printer->halted;
}

static bool walk_shard(Printer *printer, uint32_t rank) {
    static const Field fields[] = {EXTENTS("parent_shape"), EXTENTS("shard_offset")};
    return walk_fields(printer, "shard.", fields, LENGTH(fields), rank);
}

static bool walk_statistics(Printer *printer, uint32_t rank) {
    static const char *const mask_names[] = {"nnz", "sparsity", "range", "moments",
                                             "n:m", "specials", NULL};
    static const Field head[] = {
        {"computed_mask", 4, as_bits, mask_names, 0, false},
        ZEROS(4),
    };
    static const struct {
        Field field;
        uint32_t bit; /* of the mask, which says whether the field means anything */
    } fields[] = {
        {UNSIGNED("nnz", 8), HURRAY_STATISTICS_NNZ},
        {FIELD("sparsity_ratio", 8, as_f64), HURRAY_STATISTICS_SPARSITY},
        {FIELD("value_min", 8, as_f64), HURRAY_STATISTICS_RANGE},
        {FIELD("value_max", 8, as_f64), HURRAY_STATISTICS_RANGE},
        {FIELD("value_abs_max", 8, as_f64), HURRAY_STATISTICS_RANGE},
        {FIELD("value_mean", 8, as_f64), HURRAY_STATISTICS_MOMENTS},
        {FIELD("value_stddev", 8, as_f64), HURRAY_STATISTICS_MOMENTS},
        {UNSIGNED("nm_n", 1), HURRAY_STATISTICS_NM},
        {UNSIGNED("nm_m", 1), HURRAY_STATISTICS_NM},
        {UNSIGNED("has_nan", 1), HURRAY_STATISTICS_SPECIALS},
        {UNSIGNED("has_inf", 1), HURRAY_STATISTICS_SPECIALS},
    };
    static const Field tail = ZEROS(4);
    (void)rank;
    if (!walk_fields(printer, "statistics.", head, LENGTH(head), 0)) return false;
    uint32_t mask = load_u32(printer->bytes + printer->position - 8);
    for (size_t i = 0; i < LENGTH(fields); i++) {
        char label[LABEL_SIZE];
        snprintf(label, sizeof label, "statistics.%s", fields[i].field.name);
        const char *note = (mask & fields[i].bit) != 0 ? NULL : "not computed";
        if (walk_field(printer, label, &fields[i].field, note) == NULL) return false;
    }
    return walk_fields(printer, "statistics.", &tail, 1, 0);
}

static bool walk_extension_type(Printer *printer, uint32_t rank) {
    static const Field fields[] = {
        UNSIGNED("bit_width", 4),         UNSIGNED("packing_factor", 1),
        CHOICE("is_float", no_or_yes, 0), CHOICE("is_signed", no_or_yes, 0),
        UNSIGNED("sign_bits", 1),         UNSIGNED("exponent_bits", 1),
        UNSIGNED("mantissa_bits", 1),     ZEROS(2),
        UNSIGNED("exponent_bias", 4),     CHOICE("has_nan", no_or_yes, 0),
        CHOICE("has_inf", no_or_yes, 0),  ZEROS(2),
    };
    (void)rank;
    return walk_fields(printer, "extension_type.", fields, LENGTH(fields), 0);
}

static bool walk_member(Printer *printer, uint32_t rank) {
    static const char *const member_roles[] = {"correction", "base", NULL};
    static const Field fields[] = {CHOICE("member_role", member_roles, 0), ZEROS(15)};
    (void)rank;
    return walk_fields(printer, "member.", fields, LENGTH(fields), 0);
}

/* By bit of the header's flags. */
static const char *const section_flags[] = {
    "HAS_QUANTIZATION",     "HAS_SHARD", "HAS_EXTENSION_TYPE", "HAS_STATISTICS",
    "HAS_COMPOSITE_MEMBER", NULL,
};

/* In the order of their bytes, which is not that of the bits (spec 1.7). */
static const struct {
    uint32_t bit;
    bool (*walk)(Printer *printer, uint32_t rank);
} sections[] = {
    {0, walk_quantization},   {1, walk_shard},  {3, walk_statistics},
    {2, walk_extension_type}, {4, walk_member},
};

static bool walk_sections(Printer *printer, uint32_t flags, uint32_t rank) {
    for (size_t i = 0; i < LENGTH(sections); i++) {
        if ((flags >> sections[i].bit & 1) == 0) continue;
        if (!sections[i].walk(printer, rank)) return false;
    }
    return !printer->halted;
}

/* ---- the whole ---- */

static void as_magic(const Field *field, const uint8_t *raw, Value *out) {
    if (memcmp(raw, HURRAY_DESCRIPTOR_MAGIC, field->size) == 0) {
        add(out, "\"%s\"", HURRAY_DESCRIPTOR_MAGIC);
    } else {
        complain(out, "expected 48 52 52 59 (\"%s\")", HURRAY_DESCRIPTOR_MAGIC);
    }
}

static void as_major(const Field *field, const uint8_t *raw, Value *out) {
    as_unsigned(field, raw, out);
    if (raw[0] != HURRAY_FORMAT_VERSION_MAJOR) {
        complain(out, "expected %u", HURRAY_FORMAT_VERSION_MAJOR);
    }
}

static void as_rank(const Field *field, const uint8_t *raw, Value *out) {
    as_unsigned(field, raw, out);
    if (load(field, raw) > HURRAY_MAX_RANK) complain(out, "expected at most %u", HURRAY_MAX_RANK);
}

/* The first 10 bytes, which say how far the descriptor goes. */
static bool walk_prefix(Printer *printer) {
    static const Field magic = FIELD("magic", 4, as_magic);
    static const Field major = FIELD("version_major", 1, as_major);
    static const Field minor = UNSIGNED("version_minor", 1);
    const uint8_t *raw = walk_field(printer, magic.name, &magic, NULL);
    if (raw == NULL || memcmp(raw, HURRAY_DESCRIPTOR_MAGIC, 4) != 0) return false;
    raw = walk_field(printer, major.name, &major, NULL);
    if (raw == NULL || *raw != HURRAY_FORMAT_VERSION_MAJOR) return false;
    if (walk_field(printer, minor.name, &minor, NULL) == NULL) return false;

    raw = take(printer, "descriptor_length", 4);
    if (raw == NULL) return false;
    Value value = {.used = 0};
    uint32_t length = load_u32(raw);
    add(&value, " = %" PRIu32, length);
    if (length < HURRAY_DESCRIPTOR_HEADER_SIZE) {
        complain(&value, "expected at least %u", HURRAY_DESCRIPTOR_HEADER_SIZE);
    } else if (length > printer->end) {
        complain(&value, "only %zu bytes are there", printer->end);
    }
    put_rows(printer, 4, UINT32_MAX, "descriptor_length", &value);
    if (length < HURRAY_DESCRIPTOR_HEADER_SIZE) return false;
    if (length <= printer->end) {
        printer->end = length;
        printer->whole = "descriptor";
    }
    return !printer->halted;
}

/* What is left behind the last part: of a later minor version, or too much. */
static void walk_rest(Printer *printer) {
    size_t left = printer->end - printer->position;
    bool later = printer->bytes[5] > HURRAY_FORMAT_VERSION_MINOR;
    if (printer->halted || left == 0) return;
    Value value = {.used = 0};
    add(&value, ", %zu %s", left, left == 1 ? "byte" : "bytes");
    if (later) add(&value, " of a later version");
    if (!later) complain(&value, "the last part has ended");
    printer->position = printer->end;
    put_rows(printer, left, printer->options.data_rows, "unknown", &value);
}

static void walk_descriptor(Printer *printer) {
    static const Field head[] = {
        {"flags", 4, as_bits, section_flags, 0, false},
        FIELD("type_tag", 1, as_element_type),
        FIELD("layout_tag", 1, as_layout),
        FIELD("rank", 4, as_rank),
    };
    static const Field place[] = {EXTENTS("shape"), UNSIGNED("byte_offset", 8)};
    if (!walk_prefix(printer)) return;
    if (!walk_fields(printer, "", head, LENGTH(head), 0)) return;
    const uint8_t *raw = printer->bytes + HURRAY_DESCRIPTOR_PREFIX_SIZE;
    uint32_t flags = load_u32(raw), rank = load_u32(raw + 6);
    uint8_t layout_tag = raw[5];
    if (rank > HURRAY_MAX_RANK) return;
    if (walk_fields(printer, "", place, LENGTH(place), rank) &&
        walk_layout(printer, layout_tag, rank) && walk_buffers(printer, layout_tag, rank) &&
        walk_sections(printer, flags, rank)) {
        walk_rest(printer);
    }
}

/* Bytes that the walk did not come to. */
static void put_remainder(Printer *printer) {
    size_t left = printer->end - printer->position;
    if (left == 0 || printer->sink_failed) return;
    char text[64];
    put_offset(printer, "...");
    snprintf(text, sizeof text, "%zu more %s not shown", left, left == 1 ? "byte is" : "bytes are");
    put_string(printer, text);
    end_line(printer);
}

static void put_heading(Printer *printer) {
    if (printer->options.no_heading) return;
    put_offset(printer, "offset");
    size_t width = 3 * (size_t)printer->options.bytes_per_row + 1;
    put_color(printer, FAINT);
    put_string(printer, "bytes");
    for (size_t i = 5; i < width; i++) put(printer, " ", 1);
    put_string(printer, "field");
    put_color(printer, PLAIN);
    end_line(printer);
}

static HurrayStatus put_verdict(Printer *printer, const uint8_t *bytes, uintptr_t length) {
    static const uint8_t nothing[1] = {0};
    HurrayDescriptor *descriptor = NULL;
    HurrayStatus status = hurray_descriptor_decode_with(bytes == NULL ? nothing : bytes, length,
                                                        &printer->options.decode, &descriptor);
    put_color(printer, status == HURRAY_OK ? GREEN : RED);
    put_string(printer, status == HURRAY_OK ? "valid" : hurray_status_name(status));
    if (status != HURRAY_OK) {
        put_string(printer, ": ");
        put_string(printer, hurray_error_message());
    }
    put_color(printer, PLAIN);
    end_line(printer);
    if (status == HURRAY_OK) hurray_descriptor_destroy(descriptor);
    return status;
}

static HurrayStatus set_options(const HurrayPrintOptions *options, HurrayPrintOptions *out) {
    if (options != NULL) *out = *options;
    if (out->offset_width > HURRAY_PRINT_MAX_OFFSET_WIDTH) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "options.offset_width is %" PRIu32 ", expected at most %u",
                        out->offset_width, HURRAY_PRINT_MAX_OFFSET_WIDTH);
    }
    if (out->bytes_per_row > HURRAY_PRINT_MAX_BYTES_PER_ROW) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "options.bytes_per_row is %" PRIu32 ", expected at most %u",
                        out->bytes_per_row, HURRAY_PRINT_MAX_BYTES_PER_ROW);
    }
    if (out->decode.known_layout_ids == NULL && out->decode.known_layout_count != 0) {
        return hri_fail_null("options.decode.known_layout_ids");
    }
    if (out->offset_width == 0) out->offset_width = DEFAULT_OFFSET_WIDTH;
    if (out->bytes_per_row == 0) out->bytes_per_row = DEFAULT_BYTES_PER_ROW;
    if (out->data_rows == 0) out->data_rows = DEFAULT_DATA_ROWS;
    return HURRAY_OK;
}

HurrayStatus hurray_descriptor_print(const uint8_t *bytes, uintptr_t length,
                                     const HurrayPrintOptions *options, HurrayPrintWrite write,
                                     void *context, HurrayStatus *out_verdict) {
    if (bytes == NULL && length != 0) return hri_fail_null("bytes");
    if (write == NULL) return hri_fail_null("write");
    Printer printer = {
        .bytes = bytes, .end = length, .whole = "input", .write = write, .context = context};
    HurrayStatus status = set_options(options, &printer.options);
    if (status != HURRAY_OK) return status;
    put_heading(&printer);
    walk_descriptor(&printer);
    put_remainder(&printer);
    HurrayStatus verdict = printer.sink_failed ? HURRAY_OK : put_verdict(&printer, bytes, length);
    if (printer.sink_failed) {
        return hri_fail(HURRAY_ERR_INTERNAL,
                        "the caller's write function failed, so that printing ended");
    }
    if (out_verdict != NULL) *out_verdict = verdict;
    return HURRAY_OK;
}
