/*
 * Opening and mapping files, with the system calls of POSIX.
 *
 * A mapping is private. What this process writes goes to pages of its own; what others write to
 * the file may or may not be seen; and when somebody cuts the file short, touching a page past its
 * new end raises SIGBUS. No check can rule that out, since the file can shrink right after it, so
 * all that is needed to find a tensor is read by calls that fail instead, and only its data lies in
 * the mapping.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* madvise */
#endif
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#ifndef _DARWIN_C_SOURCE
#define _DARWIN_C_SOURCE
#endif

#include "file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checked.h"
#include "fail.h"
#include "io.h"

#if defined(_POSIX_MAPPED_FILES) && _POSIX_MAPPED_FILES > 0
#include <sys/mman.h>
#define HAVE_MAPPING 1
#else
#define HAVE_MAPPING 0
#endif

HurrayStatus hri_file_open(const char *path, int *out_descriptor) {
    int descriptor;
    do {
        descriptor = open(path, O_RDONLY | O_CLOEXEC);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor >= 0) {
        *out_descriptor = descriptor;
        return HURRAY_OK;
    }
    int number = errno;
    char reason[HRI_REASON_SIZE];
    return hri_fail_io(number, "open \"%s\" for reading: %s", path, hri_reason(number, reason));
}

HurrayStatus hri_file_duplicate(int descriptor, int *out_descriptor) {
    int duplicate = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (duplicate >= 0) {
        *out_descriptor = duplicate;
        return HURRAY_OK;
    }
    int number = errno;
    char reason[HRI_REASON_SIZE];
    return hri_fail_io(number, "duplicate descriptor %d: %s", descriptor,
                       hri_reason(number, reason));
}

void hri_file_close(int descriptor) {
    if (descriptor >= 0) close(descriptor); /* nothing was written, so nothing can be lost */
}

HurrayStatus hri_file_size(int descriptor, uint64_t *out_size) {
    struct stat information;
    int number = fstat(descriptor, &information) == 0 ? 0 : errno;
    if (number == 0 && S_ISDIR(information.st_mode)) number = EISDIR;
    if (number == 0 && !S_ISREG(information.st_mode)) number = ESPIPE;
    if (number == 0) {
        *out_size = (uint64_t)information.st_size;
        return HURRAY_OK;
    }
    char reason[HRI_REASON_SIZE];
    return hri_fail_io(number, "size of descriptor %d, which must be a regular file: %s",
                       descriptor, hri_reason(number, reason));
}

#if HAVE_MAPPING

static void unmap(void *data, void *context) { munmap(data, (size_t)(uintptr_t)context); }

/* MAP_FAILED when refused. */
static void *map_pages(int descriptor, size_t size, bool writable) {
    return mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_PRIVATE, descriptor,
                0);
}

HurrayStatus hri_file_map(int descriptor, uint64_t size, HurrayFileAccess access,
                          HurrayBuffer **out) {
    size_t length;
    *out = NULL;
    if (!checked_size(size, &length)) return HURRAY_OK;
    bool writable = access == HURRAY_FILE_MAP;
    void *data = map_pages(descriptor, length, writable);
    if (data == MAP_FAILED && writable) {
        writable = false;
        data = map_pages(descriptor, length, writable);
    }
    if (data == MAP_FAILED) return HURRAY_OK; /* some file systems cannot; reading will do */

    HurrayBufferInfo info = {
        .data = data,
        .byte_size = size,
        .alignment = hurray_measured_alignment(data),
        .flags = writable ? 0 : HURRAY_BUFFER_READ_ONLY,
    };
    HurrayStatus status = hurray_buffer_create(&info, unmap, (void *)(uintptr_t)length, out);
    if (status != HURRAY_OK) munmap(data, length);
    return status;
}

#else

HurrayStatus hri_file_map(int descriptor, uint64_t size, HurrayFileAccess access,
                          HurrayBuffer **out) {
    (void)descriptor, (void)size, (void)access;
    *out = NULL;
    return HURRAY_OK;
}

#endif

/* ---- reading ahead ---- */

#if HAVE_MAPPING && defined(MADV_WILLNEED)

/* Linux takes no more from one call than it reads ahead of who reads in sequence, 128 KiB by default;
 * of a longer range it would leave out the rest. */
#define PREFETCH_SIZE ((size_t)128 << 10)
/* Bytes between two looks at whether to go on: the calls wait when a disk has enough to do. */
#define PREFETCH_CHECK ((size_t)64 << 20)

HurrayStatus hri_file_prefetch(const HurrayBuffer *mapping, bool (*interrupted)(void *context),
                               void *context) {
    const HurrayBufferInfo *info = hurray_buffer_info(mapping);
    size_t size = (size_t)info->byte_size;
    for (size_t done = 0; done < size; done += PREFETCH_SIZE) {
        if (done != 0 && done % PREFETCH_CHECK == 0) {
            HurrayStatus status = hri_interrupted(interrupted, context, "reading ahead");
            if (status != HURRAY_OK) return status;
        }
        size_t length = size - done < PREFETCH_SIZE ? size - done : PREFETCH_SIZE;
        /* Advice: where it is refused, the pages come when they are touched. */
        if (madvise((uint8_t *)info->data + done, length, MADV_WILLNEED) != 0) break;
    }
    return HURRAY_OK;
}

#else

HurrayStatus hri_file_prefetch(const HurrayBuffer *mapping, bool (*interrupted)(void *context),
                               void *context) {
    (void)mapping, (void)interrupted, (void)context;
    return HURRAY_OK;
}

#endif
