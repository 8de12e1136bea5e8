"""Talking to the server: bounded pools, a deadline for every call, no retries.

A connection whose call failed, timed out or was cancelled half-way is thrown away, so no answer is
ever left behind for the next caller. Whether anything may have been done is known from whether the
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
from bee_redis.scripts import Script

_REFUSED = (redis_errors.AuthenticationError, redis_errors.AuthorizationError)
_PASSING = (
    redis_errors.BusyLoadingError,
    redis_errors.ReadOnlyError,
    redis_errors.TryAgainError,
    redis_errors.ClusterDownError,
)
_NOT_NOW = ("BUSY", "MISCONF", "NOREPLICAS", "UNBLOCKED", "max number of clients")
"""What the client has no class for. Of the others it strikes the first word off the text."""
_RIGHTS = ("no permissions", "ACL failure", "user executing the script can't")


class Link(Protocol):
    """What a broker needs of a connection, whatever stands behind it."""

    async def call(
        self, key: bytes, *command: Any, deadline: float, confirm: tuple[Any, ...] = ()
    ) -> Any:
        """Send a command about `key` and return its answer, or raise a BrokerError.

        `confirm` is a second command for the same connection; then both answers are returned.
        """
        ...

    async def everywhere(self, *command: Any, deadline: float) -> list[Any]:
        """Send a command to every server that holds messages; their answers."""
        ...

    async def aclose(self) -> None:
        """Let go of every connection."""
        ...


class PoolLink:
    """One server, or the master that Sentinel names."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool: Any = pool  # whose methods are not annotated in every version
        self._size = pool.max_connections
        self._free = asyncio.Semaphore(self._size)
        self._closed = False

    async def call(
        self,
        key: bytes,
        *command: Any,
        deadline: float,
        confirm: tuple[Any, ...] = (),
        asking: bool = False,
    ) -> Any:
        stage = f"each of the {self._size} connections is in use, see pool_size"
        sent = False
        if deadline <= 0:
            raise BrokerUnavailable("no time was left to ask the server")
        try:
            async with asyncio.timeout(deadline), self._free:
                self._check_open()
                stage = "the server does not answer"
                connection = await self._pool.get_connection()
                try:
                    self._check_open()  # else a connection made meanwhile would stay behind
                    if asking:  # counts for the next command of this connection alone
                        await connection.send_command(b"ASKING")
                        await connection.read_response()
                    packed = connection.pack_command(*command)
                    sent = True
                    await connection.send_packed_command(packed)
                    answer = await connection.read_response(disable_decoding=True)
                    return (answer, await _confirmed(connection, confirm)) if confirm else answer
                except redis_errors.ReadOnlyError:  # no longer the master: look it up anew
                    await connection.disconnect(nowait=True)
                    raise
                except redis_errors.ResponseError:
                    raise  # an answer like any other: the connection is fine
                except BaseException:
                    await connection.disconnect(nowait=True)
                    raise
                finally:
                    await self._pool.release(connection)
        except TimeoutError as error:
            if sent:
                raise OutcomeUnknown(f"no answer within {deadline:.3g} s") from error
            raise BrokerUnavailable(f"not within {deadline:.3g} s: {stage}") from error
        except (redis_errors.RedisError, OSError) as error:
            raise translate(error, sent=sent) from error

    async def everywhere(self, *command: Any, deadline: float) -> list[Any]:
        return [await self.call(b"", *command, deadline=deadline)]

    async def aclose(self) -> None:
        self._closed = True
        await self._pool.disconnect()

    def _check_open(self) -> None:
        if self._closed:
            raise BrokerClosed("this RedisBroker was closed")


async def _confirmed(connection: Any, command: tuple[Any, ...]) -> Any:
    """The answer to a second command. Whatever it is, the first one was carried out."""
    try:
        await connection.send_command(*command)
        return await connection.read_response(disable_decoding=True)
    except redis_errors.ResponseError as error:
        raise OutcomeUnknown(f"stored, but not confirmed by {command[0]}: {error}") from error


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


async def run_script(
    link: Link,
    script: Script,
    keys: tuple[bytes, ...],
    *arguments: Any,
    deadline: float,
    confirm: tuple[Any, ...] = (),
) -> Any:
    """Run a script by its name; the first time on a server, by its text."""
    until = asyncio.get_running_loop().time() + deadline
    rest = (len(keys), *keys, *arguments)
    try:
        return await link.call(
            keys[0], b"EVALSHA", script.sha, *rest, deadline=deadline, confirm=confirm
        )
    except BrokerError as error:
        if not isinstance(error.__cause__, redis_errors.NoScriptError):
            raise
    deadline = until - asyncio.get_running_loop().time()
    return await link.call(keys[0], b"EVAL", script.text, *rest, deadline=deadline, confirm=confirm)
