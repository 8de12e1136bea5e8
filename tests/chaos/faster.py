"""A store whose clock runs faster than the world's, so that a week takes minutes.

The store's own code tells the time: in Valkey the lines at the head of its scripts, in PostgreSQL a
function of the test's that stands in front of PostgreSQL's. Nothing else is changed, but for the
leases of workers: they renew them in real time, so they ask for as much more of the store's.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from bee_core.broker import Store
from bee_core.message import Lease, Receipt
from bee_core.testing import FaultyBroker
from bee_pg import line
from bee_redis.scripts import SCRIPTS
from tests.servers import PgServer

_TIME = b"""\
local clock = call('TIME')
local NOW = clock[1] * 1000000 + clock[2]
"""
_SHADOW = """
create schema fake;
create function fake.clock_timestamp() returns timestamptz language sql volatile as $$
  select to_timestamp({start} + {speed} * greatest(
    0, extract(epoch from pg_catalog.clock_timestamp())::double precision - {begins}))
$$;
do $$ declare made regprocedure; begin
  for made in select oid from pg_proc where pronamespace = 'bee'::regnamespace loop
    execute format('alter function %s set search_path to fake, bee, pg_catalog, pg_temp', made);
  end loop;
  execute format( -- for what is sent as a statement
    'alter database %I set search_path to fake, public, pg_catalog, pg_temp', current_database());
end $$;
"""


@dataclass(frozen=True)
class Pace:
    """The store's clock stands at `start` until `begins`, and then runs `speed` times as fast."""

    start: float
    begins: float
    speed: float

    def now(self) -> float:
        """What the store's clock shows."""
        return self.start + self.speed * max(0.0, time.time() - self.begins)


@contextmanager
def faster(server: object, pace: Pace) -> Iterator[None]:
    """Inside it, this process and those it forks make the store's clock run at that pace."""
    if isinstance(server, PgServer):
        server.ask(_SHADOW.format(start=pace.start, begins=pace.begins, speed=pace.speed))
        # How long a call took is told by the store's clock, too: it is never too long.
        with mock.patch.object(line, "_SLOW", math.inf):
            yield
        return
    told = (
        f"local clock = call('TIME')\n"
        f"local NOW = clock[1] + clock[2] / 1000000 - {pace.begins!r}\n"
        f"NOW = math.floor(1000000 * ({pace.start!r} + {pace.speed!r} * math.max(0, NOW)))\n"
    )
    before = {script: (script.text, script.sha) for script in SCRIPTS.values()}
    try:
        for script in SCRIPTS.values():
            assert script.text.count(b"'TIME'") == script.text.count(_TIME) > 0, script.verb
            script.text = script.text.replace(_TIME, told.encode())
            script.sha = hashlib.sha1(script.text).hexdigest().encode()
        yield
    finally:
        for script, (text, sha) in before.items():
            script.text, script.sha = text, sha


class InRealTime(FaultyBroker):
    """A broker whose leases last as long as is asked for, in real time."""

    def __init__(self, inner: Store, speed: float) -> None:
        super().__init__(inner)
        self._speed = speed

    def clone(self) -> InRealTime:
        return InRealTime(self.inner.clone(), self._speed)

    async def lease(self, queue: str, **options: Any) -> Sequence[Lease]:
        options["duration"] *= self._speed
        return await super().lease(queue, **options)

    async def extend(
        self, queue: str, receipts: Sequence[Receipt], **options: Any
    ) -> AbstractSet[Receipt]:
        options["duration"] *= self._speed
        return await super().extend(queue, receipts, **options)
