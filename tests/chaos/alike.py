"""The same random steps on two stores: whatever they answer must be the same.

    python -m tests.chaos.alike --store pg --runs 1000

Time plays no part: what is delayed is so for good, and no lease runs out. What time does is for the
conformance suite; here it is the odd sequences that nobody thinks of.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

import bee_core as bee
from bee_core.broker import Store
from bee_core.message import Draft, Lease, Note, Rate, Receipt, Settlement, Throttle
from bee_core.stored import Episode, State, Stored
from bee_memory import MemoryBroker
from tests.chaos import stores

LONG = 100_000.0
IDS = ["a", "b", "c", "d", "e", "f", "g"]
PARENTS = {"a", "b", "c"}
HOLDERS = ["h", "i", "j"]
KEYS = [None, None, "k", "l"]
THROTTLES = [
    Throttle(),
    Throttle(),
    Throttle(per_key=2),
    Throttle(per_key=None),
    Throttle(per_key=None, key_rate=Rate(3, per=LONG)),
]


class Pair:
    """The specification and the store under test, side by side."""

    def __init__(self, other: Store, queue: str, chance: random.Random) -> None:
        self._both: tuple[Store, Store] = (MemoryBroker(), other)
        self._queue = queue
        self._chance = chance
        self._held: list[tuple[Lease, Lease]] = []
        self._throttle = chance.choice(THROTTLES)
        self._seen: dict[str, tuple[Stored, Stored]] = {}
        self.steps: list[str] = []

    async def step(self) -> None:
        verbs: list[Callable[[], Awaitable[None]]] = [
            *[self._send] * 6,
            *[self._lease] * 6,
            *[self._settle] * 6,
            *[self._cancel] * 2,
            self._extend,
            self._announce,
            self._restore,
            self._prune,
            self._glance,
            self._expel,
            self._move,
            self._purge,
        ]
        weights = [1.0] * (len(verbs) - 1) + [0.1]
        [verb] = self._chance.choices(verbs, weights)
        await verb()
        await self._look()

    async def _ask(self, say: str, call: Callable[[Store], Awaitable[Any]]) -> tuple[Any, Any]:
        self.steps.append(say)
        answers = []
        for broker in self._both:
            try:
                answers.append(await call(broker))
            except bee.IdTaken as error:
                answers.append(("taken", sorted(error.ids)))
        return answers[0], answers[1]

    def _same(self, what: str, pair: tuple[Any, Any]) -> None:
        assert pair[0] == pair[1], f"{what}: {pair[0]} and {pair[1]}, after\n" + "\n".join(
            self.steps
        )

    def _draft(self) -> Draft:
        chance = self._chance
        runs: list[Any] = ["always", "never", "if_later", "if_earlier"]
        update = bee.Update(
            payload=chance.random() < 0.5,
            run_at=chance.choice(runs),
            policy=chance.random() < 0.5,
        )
        rules: list[bee.Keep | bee.Reject | bee.Update] = [bee.Keep(), bee.Reject(), update, update]
        return Draft(
            chance.choice(IDS),
            str(chance.randrange(100)).encode(),
            delay=chance.choice([0.0, 0.0, 0.0, LONG]),
            priority=chance.choice([0, 0, 1]),
            if_taken=chance.choice(rules),
            key=chance.choice(KEYS),
            awaits=chance.choice([0, 0, 0, 1, 2]),
            reports_to=chance.choice([None, None, *sorted(PARENTS)]),
        )

    def _drafts(self, most: int) -> list[Draft]:
        drafts = [self._draft() for _ in range(self._chance.randint(1, most))]
        return list({draft.id: draft for draft in drafts}.values())

    async def _send(self) -> None:
        drafts = self._drafts(3)
        pair = await self._ask(f"send {drafts}", lambda b: b.send(self._queue, drafts))
        self._same("send", (list(pair[0]), list(pair[1])))

    async def _lease(self) -> None:
        limit = self._chance.randint(1, 3)
        holder = self._chance.choice(HOLDERS)
        options: dict[str, Any] = {"limit": limit, "duration": LONG, "holder": holder}
        one, other = await self._ask(
            f"lease {limit} {holder} {self._throttle}",
            lambda b: b.lease(self._queue, **options, throttle=self._throttle),
        )
        self._same("lease", ([_plain(x) for x in one], [_plain(x) for x in other]))
        self._held += zip(one, other, strict=True)

    async def _settle(self) -> None:
        if not self._held:
            return
        # In which order the settlements of one call are taken is open: none may meet another.
        several = [leases for leases in self._held if leases[0].receipt.id not in PARENTS]
        one = [self._chance.choice(self._held)]
        ended = self._chance.choice([one, several[:3] or one])
        self._held = [leases for leases in self._held if leases not in ended]
        ends = [self._end({leases[0].receipt.id for leases in ended}) for _ in ended]
        sides = [
            [_settlement(leases[n].receipt, end) for leases, end in zip(ended, ends, strict=True)]
            for n in (0, 1)
        ]
        self.steps.append(f"settle {sides[0]}")
        lost = [
            {receipt.id for receipt in await broker.settle(self._queue, side)}
            for broker, side in zip(self._both, sides, strict=True)
        ]
        self._same("settle", (lost[0], lost[1]))

    def _end(self, settled: set[str]) -> dict[str, Any]:
        ways = [bee.Delete(), bee.Delete(), bee.Archive(), bee.Reschedule(), bee.Reschedule(LONG)]
        way = self._chance.choice([*ways, bee.Reschedule(front=True)])
        then = self._drafts(2) if self._chance.random() < 0.3 else []
        notes = [None, None, Note("succeeded"), Note("failed", "why")]
        return {
            "disposition": way,
            "note": self._chance.choice(notes),
            "then": [draft for draft in then if draft.id not in PARENTS | settled],
            "result": self._chance.choice([b"", b"r"]),
            "keep": self._chance.choice([0.0, LONG]),
            "summary": self._chance.choice(["", "in a line"]),
        }

    async def _cancel(self) -> None:
        # Whether one that is cancelled hears of the others, is open: none may report to another.
        children = [id for id in IDS if id not in PARENTS]
        ids = self._chance.choice([[self._chance.choice(IDS)], self._chance.sample(children, 2)])
        ends: list[bee.Terminal] = [bee.Delete(), bee.Archive()]
        to = self._chance.choice(ends)
        running = self._chance.random() < 0.5
        pair = await self._ask(
            f"cancel {ids} {to} {running}",
            lambda b: b.cancel(self._queue, ids, to=to, running=running),
        )
        self._same("cancel", (set(pair[0]), set(pair[1])))

    async def _extend(self) -> None:
        said = str(self._chance.randrange(10))
        kinds = self._chance.choice([("progress",), ("remarks",), ("progress", "remarks")])
        self.steps.append(f"extend {kinds} {said}")
        lost = []
        for n, broker in enumerate(self._both):
            receipts = [leases[n].receipt for leases in self._held]
            texts = {kind: {receipt.id: kind + said for receipt in receipts} for kind in kinds}
            gone = await broker.extend(self._queue, receipts, duration=LONG, **texts)
            lost.append({receipt.id for receipt in gone})
        self._same("extend", (lost[0], lost[1]))

    async def _announce(self) -> None:
        name, duration = self._chance.choice(HOLDERS), self._chance.choice([LONG, LONG, 0.0])
        about = self._chance.choice(["", "me", "still me"])
        await self._ask(
            f"announce {name} {about!r} {duration}",
            lambda b: b.announce(self._queue, name, about=about, duration=duration),
        )

    async def _restore(self) -> None:
        ids = self._chance.sample(IDS, 2)
        pair = await self._ask(f"restore {ids}", lambda b: b.restore(self._queue, ids))
        self._same("restore", (set(pair[0]), set(pair[1])))

    async def _prune(self) -> None:
        keep = self._chance.choice([0, 1000])  # which of two of one moment is older, is open
        self._same(
            "prune", await self._ask(f"prune {keep}", lambda b: b.prune(self._queue, keep=keep))
        )

    async def _glance(self) -> None:
        """Remember what waits, to expel some of it later, as it was seen now."""
        one, other = [{item.id: item for item in await self._waiting(b)} for b in self._both]
        self._same("waiting", (sorted(one), sorted(other)))
        self._seen = {id: (one[id], other[id]) for id in one}

    async def _expel(self) -> None:
        ids = self._chance.sample(sorted(self._seen), min(2, len(self._seen)))
        self.steps.append(f"expel {ids}")
        left = [
            [item.id for item in await b.expel(self._queue, [self._seen[id][n] for id in ids])]
            for n, b in enumerate(self._both)
        ]
        self._same("expel", (left[0], left[1]))

    async def _move(self) -> None:
        """Out of the queue and in again, due one after the other: else their order would be open.

        For the same reason not while one is held.
        """
        if (await self._both[0].stats(self._queue)).leased:
            return
        self.steps.append("move")
        counts = []
        for broker in self._both:
            items = sorted(await self._waiting(broker), key=lambda item: item.id)
            kept = (await broker.scan(self._queue, State.ARCHIVED, limit=1000)).items
            told = {id: await broker.reports(self._queue, id) for id in sorted(PARENTS)}
            assert [] == list(await broker.expel(self._queue, [*items, *kept]))
            items = [
                msgspec.structs.replace(item, due_at=item.due_at // LONG * LONG + n)
                for n, item in enumerate(items)
            ]
            assert [] == list(await broker.adopt(self._queue, [*items, *kept], reports=told))
            counts.append(len(items))
        self._same("move", (counts[0], counts[1]))

    async def _waiting(self, broker: Store) -> list[Stored]:
        found: list[Stored] = []
        for state in (State.READY, State.DELAYED):
            found += (await broker.scan(self._queue, state, limit=1000)).items
        return found

    async def _purge(self) -> None:
        self._same("purge", await self._ask("purge", lambda b: b.purge(self._queue)))

    async def _look(self) -> None:
        """Everything that can be seen from outside."""
        looks = []
        for broker in self._both:
            seen: dict[str, Any] = {}
            stats = await broker.stats(self._queue)
            seen["counts"] = (stats.ready, stats.delayed, stats.leased, stats.blocked)
            seen["archived"] = {k: n for k, n in stats.archived.items() if n}
            seen["created"] = stats.created
            for state in (State.READY, State.DELAYED, State.LEASED, State.BLOCKED, State.ARCHIVED):
                items = (await broker.scan(self._queue, state, limit=1000)).items
                seen[state.value] = sorted(str(_shown(item)) for item in items)
            seen["results"] = sorted(
                str(r) for r in (await broker.results(self._queue, IDS)).values()
            )
            seen["workers"] = [
                (w.name, w.leases, w.leased_until is None, w.since is None, w.about)
                for w in await broker.workers(self._queue)
            ]
            for id in PARENTS:
                seen[f"reports to {id}"] = list(await broker.reports(self._queue, id))
            looks.append(seen)
        for name in looks[0]:
            self._same(name, (looks[0][name], looks[1][name]))


def _plain(lease: Lease) -> tuple[Any, ...]:
    return (lease.receipt.id, lease.body, lease.counters, lease.key, lease.reports_to)


def _shown(item: Stored) -> tuple[Any, ...]:
    return (
        item.id,
        item.state,
        item.body,
        item.priority,
        item.counters,
        item.note,
        item.key,
        item.awaits,
        item.reports_to,
        item.progress,
        item.holder,
        item.leased_at is None,
        item.token is None,
        item.remark,
        [_happened(episode) for episode in item.history],
    )


def _happened(episode: Episode) -> tuple[Any, ...]:
    """An episode without its times."""
    return (
        episode.holder,
        episode.reason,
        episode.summary,
        episode.due_at is None,
        episode.remark,
        episode.leased_at <= episode.ended_at,
    )


def _settlement(receipt: Receipt, end: dict[str, Any]) -> Settlement:
    return Settlement(receipt, **end)


async def compare(broker: Store, *, runs: int, steps: int = 40, seed: int = 0) -> None:
    """Raise AssertionError, with all the steps that led to it, at the first difference."""
    for run in range(seed, seed + runs):
        pair = Pair(broker, "alike", random.Random(run))
        await broker.drop("alike")
        pair.steps.append(f"seed {run}")
        for _ in range(steps):
            await pair.step()


async def _main(url: str, runs: int, seed: int) -> None:
    async with bee.connect(url) as broker:
        await compare(broker, runs=runs, seed=seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", choices=stores.NAMES, default="valkey")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    server = stores.durable(options.store)
    try:
        asyncio.run(_main(server.url, options.runs, options.seed))
    except AssertionError as difference:
        print(difference)
        return 1
    finally:
        server.stop()
    print(f"{options.runs} runs, no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
