"""What the machine can do: the roof that other rows are under."""

from __future__ import annotations

import os

from bench.harness import Comparison, Sizes, row

SIZE = 256 << 20


def limit(key: str, what: str, statement: str, setup: str, **options: str) -> None:
    @row(key, what, Sizes("bytes", (SIZE,), smoke=1 << 20), budget=2)
    def _(c: Comparison, n: int) -> None:
        c.bytes = n
        path = os.path.join(c.context.folder, "limit")
        c.ours(statement, setup.format(n=n, path=path), result=None, **options)


BLOCK = "a = np.ones({n}, np.uint8); b = np.ones({n}, np.uint8); path = {path!r}\n"
FILE = BLOCK + "data.write_raw(path, dict(a=a), True)\n"
limit("limit-read", "reading memory (max of bytes)", "a.max()", BLOCK)
limit("limit-write", "writing touched memory (fill)", "a.fill(2)", BLOCK)
limit("limit-copy", "memcpy into touched memory", "np.copyto(b, a)", BLOCK)
HALVES = (
    BLOCK
    + """
threads, middle = data.pool(2), a.size // 2
def halves():
    list(threads.map(np.copyto, (b[:middle], b[middle:]), (a[:middle], a[middle:])))
"""
)
if hasattr(os, "sched_setaffinity"):
    limit("limit-copy-2", "memcpy into touched memory, 2 threads", "halves()", HALVES)
limit("limit-new", "memcpy into new memory", "_ = a.copy()", BLOCK)
limit(
    "limit-cache",
    "os.write into the page cache",
    "data.write_raw(path, dict(a=a), False)",
    BLOCK,
    before="data.fresh(path)",
)
limit(
    "limit-disk",
    "os.write and fsync",
    "data.write_raw(path, dict(a=a), True)",
    BLOCK,
    before="data.fresh(path)",
)
limit("limit-file", "readinto from the page cache", "data.read_raw(path, memoryview(b))", FILE)
