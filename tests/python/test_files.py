"""Files of named tensors: save, load, open, File, load_kv (spec 4, 8.1, 8.12)."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import errno
import gc
import mmap
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref

import leaks
import numpy as np
import pytest
from file_cases import (
    ARRAYS,
    declared_tensor,
    entries_of,
    group,
    nested,
    private_tensor,
    same,
    tensors,
)
from test_devices import FakeCuPy

import hurray

MODES = [True, "r", False, None]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.hrry"


@pytest.fixture
def model(path):
    hurray.save(path, tensors(), kv={"layers": 2})
    return path


# ---- there and back ----


@pytest.mark.parametrize("access", MODES)
def test_what_was_saved_is_loaded(model, access):
    loaded = hurray.load(model, mmap=access)
    assert list(loaded) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert loaded[name].dtype == hurray.from_numpy(array).dtype
        np.testing.assert_array_equal(np.asarray(loaded[name]), array)


@pytest.mark.parametrize("kind", [str, os.fspath, lambda p: p], ids=["str", "fspath", "Path"])
def test_paths_of_every_kind(path, kind):
    hurray.save(kind(path), tensors())
    assert list(hurray.load(kind(path))) == list(ARRAYS)


def test_a_path_may_be_relative_and_the_directory_changed_meanwhile(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    hurray.save("model.hrry", tensors())
    file = hurray.open("model.hrry")
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(np.asarray(file["w"]), ARRAYS["w"])


def test_the_file_is_laid_out_as_chapter_4_says(model):
    data = model.read_bytes()
    assert data[:8] == b"HRRYFILE" and data[-4:] == b"HRRY"
    assert data[8:10] == b"\1\0"
    (alignment,) = struct.unpack_from("<I", data, 16)
    assert alignment == 4096
    entries = entries_of(data)
    assert list(entries) == list(ARRAYS)
    (first,) = struct.unpack_from("<Q", data, 20)
    assert first == min(entry[0] for entry in entries.values())
    for name, (at, length, start, size, flags) in entries.items():
        assert at % 8 == 0 and start % alignment == 0 and flags == 0
        assert hurray.Descriptor.decode(data[at : at + length]).shape == ARRAYS[name].shape
        assert data[start : start + size] == ARRAYS[name].tobytes()


def test_an_empty_file_is_a_file(path):
    hurray.save(path, {})
    assert hurray.load(path) == {} and hurray.load_kv(path) == {}
    with hurray.open(path) as file:
        assert len(file) == 0 and list(file) == [] and not file


def test_arrays_of_other_libraries_are_taken(path):
    memory = np.zeros(100, np.uint8)
    unaligned = memory[1:41].view(np.float32)
    unaligned[:] = np.arange(10)
    hurray.save(path, {"u": unaligned, "t": np.arange(6).reshape(2, 3).T, "n": np.float64(3)})
    loaded = hurray.load(path)
    assert np.asarray(loaded["u"]).tolist() == list(range(10))
    assert np.asarray(loaded["t"]).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert np.asarray(loaded["n"]) == 3


@pytest.mark.frameworks
def test_arrays_of_the_frameworks_are_taken(path):
    torch, jnp = pytest.importorskip("torch"), pytest.importorskip("jax.numpy")
    half = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    hurray.save(path, {"torch": half, "jax": jnp.arange(4, dtype="int32")})
    loaded = hurray.load(path)
    assert loaded["torch"].dtype == hurray.bfloat16
    assert torch.equal(loaded["torch"].to_torch(), half)
    assert np.asarray(loaded["jax"]).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("value", [[1, 2], 3.5, "text", None, b"bytes", {"a": 1}, object()])
def test_what_is_no_array_is_refused_by_name_before_anything_is_written(path, value):
    with pytest.raises(hurray.UnsupportedError, match=r"tensors\['bad'\].*hurray\.Composite"):
        hurray.save(path, {"good": hurray.ones(3), "bad": value})
    assert list(path.parent.iterdir()) == []


def test_arrays_that_are_refused_are_named(path):
    with pytest.raises(hurray.UnsupportedError, match=r"tensors\['bad'\]: NumPy dtype.*<U1"):
        hurray.save(path, {"good": hurray.ones(3), "bad": np.array(["a"])})
    assert list(path.parent.iterdir()) == []


def test_nothing_is_saved_to_a_url(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memory:").mkdir()  # the directory that the same text would name
    with pytest.raises(hurray.UnsupportedError, match=r"'memory://x' is a URL"):
        hurray.save("memory://x", {"w": hurray.ones(3)})
    assert list(tmp_path.rglob("x")) == []


@pytest.mark.parametrize("container", [[("w", 1)], "w", 3, None, {"w"}])
def test_tensors_must_be_a_mapping(path, container):
    with pytest.raises(TypeError, match=r"tensors is .*expected a dict"):
        hurray.save(path, container)


def test_every_kind_of_item_survives(path):
    items = {
        "private": private_tensor(),
        "declared": declared_tensor(),
        "bits": hurray.from_numpy(np.array([True, False, True] * 5)),
        "deep": nested(8),
        "group of none": group(),
        "sparse": hurray.sparse_coo(
            np.array([1.0, 2.0]), np.array([[0, 2], [1, 0]], np.uint64), (2, 3)
        ),
        "transposed": hurray.from_numpy(ARRAYS["w"]).T,
    }
    hurray.save(path, items)
    for access in MODES:
        loaded = hurray.load(path, mmap=access)
        assert list(loaded) == list(items)
        assert [name for name in items if not same(items[name], loaded[name])] == []
    assert loaded["declared"].buffer_handles[0].device == hurray.device.cuda
    with hurray.open(path) as file:
        assert [name for name in items if not same(items[name], file[name])] == []
        file.verify()


def test_members_have_names_of_their_own(path):
    inner = group(hurray.full(2, 1), hurray.full(2, 2))
    hurray.save(path, {"c": group(hurray.full(2, 0), inner), "z": hurray.ones(1)})
    with hurray.open(path) as file:
        assert list(file) == ["c", "z"] and len(file) == 2
        assert file.all_names() == ["c", "c.0", "c.1", "c.1.0", "c.1.1", "z"]
        assert np.asarray(file["c.1.1"]).tolist() == [2, 2]
        assert isinstance(file["c.1"], hurray.Composite) and "c.1.0" in file
        assert file.descriptor("c").layout == file["c"].layout
    loaded = hurray.load(path, names=["c.1.0", "c"])
    assert list(loaded) == ["c.1.0", "c"]
    assert np.asarray(loaded["c"].members[1].members[0]).tolist() == [1, 1]


def test_a_member_of_a_composite_may_take_a_name_that_another_wants(path):
    with pytest.raises(ValueError, match=r"c\.0"):
        hurray.save(path, {"c.0": hurray.ones(1), "c": group(hurray.ones(1))})
    assert list(path.parent.iterdir()) == []


def test_device_memory_is_refused_and_leaves_nothing_behind(path):
    path.write_bytes(b"old")
    for on_device in (FakeCuPy((2, 0)), hurray.from_dlpack(FakeCuPy((2, 0)))):
        with pytest.raises(hurray.UnsupportedError, match=r"'gpu'.*cuda"):
            hurray.save(path, {"host": hurray.ones(3), "gpu": on_device})
        with pytest.raises(hurray.UnsupportedError, match=r"'c'.*cuda"):
            hurray.save(path, {"c": group(hurray.ones(3), hurray.from_dlpack(FakeCuPy((2, 0))))})
    assert path.read_bytes() == b"old" and list(path.parent.iterdir()) == [path]


# ---- names ----


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "ü",
        "\0",
        "\U0001f600" * 7,
        "a/b.c[0] \n\t'\"",
        " ",
        "e\u0301",
        "\ufeff",
        "x" * 65535,
        "é" * 32767,
    ],
    ids=lambda name: ascii(name)[:20],
)
def test_names_of_every_kind(path, name):
    hurray.save(path, {name: hurray.ones(2), "other": hurray.zeros(1)})
    assert list(hurray.load(path)) == [name, "other"]
    with hurray.open(path) as file:
        assert name in file and file[name].shape == (2,)


@pytest.mark.parametrize("name", ["", "x" * 65536, "é" * 32768, "\ud800", "a\udfffb"])
def test_names_that_no_file_can_have(path, name):
    with pytest.raises(ValueError, match=r"name|surrogates"):
        hurray.save(path, {"fine": hurray.ones(1), name: hurray.ones(1)})
    assert list(path.parent.iterdir()) == []
    hurray.save(path, {"fine": hurray.ones(1)})
    with hurray.open(path) as file:
        assert name not in file and file.get(name, 7) == 7
        with pytest.raises(KeyError):
            file[name]


@pytest.mark.parametrize("name", [1, None, b"w", ("w",)])
def test_names_are_text(path, name):
    with pytest.raises(TypeError, match=r"name of tensors is .*expected str"):
        hurray.save(path, {name: hurray.ones(1)})
    hurray.save(path, tensors())
    with hurray.open(path) as file:
        assert name not in file
        with pytest.raises(TypeError, match=r"name is .*expected str"):
            file[name]
    with pytest.raises(TypeError):
        hurray.load(path, names=[name])


def test_normal_forms_are_different_names(path):
    hurray.save(path, {"\u00e9": hurray.full(1, 1), "e\u0301": hurray.full(1, 2)})
    assert np.asarray(hurray.load(path)["e\u0301"]).tolist() == [2]


def test_only_the_names_that_are_asked_for(model):
    assert list(hurray.load(model, names=["scalar", "w", "scalar"])) == ["scalar", "w"]
    assert list(hurray.load(model, names=iter(("b",)), mmap=False)) == ["b"]
    assert hurray.load(model, names=[]) == {}
    with pytest.raises(TypeError, match=r"names is a str; expected a list of them, as \['w'\]"):
        hurray.load(model, names="w")
    with pytest.raises(TypeError):
        hurray.load(model, names=5)


@pytest.mark.parametrize("progress", [None, lambda done, total: None])
def test_a_missing_name_is_both_errors_and_lists_close_ones(tmp_path, progress):
    path = tmp_path / "model.hrry"
    names = ["layer.0.weight", "layer.0.bias", "layer.1.weight", "embedding"]
    hurray.save(path, {name: hurray.ones(1) for name in names})
    with pytest.raises(
        hurray.FileError,
        match=r"no tensor 'layer\.0\.wieght' in .*model.*close ones are 'layer\.0\.weight'",
    ) as caught:
        hurray.load(path, names=["embedding", "layer.0.wieght"], progress=progress)
    assert isinstance(caught.value, KeyError)
    file = hurray.open(path)
    for access in (file.__getitem__, file.descriptor, file.read):
        with pytest.raises(KeyError, match="close ones are 'embedding'"):
            access("embeding")
    with pytest.raises(KeyError) as caught:
        file["zzzzzzz"]
    assert "close" not in str(caught.value)


# ---- File is a mapping ----


def test_a_file_is_a_read_only_mapping(model):
    with hurray.open(model) as file:
        assert isinstance(file, hurray.File)
        assert len(file) == len(ARRAYS) and list(file) == list(file.keys()) == list(ARRAYS)
        assert list(file) == list(ARRAYS), "once more"
        assert {name: value.shape for name, value in file.items()} == {
            name: array.shape for name, array in ARRAYS.items()
        }
        assert [value.dtype for value in file.values()] == [t.dtype for t in tensors().values()]
        assert "w" in file and "v" not in file and 3 not in file
        assert file.get("v") is None and file.get("v", 5) == 5 and file.get("w").shape == (3, 4)
        assert file.kv == {"layers": 2} and file.kv is not file.kv
        assert file.descriptor("w").shape == (3, 4)
        assert file == file and file != dict(file) and hash(file) == hash(file)
        assert file.info["count"] == 4 and file.info["version"] == (1, 0)
        assert file.info["size"] == model.stat().st_size
        for change in ("__setitem__", "__delitem__", "pop", "update", "clear"):
            assert not hasattr(file, change)


def test_what_a_file_shows_of_itself(model):
    file = hurray.open(model)
    assert repr(file) == f"<hurray.File {str(model)!r}: 4 tensors, {model.stat().st_size} bytes>"
    file.close()
    assert repr(file) == f"<hurray.File {str(model)!r}, closed>"
    assert repr(hurray.open(model.read_bytes())).startswith("<hurray.File of bytes: 4 tensors")


def test_a_closed_file_says_so(model):
    with hurray.open(model) as file:
        kept = file["w"]
        list(file)
        assert not file.closed
    assert file.closed
    file.close()
    for use in (
        lambda: file["w"],
        lambda: list(file),
        lambda: len(file),
        lambda: "w" in file,
        lambda: file.get("w"),
        lambda: file.kv,
        lambda: file.info,
        lambda: file.read("w", 0, 1),
        lambda: file.descriptor("w"),
        lambda: file.all_names(),
        lambda: file.verify(),
    ):
        with pytest.raises(hurray.FileError, match="closed") as caught:
            use()
        assert not isinstance(caught.value, KeyError)
    np.testing.assert_array_equal(np.asarray(kept), ARRAYS["w"])


def test_a_file_is_neither_pickled_nor_copied(model):
    with hurray.open(model) as file:
        for make in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="send its path"):
                make(file)


def test_a_missing_file_keeps_its_number(path):
    for use in (hurray.load, hurray.open, hurray.load_kv):
        with pytest.raises(hurray.FileError) as caught:
            use(path)
        assert caught.value.errno == errno.ENOENT and isinstance(caught.value, OSError)
        assert str(path) in str(caught.value)
    with pytest.raises(hurray.FileError) as caught:
        hurray.load(path.parent)
    assert str(path.parent) in str(caught.value)


@pytest.mark.parametrize("source", [None, 3, 2.5, object(), ["x"]])
def test_what_is_no_source(source):
    with pytest.raises(TypeError, match=r"source is .*expected a path"):
        hurray.load(source)


def test_a_text_file_is_no_source(model):
    with open(model, encoding="latin-1") as file, pytest.raises(TypeError, match="mode 'rb'"):
        hurray.load(file)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"alignment": 2048}, ValueError, "alignment.*4096 to 2097152"),
        ({"alignment": 4194304}, ValueError, "alignment"),
        ({"alignment": 6144}, ValueError, "power of two"),
        ({"alignment": 0}, ValueError, "alignment"),
        ({"alignment": -4096}, OverflowError, "alignment"),
        ({"alignment": 2**70}, OverflowError, "alignment"),
        ({"alignment": "4096"}, TypeError, "alignment"),
        ({"progress": 3}, TypeError, "progress is int; expected a callable, True or None"),
        ({"kv": [("a", 1)]}, TypeError, "kv is list; expected a dict"),
        ({"words": 1}, TypeError, "words"),
    ],
)
def test_arguments_of_save_that_are_refused(path, arguments, error, match):
    with pytest.raises(error, match=match):
        hurray.save(path, {"w": hurray.ones(1)}, **arguments)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"mmap": "w"}, ValueError, "mmap.*True, False or 'r'"),
        ({"threads": -1, "mmap": False}, (ValueError, OverflowError), "threads"),
        ({"threads": "2", "mmap": False}, TypeError, "threads"),
        ({"progress": 3}, TypeError, "progress"),
        ({"words": 1}, TypeError, "words"),
    ],
)
def test_arguments_of_load_that_are_refused(model, arguments, error, match):
    with pytest.raises(error, match=match):
        hurray.load(model, **arguments)


def test_none_is_the_default_everywhere(path):
    none = dict.fromkeys(("kv", "alignment", "sorted_index", "progress", "checksums"))
    hurray.save(path, tensors(), **none)
    other = path.with_name("other.hrry")
    hurray.save(other, tensors())
    assert path.read_bytes() == other.read_bytes()
    none = dict.fromkeys(("names", "mmap", "prefetch", "threads", "progress", "check_size"))
    assert not hurray.load(path, **none)["w"].readonly
    with hurray.open(path, mmap=None, prefetch=None, check_size=None) as file:
        assert np.asarray(file.read("w", None, None)).tolist() == ARRAYS["w"].tolist()
        file.verify(deep=None)


# ---- options of the writer ----


@pytest.mark.parametrize("alignment", [4096, 8192, 65536, 2097152])
def test_data_begins_at_multiples_of_the_alignment(path, alignment):
    hurray.save(path, tensors(), alignment=alignment)
    data = path.read_bytes()
    assert all(entry[2] % alignment == 0 for entry in entries_of(data).values() if entry[3])
    with hurray.open(path) as file:
        assert file.info["alignment"] == alignment
        np.testing.assert_array_equal(np.asarray(file["w"]), ARRAYS["w"])


def test_a_sorted_index_is_by_bytes_of_names_and_the_order_stays(path):
    names = ["z", "é", "B", "a", "\U0001f600", "\uffff", "aa"]
    hurray.save(path, {n: hurray.full(1, i) for i, n in enumerate(names)}, sorted_index=True)
    assert list(entries_of(path.read_bytes())) == sorted(names, key=str.encode)
    loaded = hurray.load(path)
    assert list(loaded) == names
    assert [np.asarray(t).item() for t in loaded.values()] == list(range(len(names)))


def test_checksums_find_a_flipped_byte(path):
    hurray.save(path, {**tensors(), "c": nested(2)}, checksums=True)
    data = bytearray(path.read_bytes())
    entries = entries_of(data)
    sums = hurray.load_kv(path)["hurray.crc32c"]
    assert len(sums) == 4 * len(entries)
    with hurray.open(path) as file:
        file.verify()
    data[entries["b"][2] + 3] ^= 0x10
    broken = hurray.open(bytes(data))
    with pytest.raises(hurray.FileError, match=r"'b'|\"b\""):
        broken.verify()
    np.testing.assert_array_equal(np.asarray(broken["w"]), ARRAYS["w"])


def test_checksums_are_of_the_data_in_order_of_writing(path):
    hurray.save(
        path, {"a": hurray.from_numpy(np.frombuffer(b"123456789", np.uint8))}, checksums=True
    )
    assert hurray.load_kv(path)["hurray.crc32c"] == struct.pack("<I", 0xE3069283)


def test_what_is_no_array_in_the_end_is_named_and_leaves_the_old_file(path):
    hurray.save(path, {"old": hurray.ones(1)})
    for array in (np.array([{}], dtype=object), np.ma.masked_array([1, 2], [0, 1])):
        with pytest.raises(hurray.UnsupportedError, match=r"tensors\['b'\]"):
            hurray.save(path, {"a": hurray.ones(1), "b": array})
        assert list(hurray.load(path)) == ["old"]
        assert list(path.parent.iterdir()) == [path]


def test_many_items_are_written_together_as_they_are_one_by_one(path):
    """Small and large, empty, unaligned, composites in between: what progress tells changes nothing."""
    unaligned = np.arange(4097, dtype=np.uint8)[1:]
    items = {f"t{i}": np.full(i % 50, i) for i in range(700)}
    items |= {"c": nested(2), "large": np.ones(3 << 20, np.uint8), "unaligned": unaligned}
    items |= {f"u{i}": nested(1) if i % 90 == 0 else unaligned[i:] for i in range(300)}
    hurray.save(path, items, checksums=True)
    together = path.read_bytes()
    hurray.save(path, items, checksums=True, progress=lambda done, total: None)
    assert path.read_bytes() == together
    with hurray.open(path) as file:
        assert list(file) == list(items)
        file.verify()
        for name, item in items.items():
            if isinstance(item, np.ndarray):
                np.testing.assert_array_equal(np.asarray(file[name]), item)


@pytest.mark.parametrize("number", [0, 3, 255, 256, 699])
def test_the_refused_one_of_many_is_named(path, number):
    path.write_bytes(b"old")
    items = {f"t{i}": hurray.ones(i % 9) for i in range(700)}
    names = list(items)
    long = "x" * 65536
    names[number] = long
    with pytest.raises(ValueError, match=r"^'xxx.*a name has 65536 bytes"):
        hurray.save(path, dict(zip(names, items.values(), strict=True)))
    assert path.read_bytes() == b"old" and list(path.parent.iterdir()) == [path]


def test_copies_are_made_one_at_a_time(path):
    """Of large arrays that are not aligned: the copy of one is gone when the next is made."""
    alive = weakref.WeakSet()
    most = 0

    class Large:
        nbytes = 2 << 20

        def __array__(self, dtype=None, copy=None):
            nonlocal most
            gc.collect()
            most = max(most, len(alive))
            owner = Owner()
            alive.add(owner)
            return np.frombuffer(owner, np.uint8)

    class Owner(bytearray):
        def __new__(cls):
            return super().__new__(cls, Large.nbytes)

        def __init__(self):
            super().__init__(Large.nbytes)

        __hash__ = object.__hash__

    hurray.save(path, {str(i): Large() for i in range(5)})
    assert most == 0


def test_the_writer_refuses_what_is_no_batch(path):
    writer = hurray._core._FileWriter(path)
    one = hurray.ones(1)
    with pytest.raises(ValueError, match="1 names of 2 items"):
        writer.add_many(("a",), (one, one))
    with pytest.raises(TypeError, match="'b' is list; expected a Tensor or a Composite"):
        writer.add_many(("a", "b"), (one, []))
    with pytest.raises(TypeError, match="a name is int; expected str"):
        writer.add_many(("a", 1), (one, one))
    with pytest.raises(TypeError):
        writer.add_many(["a"], [one])
    with pytest.raises(UnicodeEncodeError):
        writer.add_many(("\ud800",), (one,))
    start = writer.add_many((), ())
    assert writer.add_many(("a",), (one,)) > start
    writer.finish()
    assert list(hurray.load(path)) == ["a"], "of what was refused before, nothing is there"
    with pytest.raises(hurray.FileError, match="finished"):
        writer.add_many((), ())


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="no path leads to a pipe here")
@pytest.mark.parametrize("count", [None, 1, 2, 300])
def test_a_sink_that_fails_with_the_last_of_many(count):
    """All were accepted by then: nothing behind the last name is looked at, as sanitizers see."""
    one = hurray.ones(1)
    reading, writing = os.pipe()
    path = f"/dev/fd/{writing}"
    writer = hurray._core._FileWriter(path)
    os.close(reading)
    with pytest.raises(hurray.FileError) as caught:
        if count is None:
            writer.add("a", one)
        else:
            writer.add_many(tuple(map(str, range(count))), (one,) * count)
    os.close(writing)
    assert caught.value.errno == errno.EPIPE and caught.value.filename == path


@pytest.mark.parametrize("size", ["many", None, -1, RuntimeError("nbytes")], ids=repr)
def test_an_array_that_does_not_tell_its_size(path, size):
    class Array:
        @property
        def nbytes(self):
            if isinstance(size, Exception):
                raise size
            return size

        def __array__(self, dtype=None, copy=None):
            return np.arange(3)

    told = []
    hurray.save(path, {"a": Array(), "b": np.ones(2)}, progress=lambda *done: told.append(done))
    assert np.asarray(hurray.load(path)["a"]).tolist() == [0, 1, 2]
    assert told and all(done <= total for done, total in told)


@pytest.mark.parametrize("call", [0, 1, 2])
@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_progress_that_raises_leaves_the_old_file(path, call, error):
    """Also at the last call, which says that all is written."""
    hurray.save(path, {"old": hurray.ones(1)})
    calls = []

    def progress(done, total):
        calls.append((done, total))
        if len(calls) == call + 1:
            raise error

    with pytest.raises(error):
        hurray.save(path, {"a": hurray.ones(3), "b": hurray.ones(3)}, progress=progress)
    assert len(calls) == call + 1
    assert list(hurray.load(path)) == ["old"]
    assert list(path.parent.iterdir()) == [path]


def test_a_long_name_that_is_not_there_is_told_soon_and_short(path):
    """Comparing names takes the square of their length."""
    letters = [chr(0x4E00 + i * 7919 % 300) for i in range(20000)]
    names = ["".join(letters[i:] + letters[:i]) for i in range(20)]
    hurray.save(path, {name: hurray.zeros(1) for name in names})
    with hurray.open(path) as file:
        for name in (names[0][1:], "x" * 10**6, "\ud800" * 10**6):
            start = time.process_time()
            for ask in (
                file.__getitem__,
                file.descriptor,
                file.read,
                lambda n: file._load([n], None),
            ):
                with pytest.raises(KeyError) as caught:
                    ask(name)
                assert len(str(caught.value)) < 3000
            assert time.process_time() - start < 5


def test_metadata_go_from_file_to_file_without_checksums_of_the_old_one(path, tmp_path):
    hurray.save(path, {**tensors(), "c": nested(2)}, kv={"a": 1}, checksums=True)
    old = hurray.load_kv(path)
    for name, checksums in ("checked", True), ("plain", False), ("plain", None):
        hurray.save(tmp_path / name, {"b": hurray.ones(3)}, kv=old, checksums=checksums)
        with hurray.open(tmp_path / name) as file:
            file.verify()
            assert file.kv["a"] == 1 and ("hurray.crc32c" in file.kv) == (name == "checked")
            assert file.kv.get("hurray.crc32c") != old["hurray.crc32c"]
    hurray.save(tmp_path / "none", {}, kv={"hurray.crc32c": b""})
    with hurray.open(tmp_path / "none") as file:
        assert file.kv == {} and file.info["metadata_length"] == 0
    hurray.save(path, hurray.load(path), kv=hurray.load_kv(path), checksums=True)
    with hurray.open(path) as file:
        file.verify()
        assert file.kv == old


def test_verify_looks_into_the_data_only_when_deep(path):
    bad = hurray.sparse_coo(np.array([1.0, 2.0]), np.array([[0, 2], [1, 0]], np.uint64), (2, 3))
    hurray.save(path, {"s": bad})
    data = bytearray(path.read_bytes())
    at = data.rindex(struct.pack("<q", 2))
    data[at : at + 8] = struct.pack("<q", 99)
    with hurray.open(bytes(data)) as file:
        file.verify(deep=False)
        with pytest.raises((hurray.InvalidDescriptorError, hurray.FileError), match="99"):
            file.verify()


# ---- metadata ----

KV = {
    "text": "ü\0\U0001f600",
    "empty text": "",
    "int": 12,
    "negative": -(2**63),
    "unsigned": 2**64 - 1,
    "border": 2**63 - 1,
    "float": 0.1,
    "infinite": float("-inf"),
    "true": True,
    "false": False,
    "bytes": bytes(range(256)),
    "no bytes": b"",
    "texts": ["a", "", "ü"],
    "ints": [1, -2, 3],
    "big ints": [1, 2**64 - 1],
    "floats": [0.5, -1e300],
    "bools": [True, False],
    "chunks": [b"", b"\0x"],
    "nothing": [],
    "ü" * 100: "key",
    "k" * 65535: 1,
}


def test_metadata_of_every_type_comes_back(path):
    hurray.save(path, {}, kv=KV)
    back = hurray.load_kv(path)
    assert back == KV and list(back) == list(KV)
    for key, value in KV.items():
        assert type(back[key]) is type(value)
        if isinstance(value, list):
            assert list(map(type, back[key])) == list(map(type, value))


def test_no_metadata_is_no_section(path):
    hurray.save(path, {}, kv={})
    with hurray.open(path) as file:
        assert file.kv == {} and file.info["metadata_length"] == 0 and not file.info["flags"] & 1


def test_nan_and_numbers_of_numpy(path):
    kv = {
        "nan": float("nan"),
        "i": np.int32(5),
        "f": np.float64(0.5),
        "s": np.str_("x"),
        "t": (1, 2),
    }
    hurray.save(path, {}, kv=kv)
    back = hurray.load_kv(path)
    assert back.pop("nan") != back.get("nan")
    assert back == {"i": 5, "f": 0.5, "s": "x", "t": [1, 2]}


@pytest.mark.parametrize(
    ("value", "error", "match"),
    [
        (2**64, OverflowError, "64 bits"),
        (-(2**63) - 1, OverflowError, "64 bits"),
        ([-1, 2**63], OverflowError, "fit no one type"),
        ([2**63, -1], OverflowError, "fit no one type"),
        ([1, "a"], TypeError, "another type"),
        ([1, True], TypeError, "another type"),
        ([1, 2.0], TypeError, "another type"),
        ([[1]], TypeError, "list; expected str, int"),
        ({"a": 1}, TypeError, "dict; expected"),
        (None, TypeError, "NoneType; expected"),
        (1j, TypeError, "complex; expected"),
        (bytearray(b"x"), TypeError, "bytearray; expected"),
        ("\ud800", ValueError, "surrogates"),
        (["a", "\ud800"], ValueError, "surrogates"),
    ],
    ids=repr,
)
def test_metadata_that_is_refused_names_its_key(path, value, error, match):
    with pytest.raises(error, match=rf"kv\['the key'\].*{match}"):
        hurray.save(path, {}, kv={"fine": 1, "the key": value})
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("key", ["", "k" * 65536, "\ud800", 5, None, b"k"])
def test_keys_that_are_refused(path, key):
    with pytest.raises((TypeError, ValueError), match=r"key|kv"):
        hurray.save(path, {}, kv={key: 1})
    assert list(path.parent.iterdir()) == []


# ---- rows ----


@pytest.mark.parametrize("access", [True, "r", False])
@pytest.mark.parametrize(
    "bounds",
    [(0, 3), (1, 2), (-2, None), (None, -1), (2, 1), (5, 9), (-9, 2), (0, 0), (None, None)],
)
def test_rows_are_what_a_slice_is(path, access, bounds):
    array = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    hurray.save(path, {"a": array})
    with hurray.open(path, mmap=access) as file:
        rows = file.read("a", *bounds)
    np.testing.assert_array_equal(np.asarray(rows), array[slice(*bounds)])
    assert rows.readonly == (access == "r")


def test_rows_of_packed_elements_begin_at_a_byte(path):
    array = np.arange(64).reshape(8, 8) % 3 == 0
    narrow = np.arange(24).reshape(8, 3) % 2 == 0
    hurray.save(path, {"a": array, "b": narrow})
    with hurray.open(path) as file:
        np.testing.assert_array_equal(file.read("a", 3, 6).to_numpy(), array[3:6])
        np.testing.assert_array_equal(file.read("b", 0, 2).to_numpy(), narrow[:2])
        with pytest.raises(hurray.UnsupportedError, match=r"b.*byte"):
            file.read("b", 1, 2)


def test_what_has_no_rows(path):
    quantized = hurray.Tensor(
        bytes(6), hurray.int8, [2, 3], quantization=hurray.PerTensorAffine(0.5, 0)
    )
    hurray.save(
        path,
        {
            "s": np.float32(1),
            "q": quantized,
            "c": hurray.from_numpy(ARRAYS["w"]).to_layout(hurray.ColMajorLayout()),
            "g": group(hurray.ones(1)),
            "n": hurray.ones((4, 2)),
        },
    )
    with hurray.open(path) as file:
        for name in "sqc":
            with pytest.raises(hurray.UnsupportedError, match=name):
                file.read(name, 0, 1)
        with pytest.raises((hurray.UnsupportedError, ValueError), match="g"):
            file.read("g", 0, 1)
        for wrong in ("1", 1.5, b""):
            with pytest.raises(TypeError):
                file.read("n", wrong)


# ---- mapping ----


def test_a_mapping_is_private(model):
    before = model.read_bytes()
    first, second = hurray.load(model), hurray.load(model)
    with hurray.open(model) as file:
        third = file["w"]
    array = np.asarray(first["w"])
    assert array.flags.writeable and not first["w"].readonly
    array[:] = -1
    assert (np.asarray(first["w"]) == -1).all(), "this process sees it"
    for other in (second["w"], third, hurray.load(model)["w"], hurray.load(model, mmap=False)["w"]):
        np.testing.assert_array_equal(np.asarray(other), ARRAYS["w"])
    del array, first, second, third
    gc.collect()
    assert model.read_bytes() == before


def test_a_mapping_is_page_aligned_and_nothing_is_copied(model):
    loaded = hurray.load(model)
    for name in ("w", "b"):
        array = np.asarray(loaded[name])
        assert array.ctypes.data % 4096 == 0
        assert np.from_dlpack(loaded[name]).ctypes.data == array.ctypes.data


@pytest.mark.frameworks
def test_frameworks_take_mapped_tensors_without_a_copy_or_a_warning(model):
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    tensor = hurray.load(model)["w"]  # warnings are errors here
    start = np.asarray(tensor).ctypes.data
    assert tensor.to_torch().data_ptr() == start
    assert torch.from_dlpack(tensor).data_ptr() == start
    assert jax.numpy.from_dlpack(tensor).unsafe_buffer_pointer() == start


def test_read_only_mappings(model):
    tensor = hurray.load(model, mmap="r")["w"]
    assert tensor.readonly
    array = np.asarray(tensor)
    assert not array.flags.writeable and array.ctypes.data % 4096 == 0
    with pytest.raises(ValueError):
        array[0, 0] = 1


@pytest.mark.parametrize("threads", [None, 1, 2, 7, 64, 1000])
def test_reading_with_threads(path, threads):
    big = np.arange(24 << 20, dtype=np.uint8).reshape(3, -1)
    hurray.save(path, {"small": hurray.ones(3), "big": big, "odd": np.arange(4097, dtype=np.uint8)})
    loaded = hurray.load(path, mmap=False, threads=threads)
    assert (np.asarray(loaded["big"]) == big).all()
    assert np.asarray(loaded["odd"]).tolist() == [i % 256 for i in range(4097)]
    for tensor in loaded.values():
        array = np.asarray(tensor)
        assert array.ctypes.data % (4096 if array.nbytes >= 4096 else 64) == 0
        assert array.flags.writeable


def test_what_was_read_does_not_follow_the_file(model):
    loaded = hurray.load(model, mmap=False)
    size = model.stat().st_size
    with open(model, "r+b") as file:
        file.write(bytes(size))
    np.testing.assert_array_equal(np.asarray(loaded["w"]), ARRAYS["w"])


def test_read_ahead_changes_nothing_else(model):
    for access in MODES:
        loaded = hurray.load(model, prefetch=True, mmap=access)
        np.testing.assert_array_equal(np.asarray(loaded["w"]), ARRAYS["w"])


def resident(path):
    """Bytes of a file that the system has in memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        pages = (ctypes.c_ubyte * -(-len(mapping) // mmap.PAGESIZE))()
        known = libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(len(mapping)), pages)
        if known != 0:
            raise OSError(ctypes.get_errno(), "mincore")
        return sum(page & 1 for page in pages) * mmap.PAGESIZE


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="no way to empty the system's cache")
def test_read_ahead_is_of_the_whole_file(path):
    size = 48 << 20  # more than the system reads ahead by itself
    hurray.save(path, {"a": np.ones(size, np.uint8)})
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if resident(path) > 0:
        pytest.skip("this file system keeps files in memory")
    loaded = hurray.load(path, prefetch=True)
    enough = size - (size >> 4)  # the system may pass over pages, it was given a hint
    deadline = time.monotonic() + 30
    while resident(path) < enough and time.monotonic() < deadline:
        time.sleep(0.01)
    assert resident(path) >= enough
    del loaded


@pytest.mark.parametrize("access", MODES)
def test_tensors_outlive_file_and_path(model, access):
    with hurray.open(model, mmap=access) as file:
        tensor, rows = file["w"], file.read("w", 1, 3)
    model.unlink()
    del file
    gc.collect()
    np.testing.assert_array_equal(np.asarray(tensor), ARRAYS["w"])
    np.testing.assert_array_equal(np.asarray(rows), ARRAYS["w"][1:3])


def mapped(path):
    """Lines of smaps that are about a file, in kB."""
    facts, inside = {}, False
    with open("/proc/self/smaps") as smaps:
        lines = smaps.readlines()
    for line in lines:
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.rstrip().endswith(str(path))
        elif inside and line.rstrip().endswith("kB"):
            key, value = line.split(":")
            facts[key] = facts.get(key, 0) + int(value.split()[0])
    return facts


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="smaps is Linux's")
@pytest.mark.skipif(leaks.is_sanitized(), reason="ASan makes pages its own")
def test_clean_pages_are_shared_and_a_write_costs_a_page(path):
    hurray.save(path, {"big": np.ones(8 << 20, np.uint8)})
    array = np.asarray(hurray.load(path)["big"])
    assert array.sum() == 8 << 20
    before = mapped(path)
    assert before["Rss"] >= 8 << 10 and before["Private_Dirty"] == 0
    array[12345] = 7
    page = mmap.PAGESIZE >> 10
    assert page <= mapped(path)["Private_Dirty"] <= 16 * page
    del array
    gc.collect()
    assert mapped(path) == {}, "the mapping goes with its last tensor"


def test_a_file_that_shrinks_is_an_error_with_check_size(path):
    hurray.save(path, {"a": hurray.ones(1000), "b": hurray.ones(100000)})
    file = hurray.open(path, check_size=True)
    np.testing.assert_array_equal(np.asarray(file["a"]), np.ones(1000))
    os.truncate(path, 8192)
    with pytest.raises(hurray.FileError, match=r"bytes when it was opened, and has 8192 now"):
        file["b"]


@pytest.mark.skipif(not hasattr(signal, "SIGBUS"), reason="SIGBUS is of POSIX")
@pytest.mark.skipif(leaks.is_sanitized(), reason="ASan handles the signal itself")
def test_the_signal_of_a_mapping_that_broke_leaves_a_trace(path):
    hurray.save(path, {"b": hurray.ones(100000)})
    script = """
import os, resource, sys, hurray
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
view = memoryview(hurray.load(sys.argv[1])["b"]).cast("B")
os.truncate(sys.argv[1], 8192)
bytes(view)
"""
    command = [sys.executable, "-X", "faulthandler", "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGBUS
    assert "Bus error" in done.stderr and 'File "<string>", line 6' in done.stderr


def test_a_file_that_shrinks_is_an_error_when_it_is_read(path):
    hurray.save(path, {"b": hurray.ones(100000)})
    file = hurray.open(path, mmap=False)
    os.truncate(path, 8192)
    with pytest.raises(hurray.FileError):
        file["b"]


# ---- sources in memory ----


def test_bytes_like_sources(model):
    data = model.read_bytes()
    for source in (data, bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)):
        for access in MODES:
            loaded = hurray.load(source, mmap=access)
            np.testing.assert_array_equal(np.asarray(loaded["w"]), ARRAYS["w"])
            assert hurray.load_kv(source) == {"layers": 2}
    with pytest.raises(hurray.BufferError, match="contiguous"):
        hurray.load(memoryview(data)[::2])


def test_memory_that_is_aligned_is_shared(model):
    with hurray.aligned_allocator():
        memory = np.zeros(model.stat().st_size, np.uint8)
    memory[:] = np.frombuffer(model.read_bytes(), np.uint8)
    array = np.asarray(hurray.load(memory)["w"])
    assert memory.ctypes.data <= array.ctypes.data < memory.ctypes.data + memory.nbytes
    assert hurray.load(memory, mmap="r")["w"].readonly
    copied = np.asarray(hurray.load(memory, mmap=False)["w"])
    assert not memory.ctypes.data <= copied.ctypes.data < memory.ctypes.data + memory.nbytes
    references = sys.getrefcount(memory)
    del array, copied
    gc.collect()
    assert sys.getrefcount(memory) == references - 1


# ---- progress ----


@pytest.mark.parametrize("access", [True, False])
def test_progress_ends_at_the_whole(path, access):
    items = {f"t{i}": np.ones(30 << 20, np.uint8) for i in range(3)} | {"c": nested(2)}
    told = []
    hurray.save(path, items, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told) and told[-1][0] == told[-1][1] >= 90 << 20 and len(told) >= 4
    told.clear()
    loaded = hurray.load(path, mmap=access, progress=lambda *numbers: told.append(numbers))
    assert list(loaded) == list(items)
    assert told == sorted(told) and len(told) >= 2 and told[-1][0] == told[-1][1] > 90 << 20
    told.clear()
    hurray.load(path, names=["c"], progress=lambda *numbers: told.append(numbers))
    assert told[-1][0] == told[-1][1] > 0, "members count"


def test_progress_that_raises_ends_it(path):
    class Stop(KeyError):
        pass

    def stop(done, total):
        raise Stop("enough")

    path.write_bytes(b"old")
    with pytest.raises(Stop, match="enough"):
        hurray.save(path, tensors(), progress=stop)
    assert path.read_bytes() == b"old" and list(path.parent.iterdir()) == [path]
    hurray.save(path, tensors())
    with pytest.raises(Stop, match="enough"):
        hurray.load(path, progress=stop)


def test_a_bar_of_tqdm(path, capsys):
    pytest.importorskip("tqdm")
    hurray.save(path, tensors(), progress=True)
    hurray.load(path, progress=True)
    shown = capsys.readouterr().err
    assert "save" in shown and "load" in shown and "100%" in shown


def test_without_tqdm_the_error_names_it(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"tqdm.*hurray\[tqdm\]"):
        hurray.save(path, tensors(), progress=True)
    assert list(path.parent.iterdir()) == []


# ---- threads ----


@pytest.mark.parametrize("access", [True, False])
def test_threads_share_a_file(path, access):
    items = {f"t{i}": np.full(1000, i, np.int32) for i in range(50)}
    hurray.save(path, items)
    file = hurray.open(path, mmap=access)
    wrong = []

    def read():
        for name, array in items.items():
            if not (np.asarray(file[name]) == array).all() or file.kv:
                wrong.append(name)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert wrong == []


def test_closing_while_others_read_is_safe(path):
    hurray.save(path, {f"t{i}": hurray.full(100, i) for i in range(20)})
    for _ in range(20):
        file = hurray.open(path, mmap=False)
        strange = []

        def read(file=file, strange=strange):
            try:
                while True:
                    for i in range(20):
                        assert np.asarray(file[f"t{i}"])[0] == i
            except hurray.FileError as error:
                if "closed" not in str(error):
                    strange.append(error)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.002)
        file.close()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert strange == []


# ---- size and speed ----


@pytest.mark.skipif(leaks.is_sanitized(), reason="ASan is slow")
def test_a_file_of_100000_tensors_opens_at_once(path):
    one = hurray.ones(1)
    start = time.perf_counter()
    hurray.save(path, {f"model.layers.{i}.weight": one for i in range(100_000)})
    saved = time.perf_counter()
    with hurray.open(path) as file:
        opened = time.perf_counter()
        assert "model.layers.99999.weight" in file and file.info["count"] == 100_000
        found = time.perf_counter()
        with pytest.raises(KeyError, match=r"close ones are .*'model\.layers\.5000.?\.weight'"):
            file["model.layers.5000.wieght"]
        missed = time.perf_counter()
        assert len(file) == 100_000
    times = [saved - start, opened - saved, found - opened, missed - found]
    print("save {:.3f} s, open {:.3f} s, find {:.6f} s, miss {:.3f} s".format(*times))
    assert times[1] < 1 and times[2] < 0.1 and times[3] < 5


@pytest.mark.skipif(leaks.is_sanitized(), reason="ASan is slow")
def test_20000_small_tensors_are_saved_and_loaded_in_seconds(path):
    one = hurray.ones(16)
    start = time.perf_counter()
    hurray.save(path, {f"t{i}": one for i in range(20_000)}, checksums=True)
    saved = time.perf_counter()
    assert len(hurray.load(path)) == 20_000
    mapped_at = time.perf_counter()
    assert len(hurray.load(path, mmap=False)) == 20_000
    read_at = time.perf_counter()
    times = [saved - start, mapped_at - saved, read_at - mapped_at]
    print("save {:.3f} s, map {:.3f} s, read {:.3f} s".format(*times))
    assert max(times) < 10


PEAK = """
import os, re, sys, numpy as np, hurray
def high_water():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
def reset():
    open("/proc/self/clear_refs", "w").write("5")
path, what = sys.argv[1:]
if what == "save":
    with hurray.aligned_allocator():
        arrays = {str(i): np.ones(16 << 20, np.uint8) for i in range(4)}
    action, extra = lambda: hurray.save(path, arrays), 0
else:
    action, extra = lambda: hurray.load(path, mmap=False), 64 << 20
    hurray.load(path, names=["0"])  # what is needed once
reset()
before = high_water()
kept = action()
print(high_water() - before - extra)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="clear_refs is Linux's")
@pytest.mark.skipif(leaks.is_sanitized(), reason="ASan has memory of its own")
def test_saving_and_reading_cost_no_more_than_the_data(path):
    for what in ("save", "load"):
        script = [sys.executable, "-c", PEAK, str(path), what]
        done = subprocess.run(script, capture_output=True, text=True, check=True)
        assert int(done.stdout) < 16 << 20, (what, done.stdout)


# ---- nothing stays behind ----


def test_nothing_leaks(tmp_path):
    path = tmp_path / "a.hrry"
    array, kv = np.arange(100.0), {"a": [1, 2], "b": "text"}
    composite = group(hurray.ones(2))
    items = {"array": array, "c": composite}
    hurray.save(path, items, kv=kv, checksums=True)
    data = path.read_bytes()

    def cycle():
        hurray.load(path)
        hurray.load(path, mmap=False)
        hurray.load(data, names=["c"])
        with hurray.open(path) as file:
            file.read("array", 1, 5)
            file.kv
            file.get("nothing")
            file.verify()
        for wrong in ("absent", 5):
            with contextlib.suppress(KeyError, TypeError):
                hurray.open(path)[wrong]
        with contextlib.suppress(hurray.FileError):
            hurray.load(data[:-1])

    leaks.check(cycle, [array, composite, data, kv], repetitions=4000)


def test_nothing_leaks_when_saving(tmp_path):
    path = tmp_path / "a.hrry"
    array, kv = np.arange(100.0), {"a": [1, 2], "b": "text"}
    bad = {"a": 2**70}
    name = "a name"

    def cycle():
        hurray.save(path, {name: array}, kv=kv, checksums=True)
        for arguments in ({"kv": bad}, {"alignment": 5}):
            with contextlib.suppress(OverflowError, ValueError):
                hurray.save(path, {name: array}, **arguments)
        with contextlib.suppress(ValueError):
            hurray.save(path, {name: array, "": array})

    leaks.check(cycle, [array, name, kv], repetitions=500)  # each waits for the disk
    assert list(tmp_path.iterdir()) == [path]
    assert len(os.listdir("/proc/self/fd")) < 100 if os.path.exists("/proc/self/fd") else True
