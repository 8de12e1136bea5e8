"""Somebody hears of every job that has failed for good: `@queue.on_failure`.

The report is a job of its own, sent in the same step that archives the failed one: there is no
moment in which the failure is known to nobody.
"""

import asyncio
import logging

import bee_core as bee


class Charge(bee.Job):
    card: str
    pence: int


class Ship(bee.Job, policy=bee.Policy(timeout=0.2, on_timeout=bee.Repeat(1))):
    parcel: str


Jobs = Charge | Ship

hive = bee.Hive("memory://")
policy = bee.Policy(on_error=bee.Repeat(2), backoff=bee.Backoff(min=0.1))
shop = hive.queue("shop", Jobs, policy=policy)


class CardRefused(bee.PermanentError):
    """To try again would not help."""


@shop.on(Charge)
async def charge(job: Charge, delivery: bee.Delivery[Jobs]) -> None:
    if job.card == "expired":
        raise CardRefused("this card has expired")
    if job.card == "flaky" and delivery.attempt == 1:
        raise ConnectionError("the bank does not answer")
    print(f"charged {job.pence} to {job.card}, attempt {delivery.attempt}")


@shop.on(Ship)
async def ship(job: Ship) -> None:
    await asyncio.sleep(60)  # the depot never answers


@shop.on_failure
async def desk(failure: bee.Failure[Jobs], delivery: bee.Delivery[Jobs]) -> None:
    counters = failure.counters
    runs = counters.errors + counters.timeouts + counters.stalls
    print(f"desk: {failure.id} {failure.note.reason} after {runs} run(s): {failure.job}")
    if failure.note.reason == "failed":
        print("desk:   " + failure.note.detail.strip().splitlines()[-1])  # of its traceback


async def main() -> None:
    logging.getLogger("bee").setLevel(logging.ERROR)  # the desk reports the failures, not the log
    async with hive:
        await shop.send(Charge("good", 500), id="order-1")
        await shop.send(Charge("flaky", 700), id="order-2")
        await shop.send(Charge("expired", 900), id="order-3")
        await shop.send(Ship("books"), id="parcel-1")
        await hive.run(until_empty=True)

        stats = await hive.broker.stats("shop")
        print(f"in the archive: {dict(sorted(stats.archived.items()))}")


asyncio.run(main())
