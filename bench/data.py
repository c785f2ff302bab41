"""What the rows are measured with; the peer's worker makes the same. Needs NumPy, and hurray of either kind."""

from __future__ import annotations

import io
import itertools
import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import hurray


def aligned(shape: Any, dtype: Any = np.float32) -> Any:
    """An array that begins at a multiple of 64 bytes, touched, of numbers that repeat after 4093."""
    with hurray.aligned_allocator():
        array = np.empty(shape, dtype)
    flat = array.reshape(-1)
    period = (np.arange(4093) % 251).astype(dtype)
    for start in range(0, flat.size, period.size):
        part = flat[start : start + period.size]
        part[:] = period[: part.size]
    return array


def model(count: int, size: int) -> dict[str, Any]:
    """float32 arrays, count of them, of about size bytes together, with the names of a model."""
    columns = 64 if size // count >= 4096 else 4
    rows = max(1, size // (count * columns * 4))
    return {f"model.layers.{i}.mlp.weight": aligned((rows, columns)) for i in range(count)}


def tensors(count: int, size: int) -> dict[str, Any]:
    return {name: hurray.from_numpy(array) for name, array in model(count, size).items()}


def pool(threads: int) -> ThreadPoolExecutor:
    """Threads that keep to one processor each, in turn: what they call starts no others."""
    processors = sorted(os.sched_getaffinity(0))
    turns = itertools.count()

    def keep() -> None:
        os.sched_setaffinity(0, {processors[next(turns) % len(processors)]})

    return ThreadPoolExecutor(threads, initializer=keep)


def fresh(path: str) -> None:
    """No file at path, and nothing that waits to be written to the disk."""
    if os.path.exists(path):
        os.unlink(path)
    os.sync()


def write_raw(path: str, arrays: dict[str, Any], sync: bool) -> None:
    """The bytes alone: what the system asks for at least."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for array in arrays.values():
        view = memoryview(array).cast("B")
        while view:
            view = view[os.write(descriptor, view) :]
    if sync:
        os.fsync(descriptor)
    os.close(descriptor)


def sync(path: str) -> None:
    """What was written to a file is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def read_raw(path: str, buffer: memoryview) -> None:
    with open(path, "rb", buffering=0) as file:
        while buffer:
            got = file.readinto(buffer)
            if not got:
                break
            buffer = buffer[got:]


def read_tail(path: str, length: int) -> int:
    """Opens a file and reads its last bytes."""
    with open(path, "rb", buffering=0) as file:
        file.seek(-length, os.SEEK_END)
        return len(file.read(length))


def write_all(end: Any, part: memoryview) -> None:
    """All of part into a pipe or socket."""
    if hasattr(end, "sendall"):
        end.sendall(part)
        return
    while part:
        part = part[end.write(part) :]


def through(ends: Any, send: Callable[[Any], None], receive: Callable[[Any], int]) -> int:
    """What receive returns: it reads from one end what send writes to the other in a thread."""
    source, destination = ends()

    def run() -> None:
        send(destination)
        destination.close()

    thread = threading.Thread(target=run)
    thread.start()
    received = receive(source)
    thread.join()
    source.close()
    return received


def pipe() -> tuple[Any, Any]:
    source, destination = os.pipe()
    return os.fdopen(source, "rb", 0), os.fdopen(destination, "wb", 0)


def wide_pipe() -> tuple[Any, Any]:
    """One that holds a megabyte, where the system lets it."""
    import fcntl

    ends = pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 1 << 20)
    return ends


def small_stream(tensor: Any, count: int) -> int:
    """Writes tensor count times into a stream in memory and reads them back."""
    writer = hurray.StreamWriter()
    write = writer.write
    for _ in range(count):
        write(tensor)
    writer.finish()
    received = 0
    for _ in hurray.StreamReader(writer.getvalue()):
        received += 1
    return received


def small_pickles(array: Any, count: int) -> int:
    """The same with a pickle for each."""
    stream = io.BytesIO()
    dump, load = pickle.dump, pickle.load
    for _ in range(count):
        dump(array, stream, 5)
    end = stream.tell()
    stream.seek(0)
    received = 0
    while stream.tell() < end:
        load(stream)
        received += 1
    return received
