"""The broker on Redis and Valkey: each verb packs its arguments, runs its script, reads the reply.

No rule of bee lives here. What the verbs mean is in `lua/`, file by file.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Self, cast

from bee_core.broker import NOTHING, Store
from bee_core.checks import (
    check_about,
    check_draft,
    check_holder,
    check_id,
    check_ids,
    check_progress,
    check_queue,
    check_remarks,
    check_terminal,
    check_whole,
)
from bee_core.disposition import Terminal
from bee_core.duration import Duration, seconds
from bee_core.errors import BrokerError, IdTaken, InvalidName, InvalidOption
from bee_core.message import (
    THROTTLE,
    Draft,
    Lease,
    Receipt,
    Report,
    Sent,
    Settlement,
    Throttle,
)
from bee_core.packing import is_plain
from bee_core.url import Url, as_url
from bee_redis import keys
from bee_redis.address import links
from bee_redis.connection import did_nothing
from bee_redis.ids import pack_id, unpack_id
from bee_redis.inspector import RedisInspector
from bee_redis.leases import lease_terms, leases
from bee_redis.pages import MOST, at, paged
from bee_redis.records import (
    drafts_arguments,
    is_plain_end,
    microseconds,
    plain_first,
    receipt_arguments,
    report,
    settlements_arguments,
    terminal_code,
)
from bee_redis.resp import Part
from bee_redis.scripts import SCRIPTS, keys_for
from bee_redis.standing import Orders, StandingOrder

_SENT = {
    ord("c"): Sent.CREATED,
    ord("k"): Sent.KEPT,
    ord("u"): Sent.UPDATED,
    ord("b"): Sent.BLOCKED,
}


class RedisBroker(RedisInspector, Store):
    """Messages on a Redis or Valkey server.

    pool_size   connections at most, beside one or two for each queue that is waited for
    deadline    seconds after which a call that got no answer is given up
    prefix      what every key begins with
    fsync       a send is confirmed by WAITAOF: it is on the server's disk
    replicas    a send is confirmed by WAIT: that many replicas have it
    check       look at the server's settings when it is first used
    shards      spread each queue over that many parts: see `bee_redis.sharded`
    """

    def __new__(cls, *_: object, shards: int | None = None, **__: object) -> Self:
        if shards is not None and cls is RedisBroker:
            from bee_redis.sharded import ShardedBroker  # which builds upon this

            return cast(Self, object.__new__(ShardedBroker))
        return object.__new__(cls)

    def __init__(
        self,
        url: str | Url = "redis://localhost",
        *,
        pool_size: int = 10,
        deadline: Duration = 5.0,
        prefix: str = keys.PREFIX,
        fsync: bool = False,
        replicas: int = 0,
        check: bool = True,
        shards: int | None = None,
    ) -> None:
        address = url if isinstance(url, Url) else Url(url := as_url(url))
        self._deadline = deadline = seconds(deadline, "deadline", least=0.01)
        self._where = where = links(address, deadline=deadline)
        if where.cluster and (fsync or replicas):
            raise InvalidOption("fsync and replicas are not to be had in a cluster")
        if not prefix or not prefix.isprintable() or "{" in prefix or "}" in prefix:
            raise InvalidOption(f"prefix must be printable text without braces, not {prefix!r}")
        self._pool_size = check_whole(pool_size, "pool_size", least=1)
        self._prefix = prefix
        self._fsync = fsync
        self._confirm = ()
        if check_whole(replicas, "replicas", least=0) or fsync:
            # The server looks at its clock ten times a second, and the answer has to come in time.
            patience = round(1000 * max(deadline / 2, deadline - 0.5))
            self._confirm = (
                ("WAITAOF", 1, replicas, patience) if fsync else ("WAIT", replicas, patience)
            )
        self._check = check
        address.finish()
        self._start_afresh()

    @classmethod
    def from_url(cls, url: Url) -> RedisBroker:
        """`redis://`, `rediss://`, `unix://`, and the two with `+cluster` and `+sentinel`."""
        return cls(
            url,
            pool_size=url.integer("pool_size") or 10,
            deadline=url.number("deadline", least=0.01) or 5.0,
            prefix=url.string("prefix") or keys.PREFIX,
            fsync=url.flag("fsync") or False,
            replicas=url.integer("replicas") or 0,
            check=url.flag("check") is not False,
            shards=url.integer("shards"),
        )

    def _start_afresh(self) -> None:
        super()._start_afresh()
        self._standing = Orders()
        self._due: dict[str, float] = {}
        """By queue: when something will be ready there by itself, as far as is known here."""

    def clone(self) -> RedisBroker:
        broker = type(self).__new__(type(self))
        broker.__dict__.update(self.__dict__)
        broker._start_afresh()
        return broker

    def __repr__(self) -> str:
        # A traceback may show one that was never finished.
        return f"<RedisBroker on {self._where.shown if hasattr(self, '_where') else 'nowhere'}>"

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        for draft in drafts:
            check_draft(draft)
        if len(drafts) > 1 and len({draft.id for draft in drafts}) < len(drafts):
            raise InvalidName("the ids of one send must be distinct")
        if len(drafts) > MOST:
            raise InvalidOption(f"{len(drafts)} drafts in one send; at most {MOST}")
        if not drafts:
            check_queue(queue)
            self._check_usable()
            return []
        reply: Any = b""
        until = self._until()
        if len(drafts) == 1 and is_plain(drafts[0]) and not self._confirm:
            one = pack_id(drafts[0].id), drafts[0].body
            try:
                reply = await self._straight("send_one", queue, one, until)
            except BrokerError as error:
                if not did_nothing(error):
                    raise
                reply = await self._store("send_one", queue, *one, until=until)
            if reply.startswith(b"!"):
                reply = await self._see_to(queue, reply, until)
        if not reply:  # it was not for `send_one.lua`
            reply = await self._store("send", queue, *drafts_arguments(drafts), until=until)
        if isinstance(reply, list):
            raise IdTaken(queue, map(unpack_id, reply))
        return list(map(_SENT.__getitem__, reply))

    async def lease(
        self,
        queue: str,
        *,
        limit: int,
        duration: float,
        holder: str,
        throttle: Throttle = THROTTLE,
    ) -> Sequence[Lease]:
        pause, found = await self._lease(queue, limit, duration, holder, throttle)
        self._expect(queue, pause)
        return found

    def order(
        self,
        queue: str,
        *,
        limit: int,
        duration: float,
        holder: str,
        throttle: Throttle = THROTTLE,
        timeout: float,
    ) -> StandingOrder | None:
        """See `bee_core.broker.Standing`."""
        arguments = self._lease_arguments(queue, limit, duration, holder, throttle)
        names, timeout = keys_for("lease", self._prefix, queue), seconds(timeout, "timeout")
        due = self._due.get(queue, math.inf) - self._check_usable().time()
        # A server looks at its clock too seldom for what is due.
        if self._link is None or not self._takes_orders or due < timeout or self._standing.is_full:
            return None

        def read(reply: bytes) -> Sequence[Lease]:
            pause, found = self._read_leases(queue, reply)
            self._expect(queue, pause)
            return found

        return StandingOrder(
            self._standing,
            self._link,
            self._link_to_wait,
            keys.bell(self._prefix, queue),
            keys.recall(self._prefix, queue, next(self._standing.names)),
            SCRIPTS["lease"].by_name(names, arguments),
            read,
            partial(
                self.lease,
                queue,
                limit=limit,
                duration=duration,
                holder=holder,
                throttle=throttle,
            ),
            timeout=timeout,
            deadline=self._deadline,
        )

    def _expect(self, queue: str, pause: float) -> None:
        """Something will be ready by itself in so many seconds. What was known before stays known.

        Answers may come in another order than they were given: a look in vain is cheap.
        """
        now = asyncio.get_running_loop().time()
        known = self._due.get(queue, math.inf)
        self._due[queue] = min(now + pause, known if known > now else math.inf)
        if bell := self._bells.get(queue):
            bell.expect(self._due[queue])

    async def _lease(
        self, queue: str, limit: int, duration: float, holder: str, throttle: Throttle
    ) -> tuple[float, Sequence[Lease]]:
        """Leases, and the seconds until something more will be ready by itself."""
        arguments = self._lease_arguments(queue, limit, duration, holder, throttle)
        return self._read_leases(queue, await self._run("lease", queue, *arguments))

    def _lease_arguments(
        self, queue: str, limit: int, duration: float, holder: str, throttle: Throttle
    ) -> tuple[Part, ...]:
        if type(limit) is not int or limit < 1:
            check_whole(limit, "limit", least=1)
        try:
            terms = lease_terms(duration, holder, throttle)
        except TypeError:  # one of them cannot be looked up: what is wrong with it is said here
            terms = lease_terms.__wrapped__(duration, holder, throttle)
        return (min(limit, MOST), *terms, *self._tokens_of(queue))

    def _read_leases(self, queue: str, reply: bytes) -> tuple[float, Sequence[Lease]]:
        pause, found = leases(reply, *self._tokens_of(queue)[:1])
        return math.inf if pause is None else pause, found

    def _tokens_of(self, queue: str) -> tuple[int, ...]:
        """Which tokens are to be given: every n-th, and from where on. All, if nothing is said."""
        return ()

    async def extend(
        self,
        queue: str,
        receipts: Sequence[Receipt],
        *,
        duration: float,
        progress: Mapping[str, str] = NOTHING,
        remarks: Mapping[str, str] = NOTHING,
    ) -> AbstractSet[Receipt]:
        hidden = microseconds(seconds(duration, "duration", least=0.001))
        check_progress(progress)
        check_remarks(remarks)

        def arguments(receipt: Receipt) -> tuple[str | bytes | int, ...]:
            said = (progress.get(receipt.id, ""), remarks.get(receipt.id, ""))
            return (*receipt_arguments(receipt), *said)

        pages = [
            [hidden, *(part for receipt in page for part in arguments(receipt))]
            for page in paged(receipts)
        ]
        replies = await self._run_pages("extend", queue, pages)
        return at(replies, receipts)

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        if not (are_plain := all(map(is_plain_end, settlements))):
            settlements = plain_first(settlements)
        pages = [settlements_arguments(page, are_plain) for page in paged(settlements)]
        replies = await self._run_pages("settle", queue, pages)
        return at(replies, [settlement.receipt for settlement in settlements])

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> AbstractSet[str]:
        what = (terminal_code(check_terminal(to)), int(running))
        pages = [[*what, *map(pack_id, page)] for page in paged(check_ids(ids))]
        return at(await self._run_pages("cancel", queue, pages), ids)

    async def wait(self, queue: str, *, timeout: float) -> None:
        """Wait for a wake-up. The message itself is never popped, so none can be lost here."""
        timeout = seconds(timeout, "timeout")
        check_queue(queue)
        self._check_usable()
        due = self._due.get(queue, math.inf)
        pause = min(timeout, due - asyncio.get_running_loop().time())
        if pause <= 0:
            return
        if bell := self._bell(queue):
            await bell.wait(timeout, due)
        else:
            await asyncio.sleep(pause)

    async def results(self, queue: str, ids: Sequence[str]) -> Mapping[str, Report]:
        found: dict[str, Report] = {}
        check_queue(queue)
        for page in paged(check_ids(ids)):
            reply = await self._run("results", queue, *map(pack_id, page))
            pairs = zip(page, reply, strict=True)
            found |= {id: report(id, packed) for id, packed in pairs if packed}
        return found

    async def reports(
        self, queue: str, id: str, *, after: str = "", limit: int = 1000
    ) -> Sequence[Report]:
        limit = min(check_whole(limit, "limit", least=1), MOST)
        reply = await self._run("reports", queue, pack_id(check_id(id)), after, limit)
        return [report(unpack_id(reply[i]), reply[i + 1]) for i in range(0, len(reply), 2)]

    async def announce(self, queue: str, holder: str, *, about: str, duration: float) -> None:
        lasting = microseconds(seconds(duration, "duration"))
        await self._run("announce", queue, check_holder(holder), lasting, check_about(about))
