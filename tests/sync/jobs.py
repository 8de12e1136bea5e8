"""The jobs of these tests, declared once as a program would."""

from __future__ import annotations

import bee_core as bee


class Greet(bee.Job):
    name: str


def declare(url: str) -> tuple[bee.Hive, bee.HiveQueue[Greet]]:
    """A hive with a queue and its handler."""
    hive = bee.Hive(url, poll=0.05)
    queue = hive.queue("greetings", Greet, policy=bee.Policy(keep_result=600))

    @queue.handler
    async def greet(job: Greet) -> str:
        if job.name == "nobody":
            raise bee.PermanentError("nobody is there")
        return f"hello {job.name}"

    return hive, queue
