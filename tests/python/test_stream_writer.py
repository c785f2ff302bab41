"""hurray.StreamWriter: into memory, files, pipes and sockets (spec 5, 8.13)."""

from __future__ import annotations

import bz2
import contextlib
import doctest
import errno
import gc
import gzip
import inspect
import io
import lzma
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import weakref

import capsule_abi
import leaks
import numpy as np
import pytest
import streams
from streams import group, nested, pipe, running, sample_items, tensor, written

import hurray
from hurray import StreamError, StreamReader, StreamWriter

BIG = tensor(1 << 20)  # 4 MiB, more than a pipe or a socket holds


# ---- the bytes ----


def test_a_stream_is_descriptors_and_buffers_back_to_back():
    t, s = tensor(3), streams.sparse()
    expected = t.descriptor.encode() + np.asarray(t).tobytes()
    expected += s.descriptor.encode() + b"".join(bytes(s.buffer(i)) for i in range(3))
    assert written(t, s) == expected


def test_a_composite_is_its_head_and_then_its_members():
    item = group(tensor(2), group(tensor(3)))
    data = written(item)
    members = written(tensor(2)), written(group(tensor(3)))
    assert data.endswith(members[0] + members[1])
    head = hurray.Descriptor.decode(data[: len(data) - sum(map(len, members))])
    assert head.layout == item.layout


def test_an_empty_stream_has_no_bytes():
    assert written() == b""


def test_writing_the_same_item_twice_gives_it_twice():
    assert written(BIG, BIG) == 2 * written(BIG)


@pytest.mark.parametrize("depth", range(1, 9))
def test_composites_as_deep_as_the_format_allows(depth):
    (item,) = StreamReader(written(nested(depth)))
    assert streams.same(item, nested(depth))


def test_a_composite_without_members():
    (item,) = StreamReader(written(group()))
    assert item.members == ()


@pytest.mark.parametrize("kind", ["cpu", "cuda", "rocm", "metal"])
def test_bytes_that_stand_in_for_those_of_a_device_are_written(kind):
    data = np.arange(4, dtype=np.float32).tobytes()
    staged = hurray.Tensor(data, hurray.float32, (4,), hurray.Device(kind))
    (back,) = StreamReader(written(group(staged)))
    assert bytes(back.members[0].buffer(0)) == data
    assert back.members[0].device == hurray.Device("cpu")  # where they are now


def test_position_counts_bytes():
    writer = StreamWriter()
    for item in sample_items():
        before = writer.position
        writer.write(item)
        assert writer.position - before == len(written(item))
    assert writer.position == len(writer.getvalue())


# ---- getvalue and finish ----


def test_getvalue_may_be_asked_again_and_in_between():
    writer = StreamWriter()
    assert writer.getvalue() == b""
    writer.write(tensor(1))
    first = writer.getvalue()
    writer.write(tensor(2))
    assert writer.getvalue() == writer.getvalue() == written(tensor(1), tensor(2))
    assert first == written(tensor(1))
    writer.finish()
    assert writer.getvalue() == written(tensor(1), tensor(2))


def test_getvalue_is_for_memory(tmp_path):
    with StreamWriter(tmp_path / "s") as writer:
        with pytest.raises(StreamError, match="without a destination"):
            writer.getvalue()
    with pytest.raises(StreamError, match="without a destination"):
        writer.getvalue()


def test_none_is_memory():
    assert StreamWriter(None).getvalue() == b""


def test_nothing_is_written_after_finish(tmp_path):
    for writer in (StreamWriter(), StreamWriter(tmp_path / "s")):
        writer.write(tensor(1))
        writer.finish()
        writer.finish()
        for item in (tensor(1), group()):
            with pytest.raises(StreamError, match="finished"):
                writer.write(item)
        assert writer.position == len(written(tensor(1)))


def test_a_block_finishes(tmp_path):
    with StreamWriter(tmp_path / "s") as writer:
        writer.write(tensor(1))
    with pytest.raises(StreamError, match="finished"):
        writer.write(tensor(1))
    assert (tmp_path / "s").read_bytes() == written(tensor(1))


def test_a_block_that_fails_finishes_and_says_what_was_wrong(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with StreamWriter(tmp_path / "s") as writer:
            writer.write(tensor(1))
            _ = 1 / 0
    with pytest.raises(StreamError, match="finished"):
        writer.write(tensor(1))
    assert (tmp_path / "s").read_bytes() == written(tensor(1))


def test_a_block_whose_writing_fails_says_so():
    with pipe() as (reading, writing):
        reading.close()
        with pytest.raises(hurray.FileError):
            with StreamWriter(writing) as writer:
                writer.write(tensor(1))


# ---- what is refused ----


@pytest.mark.parametrize(
    "item",
    [None, 3, b"bytes", np.zeros(3), [tensor(1)], {"a": tensor(1)}, StreamWriter, hurray.Tensor],
    ids=lambda item: type(item).__name__,
)
def test_other_things_are_not_written(item):
    writer = StreamWriter()
    with pytest.raises(TypeError, match="expected a Tensor or a Composite"):
        writer.write(item)
    assert writer.getvalue() == b""
    with pytest.raises(TypeError):
        writer.write()
    with pytest.raises(TypeError):
        writer.write(tensor(1), tensor(1))


def elsewhere(sync: str) -> hurray.Tensor:
    """On a GPU, so its producer says; nothing of it may be touched."""
    sync_mode = ["producer_synced", "event", "consumer_stream"].index(sync)
    descriptor = tensor(4).descriptor.encode()[:-4] + bytes([1, sync_mode, 0, 0])
    record = (0x7F00_0000_0000, 16, 64, 1, sync_mode, 0, 0, 0)
    return hurray.from_hurray(capsule_abi.Producer(descriptor, [record]))


@pytest.mark.parametrize("cross_machine", [False, True])
@pytest.mark.parametrize("sync", ["producer_synced", "event", "consumer_stream"])
@pytest.mark.parametrize("where", ["alone", "last member", "deep"])
def test_memory_that_cannot_be_read_is_refused_before_anything_is_written(
    where, sync, cross_machine
):
    bad = elsewhere(sync)
    item = {"alone": bad, "last member": group(tensor(1), bad), "deep": nested(7, bad)}[where]
    writer = StreamWriter(cross_machine=cross_machine)
    with pytest.raises(hurray.UnsupportedError, match="cuda" if sync[0] == "p" else sync):
        writer.write(item)
    assert writer.getvalue() == b""
    writer.write(tensor(1))
    assert writer.getvalue() == written(tensor(1))


@pytest.mark.parametrize("destination", [3, 1.5, b"path", bytearray(4), [], object(), io.BytesIO])
def test_destinations_that_are_none(destination):
    with pytest.raises(TypeError, match="fileno"):
        StreamWriter(destination)


@pytest.mark.parametrize("kind", [io.BytesIO, type("Derived", (io.BytesIO,), {})])
def test_a_memory_file_is_told_of_getvalue(kind):
    with pytest.raises(TypeError, match=r"getvalue\(\)"):
        StreamWriter(kind())


@pytest.mark.parametrize("module", [gzip, bz2, lzma], ids=lambda m: m.__name__)
def test_a_file_that_compresses_is_refused(tmp_path, module):
    path = tmp_path / "compressed"
    with module.open(path, "wb") as file:
        with pytest.raises(TypeError, match=r"not those of its fileno\(\)"):
            StreamWriter(file)
        with io.BufferedWriter(file) as around, pytest.raises(TypeError, match="fileno"):
            StreamWriter(around)
    assert module.open(path).read() == b""


def test_a_text_file_is_refused(tmp_path):
    with open(tmp_path / "text", "w") as file:
        with pytest.raises(TypeError, match=r"text: pass its \.buffer"):
            StreamWriter(file)
        StreamWriter(file.buffer).write(tensor(1))
    assert (tmp_path / "text").read_bytes() == written(tensor(1))


def test_arguments():
    with pytest.raises(TypeError):
        StreamWriter(None, True)
    with pytest.raises(TypeError):
        StreamWriter(cross=True)
    with pytest.raises(TypeError):
        type("Derived", (StreamWriter,), {})


# ---- paths and file objects ----


@pytest.mark.parametrize("convert", [str, pathlib.Path, pytest.param(lambda p: Like(p), id="like")])
def test_a_path_is_created_or_emptied(tmp_path, convert):
    path = tmp_path / "stream.hrs"
    for items in (sample_items(), sample_items()[:1]):
        with StreamWriter(convert(path)) as writer:
            for item in items:
                writer.write(item)
        assert path.read_bytes() == written(*items)


class Like:
    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


def test_a_path_that_cannot_be_opened_is_named(tmp_path):
    for path, number in ((tmp_path / "no" / "s", errno.ENOENT), (tmp_path, errno.EISDIR)):
        with pytest.raises(hurray.FileError) as caught:
            StreamWriter(path)
        assert caught.value.errno == number
        assert str(tmp_path) in str(caught.value.filename)


@pytest.mark.parametrize("buffering", [0, -1, 100000])
def test_a_file_object_stays_open_and_goes_on(tmp_path, buffering):
    with open(tmp_path / "s", "wb", buffering=buffering) as file:
        file.write(b"before")  # perhaps still in the object
        with StreamWriter(file) as writer:
            writer.write(tensor(1))
        assert not file.closed
        file.write(b"between")
        other = StreamWriter(file)
        other.write(tensor(2))
        del other
        gc.collect()
        file.write(b"after")
    parts = b"before", written(tensor(1)), b"between", written(tensor(2)), b"after"
    assert (tmp_path / "s").read_bytes() == b"".join(parts)


def test_a_file_open_for_both_is_written_where_it_is(tmp_path):
    path = tmp_path / "s"
    path.write_bytes(bytes(10000))
    with open(path, "r+b") as file:
        file.read(5)
        StreamWriter(file).write(tensor(1))
    data = path.read_bytes()
    assert data[5 : 5 + len(written(tensor(1)))] == written(tensor(1))
    assert len(data) == 10000


def test_appending(tmp_path):
    path = tmp_path / "s"
    for start in range(3):
        with open(path, "ab") as file, StreamWriter(file) as writer:
            writer.write(tensor(2, start=start))
    assert path.read_bytes() == written(*(tensor(2, start=start) for start in range(3)))


def test_temporary_files():
    with tempfile.NamedTemporaryFile() as file:
        StreamWriter(file).write(tensor(1))
        assert pathlib.Path(file.name).read_bytes() == written(tensor(1))


def test_the_descriptor_is_a_duplicate_that_is_closed():
    with pipe() as (reading, writing):
        writer = StreamWriter(writing)
        writer.write(tensor(1))
        writing.close()
        writer.write(tensor(2))  # it has its own
        writer.finish()
        assert reading.read() == written(tensor(1), tensor(2))  # to the end: nobody has it open


def test_what_a_writer_opened_is_closed_without_finish(tmp_path):
    before = streams.open_descriptors()
    writer = StreamWriter(tmp_path / "s")
    writer.write(tensor(1))
    del writer
    assert streams.open_descriptors() == before
    assert (tmp_path / "s").read_bytes() == written(tensor(1))


def test_a_closed_file_object():
    with pipe() as (_, writing):
        writing.close()
        with pytest.raises(ValueError, match="closed file"):
            StreamWriter(writing)


def test_a_descriptor_that_is_not_open():
    with pytest.raises(hurray.FileError) as caught:
        StreamWriter(streams.Descriptor(10**6))
    assert caught.value.errno == errno.EBADF


def test_a_fileno_that_is_none():
    class Raising:
        def fileno(self):
            raise io.UnsupportedOperation("no descriptor")

    with pytest.raises(io.UnsupportedOperation):
        StreamWriter(Raising())
    with pytest.raises(TypeError):
        StreamWriter(streams.Descriptor("1"))
    with pytest.raises(ValueError):
        StreamWriter(streams.Descriptor(-1))


def test_standard_output():
    code = """
        import sys, hurray
        sys.stdout.buffer.write(b"first")
        with hurray.StreamWriter(sys.stdout.buffer) as writer:
            writer.write(hurray.arange(5))
        print("last", end="")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, timeout=60
    )
    assert done.stderr == b""
    assert done.stdout == b"first" + written(hurray.arange(5)) + b"last"


# ---- what the system refuses ----


@pytest.mark.parametrize(
    "item", [tensor(1), BIG, group(tensor(1), BIG)], ids=["small", "big", "group"]
)
def test_a_reader_that_went_away(item):
    with pipe() as (reading, writing):
        writer = StreamWriter(writing)
        reading.close()
        for _ in range(2):  # and says so again
            with pytest.raises(hurray.FileError, match="Broken pipe") as caught:
                writer.write(item)
            assert caught.value.errno == errno.EPIPE


def test_a_reader_that_goes_away_while_it_is_written_to():
    with pipe() as (reading, writing):

        def leave() -> None:
            reading.read(100)
            reading.close()

        with running(leave), pytest.raises(hurray.FileError) as caught:
            StreamWriter(writing).write(BIG)
        assert caught.value.errno == errno.EPIPE


def test_a_full_device():
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    writer = StreamWriter("/dev/full")
    with pytest.raises(hurray.FileError) as caught:
        writer.write(tensor(1))
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == "/dev/full"
    with pytest.raises(hurray.FileError):
        writer.finish()


def test_a_descriptor_that_is_for_reading():
    with pipe() as (reading, _):
        with pytest.raises(hurray.FileError) as caught:
            StreamWriter(reading).write(tensor(1))
        assert caught.value.errno == errno.EBADF


# ---- waiting ----


@pytest.mark.parametrize("blocking", [True, False])
def test_a_writer_waits_for_the_reader_without_the_gil(blocking):
    with pipe() as (reading, writing):
        os.set_blocking(writing.fileno(), blocking)
        written_all = threading.Event()

        def write() -> None:
            StreamWriter(writing).write(BIG)
            written_all.set()

        with running(write):
            deadline = time.monotonic() + 0.2
            count = 0
            while time.monotonic() < deadline:
                count += 1  # the GIL is free
            assert count > 1000
            assert not written_all.is_set()
            assert streams.same(next(StreamReader(reading)), BIG)
            assert written_all.wait(10)


def test_sockets():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with running(lambda: [StreamWriter(ours).write(item) for item in (BIG, *sample_items())]):
            reader = StreamReader(theirs)
            for item in (BIG, *sample_items()):
                assert streams.same(next(reader), item)


def test_items_of_several_threads_do_not_mix():
    items = [group(tensor(5000, start=i), tensor(1, start=i)) for i in range(4)]
    with pipe() as (reading, writing):
        writer = StreamWriter(writing)
        threads = [
            threading.Thread(
                target=lambda i=item: [writer.write(i) for _ in range(20)], daemon=True
            )
            for item in items
        ]
        for thread in threads:
            thread.start()
        reader = StreamReader(reading)
        found = [streams.contents(next(reader)) for _ in range(80)]
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
    for item in items:
        assert found.count(streams.contents(item)) == 20


def test_threads_into_memory():
    writer = StreamWriter()
    item = written(BIG)
    threads = [threading.Thread(target=writer.write, args=(BIG,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert writer.getvalue() in [item * n for n in range(5)]
    assert writer.getvalue() == item * 4


# ---- signals ----


def main_program(code: str) -> subprocess.Popen:
    """A process that prints a line when it is about to wait."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_one_interrupt_ends_the_wait_even_when_some_bytes_are_out():
    code = """
        import os, sys, hurray
        reading, writing = os.pipe()
        writer = hurray.StreamWriter(os.fdopen(writing, "wb", 0))
        print("waiting", flush=True)
        try:
            writer.write(hurray.zeros((1 << 20,)))
        except KeyboardInterrupt:
            pass
        else:
            sys.exit("not interrupted")
        for again in (lambda: writer.write(hurray.zeros((1,))), writer.finish):
            try:
                again()
            except hurray.StreamError as error:
                assert "interrupted" in str(error), error
            else:
                sys.exit("went on")
        print("done")
    """
    with main_program(code) as process:
        assert process.stdout.readline() == b"waiting\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (out, err) == (b"done\n", b"")


def test_a_handler_that_uses_the_writer_is_refused_and_the_write_goes_on():
    with pipe() as (reading, writing):
        writer = StreamWriter(writing)
        refused = []

        def handle(number, frame):
            for use in (writer.finish, lambda: writer.write(tensor(1))):
                with pytest.raises(RuntimeError, match="in use"):
                    use()
                refused.append(use)

        before = signal.signal(signal.SIGALRM, handle)
        found = []
        try:
            with running(lambda: (time.sleep(0.3), found.append(next(StreamReader(reading))))):
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                writer.write(BIG)
        finally:
            signal.signal(signal.SIGALRM, before)
        assert len(refused) == 2
        assert streams.same(found[0], BIG)


# ---- nothing stays behind ----


def test_ten_thousand_writers_leave_no_descriptor(tmp_path):
    before = streams.open_descriptors()
    for _ in range(5000):
        StreamWriter(tmp_path / "s").write(group())
        with pytest.raises(TypeError):
            StreamWriter(io.BytesIO())
    assert streams.open_descriptors() < before + 100  # an earlier test may still be closing some


def test_no_memory_stays_behind():
    t, item = tensor(4), nested(3)

    def action() -> None:
        with StreamWriter() as writer:
            writer.write(t)
            writer.write(item)
            writer.getvalue()
        with contextlib.suppress(StreamError):
            writer.write(t)

    leaks.check(action, [t, item], repetitions=50000)


def test_weak_references():
    writer = StreamWriter()
    reference = weakref.ref(writer)
    assert reference() is writer
    del writer
    assert reference() is None


def test_a_writer_keeps_no_item():
    t = tensor(3)
    reference = weakref.ref(t)
    writer = StreamWriter()
    writer.write(t)
    del t
    gc.collect()
    assert reference() is None
    assert len(writer.getvalue()) > 0


# ---- documentation ----


@pytest.mark.parametrize("kind", [StreamWriter, StreamReader])
def test_the_examples_run(kind):
    callables = [name for name, value in vars(kind).items() if callable(value) and name[0] != "_"]
    for documented in (kind, *(getattr(kind, name) for name in callables)):
        text = inspect.getdoc(documented)
        example = doctest.DocTestParser().get_doctest(text, {}, str(documented), None, 0)
        assert example.examples, documented
        assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("kind", ["path", "bytes", "destination"])
def test_no_stream_stays_for_being_known_by_what_it_is_made_of(tmp_path, kind):
    class Path(str):
        pass

    class Bytes(bytearray):
        pass

    with hurray.StreamWriter(tmp_path / "s") as writer:
        writer.write(hurray.ones(3))
        writer.write(hurray.ones(3))
    data = (tmp_path / "s").read_bytes()
    end = Bytes(data) if kind == "bytes" else Path(tmp_path / "s")
    end.known = hurray.StreamWriter(end) if kind == "destination" else hurray.StreamReader(end)
    if kind == "destination":
        end.known.write(hurray.ones(3))
    else:
        next(end.known)
    stream = weakref.ref(end.known)
    opened = len(os.listdir("/proc/self/fd"))
    del end
    gc.collect()
    assert stream() is None
    assert len(os.listdir("/proc/self/fd")) <= opened - (kind != "bytes")


# ---- pipes that hold more ----

fcntl = pytest.importorskip("fcntl")


@pytest.mark.skipif(not hasattr(fcntl, "F_GETPIPE_SZ"), reason="the size of pipes is of Linux")
@pytest.mark.parametrize("end", ["reader", "writer"])
@pytest.mark.parametrize("before", [4096, 65536, 1 << 20])
def test_a_pipe_holds_a_megabyte(end, before):
    with pipe() as (reading, writing):
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, before)
        hurray.StreamReader(reading) if end == "reader" else hurray.StreamWriter(writing)
        assert fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ) == 1 << 20


NOT_ENLARGED = """
import fcntl, os, sys, hurray
os.setgid(65534)
os.setuid(65534)
pipes = [os.pipe() for _ in range(40)]  # more than a user without privileges may enlarge
for reading, writing in pipes:
    with os.fdopen(writing, "wb") as file, hurray.StreamWriter(file) as writer:
        writer.write(hurray.arange(3))
    with os.fdopen(reading, "rb") as file:
        assert [t.shape for t in hurray.StreamReader(file)] == [(3,)]
print("done")
"""


@pytest.mark.skipif(not hasattr(fcntl, "F_GETPIPE_SZ"), reason="the size of pipes is of Linux")
def test_a_pipe_that_must_not_hold_more_works(tmp_path):
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("another user is needed who has no pipes yet")
    command = [sys.executable, "-c", NOT_ENLARGED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "done\n", done
