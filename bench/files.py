"""Files: written, opened, mapped, read. Files lie in the page cache; what is written reaches the disk."""

from __future__ import annotations

import os
from typing import Any

import hurray
from bench import data
from bench.harness import THREADS, Comparison, Sizes, row

GIB = 1 << 30
# Bytes in all, and among how many tensors: the models of the table.
LARGE = Sizes("bytes", (GIB // 50, GIB // 5, 2 * GIB), smoke=600_000)
MANY = Sizes("tensors", (200, 2_000, 20_000), smoke=300)


def large(n: int) -> tuple[int, int]:
    return 300, n


def many(n: int) -> tuple[int, int]:
    return n, 5000 * n


# ---- files of others, of the same tensors ----


def write_safetensors(path: str, count: int, size: int) -> None:
    from safetensors.numpy import save_file

    save_file(data.model(count, size), path)


def write_gguf(path: str, count: int, size: int) -> None:
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    for name, array in data.model(count, size).items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_hurray(path: str, count: int, size: int) -> None:
    hurray.save(path, data.model(count, size))


def path_of(c: Comparison, kind: str, count: int, size: int) -> str:
    write = {"hrry": write_hurray, "safetensors": write_safetensors, "gguf": write_gguf}[kind]
    return c.context.cached(f"{count}-{size}.{kind}", lambda path: write(path, count, size))


# ---- save ----


def save(c: Comparison, count: int, size: int) -> None:
    c.bytes = size
    out = os.path.join(c.context.folder, "saved")
    setup = f"out = {out!r}; arrays = data.model({count}, {size})\n"
    peers = f"out = {out!r}; tensors = data.tensors({count}, {size})\n"
    # What lies in the file afterwards is compared, where it is a file of ours.
    read = (
        "[[k, np.asarray(t)] for k, t in sorted(hurray.load(out).items())]"
        if c.context.smoke
        else "0"
    )
    same: dict[str, Any] = {"before": "data.fresh(out)", "result": read}
    others: dict[str, Any] = {"before": "data.fresh(out)", "result": None}
    local = setup + "from safetensors.numpy import save_file\n"
    c.ours("hurray.save(out, arrays)", local, **same)
    raw = "data.write_raw(out, arrays, True)"
    c.against("os.write and fsync", raw, local, bar=1.05, limit=True, **others)
    c.against("os.write", "data.write_raw(out, arrays, False)", local, **others)
    c.against("safetensors", "save_file(arrays, out)", local, bar=1.0, **others)
    synced = "save_file(arrays, out); data.sync(out)"  # as much as ours does
    c.against("safetensors, then fsync", synced, local, **others)
    c.against(
        "pyhurray",
        "hurray.save(out, tensors)",
        peers,
        bar=1.0,
        peer=True,
        **same,
    )
    c.against(
        "np.savez",
        "np.savez(file := open(out, 'wb'), **arrays); file.close()",
        local,
        bar=1.0,
        **others,
    )


@row("save-large", "hurray.save, 2 GiB in 300 tensors", LARGE, budget=60)
def _(c: Comparison, n: int) -> None:
    save(c, *large(n))


@row("save-many", "hurray.save, 100 MB in 20,000 tensors", MANY, budget=30)
def _(c: Comparison, n: int) -> None:
    save(c, *many(n))


# ---- load, names and shapes seen ----


def load(c: Comparison, count: int, size: int) -> None:
    c.bytes = size
    ours, theirs, gguf = (path_of(c, k, count, size) for k in ("hrry", "safetensors", "gguf"))
    seen = "sorted((k, t.shape) for k, t in hurray.load(path).items())"
    c.ours(seen, f"path = {ours!r}")
    c.against(
        "safetensors safe_open, get_tensor (PyTorch)",
        "seen()",
        f"""
from safetensors import safe_open
def seen():
    with safe_open({theirs!r}, "pt") as file:
        return sorted((k, tuple(file.get_tensor(k).shape)) for k in file.keys())
""",
        bar=0.3,
    )
    c.against("pyhurray", seen, f"path = {ours!r}", bar=0.3, peer=True)
    c.against(
        "GGUF reader",
        "sorted((t.name, tuple(map(int, t.shape[::-1]))) for t in GGUFReader(path).tensors)",
        f"from gguf import GGUFReader; path = {gguf!r}",
        bar=0.3,
    )
    c.against(
        "reading the bytes of the index",
        "data.read_tail(path, length)",
        f"path = {ours!r}; length = hurray.open(path).info['index_length']",
        limit=True,
    )


@row("load-large", "hurray.load (mapped), 2 GiB in 300 tensors", LARGE)
def _(c: Comparison, n: int) -> None:
    load(c, *large(n))


@row("load-many", "hurray.load (mapped), 20,000 tensors", MANY, budget=10)
def _(c: Comparison, n: int) -> None:
    load(c, *many(n))


# ---- load and look at everything ----


def load_and_sum(c: Comparison, count: int, size: int) -> None:
    c.bytes = size
    ours, theirs = (path_of(c, kind, count, size) for kind in ("hrry", "safetensors"))
    setup = f"""
path = {ours!r}
with hurray.open(path) as file:
    places = [(file._reader.entry(name)[2], file[name].nbytes, file[name].shape) for name in file]
def mapped():
    file = np.memmap(path, mode="r")
    array = np.asarray(file)
    return [array[p : p + n].view(np.float32).reshape(shape).sum() for p, n, shape in places]
"""
    c.ours("[np.asarray(t).sum() for t in hurray.load(path).values()]", setup)
    c.against("np.memmap, slices and sum", "mapped()", setup, bar=1.02)
    c.against(
        "safetensors safe_open (PyTorch)",
        "total()",
        f"""
from safetensors import safe_open
def total():
    with safe_open({theirs!r}, "pt") as file:
        return [file.get_tensor(name).numpy().sum() for name in file.keys()]
""",
        result=None,
    )
    one = f"path = {ours!r}"
    all_of_them = "[np.asarray(t).sum() for t in hurray.load(path).values()]"
    c.against("pyhurray", all_of_them, one, peer=True, result=None)
    touched = f"a = np.ones({size // 4}, np.float32)"
    c.against("sum of as much touched memory", "a.sum()", touched, limit=True)


@row("load-sum-large", "hurray.load (mapped) and sum, 2 GiB in 300 tensors", LARGE, budget=25)
def _(c: Comparison, n: int) -> None:
    load_and_sum(c, *large(n))


@row("load-sum-many", "hurray.load (mapped) and sum, 20,000 tensors", MANY, budget=10)
def _(c: Comparison, n: int) -> None:
    load_and_sum(c, *many(n))


# ---- load without a mapping ----


@row("read-large", "hurray.load(mmap=False), 2 GiB in 300 tensors", LARGE, budget=25)
def _(c: Comparison, n: int) -> None:
    count, size = large(n)
    c.bytes = size
    path = path_of(c, "hrry", count, size)
    setup = f"path = {path!r}; b = bytearray(os.path.getsize(path))\n"
    c.ours("hurray.load(path, mmap=False)", setup, keep=True, result=None)
    c.against(
        "readinto one touched buffer",
        "data.read_raw(path, memoryview(b))",
        setup,
        bar=1.05,
        limit=True,
    )
    c.against("os.read into new memory", "open(path, 'rb').read()", setup, keep=True, result=None)


@row(
    "threads-read",
    "hurray.load(mmap=False), 2 threads",
    THREADS,
    budget=15,
)
def _(c: Comparison, n: int) -> None:
    count, size = large(600_000 if c.context.smoke else GIB // 5)
    c.bytes = size
    setup = f"path = {path_of(c, 'hrry', count, size)!r}"
    result = "[np.asarray(t) for t in hurray.load(path).values()]"
    c.ours(f"hurray.load(path, mmap=False, threads={n})", setup, keep=True, result=result)
    one = "hurray.load(path, mmap=False, threads=1)"
    c.against("1 thread", one, setup, keep=True, bar=0.55, result=result)


# ---- one of many ----


@row(
    "open-one",
    "hurray.open, one of 100,000 tensors",
    Sizes("tensors", (1_000, 10_000, 100_000), smoke=500),
    budget=5,
)
def _(c: Comparison, n: int) -> None:
    ours, theirs = (path_of(c, kind, n, 64 * n) for kind in ("hrry", "safetensors"))
    name = f"model.layers.{n // 2}.mlp.weight"
    c.ours(
        "one()",
        f"""
def one():
    with hurray.open({ours!r}) as file:
        return np.asarray(file[{name!r}])
""",
    )
    c.against(
        "safetensors safe_open, get_tensor",
        "one()",
        f"""
from safetensors import safe_open
def one():
    with safe_open({theirs!r}, "np") as file:
        return file.get_tensor({name!r})
""",
        bar=0.1,
    )
    c.against(
        "reading the bytes of the index",
        "data.read_tail(path, length)",
        f"path = {ours!r}; length = hurray.open(path).info['index_length']",
        limit=True,
    )
