"""SciPy's sparse matrices and arrays in both directions (spec 8.8). SciPy is imported when needed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import _core, _sparse

if TYPE_CHECKING:
    import scipy.sparse  # type: ignore[import-untyped, unused-ignore]

    from ._core import Tensor

_DUPLICATES = "call .sum_duplicates()"


def _import_sparse(function: str) -> Any:
    try:
        import scipy.sparse  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise ImportError(f"{function}() needs SciPy: {error}") from error
    return scipy.sparse


# ---- in ----


def _from_coo(matrix: Any, copy: bool | None) -> Tensor:
    if copy is not None and not copy:
        raise _sparse.refuse_copy(
            "indices", "SciPy keeps each dimension apart, and they are packed into [nnz, rank]"
        )
    values = _sparse.numbers("values", matrix.data, copy)
    nnz = matrix.data.size
    if values.ndim != 1 or {len(along) for along in matrix.coords} != {nnz}:
        raise _core.InvalidDescriptorError("data and coords of the matrix differ in length")
    indices = _sparse.pack_coordinates(matrix.coords, nnz)
    return _sparse.coo_of_packed(matrix.shape, nnz, values, indices, _DUPLICATES)


def from_scipy(
    matrix: scipy.sparse.spmatrix | scipy.sparse.sparray, *, copy: bool | None = None
) -> Tensor:
    """A sparse Tensor of a SciPy matrix or array of format csr, csc or coo (spec 8.8).

    Of csr and csc each component is shared under the rule of :func:`hurray.from_numpy`: data, and
    indices and indptr where they are 64-bit integers; narrower ones, which SciPy prefers, are
    converted to uint64. The coordinates of coo are always packed into [nnz, rank]. ``copy=False``
    never copies and ``copy=True`` copies everything. Rows (columns) that are not sorted are sorted
    in a copy. The matrix itself stays as it is; -0.0 and zeros that are stored stay too.

    Raises CopyRequiredError naming the component that ``copy=False`` cannot have, UnsupportedError
    for other formats and dtypes and for indices that occur twice, InvalidDescriptorError for those
    out of bounds and for pointers that are wrong, TypeError for what is not sparse, and ImportError
    without SciPy.

    >>> import scipy.sparse
    >>> hurray.from_scipy(scipy.sparse.csr_matrix([[0.0, 7.0], [0.0, 0.0]])).col_indices
    hurray.Tensor([1], dtype=uint64)
    """
    sparse = _import_sparse("from_scipy")
    if not sparse.issparse(matrix):
        raise TypeError(
            f"from_scipy() needs a SciPy sparse matrix or array, not {type(matrix).__name__}"
        )
    if matrix.format == "coo":
        return _from_coo(matrix, copy)
    if matrix.format not in _sparse.COMPRESSED:
        raise _core.UnsupportedError(
            f"SciPy's format {matrix.format} has no layout: call .tocsr() first"
        )
    if matrix.ndim != 2:
        raise _core.UnsupportedError(
            f"layout {matrix.format} is for 2 dimensions, not {matrix.ndim}: call .tocoo() first"
        )
    return _sparse.of_arrays(matrix.format, matrix, _DUPLICATES, copy)


# ---- out ----


def _check_for_scipy(tensor: Tensor, array: bool) -> str:
    """Refuses what SciPy has no word for; gives the format."""
    name = tensor.layout.name
    if name not in ("coo", "csr", "csc"):
        raise _core.UnsupportedError(
            f"SciPy has no sparse format for layout {name}; only coo, csr and csc map"
        )
    if tensor.quantization is not None:
        raise _core.UnsupportedError("the tensor is quantized, which SciPy cannot say")
    if not tensor.dtype.is_array_api:
        raise _core.UnsupportedError(f"SciPy has no sparse matrices of {tensor.dtype}")
    if tensor.device.kind != "cpu":
        raise _core.UnsupportedError(f"SciPy cannot use memory of device {tensor.device.kind}")
    if None in tensor.shape:
        raise _core.InvalidDescriptorError("a dimension is dynamic: a matrix needs every extent")
    if tensor.ndim != 2 and not array:
        raise _core.UnsupportedError(
            f"a matrix has 2 dimensions, not {tensor.ndim}: to_scipy(array=True) gives an array"
        )
    if max(extent for extent in tensor.shape if extent is not None) > sys.maxsize:
        raise _core.UnsupportedError(f"SciPy cannot count to the extents of {tensor.shape}")
    return name


def to_scipy(tensor: Tensor, array: bool) -> Any:
    """Implements Tensor.to_scipy.

    Matrices are made empty and then given their arrays: the constructors would narrow the indices.
    """
    sparse = _import_sparse("to_scipy")
    name = _check_for_scipy(tensor, array)
    tensor.verify()  # SciPy follows indices without looking
    made = getattr(sparse, f"{name}_{'array' if array else 'matrix'}")(tensor.shape)
    made.data = tensor.values.__array__()
    if name == "coo":
        indices = tensor.indices.__array__().view("int64")
        made.coords = tuple(indices[:, dimension] for dimension in range(tensor.ndim))
        return made
    for component, attribute in _sparse.COMPRESSED[name][1:]:
        setattr(made, attribute, getattr(tensor, component).__array__().view("int64"))
    made.has_canonical_format = True  # which has just been checked
    return made
