"""How far the memory of a process grows beyond what it is handed: in a process of its own each.

    python -m bench.memory ACTION FOLDER BYTES

prints the bytes by which the peak of resident memory exceeds what was there before and what the action
hands out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import hurray
from bench import data
from bench.harness import Absent, Comparison, Sizes, row

COUNT = 16  # tensors


def resident(field: str) -> int:
    """VmRSS or VmHWM, the peak, of this process in bytes."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise KeyError(field)


def growth(action: Callable[[], int]) -> int:
    """Bytes of peak above what there was, less what action returns: bytes that were handed out."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    before = resident("VmRSS")
    handed = action()
    return resident("VmHWM") - before - handed


def total(items: Iterable[Any]) -> int:
    return sum(item.nbytes for item in items)


def load(folder: str, size: int) -> Callable[[], int]:
    hurray.save(os.path.join(folder, "model"), data.model(COUNT, size))

    def action() -> int:
        tensors = hurray.load(os.path.join(folder, "model"), mmap=False)
        return total(tensors.values())

    return action


def load_mapped(folder: str, size: int) -> Callable[[], int]:
    import numpy as np

    hurray.save(os.path.join(folder, "model"), data.model(COUNT, size))

    def action() -> int:
        tensors = hurray.load(os.path.join(folder, "model"))
        for tensor in tensors.values():
            np.asarray(tensor).max()
        return total(tensors.values())

    return action


def save(folder: str, size: int) -> Callable[[], int]:
    model = data.model(COUNT, size)

    def action() -> int:
        hurray.save(os.path.join(folder, "saved"), model)
        return 0

    return action


def stream_write(folder: str, size: int) -> Callable[[], int]:
    model = data.tensors(COUNT, size)

    def action() -> int:
        with hurray.StreamWriter(os.path.join(folder, "stream")) as writer:
            for tensor in model.values():
                writer.write(tensor)
        return 0

    return action


def stream_read(folder: str, size: int) -> Callable[[], int]:
    stream_write(folder, size)()

    def action() -> int:
        largest = 0
        for tensor in hurray.StreamReader(os.path.join(folder, "stream")):
            largest = max(largest, total([tensor]))
            del tensor  # one at a time
        return largest

    return action


def convert(folder: str, size: int) -> Callable[[], int]:
    edge = int((size / 4) ** 0.5) // 64 * 64
    tensor = hurray.from_numpy(data.aligned((edge, edge)))

    def action() -> int:
        return tensor.to_layout(hurray.TiledLayout([64, 64])).nbytes or 0

    return action


def convert_sparse(folder: str, size: int) -> Callable[[], int]:
    import numpy as np

    count = size // 24
    places = np.random.default_rng(1).permutation(count).astype(np.uint64)
    indices = np.stack([places // 1000, places % 1000], axis=1)
    tensor = hurray.sparse_coo(
        hurray.from_numpy(np.ones(count)), hurray.from_numpy(indices), (count // 1000 + 1, 1000)
    )

    def action() -> int:
        result = tensor.to_layout(hurray.CsrLayout(0))
        return sum(handle.byte_size for handle in result.buffer_handles)

    return action


ACTIONS = {
    "load(mmap=False)": load,
    "load, all touched": load_mapped,
    "save": save,
    "StreamWriter": stream_write,
    "StreamReader, one at a time": stream_read,
    "row-major to tiled": convert,
    "COO to CSR": convert_sparse,
}


@row(
    "memory",
    "peak memory beyond what is handed out, 256 MiB",
    Sizes("bytes", (2_684_354, 26_843_545, 256 << 20), smoke=2_000_000),
)
def _(c: Comparison, n: int) -> None:
    if not os.access("/proc/self/clear_refs", os.W_OK):
        raise Absent("the peak of memory is read from Linux's /proc")
    for action in ACTIONS:
        command = [sys.executable, "-m", "bench.memory", action, c.context.folder, str(n)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        c.value(action, int(output) / 2**20, "MiB", bar=16)


if __name__ == "__main__":
    print(growth(ACTIONS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))))
