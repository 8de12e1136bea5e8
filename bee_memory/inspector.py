"""The operator's half of the memory broker: looking, and acting on what is not leased."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from bee_core.adoption import check_adopted, check_expelled, in_arrival
from bee_core.broker import Inspector
from bee_core.checks import check_id, check_ids, check_queue, check_whole
from bee_core.duration import seconds
from bee_core.errors import BrokerClosed, BrokerFull, InvalidOption
from bee_core.message import NO_REPORTS, Draft, Report, Update
from bee_core.stored import Holder, Page, QueueStats, State, Stored
from bee_memory.messages import Message, adopted
from bee_memory.state import Announced, Memory, Queue

_CHANGEABLE = ("incarnation", "body", "headers", "priority", "key", "due_at", "counters")


class MemoryInspector(Inspector):
    """Every verb of Inspector, over the same memory as the broker."""

    _memory: Memory
    _closed: bool

    async def queues(self) -> Sequence[str]:
        with self._memory.lock:
            self._check_open()
            named = self._memory.queues.items()
            return sorted(name for name, q in named if q.live or q.archive or q.paused)

    async def stats(self, queue: str) -> QueueStats:
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            states = [message.state(now) for message in q.live.values()]
            ready = [m.due for m in q.live.values() if m.state(now) is State.READY]
            archived: dict[str, int] = {}
            for stored in q.archive.values():
                reason = stored.note.reason if stored.note else "ruled"
                archived[reason] = archived.get(reason, 0) + 1
            return QueueStats(
                ready=len(ready),
                delayed=states.count(State.DELAYED),
                leased=states.count(State.LEASED),
                blocked=sum(message.successor is not None for message in q.live.values()),
                archived=archived,
                oldest_due=now - min(ready) if ready else None,
                paused=q.paused,
                created=q.created,
                token=self._memory.token,
            )

    async def get(self, queue: str, id: str) -> Stored | None:
        check_id(id)
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            message = q.live.get(id)
            return q.archived(id) if message is None else message.stored(message.state(now))

    async def scan(
        self, queue: str, state: State, *, after: str | None = None, limit: int = 100
    ) -> Page:
        check_whole(limit, "limit", least=1)
        start = () if after is None else _read_mark(after)
        with self._memory.lock:
            found = sorted(self._in_state(self._open(queue), state), key=lambda item: item[0])
        try:
            rest = [(key, stored) for key, stored in found if key > start]
        except TypeError as error:
            raise InvalidOption(f"after must come from a page of this scan: {error}") from error
        page = rest[:limit]
        more = msgspec.json.encode(page[-1][0]).decode() if len(rest) > limit else None
        return Page([stored for _, stored in page], more)

    def _in_state(self, q: Queue, state: State) -> Iterable[tuple[tuple[float | str, ...], Stored]]:
        """The messages in that state, each with what `scan` orders by."""
        now = self._memory.clock.now()
        if state is State.ARCHIVED:
            for stored in q.archive.values():
                yield (-(stored.archived_at or 0.0), -stored.incarnation), stored
            return
        for message in q.live.values():
            if state is State.BLOCKED and message.successor is not None:
                blocked = message.successor.message().stored(State.BLOCKED)
                yield (message.id,), blocked
            elif message.state(now) is state:
                leased = state is State.LEASED
                place = (int(message.parked), *message.place)
                key = (message.visible_at, message.sequence) if leased else place
                yield key, message.stored(state)

    async def restore(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            missing = set()
            for id in check_ids(ids):
                old = q.archived(id)
                if old is None or id in q.live:
                    missing.add(id)
                    continue
                del q.archive[id, old.incarnation]
                draft = Draft(
                    id,
                    old.body,
                    priority=old.priority,
                    headers=old.headers,
                    key=old.key,
                    awaits=old.awaits,
                    reports_to=old.reports_to,
                )
                q.create(self._memory.arrive(draft, Update(), now), now, old.history)
            q.ring(len(ids) - len(missing), self._memory.clock.now())
            return missing

    async def prune(
        self, queue: str, *, older_than: float = 0.0, keep: int = 0, limit: int = 1000
    ) -> int:
        older_than = seconds(older_than, "older_than")
        check_whole(keep, "keep", least=0)
        check_whole(limit, "limit", least=0)
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            oldest = list(q.archive.items())[: max(0, len(q.archive) - keep)][:limit]
            gone = [key for key, s in oldest if (s.archived_at or 0.0) <= now - older_than]
            for key in gone:
                del q.archive[key]
            for id, _ in gone:
                q.forget_reports(id)
            return len(gone)

    async def purge(self, queue: str) -> int:
        with self._memory.lock:
            q, purged = self._open(queue), 0
            for message in list(q.live.values()):
                if message.token is None:
                    del q.live[message.id]
                    q.forget_reports(message.id)
                    purged += 1
                elif message.successor is not None:
                    message.successor = None
                    purged += 1
            return purged

    async def drop(self, queue: str) -> None:
        with self._memory.lock:
            bells = self._open(queue).bells
            self._memory.queues[queue] = Queue(bells=bells)

    async def pause(self, queue: str) -> None:
        with self._memory.lock:
            self._open(queue).paused = True

    async def resume(self, queue: str) -> None:
        with self._memory.lock:
            q = self._open(queue)
            q.paused = False
            q.ring(len(q.bells), self._memory.clock.now())

    async def adopt(
        self,
        queue: str,
        messages: Sequence[Stored],
        *,
        reports: Mapping[str, Sequence[Report]] = NO_REPORTS,
        beyond: int = 0,
    ) -> Sequence[Stored]:
        check_adopted(messages, reports, beyond)
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            self._check_room(q, queue, messages)
            self._memory.token = max(self._memory.token, beyond)  # 1. outgrow
            known = {_moments(stored) for stored in q.archive.values()}
            order = in_arrival(messages)
            left = {n for n in order if not self._adopt(q, messages[n], known, now)}
            q.sort_archive()
            rings = len(messages) - len(left)
            for id, told in reports.items():  # 4. hear
                if q.hear(id, told) and (message := q.live[id]).due > now:
                    message.due, message.sequence = now, next(self._memory.sequence)
                    q.enter(message, now)
                    rings += 1
            q.ring(rings, self._memory.clock.now())  # 5. ring
            return [message for n, message in enumerate(messages) if n in left]

    def _adopt(self, q: Queue, stored: Stored, known: set[object], now: float) -> bool:
        """Take in one message. Whether it was not here yet."""
        if stored.archived_at is None:  # 2. take
            if stored.id in q.live:
                return False
            if stored.awaits:
                q.reports.pop(stored.id, None)
            q.created += 1
            q.enter(adopted(stored, next(self._memory.sequence)), now)
            return True
        if _moments(stored) in known:  # 3. keep
            return False
        known.add(_moments(stored))
        message = adopted(stored, next(self._memory.sequence))
        kept = message.stored(State.ARCHIVED, stored.archived_at)
        q.archive[message.id, message.incarnation] = kept
        return True

    def _check_room(self, q: Queue, queue: str, messages: Sequence[Stored]) -> None:
        most = self._memory.max_length
        fresh = {one.id for one in messages if one.archived_at is None} - q.live.keys()
        if most is not None and fresh and len(q.live) + len(fresh) > most:
            raise BrokerFull(f"queue {queue!r} is full: max_length={most}")

    async def expel(self, queue: str, messages: Sequence[Stored]) -> Sequence[Stored]:
        check_expelled(messages)
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            left = [seen for seen in messages if not self._expel(q, seen, now)]
            q.ring(sum(seen.key is not None for seen in messages), now)  # 4. ring
            return left

    def _expel(self, q: Queue, seen: Stored, now: float) -> bool:
        """Delete one message, if it is as it was seen. Whether it was."""
        if seen.archived_at is not None:  # 1. check, 2. delete
            found = q.archive.pop((seen.id, seen.incarnation), None) is not None
        else:
            message = q.live.get(seen.id)
            found = message is not None and message.token is None and _is_same(message, seen)
            if found:
                del q.live[seen.id]
                q.let_go(seen.key, seen.id, now)  # 3. let go
        if found:
            q.forget_reports(seen.id)
        return found

    async def workers(self, queue: str) -> Sequence[Holder]:
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            ends: dict[str, list[float]] = {}
            for message in q.live.values():
                if message.state(now) is State.LEASED and message.holder is not None:
                    ends.setdefault(message.holder, []).append(message.visible_at)
            said = {name: one for name, one in q.announced.items() if one.until > now}
            return [
                _holder(name, ends.get(name, []), said.get(name))
                for name in sorted(ends.keys() | said.keys())
            ]

    def _check_open(self) -> None:
        if self._closed:
            raise BrokerClosed("this MemoryBroker was closed")

    def _open(self, queue: str) -> Queue:
        self._check_open()
        return self._memory.queue(check_queue(queue))


def _moments(stored: Stored) -> object:
    """What tells an archived message from all others, in any store."""
    return stored.id, stored.sent_at, stored.archived_at


def _is_same(message: Message, seen: Stored) -> bool:
    """Whether nothing has been done with a message since it was seen."""
    now = message.stored(seen.state)
    return all(getattr(now, name) == getattr(seen, name) for name in _CHANGEABLE)


def _holder(name: str, ends: Sequence[float], said: Announced | None) -> Holder:
    """Somebody who holds leases with those ends, and has announced itself or not."""
    holder = Holder(name, len(ends), min(ends, default=None))
    if said is None:
        return holder
    return msgspec.structs.replace(holder, since=said.since, until=said.until, about=said.about)


def _read_mark(after: str) -> tuple[float | str, ...]:
    """Where the last page ended."""
    try:
        return msgspec.json.decode(after, type=tuple[float | str, ...])
    except msgspec.DecodeError as error:
        raise InvalidOption(f"after must come from a page of this scan: {error}") from error
