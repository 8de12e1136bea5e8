"""What becomes of a message when its lease ends.

`Delete` and `Archive` are also the two simplest strategies: a strategy adds
`Repeat`, a disposition adds `Reschedule`, and `decide` turns the one into the other.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from bee_core.duration import seconds
from bee_core.errors import InvalidOption


class Delete(msgspec.Struct, frozen=True, tag="delete"):
    """The message is gone."""


class Archive(msgspec.Struct, frozen=True, tag="archive"):
    """The message leaves the queue and is kept, with the reason, until it is pruned or restored."""


class Reschedule(msgspec.Struct, frozen=True, tag="reschedule"):
    """The message stays, under the same id, and becomes visible again.

    After `delay` seconds and behind what is due by then; or, with `front`, at once
    and at the place it had before it was leased.
    """

    delay: float = 0.0
    front: bool = False

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "delay", seconds(self.delay, "delay"))
        if self.front and self.delay:
            raise InvalidOption("Reschedule: front=True means at once; leave out the delay")


Terminal: TypeAlias = Delete | Archive
Disposition: TypeAlias = Delete | Archive | Reschedule
