"""What convert reads: a source of named tensors, whatever its format, one tensor at a time.

A module for each format beside this one. The libraries that people use for it do the parsing; they are
optional extras, imported by the module's functions.
"""

from __future__ import annotations

import importlib
import json
import os
from typing import TYPE_CHECKING, Any

import hurray

from .output import bytes_of_json, json_of_bytes

if TYPE_CHECKING:
    from .._files import Value

# Names that share their bytes, as far as another format said so: a list of str, name and the name
# of the tensor that it is one with, alternately. Both are in the file, each with bytes of its own,
# since the format has an own region for each (spec 4.2) and every reader shall find both.
TIED_KEY = "hurray.tied"
# Where formats whose metadata is only text, or that have none, keep the rest, as JSON.
TYPED_KEY = "hurray.kv"
# Follows from the data, and is wrong beside other bytes.
CHECKSUMS_KEY = "hurray.crc32c"


class Source:
    """Named tensors of a file in another format. `tied`: names and the ones whose bytes they share."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.metadata: dict[str, Value] = {}
        self.tied: dict[str, str] = {}
        self.notes: list[str] = []  # what is not carried, or not as it was
        self.nbytes = 0  # of all tensors, about

    def obstacle(self, name: str) -> str | None:
        """Why a tensor cannot be carried, as far as that shows without reading it."""
        return None

    def read(self, name: str) -> hurray.Tensor:
        """UnsupportedError for one that cannot be carried."""
        raise NotImplementedError

    def close(self) -> None:
        """Lets go of the file."""


def need(module: str, what: str, extra: str | None = None) -> Any:
    """An optional library, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{what} needs {module.partition('.')[0]}: {error}; install hurray[{extra or module}]"
        ) from error


def ties_in(metadata: dict[str, Any]) -> dict[str, str]:
    """What TIED_KEY says; {} where it says nothing, or no pairs."""
    flat = metadata.get(TIED_KEY, [])
    if not isinstance(flat, list) or len(flat) % 2 or not all(isinstance(n, str) for n in flat):
        return {}
    return dict(zip(flat[::2], flat[1::2], strict=True))


def with_ties(metadata: dict[str, Value], tied: dict[str, str]) -> dict[str, Value]:
    """Metadata with TIED_KEY where there are ties."""
    if not tied:
        return metadata
    return {**metadata, TIED_KEY: [name for pair in tied.items() for name in pair]}


def json_of_metadata(metadata: dict[str, Any]) -> str:
    """As text that metadata_of_json reads back with the same types."""
    return json.dumps(metadata, ensure_ascii=False, default=json_of_bytes)


def metadata_of_json(text: str | bytes) -> dict[str, Any] | None:
    """None for what json_of_metadata has not written."""
    try:
        made = json.loads(text, object_hook=bytes_of_json)
    except (ValueError, RecursionError):
        return None
    return made if isinstance(made, dict) else None


# ---- which format a file has ----

_SUFFIXES = {
    ".hrry": "hurray",
    ".hurray": "hurray",
    ".safetensors": "safetensors",
    ".npz": "npz",
    ".npy": "npy",
    ".pt": "torch",
    ".pth": "torch",
    ".bin": "torch",
    ".ckpt": "torch",
    ".gguf": "gguf",
}


def format_of_path(path: str) -> str | None:
    """By the suffix."""
    if path.lower().endswith(".safetensors.index.json"):
        return "safetensors"
    return _SUFFIXES.get(os.path.splitext(path)[1].lower())


def format_of_file(path: str) -> str | None:
    """By the first bytes; where these leave it open, and of a URL, by the suffix."""
    if "://" in path:
        return format_of_path(path)
    with open(path, "rb") as file:
        start = file.read(16)
    if start.startswith(b"HRRYFILE"):
        return "hurray"
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    if start.startswith(b"GGUF"):
        return "gguf"
    by_suffix = format_of_path(path)
    if start.startswith(b"PK"):  # a zip archive, of NumPy or of PyTorch
        return by_suffix if by_suffix in ("npz", "torch") else _format_of_archive(path)
    if start[8:9] == b"{" and by_suffix is None:
        return "safetensors"
    return by_suffix


def _format_of_archive(path: str) -> str | None:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        return None
    if any(name.endswith("/data.pkl") for name in names):
        return "torch"
    return "npz" if any(name.endswith(".npy") for name in names) else None


def open_source(path: str, format: str, dequantize: bool) -> Source:
    """The source of a format of others."""
    if format == "safetensors" and path.lower().endswith(".json"):
        from .safetensors_shards import ShardedSource

        return ShardedSource(path)
    if format == "safetensors":
        from .safetensors_format import SafetensorsSource

        return SafetensorsSource(path)
    if format == "torch":
        from .torch_format import TorchSource

        return TorchSource(path)
    if format == "gguf":
        from .gguf_format import GGUFSource

        return GGUFSource(path, dequantize)
    from .numpy_format import NpySource, NpzSource

    return NpySource(path) if format == "npy" else NpzSource(path)
