/*
 * Saving on a path (src/file_save.c): whatever system call fails or is the last, the old file is there
 * byte for byte or the new one is, and no temporary file stays behind. The linker routes the system
 * calls of the library through the functions below (--wrap, see meson.build).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tensors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hurray/crc32c.h>

/* ---- system calls that do as they are told ---- */

typedef enum Fault {
    NONE,
    FAIL,
    SHORT,
    KILL,
    KILL_HALFWAY
} Fault;

static bool watching;    /* the calls below count */
static int calls;        /* since the count began */
static int at_call = -1; /* this call … */
static Fault fault;      /* … does this, … */
static int number;       /* … with this errno */
static char trace[4096]; /* the calls, by name */
static char failed[32];  /* the call that failed */

static void watch(int call, Fault what, int error) {
    watching = true;
    calls = 0;
    at_call = call;
    fault = what;
    number = error;
    trace[0] = failed[0] = '\0';
}

/* Whether the call is to fail now; `name` is what the trace says. */
static bool fails(const char *name) {
    if (!watching) return false;
    strncat(trace, name, sizeof trace - strlen(trace) - 2);
    strcat(trace, " ");
    if (calls++ != at_call) return false;
    if (fault == KILL) raise(SIGKILL);
    if (fault != FAIL) return false;
    snprintf(failed, sizeof failed, "%s", name);
    errno = number;
    return true;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode) {
    if (fails(flags & O_CREAT ? "create" : "open")) return -1;
    return __real_open(path, flags, mode);
}
int __wrap_open64(const char *path, int flags, mode_t mode) {
    return __wrap_open(path, flags, mode);
}

ssize_t __real_writev(int descriptor, const struct iovec *pieces, int count);
ssize_t __wrap_writev(int descriptor, const struct iovec *pieces, int count);
ssize_t __wrap_writev(int descriptor, const struct iovec *pieces, int count) {
    bool now = watching && calls == at_call;
    if (fails("writev")) return -1;
    if (!now || (fault != SHORT && fault != KILL_HALFWAY)) {
        return __real_writev(descriptor, pieces, count);
    }
    /* A part of the first piece; an error the next time, or the end. */
    struct iovec part = {pieces[0].iov_base, (pieces[0].iov_len + 1) / 2};
    ssize_t written = __real_writev(descriptor, &part, 1);
    if (fault == KILL_HALFWAY) raise(SIGKILL);
    return written;
}

int __real_fsync(int descriptor);
int __wrap_fsync(int descriptor);
int __wrap_fsync(int descriptor) { return fails("fsync") ? -1 : __real_fsync(descriptor); }

int __real_close(int descriptor);
int __wrap_close(int descriptor);
int __wrap_close(int descriptor) {
    bool failing = fails("close");
    int result = __real_close(descriptor);
    if (failing) errno = number;
    return failing ? -1 : result;
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to) {
    return fails("rename") ? -1 : __real_rename(from, to);
}

int __real_fchmod(int descriptor, mode_t mode);
int __wrap_fchmod(int descriptor, mode_t mode);
int __wrap_fchmod(int descriptor, mode_t mode) {
    return fails("fchmod") ? -1 : __real_fchmod(descriptor, mode);
}

/* What the disk was told to write ahead of fsync: so many bytes from the beginning, in so many calls. */
static uint64_t ahead;
static int ahead_calls;
#ifdef SYNC_FILE_RANGE_WRITE
int __wrap_sync_file_range(int descriptor, off_t offset, off_t size, unsigned flags);
int __wrap_sync_file_range(int descriptor, off_t offset, off_t size, unsigned flags) {
    (void)descriptor;
    /* Waiting would take errors away that fsync has to tell. */
    assert_int_equal(flags, SYNC_FILE_RANGE_WRITE);
    assert_true((uint64_t)offset == ahead);
    ahead += (uint64_t)size;
    ahead_calls++;
    errno = EIO; /* nobody cares */
    return -1;
}
#endif

/* ---- a directory ---- */

static char directory[PATH_MAX];
static const char old_content[] = "the old file, which is no container at all";

/* A path that stays as it is for the whole test. */
static const char *in_directory(const char *name) {
    static char paths[16][2 * PATH_MAX];
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    size_t i = 0;
    while (paths[i][0] != '\0' && strcmp(paths[i], path) != 0) assert_true(++i < 16);
    return strcpy(paths[i], path);
}

static int make_directory(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/hurray-test-XXXXXX", base == NULL ? "/tmp" : base);
    fill_tensor_bytes();
    return mkdtemp(path) == NULL || realpath(path, directory) == NULL ? -1 : 0;
}

/* Removes all that is in it; how many files that were. */
static int empty_directory(void) {
    DIR *files = opendir(directory);
    int count = 0;
    assert_non_null(files);
    for (struct dirent *file; (file = readdir(files)) != NULL;) {
        if (strcmp(file->d_name, ".") == 0 || strcmp(file->d_name, "..") == 0) continue;
        char path[2 * PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", directory, file->d_name);
        if (remove(path) != 0) fail_msg("cannot remove %s", path);
        count++;
    }
    closedir(files);
    return count;
}

static int remove_directory(void **state) {
    (void)state;
    watching = false;
    empty_directory();
    return rmdir(directory);
}

static void write_text(const char *path, const char *text, mode_t mode) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* All bytes of a file: 0 when there is none, else a number that tells contents apart. */
static uint32_t sum_of(const char *path) {
    static uint8_t bytes[1 << 17];
    FILE *file = fopen(path, "rb");
    if (file == NULL) return 0;
    size_t size = fread(bytes, 1, sizeof bytes, file);
    assert_true(feof(file));
    fclose(file);
    return hurray_crc32c(1, bytes, size);
}

static mode_t mode_of(const char *path) {
    struct stat about;
    assert_int_equal(lstat(path, &about), 0);
    return about.st_mode & 07777;
}

static int open_descriptors(void) {
    int count = 0;
    for (int i = 0; i < 256; i++) count += fcntl(i, F_GETFD) >= 0;
    return count;
}

/* ---- what is saved ---- */

static HurrayStatus save_with(const char *path, const HurrayFileWriterOptions *options) {
    HurrayFileWriter *writer = NULL;
    HurrayTensor *bytes = make_bytes_tensor(tensor_bytes, 5000), *csr = make_csr_tensor(3);
    HurrayStatus status = hurray_file_writer_open(path, options, &writer);
    if (status == HURRAY_OK) status = add_tensor(writer, "bytes", bytes);
    if (status == HURRAY_OK) status = add_tensor(writer, "csr", csr);
    if (status == HURRAY_OK) status = hurray_file_writer_finish(writer);
    watching = false;
    /* Not expect_ok: the message of a failure is still to be looked at. */
    assert_int_equal(hurray_file_writer_destroy(&writer), HURRAY_OK);
    hurray_tensor_release(csr);
    hurray_tensor_release(bytes);
    return status;
}

static HurrayStatus save(const char *path) { return save_with(path, NULL); }

/* What a file should be like. */
static uint32_t new_sum, old_sum;

static void learn_sums(void) {
    write_text(in_directory("old"), old_content, 0600);
    old_sum = sum_of(in_directory("old"));
    expect_ok(save(in_directory("new")));
    new_sum = sum_of(in_directory("new"));
    assert_true(old_sum != 0 && new_sum != 0 && old_sum != new_sum);
    assert_int_equal(empty_directory(), 2);
}

/* Over an old file; the number of calls. */
static int count_calls(const char *path) {
    write_text(path, old_content, 0640);
    watch(-1, NONE, 0);
    expect_ok(save(path));
    assert_true(sum_of(path) == new_sum);
    assert_int_equal(mode_of(path), 0640);
    assert_int_equal(empty_directory(), 1);
    return calls;
}

/* Flushed before it is renamed, the directory after; nothing is written in between. */
static void order_of_calls(void **state) {
    (void)state;
    learn_sums();
    const char *path = in_directory("file");
    count_calls(path);
    assert_string_equal(trace, "create fchmod writev writev writev writev fsync close rename open "
                               "fsync close ");
    watch(-1, NONE, 0);
    const HurrayFileWriterOptions options = {.no_sync = true};
    expect_ok(save_with(path, &options));
    assert_string_equal(trace, "create writev writev writev writev close rename ");
    assert_int_equal(empty_directory(), 1);
}

/* The message names a file in the directory; it is the new one. */
static void expect_kept_file(void) {
    char name[PATH_MAX];
    const char *from = strstr(hurray_error_message(), directory);
    assert_non_null(from);
    size_t length = strcspn(from, "\"");
    memcpy(name, from, length);
    name[length] = '\0';
    assert_true(sum_of(name) == new_sum);
    assert_int_equal(remove(name), 0);
}

static void every_call_fails(void **state) {
    (void)state;
    static const int numbers[] = {ENOSPC, EIO, EDQUOT, EPERM};
    const char *path = in_directory("file");
    learn_sums();
    int needed = count_calls(path), descriptors = open_descriptors();
    for (int call = 0; call < needed; call++) {
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            write_text(path, old_content, 0640);
            watch(call, FAIL, numbers[i]);
            HurrayStatus status = save(path);
            assert_int_equal(open_descriptors(), descriptors);
            bool renamed = strstr(trace, "rename") != NULL && strcmp(failed, "rename") != 0;
            if (renamed) {
                /* The directory could not be opened, flushed or closed: only flushing matters. */
                assert_true(sum_of(path) == new_sum);
                assert_int_equal(status, strcmp(failed, "fsync") == 0 ? HURRAY_ERR_IO : HURRAY_OK);
            } else {
                assert_int_equal(status, HURRAY_ERR_IO);
                assert_true(sum_of(path) == old_sum);
                assert_int_equal(mode_of(path), 0640);
            }
            if (status != HURRAY_OK) assert_int_equal(hurray_error_number(), numbers[i]);
            if (strcmp(failed, "rename") == 0) expect_kept_file();
            assert_int_equal(empty_directory(), 1);
        }
    }
}

/* There was no file before, and there is none after. */
static void every_call_fails_without_old_file(void **state) {
    (void)state;
    const char *path = in_directory("file");
    learn_sums();
    watch(-1, NONE, 0);
    expect_ok(save(path));
    int needed = calls;
    for (int call = 0; call < needed; call++) {
        empty_directory();
        watch(call, FAIL, EIO);
        HurrayStatus status = save(path);
        bool renamed = strstr(trace, "rename") != NULL && strcmp(failed, "rename") != 0;
        if (strcmp(failed, "rename") == 0) expect_kept_file();
        assert_true(renamed || status == HURRAY_ERR_IO);
        assert_int_equal(empty_directory(), renamed);
    }
}

static int go_ons;
static bool go_on(void *context) {
    (void)context;
    go_ons++;
    return true;
}
static bool give_up(void *context) {
    (void)context;
    return false;
}

static bool give_up_after_flushing(void *context) {
    (void)context;
    return strstr(trace, "fsync") == NULL;
}

/* The last time that a signal is heard is before the new file has its name. */
static void interrupted_before_the_renaming(void **state) {
    (void)state;
    const char *path = in_directory("file");
    const HurrayFileWriterOptions options = {.interrupted = give_up_after_flushing};
    write_text(path, old_content, 0640);
    watch(-1, NONE, 0);
    assert_int_equal(save_with(path, &options), HURRAY_ERR_INTERRUPTED);
    assert_null(strstr(trace, "rename"));
    assert_true(sum_of(path) == old_sum);
    assert_int_equal(empty_directory(), 1);
}

static void interrupted_calls(void **state) {
    (void)state;
    const char *path = in_directory("file");
    const HurrayFileWriterOptions on = {.interrupted = go_on}, off = {.interrupted = give_up};
    learn_sums();
    int needed = count_calls(path);
    for (int call = 0; call < needed; call++) {
        write_text(path, old_content, 0640);
        watch(call, FAIL, EINTR);
        go_ons = 0;
        HurrayStatus status = save_with(path, &on);
        /* What POSIX says cannot be interrupted is an error like any other. */
        if (strcmp(failed, "rename") == 0 || strcmp(failed, "fchmod") == 0) {
            assert_int_equal(status, HURRAY_ERR_IO);
        } else {
            assert_int_equal(status, HURRAY_OK);
            assert_true(sum_of(path) == new_sum);
        }
        empty_directory();
        write_text(path, old_content, 0640);
        watch(call, FAIL, EINTR);
        status = save_with(path, &off);
        if (strcmp(failed, "writev") == 0 || strcmp(failed, "create") == 0) {
            assert_int_equal(status, HURRAY_ERR_INTERRUPTED);
            assert_true(sum_of(path) == old_sum);
            assert_int_equal(empty_directory(), 1);
        }
        empty_directory();
    }
}

#define MIB ((uint64_t)1 << 20)

static HurrayStatus save_much(const HurrayFileWriterOptions *options) {
    uint8_t *zeros = hurray_aligned_alloc(30 * MIB, 64, true);
    HurrayTensor *small = make_bytes_tensor(zeros, 3 * MIB),
                 *large = make_bytes_tensor(zeros, 30 * MIB);
    HurrayFileWriter *writer = NULL;
    ahead = 0;
    ahead_calls = go_ons = 0;
    HurrayStatus status = hurray_file_writer_open(in_directory("much"), options, &writer);
    for (int i = 0; status == HURRAY_OK && i < 7; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        status = add_tensor(writer, name, i == 3 ? large : small);
    }
    if (status == HURRAY_OK) status = hurray_file_writer_finish(writer);
    assert_int_equal(hurray_file_writer_destroy(&writer), HURRAY_OK);
    hurray_tensor_release(large);
    hurray_tensor_release(small);
    hurray_aligned_free(zeros);
    return status;
}

/* Of 48 MiB the disk is told from 8 MiB to 8 MiB, all but the rest; and signals are heard as often. */
static void begun_before_the_end(void **state) {
    (void)state;
    const HurrayFileWriterOptions on = {.interrupted = go_on};
    const HurrayFileWriterOptions no_sync = {.no_sync = true};
    expect_ok(save_much(&on));
    assert_true(go_ons >= 3); /* within the large one */
#ifdef SYNC_FILE_RANGE_WRITE
    assert_true(ahead > 38 * MIB && ahead < 49 * MIB && ahead_calls >= 4 && ahead_calls <= 6);
#endif
    expect_ok(save_much(&no_sync));
    assert_int_equal(ahead_calls, 0);
    assert_int_equal(empty_directory(), 1);
}

static bool give_up_at_the_second(void *context) { return ++*(int *)context < 2; }

static void interrupted_in_a_large_tensor(void **state) {
    (void)state;
    int asked = 0;
    const HurrayFileWriterOptions options = {.interrupted = give_up_at_the_second,
                                             .interrupt_context = &asked};
    assert_int_equal(save_much(&options), HURRAY_ERR_INTERRUPTED);
    assert_int_equal(asked, 2);
    assert_int_equal(empty_directory(), 0);
}

static void short_writes(void **state) {
    (void)state;
    const char *path = in_directory("file");
    learn_sums();
    int needed = count_calls(path);
    for (int call = 0; call < needed; call++) {
        write_text(path, old_content, 0640);
        watch(call, SHORT, 0);
        expect_ok(save(path));
        assert_true(sum_of(path) == new_sum);
        assert_int_equal(empty_directory(), 1);
    }
}

/* Nobody can clean up after SIGKILL; but the file is the old or the new one, whole. */
static void killed_at_every_call(void **state) {
    (void)state;
    const char *path = in_directory("file");
    learn_sums();
    int needed = count_calls(path);
    for (int call = 0; call < needed; call++) {
        for (int halfway = 0; halfway < 2; halfway++) {
            write_text(path, old_content, 0640);
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                watch(call, halfway ? KILL_HALFWAY : KILL, 0);
                _exit(save(path) == HURRAY_OK ? 0 : 1);
            }
            int how;
            assert_int_equal(waitpid(child, &how, 0), child);
            if (!halfway) assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
            uint32_t sum = sum_of(path);
            assert_true(sum == old_sum || sum == new_sum);
            assert_true(sum == new_sum || WIFSIGNALED(how));
            empty_directory();
        }
    }
}

static void given_up(void **state) {
    (void)state;
    const char *path = in_directory("file");
    HurrayFileWriter *writer = NULL;
    HurrayTensor *tensor = make_bytes_tensor(tensor_bytes, 10);
    learn_sums();
    write_text(path, old_content, 0640);
    expect_ok(hurray_file_writer_open(path, NULL, &writer));
    expect_ok(add_tensor(writer, "t", tensor));
    expect_ok(hurray_file_writer_destroy(&writer));
    assert_true(sum_of(path) == old_sum);
    assert_int_equal(empty_directory(), 1);
    hurray_tensor_release(tensor);
}

/* ---- where to ---- */

static void refuse(const char *path, int expected) {
    HurrayFileWriter *writer = NULL;
    expect_failure(HURRAY_ERR_IO, hurray_file_writer_open(path, NULL, &writer));
    if (hurray_error_number() != expected) {
        fail_msg("%s: errno %d, expected %d", path, hurray_error_number(), expected);
    }
    assert_null(writer);
}

static void refused_paths(void **state) {
    (void)state;
    static char longest[5000];
    memset(longest, 'n', sizeof longest - 1);
    const char *file = in_directory("file");
    refuse(directory, EISDIR);
    refuse("/", EISDIR);
    refuse(".", EISDIR);
    refuse("", ENOENT);
    refuse(in_directory("missing/file"), ENOENT);
    refuse(in_directory("missing/"), ENOENT);
    refuse(longest, ENAMETOOLONG);
    write_text(file, old_content, 0600);
    refuse(in_directory("file/file"), ENOTDIR);
    assert_int_equal(symlink("loop", in_directory("loop")), 0);
    refuse(in_directory("loop"), ELOOP);
    assert_int_equal(empty_directory(), 2);
}

/* As nobody, since the superuser may write anywhere. */
static void read_only_directory(void **state) {
    (void)state;
    const char *path = in_directory("file");
    learn_sums();
    write_text(path, old_content, 0666);
    assert_int_equal(chmod(directory, 0555), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(2);
        bool refused = save(path) == HURRAY_ERR_IO && hurray_error_number() == EACCES;
        _exit(refused ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(chmod(directory, 0755), 0);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    assert_true(sum_of(path) == old_sum);
    assert_int_equal(empty_directory(), 1);
}

static void links(void **state) {
    (void)state;
    const char *path = in_directory("file"), *link = in_directory("link");
    learn_sums();
    write_text(path, old_content, 0604);
    assert_int_equal(symlink("file", in_directory("near")), 0);
    assert_int_equal(symlink(in_directory("near"), link), 0);
    expect_ok(save(link));
    assert_true(sum_of(path) == new_sum);
    assert_int_equal(mode_of(path), 0604);
    char target[PATH_MAX] = "";
    assert_true(readlink(in_directory("near"), target, sizeof target) == 4);
    assert_true(readlink(link, target, sizeof target) > 4);
    assert_int_equal(empty_directory(), 3);

    /* They lead to nothing yet. */
    assert_int_equal(symlink("file", in_directory("near")), 0);
    link = in_directory("link");
    assert_int_equal(symlink(in_directory("near"), link), 0);
    expect_ok(save(link));
    assert_true(sum_of(in_directory("file")) == new_sum);
    assert_int_equal(empty_directory(), 3);
}

static void modes(void **state) {
    (void)state;
    static const mode_t kept[] = {0600, 0644, 0666, 0400, 0777, 0000};
    const char *path = in_directory("file");
    mode_t before = umask(027);
    expect_ok(save(path));
    assert_int_equal(mode_of(path), 0640);
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        assert_int_equal(chmod(path, kept[i]), 0);
        expect_ok(save(path));
        assert_int_equal(mode_of(path), kept[i]);
    }
    umask(before);
    assert_int_equal(empty_directory(), 1);
}

/* A path counts from where the process was when it named it. */
static void change_of_directory(void **state) {
    (void)state;
    char before[PATH_MAX];
    learn_sums();
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(directory), 0);
    HurrayFileWriter *writer = NULL;
    expect_ok(hurray_file_writer_open("file", NULL, &writer));
    assert_int_equal(chdir("/"), 0);
    expect_ok(hurray_file_writer_finish(writer));
    expect_ok(hurray_file_writer_destroy(&writer));
    assert_int_equal(chdir(before), 0);
    assert_true(sum_of(in_directory("file")) != 0);
    assert_int_equal(empty_directory(), 1);
}

/* Written to as they are, and still there. */
static void devices_and_pipes(void **state) {
    (void)state;
    struct stat about;
    learn_sums();
    expect_ok(save("/dev/null"));
    assert_true(stat("/dev/null", &about) == 0 && S_ISCHR(about.st_mode));
    if (stat("/dev/full", &about) == 0) {
        expect_failure(HURRAY_ERR_IO, save("/dev/full"));
        assert_int_equal(hurray_error_number(), ENOSPC);
        assert_true(stat("/dev/full", &about) == 0 && S_ISCHR(about.st_mode));
    }
    const char *pipe = in_directory("pipe"), *file = in_directory("file");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    pid_t child = fork();
    if (child == 0) _exit(save(pipe) == HURRAY_OK ? 0 : 1);
    uint32_t sum = sum_of(pipe);
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    assert_true(sum == new_sum);
    assert_true(lstat(pipe, &about) == 0 && S_ISFIFO(about.st_mode));
    assert_true(sum_of(file) == 0);
    assert_int_equal(empty_directory(), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_of_calls),
        cmocka_unit_test(every_call_fails),
        cmocka_unit_test(every_call_fails_without_old_file),
        cmocka_unit_test(interrupted_before_the_renaming),
        cmocka_unit_test(interrupted_calls),
        cmocka_unit_test(begun_before_the_end),
        cmocka_unit_test(interrupted_in_a_large_tensor),
        cmocka_unit_test(short_writes),
        cmocka_unit_test(killed_at_every_call),
        cmocka_unit_test(given_up),
        cmocka_unit_test(refused_paths),
        cmocka_unit_test(read_only_directory),
        cmocka_unit_test(links),
        cmocka_unit_test(modes),
        cmocka_unit_test(change_of_directory),
        cmocka_unit_test(devices_and_pipes),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
