/* Tensors, their views and copies (include/hurray/tensor.h). */
#include "tensor.h"

#include <hurray/address.h>
#include <hurray/pack.h>
#include <hurray/transcode.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "checked.h"
#include "descriptor.h"
#include "fail.h"
#include "layout.h"
#include "references.h"

struct HurrayTensor {
    atomic_size_t references;
    uint64_t count;         /* elements; UINT64_MAX while a dimension is dynamic */
    const int64_t *strides; /* i64[rank] in the arena; NULL where there are none */
    HurrayBuffer **buffers; /* in the arena */
    struct HurrayDescriptor descriptor;
    /* the arena follows */
};

/* ---- making ---- */

/* The tensor with `fields`, valid and with a full buffer table, over buffers it takes over. */
static HurrayStatus assemble(const HurrayDescriptorFields *fields, HurrayBuffer *const *buffers,
                             HurrayTensor **out) {
    size_t strides_bytes = (size_t)fields->rank * sizeof(int64_t);
    size_t buffers_bytes = (size_t)fields->buffer_count * sizeof(HurrayBuffer *);
    size_t head = arena_footprint(sizeof(HurrayTensor));
    size_t size = head + hri_descriptor_footprint(fields) + arena_footprint(strides_bytes) +
                  arena_footprint(buffers_bytes);
    HurrayTensor *tensor = malloc(size);
    if (tensor == NULL) return hri_fail_memory(size);

    Arena arena = {(uint8_t *)tensor + head, (uint8_t *)tensor + size};
    atomic_init(&tensor->references, 1);
    hri_descriptor_copy(fields, &arena, &tensor->descriptor);
    tensor->buffers = arena_take(&arena, buffers_bytes);
    for (uint32_t i = 0; i < fields->buffer_count; i++) tensor->buffers[i] = buffers[i];

    int64_t *strides = arena_take(&arena, strides_bytes);
    const LayoutKind *kind = hri_layout_kind_of(fields);
    bool has_strides = fields->rank != 0 && kind->strides != NULL && kind->strides(fields, strides);
    tensor->strides = has_strides ? strides : NULL;
    bool dynamic = hurray_shape_is_dynamic(fields->shape, fields->rank);
    tensor->count = UINT64_MAX;
    if (!dynamic) hurray_shape_count(fields->shape, fields->rank, &tensor->count);
    *out = tensor;
    return HURRAY_OK;
}

/* Beyond what handles tell: the device ids and the staging of all buffers agree. */
static HurrayStatus check_same_place(const HurrayDescriptorFields *fields,
                                     HurrayBuffer *const *buffers) {
    for (uint32_t i = 1; i < fields->buffer_count; i++) {
        const HurrayBufferInfo *info = hurray_buffer_info(buffers[i]);
        const HurrayBufferInfo *first = hurray_buffer_info(buffers[0]);
        if (info->device.device_id != first->device.device_id) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "buffer %" PRIu32 " is on device id %" PRId32
                            ", but buffer 0 on %" PRId32 "; all must be on one",
                            i, info->device.device_id, first->device.device_id);
        }
        if (((info->flags ^ first->flags) & HURRAY_BUFFER_STAGED_ON_HOST) != 0) {
            return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                            "buffer %" PRIu32 " and buffer 0 are not both staged on the host", i);
        }
    }
    return HURRAY_OK;
}

HurrayStatus hri_tensor_create_checked(const HurrayDescriptorFields *fields,
                                       HurrayBuffer *const *buffers, HurrayTensor **out) {
    HurrayStatus status = check_same_place(fields, buffers);
    return status != HURRAY_OK ? status : assemble(fields, buffers, out);
}

HurrayStatus hurray_tensor_create(const HurrayDescriptorFields *fields,
                                  HurrayBuffer *const *buffers, HurrayTensor **out) {
    if (fields == NULL || out == NULL) return hri_fail_null(out == NULL ? "out" : "fields");
    if (buffers == NULL && fields->buffer_count != 0) return hri_fail_null("buffers");
    if (fields->buffer_count > HURRAY_MAX_BUFFERS) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "buffer count %" PRIu32 " is greater than %u",
                        fields->buffer_count, HURRAY_MAX_BUFFERS);
    }
    HurrayBufferHandle handles[HURRAY_MAX_BUFFERS];
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        if (buffers[i] == NULL) return hri_fail_null("a buffer");
        handles[i] = hurray_buffer_handle(buffers[i]);
    }
    HurrayDescriptorFields complete = *fields;
    complete.buffers = handles;
    HurrayStatus status = hurray_descriptor_validate(&complete);
    return status != HURRAY_OK ? status : hri_tensor_create_checked(&complete, buffers, out);
}

HurrayTensor *hurray_tensor_retain(HurrayTensor *tensor) {
    if (tensor != NULL) {
        atomic_fetch_add_explicit(&tensor->references, 1, memory_order_relaxed);
    }
    return tensor;
}

void hurray_tensor_release(HurrayTensor *tensor) {
    if (tensor == NULL) return;
    if (!references_drop(&tensor->references, 1)) return;
    hri_buffers_drop(tensor->buffers, tensor->descriptor.fields.buffer_count);
    free(tensor);
}

/* ---- looking ---- */

const HurrayDescriptorFields *hurray_tensor_fields(const HurrayTensor *tensor) {
    return tensor == NULL ? NULL : &tensor->descriptor.fields;
}

HurrayBuffer *const *hri_tensor_buffers(const HurrayTensor *tensor) { return tensor->buffers; }

HurrayBuffer *hurray_tensor_buffer(const HurrayTensor *tensor, uint32_t index) {
    if (tensor == NULL || index >= tensor->descriptor.fields.buffer_count) return NULL;
    return tensor->buffers[index];
}

HurrayDevice hurray_tensor_device(const HurrayTensor *tensor) {
    const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
    return info == NULL ? (HurrayDevice){0} : info->device;
}

const int64_t *hurray_tensor_strides(const HurrayTensor *tensor) {
    return tensor == NULL ? NULL : tensor->strides;
}

uint64_t hurray_tensor_count(const HurrayTensor *tensor) {
    return tensor == NULL ? 0 : tensor->count;
}

bool hurray_tensor_is_read_only(const HurrayTensor *tensor) {
    HurrayBuffer *buffer;
    for (uint32_t i = 0; (buffer = hurray_tensor_buffer(tensor, i)) != NULL; i++) {
        if ((hurray_buffer_info(buffer)->flags & HURRAY_BUFFER_READ_ONLY) != 0) return true;
    }
    return false;
}

void *hurray_tensor_data(const HurrayTensor *tensor) {
    const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
    if (info == NULL || info->data == NULL || tensor->count == 0) return NULL;
    bool computable = hurray_device_has_addresses(info->device.tag) ||
                      (info->flags & HURRAY_BUFFER_STAGED_ON_HOST) != 0;
    if (!computable) return info->data;
    /* Through an integer: arithmetic on a pointer to device memory means nothing in C. */
    return (void *)((uintptr_t)info->data + (uintptr_t)tensor->descriptor.fields.byte_offset);
}

HurrayStatus hurray_tensor_check_readable(const HurrayTensor *tensor, bool staged_too) {
    if (tensor == NULL) return hri_fail_null("tensor");
    HurrayBuffer *buffer;
    for (uint32_t i = 0; (buffer = hurray_tensor_buffer(tensor, i)) != NULL; i++) {
        const HurrayBufferInfo *info = hurray_buffer_info(buffer);
        bool staged = (info->flags & HURRAY_BUFFER_STAGED_ON_HOST) != 0;
        const char *name = hurray_device_name(info->device.tag);
        if (name == NULL) name = "private";
        if (staged && !staged_too) {
            return hri_fail(HURRAY_ERR_UNSUPPORTED,
                            "the tensor declares device %s, but its bytes are host memory that "
                            "stands in for it: they can be described, not handed over",
                            name);
        }
        if (info->sync_mode != HURRAY_SYNC_PRODUCER_SYNCED) {
            return hri_fail(HURRAY_ERR_UNSUPPORTED,
                            "buffer %" PRIu32 " has sync mode %s: only producer_synced bytes may "
                            "be read at once",
                            i, hurray_sync_mode_name(info->sync_mode));
        }
        if (!staged && info->device.tag != HURRAY_DEVICE_CPU) {
            return hri_fail(HURRAY_ERR_UNSUPPORTED,
                            "the tensor is on device %s, whose memory is never read here: move it "
                            "to the CPU first",
                            name);
        }
    }
    return HURRAY_OK;
}

HurrayStatus hurray_tensor_verify(const HurrayTensor *tensor, HurrayViolation *out) {
    HurrayStatus status = hurray_tensor_check_readable(tensor, true);
    if (status != HURRAY_OK) return status;
    HurrayBytes buffers[HURRAY_MAX_BUFFERS];
    uint32_t count = tensor->descriptor.fields.buffer_count;
    for (uint32_t i = 0; i < count; i++) {
        const HurrayBufferInfo *info = hurray_buffer_info(tensor->buffers[i]);
        buffers[i] = (HurrayBytes){info->data, info->byte_size};
    }
    return hurray_verify(&tensor->descriptor.fields, buffers, count, out);
}

/* ---- views ---- */

/* A tensor of valid fields that shares buffers with another one. */
static HurrayStatus share(const HurrayDescriptorFields *fields, HurrayBuffer *const *buffers,
                          HurrayTensor **out) {
    HurrayStatus status = hurray_tensor_create(fields, buffers, out);
    for (uint32_t i = 0; status == HURRAY_OK && i < fields->buffer_count; i++) {
        hurray_buffer_retain(buffers[i]);
    }
    return status;
}

HurrayStatus hurray_tensor_transpose(HurrayTensor *tensor, HurrayTensor **out) {
    if (tensor == NULL || out == NULL) return hri_fail_null(out ? "tensor" : "out");
    HurrayDescriptorFields fields = tensor->descriptor.fields;
    if (fields.rank != 2) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "the transpose needs rank 2; this tensor has rank %" PRIu32, fields.rank);
    }
    if (fields.shard != NULL || fields.quantization != NULL) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "the transpose of a tensor with a %s section would need another section",
                        fields.shard != NULL ? "shard" : "quantization");
    }
    uint64_t shape[2] = {fields.shape[1], fields.shape[0]};
    int64_t strides[2] = {0, 0};
    switch (fields.layout.tag) {
    case HURRAY_LAYOUT_ROW_MAJOR: fields.layout.tag = HURRAY_LAYOUT_COL_MAJOR; break;
    case HURRAY_LAYOUT_COL_MAJOR: fields.layout.tag = HURRAY_LAYOUT_ROW_MAJOR; break;
    case HURRAY_LAYOUT_STRIDED:
        strides[0] = fields.layout.strides[1];
        strides[1] = fields.layout.strides[0];
        fields.layout.strides = strides;
        break;
    default:
        return hri_fail(HURRAY_ERR_UNSUPPORTED, "layout %s has no transposed view",
                        hurray_layout_name(fields.layout.tag));
    }
    fields.shape = shape;
    return share(&fields, tensor->buffers, out);
}

HurrayStatus hurray_tensor_buffer_view(HurrayTensor *tensor, uint32_t index, HurrayTensor **out) {
    if (tensor == NULL || out == NULL) return hri_fail_null(out ? "tensor" : "out");
    HurrayBuffer *buffer = hurray_tensor_buffer(tensor, index);
    if (buffer == NULL) {
        return hri_fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS,
                        "buffer %" PRIu32 " of a tensor with %" PRIu32, index,
                        tensor->descriptor.fields.buffer_count);
    }
    uint64_t shape[1] = {hurray_buffer_info(buffer)->byte_size};
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 1,
        .shape = shape,
        .layout = {HURRAY_LAYOUT_ROW_MAJOR, {NULL}},
        .buffer_count = 1,
    };
    return share(&fields, &buffer, out);
}

HurrayStatus hurray_tensor_reinterpret(HurrayTensor *tensor, uint8_t type_tag, HurrayTensor **out) {
    if (tensor == NULL || out == NULL) return hri_fail_null(out ? "tensor" : "out");
    HurrayDescriptorFields fields = tensor->descriptor.fields;
    const HurrayElementType *from = hurray_element_type_from_tag(fields.type_tag);
    const HurrayElementType *to = hurray_element_type_from_tag(type_tag);
    if (to == NULL) {
        return hri_fail(HURRAY_ERR_INVALID_TYPE, "type tag 0x%02X is not an element type",
                        type_tag);
    }
    if (from == NULL || fields.quantization != NULL) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED, "%s elements are not reinterpreted",
                        from == NULL ? "private" : "quantized");
    }
    if (from->bits != to->bits) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT, "%s has %u bits, %s has %u", from->name,
                        from->bits, to->name, to->bits);
    }
    fields.type_tag = type_tag;
    return share(&fields, tensor->buffers, out);
}

/* ---- copies ---- */

/* A dense strided tensor that this process may read, with the packing of its elements. */
static HurrayStatus check_source(const HurrayTensor *tensor, HurrayPacking *packing) {
    HurrayStatus status = hurray_tensor_check_readable(tensor, true);
    if (status != HURRAY_OK) return status;
    const HurrayDescriptorFields *fields = &tensor->descriptor.fields;
    uint64_t count; /* strides may be known where an extent is not */
    status = hurray_shape_count(fields->shape, fields->rank, &count);
    if (status != HURRAY_OK) return status;
    if (tensor->strides == NULL && fields->rank != 0) {
        int64_t unused[HURRAY_MAX_RANK];
        return hurray_address_strides(fields, unused); /* says why there are none */
    }
    return hurray_packing_of(fields->type_tag, fields->extension_type, packing);
}

static bool is_packed_row_major(const HurrayTensor *tensor) {
    const HurrayDescriptorFields *fields = &tensor->descriptor.fields;
    return fields->layout.tag == HURRAY_LAYOUT_ROW_MAJOR && fields->quantization == NULL;
}

/* The elements, row-major and packed, into `destination`; `bytes` is their size. */
static HurrayStatus copy_elements(const HurrayTensor *tensor, HurrayPacking packing, uint64_t bytes,
                                  uint8_t *destination) {
    const HurrayDescriptorFields *fields = &tensor->descriptor.fields;
    if (tensor->count == 0) return HURRAY_OK;
    const uint8_t *source = hurray_tensor_data(tensor);
    if (is_packed_row_major(tensor) && packing.bits >= 8) {
        memcpy(destination, source, (size_t)bytes);
        return HURRAY_OK;
    }
    if (packing.bits >= 8) {
        int64_t strides[HURRAY_MAX_RANK];
        hurray_shape_row_major_strides(fields->shape, fields->rank, strides);
        return hurray_copy_strided(fields->rank, fields->shape, packing.group_bytes, source,
                                   tensor->strides, destination, strides);
    }
    /* Through a byte each; also clears the unused bits at the end, which a source may hold. */
    size_t count;
    if (!checked_size(tensor->count, &count)) return hri_fail_memory(tensor->count);
    uint8_t *values = malloc(count);
    if (values == NULL) return hri_fail_memory(tensor->count);
    HurrayStatus status = hurray_tensor_unpack(tensor, values);
    if (status == HURRAY_OK) {
        status = hurray_pack_bits(packing.bits, values, tensor->count, destination);
    }
    free(values);
    return status;
}

HurrayStatus hurray_tensor_copy(const HurrayTensor *tensor, const HurrayAllocator *allocator,
                                HurrayTensor **out) {
    if (tensor == NULL || out == NULL) return hri_fail_null(out ? "tensor" : "out");
    HurrayPacking packing;
    HurrayStatus status = check_source(tensor, &packing);
    if (status != HURRAY_OK) return status;
    if (tensor->descriptor.fields.quantization != NULL) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED, "a quantized tensor is not copied by this path");
    }
    uint64_t bytes = 0;
    status = hurray_packing_size(packing, tensor->count, &bytes);
    if (status != HURRAY_OK) return status;

    HurrayBuffer *buffer = NULL;
    status = hurray_buffer_allocate(bytes, false, allocator, &buffer);
    if (status != HURRAY_OK) return status;
    status = copy_elements(tensor, packing, bytes, hurray_buffer_info(buffer)->data);
    if (status == HURRAY_OK) {
        HurrayDescriptorFields fields = tensor->descriptor.fields;
        fields.layout = (HurrayLayout){HURRAY_LAYOUT_ROW_MAJOR, {NULL}};
        fields.byte_offset = 0;
        status = hurray_tensor_create(&fields, &buffer, out);
    }
    if (status != HURRAY_OK) hurray_buffer_destroy(buffer);
    return status;
}

HurrayStatus hurray_tensor_unpack(const HurrayTensor *tensor, uint8_t *values) {
    if (tensor == NULL) return hri_fail_null("tensor");
    HurrayPacking packing;
    HurrayStatus status = check_source(tensor, &packing);
    if (status != HURRAY_OK) return status;
    if (packing.bits >= 8) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "elements of %" PRIu32 " bits are not packed; expected 1, 2, 4 or 6",
                        packing.bits);
    }
    if (tensor->count == 0) return HURRAY_OK;
    if (values == NULL) return hri_fail_null("values");
    const HurrayDescriptorFields *fields = &tensor->descriptor.fields;
    const HurrayElementType *type = hurray_element_type_from_tag(fields->type_tag);
    bool sign_extend =
        type != NULL ? type->is_integer && type->is_signed : fields->extension_type->is_signed;
    const uint8_t *source = hurray_tensor_data(tensor);
    if (is_packed_row_major(tensor)) {
        return hurray_unpack_bits(packing.bits, sign_extend, source, tensor->count, values);
    }
    return hurray_unpack_strided(fields->rank, fields->shape, packing, sign_extend, source,
                                 tensor->strides, values);
}
