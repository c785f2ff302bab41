"""What "DLPack and NumPy Zero-Copy Interop" and "Framework Interop" show of NumPy, as they show it."""

from __future__ import annotations

import builtins

import pytest

# fmt: off
# ruff: noqa: I001, E401


def test_dlpack_export():
    import numpy as np, struct, hurray

    buf = struct.pack("6f", 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    t = hurray.Tensor(buf, hurray.float32, [2, 3])

    # Emit a DLPack v1.0 capsule ("dltensor_versioned").
    # The capsule holds a strong reference to `t`, keeping the buffer alive.
    arr = np.from_dlpack(t)
    assert arr.shape == (2, 3)
    assert arr.dtype == np.float32

    device_type, device_id = t.__dlpack_device__()
    assert device_type == 1   # kDLCPU
    assert device_id == 0


def test_types_that_dlpack_refuses():
    import hurray

    for t in (
        hurray.ones(8, dtype=hurray.bool),
        hurray.Tensor(bytes(4), hurray.dtype.int4, [8]),
        hurray.Tensor(bytes(4), hurray.dtype.float8_e5m2, [4]),
    ):
        with pytest.raises(builtins.BufferError):
            t.__dlpack__()
    hurray.ones(8).__dlpack__(stream=None, max_version=(1, 0), dl_device=(1, 0), copy=None)


def test_from_numpy():
    import numpy as np, hurray

    arr = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=np.float32)
    t = hurray.from_numpy(arr)
    assert t.shape == (2, 3)
    assert t.dtype == hurray.float32


def test_from_numpy_of_a_fortran_array():
    import numpy as np, hurray

    f_arr = np.asfortranarray(np.zeros((3, 4), dtype=np.float32))
    t = hurray.from_numpy(np.ascontiguousarray(f_arr))

    assert t.shape == (3, 4)
    with pytest.raises(hurray.UnsupportedError):
        hurray.from_numpy(f_arr)


def test_array():
    import numpy as np, hurray

    t = hurray.Tensor(bytes(24), hurray.float32, [2, 3])
    arr = t.__array__()
    assert arr.shape == (2, 3)
    assert arr.dtype == np.float32

    arr_f64 = t.__array__(dtype=np.float64)
    assert arr_f64.dtype == np.float64

    import hurray

    try:
        arr = t.__array__(dtype=np.float64, copy=False)
    except hurray.CopyRequiredError:
        print("A copy would be required for the dtype cast")
    else:
        raise AssertionError("no copy is needed?")


def test_the_universal_path():
    import numpy as np
    import hurray

    t = hurray.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))

    arr = np.from_dlpack(t)          # NumPy, zero-copy — shares t's buffer
    arr[0, 0] = 42.0
    assert hurray.from_numpy(arr)    # the write is visible through the shared buffer

    assert np.asarray(t)[0, 0] == 42.0


def test_numpy_in_and_out():
    import numpy as np
    import hurray

    # Ingest a NumPy array zero-copy (C-contiguous):
    t = hurray.from_numpy(np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32))

    # Export back to NumPy — via DLPack, or the __array__ protocol (with optional cast):
    a = np.from_dlpack(t)
    a64 = t.__array__(dtype=np.float64)   # __array__ may copy when casting

    assert a.tolist() == a64.tolist() == [[1, 2], [3, 4]]
