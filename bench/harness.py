"""Rows of the table, and how each is measured: its sides in turn, round after round.

A row is a function that is given a Comparison and a size, and says what to compare:

    @row("numpy-asarray", "np.asarray(t)", Sizes("elements", (10, 1000, 100_000), table=0))
    def _(c: Comparison, n: int) -> None:
        setup = f"t = hurray.from_numpy(np.zeros({n}))"
        c.ours("np.asarray(t)", setup)
        c.against("pyhurray", "np.asarray(t)", setup, bar=0.1, peer=True)
"""

from __future__ import annotations

import dataclasses
import fnmatch
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.sides import Code
from bench.worker import RemoteCode, Worker

MOST_ROUNDS = 1001

Row = Callable[["Comparison", int], None]


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes a row runs at: the one in the table, by its place, and others for the plots."""

    unit: str
    values: tuple[int, ...]
    table: int = -1
    smoke: int = 0  # of a smoke run; 0: the first


ONE_SIZE = Sizes("", (1,))
THREADS = Sizes("threads", (1, 2, 10, 100), table=1, smoke=2)


@dataclasses.dataclass
class Definition:
    """What a row is called, where it belongs and how it runs."""

    key: str
    what: str
    sizes: Sizes
    budget: float
    counted: bool
    run: Row
    group: str


@dataclasses.dataclass
class Side:
    label: str
    code: Any  # Code, RemoteCode, or what has their methods; None: not there
    bar: float | None = None  # ratio of ours to this one that is to be reached
    limit: bool = False  # a physical limit, no peer
    result: str | None = None
    number: int = 1
    seconds: list[float] = dataclasses.field(default_factory=list)
    absent: str = ""


@dataclasses.dataclass
class Measured:
    """One side, as the report has it. ratio: ours to this one, the median over the rounds."""

    label: str
    value: float  # in `unit`
    unit: str
    ratio: float | None = None
    bar: float | None = None
    limit: bool = False
    absent: str = ""


@dataclasses.dataclass
class Result:
    key: str
    group: str
    what: str
    size: int
    size_unit: str
    rounds: int
    bytes: int
    ours: Measured | None
    others: list[Measured]


ROWS: list[Definition] = []


def row(
    key: str,
    what: str,
    sizes: Sizes = ONE_SIZE,
    *,
    budget: float = 1.0,
    counted: bool = False,
) -> Callable[[Row], Row]:
    """Enters a row. budget: seconds for the rounds; counted: are instructions counted, too?"""

    def enter(function: Row) -> Row:
        group = function.__module__.rpartition(".")[2]
        ROWS.append(Definition(key, what, sizes, budget, counted, function, group))
        return function

    return enter


def chosen(patterns: list[str]) -> list[Definition]:
    """Rows whose key or group matches one of the patterns; all without any."""
    names = patterns or ["*"]
    return [d for d in ROWS if any(fnmatch.fnmatch(n, p) for n in (d.key, d.group) for p in names)]


class Absent(Exception):
    """Why a row or side cannot be measured on this machine."""


@dataclasses.dataclass
class Context:
    """Where a run happens."""

    folder: str  # for files; emptied at the end
    worker: Worker | None  # pyhurray's environment
    no_worker: str  # why there is none
    smoke: bool

    def cached(self, name: str, make: Callable[[str], None]) -> str:
        """The path of a file in folder, made when it is first asked for."""
        import os

        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            make(path)
        return path


class Comparison:
    """What a row consists of; measures it."""

    def __init__(self, context: Context, definition: Definition, size: int) -> None:
        self.namespaces: dict[str, dict[str, Any]] = {}  # by setup: sides with the same share it
        self.context = context
        self.definition = definition
        self.size = size
        self.bytes = 0  # that one run moves, where that is meant
        self.values: list[Measured] = []
        self.sides: list[Side] = []
        self.texts: list[tuple[str, str, str, bool]] = []  # for counting: label, code, setup, peer

    # ---- what a row calls ----

    def ours(self, statement: str, setup: str = "", **options: Any) -> None:
        """The side that is compared with all others; options as of sides.Code."""
        self._add(statement, None, statement, setup, options)

    def against(
        self,
        label: str,
        statement: str,
        setup: str = "",
        *,
        bar: float | None = None,
        peer: bool = False,
        limit: bool = False,
        **options: Any,
    ) -> None:
        """Something to compare with. peer: runs in pyhurray's environment. limit: what the machine needs for
        the bytes alone; it may have a bar, too."""
        if limit:
            options.setdefault("result", None)
        self._add(label, bar, statement, setup, options, peer, limit)

    def sampled(
        self, label: str, sampler: Callable[[], float], *, bar: float | None = None
    ) -> None:
        """A side whose seconds a function tells."""
        self.sides.append(Side(label, Sampler(sampler), bar))

    def value(self, label: str, value: float, unit: str, *, bar: float | None = None) -> None:
        """A number that is compared with nothing but a bar in the same unit."""
        self.values.append(Measured(label, value, unit, bar=bar))

    def _add(
        self,
        label: str,
        bar: float | None,
        statement: str,
        setup: str,
        options: dict[str, Any],
        peer: bool = False,
        limit: bool = False,
    ) -> None:
        side = Side(label, None, bar, limit)
        self.sides.append(side)
        if self.definition.counted and not limit:
            self.texts.append((label, statement, setup, peer))
        worker = self.context.worker
        if not peer:
            side.code = Code(statement, setup, self.namespaces, **options)
        elif worker is not None:
            side.code = RemoteCode(worker, statement, setup, **options)
        else:
            side.absent = self.context.no_worker

    # ---- measuring ----

    def measure(self, budget: float, least: int) -> Result:
        """Warms all sides up, compares what they return, then times them in turn."""
        there = [side for side in self.sides if side.code is not None]
        if not self.context.smoke:
            gc.collect()
        try:
            estimate = sum(self._prepare(side) for side in there)
            self._compare_results(there)
            rounds = self._rounds(there, budget, least, estimate)
        finally:
            for side in there:
                side.code.close()
        return self._result(there, rounds)

    def _prepare(self, side: Side) -> float:
        """Sets how often a sample runs the code; returns about how long one takes, in seconds."""
        # Shorter than what a scheduler gives to others in between, so that few samples hold that.
        target = 1e-4 if self.context.smoke else 4e-4
        side.result = side.code.value()
        while True:
            seconds = side.code.time(side.number)
            if side.code.single or seconds >= target or side.number >= 1 << 20:
                return float(seconds)
            side.number *= 2 if seconds > target / 8 else 8

    def _compare_results(self, sides: list[Side]) -> None:
        results = {side.label: side.result for side in sides if side.result is not None}
        if len(set(results.values())) > 1:
            raise AssertionError(f"{self.definition.key}: the sides differ: {results}")

    def _rounds(self, sides: list[Side], budget: float, least: int, estimate: float) -> int:
        """Times the sides in turn until budget is used up, and at least so often."""
        end = time.perf_counter() + budget
        rounds = 0
        while rounds < least or (
            rounds < MOST_ROUNDS and time.perf_counter() + estimate < end and not self.context.smoke
        ):
            for i in range(len(sides)):  # each is first as often as others
                side = sides[(i + rounds) % len(sides)]
                side.seconds.append(side.code.time(side.number) / side.number)
            rounds += 1
        return rounds

    def _result(self, there: list[Side], rounds: int) -> Result:
        first = there[0] if there else None
        others = list(self.values)
        ours = None
        for side in self.sides:
            if side.absent:
                others.append(Measured(side.label, 0.0, "s", None, side.bar, absent=side.absent))
                continue
            median = statistics.median(side.seconds)
            if not median > 0:
                raise AssertionError(f"{self.definition.key}: {side.label} took {median} s")
            if side is first:
                ours = Measured(side.label, median, "s")
                continue
            assert first is not None
            ratio = statistics.median(
                a / b for a, b in zip(first.seconds, side.seconds, strict=True)
            )
            others.append(Measured(side.label, median, "s", ratio, side.bar, side.limit))
        d = self.definition
        return Result(
            d.key, d.group, d.what, self.size, d.sizes.unit, rounds, self.bytes, ours, others
        )


class Sampler:
    """A side for Comparison.sampled."""

    single = True

    def __init__(self, sampler: Callable[[], float]) -> None:
        self.sampler = sampler

    def value(self) -> None:
        return None

    def time(self, number: int) -> float:
        return self.sampler()

    def close(self) -> None:
        pass


def run(context: Context, definition: Definition, size: int, *, full: bool = True) -> Result:
    """Measures a row at a size; not full: with fewer rounds, for a plot."""
    comparison = Comparison(context, definition, size)
    definition.run(comparison, size)
    if context.smoke:
        return comparison.measure(0.0, 2)
    return comparison.measure(
        definition.budget if full else definition.budget / 4, 5 if full else 3
    )


def texts(context: Context, definition: Definition) -> Iterator[tuple[str, str, str, bool]]:
    """Label, code, setup of the sides of a counted row, and whether they are the peer's."""
    size = definition.sizes.values[definition.sizes.table]
    comparison = Comparison(context, definition, size)
    definition.run(comparison, size)
    for side in comparison.sides:
        if side.code is not None:
            side.code.close()
    yield from comparison.texts
