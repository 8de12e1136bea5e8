"""Do bee's wake-ups make other people's commits wait for each other?

NOTIFY takes a lock that there is once per server. pgbench sends one job per transaction, from 1 to 32
clients at once, in three ways: with nobody waiting, with a worker that works (and so waits now and then),
and with a notification in every transaction, as other queues do it.

    python -m benchmarks.pg_notify [--seconds 3] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import bee_core as bee
from bee_pg import PgBroker
from benchmarks.noop import QUEUE, Noop, handle
from tests.servers import PgServer, pg_binaries

CLIENTS = (1, 4, 16, 32)
SPAWN = multiprocessing.get_context("spawn")
SEND = """
select sent from bee.send(
  'bench', array[gen_random_uuid()::text], null, null, null, null,
  array['{"v":1,"job":{"type":"noop","number":1}}'::bytea]);
"""
NOTIFIED = f"begin;\n{SEND}\nselect pg_notify('somebody', 'bench');\ncommit;\n"


def pgbench() -> str:
    """PostgreSQL's own load generator, which not every installation has."""
    for major in (18, 17, 16, 15, 14):
        directory = pg_binaries(major)
        if directory is not None and (directory / "pgbench").exists():
            return str(directory / "pgbench")
    found = shutil.which("pgbench")
    assert found, "no pgbench: apt-get install postgresql"
    return found


def commits(url: str, script: str, clients: int, seconds: float) -> float:
    """Transactions a second."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "script.sql")
        file.write_text(script)
        options = ["-n", "-f", str(file), "-c", str(clients), "-T", str(round(seconds))]
        command = [pgbench(), *options, "-M", "prepared", url]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
    found = re.search(r"tps = ([\d.]+)", run.stdout)
    assert found, run.stdout
    return float(found[1])


def work(url: str) -> None:
    """A worker, until it is killed."""

    async def run() -> None:
        async with PgBroker(url) as broker:
            await bee.Worker(broker, QUEUE, Noop, handle, concurrency=100, observers=()).run()

    asyncio.run(run())


async def migrate(url: str) -> None:
    async with PgBroker(url, migrate=True) as broker:
        await broker.drop(QUEUE)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--major", type=int, default=18)
    options = parser.parse_args()
    server = PgServer(options.major, durable=True)
    try:
        asyncio.run(migrate(server.url))
        print("commits/s     nobody waits   a worker works   NOTIFY in each")
        for clients in CLIENTS:
            rates: list[list[float]] = [[], [], []]
            for _ in range(options.rounds):
                rates[0].append(commits(server.url, SEND, clients, options.seconds))
                worker = SPAWN.Process(target=work, args=(server.url,))
                worker.start()
                time.sleep(1.5)  # it has to be up, and waiting
                rates[1].append(commits(server.url, SEND, clients, options.seconds))
                worker.kill()
                worker.join()
                asyncio.run(migrate(server.url))
                rates[2].append(commits(server.url, NOTIFIED, clients, options.seconds))
            alone, worked, notified = map(statistics.median, rates)
            print(
                f"{clients:3} clients {alone:15,.0f} {worked:16,.0f} {notified:16,.0f}", flush=True
            )
    finally:
        server.stop()


if __name__ == "__main__":
    main()
