"""What a store must be able to do. The one file the author of a backend has to read.

`Broker` is what senders and workers use; `Inspector` is for operators, tools and tests.
A backend implements both and proves itself with `bee_core.testing.conformance`; what
cannot pass that suite is not a Broker. There are no capability flags. `bee_memory` is the
executable specification: when a sentence here leaves a question open, read it there.

The model
    A queue is a name; it exists when something is in it. A message has an id, a body
    (opaque bytes), headers, a priority, the time it is `due`, a sequence number, counters
    and, while it is leased, a token and the time its lease runs out.

    It is *ready* when it is due and nobody holds it, *delayed* before that, *leased* while
    somebody holds it. A lease that runs out makes it ready again; nothing has to notice:
    recovery is part of `lease`. There is no sweeper and no leader.

    An id is unique among the live messages of its queue, but for one *blocked* successor
    that a leased message may have. Archived messages are told apart by id and
    incarnation, a number that grows with every fresh creation.

    A message may have a *key*. It holds its key from when it is leased until its lease is
    settled or taken over, and only so many messages hold a key at once; the others wait for
    them, out of the way of everybody else. It may *report to* another message, which is told
    how it ends, and may *await* a number of such reports: it is due when they are there.

The rules for every verb
    - One round trip. Atomic for each message: no client ever sees, or leaves behind by
      crashing, half of what was asked for one message. `send` is atomic for its batch.
    - The store's clock decides. Durations go in, never timestamps.
    - It returns what did *not* apply. An empty set means: all of it happened.
    - It neither retries nor logs, and keeps no policy. Trouble that may pass is
      BrokerUnavailable if nothing was done and OutcomeUnknown if that is not certain;
      the driver's exception is the `__cause__`. BrokerLocked says that one of many was in
      somebody else's hands for too long: a worker then tries with fewer.
    - Every call ends, well or badly, within a deadline of its own, even if the peer is silent.
    - It may be called concurrently, and cancelled at any await: a cancelled call was applied
      wholly or not at all, and never harms the next one.
    - Arguments are checked before any I/O; a bad one is an InvalidInput.
    - After `aclose` every verb raises BrokerClosed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from bee_core.disposition import Terminal
from bee_core.message import (
    NO_REPORTS,
    THROTTLE,
    Draft,
    Lease,
    Receipt,
    Report,
    Sent,
    Settlement,
    Throttle,
)
from bee_core.stored import Finding, Holder, Page, QueueStats, Server, State, Stored

NOTHING: Mapping[str, str] = MappingProxyType({})


@runtime_checkable
class Broker(Protocol):
    """Nine verbs, each one atomic round trip, and `clone` and `aclose`."""

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        """Store drafts, in their order; say for each what was done. All or nothing.

        The ids of one call are distinct (InvalidName otherwise). If an id is not live, a
        message is CREATED: due after `delay`, with a new incarnation and counters of zero.
        If it is live, `if_taken` decides:

        Keep     nothing changes: KEPT. So a send whose answer was lost may be repeated.
        Reject   IdTaken is raised and nothing of the batch is stored.
        Update   a message that waits is changed field by field: UPDATED. One that is leased
                 (until its lease is settled or taken over, even if it has run out) gets the
                 draft as its blocked successor: BLOCKED. If it has a successor already, that
                 one is changed by the same rules, and remembers every field it was told to
                 change.

        What becomes of a successor is said at `settle`.

        A draft that awaits reports is due when so many different messages have reported to it
        since it was created, or after `delay`, whichever is first. One that reports to a live
        message which has heard of the end of this id already is KEPT: it has been.
        """
        ...

    async def lease(
        self,
        queue: str,
        *,
        limit: int,
        duration: float,
        holder: str,
        throttle: Throttle = THROTTLE,
    ) -> Sequence[Lease]:
        """Take up to `limit` ready messages and hide them for `duration` seconds. Never waits.

        Order: priority (higher first), then the time due, then sequence. So messages of one
        priority that were sent without a delay come first in, first out.

        Each gets a token no message of this queue has had before, and one more delivery. One
        whose former lease ran out is taken over here: it counts a stall, keeps its place in
        the order, and if it has a successor that is first merged into it (see `settle`), which
        may make it due later. Until then the old receipt is still good.

        `throttle` holds back the rest: a message whose key is held by `per_key` others is passed
        over, and so is every one that would be a delivery too many for `rate` or `key_rate`. The
        store counts the deliveries of all who lease with such a rate. What is passed over keeps
        its place among those of its key, and is looked at again when the key is let go or the time
        has come; until then no number of such messages makes a call slower. One whose lease ran
        out holds its key itself, so it may be taken over.

        A paused queue gives nothing. `limit` bounds the work of the call; taking over any
        number of leases that ran out costs no call more than its share.
        """
        ...

    async def extend(
        self,
        queue: str,
        receipts: Sequence[Receipt],
        *,
        duration: float,
        progress: Mapping[str, str] = NOTHING,
        remarks: Mapping[str, str] = NOTHING,
    ) -> AbstractSet[Receipt]:
        """Hide held messages for `duration` from now. Return the lost receipts.

        A receipt is lost when its message does not exist or carries another token. The token
        decides, not the clock: a lease that ran out and was not taken over is extended.

        `progress` says, by id, how far some of them are. It is kept with the message until it
        ends or something else is said. `remarks` says what was noticed about some; the last one
        becomes part of the history.
        """
        ...

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        """End leases. Return the lost receipts; what they name is not touched at all.

        The receipts of one call are distinct. For each settlement whose token is the one its
        message carries now, in one step:

        1. check     the token; a lost one has no effect whatever, its `then` included
        2. count     add `counters` to the message's
        3. dispose   Delete it; Archive it with `note`; or Reschedule it in place, which keeps
                     id, body and incarnation, clears the token and stores `note` (None leaves
                     the last one): due after `delay` with a new sequence number, or with
                     `front` at its old place
        4. succeed   if the message has a successor: after Delete or Archive the successor
                     becomes a fresh message, due when it asked to be; after Reschedule it is
                     merged into the message field by field, as its Update says, and is gone.
                     Then its key is let go; and after Delete or Archive its `note` and `result`
                     are kept for `keep` seconds, and are reported to whom it reports to
        5. send      `then`, as `send` would (a Reject among them counts as a Keep)
        6. ring      wake those who wait, if something may have become ready

        Of each id the first report counts, and only if who it goes to is live and awaits reports.
        It stays until that one is deleted, purged or pruned, and none of its id is left in the
        archive, or until one that awaits reports is sent anew: so it can be read by one that is
        repeated, or restored.

        A lease that ends without deleting its message (at a settle, a take-over, a cancel) is an
        `Episode` of its history: the note's reason and the `summary`. The last HISTORY are kept;
        a fresh message has none, a restored one goes on with what it had.

        So settling a receipt twice reports it lost the second time, and may be repeated
        safely after OutcomeUnknown.
        """
        ...

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> AbstractSet[str]:
        """Delete or archive (as "cancelled") messages. Return the ids that had none to cancel.

        A leased message is cancelled too, unless `running` is false: its holder finds the
        receipt lost at the next extend or settle, and its successor, if any, becomes a fresh
        message. With `running=False` a leased id loses only its successor. What is cancelled
        reports so, but for a successor. All who wait are woken if a leased message was cancelled,
        so that a holder that has nothing else to do finds out at once.
        """
        ...

    async def wait(self, queue: str, *, timeout: float) -> None:
        """Return when something may have become ready, or after `timeout` seconds.

        A hint, on which nothing but latency depends: it may return early, and a worker whose
        every wake-up is lost still finds each message after `timeout`. A message sent between
        an empty `lease` and this call wakes it at once. One message should wake one waiter,
        not all. Cancelling it is always safe.
        """
        ...

    async def results(self, queue: str, ids: Sequence[str]) -> Mapping[str, Report]:
        """How these messages ended, as far as it was to be kept and its time is not over.

        Of an id that has ended more than once, the last end that was kept.
        """
        ...

    async def reports(
        self, queue: str, id: str, *, after: str = "", limit: int = 1000
    ) -> Sequence[Report]:
        """What has been reported to a message: up to `limit` reports, by id, behind `after`."""
        ...

    async def announce(self, queue: str, holder: str, *, about: str, duration: float) -> None:
        """Say that somebody works on this queue, for `duration` seconds from now. 0: no longer.

        For `workers`; nothing else depends on it. What was said before of that holder is replaced.
        """
        ...

    def clone(self) -> Broker:
        """Another broker on the same store, for use in another thread with its own event loop.

        Does no I/O. It is closed on its own, and outlives the one it came from.
        """
        ...

    async def aclose(self) -> None:
        """Let go of every connection. May be called twice."""
        ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


@runtime_checkable
class Inspector(Protocol):
    """For operators, tools and tests. A worker needs none of it (but to know when all is done)."""

    async def queues(self) -> Sequence[str]:
        """The names of all queues that hold something or are paused, sorted."""
        ...

    async def stats(self, queue: str) -> QueueStats:
        """Counts, exact and from one moment."""
        ...

    async def get(self, queue: str, id: str) -> Stored | None:
        """The live message of that id, else the one of that id archived last, else None."""
        ...

    async def scan(
        self, queue: str, state: State, *, after: str | None = None, limit: int = 100
    ) -> Page:
        """A page of messages in one state. Pass the page's `after` to get the next.

        In the order they will be leased, delayed ones at least so within each priority, and ready
        ones that were passed over for their key behind the others; leased ones by when they run
        out, blocked ones by id, archived ones newest first. What does not change meanwhile is seen
        exactly once.
        """
        ...

    async def restore(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        """Move the message of each id that was archived last back: ready now, counters at zero.

        It is a fresh incarnation with the same body, headers, priority and key, that reports to
        whom it did, and that can read what was reported to it. Return the ids that were not
        restored: not in the archive, or live again.
        """
        ...

    async def prune(
        self, queue: str, *, older_than: float = 0.0, keep: int = 0, limit: int = 1000
    ) -> int:
        """Delete up to `limit` archived messages, oldest first; return how many.

        Only those archived at least `older_than` seconds ago, and never the newest `keep`.
        """
        ...

    async def purge(self, queue: str) -> int:
        """Delete everything that waits: ready, delayed and blocked. Return how many.

        Leased messages are left alone, also one whose lease ran out until it is taken over, and
        so is the archive. What is purged reports to nobody.
        """
        ...

    async def drop(self, queue: str) -> None:
        """Delete the queue with all it holds: live, leased, archived, paused. Idempotent."""
        ...

    async def pause(self, queue: str) -> None:
        """From now on `lease` gives nothing. Everything else goes on. Idempotent."""
        ...

    async def resume(self, queue: str) -> None:
        """End a pause and wake who waits. Idempotent."""
        ...

    async def adopt(
        self,
        queue: str,
        messages: Sequence[Stored],
        *,
        reports: Mapping[str, Sequence[Report]] = NO_REPORTS,
        beyond: int = 0,
    ) -> Sequence[Stored]:
        """Take in messages as another store showed them. Return those that were not taken in.

        Ready, delayed and archived ones without a lease, not even one that ran out (InvalidOption
        otherwise). Each keeps all it has: id, body, headers, priority, key, counters, note,
        history, progress, who held it last, what it awaits and to whom it reports, and the times
        when it was sent, is due and was archived. Only its incarnation and its sequence number are
        new, and those are given out so that messages in the order of `scan` stay in it. A live one
        counts as created; an archived one has neither begun nor ended here.

        Not taken in, and nothing changes: a live one whose id is live here; an archived one that
        is in the archive already (the same id, sent and archived at the same moments).

        `reports` says, by id, what was reported to these messages, or to others that are here. It
        is added as `settle` would: of each reporter the first counts, and only if a message of
        that id is live and awaits reports, or is archived. One that awaits reports, and is taken
        in, begins with none but these. The last one that it awaits makes it due, unless it was
        delivered before: then it waits for something else.

        No token that is given from now on is as low as `beyond`. So fencing tokens go on growing
        when a queue moves; see `QueueStats.token`.

        1. outgrow   raise the tokens beyond `beyond`
        2. take      a live one, unless its id is live; what was reported to the id before is not
                     for it
        3. keep      an archived one, unless it is there
        4. hear      add the reports; who has heard all is due
        5. ring      wake as many as may have become ready

        Atomic for each message, together with the first thousand of its reports. Wakes those who
        wait. It may be repeated after OutcomeUnknown; but what has been taken in and has ended
        meanwhile would come in again: so pause the queue before. BrokerFull if there is no room,
        like `send`.
        """
        ...

    async def expel(self, queue: str, messages: Sequence[Stored]) -> Sequence[Stored]:
        """Delete exactly these, as they were seen. Return those that are not there like that.

        Ready, delayed and archived messages without a lease, as with `adopt`. They are told by id
        and incarnation. What was leased since, or changed (body, headers, priority, key, the time
        it is due, counters), or has ended, is left alone and returned.

        It is not an end: what is expelled reports to nobody and is not archived. What was reported
        to it is forgotten as with `purge` and `prune`; its key goes on with the next.

        1. check     that it is there like that
        2. delete    it
        3. let go    of its key, and forget what was reported to it
        4. ring      wake as many as may have become ready

        May be repeated after OutcomeUnknown: what is gone already is returned.
        """
        ...

    async def workers(self, queue: str) -> Sequence[Holder]:
        """Who holds leases of this queue, or has announced itself, by name."""
        ...


@runtime_checkable
class Examined(Protocol):
    """A store that can say what ails it. Optional; a worker asks now and then."""

    async def examine(self) -> Sequence[Finding]:
        """What an operator should see to, of all that bee depends on and cannot mend."""
        ...


@runtime_checkable
class Described(Protocol):
    """A store that can say what it is. Optional; for people who look for what is wrong."""

    async def describe(self) -> Server:
        """What stands behind this broker, even if it is set up in a way that bee cannot use."""
        ...


@runtime_checkable
class Packing(Protocol):
    """A store that can do a part of a send before its turn has come. Optional.

    Who sends batch after batch has the next one packed while the last is under way: what `send`
    does, this does in two steps. A class that changes one of them has to change both.
    """

    def pack(
        self, queue: str, drafts: Sequence[Draft]
    ) -> Callable[[], Coroutine[Any, Any, Sequence[Sent]]]:
        """Check and pack drafts. What it returns does the rest of `send`, as often as called."""
        ...


class Order(Protocol):
    """A lease that stands with its store until something may be ready, and is carried out then."""

    async def leases(self) -> Sequence[Lease]:
        """What was leased: at a wake-up, when its time is over, or when it is recalled.

        To be awaited once. Cancelling it is like cancelling `lease`: what it has leased meanwhile
        is late by the length of a lease.
        """
        ...

    def recall(self) -> None:
        """Have it carried out now. What it leases comes as ever."""
        ...


@runtime_checkable
class Standing(Protocol):
    """A store that a lease can be left with. Optional.

    What `wait` and then `lease` do, this does in one way to the store and back instead of two.
    """

    def order(
        self,
        queue: str,
        *,
        limit: int,
        duration: float,
        holder: str,
        throttle: Throttle = THROTTLE,
        timeout: float,
    ) -> Order | None:
        """A lease that stands for `timeout` seconds; none if it cannot be left here now, or would
        be late: then `wait` serves better.

        Nothing is done before its leases are awaited. What the others are for: see `lease`.
        """
        ...


@runtime_checkable
class Spread(Protocol):
    """A store that spreads each queue over parts. Optional.

    A message is in the part that its id says, and within a part all of the above holds. What is one
    step is in one part, or is an InvalidOption: what a settlement sends, a group, the messages of a
    key. What need not hold over several parts is in `bee_core.testing.conformance.spread`.
    """

    def id_beside(self, id: str) -> str:
        """A fresh id in the part of another id, or of a key. `id/...` is there too."""
        ...

    def check_beside(self, id: str, drafts: Sequence[Draft]) -> None:
        """Raise an InvalidOption unless these can be sent in one step with what has that id."""
        ...


@runtime_checkable
class Store(Broker, Inspector, Protocol):
    """Both: what `bee_core.connect` returns and every backend is."""

    def clone(self) -> Store: ...
