"""Memory that runs out at each allocation in turn: MemoryError, and all is as it was before."""

from __future__ import annotations

import copy
import gc

import ml_dtypes  # noqa: F401 - what to_numpy would import is there before memory runs out
import numpy as np
import pytest

import hurray

_testcapi = pytest.importorskip("_testcapi", reason="this Python has no _testcapi")
if not hasattr(_testcapi, "set_nomemory"):
    pytest.skip("_testcapi has no set_nomemory", allow_module_level=True)

with hurray.aligned_allocator():
    ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)

TENSOR = hurray.from_numpy(ARRAY, copy=False)
BITS = hurray.asarray([True, False, True])


class Producer:
    """Gives away a new capsule each time, and knows no C exchange API."""

    def __dlpack__(self, **kwargs):
        return ARRAY.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return (1, 0)


class LegacyProducer(Producer):
    def __dlpack__(self, stream=None):
        return ARRAY.__dlpack__()


PRODUCER, LEGACY_PRODUCER = Producer(), LegacyProducer()

ACTIONS = {
    "from_dlpack": lambda: hurray.from_dlpack(PRODUCER),
    "from_dlpack, legacy": lambda: hurray.from_dlpack(LEGACY_PRODUCER),
    "from_dlpack, a copy": lambda: hurray.from_dlpack(PRODUCER, copy=True),
    "from_dlpack, exchange API": lambda: hurray.from_dlpack(TENSOR),
    "__dlpack__": lambda: TENSOR.__dlpack__(max_version=(1, 0)),
    "__dlpack__, a copy": lambda: TENSOR.__dlpack__(copy=True),
    "from_numpy": lambda: hurray.from_numpy(ARRAY),
    "__array__": lambda: TENSOR.__array__(),
    "__array__, bool": lambda: BITS.__array__(),
    "buffer": lambda: memoryview(TENSOR.buffer(0)),
    "T": lambda: TENSOR.T,
    "deepcopy": lambda: copy.deepcopy(TENSOR),
    "Tensor": lambda: hurray.Tensor(bytes(24), hurray.float32, (2, 3)),
    "full": lambda: hurray.full((2, 3), 1.5),
    "asarray": lambda: hurray.asarray([[1, 2], [3, 4]]),
    "descriptor": lambda: hurray.Descriptor.decode(TENSOR.descriptor.encode()),
}


def run_with_failure(action, index) -> bool:
    """Runs it with allocation number `index` failing; whether that made it fail."""
    try:
        _testcapi.set_nomemory(index, index + 1)
        action()
    except MemoryError:
        return True
    finally:
        _testcapi.remove_mem_hooks()
    return False


@pytest.mark.parametrize("action", ACTIONS.values(), ids=list(ACTIONS))
def test_every_allocation_may_fail(action):
    before = ARRAY.tobytes()
    action()  # what is made once is made
    gc.collect()
    survived = 0
    for index in range(2000):
        survived = 0 if run_with_failure(action, index) else survived + 1
        if survived == 20:  # none is left to fail; some failures are made good
            break
    assert survived == 20
    gc.collect()
    assert ARRAY.tobytes() == before
    action()
    assert hurray.asarray([1, 2, 3]).shape == (3,)


def test_an_allocator_whose_exit_failed_can_be_left_again():
    for index in range(30):
        allocator = hurray.aligned_allocator()
        leave = allocator.__enter__().__exit__
        if run_with_failure(lambda leave=leave: leave(None, None, None), index):
            with pytest.raises(RuntimeError, match="already active"):
                allocator.__enter__()
            leave(None, None, None)
        with pytest.raises(RuntimeError, match="not active"):
            leave(None, None, None)
