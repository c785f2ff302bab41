/*
 * Hostile bytes through the printer.
 *
 * The last byte chooses the options, too: what follows a descriptor is not looked at. Whatever the
 * bytes are, the verdict is the decoder's; the lines are few and short, and hold nothing that a
 * terminal would obey but the colors that were asked for. A sink that refuses is not asked again.
 */
#include <stdint.h>

#include <hurray/print.h>

#include "fuzz.h"

typedef struct Sink {
    size_t lines;
    size_t refuse_at; /* the line that is refused; 0: none */
    bool color;
} Sink;

static bool look(const char *text, size_t length, void *context) {
    Sink *sink = context;
    require(sink->refuse_at == 0 || sink->lines < sink->refuse_at);
    require(length > 0 && length < 1024 && text[length - 1] == '\n');
    for (size_t i = 0; i + 1 < length; i++) {
        uint8_t byte = (uint8_t)text[i];
        require((byte >= 0x20 && byte != 0x7F) || (byte == 0x1B && sink->color));
    }
    return ++sink->lines != sink->refuse_at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t choice = size == 0 ? 0 : data[size - 1];
    HurrayPrintOptions options = {
        .decode = {.permissive = (choice & 1) != 0},
        .color = (choice & 2) != 0,
        .bytes_per_row = (choice & 4) != 0 ? 1 : 0,
        .data_rows = (choice & 8) != 0 ? UINT32_MAX : 0,
    };
    HurrayDescriptor *descriptor = NULL;
    HurrayStatus status = hurray_descriptor_decode_with(data, size, &options.decode, &descriptor);
    if (status == HURRAY_OK) require(hurray_descriptor_destroy(descriptor) == HURRAY_OK);

    Sink sink = {.color = options.color};
    HurrayStatus verdict = 1;
    require(hurray_descriptor_print(data, size, &options, look, &sink, &verdict) == HURRAY_OK);
    require(verdict == status);
    require(sink.lines <= size + 6);

    Sink broken = {.color = options.color, .refuse_at = 1 + choice % sink.lines};
    require(hurray_descriptor_print(data, size, &options, look, &broken, &verdict) ==
            HURRAY_ERR_INTERNAL);
    require(broken.lines == broken.refuse_at);
    return 0;
}
