"""Tensors between processes of one machine, three ways.

1. As they are: a queue pickles them, as it does everything. Every byte is copied several times.
2. The same after `import hurray.multiprocessing`: every byte is copied once, by the sender.
3. In a segment of shared memory that both processes have: no byte is copied at all.

Prints how long each way took, there and back. Needs NumPy alone.

    python examples/processes.py [MiB]
"""

from __future__ import annotations

import importlib
import multiprocessing
import pickle
import sys
import time
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

import hurray

# ---- 1 and 2: a pipe ----


def negate_all(pipe: Connection) -> None:
    """The other process: answers each tensor by the negative one, until None comes."""
    while (tensor := pipe.recv()) is not None:
        values = np.asarray(tensor)
        pipe.send(hurray.from_numpy(-values))


def negate_all_with_hooks(pipe: Connection) -> None:
    """The same in a process that sends large tensors through shared memory, too."""
    importlib.import_module("hurray.multiprocessing")

    negate_all(pipe)


def through_a_pipe(context: Any, target: Any, tensor: hurray.Tensor) -> tuple[np.ndarray, float]:
    """What the other process made of the tensor, and the seconds there and back."""
    here, there = context.Pipe()
    process = context.Process(target=target, args=(there,))
    process.start()
    try:
        here.send(hurray.zeros([1]))  # once it answers, the process has started
        here.recv()
        start = time.perf_counter()
        here.send(tensor)
        answer = here.recv()
        seconds = time.perf_counter() - start
        here.send(None)
    finally:
        process.join()
    return np.asarray(answer), seconds


# ---- 3: shared memory that both have ----


def negate_in_place(name: str, pickled: bytes, sizes: list[int]) -> None:
    """The other process: a tensor over the segment, which it writes to."""
    segment = SharedMemory(name)
    tensor = pickle.loads(pickled, buffers=parts(segment.buf, sizes))
    values = np.asarray(tensor)
    np.negative(values, out=values)
    del values, tensor  # a segment is closed after its last user
    segment.close()


def parts(memory: memoryview, sizes: list[int]) -> list[memoryview]:
    """A buffer after the other, each at the next multiple of 64."""
    starts = np.cumsum([0] + [-(-size // 64) * 64 for size in sizes])
    return [memory[start : start + size] for start, size in zip(starts, sizes, strict=False)]


def in_shared_memory(context: Any, like: np.ndarray) -> tuple[np.ndarray, float]:
    """What the other process left in the memory, and the seconds that took with its start."""
    segment = SharedMemory(create=True, size=like.nbytes)
    try:
        # The tensor is made where it will be needed, not brought there: NumPy fills the segment.
        values = np.ndarray(like.shape, like.dtype, buffer=segment.buf)
        values[:] = like
        tensor = hurray.from_numpy(values, copy=False)

        # The pickle of a tensor without its bytes: they are where the other process finds them.
        buffers: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(tensor, protocol=5, buffer_callback=buffers.append)
        sizes = [buffer.raw().nbytes for buffer in buffers]
        print(f"   {len(pickled)} bytes are sent, {sum(sizes):,} stay where they are")

        start = time.perf_counter()
        process = context.Process(target=negate_in_place, args=(segment.name, pickled, sizes))
        process.start()
        process.join()
        seconds = time.perf_counter() - start
        result = values.copy()
        del values, tensor, buffers
    finally:
        segment.close()
        segment.unlink()
    return result, seconds


def main() -> None:
    mebibytes = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    with hurray.aligned_allocator():
        array = np.arange(mebibytes << 17, dtype=np.float64)
    tensor = hurray.from_numpy(array, copy=False)
    context = multiprocessing.get_context("spawn")

    print(f"{mebibytes} MiB between two processes")
    answer, seconds = through_a_pipe(context, negate_all, tensor)
    print(f"1. through a pipe, as they are: {seconds:.2f} s there and back")
    check(answer, array)

    importlib.import_module("hurray.multiprocessing")

    answer, seconds = through_a_pipe(context, negate_all_with_hooks, tensor)
    print(f"2. through a pipe, with hurray.multiprocessing: {seconds:.2f} s there and back")
    check(answer, array)

    print("3. in shared memory")
    answer, seconds = in_shared_memory(context, array)
    print(f"   {seconds:.2f} s, the start of the process included")
    check(answer, array)
    print("every value arrived")


def check(answer: np.ndarray, array: np.ndarray) -> None:
    if not np.array_equal(answer, -array):
        raise AssertionError("the values changed on their way")


if __name__ == "__main__":
    main()
