"""One run: each step is done on the broker and on the model, and what they answer is compared.

A difference is an AssertionError. What was met on the way is counted, so that a run that has met
nothing cannot pass for a good one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from bee_core.disposition import Delete, Reschedule, Terminal
from bee_core.errors import IdTaken, OutcomeUnknown
from bee_core.message import Draft, Lease, Receipt, Settlement, Throttle
from bee_core.testing.faults import FaultyBroker
from bee_core.testing.model.look import Look, same
from bee_core.testing.model.promises import Message, Model
from bee_core.testing.model.steps import IDS, LONG, NOBODY
from bee_core.testing.model.subject import MOMENT, Subject

T = TypeVar("T")


class Driver:
    """A queue of the store, its model, and every receipt that was ever given out."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.model = Model()
        self.receipts: list[Receipt] = []
        self.throttle = Throttle()
        self._incarnations: dict[int, int] = {}
        self._tally = subject.tally

    async def begin(self, throttle: Throttle) -> None:
        """An empty queue, and one throttle for all who lease."""
        self._tally["runs"] += 1
        self.throttle = throttle
        await self.subject.store.drop(self.subject.queue)
        self.model.token = (await self.subject.store.stats(self.subject.queue)).token

    async def send(self, client: int, drafts: Sequence[Draft], is_lost: bool = False) -> None:
        """Send drafts; if the answer is lost, once more."""
        for _ in self._times("send", client, is_lost):
            now = self.subject.now()
            taken = self.model.taken(drafts)
            expected = sorted(taken) or self.model.send(drafts, now)
            found = await self._ask(client, lambda b: _send(b, self.subject.queue, drafts))
            self._compare("send", expected, found)
        self._tally["messages sent"] += len(drafts)
        await self._let_pass(draft.delay for draft in drafts)

    async def lease(self, client: int, limit: int, duration: float, is_lost: bool = False) -> None:
        """Lease messages. If the answer is lost nobody knows that he holds them."""
        holder = f"client-{client}"
        [_] = self._times("lease", client, is_lost, again=False)
        before = {id: m.token for id, m in self.model.live.items() if m.token is not None}
        now = self.subject.now()
        expected = self.model.lease(limit, duration, holder, self.throttle.per_key, now)
        leases = await self._ask(
            client,
            lambda b: b.lease(
                self.subject.queue,
                limit=limit,
                duration=duration,
                holder=holder,
                throttle=self.throttle,
            ),
        )
        if leases is None:
            tokens = {m.id: await self._token_of(m.id) for m in expected}
        else:
            same("lease", [_leased(m) for m in expected], [_delivered(one) for one in leases])
            tokens = {one.receipt.id: one.receipt.token for one in leases}
            self.receipts += [one.receipt for one in leases]
        self.model.give({m.id: m for m in expected}, tokens)
        self._tally["messages leased"] += len(expected)
        self._tally["leases taken over"] += sum(m.id in before for m in expected)
        await self._let_pass([duration])

    async def extend(
        self, client: int, receipts: Sequence[Receipt], duration: float, is_lost: bool = False
    ) -> None:
        """Extend leases, current or not."""
        self._count(receipts, "extended")
        for _ in self._times("extend", client, is_lost):
            expected = self.model.extend(receipts, duration, self.subject.now())
            found = await self._ask(
                client, lambda b: b.extend(self.subject.queue, receipts, duration=duration)
            )
            self._compare("extend: the lost", expected, found)
        await self._let_pass([duration])

    async def settle(
        self, client: int, settlements: Sequence[Settlement], is_lost: bool = False
    ) -> None:
        """Settle leases, current or not; whoever does it a second time is told that it is lost."""
        self._count([settlement.receipt for settlement in settlements], "settled")
        for _ in self._times("settle", client, is_lost):
            expected = self.model.settle(settlements, self.subject.now())
            found = await self._ask(client, lambda b: b.settle(self.subject.queue, settlements))
            self._compare("settle: the lost", expected, found)
        for one in settlements:
            way = one.disposition
            delay = way.delay if isinstance(way, Reschedule) else 0.0
            await self._let_pass([one.keep, delay, *(draft.delay for draft in one.then)])

    async def cancel(
        self, client: int, ids: Sequence[str], to: Terminal, running: bool, is_lost: bool = False
    ) -> None:
        """Cancel messages, there or not."""
        for _ in self._times("cancel", client, is_lost):
            expected = self.model.cancel(ids, to, running, self.subject.now())
            found = await self._ask(
                client, lambda b: b.cancel(self.subject.queue, ids, to=to, running=running)
            )
            self._compare("cancel: the missing", expected, found)
        self._tally["cancels"] += 1

    async def restore(self, client: int, ids: Sequence[str], is_lost: bool = False) -> None:
        """Restore messages, archived or not."""
        for _ in self._times("restore", client, is_lost):
            expected = self.model.restore(ids, self.subject.now())
            found = await self._ask(client, lambda b: b.restore(self.subject.queue, ids))
            self._compare("restore: the missing", expected, found)
        self._tally["messages restored"] += len(ids) - len(expected)

    async def operate(self, what: str) -> None:
        """What an operator does to a queue as a whole."""
        store, queue = self.subject.store, self.subject.queue
        match what:
            case "pause":
                self.model.paused = True
                await store.pause(queue)
            case "resume":
                self.model.paused = False
                await store.resume(queue)
            case "purge":
                same("purge", self.model.purge(), await store.purge(queue))
            case "prune":
                expected = self.model.prune(100.0, self.subject.now())
                same("prune", expected, await store.prune(queue, older_than=100.0))
            case "prune all":
                expected = self.model.prune(0.0, self.subject.now())
                same("prune", expected, await store.prune(queue))
            case "drop":
                self.model.drop()
                await store.drop(queue)
            case _:
                raise ValueError(what)

    async def look(self) -> None:
        """Everything is as the model says."""
        self._tally["steps"] += 1
        look = Look(self.model, self.subject.store, self.subject.queue, self.subject.now())
        await look.compare(IDS, self._incarnations)

    async def work_off(self) -> None:
        """Nothing is stuck: when all that is delayed is due, and every lease ran out, all is given."""
        await self.operate("resume")
        if self.subject.can_be_moved:
            await self.subject.advance(2 * LONG)
        held = [Receipt(m.id, m.token) for m in self.model.live.values() if m.token is not None]
        await self.extend(0, held or [NOBODY], MOMENT)
        before = len(self.receipts) - 1
        while before < len(self.receipts):
            before = len(self.receipts)
            await self.lease(0, 2, LONG)
            for receipt in self.receipts[before:]:
                await self.settle(0, [Settlement(receipt, Delete())])
        await self.look()

    # How a call is made, and what its answer is compared with.

    def _times(
        self, verb: str, client: int, is_lost: bool, again: bool = True
    ) -> Iterable[int]:
        """Once; or, if the answer is to be lost, once more."""
        if not is_lost:
            return range(1)
        self._tally["answers lost"] += 1
        self.subject.clients[client].lose_answer(verb)
        return range(2 if again else 1)

    async def _ask(self, client: int, call: Callable[[FaultyBroker], Awaitable[T]]) -> T | None:
        """The answer, or None if it was lost."""
        try:
            return await call(self.subject.clients[client])
        except OutcomeUnknown:
            return None

    def _compare(self, what: str, expected: object, found: object) -> None:
        if found is not None:
            same(what, expected, found)

    async def _token_of(self, id: str) -> int:
        """The token that was given, though the answer was lost."""
        shown = await self.subject.store.get(self.subject.queue, id)
        assert shown is not None, f"{id!r} is gone"
        assert shown.token is not None, f"{id!r} should be leased: {shown}"
        return shown.token

    def _count(self, receipts: Sequence[Receipt], verb: str) -> None:
        """Which kinds of receipts are shown."""
        now = self.subject.now()
        for receipt in receipts:
            message = self.model.held(receipt)
            if message is not None:
                late = message.leased_until <= now
                self._tally[f"{verb} late" if late else f"{verb} in time"] += 1
            elif receipt in self.receipts:
                self._tally[f"{verb} though lost"] += 1
            else:
                self._tally[f"{verb} with a forged receipt"] += 1

    async def _let_pass(self, durations: Iterable[float]) -> None:
        """A moment is over before the next step begins."""
        if MOMENT in durations:
            await self.subject.advance(MOMENT)


async def _send(broker: FaultyBroker, queue: str, drafts: Sequence[Draft]) -> list[object]:
    """What was done with each, or the ids that were taken."""
    try:
        return list(await broker.send(queue, drafts))
    except IdTaken as error:
        return sorted(error.ids)


def _leased(message: Message) -> tuple[object, ...]:
    headers = dict(message.headers)
    about = (message.key, message.reports_to)
    return (message.id, message.body, headers, message.counters, *about)


def _delivered(lease: Lease) -> tuple[object, ...]:
    about = (lease.key, lease.reports_to)
    return (lease.receipt.id, lease.body, dict(lease.headers), lease.counters, *about)
