"""Programs that send without await: `python -m tests.sync.programs NAME URL`.

Each is what somebody would write; `test_programs.py` runs them as processes of their own.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from typing import NoReturn

LAST: list[str] = []
atexit.register(lambda: send(*LAST))  # before bee is imported

from bee_core import sync  # noqa: E402

from .jobs import Greet, declare  # noqa: E402

hive, queue = declare(sys.argv[2])
greetings = sync.of(queue)


def send(*names: str) -> None:
    for name in names:
        greetings.send(Greet(name), id=name)


def plain() -> None:
    """Send and end."""
    send("plain")


def child(name: str) -> NoReturn:
    """What a forked process does: send twice, and end as a program ends."""
    send(f"{name}-1", f"{name}-2")
    sys.exit(0)


def fork(*names: str) -> None:
    children = []
    for name in names:
        if (pid := os.fork()) == 0:
            child(name)
        children.append(pid)
    assert [0] * len(names) == [os.waitpid(pid, 0)[1] for pid in children]


def forks_before() -> None:
    """As gunicorn does: the workers are forked before anything is sent."""
    fork("a", "b")
    send("parent")


def forks_after() -> None:
    """As gunicorn does with --preload, for a program that sends when it is imported."""
    send("first")
    thread = threading.Thread(target=lambda: greetings.broker.wait("other", timeout=60))
    thread.daemon = True
    thread.start()  # its call is under way in the parent while it forks
    fork("a", "b")
    fork("c")
    send("parent")
    sync.of(hive).broker.send("other", [queue.draft(Greet("wake"))])
    thread.join(20)
    assert not thread.is_alive(), "the parent was not woken"


def forks_of_forks() -> None:
    """A child that forks, after it has sent."""
    send("first")
    if (pid := os.fork()) == 0:
        send("child")
        fork("grandchild")
        send("child-again")
        sys.exit(0)
    assert 0 == os.waitpid(pid, 0)[1]
    send("parent")


def pools() -> None:
    """A pool of multiprocessing's, whose processes are forked."""
    send("first")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(send, ["a", "b", "c", "d"])
    send("parent")


def forks_among_threads() -> None:
    """Children are forked while other threads send."""
    send("first")
    going = True

    def busy(number: int) -> None:
        count = 0
        while going:
            send(f"thread-{number}-{count}")
            count += 1

    threads = [threading.Thread(target=busy, args=[number]) for number in range(3)]
    for thread in threads:
        thread.start()
    for number in range(8):
        fork(f"child-{number}")
    going = False
    for thread in threads:
        thread.join()


def ends_while_waiting() -> None:
    """Daemon threads wait as the program ends."""
    send("first")
    for _ in range(3):
        wait = threading.Thread(target=lambda: greetings.broker.wait("q", timeout=60), daemon=True)
        wait.start()
    time.sleep(0.1)


def sends_at_exit() -> None:
    """The last job is sent by what runs at exit."""
    atexit.register(send, "last")
    send("first")


def sends_too_late() -> None:
    """What runs at exit was registered before bee was imported, and so runs after it has ended."""
    LAST.append("too-late")
    send("first")


def raises() -> None:
    """It fails after it has sent."""
    send("first")
    raise SystemExit(7)


def waits() -> None:
    """Wait for a result that never comes."""
    send("first")
    print("waiting", flush=True)  # noqa: T201
    greetings.result("first", timeout=600)


class Interrupt(BaseException):
    """What a signal's handler raises."""


def interrupts() -> None:
    """Interrupt sends at any moment: none hangs, and none is done in part."""

    def interrupt(*_: object) -> None:
        raise Interrupt

    signal.signal(signal.SIGALRM, interrupt)
    send("first")
    sent, unsure = 1, 0
    for number in range(3000):
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 5e-4))
            send(str(number))
            signal.setitimer(signal.ITIMER_REAL, 0)
            sent += 1
        except Interrupt:
            unsure += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert sent <= greetings.broker.stats("greetings").ready <= sent + unsure
    assert ["MainThread", "bee:sync"] == [thread.name for thread in threading.enumerate()]
    print("done")  # noqa: T201


if __name__ == "__main__":
    globals()[sys.argv[1]]()
