"""A file is the old one until it is the new one, whatever happens in between (spec 4.7)."""

from __future__ import annotations

import errno
import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time

import leaks
import numpy as np
import pytest

import hurray

MIB = 1 << 20
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0

OLD = {"old": np.arange(1000, dtype=np.int32)}
NEW = {"new": np.arange(3 * MIB, dtype=np.uint8), "more": np.ones(5)}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.hrry"
    hurray.save(path, OLD)
    return path


def is_old(path):
    loaded = hurray.load(path, mmap=False)
    return list(loaded) == ["old"] and (np.asarray(loaded["old"]) == OLD["old"]).all()


def is_new(path):
    loaded = hurray.load(path, mmap=False)
    return list(loaded) == list(NEW) and (np.asarray(loaded["new"]) == NEW["new"]).all()


def untouched(path):
    return is_old(path) and os.listdir(path.parent) == [path.name]


def run(script, *arguments, **options):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


# ---- the disk is full ----

LIMITED = """
import resource, signal, sys, numpy as np, hurray
path, limit = sys.argv[1], int(sys.argv[2])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    hurray.save(path, {"new": np.arange(3 << 20, dtype=np.uint8), "more": np.ones(5)})
except hurray.FileError as error:
    print(error.errno)
"""


@pytest.mark.parametrize("limit", [0, 1, 63, 64, 100, 4096, 5000, MIB, 3 * MIB, 3 * MIB + 4096])
def test_a_file_that_cannot_grow(path, limit):
    done = run(LIMITED, path, limit)
    assert done.stdout == f"{errno.EFBIG}\n", done
    assert untouched(path)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 2 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    try:
        refused = subprocess.run(mount, capture_output=True, text=True).stderr
    except FileNotFoundError:
        refused = "there is no mount"
    if refused or not ROOT:
        pytest.skip(f"a small file system cannot be mounted here: {refused.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_is_full(small_disk):
    path = small_disk / "model.hrry"
    hurray.save(path, OLD)
    for _ in range(3):
        with pytest.raises(hurray.FileError) as caught:
            hurray.save(path, NEW)
        assert caught.value.errno == errno.ENOSPC and str(path) in str(caught.value)
        assert untouched(path)
    hurray.save(path, {"fits": np.ones(MIB, np.uint8)})
    assert list(hurray.load(path, mmap=False)) == ["fits"]


# ---- the process dies ----

ENDLESS = """
import sys, numpy as np, hurray
path = sys.argv[1]
new = {"new": np.arange(3 << 20, dtype=np.uint8), "more": np.ones(5)}
old = {"old": np.arange(1000, dtype=np.int32)}
print("ready", flush=True)
while True:
    hurray.save(path, new)
    hurray.save(path, old)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kill -9 is of POSIX")
def test_a_process_that_is_killed_leaves_one_whole_file(path):
    delays = random.Random(5)
    for _ in range(12):
        process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)], stdout=-1)
        with process:
            assert process.stdout.readline() == b"ready\n"
            time.sleep(delays.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
        assert is_old(path) or is_new(path)
        with hurray.open(path) as file:
            file.verify()
        for left in path.parent.iterdir():
            # Nobody is left who could remove it; but it is never taken for the file.
            assert left == path or (left.name.startswith(".hurray-") and left.suffix == ".tmp")


INTERRUPTED = """
import os, signal, sys, threading, time, numpy as np, hurray
path, delay = sys.argv[1], float(sys.argv[2])
many = {str(i): np.ones(4096, np.uint8) for i in range(20000)}
def interrupt():
    time.sleep(delay)
    os.kill(os.getpid(), signal.SIGINT)
thread = threading.Thread(target=interrupt)
thread.start()
try:
    while True:
        hurray.save(path, many)
except KeyboardInterrupt:
    print("interrupted")
thread.join()
"""


@pytest.mark.parametrize("delay", [0.02, 0.15, 0.4])
def test_an_interrupt_leaves_no_temporary_file(path, delay):
    done = run(INTERRUPTED, path, delay)
    assert done.stdout == "interrupted\n", done
    assert os.listdir(path.parent) == [path.name]
    assert is_old(path) or len(hurray.open(path)) == 20000


def test_an_interrupt_ends_a_long_load(tmp_path):
    path = tmp_path / "big.hrry"
    hurray.save(path, {"a": np.zeros(64 * MIB, np.uint8)})
    script = """
import os, signal, sys, threading, hurray
timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
timer.start()
try:
    while True:
        hurray.load(sys.argv[1], mmap=False)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run(script, path).stdout == "interrupted\n"


# ---- the system refuses ----


def test_a_directory_as_target(tmp_path):
    target = tmp_path / "directory"
    target.mkdir()
    with pytest.raises(hurray.FileError) as caught:
        hurray.save(target, NEW)
    assert caught.value.errno == errno.EISDIR
    assert os.listdir(tmp_path) == ["directory"] and os.listdir(target) == []


def test_a_directory_that_is_not_there(tmp_path):
    with pytest.raises(hurray.FileError) as caught:
        hurray.save(tmp_path / "absent" / "model.hrry", NEW)
    assert caught.value.errno == errno.ENOENT and os.listdir(tmp_path) == []
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(hurray.FileError) as caught:
        hurray.save(tmp_path / "file" / "model.hrry", NEW)
    assert caught.value.errno == errno.ENOTDIR


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 300])
def test_names_that_the_system_refuses(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(hurray.FileError) as caught:
        hurray.save(name, NEW)
    assert caught.value.errno in (errno.ENOENT, errno.EISDIR, errno.ENAMETOOLONG)
    assert os.listdir(tmp_path) == []


def test_a_path_with_a_zero(tmp_path):
    with pytest.raises(ValueError, match="null"):
        hurray.save(f"{tmp_path}/a\0b", NEW)
    with pytest.raises(TypeError):
        hurray.save(5, NEW)


READ_ONLY = """
import os, sys, numpy as np, hurray
hurray.save, hurray.load  # imported now: the other user may not be let into where Python is
os.chdir(sys.argv[1])
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    hurray.save("model.hrry", {"new": np.ones(3)})
except hurray.FileError as error:
    print(error.errno)
"""


def test_a_directory_that_must_not_be_written(tmp_path):
    place = tmp_path / "locked"
    place.mkdir()
    path = place / "model.hrry"
    hurray.save(path, OLD)
    place.chmod(0o555)
    try:
        done = run(READ_ONLY, place)
        assert done.stdout == f"{errno.EACCES}\n", done
        assert untouched(path)
    finally:
        place.chmod(0o755)


def test_a_file_that_must_not_be_read(path):
    path.chmod(0)
    script = READ_ONLY.replace('save("model.hrry", {"new": np.ones(3)})', 'load("model.hrry")')
    try:
        done = run(script, path.parent)
        assert done.stdout == f"{errno.EACCES}\n", done
    finally:
        path.chmod(0o644)


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int fails(const char *call) {
    const char *wanted = getenv("FAILING_CALL");
    if (wanted == NULL || strcmp(wanted, call) != 0) return 0;
    errno = atoi(getenv("FAILING_ERRNO"));
    return 1;
}
int fsync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    return fails("fsync") ? -1 : real(file);
}
int rename(const char *from, const char *to) {
    int (*real)(const char *, const char *) =
        (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    return fails("rename") ? -1 : real(from, to);
}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    """A library that makes system calls fail."""
    if sys.platform != "linux" or leaks.is_sanitized():
        pytest.skip("LD_PRELOAD is taken by ASan, or not known here")
    place = tmp_path_factory.mktemp("shim")
    (place / "shim.c").write_text(SHIM)
    library = place / "shim.so"
    try:
        build = ["cc", "-shared", "-fPIC", "-o", library, place / "shim.c", "-ldl"]
        subprocess.run(build, check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no C compiler here: {error}")
    return library


FAILING = """
import sys, numpy as np, hurray
try:
    hurray.save(sys.argv[1], {"new": np.arange(3 << 20, dtype=np.uint8), "more": np.ones(5)})
except hurray.FileError as error:
    print(error.errno, error)
"""


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_data_that_does_not_reach_the_disk(path, shim, number):
    environment = {**os.environ, "LD_PRELOAD": str(shim), "FAILING_CALL": "fsync"}
    done = run(FAILING, path, env=environment | {"FAILING_ERRNO": str(number)})
    assert done.stdout.startswith(f"{number} "), done
    assert untouched(path)


def test_a_rename_that_is_refused_loses_nothing_and_says_where_it_is(path, shim):
    environment = {**os.environ, "LD_PRELOAD": str(shim), "FAILING_CALL": "rename"}
    done = run(FAILING, path, env=environment | {"FAILING_ERRNO": str(errno.EPERM)})
    assert done.stdout.startswith(f"{errno.EPERM} "), done
    assert is_old(path)
    (left,) = (entry for entry in path.parent.iterdir() if entry != path)
    assert str(left) in done.stdout and is_new(left)


# ---- what is replaced ----


def test_saving_over_the_file_that_tensors_are_mapped_from(path):
    hurray.save(path, NEW)
    for _ in range(3):
        loaded = hurray.load(path)
        loaded["more"] = np.asarray(loaded["more"]) + 1
        hurray.save(path, loaded)
        assert (np.asarray(loaded["new"]) == NEW["new"]).all(), "still mapped"
    assert is_new(path) and (np.asarray(hurray.load(path)["more"]) == 4).all()
    assert os.listdir(path.parent) == [path.name]


def test_changes_to_a_private_mapping_are_saved(path):
    loaded = hurray.load(path)
    np.asarray(loaded["old"])[3] = -7
    hurray.save(path, loaded)
    assert np.asarray(hurray.load(path)["old"])[:5].tolist() == [0, 1, 2, -7, 4]


def test_readers_keep_the_file_that_they_opened(path):
    file = hurray.open(path)
    lazy = hurray.open(path, mmap=False)
    hurray.save(path, NEW)
    for reader in (file, lazy):
        assert list(reader) == ["old"]
        np.testing.assert_array_equal(np.asarray(reader["old"]), OLD["old"])
    assert is_new(path)


def test_readers_see_one_file_or_the_other_while_it_is_replaced(path):
    stop, wrong = threading.Event(), []

    def read():
        while not stop.is_set():
            if not (is_old(path) or is_new(path)):
                wrong.append(1)

    def is_old(path):
        loaded = hurray.load(path)
        name, tensor = next(iter(loaded.items()))
        expected = OLD[name] if name in OLD else NEW[name]
        return (np.asarray(tensor) == expected).all()

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(30):
        hurray.save(path, (OLD, NEW)[i % 2])
    stop.set()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_writers_at_the_same_time_leave_one_of_their_files(path):
    items = [{"old": np.full(1000, i, np.int32)} for i in range(6)]
    threads = [
        threading.Thread(target=lambda i=i: [hurray.save(path, items[i]) for _ in range(10)])
        for i in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    values = np.asarray(hurray.load(path)["old"])
    assert len(set(values.tolist())) == 1
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_the_mode_is_kept(path, mode):
    path.chmod(mode)
    hurray.save(path, NEW)
    assert stat.S_IMODE(path.stat().st_mode) == mode and is_new(path)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o027])
def test_a_new_file_has_the_mode_of_any_new_file(tmp_path, umask):
    before = os.umask(umask)
    try:
        hurray.save(tmp_path / "a", OLD)
        (tmp_path / "b").write_bytes(b"")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_symbolic_link_stays_one(path, tmp_path):
    place = tmp_path / "elsewhere"
    place.mkdir()
    relative, absolute = place / "relative", place / "absolute"
    relative.symlink_to("../model.hrry")
    absolute.symlink_to(relative)
    hurray.save(absolute, NEW)
    assert absolute.is_symlink() and relative.is_symlink() and not path.is_symlink()
    assert is_new(path) and sorted(os.listdir(place)) == ["absolute", "relative"]
    dangling = place / "dangling"
    dangling.symlink_to("../fresh.hrry")
    hurray.save(dangling, OLD)
    assert dangling.is_symlink() and is_old(tmp_path / "fresh.hrry")
    loop = place / "loop"
    loop.symlink_to("loop")
    with pytest.raises(hurray.FileError) as caught:
        hurray.save(loop, OLD)
    assert caught.value.errno == errno.ELOOP


def test_a_hard_link_keeps_the_old_file(path, tmp_path):
    os.link(path, tmp_path / "other")
    hurray.save(path, NEW)
    assert is_new(path) and is_old(tmp_path / "other")


def test_pipes_get_the_file_as_it_is_made(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    hurray.save(pipe, NEW)
    reader.join(60)
    assert stat.S_ISFIFO(pipe.stat().st_mode) and os.listdir(tmp_path) == ["pipe"]
    loaded = hurray.load(found[0])
    assert (np.asarray(loaded["new"]) == NEW["new"]).all()


def test_a_failing_element_leaves_the_old_file(path):
    class Bad:
        def __array__(self, dtype=None, copy=None):
            raise ZeroDivisionError("no array today")

    with pytest.raises(ZeroDivisionError, match="no array today"):
        hurray.save(path, {**NEW, "bad": Bad()})
    assert untouched(path)
