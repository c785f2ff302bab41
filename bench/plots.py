"""How the rows scale: a picture for each group, with a plot for each row."""

from __future__ import annotations

import pathlib

from bench.harness import Result

COLUMNS = 3


def draw(folder: pathlib.Path, results: list[Result]) -> list[str]:
    """Writes performance-GROUP.svg for all groups whose rows have several sizes; returns their names."""
    drawn = []
    for group in dict.fromkeys(r.group for r in results):
        rows: dict[str, list[Result]] = {}
        for result in results:
            if result.group == group:
                rows.setdefault(result.key, []).append(result)
        rows = {key: found for key, found in rows.items() if len(found) > 1}
        if rows:
            _draw_group(folder / f"performance-{group}.svg", list(rows.values()))
            drawn.append(group)
    return drawn


def _draw_group(path: pathlib.Path, rows: list[list[Result]]) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    # Text as text, and the same file for the same numbers.
    style = {"svg.fonttype": "none", "svg.hashsalt": "hurray", "font.size": 8}
    with matplotlib.rc_context(style):
        count = -(-len(rows) // COLUMNS)
        figure, axes = plt.subplots(
            count, COLUMNS, figsize=(COLUMNS * 4, count * 3), squeeze=False, layout="constrained"
        )
        for axis in axes.flat[len(rows) :]:
            axis.set_visible(False)
        for axis, found in zip(axes.flat, rows, strict=False):
            _draw_row(axis, sorted(found, key=lambda r: r.size))
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        plt.close(figure)


def _short(size: int) -> str:
    for factor, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if size >= 10_000 and size >= factor:
            return f"{size / factor:.3g} {letter}"
    return str(size)


def _draw_row(axis: object, found: list[Result]) -> None:
    sizes = [r.size for r in found]
    lines: dict[str, list[float]] = {}
    for result in found:
        if result.ours:
            lines.setdefault("hurray", []).append(result.ours.value)
        for side in result.others:
            if not side.absent:
                lines.setdefault(side.label, []).append(side.value)
    for label, values in lines.items():
        ours = label == "hurray"
        if len(values) == len(sizes):
            axis.plot(sizes, values, marker=".", label=label, lw=2 if ours else 1)  # type: ignore[attr-defined]
    first = found[0]
    # Threads are to divide the time; memory beyond what is handed out may be none, or less.
    level = first.size_unit == "threads" or first.ours is None
    axis.set(  # type: ignore[attr-defined]
        xscale="log",
        yscale="linear" if level else "log",
        title=first.what,
        xlabel=first.size_unit,
        ylabel="seconds" if first.ours else first.others[0].unit,
    )
    axis.minorticks_off()  # type: ignore[attr-defined]
    axis.set_xticks(sizes, [_short(size) for size in sizes])  # type: ignore[attr-defined]
    if level and first.ours:
        axis.set_ylim(bottom=0)  # type: ignore[attr-defined]
    axis.legend(fontsize=6)  # type: ignore[attr-defined]
