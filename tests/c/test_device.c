/* Devices, memory classes and their DLPack numbers (src/device.c, spec 1.6, 8.6). */
#include "expect.h"

#include <hurray/device.h>

/* Spec 1.6 and the table of spec 8.6: DLDeviceType of standard, host_pinned, unified; 0: none. */
static const struct {
    const char *name;
    bool classes[4];
    int32_t dlpack[3];
    bool addresses;
} spec[] = {
    {"cpu", {true, true, true, false}, {1, 1, 1}, true},
    {"cuda", {true, true, true, true}, {2, 3, 13}, true},
    {"rocm", {true, true, true, true}, {10, 11, 0}, true},
    {"metal", {true, true, true, false}, {8, 8, 8}, false},
    {"vulkan", {true, true, true, true}, {7, 7, 7}, false},
    {"webgpu", {true, false, false, false}, {15, 15, 15}, false},
    {"hexagon", {true, true, true, false}, {16, 16, 16}, true},
    {"level_zero", {true, true, true, true}, {14, 14, 14}, true},
    {"opencl", {true, true, true, false}, {4, 4, 4}, false},
};
#define DEVICE_COUNT 9

static const char *const class_names[] = {"standard", "host_pinned", "unified", "peer"};
static const char *const sync_names[] = {"producer_synced", "event", "consumer_stream"};

static bool is_private(uint32_t byte) { return byte >= 0xF0 && byte <= 0xFE; }

static void names_and_tags(void **state) {
    (void)state;
    for (uint32_t byte = 0; byte < 256; byte++) {
        const char *device = hurray_device_name((uint8_t)byte);
        const char *memory_class = hurray_memory_class_name((uint8_t)byte);
        const char *sync = hurray_sync_mode_name((uint8_t)byte);
        uint8_t back = 0x77;
        if (byte < DEVICE_COUNT) {
            assert_string_equal(device, spec[byte].name);
            expect_ok(hurray_device_from_name(device, &back));
            assert_int_equal(back, byte);
        } else {
            assert_null(device);
        }
        if (byte < 4) {
            assert_string_equal(memory_class, class_names[byte]);
            expect_ok(hurray_memory_class_from_name(memory_class, &back));
            assert_int_equal(back, byte);
        } else {
            assert_null(memory_class);
        }
        if (byte < 3) {
            assert_string_equal(sync, sync_names[byte]);
        } else {
            assert_null(sync);
        }
    }
}

#define VERY_LONG "much longer than any message should be made by a name from outside, \n"

static void unknown_names_are_refused_with_the_list(void **state) {
    (void)state;
    static const char *const strangers[] = {"",    "CPU",  "cuda ",
                                            "gpu", "0xF0", VERY_LONG VERY_LONG VERY_LONG};
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        uint8_t out = 0x77;
        expect_failure(HURRAY_ERR_INVALID_TYPE, hurray_device_from_name(strangers[i], &out));
        for (size_t k = 0; k < DEVICE_COUNT; k++) expect_message(spec[k].name);
        expect_failure(HURRAY_ERR_INVALID_TYPE, hurray_memory_class_from_name(strangers[i], &out));
        for (size_t k = 0; k < 4; k++) expect_message(class_names[k]);
        assert_int_equal(out, 0x77);
    }
    uint8_t out;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_device_from_name(NULL, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_device_from_name("cpu", NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_memory_class_from_name(NULL, &out));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_memory_class_from_name("peer", NULL));
}

/* All 256 × 256 pairs against the table; private classes live beside private devices only. */
static void every_pair(void **state) {
    (void)state;
    for (uint32_t tag = 0; tag < 256; tag++) {
        bool tag_valid = tag < DEVICE_COUNT || is_private(tag);
        for (uint32_t memory_class = 0; memory_class < 256; memory_class++) {
            bool class_valid = memory_class < 4 || is_private(memory_class);
            bool valid = false;
            if (tag < DEVICE_COUNT && memory_class < 4) valid = spec[tag].classes[memory_class];
            if (is_private(tag)) valid = memory_class == 0 || is_private(memory_class);
            if (valid) {
                expect_ok(hurray_device_check_pair((uint8_t)tag, (uint8_t)memory_class));
                assert_true(tag_valid && class_valid);
            } else {
                expect_failure(HURRAY_ERR_INVALID_TYPE,
                               hurray_device_check_pair((uint8_t)tag, (uint8_t)memory_class));
            }
            if (tag != 0) continue;
            if (class_valid) {
                expect_ok(hurray_memory_class_check((uint8_t)memory_class));
            } else {
                expect_failure(HURRAY_ERR_INVALID_TYPE,
                               hurray_memory_class_check((uint8_t)memory_class));
            }
        }
        if (tag_valid) {
            expect_ok(hurray_device_check_tag((uint8_t)tag));
        } else {
            expect_failure(HURRAY_ERR_INVALID_TYPE, hurray_device_check_tag((uint8_t)tag));
        }
        assert_int_equal(hurray_device_has_addresses((uint8_t)tag),
                         tag < DEVICE_COUNT && spec[tag].addresses);
    }
}

static void to_dlpack(void **state) {
    (void)state;
    for (uint32_t tag = 0; tag < 256; tag++) {
        for (uint32_t memory_class = 0; memory_class < 256; memory_class++) {
            HurrayDevice device = {(uint8_t)tag, (uint8_t)memory_class, 3};
            int32_t expected = 0, number = -77;
            if (tag < DEVICE_COUNT && memory_class < 3) expected = spec[tag].dlpack[memory_class];
            if (expected != 0) {
                expect_ok(hurray_device_to_dlpack(device, &number));
                assert_int_equal(number, expected);
            } else {
                expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_device_to_dlpack(device, &number));
                assert_int_equal(number, -77);
            }
        }
    }
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_device_to_dlpack((HurrayDevice){0}, NULL));
}

/* What comes back is the first class that has the number, and has it when sent out again. */
static void from_dlpack(void **state) {
    (void)state;
    for (int32_t number = -300; number < 300; number++) {
        HurrayDevice expected = {0xFF, 0xFF, 0}, device = {0x77, 0x77, 77};
        for (uint8_t tag = DEVICE_COUNT; tag-- > 0;) {
            for (uint8_t memory_class = 3; memory_class-- > 0;) {
                if (spec[tag].dlpack[memory_class] != number || number == 0) continue;
                expected = (HurrayDevice){tag, memory_class, 0};
            }
        }
        if (expected.tag == 0xFF) {
            expect_failure(HURRAY_ERR_UNSUPPORTED, hurray_device_from_dlpack(number, 5, &device));
            assert_int_equal(device.tag, 0x77);
            continue;
        }
        expect_ok(hurray_device_from_dlpack(number, 5, &device));
        assert_int_equal(device.tag, expected.tag);
        assert_int_equal(device.memory_class, expected.memory_class);
        assert_int_equal(device.device_id, 5);
        int32_t back = 0;
        expect_ok(hurray_device_to_dlpack(device, &back));
        assert_int_equal(back, number);
        expect_ok(hurray_device_check_pair(device.tag, device.memory_class));
    }
    expect_failure(HURRAY_ERR_UNSUPPORTED,
                   hurray_device_from_dlpack(INT32_MAX, 0, &(HurrayDevice){0}));
    expect_message("2147483647");
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_device_from_dlpack(1, 0, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_tags), cmocka_unit_test(unknown_names_are_refused_with_the_list),
        cmocka_unit_test(every_pair),     cmocka_unit_test(to_dlpack),
        cmocka_unit_test(from_dlpack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
