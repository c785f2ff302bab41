"""Tensors between processes: with multiprocessing as they are, and through shared memory."""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import capsule_abi
import numpy as np
import pytest
from capsule_abi import KINDS, READ_ONLY
from dlpack_abi import aligned

import hurray
import hurray.multiprocessing

SCRIPT = Path(__file__).parents[2] / "examples" / "processes.py"
SEGMENTS = Path("/dev/shm")
READABLE = [name for name, kind in KINDS.items() if kind.is_readable]
MEGABYTE = 1 << 20

needs_segments = pytest.mark.skipif(not SEGMENTS.is_dir(), reason="no /dev/shm on this system")


def large(n=MEGABYTE):
    array = aligned((n,), np.float64)
    array[:] = np.arange(n) % 251
    return hurray.from_numpy(array, copy=False)


def bytes_of(tensor):
    return [bytes(tensor.buffer(index)) for index in range(tensor.buffer_count)]


def check_same(got, tensor):
    assert (got.shape, got.readonly) == (tensor.shape, tensor.readonly)
    assert got.descriptor.encoded_len == tensor.descriptor.encoded_len
    assert bytes_of(got) == bytes_of(tensor)


def segments():
    return {path.name for path in SEGMENTS.iterdir() if path.name.startswith("hurray-")}


@pytest.fixture
def always_shared(monkeypatch):
    """Small tensors through shared memory, too; a segment of no bytes there is not."""
    monkeypatch.setattr(hurray.multiprocessing, "MIN_SHARED_SIZE", 1)


# ---- real processes ----


def same(x):
    return x


def same_and_pid(x):
    return x, os.getpid()


def everything():
    tensors = [KINDS[name].tensor(flags) for name in READABLE for flags in (0, READ_ONLY)]
    return [*tensors, large()]


@pytest.fixture(scope="module")
def pool():
    """One spawned process, which has the hooks because it imports this module."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        yield pool


def test_every_kind_survives(pool):
    tensors = everything()
    got, pid = pool.apply_async(same_and_pid, [tensors]).get(60)
    assert pid != os.getpid()
    for one, other in zip(got, tensors, strict=True):
        check_same(one, other)


def test_composites_survive(pool):
    one, other = large(), KINDS["valid/csr.bin"].tensor()
    group = hurray.Composite("group", shape=(), dtype=one.dtype, members=[one, other])
    got = pool.apply_async(same, [group]).get(60)
    assert got.layout == group.layout
    check_same(got.members[0], one)
    check_same(got.members[1], other)


def test_executors():
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        check_same(executor.submit(same, large()).result(60), large())


FORKED = """
import multiprocessing, sys
import numpy as np
import hurray
if sys.argv[1] == "hooks":
    import hurray.multiprocessing

def answer(queue, pipe):
    for _ in range(3):
        pipe.send(queue.get())

context = multiprocessing.get_context("fork")
queue, (here, there) = context.Queue(), context.Pipe()
process = context.Process(target=answer, args=(queue, there))
process.start()
for n in (3, 1000, 1 << 20):
    tensor = hurray.from_numpy(np.arange(float(n)))
    queue.put(tensor)
    got = here.recv()
    assert np.array_equal(np.asarray(got), np.asarray(tensor))
    np.asarray(got)[:] = 5
    assert np.asarray(tensor)[1] == 1
process.join()
print("ok")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("hooks", ["hooks", "none"])
def test_forked_processes(hooks):
    """In a program of its own: this process has threads, which do not survive a fork."""
    result = subprocess.run(
        [sys.executable, "-c", FORKED, hooks], capture_output=True, text=True, timeout=100
    )
    assert (result.stdout, result.stderr, result.returncode) == ("ok\n", "", 0)


# ---- copies ----


def peak_of(action):
    """What an action gives, and the most memory that Python and NumPy had while it ran."""
    tracemalloc.start()
    try:
        result = action()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("protocol", range(2, 6))
def test_plain_pickles_need_no_more_memory_than_those_of_arrays(protocol):
    array = aligned((MEGABYTE,), np.float64)
    _, of_array = peak_of(lambda: pickle.dumps(array, protocol))
    _, of_tensor = peak_of(lambda: pickle.dumps(hurray.from_numpy(array, copy=False), protocol))
    assert of_tensor < of_array + 10_000


@needs_segments
def test_large_tensors_are_copied_once():
    tensor = large()
    before = segments()
    pickled, sending = peak_of(lambda: bytes(ForkingPickler.dumps(tensor)))
    assert len(pickled) < 1000
    (name,) = segments() - before
    assert (SEGMENTS / name).stat().st_size == 8 * MEGABYTE
    got, receiving = peak_of(lambda: pickle.loads(pickled))
    assert max(sending, receiving) < 100_000
    check_same(got, tensor)


@needs_segments
def test_a_segment_becomes_memory_of_the_receiver_alone():
    tensor = large()
    before, mapped = segments(), mappings()
    got = pickle.loads(ForkingPickler.dumps(tensor))
    assert segments() == before
    np.asarray(got)[:] = 7
    assert np.asarray(tensor)[3] == 3
    assert mappings() == mapped + 1
    view = np.asarray(got)[5:]
    del got
    assert view.sum() == 7 * (MEGABYTE - 5)
    del view
    assert mappings() == mapped


def mappings():
    gc.collect()
    return Path("/proc/self/maps").read_text().count("/dev/shm/hurray-")


@needs_segments
def test_every_buffer_begins_at_a_page(always_shared):
    tensor = KINDS["valid/csr.bin"].tensor()
    got = pickle.loads(ForkingPickler.dumps(tensor))
    check_same(got, tensor)
    assert all(place % hurray.PAGE_ALIGNMENT == 0 for place in capsule_abi.addresses(got))


@pytest.mark.parametrize("name", READABLE)
@pytest.mark.parametrize("flags", [0, READ_ONLY])
def test_every_kind_survives_in_a_segment(always_shared, name, flags):
    tensor = KINDS[name].tensor(flags)
    check_same(pickle.loads(ForkingPickler.dumps(tensor)), tensor)


def test_small_tensors_are_pickled():
    tensor = hurray.zeros([10])
    assert bytes(ForkingPickler.dumps(tensor)) == pickle.dumps(tensor)


def test_other_pickles_are_as_ever():
    """Files and networks need the bytes."""
    assert len(pickle.dumps(large())) > 8 * MEGABYTE


def test_device_memory_is_refused(always_shared):
    elsewhere = [kind for kind in KINDS.values() if not kind.on_cpu and kind.is_synced]
    for kind in elsewhere:
        with pytest.raises(hurray.UnsupportedError, match="CPU first"):
            ForkingPickler.dumps(kind.tensor())


# ---- when it cannot be ----


def test_without_a_place_for_segments_tensors_are_pickled(monkeypatch):
    monkeypatch.setattr(hurray.multiprocessing, "_DIRECTORY", "/nowhere/at/all")
    pickled = ForkingPickler.dumps(large())
    assert len(pickled) > 8 * MEGABYTE
    check_same(pickle.loads(pickled), large())


@needs_segments
def test_without_room_tensors_are_pickled(monkeypatch):
    """As in a container whose /dev/shm is small. Nothing stays behind."""

    def full(descriptor, view, offset):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(hurray.multiprocessing, "_write", full)
    before = segments()
    check_same(pickle.loads(ForkingPickler.dumps(large())), large())
    assert segments() == before


@needs_segments
def test_a_segment_has_one_receiver():
    pickled = bytes(ForkingPickler.dumps(large()))
    pickle.loads(pickled)
    with pytest.raises(FileNotFoundError):
        pickle.loads(pickled)


FORGETFUL = """
import multiprocessing, pathlib
import hurray, hurray.multiprocessing
here, there = multiprocessing.Pipe()
here.send(hurray.zeros([1 << 20]))
print(*[path.name for path in pathlib.Path("/dev/shm").glob(f"hurray-{multiprocessing.current_process().pid}-*")])
"""


@needs_segments
def test_what_nobody_receives_is_freed_in_the_end():
    result = subprocess.run(
        [sys.executable, "-c", FORGETFUL], capture_output=True, text=True, timeout=100, check=True
    )
    (name,) = result.stdout.split()
    assert name not in segments()


# ---- the example ----


def test_the_example_runs():
    result = subprocess.run(
        [sys.executable, str(SCRIPT), "16"], capture_output=True, text=True, timeout=100
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "16,777,216 stay where they are" in result.stdout
    assert result.stdout.endswith("every value arrived\n")
