"""Draining: what it does to the worker and to the server while jobs are being done."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from benchmarks.bench import Found, server_for
from benchmarks.contender import NONE, PATIENCE, Contender, Trouble, Worker, working
from benchmarks.noise import Others
from benchmarks.rates import joint_rate
from benchmarks.servers import BenchServer, Counters, flushed

EVERY = 0.005
PROBES = (200, 6_000)
"""How many jobs are tried first, to see how many to measure with: more for who is too fast."""


class TooFast(Trouble):
    """There were too few jobs."""


def fill(contender: Contender, server: BenchServer, jobs: int, **options: object) -> None:
    """Put jobs into the store, the fastest way."""
    if contender.entry.store == "memory":
        return  # its worker does it
    contender.send(server.url, "send-many", jobs, **options)


def drain(
    contender: Contender,
    server: BenchServer,
    jobs: int,
    *,
    stop_at: float = 1.0,
    options: Mapping[str, object] = NONE,
) -> Found:
    """Let a new worker do `jobs` that wait in the store, or that part of them, and kill it.

    rate          jobs a second, while all processes are at work
    client        µs of processor time of the workers for a job
    server        µs of processor time of the server
    calls, bytes  of the server, for a job: see `Counters`
    busy          processors that each worker process used
    """
    if contender.entry.store == "memory":
        options = {"jobs": jobs}
    before = server.counters()
    with working(contender, server.url, options) as workers:
        found = _observe(server, workers, int(jobs * stop_at))
    return _with_calls(found, server, before, workers)


def drain_together(
    contender: Contender,
    server: BenchServer,
    jobs: int,
    processes: int,
    *,
    warm_up: int = 0,
    apart: bool = False,
) -> Found:
    """As `drain`, by processes that all begin at one moment.

    They come up at an empty store and are held (SIGSTOP) until it is full: else the first would have
    done everything when the last is up. With `warm_up` they have done so many before, which do not
    count: PostgreSQL compiles and plans for each connection what it does for it. `apart`: each has
    a queue of its own, with its share of the jobs.
    """
    queues = [f"bench-{n}" for n in range(processes)] if apart else ["bench"]

    def fill_all(jobs: int) -> None:
        for queue in queues:
            fill(contender, server, jobs // len(queues), **_of(queue))

    options = [_of(queues[n % len(queues)]) for n in range(processes)]
    with working(contender, server.url, *options) as workers:
        for worker in workers:
            worker.wait_up()
        time.sleep(1.0)  # for those who say it a little early
        if warm_up:
            fill_all(warm_up)
            _wait_for(workers, warm_up // len(queues) * len(queues))
            time.sleep(0.5)  # until it is settled, too
            for worker in workers:
                worker.start_over()
        for worker in workers:
            worker.pause()
        fill_all(jobs)
        server.settle()
        before = server.counters()
        for worker in workers:
            worker.resume()
        found = _observe(server, workers, int(0.95 * jobs))
    return _with_calls(found, server, before, workers)


def _of(queue: str) -> dict[str, object]:
    return {} if queue == "bench" else {"queue": queue}


def probe_drain(contender: Contender, options: Mapping[str, object] = NONE) -> float:
    """Jobs a second."""
    rate = 0.0
    for jobs in PROBES:
        with server_for(contender) as server:
            fill(contender, server, jobs)
            try:
                rate = drain(contender, server, jobs, options=options).figures["rate"]
            except TooFast:
                rate = 10.0 * jobs
                continue
        if jobs / rate > 0.5:
            break
    return rate


def _with_calls(
    found: Found, server: BenchServer, before: Counters, workers: Sequence[Worker]
) -> Found:
    """Also what cannot be had at one moment, because sessions tell it when they end."""
    done = sum(worker.count() for worker in workers)
    spent = flushed(server).since(before)
    more = {"calls": spent.calls / done, "bytes": spent.bytes / done}
    return Found(found.figures | more, found.others)


def _observe(server: BenchServer, workers: Sequence[Worker], jobs: int) -> Found:
    _wait_for(workers, 1)
    others = Others(lambda: server.cpu() + sum(worker.cpu() for worker in workers))
    began, first = time.monotonic(), sum(worker.count() for worker in workers)
    client, serving = sum(worker.cpu() for worker in workers), server.cpu()
    _wait_for(workers, jobs)
    wall, done = time.monotonic() - began, sum(worker.count() for worker in workers) - first
    used = sum(worker.cpu() for worker in workers) - client
    served = server.cpu() - serving
    rate = joint_rate([worker.done for worker in workers if len(worker.done) > 1])
    if rate is None or done <= 0:
        raise TooFast("it was done before it could be measured")
    figures = {
        "rate": rate,
        "client": 1e6 * used / done,
        "server": 1e6 * served / done,
        "busy": used / wall / len(workers),
        "jobs": float(done),
    }
    return Found(figures, others.used())


def _wait_for(workers: Sequence[Worker], jobs: int) -> None:
    last, since = 0, time.monotonic()
    while (done := sum(worker.count() for worker in workers)) < jobs:
        if done != last:
            last, since = done, time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            raise Trouble(f"only {done} of {jobs} were done, and then none for {PATIENCE:.0f} s")
        for worker in workers:
            worker.check()
        time.sleep(EVERY)
