/*
 * Handing a whole tensor to other code in the same process (spec 7.2, 7.3): a list of buffers and a
 * context with the descriptor's bytes.
 *
 * In Python they travel as a PyCapsule named "hurray_tensor" whose pointer is the list and whose
 * context (PyCapsule_GetContext) is the tensor context. Each begins with a head of frozen layout (a
 * pointer to one is cast to a pointer to its head), so that code which does not link this library,
 * or carries another copy of it, can read them:
 *
 *     HurrayBufferListHead *list = PyCapsule_GetPointer(capsule, "hurray_tensor");
 *     HurrayTensorContextHead *context = PyCapsule_GetContext(capsule);
 *     if (memcmp(list->magic, HURRAY_BUFFER_LIST_MAGIC, 8) != 0 ||
 *         memcmp(context->magic, HURRAY_TENSOR_CONTEXT_MAGIC, 8) != 0) refuse;
 *     if (list->abi_version != 4 || context->abi_version != 4) refuse;
 *     if (list->struct_size < sizeof *list || context->struct_size < sizeof *context) refuse;
 *     …rename the capsule to "used_hurray_tensor": list and context are now yours…
 *     for (i = 0; i < list->length; i++) use(list->records[i].data, list->records[i].byte_size);
 *     decode(context->descriptor, context->descriptor_length);
 *     list->release(list);
 *     context->release(context);
 *
 * Magic and version come before anything else: another implementation's capsules of the same name
 * hold something else. Both are released exactly once, in any order, on any thread; the memory of
 * the buffers stays valid until both are. A capsule that nobody consumed releases them itself.
 */
#ifndef HURRAY_CAPSULE_H
#define HURRAY_CAPSULE_H

#include <stdbool.h>
#include <stdint.h>

#include "buffer.h"
#include "status.h"
#include "tensor.h"

HURRAY_BEGIN_DECLS

#define HURRAY_CAPSULE_NAME "hurray_tensor"
#define HURRAY_USED_CAPSULE_NAME "used_hurray_tensor"

/* 8 bytes each, without a terminator in the struct. */
#define HURRAY_BUFFER_LIST_MAGIC "HRRYBUFS"
#define HURRAY_TENSOR_CONTEXT_MAGIC "HRRYCTXT"

typedef struct HurrayBufferList HurrayBufferList;
typedef struct HurrayTensorContext HurrayTensorContext;

/* Tells the owner of a tensor context that it is no longer needed. */
typedef void (*HurrayOwnerReleaseFn)(void *owner);

/* One buffer, as a consumer sees it. Frozen layout. */
typedef struct HurrayBufferRecord {
    void *data; /* may be NULL when byte_size is 0 */
    uint64_t byte_size;
    uint32_t alignment;
    uint8_t device_tag;
    uint8_t sync_mode;
    uint8_t memory_class;
    uint8_t flags;     /* HURRAY_BUFFER_READ_ONLY, HURRAY_BUFFER_STAGED_ON_HOST */
    int32_t device_id; /* which of the devices of that kind */
    uint32_t reserved; /* 0 */
} HurrayBufferRecord;

/* What a HurrayBufferList begins with. Frozen layout. */
typedef struct HurrayBufferListHead {
    char magic[8];
    uint32_t abi_version; /* HURRAY_C_ABI_VERSION */
    uint32_t struct_size; /* bytes of the whole struct of its maker: at least those of this head */
    uint64_t length;
    const HurrayBufferRecord *records; /* `length` of them, in the order of the buffer table */
    void (*release)(struct HurrayBufferListHead *self);
} HurrayBufferListHead;

/* What a HurrayTensorContext begins with. Frozen layout. */
typedef struct HurrayTensorContextHead {
    char magic[8];
    uint32_t abi_version;
    uint32_t struct_size;
    const uint8_t *descriptor; /* encoded, spec 1 */
    uint64_t descriptor_length;
    void (*release)(struct HurrayTensorContextHead *self);
} HurrayTensorContextHead;

/*
 * ---- Whole tensors ----
 */

/*
 * Exports a tensor: a list of its buffers and a context with its descriptor, each of which holds a
 * reference to it. Free them through their heads, or with the destroy functions below.
 */
HURRAY_API HurrayStatus hurray_tensor_export(HurrayTensor *tensor, HurrayBufferList **out_list,
                                             HurrayTensorContext **out_context);

/*
 * Whether the heads are what they must be to be taken in, which says nothing of what they lead to:
 * magic before anything else, then version, struct_size, and the pointers. HURRAY_ERR_NULL_POINTER,
 * _INVALID_MAGIC (not ours), _VERSION_MISMATCH (another ABI version), _INVALID_LAYOUT.
 */
HURRAY_API HurrayStatus hurray_capsule_check(const HurrayBufferListHead *list,
                                             const HurrayTensorContextHead *context);

/*
 * Takes in what hurray_tensor_export, or a producer of its own, made. On success both are taken
 * over, and released when the tensor's memory is no longer needed; on failure they stay the caller's.
 * First what hurray_capsule_check says, then what hurray_descriptor_decode_with does (options may be
 * NULL), then HURRAY_ERR_INVALID_LAYOUT: the number of buffers, or their sizes and places, are not
 * those of the descriptor.
 */
HURRAY_API HurrayStatus hurray_tensor_import(HurrayBufferListHead *list,
                                             HurrayTensorContextHead *context,
                                             const HurrayDecodeOptions *options,
                                             HurrayTensor **out);

/*
 * ---- Established functions (spec 7.2) ----
 */

/* An empty list with room for `capacity_hint` buffers, which may be 0. */
HURRAY_API HurrayStatus hurray_buffer_list_new(uint64_t capacity_hint, HurrayBufferList **out);
/* Appends a buffer and takes over the caller's reference, on success only. */
HURRAY_API HurrayStatus hurray_buffer_list_push(HurrayBufferList *list, HurrayBuffer *buffer);
HURRAY_API HurrayStatus hurray_buffer_list_len(const HurrayBufferList *list, uint64_t *out);
/* Borrowed: valid as long as the list. HURRAY_ERR_INDEX_OUT_OF_BOUNDS. */
HURRAY_API HurrayStatus hurray_buffer_list_get(const HurrayBufferList *list, uint64_t index,
                                               HurrayBuffer **out);
/* Frees the list with its buffers and nulls the pointer; a pointer to NULL is a no-op. */
HURRAY_API HurrayStatus hurray_buffer_list_destroy(HurrayBufferList **list);

/*
 * A context with a copy of `descriptor` (NULL with length 0 is fine) that tells `owner` through
 * `release`, which may be NULL, when it is destroyed. `abi_version` is what the context will say.
 */
HURRAY_API HurrayStatus hurray_tensor_context_new(uint32_t abi_version, const uint8_t *descriptor,
                                                  uint64_t len, void *owner,
                                                  HurrayOwnerReleaseFn release,
                                                  HurrayTensorContext **out);
/* Ask this first, before anything else of a context. */
HURRAY_API HurrayStatus hurray_tensor_context_abi_version(const HurrayTensorContext *context,
                                                          uint32_t *out);
/* The descriptor's bytes, borrowed; NULL and 0 when there are none. */
HURRAY_API HurrayStatus hurray_tensor_context_descriptor(const HurrayTensorContext *context,
                                                         const uint8_t **out, uint64_t *out_len);
/* Calls release once, frees the context and nulls the pointer; a pointer to NULL is a no-op. */
HURRAY_API HurrayStatus hurray_tensor_context_destroy(HurrayTensorContext **context);

HURRAY_END_DECLS

#endif
