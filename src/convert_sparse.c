/*
 * Conversions to and from sparse layouts (include/hurray/convert_sparse.h), made of the parts in
 * convert_sparse.h.
 *
 * A dense source is scanned into COO first; then there are only sparse sources, and tuples are all
 * that is read from them. Into CSR and CSC they go by counting; into COO and CSF as they come or,
 * if they come in another order, sorted by key.
 */
#include <hurray/convert_sparse.h>

#include <hurray/pack.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "checked.h"
#include "convert_sparse.h"
#include "fail.h"
#include "layout.h"
#include "quantization.h"

#define MAX_SPARSE_BUFFERS (1 + 2 * HURRAY_MAX_RANK)

struct HurraySparseConversion {
    /* What is converted; where the source is dense, what was found in it. */
    HurrayDescriptorFields fields;
    const HurrayBytes *buffers;
    HurrayBytes scanned[2];
    HurrayPacking packing;
    size_t value_bytes;    /* of a value, unpacked if need be */
    const uint8_t *values; /* nnz of them; NULL until packed ones are unpacked */
    uint8_t *owned_values, *owned_indices;

    /* What it becomes. */
    HurrayLayout layout;
    uint32_t mode_order[HURRAY_MAX_RANK];
    uint32_t dimensions[HURRAY_MAX_RANK]; /* by level */
    uint32_t buffer_count;
    uint64_t sizes[MAX_SPARSE_BUFFERS];

    /* COO and CSF: the order of the tuples, once it is known. */
    bool is_ordered;
    TupleOrder order;
    Keyed *sorted; /* NULL: they come in it */
    uint64_t level_counts[HURRAY_MAX_RANK];
};

/* ---- what callers give ---- */

static bool is_sparse(uint8_t tag) {
    return hurray_layout_class(tag) == HURRAY_LAYOUT_CLASS_SPARSE;
}

static HurrayStatus check_static(const HurrayDescriptorFields *fields) {
    for (uint32_t k = 0; k < fields->rank; k++) {
        if (fields->shape[k] != HURRAY_DYNAMIC) continue;
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "shape[%" PRIu32 "] is dynamic; expected a known extent", k);
    }
    return HURRAY_OK;
}

/* That the source is of a layout that is read here. */
static HurrayStatus check_source(const HurrayDescriptorFields *fields, bool may_be_dense) {
    const LayoutKind *kind = hri_layout_kind_of(fields);
    if (kind != NULL && (is_sparse(kind->tag) || (may_be_dense && kind->strides != NULL))) {
        return check_static(fields);
    }
    return hri_fail(HURRAY_ERR_UNSUPPORTED, "layout tag 0x%02X; expected %scoo, csr, csc or csf",
                    fields->layout.tag, may_be_dense ? "row_major, col_major, strided, " : "");
}

static HurrayStatus check_buffers(const HurrayDescriptorFields *fields,
                                  const HurrayBytes *buffers) {
    uint32_t count = hri_layout_buffer_count(hri_layout_kind(fields->layout.tag), fields->rank);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t required;
        const char *role;
        HurrayStatus status = hurray_descriptor_required_bytes(fields, i, &required, &role);
        if (status != HURRAY_OK) return status;
        if (buffers[i].size < required) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "%s, buffer %" PRIu32 ", has %" PRIu64
                            " bytes; expected at least %" PRIu64,
                            role, i, buffers[i].size, required);
        }
        if (buffers[i].data == NULL && buffers[i].size != 0) {
            return hri_fail(HURRAY_ERR_NULL_POINTER,
                            "buffers[%" PRIu32 "].data is NULL, with a size of %" PRIu64, i,
                            buffers[i].size);
        }
    }
    return HURRAY_OK;
}

/* The layout of the result, but for nnz; mode_order goes to the array given. */
static HurrayStatus complete_target(const HurrayDescriptorFields *fields,
                                    const HurrayLayout *target, uint32_t *mode_order,
                                    HurrayLayout *out) {
    const LayoutKind *kind = hri_layout_kind(target->tag);
    if (!is_sparse(target->tag) || kind == NULL) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "target layout tag 0x%02X; expected coo, csr, csc or csf", target->tag);
    }
    if (fields->rank < kind->min_rank || fields->rank > kind->max_rank) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "rank %" PRIu32 " with target layout %s; expected %" PRIu32 " ... %" PRIu32,
                        fields->rank, kind->name, kind->min_rank, kind->max_rank);
    }
    *out = (HurrayLayout){.tag = target->tag, .sparse = {.nnz = 0}};
    if (target->tag == HURRAY_LAYOUT_COO) out->sparse.is_sorted = true;
    if (target->tag != HURRAY_LAYOUT_CSF) return HURRAY_OK;
    for (uint32_t level = 0; level < fields->rank; level++) {
        mode_order[level] =
            target->sparse.mode_order == NULL ? level : target->sparse.mode_order[level];
    }
    out->sparse.mode_order = mode_order;
    HurrayDescriptorFields wanted = *fields;
    wanted.layout = *out;
    return kind->check_fields(&wanted);
}

/* ---- values ---- */

static HurrayStatus allocate(uint64_t count, uint64_t item, uint8_t **out) {
    uint64_t bytes;
    size_t size;
    if (!checked_mul_u64(count, item, &bytes) || !checked_size(bytes, &size)) {
        return hri_fail_memory(count);
    }
    uint8_t *block = malloc(size == 0 ? 1 : size);
    if (block == NULL) return hri_fail_memory(bytes);
    *out = block;
    return HURRAY_OK;
}

/* Values of whole bytes: those of the source, or packed ones unpacked. */
static HurrayStatus open_values(HurraySparseConversion *conversion) {
    if (conversion->values != NULL) return HURRAY_OK;
    uint64_t nnz = conversion->fields.layout.sparse.nnz;
    const uint8_t *values = conversion->buffers[0].data;
    if (conversion->packing.bits >= 8) {
        conversion->values = values;
        return HURRAY_OK;
    }
    uint8_t *unpacked = NULL;
    HurrayStatus status = allocate(nnz, 1, &unpacked);
    if (status != HURRAY_OK) return status;
    status = hurray_unpack_bits(conversion->packing.bits, false, values, nnz, unpacked);
    conversion->values = conversion->owned_values = unpacked;
    return status;
}

/* ---- creation ---- */

/* Makes what a dense source stores the source. */
static HurrayStatus scan_source(HurraySparseConversion *conversion, const HurrayBytes *buffer) {
    HurrayDescriptorFields *fields = &conversion->fields;
    const uint8_t *data = buffer->data;
    if (data != NULL) data += fields->byte_offset;
    ScannedElements found;
    HurrayStatus status =
        hri_scan_dense(fields, data, conversion->packing, conversion->dimensions, &found);
    if (status != HURRAY_OK) return status;
    fields->layout = (HurrayLayout){.tag = HURRAY_LAYOUT_COO, .sparse = {.nnz = found.nnz}};
    fields->byte_offset = 0;
    conversion->values = conversion->owned_values = found.values;
    conversion->owned_indices = found.indices;
    conversion->scanned[0] = (HurrayBytes){found.values, found.nnz * conversion->value_bytes};
    conversion->scanned[1] = (HurrayBytes){found.indices, found.nnz * 8 * fields->rank};
    conversion->buffers = conversion->scanned;
    return HURRAY_OK;
}

/* Finds out in which order the tuples come, and sorts them if it is another one. */
static HurrayStatus establish_order(HurraySparseConversion *conversion, TupleReader *reader) {
    const HurrayDescriptorFields *fields = &conversion->fields;
    TupleExamination examination;
    if (conversion->is_ordered) return HURRAY_OK;
    hri_examination_init(&examination, fields, conversion->dimensions);
    HurrayStatus status = hri_tuples_begin(reader, fields, conversion->buffers);
    do {
        if (status == HURRAY_OK) status = hri_tuples_next(reader);
        if (status == HURRAY_OK) status = hri_examine(&examination, reader);
    } while (status == HURRAY_OK && reader->count != 0);
    if (status == HURRAY_OK && !examination.is_in_order) {
        hri_order_init(&conversion->order, fields, conversion->dimensions);
        status =
            hri_sort_tuples(fields, conversion->buffers, &conversion->order, &conversion->sorted);
    }
    if (status != HURRAY_OK) return status;
    conversion->is_ordered = true;
    memcpy(conversion->level_counts, examination.level_counts, sizeof examination.level_counts);
    return HURRAY_OK;
}

/* Stands where the tuples begin, in the order of the result. */
static HurrayStatus begin_ordered(const HurraySparseConversion *conversion, TupleReader *reader) {
    /* What the source itself says is checked once more: it may be a file that someone else has. */
    HurrayStatus status = hri_tuples_begin(reader, &conversion->fields, conversion->buffers);
    if (status == HURRAY_OK && conversion->sorted != NULL) {
        reader->order = &conversion->order;
        reader->keyed = conversion->sorted;
    }
    return status;
}

/* The entries that each level has, of tuples that had to be sorted. */
static HurrayStatus count_levels(HurraySparseConversion *conversion, TupleReader *reader) {
    if (conversion->sorted == NULL) return HURRAY_OK;
    TupleExamination examination;
    hri_examination_init(&examination, &conversion->fields, conversion->dimensions);
    examination.must_be_sorted = false;
    HurrayStatus status = begin_ordered(conversion, reader);
    do {
        if (status == HURRAY_OK) status = hri_tuples_next(reader);
        if (status == HURRAY_OK) status = hri_examine(&examination, reader);
    } while (status == HURRAY_OK && reader->count != 0);
    memcpy(conversion->level_counts, examination.level_counts, sizeof examination.level_counts);
    return status;
}

/* Sizes of the buffers; those of COO, CSR and CSC follow from nnz and shape. */
static HurrayStatus measure(HurraySparseConversion *conversion) {
    HurrayDescriptorFields result = conversion->fields;
    result.layout = conversion->layout;
    const LayoutKind *kind = hri_layout_kind(result.layout.tag);
    HurrayStatus status = kind->required_bytes(&result, conversion->packing, conversion->sizes);
    if (status != HURRAY_OK || result.layout.tag != HURRAY_LAYOUT_CSF) return status;
    TupleReader reader;
    status = establish_order(conversion, &reader);
    if (status == HURRAY_OK) status = count_levels(conversion, &reader);
    if (status != HURRAY_OK) return status;
    uint64_t parents = 1; /* no overflow: entries of a level are at most nnz, which is in memory */
    for (uint32_t level = 0; level < result.rank; level++) {
        uint64_t entries = conversion->level_counts[level];
        conversion->sizes[2 * level + 1] = (parents + 1) * 8;
        conversion->sizes[2 * level + 2] = entries * 8;
        /* nnz = 0 has only one pointer at each level below the root. */
        parents = entries;
    }
    return HURRAY_OK;
}

static HurrayStatus prepare(HurraySparseConversion *conversion, const HurrayBytes *buffers,
                            const HurrayLayout *target) {
    HurrayDescriptorFields *fields = &conversion->fields;
    HurrayStatus status =
        hurray_packing_of(fields->type_tag, fields->extension_type, &conversion->packing);
    if (status == HURRAY_OK) {
        status = complete_target(fields, target, conversion->mode_order, &conversion->layout);
    }
    if (status == HURRAY_OK) status = check_buffers(fields, buffers);
    if (status != HURRAY_OK) return status;
    hri_sparse_dimensions(&conversion->layout, fields->rank, conversion->dimensions);
    conversion->value_bytes = conversion->packing.bits < 8 ? 1 : conversion->packing.group_bytes;
    conversion->buffer_count =
        hri_layout_buffer_count(hri_layout_kind(conversion->layout.tag), fields->rank);
    conversion->buffers = buffers;
    if (!is_sparse(fields->layout.tag)) status = scan_source(conversion, buffers);
    conversion->layout.sparse.nnz = fields->layout.sparse.nnz;
    return status != HURRAY_OK ? status : measure(conversion);
}

HurrayStatus hurray_sparse_conversion_create(const HurrayDescriptorFields *fields,
                                             const HurrayBytes *buffers, const HurrayLayout *target,
                                             HurraySparseConversion **out) {
    if (fields == NULL) return hri_fail_null("fields");
    if (buffers == NULL) return hri_fail_null("buffers");
    if (target == NULL) return hri_fail_null("target");
    if (out == NULL) return hri_fail_null("out");
    HurrayStatus status = check_source(fields, true);
    if (status != HURRAY_OK) return status;
    HurraySparseConversion *conversion = calloc(1, sizeof *conversion);
    if (conversion == NULL) return hri_fail_memory(sizeof *conversion);
    conversion->fields = *fields;
    status = prepare(conversion, buffers, target);
    if (status == HURRAY_OK) {
        *out = conversion;
    } else {
        hurray_sparse_conversion_destroy(&conversion);
    }
    return status;
}

const HurrayLayout *hurray_sparse_conversion_layout(const HurraySparseConversion *conversion) {
    return conversion == NULL ? NULL : &conversion->layout;
}

uint32_t hurray_sparse_conversion_buffer_count(const HurraySparseConversion *conversion) {
    return conversion == NULL ? 0 : conversion->buffer_count;
}

uint64_t hurray_sparse_conversion_buffer_size(const HurraySparseConversion *conversion,
                                              uint32_t index) {
    if (conversion == NULL || index >= conversion->buffer_count) return 0;
    return conversion->sizes[index];
}

void hurray_sparse_conversion_destroy(HurraySparseConversion **conversion) {
    if (conversion == NULL || *conversion == NULL) return;
    free((*conversion)->owned_values);
    free((*conversion)->owned_indices);
    free((*conversion)->sorted);
    free(*conversion);
    *conversion = NULL;
}

/* ---- filling ---- */

static HurrayStatus build(HurraySparseConversion *conversion, const SparseBuilder *builder) {
    TupleReader reader;
    uint8_t tag = conversion->layout.tag;
    hri_order_init(&conversion->order, &conversion->fields, conversion->dimensions);
    bool is_countable = conversion->order.is_by_bits && conversion->order.key_bits < 64;
    if ((tag == HURRAY_LAYOUT_CSR || tag == HURRAY_LAYOUT_CSC) && is_countable) {
        return hri_build_compressed(builder, conversion->buffers);
    }
    HurrayStatus status = establish_order(conversion, &reader);
    if (status == HURRAY_OK) status = begin_ordered(conversion, &reader);
    if (status == HURRAY_OK) status = hri_build_in_order(builder, &reader);
    if (status != HURRAY_OK || conversion->layout.sparse.nnz == 0) return status;
    if (conversion->sorted != NULL) {
        hri_gather_values(builder, conversion->sorted);
    } else {
        memcpy(builder->built, builder->values,
               (size_t)conversion->layout.sparse.nnz * builder->value_bytes);
    }
    return HURRAY_OK;
}

HurrayStatus hurray_sparse_conversion_fill(HurraySparseConversion *conversion,
                                           void *const *destinations) {
    if (conversion == NULL) return hri_fail_null("conversion");
    if (destinations == NULL) return hri_fail_null("destinations");
    for (uint32_t i = 0; i < conversion->buffer_count; i++) {
        if (destinations[i] != NULL || conversion->sizes[i] == 0) continue;
        return hri_fail(HURRAY_ERR_NULL_POINTER,
                        "destinations[%" PRIu32 "] is NULL; expected room for %" PRIu64 " bytes", i,
                        conversion->sizes[i]);
    }
    HurrayStatus status = open_values(conversion);
    if (status != HURRAY_OK) return status;
    SparseBuilder builder = {
        .fields = &conversion->fields,
        .layout = &conversion->layout,
        .level_counts = conversion->level_counts,
        .destinations = destinations,
        .value_bytes = conversion->value_bytes,
        .values = conversion->values,
        .built = destinations[0],
    };
    memcpy(builder.dimensions, conversion->dimensions, sizeof builder.dimensions);
    if (conversion->packing.bits >= 8) return build(conversion, &builder);
    uint64_t nnz = conversion->layout.sparse.nnz;
    uint8_t *unpacked = NULL;
    status = allocate(nnz, 1, &unpacked);
    if (status != HURRAY_OK) return status;
    builder.built = unpacked;
    status = build(conversion, &builder);
    if (status == HURRAY_OK) {
        status = hurray_pack_bits(conversion->packing.bits, unpacked, nnz, destinations[0]);
    }
    free(unpacked);
    return status;
}

/* ---- to dense ---- */

typedef struct DenseTarget {
    HurrayPacking packing;
    uint8_t *data;
    uint64_t count; /* elements */
    uint64_t bytes;
    uint64_t strides[HURRAY_MAX_RANK];
    uint8_t *written; /* a bit for each element, or NULL */
} DenseTarget;

static HurrayStatus measure_dense(const HurrayDescriptorFields *fields, const HurrayLayout *target,
                                  DenseTarget *out) {
    uint8_t tag = target == NULL ? HURRAY_LAYOUT_ROW_MAJOR : target->tag;
    if (tag != HURRAY_LAYOUT_ROW_MAJOR && tag != HURRAY_LAYOUT_COL_MAJOR) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "target layout tag 0x%02X; expected row_major or col_major", tag);
    }
    HurrayStatus status = check_source(fields, false);
    if (status == HURRAY_OK) {
        status = hurray_packing_of(fields->type_tag, fields->extension_type, &out->packing);
    }
    if (status == HURRAY_OK) status = hurray_shape_count(fields->shape, fields->rank, &out->count);
    if (status == HURRAY_OK) status = hurray_packing_size(out->packing, out->count, &out->bytes);
    if (status != HURRAY_OK || out->count == 0) return status;
    uint64_t stride = 1; /* products of extents, none 0: at most count */
    for (uint32_t i = 0; i < fields->rank; i++) {
        uint32_t k = tag == HURRAY_LAYOUT_ROW_MAJOR ? fields->rank - 1 - i : i;
        out->strides[k] = stride;
        stride *= fields->shape[k];
    }
    return HURRAY_OK;
}

/* An element of fewer bits than a byte, into bits that are zero. */
static void put_bits(const DenseTarget *target, uint64_t at, uint32_t value) {
    uint32_t per_group = target->packing.group_elements, bits = target->packing.bits;
    uint32_t bit = (uint32_t)(at % per_group) * bits;
    uint8_t *byte = target->data + (size_t)(at / per_group) * target->packing.group_bytes + bit / 8;
    value <<= bit % 8;
    byte[0] = (uint8_t)(byte[0] | value);
    if (value > 0xFF) byte[1] = (uint8_t)(byte[1] | value >> 8);
}

static uint32_t get_bits(const DenseTarget *target, const uint8_t *values, uint64_t at) {
    uint32_t per_group = target->packing.group_elements, bits = target->packing.bits;
    uint32_t bit = (uint32_t)(at % per_group) * bits;
    const uint8_t *byte = values + (size_t)(at / per_group) * target->packing.group_bytes + bit / 8;
    uint32_t word = byte[0];
    if (bit % 8 + bits > 8) word |= (uint32_t)byte[1] << 8;
    return word >> bit % 8 & ((1u << bits) - 1);
}

/* Also sets the bit. */
static bool is_written(uint8_t *written, uint64_t at) {
    uint8_t bit = (uint8_t)(1u << at % 8), old = written[at / 8];
    written[at / 8] = old | bit;
    return (old & bit) != 0;
}

static HurrayStatus put_block(const DenseTarget *target, const TupleReader *reader) {
    uint32_t rank = reader->fields->rank;
    size_t size = target->packing.group_bytes;
    const uint8_t *values = reader->buffers[0].data;
    const uint64_t *tuple = reader->tuples;
    for (size_t i = 0; i < reader->count; i++, tuple += rank) {
        uint64_t at = 0, position = reader->first + i;
        for (uint32_t k = 0; k < rank; k++) at += tuple[k] * target->strides[k];
        if (target->written != NULL && is_written(target->written, at)) {
            /* Which came first is found by whoever asks: hurray_sparse_find. */
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "indices: tuple %" PRIu64 " is that of an earlier value; expected each "
                            "index once",
                            position);
        }
        if (target->packing.bits < 8) {
            put_bits(target, at, get_bits(target, values, position));
        } else if (size == 4) {
            memcpy(target->data + (size_t)at * 4, values + (size_t)position * 4, 4);
        } else if (size == 8) {
            memcpy(target->data + (size_t)at * 8, values + (size_t)position * 8, 8);
        } else {
            memcpy(target->data + (size_t)at * size, values + (size_t)position * size, size);
        }
    }
    return HURRAY_OK;
}

static HurrayStatus put_all(const DenseTarget *target, const HurrayDescriptorFields *fields,
                            const HurrayBytes *buffers) {
    TupleReader reader;
    TupleExamination examination;
    uint32_t dimensions[HURRAY_MAX_RANK];
    hri_sparse_dimensions(&fields->layout, fields->rank, dimensions);
    hri_examination_init(&examination, fields, dimensions);
    HurrayStatus status = hri_tuples_begin(&reader, fields, buffers);
    do {
        if (status == HURRAY_OK) status = hri_tuples_next(&reader);
        if (status == HURRAY_OK && examination.must_be_sorted) {
            status = hri_examine(&examination, &reader);
        }
        if (status == HURRAY_OK) status = put_block(target, &reader);
    } while (status == HURRAY_OK && reader.count != 0);
    return status;
}

HurrayStatus hurray_sparse_to_dense(const HurrayDescriptorFields *fields,
                                    const HurrayBytes *buffers, const HurrayLayout *target,
                                    bool is_zeroed, void *destination, uint64_t capacity) {
    if (fields == NULL) return hri_fail_null("fields");
    if (buffers == NULL) return hri_fail_null("buffers");
    DenseTarget dense = {.data = destination};
    HurrayStatus status = measure_dense(fields, target, &dense);
    if (status == HURRAY_OK) status = check_buffers(fields, buffers);
    if (status != HURRAY_OK) return status;
    if (capacity < dense.bytes) {
        return hri_fail(HURRAY_ERR_BUFFER_TOO_SMALL,
                        "capacity is %" PRIu64 "; expected %" PRIu64 " bytes", capacity,
                        dense.bytes);
    }
    if (destination == NULL && dense.bytes != 0) return hri_fail_null("destination");
    /* Where order does not tell duplicates, a bit for each element does. */
    bool is_unordered = fields->layout.tag == HURRAY_LAYOUT_COO && !fields->layout.sparse.is_sorted;
    if (is_unordered && dense.count != 0) {
        dense.written = calloc((size_t)(dense.count / 8) + 1, 1);
        if (dense.written == NULL) return hri_fail_memory(dense.count / 8 + 1);
    }
    if (!is_zeroed && dense.bytes != 0) memset(destination, 0, (size_t)dense.bytes);
    status = put_all(&dense, fields, buffers);
    free(dense.written);
    return status;
}

/* ---- tensors ---- */

/* The bytes of a tensor's layout, which may be read here. */
static HurrayStatus open_tensor(const HurrayTensor *tensor, HurrayBytes *buffers) {
    HurrayStatus status = hurray_tensor_check_readable(tensor, true);
    if (status != HURRAY_OK) return status;
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    const HurrayQuantization *quantization = fields->quantization;
    if (quantization != NULL && quantization->scheme != HURRAY_SCHEME_PER_TENSOR) {
        const char *name = hurray_scheme_name(quantization->scheme);
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "quantization scheme %s (0x%02X) has parameters for parts of the tensor; "
                        "expected per_tensor or none",
                        name == NULL ? "unknown" : name, quantization->scheme);
    }
    for (uint32_t i = 0; i < MAX_SPARSE_BUFFERS; i++) {
        const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, i));
        buffers[i] =
            info == NULL ? (HurrayBytes){NULL, 0} : (HurrayBytes){info->data, info->byte_size};
    }
    return HURRAY_OK;
}

/* The tensor with a new layout over buffers that it takes over; they are destroyed on failure. */
static HurrayStatus make_tensor(const HurrayTensor *tensor, const HurrayLayout *layout,
                                uint32_t buffer_count, HurrayBuffer **buffers, HurrayTensor **out) {
    HurrayDescriptorFields fields = *hurray_tensor_fields(tensor);
    fields.layout = *layout;
    fields.byte_offset = 0;
    fields.buffer_count = buffer_count;
    return hurray_tensor_create(&fields, buffers, out);
}

static void destroy_buffers(HurrayBuffer **buffers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (buffers[i] != NULL) hurray_buffer_destroy(buffers[i]);
    }
}

static HurrayStatus fill_tensor(const HurrayTensor *tensor, HurraySparseConversion *conversion,
                                const HurrayAllocator *allocator, HurrayTensor **out) {
    HurrayBuffer *buffers[MAX_SPARSE_BUFFERS] = {NULL};
    void *destinations[MAX_SPARSE_BUFFERS];
    HurrayStatus status = HURRAY_OK;
    for (uint32_t i = 0; status == HURRAY_OK && i < conversion->buffer_count; i++) {
        status = hurray_buffer_allocate(conversion->sizes[i], false, allocator, &buffers[i]);
        if (status == HURRAY_OK) destinations[i] = hurray_buffer_info(buffers[i])->data;
    }
    if (status == HURRAY_OK) status = hurray_sparse_conversion_fill(conversion, destinations);
    if (status == HURRAY_OK) {
        status = make_tensor(tensor, &conversion->layout, conversion->buffer_count, buffers, out);
    }
    if (status != HURRAY_OK) destroy_buffers(buffers, conversion->buffer_count);
    return status;
}

HurrayStatus hurray_tensor_to_sparse(const HurrayTensor *tensor, const HurrayLayout *target,
                                     const HurrayAllocator *allocator, HurrayTensor **out) {
    if (tensor == NULL) return hri_fail_null("tensor");
    if (target == NULL) return hri_fail_null("target");
    if (out == NULL) return hri_fail_null("out");
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    HurrayBytes buffers[MAX_SPARSE_BUFFERS];
    HurrayStatus status = open_tensor(tensor, buffers);
    if (status != HURRAY_OK) return status;
    if (fields->shard != NULL && target->tag == HURRAY_LAYOUT_CSF) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "the tensor has a shard section, which layout csf may not have");
    }
    HurraySparseConversion *conversion = NULL;
    status = hurray_sparse_conversion_create(fields, buffers, target, &conversion);
    if (status == HURRAY_OK) status = fill_tensor(tensor, conversion, allocator, out);
    hurray_sparse_conversion_destroy(&conversion);
    return status;
}

HurrayStatus hurray_tensor_to_dense(const HurrayTensor *tensor, const HurrayLayout *target,
                                    const HurrayAllocator *allocator, HurrayTensor **out) {
    if (tensor == NULL) return hri_fail_null("tensor");
    if (out == NULL) return hri_fail_null("out");
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    HurrayBytes buffers[MAX_SPARSE_BUFFERS];
    DenseTarget dense = {.data = NULL};
    HurrayStatus status = open_tensor(tensor, buffers);
    if (status == HURRAY_OK) status = measure_dense(fields, target, &dense);
    if (status != HURRAY_OK) return status;
    HurrayBuffer *buffer = NULL;
    status = hurray_buffer_allocate(dense.bytes, true, allocator, &buffer);
    if (status != HURRAY_OK) return status;
    status = hurray_sparse_to_dense(fields, buffers, target, true, hurray_buffer_info(buffer)->data,
                                    dense.bytes);
    if (status == HURRAY_OK) {
        uint8_t tag = target == NULL ? HURRAY_LAYOUT_ROW_MAJOR : target->tag;
        HurrayLayout layout = {.tag = tag};
        status = make_tensor(tensor, &layout, 1, &buffer, out);
    }
    if (status != HURRAY_OK) hurray_buffer_destroy(buffer);
    return status;
}
