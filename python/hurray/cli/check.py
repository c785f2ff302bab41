"""verify and diff: whether files are sound, and whether they are the same."""

from __future__ import annotations

import itertools
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import hurray

from . import FAILED, FOUND, OK, describe
from .output import note, printable, progress, shown_shape
from .source import kind_of, open_file, open_stream

# ---- verify ----

# What may be wrong with bytes. Other errors are about reading them at all.
_FAULTS = (
    hurray.FileError,
    hurray.StreamError,
    hurray.InvalidDescriptorError,
    hurray.UnsupportedError,
)


def _is_fault(error: BaseException) -> bool:
    """Rather than a refusal of the system, which has an errno."""
    return not (isinstance(error, OSError) and error.errno)


def verify(arguments: Namespace) -> int:
    """All faults of all files, one in a line on standard output."""
    status = OK
    for path in arguments.files:
        found = 0
        try:
            for fault in _faults(path, arguments.deep, arguments.quiet):
                found += 1
                print(f"{printable(path)}: {printable(fault)}")
        except OSError as error:
            if not error.errno:
                raise
            note(describe(error))
            status = FAILED
            continue
        if found:
            status = max(status, FOUND)
        elif not arguments.quiet:
            print(f"{printable(path)}: {'sound' if arguments.deep else 'well-formed'}")
    return status


def _faults(path: str, deep: bool, quiet: bool) -> Iterator[str]:
    kind = kind_of(path)
    if kind == "stream":
        yield from _faults_of_stream(path, deep)
        return
    try:
        # Read, not mapped: a file that shrinks meanwhile is a fault, no signal.
        file = hurray.open(path, mmap=False)
    except _FAULTS as error:
        if not _is_fault(error):
            raise
        # The frame: header, trailer and index. Without it there are no tensors to look at.
        yield describe(error).removeprefix(f"{path}: ")
        return
    with file:
        yield from _faults_of_file(file, path, deep, quiet)


def _faults_of_file(file: hurray.File, path: str, deep: bool, quiet: bool) -> Iterator[str]:
    try:
        file.kv  # noqa: B018
    except _FAULTS as error:
        if not _is_fault(error):
            raise
        yield f"metadata: {describe(error).removeprefix(f'{path}: ')}"
    total = file.info["size"]
    with progress(total, "verify", quiet) as tell:
        for name in file.all_names():
            try:
                file._reader.verify(name, deep)
            except _FAULTS as error:
                if not _is_fault(error):
                    raise
                yield f"{name!r}: {describe(error).removeprefix(f'{path}: ')}"
            tell(file._reader.entry(name)[3])


def _faults_of_stream(path: str, deep: bool) -> Iterator[str]:
    """Framing ends the search: what comes after it cannot be found."""
    number = 0
    try:
        with open_stream(path) as stream:
            for number, item in enumerate(stream):
                if deep:
                    yield from _faults_of_item(f"item {number}", item)
    except _FAULTS as error:
        if not _is_fault(error):
            raise
        yield describe(error)


def _faults_of_item(name: str, item: hurray.Tensor | hurray.Composite) -> Iterator[str]:
    if isinstance(item, hurray.Composite):
        for number, member in enumerate(item.members):
            yield from _faults_of_item(f"{name}, member {number}", member)
        return
    try:
        item.verify()
    except _FAULTS as error:
        yield f"{name}: {describe(error)}"


# ---- diff ----

_CHECKSUMS_KEY = "hurray.crc32c"  # follows from the data, which is compared
_FIELDS = (
    "dtype",
    "shape",
    "layout",
    "device",
    "byte_offset",
    "quantization",
    "statistics",
    "shard",
    "extension_type",
    "member_role",
)
_PIECE = 1 << 20


def diff(arguments: Namespace) -> int:
    """What differs, one difference in a line. The order of tensors, their offsets and
    the alignment of their buffers do not count."""
    found = False
    with open_file(arguments.a, mmap="r") as a, open_file(arguments.b, mmap="r") as b:
        lines = itertools.chain(
            _metadata_differences(a, b, arguments), _tensor_differences(a, b, arguments)
        )
        for line in lines:
            found = True
            if arguments.quiet:
                break
            print(printable(line))
    return FOUND if found else OK


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _metadata_differences(a: hurray.File, b: hurray.File, arguments: Namespace) -> Iterator[str]:
    first, second = a.kv, b.kv
    for key in [*first, *(key for key in second if key not in first)]:
        if key == _CHECKSUMS_KEY:
            continue
        if key not in second:
            yield f"metadata {key!r}: only in {arguments.a}"
        elif key not in first:
            yield f"metadata {key!r}: only in {arguments.b}"
        elif not _same(first[key], second[key]):
            yield f"metadata {key!r}: {_short(first[key])} and {_short(second[key])}"


def _same(x: Any, y: Any) -> bool:
    """1, 1.0 and True differ; NaN is like itself."""
    return type(x) is type(y) and repr(x) == repr(y)


def _tensor_differences(a: hurray.File, b: hurray.File, arguments: Namespace) -> Iterator[str]:
    first, second = a.all_names(), b.all_names()
    for name in first:
        if name not in b:
            yield f"{name!r}: only in {arguments.a}"
    for name in second:
        if name not in a:
            yield f"{name!r}: only in {arguments.b}"
    common = [name for name in first if name in b]
    total = sum(a._reader.entry(name)[3] for name in common)
    with progress(total, "diff", arguments.quiet) as tell:
        for name in common:
            said = list(_descriptor_differences(a.descriptor(name), b.descriptor(name)))
            if said:
                yield f"{name!r}: {'; '.join(said)}"
            elif not arguments.no_data and a.descriptor(name).buffer_count:
                yield from _data_differences(name, a[name], b[name])
            tell(a._reader.entry(name)[3])


def _descriptor_differences(a: hurray.Descriptor, b: hurray.Descriptor) -> Iterator[str]:
    if a == b:
        return
    told = False
    for field in _FIELDS:
        x, y = getattr(a, field), getattr(b, field)
        if x != y:
            if field == "shape":
                x, y = shown_shape(x), shown_shape(y)
            told = True
            yield f"{field} {x} and {y}"
    # Other sizes follow from another shape. The alignment that a buffer declares is that of the memory
    # it once lay in: in files that hold the same tensors it may differ.
    x, y = ([(h.byte_size, h.sync_mode) for h in each.buffer_handles] for each in (a, b))
    if x != y and not told:
        yield f"buffers (bytes, sync mode) {x} and {y}"


def _data_differences(name: str, a: Any, b: Any) -> Iterator[str]:
    for number in range(a.buffer_count):
        x, y = (memoryview(each.buffer(number)).cast("B") for each in (a, b))
        at, count = _compare(x, y)
        if count:
            where = "" if a.buffer_count == 1 else f"buffer {number}, "
            yield f"{name!r}: {where}{count} of {len(x)} bytes differ, the first at byte {at}"


def _compare(x: memoryview, y: memoryview) -> tuple[int, int]:
    """Where the first difference is, and how many bytes differ."""
    first, count = -1, 0
    for start in range(0, len(x), _PIECE):
        # bytes compare at the speed of memcmp, memoryviews do not.
        p, q = bytes(x[start : start + _PIECE]), bytes(y[start : start + _PIECE])
        if p == q:
            continue
        places = [at for at, (i, j) in enumerate(zip(p, q, strict=True)) if i != j]
        if first < 0:
            first = start + places[0]
        count += len(places)
    return first, count
