/*
 * A main() for fuzz targets where there is no libFuzzer: runs every file in the directories given,
 * once, each cut off at every length as well.
 *
 *     replay_decode tests/vectors/valid tests/vectors/invalid
 *
 * Fails when a file cannot be read, or when there is none.
 */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

/* A longer file is replayed whole only: cutting it everywhere takes quadratic time. */
#define LONGEST_CUT 4096

/* Input in memory of exactly its size, so that reading past its end is noticed. */
static void run_input(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size > 0 ? size : 1);
    require(copy != NULL);
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static bool run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return false;
    }
    bool done = false;
    uint8_t *data = NULL;
    long size = 0;
    if (fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0 ||
        fseek(file, 0, SEEK_SET) != 0) {
        perror(path);
        goto close;
    }
    const size_t length = (size_t)size;
    data = malloc(length + 1);
    require(data != NULL);
    if (fread(data, 1, length, file) != length) {
        perror(path);
        goto close;
    }
    for (size_t cut = 0; cut < length && length <= LONGEST_CUT; cut++) {
        run_input(data, cut);
    }
    run_input(data, length);
    done = true;
close:
    free(data);
    fclose(file);
    return done;
}

/* Runs the regular files of a directory; returns how many, or -1 when something cannot be read. */
static long run_directory(const char *path) {
    DIR *directory = opendir(path);
    if (directory == NULL) {
        perror(path);
        return -1;
    }
    long count = 0;
    for (struct dirent *entry; count >= 0 && (entry = readdir(directory)) != NULL;) {
        char name[4096];
        struct stat status;
        const int length = snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof name || stat(name, &status) != 0) {
            perror(entry->d_name);
            count = -1;
        } else if (S_ISREG(status.st_mode)) {
            count = run_file(name) ? count + 1 : -1;
        }
    }
    closedir(directory);
    return count;
}

int main(int argc, char **argv) {
    long total = 0;
    for (int i = 1; i < argc; i++) {
        const long count = run_directory(argv[i]);
        if (count < 0) {
            return EXIT_FAILURE;
        }
        total += count;
    }
    printf("%ld files replayed\n", total);
    return total > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
