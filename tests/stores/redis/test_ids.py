"""Ids of every shape come out as they went in, whether they are stored as text or packed."""

from __future__ import annotations

import itertools

import pytest

from bee_core.disposition import Archive, Reschedule
from bee_core.errors import IdTaken
from bee_core.ids import new_id
from bee_core.message import Draft, Receipt, Reject, Report, Sent, Settlement, Update
from bee_core.stored import State, Stored
from bee_redis import RedisBroker
from bee_redis.ids import pack_id, unpack_id
from tests.servers import RedisServer

from .support import QUEUE, drained, ids, key, lease, lease_one, send, settle

UUID = "01a1e802-b72d-7f09-8df6-4b7d472cecef"
NULS = "01000000-0000-7000-8000-00000000000a"
BRACKETS = "1f5b285d-5c00-7a0a-8d0d-ff00ff00ff00"
PACKED = (UUID, NULS, BRACKETS)
TEXT = {
    "upper case": UUID.upper(),
    "mixed case": UUID.replace("a", "A"),
    "dashes elsewhere": "01a1e80-2b72d-7f09-8df6-4b7d472cecef",
    "a dash more": "01a1e802-b72d-7f09-8df6-4b7d472-ecef",
    "no dashes": UUID.replace("-", ""),
    "blanks": "01a1e802-b72d-7f09-8df6-4b7d472ce ef",
    "two blanks": "01a1e802-b72d-7f09-8df6-4b7d472c  ef",
    "other digits": UUID.replace("0", "\N{ARABIC-INDIC DIGIT ZERO}"),
    "another letter": UUID.replace("f", "g"),
    "no letters": "01010102-1720-7109-8016-407047200000",
    "first byte 0": "00" + UUID[2:],
    "first byte 32": "20" + UUID[2:],
    "first byte 255": "ff" + UUID[2:],
    "braces": "{" + UUID[1:-1] + "}",
    "longer": UUID + "/1",
    "16 bytes": "a" * 16,
    "16 bytes of others": "é" * 8,
    "one letter": "a",
    "del": "~" * 16,
}
EVERY = (*PACKED, *TEXT.values())


@pytest.mark.parametrize("id", PACKED)
def test_a_canonical_uuid_of_these_times_is_packed(id: str) -> None:
    packed = pack_id(id)

    assert 16 == len(packed)
    assert packed == bytes.fromhex(id.replace("-", ""))
    assert id == unpack_id(packed)
    assert packed == pack_id(id) == pack_id(id)  # also if it is not remembered


@pytest.mark.parametrize("id", TEXT.values(), ids=TEXT)
def test_any_other_id_is_stored_as_its_text(id: str) -> None:
    assert id.encode() == pack_id(id)
    assert id == unpack_id(id.encode())


def test_no_two_ids_are_stored_alike() -> None:
    assert len(set(EVERY)) == len({pack_id(id) for id in EVERY})


def test_each_new_id_is_packed_and_they_stay_in_order() -> None:
    made = sorted(new_id() for _ in range(5000))
    packed = [pack_id(id) for id in made]

    assert {16} == {len(one) for one in packed}
    assert packed == sorted(packed)
    assert made == [unpack_id(one) for one in packed]
    assert packed == [pack_id(id) for id in made]


@pytest.mark.parametrize("id", ["", "\0", "\1" * 16, pack_id(UUID).decode("latin-1"), "\ud800"])
def test_what_cannot_be_an_id_is_packed_as_none(id: str) -> None:
    assert pack_id(id) not in {pack_id(one) for one in EVERY}
    assert pack_id(id)[:1] in (b"\0", b"\xed")


async def test_a_receipt_that_spells_the_stored_form_is_lost(broker: RedisBroker) -> None:
    ascii_only = "01020304-0506-7708-4a0a-0b0c0d0e0f10"
    await send(broker, ascii_only)
    held = await lease_one(broker)
    forged = Receipt(bytes.fromhex(ascii_only.replace("-", "")).decode(), held.receipt.token)

    assert {forged} == await broker.extend(QUEUE, [forged], duration=1)
    assert {forged} == await broker.settle(QUEUE, [Settlement(forged, Archive())])
    assert set() == await settle(broker, [held])


@pytest.mark.parametrize("keyed", [False, True])
async def test_they_are_leased_in_order_and_settled(broker: RedisBroker, keyed: bool) -> None:
    drafts = [Draft(id, id.encode(), key=f"k{n}" if keyed else None) for n, id in enumerate(EVERY)]
    assert {Sent.CREATED} == set(await broker.send(QUEUE, drafts))
    assert {Sent.KEPT} == set(await broker.send(QUEUE, drafts))

    held = await lease(broker)

    assert list(EVERY) == ids(held)
    assert list(EVERY) == [one.body.decode() for one in held]
    assert [draft.key for draft in drafts] == [one.key for one in held]
    assert set() == await broker.extend(QUEUE, [one.receipt for one in held], duration=60)
    assert set() == await settle(broker, held[::2], Archive())
    assert set() == await settle(broker, held[1::2])
    assert set(EVERY) == await settle(broker, held)
    assert 0 == (await broker.stats(QUEUE)).live


async def test_those_of_one_key_wait_for_each_other(broker: RedisBroker) -> None:
    await send(broker, *EVERY, key="k")
    came = []
    while held := await lease(broker):
        assert 1 == len(held)
        came += ids(held)
        assert sorted(set(EVERY) - set(came)) == sorted(ids(await scanned(broker, State.READY)))
        await settle(broker, held)

    assert list(EVERY) == came


async def scanned(broker: RedisBroker, state: State) -> list[Stored]:
    """All messages in a state, by small pages."""
    found: list[Stored] = []
    after = None
    while True:
        page = await broker.scan(QUEUE, state, after=after, limit=3)
        found += page.items
        if (after := page.after) is None:
            return found


@pytest.mark.parametrize("state", [State.READY, State.DELAYED, State.LEASED, State.ARCHIVED])
async def test_an_operator_sees_them_in_every_state(broker: RedisBroker, state: State) -> None:
    await send(broker, *EVERY, delay=60 if state is State.DELAYED else 0.0)
    if state in (State.LEASED, State.ARCHIVED):
        held = await lease(broker)
        if state is State.ARCHIVED:
            await settle(broker, held, Archive())

    assert sorted(EVERY) == sorted(ids(await scanned(broker, state)))
    for id in EVERY:
        found = await broker.get(QUEUE, id)
        assert found is not None
        assert (id, state, b"body") == (found.id, found.state, found.body)


async def test_successors_are_shown_by_id_and_follow(broker: RedisBroker) -> None:
    await send(broker, *EVERY)
    held = await lease(broker)
    await broker.send(QUEUE, [Draft(id, b"next", if_taken=Update()) for id in EVERY])

    assert sorted(EVERY) == ids(await scanned(broker, State.BLOCKED))
    await settle(broker, held)
    assert {b"next"} == {one.body for one in await lease(broker)}


async def test_they_can_be_cancelled_restored_pruned_and_refused(broker: RedisBroker) -> None:
    await send(broker, *EVERY)

    with pytest.raises(IdTaken) as taken:
        await broker.send(QUEUE, [Draft(id, b"", if_taken=Reject()) for id in EVERY])
    assert all(repr(id) in str(taken.value) or id in str(taken.value) for id in PACKED)
    assert set() == await broker.cancel(QUEUE, EVERY, to=Archive())
    assert set(EVERY) == await broker.cancel(QUEUE, EVERY, to=Archive())
    assert set() == await broker.restore(QUEUE, EVERY)
    assert sorted(EVERY) == sorted(await drained(broker))


@pytest.mark.parametrize("parent", [*PACKED, "parent"])
async def test_they_report_and_are_reported_to(broker: RedisBroker, parent: str) -> None:
    """Reports come in the order of the ids as text, whatever they are stored as."""
    children = [*(id for id in EVERY if id != parent), *(new_id() for _ in range(20))]
    await broker.send(QUEUE, [Draft(parent, b"", delay=60, awaits=len(children))])
    await broker.send(QUEUE, [Draft(id, b"", reports_to=parent) for id in children])
    held = await lease(broker)
    assert {parent} == {one.reports_to for one in held}
    await broker.settle(QUEUE, [Settlement(one.receipt, Archive()) for one in held])

    assert [parent] == ids(await lease(broker))
    found: list[Report] = []
    while page := await broker.reports(QUEUE, parent, after=found[-1].id if found else "", limit=4):
        found += page
    assert sorted(children, key=str.encode) == [report.id for report in found]
    again = [Draft(id, b"", reports_to=parent) for id in children]
    assert {Sent.KEPT} == set(await broker.send(QUEUE, again))


async def test_results_are_found_by_id(broker: RedisBroker) -> None:
    await send(broker, *EVERY)
    ends = [
        Settlement(one.receipt, Archive(), result=one.receipt.id.encode(), keep=60)
        for one in await lease(broker)
    ]
    await broker.settle(QUEUE, ends)

    found = await broker.results(QUEUE, EVERY)

    assert {id: id.encode() for id in EVERY} == {id: one.result for id, one in found.items()}


async def test_they_move_from_queue_to_queue(broker: RedisBroker) -> None:
    await send(broker, *EVERY)
    await broker.send(QUEUE, [Draft("first", b"", priority=5, headers={"a": "b"}, key="k")])
    waiting = await scanned(broker, State.READY)

    assert [] == await broker.adopt("other", waiting)
    assert len(waiting) == len(await broker.adopt("other", waiting))
    assert [] == await broker.expel(QUEUE, waiting)
    assert 0 == (await broker.stats(QUEUE)).live
    assert ["first", *EVERY] == await drained(broker, queue="other")


async def test_what_is_given_back_keeps_its_place_among_them(broker: RedisBroker) -> None:
    await send(broker, *EVERY)
    held = await lease(broker, 5)
    back = [Settlement(one.receipt, Reschedule(front=True)) for one in held[:3]]
    await broker.settle(QUEUE, back)

    assert [*EVERY[:3], *EVERY[5:]] == ids(await lease(broker))


async def test_a_waiting_job_takes_no_byte_more_than_it_needs(
    server: RedisServer, broker: RedisBroker
) -> None:
    """These sizes, with what Redis adds, fit its allocator's classes of 32 bytes: see ADR 0030."""
    made = [new_id() for _ in range(3)]
    await send(broker, made[0])
    await send(broker, *made[1:])

    assert {16} == {len(field) for field in server.ask("HKEYS", key("msg"))}
    assert {12 + 1 + len(b"body")} == {len(msg) for msg in server.ask("HVALS", key("msg"))}
    assert [12 + 16] * 3 == [len(place) for place in server.ask("ZRANGE", key("ready"), 0, -1)]
    for first, second in itertools.pairwise(server.ask("ZRANGE", key("ready"), 0, -1)):
        assert first[:12] < second[:12]
