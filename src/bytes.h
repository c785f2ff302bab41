/*
 * Little-endian reading and writing, byte by byte: right on every host and at every address.
 *
 * ByteReader is a cursor over bytes from outside. Reading past the end gives zero and sets `failed`,
 * which the caller looks at once, at the end of a part; nothing outside is ever touched. ByteWriter
 * counts what is put into it, stores it where it has a place to, and hashes it where it has a hash.
 */
#ifndef HURRAY_SRC_BYTES_H
#define HURRAY_SRC_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t load_u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

static inline uint32_t load_u32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t load_u64(const uint8_t *p) {
    return (uint64_t)load_u32(p) | (uint64_t)load_u32(p + 4) << 32;
}

static inline void store_u32(uint8_t *p, uint32_t value) {
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
    p[2] = (uint8_t)(value >> 16);
    p[3] = (uint8_t)(value >> 24);
}

static inline void store_u64(uint8_t *p, uint64_t value) {
    store_u32(p, (uint32_t)value);
    store_u32(p + 4, (uint32_t)(value >> 32));
}

/* ---- reading ---- */

typedef struct ByteReader {
    const uint8_t *bytes;
    size_t length;
    size_t position;
    bool failed; /* something was read past the end */
} ByteReader;

static inline size_t reader_left(const ByteReader *reader) {
    return reader->length - reader->position;
}

/* The next `count` bytes in place; NULL, and `failed`, when there are fewer. */
static inline const uint8_t *read_bytes(ByteReader *reader, size_t count) {
    if (count > reader_left(reader)) {
        reader->failed = true;
        reader->position = reader->length;
        return NULL;
    }
    const uint8_t *p = reader->bytes + reader->position;
    reader->position += count;
    return p;
}

static inline uint8_t read_u8(ByteReader *reader) {
    const uint8_t *p = read_bytes(reader, 1);
    return p == NULL ? 0 : *p;
}

static inline uint16_t read_u16(ByteReader *reader) {
    const uint8_t *p = read_bytes(reader, 2);
    return p == NULL ? 0 : load_u16(p);
}

static inline uint32_t read_u32(ByteReader *reader) {
    const uint8_t *p = read_bytes(reader, 4);
    return p == NULL ? 0 : load_u32(p);
}

static inline uint64_t read_u64(ByteReader *reader) {
    const uint8_t *p = read_bytes(reader, 8);
    return p == NULL ? 0 : load_u64(p);
}

static inline int32_t read_i32(ByteReader *reader) {
    uint32_t bits = read_u32(reader);
    int32_t value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Floats are read into their place, and written from it, as bits: passed by value, they may go
 * through an x87 register, which turns a signalling NaN into a quiet one. */
static inline void read_f32(ByteReader *reader, float *out) {
    uint32_t bits = read_u32(reader);
    memcpy(out, &bits, sizeof bits);
}

static inline void read_f64(ByteReader *reader, double *out) {
    uint64_t bits = read_u64(reader);
    memcpy(out, &bits, sizeof bits);
}

/* Whether the next `count` bytes are all zero, as reserved bytes must be; false at the end, too. */
static inline bool read_zeros(ByteReader *reader, size_t count) {
    const uint8_t *p = read_bytes(reader, count);
    if (p == NULL) return false;
    uint8_t any = 0;
    for (size_t i = 0; i < count; i++) any |= p[i];
    return any == 0;
}

/* ---- writing ---- */

typedef struct ByteWriter {
    uint8_t *bytes;    /* NULL: only count */
    size_t capacity;   /* what does not fit is counted, not stored */
    uint64_t position; /* may count beyond what a 32-bit host can hold */
    uint64_t hash;     /* FNV-1a of what was written, from the offset basis on; 0: not hashed */
} ByteWriter;

static inline void write_bytes(ByteWriter *writer, const void *source, size_t count) {
    if (writer->bytes != NULL && count != 0 && writer->position <= writer->capacity &&
        count <= writer->capacity - writer->position) {
        memcpy(writer->bytes + (size_t)writer->position, source, count);
    }
    if (writer->hash != 0) {
        for (size_t i = 0; i < count; i++) {
            writer->hash = (writer->hash ^ ((const uint8_t *)source)[i]) * UINT64_C(0x100000001B3);
        }
    }
    writer->position += count;
}

static inline void write_u8(ByteWriter *writer, uint8_t value) { write_bytes(writer, &value, 1); }

static inline void write_u16(ByteWriter *writer, uint16_t value) {
    uint8_t raw[2] = {(uint8_t)value, (uint8_t)(value >> 8)};
    write_bytes(writer, raw, sizeof raw);
}

static inline void write_u32(ByteWriter *writer, uint32_t value) {
    uint8_t raw[4];
    store_u32(raw, value);
    write_bytes(writer, raw, sizeof raw);
}

static inline void write_u64(ByteWriter *writer, uint64_t value) {
    uint8_t raw[8];
    store_u64(raw, value);
    write_bytes(writer, raw, sizeof raw);
}

static inline void write_f32(ByteWriter *writer, const float *value) {
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    write_u32(writer, bits);
}

static inline void write_f64(ByteWriter *writer, const double *value) {
    uint64_t bits;
    memcpy(&bits, value, sizeof bits);
    write_u64(writer, bits);
}

static inline void write_zeros(ByteWriter *writer, size_t count) {
    static const uint8_t zeros[16] = {0};
    for (; count > sizeof zeros; count -= sizeof zeros) write_bytes(writer, zeros, sizeof zeros);
    write_bytes(writer, zeros, count);
}

#endif
