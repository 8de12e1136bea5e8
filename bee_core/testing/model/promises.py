"""What a broker promises, as a model: a dictionary of messages, and what each verb does to it.

Written from `bee_core.broker`, apart from every broker, and for reading: no locks, no heaps, no
clock. Who asks says what time it is, by the store's clock. Tokens are the store's to choose:
`lease` says which messages are to be given out, and `give` writes down the tokens that came: all
greater than any before.

Left to the conformance suite: rates, progress, remarks and history, announcements, `adopt` and
`expel`, waiting, paging, what is refused, what concurrent calls do to each other; and throttles
that differ: what was passed over with one may be looked at later with another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from bee_core.disposition import Archive, Delete, Disposition, Reschedule, Terminal
from bee_core.message import (
    Counters,
    Draft,
    Keep,
    Note,
    Receipt,
    Reject,
    Report,
    Sent,
    Settlement,
    Update,
)
from bee_core.stored import State
from bee_core.testing.model.messages import Message, both, merge

UNKNOWN = 0
"""The token of a message that was just leased, until the store has said which it is."""


class Model:
    """One queue."""

    def __init__(self) -> None:
        self.live: dict[str, Message] = {}
        self.archive: list[Message] = []  # oldest first
        self.heard: dict[str, dict[str, Report]] = {}  # to whom: by whom: what
        self.kept: dict[str, tuple[float, Report]] = {}  # until when: what
        self.paused = False
        self.created = 0
        self.token = 0  # the greatest that was given
        self._number = 0

    # What an inspector sees.

    def within(self, state: State, now: float) -> list[Message]:
        """The messages in one state, those that wait in the order they will be leased."""
        match state:
            case State.ARCHIVED:
                return self.archive
            case State.BLOCKED:
                return [m.successor for m in self.live.values() if m.successor is not None]
            case State.READY | State.DELAYED | State.LEASED:
                found = [m for m in self.live.values() if m.state(now) is state]
                return sorted(found, key=lambda m: m.place)
            case _:
                assert_never(state)

    def results(self, now: float) -> dict[str, Report]:
        """The ends that are to be kept still."""
        return {id: end for id, (until, end) in self.kept.items() if until > now}

    def held(self, receipt: Receipt) -> Message | None:
        """The message that a receipt holds. The token decides, not the clock."""
        message = self.live.get(receipt.id)
        return message if message is not None and message.token == receipt.token else None

    # The verbs.

    def taken(self, drafts: Iterable[Draft]) -> list[str]:
        """The ids for whose sake a send is refused as a whole."""
        return [d.id for d in drafts if isinstance(d.if_taken, Reject) and d.id in self.live]

    def send(self, drafts: Iterable[Draft], now: float) -> list[Sent]:
        """Store drafts, in their order, and say for each what was done."""
        return [self._send(draft, now) for draft in drafts]

    def lease(
        self, limit: int, duration: float, holder: str, per_key: int | None, now: float
    ) -> list[Message]:
        """Take up to `limit` messages, one after the other. Their tokens are still to be given."""
        leased: list[Message] = []
        while len(leased) < limit and not self.paused:
            ready = [m for m in self.within(State.READY, now) if self._is_admitted(m, per_key)]
            if not ready:
                break
            message = ready[0]
            if message.token is not None:  # its lease ran out: take it over
                message.counters += Counters(stalls=1)
                if message.successor is not None:
                    self._return(message, message.due, message.number)
                    continue
            message.counters += Counters(deliveries=1)
            message.token, message.holder = UNKNOWN, holder
            message.leased_at, message.leased_until = now, now + duration
            leased.append(message)
        return leased

    def give(self, leased: Mapping[str, Message], tokens: Mapping[str, int]) -> None:
        """Write down the tokens of messages that were just leased: none as low as one before."""
        given = sorted(tokens.values())
        assert leased.keys() == tokens.keys(), f"leased: {sorted(leased)}, with a token: {tokens}"
        assert len(set(given)) == len(given), f"a token was given twice: {tokens}"
        assert all(token > self.token for token in given), f"not above {self.token}: {tokens}"
        for id, token in tokens.items():
            leased[id].token = token
            self.token = max(self.token, token)

    def extend(self, receipts: Iterable[Receipt], duration: float, now: float) -> set[Receipt]:
        """Hide held messages until then. Return the lost receipts."""
        lost = set()
        for receipt in receipts:
            message = self.held(receipt)
            if message is None:
                lost.add(receipt)
            else:
                message.leased_until = now + duration
        return lost

    def settle(self, settlements: Iterable[Settlement], now: float) -> set[Receipt]:
        """End leases. Return the lost receipts: what they name is not touched."""
        lost = set()
        for settlement in settlements:
            message = self.held(settlement.receipt)
            if message is None:
                lost.add(settlement.receipt)
                continue
            message.counters += settlement.counters
            message.note = settlement.note or message.note
            self._dispose(message, settlement, now)
            self.send(settlement.then, now)
        return lost

    def cancel(self, ids: Iterable[str], to: Terminal, running: bool, now: float) -> set[str]:
        """End messages, or only the successors of leased ones. Return what had none to end."""
        missing = set()
        for id in ids:
            message = self.live.get(id)
            if message is None:
                missing.add(id)
            elif message.token is None or running:
                message.note = Note("cancelled")
                self._end(message, to, b"", 0.0, now)
            elif message.successor is not None:
                message.successor.note = Note("cancelled")
                self._put_away(message.successor, to, now)
                message.successor = None
            else:
                missing.add(id)
        return missing

    def restore(self, ids: Iterable[str], now: float) -> set[str]:
        """Bring back what was archived last of each id. Return what was not restored."""
        missing = set()
        for id in ids:
            found = [m for m in self.archive if m.id == id]
            if not found or id in self.live:
                missing.add(id)
                continue
            self.archive = [m for m in self.archive if m is not found[-1]]
            self.created += 1
            self.live[id] = self._arrive(found[-1], now)
        return missing

    def prune(self, older_than: float, now: float) -> int:
        """Delete what was archived that long ago. Return how many."""
        archive = self.archive
        self.archive = [m for m in archive if (m.archived_at or 0.0) > now - older_than]
        for message in archive:
            self._forget(message.id)
        return len(archive) - len(self.archive)

    def purge(self) -> int:
        """Delete everything that waits. Return how many."""
        waiting = [m for m in self.live.values() if m.token is None]
        blocking = [m for m in self.live.values() if m.successor is not None]
        for message in waiting:
            del self.live[message.id]
            self._forget(message.id)
        for message in blocking:
            message.successor = None
        return len(waiting) + len(blocking)

    def drop(self) -> None:
        """Delete all there is; but tokens go on growing."""
        token, number = self.token, self._number
        self.__init__()  # type: ignore[misc]
        self.token, self._number = token, number

    # The steps that they share.

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _is_admitted(self, message: Message, per_key: int | None) -> bool:
        """Whether its key, if it has one, lets it be leased. One that ran out holds it itself."""
        if message.key is None or per_key is None or message.token is not None:
            return True
        holders = [m for m in self.live.values() if m.key == message.key and m.token is not None]
        return len(holders) < per_key

    def _send(self, draft: Draft, now: float) -> Sent:
        message = self.live.get(draft.id)
        if message is None:
            if draft.reports_to in self.live and draft.id in self.heard.get(draft.reports_to, {}):
                return Sent.KEPT
            self._create(self._arrive(draft, now, draft.delay))
            return Sent.CREATED
        match draft.if_taken:
            case Keep() | Reject():
                return Sent.KEPT
            case Update() as rule:
                fresh = replace(self._arrive(draft, now, draft.delay), rule=rule)
            case _:
                assert_never(draft.if_taken)
        if message.token is None:
            merge(message, fresh)
            return Sent.UPDATED
        if message.successor is None:
            message.successor = fresh
        else:
            before = message.successor.rule
            moved = merge(message.successor, fresh)
            message.successor.rule = both(before, fresh.rule, moved)
        return Sent.BLOCKED

    def _arrive(self, what: Draft | Message, now: float, delay: float = 0.0) -> Message:
        """A fresh message from a draft, or from one that was archived."""
        number = self._next()
        return Message(
            id=what.id,
            body=what.body,
            headers=what.headers,
            priority=what.priority,
            key=what.key,
            awaits=what.awaits,
            reports_to=what.reports_to,
            sent_at=now,
            due=now + delay,
            number=number,
            born=number,
        )

    def _create(self, message: Message) -> None:
        self.created += 1
        if message.awaits:
            self.heard.pop(message.id, None)
        self.live[message.id] = message

    def _dispose(self, message: Message, settlement: Settlement, now: float) -> None:
        way: Disposition = settlement.disposition
        match way:
            case Delete() | Archive():
                self._end(message, way, settlement.result, settlement.keep, now)
            case Reschedule(front=True):
                self._return(message, message.due, message.number)
            case Reschedule(delay=delay):
                self._return(message, now + delay, self._next())
            case _:
                assert_never(way)

    def _return(self, message: Message, due: float, number: int) -> None:
        """A leased message waits again; what blocked behind it is merged into it."""
        message.token, message.due, message.number = None, due, number
        successor, message.successor = message.successor, None
        if successor is not None:
            merge(message, successor)

    def _end(self, message: Message, to: Terminal, result: bytes, keep: float, now: float) -> None:
        """A message is gone, or put away; its successor follows; and who is to hear of it does."""
        end = Report(message.id, message.note or Note("ruled"), result)
        del self.live[message.id]
        self._put_away(message, to, now)
        self._forget(message.id)
        if message.successor is not None:
            self._create(message.successor)
        if keep:
            self.kept[message.id] = (now + keep, end)
        self._hear(message.reports_to, end, now)

    def _put_away(self, message: Message, to: Terminal, now: float) -> None:
        if isinstance(to, Archive):
            self.archive.append(replace(message, token=None, successor=None, archived_at=now))

    def _hear(self, id: str | None, end: Report, now: float) -> None:
        """The first report of each counts; the last one that is awaited makes it due."""
        message = self.live.get(id) if id is not None else None
        if message is None or not message.awaits:
            return
        heard = self.heard.setdefault(message.id, {})
        if end.id in heard:
            return
        heard[end.id] = end
        if len(heard) == message.awaits and message.token is None and message.due > now:
            message.due, message.number = now, self._next()

    def _forget(self, id: str) -> None:
        """Reports go with the last message that can read them."""
        message = self.live.get(id)
        if (message is None or not message.awaits) and all(m.id != id for m in self.archive):
            self.heard.pop(id, None)
