/*
 * Metadata (include/hurray/key_value.h, spec 4.3).
 *
 * A list keeps its entries in an array, what they point to in blocks of memory behind each other,
 * and a table of the keys. A decoded list has two blocks: a copy of the section, which the texts
 * point into, and all scalars.
 */
#include <hurray/key_value.h>

#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "checked.h"
#include "fail.h"
#include "name_table.h"
#include "utf8.h"

typedef struct Block {
    struct Block *next;
} Block;

struct HurrayKeyValues {
    HurrayKeyValue *entries;
    uint32_t count;
    uint32_t capacity;
    HriNameTable keys;
    Block *blocks;
};

/* Bytes of the least entry: key_length, a key, value_tag, a bool. */
#define MIN_ENTRY_SIZE 5u
/* Bytes of a key that an error message shows. */
#define SHOWN_KEY 64

HurrayStatus hurray_key_values_create(HurrayKeyValues **out) {
    if (out == NULL) return hri_fail_null("out");
    HurrayKeyValues *list = calloc(1, sizeof *list);
    if (list == NULL) return hri_fail_memory(sizeof *list);
    *out = list;
    return HURRAY_OK;
}

HurrayStatus hurray_key_values_destroy(HurrayKeyValues **list) {
    if (list == NULL) return hri_fail_null("list");
    if (*list == NULL) return HURRAY_OK;
    Block *block = (*list)->blocks;
    while (block != NULL) {
        Block *next = block->next;
        free(block);
        block = next;
    }
    hri_name_table_clear(&(*list)->keys);
    free((*list)->entries);
    free(*list);
    *list = NULL;
    return HURRAY_OK;
}

/* ---- growing ---- */

/* `bytes` bytes, aligned for scalars, that live as long as the list. NULL, with the message set, when
 * there is no memory. */
static void *new_block(HurrayKeyValues *list, uint64_t bytes) {
    const size_t head = sizeof(HurrayScalar); /* a Block, and the alignment of what follows */
    _Static_assert(sizeof(HurrayScalar) >= sizeof(Block), "a block's head has room");
    uint64_t total;
    size_t size;
    if (!checked_add_u64(bytes, head, &total) || !checked_size(total, &size)) {
        hri_fail_memory(bytes);
        return NULL;
    }
    Block *block = malloc(size);
    if (block == NULL) {
        hri_fail_memory(size);
        return NULL;
    }
    block->next = list->blocks;
    list->blocks = block;
    return (char *)block + head;
}

static HurrayStatus reserve(HurrayKeyValues *list, uint32_t more) {
    uint64_t needed = (uint64_t)list->count + more, capacity = list->capacity;
    if (needed > UINT32_MAX) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT, "a section holds at most %u entries",
                        UINT32_MAX);
    }
    if (needed > capacity) {
        capacity = 2 * capacity > needed ? 2 * capacity : needed;
        if (capacity > UINT32_MAX) capacity = UINT32_MAX;
        size_t bytes;
        if (!checked_size(capacity * sizeof(HurrayKeyValue), &bytes)) {
            return hri_fail_memory(capacity * sizeof(HurrayKeyValue));
        }
        HurrayKeyValue *entries = realloc(list->entries, bytes);
        if (entries == NULL) return hri_fail_memory(bytes);
        list->entries = entries;
        list->capacity = (uint32_t)capacity;
    }
    return hri_name_table_reserve(&list->keys, more);
}

static HriName key_at(const void *owner, uint32_t number) {
    const HurrayKeyValues *list = owner;
    return (HriName){list->entries[number].key.data, list->entries[number].key.length};
}

static uint32_t find(const HurrayKeyValues *list, const char *key, size_t length) {
    return hri_name_table_find(&list->keys, (HriName){key, length}, key_at, list);
}

/* For which there is room. */
static void append(HurrayKeyValues *list, const HurrayKeyValue *entry) {
    list->entries[list->count++] = *entry;
    hri_name_table_add(&list->keys, (HriName){entry->key.data, entry->key.length});
}

/* ---- what is allowed ---- */

static bool is_text(uint8_t tag) { return tag == HURRAY_VALUE_STRING || tag == HURRAY_VALUE_BYTES; }

static bool is_scalar(uint8_t tag) {
    return tag >= HURRAY_VALUE_STRING && tag <= HURRAY_VALUE_BYTES;
}

/* Bytes of a scalar on the wire, without those of a text. */
static uint32_t wire_size(uint8_t tag) {
    return tag == HURRAY_VALUE_BOOL ? 1 : is_text(tag) ? 4 : 8;
}

static uint8_t scalar_tag(const HurrayKeyValue *entry) {
    return entry->tag == HURRAY_VALUE_ARRAY ? entry->element_tag : entry->tag;
}

static int shown(const HurrayText *key) {
    return key->length < SHOWN_KEY ? (int)key->length : SHOWN_KEY;
}

static HurrayStatus refuse(const HurrayKeyValue *entry, const char *rule) {
    return hri_fail(HURRAY_ERR_INVALID_ARGUMENT, "metadata entry \"%.*s\": %s", shown(&entry->key),
                    entry->key.data, rule);
}

static HurrayStatus check_key(const HurrayKeyValues *list, const HurrayText *key) {
    if (key->length == 0 || key->length > HURRAY_MAX_KEY_LENGTH) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "a metadata key has %u bytes, expected 1 to %u", key->length,
                        HURRAY_MAX_KEY_LENGTH);
    }
    if (key->data == NULL) return hri_fail_null("entry->key.data");
    size_t valid = hri_utf8_valid_length(key->data, key->length);
    if (valid != key->length) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "metadata key \"%.*s\" is not UTF-8: its byte %zu begins no character",
                        shown(key), key->data, valid);
    }
    if (find(list, key->data, key->length) != HRI_NO_NAME) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT, "metadata key \"%.*s\" is there already",
                        shown(key), key->data);
    }
    return HURRAY_OK;
}

static HurrayStatus check_entry(const HurrayKeyValues *list, const HurrayKeyValue *entry) {
    HurrayStatus status = check_key(list, &entry->key);
    if (status != HURRAY_OK) return status;
    if (entry->tag == HURRAY_VALUE_ARRAY) {
        if (!is_scalar(entry->element_tag)) return refuse(entry, "element_tag must be 1 to 6");
    } else {
        if (!is_scalar(entry->tag)) return refuse(entry, "tag must be 1 to 7");
        if (entry->element_tag != 0) return refuse(entry, "element_tag must be 0: it is no array");
        if (entry->count != 1) return refuse(entry, "count must be 1: it is no array");
    }
    if (entry->count != 0 && entry->values == NULL) return hri_fail_null("entry->values");
    if (!is_text(scalar_tag(entry))) return HURRAY_OK;
    for (uint32_t i = 0; i < entry->count; i++) {
        const HurrayText *text = &entry->values[i].text;
        if (text->length != 0 && text->data == NULL) {
            return hri_fail_null("entry->values[].text.data");
        }
        if (scalar_tag(entry) == HURRAY_VALUE_STRING &&
            hri_utf8_valid_length(text->data, text->length) != text->length) {
            return refuse(entry, "a string is not UTF-8");
        }
    }
    return HURRAY_OK;
}

/* ---- making a list ---- */

/* Bytes of key and texts; false beyond 2^64. */
static bool text_bytes(const HurrayKeyValue *entry, uint64_t *out) {
    uint64_t total = entry->key.length;
    if (is_text(scalar_tag(entry))) {
        for (uint32_t i = 0; i < entry->count; i++) {
            if (!checked_add_u64(total, entry->values[i].text.length, &total)) return false;
        }
    }
    *out = total;
    return true;
}

static HurrayText copy_text(char **next, HurrayText text) {
    HurrayText copy = {*next, text.length};
    if (text.length != 0) memcpy(*next, text.data, text.length);
    *next += text.length;
    return copy;
}

HurrayStatus hurray_key_values_add(HurrayKeyValues *list, const HurrayKeyValue *entry) {
    if (list == NULL) return hri_fail_null("list");
    if (entry == NULL) return hri_fail_null("entry");
    HurrayStatus status = check_entry(list, entry);
    if (status == HURRAY_OK) status = reserve(list, 1);
    if (status != HURRAY_OK) return status;
    uint64_t scalars = (uint64_t)entry->count * sizeof(HurrayScalar), bytes;
    if (!text_bytes(entry, &bytes) || !checked_add_u64(bytes, scalars, &bytes)) {
        return hri_fail_memory(UINT64_MAX);
    }
    HurrayScalar *values = new_block(list, bytes);
    if (values == NULL) return HURRAY_ERR_OUT_OF_MEMORY;
    char *next = (char *)(values + entry->count);
    HurrayKeyValue copy = *entry;
    copy.key = copy_text(&next, entry->key);
    copy.values = values;
    if (entry->count != 0) memcpy(values, entry->values, (size_t)scalars);
    if (is_text(scalar_tag(entry))) {
        for (uint32_t i = 0; i < entry->count; i++) {
            values[i].text = copy_text(&next, entry->values[i].text);
        }
    }
    append(list, &copy);
    return HURRAY_OK;
}

uint32_t hurray_key_values_count(const HurrayKeyValues *list) {
    return list == NULL ? 0 : list->count;
}

const HurrayKeyValue *hurray_key_values_at(const HurrayKeyValues *list, uint32_t index) {
    return list == NULL || index >= list->count ? NULL : &list->entries[index];
}

const HurrayKeyValue *hurray_key_values_find(const HurrayKeyValues *list, const char *key,
                                             size_t length) {
    if (list == NULL || key == NULL) return NULL;
    uint32_t index = find(list, key, length);
    return index == HRI_NO_NAME ? NULL : &list->entries[index];
}

/* ---- writing ---- */

static void write_scalar(ByteWriter *writer, uint8_t tag, const HurrayScalar *value) {
    switch (tag) {
    case HURRAY_VALUE_STRING:
    case HURRAY_VALUE_BYTES:
        write_u32(writer, value->text.length);
        write_bytes(writer, value->text.data, value->text.length);
        break;
    case HURRAY_VALUE_INT64: write_u64(writer, (uint64_t)value->int64); break;
    case HURRAY_VALUE_UINT64: write_u64(writer, value->uint64); break;
    case HURRAY_VALUE_FLOAT64: write_f64(writer, &value->float64); break;
    default: write_u8(writer, value->boolean); break;
    }
}

static void write_list(ByteWriter *writer, const HurrayKeyValues *list) {
    write_u32(writer, list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        const HurrayKeyValue *entry = &list->entries[i];
        write_u16(writer, (uint16_t)entry->key.length);
        write_bytes(writer, entry->key.data, entry->key.length);
        write_u8(writer, entry->tag);
        if (entry->tag == HURRAY_VALUE_ARRAY) {
            write_u8(writer, entry->element_tag);
            write_u32(writer, entry->count);
        }
        for (uint32_t k = 0; k < entry->count; k++) {
            write_scalar(writer, scalar_tag(entry), &entry->values[k]);
        }
    }
}

HurrayStatus hurray_key_values_encoded_size(const HurrayKeyValues *list, uint64_t *out_bytes) {
    if (list == NULL) return hri_fail_null("list");
    if (out_bytes == NULL) return hri_fail_null("out_bytes");
    ByteWriter writer = {.bytes = NULL};
    write_list(&writer, list);
    if (writer.position > UINT32_MAX) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "metadata takes %llu bytes, expected below 2^32",
                        (unsigned long long)writer.position);
    }
    *out_bytes = writer.position;
    return HURRAY_OK;
}

HurrayStatus hurray_key_values_encode(const HurrayKeyValues *list, uint8_t *bytes, size_t capacity,
                                      size_t *out_length) {
    uint64_t size = 0;
    if (out_length == NULL) return hri_fail_null("out_length");
    HurrayStatus status = hurray_key_values_encoded_size(list, &size);
    if (status != HURRAY_OK) return status;
    if (bytes == NULL) return hri_fail_null("bytes");
    if (size > capacity) {
        return hri_fail(HURRAY_ERR_BUFFER_TOO_SMALL,
                        "metadata takes %llu bytes, there is room for %zu",
                        (unsigned long long)size, capacity);
    }
    ByteWriter writer = {.bytes = bytes, .capacity = capacity};
    write_list(&writer, list);
    *out_length = (size_t)size;
    return HURRAY_OK;
}

/* ---- reading ---- */

/* Where in the section a fault is; its key, when that has been read. */
typedef struct Place {
    uint32_t entry;
    HurrayText key;
} Place;

static HurrayStatus invalid(const Place *place, const char *rule) {
    return hri_fail(HURRAY_ERR_FILE_INVALID, "metadata entry %u (\"%.*s\"): %s", place->entry,
                    shown(&place->key), place->key.length == 0 ? "" : place->key.data, rule);
}

static HurrayStatus too_short(const Place *place) {
    return invalid(place, "the section ends within it");
}

static HurrayStatus read_text(ByteReader *reader, const Place *place, uint8_t tag,
                              HurrayText *out) {
    uint32_t length = read_u32(reader);
    const uint8_t *bytes = reader->failed ? NULL : read_bytes(reader, length);
    if (bytes == NULL) return too_short(place);
    if (tag == HURRAY_VALUE_STRING && hri_utf8_valid_length(bytes, length) != length) {
        return invalid(place, "a string is not UTF-8");
    }
    *out = (HurrayText){(const char *)bytes, length};
    return HURRAY_OK;
}

static HurrayStatus read_scalar(ByteReader *reader, const Place *place, uint8_t tag,
                                HurrayScalar *out) {
    if (is_text(tag)) return read_text(reader, place, tag, &out->text);
    if (tag == HURRAY_VALUE_BOOL) {
        uint8_t byte = read_u8(reader);
        if (byte > 1) return invalid(place, "a bool is a byte other than 0 and 1");
        out->boolean = byte == 1;
    } else {
        /* int64, uint64 and float64 are the same eight bytes. */
        out->uint64 = read_u64(reader);
    }
    return reader->failed ? too_short(place) : HURRAY_OK;
}

/*
 * The entry at the reader, and its values behind `values`, or nowhere when that is NULL: then they
 * are checked alone. Texts point into the section.
 */
static HurrayStatus read_entry(ByteReader *reader, Place *place, HurrayScalar *values,
                               HurrayKeyValue *out) {
    HurrayKeyValue entry = {.count = 1, .values = values};
    place->key.length = 0;
    uint16_t key_length = read_u16(reader);
    const uint8_t *key = read_bytes(reader, key_length);
    entry.tag = read_u8(reader);
    if (reader->failed) return too_short(place);
    if (key_length == 0) return invalid(place, "key_length is 0, expected at least 1");
    place->key = entry.key = (HurrayText){(const char *)key, key_length};
    if (hri_utf8_valid_length(key, key_length) != key_length) {
        return invalid(place, "the key is not UTF-8");
    }
    if (entry.tag == HURRAY_VALUE_ARRAY) {
        entry.element_tag = read_u8(reader);
        entry.count = read_u32(reader);
        if (reader->failed) return too_short(place);
    }
    if (!is_scalar(scalar_tag(&entry))) {
        return hri_fail(HURRAY_ERR_FILE_INVALID,
                        "metadata entry %u (\"%.*s\"): %s is %u, expected 1 to %d", place->entry,
                        shown(&entry.key), entry.key.data,
                        entry.tag == HURRAY_VALUE_ARRAY ? "the array's element tag" : "value_tag",
                        scalar_tag(&entry), entry.tag == HURRAY_VALUE_ARRAY ? 6 : 7);
    }
    if (entry.count > reader_left(reader) / wire_size(scalar_tag(&entry))) {
        return too_short(place);
    }
    for (uint32_t i = 0; i < entry.count; i++) {
        HurrayScalar ignored;
        HurrayScalar *value = values == NULL ? &ignored : &values[i];
        HurrayStatus status = read_scalar(reader, place, scalar_tag(&entry), value);
        if (status != HURRAY_OK) return status;
    }
    *out = entry;
    return HURRAY_OK;
}

/* Every rule but that of unique keys; the numbers of entries and of scalars. */
static HurrayStatus check_section(const uint8_t *bytes, size_t size, uint32_t *out_entries,
                                  uint64_t *out_scalars) {
    ByteReader reader = {.bytes = bytes, .length = size};
    uint32_t count = read_u32(&reader);
    uint64_t scalars = 0;
    if (reader.failed || count > reader_left(&reader) / MIN_ENTRY_SIZE) {
        return hri_fail(HURRAY_ERR_FILE_INVALID,
                        "the metadata section of %zu bytes cannot hold %u entries", size, count);
    }
    for (Place place = {.entry = 0}; place.entry < count; place.entry++) {
        HurrayKeyValue entry;
        HurrayStatus status = read_entry(&reader, &place, NULL, &entry);
        if (status != HURRAY_OK) return status;
        scalars += entry.count;
    }
    if (reader_left(&reader) != 0) {
        return hri_fail(HURRAY_ERR_FILE_INVALID, "%zu bytes follow the %u metadata entries",
                        reader_left(&reader), count);
    }
    *out_entries = count;
    *out_scalars = scalars;
    return HURRAY_OK;
}

/* From a section that is kept and checked: what can still be wrong is that a key comes twice. */
static HurrayStatus fill(HurrayKeyValues *list, const uint8_t *bytes, size_t size, uint32_t count,
                         HurrayScalar *values) {
    ByteReader reader = {.bytes = bytes, .length = size, .position = 4};
    for (Place place = {.entry = 0}; place.entry < count; place.entry++) {
        HurrayKeyValue entry;
        HurrayStatus status = read_entry(&reader, &place, values, &entry);
        if (status != HURRAY_OK) return status;
        if (find(list, entry.key.data, entry.key.length) != HRI_NO_NAME) {
            return invalid(&place, "the key is there already");
        }
        append(list, &entry);
        values += entry.count;
    }
    return HURRAY_OK;
}

/* Fills an empty list; what it acquires is the list's. */
static HurrayStatus decode(HurrayKeyValues *list, const uint8_t *bytes, size_t size) {
    uint32_t count = 0;
    uint64_t scalars = 0;
    /* Copied first: bytes of a mapped file may change between two looks at them. */
    uint8_t *copy = new_block(list, size);
    if (copy == NULL) return HURRAY_ERR_OUT_OF_MEMORY;
    memcpy(copy, bytes, size);
    HurrayStatus status = check_section(copy, size, &count, &scalars);
    if (status == HURRAY_OK) status = reserve(list, count);
    if (status != HURRAY_OK) return status;
    HurrayScalar *values = new_block(list, scalars * sizeof *values);
    if (values == NULL) return HURRAY_ERR_OUT_OF_MEMORY;
    return fill(list, copy, size, count, values);
}

HurrayStatus hurray_key_values_decode(const uint8_t *bytes, size_t size, HurrayKeyValues **out) {
    if (bytes == NULL) return hri_fail_null("bytes");
    if (out == NULL) return hri_fail_null("out");
    HurrayKeyValues *list = NULL;
    HurrayStatus status = hurray_key_values_create(&list);
    if (status == HURRAY_OK) status = decode(list, bytes, size);
    if (status != HURRAY_OK) {
        hurray_key_values_destroy(&list);
        return status;
    }
    *out = list;
    return HURRAY_OK;
}
