"""What a broker whose queues are spread has besides: another one, for the parts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, NamedTuple

from bee_core.errors import BrokerError, BrokerMisconfigured, BrokerUnavailable, OutcomeUnknown
from bee_redis.broker import RedisBroker
from bee_redis.session import spread_otherwise
from bee_redis.sharded.parts import check_shards, part_names, part_number, queue_of
from bee_redis.sharded.watch import Watch

TRUSTED = 60.0
"""Seconds after which it is looked at again over how many shards a queue is spread."""
_PROBE = 1.0
"""Seconds between two looks at a part that could not be reached."""
PASSING = (BrokerUnavailable, OutcomeUnknown)


class Avoided(NamedTuple):
    """A part that could not be reached, and who looks whether it can be again."""

    error: BrokerError
    probe: asyncio.Task[None]


class Parts(RedisBroker):
    """The parts of all queues, each as a queue of its own, under a prefix of their own."""

    _whole: ShardedSession
    _is_spread = True

    @classmethod
    def of(cls, whole: ShardedSession) -> Parts:
        """With the options of the whole, and connections of its own."""
        parts = cls.__new__(cls)
        parts.__dict__.update(whole.__dict__, _prefix=f"{whole._prefix}:shards{whole._spread}")
        parts._whole = whole
        parts._start_afresh()
        return parts

    def _tokens_of(self, queue: str) -> tuple[int, ...]:
        """Other ones than any other part gives: a worker tells what it holds by the token."""
        return self._whole._spread, part_number(queue)

    def pass_on(self, name: str) -> None:
        """A wake-up was not used: somebody else has it, here or elsewhere."""
        if bell := self._bell(name):
            bell.pass_on()

    async def _list_again(self, queue: str, until: float) -> None:
        """A part is new, or somebody has dropped the queue, and taken its mark away as well."""
        await super()._list_again(queue, until)
        await self._whole._claim_again(queue)


class ShardedSession(RedisBroker):
    """It speaks for whole queues (mark, registry); `_parts` does what is done to parts."""

    _is_spread = True

    def __init__(self, *arguments: Any, shards: int | None = None, **options: Any) -> None:
        self._spread = check_shards(1 if shards is None else shards)
        super().__init__(*arguments, **options)

    def _start_afresh(self) -> None:
        super()._start_afresh()
        self._parts = Parts.of(self)
        self._trusted: dict[str, float] = {}
        self._watches: dict[str, Watch] = {}
        self._avoided: dict[str, Avoided] = {}

    def __repr__(self) -> str:
        where = self._where.shown if hasattr(self, "_where") else "nowhere"
        return f"<RedisBroker on {where}, {self._spread} shards>"

    async def aclose(self) -> None:
        avoided, self._avoided = self._avoided, {}
        for one in avoided.values():
            one.probe.cancel()
        try:
            await self._parts.aclose()
        finally:
            await super().aclose()

    async def _parts_of(self, queue: str, *, claim: bool = False) -> tuple[str, ...]:
        """The names of the parts of a queue, unless it is spread otherwise: BrokerMisconfigured.

        Who is about to put something there has to `claim` it: from then on it is spread like that.
        """
        names = part_names(queue, self._spread)
        self._check_usable()
        now = asyncio.get_running_loop().time()
        if self._trusted.get(queue, 0.0) < now:
            if claim:
                await self._registry(b"SADD", queue)
            marked = await self._run("mark", queue, self._spread if claim else "")
            if marked not in (0, self._spread):
                raise BrokerMisconfigured(spread_otherwise(queue, marked, self._spread))
            if marked:
                self._trusted[queue] = now + TRUSTED
        return names

    async def _claim_again(self, name: str) -> None:
        """By the name of a part. If that is in vain for now, the next minute will do."""
        queue = queue_of(name)
        self._trusted.pop(queue, None)
        with suppress(BrokerError):
            await self._parts_of(queue, claim=True)

    def _watch(self, queue: str) -> Watch:
        if queue not in self._watches:
            self._watches[queue] = Watch(self._spread)
        return self._watches[queue]

    def _avoid(self, name: str, error: BrokerError) -> None:
        """Leave a part alone until it answers again: who waits for it keeps the others waiting."""
        if name not in self._avoided:
            probe = asyncio.create_task(self._probe(name), name="bee:probe")
            self._avoided[name] = Avoided(error, probe)
            # However it ends, by somebody's cancellation too: nobody else would look there again.
            probe.add_done_callback(lambda _: self._avoided.pop(name, None))

    async def _probe(self, name: str) -> None:
        while True:
            await asyncio.sleep(_PROBE)
            try:
                await self._parts.stats(name)
            except PASSING:
                continue
            except BrokerError:
                pass  # whatever it is, the next who leases is told
            return
