"""What does an old snapshot, held open by somebody, do to bee on PostgreSQL?

Sends and works as fast as it can, with a thousand jobs or two waiting, while another session holds a
snapshot from the beginning on. Prints the rate of every ten seconds, the dead rows that have piled up,
and what the worker said about it.

    python -m benchmarks.pg_snapshot [--seconds 300] [--without]
"""

from __future__ import annotations

import argparse
import asyncio
import time

import psycopg

import bee_core as bee
from bee_core.events import BrokerAilment, Event
from bee_pg import PgBroker
from benchmarks.noop import BATCH, QUEUE, Noop
from tests.servers import PgServer

WINDOW = 10.0
WAITING = 2_000


class Load:
    """Keeps a queue filled and a worker busy."""

    def __init__(self, broker: PgBroker) -> None:
        self._queue = bee.Queue(broker, QUEUE, Noop)
        self._sent = 0
        self.done = 0
        self.ailments: list[BrokerAilment] = []
        self.worker = bee.Worker(
            broker, QUEUE, Noop, self._handle, concurrency=BATCH, observers=[self._observe]
        )

    async def _handle(self, job: Noop) -> None:
        self.done += 1

    def _observe(self, event: Event) -> None:
        if isinstance(event, BrokerAilment):
            self.ailments.append(event)

    async def produce(self) -> None:
        while True:
            if self._sent - self.done < WAITING:
                await self._queue.send_many([Noop(n) for n in range(BATCH)])
                self._sent += BATCH
            else:
                await asyncio.sleep(0.005)


async def run(server: PgServer, seconds: float, *, held: bool) -> None:
    async with (
        PgBroker(server.url, migrate=True) as broker,
        await psycopg.AsyncConnection.connect(server.url) as other,
    ):
        load = Load(broker)
        await broker.queues()
        if held:
            await other.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            await other.execute("select count(*) from bee.message")
        rates: list[float] = []
        async with load.worker.working():
            producer = asyncio.create_task(load.produce())
            await asyncio.sleep(2)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                before, since = load.done, time.monotonic()
                await asyncio.sleep(WINDOW)
                rates.append((load.done - before) / (time.monotonic() - since))
                [[dead]] = server.ask(
                    "select n_dead_tup from pg_stat_user_tables where relname = 'message'"
                )
                elapsed = len(rates) * WINDOW
                print(
                    f"{elapsed:5.0f} s  {rates[-1]:8,.0f} jobs/s  {dead:12,} dead rows", flush=True
                )
            producer.cancel()
        print(f"last of first: {rates[-1] / rates[0]:.0%}, worst: {min(rates) / rates[0]:.0%}")
        for ailment in load.ailments:
            print(f"the worker said: {ailment.finding.topic}: {ailment.finding.text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--without", action="store_true", help="the same with no snapshot held")
    parser.add_argument("--major", type=int, default=18)
    options = parser.parse_args()
    server = PgServer(options.major, durable=True)
    try:
        asyncio.run(run(server, options.seconds, held=not options.without))
    finally:
        server.stop()


if __name__ == "__main__":
    main()
