"""PyTorch in both directions (spec 8.7). torch is imported by the functions that need it."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from . import _core, _sparse, dtype

if TYPE_CHECKING:
    import torch

    from ._core import Dtype, Layout, Tensor

# What torch has and DLPack, or an older consumer of it, has no word for: viewed as bytes on the way.
_FLOAT8_NAMES = {
    dtype.float8_e4m3: "float8_e4m3fn",
    dtype.float8_e5m2: "float8_e5m2",
    dtype.float8_e8m0: "float8_e8m0fnu",
}

# The dtypes that both sides call by one name. Of others (uint4, bits8, …) torch may tell DLPack that
# they are bytes.
_INTEGER_NAMES = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_FLOAT_NAMES = frozenset(["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
_COMMON_NAMES = _INTEGER_NAMES | _FLOAT_NAMES | {"bool"}

# Dense layouts whose elements lie at no strides.
_SCATTERED_LAYOUTS = frozenset(["tiled", "morton", "hilbert"])

# DLDeviceType of what torch makes tensors of: CPU, CUDA, Metal, ROCm, oneAPI. Given others, some
# versions of it end the process.
_CPU = 1
_TORCH_DEVICES = frozenset([_CPU, 2, 8, 10, 14])


def _import_torch(function: str) -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{function}() needs PyTorch: the module torch is not installed"
        ) from error
    return torch


def _check_for_torch(tensor: Tensor) -> None:
    """Refuses what torch has no word for, before it is asked."""
    if tensor.readonly:
        raise _core.UnsupportedError(
            "the tensor is read-only, which torch cannot say: copy.deepcopy(t).to_torch() copies "
            "it, torch.from_dlpack(t) shares it for reading"
        )
    if min(getattr(tensor, "strides", ()), default=0) < 0:
        # torch.from_dlpack would end the process.
        raise _core.UnsupportedError(
            "the tensor has negative strides, which torch has not: copy.deepcopy(t).to_torch() "
            "copies it"
        )
    number = tensor.__dlpack_device__()[0]
    if number not in _TORCH_DEVICES:
        raise _core.UnsupportedError(
            f"torch has no tensors in {tensor.device.memory_class} memory of device "
            f"{tensor.device.kind}"
        )
    if number != _CPU:
        tensor.__dlpack__(max_version=(1, 0))  # says whether there is device memory at all


def to_torch(tensor: Tensor) -> Any:
    """Implements Tensor.to_torch: a torch.Tensor.

    torch has no read-only tensors, and drops what DLPack says about it. So that nobody writes to
    memory that must not be written (a read-only mapping, the bytes of a ``bytes``), a read-only
    tensor is refused, except for bool, which is copied anyway. ``torch.from_dlpack(tensor)`` stays
    as the way to share it at one's own risk.
    """
    torch = sys.modules.get("torch") or _import_torch("to_torch")
    if not hasattr(tensor, "strides"):
        if hasattr(tensor, "nnz"):
            return _sparse_to_torch(torch, tensor)
        if tensor.layout.name in _SCATTERED_LAYOUTS:
            tensor = tensor.to_layout(_core.RowMajorLayout())
    if tensor.dtype is dtype.bool:
        return torch.from_dlpack(tensor._unpacked()).view(torch.bool)
    float8 = getattr(torch, _FLOAT8_NAMES.get(tensor.dtype, ""), None)
    if float8 is not None:
        return to_torch(tensor._reinterpret(dtype.uint8)).view(float8)
    _check_for_torch(tensor)
    return torch.from_dlpack(tensor)


@functools.cache
def _dtype_of(torch_dtype: torch.dtype) -> Dtype:
    """The Dtype that a torch dtype is; UnsupportedError where there is none."""
    name = str(torch_dtype).removeprefix("torch.")
    if name in _COMMON_NAMES:
        return _core.Dtype.from_name(name)
    for float8, torch_name in _FLOAT8_NAMES.items():
        if name == torch_name:
            return float8
    raise _core.UnsupportedError(f"hurray has no dtype like {torch_dtype}")


def _check_plain(torch: Any, tensor: torch.Tensor) -> None:
    """Refuses what would be lost on the way, naming the remedy."""
    if tensor.requires_grad:
        raise _core.UnsupportedError("the tensor requires grad: call .detach() first")
    if tensor.is_meta:
        raise _core.UnsupportedError("a torch tensor on device meta has no memory")
    if tensor.is_nested:
        raise _core.UnsupportedError("nested torch tensors are not supported: call .unbind() first")
    if tensor.is_quantized:
        raise _core.UnsupportedError(
            "quantized torch tensors are not supported: call .int_repr() first"
        )
    if tensor.is_conj():
        raise _core.UnsupportedError("the tensor is a conjugated view: call .resolve_conj() first")
    if tensor.is_neg():
        raise _core.UnsupportedError("the tensor is a negated view: call .resolve_neg() first")


# ---- sparse tensors ----


def _sparse_to_torch(torch: Any, tensor: Tensor) -> Any:
    """A torch tensor of the same sparse layout over the memory of all components."""
    name = tensor.layout.name
    if name not in ("coo", "csr", "csc"):
        raise _core.UnsupportedError(
            f"torch has no sparse tensors of layout {name}; only coo, csr and csc map"
        )
    if tensor.quantization is not None:
        raise _core.UnsupportedError("the tensor is quantized, which torch cannot say")
    if None in tensor.shape:
        raise _core.InvalidDescriptorError("a dimension is dynamic: torch needs every extent")
    if max(extent for extent in tensor.shape if extent is not None) > sys.maxsize:
        raise _core.UnsupportedError(f"torch cannot count to the extents of {tensor.shape}")
    is_here = tensor.device.kind == "cpu"
    if is_here:
        tensor.verify()  # torch follows indices without looking
    values = to_torch(tensor.values)
    rules = {"check_invariants": not is_here}
    if name == "coo":
        indices = to_torch(tensor.indices._reinterpret(dtype.int64)).t()
        rules["is_coalesced"] = getattr(tensor.layout, "is_sorted", False)
        return torch.sparse_coo_tensor(indices, values, tensor.shape, **rules)
    along, across = ("row_ptr", "col_indices") if name == "csr" else ("col_ptr", "row_indices")
    pointers, indices = (
        to_torch(getattr(tensor, component)._reinterpret(dtype.int64))
        for component in (along, across)
    )
    make = torch.sparse_csr_tensor if name == "csr" else torch.sparse_csc_tensor
    return make(pointers, indices, values, tensor.shape, **rules)


def _sparse_component(torch: Any, name: str, part: torch.Tensor, copy: bool | None) -> Tensor:
    """Values, or indices that are converted to int64 and put one after another where needed."""
    obstacle = None
    if name != "values" and part.dtype is not torch.int64:
        obstacle = f"it is {part.dtype}, and is converted to int64"
    elif not part.is_contiguous():
        obstacle = "torch stores it in another order"
    elif not part.is_cpu and part.data_ptr() % _core.MIN_BUFFER_ALIGNMENT != 0:
        obstacle = "its address is not a multiple of 64"  # and nothing but torch could move it
    if obstacle is not None:
        if copy is not None and not copy:
            raise _sparse.refuse_copy(name, obstacle)
        part = part.clone(memory_format=torch.contiguous_format)
        part, copy = part.to(torch.int64) if name != "values" else part, None
    return _sparse.component(name, part, from_torch, copy)


def _from_coo(torch: Any, tensor: torch.Tensor, copy: bool | None) -> Tensor:
    if tensor.ndim == 0:
        raise _core.UnsupportedError("layout coo needs a dimension: call .to_dense() first")
    packed = tensor._indices().t()
    values = _sparse_component(torch, "values", tensor._values(), copy)
    indices = _sparse_component(torch, "indices", packed, copy)
    host = () if packed.is_cpu else (from_torch(packed.cpu().contiguous()),)
    return _sparse.coo_of_packed(
        tuple(tensor.shape), packed.shape[0], values, indices, "call .coalesce()", *host
    )


def _from_compressed(torch: Any, tensor: torch.Tensor, copy: bool | None) -> Tensor:
    is_csr = tensor.layout is torch.sparse_csr
    values = tensor.values()
    if is_csr:
        layout: Layout = _core.CsrLayout(values.shape[0])
        parts = {"col_indices": tensor.col_indices(), "row_ptr": tensor.crow_indices()}
    else:
        layout = _core.CscLayout(values.shape[0])
        parts = {"row_indices": tensor.row_indices(), "col_ptr": tensor.ccol_indices()}
    components = tuple(
        _sparse_component(torch, name, part, copy)
        for name, part in {"values": values, **parts}.items()
    )
    host = tuple(
        _sparse_component(torch, name, part.cpu(), None)
        for name, part in parts.items()
        if not part.is_cpu
    )
    remedy = "call .to_sparse_coo().coalesce()"
    made = _sparse.compressed(layout, tuple(tensor.shape), components, remedy, *host)
    if made is None:
        raise _core.UnsupportedError(
            f"the indices of a {'row' if is_csr else 'column'} are not in order, as torch itself "
            f"requires: {remedy} first"
        )
    return made


def _from_sparse(torch: Any, tensor: torch.Tensor, copy: bool | None) -> Tensor:
    """from_torch of a tensor that is not strided."""
    is_coo = tensor.layout is torch.sparse_coo
    if not is_coo and tensor.layout not in (torch.sparse_csr, torch.sparse_csc):
        blocked = tensor.layout in (torch.sparse_bsr, torch.sparse_bsc)
        raise _core.UnsupportedError(
            f"torch tensors of layout {tensor.layout} have no counterpart: call "
            f"{'.to_dense().to_sparse_csr()' if blocked else '.to_dense()'} first"
        )
    if tensor.dense_dim() > 0 or (not is_coo and tensor.ndim != 2):
        raise _core.UnsupportedError(
            "sparse torch tensors with dense or batch dimensions have no counterpart: call "
            ".to_dense() first"
        )
    return (_from_coo if is_coo else _from_compressed)(torch, tensor, copy)


def from_torch(tensor: torch.Tensor, *, copy: bool | None = None) -> Tensor:
    """A Tensor over a torch tensor's memory (spec 8.7).

    Zero-copy on the CPU (where the address is 64-aligned, as torch's own allocations are) and on
    CUDA; ``copy`` means what it means in :func:`hurray.from_numpy`. bool is packed, which is a copy.

    Of sparse tensors each component is shared for itself: of CSR and CSC all of them, where indices
    are int64; of COO the values, while indices are packed into [nnz, rank] unless they lie that way
    already. Indices are verified (those of a device in a copy on the CPU).

    Raises ImportError without torch, TypeError for anything but a torch.Tensor, UnsupportedError for
    what would be lost (a gradient, a pending conjugation or negation, a quantizer), for the sparse
    layouts with blocks, batches or dense dimensions, and for an index that occurs twice.

    >>> import torch
    >>> hurray.from_torch(torch.tensor([1.5, 2.5]))
    hurray.Tensor([1.5, 2.5], dtype=float32)
    """
    torch = sys.modules.get("torch") or _import_torch("from_torch")
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"from_torch() needs a torch.Tensor, not {type(tensor).__name__}")
    _check_plain(torch, tensor)
    if tensor.layout is not torch.strided:
        return _from_sparse(torch, tensor, copy)
    result_dtype = _dtype_of(tensor.dtype)
    if result_dtype in _FLOAT8_NAMES:
        return _core.from_dlpack(tensor.view(torch.uint8), copy=copy)._reinterpret(result_dtype)
    return _core.from_dlpack(tensor, copy=copy)
