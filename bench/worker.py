"""Runs sides in another environment, whose `hurray` is another package.

A line of JSON asks on standard input, a line of JSON answers on standard output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from bench.sides import Code


class Worker:
    """The other environment, as seen from this one."""

    def __init__(self, python: str, more_packages: str) -> None:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        self.process = subprocess.Popen(
            [python, "-m", "bench.worker", more_packages],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.count = 0

    def ask(self, operation: str, *arguments: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([operation, *arguments]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the peer ended, exit status {self.process.wait()}")
        answer, error = json.loads(line)
        if error is not None:
            raise RuntimeError(f"peer: {error}")
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class RemoteCode:
    """A side in the worker, with the methods of Code."""

    def __init__(self, worker: Worker, *arguments: Any, **options: Any) -> None:
        self.worker = worker
        self.key = worker.count
        worker.count += 1
        self.single: bool = worker.ask("make", self.key, arguments, options)

    def value(self) -> str | None:
        answer: str | None = self.worker.ask("value", self.key)
        return answer

    def time(self, number: int) -> float:
        return float(self.worker.ask("time", self.key, number))

    def close(self) -> None:
        self.worker.ask("close", self.key)


def _serve() -> None:
    # The package of this environment comes first; libraries that are only in the other one are there.
    import numpy  # noqa: F401

    import hurray  # noqa: F401

    sys.path.append(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed must not be taken for an answer
    made: dict[int, Code] = {}
    for line in sys.stdin:
        operation, key, *arguments = json.loads(line)
        answer = error = None
        try:
            if operation == "make":
                made[key] = Code(*arguments[0], **arguments[1])
                answer = made[key].single
            elif operation == "close":
                made.pop(key).close()
            else:
                answer = getattr(made[key], operation)(*arguments)
        except Exception as caught:
            error = f"{type(caught).__name__}: {caught}"
        answers.write(json.dumps([answer, error]) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
