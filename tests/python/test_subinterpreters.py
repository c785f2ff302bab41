"""Several interpreters in one process, sharing a GIL or each with its own (spec 8.3).

Each test is a script of its own: what a subinterpreter leaves behind must not be another test's.
"""

from __future__ import annotations

import importlib.util
import textwrap

import pytest
from test_lifetime import SUBINTERPRETERS, needs_pthreads, needs_subinterpreters, run_script

pytestmark = needs_subinterpreters

# From CPython 3.12 on, interpreters can have a GIL each; those of 3.11 share one.
GILS = ["own", "shared"] if importlib.util.find_spec("_interpreters") else ["shared"]
with_gils = pytest.mark.parametrize("gil", GILS)

CREATE = """
def create(gil):
    if gil == "own":
        return interpreters.create()
    for arguments in (("legacy",), ()):
        try:
            return interpreters.create(*arguments)
        except (TypeError, ValueError):
            pass
    return interpreters.create(isolated=False)
"""

# NumPy and ctypes may refuse to be imported a second time; this does without.
EVERYTHING = """
import copy, gc, pickle
import hurray
from hurray import *
f32, cpu = hurray.float32, hurray.device.cpu
layouts = [
    RowMajorLayout(), ColMajorLayout(), StridedLayout((6, 1)), TiledLayout((2, 3)),
    MortonLayout((2, 2)), HilbertLayout(2, 2), CooLayout(3), CsrLayout(3), CscLayout(3),
    CsfLayout(2, (1, 0, 2)), BlockPagedLayout(4, 5, 0, 2), CompositeLayout("group", 1),
    PrivateExtensionLayout(0xF0, 1), UnknownLayout(0x30),
]
schemes = [
    PerTensorAffine(0.5, 1), PerChannelAffine.symmetric(0, 1),
    PerBlockAffine.symmetric(0, 32, 1, hurray.bfloat16), NF4(0, 64, 1), MXFP(0, 32, 1),
]
sections = [Statistics(nnz=3), Shard((16,), (0,)), ExtensionType(bit_width=24)]
for value in layouts + schemes + sections:
    assert copy.deepcopy(value) == value and repr(value)
    assert pickle.loads(pickle.dumps(value)) == value
t = hurray.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=f32)
assert t.device is cpu and t.dtype is f32 and t.layout == layouts[0]
assert memoryview(t).tolist() == [[1, 2, 3], [4, 5, 6]]
assert memoryview(t.to_layout(TiledLayout((2, 2))).to_layout(ColMajorLayout()).T).shape == (3, 2)
sparse = t.to_layout(CsrLayout(0))
assert memoryview(sparse.values).tolist() == [1, 2, 3, 4, 5, 6]
sparse.verify()
assert hurray.from_hurray(sparse).descriptor == sparse.descriptor
assert hurray.from_dlpack(t.__dlpack__(max_version=(1, 3))).shape == (2, 3)
assert hurray.from_dlpack(t).shape == hurray.from_dlpack(t.__dlpack__()).shape
assert Descriptor.decode(t.descriptor.encode()) == t.descriptor
assert memoryview(pickle.loads(pickle.dumps(t, 5))) == memoryview(copy.deepcopy(t))
half = hurray.Tensor(bytes(8), hurray.int8, (8,), shard=Shard((8,), (0,)))
whole = Composite("partition", shape=(8,), dtype=hurray.int8, members=[half])
assert whole == pickle.loads(pickle.dumps(whole))
assert hurray.linspace(0, 1, 3).shape == hurray.arange(3).shape == hurray.ones([3]).shape
for call, error in [
    (lambda: hurray.zeros([-1]), InvalidDescriptorError),
    (lambda: hurray.Tensor(b"", f32, [3]), hurray.BufferError),
    (lambda: hurray.zeros([3], dtype=hurray.bool).__dlpack__(), UnsupportedError),
    (lambda: hurray.Tensor(b"", "float32", [3]), TypeError),
]:
    try:
        call()
    except error:
        pass
    else:
        raise AssertionError(error)
node = [t, t.__dlpack__(), t.__hurray__()]
node.append(node)
"""


def run(code: str) -> None:
    """A script with `interpreters`, `run_in`, `create`, and EVERYTHING as `everything`."""
    run_script(SUBINTERPRETERS + CREATE + f"everything = {EVERYTHING!r}\n" + textwrap.dedent(code))


@with_gils
def test_everything_works_in_several_at_once(gil):
    run(
        f"""
        import hurray
        ids = [create({gil!r}) for _ in range(4)]
        for interpreter in ids:
            run_in(interpreter, everything)
        exec(everything, {{}})
        for interpreter in ids[::-1]:
            run_in(interpreter, "assert memoryview(t).tolist() == [[1, 2, 3], [4, 5, 6]]")
            interpreters.destroy(interpreter)
        exec(everything, {{}})
        """
    )


@with_gils
def test_interpreters_in_threads(gil):
    """With a GIL each they run at the same time."""
    run(
        f"""
        import threading
        import hurray
        done = []
        def body():
            interpreter = create({gil!r})
            for _ in range(3):
                run_in(interpreter, everything)
            interpreters.destroy(interpreter)
            done.append(True)
        threads = [threading.Thread(target=body) for _ in range(4)]
        for thread in threads:
            thread.start()
        exec(everything, {{}})
        for thread in threads:
            thread.join()
        assert len(done) == 4
        """
    )


def test_types_are_each_interpreters_own():
    run(
        """
        import hurray
        interpreter = create("shared")
        run_in(interpreter, f"import hurray; assert id(hurray.Tensor) != {id(hurray.Tensor)}")
        run_in(interpreter, f"assert id(hurray.float32) != {id(hurray.float32)}")
        interpreters.destroy(interpreter)
        assert hurray.zeros([3], dtype=hurray.float32).dtype is hurray.float32
        """
    )


@with_gils
def test_fifty_of_them_leave_little(gil):
    """What they leave is what the same interpreters leave without hurray, and not much more."""
    run(
        f"""
        import sys
        import leaks
        import hurray
        def cycle(code, count):
            for _ in range(count):
                interpreter = create({gil!r})
                run_in(interpreter, code)
                interpreters.destroy(interpreter)
        if leaks.heap_bytes is None:
            sys.exit()
        bare = "import copy, gc, pickle, enum, functools, contextlib, dataclasses, typing, math"
        def growth(code):
            cycle(code, 5)
            before = leaks.heap_bytes()
            cycle(code, 50)
            return (leaks.heap_bytes() - before) / 50
        without, with_hurray = growth(bare), growth(everything)
        # The state of the module and one table of its types alone have more.
        assert with_hurray < without + 16384, (without, with_hurray)
        """
    )


# Leaves the address of a struct with memory of the main interpreter in main's file, and calls its
# deleter from a thread of the subinterpreter.
DELETE_FROM_THREAD = """
import ctypes, threading
deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)({deleter})  # releases the GIL
def call():
    deleter({pointer})
if {threaded}:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
else:
    call()
"""


@needs_pthreads
@pytest.mark.parametrize("threaded", [False, True], ids=["its first thread", "a thread of its own"])
def test_memory_of_the_main_interpreter_is_released_by_another(threaded):
    """The last reference is dropped where it belongs, in the main interpreter."""
    run(
        f"""
        import ctypes, gc, weakref
        import hurray
        from dlpack_abi import aligned, deleter_of, take
        script = {DELETE_FROM_THREAD!r}
        array = aligned((10,))
        watch = weakref.ref(array)
        pointer = take(hurray.from_numpy(array, copy=False).__dlpack__(max_version=(1, 0)))
        del array
        gc.collect()
        assert watch() is not None
        deleter = ctypes.cast(deleter_of(pointer, versioned=True), ctypes.c_void_p).value
        interpreter = create_for_ctypes()
        run_in(interpreter, script.format(deleter=deleter, pointer=pointer, threaded={threaded}))
        assert watch() is None
        interpreters.destroy(interpreter)
        """
    )


IMPORT_FROM_STRUCT = """
import ctypes
import hurray
new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi))
name = ctypes.create_string_buffer(b"dltensor_versioned")
t = hurray.from_dlpack(new({pointer}, name, None))
assert memoryview(t).tolist() == list(range(10))
memoryview(t)[3] = 42
"""


@pytest.mark.parametrize("how", ["dropped first", "outlives its owner's name"])
def test_a_struct_crosses_into_another_interpreter(how):
    """Memory of the main interpreter, as a tensor of another one."""
    run(
        f"""
        import gc, weakref
        import numpy as np
        import hurray
        from dlpack_abi import aligned, take
        script = {IMPORT_FROM_STRUCT!r}
        array = aligned((10,))
        array[...] = range(10)
        watch = weakref.ref(array)
        pointer = take(hurray.from_numpy(array, copy=False).__dlpack__(max_version=(1, 0)))
        interpreter = create_for_ctypes()
        run_in(interpreter, script.format(pointer=pointer))
        assert array[3] == 42
        if {how == "dropped first"}:
            run_in(interpreter, "import gc; del t; gc.collect()")
        del array
        gc.collect()
        assert (watch() is None) is {how == "dropped first"}
        interpreters.destroy(interpreter)
        assert watch() is None
        """
    )
