/*
 * A metadata section from anywhere: refused with a sentence, or read into a list that encodes to the
 * same bytes, and whose every key leads to its entry.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <hurray/key_value.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t nothing;
    HurrayKeyValues *list = NULL;
    if (size == 0) data = &nothing;
    HurrayStatus status = hurray_key_values_decode(data, size, &list);
    if (status != HURRAY_OK) {
        require(status == HURRAY_ERR_FILE_INVALID && list == NULL);
        require(hurray_error_message()[0] != '\0');
        return 0;
    }
    uint64_t needed = 0;
    require(hurray_key_values_encoded_size(list, &needed) == HURRAY_OK && needed == size);
    uint8_t *bytes = malloc(size);
    size_t length = 0;
    require(bytes != NULL);
    require(hurray_key_values_encode(list, bytes, size - 1, &length) ==
            HURRAY_ERR_BUFFER_TOO_SMALL);
    require(hurray_key_values_encode(list, bytes, size, &length) == HURRAY_OK && length == size);
    require(memcmp(bytes, data, size) == 0);
    for (uint32_t i = 0; i < hurray_key_values_count(list); i++) {
        const HurrayKeyValue *entry = hurray_key_values_at(list, i);
        require(hurray_key_values_find(list, entry->key.data, entry->key.length) == entry);
        require(hurray_key_values_add(list, entry) == HURRAY_ERR_INVALID_ARGUMENT);
    }
    free(bytes);
    require(hurray_key_values_destroy(&list) == HURRAY_OK);
    return 0;
}
