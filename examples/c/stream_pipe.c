/*
 * Tensors through a pipe: one process writes them to its standard output, another reads them from
 * its standard input, and has the first before the second was made.
 *
 *     cc stream_pipe.c $(pkg-config --cflags --libs hurray) -o stream_pipe
 *     ./stream_pipe write | ./stream_pipe read
 *
 * Without an argument it does both, through a pipe of its own.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hurray/hurray.h>

enum {
    COUNT = 3,
    ROWS = 2
};

static void check(HurrayStatus status, const char *what) {
    if (status == HURRAY_OK) return;
    fprintf(stderr, "stream_pipe: %s: %s\n", what, hurray_error_message());
    exit(EXIT_FAILURE);
}

/* A float32 tensor [2, columns]: first, first + 1, … */
static HurrayTensor *make(uint64_t columns, float first) {
    HurrayBuffer *buffer;
    check(hurray_buffer_allocate(ROWS * columns * sizeof(float), false, NULL, &buffer), "allocate");
    float *values = hurray_buffer_info(buffer)->data;
    for (uint64_t i = 0; i < ROWS * columns; i++) values[i] = first + (float)i;
    const uint64_t shape[] = {ROWS, columns};
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_FLOAT32,
        .rank = 2,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_ROW_MAJOR},
        .buffer_count = 1,
    };
    HurrayTensor *tensor;
    check(hurray_tensor_create(&fields, &buffer, &tensor),
          "create"); /* the buffer is its own now */
    return tensor;
}

static void write_tensors(int descriptor) {
    HurrayOpenFile file = {.descriptor = descriptor};
    const HurraySink sink = hurray_open_file_sink(&file);
    HurrayStreamWriter *writer;
    check(hurray_stream_writer_create(&sink, NULL, &writer), "create");
    for (uint64_t i = 0; i < COUNT; i++) {
        HurrayTensor *tensor = make(1 + i, 10.0f * (float)i);
        check(hurray_stream_writer_write(writer, tensor), "write");
        hurray_tensor_release(tensor);
    }
    check(hurray_stream_writer_finish(writer), "finish");
    check(hurray_stream_writer_destroy(&writer), "destroy");
}

static void print(const HurrayTensor *tensor) {
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    printf("%s [", hurray_element_type_from_tag(fields->type_tag)->name);
    for (uint32_t k = 0; k < fields->rank; k++) {
        printf(k == 0 ? "%" PRIu64 : ", %" PRIu64, fields->shape[k]);
    }
    printf("]:");
    if (fields->type_tag == HURRAY_TYPE_FLOAT32 && fields->layout.tag == HURRAY_LAYOUT_ROW_MAJOR) {
        const float *values = hurray_tensor_data(tensor);
        for (uint64_t i = 0; i < hurray_tensor_count(tensor); i++) printf(" %g", (double)values[i]);
    }
    printf("\n");
}

/* Reads to the end. What comes may come from anyone: every limit and rule is checked on the way. */
static void read_tensors(int descriptor) {
    HurrayStreamOptions options;
    hurray_stream_options_init(&options);
    options.max_buffer_bytes = UINT64_C(1) << 30;

    HurrayOpenFile file = {.descriptor = descriptor};
    const HurraySource source = hurray_open_file_source(&file);
    HurrayStreamReader *reader;
    check(hurray_stream_reader_create(&source, &options, &reader), "create");
    for (;;) {
        HurrayStreamPart part;
        check(hurray_stream_reader_next(reader, &part), "read");
        if (part.kind == HURRAY_STREAM_END) break;
        if (part.kind == HURRAY_STREAM_HEAD) { /* its members follow */
            printf("a composite\n");
            hurray_descriptor_destroy(part.head);
        } else {
            print(part.tensor);
            hurray_tensor_release(part.tensor);
        }
    }
    printf("%" PRIu64 " bytes\n", hurray_stream_reader_position(reader));
    check(hurray_stream_reader_destroy(&reader), "destroy");
}

/* The producer in a process of its own. */
static int both(void) {
    int ends[2], status;
    if (pipe(ends) != 0) return EXIT_FAILURE;
    pid_t producer = fork();
    if (producer < 0) return EXIT_FAILURE;
    if (producer == 0) {
        close(ends[0]);
        write_tensors(ends[1]);
        _exit(EXIT_SUCCESS);
    }
    close(ends[1]); /* or there would be no end */
    read_tensors(ends[0]);
    return waitpid(producer, &status, 0) == producer && status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    if (argc == 1) return both();
    if (strcmp(argv[1], "write") == 0) {
        write_tensors(STDOUT_FILENO);
    } else if (strcmp(argv[1], "read") == 0) {
        read_tensors(STDIN_FILENO);
    } else {
        fprintf(stderr, "usage: stream_pipe [write | read]\n");
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
