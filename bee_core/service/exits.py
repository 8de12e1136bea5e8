"""With which codes `bee worker` ends. Supervisors of all kinds decide by them."""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """The exit codes of a worker process."""

    OK = 0
    """It ended as it was asked to: stopped, nothing left to do, enough jobs done."""
    ERROR = 1
    """Something went wrong that should not; also: it was asked to stop and did not in time."""
    USAGE = 2
    """There is no such module, hive, queue or option."""
    RESTART = 75
    """Its handlers are stuck and only a new process helps (EX_TEMPFAIL)."""
    MISCONFIGURED = 78
    """The store is set up in a way that waiting does not mend (EX_CONFIG)."""
    KILLED = 130
    """A third signal came."""
