/*
 * Tensors read into memory: one block for all of them, filled in chunks by as many threads as help.
 *
 * The plan is made first: where in the block each buffer lies, so that a buffer of a page and more
 * begins at a page and a smaller one at a cache line. Then the chunks are read, in order, by
 * whoever is free. What a thread's failure says is carried to the thread that asked.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* _SC_NPROCESSORS_ONLN */
#endif

#include "file_reader.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "checked.h"
#include "fail.h"
#include "io.h"

/* Bytes that one call reads: enough for the cost of a call not to count, and to give every thread
 * some. */
#define CHUNK_SIZE ((uint64_t)4 << 20)
/* Bytes for which another thread is worth its start. */
#define BYTES_PER_THREAD ((uint64_t)16 << 20)
/* What `threads` 0 goes up to: more do not read faster from one device. */
#define MAX_AUTOMATIC_THREADS 8u
#define MAX_THREADS 64u

/* ---- the plan ---- */

typedef struct Chunk {
    uint64_t offset; /* in the file */
    uint64_t place;  /* in the block */
    size_t size;
} Chunk;

typedef struct Plan {
    HurrayDescriptor **descriptors; /* [count] */
    HurrayTensor **tensors;         /* [count] */
    size_t count, described, made;  /* how many there are to be, and are */
    Chunk *chunks;
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

/* Cuts one buffer into chunks. */
static HurrayStatus add_chunks(Plan *plan, uint64_t offset, uint64_t place, uint64_t size) {
    HurrayStatus status = HURRAY_OK;
    for (uint64_t done = 0; status == HURRAY_OK && done < size; done += CHUNK_SIZE) {
        uint64_t left = size - done;
        size_t length = (size_t)(left < CHUNK_SIZE ? left : CHUNK_SIZE);
        status = add_chunk(plan, (Chunk){offset + done, place + done, length});
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
    atomic_size_t next; /* chunk that nobody has taken */
    atomic_bool failed; /* nobody need go on */
    pthread_mutex_t lock;
    HurrayStatus status; /* the first failure, under the lock, … */
    int number;          /* … its errno */
    char message[512];   /* … and what it said */
} Work;

static void fail_work(Work *work, HurrayStatus status) {
    pthread_mutex_lock(&work->lock);
    if (work->status == HURRAY_OK) {
        work->status = status;
        work->number = hurray_error_number();
        snprintf(work->message, sizeof work->message, "%s", hurray_error_message());
    }
    pthread_mutex_unlock(&work->lock);
    atomic_store(&work->failed, true);
}

/* Reads chunks until there are none. Only the thread that asked may be `interrupted`. */
static void read_chunks(Work *work, const HurrayRandomAccess *access, bool asked) {
    const Plan *plan = work->plan;
    const HurrayFileReaderOptions *options = &work->reader->options;
    uint8_t *block = hurray_buffer_info(plan->block)->data;
    while (!atomic_load(&work->failed)) {
        size_t i = atomic_fetch_add(&work->next, 1);
        if (i >= plan->chunk_count) return;
        const Chunk *chunk = &plan->chunks[i];
        HurrayStatus status = HURRAY_OK;
        /* Reading a file is never interrupted by itself. */
        if (asked && i != 0) {
            status = hri_interrupted(options->interrupted, options->interrupt_context, "reading");
        }
        if (status == HURRAY_OK) {
            uint8_t *bytes = block + (size_t)chunk->place;
            status = asked ? hri_file_read(work->reader, chunk->offset, bytes, chunk->size)
                           : access->read_at(chunk->offset, bytes, chunk->size, access->context);
        }
        if (status != HURRAY_OK) {
            fail_work(work, status);
            return;
        }
    }
}

static void *help(void *context) {
    Work *work = context;
    HurrayRandomAccess access = work->reader->access;
    HurrayOpenFile quiet = work->reader->file;
    quiet.interrupted = NULL;
    if (access.context == &work->reader->file) access.context = &quiet;
    read_chunks(work, &access, false);
    return NULL;
}

static uint32_t helpers_for(const HurrayFileReader *reader, const Plan *plan, uint32_t threads) {
    if (!reader->access.concurrent) return 0;
    uint64_t most = plan->size / BYTES_PER_THREAD;
    if (threads == 0) {
        long processors = sysconf(_SC_NPROCESSORS_ONLN);
        threads = processors < 1 ? 1 : (uint32_t)processors;
        if (threads > MAX_AUTOMATIC_THREADS) threads = MAX_AUTOMATIC_THREADS;
    }
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    if (most > plan->chunk_count) most = plan->chunk_count;
    if (threads > most) threads = (uint32_t)most;
    return threads == 0 ? 0 : threads - 1;
}

/* Starts up to `count`; signals are for the threads of the caller. Fewer will do as well. */
static uint32_t start_helpers(Work *work, uint32_t count, pthread_t *helpers) {
    sigset_t all, before;
    uint32_t started = 0;
    sigfillset(&all);
    if (count == 0 || pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return 0;
    while (started < count && pthread_create(&helpers[started], NULL, help, work) == 0) started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static HurrayStatus read_all(HurrayFileReader *reader, const Plan *plan, uint32_t threads) {
    Work work = {.reader = reader, .plan = plan};
    if (plan->chunk_count == 0) return HURRAY_OK;
    if (pthread_mutex_init(&work.lock, NULL) != 0) return hri_fail_memory(sizeof work.lock);
    atomic_init(&work.next, 0);
    atomic_init(&work.failed, false);
    pthread_t helpers[MAX_THREADS];
    uint32_t started = start_helpers(&work, helpers_for(reader, plan, threads), helpers);
    read_chunks(&work, &reader->access, true);
    while (started > 0) pthread_join(helpers[--started], NULL);
    pthread_mutex_destroy(&work.lock);
    if (work.status == HURRAY_OK) return HURRAY_OK;
    if (work.status == HURRAY_ERR_IO) return hri_fail_io(work.number, "%s", work.message);
    return hri_fail(work.status, "%s", work.message);
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
            status =
                hri_file_tensor(fields, plan->block, places, false, &plan->tensors[plan->made]);
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
