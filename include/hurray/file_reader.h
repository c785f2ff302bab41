/*
 * Named tensors out of a file (spec 4), by index: opening reads header, trailer and index, and checks
 * all that spec 4.6 demands of them; a tensor costs its own bytes, when it is asked for.
 *
 *     HurrayFileReader *reader;
 *     uint64_t entry;
 *     hurray_file_reader_open("model.hrry", NULL, &reader);
 *     hurray_file_reader_find(reader, "weight", 6, &entry);
 *     hurray_file_reader_tensor(reader, entry, &tensor);    keeps the mapping alive by itself
 *     hurray_file_reader_destroy(&reader);
 *
 * A reader may be used by several threads at once.
 */
#ifndef HURRAY_FILE_READER_H
#define HURRAY_FILE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "descriptor.h"
#include "io.h"
#include "key_value.h"
#include "status.h"
#include "tensor.h"

HURRAY_BEGIN_DECLS

typedef struct HurrayFileReader HurrayFileReader;

/*
 * How the bytes of tensors get into memory. A buffer keeps the alignment that its descriptor
 * declares, or declares less where its address has less, at least 64. Buffers of other devices are
 * host bytes that stand in for them (HURRAY_BUFFER_STAGED_ON_HOST).
 *
 * Header, index, descriptors and metadata are always read, by calls that fail; only data lie in a
 * mapping. When a mapped file is cut short, touching data past its new end raises SIGBUS, which
 * kills a process that does not handle it: nothing can rule that out but HURRAY_FILE_READ.
 * `check_size` turns it into an error for files that shrank before a tensor was asked for. A file
 * that is replaced, as file_writer.h does it, stays whole for those who have mapped it.
 */
typedef enum HurrayFileAccess {
    /* Mapped, private and writable: a write changes a page of this process, never the file. Where
     * the system refuses a mapping of that size, as MAP_READ_ONLY; where it cannot map, as READ. */
    HURRAY_FILE_MAP,
    /* Mapped; tensors are read-only. Where the system cannot map, as READ. */
    HURRAY_FILE_MAP_READ_ONLY,
    /* Read into aligned memory that the tensor owns. */
    HURRAY_FILE_READ
} HurrayFileAccess;

/* Zero is the default for all. */
typedef struct HurrayFileReaderOptions {
    HurrayFileAccess access;
    /* Before a tensor is handed out, ask the system for the file's size again: a file that was cut
     * short gives HURRAY_ERR_FILE_INVALID instead of a signal (unless it shrinks later still). */
    bool check_size;
    /* Have the system read the whole mapping ahead as soon as it is there. That waits until the disk
     * has taken the requests, not for the last of them. */
    bool prefetch;
    const HurrayAllocator *allocator; /* HURRAY_FILE_READ; NULL: the default one; copied */
    HurrayDecodeOptions decode;       /* known_layout_ids must outlive the reader */
    /* See HurrayOpenFile; also called between pieces of what HURRAY_FILE_READ reads, on threads that
     * called a function here. */
    bool (*interrupted)(void *context);
    void *interrupt_context;
} HurrayFileReaderOptions;

/* What the index says of a tensor. `name` is borrowed from the reader. */
typedef struct HurrayFileEntry {
    const char *name;
    uint32_t name_length;
    uint32_t descriptor_length;
    uint64_t descriptor_offset;
    uint64_t data_offset;
    uint64_t data_length;
} HurrayFileEntry;

/* What the header says. */
typedef struct HurrayFileInfo {
    uint8_t version_major, version_minor;
    uint32_t flags;     /* bit 0 HAS_KV_METADATA, 1 SORTED_INDEX, 2 HAS_INDEX_CRC32C */
    uint32_t alignment; /* of data buffers, bytes */
    uint64_t size;      /* of the file, bytes */
    uint64_t tensor_count_hint;
    uint64_t index_offset, index_length, metadata_offset;
    uint32_t metadata_length;
} HurrayFileInfo;

/* HURRAY_ERR_IO for what the system refuses and for what is no regular file, HURRAY_ERR_FILE_INVALID
 * for what spec 4.6 rejects. */
HURRAY_API HurrayStatus hurray_file_reader_open(const char *path,
                                                const HurrayFileReaderOptions *options,
                                                HurrayFileReader **out);
/* The file behind a descriptor, which may be closed afterwards (it is duplicated). */
HURRAY_API HurrayStatus hurray_file_reader_open_descriptor(int descriptor,
                                                           const HurrayFileReaderOptions *options,
                                                           HurrayFileReader **out);
/* A file that is in memory of the CPU: tensors share the buffer, writable where it is unless the
 * access is HURRAY_FILE_MAP_READ_ONLY; for HURRAY_FILE_READ they are copied. Takes a reference of its
 * own. HURRAY_ERR_UNSUPPORTED for other memory. Memory that is not 64-aligned makes no buffer: see
 * hurray_file_reader_open_callbacks. */
HURRAY_API HurrayStatus hurray_file_reader_open_memory(HurrayBuffer *bytes,
                                                       const HurrayFileReaderOptions *options,
                                                       HurrayFileReader **out);
/* Read by callback, as HURRAY_FILE_READ whatever the access says. Reads what is needed, no more:
 * header, trailer and index, then the descriptor and data of what is asked for. One call at a time
 * unless access->concurrent. */
HURRAY_API HurrayStatus hurray_file_reader_open_callbacks(const HurrayRandomAccess *access,
                                                          const HurrayFileReaderOptions *options,
                                                          HurrayFileReader **out);
/* Frees it and nulls the pointer; a pointer to NULL is fine. Tensors stay. */
HURRAY_API HurrayStatus hurray_file_reader_destroy(HurrayFileReader **reader);

HURRAY_API const HurrayFileInfo *hurray_file_reader_info(const HurrayFileReader *reader);
/* The number of entries, members of composites included. */
HURRAY_API uint64_t hurray_file_reader_count(const HurrayFileReader *reader);
/* Entry `index`, in the order of the index. HURRAY_ERR_INDEX_OUT_OF_BOUNDS. */
HURRAY_API HurrayStatus hurray_file_reader_entry(const HurrayFileReader *reader, uint64_t index,
                                                 HurrayFileEntry *out);
/* HURRAY_ERR_NOT_FOUND. Binary search in a sorted index, a hash table otherwise. */
HURRAY_API HurrayStatus hurray_file_reader_find(const HurrayFileReader *reader, const char *name,
                                                size_t name_length, uint64_t *out_index);
/* The entry at `position` when they are ordered by descriptor_offset: the order of writing. */
HURRAY_API HurrayStatus hurray_file_reader_in_order(const HurrayFileReader *reader,
                                                    uint64_t position, uint64_t *out_index);

/* The metadata, decoded the first time; valid as long as the reader. An empty list where the file
 * has none. */
HURRAY_API HurrayStatus hurray_file_reader_metadata(HurrayFileReader *reader,
                                                    const HurrayKeyValues **out);

/* The descriptor of an entry, checked against the index; freed with hurray_descriptor_destroy. */
HURRAY_API HurrayStatus hurray_file_reader_descriptor(HurrayFileReader *reader, uint64_t index,
                                                      HurrayDescriptor **out);
/* The tensor of an entry. HURRAY_ERR_INVALID_ARGUMENT for a head: see hurray_file_reader_item. */
HURRAY_API HurrayStatus hurray_file_reader_tensor(HurrayFileReader *reader, uint64_t index,
                                                  HurrayTensor **out);
/*
 * `count` tensors at once, reading with up to `threads` threads (0: as many as help; at most 64)
 * when the access is HURRAY_FILE_READ: they share one block of memory, which lives until the last of
 * them is gone. In it buffers of 4096 bytes and more are 4096-aligned, smaller ones as they declare,
 * at least 64. All or none: on failure `out` is untouched.
 */
HURRAY_API HurrayStatus hurray_file_reader_tensors(HurrayFileReader *reader,
                                                   const uint64_t *indices, uint64_t count,
                                                   uint32_t threads, HurrayTensor **out);
/*
 * Rows start … stop - 1 of dimension 0 of a row-major tensor without quantization, reading only
 * their bytes. Mapped, the buffer begins up to 63 bytes before them. Rows of sub-byte types must
 * begin at a byte. A shard section is moved along, statistics and member sections are left out.
 * HURRAY_ERR_INDEX_OUT_OF_BOUNDS; HURRAY_ERR_UNSUPPORTED for other tensors, and for a dynamic
 * dimension.
 */
HURRAY_API HurrayStatus hurray_file_reader_rows(HurrayFileReader *reader, uint64_t index,
                                                uint64_t start, uint64_t stop, HurrayTensor **out);
/* The same for the slice start:stop: a negative bound counts from the end, one that is beyond it is
 * cut, and there are no rows when stop is not above start. */
HURRAY_API HurrayStatus hurray_file_reader_slice(HurrayFileReader *reader, uint64_t index,
                                                 int64_t start, int64_t stop, HurrayTensor **out);
/*
 * The item that begins at an entry: itself alone, or the head of a composite with all its members,
 * validated. They stand at positions *out_first … *out_end - 1 of hurray_file_reader_in_order, the
 * head first. HURRAY_ERR_FILE_INVALID when torn, HURRAY_ERR_INTERNAL for a broken rule.
 */
HURRAY_API HurrayStatus hurray_file_reader_item(HurrayFileReader *reader, uint64_t index,
                                                uint64_t *out_first, uint64_t *out_end);
/* The number of items that are no members, and the entries where they begin, in order of writing:
 * finds members without reading any descriptor but those of entries without data. `out` may be
 * NULL. HURRAY_ERR_FILE_INVALID for a torn composite; HURRAY_ERR_BUFFER_TOO_SMALL, with the first
 * `capacity` in `out`. */
HURRAY_API HurrayStatus hurray_file_reader_roots(HurrayFileReader *reader, uint64_t *out,
                                                 uint64_t capacity, uint64_t *out_count);

/*
 * Everything that can be wrong with an entry: its descriptor; padding that is not zero; where the
 * file has checksums (HURRAY_CHECKSUMS_KEY), that of its data (HURRAY_ERR_FILE_INVALID); and
 * hurray_tensor_verify when `deep`.
 */
HURRAY_API HurrayStatus hurray_file_reader_verify(HurrayFileReader *reader, uint64_t index,
                                                  bool deep, HurrayViolation *out);

HURRAY_END_DECLS

#endif
