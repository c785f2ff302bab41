"""PyTorch files (torch.save) to Hurray: state dicts, also nested ones as in checkpoints.

They are loaded with weights_only=True, so that nothing in them is executed, and mapped where they are
archives. Names of nested dicts are joined by a dot. Numbers and strings become metadata.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from typing import Any

import hurray

from .formats import Source, need

# Versions of modules, which state_dict() adds to its dict.
_VERSIONS_KEY = "torch.state_dict_metadata"


class TorchSource(Source):
    """Tensors of a state dict on the CPU. Those that share their memory wholly are tied."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._torch = need("torch", "reading a PyTorch file")
        state = self._load(path)
        self._tensors: dict[str, Any] = {}
        if isinstance(state, self._torch.Tensor):
            state = {"tensor": state}
        if not isinstance(state, Mapping):
            raise hurray.FileError(f"{path}: holds a {type(state).__name__}; expected a state dict")
        try:
            self._flatten(state, "")
        except RecursionError as error:
            raise hurray.FileError(f"{path}: dicts nest too deep, or hold themselves") from error
        versions = getattr(state, "_metadata", None)
        if versions:
            self.metadata[_VERSIONS_KEY] = json.dumps(versions)
        self.names = list(self._tensors)
        self.nbytes = sum(
            tensor.nbytes for tensor in self._tensors.values() if not tensor.is_sparse
        )
        self._find_ties()

    def _load(self, path: str) -> Any:
        options = {"map_location": "cpu", "weights_only": True}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about how the file was written
                try:
                    return self._torch.load(path, mmap=True, **options)
                except RuntimeError:  # not an archive, but what torch wrote before version 1.6
                    return self._torch.load(path, **options)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # of what is no pickle, any
            raise hurray.FileError(
                f"{path}: torch.load(weights_only=True): {_why(error)}"
            ) from error

    def _flatten(self, state: Mapping[Any, Any], prefix: str) -> None:
        for key, value in state.items():
            name = f"{prefix}{key}"
            if isinstance(value, self._torch.Tensor):
                if name in self._tensors or not name:
                    self.notes.append(f"tensor {name!r}: the name is not unique or empty")
                else:
                    self._tensors[name] = value
            elif isinstance(value, Mapping):
                self._flatten(value, f"{name}.")
            elif _is_metadata(value) and name:
                self.metadata[name] = value
            else:
                self.notes.append(
                    f"{name!r}: a {type(value).__name__} is no tensor and no metadata"
                )

    def _find_ties(self) -> None:
        first: dict[Any, str] = {}
        storages: dict[int, list[str]] = {}
        for name, tensor in self._tensors.items():
            if (
                tensor.layout is not self._torch.strided
                or tensor.is_quantized
                or tensor.numel() == 0
            ):
                continue
            storage = tensor.untyped_storage().data_ptr()
            what = (storage, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)
            if what in first:
                self.tied[name] = first[what]
            else:
                first[what] = name
                storages.setdefault(storage, []).append(name)
        views = [names for names in storages.values() if len(names) > 1]
        if views:
            self.notes.append(
                f"that {', '.join(views[0][:3])}{' and others' * (len(views[0]) > 3)} are views of one "
                "storage; each has its own bytes now"
            )

    def read(self, name: str) -> hurray.Tensor:
        tensor = self._tensors[name].detach().resolve_conj().resolve_neg()
        if tensor.layout is self._torch.strided and not tensor.is_quantized:
            tensor = tensor.contiguous()
        return hurray.from_torch(tensor)

    def close(self) -> None:
        self._tensors.clear()


def _why(error: Exception) -> str:
    """What PyTorch says why it does not load a file, in one line and without advice to do so all the
    same."""
    text = str(error)
    found = re.search(r"GLOBAL (\S+)", text)
    if found is not None:
        return f"the file holds a {found[1]}, not only tensors; save its state_dict()"
    first = text.partition(". ")[0].partition("\n")[0]
    return first if isinstance(error, RuntimeError) else f"{type(error).__name__}: {first}"


def _is_metadata(value: Any) -> bool:
    """str, int, float, bool, bytes, or a list of one of them (spec 8.12)."""
    if isinstance(value, list):
        return len({type(item) for item in value}) <= 1 and all(
            _is_metadata(item) and not isinstance(item, list) for item in value
        )
    if isinstance(value, int) and not isinstance(value, bool):
        return -(2**63) <= value < 2**64
    return isinstance(value, (str, float, bool, bytes))
