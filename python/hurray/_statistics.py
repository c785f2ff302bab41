"""Statistics.compute (spec 1.7, 8.10): measures values with NumPy, dequantized where need be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

from ._core import (
    MXFP,
    NF4,
    CooLayout,
    CscLayout,
    CsfLayout,
    CsrLayout,
    PerBlockAffine,
    PerChannelAffine,
    PerTensorAffine,
    Statistics,
    StridedLayout,
    Tensor,
    UnsupportedError,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]

# The levels of NormalFloat4 (spec 3).
_NF4_LEVELS = (
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
)

# Types of whole bytes that are ml_dtypes' in NumPy; float32 holds their values.
_NARROW = ("bfloat16", "float8_e4m3", "float8_e5m2", "float8_e8m0")

# The m of the n:m pattern that is looked for.
_GROUP = 4


def compute(tensor: Tensor) -> Statistics:
    """Statistics of a tensor; called by the C type, whose docstring says which."""
    _check(tensor)
    stored = _stored(tensor)
    values = stored if tensor.quantization is None else _dequantized(tensor, stored)
    total = tensor.size
    assert total is not None
    claims: dict[str, Any] = {}
    nonzero = _count_nonzero(values)
    claims["nnz"] = tensor.nnz if hasattr(tensor, "nnz") else nonzero
    if total > 0:
        claims["sparsity_ratio"] = (total - nonzero) / total
    claims |= _measured(values, total)
    if tensor.layout.is_dense:
        claims |= _pattern(values)
    return Statistics(**claims)


def _check(tensor: Tensor) -> None:
    layout = tensor.layout
    if not (layout.is_dense or hasattr(tensor, "nnz")):
        raise UnsupportedError(f"statistics of a tensor of layout {layout.name} are not computed")
    if tensor.extension_type is not None:
        raise UnsupportedError("statistics of a private dtype are not computed")
    if None in tensor.shape:
        raise UnsupportedError(
            f"statistics need a known shape; a dimension of {tensor.shape} is dynamic"
        )


# ---- what is stored ----


def _stored(tensor: Tensor) -> Array:
    """The stored elements as NumPy knows them: in the shape of a dense tensor, [nnz] of others."""
    if not tensor.layout.is_dense:
        return _elements(tensor.values)
    if tensor.quantization is None:
        return _elements(tensor)
    # The same bytes without the scheme. Padding that it asks for shows in the strides alone.
    has_strides = hasattr(tensor, "strides") and tensor.ndim > 0
    layout = StridedLayout(tensor.strides) if has_strides else tensor.layout
    plain = Tensor(
        tensor.buffer(0),
        tensor.dtype,
        tensor.shape,
        layout=layout,
        byte_offset=tensor.byte_offset,
    )
    return _elements(plain)


def _elements(tensor: Tensor) -> Array:
    """The elements of a dense tensor; packed integers and bools one to a byte."""
    import numpy as np

    dtype = tensor.dtype
    packed = dtype.is_sub_byte and not dtype.is_float
    if packed and hasattr(tensor, "strides"):
        values = np.asarray(tensor._unpacked())
        return values.view(np.int8) if dtype.is_signed else values
    array = tensor.to_numpy()
    # What ml_dtypes has NumPy compares and counts, but does not sum.
    return array.astype(np.float32) if dtype.is_sub_byte or dtype.name in _NARROW else array


# ---- quantization (spec 3) ----


def _dequantized(tensor: Tensor, stored: Array) -> Array:
    """scale * (stored - zero point) and its like, in float32."""
    import numpy as np

    scheme = tensor.quantization
    if isinstance(scheme, PerTensorAffine):
        difference = stored.astype(np.int64) - scheme.zero_point
        return np.float32(scheme.scale) * difference.astype(np.float32)
    assert scheme is not None
    which = _parameter_index(tensor, scheme)
    count = _parameter_count(tensor, scheme)
    if isinstance(scheme, MXFP):
        exponents = _bytes(tensor, scheme.scale_buffer_index)[:count]
        scales = np.ldexp(np.float32(1), exponents.astype(np.int32) - 127)
        return scales[which] * stored.astype(np.float32)
    if isinstance(scheme, NF4):
        scales = _bytes(tensor, scheme.scale_buffer_index)[: 4 * count].view("<f4")
        # uint4 in tiles or along a curve comes as float32
        return scales[which] * np.array(_NF4_LEVELS, np.float32)[stored.astype(np.intp)]
    scales, zero_points = _affine_parameters(tensor, scheme, count)
    difference = stored.astype(np.int64) - (0 if zero_points is None else zero_points[which])
    return scales[which] * difference.astype(np.float32)


def _bytes(tensor: Tensor, buffer: int) -> npt.NDArray[np.uint8]:
    return tensor.buffer(buffer).to_numpy()


def _affine_parameters(
    tensor: Tensor, scheme: PerChannelAffine | PerBlockAffine, count: int
) -> tuple[Array, Array | None]:
    """Scales as float32 [count], and zero points if there are any."""
    import numpy as np

    name = scheme.scale_type.name if isinstance(scheme, PerBlockAffine) else "float32"
    width = 4 if name == "float32" else 2
    data = _bytes(tensor, scheme.scale_buffer_index)[: width * count]
    if name == "bfloat16":  # the upper half of a float32
        scales = (data.view("<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        scales = data.view("<f4" if name == "float32" else "<f2").astype(np.float32)
    index = scheme.zero_point_buffer_index
    if index is None:
        return scales, None
    start = width * count if index == scheme.scale_buffer_index else 0
    points = _bytes(tensor, index)[start : start + 4 * count]
    return scales, np.frombuffer(points.tobytes(), "<i4").astype(np.int64)


def _parameter_count(tensor: Tensor, scheme: PerChannelAffine | PerBlockAffine | NF4 | MXFP) -> int:
    shape: tuple[Any, ...] = tensor.shape
    extent: int = shape[scheme.axis]
    if isinstance(scheme, PerChannelAffine):
        return extent
    if 0 in shape:
        return 0
    return int(math.prod(shape) // extent * -(-extent // scheme.block_size))


def _parameter_index(
    tensor: Tensor, scheme: PerChannelAffine | PerBlockAffine | NF4 | MXFP
) -> Array:
    """Which scale each stored element has, in a shape that broadcasts with theirs."""
    import numpy as np

    shape: tuple[Any, ...] = tensor.shape
    coordinates = _coordinates(tensor)
    if isinstance(scheme, PerChannelAffine):
        return coordinates[scheme.axis]
    outer: Array = np.zeros((), np.int64)
    for k, index in enumerate(coordinates):
        if k != scheme.axis:
            outer = outer * shape[k] + index
    blocks = -(-shape[scheme.axis] // scheme.block_size)
    index = outer * blocks + coordinates[scheme.axis] // scheme.block_size
    return np.asarray(index)


def _coordinates(tensor: Tensor) -> list[Array]:
    """The index of each stored element along each dimension: an open grid of a dense tensor."""
    import numpy as np

    shape: tuple[Any, ...] = tensor.shape
    layout = tensor.layout
    if isinstance(layout, CooLayout):
        indices = tensor.indices.to_numpy().astype(np.int64)
        return [indices[:, k] for k in range(tensor.ndim)]
    if isinstance(layout, CsrLayout):
        rows = _expand(tensor.row_ptr, shape[0])
        return [rows, tensor.col_indices.to_numpy().astype(np.int64)]
    if isinstance(layout, CscLayout):
        columns = _expand(tensor.col_ptr, shape[1])
        return [tensor.row_indices.to_numpy().astype(np.int64), columns]
    if isinstance(layout, CsfLayout):
        return _fibers(tensor, layout.mode_order)
    grid = np.ogrid[tuple(slice(extent) for extent in shape)]
    return [np.asarray(axis, np.int64) for axis in grid]


def _expand(pointers: Tensor, extent: int) -> Array:
    """The number of the slice that each entry is in."""
    import numpy as np

    entries = pointers.to_numpy().astype(np.int64)
    return np.repeat(np.arange(extent), entries[1:] - entries[:-1])


def _fibers(tensor: Tensor, mode_order: tuple[int, ...]) -> list[Array]:
    """CSF, level by level: the coordinates above are repeated for each child."""
    import numpy as np

    above: list[Array] = []
    parents = 1
    for level in range(tensor.ndim):
        positions = _bytes(tensor, 2 * level + 1)[: 8 * (parents + 1)].view("<u8").astype(np.int64)
        children = int(positions[-1])
        entries = _bytes(tensor, 2 * level + 2)[: 8 * children].view("<u8").astype(np.int64)
        above = [np.repeat(index, np.diff(positions)) for index in above]
        above.append(entries)
        parents = children
    by_dimension = dict(zip(mode_order, above, strict=True))
    return [by_dimension[k] for k in range(tensor.ndim)]


# ---- measures ----


def _count_nonzero(values: Array) -> int:
    import numpy as np

    return int(np.count_nonzero(values))


def _measured(values: Array, total: int) -> dict[str, Any]:
    """Specials, range and moments of the values and of as many zeros as `total` leaves."""
    import numpy as np

    zeros = total - values.size
    is_float = values.dtype.kind in "fc"
    has_nan = is_float and bool(np.isnan(values).any())
    has_inf = is_float and bool(np.isinf(values).any())
    claims: dict[str, Any] = {"has_nan": has_nan, "has_inf": has_inf}
    if total == 0 or has_nan or values.dtype.kind == "c":
        return claims
    least, most = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if zeros > 0:
        least, most = min(least, 0.0), max(most, 0.0)
    claims |= {"value_min": least, "value_max": most, "value_abs_max": max(abs(least), abs(most))}
    if not has_inf:
        claims |= _moments(values, total)
    return claims


def _moments(values: Array, total: int) -> dict[str, float]:
    """Of the population, in float64; nothing where they overflow."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(np.sum(values, dtype=np.float64)) / total
        squares = float(np.sum(np.square(values.astype(np.float64) - mean)))
        squares += (total - values.size) * mean * mean
    if not (math.isfinite(mean) and math.isfinite(squares)):
        return {}
    return {"value_mean": mean, "value_stddev": math.sqrt(squares / total)}


def _pattern(values: Array) -> dict[str, int]:
    """n:4 along the last dimension, where whole groups of it have zeros."""
    import numpy as np

    if values.ndim == 0 or values.size == 0 or values.shape[-1] % _GROUP != 0:
        return {}
    groups = values.reshape(-1, _GROUP)
    most = int(np.count_nonzero(groups, axis=1).max())
    return {"nm_n": most, "nm_m": _GROUP} if most < _GROUP else {}
