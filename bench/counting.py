"""Instructions for each call, counted by valgrind's callgrind.

    python -m bench.counting MORE_PACKAGES <SIDES

is what runs under callgrind: it reads a JSON list of [statement, setup] and calls getppid, where
callgrind writes what it has counted, around two loops of different length for each. The difference of
their counts has neither the loops' beginnings in it nor the calls between.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from bench.sides import IMPORTS

SHORT, LONG = 100, 600
CHECKS = "hurray_descriptor_validate"  # holds a descriptor to the rules of the format
LOOP = """
def loop(number):
    for _ in range(number):
        {}
"""


def count(
    python: str, more_packages: str, sides: list[tuple[str, str]], inside: str = ""
) -> list[float]:
    """Instructions per call of each statement, in one process; inside: only those of a C function."""
    environment = dict(
        os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONHASHSEED="0"
    )
    if python != sys.executable:
        environment.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "valgrind",
            "--tool=callgrind",
            "--dump-before=getppid",
            f"--callgrind-out-file={folder}/out",
            *([f"--toggle-collect={inside}"] if inside else []),
            *(python, "-m", "bench.counting", more_packages),
        ]
        done = subprocess.run(
            command, input=json.dumps(sides), capture_output=True, text=True, env=environment
        )
        if done.returncode != 0:
            raise RuntimeError(f"callgrind: {done.stderr[-2000:]}")
        # The first of three dumps for each side ends before its loops, the others after one each.
        dumps = [_total(pathlib.Path(folder, f"out.{i + 1}")) for i in range(3 * len(sides))]
    return [(dumps[i + 2] - dumps[i + 1]) / (LONG - SHORT) for i in range(0, len(dumps), 3)]


def _total(path: pathlib.Path) -> int:
    for line in path.read_text().splitlines():
        if line.startswith("totals:"):
            return int(line.split()[1])
    raise ValueError(f"{path.name} has no totals")


def absent() -> str:
    """Why nothing can be counted here, or nothing."""
    return "" if shutil.which("valgrind") else "valgrind is not installed"


def _run() -> None:
    import numpy  # noqa: F401

    import hurray  # noqa: F401

    sys.path.append(sys.argv[1])
    for statement, setup in json.load(sys.stdin):
        names: dict[str, Any] = {}
        exec(IMPORTS + setup, names)
        exec(LOOP.format(statement), names)
        names["loop"](SHORT)  # specialized, caches filled
        os.getppid()
        names["loop"](SHORT)
        os.getppid()
        names["loop"](LONG)
        os.getppid()


if __name__ == "__main__":
    _run()
