"""kill -9 of a worker in the middle of a job, and how long until the job runs again."""

from __future__ import annotations

import threading
import time

from benchmarks.bench import Bench, Found, server_for
from benchmarks.contender import Contender, Trouble, working

LONGEST = 180.0
"""Seconds after which a job counts as not run again."""


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
            while not second.late:
                second.check()
                if time.monotonic() - killed > LONGEST:
                    raise Trouble(f"not run again within {LONGEST:.0f} s")
                time.sleep(0.02)
            return Found({"seconds": time.monotonic() - killed})
