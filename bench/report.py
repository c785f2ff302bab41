"""What was measured, as a table for the terminal and as docs/performance.md."""

from __future__ import annotations

import pathlib
import re
from typing import Any

from bench.harness import Measured, Result

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOTES = ROOT / "bench" / "notes.md"
TITLES = {
    "bridge": "The bridge",
    "descriptors": "Descriptors",
    "conversion": "Conversion",
    "files": "Files",
    "streams": "Streams",
    "memory": "Memory",
    "imports": "Imports",
}


def amount(value: float, unit: str) -> str:
    """Three digits with a unit that suits."""
    if unit != "s":
        return f"{value:.3g} {unit}"
    for factor, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= factor:
            return f"{value / factor:.3g} {name}"
    return f"{value * 1e9:.3g} ns"


def rate(value: float, size: int) -> str:
    return f"{size / value / 1e9:.3g} GB/s"


def verdict(other: Measured) -> str:
    if other.absent:
        return "not there"
    if other.bar is None:
        return ""
    value = other.value if other.ratio is None else other.ratio
    return "yes" if value <= other.bar else "**no**"


def bar(other: Measured) -> str:
    if other.bar is None:
        return ""
    return f"≤ {other.bar:g} {'×' if other.unit == 's' else other.unit}"


def lines_of(result: Result) -> list[list[str]]:
    """Cells: what, compared with, ours, theirs, ratio, bar, reached, limit, rounds."""
    limits = "; ".join(
        f"{side.label}: {amount(side.value, side.unit)}, {side.ratio:.3g} ×"
        for side in result.others
        if side.limit and side.ratio is not None
    )
    lines = []
    ours = amount(result.ours.value, result.ours.unit) if result.ours else ""
    what = result.what
    rounds = str(result.rounds) if result.ours else ""
    for side in result.others:
        if side.limit and side.bar is None:
            continue
        theirs = "" if side.absent else amount(side.value, side.unit)
        ratio = "" if side.ratio is None else f"{side.ratio:.3g} ×"
        if side.ratio is None and not side.absent:  # a number of ours
            ours, theirs = theirs, ""
        cells = [what, side.label, ours, theirs, ratio, bar(side), verdict(side), limits, rounds]
        lines.append(cells)
        what = ours = limits = rounds = ""
    return lines


HEAD = [
    "what",
    "compared with",
    "ours",
    "theirs",
    "ratio",
    "to reach",
    "reached",
    "limit: ours to it",
    "rounds",
]


def plain(results: list[Result]) -> str:
    """For a terminal: columns."""
    rows = [HEAD, *(line for result in results for line in lines_of(result))]
    rows = [[cell.replace("**", "") for cell in line] for line in rows]
    widths = [max(len(line[i]) for line in rows) for i in range(len(HEAD))]
    text = "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in rows
    )
    return text + "\n" + roof(results, "  {}: {}\n")


def roof(results: list[Result], form: str) -> str:
    """The limits of the machine, a line each."""
    return "".join(
        form.format(r.what, rate(r.ours.value, r.bytes))
        for r in results
        if r.group == "limits" and r.ours
    )


def check(results: list[Result]) -> None:
    """After a smoke run, whose numbers mean nothing: says what was there and what not."""
    absent = {side.absent for result in results for side in result.others if side.absent}
    print(f"{len(results)} comparisons run; where sides give results, those are equal")
    for why in absent:
        print(f"left out, here and there: {why}")


def table(head: list[str], lines: list[list[str]]) -> str:
    text = "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *lines])
    return text.replace("|  |", "| |").replace("|  |", "| |")


def notes() -> dict[str, str]:
    """The texts of bench/notes.md by the key in their heading; what comes first is under ''."""
    parts = re.split(r"^## (.+)\n", NOTES.read_text(), flags=re.MULTILINE)
    return {"": parts[0]} | {
        k.strip(): t.strip() for k, t in zip(parts[1::2], parts[2::2], strict=True)
    }


def misses(result: Result) -> bool:
    return any(verdict(side) == "**no**" for side in result.others)


def _section(group: str, results: list[Result], texts: dict[str, str]) -> list[str]:
    lines = [line for result in results for line in lines_of(result)]
    parts = [f"### {TITLES[group]}\n", table(HEAD, lines)]
    for result in results:
        text = texts.get(result.key)
        if text is None and misses(result):
            text = "Not explained yet."
        if text is not None:
            parts.append(f"**{result.what}.** {text}\n")
    return parts


def _machine(machine: dict[str, str], results: list[Result]) -> list[str]:
    lines = [[name, value] for name, value in machine.items()]
    lines += [
        [r.what, rate(r.ours.value, r.bytes)] for r in results if r.group == "limits" and r.ours
    ]
    return ["## The machine\n", table(["", ""], lines)]


def _counts(counts: dict[str, Any]) -> list[str]:
    parts = ["## Instructions\n"]
    if "absent" in counts:
        return [*parts, f"Not counted: {counts['absent']}.\n"]
    lines = []
    for what, sides in counts.items():
        ours, *others = sides
        checks = f"{ours[2]:,.0f}" if len(ours) > 2 else ""
        for label, count in others:
            share = f"{ours[1] / count:.2f} ×" if count else ""
            lines.append([what, label, f"{ours[1]:,.0f}", checks, f"{count:,.0f}", share])
            what = checks = ""
    return [
        *parts,
        "Per call, counted by valgrind's callgrind, the loop around it taken off: the same on every load of the\n"
        "machine. Checks: those of ours in the function that holds a descriptor to the rules of the format, and in\n"
        "what it calls.\n",
        table(["what", "compared with", "ours", "of it checks", "theirs", "ratio"], lines),
    ]


def page(record: dict[str, Any], results: list[Result], plots: list[str]) -> str:
    """All of docs/performance.md."""
    texts = notes()
    parts = [
        "<!-- Written by build-aux/bench, from bench/notes.md and what it measured. -->\n",
        texts[""],
        *_machine(record["machine"], results),
        "## The table\n",
    ]
    for group in TITLES:
        members = [r for r in results if r.group == group]
        if members:
            parts += _section(group, members, texts)
    parts += _counts(record["counts"])
    if plots:
        parts += ["## Scaling\n", texts.get("scaling", "") + "\n"]
        parts += [f"![{TITLES[name]}](performance-{name}.svg)\n" for name in plots]
    return "\n".join(parts)
