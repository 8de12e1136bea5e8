"""Everything an inspector shows, held against the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, assert_never

from bee_core.broker import Store
from bee_core.stored import State, Stored
from bee_core.testing.model.messages import Message
from bee_core.testing.model.promises import Model

TOLERANCE = 20.0
"""Seconds by which a time may differ: durations are either far longer, or over at once."""
LIVE = (State.READY, State.DELAYED, State.LEASED)


class Look:
    """One look at a queue after a step. `compare` raises AssertionError at the first difference."""

    def __init__(self, model: Model, store: Store, queue: str, now: float) -> None:
        self._model, self._store, self._queue, self._now = model, store, queue, now

    async def compare(self, ids: Sequence[str], incarnations: dict[int, int]) -> None:
        """Compare counts, messages, ends, reports and holders."""
        await self._compare_counts()
        found: Counter[str] = Counter()
        for state in State:
            expected = self._model.within(state, self._now)
            if not expected:  # the counts have said so
                continue
            items = (await self._store.scan(self._queue, state, limit=1000)).items
            self._compare_messages(state, expected, items, incarnations)
            if state in LIVE:
                found.update(item.id for item in items)
        assert all(times == 1 for times in found.values()), f"in two places: {found}"
        await self._compare_ends(ids)
        await self._compare_holders()

    async def _compare_counts(self) -> None:
        model, now = self._model, self._now
        stats = await self._store.stats(self._queue)
        for state in (*LIVE, State.BLOCKED):
            same(
                f"stats, {state.value}", len(model.within(state, now)), getattr(stats, state.value)
            )
        reasons = Counter(m.note.reason if m.note else "ruled" for m in model.archive)
        same("stats, archived", dict(reasons), {k: n for k, n in stats.archived.items() if n})
        same("stats, created", model.created, stats.created)
        same("stats, paused", model.paused, stats.paused)
        assert stats.token >= model.token, (
            f"stats, token: {stats.token}, but {model.token} was given"
        )
        ready = model.within(State.READY, now)
        oldest = now - min(m.due for m in ready) if ready else None
        _near("stats, oldest_due", oldest, stats.oldest_due)

    def _compare_messages(
        self,
        state: State,
        expected: Sequence[Message],
        items: Sequence[Stored],
        incarnations: dict[int, int],
    ) -> None:
        rest = list(expected)
        found = []
        for item in items:
            message = next((m for m in rest if self._is_it(m, item, incarnations)), None)
            assert message is not None, f"scan, {state.value}: what is this? {item}"
            rest.remove(message)
            found.append(message)
            if state is not State.BLOCKED:  # that has no incarnation of its own yet
                incarnations.setdefault(message.born, item.incarnation)
            self._compare_message(state, message, item)
        same(f"scan, {state.value}: what else should be there", [], rest)
        places = _places(state, found)
        same(f"scan, {state.value}: the order", sorted(places), places)

    def _is_it(self, message: Message, item: Stored, incarnations: dict[int, int]) -> bool:
        """Whether they are the same life of one id: told by the incarnation, once it is known."""
        known = incarnations.get(message.born)
        if known is None:
            return item.id == message.id and item.incarnation not in incarnations.values()
        return item.id == message.id and item.incarnation == known

    def _compare_message(self, state: State, message: Message, item: Stored) -> None:
        what = f"{state.value} {message.id!r}"
        same(what, _shown(message, state), _shown(item, item.state))
        _near(f"{what}, sent_at", message.sent_at, item.sent_at)
        _near(f"{what}, due_at", message.due, item.due_at)
        _near(f"{what}, archived_at", message.archived_at, item.archived_at)
        until = message.leased_until if state is State.LEASED else None
        _near(f"{what}, leased_until", until, item.leased_until)
        since = message.leased_at if message.token is not None else None
        _near(f"{what}, leased_at", since, item.leased_at)

    async def _compare_ends(self, ids: Sequence[str]) -> None:
        if self._model.kept:
            kept = await self._store.results(self._queue, ids)
            same("results", self._model.results(self._now), dict(kept))
        for id in ids:
            expected = self._model.heard.get(id, {})
            message = self._model.live.get(id)
            if expected or (message is not None and message.awaits):
                heard = await self._store.reports(self._queue, id)
                same(f"reports to {id!r}", [expected[by] for by in sorted(expected)], list(heard))

    async def _compare_holders(self) -> None:
        leased = self._model.within(State.LEASED, self._now)
        if leased:
            expected = sorted(Counter(str(m.holder) for m in leased).items())
            workers = await self._store.workers(self._queue)
            same("workers", expected, [(w.name, w.leases) for w in workers])


def _shown(one: Message | Stored, state: State) -> tuple[Any, ...]:
    """What is to be the same to the letter."""
    return (
        state,
        one.body,
        dict(one.headers),
        one.priority,
        one.counters,
        one.note,
        one.key,
        one.awaits,
        one.reports_to,
        one.holder,
        one.token,
    )


def _places(state: State, found: Sequence[Message]) -> list[Any]:
    """What grows from one message to the next in the order of `scan`, as far as it is promised."""
    match state:
        case State.READY:  # those with a key may have been passed over
            return [message.place for message in found if message.key is None]
        case State.DELAYED:  # within each priority
            return [message.place for message in sorted(found, key=lambda one: -one.priority)]
        case State.LEASED:
            return [message.leased_until for message in found]
        case State.BLOCKED:
            return [message.id for message in found]
        case State.ARCHIVED:
            return [-(message.archived_at or 0.0) for message in found]
        case _:
            assert_never(state)


def same(what: str, expected: object, actual: object) -> None:
    assert expected == actual, f"{what}:\n  promised {expected}\n  found    {actual}"


def _near(what: str, expected: float | None, actual: float | None) -> None:
    if expected is None or actual is None:
        same(what, expected, actual)
    else:
        assert abs(expected - actual) < TOLERANCE, f"{what}: promised {expected}, found {actual}"
