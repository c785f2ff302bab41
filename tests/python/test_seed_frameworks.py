"""The snippets of the interop guides that concern DLPack and the frameworks, exactly as shown.

Each snippet is a string that is executed line by line as a user would type it; names carry on from
one snippet of a page to the next. The NumPy-only ones are in test_seed_numpy.py.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import textwrap

import numpy as np
import pytest
from dlpack_abi import DTYPE_CODES, data_pointer

import hurray


def run(snippet: str, **names: object) -> dict[str, object]:
    namespace: dict[str, object] = {"__name__": "snippet", **names}
    exec(compile(textwrap.dedent(snippet), "<snippet>", "exec"), namespace)
    return namespace


def need(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")


# ---- DLPack and NumPy zero-copy interop ----

EXPORT = """
    import numpy as np, struct, hurray

    buf = struct.pack("6f", 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    t = hurray.Tensor(buf, hurray.float32, [2, 3])

    # Emit a DLPack v1.0 capsule ("dltensor_versioned").
    # The capsule holds a strong reference to `t`, keeping the buffer alive.
    arr = np.from_dlpack(t)
    assert arr.shape == (2, 3)
    assert arr.dtype == np.float32
"""

DEVICE = """
    device_type, device_id = t.__dlpack_device__()
    assert device_type == 1   # kDLCPU
    assert device_id == 0
"""


def test_dlpack_export():
    names = run(EXPORT)
    names = run(DEVICE, **names)
    arr, t = names["arr"], names["t"]
    assert arr.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert arr.ctypes.data == data_pointer(t)
    del names, t
    assert arr.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_supported_dtypes():
    """The guide's list, and its two refusals."""
    for name in DTYPE_CODES:
        assert hurray.Tensor(bytes(64), getattr(hurray, name), [4]).__dlpack__() is not None
    with pytest.raises(BufferError, match="1 bit"):
        hurray.Tensor(bytes(64), hurray.bool, [4]).__dlpack__()
    for name in ("int4", "float8_e4m3", "float8_e5m2"):
        with pytest.raises(BufferError, match=name):
            hurray.Tensor(bytes(64), getattr(hurray.dtype, name), [4]).__dlpack__()


def test_forward_compatibility_kwargs():
    t = hurray.Tensor(bytes(64), hurray.float32, [4])
    assert t.__dlpack__(stream=None, max_version=(1, 0), dl_device=(1, 0), copy=False) is not None


TO_TORCH = """
    import hurray

    t = hurray.Tensor(bytes(16), hurray.float32, [4])
    torch_t = t.to_torch()  # raises ImportError if torch is not installed
"""

FROM_TORCH = """
    import torch, hurray

    torch_t = torch.zeros(2, 3, dtype=torch.float32)
    t = hurray.from_torch(torch_t)
    assert t.shape == (2, 3)
    assert t.dtype == hurray.float32
"""


@pytest.mark.frameworks
def test_to_torch():
    need("torch")
    names = run(TO_TORCH)
    assert names["torch_t"].tolist() == [0, 0, 0, 0]
    assert names["torch_t"].data_ptr() == data_pointer(names["t"])


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is installed")
def test_to_torch_without_torch():
    with pytest.raises(ImportError, match="torch"):
        run(TO_TORCH)


@pytest.mark.frameworks
def test_from_torch():
    need("torch")
    names = run(FROM_TORCH)
    assert names["torch_t"].data_ptr() == data_pointer(names["t"])


# ---- framework interop ----

UNIVERSAL = """
    import numpy as np
    import hurray

    t = hurray.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))

    arr = np.from_dlpack(t)          # NumPy, zero-copy — shares t's buffer
    arr[0, 0] = 42.0
    assert hurray.from_numpy(arr)    # the write is visible through the shared buffer
"""

PYTORCH = """
    import torch

    torch_t = t.to_torch()               # hurray.Tensor → torch.Tensor, zero-copy
    back = hurray.from_torch(torch_t)    # torch.Tensor → hurray.Tensor, zero-copy
"""

JAX = """
    import jax.numpy as jnp

    x = jnp.from_dlpack(t)               # zero-copy on the same device
"""

CUPY = """
    import cupy as cp

    g = cp.from_dlpack(t)                # device-to-device, zero-copy
"""


def test_the_universal_path():
    names = run(UNIVERSAL)
    assert np.from_dlpack(names["t"]).tolist() == [[42, 1, 2], [3, 4, 5]]


@pytest.mark.frameworks
def test_pytorch():
    need("torch")
    names = run(PYTORCH, **run(UNIVERSAL))
    pointer = data_pointer(names["t"])
    assert names["torch_t"].data_ptr() == pointer
    assert data_pointer(names["back"]) == pointer
    assert names["torch_t"].tolist() == [[42, 1, 2], [3, 4, 5]]


@pytest.mark.frameworks
def test_torch_from_dlpack_works_directly():
    need("torch")
    names = run("import torch\nx = torch.from_dlpack(t)", **run(UNIVERSAL))
    assert names["x"].data_ptr() == data_pointer(names["t"])


@pytest.mark.frameworks
def test_jax():
    need("jax")
    names = run(JAX, **run(UNIVERSAL))
    assert names["x"].unsafe_buffer_pointer() == data_pointer(names["t"])
    assert names["x"].tolist() == [[42, 1, 2], [3, 4, 5]]


def cuda_is_there() -> bool:
    if importlib.util.find_spec("cupy") is None:
        return False
    import cupy

    with contextlib.redirect_stderr(io.StringIO()):
        try:
            return cupy.cuda.runtime.getDeviceCount() > 0
        except cupy.cuda.runtime.CUDARuntimeError:
            return False


@pytest.mark.frameworks
@pytest.mark.skipif(not cuda_is_there(), reason="needs CuPy and a CUDA device")
def test_cupy():
    import cupy

    there = cupy.arange(6, dtype=cupy.float32)
    names = run(CUPY, t=hurray.from_dlpack(there))
    assert names["t"].device.kind == "cuda"
    assert names["g"].data.ptr == there.data.ptr
    assert names["g"].get().tolist() == list(range(6))


NATIVE = """
    capsule = t.__hurray__()      # full-fidelity, all dtypes
    u = hurray.from_hurray(t)     # reconstruct from any object exposing it
"""


def test_the_native_protocol():
    names = run(NATIVE, **run(UNIVERSAL))
    assert names["u"].descriptor == names["t"].descriptor
    assert data_pointer(names["u"]) == data_pointer(names["t"])
    bits = hurray.Tensor(b"\x15", hurray.bool, [5])
    u = run(NATIVE, hurray=hurray, t=bits)["u"]
    assert u.to_numpy().tolist() == [True, False, True, False, True]


@pytest.mark.frameworks
def test_what_dlpack_cannot_carry():
    """bool goes through __array__ and from_numpy; bfloat16 to PyTorch and JAX, not to plain NumPy."""
    bits = hurray.from_numpy(np.array([True, False, True]))
    assert bits.__array__().tolist() == [True, False, True]
    need("torch")
    half = hurray.Tensor(b"\x80\x3f\x00\x40", hurray.bfloat16, [2])
    assert run("import torch\nx = torch.from_dlpack(t)", t=half)["x"].tolist() == [1.0, 2.0]
    need("jax")
    assert run(JAX, t=half)["x"].tolist() == [1.0, 2.0]


def test_bfloat16_does_not_cross_to_plain_numpy():
    half = hurray.Tensor(b"\x80\x3f\x00\x40", hurray.bfloat16, [2])
    with pytest.raises((BufferError, RuntimeError, TypeError)):
        np.from_dlpack(half)
