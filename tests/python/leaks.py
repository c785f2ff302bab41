"""Whether something that is done over and over leaves anything behind.

Three counts must stay where they are: references to objects, blocks of Python's allocator, and bytes
of the C heap. One byte lost each time takes at least 24 of the heap, so that it shows after a few
hundred repetitions; the memory of the process would tell only after many more.
"""

from __future__ import annotations

import ctypes
import gc
import operator
import sys
from collections.abc import Callable
from pathlib import Path


def is_sanitized() -> bool:
    """AddressSanitizer keeps freed memory for a while, and makes everything slow."""
    maps = Path("/proc/self/maps")
    return maps.exists() and "libasan" in maps.read_text()


SANITIZED = is_sanitized()


def resident_bytes() -> int:
    """Memory of this process, where the system tells; 0 where it does not."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4096 if statm.exists() else 0


class Mallinfo2(ctypes.Structure):
    """Of glibc since 2.33."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    ]


def _find_heap_count() -> Callable[[], int] | None:
    """A function that tells how many bytes of the C heap are in use; None where nobody counts."""
    libc = ctypes.CDLL(None)
    if SANITIZED and hasattr(libc, "__sanitizer_get_current_allocated_bytes"):
        count = libc["__sanitizer_get_current_allocated_bytes"]
        count.restype, count.argtypes = ctypes.c_size_t, []
        return count
    if not hasattr(libc, "mallinfo2"):
        return None
    libc.mallinfo2.restype, libc.mallinfo2.argtypes = Mallinfo2, []

    def in_use() -> int:
        info = libc.mallinfo2()
        return info.uordblks + info.hblkhd

    return in_use


heap_bytes = _find_heap_count()


def _growth(action: Callable[[], object], objects: list[object], repetitions: int) -> list[str]:
    """What is more, or less, after so many repetitions than before."""
    gc.collect()
    references = list(map(sys.getrefcount, objects))
    blocks, heap, resident = 0, 0, 0
    for _ in range(2):  # the first time makes the integers
        blocks = sys.getallocatedblocks()
        heap = heap_bytes() if heap_bytes else 0
        resident = resident_bytes()
    for _ in range(repetitions):
        action()
    gc.collect()
    more_heap = heap_bytes() - heap if heap_bytes else 0
    more_blocks = sys.getallocatedblocks() - blocks
    found = []
    counts = list(map(operator.sub, map(sys.getrefcount, objects), references))
    if max(map(abs, counts), default=0) > repetitions // (10 if SANITIZED else 1000) + 1:
        found.append(f"references {counts}")
    if more_blocks > repetitions // 100 + 20:
        found.append(f"{more_blocks} blocks of Python's allocator")
    # AddressSanitizer counts the bytes asked for, and Python's objects among them.
    if more_heap > (repetitions // 2 + (16 << 10) if SANITIZED else 4 * repetitions + 1024):
        found.append(f"{more_heap} bytes of the C heap")
    # The smallest object that could stay behind each time has 16 bytes.
    if not SANITIZED and resident_bytes() - resident > 4 * repetitions + (1 << 20):
        found.append(f"{resident_bytes() - resident} bytes of the process")
    return found


def check(
    action: Callable[[], object], objects: list[object], *, repetitions: int, sanitized: int = 0
) -> None:
    """Does `action` again and again: no reference to `objects` stays, and no memory.

    Under a sanitizer it is done `sanitized` times, a hundredth where that is not given. A leak
    grows every time that is measured, a cache that some library fills does not.
    """
    if SANITIZED:
        repetitions = sanitized or max(repetitions // 100, 100)
    for _ in range(repetitions // 50 + 5):
        action()
    found = ["not measured"]
    attempts = 0
    while found and attempts < 3:
        found = _growth(action, objects, repetitions)
        attempts += 1
    assert not found, f"left behind by {repetitions} repetitions: " + ", ".join(found)
