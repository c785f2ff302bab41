/*
 * DLPack 1.3: the structs two libraries of a process agree on to share a dense tensor, and tensors
 * to and from them (spec 8.6).
 *
 * The structs are an ABI that others defined; these declarations are ours, under names of our own so
 * that they can stand beside another copy. All strides count elements.
 */
#ifndef HURRAY_DLPACK_H
#define HURRAY_DLPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "adopt.h"
#include "memory.h"
#include "status.h"
#include "tensor.h"

HURRAY_BEGIN_DECLS

#define HURRAY_DLPACK_VERSION_MAJOR 1u
#define HURRAY_DLPACK_VERSION_MINOR 3u

typedef struct HurrayDLDevice {
    int32_t device_type; /* DLDeviceType, see hurray_device_to_dlpack */
    int32_t device_id;
} HurrayDLDevice;

/* The DLDeviceType that everybody knows; hurray_device_to_dlpack has the others. */
#define HURRAY_DL_CPU 1

/* DLDataTypeCode */
enum {
    HURRAY_DL_INT = 0,
    HURRAY_DL_UINT = 1,
    HURRAY_DL_FLOAT = 2,
    HURRAY_DL_BFLOAT = 4,
    HURRAY_DL_COMPLEX = 5,
    HURRAY_DL_BOOL = 6,
    HURRAY_DL_FLOAT8_E4M3FN = 10,
    HURRAY_DL_FLOAT8_E5M2 = 12,
    HURRAY_DL_FLOAT8_E8M0FNU = 14
};

typedef struct HurrayDLDataType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes; /* 1: elements are scalars */
} HurrayDLDataType;

typedef struct HurrayDLTensor {
    void *data;
    HurrayDLDevice device;
    int32_t ndim;
    HurrayDLDataType dtype;
    int64_t *shape;
    int64_t *strides; /* NULL from older producers: row-major */
    uint64_t byte_offset;
} HurrayDLTensor;

/* Before DLPack 1.0; travels in a capsule named "dltensor". */
typedef struct HurrayDLManagedTensor {
    HurrayDLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct HurrayDLManagedTensor *self);
} HurrayDLManagedTensor;

typedef struct HurrayDLPackVersion {
    uint32_t major;
    uint32_t minor;
} HurrayDLPackVersion;

/* HurrayDLManagedTensorVersioned.flags */
#define HURRAY_DL_FLAG_READ_ONLY UINT64_C(1)
#define HURRAY_DL_FLAG_IS_COPIED UINT64_C(2)
#define HURRAY_DL_FLAG_IS_SUBBYTE_TYPE_PADDED UINT64_C(4)

/* From DLPack 1.0 on; "dltensor_versioned". version and deleter are frozen for all majors. */
typedef struct HurrayDLManagedTensorVersioned {
    HurrayDLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct HurrayDLManagedTensorVersioned *self);
    uint64_t flags;
    HurrayDLTensor dl_tensor;
} HurrayDLManagedTensorVersioned;

/* The C functions that a framework's tensor type offers, "dlpack_exchange_api". 0 or -1 returned. */
typedef struct HurrayDLPackExchangeAPIHeader {
    HurrayDLPackVersion version;
    struct HurrayDLPackExchangeAPIHeader *prev_api;
} HurrayDLPackExchangeAPIHeader;

typedef struct HurrayDLPackExchangeAPI {
    HurrayDLPackExchangeAPIHeader header;
    int (*managed_tensor_allocator)(HurrayDLTensor *prototype, HurrayDLManagedTensorVersioned **out,
                                    void *error_ctx,
                                    void (*set_error)(void *error_ctx, const char *kind,
                                                      const char *message));
    int (*managed_tensor_from_py_object_no_sync)(void *py_object,
                                                 HurrayDLManagedTensorVersioned **out);
    int (*managed_tensor_to_py_object_no_sync)(HurrayDLManagedTensorVersioned *tensor,
                                               void **out_py_object);
    int (*dltensor_from_py_object_no_sync)(void *py_object, HurrayDLTensor *out);
    int (*current_work_stream)(int32_t device_type, int32_t device_id, void **out_stream);
} HurrayDLPackExchangeAPI;

/*
 * DLPack's word for an element type. HURRAY_ERR_UNSUPPORTED, saying why, for bool (1 bit here, a
 * byte there), tier 2 and private types.
 */
HURRAY_API HurrayStatus hurray_element_type_to_dlpack(uint8_t tag, HurrayDLDataType *out);
/*
 * The inverse; also float8 types. DLPack's one-byte bool gives HURRAY_TYPE_BOOL.
 * HURRAY_ERR_UNSUPPORTED naming code, bits and lanes.
 */
HURRAY_API HurrayStatus hurray_element_type_from_dlpack(HurrayDLDataType dtype, uint8_t *out_tag);

/*
 * Whether the tensor can be exported, and if not why: HURRAY_ERR_UNSUPPORTED for a type, layout,
 * device, sync mode, section or staged buffer that DLPack cannot carry, HURRAY_ERR_INVALID_LAYOUT
 * for a dynamic dimension or an extent beyond i64.
 */
HURRAY_API HurrayStatus hurray_tensor_check_dlpack(const HurrayTensor *tensor);

/*
 * Exports without copying. The result holds a reference to the tensor until its deleter is called,
 * on any thread. Flags say READ_ONLY for a read-only tensor, and what is in `extra_flags`.
 */
HURRAY_API HurrayStatus hurray_tensor_to_dlpack(HurrayTensor *tensor, uint64_t extra_flags,
                                                HurrayDLManagedTensorVersioned **out);
/*
 * The legacy form. It cannot say "read-only": HURRAY_ERR_UNSUPPORTED for such a tensor.
 */
HURRAY_API HurrayStatus hurray_tensor_to_dlpack_legacy(HurrayTensor *tensor,
                                                       HurrayDLManagedTensor **out);

/*
 * Fills a DLTensor that owns nothing: shape, strides and data belong to `tensor` and must not be
 * changed through it. Strides are NULL for rank 0 only.
 */
HURRAY_API HurrayStatus hurray_tensor_view_dlpack(const HurrayTensor *tensor, HurrayDLTensor *out);

/*
 * Takes in what another library made. The memory is shared when its address is 64-aligned (or it is
 * empty); contiguous gives row-major, anything else strided. Otherwise, on the CPU, the elements are
 * copied into new row-major memory; one-byte bools are packed, which is always a copy.
 * HURRAY_COPY_NEVER refuses that (HURRAY_ERR_COPY_REQUIRED with the measured alignment),
 * HURRAY_COPY_ALWAYS copies in any case. Memory of other devices is never touched: an address that
 * is not 64-aligned is rounded down and byte_offset makes up for it; a copy is
 * HURRAY_ERR_UNSUPPORTED.
 *
 * On success the managed tensor is taken over, and its deleter called when the last buffer reference
 * goes, at once if the elements were copied. On failure it stays the caller's.
 * HURRAY_ERR_BAD_PRODUCER names what breaks DLPack's rules: ndim, a negative extent, no data, reach
 * beyond the address space; HURRAY_ERR_VERSION_MISMATCH a major version other than 1;
 * HURRAY_ERR_UNSUPPORTED types and devices without a counterpart.
 */
HURRAY_API HurrayStatus hurray_tensor_from_dlpack(HurrayDLManagedTensorVersioned *managed,
                                                  HurrayCopy copy, const HurrayAllocator *allocator,
                                                  HurrayTensor **out);
HURRAY_API HurrayStatus hurray_tensor_from_dlpack_legacy(HurrayDLManagedTensor *managed,
                                                         HurrayCopy copy,
                                                         const HurrayAllocator *allocator,
                                                         HurrayTensor **out);

HURRAY_END_DECLS

#endif
