/*
 * Rearranges an RGB image, rows of pixels, into tiles of 64 × 64 pixels, and back.
 *
 *     cc image_to_tiles.c $(pkg-config --cflags --libs hurray) -o image_to_tiles
 *     ./image_to_tiles
 *
 * Tiles keep pixels together that are near one another in both directions. Those at the right and
 * lower edge are stored whole, too, so that a tiled image takes somewhat more memory.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hurray/hurray.h>

enum {
    HEIGHT = 150,
    WIDTH = 200,
    CHANNELS = 3,
    TILE = 64
};

static void check(HurrayStatus status, const char *what) {
    if (status == HURRAY_OK) return;
    fprintf(stderr, "image_to_tiles: %s: %s\n", what, hurray_error_message());
    exit(EXIT_FAILURE);
}

static uint8_t pixel(uint64_t y, uint64_t x, uint64_t channel) {
    return (uint8_t)(y * 7 + x * 3 + channel * 80);
}

/* A uint8 tensor [HEIGHT, WIDTH, 3], row after row, in new memory. */
static HurrayTensor *make_image(void) {
    HurrayBuffer *buffer;
    check(hurray_buffer_allocate(HEIGHT * WIDTH * CHANNELS, false, NULL, &buffer), "allocate");
    uint8_t *bytes = (uint8_t *)hurray_buffer_info(buffer)->data;
    for (uint64_t y = 0; y < HEIGHT; y++) {
        for (uint64_t x = 0; x < WIDTH; x++) {
            for (uint64_t c = 0; c < CHANNELS; c++) *bytes++ = pixel(y, x, c);
        }
    }

    const uint64_t shape[] = {HEIGHT, WIDTH, CHANNELS};
    const HurrayDescriptorFields fields = {
        .type_tag = HURRAY_TYPE_UINT8,
        .rank = 3,
        .shape = shape,
        .layout = {.tag = HURRAY_LAYOUT_ROW_MAJOR},
        .buffer_count = 1,
    };
    HurrayTensor *image;
    check(hurray_tensor_create(&fields, &buffer, &image), "tensor"); /* owns the buffer now */
    return image;
}

static void describe(const char *name, const HurrayTensor *tensor) {
    const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
    printf("%s: %s, %" PRIu64 " bytes\n", name,
           hurray_layout_name(hurray_tensor_fields(tensor)->layout.tag), info->byte_size);
}

/* Where a pixel lies in a tensor of any dense layout. */
static const uint8_t *find(const HurrayTensor *tensor, uint64_t y, uint64_t x) {
    const HurrayDescriptorFields *fields = hurray_tensor_fields(tensor);
    const uint64_t index[] = {y, x, 0};
    int64_t offset;
    HurrayElementPlace place;
    check(hurray_address_offset(fields, index, &offset), "offset");
    check(hurray_address_place(fields, offset, &place), "place");
    printf("  pixel [%" PRIu64 ", %" PRIu64 "] lies at byte %" PRIu64 "\n", y, x, place.byte);
    const HurrayBufferInfo *info = hurray_buffer_info(hurray_tensor_buffer(tensor, 0));
    return (const uint8_t *)info->data + place.byte;
}

int main(void) {
    HurrayTensor *image = make_image();
    describe("image", image);
    find(image, 0, 64);

    /* Tiles lie row after row, and so do the pixels in each; the channels of a pixel together. */
    const uint64_t tile_shape[] = {TILE, TILE, CHANNELS};
    const HurrayTileLevel level = {
        .tile_shape = tile_shape,
        .outer_layout = HURRAY_LAYOUT_ROW_MAJOR,
        .inner_layout = HURRAY_LAYOUT_ROW_MAJOR,
    };
    const HurrayLayout tiles = {.tag = HURRAY_LAYOUT_TILED,
                                .tiled = {.level_count = 1, .levels = &level}};
    HurrayTensor *tiled;
    check(hurray_tensor_to_layout(image, &tiles, NULL, &tiled), "to tiles");
    describe("tiles", tiled);
    const uint8_t *rgb = find(tiled, 0, 64); /* the first pixel of the second tile */
    bool same = rgb[0] == pixel(0, 64, 0) && rgb[1] == pixel(0, 64, 1) && rgb[2] == pixel(0, 64, 2);

    const HurrayLayout rows = {.tag = HURRAY_LAYOUT_ROW_MAJOR};
    HurrayTensor *back;
    check(hurray_tensor_to_layout(tiled, &rows, NULL, &back), "to rows");
    describe("back", back);
    same = same && memcmp(hurray_tensor_data(back), hurray_tensor_data(image),
                          HEIGHT * WIDTH * CHANNELS) == 0;
    printf("the pixels are %s\n", same ? "the same" : "DIFFERENT");

    hurray_tensor_release(back);
    hurray_tensor_release(tiled);
    hurray_tensor_release(image);
    return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
