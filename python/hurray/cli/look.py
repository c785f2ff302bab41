"""ls, kv and cat: what is in a file."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from typing import Any

import hurray

from . import OK, UsageError
from .output import is_terminal, print_json, printable, shown, shown_shape, shown_size, table
from .source import Entry, entries_of_file, entries_of_item, kind_of, naming, open_file, open_stream

# ---- ls ----


def _shown_scheme(descriptor: hurray.Descriptor) -> str:
    scheme = descriptor.quantization
    if scheme is None:
        return ""
    size = getattr(scheme, "block_size", None)
    return type(scheme).__name__ + ("" if size is None else f"({size})")


def _shown_layout(descriptor: hurray.Descriptor) -> str:
    layout = descriptor.layout
    if isinstance(layout, hurray.CompositeLayout):
        return f"{layout.composition_rule} of {layout.member_count}"
    return layout.name


def _entries(path: str) -> list[Entry]:
    if kind_of(path) != "stream":
        with open_file(path, mmap="r") as file:
            return entries_of_file(file)
    entries: list[Entry] = []
    with open_stream(path) as stream:
        for number, item in enumerate(stream):
            entries += entries_of_item(str(number), item)
    return entries


def _json_of(entry: Entry) -> dict[str, Any]:
    descriptor = entry.descriptor
    made: dict[str, Any] = {
        "name": entry.name,
        "dtype": descriptor.dtype.name,
        "shape": list(descriptor.shape),
        "layout": descriptor.layout.name,
        "nbytes": entry.nbytes,
    }
    if entry.offset is not None:
        made["offset"] = entry.offset
    if descriptor.quantization is not None:
        made["quantization"] = _shown_scheme(descriptor)
    if descriptor.device.kind != "cpu":
        made["device"] = descriptor.device.kind
    return made


def ls(arguments: Namespace) -> int:
    """Names, element types, shapes, layouts and sizes."""
    entries = _entries(arguments.file)
    listed = [entry for entry in entries if arguments.members or entry.depth == 0]
    if arguments.names:
        for entry in listed:
            print(printable(entry.name) if is_terminal(sys.stdout) else entry.name)
    elif arguments.json:
        print_json([_json_of(entry) for entry in listed])
    else:
        _print_table(listed)
    return OK


def _print_table(entries: list[Entry]) -> None:
    quantized = any(entry.descriptor.quantization is not None for entry in entries)
    heading = ["name", "dtype", "shape", "layout", "size", *(["quantization"] if quantized else [])]
    rows = []
    for entry in entries:
        descriptor = entry.descriptor
        row = [
            "  " * entry.depth + printable(entry.name),
            descriptor.dtype.name,
            shown_shape(descriptor.shape),
            _shown_layout(descriptor),
            shown_size(entry.nbytes),
        ]
        rows.append([*row, _shown_scheme(descriptor)] if quantized else row)
    if rows:
        print(table(heading, rows, right=[4]))
    roots = [entry for entry in entries if entry.depth == 0]
    print(
        f"{len(roots)} tensor{'s' * (len(roots) != 1)}, {shown_size(sum(e.nbytes for e in roots))}"
    )


# ---- kv ----

_LONG_LIST = 8
_LONG_TEXT = 72


def _shown_value(value: Any) -> str:
    """In one line, of long ones the beginning."""
    if isinstance(value, list):
        items = ", ".join(repr(item) for item in value[:_LONG_LIST])
        rest = f", … {len(value)} in all" if len(value) > _LONG_LIST else ""
        return f"[{items}{rest}]"
    if isinstance(value, (str, bytes)) and len(value) > _LONG_TEXT:
        return f"{value[:_LONG_TEXT]!r}… {len(value)} in all"
    return repr(value)


def kv(arguments: Namespace) -> int:
    """The metadata, or one value of it in full."""
    with open_file(arguments.file, mmap="r") as file:
        metadata = file.kv
    if arguments.key is not None:
        if arguments.key not in metadata:
            raise KeyError(f"{arguments.file}: no metadata under {arguments.key!r}")
        value = metadata[arguments.key]
        if arguments.json:
            print_json(value)
        else:
            print(shown(value) if isinstance(value, str) else repr(value))
    elif arguments.json:
        print_json(metadata)
    else:
        rows = [
            (printable(key), _kind(value), _shown_value(value)) for key, value in metadata.items()
        ]
        print(table(("key", "type", "value"), rows) if rows else "no metadata")
    return OK


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return f"list[{type(value[0]).__name__}]" if value else "list"
    return type(value).__name__


# ---- cat ----

_SLICED = re.compile(r"(?s)(?P<name>.+)\[(?P<index>[^\[\]]*)\]")


def _index_part(text: str) -> Any:
    text = text.strip()
    if text == "...":
        return Ellipsis
    try:
        if ":" not in text:
            return int(text)
        parts = [int(part) if part.strip() else None for part in text.split(":")]
    except ValueError:
        parts = [None] * 4
    if len(parts) > 3 or parts[2:] == [0]:
        raise UsageError(f"{text!r} is no index; expected one like 3, -1, 0:3, ::2 or ...")
    return slice(*parts)


def split_slice(file: hurray.File, text: str) -> tuple[str, tuple[Any, ...] | None]:
    """'w[0:3, :2]' as a name and an index; a tensor of that very name has precedence."""
    found = _SLICED.fullmatch(text)
    if found is None or text in file:
        return text, None
    index = found["index"].strip().removesuffix(",")
    if not index:
        raise UsageError(f"{text!r} has an empty index; expected one like [0:3, :2]")
    return found["name"], tuple(_index_part(part) for part in index.split(","))


def _array_of(item: Any, name: str) -> Any:
    """As a NumPy array; of a quantized tensor the stored elements."""
    import numpy as np

    if isinstance(item, hurray.Tensor) and item.quantization is not None:
        raise hurray.UnsupportedError(
            f"{name!r} is quantized ({type(item.quantization).__name__}): its stored elements are "
            "not its values"
        )
    if isinstance(item, hurray.Tensor) and not item.layout.is_dense:
        item = item.to_layout(hurray.RowMajorLayout())
    return np.asarray(item.to_numpy())


def cat(arguments: Namespace) -> int:
    """Values, as NumPy shows them, as JSON, or as bytes."""
    try:
        import numpy as np
    except ImportError as error:
        raise ImportError("`hurray cat` needs NumPy; install hurray[numpy]") from error
    with open_file(arguments.file, mmap="r") as file:
        name, index = split_slice(file, arguments.tensor)
        with naming(repr(name)):
            array = _array_of(file[name], name)
    if index is not None:
        try:
            array = np.asarray(array[index])
        except IndexError as error:
            raise UsageError(
                f"{arguments.tensor!r}: {error}; the shape is {array.shape}"
            ) from error
    if arguments.raw:
        _write_raw(np, array)
    elif arguments.json:
        print_json(_json_values(np, array))
    else:
        threshold = sys.maxsize if arguments.all else 1000
        with np.printoptions(threshold=threshold, precision=arguments.precision, linewidth=100):
            print(array)
    return OK


def _write_raw(np: Any, array: Any) -> None:
    from .stream import standard_output

    out = standard_output("bytes")
    # In pieces, for a strided array may be larger than the memory.
    flat = array.reshape(1) if array.ndim == 0 else array
    for start in range(0, len(flat), step := max(1, (1 << 22) // max(1, flat[:1].nbytes))):
        out.write(np.ascontiguousarray(flat[start : start + step]).tobytes())
    out.flush()


def _json_values(np: Any, array: Any) -> Any:
    """Nested lists; a complex number is [real, imaginary]. What JSON has no word for, NaN and
    Infinity, is written as Python's json does."""
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1)
    elif array.dtype.kind not in "biuf":  # ml_dtypes' bfloat16 and the like
        small = str(array.dtype)
        array = array.astype(np.int64 if small.startswith(("int", "uint")) else np.float32)
    return array.tolist()
