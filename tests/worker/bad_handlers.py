"""The catalogue of bad handlers: what each does, and what must become of its job.

None of them may keep a worker from serving other jobs. Those that harm the whole process, or end
it, are run in one of their own: `python -m tests.worker.bad_handlers URL NAME...`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple, TypeAlias

import bee_core as bee

from .test_raising import Mute, Violent, cyclic, long_chain


class Bad(bee.Job):
    name: str


class Good(bee.Job):
    number: int = 0


Jobs: TypeAlias = Bad | Good


class Misdeed(NamedTuple):
    """A bad handler, why its message ended, and what its note tells."""

    do: Callable[[Bad], object]
    ends: str = "failed"
    tells: str = ""
    timeout: float | None = None


class Traces:
    """What bad handlers leave behind, and how to be rid of it."""

    undo = ExitStack()
    over = False


@contextmanager
def cleaned_up() -> Iterator[None]:
    Traces.undo, Traces.over = ExitStack(), False
    try:
        yield
    finally:
        Traces.over = True
        Traces.undo.close()


# They take their time.


async def block_the_loop(job: Bad) -> None:
    time.sleep(0.3)  # noqa: ASYNC251


async def spin(job: Bad) -> None:
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        pass


def block_in_a_call_for_ever(job: Bad) -> None:
    """A read from a pipe that nobody writes to; no signal, no cancellation ends it."""
    read, write = os.pipe()
    Traces.undo.callback(os.close, read)
    Traces.undo.callback(os.close, write)
    Traces.undo.callback(os.write, write, b"at last")
    os.read(read, 1)


async def swallow_one_cancellation(job: Bad) -> None:
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.Event().wait()


async def swallow_every_cancellation(job: Bad) -> None:
    while not Traces.over:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)


# They raise.


async def call_exit(job: Bad) -> None:
    sys.exit(3)


def call_exit_in_a_thread(job: Bad) -> None:
    sys.exit(3)


def raising(error: Callable[[], BaseException]) -> Callable[[Bad], object]:
    async def handler(job: Bad) -> None:
        raise error()

    return handler


async def await_a_cancelled_task(job: Bad) -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    task.cancel()
    await task


async def cancel_its_own_task(job: Bad) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def fail_in_a_task_group(job: Bad) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(_fail(number))


async def _fail(number: int) -> None:
    raise ValueError(number)


async def recurse_for_ever(job: Bad) -> None:
    await recurse_for_ever(job)


async def fail_ten_thousand_frames_deep(job: Bad) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        _dive(10_000)
    finally:
        sys.setrecursionlimit(limit)


def _dive(depth: int) -> None:
    if depth == 0:
        raise ValueError("the ground")
    _dive(depth - 1)


async def ask_for_too_much_memory(job: Bad) -> None:
    bytearray(1 << 62)


# They leave things behind.


async def leak_tasks(job: Bad) -> None:
    for _ in range(1000):
        task = asyncio.create_task(asyncio.Event().wait())
        Traces.undo.callback(task.cancel)


async def leak_threads(job: Bad) -> None:
    for _ in range(30):
        gate = threading.Event()
        threading.Thread(target=gate.wait, daemon=True).start()
        Traces.undo.callback(gate.set)


async def leak_file_descriptors(job: Bad) -> None:
    for _ in range(100):
        Traces.undo.enter_context(socket.socket())


async def change_directory(job: Bad) -> None:
    Traces.undo.callback(os.chdir, os.getcwd())
    os.chdir("/")


async def change_signal_handlers(job: Bad) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        Traces.undo.callback(signal.signal, number, signal.getsignal(number))
        signal.signal(number, signal.SIG_IGN)


async def close_the_loop(job: Bad) -> None:
    asyncio.get_running_loop().close()


async def set_another_loop(job: Bad) -> None:
    loop = asyncio.new_event_loop()
    Traces.undo.callback(asyncio.set_event_loop, None)
    Traces.undo.callback(loop.close)
    asyncio.set_event_loop(loop)


HARMLESS: dict[str, Misdeed] = {
    "block the loop": Misdeed(block_the_loop, "succeeded"),
    "spin": Misdeed(spin, "succeeded"),
    "block in a call for ever": Misdeed(block_in_a_call_for_ever, "timed_out", timeout=0.1),
    "swallow one cancellation": Misdeed(swallow_one_cancellation, "timed_out", timeout=0.1),
    "swallow every cancellation": Misdeed(swallow_every_cancellation, "timed_out", timeout=0.1),
    "call exit": Misdeed(call_exit, tells="SystemExit: 3"),
    "call exit in a thread": Misdeed(call_exit_in_a_thread, tells="SystemExit: 3"),
    "raise SystemExit": Misdeed(raising(SystemExit), tells="SystemExit"),
    "raise KeyboardInterrupt": Misdeed(raising(KeyboardInterrupt), tells="KeyboardInterrupt"),
    "raise GeneratorExit": Misdeed(raising(GeneratorExit), tells="GeneratorExit"),
    "raise CancelledError": Misdeed(raising(asyncio.CancelledError), tells="CancelledError"),
    "await a cancelled task": Misdeed(await_a_cancelled_task, tells="CancelledError"),
    "cancel its own task": Misdeed(cancel_its_own_task, tells="CancelledError"),
    "raise what cannot be printed": Misdeed(raising(Mute), tells="Mute"),
    "raise what exits when printed": Misdeed(raising(Violent), tells="Violent"),
    "raise what caused itself": Misdeed(raising(cyclic), tells="ValueError: first"),
    "raise what has 5000 causes": Misdeed(raising(long_chain), tells="ValueError: 4999"),
    "fail in a task group": Misdeed(fail_in_a_task_group, tells="ExceptionGroup"),
    "recurse for ever": Misdeed(recurse_for_ever, tells="RecursionError"),
    "fail 10,000 frames deep": Misdeed(fail_ten_thousand_frames_deep, tells="the ground"),
    "ask for too much memory": Misdeed(ask_for_too_much_memory, tells="MemoryError"),
    "leak tasks": Misdeed(leak_tasks, "succeeded"),
    "leak threads": Misdeed(leak_threads, "succeeded"),
    "leak file descriptors": Misdeed(leak_file_descriptors, "succeeded"),
    "change directory": Misdeed(change_directory, "succeeded"),
    "change signal handlers": Misdeed(change_signal_handlers, "succeeded"),
    "close the loop": Misdeed(close_the_loop, tells="RuntimeError"),
    "set another loop": Misdeed(set_another_loop, "succeeded"),
}


# They fork.


def _child(then: Callable[[], object]) -> int:
    if (pid := os.fork()) == 0:
        then()
    return pid


def _wait_for(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


async def fork_and_exit(job: Bad) -> int:
    return _wait_for(_child(lambda: sys.exit(7)))


async def fork_and_return(job: Bad) -> int | None:
    pid = os.fork()
    return _wait_for(pid) if pid else None


async def fork_and_raise(job: Bad) -> int:
    return _wait_for(_child(lambda: _dive(0)))


def fork_in_a_thread_and_return(job: Bad) -> int | None:
    pid = os.fork()
    return _wait_for(pid) if pid else None


async def fork_and_send(job: Bad) -> int:
    """The child uses the queue: as the coroutine that it is a copy of, and in a loop of its own."""
    if (pid := os.fork()) == 0:
        refused = 0
        try:
            await QUEUE.send(Good())
        except bee.BrokerClosed as error:
            refused += "fork" in str(error)
        try:
            asyncio.run(QUEUE.send(Good()))
        except bee.BrokerClosed as error:
            refused += "fork" in str(error)
        sys.exit(7 if refused == 2 else 1)
    return _wait_for(pid)


FORKING: dict[str, Callable[[Bad], object]] = {
    "fork and exit": fork_and_exit,
    "fork and return": fork_and_return,
    "fork and raise": fork_and_raise,
    "fork in a thread and return": fork_in_a_thread_and_return,
    "fork and send": fork_and_send,
}


# They end their process, or their loop.


async def exit_at_once(job: Bad) -> None:
    os._exit(13)


async def kill_the_process(job: Bad) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def stop_the_loop(job: Bad) -> None:
    asyncio.get_running_loop().stop()
    await asyncio.Event().wait()


async def cancel_all_tasks(job: Bad) -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


async def use_up_file_descriptors(job: Bad) -> None:
    """Nothing can be opened for a while, not even a connection."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, most))
    with ExitStack() as held:
        with suppress(OSError):
            while True:
                held.callback(os.close, os.dup(0))
        await asyncio.sleep(0.5)


ENDING: dict[str, Callable[[Bad], object]] = {
    "exit at once": exit_at_once,
    "kill the process": kill_the_process,
    "stop the loop": stop_the_loop,
    "cancel all tasks": cancel_all_tasks,
}

QUEUE: bee.HiveQueue[Jobs]
ALONE = ENDING | FORKING | {"use up file descriptors": use_up_file_descriptors}


def hive_on(
    url: str, misdeed: Callable[[Bad], object], lease: float = 30.0
) -> tuple[bee.Hive, bee.HiveQueue[Jobs]]:
    """A hive with one queue, whose bad jobs are handled so."""
    hive = bee.Hive(url, lease=lease, cancel_grace=0.1, grace=5, observers=())
    kept = bee.Archive()
    policy = bee.Policy(on_success=kept, on_error=kept, on_timeout=kept, keep_result=300)
    queue: bee.HiveQueue[Jobs] = hive.queue("jobs", Jobs, policy=policy, concurrency=4)
    queue.on(Bad)(misdeed)

    @queue.on(Good)
    async def serve(job: Good) -> int:
        return job.number

    return hive, queue


async def serve_some(queue: bee.HiveQueue[Jobs]) -> list[int]:
    """What comes of five good jobs."""
    tickets = await queue.send_many([Good(number) for number in range(5)])
    return [await queue.result(ticket.id, timeout=20, type=int) for ticket in tickets]


async def main(url: str, *names: str) -> None:
    """Bad jobs one after the other, each with good ones before and after; say what came of all."""
    global QUEUE
    done: dict[str, object] = {}
    for name in names:
        hive, QUEUE = hive_on(url, ALONE[name], lease=2.0)
        me = os.getpid()
        async with hive, hive.working():
            await QUEUE.send(Good(-1), id=f"before {name}")
            await QUEUE.send(Bad(name), id=name)
            result = await QUEUE.result(name, timeout=20)
            assert me == os.getpid(), "a child has left its handler"
            done[name] = [result, await serve_some(QUEUE)]
    print(json.dumps(done))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
