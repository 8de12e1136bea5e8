"""A worker inside somebody else's program touches nothing of it, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import warnings
import weakref
from contextlib import suppress
from pathlib import Path

import pytest

import bee_core as bee
from bee_core.testing import ManualClock
from bee_memory import MemoryBroker

from . import in_processes
from .support import Work, at_work, begin, hive_for, new_store, nothing, until


def surroundings() -> dict[str, object]:
    """What belongs to the program, not to bee."""
    signals = {name: signal.getsignal(name) for name in signal.valid_signals()}
    root, own = logging.getLogger(), logging.getLogger("bee")
    loop = asyncio.get_running_loop()
    return {
        "signals": signals,
        "root handlers": list(root.handlers),
        "root level": root.level,
        "bee handlers": list(own.handlers),
        "bee level": own.level,
        "bee propagates": own.propagate,
        "policy": asyncio.get_event_loop_policy(),
        "loop": loop,
        "debug": loop.get_debug(),
        "exception handler": loop.get_exception_handler(),
        "executor": loop._default_executor,  # type: ignore[attr-defined]
        "task factory": loop.get_task_factory(),
        "excepthook": sys.excepthook,
        "thread hook": threading.excepthook,
        "unraisable hook": sys.unraisablehook,
        "recursion limit": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "stdout": sys.stdout,
        "stderr": sys.stderr,
        "trace": sys.gettrace(),
        "warnings": list(warnings.filters),
        "path": list(sys.path),
        "directory": os.getcwd(),
        "environment": dict(os.environ),
        "async generator hooks": sys.get_asyncgen_hooks(),
        "garbage collection": (gc.isenabled(), gc.get_threshold()),
        "fault handler": faulthandler.is_enabled(),
    }


async def test_a_worker_touches_nothing_of_the_program_it_lives_in() -> None:
    def in_thread(job: Work) -> None: ...

    async def in_process(job: Work, delivery: bee.Delivery[Work]) -> None:
        await delivery.run_in_process(in_processes.add, 1, 2)

    async def fail(job: Work) -> None:
        raise ValueError("no")

    before = surroundings()
    during: list[dict[str, object]] = []
    for handler in (nothing, in_thread, fail, in_process):
        hive, jobs = hive_for(handler)
        async with hive, hive.working():
            await jobs.send(Work())
            await asyncio.sleep(0.01)
            during.append(surroundings())
        async with hive:
            await jobs.send(Work())
            await hive.run(until_empty=True)

    assert [before] * 4 == during
    assert before == surroundings()


@pytest.mark.parametrize("server", ["valkey", "pg"])
async def test_a_worker_on_a_server_touches_nothing_either(
    server: str, request: pytest.FixtureRequest
) -> None:
    before = surroundings()
    hive = bee.Hive(new_store(request, server))
    jobs = hive.queue("jobs", Work, policy=bee.Policy(keep_result=60))
    jobs.handler(nothing)
    async with hive, hive.working():
        ticket = await jobs.send(Work())
        await jobs.result(ticket.id, timeout=10)

        assert before == surroundings()
    assert before == surroundings()


async def test_a_hive_with_a_worker_that_has_failed_is_not_ready() -> None:
    async def swallow(job: Work) -> None:
        while not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()

    over = asyncio.Event()
    hive = bee.Hive("memory://", cancel_grace=0.01)
    jobs = hive.queue("jobs", Work, policy=bee.Policy(timeout=0.01), concurrency=1)
    jobs.handler(swallow)
    async with hive:
        with pytest.raises(bee.WorkerStuck):
            async with hive.working():
                await jobs.send(Work())
                await until(lambda: hive.health().stopping)
                assert not hive.health().ready
        over.set()


async def test_nothing_is_left_when_a_worker_has_stopped() -> None:
    def in_thread(job: Work) -> None: ...

    tasks, threads = asyncio.all_tasks(), set(threading.enumerate())
    for handler in (nothing, in_thread):
        async with at_work(handler) as (bees, jobs):
            await jobs.send_many([Work() for _ in range(30)])
            await bees.drain()

    assert tasks == asyncio.all_tasks()
    await until(lambda: not set(threading.enumerate()) - threads)


class Watched(bee.Job, weakref=True):
    """A job of which one can see whether anything still holds it."""

    how: str


async def test_nothing_of_a_job_is_left_when_it_has_ended_however_it_ended() -> None:
    """The collector does not look into attempts, so what leads back to one has to be let go."""
    seen = []

    async def handle(job: Watched, delivery: bee.Delivery[Watched]) -> object:
        seen.append(weakref.ref(job))
        match job.how:
            case "fails":
                raise ValueError(job)
            case "hangs":
                await asyncio.sleep(3600)
            case "is cancelled":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(3600)
            case "rules":
                return bee.Archive()
        return None

    policy = bee.Policy(timeout=0.05, on_error=bee.Archive(), on_timeout=bee.Delete())
    ways = ["ends", "fails", "hangs", "is cancelled", "rules"]
    broker = MemoryBroker()
    worker = bee.Worker(broker, "jobs", Watched, handle, policy=policy, observers=())
    await worker.queue.send_many(Watched(how) for how in ways)
    await worker.run(until_empty=True)

    gc.collect()
    assert len(ways) == len(seen)
    assert [None] * len(ways) == [job() for job in seen]


async def test_a_worker_that_was_used_can_be_forgotten(bee_clock: ManualClock) -> None:
    """No registry, no thread and no callback keeps it alive."""
    async with at_work(nothing, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work())
        await bees.drain()
        worker = weakref.ref(bees.hive._workers[0])
        await bees.stop()
        await begin(bees)

        def forgotten() -> bool:
            gc.collect()
            return worker() is None

        await until(forgotten)  # its heartbeat's thread may still be leaving its last function


async def test_all_tasks_of_a_worker_are_named(bee_clock: ManualClock) -> None:
    async def hang(job: Work) -> None:
        await asyncio.Event().wait()

    before = asyncio.all_tasks()
    async with at_work(hang, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work())
        await bees.clock.settle()
        names = {task.get_name() for task in asyncio.all_tasks() - before}

        assert set() == {name for name in names if not name.startswith("bee:")}


PROGRAM = """
import asyncio, sys
import bee_core as bee

class Work(bee.Job):
    number: int = 0

hive = bee.Hive("memory://")
jobs = hive.queue("jobs", Work)

@jobs.handler
def handle(job: Work) -> None:
    import time
    if job.number == 1:
        time.sleep(60)

async def main() -> None:
    async with hive:
        await jobs.send(Work(0))
        await jobs.send(Work(1))
        try:
            async with hive.working():
                await asyncio.sleep(0.1)
                hive.stop(grace=0)
        except bee.WorkerStuck:
            pass

asyncio.run(main())
print("end of the program")
"""


def test_a_thread_that_hangs_does_not_hold_up_the_end_of_the_program(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", str(path)],
        capture_output=True,
        timeout=20,
        check=False,
    )

    assert (0, b"end of the program\n") == (done.returncode, done.stdout)
    assert b"Traceback" not in done.stderr
    assert b"never retrieved" not in done.stderr
    assert b"destroyed" not in done.stderr


INTERRUPTED = """
import asyncio, os, signal
import bee_core as bee

class Work(bee.Job):
    number: int = 0

hive = bee.Hive("memory://")
jobs = hive.queue("jobs", Work)

@jobs.handler
async def handle(job: Work) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(60)

async def main() -> None:
    async with hive:
        await jobs.send(Work(), id="a")
        try:
            await hive.run()
        finally:
            stored = await hive.broker.get("jobs", "a")
            print(stored.state.value, stored.counters.releases, flush=True)

asyncio.run(main())
"""


def test_control_c_in_a_program_gives_the_jobs_back_before_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(INTERRUPTED)
    done = subprocess.run(
        [sys.executable, "-X", "dev", str(path)], capture_output=True, timeout=20, check=False
    )

    assert b"ready 1\n" == done.stdout
    assert b"KeyboardInterrupt" in done.stderr.splitlines()[-1]
    assert b"destroyed" not in done.stderr
