"""What the stored elements of a quantized tensor stand for, in NumPy, for every scheme.

Hurray carries quantized tensors: codes, scales, zero points, and the scheme that says how they belong
together. It leaves the arithmetic to others. This is that arithmetic, short enough to copy; a
framework does the same on its own device. Needs NumPy alone.

    python examples/dequantize.py
"""

from __future__ import annotations

import math

import numpy as np

import hurray
from hurray import MXFP, NF4, PerBlockAffine, PerChannelAffine, PerTensorAffine, Tensor

# The levels of NormalFloat4 are the quantiles of a normal distribution, scaled to -1 … 1.
NF4_LEVELS = np.array(
    [
        -1.0,
        -0.6961928009986877,
        -0.5250730514526367,
        -0.39491748809814453,
        -0.28444138169288635,
        -0.18477343022823334,
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
    ],
    dtype=np.float32,
)

# Exponent bits, mantissa bits and bias of the small floats that MXFP has.
SMALL_FLOATS = {
    "float8_e4m3": (4, 3, 7),
    "float8_e5m2": (5, 2, 15),
    "float6_e2m3": (2, 3, 1),
    "float6_e3m2": (3, 2, 3),
    "float4_e2m1": (2, 1, 1),
}


def dequantize(tensor: Tensor) -> np.ndarray:
    """The values of a dense quantized tensor on the CPU: float32, in its shape."""
    scheme = tensor.quantization
    if isinstance(scheme, PerTensorAffine):
        codes = stored(tensor, tensor.shape)
        return np.float32(scheme.scale) * (codes - scheme.zero_point).astype(np.float32)
    if isinstance(scheme, PerChannelAffine):
        return per_channel(tensor, scheme)
    if isinstance(scheme, PerBlockAffine | NF4 | MXFP):
        return per_block(tensor, scheme)
    raise TypeError(f"not a quantized tensor: {tensor!r}")


# ---- schemes ----


def per_channel(tensor: Tensor, scheme: PerChannelAffine) -> np.ndarray:
    """A scale, and maybe a zero point, for each index of one axis."""
    channels = tensor.shape[scheme.axis]
    along_axis = [1] * tensor.ndim
    along_axis[scheme.axis] = channels
    scales, zero_points = affine_parameters(tensor, scheme, channels, "float32")
    difference = stored(tensor, tensor.shape) - zero_points.reshape(along_axis)
    return scales.reshape(along_axis) * difference.astype(np.float32)


def per_block(tensor: Tensor, scheme: PerBlockAffine | NF4 | MXFP) -> np.ndarray:
    """A scale for each `block_size` elements of one axis.

    A partial last block is stored in full, so that every axis splits evenly into [blocks, block_size].
    The scales lie block by block, the axes other than this one being the outer ones.
    """
    axis, size = scheme.axis, scheme.block_size
    extent = tensor.shape[axis]
    blocks = math.ceil(extent / size)
    others = tensor.shape[:axis] + tensor.shape[axis + 1 :]
    count = math.prod(others) * blocks
    padded = (*tensor.shape[:axis], blocks * size, *tensor.shape[axis + 1 :])
    split = (*tensor.shape[:axis], blocks, size, *tensor.shape[axis + 1 :])
    codes = stored(tensor, padded).reshape(split)

    def for_each_block(parameters: np.ndarray) -> np.ndarray:
        """[others …, blocks] brought next to the codes, the same for all of a block."""
        return np.expand_dims(np.moveaxis(parameters.reshape(*others, blocks), -1, axis), axis + 1)

    if isinstance(scheme, NF4):
        scales = parameter_bytes(tensor, scheme.scale_buffer_index, 4 * count).view("<f4")
        values = for_each_block(scales) * NF4_LEVELS[codes]
    elif isinstance(scheme, MXFP):
        exponents = parameter_bytes(tensor, scheme.scale_buffer_index, count)
        power = for_each_block(exponents.astype(np.int32) - 127)  # float8_e8m0: 2 ** (e - 127)
        values = np.ldexp(small_values(tensor.dtype.name, codes), power)
    else:
        scales, zero_points = affine_parameters(tensor, scheme, count, scheme.scale_type.name)
        difference = codes - for_each_block(zero_points)
        values = for_each_block(scales) * difference.astype(np.float32)
    within = tuple(slice(n) for n in tensor.shape)
    return values.reshape(padded)[within]


def small_values(name: str, codes: np.ndarray) -> np.ndarray:
    """What the codes of an MXFP element type mean, in float32: integers, or floats bit by bit."""
    if name not in SMALL_FLOATS:
        return codes.astype(np.float32)
    exponent_bits, mantissa_bits, bias = SMALL_FLOATS[name]
    mantissa = codes & ((1 << mantissa_bits) - 1)
    exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
    sign = np.where(codes >> (mantissa_bits + exponent_bits) == 1, np.float32(-1), np.float32(1))
    is_normal = exponent > 0
    significand = mantissa + np.where(is_normal, 1 << mantissa_bits, 0)
    power = np.where(is_normal, exponent, 1) - bias - mantissa_bits
    values = sign * np.ldexp(significand.astype(np.float32), power)
    if name == "float8_e4m3":  # no infinities; one pattern is NaN
        values[(exponent == 15) & (mantissa == 7)] = np.nan
    if name == "float8_e5m2":
        values[(exponent == 31) & (mantissa == 0)] *= np.inf
        values[(exponent == 31) & (mantissa != 0)] = np.nan
    return values


# ---- buffers ----


def stored(tensor: Tensor, shape: tuple[int, ...]) -> np.ndarray:
    """The elements of buffer 0 in row-major order, as int64, in the shape in which they are stored.

    Small elements follow each other bit by bit, lowest bits first.
    """
    if not isinstance(tensor.layout, hurray.RowMajorLayout):
        tensor = tensor.to_layout(hurray.RowMajorLayout())
    count, bits = math.prod(shape), tensor.dtype.bit_width
    data = tensor.buffer(0).to_numpy()[tensor.byte_offset :]
    is_signed = tensor.dtype.is_signed and not tensor.dtype.is_float
    if bits >= 8:
        number = f"<{'i' if is_signed else 'u'}{bits // 8}"
        codes = data[: count * bits // 8].view(number).astype(np.int64)
    else:
        each = np.unpackbits(data, count=count * bits, bitorder="little").reshape(count, bits)
        codes = each.astype(np.int64) @ (1 << np.arange(bits))
        if is_signed:  # two's complement
            codes -= (codes >> (bits - 1)) << bits
    return codes.reshape(shape)


def parameter_bytes(tensor: Tensor, buffer: int, size: int, start: int = 0) -> np.ndarray:
    """Bytes of a buffer of parameters, copied: zero points behind scales may be unaligned."""
    return tensor.buffer(buffer).to_numpy()[start : start + size].copy()


def affine_parameters(
    tensor: Tensor, scheme: PerChannelAffine | PerBlockAffine, count: int, scale_type: str
) -> tuple[np.ndarray, np.ndarray]:
    """Scales as float32 and zero points as int64, [count] each; zeros for a symmetric scheme."""
    width = 4 if scale_type == "float32" else 2
    data = parameter_bytes(tensor, scheme.scale_buffer_index, width * count)
    if scale_type == "bfloat16":  # the upper half of a float32
        scales = (data.view("<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        scales = data.view("<f4" if width == 4 else "<f2").astype(np.float32)
    index = scheme.zero_point_buffer_index
    if index is None:
        return scales, np.zeros(count, np.int64)
    behind = width * count if index == scheme.scale_buffer_index else 0
    zero_points = parameter_bytes(tensor, index, 4 * count, behind).view("<i4")
    return scales, zero_points.astype(np.int64)


# ---- a tensor of each scheme ----


def examples() -> dict[str, Tensor]:
    """Small tensors that can be checked by hand."""
    channel_scales = np.array([0.5, 10], np.float32)
    channel_zeros = np.array([0, 4], np.int32)
    block_scales = np.array([[1, 10], [100, 1000]], np.float16)
    return {
        "per tensor": Tensor(
            np.array([[3, 5, 1], [255, 0, 3]], np.uint8),
            hurray.uint8,
            (2, 3),
            quantization=PerTensorAffine(0.5, 3),
        ),
        "per channel": Tensor(
            np.array([[1, 2, 3], [4, 5, 6]], np.int8),
            hurray.int8,
            (2, 3),
            aux_buffers=[channel_scales, channel_zeros],
            quantization=PerChannelAffine.asymmetric(0, 1, 2),
        ),
        # Rows of 3 in blocks of 2: a fourth element, 0, fills up the last block of each.
        "per block": Tensor(
            np.array([[1, 2, 3, 0], [4, 5, 6, 0]], np.int8),
            hurray.int8,
            (2, 3),
            aux_buffers=[block_scales],
            quantization=PerBlockAffine.symmetric(1, 2, 1, hurray.float16),
        ),
        "NF4": Tensor(
            bytes([0x70, 0xF8, 0x00, 0x00, 0x10, 0x32, 0x54, 0x76]),
            hurray.dtype.uint4,
            (2, 8),
            aux_buffers=[np.array([2, 1], np.float32)],
            quantization=NF4(1, 8, 1),
        ),
        "MXFP": Tensor(
            bytes([0x21, 0x43, 0x65, 0x87, 0xA9, 0xCB, 0xED, 0x0F]),
            hurray.dtype.float4_e2m1,
            (16,),
            aux_buffers=[bytes([128])],
            quantization=MXFP(0, 16, 1),
        ),
    }


def main() -> None:
    for name, tensor in examples().items():
        print(f"{name}: {tensor.quantization}")
        values = dequantize(tensor)
        print(np.array2string(values, prefix="  ", precision=4, suppress_small=True))


if __name__ == "__main__":
    main()
