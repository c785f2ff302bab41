/*
 * Tensors out of a stream (spec 5), in two storeys.
 *
 * The decoder does no I/O: it says where the next bytes go, is told how many came, and says what
 * they completed. It serves callbacks, an event loop and a fuzzer alike:
 *
 *     for (;;) {
 *         uint8_t *space;
 *         size_t size;
 *         hurray_stream_decoder_space(decoder, &space, &size);
 *         size_t got = …read 1 … size bytes into space, or…
 *             if the input has ended: return hurray_stream_decoder_finish(decoder);
 *         hurray_stream_decoder_advance(decoder, got, &part);
 *         if (part.kind != HURRAY_STREAM_MORE) … a tensor or a head is there
 *     }
 *
 * The reader drives it from a HurraySource, reading ahead what is there so that small tensors do not
 * cost a system call each.
 *
 * Buffers are 64-aligned (4096 from a page up) and in host memory, whatever the descriptor said of
 * the producer's: tensors are on the CPU, producer_synced (spec 1.5). Limits are checked before
 * anything is allocated, and a declared size above 64 MiB is never trusted with more memory than
 * about twice what has arrived.
 */
#ifndef HURRAY_STREAM_READER_H
#define HURRAY_STREAM_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "composite.h"
#include "descriptor.h"
#include "io.h"
#include "memory.h"
#include "status.h"
#include "tensor.h"

HURRAY_BEGIN_DECLS

#define HURRAY_STREAM_MAX_DESCRIPTOR_BYTES (16u << 20)

/* NULL instead: the defaults, which hurray_stream_options_init writes. */
typedef struct HurrayStreamOptions {
    uint64_t max_descriptor_bytes;    /* 16 MiB */
    uint64_t max_buffer_bytes;        /* of one buffer; UINT64_MAX */
    uint32_t max_composite_depth;     /* 0 … 8; 8 */
    bool cross_machine;               /* refuse handles that are not producer_synced */
    HurrayDecodeOptions decode;       /* known_layout_ids must outlive the decoder */
    const HurrayAllocator *allocator; /* NULL: the default one; copied */
} HurrayStreamOptions;

HURRAY_API void hurray_stream_options_init(HurrayStreamOptions *out);

typedef enum HurrayStreamPartKind {
    HURRAY_STREAM_MORE,   /* nothing is complete yet */
    HURRAY_STREAM_TENSOR, /* a tensor, perhaps a member of a composite */
    HURRAY_STREAM_HEAD,   /* the head of a composite; members follow, unless it has none */
    HURRAY_STREAM_END     /* of the reader only: the clean end */
} HurrayStreamPartKind;

typedef struct HurrayStreamPart {
    HurrayStreamPartKind kind;
    HurrayTensor *tensor;   /* of a tensor: the caller's to release */
    HurrayDescriptor *head; /* of a head: the caller's to destroy */
    uint32_t depth;         /* heads that are open around it, itself not counted */
    bool item_complete;     /* with this part the item, composite or tensor, is whole */
} HurrayStreamPart;

typedef struct HurrayStreamDecoder HurrayStreamDecoder;

HURRAY_API HurrayStatus hurray_stream_decoder_create(const HurrayStreamOptions *options,
                                                     HurrayStreamDecoder **out);
/* Frees it and nulls the pointer; a pointer to NULL is fine. */
HURRAY_API HurrayStatus hurray_stream_decoder_destroy(HurrayStreamDecoder **decoder);
/* Where the next bytes go, 1 … SIZE_MAX: never more than what the part being read still needs.
 * HURRAY_ERR_OUT_OF_MEMORY. */
HURRAY_API HurrayStatus hurray_stream_decoder_space(HurrayStreamDecoder *decoder, uint8_t **out,
                                                    size_t *out_size);
/*
 * `size` bytes are there. At most one part is complete. HURRAY_ERR_STREAM_INVALID for a limit, and
 * for a layout tag that is not assigned, which a permissive decoder would pass; what decoding gives
 * for a broken descriptor; HURRAY_ERR_INTERNAL for a broken composite, HURRAY_ERR_INVALID_SYNC_MODE
 * with `cross_machine`. All say where: item and part (within a composite) count from 0, and at
 * which byte the descriptor begins. After an error the decoder only says so again.
 */
HURRAY_API HurrayStatus hurray_stream_decoder_advance(HurrayStreamDecoder *decoder, size_t size,
                                                      HurrayStreamPart *out);
/* The same for bytes that are elsewhere, copied; stops where a part is complete. */
HURRAY_API HurrayStatus hurray_stream_decoder_push(HurrayStreamDecoder *decoder,
                                                   const uint8_t *bytes, size_t size,
                                                   size_t *out_used, HurrayStreamPart *out);
/* The input has ended: fine between items, else HURRAY_ERR_STREAM_INVALID saying at which byte, in
 * which item and part, and how many bytes are missing. */
HURRAY_API HurrayStatus hurray_stream_decoder_finish(const HurrayStreamDecoder *decoder);
/* Bytes taken so far. */
HURRAY_API uint64_t hurray_stream_decoder_position(const HurrayStreamDecoder *decoder);
/* Items completed so far. */
HURRAY_API uint64_t hurray_stream_decoder_items(const HurrayStreamDecoder *decoder);

typedef struct HurrayStreamReader HurrayStreamReader;

/* `source` is copied. */
HURRAY_API HurrayStatus hurray_stream_reader_create(const HurraySource *source,
                                                    const HurrayStreamOptions *options,
                                                    HurrayStreamReader **out);
HURRAY_API HurrayStatus hurray_stream_reader_destroy(HurrayStreamReader **reader);
/* The next tensor or head, or the end; waits for no byte that it does not need. After the end or an
 * error it gives the same again. HURRAY_ERR_INTERRUPTED may be tried again. */
HURRAY_API HurrayStatus hurray_stream_reader_next(HurrayStreamReader *reader,
                                                  HurrayStreamPart *out);
HURRAY_API uint64_t hurray_stream_reader_position(const HurrayStreamReader *reader);

HURRAY_END_DECLS

#endif
