/*
 * The wire form and the rules of the optional sections, for the descriptor. Encoders write the
 * section as spec 1.7 lays it out; decoders check lengths and reserved bytes, the `check` functions
 * everything else.
 */
#ifndef HURRAY_SRC_SECTIONS_H
#define HURRAY_SRC_SECTIONS_H

#include <hurray/descriptor_fields.h>
#include <hurray/sections.h>

#include "bytes.h"

/* u64[rank] each, into arrays of the caller's; `out` then points at them. */
HurrayStatus hri_shard_decode(ByteReader *reader, uint32_t rank, uint64_t *parent_shape,
                              uint64_t *shard_offset, HurrayShard *out);
void hri_shard_encode(const HurrayShard *shard, uint32_t rank, ByteWriter *writer);
/* Boxes in bounds, no dynamic extent anywhere. */
HurrayStatus hri_shard_check(const HurrayShard *shard, uint32_t rank, const uint64_t *shape);

HurrayStatus hri_statistics_decode(ByteReader *reader, HurrayStatistics *out);
void hri_statistics_encode(const HurrayStatistics *statistics, ByteWriter *writer);

HurrayStatus hri_extension_type_decode(ByteReader *reader, HurrayExtensionType *out);
void hri_extension_type_encode(const HurrayExtensionType *type, ByteWriter *writer);

HurrayStatus hri_member_decode(ByteReader *reader, HurrayCompositeMember *out);
void hri_member_encode(const HurrayCompositeMember *member, ByteWriter *writer);
HurrayStatus hri_member_check(const HurrayCompositeMember *member);

/* Same bytes when encoded: floats compare by their bits. */
bool hri_shard_equal(const HurrayShard *a, const HurrayShard *b, uint32_t rank);
bool hri_statistics_equal(const HurrayStatistics *a, const HurrayStatistics *b);
bool hri_extension_type_equal(const HurrayExtensionType *a, const HurrayExtensionType *b);

#endif
