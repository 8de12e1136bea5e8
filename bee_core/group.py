"""Groups: many jobs, and one that runs when all of them have ended.

The one is a message that awaits reports, the many are messages that report to it; the store
counts. All that is done here is to give them their ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from bee_core.broker import Broker, Inspector
from bee_core.checks import MOST_AWAITED
from bee_core.duration import LONGEST, Duration, seconds
from bee_core.errors import InvalidName, InvalidOption
from bee_core.ids import new_id
from bee_core.message import Draft, Keep
from bee_core.stored import State

AWAITS_HEADER = "bee-awaits"


class Group(msgspec.Struct, frozen=True):
    """A group that was sent: the id of the job that gathers, and those of the jobs it awaits."""

    id: str
    children: tuple[str, ...]


def plan_group(
    draft: Callable[..., Draft],
    jobs: Iterable[Any],
    then: Any,
    *,
    id: str | None,
    timeout: Duration | None,
    options: dict[str, Any],
) -> tuple[Group, list[Draft]]:
    """The drafts of a group, the one that gathers first. `draft` makes one of a job."""
    name = new_id() if id is None else id
    wait = LONGEST if timeout is None else seconds(timeout, "timeout")
    members = list(jobs)
    if len(members) > MOST_AWAITED:
        raise InvalidOption(f"a group has at most {MOST_AWAITED} jobs, not {len(members)}")
    width = len(str(len(members)))
    children = [
        _checked(job) if isinstance(job, Draft) else draft(job, id=f"{name}/{number:0{width}}")
        for number, job in enumerate(members, start=1)
    ]
    ids = tuple(child.id for child in children)
    twice = [one for one, times in Counter([name, *ids]).items() if times > 1]
    if twice:
        raise InvalidName(f"the ids of a group must be distinct: {', '.join(twice[:10])}")
    callback = draft(then, id=name, delay=wait if children else 0.0, **options)
    headers = dict(callback.headers) | {AWAITS_HEADER: str(len(children))}
    callback = msgspec.structs.replace(callback, headers=headers, awaits=len(children))
    reporting = [msgspec.structs.replace(child, reports_to=name) for child in children]
    return Group(name, ids), [callback, *reporting]


async def not_of(group: Group, ids: Sequence[str], broker: Broker, queue: str) -> Sequence[str]:
    """Those of the ids whose messages, live already, will never play their part in the group."""
    others: list[str] = []
    if not isinstance(broker, Inspector):
        return others
    for id in ids:
        stored = await broker.get(queue, id)
        if stored is None or stored.state is State.ARCHIVED:
            continue
        gathers = id == group.id and stored.awaits == len(group.children)
        if not gathers and stored.reports_to != group.id:
            others.append(id)
    return others


def _checked(child: Draft) -> Draft:
    if not isinstance(child.if_taken, Keep):
        raise InvalidOption(f"draft {child.id!r}: the drafts of a group are sent with Keep()")
    if child.reports_to is not None:
        raise InvalidOption(f"draft {child.id!r} reports to {child.reports_to!r} already")
    return child
