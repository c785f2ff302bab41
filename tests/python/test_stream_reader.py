"""hurray.StreamReader: out of memory, files, pipes and sockets (spec 5, 8.13)."""

from __future__ import annotations

import bz2
import contextlib
import errno
import gc
import gzip
import io
import lzma
import mmap
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import weakref

import leaks
import numpy as np
import pytest
import streams
from streams import contents, group, nested, pipe, running, same, sample_items, tensor, written

import hurray
from hurray import InvalidDescriptorError, StreamError, StreamReader, StreamWriter

SAMPLE = sample_items()
DATA = written(*SAMPLE)


def assert_sample(items) -> None:
    assert [contents(item) for item in items] == [contents(item) for item in SAMPLE]


# ---- where from ----


def to_array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize("convert", [bytes, bytearray, memoryview, to_array])
def test_bytes_like_objects(convert):
    assert_sample(StreamReader(convert(DATA)))


def test_a_mapping_of_a_file(tmp_path):
    (tmp_path / "s").write_bytes(DATA)
    with open(tmp_path / "s", "rb") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
            with StreamReader(mapping) as reader:
                assert_sample(reader)  # and closing the mapping finds it unused


def test_a_buffer_is_held_until_the_reader_is_closed():
    data = bytearray(DATA)
    reader = StreamReader(data)
    next(reader)
    with pytest.raises(BufferError):
        data.append(0)
    reader.close()
    data.append(0)


def test_memory_that_is_not_in_one_piece():
    with pytest.raises(BufferError):
        StreamReader(memoryview(DATA)[::2])


@pytest.mark.parametrize("convert", [str, pathlib.Path])
def test_paths(tmp_path, convert):
    (tmp_path / "s").write_bytes(DATA)
    with StreamReader(convert(tmp_path / "s")) as reader:
        assert_sample(reader)


def test_a_path_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(hurray.FileError) as caught:
        StreamReader(tmp_path / "none")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, tmp_path / "none")
    with pytest.raises(hurray.FileError) as caught:
        next(StreamReader(tmp_path))
    assert (caught.value.errno, caught.value.filename) == (errno.EISDIR, tmp_path)


@pytest.mark.parametrize("read", [0, 1, 5, 9000])
@pytest.mark.parametrize("buffering", [0, -1, 16])
def test_a_file_object_is_read_from_where_it_is(tmp_path, buffering, read):
    (tmp_path / "s").write_bytes(bytes(read) + DATA)
    with open(tmp_path / "s", "rb", buffering=buffering) as file:
        assert file.read(read) == bytes(read)
        with StreamReader(file) as reader:
            assert_sample(reader)
            assert_sample(StreamReader(file))  # it is still there
        assert file.tell() == read
        assert file.read() == DATA
        file.seek(0)
        assert file.read() == bytes(read) + DATA


def test_a_file_that_was_written_first():
    with tempfile.TemporaryFile() as file:
        file.write(b"head" + DATA)
        file.seek(4)
        assert_sample(StreamReader(file))
        assert file.seek(0) == 0


def test_named_temporary_files():
    with tempfile.NamedTemporaryFile() as file:
        file.write(DATA)
        file.seek(0)
        assert_sample(StreamReader(file))


@pytest.mark.parametrize("rest", ["there", "to come", "end"])
def test_what_a_file_object_has_read_ahead_of_a_pipe_is_not_lost(rest):
    line = b"a line before the stream\n"
    with pipe() as (reading, writing):
        with io.BufferedReader(reading) as buffered:
            part = len(line) + 20 if rest == "to come" else None
            writing.write((line + DATA)[:part])
            assert buffered.readline() == line  # and it has read on
            if rest == "end":
                writing.close()
            reader = StreamReader(buffered)
            if rest == "to come":
                writing.write((line + DATA)[part:])
            if rest != "end":
                writing.close()
            assert_sample(reader)
            assert os.get_blocking(reading.fileno())


def test_a_file_object_that_has_read_nothing_ahead_is_not_waited_for():
    with pipe() as (reading, writing):
        with io.BufferedReader(reading) as buffered:
            reader = StreamReader(buffered)  # returns at once
            assert os.get_blocking(reading.fileno())
            writing.write(DATA)
            writing.close()
            assert_sample(reader)


def test_a_socket_read_through_a_file_object():
    ours, theirs = socket.socketpair()
    with ours, theirs, theirs.makefile("rb") as file:
        ours.sendall(b"line\n" + DATA[:30])
        assert file.readline() == b"line\n"
        reader = StreamReader(file)
        ours.sendall(DATA[30:])
        ours.close()
        assert_sample(reader)


def test_standard_input():
    code = """
        import sys, hurray
        assert sys.stdin.buffer.readline() == b"first\\n"
        print([item.shape for item in hurray.StreamReader(sys.stdin.buffer)])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        input=b"first\n" + DATA,
        capture_output=True,
        timeout=60,
    )
    assert (done.stderr, eval(done.stdout)) == (b"", [item.shape for item in SAMPLE])


def test_from_one_process_to_the_next():
    produce = """
        import sys, hurray
        with hurray.StreamWriter(sys.stdout.buffer) as writer:
            for start in range(200):
                writer.write(hurray.arange(start))
    """
    command = [sys.executable, "-c", textwrap.dedent(produce)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        shapes = [t.shape for t in StreamReader(process.stdout)]
    assert shapes == [(n,) for n in range(200)]
    assert process.returncode == 0


def test_tcp():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as ours:
            theirs, _ = server.accept()

            def send() -> None:
                with StreamWriter(theirs) as writer:
                    for item in (*SAMPLE, tensor(1 << 20)):
                        writer.write(item)
                theirs.close()

            with running(send):
                *items, big = StreamReader(ours)
            assert_sample(items)
            assert same(big, tensor(1 << 20))


def test_a_fifo(tmp_path):
    os.mkfifo(tmp_path / "fifo")

    def produce() -> None:
        with StreamWriter(tmp_path / "fifo") as writer:  # waits for the reader
            for item in SAMPLE:
                writer.write(item)

    with running(produce):
        assert_sample(StreamReader(tmp_path / "fifo"))


def test_a_connection_that_is_reset():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as ours:
            theirs, _ = server.accept()
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            theirs.close()
            reader = StreamReader(ours)
            for _ in range(2):
                with pytest.raises(hurray.FileError) as caught:
                    next(reader)
                assert caught.value.errno == errno.ECONNRESET


@pytest.mark.parametrize("source", [None, 0, 1.5, "closed", [], object(), io.BytesIO])
def test_sources_that_are_none(source):
    if source == "closed":
        with pipe() as (source, _):
            pass
    with pytest.raises((TypeError, ValueError), match=r"fileno|closed"):
        StreamReader(source)


@pytest.mark.parametrize("kind", [io.BytesIO, type("Derived", (io.BytesIO,), {})])
def test_a_memory_file_is_told_of_getvalue(kind):
    with pytest.raises(TypeError, match=r"getvalue\(\)"):
        StreamReader(kind(DATA))


@pytest.mark.parametrize("module", [gzip, bz2, lzma], ids=lambda m: m.__name__)
def test_a_file_that_decompresses_is_refused(tmp_path, module):
    path = tmp_path / "compressed"
    path.write_bytes(module.compress(DATA))
    with module.open(path) as file:
        with pytest.raises(TypeError, match=r"not those of its fileno\(\)"):
            StreamReader(file)
        with pytest.raises(TypeError, match="fileno"):
            StreamReader(io.BufferedReader(file))
    assert_sample(StreamReader(module.open(path).read()))


def test_a_text_file_is_refused(tmp_path):
    (tmp_path / "s").write_bytes(DATA)
    with open(tmp_path / "s", encoding="latin-1") as file:
        with pytest.raises(TypeError, match=r"text: pass its \.buffer"):
            StreamReader(file)
        assert_sample(StreamReader(file.buffer))


def test_the_descriptor_is_a_duplicate():
    with pipe() as (reading, writing):
        reader = StreamReader(reading)
        writing.write(DATA)
        next(reader)
        reader.close()
        del reader
        os.fstat(reading.fileno())  # still open
        reader = StreamReader(reading)
        reading.close()
        writing.write(written(tensor(1)))
        assert same(next(reader), tensor(1))


def test_arguments():
    for wrong in ({"max_buffer": 1}, {"cross_machine": True, "source": DATA, "x": 1}):
        with pytest.raises(TypeError):
            StreamReader(**wrong)
    with pytest.raises(TypeError):
        StreamReader(DATA, 5)
    with pytest.raises(TypeError):
        type("Derived", (StreamReader,), {})


# ---- what comes out ----


def test_a_reader_is_its_own_iterator():
    reader = StreamReader(DATA)
    assert iter(reader) is reader
    assert len(list(reader)) == len(SAMPLE)
    assert list(reader) == []
    assert next(reader, None) is None


def test_an_empty_stream():
    assert list(StreamReader(b"")) == []


@pytest.mark.parametrize("size", [0, 1, 63, 64, 4095, 4096, 100000, 5 << 20])
def test_buffers_are_aligned_for_whoever_takes_them(size):
    values = np.arange(size, dtype=np.uint8)
    (t,) = StreamReader(written(hurray.Tensor(values.tobytes(), hurray.uint8, (size,))))
    back = np.asarray(t)
    assert np.array_equal(back, values)
    if size:
        assert back.ctypes.data % (4096 if size >= 4096 else 64) == 0
        assert t.buffer_handles[0].alignment == (4096 if size >= 4096 else 64)
    assert back.flags.writeable


def test_buffers_are_new_memory():
    data = bytearray(written(tensor(3)))
    (t,) = StreamReader(data)
    data[:] = bytes(len(data))
    assert same(t, tensor(3))


def test_written_again_a_stream_is_the_same():
    assert written(*StreamReader(DATA)) == DATA


def test_the_first_tensor_is_there_before_the_second_is_sent():
    with pipe() as (reading, writing):
        reader = StreamReader(reading)
        for item in SAMPLE:
            writing.write(written(item))
            assert same(next(reader), item)


@pytest.mark.parametrize("blocking", [True, False])
def test_one_byte_at_a_time(blocking):
    with pipe() as (reading, writing):
        os.set_blocking(reading.fileno(), blocking)

        def trickle() -> None:
            for i in range(len(DATA)):
                writing.write(DATA[i : i + 1])
                if i % 50 == 0:
                    time.sleep(0.001)
            writing.close()

        with running(trickle):
            assert_sample(StreamReader(reading))


# ---- streams that are broken ----


def test_truncation_at_every_byte():
    """Where it was cut, in which item; and all items before are there."""
    ends = [0]
    for item in SAMPLE:
        ends.append(ends[-1] + len(written(item)))
    for cut in range(len(DATA)):
        reader = StreamReader(DATA[:cut])
        whole = sum(end <= cut for end in ends[1:])
        found = [contents(next(reader)) for _ in range(whole)]
        assert found == [contents(item) for item in SAMPLE[:whole]]
        if cut in ends:
            assert list(reader) == []
            continue
        for _ in range(2):
            with pytest.raises(StreamError) as caught:
                next(reader)
            assert f"ends at byte {cut}, in item {whole}" in str(caught.value)
            assert str(caught.value).endswith("missing") or "member" in str(caught.value)


def parts_of(item: hurray.Tensor | hurray.Composite) -> list[tuple[int, int]]:
    """What an item is in a stream: (number of the buffer, or -1 for a descriptor; bytes)."""
    if isinstance(item, hurray.Composite):
        members = sum(len(written(member)) for member in item.members)
        head = [(-1, len(written(item)) - members)]
        return head + [part for member in item.members for part in parts_of(member)]
    buffers = [len(bytes(item.buffer(i))) for i in range(item.buffer_count)]
    return [(-1, len(item.descriptor.encode())), *enumerate(buffers)]


def test_truncation_names_the_part():
    item = SAMPLE[3]
    data = written(item)
    at, part = 0, -1
    for buffer, size in parts_of(item):
        part += buffer < 0
        for cut in range(at + 1, at + size):
            with pytest.raises(StreamError) as caught:
                next(StreamReader(data[:cut]))
            message = str(caught.value)
            place = f"item 0, part {part}" if part else "item 0"
            where = "descriptor" if buffer < 0 else f"buffer {buffer}"
            assert f"{place}, {where}: " in message
            if buffer >= 0:
                assert f": {at + size - cut} of its {size} bytes are missing" in message
        at += size
    assert at == len(data)


def test_truncation_of_files_and_pipes(tmp_path):
    (tmp_path / "s").write_bytes(DATA[:-1])
    with pipe() as (reading, writing):
        writing.write(DATA[:-1])
        writing.close()
        for source in (tmp_path / "s", reading):
            reader = StreamReader(source)
            for _ in SAMPLE[:-1]:
                next(reader)
            with pytest.raises(StreamError, match=f"at byte {len(DATA) - 1}, .*: 1 of its 32"):
                next(reader)


def test_a_broken_descriptor_says_where_it_begins():
    data = written(tensor(3)) + b"XRRY" + written(tensor(3))[4:]
    reader = StreamReader(data)
    next(reader)
    for _ in range(2):
        with pytest.raises(InvalidDescriptorError, match=r"item 1.*byte \d+.*magic"):
            next(reader)


def test_a_file_is_no_stream():
    with pytest.raises(
        StreamError, match=r'"HRRYFILE" begins a file of tensors.*expected a stream'
    ):
        next(StreamReader(b"HRRYFILE" + bytes(100)))


def test_a_tensor_that_follows_a_broken_one_is_not_looked_for():
    broken = bytearray(written(tensor(3)))
    broken[4] = 99  # version
    reader = StreamReader(bytes(broken) + DATA)
    for _ in range(3):
        with pytest.raises(InvalidDescriptorError, match="version"):
            next(reader)


# ---- limits ----


def test_defaults():
    for limits in ({}, {"max_descriptor_bytes": None, "max_buffer_bytes": None}):
        assert_sample(StreamReader(DATA, **limits, max_composite_depth=None, cross_machine=None))


def test_max_descriptor_bytes():
    size = len(tensor(3).descriptor.encode())
    data = written(tensor(3))
    assert len(list(StreamReader(data, max_descriptor_bytes=size))) == 1
    for limit in (0, size - 1):
        with pytest.raises(StreamError, match=f"{size} is over the limit.* {limit}"):
            next(StreamReader(data, max_descriptor_bytes=limit))


def test_the_default_limit_of_descriptors():
    prefix = bytearray(written(tensor(3))[:10])
    prefix[6:10] = (16777217).to_bytes(4, "little")
    with pytest.raises(StreamError, match="16777217 is over the limit"):
        next(StreamReader(prefix))
    prefix[6:10] = (16777216).to_bytes(4, "little")
    with pytest.raises(StreamError, match="16777206 of the 16777216"):
        next(StreamReader(prefix))


def test_max_buffer_bytes():
    data = written(tensor(3))
    assert len(list(StreamReader(data, max_buffer_bytes=12))) == 1
    for limit in (0, 11):
        with pytest.raises(StreamError, match=f"12 bytes, over the limit.* {limit}"):
            next(StreamReader(data, max_buffer_bytes=limit))
    assert len(list(StreamReader(written(group()), max_buffer_bytes=0))) == 1


def test_max_composite_depth():
    assert len(list(StreamReader(written(tensor(1)), max_composite_depth=0))) == 1
    for depth in range(1, 9):
        data = written(nested(depth))
        assert len(list(StreamReader(data, max_composite_depth=depth))) == 1
        with pytest.raises(StreamError, match=f"depth {depth}, over the limit"):
            next(StreamReader(data, max_composite_depth=depth - 1))


@pytest.mark.parametrize("name", ["max_descriptor_bytes", "max_buffer_bytes"])
def test_limits_that_are_no_sizes(name):
    for value, error in ((-1, OverflowError), (2**64, OverflowError), ("5", TypeError)):
        with pytest.raises(error, match=name):
            StreamReader(DATA, **{name: value})
    assert_sample(StreamReader(DATA, **{name: 2**64 - 1}))


def test_depths_that_are_none():
    for value, error in ((9, ValueError), (-1, OverflowError), (1.5, TypeError)):
        with pytest.raises(error, match="max_composite_depth"):
            StreamReader(DATA, max_composite_depth=value)


@pytest.mark.parametrize("sync", [0, 1, 2])
def test_cross_machine(sync):
    data = bytearray(written(tensor(3)))
    length = len(tensor(3).descriptor.encode())
    data[length - 4 : length - 2] = bytes([1, sync])  # on a GPU; its sync mode
    assert np.asarray(next(StreamReader(data))).tolist() == [0, 1, 2]  # here it is in memory
    reader = StreamReader(data, cross_machine=True)
    if sync == 0:
        assert next(reader).device == hurray.Device("cpu")
        return
    with pytest.raises(InvalidDescriptorError, match="only producer_synced"):
        next(reader)


def hostile(size: int) -> bytes:
    """The descriptor of a tensor of that many bytes, and a few of them."""
    t = hurray.Descriptor.decode(tensor(7, dtype="uint8").descriptor.encode()).encode()
    assert t.count((7).to_bytes(8, "little")) == 2  # extent and byte_size
    return t.replace((7).to_bytes(8, "little"), size.to_bytes(8, "little")) + bytes(100)


@pytest.mark.parametrize("size", [1 << 30, 1 << 40, (1 << 63) - 1])
def test_a_declared_size_costs_no_memory(size):
    data = hostile(size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(StreamError, match=f"{size - 100} of its {size} bytes are missing"):
        next(StreamReader(data))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert peak < 8 << 10  # KiB: what was touched, not what was reserved


def test_a_declared_size_reserves_no_more_than_it_may():
    """64 MiB are trusted; a process that may have 1 GiB more reads on."""
    code = f"""
        import resource, hurray
        data = bytes.fromhex("{hostile(1 << 38).hex()}")
        list(hurray.StreamReader(b""))
        used = int(open("/proc/self/statm").read().split()[0]) * 4096
        resource.setrlimit(resource.RLIMIT_AS, (used + (160 << 20),) * 2)
        try:
            next(hurray.StreamReader(data))
        except hurray.StreamError as error:
            print("refused")
    """
    if leaks.is_sanitized():
        pytest.skip("AddressSanitizer reserves all the address space there is")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, timeout=60
    )
    assert (done.stdout, done.stderr) == (b"refused\n", b"")


def test_a_declared_number_of_members_costs_no_memory():
    count = (1 << 32) - 2
    one, two = written(group(tensor(1))), written(group(tensor(1), tensor(1)))
    at = next(i for i in range(len(one)) if one[i] != two[i])  # member_count, u32
    assert one[at : at + 4] == (1).to_bytes(4, "little")
    many = one[:at] + count.to_bytes(4, "little") + one[at + 4 :]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(StreamError, match=f"1 of {count} members"):
        next(StreamReader(many))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 << 10


# ---- waiting ----


def test_a_waiting_reader_does_not_hold_the_gil():
    with pipe() as (reading, writing):
        found = []
        with running(lambda: found.append(next(StreamReader(reading)))):
            deadline = time.monotonic() + 0.2
            count = 0
            while time.monotonic() < deadline:
                count += 1
            assert count > 1000
            assert not found
            writing.write(written(tensor(3)))
        assert same(found[0], tensor(3))


def test_a_large_tensor_comes_quickly_beside_a_busy_thread():
    """A pipe gives 64 KiB at a time; taking the GIL for each would cost a switch interval each."""
    big = tensor(1 << 23)  # 32 MiB: 512 pieces
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            pass

    with pipe() as (reading, writing):
        before = sys.getswitchinterval()
        sys.setswitchinterval(0.05)
        try:
            code = (
                "import sys, hurray\n"
                "t = hurray.zeros((1 << 23,))\n"
                "hurray.StreamWriter(sys.stdout.buffer).write(t)\n"
            )
            with subprocess.Popen([sys.executable, "-c", code], stdout=writing.fileno()):
                with running(spin):
                    start = time.monotonic()
                    t = next(StreamReader(reading))
                    seconds = time.monotonic() - start
                    stop.set()
        finally:
            stop.set()
            sys.setswitchinterval(before)
    assert t.shape == big.shape
    assert seconds < 512 * 0.05 / 2


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_closing_ends_the_wait_of_another_thread(kind):
    ends = pipe() if kind == "pipe" else None
    ours, theirs = socket.socketpair()
    with ours, theirs, pipe() as (reading, _writing):
        source = reading if ends else theirs
        reader = StreamReader(source)
        found = []
        with running(lambda: found.append(list(reader))):
            time.sleep(0.1)
            reader.close()
        assert found == [[]]
        assert list(reader) == []


@pytest.mark.parametrize("cut", [5, 30, len(written(SAMPLE[0])) - 1, -1])
def test_closing_inside_an_item(cut):
    """Also between the parts of a composite."""
    item = nested(2) if cut < 0 else SAMPLE[0]
    part = written(item)[:cut] if cut > 0 else written(item)[: -len(written(tensor(2)))]
    with pipe() as (reading, writing):
        reader = StreamReader(reading)
        writing.write(DATA + part)
        for _ in SAMPLE:
            next(reader)
        place = f"at byte {len(DATA) + len(part)}, inside an item that begins at byte {len(DATA)}"
        with running(lambda: (time.sleep(0.1), reader.close())):
            with pytest.raises(StreamError, match=f"closed .*{place}"):
                next(reader)
        assert list(reader) == []


def test_closing_while_several_threads_wait():
    with pipe() as (reading, _writing):
        reader = StreamReader(reading)
        threads = [threading.Thread(target=list, args=(reader,), daemon=True) for _ in range(5)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        reader.close()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()


def test_closing_and_reading_race():
    before = streams.open_descriptors()
    for delay in range(300):
        with pipe() as (reading, writing):
            reader = StreamReader(reading)
            writing.write(written(tensor(1)))
            with running(lambda r=reader: list(r)):
                if delay % 3 == 0:
                    time.sleep(delay / 1e6)
                reader.close()
            assert list(reader) == []
    del reader
    assert streams.open_descriptors() == before


def test_threads_share_a_reader():
    items = [nested(2, tensor(start + 1)) for start in range(200)]
    with pipe() as (reading, writing):
        reader = StreamReader(reading)
        found: list = []
        threads = [
            threading.Thread(target=lambda: found.extend(reader), daemon=True) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        with StreamWriter(writing) as writer:
            for item in items:
                writer.write(item)
        writing.close()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
    assert sorted(map(repr, map(contents, found))) == sorted(map(repr, map(contents, items)))


# ---- signals ----


def start(code: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("sent", [0, 30, len(written(SAMPLE[0]))])
@pytest.mark.parametrize("waiting_for", ["bytes", "another thread"])
def test_an_interrupt_ends_the_wait_and_loses_nothing(sent, waiting_for):
    code = f"""
        import sys, threading, time, hurray
        reader = hurray.StreamReader(sys.stdin.buffer)
        items = []
        other = threading.Thread(target=lambda: items.append(next(reader)))
        if {waiting_for == "another thread"}:
            other.start()
            time.sleep(0.1)
        print("waiting", flush=True)
        start = time.monotonic()
        try:
            for item in reader:
                items.append(item)
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - start < 5, flush=True)
        items.extend(reader)
        if other.ident:
            other.join()
        print(len(items))
    """
    if waiting_for == "another thread" and sent:
        pytest.skip("the same wait")
    with start(code) as process:
        process.stdin.write(DATA[:sent])
        process.stdin.flush()
        assert process.stdout.readline() == b"waiting\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"interrupted True\n"
        out, err = process.communicate(DATA[sent:], timeout=20)
    assert (out, err) == (b"%d\n" % len(SAMPLE), b"")


def test_a_producer_that_never_pauses_can_be_interrupted():
    code = """
        import sys, hurray
        reader = hurray.StreamReader(sys.stdin.buffer)
        print("reading", flush=True)
        try:
            next(reader)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    with start(code) as process:
        process.stdin.write(hostile(1 << 40))
        process.stdin.flush()
        assert process.stdout.readline() == b"reading\n"
        chunk = bytes(1 << 16)
        try:
            for i in range(1 << 14):  # at most 1 GiB
                process.stdin.write(chunk)
                if i == 100:  # more than a pipe holds: it is reading
                    process.send_signal(signal.SIGINT)
        except BrokenPipeError:
            pass
        else:
            pytest.fail("it read on")
        assert process.stdout.readline() == b"interrupted\n"
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


@pytest.mark.parametrize("action", ["next", "close", "raise"])
def test_a_handler_that_uses_the_reader_that_waits(action):
    with pipe() as (reading, writing):
        reader = StreamReader(reading)
        seen = []

        def handle(number, frame) -> None:
            seen.append(action)
            if action == "next":
                with pytest.raises(RuntimeError, match="in use"):
                    next(reader)
                writing.write(written(tensor(3)))
            elif action == "close":
                reader.close()
            else:
                raise ZeroDivisionError

        before = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            if action == "raise":
                with pytest.raises(ZeroDivisionError):
                    next(reader)
                writing.write(written(tensor(3)))
            if action == "close":
                assert next(reader, None) is None
            else:
                assert same(next(reader), tensor(3))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert seen == [action]


# ---- closing ----


def test_a_closed_reader_is_exhausted():
    reader = StreamReader(DATA)
    next(reader)
    reader.close()
    reader.close()
    assert list(reader) == []
    with StreamReader(DATA) as reader:
        pass
    assert list(reader) == []


def test_a_block_that_fails_says_what_was_wrong():
    with pytest.raises(ZeroDivisionError):
        with StreamReader(DATA) as reader:
            _ = 1 / 0
    assert list(reader) == []


def test_items_outlive_their_reader():
    with StreamReader(DATA) as reader:
        items = list(reader)
    del reader
    gc.collect()
    assert_sample(items)


def run_alone(code: str) -> None:
    """In a process without other threads: what a fork in midst of them leaves locked is not ours,
    and no promise of the sanitizers' runtimes either."""
    prelude = f"""
        import os, sys, threading, time, hurray
        sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
        from streams import pipe, running, same, tensor, written
        with pipe() as (reading, writing):
            reader = hurray.StreamReader(reading)
            writing.write(written(tensor(1)))
            next(reader)  # it has waited once
    """
    script = textwrap.dedent(prelude) + textwrap.indent(textwrap.dedent(code), "    ")
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_child_that_closes_does_not_end_the_wait_of_its_parent():
    run_alone("""
        child = os.fork()
        if child == 0:
            reader.close()
            os._exit(len(list(reader)))
        assert os.waitpid(child, 0) == (child, 0)
        with running(lambda: (time.sleep(0.1), writing.write(written(tensor(2))))):
            assert same(next(reader), tensor(2))
    """)


def test_a_child_reads_on_and_can_be_closed_by_its_threads():
    run_alone("""
        child = os.fork()
        if child == 0:
            threading.Timer(0.2, reader.close).start()
            os._exit(len(list(reader)))
        reader.close()  # does not wake the child
        assert os.waitpid(child, 0) == (child, 0)
    """)


# ---- nothing stays behind ----


def test_ten_thousand_readers_leave_no_descriptor(tmp_path):
    (tmp_path / "s").write_bytes(DATA)
    before = streams.open_descriptors()
    with pipe() as (reading, writing):
        for i in range(5000):
            StreamReader(tmp_path / "s")
            reader = StreamReader(reading)
            if i % 50 == 0:
                writing.write(written(tensor(1)))
                next(reader)
            if i % 2:
                reader.close()
        with pytest.raises(TypeError):
            StreamReader(io.BytesIO())
    del reader
    assert streams.open_descriptors() < before + 100  # an earlier test may still be closing some


def test_no_memory_stays_behind():
    t, item = tensor(4), nested(3)
    data = written(t, item)
    torn = data[:-3]

    def action() -> None:
        list(StreamReader(data))
        reader = StreamReader(data)
        next(reader)
        reader.close()
        with contextlib.suppress(StreamError):
            list(StreamReader(torn))
        with contextlib.suppress(ValueError):
            StreamReader(data, max_composite_depth=9)

    leaks.check(action, [data, torn], repetitions=30000)


def test_readers_abandoned_inside_an_item_leave_no_memory():
    item = nested(4)
    data = written(item)[: -len(written(tensor(2))) - 3]
    with pipe() as (reading, writing):
        os.set_blocking(reading.fileno(), False)

        def action() -> None:
            writing.write(data)
            reader = StreamReader(reading)
            with contextlib.suppress(ZeroDivisionError):
                signal.setitimer(signal.ITIMER_REAL, 0.0005)
                next(reader)

        def handle(number, frame) -> None:
            raise ZeroDivisionError

        before = signal.signal(signal.SIGALRM, handle)
        try:
            leaks.check(action, [], repetitions=2000)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def test_weak_references():
    reader = StreamReader(DATA)
    reference = weakref.ref(reader)
    assert reference() is reader
    del reader
    assert reference() is None
