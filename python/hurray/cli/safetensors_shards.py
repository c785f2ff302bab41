"""Checkpoints of several safetensors files, which an index, *.safetensors.index.json, puts together.

The index maps each tensor to the file beside it that holds it: {"metadata": {…}, "weight_map": {name:
file}}. What is not beside it is refused: an index is a stranger's as much as the files are.
"""

from __future__ import annotations

import json
import os
from typing import Any

import hurray

from .formats import Source
from .output import short
from .safetensors_format import SafetensorsSource

# Metadata of the index that follows from the tensors.
_DERIVED = ("total_size", "total_parameters")


class ShardedSource(Source):
    """All tensors that an index lists, file by file; each file is mapped, none is read as a whole."""

    def __init__(self, path: str) -> None:
        super().__init__()
        weights, metadata = _read_index(path)
        files = list(dict.fromkeys(weights.values()))
        folder = os.path.dirname(path)
        for file in files:
            if not _is_beside(file):
                raise hurray.FileError(f"{path}: {short(file)} is no file beside the index")
        self._shards: dict[str, SafetensorsSource] = {}
        self._weights = weights
        try:
            for file in files:
                self._add(file, SafetensorsSource(os.path.join(folder, file)))
            self._check_names(path)
        except BaseException:
            self.close()
            raise
        for key, value in metadata.items():
            if key not in _DERIVED:
                self.metadata.setdefault(key, value)

    def _add(self, file: str, shard: SafetensorsSource) -> None:
        self._shards[file] = shard
        names = [name for name in shard.names if self._weights.get(name) == file]
        self.names += names
        self.tied.update({name: shard.tied[name] for name in names if name in shard.tied})
        self.nbytes += shard.nbytes
        self.notes += [f"{file}: {text}" for text in shard.notes]
        for name in shard.names:
            if name not in self._weights:
                self.notes.append(f"tensor {short(name)} of {file}, which is not in the index")
        for key, value in shard.metadata.items():
            if self.metadata.setdefault(key, value) != value:
                self.notes.append(f"metadata {short(key)} of {file}: another file says otherwise")

    def _check_names(self, path: str) -> None:
        there = set(self.names)
        for name, file in self._weights.items():
            if name not in there:
                raise hurray.FileError(f"{path}: {short(file)} has no tensor {short(name)}")

    def obstacle(self, name: str) -> str | None:
        return self._shards[self._weights[name]].obstacle(name)

    def read(self, name: str) -> hurray.Tensor:
        return self._shards[self._weights[name]].read(name)

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()


def _read_index(path: str) -> tuple[dict[str, str], dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        try:
            index = json.load(file)
        except (ValueError, RecursionError) as error:
            raise hurray.FileError(f"{path}: no JSON: {error}") from error
    weights = index.get("weight_map") if isinstance(index, dict) else None
    metadata = index.get("metadata", {}) if isinstance(index, dict) else {}
    if not isinstance(weights, dict) or not all(isinstance(w, str) for w in weights.values()):
        raise hurray.FileError(f'{path}: expected an object with "weight_map", names to files')
    return weights, metadata if isinstance(metadata, dict) else {}


def _is_beside(file: str) -> bool:
    """As far as its name goes: a link is where the owner of the folder has put it."""
    return file not in ("", ".", "..") and os.path.basename(file) == file and "\0" not in file
