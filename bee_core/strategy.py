"""What the user asks for: strategies, and the policy that gathers them.

Strategies are data, not callables. They travel inside the message, so they are
closed, serialisable and matched exhaustively; `decide` is the only place that does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from bee_core.disposition import Archive, Delete, Reschedule, Terminal
from bee_core.duration import Duration, seconds
from bee_core.errors import InvalidOption


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait before the next repeat: `min * factor ** repeats`, at most `max`.

    `jitter` is the share of each delay that is left to chance: 0 always waits the
    whole delay, 1 waits anything between nothing and the whole delay.
    """

    min: float = 2.0
    factor: float = 2.0
    max: float = 300.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        least, most = seconds(self.min, "Backoff min"), seconds(self.max, "Backoff max")
        if most < least:
            raise InvalidOption(f"Backoff max ({most:g} s) is shorter than its min ({least:g} s)")
        if not _is_number(self.factor) or not 1.0 <= self.factor <= 1_000.0:
            raise InvalidOption(f"Backoff factor must be between 1 and 1000, not {self.factor!r}")
        if not _is_number(self.jitter) or not 0.0 <= self.jitter <= 1.0:
            raise InvalidOption(f"Backoff jitter must be between 0 and 1, not {self.jitter!r}")
        msgspec.structs.force_setattr(self, "min", least)
        msgspec.structs.force_setattr(self, "max", most)

    def delay(self, repeat: int, chance: float) -> float:
        """Seconds before repeat number `repeat` (1 is the first); `chance` is in [0, 1)."""
        try:
            full = min(self.max, self.min * self.factor ** (repeat - 1))
        except OverflowError:
            full = self.max
        return full * (1.0 - self.jitter * chance)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Repeat(msgspec.Struct, frozen=True, tag="repeat"):
    """Run again, up to `times` more (so `times + 1` runs), then do `otherwise`.

    `times=None` repeats for ever. Without a `backoff` of its own it uses the policy's.
    """

    times: int | None
    otherwise: Terminal = Archive()
    backoff: Backoff | None = None

    def __post_init__(self) -> None:
        times = self.times
        if times is not None and (type(times) is not int or times < 0):
            raise InvalidOption(
                f"Repeat needs a number of times >= 0, or None for ever; not {times!r}"
            )
        if not isinstance(self.otherwise, Delete | Archive):
            raise InvalidOption(f"Repeat otherwise takes Delete, Archive; not {self.otherwise!r}")
        if self.backoff is not None and not isinstance(self.backoff, Backoff):
            raise InvalidOption(f"Repeat backoff takes a Backoff; not {self.backoff!r}")


ArchiveStrategy: TypeAlias = Delete | Archive
ErrorStrategy: TypeAlias = Delete | Archive | Repeat
TimeoutStrategy: TypeAlias = Delete | Archive | Repeat
StallStrategy: TypeAlias = Delete | Archive | Repeat
InterruptStrategy: TypeAlias = Delete | Archive | Reschedule


class Policy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to do with a job, whatever happens to it. What is not set is left to the next level.

    The levels, first wins: `send(policy=...)`, job class, queue, hive, bee's defaults.
    Only what `send` was given travels with the message, so a changed job class or
    queue applies to jobs that are already waiting.

    timeout       seconds a run may take (None: no limit)           60
    on_success    Delete or Archive                                  Delete()
    on_error      Delete, Archive or Repeat                          Archive()
    on_timeout    Delete, Archive or Repeat                          Repeat(2)
    on_stall      its worker died: Delete, Archive or Repeat         Repeat(3)
    on_interrupt  its worker is shut down: Delete, Archive,
                  Reschedule                                         Reschedule(front=True)
    backoff       for every Repeat that has none of its own          2 s, 4 s, 8 s ... 300 s
    keep_result   seconds for which `Queue.result` knows how
                  it ended and what came of it (None: it does not)   None
    """

    timeout: Duration | UnsetType | None = UNSET
    on_success: ArchiveStrategy | UnsetType = UNSET
    on_error: ErrorStrategy | UnsetType = UNSET
    on_timeout: TimeoutStrategy | UnsetType = UNSET
    on_stall: StallStrategy | UnsetType = UNSET
    on_interrupt: InterruptStrategy | UnsetType = UNSET
    backoff: Backoff | UnsetType = UNSET
    keep_result: Duration | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        for name, allowed in _SLOTS.items():
            value = getattr(self, name)
            if value is not UNSET and not isinstance(value, allowed):
                names = ", ".join(kind.__name__ for kind in allowed)
                raise InvalidOption(f"Policy {name} takes {names}; not {value!r}")
        for name in ("timeout", "keep_result"):
            value = getattr(self, name)
            if value is not None and value is not UNSET:
                limit = seconds(value, f"Policy {name}", least=0.001)
                msgspec.structs.force_setattr(self, name, limit)


_SLOTS: dict[str, tuple[type, ...]] = {
    "on_success": (Delete, Archive),
    "on_error": (Delete, Archive, Repeat),
    "on_timeout": (Delete, Archive, Repeat),
    "on_stall": (Delete, Archive, Repeat),
    "on_interrupt": (Delete, Archive, Reschedule),
    "backoff": (Backoff,),
}


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """A policy with every blank filled in: what `decide` works from."""

    timeout: float | None = 60.0
    on_success: ArchiveStrategy = Delete()
    on_error: ErrorStrategy = Archive()
    on_timeout: TimeoutStrategy = Repeat(2)
    on_stall: StallStrategy = Repeat(3)
    on_interrupt: InterruptStrategy = Reschedule(front=True)
    backoff: Backoff = Backoff()
    keep_result: float | None = None


def check_policy(policy: Policy) -> Policy:
    """The policy, or InvalidOption."""
    if not isinstance(policy, Policy):
        raise InvalidOption(f"policy takes a Policy, not {policy!r}")
    return policy


def overlay(*levels: Policy) -> Policy:
    """One policy: the blanks of the first level filled from the second, and so on."""
    return Policy(**_filled(levels))  # type: ignore[arg-type]


@lru_cache(maxsize=1024)
def resolve(*levels: Policy) -> Rules:
    """As `overlay`, and what is left blank filled from the defaults."""
    return Rules(**_filled(levels))  # type: ignore[arg-type]


def _filled(levels: tuple[Policy, ...]) -> dict[str, object]:
    return {
        name: value
        for level in reversed(levels)
        for name in level.__struct_fields__
        if (value := getattr(level, name)) is not UNSET
    }
