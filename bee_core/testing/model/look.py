"""Everything an inspector shows, held against the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from bee_core.broker import Store
from bee_core.stored import State, Stored
from bee_core.testing.model.promises import Message, Model

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
            same(f"stats, {state.value}", len(model.within(state, now)), getattr(stats, state.value))
        reasons = Counter(m.note.reason if m.note else "ruled" for m in model.archive)
        same("stats, archived", dict(reasons), {k: n for k, n in stats.archived.items() if n})
        same("stats, created", model.created, stats.created)
        same("stats, paused", model.paused, stats.paused)
        assert stats.token >= model.token, f"stats, token: {stats.token}, but {model.token} was given"
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
        by_id = {(item.id, item.incarnation): item for item in items}
        assert len(by_id) == len(items), f"scan, {state.value}: something comes twice: {items}"
        order = _without_keys(items) if state is State.READY else [item.id for item in items]
        same(f"scan, {state.value}: the order", _ordered(expected, state, order), order)
        rest = list(items)
        for message in expected:
            item = next((i for i in rest if self._is_it(message, i, incarnations)), None)
            assert item is not None, f"scan, {state.value}: no {message.id!r} in {rest}"
            rest.remove(item)
            incarnations.setdefault(message.born, item.incarnation)
            self._compare_message(state, message, item)
        same(f"scan, {state.value}: what else is there", [], rest)

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


def _without_keys(items: Sequence[Stored]) -> list[str]:
    """The ids of ready messages; but those with a key may have been passed over."""
    return [item.id for item in items if item.key is None]


def _ordered(expected: Sequence[Message], state: State, seen: Sequence[str]) -> list[str]:
    """The ids in the order that `scan` is to have. In one call, messages are archived at once."""
    if state is State.READY:
        return [message.id for message in expected if message.key is None]
    ids = [message.id for message in expected]
    if state is not State.ARCHIVED:
        return ids
    moments = [message.archived_at for message in expected]
    place = {id: n for n, id in enumerate(seen)}
    together = sorted(range(len(ids)), key=lambda n: (-(moments[n] or 0.0), place.get(ids[n], n)))
    return [ids[n] for n in together]


def same(what: str, expected: object, actual: object) -> None:
    assert expected == actual, f"{what}:\n  promised {expected}\n  found    {actual}"


def _near(what: str, expected: float | None, actual: float | None) -> None:
    if expected is None or actual is None:
        same(what, expected, actual)
    else:
        assert abs(expected - actual) < TOLERANCE, f"{what}: promised {expected}, found {actual}"

