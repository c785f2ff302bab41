"""The `hurray` command (spec 8.12, 8.13; docs/command.md): looks into files and streams, converts them.

What it does is in the library; here are arguments, tables, and the way to formats of others. A module
for each group of subcommands, which is imported when one of them is called.

Exit statuses: 0 all is well; 1 a fault or a difference was found, or something could not be carried;
2 the command was called wrongly; 3 it failed: a file that cannot be read, a library that is missing;
128 and more: what a process has that a signal ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import NoReturn

OK, FOUND, USAGE, FAILED = 0, 1, 2, 3
_INTERRUPTED = 128 + signal.SIGINT
_BROKEN_PIPE = 128 + signal.SIGPIPE

# Characters of an error that are shown: names in it may be a stranger's.
_LONGEST_ERROR = 2000


class UsageError(Exception):
    """What the arguments ask for makes no sense; exit status 2."""


class _Ended(BaseException):
    """A signal asks the process to end, which then clears away what it has begun."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; argv without the program's name, None: sys.argv. Returns the exit status."""
    from .arguments import build_parser

    arguments = build_parser().parse_args(argv)
    try:
        with _signals_raise(), _streams_are_open():
            status = int(arguments.run(arguments))
            sys.stdout.flush()
    except UsageError as error:
        _say(describe(error))
        return USAGE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except _Ended as ended:
        return 128 + int(ended.args[0])
    except Exception as error:
        if is_broken_pipe(error):
            _silence_stdout()
            return _BROKEN_PIPE
        if arguments.debug:
            raise
        _say(describe(error))
        return FAILED
    return status


def _say(text: str) -> None:
    if sys.stderr is not None:  # type: ignore[redundant-expr, unused-ignore]
        print(f"hurray: {text}", file=sys.stderr)


@contextlib.contextmanager
def _signals_raise() -> Iterator[None]:
    """Signals that would end the process at once raise instead, so that no temporary file stays."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise _Ended(number)

    ours = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                ours[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, before in ours.items():
            signal.signal(number, before)


@contextlib.contextmanager
def _streams_are_open() -> Iterator[None]:
    """A shell can have closed them: no output is a failure, and standard error is not missed."""
    err = sys.stderr
    with contextlib.ExitStack() as stack:
        if sys.stdout is None:  # type: ignore[redundant-expr, unused-ignore]
            raise OSError(errno.EBADF, "standard output is closed")
        if err is None:
            sys.stderr = stack.enter_context(open(os.devnull, "w"))
        try:
            yield
        finally:
            sys.stderr = err


def is_broken_pipe(error: BaseException) -> bool:
    """Whether the reader of a pipe went away."""
    return isinstance(error, OSError) and error.errno == errno.EPIPE


def describe(error: BaseException) -> str:
    """What went wrong, in one line that a terminal only shows."""
    from .output import printable

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
    text = printable(" ".join(text.split())) or type(error).__name__
    if isinstance(error, MemoryError):
        text = f"out of memory: {text}"
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"


def _silence_stdout() -> None:
    """So that the interpreter does not fail once more when it flushes."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        pass
