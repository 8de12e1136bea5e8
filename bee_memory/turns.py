"""Whose turn it is among the messages of one key: who holds it, who waits for it, how fast it goes.

A message that is passed over is parked under its key, and costs nobody anything until the key is
let go, or until a rate allows the next delivery. Taking one off too early does no harm: it is
looked at, and parked again.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from dataclasses import dataclass, field

from bee_core.message import Rate, Throttle
from bee_memory.messages import Message, Place


@dataclass(slots=True, eq=False)
class Turns:
    """The keys of one queue."""

    holders: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    parked: defaultdict[str, list[tuple[bool, Place, Message]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """In order; but one that holds the key itself, and ran out, comes first: all wait for it."""
    delivered: defaultdict[str | None, deque[float]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    """When, of late: of each key, and (under None) of the queue."""
    wakes: list[tuple[float, str]] = field(default_factory=list)
    """When to look again at a key, because of its rate."""
    waking: dict[str, float] = field(default_factory=dict)
    """The last of these times, by key: however many are passed over, one look is enough."""
    quiet_until: float = -math.inf
    """When the queue's own rate allows the next delivery."""

    def room(self, throttle: Throttle, now: float) -> float:
        """How many more deliveries the rate of the queue allows."""
        room, self.quiet_until = self._room(None, throttle.rate, now)
        return room

    def admits(self, key: str, id: str, throttle: Throttle, now: float) -> bool:
        """Whether one more message of that key may be delivered, or this one taken over."""
        room, again = self._room(key, throttle.key_rate, now)
        if room < 1:
            if self.waking.get(key) != again:
                self.waking[key] = again
                heapq.heappush(self.wakes, (again, key))
            return False
        holders = self.holders[key]
        return throttle.per_key is None or id in holders or len(holders) < throttle.per_key

    def take(self, message: Message, throttle: Throttle, now: float) -> None:
        """Note a delivery."""
        if throttle.rate is not None:
            self.delivered[None].append(now)
        if message.key is not None:
            self.holders[message.key].add(message.id)
            if throttle.key_rate is not None:
                self.delivered[message.key].append(now)

    def let_go(self, key: str, id: str) -> None:
        """A message holds its key no longer, if it did."""
        self.holders[key].discard(id)
        if not self.holders[key]:
            del self.holders[key]

    def park(self, message: Message) -> None:
        """Pass a message over."""
        assert message.key is not None
        message.parked = True
        waits = message.id not in self.holders[message.key]
        heapq.heappush(self.parked[message.key], (waits, message.place, message))

    def woken(self, now: float) -> str | None:
        """A key whose time has come, if there is any."""
        if not self.wakes or self.wakes[0][0] > now:
            return None
        at, key = heapq.heappop(self.wakes)
        if self.waking.get(key) == at:
            del self.waking[key]
        return key

    def next(self, key: str) -> Message | None:
        """Take the first of those that wait for a key, if any does."""
        waiting = self.parked[key]
        while waiting:
            _, place, message = heapq.heappop(waiting)
            if message.parked and message.key == key and message.place == place:
                message.parked = False
                return message
        del self.parked[key]
        return None

    def _room(self, key: str | None, rate: Rate | None, now: float) -> tuple[float, float]:
        """How many more deliveries a rate allows, and when it allows the next."""
        if rate is None:
            return math.inf, -math.inf
        per = rate.seconds
        times = self.delivered[key]
        while times and times[0] + per <= now:
            times.popleft()
        room = rate.times - len(times)
        return room, -math.inf if room > 0 else times[-rate.times] + per
