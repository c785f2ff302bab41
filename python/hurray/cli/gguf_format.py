"""GGUF to Hurray.

Blocks of 32 elements with one scale are what per-block affine quantization says (spec 3), along the last
axis:

    Q8_0    d·q, q in int8                 int8, symmetric
    Q4_0    d·(q − 8), q in 0 … 15         int4, symmetric, q − 8 stored
    Q5_0    d·(q − 16), q in 0 … 31        int8, symmetric, q − 16 stored, in 8 bits instead of 5
    MXFP4   2^(e − 127)·value              float4_e2m1, MXFP

Values stay exactly what they were. Q4_1 and Q5_1 add a minimum that is no multiple of the scale, which an
integer zero point cannot express, and the K-quants have scales of scales: those are refused, or become
float32 when dequantizing was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hurray
from hurray import MXFP, PerBlockAffine, dtype

from .formats import Source, need

_BLOCK = 32
_PLAIN = frozenset(["F16", "F32", "F64", "I8", "I16", "I32", "I64"])


class GGUFSource(Source):
    """A GGUF file; its fields are the metadata, float32 and small integers as float and int."""

    def __init__(self, path: str, dequantize: bool) -> None:
        super().__init__()
        self._gguf = need("gguf", "reading GGUF")
        self._np = need("numpy", "reading GGUF")
        self._dequantize = dequantize
        try:
            reader = self._gguf.GGUFReader(path)
        except (ValueError, KeyError, IndexError, UnicodeDecodeError) as error:
            raise hurray.FileError(f"{path}: {error}") from error
        if reader.byte_order != "I":
            raise hurray.UnsupportedError(f"{path}: GGUF of the other byte order")
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.names = list(self._tensors)
        self.nbytes = sum(int(tensor.n_bytes) for tensor in reader.tensors)
        for key, field in reader.fields.items():
            if not key.startswith("GGUF."):  # what the reader adds of the header
                self._take_field(key, field)
        wide = [name for name in self.names if self._type_of(name) == "Q5_0"]
        if wide:
            self.notes.append(f"the 5 bits of Q5_0 elements, stored in 8 ({_some(wide)})")

    def _take_field(self, key: str, field: Any) -> None:
        array = self._gguf.GGUFValueType.ARRAY
        if field.types.count(array) > 1:
            self.notes.append(f"metadata {key!r}: an array of arrays")
            return
        try:
            self.metadata[key] = field.contents()
        except UnicodeDecodeError as error:
            self.notes.append(f"metadata {key!r}: {error}")

    def _type_of(self, name: str) -> str:
        return str(self._tensors[name].tensor_type.name)

    def obstacle(self, name: str) -> str | None:
        kind = self._type_of(name)
        if kind in _PLAIN or kind == "BF16" or kind in _BLOCKS or self._dequantize:
            return None
        if kind in ("Q4_1", "Q5_1"):
            reason = "its minimum per block is no integer zero point"
        else:
            reason = "no quantization scheme of Hurray has such blocks"
        return f"{kind}: {reason}; --dequantize makes float32 of it"

    def read(self, name: str) -> hurray.Tensor:
        tensor, kind = self._tensors[name], self._type_of(name)
        shape = tuple(int(extent) for extent in reversed(tensor.shape))
        if kind in _PLAIN:
            return hurray.from_numpy(tensor.data)
        if kind == "BF16":
            return hurray.Tensor(tensor.data.reshape(-1).view("u1"), dtype.bfloat16, shape)
        if kind in _BLOCKS:
            blocks = tensor.data.reshape(-1, int(tensor.n_bytes) * _BLOCK // int(tensor.n_elements))
            return _BLOCKS[kind](self._np, blocks, shape)
        if not self._dequantize:
            raise hurray.UnsupportedError(str(self.obstacle(name)))
        try:
            values = self._gguf.dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            raise hurray.UnsupportedError(f"{kind}: {error}") from error
        return hurray.from_numpy(values.reshape(shape))

    def close(self) -> None:
        self._tensors.clear()


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


# ---- blocks: [count, bytes of a block], uint8 ----


def _affine(
    np: Any, scales: Any, codes: Any, element: hurray.Dtype, shape: tuple[int, ...]
) -> hurray.Tensor:
    """codes: [count, 32], int8. A block with scale 0 is all zero; an affine scale must not be (spec 3)."""
    scales = np.ascontiguousarray(scales).view(np.float16).reshape(-1)
    zero = scales == 0
    if zero.any():
        scales = np.where(zero, np.float16(1), scales)
        codes = np.where(zero[:, None], np.int8(0), codes)
    if element is dtype.int4:
        codes = _packed(np, codes.view(np.uint8))
    scheme = PerBlockAffine.symmetric(len(shape) - 1, _BLOCK, 1, dtype.float16)
    data = np.ascontiguousarray(codes).reshape(-1)
    return hurray.Tensor(data, element, shape, aux_buffers=[scales], quantization=scheme)


def _packed(np: Any, codes: Any) -> Any:
    """Two elements a byte, the earlier one in the low bits: [count, 16]."""
    return (codes[:, ::2] & 0x0F) | (codes[:, 1::2] << np.uint8(4))


def _nibbles(np: Any, halves: Any) -> Any:
    """GGUF has elements 0 … 15 of a block in the low bits, 16 … 31 in the high bits: [count, 32]."""
    return np.concatenate([halves & np.uint8(0x0F), halves >> np.uint8(4)], axis=1)


def _q8_0(np: Any, blocks: Any, shape: tuple[int, ...]) -> hurray.Tensor:
    codes = np.ascontiguousarray(blocks[:, 2:]).view(np.int8)
    return _affine(np, blocks[:, :2], codes, dtype.int8, shape)


def _q4_0(np: Any, blocks: Any, shape: tuple[int, ...]) -> hurray.Tensor:
    codes = _nibbles(np, blocks[:, 2:]).view(np.int8) - np.int8(8)
    return _affine(np, blocks[:, :2], codes, dtype.int4, shape)


def _q5_0(np: Any, blocks: Any, shape: tuple[int, ...]) -> hurray.Tensor:
    fifth = np.unpackbits(np.ascontiguousarray(blocks[:, 2:6]), axis=1, bitorder="little")
    codes = _nibbles(np, blocks[:, 6:]) | (fifth << np.uint8(4))
    return _affine(np, blocks[:, :2], codes.view(np.int8) - np.int8(16), dtype.int8, shape)


def _mxfp4(np: Any, blocks: Any, shape: tuple[int, ...]) -> hurray.Tensor:
    scales = np.ascontiguousarray(blocks[:, 0])
    codes = _nibbles(np, blocks[:, 1:])
    # A scale byte of 0 is not allowed (spec 3). Where all elements of its block are zero, as in what
    # quantizers write for one, any other does.
    low = scales == 0
    if (codes[low] & 0x07).any() or (scales == 0xFF).any():
        raise hurray.UnsupportedError(
            "MXFP4: a block has scale byte 0 or 255, which spec 3 excludes"
        )
    scales = np.where(low, np.uint8(127), scales)
    data = _packed(np, codes).reshape(-1)
    scheme = MXFP(len(shape) - 1, _BLOCK, 1)
    return hurray.Tensor(data, dtype.float4_e2m1, shape, aux_buffers=[scales], quantization=scheme)


_BLOCKS: dict[str, Callable[[Any, Any, tuple[int, ...]], hurray.Tensor]] = {
    "Q8_0": _q8_0,
    "Q4_0": _q4_0,
    "Q5_0": _q5_0,
    "MXFP4": _mxfp4,
}
