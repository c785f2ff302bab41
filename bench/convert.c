/*
 * How fast layouts are converted, as a multiple of the time that memcpy takes for the same bytes.
 *
 *     bench_convert [edge]        edge · edge elements; default 4096, a power of two
 *
 * The best of several rounds each; memcpy is measured between them all, because machines change pace; of processor
 * time, so that other work on the machine disturbs less.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hurray/convert.h>
#include <hurray/memory.h>

enum {
    ROUNDS = 9
};

typedef struct Named {
    const char *name;
    HurrayLayout layout;
} Named;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void require(HurrayStatus status) {
    if (status == HURRAY_OK) return;
    fprintf(stderr, "%s\n", hurray_error_message());
    exit(EXIT_FAILURE);
}

static void *allocate(uint64_t bytes) {
    void *memory = hurray_aligned_alloc((size_t)bytes, HURRAY_PAGE_ALIGNMENT, false);
    if (memory == NULL) {
        fprintf(stderr, "no %llu bytes of memory\n", (unsigned long long)bytes);
        exit(EXIT_FAILURE);
    }
    memset(memory, 1, (size_t)bytes); /* so that every page is there */
    return memory;
}

/* Seconds, the best of all rounds. */
static void measure(const HurrayDescriptorFields *from, const HurrayDescriptorFields *to,
                    double *copying, double *converting) {
    uint64_t from_bytes = 0, to_bytes = 0;
    require(hurray_descriptor_required_bytes(from, 0, &from_bytes, NULL));
    require(hurray_descriptor_required_bytes(to, 0, &to_bytes, NULL));
    void *source = allocate(from_bytes), *destination = allocate(to_bytes);
    uint64_t bytes = from_bytes < to_bytes ? from_bytes : to_bytes;
    *copying = *converting = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now();
        memcpy(destination, source, (size_t)bytes);
        double copied = now();
        require(hurray_convert(from, source, from_bytes, to, destination, to_bytes));
        double converted = now();
        if (copied - start < *copying) *copying = copied - start;
        if (converted - copied < *converting) *converting = converted - copied;
    }
    hurray_aligned_free(source);
    hurray_aligned_free(destination);
}

static void report(uint8_t type_tag, uint64_t edge, const Named *from, const Named *to) {
    uint64_t shape[2] = {edge, edge};
    HurrayDescriptorFields source = {
        .type_tag = type_tag, .rank = 2, .shape = shape, .layout = from->layout, .buffer_count = 1};
    HurrayDescriptorFields destination = source;
    destination.layout = to->layout;
    double copying, converting;
    measure(&source, &destination, &copying, &converting);
    printf("%-8s %-10s -> %-10s %8.2f ms  memcpy %7.2f ms  ratio %5.2f\n",
           hurray_element_type_from_tag(type_tag)->name, from->name, to->name, converting * 1e3,
           copying * 1e3, converting / copying);
}

static uint32_t order_of(uint64_t edge) {
    uint32_t order = 0;
    while (UINT64_C(1) << order < edge) order++;
    return order;
}

int main(int argc, char **argv) {
    static const uint8_t types[] = {HURRAY_TYPE_FLOAT32, HURRAY_TYPE_UINT8, HURRAY_TYPE_FLOAT64,
                                    HURRAY_TYPE_INT4};
    const uint64_t edge = argc > 1 ? strtoull(argv[1], NULL, 10) : 4096;
    const uint32_t order = order_of(edge), bits[2] = {order, order};
    const uint64_t tile[2] = {64, 64}, small[2] = {8, 8}, odd[2] = {48, 48};
    HurrayTileLevel level = {.tile_shape = tile, .outer_layout = 1, .inner_layout = 1};
    HurrayTileLevel small_level = {.tile_shape = small, .outer_layout = 1, .inner_layout = 1};
    HurrayTileLevel odd_level = {.tile_shape = odd, .outer_layout = 1, .inner_layout = 1};
    HurrayTileLevel nested[2] = {{.tile_shape = tile, .outer_layout = 1, .inner_layout = 4},
                                 small_level};
    const Named layouts[] = {
        {"row_major", {HURRAY_LAYOUT_ROW_MAJOR, {NULL}}},
        {"col_major", {HURRAY_LAYOUT_COL_MAJOR, {NULL}}},
        {"tiled 64", {HURRAY_LAYOUT_TILED, {.tiled = {1, &level}}}},
        {"tiled 8", {HURRAY_LAYOUT_TILED, {.tiled = {1, &small_level}}}},
        {"tiled 48", {HURRAY_LAYOUT_TILED, {.tiled = {1, &odd_level}}}},
        {"64 of 8", {HURRAY_LAYOUT_TILED, {.tiled = {2, nested}}}},
        {"morton", {HURRAY_LAYOUT_MORTON, {.morton_bits = bits}}},
        {"hilbert", {HURRAY_LAYOUT_HILBERT, {.hilbert = {order, 2}}}},
    };
    const size_t count = sizeof layouts / sizeof layouts[0];
    if (edge < 2 || UINT64_C(1) << order != edge || order > 16) {
        fprintf(stderr, "edge: expected a power of two, 2 to 65536\n");
        return EXIT_FAILURE;
    }
    for (size_t t = 0; t < sizeof types; t++) {
        for (size_t i = 0; i < count; i++) {
            /* To and from row-major and column-major; and between some that do not fit together. */
            for (size_t j = 0; j < count; j++) {
                if (i > 1 && j > 1 && !(i == 2 && j == 4) && !(i == 6 && j == 7)) continue;
                report(types[t], edge, &layouts[i], &layouts[j]);
            }
        }
    }
    return EXIT_SUCCESS;
}
