"""hurray.asarray (spec 8.4): every protocol, nested lists, scalars, and what is refused."""

from __future__ import annotations

import array
import builtins
import collections
import contextlib
import decimal
import fractions
import gc
import sys
import weakref

import leaks
import ml_dtypes
import numpy as np
import numpy.testing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hurray

STANDARD = [
    "bool",
    *(f"{u}int{n}" for n in (8, 16, 32, 64) for u in ("", "u")),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
]


def dtype_of(name):
    return hurray.Dtype.from_name(name)


def np_dtype(name):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def address(obj):
    return obj.__array_interface__["data"][0]


def aligned(shape, dtype=np.float32):
    with hurray.aligned_allocator():
        return np.zeros(shape, dtype)


# ---- tensors ----


def test_a_tensor_is_returned_itself():
    t = hurray.arange(3)
    assert hurray.asarray(t) is t
    assert hurray.asarray(t, copy=False) is t
    assert hurray.asarray(t, dtype=hurray.int64, device=hurray.device.cpu, copy=False) is t
    for odd in (
        hurray.Tensor(bytes(4), hurray.dtype.int4, (8,)),
        hurray.Tensor(bytes(8), hurray.float32, (2,), hurray.device.cuda),
        hurray.Tensor(bytes(8), hurray.float32, (None,)),
    ):
        assert hurray.asarray(odd) is odd


def test_copy_true_copies_a_tensor():
    t = hurray.Tensor(bytes(range(24)), hurray.int32, (2, 3), layout=hurray.ColMajorLayout())
    u = hurray.asarray(t, copy=True)
    assert u is not t
    assert address(u) != address(t)
    npt.assert_array_equal(np.asarray(u), np.asarray(t))
    same = hurray.asarray(t, dtype=hurray.int32, copy=True)
    assert address(same) != address(t)
    packed = hurray.ones(11, dtype=hurray.bool)
    assert np.asarray(hurray.asarray(packed, copy=True)).all()
    with pytest.raises(hurray.UnsupportedError, match="cuda"):
        hurray.asarray(hurray.Tensor(bytes(8), hurray.float32, (2,), hurray.device.cuda), copy=True)


@pytest.mark.parametrize("to", STANDARD)
@pytest.mark.parametrize("from_", STANDARD)
def test_casts_are_numpys(from_, to):
    values = np.array([[0, 1, 2], [3, 100, 0]]).astype(np_dtype(from_))
    t = hurray.asarray(values)
    if to.startswith("complex") or to == "bool" or not from_.startswith("complex"):
        u = hurray.asarray(t, dtype=dtype_of(to))
        assert u.dtype is dtype_of(to)
        npt.assert_array_equal(np.asarray(u), values.astype(np_dtype(to)))
        npt.assert_array_equal(
            np.asarray(hurray.asarray(values, dtype=dtype_of(to))), np.asarray(u)
        )
        assert (u is t) is (from_ == to)
    else:
        with pytest.raises(TypeError, match=to):
            hurray.asarray(t, dtype=dtype_of(to))
    if from_ != to:
        with pytest.raises(hurray.CopyRequiredError, match=f"{from_} to {to}"):
            hurray.asarray(t, dtype=dtype_of(to), copy=False)


def test_casts_of_strided_and_tier_2():
    t = hurray.Tensor(
        bytes(range(12)), hurray.int8, (2, 3), layout=hurray.StridedLayout((-6, 2)), byte_offset=6
    )
    u = hurray.asarray(t, dtype=hurray.float32)
    npt.assert_array_equal(np.asarray(u), [[6, 8, 10], [0, 2, 4]])
    assert isinstance(u.layout, hurray.RowMajorLayout)
    assert address(u) % 64 == 0
    nibbles = hurray.Tensor(bytes([0x21, 0xF3]), hurray.dtype.int4, (4,))
    npt.assert_array_equal(np.asarray(hurray.asarray(nibbles, dtype=hurray.int8)), [1, 2, 3, -1])
    back = hurray.asarray(hurray.asarray([1, 2, 3, -1]), dtype=hurray.dtype.int4)
    assert bytes(np.asarray(back.buffer(0))) == bytes([0x21, 0xF3])
    e5m2 = hurray.asarray(hurray.asarray([1.0, 2.0]), dtype=hurray.dtype.float8_e5m2)
    assert bytes(np.asarray(e5m2.buffer(0))) == bytes([0x3C, 0x40])
    assert hurray.asarray(hurray.zeros((0, 3)), dtype=hurray.int8).shape == (0, 3)
    assert np.asarray(hurray.asarray(hurray.full((), 2.5), dtype=hurray.int8))[()] == 2


# ---- NumPy arrays ----


@pytest.mark.parametrize(
    "take",
    [
        lambda a: a,
        lambda a: a.T,
        lambda a: a[::2],
        lambda a: a[:, ::3],
        lambda a: a[::-1, ::-1],
        lambda a: np.broadcast_to(a[0], (5, 9)),
        lambda a: a[2:5, 0],
        lambda a: a[3:3],
        lambda a: np.asfortranarray(a),
    ],
)
def test_arrays_of_any_strides(take):
    a = aligned((8, 16), np.float64)[:, :9]
    a[...] = np.arange(72).reshape(8, 9)
    part = take(a)
    t = hurray.asarray(part)
    npt.assert_array_equal(np.asarray(t), part)
    npt.assert_array_equal(np.asarray(hurray.asarray(part, copy=True)), part)
    try:
        shared = hurray.asarray(part, copy=False)
    except hurray.CopyRequiredError:
        return
    npt.assert_array_equal(np.asarray(shared), part)
    if part.size:
        assert address(shared) == part.ctypes.data


def test_strided_arrays_are_shared_when_their_lowest_address_is_aligned():
    a = aligned((8, 16), np.float64)
    for part in (a.T, a[::2], a[:, ::8], a[::-1, ::-1]):
        t = hurray.asarray(part, copy=False)
        assert t.strides == tuple(s // 8 for s in part.strides)
        assert address(t) == part.ctypes.data
        part[1, 1] = 5
        assert np.asarray(t)[1, 1] == 5
        np.asarray(t)[0, 0] = 6
        assert part[0, 0] == 6
    with pytest.raises(hurray.CopyRequiredError, match="8-byte aligned"):
        hurray.asarray(a[:, 1:], copy=False)


def test_a_column_of_a_structured_array_is_copied():
    table = np.zeros(4, [("x", "i1"), ("y", "f4")])
    table["y"] = [1, 2, 3, 4]
    npt.assert_array_equal(np.asarray(hurray.asarray(table["y"])), [1, 2, 3, 4])
    with pytest.raises(hurray.CopyRequiredError, match="strides"):
        hurray.asarray(table["y"], copy=False)


def test_numpy_scalars():
    for scalar in (np.float32(2.5), np.int16(-3), np.bool_(True), np.complex64(1j), np.float16(1)):
        t = hurray.asarray(scalar)
        assert (t.shape, t.dtype.name) == ((), scalar.dtype.name)
        assert np.asarray(t)[()] == scalar
    t = hurray.asarray(ml_dtypes.bfloat16(1.5))
    assert (t.shape, t.dtype) == ((), hurray.bfloat16)
    with pytest.raises(hurray.UnsupportedError, match="dtype"):
        hurray.asarray(np.datetime64("2020-01-01"))


# ---- other protocols ----


class Only:
    """An object that offers some of an array's protocols, and counts what is asked of it."""

    def __init__(self, a, *names):
        self.asked = []
        self.array = a


def only(a, *names):
    """An object with just these attributes of an array."""

    def method(name):
        def call(self, *args, **kwargs):
            self.asked.append(name)
            return getattr(a, name)(*args, **kwargs)

        return call

    members = {}
    for name in names:
        if name in ("__array_interface__", "__array_struct__"):
            members[name] = property(lambda self, name=name: getattr(a, name))
        else:
            members[name] = method(name)
    return type("Only", (Only,), members)(a)


@pytest.mark.parametrize(
    "names",
    [
        ("__dlpack__", "__dlpack_device__"),
        ("__array_interface__",),
        ("__array_struct__",),
        ("__array__",),
        ("__array__", "__array_interface__"),
    ],
)
def test_each_protocol_shares(names):
    a = aligned((3, 4))
    a[...] = np.arange(12).reshape(3, 4)
    producer = only(a, *names)
    t = hurray.asarray(producer)
    assert (t.shape, t.dtype) == ((3, 4), hurray.float32)
    assert address(t) == address(a)
    a[1, 1] = 42
    assert np.asarray(t)[1, 1] == 42
    alive = weakref.ref(producer)
    del a, producer
    gc.collect()
    assert np.asarray(t)[1, 1] == 42
    del t
    gc.collect()
    assert alive() is None
    copied = hurray.asarray(only(aligned(3), *names), copy=True)
    assert copied.shape == (3,)


def test_dlpack_comes_before_array():
    producer = only(aligned((2,)), "__dlpack__", "__dlpack_device__", "__array__")
    hurray.asarray(producer)
    assert producer.asked[-1].startswith("__dlpack")
    assert "__array__" not in producer.asked


def test_a_producer_that_dlpack_cannot_carry_is_asked_again():
    class Producer:
        def __dlpack__(self, **kwargs):
            raise builtins.BufferError("not by this path")

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(builtins.BufferError, match="not by this path"):
        hurray.asarray(Producer())

    class Both(Producer):
        def __array__(self, dtype=None, copy=None):
            return np.array([1, 2, 3]).astype(ml_dtypes.int4)

    assert hurray.asarray(Both()).dtype is hurray.dtype.int4

    class Broken(Producer):
        def __dlpack__(self, **kwargs):
            raise KeyError("its own mistake")

        __array__ = Both.__array__

    with pytest.raises(KeyError):
        hurray.asarray(Broken())


def test_array_protocols_that_break():
    class Wrong:
        def __array__(self, dtype=None, copy=None):
            return "no array"

    with pytest.raises((ValueError, TypeError)):
        hurray.asarray(Wrong())

    class Raises:
        def __array__(self, dtype=None, copy=None):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        hurray.asarray(Raises())

    class Copies:
        def __array__(self, dtype=None, copy=None):
            if copy is False:
                raise ValueError("a copy is needed")
            return np.array([1.0])

    assert hurray.asarray(Copies()).shape == (1,)
    with pytest.raises(hurray.CopyRequiredError):
        hurray.asarray(Copies(), copy=False)


def test_the_native_protocol_alone():
    """The rest of it stands in test_native_protocol.py."""

    class Native:
        def __hurray__(self, stream=None):
            return hurray.asarray([1.0, 2.0]).__hurray__(stream)

    assert hurray.asarray(Native()).shape == (2,)

    class Nothing:
        def __hurray__(self, stream=None):
            return None

    with pytest.raises(hurray.BufferError, match="__hurray__"):
        hurray.asarray(Nothing())


# ---- numbers ----


@pytest.mark.parametrize(
    ("obj", "name"),
    [
        (True, "bool"),
        (5, "int64"),
        (-(2**63), "int64"),
        (2**63 - 1, "int64"),
        (2**63, "uint64"),
        (2**64 - 1, "uint64"),
        (2.5, "float64"),
        (1 - 2j, "complex128"),
        (fractions.Fraction(1, 4), "float64"),
        (decimal.Decimal("0.25"), "float64"),
    ],
)
def test_scalars(obj, name):
    t = hurray.asarray(obj)
    assert (t.shape, t.dtype) == ((), dtype_of(name))
    assert np.asarray(t)[()] == obj


@pytest.mark.parametrize(
    ("obj", "name"),
    [
        ([True, False], "bool"),
        ([True, 2], "int64"),
        ([1, 2.5], "float64"),
        ([1, 2.5, 3j], "complex128"),
        ([True, 2.5], "float64"),
        ([2**63], "uint64"),
        ([1, 2**64 - 1], "uint64"),
        ([2**63, 1.5], "float64"),
        ([], "float64"),
        ([[]], "float64"),
        ([[], []], "float64"),
        ((), "float64"),
        ([1, fractions.Fraction(1, 2)], "float64"),
    ],
)
def test_inference(obj, name):
    t = hurray.asarray(obj)
    assert t.dtype is dtype_of(name)
    expected = np.array(obj, np_dtype(name))
    assert t.shape == expected.shape
    npt.assert_array_equal(np.asarray(t), expected)


def shaped(leaf):
    """Nested lists of the same shape everywhere."""
    return st.lists(st.integers(0, 3), max_size=4).flatmap(
        lambda shape: st.lists(
            leaf, min_size=int(np.prod(shape, dtype=int)), max_size=int(np.prod(shape, dtype=int))
        ).map(lambda flat: np.array([*flat, None], object)[:-1].reshape(shape).tolist())
    )


@given(shaped(st.integers(-(2**63), 2**63 - 1)))
def test_nested_integers(obj):
    t = hurray.asarray(obj)
    expected = np.array(obj)
    assert t.shape == expected.shape
    npt.assert_array_equal(np.asarray(t), expected)


@given(shaped(st.booleans() | st.floats(allow_nan=False) | st.integers(-(2**52), 2**52)))
def test_nested_mixtures(obj):
    t = hurray.asarray(obj)
    expected = np.array(obj)
    assert t.shape == expected.shape
    assert t.dtype.name == expected.dtype.name
    npt.assert_array_equal(np.asarray(t), expected)


@given(shaped(st.integers(0, 1)), st.sampled_from(STANDARD))
def test_nested_with_dtype(obj, name):
    t = hurray.asarray(obj, dtype=dtype_of(name))
    assert t.dtype is dtype_of(name)
    npt.assert_array_equal(np.asarray(t), np.array(obj).astype(np_dtype(name)))


def test_any_sequence():
    for obj in (range(3), (0, 1, 2), collections.deque([0, 1, 2]), [0, 1, 2]):
        assert np.asarray(hurray.asarray(obj)).tolist() == [0, 1, 2]
    assert np.asarray(hurray.asarray([range(2), (2, 3)])).tolist() == [[0, 1], [2, 3]]


def test_64_levels_and_no_more():
    obj = 1
    for _ in range(64):
        obj = [obj]
    assert hurray.asarray(obj).shape == (1,) * 64
    with pytest.raises(ValueError, match="64"):
        hurray.asarray([obj])
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="64"):
        hurray.asarray(endless)
    endless = [1]
    endless.append(endless)
    with pytest.raises(ValueError, match=r"\[1\]"):
        hurray.asarray(endless)


def test_a_list_many_times_larger_than_memory():
    obj = [1]
    for _ in range(60):
        obj = [obj, obj]
    with pytest.raises(MemoryError):
        hurray.asarray(obj)


@pytest.mark.parametrize(
    ("obj", "place"),
    [
        ([[1, 2], [3]], r"1 items at \[1\], where 2"),
        ([[1, 2], 3], r"\[1\]"),
        ([1, [2]], r"\[1\]"),
        ([[[1], [2]], [[3], [4, 5]]], r"2 items at \[1\]\[1\], where 1"),
        ([[1, 2], [3, [4]]], r"\[1\]\[1\]"),
        ([[], [1]], r"1 items at \[1\], where 0"),
        ([[1], []], r"0 items at \[1\], where 1"),
    ],
)
def test_ragged_names_the_place(obj, place):
    with pytest.raises(ValueError, match=f"ragged.*{place}"):
        hurray.asarray(obj)
    with pytest.raises(ValueError, match=f"ragged.*{place}"):
        hurray.asarray(obj, dtype=hurray.float32)


@pytest.mark.parametrize(
    "obj",
    [
        "abc", "", ["a"], [["a", "b"]], [b"ab"], [1, "2"], None, [None], {}, {1: 2}, [{}],
        {1, 2}, object(), [object()], int, [int], iter([1]), len, ..., [bytearray(2)],
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_number_is_a_type_error(obj):
    with pytest.raises(TypeError):
        hurray.asarray(obj)
    with pytest.raises(TypeError):
        hurray.asarray(obj, dtype=hurray.int8)


def test_the_place_of_what_is_no_number():
    with pytest.raises(TypeError, match=r"'str'.*\[1\]\[0\]"):
        hurray.asarray([[1, 2], ["x", 4]])


def test_integers_out_of_range():
    for obj in (2**64, [2**64], [-1, 2**63], [-(2**63) - 1], -(2**70)):
        with pytest.raises(OverflowError, match="int64"):
            hurray.asarray(obj)
    for obj, name in (([256], "uint8"), ([[1], [-1]], "uint16"), ([128], "int8")):
        with pytest.raises(OverflowError, match=name):
            hurray.asarray(obj, dtype=dtype_of(name))
    with pytest.raises(TypeError, match="float32"):
        hurray.asarray([1, 2j], dtype=hurray.float32)


def test_numbers_are_always_copied():
    for obj in (1, [1, 2], (), 2.5):
        with pytest.raises(hurray.CopyRequiredError):
            hurray.asarray(obj, copy=False)
        assert hurray.asarray(obj, copy=True).device is hurray.device.cpu


def test_numbers_of_tier_2_are_refused():
    with pytest.raises(hurray.UnsupportedError, match="int4"):
        hurray.asarray([1, 2], dtype=hurray.dtype.int4)


@pytest.mark.parametrize(
    "obj",
    [
        [np.float32(1), np.float32(2)],
        [[np.int16(1), 2], [3, np.int16(4)]],
        [np.array([1.0, 2.0]), np.array([3.0, 4.0])],
        [np.array([1, 2], np.int8), [3, 4]],
        [np.bool_(True), np.bool_(False)],
        [array.array("i", [1, 2]), array.array("i", [3, 4])],
        (np.float32(1), 2.5),
    ],
    ids=repr,
)
def test_arrays_among_the_leaves_are_put_together_by_numpy(obj):
    t = hurray.asarray(obj)
    expected = np.asarray(obj)
    assert (t.shape, t.dtype.name) == (expected.shape, expected.dtype.name)
    npt.assert_array_equal(np.asarray(t), expected)
    assert hurray.asarray(obj, dtype=hurray.float64).dtype is hurray.float64


def test_tensors_among_the_leaves():
    t = hurray.asarray([hurray.arange(3), hurray.arange(3, 6)])
    assert np.asarray(t).tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match="shape"):
        hurray.asarray([np.zeros(2), np.zeros(3)])


# ---- code of the caller's in the middle ----


def test_a_list_that_changes_while_it_is_read():
    class Clears:
        def __init__(self, target, action):
            self.target, self.action, self.calls = target, action, 0

        def __index__(self):
            self.calls += 1
            self.action(self.target)
            return 1

    for action in (list.clear, lambda x: x.append(1), lambda x: x.extend([1] * 1000)):
        obj = [1, 2, 3]
        obj[1] = Clears(obj, action)
        with pytest.raises((ValueError, IndexError)):
            hurray.asarray(obj)
        obj = [[1, 2], [3, 4]]
        obj[0][0] = Clears(obj[1], action)
        with pytest.raises((ValueError, IndexError)):
            hurray.asarray(obj)


def test_exceptions_of_the_numbers_pass_through():
    class Raises:
        def __float__(self):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        hurray.asarray([1.0, Raises()])
    with pytest.raises(KeyError, match="mine"):
        hurray.asarray(Raises())

    class Lies:
        def __index__(self):
            return 1.5  # noqa: PLE0305

    with pytest.raises(TypeError):
        hurray.asarray([Lies()])


def test_a_sequence_whose_length_lies():
    class Long(list):
        def __len__(self):
            return 5

    with pytest.raises(IndexError):
        hurray.asarray(Long([1, 2]))


# ---- arguments ----


def test_device():
    assert hurray.asarray([1], device=hurray.device.cpu).device is hurray.device.cpu
    for obj in ([1], np.zeros(3), b"abc", hurray.zeros(3)):
        with pytest.raises((hurray.UnsupportedError, builtins.BufferError)):
            hurray.asarray(obj, device=hurray.device.cuda)
    t = hurray.Tensor(bytes(8), hurray.float32, (2,), hurray.device.cuda)
    assert hurray.asarray(t, device=hurray.device.cuda) is t
    with pytest.raises(hurray.UnsupportedError, match="device"):
        hurray.asarray(t, device=hurray.device.cpu)


def test_arguments_of_the_wrong_type():
    for keywords in ({"dtype": "float32"}, {"dtype": np.float32}, {"device": "cpu"}, {"order": 1}):
        with pytest.raises(TypeError):
            hurray.asarray([1], **keywords)
    with pytest.raises(TypeError):
        hurray.asarray()
    with pytest.raises(TypeError):
        hurray.asarray([1], hurray.float32)
    assert hurray.asarray(obj=[1], dtype=None, device=None, copy=None).shape == (1,)


def test_asarray_leaks_nothing():
    t = hurray.arange(3)
    a = aligned(3)
    leaf, nested = 2.5, [[1, 2], [3, 4]]

    def exchange():
        hurray.asarray(t)
        hurray.asarray(t, dtype=hurray.float32)
        hurray.asarray(a[::2])
        hurray.asarray(nested)
        hurray.asarray([leaf, leaf])
        for wrong in ([1, "x"], [[1], [2, 3]], object(), [2**64]):
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                hurray.asarray(wrong)

    leaks.check(exchange, [t, a, leaf, nested, hurray.int64], repetitions=20_000)


def growth(action, repetitions):
    """Bytes that a process has gained after many repetitions."""
    for _ in range(repetitions // 10):
        action()
    gc.collect()
    before = leaks.resident_bytes()
    for _ in range(repetitions):
        action()
    gc.collect()
    return leaks.resident_bytes() - before


def test_asarray_of_the_array_interface_leaks_no_more_than_numpy():
    """Which loses some ten bytes each time, in some of its versions."""
    producer = only(aligned(3), "__array_interface__")
    references = sys.getrefcount(producer)
    repetitions = 1_000 if leaks.is_sanitized() else 200_000
    numpys = growth(lambda: np.asarray(producer), repetitions)
    ours = growth(lambda: hurray.asarray(producer), repetitions)
    assert sys.getrefcount(producer) == references
    if not leaks.is_sanitized():
        # The smallest object that could stay behind each time has 16 bytes.
        assert ours - max(numpys, 0) < 8 * repetitions + (1 << 20)
