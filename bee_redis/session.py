"""The connections of one broker object, in the one event loop that it is used in."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any

from redis.exceptions import NoScriptError

from bee_core.checks import check_queue, is_queue
from bee_core.errors import (
    BrokerClosed,
    BrokerError,
    BrokerMisconfigured,
    BrokerUnavailable,
    OutcomeUnknown,
    part_done,
)
from bee_core.forks import is_forked, this_process
from bee_core.text import readable
from bee_redis import keys
from bee_redis.address import Links
from bee_redis.bell import Bell
from bee_redis.check import check_server
from bee_redis.connection import Link, close_all
from bee_redis.resp import Part, pack
from bee_redis.scripts import SCRIPTS, keys_for

_BELLS = 64
"""Queues that one broker object listens to; on any further ones it only polls."""


class Session:
    """What the verbs are carried out with. Opens itself at the first call; ends for good."""

    _where: Links
    _pool_size: int
    _deadline: float
    _prefix: str
    _fsync: bool
    _check: bool
    _confirm: tuple[Part, ...]
    _is_spread = False

    def _start_afresh(self) -> None:
        """Nothing is open yet."""
        self._link: Link | None = None
        self._waiting: Link | None = None
        self._bells: dict[str, Bell] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owner: int | None = None  # the process that it is used in
        self._opening = asyncio.Lock()
        self._known: set[str] = set()
        self._closed = False

    async def aclose(self) -> None:
        if is_forked(self._owner):  # its connections are the parent's
            self._closed = True
            return
        elsewhere = self._loop not in (None, asyncio.get_running_loop())
        if elsewhere and self._loop is not None and not self._loop.is_closed():
            raise BrokerClosed("this RedisBroker belongs to another event loop: close it there")
        self._closed = True
        link, self._link = self._link, None
        waiting, self._waiting = self._waiting, None
        bells, self._bells = self._bells, {}
        if elsewhere:
            return  # its connections have ended with the event loop that they belonged to
        try:
            for bell in bells.values():
                await bell.aclose()
        finally:
            await close_all(link, waiting)

    async def _run(
        self,
        verb: str,
        queue: str,
        *arguments: Any,
        confirm: tuple[Part, ...] = (),
        until: float | None = None,
    ) -> Any:
        """Run a script on a queue: by its name, and the first time on a server by its text.

        `until` is the deadline of the verb that it is a part of.
        """
        queue = queue if type(queue) is str else check_queue(queue)
        script, names = SCRIPTS[verb], keys_for(verb, self._prefix, queue)
        until = self._until() if until is None else until
        link = self._link or await self._open(until)
        try:
            try:
                request = script.by_name(names, arguments)
                return await link.call(names.names[0], request, until=until, confirm=confirm)
            except BrokerError as error:
                if not isinstance(error.__cause__, NoScriptError):
                    raise
            request = script.by_text(names, arguments)
            return await link.call(names.names[0], request, until=until, confirm=confirm)
        except BrokerMisconfigured as error:
            if "WRONGTYPE" not in str(error):
                raise
            problem = await self._foreign_to(queue, link, until)
            raise BrokerMisconfigured(problem) from error.__cause__

    async def _store(
        self, verb: str, queue: str, *arguments: Any, until: float | None = None
    ) -> Any:
        """Run a script that stores messages: `queues` knows of them, and they are confirmed."""
        until = self._until() if until is None else until
        if type(queue) is not str or queue not in self._known:
            await self._list_first(check_queue(queue), until)
        reply = await self._run(verb, queue, *arguments, confirm=self._confirm, until=until)
        reply, confirmed = reply if self._confirm else (reply, None)
        if not isinstance(reply, bytes):
            return reply  # nothing was stored
        reply = await self._see_to(queue, reply, until)
        if self._confirm:
            self._check_confirmed(confirmed)
        return reply

    def _straight(
        self, verb: str, queue: str, arguments: tuple[Part, ...], until: float
    ) -> Coroutine[Any, Any, Any]:
        """What the script answers, as it is, and nothing else; or what `_store` makes of it.

        The coroutines between took a thirtieth of the time of a send: docs/adr/0039.
        """
        if self._link is None or type(queue) is not str or queue not in self._known:
            return self._store(verb, queue, *arguments, until=until)
        names = keys_for(verb, self._prefix, queue)
        request = SCRIPTS[verb].by_name(names, arguments)
        return self._link.call(names.names[0], request, until=until)

    async def _see_to(self, queue: str, reply: bytes, until: float) -> bytes:
        """The answer of a script that has stored something, once `queues` knows of it."""
        if reply.startswith(b"!"):
            await self._list_again(queue, until)
        return reply.removeprefix(b"!")

    def _check_confirmed(self, confirmed: Any) -> None:
        wanted = self._confirm[1:-1]
        got = tuple(confirmed) if isinstance(confirmed, list) else (confirmed,)
        if any(have < want for have, want in zip(got, wanted, strict=True)):
            raise OutcomeUnknown(
                f"stored, but confirmed by {got} instead of {wanted} in time; safe to send again"
            )

    async def _run_pages(
        self, verb: str, queue: str, pages: Iterable[Sequence[Any]]
    ) -> list[Sequence[int]]:
        """The replies of a script that is run for one page of arguments after the other."""
        check_queue(queue)
        until = self._until()
        replies: list[Sequence[int]] = []
        for page in pages:
            with part_done(bool(replies)):
                replies.append(await self._run(verb, queue, *page, until=until))
        return replies

    async def _foreign_to(self, queue: str, link: Link, until: float) -> str:
        """What it is that a script on a queue has met."""
        if (marked := await self._run("mark", queue, "", until=until)) > 0:
            return spread_otherwise(queue, marked, 0)
        names = keys.keys(self._prefix, queue)
        return await self._foreign(link, dict(zip(names, keys.KINDS.values(), strict=True)), until)

    async def _foreign(self, link: Link, kinds: dict[bytes, str], until: float) -> str:
        """Which of these keys hold what is not bee's, as far as there is time to look."""
        found = []
        for key, kind in kinds.items():
            with suppress(BrokerError):  # it is only to be named
                answer = await link.call(key, pack(b"TYPE", key), until=until)
                actual = answer.decode()
                if actual not in (kind, "none"):
                    found.append(f"{key.decode()} is a {actual}, not a {kind}")
        what = ", ".join(found) or "at some key of this queue"
        return f"foreign data, left as it is: {what} (move it, or set another prefix)"

    # The registry: which queues there are.

    async def _names(self) -> Sequence[str]:
        names = map(readable, await self._registry(b"SMEMBERS"))
        return [name for name in names if is_queue(name)]  # others are none of bee's

    async def _list(self, queue: str, until: float | None = None) -> None:
        """See to it that `queues` knows of a queue, whoever has dropped it meanwhile."""
        await self._registry(b"SADD", queue, until=until)
        await self._run("list", queue, until=until)

    async def _list_first(self, queue: str, until: float) -> None:
        """Once per broker, before anything is in the queue: its sender may die right after."""
        await self._registry(b"SADD", queue, until=until)
        self._known.add(queue)

    async def _list_again(self, queue: str, until: float) -> None:
        """What was sent is stored. If this fails, the next send is told to see to it."""
        with suppress(BrokerError):
            await self._list(queue, until)

    async def _unlist(self, queue: str) -> None:
        self._known.discard(queue)
        await self._registry(b"SREM", queue)

    async def _registry(self, command: bytes, *names: str, until: float | None = None) -> Any:
        until = self._until() if until is None else until
        link, key = await self._open(until), keys.registry(self._prefix)
        try:
            return await link.call(key, pack(command, key, *names), until=until)
        except BrokerMisconfigured as error:
            if "WRONGTYPE" not in str(error):
                raise
            problem = await self._foreign(link, {key: "set"}, until)
            raise BrokerMisconfigured(problem) from error.__cause__

    # Opening and waiting.

    async def _open(self, until: float | None = None) -> Link:
        """The link, which has been found to lead to a server that can be used."""
        self._check_usable()
        until = self._until() if until is None else until
        try:
            async with asyncio.timeout_at(until), self._opening:
                if self._link is None:
                    self._link = await self._connect(until)
        except (TimeoutError, OutcomeUnknown) as error:  # what was to be done was not even begun
            raise BrokerUnavailable("the server does not answer") from error
        return self._link

    async def _connect(self, until: float) -> Link:
        link = self._where.make(self._pool_size)
        try:
            if self._check:
                await check_server(
                    link,
                    cluster=self._where.cluster,
                    until=until,
                    prefix=self._prefix,
                    fsync=self._fsync,
                )
            self._check_usable()
        except BaseException:
            await link.aclose()
            raise
        return link

    @property
    def _takes_orders(self) -> bool:
        """Whether a lease may stand on the server: not if it, or its wake-up, may be elsewhere."""
        return not self._where.cluster and not self._is_spread

    def _bell(self, queue: str) -> Bell | None:
        """What rings for a queue; none if there are too many of them."""
        if queue not in self._bells:
            if len(self._bells) >= _BELLS:
                return None
            key = keys.bell(self._prefix, queue)
            self._bells[queue] = Bell(
                self._link_to_wait, key, deadline=self._deadline, lingers=not self._takes_orders
            )
        return self._bells[queue]

    @property
    def _link_to_wait(self) -> Link:
        """For each queue there may be one connection that hears, and one that passes on."""
        if self._waiting is None:
            self._waiting = self._where.make(2 * _BELLS)
        return self._waiting

    def _check_usable(self) -> asyncio.AbstractEventLoop:
        """The event loop that it is used in; BrokerClosed if it cannot be."""
        if self._closed:
            raise BrokerClosed("this RedisBroker was closed")
        if is_forked(self._owner):
            raise BrokerClosed("this RedisBroker was used before a fork: use clone() in the child")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop, self._owner = loop, this_process()
        elif self._loop is not loop:
            raise BrokerClosed("this RedisBroker belongs to another event loop: use clone()")
        return loop

    def _until(self) -> float:
        """When a call that begins now has to be over. Raises BrokerClosed if none can be made."""
        loop = self._loop  # a child that was forked has none that runs
        if self._closed or is_forked(self._owner) or loop is not asyncio.get_running_loop():
            loop = self._check_usable()
        return loop.time() + self._deadline


def spread_otherwise(queue: str, found: int, wanted: int) -> str:
    """The sentence for who takes a queue to be spread over more shards, or fewer, than it is."""
    is_so, is_not = (f"shards={n}" if n > 0 else "no shards" for n in (found, wanted))
    return (
        f"queue {queue!r} has {is_so}, and this broker says {is_not}. Set what the queue has; to "
        "change it, move the queue (bee move) to another prefix, or drop it and send anew"
    )
