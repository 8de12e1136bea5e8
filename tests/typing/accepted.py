"""What users may write. It passes `mypy --strict` as it stands, and it can be imported.

`test_typing.py` checks both. Nothing in here is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from types import MappingProxyType, TracebackType
from typing import Annotated, Any, Self, TypeAlias, assert_never, assert_type

import msgspec
import psycopg
from prometheus_client import CollectorRegistry
from typing_extensions import TypeAliasType

import bee_core as bee
from bee_core import sync
from bee_core.opentelemetry import OpenTelemetry
from bee_core.prometheus import PrometheusObserver
from bee_memory import MemoryBroker
from bee_pg import sending
from bee_redis import RedisBroker

# Jobs.


class SendEmail(bee.Job):
    to: str
    subject: str


class Resize(bee.Job, tag="resize.v2"):
    path: str
    width: int = 200


class Import(bee.Job, policy=bee.Policy(timeout=None, on_error=bee.Repeat(5)), kw_only=True):
    rows: list[dict[str, Any]] = msgspec.field(default_factory=list)
    started: datetime


Jobs: TypeAlias = SendEmail | Resize
Named = TypeAliasType("Named", SendEmail | Resize)

SendEmail("ada@example.org", "hi")
SendEmail(to="ada@example.org", subject="hi")
Resize("x.png")
Import(started=datetime.now(UTC))


# A hive, its queues and their handlers.

hive = bee.Hive()
mail = hive.queue("mail", Jobs, policy=bee.Policy(timeout=30, on_error=bee.Repeat(3)))
assert_type(mail, bee.HiveQueue[SendEmail | Resize])
assert_type(hive.queue("one", SendEmail), bee.HiveQueue[SendEmail])
bee.Hive(capacity=20).queue("first", SendEmail, precedence=1, share=2, size=3)
bee.Hive(capacity=bee.Auto(max=50), concurrency=bee.Auto()).queue("auto", SendEmail)
hive.queue("found", SendEmail, concurrency=bee.Auto(min=2, max=500, cpu=0.8))
hive.queue("slow", SendEmail, throttle=bee.Throttle(per_key=2, rate=bee.Rate(10, per=60)))
assert_type(
    hive.queue("several", SendEmail | Resize | Import), bee.HiveQueue[SendEmail | Resize | Import]
)
assert_type(hive.queue("noted", Annotated[Jobs, "a note"]), bee.HiveQueue[SendEmail | Resize])


@mail.handler
async def handle(job: Jobs, delivery: bee.Delivery[Jobs]) -> None:
    match job:
        case SendEmail(to=to, subject=subject):
            assert_type(to, str)
            assert_type(subject, str)
        case Resize(path=path, width=width):
            assert_type(await delivery.run_in_process(shrink, path, width), int)
        case _:
            assert_never(job)


def shrink(path: str, width: int) -> int:
    return len(path) * width


async def use_a_delivery(job: Jobs, delivery: bee.Delivery[Jobs]) -> None:
    assert_type(delivery.id, str)
    assert_type(delivery.queue, str)
    assert_type(delivery.token, int)
    assert_type(delivery.attempt, int)
    assert_type(delivery.counters, bee.Counters)
    assert_type(delivery.remaining, float)
    assert_type(delivery.key, str | None)
    assert_type(delivery.then(Resize("x.png"), delay=60, id="x.png", key="ada"), str)
    assert_type(delivery.then(Resize("x.png"), if_taken=bee.Update(), headers={"a": "b"}), str)


async def gather(job: Jobs, delivery: bee.Delivery[Jobs]) -> int:
    delivery.progress("3 of 10")
    delivery.progress(0.3)
    async for each in delivery.reports(type=dict[str, int]):
        assert_type(each, bee.Result[dict[str, int]])
        assert_type(each.value, dict[str, int])
    for one in await delivery.results():
        assert_type(one.value, Any)
        assert_type((one.id, one.ok, one.note), tuple[str, bool, bee.Note])
    group = delivery.group([Resize("x.png")], then=SendEmail("ada", "done"), timeout=60, key="k")
    assert_type(group, bee.Group)
    return sum(result.value for result in await delivery.results(type=int))


def gather_in_a_thread(job: Jobs, delivery: bee.Delivery[Jobs]) -> int:
    return sum(result.value for result in delivery.from_thread(delivery.results(type=int)))


async def alone(job: Jobs) -> None: ...
def in_a_thread(job: Jobs, delivery: bee.Delivery[Jobs]) -> str:
    return delivery.id


async def overrule(job: Jobs) -> bee.Disposition | bee.Retry | None:
    match job:
        case SendEmail():
            raise bee.Snooze(timedelta(minutes=1))
        case Resize(width=0):
            raise bee.PermanentError("nothing to do")
        case Resize(width=1):
            return bee.Retry("later", after=60)
        case Resize():
            return bee.Reschedule(5)


class Service:
    async def __call__(self, job: Jobs, delivery: bee.Delivery[Jobs]) -> None: ...
    async def method(self, job: Jobs) -> None: ...


each = hive.queue("each", Jobs)


@each.on(SendEmail)
async def email(job: SendEmail, delivery: bee.Delivery[Jobs]) -> None:
    assert_type(job, SendEmail)


@each.on(Resize, process=True)
def resize(job: Resize) -> None: ...


@mail.on_failure
async def failed(failure: bee.Failure[Jobs], delivery: bee.Delivery[Jobs]) -> None:
    assert_type(failure.job, SendEmail | Resize | None)
    assert_type(failure.note.reason == "failed", bool)


pulse = bee.Schedule("pulse", SendEmail("ada", "ping"), every=60)
assert_type(mail.schedule("nightly", Resize("x.png"), cron="0 3 * * *"), bee.Schedule[Jobs])
bee.Worker(bee.connect("memory://"), "mail", Jobs, alone, schedules=[pulse])


def more_queues() -> None:
    assert_type(hive.queue("alias", Named), bee.HiveQueue[SendEmail | Resize])


def more_handlers() -> None:
    hive.queue("a", Jobs).handler(alone)
    hive.queue("b", Jobs).handler(in_a_thread)
    hive.queue("c", Jobs).handler(overrule)
    hive.queue("d", Jobs).handler(Service())
    hive.queue("e", Jobs).handler(Service().method)


async def call_handlers_in_a_unit_test(delivery: bee.Delivery[Jobs]) -> None:
    await handle(SendEmail("ada", "hi"), delivery)
    await email(SendEmail("ada", "hi"), delivery)
    resize(Resize("x.png"))


def a_failure_handler_may_take_the_failure_alone() -> None:
    @each.on_failure
    async def failed(failure: bee.Failure[Jobs]) -> None: ...


# Sending and running.


async def send_and_run() -> None:
    async with hive:
        ticket = await mail.send(SendEmail(to="ada@example.org", subject="hi"))
        assert_type(ticket, bee.Ticket)
        assert_type(ticket.sent, bee.Sent)
        await mail.send(Resize(path="x.png"), delay=60, id="x.png", if_taken=bee.Update())
        await mail.send(Resize("x.png"), delay=timedelta(hours=1), priority=9, headers={"a": "b"})
        await mail.send(Resize("x.png"), at=datetime.now(UTC), if_taken=bee.Reject())
        await mail.send(Resize("x.png"), policy=bee.Policy(on_success=bee.Archive()))
        await mail.send_many([SendEmail("a", "b"), Resize("x"), mail.draft(Resize("y"), delay=1)])
        await mail.send_many(SendEmail("a", str(n)) for n in range(3))
        assert_type(await mail.cancel("x.png", to=bee.Delete()), AbstractSet[str])
        picked = await mail.cancel_where(lambda job: isinstance(job, Resize), running=True)
        assert_type(picked, Sequence[str])
        await mail.send(Resize("x.png"), key="ada", policy=bee.Policy(keep_result=3600))
        assert_type(await mail.result(ticket.id, timeout=5), Any)
        assert_type(await mail.result(ticket.id, timeout=timedelta(1), type=int), int)
        assert_type(await mail.result(ticket.id, type=int | None), int | None)
        group = await mail.group(
            [Resize("a.png"), mail.draft(Resize("b.png"), id="b")],
            then=SendEmail("ada", "done"),
            id="nightly",
            timeout=3600,
            policy=bee.Policy(on_error=bee.Repeat(3)),
        )
        assert_type(group.children, tuple[str, ...])
        await hive.run(until_empty=True)


async def inside_a_service() -> None:
    async with hive, hive.working() as working:
        assert_type(working, bee.Hive)


# Policies.

bee.Policy(
    timeout=timedelta(minutes=5),
    on_success=bee.Archive(),
    on_error=bee.Repeat(3, otherwise=bee.Delete(), backoff=bee.Backoff(min=1, max=60)),
    on_timeout=bee.Repeat(None),
    on_stall=bee.Delete(),
    on_interrupt=bee.Reschedule(delay=10),
    backoff=bee.Backoff(factor=3, jitter=0.5),
    keep_result=timedelta(hours=1),
)
on_success: bee.ArchiveStrategy = bee.Delete()
on_error: bee.ErrorStrategy = bee.Repeat(1)
on_timeout: bee.TimeoutStrategy = bee.Archive()
on_stall: bee.StallStrategy = bee.Repeat(1)
on_interrupt: bee.InterruptStrategy = bee.Reschedule(front=True)


def name_of(disposition: bee.Disposition) -> str:
    match disposition:
        case bee.Delete():
            return "delete"
        case bee.Archive():
            return "archive"
        case bee.Reschedule(delay=delay):
            return f"again in {delay}"
        case _:
            assert_never(disposition)


# The layers by hand.


async def layers_by_hand() -> None:
    async with bee.connect("memory://") as broker:
        assert_type(broker, bee.Store)
        queue = bee.Queue(broker, "mail", Jobs)
        assert_type(queue, bee.Queue[SendEmail | Resize])
        assert_type(bee.Queue(broker, "one", SendEmail), bee.Queue[SendEmail])
        worker = bee.Worker(broker, "mail", Jobs, alone, concurrency=5, lease=timedelta(seconds=9))
        assert_type(worker, bee.Worker[SendEmail | Resize])
        bee.Worker(broker, "mail", Jobs, in_a_thread, observers=[observe, bee.log_events])
        bee.Worker(broker, "mail", Jobs, Service())
        await worker.run(until_empty=True, max_jobs=5)
        async with worker.working() as working:
            assert_type(working, bee.Worker[SendEmail | Resize])

        leases = await broker.lease("mail", limit=1, duration=30, holder="me")
        assert_type(leases, Sequence[bee.Lease])
        for lease in leases:
            assert_type(queue.decode(lease.receipt.id, lease.body), SendEmail | Resize)
        done = [bee.Settlement(lease.receipt, bee.Delete()) for lease in leases]
        assert_type(await broker.settle("mail", done), AbstractSet[bee.Receipt])
        assert_type((await broker.stats("mail")).ready, int)


def observe(event: bee.Event) -> None: ...


observer: bee.Observer = observe


# Every broker is a Broker, an Inspector and so a Store.

memory_broker: bee.Broker = MemoryBroker()
memory_inspector: bee.Inspector = MemoryBroker()
memory_store: bee.Store = MemoryBroker()
redis_store: type[bee.Store] = RedisBroker
hive_on_a_broker = bee.Hive(broker=MemoryBroker())
queue_of_a_function = bee.Queue(MemoryBroker, "mail", Jobs)


class ForeignBroker:
    """A broker of a third party, which derives from nothing of bee's."""

    async def send(self, queue: str, drafts: Sequence[bee.Draft]) -> list[bee.Sent]:
        return [bee.Sent.CREATED for _ in drafts]

    async def lease(
        self,
        queue: str,
        *,
        limit: int,
        duration: float,
        holder: str,
        throttle: bee.Throttle = bee.Throttle(),
    ) -> list[bee.Lease]:
        return []

    async def extend(
        self,
        queue: str,
        receipts: Sequence[bee.Receipt],
        *,
        duration: float,
        progress: Mapping[str, str] = MappingProxyType({}),
        remarks: Mapping[str, str] = MappingProxyType({}),
    ) -> set[bee.Receipt]:
        return set()

    async def settle(
        self, queue: str, settlements: Sequence[bee.Settlement]
    ) -> frozenset[bee.Receipt]:
        return frozenset()

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: bee.Terminal, running: bool = True
    ) -> set[str]:
        return set()

    async def wait(self, queue: str, *, timeout: float) -> None: ...
    async def results(self, queue: str, ids: Sequence[str]) -> dict[str, bee.Report]:
        return {}

    async def reports(
        self, queue: str, id: str, *, after: str = "", limit: int = 1000
    ) -> list[bee.Report]:
        return []

    async def announce(self, queue: str, holder: str, *, about: str, duration: float) -> None: ...
    def clone(self) -> ForeignBroker:
        return self

    async def aclose(self) -> None: ...
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


foreign: bee.Broker = ForeignBroker()
queue_on_foreign = bee.Queue(ForeignBroker(), "mail", Jobs)


# A codec of the user's own.


class Text:
    def encode(self, job: SendEmail) -> bytes:
        return job.to.encode()

    def decode(self, body: bytes) -> SendEmail:
        return SendEmail(body.decode(), "")


codec: bee.Codec[SendEmail] = Text()
texts = bee.Queue(MemoryBroker(), "texts", SendEmail, codec=Text())
assert_type(texts, bee.Queue[SendEmail])


# Observers and traces.

count = PrometheusObserver(registry=CollectorRegistry(), prefix="shop", buckets=[1, 10.0])
watched = bee.Hive(observers=[bee.log_events, count], tracing=OpenTelemetry())


# Without await.

blocking = sync.of(mail)
assert_type(blocking, sync.HiveQueue[SendEmail | Resize])
assert_type(sync.of(hive), sync.Hive)
assert_type(sync.of(MemoryBroker()), sync.Store)
assert_type(sync.of(texts), sync.Queue[SendEmail])
sync_hive = sync.Hive(policy=bee.Policy(timeout=30), concurrency=4)
sync_mail = sync_hive.queue("mail", Jobs)
assert_type(sync_mail, sync.HiveQueue[SendEmail | Resize])


@sync_mail.handler
def handle_without_await(job: Jobs, delivery: bee.Delivery[Jobs]) -> str:
    return delivery.id


def send_without_await(connection: psycopg.Connection) -> None:
    ticket = blocking.send(SendEmail("ada", "hi"), delay=60, id="x", if_taken=bee.Update(), key="k")
    assert_type(ticket, bee.Ticket)
    assert_type(
        blocking.send_many([Resize("x"), blocking.draft(Resize("y"))]), Sequence[bee.Ticket]
    )
    assert_type(blocking.result(ticket.id, timeout=5), Any)
    assert_type(blocking.result(ticket.id, type=int | None), int | None)
    assert_type(blocking.group([Resize("x")], then=SendEmail("ada", "done")), bee.Group)
    assert_type(blocking.cancel("x", to=bee.Delete()), AbstractSet[str])
    assert_type(blocking.cancel_where(lambda job: isinstance(job, Resize)), Sequence[str])
    assert_type(blocking.explain("x"), bee.Explanation)
    assert_type(blocking.inner, bee.HiveQueue[SendEmail | Resize])
    assert_type(sending(connection).send(blocking, Resize("x")), Sequence[bee.Ticket])
    with sync.of(hive) as view, view.working() as working:
        assert_type(working, sync.Hive)
        view.run(until_empty=True)
    with sync.connect("memory://") as store:
        assert_type(store, sync.Store)
        assert_type(sync.Queue(store, "mail", Jobs), sync.Queue[SendEmail | Resize])
        leases = store.lease("mail", limit=1, duration=30, holder="me")
        assert_type(leases, Sequence[bee.Lease])
        assert_type(store.stats("mail").ready, int)
        assert_type(sync.explain(store, "mail", "x"), bee.Explanation)
