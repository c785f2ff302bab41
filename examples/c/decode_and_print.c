/*
 * Decodes a descriptor, from a file or from bytes in this program, says in a line what it describes
 * and prints it field by field. A broken descriptor is printed up to the fault, which is named.
 *
 *     cc decode_and_print.c $(pkg-config --cflags --libs hurray) -o decode_and_print
 *     ./decode_and_print [FILE]
 *
 * Exits with 0 when the descriptor is valid, 1 when it is not or cannot be read.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <hurray/hurray.h>

/* What describes a 2 × 3 array of float32. */
static const uint8_t built_in[] = {
    0x48, 0x52, 0x52, 0x59, 0x01, 0x00, 0x3D, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x01,
    0x02, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x18, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
};

/* Larger descriptors than this are cut off here; those of real tensors take some hundred bytes. */
static uint8_t from_file[1 << 20];

static bool read_file(const char *name, size_t *out_length) {
    FILE *file = fopen(name, "rb");
    if (file == NULL) {
        perror(name);
        return false;
    }
    *out_length = fread(from_file, 1, sizeof from_file, file);
    bool ok = ferror(file) == 0;
    if (!ok) perror(name);
    fclose(file);
    return ok;
}

/* The printer gives a line at a time; where it goes is up to us. False would end the printing. */
static bool write_line(const char *text, size_t length, void *context) {
    FILE *file = (FILE *)context;
    return fwrite(text, 1, length, file) == length;
}

/* What a program usually does with a descriptor: look at its fields. */
static void summarize(const HurrayDescriptorFields *fields) {
    const HurrayElementType *type = hurray_element_type_from_tag(fields->type_tag);
    const char *layout = hurray_layout_name(fields->layout.tag);
    /* Private types and layouts have no name. */
    printf("%s, %s, shape [", type != NULL ? type->name : "a private type",
           layout != NULL ? layout : "a private layout");
    for (uint32_t k = 0; k < fields->rank; k++) {
        if (k != 0) printf(", ");
        if (fields->shape[k] == HURRAY_DYNAMIC) {
            printf("?");
        } else {
            printf("%" PRIu64, fields->shape[k]);
        }
    }
    printf("], %" PRIu32 " buffer(s)\n\n", fields->buffer_count);
}

int main(int argc, char **argv) {
    const uint8_t *bytes = built_in;
    size_t length = sizeof built_in;
    if (argc > 1) {
        if (!read_file(argv[1], &length)) return EXIT_FAILURE;
        bytes = from_file;
    }

    HurrayDescriptor *descriptor;
    if (hurray_descriptor_decode(bytes, length, &descriptor) == HURRAY_OK) {
        summarize(hurray_descriptor_fields(descriptor));
        if (hurray_descriptor_destroy(descriptor) != HURRAY_OK) return EXIT_FAILURE;
    }

    /* The table works on the bytes, so that it also shows what cannot be decoded. */
    HurrayStatus verdict;
    HurrayStatus status =
        hurray_descriptor_print(bytes, length, NULL, write_line, stdout, &verdict);
    if (status != HURRAY_OK) {
        fprintf(stderr, "decode_and_print: %s\n", hurray_error_message());
        return EXIT_FAILURE;
    }
    return verdict == HURRAY_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
