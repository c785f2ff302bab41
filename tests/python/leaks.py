"""Whether something that is done over and over leaves anything behind."""

from __future__ import annotations

import gc
import operator
import sys
from collections.abc import Callable
from pathlib import Path


def is_sanitized() -> bool:
    """AddressSanitizer keeps freed memory for a while and counts leaks itself."""
    maps = Path("/proc/self/maps")
    return maps.exists() and "libasan" in maps.read_text()


def resident_bytes() -> int:
    """Memory of this process, where the system tells; 0 where it does not."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4096 if statm.exists() else 0


def check(action: Callable[[], object], objects: list[object], *, repetitions: int) -> None:
    """Does `action` again and again: no reference to `objects` stays, and no memory.

    The tolerances are far below one byte and one reference in a hundred repetitions.
    """
    if is_sanitized():
        repetitions //= 100
    for _ in range(repetitions // 50):
        action()
    gc.collect()
    references, memory = list(map(sys.getrefcount, objects)), resident_bytes()
    for _ in range(repetitions):
        action()
    gc.collect()
    growth = list(map(operator.sub, map(sys.getrefcount, objects), references))
    assert max(map(abs, growth), default=0) <= repetitions // 1000, growth
    if not is_sanitized():
        # The smallest object that could stay behind each time has 16 bytes.
        assert resident_bytes() - memory < 4 * repetitions + (1 << 20)
