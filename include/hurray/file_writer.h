/*
 * Named tensors into a file (spec 4), in one forward pass, with nothing kept in memory but the index.
 *
 *     HurrayFileWriter *writer;
 *     hurray_file_writer_open("model.hrry", NULL, &writer);
 *     hurray_file_writer_add(writer, "weight", 6, tensor);
 *     status = hurray_file_writer_finish(writer);
 *     hurray_file_writer_destroy(&writer);            without finish: nothing has happened
 *
 * On a path the file is written under a temporary name beside it, flushed to the disk and renamed
 * when it is finished, so that the old file is whole until the new one is, and nothing is left of
 * one that failed. Where the system can, the disk begins to write while the file is being made, so
 * that little is left to flush in the end.
 *
 * A composite is its head, then its members, in the order of hurray_composite_validator.
 */
#ifndef HURRAY_FILE_WRITER_H
#define HURRAY_FILE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "descriptor.h"
#include "io.h"
#include "key_value.h"
#include "status.h"
#include "tensor.h"

HURRAY_BEGIN_DECLS

/* Bytes. The least and the most that data buffers can be aligned to in a file. */
#define HURRAY_FILE_MIN_ALIGNMENT 4096u
#define HURRAY_FILE_MAX_ALIGNMENT 2097152u
/* Bytes of a name, 1 … this. */
#define HURRAY_MAX_NAME_LENGTH 65535u
/* The KV entry that holds a CRC-32C (u32, little-endian) for the data of each tensor (spec 8.12). */
#define HURRAY_CHECKSUMS_KEY "hurray.crc32c"

typedef struct HurrayFileWriter HurrayFileWriter;

/* Zero is the default for all. */
typedef struct HurrayFileWriterOptions {
    uint32_t alignment;     /* of data buffers: a power of two, 4096 … 2097152; 0: 4096 */
    bool sorted_index;      /* by name, for readers that search */
    bool no_index_checksum; /* leave HAS_INDEX_CRC32C clear */
    bool checksums;         /* add HURRAY_CHECKSUMS_KEY */
    uint64_t tensor_count;  /* a hint for readers; 0: unknown */
    /* Copied, but for HURRAY_CHECKSUMS_KEY: such an entry is about the file that the list comes from.
     * NULL or empty: no KV section. */
    const HurrayKeyValues *metadata;
    bool no_sync; /* on a path: rename without waiting for the disk */
    /* On a path: see HurrayOpenFile; called every 8 MiB. */
    bool (*interrupted)(void *context);
    void *interrupt_context;
} HurrayFileWriterOptions;

/*
 * Begins a file at `path`, which is replaced when it is finished; where it is a symbolic link, its
 * target is. An existing file's mode is kept. A pipe or a device is written to as it is, and keeps
 * what it got. HURRAY_ERR_IO for what the system refuses (a missing or read-only directory, a
 * directory as target, …), HURRAY_ERR_INVALID_ARGUMENT for an alignment.
 */
HURRAY_API HurrayStatus hurray_file_writer_open(const char *path,
                                                const HurrayFileWriterOptions *options,
                                                HurrayFileWriter **out);
/* Begins a file that goes to `sink`, copied, as it is made. */
HURRAY_API HurrayStatus hurray_file_writer_create(const HurraySink *sink,
                                                  const HurrayFileWriterOptions *options,
                                                  HurrayFileWriter **out);

/*
 * Writes a tensor, whose bytes must be readable or staged on the host (HURRAY_ERR_UNSUPPORTED names
 * device or sync mode). `name` NULL, for members of a composite only: "{head}.{i}".
 * HURRAY_ERR_INVALID_ARGUMENT for a name that is empty, too long, not UTF-8 or there already;
 * HURRAY_ERR_INTERNAL for a member that breaks a rule of its composite, HURRAY_ERR_CLOSED after
 * finish. What was refused leaves the file as it was and the writer usable. After a failure of the
 * sink, and inside a composite that a broken rule leaves torn, it only fails: HURRAY_ERR_CLOSED.
 */
HURRAY_API HurrayStatus hurray_file_writer_add(HurrayFileWriter *writer, const char *name,
                                               size_t name_length, const HurrayTensor *tensor);
/* One of many tensors: arguments of hurray_file_writer_add. */
typedef struct HurrayFileItem {
    const char *name;
    size_t name_length;
    const HurrayTensor *tensor;
} HurrayFileItem;
/*
 * Writes `count` tensors as hurray_file_writer_add does one after another, small ones in common calls
 * of the sink. Ends at the first that is refused; `*out_added`, also then, is how many came before it
 * and are written. After a failure of the sink it tells nothing.
 */
HURRAY_API HurrayStatus hurray_file_writer_add_many(HurrayFileWriter *writer,
                                                    const HurrayFileItem *items, size_t count,
                                                    size_t *out_added);
/* Writes the head of a composite; its members are to follow. */
HURRAY_API HurrayStatus hurray_file_writer_add_head(HurrayFileWriter *writer, const char *name,
                                                    size_t name_length,
                                                    const HurrayDescriptorFields *head);

/*
 * Adds metadata that was not known when the file was begun, as hurray_key_values_add does. (The
 * header, long written, then does not announce it, unless options.metadata or checksums did.)
 */
HURRAY_API HurrayStatus hurray_file_writer_add_metadata(HurrayFileWriter *writer,
                                                        const HurrayKeyValue *entry);

/* Bytes written so far, padding included. */
HURRAY_API uint64_t hurray_file_writer_position(const HurrayFileWriter *writer);

/*
 * Writes index and trailer; on a path, flushes and renames. HURRAY_ERR_INTERNAL inside a composite,
 * whose members may still follow; HURRAY_ERR_CLOSED a second time.
 *
 * After any other failure the old file is still there and the temporary one gone, with two
 * exceptions, whose messages say so: where the system refuses to rename, the temporary file stays
 * and is named; where it fails to flush the directory, the new file is in its place, but may not
 * survive a power cut.
 */
HURRAY_API HurrayStatus hurray_file_writer_finish(HurrayFileWriter *writer);
/* Frees it and nulls the pointer; on a path that was not finished, removes the temporary file. */
HURRAY_API HurrayStatus hurray_file_writer_destroy(HurrayFileWriter **writer);

HURRAY_END_DECLS

#endif
