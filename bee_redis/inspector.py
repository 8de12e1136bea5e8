"""The operator's half of the Redis broker."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from bee_core.adoption import Batch, batches, check_adopted, check_expelled
from bee_core.broker import Described, Inspector
from bee_core.checks import check_id, check_ids, check_queue, check_whole
from bee_core.duration import seconds
from bee_core.errors import BrokerUnavailable, InvalidOption, OutcomeUnknown, part_done
from bee_core.message import NO_REPORTS, Report
from bee_core.stored import Holder, Page, QueueStats, Server, State, Stored
from bee_core.text import readable
from bee_redis.adopting import adoption_arguments, seen
from bee_redis.describe import describe
from bee_redis.ids import pack_id, unpack_id
from bee_redis.pages import MOST, at, paged
from bee_redis.records import announced_holder, blocked, microseconds, stored
from bee_redis.session import Session


class RedisInspector(Session, Inspector, Described):
    """Every verb of Inspector, each as its script."""

    async def describe(self) -> Server:
        """Over a link of its own: the other one is only to be had to a server that will do."""
        self._check_usable()
        link = self._where.make(1)
        options = {"cluster": self._where.cluster, "fsync": self._fsync}
        try:
            return await describe(link, **options, until=self._until())
        except OutcomeUnknown as error:  # it was only looked at
            raise BrokerUnavailable(str(error)) from error
        finally:
            await link.aclose()

    async def queues(self) -> Sequence[str]:
        return [name for name in sorted(await self._names()) if await self._holds(name)]

    async def _holds(self, queue: str) -> bool:
        stats = await self.stats(queue)
        return bool(stats.live or stats.archived or stats.paused)

    async def stats(self, queue: str) -> QueueStats:
        reply = await self._run("stats", queue)
        ready, delayed, leased, waiting, paused, oldest, created, token, *reasons = reply
        return QueueStats(
            ready=ready,
            delayed=delayed,
            leased=leased,
            blocked=waiting,
            archived={readable(reasons[i]): int(reasons[i + 1]) for i in range(0, len(reasons), 2)},
            oldest_due=int(oldest) / 1_000_000 if oldest else None,
            paused=bool(paused),
            created=int(created),
            token=int(token),
        )

    async def get(self, queue: str, id: str) -> Stored | None:
        packed = pack_id(check_id(id))
        fields = await self._run("get", queue, packed)
        return stored(packed, fields) if fields else None

    async def scan(
        self, queue: str, state: State, *, after: str | None = None, limit: int = 100
    ) -> Page:
        limit = min(check_whole(limit, "limit", least=1), MOST)
        if state is State.BLOCKED:
            return await self._scan_blocked(queue, after, limit)
        start = ("", b"") if after is None else _read_mark(after)
        while not (reply := await self._run("scan", queue, state.value, limit, *start)):
            pass  # more had fallen due than one script may move
        score, member, *rest = reply
        items = [stored(rest[i], rest[i + 1 : i + 6]) for i in range(0, len(rest), 6)]
        more = msgspec.json.encode((score.decode(), member)).decode() if score else None
        return Page(items, more)

    async def _scan_blocked(self, queue: str, after: str | None, limit: int) -> Page:
        ids = sorted(map(unpack_id, await self._run("blocked", queue)))
        rest = [id for id in ids if after is None or id > after]
        page = rest[:limit]
        records = await self._run("blocked", queue, *map(pack_id, page)) if page else []
        items = [blocked(id, msg) for id, msg in zip(page, records, strict=True) if msg]
        return Page(items, page[-1] if len(rest) > limit else None)

    async def restore(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        pages = [list(map(pack_id, page)) for page in paged(check_ids(ids))]
        return at(await self._run_pages("restore", queue, pages), ids)

    async def prune(
        self, queue: str, *, older_than: float = 0.0, keep: int = 0, limit: int = 1000
    ) -> int:
        check_whole(keep, "keep", least=0)
        check_whole(limit, "limit", least=0)
        age = microseconds(seconds(older_than, "older_than"))
        gone = 0
        while gone < limit:
            page = min(MOST, limit - gone)
            with part_done(gone > 0):
                count: int = await self._run("prune", queue, age, keep, page)
            gone += count
            if count < page:
                break
        return gone

    async def purge(self, queue: str) -> int:
        purged, more, mark = 0, 1, ["", b""]
        while more:
            with part_done(purged > 0):
                count, more, *mark = await self._run("purge", queue, MOST, *mark)
            purged += count
        return purged

    async def drop(self, queue: str) -> None:
        await self._run("drop", queue)
        with part_done():
            await self._unlist(queue)
            if await self._holds(queue):  # somebody has sent to it meanwhile
                await self._list(queue)

    async def pause(self, queue: str) -> None:
        if not await self._run("pause", queue):
            with part_done():
                await self._list(queue)

    async def resume(self, queue: str) -> None:
        await self._run("resume", queue)

    async def adopt(
        self,
        queue: str,
        messages: Sequence[Stored],
        *,
        reports: Mapping[str, Sequence[Report]] = NO_REPORTS,
        beyond: int = 0,
    ) -> Sequence[Stored]:
        check_adopted(messages, reports, beyond)
        check_queue(queue)
        self._check_usable()
        todo = batches(messages, reports) or ([Batch([], {})] if beyond else [])
        left: list[int] = []
        for batch in todo:
            arguments = adoption_arguments([messages[n] for n in batch.positions], batch.reports)
            with part_done(batch is not todo[0]):
                taken = await self._store("adopt", queue, beyond, *arguments)
            left += (n for n, how in zip(batch.positions, taken, strict=True) if how != ord("t"))
        return [messages[n] for n in sorted(left)]

    async def expel(self, queue: str, messages: Sequence[Stored]) -> Sequence[Stored]:
        check_expelled(messages)
        todo = [batch.positions for batch in batches(messages)]
        pages = [[part for n in positions for part in seen(messages[n])] for positions in todo]
        replies = await self._run_pages("expel", queue, pages)
        left = [todo[page][index] for page, reply in enumerate(replies) for index in reply]
        return [messages[n] for n in sorted(left)]

    async def workers(self, queue: str) -> Sequence[Holder]:
        ends: dict[str, list[float]] = {}
        found: dict[str, Holder] = {}
        rank = 0
        while True:
            announced, reply = await self._run("workers", queue, MOST, rank)
            for i in range(0, len(announced), 4):
                one = announced_holder(*announced[i : i + 4])
                found[one.name] = one
            for i in range(0, len(reply), 2):
                if (holder := reply[i + 1]) is not None:
                    ends.setdefault(readable(holder), []).append(float(reply[i]) / 1_000_000)
            rank += MOST
            if len(reply) < 2 * MOST:
                break
        for name, until in ends.items():
            held = {"leases": len(until), "leased_until": min(until)}
            found[name] = msgspec.structs.replace(found.get(name) or Holder(name), **held)
        return [found[name] for name in sorted(found)]


def _read_mark(after: str) -> tuple[str, bytes]:
    """Where the last page ended: the score and the member."""
    try:
        score, member = msgspec.json.decode(after, type=tuple[str, bytes])
        if math.isnan(float(score)):
            raise ValueError("no place in any order")
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidOption(f"after must come from a page of this scan: {error}") from error
    return score, member
