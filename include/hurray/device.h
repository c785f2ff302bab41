/*
 * Devices and memory classes (spec 1.6), and their numbers in DLPack (spec 8.6).
 */
#ifndef HURRAY_DEVICE_H
#define HURRAY_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"

HURRAY_BEGIN_DECLS

enum {
    HURRAY_DEVICE_CPU = 0x00,
    HURRAY_DEVICE_CUDA = 0x01,
    HURRAY_DEVICE_ROCM = 0x02,
    HURRAY_DEVICE_METAL = 0x03,
    HURRAY_DEVICE_VULKAN = 0x04,
    HURRAY_DEVICE_WEBGPU = 0x05,
    HURRAY_DEVICE_HEXAGON = 0x06,
    HURRAY_DEVICE_LEVEL_ZERO = 0x07,
    HURRAY_DEVICE_OPENCL = 0x08,
    HURRAY_DEVICE_PRIVATE_FIRST = 0xF0, /* 0xF0 … 0xFE: vendors */
    HURRAY_DEVICE_PRIVATE_LAST = 0xFE
};

enum {
    HURRAY_MEMORY_STANDARD = 0,
    HURRAY_MEMORY_HOST_PINNED = 1,
    HURRAY_MEMORY_UNIFIED = 2,
    HURRAY_MEMORY_PEER = 3,
    HURRAY_MEMORY_PRIVATE_FIRST = 0xF0, /* 0xF0 … 0xFE, beside a private device only */
    HURRAY_MEMORY_PRIVATE_LAST = 0xFE
};

/* When the bytes may be touched (spec 1.6): at once, after an event, or on a declared stream. */
enum {
    HURRAY_SYNC_PRODUCER_SYNCED = 0,
    HURRAY_SYNC_EVENT = 1,
    HURRAY_SYNC_CONSUMER_STREAM = 2
};

/* A place for bytes. `device_id` counts devices of a kind; it is never written to a descriptor. */
typedef struct HurrayDevice {
    uint8_t tag;
    uint8_t memory_class;
    int32_t device_id;
} HurrayDevice;

/* "cpu", "cuda", …; NULL for private, reserved and invalid tags. */
HURRAY_API const char *hurray_device_name(uint8_t tag);
/* "standard", "host_pinned", "unified", "peer"; NULL for every other byte. */
HURRAY_API const char *hurray_memory_class_name(uint8_t memory_class);
/* "producer_synced", "event", "consumer_stream"; NULL for every other byte. */
HURRAY_API const char *hurray_sync_mode_name(uint8_t sync_mode);
/* The inverses. HURRAY_ERR_INVALID_TYPE, listing the names, when there is none such. */
HURRAY_API HurrayStatus hurray_device_from_name(const char *name, uint8_t *out_tag);
HURRAY_API HurrayStatus hurray_memory_class_from_name(const char *name, uint8_t *out_class);

/* HURRAY_ERR_INVALID_TYPE for reserved tags and 0xFF; private ones pass. */
HURRAY_API HurrayStatus hurray_device_check_tag(uint8_t tag);
/* HURRAY_ERR_INVALID_TYPE for anything but 0 … 3 and 0xF0 … 0xFE. */
HURRAY_API HurrayStatus hurray_memory_class_check(uint8_t memory_class);
/* Both of the above, and that the pair is ticked in the table of spec 1.6. */
HURRAY_API HurrayStatus hurray_device_check_pair(uint8_t tag, uint8_t memory_class);

/*
 * Whether a buffer's `data` on this device is an address that an offset may be added to (cpu, cuda,
 * rocm, level_zero, hexagon), or a handle of the device's API (metal, vulkan, webgpu, opencl) that
 * must be passed on as it is. Private devices count as handles.
 */
HURRAY_API bool hurray_device_has_addresses(uint8_t tag);

/* DLDeviceType of a device. HURRAY_ERR_UNSUPPORTED: peer, private, and what DLPack has no word for. */
HURRAY_API HurrayStatus hurray_device_to_dlpack(HurrayDevice device, int32_t *out_device_type);
/* The inverse. HURRAY_ERR_UNSUPPORTED naming the number when there is none. */
HURRAY_API HurrayStatus hurray_device_from_dlpack(int32_t device_type, int32_t device_id,
                                                  HurrayDevice *out);

HURRAY_END_DECLS

#endif
