"""Decoding hostile bodies: a job or DecodeError, soon, and without growing."""

from __future__ import annotations

import gc
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

import psutil  # type: ignore[import-untyped]

from bee_core.codec import peek_kind
from bee_core.errors import DecodeError, UnknownJob
from tests.core.shapes import Everything
from tests.fuzz.bodies import CODEC, Bodies

SLOWEST = 0.050
"""Seconds of the processor that one body may take; the collector's own not counted."""
WARM = 10_000
"""Bodies after which the process has met the largest of each kind, and has its size."""
GROWTH = 8 * 1024 * 1024
"""Bytes that it may grow by after that, or after the first tenth."""


@dataclass
class Decoding:
    """What became of so many bodies."""

    seed: int
    answers: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    grown: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    @property
    def decodes(self) -> int:
        return self.answers.total()

    def figures(self) -> dict[str, int | float]:
        return {
            "decodes": self.decodes,
            "jobs": self.answers["job"],
            "malformed": self.answers["malformed"],
            "of an unknown kind": self.answers["unknown"],
            "any other error": self.answers["other"],
            "slowest, ms": round(self.slowest * 1000, 1),
            "grown by, KiB": self.grown // 1024,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
        }


def run(decodes: int, *, seed: int = 0) -> Decoding:
    """Decode so many bodies."""
    outcome, began = Decoding(seed), time.monotonic()
    bodies, memory = iter(Bodies(seed)), psutil.Process()
    before, warm = 0, max(decodes // 10, min(decodes // 2, WARM))
    for number, body in enumerate(islice(bodies, decodes)):
        if number == warm:
            gc.collect()
            before = memory.memory_info().rss
        answer, took = timed(body)
        if took > SLOWEST:  # or was it the machine, or the collector, which has more to look at?
            took = min(took, *(without_collector(body) for _ in range(3)))
        outcome.answers[answer] += 1
        outcome.slowest = max(outcome.slowest, took)
        if answer == "other" or took > SLOWEST:
            outcome.faults.append(
                f"{answer} after {took:.3f} s: {body[:200]!r} ({len(body)} bytes)"
            )
    gc.collect()
    outcome.grown = memory.memory_info().rss - before
    if outcome.grown > GROWTH:
        outcome.faults.append(f"the process has grown by {outcome.grown} bytes")
    outcome.seconds = time.monotonic() - began
    return outcome


def timed(body: bytes) -> tuple[str, float]:
    """What a body turns out to be, and the seconds of the processor that it took."""
    began = time.thread_time()
    answer = decode(body)
    return answer, time.thread_time() - began


def without_collector(body: bytes) -> float:
    """The same seconds, without those in which Python looks for garbage among all there is."""
    gc.disable()
    try:
        return timed(body)[1]
    finally:
        gc.enable()


def decode(body: bytes) -> str:
    """What a body turns out to be. `other` is what there must be none of."""
    try:
        peek_kind(body)
        job = CODEC.decode(body)
    except UnknownJob:
        return "unknown"
    except DecodeError:
        return "malformed"
    except Exception:  # the fault that is looked for
        return "other"
    return "job" if isinstance(job, Everything) else "other"
