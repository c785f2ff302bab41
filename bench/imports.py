"""What an import costs, in a fresh interpreter each time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from bench.harness import Comparison, row

CLOCK = "import time; a = time.perf_counter(); import {}; print(time.perf_counter() - a)"


def importing(module: str) -> Callable[[], float]:
    command = [sys.executable, "-c", CLOCK.format(module)]
    return lambda: float(subprocess.run(command, check=True, capture_output=True).stdout)


@row("import", "import hurray", budget=8)
def _(c: Comparison, n: int) -> None:
    for module in ("hurray", "json", "numpy"):
        c.sampled(f"import {module}", importing(module))
