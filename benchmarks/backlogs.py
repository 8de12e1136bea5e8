"""What a job costs in front of many others, and in front of few."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from benchmarks.bench import Bench, Found, server_for
from benchmarks.contender import Contender, Trouble
from benchmarks.drains import drain, fill, probe_drain
from benchmarks.servers import BenchServer

FEW = 1_000
BACKLOG = 500_000
DELAYED = 300_000
A_DAY = 86_400.0
LONGEST_FILL = 30.0
"""Seconds that filling may take. A slow contender gets a shorter backlog, and its figures say so."""


def backlog(bench: Bench) -> None:
    """In front of 500,000 that wait, and of 1,000; in turns, on two servers.

    few-..., many-...   as in `drain`; cost: µs of the worker's and the server's processor time together
    size                how many wait in front of which it is done
    """
    size = int(BACKLOG * bench.scale)
    _compare(bench, "backlog", lambda one, server: _fill_up(one, server, size, 0.0), FEW)


def delayed(bench: Bench) -> None:
    """With 300,000 that are due tomorrow, and without. Figures as in `backlog`."""
    size = int(DELAYED * bench.scale)
    _compare(bench, "delayed", lambda one, server: _fill_up(one, server, size, A_DAY), 0)


def _compare(
    bench: Bench, workload: str, crowd: Callable[[Contender, BenchServer], int], few: int
) -> None:
    for store in ("redis", "pg"):
        chosen = [one for one in bench.fastest(store) if one.entry.title != "raw"]
        for contender in chosen:
            with ExitStack() as stack:
                many = stack.enter_context(server_for(contender))
                bare = stack.enter_context(server_for(contender))
                try:
                    size = crowd(contender, many)
                except Trouble as trouble:
                    bench.one(workload, contender, 0, _raising(trouble))
                    continue
                fill(contender, bare, max(few, 1))
                for number in range(bench.rounds):
                    order = (many, bare) if number % 2 else (bare, many)
                    bench.one(workload, contender, number, _in_turns(bench, order, many, size))


def _raising(trouble: Trouble) -> Callable[[Contender], Found]:
    def measure(contender: Contender) -> Found:
        raise trouble

    return measure


def _in_turns(
    bench: Bench, order: tuple[BenchServer, ...], many: BenchServer, size: int
) -> Callable[[Contender], Found]:
    def measure(contender: Contender) -> Found:
        jobs = bench.jobs("drain", contender, lambda: probe_drain(contender), 2.0, 200_000)
        figures: dict[str, float] = {"size": size}
        others = []
        for server in order:
            fill(contender, server, jobs)
            server.settle()
        for server in order:
            # The last ones stay: nobody measures how a queue comes to its end.
            found = drain(contender, server, jobs, stop_at=0.95)
            name = "many" if server is many else "few"
            for figure in ("rate", "client", "server"):
                figures[f"{name}-{figure}"] = found.figures[figure]
            figures[f"{name}-cost"] = found.figures["client"] + found.figures["server"]
            others.append(found.others)
        return Found(figures, max(others))

    return measure


def _fill_up(contender: Contender, server: BenchServer, size: int, delay: float) -> int:
    """As many as fit into the time, in one go; and how many that was."""
    options = {"delay": delay} if delay else {}
    sent = contender.send(server.url, "send-many", 1000, **options)
    size = min(size, int(LONGEST_FILL * sent.jobs / sent.seconds))
    contender.send(server.url, "send-many", max(0, size - 1000), **options)
    server.settle()
    return size
