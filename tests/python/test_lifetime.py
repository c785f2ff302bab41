"""Who keeps memory alive, and who frees it, when, and on which thread (spec 8.6, 7.2)."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import gc
import importlib.util
import mmap
import os
import subprocess
import sys
import textwrap
import threading
import weakref
from pathlib import Path

import leaks
import numpy as np
import pytest
from dlpack_abi import (
    DELETER,
    FROM_OBJECT,
    TO_OBJECT,
    Producer,
    aligned,
    deleter_of,
    drop_reference,
    exchange_api,
    take,
)

import hurray

HERE = Path(__file__).parent
COUNT = 1000
VALUES = np.arange(COUNT, dtype=np.float32)


@pytest.fixture(autouse=True, scope="module")
def unfrozen_afterwards():
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def quick_collections(unfrozen_afterwards):
    """Collections need not look at all that the libraries imported so far have made."""
    gc.collect()
    gc.freeze()


# ---- every pair of a producer and a consumer ----


def numpy_array() -> np.ndarray:
    array = aligned((COUNT,))
    array[:] = VALUES
    return array


def torch_tensor():
    import torch

    return torch.arange(COUNT, dtype=torch.float32)


def jax_array():
    import jax.numpy as jnp

    return jnp.arange(COUNT, dtype=jnp.float32)


def bytearray_floats() -> memoryview:
    return memoryview(bytearray(VALUES.tobytes())).cast("f")


def mapped_floats() -> memoryview:
    mapped = mmap.mmap(-1, VALUES.nbytes)
    mapped[:] = VALUES.tobytes()
    return memoryview(mapped).cast("f")


PRODUCERS = {
    "bytes": lambda: hurray.Tensor(VALUES.tobytes(), hurray.float32, [COUNT]),
    "bytearray": lambda: hurray.asarray(bytearray_floats()),
    "mmap": lambda: hurray.asarray(mapped_floats()),
    "numpy": lambda: hurray.from_numpy(numpy_array(), copy=False),
    "numpy misaligned": lambda: hurray.from_numpy(VALUES[1:][: COUNT - 1]),
    "numpy dlpack": lambda: hurray.from_dlpack(numpy_array(), copy=False),
    "numpy capsule": lambda: hurray.from_dlpack(numpy_array().__dlpack__()),
    "ctypes": lambda: hurray.from_dlpack(Producer(numpy_array()), copy=False),
    "hurray": lambda: hurray.from_dlpack(hurray.from_numpy(numpy_array()), copy=False),
    "hurray view": lambda: hurray.from_numpy(numpy_array().reshape(1, COUNT)).T.T,
    "torch": lambda: hurray.from_torch(torch_tensor(), copy=False),
    "torch capsule": lambda: hurray.from_dlpack(torch_tensor().__dlpack__()),
    "torch view": lambda: hurray.from_torch(torch_tensor().view(1, COUNT).expand(2, COUNT)),
    "jax": lambda: hurray.from_dlpack(jax_array(), copy=False),
}


def jax_from_dlpack(t):
    import jax.numpy as jnp

    return jnp.from_dlpack(t)


def torch_from_dlpack(t):
    import torch

    return torch.from_dlpack(t)


CONSUMERS = {
    "numpy.from_dlpack": np.from_dlpack,
    "numpy.asarray": np.asarray,
    "memoryview": memoryview,
    "numpy of a memoryview": lambda t: np.asarray(memoryview(t)),
    "hurray": hurray.from_dlpack,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "to_torch": lambda t: t.to_torch(),
    "torch.from_dlpack": torch_from_dlpack,
    "jax": jax_from_dlpack,
}

# A JAX array has no strides, so that what is not contiguous cannot be shared with it.
NOT_FOR_JAX = {"torch view"}


def installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)


def needs(*names: str) -> list[pytest.MarkDecorator]:
    """The marks of a test of producers and consumers with these names."""
    modules = [module for module in ("torch", "jax") if any(module in name for name in names)]
    if not modules:
        return []
    reason = " or ".join(modules) + " is not installed"
    return [pytest.mark.frameworks, pytest.mark.skipif(not installed(*modules), reason=reason)]


PAIRS = [
    pytest.param(producer, consumer, marks=needs(producer, consumer), id=f"{producer}-{consumer}")
    for producer in PRODUCERS
    for consumer in CONSUMERS
    if not (consumer == "jax" and producer in NOT_FOR_JAX)
]


def elements(x: object) -> list[float]:
    """The values of whatever a consumer made, in a flat list."""
    array = np.from_dlpack(x) if isinstance(x, hurray.Tensor) else np.asarray(x)
    return array.reshape(-1)[-COUNT + 1 :].tolist()


EXPECTED = VALUES[1:].tolist()


def make_noise() -> list[np.ndarray]:
    """Allocations of the same size, which would land where something was freed too early."""
    return [np.full(COUNT, 7.0, np.float32) for _ in range(20)]


def exchange(producer: str, consumer: str) -> None:
    t = PRODUCERS[producer]()
    x = CONSUMERS[consumer](t)
    del t
    gc.collect()
    noise = make_noise()
    assert elements(x) == EXPECTED
    del noise, x
    gc.collect()


@pytest.mark.parametrize(("producer", "consumer"), PAIRS)
def test_the_last_name_keeps_the_memory(producer, consumer):
    exchange(producer, consumer)


@pytest.mark.parametrize(("producer", "consumer"), PAIRS)
def test_dropping_the_consumer_first(producer, consumer):
    t = PRODUCERS[producer]()
    x = CONSUMERS[consumer](t)
    del x
    gc.collect()
    noise = make_noise()
    assert elements(t) == EXPECTED
    del noise


def in_threads(action, count: int = 8) -> None:
    """Runs action(index) in threads that start together; the first failure is raised here."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(count)

    def body(index: int) -> None:
        try:
            barrier.wait()
            action(index)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=body, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def run_pairs_in_threads(pairs: list[tuple[str, str]]) -> None:
    def body(index: int) -> None:
        for step in range(len(pairs)):
            exchange(*pairs[(step + index * 7) % len(pairs)])

    in_threads(body)


def test_all_pairs_in_8_threads():
    run_pairs_in_threads([pair.values for pair in PAIRS if not pair.marks])


@pytest.mark.frameworks
@pytest.mark.skipif(not installed("torch", "jax"), reason="PyTorch or JAX is not installed")
def test_all_pairs_of_frameworks_in_8_threads():
    run_pairs_in_threads([pair.values for pair in PAIRS if pair.marks][::3])


def test_one_tensor_in_8_threads():
    """Everybody exports, imports and drops the same memory."""
    array = numpy_array()
    t = hurray.from_numpy(array, copy=False)
    before = sys.getrefcount(array)

    def body(index: int) -> None:
        for step in range(2000):
            version = (1, 0) if (step + index) % 2 else None
            view = hurray.from_dlpack(t.__dlpack__(max_version=version))
            assert np.from_dlpack(view)[index] == index
            t.__dlpack__()
            view.buffer(0)

    in_threads(body)
    gc.collect()
    assert sys.getrefcount(array) == before
    assert elements(t) == EXPECTED


def test_one_capsule_is_consumed_by_one_of_8_threads():
    producer = Producer(numpy_array())
    for _ in range(200):
        capsule = producer.capsule()
        got: list[hurray.Tensor] = []

        def body(index: int, capsule=capsule, got=got) -> None:
            with contextlib.suppress(hurray.BufferError):
                got.append(hurray.from_dlpack(capsule))

        in_threads(body)
        assert len(got) == 1
        del got
    producer_count = len(producer.capsules)
    del capsule, body
    gc.collect()
    assert producer.deleted == producer_count


# ---- deleters, called from anywhere ----

libc = ctypes.CDLL(None)
has_pthreads = hasattr(libc, "pthread_create")
needs_pthreads = pytest.mark.skipif(not has_pthreads, reason="needs POSIX threads")


def call_on_native_thread(function: int, argument: int) -> None:
    """function(argument) on a thread that Python has never seen."""
    thread = ctypes.c_void_p()
    create, join = libc.pthread_create, libc.pthread_join
    create.argtypes = [ctypes.c_void_p] * 4
    join.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    assert create(ctypes.byref(thread), None, function, argument) == 0
    assert join(thread, None) == 0


def struct_deleter(pointer: int, version) -> int:
    return ctypes.cast(deleter_of(pointer, versioned=version is not None), ctypes.c_void_p).value


def call_natively(pointer: int, version) -> None:
    call_on_native_thread(struct_deleter(pointer, version), pointer)


def call_without_gil(pointer: int, version) -> None:
    """ctypes releases the GIL around a CFUNCTYPE function."""
    DELETER(struct_deleter(pointer, version))(pointer)


def call_with_gil(pointer: int, version) -> None:
    ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(struct_deleter(pointer, version))(pointer)


def call_in_python_thread(pointer: int, version) -> None:
    thread = threading.Thread(target=call_without_gil, args=(pointer, version))
    thread.start()
    thread.join()


CALLS = [
    pytest.param(call_natively, marks=needs_pthreads),
    call_without_gil,
    call_with_gil,
    call_in_python_thread,
]

SHARING = {
    "from_numpy": lambda array: hurray.from_numpy(array, copy=False),
    "from_dlpack": lambda array: hurray.from_dlpack(array, copy=False),
    "asarray of a memoryview": lambda array: hurray.asarray(memoryview(array)),
}


@pytest.mark.parametrize("version", [None, (1, 0)], ids=str)
@pytest.mark.parametrize("share", SHARING)
@pytest.mark.parametrize("call", CALLS)
def test_a_deleter_runs_anywhere(call, share, version):
    array = numpy_array()
    watch = weakref.ref(array)
    pointer = take(SHARING[share](array).__dlpack__(max_version=version))
    del array
    gc.collect()
    assert watch() is not None
    call(pointer, version)
    assert watch() is None


@needs_pthreads
def test_deleters_on_native_threads_beside_running_python():
    """The object is released while another thread is in the middle of Python code."""
    done = threading.Event()

    def busy() -> None:
        while not done.is_set():
            sum(range(100))

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    array = numpy_array()
    before = sys.getrefcount(array)
    try:
        for _ in range(300):
            pointer = take(hurray.from_numpy(array, copy=False).__dlpack__(max_version=(1, 0)))
            call_natively(pointer, (1, 0))
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert sys.getrefcount(array) == before


@needs_pthreads
def test_a_null_struct_is_no_reason_to_crash():
    pointer = take(hurray.zeros([3]).__dlpack__())
    function = struct_deleter(pointer, None)
    call_on_native_thread(function, None)
    call_on_native_thread(function, pointer)


def test_a_deleter_in_python_that_fails_spoils_nothing():
    """It cannot raise; what it prints is its own affair, and an exception under way survives."""
    seen: list[int] = []
    deleter = DELETER(lambda pointer: seen.append(pointer))

    class Counted(Producer):
        def struct(self):
            result = super().struct()
            result.deleter = ctypes.cast(deleter, ctypes.c_void_p).value
            return result

    def raise_with_a_tensor() -> None:
        t = hurray.from_dlpack(Counted(numpy_array()))
        assert t.shape == (COUNT,)
        raise KeyError("under way")

    with pytest.raises(KeyError, match="under way") as caught:
        raise_with_a_tensor()
    del caught
    gc.collect()
    assert len(seen) == 1

    def refuse() -> None:
        hurray.from_dlpack(Counted(numpy_array())).__dlpack__(dl_device=(2, 0))

    with pytest.raises(hurray.UnsupportedError, match="dl_device"):
        refuse()
    gc.collect()
    assert len(seen) == 2


# ---- the end of the interpreter ----


def run_script(code: str, *, expected_output: str = "") -> None:
    """Runs a script in a process of its own: it ends well, and says nothing on stderr."""
    environment = dict(os.environ, JAX_PLATFORMS="cpu", PYTHONFAULTHANDLER="1")
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), *sys.path])
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert (result.returncode, result.stderr, result.stdout) == (0, "", expected_output)


PRELUDE = """
import ctypes, gc, sys, threading
import numpy as np
import hurray
from dlpack_abi import Producer, aligned, take, deleter_of
array = aligned((1000,))
t = hurray.from_numpy(array, copy=False)
"""

ENDINGS = {
    "capsules never consumed": """
        legacy = t.__dlpack__()
        versioned = t.__dlpack__(max_version=(1, 0))
        copied = t.__dlpack__(copy=True)
    """,
    "capsules consumed": """
        capsules = [t.__dlpack__(), t.__dlpack__(max_version=(1, 0))]
        tensors = [hurray.from_dlpack(capsule) for capsule in capsules]
    """,
    "capsules of NumPy": """
        capsule = array.__dlpack__(max_version=(1, 0))
        u = hurray.from_dlpack(array.__dlpack__())
    """,
    "arrays over tensors": """
        a = np.from_dlpack(t)
        b = np.asarray(t)
        m = memoryview(t)
    """,
    "a cycle": """
        class Node:
            pass
        node = Node()
        node.itself, node.tensor, node.capsule = node, t, t.__dlpack__()
        node.array = np.from_dlpack(hurray.from_dlpack(t))
        del node
    """,
    "a cycle through the memory": """
        class Owner(np.ndarray):
            pass
        owner = aligned((8,)).view(Owner)
        owner.tensor = hurray.from_numpy(owner, copy=False)
        owner.capsule = owner.tensor.__dlpack__()
        del owner
    """,
    "in builtins and modules": """
        import builtins
        builtins.kept = t.__dlpack__()
        sys.kept = [t, np.from_dlpack(t)]
        hurray.kept = t.T if t.ndim == 2 else t.buffer(0)
        np.kept = hurray.from_dlpack(array)
    """,
    "with __del__": """
        class Late:
            def __init__(self):
                self.tensor = t
            def __del__(self):
                assert self.tensor.__dlpack__() is not None
        late = Late()
        sys.late = Late()
    """,
    "in a daemon thread": """
        ready = threading.Event()
        def body():
            mine = hurray.from_dlpack(t)
            capsule = mine.__dlpack__()
            ready.set()
            threading.Event().wait()
        threading.Thread(target=body, daemon=True).start()
        ready.wait()
    """,
    "in a thread-local": """
        local = threading.local()
        local.kept = t.__dlpack__()
    """,
    "after the interpreter": """
        # Deleters that a C++ library calls from its destructors, when Python is gone.
        for share in (
            hurray.from_numpy(array, copy=False),
            hurray.from_dlpack(array, copy=False),
            hurray.asarray(memoryview(array)),
            hurray.Tensor(bytes(64), hurray.uint8, [64]),
        ):
            for version in (None, (1, 0)):
                pointer = take(share.__dlpack__(max_version=version))
                deleter = deleter_of(pointer, versioned=version is not None)
                register = ctypes.CDLL(None)["__cxa_atexit"]
                register.argtypes = [ctypes.c_void_p] * 3
                assert register(ctypes.cast(deleter, ctypes.c_void_p), pointer, None) == 0
    """,
    "sys.exit": """
        kept = t.__dlpack__()
        sys.exit(0)
    """,
    "without a collector": """
        gc.disable()
        kept = [t, t.__dlpack__(max_version=(1, 0))]
        kept.append(kept)
        del kept
    """,
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_end_of_the_interpreter(ending):
    if ending == "after the interpreter" and not hasattr(libc, "__cxa_atexit"):
        pytest.skip("the C library has no __cxa_atexit")
    run_script(PRELUDE + textwrap.dedent(ENDINGS[ending]))


FRAMEWORK_ENDINGS = {
    "torch over hurray": "import torch\nx = t.to_torch()\ny = torch.from_dlpack(t)",
    "hurray over torch": "import torch\nx = torch.zeros(99)\nu = hurray.from_torch(x)\ndel x",
    "torch capsules": "import torch\nx = torch.zeros(99).__dlpack__()\nu = hurray.from_dlpack(x)",
    "jax over hurray": "import jax.numpy as jnp\nx = jnp.from_dlpack(t)",
    "hurray over jax": "import jax.numpy as jnp\nu = hurray.from_dlpack(jnp.zeros(99))",
    "all of them": """
        import torch, jax.numpy as jnp
        kept = [t, t.to_torch(), jnp.from_dlpack(t), hurray.from_torch(torch.zeros(9)),
                hurray.from_dlpack(jnp.zeros(9)), t.__dlpack__(), np.from_dlpack(t)]
        kept.append(kept)
        del t, array
    """,
}


@pytest.mark.parametrize(
    "ending",
    [pytest.param(ending, marks=needs(FRAMEWORK_ENDINGS[ending])) for ending in FRAMEWORK_ENDINGS],
)
def test_the_end_of_the_interpreter_with_frameworks(ending):
    run_script(PRELUDE + textwrap.dedent(FRAMEWORK_ENDINGS[ending]))


def test_import_and_end():
    run_script("import hurray")
    run_script("import hurray; t = hurray.zeros([3]); c = t.__dlpack__()")


# ---- subinterpreters ----

SUBINTERPRETERS = '''
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

def create_for_ctypes():
    """Before CPython 3.13, _ctypes wants an interpreter that shares everything."""
    try:
        return interpreters.create(isolated=False)
    except TypeError:
        return interpreters.create()

def run_in(interpreter, code):
    result = interpreters.run_string(interpreter, code)
    if result is not None:
        raise RuntimeError(result)
'''


def has_subinterpreters() -> bool:
    return any(
        importlib.util.find_spec(name) is not None
        for name in ("_interpreters", "_xxsubinterpreters")
    )


needs_subinterpreters = pytest.mark.skipif(
    not has_subinterpreters(), reason="this Python has no subinterpreters to make from Python"
)

# ctypes and NumPy may refuse to be imported in a subinterpreter; these do without.
IN_A_SUBINTERPRETER = """
import gc, mmap
import hurray
mapped = mmap.mmap(-1, 4096)
t = hurray.asarray(mapped)
assert hurray.from_dlpack(t).shape == (4096,)
assert hurray.Dtype.from_name("float32") is hurray.float32
legacy, versioned = t.__dlpack__(), t.__dlpack__(max_version=(1, 0))
u = hurray.from_dlpack(versioned)
mapped[7] = 42
assert memoryview(u)[7] == 42
try:
    t.__dlpack__(dl_device=(2, 0))
except hurray.UnsupportedError as error:
    assert isinstance(error, BufferError)
node = []
node.extend([node, t, u, legacy])
"""


@needs_subinterpreters
def test_subinterpreters_one_after_another():
    run_script(
        SUBINTERPRETERS
        + f"script = {IN_A_SUBINTERPRETER!r}\n"
        + textwrap.dedent(
            """
            import hurray
            t = hurray.zeros([3])
            for _ in range(5):
                interpreter = interpreters.create()
                run_in(interpreter, script)
                interpreters.destroy(interpreter)
            capsule = t.__dlpack__()
            assert hurray.from_dlpack(capsule).shape == (3,)
            try:
                t.__dlpack__(dl_device=(2, 0))
            except hurray.UnsupportedError:
                print("ok")
            """
        ),
        expected_output="ok\n",
    )


@needs_subinterpreters
def test_subinterpreters_side_by_side():
    run_script(
        SUBINTERPRETERS
        + f"script = {IN_A_SUBINTERPRETER!r}\n"
        + textwrap.dedent(
            """
            ids = [interpreters.create() for _ in range(4)]
            for interpreter in ids:
                run_in(interpreter, script)
            for interpreter in ids[::-1]:
                run_in(interpreter, "assert memoryview(u)[7] == 42")
            for interpreter in ids:
                interpreters.destroy(interpreter)
            """
        )
    )


# Shares memory of the interpreter and writes the address of the struct into a file. NumPy refuses to
# be there a second time, so that dlpack_abi cannot help.
EXPORT_TO_FILE = """
import ctypes, mmap
import hurray
mapped = mmap.mmap(-1, 4096)
capsule = hurray.asarray(mapped).__dlpack__(max_version=(1, 0))
get = ctypes.pythonapi.PyCapsule_GetPointer
get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
pointer = get(capsule, b"dltensor_versioned")
used = ctypes.create_string_buffer(b"used_dltensor_versioned")
ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(capsule), used)
with open({file!r}, "w") as file:
    file.write(str(pointer))
"""


def is_it_freed(expected: bool) -> str:
    """Code that says whether the export of `mapped` is gone: then it can be closed."""
    return textwrap.dedent(
        f"""
        try:
            mapped.close()
            freed = True
        except BufferError:
            freed = False
        assert freed is {expected}
        """
    )


@needs_subinterpreters
@needs_pthreads
@pytest.mark.parametrize("how", ["alive", "alive, natively", "destroyed", "destroyed, natively"])
def test_a_deleter_of_another_interpreter(how, tmp_path):
    """Released in its own interpreter while that lives, and left alone when it does not."""
    file = str(tmp_path / "pointer")
    destroy = "interpreters.destroy(interpreter)"
    run_script(
        SUBINTERPRETERS
        + f"script = {EXPORT_TO_FILE.format(file=file)!r}\n"
        + textwrap.dedent(
            f"""
            import sys
            from dlpack_abi import deleter_of
            from test_lifetime import call_natively, call_without_gil
            interpreter = create_for_ctypes()
            run_in(interpreter, script)
            pointer = int(open({file!r}).read())
            alive = {how.startswith("alive")}
            if alive:
                run_in(interpreter, {is_it_freed(False)!r})
            else:
                {destroy}
            ({"call_natively" if "natively" in how else "call_without_gil"})(pointer, (1, 0))
            if alive:
                run_in(interpreter, {is_it_freed(True)!r})
                {destroy}
            """
        )
    )


@needs_subinterpreters
@needs_pthreads
def test_native_threads_after_there_was_a_subinterpreter():
    """Before CPython 3.12, PyGILState_Check answers nothing any more from then on."""
    run_script(
        SUBINTERPRETERS
        + textwrap.dedent(
            """
            interpreters.destroy(interpreters.create())
            import test_lifetime
            test_lifetime.test_deleters_on_native_threads_beside_running_python()
            """
        )
    )


# ---- leaks ----

REPETITIONS = 100_000


def refused(call, exception) -> None:
    try:
        call()
    except exception:
        return
    raise AssertionError("not refused")


def c_exchange(t: hurray.Tensor):
    """Through the C functions, and back."""
    api = exchange_api(hurray.Tensor)
    export = FROM_OBJECT(api.managed_tensor_from_py_object_no_sync)
    take_in = TO_OBJECT(api.managed_tensor_to_py_object_no_sync)
    struct, result = ctypes.c_void_p(), ctypes.c_void_p()

    def once() -> None:
        export(id(t), ctypes.byref(struct))
        take_in(struct.value, ctypes.byref(result))
        drop_reference(result.value)

    return once


def leak_kinds(array: np.ndarray, t: hurray.Tensor) -> dict[str, object]:
    misaligned = aligned((16,), off_by=4)
    flags = aligned((16,), np.bool_)
    bits = hurray.from_numpy(flags)
    return {
        "a legacy capsule": t.__dlpack__,
        "a versioned capsule": lambda: t.__dlpack__(max_version=(1, 3)),
        "a copy in a capsule": lambda: t.__dlpack__(copy=True),
        "a capsule there and back": lambda: hurray.from_dlpack(t.__dlpack__()),
        "hurray.from_dlpack(t)": lambda: hurray.from_dlpack(t),
        "numpy.from_dlpack(t)": lambda: np.from_dlpack(t),
        "hurray.from_dlpack(array)": lambda: hurray.from_dlpack(array),
        "hurray.from_dlpack of a misaligned array": lambda: hurray.from_dlpack(misaligned),
        "hurray.from_dlpack of bools": lambda: hurray.from_dlpack(flags),
        "hurray.from_numpy(array)": lambda: hurray.from_numpy(array),
        "hurray.asarray(memoryview)": lambda: hurray.asarray(memoryview(array)),
        "memoryview(t)": lambda: memoryview(t),
        "the C functions": c_exchange(t),
        "__dlpack_device__": t.__dlpack_device__,
        "a view": lambda: t.buffer(0),
        "a refused export": lambda: refused(bits.__dlpack__, BufferError),
        "a refused dl_device": lambda: refused(lambda: t.__dlpack__(dl_device=(2, 0)), BufferError),
        "a refused copy": lambda: refused(
            lambda: hurray.from_dlpack(misaligned, copy=False), hurray.CopyRequiredError
        ),
        "a refused object": lambda: refused(lambda: hurray.from_dlpack(1), TypeError),
    }


@pytest.mark.parametrize("kind", leak_kinds(aligned((16,)), hurray.zeros([16])))
def test_exchanges_leak_nothing(kind):
    array = aligned((16,))
    t = hurray.from_numpy(array, copy=False)
    leaks.check(leak_kinds(array, t)[kind], [array, t], repetitions=REPETITIONS)
    # One export that was not given back would keep the array.
    watch = weakref.ref(array)
    del array, t
    assert watch() is None


def framework_leak_kinds() -> dict[str, object]:
    """By kind: a function that gives the action and the objects to watch."""

    def torch_out():
        t = hurray.zeros([16], dtype=hurray.float32)
        return t.to_torch, [t]

    def torch_in():
        x = torch_tensor()
        return (lambda: hurray.from_torch(x)), [x]

    def torch_float8():
        import torch

        x = torch.zeros(64, dtype=torch.float8_e5m2)
        return (lambda: hurray.from_torch(x).to_torch()), [x]

    def torch_refused():
        import torch

        x = torch.zeros(16, requires_grad=True)
        refuse = lambda: refused(lambda: hurray.from_dlpack(x), hurray.UnsupportedError)  # noqa: E731
        return refuse, [x]

    def jax_in():
        x = jax_array()
        return (lambda: hurray.from_dlpack(x)), [x]

    return {
        "to_torch": torch_out,
        "from_torch": torch_in,
        "float8 torch": torch_float8,
        "refused torch": torch_refused,
        "from jax": jax_in,
    }


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=needs(kind)) for kind in framework_leak_kinds()]
)
def test_exchanges_with_frameworks_leak_nothing(kind):
    action, objects = framework_leak_kinds()[kind]()
    leaks.check(action, objects, repetitions=REPETITIONS)


@pytest.mark.frameworks
@pytest.mark.skipif(not installed("jax"), reason="JAX is not installed")
def test_exchanges_to_jax_leak_nothing():
    """JAX frees in batches, and its heap takes long to find its size: only the memory is watched."""
    array = aligned((16,))
    watch = weakref.ref(array)
    t = hurray.from_numpy(array, copy=False)
    for _ in range(REPETITIONS):
        jax_from_dlpack(t)
    del array, t
    gc.collect()
    assert watch() is None
