"""Streams: through a socket pair and a pipe, and many small tensors in memory."""

from __future__ import annotations

from bench.harness import Comparison, Sizes, row

GIB = 1 << 30


def through(c: Comparison, n: int, ends: str) -> None:
    """n bytes in tensors of 16 MiB, from a thread that writes to this one, which reads."""
    each = min(n, 16 << 20)
    count = n // each
    c.bytes = count * each
    setup = f"""
a = data.aligned({each // 4}); t = hurray.from_numpy(a); part = memoryview(a).cast("B")
buffer = bytearray(part.nbytes)
def send(end):
    with hurray.StreamWriter(end) as writer:
        for _ in range({count}):
            writer.write(t)
def receive(end):
    return sum(tensor.nbytes for tensor in hurray.StreamReader(end))
def send_raw(end):
    for _ in range({count}):
        data.write_all(end, part)
def receive_raw(end):
    received = 0
    while got := os.readv(end.fileno(), [buffer]):
        received += got
    return received
"""
    c.ours(f"data.through({ends}, send, receive)", setup)
    raw = "sendall, recv_into one buffer" if ends == "socket.socketpair" else "write, readinto"
    moved = f"data.through({ends}, send_raw, receive_raw)"
    c.against(raw, moved, setup, bar=1.05, limit=True, result=moved)
    if ends == "data.pipe":  # ours makes a pipe hold as much
        wide = "data.through(data.wide_pipe, send_raw, receive_raw)"
        c.against("write, readinto, a pipe of 1 MiB", wide, setup, limit=True, result=wide)


SIZES = Sizes("bytes", (GIB // 50, GIB // 5, 2 * GIB), smoke=100_000)


@row("stream-socket", "a stream of 2 GiB through a socket pair", SIZES, budget=25)
def _(c: Comparison, n: int) -> None:
    through(c, n, "socket.socketpair")


@row("stream-pipe", "a stream of 2 GiB through a pipe", SIZES, budget=25)
def _(c: Comparison, n: int) -> None:
    through(c, n, "data.pipe")


@row(
    "stream-small",
    "a stream of 10⁶ tensors of 64 bytes, written and read",
    Sizes("tensors", (10_000, 100_000, 1_000_000), smoke=200),
    budget=30,
)
def _(c: Comparison, n: int) -> None:
    setup = "a = data.aligned(16); t = hurray.from_numpy(a)\n"
    c.ours(f"data.small_stream(t, {n})", setup)
    c.against("pyhurray", f"data.small_stream(t, {n})", setup, bar=0.2, peer=True)
    c.against("pickle, protocol 5", f"data.small_pickles(a, {n})", setup, bar=0.5)
    copies = f"block = bytes(64 * {n})"
    c.against("memcpy of the elements", "bytearray(block)", copies, limit=True)
