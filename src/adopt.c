/* Tensors over strided memory that others own (include/hurray/adopt.h, spec 8.5, 8.6). */
#include "adopt.h"

#include <hurray/pack.h>
#include <hurray/transcode.h>
#include <inttypes.h>

#include "buffer.h"
#include "checked.h"
#include "fail.h"

/* An import under way: what came, and what was found out about it. */
typedef struct Import {
    const HriAdoption *from;
    const HurrayBufferInfo *info; /* of from */
    const HurrayElementType *type;
    uint32_t rank;
    const uint64_t *shape;
    const int64_t *strides; /* i64[rank], never NULL */
    HurrayPacking packing;
    uint64_t count;
    bool has_address;       /* info->data is an address, not a handle */
    bool contiguous;        /* row-major without gaps */
    uint32_t element_bytes; /* as it lies there: a whole byte for narrower types */
    uint64_t bytes_before;  /* the elements reach this far to either side of element [0, …, 0] */
    uint64_t bytes_after;   /* … its own bytes included */
} Import;

/* Whether strides are those of row-major order; where there is one element or none, any will do. */
static bool is_contiguous(uint32_t rank, const uint64_t *shape, const int64_t *strides) {
    uint64_t expected = 1;
    for (uint32_t k = rank; k-- > 0;) {
        if (shape[k] == 1) continue;
        if (strides[k] < 0 || (uint64_t)strides[k] != expected) return false;
        if (!checked_mul_u64(expected, shape[k], &expected)) return false;
    }
    return true;
}

static bool measure_reach(Import *import) {
    uint64_t before = 0, after = 0;
    for (uint32_t k = 0; k < import->rank; k++) {
        int64_t stride = import->strides[k];
        uint64_t *side = stride < 0 ? &before : &after;
        uint64_t distance;
        if (!checked_mul_u64(magnitude_i64(stride), import->shape[k] - 1, &distance) ||
            !checked_add_u64(*side, distance, side)) {
            return false;
        }
    }
    return checked_mul_u64(before, import->element_bytes, &import->bytes_before) &&
           checked_add_u64(after, 1, &after) &&
           checked_mul_u64(after, import->element_bytes, &import->bytes_after);
}

/*
 * Neither side of the data may leave the address space; behind a handle, whose memory begins at 0,
 * the side before it must be covered by byte_offset.
 */
static HurrayStatus check_reach(Import *import) {
    bool address = import->has_address;
    uint64_t start = address ? (uintptr_t)import->info->data : import->from->byte_offset;
    uint64_t limit = address ? UINTPTR_MAX : UINT64_MAX;
    /* The lowest 64 bytes of the address space are nobody's, and rounded down they would be NULL. */
    uint64_t reserved = address ? HURRAY_MIN_BUFFER_ALIGNMENT : 0;
    if (!measure_reach(import) || start < reserved || import->bytes_before > start - reserved ||
        import->bytes_after > limit - start) {
        return hri_fail(HURRAY_ERR_BAD_PRODUCER,
                        address ? "the strides reach beyond the address space from data 0x%" PRIx64
                                : "the strides reach outside the memory from byte_offset %" PRIu64,
                        start);
    }
    return HURRAY_OK;
}

static HurrayStatus inspect(const HriAdoption *from, int64_t *strides_storage, Import *import) {
    *import = (Import){
        .from = from,
        .info = &from->info,
        .type = hurray_element_type_from_tag(from->type_tag),
        .rank = from->rank,
        .shape = from->shape,
        .strides = from->strides,
        .has_address = hurray_device_has_addresses(from->info.device.tag),
    };
    if (import->type == NULL) {
        return hri_fail(HURRAY_ERR_INVALID_TYPE, "type tag 0x%02X is not an element type",
                        from->type_tag);
    }
    /* What sharing would be refused for, a copy must not hide. */
    HurrayBufferHandle place = {.alignment = 1,
                                .device_tag = from->info.device.tag,
                                .sync_mode = from->info.sync_mode,
                                .memory_class = from->info.device.memory_class};
    HurrayStatus status = hurray_buffer_handle_check(&place);
    if (status != HURRAY_OK) return status;
    hurray_packing_from_bits(import->type->bits, &import->packing);
    import->element_bytes = import->type->bits < 8 ? 1 : import->packing.group_bytes;
    if (import->rank > HURRAY_MAX_RANK) {
        return hri_fail(HURRAY_ERR_BAD_PRODUCER, "%" PRIu32 " dimensions; expected at most %u",
                        import->rank, HURRAY_MAX_RANK);
    }
    status = hurray_shape_count(import->shape, import->rank, &import->count);
    if (status != HURRAY_OK) return status;
    if (import->strides == NULL) {
        hurray_shape_row_major_strides(import->shape, import->rank, strides_storage);
        import->strides = strides_storage;
    }
    if (import->count == 0) {
        import->contiguous = true;
        return HURRAY_OK;
    }
    import->contiguous = is_contiguous(import->rank, import->shape, import->strides);
    if (import->info->data == NULL) {
        return hri_fail(HURRAY_ERR_BAD_PRODUCER, "data is NULL for %" PRIu64 " elements",
                        import->count);
    }
    return check_reach(import);
}

static HurrayStatus finish(const Import *import, bool strided, uint64_t byte_offset,
                           HurrayBuffer *buffer, HurrayTensor **out) {
    HurrayDescriptorFields fields = {
        .type_tag = import->type->tag,
        .rank = import->rank,
        .shape = import->shape,
        .byte_offset = byte_offset,
        .layout = {strided ? HURRAY_LAYOUT_STRIDED : HURRAY_LAYOUT_ROW_MAJOR,
                   {strided ? import->strides : NULL}},
        .buffer_count = 1,
    };
    return hurray_tensor_create(&fields, &buffer, out);
}

static void copy_elements(const Import *import, uint8_t *destination) {
    const uint8_t *source = import->info->data;
    if (import->packing.bits < 8) {
        hurray_pack_strided(import->rank, import->shape, import->packing, source, import->strides,
                            destination);
    } else {
        int64_t strides[HURRAY_MAX_RANK];
        hurray_shape_row_major_strides(import->shape, import->rank, strides);
        hurray_copy_strided(import->rank, import->shape, import->element_bytes, source,
                            import->strides, destination, strides);
    }
}

static HurrayStatus take_copy(const Import *import, HurrayTensor **out) {
    const HriAdoption *from = import->from;
    if (import->info->device.tag != HURRAY_DEVICE_CPU) {
        const char *name = hurray_device_name(import->info->device.tag);
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "%s elements on device %s would have to be copied, which is done on the "
                        "CPU only",
                        import->type->name, name == NULL ? "private" : name);
    }
    uint64_t bytes = 0;
    HurrayStatus status = hurray_packing_size(import->packing, import->count, &bytes);
    if (status != HURRAY_OK) return status;
    HurrayBuffer *buffer = NULL;
    status = hurray_buffer_allocate(bytes, false, from->allocator, &buffer);
    if (status != HURRAY_OK) return status;
    if (import->count != 0) copy_elements(import, hurray_buffer_info(buffer)->data);
    status = finish(import, false, 0, buffer, out);
    if (status != HURRAY_OK) {
        hurray_buffer_destroy(buffer);
        return status;
    }
    if (from->release != NULL) from->release(import->info->data, from->context);
    return HURRAY_OK;
}

/*
 * The buffer from the lowest element to the highest. On a device, an address that is not 64-aligned
 * is rounded down: device allocators give out larger alignments, so the start of the same 64 bytes
 * belongs to the same allocation, and nobody reads it.
 */
static HurrayStatus take_shared(const Import *import, HurrayTensor **out) {
    const HriAdoption *from = import->from;
    HurrayBufferInfo info = *import->info;
    uint64_t byte_offset = import->bytes_before;
    if (import->count == 0) {
        byte_offset = 0;
        info.byte_size = 0;
        info.alignment = 1;
    } else if (import->has_address) {
        uintptr_t lowest = (uintptr_t)info.data - (uintptr_t)import->bytes_before;
        uintptr_t excess =
            info.device.tag == HURRAY_DEVICE_CPU ? 0 : lowest & (HURRAY_MIN_BUFFER_ALIGNMENT - 1);
        info.data = (void *)(lowest - excess);
        byte_offset += excess;
        info.byte_size = byte_offset + import->bytes_after;
        info.alignment = hurray_measured_alignment(info.data);
    } else {
        byte_offset = from->byte_offset;
        info.byte_size = byte_offset + import->bytes_after;
        info.alignment = HURRAY_MIN_BUFFER_ALIGNMENT;
    }
    HurrayBuffer *buffer = NULL;
    HurrayStatus status = hurray_buffer_create(&info, from->release, from->context, &buffer);
    if (status != HURRAY_OK) return status;
    status = finish(import, !import->contiguous, byte_offset, buffer, out);
    if (status != HURRAY_OK) hri_buffer_abandon(buffer);
    return status;
}

/* Whether the memory can be shared; if not, why, for a caller that forbids a copy. */
static bool can_share(const Import *import, HurrayStatus *refusal) {
    if (import->count == 0) return true;
    if (import->packing.bits < 8) {
        *refusal = hri_fail(HURRAY_ERR_COPY_REQUIRED,
                            "%s elements lie one per byte and are packed into %" PRIu32
                            " bits each, which is a copy",
                            import->type->name, import->packing.bits);
        return false;
    }
    if (import->info->device.tag != HURRAY_DEVICE_CPU) return true;
    uintptr_t lowest = (uintptr_t)import->info->data - (uintptr_t)import->bytes_before;
    uint32_t alignment = hurray_measured_alignment((void *)lowest);
    if (alignment >= HURRAY_MIN_BUFFER_ALIGNMENT) return true;
    *refusal = hri_fail(HURRAY_ERR_COPY_REQUIRED,
                        "the data is %" PRIu32 "-byte aligned; sharing it without a copy needs %u",
                        alignment, HURRAY_MIN_BUFFER_ALIGNMENT);
    return false;
}

HurrayStatus hri_adopt(const HriAdoption *from, HurrayTensor **out) {
    int64_t strides_storage[HURRAY_MAX_RANK];
    Import import;
    HurrayStatus status = inspect(from, strides_storage, &import);
    if (status != HURRAY_OK) return status;
    if (from->copy == HURRAY_COPY_ALWAYS) return take_copy(&import, out);
    HurrayStatus refusal = HURRAY_OK;
    if (can_share(&import, &refusal)) return take_shared(&import, out);
    return from->copy == HURRAY_COPY_NEVER ? refusal : take_copy(&import, out);
}

HurrayStatus hurray_tensor_from_strided(const HurrayBufferInfo *info, uint8_t type_tag,
                                        uint32_t rank, const uint64_t *shape,
                                        const int64_t *strides, HurrayReleaseCallback release,
                                        void *context, HurrayCopy copy,
                                        const HurrayAllocator *allocator, HurrayTensor **out) {
    if (info == NULL || out == NULL) return hri_fail_null(out == NULL ? "out" : "info");
    HriAdoption from = {
        .info = *info,
        .type_tag = type_tag,
        .rank = rank,
        .shape = shape,
        .strides = strides,
        .release = release,
        .context = context,
        .copy = copy,
        .allocator = allocator,
    };
    return hri_adopt(&from, out);
}
