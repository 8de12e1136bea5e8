"""Mutants of Update and of the blocked successor."""

from __future__ import annotations

import msgspec

from bee_core.disposition import Archive, Delete, Disposition
from bee_core.message import Draft, Report, Sent, Update
from bee_memory import MemoryBroker
from bee_memory.messages import Arrival, Message
from bee_memory.state import Queue

replace = msgspec.structs.replace


class _OtherRule(MemoryBroker):
    """Updates follow another rule than the one they bring."""

    def other(self, rule: Update) -> Update:
        raise NotImplementedError

    def _merge(self, q: Queue, message: Message, arrival: Arrival) -> None:
        arrival.rule = self.other(arrival.rule)
        super()._merge(q, message, arrival)


class UpdateKeepsTheBody(_OtherRule):
    """A new payload is ignored."""

    def other(self, rule: Update) -> Update:
        return replace(rule, payload=False, reset_counts=rule.resets)


class UpdateAlwaysTakesTheBody(_OtherRule):
    """The payload is replaced though it was not to be."""

    def other(self, rule: Update) -> Update:
        return replace(rule, payload=True, reset_counts=rule.resets)


class UpdateKeepsThePolicy(_OtherRule):
    """New headers and a new priority are ignored."""

    def other(self, rule: Update) -> Update:
        return replace(rule, policy=False)


class UpdateAlwaysTakesThePolicy(_OtherRule):
    """Headers and priority are replaced though they were not to be."""

    def other(self, rule: Update) -> Update:
        return replace(rule, policy=True)


class UpdateKeepsTheCounters(_OtherRule):
    """Counters are not set to zero by an update."""

    def other(self, rule: Update) -> Update:
        return replace(rule, reset_counts=False)


class UpdateAlwaysResetsTheCounters(_OtherRule):
    """Every update sets the counters to zero."""

    def other(self, rule: Update) -> Update:
        return replace(rule, reset_counts=True)


class IfLaterIsAlways(_OtherRule):
    """`if_later` also brings forward."""

    def other(self, rule: Update) -> Update:
        return replace(rule, run_at="always") if rule.run_at == "if_later" else rule


class IfEarlierIsNever(_OtherRule):
    """`if_earlier` does nothing."""

    def other(self, rule: Update) -> Update:
        return replace(rule, run_at="never") if rule.run_at == "if_earlier" else rule


class NeverIsAlways(_OtherRule):
    """`never` replaces the time."""

    def other(self, rule: Update) -> Update:
        return replace(rule, run_at="always")


class UpdatedMessageKeepsItsPlace(MemoryBroker):
    """A message whose time is replaced does not go to the back."""

    def _merge(self, q: Queue, message: Message, arrival: Arrival) -> None:
        arrival.number = message.sequence
        super()._merge(q, message, arrival)


class UpdateIsANewLife(MemoryBroker):
    """An updated message gets a new incarnation."""

    def _merge(self, q: Queue, message: Message, arrival: Arrival) -> None:
        message.incarnation = arrival.number
        super()._merge(q, message, arrival)


class HeldMessageIsChanged(MemoryBroker):
    """An update reaches a message while somebody holds it."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        sent = super()._send(q, draft)
        if sent is Sent.BLOCKED:
            q.live[draft.id].body = draft.body
        return sent


class SuccessorDoesNotWait(MemoryBroker):
    """The successor of a held message is given out beside it."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        sent = super()._send(q, draft)
        if sent is Sent.BLOCKED:
            arrival = q.live[draft.id].successor
            if arrival is not None:
                q.enter(arrival.message(), self._memory.clock.now())
        return sent


class LapsedMessageIsUpdated(MemoryBroker):
    """A lease that ran out no longer blocks, though nobody took it over."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        message = q.live.get(draft.id)
        if message is not None and message.visible_at <= self._memory.clock.now():
            message.token = None
        return super()._send(q, draft)


class SecondUpdateIsIgnored(MemoryBroker):
    """A successor cannot be changed."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        message = q.live.get(draft.id)
        taken = message is not None and message.successor is not None
        return Sent.BLOCKED if taken and draft.if_taken == Update() else super()._send(q, draft)


class SecondUpdateReplacesTheFirst(MemoryBroker):
    """A successor forgets the fields that an earlier update was to change."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        message = q.live.get(draft.id)
        if message is not None and isinstance(draft.if_taken, Update):
            message.successor = None
        return super()._send(q, draft)


class SecondUpdateForgetsTheRule(MemoryBroker):
    """A successor that is changed again follows only the last rule when it is merged."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        sent = super()._send(q, draft)
        message = q.live[draft.id]
        if message.successor is not None and isinstance(draft.if_taken, Update):
            message.successor.rule = draft.if_taken
        return sent


class _Ending(MemoryBroker):
    """Something else becomes of the successor of a message that ends."""

    def ended(self, q: Queue, old: Message, successor: Arrival) -> None:
        raise NotImplementedError

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        successor = message.successor
        rings = super()._dispose(q, message, disposition, end, keep)
        if successor is not None and isinstance(disposition, Delete | Archive):
            self.ended(q, message, successor)
        return rings


class SuccessorNeverFreed(_Ending):
    """The successor is lost with the message it waits for."""

    def ended(self, q: Queue, old: Message, successor: Arrival) -> None:
        del q.live[old.id]


class SuccessorThatMayNotMoveIsLost(_Ending):
    """A successor whose rule is `never` is not freed."""

    def ended(self, q: Queue, old: Message, successor: Arrival) -> None:
        if successor.rule.run_at == "never":
            del q.live[old.id]


class SuccessorFreedTwice(_Ending):
    """A freed successor is its own successor."""

    def ended(self, q: Queue, old: Message, successor: Arrival) -> None:
        q.live[old.id].successor = successor


class SuccessorInheritsTheCounters(_Ending):
    """A freed successor goes on with the counters of the first."""

    def ended(self, q: Queue, old: Message, successor: Arrival) -> None:
        q.live[old.id].counters = old.counters


class SuccessorInheritsTheIncarnation(_Ending):
    """A freed successor cannot be told from the first."""

    def ended(self, q: Queue, old: Message, successor: Arrival) -> None:
        q.live[old.id].incarnation = old.incarnation


class SuccessorIsFreedAtOnce(_Ending):
    """A freed successor is ready, whatever it asked for."""

    def ended(self, q: Queue, old: Message, successor: Arrival) -> None:
        message, now = q.live[old.id], self._memory.clock.now()
        message.due = min(message.due, now)
        q.enter(message, now)


class SuccessorIsDelayedAnew(_Ending):
    """The delay of a successor counts from when it is freed."""

    def ended(self, q: Queue, old: Message, successor: Arrival) -> None:
        message, now = q.live[old.id], self._memory.clock.now()
        message.due = now + successor.draft.delay
        q.enter(message, now)


class SuccessorNotMerged(MemoryBroker):
    """A repeated message loses its successor."""

    def _return(self, q: Queue, message: Message, due: float, sequence: int) -> None:
        message.successor = None
        super()._return(q, message, due, sequence)


class SuccessorMergedAndKept(MemoryBroker):
    """A successor that was merged goes on waiting."""

    def _return(self, q: Queue, message: Message, due: float, sequence: int) -> None:
        successor = message.successor
        super()._return(q, message, due, sequence)
        message.successor = successor
