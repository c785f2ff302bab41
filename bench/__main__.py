"""Runs the comparisons; see --help. build-aux/bench sets up what they need and starts this."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from bench import (
    bridge,  # noqa: F401
    conversion,  # noqa: F401
    counting,
    descriptors,  # noqa: F401
    files,  # noqa: F401
    harness,
    imports,  # noqa: F401
    limits,  # noqa: F401
    machine,
    memory,  # noqa: F401
    plots,
    report,
    streams,  # noqa: F401
)
from bench.harness import Context, Definition, Measured, Result
from bench.worker import Worker

ROOT = report.ROOT
BUILD = ROOT / "build" / "bench"
RECORD = BUILD / "record.json"
PAGE = ROOT / "docs" / "performance.md"
GROUPS = ["limits", *report.TITLES]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="build-aux/bench", description=__doc__)
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="tiny sizes, no figures: does every row run, do sides agree?",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="rows whose key, or whose group, matches; writes nothing in docs/",
    )
    parser.add_argument("--count", action="store_true", help="instructions of those rows, too")
    parser.add_argument("--list", action="store_true", help="print keys and what they stand for")
    parser.add_argument(
        "--render",
        action="store_true",
        help="write docs/ again, from the last whole run and bench/notes.md",
    )
    parser.add_argument("--peer", metavar="PYTHON", help="an interpreter that has pyhurray")
    return parser.parse_args()


@contextlib.contextmanager
def context(options: argparse.Namespace) -> Iterator[Context]:
    """A folder on the disk of this tree, and the peer's process."""
    BUILD.mkdir(parents=True, exist_ok=True)
    why = no_peer(options.peer)
    if why and not options.smoke:
        sys.exit(f"pyhurray is needed: {why}")
    worker = None if why else Worker(options.peer, site.getsitepackages()[0])
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        try:
            yield Context(folder, worker, why, options.smoke)
        finally:
            if worker is not None:
                worker.close()


def no_peer(python: str | None) -> str:
    """Why there is no peer, or nothing."""
    if python is None or not os.path.exists(python):
        return "no environment with pyhurray"
    code = "import importlib.metadata as m; m.version('pyhurray')"
    done = subprocess.run([python, "-c", code], capture_output=True, check=False)
    return "pyhurray is not installed" if done.returncode else ""


def measure(c: Context, definitions: list[Definition]) -> tuple[list[Result], list[Result]]:
    """The results of the table, and those at other sizes."""
    results, others = [], []
    for d in definitions:
        sizes = d.sizes.values
        size = (d.sizes.smoke or sizes[0]) if c.smoke else sizes[d.sizes.table]
        started = time.perf_counter()
        try:
            results.append(harness.run(c, d, size))
            if not c.smoke:
                others += [harness.run(c, d, other, full=False) for other in sizes if other != size]
        except harness.Absent as why:
            print(f"{d.key}: left out: {why}")
        seconds = time.perf_counter() - started
        print(f"{d.key}: {seconds:.1f} s", file=sys.stderr, flush=True)
    return results, others


def count(c: Context, definitions: list[Definition], peer: str) -> dict[str, Any]:
    """Instructions of the sides of counted rows, by what the row is, and which of ours are checks."""
    if why := counting.absent():
        return {"absent": why}
    more = site.getsitepackages()[0]
    sides = [(d.what, *text) for d in definitions if d.counted for text in harness.texts(c, d)]
    counts: dict[tuple[str, str], float] = {}
    for python, theirs in ((sys.executable, False), (peer, True)):
        mine = [side for side in sides if side[4] == theirs]
        numbers = counting.count(python, more, [("pass", ""), *((s[2], s[3]) for s in mine)])
        for side, number in zip(mine, numbers[1:], strict=True):
            counts[side[:2]] = number - numbers[0]
    table: dict[str, Any] = {}
    for what, label, *_ in sides:
        table.setdefault(what, []).append([label, counts[what, label]])
    ours = {side[0]: side for side in reversed(sides)}  # the first of each row
    mine = [(statement, setup) for _, _, statement, setup, _ in ours.values()]
    checks = counting.count(sys.executable, more, mine, counting.CHECKS)
    for what, number in zip(ours, checks, strict=True):
        table[what][0].append(number)
    return table


def store(record: dict[str, Any]) -> None:
    RECORD.write_text(json.dumps(record, indent=1))


def restored(entry: dict[str, Any]) -> Result:
    ours = entry.pop("ours")
    others = [Measured(**side) for side in entry.pop("others")]
    return Result(**entry, ours=Measured(**ours) if ours else None, others=others)


def render() -> None:
    record = json.loads(RECORD.read_text())
    results = [restored(entry) for entry in record["results"]]
    scaled = [restored(entry) for entry in record["scaled"]]
    drawn = plots.draw(PAGE.parent, [*results, *scaled])
    PAGE.write_text(report.page(record, results, drawn))
    print(f"written: {PAGE.relative_to(ROOT)}")


def main() -> None:
    options = arguments()
    definitions = sorted(harness.chosen(options.only), key=lambda d: GROUPS.index(d.group))
    if options.list:
        for d in definitions:
            print(f"{d.group:12} {d.key:20} {d.what}")
        return
    if options.render:
        render()
        return
    if not definitions:
        sys.exit(f"no row matches {' '.join(options.only)}; --list names them")
    with context(options) as c:
        results, scaled = measure(c, definitions)
        description = {} if options.smoke else machine.describe(c.folder)
        counted = not options.smoke and (options.count or not options.only)
        counts = count(c, definitions, options.peer) if counted else {}
    if options.smoke:
        report.check(results)
        return
    print(report.plain(results))
    for what, sides in counts.items():
        print(what, sides)
    if options.only:
        return
    store(
        {
            "machine": description,
            "results": [dataclasses.asdict(r) for r in results],
            "scaled": [dataclasses.asdict(r) for r in scaled],
            "counts": counts,
        }
    )
    render()


if __name__ == "__main__":
    main()
