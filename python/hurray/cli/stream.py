"""stream: files into streams and back.

A stream carries tensors, no names and no metadata (spec 5). --names keeps both in a JSON file beside it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from argparse import Namespace
from typing import Any, BinaryIO

import hurray

from .. import _core
from . import OK, UsageError
from .output import bytes_of_json, is_terminal, json_of_bytes, note, progress, replacing, same_file
from .source import STANDARD, kind_of, open_file, open_stream


def standard_output(what: str) -> BinaryIO:
    """For bytes, which make no sense to a terminal."""
    if is_terminal(sys.stdout):
        raise UsageError(f"standard output is a terminal; send the {what} to a file or a pipe")
    sys.stdout.flush()
    return sys.stdout.buffer


def stream(arguments: Namespace) -> int:
    """The direction follows from the source."""
    _check_paths(arguments)
    kind = kind_of(arguments.source)
    if kind in ("file", "other"):
        return _to_stream(arguments)
    if arguments.target == STANDARD:
        raise UsageError("the source is a stream: name the file that shall be made of it")
    return _to_file(arguments)


def _check_paths(arguments: Namespace) -> None:
    """That nothing is written over what is read."""
    paths = {"source": arguments.source, "target": arguments.target, "--names": arguments.names}
    there = [(what, path) for what, path in paths.items() if path not in (None, STANDARD)]
    for (what, path), (other, second) in itertools.combinations(there, 2):
        if same_file(path, second):
            raise UsageError(f"{what} and {other} are the same file")


def _to_stream(arguments: Namespace) -> int:
    with open_file(arguments.source, mmap="r") as file, contextlib.ExitStack() as stack:
        names, metadata = list(file), file.kv
        if arguments.names is not None:
            _keep_names(arguments.names, names, metadata)
        target: Any = arguments.target
        if target == STANDARD:
            target = standard_output("stream")
        else:
            target = stack.enter_context(replacing(target, sequential=True))
        total = sum(file._reader.entry(name)[3] for name in file.all_names())
        with progress(total, "stream", arguments.quiet) as tell:
            with hurray.StreamWriter(target, cross_machine=arguments.cross_machine) as writer:
                before = writer.position
                for name in names:
                    writer.write(file[name])
                    tell(writer.position - before)
                    before = writer.position
    if metadata and arguments.names is None and not arguments.quiet:
        note(f"not carried: metadata ({', '.join(metadata)}); streams have none, --names keeps it")
    return OK


def _keep_names(path: str, names: list[str], metadata: dict[str, Any]) -> None:
    """Whole before the first byte of the stream, so that who reads at the other end finds it."""
    text = json.dumps(
        {"names": names, "kv": metadata}, indent=1, ensure_ascii=False, default=json_of_bytes
    )
    with (
        replacing(path, sequential=True) as temporary,
        open(temporary, "w", encoding="utf-8") as file,
    ):
        file.write(f"{text}\n")


def _kept_names(path: str) -> tuple[list[str], dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        try:
            kept = json.load(file, object_hook=bytes_of_json)
        except (ValueError, RecursionError) as error:
            raise hurray.FileError(f"{path}: no JSON: {error}") from error
    if isinstance(kept, list):
        kept = {"names": kept}
    names, metadata = (
        (kept.get("names"), kept.get("kv", {})) if isinstance(kept, dict) else (None, {})
    )
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise hurray.FileError(f'{path}: expected a list of names, or an object with "names"')
    if not isinstance(metadata, dict):
        raise hurray.FileError(f"{path}: kv is {type(metadata).__name__}; expected an object")
    return names, metadata


def _to_file(arguments: Namespace) -> int:
    names: list[str] | None = None
    metadata: dict[str, Any] = {}
    writer: _core._FileWriter | None = None
    with open_stream(arguments.source, cross_machine=arguments.cross_machine) as items:
        try:
            with progress(None, "stream", arguments.quiet) as tell:
                count, before = 0, 0
                for count, item in enumerate(items, 1):
                    if writer is None:
                        # Only now: at the other end of a pipe the names are being written.
                        names, metadata = _names_and_metadata(arguments)
                        writer = _writer(arguments, metadata, names)
                    after = writer.add(_name(names, count - 1, arguments.names), item)
                    tell(after - before)
                    before = after
            if writer is None:
                names, metadata = _names_and_metadata(arguments)
                writer = _writer(arguments, metadata, names)
            if names is not None and len(names) != count:
                raise hurray.StreamError(
                    f"the stream has {count} items, but {arguments.names} has {len(names)} names"
                )
            writer.finish()
        finally:
            if writer is not None:
                writer.abandon()
    return OK


def _names_and_metadata(arguments: Namespace) -> tuple[list[str] | None, dict[str, Any]]:
    return (None, {}) if arguments.names is None else _kept_names(arguments.names)


def _writer(
    arguments: Namespace, metadata: dict[str, Any], names: list[str] | None
) -> _core._FileWriter:
    return _core._FileWriter(
        arguments.target,
        kv=metadata or None,
        checksums=arguments.checksums,
        count=None if names is None else len(names),
    )


def _name(names: list[str] | None, number: int, path: str | None) -> str:
    if names is None:
        return f"{number:04d}"
    if number >= len(names):
        raise hurray.StreamError(f"the stream has more items than {path} has names, {len(names)}")
    return names[number]
