/*
 * Verification (src/verify.c): the vectors, sound tensors of every kind, the same with one entry
 * broken, which must be found and named exactly, and small random ones against the rules written
 * out naively. Buffers are mallocs that end where they do, at odd addresses.
 */
#include <dirent.h>
#include <stdio.h>

#include "round_trip.h"

#include <hurray/tensor.h>
#include <hurray/verify.h>

#include "bytes.h"
#include "random.h"

enum {
    MAX_TEST_RANK = 8,
    MAX_BUFFERS = 2 * MAX_TEST_RANK + 1,
    MAX_NNZ = 20000
};

typedef struct Sample {
    HurrayDescriptorFields fields;
    uint64_t shape[MAX_TEST_RANK];
    uint32_t mode_order[MAX_TEST_RANK];
    HurrayQuantization quantization;
    HurrayStatistics statistics;
    HurrayBufferHandle handles[MAX_BUFFERS];
    HurrayBytes buffers[MAX_BUFFERS]; /* one past the block, so that it is not aligned */
    uint8_t *blocks[MAX_BUFFERS];
} Sample;

static uint8_t *give(Sample *sample, uint32_t buffer, uint64_t size) {
    free(sample->blocks[buffer]);
    sample->blocks[buffer] = calloc(1, (size_t)size + 1);
    assert_non_null(sample->blocks[buffer]);
    sample->buffers[buffer] = (HurrayBytes){sample->blocks[buffer] + 1, size};
    sample->handles[buffer] = (HurrayBufferHandle){.byte_size = size, .alignment = 64};
    return sample->blocks[buffer] + 1;
}

static void give_entries(Sample *sample, uint32_t buffer, const uint64_t *entries, uint64_t count) {
    uint8_t *bytes = give(sample, buffer, count * 8);
    for (uint64_t i = 0; i < count; i++) store_u64(bytes + i * 8, entries[i]);
}

static uint64_t get(const Sample *sample, uint32_t buffer, uint64_t at) {
    return load_u64(sample->blocks[buffer] + 1 + at * 8);
}

static void set(Sample *sample, uint32_t buffer, uint64_t at, uint64_t value) {
    store_u64(sample->blocks[buffer] + 1 + at * 8, value);
}

/* A buffer that lost what stands from `count` entries on, so that a sanitizer guards its end. */
static void shorten(Sample *sample, uint32_t buffer, uint64_t count) {
    uint8_t *block = malloc((size_t)count * 8 + 1);
    assert_non_null(block);
    memcpy(block, sample->blocks[buffer], (size_t)count * 8 + 1);
    free(sample->blocks[buffer]);
    sample->blocks[buffer] = block;
    sample->buffers[buffer] = (HurrayBytes){block + 1, count * 8};
    sample->handles[buffer].byte_size = count * 8;
}

static void start(Sample *sample, uint8_t type, uint8_t layout, uint32_t rank) {
    *sample = (Sample){0};
    sample->fields = (HurrayDescriptorFields){
        .type_tag = type,
        .rank = rank,
        .shape = sample->shape,
        .layout = {.tag = layout},
        .buffers = sample->handles,
    };
    expect_ok(hurray_layout_buffer_count(layout, rank, &sample->fields.buffer_count));
}

static void release(Sample *sample) {
    for (uint32_t i = 0; i < MAX_BUFFERS; i++) free(sample->blocks[i]);
    *sample = (Sample){0};
}

static HurrayStatus verify(const Sample *sample, HurrayViolation *out) {
    return hurray_verify(&sample->fields, sample->buffers, sample->fields.buffer_count, out);
}

static void expect_sound(const Sample *sample) {
    HurrayViolation violation = {.position = 77};
    expect_ok(verify(sample, &violation));
    assert_int_equal(violation.position, 77);
    expect_ok(verify(sample, NULL));
}

static void expect_same_violation_at(const HurrayViolation *found, const HurrayViolation *expected,
                                     int line) {
    if (found->kind == expected->kind && found->buffer == expected->buffer &&
        found->position == expected->position && found->found == expected->found &&
        found->expected == expected->expected) {
        return;
    }
    const HurrayViolation *both[2] = {found, expected};
    for (int i = 0; i < 2; i++) {
        print_error("%s %s in buffer %u at %llu: %llu, expected %llu\n", i ? "not" : "found",
                    hurray_violation_name(both[i]->kind), (unsigned)both[i]->buffer,
                    (unsigned long long)both[i]->position, (unsigned long long)both[i]->found,
                    (unsigned long long)both[i]->expected);
    }
    print_error("%s\n", hurray_error_message());
    fail_at(__FILE__, line);
}

static void expect_broken_at(const Sample *sample, HurrayViolationKind kind, uint32_t buffer,
                             uint64_t position, uint64_t found, uint64_t expected, int line) {
    HurrayViolation violation = {0};
    const HurrayViolation wanted = {kind, buffer, position, found, expected};
    expect_failure(HURRAY_ERR_DATA_INVALID, verify(sample, &violation));
    expect_same_violation_at(&violation, &wanted, line);
    expect_failure(HURRAY_ERR_DATA_INVALID, verify(sample, NULL));
}
#define expect_broken(sample, kind, buffer, position, found, expected)                             \
    expect_broken_at((sample), HURRAY_VIOLATION_##kind, (buffer), (position), (found), (expected), \
                     __LINE__)

/* Broken once, and sound again when the entry is what it was. */
#define expect_entry_broken(sample, kind, buffer, at, value, expected)                          \
    do {                                                                                        \
        uint64_t kept_ = get((sample), (buffer), (at));                                         \
        set((sample), (buffer), (at), (value));                                                 \
        expect_broken((sample), kind, (buffer), (at), get((sample), (buffer), (at)), expected); \
        set((sample), (buffer), (at), kept_);                                                   \
    } while (0)

/* ---- vectors ---- */

typedef struct File {
    uint8_t *bytes;
    size_t length;
} File;

static File read_file(const char *directory, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s/%s", getenv("HURRAY_VECTORS"), directory, name);
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    assert_int_equal(fseek(stream, 0, SEEK_END), 0);
    long length = ftell(stream);
    rewind(stream);
    File file = {malloc((size_t)length + 1), (size_t)length};
    assert_non_null(file.bytes);
    assert_int_equal(fread(file.bytes, 1, file.length, stream), file.length);
    fclose(stream);
    return file;
}

/* Verifies a tensor whose buffers lie one after another, each padded to `alignment`; says where
 * they end. */
static HurrayStatus verify_stored(const HurrayDescriptor *descriptor, const uint8_t *bytes,
                                  size_t length, size_t alignment, size_t *out_end,
                                  HurrayViolation *out) {
    const HurrayDescriptorFields *fields = hurray_descriptor_fields(descriptor);
    Sample copies = {0};
    size_t position = 0;
    assert_true(fields->buffer_count <= MAX_BUFFERS);
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        size_t size = (size_t)fields->buffers[i].byte_size;
        position = (position + alignment - 1) / alignment * alignment;
        assert_true(position <= length && size <= length - position);
        memcpy(give(&copies, i, size), bytes + position, size);
        position += size;
    }
    *out_end = position;
    HurrayStatus status = hurray_verify(fields, copies.buffers, fields->buffer_count, out);
    release(&copies);
    return status;
}

/* The first item of a stream that fails, if any. */
static HurrayStatus verify_stream(const char *directory, const char *name, HurrayViolation *out) {
    File file = read_file(directory, name);
    size_t position = 0, end;
    HurrayStatus status = HURRAY_OK;
    while (status == HURRAY_OK && position < file.length) {
        HurrayDescriptor *descriptor = NULL;
        uint32_t length = 0;
        expect_ok(
            hurray_descriptor_decode(file.bytes + position, file.length - position, &descriptor));
        expect_ok(
            hurray_descriptor_peek_length(file.bytes + position, file.length - position, &length));
        position += length;
        status =
            verify_stored(descriptor, file.bytes + position, file.length - position, 1, &end, out);
        position += end;
        hurray_descriptor_destroy(descriptor);
    }
    free(file.bytes);
    return status;
}

/* All tensors of a file container (spec 4), found by its index. */
static uint64_t verify_container(const char *name) {
    File file = read_file("files", name);
    size_t alignment = load_u32(file.bytes + 16);
    size_t at = (size_t)load_u64(file.bytes + file.length - 40), end;
    uint64_t count = load_u64(file.bytes + at);
    at += 8;
    for (uint64_t i = 0; i < count; i++) {
        at += 2u + load_u16(file.bytes + at);
        size_t descriptor_at = (size_t)load_u64(file.bytes + at);
        size_t data_at = (size_t)load_u64(file.bytes + at + 12);
        at += 32;
        HurrayDescriptor *descriptor = NULL;
        expect_ok(hurray_descriptor_decode(file.bytes + descriptor_at, file.length - descriptor_at,
                                           &descriptor));
        expect_ok(verify_stored(descriptor, file.bytes + data_at, file.length - data_at, alignment,
                                &end, NULL));
        hurray_descriptor_destroy(descriptor);
    }
    free(file.bytes);
    return count;
}

static const struct {
    const char *name;
    HurrayViolation violation;
} broken_vectors[] = {
    {"coo_bounds.hrs", {HURRAY_VIOLATION_INDEX_OUT_OF_BOUNDS, 1, 3, 4, 4}},
    {"coo_duplicate.hrs", {HURRAY_VIOLATION_DUPLICATE, 1, 2, 1, 0}},
    {"coo_unsorted.hrs", {HURRAY_VIOLATION_INDEX_ORDER, 1, 2, 0, 2}},
    {"csc_bounds.hrs", {HURRAY_VIOLATION_INDEX_OUT_OF_BOUNDS, 1, 4, 4, 4}},
    {"csf_crd_bounds.hrs", {HURRAY_VIOLATION_INDEX_OUT_OF_BOUNDS, 2, 1, 2, 2}},
    {"csf_crd_order.hrs", {HURRAY_VIOLATION_INDEX_ORDER, 6, 3, 0, 2}},
    {"csf_leaf_count.hrs", {HURRAY_VIOLATION_POINTER_END, 5, 3, 3, 4}},
    {"csf_pos_decreases.hrs", {HURRAY_VIOLATION_POINTER_DECREASES, 3, 2, 2, 3}},
    {"csf_pos_past.hrs", {HURRAY_VIOLATION_POINTER_END, 5, 3, 9, 4}},
    {"csf_pos_start.hrs", {HURRAY_VIOLATION_POINTER_START, 1, 0, 1, 0}},
    {"csr_bounds.hrs", {HURRAY_VIOLATION_INDEX_OUT_OF_BOUNDS, 1, 1, 5, 5}},
    {"csr_order.hrs", {HURRAY_VIOLATION_INDEX_ORDER, 1, 1, 0, 3}},
    {"csr_ptr_decreases.hrs", {HURRAY_VIOLATION_POINTER_DECREASES, 2, 2, 2, 3}},
    {"csr_ptr_end.hrs", {HURRAY_VIOLATION_POINTER_END, 2, 4, 6, 5}},
    {"csr_ptr_huge.hrs", {HURRAY_VIOLATION_POINTER_PAST_END, 2, 1, UINT64_C(1) << 63, 5}},
    {"csr_ptr_start.hrs", {HURRAY_VIOLATION_POINTER_START, 2, 0, 1, 0}},
    {"csr_repeat.hrs", {HURRAY_VIOLATION_INDEX_ORDER, 1, 1, 3, 3}},
    {"e8m0_00.hrs", {HURRAY_VIOLATION_SCALE, 1, 0, 0x00, 0}},
    {"e8m0_ff.hrs", {HURRAY_VIOLATION_SCALE, 1, 1, 0xFF, 0}},
    {"nf4_scale_inf.hrs", {HURRAY_VIOLATION_SCALE, 1, 0, 0x7F800000, 0}},
    {"nf4_scale_negative.hrs", {HURRAY_VIOLATION_SCALE, 1, 0, 0xBF800000, 0}},
    {"paged_page.hrs", {HURRAY_VIOLATION_PAGE_ID, 1, 1, 5, 5}},
    {"paged_seq_decreases.hrs", {HURRAY_VIOLATION_POINTER_DECREASES, 2, 2, 2, 3}},
    {"paged_seq_past.hrs", {HURRAY_VIOLATION_POINTER_PAST_END, 2, 2, 9, 3}},
    {"paged_seq_start.hrs", {HURRAY_VIOLATION_POINTER_START, 2, 0, 1, 0}},
    {"scale_nan.hrs", {HURRAY_VIOLATION_SCALE, 1, 0, 0x7FC0, 0}},
    {"scale_zero.hrs", {HURRAY_VIOLATION_SCALE, 1, 0, 0, 0}},
    {"zero_point_range.hrs", {HURRAY_VIOLATION_ZERO_POINT, 2, 0, 16, 15}},
};

/* Calls `visit` for each file of a directory of vectors; returns how many there are. */
static size_t for_each_file(const char *directory, void (*visit)(const char *name)) {
    char path[1024];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/%s", getenv("HURRAY_VECTORS"), directory);
    DIR *stream = opendir(path);
    assert_non_null(stream);
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        visit(entry->d_name);
        count++;
    }
    closedir(stream);
    return count;
}

static void visit_broken(const char *name) {
    for (size_t i = 0; i < sizeof broken_vectors / sizeof broken_vectors[0]; i++) {
        if (strcmp(broken_vectors[i].name, name) != 0) continue;
        HurrayViolation violation = {0};
        expect_failure(HURRAY_ERR_DATA_INVALID, verify_stream("verify", name, &violation));
        expect_same_violation_at(&violation, &broken_vectors[i].violation, __LINE__);
        return;
    }
    print_error("%s is not in the table\n", name);
    fail_at(__FILE__, __LINE__);
}

static void visit_stream(const char *name) { expect_ok(verify_stream("streams", name, NULL)); }
static void visit_container(const char *name) { verify_container(name); }

static void broken_vectors_are_named(void **state) {
    (void)state;
    assert_int_equal(for_each_file("verify", visit_broken),
                     sizeof broken_vectors / sizeof broken_vectors[0]);
}

static void everything_in_streams_and_files_is_sound(void **state) {
    (void)state;
    assert_true(for_each_file("streams", visit_stream) >= 7);
    assert_true(for_each_file("files", visit_container) >= 9);
    assert_true(verify_container("everything.hrry") >= 20);
}

/* ---- sound tensors with indices ---- */

static uint64_t tuples[MAX_NNZ][MAX_TEST_RANK];

/* A random subset of the indices in `shape`, in the order in which dimensions count in `order`. */
static uint64_t choose_tuples(const uint64_t *shape, uint32_t rank, const uint32_t *order,
                              uint64_t *seed, uint64_t fill, uint64_t limit) {
    uint64_t index[MAX_TEST_RANK] = {0}, nnz = 0;
    for (uint32_t k = 0; k < rank; k++) {
        if (shape[k] == 0) return 0;
    }
    for (bool more = true; more && nnz < limit;) {
        if (random_below(seed, 10) < fill) memcpy(tuples[nnz++], index, sizeof index);
        more = false;
        for (uint32_t level = rank; level-- > 0 && !more;) {
            more = ++index[order[level]] < shape[order[level]];
            if (!more) index[order[level]] = 0;
        }
    }
    return nnz;
}

static void shuffle_tuples(uint64_t nnz, uint64_t *seed) {
    for (uint64_t i = 1; i < nnz; i++) {
        uint64_t other = random_below(seed, i + 1), kept[MAX_TEST_RANK];
        memcpy(kept, tuples[i], sizeof kept);
        memcpy(tuples[i], tuples[other], sizeof kept);
        memcpy(tuples[other], kept, sizeof kept);
    }
}

static void random_shape(Sample *sample, uint64_t *seed, uint64_t largest) {
    for (uint32_t k = 0; k < sample->fields.rank; k++) {
        bool empty = random_below(seed, 20) == 0;
        sample->shape[k] = empty ? 0 : 1 + random_below(seed, largest);
    }
}

static void give_tuples(Sample *sample, uint64_t nnz, bool is_sorted) {
    uint32_t rank = sample->fields.rank;
    uint8_t *bytes = give(sample, 1, nnz * rank * 8);
    for (uint64_t i = 0; i < nnz * rank; i++) store_u64(bytes + i * 8, tuples[i / rank][i % rank]);
    give(sample, 0, nnz);
    sample->fields.layout.sparse = (HurraySparseLayout){.nnz = nnz, .is_sorted = is_sorted};
}

static const uint32_t identity[MAX_TEST_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};

static void make_coo(Sample *sample, uint64_t *seed, uint32_t rank, bool is_sorted) {
    start(sample, HURRAY_TYPE_INT8, HURRAY_LAYOUT_COO, rank);
    random_shape(sample, seed, rank < 3 ? 30 : 5);
    uint64_t nnz =
        choose_tuples(sample->shape, rank, identity, seed, random_below(seed, 11), MAX_NNZ);
    if (!is_sorted) shuffle_tuples(nnz, seed);
    give_tuples(sample, nnz, is_sorted);
}

static uint64_t pointers[MAX_NNZ + 1], coordinates[MAX_NNZ];

static void make_compressed(Sample *sample, uint64_t *seed, uint8_t tag, uint64_t largest) {
    static const uint32_t csc_order[2] = {1, 0};
    bool is_csr = tag == HURRAY_LAYOUT_CSR;
    const uint32_t *order = is_csr ? identity : csc_order;
    start(sample, HURRAY_TYPE_INT8, tag, 2);
    random_shape(sample, seed, largest);
    uint64_t major = sample->shape[order[0]];
    uint64_t nnz = choose_tuples(sample->shape, 2, order, seed, random_below(seed, 11), MAX_NNZ);
    memset(pointers, 0, sizeof pointers);
    for (uint64_t i = 0; i < nnz; i++) {
        pointers[tuples[i][order[0]] + 1]++;
        coordinates[i] = tuples[i][order[1]];
    }
    for (uint64_t r = 0; r < major; r++) pointers[r + 1] += pointers[r];
    give(sample, 0, nnz);
    give_entries(sample, 1, coordinates, nnz);
    give_entries(sample, 2, pointers, major + 1);
    sample->fields.layout.sparse = (HurraySparseLayout){.nnz = nnz};
}

/* The tuples that agree with tuple i in all levels up to this one share an entry of it. */
static bool begins_entry(const uint32_t *order, uint32_t level, uint64_t i) {
    for (uint32_t above = 0; above <= level && i != 0; above++) {
        if (tuples[i][order[above]] != tuples[i - 1][order[above]]) return true;
    }
    return i == 0;
}

static void make_csf(Sample *sample, uint64_t *seed, uint32_t rank) {
    start(sample, HURRAY_TYPE_INT8, HURRAY_LAYOUT_CSF, rank);
    random_shape(sample, seed, 5);
    uint32_t *order = sample->mode_order;
    for (uint32_t k = 0; k < rank; k++) {
        uint32_t other = (uint32_t)random_below(seed, k + 1);
        order[k] = order[other];
        order[other] = k;
    }
    uint64_t nnz = choose_tuples(sample->shape, rank, order, seed, random_below(seed, 11), MAX_NNZ);
    for (uint32_t level = 0; level < rank; level++) {
        uint64_t parents = 0, count = 0;
        for (uint64_t i = 0; i < nnz; i++) {
            if (level == 0 ? i == 0 : begins_entry(order, level - 1, i))
                pointers[parents++] = count;
            if (begins_entry(order, level, i)) coordinates[count++] = tuples[i][order[level]];
        }
        if (level == 0 && nnz == 0) pointers[parents++] = 0;
        pointers[parents] = count;
        give_entries(sample, 2 * level + 1, pointers, parents + 1);
        give_entries(sample, 2 * level + 2, coordinates, count);
    }
    give(sample, 0, nnz);
    sample->fields.layout.sparse = (HurraySparseLayout){.nnz = nnz, .mode_order = order};
}

/* ---- one entry broken ---- */

/* Any value of at least `least`, also very large ones. */
static uint64_t random_from(uint64_t *seed, uint64_t least) {
    switch (random_below(seed, 4)) {
    case 0: return least;
    case 1: return UINT64_MAX;
    case 2: return random_u64(seed) | UINT64_C(1) << 63;
    default: return least + random_below(seed, 100);
    }
}

/* Pointers in `buffer` to at most `limit` entries, exactly if the last must be that. */
static void break_pointers(Sample *sample, uint64_t *seed, uint32_t buffer, uint64_t limit,
                           bool exact) {
    uint64_t last = sample->buffers[buffer].size / 8 - 1;
    expect_entry_broken(sample, POINTER_START, buffer, 0, random_from(seed, 1), 0);
    if (last == 0) return;
    uint64_t at = 1 + random_below(seed, last), before = get(sample, buffer, at - 1);
    if (before != 0) {
        expect_entry_broken(sample, POINTER_DECREASES, buffer, at, random_below(seed, before),
                            before);
    }
    if (at != last) {
        expect_entry_broken(sample, POINTER_PAST_END, buffer, at, random_from(seed, limit + 1),
                            limit);
    }
    uint64_t beyond = random_from(seed, limit + 1);
    if (exact) {
        expect_entry_broken(sample, POINTER_END, buffer, last, beyond, limit);
        uint64_t least = get(sample, buffer, last - 1);
        if (least < limit) {
            uint64_t value = least + random_below(seed, limit - least);
            expect_entry_broken(sample, POINTER_END, buffer, last, value, limit);
        }
    } else {
        expect_entry_broken(sample, POINTER_PAST_END, buffer, last, beyond, limit);
    }
}

/* Coordinates in slices. */
static void break_coordinates(Sample *sample, uint64_t *seed, uint32_t buffer,
                              uint32_t pointer_buffer, uint64_t extent) {
    uint64_t count = sample->buffers[buffer].size / 8;
    if (count == 0) return;
    uint64_t at = random_below(seed, count);
    expect_entry_broken(sample, INDEX_OUT_OF_BOUNDS, buffer, at, random_from(seed, extent), extent);
    for (uint64_t p = 0; p < sample->buffers[pointer_buffer].size / 8; p++) {
        if (get(sample, pointer_buffer, p) == at) return; /* a slice begins here */
    }
    uint64_t before = get(sample, buffer, at - 1);
    expect_entry_broken(sample, INDEX_ORDER, buffer, at, random_below(seed, before + 1), before);
}

static void broken_csr_and_csc(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        Sample sample;
        bool is_csr = round % 2 == 0;
        /* Some of them longer than what is scanned at a time. */
        uint64_t largest = round % 100 < 2 ? 200 : 12;
        make_compressed(&sample, &seed, is_csr ? HURRAY_LAYOUT_CSR : HURRAY_LAYOUT_CSC, largest);
        expect_sound(&sample);
        break_pointers(&sample, &seed, 2, sample.fields.layout.sparse.nnz, true);
        break_coordinates(&sample, &seed, 1, 2, sample.shape[is_csr ? 1 : 0]);
        expect_sound(&sample);
        release(&sample);
    }
}

/* What pos and crd buffers lack, that the level above says is there. */
static void shorten_level(Sample *sample, uint32_t level) {
    uint32_t rank = sample->fields.rank, pos = 2 * level + 1, crd = 2 * level + 2;
    uint64_t count = sample->buffers[crd].size / 8, last = sample->buffers[pos].size / 8 - 1;
    if (level != rank - 1 && count != 0) { /* the leaf's own the descriptor knows of */
        shorten(sample, crd, count - 1);
        HurrayViolation violation = {0};
        expect_failure(HURRAY_ERR_DATA_INVALID, verify(sample, &violation));
        assert_int_equal(violation.kind, HURRAY_VIOLATION_POINTER_PAST_END);
        assert_int_equal(violation.buffer, pos);
        assert_int_equal(violation.expected, count - 1);
        assert_int_equal(violation.found, get(sample, pos, violation.position));
        assert_true(violation.found == count && violation.position <= last);
    } else if (level != 0) {
        shorten(sample, pos, last);
        expect_broken(sample, BUFFER_TOO_SMALL, pos, last, last, last + 1);
        shorten(sample, pos, 0);
        expect_broken(sample, BUFFER_TOO_SMALL, pos, 0, 0, last + 1);
    }
}

static void broken_csf(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (int round = 0; round < 2000; round++) {
        Sample sample;
        uint32_t rank = 3 + (uint32_t)random_below(&seed, 3);
        make_csf(&sample, &seed, rank);
        uint64_t nnz = sample.fields.layout.sparse.nnz;
        expect_sound(&sample);
        uint32_t level = (uint32_t)random_below(&seed, rank);
        bool exact = level == rank - 1 || nnz == 0;
        uint64_t count = sample.buffers[2 * level + 2].size / 8;
        break_pointers(&sample, &seed, 2 * level + 1, exact ? nnz : count, exact);
        break_coordinates(&sample, &seed, 2 * level + 2, 2 * level + 1,
                          sample.shape[sample.mode_order[level]]);
        expect_sound(&sample);
        shorten_level(&sample, level);
        release(&sample);
    }
}

/* Without values a tree has no root, however large its buffers are. */
static void csf_without_values(void **state) {
    (void)state;
    static const uint64_t zeros[3] = {0, 0, 0}, one[2] = {0, 1};
    Sample sample;
    start(&sample, HURRAY_TYPE_INT8, HURRAY_LAYOUT_CSF, 3);
    for (uint32_t k = 0; k < 3; k++) sample.shape[k] = 4, sample.mode_order[k] = k;
    sample.fields.layout.sparse = (HurraySparseLayout){.mode_order = sample.mode_order};
    give(&sample, 0, 0);
    for (uint32_t i = 1; i <= 6; i++) give_entries(&sample, i, zeros, 3);
    expect_sound(&sample);
    give_entries(&sample, 1, one, 2);
    expect_broken(&sample, POINTER_END, 1, 1, 1, 0);
    give_entries(&sample, 1, zeros, 2);
    give(&sample, 5, 0);
    expect_broken(&sample, BUFFER_TOO_SMALL, 5, 0, 0, 1);
    give_entries(&sample, 5, one + 1, 1);
    expect_broken(&sample, POINTER_START, 5, 0, 1, 0);
    release(&sample);
}

static void break_sorted_tuples(Sample *sample, uint64_t *seed) {
    uint64_t nnz = sample->fields.layout.sparse.nnz, kept[MAX_TEST_RANK];
    uint32_t rank = sample->fields.rank;
    if (nnz < 2) return;
    uint64_t tuple = 1 + random_below(seed, nnz - 1), at = tuple * rank;
    for (uint32_t k = 0; k < rank; k++) {
        kept[k] = get(sample, 1, at + k);
        set(sample, 1, at + k, get(sample, 1, at - rank + k));
    }
    expect_broken(sample, DUPLICATE, 1, at, tuple, tuple - 1);
    uint32_t k = (uint32_t)random_below(seed, rank);
    uint64_t before = get(sample, 1, at + k);
    if (before != 0) {
        set(sample, 1, at + k, random_below(seed, before));
        for (uint32_t after = k + 1; after < rank; after++) { /* which make no difference */
            set(sample, 1, at + after, random_below(seed, sample->shape[after]));
        }
        expect_broken(sample, INDEX_ORDER, 1, at + k, get(sample, 1, at + k), before);
    }
    for (k = 0; k < rank; k++) set(sample, 1, at + k, kept[k]);
}

static void break_unsorted_tuples(Sample *sample, uint64_t *seed) {
    uint64_t nnz = sample->fields.layout.sparse.nnz, kept[MAX_TEST_RANK];
    uint32_t rank = sample->fields.rank;
    if (nnz < 2) return;
    uint64_t tuple = 1 + random_below(seed, nnz - 1), original = random_below(seed, tuple);
    for (uint32_t k = 0; k < rank; k++) {
        kept[k] = get(sample, 1, tuple * rank + k);
        set(sample, 1, tuple * rank + k, get(sample, 1, original * rank + k));
    }
    expect_broken(sample, DUPLICATE, 1, tuple * rank, tuple, original);
    for (uint32_t k = 0; k < rank; k++) set(sample, 1, tuple * rank + k, kept[k]);
}

static void broken_coo(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int round = 0; round < 3000; round++) {
        Sample sample;
        bool is_sorted = round % 2 == 0;
        make_coo(&sample, &seed, 1 + (uint32_t)random_below(&seed, 6), is_sorted);
        expect_sound(&sample);
        if (is_sorted) break_sorted_tuples(&sample, &seed);
        if (!is_sorted) break_unsorted_tuples(&sample, &seed);
        uint64_t count = sample.buffers[1].size / 8;
        if (count != 0) {
            uint64_t at = random_below(&seed, count),
                     extent = sample.shape[at % sample.fields.rank];
            expect_entry_broken(&sample, INDEX_OUT_OF_BOUNDS, 1, at, random_from(&seed, extent),
                                extent);
        }
        expect_sound(&sample);
        release(&sample);
    }
}

/* Extents that do not fit one key of 64 bits together, and dynamic ones that fit none. */
static void duplicates_among_huge_indices(void **state) {
    (void)state;
    uint64_t seed = 4;
    for (int round = 0; round < 60; round++) {
        Sample sample;
        uint32_t rank = 1 + (uint32_t)random_below(&seed, MAX_TEST_RANK);
        uint64_t nnz = round < 3 ? 9000 : 200;
        start(&sample, HURRAY_TYPE_INT8, HURRAY_LAYOUT_COO, rank);
        for (uint32_t k = 0; k < rank; k++) {
            sample.shape[k] = HURRAY_DYNAMIC;
            if (k != 0 && random_below(&seed, 3) != 0) {
                sample.shape[k] = UINT64_MAX >> random_below(&seed, 64);
            }
            if (sample.shape[k] != HURRAY_DYNAMIC && rank > 1) sample.shape[0] = HURRAY_DYNAMIC;
        }
        for (uint64_t i = 0; i < nnz; i++) { /* differing in dimension 0, if in nothing else */
            for (uint32_t k = 0; k < rank; k++) {
                uint64_t extent = sample.shape[k];
                tuples[i][k] = k == 0 ? i * UINT64_C(0x3FFFFFFFFFFF) : random_below(&seed, extent);
            }
        }
        shuffle_tuples(nnz, &seed);
        give_tuples(&sample, nnz, false);
        expect_sound(&sample);
        break_unsorted_tuples(&sample, &seed);
        expect_sound(&sample);
        release(&sample);
    }
}

/* Of several repetitions the one that comes first is reported. */
static void the_first_duplicate(void **state) {
    (void)state;
    static const uint64_t rows[7][2] = {{3, 3}, {2, 2}, {1, 1}, {2, 2}, {3, 3}, {2, 2}, {1, 1}};
    Sample sample;
    start(&sample, HURRAY_TYPE_INT8, HURRAY_LAYOUT_COO, 2);
    sample.shape[0] = sample.shape[1] = 4;
    for (size_t i = 0; i < 7; i++) memcpy(tuples[i], rows[i], sizeof rows[i]);
    give_tuples(&sample, 7, false);
    expect_broken(&sample, DUPLICATE, 1, 6, 3, 1);
    expect_message("tuple 3");
    give_tuples(&sample, 3, false);
    expect_sound(&sample);
    release(&sample);
}

/* ---- dynamic dimensions ---- */

static void dynamic_extents_bound_nothing_they_do_not_know(void **state) {
    (void)state;
    Sample sample;
    uint64_t seed = 5;
    for (int round = 0; round < 500; round++) {
        make_compressed(&sample, &seed, HURRAY_LAYOUT_CSR, 8);
        uint64_t nnz = sample.fields.layout.sparse.nnz, rows = sample.shape[0];
        sample.shape[1] = HURRAY_DYNAMIC;
        expect_sound(&sample);
        if (nnz != 0) {
            expect_entry_broken(&sample, INDEX_OUT_OF_BOUNDS, 1, nnz - 1, UINT64_MAX, UINT64_MAX);
            set(&sample, 1, nnz - 1, UINT64_MAX - 1);
        }
        expect_sound(&sample);
        sample.shape[0] = HURRAY_DYNAMIC;
        expect_sound(&sample);
        uint64_t reached = 0; /* the pointer that first says nnz: what follows need not be one */
        while (get(&sample, 2, reached) != nnz) reached++;
        if (reached < rows) set(&sample, 2, rows, 0);
        expect_sound(&sample);
        if (nnz != 0) {
            expect_entry_broken(&sample, POINTER_END, 2, reached, nnz + 5, nnz);
            uint64_t last = get(&sample, 2, reached - 1);
            shorten(&sample, 2, reached);
            HurrayViolationKind kind = HURRAY_VIOLATION_POINTER_END;
            expect_broken_at(&sample, kind, 2, reached - 1, last, nnz, __LINE__);
            shorten(&sample, 2, 0);
            expect_broken(&sample, BUFFER_TOO_SMALL, 2, 0, 0, 1);
        }
        release(&sample);
    }
}

/* ---- against the rules written out ---- */

static bool naive_slices(const Sample *sample, uint32_t pos, uint32_t crd, uint64_t parents,
                         uint64_t extent) {
    uint64_t pos_count = sample->buffers[pos].size / 8, crd_count = sample->buffers[crd].size / 8;
    if (pos_count < parents + 1 || get(sample, pos, 0) != 0) return false;
    for (uint64_t p = 0; p < parents; p++) {
        uint64_t begin = get(sample, pos, p), end = get(sample, pos, p + 1);
        if (begin > end || end > crd_count) return false;
        for (uint64_t i = begin; i < end; i++) {
            if (get(sample, crd, i) >= extent) return false;
            if (i > begin && get(sample, crd, i) <= get(sample, crd, i - 1)) return false;
        }
    }
    return true;
}

static bool naive_coo(const Sample *sample) {
    uint64_t nnz = sample->fields.layout.sparse.nnz;
    uint32_t rank = sample->fields.rank;
    for (uint64_t i = 0; i < nnz * rank; i++) {
        if (get(sample, 1, i) >= sample->shape[i % rank]) return false;
    }
    for (uint64_t a = 0; a < nnz; a++) {
        for (uint64_t b = a + 1; b < nnz; b++) {
            uint32_t k = 0;
            while (k < rank && get(sample, 1, a * rank + k) == get(sample, 1, b * rank + k)) k++;
            if (k == rank) return false;
            if (sample->fields.layout.sparse.is_sorted &&
                get(sample, 1, a * rank + k) > get(sample, 1, b * rank + k)) {
                return false;
            }
        }
    }
    return true;
}

static bool naive(const Sample *sample) {
    const HurraySparseLayout *layout = &sample->fields.layout.sparse;
    if (sample->fields.layout.tag == HURRAY_LAYOUT_COO) return naive_coo(sample);
    if (sample->fields.layout.tag != HURRAY_LAYOUT_CSF) {
        uint32_t major = sample->fields.layout.tag == HURRAY_LAYOUT_CSR ? 0 : 1;
        uint64_t parents = sample->shape[major];
        return naive_slices(sample, 2, 1, parents, sample->shape[1 - major]) &&
               get(sample, 2, parents) == layout->nnz;
    }
    uint64_t parents = 1;
    for (uint32_t level = 0; level < sample->fields.rank; level++) {
        uint64_t extent = sample->shape[sample->mode_order[level]];
        uint32_t pos = 2 * level + 1;
        if (!naive_slices(sample, pos, 2 * level + 2, parents, extent)) return false;
        parents = get(sample, pos, parents);
        if (layout->nnz == 0 && parents != 0) return false;
    }
    return parents == layout->nnz;
}

/* Entries changed by a little or by a lot; whatever they become, verify says what the rules say. */
static void verdicts_are_those_of_the_rules(void **state) {
    (void)state;
    uint64_t seed = 6;
    int sound = 0, broken = 0;
    for (int round = 0; round < 20000; round++) {
        Sample sample;
        switch (round % 5) {
        case 0: make_coo(&sample, &seed, 1 + (uint32_t)random_below(&seed, 4), true); break;
        case 1: make_coo(&sample, &seed, 1 + (uint32_t)random_below(&seed, 4), false); break;
        case 2: make_compressed(&sample, &seed, HURRAY_LAYOUT_CSR, 5); break;
        case 3: make_compressed(&sample, &seed, HURRAY_LAYOUT_CSC, 5); break;
        default: make_csf(&sample, &seed, 3); break;
        }
        for (uint64_t changes = random_below(&seed, 4); changes > 0; changes--) {
            uint32_t i = 1 + (uint32_t)random_below(&seed, sample.fields.buffer_count - 1);
            uint64_t count = sample.buffers[i].size / 8;
            if (count == 0) continue;
            uint64_t at = random_below(&seed, count), value = get(&sample, i, at);
            value += random_below(&seed, 5) == 0 ? random_u64(&seed) : random_below(&seed, 3) - 1;
            set(&sample, i, at, value);
        }
        if (sample.fields.layout.sparse.nnz < 100) {
            HurrayViolation violation;
            HurrayStatus status = verify(&sample, &violation);
            assert_true(status == HURRAY_OK || status == HURRAY_ERR_DATA_INVALID);
            assert_int_equal(status == HURRAY_OK, naive(&sample));
            *(status == HURRAY_OK ? &sound : &broken) += 1;
        }
        release(&sample);
    }
    assert_true(sound > 1000 && broken > 1000);
}

/* ---- block-paged ---- */

static void put(Sample *sample, uint32_t buffer, uint64_t at, bool wide, uint64_t value) {
    uint8_t *bytes = sample->blocks[buffer] + 1;
    if (wide) {
        store_u64(bytes + at * 8, value);
    } else {
        store_u32(bytes + at * 4, (uint32_t)value);
    }
}

/* 3 sequences of 2, 0 and 3 pages, two of which they share, out of 5; a spare entry. */
static void make_paged(Sample *sample, bool wide) {
    static const uint64_t seq_ptr[4] = {0, 2, 2, 5}, table[6] = {4, 0, 4, 0, 3, 99};
    start(sample, HURRAY_TYPE_FLOAT16, HURRAY_LAYOUT_BLOCK_PAGED, 3);
    sample->shape[0] = 9, sample->shape[1] = 2, sample->shape[2] = 4;
    sample->fields.layout.paged = (HurrayBlockPagedLayout){
        .page_size = 4,
        .num_pages = 5,
        .num_seqs = 3,
        .layer_index = HURRAY_NO_LAYER,
        .wide_indices = wide,
    };
    give(sample, 0, 5 * 4 * 2 * 4 * 2);
    give(sample, 1, 6 * (wide ? 8u : 4u));
    give(sample, 2, 4 * (wide ? 8u : 4u));
    for (uint64_t i = 0; i < 6; i++) put(sample, 1, i, wide, table[i]);
    for (uint64_t i = 0; i < 4; i++) put(sample, 2, i, wide, seq_ptr[i]);
}

static void broken_pages(void **state) {
    (void)state;
    for (int w = 0; w < 2; w++) {
        bool wide = w == 1;
        uint64_t huge = wide ? UINT64_MAX : UINT32_MAX;
        Sample sample;
        make_paged(&sample, wide);
        expect_sound(&sample);
        put(&sample, 2, 0, wide, 1);
        expect_broken(&sample, POINTER_START, 2, 0, 1, 0);
        put(&sample, 2, 0, wide, 0);
        put(&sample, 2, 2, wide, 1);
        expect_broken(&sample, POINTER_DECREASES, 2, 2, 1, 2);
        put(&sample, 2, 2, wide, huge);
        expect_broken(&sample, POINTER_PAST_END, 2, 2, huge, 6);
        put(&sample, 2, 2, wide, 2);
        put(&sample, 2, 3, wide, 7);
        expect_broken(&sample, POINTER_PAST_END, 2, 3, 7, 6);
        put(&sample, 2, 3, wide, 6); /* now the spare entry is in use */
        expect_broken(&sample, PAGE_ID, 1, 5, 99, 5);
        put(&sample, 2, 3, wide, 5);
        put(&sample, 1, 3, wide, 5);
        expect_broken(&sample, PAGE_ID, 1, 3, 5, 5);
        expect_message("block_table[3]");
        put(&sample, 1, 0, wide, huge);
        expect_broken(&sample, PAGE_ID, 1, 0, huge, 5);
        sample.fields.layout.paged.num_pages = 0; /* then not even page 0 is there */
        put(&sample, 1, 0, wide, 0);
        expect_broken(&sample, PAGE_ID, 1, 0, 0, 0);
        for (uint64_t i = 0; i < 4; i++) put(&sample, 2, i, wide, 0);
        expect_sound(&sample);
        release(&sample);
    }
}

static void index_buffers_before_there_is_a_tensor(void **state) {
    (void)state;
    static const uint64_t pages[5] = {4, 0, 4, 0, 3};
    uint64_t seq_ptr[5] = {0, 2, 2, 5, 5}, table[5];
    HurrayBlockPagedLayout layout = {.num_pages = 5, .num_seqs = 3, .paged_axis = 7};
    HurrayViolation violation = {0};
    memcpy(table, pages, sizeof table);
    expect_ok(hurray_verify_index_buffers(&layout, seq_ptr, 4, table, 5, &violation));
    expect_failure(HURRAY_ERR_DATA_INVALID,
                   hurray_verify_index_buffers(&layout, seq_ptr, 5, table, 5, &violation));
    HurrayViolation too_long = {HURRAY_VIOLATION_POINTER_END, 2, 3, 5, 4};
    expect_same_violation_at(&violation, &too_long, __LINE__);
    expect_failure(HURRAY_ERR_DATA_INVALID,
                   hurray_verify_index_buffers(&layout, seq_ptr, 3, table, 5, &violation));
    HurrayViolation too_short = {HURRAY_VIOLATION_BUFFER_TOO_SMALL, 2, 3, 3, 4};
    expect_same_violation_at(&violation, &too_short, __LINE__);
    expect_failure(HURRAY_ERR_DATA_INVALID,
                   hurray_verify_index_buffers(&layout, NULL, 0, NULL, 0, NULL));
    expect_failure(HURRAY_ERR_DATA_INVALID,
                   hurray_verify_index_buffers(&layout, seq_ptr, 4, table, 4, &violation));
    HurrayViolation past = {HURRAY_VIOLATION_POINTER_END, 2, 3, 5, 4};
    expect_same_violation_at(&violation, &past, __LINE__);
    table[1] = 5;
    expect_failure(HURRAY_ERR_DATA_INVALID,
                   hurray_verify_index_buffers(&layout, seq_ptr, 4, table, 5, &violation));
    HurrayViolation page = {HURRAY_VIOLATION_PAGE_ID, 1, 1, 5, 5};
    expect_same_violation_at(&violation, &page, __LINE__);
    layout.num_pages = UINT64_MAX;
    table[1] = UINT64_C(1) << 32;
    expect_failure(HURRAY_ERR_DATA_INVALID,
                   hurray_verify_index_buffers(&layout, seq_ptr, 4, table, 5, &violation));
    HurrayViolation narrow = {HURRAY_VIOLATION_PAGE_ID, 1, 1, table[1], table[1]};
    expect_same_violation_at(&violation, &narrow, __LINE__);
    layout.wide_indices = true;
    expect_ok(hurray_verify_index_buffers(&layout, seq_ptr, 4, table, 5, NULL));
    layout.num_seqs = 0;
    expect_ok(hurray_verify_index_buffers(&layout, seq_ptr, 1, NULL, 0, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_verify_index_buffers(NULL, seq_ptr, 1, NULL, 0, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_verify_index_buffers(&layout, NULL, 1, NULL, 0, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER,
                   hurray_verify_index_buffers(&layout, seq_ptr, 1, NULL, 1, NULL));
}

/* ---- quantization parameters ---- */

/* [6, 64], with parameters in buffer 1, zero points in 2, in 1 as well, or in none. */
static void make_quantized(Sample *sample, uint8_t scheme, uint8_t type, uint8_t scale_type,
                           uint32_t zero_point_buffer) {
    start(sample, type, HURRAY_LAYOUT_ROW_MAJOR, 2);
    sample->shape[0] = 6, sample->shape[1] = 64;
    uint64_t bytes, scale_size, count = scheme == HURRAY_SCHEME_PER_CHANNEL ? 6 : 12;
    expect_ok(hurray_element_type_size(type, 6 * 64, &bytes));
    expect_ok(hurray_element_type_size(scale_type, 1, &scale_size));
    sample->quantization = (HurrayQuantization){
        .scheme = scheme,
        .scale_type = scale_type,
        .axis = scheme == HURRAY_SCHEME_PER_CHANNEL ? 0 : 1,
        .block_size = 32,
        .scale_buffer = 1,
        .zero_point_buffer = zero_point_buffer,
    };
    sample->fields.quantization = &sample->quantization;
    sample->fields.buffer_count = zero_point_buffer == 2 ? 3 : 2;
    memset(give(sample, 0, bytes), 0xFF, (size_t)bytes);
    uint64_t shared = zero_point_buffer == 1 ? count * 4 : 0;
    memset(give(sample, 1, count * scale_size + shared), 0x01, (size_t)(count * scale_size));
    if (zero_point_buffer == 2) give(sample, 2, count * 4);
}

static void put_scale(Sample *sample, uint64_t at, uint32_t width, uint64_t bits) {
    for (uint32_t i = 0; i < width; i++) {
        sample->blocks[1][1 + at * width + i] = (uint8_t)(bits >> 8 * i);
    }
}

typedef struct ScaleCase {
    uint8_t scheme, stored_type, scale_type;
    uint32_t width;
    uint64_t good[8], bad[8]; /* to the first 0 after the first */
} ScaleCase;

static void scales_that_are_no_numbers_to_scale_by(void **state) {
    (void)state;
    static const ScaleCase cases[] = {
        {HURRAY_SCHEME_PER_CHANNEL,
         HURRAY_TYPE_INT32,
         HURRAY_TYPE_FLOAT32,
         4,
         {1, 0x80000001, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0xFF7FFFFF},
         {0, 0x80000000, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF}},
        {HURRAY_SCHEME_PER_BLOCK,
         HURRAY_TYPE_INT4,
         HURRAY_TYPE_FLOAT32,
         4,
         {1, 0x80000001, 0x7F7FFFFF},
         {0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000}},
        {HURRAY_SCHEME_PER_BLOCK,
         HURRAY_TYPE_INT8,
         HURRAY_TYPE_FLOAT16,
         2,
         {1, 0x8001, 0x7BFF, 0xFBFF, 0x3C00},
         {0, 0x8000, 0x7C00, 0xFC00, 0x7C01, 0xFFFF}},
        {HURRAY_SCHEME_PER_BLOCK,
         HURRAY_TYPE_UINT2,
         HURRAY_TYPE_BFLOAT16,
         2,
         {1, 0x8001, 0x7F7F, 0xFF7F, 0x7C00},
         {0, 0x8000, 0x7F80, 0xFF80, 0x7F81, 0xFFFF}},
        {HURRAY_SCHEME_NF4,
         HURRAY_TYPE_UINT4,
         HURRAY_TYPE_FLOAT32,
         4,
         {0, 1, 0x80000000, 0x7F7FFFFF},
         {0x80000001, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000}},
        {HURRAY_SCHEME_MXFP,
         HURRAY_TYPE_FLOAT4_E2M1,
         HURRAY_TYPE_FLOAT8_E8M0,
         1,
         {1, 2, 0x7F, 0x80, 0xFE},
         {0, 0xFF}},
    };
    uint64_t seed = 7;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const ScaleCase *one = &cases[c];
        Sample sample;
        make_quantized(&sample, one->scheme, one->stored_type, one->scale_type, HURRAY_NO_BUFFER);
        expect_sound(&sample);
        uint64_t count = sample.buffers[1].size / one->width;
        for (size_t i = 0; i < 8 && (i < 2 || one->good[i] != 0); i++) {
            put_scale(&sample, random_below(&seed, count), one->width, one->good[i]);
            expect_sound(&sample);
        }
        for (size_t i = 0; i < 8 && (i == 0 || one->bad[i] != 0); i++) {
            uint64_t at = random_below(&seed, count);
            put_scale(&sample, at, one->width, one->bad[i]);
            expect_broken(&sample, SCALE, 1, at, one->bad[i], 0);
            put_scale(&sample, at, one->width, 1);
        }
        release(&sample);
    }
}

static void zero_points_out_of_range(void **state) {
    (void)state;
    static const struct {
        uint8_t scheme, type;
        int64_t least, most;
    } cases[] = {
        {HURRAY_SCHEME_PER_BLOCK, HURRAY_TYPE_INT2, -2, 1},
        {HURRAY_SCHEME_PER_BLOCK, HURRAY_TYPE_UINT2, 0, 3},
        {HURRAY_SCHEME_PER_BLOCK, HURRAY_TYPE_INT4, -8, 7},
        {HURRAY_SCHEME_PER_BLOCK, HURRAY_TYPE_UINT4, 0, 15},
        {HURRAY_SCHEME_PER_BLOCK, HURRAY_TYPE_INT8, -128, 127},
        {HURRAY_SCHEME_PER_CHANNEL, HURRAY_TYPE_UINT8, 0, 255},
        {HURRAY_SCHEME_PER_CHANNEL, HURRAY_TYPE_INT16, -32768, 32767},
        {HURRAY_SCHEME_PER_CHANNEL, HURRAY_TYPE_UINT16, 0, 65535},
        {HURRAY_SCHEME_PER_CHANNEL, HURRAY_TYPE_INT32, INT32_MIN, INT32_MAX},
        {HURRAY_SCHEME_PER_CHANNEL, HURRAY_TYPE_UINT32, 0, INT32_MAX},
    };
    uint64_t seed = 8;
    for (size_t c = 0; c < 2 * sizeof cases / sizeof cases[0]; c++) {
        bool is_channel = cases[c / 2].scheme == HURRAY_SCHEME_PER_CHANNEL;
        uint8_t scale_type = is_channel ? HURRAY_TYPE_FLOAT32 : HURRAY_TYPE_BFLOAT16;
        uint32_t buffer = 1 + (uint32_t)(c % 2);
        uint64_t count = is_channel ? 6 : 12;
        int64_t least = cases[c / 2].least, most = cases[c / 2].most;
        int64_t good[4] = {least, most, 0, random_between(&seed, least, most)};
        int64_t bad[4] = {least - 1, most + 1, INT32_MIN, INT32_MAX};
        Sample sample;
        make_quantized(&sample, cases[c / 2].scheme, cases[c / 2].type, scale_type, buffer);
        expect_sound(&sample);
        uint8_t *first = sample.blocks[buffer] + 1;
        if (buffer == 1) first += count * (is_channel ? 4 : 2);
        for (size_t i = 0; i < 4; i++) {
            uint64_t at = random_below(&seed, count);
            store_u32(first + at * 4, (uint32_t)good[i]);
            expect_sound(&sample);
            if (bad[i] < INT32_MIN || bad[i] > INT32_MAX || (bad[i] >= least && bad[i] <= most)) {
                continue;
            }
            store_u32(first + at * 4, (uint32_t)bad[i]);
            expect_broken(&sample, ZERO_POINT, buffer, at, (uint64_t)bad[i],
                          (uint64_t)(bad[i] < least ? least : most));
            store_u32(first + at * 4, 0);
        }
        release(&sample);
    }
}

/* With a dynamic dimension beside the axis the buffers say how many parameters there are. */
static void parameters_of_unknown_number(void **state) {
    (void)state;
    Sample sample;
    make_quantized(&sample, HURRAY_SCHEME_PER_BLOCK, HURRAY_TYPE_INT8, HURRAY_TYPE_FLOAT16, 1);
    sample.shape[0] = HURRAY_DYNAMIC;
    expect_sound(&sample);
    store_u32(sample.blocks[1] + 1 + 12 * 2 + 11 * 4, 128);
    expect_broken(&sample, ZERO_POINT, 1, 11, 128, 127);
    for (uint64_t size = 0; size < 6; size++) {
        give(&sample, 1, size);
        expect_sound(&sample); /* room for no pair */
    }
    give(&sample, 1, 6);
    expect_broken(&sample, SCALE, 1, 0, 0, 0);
    release(&sample);
}

/* ---- the whole ---- */

static void statistics_are_advice_until_they_are_verified(void **state) {
    (void)state;
    uint64_t seed = 9;
    Sample sample;
    make_compressed(&sample, &seed, HURRAY_LAYOUT_CSR, 9);
    uint64_t nnz = sample.fields.layout.sparse.nnz;
    sample.fields.statistics = &sample.statistics;
    sample.statistics = (HurrayStatistics){
        .computed_mask = 0x3F, .nnz = nnz, .sparsity_ratio = 1, .nm_n = 2, .nm_m = 4, .has_inf = 1};
    expect_sound(&sample);
    HurrayStatistics sound = sample.statistics;
    sample.statistics.nnz++;
    expect_broken(&sample, STATISTICS, HURRAY_NO_BUFFER, 0, nnz + 1, nnz);
    sample.statistics.computed_mask = 0x3E;
    expect_sound(&sample);
    for (int field = 0; field < 6; field++) {
        HurrayStatistics *wrong = &sample.statistics;
        *wrong = sound;
        switch (field) {
        case 0: wrong->sparsity_ratio = 1.5; break;
        case 1: wrong->sparsity_ratio = -0.5; break;
        case 2: wrong->value_stddev = -1; break;
        case 3: wrong->nm_n = 5; break;
        case 4: wrong->has_nan = 2; break;
        default: wrong->has_inf = 255; break;
        }
        expect_broken(&sample, STATISTICS, HURRAY_NO_BUFFER, 0, 0, 0);
        expect_message("statistics: ");
        wrong->computed_mask = 0;
        expect_sound(&sample);
    }
    release(&sample);
}

static void what_callers_do_wrong(void **state) {
    (void)state;
    uint64_t seed = 10;
    Sample sample;
    do {
        make_compressed(&sample, &seed, HURRAY_LAYOUT_CSC, 9);
    } while (sample.fields.layout.sparse.nnz == 0 && (release(&sample), true));
    const HurrayDescriptorFields *fields = &sample.fields;
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_verify(NULL, sample.buffers, 3, NULL));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_verify(fields, NULL, 3, NULL));
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, hurray_verify(fields, sample.buffers, 2, NULL));
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, hurray_verify(fields, sample.buffers, 4, NULL));
    HurrayBytes kept = sample.buffers[1];
    sample.buffers[1].size += 8;
    expect_failure(HURRAY_ERR_INVALID_ARGUMENT, verify(&sample, NULL));
    expect_message("buffers[1]");
    sample.buffers[1] = (HurrayBytes){NULL, kept.size};
    expect_failure(HURRAY_ERR_NULL_POINTER, verify(&sample, NULL));
    sample.buffers[1] = kept;
    sample.buffers[0] = (HurrayBytes){NULL, 0};
    expect_sound(&sample);
    sample.handles[2].byte_size -= 8;
    expect_failure(HURRAY_ERR_INVALID_LAYOUT, verify(&sample, NULL));
    release(&sample);
    assert_string_equal(hurray_violation_name(HURRAY_VIOLATION_NONE), "none");
    assert_string_equal(hurray_violation_name(HURRAY_VIOLATION_STATISTICS), "statistics");
    assert_null(hurray_violation_name((HurrayViolationKind)(HURRAY_VIOLATION_STATISTICS + 1)));
    assert_null(hurray_violation_name((HurrayViolationKind)1000));
    assert_string_equal(hurray_status_name(HURRAY_ERR_DATA_INVALID), "HURRAY_ERR_DATA_INVALID");
}

/* Elements of plain tensors are whatever they are; nothing can be said of what nobody knows. */
static void tensors_without_indices(void **state) {
    (void)state;
    Sample sample;
    start(&sample, HURRAY_TYPE_FLOAT8_E8M0, HURRAY_LAYOUT_ROW_MAJOR, 1);
    sample.shape[0] = 3;
    memset(give(&sample, 0, 3), 0xFF, 3);
    expect_sound(&sample);
    sample.fields.permissive = true;
    expect_sound(&sample);
    sample.fields.type_tag = 0x3F;
    expect_failure(HURRAY_ERR_UNSUPPORTED, verify(&sample, NULL));
    expect_message("0x3F");
    sample.fields.type_tag = HURRAY_TYPE_UINT8;
    static const uint8_t scheme_bytes[3] = {1, 0, 0};
    sample.quantization = (HurrayQuantization){
        .scheme = 0xF0, .trailing = scheme_bytes, .trailing_size = sizeof scheme_bytes};
    sample.fields.quantization = &sample.quantization;
    expect_failure(HURRAY_ERR_UNSUPPORTED, verify(&sample, NULL));
    expect_message("0xF0");
    sample.fields.quantization = NULL;
    sample.fields.layout = (HurrayLayout){.tag = HURRAY_LAYOUT_PRIVATE_FIRST};
    expect_sound(&sample);
    sample.fields.layout = (HurrayLayout){.tag = 0x3F};
    sample.fields.buffer_count = 0;
    expect_failure(HURRAY_ERR_UNSUPPORTED, verify(&sample, NULL));
    sample.fields.layout = (HurrayLayout){.tag = HURRAY_LAYOUT_COMPOSITE};
    sample.fields.layout.composite.composition_rule = HURRAY_RULE_GROUP;
    expect_sound(&sample);
    expect_ok(hurray_verify(&sample.fields, NULL, 0, NULL));
    release(&sample);
}

static void tensors_verify_themselves(void **state) {
    (void)state;
    static const uint64_t entries[3][4] = {{0}, {0, 1, 0, 1}, {0, 2, 4}};
    static const uint64_t sizes[3] = {4, 32, 24};
    uint64_t shape[2] = {2, 2};
    HurrayDescriptorFields fields = {.type_tag = HURRAY_TYPE_INT8,
                                     .rank = 2,
                                     .shape = shape,
                                     .layout = {.tag = HURRAY_LAYOUT_CSR},
                                     .buffer_count = 3};
    fields.layout.sparse.nnz = 4;
    HurrayBuffer *buffers[3];
    HurrayTensor *tensor = NULL;
    for (uint32_t i = 0; i < 3; i++) {
        expect_ok(hurray_buffer_allocate(sizes[i], true, NULL, &buffers[i]));
        uint8_t *data = hurray_buffer_info(buffers[i])->data;
        for (uint64_t e = 0; e < sizes[i] / 8; e++) store_u64(data + e * 8, entries[i][e]);
    }
    expect_ok(hurray_tensor_create(&fields, buffers, &tensor));
    HurrayViolation violation = {0};
    expect_ok(hurray_tensor_verify(tensor, &violation));
    store_u64((uint8_t *)hurray_buffer_info(buffers[1])->data + 24, 2);
    expect_failure(HURRAY_ERR_DATA_INVALID, hurray_tensor_verify(tensor, &violation));
    HurrayViolation wanted = {HURRAY_VIOLATION_INDEX_OUT_OF_BOUNDS, 1, 3, 2, 2};
    expect_same_violation_at(&violation, &wanted, __LINE__);
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_tensor_verify(NULL, &violation));
    hurray_tensor_release(tensor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_vectors_are_named),
        cmocka_unit_test(everything_in_streams_and_files_is_sound),
        cmocka_unit_test(broken_csr_and_csc),
        cmocka_unit_test(broken_csf),
        cmocka_unit_test(csf_without_values),
        cmocka_unit_test(broken_coo),
        cmocka_unit_test(duplicates_among_huge_indices),
        cmocka_unit_test(the_first_duplicate),
        cmocka_unit_test(dynamic_extents_bound_nothing_they_do_not_know),
        cmocka_unit_test(verdicts_are_those_of_the_rules),
        cmocka_unit_test(broken_pages),
        cmocka_unit_test(index_buffers_before_there_is_a_tensor),
        cmocka_unit_test(scales_that_are_no_numbers_to_scale_by),
        cmocka_unit_test(zero_points_out_of_range),
        cmocka_unit_test(parameters_of_unknown_number),
        cmocka_unit_test(statistics_are_advice_until_they_are_verified),
        cmocka_unit_test(what_callers_do_wrong),
        cmocka_unit_test(tensors_without_indices),
        cmocka_unit_test(tensors_verify_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
