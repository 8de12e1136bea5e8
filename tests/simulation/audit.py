"""What must be true at the end of a simulated run, whatever went wrong in it."""

from __future__ import annotations

import math
from collections import Counter

from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.errors import WorkerStuck
from bee_core.events import (
    AttemptLost,
    AttemptSettled,
    AttemptStarted,
    BrokerRecovered,
    BrokerTrouble,
    Event,
    HandlerStuck,
    LoopBlocked,
    ResultDropped,
    ScheduleMissed,
    SettlementRefused,
    WorkerStarted,
    WorkerStopped,
)
from bee_core.message import Counters, Settlement
from bee_core.strategy import Repeat, Rules, resolve
from bee_core.ticks import message_id
from tests.simulation.books import DEADLINE, Books, Leased, Life, Member, Run, WatchedStore

_SCHEDULE = message_id("")


def audit(books: Books, store: WatchedStore) -> None:
    """Everything about the store, when all is over."""
    _every_message_has_ended_once(books, store)
    for token, settlements in books.settled.items():
        if len(settlements) > 1:
            books.blame(f"{token} was settled {len(settlements)} times")
        _settled_as_it_ran(books, books.leases[token], settlements[0])
    for life, stored in store.archived().items():
        if life[0] not in books.changed:
            _counted(books, life, stored.counters)
    for lease in books.leases.values():
        if lease.took_over is not None and not _may_stall(books, books.leases[lease.took_over]):
            books.blame(f"{lease.took_over} of {books.name(lease.id)} ran out without a reason")
    _followed(books)
    for id, (awaited, heard) in books.gathered.items():
        if awaited != heard:
            books.blame(f"{books.name(id)} gathered {heard} of {awaited}")
    for member in books.members.values():
        _heard(books, member)


def audit_end(books: Books, member: Member) -> None:
    """A worker has ended: what is left of it, while nothing goes wrong."""
    name, worker = member.process.name, member.worker
    deaf = [run for run in member.running if run.told]
    left = [task for task in member.process.left() if not task.get_name().startswith("bee:jobs:")]
    if left:
        books.blame(f"{name} has left tasks: {sorted(task.get_name() for task in left)}")
    if len(member.process.left()) > len(left) + len(deaf):
        books.blame(f"{name} has left handlers behind")
    if member.process.complaints:
        books.blame(f"{name}: {member.process.complaints}")
    held = set(worker._held._attempts)
    if member.killed == math.inf and "settle" not in member.faults and not member.slow and held:
        books.blame(f"{name} still holds {sorted(held)}")
    refused = {event.token for event in member.events if isinstance(event, SettlementRefused)}
    if known := held & (member.answered | member.given_up | refused):
        books.blame(f"{name} still holds {sorted(known)}, though it knows better")
    if isinstance(member.error, WorkerStuck) and not any(
        isinstance(event, HandlerStuck) for event in member.events
    ):
        books.blame(f"{name} ended as stuck, and nothing was")


def _every_message_has_ended_once(books: Books, store: WatchedStore) -> None:
    for life in books.created:
        ends, is_live = books.ended[life], life[0] in store.live()
        if is_live and life[0].startswith(_SCHEDULE):
            continue
        if len(ends) != 1:
            books.blame(f"{books.name(life[0])} has ended {len(ends)} times; live: {is_live}")
        elif (life in store.archived()) is not isinstance(ends[0], Archive):
            books.blame(f"{books.name(life[0])} is not where it should be: {ends[0]}")
    unknown = set(store.archived()) - set(books.created)
    if strange := {life for life in unknown if life[0] not in books.cancelled}:
        books.blame(f"nobody has sent {sorted(strange)}")


def _settled_as_it_ran(books: Books, lease: Leased, settlement: Settlement) -> None:
    """What the store was told fits what the handler did, and the policy of the job."""
    if lease.id.startswith(_SCHEDULE):
        return
    member = next(m for m in books.members.values() if _is_of(m, lease))
    run, name = books.runs.get(lease.token), books.name(lease.id)
    given_back = settlement.note is None and settlement.counters == Counters(releases=1)
    may_be = run is None or "settle" in member.faults
    if given_back and may_be and isinstance(settlement.disposition, Reschedule):
        return
    if lease.id in books.changed:  # with another policy
        return
    rules = resolve(books.policy_of[lease.life], books.policy)
    expected = _expected(member, lease, run, rules)
    found = (type(settlement.disposition), settlement.counters)
    if found not in expected:
        shown = "not run" if run is None else run.how
        books.blame(f"{name} {lease.token}, {shown}: expected {expected}, found {found}")


def _is_of(member: Member, lease: Leased) -> bool:
    return member.worker is not None and member.worker.holder == lease.holder


Kind = tuple[type[Disposition], Counters]


def _expected(member: Member, lease: Leased, run: Run | None, rules: Rules) -> list[Kind]:
    """All ways in which this may have been settled."""
    counters = lease.counters
    error = _kind(rules.on_error, counters.errors + 1)
    timeout: Kind = (_kind(rules.on_timeout, counters.timeouts + 1), Counters(timeouts=1))
    released: Kind = (Reschedule, Counters(releases=1))
    is_stopped = member.stopping < math.inf or member.cancelled
    stops = [released] if is_stopped or isinstance(member.error, WorkerStuck) else []
    if run is None:
        stalled: Kind = (_kind(rules.on_stall, counters.stalls), Counters())
        poisoned = counters.stalls > 0 and stalled[0] is not Reschedule
        held_up = member.process.held_up_at >= lease.at
        return stops + [stalled] * poisoned + [timeout] * held_up
    if run.how == "told" or run.told:
        lasted = (run.told[0] if run.told else run.ended) - run.started
        return stops + [timeout] * (lasted > run.timeout - 0.01)
    match run.how:
        case "succeeded":
            return [(type(rules.on_success), Counters())]
        case "failed":
            return [(error, Counters(errors=1)), *stops]
        case "permanent":
            strategy = rules.on_error
            terminal = strategy.otherwise if isinstance(strategy, Repeat) else strategy
            return [(type(terminal), Counters(errors=1))]
        case "retry":
            is_repeat = isinstance(rules.on_error, Repeat)
            return [(error if is_repeat else Reschedule, Counters(errors=1))]
        case "released":
            return [released]
        case "delete":
            return [(Delete, Counters())]
        case "archive":
            return [(Archive, Counters())]
        case _:
            return []


def _kind(strategy: Delete | Archive | Repeat, count: int) -> type[Disposition]:
    if not isinstance(strategy, Repeat):
        return type(strategy)
    if strategy.times is None or count <= strategy.times:
        return Reschedule
    return type(strategy.otherwise)


def _counted(books: Books, life: Life, counters: Counters) -> None:
    """The counters of an archived message are what has happened to it."""
    leases = [lease for lease in books.leases.values() if lease.life == life]
    added = Counters(
        deliveries=len(leases), stalls=sum(lease.took_over is not None for lease in leases)
    )
    for lease in leases:
        for settlement in books.settled.get(lease.token, ()):
            added += settlement.counters
    if added != counters:
        books.blame(f"{books.name(life[0])}: counted {counters}, seen {added}")


def _may_stall(books: Books, lease: Leased) -> bool:
    """Whether there is a reason for which a lease may have run out."""
    member = next(m for m in books.members.values() if _is_of(m, lease))
    run = books.runs.get(lease.token)
    if not member.was_alive or member.killed < math.inf or books.jumped_at > 0 or member.slow:
        return True
    since = lease.at
    troubles = [member.faults.get(verb, -math.inf) + 2 * DEADLINE for verb in ("lease", "extend")]
    if max(member.process.held_up_at, *troubles) >= since:
        return True
    if member.over and ("settle" in member.faults or member.error is not None):
        return True
    return run is not None and run.move.startswith("deaf")  # it is not kept alive for ever


def _followed(books: Books) -> None:
    """What was to follow did, and what was not did not."""
    created = {id for id, _ in books.created}
    for run in books.runs.values():
        if run.follows and run.how == "succeeded" and not run.told and run.token in books.settled:
            way = books.settled[run.token][0].disposition  # it may have been given back instead
            if not isinstance(way, Reschedule) and run.follows not in created:
                books.blame(f"{run.follows} was to follow, and was not sent")
        elif run.follows in created and run.how != "succeeded":
            books.blame(f"{run.follows} was sent, although {run.token} has {run.how}")


_ALWAYS = (WorkerStarted, WorkerStopped, AttemptStarted, AttemptSettled, ResultDropped)


def _heard(books: Books, member: Member) -> None:
    """No event without a reason, and none missing."""
    name = member.process.name
    for event in member.events:
        if not _is_expected(books, member, event):
            books.blame(f"{name} said {event!r:.300}")
    told = Counter(type(event) for event in member.events)
    if member.over and told[WorkerStarted] and told[WorkerStopped] != 1:
        books.blame(f"{name} has said {told[WorkerStopped]} times that it has ended")
    settled = Counter(e.token for e in member.events if isinstance(e, AttemptSettled))
    for token, times in settled.items():
        if times > 1 or token not in books.settled:
            books.blame(f"{name} has said {times} times that {token} is settled")
    started = Counter(e.token for e in member.events if isinstance(e, AttemptStarted))
    for token, times in started.items():
        if times > 1:
            books.blame(f"{name} has started {token} {times} times")


def _is_expected(books: Books, member: Member, event: Event) -> bool:
    match event:
        case BrokerTrouble(verb=verb) | BrokerRecovered(verb=verb):
            late = member.slow or member.process.held_up_at > 0
            return verb in member.faults or (verb in ("extend", "announce") and late)
        case AttemptLost(token=token, certain=True):
            lease = books.leases[token]
            gone = lease.cancelled or books.current.get(lease.life) != token
            return gone or token in books.settled
        case AttemptLost():
            return bool(member.faults) or member.slow or member.process.held_up_at > 0
        case HandlerStuck(token=token):
            return books.runs[token].move.startswith(("deaf", "hard", "slow", "block"))
        case LoopBlocked():
            return member.process.held_up_at > 0
        case SettlementRefused():
            return "settle" in member.faults
        case ScheduleMissed():
            return True
        case _:
            return isinstance(event, _ALWAYS)
