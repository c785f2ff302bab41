"""Threads that do everything at once, with the same objects and with their own (spec 8.3).

With a GIL the threads take turns as often as it allows; without one they run at the same time.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import pickle
import subprocess
import sys
import sysconfig
import textwrap
import threading
import time
from collections.abc import Callable, Iterator

import ml_dtypes
import numpy as np
import pytest
from capsule_abi import KINDS
from dlpack_abi import aligned

import hurray

THREADS = 8


@pytest.fixture(autouse=True)
def quick_switches() -> Iterator[None]:
    """Threads lose the GIL after every few bytecodes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(body: Callable[[int], object], count: int = THREADS) -> None:
    """Runs body(index) in threads that start together; the first failure is raised here."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(index: int) -> None:
        try:
            barrier.wait()
            body(index)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def hammer(actions: list[Callable[[], object]], seconds: float = 0.3) -> None:
    """Every thread calls all of them in turn, beginning elsewhere than its neighbour."""
    end = time.monotonic() + seconds

    def body(index: int) -> None:
        step = index * len(actions) // THREADS
        last = step + len(actions)  # each of them at least once
        while step < last or time.monotonic() < end:
            actions[step % len(actions)]()
            step += 1

    in_threads(body)


# ---- the same objects ----


def same(call: Callable[[], object]) -> Callable[[], None]:
    """Whatever a call gives, it gives each time."""
    expected = call()

    def check() -> None:
        assert call() == expected

    return check


@pytest.mark.parametrize("name", [name for name in KINDS if name.startswith("valid/")])
def test_a_tensor_of_every_kind_is_read(name):
    t = KINDS[name].tensor()
    actions = [
        same(lambda: (t.shape, t.ndim, t.dtype, t.device, t.byte_offset, t.readonly)),
        same(lambda: t.descriptor.encode()),
        same(lambda: t.descriptor),
        same(lambda: repr(t.buffer_handles)),
        same(lambda: [t.buffer(i).shape for i in range(t.buffer_count)]),
        same(lambda: hurray.from_hurray(t).descriptor),
        same(lambda: hurray.Descriptor.decode(KINDS[name].encoded, permissive=True)),
        same(lambda: [t.statistics, t.shard, t.extension_type, t.member_role]),
    ]
    with contextlib.suppress(hurray.UnsupportedError):  # what has no class
        actions.append(same(lambda: t.layout))
    hammer(actions, seconds=0.02)


def test_one_dense_tensor_goes_everywhere():
    array = aligned((6, 7))
    array[...] = np.arange(42).reshape(6, 7)
    t = hurray.from_numpy(array, copy=False)
    before = sys.getrefcount(array)
    expected = array.tolist()
    tiled = hurray.TiledLayout([2, 3])

    def check(convert: Callable[[], object]) -> Callable[[], None]:
        def action() -> None:
            assert np.asarray(convert()).tolist() == expected

        return action

    hammer(
        [
            check(lambda: t),
            check(lambda: np.from_dlpack(t)),
            check(lambda: memoryview(t)),
            check(lambda: t.T.T),
            check(lambda: hurray.from_dlpack(t.__dlpack__())),
            check(lambda: hurray.from_dlpack(t.__dlpack__(max_version=(1, 3)))),
            check(lambda: hurray.from_dlpack(t)),
            check(lambda: hurray.from_hurray(t)),
            check(lambda: copy.copy(t)),
            check(lambda: copy.deepcopy(t)),
            check(lambda: pickle.loads(pickle.dumps(t, 5))),
            check(lambda: t.to_layout(tiled).to_numpy()),
            check(lambda: t.to_layout(hurray.CsrLayout(0)).to_layout(hurray.RowMajorLayout())),
            check(lambda: hurray.asarray(expected, dtype=hurray.float32)),
            t.__dlpack__,
            t.__hurray__,
            t.__dlpack_device__,
            same(lambda: t.__array_interface__),
            same(lambda: repr(t)),
        ],
        seconds=1.0,
    )
    gc.collect()
    # Without a GIL, references that threads dropped are only counted some time later.
    assert sys.getrefcount(array) <= before + THREADS
    assert array.tolist() == expected


def test_types_and_values_are_shared():
    """Types, dtypes, devices, layouts, schemes and sections, compared, hashed and made anew."""
    layouts = [KINDS[name].tensor().layout for name in KINDS if "unknown" not in name]
    values = [
        *layouts,
        hurray.PerTensorAffine(0.5, 1),
        hurray.PerChannelAffine.symmetric(0, 1),
        hurray.MXFP(0, 32, 1),
        hurray.Statistics(nnz=3, value_min=0.5, value_max=2.0, value_abs_max=2.0),
        hurray.Shard((4, 4), (0, 2)),
        hurray.ExtensionType(bit_width=24),
        hurray.Device("cuda", 3),
        hurray.device.cpu,
        hurray.float32,
    ]
    hammer(
        [
            same(lambda: [hash(value) for value in values if type(value).__hash__]),
            same(lambda: [repr(value) for value in values]),
            same(lambda: [copy.deepcopy(value) == value for value in values]),
            same(lambda: pickle.loads(pickle.dumps(values)) == values),
            same(lambda: hurray.Dtype.from_name("bfloat16") is hurray.bfloat16),
            same(
                lambda: [hurray.Dtype.from_tag(t.tag) is t for t in (hurray.int8, hurray.float64)]
            ),
            same(lambda: hurray.Device("cpu") is hurray.device.cpu),
            same(lambda: hurray.zeros([2]).device is hurray.device.cpu),
        ],
        seconds=0.5,
    )


def test_composites_are_shared():
    halves = [
        hurray.Tensor(bytes(8), hurray.int8, (8,), shard=hurray.Shard((16,), (start,)))
        for start in (0, 8)
    ]

    def make() -> hurray.Composite:
        return hurray.Composite("partition", shape=(16,), dtype=hurray.int8, members=halves)

    whole = make()
    hammer(
        [
            same(make),
            same(lambda: [member.shape for member in whole.members]),
            same(lambda: whole.to_numpy().tolist()),
            same(lambda: pickle.loads(pickle.dumps(whole))),
            same(lambda: repr(whole)),
        ]
    )


def test_every_thread_has_its_own_message():
    """An exception's text is that of its own thread's failure."""

    def body(index: int) -> None:
        for size in range(index, 8000, THREADS):
            with pytest.raises(hurray.BufferError, match=rf"\b{4 * size + 4}\b") as caught:
                hurray.Tensor(bytes(4), hurray.float32, (size + 1,)) if size else refuse(4)
            assert str(caught.value)

    def refuse(bytes_: int) -> None:
        raise hurray.BufferError(str(bytes_))

    in_threads(body)


# ---- what can be had once ----


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.__dlpack__(),
        lambda t: t.__dlpack__(max_version=(1, 0)),
    ],
    ids=["legacy", "versioned"],
)
def test_a_capsule_is_consumed_once(make):
    t = hurray.zeros([4])
    for _ in range(200):
        capsule = make(t)
        taken: list[hurray.Tensor] = []

        def body(index: int, capsule=capsule, taken=taken) -> None:
            with contextlib.suppress(hurray.BufferError):
                taken.append(hurray.from_dlpack(capsule))

        in_threads(body)
        assert len(taken) == 1


def test_a_native_capsule_is_consumed_once():
    t = hurray.zeros([4])

    class Producer:
        def __init__(self) -> None:
            self.capsule = t.__hurray__()

        def __hurray__(self, stream: object = None) -> object:
            return self.capsule

    for _ in range(200):
        producer = Producer()
        taken: list[hurray.Tensor] = []

        def body(index: int, producer=producer, taken=taken) -> None:
            with contextlib.suppress(hurray.BufferError):
                taken.append(hurray.from_hurray(producer))

        in_threads(body)
        assert len(taken) == 1


def test_an_allocator_is_entered_once_and_left_once():
    for _ in range(200):
        allocator = hurray.aligned_allocator()
        entered: list[int] = []
        left: list[int] = []
        all_tried = threading.Barrier(THREADS)

        def body(index, allocator=allocator, entered=entered, left=left, all_tried=all_tried):
            with contextlib.suppress(RuntimeError):
                allocator.__enter__()
                entered.append(index)
                assert np.empty(5).ctypes.data % 64 == 0
            all_tried.wait()
            with contextlib.suppress(RuntimeError):
                allocator.__exit__(None, None, None)
                left.append(index)

        in_threads(body)
        assert (len(entered), len(left)) == (1, 1)
        with allocator:  # and is free again
            pass


def test_allocators_of_several_threads_know_nothing_of_each_other():
    def body(index: int) -> None:
        for _ in range(200):
            with hurray.aligned_allocator():
                inside = np.empty(index + 1)
                with hurray.aligned_allocator():
                    nested = np.empty(index + 1)
            assert inside.ctypes.data % 64 == nested.ctypes.data % 64 == 0
            assert hurray.from_numpy(inside, copy=False).shape == (index + 1,)

    in_threads(body)


# ---- what is looked up once ----


def run_script(code: str) -> None:
    """Runs a script in a fresh process: it ends well and says nothing."""
    environment = dict(os.environ, PYTHONFAULTHANDLER="1")
    environment["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "")


FIRST_USES = {
    "NumPy": "assert t.to_numpy().tolist() == [[0.0] * 3] * 2",
    "ml_dtypes": "assert str(narrow.to_numpy().dtype) == 'bfloat16'",
    "display": "assert repr(t).startswith('hurray.Tensor(')",
    "allocator": "\n    with hurray.aligned_allocator():\n        pass",
    "asarray": "assert hurray.asarray(range(3)).shape == (3,)",
    "scipy": "assert hurray.from_scipy(sparse.eye_array(3, format='csr')).shape == (3, 3)",
}


@pytest.mark.parametrize("what", FIRST_USES)
def test_the_first_use_is_everybodys(what):
    """Modules, NumPy's table and the types of ml_dtypes are found by all threads at the same time."""
    run_script(
        f"""
        import sys, threading
        sys.setswitchinterval(1e-6)
        import hurray
        if {what!r} == "scipy":
            from scipy import sparse
        t = hurray.zeros([2, 3])
        narrow = hurray.zeros([2], dtype=hurray.bfloat16)
        barrier = threading.Barrier({THREADS})
        good = []
        def body():
            barrier.wait()
            {FIRST_USES[what].replace(chr(10), chr(10) + " " * 8)}
            good.append(True)
        threads = [threading.Thread(target=body) for _ in range({THREADS})]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(good) == {THREADS}, good
        """
    )


def test_types_of_ml_dtypes_stay_what_they_are():
    tags = [hurray.bfloat16, hurray.dtype.float8_e5m2, hurray.dtype.int4]
    hammer(
        [
            same(lambda: [hurray.zeros([4], dtype=hurray.bfloat16).to_numpy().dtype for _ in tags]),
            same(lambda: hurray.from_numpy(np.zeros(3, ml_dtypes.float8_e5m2)).dtype),
            same(lambda: hurray.from_numpy(np.zeros(3, ml_dtypes.int4)).to_numpy().dtype),
        ]
    )


# ---- memory that comes and goes ----


def test_tensors_change_hands():
    """Made by one thread, used by the next, dropped by the one after that."""
    rounds = 300
    boxes: list[list[object]] = [[] for _ in range(THREADS)]

    def body(index: int) -> None:
        mine, next_one = boxes[index], boxes[(index + 1) % THREADS]
        for step in range(rounds):
            source = np.full(100, step, np.int32)
            t = hurray.from_dlpack(hurray.from_numpy(source))
            next_one.append(t)
            next_one.append(t.__dlpack__(max_version=(1, 0)))
            next_one.append(memoryview(t))
            while mine:
                with contextlib.suppress(IndexError):
                    thing = mine.pop()
                    if isinstance(thing, hurray.Tensor):
                        assert len(set(np.asarray(thing).tolist())) == 1

    in_threads(body)


def test_weak_references_while_tensors_go():
    import weakref

    for _ in range(200):
        cell = [hurray.zeros([3])]
        watch = weakref.ref(cell[0])

        def body(index: int, cell=cell, watch=watch) -> None:
            if index == 0:
                cell.clear()
            t = watch()
            assert t is None or t.shape == (3,)

        in_threads(body)
        assert watch() is None


def test_a_list_that_changes_while_it_is_read():
    """asarray measures it again where it uses it: a tensor of what was there, or a refusal."""
    rows = [[1.0, 2.0, 3.0] for _ in range(20)]
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            rows.append([4.0, 5.0, 6.0])
            rows[0].append(1.0)
            rows[0].pop()
            rows.pop()

    def body(index: int) -> None:
        for _ in range(300):
            with contextlib.suppress(ValueError, IndexError):
                assert hurray.asarray(rows).shape[1] in (3, 4)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        in_threads(body)
    finally:
        done.set()
        thread.join()


# ---- without a GIL ----


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL")
def test_the_extension_does_not_ask_for_a_gil():
    run_script(
        """
        import sys
        import hurray
        hurray.zeros([3]).to_numpy()
        assert not sys._is_gil_enabled()
        """
    )
