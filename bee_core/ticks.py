"""How a schedule is kept: one message in its own queue, that waits for the next instant.

Who leases it sends the job and the message for the instant after it, in the same step that ends
the one it holds. The id is unique and the step is fenced, so a schedule never forks; and if its
holder dies, another one takes it over, so it never ends either. There is no leader.
"""

from __future__ import annotations

from typing import Any, TypeVar, assert_never

import msgspec

from bee_core.codec import KIND_HEADER
from bee_core.delivery import Call, Delivery
from bee_core.disposition import Reschedule
from bee_core.errors import UnknownJob
from bee_core.message import KEEP, PRIORITIES, Draft, IfTaken, Lease
from bee_core.queue import Queue
from bee_core.schedule import ComeBack, Lapse, Plan, Schedule, Tick, tick
from bee_core.strategy import Backoff, Policy, Repeat, Rules, resolve

J = TypeVar("J")

SCHEDULE = "schedule"
SCHEDULE_RULES: Rules = resolve(
    Policy(
        on_error=Repeat(None),
        on_timeout=Repeat(None),
        on_stall=Repeat(None),
        backoff=Backoff(min=1.0, max=60.0),
    )
)
"""Whatever goes wrong with a tick, it is tried again: nothing but its end ends a schedule."""


class Declared(msgspec.Struct, frozen=True):
    """A schedule of a queue, and the job it sends as a draft."""

    schedule: Schedule[Any]
    draft: Draft

    @property
    def id(self) -> str:
        """The id of the message that keeps it."""
        return message_id(self.schedule.name)

    def message(self, plan: Plan, delay: float = 0.0, if_taken: IfTaken = KEEP) -> Draft:
        """The message that keeps it: ahead of the jobs that wait, so that it is on time."""
        body, headers = msgspec.json.encode(plan), {KIND_HEADER: SCHEDULE}
        return Draft(self.id, body, delay, PRIORITIES[-1], headers, if_taken)

    def job(self, instant: float) -> Draft:
        """The job for an instant. Sending it again changes nothing while it lives."""
        return msgspec.structs.replace(self.draft, id=self.schedule.job_id(instant))


class Due:
    """A schedule that a worker has come to."""

    __slots__ = ("declared", "lapse", "now", "plan", "sent")

    def __init__(self, declared: Declared, plan: Plan, now: float) -> None:
        self.declared = declared
        self.plan = plan
        self.now = now
        self.lapse: Lapse | None = None
        """What was missed, when it has been found out."""
        self.sent: str | None = None
        """The id of the job."""


def message_id(name: str) -> str:
    """The id of the message that keeps a schedule."""
    return f"bee-schedule:{name}"


def declare(schedule: Schedule[J], queue: Queue[J]) -> Declared:
    """A schedule for this queue, or an InvalidInput: the job is encoded here, once for all."""
    draft = queue.draft(
        schedule.job,
        id=schedule.name,
        priority=schedule.priority,
        policy=schedule.policy,
        headers=schedule.headers,
        key=schedule.key,
    )
    return Declared(schedule, draft)


def plan_of(body: bytes) -> Plan:
    """The plan in the message of a schedule, or UnknownJob: a newer release may know it."""
    try:
        return msgspec.json.decode(body, type=Plan)
    except Exception as error:
        raise UnknownJob(f"the plan of a schedule, but not of a kind known here: {error}") from None


def due(declared: Declared, lease: Lease) -> Due:
    """What is to be done with the lease of a schedule, by the store's clock."""
    return Due(declared, plan_of(lease.body), lease.leased_at)


async def come_to(due: Due, delivery: Delivery[Any]) -> Reschedule | None:
    """The handler of every schedule."""
    declared = due.declared
    found = tick(declared.schedule, due.plan, due.now)
    match found:
        case ComeBack(delay=delay):
            return Reschedule(delay)
        case Tick(sent=sent, plan=plan, delay=delay, lapse=lapse):
            if sent is not None:
                job = declared.job(sent)
                delivery.follow_ups += (job,)
                due.sent = job.id
            due.lapse = lapse
            delivery.follow_ups += (declared.message(plan, delay),)
            return None
        case _:
            assert_never(found)


COME_TO = Call(come_to)
