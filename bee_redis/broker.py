"""The broker on Redis and Valkey: each verb packs its arguments, runs its script, reads the reply.

No rule of bee lives here. What the verbs mean is in `lua/`, file by file.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from bee_core.broker import Store
from bee_core.disposition import Terminal
from bee_core.duration import Duration, seconds
from bee_core.errors import BrokerClosed, IdTaken, InvalidName, InvalidOption, OutcomeUnknown
from bee_core.message import (
    Draft,
    Lease,
    Receipt,
    Sent,
    Settlement,
    check_draft,
    check_holder,
    check_ids,
    check_queue,
    check_terminal,
    check_whole,
)
from bee_core.url import Url
from bee_redis import keys
from bee_redis.address import Links, links
from bee_redis.bell import Bell
from bee_redis.check import check_server
from bee_redis.connection import Link, run_script
from bee_redis.inspector import RedisInspector
from bee_redis.records import (
    draft_arguments,
    is_plain,
    lease,
    microseconds,
    settlement_arguments,
    terminal_code,
)
from bee_redis.scripts import SCRIPTS

_SENT = {
    ord("c"): Sent.CREATED,
    ord("k"): Sent.KEPT,
    ord("u"): Sent.UPDATED,
    ord("b"): Sent.BLOCKED,
}
_BELLS = 64
"""Queues that one broker object may wait on at once."""
_MOST = 1000
"""Messages in one script: more would hold up the server's other clients."""


class RedisBroker(RedisInspector, Store):
    """Messages on a Redis or Valkey server.

    pool_size   connections at most, beside the one or two that wait for wake-ups
    deadline    seconds after which a call that got no answer is given up
    prefix      what every key begins with
    fsync       a send is confirmed by WAITAOF: it is on the server's disk
    replicas    a send is confirmed by WAIT: that many replicas have it
    check       look at the server's settings when it is first used
    """

    def __init__(
        self,
        url: str = "redis://localhost",
        *,
        pool_size: int = 10,
        deadline: Duration = 5.0,
        prefix: str = keys.PREFIX,
        fsync: bool = False,
        replicas: int = 0,
        check: bool = True,
    ) -> None:
        address = Url(url)
        self._read_options(
            links(address, deadline=seconds(deadline, "deadline", least=0.01)),
            pool_size=pool_size,
            deadline=seconds(deadline, "deadline", least=0.01),
            prefix=prefix,
            fsync=fsync,
            replicas=replicas,
            check=check,
        )
        address.finish()

    @classmethod
    def from_url(cls, url: Url) -> RedisBroker:
        """`redis://`, `rediss://`, `unix://`, and the two with `+cluster` and `+sentinel`."""
        broker = cls.__new__(cls)
        deadline = url.number("deadline", least=0.01) or 5.0
        broker._read_options(
            links(url, deadline=deadline),
            pool_size=url.integer("pool_size") or 10,
            deadline=deadline,
            prefix=url.string("prefix") or keys.PREFIX,
            fsync=url.flag("fsync") or False,
            replicas=url.integer("replicas") or 0,
            check=url.flag("check") is not False,
        )
        url.finish()
        return broker

    def _read_options(
        self,
        where: Links,
        *,
        pool_size: int,
        deadline: float,
        prefix: str,
        fsync: bool,
        replicas: int,
        check: bool,
    ) -> None:
        if where.cluster and (fsync or replicas):
            raise InvalidOption("fsync and replicas are not to be had in a cluster")
        self._where = where
        self._pool_size = pool_size
        self._deadline = deadline
        self._prefix = prefix
        self._confirm: tuple[Any, ...] = ()
        if fsync or replicas:
            patience = int(deadline * 900)
            self._confirm = (
                ("WAITAOF", 1, replicas, patience) if fsync else ("WAIT", replicas, patience)
            )
        self._check = check
        self._start_afresh()

    def _start_afresh(self) -> None:
        """Nothing is open yet."""
        self._link: Link | None = None
        self._waiting: Link | None = None
        self._bells: dict[str, Bell] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self._known: set[str] = set()
        self._next: dict[str, float] = {}
        self._closed = False

    def clone(self) -> RedisBroker:
        broker = type(self).__new__(type(self))
        broker.__dict__.update(self.__dict__)
        broker._start_afresh()
        return broker

    async def aclose(self) -> None:
        self._closed = True
        for bell in self._bells.values():
            await bell.aclose()
        opened, self._link, self._waiting = (self._link, self._waiting), None, None
        for link in opened:
            if link is not None:
                await link.aclose()

    def __repr__(self) -> str:
        return f"<RedisBroker on {self._where.shown}>"

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        if len({check_draft(draft).id for draft in drafts}) < len(drafts):
            raise InvalidName("the ids of one send must be distinct")
        if len(drafts) > _MOST:
            raise InvalidOption(f"{len(drafts)} drafts in one send; at most {_MOST}")
        await self._register(queue)
        if not drafts:
            return []
        arguments = [part for draft in drafts for part in draft_arguments(draft)]
        reply = await self._run("send", queue, *arguments, confirm=self._confirm)
        if self._confirm:
            reply, confirmed = reply
            self._check_confirmed(confirmed)
        if isinstance(reply, list):
            raise IdTaken(queue, (id.decode() for id in reply))
        return [_SENT[letter] for letter in reply]

    async def lease(
        self, queue: str, *, limit: int, duration: float, holder: str
    ) -> Sequence[Lease]:
        check_whole(limit, "limit", least=1)
        check_holder(holder)
        hidden = microseconds(seconds(duration, "duration", least=0.001))
        reply = await self._run("lease", queue, min(limit, _MOST), hidden, holder)
        pause = reply[0]
        self._next[queue] = int(pause) / 1_000_000 if pause else math.inf
        return [lease(*reply[i : i + 3]) for i in range(1, len(reply), 3)]

    async def extend(
        self, queue: str, receipts: Sequence[Receipt], *, duration: float
    ) -> AbstractSet[Receipt]:
        hidden = microseconds(seconds(duration, "duration", least=0.001))
        lost: set[Receipt] = set()
        for start in range(0, len(receipts), _MOST):
            page = receipts[start : start + _MOST]
            pairs = [part for receipt in page for part in (receipt.id, receipt.token)]
            lost |= {page[index] for index in await self._run("extend", queue, hidden, *pairs)}
        return lost

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        for settlement in settlements:
            for draft in settlement.then:
                check_draft(draft)
        lost: set[Receipt] = set()
        for start in range(0, len(settlements), _MOST):
            lost |= await self._settle(queue, settlements[start : start + _MOST])
        return lost

    async def _settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        plain = [s for s in settlements if is_plain(s)]
        others = (
            [s for s in settlements if not is_plain(s)] if len(plain) < len(settlements) else []
        )
        arguments: list[str | int | bytes] = [len(plain)]
        for settlement in plain:
            arguments += (settlement.receipt.id, settlement.receipt.token)
        for settlement in others:
            arguments += settlement_arguments(settlement)
        ordered = plain + others
        return {ordered[i].receipt for i in await self._run("settle", queue, *arguments)}

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> AbstractSet[str]:
        if not check_ids(ids):
            check_queue(queue)
            return set()
        reply = await self._run(
            "cancel", queue, terminal_code(check_terminal(to)), int(running), *ids
        )
        return {ids[index] for index in reply}

    async def wait(self, queue: str, *, timeout: float) -> None:
        """Wait for a wake-up. The message itself is never popped, so none can be lost here."""
        timeout = seconds(timeout, "timeout")
        check_queue(queue)
        self._check_usable()
        pause = min(timeout, self._next.pop(queue, math.inf))
        if pause <= 0:
            return
        await self._bell(queue).wait(pause)

    async def _run(
        self, verb: str, queue: str, *arguments: Any, confirm: tuple[Any, ...] = ()
    ) -> Any:
        names = keys.keys(self._prefix, check_queue(queue))
        link = self._link or await self._open()
        self._check_usable()
        return await run_script(
            link, SCRIPTS[verb], names, *arguments, deadline=self._deadline, confirm=confirm
        )

    async def _names(self) -> Sequence[str]:
        link = await self._open()
        registry = keys.registry(self._prefix)
        members = await link.call(registry, b"SMEMBERS", registry, deadline=self._deadline)
        return [name.decode() for name in members]

    async def _register(self, queue: str) -> None:
        """Once per queue: let `queues` know of it, before anything is in it."""
        check_queue(queue)
        if queue not in self._known:
            link, registry = await self._open(), keys.registry(self._prefix)
            await link.call(registry, b"SADD", registry, queue, deadline=self._deadline)
            self._known.add(queue)

    async def _forget(self, queue: str) -> None:
        self._known.discard(queue)
        link, registry = await self._open(), keys.registry(self._prefix)
        await link.call(registry, b"SREM", registry, queue, deadline=self._deadline)

    async def _open(self) -> Link:
        self._check_usable()
        async with self._opening:
            if self._link is None:
                link = self._where.make(self._pool_size)
                try:
                    if self._check:
                        cluster = self._where.cluster
                        await check_server(link, cluster=cluster, deadline=self._deadline)
                except BaseException:
                    await link.aclose()
                    raise
                self._link = link
        return self._link

    def _bell(self, queue: str) -> Bell:
        if self._waiting is None:
            self._waiting = self._where.make(_BELLS)
        if queue not in self._bells:
            key = keys.bell(self._prefix, queue)
            self._bells[queue] = Bell(self._waiting, key, deadline=self._deadline)
        return self._bells[queue]

    def _check_usable(self) -> None:
        if self._closed:
            raise BrokerClosed("this RedisBroker was closed")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise BrokerClosed("this RedisBroker belongs to another event loop: use clone()")

    def _check_confirmed(self, confirmed: Any) -> None:
        wanted = self._confirm[1:-1]
        got = tuple(confirmed) if isinstance(confirmed, list) else (confirmed,)
        if any(have < want for have, want in zip(got, wanted, strict=True)):
            raise OutcomeUnknown(
                f"stored, but confirmed by {got} instead of {wanted} in time; safe to send again"
            )
