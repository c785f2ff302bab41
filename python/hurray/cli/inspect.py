"""inspect: descriptors byte by byte, of files, streams and alone."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import BinaryIO

import hurray

from .. import _core
from . import FOUND, OK, UsageError
from .output import is_terminal, printable
from .source import STANDARD, kind_of, naming, open_file, standard_input

_PREFIX = 10  # bytes that tell a descriptor's length (spec 5)
_LIMIT = 16 << 20  # bytes of a descriptor, as StreamReader's default
_CHUNK = 1 << 20


def inspect(arguments: Namespace) -> int:
    """Tables of all descriptors; exit status 1 when one of them is not valid."""
    color = arguments.color == "always" or (
        arguments.color == "auto" and is_terminal(sys.stdout) and "NO_COLOR" not in os.environ
    )
    show = _Tables(color, arguments.permissive)
    path = arguments.file
    if path != STANDARD and kind_of(path) == "file":
        _inspect_file(path, arguments.name, show)
    elif arguments.name is not None:
        raise UsageError(f"{path} is no file, so that there is no tensor {arguments.name!r} in it")
    elif path == STANDARD:
        _inspect_stream(standard_input(), "standard input", show)
    else:
        with open(path, "rb") as file:
            _inspect_stream(file, path, show)
    return OK if show.all_valid else FOUND


class _Tables:
    """Prints tables and keeps whether all were valid."""

    def __init__(self, color: bool, permissive: bool) -> None:
        self.color = color
        self.permissive = permissive
        self.all_valid = True
        self._printed = False

    def show(self, heading: str, descriptor: bytes, offset: int) -> bool:
        text, valid = _core._print_descriptor(descriptor, offset, self.color, self.permissive)
        if self._printed:
            print()
        print(heading)
        print(text, end="")
        self._printed = True
        self.all_valid = self.all_valid and valid
        return valid


def _inspect_file(path: str, name: str | None, tables: _Tables) -> None:
    with open_file(path, mmap="r") as file:
        names = file.all_names() if name is None else [name]
        if name is not None and name not in file:
            file.descriptor(name)  # its error lists close names
        if "://" in path:
            for each in names:
                with naming(repr(each)):
                    encoded = file.descriptor(each).encode()
                tables.show(printable(each), encoded, file._reader.entry(each)[0])
            return
        with open(path, "rb") as bytes_of:
            for each in names:
                offset, length, *_ = file._reader.entry(each)
                bytes_of.seek(offset)
                tables.show(printable(each), bytes_of.read(length), offset)


def _read(source: BinaryIO, size: int) -> bytes:
    """`size` bytes, fewer at the end."""
    data = b""
    while len(data) < size:
        more = source.read(min(_CHUNK, size - len(data)))
        if not more:
            break
        data += more
    return data


def _skip(source: BinaryIO, size: int) -> int:
    """Bytes of `size` that are not there."""
    while size > 0:
        taken = len(source.read(min(_CHUNK, size)))
        if taken == 0:
            break
        size -= taken
    return size


def _inspect_stream(source: BinaryIO, path: str, tables: _Tables) -> None:
    """Descriptors and their data in turn; a descriptor alone, without data, is fine too."""
    position, number = 0, 0
    while prefix := _read(source, _PREFIX):
        heading = f"item {number}"
        try:
            length = _core._descriptor_length(prefix)
        except hurray.InvalidDescriptorError:
            tables.show(heading, prefix, position)
            return
        if length > _LIMIT:
            raise hurray.StreamError(
                f"{path}: the descriptor at byte {position} has {length} bytes; expected {_LIMIT} at most"
            )
        encoded = prefix + _read(source, length - len(prefix))
        if not tables.show(heading, encoded, position):
            return  # where the next one begins cannot be known
        descriptor = hurray.Descriptor.decode(encoded, permissive=tables.permissive)
        data = sum(handle.byte_size for handle in descriptor.buffer_handles)
        missing = _skip(source, data)
        if missing == data and number == 0 and data > 0:
            return
        position += len(encoded) + data - missing
        if missing:
            raise hurray.StreamError(
                f"{path}: the stream ends at byte {position}, in the data of item {number}: {missing} "
                f"of {data} bytes are missing"
            )
        number += 1
    if number == 0:
        raise hurray.StreamError(f"{path}: there are no bytes")
