/*
 * Named tensors in a file: written in one pass, then mapped and looked into without reading them.
 *
 *     cc save_and_map.c $(pkg-config --cflags --libs hurray) -o save_and_map
 *     ./save_and_map                    writes a small file, shows it and removes it
 *     ./save_and_map model.hrry         shows one that is there
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hurray/hurray.h>

static void check(HurrayStatus status, const char *what) {
    if (status == HURRAY_OK) return;
    fprintf(stderr, "save_and_map: %s: %s\n", what, hurray_error_message());
    exit(EXIT_FAILURE);
}

/* A float32 tensor [count]: 0, 1, … */
static HurrayTensor *make(uint64_t count) {
    HurrayBuffer *buffer;
    check(hurray_buffer_allocate(count * sizeof(float), false, NULL, &buffer), "allocate");
    float *values = hurray_buffer_info(buffer)->data;
    for (uint64_t i = 0; i < count; i++) values[i] = (float)i;
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_FLOAT32,
        .rank = 1,
        .shape = &count,
        .layout = {.tag = HURRAY_LAYOUT_ROW_MAJOR},
        .buffer_count = 1,
    };
    HurrayTensor *tensor;
    check(hurray_tensor_create(&fields, &buffer, &tensor), "create a tensor");
    return tensor;
}

/* The file gets its name when it is whole; what was there before is untouched until then. */
static void save(const char *path) {
    static const char *const names[] = {"bias", "weight"};
    const HurrayFileWriterOptions options = {.checksums = true, .tensor_count = 2};
    HurrayFileWriter *writer;
    check(hurray_file_writer_open(path, &options, &writer), "open for writing");
    for (uint64_t i = 0; i < 2; i++) {
        HurrayTensor *tensor = make(3 + 4 * i);
        check(hurray_file_writer_add(writer, names[i], strlen(names[i]), tensor), names[i]);
        hurray_tensor_release(tensor);
    }
    check(hurray_file_writer_finish(writer), "finish");
    check(hurray_file_writer_destroy(&writer), "destroy");
}

/* Name, type, extents and bytes of every entry, members of composites included. */
static void list(HurrayFileReader *reader) {
    for (uint64_t i = 0; i < hurray_file_reader_count(reader); i++) {
        HurrayFileEntry entry;
        HurrayDescriptor *descriptor;
        check(hurray_file_reader_entry(reader, i, &entry), "entry");
        check(hurray_file_reader_descriptor(reader, i, &descriptor), "descriptor");
        const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
        const HurrayElementType *type = hurray_element_type_from_tag(fields->type_tag);
        printf("%.*s: %s [", (int)entry.name_length, entry.name,
               type == NULL ? "private" : type->name);
        for (uint32_t k = 0; k < fields->rank; k++) {
            printf(k == 0 ? "%" PRIu64 : ", %" PRIu64, fields->shape[k]);
        }
        printf("], %" PRIu64 " bytes\n", entry.data_length);
        hurray_descriptor_destroy(descriptor);
    }
}

/* The tensor is a view of the mapping: only the pages that are touched are read. */
static void show_weight(HurrayFileReader *reader) {
    static const char name[] = "weight";
    uint64_t entry;
    HurrayTensor *tensor;
    check(hurray_file_reader_find(reader, name, strlen(name), &entry), "find");
    check(hurray_file_reader_verify(reader, entry, true, NULL), "verify"); /* its checksum, too */
    check(hurray_file_reader_tensor(reader, entry, &tensor), "map");
    const float *values = hurray_tensor_data(tensor);
    printf("%s ends with %g\n", name, (double)values[hurray_tensor_count(tensor) - 1]);
    hurray_tensor_release(tensor);
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "save_and_map.hrry";
    if (argc == 1) save(path);
    HurrayFileReader *reader;
    check(hurray_file_reader_open(path, NULL, &reader), "open");
    list(reader);
    if (argc == 1) show_weight(reader);
    check(hurray_file_reader_destroy(&reader), "destroy");
    if (argc == 1) remove(path);
    return EXIT_SUCCESS;
}
