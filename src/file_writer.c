/*
 * The file writer (include/hurray/file_writer.h, spec 4.2 – 4.5, 4.7).
 *
 * Bytes go to a sink and are forgotten. What is kept is the index, as it will be written, with the
 * place of each entry in it for the table of names and for sorting.
 *
 * On their way to the sink tensors become pieces: descriptors in the writer's own memory, data where
 * it is, zeros between. Small tensors that are added together go out together.
 */
#include <hurray/file_writer.h>

#include <assert.h>
#include <hurray/composite.h>
#include <hurray/crc32c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "checked.h"
#include "descriptor.h"
#include "fail.h"
#include "file_format.h"
#include "file_save.h"
#include "name_table.h"
#include "utf8.h"

/* A head whose members are to follow. */
typedef struct OpenHead {
    uint32_t entry;
    uint64_t members; /* so far */
} OpenHead;

typedef enum State {
    WRITING,
    FINISHED,
    BROKEN
} State;

struct HurrayFileWriter {
    HurraySink sink;
    HriFileSave *save; /* NULL: no path */
    State state;
    bool sorted_index, index_checksum, checksums, sync;
    uint32_t flags;
    uint32_t alignment;
    uint64_t position; /* bytes written, and bytes gathered below */
    HurrayKeyValues *metadata;

    /* The index behind its count, in order of writing. */
    uint8_t *index;
    size_t index_length, index_capacity;
    size_t *entries; /* where each begins in `index` */
    uint8_t *sums;   /* u32[count], little-endian; NULL without checksums */
    uint32_t count, capacity;
    HriNameTable names;

    HurrayCompositeValidator *validator;
    OpenHead open[HURRAY_MAX_COMPOSITE_DEPTH];

    uint8_t *zeros; /* u8[alignment], for padding */

    /* What is to be written next: whole tensors, and the one at hand behind them. */
    HurrayBytes *pieces; /* [PIECES] */
    uint32_t piece_count;
    uint64_t gathered;    /* bytes */
    uint8_t *descriptors; /* of them, one behind the other; pieces point here */
    size_t descriptors_length, descriptors_capacity;
};

/* A name, the default one of a member included: its head's, a dot, a number. */
#define NAME_ROOM (HURRAY_MAX_NAME_LENGTH + 24)
/* Bytes of a name that an error message shows. */
#define SHOWN_NAME 64
/* Of one tensor at most: paddings before and after, descriptor, each buffer with padding in front. */
#define MAX_PIECES (3 + 2 * HURRAY_MAX_BUFFERS)
/* Pieces and bytes from which on no more is gathered: calls of the system take 256 pieces or so, and
 * cost nothing beside a megabyte. */
#define ENOUGH_PIECES 250
#define ENOUGH_BYTES ((uint64_t)1 << 20)
#define PIECES (ENOUGH_PIECES + MAX_PIECES)
/* Bytes that descriptors are given room for at first; there are 50 or so in one gathering. */
#define DESCRIPTORS_ROOM ((size_t)16 << 10)

static int shown(HriName name) { return name.length < SHOWN_NAME ? (int)name.length : SHOWN_NAME; }

/* At least `needed` elements of `size` bytes in *array: twice as many as there were. */
static HurrayStatus grow(void *array, size_t size, size_t needed, size_t capacity) {
    size_t more = capacity > SIZE_MAX / 2 ? needed : 2 * capacity;
    if (more < needed) more = needed;
    void *old, *grown = NULL;
    memcpy(&old, array, sizeof old);
    if (more <= SIZE_MAX / size) grown = realloc(old, more * size);
    if (grown == NULL) return hri_fail_memory((unsigned long long)needed * size);
    memcpy(array, &grown, sizeof grown);
    return HURRAY_OK;
}

/* ---- writing ---- */

/* After this the writer only fails; the temporary file is of no use to anyone. */
static HurrayStatus broken(HurrayFileWriter *writer, HurrayStatus status) {
    writer->state = BROKEN;
    hri_file_save_abort(&writer->save);
    return status;
}

static HurrayStatus write_pieces(HurrayFileWriter *writer, const HurrayBytes *pieces,
                                 uint32_t count) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) total += pieces[i].size;
    HurrayStatus status = writer->sink.write(pieces, count, writer->sink.context);
    if (status != HURRAY_OK) return broken(writer, status);
    writer->position += total;
    return HURRAY_OK;
}

/* Writes what was gathered. */
static HurrayStatus flush(HurrayFileWriter *writer) {
    if (writer->piece_count == 0) return HURRAY_OK;
    HurrayStatus status =
        writer->sink.write(writer->pieces, writer->piece_count, writer->sink.context);
    writer->piece_count = 0;
    writer->gathered = 0;
    writer->descriptors_length = 0;
    return status == HURRAY_OK ? status : broken(writer, status);
}

static HurrayStatus check_state(const HurrayFileWriter *writer) {
    switch (writer->state) {
    case WRITING: return HURRAY_OK;
    case FINISHED: return hri_fail(HURRAY_ERR_CLOSED, "the file is finished");
    default: return hri_fail(HURRAY_ERR_CLOSED, "the file was given up after an earlier failure");
    }
}

/* ---- beginning ---- */

static HurrayStatus check_options(const HurrayFileWriterOptions *options) {
    uint32_t alignment = options->alignment;
    if (alignment != 0 &&
        (!is_power_of_two_u64(alignment) || alignment < HURRAY_FILE_MIN_ALIGNMENT ||
         alignment > HURRAY_FILE_MAX_ALIGNMENT)) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "alignment is %u, expected a power of two from %u to %u", alignment,
                        HURRAY_FILE_MIN_ALIGNMENT, HURRAY_FILE_MAX_ALIGNMENT);
    }
    return HURRAY_OK;
}

static bool holds_checksums(const HurrayKeyValue *entry) {
    const size_t length = strlen(HURRAY_CHECKSUMS_KEY);
    return entry->key.length == length && entry->key.data != NULL &&
           memcmp(entry->key.data, HURRAY_CHECKSUMS_KEY, length) == 0;
}

/* Copies the list but for checksums, which are of the file it comes from; sees that it fits a
 * section. */
static HurrayStatus copy_metadata(HurrayFileWriter *writer, const HurrayKeyValues *metadata) {
    uint64_t size;
    HurrayStatus status = hurray_key_values_create(&writer->metadata);
    if (status != HURRAY_OK || metadata == NULL) return status;
    status = hurray_key_values_encoded_size(metadata, &size);
    for (uint32_t i = 0; status == HURRAY_OK && i < hurray_key_values_count(metadata); i++) {
        const HurrayKeyValue *entry = hurray_key_values_at(metadata, i);
        if (!holds_checksums(entry)) status = hurray_key_values_add(writer->metadata, entry);
    }
    return status;
}

static HurrayStatus write_header(HurrayFileWriter *writer, uint64_t tensor_count) {
    uint8_t header[HRI_FILE_HEADER_SIZE];
    ByteWriter bytes = {.bytes = header, .capacity = sizeof header};
    hri_file_header_write(&bytes, writer->flags, writer->alignment,
                          tensor_count == 0 ? HRI_FILE_COUNT_UNKNOWN : tensor_count);
    const HurrayBytes piece = {header, sizeof header};
    return write_pieces(writer, &piece, 1);
}

static HurrayStatus prepare(HurrayFileWriter *writer, const HurrayFileWriterOptions *options) {
    writer->alignment = options->alignment == 0 ? HURRAY_FILE_MIN_ALIGNMENT : options->alignment;
    writer->sorted_index = options->sorted_index;
    writer->index_checksum = !options->no_index_checksum;
    writer->checksums = options->checksums;
    writer->sync = !options->no_sync;
    HurrayStatus status = copy_metadata(writer, options->metadata);
    if (status != HURRAY_OK) return status;
    if (hurray_key_values_count(writer->metadata) != 0 || writer->checksums) {
        writer->flags |= HRI_FILE_HAS_KV_METADATA;
    }
    if (writer->sorted_index) writer->flags |= HRI_FILE_SORTED_INDEX;
    if (writer->index_checksum) writer->flags |= HRI_FILE_HAS_INDEX_CRC32C;
    writer->zeros = calloc(1, writer->alignment);
    writer->pieces = malloc(PIECES * sizeof *writer->pieces);
    writer->descriptors = malloc(DESCRIPTORS_ROOM);
    if (writer->zeros == NULL || writer->pieces == NULL || writer->descriptors == NULL) {
        return hri_fail_memory(writer->alignment + PIECES * sizeof *writer->pieces);
    }
    writer->descriptors_capacity = DESCRIPTORS_ROOM;
    const HurrayCompositeOptions rules = {HURRAY_MAX_COMPOSITE_DEPTH, true};
    return hurray_composite_validator_create(&rules, &writer->validator);
}

/* One of `path` and `sink` is NULL. */
static HurrayStatus begin(const char *path, const HurraySink *sink,
                          const HurrayFileWriterOptions *options, HurrayFileWriter **out) {
    const HurrayFileWriterOptions defaults = {.alignment = 0};
    if (options == NULL) options = &defaults;
    HurrayStatus status = check_options(options);
    if (status != HURRAY_OK) return status;
    HurrayFileWriter *writer = calloc(1, sizeof *writer);
    if (writer == NULL) return hri_fail_memory(sizeof *writer);
    status = prepare(writer, options);
    if (status == HURRAY_OK && path != NULL) {
        status = hri_file_save_begin(path, options->interrupted, options->interrupt_context,
                                     writer->sync, &writer->save);
    }
    if (status == HURRAY_OK) {
        writer->sink = path == NULL ? *sink : hri_file_save_sink(writer->save);
        status = write_header(writer, options->tensor_count);
    }
    if (status != HURRAY_OK) {
        hurray_file_writer_destroy(&writer);
        return status;
    }
    *out = writer;
    return HURRAY_OK;
}

HurrayStatus hurray_file_writer_open(const char *path, const HurrayFileWriterOptions *options,
                                     HurrayFileWriter **out) {
    if (path == NULL) return hri_fail_null("path");
    if (out == NULL) return hri_fail_null("out");
    return begin(path, NULL, options, out);
}

HurrayStatus hurray_file_writer_create(const HurraySink *sink,
                                       const HurrayFileWriterOptions *options,
                                       HurrayFileWriter **out) {
    if (sink == NULL) return hri_fail_null("sink");
    if (sink->write == NULL) return hri_fail_null("sink->write");
    if (out == NULL) return hri_fail_null("out");
    return begin(NULL, sink, options, out);
}

HurrayStatus hurray_file_writer_destroy(HurrayFileWriter **writer) {
    if (writer == NULL) return hri_fail_null("writer");
    if (*writer == NULL) return HURRAY_OK;
    HurrayFileWriter *own = *writer;
    hri_file_save_abort(&own->save);
    hurray_composite_validator_destroy(&own->validator);
    hurray_key_values_destroy(&own->metadata);
    hri_name_table_clear(&own->names);
    free(own->descriptors);
    free(own->pieces);
    free(own->zeros);
    free(own->sums);
    free(own->entries);
    free(own->index);
    free(own);
    *writer = NULL;
    return HURRAY_OK;
}

/* ---- names ---- */

static HriName name_at(const void *owner, uint32_t number) {
    const HurrayFileWriter *writer = owner;
    const uint8_t *entry = writer->index + writer->entries[number];
    return (HriName){(const char *)entry + 2, load_u16(entry)};
}

/* "{head}.{i}" into `room`, for a member that got no name. */
static HurrayStatus default_name(const HurrayFileWriter *writer, char *room, HriName *name) {
    uint32_t depth = hurray_composite_validator_depth(writer->validator);
    if (depth == 0) return hri_fail_null("name");
    const OpenHead *head = &writer->open[depth - 1];
    HriName of_head = name_at(writer, head->entry);
    memcpy(room, of_head.data, of_head.length);
    int length = snprintf(room + of_head.length, NAME_ROOM - of_head.length, ".%llu",
                          (unsigned long long)head->members);
    *name = (HriName){room, of_head.length + (size_t)length};
    return HURRAY_OK;
}

static HurrayStatus check_name(const HurrayFileWriter *writer, HriName name) {
    if (name.length == 0 || name.length > HURRAY_MAX_NAME_LENGTH) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT, "a name has %zu bytes, expected 1 to %u",
                        name.length, HURRAY_MAX_NAME_LENGTH);
    }
    size_t valid = hri_utf8_valid_length(name.data, name.length);
    if (valid != name.length) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "name \"%.*s\" is not UTF-8: its byte %zu begins no character", shown(name),
                        name.data, valid);
    }
    if (hri_name_table_find(&writer->names, name, name_at, writer) != HRI_NO_NAME) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT, "name \"%.*s\" is there already", shown(name),
                        name.data);
    }
    return HURRAY_OK;
}

/* ---- one tensor ---- */

/* A descriptor and its buffers on their way into the file: the last of the writer's pieces. */
typedef struct Item {
    const HurrayDescriptorFields *fields;
    uint32_t count;      /* of all pieces, those gathered before among them */
    uint32_t first_data; /* the piece where the data begins */
    uint64_t end;        /* of the pieces, in the file */
    uint64_t descriptor_offset, data_offset, data_length;
    uint32_t descriptor_length;
} Item;

static HurrayStatus too_big(void) {
    return hri_fail(HURRAY_ERR_INVALID_ARGUMENT, "the file would be 2^64 bytes long or longer");
}

/* Zeros up to a multiple of `alignment`, which is at most that of the file. */
static HurrayStatus pad(HurrayFileWriter *writer, Item *item, uint32_t alignment) {
    if (item->end > UINT64_MAX - (alignment - 1)) return too_big();
    uint64_t aligned = hri_file_aligned(item->end, alignment);
    if (aligned == item->end) return HURRAY_OK;
    writer->pieces[item->count++] = (HurrayBytes){writer->zeros, aligned - item->end};
    item->end = aligned;
    return HURRAY_OK;
}

static HurrayStatus put(HurrayFileWriter *writer, Item *item, const uint8_t *bytes, uint64_t size) {
    if (!checked_add_u64(item->end, size, &item->end)) return too_big();
    if (size != 0) writer->pieces[item->count++] = (HurrayBytes){bytes, size};
    return HURRAY_OK;
}

/* Encodes valid fields behind the other descriptors. Where there is no room, those are written first. */
static HurrayStatus encode(HurrayFileWriter *writer, const HurrayDescriptorFields *fields,
                           uint64_t *out_length) {
    size_t room = writer->descriptors_capacity - writer->descriptors_length;
    HurrayStatus status = hri_descriptor_write(
        fields, writer->descriptors + writer->descriptors_length, room, out_length);
    if (status != HURRAY_OK || *out_length <= room) return status;
    status = flush(writer);
    if (status != HURRAY_OK) return status;
    size_t needed = (size_t)*out_length; /* at most 2^32 − 1 */
    if (needed > writer->descriptors_capacity) {
        status = grow(&writer->descriptors, 1, needed, 0);
        if (status != HURRAY_OK) return status;
        writer->descriptors_capacity = needed;
    }
    return hri_descriptor_write(fields, writer->descriptors, writer->descriptors_capacity,
                                out_length);
}

static HurrayStatus put_descriptor(HurrayFileWriter *writer, Item *item) {
    uint64_t length;
    HurrayStatus status = encode(writer, item->fields, &length);
    if (status != HURRAY_OK) return status;
    item->count = writer->piece_count;
    item->descriptor_length = (uint32_t)length;
    item->descriptor_offset = item->end;
    return put(writer, item, writer->descriptors + writer->descriptors_length, length);
}

/* All pieces of a tensor, or of a head when `tensor` is NULL. */
static HurrayStatus lay_out(HurrayFileWriter *writer, Item *item, const HurrayTensor *tensor) {
    item->end = writer->position;
    HurrayStatus status = put_descriptor(writer, item);
    if (status != HURRAY_OK) return status;
    item->data_offset = item->end;
    item->first_data = item->count;
    for (uint32_t i = 0; i < item->fields->buffer_count; i++) {
        const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, i));
        status = pad(writer, item, writer->alignment);
        if (i == 0) {
            item->data_offset = item->end;
            item->first_data = item->count;
        }
        if (status == HURRAY_OK) status = put(writer, item, info->data, info->byte_size);
        if (status != HURRAY_OK) return status;
    }
    item->data_length = item->end - item->data_offset;
    return HURRAY_OK;
}

/* CRC-32C of the data region, before the padding behind it is put there. */
static uint32_t data_checksum(const HurrayFileWriter *writer, const Item *item) {
    uint32_t sum = 0;
    for (uint32_t i = item->first_data; i < item->count; i++) {
        sum = hurray_crc32c(sum, writer->pieces[i].data, (size_t)writer->pieces[i].size);
    }
    return sum;
}

/* Room for one more entry, so that nothing can fail once the bytes are on their way. */
static HurrayStatus reserve_entry(HurrayFileWriter *writer, size_t name_length) {
    HurrayStatus status = hri_name_table_reserve(&writer->names, 1);
    size_t length = writer->index_length, added = HRI_INDEX_ENTRY_SIZE + name_length;
    if (status == HURRAY_OK && added > writer->index_capacity - length) {
        if (added > SIZE_MAX / 2 - length) return hri_fail_memory(SIZE_MAX);
        status = grow(&writer->index, 1, length + added, writer->index_capacity);
        if (status != HURRAY_OK) return status;
        size_t twice = 2 * writer->index_capacity;
        writer->index_capacity = twice > length + added ? twice : length + added;
    }
    if (status != HURRAY_OK || writer->count < writer->capacity) return status;
    uint32_t capacity = writer->capacity > UINT32_MAX / 2 ? UINT32_MAX : 2 * writer->capacity;
    if (capacity < 16) capacity = 16;
    status = grow(&writer->entries, sizeof *writer->entries, capacity, 0);
    if (status == HURRAY_OK && writer->checksums) status = grow(&writer->sums, 4, capacity, 0);
    if (status == HURRAY_OK) writer->capacity = capacity;
    return status;
}

static void add_entry(HurrayFileWriter *writer, HriName name, const Item *item, uint32_t sum) {
    uint8_t *entry = writer->index + writer->index_length;
    ByteWriter bytes = {.bytes = entry, .capacity = writer->index_capacity - writer->index_length};
    write_u16(&bytes, (uint16_t)name.length);
    write_bytes(&bytes, name.data, name.length);
    write_u64(&bytes, item->descriptor_offset);
    write_u32(&bytes, item->descriptor_length);
    write_u64(&bytes, item->data_offset);
    write_u64(&bytes, item->data_length);
    write_u32(&bytes, 0);
    assert(bytes.position == HRI_INDEX_ENTRY_SIZE + name.length);
    writer->entries[writer->count] = writer->index_length;
    if (writer->checksums) store_u32(writer->sums + 4 * (size_t)writer->count, sum);
    hri_name_table_add(&writer->names, name);
    writer->index_length += (size_t)bytes.position;
    writer->count++;
}

/* Past the last point where a refusal leaves everything as it was, but for a torn composite. */
static HurrayStatus check_composite(HurrayFileWriter *writer,
                                    const HurrayDescriptorFields *fields) {
    uint32_t depth = hurray_composite_validator_depth(writer->validator);
    bool complete;
    HurrayStatus status = hurray_composite_validator_push(writer->validator, fields, &complete);
    if (status != HURRAY_OK) {
        if (depth != 0) return broken(writer, status);
        hurray_composite_validator_reset(writer->validator);
        return status;
    }
    if (depth != 0) writer->open[depth - 1].members++;
    if (fields->layout.tag == HURRAY_LAYOUT_COMPOSITE && depth < HURRAY_MAX_COMPOSITE_DEPTH) {
        writer->open[depth] = (OpenHead){writer->count, 0};
    }
    return HURRAY_OK;
}

/* The item is complete: it and its entry are the writer's. */
static void accept(HurrayFileWriter *writer, HriName name, const Item *item, uint32_t sum) {
    add_entry(writer, name, item, sum);
    writer->gathered += item->end - writer->position;
    writer->position = item->end;
    writer->piece_count = item->count;
    writer->descriptors_length += item->descriptor_length;
}

/* Gathers a tensor or a head; what is refused leaves what was gathered as it is. */
static HurrayStatus gather_named(HurrayFileWriter *writer, HriName name,
                                 const HurrayDescriptorFields *fields, const HurrayTensor *tensor) {
    Item item = {.fields = fields};
    HurrayStatus status = check_name(writer, name);
    if (status == HURRAY_OK) status = lay_out(writer, &item, tensor);
    if (status != HURRAY_OK) return status;
    uint32_t sum = writer->checksums ? data_checksum(writer, &item) : 0;
    /* What follows a tensor stands at a multiple of 8, and so does the next one. */
    status = pad(writer, &item, HRI_FILE_SECTION_ALIGNMENT);
    if (status == HURRAY_OK) status = reserve_entry(writer, name.length);
    if (status == HURRAY_OK) status = check_composite(writer, fields);
    if (status == HURRAY_OK) accept(writer, name, &item, sum);
    return status;
}

static HurrayStatus gather(HurrayFileWriter *writer, const char *name, size_t name_length,
                           const HurrayDescriptorFields *fields, const HurrayTensor *tensor) {
    if (name != NULL) return gather_named(writer, (HriName){name, name_length}, fields, tensor);
    char *room = malloc(NAME_ROOM);
    if (room == NULL) return hri_fail_memory(NAME_ROOM);
    HriName made = {NULL, 0};
    HurrayStatus status = default_name(writer, room, &made);
    if (status == HURRAY_OK) status = gather_named(writer, made, fields, tensor);
    free(room);
    return status;
}

static HurrayStatus gather_tensor(HurrayFileWriter *writer, const HurrayFileItem *item) {
    if (item->tensor == NULL) return hri_fail_null("tensor");
    HurrayStatus status = hurray_tensor_check_readable(item->tensor, true);
    if (status != HURRAY_OK) return status;
    return gather(writer, item->name, item->name_length, hurray_tensor_fields(item->tensor),
                  item->tensor);
}

static bool is_enough(const HurrayFileWriter *writer) {
    return writer->piece_count >= ENOUGH_PIECES || writer->gathered >= ENOUGH_BYTES;
}

/* After a refusal: writes what came before it, and says it again, since writing may have called
 * whoever says something else. */
static HurrayStatus flush_refused(HurrayFileWriter *writer, HurrayStatus refused) {
    if (writer->piece_count == 0 || writer->state != WRITING) return refused;
    char message[512];
    snprintf(message, sizeof message, "%s", hurray_error_message());
    HurrayStatus status = flush(writer);
    return status == HURRAY_OK ? hri_fail(refused, "%s", message) : status;
}

HurrayStatus hurray_file_writer_add_many(HurrayFileWriter *writer, const HurrayFileItem *items,
                                         size_t count, size_t *out_added) {
    if (writer == NULL) return hri_fail_null("writer");
    if (out_added == NULL) return hri_fail_null("out_added");
    if (items == NULL && count != 0) return hri_fail_null("items");
    size_t added = 0;
    HurrayStatus status = check_state(writer);
    if (status == HURRAY_OK) {
        for (; added < count && status == HURRAY_OK; added += status == HURRAY_OK) {
            if (is_enough(writer)) status = flush(writer);
            if (status == HURRAY_OK) status = gather_tensor(writer, &items[added]);
        }
        status = status == HURRAY_OK ? flush(writer) : flush_refused(writer, status);
    }
    *out_added = added;
    return status;
}

HurrayStatus hurray_file_writer_add(HurrayFileWriter *writer, const char *name, size_t name_length,
                                    const HurrayTensor *tensor) {
    const HurrayFileItem item = {name, name_length, tensor};
    size_t added;
    return hurray_file_writer_add_many(writer, &item, 1, &added);
}

HurrayStatus hurray_file_writer_add_head(HurrayFileWriter *writer, const char *name,
                                         size_t name_length, const HurrayDescriptorFields *head) {
    if (writer == NULL) return hri_fail_null("writer");
    if (head == NULL) return hri_fail_null("head");
    if (head->layout.tag != HURRAY_LAYOUT_COMPOSITE || head->buffer_count != 0) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "layout 0x%02X with %u buffers is no head of a composite", head->layout.tag,
                        head->buffer_count);
    }
    HurrayStatus status = check_state(writer);
    if (status == HURRAY_OK) status = hurray_descriptor_validate(head);
    if (status == HURRAY_OK) status = gather(writer, name, name_length, head, NULL);
    return status == HURRAY_OK ? flush(writer) : status;
}

HurrayStatus hurray_file_writer_add_metadata(HurrayFileWriter *writer,
                                             const HurrayKeyValue *entry) {
    if (writer == NULL) return hri_fail_null("writer");
    if (entry == NULL) return hri_fail_null("entry");
    HurrayStatus status = check_state(writer);
    if (status != HURRAY_OK) return status;
    if (writer->checksums && holds_checksums(entry)) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "metadata key \"" HURRAY_CHECKSUMS_KEY "\" is where checksums go");
    }
    return hurray_key_values_add(writer->metadata, entry);
}

uint64_t hurray_file_writer_position(const HurrayFileWriter *writer) {
    return writer == NULL ? 0 : writer->position;
}

/* ---- the end ---- */

static HurrayStatus add_checksums(HurrayFileWriter *writer) {
    if (writer->count > UINT32_MAX / 4) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT, "checksums of %u tensors do not fit an entry",
                        writer->count);
    }
    const HurrayScalar value = {.text = {(const char *)writer->sums, 4 * writer->count}};
    const HurrayKeyValue entry = {
        .key = {HURRAY_CHECKSUMS_KEY, (uint32_t)strlen(HURRAY_CHECKSUMS_KEY)},
        .tag = HURRAY_VALUE_BYTES,
        .count = 1,
        .values = &value,
    };
    return hurray_key_values_add(writer->metadata, &entry);
}

/* Zeros up to the next section. */
static HurrayStatus write_padding(HurrayFileWriter *writer) {
    uint64_t aligned = hri_file_aligned(writer->position, HRI_FILE_SECTION_ALIGNMENT);
    const HurrayBytes piece = {writer->zeros, aligned - writer->position};
    return piece.size == 0 ? HURRAY_OK : write_pieces(writer, &piece, 1);
}

static HurrayStatus write_metadata(HurrayFileWriter *writer, HriFileTrailer *trailer) {
    if (hurray_key_values_count(writer->metadata) == 0) return HURRAY_OK;
    uint64_t size;
    HurrayStatus status = hurray_key_values_encoded_size(writer->metadata, &size);
    if (status != HURRAY_OK) return status;
    uint8_t *bytes = malloc((size_t)size);
    if (bytes == NULL) return hri_fail_memory(size);
    size_t length = 0;
    status = hurray_key_values_encode(writer->metadata, bytes, (size_t)size, &length);
    if (status == HURRAY_OK) {
        trailer->kv_offset = writer->position;
        trailer->kv_length = (uint32_t)length;
        const HurrayBytes piece = {bytes, length};
        status = write_pieces(writer, &piece, 1);
    }
    free(bytes);
    return status == HURRAY_OK ? write_padding(writer) : status;
}

static int compare_names(const void *a, const void *b) {
    const uint8_t *first = *(const uint8_t *const *)a, *second = *(const uint8_t *const *)b;
    size_t length = load_u16(first), other = load_u16(second);
    int order = memcmp(first + 2, second + 2, length < other ? length : other);
    return order != 0 ? order : length < other ? -1 : length > other;
}

/* Piece 0 of the index is its count; the others are entries by name, or all of them as they came. */
static HurrayStatus sort_index(const HurrayFileWriter *writer, HurrayBytes *pieces) {
    const uint8_t **sorted = malloc(((size_t)writer->count + 1) * sizeof *sorted);
    if (sorted == NULL) return hri_fail_memory((uint64_t)writer->count * sizeof *sorted);
    for (uint32_t i = 0; i < writer->count; i++) sorted[i] = writer->index + writer->entries[i];
    qsort(sorted, writer->count, sizeof *sorted, compare_names);
    for (uint32_t i = 0; i < writer->count; i++) {
        pieces[1 + i] = (HurrayBytes){sorted[i], HRI_INDEX_ENTRY_SIZE + load_u16(sorted[i])};
    }
    free(sorted);
    return HURRAY_OK;
}

/* Index and trailer at once: `pieces` has room for the count, the entries and the trailer. */
static HurrayStatus write_index(HurrayFileWriter *writer, HriFileTrailer *trailer,
                                HurrayBytes *pieces) {
    uint8_t count[HRI_INDEX_PREFIX_SIZE], end[HRI_FILE_TRAILER_SIZE];
    uint32_t used = 1 + (writer->sorted_index ? writer->count : 1);
    store_u64(count, writer->count);
    pieces[0] = (HurrayBytes){count, sizeof count};
    pieces[1] = (HurrayBytes){writer->index, writer->index_length};
    if (writer->sorted_index) {
        HurrayStatus status = sort_index(writer, pieces);
        if (status != HURRAY_OK) return status;
    }
    trailer->index_offset = writer->position;
    for (uint32_t i = 0; i < used; i++) {
        trailer->index_length += pieces[i].size;
        if (writer->index_checksum) {
            trailer->index_crc32c =
                hurray_crc32c(trailer->index_crc32c, pieces[i].data, (size_t)pieces[i].size);
        }
    }
    ByteWriter bytes = {.bytes = end, .capacity = sizeof end};
    hri_file_trailer_write(&bytes, trailer);
    pieces[used++] = (HurrayBytes){end, sizeof end};
    return write_pieces(writer, pieces, used);
}

static HurrayStatus write_end(HurrayFileWriter *writer) {
    HriFileTrailer trailer = {.index_offset = 0};
    HurrayStatus status = writer->checksums ? add_checksums(writer) : HURRAY_OK;
    if (status == HURRAY_OK) status = write_metadata(writer, &trailer);
    if (status != HURRAY_OK) return status;
    size_t room = writer->sorted_index ? (size_t)writer->count + 2 : 3;
    HurrayBytes *pieces = malloc(room * sizeof *pieces);
    if (pieces == NULL) return hri_fail_memory(room * sizeof *pieces);
    status = write_index(writer, &trailer, pieces);
    free(pieces);
    return status;
}

HurrayStatus hurray_file_writer_finish(HurrayFileWriter *writer) {
    if (writer == NULL) return hri_fail_null("writer");
    HurrayStatus status = check_state(writer);
    if (status != HURRAY_OK) return status;
    status = hurray_composite_validator_finish(writer->validator);
    if (status != HURRAY_OK) return status;
    status = write_end(writer);
    if (status != HURRAY_OK) return broken(writer, status);
    if (writer->save != NULL) status = hri_file_save_commit(&writer->save);
    writer->state = status == HURRAY_OK ? FINISHED : BROKEN;
    return status;
}
