/*
 * A file that is seen under its name only when it is whole (spec 4.7): written under a temporary
 * name in the same directory, flushed, renamed.
 */
#ifndef HURRAY_SRC_FILE_SAVE_H
#define HURRAY_SRC_FILE_SAVE_H

#include <hurray/io.h>
#include <stdbool.h>

typedef struct HriFileSave HriFileSave;

/*
 * Begins to replace the file at `path`, or at the end of its symbolic links. What is there and is no
 * file but a pipe or a device is written to as it is. `sync`: it is to be on the disk before it has
 * its name. `interrupted` is called every 8 MiB. HURRAY_ERR_IO.
 */
HurrayStatus hri_file_save_begin(const char *path, bool (*interrupted)(void *context),
                                 void *context, bool sync, HriFileSave **out);
/* Where the bytes go. */
HurraySink hri_file_save_sink(HriFileSave *save);
/*
 * Flushes to the disk with `sync`, renames, frees and nulls it, also on failure. On failure the
 * temporary file is gone, unless the system refused to rename it: then the message tells its name.
 * Where `sync` fails for the directory, after the rename, the new file is in its place.
 */
HurrayStatus hri_file_save_commit(HriFileSave **save);
/* Nothing has happened: removes the temporary file, frees and nulls it. NULL in it is fine. */
void hri_file_save_abort(HriFileSave **save);

#endif
