"""Descriptors from bytes and to bytes, against the peer and against Python's own struct."""

from __future__ import annotations

import hurray
from bench.bridge import call
from bench.harness import Comparison, row

# The fields of a descriptor (spec 1.1, 1.4) around those of its layout, as struct writes them.
BEFORE, HANDLE = "<4sBBIIBBI{rank}QQ", "QIBBBB"


def dense() -> tuple[hurray.Descriptor, str]:
    t = hurray.zeros((1024, 4096), dtype=hurray.float32)
    return t.descriptor, BEFORE.format(rank=2) + "B" + HANDLE


def csf() -> tuple[hurray.Descriptor, str]:
    coordinates = [[0, 0, 1], [0, 2, 3], [1, 1, 0], [1, 1, 2]]
    coo = hurray.sparse_coo(
        hurray.ones(4), hurray.asarray(coordinates, dtype=hurray.uint64), (2, 3, 4)
    )
    t = coo.to_layout(hurray.CsfLayout(4, [0, 1, 2]))
    return t.descriptor, BEFORE.format(rank=3) + "Q3I8s" + "B" + 7 * HANDLE


def quantized() -> tuple[hurray.Descriptor, str]:
    t = hurray.Tensor(
        bytes(64 * 128),
        hurray.int8,
        [64, 128],
        aux_buffers=[bytes(64 * 4 * 4)],
        quantization=hurray.PerBlockAffine.symmetric(1, 32, 1, hurray.float32),
    )
    return t.descriptor, BEFORE.format(rank=2) + "B" + 2 * HANDLE + "IBBHIIIIB3s"


def enter(kind: str, make: object) -> None:
    def text() -> str:
        descriptor, form = make()  # type: ignore[operator]
        setup = f"b = bytes.fromhex('{descriptor.encode().hex()}'); form = {form!r}\n"
        return setup + "d = hurray.Descriptor.decode(b); fields = struct.unpack(form, b)\n"

    @row(f"decode-{kind}", f"Descriptor.decode, {kind}", counted=True)
    def _(c: Comparison, n: int) -> None:
        setup = text()
        again = "hurray.Descriptor.decode(b).encode()"
        c.ours("hurray.Descriptor.decode(b)", setup, result=again)
        c.against(
            "pyhurray", "hurray.Descriptor.decode(b)", setup, bar=0.3, peer=True, result=again
        )
        c.against("struct.unpack", "struct.unpack(form, b)", setup, bar=1.0, result=None)
        call(c)

    @row(f"encode-{kind}", f"Descriptor.encode, {kind}", counted=True)
    def _(c: Comparison, n: int) -> None:
        setup = text()
        c.ours("d.encode()", setup)
        c.against("pyhurray", "d.encode()", setup, peer=True)
        c.against("struct.pack", "struct.pack(form, *fields)", setup)
        call(c)


for kind, make in {"dense": dense, "CSF": csf, "quantized": quantized}.items():
    enter(kind, make)
