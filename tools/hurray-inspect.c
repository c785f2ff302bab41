/*
 * hurray-inspect: what a descriptor or a stream consists of, byte by byte (spec 1 – 3, 5).
 *
 * The tables are hurray_descriptor_print's; here are the reading of files and pipes, the way from
 * one descriptor to the next past the data between them, and what a shell wants to know.
 *
 * Memory grows with the bytes that have arrived, never with what a descriptor announces.
 */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hurray/hurray.h>

#ifndef HURRAY_INSPECT_VERSION
#define HURRAY_INSPECT_VERSION "(unreleased)"
#endif

#define DEFAULT_LIMIT (UINT64_C(16) << 20) /* bytes of one descriptor */
#define CHUNK 65536u                       /* read at a time, and at first */

/* The exit statuses; also what the functions here return. */
typedef enum Outcome {
    VALID = 0,
    FAULT = 1,
    TROUBLE = 2 /* usage, input, output, memory */
} Outcome;

typedef enum Mode {
    AUTO,
    DESCRIPTOR,
    STREAM
} Mode;

typedef struct Inspection {
    const char *name; /* of the input, for messages */
    int input;
    uint64_t position;  /* bytes taken from the input */
    uint64_t skippable; /* up to this position a seek may replace reading; 0: nowhere */
    Mode mode;
    uint64_t limit;
    HurrayPrintOptions options;
    HurrayCompositeValidator *composites;
    uint8_t *bytes; /* of the descriptor at hand */
    size_t capacity;
    uint64_t tensors; /* seen so far */
} Inspection;

static const char help_text[] =
    "NAME\n"
    "    hurray-inspect - show the bytes of Hurray descriptors and streams\n"
    "\n"
    "SYNOPSIS\n"
    "    hurray-inspect [OPTION]... [FILE]\n"
    "\n"
    "DESCRIPTION\n"
    "    Prints a table of each descriptor in FILE: for each field its offset, its bytes in hex,\n"
    "    its name and its value. A broken descriptor is shown as far as it can be followed. Below\n"
    "    each table stands \"valid\", or what is wrong.\n"
    "\n"
    "    Without FILE, or when FILE is -, standard input is read. Pipes are read once, from the\n"
    "    front; the data of the tensors is skipped and never kept.\n"
    "\n"
    "OPTIONS\n"
    "    -d, --descriptor\n"
    "        The input begins with one descriptor. What follows it is not looked at.\n"
    "    -s, --stream\n"
    "        The input is a stream: descriptors, each followed by the bytes of its buffers, and\n"
    "        nothing else. Members of composites are checked against their heads.\n"
    "\n"
    "        Without either option the input is a stream, except that it may also end right after\n"
    "        the first descriptor, without the data of that one.\n"
    "    -p, --permissive\n"
    "        Accept what the format lets a permissive reader carry: element types, layouts and\n"
    "        schemes that are not assigned, private layouts and composition rules, quantized\n"
    "        tensors that are not padded.\n"
    "    -l, --limit=BYTES\n"
    "        Refuse descriptors that are longer than this. The default is 16777216 (16 MiB).\n"
    "    -r, --rows=COUNT\n"
    "        Show at most this many rows of bytes that have no fields. The default is 16.\n"
    "    -w, --width=COUNT\n"
    "        Show this many bytes in a row, 1 to 32. The default is 8.\n"
    "    -c, --color\n"
    "        Colour the tables, for a terminal.\n"
    "    -h, --help\n"
    "        Print this text.\n"
    "    -V, --version\n"
    "        Print the version.\n"
    "\n"
    "EXIT STATUS\n"
    "    0   Everything is valid.\n"
    "    1   There is a fault, which a line on standard error names.\n"
    "    2   Wrong usage, the input cannot be read, or the output cannot be written.\n"
    "\n"
    "EXAMPLES\n"
    "    hurray-inspect weights.hrs\n"
    "    producer | hurray-inspect --stream | less\n";

/* ---- output ---- */

/* Lines are gathered, so that a table is few writes. */
static char output[8192];
static size_t output_used;
static int output_error; /* errno of a write that failed */

static bool wait_for(int file, short events) {
    struct pollfd wanted = {.fd = file, .events = events};
    return poll(&wanted, 1, -1) >= 0 || errno == EINTR;
}

static bool write_all(int file, const char *text, size_t length) {
    while (length != 0) {
        ssize_t written = write(file, text, length);
        if (written >= 0) {
            text += written;
            length -= (size_t)written;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!wait_for(file, POLLOUT)) return false;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

static bool flush_output(void) {
    size_t length = output_used;
    output_used = 0;
    if (output_error != 0) return false;
    if (!write_all(STDOUT_FILENO, output, length)) output_error = errno;
    return output_error == 0;
}

static bool put_text(const char *text, size_t length, void *context) {
    (void)context;
    while (length != 0 && output_error == 0) {
        size_t room = sizeof output - output_used, part = length < room ? length : room;
        memcpy(output + output_used, text, part);
        output_used += part;
        text += part;
        length -= part;
        if (output_used == sizeof output) flush_output();
    }
    return output_error == 0;
}

__attribute__((format(printf, 1, 2))) static bool put_line(const char *format, ...) {
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    return length >= 0 && put_text(line, strnlen(line, sizeof line), NULL);
}

/* ---- complaints ---- */

/* One line on standard error, after what was printed before it. */
__attribute__((format(printf, 2, 3))) static void complain(const Inspection *inspection,
                                                           const char *format, ...) {
    char text[1024];
    flush_output();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "hurray-inspect: %s: %s\n", inspection->name, text);
}

static Outcome system_trouble(const Inspection *inspection, const char *what) {
    complain(inspection, "%s: %s", what, strerror(errno));
    return TROUBLE;
}

/* Somebody who closes a pipe early, like head(1), has what they want: no reason to complain. */
static Outcome output_trouble(void) {
    if (output_error != EPIPE) {
        fprintf(stderr, "hurray-inspect: standard output: %s\n", strerror(output_error));
    }
    return TROUBLE;
}

/* The last failure of the library, at the descriptor that begins at `offset`. */
static Outcome library_fault(const Inspection *inspection, uint64_t offset, HurrayStatus status) {
    complain(inspection, "tensor %" PRIu64 " at byte %" PRIu64 ": %s: %s", inspection->tensors,
             offset, hurray_status_name(status), hurray_error_message());
    return status == HURRAY_ERR_OUT_OF_MEMORY ? TROUBLE : FAULT;
}

/* ---- input ---- */

/* Up to `size` bytes; fewer only at the end of the input. False on an error, with errno. */
static bool read_input(Inspection *inspection, uint8_t *bytes, size_t size, size_t *out_length) {
    size_t length = 0;
    while (length < size) {
        ssize_t got = read(inspection->input, bytes + length, size - length);
        if (got == 0) break;
        if (got > 0) {
            length += (size_t)got;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!wait_for(inspection->input, POLLIN)) return false;
        } else if (errno != EINTR) {
            return false;
        }
    }
    inspection->position += length;
    *out_length = length;
    return true;
}

static bool reserve(Inspection *inspection, size_t size) {
    if (size <= inspection->capacity) return true;
    uint8_t *bytes = realloc(inspection->bytes, size);
    if (bytes == NULL) return false;
    inspection->bytes = bytes;
    inspection->capacity = size;
    return true;
}

/* Continues the descriptor that has `*length` bytes up to `size`, doubling what has arrived. */
static bool read_up_to(Inspection *inspection, size_t size, size_t *length) {
    while (*length < size) {
        size_t step = *length < CHUNK ? CHUNK : *length, got;
        if (step > size - *length) step = size - *length;
        if (!reserve(inspection, *length + step)) return false;
        if (!read_input(inspection, inspection->bytes + *length, step, &got)) return false;
        *length += got;
        if (got < step) break;
    }
    return true;
}

/* Notes how far a regular file goes: data in it need not be read to be skipped. */
static void measure_input(Inspection *inspection) {
    struct stat about;
    off_t at = lseek(inspection->input, 0, SEEK_CUR);
    if (at < 0 || fstat(inspection->input, &about) != 0 || !S_ISREG(about.st_mode)) return;
    /* Positions count from where we began, which need not be the start of the file. */
    if (about.st_size > at) inspection->skippable = (uint64_t)(about.st_size - at);
}

/* Skips `size` bytes; fewer only at the end of the input. False on an error, with errno. */
static bool skip_input(Inspection *inspection, uint64_t size, uint64_t *out_skipped) {
    static uint8_t chunk[CHUNK];
    uint64_t skipped = 0;
    if (inspection->skippable > inspection->position) {
        uint64_t there = inspection->skippable - inspection->position;
        uint64_t step = size < there ? size : there;
        if (lseek(inspection->input, (off_t)step, SEEK_CUR) < 0) return false;
        inspection->position += step;
        skipped = step;
    }
    while (skipped < size) {
        uint64_t left = size - skipped;
        size_t step = left < CHUNK ? (size_t)left : CHUNK, got;
        if (!read_input(inspection, chunk, step, &got)) return false;
        skipped += got;
        if (got < step) break;
    }
    *out_skipped = skipped;
    return true;
}

/* ---- descriptors ---- */

/*
 * Reads the next descriptor as far as it is there. `*length` is 0 at the end of the input. A prefix
 * that makes no sense is left for the printer to explain.
 */
static Outcome read_descriptor(Inspection *inspection, size_t *length) {
    uint32_t declared;
    *length = 0;
    if (!read_up_to(inspection, HURRAY_DESCRIPTOR_PREFIX_SIZE, length)) {
        return system_trouble(inspection, "reading");
    }
    if (*length == 0 ||
        hurray_descriptor_peek_length(inspection->bytes, *length, &declared) != HURRAY_OK) {
        return VALID;
    }
    if (declared > inspection->limit) {
        complain(inspection,
                 "tensor %" PRIu64 " at byte %" PRIu64 ": descriptor_length %" PRIu32
                 " is greater than the limit of %" PRIu64,
                 inspection->tensors, inspection->position - *length, declared, inspection->limit);
        return FAULT;
    }
    if (!read_up_to(inspection, declared, length)) return system_trouble(inspection, "reading");
    return VALID;
}

static Outcome print_descriptor(Inspection *inspection, size_t length) {
    uint64_t offset = inspection->position - length;
    HurrayStatus verdict = HURRAY_OK;
    inspection->options.first_offset = offset;
    HurrayStatus status = hurray_descriptor_print(inspection->bytes, length, &inspection->options,
                                                  put_text, NULL, &verdict);
    if (status != HURRAY_OK) {
        return output_error != 0 ? TROUBLE : library_fault(inspection, offset, status);
    }
    return verdict == HURRAY_OK ? VALID : library_fault(inspection, offset, verdict);
}

static Outcome inspect_descriptor(Inspection *inspection) {
    size_t length;
    Outcome outcome = read_descriptor(inspection, &length);
    return outcome != VALID ? outcome : print_descriptor(inspection, length);
}

/* ---- streams ---- */

static bool is_opaque(const HurrayDescriptorFields *fields) {
    return hurray_layout_tag_kind(fields->layout.tag) == HURRAY_LAYOUT_TAG_RESERVED;
}

/* The data behind a valid descriptor; `*ended` when the input ends instead of it, in auto mode. */
static Outcome skip_data(Inspection *inspection, const HurrayDescriptorFields *fields,
                         bool *ended) {
    bool may_lack = inspection->mode == AUTO && inspection->tensors == 0;
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        uint64_t size = fields->buffers[i].byte_size, start = inspection->position, skipped;
        if (size > UINT64_MAX - start) {
            complain(inspection,
                     "tensor %" PRIu64 ": buffer %" PRIu32 " of %" PRIu64
                     " bytes would end past byte 2^64",
                     inspection->tensors, i, size);
            return FAULT;
        }
        if (!skip_input(inspection, size, &skipped)) return system_trouble(inspection, "reading");
        may_lack = may_lack && skipped == 0;
        if (skipped == size) {
            put_line("%6" PRIu64 "  %" PRIu64 " bytes of buffers[%" PRIu32 "]\n", start, size, i);
        } else if (!may_lack) {
            complain(inspection,
                     "tensor %" PRIu64 ": the input ends at byte %" PRIu64 ", in buffer %" PRIu32
                     " with %" PRIu64 " of its %" PRIu64 " bytes",
                     inspection->tensors, inspection->position, i, skipped, size);
            return FAULT;
        } else {
            put_line("no data follows: a descriptor alone\n");
            *ended = true;
            return VALID;
        }
    }
    return VALID;
}

/* Only alone can a descriptor be understood whose layout, and so whose buffer table, is unknown. */
static Outcome end_at_opaque(Inspection *inspection, bool *ended) {
    uint64_t more = 1;
    if (inspection->mode == AUTO && inspection->tensors == 0 && !skip_input(inspection, 1, &more)) {
        return system_trouble(inspection, "reading");
    }
    *ended = more == 0;
    if (*ended) return VALID;
    complain(inspection,
             "tensor %" PRIu64 ": its layout is not assigned, so that nobody knows how much data "
             "follows",
             inspection->tensors);
    return FAULT;
}

/* Checks the descriptor against the composite that it belongs to, then skips its data. */
static Outcome pass_tensor(Inspection *inspection, size_t length, bool *ended) {
    uint64_t offset = inspection->position - length;
    HurrayDescriptor *descriptor = NULL;
    bool complete;
    HurrayStatus status = hurray_descriptor_decode_with(inspection->bytes, length,
                                                        &inspection->options.decode, &descriptor);
    if (status != HURRAY_OK) return library_fault(inspection, offset, status);
    const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
    Outcome outcome = VALID;
    status = hurray_composite_validator_push(inspection->composites, fields, &complete);
    if (status != HURRAY_OK) {
        outcome = library_fault(inspection, offset, status);
    } else if (!is_opaque(fields)) {
        outcome = skip_data(inspection, fields, ended);
    } else {
        outcome = end_at_opaque(inspection, ended);
    }
    hurray_descriptor_destroy(descriptor);
    return outcome;
}

static Outcome end_stream(Inspection *inspection) {
    HurrayStatus status = hurray_composite_validator_finish(inspection->composites);
    if (status == HURRAY_OK) return VALID;
    complain(inspection, "the input ends at byte %" PRIu64 ": %s: %s", inspection->position,
             hurray_status_name(status), hurray_error_message());
    return FAULT;
}

static Outcome inspect_stream(Inspection *inspection) {
    HurrayStatus status = hurray_composite_validator_create(NULL, &inspection->composites);
    if (status != HURRAY_OK) return library_fault(inspection, 0, status);
    for (;; inspection->tensors++) {
        size_t length;
        bool ended = false;
        Outcome outcome = read_descriptor(inspection, &length);
        if (outcome != VALID) return outcome;
        if (length == 0) break;
        if (inspection->tensors != 0) put_text("\n", 1, NULL);
        outcome = print_descriptor(inspection, length);
        if (outcome == VALID) outcome = pass_tensor(inspection, length, &ended);
        if (outcome != VALID || ended) return outcome;
    }
    if (inspection->tensors == 0) put_line("empty: a stream of no tensors\n");
    /* A head that stands alone is a descriptor, too. */
    if (inspection->mode == AUTO && inspection->tensors == 1) return VALID;
    return end_stream(inspection);
}

/* ---- the command line ---- */

static Outcome wrong_usage(void) {
    fputs("hurray-inspect: --help says how to use it\n", stderr);
    return TROUBLE;
}

static bool parse_number(const char *text, uint64_t most, uint64_t *out) {
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || number > most) return false;
    *out = number;
    return true;
}

static const struct option long_options[] = {
    {"descriptor", no_argument, NULL, 'd'}, {"stream", no_argument, NULL, 's'},
    {"permissive", no_argument, NULL, 'p'}, {"limit", required_argument, NULL, 'l'},
    {"rows", required_argument, NULL, 'r'}, {"width", required_argument, NULL, 'w'},
    {"color", no_argument, NULL, 'c'},      {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},    {NULL, 0, NULL, 0},
};

typedef struct Arguments {
    Inspection inspection;
    bool done; /* what was asked for has been printed */
} Arguments;

static Outcome set_number(const char *name, const char *text, uint64_t least, uint64_t most,
                          uint64_t *out) {
    if (parse_number(text, most, out) && *out >= least) return VALID;
    fprintf(stderr, "hurray-inspect: --%s: '%s' is not a number from %" PRIu64 " to %" PRIu64 "\n",
            name, text, least, most);
    return TROUBLE;
}

static Outcome set_option(Arguments *arguments, int option) {
    Inspection *inspection = &arguments->inspection;
    uint64_t number = 0;
    Outcome outcome = VALID;
    switch (option) {
    case 'd': inspection->mode = DESCRIPTOR; break;
    case 's': inspection->mode = STREAM; break;
    case 'p': inspection->options.decode.permissive = true; break;
    case 'c': inspection->options.color = true; break;
    case 'l': outcome = set_number("limit", optarg, 0, UINT32_MAX, &inspection->limit); break;
    case 'r':
        outcome = set_number("rows", optarg, 1, UINT32_MAX, &number);
        inspection->options.data_rows = (uint32_t)number;
        break;
    case 'w':
        outcome = set_number("width", optarg, 1, HURRAY_PRINT_MAX_BYTES_PER_ROW, &number);
        inspection->options.bytes_per_row = (uint32_t)number;
        break;
    case 'h':
        arguments->done = true;
        put_text(help_text, sizeof help_text - 1, NULL);
        break;
    case 'V':
        arguments->done = true;
        put_line("hurray-inspect %s\n", HURRAY_INSPECT_VERSION);
        break;
    default: /* getopt has said what is wrong */ outcome = wrong_usage();
    }
    return outcome;
}

static Outcome parse_arguments(int count, char **texts, Arguments *arguments) {
    int option;
    while ((option = getopt_long(count, texts, "dspl:r:w:chV", long_options, NULL)) != -1) {
        Outcome outcome = set_option(arguments, option);
        if (outcome != VALID || arguments->done) return outcome;
    }
    if (count - optind > 1) {
        fprintf(stderr, "hurray-inspect: '%s' is one file too many\n", texts[optind + 1]);
        return wrong_usage();
    }
    if (count - optind == 1) arguments->inspection.name = texts[optind];
    return VALID;
}

static Outcome inspect(Inspection *inspection) {
    if (strcmp(inspection->name, "-") == 0) {
        inspection->name = "standard input";
        inspection->input = STDIN_FILENO;
    } else {
        do {
            inspection->input = open(inspection->name, O_RDONLY | O_CLOEXEC);
        } while (inspection->input < 0 && errno == EINTR);
        if (inspection->input < 0) {
            complain(inspection, "%s", strerror(errno));
            return TROUBLE;
        }
    }
    measure_input(inspection);
    Outcome outcome = inspection->mode == DESCRIPTOR ? inspect_descriptor(inspection)
                                                     : inspect_stream(inspection);
    if (inspection->input != STDIN_FILENO) close(inspection->input);
    hurray_composite_validator_destroy(&inspection->composites);
    free(inspection->bytes);
    return outcome;
}

int main(int count, char **texts) {
    Arguments arguments = {.inspection = {.name = "-", .limit = DEFAULT_LIMIT}};
    Outcome outcome = parse_arguments(count, texts, &arguments);
    if (outcome == VALID && !arguments.done) outcome = inspect(&arguments.inspection);
    return flush_output() ? (int)outcome : (int)output_trouble();
}
