/* UTF-8 (utf8.h). Names are ASCII most of the time: eight bytes of that are one comparison. */
#include "utf8.h"

#include <string.h>

size_t hri_utf8_character(const uint8_t *text, size_t size) {
    if (size == 0) return 0;
    uint8_t lead = text[0];
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (size < length) return 0;
    /* Overlong forms, surrogates, and what lies beyond U+10FFFF, show in the second byte. */
    uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (text[1] < low || text[1] > high) return 0;
    for (size_t i = 2; i < length; i++) {
        if (text[i] < 0x80 || text[i] > 0xBF) return 0;
    }
    return length;
}

size_t hri_utf8_valid_length(const void *text, size_t size) {
    const uint8_t *bytes = text;
    size_t position = 0;
    while (position < size) {
        uint64_t word;
        if (size - position >= sizeof word) {
            memcpy(&word, bytes + position, sizeof word);
            if ((word & UINT64_C(0x8080808080808080)) == 0) {
                position += sizeof word;
                continue;
            }
        }
        size_t length = hri_utf8_character(bytes + position, size - position);
        if (length == 0) break;
        position += length;
    }
    return position;
}
