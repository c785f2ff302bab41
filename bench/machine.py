"""What a machine is like, in words."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import pathlib
import platform

import hurray

PACKAGES = ("numpy", "scipy", "torch", "safetensors", "gguf", "ml_dtypes")


def describe(folder: str) -> dict[str, str]:
    """folder: where files are written."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "date": datetime.date.today().isoformat(),
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory:.0f} GiB",
        "huge pages": _line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": _file_system(folder),
        "Python": f"{platform.python_version()} ({platform.python_compiler()})",
        "packages": ", ".join([f"hurray {hurray.__version__}", *versions]),
    }


def _line(path: str) -> str:
    try:
        return pathlib.Path(path).read_text().strip()
    except OSError:
        return "unknown"


def _processor() -> str:
    values: dict[str, str] = {}
    for line in _line("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        values.setdefault(name.strip(), value.strip())
    name = values.get("model name", platform.machine())
    numbers = [values.get(key) for key in ("cpu family", "model")]
    size = values.get("cache size")
    parts = [name]
    if None not in numbers:
        parts.append("family {}, model {}".format(*numbers))
    return ", ".join([*parts, *([f"{size} cache"] if size else [])])


def _file_system(folder: str) -> str:
    """The type of what is mounted nearest above folder."""
    best, found = "", "unknown"
    for line in _line("/proc/self/mounts").splitlines():
        _, place, kind, *_ = line.split()
        inside = os.path.commonpath([place, os.path.realpath(folder)]) == place
        if inside and len(place) >= len(best):
            best, found = place, kind
    return found
