"""Streams of tensors over asyncio's streams (spec 5, 8.13).

    >>> import asyncio, hurray, hurray.aio
    >>> async def serve(reader, writer):
    ...     async for tensor in hurray.aio.StreamReader(reader):
    ...         await hurray.aio.StreamWriter(writer).write(tensor)
    ...     writer.close()
    >>> async def main():
    ...     server = await asyncio.start_server(serve, "127.0.0.1", 0)
    ...     host, port = server.sockets[0].getsockname()
    ...     reader, writer = await asyncio.open_connection(host, port)
    ...     await hurray.aio.StreamWriter(writer).write(hurray.arange(3))
    ...     writer.write_eof()
    ...     shapes = [t.shape async for t in hurray.aio.StreamReader(reader)]
    ...     writer.close()
    ...     server.close()
    ...     return shapes
    >>> asyncio.run(main())
    [(3,)]

The same bytes and the same checks as hurray.StreamReader and hurray.StreamWriter: underneath is one
decoder that does no I/O of its own.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from ._core import Composite, StreamError, Tensor, _stream_pieces, _StreamDecoder

__all__ = ["StreamReader", "StreamWriter"]

# Bytes asked for at once, and written between two waits for the transport to drain.
_CHUNK = 1 << 18
# Bytes that are copied together rather than written one after another.
_SMALL = 1 << 14


class StreamReader(AsyncIterator[Tensor | Composite]):
    """Iterates over the tensors and composites that arrive on an asyncio.StreamReader.

    The limits are those of hurray.StreamReader. An item is there as soon as its last byte is; what
    arrived with it is kept for the next. InvalidDescriptorError and StreamError as there; what the
    transport raises passes through. A task that is cancelled while it waits loses nothing. Several
    tasks may share a reader: each item goes to one of them.

    >>> import asyncio, hurray, hurray.aio
    >>> async def main():
    ...     source = asyncio.StreamReader()
    ...     with hurray.StreamWriter() as writer:
    ...         writer.write(hurray.arange(3))
    ...     source.feed_data(writer.getvalue())
    ...     source.feed_eof()
    ...     return [t.shape async for t in hurray.aio.StreamReader(source)]
    >>> asyncio.run(main())
    [(3,)]
    """

    def __init__(
        self,
        source: asyncio.StreamReader,
        *,
        max_descriptor_bytes: int | None = None,
        max_buffer_bytes: int | None = None,
        max_composite_depth: int | None = None,
        cross_machine: bool = False,
    ) -> None:
        if not callable(getattr(source, "read", None)):
            raise TypeError(
                f"source is {type(source).__name__}; expected an asyncio.StreamReader, "
                "whose read() is awaited"
            )
        self._source = source
        self._decoder = _StreamDecoder(
            max_descriptor_bytes=max_descriptor_bytes,
            max_buffer_bytes=max_buffer_bytes,
            max_composite_depth=max_composite_depth,
            cross_machine=cross_machine,
        )
        self._lock = asyncio.Lock()  # asyncio lets one task wait for bytes
        self._data = b""  # what has arrived,
        self._used = 0  # and how much of it is decoded

    async def __anext__(self) -> Tensor | Composite:
        """The next item; StopAsyncIteration at the end."""
        async with self._lock:
            while (item := self._decoded()) is None:
                data = await self._source.read(_CHUNK)
                if not data:
                    self._decoder.finish()
                    raise StopAsyncIteration
                self._data, self._used = data, 0
        return item

    def _decoded(self) -> Tensor | Composite | None:
        if self._used == len(self._data):
            return None
        item, self._used = self._decoder.feed(self._data, self._used)
        return item


class StreamWriter:
    """Writes tensors and composites to an asyncio.StreamWriter, which stays open.

    cross_machine: as of hurray.StreamWriter. Several tasks may share a writer: their items do not
    mix.

    >>> import asyncio, hurray, hurray.aio
    >>> async def main():
    ...     server = await asyncio.start_server(receive, "127.0.0.1", 0)
    ...     _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    ...     await hurray.aio.StreamWriter(writer).write(hurray.arange(3))
    ...     writer.close()
    ...     shape = await received.get()
    ...     server.close()
    ...     return shape
    >>> received = asyncio.Queue()
    >>> async def receive(reader, writer):
    ...     async for tensor in hurray.aio.StreamReader(reader):
    ...         await received.put(tensor.shape)
    ...     writer.close()
    >>> asyncio.run(main())
    (3,)
    """

    def __init__(self, destination: asyncio.StreamWriter, *, cross_machine: bool = False) -> None:
        if not callable(getattr(destination, "drain", None)):
            raise TypeError(
                f"destination is {type(destination).__name__}; expected an asyncio.StreamWriter"
            )
        self._destination = destination
        self._cross_machine = cross_machine
        self._lock = asyncio.Lock()
        self._left: deque[memoryview] = deque()  # of the item at hand
        self._finished = False

    async def write(self, item: Tensor | Composite) -> None:
        """Write all of an item, waiting while the transport has too much to send.

        TypeError for other things, UnsupportedError for memory of a device, with nothing written;
        StreamError after finish(). When a task is cancelled in here, an item that was begun is
        completed by the next write() or finish().
        """
        pieces = _stream_pieces(item, cross_machine=self._cross_machine)
        async with self._lock:
            if self._finished:
                raise StreamError("the stream is finished: nothing more can be written")
            await self._write_left()
            views = [memoryview(piece) for piece in pieces]
            self._left.extend(view for view in views if view.nbytes)
            await self._write_left()

    async def finish(self) -> None:
        """No more will be written; waits for what is left. A second time is fine."""
        async with self._lock:
            await self._write_left()
            self._finished = True

    async def _write_left(self) -> None:
        # Not writelines(): CPython 3.12 neither takes empty pieces nor pauses in there.
        while self._left:
            self._destination.write(self._next_piece())
            await self._destination.drain()

    def _next_piece(self) -> memoryview | bytes:
        """A part of a large piece, or small ones together: a descriptor and its bytes, often."""
        piece = self._left.popleft()
        if piece.nbytes > _CHUNK:
            self._left.appendleft(piece[_CHUNK:])
            return piece[:_CHUNK]
        together, size = [piece], piece.nbytes
        while self._left and size + self._left[0].nbytes <= _SMALL:
            together.append(self._left.popleft())
            size += together[-1].nbytes
        return piece if len(together) == 1 else b"".join(together)
