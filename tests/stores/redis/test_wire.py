"""What may happen between a server and a connection, byte by byte."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import uvloop

from bee_core.errors import BrokerUnavailable, OutcomeUnknown
from bee_core.message import Draft, Sent
from bee_redis import RedisBroker
from tests.servers import RedisServer

from .support import QUEUE, at_most, becomes, lease, outcome, send, settle

Change = Callable[[bytes], list[bytes]]
"""What a reply becomes on its way: pieces, each of which travels alone."""


class Relay:
    """Stands between a real server and its clients, and may be told to be unkind to them."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.change: Change = lambda reply: [reply]
        self.opened = 0
        self.ends: list[asyncio.StreamWriter] = []
        self.serving: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        self.ends.append(writer)
        theirs = await asyncio.open_unix_connection(str(self._server.socket))
        with suppress(ConnectionError):
            await asyncio.gather(self._to(reader, theirs[1]), self._back(theirs[0], writer))
        for end in (writer, theirs[1]):
            end.close()

    async def _to(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            server.write(data)
        server.close()

    async def _back(self, server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await server.read(65536):
            for piece in self.change(data):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()


@asynccontextmanager
async def relayed(server: RedisServer) -> AsyncIterator[tuple[Relay, str]]:
    relay = Relay(server)
    listener = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        yield relay, f"redis://127.0.0.1:{port}"
    finally:
        listener.close()
        for end in relay.ends:
            end.close()
        await asyncio.gather(*relay.serving)


def each_byte(reply: bytes) -> list[bytes]:
    return [reply[n : n + 1] for n in range(len(reply))]


@pytest.mark.parametrize("protocol", [2, 3])
async def test_replies_that_come_byte_by_byte_are_whole(server: RedisServer, protocol: int) -> None:
    async with relayed(server) as (relay, url):
        relay.change = each_byte
        async with RedisBroker(f"{url}?protocol={protocol}") as broker:
            assert [Sent.CREATED] * 5 == await send(broker, *"abcde")
            held = await lease(broker)
            assert list("abcde") == [one.receipt.id for one in held]
            assert set() == await settle(broker, held)
            assert 0 == (await broker.stats(QUEUE)).live


async def test_pushed_messages_are_nobodys_answer(server: RedisServer) -> None:
    async with relayed(server) as (relay, url), RedisBroker(f"{url}?protocol=3") as broker:
        await broker.stats(QUEUE)
        pushed = b">2\r\n+invalidate\r\n*1\r\n+x\r\n"
        relay.change = lambda reply: [pushed[:9], pushed[9:] + reply + pushed]

        for number in range(5):
            assert [Sent.CREATED] == await send(broker, str(number))
        assert 1 == relay.opened


async def test_an_answer_that_nobody_asked_for_is_handed_to_nobody(server: RedisServer) -> None:
    async with relayed(server) as (relay, url), RedisBroker(url, pool_size=1) as broker:
        await broker.stats(QUEUE)
        relay.change = lambda reply: [reply + b":1\r\n"]
        await outcome(send(broker, "a"))
        relay.change = lambda reply: [reply]

        assert [Sent.CREATED] == await send(broker, "b")
        assert 2 == (await broker.stats(QUEUE)).live


async def test_noise_instead_of_an_answer_leaves_the_outcome_unknown(server: RedisServer) -> None:
    async with relayed(server) as (relay, url), RedisBroker(url, pool_size=1) as broker:
        await send(broker, "first")
        relay.change = lambda reply: [b"HTTP/1.1 400 Bad Request\r\n\r\n"]
        with pytest.raises(OutcomeUnknown, match="protocol"):
            await send(broker, "a")
        relay.change = lambda reply: [reply]

        assert [Sent.KEPT] == await send(broker, "a")


async def test_a_connection_lost_in_the_middle_of_an_answer(server: RedisServer) -> None:
    async with relayed(server) as (relay, url), RedisBroker(url, pool_size=1) as broker:
        await send(broker, *"abc")
        await settle(broker, await lease(broker, 1))  # so the server knows the scripts

        def cut_off(reply: bytes) -> list[bytes]:
            relay.ends[-1].transport.abort()
            return [reply[:20]]

        relay.change = cut_off
        with pytest.raises(OutcomeUnknown, match="answer was lost"):
            await lease(broker)
        relay.change = lambda reply: [reply]

        assert 2 == (await broker.stats(QUEUE)).leased


async def test_one_call_of_many_that_is_cancelled_disturbs_no_other(server: RedisServer) -> None:
    async with RedisBroker(server.url, pool_size=3) as broker:
        await broker.stats(QUEUE)
        calling = [asyncio.create_task(send(broker, str(n))) for n in range(60)]
        for number, task in enumerate(calling):
            if number % 3 == 0:
                await asyncio.sleep(0)
                task.cancel()
        ends = await asyncio.gather(*calling, return_exceptions=True)

        whole = [end for number, end in enumerate(ends) if number % 3]
        assert [[Sent.CREATED]] * 40 == whole


async def test_one_slow_call_takes_no_other_with_it(server: RedisServer) -> None:
    withheld: list[bytes] = []

    def withhold_first(reply: bytes) -> list[bytes]:
        withheld.append(reply)
        return [] if len(withheld) == 1 else [reply]

    async with relayed(server) as (relay, url), RedisBroker(url, deadline=0.4) as broker:
        await send(broker, "first")
        relay.change = withhold_first
        slow = asyncio.create_task(outcome(send(broker, "slow")))
        await becomes(lambda: bool(withheld), "nothing was answered")
        for number in range(20):
            assert [Sent.CREATED] == await send(broker, str(number))

        assert isinstance(await slow, OutcomeUnknown)
        assert [Sent.KEPT] == await send(broker, "slow")


async def test_a_deadline_holds_on_a_connection_whose_last_call_had_a_later_one(
    server: RedisServer,
) -> None:
    """One alarm serves the calls of a connection one after the other."""
    async with RedisBroker(server.url, pool_size=1) as broker:
        await broker.stats(QUEUE)
        broker._deadline = 0.3
        told = r"within 0\.(3|2\d+) s"  # a moment has passed when the request is on its way
        with server.frozen(), at_most(1.0), pytest.raises(OutcomeUnknown, match=told):
            await send(broker, "a")
        broker._deadline = 0.6
        await broker.stats(QUEUE)
        begun = time.monotonic()
        told = r"within 0\.(6|5\d+) s"
        with server.frozen(), pytest.raises(OutcomeUnknown, match=told):
            await send(broker, "b")
        assert 0.55 < time.monotonic() - begun < 1.5


async def test_a_connection_closed_behind_our_back_is_noticed_before_it_is_used(
    server: RedisServer,
) -> None:
    """Also if the event loop had no time to listen since."""
    async with RedisBroker(server.url, pool_size=1) as broker:
        await broker.stats(QUEUE)
        server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(1.1)  # noqa: ASYNC251  # a handler that blocks

        assert [Sent.CREATED] == await send(broker, "a")


async def test_a_call_cancelled_before_it_has_a_connection_takes_none_along(
    server: RedisServer,
) -> None:
    async with RedisBroker(server.url, pool_size=1) as broker:
        await send(broker, "a")
        (wire,) = broker._link._wires  # type: ignore[union-attr]
        for turns in range(6):
            wire.heard_at -= 10.0  # so it is looked at first
            task = asyncio.create_task(broker.stats(QUEUE))
            for _ in range(turns % 3):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        assert [Sent.CREATED] == await send(broker, "b")
        assert {wire} == broker._link._wires  # type: ignore[union-attr]


async def test_a_server_that_closes_right_after_the_greeting_is_unavailable(
    server: RedisServer,
) -> None:
    async with relayed(server) as (relay, url):

        def close(reply: bytes) -> list[bytes]:
            relay.ends[-1].close()
            return [reply]

        relay.change = close
        async with RedisBroker(url, check=False) as broker:
            end = await outcome(broker.stats(QUEUE))
            assert isinstance(end, BrokerUnavailable | OutcomeUnknown)


async def test_commands_larger_than_any_buffer_arrive_whole(server: RedisServer) -> None:
    body = bytes(range(256)) * 40_000
    async with relayed(server) as (_, url), RedisBroker(url, deadline=30) as broker:
        assert [Sent.CREATED] == await broker.send(QUEUE, [Draft("a", body)])
        (held,) = await lease(broker)
        assert body == held.body


def test_no_connection_is_left_behind_on_either_loop(server: RedisServer) -> None:
    async def work() -> None:
        async with RedisBroker(server.url) as broker:
            await asyncio.gather(*(send(broker, str(n)) for n in range(20)))
            await broker.wait(QUEUE, timeout=0.01)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for run in (asyncio.run, uvloop.run):
            run(work())
            gc.collect()
    assert "1" == str(server.ask("INFO", "clients")["connected_clients"])
