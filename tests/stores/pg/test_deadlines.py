"""Every call ends within its deadline, whatever the server does, and harms no other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from bee_core.errors import BrokerError, BrokerUnavailable, OutcomeUnknown
from bee_core.message import Sent
from bee_core.stored import State
from bee_core.testing.conformance.guards import Call, verbs
from bee_pg import PgBroker
from tests.servers import PgBouncer, PgServer, pgbouncer_binary

from .support import (
    PASSING,
    QUEUE,
    again,
    ask,
    at_most,
    becomes,
    brokers,
    connected,
    ids,
    lease,
    outcome,
    send,
)

DEADLINE = 0.5
SLACK = 1.0


@pytest.fixture
def quiet() -> Iterator[PgServer]:
    """A server that may fall silent."""
    server = PgServer(18)
    yield server
    server.stop()


@pytest.fixture
async def hurried(quiet: PgServer) -> AsyncIterator[PgBroker]:
    async with brokers(quiet.database(), 1) as (patient,):
        url = patient._parameters
        address = f"postgresql://postgres@/{url['dbname']}?host={url['host']}"
        async with PgBroker(address, deadline=DEADLINE, pool_size=40) as broker:
            await broker.stats(QUEUE)
            yield broker


async def test_no_verb_waits_longer_than_its_deadline_for_a_silent_server(
    quiet: PgServer, hurried: PgBroker
) -> None:
    calls = {**verbs(hurried, QUEUE), "queues": hurried.queues}
    await asyncio.gather(*(outcome(call()) for call in calls.values()))

    with quiet.frozen(), at_most(DEADLINE + SLACK):
        ends = await asyncio.gather(*(outcome(call()) for call in calls.values()))

    found = dict(zip(calls, map(type, ends), strict=True))
    assert type(None) is found.pop("wait")  # it had no time to wait
    assert set(found.values()) <= set(PASSING), found
    assert [Sent.CREATED] == await send(hurried, "b")


async def test_a_broker_that_cannot_even_begin_says_that_nothing_was_done(quiet: PgServer) -> None:
    async with PgBroker(quiet.url, deadline=DEADLINE) as broker:
        with quiet.frozen():
            for call in (lambda: send(broker, "a"), lambda: broker.wait(QUEUE, timeout=1)):
                with at_most(DEADLINE + SLACK), pytest.raises(BrokerUnavailable):
                    await call()


async def test_waiting_for_a_silent_server_ends_too(quiet: PgServer, hurried: PgBroker) -> None:
    await hurried.wait(QUEUE, timeout=0.01)

    with quiet.frozen(), at_most(2 * DEADLINE + SLACK):
        await outcome(hurried.wait(QUEUE, timeout=0.1))

    await again(lambda: hurried.wait(QUEUE, timeout=0.01))


@pytest.mark.parametrize("opened", [True, False], ids=["an open broker", "a new broker"])
async def test_a_cancelled_call_returns_promptly_from_a_silent_server(
    quiet: PgServer, hurried: PgBroker, opened: bool
) -> None:
    async with hurried.clone() as patient:
        patient._deadline = 30.0
        if opened:
            await patient.stats(QUEUE)
        calls: dict[str, Call] = {
            **verbs(patient, QUEUE),
            "wait": lambda: patient.wait(QUEUE, timeout=20),
        }
        with quiet.frozen():
            for verb, call in calls.items():
                task = asyncio.ensure_future(call())
                await asyncio.sleep(0.02)
                begun = time.monotonic()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert time.monotonic() - begun < 0.5, verb
                assert task.cancelled(), verb

        assert [Sent.CREATED] == await send(patient, "z")


async def test_a_server_silent_behind_its_pooler_is_silent(quiet: PgServer) -> None:
    """The pooler answers who connects; only what is asked of the server gets no answer."""
    binary = pgbouncer_binary()
    if binary is None:
        pytest.skip("no pgbouncer in PATH: apt-get install pgbouncer")
    pooler = PgBouncer(binary, quiet)
    try:
        async with brokers(pooler.database(), 1, deadline=DEADLINE) as (broker,):
            await send(broker, "a")
            calls: dict[str, Call] = {
                "wait": lambda: broker.wait(QUEUE, timeout=1),
                "stats": lambda: broker.stats(QUEUE),
                "a new one": lambda: outcome(broker.clone().stats(QUEUE)),
            }
            with quiet.frozen():
                for name, call in calls.items():
                    with at_most(2 * DEADLINE + SLACK):
                        end = await outcome(call())
                    assert isinstance(end, PASSING), (name, end)
            assert ["a"] == ids(await again(lambda: lease(broker)))
    finally:
        pooler.stop()


async def test_a_table_that_somebody_has_locked_is_not_waited_for_longer(
    url: str, broker: PgBroker
) -> None:
    await send(broker, "a")
    async with PgBroker(url, deadline=DEADLINE, pool_size=40) as hurried:
        await hurried.stats(QUEUE)
        with psycopg.connect(url) as other:
            other.execute("lock table bee.message in access exclusive mode")
            calls = dict(verbs(hurried, QUEUE))
            pause = calls.pop("pause")  # later: a lease of a paused queue looks at no message
            with at_most(DEADLINE + SLACK):
                ends = await asyncio.gather(*(outcome(call()) for call in calls.values()))
            await pause()
            other.rollback()

        found = dict(zip(calls, map(type, ends), strict=True))
        for untouched in ("wait", "resume", "prune", "results", "reports", "announce"):
            assert not issubclass(found.pop(untouched), BrokerError)
        assert set(found.values()) <= set(PASSING), found
        await hurried.resume(QUEUE)
        assert 0 == (await hurried.stats(QUEUE)).leased


async def test_a_lease_whose_client_has_given_up_takes_nothing_for_nobody(
    url: str, broker: PgBroker
) -> None:
    """The server goes on waiting for the lock, and gets it when nobody wants to know any more."""
    await send(broker, "a", "b")
    async with PgBroker(url, deadline=DEADLINE) as hurried:
        await hurried.stats(QUEUE)
        with psycopg.connect(url) as other:
            other.execute("lock table bee.message in access exclusive mode")
            with pytest.raises(PASSING):
                await lease(hurried)
            other.rollback()
        await becomes(lambda: busy(url) == 0, "the server is still at it")

        assert 0 == (await broker.stats(QUEUE)).leased
        assert ["a", "b"] == ids(await lease(hurried))


async def test_the_usual_deadline_gives_up_a_locked_table_in_the_servers_own_words(
    url: str, broker: PgBroker
) -> None:
    await send(broker, "a")
    async with PgBroker(url) as usual:
        await usual.stats(QUEUE)
        with psycopg.connect(url) as other:
            other.execute("lock table bee.message in access exclusive mode")
            with pytest.raises(BrokerUnavailable, match="lock timeout"), at_most(4.5):
                await lease(usual)
            other.rollback()
        assert ["a"] == ids(await lease(usual))


async def test_a_broker_that_opens_while_its_tables_are_locked_says_so_in_bees_words(
    url: str, broker: PgBroker
) -> None:
    with psycopg.connect(url) as other:
        other.execute("lock table bee.version in access exclusive mode")
        async with PgBroker(url, deadline=DEADLINE) as new:
            with at_most(DEADLINE + SLACK), pytest.raises(PASSING):
                await new.stats(QUEUE)
            other.rollback()
            await new.stats(QUEUE)


async def test_a_pool_that_is_too_small_says_which_option_to_raise(
    url: str, broker: PgBroker
) -> None:
    async with PgBroker(url, deadline=DEADLINE, pool_size=1) as narrow:
        await narrow.stats(QUEUE)
        with psycopg.connect(url) as other:
            other.execute("lock table bee.message in access exclusive mode")
            ends = await asyncio.gather(*(outcome(narrow.stats(QUEUE)) for _ in range(3)))
        assert {OutcomeUnknown, BrokerUnavailable} == set(map(type, ends))
        assert "pool_size" in str(ends)
        assert [] == (await narrow.scan(QUEUE, State.READY)).items


async def test_calls_given_up_leave_no_connection_behind(url: str, broker: PgBroker) -> None:
    async with PgBroker(url, deadline=0.1, pool_size=4) as hurried:
        await again(lambda: hurried.stats(QUEUE))
        with psycopg.connect(url) as other:
            other.execute("lock table bee.message in access exclusive mode")
            for _ in range(3):
                await asyncio.gather(*(outcome(hurried.stats(QUEUE)) for _ in range(4)))
            other.rollback()
        await becomes(lambda: connected(url) <= 5, "connections are left")


def busy(url: str) -> int:
    """Statements of bee's that are under way."""
    found = ask(
        url,
        "select count(*) from pg_stat_activity where datname = current_database() "
        "and application_name = 'bee' and state = 'active'",
    )
    return int(found[0][0])
