/* Whether bytes are UTF-8 (Unicode, table 3-7): no overlong forms, surrogates or beyond U+10FFFF. */
#ifndef HURRAY_SRC_UTF8_H
#define HURRAY_SRC_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the character at the front of `size` bytes; 0 where there is none. */
size_t hri_utf8_character(const uint8_t *text, size_t size);

/* Where the first byte stands that begins no character; `size` when all is well. `text` may be NULL
 * when `size` is 0. */
size_t hri_utf8_valid_length(const void *text, size_t size);

#endif
