/*
 * The memory layout of what other programs were compiled against: the payloads and codes of the
 * established functions (spec 7.2), and the frozen heads of a capsule's structs (spec 7.3). All is
 * checked by the compiler; the program has nothing left to do.
 */
#include <stddef.h>
#include <stdint.h>

#include <hurray/hurray.h>

#define SIZE_OF(type, size) _Static_assert(sizeof(type) == (size), "size of " #type)
#define AT(type, field, offset) \
    _Static_assert(offsetof(type, field) == (offset), "offset of " #type "." #field)
#define IS(constant, value) _Static_assert((constant) == (value), #constant)

/* Fields in order, each at the next multiple of its own alignment: what C gives on every host. */
#define POINTER sizeof(void *)

_Static_assert(sizeof(void (*)(void)) == sizeof(void *), "functions have addresses like data");

/* ---- capsules ---- */

AT(HurrayBufferRecord, data, 0);
#if UINTPTR_MAX == UINT64_MAX
AT(HurrayBufferRecord, byte_size, 8);
AT(HurrayBufferRecord, alignment, 16);
AT(HurrayBufferRecord, device_tag, 20);
AT(HurrayBufferRecord, sync_mode, 21);
AT(HurrayBufferRecord, memory_class, 22);
AT(HurrayBufferRecord, flags, 23);
AT(HurrayBufferRecord, device_id, 24);
AT(HurrayBufferRecord, reserved, 28);
SIZE_OF(HurrayBufferRecord, 32);
#endif

AT(HurrayBufferListHead, magic, 0);
AT(HurrayBufferListHead, abi_version, 8);
AT(HurrayBufferListHead, struct_size, 12);
AT(HurrayBufferListHead, length, 16);
AT(HurrayBufferListHead, records, 24);
AT(HurrayBufferListHead, release, 24 + POINTER);
SIZE_OF(HurrayBufferListHead, 24 + 2 * POINTER);

AT(HurrayTensorContextHead, magic, 0);
AT(HurrayTensorContextHead, abi_version, 8);
AT(HurrayTensorContextHead, struct_size, 12);
AT(HurrayTensorContextHead, descriptor, 16);
#if UINTPTR_MAX == UINT64_MAX
AT(HurrayTensorContextHead, descriptor_length, 24);
AT(HurrayTensorContextHead, release, 32);
SIZE_OF(HurrayTensorContextHead, 40);
#endif

_Static_assert(sizeof HURRAY_BUFFER_LIST_MAGIC == 9, "8 bytes and a terminator");
_Static_assert(sizeof HURRAY_TENSOR_CONTEXT_MAGIC == 9, "8 bytes and a terminator");

/* ---- payloads ---- */

AT(HurraySyncEventPayload, sync_handle, 0);
AT(HurraySyncEventPayload, sync_handle_device_tag, POINTER);
AT(HurraySyncEventPayload, event_release_fn, 2 * POINTER);
AT(HurraySyncEventPayload, event_release_context, 3 * POINTER);
SIZE_OF(HurraySyncEventPayload, 4 * POINTER);

AT(HurraySyncConsumerStreamPayload, consumer_stream, 0);
AT(HurraySyncConsumerStreamPayload, consumer_stream_device_tag, POINTER);
SIZE_OF(HurraySyncConsumerStreamPayload, 2 * POINTER);

/* ---- constants ---- */

SIZE_OF(HurrayStatus, 4);
_Static_assert((HurrayStatus)-1 < 0, "HurrayStatus is signed");
IS(HURRAY_C_ABI_VERSION, 4);
IS(HURRAY_OK, 0);
IS(HURRAY_ERR_INVALID_MAGIC, -1);
IS(HURRAY_ERR_VERSION_MISMATCH, -2);
IS(HURRAY_ERR_INVALID_LAYOUT, -3);
IS(HURRAY_ERR_INVALID_TYPE, -4);
IS(HURRAY_ERR_BUFFER_TOO_SMALL, -5);
IS(HURRAY_ERR_NULL_POINTER, -6);
IS(HURRAY_ERR_INTERNAL_PANIC, -7);
IS(HURRAY_ERR_INVALID_SYNC_MODE, -8);
IS(HURRAY_ERR_SYNC_MODE_MISMATCH, -9);
IS(HURRAY_ERR_INTERNAL, -10);
IS(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, -11);
IS(HURRAY_BUFFER_READ_ONLY, 1);
IS(HURRAY_BUFFER_STAGED_ON_HOST, 2);

int main(void) { return 0; }
