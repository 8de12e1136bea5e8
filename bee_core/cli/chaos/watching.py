"""What the workers under test say of themselves: their events, read as they are written."""

from __future__ import annotations

from pathlib import Path

from bee_core.disposition import Delete
from bee_core.errors import BeeError
from bee_core.events import (
    AttemptSettled,
    AttemptStarted,
    Event,
    ProcessEnded,
    ProcessStarted,
    WorkerStarted,
)
from bee_core.service.wire import decode


class Watch:
    """Reads a file of events. What a killed process had not written yet is not in it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        self.processes: set[int] = set()
        """Those that live, as far as is known."""
        self.working = False
        """Whether a worker has started."""
        self.begun = 0
        """Runs that were seen to begin."""
        self.deleted: set[tuple[str, str]] = set()
        """Jobs that ended without a trace in the store, as it was meant."""

    def look(self) -> None:
        """Take in what was written since."""
        try:
            with self._file.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            try:
                self._take(decode(line).event)
            except BeeError:  # half a line of a process that was killed
                continue

    def _take(self, event: Event) -> None:
        match event:
            case ProcessStarted(pid=pid):
                self.processes.add(pid)
            case ProcessEnded(pid=pid):
                self.processes.discard(pid)
            case WorkerStarted():
                self.working = True
            case AttemptStarted():
                self.begun += 1
            case AttemptSettled(queue=queue, id=id, disposition=Delete()):
                self.deleted.add((queue, id))
            case _:
                pass  # the rest is in the log
