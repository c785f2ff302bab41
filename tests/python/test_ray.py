"""Tensors in Ray's object store, where they lie as arrays do: shared, read-only, 64-aligned.

Ray is large, and no requirement of these tests: they run where somebody installed it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import capsule_abi
import numpy as np
import pytest
from capsule_abi import KINDS, READ_ONLY

import hurray

pytestmark = [
    pytest.mark.frameworks,
    # Ray forks, and at once becomes another program; JAX warns where another test imported it.
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),
]

ray = pytest.importorskip("ray", reason="ray is not installed")

SCRIPT = Path(__file__).parents[2] / "examples" / "ray_tasks.py"
READABLE = [name for name, kind in KINDS.items() if kind.is_readable]
MEGABYTE = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def running():
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()


def large():
    return hurray.from_numpy(np.arange(float(MEGABYTE)))


def place_of(address):
    """The file whose memory an address is in."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split(maxsplit=1)[0].split("-"))
        if first <= address < last:
            return line.split(maxsplit=5)[5:]
    return []


def is_in_store(address):
    return any("/plasma" in name for name in place_of(address))


def check_same(got, tensor):
    assert got.shape == tensor.shape
    assert got.descriptor.encoded_len == tensor.descriptor.encoded_len
    for index in range(tensor.buffer_count):
        assert bytes(got.buffer(index)) == bytes(tensor.buffer(index))


def test_what_is_got_lies_in_the_store_as_arrays_do():
    array = ray.get(ray.put(np.asarray(large())))
    assert is_in_store(array.ctypes.data)
    assert not array.flags.writeable
    reference = ray.put(large())
    tensor = ray.get(reference)
    assert all(map(is_in_store, capsule_abi.addresses(tensor)))
    assert tensor.readonly
    check_same(tensor, large())
    again = ray.get(reference)
    assert capsule_abi.addresses(again) == capsule_abi.addresses(tensor)


def test_every_buffer_of_a_sparse_tensor_lies_in_the_store():
    indices = np.arange(4 * MEGABYTE, step=4, dtype=np.uint64).reshape(-1, 1)
    tensor = hurray.sparse_coo(np.ones(MEGABYTE, np.float32), indices, (4 * MEGABYTE,))
    got = ray.get(ray.put(tensor))
    assert got.buffer_count == 2
    assert all(map(is_in_store, capsule_abi.addresses(got)))
    check_same(got, tensor)


def test_members_of_composites_lie_in_the_store():
    tensor = large()
    group = hurray.Composite("group", shape=(), dtype=tensor.dtype, members=[tensor, large()])
    got = ray.get(ray.put(group))
    assert got.layout == group.layout
    for member in got.members:
        assert all(map(is_in_store, capsule_abi.addresses(member)))
        check_same(member, tensor)


def test_every_kind_survives_a_task():
    @ray.remote
    def same(tensors):
        return tensors

    tensors = [KINDS[name].tensor(flags) for name in READABLE for flags in (0, READ_ONLY)]
    got = ray.get(same.remote(tensors))
    for one, other in zip(got, tensors, strict=True):
        check_same(one, other)


def test_tasks_read_where_the_tensor_lies():
    @ray.remote
    def seen(tensor):
        address = np.frombuffer(tensor.buffer(0), np.uint8).ctypes.data
        with open("/proc/self/maps") as maps:
            for line in maps:
                first, last = (int(end, 16) for end in line.split(maxsplit=1)[0].split("-"))
                if first <= address < last:
                    return "/plasma" in line, float(np.asarray(tensor).sum())
        return None

    assert ray.get(seen.remote(large())) == (True, np.arange(float(MEGABYTE)).sum())


def test_the_example_runs():
    result = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=100, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "a task: 500000.0 True the object store",
        "here: 500000.0 True the object store",
        "a task after a task: 1500000.0 True the object store",
    ]
