"""A message of the model, and what a draft may change in one that is there already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bee_core.message import ZERO, Counters, Note, RunAt, Update
from bee_core.stored import State


@dataclass(slots=True)
class Message:
    """A message that waits, is leased or archived; or, with its `rule`, a successor."""

    id: str
    body: bytes
    headers: Mapping[str, str]
    priority: int
    key: str | None
    awaits: int
    reports_to: str | None
    sent_at: float
    due: float
    number: int
    """Its place among those that are due at the same time; a new one when its time is replaced."""
    born: int
    """Tells two lives of one id apart."""
    rule: Update = field(default_factory=Update)
    counters: Counters = ZERO
    token: int | None = None
    holder: str | None = None
    leased_at: float = 0.0
    leased_until: float = 0.0
    note: Note | None = None
    successor: Message | None = None
    archived_at: float | None = None

    @property
    def place(self) -> tuple[int, float, int]:
        """Higher priority first, then the time due, then the order of arrival."""
        return -self.priority, self.due, self.number

    def state(self, now: float) -> State:
        """Where it is. The lease of one that is ready, and has a token, has run out."""
        if self.archived_at is not None:
            return State.ARCHIVED
        if self.token is None:
            return State.READY if self.due <= now else State.DELAYED
        return State.READY if self.leased_until <= now else State.LEASED


def merge(message: Message, fresh: Message) -> bool:
    """Change a message field by field, as the rule of the other says. Whether its time changed."""
    rule = fresh.rule
    if rule.payload:
        message.body = fresh.body
    if rule.policy:
        message.headers, message.priority, message.key = fresh.headers, fresh.priority, fresh.key
    if rule.resets:
        message.counters = ZERO
    moves = _MOVES[rule.run_at](message.due, fresh.due)
    if moves:
        message.due, message.number = fresh.due, fresh.number
    return moves


_MOVES: Mapping[RunAt, Callable[[float, float], bool]] = {
    "always": lambda old, new: True,
    "never": lambda old, new: False,
    "if_later": lambda old, new: new > old,
    "if_earlier": lambda old, new: new < old,
}


def both(first: Update, second: Update, moved: bool) -> Update:
    """What a successor is to change after two drafts: every field that one of them was to."""
    times: Sequence[RunAt] = [r.run_at for r in (first, second) if r.run_at != "never"]
    if len(set(times)) == 2:
        run_at: RunAt = "always" if moved or "always" in times else times[0]
    else:
        run_at = times[0] if times else "never"
    return Update(
        payload=first.payload or second.payload,
        run_at=run_at,
        policy=first.policy or second.policy,
        reset_counts=first.resets or second.resets,
    )
