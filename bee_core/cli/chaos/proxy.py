"""Between the workers and their broker: a line that can be cut."""

from __future__ import annotations

import asyncio
from contextlib import suppress

_CHUNK = 1 << 16


class Proxy:
    """Passes connections of a port of this machine on to a server, unless it is cut."""

    def __init__(self, host: str, port: int) -> None:
        self._to = host, port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self.port = 0
        """Where it listens."""

    async def start(self) -> None:
        """Listen; again on the same port, if it did before."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> int:
        """End all connections, and refuse new ones until `start`. Return how many there were."""
        if self._server is not None:
            self._server.close()
            self._server = None
        count = len(self._writers) // 2
        for writer in self._writers:
            writer.transport.abort()
        if self._passing:
            await asyncio.wait(self._passing)
        return count

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        self._writers.add(writer)
        try:
            there, back = await asyncio.open_connection(*self._to)
            self._writers.add(back)
            try:
                await asyncio.gather(_pass(reader, back), _pass(there, writer))
            finally:
                self._writers.discard(back)
                back.transport.abort()
        except OSError:
            pass  # the other end will notice
        finally:
            self._writers.discard(writer)
            self._passing.discard(task)
            writer.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()  # and so the other direction ends, too
