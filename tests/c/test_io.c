/*
 * Descriptors and memory as sinks and sources (src/io.c): whole writes and reads through pipes, sockets
 * and files, whatever the system does on the way. The linker routes the system calls of the library
 * through the functions below (--wrap, see meson.build).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "expect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <hurray/io.h>
#include <hurray/memory.h>

#include "random.h"

/* ---- system calls that do as they are told ---- */

static int calls;             /* since the count began */
static int failing = -1;      /* the call that fails, … */
static int failing_number;    /* … with this errno */
static bool stutter;          /* every second call is interrupted, the others move one byte */
static size_t most_in_a_call; /* bytes that were asked for at once, at most */
static int most_pieces;

static bool fails(void) {
    int call = calls++;
    if (stutter && call % 2 == 0) {
        errno = EINTR;
        return true;
    }
    if (call != failing) return false;
    errno = failing_number;
    return true;
}

static void behave(void) {
    calls = most_pieces = 0;
    failing = -1;
    stutter = false;
    most_in_a_call = 0;
}

ssize_t __real_writev(int descriptor, const struct iovec *pieces, int count);
ssize_t __wrap_writev(int descriptor, const struct iovec *pieces, int count);
ssize_t __wrap_writev(int descriptor, const struct iovec *pieces, int count) {
    size_t total = 0;
    for (int i = 0; i < count; i++) total += pieces[i].iov_len;
    if (total > most_in_a_call) most_in_a_call = total;
    if (count > most_pieces) most_pieces = count;
    if (fails()) return failing_number == 0 && !stutter ? 0 : -1;
    if (!stutter) return __real_writev(descriptor, pieces, count);
    struct iovec one = {pieces[0].iov_base, 1};
    return __real_writev(descriptor, &one, 1);
}

ssize_t __real_read(int descriptor, void *bytes, size_t size);
ssize_t __wrap_read(int descriptor, void *bytes, size_t size);
ssize_t __wrap_read(int descriptor, void *bytes, size_t size) {
    if (fails()) return -1;
    return __real_read(descriptor, bytes, stutter ? 1 : size);
}

/* Called so where file offsets are 64 bits wide by choice. */
ssize_t __wrap_pread64(int descriptor, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread(int descriptor, void *bytes, size_t size, off_t offset);
ssize_t __real_pread(int descriptor, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread(int descriptor, void *bytes, size_t size, off_t offset) {
    if (fails()) return -1;
    if (lseek(descriptor, offset, SEEK_SET) < 0) return -1;
    return __real_read(descriptor, bytes, stutter ? 1 : size);
}
ssize_t __wrap_pread64(int descriptor, void *bytes, size_t size, off_t offset) {
    return __wrap_pread(descriptor, bytes, size, offset);
}

static int interruptions;
static bool go_on(void *context) {
    (void)context;
    interruptions++;
    return true;
}

static bool give_up(void *context) {
    *(int *)context += 1;
    return false;
}

/* ---- files ---- */

static int temporary_file(void) {
    FILE *file = tmpfile();
    assert_non_null(file);
    int descriptor = dup(fileno(file));
    fclose(file);
    assert_true(descriptor >= 0);
    return descriptor;
}

#define SIZE 3000
static uint8_t sample[SIZE];

static void fill_sample(void) {
    uint64_t seed = 5;
    for (size_t i = 0; i < SIZE; i++) sample[i] = (uint8_t)random_u64(&seed);
}

/* The sample in pieces of any size, empty ones among them; their number. */
static uint32_t cut_sample(HurrayBytes *pieces, size_t largest) {
    uint64_t seed = largest;
    uint32_t count = 0;
    for (size_t at = 0; at < SIZE;) {
        size_t size = (size_t)random_below(&seed, largest + 1);
        if (size > SIZE - at) size = SIZE - at;
        pieces[count++] = (HurrayBytes){size == 0 ? NULL : sample + at, size};
        at += size;
    }
    return count;
}

static void expect_sample(const HurrayOpenFile *file) {
    uint8_t found[SIZE];
    struct stat about;
    assert_int_equal(fstat(file->descriptor, &about), 0);
    assert_int_equal(about.st_size, SIZE);
    expect_ok(hurray_open_file_read_at(file, 0, found, SIZE));
    assert_memory_equal(found, sample, SIZE);
}

static void whole_writes(void **state) {
    (void)state;
    static HurrayBytes pieces[20 * SIZE];
    fill_sample();
    for (int kind = 0; kind < 2; kind++) {
        for (size_t largest = 1; largest < 1000; largest *= 3) {
            HurrayOpenFile file = {temporary_file(), go_on, NULL};
            uint32_t count = cut_sample(pieces, largest);
            behave();
            interruptions = 0;
            stutter = kind == 1;
            expect_ok(hurray_open_file_write(&file, pieces, count));
            assert_true(most_pieces <= 1024);
            /* After EINTR, and after each call that wrote less than it was given. */
            if (stutter) assert_int_equal(interruptions, 2 * SIZE - 1);
            expect_sample(&file);
            behave();
            close(file.descriptor);
        }
    }
}

static void reads_at(void **state) {
    (void)state;
    HurrayOpenFile file = {temporary_file(), NULL, NULL};
    const HurrayBytes piece = {sample, SIZE};
    uint8_t found[SIZE];
    fill_sample();
    behave();
    expect_ok(hurray_open_file_write(&file, &piece, 1));
    for (size_t from = 0; from <= SIZE; from += 7) {
        expect_ok(hurray_open_file_read_at(&file, from, found, SIZE - from));
        assert_memory_equal(found, sample + from, SIZE - from);
    }
    expect_failure(HURRAY_ERR_IO, hurray_open_file_read_at(&file, 1, found, SIZE));
    assert_int_equal(hurray_error_number(), 0);
    expect_message("ends at byte 3000, 1 bytes too early");
    expect_failure(HURRAY_ERR_IO, hurray_open_file_read_at(&file, INT64_MAX, found, 1));
    expect_failure(HURRAY_ERR_IO, hurray_open_file_read_at(&file, UINT64_MAX, found, 1));
    assert_int_equal(hurray_error_number(), EOVERFLOW);
    close(file.descriptor);
}

/* A hole of 5 GiB takes no room. */
static void offsets_beyond_4_gib(void **state) {
    (void)state;
    const uint64_t far = UINT64_C(5) << 30;
    HurrayOpenFile file = {temporary_file(), NULL, NULL};
    behave();
    if (ftruncate(file.descriptor, (off_t)far) != 0) {
        close(file.descriptor);
        skip(); /* the file system knows no such files */
    }
    assert_true(lseek(file.descriptor, (off_t)far, SEEK_SET) == (off_t)far);
    assert_int_equal(write(file.descriptor, "end", 3), 3);
    uint8_t found[4];
    expect_ok(hurray_open_file_read_at(&file, far - 1, found, 4));
    assert_memory_equal(found, "\0end", 4);
    close(file.descriptor);
}

/* More than one call may take: split, and nothing lost; between the calls it may be given up.
 * /dev/null takes anything without a look. */
static void giant_pieces(void **state) {
    (void)state;
    const size_t size = (size_t)5 << 30;
    uint8_t *zeros =
        mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) skip(); /* no room for addresses */
    int asked = 0;
    HurrayOpenFile file = {open("/dev/null", O_WRONLY), go_on, NULL};
    const HurrayBytes pieces[4] = {{zeros, 10}, {zeros, size}, {zeros, 20}, {NULL, 0}};
    behave();
    interruptions = 0;
    expect_ok(hurray_open_file_write(&file, pieces, 4));
    assert_true(most_in_a_call <= (size_t)INT32_MAX);
    assert_true(calls > 5 && interruptions >= calls - 1);
    file.interrupted = give_up;
    file.context = &asked;
    behave();
    expect_failure(HURRAY_ERR_INTERRUPTED, hurray_open_file_write(&file, pieces, 3));
    assert_true(calls == 1 && asked == 1);
    close(file.descriptor);
    munmap(zeros, size);
}

/* ---- what goes wrong ---- */

static void errors_are_told(void **state) {
    (void)state;
    const HurrayBytes piece = {sample, SIZE};
    uint8_t found[8];
    size_t length;
    HurrayOpenFile file = {temporary_file(), NULL, NULL};
    for (int i = 0; i < 2; i++) {
        behave();
        failing = 0;
        failing_number = i == 0 ? ENOSPC : EIO;
        expect_failure(HURRAY_ERR_IO, hurray_open_file_write(&file, &piece, 1));
        assert_int_equal(hurray_error_number(), failing_number);
        expect_message("write to descriptor");
        expect_message(i == 0 ? "No space left" : "rror");
    }
    behave();
    failing = 0;
    failing_number = 0;
    expect_failure(HURRAY_ERR_IO, hurray_open_file_write(&file, &piece, 1));
    behave();
    failing = 0;
    failing_number = EIO;
    expect_failure(HURRAY_ERR_IO, hurray_open_file_read_at(&file, 0, found, 1));
    behave();
    close(file.descriptor);
    file.descriptor = -1;
    expect_failure(HURRAY_ERR_IO, hurray_open_file_read(&file, found, 8, &length));
    assert_int_equal(hurray_error_number(), EBADF);
    expect_message("read from descriptor -1");

    int given_up = 0;
    file = (HurrayOpenFile){temporary_file(), give_up, &given_up};
    behave();
    stutter = true;
    expect_failure(HURRAY_ERR_INTERRUPTED, hurray_open_file_write(&file, &piece, 1));
    behave();
    stutter = true;
    expect_failure(HURRAY_ERR_INTERRUPTED, hurray_open_file_read(&file, found, 8, &length));
    behave();
    stutter = true;
    expect_failure(HURRAY_ERR_INTERRUPTED, hurray_open_file_read_at(&file, 0, found, 8));
    assert_int_equal(given_up, 3);
    behave();
    close(file.descriptor);

    const HurrayBytes nothing = {NULL, 1};
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_open_file_write(&file, &nothing, 1));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_open_file_write(&file, NULL, 1));
    expect_failure(HURRAY_ERR_NULL_POINTER, hurray_open_file_write(NULL, &piece, 1));
}

/* Nobody reads any more: an errno, as long as the program ignores the signal. */
static void broken_pipe(void **state) {
    (void)state;
    int ends[2];
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    HurrayOpenFile file = {ends[1], NULL, NULL};
    const HurrayBytes piece = {sample, SIZE};
    behave();
    expect_failure(HURRAY_ERR_IO, hurray_open_file_write(&file, &piece, 1));
    assert_int_equal(hurray_error_number(), EPIPE);
    close(ends[1]);
    signal(SIGPIPE, before);
}

/* ---- both ends ---- */

#define TRANSFER ((size_t)4 << 20)

typedef struct Reader {
    HurrayOpenFile file;
    uint64_t sum;
    size_t total;
} Reader;

static void *drain(void *argument) {
    Reader *reader = argument;
    HurraySource source = hurray_open_file_source(&reader->file);
    uint8_t bytes[5000];
    size_t length = 1;
    while (length != 0) {
        if (source.read(bytes, sizeof bytes, &length, source.context) != HURRAY_OK) break;
        for (size_t i = 0; i < length; i++) reader->sum += (reader->total + i) * bytes[i];
        reader->total += length;
    }
    return NULL;
}

/* Both ends do not wait by themselves; one is faster than the other. */
static void through(int ends[2]) {
    uint8_t *bytes = malloc(TRANSFER);
    uint64_t seed = 9, sum = 0;
    for (size_t i = 0; i < TRANSFER; i++) {
        bytes[i] = (uint8_t)random_u64(&seed);
        sum += i * bytes[i];
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fcntl(ends[i], F_SETFL, fcntl(ends[i], F_GETFL) | O_NONBLOCK), 0);
    }
    Reader reader = {.file = {ends[0], NULL, NULL}};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, drain, &reader), 0);
    HurrayOpenFile file = {ends[1], NULL, NULL};
    HurraySink sink = hurray_open_file_sink(&file);
    const HurrayBytes pieces[3] = {{bytes, 100}, {bytes + 100, 0}, {bytes + 100, TRANSFER - 100}};
    expect_ok(sink.write(pieces, 3, sink.context));
    close(ends[1]);
    pthread_join(thread, NULL);
    close(ends[0]);
    assert_int_equal(reader.total, TRANSFER);
    assert_true(reader.sum == sum);
    free(bytes);
}

static void pipes_and_sockets(void **state) {
    (void)state;
    int ends[2];
    behave();
    assert_int_equal(pipe(ends), 0);
    through(ends);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    through(ends);
}

/* ---- memory ---- */

static void memory(void **state) {
    (void)state;
    static HurrayBytes pieces[20 * SIZE];
    HurrayMemoryFile file = {NULL, 0, 0};
    HurraySink sink = hurray_memory_sink(&file);
    fill_sample();
    for (size_t round = 0; round < 10; round++) {
        expect_ok(sink.write(pieces, cut_sample(pieces, 10 + round), sink.context));
    }
    assert_int_equal(file.size, 10 * SIZE);
    assert_true(file.capacity >= file.size && (uintptr_t)file.bytes % 64 == 0);
    for (size_t round = 0; round < 10; round++) {
        assert_memory_equal(file.bytes + round * SIZE, sample, SIZE);
    }
    const HurrayBytes endless[2] = {{sample, 10}, {sample, UINT64_MAX - 5}};
    expect_failure(HURRAY_ERR_OUT_OF_MEMORY, sink.write(endless, 2, sink.context));
    const HurrayBytes nothing = {NULL, 1};
    expect_failure(HURRAY_ERR_NULL_POINTER, sink.write(&nothing, 1, sink.context));
    assert_int_equal(file.size, 10 * SIZE);
    hurray_aligned_free(file.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_writes),         cmocka_unit_test(reads_at),
        cmocka_unit_test(offsets_beyond_4_gib), cmocka_unit_test(giant_pieces),
        cmocka_unit_test(errors_are_told),      cmocka_unit_test(broken_pipe),
        cmocka_unit_test(pipes_and_sockets),    cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
