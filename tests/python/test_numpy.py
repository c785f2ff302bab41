"""Arrays of NumPy in and out (spec 8.5): what is shared, what is copied, what is refused."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import textwrap
import threading

import leaks
import ml_dtypes
import numpy as np
import numpy.testing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hurray

NATIVE = {
    "bool": np.bool_,
    "int8": np.int8,
    "uint8": np.uint8,
    "int16": np.int16,
    "uint16": np.uint16,
    "int32": np.int32,
    "uint32": np.uint32,
    "int64": np.int64,
    "uint64": np.uint64,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "complex64": np.complex64,
    "complex128": np.complex128,
}
ML = {
    "bfloat16": "bfloat16",
    "float8_e4m3": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "float8_e8m0": "float8_e8m0fnu",
    "float4_e2m1": "float4_e2m1fn",
    "float6_e2m3": "float6_e2m3fn",
    "float6_e3m2": "float6_e3m2fn",
    "int4": "int4",
    "uint4": "uint4",
    "int2": "int2",
    "uint2": "uint2",
}
WHOLE_BYTE = [name for name in NATIVE if name != "bool"]


def dtype_of(name):
    return hurray.Dtype.from_name(name)


def ml(name):
    return np.dtype(getattr(ml_dtypes, ML[name]))


def aligned(shape, dtype=np.float32, *, offset=0):
    """A C-contiguous array `offset` bytes behind a 64-aligned address."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.zeros(size + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    return raw[start : start + size].view(dtype).reshape(shape)


def address(array):
    return array.__array_interface__["data"][0]


# ---- from_numpy: sharing ----


@pytest.mark.parametrize("name", WHOLE_BYTE)
def test_an_aligned_array_is_shared(name):
    a = aligned((3, 4), NATIVE[name])
    t = hurray.from_numpy(a, copy=False)
    assert t.shape == (3, 4)
    assert t.dtype is dtype_of(name)
    assert address(t) == address(a)
    assert t.strides == (4, 1)
    a[1, 2] = 7
    assert np.asarray(t)[1, 2] == 7
    np.asarray(t)[2, 3] = 9
    assert a[2, 3] == 9


@pytest.mark.parametrize("offset", [4, 8, 16, 32])
def test_any_other_address_is_copied_or_named(offset):
    a = aligned((5, 3), offset=offset)
    a[...] = np.arange(15).reshape(5, 3)
    t = hurray.from_numpy(a)
    assert address(t) != address(a)
    assert address(t) % 64 == 0
    npt.assert_array_equal(np.asarray(t), a)
    a[0, 0] = 99
    assert np.asarray(t)[0, 0] == 0
    with pytest.raises(hurray.CopyRequiredError, match=rf"\b{offset}-byte aligned.*\b64\b"):
        hurray.from_numpy(a, copy=False)


def test_copy_true_copies_what_could_be_shared():
    a = aligned((4, 4))
    t = hurray.from_numpy(a, copy=True)
    assert address(t) != address(a)
    a[0, 0] = 1
    assert np.asarray(t)[0, 0] == 0


@pytest.mark.parametrize("power", range(6, 15))
def test_the_declared_alignment_is_what_the_address_has_up_to_a_page(power):
    raw = np.zeros(1 << 16, np.uint8)
    start = -raw.ctypes.data % (1 << 15) + (1 << power)
    t = hurray.from_numpy(raw[start : start + 64], copy=False)
    assert t.buffer_handles[0].alignment == min(1 << power, 4096)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5, 2)])
@pytest.mark.parametrize("copy", [None, False, True])
def test_an_empty_array_needs_no_copy(shape, copy):
    t = hurray.from_numpy(np.zeros(shape, np.int16), copy=copy)
    assert t.shape == shape
    assert t.size == 0
    if copy is not True:
        assert t.buffer_handles[0].alignment == 1
    assert np.asarray(t).shape == shape


@pytest.mark.parametrize("copy", [None, True])
def test_rank_0(copy):
    a = aligned((), np.float64)
    a[()] = 2.5
    t = hurray.from_numpy(a, copy=copy)
    assert t.shape == ()
    assert np.asarray(t)[()] == 2.5
    assert (address(t) == address(a)) is (copy is None)


def test_a_read_only_array_gives_a_read_only_tensor():
    a = aligned((3,))
    a.flags.writeable = False
    t = hurray.from_numpy(a, copy=False)
    assert t.readonly
    out = np.asarray(t)
    assert not out.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        out.flags.writeable = True
    assert t.__array_interface__["data"][1] is True
    # A copy is the tensor's own.
    assert not hurray.from_numpy(a, copy=True).readonly


def test_strides_of_single_items_do_not_matter():
    a = aligned((4, 4))[:1].T[:1]
    assert a.flags.c_contiguous
    t = hurray.from_numpy(a, copy=False)
    assert t.shape == (1, 1)
    assert address(t) == address(a)


def test_64_dimensions():
    a = aligned((1,) * 64)
    assert hurray.from_numpy(a).shape == (1,) * 64
    assert np.asarray(hurray.from_numpy(a)).shape == (1,) * 64


# ---- from_numpy: packing ----


@given(st.lists(st.booleans(), max_size=70))
def test_bool_is_packed(values):
    a = np.array(values, np.bool_)
    t = hurray.from_numpy(a)
    assert t.dtype is hurray.bool
    assert t.nbytes == (len(values) + 7) // 8
    assert bytes(np.asarray(t.buffer(0))) == np.packbits(a, bitorder="little").tobytes()
    npt.assert_array_equal(np.asarray(t), a)
    assert np.asarray(t).dtype == np.bool_


def test_any_byte_but_0_is_true():
    a = np.array([0, 1, 2, 128, 255, 0, 4, 8, 16], np.uint8).view(np.bool_)
    out = np.asarray(hurray.from_numpy(a))
    npt.assert_array_equal(out.view(np.uint8), [0, 1, 1, 1, 1, 0, 1, 1, 1])


def test_packing_is_a_copy():
    with pytest.raises(hurray.CopyRequiredError, match="bool"):
        hurray.from_numpy(aligned((64,), np.bool_), copy=False)
    with pytest.raises(hurray.CopyRequiredError, match="int4"):
        hurray.from_numpy(aligned((64,), ml_dtypes.int4), copy=False)
    assert hurray.from_numpy(np.zeros(0, np.bool_), copy=False).shape == (0,)


@pytest.mark.parametrize("name", ML)
def test_ml_dtypes_arrays_come_back_bit_by_bit(name):
    bits = dtype_of(name).bit_width
    stored = np.arange(1 << min(bits, 10), dtype=np.uint16 if bits == 16 else np.uint8)
    a = stored.view(ml(name))
    t = hurray.from_numpy(a)
    assert t.dtype is dtype_of(name)
    assert t.shape == a.shape
    assert t.nbytes == hurray.buffer_size_bytes(t.dtype, a.size)
    out = t.to_numpy()
    assert out.dtype == a.dtype
    assert out.tobytes() == a.tobytes()


@pytest.mark.parametrize("name", [name for name in ML if dtype_of(name).bit_width >= 8])
def test_ml_dtypes_of_whole_bytes_are_shared(name):
    a = aligned((8, 8), ml(name))
    t = hurray.from_numpy(a, copy=False)
    out = t.to_numpy(copy=False)
    assert out.ctypes.data == a.ctypes.data
    assert out.base is t


@pytest.mark.parametrize("name", [name for name in ML if dtype_of(name).bit_width < 8])
def test_stray_high_bits_of_sub_byte_elements_are_ignored(name):
    bits = dtype_of(name).bit_width
    stored = np.arange(256, dtype=np.uint8)
    out = hurray.from_numpy(stored.view(ml(name))).to_numpy()
    npt.assert_array_equal(out.view(np.uint8), stored & ((1 << bits) - 1))


def test_sub_byte_values_mean_the_same():
    for name, values in {
        "int4": range(-8, 8),
        "uint4": range(16),
        "int2": range(-2, 2),
        "uint2": range(4),
        "float4_e2m1": [-6, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6],
        "float6_e2m3": [-7.5, 0.125, 1, 7.5],
        "float6_e3m2": [-28, 0.0625, 1, 28],
    }.items():
        a = np.array(list(values)).astype(ml(name))
        npt.assert_array_equal(
            hurray.from_numpy(a).to_numpy().astype(np.float64), np.array(list(values), np.float64)
        )


# ---- from_numpy: refusals ----


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.zeros((3, 4))),
        np.zeros((4, 6))[:, ::2],
        np.zeros((4, 6))[::-1],
        np.broadcast_to(np.zeros(3), (2, 3)),
        np.zeros((3, 4), np.bool_).T,
    ],
    ids=["fortran", "strided", "reversed", "broadcast", "bool"],
)
def test_only_c_contiguous(array):
    for copy in (None, True, False):
        with pytest.raises(hurray.UnsupportedError, match=r"numpy\.ascontiguousarray"):
            hurray.from_numpy(array, copy=copy)


@pytest.mark.parametrize(
    ("dtype", "named"),
    [
        ([("x", "f4"), ("y", "i4")], "'x'"),
        (object, "dtype\\('O'\\)"),
        ("U5", "<U5"),
        ("S5", "S5"),
        ("datetime64[ns]", r"<M8\[ns\]"),
        ("timedelta64[s]", r"<m8\[s\]"),
        (">f4" if sys.byteorder == "little" else "<f4", "f4.*byte order"),
        (">i8" if sys.byteorder == "little" else "<i8", "i8.*byte order"),
        (np.longdouble, "float128|longdouble|float96"),
        (np.clongdouble, "complex256|clongdouble|complex192"),
        ("V16", "V16"),
        (ml_dtypes.float8_e4m3, "float8_e4m3"),
        (ml_dtypes.float8_e4m3b11fnuz, "float8_e4m3b11fnuz"),
        *[(getattr(ml_dtypes, n), n) for n in ("int1", "uint1") if hasattr(ml_dtypes, n)],
    ],
)
def test_a_dtype_without_a_counterpart_is_named(dtype, named):
    a = np.zeros(4, dtype)
    for copy in (None, True, False):
        with pytest.raises(hurray.UnsupportedError, match=named):
            hurray.from_numpy(a, copy=copy)
    with pytest.raises(hurray.UnsupportedError, match=named):
        hurray.asarray(a)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 2 has StringDType")
def test_new_strings_are_named():
    with pytest.raises(hurray.UnsupportedError, match="StringDType"):
        hurray.from_numpy(np.array(["a", "bc"], np.dtypes.StringDType()))


@pytest.mark.parametrize(
    "obj", [[1.0, 2.0], 3, None, "abc", b"abc", memoryview(b"abc"), np.float32(1), np.float32]
)
def test_what_is_no_array_is_a_type_error(obj):
    with pytest.raises(TypeError, match=r"numpy\.ndarray"):
        hurray.from_numpy(obj)


def test_arguments():
    a = aligned((2,))
    for call in (
        lambda: hurray.from_numpy(),
        lambda: hurray.from_numpy(a, False),
        lambda: hurray.from_numpy(a, order="C"),
    ):
        with pytest.raises(TypeError):
            call()
    assert hurray.from_numpy(array=a, copy=None).shape == (2,)


def test_subclasses_are_arrays_and_masks_are_not_lost():
    class Mine(np.ndarray):
        pass

    a = aligned((2, 3)).view(Mine)
    t = hurray.from_numpy(a, copy=False)
    assert address(t) == address(a)
    assert hurray.from_numpy(np.zeros((2, 2)).view(np.matrix)).shape == (2, 2)
    masked = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    with pytest.raises(hurray.UnsupportedError, match="mask"):
        hurray.from_numpy(masked)
    with pytest.raises(hurray.UnsupportedError, match="mask"):
        hurray.asarray(masked)


# ---- lifetimes ----


class Watched(np.ndarray):
    """An array whose end can be seen: plain ones take no weak references in every NumPy."""

    ended = 0

    def __del__(self):
        if self.base is not None and getattr(self, "watched", False):
            Watched.ended += 1


def test_the_tensor_keeps_the_array_and_the_array_the_tensor():
    a = aligned((1000,), np.int64).view(Watched)
    a.watched = True
    a[:] = np.arange(1000)
    before = Watched.ended
    t = hurray.from_numpy(a, copy=False)
    del a
    gc.collect()
    assert Watched.ended == before
    out = np.asarray(t)
    view = t.__array__()[10:20]
    del t
    gc.collect()
    assert Watched.ended == before
    npt.assert_array_equal(out, np.arange(1000))
    del out
    gc.collect()
    npt.assert_array_equal(view, np.arange(10, 20))
    del view
    gc.collect()
    assert Watched.ended == before + 1


def test_a_copy_lets_the_array_go():
    a = aligned((16,), offset=4).view(Watched)
    a.watched = True
    before = Watched.ended
    t = hurray.from_numpy(a)
    del a
    gc.collect()
    assert Watched.ended == before + 1
    assert np.asarray(t).sum() == 0


def test_a_shared_array_cannot_be_resized():
    a = np.zeros(0, np.int8)
    with hurray.aligned_allocator():
        a = np.zeros(1000, np.int8)
    t = hurray.from_numpy(a, copy=False)
    with pytest.raises(ValueError, match="resize"):
        a.resize(100000)
    assert t.shape == (1000,)


def test_the_last_reference_may_go_in_another_thread():
    a = aligned((100,)).view(Watched)
    a.watched = True
    before = Watched.ended
    box = [hurray.from_numpy(a, copy=False)]
    del a
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert Watched.ended == before + 1


def test_large_copies_in_threads():
    a = aligned((1 << 20,), np.float64, offset=8)
    a[:] = np.arange(1 << 20)
    results = [None] * 4

    def work(i):
        results[i] = hurray.from_numpy(a)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({address(t) for t in results}) == 4
    for t in results:
        npt.assert_array_equal(np.asarray(t), a)


# ---- out ----


def tensor(dtype, shape, values=None, **arguments):
    """A tensor of a whole-byte dtype, made from bytes and nothing else."""
    np_dtype = NATIVE[dtype.name] if dtype.name in NATIVE else ml(dtype.name)
    count = int(np.prod(shape, dtype=np.int64))
    values = np.arange(count) if values is None else np.asarray(values)
    return hurray.Tensor(values.astype(np_dtype).tobytes(), dtype, shape, **arguments)


@pytest.mark.parametrize("name", WHOLE_BYTE)
def test_row_major_out_is_a_view(name):
    t = tensor(dtype_of(name), (2, 3))
    for out in (t.__array__(), t.to_numpy(), t.__array__(copy=False)):
        assert type(out) is np.ndarray
        assert out.base is t
        assert out.dtype == NATIVE[name]
        assert out.flags.writeable
        npt.assert_array_equal(out, np.arange(6).reshape(2, 3))
    t.__array__()[1, 1] = 42
    assert t.to_numpy()[1, 1] == 42
    shared = np.asarray(t)
    assert shared.ctypes.data == t.__array__().ctypes.data
    assert shared.dtype == NATIVE[name]
    # The very dtype, not one that is merely equal.
    assert shared.dtype.num == np.dtype(NATIVE[name]).num


def test_column_major_out_is_a_view():
    t = tensor(hurray.int32, (2, 3), layout=hurray.ColMajorLayout())
    for out in (np.asarray(t), t.__array__(), t.to_numpy()):
        assert out.strides == (4, 8)
        npt.assert_array_equal(out, np.arange(6).reshape(3, 2).T)
        assert out.ctypes.data == t.__array_interface__["data"][0]


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((2, 3), (3, 1), 0),
        ((2, 3), (1, 2), 0),
        ((3,), (-1,), 2),
        ((2, 2), (-2, -1), 3),
        ((4, 3), (0, 1), 0),
        ((2, 2), (0, 0), 1),
        ((3, 1, 2), (2, 77, 1), 1),
        ((2, 0), (5, -5), 0),
    ],
)
def test_strided_out_is_a_view(shape, strides, offset):
    data = np.arange(24, dtype=np.int16)
    t = hurray.Tensor(
        data.tobytes(),
        hurray.int16,
        shape,
        layout=hurray.StridedLayout(strides),
        byte_offset=offset * 2,
    )
    expected = np.lib.stride_tricks.as_strided(data[offset:], shape, [s * 2 for s in strides])
    for out in (np.asarray(t), t.__array__(), t.to_numpy(), t.__array__(copy=False)):
        npt.assert_array_equal(out, expected)
        if t.size:
            assert out.ctypes.data == t.__array_interface__["data"][0]


def test_byte_offset_need_not_be_aligned():
    raw = bytes(3) + np.arange(4, dtype=np.float32).tobytes()
    t = hurray.Tensor(raw, hurray.float32, (4,), byte_offset=3)
    npt.assert_array_equal(np.asarray(t), np.arange(4))
    npt.assert_array_equal(t.__array__(), np.arange(4))


def test_rank_0_and_empty_out():
    t = tensor(hurray.float64, (), [2.5])
    assert t.__array__().shape == ()
    assert t.__array__()[()] == 2.5
    assert t.__array__().base is t
    for shape in [(0,), (2, 0, 3)]:
        t = hurray.zeros(shape)
        for out in (t.__array__(), np.asarray(t), t.to_numpy()):
            assert out.shape == shape
            assert out.dtype == np.float64


def test_bool_out_is_a_copy():
    t = hurray.Tensor(bytes([0b10110101, 0b1]), hurray.bool, (3, 3))
    expected = [[1, 0, 1], [0, 1, 1], [0, 1, 1]]
    for out in (np.asarray(t), t.__array__(), t.to_numpy(), t.__array__(copy=True)):
        assert out.dtype == np.bool_
        assert out.flags.writeable
        npt.assert_array_equal(out, expected)
    for call in (
        lambda: t.__array__(copy=False),
        lambda: t.to_numpy(copy=False),
        lambda: np.asarray(t, copy=False),
    ):
        with pytest.raises(hurray.CopyRequiredError, match="bool"):
            call()
    npt.assert_array_equal(t.__array__(dtype=np.int32), expected)


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "expected"),
    [
        ((3,), (3,), 0, [1, 0, 1]),  # bits 0, 3, 6
        ((9,), (-1,), 1, [0, 1, 1, 0, 1, 0, 0, 1, 1]),  # bits 8 … 0
        ((2, 4), (4, 1), 0, [[1, 1, 0, 0], [1, 0, 1, 1]]),
        ((2, 3), (1, 2), 0, [[1, 0, 1], [1, 0, 0]]),
        ((2, 2), (0, 1), 0, [[1, 1], [1, 1]]),
    ],
)
def test_bool_of_any_strides(shape, strides, offset, expected):
    t = hurray.Tensor(
        bytes([0b11010011, 0b10]),
        hurray.bool,
        shape,
        layout=hurray.StridedLayout(strides),
        byte_offset=offset,
    )
    npt.assert_array_equal(np.asarray(t), np.array(expected, bool))
    columns = hurray.Tensor(bytes([0b1010]), hurray.bool, (2, 2), layout=hurray.ColMajorLayout())
    npt.assert_array_equal(np.asarray(columns), [[False, False], [True, True]])


def test_bfloat16_out():
    t = tensor(hurray.bfloat16, (2, 2), [1, 2, 3, 0.5])
    for out in (np.asarray(t), t.__array__(), t.to_numpy()):
        assert out.dtype == ml_dtypes.bfloat16
        assert out.base is t
        npt.assert_array_equal(out.astype(np.float32), [[1, 2], [3, 0.5]])


def test_casting_copies():
    t = tensor(hurray.float32, (2, 3))
    out = t.__array__(dtype=np.float64)
    assert out.dtype == np.float64
    npt.assert_array_equal(out, np.arange(6).reshape(2, 3))
    assert not np.shares_memory(out, t.__array__())
    assert t.__array__("int16").dtype == np.int16
    assert t.__array__(dtype=hurray.float16).dtype == np.float16
    assert np.asarray(t, dtype=np.float64).dtype == np.float64
    for method in (t.__array__, t.to_numpy):
        with pytest.raises(hurray.CopyRequiredError, match="float64"):
            method(dtype=np.float64, copy=False)
        same = method(dtype=np.float32, copy=False)
        assert same.base is t
    with pytest.raises(TypeError):
        t.__array__(dtype="no such type")


def test_copy_true():
    t = tensor(hurray.float32, (2, 3), layout=hurray.ColMajorLayout())
    for out in (t.__array__(copy=True), t.to_numpy(copy=True), np.array(t, copy=True)):
        assert not np.shares_memory(out, t.__array__())
        npt.assert_array_equal(out, t.__array__())
        assert out.flags.writeable
    assert t.__array__(dtype=np.float32, copy=True).base is not t


@pytest.mark.parametrize("name", [name for name in ML if name != "bfloat16"])
def test_tier_2_goes_through_to_numpy_only(name):
    t = hurray.Tensor(bytes(range(12)), dtype_of(name), (8,))
    for call in (t.__array__, lambda: np.asarray(t)):
        with pytest.raises(hurray.UnsupportedError, match=rf"{name}.*to_numpy"):
            call()
    assert t.to_numpy().dtype == ml(name)
    assert not hasattr(t, "__array_interface__")


def test_float128_has_no_array():
    t = hurray.Tensor(bytes(32), hurray.dtype.float128, (2,))
    for call in (t.__array__, t.to_numpy):
        with pytest.raises(hurray.UnsupportedError, match="float128"):
            call()


def test_a_dynamic_dimension_is_named():
    t = hurray.Tensor(bytes(64), hurray.float32, (2, None))
    for call in (t.__array__, t.to_numpy):
        with pytest.raises(hurray.InvalidDescriptorError, match=r"shape\[1\]"):
            call()
    assert not hasattr(t, "__array_interface__")


def test_a_declared_device_is_named():
    t = hurray.Tensor(bytes(64), hurray.float32, (2,), device=hurray.device.cuda)
    for call in (t.__array__, t.to_numpy, lambda: np.asarray(t)):
        with pytest.raises(hurray.UnsupportedError, match="cuda"):
            call()
    assert not hasattr(t, "__array_interface__")


# ---- __array_interface__ ----


@pytest.mark.parametrize("name", WHOLE_BYTE)
def test_array_interface(name):
    t = tensor(dtype_of(name), (2, 3))
    interface = t.__array_interface__
    assert interface["version"] == 3
    assert interface["shape"] == (2, 3)
    assert interface["typestr"] == np.dtype(NATIVE[name]).str
    assert interface["strides"] is None
    assert interface["data"] == (t.__array__().ctypes.data, False)


def test_array_interface_of_other_strides_is_in_bytes():
    t = tensor(hurray.int32, (2, 3), layout=hurray.ColMajorLayout())
    assert t.__array_interface__["strides"] == (4, 8)

    class Only:
        __array_interface__ = t.__array_interface__

    npt.assert_array_equal(np.asarray(Only()), np.asarray(t))


def test_array_interface_is_absent_where_numpy_has_no_such_type():
    for t in (hurray.zeros(3, dtype=hurray.bool), hurray.zeros(3, dtype=hurray.bfloat16)):
        with pytest.raises(AttributeError, match=t.dtype.name):
            t.__array_interface__


# ---- round trips ----


@given(
    st.sampled_from([*WHOLE_BYTE, "bool"]),
    st.lists(st.integers(0, 4), max_size=5).map(tuple),
    st.sampled_from([None, True]),
)
def test_there_and_back(name, shape, copy):
    count = int(np.prod(shape, dtype=np.int64))
    a = (np.arange(count) % 5).astype(NATIVE[name]).reshape(shape)
    out = np.asarray(hurray.from_numpy(a, copy=copy))
    assert out.dtype == a.dtype
    assert out.shape == a.shape
    npt.assert_array_equal(out, a)


def test_every_bit_of_a_float_is_kept():
    bits = np.array([0x7FC00001, 0xFFA00000, 0x80000000, 1, 0x7F800000], np.uint32)
    t = hurray.from_numpy(bits.view(np.float32), copy=True)
    npt.assert_array_equal(np.asarray(t).view(np.uint32), bits)


# ---- NumPy is optional ----


def run(code):
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60)


def test_importing_hurray_does_not_import_numpy():
    run("""
        import sys, hurray
        hurray.asarray([1, 2])
        memoryview(hurray.zeros(3))
        hurray.asarray(bytearray(8))
        hurray.zeros(3).__array_interface__
        assert "numpy" not in sys.modules and "ml_dtypes" not in sys.modules
    """)


def test_a_missing_numpy_is_named():
    run("""
        import sys
        sys.modules["numpy"] = None
        import hurray
        t = hurray.zeros(3)
        for call in (lambda: hurray.from_numpy([1]), t.__array__, t.to_numpy,
                     lambda: hurray.aligned_allocator().__enter__(),
                     lambda: hurray.asarray(t, dtype=hurray.int8)):
            try:
                call()
            except ImportError as error:
                assert "numpy" in str(error), error
            else:
                raise AssertionError(call)
    """)


def test_a_missing_ml_dtypes_is_named():
    run("""
        import sys
        sys.modules["ml_dtypes"] = None
        import hurray, numpy as np
        t = hurray.zeros(3, dtype=hurray.bfloat16)
        for call in (t.__array__, t.to_numpy, lambda: np.asarray(t)):
            try:
                call()
            except hurray.UnsupportedError as error:
                assert "ml_dtypes" in str(error), error
            else:
                raise AssertionError(call)
    """)


# ---- leaks ----


def test_100000_exchanges_leak_nothing():
    shared = aligned((8, 8))
    other = aligned((8, 8), offset=4)
    flags = np.ones(64, np.bool_)
    t = hurray.from_numpy(shared)
    packed = hurray.from_numpy(flags)

    def exchange():
        hurray.from_numpy(shared)
        hurray.from_numpy(other)
        hurray.from_numpy(flags)
        np.asarray(t)
        t.__array__()
        t.to_numpy(dtype=np.float64)
        packed.__array__()
        t.__array_interface__
        with contextlib.suppress(hurray.CopyRequiredError):
            hurray.from_numpy(other, copy=False)
        with contextlib.suppress(hurray.CopyRequiredError):
            packed.__array__(None, False)

    leaks.check(
        exchange,
        [shared, other, flags, t, packed, np.dtype(np.float32), np.dtype(np.bool_)],
        repetitions=100_000,
    )
