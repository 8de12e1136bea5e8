"""Talking to the server: bounded pools, a deadline for every call, no retries.

A connection whose call timed out or was cancelled half-way is thrown away, so no answer is ever
left behind for the next caller. Whether anything may have been done is known from whether the
request had been sent: BrokerUnavailable before that, OutcomeUnknown after it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from redis import exceptions as redis_errors
from redis.asyncio.connection import ConnectionPool

from bee_core.errors import (
    BrokerClosed,
    BrokerError,
    BrokerFull,
    BrokerMisconfigured,
    BrokerUnavailable,
    OutcomeUnknown,
)
from bee_core.places import Places
from bee_redis.resp import Part, pack
from bee_redis.wire import Wire, open_wire

_REFUSED = (redis_errors.AuthenticationError, redis_errors.AuthorizationError)
_PASSING = (
    redis_errors.BusyLoadingError,
    redis_errors.ReadOnlyError,
    redis_errors.TryAgainError,
    redis_errors.ClusterDownError,
)
_NOT_NOW = ("BUSY", "MISCONF", "NOREPLICAS", "UNBLOCKED", "max number of clients")
"""What the client has no class for. Of the others it strikes the first word off the text."""
_ASKING = pack(b"ASKING")
_LONG = 1.0
"""Seconds after which a connection that was idle is looked at before it is used."""
_RIGHTS = ("no permissions", "ACL failure", "user executing the script can't")


class Link(Protocol):
    """What a broker needs of a connection, whatever stands behind it."""

    async def call(
        self,
        key: bytes,
        request: bytes,
        *,
        until: float,
        confirm: tuple[Part, ...] = (),
        others: int = 0,
    ) -> Any:
        """Send a packed command about `key` and return its answer, or raise a BrokerError.

        `until`, by the loop's clock, it has to be over. `confirm` is a second command for the same
        connection; then both answers are returned. With `others` the request has so many commands
        in front of the one whose answer counts; not in a cluster, where each may be sent elsewhere.
        """
        ...

    async def everywhere(self, *command: Part, until: float) -> list[Any]:
        """Send a command to every server that holds messages; their answers."""
        ...

    async def aclose(self) -> None:
        """Let go of every connection."""
        ...


async def close_all(*links: Link | None) -> None:
    """Let go of all of them, also if this is cancelled."""
    await asyncio.shield(asyncio.gather(*(link.aclose() for link in links if link is not None)))


class PoolLink:
    """One server, or the master that Sentinel names."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool: Any = pool  # says how to connect; the wires are kept here
        self._loop = asyncio.get_running_loop()
        self._size = pool.max_connections
        self._places = Places(self._size)
        self._idle: list[Wire] = []  # the one used last is used next
        self._wires: set[Wire] = set()
        self._closed = False

    async def call(
        self,
        key: bytes,
        request: bytes,
        *,
        until: float,
        confirm: tuple[Part, ...] = (),
        others: int = 0,
        asking: bool = False,
    ) -> Any:
        began, sent, wire = self._loop.time(), False, None
        if until <= began:
            raise BrokerUnavailable("no time was left to ask the server")
        if not self._places.take():
            await self._take_turn(until, began)
        try:
            if self._idle and began - self._idle[-1].heard_at > _LONG:
                await _hear_of_ends()
            wire = self._idle.pop() if self._idle else None
            if wire is None or not wire.is_free:
                wire = self._find_idle() or await self._connect(until)
            if asking:  # counts for the next command of this connection alone
                await wire.ask(_ASKING, until)
            sent = True
            answer = await wire.ask(request, until, others)
            if confirm:
                answer = (answer, await _confirmed(wire, confirm, until))
            self._idle.append(wire)
            wire = None
            return answer
        except TimeoutError as error:
            if sent:
                raise OutcomeUnknown(f"no answer within {until - began:.3g} s") from error
            message = f"not within {until - began:.3g} s: the server does not answer"
            raise BrokerUnavailable(message) from error
        except (redis_errors.RedisError, OSError) as error:
            if wire is not None and _is_final(error):
                wire.cut()
            raise translate(error, sent=sent) from error
        finally:
            if wire is not None and asking and not sent:
                wire.cut()  # the next command would be taken for the one that it was for
            elif wire is not None and wire.is_free:
                self._idle.append(wire)
            elif wire is not None:  # its answer is still to come, and nobody wants it
                wire.cut()
            self._places.leave()

    async def everywhere(self, *command: Part, until: float) -> list[Any]:
        return [await self.call(b"", pack(*command), until=until)]

    async def aclose(self) -> None:
        self._closed = True
        self._idle.clear()
        for wire in (wires := list(self._wires)):
            wire.cut()
        await asyncio.gather(*(wire.gone for wire in wires))

    async def _take_turn(self, until: float, began: float) -> None:
        try:
            await self._places.take_turn(until)
        except TimeoutError as error:
            stage = f"each of the {self._size} connections is in use, see pool_size"
            raise BrokerUnavailable(f"not within {until - began:.3g} s: {stage}") from error

    def _find_idle(self) -> Wire | None:
        """A connection that is up, as far as the event loop has heard."""
        while self._idle:
            if (wire := self._idle.pop()).is_free:
                return wire
        return None

    async def _connect(self, until: float) -> Wire:
        self._check_open()
        async with asyncio.timeout_at(until):
            wire = await open_wire(self._pool.make_connection())
        self._wires.add(wire)
        wire.gone.add_done_callback(lambda _: self._wires.discard(wire))
        if self._closed:  # meanwhile: it would stay behind
            wire.cut()
        self._check_open()
        return wire

    def _check_open(self) -> None:
        if self._closed:
            raise BrokerClosed("this RedisBroker was closed")


async def _hear_of_ends() -> None:
    """If connections were closed while nobody used them, that is heard now."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def is_refusal(error: BrokerError) -> bool:
    """Whether the server has done nothing, and would say why if it were asked once more."""
    unknown = isinstance(error.__cause__, redis_errors.NoScriptError)
    return unknown or isinstance(error, BrokerMisconfigured)


def did_nothing(error: BrokerError) -> bool:
    """Whether a script has surely done nothing. One that lacked a right may have done a part."""
    unknown = isinstance(error.__cause__, redis_errors.NoScriptError)
    return unknown or (isinstance(error, BrokerMisconfigured) and "WRONGTYPE" in str(error))


def _is_final(error: Exception) -> bool:
    """Whether a connection is of no use after this: else it is an answer like any other."""
    no_master = isinstance(error, redis_errors.ReadOnlyError)  # to be looked up anew
    return no_master or not isinstance(error, redis_errors.ResponseError)


async def _confirmed(wire: Wire, command: tuple[Part, ...], until: float) -> Any:
    """The answer to a second command. Whatever it is, the first one was carried out."""
    try:
        return await wire.ask(pack(*command), until)
    except redis_errors.ResponseError as error:
        raise OutcomeUnknown(f"stored, but not confirmed by {command[0]!s}: {error}") from error


def translate(error: BaseException, *, sent: bool) -> BrokerError:
    """bee's word for an error of the client or the server."""
    if isinstance(error, redis_errors.ConnectionError) and isinstance(
        error.__cause__, redis_errors.RedisError
    ):
        error = error.__cause__  # a refusal, which the client took for a failure to connect
    text = str(error) or type(error).__name__
    if isinstance(error, _REFUSED):
        return BrokerMisconfigured(f"the server refuses these credentials: {text}")
    if isinstance(error, redis_errors.OutOfMemoryError):
        return BrokerFull("the server is out of memory: raise maxmemory, or let the queue drain")
    if isinstance(error, _PASSING) or any(word in text for word in _NOT_NOW):
        return BrokerUnavailable(f"the server cannot answer now: {text}")
    if isinstance(error, redis_errors.NoPermissionError) or any(word in text for word in _RIGHTS):
        return BrokerMisconfigured(f"the user of this URL lacks a right: {text}")
    if isinstance(error, redis_errors.AskError):  # and MovedError, which is one
        return BrokerMisconfigured("this server is part of a cluster: use redis+cluster://")
    if text.startswith("WRONGTYPE"):
        return BrokerMisconfigured(text)
    if isinstance(error, redis_errors.ResponseError):
        if sent:
            return BrokerError(text)
        return BrokerMisconfigured(f"the server refuses this connection: {text}")
    if sent:
        return OutcomeUnknown(f"the answer was lost: {text}")
    return BrokerUnavailable(f"cannot reach the server: {text}")
