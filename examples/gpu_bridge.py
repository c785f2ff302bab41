"""The zero-copy bridge on a GPU: CUDA memory of CuPy and PyTorch through hurray and back.

Memory on the device is never copied, moved or read by hurray: the address that goes in comes out. This
script takes real arrays there and back, compares addresses and values, and checks who keeps the
memory alive. It needs an NVIDIA GPU and CuPy or PyTorch (with CUDA), or both:

    python examples/gpu_bridge.py

Without them it says what is missing and ends without an error.
"""

from __future__ import annotations

import gc
import importlib
import sys
from types import ModuleType
from typing import Any

import hurray

SHAPE = (480, 640)


def optional(name: str) -> ModuleType | None:
    """The module, or None when it is not installed or does not load."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def usable_cupy() -> ModuleType | str:
    """CuPy with a device, or what is missing."""
    cupy = optional("cupy")
    if cupy is None:
        return "CuPy is not installed"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # no driver, a driver too old, …
        return f"CuPy finds no CUDA device ({error})"
    return cupy if count else "CuPy finds no CUDA device"


def usable_torch() -> ModuleType | str:
    """PyTorch with a device, or what is missing."""
    torch = optional("torch")
    if torch is None:
        return "PyTorch is not installed"
    if not torch.cuda.is_available():
        return "PyTorch finds no CUDA device"
    return torch


def address(x: Any) -> int:
    """Where the first element of a CuPy array or a torch tensor lies."""
    return x.data.ptr if hasattr(x.data, "ptr") else x.data_ptr()


def check(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(what)


def hop(label: str, before: int, after: int) -> None:
    check(before == after, f"{label}: the address changed from {before:#x} to {after:#x}")
    print(f"  {label:<46} {before:#x} -> {after:#x}  shared")


def check_tensor(t: hurray.Tensor, shape: tuple[int, ...]) -> None:
    check(t.device.kind == "cuda", f"the tensor is on {t.device}")
    check(t.shape == shape, f"the shape is {t.shape}")
    check(t.__dlpack_device__() == (2, t.device.device_id), "the DLPack device is another one")
    try:
        t.to_numpy()
    except hurray.UnsupportedError:
        pass  # it says that the memory is on the device
    else:
        raise AssertionError("device memory was read")


def tour_cupy(cp: ModuleType) -> None:
    print(f"CuPy {cp.__version__}")
    for dtype in ("float32", "int16", "complex64", "uint8", "float64"):
        array = (cp.arange(SHAPE[0] * SHAPE[1]) % 100).reshape(SHAPE).astype(dtype)
        t = hurray.from_dlpack(array)
        check_tensor(t, SHAPE)
        back = cp.from_dlpack(t)
        hop(f"cupy.from_dlpack(from_dlpack({dtype} array))", address(array), address(back))
        check(bool((back == array).all()), "the values changed")
        back[0, 0] = 7
        check(int(array[0, 0].real) == 7, "a write was not seen")

    for label, view in (
        ("array.T", array.T),
        ("array[3:, ::2]", array[3:, ::2]),  # an address that is not 64-aligned
        ("array[:, 1:2]", array[:, 1:2]),
    ):
        t = hurray.from_dlpack(view)
        check_tensor(t, view.shape)
        back = cp.from_dlpack(t)
        hop(f"cupy.from_dlpack(from_dlpack({label}))", address(view), address(back))
        check(back.strides == view.strides, f"{label}: the strides changed")
        check(bool((back == view).all()), f"{label}: the values changed")

    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        busy = cp.zeros(1 << 22, cp.float32)
        for _ in range(50):
            busy += 1
        t = hurray.from_dlpack(busy)
        seen = cp.from_dlpack(t)
    stream.synchronize()
    check(bool((seen == 50).all()), "work on a stream was not waited for")
    print("  work queued on a stream of its own is in the result")

    keep_alive(
        cp.from_dlpack, lambda: cp.full(1 << 20, 5, cp.float32), lambda x: bool((x == 5).all())
    )


def tour_torch(torch: ModuleType) -> None:
    print(f"PyTorch {torch.__version__}")
    for dtype in ("float32", "bfloat16", "float16", "int64", "float8_e4m3fn", "float8_e5m2"):
        if not hasattr(torch, dtype):
            print(f"  {dtype}: this PyTorch has no such dtype")
            continue
        x = (torch.arange(SHAPE[0] * SHAPE[1], device="cuda") % 100).reshape(SHAPE)
        x = x.to(getattr(torch, dtype))
        t = hurray.from_torch(x)
        check_tensor(t, SHAPE)
        back = t.to_torch()
        hop(f"from_torch({dtype} tensor).to_torch()", address(x), address(back))
        check(back.dtype is x.dtype, "the dtype changed")
        same = back.view(torch.uint8) == x.view(torch.uint8)
        check(bool(same.all()), "the values changed")

    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    for label, view in (
        ("x.T", x.T),
        ("x[:, 1:]", x[:, 1:]),
        ("x[:1].expand(4, 3)", x[:1].expand(4, 3)),
    ):
        back = hurray.from_torch(view).to_torch()
        hop(f"from_torch({label}).to_torch()", address(view), address(back))
        check(back.stride() == view.stride(), f"{label}: the strides changed")
        check(bool((back == view).all()), f"{label}: the values changed")

    try:
        hurray.from_torch(torch.ones(3, dtype=torch.bool, device="cuda"))
    except hurray.UnsupportedError as error:
        print(f"  bool is refused: {error}")
    else:
        raise AssertionError("bool was taken in")

    keep_alive(
        torch.from_dlpack,
        lambda: torch.full((1 << 20,), 5.0, device="cuda"),
        lambda x: bool((x == 5).all()),
    )


def keep_alive(consume: Any, make: Any, is_intact: Any) -> None:
    """The last one to hold the memory keeps it, whoever allocated it."""
    x = make()
    t = hurray.from_dlpack(x)
    del x
    gc.collect()
    y = consume(t)
    del t
    gc.collect()
    noise = [make() * 0 for _ in range(8)]
    check(is_intact(y), "memory was given to somebody else while it was in use")
    del noise
    print("  the consumer kept the memory alive after everybody else let go")


def tour_both(cp: ModuleType, torch: ModuleType) -> None:
    print("CuPy -> hurray -> PyTorch -> hurray -> CuPy")
    array = cp.arange(1000, dtype=cp.float32)
    x = hurray.from_dlpack(array).to_torch()
    hop("from_dlpack(array).to_torch()", address(array), address(x))
    x.mul_(2)
    torch.cuda.synchronize()
    back = cp.from_dlpack(hurray.from_torch(x))
    hop("cupy.from_dlpack(from_torch(x))", address(x), address(back))
    check(bool((array == cp.arange(1000) * 2).all()), "what PyTorch wrote was not seen by CuPy")


def main() -> int:
    cupy, torch = usable_cupy(), usable_torch()
    if isinstance(cupy, str) and isinstance(torch, str):
        print(f"skipped: {cupy}; {torch}")
        return 0
    for library, tour in ((cupy, tour_cupy), (torch, tour_torch)):
        if isinstance(library, str):
            print(f"skipped: {library}")
        else:
            tour(library)
    if not isinstance(cupy, str) and not isinstance(torch, str):
        tour_both(cupy, torch)
    print("every address and every value was the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
