"""Dask: tensors between workers, copied as seldom as NumPy's arrays are.

Importing this module registers tensors and composites with `distributed`, whose messages then leave
their buffers out, with `dask.sizeof`, and with `dask.tokenize`, whose keys are then the same for equal
tensors wherever their memory lies. Client and workers both need it: `hurray.dask_worker` is what
workers preload.

Dask receives each large buffer into an array of its own, but for the first, which follows whatever
comes before it in the message. Tensors need buffers at multiples of 64 (spec 1.5); so an empty one
goes ahead of theirs. That the array itself begins there is up to the receiver, who needs an active
`hurray.aligned_allocator`. Without one the bytes are copied once more, and nothing else changes.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from typing import Any

import dask.sizeof
import dask.tokenize
from distributed.protocol.serialize import dask_deserialize, dask_serialize

from ._core import Composite, InvalidDescriptorError, Tensor, UnsupportedError

__all__: list[str] = []


# ---- messages ----


def _serialize(value: Tensor | Composite) -> tuple[dict[str, Any], list[memoryview | bytes]]:
    """A header, and as frames the pickle, nothing, and the buffers: the memory itself."""
    pickled, views = _out_of_band(value)
    header = {"read_only": [view.readonly for view in views]}
    return header, [pickled, memoryview(bytearray()), *views]


def _out_of_band(value: Tensor | Composite) -> tuple[bytes, list[memoryview]]:
    views: list[memoryview] = []
    pickled = pickle.dumps(value, 5, buffer_callback=lambda b: views.append(memoryview(b)))
    return pickled, views


def _deserialize(header: dict[str, Any], frames: Sequence[Any]) -> Any:
    """The value over the frames, where they may be written if it may."""
    pickled, _, *received = frames
    views = [
        _with_flag(memoryview(frame), read_only)
        for frame, read_only in zip(received, header["read_only"], strict=True)
    ]
    return pickle.loads(pickled, buffers=views)


def _with_flag(view: memoryview, read_only: bool) -> memoryview:
    if read_only:
        return view.toreadonly()
    return memoryview(bytearray(view)) if view.readonly else view


# ---- sizes, by which Dask decides what to move, and what to spill ----


def _size_of_tensor(tensor: Tensor) -> int:
    """The bytes of all buffers."""
    return sum(handle.byte_size for handle in tensor.buffer_handles)


def _size_of_composite(composite: Composite) -> int:
    return sum(_size_of(member) for member in composite.members)


# ---- tokens, of which Dask makes the keys of tasks ----


def _token_of_tensor(tensor: Tensor) -> Any:
    """All that a descriptor says but alignments, which only tell where the memory happens to lie."""
    try:
        _, views = _out_of_band(tensor)
    except UnsupportedError:  # bytes that cannot be read: Dask decides what that means
        return dask.tokenize.normalize_object(tensor)
    # Each pickled alone: two parts that are one object must not differ from two that are equal.
    described = [pickle.dumps(part, 5) for part in _parts(tensor)]
    return "hurray.Tensor", described, [hashlib.sha1(view).hexdigest() for view in views]


def _parts(tensor: Tensor) -> list[Any]:
    try:
        return [
            tensor.dtype,
            tensor.shape,
            tensor.layout,
            tensor.byte_offset,
            tensor.quantization,
            tensor.statistics,
            tensor.shard,
            tensor.extension_type,
            tensor.member_role,
            *(handle.device for handle in tensor.buffer_handles),
        ]
    except (InvalidDescriptorError, UnsupportedError):  # of a later version, and only carried
        return [tensor.descriptor]


def _token_of_composite(composite: Composite) -> Any:
    members = [_token_of(member) for member in composite.members]
    return "hurray.Composite", composite.descriptor.encode(), members


# ---- registration; Dask's own annotations stop short of it ----

_size_of: Any = dask.sizeof.sizeof
_token_of: Any = dask.tokenize.normalize_token
_serializers: Any = dask_serialize
_deserializers: Any = dask_deserialize

_size_of.register(Tensor, _size_of_tensor)
_size_of.register(Composite, _size_of_composite)
_token_of.register(Tensor, _token_of_tensor)
_token_of.register(Composite, _token_of_composite)
for _kind in (Tensor, Composite):
    _serializers.register(_kind, _serialize)
    _deserializers.register(_kind, _deserialize)
