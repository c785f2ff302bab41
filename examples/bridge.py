"""The zero-copy bridge, hop by hop.

Takes four arrays (an image-sized float32, a bfloat16, a bool, and a strided view) from NumPy into
Hurray and on to every framework that is installed, and back. For each hop it prints the address
before and after, and whether bytes moved and why. Needs NumPy; uses ml_dtypes, PyTorch and JAX where
they can be imported.

    python examples/bridge.py
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any

import numpy as np

import hurray


def optional(name: str) -> ModuleType | None:
    """The module, or None when it is not installed."""
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


ml_dtypes = optional("ml_dtypes")
torch = optional("torch")
jax = optional("jax")


def address(x: Any) -> int:
    """Where the first element of an array of any framework lies."""
    if isinstance(x, np.ndarray):
        return x.ctypes.data
    if isinstance(x, hurray.Tensor):
        # The address is what hurray would tell any consumer.
        return hurray_address(x)
    if torch is not None and isinstance(x, torch.Tensor):
        return x.data_ptr()
    return x.unsafe_buffer_pointer()  # JAX


def hurray_address(t: hurray.Tensor) -> int:
    """The address of a tensor's buffer, read through the array interface of its bytes."""
    return t.buffer(0).__array_interface__["data"][0] + t.byte_offset


def hop(label: str, before: Any, after: Any, reason_if_moved: str) -> None:
    """Prints one step; fails when an unannounced copy happened, or an announced one did not."""
    here, there = address(before), address(after)
    moved = here != there
    if moved != bool(reason_if_moved):
        raise AssertionError(f"{label}: bytes {'moved' if moved else 'did not move'}")
    verdict = f"copied: {reason_if_moved}" if moved else "shared, no byte moved"
    print(f"  {label:<34} {here:#016x} -> {there:#016x}  {verdict}")


def ingest(array: np.ndarray) -> hurray.Tensor:
    """NumPy -> Hurray, with the reason for a copy where there is one."""
    if not array.flags.c_contiguous:
        tensor, call = hurray.from_dlpack(array), "hurray.from_dlpack(array)"
    else:
        tensor, call = hurray.from_numpy(array), "hurray.from_numpy(array)"
    alignment = array.ctypes.data & -array.ctypes.data
    if array.dtype == np.bool_:
        reason = "1 byte per bool becomes 1 bit"
    elif alignment < hurray.MIN_BUFFER_ALIGNMENT:
        reason = f"{alignment}-byte aligned, sharing needs {hurray.MIN_BUFFER_ALIGNMENT}"
    else:
        reason = ""
    hop(call, array, tensor, reason)
    return tensor


def back_to_numpy(tensor: hurray.Tensor) -> np.ndarray:
    array = np.asarray(tensor) if tensor.dtype is not hurray.bfloat16 else tensor.to_numpy()
    unpacked = "1 bit becomes 1 byte per bool" if tensor.dtype is hurray.bool else ""
    hop("np.asarray(tensor)", tensor, array, unpacked)
    return array


def through_torch(tensor: hurray.Tensor) -> None:
    if torch is None:
        print("  PyTorch is not installed: skipped")
        return
    unpacked = "1 bit becomes 1 byte per bool" if tensor.dtype is hurray.bool else ""
    there = tensor.to_torch()
    hop("tensor.to_torch()", tensor, there, unpacked)
    back = hurray.from_torch(there)
    packed = "1 byte per bool becomes 1 bit" if tensor.dtype is hurray.bool else ""
    hop("hurray.from_torch(…)", there, back, packed)


def through_jax(tensor: hurray.Tensor) -> None:
    if jax is None:
        print("  JAX is not installed: skipped")
        return
    if tensor.dtype is hurray.bool or tensor.layout != hurray.RowMajorLayout():
        what = "packed bool" if tensor.dtype is hurray.bool else "strides"
        print(f"  jax.numpy.from_dlpack(tensor): skipped, DLPack to JAX does not carry {what}")
        return
    there = jax.numpy.from_dlpack(tensor)
    hop("jax.numpy.from_dlpack(tensor)", tensor, there, "")
    back = hurray.from_dlpack(there)
    hop("hurray.from_dlpack(…)", there, back, "")


def tour(title: str, array: np.ndarray) -> None:
    print(f"{title}: {array.dtype} {array.shape}, {array.nbytes:,} bytes")
    tensor = ingest(array)
    back = back_to_numpy(tensor)
    through_torch(tensor)
    through_jax(tensor)
    same = np.array_equal(array, back)
    print(f"  values after the round trip: {'equal' if same else 'DIFFERENT'}\n")
    if not same:
        raise AssertionError(f"{title}: the values changed")


def main() -> None:
    rng = np.random.default_rng(0)

    # An image as NumPy allocates it: whether it can be shared depends on the address it got.
    tour("an image, from NumPy's own allocator", rng.random((1080, 1920, 3), dtype=np.float32))

    # The same from hurray's allocator: always 64-aligned, so it is always shared.
    with hurray.aligned_allocator():
        image = np.empty((1080, 1920, 3), np.float32)
        rng.random(out=image, dtype=np.float32)
        mask = image[..., 0] > 0.5
    tour("the same image, from hurray.aligned_allocator()", image)

    if ml_dtypes is not None:
        with hurray.aligned_allocator():
            half = image[..., 0].astype(ml_dtypes.bfloat16)
        tour("a bfloat16 plane", half)
    else:
        print("a bfloat16 plane: skipped, NumPy has bfloat16 only with ml_dtypes installed\n")

    tour("a bool mask", mask)
    tour("every other pixel, a strided view", image[::2, ::2, :])

    # Sharing means that a write on one side is seen on the other.
    tensor = hurray.from_numpy(image)
    np.from_dlpack(tensor)[0, 0, 0] = 42.0
    print(f"a write through np.from_dlpack(tensor) shows in the first array: {image[0, 0, 0]}")
    if image[0, 0, 0] != 42.0:
        raise AssertionError("the write was not seen")


if __name__ == "__main__":
    main()
