/* Some rows of a tensor in a file, without the others. */
#include "file_reader.h"

#include <hurray/pack.h>
#include <inttypes.h>
#include <string.h>

#include "fail.h"

/* What the rows look like, as bytes of buffer 0. */
typedef struct Rows {
    uint64_t begin; /* from the start of the buffer */
    uint64_t size;
} Rows;

static HurrayStatus check_layout(const HurrayDescriptorFields *fields) {
    if (fields->layout.tag != HURRAY_LAYOUT_ROW_MAJOR) {
        const char *name = hurray_layout_name(fields->layout.tag);
        return hri_fail(HURRAY_ERR_UNSUPPORTED, "rows of a tensor of layout %s; expected row_major",
                        name == NULL ? "unknown" : name);
    }
    if (fields->quantization != NULL) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED, "rows of a quantized tensor");
    }
    if (fields->rank == 0) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED, "rows of a tensor of rank 0, which has none");
    }
    if (hurray_shape_is_dynamic(fields->shape, fields->rank)) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED, "rows of a tensor with a dynamic dimension");
    }
    return HURRAY_OK;
}

/* The fields are those of a valid descriptor that has rows, so that the whole, and with it any part,
 * has less than 2^64 bytes. */
static HurrayStatus find_rows(const HurrayDescriptorFields *fields, uint64_t start, uint64_t stop,
                              Rows *out) {
    uint64_t all, row = 0;
    HurrayStatus status = hurray_shape_count(fields->shape, fields->rank, &all);
    if (status == HURRAY_OK && all != 0) { /* else the others may have 2^64 elements and more */
        status = hurray_shape_count(fields->shape + 1, fields->rank - 1, &row);
    }
    if (status != HURRAY_OK) return status;
    if (start > stop || stop > fields->shape[0]) {
        return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                        "rows %" PRIu64 " to %" PRIu64 " of a tensor with %" PRIu64, start, stop,
                        fields->shape[0]);
    }
    HurrayPacking packing;
    status = hurray_packing_of(fields->type_tag, fields->extension_type, &packing);
    if (status != HURRAY_OK) return status;
    uint64_t before = start * row;
    if (before % packing.group_elements != 0) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "row %" PRIu64 " begins at element %" PRIu64 " of %" PRIu32
                        " bits, in the middle of a byte or group",
                        start, before, packing.bits);
    }
    out->begin = fields->byte_offset + before / packing.group_elements * packing.group_bytes;
    return hurray_packing_size(packing, (stop - start) * row, &out->size);
}

/* What the rows are, apart from where: the sections that speak of single elements are left out. */
typedef struct RowFields {
    HurrayDescriptorFields fields;
    HurrayBufferHandle handle;
    uint64_t shape[HURRAY_MAX_RANK];
    uint64_t shard_offset[HURRAY_MAX_RANK];
    HurrayShard shard;
} RowFields;

static void describe(const HurrayDescriptorFields *whole, uint64_t start, uint64_t stop,
                     RowFields *rows) {
    size_t bytes = whole->rank * sizeof(uint64_t);
    rows->fields = *whole;
    rows->handle = whole->buffers[0];
    memcpy(rows->shape, whole->shape, bytes);
    rows->shape[0] = stop - start;
    if (whole->shard != NULL) {
        memcpy(rows->shard_offset, whole->shard->shard_offset, bytes);
        rows->shard_offset[0] += start;
        rows->shard = (HurrayShard){0};
        rows->shard.parent_shape = whole->shard->parent_shape;
        rows->shard.shard_offset = rows->shard_offset;
        rows->fields.shard = &rows->shard;
    }
    rows->fields.shape = rows->shape;
    rows->fields.buffers = &rows->handle;
    rows->fields.statistics = NULL;
    rows->fields.member = NULL;
}

/* Over shared memory: from the cache line where they begin, since buffers are aligned so. */
static HurrayStatus share_rows(HurrayFileReader *reader, RowFields *rows, uint64_t offset,
                               uint64_t size, HurrayTensor **out) {
    uint64_t lead = size == 0 ? 0 : offset % HURRAY_MIN_BUFFER_ALIGNMENT;
    uint64_t begin = offset - lead;
    rows->fields.byte_offset = lead;
    rows->handle.byte_size = lead + size;
    return hri_file_tensor(&rows->fields, false, reader->bytes, &begin, reader->read_only, out);
}

static HurrayStatus read_rows(HurrayFileReader *reader, RowFields *rows, uint64_t offset,
                              uint64_t size, HurrayTensor **out) {
    HurrayBuffer *block;
    HurrayStatus status = hurray_buffer_allocate(size, false, reader->options.allocator, &block);
    if (status != HURRAY_OK) return status;
    uint64_t begin = 0;
    rows->fields.byte_offset = 0;
    rows->handle.byte_size = size;
    status = hri_file_read(reader, offset, hurray_buffer_info(block)->data, (size_t)size);
    if (status == HURRAY_OK)
        status = hri_file_tensor(&rows->fields, false, block, &begin, false, out);
    hurray_buffer_destroy(block);
    return status;
}

/* A bound of a slice as a row: negative ones count from the end, those beyond it are cut. */
static uint64_t slice_bound(int64_t bound, uint64_t rows) {
    if (bound >= 0) return (uint64_t)bound < rows ? (uint64_t)bound : rows;
    uint64_t back = 0 - (uint64_t)bound;
    return back < rows ? rows - back : 0;
}

/* Which rows are meant: `start` and `stop`, or those of a slice. */
typedef struct Bounds {
    bool is_slice;
    uint64_t start, stop; /* of a slice: int64_t */
} Bounds;

static HurrayStatus make_rows(HurrayFileReader *reader, const HurrayDescriptorFields *fields,
                              uint64_t data_offset, Bounds bounds, HurrayTensor **out) {
    HurrayStatus status = check_layout(fields);
    if (status != HURRAY_OK) return status;
    if (bounds.is_slice) {
        bounds.start = slice_bound((int64_t)bounds.start, fields->shape[0]);
        bounds.stop = slice_bound((int64_t)bounds.stop, fields->shape[0]);
        if (bounds.stop < bounds.start) bounds.stop = bounds.start;
    }
    Rows place;
    status = find_rows(fields, bounds.start, bounds.stop, &place);
    if (status != HURRAY_OK) return status;
    RowFields rows;
    describe(fields, bounds.start, bounds.stop, &rows);
    uint64_t offset = data_offset + place.begin;
    return reader->shares ? share_rows(reader, &rows, offset, place.size, out)
                          : read_rows(reader, &rows, offset, place.size, out);
}

static HurrayStatus rows_of(HurrayFileReader *reader, uint64_t index, Bounds bounds,
                            HurrayTensor **out) {
    if (reader == NULL || out == NULL) return hri_fail_null(reader == NULL ? "reader" : "out");
    HurrayStatus status = hri_file_check_entry(reader, index);
    if (status == HURRAY_OK) status = hri_file_check_size(reader);
    if (status != HURRAY_OK) return status;
    uint32_t entry = (uint32_t)index;
    uint64_t offsets[HURRAY_MAX_BUFFERS];
    HurrayDescriptor *descriptor;
    status = hri_file_descriptor(reader, entry, &descriptor, offsets);
    if (status != HURRAY_OK) return status;
    status = make_rows(reader, hurray_descriptor_fields(descriptor), offsets[0], bounds, out);
    hurray_descriptor_destroy(descriptor);
    return status == HURRAY_OK ? status : hri_file_fail_in(reader, entry, status);
}

HurrayStatus hurray_file_reader_rows(HurrayFileReader *reader, uint64_t index, uint64_t start,
                                     uint64_t stop, HurrayTensor **out) {
    return rows_of(reader, index, (Bounds){false, start, stop}, out);
}

HurrayStatus hurray_file_reader_slice(HurrayFileReader *reader, uint64_t index, int64_t start,
                                      int64_t stop, HurrayTensor **out) {
    return rows_of(reader, index, (Bounds){true, (uint64_t)start, (uint64_t)stop}, out);
}
