"""One job becomes many, all or none, and a last one waits for their results.

`delivery.then` sends in the same step that ends the job. The first run of `CountAll` fails after
it has asked for its follow-ups: none of them is sent. The second run succeeds: all of them are.
"""

import asyncio
import logging

import bee_core as bee

TEXTS = {
    "ada": "the engine weaves algebraic patterns",
    "grace": "it is easier to ask forgiveness than to get permission",
    "alan": "we can only see a short distance ahead",
}


class CountAll(bee.Job):
    texts: list[str]


class Count(bee.Job):
    text: str


class Report(bee.Job):
    texts: list[str]


Jobs = CountAll | Count | Report

hive = bee.Hive("memory://")
policy = bee.Policy(on_error=bee.Repeat(2, backoff=bee.Backoff(min=0.1)))
words = hive.queue("words", Jobs, policy=policy)
counts: dict[str, int] = {}  # a database, in a real program


@words.on(CountAll)
async def count_all(job: CountAll, delivery: bee.Delivery[Jobs]) -> None:
    for text in job.texts:
        delivery.then(Count(text), id=f"count-{text}")
    delivery.then(Report(job.texts), id="report")
    if delivery.attempt == 1:
        print(f"attempt 1 fails after asking for {len(delivery.follow_ups)} jobs: none is sent")
        raise ConnectionError("the network is down")
    print(f"attempt {delivery.attempt} succeeds: {len(delivery.follow_ups)} jobs are sent")


@words.on(Count)
async def count(job: Count) -> None:
    await asyncio.sleep(0.1)
    counts[job.text] = len(TEXTS[job.text].split())  # the same however often it runs


@words.on(Report)
async def report(job: Report) -> None:
    missing = [text for text in job.texts if text not in counts]
    if missing:
        print(f"report waits for {len(missing)}")
        raise bee.Snooze(0.2)
    for text in job.texts:
        print(f"{text}: {counts[text]} words")
    print(f"all: {sum(counts.values())} words")


async def main() -> None:
    logging.getLogger("bee").setLevel(logging.ERROR)  # the failure is meant: no warning for it
    async with hive:
        await words.send(CountAll(list(TEXTS)))
        await hive.run(until_empty=True)


asyncio.run(main())
