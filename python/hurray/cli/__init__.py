"""The `hurray` command (spec 8.12, 8.13; docs/command.md): looks into files and streams, converts them.

What it does is in the library; here are arguments, tables, and the way to formats of others. A module
for each group of subcommands, which is imported when one of them is called.

Exit statuses: 0 all is well; 1 a fault or a difference was found, or something could not be carried;
2 the command was called wrongly; 3 it failed: a file that cannot be read, a library that is missing.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

OK, FOUND, USAGE, FAILED = 0, 1, 2, 3
_INTERRUPTED = 128 + 2  # as of a process that SIGINT ended
_BROKEN_PIPE = 128 + 13  # and SIGPIPE


class UsageError(Exception):
    """What the arguments ask for makes no sense; exit status 2."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; argv without the program's name, None: sys.argv. Returns the exit status."""
    from .arguments import build_parser

    parser = build_parser()
    arguments = parser.parse_args(argv)
    try:
        status = arguments.run(arguments)
        sys.stdout.flush()
    except UsageError as error:
        print(f"hurray: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        if is_broken_pipe(error):
            _silence_stdout()
            return _BROKEN_PIPE
        if arguments.debug:
            raise
        print(f"hurray: {describe(error)}", file=sys.stderr)
        return FAILED
    return int(status)


def is_broken_pipe(error: BaseException) -> bool:
    """Whether the reader of a pipe went away."""
    return isinstance(error, OSError) and error.errno == errno.EPIPE


def describe(error: BaseException) -> str:
    """What went wrong, in one line."""
    if isinstance(error, OSError) and error.strerror:
        # Not str(error), which leads with "[Errno 2]".
        where = (
            f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        )
        text = f"{where}{error.strerror}"
    elif isinstance(error, KeyError):
        text = str(error.args[0]) if error.args else "not found"
    else:
        text = str(error)
    text = " ".join(text.split()) or type(error).__name__
    if isinstance(error, MemoryError):
        text = f"out of memory: {text}"
    return text


def _silence_stdout() -> None:
    """So that the interpreter does not fail once more when it flushes."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        pass
