"""How jobs ended: for those who wait for one, and for those that many report to."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from bee_core.broker import Broker, Inspector
from bee_core.clock import Clock
from bee_core.errors import (
    BrokerUnavailable,
    DecodeError,
    InvalidOption,
    JobFailed,
    NoResult,
    OutcomeUnknown,
    ResultTimeout,
)
from bee_core.message import Note, Report
from bee_core.stored import State

T = TypeVar("T")

_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.5
_UNNOTED = Note("ruled")


class Result(Generic[T]):
    """How one job ended, and what came of it."""

    __slots__ = ("_decoder", "_report")

    def __init__(self, report: Report, decoder: msgspec.json.Decoder[T]) -> None:
        self._report = report
        self._decoder = decoder

    @property
    def id(self) -> str:
        """The id of the job."""
        return self._report.id

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self._report.note.reason == "succeeded"

    @property
    def note(self) -> Note:
        """Why it ended; `note.detail` has the error, if it failed."""
        return self._report.note

    @property
    def value(self) -> T:
        """What its handler returned.

        Raises JobFailed if it did not succeed, NoResult if what it returned was not kept, and
        DecodeError if that is not of the type that was asked for.
        """
        report = self._report
        if not self.ok:
            raise JobFailed(report.id, report.note)
        if not report.result:
            why = report.note.detail or "no keep_result in its policy"
            raise NoResult(f"job {report.id!r} succeeded, but its result was not kept: {why}")
        try:
            return self._decoder.decode(report.result)
        except Exception as error:
            raise DecodeError(f"the result of job {report.id!r}: {error}") from error

    def __repr__(self) -> str:
        shown = bytes(self._report.result[:100]) if self.ok else self._report.note.reason
        return f"<Result of {self.id!r}: {shown!r}>"


def reader(form: Any) -> msgspec.json.Decoder[Any]:
    """What reads results of that type."""
    try:
        return msgspec.json.Decoder(form)
    except TypeError as error:
        raise InvalidOption(f"{form!r} cannot be the type of a result: {error}") from error


async def await_end(broker: Broker, queue: str, id: str, *, timeout: float, clock: Clock) -> Report:
    """How a job ended, as soon as it has. Trouble that may pass is waited out."""
    if not isinstance(broker, Inspector):
        raise InvalidOption("waiting for a result needs a broker that is an Inspector too")
    deadline = clock.now() + timeout
    pause = _FIRST_PAUSE
    while True:
        trouble: Exception | None = None
        try:
            end = await _end(broker, broker, queue, id)
        except (BrokerUnavailable, OutcomeUnknown) as error:
            end, trouble = None, error
        if end is not None:
            return end
        left = deadline - clock.now()
        if left <= 0:
            raise ResultTimeout(f"job {id!r} has not ended after {timeout:g} s") from trouble
        await clock.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _end(broker: Broker, inspector: Inspector, queue: str, id: str) -> Report | None:
    """How a job ended; None while it is live.

    Whether it lives is asked first: what is no longer live has left its result already. So an id
    that is used again is waited for, and its former result not taken for the new one.
    """
    stored = await inspector.get(queue, id)
    if stored is not None and stored.state is not State.ARCHIVED:
        return None
    kept = await broker.results(queue, [id])
    if id in kept:
        return kept[id]
    if stored is None:
        raise NoResult(
            f"queue {queue!r} knows no job {id!r}: it has ended, and nothing of it was kept "
            "(see keep_result), or it was never sent"
        )
    return Report(id, stored.note or _UNNOTED)
