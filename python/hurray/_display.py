"""How tensors show themselves (spec 8.3), and the options of that. NumPy formats the numbers."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

from ._core import InvalidDescriptorError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ._core import Composite, Tensor

SparseDisplay: TypeAlias = Literal["metadata", "content"]


class PrintOptions(TypedDict):
    """What get_print_options returns."""

    sparse_display: SparseDisplay


# ---- options ----

_sparse_display: ContextVar[SparseDisplay] = ContextVar("hurray.sparse_display", default="metadata")


def _check(sparse_display: object) -> None:
    if sparse_display is None or sparse_display in get_args(SparseDisplay):
        return
    kind = ValueError if isinstance(sparse_display, str) else TypeError
    raise kind(f"sparse_display is {sparse_display!r}; expected 'metadata' or 'content'")


def set_print_options(*, sparse_display: SparseDisplay | None = None) -> None:
    """Changes how tensors show themselves, in the current context (thread, asyncio task).

    sparse_display: what a sparse tensor shows, "metadata" (the default: layout, shape, nnz, dtype)
    or "content". None leaves an option as it is; ValueError for another word.

    >>> hurray.set_print_options(sparse_display="metadata")
    """
    _check(sparse_display)
    if sparse_display is not None:
        _sparse_display.set(sparse_display)


def get_print_options() -> PrintOptions:
    """The options of the current context, as a new dict that set_print_options accepts.

    >>> hurray.get_print_options()
    {'sparse_display': 'metadata'}
    """
    return {"sparse_display": _sparse_display.get()}


def print_options(
    *, sparse_display: SparseDisplay | None = None
) -> AbstractContextManager[None, bool | None]:
    """A context manager that sets options as set_print_options does, and then restores them.

    >>> t = hurray.full((1, 2), 7).to_layout(hurray.CsrLayout(0))
    >>> t
    hurray.Tensor(layout='csr', shape=(1, 2), nnz=2, dtype=int64)
    >>> with hurray.print_options(sparse_display="content"):
    ...     t  # doctest: +NORMALIZE_WHITESPACE
    hurray.Tensor(layout='csr', shape=(1, 2), nnz=2, dtype=int64,
                  col_indices=[0, 1], row_ptr=[0, 2], values=[7, 7])
    """
    _check(sparse_display)
    return _changed(sparse_display)


@contextmanager
def _changed(sparse_display: SparseDisplay | None) -> Iterator[None]:
    before = get_print_options()
    set_print_options(sparse_display=sparse_display)
    try:
        yield
    finally:
        set_print_options(**before)


# ---- tensors ----

# The most elements that are shown without an ellipsis.
_MOST_ELEMENTS = 999

# With an ellipsis in each of so many dimensions that there are more of them, none is shown.
_MOST_SHOWN = 1 << 20


def tensor_repr(tensor: Tensor) -> str:
    """repr(tensor); called by the C type."""
    if hasattr(tensor, "nnz"):
        return _sparse(tensor)
    array = _values(tensor)
    if array is None:
        return _metadata(tensor)
    shape = f", shape={array.shape}" if array.size == 0 and array.shape != (0,) else ""
    return f"hurray.Tensor({_format(array, tensor, ', ')}{shape}, dtype={tensor.dtype})"


def tensor_str(tensor: Tensor) -> str:
    """str(tensor); called by the C type."""
    if hasattr(tensor, "nnz"):
        return _sparse(tensor)
    array = _values(tensor)
    if array is None:
        return _metadata(tensor)
    return _format(array, tensor, " ") if array.ndim > 0 else str(array)


def _metadata(tensor: Tensor) -> str:
    dtype = dtype_text(tensor)
    return f"hurray.Tensor(shape={tensor.shape}, dtype={dtype}, device={tensor.device!r})"


def dtype_text(described: Tensor | Composite) -> str:
    """Its name, or the tag where that is not assigned."""
    try:
        return str(described.dtype)
    except InvalidDescriptorError:
        return f"0x{described.descriptor.encode()[14]:02X}"


# The parts of a sparse tensor that are shown, in this order, where it has them.
_COMPONENTS = ("indices", "row_indices", "col_ptr", "col_indices", "row_ptr", "values")


def _sparse(tensor: Tensor) -> str:
    """A sparse tensor: what it is, and the arrays it consists of if they are asked for."""
    parts = [
        f"layout={tensor.layout.name!r}",
        f"shape={tensor.shape}",
        f"nnz={tensor.nnz}",
        f"dtype={dtype_text(tensor)}",
    ]
    if _sparse_display.get() == "content":
        parts += _components(tensor)
    return f"hurray.Tensor({', '.join(parts)})"


def _components(tensor: Tensor) -> list[str]:
    """name=array of each component; none where NumPy cannot show one of them."""
    shown = []
    for name in _COMPONENTS:
        component = getattr(tensor, name, None)
        if component is None:
            continue
        array = _values(component)
        if array is None:
            return []
        shown.append(f"{name}={_format(array, component, ', ')}")
    return shown


def _values(tensor: Tensor) -> npt.NDArray[Any] | None:
    """The elements, where they are NumPy's to format; None for everything else.

    Of large tensors whose array would be a copy, those elements that are shown, see _edges.
    """
    if not _is_numpys(tensor):
        return None
    try:
        import numpy as np

        edge = max(1, np.get_printoptions()["edgeitems"])  # the last one is shown even of 0
        if _count_shown(tensor, edge) > _MOST_SHOWN:
            return None
        is_copied = tensor.dtype.is_sub_byte or not hasattr(tensor, "strides")
        if is_copied and tensor.quantization is None and _is_cut(tensor):
            tensor = tensor._edges(edge)
        return tensor.__array__()
    except (ImportError, UnsupportedError, ValueError, MemoryError):
        # No NumPy, or no ml_dtypes for bfloat16; elements at no strides; bytes not ready; more
        # dimensions than NumPy has.
        return None


def _is_numpys(tensor: Tensor) -> bool:
    """Whether it has a standard type, a known shape, and host memory."""
    try:
        is_standard = tensor.dtype.is_array_api
    except InvalidDescriptorError:  # a tag that is not assigned
        return False
    return is_standard and tensor.device.kind == "cpu" and None not in tensor.shape


def _is_cut(tensor: Tensor) -> bool:
    assert tensor.size is not None
    return tensor.size > _MOST_ELEMENTS


def _count_shown(tensor: Tensor, edge: int) -> int:
    """The number of elements that are formatted."""
    if not _is_cut(tensor):
        return _MOST_ELEMENTS
    extents: tuple[Any, ...] = tensor.shape
    return math.prod(min(extent, 2 * edge + 1) for extent in extents)


def _format(array: npt.NDArray[np.generic], tensor: Tensor, separator: str) -> str:
    """`array` shows `tensor`; where it is smaller, it consists of the edges."""
    import numpy as np

    return np.array2string(
        array,
        separator=separator,
        prefix="hurray.Tensor(" if separator != " " else "",  # what rows are indented by
        threshold=_MOST_ELEMENTS if array.shape == tensor.shape else 0,
        max_line_width=sys.maxsize,  # a newline stands between rows only
    )
