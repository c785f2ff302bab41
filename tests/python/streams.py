"""What the tests of streams share: sample items, their bytes, and producers that take their time."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import threading
from collections.abc import Callable, Iterator

import numpy as np

import hurray

Item = hurray.Tensor | hurray.Composite


def tensor(*shape: int, start: int = 0, dtype: str = "float32") -> hurray.Tensor:
    """In memory of its own, whose alignment is always the same."""
    count = int(np.prod(shape))
    values = np.arange(start, start + count, dtype=dtype)
    return hurray.Tensor(values.tobytes(), hurray.Dtype.from_name(dtype), shape)


def group(*members: Item) -> hurray.Composite:
    return hurray.Composite("group", shape=(1,), dtype=hurray.float32, members=members)


def nested(levels: int, innermost: Item | None = None) -> hurray.Composite:
    item = group(innermost or tensor(2))
    for _ in range(levels - 1):
        item = group(tensor(1), item)
    return item


def sparse() -> hurray.Tensor:
    return tensor(4, 6).to_layout(hurray.CsrLayout(0))


def written(*items: Item) -> bytes:
    """The stream of these items."""
    writer = hurray.StreamWriter()
    for item in items:
        writer.write(item)
    writer.finish()
    return writer.getvalue()


def sample_items() -> list[Item]:
    return [
        tensor(3),
        hurray.zeros((0, 4)),
        sparse(),
        nested(2, sparse()),
        group(),
        tensor(2, 2, start=7, dtype="int64"),
    ]


def contents(item: Item) -> object:
    """All that a stream carries of an item; what compares equal is the same."""
    if isinstance(item, hurray.Composite):
        head = item.layout, item.shape, item.dtype, item.shard, item.statistics
        return (*head, *map(contents, item.members))
    buffers = [bytes(item.buffer(index)) for index in range(item.buffer_count)]
    return item.dtype, item.shape, item.layout, item.byte_offset, item.member_role, buffers


def same(item: Item, other: Item) -> bool:
    return contents(item) == contents(other)


@contextlib.contextmanager
def running(action: Callable[[], object]) -> Iterator[threading.Thread]:
    """A thread that does `action` meanwhile, and is over afterwards; what it raises is raised."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield thread
    thread.join(20)
    assert not thread.is_alive()
    if failures:
        raise failures[0]


@contextlib.contextmanager
def pipe() -> Iterator[tuple[io.FileIO, io.FileIO]]:
    """Its two ends, for reading and for writing; closed afterwards."""
    source, destination = os.pipe()
    with os.fdopen(source, "rb", 0) as reading, os.fdopen(destination, "wb", 0) as writing:
        yield reading, writing


class Descriptor:
    """The least that a stream takes: an object with fileno()."""

    def __init__(self, number: int) -> None:
        self.number = number

    def fileno(self) -> int:
        return self.number


def open_descriptors() -> int:
    """Of this process, but for those of objects that nobody has any more."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))
