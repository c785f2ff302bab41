/*
 * The parts of sparse conversions, in the order in which elements pass through them.
 *
 * tuples.c           what any sparse tensor stores, as index tuples, a few at a time; indices and
 *                    pointers are checked there, and nowhere else
 * sparse_scan.c      what a dense tensor would store
 * sparse_sort.c      tuples into the order of another layout
 * sparse_build.c     tuples, and values, into the buffers of a layout
 * convert_sparse.c   the conversions made of these
 *
 * "Level" counts in the order in which a layout sorts, level 0 first: COO and CSR by dimension 0,
 * CSC by dimension 1, CSF by mode_order[0]. Values are whole bytes here; packed ones take a byte
 * each.
 */
#ifndef HURRAY_SRC_CONVERT_SPARSE_H
#define HURRAY_SRC_CONVERT_SPARSE_H

#include <hurray/descriptor_fields.h>
#include <hurray/sparse.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which dimension each level of a sparse layout stores. */
void hri_sparse_dimensions(const HurrayLayout *layout, uint32_t rank, uint32_t *dimensions);

/* ---- tuples.c ---- */

/* Tuples are read in blocks that stay in the first cache. */
#define HRI_TUPLE_ENTRIES 1024u

typedef struct Keyed Keyed;
typedef struct TupleOrder TupleOrder;

/*
 * Reads the tuples of a sparse tensor in the order of its values. After hri_tuples_next, `count` of
 * them, or none at the end, lie in `tuples`, each u64[rank] by dimension, for the values from
 * `first` on; all are in bounds.
 */
typedef struct TupleReader {
    const HurrayDescriptorFields *fields;
    const HurrayBytes *buffers;
    const TupleOrder *order; /* of sorted tuples, in `keyed`; NULL where they come from buffers */
    const Keyed *keyed;
    uint64_t first;
    size_t count;
    uint64_t position; /* of the value after these */

    /* Trees: CSR, CSC, CSF. At each level, the entry that comes next, and its siblings. */
    uint32_t dimensions[HURRAY_MAX_RANK];
    uint64_t begin[HURRAY_MAX_RANK];
    uint64_t place[HURRAY_MAX_RANK];
    uint64_t end[HURRAY_MAX_RANK];
    uint64_t current[HURRAY_MAX_RANK]; /* the tuple being read, by dimension */

    uint64_t tuples[HRI_TUPLE_ENTRIES];
} TupleReader;

HurrayStatus hri_tuples_begin(TupleReader *reader, const HurrayDescriptorFields *fields,
                              const HurrayBytes *buffers);
HurrayStatus hri_tuples_next(TupleReader *reader);

/* ---- sparse_sort.c ---- */

struct Keyed {
    uint64_t key;
    uint64_t position;
};

/*
 * How a tuple becomes a number that sorts as a layout does. Where the bits of all coordinates fit,
 * they lie side by side; otherwise the number is the position in the dense tensor, which always
 * fits, but takes divisions to undo.
 */
struct TupleOrder {
    uint32_t rank;
    uint32_t key_bits; /* a key is less than 2^key_bits */
    bool is_by_bits;
    uint32_t dimensions[HURRAY_MAX_RANK]; /* by level */
    uint64_t extents[HURRAY_MAX_RANK];    /* by level */
    uint32_t shifts[HURRAY_MAX_RANK];     /* by level */
    uint64_t masks[HURRAY_MAX_RANK];      /* by level */
};

void hri_order_init(TupleOrder *order, const HurrayDescriptorFields *fields,
                    const uint32_t *dimensions);
/* The tuple of a key, by dimension. */
void hri_order_decode(const TupleOrder *order, uint64_t key, uint64_t *tuple);

/*
 * Sorts by key, stable, with scratch of the same size; keys are less than 2^key_bits. Returns where
 * the result is, one of the two.
 */
Keyed *hri_sort_keyed(Keyed *items, Keyed *scratch, size_t count, uint32_t key_bits);

/*
 * Reads all tuples and sorts them. *out is to be freed. Fails for duplicates, naming the values.
 */
HurrayStatus hri_sort_tuples(const HurrayDescriptorFields *fields, const HurrayBytes *buffers,
                             const TupleOrder *order, Keyed **out);

/* The failure for two values with one index. */
HurrayStatus hri_fail_duplicate(const HurrayDescriptorFields *fields, uint64_t position,
                                uint64_t other, const uint64_t *tuple);

/*
 * Looks at tuples as they come: whether they are in the order of the levels, and whether they keep
 * what the source promises. It also counts the entries that each level of a tree has if they are.
 */
typedef struct TupleExamination {
    const HurrayDescriptorFields *fields;
    const uint32_t *dimensions;
    bool must_be_sorted; /* a COO tensor that says so */
    bool is_in_order;    /* so far */
    bool has_previous;
    uint64_t previous[HURRAY_MAX_RANK];
    uint64_t level_counts[HURRAY_MAX_RANK];
} TupleExamination;

void hri_examination_init(TupleExamination *examination, const HurrayDescriptorFields *fields,
                          const uint32_t *dimensions);
HurrayStatus hri_examine(TupleExamination *examination, const TupleReader *reader);

/* ---- sparse_scan.c ---- */

/* What a dense tensor stores, as an unsorted COO tensor. */
typedef struct ScannedElements {
    uint64_t nnz;
    uint64_t capacity;
    uint8_t *indices; /* u64 little-endian, nnz * rank */
    uint8_t *values;  /* nnz * value_bytes */
} ScannedElements;

/* In the order of memory; `dimensions`, by level, decides between equals. Both blocks are malloc's;
 * on failure nothing is left behind. */
HurrayStatus hri_scan_dense(const HurrayDescriptorFields *fields, const uint8_t *data,
                            HurrayPacking packing, const uint32_t *dimensions,
                            ScannedElements *out);

/* ---- sparse_build.c ---- */

/* Buffers under construction. */
typedef struct SparseBuilder {
    const HurrayDescriptorFields *fields; /* of the source: rank and shape */
    const HurrayLayout *layout;           /* of the result */
    uint32_t dimensions[HURRAY_MAX_RANK];
    const uint64_t *level_counts; /* CSF: entries of each level */
    void *const *destinations;
    size_t value_bytes;
    const uint8_t *values; /* of the source */
    uint8_t *built;        /* of the result */
} SparseBuilder;

/* Indices and pointers from tuples that come in order; *reader stands at the beginning. */
HurrayStatus hri_build_in_order(const SparseBuilder *builder, TupleReader *reader);

/* Values in the order of sorted tuples. */
void hri_gather_values(const SparseBuilder *builder, const Keyed *sorted);

/* CSR or CSC, values and all, from tuples in any order, by counting. The bits of both coordinates
 * together are less than 64. */
HurrayStatus hri_build_compressed(const SparseBuilder *builder, const HurrayBytes *buffers);

#endif
