"""Every job twice: what exposes a handler that must not act twice, and does.

At least once means that a job may run again although it has run to its end: its worker was killed
before it could say so, or the answer of the store was lost. Here that happens to every job, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, TypeAlias, get_args

import msgspec

from bee_core.broker import Store
from bee_core.disposition import Reschedule
from bee_core.errors import InvalidOption
from bee_core.message import Counters, Note, Receipt, Settlement
from bee_core.testing.faults import FaultyBroker
from bee_core.ticks import message_id

Runs: TypeAlias = Literal["once", "twice", "killed"]
"""once     as in production on a good day
twice    when its handler has succeeded, the job is delivered again at once
killed   when its handler has succeeded, its worker is killed: it is stalled, and `on_stall` decides
"""

RUNS: tuple[Runs, ...] = get_args(Runs)
_Life: TypeAlias = tuple[str, str, int] | None
"""A queue, an id and an incarnation; None is nobody's."""
_KILLED = Note("stalled", "killed by the test, after its handler had succeeded")


def check_runs(runs: object) -> Runs:
    """Those that are there, or InvalidOption."""
    for known in RUNS:
        if runs == known:
            return known
    raise InvalidOption(f"runs must be one of {', '.join(map(repr, RUNS))}, not {runs!r}")


class DeliveringAgain(FaultyBroker):
    """Passes every verb on, but for the first settlement of a job that has succeeded.

    That is lost, with the result and the jobs that were to follow. The job waits at its place
    again; no time has to pass, as if the lease had run out just then.
    """

    def __init__(self, inner: Store, runs: Runs, done: set[_Life] | None = None) -> None:
        super().__init__(inner)
        self._runs = runs
        self._done: set[_Life] = {None} if done is None else done

    def clone(self) -> DeliveringAgain:
        return DeliveringAgain(self.inner.clone(), self._runs, self._done)

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        first = {one.receipt: await self._life(queue, one) for one in settlements}
        again = {receipt for receipt, life in first.items() if life not in self._done}
        changed = [_again(one, self._runs) if one.receipt in again else one for one in settlements]
        lost = await self.inner.settle(queue, changed)
        self._done |= {first[receipt] for receipt in again - lost}
        return lost | again

    async def _life(self, queue: str, settlement: Settlement) -> _Life:
        """Which life of a job this is the happy end of, if it is one."""
        id = settlement.receipt.id
        if not _succeeded(settlement) or id.startswith(message_id("")):
            return None
        stored = await self.inner.get(queue, id)
        return None if stored is None else (queue, id, stored.incarnation)


def _succeeded(settlement: Settlement) -> bool:
    """Whether a handler has ended by itself, and its job with it. A success may go without note."""
    ends = not isinstance(settlement.disposition, Reschedule)
    return ends and (settlement.note is None or settlement.note.reason in ("succeeded", "ruled"))


def _again(settlement: Settlement, runs: Runs) -> Settlement:
    killed = runs == "killed"
    return msgspec.structs.replace(
        settlement,
        disposition=Reschedule(front=True),
        note=_KILLED if killed else None,
        counters=Counters(stalls=1) if killed else Counters(),
        then=(),
        result=b"",
        keep=0.0,
        summary=_KILLED.detail if killed else "delivered again by the test",
    )
