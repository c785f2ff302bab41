"""PyData's sparse arrays in both directions, by the rules of SciPy's (spec 8.8).

The package `sparse` is imported when needed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import _core, _sparse, dtype

if TYPE_CHECKING:
    import sparse  # type: ignore[import-untyped, import-not-found, unused-ignore]

    from ._core import Tensor

# The compressed axes of a GCXS array of two dimensions that is a CSR or CSC matrix.
_AXES = {"csr": (0,), "csc": (1,)}

# Dtypes that COO can hold, while making a GCXS array of them fails.
_NOT_COMPILED = (dtype.float16, dtype.bfloat16)


def _import_sparse(function: str) -> Any:
    try:
        import sparse
    except ImportError as error:
        raise ImportError(f"{function}() needs the package sparse: {error}") from error
    if not hasattr(sparse, "GCXS"):
        raise ImportError(f"{function}() needs the Numba backend of the package sparse")
    return sparse


# ---- in ----


def _coordinates(coords: Any, copy: bool | None) -> Tensor:
    """coords [rank, nnz] as indices [nnz, rank], shared where they lie that way already."""
    _sparse.check_integers("indices", coords)
    packed = coords.T
    if packed.flags.c_contiguous and packed.dtype.itemsize == 8 and packed.dtype.isnative:
        return _sparse.integers("indices", packed, copy)
    if copy is not None and not copy:
        raise _sparse.refuse_copy(
            "indices", "sparse keeps each dimension apart, and they are packed into [nnz, rank]"
        )
    return _sparse.pack_coordinates(coords, packed.shape[0])


def _from_coo(array: Any, copy: bool | None) -> Tensor:
    if not array.shape:
        raise _core.UnsupportedError("layout coo needs a dimension: call .todense() first")
    nnz = array.data.size
    if array.data.ndim != 1 or array.coords.shape != (len(array.shape), nnz):
        raise _core.InvalidDescriptorError(
            f"coords of the array has the shape {array.coords.shape}; expected (ndim, nnz), "
            f"{(len(array.shape), nnz)}"
        )
    values = _sparse.numbers("values", array.data, copy)
    indices = _coordinates(array.coords, copy)
    remedy = "make it anew with sparse.COO(x.coords, x.data, x.shape)"
    return _sparse.coo_of_packed(array.shape, nnz, values, indices, remedy)


def _from_gcxs(array: Any, copy: bool | None) -> Tensor:
    axes = () if array.compressed_axes is None else tuple(array.compressed_axes)
    if len(array.shape) == 2:
        for name, its_axes in _AXES.items():
            if axes == its_axes:
                return _sparse.of_arrays(name, array, "call .tocoo()", copy)
    raise _core.UnsupportedError(
        f"GCXS of {len(array.shape)} dimensions with compressed_axes={axes} has no layout, only 2 "
        "dimensions with (0,) or (1,) have: call .tocoo() first"
    )


def _check_fill_value(array: Any) -> None:
    """Refuses a fill value of other bits than zero has: layouts leave out nothing else."""
    import numpy as np

    if any(np.asarray(array.fill_value).tobytes()):
        raise _core.UnsupportedError(
            f"fill_value is {array.fill_value}; what a layout leaves out is 0: call .todense() first"
        )


def from_sparse(array: sparse.COO | sparse.GCXS, *, copy: bool | None = None) -> Tensor:
    """A sparse Tensor of an array of the PyData package sparse: COO or GCXS (spec 8.8).

    COO of any rank becomes layout COO: data is shared under the rule of :func:`hurray.from_numpy`,
    and coords is packed into uint64 indices [nnz, rank], a copy except where it is 64-bit and lies
    that way already. GCXS of 2 dimensions becomes CSR for compressed_axes (0,) and CSC for (1,),
    each component shared or converted as in :func:`hurray.from_scipy`; rows (columns) that are not
    sorted are sorted in a copy. ``copy=False`` never copies and ``copy=True`` copies everything.
    The array itself stays as it is; -0.0 and zeros that are stored stay too.

    Raises CopyRequiredError naming the component that ``copy=False`` cannot have, UnsupportedError
    for other GCXS and other formats (naming what to call first), a fill value other than 0, dtypes
    without a counterpart, and indices that occur twice, InvalidDescriptorError for those out of
    bounds and for pointers that are wrong, TypeError for what is not of that package, and
    ImportError without it.

    >>> import sparse
    >>> hurray.from_sparse(sparse.COO.from_numpy(np.eye(2))).values
    hurray.Tensor([1., 1.], dtype=float64)
    """
    package = _import_sparse("from_sparse")
    if not isinstance(array, package.SparseArray):
        raise TypeError(
            f"from_sparse() needs an array of the package sparse, not {type(array).__name__}"
        )
    _check_fill_value(array)
    if isinstance(array, package.COO):
        return _from_coo(array, copy)
    if isinstance(array, package.GCXS):
        return _from_gcxs(array, copy)
    raise _core.UnsupportedError(
        f'{type(array).__name__} has no layout: call .asformat("coo") first'
    )


# ---- out ----


def _check_for_sparse(tensor: Tensor) -> str:
    """Refuses what the package has no word for; gives the name of the layout."""
    name = tensor.layout.name
    if name not in ("coo", "csr", "csc"):
        raise _core.UnsupportedError(
            f"the package sparse has nothing like layout {name}; only coo, csr and csc map"
        )
    if tensor.quantization is not None:
        raise _core.UnsupportedError("the tensor is quantized, which sparse cannot say")
    if not tensor.dtype.is_array_api:
        raise _core.UnsupportedError(f"sparse has no arrays of {tensor.dtype}")
    if name != "coo" and tensor.dtype in _NOT_COMPILED:
        raise _core.UnsupportedError(
            f"GCXS is compiled by Numba, which has no {tensor.dtype}: call "
            f".to_layout(CooLayout({tensor.nnz})) first"
        )
    if tensor.device.kind != "cpu":
        raise _core.UnsupportedError(f"sparse cannot use memory of device {tensor.device.kind}")
    if None in tensor.shape:
        raise _core.InvalidDescriptorError("a dimension is dynamic: an array needs every extent")
    if max(extent for extent in tensor.shape if extent is not None) > sys.maxsize:
        raise _core.UnsupportedError(f"sparse cannot count to the extents of {tensor.shape}")
    return name


def _coo_parts(tensor: Tensor) -> tuple[Any, Any]:
    """coords [rank, nnz] and data: shared, or sorted in a copy, as sparse takes for granted."""
    import numpy as np

    coords, data = tensor.indices.__array__().view(np.int64).T, tensor.values.__array__()
    if getattr(tensor.layout, "is_sorted", False):
        return coords, data
    order = np.lexsort(coords[::-1])
    return coords[:, order], data[order]


def to_sparse(tensor: Tensor) -> Any:
    """Implements Tensor.to_sparse."""
    package = _import_sparse("to_sparse")
    name = _check_for_sparse(tensor)
    tensor.verify()  # compiled code follows indices without looking
    if name == "coo":
        coords, data = _coo_parts(tensor)
        return package.COO(coords, data, tensor.shape, has_duplicates=False, sorted=True)
    data, indices, pointers = (
        getattr(tensor, component).__array__() for component, _ in _sparse.COMPRESSED[name]
    )
    arrays = (data, indices.view("int64"), pointers.view("int64"))
    return package.GCXS(arrays, shape=tensor.shape, compressed_axes=_AXES[name])
