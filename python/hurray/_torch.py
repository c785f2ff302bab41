"""PyTorch in both directions (spec 8.7). torch is imported by the functions that need it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import _core, dtype

if TYPE_CHECKING:
    import torch

    from ._core import Tensor

# What torch has and DLPack, or an older consumer of it, has no word for: viewed as bytes on the way.
_FLOAT8_NAMES = {
    dtype.float8_e4m3: "float8_e4m3fn",
    dtype.float8_e5m2: "float8_e5m2",
    dtype.float8_e8m0: "float8_e8m0fnu",
}


def _import_torch(function: str) -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"{function}() needs PyTorch: the module torch is not installed") from error
    return torch


def to_torch(tensor: Tensor) -> torch.Tensor:
    """Implements Tensor.to_torch."""
    torch = sys.modules.get("torch") or _import_torch("to_torch")
    if tensor.dtype is dtype.bool:
        return torch.from_dlpack(tensor._unpacked()).view(torch.bool)
    float8_name = _FLOAT8_NAMES.get(tensor.dtype)
    if float8_name is not None and hasattr(torch, float8_name):
        return torch.from_dlpack(tensor._reinterpret(dtype.uint8)).view(getattr(torch, float8_name))
    return torch.from_dlpack(tensor)


def _check_plain(torch: Any, tensor: torch.Tensor) -> None:
    """Refuses what would be lost on the way, naming the remedy."""
    if tensor.requires_grad:
        raise _core.UnsupportedError("the tensor requires grad: call .detach() first")
    if tensor.layout is not torch.strided:
        raise _core.UnsupportedError(
            f"torch tensors of layout {tensor.layout} are not supported yet: call .to_dense() first"
        )
    if tensor.is_quantized:
        raise _core.UnsupportedError("quantized torch tensors are not supported: call .int_repr()")
    if tensor.is_conj():
        raise _core.UnsupportedError("the tensor is a conjugated view: call .resolve_conj() first")
    if tensor.is_neg():
        raise _core.UnsupportedError("the tensor is a negated view: call .resolve_neg() first")


def from_torch(tensor: torch.Tensor, *, copy: bool | None = None) -> Tensor:
    """A Tensor over a torch tensor's memory (spec 8.7).

    Zero-copy on the CPU (where the address is 64-aligned, as torch's own allocations are) and on
    CUDA; ``copy`` means what it means in :func:`hurray.from_numpy`. bool is packed, which is a copy.

    Raises ImportError without torch, TypeError for anything but a torch.Tensor, UnsupportedError for
    what would be lost: a gradient, a pending conjugation or negation, a quantizer, a sparse layout.
    """
    torch = sys.modules.get("torch") or _import_torch("from_torch")
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"from_torch() needs a torch.Tensor, not {type(tensor).__name__}")
    _check_plain(torch, tensor)
    for hurray_dtype, name in _FLOAT8_NAMES.items():
        if tensor.dtype is getattr(torch, name, None):
            return _core.from_dlpack(tensor.view(torch.uint8), copy=copy)._reinterpret(hurray_dtype)
    return _core.from_dlpack(tensor, copy=copy)
