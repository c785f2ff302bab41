/* A program as users of libhurray write it: it includes both spellings of the header and runs. */
#include <hurray.h>
#include <hurray/hurray.h>

#include <stdio.h>
#include <string.h>

int main(void) {
    if (hurray_c_abi_version() != HURRAY_C_ABI_VERSION) {
        fprintf(stderr, "the library is of another ABI version than its headers\n");
        return 1;
    }
    if (strcmp(hurray_status_name(HURRAY_ERR_INVALID_MAGIC), "HURRAY_ERR_INVALID_MAGIC") != 0) {
        fprintf(stderr, "hurray_status_name is not the one that the header describes\n");
        return 1;
    }
    return 0;
}
