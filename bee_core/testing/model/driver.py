"""One run: each step is done on the broker and on the model, and what they answer is compared.

A difference is an AssertionError. What was met on the way is counted, so that a run that has met
nothing cannot pass for a good one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar, assert_never

from bee_core.disposition import Delete, Reschedule
from bee_core.errors import IdTaken, OutcomeUnknown
from bee_core.message import Draft, Lease, Receipt, Settlement, Throttle
from bee_core.stored import State
from bee_core.testing.faults import FaultyBroker
from bee_core.testing.model.look import Look, same
from bee_core.testing.model.messages import Message
from bee_core.testing.model.promises import Model
from bee_core.testing.model.steps import (
    IDS,
    LONG,
    Call,
    Cancel,
    Crash,
    Disturb,
    Extend,
    Operate,
    Operation,
    Pass,
    Restore,
    Send,
    Settle,
    Step,
    Take,
    apart,
    chosen,
    in_one_moment,
    plain,
    plain_ends,
    settlements,
)
from bee_core.testing.model.subject import MOMENT, Subject

T = TypeVar("T")
_BY_ONE = Call(client=0, is_lost=False)


class Driver:
    """A queue of the store, its model, and every receipt that was ever given out."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.model = Model()
        self.receipts: list[Receipt] = []
        self.throttle = Throttle()
        self._is_plain = False
        self._incarnations: dict[int, int] = {}
        self._tally = subject.tally

    async def begin(self, throttle: Throttle, is_plain: bool) -> None:
        """An empty queue, one throttle for all who lease, and either plain messages or any."""
        self._is_plain = is_plain
        self._tally["runs"] += 1
        self.throttle = throttle
        await self.subject.begin()
        self.model.token = (await self.subject.store.stats(self.subject.queue)).token

    async def do(self, step: Step) -> None:
        """Take a step, and look at everything."""
        self._tally["steps"] += 1
        match step:
            case Send():
                await self._send(step)
            case Take():
                await self._lease(step)
            case Extend():
                await self._extend(step, chosen(step.which, self.receipts))
            case Settle():
                receipts = chosen(step.which, self.receipts)
                ends = plain_ends(step.endings) if self._is_plain else step.endings
                await self._settle(step, settlements(receipts, ends))
            case Cancel():
                await self._cancel(step, apart(step.ids))
            case Restore():
                await self._restore(step)
            case Operate():
                await self._operate(step.what)
            case Crash():
                self._tally["crashes"] += 1
                await self.subject.crash(step.client)
            case Pass():
                self._tally["moves of the clock"] += await self.subject.move(step.seconds)
            case Disturb():
                self._tally["disturbances"] += await self.subject.disturb()
            case _:
                assert_never(step)
        await self._look()

    async def _send(self, step: Send) -> None:
        drafts = in_one_moment(plain(step.drafts) if self._is_plain else step.drafts)
        self._tally["drafts of a live id"] += sum(d.id in self.model.live for d in drafts)
        for _ in self._times("send", step):
            taken = self.model.taken(drafts)
            expected = sorted(taken) or self.model.send(drafts, self.subject.now())
            found = await self._ask(step, lambda b: _send(b, self.subject.queue, drafts))
            self._compare("send", expected, found)
        self._tally["drafts sent"] += len(drafts)
        await self._let_pass(draft.delay for draft in drafts)

    async def _lease(self, step: Take) -> None:
        """Lease messages. If the answer is lost nobody knows that he holds them."""
        holder = f"client-{step.client}"
        [_] = self._times("lease", step, again=False)
        now = self.subject.now()
        lapsed = {id for id, m in self.model.live.items() if m.token is not None}
        blocked = len(self.model.within(State.BLOCKED, now))
        expected = self.model.lease(step.limit, step.duration, holder, self.throttle.per_key, now)
        leases = await self._ask(
            step,
            lambda b: b.lease(
                self.subject.queue,
                limit=step.limit,
                duration=step.duration,
                holder=holder,
                throttle=self.throttle,
            ),
        )
        if leases is None:
            tokens = {m.id: await self._token_of(m.id) for m in expected}
        else:
            promised = [_leased(m) for m in expected]
            found = [_delivered(one) for one in leases]
            if blocked > len(self.model.within(State.BLOCKED, now)):
                # One that was merged in this very call stands where it stood, or where it does now.
                promised, found = sorted(promised, key=_first), sorted(found, key=_first)
            same("lease", promised, found)
            tokens = {one.receipt.id: one.receipt.token for one in leases}
            self.receipts += [one.receipt for one in leases]
        self.model.give({m.id: m for m in expected}, tokens)
        self._tally["messages leased"] += len(expected)
        self._tally["leases with a key"] += sum(m.key is not None for m in expected)
        self._tally["leases taken over"] += sum(m.id in lapsed for m in expected)
        await self._let_pass([step.duration])

    async def _extend(self, step: Extend, receipts: Sequence[Receipt]) -> None:
        self._count(receipts, "extended")
        for _ in self._times("extend", step):
            expected = self.model.extend(receipts, step.duration, self.subject.now())
            found = await self._ask(
                step, lambda b: b.extend(self.subject.queue, receipts, duration=step.duration)
            )
            self._compare("extend: the lost", expected, found)
        await self._let_pass([step.duration])

    async def _settle(self, step: Call, settlements: Sequence[Settlement]) -> None:
        self._count([settlement.receipt for settlement in settlements], "settled")
        for _ in self._times("settle", step):
            expected = self.model.settle(settlements, self.subject.now())
            found = await self._ask(step, lambda b: b.settle(self.subject.queue, settlements))
            self._compare("settle: the lost", expected, found)
        self._tally["reports heard"] += sum(len(heard) for heard in self.model.heard.values())
        await self._let_pass(duration for one in settlements for duration in _durations(one))

    async def _cancel(self, step: Cancel, ids: Sequence[str]) -> None:
        for _ in self._times("cancel", step):
            expected = self.model.cancel(ids, step.to, step.running, self.subject.now())
            found = await self._ask(
                step,
                lambda b: b.cancel(self.subject.queue, ids, to=step.to, running=step.running),
            )
            self._compare("cancel: the missing", expected, found)
        self._tally["cancelled"] += len(ids) - len(expected)

    async def _restore(self, step: Restore) -> None:
        for _ in self._times("restore", step):
            expected = self.model.restore(step.ids, self.subject.now())
            found = await self._ask(step, lambda b: b.restore(self.subject.queue, step.ids))
            self._compare("restore: the missing", expected, found)
        self._tally["restored"] += len(step.ids) - len(expected)

    async def _operate(self, what: Operation) -> None:
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
                assert_never(what)

    async def _look(self) -> None:
        look = Look(self.model, self.subject.store, self.subject.queue, self.subject.now())
        await look.compare(IDS, self._incarnations)

    async def work_off(self) -> None:
        """Nothing is stuck: with every delay over, and every lease, all is given out at last."""
        await self._operate("resume")
        await self.subject.move(2 * LONG)
        held = [Receipt(m.id, m.token) for m in self.model.live.values() if m.token is not None]
        await self._extend(Extend(0, False, [], MOMENT), held)
        before = -1
        while before < len(self.receipts):
            before = len(self.receipts)
            await self._lease(Take(0, False, 2, LONG))
            for receipt in self.receipts[before:]:
                await self._settle(_BY_ONE, [Settlement(receipt, Delete())])
        await self._look()
        self._tally["runs worked off"] += 1

    # How a call is made, and what its answer is compared with.

    def _times(self, verb: str, step: Call, again: bool = True) -> Iterable[int]:
        """Once; or, if the answer is to be lost, once more."""
        if not step.is_lost:
            return range(1)
        self._tally["answers lost"] += 1
        self.subject.clients[step.client].lose_answer(verb)
        return range(2 if again else 1)

    async def _ask(self, step: Call, call: Callable[[FaultyBroker], Awaitable[T]]) -> T | None:
        """The answer, or None if it was lost."""
        try:
            return await call(self.subject.clients[step.client])
        except OutcomeUnknown:
            if not step.is_lost:
                raise
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


async def _send(broker: FaultyBroker, queue: str, drafts: Sequence[Draft]) -> Sequence[object]:
    """What was done with each, or the ids that were taken."""
    try:
        return list(await broker.send(queue, drafts))
    except IdTaken as error:
        return sorted(error.ids)


def _first(one: tuple[object, ...]) -> str:
    return str(one[0])


def _leased(message: Message) -> tuple[object, ...]:
    headers = dict(message.headers)
    about = (message.key, message.reports_to)
    return (message.id, message.body, headers, message.counters, *about)


def _delivered(lease: Lease) -> tuple[object, ...]:
    about = (lease.key, lease.reports_to)
    return (lease.receipt.id, lease.body, dict(lease.headers), lease.counters, *about)


def _durations(settlement: Settlement) -> Iterable[float]:
    """All that are in it."""
    way = settlement.disposition
    yield way.delay if isinstance(way, Reschedule) else 0.0
    yield settlement.keep
    yield from (draft.delay for draft in settlement.then)
