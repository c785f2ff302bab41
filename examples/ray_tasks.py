"""Tensors in Ray's object store: put there once, read by every task where they lie.

Starts Ray on this machine with one worker. Ray pickles tensors with their buffers out of band, into
shared memory at multiples of 64; so nothing needs to be registered, and no task makes a copy. What
comes out of the store is read-only, as NumPy's arrays are there. Needs `ray`.

    python examples/ray_tasks.py
"""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import ray

import hurray


def place_of(tensor: hurray.Tensor) -> str:
    """The file whose memory the tensor lies in, by the kernel's list; Linux only."""
    start = np.frombuffer(tensor.buffer(0), np.uint8).ctypes.data
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split(maxsplit=1)[0].split("-"))
        if first <= start < last:
            return "the object store" if "/plasma" in line else "memory of the process"
    return "nowhere"


def total(tensor: hurray.Tensor) -> tuple[float, bool, str]:
    """The sum of all elements, whether they are read-only, and where they lie."""
    return float(np.asarray(tensor).sum()), tensor.readonly, place_of(tensor)


def add_one(tensor: hurray.Tensor) -> hurray.Tensor:
    """A new tensor: what is in the store cannot be written, but its copy can."""
    changed = copy.deepcopy(tensor)
    np.asarray(changed)[...] += 1
    return changed


def main() -> None:
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        total_there = ray.remote(total)
        add_one_there = ray.remote(add_one)

        tensor = hurray.from_numpy(np.full((1000, 1000), 0.5))
        reference = ray.put(tensor)  # the one copy, into the store
        print("a task:", *ray.get(total_there.remote(reference)))
        print("here:", *total(ray.get(reference)))

        result = add_one_there.remote(reference)  # stays in the store for the next task
        print("a task after a task:", *ray.get(total_there.remote(result)))
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
