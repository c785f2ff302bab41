/* Tensors to and from DLPack's structs (include/hurray/dlpack.h, spec 8.6). */
#include <hurray/dlpack.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "adopt.h"
#include "fail.h"

/* ---- element types ---- */

/* Searched from the front: what is exchanged most stands first. */
static const struct {
    uint8_t tag;
    uint8_t code;
    uint8_t bits;
    bool exported; /* the rest is only taken in (spec 8.6) */
} types[] = {
    {HURRAY_TYPE_FLOAT32, HURRAY_DL_FLOAT, 32, true},
    {HURRAY_TYPE_FLOAT64, HURRAY_DL_FLOAT, 64, true},
    {HURRAY_TYPE_BFLOAT16, HURRAY_DL_BFLOAT, 16, true},
    {HURRAY_TYPE_FLOAT16, HURRAY_DL_FLOAT, 16, true},
    {HURRAY_TYPE_INT64, HURRAY_DL_INT, 64, true},
    {HURRAY_TYPE_INT32, HURRAY_DL_INT, 32, true},
    {HURRAY_TYPE_UINT8, HURRAY_DL_UINT, 8, true},
    {HURRAY_TYPE_INT8, HURRAY_DL_INT, 8, true},
    {HURRAY_TYPE_INT16, HURRAY_DL_INT, 16, true},
    {HURRAY_TYPE_UINT16, HURRAY_DL_UINT, 16, true},
    {HURRAY_TYPE_UINT32, HURRAY_DL_UINT, 32, true},
    {HURRAY_TYPE_UINT64, HURRAY_DL_UINT, 64, true},
    {HURRAY_TYPE_COMPLEX64, HURRAY_DL_COMPLEX, 64, true},
    {HURRAY_TYPE_COMPLEX128, HURRAY_DL_COMPLEX, 128, true},
    {HURRAY_TYPE_BOOL, HURRAY_DL_BOOL, 8, false},
    {HURRAY_TYPE_FLOAT8_E4M3, HURRAY_DL_FLOAT8_E4M3FN, 8, false},
    {HURRAY_TYPE_FLOAT8_E5M2, HURRAY_DL_FLOAT8_E5M2, 8, false},
    {HURRAY_TYPE_FLOAT8_E8M0, HURRAY_DL_FLOAT8_E8M0FNU, 8, false},
};

#define TYPE_COUNT (sizeof types / sizeof types[0])

HurrayStatus hurray_element_type_to_dlpack(uint8_t tag, HurrayDLDataType *out) {
    if (out == NULL) return hri_fail_null("out");
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (types[i].tag == tag && types[i].exported) {
            *out = (HurrayDLDataType){types[i].code, types[i].bits, 1};
            return HURRAY_OK;
        }
    }
    if (tag == HURRAY_TYPE_BOOL) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "bool is 1 bit per element here and 1 byte in DLPack, so it cannot be "
                        "shared: use __array__ for an unpacked copy, or __hurray__");
    }
    const HurrayElementType *type = hurray_element_type_from_tag(tag);
    return hri_fail(HURRAY_ERR_UNSUPPORTED, "DLPack does not carry elements of type %s",
                    type == NULL ? "private" : type->name);
}

HurrayStatus hurray_element_type_from_dlpack(HurrayDLDataType dtype, uint8_t *out_tag) {
    if (out_tag == NULL) return hri_fail_null("out_tag");
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (types[i].code == dtype.code && types[i].bits == dtype.bits && dtype.lanes == 1) {
            *out_tag = types[i].tag;
            return HURRAY_OK;
        }
    }
    return hri_fail(HURRAY_ERR_UNSUPPORTED,
                    dtype.lanes != 1
                        ? "DLPack type code %u, %u bits has %u lanes; only 1 lane is supported"
                        : "DLPack type code %u, %u bits, %u lane has no counterpart",
                    dtype.code, dtype.bits, dtype.lanes);
}

/* ---- export ---- */

static HurrayStatus check_extents(const HurrayDescriptorFields *fields) {
    for (uint32_t k = 0; k < fields->rank; k++) {
        if (fields->shape[k] == HURRAY_DYNAMIC) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "shape[%" PRIu32 "] is dynamic; DLPack needs every extent", k);
        }
        if (fields->shape[k] > INT64_MAX) {
            return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                            "shape[%" PRIu32 "] is %" PRIu64 "; DLPack holds at most 2^63 − 1", k,
                            fields->shape[k]);
        }
    }
    return HURRAY_OK;
}

/* A pointer may be handed over when it is what it claims to be; of all reasons this is the first,
 * because no other remedy helps. `info` is of buffer 0, NULL where there is none. */
static HurrayStatus check_not_staged(const HurrayTensor *tensor, const HurrayBufferInfo *info) {
    bool staged = info != NULL && (info->flags & HURRAY_BUFFER_STAGED_ON_HOST) != 0;
    return staged ? hurray_tensor_check_readable(tensor, false) : HURRAY_OK;
}

/* And when it is ready. */
static HurrayStatus check_memory(const HurrayBufferInfo *info, int32_t *device_type) {
    HurrayStatus status = hurray_device_to_dlpack(info->device, device_type);
    if (status != HURRAY_OK) return status;
    if (info->sync_mode != HURRAY_SYNC_PRODUCER_SYNCED) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "buffer 0 has sync mode %s; DLPack hands over only producer_synced memory",
                        hurray_sync_mode_name(info->sync_mode));
    }
    return HURRAY_OK;
}

HurrayStatus hurray_tensor_view_dlpack(const HurrayTensor *tensor, HurrayDLTensor *out) {
    if (tensor == NULL || out == NULL) return hri_fail_null(out ? "tensor" : "out");
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
    HurrayStatus status = check_not_staged(tensor, info);
    if (status != HURRAY_OK) return status;
    if (fields->quantization != NULL) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED, "DLPack does not carry quantized tensors");
    }
    HurrayDLDataType dtype;
    status = hurray_element_type_to_dlpack(fields->type_tag, &dtype);
    if (status == HURRAY_OK) status = check_extents(fields);
    if (status != HURRAY_OK) return status;
    const int64_t *strides = hurray_tensor_strides(tensor);
    if (strides == NULL && fields->rank != 0) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED, "DLPack does not carry layout %s",
                        hurray_layout_name(fields->layout.tag));
    }
    int32_t device_type = 0;
    status = check_memory(info, &device_type);
    if (status != HURRAY_OK) return status;
    /* hurray_tensor_data has byte_offset in it where there are addresses. */
    bool handle = !hurray_device_has_addresses(info->device.tag);
    *out = (HurrayDLTensor){
        .data = hurray_tensor_data(tensor),
        .device = {device_type, info->device.device_id},
        .ndim = (int32_t)fields->rank,
        .dtype = dtype,
        .shape = (int64_t *)(uintptr_t)fields->shape, /* u64 below 2^63; DLPack has no const */
        .strides = (int64_t *)(uintptr_t)strides,
        .byte_offset = handle && hurray_tensor_count(tensor) != 0 ? fields->byte_offset : 0,
    };
    return HURRAY_OK;
}

HurrayStatus hurray_tensor_check_dlpack(const HurrayTensor *tensor) {
    HurrayDLTensor unused;
    return hurray_tensor_view_dlpack(tensor, &unused);
}

/*
 * What stands behind an exported pointer: the managed struct first, so that its address is ours,
 * then the reference it keeps, then shape and strides of its own. (A consumer that writes to them
 * must not change a shared tensor.)
 */
typedef struct ExportedVersioned {
    HurrayDLManagedTensorVersioned managed;
    HurrayTensor *tensor;
    int64_t extents[];
} ExportedVersioned;

typedef struct ExportedLegacy {
    HurrayDLManagedTensor managed;
    HurrayTensor *tensor;
    int64_t extents[];
} ExportedLegacy;

static void delete_versioned(HurrayDLManagedTensorVersioned *self) {
    if (self == NULL) return;
    hurray_tensor_release(((ExportedVersioned *)self->manager_ctx)->tensor);
    free(self->manager_ctx);
}

static void delete_legacy(HurrayDLManagedTensor *self) {
    if (self == NULL) return;
    hurray_tensor_release(((ExportedLegacy *)self->manager_ctx)->tensor);
    free(self->manager_ctx);
}

/* Moves shape and strides into `extents`. */
static void own_extents(HurrayDLTensor *dl_tensor, int64_t *extents) {
    size_t rank = (size_t)dl_tensor->ndim;
    if (rank == 0) {
        dl_tensor->shape = dl_tensor->strides = NULL;
        return;
    }
    memcpy(extents, dl_tensor->shape, rank * sizeof(int64_t));
    memcpy(extents + rank, dl_tensor->strides, rank * sizeof(int64_t));
    dl_tensor->shape = extents;
    dl_tensor->strides = extents + rank;
}

HurrayStatus hurray_tensor_to_dlpack(HurrayTensor *tensor, uint64_t extra_flags,
                                     HurrayDLManagedTensorVersioned **out) {
    if (out == NULL) return hri_fail_null("out");
    HurrayDLTensor view;
    HurrayStatus status = hurray_tensor_view_dlpack(tensor, &view);
    if (status != HURRAY_OK) return status;
    size_t size = sizeof(ExportedVersioned) + 2 * sizeof(int64_t) * (size_t)view.ndim;
    ExportedVersioned *exported = malloc(size);
    if (exported == NULL) return hri_fail_memory(size);
    own_extents(&view, exported->extents);
    exported->tensor = hurray_tensor_retain(tensor);
    exported->managed = (HurrayDLManagedTensorVersioned){
        .version = {HURRAY_DLPACK_VERSION_MAJOR, HURRAY_DLPACK_VERSION_MINOR},
        .manager_ctx = exported,
        .deleter = delete_versioned,
        .flags = extra_flags |
                 (hurray_tensor_is_read_only(tensor) ? HURRAY_DL_FLAG_READ_ONLY : UINT64_C(0)),
        .dl_tensor = view,
    };
    *out = &exported->managed;
    return HURRAY_OK;
}

HurrayStatus hurray_tensor_to_dlpack_legacy(HurrayTensor *tensor, HurrayDLManagedTensor **out) {
    if (out == NULL) return hri_fail_null("out");
    HurrayDLTensor view;
    HurrayStatus status = hurray_tensor_view_dlpack(tensor, &view);
    if (status != HURRAY_OK) return status;
    if (hurray_tensor_is_read_only(tensor)) {
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "the tensor is read-only, which a legacy DLPack capsule cannot say: pass "
                        "copy=True, or max_version=(1, 0) where the consumer knows DLPack 1");
    }
    size_t size = sizeof(ExportedLegacy) + 2 * sizeof(int64_t) * (size_t)view.ndim;
    ExportedLegacy *exported = malloc(size);
    if (exported == NULL) return hri_fail_memory(size);
    own_extents(&view, exported->extents);
    exported->tensor = hurray_tensor_retain(tensor);
    exported->managed = (HurrayDLManagedTensor){
        .dl_tensor = view,
        .manager_ctx = exported,
        .deleter = delete_legacy,
    };
    *out = &exported->managed;
    return HURRAY_OK;
}

/* ---- import ---- */

static HurrayStatus check_dl_tensor(const HurrayDLTensor *dl_tensor) {
    if (dl_tensor->ndim < 0 || dl_tensor->ndim > (int32_t)HURRAY_MAX_RANK) {
        return hri_fail(HURRAY_ERR_BAD_PRODUCER, "ndim %" PRId32 "; expected 0 … %u",
                        dl_tensor->ndim, HURRAY_MAX_RANK);
    }
    if (dl_tensor->shape == NULL && dl_tensor->ndim != 0) {
        return hri_fail(HURRAY_ERR_BAD_PRODUCER, "shape is NULL for ndim %" PRId32,
                        dl_tensor->ndim);
    }
    for (int32_t k = 0; k < dl_tensor->ndim; k++) {
        if (dl_tensor->shape[k] < 0) {
            return hri_fail(HURRAY_ERR_BAD_PRODUCER,
                            "shape[%" PRId32 "] is %" PRId64 "; expected 0 or more", k,
                            dl_tensor->shape[k]);
        }
    }
    return HURRAY_OK;
}

static HurrayStatus import(const HurrayDLTensor *dl_tensor, uint32_t buffer_flags,
                           HurrayReleaseCallback release, void *context, HurrayCopy copy,
                           const HurrayAllocator *allocator, HurrayTensor **out) {
    HriAdoption from = {
        .info = {.data = dl_tensor->data, .flags = buffer_flags},
        .rank = (uint32_t)dl_tensor->ndim,
        .shape = (const uint64_t *)dl_tensor->shape, /* i64, checked not to be negative */
        .strides = dl_tensor->strides,
        .release = release,
        .context = context,
        .copy = copy,
        .allocator = allocator,
    };
    HurrayStatus status = check_dl_tensor(dl_tensor);
    if (status == HURRAY_OK) {
        status = hurray_element_type_from_dlpack(dl_tensor->dtype, &from.type_tag);
    }
    if (status == HURRAY_OK) {
        status = hurray_device_from_dlpack(dl_tensor->device.device_type,
                                           dl_tensor->device.device_id, &from.info.device);
    }
    if (status != HURRAY_OK) return status;
    if (!hurray_device_has_addresses(from.info.device.tag)) {
        from.byte_offset = dl_tensor->byte_offset;
    } else if (from.info.data != NULL) {
        if (dl_tensor->byte_offset > UINTPTR_MAX - (uintptr_t)from.info.data) {
            return hri_fail(HURRAY_ERR_BAD_PRODUCER,
                            "byte_offset %" PRIu64 " leaves the address space",
                            dl_tensor->byte_offset);
        }
        from.info.data = (void *)((uintptr_t)from.info.data + (uintptr_t)dl_tensor->byte_offset);
    }
    return hri_adopt(&from, out);
}

static void release_versioned(void *data, void *context) {
    (void)data;
    HurrayDLManagedTensorVersioned *managed = context;
    if (managed->deleter != NULL) managed->deleter(managed);
}

static void release_legacy(void *data, void *context) {
    (void)data;
    HurrayDLManagedTensor *managed = context;
    if (managed->deleter != NULL) managed->deleter(managed);
}

HurrayStatus hurray_tensor_from_dlpack(HurrayDLManagedTensorVersioned *managed, HurrayCopy copy,
                                       const HurrayAllocator *allocator, HurrayTensor **out) {
    if (managed == NULL || out == NULL) return hri_fail_null(out ? "managed" : "out");
    if (managed->version.major != HURRAY_DLPACK_VERSION_MAJOR) {
        return hri_fail(HURRAY_ERR_VERSION_MISMATCH,
                        "DLPack version %" PRIu32 ".%" PRIu32 "; this library knows major %u",
                        managed->version.major, managed->version.minor,
                        HURRAY_DLPACK_VERSION_MAJOR);
    }
    uint32_t flags = (managed->flags & HURRAY_DL_FLAG_READ_ONLY) != 0 ? HURRAY_BUFFER_READ_ONLY : 0;
    return import(&managed->dl_tensor, flags, release_versioned, managed, copy, allocator, out);
}

HurrayStatus hurray_tensor_from_dlpack_legacy(HurrayDLManagedTensor *managed, HurrayCopy copy,
                                              const HurrayAllocator *allocator,
                                              HurrayTensor **out) {
    if (managed == NULL || out == NULL) return hri_fail_null(out ? "managed" : "out");
    return import(&managed->dl_tensor, 0, release_legacy, managed, copy, allocator, out);
}
