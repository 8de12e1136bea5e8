"""Slots that the queues of a hive share: who may take how many, and whose turn it is.

A plain object: it waits for nothing and calls no broker. A queue claims before it leases, and gives
back what it did not use. What it may take is what is free, less what is kept for the shares of
others, less what hungry queues of a higher precedence want. What is left is dealt out among equals:
to the one that uses least, and of those to the one that was served longest ago.

A queue is hungry if its last lease came back full. One that expects work, but has not found any
yet, wants a single slot, to look. One that expects none wants nothing, and costs nobody anything.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from bee_core.meter import Load


@dataclass(frozen=True)
class Place:
    """What a queue is to the others that share its capacity."""

    capacity: Capacity
    precedence: int = 0
    share: int = 0
    size: int = 1


class Member:
    """A queue that takes part, for as long as its worker runs.

    `room` says how many more jobs the queue itself could run, `running` how many it runs, and
    `on_room` hears that it is worth while to claim again.
    """

    def __init__(
        self,
        place: Place,
        *,
        room: Callable[[], int],
        running: Callable[[], int],
        on_room: Callable[[], None],
    ) -> None:
        self.capacity = place.capacity
        self.precedence = place.precedence
        self.share = place.share
        self.size = place.size
        self.room = room
        self.running = running
        self.on_room = on_room
        self.pending = 0
        """Slots that were granted for a lease that is under way."""
        self.hungry = False
        """Whether its last lease came back full."""
        self.waiting = False
        """Whether it expects work, and its last claim was for nothing."""
        self.told = False
        """Whether it has heard that it is worth while to claim again."""
        self.served = 0
        self.resting = False

    def claim(self, most: int, *, expecting: bool) -> int:
        """Take up to `most` slots. After 0, `on_room` tells who is expecting when to try again."""
        return self.capacity.claim(self, most, expecting=expecting)

    def give_back(self, *, full: bool) -> None:
        """Return what no job was started for; `full` if as many were leased as were claimed."""
        self.pending = 0
        self.hungry = full
        self.capacity.wake()

    def join(self) -> None:
        """From now on it counts, and so does its share."""
        self.capacity.members.append(self)
        self.capacity.stirred = False  # who was about to may have gone, with its event loop

    def leave(self) -> None:
        """It counts no longer, whatever it used."""
        if self in self.capacity.members:
            self.capacity.members.remove(self)
            self.capacity.wake()

    def stir(self) -> None:
        """One of its jobs has ended: somebody may have the slot."""
        self.capacity.stir()

    def rest(self) -> None:
        """Claim no more: its share is free for others, and so are its slots as its jobs end."""
        self.resting = True
        self.pending = 0
        self.hungry = self.waiting = False
        self.capacity.wake()

    @property
    def slots(self) -> int:
        """Slots in use."""
        return self.pending + self.running()

    @property
    def units(self) -> int:
        """Units of capacity in use."""
        return self.slots * self.size

    @property
    def kept(self) -> int:
        """Slots of its share that it does not use: nobody else may."""
        return 0 if self.resting else max(0, self.share - self.slots)

    @property
    def wanted(self) -> int:
        """Slots that it would take now, beyond what is kept for it."""
        if self.hungry:
            want = self.room() - self.pending
        elif self.waiting:
            want = min(1, self.room())
        else:
            return 0
        return max(0, want - self.kept)


class Alone:
    """A queue that shares with nobody: it may have all that it has room for."""

    def __init__(self, on_room: Callable[[], None]) -> None:
        self.stir = on_room

    def claim(self, most: int, *, expecting: bool) -> int:
        return most

    def give_back(self, *, full: bool) -> None: ...

    def join(self) -> None: ...

    def leave(self) -> None: ...

    def rest(self) -> None: ...


class Capacity:
    """Units for the jobs of several queues at once."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.members: list[Member] = []
        self.stirred = False
        """Whether those who wait are about to be woken."""
        self._turns = count(1)
        self._most = 0
        self._denied = False

    @property
    def used(self) -> int:
        """Units in use."""
        return sum(member.units for member in self.members)

    def load(self) -> Load:
        """What there was to do since this was last asked."""
        waits = any(m.waiting and m.room() > 0 for m in self.members)
        hungry = any(m.hungry for m in self.members) and (waits or self._denied)
        most, self._most, self._denied = max(self._most, self.used), 0, False
        return Load(most, hungry)

    def resize(self, size: int) -> None:
        """From now on it has that many units. Nothing that runs is stopped."""
        self.size = size
        self.wake()

    def claim(self, member: Member, most: int, *, expecting: bool) -> int:
        """Grant slots until they are given back; 0 if there are none for it now."""
        granted = self.grant(member, most)
        member.pending += granted
        member.waiting, member.told = granted < 1 and expecting, False
        if granted:
            member.served = next(self._turns)
            self._most = max(self._most, self.used)
        if granted < most and expecting:
            self._denied = True
        return granted

    def stir(self) -> None:
        """Something is free again: wake those who wait soon, and once for many jobs."""
        if not self.stirred:
            self.stirred = True
            asyncio.get_running_loop().call_soon(self.wake)

    def wake(self) -> None:
        """Tell those who wait and could have something now, in the order in which it is due."""
        self.stirred = False
        waiting = [m for m in self.members if m.waiting and not m.told]
        if not waiting:
            return
        for member in sorted(waiting, key=lambda m: (-m.precedence, m.units, m.served)):
            if self.grant(member, member.room()):
                member.told = True
                member.on_room()

    def grant(self, member: Member, most: int) -> int:
        """How many slots it may take now: of its share first, then of what is open to all."""
        if most < 1:
            return 0
        free, size = self.size - self.used, member.size
        own = min(most, member.kept, max(0, free) // size)
        if own == most:
            return own
        left = free - sum(other.kept * other.size for other in self.members)
        equals: list[Member] = []
        for other in self.members:
            if other is member or not (wanted := other.wanted):
                continue
            if other.precedence > member.precedence:
                left -= wanted * other.size
            elif other.precedence == member.precedence:
                equals.append(other)
        if left < size:
            return own
        if not equals:
            return own + min(most - own, left // size)
        return own + _dealt(member, most - own, own * size, equals, left)


def _dealt(member: Member, most: int, own: int, equals: Sequence[Member], left: int) -> int:
    """How many of what is left fall to one of several equals, slot by slot.

    If there is not enough left for the one whose turn it is, the rest is kept until there is: a
    queue of large jobs would wait for ever otherwise.
    """
    hands = [(member.units + own, member.served, 0, most, member)]
    hands += [
        (other.units + other.kept * other.size, other.served, number, other.wanted, other)
        for number, other in enumerate(equals, 1)
    ]
    heapq.heapify(hands)
    dealt = 0
    while hands and dealt < most:
        units, served, number, wanted, who = hands[0]
        if left < who.size:
            break
        left -= who.size
        dealt += who is member
        if wanted > 1:
            heapq.heapreplace(hands, (units + who.size, served, number, wanted - 1, who))
        else:
            heapq.heappop(hands)
    return dealt
