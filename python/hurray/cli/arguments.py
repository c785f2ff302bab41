"""Subcommands and their options, from which help and shell completion are made as well."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from typing import Any

from .. import __version__

_EPILOG = """\
exit status:
  0    all is well
  1    a fault or a difference was found, or something could not be carried
  2    the command was called wrongly
  3    it failed: a file cannot be read, a library is missing
  130  interrupted by Ctrl-C
  141  the reader of the output went away
  143  terminated (129: hung up)
"""


def _later(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """Calls a function of a module that is imported only then."""

    def run(arguments: argparse.Namespace) -> int:
        found = getattr(importlib.import_module(f".{module}", __package__), function)
        return int(found(arguments))

    return run


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="hurray",
        description="Look into Hurray files and streams, check, compare and convert them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"hurray {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (_ls, _inspect, _kv, _cat, _verify, _diff, _convert, _stream, _completion):
        add(commands)
    return parser


def _command(commands: Any, name: str, run: Callable[[Any], int], help: str) -> Any:
    made = commands.add_parser(
        name, help=help, description=f"{help[0].upper()}{help[1:]}.", allow_abbrev=False
    )
    made.set_defaults(run=run)
    # Also after the subcommand, where one adds it having seen the error.
    made.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
    )
    return made


def _ls(commands: Any) -> None:
    command = _command(commands, "ls", _later("look", "ls"), "list the tensors of a file or stream")
    command.add_argument("file", help="a file, a stream, a URL; - for a stream on standard input")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as a JSON list, sizes in bytes")
    form.add_argument("--names", action="store_true", help="names only, one per line")
    command.add_argument("--members", action="store_true", help="members of composites, too")


def _inspect(commands: Any) -> None:
    command = _command(
        commands, "inspect", _later("inspect", "inspect"), "show descriptors byte by byte"
    )
    command.add_argument(
        "file",
        nargs="?",
        default="-",
        help="a file, a stream or a descriptor; - for standard input",
    )
    command.add_argument("name", nargs="?", help="of a tensor in a file; all of them without")
    command.add_argument(
        "--permissive", action="store_true", help="accept what is only reserved (spec 1)"
    )
    command.add_argument("--color", choices=("auto", "always", "never"), default="auto")


def _kv(commands: Any) -> None:
    command = _command(commands, "kv", _later("look", "kv"), "show the metadata of a file")
    command.add_argument("file", help="a file or a URL")
    command.add_argument("key", nargs="?", help="only the value of this key")
    command.add_argument("--json", action="store_true", help="as JSON")


def _cat(commands: Any) -> None:
    command = _command(commands, "cat", _later("look", "cat"), "show the values of a tensor")
    command.add_argument("file", help="a file or a URL")
    command.add_argument("tensor", help="a name, or a slice: 'w[0:3, :2]'")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as nested JSON lists")
    form.add_argument(
        "--raw", action="store_true", help="the bytes of the values, in row-major order"
    )
    command.add_argument("--all", action="store_true", help="every value, where '...' would stand")
    command.add_argument(
        "--precision", type=int, metavar="N", help="digits after the point, at most (8)"
    )


def _verify(commands: Any) -> None:
    command = _command(
        commands, "verify", _later("check", "verify"), "check files and streams; list all faults"
    )
    command.add_argument(
        "files", nargs="+", metavar="file", help="a file or a stream; - for one on standard input"
    )
    command.add_argument(
        "--deep",
        action="store_true",
        help="also what is in the buffers: indices, pointers, scales, statistics",
    )
    command.add_argument("-q", "--quiet", action="store_true", help="say nothing but faults")


def _diff(commands: Any) -> None:
    command = _command(commands, "diff", _later("check", "diff"), "compare two files")
    command.add_argument("a", help="a file or a URL")
    command.add_argument("b", help="another; what is said is how it differs from the first")
    command.add_argument("--no-data", action="store_true", help="descriptors and metadata only")
    command.add_argument("-q", "--quiet", action="store_true", help="only the exit status")


def _convert(commands: Any) -> None:
    command = _command(
        commands,
        "convert",
        _later("convert", "convert"),
        "convert from and to safetensors, npy, npz, PyTorch and GGUF files",
    )
    command.add_argument("source", help="a Hurray, safetensors, npy, npz, PyTorch or GGUF file")
    command.add_argument("target", help="a Hurray, safetensors or npz file; its suffix tells which")
    command.add_argument(
        "--from",
        dest="source_format",
        choices=("hurray", "safetensors", "npy", "npz", "torch", "gguf"),
        help="the format of the source; without: by what it begins with, or its suffix",
    )
    command.add_argument(
        "--to",
        dest="target_format",
        choices=("hurray", "safetensors", "npz"),
        help="the format of the target; without: by its suffix, Hurray for one that is unknown",
    )
    command.add_argument(
        "--skip-unsupported",
        action="store_true",
        help="leave out tensors that cannot be carried; without: nothing is written then",
    )
    command.add_argument(
        "--dequantize",
        action="store_true",
        help="GGUF: make float32 of block formats that have no counterpart, like the K-quants",
    )
    command.add_argument("--no-metadata", action="store_true", help="leave metadata out")
    command.add_argument("--checksums", action="store_true", help="Hurray: a CRC-32C per tensor")
    command.add_argument("--sorted-index", action="store_true", help="Hurray: an index by name")
    command.add_argument("--alignment", type=int, metavar="BYTES", help="Hurray: of data (4096)")
    command.add_argument("-q", "--quiet", action="store_true", help="no notes, no progress bar")


def _stream(commands: Any) -> None:
    command = _command(
        commands,
        "stream",
        _later("stream", "stream"),
        "make a stream of a file, or a file of a stream",
    )
    command.add_argument("source", help="a file, or a stream; - for a stream on standard input")
    command.add_argument(
        "target",
        nargs="?",
        default="-",
        help="the other of both; - for a stream on standard output",
    )
    command.add_argument(
        "--names",
        metavar="JSON",
        help="a JSON file for what streams do not carry, names and metadata: written beside a "
        "stream, read beside it on the way back. Without: names are 0000, 0001, …",
    )
    command.add_argument(
        "--cross-machine", action="store_true", help="refuse buffers that need events"
    )
    command.add_argument(
        "--checksums", action="store_true", help="into a file: a CRC-32C per tensor"
    )
    command.add_argument("-q", "--quiet", action="store_true", help="no notes, no progress bar")


def _completion(commands: Any) -> None:
    command = _command(
        commands, "completion", _later("completion", "completion"), "print a completion script"
    )
    command.add_argument("shell", choices=("bash", "zsh", "fish"))
