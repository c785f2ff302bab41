"""Files that are not on a disk of ours: file objects, URLs, servers (spec 8.12)."""

from __future__ import annotations

import contextlib
import errno
import gzip
import http.server
import io
import os
import re
import tempfile
import threading
import time
import zipfile

import leaks
import numpy as np
import pytest
from file_cases import ARRAYS, entries_of, nested, same

import hurray

# A megabyte between two small ones.
ITEMS = {
    "first": np.arange(100, dtype=np.float32),
    "big": np.arange(1 << 20, dtype=np.uint8).reshape(1024, 1024),
    "last": np.arange(7, dtype=np.int64),
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.hrry"
    hurray.save(path, ITEMS, kv={"a": "b"})
    return path


@pytest.fixture
def data(path):
    return path.read_bytes()


class Counting:
    """A file object that is nothing but seek and read, and remembers what was asked for."""

    def __init__(self, data):
        self.file = io.BytesIO(data)
        self.requests = []

    def seek(self, offset, whence=0):
        return self.file.seek(offset, whence)

    def read(self, size=-1):
        self.requests.append((self.file.tell(), size))
        return self.file.read(size)

    @property
    def bytes(self):
        return sum(size for _, size in self.requests)


def index_cost(data):
    """Header, trailer and index."""
    return 64 + 40 + hurray.open(data).info["index_length"]


def check(loaded):
    for name, array in ITEMS.items():
        np.testing.assert_array_equal(np.asarray(loaded[name]), array)


# ---- what it costs ----


def test_a_tensor_costs_its_own_bytes_and_the_index(data):
    source = Counting(data)
    file = hurray.open(source)
    assert source.bytes == index_cost(data), "opening reads header, trailer and index"
    assert list(file) == list(ITEMS) and "big" in file
    assert source.bytes == index_cost(data), "names cost nothing more"
    for name, array in ITEMS.items():
        source.requests.clear()
        np.testing.assert_array_equal(np.asarray(file[name]), array)
        entry = entries_of(data)[name]
        assert source.bytes == array.nbytes + entry[1], "data and descriptor"
    source.requests.clear()
    np.testing.assert_array_equal(np.asarray(file.read("big", 10, 12)), ITEMS["big"][10:12])
    assert source.bytes == 2048 + entries_of(data)["big"][1], "the descriptor once, and two rows"
    source.requests.clear()
    assert file.descriptor("big").shape == (1024, 1024)
    assert source.bytes == entries_of(data)["big"][1]
    source.requests.clear()
    assert file.kv == {"a": "b"} and source.bytes == file.info["metadata_length"]


def test_loading_some_costs_those(data):
    source = Counting(data)
    hurray.load(source, names=["first", "last"])
    own = sum(ITEMS[name].nbytes + entries_of(data)[name][1] for name in ("first", "last"))
    assert source.bytes == index_cost(data) + own
    source.requests.clear()
    hurray.load_kv(source)
    assert source.bytes < index_cost(data) + 64


def test_composites_of_file_objects(tmp_path):
    path = tmp_path / "c.hrry"
    item = nested(4)
    hurray.save(path, {"c": item})
    assert same(hurray.load(Counting(path.read_bytes()))["c"], item)


# ---- file objects of all kinds ----


class Short(Counting):
    """Gives at most 1000 bytes at a time, as sockets and pipes do."""

    def read(self, size=-1):
        return super().read(min(size, 1000))


class Slow(Counting):
    def read(self, size=-1):
        time.sleep(0.001)
        return super().read(size)


class Views(Counting):
    """Gives memoryviews and bytearrays rather than bytes."""

    def read(self, size=-1):
        return bytearray(super().read(size))


@pytest.mark.parametrize("kind", [Counting, Short, Slow, Views, io.BytesIO])
def test_file_objects_in_memory(data, kind):
    for access in (True, "r", False):
        loaded = hurray.load(kind(data), mmap=access)
        assert list(loaded) == list(ITEMS)
        check(loaded)
    with hurray.open(kind(data)) as file:
        file.verify()


@pytest.mark.parametrize("mode", [("rb",), ("rb", 0), ("r+b",), None], ids=str)
def test_files_of_the_system(path, mode):
    memory = io.BufferedReader(io.BytesIO(path.read_bytes()))
    with memory if mode is None else open(path, *mode) as source:
        source.read(13)
        file = hurray.open(source)
        check(file)
        np.testing.assert_array_equal(np.asarray(file.read("last", 2)), ITEMS["last"][2:])
    if isinstance(getattr(source, "raw", source), io.FileIO):
        check(file)  # a descriptor of its own, as with a path


def test_an_open_file_is_mapped(path):
    with open(path, "rb") as source:
        tensor = hurray.load(source)["big"]
    array = np.asarray(tensor)
    assert array.flags.writeable and array.ctypes.data % 4096 == 0
    with open("/proc/self/maps") as maps:
        assert str(path) in maps.read()


def test_what_is_not_yet_flushed_is_seen(data, tmp_path):
    with open(tmp_path / "x", "w+b") as file:
        file.write(data)
        check(hurray.load(file))


def test_temporary_files(data):
    for make in (
        tempfile.TemporaryFile,
        tempfile.NamedTemporaryFile,
        tempfile.SpooledTemporaryFile,
    ):
        with make() as file:
            file.write(data)
            check(hurray.load(file))


def test_compressed_files(data, tmp_path):
    with gzip.open(tmp_path / "x.gz", "wb") as file:
        file.write(data)
    with gzip.open(tmp_path / "x.gz") as file:
        check(hurray.load(file))
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model", data)
    with zipfile.ZipFile(tmp_path / "x.zip") as archive, archive.open("model") as file:
        check(hurray.load(file))


def test_a_file_open_for_writing_only_is_refused(path):
    with open(path, "ab") as file, pytest.raises((hurray.FileError, TypeError)):
        hurray.load(file)
    check(hurray.load(path))


def test_pipes_are_refused():
    ends = os.pipe()
    try:
        with open(ends[0], "rb", closefd=False) as pipe:
            with pytest.raises((hurray.FileError, TypeError)):
                hurray.load(pipe)
    finally:
        for end in ends:
            os.close(end)


# ---- file objects that fail ----


class Failing(Counting):
    """Fails after some calls."""

    def __init__(self, data, error, after):
        super().__init__(data)
        self.error, self.after = error, after

    def read(self, size=-1):
        if len(self.requests) >= self.after:
            raise self.error
        return super().read(size)


@pytest.mark.parametrize("after", range(6))
def test_errors_of_file_objects_are_the_cause(data, after):
    error = ZeroDivisionError("in read")
    with pytest.raises(hurray.FileError, match="in read") as caught:
        hurray.load(Failing(data, error, after))
    assert caught.value.__cause__ is error


def test_errors_of_the_system_keep_their_number(data):
    error = OSError(errno.ECONNRESET, "gone")
    with pytest.raises(hurray.FileError, match="gone") as caught:
        hurray.load(Failing(data, error, 4))
    assert caught.value.errno == errno.ECONNRESET and caught.value.__cause__ is error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_a_program_is_not_wrapped(data, error):
    with pytest.raises(error):
        hurray.load(Failing(data, error(), 4))


def test_a_file_works_again_after_an_error(data):
    source = Failing(data, OSError("once"), 10**9)
    file = hurray.open(source)
    source.after = 0
    with pytest.raises(hurray.FileError, match="once"):
        file["big"]
    source.after = 10**9
    check(file)


@pytest.mark.parametrize(
    "answer", [b"", None, b"short", "text", 5, bytes(1 << 21)], ids=lambda a: type(a).__name__
)
def test_answers_that_make_no_sense(data, answer):
    class Strange(Counting):
        strange = False

        def read(self, size=-1):
            found = super().read(size)
            return answer if self.strange and size > 100 else found

    file = hurray.open(source := Strange(data))
    source.strange = True
    with pytest.raises(hurray.FileError) as caught:
        file["big"]
    if isinstance(answer, bytes | None):
        assert re.search(r"\d+ bytes at offset \d+; expected \d+", str(caught.value))


class Changing(Counting):
    """Gives other bytes from the nth time on that somebody reads at an offset."""

    def __init__(self, data, offset, other, times):
        super().__init__(data)
        self.offset, self.other, self.times = offset, other, times

    def read(self, size=-1):
        at = self.file.tell()
        found = super().read(size)
        self.times -= at == self.offset
        return self.other[: len(found)] if at == self.offset and self.times <= 0 else found


@pytest.mark.parametrize("becomes_head", [True, False])
def test_a_file_that_changes_between_two_looks(tmp_path, becomes_head):
    """Where there was an empty tensor there is the head of a composite, or the other way round."""
    members = (hurray.full(3, 1), hurray.full(2, 2))
    head = hurray.Composite("group", shape=(1, 1, 1), dtype=hurray.float32, members=members)
    empty = hurray.zeros((0, 3), dtype=hurray.float64)
    hurray.save(tmp_path / "head", {"first": head, "last": hurray.ones(4)})
    hurray.save(
        tmp_path / "empty",
        {"first": empty, "first.0": members[0], "first.1": members[1], "last": hurray.ones(4)},
    )
    before, after = ((tmp_path / name).read_bytes() for name in ("empty", "head"))
    if not becomes_head:
        before, after = after, before
    offset, length, *_ = entries_of(before)["first"]
    assert entries_of(after)["first"][:2] == (offset, length)
    other = after[offset : offset + length]
    for times in range(1, 8):
        for read in (
            lambda file: [file["first"]],
            lambda file: file._load(None, None).values(),
            lambda file: [file._load(["first", "last"], None)["last"]],
        ):
            file = hurray.open(Changing(before, offset, other, times))
            try:
                items = list(read(file))
            except (hurray.FileError, hurray.InvalidDescriptorError, ValueError):
                continue
            for item in items:
                assert any(same(item, found) for found in (head, empty, *members, hurray.ones(4)))


def test_what_cannot_seek(data):
    class NoSeek(Counting):
        def seek(self, offset, whence=0):
            raise io.UnsupportedOperation("underlying stream is not seekable")

    with pytest.raises(hurray.FileError, match="not seekable"):
        hurray.load(NoSeek(data))


@pytest.mark.parametrize("size", [None, -1, "x", 1.5, 2**64, 2**70], ids=repr)
def test_sizes_that_make_no_sense(data, size):
    class Lying(Counting):
        def seek(self, offset, whence=0):
            found = super().seek(offset, whence)
            return size if whence else found

    with pytest.raises((TypeError, OverflowError), match="the size of source"):
        hurray.load(Lying(data))


def test_a_file_object_that_asks_for_itself(data):
    """As a signal handler might, that runs inside read()."""

    class Curious(Counting):
        asked = None

        def read(self, size=-1):
            if self.asked is not None:
                self.asked["last"]
            return super().read(size)

    source, refused = Curious(data), []
    file = source.asked = hurray.open(source)

    def read():
        with pytest.raises(hurray.FileError, match="being read by the code"):
            file["big"]
        refused.append(True)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(60)
    assert refused, "deadlock"
    source.asked = None
    check(file)


def test_truncated_file_objects(data):
    for size in (0, 50, 103, 104, len(data) // 2, len(data) - 1):
        with pytest.raises(hurray.FileError):
            hurray.load(Counting(data[:size]))


# ---- threads ----


def test_threads_share_a_file_object(data):
    """The GIL changes hands inside read(); nobody waits for anybody who waits for them."""
    file, wrong = hurray.open(Slow(data)), []

    def read():
        for _ in range(5):
            for name, array in ITEMS.items():
                if not (np.asarray(file[name]) == array).all():
                    wrong.append(name)

    threads = [threading.Thread(target=read, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "deadlock"
    assert wrong == []


def test_more_threads_do_not_call_a_file_object(tmp_path):
    path = tmp_path / "model.hrry"
    big = np.arange(40 << 20, dtype=np.uint8)
    hurray.save(path, {"a": big})
    source = Counting(path.read_bytes())
    assert (np.asarray(hurray.load(source, threads=8)["a"]) == big).all()
    assert max(size for _, size in source.requests) <= 8 << 20, "in pieces"


# ---- URLs ----


@pytest.fixture
def fsspec():
    return pytest.importorskip("fsspec", reason="fsspec is not installed here")


def test_memory_urls(fsspec, data):
    fsspec.filesystem("memory").pipe("/models/a.hrry", data)
    url = "memory://models/a.hrry"
    check(hurray.load(url))
    assert hurray.load_kv(url) == {"a": "b"}
    with hurray.open(url) as file:
        assert list(file) == list(ITEMS)
        assert repr(file).startswith(f"<hurray.File {url!r}")
        with pytest.raises(KeyError, match="memory://"):
            file["frst"]


def test_file_urls_are_mapped(fsspec, path):
    tensor = hurray.load(f"file://{path}")["big"]
    assert np.asarray(tensor).ctypes.data % 4096 == 0
    check(hurray.load(f"file://{path}", mmap=False))


def test_chained_urls(fsspec, path, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(path, "model.hrry")
    check(hurray.load(f"zip://model.hrry::file://{tmp_path / 'x.zip'}"))


def test_open_files_of_fsspec(fsspec, data):
    fsspec.filesystem("memory").pipe("/models/b.hrry", data)
    with fsspec.open("memory://models/b.hrry", "rb") as file:
        check(hurray.load(file))


def test_urls_of_nothing(fsspec):
    with pytest.raises(hurray.FileError, match=r"memory://absent\.hrry|absent") as caught:
        hurray.load("memory://absent.hrry")
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(hurray.FileError, match="nonsense") as caught:
        hurray.load("nonsense://x")
    assert caught.value.__cause__ is not None


def test_without_fsspec_the_error_names_it(monkeypatch):
    for name in ("fsspec", "fsspec.core"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(ImportError, match=r"fsspec is needed.*hurray\[fsspec\]"):
        hurray.load("memory://x")


# ---- a server ----


class Server(http.server.BaseHTTPRequestHandler):
    """Serves one file; with ranges unless told otherwise."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body):
        server, data = self.server, self.server.data
        if self.path != "/model.hrry":
            self.send_error(404)
            return
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked and server.ranges:
            first, last = int(asked[1]), min(int(asked[2]), len(data) - 1)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            data = data[first : last + 1]
        else:
            self.send_response(200)
        if server.ranges:
            self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            server.sent.append(len(data))
            with contextlib.suppress(ConnectionError):
                self.wfile.write(data)


@pytest.fixture
def server(data):
    pytest.importorskip("fsspec", reason="fsspec is not installed here")
    pytest.importorskip("aiohttp", reason="aiohttp is not installed here")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    server.data, server.sent, server.ranges = data, [], True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_port}/model.hrry"
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_a_tensor_of_a_server_costs_its_own_bytes_and_the_index(server, data):
    with hurray.open(server.url) as file:
        assert list(file) == list(ITEMS)
        assert sum(server.sent) == index_cost(data)
        server.sent.clear()
        np.testing.assert_array_equal(np.asarray(file["last"]), ITEMS["last"])
        assert sum(server.sent) == ITEMS["last"].nbytes + entries_of(data)["last"][1]
        server.sent.clear()
        np.testing.assert_array_equal(np.asarray(file.read("big", 1, 3)), ITEMS["big"][1:3])
        assert sum(server.sent) <= 2048 + 2 * entries_of(data)["big"][1]
    check(hurray.load(server.url))
    assert hurray.load_kv(server.url) == {"a": "b"}


def test_a_server_that_knows_no_ranges_is_refused_rather_than_misread(server):
    server.ranges = False
    with pytest.raises((hurray.FileError, hurray.UnsupportedError)):
        hurray.load(server.url)


def test_a_server_that_has_no_such_file(server):
    with pytest.raises(hurray.FileError) as caught:
        hurray.load(server.url.replace("model", "mobel"))
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(hurray.FileError, match=r"127\.0\.0\.1"):
        hurray.load("http://127.0.0.1:1/model.hrry")


# ---- nothing stays behind ----


def test_nothing_leaks(data):
    def cycle():
        source = Counting(data)
        with hurray.open(source) as file:
            file["first"]
            file.kv
        with contextlib.suppress(hurray.FileError):
            hurray.load(Failing(data, ValueError("x"), 4))
        hurray.load(bytearray(data[:1]) + data[1:], names=["last"])

    assert list(ARRAYS)
    leaks.check(cycle, [data], repetitions=2000)
