/* Status names and the thread's last message (include/hurray/status.h, spec 7.1). */
#include <hurray/status.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "fail.h"
#include "utf8.h"

#define MESSAGE_SIZE 512

static _Thread_local char message[MESSAGE_SIZE];
static _Thread_local int error_number;

/* Whether a character of two or three bytes is one that a terminal or a reader of lines would obey:
 * U+0080 … 9F, and what separates lines or changes the direction of writing, U+2028 … 202E and
 * U+2066 … 2069. */
static bool is_control(const uint8_t *text, size_t length) {
    if (length == 2) return text[0] == 0xC2 && text[1] < 0xA0;
    if (length != 3 || text[0] != 0xE2) return false;
    return (text[1] == 0x80 && text[2] >= 0xA8 && text[2] <= 0xAE) ||
           (text[1] == 0x81 && text[2] >= 0xA6 && text[2] <= 0xA9);
}

/* Names from outside stand in messages, and may be cut: what is no character becomes a '?', what
 * would break the line or the terminal a blank for each of its bytes. */
static void make_presentable(char *text) {
    size_t left = strlen(text);
    while (left > 0) {
        size_t length = hri_utf8_character((const uint8_t *)text, left);
        if (length == 0) *text = '?';
        if ((uint8_t)*text < 0x20 || *text == 0x7F) *text = ' ';
        if (is_control((const uint8_t *)text, length)) memset(text, ' ', length);
        if (length == 0) length = 1;
        text += length;
        left -= length;
    }
}

const char *hurray_status_name(HurrayStatus status) {
    switch (status) {
    case HURRAY_OK: return "HURRAY_OK";
    case HURRAY_ERR_INVALID_MAGIC: return "HURRAY_ERR_INVALID_MAGIC";
    case HURRAY_ERR_VERSION_MISMATCH: return "HURRAY_ERR_VERSION_MISMATCH";
    case HURRAY_ERR_INVALID_LAYOUT: return "HURRAY_ERR_INVALID_LAYOUT";
    case HURRAY_ERR_INVALID_TYPE: return "HURRAY_ERR_INVALID_TYPE";
    case HURRAY_ERR_BUFFER_TOO_SMALL: return "HURRAY_ERR_BUFFER_TOO_SMALL";
    case HURRAY_ERR_NULL_POINTER: return "HURRAY_ERR_NULL_POINTER";
    case HURRAY_ERR_INTERNAL_PANIC: return "HURRAY_ERR_INTERNAL_PANIC";
    case HURRAY_ERR_INVALID_SYNC_MODE: return "HURRAY_ERR_INVALID_SYNC_MODE";
    case HURRAY_ERR_SYNC_MODE_MISMATCH: return "HURRAY_ERR_SYNC_MODE_MISMATCH";
    case HURRAY_ERR_INTERNAL: return "HURRAY_ERR_INTERNAL";
    case HURRAY_ERR_INDEX_OUT_OF_BOUNDS: return "HURRAY_ERR_INDEX_OUT_OF_BOUNDS";
    case HURRAY_ERR_OUT_OF_MEMORY: return "HURRAY_ERR_OUT_OF_MEMORY";
    case HURRAY_ERR_INVALID_ARGUMENT: return "HURRAY_ERR_INVALID_ARGUMENT";
    case HURRAY_ERR_UNSUPPORTED: return "HURRAY_ERR_UNSUPPORTED";
    case HURRAY_ERR_COPY_REQUIRED: return "HURRAY_ERR_COPY_REQUIRED";
    case HURRAY_ERR_BAD_PRODUCER: return "HURRAY_ERR_BAD_PRODUCER";
    case HURRAY_ERR_DATA_INVALID: return "HURRAY_ERR_DATA_INVALID";
    case HURRAY_ERR_IO: return "HURRAY_ERR_IO";
    case HURRAY_ERR_FILE_INVALID: return "HURRAY_ERR_FILE_INVALID";
    case HURRAY_ERR_STREAM_INVALID: return "HURRAY_ERR_STREAM_INVALID";
    case HURRAY_ERR_NOT_FOUND: return "HURRAY_ERR_NOT_FOUND";
    case HURRAY_ERR_CLOSED: return "HURRAY_ERR_CLOSED";
    case HURRAY_ERR_INTERRUPTED: return "HURRAY_ERR_INTERRUPTED";
    default: return "unknown status";
    }
}

const char *hurray_error_message(void) { return message; }

int hurray_error_number(void) { return error_number; }

uint32_t hurray_c_abi_version(void) { return HURRAY_C_ABI_VERSION; }

static void set_message(const char *format, va_list arguments) HRI_PRINTF(1, 0);

static void set_message(const char *format, va_list arguments) {
    vsnprintf(message, sizeof message, format, arguments);
    make_presentable(message);
}

HurrayStatus hri_fail(HurrayStatus status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set_message(format, arguments);
    va_end(arguments);
    return status;
}

HurrayStatus hri_fail_null(const char *parameter) {
    return hri_fail(HURRAY_ERR_NULL_POINTER, "%s is NULL", parameter);
}

HurrayStatus hri_fail_memory(unsigned long long bytes) {
    return hri_fail(HURRAY_ERR_OUT_OF_MEMORY, "no memory for %llu bytes", bytes);
}

HurrayStatus hri_fail_io(int number, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set_message(format, arguments);
    va_end(arguments);
    error_number = number;
    return HURRAY_ERR_IO;
}
