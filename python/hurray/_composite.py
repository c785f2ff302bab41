"""Composites: how they show themselves, and their members resolved into one array (spec 2.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from . import _display, _statistics
from ._core import Composite, Tensor, UnsupportedError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]

# ---- repr ----

# Of more members than twice as many, this many are shown at either end.
_EDGE_MEMBERS = 3


def composite_repr(composite: Composite) -> str:
    """repr(composite); called by the C type."""
    layout = composite.layout
    parts = [f"rule={layout.composition_rule!r}"]
    if layout.combine_op is not None:
        parts.append(f"combine_op={layout.combine_op!r}")
    parts += [f"shape={composite.shape}", f"dtype={_display.dtype_text(composite)}"]
    parts.append(f"members=[{', '.join(_shown(composite.members))}]")
    return f"hurray.Composite({', '.join(parts)})"


def _shown(members: tuple[Tensor | Composite, ...]) -> list[str]:
    if len(members) <= 2 * _EDGE_MEMBERS:
        return [_member_repr(member) for member in members]
    first = [_member_repr(member) for member in members[:_EDGE_MEMBERS]]
    return [*first, "...", *(_member_repr(member) for member in members[-_EDGE_MEMBERS:])]


def _member_repr(member: Tensor | Composite) -> str:
    return "Tensor" if isinstance(member, Tensor) else composite_repr(member)


# ---- one array ----


def to_numpy(composite: Composite) -> Array:
    """Composite.to_numpy; called by the C type."""
    return _resolved(composite, "")


def _resolved(composite: Composite, where: str) -> Array:
    """The array of a partition or overlay; `where` is its path, "" for the outermost."""
    import numpy as np

    rule = composite.layout.composition_rule
    if rule not in ("partition", "overlay"):
        kind = "group" if rule == "group" else f"composite of private rule 0x{rule:02X}"
        raise UnsupportedError(
            f"{where or 'the composite'} is a {kind}: it has members, but is no single array"
        )
    # Neither has a dynamic dimension.
    whole: Array = np.zeros(composite.shape, dtype=_numpy_dtype(composite))  # type: ignore[arg-type]
    add = composite.layout.combine_op == "add"
    for i, member in enumerate(composite.members):
        path = f"{where}.members[{i}]".removeprefix(".")
        try:
            _put(whole, member, path, add=add and i > 0)
        except UnsupportedError as error:
            if str(error).startswith(path):
                raise
            raise UnsupportedError(f"{path}: {error}") from error
    return whole


def _numpy_dtype(composite: Composite) -> np.dtype[Any]:
    """What NumPy or ml_dtypes call the dtype of the head."""
    if composite.extension_type is not None:
        raise UnsupportedError(f"NumPy has no dtype like {composite.dtype!r}")
    return Tensor(b"", composite.dtype, (0,)).to_numpy().dtype


def _put(whole: Array, member: Tensor | Composite, path: str, *, add: bool) -> None:
    """Writes a member into its box, or adds it to what is there."""
    import numpy as np

    assert member.shard is not None
    extents: tuple[Any, ...] = member.shape
    box = tuple(
        slice(start, start + extent)
        for start, extent in zip(member.shard.shard_offset, extents, strict=True)
    )
    part = whole[box] if box else whole
    if isinstance(member, Composite):
        part[...] = _resolved(member, path)
        return
    where: Any = ...
    if member.quantization is not None or not member.layout.is_dense:
        member.verify()  # indices and scales are about to be followed
    if not member.layout.is_dense:
        _check_sparse(member)
        where = tuple(_statistics._coordinates(member))
    values = _values(member)
    if add:
        with np.errstate(over="ignore", invalid="ignore"):
            part[where] += values.astype(whole.dtype, copy=False)
    else:
        part[where] = values


def _check_sparse(member: Tensor) -> None:
    if not hasattr(member, "nnz"):
        raise UnsupportedError(f"layout {member.layout.name} has no array")


def _values(member: Tensor) -> Array:
    """The values of a dense tensor, or the stored ones, [nnz], of a sparse one."""
    if member.quantization is not None:
        return _statistics._dequantized(member, _statistics._stored(member))
    return (member if member.layout.is_dense else member.values).to_numpy()
