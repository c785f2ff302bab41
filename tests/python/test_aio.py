"""hurray.aio: streams over asyncio's (spec 5, 8.13)."""

from __future__ import annotations

import asyncio
import contextlib
import doctest
import gc
import socket
import subprocess
import sys

import pytest
import streams
from streams import contents, group, nested, sample_items, tensor, written

import hurray
import hurray.aio
from hurray import InvalidDescriptorError, StreamError
from hurray.aio import StreamReader, StreamWriter

SAMPLE = sample_items()
DATA = written(*SAMPLE)
BIG = tensor(4 << 20)  # 16 MiB, more than all the buffers between two ends


def run(main):
    return asyncio.run(asyncio.wait_for(main, 20))


def fed(data: bytes, end: bool = True) -> asyncio.StreamReader:
    source = asyncio.StreamReader()
    source.feed_data(data)
    if end:
        source.feed_eof()
    return source


async def connected():
    """Two ends of a connection: (reader, writer) each."""
    ours, theirs = socket.socketpair()
    return await asyncio.open_connection(sock=ours), await asyncio.open_connection(sock=theirs)


async def closed(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def all_of(reader: StreamReader) -> list:
    return [contents(item) async for item in reader]


EXPECTED = [contents(item) for item in SAMPLE]


# ---- importing ----


def test_hurray_does_not_import_asyncio():
    code = (
        "import sys, hurray\n"
        "assert 'asyncio' not in sys.modules\n"
        "assert hurray.aio.StreamReader\n"
        "assert 'asyncio' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_examples_run():
    failed, attempted = doctest.testmod(hurray.aio)
    assert (failed, attempted > 10) == (0, True)


# ---- reading ----


def test_what_is_there_is_read():
    async def main():
        reader = StreamReader(fed(DATA))
        assert await all_of(reader) == EXPECTED
        assert await all_of(reader) == []  # exhausted
        assert await all_of(StreamReader(fed(b""))) == []

    run(main())


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_bytes_that_come_in_pieces(piece):
    async def main():
        source = asyncio.StreamReader()

        async def produce():
            for start in range(0, len(DATA), piece):
                source.feed_data(DATA[start : start + piece])
                await asyncio.sleep(0)
            source.feed_eof()

        task = asyncio.create_task(produce())
        assert await all_of(StreamReader(source)) == EXPECTED
        await task

    run(main())


def test_the_first_is_there_before_the_second_is_sent():
    async def main():
        source = asyncio.StreamReader()
        reader = StreamReader(source)
        for item in SAMPLE:
            source.feed_data(written(item))
            assert contents(await anext(reader)) == contents(item)

    run(main())


def test_truncation_at_every_byte():
    ends = {0}
    for item in SAMPLE:
        ends.add(max(ends) + len(written(item)))

    async def main():
        for cut in set(range(len(DATA))) - ends:
            whole = sum(0 < end <= cut for end in ends)
            reader = StreamReader(fed(DATA[:cut]))
            for _ in range(whole):
                await anext(reader)
            for _ in range(2):  # and again
                with pytest.raises(StreamError, match=f"at byte {cut}, in item {whole}"):
                    await anext(reader)

    run(main())


def test_limits():
    async def main():
        for limits in (
            {"max_descriptor_bytes": 20},
            {"max_buffer_bytes": 11},
            {"max_composite_depth": 0},
        ):
            reader = StreamReader(fed(DATA), **limits)
            for _ in range(2):
                with pytest.raises(StreamError, match="over the limit"):
                    [item async for item in reader]
        none = dict.fromkeys(["max_descriptor_bytes", "max_buffer_bytes", "max_composite_depth"])
        assert await all_of(StreamReader(fed(DATA), **none)) == EXPECTED
        with pytest.raises(ValueError, match="max_composite_depth"):
            StreamReader(fed(DATA), max_composite_depth=9)

    run(main())


def test_cross_machine():
    data = bytearray(written(tensor(3)))
    at = len(tensor(3).descriptor.encode())
    data[at - 4 : at - 2] = bytes([1, 1])

    async def main():
        await anext(StreamReader(fed(data)))
        with pytest.raises(InvalidDescriptorError, match="only producer_synced"):
            await anext(StreamReader(fed(data), cross_machine=True))

    run(main())


def test_what_the_transport_raises_passes_through():
    async def main():
        source = fed(DATA[:10], end=False)
        source.set_exception(ConnectionResetError("gone"))
        with pytest.raises(ConnectionResetError, match="gone"):
            await anext(StreamReader(source))

    run(main())


def test_other_things():
    for source in (None, b"bytes", object()):
        with pytest.raises(TypeError, match=r"asyncio\.StreamReader"):
            StreamReader(source)
        with pytest.raises(TypeError, match=r"asyncio\.StreamWriter"):
            StreamWriter(source)


@pytest.mark.parametrize("cut", range(0, len(written(SAMPLE[0])), 7))
def test_a_reader_that_is_cancelled_loses_nothing(cut):
    async def main():
        source = asyncio.StreamReader()
        reader = StreamReader(source)
        source.feed_data(DATA[:cut])
        for _ in range(3):
            task = asyncio.ensure_future(anext(reader))
            await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        source.feed_data(DATA[cut:])
        source.feed_eof()
        assert await all_of(reader) == EXPECTED

    run(main())


def test_tasks_share_a_reader():
    items = [nested(2, tensor(n + 1)) for n in range(100)]

    async def main():
        source = asyncio.StreamReader()
        reader = StreamReader(source)
        tasks = [asyncio.create_task(all_of(reader)) for _ in range(5)]
        for item in items:
            source.feed_data(written(item))
            await asyncio.sleep(0)
        source.feed_eof()
        found = [item for part in await asyncio.gather(*tasks) for item in part]
        assert sorted(map(repr, found)) == sorted(repr(contents(item)) for item in items)

    run(main())


# ---- writing ----


class Destination:
    """An asyncio.StreamWriter that keeps what it gets, and is drained when it is told to be."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.open = asyncio.Event()
        self.open.set()

    def write(self, data) -> None:
        assert len(data) > 0
        self.data += data

    async def drain(self) -> None:
        await self.open.wait()


def test_the_same_bytes_as_of_the_other_writer():
    async def main():
        destination = Destination()
        writer = StreamWriter(destination)
        for item in (*SAMPLE, BIG):
            await writer.write(item)
        assert destination.data == DATA + written(BIG)

    run(main())


def test_what_is_refused_is_not_begun():
    on_device = hurray.Tensor(bytes(4), hurray.float32, (1,), hurray.Device("cuda"))

    async def main():
        destination = Destination()
        writer = StreamWriter(destination, cross_machine=True)
        for wrong in (None, b"bytes", [tensor(1)]):
            with pytest.raises(TypeError, match="expected a Tensor or a Composite"):
                await writer.write(wrong)
        assert destination.data == b""
        await writer.write(group(on_device))  # its bytes are here
        assert destination.data == written(group(on_device))

    run(main())


def test_nothing_is_written_after_finish():
    async def main():
        destination = Destination()
        writer = StreamWriter(destination)
        await writer.write(tensor(1))
        await writer.finish()
        await writer.finish()
        with pytest.raises(StreamError, match="finished"):
            await writer.write(tensor(1))
        assert destination.data == written(tensor(1))

    run(main())


def test_items_of_several_tasks_do_not_mix():
    items = [group(tensor(100000, start=n), tensor(1, start=n)) for n in range(8)]

    async def main():
        (source, _w1), (_, destination) = await connected()
        writer = StreamWriter(destination)

        async def write(item):
            for _ in range(3):
                await writer.write(item)

        async def write_all():
            await asyncio.gather(*map(write, items))
            destination.write_eof()

        task = asyncio.create_task(write_all())
        found = await all_of(StreamReader(source))
        await task
        for item in items:
            assert found.count(contents(item)) == 3
        await closed(_w1, destination)

    run(main())


def test_a_writer_waits_for_its_reader():
    """No more is handed to the transport than it wants: its buffer stays small."""

    async def main():
        (source, w1), (_, destination) = await connected()
        task = asyncio.create_task(StreamWriter(destination).write(BIG))
        await asyncio.sleep(0.1)
        assert not task.done()
        assert destination.transport.get_write_buffer_size() <= 1 << 20
        item = await anext(StreamReader(source))
        await task
        assert streams.same(item, BIG)
        await closed(w1, destination)

    run(main())


@pytest.mark.parametrize("then", ["write", "finish"])
def test_an_item_that_was_begun_is_completed_after_a_cancellation(then):
    big = tensor(1 << 18)  # 1 MiB: several pieces

    async def main():
        destination = Destination()
        destination.open.clear()
        writer = StreamWriter(destination)
        task = asyncio.create_task(writer.write(group(big, tensor(3))))
        waiting = asyncio.create_task(writer.write(tensor(9)))  # has not begun
        await asyncio.sleep(0.01)
        assert 0 < len(destination.data) < len(written(big))
        for cancelled in (waiting, task):
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
        destination.open.set()
        await (writer.write(tensor(5)) if then == "write" else writer.finish())
        after = [tensor(5)] if then == "write" else []
        assert destination.data == written(group(big, tensor(3)), *after)

    run(main())


def test_a_reader_that_goes_away():
    async def main():
        (_, w1), (_, destination) = await connected()
        await closed(w1)
        with pytest.raises(ConnectionError):
            for _ in range(100):
                await StreamWriter(destination).write(BIG)
        await closed(destination)

    run(main())


# ---- both ----


def test_many_connections_at_once():
    items = [tensor(5000), nested(2), tensor(0)]

    async def serve(source, destination):
        writer = StreamWriter(destination)
        async for item in StreamReader(source):
            await writer.write(item)
        await writer.finish()
        await closed(destination)

    async def client(address):
        source, destination = await asyncio.open_connection(*address)
        writer = StreamWriter(destination)
        for item in items:
            await writer.write(item)
        destination.write_eof()
        found = await all_of(StreamReader(source))
        await closed(destination)
        return found

    async def main():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        found = await asyncio.gather(*(client(address) for _ in range(50)))
        assert found == [[contents(item) for item in items]] * 50
        server.close()
        await server.wait_closed()

    run(main())


def test_from_a_process():
    code = (
        "import sys, hurray\n"
        "writer = hurray.StreamWriter(sys.stdout.buffer)\n"
        "for item in hurray.StreamReader(sys.stdin.buffer): writer.write(item)\n"
    )

    async def main():
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

        async def send():
            writer = StreamWriter(process.stdin)
            for item in (*SAMPLE, BIG):
                await writer.write(item)
            process.stdin.close()

        _, found = await asyncio.gather(send(), all_of(StreamReader(process.stdout)))
        assert found == [*EXPECTED, contents(BIG)]
        assert await process.wait() == 0

    run(main())


def test_readers_abandoned_inside_an_item_leave_nothing():
    async def main():
        data = written(nested(3))[:-5]
        gc.collect()
        for _ in range(100):
            reader = StreamReader(fed(data, end=False))
            task = asyncio.ensure_future(anext(reader))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            del reader, task
        gc.collect()
        left = [o for o in gc.get_objects() if type(o) is StreamReader]
        assert len(left) < 2  # the event loop may still have the last task

    run(main())
