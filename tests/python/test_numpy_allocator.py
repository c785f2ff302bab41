"""hurray.aligned_allocator: NumPy's memory made 64-aligned (spec 8.5, NEP 49)."""

from __future__ import annotations

import contextvars
import gc
import threading

import numpy as np
import numpy.testing as npt
import pytest

import hurray

try:
    from numpy._core.multiarray import get_handler_name, get_handler_version
except ImportError:  # NumPy 1
    from numpy.core.multiarray import get_handler_name, get_handler_version

NAME = "hurray_aligned"
SIZES = [1, 7, 63, 64, 65, 1000, 4096, 100_000, 1 << 20]


def is_aligned(array):
    return array.ctypes.data % 64 == 0


def test_arrays_made_inside_are_aligned_and_shared():
    with hurray.aligned_allocator():
        arrays = [make(n, np.uint8) for n in SIZES for make in (np.empty, np.zeros, np.ones)]
        arrays.append(np.arange(100).reshape(4, 25) * 2.5)
    for a in arrays:
        assert get_handler_name(a) == NAME
        assert get_handler_version(a) == 1
        assert is_aligned(a)
        assert hurray.from_numpy(a, copy=False).shape == a.shape


def test_the_handler_is_restored():
    before = get_handler_name()
    assert before != NAME
    with hurray.aligned_allocator():
        assert get_handler_name() == NAME
    assert get_handler_name() == before
    with pytest.raises(KeyError), hurray.aligned_allocator():
        raise KeyError
    assert get_handler_name() == before
    assert get_handler_name(np.zeros(10)) == before


def test_it_nests():
    before = get_handler_name()
    with hurray.aligned_allocator():
        with hurray.aligned_allocator():
            inner = np.zeros(100)
        assert get_handler_name() == NAME
        outer = np.zeros(100)
    assert get_handler_name() == before
    assert is_aligned(inner) and is_aligned(outer)


def test_an_object_is_entered_once_at_a_time():
    allocator = hurray.aligned_allocator()
    before = get_handler_name()
    with allocator as entered:
        assert entered is allocator
        with pytest.raises(RuntimeError, match="already active"), allocator:
            pass
        assert get_handler_name() == NAME
    assert get_handler_name() == before
    with allocator:  # and again, afterwards
        assert get_handler_name() == NAME
    with pytest.raises(RuntimeError, match="not active"):
        allocator.__exit__(None, None, None)
    assert get_handler_name() == before


def test_zeros_are_zero():
    for n in SIZES:
        with hurray.aligned_allocator():
            dirty = np.full(n, 0xAB, np.uint8)
            del dirty
            assert not np.zeros(n, np.uint8).any()


@pytest.mark.parametrize("first", SIZES)
def test_resizing_keeps_alignment_and_contents(first):
    for second in SIZES:
        with hurray.aligned_allocator():
            a = np.arange(first, dtype=np.uint8)
        a.resize(second, refcheck=False)  # outside: by the handler that the array remembers
        assert is_aligned(a)
        kept = min(first, second)
        npt.assert_array_equal(a[:kept], np.arange(kept, dtype=np.uint8))
        assert not a[kept:].any()
        assert get_handler_name(a) == NAME


def test_arrays_outlive_the_block_and_the_object():
    allocator = hurray.aligned_allocator()
    with allocator:
        a = np.arange(10_000)
        views = [a[i::10] for i in range(10)]
    del allocator, a
    gc.collect()
    for i, view in enumerate(views):
        npt.assert_array_equal(view, np.arange(i, 10_000, 10))


def test_arrays_of_objects():
    with hurray.aligned_allocator():
        a = np.array([object() for _ in range(100)] + [None], dtype=object)
    assert is_aligned(a)
    del a
    gc.collect()


def test_too_much_is_a_memory_error():
    with hurray.aligned_allocator():
        for make in (np.empty, np.zeros):
            with pytest.raises(MemoryError):
                make(np.iinfo(np.intp).max // 8 - 16, np.float64)
        assert is_aligned(np.zeros(10))


def test_a_thread_begins_with_numpys_own():
    names = []
    with hurray.aligned_allocator():
        thread = threading.Thread(target=lambda: names.append(get_handler_name(np.zeros(10))))
        thread.start()
        thread.join()
        assert get_handler_name() == NAME
    assert names != [NAME]


def test_threads_do_not_disturb_each_other():
    barrier = threading.Barrier(4)
    wrong = []

    def work(inside):
        for _ in range(200):
            barrier.wait()
            if inside:
                with hurray.aligned_allocator():
                    wrong.extend([n for n in (10, 1000) if not is_aligned(np.zeros(n))])
            elif get_handler_name(np.zeros(10)) == NAME:
                wrong.append("inherited")

    threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_arrays_are_freed_by_another_thread():
    with hurray.aligned_allocator():
        arrays = [np.zeros(1000) for _ in range(100)]
    thread = threading.Thread(target=arrays.clear)
    thread.start()
    thread.join()


def test_it_takes_no_arguments():
    with pytest.raises(TypeError):
        hurray.aligned_allocator(64)
    with pytest.raises(TypeError):
        hurray.aligned_allocator(alignment=64)


def test_two_that_are_left_out_of_order_leave_the_outer_handler():
    """As documented; what was there first comes back when it is set."""
    first = get_handler_name()
    outer, inner = hurray.aligned_allocator(), hurray.aligned_allocator()

    def leave_out_of_order():
        outer.__enter__()
        inner.__enter__()
        outer.__exit__(None, None, None)
        names.append(get_handler_name())
        inner.__exit__(None, None, None)
        names.append(get_handler_name())
        with hurray.aligned_allocator():
            pass
        names.append(get_handler_name())
        assert is_aligned(np.ones(100))

    names: list[str] = []
    contextvars.copy_context().run(leave_out_of_order)
    assert names == [first, NAME, NAME]
    assert get_handler_name() == first  # the handler is that of a context
    for allocator in (outer, inner):
        with pytest.raises(RuntimeError, match="not active"):
            allocator.__exit__(None, None, None)
