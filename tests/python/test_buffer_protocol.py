"""The buffer protocol, both ways (spec 8.3, 8.4): memoryview(t), and tensors over exporters."""

from __future__ import annotations

import array
import builtins
import contextlib
import ctypes
import gc
import mmap
import sys
import weakref

import leaks
import numpy as np
import numpy.testing as npt
import pytest

import hurray

FORMATS = {
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": np.dtype(np.int64).char,
    "uint64": np.dtype(np.uint64).char,
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "complex64": "Zf",
    "complex128": "Zd",
}

# What a consumer may ask for, by the numbers of CPython's object.h.
SIMPLE, WRITABLE, FORMAT, ND, STRIDES = 0, 0x1, 0x4, 0x8, 0x18
C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS, INDIRECT = 0x38, 0x58, 0x98, 0x118


class PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


@contextlib.contextmanager
def requested(obj, flags):
    """The Py_buffer that obj gives for these flags."""
    view = PyBuffer()
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = [ctypes.py_object, ctypes.POINTER(PyBuffer), ctypes.c_int]
    release = ctypes.pythonapi.PyBuffer_Release
    release.argtypes = [ctypes.POINTER(PyBuffer)]
    get(obj, view, flags)
    try:
        yield view
    finally:
        release(view)


def address(obj):
    return obj.__array_interface__["data"][0]


def exporter_address(obj):
    return np.asarray(memoryview(obj)).ctypes.data


# ---- out ----


@pytest.mark.parametrize("name", FORMATS)
def test_memoryview_of_each_dtype(name):
    t = hurray.zeros((2, 3), dtype=hurray.Dtype.from_name(name))
    view = memoryview(t)
    size = t.dtype.bit_width // 8
    assert view.format == FORMATS[name]
    assert (view.itemsize, view.nbytes) == (size, 6 * size)
    assert (view.ndim, view.shape, view.strides) == (2, (2, 3), (3 * size, size))
    assert view.c_contiguous
    assert not view.readonly
    assert view.obj is t
    assert exporter_address(t) == address(t)


def test_values_and_writes():
    t = hurray.asarray([[1, 2, 3], [4, 5, 6]], dtype=hurray.int32)
    view = memoryview(t)
    assert view.tolist() == [[1, 2, 3], [4, 5, 6]]
    view[1, 2] = -7
    assert np.asarray(t)[1, 2] == -7
    assert bytes(hurray.asarray([1, 2, 3], dtype=hurray.uint8)) == b"\1\2\3"


def test_read_only():
    _, memory = aligned_bytes(64)
    t = hurray.asarray(memory.toreadonly(), copy=False)
    assert t.readonly
    assert memoryview(t).readonly
    with pytest.raises(builtins.BufferError, match="read-only"), requested(t, WRITABLE):
        pass
    with pytest.raises(TypeError):
        memoryview(t)[0] = 1
    with pytest.raises((TypeError, builtins.BufferError)):
        (ctypes.c_char * 3).from_buffer(t)


def test_rank_0_and_empty():
    view = memoryview(hurray.asarray(2.5))
    assert (view.ndim, view.shape, view.strides, view.nbytes) == (0, (), (), 8)
    assert view[()] == 2.5
    for shape in [(0,), (3, 0, 2)]:
        view = memoryview(hurray.zeros(shape))
        assert (view.shape, view.nbytes) == (shape, 0)
        assert view.tobytes() == b""
        assert np.asarray(view).shape == shape


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((2, 3), (1, 2), 0),
        ((4,), (-2,), 6),
        ((2, 2), (-3, 1), 4),
        ((3, 2), (0, 1), 0),
        ((1, 3), (99, 1), 0),
    ],
)
def test_strided(shape, strides, offset):
    data = np.arange(12, dtype=np.int16)
    layout = hurray.StridedLayout(strides)
    t = hurray.Tensor(data.tobytes(), hurray.int16, shape, layout=layout, byte_offset=2 * offset)
    view = memoryview(t)
    assert view.strides == tuple(2 * s for s in strides)
    expected = np.lib.stride_tricks.as_strided(data[offset:], shape, [2 * s for s in strides])
    assert view.tolist() == expected.tolist()
    assert bytes(view) == expected.tobytes()


@pytest.mark.parametrize(
    ("flags", "row", "column", "gaps"),
    [
        (SIMPLE, True, False, False),
        (WRITABLE, True, False, False),
        (FORMAT, True, False, False),
        (ND, True, False, False),
        (STRIDES, True, True, True),
        (STRIDES | FORMAT | WRITABLE, True, True, True),
        (C_CONTIGUOUS, True, False, False),
        (F_CONTIGUOUS, False, True, False),
        (ANY_CONTIGUOUS, True, True, False),
        (INDIRECT | FORMAT, True, True, True),
    ],
)
def test_every_kind_of_request(flags, row, column, gaps):
    data = bytes(range(48))
    tensors = [
        (hurray.Tensor(data, hurray.int32, (2, 3)), row),
        (hurray.Tensor(data, hurray.int32, (2, 3), layout=hurray.ColMajorLayout()), column),
        (hurray.Tensor(data, hurray.int32, (2, 3), layout=hurray.StridedLayout((6, 2))), gaps),
    ]
    for t, allowed in tensors:
        if not allowed:
            with pytest.raises(builtins.BufferError, match="contiguous"), requested(t, flags):
                pass
            continue
        with requested(t, flags) as view:
            assert view.buf == address(t)
            assert (view.len, view.itemsize, view.readonly) == (24, 4, 0)
            assert view.format == (b"i" if flags & FORMAT else None)
            assert not view.suboffsets
            if flags & ND:
                assert view.shape[:2] == [2, 3]
                assert view.ndim == 2
            else:
                assert not view.shape
            if flags & STRIDES == STRIDES:
                assert view.strides[:2] == [4 * s for s in t.strides]
            else:
                assert not view.strides


def test_one_dimension_is_contiguous_in_both_orders():
    t = hurray.arange(5)
    for flags in (C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS):
        with requested(t, flags) as view:
            assert view.ndim == 1
    for flags in (C_CONTIGUOUS, F_CONTIGUOUS):
        with requested(hurray.zeros((0, 3)), flags) as view:
            assert view.len == 0


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: hurray.zeros(3, dtype=hurray.bool), "bool"),
        (lambda: hurray.zeros(3, dtype=hurray.bfloat16), "bfloat16"),
        (lambda: hurray.Tensor(bytes(4), hurray.dtype.int4, (8,)), "int4"),
        (lambda: hurray.Tensor(bytes(4), hurray.dtype.float8_e5m2, (4,)), "float8_e5m2"),
        (lambda: hurray.Tensor(bytes(8), hurray.float32, (2,), hurray.device.cuda), "cuda"),
        (lambda: hurray.Tensor(bytes(8), hurray.float32, (None,)), r"shape\[0\]"),
    ],
)
def test_what_cannot_be_exported_says_why(make, named):
    t = make()
    for exception in (builtins.BufferError, hurray.UnsupportedError):
        with pytest.raises(exception, match=named):
            memoryview(t)


def test_a_view_keeps_the_tensor():
    t = hurray.arange(1000)
    alive = weakref.ref(t)
    view = memoryview(t)[10:20]
    del t
    gc.collect()
    assert alive() is not None
    assert view.tolist() == list(range(10, 20))
    view.release()
    del view
    gc.collect()
    assert alive() is None


# ---- in ----


@pytest.mark.parametrize(
    ("obj", "dtype", "values"),
    [
        (b"abc", "uint8", [97, 98, 99]),
        (bytearray(b"ab"), "uint8", [97, 98]),
        (array.array("b", [-1, 2]), "int8", [-1, 2]),
        (array.array("H", [1, 65535]), "uint16", [1, 65535]),
        (array.array("i", [-1, 2]), "int32", [-1, 2]),
        (array.array("l", [-1, 2]), f"int{8 * ctypes.sizeof(ctypes.c_long)}", [-1, 2]),
        (array.array("L", [1, 2]), f"uint{8 * ctypes.sizeof(ctypes.c_long)}", [1, 2]),
        (array.array("q", [-1, 2]), "int64", [-1, 2]),
        (array.array("Q", [1, 2**64 - 1]), "uint64", [1, 2**64 - 1]),
        (array.array("f", [0.5]), "float32", [0.5]),
        (array.array("d", [0.5]), "float64", [0.5]),
        (array.array("d"), "float64", []),
        ((ctypes.c_int8 * 2)(1, -2), "int8", [1, -2]),
        ((ctypes.c_uint16 * 2)(1, 2), "uint16", [1, 2]),
        ((ctypes.c_int32 * 2)(1, -2), "int32", [1, -2]),
        ((ctypes.c_long * 2)(1, -2), f"int{8 * ctypes.sizeof(ctypes.c_long)}", [1, -2]),
        ((ctypes.c_longlong * 2)(1, -2), "int64", [1, -2]),
        ((ctypes.c_ulonglong * 2)(1, 2), "uint64", [1, 2]),
        ((ctypes.c_size_t * 2)(1, 2), f"uint{8 * ctypes.sizeof(ctypes.c_size_t)}", [1, 2]),
        ((ctypes.c_float * 2)(1, 2), "float32", [1, 2]),
        ((ctypes.c_double * 2)(1, 2), "float64", [1, 2]),
        (((ctypes.c_int16 * 3) * 2)((1, 2, 3), (4, 5, 6)), "int16", [[1, 2, 3], [4, 5, 6]]),
        ((ctypes.c_bool * 3)(True, False, True), "bool", [True, False, True]),
        (ctypes.c_double(2.5), "float64", 2.5),
        (memoryview(bytes(8)).cast("f"), "float32", [0, 0]),
        (memoryview(bytes(range(6))).cast("B", (2, 3)), "uint8", [[0, 1, 2], [3, 4, 5]]),
        (memoryview(bytes(16)).cast("n"), f"int{8 * ctypes.sizeof(ctypes.c_ssize_t)}", [0, 0]),
        (memoryview(b"\1\0").cast("?"), "bool", [True, False]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("copy", [None, True])
def test_exporters(obj, dtype, values, copy):
    t = hurray.asarray(obj, copy=copy)
    assert t.dtype is hurray.Dtype.from_name(dtype)
    assert t.shape == np.shape(values)
    assert np.asarray(t).tolist() == values


@pytest.mark.parametrize("prefix", ["", "@", "=", "<" if sys.byteorder == "little" else ">"])
@pytest.mark.parametrize("name", FORMATS)
def test_formats(name, prefix):
    class Exporter:
        def __init__(self, memory):
            self.memory = memory

    dtype = hurray.Dtype.from_name(name)
    source = np.arange(3).astype(name)
    stored = (ctypes.c_uint8 * source.nbytes).from_buffer_copy(source.tobytes())
    code = FORMATS[name]
    if prefix in ("=", "<", ">"):
        code = {"l": "q", "L": "Q"}.get(code, code)
    view = np.frombuffer(stored, np.uint8).view(source.dtype)
    t = hurray.asarray(memoryview(view))
    assert t.dtype is dtype
    # NumPy writes no prefix; ctypes can be made to, through its own formats.
    made = view_with_format(stored, prefix + code, source.itemsize)
    if made is not None:
        t = hurray.asarray(made)
        assert t.dtype is dtype
        npt.assert_array_equal(np.asarray(t), source)


def view_with_format(memory, format_, itemsize):
    """A memoryview with any format: memoryview.cast knows some of them."""
    try:
        return memoryview(memory).cast("B").cast(format_)
    except (ValueError, TypeError):
        return None


@pytest.mark.parametrize(
    ("obj", "named"),
    [
        (memoryview(b"ab").cast("c"), "'c'"),
        (memoryview(bytes(16)).cast("P"), "'P'"),
        (memoryview(ctypes.create_unicode_buffer("ab")), "'<[uw]'"),
        (np.zeros(2, "S3").view(np.ndarray).data, "3s"),
        (np.zeros(2, [("x", "f4")]).data, r"T\{"),
        (np.zeros(2, np.longdouble).data, "'g'"),
        (np.zeros(2, ">f4" if sys.byteorder == "little" else "<f4").data, "byte order"),
        ((ctypes.c_int.__ctype_be__ * 2)(), "byte order"),
        ((ctypes.c_char * 2)(), "'<c'"),
        ((ctypes.py_object * 1)(None), "'<O'"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_format_without_a_dtype_is_named(obj, named):
    with pytest.raises(hurray.UnsupportedError, match=named):
        hurray.asarray(obj)


def aligned_bytes(size):
    """A bytearray and a 64-aligned memoryview into it."""
    raw = bytearray(size + 64)
    start = -exporter_address(raw) % 64
    return raw, memoryview(raw)[start : start + size]


def test_aligned_memory_is_shared():
    raw, view = aligned_bytes(64)
    t = hurray.asarray(view, copy=False)
    assert address(t) == exporter_address(view)
    view[3] = 9
    assert np.asarray(t)[3] == 9
    np.asarray(t)[5] = 8
    assert view[5] == 8
    with pytest.raises(builtins.BufferError):
        raw.append(1)  # the tensor holds the memory, so that it cannot move
    del t
    view.release()
    gc.collect()
    raw.append(1)


def test_other_memory_is_copied_or_named():
    _, view = aligned_bytes(64)
    t = hurray.asarray(view[4:])
    assert address(t) != exporter_address(view) + 4
    with pytest.raises(hurray.CopyRequiredError, match=r"4-byte aligned.*64"):
        hurray.asarray(view[4:], copy=False)


def test_a_released_view_does_not_matter():
    _, view = aligned_bytes(64)
    t = hurray.asarray(view, copy=False)
    view.release()
    assert np.asarray(t).sum() == 0
    with pytest.raises(ValueError, match="released"):
        hurray.asarray(view)


def test_a_mapping_is_shared():
    with mmap.mmap(-1, 4096) as mapping:
        t = hurray.asarray(mapping, copy=False)
        assert t.shape == (4096,)
        assert t.buffer_handles[0].alignment == 4096
        mapping[7] = 3
        assert np.asarray(t)[7] == 3
        with pytest.raises(builtins.BufferError):
            mapping.close()
        del t
        gc.collect()


def test_the_exporter_lives_as_long_as_the_tensor():
    class Owner(bytearray):
        pass

    owner = Owner(b"\7" * 4096)
    alive = weakref.ref(owner)
    start = -exporter_address(owner) % 64
    t = hurray.asarray(memoryview(owner)[start:], copy=False)
    del owner
    gc.collect()
    assert alive() is not None
    out = np.asarray(t)
    del t
    gc.collect()
    assert (out == 7).all()
    del out
    gc.collect()
    assert alive() is None


def test_strided_exporters_are_shared():
    _, view = aligned_bytes(128)
    view[:] = bytes(range(128))
    for part in (view[::2], view[64::-1], view[127:63:-1]):
        try:
            t = hurray.asarray(part, copy=False)
        except hurray.CopyRequiredError:
            t = hurray.asarray(part)
        assert np.asarray(t).tolist() == part.tolist()
    t = hurray.asarray(view[::2], copy=False)
    assert t.strides == (2,)
    assert isinstance(t.layout, hurray.StridedLayout)
    t = hurray.asarray(view[127::-1], copy=False)  # its lowest address counts
    assert t.strides == (-1,)
    assert np.asarray(t).tolist() == list(range(127, -1, -1))


def test_strides_that_are_no_whole_items_are_copied():
    table = np.zeros(5, [("x", "i1"), ("y", "i4")])
    table["y"] = range(5)
    view = table["y"].data
    assert view.strides == (5,)
    assert np.asarray(hurray.asarray(view)).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(hurray.CopyRequiredError, match="strides"):
        hurray.asarray(view, copy=False)


def test_read_only_exporters_give_read_only_tensors():
    _, view = aligned_bytes(64)
    assert hurray.asarray(view.toreadonly(), copy=False).readonly
    assert not hurray.asarray(view.toreadonly(), copy=True).readonly
    assert not hurray.asarray(view, copy=False).readonly


def test_there_and_back_through_memoryview():
    t = hurray.asarray([[1.5, 2], [3, 4]])
    u = hurray.asarray(memoryview(t), copy=False)
    assert address(u) == address(t)
    assert u.shape == (2, 2)
    assert u.dtype is hurray.float64


def test_buffers_leak_nothing():
    t = hurray.zeros((3, 4))
    raw = bytearray(256)
    foreign = np.zeros(3, "S2").data
    packed = hurray.zeros(3, dtype=hurray.bool)

    def exchange():
        memoryview(t)
        memoryview(t).tolist()
        hurray.asarray(raw)
        with contextlib.suppress(hurray.UnsupportedError):
            hurray.asarray(foreign)
        with contextlib.suppress(builtins.BufferError):
            memoryview(packed)

    leaks.check(exchange, [t, raw, foreign, packed], repetitions=100_000)
    raw.append(0)
