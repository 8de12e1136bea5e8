"""Talking to the server: bounded pools, a deadline for every call, no retries.

A connection whose call failed, timed out or was cancelled half-way is thrown away, so no answer is
ever left behind for the next caller. Whether anything may have been done is known from whether the
request had been sent: BrokerUnavailable before that, OutcomeUnknown after it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from redis import exceptions as redis_errors
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.connection import ConnectionPool

from bee_core.errors import (
    BrokerError,
    BrokerFull,
    BrokerMisconfigured,
    BrokerUnavailable,
    OutcomeUnknown,
)
from bee_redis.scripts import Script

_NOT_NOW = (
    "READONLY",
    "LOADING",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "BUSY",
    "NOREPLICAS",
    "MISCONF",
    "max number of clients",
)
_SETTINGS = ("NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE", "DENIED", "no permissions")


class Link(Protocol):
    """What a broker needs of a connection, whatever stands behind it."""

    async def call(
        self, key: bytes, *command: Any, deadline: float, confirm: tuple[Any, ...] = ()
    ) -> Any:
        """Send a command about `key` and return its answer, or raise a BrokerError.

        `confirm` is a second command for the same connection; then both answers are returned.
        """
        ...

    async def aclose(self) -> None:
        """Let go of every connection."""
        ...


class PoolLink:
    """One server, or the master that Sentinel names."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool: Any = pool  # whose methods are not annotated in every version

    async def call(
        self, key: bytes, *command: Any, deadline: float, confirm: tuple[Any, ...] = ()
    ) -> Any:
        sent = False
        try:
            async with asyncio.timeout(deadline):
                connection = await self._pool.get_connection()
                try:
                    sent = True
                    await connection.send_command(*command)
                    answer = await connection.read_response(disable_decoding=True)
                    if not confirm:
                        return answer
                    await connection.send_command(*confirm)
                    return answer, await connection.read_response(disable_decoding=True)
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
        except (redis_errors.RedisError, OSError) as error:
            raise translate(error, sent=sent) from error

    async def aclose(self) -> None:
        await self._pool.disconnect()


class ClusterLink:
    """A cluster: the client finds the node of a key and follows MOVED and ASK."""

    def __init__(self, client: RedisCluster) -> None:
        self._client = client

    async def call(
        self, key: bytes, *command: Any, deadline: float, confirm: tuple[Any, ...] = ()
    ) -> Any:
        try:
            async with asyncio.timeout(deadline):
                return await self._client.execute_command(*command)
        except redis_errors.RedisClusterException as error:
            raise BrokerUnavailable(f"the cluster cannot be used now: {error}") from error
        except (redis_errors.RedisError, OSError) as error:
            raise translate(error, sent=True) from error

    async def aclose(self) -> None:
        await self._client.aclose()


def translate(error: BaseException, *, sent: bool) -> BrokerError:
    """bee's word for an error of the client or the server."""
    text = str(error) or type(error).__name__
    if isinstance(error, redis_errors.AuthenticationError | redis_errors.AuthorizationError):
        return BrokerMisconfigured(f"the server refuses these credentials: {text}")
    if isinstance(error, redis_errors.OutOfMemoryError) or text.startswith("OOM"):
        return BrokerFull("the server is out of memory: raise maxmemory, or let the queue drain")
    if isinstance(error, redis_errors.BusyLoadingError) or any(word in text for word in _NOT_NOW):
        return BrokerUnavailable(f"the server cannot answer now: {text}")
    if any(word in text for word in _SETTINGS):
        return BrokerMisconfigured(text)
    if isinstance(error, redis_errors.ResponseError):
        return BrokerError(text)
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
    rest = (len(keys), *keys, *arguments)
    try:
        return await link.call(
            keys[0], b"EVALSHA", script.sha, *rest, deadline=deadline, confirm=confirm
        )
    except BrokerError as error:
        if not isinstance(error.__cause__, redis_errors.NoScriptError):
            raise
    return await link.call(keys[0], b"EVAL", script.text, *rest, deadline=deadline, confirm=confirm)
