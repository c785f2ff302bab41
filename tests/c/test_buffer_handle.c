/* What one buffer handle may say (src/buffer_handle.c, spec 1.5). */
#include "expect.h"

#include <hurray/buffer_handle.h>
#include <hurray/device.h>

static void alignments(void **state) {
    (void)state;
    static const uint32_t no_powers[] = {0, 3, 65, 96, 4097, UINT32_MAX};
    for (uint64_t size = 0; size < 3; size++) {
        for (uint32_t bit = 0; bit < 32; bit++) {
            HurrayBufferHandle handle = {.byte_size = size, .alignment = 1u << bit};
            if (size == 0 || bit >= 6) {
                expect_ok(hurray_buffer_handle_check(&handle));
            } else {
                expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_buffer_handle_check(&handle));
                expect_message("64");
            }
        }
        for (size_t i = 0; i < sizeof no_powers / sizeof no_powers[0]; i++) {
            HurrayBufferHandle handle = {.byte_size = size, .alignment = no_powers[i]};
            expect_failure(HURRAY_ERR_INVALID_LAYOUT, hurray_buffer_handle_check(&handle));
            expect_message("power of two");
        }
    }
}

/* Sync modes 0, 1, 2; on the CPU only 0. */
static void sync_modes(void **state) {
    (void)state;
    for (uint32_t device = 0; device <= 8; device++) {
        for (uint32_t mode = 0; mode < 256; mode++) {
            HurrayBufferHandle handle = {.byte_size = 1,
                                         .alignment = 64,
                                         .device_tag = (uint8_t)device,
                                         .sync_mode = (uint8_t)mode};
            if (mode == 0 || (mode <= 2 && device != HURRAY_DEVICE_CPU)) {
                expect_ok(hurray_buffer_handle_check(&handle));
            } else {
                expect_failure(HURRAY_ERR_INVALID_SYNC_MODE, hurray_buffer_handle_check(&handle));
            }
        }
    }
}

/* The pair is checked as hurray_device_check_pair does. */
static void devices_and_classes(void **state) {
    (void)state;
    for (uint32_t device = 0; device < 256; device++) {
        for (uint32_t memory_class = 0; memory_class < 256; memory_class++) {
            HurrayBufferHandle handle = {.alignment = 1,
                                         .device_tag = (uint8_t)device,
                                         .memory_class = (uint8_t)memory_class};
            HurrayStatus pair = hurray_device_check_pair((uint8_t)device, (uint8_t)memory_class);
            if (pair == HURRAY_OK) {
                expect_ok(hurray_buffer_handle_check(&handle));
            } else {
                expect_failure(HURRAY_ERR_INVALID_TYPE, hurray_buffer_handle_check(&handle));
            }
        }
    }
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_buffer_handle_check(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alignments),
        cmocka_unit_test(sync_modes),
        cmocka_unit_test(devices_and_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
