"""zeros … eye (spec 8.4), held against NumPy where it makes the same."""

from __future__ import annotations

import contextlib
import fractions
import math
import re
import struct
import subprocess
import sys
import textwrap

import leaks
import ml_dtypes
import numpy as np
import numpy.testing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import hurray

INTEGERS = [f"{u}int{n}" for n in (8, 16, 32, 64) for u in ("", "u")]
REALS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
STANDARD = ["bool", *INTEGERS, *REALS, *COMPLEX]
TIER_2 = ["int4", "uint2", "float8_e4m3", "float4_e2m1", "float6_e3m2", "float128"]


def dtype_of(name):
    return hurray.Dtype.from_name(name)


def np_dtype(name):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def packed_bytes(t):
    return bytes(np.asarray(t.buffer(0)))


# ---- zeros, ones, empty, full ----


@pytest.mark.parametrize("name", STANDARD)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (4, 0, 2), (1, 1, 1, 5)])
def test_filled(name, shape):
    dtype = dtype_of(name)
    for make, value in ((hurray.zeros, 0), (hurray.ones, 1)):
        t = make(shape, dtype=dtype)
        assert (t.shape, t.dtype, t.device) == (shape, dtype, hurray.device.cpu)
        assert isinstance(t.layout, hurray.RowMajorLayout)
        npt.assert_array_equal(np.asarray(t), np.full(shape, value, np_dtype(name)))
    t = hurray.empty(shape, dtype=dtype)
    assert (t.shape, t.dtype) == (shape, dtype)
    t = hurray.full(shape, True, dtype=dtype)
    npt.assert_array_equal(np.asarray(t), np.full(shape, 1, np_dtype(name)))


def test_defaults():
    for make in (hurray.zeros, hurray.ones, hurray.empty):
        assert make((2,)).dtype is hurray.float64
        assert make((2,), dtype=None, device=None).dtype is hurray.float64
        assert make((2,), device=hurray.device.cpu).device is hurray.device.cpu
    assert hurray.zeros(3).shape == (3,)
    assert hurray.zeros([2, 3]).shape == (2, 3)
    assert hurray.zeros(shape=(np.int64(2),)).shape == (2,)


@pytest.mark.parametrize("count", range(18))
def test_unused_bits_of_bool_are_zero(count):
    expected = np.packbits(np.ones(count, bool), bitorder="little").tobytes()
    assert packed_bytes(hurray.ones(count, dtype=hurray.bool)) == expected
    assert packed_bytes(hurray.full(count, True)) == expected
    used = count % 8
    if used:
        assert packed_bytes(hurray.empty(count, dtype=hurray.bool))[-1] >> used == 0


def test_new_memory_is_aligned_and_writable():
    for n in (1, 10, 1000, 100_000):
        t = hurray.ones(n)
        assert t.__array_interface__["data"][0] % 64 == 0
        assert not t.readonly
    assert hurray.zeros(1 << 20).buffer_handles[0].alignment == 4096


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.skipif(leaks.is_sanitized(), reason="ASan touches all it allocates")
def test_zeros_touch_no_memory():
    before = leaks.resident_bytes()
    tensors = [
        hurray.zeros(1 << 27),
        hurray.full(1 << 27, 0),
        hurray.zeros_like(hurray.empty(1 << 27)),
    ]
    assert leaks.resident_bytes() - before < 1 << 24
    assert all(np.asarray(t)[-1] == 0 for t in tensors)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (True, "bool"),
        (3, "int64"),
        (-(2**63), "int64"),
        (2**63, "uint64"),
        (2**64 - 1, "uint64"),
        (2.5, "float64"),
        (1 + 2j, "complex128"),
        (np.float64(2.5), "float64"),
        (np.float32(2.5), "float64"),
        (np.int8(3), "int64"),
        (np.bool_(True), "bool"),
        (np.complex64(1 + 2j), "complex128"),
        (np.array(2.5), "float64"),
        (fractions.Fraction(5, 2), "float64"),
    ],
)
def test_full_infers(value, name):
    t = hurray.full((2, 2), value)
    assert t.dtype is dtype_of(name)
    npt.assert_array_equal(np.asarray(t), np.full((2, 2), value).astype(name))


@pytest.mark.parametrize("value", ["1", b"1", None, [1], (1,), {}, object(), np.zeros(2), int])
def test_full_takes_numbers_only(value):
    with pytest.raises(TypeError):
        hurray.full(2, value)
    if value is not None:
        with pytest.raises(TypeError):
            hurray.full(2, value, dtype=hurray.float32)


# ---- the value of an element ----


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_at_the_ends_of_their_range(name):
    info = np.iinfo(name)
    for value in (info.min, info.max, 0):
        assert np.asarray(hurray.full(2, value, dtype=dtype_of(name))).tolist() == [value] * 2
    for value in (info.min - 1, info.max + 1, 10**5000, -(10**5000), 1e300, -1e300):
        with pytest.raises(OverflowError, match=name):
            hurray.full(2, value, dtype=dtype_of(name))
        with pytest.raises(OverflowError, match=name):
            hurray.asarray([value], dtype=dtype_of(name))


@pytest.mark.parametrize("name", INTEGERS)
def test_floats_lose_their_fraction_in_integers(name):
    assert np.asarray(hurray.full(1, 2.7, dtype=dtype_of(name))).tolist() == [2]
    assert np.asarray(hurray.full(1, -0.7, dtype=dtype_of(name))).tolist() == [0]
    with pytest.raises(ValueError, match="NaN"):
        hurray.full(1, math.nan, dtype=dtype_of(name))
    with pytest.raises(OverflowError):
        hurray.full(1, math.inf, dtype=dtype_of(name))


@pytest.mark.parametrize("name", [*INTEGERS, *REALS])
def test_complex_into_real_is_a_type_error(name):
    for value in (1j, 1 + 0j, np.complex64(1)):
        with pytest.raises(TypeError, match=name):
            hurray.full(2, value, dtype=dtype_of(name))
    assert np.asarray(hurray.full(1, 1j, dtype=hurray.bool)).tolist() == [True]


def one(value, dtype):
    return packed_bytes(hurray.full(1, value, dtype=dtype))


@given(st.floats(width=64))
def test_float16_rounds_as_numpy_does(value):
    with np.errstate(over="ignore"):
        expected = np.float16(value)
    if math.isnan(value):
        assert np.isnan(np.frombuffer(one(value, hurray.float16), np.float16)[0])
    else:
        assert one(value, hurray.float16) == expected.tobytes()


@given(st.integers(0, 0xFFFF), st.sampled_from([-1, 0, 1]), st.sampled_from([0, 0.5]))
def test_float16_at_every_tie(bits, nudge, half):
    low = np.uint16(bits).view(np.float16)
    high = np.uint16((bits + 1) & 0xFFFF).view(np.float16)
    if not (np.isfinite(low) and np.isfinite(high)):
        return
    value = float(low) + half * (float(high) - float(low))
    if nudge:
        value = math.nextafter(value, math.inf * nudge) if hasattr(math, "nextafter") else value
    with np.errstate(over="ignore"):
        assert one(value, hurray.float16) == np.float16(value).tobytes()


@pytest.mark.parametrize(
    "value", [65504.0, 65519.999, 65520.0, 1e300, 2.0**-24, 2.0**-25, 2.0**-26]
)
def test_float16_at_its_limits(value):
    with np.errstate(over="ignore"):
        for v in (value, -value, math.nextafter(value, 0), math.nextafter(value, math.inf)):
            assert one(v, hurray.float16) == np.float16(v).tobytes()


@given(st.floats(width=64))
def test_bfloat16_rounds_as_ml_dtypes_does(value):
    with np.errstate(over="ignore"):
        expected = np.array([value], np.float64).astype(np.float32).astype(ml_dtypes.bfloat16)
    if math.isnan(value):
        assert np.isnan(np.frombuffer(one(value, hurray.bfloat16), ml_dtypes.bfloat16)[0])
    else:
        assert one(value, hurray.bfloat16) == expected.tobytes()


@pytest.mark.parametrize("bits", [0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x7F7F8000, 1])
def test_bfloat16_ties_go_to_even(bits):
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    assert one(value, hurray.bfloat16) == np.float32(value).astype(ml_dtypes.bfloat16).tobytes()


@given(st.floats(width=64))
def test_float32_and_complex_round_to_nearest(value):
    with np.errstate(over="ignore"):
        if not math.isnan(value):
            assert one(value, hurray.float32) == np.float32(value).tobytes()
            assert (
                one(complex(value, -value), hurray.complex64)
                == np.complex64(complex(value, -value)).tobytes()
            )
            assert one(value, hurray.complex128) == np.complex128(value).tobytes()


def test_integers_beyond_a_double():
    with pytest.raises(OverflowError):
        hurray.full(1, 10**400, dtype=hurray.float64)
    assert np.asarray(hurray.full(1, 2**53 + 1, dtype=hurray.float64))[0] == 2.0**53


def test_negative_zero_stays():
    assert np.signbit(np.asarray(hurray.full(3, -0.0))).all()
    assert np.signbit(np.asarray(hurray.full(3, complex(0, -0.0))).imag).all()


@given(st.integers(0, 5000), st.sampled_from(STANDARD))
def test_full_of_any_length(count, name):
    value = 1 if name == "bool" else 3
    t = hurray.full(count, value, dtype=dtype_of(name))
    npt.assert_array_equal(np.asarray(t), np.full(count, value, np_dtype(name)))


# ---- refusals ----

MAKERS = {
    "zeros": lambda shape=(2,), **k: hurray.zeros(shape, **k),
    "ones": lambda shape=(2,), **k: hurray.ones(shape, **k),
    "empty": lambda shape=(2,), **k: hurray.empty(shape, **k),
    "full": lambda shape=(2,), **k: hurray.full(shape, 1, **k),
    "zeros_like": lambda shape=(2,), **k: hurray.zeros_like(like(shape), **k),
    "ones_like": lambda shape=(2,), **k: hurray.ones_like(like(shape), **k),
    "empty_like": lambda shape=(2,), **k: hurray.empty_like(like(shape), **k),
    "full_like": lambda shape=(2,), **k: hurray.full_like(like(shape), 1, **k),
}
NO_SHAPE = {
    "arange": lambda **k: hurray.arange(3, **k),
    "linspace": lambda **k: hurray.linspace(0, 1, 3, **k),
    "eye": lambda **k: hurray.eye(3, **k),
}


def like(shape):
    return hurray.Tensor(bytes(64), hurray.float32, shape)


@pytest.mark.parametrize("function", [*MAKERS, *NO_SHAPE])
def test_tier_2_is_refused(function):
    for name in TIER_2:
        with pytest.raises(hurray.UnsupportedError, match=name):
            {**MAKERS, **NO_SHAPE}[function](dtype=dtype_of(name))
    with pytest.raises(hurray.UnsupportedError, match="private"):
        {**MAKERS, **NO_SHAPE}[function](dtype=hurray.Dtype.from_tag(0xF2))


@pytest.mark.parametrize("function", [*MAKERS, *NO_SHAPE])
def test_only_the_cpu_allocates(function):
    for device in (
        hurray.device.cuda,
        hurray.Device("metal"),
        hurray.Device("cpu", memory_class="host_pinned"),
    ):
        with pytest.raises(hurray.UnsupportedError, match="CPU"):
            {**MAKERS, **NO_SHAPE}[function](device=device)


@pytest.mark.parametrize("function", [*MAKERS, *NO_SHAPE])
def test_other_dtypes_and_devices_are_type_errors(function):
    make = {**MAKERS, **NO_SHAPE}[function]
    for dtype in ("float32", np.float32, float, 3):
        with pytest.raises(TypeError, match="dtype"):
            make(dtype=dtype)
    for device in ("cpu", 1):
        with pytest.raises(TypeError, match="device"):
            make(device=device)
    with pytest.raises(TypeError):
        make(order="C")


@pytest.mark.parametrize("function", MAKERS)
def test_a_dynamic_dimension_names_function_and_index(function):
    with pytest.raises(hurray.InvalidDescriptorError, match=rf"{function}\(.*shape\[1\]"):
        MAKERS[function]((2, None))


@pytest.mark.parametrize("function", ["zeros", "ones", "empty", "full"])
def test_shapes_that_are_none(function):
    make = MAKERS[function]
    for shape in ((-1,), (2, -3)):
        with pytest.raises(hurray.InvalidDescriptorError):
            make(shape)
    for shape in ("ab", 2.5, (2.0,), ((2,),), object()):
        with pytest.raises(TypeError):
            make(shape)
    with pytest.raises(hurray.InvalidDescriptorError):
        make((1,) * 65)
    assert make((1,) * 64).ndim == 64


@pytest.mark.parametrize("function", ["zeros", "ones", "empty", "full"])
@pytest.mark.parametrize(
    "shape",
    [(2**62,), (2**63 - 1,), (2**64 - 2,), (2**32, 2**32), (2**33, 2**33, 2**33), (2**60, 8)],
)
def test_huge_shapes(function, shape):
    for name in ("bool", "int8", "float64", "complex128"):
        if name == "bool" and shape == (2**62,):
            continue  # 2^59 bytes: for the system to refuse
        with pytest.raises((MemoryError, hurray.InvalidDescriptorError)):
            MAKERS[function](shape, dtype=dtype_of(name))


def test_an_empty_shape_of_huge_extents():
    assert hurray.zeros((0, 2**63)).size == 0
    assert hurray.ones((2**40, 2**40, 0)).size == 0


# ---- …_like ----


@pytest.mark.parametrize("name", STANDARD)
def test_like_takes_shape_and_dtype(name):
    model = hurray.zeros((2, 3), dtype=dtype_of(name))
    for make, value in ((hurray.zeros_like, 0), (hurray.ones_like, 1)):
        t = make(model)
        assert (t.shape, t.dtype) == ((2, 3), model.dtype)
        npt.assert_array_equal(np.asarray(t), np.full((2, 3), value, np_dtype(name)))
    assert hurray.empty_like(model).dtype is model.dtype
    t = hurray.full_like(model, 1)
    npt.assert_array_equal(np.asarray(t), np.ones((2, 3), np_dtype(name)))
    assert hurray.zeros_like(model, dtype=hurray.int8).dtype is hurray.int8


@pytest.mark.parametrize(
    ("model", "shape", "name"),
    [
        ([[1, 2], [3, 4]], (2, 2), "int64"),
        (2.5, (), "float64"),
        (np.zeros((3, 2), np.float32).T, (2, 3), "float32"),
        (np.zeros(3, np.bool_), (3,), "bool"),
        (np.zeros(3, ml_dtypes.bfloat16), (3,), "bfloat16"),
        (b"abc", (3,), "uint8"),
        ([], (0,), "float64"),
    ],
)
def test_like_takes_what_asarray_takes(model, shape, name):
    for t in (hurray.zeros_like(model), hurray.full_like(model, 1), hurray.empty_like(x=model)):
        assert (t.shape, t.dtype) == (shape, dtype_of(name))
    with pytest.raises(TypeError):
        hurray.zeros_like("abc")


def test_like_with_a_model_of_tier_2_or_another_device():
    model = hurray.Tensor(bytes(4), hurray.dtype.int4, (8,))
    with pytest.raises(hurray.UnsupportedError, match="int4"):
        hurray.zeros_like(model)
    assert hurray.zeros_like(model, dtype=hurray.int8).shape == (8,)
    model = hurray.Tensor(bytes(8), hurray.float32, (2,), hurray.device.cuda)
    with pytest.raises(hurray.UnsupportedError, match="cuda"):
        hurray.zeros_like(model)
    assert hurray.zeros_like(model, device=hurray.device.cpu).device is hurray.device.cpu


def test_full_like_checks_the_value_against_the_dtype():
    with pytest.raises(OverflowError, match="uint8"):
        hurray.full_like(hurray.zeros(2, dtype=hurray.uint8), 256)


# ---- arange ----


@given(
    st.integers(-1000, 1000),
    st.integers(-1000, 1000),
    st.integers(-50, 50).filter(bool),
    st.sampled_from([None, *INTEGERS, *REALS, *COMPLEX]),
)
def test_arange_of_integers(start, stop, step, name):
    dtype = None if name is None else dtype_of(name)
    numbers = range(start, stop, step)
    if name in INTEGERS:
        info = np.iinfo(name)
        if any(not info.min <= n <= info.max for n in (*numbers[:1], *numbers[-1:])):
            with pytest.raises(OverflowError, match=name):
                hurray.arange(start, stop, step, dtype=dtype)
            return
    t = hurray.arange(start, stop, step, dtype=dtype)
    assert t.dtype is (dtype or hurray.int64)
    expected = np.arange(start, stop, step, dtype=None if name is None else np_dtype(name))
    npt.assert_array_equal(np.asarray(t), expected)


@example(0.0, 5e-324, 2.0, None)
@example(0.0, 5e-324, -2.0, None)
@given(
    st.floats(-100, 100),
    st.floats(-100, 100),
    st.floats(0.125, 30).flatmap(lambda x: st.sampled_from([x, -x])),
    st.sampled_from([None, *REALS, *COMPLEX]),
)
def test_arange_of_floats_is_numpys_bit_by_bit(start, stop, step, name):
    dtype = None if name is None else dtype_of(name)
    t = hurray.arange(start, stop, step, dtype=dtype)
    assert t.dtype is (dtype or hurray.float64)
    expected = np.arange(start, stop, step, dtype=None if name is None else np_dtype(name))
    assert np.asarray(t).tobytes() == expected.tobytes()


def test_arange_arguments():
    assert np.asarray(hurray.arange(4)).tolist() == [0, 1, 2, 3]
    assert np.asarray(hurray.arange(2, 4)).tolist() == [2, 3]
    assert np.asarray(hurray.arange(4, None, None)).tolist() == [0, 1, 2, 3]
    assert np.asarray(hurray.arange(0, step=2, stop=6)).tolist() == [0, 2, 4]
    assert np.asarray(hurray.arange(4, step=2)).tolist() == [0, 2]
    assert np.asarray(hurray.arange(True)).tolist() == [0]
    assert hurray.arange(2.0).dtype is hurray.float64
    assert hurray.arange(np.int32(3)).dtype is hurray.int64
    assert hurray.arange(np.float32(3)).dtype is hurray.float64
    assert hurray.arange(-3).shape == (0,)
    assert np.asarray(hurray.arange(0, 5, 0.5, dtype=hurray.int32)).tolist() == [
        0, 0, 1, 1, 2, 2, 3, 3, 4, 4,
    ]  # fmt: skip


def test_arange_of_complex():
    t = hurray.arange(1 + 1j, 5 + 5j, 1 + 1j)
    assert t.dtype is hurray.complex128
    assert np.asarray(t).tolist() == [1 + 1j, 2 + 2j, 3 + 3j, 4 + 4j]
    assert np.asarray(hurray.arange(3 + 0j)).tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="float32"):
        hurray.arange(3j, dtype=hurray.float32)


def test_arange_of_large_integers():
    t = hurray.arange(2**63, 2**63 + 3)
    assert t.dtype is hurray.uint64
    assert np.asarray(t).tolist() == [2**63, 2**63 + 1, 2**63 + 2]
    assert np.asarray(hurray.arange(2**63 - 2, 2**63)).tolist() == [2**63 - 2, 2**63 - 1]
    assert np.asarray(hurray.arange(2**64 - 1, 2**64 - 4, -1)).tolist() == [
        2**64 - 1,
        2**64 - 2,
        2**64 - 3,
    ]
    ends = np.asarray(hurray.arange(-(2**63), 2**63, 2**62))
    assert ends.tolist() == [-(2**63), -(2**62), 0, 2**62]
    for arguments in ((2**64, 2**64 + 2), (-1, 2**64, 2**63), (-(2**65), -(2**65) + 2)):
        with pytest.raises(OverflowError, match="int64"):
            hurray.arange(*arguments)
    assert hurray.arange(2**64, 2**64).shape == (0,)


def test_arange_refuses():
    for step in (0, 0.0, 0j):
        with pytest.raises(ValueError, match="step"):
            hurray.arange(0, 5, step)
    for arguments in ((math.inf,), (0, math.nan), (math.nan, 1), (-math.inf, 0)):
        with pytest.raises(ValueError, match="finite"):
            hurray.arange(*arguments)
    for arguments in ((2**70,), (1e300,), (0, 1, 1e-300), (2**60,)):
        with pytest.raises(MemoryError):
            hurray.arange(*arguments)
    for arguments in (("5",), ([1],), (1, "2"), (1, 2, object()), ()):
        with pytest.raises(TypeError):
            hurray.arange(*arguments)
    with pytest.raises(hurray.UnsupportedError, match="bool"):
        hurray.arange(2, dtype=hurray.bool)
    with pytest.raises(OverflowError, match="int8"):
        hurray.arange(0, 300.0, dtype=hurray.int8)


# ---- linspace ----


@given(
    st.floats(-1e6, 1e6),
    st.floats(-1e6, 1e6),
    st.integers(0, 40),
    st.booleans(),
    st.sampled_from([None, *REALS, "int32", "int64"]),
)
def test_linspace_is_numpys_bit_by_bit(start, stop, num, endpoint, name):
    t = hurray.linspace(
        start, stop, num, endpoint=endpoint, dtype=None if name is None else dtype_of(name)
    )
    with np.errstate(over="ignore"):
        expected = np.linspace(start, stop, num, endpoint=endpoint)
        if name is not None:
            whole = name.startswith("int")
            expected = (np.floor(expected) if whole else expected).astype(np_dtype(name))
    assert t.dtype is (hurray.float64 if name is None else dtype_of(name))
    assert np.asarray(t).tobytes() == expected.tobytes()


def test_linspace_of_complex_and_bool():
    t = hurray.linspace(0, 1 + 2j, 5)
    assert t.dtype is hurray.complex128
    npt.assert_allclose(np.asarray(t), np.linspace(0, 1 + 2j, 5), rtol=1e-15)
    npt.assert_array_equal(
        np.asarray(hurray.linspace(0, 1, 9, dtype=hurray.bool)), [False] + [True] * 8
    )
    with pytest.raises(TypeError, match="float32"):
        hurray.linspace(0, 1j, 3, dtype=hurray.float32)


def test_linspace_refuses():
    with pytest.raises(ValueError, match="num"):
        hurray.linspace(0, 1, -1)
    with pytest.raises(TypeError):
        hurray.linspace(0, 1, 2.5)
    with pytest.raises(TypeError):
        hurray.linspace("0", 1, 2)
    with pytest.raises(TypeError):
        hurray.linspace(0, 1)
    with pytest.raises(MemoryError):
        hurray.linspace(0, 1, 2**60)
    with pytest.raises(MemoryError):
        hurray.linspace(0, 1, 2**70)
    for bad in (math.nan, math.inf, 1e30, 300, -300):
        with pytest.raises(OverflowError, match="int8"):
            hurray.linspace(0, bad, 2, dtype=hurray.int8)
    with pytest.raises(OverflowError, match="uint64"):
        hurray.linspace(0, 2.0**64, 2, dtype=hurray.uint64)
    assert np.asarray(hurray.linspace(0, 2.0**63, 2, dtype=hurray.uint64))[1] == 2**63


# ---- eye ----


@given(
    st.integers(0, 12),
    st.none() | st.integers(0, 12),
    st.integers(-15, 15),
    st.sampled_from(STANDARD),
)
def test_eye(rows, columns, k, name):
    t = hurray.eye(rows, columns, k=k, dtype=dtype_of(name))
    expected = np.eye(rows, columns, k=k).astype(np_dtype(name))
    assert t.shape == expected.shape
    npt.assert_array_equal(np.asarray(t), expected)
    if name == "bool":
        assert packed_bytes(t) == np.packbits(expected.ravel(), bitorder="little").tobytes()


def test_eye_arguments():
    assert hurray.eye(2).dtype is hurray.float64
    for k in (2**70, -(2**70), 2**63 - 1, -(2**63)):
        assert not np.asarray(hurray.eye(3, k=k)).any()
    for wrong in ((2.5,), ("a",), ((2,),), (2, 2.5)):
        with pytest.raises(TypeError):
            hurray.eye(*wrong)
    with pytest.raises(TypeError):
        hurray.eye(2, k=0.5)
    with pytest.raises(hurray.InvalidDescriptorError):
        hurray.eye(-1)
    with pytest.raises((MemoryError, hurray.InvalidDescriptorError)):
        hurray.eye(2**40)


# ---- without NumPy ----


def test_construction_works_without_numpy():
    code = """
        import sys
        sys.modules["numpy"] = None
        import hurray
        values = lambda t: memoryview(t).tolist()
        assert values(hurray.zeros((2, 2))) == [[0, 0], [0, 0]]
        assert values(hurray.ones(2, dtype=hurray.int8)) == [1, 1]
        assert values(hurray.full(2, 7)) == [7, 7]
        assert values(hurray.full_like([1.5, 2], 7)) == [7, 7]
        assert values(hurray.arange(1, 6, 2)) == [1, 3, 5]
        assert values(hurray.linspace(0, 1, 3)) == [0, 0.5, 1]
        assert values(hurray.eye(2)) == [[1, 0], [0, 1]]
        assert values(hurray.asarray([[1, 2], [3, 4]])) == [[1, 2], [3, 4]]
        assert values(hurray.asarray(b"ab")) == [97, 98]
        assert hurray.asarray([True]).dtype is hurray.bool
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60)


def test_construction_leaks_nothing():
    model = hurray.zeros(3)

    def make():
        hurray.zeros((2, 3))
        hurray.full((2, 3), 1.5, dtype=hurray.float16)
        hurray.ones_like(model)
        hurray.arange(5)
        hurray.arange(0, 1, 0.25)
        hurray.linspace(0, 1, 5)
        hurray.eye(3, dtype=hurray.bool)
        for wrong in (
            lambda: hurray.full(2, 300, dtype=hurray.uint8),
            lambda: hurray.linspace(0, 300, 5, dtype=hurray.int8),
            lambda: hurray.zeros((2, None)),
        ):
            with contextlib.suppress(OverflowError, hurray.InvalidDescriptorError):
                wrong()

    leaks.check(make, [model, hurray.float64, hurray.device.cpu], repetitions=20_000)


@pytest.mark.parametrize(
    "device",
    [
        hurray.Device("cpu", 1),
        hurray.Device("cpu", 0, "host_pinned"),
        hurray.Device("cpu", 0, "unified"),
        hurray.device.cuda,
    ],
    ids=repr,
)
def test_memory_is_that_of_the_first_cpu_only(device):
    """What is allocated is never said to be elsewhere, not on another CPU either."""
    model = hurray.ones((2, 3))
    elsewhere = hurray.Tensor(bytes(8), hurray.float64, (1,), device)
    for make in (
        lambda: hurray.zeros(3, device=device),
        lambda: hurray.full(3, 1, device=device),
        lambda: hurray.arange(3, device=device),
        lambda: hurray.linspace(0, 1, 3, device=device),
        lambda: hurray.eye(3, device=device),
        lambda: hurray.empty_like(model, device=device),
        lambda: hurray.zeros_like(elsewhere),
    ):
        with pytest.raises(hurray.UnsupportedError, match=re.escape(f"not on {device!r}")):
            make()
    assert hurray.zeros_like(elsewhere, device=hurray.device.cpu).device == hurray.device.cpu
