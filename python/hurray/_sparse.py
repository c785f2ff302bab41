"""What the bridges to SciPy and PyTorch share: components of sparse tensors, in and out (spec 8.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core, dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._core import Layout, Tensor


def refuse_copy(name: str, reason: str) -> _core.CopyRequiredError:
    """The exception for a component that copy=False cannot have."""
    return _core.CopyRequiredError(
        f"{name}: {reason}; that needs a copy, and copy=False forbids it"
    )


def component(name: str, source: Any, convert: Callable[..., Tensor], copy: bool | None) -> Tensor:
    """convert(source, copy=copy), whose refusals then say which component they are about."""
    try:
        return convert(source, copy=copy)
    except _core.CopyRequiredError as error:
        raise _core.CopyRequiredError(f"{name}: {error}") from None
    except _core.UnsupportedError as error:
        raise _core.UnsupportedError(f"{name}: {error}") from None


def pack_coordinates(coordinates: Sequence[Any], nnz: int) -> Tensor:
    """indices [nnz, rank] of one NumPy array [nnz] for each dimension."""
    packed = _core.empty((nnz, len(coordinates)), dtype=dtype.uint64)
    array = packed.__array__()
    for dimension, along in enumerate(coordinates):
        array[:, dimension] = along  # a negative one becomes huge, and is out of bounds then
    return packed


def coo_of_packed(
    shape: Sequence[int],
    nnz: int,
    values: Tensor,
    indices: Tensor,
    remedy: str,
    *host_copies: Tensor,
) -> Tensor:
    """A COO tensor, marked as sorted where it is. `remedy` is for indices that occur twice."""
    for is_sorted in (True, False):
        layout = _core.CooLayout(nnz, is_sorted=is_sorted)
        made = _core._from_components(layout, shape, (values, indices), host_copies or None)
        if isinstance(made, _core.Tensor):
            return made
    raise _core.UnsupportedError(f"two values have the same index: {remedy} first")


def compressed(
    layout: Layout,
    shape: Sequence[int],
    components: tuple[Tensor, ...],
    remedy: str,
    *host_copies: Tensor,
) -> Tensor | None:
    """A CSR or CSC tensor; None where rows (columns) are not sorted."""
    made = _core._from_components(layout, shape, components, host_copies or None)
    if isinstance(made, _core.Tensor):
        return made
    if made == "duplicate":
        raise _core.UnsupportedError(
            f"a {'row' if layout.name == 'csr' else 'column'} has two values at the same index: "
            f"{remedy} first"
        )
    return None
