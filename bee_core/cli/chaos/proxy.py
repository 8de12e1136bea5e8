"""Between the workers and their broker: a line that can be cut, and lines that break by themselves.

What becomes of a connection is its `Fault`: it happens at a byte, so also in the middle of a
request or of an answer. Nothing is changed, repeated or put in another order: TCP does not do that.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, NamedTuple

_CHUNK = 1 << 16
_RESET = struct.pack("ii", 1, 0)

Kind = Literal["cut", "reset", "slow", "half open", "silent"]
KINDS: tuple[Kind, ...] = ("cut", "reset", "slow", "half open", "silent")


class Fault(NamedTuple):
    """What is to become of a connection.

    cut        both ends hear that it is over, after what was sent before
    reset      the same, at once: what was not read yet is gone
    slow       what comes next takes `seconds` longer; then the connection is as good as a new one
    half open  one end hears that it is over; the other one hears nothing any more, for `seconds`
    silent     neither end hears anything any more, for `seconds`; what they send is swallowed
    """

    kind: Kind
    upwards: bool
    """Whether it is the bytes to the server that are counted, or else those from it."""
    after: int
    """So many bytes pass before it happens."""
    seconds: float


def some_fault(chance: random.Random, *, most: int = 32_000, longest: float = 1.5) -> Fault:
    """Any of them, within so many bytes. Every other one is early, so that handshakes are hit."""
    kind = chance.choice(KINDS)
    after = int(most ** chance.random()) if chance.random() < 0.5 else chance.randrange(most)
    seconds = chance.uniform(0, longest / 5 if kind == "slow" else longest)
    return Fault(kind, chance.random() < 0.5, after, seconds)


def no_fault() -> Fault | None:
    """The fate of connections that are left alone."""
    return None


class Proxy:
    """Passes connections of a port of this machine on to a server, unless it is cut.

    `fate` is asked what is to become of each new connection; `tell` hears of faults that happen.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        fate: Callable[[], Fault | None] = no_fault,
        tell: Callable[[Fault], None] = lambda fault: None,
    ) -> None:
        self._to = host, port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self.fate = fate
        self.tell = tell
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
        count = self.end_all()
        if self._passing:
            await asyncio.wait(self._passing)
        return count

    def end_all(self) -> int:
        """End all connections; new ones are welcome. Return how many there were."""
        for writer in self._writers:
            writer.transport.abort()
        return len(self._writers) // 2

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        self._writers.add(writer)
        try:
            there, back = await asyncio.open_connection(*self._to)
            self._writers.add(back)
            try:
                await _Line(self, (reader, writer), (there, back)).pass_on()
            finally:
                self._writers.discard(back)
                back.transport.abort()
        except OSError:
            pass  # the other end will notice
        finally:
            self._writers.discard(writer)
            self._passing.discard(task)
            writer.transport.abort()


_End = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Line:
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy, client: _End, server: _End) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._swallows = False
        self._fault = proxy.fate()
        self._passed = 0

    async def pass_on(self) -> None:
        """Until both directions have ended."""
        up = self._pass(self._client[0], self._server[1], upwards=True)
        down = self._pass(self._server[0], self._client[1], upwards=False)
        await asyncio.gather(up, down)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, upwards: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self._fault is not None and self._fault.upwards is upwards:
                    data = await self._meet(self._fault, data, writer)
                if not self._swallows:
                    writer.write(data)
                    await writer.drain()
        if not self._swallows:
            self._end()  # and so the other direction ends, too

    async def _meet(self, fault: Fault, data: bytes, writer: asyncio.StreamWriter) -> bytes:
        """Pass on what comes before the fault, let it happen, return what comes after it."""
        before = fault.after - self._passed
        self._passed += len(data)
        if len(data) <= before:
            return data
        writer.write(data[:before])
        await writer.drain()
        self._fault = None
        self._proxy.tell(fault)
        await self._happen(fault)
        return data[before:]

    async def _happen(self, fault: Fault) -> None:
        match fault.kind:
            case "cut":
                self._end()
            case "reset":
                self._reset()
            case "slow":
                await asyncio.sleep(fault.seconds)
                self._fault, self._passed = self._proxy.fate(), 0
            case "half open":
                self._swallow(fault.seconds)
                (self._server if fault.upwards else self._client)[1].transport.abort()
            case "silent":
                self._swallow(fault.seconds)

    def _swallow(self, seconds: float) -> None:
        self._swallows = True
        asyncio.get_running_loop().call_later(seconds, self._end)

    def _reset(self) -> None:
        for _, writer in (self._client, self._server):
            connection: socket.socket = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._end()

    def _end(self) -> None:
        self._swallows = True  # what is on its way goes nowhere
        for _, writer in (self._client, self._server):
            writer.transport.abort()
