/*
 * How fast sparse conversions are: COO with 10^7 elements of float64 at random places into CSR, CSC
 * and itself sorted, and from CSR into the others. Prints the best of some runs of each, in
 * seconds.
 *
 *     bench_convert_sparse [nnz [rows [columns]]]
 */
#include <hurray/convert_sparse.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RUNS 4

/* Of the processor, so that other work on the machine disturbs less. */
static double now(void) { return (double)clock() / CLOCKS_PER_SEC; }

static void check(HurrayStatus status) {
    if (status == HURRAY_OK) return;
    fprintf(stderr, "%s: %s\n", hurray_status_name(status), hurray_error_message());
    exit(1);
}

static uint64_t random_u64(uint64_t *state) {
    *state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/*
 * Random places without two that are the same: a walk through all of them in steps that share no
 * factor with their number would not be random, so the numbers 0 … nnz − 1 are sent through an
 * invertible mixing of as many bits as there are places.
 */
static uint64_t mix(uint64_t i, uint32_t bits) {
    uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    for (int round = 0; round < 3; round++) {
        i = i * UINT64_C(0x9E3779B97F4A7C15) & mask;
        i ^= i >> (bits / 2 + 1);
    }
    return i;
}

static HurrayTensor *make_coo(uint64_t nnz, uint64_t *shape) {
    HurrayBuffer *buffers[2];
    check(hurray_buffer_allocate(nnz * 8, false, NULL, &buffers[0]));
    check(hurray_buffer_allocate(nnz * 16, false, NULL, &buffers[1]));
    double *values = hurray_buffer_info(buffers[0])->data;
    uint64_t *indices = hurray_buffer_info(buffers[1])->data, seed = 1, at = 0;
    uint32_t bits = 1;
    while (bits < 63 && (UINT64_C(1) << bits) < shape[0] * shape[1]) bits++;
    for (uint64_t i = 0; i < nnz; i++) {
        uint64_t place;
        do place = mix(at++, bits);
        while (place >= shape[0] * shape[1]);
        indices[2 * i] = place / shape[1];
        indices[2 * i + 1] = place % shape[1];
        values[i] = (double)(random_u64(&seed) >> 11);
    }
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_FLOAT64,
        .rank = 2,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_COO, .sparse = {.nnz = nnz}},
        .buffer_count = 2,
    };
    HurrayTensor *tensor;
    check(hurray_tensor_create(&fields, buffers, &tensor));
    return tensor;
}

static HurrayTensor *measure(const HurrayTensor *from, uint8_t tag) {
    double best = 1e9;
    HurrayTensor *to = NULL;
    HurrayLayout target = {.tag = tag};
    for (int run = 0; run < RUNS; run++) {
        hurray_tensor_release(to);
        double start = now();
        check(hurray_tensor_to_sparse(from, &target, NULL, &to));
        double time = now() - start;
        if (time < best) best = time;
    }
    printf("%s -> %s  %.3f s\n", hurray_layout_name(hurray_tensor_fields(from)->layout.tag),
           hurray_layout_name(tag), best);
    return to;
}

int main(int argc, char **argv) {
    uint64_t nnz = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;
    uint64_t shape[2] = {1000000, 1000000};
    for (int k = 0; k < 2; k++) {
        if (argc > 2 + k) shape[k] = strtoull(argv[2 + k], NULL, 10);
    }
    static const uint8_t tags[] = {HURRAY_LAYOUT_CSR, HURRAY_LAYOUT_CSC, HURRAY_LAYOUT_COO};
    HurrayTensor *coo = make_coo(nnz, shape), *results[3];
    for (int i = 0; i < 3; i++) results[i] = measure(coo, tags[i]);
    for (int i = 1; i < 3; i++) hurray_tensor_release(measure(results[0], tags[i]));
    for (int i = 0; i < 3; i++) hurray_tensor_release(results[i]);
    hurray_tensor_release(coo);
    return 0;
}
