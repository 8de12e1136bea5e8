"""Who may do what: an owner who migrates, a worker who works, a reader who looks."""

from __future__ import annotations

import msgspec
import psycopg
import pytest

from bee_core.disposition import Archive, Delete
from bee_core.errors import BrokerMisconfigured
from bee_core.message import Draft, Sent
from bee_core.stored import State
from bee_core.testing.conformance.guards import verbs
from bee_pg import PgBroker
from tests.servers import PgServer

from .support import QUEUE, ask, ids, lease, send, settle

WORKER = """
grant usage on schema bee to worker;
grant select on bee.version to worker;
grant select, insert, update, delete on
    bee.message, bee.successor, bee.archive, bee.tally, bee.idle, bee.created, bee.wake,
    bee.delivery, bee.report, bee.result, bee.worker to worker;
grant select, insert, delete on bee.paused to worker;
grant usage on sequence bee.number, bee.token to worker;
"""
SENDER = """
grant usage on schema bee to sender;
grant select on bee.version, bee.idle to sender;
grant select, insert, update on bee.message, bee.successor to sender;
grant insert on bee.created, bee.wake to sender;
grant usage on sequence bee.number to sender;
"""
MOVES = "grant update on sequence bee.token to worker"
GROUPS = """
grant delete on bee.message to sender;
grant select, delete on bee.report to sender;
"""
READER = """
grant usage on schema bee to reader;
grant select on all tables in schema bee to reader;
"""
READS = ("stats", "get", "scan", "workers", "results", "reports")


@pytest.fixture
async def staffed(pg: PgServer, url: str) -> str:
    """A database with bee's tables and a few people."""
    name = ask(url, "select current_database()")[0][0]
    for role in ("owner", "worker", "sender", "reader", "nobody"):
        try:
            pg.ask(f"create role {role} login")
        except psycopg.errors.DuplicateObject:
            continue
    pg.ask(f"grant create on database {name} to owner")
    async with PgBroker(as_role(url, "owner"), migrate=True) as broker:
        await broker.queues()
    for grants in (WORKER, SENDER, READER):
        ask(as_role(url, "owner"), grants)
    return url


def as_role(url: str, role: str) -> str:
    return url.replace("postgres@", f"{role}@")


async def test_a_worker_needs_no_more_than_to_read_and_write_rows(staffed: str) -> None:
    async with PgBroker(as_role(staffed, "worker")) as broker:
        for call in verbs(broker, QUEUE).values():
            await call()
        await broker.resume(QUEUE)
        await broker.wait(QUEUE, timeout=0.01)
        await send(broker, *(f"m{n}" for n in range(300)))
        for _ in range(3):
            assert set() == await settle(broker, await lease(broker), Archive())
        assert set() == await broker.restore(QUEUE, ["m1"])
        assert set() == await broker.cancel(QUEUE, ["m1"], to=Delete())
        assert 299 == await broker.prune(QUEUE)
        await broker.drop(QUEUE)


async def test_a_worker_needs_a_little_more_to_raise_the_tokens(staffed: str) -> None:
    async with PgBroker(as_role(staffed, "worker")) as broker:
        await send(broker, "a")
        [held] = await lease(broker)
        seen = (await broker.scan(QUEUE, State.LEASED)).items[0]
        await settle(broker, [held])
        free = msgspec.structs.replace(
            seen, state=State.READY, token=None, leased_at=None, leased_until=None
        )

        assert [] == await broker.adopt(QUEUE, [free], beyond=held.receipt.token)
        with pytest.raises(BrokerMisconfigured, match=r"(?s)denied.*update on sequence bee.token"):
            await broker.adopt("other", [free], beyond=10**15)
        assert 0 == (await broker.stats("other")).live

        ask(as_role(staffed, "owner"), MOVES)
        assert [] == await broker.adopt("other", [free], beyond=10**15)
        assert 10**15 < (await lease(broker, queue="other"))[0].receipt.token


async def test_a_worker_cannot_change_the_schema(staffed: str) -> None:
    for forbidden in ("drop table bee.message", "create table bee.mine ()", "truncate bee.archive"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ask(as_role(staffed, "worker"), forbidden)


async def test_a_sender_can_send_and_cannot_take(staffed: str) -> None:
    async with PgBroker(as_role(staffed, "sender")) as broker:
        await send(broker, "a")
        assert [Sent.CREATED] == await send(broker, "b")  # not as the first one is sent
        assert [Sent.KEPT] == await send(broker, "b")
        with pytest.raises(BrokerMisconfigured, match="permission denied"):
            await lease(broker)
        with pytest.raises(BrokerMisconfigured, match="permission denied"):
            await broker.drop(QUEUE)
    async with PgBroker(as_role(staffed, "worker")) as worker:
        assert ["a", "b"] == ids(await lease(worker))


async def test_a_reader_can_look_and_change_nothing(staffed: str) -> None:
    async with PgBroker(as_role(staffed, "worker")) as worker:
        await send(worker, "a")
    async with PgBroker(as_role(staffed, "reader")) as broker:
        assert [QUEUE] == await broker.queues()
        for name, call in verbs(broker, QUEUE).items():
            if name in READS or name == "wait":
                await call()
            elif name not in ("extend", "settle"):
                with pytest.raises(BrokerMisconfigured, match="permission denied"):
                    await call()
        assert 1 == (await broker.stats(QUEUE)).ready
    assert 1 == len(ask(as_role(staffed, "reader"), "select * from bee.job"))


async def test_who_may_do_nothing_is_told_what_to_ask_for(staffed: str) -> None:
    async with PgBroker(as_role(staffed, "nobody")) as broker:
        with pytest.raises(BrokerMisconfigured, match="may not look into schema 'bee'"):
            await broker.stats(QUEUE)
    ask(as_role(staffed, "owner"), "grant usage on schema bee to nobody")
    ask(as_role(staffed, "owner"), "grant select on bee.version to nobody")
    async with PgBroker(as_role(staffed, "nobody")) as broker:
        with pytest.raises(
            BrokerMisconfigured, match=r"(?s)permission denied.*grant select, insert"
        ):
            await send(broker, "a")
        with pytest.raises(
            BrokerMisconfigured, match=r"(?s)permission denied.*grant select, insert"
        ):
            await send(broker, "b")  # not as the first one is sent


async def test_who_may_not_migrate_is_told_so(pg: PgServer, url: str, staffed: str) -> None:
    empty = pg.database()
    async with PgBroker(as_role(empty, "worker"), migrate=True) as broker:
        with pytest.raises(BrokerMisconfigured, match="permission denied"):
            await broker.stats(QUEUE)


async def test_who_sends_groups_needs_a_little_more_than_who_sends(staffed: str) -> None:
    ask(as_role(staffed, "owner"), GROUPS)
    parent = Draft("all", b"", delay=1000, awaits=1)
    child = Draft("all/1", b"", reports_to="all")

    async with (
        PgBroker(as_role(staffed, "sender")) as sender,
        PgBroker(as_role(staffed, "worker")) as worker,
    ):
        first = [(await sender.send(QUEUE, [one]))[0] for one in (parent, child)]
        [one] = await lease(worker)
        await settle(worker, [one])
        again = await sender.send(QUEUE, [parent, child])

    assert [Sent.CREATED, Sent.CREATED] == first
    assert [Sent.KEPT, Sent.KEPT] == list(again)
