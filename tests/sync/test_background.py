"""The event loop beside the program: who may call it, what interrupts a call, what it leaves."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import signal
import socket
import threading
import time
import traceback
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

import bee_core as bee
from bee_core import sync
from bee_core.sync import background
from bee_core.testing import FaultyBroker
from bee_memory import MemoryBroker

from .jobs import Greet, declare


async def test_in_an_event_loop_it_says_that_one_has_to_await() -> None:
    hive, queue = declare("memory://")
    blocking = sync.of(hive)

    for use in (
        lambda: sync.of(queue).send(Greet("Ada")),
        lambda: sync.of(queue).result("one"),
        lambda: blocking.broker.queues(),
        lambda: blocking.run(until_empty=True),
        lambda: blocking.stop(),
        lambda: blocking.working().__enter__(),
    ):
        with pytest.raises(bee.MustAwait, match=r"await the same method .* or call this one in a"):
            use()
    assert isinstance(bee.MustAwait(), RuntimeError)


def test_in_a_handler_that_is_awaited_it_says_so_too() -> None:
    hive = sync.Hive("memory://", observers=())
    queue = hive.queue("greetings", Greet, policy=bee.Policy(on_error=bee.Archive()))

    @queue.handler
    async def greet(job: Greet) -> None:
        queue.send(job)

    queue.send(Greet("Ada"))
    hive.run(until_empty=True)

    [archived] = hive.broker.scan("greetings", bee.State.ARCHIVED).items
    assert archived.note is not None
    assert "MustAwait" in archived.note.detail


def test_an_error_comes_with_the_lines_of_both_threads() -> None:
    with pytest.raises(bee.InvalidOption) as caught:
        sync.connect("memory://").lease("q", limit=0, duration=1, holder="me")

    shown = "".join(traceback.format_exception(caught.value))
    assert "limit=0" in shown
    assert "check_whole(limit" in shown


def test_a_call_runs_in_a_copy_of_the_context_of_who_calls() -> None:
    who = contextvars.ContextVar("who", default="nobody")
    who.set("Ada")

    async def seen() -> str:
        return who.get()

    assert "Ada" == background.call(seen)


def test_calls_of_several_threads_do_not_wait_for_each_other() -> None:
    store = sync.connect("memory://")
    waiting = threading.Thread(target=lambda: store.wait("q", timeout=60))
    waiting.start()

    began = time.monotonic()
    store.stats("other")
    assert time.monotonic() - began < 10

    store.send("q", [bee.Draft("one", b"")])
    waiting.join(10)
    assert not waiting.is_alive()


@contextmanager
def interrupted(error: BaseException) -> Iterator[None]:
    """A signal's handler that raises, after a tenth of a second."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_interrupted_call_is_cancelled_and_has_ended_when_the_interruption_is_raised(
    url: str,
) -> None:
    store = sync.connect(url)
    store.queues()

    began = time.monotonic()
    with interrupted(KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        store.wait("q", timeout=60)
    assert time.monotonic() - began < 30
    assert 1 == _calls()

    assert [bee.Sent.CREATED] == store.send("q", [bee.Draft("one", b"")])  # nothing was harmed
    store.close()


def _calls() -> int:
    """How many calls are under way, this one included."""

    async def count() -> int:
        tasks = [task.get_coro() for task in asyncio.all_tasks()]
        return sum("_Call" in repr(work) for work in tasks)

    return background.call(count)


def test_a_run_that_is_interrupted_gives_its_jobs_back() -> None:
    hive = sync.Hive("memory://", grace=0, observers=())
    queue = hive.queue("greetings", Greet)

    @queue.handler
    async def greet(job: Greet) -> None:
        await asyncio.sleep(60)

    queue.send(Greet("Ada"))
    with interrupted(KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        hive.run()

    [stored] = hive.broker.scan("greetings", bee.State.READY).items
    assert bee.Counters(deliveries=1, releases=1) == stored.counters


def test_a_signal_handler_may_stop_a_run() -> None:
    hive = sync.Hive("memory://", grace=0)
    hive.queue("greetings", Greet).handler(lambda job: None)
    before = signal.signal(signal.SIGALRM, lambda *_: hive.stop())
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        hive.run()
    finally:
        signal.signal(signal.SIGALRM, before)

    assert not hive.stopping
    assert not hive.health().alive


@pytest.mark.parametrize("scheme", ["redis", "postgresql"])
def test_a_server_that_is_down_is_said_to_be_within_the_deadline(scheme: str) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        _, queue = declare(f"{scheme}://127.0.0.1:{nobody.getsockname()[1]}/?deadline=1")

        began = time.monotonic()
        with pytest.raises(bee.BrokerUnavailable):
            sync.of(queue).send(Greet("Ada"))
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("scheme", ["redis", "postgresql"])
def test_a_server_that_is_silent_is_said_to_be_within_the_deadline(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        _, queue = declare(f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/?deadline=1")

        began = time.monotonic()
        with pytest.raises(bee.BrokerUnavailable):
            sync.of(queue).send(Greet("Ada"))
        assert time.monotonic() - began < 10


def test_a_lost_answer_is_asked_for_again_under_the_same_id() -> None:
    broker = FaultyBroker(MemoryBroker())
    queue = sync.of(bee.Queue(broker, "greetings", Greet))
    broker.lose_answer("send")

    assert bee.Sent.KEPT is queue.send(Greet("Ada")).sent
    assert 2 == broker.calls["send"]


def test_the_connections_of_a_store_that_is_forgotten_are_closed(
    shared_url: str, recwarn: pytest.WarningsRecorder
) -> None:
    store = sync.connect(shared_url)
    store.queues()
    clone = weakref.ref(background.connected(store.inner))
    del store
    for _ in range(200):
        gc.collect()
        if clone() is None:
            break
        time.sleep(0.02)

    assert clone() is None
    assert [] == [str(one.message) for one in recwarn if one.category is ResourceWarning]


def test_a_hive_that_was_closed_may_be_used_again(url: str) -> None:
    hive, queue = declare(url)
    with sync.of(hive):
        sync.of(queue).send(Greet("Ada"))
    with sync.of(hive) as again:
        assert 1 == again.broker.stats("greetings").ready
    with sync.of(declare(url)[0]):
        pass  # not used at all


def test_a_worker_that_fails_is_heard_of_when_the_work_ends() -> None:
    hive = sync.Hive("memory://")
    hive.queue("greetings", Greet)

    with pytest.raises(bee.NoHandler):
        hive.run()
    with pytest.raises(bee.NoHandler), hive.working():
        pass


def test_a_handler_that_exits_ends_its_job_and_not_the_loop() -> None:
    hive = sync.Hive("memory://", observers=())
    queue = hive.queue("greetings", Greet, policy=bee.Policy(on_error=bee.Archive()))

    @queue.handler
    async def greet(job: Greet) -> None:
        raise SystemExit(3)

    queue.send(Greet("Ada"))
    hive.run(until_empty=True)

    assert {"failed": 1} == hive.broker.stats("greetings").archived


def test_a_call_that_exits_does_not_end_the_loop() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        background.call(leave)
    assert [] == sync.connect("memory://").queues()
