"""What an argument names: a file of tensors, a stream of them, a descriptor, or neither."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal, NamedTuple

import hurray

from .formats import format_of_file

_FILE_MAGIC = b"HRRYFILE"  # spec 4.1
_DESCRIPTOR_MAGIC = b"HRRY"  # spec 1; a stream begins with a descriptor

STANDARD = "-"


def kind_of(path: str) -> Literal["file", "stream", "empty", "other"]:
    """By the first bytes. Standard input and pipes can only be streams, a URL only a file."""
    if path == STANDARD:
        return "stream"
    if "://" in path:
        return "file"
    mode = os.stat(path).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        return "stream"
    with open(path, "rb") as file:
        magic = file.read(len(_FILE_MAGIC))
    if magic == _FILE_MAGIC:
        return "file"
    if magic.startswith(_DESCRIPTOR_MAGIC):
        return "stream"
    return "other" if magic else "empty"


def open_file(path: str, **options: Any) -> hurray.File:
    """A file of named tensors, or an error that says what it is instead."""
    if path == STANDARD:
        raise hurray.FileError(
            "standard input has no index; `hurray stream - FILE` makes a file of it"
        )
    kind = kind_of(path)
    if kind == "stream":
        raise hurray.FileError(
            f"{path}: no file but a stream; `hurray stream {path} FILE` makes one"
        )
    if kind == "other" and (format := format_of_file(path)) not in (None, "hurray"):
        raise hurray.FileError(
            f"{path}: {format}, not Hurray; `hurray convert {path} FILE` makes a Hurray file of it"
        )
    return hurray.open(path, **options)


def standard_input() -> BinaryIO:
    """Its bytes."""
    if sys.stdin is None:  # type: ignore[redundant-expr, unused-ignore]
        raise OSError("standard input is closed")
    return sys.stdin.buffer


def open_stream(path: str, **options: Any) -> hurray.StreamReader:
    """The tensors of a stream."""
    return hurray.StreamReader(standard_input() if path == STANDARD else path, **options)


@contextlib.contextmanager
def naming(what: str) -> Iterator[None]:
    """Puts `what` before the message of an error of ours that does not say it."""
    try:
        yield
    except (hurray.InvalidDescriptorError, hurray.UnsupportedError, hurray.StreamError) as error:
        if what in str(error):
            raise
        raise type(error)(f"{what}: {error}") from error


class Entry(NamedTuple):
    """A tensor, or the head of a composite, which is followed by its members one level deeper."""

    name: str
    depth: int
    descriptor: hurray.Descriptor
    nbytes: int  # of all its buffers, for a head of all its members'
    offset: int | None  # of its data in the file

    @property
    def is_head(self) -> bool:
        return isinstance(self.descriptor.layout, hurray.CompositeLayout)


def _own_bytes(descriptor: hurray.Descriptor) -> int:
    return sum(handle.byte_size for handle in descriptor.buffer_handles)


def entries_of_file(file: hurray.File) -> list[Entry]:
    """All entries in the order of the file, members after their heads."""
    entries: list[Entry] = []
    heads: list[tuple[int, int]] = []  # that are open: their place in `entries`, members to come
    for name in file.all_names():
        with naming(repr(name)):
            descriptor = file.descriptor(name)
        size, offset = _own_bytes(descriptor), file._reader.entry(name)[2]
        entries.append(Entry(name, len(heads), descriptor, size, offset))
        layout = descriptor.layout
        if isinstance(layout, hurray.CompositeLayout):
            entries[-1] = entries[-1]._replace(offset=None)
            heads.append((len(entries) - 1, layout.member_count))
        else:
            _close_heads(entries, heads, size)
    if heads:
        name = entries[heads[0][0]].name
        raise hurray.FileError(f"the composite {name!r} is torn: members are missing")
    return entries


def _close_heads(entries: list[Entry], heads: list[tuple[int, int]], size: int) -> None:
    """A member of `size` bytes is complete, and perhaps the composites that it is the last of."""
    while heads:
        place, missing = heads.pop()
        size += entries[place].nbytes
        entries[place] = entries[place]._replace(nbytes=size)
        if missing > 1:
            heads.append((place, missing - 1))
            return


def entries_of_item(
    name: str, item: hurray.Tensor | hurray.Composite, depth: int = 0
) -> list[Entry]:
    """The same for one item of a stream."""
    descriptor = item.descriptor
    if not isinstance(item, hurray.Composite):
        return [Entry(name, depth, descriptor, _own_bytes(descriptor), None)]
    entries: list[Entry] = []
    total = 0
    for number, member in enumerate(item.members):
        below = entries_of_item(f"{name}.{number}", member, depth + 1)
        total += below[0].nbytes
        entries += below
    return [Entry(name, depth, descriptor, total, None), *entries]
