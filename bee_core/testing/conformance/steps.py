"""The words the tests are written in: send, lease, end, look. All durations are in units.

Leases and delays are either LONG or SHORT. Nobody ever waits for a LONG one, and a SHORT one
is only ever waited out: so no test depends on how fast the machine is.
"""

from __future__ import annotations

from asyncio import Task, create_task, gather
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Generic, NamedTuple, TypeVar

from bee_core.broker import Store
from bee_core.disposition import Delete, Disposition
from bee_core.message import (
    KEEP,
    NO_HEADERS,
    THROTTLE,
    ZERO,
    Counters,
    Draft,
    IfTaken,
    Lease,
    Note,
    Rate,
    Report,
    Sent,
    Settlement,
    Throttle,
    Update,
)
from bee_core.stored import Stored
from bee_core.testing.conformance.harness import Harness

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

LONG = 1000.0
SHORT = 2.0
PATIENCE = 60
"""How many units something that should happen now may take."""

DELETE = Delete()


def draft(
    h: Harness,
    id: str,
    body: bytes = b"body",
    *,
    after: float = 0.0,
    priority: int = 0,
    headers: Mapping[str, str] = NO_HEADERS,
    if_taken: IfTaken = KEEP,
    key: str | None = None,
    awaits: int = 0,
    reports_to: str | None = None,
) -> Draft:
    """A draft that is due `after` so many units."""
    delay = after * h.unit
    return Draft(id, body, delay, priority, headers, if_taken, key, awaits, reports_to)


def rate(h: Harness, times: int, units: float = LONG) -> Rate:
    """So many deliveries in any stretch of so many units."""
    return Rate(times, units * h.unit)


async def send(h: Harness, *drafts: Draft | str) -> list[Sent]:
    """Send drafts, or plain messages with these ids, in one call."""
    batch = [draft(h, one) if isinstance(one, str) else one for one in drafts]
    return list(await h.broker.send(h.queue, batch))


async def update(
    h: Harness, id: str, body: bytes = b"new", *, after: float = 0.0, rule: Update | None = None
) -> Sent:
    """Send one draft that changes or follows the live message of that id."""
    (sent,) = await send(h, draft(h, id, body, after=after, if_taken=rule or Update()))
    return sent


async def lease(
    h: Harness,
    limit: int = 100,
    *,
    units: float = LONG,
    holder: str = "worker",
    throttle: Throttle = THROTTLE,
) -> list[Lease]:
    """Take what is ready."""
    leases = await h.broker.lease(
        h.queue, limit=limit, duration=units * h.unit, holder=holder, throttle=throttle
    )
    return list(leases)


async def lease_one(h: Harness, *, units: float = LONG, holder: str = "worker") -> Lease:
    """Take the next message; there must be one."""
    leases = await lease(h, 1, units=units, holder=holder)
    assert 1 == len(leases), "a message should be ready, and lease gave none"
    return leases[0]


async def lapse(h: Harness, limit: int = 100, *, throttle: Throttle = THROTTLE) -> list[Lease]:
    """Take what is ready and let the leases run out."""
    leases = await lease(h, limit, units=SHORT, holder="sleeper", throttle=throttle)
    await h.advance(2 * SHORT)
    return leases


async def lapse_one(h: Harness) -> Lease:
    """Take the next message, of which there must be one, and let its lease run out."""
    (only,) = await lapse(h, 1)
    return only


async def end(
    h: Harness,
    held: Lease,
    disposition: Disposition = DELETE,
    *,
    note: Note | None = None,
    counters: Counters = ZERO,
    then: Sequence[Draft] = (),
    result: bytes = b"",
    keep: float = 0.0,
    summary: str = "",
) -> bool:
    """Settle one lease, and keep its result for so many units. Whether it applied."""
    units = keep * h.unit
    settlement = Settlement(held.receipt, disposition, note, counters, then, result, units, summary)
    lost = await h.broker.settle(h.queue, [settlement])
    assert lost <= {held.receipt}, "settle named a receipt it was not given"
    return not lost


async def extend(
    h: Harness, held: Lease, units: float = LONG, *, progress: str | None = None
) -> bool:
    """Extend one lease, and say how far it is. Whether it applied."""
    said = {} if progress is None else {held.receipt.id: progress}
    duration = units * h.unit
    lost = await h.broker.extend(h.queue, [held.receipt], duration=duration, progress=said)
    assert lost <= {held.receipt}, "extend named a receipt it was not given"
    return not lost


async def look(h: Harness, id: str) -> Stored:
    """The message of that id; there must be one."""
    stored = await h.broker.get(h.queue, id)
    assert stored is not None, f"the store should hold {id!r}"
    return stored


class Counts(NamedTuple):
    """How many live messages are in each state."""

    ready: int = 0
    delayed: int = 0
    leased: int = 0
    blocked: int = 0


async def counts(h: Harness, queue: str | None = None) -> Counts:
    """How many live messages the queue holds."""
    stats = await h.broker.stats(queue or h.queue)
    return Counts(stats.ready, stats.delayed, stats.leased, stats.blocked)


def ids(found: Iterable[Lease | Stored | Report]) -> list[str]:
    """Their ids, in their order."""
    return [one.receipt.id if isinstance(one, Lease) else one.id for one in found]


class Refusal(Generic[E]):
    """What `refuses` caught."""

    error: E


@contextmanager
def refuses(kind: type[E], what: str = "this") -> Iterator[Refusal[E]]:
    """Pass only if the block raises `kind`."""
    refusal: Refusal[E] = Refusal()
    try:
        yield refusal
    except kind as error:
        refusal.error = error
        return
    raise AssertionError(f"{what} should raise {kind.__name__}")


@asynccontextmanager
async def running(work: Coroutine[object, object, T]) -> AsyncIterator[Task[T]]:
    """Do the work beside the block, and stop it at the end of the block."""
    task = create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await gather(task, return_exceptions=True)


async def soon(h: Harness, task: Task[T], what: str) -> T:
    """The task's result, which is to come without much delay."""
    for _ in range(PATIENCE):
        if not task.done():
            await h.advance(1)
    assert task.done(), what
    return task.result()


@asynccontextmanager
async def clones(h: Harness, number: int) -> AsyncIterator[list[Store]]:
    """So many further brokers on the same store."""
    brokers = [h.broker.clone() for _ in range(number)]
    try:
        yield brokers
    finally:
        for broker in brokers:
            await broker.aclose()
