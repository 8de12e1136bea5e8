"""The program that `bee chaos` breaks if it is given none. Read it: it is a whole one."""

from __future__ import annotations

import asyncio
import random

import bee_core as bee


class Parcel(bee.Job):
    """Takes a moment to deliver."""

    address: str


class Letter(bee.Job, policy=bee.Policy(on_error=bee.Repeat(20))):
    """Sometimes comes back."""

    address: str


Post = Parcel | Letter

hive = bee.Hive(lease=2, poll=0.2, policy=bee.Policy(backoff=bee.Backoff(min=0.1, max=1)))
post = hive.queue("post", Post, policy=bee.Policy(on_stall=bee.Repeat(20)))


@post.handler
async def deliver(job: Post) -> None:
    await asyncio.sleep(random.uniform(0.05, 0.3))
    if isinstance(job, Letter) and random.random() < 0.1:
        raise ConnectionError("nobody opens the door")
