"""No script holds up the server, however much there is; and more than one may take works too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bee_core.disposition import Archive, Delete
from bee_core.errors import InvalidOption, OutcomeUnknown
from bee_core.message import Draft, Rate, Receipt, Settlement, Throttle
from bee_core.stored import State
from bee_redis import RedisBroker
from tests.servers import RedisServer

from .support import QUEUE, drained, ids, key, lease, no_long_scripts, send, settle


async def fill(broker: RedisBroker, number: int, **options: float) -> list[str]:
    wanted = [f"m{n:06}" for n in range(number)]
    for start in range(0, number, 1000):
        drafts = [Draft(id, b"body", **options) for id in wanted[start : start + 1000]]  # type: ignore[arg-type]
        await broker.send(QUEUE, drafts)
    return wanted


def run_out(server: RedisServer) -> None:
    """Every lease runs out, now."""
    server.ask("ZUNIONSTORE", key("leased"), 1, key("leased"), "WEIGHTS", 0)


@pytest.fixture
async def patient(server: RedisServer) -> AsyncIterator[RedisBroker]:
    async with RedisBroker(server.url, deadline=30) as broker:
        yield broker


async def test_ten_thousand_leases_that_run_out_at_once(
    server: RedisServer, patient: RedisBroker
) -> None:
    wanted = await fill(patient, 10_000)
    for _ in range(10):
        assert 1000 == len(await lease(patient, 1000))
    run_out(server)

    with no_long_scripts(server, patient):
        came = []
        while leases := await lease(patient, 100):
            assert {1} == {held.counters.stalls for held in leases}
            came += ids(leases)
            await settle(patient, leases)

    assert wanted == sorted(came)


async def test_ten_thousand_messages_that_fall_due_at_once(
    server: RedisServer, patient: RedisBroker
) -> None:
    wanted = await fill(patient, 10_000, delay=0.5)
    await asyncio.sleep(0.55)  # by the server's clock

    with no_long_scripts(server, patient):
        assert 10_000 == (await patient.stats(QUEUE)).ready
        assert wanted == sorted(await drained(patient, patience=60))


async def test_operators_see_all_of_what_fell_due_at_once(patient: RedisBroker) -> None:
    await fill(patient, 2500, delay=0.3)
    await asyncio.sleep(0.35)  # by the server's clock

    assert [] == list((await patient.scan(QUEUE, State.DELAYED)).items)
    seen = []
    after = None
    while True:
        page = await patient.scan(QUEUE, State.READY, after=after, limit=700)
        assert {State.READY} == {item.state for item in page.items}
        seen += ids(page.items)
        if (after := page.after) is None:
            break
    assert 2500 == len(set(seen)) == len(seen)


async def test_operators_see_no_lease_that_has_run_out(
    server: RedisServer, patient: RedisBroker
) -> None:
    await fill(patient, 2500)
    for _ in range(3):
        await lease(patient, 1000)
    run_out(server)

    assert [] == list((await patient.scan(QUEUE, State.LEASED)).items)
    assert [] == list(await patient.workers(QUEUE))


async def test_every_verb_with_more_than_a_script_may_take(
    server: RedisServer, patient: RedisBroker
) -> None:
    wanted = await fill(patient, 3500)
    held = [one for _ in range(4) for one in await lease(patient, 5000)]
    assert wanted == ids(held)
    strangers = [Receipt(f"x{n}", 1) for n in range(1500)]

    with no_long_scripts(server, patient):
        receipts = [one.receipt for one in held]
        lost = await patient.extend(QUEUE, strangers + receipts, duration=60)
        assert set(strangers) == lost
        mixed = [
            Settlement(receipt, Archive() if n % 2 else Delete())
            for n, receipt in enumerate(strangers + receipts)
        ]
        assert set(strangers) == await patient.settle(QUEUE, mixed)
        assert {"ruled": 1750} == (await patient.stats(QUEUE)).archived

        archived = [id for n, id in enumerate(wanted) if n % 2]
        assert {"none"} == await patient.restore(QUEUE, [*archived, "none"])
        assert {"none"} == await patient.cancel(QUEUE, ["none", *archived], to=Archive())
        assert 1750 == await patient.prune(QUEUE, limit=10_000)
        assert 0 == (await patient.stats(QUEUE)).live


async def test_a_send_is_one_script_and_has_a_limit(broker: RedisBroker) -> None:
    with pytest.raises(InvalidOption, match="1001 drafts in one send; at most 1000"):
        await send(broker, *map(str, range(1001)))

    assert 0 == (await broker.stats(QUEUE)).live


async def test_what_fails_after_a_part_was_done_is_not_said_to_be_undone(
    server: RedisServer, broker: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(broker, 1500)
    run = broker._run
    pages = []

    async def run_and_freeze(verb: str, *arguments: object, **options: float) -> object:
        if verb == "cancel":
            pages.append(verb)
            if len(pages) == 2:
                server.ask("REPLICAOF", "127.0.0.1", "1")
        return await run(verb, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(broker, "_run", run_and_freeze)
    with pytest.raises(OutcomeUnknown, match="done in part"):
        await broker.cancel(QUEUE, [f"m{n:06}" for n in range(1500)], to=Delete())

    server.ask("REPLICAOF", "NO", "ONE")
    assert 500 == (await broker.stats(QUEUE)).live


@pytest.mark.parametrize("verb", ["purge", "prune", "drop", "pause"])
async def test_what_an_operator_has_done_in_part_is_not_said_to_be_undone(
    server: RedisServer, broker: RedisBroker, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    operate: dict[str, Callable[[], Awaitable[object]]] = {
        "purge": lambda: broker.purge(QUEUE),
        "prune": lambda: broker.prune(QUEUE, limit=1500),
        "drop": lambda: broker.drop(QUEUE),
        "pause": lambda: broker.pause("other"),
    }
    await fill(broker, 1500)
    if verb == "prune":
        for _ in range(2):
            await settle(broker, await lease(broker, 1000), Archive())
    run = broker._run

    async def run_once(*arguments: Any, **options: Any) -> object:
        reply = await run(*arguments, **options)
        server.ask("REPLICAOF", "127.0.0.1", "1")
        return reply

    monkeypatch.setattr(broker, "_run", run_once)
    try:
        with pytest.raises(OutcomeUnknown, match="done in part"):
            await operate[verb]()
    finally:
        server.ask("REPLICAOF", "NO", "ONE")

    monkeypatch.undo()
    await operate[verb]()
    stats = await broker.stats("other" if verb == "pause" else QUEUE)
    assert (0, 0, verb == "pause") == (stats.live, sum(stats.archived.values()), stats.paused)


async def test_a_purge_spares_nothing_that_waits_while_others_take_jobs_over(
    server: RedisServer, broker: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(broker, "x", "y", "z", priority=9)
    await lease(broker)
    run_out(server)
    assert ["x", "y", "z"] == ids((await broker.scan(QUEUE, State.READY)).items)
    await fill(broker, 2000)
    run = broker._run

    async def run_and_take_over(*arguments: Any, **options: Any) -> object:
        reply = await run(*arguments, **options)
        monkeypatch.undo()
        assert ["x", "y", "z"] == ids(await lease(broker, 3))
        return reply

    monkeypatch.setattr(broker, "_run", run_and_take_over)
    assert 2000 == await broker.purge(QUEUE)

    assert (0, 3) == ((await broker.stats(QUEUE)).ready, (await broker.stats(QUEUE)).leased)


async def test_one_id_that_lives_and_is_archived_very_often(
    server: RedisServer, patient: RedisBroker
) -> None:
    """A job with a fixed id that runs every minute, and an archive that nobody prunes."""
    for _ in range(300):
        await send(patient, "a")
        await settle(patient, await lease(patient), Archive())

    with no_long_scripts(server, patient):
        assert 100 == await patient.prune(QUEUE, limit=100)
        assert set() == await patient.restore(QUEUE, ["a"])
        assert 199 == sum((await patient.stats(QUEUE)).archived.values())
        assert 199 == await patient.prune(QUEUE)

    assert 0 == server.ask("EXISTS", key("older"), key("kept"), key("archive"))


async def test_purging_and_dropping_much(server: RedisServer, patient: RedisBroker) -> None:
    await fill(patient, 20_000)
    await patient.send(QUEUE, [Draft(f"late {n}", b"", delay=60) for n in range(1000)])

    with no_long_scripts(server, patient):
        assert 21_000 == await patient.purge(QUEUE)
        assert [] == await lease(patient)

    await fill(patient, 20_000)
    with no_long_scripts(server, patient):
        await patient.drop(QUEUE)
    assert [] == [name for name in server.ask("KEYS", "bee:*") if b"{q}" in name]


async def test_the_deliveries_of_keys_that_are_never_seen_again_are_forgotten(
    server: RedisServer, patient: RedisBroker
) -> None:
    slow = Throttle(key_rate=Rate(1, per=0.05))
    for key_of_it in "abc":
        await patient.send(QUEUE, [Draft(key_of_it, b"", key=key_of_it)])
        held = await patient.lease(QUEUE, limit=1, duration=60, holder="w", throttle=slow)
        await settle(patient, held)
    await asyncio.sleep(0.1)

    await patient.lease(QUEUE, limit=1, duration=60, holder="w", throttle=slow)

    assert 0 == server.ask("ZCARD", key("lists"))


async def test_a_purge_that_was_given_up_half_way_forgets_nobody(patient: RedisBroker) -> None:
    drafts = [Draft(f"m{n:04}", b"", key="k") for n in range(2200)]
    for start in range(0, len(drafts), 1000):
        await patient.send(QUEUE, drafts[start : start + 1000])
    await settle(patient, await lease(patient, 10))

    await patient._run("purge", QUEUE, 1000, "", b"")

    assert ["m0001"] == ids(await lease(patient, 10))
