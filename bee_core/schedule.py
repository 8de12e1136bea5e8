"""When a job is to be sent again and again, and what to do when a worker comes to it.

Pure: no clock, no broker. How a schedule is kept between its instants is in `ticks.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from typing import Generic, Literal, TypeAlias, TypeVar
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSimError

from bee_core.checks import check_text, check_whole
from bee_core.duration import Duration, seconds
from bee_core.errors import InvalidOption
from bee_core.message import NO_HEADERS
from bee_core.strategy import Policy
from bee_core.timing import Cron, Every, Timing, latest

J_co = TypeVar("J_co", covariant=True)

LONGEST_NAME = 100
LOOK_IN = 86_400.0
"""Seconds after which a schedule is looked at again, however far its next instant is."""

Missed: TypeAlias = Literal["once", "skip"]


@dataclass(frozen=True)
class Schedule(Generic[J_co]):
    """A job that is sent again and again. Nothing happens until a worker that knows it runs.

    every     seconds (or timedelta) from one to the next, at least 1, counted from the epoch
    cron      or: minute, hour, day of month, month, day of week, as in a crontab
    tz        the time zone of `cron`, by its IANA name
    late      an instant to which no worker came within that time is missed
    missed    what to do then: "once" sends one job for all that were missed, "skip" none
    The rest are options of `Queue.send`, for every job that is sent.
    """

    name: str
    job: J_co
    _: KW_ONLY
    every: Duration | None = None
    cron: str | None = None
    tz: str = "UTC"
    missed: Missed = "once"
    late: Duration = 60.0
    priority: int = 0
    policy: Policy | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    key: str | None = None

    def __post_init__(self) -> None:
        check_text(self.name, "schedule's name", longest=LONGEST_NAME)
        object.__setattr__(self, "_timing", _timing(self))
        if self.missed not in ("once", "skip"):
            raise InvalidOption(
                f"schedule {self.name!r}: missed is 'once' or 'skip', not {self.missed!r}"
            )
        late = seconds(self.late, f"schedule {self.name!r}: late", least=1.0)
        object.__setattr__(self, "late", late)

    @property
    def timing(self) -> Timing:
        """When, and nothing else."""
        timing: Timing = self.__dict__["_timing"]
        return timing

    def upcoming(self, count: int = 1, *, after: datetime | None = None) -> list[datetime]:
        """The next instants, in UTC: after now by this machine's clock, or after another time."""
        if after is not None and (not isinstance(after, datetime) or after.tzinfo is None):
            raise InvalidOption("after must be an aware datetime: say which time zone is meant")
        instant = (datetime.now(UTC) if after is None else after).timestamp()
        found = []
        for _ in range(check_whole(count, "count", least=0)):
            instant = self.timing.after(instant)
            found.append(datetime.fromtimestamp(instant, UTC))
        return found

    def job_id(self, instant: float) -> str:
        """The id of the job that is sent for an instant."""
        when = datetime.fromtimestamp(instant, UTC).replace(tzinfo=None)
        return f"{self.name}@{when.isoformat()}Z"


class Plan(msgspec.Struct, frozen=True):
    """What is kept of a schedule between its instants."""

    timing: str
    """That of whoever made the plan, as text."""
    instant: float | None = None
    """The next one, in seconds since the epoch; None if it has still to be worked out."""
    last: float | None = None
    """The last one that was seen to, so that it is never seen to again."""


class ComeBack(msgspec.Struct, frozen=True):
    """It is too early."""

    delay: float


class Lapse(msgspec.Struct, frozen=True):
    """Instants that had no job of their own."""

    first: float
    late: float
    """How late a worker came to the schedule."""


class Tick(msgspec.Struct, frozen=True):
    """Send the job for an instant, if any; then wait for the next."""

    sent: float | None
    plan: Plan
    delay: float
    lapse: Lapse | None = None


def tick(schedule: Schedule[object], plan: Plan, now: float) -> ComeBack | Tick:
    """What to do with a schedule that is come to at `now`. It is the store's clock that says so.

    At most one job is sent, however many instants lie behind. The next instant is after all that
    were seen to before, whatever became of the clock.
    """
    timing = schedule.timing
    known = plan.timing == str(timing)
    instant, last = plan.instant, plan.last
    if instant is None or (now < instant and not known):
        return _next(timing, None, now, last)
    if now < instant:
        return ComeBack(min(instant - now, LOOK_IN))
    final = latest(timing, instant, now) if known else instant
    late = now - instant
    if late <= seconds(schedule.late, "late"):
        lapse = None if final == instant else Lapse(timing.after(instant), late)
        return _next(timing, instant, now, final, lapse)
    sent = final if schedule.missed == "once" else None
    return _next(timing, sent, now, final, Lapse(instant, late))


def _next(
    timing: Timing, sent: float | None, now: float, last: float | None, lapse: Lapse | None = None
) -> Tick:
    instant = timing.after(now if last is None else max(now, last))
    return Tick(sent, Plan(str(timing), instant, last), min(instant - now, LOOK_IN), lapse)


def _timing(schedule: Schedule[object]) -> Timing:
    name, every, cron = f"schedule {schedule.name!r}", schedule.every, schedule.cron
    if (every is None) == (cron is None):
        raise InvalidOption(f"{name}: give either every=seconds or cron='...', exactly one of them")
    if every is not None:
        if schedule.tz != "UTC":
            raise InvalidOption(f"{name}: tz goes with cron only; every counts seconds")
        return Every(seconds(every, f"{name}: every", least=1.0))
    if not isinstance(cron, str) or len(cron.split()) != 5:
        raise InvalidOption(
            f"{name}: cron has five fields: minute, hour, day of month, month, day of week, such "
            f"as '30 3 * * *'; not {cron!r}"
        )
    _check_zone(name, schedule.tz)
    timing = Cron(cron, schedule.tz)
    try:
        timing.after(0.0)
    except CronSimError as error:
        raise InvalidOption(f"{name}: cron {cron!r} cannot be read: {error}") from None
    except LookupError:
        raise InvalidOption(f"{name}: cron {cron!r} names a day that never comes") from None
    return timing


def _check_zone(name: str, tz: str) -> None:
    if not isinstance(tz, str):
        raise InvalidOption(f"{name}: tz is a name such as 'Europe/Berlin', not {tz!r}")
    try:
        ZoneInfo(tz)
    except Exception:  # not there, a directory, no path at all, ...
        raise InvalidOption(
            f"{name}: no time zone {tz!r} is known here. Names are such as 'Europe/Berlin'; if "
            "this machine has no data of time zones, install it: pip install tzdata"
        ) from None
