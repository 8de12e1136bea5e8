"""The same names without await: for Django, Flask, scripts.

    hive = bee.Hive()                                # declared once, with its handlers
    mail = hive.queue("mail", SendEmail)

    sync.of(mail).send(SendEmail(to="ada"))          # in a view, a command, a thread

`of` gives the view without await of a hive, a queue or a broker. `connect`, `Queue` and `Hive` make
new ones. What they do is done in one event loop, in a thread of its own; see `background`.
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

from bee_core import broker as _broker
from bee_core import hive as _hive
from bee_core import hive_queue as _hive_queue
from bee_core import queue as _queue
from bee_core import registry as _registry
from bee_core.errors import InvalidOption
from bee_core.explain import Explanation
from bee_core.explain import explain as _explain
from bee_core.sync.hive import Hive
from bee_core.sync.queue import HiveQueue, Queue
from bee_core.sync.store import Store, blocking, finish

__all__ = ["Hive", "HiveQueue", "Queue", "Store", "connect", "explain", "of"]

J = TypeVar("J")


def connect(url: str) -> Store:
    """The broker for a URL. Does no I/O: it connects when it is first used.

    It is a context manager; leaving it closes the connections.
    """
    return Store(_registry.connect(url))


def explain(broker: Store, queue: str, id: str) -> Explanation:
    """Why a job is not running, or who runs it, and what has happened to it."""
    return finish(_explain(blocking(broker), queue, id))


@overload
def of(awaited: _hive_queue.HiveQueue[J]) -> HiveQueue[J]: ...
@overload
def of(awaited: _queue.Queue[J]) -> Queue[J]: ...
@overload
def of(awaited: _hive.Hive) -> Hive: ...
@overload
def of(awaited: _broker.Store) -> Store: ...
def of(awaited: Any) -> HiveQueue[Any] | Queue[Any] | Hive | Store:
    """The view without await of a hive, of a queue, or of a broker.

    It costs next to nothing to make, and has no connections of its own to close: the views of one
    hive share theirs.
    """
    match awaited:
        case _hive_queue.HiveQueue():
            return HiveQueue.of(awaited)
        case _queue.Queue():
            return Queue.of(awaited)
        case _hive.Hive():
            return Hive.of(awaited)
        case _broker.Store():
            return Store(awaited)
        case _:
            raise InvalidOption(
                f"sync.of takes a hive, a queue or a broker, not {type(awaited).__name__}"
            )
