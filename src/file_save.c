/*
 * Replacing a file as a whole (file_save.h), with the system calls of POSIX.
 *
 * The order is what makes it safe: the data is on the disk before the name points to it, and the
 * name before anyone is told. All paths are absolute from the beginning, since the process may
 * change its directory in between.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700 /* realpath, lstat, readlink, fchmod, fchown, O_CLOEXEC, O_NOFOLLOW */
#endif
#ifndef _DARWIN_C_SOURCE
#define _DARWIN_C_SOURCE /* F_FULLFSYNC */
#endif

#include "file_save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fail.h"
#include "io.h"
#include "write_back.h"

struct HriFileSave {
    HurrayOpenFile file;
    bool sync;
    uint64_t written, begun; /* bytes, and those of them that the disk was told to write */
    char *directory;         /* absolute */
    char *temporary;         /* absolute; NULL: what is at `target` is written to as it is */
    char *target;
};

/* As many symbolic links, one to another, as Linux follows. */
#define MAX_LINKS 40
/* Bytes of one call, and those after which the disk is told to write: few enough to keep it busy while
 * the rest is made and to hear of signals soon, and more than it takes to write well. */
#define PORTION ((size_t)8 << 20)
/* Temporary names that may be taken already. */
#define MAX_ATTEMPTS 100

static HurrayStatus refused(int number, const char *what, const char *path) {
    if (number == ENOMEM) return hri_fail_memory(strlen(path));
    char reason[HRI_REASON_SIZE];
    return hri_fail_io(number, "%s \"%s\": %s", what, path, hri_reason(number, reason));
}

/* directory/name in new memory; NULL where there is none. */
static char *join(const char *directory, const char *name) {
    size_t length = strlen(directory), size = length + strlen(name) + 2;
    bool ends = length != 0 && directory[length - 1] == '/';
    char *path = malloc(size);
    if (path != NULL) snprintf(path, size, "%s%s%s", directory, ends ? "" : "/", name);
    return path;
}

/* Opens, and again after EINTR. −1: `status` says why. */
static int open_again(const HurrayOpenFile *file, const char *path, int flags, mode_t mode,
                      HurrayStatus *status) {
    *status = HURRAY_OK;
    for (;;) {
        int descriptor = open(path, flags, mode);
        if (descriptor >= 0) return descriptor;
        if (errno != EINTR) {
            *status = refused(errno, "open", path);
            return -1;
        }
        *status = hri_interrupted(file->interrupted, file->context, "open");
        if (*status != HURRAY_OK) return -1;
    }
}

/* ---- where to ---- */

/* Cuts `path` behind its directory; gives a copy of the name. "." where it has no directory. */
static HurrayStatus split(const char *path, char **directory, char **name) {
    const char *slash = strrchr(path, '/');
    const char *base = slash == NULL ? path : slash + 1;
    size_t length = slash == NULL ? 0 : (size_t)(base - path);
    char *folder = malloc(length + 2);
    *name = malloc(strlen(base) + 1);
    if (folder == NULL || *name == NULL) {
        free(folder);
        return hri_fail_memory(strlen(path));
    }
    memcpy(folder, length == 0 ? "." : path, length == 0 ? 1 : length);
    folder[length == 0 ? 1 : length] = '\0';
    *directory = folder;
    strcpy(*name, base);
    return HURRAY_OK;
}

/* What the link at `path` points to, in new memory. */
static HurrayStatus follow(const char *path, char **out) {
    char link[4096];
    ssize_t length = readlink(path, link, sizeof link - 1);
    if (length < 0) return refused(errno, "read the link", path);
    if ((size_t)length == sizeof link - 1) return refused(ENAMETOOLONG, "read the link", path);
    link[length] = '\0';
    char *directory = NULL, *name = NULL;
    HurrayStatus status = split(path, &directory, &name);
    if (status == HURRAY_OK) {
        char *target = join(link[0] == '/' ? "" : directory, link + (link[0] == '/'));
        if (target == NULL) {
            status = hri_fail_memory((unsigned long long)length);
        } else {
            *out = target;
        }
    }
    free(name);
    free(directory);
    return status;
}

/* The end of links that lead to nothing yet: the file is made there, as open would. */
static HurrayStatus resolve_dangling(const char *path, char **out) {
    char *at = malloc(strlen(path) + 1);
    if (at == NULL) return hri_fail_memory(strlen(path));
    strcpy(at, path);
    for (int links = 0;; links++) {
        struct stat found;
        if (lstat(at, &found) != 0 || !S_ISLNK(found.st_mode)) {
            *out = at;
            return HURRAY_OK;
        }
        char *next = NULL;
        HurrayStatus status = links < MAX_LINKS ? follow(at, &next) : refused(ELOOP, "write", path);
        free(at);
        if (status != HURRAY_OK) return status;
        at = next;
    }
}

/* The file to replace, without links in its last place; `out_old` is what is there, if anything. */
static HurrayStatus resolve(const char *path, char **out, struct stat *out_old, bool *out_exists) {
    *out_exists = stat(path, out_old) == 0;
    if (!*out_exists) {
        if (errno != ENOENT) return refused(errno, "write", path);
        return resolve_dangling(path, out);
    }
    if (S_ISDIR(out_old->st_mode)) return refused(EISDIR, "write", path);
    char *target;
    if (S_ISREG(out_old->st_mode)) {
        target = realpath(path, NULL);
        if (target == NULL) return refused(errno, "write", path);
    } else {
        /* Links of /proc to pipes have no path that leads there. */
        target = malloc(strlen(path) + 1);
        if (target == NULL) return hri_fail_memory(strlen(path));
        strcpy(target, path);
    }
    *out = target;
    return HURRAY_OK;
}

/* Absolute paths of the directory and of the target in it. */
static HurrayStatus place(HriFileSave *save, const char *resolved) {
    char *directory = NULL, *name = NULL;
    HurrayStatus status = split(resolved, &directory, &name);
    if (status == HURRAY_OK) {
        save->directory = realpath(directory, NULL);
        if (save->directory == NULL) status = refused(errno, "write to the directory", directory);
    }
    if (status == HURRAY_OK && name[0] == '\0') status = refused(EISDIR, "write", resolved);
    if (status == HURRAY_OK) {
        save->target = join(save->directory, name);
        if (save->target == NULL) status = hri_fail_memory(strlen(name));
    }
    free(name);
    free(directory);
    return status;
}

/* ---- the temporary file ---- */

/* A number that nobody else is likely to come upon: clock, process, addresses, and a count. */
static uint64_t unlikely_number(const HriFileSave *save, int attempt) {
    struct timespec now = {0};
    timespec_get(&now, TIME_UTC);
    uint64_t z = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30 ^ (uint64_t)getpid() << 44;
    z ^= (uint64_t)(uintptr_t)save << 8 ^ (uint64_t)(uintptr_t)&now;
    z += UINT64_C(0x9E3779B97F4A7C15) * (uint64_t)(attempt + 1);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static HurrayStatus open_temporary(HriFileSave *save, mode_t mode) {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    for (int attempt = 0;; attempt++) {
        char name[40];
        snprintf(name, sizeof name, ".hurray-%016llx.tmp",
                 (unsigned long long)unlikely_number(save, attempt));
        char *path = join(save->directory, name);
        if (path == NULL) return hri_fail_memory(sizeof name);
        HurrayStatus status;
        save->file.descriptor = open_again(&save->file, path, flags, mode, &status);
        if (status == HURRAY_OK) {
            save->temporary = path;
            return HURRAY_OK;
        }
        free(path);
        if (status != HURRAY_ERR_IO) return status;
        int number = hurray_error_number();
        if (number == EEXIST && attempt < MAX_ATTEMPTS) continue;
        return refused(number, "create a file in", save->directory);
    }
}

/* Owner, as far as this process may, and mode of the file that is replaced. */
static HurrayStatus take_over(const HriFileSave *save, const struct stat *old) {
    struct stat own;
    const mode_t bits = 07777;
    int descriptor = save->file.descriptor;
    if (fstat(descriptor, &own) != 0) return refused(errno, "look at", save->temporary);
    if (own.st_uid != old->st_uid || own.st_gid != old->st_gid) {
        /* Refused to all but the superuser, who would otherwise take files away from others. */
        if (fchown(descriptor, old->st_uid, old->st_gid) == 0) own.st_mode = 0;
    }
    if ((own.st_mode & bits) == (old->st_mode & bits)) return HURRAY_OK;
    if (fchmod(descriptor, old->st_mode & bits) == 0) return HURRAY_OK;
    return refused(errno, "set the mode of", save->temporary);
}

static HurrayStatus begin(HriFileSave *save, const char *path) {
    struct stat old;
    bool exists;
    char *resolved = NULL;
    if (path[0] == '\0') return refused(ENOENT, "write", path);
    HurrayStatus status = resolve(path, &resolved, &old, &exists);
    if (status != HURRAY_OK) return status;
    if (exists && !S_ISREG(old.st_mode)) {
        save->target = resolved;
        save->file.descriptor =
            open_again(&save->file, resolved, O_WRONLY | O_CLOEXEC | O_NOCTTY, 0, &status);
        return status;
    }
    status = place(save, resolved);
    free(resolved);
    /* Never readable for more than the old one is; for a new one, the umask decides. */
    if (status == HURRAY_OK) status = open_temporary(save, exists ? old.st_mode & 0700 : 0666);
    if (status == HURRAY_OK && exists) status = take_over(save, &old);
    return status;
}

HurrayStatus hri_file_save_begin(const char *path, bool (*interrupted)(void *context),
                                 void *context, bool sync, HriFileSave **out) {
    HriFileSave *save = calloc(1, sizeof *save);
    if (save == NULL) return hri_fail_memory(sizeof *save);
    save->file = (HurrayOpenFile){-1, interrupted, context};
    save->sync = sync;
    HurrayStatus status = begin(save, path);
    if (status != HURRAY_OK) {
        hri_file_save_abort(&save);
        return status;
    }
    *out = save;
    return HURRAY_OK;
}

/* ---- writing ---- */

/* What is left to flush in the end is what one waits for; so most is on its way by then. */
static void note_written(size_t bytes, void *context) {
    HriFileSave *save = context;
    save->written += bytes;
    uint64_t waiting = save->written - save->begun;
    if (!save->sync || save->temporary == NULL || waiting < PORTION) return;
    hri_begin_write_back(save->file.descriptor, save->begun, waiting);
    save->begun = save->written;
}

static HurrayStatus write_portions(const HurrayBytes *pieces, uint32_t count, void *context) {
    HriFileSave *save = context;
    return hri_open_file_write(&save->file, pieces, count, PORTION,
                               (HriWritten){note_written, save});
}

HurraySink hri_file_save_sink(HriFileSave *save) { return (HurraySink){write_portions, save}; }

/* ---- the end ---- */

static void release(HriFileSave **save) {
    if ((*save)->file.descriptor >= 0) close((*save)->file.descriptor);
    free((*save)->temporary);
    free((*save)->target);
    free((*save)->directory);
    free(*save);
    *save = NULL;
}

/* The file system, or what is no file, has no notion of flushing. */
static bool is_not_for_syncing(int number) {
    return number == EINVAL || number == ENOTSUP || number == EOPNOTSUPP || number == ENOSYS ||
           number == EROFS;
}

static HurrayStatus sync_to_disk(const HurrayOpenFile *file, const char *path) {
    for (;;) {
#ifdef F_FULLFSYNC
        /* On macOS, fsync leaves the data in the cache of the disk. */
        if (fcntl(file->descriptor, F_FULLFSYNC) == 0) return HURRAY_OK;
#endif
        if (fsync(file->descriptor) == 0 || is_not_for_syncing(errno)) return HURRAY_OK;
        if (errno != EINTR) return refused(errno, "flush to the disk", path);
        HurrayStatus status = hri_interrupted(file->interrupted, file->context, "flushing");
        if (status != HURRAY_OK) return status;
    }
}

/* So that the new name survives a power cut. A directory that must not be read cannot be flushed. */
static HurrayStatus sync_directory(const HriFileSave *save) {
    HurrayOpenFile directory = {.descriptor = open(save->directory, O_RDONLY | O_CLOEXEC)};
    if (directory.descriptor < 0) return HURRAY_OK;
    HurrayStatus status = sync_to_disk(&directory, save->directory);
    close(directory.descriptor);
    return status;
}

/* Network file systems may tell only now that the bytes did not arrive. */
static HurrayStatus close_file(HriFileSave *save) {
    int descriptor = save->file.descriptor;
    save->file.descriptor = -1;
    if (close(descriptor) == 0 || errno == EINTR) return HURRAY_OK;
    return refused(errno, "close", save->temporary == NULL ? save->target : save->temporary);
}

HurrayStatus hri_file_save_commit(HriFileSave **save) {
    HriFileSave *own = *save;
    HurrayStatus status = HURRAY_OK;
    if (own->sync) {
        status = sync_to_disk(&own->file, own->temporary == NULL ? own->target : own->temporary);
    }
    /* Flushing may have taken long, and is not cut short by a signal: the last time to ask. */
    if (status == HURRAY_OK && own->temporary != NULL) {
        status = hri_interrupted(own->file.interrupted, own->file.context, "saving");
    }
    if (status == HURRAY_OK) status = close_file(own);
    if (status != HURRAY_OK) {
        hri_file_save_abort(save);
        return status;
    }
    if (own->temporary != NULL) {
        if (rename(own->temporary, own->target) != 0) {
            char reason[HRI_REASON_SIZE];
            int number = errno;
            status = hri_fail_io(
                number, "the finished file is \"%s\": it could not be renamed to \"%s\": %s",
                own->temporary, own->target, hri_reason(number, reason));
        } else if (own->sync) {
            status = sync_directory(own);
        }
    }
    release(save);
    return status;
}

void hri_file_save_abort(HriFileSave **save) {
    if (*save == NULL) return;
    if ((*save)->temporary != NULL) unlink((*save)->temporary);
    release(save);
}
