"""Arrays that cross between libraries: nanoseconds, whatever their size, unless they are copied."""

from __future__ import annotations

from bench.harness import Comparison, Sizes, row

SIZES = Sizes("elements", (10, 1000, 100_000), table=0)
# What calling any function of a C extension costs.
CALL = "a call that does nothing"


def call(c: Comparison) -> None:
    c.against(CALL, "operator.index(1)", limit=True)


def numpy_tensor(n: int) -> str:
    return f"a = data.aligned({n}); t = hurray.from_numpy(a)\n"


def torch_tensor(n: int) -> str:
    return f"import torch; x = torch.from_numpy(data.aligned({n}))\n"


@row("numpy-from-dlpack", "np.from_dlpack(t)", SIZES, counted=True)
def _(c: Comparison, n: int) -> None:
    c.ours("np.from_dlpack(t)", numpy_tensor(n))
    c.against("np.from_dlpack(ndarray)", "np.from_dlpack(a)", numpy_tensor(n), bar=1.05)
    call(c)


@row("numpy-asarray", "np.asarray(t)", SIZES, counted=True)
def _(c: Comparison, n: int) -> None:
    c.ours("np.asarray(t)", numpy_tensor(n))
    c.against("np.asarray(torch_tensor)", "np.asarray(x)", torch_tensor(n), bar=0.5)
    c.against("pyhurray", "np.asarray(t)", numpy_tensor(n), bar=0.1, peer=True)
    call(c)


@row("torch-from-dlpack", "torch.from_dlpack(t)", SIZES, counted=True)
def _(c: Comparison, n: int) -> None:
    setup = "import torch\n" + numpy_tensor(n)
    c.ours("torch.from_dlpack(t)", setup)
    c.against("torch.from_dlpack(ndarray)", "torch.from_dlpack(a)", setup, bar=1.0)
    call(c)


@row("to-torch", "t.to_torch()", SIZES, counted=True)
def _(c: Comparison, n: int) -> None:
    setup = "import torch\n" + numpy_tensor(n)
    c.ours("t.to_torch()", setup)
    c.against("torch.from_dlpack(ndarray)", "torch.from_dlpack(a)", setup, bar=1.0)
    call(c)


@row(
    "from-dlpack-torch",
    "hurray.from_dlpack(torch_tensor)",
    SIZES,
    counted=True,
)
def _(c: Comparison, n: int) -> None:
    c.ours("hurray.from_dlpack(x)", torch_tensor(n))
    c.against("np.from_dlpack(torch_tensor)", "np.from_dlpack(x)", torch_tensor(n), bar=0.5)
    c.against("pyhurray", "hurray.from_dlpack(x)", torch_tensor(n), bar=0.25, peer=True)
    call(c)


@row("from-dlpack-numpy", "hurray.from_dlpack(ndarray)", SIZES, counted=True)
def _(c: Comparison, n: int) -> None:
    c.ours("hurray.from_dlpack(a)", numpy_tensor(n))
    c.against("np.from_dlpack(torch_tensor)", "np.from_dlpack(x)", torch_tensor(n), bar=0.5)
    c.against("np.from_dlpack(ndarray)", "np.from_dlpack(a)", numpy_tensor(n))
    c.against("pyhurray", "hurray.from_dlpack(a)", numpy_tensor(n), bar=0.25, peer=True)
    call(c)


@row("from-numpy", "hurray.from_numpy(aligned)", SIZES, counted=True)
def _(c: Comparison, n: int) -> None:
    c.ours("hurray.from_numpy(a)", numpy_tensor(n))
    c.against("memoryview(a)", "memoryview(a)", numpy_tensor(n), bar=3.0)
    c.against("pyhurray", "hurray.from_numpy(a)", numpy_tensor(n), bar=0.25, peer=True)
    call(c)


@row(
    "from-numpy-copied",
    "hurray.from_numpy(unaligned), 256 MiB",
    Sizes("bytes", (2_684_355, 26_843_546, 256 << 20), smoke=1 << 20),
    budget=8,
)
def _(c: Comparison, n: int) -> None:
    setup = f"a = data.aligned({n // 4 + 1})[1:]; b = np.ones_like(a)\n"
    c.bytes = n
    c.ours("hurray.from_numpy(a)", setup, keep=True)
    c.against(
        "a.copy() into touched memory", "np.copyto(b, a)", setup, bar=1.0, limit=True, result="b"
    )
    c.against("a.copy()", "a.copy()", setup, keep=True)


@row("native-protocol", "__hurray__ and from_hurray, 3 buffers", counted=True)
def _(c: Comparison, n: int) -> None:
    setup = """
values, columns, rows = np.ones(4), np.arange(4, dtype=np.uint64), np.arange(5, dtype=np.uint64)
t = hurray.Tensor(values.tobytes(), hurray.float64, [4, 4], layout=hurray.CsrLayout(4),
    aux_buffers=[columns.tobytes(), rows.tobytes()])
"""
    result = "[np.asarray(p) for p in (lambda r: (r.values, r.col_indices, r.row_ptr))(hurray.from_hurray(t))]"
    c.ours("hurray.from_hurray(t)", setup, result=result)
    c.against("pyhurray", "hurray.from_hurray(t)", setup, bar=0.25, peer=True, result=result)
    call(c)
