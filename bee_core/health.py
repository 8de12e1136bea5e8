"""How a hive is, for probes: plain data, made by `Hive.health`, nothing asked of the broker."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

RECENT = 10.0
"""Seconds for which the broker's last answer counts as recent, however often is polled."""


class QueueHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The worker of one queue."""

    fetched_ago: float | None
    """Seconds since the broker last answered when asked for jobs, or since there was last no room
    for any; None if it has not answered yet."""
    full: bool
    """Whether all its slots are busy, so that it does not ask for jobs."""
    ready: bool
    """Whether it is full, or the broker's last answer is recent: 10 s, or three polls."""
    running: int
    """Jobs that run."""
    held: int
    """Messages it holds: those that run, and those that have ended and are not yet settled."""
    stuck: int
    """Handlers that ignore their cancellation."""
    settled: int
    """Attempts it has settled."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """A hive, seen from its own event loop. That it can be asked says that the loop answers."""

    alive: bool
    """Whether it works: `run` or `working` is under way, and not all of it has ended."""
    stopping: bool
    """Whether it has been told to stop."""
    queues: Mapping[str, QueueHealth]

    @property
    def ready(self) -> bool:
        """Whether it works, is not about to stop, and hears from its broker on every queue."""
        queues = self.queues.values()
        return self.alive and not self.stopping and all(queue.ready for queue in queues)


def queue_health(
    *,
    now: float,
    last_fetched: float | None,
    full: bool,
    poll: float,
    running: int,
    held: int,
    stuck: int,
    settled: int,
) -> QueueHealth:
    """What a worker's numbers say."""
    ago = None if last_fetched is None else max(0.0, now - last_fetched)
    recent = ago is not None and ago <= max(3 * poll, RECENT)
    return QueueHealth(
        fetched_ago=0.0 if full else ago,
        full=full,
        ready=full or recent,
        running=running,
        held=held,
        stuck=stuck,
        settled=settled,
    )
