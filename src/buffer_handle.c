/* The rules of one buffer handle (include/hurray/buffer_handle.h, spec 1.5). */
#include <hurray/buffer_handle.h>

#include <hurray/device.h>
#include <hurray/memory.h>
#include <inttypes.h>

#include "checked.h"
#include "fail.h"

HurrayStatus hurray_buffer_handle_check(const HurrayBufferHandle *handle) {
    if (handle == NULL) return hri_fail_null("handle");
    if (!is_power_of_two_u64(handle->alignment)) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT, "alignment %" PRIu32 " is not a power of two",
                        handle->alignment);
    }
    if (handle->byte_size != 0 && handle->alignment < HURRAY_MIN_BUFFER_ALIGNMENT) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "alignment %" PRIu32 " of a buffer of %" PRIu64
                        " bytes; expected at least %u",
                        handle->alignment, handle->byte_size, HURRAY_MIN_BUFFER_ALIGNMENT);
    }
    HurrayStatus status = hurray_device_check_pair(handle->device_tag, handle->memory_class);
    if (status != HURRAY_OK) return status;
    if (handle->sync_mode > HURRAY_SYNC_CONSUMER_STREAM) {
        return hri_fail(HURRAY_ERR_INVALID_SYNC_MODE,
                        "sync mode %u; expected 0 (producer_synced), 1 (event) or 2 "
                        "(consumer_stream)",
                        handle->sync_mode);
    }
    if (handle->device_tag == HURRAY_DEVICE_CPU &&
        handle->sync_mode != HURRAY_SYNC_PRODUCER_SYNCED) {
        return hri_fail(HURRAY_ERR_INVALID_SYNC_MODE,
                        "sync mode %s on the CPU; expected producer_synced",
                        hurray_sync_mode_name(handle->sync_mode));
    }
    return HURRAY_OK;
}
