"""Does pruning keep up when the archive of a queue holds ten million rows?

Fills the archive, then archives new jobs and prunes the oldest, in turns, and compares the two rates;
and how long the counts and a page of it take.

    python -m benchmarks.pg_archive [--rows 10000000]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

import bee_core as bee
from bee_pg import PgBroker
from benchmarks.noop import BATCH, QUEUE, Noop, bee_send, handle
from tests.servers import PgServer

FILL = """
insert into bee.archive
select nextval('bee.number'), clock_timestamp() - make_interval(days => 30) + g * interval '1 ms',
       now(), now(), 1, 1, 0, 0, 0, 0, 0, 'bench', gen_random_uuid()::text, 'host:1:abc', 'failed',
       'ValueError: no', null, convert_to(repeat('x', 200), 'UTF8')
from generate_series(%s, %s) g
"""
PAGE = 500_000


async def timed(what: str, broker: PgBroker, times: int = 5) -> None:
    took = []
    for _ in range(times):
        start = time.perf_counter()
        if what == "stats":
            await broker.stats(QUEUE)
        else:
            await broker.scan(QUEUE, bee.State.ARCHIVED, limit=100)
        took.append(1000 * (time.perf_counter() - start))
    print(f"{what:<22} {statistics.median(took):8.1f} ms")


async def run(server: PgServer, rows: int, jobs: int, rounds: int) -> None:
    async with PgBroker(server.url, migrate=True, deadline=60) as broker:
        await broker.queues()
        for start in range(0, rows, PAGE):
            server.ask(FILL, start + 1, min(start + PAGE, rows))
        print(f"{sum((await broker.stats(QUEUE)).archived.values()):,} rows are archived")
        await timed("stats", broker)
        await timed("scan, a page of 100", broker)
        archived, pruned = [], []
        policy = bee.Policy(on_success=bee.Archive())
        for _ in range(rounds):
            await bee_send(broker, jobs)
            worker = bee.Worker(
                broker, QUEUE, Noop, handle, policy=policy, concurrency=BATCH, observers=()
            )
            start_at = time.perf_counter()
            await worker.run(max_jobs=jobs)
            archived.append(jobs / (time.perf_counter() - start_at))
            start_at = time.perf_counter()
            gone = await broker.prune(QUEUE, older_than=86_400, limit=5 * jobs)
            pruned.append(gone / (time.perf_counter() - start_at))
        a, b = statistics.median(archived), statistics.median(pruned)
        print(f"archived by one worker {a:8,.0f}/s\npruned                 {b:8,.0f}/s")
        await timed("stats", broker)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--major", type=int, default=18)
    options = parser.parse_args()
    server = PgServer(options.major, durable=True)
    try:
        asyncio.run(run(server, options.rows, options.jobs, options.rounds))
    finally:
        server.stop()


if __name__ == "__main__":
    main()
