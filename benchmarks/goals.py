"""The ratios that bee aims at, and whether a run has met them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.results import Entry, Results

STORES = {"redis": "Redis", "pg": "PostgreSQL"}
NO_WORKERS = {"pg_pgmq"}
"""Clients of a queue that run no handlers: they are no measure for a worker."""
FULL = 0.9
"""A worker process that uses so much of a processor has its event loop as its limit; a worker and its
server that together use so much of all processors have the machine."""


class Goal(NamedTuple):
    """One of them. `found` is none if the run has not measured it."""

    what: str
    found: float | None
    wanted: float
    at_most: bool = False
    against: str = ""

    @property
    def is_met(self) -> bool:
        if self.found is None:
            return False
        return self.found <= self.wanted if self.at_most else self.found >= self.wanted


def goals(results: Results) -> list[Goal]:
    """All of them, in the order of the page."""
    return [
        *_drains(results),
        *_sends(results),
        *_pick_ups(results),
        *_sleeps(results),
        *_steady(results),
        *_memory(results),
    ]


def best_peer(
    results: Results,
    store: str,
    workload: str,
    figure: str,
    *,
    surviving: bool = False,
    workers: bool = False,
    choose: Callable[..., Entry] = max,
) -> Entry | None:
    """The peer whose median is best, of those that have one."""
    found = {
        entry.name: (median, entry)
        for entry in results.peers(store, surviving=surviving)
        if not (workers and entry.name in NO_WORKERS)
        and (median := results.median(workload, entry.name, figure)) is not None
    }
    if not found:
        return None
    return choose((entry for _, entry in found.values()), key=lambda entry: found[entry.name][0])


def _over(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def _against(
    results: Results, workload: str, figure: str, one: str, peer: Entry | None
) -> float | None:
    if peer is None:
        return None
    return results.ratio(figure, (workload, one), (workload, peer.name))


def _drains(results: Results) -> Iterator[Goal]:
    for store, times in (("redis", 5.0), ("pg", 2.0)):
        peer = best_peer(results, store, "drain", "rate", surviving=True, workers=True)
        found = _against(results, "drain", "rate", f"{store}_bee", peer)
        what = f"{STORES[store]}: drain, of the fastest worker that survives kill -9"
        yield Goal(what, found, times, against=peer.title if peer else "")
        found = results.ratio("rate", ("drain", f"{store}_bee"), ("drain", f"{store}_raw"))
        yield Goal(f"{STORES[store]}: drain, of the limit", found, 0.7)


def _sends(results: Results) -> Iterator[Goal]:
    for store, times in (("redis", 5.0), ("pg", 1.0)):
        for workload, wanted in (("send-many", times), ("send", 1.0)):
            peer = best_peer(results, store, workload, "rate")
            found = _against(results, workload, "rate", f"{store}_bee", peer)
            way = "send one by one" if workload == "send" else "send in batches"
            what = f"{STORES[store]}: {way}, of the fastest peer"
            yield Goal(what, found, wanted, against=peer.title if peer else "")


def _pick_ups(results: Results) -> Iterator[Goal]:
    for store in STORES:
        for figure in ("p50", "p99"):
            peer = best_peer(results, store, "pick-up", figure, choose=min)
            found = _against(results, "pick-up", figure, f"{store}_bee", peer)
            what = f"{STORES[store]}: idle pick-up, {figure}, of the fastest peer"
            yield Goal(what, found, 1.0, at_most=True, against=peer.title if peer else "")


def _sleeps(results: Results) -> Iterator[Goal]:
    for store in STORES:
        for at_once in (100, 1000):
            workload, name = f"sleep-{at_once}", f"{store}_bee"
            found = _over(
                results.median(workload, name, "rate"), results.median(workload, name, "theory")
            )
            what = f"{STORES[store]}: {at_once:,} handlers that wait 5 ms, of what waiting allows"
            limit = _processor_limit(results, workload, name)
            by_hand = _over(
                results.median(workload, f"{store}_raw", "rate"),
                results.median(workload, f"{store}_raw", "theory"),
            )
            falls_short = found is not None and found < 0.9
            beside = f"the limit has {by_hand:.2f}" if by_hand is not None and falls_short else ""
            # What the processors do not allow was not aimed at.
            yield Goal(what, found, 0.0 if limit else 0.9, against=limit or beside)


def _processor_limit(results: Results, workload: str, name: str) -> str:
    """In words what was used up, if anything was."""
    busy, serving = results.median(workload, name, "busy") or 0.0, served(results, workload, name)
    if busy >= FULL:
        return f"its event loop is the limit: {busy:.0%} of a processor"
    if busy + serving >= FULL * results.machine.processors:
        both = f"{busy:.2f} + {serving:.2f} of {results.machine.processors} processors"
        return f"the machine is full, with worker and server: {both}"
    return ""


def served(results: Results, workload: str, name: str) -> float:
    """How many processors its server used."""
    each = zip(
        results.values(workload, name, "rate"),
        results.values(workload, name, "server"),
        strict=False,  # a server's time may not have been taken
    )
    return statistics.median([rate * cost / 1e6 for rate, cost in each] or [0.0])


def _steady(results: Results) -> Iterator[Goal]:
    for store in STORES:
        name = f"{store}_bee"
        ratios = [
            many / few
            for many, few in zip(
                results.values("backlog", name, "many-cost"),
                results.values("backlog", name, "few-cost"),
                strict=True,
            )
        ]
        size = results.median("backlog", name, "size") or 500_000
        what = f"{STORES[store]}: cost of a job before {size:,.0f} others, of that before 1,000"
        yield Goal(what, statistics.median(ratios) if ratios else None, 1.1, at_most=True)
        found = results.ratio("server", ("contention-16", name), ("contention-1", name))
        what = f"{STORES[store]}: server's processor time for a job at 16 processes, of that at one"
        apart = results.ratio("server", ("contention-16-apart", name), ("contention-1", name))
        against = f"{apart:.2f} if each has a queue of its own" if apart else ""
        yield Goal(what, found, 1.2, at_most=True, against=against)


def _memory(results: Results) -> Iterator[Goal]:
    peers = [
        median
        for entry in results.peers("redis")
        if (median := results.median("memory", entry.name, "bytes")) is not None
    ]
    ours = results.median("memory", "redis_bee", "bytes")
    found = _over(ours, statistics.median(peers)) if peers else None
    what = "Redis: memory of a waiting job, of the median of the peers"
    yield Goal(what, found, 1.0, at_most=True)
