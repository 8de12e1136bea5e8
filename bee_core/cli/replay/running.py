"""How a job is run again: on a broker in memory that delivers it once, as it was delivered last."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bee_core.cli.common.policies import with_policy
from bee_core.codec import KIND_HEADER, peek_kind
from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.errors import BeeError
from bee_core.events import AttemptLost, AttemptSettled, Event
from bee_core.export import Exported
from bee_core.hive import Hive
from bee_core.hive_queue import HiveQueue
from bee_core.message import Counters, Draft, Lease, Note, attempt_number
from bee_core.outcome import COUNTED, Outcome
from bee_core.registry import connect
from bee_core.stored import State
from bee_core.strategy import Policy
from bee_core.testing.faults import FaultyBroker
from bee_core.worker import Worker


class SentHere(msgspec.Struct, frozen=True):
    """What would have been sent."""

    queue: str
    id: str
    kind: str
    delay: float
    body: str | None
    """None if it is bee's own."""

    def __str__(self) -> str:
        when = f", in {self.delay:.0f} s" if self.delay > 0.5 else ""
        shown = "" if self.body is None else f": {self.body:.200}"
        return f"{self.kind} to {self.queue} as {self.id}{when}{shown}"


class Replayed(msgspec.Struct, frozen=True):
    """What came of it."""

    id: str
    queue: str
    tag: str
    run: int
    outcome: Outcome
    detail: str
    seconds: float
    decision: str
    sent: Sequence[SentHere]


async def replay_job(
    hive: Hive, queue: HiveQueue[Any], job: Exported, timeout: float | str | None
) -> Replayed:
    """Run it once, and look what the handler has left in the broker."""
    settled: list[AttemptSettled] = []

    def observe(event: Event) -> None:
        if isinstance(event, AttemptSettled) and event.id == job.id:
            settled.append(event)
        if isinstance(event, AttemptSettled | AttemptLost):
            worker.stop()

    with hive.substitute(connect("memory://"), observers=()):
        async with hive:
            counters = rewound(job.counters, job.note)
            headers = _headers(job, timeout)
            changes = {"headers": headers, "counters": counters, "sent_at": job.sent_at}
            broker = _Once(hive.broker, changes)
            await broker.send(queue.name, [Draft(job.id, job.content, key=job.key)])
            handlers = copy.copy(queue.handlers)
            handlers.schedules = {}  # nothing else is to happen here
            worker: Worker[Any] = Worker(
                broker,
                queue.name,
                queue.form,
                handlers=handlers,
                policy=queue.policy,
                codec=queue.codec,
                max_bytes=queue.max_bytes,
                concurrency=1,
                observers=(observe,),
            )
            await worker.run()
            if not settled:
                raise BeeError("it was cancelled by its own handler, so there is no outcome")
            sent = await _sent(hive, queue.name, job.id)
    event = settled[0]
    return Replayed(
        id=job.id,
        queue=queue.name,
        tag=event.tag,
        run=attempt_number(counters),
        outcome=event.outcome,
        detail="" if event.note is None else event.note.detail,
        seconds=event.duration,
        decision=_decision(event.disposition),
        sent=sent,
    )


def rewound(counters: Counters, note: Note | None) -> Counters:
    """The counters as they were when its last run began; those of a first run if there was none."""
    if counters.deliveries == 0:
        return Counters(deliveries=1)
    name = None if note is None else COUNTED.get(note.reason)
    if name is None or getattr(counters, name) == 0:
        return counters
    return msgspec.structs.replace(counters, **{name: getattr(counters, name) - 1})


class _Once(FaultyBroker):
    """Gives a lease once only, and changed: as another store would have given it."""

    def __init__(self, inner: Any, changes: dict[str, Any]) -> None:
        super().__init__(inner)
        self._changes = changes
        self._given = False

    async def lease(self, queue: str, **options: Any) -> Sequence[Lease]:
        if self._given:
            return ()
        leases = await super().lease(queue, **options)
        self._given = bool(leases)
        return [msgspec.structs.replace(lease, **self._changes) for lease in leases]


def _headers(job: Exported, timeout: float | str | None) -> Mapping[str, str]:
    if timeout is None:
        return job.headers
    wanted = Policy(timeout=None if timeout == "none" else float(timeout))
    try:
        return with_policy(job.headers, wanted)
    except msgspec.MsgspecError:
        return job.headers  # the worker will say what is wrong with them


async def _sent(hive: Hive, queue: str, id: str) -> list[SentHere]:
    """All that is there now, but for the job itself."""
    found = []
    for name in await hive.broker.queues():
        for state in (State.READY, State.DELAYED):
            page = await hive.broker.scan(name, state, limit=1000)
            for one in page.items:
                if (name, one.id) == (queue, id):
                    continue
                own = one.headers.get(KIND_HEADER)
                kind = f"a {own} job" if own is not None else peek_kind(one.body) or "?"
                delay = max(0.0, one.due_at - time.time())
                body = None if own is not None else one.body.decode("utf-8", "replace")
                found.append(SentHere(name, one.id, kind, delay, body))
    return found


def _decision(disposition: Disposition) -> str:
    match disposition:
        case Delete():
            return "done, and deleted"
        case Archive():
            return "archived"
        case Reschedule(delay=delay, front=front):
            return "again at once, in its old place" if front else f"again in {delay:.1f} s"
