/* The table of devices (include/hurray/device.h, spec 1.6) and their DLPack numbers (spec 8.6). */
#include <hurray/device.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fail.h"

#define NO_DLPACK 0

typedef struct DeviceKind {
    const char *name;
    uint8_t tag;
    uint8_t classes;     /* bit c is set when memory class c is valid here */
    bool has_addresses;  /* `data` may be computed with; otherwise it is an opaque handle */
    uint8_t dl_standard; /* DLDeviceType of each class that DLPack can name */
    uint8_t dl_pinned;
    uint8_t dl_unified;
} DeviceKind;

enum {
    STANDARD = 1,
    PINNED = 2,
    UNIFIED = 4,
    PEER = 8
};

/* clang-format off */
static const DeviceKind kinds[] = {
    {"cpu",        0x00, STANDARD | PINNED | UNIFIED,        true,  1,  1,  1},
    {"cuda",       0x01, STANDARD | PINNED | UNIFIED | PEER, true,  2,  3,  13},
    {"rocm",       0x02, STANDARD | PINNED | UNIFIED | PEER, true,  10, 11, NO_DLPACK},
    {"metal",      0x03, STANDARD | PINNED | UNIFIED,        false, 8,  8,  8},
    {"vulkan",     0x04, STANDARD | PINNED | UNIFIED | PEER, false, 7,  7,  7},
    {"webgpu",     0x05, STANDARD,                           false, 15, 15, 15},
    {"hexagon",    0x06, STANDARD | PINNED | UNIFIED,        true,  16, 16, 16},
    {"level_zero", 0x07, STANDARD | PINNED | UNIFIED | PEER, true,  14, 14, 14},
    {"opencl",     0x08, STANDARD | PINNED | UNIFIED,        false, 4,  4,  4},
};
/* clang-format on */

#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

static const char *const class_names[] = {"standard", "host_pinned", "unified", "peer"};
#define CLASS_COUNT (sizeof class_names / sizeof class_names[0])

static const char *const sync_names[] = {"producer_synced", "event", "consumer_stream"};

/* Tags are dense from 0, so that a tag is its own index. */
static const DeviceKind *kind_of(uint8_t tag) { return tag < KIND_COUNT ? &kinds[tag] : NULL; }

static bool is_private_device(uint8_t tag) {
    return tag >= HURRAY_DEVICE_PRIVATE_FIRST && tag <= HURRAY_DEVICE_PRIVATE_LAST;
}

static bool is_private_class(uint8_t memory_class) {
    return memory_class >= HURRAY_MEMORY_PRIVATE_FIRST &&
           memory_class <= HURRAY_MEMORY_PRIVATE_LAST;
}

const char *hurray_device_name(uint8_t tag) {
    const DeviceKind *kind = kind_of(tag);
    return kind == NULL ? NULL : kind->name;
}

const char *hurray_memory_class_name(uint8_t memory_class) {
    return memory_class < CLASS_COUNT ? class_names[memory_class] : NULL;
}

const char *hurray_sync_mode_name(uint8_t sync_mode) {
    return sync_mode < sizeof sync_names / sizeof sync_names[0] ? sync_names[sync_mode] : NULL;
}

HurrayStatus hurray_device_from_name(const char *name, uint8_t *out_tag) {
    if (name == NULL || out_tag == NULL) return hri_fail_null(name == NULL ? "name" : "out_tag");
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *out_tag = kinds[i].tag;
            return HURRAY_OK;
        }
    }
    return hri_fail(HURRAY_ERR_INVALID_TYPE,
                    "device kind '%.64s' is not one of cpu, cuda, rocm, metal, vulkan, webgpu, "
                    "hexagon, level_zero, opencl, nor a wire byte such as 0xF0",
                    name);
}

HurrayStatus hurray_memory_class_from_name(const char *name, uint8_t *out_class) {
    if (name == NULL || out_class == NULL) {
        return hri_fail_null(name == NULL ? "name" : "out_class");
    }
    for (uint8_t i = 0; i < CLASS_COUNT; i++) {
        if (strcmp(class_names[i], name) == 0) {
            *out_class = i;
            return HURRAY_OK;
        }
    }
    return hri_fail(HURRAY_ERR_INVALID_TYPE,
                    "memory class '%.64s' is not one of standard, host_pinned, unified, peer, nor "
                    "a wire byte such as 0xF0",
                    name);
}

HurrayStatus hurray_device_check_tag(uint8_t tag) {
    if (kind_of(tag) != NULL || is_private_device(tag)) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INVALID_TYPE,
                    tag == 0xFF
                        ? "device tag 0x%02X is invalid; expected 0x00 … 0x08 or 0xF0 … 0xFE"
                        : "device tag 0x%02X is reserved; expected 0x00 … 0x08 or 0xF0 … 0xFE",
                    tag);
}

HurrayStatus hurray_memory_class_check(uint8_t memory_class) {
    if (memory_class < CLASS_COUNT || is_private_class(memory_class)) return HURRAY_OK;
    return hri_fail(HURRAY_ERR_INVALID_TYPE,
                    "memory class 0x%02X is invalid; expected 0 … 3 or 0xF0 … 0xFE", memory_class);
}

/* "cuda", or "0xF3" for a private one, into `text`. */
static const char *describe(const char *name, uint8_t byte, char text[8]) {
    if (name != NULL) return name;
    snprintf(text, 8, "0x%02X", byte);
    return text;
}

HurrayStatus hurray_device_check_pair(uint8_t tag, uint8_t memory_class) {
    HurrayStatus status = hurray_device_check_tag(tag);
    if (status == HURRAY_OK) status = hurray_memory_class_check(memory_class);
    if (status != HURRAY_OK) return status;

    const DeviceKind *kind = kind_of(tag);
    bool valid;
    if (kind == NULL) {
        valid = memory_class == HURRAY_MEMORY_STANDARD || is_private_class(memory_class);
    } else {
        valid = memory_class < CLASS_COUNT && (kind->classes >> memory_class & 1) != 0;
    }
    if (valid) return HURRAY_OK;
    char device_text[8], class_text[8];
    return hri_fail(HURRAY_ERR_INVALID_TYPE, "memory class %s does not exist on device %s",
                    describe(hurray_memory_class_name(memory_class), memory_class, class_text),
                    describe(hurray_device_name(tag), tag, device_text));
}

bool hurray_device_has_addresses(uint8_t tag) {
    const DeviceKind *kind = kind_of(tag);
    return kind != NULL && kind->has_addresses;
}

HurrayStatus hurray_device_to_dlpack(HurrayDevice device, int32_t *out_device_type) {
    if (out_device_type == NULL) return hri_fail_null("out_device_type");
    const DeviceKind *kind = kind_of(device.tag);
    uint8_t number = NO_DLPACK;
    if (kind != NULL && device.memory_class == HURRAY_MEMORY_STANDARD) number = kind->dl_standard;
    if (kind != NULL && device.memory_class == HURRAY_MEMORY_HOST_PINNED) number = kind->dl_pinned;
    if (kind != NULL && device.memory_class == HURRAY_MEMORY_UNIFIED) number = kind->dl_unified;
    if (number == NO_DLPACK) {
        char device_text[8], class_text[8];
        return hri_fail(HURRAY_ERR_UNSUPPORTED,
                        "DLPack has no device type for %s memory on device %s",
                        describe(hurray_memory_class_name(device.memory_class), device.memory_class,
                                 class_text),
                        describe(hurray_device_name(device.tag), device.tag, device_text));
    }
    *out_device_type = number;
    return HURRAY_OK;
}

HurrayStatus hurray_device_from_dlpack(int32_t device_type, int32_t device_id, HurrayDevice *out) {
    if (out == NULL) return hri_fail_null("out");
    for (size_t i = 0; i < KIND_COUNT && device_type > NO_DLPACK; i++) {
        uint8_t memory_class;
        if (kinds[i].dl_standard == device_type) {
            memory_class = HURRAY_MEMORY_STANDARD;
        } else if (kinds[i].dl_pinned == device_type) {
            memory_class = HURRAY_MEMORY_HOST_PINNED;
        } else if (kinds[i].dl_unified == device_type) {
            memory_class = HURRAY_MEMORY_UNIFIED;
        } else {
            continue;
        }
        *out = (HurrayDevice){kinds[i].tag, memory_class, device_id};
        return HURRAY_OK;
    }
    return hri_fail(HURRAY_ERR_UNSUPPORTED, "DLPack device type %" PRId32 " has no counterpart",
                    device_type);
}
