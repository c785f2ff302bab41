/*
 * Block-paged (spec 2.9), the cache of keys and values of a language model: the tokens of each
 * sequence lie in pages of a pool, in the order of its entries in a block table. The size of the
 * pool follows from num_pages, not from the number of tokens, which may be 0 or unknown.
 */
#include <inttypes.h>

#include "checked.h"
#include "fail.h"
#include "layout.h"

static HurrayStatus decode(ByteReader *reader, uint32_t rank, Arena *arena, HurrayLayout *out) {
    (void)rank, (void)arena;
    HurrayBlockPagedLayout *paged = &out->paged;
    paged->page_size = read_u32(reader);
    paged->num_pages = read_u64(reader);
    paged->paged_axis = read_u32(reader);
    paged->num_seqs = read_u32(reader);
    paged->kv_role = read_u8(reader);
    paged->layer_index = read_u32(reader);
    uint8_t index_type = read_u8(reader);
    bool reserved_is_zero = read_zeros(reader, 6);
    if (reader->failed) return HURRAY_OK;
    if (index_type > 1) {
        return hri_fail(
            HURRAY_ERR_INVALID_LAYOUT,
            "block_paged layout: block_table_index_type is %u; expected 0 (u32) or 1 (u64)",
            index_type);
    }
    if (!reserved_is_zero) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "block_paged layout: the 6 reserved bytes are not all 0");
    }
    paged->wide_indices = index_type == 1;
    return HURRAY_OK;
}

static void encode(const HurrayLayout *layout, uint32_t rank, ByteWriter *writer) {
    (void)rank;
    const HurrayBlockPagedLayout *paged = &layout->paged;
    write_u32(writer, paged->page_size);
    write_u64(writer, paged->num_pages);
    write_u32(writer, paged->paged_axis);
    write_u32(writer, paged->num_seqs);
    write_u8(writer, paged->kv_role);
    write_u32(writer, paged->layer_index);
    write_u8(writer, paged->wide_indices);
    write_zeros(writer, 6);
}

static HurrayStatus check_fields(const HurrayDescriptorFields *fields) {
    const HurrayBlockPagedLayout *paged = &fields->layout.paged;
    if (paged->page_size == 0) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "block_paged layout: page_size is 0; expected at least 1");
    }
    if (paged->paged_axis != 0) {
        return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                        "block_paged layout: paged_axis is %" PRIu32 "; expected 0",
                        paged->paged_axis);
    }
    if (paged->kv_role > HURRAY_KV_FUSED) {
        return hri_fail(
            HURRAY_ERR_INVALID_LAYOUT,
            "block_paged layout: kv_role is %u; expected 0 (key), 1 (value) or 2 (fused)",
            paged->kv_role);
    }
    return HURRAY_OK;
}

static bool equal(const HurrayLayout *a, const HurrayLayout *b, uint32_t rank) {
    (void)rank;
    const HurrayBlockPagedLayout *x = &a->paged, *y = &b->paged;
    return x->page_size == y->page_size && x->num_pages == y->num_pages &&
           x->paged_axis == y->paged_axis && x->num_seqs == y->num_seqs &&
           x->kv_role == y->kv_role && x->layer_index == y->layer_index &&
           x->wide_indices == y->wide_indices;
}

/* Elements of the pool, also of an empty tensor. The slots must be countable whatever a slot
 * holds. */
static bool count_pool(const HurrayDescriptorFields *fields, uint64_t *out) {
    const HurrayBlockPagedLayout *paged = &fields->layout.paged;
    uint64_t heads = fields->shape[1], head_dim = fields->shape[2], slots, count;
    if (!checked_mul_u64(paged->num_pages, paged->page_size, &slots)) return false;
    *out = 0;
    if (heads == 0 || head_dim == 0 || hurray_shape_is_dynamic(fields->shape + 1, 2)) return true;
    return checked_mul_u64(slots, heads, &count) && checked_mul_u64(count, head_dim, out);
}

/* Bytes of the pool; 0 where a dynamic number of heads, or of their elements, leaves them
 * unknown. */
static HurrayStatus pool_bytes(const HurrayDescriptorFields *fields, HurrayPacking packing,
                               uint64_t *out) {
    uint64_t count;
    if (count_pool(fields, &count) && hurray_packing_size(packing, count, out) == HURRAY_OK) {
        return HURRAY_OK;
    }
    return hri_fail(HURRAY_ERR_INVALID_LAYOUT,
                    "block_paged layout: a page_pool of num_pages %" PRIu64
                    ", each page_size %" PRIu32 " x %" PRIu64 " x %" PRIu64
                    " elements, takes 2^64 bytes or more",
                    fields->layout.paged.num_pages, fields->layout.paged.page_size,
                    fields->shape[1], fields->shape[2]);
}

/* How much of the block table is in use is written in seq_ptr, which is data. */
static HurrayStatus required_bytes(const HurrayDescriptorFields *fields, HurrayPacking packing,
                                   uint64_t *out) {
    const HurrayBlockPagedLayout *paged = &fields->layout.paged;
    out[1] = 0;
    out[2] = ((uint64_t)paged->num_seqs + 1) * (paged->wide_indices ? 8 : 4);
    return pool_bytes(fields, packing, &out[0]);
}

static const char *const roles[] = {"page_pool", "block_table", "seq_ptr"};

const LayoutKind hri_layout_block_paged = {
    .tag = HURRAY_LAYOUT_BLOCK_PAGED,
    .name = "block_paged",
    .layout_class = HURRAY_LAYOUT_CLASS_INDIRECT,
    .min_rank = 3,
    .max_rank = 3,
    .buffer_count = 3,
    .offset_is_zero = true,
    .no_shard = true,
    .decode = decode,
    .encode = encode,
    .check_fields = check_fields,
    .equal = equal,
    .buffer_roles = roles,
    .required_bytes = required_bytes,
};
