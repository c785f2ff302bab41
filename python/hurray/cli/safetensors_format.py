"""safetensors in both directions.

The library checks a file and makes one; the bytes of a tensor are taken from a mapping, because its NumPy
side has no bfloat16 and no float8.

Metadata is text there. Values that are none go into one entry, "hurray.kv", as JSON, and come back from
it. Tied tensors are what the library makes of them: the metadata says {name: name of the one that is
there}. A key that is a tensor itself, or "format", which names the library that wrote the file, says
nothing of that kind.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import tempfile
from typing import Any

import hurray
from hurray import dtype

from .formats import (
    CHECKSUMS_KEY,
    TIED_KEY,
    TYPED_KEY,
    Source,
    json_of_metadata,
    metadata_of_json,
    need,
    ties_in,
)

# As a file calls them, and as the library does. F4 and F6 are missing: the format does not say in
# which order elements lie in a byte.
_DTYPES = {
    "BOOL": (dtype.bool, "bool"),
    "U8": (dtype.uint8, "uint8"),
    "I8": (dtype.int8, "int8"),
    "U16": (dtype.uint16, "uint16"),
    "I16": (dtype.int16, "int16"),
    "U32": (dtype.uint32, "uint32"),
    "I32": (dtype.int32, "int32"),
    "U64": (dtype.uint64, "uint64"),
    "I64": (dtype.int64, "int64"),
    "F16": (dtype.float16, "float16"),
    "BF16": (dtype.bfloat16, "bfloat16"),
    "F32": (dtype.float32, "float32"),
    "F64": (dtype.float64, "float64"),
    "F8_E4M3": (dtype.float8_e4m3, "float8_e4m3fn"),
    "F8_E5M2": (dtype.float8_e5m2, "float8_e5m2"),
    "F8_E8M0": (dtype.float8_e8m0, "float8_e8m0fnu"),
    "C64": (dtype.complex64, "complex64"),
}
_WORDS = dict(_DTYPES.values())
_FORMAT_KEY = "format"


class SafetensorsSource(Source):
    """A safetensors file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        library = need("safetensors", "reading safetensors")
        need("numpy", "reading safetensors")
        try:
            with library.safe_open(path, framework="np") as checked:
                stored = list(checked.offset_keys())
                metadata = dict(checked.metadata() or {})
        except library.SafetensorError as error:
            raise hurray.FileError(f"{path}: {error}") from error
        with open(path, "rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # The header that the library has checked: eight bytes of length, JSON, data.
        length = int.from_bytes(self._bytes[:8], "little")
        self._header: dict[str, Any] = json.loads(self._bytes[8 : 8 + length])
        self._data = 8 + length
        self.nbytes = len(self._bytes) - self._data
        self._take_metadata(stored, metadata)

    def _take_metadata(self, stored: list[str], metadata: dict[str, str]) -> None:
        there = set(stored)
        no_names = there | {"", _FORMAT_KEY}
        typed = metadata_of_json(metadata.get(TYPED_KEY, ""))
        if typed is not None:
            del metadata[TYPED_KEY]
        self.tied = {k: v for k, v in metadata.items() if v in there and k not in no_names}
        self.names = [*stored, *self.tied]
        text = {key: value for key, value in metadata.items() if key not in self.tied and key}
        self.metadata = {**text, **(typed or {})}
        if "" in metadata:
            self.notes.append("metadata under an empty key, which Hurray has not")

    def _entry(self, name: str) -> dict[str, Any]:
        entry: dict[str, Any] = self._header[self.tied.get(name, name)]
        return entry

    def obstacle(self, name: str) -> str | None:
        word = self._entry(name)["dtype"]
        return None if word in _DTYPES else f"{word} has no counterpart whose bits lie alike"

    def read(self, name: str) -> hurray.Tensor:
        import numpy as np

        entry = self._entry(name)
        first, last = (self._data + offset for offset in entry["data_offsets"])
        element, shape = _DTYPES[entry["dtype"]][0], entry["shape"]
        if element is dtype.bool:
            count = math.prod(shape)
            flags = (
                np.frombuffer(self._bytes, np.bool_, count, first) if count else np.empty(0, "?")
            )
            return hurray.from_numpy(flags.reshape(shape))
        # Shared where it lies at a multiple of 64, else copied.
        return hurray.Tensor(memoryview(self._bytes)[first:last], element, shape)

    def close(self) -> None:
        with contextlib.suppress(BufferError):  # a tensor shares it, which then lets go of it
            self._bytes.close()


# ---- from Hurray ----


def obstacle(descriptor: hurray.Descriptor) -> str | None:
    """Why a tensor with this descriptor cannot be in a safetensors file."""
    from .convert import plain_obstacle

    reason = plain_obstacle(descriptor)
    if reason is None and descriptor.dtype not in _WORDS:
        reason = f"safetensors has no {descriptor.dtype.name}"
    return reason


def write(file: hurray.File, names: list[str], metadata: dict[str, Any], path: str) -> None:
    """Writes tensors out of a mapping; what has to be rearranged first goes through a scratch file."""
    library = need("safetensors", "writing safetensors")
    np = need("numpy", "writing safetensors")
    from .convert import same_bytes

    text = {key: value for key, value in metadata.items() if isinstance(value, str)}
    ties = ties_in(metadata)
    kept_ties = {
        name: first
        for name, first in ties.items()
        if name in names and first in names and name not in text and name != _FORMAT_KEY
        if same_bytes(file, name, first)
    }
    rest = {
        key: value
        for key, value in metadata.items()
        if key not in text and key not in (CHECKSUMS_KEY, TIED_KEY)
    }
    if rest:
        text[TYPED_KEY] = json_of_metadata(rest)
    keep_alive, specs = [], {}
    for name in names:
        if name in kept_ties:
            continue
        tensor = file[name]
        assert isinstance(tensor, hurray.Tensor)
        array = _bytes_of(np, tensor)
        keep_alive.append(array)
        specs[name] = library.TensorSpec(
            dtype=_WORDS[tensor.dtype],
            shape=list(tensor.shape),
            data_ptr=array.ctypes.data,
            data_len=array.nbytes,
        )
    try:
        library.serialize_file(specs, path, metadata={**text, **kept_ties} or None)
    except library.SafetensorError as error:
        raise hurray.FileError(f"{path}: {error}") from error


def _bytes_of(np: Any, tensor: hurray.Tensor) -> Any:
    """The elements in row-major order as an array of bytes, bool as one byte each."""
    if tensor.dtype is dtype.bool:
        return _spilled(np, np.asarray(tensor.to_numpy(), order="C"))
    moved = tensor.layout.name != "row_major"
    if moved:
        tensor = tensor.to_layout(hurray.RowMajorLayout())
    size = math.prod(extent or 0 for extent in tensor.shape) * tensor.dtype.bit_width // 8
    data = (
        np.frombuffer(memoryview(tensor.buffer(0)).cast("B"), np.uint8)
        if size
        else np.empty(0, "u1")
    )
    data = data[tensor.byte_offset : tensor.byte_offset + size]
    return _spilled(np, data) if moved else data


def _spilled(np: Any, array: Any) -> Any:
    """The same bytes in a file without a name, so that they need no memory until they are written."""
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    with tempfile.TemporaryFile() as scratch:
        scratch.write(array.reshape(-1).view(np.uint8).data)
        scratch.flush()
        mapped = mmap.mmap(scratch.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, np.uint8)
