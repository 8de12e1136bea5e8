"""What PostgreSQL keeps of former leases and of who works, beyond what the contract says."""

from __future__ import annotations

import asyncio

import psycopg

from bee_core.disposition import Archive, Reschedule
from bee_core.message import Note, Settlement
from bee_core.stored import HISTORY
from bee_pg import PgBroker

from .support import QUEUE, ask, brokers, lease, lease_one, send

TEXT = '\0 \\x00 "quoted" \\ 日本 🐝\n'


async def test_a_message_that_is_leased_for_the_first_time_carries_no_history(
    url: str, broker: PgBroker
) -> None:
    await send(broker, "a", "b")
    await lease(broker)

    kept = "select leased_at is null, remark is null, history is null from bee.message"
    assert [(False, True, True)] * 2 == ask(url, kept)


async def test_remember_becomes_a_part_of_the_statement(url: str, broker: PgBroker) -> None:
    """As a call of its own it would cost every lease something."""
    await broker.queues()
    arguments = "history, token, holder, leased_at, now(), 'stalled', '', due, remark"
    with psycopg.connect(url) as connection:
        connection.execute("set search_path to bee")
        plan = connection.execute(
            f"explain verbose select remember({arguments}) from message".encode()
        ).fetchall()

    text = "\n".join(line for (line,) in plan)
    assert "cardinality" in text
    assert "remember" not in text


async def test_any_text_is_read_as_it_was_said(broker: PgBroker) -> None:
    await send(broker, "a")
    held = await lease_one(broker)
    await broker.extend(QUEUE, [held.receipt], duration=60, remarks={"a": TEXT})
    await broker.announce(QUEUE, "w", about=TEXT, duration=60)
    during = await broker.get(QUEUE, "a")

    await broker.settle(QUEUE, [Settlement(held.receipt, Reschedule())])

    after = await broker.get(QUEUE, "a")
    assert during is not None
    assert after is not None
    assert (TEXT, TEXT) == (during.remark, after.history[0].remark)
    assert [TEXT] == [worker.about for worker in await broker.workers(QUEUE)]


async def test_a_large_history_stands_beside_a_large_body(url: str, broker: PgBroker) -> None:
    await send(broker, "a")
    ask(url, "update bee.message set body = convert_to(repeat('x', 1000000), 'UTF8')")
    said = [f"{n:02}" + "🐝" * 1998 for n in range(HISTORY + 1)]
    for text in said:
        held = await lease_one(broker)
        await broker.extend(QUEUE, [held.receipt], duration=60, remarks={"a": text})
        await broker.settle(QUEUE, [Settlement(held.receipt, Reschedule(), summary=text[:200])])

    held = await lease_one(broker)
    await broker.settle(QUEUE, [Settlement(held.receipt, Archive())])

    stored = await broker.get(QUEUE, "a")
    assert stored is not None
    assert 1_000_000 == len(stored.body)
    assert [*said[2:], None] == [one.remark for one in stored.history]


async def test_the_settings_of_a_session_do_not_change_what_is_read(
    url: str, broker: PgBroker
) -> None:
    await send(broker, "a")
    held = await lease_one(broker)
    await broker.extend(QUEUE, [held.receipt], duration=60, remarks={"a": TEXT})
    await broker.settle(QUEUE, [Settlement(held.receipt, Reschedule(), Note("failed"))])
    settings = {
        "extra_float_digits": "-15",
        "bytea_output": "escape",
        "timezone": "Asia/Kathmandu",
        "datestyle": "SQL,DMY",
    }

    options = "%20".join(f"-c%20{name}%3D{value}" for name, value in settings.items())
    async with PgBroker(f"{url}&options={options}") as other:
        assert await broker.get(QUEUE, "a") == await other.get(QUEUE, "a")


async def test_people_see_it_in_the_view(url: str, broker: PgBroker) -> None:
    await send(broker, "a")
    held = await lease_one(broker)
    await broker.settle(
        QUEUE, [Settlement(held.receipt, Archive(), Note("failed"), summary="boom")]
    )

    found = "select j.id, e.holder, e.reason, e.summary from bee.job j, unnest(j.history) e"
    assert [("a", "w", "failed", "boom")] == ask(url, found)


async def test_who_is_silent_for_too_long_is_removed_by_the_others(
    url: str, broker: PgBroker
) -> None:
    for n in range(20):
        await broker.announce(QUEUE, f"w{n}", about="", duration=0.001)
    await broker.announce("other", "elsewhere", about="", duration=0.001)
    await asyncio.sleep(0.01)

    await broker.announce(QUEUE, "ann", about="", duration=60)

    left = "select queue, name from bee.worker order by queue, name"
    assert [("other", "elsewhere"), (QUEUE, "ann")] == ask(url, left)


async def test_many_announce_themselves_at_once_while_others_expire_and_all_is_dropped(
    url: str,
) -> None:
    async with brokers(url, 4) as made:

        async def come_and_go(broker: PgBroker, n: int) -> None:
            for turn in range(30):
                name = f"w{(n + turn) % 5}"
                await broker.announce(QUEUE, name, about="x", duration=(0.0, 0.001, 60.0)[turn % 3])

        async def drop(broker: PgBroker) -> None:
            for _ in range(20):
                await broker.drop(QUEUE)

        work = [come_and_go(broker, n) for n, broker in enumerate(made * 2)]
        await asyncio.gather(*work, drop(made[0]))
        await made[0].drop(QUEUE)

        assert [] == list(await made[0].workers(QUEUE))
        assert [(0,)] == ask(url, "select count(*) from bee.worker")
