"""Tensors in Dask: on a cluster, in its messages, in its accounts of memory, in its keys."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import capsule_abi
import numpy as np
import pytest
from capsule_abi import KINDS, READ_ONLY
from dlpack_abi import aligned

import hurray

pytestmark = pytest.mark.frameworks

distributed = pytest.importorskip("distributed", reason="distributed is not installed")

import dask  # noqa: E402
import dask.sizeof  # noqa: E402
from dask.tokenize import TokenizationError, tokenize  # noqa: E402
from distributed.comm.tcp import _add_frames_header  # noqa: E402
from distributed.protocol import dask_deserialize, dumps, loads, to_serialize  # noqa: E402

import hurray.dask  # noqa: E402

SCRIPT = Path(__file__).parents[2] / "examples" / "dask_cluster.py"
READABLE = [name for name, kind in KINDS.items() if kind.is_readable]
MEGABYTE = 1 << 20


def large(n=MEGABYTE, dtype=np.float64):
    array = aligned((n,), dtype)
    array[:] = np.arange(n) % 251
    return hurray.from_numpy(array, copy=False)


def composite(member=None):
    member = large() if member is None else member
    return hurray.Composite("group", shape=(), dtype=member.dtype, members=[member, large(1000)])


def check_same(got, tensor):
    """All is the same but alignments, which are what the memory has there."""
    assert tokenize(got) == tokenize(tensor)
    assert got.descriptor.encoded_len == tensor.descriptor.encoded_len
    assert got.readonly == tensor.readonly
    for index in range(tensor.buffer_count):
        assert bytes(got.buffer(index)) == bytes(tensor.buffer(index))


def address(x):
    return np.frombuffer(x, np.uint8).ctypes.data


def message(x):
    """The frames Dask sends for x: memory itself where it is large."""
    return dumps({"x": to_serialize(x)})


def large_frames(frames):
    return [frame for frame in frames if memoryview(frame).nbytes >= MEGABYTE]


# ---- messages ----


def test_the_memory_itself_is_sent_as_for_arrays():
    array = aligned((MEGABYTE,), np.float64)
    for x in (array, hurray.from_numpy(array, copy=False)):
        (frame,) = large_frames(message(x))
        assert address(frame) == array.ctypes.data


@pytest.mark.parametrize("name", READABLE)
def test_every_buffer_is_a_frame(name):
    t = KINDS[name].tensor()
    sent = {address(frame) for frame in message(t) if memoryview(frame).nbytes}
    assert {place for place in capsule_abi.addresses(t) if place is not None} <= sent


def test_members_of_composites_are_frames():
    one = large()
    frames = large_frames(message(composite(one)))
    assert [memoryview(frame).nbytes for frame in frames] == [8 * MEGABYTE]
    assert address(frames[0]) == address(one.buffer(0))


def first_read(frames):
    """How much a receiver reads at first, into one array; the other frames get one each."""
    pieces, _, _ = _add_frames_header(frames)
    return int.from_bytes(bytes(pieces[0])[:8], sys.byteorder)


def test_each_large_buffer_is_received_into_memory_of_its_own():
    """So that it begins where that memory begins, which is not so without the hooks."""
    for x in (large(), composite(), [large(), large()]):
        assert first_read(message(x)) < 2000
    assert first_read(message(np.asarray(large()))) > MEGABYTE


@pytest.mark.parametrize("flags", [0, READ_ONLY])
def test_what_is_received_is_shared(flags):
    t = KINDS["valid/csr.bin"].tensor(flags)
    frames = [capsule_copy(frame) for frame in message(t)]
    got = loads(frames)["x"]
    assert got.descriptor == t.descriptor
    assert got.readonly == bool(flags)
    assert set(capsule_abi.addresses(got)) <= {address(f) for f in frames if len(f)}


def capsule_copy(frame):
    """A frame as it arrives with an aligned_allocator: in memory of its own at a multiple of 64."""
    view = memoryview(frame).cast("B")
    block = capsule_abi.memory(view.nbytes, 64)
    block[:] = np.frombuffer(view, np.uint8)
    return block.data


def test_read_only_frames_of_writable_tensors_are_copied():
    """As happens to what was compressed: NumPy's arrays are copied then, too."""
    t = large()
    frames = [bytes(frame) for frame in message(t)]
    before = frames[-1]
    got = loads(frames)["x"]
    assert not got.readonly
    np.asarray(got)[:] = 7
    assert before == bytes(t.buffer(0))


def test_device_memory_is_refused():
    elsewhere = [kind for kind in KINDS.values() if not kind.on_cpu and kind.is_synced]
    assert elsewhere
    for kind in elsewhere:
        with pytest.raises(hurray.UnsupportedError, match="CPU first"):
            hurray.dask._serialize(kind.tensor())


# ---- memory and keys ----


def test_sizes_are_those_of_the_buffers():
    array = aligned((1000, 3), np.float32)
    t = hurray.from_numpy(array, copy=False)
    assert dask.sizeof.sizeof(t) == dask.sizeof.sizeof(array) == 12_000
    csr = KINDS["valid/csr.bin"].tensor()
    assert dask.sizeof.sizeof(csr) == sum(handle.byte_size for handle in csr.buffer_handles)
    group = hurray.Composite("group", shape=(), dtype=t.dtype, members=[t, t])
    assert dask.sizeof.sizeof(group) == 24_000


def test_equal_tensors_have_equal_keys():
    def key(x):
        return tokenize(x, ensure_deterministic=True)

    base = large(1000)
    assert key(base) == key(large(1000))
    other_value = large(1000)
    np.asarray(other_value)[500] += 1
    others = [
        other_value,
        large(999),
        large(1000, np.int64),
        hurray.from_numpy(np.asarray(base).reshape(10, 100), copy=False),
    ]
    assert len({key(x) for x in [base, *others]}) == 1 + len(others)
    every_kind = [KINDS[name].tensor() for name in READABLE]
    assert len({key(x) for x in every_kind}) == len(every_kind)
    assert key(composite()) == key(composite())
    assert key(composite()) != key(composite(other_value))


def test_tokens_do_not_say_where_the_memory_lies():
    tokens = set()
    for alignment in (64, 128, 4096):
        memory = capsule_abi.memory(8192 + alignment, 8192)[alignment:][:8000]
        memory[:] = 1
        tensor = hurray.from_numpy(memory, copy=False)
        assert tensor.buffer_handles[0].alignment >= alignment
        tokens.add(tokenize(tensor, ensure_deterministic=True))
    assert len(tokens) == 1


def test_what_cannot_be_read_has_no_lasting_key():
    elsewhere = KINDS["valid/cuda_unified.bin"].tensor()
    assert tokenize(elsewhere) != tokenize(elsewhere)
    with pytest.raises(TokenizationError):
        tokenize(elsewhere, ensure_deterministic=True)


# ---- a cluster ----


@pytest.fixture(scope="module")
def cluster():
    """A client and two workers, each a process."""
    with (
        dask.config.set({"distributed.worker.preload": ["hurray.dask_worker"]}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as local,
        distributed.Client(local) as client,
        hurray.aligned_allocator(),
    ):
        client.run(watch)
        receive = dask_deserialize.dispatch(hurray.Tensor)
        watch()
        yield client
        dask_deserialize.register(hurray.Tensor)(receive)


arrivals = []  # in each process: whether a tensor shares all the memory that it was received in


def watch():
    receive = dask_deserialize.dispatch(hurray.Tensor)

    def record(header, frames):
        tensor = receive(header, frames)
        places = [place for place in capsule_abi.addresses(tensor) if place is not None]
        received = {address(frame) for frame in frames if memoryview(frame).nbytes}
        arrivals.append(set(places) <= received)
        return tensor

    dask_deserialize.register(hurray.Tensor)(record)


def taken_arrivals():
    taken = arrivals.copy()
    arrivals.clear()
    return taken


def arrivals_at(client, worker):
    return client.submit(taken_arrivals, workers=worker, pure=False).result(10)


def made(n):
    return hurray.from_numpy(np.arange(float(n)), copy=False)


def same(x):
    return x


def total(t):
    return float(np.asarray(t).sum())


def test_from_worker_to_worker_without_a_copy(cluster):
    future = cluster.submit(made, MEGABYTE, workers=0)
    there = cluster.submit(total, future, workers=1, pure=False)
    assert there.result(10) == np.arange(float(MEGABYTE)).sum()
    assert arrivals_at(cluster, 1) == [True]


def test_from_worker_to_client_without_a_copy(cluster):
    taken_arrivals()
    got = cluster.submit(made, MEGABYTE, workers=0, pure=False).result(10)
    assert np.array_equal(np.asarray(got), np.arange(float(MEGABYTE)))
    assert not got.readonly
    assert taken_arrivals() == [True]


def test_from_client_to_worker_without_a_copy(cluster):
    arrivals_at(cluster, 0)
    future = cluster.scatter(large(), workers=0)
    assert cluster.submit(total, future, workers=0).result(10) == total(large())
    assert arrivals_at(cluster, 0) == [True]


def test_as_argument_and_result(cluster):
    arrivals_at(cluster, 0)
    got = cluster.submit(same, large(100_000), workers=0, pure=False).result(10)
    check_same(got, large(100_000))


def test_every_kind_survives(cluster):
    tensors = [KINDS[name].tensor(flags) for name in READABLE for flags in (0, READ_ONLY)]
    got = cluster.submit(same, tensors, pure=False).result(10)
    for one, other in zip(got, tensors, strict=True):
        check_same(one, other)


def test_composites_survive(cluster):
    there = composite(large(10))
    got = cluster.submit(same, there, pure=False).result(10)
    assert got.layout == there.layout
    for one, other in zip(got.members, there.members, strict=True):
        check_same(one, other)


def test_arrays_of_tasks_begin_at_multiples_of_64(cluster):
    def places():
        return [np.empty(n).ctypes.data % 64 for n in (1, 10, 1000, 100_000)]

    assert cluster.submit(places, pure=False).result(10) == [0] * 4


def test_the_example_runs():
    result = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=100, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "made on worker 0, read by worker 0 500000.0",
        "made on worker 0, read by worker 1 500000.0",
        "gathered: (1000, 1000) float64 [0.5 0.5 0.5]",
        "scattered, and one added: 6000000.0 worker 0",
        "a graph: 5000.0 20000.0 45000.0 80000.0",
    ]
