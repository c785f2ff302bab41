/*
 * Tensors read into memory: one block for all of them, filled in chunks by as many threads as help.
 *
 * The plan is made first: where in the block each buffer lies, so that a buffer of a page and more
 * begins at a page and a smaller one at a cache line. Then windows of the block are filled, in order,
 * by whoever is free. What a thread's failure says is carried to the thread that asked.
 *
 * Most of the time goes into making memory: the system clears each page before it is read into. Two
 * threads that come to the same huge page at the same time would both clear one, and throw one away.
 * Windows are therefore of the block, not of the file, and begin and end at huge pages.
 */
#include "file_reader.h"

#include <inttypes.h>
#include <stdlib.h>

#include "checked.h"
#include "fail.h"
#include "io.h"
#include "parallel.h"

/* Bytes of a window, huge pages of the usual sizes: enough for the cost of a call not to count, few
 * enough to give every thread some. A block as large begins at a huge page (memory.c). */
#define WINDOW ((uint64_t)4 << 20)
/* Bytes for which another thread is worth its start. */
#define BYTES_PER_THREAD ((uint64_t)16 << 20)

/* ---- the plan ---- */

/* What one call reads: a buffer, or its part in one window. */
typedef struct Chunk {
    uint64_t offset; /* in the file */
    uint64_t place;  /* in the block */
    size_t size;
} Chunk;

typedef struct Plan {
    HurrayDescriptor **descriptors; /* [count] */
    HurrayTensor **tensors;         /* [count] */
    size_t count, described, made;  /* how many there are to be, and are */
    Chunk *chunks;                  /* in the order of their places */
    size_t chunk_count, chunk_capacity;
    uint64_t size, alignment; /* of the block */
    HurrayBuffer *block;
} Plan;

static HurrayStatus add_chunk(Plan *plan, Chunk chunk) {
    if (plan->chunk_count == plan->chunk_capacity) {
        size_t capacity = plan->chunk_capacity == 0 ? 16 : 2 * plan->chunk_capacity;
        if (capacity > SIZE_MAX / sizeof(Chunk)) return hri_fail_memory(UINT64_MAX);
        Chunk *chunks = realloc(plan->chunks, capacity * sizeof(Chunk));
        if (chunks == NULL) return hri_fail_memory(capacity * sizeof(Chunk));
        plan->chunks = chunks;
        plan->chunk_capacity = capacity;
    }
    plan->chunks[plan->chunk_count++] = chunk;
    return HURRAY_OK;
}

/* Cuts one buffer where windows end. */
static HurrayStatus add_chunks(Plan *plan, uint64_t offset, uint64_t place, uint64_t size) {
    HurrayStatus status = HURRAY_OK;
    while (status == HURRAY_OK && size > 0) {
        uint64_t room = WINDOW - place % WINDOW;
        uint64_t length = size < room ? size : room;
        status = add_chunk(plan, (Chunk){offset, place, (size_t)length});
        offset += length;
        place += length;
        size -= length;
    }
    return status;
}

static uint64_t alignment_of(const HurrayBufferHandle *handle) {
    if (handle->byte_size >= HURRAY_PAGE_ALIGNMENT) return HURRAY_PAGE_ALIGNMENT;
    if (handle->alignment <= HURRAY_MIN_BUFFER_ALIGNMENT) return HURRAY_MIN_BUFFER_ALIGNMENT;
    return handle->alignment < HURRAY_PAGE_ALIGNMENT ? handle->alignment : HURRAY_PAGE_ALIGNMENT;
}

/* Where each buffer of a tensor lies in the block, from `plan->size` on, which moves along. */
static HurrayStatus place_buffers(const HurrayDescriptorFields *fields, Plan *plan,
                                  uint64_t *places) {
    for (uint32_t i = 0; i < fields->buffer_count; i++) {
        const HurrayBufferHandle *handle = &fields->buffers[i];
        uint64_t place, alignment = alignment_of(handle);
        if (alignment > plan->alignment) plan->alignment = alignment;
        if (!checked_add_u64(plan->size, alignment - 1, &place)) {
            return hri_fail_memory(UINT64_MAX);
        }
        places[i] = place & ~(alignment - 1);
        if (!checked_add_u64(places[i], handle->byte_size, &plan->size)) {
            return hri_fail_memory(UINT64_MAX);
        }
    }
    return HURRAY_OK;
}

static HurrayStatus plan_tensor(HurrayFileReader *reader, uint32_t entry, Plan *plan) {
    uint64_t offsets[HURRAY_MAX_BUFFERS], places[HURRAY_MAX_BUFFERS];
    HurrayDescriptor **descriptor = &plan->descriptors[plan->described];
    HurrayStatus status = hri_file_descriptor(reader, entry, descriptor, offsets);
    if (status != HURRAY_OK) return status;
    plan->described++;
    const HurrayDescriptorFields *fields = hurray_descriptor_fields(*descriptor);
    status = hri_file_check_tensor(reader, entry, fields);
    if (status == HURRAY_OK) status = place_buffers(fields, plan, places);
    for (uint32_t i = 0; status == HURRAY_OK && i < fields->buffer_count; i++) {
        status = add_chunks(plan, offsets[i], places[i], fields->buffers[i].byte_size);
    }
    return status;
}

static HurrayStatus make_plan(HurrayFileReader *reader, const uint64_t *indices, Plan *plan) {
    plan->descriptors = malloc(plan->count * sizeof(HurrayDescriptor *));
    plan->tensors = malloc(plan->count * sizeof(HurrayTensor *));
    if (plan->descriptors == NULL || plan->tensors == NULL) {
        return hri_fail_memory(plan->count * sizeof(HurrayTensor *));
    }
    HurrayStatus status = HURRAY_OK;
    for (size_t i = 0; status == HURRAY_OK && i < plan->count; i++) {
        status = plan_tensor(reader, (uint32_t)indices[i], plan);
    }
    if (status != HURRAY_OK) return status;
    /* A block of a page and more begins at a page. */
    uint64_t size = plan->size;
    if (plan->alignment > HURRAY_MIN_BUFFER_ALIGNMENT && size < HURRAY_PAGE_ALIGNMENT) {
        size = HURRAY_PAGE_ALIGNMENT;
    }
    return hurray_buffer_allocate(size, false, reader->options.allocator, &plan->block);
}

static void destroy_plan(Plan *plan) {
    while (plan->made > 0) hurray_tensor_release(plan->tensors[--plan->made]);
    while (plan->described > 0) hurray_descriptor_destroy(plan->descriptors[--plan->described]);
    free(plan->tensors);
    free(plan->descriptors);
    free(plan->chunks);
    if (plan->block != NULL) hurray_buffer_destroy(plan->block);
}

/* ---- reading ---- */

typedef struct Work {
    HurrayFileReader *reader;
    const Plan *plan;
} Work;

/* Without the interrupt callback, which is for the thread that asked. */
static HurrayStatus read_quietly(const HurrayFileReader *reader, const Chunk *chunk,
                                 uint8_t *bytes) {
    HurrayRandomAccess access = reader->access;
    HurrayOpenFile quiet = reader->file;
    quiet.interrupted = NULL;
    if (access.context == &reader->file) access.context = &quiet;
    return access.read_at(chunk->offset, bytes, chunk->size, access.context);
}

/* The first chunk at `place` or behind it. */
static size_t first_chunk(const Plan *plan, uint64_t place) {
    size_t first = 0, end = plan->chunk_count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (plan->chunks[middle].place < place) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first;
}

static HurrayStatus read_window(void *context, uint32_t thread, uint64_t window) {
    const Work *work = context;
    const Plan *plan = work->plan;
    const HurrayFileReaderOptions *options = &work->reader->options;
    uint8_t *block = hurray_buffer_info(plan->block)->data;
    HurrayStatus status = HURRAY_OK;
    /* Reading a file is never interrupted by itself. */
    if (thread == 0 && window != 0) {
        status = hri_interrupted(options->interrupted, options->interrupt_context, "reading");
    }
    for (size_t i = first_chunk(plan, window * WINDOW);
         status == HURRAY_OK && i < plan->chunk_count; i++) {
        const Chunk *chunk = &plan->chunks[i];
        if (chunk->place / WINDOW != window) break;
        uint8_t *bytes = block + (size_t)chunk->place;
        status = thread != 0 ? read_quietly(work->reader, chunk, bytes)
                             : hri_file_read(work->reader, chunk->offset, bytes, chunk->size);
    }
    return status;
}

static uint32_t threads_for(const HurrayFileReader *reader, const Plan *plan, uint32_t threads) {
    if (!reader->access.concurrent) return 1;
    if (threads == 0) return hri_threads_for(plan->size, BYTES_PER_THREAD);
    uint64_t most = plan->size / BYTES_PER_THREAD;
    return threads < most ? threads : (uint32_t)most;
}

static HurrayStatus read_all(HurrayFileReader *reader, const Plan *plan, uint32_t threads) {
    Work work = {.reader = reader, .plan = plan};
    uint64_t windows = plan->size / WINDOW + (plan->size % WINDOW != 0);
    return hri_parallel(windows, threads_for(reader, plan, threads), read_window, &work);
}

/* ---- the whole ---- */

static HurrayStatus make_tensors(const HurrayFileReader *reader, const uint64_t *indices,
                                 Plan *plan) {
    uint64_t places[HURRAY_MAX_BUFFERS];
    plan->size = 0; /* the same places once more */
    for (; plan->made < plan->count; plan->made++) {
        const HurrayDescriptorFields *fields =
            hurray_descriptor_fields(plan->descriptors[plan->made]);
        HurrayStatus status = place_buffers(fields, plan, places);
        if (status == HURRAY_OK) {
            status = hri_file_tensor(fields, true, plan->block, places, false,
                                     &plan->tensors[plan->made]);
        }
        if (status != HURRAY_OK) {
            return hri_file_fail_in(reader, (uint32_t)indices[plan->made], status);
        }
    }
    return HURRAY_OK;
}

HurrayStatus hri_file_load(HurrayFileReader *reader, const uint64_t *indices, size_t count,
                           uint32_t threads, HurrayTensor **out) {
    Plan plan = {.count = count};
    HurrayStatus status = make_plan(reader, indices, &plan);
    if (status == HURRAY_OK) status = read_all(reader, &plan, threads);
    if (status == HURRAY_OK) status = make_tensors(reader, indices, &plan);
    if (status == HURRAY_OK) {
        for (size_t i = 0; i < count; i++) out[i] = plan.tensors[i];
        plan.made = 0; /* they are the caller's */
    }
    destroy_plan(&plan);
    return status;
}
