"""What becomes of a child process that a handler has forked and that walks out of the handler.

It has a copy of everything: of the job, of the connections, of the event loop, all with the file
descriptors of its parent. Were it to go on, it would be a second worker with the first one's
sockets. So it ends where the handler ends. Brokers refuse to be used in it.
"""

from __future__ import annotations

import os
import sys


def this_process() -> int:
    """The number of this process. The system is not asked: every job needs it, twice."""
    return _here


def end_if_forked(owner: int, error: BaseException | None = None) -> None:
    """End this process, unless it is that one. How is what the handler said: `error`, or well."""
    if _here != owner:
        _leave(error)


def is_forked(owner: int | None) -> bool:
    """Whether this process is a child of the one that has used something, if any has."""
    return owner is not None and owner != _here


def _note_fork() -> None:
    global _here
    _here = os.getpid()


_here = os.getpid()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def _leave(error: BaseException | None) -> None:
    """As a program ends, but without touching what is the parent's."""
    code = 1
    try:
        if error is None:
            code = 0
        elif not isinstance(error, SystemExit):
            sys.excepthook(type(error), error, error.__traceback__)
        elif error.code is None or isinstance(error.code, int):
            code = error.code or 0
        else:
            sys.stderr.write(f"{error.code}\n")
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code & 0xFF)
