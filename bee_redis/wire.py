"""One connection to a server, with one call at a time.

The client library opens it: names, TLS, who we are, which database. From then on the socket's
events come here, without streams and timers between, which cost several times as much as what they
carry. What is known of the library's inside is in `open_wire`, and nowhere else.
"""

from __future__ import annotations

import asyncio
from typing import Any

from redis import exceptions as redis_errors

from bee_core.alarm import Alarm
from bee_redis.resp import Replies, Reply


class Wire(asyncio.Protocol):
    """Asks, and hears the answer. Once anything is amiss it is of no more use, for good.

    So no answer is ever left behind for the next caller: who is not answered, because time is over
    or he went away, leaves a wire behind that is not `is_free`, and is to be cut.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._loop = asyncio.get_running_loop()
        self._writer = writer  # whose end would be the transport's
        self._transport: Any = writer.transport
        self._replies = Replies()
        self._answer: asyncio.Future[Reply] | None = None
        self._passed_over = 0  # answers that come before the one that is waited for
        self._alarm = Alarm(self._give_up)
        self.heard_at = self._loop.time()
        """When it was last known to work."""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Done when nothing is left of it."""

    @property
    def is_free(self) -> bool:
        """Whether a call may be made."""
        return self._answer is None and not self._transport.is_closing()

    def ask(self, request: bytes, until: float, others: int = 0) -> asyncio.Future[Reply]:
        """Send a packed command. The answer, or: the server's error (a ResponseError),
        TimeoutError at `until` (of the loop's clock), ConnectionError if there will be none.

        There may be `others` in front of it, whose answers nobody wants.
        """
        self._answer = answer = self._loop.create_future()
        self._passed_over = others
        self._alarm.set(until)
        self._transport.write(request)
        return answer

    def cut(self) -> None:
        """End it now, whatever is under way."""
        self._transport.abort()

    # Called by the event loop.

    def data_received(self, data: bytes) -> None:
        try:
            for reply in self._replies.feed(data):
                self._hear(reply)
        except redis_errors.InvalidResponse as error:
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or redis_errors.ConnectionError("the connection was closed"))
        if not self.gone.done():
            self.gone.set_result(None)

    def _hear(self, reply: Reply) -> None:
        if self._passed_over:
            self._passed_over -= 1
            return
        answer, self._answer = self._answer, None
        if answer is None:
            raise redis_errors.InvalidResponse("an answer that nobody asked for")
        self.heard_at = self._loop.time()
        if answer.done():  # whoever asked went away
            return
        if isinstance(reply, redis_errors.RedisError):
            answer.set_exception(reply)
        else:
            answer.set_result(reply)

    def _give_up(self) -> None:
        if self._answer is not None:
            self._fail(TimeoutError())

    def _fail(self, error: Exception) -> None:
        """Whoever waits hears of it; nobody is served any more."""
        self._alarm.cancel()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self._transport.abort()


async def open_wire(connection: Any) -> Wire:
    """Let a connection of the client library (its methods are not annotated in every version)
    connect and greet the server; then take its place.

    The server has nothing to say then until it is asked, so nothing is lost in between.
    """
    try:
        await connection.connect()
        reader, writer = connection._reader, connection._writer
        if reader.at_eof() or writer.transport.is_closing():
            raise redis_errors.ConnectionError("the connection was closed after the greeting")
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    connection._reader = connection._writer = None  # else its end would be the socket's
    wire = Wire(writer)
    writer.transport.set_protocol(wire)
    return wire
