/*
 * Tensors one after another (spec 5): descriptor, buffers, descriptor, … without header, padding or
 * end mark. Descriptor and buffers of a tensor are written together, from where they are.
 *
 * A composite is its head, then its members, in the order of hurray_composite_validator.
 */
#ifndef HURRAY_STREAM_WRITER_H
#define HURRAY_STREAM_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "descriptor.h"
#include "io.h"
#include "status.h"
#include "tensor.h"

HURRAY_BEGIN_DECLS

typedef struct HurrayStreamWriter HurrayStreamWriter;

/* Zero is the default for all. */
typedef struct HurrayStreamWriterOptions {
    /* The reader is on another machine: refuse buffers that are not producer_synced. */
    bool cross_machine;
} HurrayStreamWriterOptions;

/* `sink` is copied. */
HURRAY_API HurrayStatus hurray_stream_writer_create(const HurraySink *sink,
                                                    const HurrayStreamWriterOptions *options,
                                                    HurrayStreamWriter **out);
/* Frees it and nulls the pointer; a pointer to NULL is fine. */
HURRAY_API HurrayStatus hurray_stream_writer_destroy(HurrayStreamWriter **writer);

/*
 * Writes a tensor, whose bytes must be readable or staged on the host (HURRAY_ERR_UNSUPPORTED, and
 * for a layout tag that is not assigned; HURRAY_ERR_INVALID_SYNC_MODE with `cross_machine`).
 * HURRAY_ERR_INTERNAL for a member that breaks a rule of its composite, HURRAY_ERR_CLOSED after
 * finish. What is refused leaves the writer as it was; after a failure of the sink, and after a
 * member was refused by its composite, whose head is out, the writer only says so again.
 */
HURRAY_API HurrayStatus hurray_stream_writer_write(HurrayStreamWriter *writer,
                                                   const HurrayTensor *tensor);
/* Writes the head of a composite; its members are to follow. */
HURRAY_API HurrayStatus hurray_stream_writer_write_head(HurrayStreamWriter *writer,
                                                        const HurrayDescriptorFields *head);
/* Bytes written so far. */
HURRAY_API uint64_t hurray_stream_writer_position(const HurrayStreamWriter *writer);
/* No more will be written. HURRAY_ERR_INTERNAL inside a composite; a second time is fine. */
HURRAY_API HurrayStatus hurray_stream_writer_finish(HurrayStreamWriter *writer);

HURRAY_END_DECLS

#endif
