"""Processes on one queue, most of them killed, each followed by another: their history."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import bee_core as bee
from bee_core.testing.history import Event, Item, Record, Verb, check, read
from tests.history.clients import QUEUE, left, start

PLACES = 4
"""Processes at once."""
LIFE = 5.0
"""Seconds that one of them works, unless it is killed before."""
WITHIN = 30.0
"""Seconds to a redelivery. Nobody promises more of processes that compete for two processors."""


@dataclass(frozen=True)
class History:
    """What was asked and answered, what is left of it in the store, and how the processes ended."""

    records: Sequence[Record]
    remains: Mapping[str, Sequence[str]]
    codes: Sequence[int]
    seconds: float

    @property
    def faults(self) -> list[str]:
        """What must not be. Empty after a good run."""
        broken = check(self.records, self.remains, within=WITHIN)
        strange = {code for code in self.codes if code not in (0, -signal.SIGKILL)}
        told = [f"{fault.kind}: {fault.id}: {fault.text}" for fault in broken]
        return told + [f"a process ended with {code}" for code in sorted(strange)]

    @property
    def unanswered(self) -> set[tuple[str, int]]:
        """The calls whose callers were killed before they had an answer."""
        asked, answered = self._calls("asked"), self._calls("answered")
        assert asked >= answered, "an answer that nobody asked for"
        return asked - answered

    def _calls(self, event: Event) -> set[tuple[str, int]]:
        return {(record.who, record.call) for record in self.records if record.event == event}

    def items(self, event: Event, verb: Verb) -> list[Item]:
        """All that calls of a kind were about."""
        some = [record for record in self.records if record.event == event and record.verb == verb]
        return [item for record in some for item in record.items]

    def figures(self) -> dict[str, int]:
        """It in numbers."""
        ran_out: Counter[str] = Counter()
        leased = self.items("answered", "lease")
        for item in leased:
            ran_out[item.id] = max(ran_out[item.id], item.stalls)
        return {
            "processes": len(self.codes),
            "killed with -9": sum(code == -signal.SIGKILL for code in self.codes),
            "calls": len(self._calls("asked")),
            "calls without an answer": len(self.unanswered),
            "messages sent": len(self.items("answered", "send")),
            "leases": len(leased),
            "leases that ran out": ran_out.total(),
            "settlements accepted": len(self.items("answered", "settle")),
            "waiting or archived at the end": len(self.remains),
            "seconds": round(self.seconds),
        }

    def lines(self) -> list[str]:
        return [f"{name:32} {figure:>9,}" for name, figure in self.figures().items()]


async def run(url: str, directory: Path, *, seconds: float, seed: int = 0) -> History:
    """Let them work for so long, recording to a directory; see what has become of it all."""
    began = time.monotonic()
    places = [_at(place, url, directory, began + seconds, seed) for place in range(PLACES)]
    codes = [code for some in await asyncio.gather(*places) for code in some]
    async with bee.connect(url) as broker:
        remains = await left(broker)
        await broker.drop(QUEUE)
    return History(read(directory), remains, codes, time.monotonic() - began)


async def _at(place: int, url: str, directory: Path, end: float, seed: int) -> list[int]:
    """One process after the other. How they ended."""
    codes: list[int] = []
    while not codes or (time.monotonic() < end and codes[-1] in (0, -signal.SIGKILL)):
        name, number = f"c{place}-{len(codes)}", 10_000 * (100 * seed + place) + len(codes)
        life = min(LIFE, end - time.monotonic())
        client = start(url, directory, name, seed=number, seconds=life)
        codes.append(await asyncio.to_thread(client.wait))
    return codes
