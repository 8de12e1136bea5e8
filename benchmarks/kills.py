"""kill -9 of a worker in the middle of a job, and how long until the job runs again."""

from __future__ import annotations

import threading
import time

from benchmarks.bench import Bench, Found, server_for
from benchmarks.contender import Contender, Trouble, working

LONGEST = 180.0
"""Seconds after which a job counts as not run again."""
TRICKLE = 5.0
"""Seconds between other jobs that are sent meanwhile: some look for the dead only while they work."""


def kill(bench: Bench) -> None:
    """seconds: from the kill until another worker's handler runs. All wait side by side."""
    contenders = bench.on("redis", "pg")
    threads = [
        threading.Thread(target=bench.one, args=("kill", contender, 0, rerun))
        for contender in contenders
    ]
    for thread in threads:
        thread.start()
        time.sleep(1.0)  # so that not all of them start their programs at once
    for thread in threads:
        thread.join()


def rerun(contender: Contender) -> Found:
    """Kill a worker, and wait for another to run its job."""
    with server_for(contender) as server:
        with working(contender, server.url, {"handler": "hang"}) as [first]:
            first.wait_up()
            contender.send(server.url, "send-many", 1)
            if not first.began.wait(60):
                raise Trouble("its handler never began")
            first.kill()
            killed = time.monotonic()
        with working(contender, server.url, {"handler": "late"}) as [second]:
            sent, ended = 0, 0.0
            while len(second.late) <= sent:  # one more than were sent since: the one of the dead
                second.check()
                ended = time.monotonic() - killed
                if ended > LONGEST:
                    raise Trouble(f"not run again within {LONGEST:.0f} s")
                if ended > sent * TRICKLE + TRICKLE:
                    contender.send(server.url, "send-many", 1)
                    sent += 1
                time.sleep(0.02)
            # Not when it was noticed: sending others takes a while beside so many. The one of the dead
            # is the oldest by far, and was sent a moment before the kill.
            return Found({"seconds": max(second.late)})
