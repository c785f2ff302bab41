"""What the bridges to SciPy, PyData sparse and PyTorch share: components, in and out (spec 8.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core, dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._core import Layout, Tensor

# The components of compressed formats: their names, and the attributes that hold them elsewhere.
COMPRESSED = {
    "csr": (("values", "data"), ("col_indices", "indices"), ("row_ptr", "indptr")),
    "csc": (("values", "data"), ("row_indices", "indices"), ("col_ptr", "indptr")),
}


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


# ---- components that are NumPy arrays ----


def numbers(name: str, array: Any, copy: bool | None) -> Tensor:
    """A NumPy array as a component, whatever its strides."""
    if not array.flags.c_contiguous:
        if copy is not None and not copy:
            raise refuse_copy(name, "its elements do not lie one after another")
        array, copy = array.copy(), None
    return component(name, array, _core.from_numpy, copy)


def check_integers(name: str, array: Any) -> None:
    """Refuses indices of another kind."""
    if array.dtype.kind not in "iu":
        raise _core.UnsupportedError(f"{name}: indices are integers, not {array.dtype}")


def integers(name: str, array: Any, copy: bool | None) -> Tensor:
    """Indices or pointers: 64-bit integers as they are, narrower ones converted."""
    check_integers(name, array)
    if array.dtype.itemsize == 8 and array.dtype.isnative:
        return numbers(name, array, copy)
    if copy is not None and not copy:
        raise refuse_copy(name, f"it is {array.dtype}, and is converted to uint64")
    return pack_coordinates((array,), array.size)


def _check_lengths(kind: str, matrix: Any) -> int:
    """nnz of a compressed matrix, whose arrays may hold more than they need to."""
    (_, data), (index_name, indices), (pointer_name, pointers) = (
        (f"{name} ({attribute})", getattr(matrix, attribute))
        for name, attribute in COMPRESSED[kind]
    )
    major = matrix.shape[0 if kind == "csr" else 1]
    if any(array.ndim != 1 for array in (data, indices, pointers)):
        raise _core.InvalidDescriptorError("the arrays of a matrix must have one dimension each")
    if len(pointers) != major + 1:
        raise _core.InvalidDescriptorError(
            f"{pointer_name} has {len(pointers)} entries; expected {major + 1}"
        )
    nnz, most = int(pointers[-1]), min(len(data), len(indices))
    if not 0 <= nnz <= most:
        raise _core.InvalidDescriptorError(
            f"{pointer_name} ends at {nnz}; there are {len(data)} values, and {len(indices)} "
            f"entries in {index_name}"
        )
    return nnz


def _sorted(data: Any, indices: Any, pointers: Any) -> tuple[Any, Any]:
    """Copies of data and indices with each row (column) in order, entries at one index as before."""
    import numpy as np

    major = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers.astype(np.int64, copy=False)))
    order = np.lexsort((indices, major))
    return data[order], indices[order]


def of_arrays(kind: str, matrix: Any, remedy: str, copy: bool | None) -> Tensor:
    """A tensor of layout `kind`, csr or csc, of a matrix that has data, indices and indptr."""
    nnz = _check_lengths(kind, matrix)
    layout: Layout = _core.CsrLayout(nnz) if kind == "csr" else _core.CscLayout(nnz)
    value_name, index_name, pointer_name = (name for name, _ in COMPRESSED[kind])
    data, indices = matrix.data[:nnz], matrix.indices[:nnz]
    pointers = integers(pointer_name, matrix.indptr, copy)
    components = (numbers(value_name, data, copy), integers(index_name, indices, copy), pointers)
    tensor = compressed(layout, matrix.shape, components, remedy)
    if tensor is not None:
        return tensor
    if copy is not None and not copy:
        raise refuse_copy(index_name, "they are not in order, and are sorted with values")
    data, indices = _sorted(data, indices, matrix.indptr)
    components = (numbers(value_name, data, None), integers(index_name, indices, None), pointers)
    tensor = compressed(layout, matrix.shape, components, remedy)
    assert tensor is not None  # because they are sorted
    return tensor
