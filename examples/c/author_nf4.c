/*
 * Authors a weight quantized to NF4, 4 bits for each element and a scale for each block of 16, and
 * reads it back.
 *
 *     cc author_nf4.c $(pkg-config --cflags --libs hurray) -o author_nf4 && ./author_nf4
 *
 * The padding rule: blocks lie along one axis, and a row-major tensor stores its last, partial
 * block in full. Here a row has 24 elements, so one block of 16 and half of another; each row is
 * stored as 32, and the 8 behind its end are zero. The next row begins behind them.
 *
 *     shape   [2, 24]      what the tensor is
 *     stored  [2, 32]      what buffer 0 holds: 64 elements of 4 bits, 32 bytes
 *     scales  [2, 2]       a float32 for each block, row after row: 16 bytes
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hurray/hurray.h>

enum {
    ROWS = 2,
    COLUMNS = 24,
    BLOCK = 16
};
enum {
    BLOCKS = (COLUMNS + BLOCK - 1) / BLOCK,
    STORED = BLOCKS * BLOCK
}; /* of a row */
enum {
    DATA,
    SCALES,
    BUFFERS
};
enum {
    DATA_BYTES = ROWS * STORED / 2,
    SCALE_BYTES = ROWS * BLOCKS * 4
};

/* NormalFloat4: element q of a block stands for scale · levels[q]. */
static const float levels[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

static void check(HurrayStatus status, const char *what) {
    if (status == HURRAY_OK) return;
    fprintf(stderr, "author_nf4: %s: %s\n", what, hurray_error_message());
    exit(EXIT_FAILURE);
}

static float magnitude(float x) { return x < 0 ? -x : x; }

static uint8_t nearest_level(float x) {
    uint8_t best = 0;
    for (uint8_t q = 1; q < 16; q++) {
        if (magnitude(x - levels[q]) < magnitude(x - levels[best])) best = q;
    }
    return best;
}

/* Buffers are little-endian on every host. */
static void put_float(uint8_t *at, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    for (unsigned i = 0; i < 4; i++) at[i] = (uint8_t)(bits >> (8 * i));
}

static float get_float(const uint8_t *at) {
    uint32_t bits = 0;
    for (unsigned i = 0; i < 4; i++) bits |= (uint32_t)at[i] << (8 * i);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Quantizes a block of a row: its scale is the greatest magnitude in it. */
static float quantize_block(const float *weights, uint32_t count, uint8_t *codes) {
    float scale = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (magnitude(weights[i]) > scale) scale = magnitude(weights[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        codes[i] = nearest_level(scale > 0 ? weights[i] / scale : 0);
    }
    return scale;
}

/* Fills both buffers. */
static void author(float weights[ROWS][COLUMNS], uint8_t *data, uint8_t *scales) {
    uint8_t codes[ROWS][STORED] = {{0}}; /* a byte each, and zero in the padding */
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t b = 0; b < BLOCKS; b++) {
            uint32_t first = b * BLOCK;
            uint32_t count = COLUMNS - first < BLOCK ? COLUMNS - first : BLOCK;
            float scale = quantize_block(&weights[r][first], count, &codes[r][first]);
            put_float(scales + 4 * (r * BLOCKS + b), scale);
        }
    }
    /* The stored array, padding included, is packed as a whole. */
    check(hurray_pack_bits(4, codes[0], ROWS * STORED, data), "pack");
}

/* Reads element after element back, from any descriptor of this kind; the largest error made. */
static float read_back(const HurrayDescriptorFields *fields, const uint8_t *data,
                       const uint8_t *scales, float weights[ROWS][COLUMNS]) {
    /* The strides say how far apart the rows are stored: 32, not 24. */
    int64_t strides[2];
    check(hurray_address_strides(fields, strides), "strides");
    printf("element [1, 0] is stored at offset %" PRId64 "\n", strides[0]);

    HurrayPacking packing;
    uint8_t codes[ROWS][COLUMNS];
    check(hurray_packing_of(fields->type_tag, NULL, &packing), "packing");
    check(hurray_unpack_strided(2, fields->shape, packing, false, data, strides, codes[0]),
          "unpack");

    float worst = 0;
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t c = 0; c < COLUMNS; c++) {
            uint32_t block = r * BLOCKS + c / fields->quantization->block_size;
            float value = get_float(scales + 4 * block) * levels[codes[r][c]];
            float error = magnitude(value - weights[r][c]);
            if (error > worst) worst = error;
            if (c < 4)
                printf("  [%u, %u] %+.2f -> %+.2f\n", r, c, (double)weights[r][c], (double)value);
        }
    }
    return worst;
}

int main(void) {
    float weights[ROWS][COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        weights[i / COLUMNS][i % COLUMNS] = (float)(i * 37 % 101 - 50) / 50;
    }

    /* Arrays of our own will do: a descriptor and hurray_verify do not ask where bytes lie. The
     * alignment below is a promise to those who get this memory; tensors made with
     * hurray_buffer_allocate keep it. */
    uint8_t data[DATA_BYTES], scales[SCALE_BYTES];
    author(weights, data, scales);

    const uint64_t shape[] = {ROWS, COLUMNS};
    const HurrayBufferHandle handles[BUFFERS] = {
        {.byte_size = DATA_BYTES, .alignment = HURRAY_MIN_BUFFER_ALIGNMENT},
        {.byte_size = SCALE_BYTES, .alignment = HURRAY_MIN_BUFFER_ALIGNMENT},
    };
    const HurrayQuantization nf4 = {
        .scheme = HURRAY_SCHEME_NF4,
        .axis = 1,
        .block_size = BLOCK,
        .scale_buffer = SCALES,
    };
    HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT4, /* of what is stored */
        .rank = 2,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_ROW_MAJOR},
        .buffer_count = BUFFERS,
        .buffers = handles,
        .quantization = &nf4,
    };
    uint8_t encoded[256];
    uintptr_t length;
    check(hurray_descriptor_encode(&fields, encoded, sizeof encoded, &length), "encode");
    printf("%d x %d weights: %d bytes of elements, %d of scales, a descriptor of %zu\n", ROWS,
           COLUMNS, DATA_BYTES, SCALE_BYTES, (size_t)length);

    /* Finite scales that are not negative: that is in the buffers, not in the descriptor. */
    const HurrayBytes buffers[BUFFERS] = {{data, DATA_BYTES}, {scales, SCALE_BYTES}};
    check(hurray_verify(&fields, buffers, BUFFERS, NULL), "verify");

    HurrayDescriptor *descriptor;
    check(hurray_descriptor_decode(encoded, length, &descriptor), "decode");
    float worst = read_back(hurray_descriptor_fields(descriptor), data, scales, weights);
    check(hurray_descriptor_destroy(descriptor), "destroy");
    printf("the largest error is %.2f\n", (double)worst);

    /* Without the padding, 24 bytes would hold all elements, but not where they belong. */
    const HurrayBufferHandle unpadded[BUFFERS] = {
        {.byte_size = ROWS * COLUMNS / 2, .alignment = HURRAY_MIN_BUFFER_ALIGNMENT},
        handles[SCALES],
    };
    fields.buffers = unpadded;
    if (hurray_descriptor_validate(&fields) == HURRAY_OK) {
        fprintf(stderr, "author_nf4: a buffer without padding was accepted\n");
        return EXIT_FAILURE;
    }
    printf("without padding: %s\n", hurray_error_message());
    return EXIT_SUCCESS;
}
