"""What is measured. Each workload says which contenders it is for, and what its figures mean."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

from benchmarks.backlogs import backlog, delayed
from benchmarks.bench import CLOSE, Bench, Found, server_for
from benchmarks.contender import Contender, Trouble, working
from benchmarks.drains import PROBES, drain, drain_together, fill, probe_drain
from benchmarks.kills import kill
from benchmarks.noise import Others
from benchmarks.rates import percentile
from benchmarks.waiting import rate_of_waiting

PROCESSES = (1, 2, 4, 8, 16)
WARM_UP = 20


def send(bench: Bench) -> None:
    """One by one. rate: jobs a second; client: µs of its processor time for a job."""
    _sends(bench, "send", seconds=1.0, most=20_000, duels=CLOSE)


def send_many(bench: Bench) -> None:
    """The fastest way there is. Figures as in `send`."""
    _sends(bench, "send-many", seconds=1.5, most=300_000, duels=CLOSE)


def _sends(bench: Bench, command: str, seconds: float, most: int, duels: int) -> None:
    def probe(contender: Contender) -> float:
        for jobs in PROBES:
            with server_for(contender) as server:
                sent = contender.send(server.url, command, jobs)
            if sent.seconds > 0.1:
                break
        return sent.jobs / sent.seconds

    def measure(contender: Contender) -> Found:
        jobs = bench.jobs(command, contender, lambda: probe(contender), seconds, most)
        with server_for(contender) as server:
            before, others = server.cpu(), Others(server.cpu)
            sent = contender.send(server.url, command, jobs)
            used, noise = server.cpu() - before, others.used()
        bench.learn(command, contender, sent.jobs / sent.seconds)
        figures = {
            "rate": sent.jobs / sent.seconds,
            "client": 1e6 * sent.cpu / sent.jobs,
            "server": 1e6 * used / sent.jobs,
            "jobs": sent.jobs,
        }
        return Found(figures, max(0.0, noise - sent.cpu))

    bench.in_duels(command, bench.contenders, measure, duels)


def drain_one(bench: Bench) -> None:
    """One worker process, a handler that does nothing. Figures: see `drain`."""
    bench.in_duels("drain", bench.contenders, partial(_drain, bench, "drain", 1))


def drain_cores(bench: Bench) -> None:
    """As many worker processes as there are processors; rate is that of all of them."""
    cores = os.cpu_count() or 1
    contenders = bench.on("redis", "pg")
    bench.in_rounds(
        "drain-cores", contenders, partial(_drain, bench, "drain", cores), max(1, bench.rounds - 1)
    )


def _drain(bench: Bench, kind: str, processes: int, contender: Contender) -> Found:
    jobs = bench.jobs(kind, contender, lambda: probe_drain(contender), 2.5, 400_000)
    with server_for(contender) as server:
        if processes > 1:
            return drain_together(contender, server, jobs, processes)
        fill(contender, server, jobs)
        server.settle()
        found = drain(contender, server, jobs)
    bench.learn(kind, contender, found.figures["rate"])
    return found


def pick_up(bench: Bench) -> None:
    """From the send of a job to its handler, on an idle worker. p50 and p99 in ms."""
    jobs = max(20, int(300 * bench.scale))

    def measure(contender: Contender) -> Found:
        with (
            server_for(contender) as server,
            working(contender, server.url, {"handler": "late"}) as [worker],
        ):
            worker.wait_up()
            time.sleep(1.0)
            others = Others(lambda: server.cpu() + worker.cpu())
            contender.send(server.url, "send", jobs, pause=0.02)
            deadline = time.monotonic() + 10
            while len(worker.late) < jobs + WARM_UP and time.monotonic() < deadline:
                worker.check()
                time.sleep(0.01)
            used = others.used()
        if len(worker.late) < jobs:
            raise Trouble(f"only {len(worker.late)} of {jobs} were picked up")
        late = [1000 * seconds for seconds in worker.late[-jobs:]]
        return Found({"p50": percentile(late, 0.5), "p99": percentile(late, 0.99)}, used)

    bench.in_duels("pick-up", bench.on("redis", "pg"), measure, duels=1)


def sleep(bench: Bench) -> None:
    """A handler that waits 5 ms, 100 and 1,000 at once.

    rate, and theory: that of a bare loop which does nothing but wait, measured at the same time;
    busy: processors that the worker process used. Near 1 its event loop is the limit.
    """
    for at_once in (100, 1000):
        kind = f"sleep-{at_once}"

        def measure(contender: Contender, at_once: int = at_once, kind: str = kind) -> Found:
            options: dict[str, object] = {"handler": "sleep", "concurrency": at_once}
            probe = partial(probe_drain, contender, options)
            jobs = max(3 * at_once, bench.jobs(kind, contender, probe, 2.5, 200_000))
            with server_for(contender) as server:
                fill(contender, server, jobs)
                server.settle()
                found = drain(contender, server, jobs, stop_at=0.95, options=options)
            bench.learn(kind, contender, found.figures["rate"])
            return Found(found.figures | {"theory": rate_of_waiting(at_once)}, found.others)

        for store in ("redis", "pg"):
            bench.in_rounds(kind, bench.fastest(store), measure)


def contention(bench: Bench) -> None:
    """bee with 1 to 16 worker processes that are warm: the server's processor time and calls for a job.

    Once more, `apart`, with the most of them and a queue for each: what so many processes cost on this
    machine that have nothing to do with each other.
    """

    def measure(processes: int, apart: bool, contender: Contender) -> Found:
        # Enough for each of 16: a worker that begins asks for a few, and for more as they are done.
        jobs = bench.jobs("drain", contender, partial(probe_drain, contender), 8.0, 400_000)
        with server_for(contender) as server:
            return drain_together(
                contender, server, jobs, processes, warm_up=jobs // 8, apart=apart
            )

    ends = [(PROCESSES[0], False), (PROCESSES[-1], False), (PROCESSES[-1], True)]
    between = [(processes, False) for processes in PROCESSES[1:-1]]
    for number in range(bench.rounds + 1 if bench.rounds > 1 else 1):
        for contender in bench.contenders:
            if contender.entry.title == "bee" and contender.entry.store in ("redis", "pg"):
                for processes, apart in ends + (between if number < 1 else []):
                    kind = f"contention-{processes}{'-apart' if apart else ''}"
                    bench.one(kind, contender, number, partial(measure, processes, apart))


def memory(bench: Bench) -> None:
    """Bytes of memory that a waiting job takes in Redis, with this payload."""
    jobs = int(20_000 * bench.scale)

    def measure(contender: Contender) -> Found:
        with server_for(contender) as server:
            contender.send(server.url, "send-many", WARM_UP)
            before = server.memory()
            contender.send(server.url, "send-many", jobs)
            time.sleep(0.2)  # the client's own buffers are gone
            return Found({"bytes": (server.memory() - before) / jobs})

    bench.in_rounds("memory", bench.on("redis"), measure, 1)


WORKLOADS: dict[str, Callable[[Bench], None]] = {
    "send": send,
    "send-many": send_many,
    "drain": drain_one,
    "drain-cores": drain_cores,
    "pick-up": pick_up,
    "sleep": sleep,
    "backlog": backlog,
    "delayed": delayed,
    "contention": contention,
    "memory": memory,
    "kill": kill,
}
