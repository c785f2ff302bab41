"""One side of a comparison: code that is prepared once and timed many times.

The peer's worker imports this too, in an environment that may have only NumPy.
"""

from __future__ import annotations

import hashlib
import timeit
from typing import Any

# What setup code may use, where it is installed.
IMPORTS = """
import operator, os, pickle, socket, struct
import numpy as np
import hurray
from bench import data
"""


class Code:
    """Statements as text, so that what is timed is what somebody would write.

    setup is run once, also for all sides that have the same and share namespaces; before, which is not timed, ahead of each run of statement; with keep, what the
    statement, an expression, results in is released after the clock has stopped; result, an
    expression for which nothing runs again but itself, is what other sides should get, too.
    """

    def __init__(
        self,
        statement: str,
        setup: str = "",
        namespaces: dict[str, dict[str, Any]] | None = None,
        *,
        before: str = "",
        keep: bool = False,
        result: str | None = "",
    ) -> None:
        shared = {} if namespaces is None else namespaces
        if setup not in shared:
            shared[setup] = {}
            exec(IMPORTS + setup, shared[setup])
        self.names = shared[setup]
        self.before = compile(before, "<before>", "exec")
        self.single = bool(before or keep)
        self.timer = timeit.Timer(f"_ = {statement}" if keep else statement, globals=self.names)
        self.result = statement if result == "" else result

    def value(self) -> str | None:
        """A digest of the result, after the code has run once."""
        self.time(1)
        return None if self.result is None else digest(eval(self.result, self.names))

    def time(self, number: int) -> float:
        """Seconds that number runs take, garbage collection off."""
        exec(self.before, self.names)
        return self.timer.timeit(number)

    def close(self) -> None:
        self.names.clear()


def digest(value: Any) -> str:
    """The same for equal elements and shapes, whichever library holds them."""
    hasher = hashlib.blake2b(digest_size=16)
    _feed(hasher, value)
    return hasher.hexdigest()


def _feed(hasher: Any, value: Any) -> None:
    import numpy as np

    if isinstance(value, (list, tuple)):
        hasher.update(b"[%d" % len(value))
        for item in value:
            _feed(hasher, item)
    elif isinstance(value, (str, bytes, int, float)) or value is None:
        hasher.update(repr(value).encode())
    else:
        if type(value).__module__.split(".")[0] == "scipy":
            value = value.toarray() if value.nnz < 1000 else value.sum()
        array = np.ascontiguousarray(np.asarray(value))
        hasher.update(repr(array.shape).encode())
        hasher.update(array.reshape(-1).view(np.uint8).data)
