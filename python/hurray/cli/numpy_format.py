""".npy and .npz to Hurray, and Hurray to .npz.

What NumPy has no word for, bfloat16 and the like, stands there as numpy.save writes it: as void of that
size. Which type it is, and the metadata, is in a member "hurray.json" of the archive.
"""

from __future__ import annotations

import contextlib
import os
import zipfile
from typing import Any

import hurray

from .formats import CHECKSUMS_KEY, Source, json_of_metadata, metadata_of_json, need

_MEMBER = "hurray.json"


def _as_tensor(np: Any, array: Any, name: str, element: str | None) -> hurray.Tensor:
    if element is not None:
        array = _as_element(np, array, name, element)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return hurray.from_numpy(np.asarray(array, order="C"))


def _as_element(np: Any, array: Any, name: str, element: str) -> Any:
    """Void as what it is a view of."""
    to = hurray.Dtype.from_name(element)
    made = hurray.Tensor(b"", to, (0,)).to_numpy().dtype
    if array.dtype.kind != "V" or made.itemsize != array.dtype.itemsize:
        raise hurray.UnsupportedError(f"{name!r} has elements of {array.dtype}, no {element}")
    return array.view(made)


@contextlib.contextmanager
def _numpy_errors(name: str) -> Any:
    """ValueError is what NumPy raises for arrays of objects, and for broken headers."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, hurray.InvalidDescriptorError):
            raise
        raise hurray.UnsupportedError(f"{name!r}: {error}") from error


class NpySource(Source):
    """One array, under the name of its file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._np = need("numpy", "reading .npy")
        self._path = path
        self.names = [os.path.splitext(os.path.basename(path))[0]]
        self.nbytes = os.path.getsize(path)

    def read(self, name: str) -> hurray.Tensor:
        with _numpy_errors(name):
            size = os.path.getsize(self._path)
            # A mapping of an empty array is refused by the system.
            mode = "r" if size > 4096 else None
            array = self._np.load(self._path, mmap_mode=mode, allow_pickle=False)
        return _as_tensor(self._np, array, name, None)


class NpzSource(Source):
    """An archive of arrays."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._np = need("numpy", "reading .npz")
        try:
            self._archive = self._np.load(path, allow_pickle=False)
        except (ValueError, zipfile.BadZipFile) as error:
            raise hurray.FileError(f"{path}: {error}") from error
        if not hasattr(self._archive, "files"):
            raise hurray.FileError(f"{path}: no archive of arrays, but a single one")
        self.nbytes = os.path.getsize(path)
        self.names = list(self._archive.files)
        self._elements: dict[str, str] = {}
        if _MEMBER in self.names and isinstance(raw := self._archive[_MEMBER], bytes):
            self.names.remove(_MEMBER)
            kept = metadata_of_json(raw) or {"kv": None}
            self.metadata, self._elements = kept.get("kv", {}), kept.get("dtypes", {})
            if not (
                isinstance(self.metadata, dict)
                and isinstance(self._elements, dict)
                and all(isinstance(element, str) for element in self._elements.values())
            ):
                raise hurray.FileError(f"{path}: {_MEMBER} is not what convert writes")

    def read(self, name: str) -> hurray.Tensor:
        with _numpy_errors(name):
            array = self._archive[name]
        if isinstance(array, bytes):
            raise hurray.UnsupportedError(f"{name!r} is no array")
        return _as_tensor(self._np, array, name, self._elements.get(name))

    def close(self) -> None:
        self._archive.close()


# ---- from Hurray ----


def obstacle(descriptor: hurray.Descriptor) -> str | None:
    """Why a tensor with this descriptor cannot be in an .npz file."""
    from .convert import plain_obstacle

    return plain_obstacle(descriptor)


def write(
    file: hurray.File, names: list[str], metadata: dict[str, Any], path: str, tell: Any
) -> None:
    """Writes an archive as numpy.savez does, an array at a time."""
    np = need("numpy", "writing .npz")
    kv = {key: value for key, value in metadata.items() if key != CHECKSUMS_KEY}
    elements: dict[str, str] = {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name in names:
            tensor = file[name]
            assert isinstance(tensor, hurray.Tensor)
            if not hasattr(tensor, "strides"):
                tensor = tensor.to_layout(hurray.RowMajorLayout())
            array = np.asarray(tensor.to_numpy())
            if array.dtype.kind not in "biufc" or array.dtype.num >= 256:  # a type of ml_dtypes
                elements[name] = tensor.dtype.name
                array = (
                    np.ascontiguousarray(array)
                    .view(f"V{array.dtype.itemsize}")
                    .reshape(tensor.shape)
                )
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
            tell(array.nbytes)
        if kv or elements:
            archive.writestr(_MEMBER, json_of_metadata({"kv": kv, "dtypes": elements}))
