"""Elements that move: packing, tiles, curves, sparse layouts. Memory of the result is new, as it is for users."""

from __future__ import annotations

import os

from bench.harness import THREADS, Absent, Comparison, Sizes, row

MIB = 1 << 20
SIZES = Sizes("elements", (2**17, 2**21, 2**24), smoke=4096)
EDGES = Sizes(
    "edge", (410, 1295, 4096), smoke=128
)  # a matrix of edge · edge elements: about 1, 10 and 100 times
CURVES = Sizes("edge", (512, 1024, 2048, 4096), smoke=64)  # of curves: powers of two


@row(
    "bool-pack",
    "hurray.from_numpy(bool), 64 MiB",
    Sizes("elements", (671_089, 6_710_886, 64 * MIB), smoke=10_000),
    budget=3,
)
def _(c: Comparison, n: int) -> None:
    setup = f"a = data.aligned({n}, np.uint8) % 3 == 0\n"
    c.bytes = n
    c.ours("hurray.from_numpy(a)", setup, keep=True, result="hurray.from_numpy(a).buffer(0)")
    bits = 'np.packbits(a, bitorder="little")'
    c.against("np.packbits", bits, setup, bar=0.7, keep=True)
    c.against("reading the bytes (max)", "a.view(np.uint8).max()", setup, limit=True)


@row(
    "bool-unpack",
    "t.to_numpy() of bool, 64 MiB",
    Sizes("elements", (671_088, 6_710_880, 64 * MIB), smoke=10_000),
    budget=3,
)
def _(c: Comparison, n: int) -> None:
    setup = (
        f"b = data.aligned({n // 8}, np.uint8); t = hurray.Tensor(b, hurray.bool, [{n // 8 * 8}])\n"
    )
    c.bytes = n
    c.ours("t.to_numpy()", setup, keep=True, result="t.to_numpy().view(np.uint8)")
    bits = 'np.unpackbits(b, bitorder="little")'
    c.against("np.unpackbits", bits, setup, bar=0.7, keep=True)
    touched = f"b = np.ones({n}, np.uint8)"
    c.against("writing the bytes (fill)", "b.fill(1)", touched, limit=True)


NIBBLES = """
def numpy_unpack():
    out = np.empty(2 * b.size, np.uint8)
    np.bitwise_and(b, 15, out=out[0::2])
    np.right_shift(b, 4, out=out[1::2])
    return out
"""
SIX_BITS = """
def numpy_unpack():
    x, y, z = b[0::3], b[1::3], b[2::3]
    out = np.empty((x.size, 4), np.uint8)
    out[:, 0] = x & 63
    out[:, 1] = (x >> 6) | (y & 15) << 2
    out[:, 2] = (y >> 4) | (z & 3) << 4
    out[:, 3] = z >> 2
    return out.reshape(-1)
"""


@row(
    "unpack-4",
    "t.to_numpy() of uint4",
    SIZES,
    budget=3,
)
def _(c: Comparison, n: int) -> None:
    unpack(c, n, n // 2, "uint4", NIBBLES)


@row(
    "unpack-6",
    "t.to_numpy() of float6_e2m3",
    SIZES,
    budget=3,
)
def _(c: Comparison, n: int) -> None:
    unpack(c, n, n // 4 * 3, "float6_e2m3", SIX_BITS)


def unpack(c: Comparison, n: int, size: int, dtype: str, function: str) -> None:
    setup = f"""
b = data.aligned({size}, np.uint8)
t = hurray.Tensor(b, hurray.dtype.{dtype}, [{n}])
{function}
"""
    c.bytes = n
    c.ours("t.to_numpy()", setup, keep=True, result="t.to_numpy().view(np.uint8)")
    c.against("NumPy shifts and masks", "numpy_unpack()", setup, bar=0.15, keep=True)
    touched = f"b = np.ones({n}, np.uint8)"
    c.against("writing the bytes (fill)", "b.fill(1)", touched, limit=True)


def matrix(n: int) -> str:
    return f"""
a = data.aligned(({n}, {n})); b = np.ones_like(a); row_major = hurray.RowMajorLayout()
t = hurray.from_numpy(a)
"""


def relayout(key: str, what: str, setup: str, target: str, bar: float) -> None:
    """A conversion of float32 [edge, edge] against memcpy of as many bytes."""

    @row(
        key,
        f"{what}, float32 [4096, 4096]",
        EDGES,
        budget=4,
    )
    def _(c: Comparison, n: int) -> None:
        c.bytes = 4 * n * n
        before = matrix(n) + setup
        same = f"t.to_layout({target}).to_layout(row_major).to_numpy()"
        c.ours(f"t.to_layout({target})", before, keep=True, result=same)
        touched = "memcpy into touched memory"
        c.against(touched, "np.copyto(b, a)", matrix(n), bar=bar, limit=True, result="a")
        c.against("memcpy into new memory", "a.copy()", matrix(n), keep=True, result="a")


TILES = "hurray.TiledLayout([64, 64])"
relayout("row-to-tiled", "row-major → tiled 64 × 64", "", TILES, 1.6)
relayout("tiled-to-row", "tiled 64 × 64 → row-major", f"t = t.to_layout({TILES})", "row_major", 1.6)
COLUMNS = "hurray.ColMajorLayout()"
relayout("row-to-columns", "row-major → column-major", "", COLUMNS, 2.5)
relayout(
    "columns-to-row", "column-major → row-major", f"t = t.to_layout({COLUMNS})", "row_major", 2.5
)


def curve(key: str, name: str, layout: str) -> None:
    """A curve to row-major, against an index that says where each element lies."""

    @row(
        key,
        f"{name} → row-major, float32 [4096, 4096]",
        CURVES,
        budget=5,
    )
    def _(c: Comparison, n: int) -> None:
        order = n.bit_length() - 1
        c.bytes = 4 * n * n
        setup = f"""
layout = {layout.format(order=order)}
row_major = hurray.RowMajorLayout()
places = hurray.from_numpy(np.arange({n * n}, dtype=np.int64).reshape({n}, {n}))
places = hurray.Tensor(places.buffer(0), hurray.int64, [{n}, {n}], layout=layout)
index = places.to_layout(row_major).to_numpy()
flat = data.aligned({n * n})
t = hurray.Tensor(flat, hurray.float32, [{n}, {n}], layout=layout)
"""
        c.ours("t.to_layout(row_major)", setup, keep=True)
        c.against("NumPy, index precomputed", "flat[index]", setup, bar=0.5, keep=True)
        c.against("memcpy into touched memory", "np.copyto(b, a)", matrix(n), limit=True)


curve("morton-to-row", "Morton", "hurray.MortonLayout([{order}, {order}])")
curve("hilbert-to-row", "Hilbert", "hurray.HilbertLayout({order}, 2)")


@row(
    "coo-to-csr",
    "COO → CSR, float64",
    Sizes("non-zeros", (100_000, 1_000_000, 10_000_000), smoke=900),
    budget=15,
)
def _(c: Comparison, n: int) -> None:
    edge = min(1_000_000, 10 * n)
    setup = f"""
import scipy.sparse
random = np.random.default_rng(1)
places = np.unique(random.integers(0, {edge * edge}, {n}))
random.shuffle(places)
values = random.integers(1, 9, places.size).astype(np.float64)
matrix = scipy.sparse.coo_matrix((values, (places // {edge}, places % {edge})), ({edge}, {edge}))
t = hurray.from_scipy(matrix)
csr = hurray.CsrLayout(0)
"""
    shown = "scipy.sparse.csr_matrix({}).sorted_indices()"
    parts = "(lambda m: [m.data, m.indices.astype(np.int64), m.indptr.astype(np.int64)])"
    ours, theirs = "t.to_layout(csr)", "matrix.tocsr()"
    c.bytes = 24 * n
    c.ours(ours, setup, keep=True, result=parts + f"({shown.format(ours + '.to_scipy()')})")
    theirs_result = parts + f"({shown.format(theirs)})"
    c.against("scipy tocsr", theirs, setup, bar=0.8, keep=True, result=theirs_result)
    touched = f"a = np.ones({3 * n}); b = np.ones({3 * n})"
    c.against("memcpy of values and indices", "np.copyto(b, a)", touched, limit=True)


@row(
    "threads-convert",
    "32 conversions to tiles, 2 threads",
    THREADS,
    budget=4,
)
def _(c: Comparison, n: int) -> None:
    edge = 64 if c.context.smoke else 1024
    c.bytes = 32 * 4 * edge * edge
    setup = f"""
arrays = [data.aligned(({edge}, {edge})) for _ in range(32)]
ts, pairs = [hurray.from_numpy(a) for a in arrays], [(np.ones_like(a), a) for a in arrays]
layout = hurray.TiledLayout([64, 64])
def convert(t):
    t.to_layout(layout)
def copy(pair):
    np.copyto(*pair)
one, many = data.pool(1), data.pool({n})
"""
    need_affinity()
    c.ours("list(many.map(convert, ts))", setup, result=None)
    c.against("1 thread", "list(one.map(convert, ts))", setup, bar=0.55, result=None)
    c.against("as many memcpys", "list(many.map(copy, pairs))", setup, limit=True)
    c.against("as many memcpys, 1 thread", "list(one.map(copy, pairs))", setup, limit=True)


@row(
    "threads-tiles",
    "row-major → tiled 64 × 64, float32 [4096, 4096], threads of its own",
    EDGES,
    budget=4,
)
def _(c: Comparison, n: int) -> None:
    c.bytes = 4 * n * n
    setup = (
        matrix(n)
        + f"""
layout = {TILES}
def convert():
    return t.to_layout(layout)
one = data.pool(1)
"""
    )
    need_affinity()
    c.ours("convert()", setup, keep=True, result=None)
    c.against("on 1 processor", "one.submit(convert).result()", setup, keep=True, result=None)


def need_affinity() -> None:
    if not hasattr(os, "sched_setaffinity"):
        raise Absent("threads are kept to processors as Linux does it")
