"""The line between workers and broker: what passes, and how it breaks, to the byte."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest

from bee_core.cli.chaos.proxy import KINDS, Fault, Kind, Proxy, some_fault

End = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Server:
    """Answers every byte with itself, and keeps what it was sent."""

    def __init__(self) -> None:
        self.heard = b""
        self.over = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1000):
                self.heard += data
                writer.write(data)
        self.over.set()
        writer.close()


class Line:
    """The proxy to that server, what has happened there, and who is connected."""

    def __init__(self, port: int, fates: Iterator[Fault]) -> None:
        self.told: list[Fault] = []
        self._ends: list[asyncio.StreamWriter] = []
        fate = partial(next, fates, None)
        self.proxy = Proxy("127.0.0.1", port, fate=fate, tell=self.told.append)

    async def connect(self) -> End:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.proxy.port)
        self._ends.append(writer)
        return reader, writer

    async def end(self) -> None:
        for writer in self._ends:
            writer.close()
        await self.proxy.cut()


@asynccontextmanager
async def lines(*fates: Fault) -> AsyncIterator[tuple[Server, Line]]:
    """A server and the line to it. A connection beyond those fates is left alone."""
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    line = Line(listening.sockets[0].getsockname()[1], iter(fates))
    await line.proxy.start()
    try:
        yield server, line
    finally:
        await line.end()
        await server.over.wait()
        listening.close()


async def heard(reader: asyncio.StreamReader) -> bytes:
    """All until the end, however it ends."""
    data = b""
    with suppress(OSError):
        while more := await reader.read(1000):
            data += more
    return data


def fault(kind: Kind, *, upwards: bool, after: int, seconds: float = 0.05) -> Fault:
    return Fault(kind, upwards, after, seconds)


async def test_what_is_left_alone_passes_whole() -> None:
    async with lines() as (_, line):
        reader, writer = await line.connect()
        writer.write(b"abcdef")

        assert b"abcdef" == await reader.readexactly(6)
        assert [] == line.told


@pytest.mark.parametrize("after", [0, 3])
async def test_a_cut_on_the_way_there_lets_exactly_so_many_bytes_pass(after: int) -> None:
    cut = fault("cut", upwards=True, after=after)
    async with lines(cut) as (server, line):
        reader, writer = await line.connect()
        writer.write(b"abcdef")

        await heard(reader)
        await server.over.wait()
        assert b"abcdef"[:after] == server.heard
        assert [cut] == line.told


async def test_a_cut_on_the_way_back_loses_the_answer_and_not_the_question() -> None:
    async with lines(fault("cut", upwards=False, after=2)) as (server, line):
        reader, writer = await line.connect()
        writer.write(b"abcdef")

        assert b"ab" == await heard(reader)
        assert b"abcdef" == server.heard


async def test_bytes_are_counted_over_several_writes() -> None:
    async with lines(fault("cut", upwards=False, after=7)) as (_, line):
        reader, writer = await line.connect()
        writer.write(b"abcd")
        assert b"abcd" == await reader.readexactly(4)
        writer.write(b"efgh")

        assert b"efg" == await heard(reader)


async def test_a_reset_is_an_error_at_the_other_end() -> None:
    async with lines(fault("reset", upwards=True, after=0)) as (_, line):
        reader, writer = await line.connect()
        writer.write(b"abcdef")

        with pytest.raises(ConnectionResetError):
            await reader.read()


async def test_what_is_slow_arrives_whole_and_in_order_and_has_a_new_fate() -> None:
    slow, cut = fault("slow", upwards=True, after=2), fault("cut", upwards=True, after=5)
    async with lines(slow, cut) as (server, line):
        reader, writer = await line.connect()
        writer.write(b"abcdef")
        assert b"abcdef" == await reader.readexactly(6)
        assert [slow] == line.told
        writer.write(b"ghijkl")

        await heard(reader)
        await server.over.wait()
        assert b"abcdefghijk" == server.heard
        assert [slow, cut] == line.told


async def test_half_open_only_one_end_knows() -> None:
    async with lines(fault("half open", upwards=True, after=2, seconds=60)) as (server, line):
        reader, writer = await line.connect()
        writer.write(b"abcdef")
        await server.over.wait()  # it has heard of the end

        assert b"ab" == server.heard
        writer.write(b"more")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(3), 0.05)


async def test_a_silent_line_swallows_both_ways_and_ends_in_the_end() -> None:
    async with lines(fault("silent", upwards=True, after=2)) as (server, line):
        reader, writer = await line.connect()
        writer.write(b"abcdef")

        await heard(reader)  # it ends after a while
        await server.over.wait()
        assert b"ab" == server.heard


async def test_who_connects_after_a_fault_is_a_new_connection() -> None:
    async with lines(fault("cut", upwards=True, after=0)) as (_, line):
        reader, writer = await line.connect()
        writer.write(b"lost")
        await heard(reader)

        reader, writer = await line.connect()
        writer.write(b"found")

        assert b"found" == await reader.readexactly(5)


async def test_all_connections_may_be_ended_and_new_ones_are_welcome() -> None:
    async with lines() as (_, line):
        reader, writer = await line.connect()
        writer.write(b"a")
        await reader.readexactly(1)

        assert 1 == line.proxy.end_all()

        assert b"" == await heard(reader)
        reader, writer = await line.connect()
        writer.write(b"b")
        assert b"b" == await reader.readexactly(1)


def test_some_faults_are_of_every_kind_early_and_late_and_both_ways() -> None:
    chance = random.Random(1)

    found = [some_fault(chance, most=10_000) for _ in range(1_000)]

    assert set(KINDS) == {each.kind for each in found}
    assert {True, False} == {each.upwards for each in found}
    assert min(each.after for each in found) < 10
    assert 5_000 < max(each.after for each in found) <= 10_000
