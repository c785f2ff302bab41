/*
 * Authors a sparse matrix in the CSR layout: fills its buffers, describes them, encodes the
 * descriptor, verifies the whole and looks elements up. Then it breaks an index, and verification
 * says which.
 *
 *     cc author_csr.c $(pkg-config --cflags --libs hurray) -o author_csr && ./author_csr
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hurray/hurray.h>

/*
 *     [ 1.5   .    .    .    .  ]
 *     [  .    .    .    .    .  ]
 *     [  .   2.5   .    .  −1.0 ]
 *     [  .    .   4.0   .    .  ]
 */
enum {
    ROWS = 4,
    COLUMNS = 5,
    NNZ = 4
};
static const float values[NNZ] = {1.5f, 2.5f, -1.0f, 4.0f};   /* row after row */
static const uint64_t columns[NNZ] = {0, 1, 4, 2};            /* the column of each value */
static const uint64_t row_starts[ROWS + 1] = {0, 1, 1, 3, 4}; /* row r is row_starts[r] … [r + 1] */

/* The buffers of a CSR tensor, in the order of its buffer table. */
enum {
    VALUES,
    COLUMN_INDICES,
    ROW_POINTERS,
    BUFFERS
};

static void check(HurrayStatus status, const char *what) {
    if (status == HURRAY_OK) return;
    fprintf(stderr, "author_csr: %s: %s\n", what, hurray_error_message());
    exit(EXIT_FAILURE);
}

/* Buffers are little-endian on every host. (On a little-endian one, memcpy does the same.) */
static void put(uint8_t *at, uint64_t bits, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) at[i] = (uint8_t)(bits >> (8 * i));
}

static float get_float(const uint8_t *at) {
    uint32_t bits = 0;
    for (unsigned i = 0; i < 4; i++) bits |= (uint32_t)at[i] << (8 * i);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void fill(uint8_t *const data[BUFFERS]) {
    for (size_t i = 0; i < NNZ; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        put(data[VALUES] + 4 * i, bits, 4);
        put(data[COLUMN_INDICES] + 8 * i, columns[i], 8);
    }
    for (size_t r = 0; r <= ROWS; r++) put(data[ROW_POINTERS] + 8 * r, row_starts[r], 8);
}

static void print_element(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                          uint64_t row, uint64_t column) {
    uint64_t position;
    check(hurray_sparse_find(fields, buffers, (const uint64_t[]){row, column}, &position), "find");
    printf("[%" PRIu64 ", %" PRIu64 "] = ", row, column);
    if (position == HURRAY_NOT_STORED) {
        printf("0, not stored\n");
    } else {
        printf("%.1f, value %" PRIu64 "\n", (double)get_float(buffers[VALUES].data + 4 * position),
               position);
    }
}

int main(void) {
    /* 1. Say what it is. How large the buffers must be follows from that. */
    const uint64_t shape[] = {ROWS, COLUMNS};
    HurrayBufferHandle handles[BUFFERS] = {{0}}; /* on the CPU, ready to be read */
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_FLOAT32,
        .rank = 2,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_CSR, .sparse = {.nnz = NNZ}},
        .buffer_count = BUFFERS,
        .buffers = handles,
    };

    /* 2. Get memory for the buffers and fill it. */
    uint8_t *data[BUFFERS];
    HurrayBytes buffers[BUFFERS];
    for (uint32_t i = 0; i < BUFFERS; i++) {
        uint64_t size;
        const char *role;
        check(hurray_descriptor_required_bytes(&fields, i, &size, &role), "required bytes");
        data[i] = hurray_aligned_alloc((size_t)size, HURRAY_MIN_BUFFER_ALIGNMENT, true);
        if (data[i] == NULL) {
            fprintf(stderr, "author_csr: out of memory\n");
            return EXIT_FAILURE;
        }
        handles[i].byte_size = size;
        handles[i].alignment = HURRAY_MIN_BUFFER_ALIGNMENT;
        buffers[i] = (HurrayBytes){data[i], size};
        printf("buffer %" PRIu32 ": %s, %" PRIu64 " bytes\n", i, role, size);
    }
    fill(data);

    /* 3. Encode the descriptor: with the buffers, that is the tensor. */
    uint8_t encoded[256];
    uintptr_t length;
    check(hurray_descriptor_encode(&fields, encoded, sizeof encoded, &length), "encode");
    printf("the descriptor takes %zu bytes\n", (size_t)length);

    /* 4. Encoding has checked the descriptor; verification looks at what is in the buffers, too. */
    check(hurray_verify(&fields, buffers, BUFFERS, NULL), "verify");
    printf("verified\n");
    print_element(&fields, buffers, 2, 4);
    print_element(&fields, buffers, 3, 3);

    /* 5. What verification says of a column that does not exist. */
    put(data[COLUMN_INDICES] + 8 * 2, 5, 8);
    HurrayViolation violation;
    HurrayStatus status = hurray_verify(&fields, buffers, BUFFERS, &violation);
    if (status != HURRAY_ERR_DATA_INVALID) {
        fprintf(stderr, "author_csr: a broken index was not found\n");
        return EXIT_FAILURE;
    }
    printf("broken: %s in buffer %" PRIu32 ", entry %" PRIu64 "\n  %s\n",
           hurray_violation_name(violation.kind), violation.buffer, violation.position,
           hurray_error_message());

    for (uint32_t i = 0; i < BUFFERS; i++) hurray_aligned_free(data[i]);
    return EXIT_SUCCESS;
}
