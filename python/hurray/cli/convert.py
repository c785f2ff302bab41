"""convert: from formats of others to Hurray, and back.

A tensor at a time, so that the memory of the largest one is enough; the target has its name when it is
whole. What cannot be carried is said: tensors keep the target from being written unless they are to be
skipped, other things are notes.
"""

from __future__ import annotations

import functools
from argparse import Namespace
from typing import Any

import hurray

from .. import _core
from . import FOUND, OK, UsageError
from .formats import CHECKSUMS_KEY, Source, format_of_file, format_of_path, open_source, with_ties
from .output import note, progress, replacing, same_file, short

_WRITTEN = ("hurray", "safetensors", "npz")


def convert(arguments: Namespace) -> int:
    """Exit status 1 when a tensor could not be carried and was not to be skipped."""
    if same_file(arguments.source, arguments.target):
        raise UsageError("source and target are the same file")
    source_format, target_format = _formats(arguments)
    if source_format == "hurray":
        return _from_hurray(arguments, target_format)
    return _to_hurray(arguments, source_format)


def _formats(arguments: Namespace) -> tuple[str, str]:
    source = arguments.source_format or format_of_file(arguments.source)
    if source is None:
        raise UsageError(f"cannot tell the format of {arguments.source}; name it with --from")
    target = arguments.target_format or format_of_path(arguments.target)
    if target is None and source == "hurray":
        raise UsageError(
            f"the suffix of {arguments.target} does not tell its format; name it with --to"
        )
    target = target or "hurray"
    if target not in _WRITTEN:
        raise UsageError(
            f"{arguments.target}: {target} is only read; expected one of {', '.join(_WRITTEN)}"
        )
    if "://" in arguments.target or ("://" in arguments.source and source != "hurray"):
        raise UsageError(
            "a URL can only be the source, and of a Hurray file; download others first"
        )
    if target != "hurray" and (odd := _options_of_hurray(arguments)):
        raise UsageError(f"{odd} is for a Hurray file, and {arguments.target} gets {target}")
    if source == target == "hurray":
        raise UsageError(f"{arguments.source} is a Hurray file already")
    if "hurray" not in (source, target):
        raise UsageError(f"{source} to {target}: expected Hurray on one side; convert twice")
    return source, target


def _options_of_hurray(arguments: Namespace) -> str | None:
    """One that was given, of those that only a Hurray file has."""
    for given, option in (
        (arguments.checksums, "--checksums"),
        (arguments.sorted_index, "--sorted-index"),
        (arguments.alignment is not None, "--alignment"),
    ):
        if given:
            return option
    return None


# ---- what is not carried ----


class _Refusals:
    """Tensors that cannot be carried, each said once."""

    def __init__(self, skip: bool, quiet: bool) -> None:
        self.names: set[str] = set()
        self._skip = skip
        self._quiet = quiet

    def add(self, name: str, reason: str) -> None:
        self.names.add(name)
        if not (self._skip and self._quiet):
            reason = reason.removeprefix(f"{short(name)}: ")
            note(f"{'skipped' if self._skip else 'cannot carry'} {short(name)}: {reason}")

    @property
    def stop(self) -> bool:
        return bool(self.names) and not self._skip

    def status(self, target: str) -> int:
        if not self.stop:
            return OK
        note(f"{target} was not written; --skip-unsupported leaves such tensors out")
        return FOUND


# ---- to Hurray ----


def _to_hurray(arguments: Namespace, source_format: str) -> int:
    source = open_source(arguments.source, source_format, arguments.dequantize)
    try:
        refusals = _Refusals(arguments.skip_unsupported, arguments.quiet)
        for name in source.names:
            reason = source.obstacle(name)
            if reason is not None:
                refusals.add(name, reason)
        if not refusals.stop:
            _write_hurray(arguments, source, refusals)
        if not arguments.quiet:
            for text in source.notes:
                note(f"not carried: {text}")
        return refusals.status(arguments.target)
    finally:
        source.close()


def _metadata_for_hurray(
    arguments: Namespace, source: Source, refusals: _Refusals
) -> dict[str, Any]:
    """What a file can hold of it; the rest are notes."""
    if arguments.no_metadata:
        return {}
    metadata = {}
    for key, value in source.metadata.items():
        try:
            _core._check_metadata({key: value})
        except (TypeError, ValueError, OverflowError) as error:
            source.notes.append(f"metadata {short(key)}: {error}")
        else:
            metadata[key] = value
    if metadata.pop(CHECKSUMS_KEY, None) is not None:
        source.notes.append(
            f"metadata {CHECKSUMS_KEY!r}, which is about bytes that lie elsewhere now"
        )
    return with_ties(metadata, {k: v for k, v in source.tied.items() if k not in refusals.names})


def _write_hurray(arguments: Namespace, source: Source, refusals: _Refusals) -> None:
    writer = _core._FileWriter(
        arguments.target,
        kv=_metadata_for_hurray(arguments, source, refusals) or None,
        alignment=arguments.alignment,
        sorted_index=arguments.sorted_index,
        checksums=arguments.checksums,
        count=len(source.names) - len(refusals.names),
    )
    try:
        before = 0
        with progress(source.nbytes, "convert", arguments.quiet) as tell:
            for name in source.names:
                if name in refusals.names:
                    continue
                tensor = None  # or two of them would be in memory
                try:
                    tensor = source.read(name)
                    if refusals.stop:
                        continue  # to say what else is in the way
                    after = writer.add(name, tensor)
                except (hurray.UnsupportedError, ValueError) as error:
                    # Of these nothing is written; also a name that no file can have is one.
                    refusals.add(name, str(error))
                    continue
                tell(after - before)
                before = after
        if not refusals.stop:
            writer.finish()
    finally:
        writer.abandon()


# ---- from Hurray ----


def plain_obstacle(descriptor: hurray.Descriptor) -> str | None:
    """Why a format that has only dense arrays of numbers cannot hold such a tensor."""
    if isinstance(descriptor.layout, hurray.CompositeLayout):
        return f"a composite ({descriptor.layout.composition_rule})"
    if descriptor.quantization is not None:
        return f"quantized ({type(descriptor.quantization).__name__})"
    if not descriptor.layout.is_dense:
        return f"of layout {descriptor.layout.name}, not dense"
    if None in descriptor.shape:
        return "a dimension is dynamic"
    if descriptor.extension_type is not None:
        return "of an extension type"
    return None


def same_bytes(file: hurray.File, name: str, other: str) -> bool:
    """Whether two tensors have the same descriptor and the same data."""
    from .check import _data_differences

    a, b = file.descriptor(name), file.descriptor(other)
    if a.dtype is not b.dtype or a.shape != b.shape or a.layout != b.layout:
        return False
    return not any(_data_differences(name, file[name], file[other]))


def _sections_lost(file: hurray.File, names: list[str]) -> list[str]:
    """Notes on sections of descriptors that other formats do not have."""
    lost = []
    for field in ("statistics", "shard", "member_role"):
        having = [name for name in names if getattr(file.descriptor(name), field) is not None]
        if having:
            lost.append(f"{field.replace('_', ' ')} of {len(having)} tensors")
    moved = [name for name in names if file.descriptor(name).layout.name != "row_major"]
    if moved:
        lost.append(f"layouts other than row-major, of {len(moved)} tensors; values are the same")
    return lost


def _from_hurray(arguments: Namespace, target_format: str) -> int:
    from . import numpy_format, safetensors_format

    module: Any = safetensors_format if target_format == "safetensors" else numpy_format
    refusals = _Refusals(arguments.skip_unsupported, arguments.quiet)
    with hurray.open(arguments.source, mmap="r") as file:
        for name in file:
            reason = module.obstacle(file.descriptor(name))
            if reason is not None:
                refusals.add(name, reason)
        names = [name for name in file if name not in refusals.names]
        if refusals.stop:
            return refusals.status(arguments.target)
        metadata = {} if arguments.no_metadata else file.kv
        total = sum(file._reader.entry(name)[3] for name in names)
        write = functools.partial(module.write, file, names, metadata)
        with replacing(arguments.target) as temporary:
            if target_format == "safetensors":
                write(temporary)
            else:
                with progress(total, "convert", arguments.quiet) as tell:
                    write(temporary, tell)
        if not arguments.quiet:
            for text in _sections_lost(file, names):
                note(f"not carried: {text}")
    return OK
