"""Tables, sizes, JSON and progress bars: what all subcommands print alike."""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

# A bar for less would be gone before it is seen.
_LONG_WORK = 64 << 20
# Characters of a name in a sentence.
_LONGEST_NAME = 200


def is_terminal(stream: Any) -> bool:
    """Whether somebody is looking."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def shown_size(size: int) -> str:
    """'1.5 MiB'."""
    if size < 1024:
        return f"{size} B"
    amount = size / 1024
    units = iter(("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))
    unit = next(units)
    while amount >= 1000:
        amount, unit = amount / 1024, next(units)
    return f"{amount:.3g} {unit}" if amount < 100 else f"{amount:.0f} {unit}"


def shown_shape(shape: Sequence[int | None]) -> str:
    """'[2, 3]'; a dynamic extent is '?'."""
    return "[" + ", ".join("?" if extent is None else str(extent) for extent in shape) + "]"


def printable(text: str) -> str:
    """A name or a string from a file, with no control characters that a terminal would obey."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def short(name: str) -> str:
    """In quotes; of a long one the beginning."""
    return repr(name) if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]!r}…"


def shown(text: str) -> str:
    """The same where somebody is looking, all of it for a program; lines stay lines."""
    if not is_terminal(sys.stdout):
        return text
    return "\n".join(printable(line.expandtabs()) for line in text.split("\n"))


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Columns, two spaces apart; those whose numbers are in `right` are set to the right."""
    lines = [tuple(heading), *map(tuple, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


# What JSON need not escape, and a terminal might obey.
_CONTROLS = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def print_json(value: Any) -> None:
    """Bytes become {"base64": "…"}."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=json_of_bytes)
    print(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def json_of_bytes(value: object) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode("ascii")}
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def bytes_of_json(value: dict[str, Any]) -> Any:
    """The reverse, an object_hook."""
    if set(value) == {"base64"} and isinstance(value["base64"], str):
        return base64.b64decode(value["base64"], validate=True)
    return value


def note(text: str) -> None:
    """Something worth knowing, on standard error, in one line; what was printed before comes first."""
    sys.stdout.flush()
    print(f"hurray: {printable(text)}", file=sys.stderr)


@contextlib.contextmanager
def progress(total: int | None, what: str, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A function that takes the bytes done since the last call.

    There is a bar on long work (None: unknown, thus long), on a terminal, where tqdm is installed.
    """
    bar = None
    if not quiet and (total is None or total >= _LONG_WORK) and is_terminal(sys.stderr):
        with contextlib.suppress(ImportError):
            from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

            bar = tqdm(
                total=total, unit="B", unit_scale=True, desc=what, file=sys.stderr, leave=False
            )
    try:
        yield (lambda done: None) if bar is None else bar.update
    finally:
        if bar is not None:
            bar.close()


def same_file(path: str, other: str) -> bool:
    """Whether both lead to one file, also one that is not there yet."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return os.path.realpath(path) == os.path.realpath(other)


def _mode_to_replace(path: str) -> int | None:
    """Of the file at `path`; None: there is none. What no file can replace is refused."""
    mode = None
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if not path:
            raise
    if (mode is not None and stat.S_ISDIR(mode)) or path.endswith("/"):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return mode


@contextlib.contextmanager
def replacing(path: str, sequential: bool = False) -> Iterator[str]:
    """A temporary path beside `path` for a whole new file, renamed when all went well.

    On a failure the old file is untouched and the temporary one gone. `sequential`: what is written
    goes from beginning to end, and so into pipes and devices, which are written to as they are.
    """
    mode = _mode_to_replace(path)
    if mode is not None and not stat.S_ISREG(mode):
        if not sequential:
            raise OSError(errno.ESPIPE, "no regular file, which this format needs", path)
        yield path
        return
    target = os.path.realpath(path)
    temporary = os.path.join(os.path.dirname(target), f".hurray-{secrets.token_hex(8)}.tmp")
    try:
        # Made here, so that nobody else's file is taken for it.
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
