"""Tensors on a Dask cluster: made on one worker, used on another, gathered at last.

Starts a cluster of two processes on this machine. `import hurray.dask` registers tensors with Dask,
and the workers preload the same; so a tensor becomes what Dask received, without another copy. Needs
`distributed`.

    python examples/dask_cluster.py
"""

from __future__ import annotations

import dask
import numpy as np
from distributed import Client, LocalCluster, get_worker

import hurray
import hurray.dask


def make(n: int) -> hurray.Tensor:
    """A matrix of halves. Workers with the preload have NumPy begin arrays at multiples of 64, so
    that this never copies."""
    return hurray.from_numpy(np.full((n, n), 0.5), copy=False)


def total(tensor: hurray.Tensor) -> tuple[float, str]:
    """The sum of all elements, and who computed it."""
    return float(np.asarray(tensor).sum()), f"worker {get_worker().name}"


def larger(tensor: hurray.Tensor) -> hurray.Tensor:
    """A new tensor: Dask may give an argument to other tasks as well, so it must stay as it is."""
    return hurray.from_numpy(np.asarray(tensor) + 1, copy=False)


def main() -> None:
    with (
        dask.config.set({"distributed.worker.preload": ["hurray.dask_worker"]}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        hurray.aligned_allocator(),  # for what the client makes and receives
    ):
        tensor = client.submit(make, 1000, workers=0)
        for worker in (0, 1):  # it is made on the first, and sent to the second
            future = client.submit(total, tensor, workers=worker, pure=False)
            print("made on worker 0, read by", *reversed(future.result()))

        gathered = tensor.result()
        print("gathered:", gathered.shape, gathered.dtype.name, np.asarray(gathered)[0, :3])

        scattered = client.scatter(make(2000), workers=0)
        changed = client.submit(larger, scattered, workers=0)
        print("scattered, and one added:", *client.submit(total, changed, workers=0).result())

        # A graph: Dask decides where each task runs, and moves what it needs.
        matrices = [dask.delayed(make)(n) for n in (100, 200, 300, 400)]
        sums = dask.compute(*[dask.delayed(total)(matrix) for matrix in matrices])
        print("a graph:", *[sum_there for sum_there, _ in sums])


if __name__ == "__main__":
    main()
