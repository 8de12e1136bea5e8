"""The heartbeat file: what a process says of itself about every second, for probes.

It is written by the event loop, so that it grows old when the loop is blocked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from bee_core.errors import BeeError
from bee_core.health import QueueHealth

State: TypeAlias = Literal["starting", "working", "stopping"]


class Pulse(msgspec.Struct, frozen=True, kw_only=True):
    """One process at one time. Times are seconds since the epoch, by this machine's clock."""

    pid: int
    time: float
    started: float
    state: State
    queues: Mapping[str, QueueHealth]
    processes: Sequence[Pulse] = ()
    """The processes of a supervisor, of which `queues` is the sum."""

    def oldest(self) -> Pulse:
        """This one, or that of its processes which has been silent for longest."""
        return min((self, *self.processes), key=lambda pulse: pulse.time)


def summed(pulses: Sequence[Pulse]) -> dict[str, QueueHealth]:
    """Every queue over all processes: numbers are added, and the worst answer counts."""
    found: dict[str, QueueHealth] = {}
    for pulse in pulses:
        for name, one in pulse.queues.items():
            found[name] = _sum(found[name], one) if name in found else one
    return found


def _sum(a: QueueHealth, b: QueueHealth) -> QueueHealth:
    never = a.fetched_ago is None or b.fetched_ago is None
    return QueueHealth(
        fetched_ago=None if never else max(a.fetched_ago or 0.0, b.fetched_ago or 0.0),
        full=a.full and b.full,
        ready=a.ready and b.ready,
        running=a.running + b.running,
        held=a.held + b.held,
        stuck=a.stuck + b.stuck,
        settled=a.settled + b.settled,
    )


class HeartbeatFile:
    """Written as a whole or not at all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._draft = path.with_name(f".{path.name}.{os.getpid()}")

    def write(self, pulse: Pulse) -> None:
        """Put this in place of what was there. Raises OSError."""
        self._draft.write_bytes(msgspec.json.encode(pulse))
        self._draft.replace(self._path)

    def remove(self) -> None:
        """Nobody is here any more. If that cannot be done, the file grows old by itself."""
        for path in (self._path, self._draft):
            with suppress(OSError):
                path.unlink()


def read_pulse(path: Path) -> Pulse:
    """What the file says, or a BeeError that says why it says nothing."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Pulse)
    except FileNotFoundError:
        raise BeeError(f"no heartbeat file {path}: not started yet, or ended") from None
    except OSError as error:
        raise BeeError(f"cannot read the heartbeat file {path}: {error}") from error
    except msgspec.MsgspecError as error:
        raise BeeError(f"{path} is not a heartbeat file of bee: {error}") from error


def age(pulse: Pulse) -> float:
    """Seconds between its time and now: one that lives follows a clock that was set back, too."""
    return abs(time.time() - pulse.time)
