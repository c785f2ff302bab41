/*
 * The stream reader (include/hurray/stream_reader.h): drives the decoder from a source.
 *
 * A source gives what is there and waits for the first byte only, so asking for more than is needed
 * makes nobody wait. Small parts therefore come through a buffer, many to a call; what is left of a
 * large one goes straight into its place.
 */
#include <hurray/stream_reader.h>

#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "stream_failure.h"

/* Bytes read ahead at most; from half of that on, reading in place saves more than it costs. */
#define AHEAD (64u << 10)

struct HurrayStreamReader {
    HurraySource source;
    HurrayStreamDecoder *decoder;
    StreamFailure failure;
    bool ended;
    size_t start; /* bytes start … end - 1 of `ahead` are still to be decoded */
    size_t end;
    uint8_t ahead[AHEAD];
};

HurrayStatus hurray_stream_reader_create(const HurraySource *source,
                                         const HurrayStreamOptions *options,
                                         HurrayStreamReader **out) {
    if (source == NULL || out == NULL) return hri_fail_null(out == NULL ? "out" : "source");
    if (source->read == NULL) return hri_fail_null("source->read");
    HurrayStreamReader *reader = malloc(sizeof *reader);
    if (reader == NULL) return hri_fail_memory(sizeof *reader);
    reader->source = *source;
    reader->failure.status = HURRAY_OK;
    reader->ended = false;
    reader->start = reader->end = 0;
    HurrayStatus status = hurray_stream_decoder_create(options, &reader->decoder);
    if (status != HURRAY_OK) {
        free(reader);
        return status;
    }
    *out = reader;
    return HURRAY_OK;
}

HurrayStatus hurray_stream_reader_destroy(HurrayStreamReader **reader) {
    if (reader == NULL) return hri_fail_null("reader");
    if (*reader == NULL) return HURRAY_OK;
    hurray_stream_decoder_destroy(&(*reader)->decoder);
    free(*reader);
    *reader = NULL;
    return HURRAY_OK;
}

uint64_t hurray_stream_reader_position(const HurrayStreamReader *reader) {
    return reader == NULL ? 0 : hurray_stream_decoder_position(reader->decoder);
}

static HurrayStatus read_source(HurrayStreamReader *reader, uint8_t *bytes, size_t size,
                                size_t *out_read) {
    HurrayStatus status = reader->source.read(bytes, size, out_read, reader->source.context);
    if (status == HURRAY_OK && *out_read > size) {
        return hri_fail(HURRAY_ERR_INVALID_ARGUMENT,
                        "the source says that it read %zu bytes where there was room for %zu",
                        *out_read, size);
    }
    return status;
}

/* Nothing is ahead: reads once, into place or ahead. `out` is a part that the bytes completed. */
static HurrayStatus read_more(HurrayStreamReader *reader, HurrayStreamPart *out) {
    uint8_t *space;
    size_t size, got = 0;
    HurrayStatus status = hurray_stream_decoder_space(reader->decoder, &space, &size);
    if (status != HURRAY_OK) return status;
    bool in_place = size >= AHEAD / 2;
    status = in_place ? read_source(reader, space, size, &got)
                      : read_source(reader, reader->ahead, AHEAD, &got);
    if (status != HURRAY_OK) return status;
    if (got == 0) {
        status = hurray_stream_decoder_finish(reader->decoder);
        if (status != HURRAY_OK) return status;
        reader->ended = true;
    } else if (in_place) {
        return hurray_stream_decoder_advance(reader->decoder, got, out);
    }
    reader->start = 0;
    reader->end = got;
    return HURRAY_OK;
}

static HurrayStatus next_part(HurrayStreamReader *reader, HurrayStreamPart *out) {
    while (out->kind == HURRAY_STREAM_MORE) {
        HurrayStatus status;
        if (reader->ended) {
            out->kind = HURRAY_STREAM_END;
            return HURRAY_OK;
        }
        if (reader->start == reader->end) {
            status = read_more(reader, out);
        } else {
            size_t used = 0;
            status = hurray_stream_decoder_push(reader->decoder, reader->ahead + reader->start,
                                                reader->end - reader->start, &used, out);
            reader->start += used;
        }
        if (status != HURRAY_OK) return status;
    }
    return HURRAY_OK;
}

HurrayStatus hurray_stream_reader_next(HurrayStreamReader *reader, HurrayStreamPart *out) {
    if (reader == NULL || out == NULL) return hri_fail_null(out == NULL ? "out" : "reader");
    HurrayStatus status = repeat_failure(&reader->failure);
    if (status != HURRAY_OK) return status;
    HurrayStreamPart part = {HURRAY_STREAM_MORE, NULL, NULL, 0, false};
    status = next_part(reader, &part);
    if (status == HURRAY_OK) {
        *out = part;
    } else if (status != HURRAY_ERR_INTERRUPTED) { /* nothing was lost */
        keep_failure(&reader->failure, status);
    }
    return status;
}
