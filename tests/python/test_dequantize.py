"""examples/dequantize.py against spec 3, computed element by element here."""

from __future__ import annotations

import itertools
import runpy
import struct
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import hurray
from hurray import (
    MXFP,
    NF4,
    ColMajorLayout,
    Composite,
    MortonLayout,
    PerBlockAffine,
    PerChannelAffine,
    PerTensorAffine,
    Shard,
    Tensor,
    TiledLayout,
)

SCRIPT = Path(__file__).parents[2] / "examples" / "dequantize.py"
EXAMPLE = runpy.run_path(str(SCRIPT))
dequantize = EXAMPLE["dequantize"]

LEVELS = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022833334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
ML_TYPES = {
    "float8_e4m3": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float6_e2m3": ml_dtypes.float6_e2m3fn,
    "float6_e3m2": ml_dtypes.float6_e3m2fn,
    "float4_e2m1": ml_dtypes.float4_e2m1fn,
}


def as_float32(exact):
    """Rounded once to float32, as one multiplication of float32 is."""
    return np.float32(float(exact)) if exact == exact else np.float32("nan")


def random_codes(dtype, count):
    """The codes of elements, as unsigned numbers of its width; every one of a narrow type."""
    if dtype.bit_width <= 8:
        codes = np.random.default_rng(2).permutation(np.arange(count) % (1 << dtype.bit_width))
        return [int(c) for c in codes]
    return [int(c) for c in np.random.default_rng(2).integers(0, 1 << dtype.bit_width, count)]


def packed(codes, bits):
    """Bytes of codes, the lowest bits first: one long number."""
    number = 0
    for position, code in enumerate(codes):
        number |= code << (position * bits)
    groups = -(-len(codes) // (4 if bits == 6 else max(1, 8 // bits)))
    return number.to_bytes(groups * (3 if bits == 6 else max(1, bits // 8)), "little")


def integer(code, dtype):
    """The number a code stands for, if it is one of integers."""
    sign = 1 << (dtype.bit_width - 1)
    return code - 2 * sign if dtype.is_signed and code & sign else code


def laid_out(codes, shape, axis=None, block_size=1):
    """Row-major with `axis` padded to whole blocks, and the code of each index."""
    padded = list(shape)
    if axis is not None:
        padded[axis] = -(-shape[axis] // block_size) * block_size
    by_index, stored = {}, []
    source = iter(codes)
    for index in itertools.product(*map(range, padded)):
        inside = all(i < n for i, n in zip(index, shape, strict=True))
        code = next(source) if inside else 0
        stored.append(code)
        if inside:
            by_index[index] = code
    return stored, by_index


def block_of(index, shape, axis, block_size):
    outer = 0
    for k, i in enumerate(index):
        if k != axis:
            outer = outer * shape[k] + i
    return outer * -(-shape[axis] // block_size) + index[axis] // block_size


def check(tensor, value_of, shape):
    """That every way gives what value_of(index) says, whatever the layout."""
    expected = np.empty(shape, np.float32)
    for index in itertools.product(*map(range, shape)):
        expected[index] = value_of(index)
    for each in (tensor, tensor.to_layout(ColMajorLayout()), tensor.to_layout(TiledLayout((2, 3)))):
        values = dequantize(each)
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, expected)
        whole = Composite(
            "partition",
            shape=shape,
            dtype=hurray.float32,
            members=[with_shard(each)],
        )
        np.testing.assert_array_equal(whole.to_numpy(), expected)


def with_shard(t):
    """The same tensor as the only member of a partition."""
    buffers = [t.buffer(i) for i in range(t.buffer_count)]
    return Tensor(
        buffers[0],
        t.dtype,
        t.shape,
        aux_buffers=buffers[1:],
        layout=t.layout,
        quantization=t.quantization,
        byte_offset=t.byte_offset,
        shard=Shard(t.shape, (0,) * t.ndim),
    )


SHAPE = (5, 24)
AFFINE = [
    hurray.int8,
    hurray.uint8,
    hurray.int16,
    hurray.uint16,
    hurray.int32,
    hurray.uint32,
    hurray.dtype.int4,
    hurray.dtype.uint4,
    hurray.dtype.int2,
    hurray.dtype.uint2,
]
NARROW = [t for t in AFFINE if t.bit_width <= 8]


def parameters(count, dtype, scale_type=np.float32):
    """Scales, whose products with small integers round, and zero points in the type's range."""
    rng = np.random.default_rng(3)
    scales = rng.uniform(-2, 2, count).astype(scale_type)
    high = 1 << min(dtype.bit_width, 8) - 1
    zeros = rng.integers(-high if dtype.is_signed else 0, high, count).astype(np.int32)
    return scales, zeros


def affine(code, dtype, scale, zero):
    difference = np.float32(integer(code, dtype) - int(zero))
    return as_float32(Fraction(float(scale)) * Fraction(float(difference)))


@pytest.mark.parametrize("dtype", AFFINE, ids=str)
def test_per_tensor(dtype):
    stored, codes = laid_out(random_codes(dtype, 120), SHAPE)
    scale, zero = np.float32(0.1), 1
    tensor = Tensor(
        packed(stored, dtype.bit_width),
        dtype,
        SHAPE,
        quantization=PerTensorAffine(float(scale), zero),
    )
    check(tensor, lambda index: affine(codes[index], dtype, scale, zero), SHAPE)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["symmetric", "asymmetric", "shared"])
@pytest.mark.parametrize("dtype", AFFINE, ids=str)
def test_per_channel(dtype, kind, axis):
    stored, codes = laid_out(random_codes(dtype, 120), SHAPE)
    scales, zeros = parameters(SHAPE[axis], dtype)
    if kind == "symmetric":
        zeros[:] = 0
        scheme, buffers = PerChannelAffine.symmetric(axis, 1), [scales]
    elif kind == "asymmetric":
        scheme, buffers = PerChannelAffine.asymmetric(axis, 2, 1), [zeros, scales]
    else:
        scheme = PerChannelAffine.asymmetric(axis, 1, 1)
        buffers = [scales.tobytes() + zeros.tobytes()]
    tensor = Tensor(
        packed(stored, dtype.bit_width), dtype, SHAPE, aux_buffers=buffers, quantization=scheme
    )

    def value_of(index):
        return affine(codes[index], dtype, scales[index[axis]], zeros[index[axis]])

    check(tensor, value_of, SHAPE)


@pytest.mark.parametrize(("axis", "size"), [(0, 2), (0, 4), (1, 2), (1, 16)])
@pytest.mark.parametrize(
    ("scale_type", "numpy_type"),
    [
        (hurray.float16, np.float16),
        (hurray.bfloat16, ml_dtypes.bfloat16),
        (hurray.float32, np.float32),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["symmetric", "asymmetric", "shared"])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_per_block(dtype, kind, scale_type, numpy_type, axis, size):
    stored, codes = laid_out(random_codes(dtype, 120), SHAPE, axis, size)
    count = 120 // SHAPE[axis] * -(-SHAPE[axis] // size)
    scales, zeros = parameters(count, dtype, numpy_type)
    if kind == "symmetric":
        zeros[:] = 0
        scheme, buffers = PerBlockAffine.symmetric(axis, size, 1, scale_type), [scales.tobytes()]
    elif kind == "asymmetric":
        scheme = PerBlockAffine.asymmetric(axis, size, 1, 2, scale_type)
        buffers = [scales.tobytes(), zeros]
    else:
        scheme = PerBlockAffine.asymmetric(axis, size, 1, 1, scale_type)
        buffers = [scales.tobytes() + zeros.tobytes()]
    tensor = Tensor(
        packed(stored, dtype.bit_width), dtype, SHAPE, aux_buffers=buffers, quantization=scheme
    )

    def value_of(index):
        block = block_of(index, SHAPE, axis, size)
        return affine(codes[index], dtype, scales[block], zeros[block])

    check(tensor, value_of, SHAPE)


@pytest.mark.parametrize(
    ("shape", "axis", "size"), [((5, 24), 1, 8), ((5, 24), 1, 16), ((9, 3), 0, 8)]
)
def test_nf4(shape, axis, size):
    count = shape[0] * shape[1]
    stored, codes = laid_out(random_codes(hurray.dtype.uint4, count), shape, axis, size)
    blocks = count // shape[axis] * -(-shape[axis] // size)
    scales = np.random.default_rng(4).uniform(0, 3, blocks).astype(np.float32)
    tensor = Tensor(
        packed(stored, 4),
        hurray.dtype.uint4,
        shape,
        aux_buffers=[scales],
        quantization=NF4(axis, size, 1),
    )

    def value_of(index):
        scale = scales[block_of(index, shape, axis, size)]
        level = struct.unpack("<f", struct.pack("<f", LEVELS[codes[index]]))[0]
        return as_float32(Fraction(float(scale)) * Fraction(level))

    check(tensor, value_of, shape)


@pytest.mark.parametrize(("shape", "axis", "size"), [((8, 32), 1, 16), ((32, 8), 0, 32)])
@pytest.mark.parametrize(
    "dtype",
    [*(hurray.Dtype.from_name(name) for name in ML_TYPES), hurray.int8, hurray.dtype.int4],
    ids=str,
)
def test_mxfp(dtype, shape, axis, size):
    codes_in_order = random_codes(dtype, 256)
    stored, codes = laid_out(codes_in_order, shape)
    blocks = 256 // size
    exponents = np.random.default_rng(5).integers(100, 150, blocks, dtype=np.uint8)
    tensor = Tensor(
        packed(stored, dtype.bit_width),
        dtype,
        shape,
        aux_buffers=[exponents],
        quantization=MXFP(axis, size, 1),
    )

    def value_of(index):
        code = codes[index]
        if dtype.name in ML_TYPES:
            value = float(np.array([code], np.uint8).view(ML_TYPES[dtype.name])[0])
        else:
            value = integer(code, dtype)
        return np.float32(value * 2.0 ** (int(exponents[block_of(index, shape, axis, size)]) - 127))

    check(tensor, value_of, shape)


def test_curves_and_offsets():
    tensor = Tensor(
        np.arange(16, dtype=np.uint8),
        hurray.uint8,
        (4, 4),
        layout=MortonLayout((2, 2)),
        quantization=PerTensorAffine(2.0, 1),
    )
    assert dequantize(tensor)[2, 3] == 2.0 * (14 - 1)
    shifted = Tensor(
        np.arange(4, dtype=np.uint8),
        hurray.uint8,
        (2,),
        byte_offset=2,
        quantization=PerTensorAffine(1.0, 0),
    )
    assert dequantize(shifted).tolist() == [2, 3]


def test_what_is_not_quantized_is_refused():
    with pytest.raises(TypeError, match="not a quantized tensor"):
        dequantize(hurray.zeros((2,)))


def test_every_tensor_of_the_example_is_sound():
    examples = EXAMPLE["examples"]()
    assert len(examples) == 5
    for tensor in examples.values():
        tensor.verify()


def test_the_program_runs():
    result = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=100, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "[ 400.  500. 6000.]" in result.stdout
