"""A program that forks while it has a broker: `python -m tests.stores.forking URL used|unused`.

Prints what the child got of every verb, whether a clone worked there, and which messages the parent
finds afterwards.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import bee_core as bee
from bee_core.broker import Store
from bee_core.testing.conformance.guards import verbs


async def child(broker: Store) -> dict[str, Any]:
    calls = {**verbs(broker, "jobs"), "queues": broker.queues}
    answers = {}
    for verb, call in calls.items():
        try:
            await call()
            answers[verb] = "done"
        except bee.BeeError as error:
            answers[verb] = f"{type(error).__name__}: {error}"
    clone = broker.clone()
    await broker.aclose()
    try:
        async with clone:
            await clone.send("jobs", [bee.Draft("by the child", b"")])
        return {"verbs": answers, "clone": "done"}
    except bee.BeeError as error:
        return {"verbs": answers, "clone": f"{type(error).__name__}: {error}"}


async def main(url: str, state: str) -> None:
    broker = bee.connect(url)
    if state == "used":
        await broker.send("jobs", [bee.Draft("before", b"")])
        await broker.wait("others", timeout=0.01)  # a connection that listens is open too
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(write, json.dumps(asyncio.run(child(broker))).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = json.load(pipe)
    await asyncio.to_thread(os.waitpid, pid, 0)
    await broker.send("jobs", [bee.Draft("after", b"")])
    await broker.wait("jobs", timeout=1)
    leases = await broker.lease("jobs", limit=9, duration=60, holder="parent")
    told["parent"] = sorted(lease.receipt.id for lease in leases)
    await broker.aclose()
    print(json.dumps(told))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
