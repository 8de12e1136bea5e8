"""Every error bee raises on purpose, in one tree.

    BeeError
    ├── BrokerError             the store said no; `__cause__` holds the driver's own exception
    │   ├── BrokerUnavailable   nothing was done, and it may pass: try again later
    │   │   └── BrokerLocked    somebody else has a part of what it is about: try with less
    │   ├── OutcomeUnknown      it may have been done; settle, extend, a send that keeps: repeat it
    │   ├── BrokerFull          the store has no room; leasing and settling still work
    │   ├── BrokerClosed        this object was closed, or belongs to another event loop or process
    │   └── BrokerMisconfigured will not pass by waiting: the message says what to set
    │       ├── SchemaMissing   the database has no tables of bee's; the message says what to run
    │       └── SchemaMismatch  the tables are of another version of bee
    ├── InvalidInput            an argument that cannot be used (also a ValueError)
    │   ├── InvalidName         a queue's name, a job id, a key, a schedule's name
    │   ├── InvalidOption       a duration, a limit, a priority, a strategy
    │   ├── InvalidPayload      a job that cannot be written as JSON without loss
    │   └── PayloadTooLarge     a job larger than the queue allows
    ├── DecodeError             bytes that are not a job of this queue
    │   └── UnknownJob          a job of a kind, or an envelope version, this program does not know
    ├── IdTaken                 `if_taken=Reject()`, or a group, and the id is live
    ├── JobFailed               the result that is asked for: the job did not succeed
    ├── NoResult                the result that is asked for: nothing is known of it, or kept
    ├── ResultTimeout           the result that is asked for: not yet there (also a TimeoutError)
    ├── UnknownScheme           no broker for this URL; the message lists the known ones
    ├── MustAwait               a call that blocks, where an event loop runs (also a RuntimeError)
    ├── NoHandler               a queue is to be worked, but nobody handles (some of) its jobs
    └── WorkerStuck             too many handlers ignore their cancellation: the process must go

    PermanentError              raised by a handler: this job will never work, do not repeat it
    Retry, Snooze               raised or returned by a handler: see `bee_core.outcome`

A lost lease, a taken id and a missing id are answers, not errors: the verbs return them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bee_core.message import Note


class BeeError(Exception):
    """The root of everything bee raises on purpose."""


class BrokerError(BeeError):
    """The store refused or failed."""


class BrokerUnavailable(BrokerError):
    """The store could not be reached or could not answer now. Nothing was done."""


class BrokerLocked(BrokerUnavailable):
    """Somebody else has locked something that the call is about, and did not let go in time."""


class OutcomeUnknown(BrokerError):
    """The request was sent but its answer was lost: it may or may not have been applied."""


class BrokerFull(BrokerError):
    """The store has no room for another message."""


class BrokerClosed(BrokerError):
    """This broker object can no longer be used."""


class BrokerMisconfigured(BrokerError):
    """The store is set up in a way that bee cannot work with."""


class SchemaMissing(BrokerMisconfigured):
    """The database holds no schema of bee's."""


class SchemaMismatch(BrokerMisconfigured):
    """The schema in the database is of another version of bee."""


class InvalidInput(BeeError, ValueError):
    """An argument that cannot be used. Raised before anything is changed."""


class InvalidName(InvalidInput):
    """A name, an id or a key outside the rule."""


class InvalidOption(InvalidInput):
    """A number, duration or strategy outside its range."""


class InvalidPayload(InvalidInput):
    """A job that would not come back as it was sent."""


class PayloadTooLarge(InvalidInput):
    """A job larger than the queue's limit."""


class DecodeError(BeeError):
    """Bytes that are not a job of this queue.

    `known` are the tags the queue knows; `queue` and `id` name the message when
    the error comes from a queue or worker rather than from a bare codec.
    """

    def __init__(
        self,
        problem: str,
        *,
        known: Iterable[str] = (),
        queue: str | None = None,
        id: str | None = None,
    ) -> None:
        self.problem = problem
        self.known = tuple(known)
        self.queue = queue
        self.id = id
        where = f"message {id!r} of queue {queue!r}: " if queue is not None else ""
        super().__init__(f"{where}{self.told}")

    @property
    def told(self) -> str:
        """What is wrong, without which message it is about."""
        tags = f" (known tags: {', '.join(self.known)})" if self.known else ""
        return f"{self.problem}{tags}"

    def at(self, queue: str, id: str) -> DecodeError:
        """The same error, naming the message it is about."""
        return type(self)(self.problem, known=self.known, queue=queue, id=id)


class UnknownJob(DecodeError):
    """A well-formed message of a kind that this program does not know (yet, or any more)."""


class IdTaken(BeeError):
    """A send met a live message. With `if_taken=Reject()` nothing of its batch was stored.

    A group, all the rest of which was sent, has met one that will never report to it.
    """

    def __init__(self, queue: str, ids: Iterable[str]) -> None:
        self.queue = queue
        self.ids = frozenset(ids)
        super().__init__(f"queue {queue!r} already holds {', '.join(sorted(self.ids))}")

    def __reduce__(self) -> tuple[type[IdTaken], tuple[str, frozenset[str]]]:
        return IdTaken, (self.queue, self.ids)


class JobFailed(BeeError):
    """There is no result, because the job ended otherwise: `note` has the reason and the detail."""

    def __init__(self, id: str, note: Note) -> None:
        self.id = id
        self.note = note
        super().__init__(f"job {id!r}: {note.reason}" + (f"\n{note.detail}" if note.detail else ""))

    def __reduce__(self) -> tuple[type[JobFailed], tuple[str, Note]]:
        return JobFailed, (self.id, self.note)


class NoResult(BeeError):
    """There is no result, and waiting will not bring it."""


class ResultTimeout(BeeError, TimeoutError):
    """The job has not ended in the time that was given."""


class UnknownScheme(BeeError):
    """No installed broker answers to this URL."""


class MustAwait(BeeError, RuntimeError):
    """A call that blocks was made in a thread that runs an event loop."""


class NoHandler(BeeError):
    """A queue without a handler, or without one for every job class, cannot be worked."""


class WorkerStuck(BeeError):
    """As many handlers ignore their cancellation as the worker has slots."""


class PermanentError(Exception):
    """Raise it (or a subclass) in a handler to end a job at once: no more repeats."""


@contextmanager
def part_done(begun: bool = True) -> Iterator[None]:
    """Inside it is the rest of a verb of which a part may be done: it is not said to be undone."""
    try:
        yield
    except (BrokerUnavailable, BrokerFull) as error:
        if not begun:
            raise
        raise OutcomeUnknown(f"done in part: {error}") from error.__cause__
