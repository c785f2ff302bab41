/* A file reader from inside: what its files share. */
#ifndef HURRAY_SRC_FILE_READER_H
#define HURRAY_SRC_FILE_READER_H

#include <hurray/file_reader.h>
#include <pthread.h>
#include <stdatomic.h>

#include "file_index.h"

struct HurrayFileReader {
    HurrayRandomAccess access;     /* all bytes but those of shared tensors come from here */
    pthread_mutex_t one_at_a_time; /* held around access.read_at unless that is concurrent */
    HurrayOpenFile file;           /* descriptor -1 where there is none */
    HurrayBuffer *bytes; /* a mapping, or the memory of the file; NULL: there is neither */
    bool shares;         /* tensors lie in `bytes`; else they are read */
    bool read_only;      /* whatever `bytes` allow */
    HurrayFileReaderOptions options;
    HurrayAllocator allocator; /* what options.allocator points to, if it does */
    HurrayFileInfo info;
    FileIndex index;
    _Atomic(HurrayKeyValues *) metadata; /* NULL until it is asked for */
};

/* Fills all of `size` bytes from `offset`; within the file as it was when it was opened. */
HurrayStatus hri_file_read(HurrayFileReader *reader, uint64_t offset, uint8_t *bytes, size_t size);

/* HURRAY_ERR_FILE_INVALID when options.check_size is set and the file is shorter than it was. */
HurrayStatus hri_file_check_size(const HurrayFileReader *reader);

/* HURRAY_ERR_INDEX_OUT_OF_BOUNDS unless there is an entry `index`. */
HurrayStatus hri_file_check_entry(const HurrayFileReader *reader, uint64_t index);

/* The descriptor of an entry < count, checked against the index, and where each of its buffers
 * begins in the file (u64[HURRAY_MAX_BUFFERS]). */
HurrayStatus hri_file_descriptor(HurrayFileReader *reader, uint32_t entry, HurrayDescriptor **out,
                                 uint64_t *out_offsets);

/* HURRAY_ERR_INVALID_ARGUMENT for the head of a composite. */
HurrayStatus hri_file_check_tensor(const HurrayFileReader *reader, uint32_t entry,
                                   const HurrayDescriptorFields *fields);

/*
 * A tensor of `fields`, which are not checked again when they are `valid`, and whose buffer i lies
 * `offsets[i]` bytes into `owner`, host memory that they keep alive. What the handles say is kept, but for an alignment that the address does not
 * have. Buffers of other devices are staged on the host. They are read-only where `owner` is, or when
 * `read_only`.
 */
HurrayStatus hri_file_tensor(const HurrayDescriptorFields *fields, bool valid, HurrayBuffer *owner,
                             const uint64_t *offsets, bool read_only, HurrayTensor **out);

/* hurray_file_reader_tensors by reading, arguments being checked. */
HurrayStatus hri_file_load(HurrayFileReader *reader, const uint64_t *indices, size_t count,
                           uint32_t threads, HurrayTensor **out);

/* Says the last failure again, with the entry in front; the status is the same. */
HurrayStatus hri_file_fail_in(const HurrayFileReader *reader, uint32_t entry, HurrayStatus status);

#endif
