"""What is wrong with a store and its queues, and what to do about it.

`look` asks; `findings` is pure, and decides. Nothing is changed. What depends on the program is
told to it as a `Program`, so that nothing here needs one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from bee_core.broker import Described, Examined, Store
from bee_core.codec import kind_of
from bee_core.errors import BrokerMisconfigured
from bee_core.message import Reason
from bee_core.presence import presence_of
from bee_core.stored import Holder, QueueStats, Server, State

SKEW = 2.0
"""Seconds by which clocks may differ."""
SLOW = 0.1
"""Seconds that an answer may take."""
LONG = 60.0
OLD = 300.0
"""Seconds for which a job may be due before somebody should ask why."""
MANY = 100_000
"""Jobs in an archive that nobody prunes."""
_BAD: tuple[Reason, ...] = ("failed", "timed_out", "stalled", "unknown", "malformed")
"""Why jobs end in the archive that somebody should see."""
SAMPLE = 100
"""Jobs of each state that are looked at."""


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """Something found: a problem to see to, or a hint. The text says what to do."""

    level: Literal["problem", "hint"]
    topic: str
    text: str
    queue: str | None = None


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a queue."""

    name: str
    stats: QueueStats
    workers: Sequence[Holder]
    waiting: Mapping[str, int]
    """Kinds of jobs among some of those that wait, and how many were seen."""
    archived: Mapping[str, int]
    archived_an_hour: float | None = None
    """How fast the archive has grown of late; None if too few are in it to tell."""


class Declared(msgspec.Struct, frozen=True):
    """What a program says of a queue."""

    kinds: frozenset[str]
    problem: str | None = None
    """Why it could not work on it, if it could not."""
    sends_only: bool = False


Program = Mapping[str, Declared]
"""The queues of a program, by name."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """All that was seen of a store."""

    server: Server | None
    """None if the store cannot say what it is."""
    ailments: Sequence[Remark]
    queues: Sequence[Look]


async def look(store: Store) -> Seen:
    """Ask the store everything. Raises BrokerError if it does not answer."""
    server = await store.describe() if isinstance(store, Described) else None
    ailments: list[Remark] = []
    queues: list[Look] = []
    if server is None or not server.findings:
        try:
            if isinstance(store, Examined):
                for found in await store.examine():
                    ailments.append(Remark(level="problem", topic=found.topic, text=found.text))
            now = time.time() + (0.0 if server is None else server.ahead)
            queues = [await _look_at(store, name, now) for name in await store.queues()]
        except BrokerMisconfigured as error:
            ailments.append(Remark(level="problem", topic="store", text=str(error)))
    return Seen(server=server, ailments=ailments, queues=queues)


async def _look_at(store: Store, name: str, now: float) -> Look:
    waiting: Counter[str] = Counter()
    for state in (State.READY, State.DELAYED):
        page = await store.scan(name, state, limit=SAMPLE)
        waiting.update(
            kind for one in page.items if (kind := kind_of(one.headers, one.body)) is not None
        )
    newest = (await store.scan(name, State.ARCHIVED, limit=SAMPLE)).items
    oldest = newest[-1].archived_at if newest else None
    grown = len(newest) * 3600 / max(now - oldest, 1.0) if oldest is not None else None
    return Look(
        name=name,
        stats=await store.stats(name),
        workers=await store.workers(name),
        waiting=waiting,
        archived=Counter(
            kind for one in newest if (kind := kind_of(one.headers, one.body)) is not None
        ),
        archived_an_hour=grown if len(newest) == SAMPLE else None,
    )


def findings(seen: Seen, program: Program | None = None) -> list[Remark]:
    """What to see to. Problems come first."""
    found = [*_of_server(seen.server), *seen.ailments]
    for queue in seen.queues:
        found += _of_queue(queue)
        declared = None if program is None else program.get(queue.name)
        if program is not None and declared is None:
            text = f"the program does not know this queue, which holds {_content(queue.stats)}"
            found.append(_hint("program", text, queue.name))
        found += _of_kinds(queue, declared)
    for name, declared in (program or {}).items():
        here = next((queue for queue in seen.queues if queue.name == name), None)
        found += _of_declared(name, declared, here)
    return sorted(found, key=lambda remark: remark.level != "problem")


def _of_server(server: Server | None) -> Iterator[Remark]:
    if server is None:
        return
    for finding in server.findings:
        yield _problem(finding.topic, finding.text)
    for finding in server.remarks:
        yield _hint(finding.topic, finding.text)
    if abs(server.ahead) > max(SKEW, server.round_trip):
        way = "ahead of" if server.ahead > 0 else "behind"
        yield _problem(
            "clock",
            f"the server's clock is {abs(server.ahead):.1f} s {way} the one here: jobs sent with "
            "at=, and schedules, are off by that. Set both by NTP",
        )
    if server.round_trip > SLOW:
        yield _hint(
            "distance",
            f"an answer takes {server.round_trip * 1000:.0f} ms: every job needs several. Run "
            "workers near the server",
        )


def _of_queue(queue: Look) -> Iterator[Remark]:
    stats, name = queue.stats, queue.name
    waiting = stats.ready + stats.delayed
    oldest = stats.oldest_due or 0.0
    if stats.paused:
        since = f", and {_jobs(waiting, 'waits', 'wait')}" if waiting else ", and empty"
        make = _problem if waiting else _hint
        yield make("paused", f"it is paused{since}. Go on with: bee resume {name}", name)
    elif stats.ready and not queue.workers:
        yield _problem(
            "no worker",
            f"{_ready(stats)}, and nobody works on it. Start bee worker with the program that "
            "handles it",
            name,
        )
    elif stats.ready and oldest > LONG:
        make = _problem if oldest > OLD else _hint
        yield make("late", f"{_ready(stats)}, {_why_late(queue)}", name)
    if (total := sum(stats.archived.values())) > MANY:
        speed = queue.archived_an_hour
        lately = "" if speed is None else f", of late about {speed:.0f} an hour"
        yield _problem(
            "archive",
            f"{total} jobs are in its archive{lately}. Delete old ones now and then: "
            f"bee purge {name} --archive --older-than 30d",
            name,
        )
    if bad := {why: stats.archived[why] for why in _BAD if stats.archived.get(why)}:
        said = ", ".join(f"{number} {why}" for why, number in bad.items())
        how = f"bee list {name} --group says of what, bee retry tries them again"
        yield _hint("failures", f"in its archive: {said}. {how}", name)
    versions = sorted({found.version for one in queue.workers if (found := presence_of(one))})
    if len(versions) > 1:
        said = ", ".join(versions)
        yield _hint("versions", f"its workers have different versions of bee: {said}", name)


def _why_late(queue: Look) -> str:
    known = [found.concurrency for one in queue.workers if (found := presence_of(one))]
    slots, busy = sum(known), queue.stats.leased
    if slots and busy >= slots:
        return f"and all {slots} slots are busy: start more processes, or raise --concurrency"
    if slots:
        return (
            f"though only {busy} of {slots} slots are busy: a key, a rate or a blocked loop holds "
            f"them back. Ask about one: bee explain {queue.name} ID"
        )
    return "though somebody works on it. Ask about one: bee explain " + queue.name + " ID"


def _of_kinds(queue: Look, declared: Declared | None) -> Iterator[Remark]:
    """Kinds of jobs that nobody knows: the program, or the workers that are there."""
    known, who = _known_kinds(queue, declared)
    if known is None:
        return
    if strange := _some(queue.waiting.keys() - known):
        yield _problem(
            "kinds",
            f"jobs wait whose kind {who} not know: {strange}. Deploy what knows them, or cancel "
            "them: they are offered a few times, and then archived",
            queue.name,
        )
    if declared is not None and (strange := _some(queue.archived.keys() - known)):
        text = f"in its archive are kinds that {who} not know: {strange}. Retrying them is in vain"
        yield _hint("kinds", text, queue.name)


def _known_kinds(queue: Look, declared: Declared | None) -> tuple[frozenset[str] | None, str]:
    if declared is not None:
        return declared.kinds, "the program does"
    present = [presence_of(one) for one in queue.workers]
    kinds = [one.kinds for one in present if one is not None and one.kinds is not None]
    if not kinds or len(kinds) < len(present):
        return None, ""
    return frozenset(kind for some in kinds for kind in some), "its workers do"


def _of_declared(name: str, declared: Declared, here: Look | None) -> Iterator[Remark]:
    if declared.problem is not None:
        yield _problem("handlers", declared.problem, name)
    if declared.sends_only:
        workers = 0 if here is None else len(here.workers)
        others = f"{workers} work on it" if workers else "nobody works on it"
        make = _hint if workers or here is None or not here.stats.ready else _problem
        text = f"the program has no handler for this queue; {others}. Give it one, or another "
        yield make("handlers", text + "program a worker", name)


def _problem(topic: str, text: str, queue: str | None = None) -> Remark:
    return Remark(level="problem", topic=topic, text=text, queue=queue)


def _hint(topic: str, text: str, queue: str | None = None) -> Remark:
    return Remark(level="hint", topic=topic, text=text, queue=queue)


def _some(kinds: set[str]) -> str:
    shown = sorted(kinds)
    return ", ".join(shown[:5]) + (f" and {len(shown) - 5} more" if len(shown) > 5 else "")


def _jobs(number: int, one: str, many: str) -> str:
    return f"1 job {one}" if number == 1 else f"{number} jobs {many}"


def _ready(stats: QueueStats) -> str:
    return (
        f"{_jobs(stats.ready, 'is', 'are')} ready, the oldest for {_age(stats.oldest_due or 0.0)}"
    )


def _content(stats: QueueStats) -> str:
    return f"{stats.live} live jobs and {sum(stats.archived.values())} archived"


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
