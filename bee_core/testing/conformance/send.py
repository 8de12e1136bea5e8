"""`send`: what is stored comes back as it was, under its own id, in its own queue."""

from __future__ import annotations

from types import MappingProxyType

from bee_core.disposition import Archive
from bee_core.message import ZERO, Sent
from bee_core.stored import State
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.steps import (
    LONG,
    SHORT,
    Counts,
    counts,
    draft,
    end,
    ids,
    lease,
    lease_one,
    look,
    send,
)

ODD_IDS = [
    "with space",
    " ",
    "a",
    "A",
    "a ",
    " a",
    "a:b",
    "a{b}",
    "{a}",
    "a*",
    "a?[b-c]",
    "a%b_c",
    "it's",
    'say "hi"',
    "back\\slash",
    "a;drop table x;--",
    "$1",
    "{0}",
    "null",
    "0",
    "00",
    "-1",
    "é",  # one code point, and the same letter as two: these are different ids
    "e\u0301",
    "ünïcødé",
    "日本",
    "🐝",
    "\u00a0",
    "🐝" * 200,
]


class Sending(Conformance):
    """A message goes in, and the same message comes out."""

    async def test_a_sent_message_can_be_leased(self) -> None:
        async with self.harness() as h:
            sent = await send(h, draft(h, "a", b"hello"))

            leases = await lease(h)

            assert [Sent.CREATED] == sent
            assert [("a", b"hello")] == [(one.receipt.id, one.body) for one in leases]

    async def test_a_new_message_is_ready_and_has_no_history(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"hello", priority=3, headers={"k": "v"}))

            stored = await look(h, "a")

            assert ("a", State.READY, b"hello", 3) == (
                stored.id,
                stored.state,
                stored.body,
                stored.priority,
            )
            assert {"k": "v"} == dict(stored.headers)
            assert ZERO == stored.counters
            assert (None, None, None, None) == (
                stored.holder,
                stored.leased_until,
                stored.note,
                stored.archived_at,
            )

    async def test_a_delayed_message_is_hidden_until_it_is_due(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "soon", after=SHORT), draft(h, "late", after=LONG))

            before = await counts(h)
            await h.advance(2 * SHORT)
            leases = await lease(h)

            assert Counts(delayed=2) == before
            assert ["soon"] == ids(leases)

    async def test_a_message_is_due_its_delay_after_it_was_sent(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", after=LONG), "b")

            delayed, at_once = await look(h, "a"), await look(h, "b")

            assert 1 > abs(delayed.due_at - delayed.sent_at - LONG * h.unit) / h.unit
            assert 1 > abs(at_once.due_at - at_once.sent_at) / h.unit

    async def test_a_delay_may_be_a_fraction_of_a_second(self) -> None:
        async with self.harness() as h:
            await h.broker.send(h.queue, [draft(h, "a", after=0.5)])

            stored = await look(h, "a")

            assert 0.1 > abs(stored.due_at - stored.sent_at - 0.5 * h.unit) / h.unit

    async def test_sending_an_id_again_changes_nothing_and_says_so(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"first", headers={"n": "1"}), "b")

            again = draft(h, "a", b"second", after=LONG, priority=9, headers={"n": "2"})
            sent = await send(h, again)
            leases = await lease(h)

            assert [Sent.KEPT] == sent
            assert ["a", "b"] == ids(leases)
            assert (b"first", {"n": "1"}) == (leases[0].body, dict(leases[0].headers))

    async def test_an_id_that_is_held_is_still_taken(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)

            sent = await send(h, draft(h, "a", b"second"))

            assert [Sent.KEPT] == sent
            assert Counts(leased=1) == await counts(h)
            assert await end(h, held)
            assert Counts() == await counts(h)

    async def test_a_delayed_id_is_taken(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", after=LONG))

            sent = await send(h, "a")

            assert [Sent.KEPT] == sent
            assert Counts(delayed=1) == await counts(h)

    async def test_a_batch_says_for_each_draft_what_was_done(self) -> None:
        async with self.harness() as h:
            await send(h, "b")

            sent = await send(h, "a", "b", "c")

            assert [Sent.CREATED, Sent.KEPT, Sent.CREATED] == sent
            assert ["b", "a", "c"] == ids(await lease(h))

    async def test_an_id_is_free_again_once_its_message_is_gone(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await end(h, await lease_one(h))

            sent = await send(h, draft(h, "a", b"second"))

            assert [Sent.CREATED] == sent
            assert b"second" == (await lease_one(h)).body

    async def test_an_id_is_free_again_once_its_message_is_archived(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await end(h, await lease_one(h), Archive())

            sent = await send(h, draft(h, "a", b"second"))

            assert [Sent.CREATED] == sent
            assert b"second" == (await lease_one(h)).body

    async def test_each_life_of_an_id_has_a_greater_incarnation(self) -> None:
        async with self.harness() as h:
            lives = []

            for _ in range(3):
                await send(h, "a")
                lives.append((await look(h, "a")).incarnation)
                await end(h, await lease_one(h))

            assert sorted(set(lives)) == lives

    async def test_bodies_come_back_byte_for_byte(self) -> None:
        bodies = {
            "empty": b"",
            "nul": b"\x00",
            "nuls": b"a\x00b\x00",
            "not utf-8": b"\xff\xfe\xc0\x80",
            "every byte": bytes(range(256)),
            "escapes": b"\\x00 \\n '\" {} %s $1",
            "lines": b"\r\n\n\r",
            "large": bytes(range(256)) * 1024,
        }
        async with self.harness() as h:
            await send(h, *(draft(h, id, body) for id, body in bodies.items()))

            stored = {id: (await look(h, id)).body for id in bodies}
            leased = {one.receipt.id: one.body for one in await lease(h)}

            assert bodies == stored
            assert bodies == leased

    async def test_headers_may_be_any_mapping(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", headers=MappingProxyType({"k": "v"})))

            assert {"k": "v"} == dict((await lease_one(h)).headers)

    async def test_headers_come_back_as_they_were(self) -> None:
        headers = {
            "": "",
            "nul": "a\x00b",
            "k": "v",
            "K": "V",
            "quote": "\"'\\",
            "lines": "a\r\nb",
            "日本": "🐝",
        }
        headers |= {f"k{n}": "x" * n for n in range(50)}
        async with self.harness() as h:
            await send(h, draft(h, "a", headers=headers), "b")

            stored = await look(h, "a")
            first, second = await lease(h)

            assert headers == dict(stored.headers)
            assert headers == dict(first.headers)
            assert {} == dict(second.headers)

    async def test_a_message_does_not_change_with_the_mapping_it_was_made_from(self) -> None:
        async with self.harness() as h:
            headers = {"k": "v"}
            await send(h, draft(h, "a", headers=headers))

            headers["k"] = "changed"

            assert {"k": "v"} == dict((await lease_one(h)).headers)

    async def test_any_text_can_be_an_id(self) -> None:
        async with self.harness() as h:
            sent = await send(h, *(draft(h, id, id.encode()) for id in ODD_IDS))

            leases = await lease(h)
            found = [(await look(h, id)).body.decode() for id in ODD_IDS]
            applied = [await end(h, one) for one in leases]

            assert [Sent.CREATED] * len(ODD_IDS) == sent
            assert ODD_IDS == ids(leases)
            assert ODD_IDS == [one.body.decode() for one in leases]
            assert ODD_IDS == found
            assert all(applied)
            assert Counts() == await counts(h)

    async def test_the_same_id_lives_in_two_queues_apart(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"here"))

            (there,) = await h.broker.send(h.other_queue, [draft(h, "a", b"there")])
            await end(h, await lease_one(h))
            stored = await h.broker.get(h.other_queue, "a")

            assert Sent.CREATED is there
            assert stored is not None
            assert b"there" == stored.body
            assert Counts() == await counts(h)
            assert Counts(ready=1) == await counts(h, h.other_queue)

    async def test_queues_whose_names_begin_alike_stay_apart(self) -> None:
        async with self.harness() as h:
            names = [h.queue + end for end in ("", "-", "_", "-a", "_a", "a", "-archive", "-1")]
            for name in names:
                await h.broker.send(name, [draft(h, "a", name.encode()), draft(h, "1")])

            await h.broker.purge(names[3])
            await h.broker.drop(names[0])
            left = {name: await counts(h, name) for name in names}

            assert left == {
                name: Counts(ready=0 if name in (names[0], names[3]) else 2) for name in names
            }
            for name in names[1:]:
                stored = await h.broker.get(name, "a")
                assert (name == names[3]) == (stored is None)
                assert stored is None or name.encode() == stored.body

    async def test_a_large_batch_is_stored_whole_and_in_order(self) -> None:
        async with self.harness() as h:
            wanted = [f"{(n * 7919) % 1000}" for n in range(1000)]

            sent = await send(h, *wanted)

            assert [Sent.CREATED] * 1000 == sent
            assert wanted == ids(await lease(h, 1000))
