"""What users cannot write: each marked line is an error of `mypy --strict`, and no other is.

`test_typing.py` checks that. This file is read by mypy and never imported.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias, assert_never

import bee_core as bee
from bee_core import sync
from bee_memory import MemoryBroker


class SendEmail(bee.Job):
    to: str
    subject: str = ""


class Resize(bee.Job):
    path: str
    width: int = 200


class Stranger(bee.Job):
    name: str


Jobs: TypeAlias = SendEmail | Resize
hive = bee.Hive()
mail = hive.queue("mail", Jobs)
broker = MemoryBroker()


# Jobs.

SendEmail()  # error: call-arg
SendEmail(to=5)  # error: arg-type
SendEmail(to="ada", body="hi")  # error: call-arg
Resize(path="x.png", width="200")  # error: arg-type
frozen = SendEmail(to="ada")
frozen.to = "bob"  # error: misc


# Policies.

bee.Policy(on_success=bee.Repeat(3))  # error: arg-type
bee.Policy(on_interrupt=bee.Repeat(3))  # error: arg-type
bee.Policy(on_error=bee.Reschedule(5))  # error: arg-type
bee.Policy(on_timeout=bee.Reschedule(5))  # error: arg-type
bee.Policy(on_stall="archive")  # error: arg-type
bee.Policy(on_error=bee.Archive)  # error: arg-type
bee.Policy(timeout="30")  # error: arg-type
bee.Policy(retries=3)  # error: call-arg
bee.Policy(keep_result=True, timeout="1")  # error: arg-type
bee.Throttle(rate=5)  # error: arg-type
bee.Throttle(2)  # error: call-arg
bee.Repeat()  # error: call-arg
bee.Repeat(3, otherwise=bee.Repeat(1))  # error: arg-type
bee.Repeat(3, otherwise=bee.Reschedule(5))  # error: arg-type


# Sending.


async def send() -> None:
    await mail.send(Stranger("x"))  # error: arg-type
    await mail.send("ada@example.org")  # error: arg-type
    await mail.send(SendEmail)  # error: arg-type
    await mail.send(SendEmail("ada"), delay="5")  # error: arg-type
    await mail.send(SendEmail("ada"), at=5.0)  # error: arg-type
    await mail.send(SendEmail("ada"), at="2030-01-01")  # error: arg-type
    await mail.send(SendEmail("ada"), dealy=5)  # error: call-arg
    await mail.send(SendEmail("ada"), if_taken="keep")  # error: arg-type
    await mail.send(SendEmail("ada"), if_taken=bee.Reject)  # error: arg-type
    await mail.send(SendEmail("ada"), policy=bee.Repeat(3))  # error: arg-type
    await mail.send(SendEmail("ada"), headers={"attempt": 1})  # error: dict-item
    await mail.send_many([SendEmail("ada"), Stranger("x")])  # error: list-item
    await mail.cancel("a", to=bee.Reschedule(5))  # error: arg-type
    await mail.cancel_where(lambda job: job.name == "x")  # error: union-attr, union-attr
    await mail.send(SendEmail("ada"), key=5)  # error: arg-type
    await mail.group([SendEmail("ada")])  # error: call-arg
    await mail.group([SendEmail("ada")], then=Stranger("x"))  # error: arg-type
    number: int = await mail.result("a", type=str)  # error: arg-type
    number.bit_length()
    mail.send(SendEmail("ada"))  # error: unused-coroutine
    bee.Update(run_at="later")  # error: arg-type
    text: str = await mail.send(SendEmail("ada"))  # error: assignment
    text.upper()


# Handlers.


@mail.handler
async def forgets_a_class(job: Jobs, delivery: bee.Delivery[Jobs]) -> None:
    match job:
        case SendEmail():
            pass
        case _:
            assert_never(job)  # error: arg-type


@mail.handler  # error: arg-type
async def of_another_queue(job: Stranger, delivery: bee.Delivery[Stranger]) -> None: ...


@mail.handler  # error: arg-type
async def too_narrow(job: SendEmail, delivery: bee.Delivery[Jobs]) -> None: ...


@mail.handler  # error: arg-type
async def with_three_arguments(job: Jobs, delivery: bee.Delivery[Jobs], more: int) -> None: ...


@mail.on(SendEmail)  # error: arg-type
async def of_another_class(job: Resize, delivery: bee.Delivery[Jobs]) -> None: ...


@mail.on(SendEmail)  # error: arg-type
async def with_another_delivery(job: SendEmail, delivery: bee.Delivery[Stranger]) -> None: ...


@mail.on(SendEmail)  # error: arg-type
async def with_no_delivery(job: SendEmail, delivery: datetime) -> None: ...


@mail.on_failure  # error: arg-type
async def gets_no_job(failure: SendEmail, delivery: bee.Delivery[Jobs]) -> None: ...


mail.schedule("other", Stranger("x"), every=60)  # error: arg-type
mail.schedule("other", SendEmail("ada"), every="60")  # error: arg-type
mail.schedule("other", SendEmail("ada"), every=60, missed="all")  # error: arg-type


async def follow_up(job: Jobs, delivery: bee.Delivery[Jobs]) -> None:
    delivery.then(Stranger("x"))  # error: arg-type
    delivery.then(SendEmail("ada"), dealy=5)  # error: call-arg
    delivery.then(SendEmail("ada"), delay="5")  # error: arg-type
    delivery.id = "other"  # error: misc
    await delivery.run_in_process(len, 5)  # error: arg-type
    delivery.progress(["half"])  # error: arg-type
    delivery.group([Stranger("x")], then=SendEmail("ada"))  # error: list-item


async def handle(job: Jobs, delivery: bee.Delivery[Jobs]) -> None: ...
async def handle_stranger(job: Stranger, delivery: bee.Delivery[Stranger]) -> None: ...


# The layers by hand.


async def layers_by_hand() -> None:
    await bee.connect("memory://")  # error: misc
    bee.connect("memory://").send_many([])  # error: attr-defined
    bee.connect("memory://", Jobs)  # error: call-arg
    broker.aclose()  # error: unused-coroutine
    bee.Worker(broker, "mail", Jobs, handle_stranger)  # error: arg-type
    bee.Worker(broker, "mail", SendEmail, handle_stranger)  # error: arg-type
    bee.Worker(broker, "mail", Jobs, handle, lease="30")  # error: arg-type
    bee.Worker(broker, "mail", Jobs, handle).run()  # error: unused-coroutine
    bee.Settlement(bee.Receipt("a", 1), bee.Repeat(3))  # error: arg-type
    await broker.settle("mail", [bee.Receipt("a", 1)])  # error: list-item
    await broker.lease("mail", limit=1, duration=30)  # error: call-arg
    bee.Hive(broker="memory://")  # error: arg-type
    bee.Queue("memory://", "mail", Jobs)  # error: arg-type


class OnlySends:
    async def send(self, queue: str, drafts: list[bee.Draft]) -> list[bee.Sent]:
        return []


not_a_broker: bee.Broker = OnlySends()  # error: assignment


class ForStrangers:
    def encode(self, job: Stranger) -> bytes:
        return b""

    def decode(self, body: bytes) -> Stranger:
        return Stranger("x")


bee.Queue(broker, "mail", SendEmail, codec=ForStrangers())  # error: misc


def forgets_a_disposition(disposition: bee.Disposition) -> None:
    match disposition:
        case bee.Delete() | bee.Archive():
            pass
        case _:
            assert_never(disposition)  # error: arg-type


# Without await.


def send_without_await() -> None:
    blocking = sync.of(mail)
    blocking.send(Stranger("x"))  # error: arg-type
    blocking.send(SendEmail("ada"), delay="5")  # error: arg-type
    blocking.send(SendEmail("ada"), dealy=5)  # error: call-arg
    blocking.send_many([SendEmail("ada"), Stranger("x")])  # error: list-item
    blocking.group([SendEmail("ada")], then=Stranger("x"))  # error: arg-type
    blocking.cancel("a", to=bee.Reschedule(5))  # error: arg-type
    number: int = blocking.result("a", type=str)  # error: assignment
    number.bit_length()
    sync.of("mail")  # error: call-overload
    sync.Queue(broker, "mail", Jobs)  # error: arg-type
    sync.Hive(hive)  # error: arg-type
    sync.connect("memory://").stats(5)  # error: arg-type


async def awaits_what_blocks() -> None:
    await sync.of(mail).send(SendEmail("ada"))  # error: misc
