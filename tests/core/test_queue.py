"""A typed queue: what `send` takes, what it promises, and how many round trips it makes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

import bee_core as bee
from bee_core.message import Draft, Sent
from bee_core.stored import State, Stored
from bee_core.testing import FaultyBroker
from bee_memory import MemoryBroker
from tests.core.support import Jobs, RecordingBroker, Resize, SendEmail

email = SendEmail(to="ada")


def queue_on(broker: MemoryBroker) -> bee.Queue[Jobs]:
    return bee.Queue(broker, "jobs", Jobs)


async def stored(broker: MemoryBroker, id: str) -> Stored:
    found = await broker.get("jobs", id)
    assert found is not None
    return found


async def messages(broker: MemoryBroker) -> int:
    return (await broker.stats("jobs")).live


# Sending one job.


async def test_a_ticket_names_the_id_and_what_became_of_the_send() -> None:
    queue = queue_on(MemoryBroker())

    assert bee.Ticket("a", Sent.CREATED) == await queue.send(email, id="a")
    assert bee.Ticket("a", Sent.KEPT) == await queue.send(email, id="a")
    assert bee.Ticket("a", Sent.UPDATED) == await queue.send(email, id="a", if_taken=bee.Update())


async def test_without_an_id_every_send_is_a_job_of_its_own() -> None:
    broker = MemoryBroker()
    queue = queue_on(broker)

    tickets = [await queue.send(email) for _ in range(3)]

    assert 3 == len({ticket.id for ticket in tickets}) == await messages(broker)


async def test_the_options_of_send_reach_the_message() -> None:
    broker = MemoryBroker()

    await queue_on(broker).send(email, id="a", delay=60, priority=7, headers={"trace": "t"})

    message = await stored(broker, "a")
    assert State.DELAYED is message.state
    assert 7 == message.priority
    assert {"trace": "t"} == dict(message.headers)
    assert 60.0 == pytest.approx(message.due_at - message.sent_at)


class Texts:
    """A codec that forgets to encode."""

    def encode(self, job: object) -> Any:
        return "text"

    def decode(self, body: bytes) -> object:
        return body


async def test_a_codec_that_makes_no_bytes_is_refused_before_anything_is_sent() -> None:
    broker = RecordingBroker()
    queue = bee.Queue(broker, "jobs", object, codec=Texts())

    with pytest.raises(bee.InvalidPayload, match="made a str of a SendEmail"):
        await queue.send(email)
    with pytest.raises(bee.InvalidPayload, match="made a str of a SendEmail"):
        await queue.send_many([email])
    assert 0 == await messages(broker)


async def test_a_draft_is_what_send_would_send_and_sends_nothing() -> None:
    broker = RecordingBroker()
    queue = queue_on(broker)

    draft = queue.draft(email, id="a", delay=timedelta(minutes=1), if_taken=bee.Reject())

    assert [] == broker.calls
    assert Draft("a", queue.codec.encode(email), 60.0, 0, {}, bee.Reject()) == draft


@pytest.mark.parametrize("priority", [-10, 10, 1.0, "1", None, True, math.nan], ids=repr)
async def test_a_priority_out_of_range_is_refused(priority: Any) -> None:
    broker = RecordingBroker()

    with pytest.raises(bee.InvalidOption, match="priority must be a whole number from -9 to 9"):
        await queue_on(broker).send(email, priority=priority)

    assert [] == broker.calls


@pytest.mark.parametrize("priority", [-9, 0, 9])
async def test_priorities_go_from_minus_nine_to_nine(priority: int) -> None:
    assert priority == queue_on(MemoryBroker()).draft(email, priority=priority).priority


@pytest.mark.parametrize("id", ["x" * 201, "a\nb", "a\0", "\ud800", 7, b"a"], ids=repr)
async def test_an_id_outside_the_rule_is_refused(id: Any) -> None:
    broker = RecordingBroker()

    with pytest.raises(bee.InvalidName, match="is not a job id"):
        await queue_on(broker).send(email, id=id)

    assert [] == broker.calls


async def test_an_empty_id_is_refused_and_not_replaced() -> None:
    with pytest.raises(bee.InvalidName):
        await queue_on(MemoryBroker()).send(email, id="")


@pytest.mark.parametrize("if_taken", [bee.Reject, "keep", None, bee.Delete()], ids=repr)
async def test_what_to_do_if_the_id_is_taken_is_keep_reject_or_update(if_taken: Any) -> None:
    with pytest.raises(bee.InvalidOption, match="if_taken"):
        queue_on(MemoryBroker()).draft(email, if_taken=if_taken)


@pytest.mark.parametrize("name", ["", "Mail", "a b", "x" * 48, "1a", "a.b", "a\n", 7], ids=repr)
def test_a_queue_has_a_legal_name(name: Any) -> None:
    with pytest.raises(bee.InvalidName, match="is not a queue name"):
        bee.Queue(MemoryBroker(), name, Jobs)


# When.


async def test_at_is_a_delay_until_then() -> None:
    at = datetime.now(UTC) + timedelta(hours=1)

    assert 3590 < queue_on(MemoryBroker()).draft(email, at=at).delay <= 3600


async def test_at_may_be_in_any_time_zone() -> None:
    at = datetime.now(timezone(timedelta(hours=9))) + timedelta(hours=1)

    assert 3590 < queue_on(MemoryBroker()).draft(email, at=at).delay <= 3600


@pytest.mark.parametrize("at", [datetime(1970, 1, 1, tzinfo=UTC), datetime.now(UTC)])
async def test_a_time_in_the_past_is_now(at: datetime) -> None:
    assert 0.0 == queue_on(MemoryBroker()).draft(email, at=at).delay


async def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(bee.InvalidOption, match="at must be an aware datetime"):
        queue_on(MemoryBroker()).draft(email, at=datetime(2030, 1, 1))


@pytest.mark.parametrize("delay", [1, 0.5, timedelta(seconds=1)])
async def test_delay_and_at_exclude_each_other(delay: float | timedelta) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)

    with pytest.raises(bee.InvalidOption, match="either delay or at, not both"):
        queue_on(MemoryBroker()).draft(email, at=at, delay=delay)


@pytest.mark.parametrize("at", [date(2030, 1, 1), "2030-01-01", 1.5e9], ids=repr)
async def test_what_is_no_datetime_is_refused(at: Any) -> None:
    with pytest.raises(bee.InvalidOption, match="at must be an aware datetime"):
        queue_on(MemoryBroker()).draft(email, at=at)


async def test_a_time_too_far_away_is_refused_by_the_name_the_caller_gave() -> None:
    with pytest.raises(bee.InvalidOption, match=r"^at "):
        queue_on(MemoryBroker()).draft(email, at=datetime(2999, 1, 1, tzinfo=UTC))


# Headers.


@pytest.mark.parametrize("headers", [{"a": 1}, {1: "a"}, {"a": None}, {"a": b"b"}], ids=repr)
async def test_headers_are_text(headers: Any) -> None:
    with pytest.raises(bee.InvalidPayload, match="names and values must be strings"):
        queue_on(MemoryBroker()).draft(email, headers=headers)


@pytest.mark.parametrize("headers", [{"a": "\ud800"}, {"\ud800": "a"}], ids=["value", "name"])
async def test_headers_are_text_that_utf_8_can_hold(headers: dict[str, str]) -> None:
    with pytest.raises(bee.InvalidPayload, match="UTF-8"):
        queue_on(MemoryBroker()).draft(email, headers=headers)


@pytest.mark.parametrize("name", ["bee-policy", "bee-kind", "bee-"])
async def test_names_that_begin_with_bee_are_not_the_users(name: str) -> None:
    with pytest.raises(bee.InvalidPayload, match="beginning with bee- are bee's own"):
        queue_on(MemoryBroker()).draft(email, headers={name: "x"})


async def test_headers_hold_8_kib_in_all() -> None:
    queue = queue_on(MemoryBroker())

    queue.draft(email, headers={"name": "x" * (8192 - 4)})

    with pytest.raises(bee.InvalidPayload, match="headers of 8193 bytes; at most 8192"):
        queue.draft(email, headers={"name": "x" * (8193 - 4)})
    with pytest.raises(bee.InvalidPayload, match="headers of 8194 bytes; at most 8192"):
        queue.draft(email, headers={"name": "\u00e9" * 4095})


async def test_a_policy_counts_towards_the_size_of_the_headers() -> None:
    queue = queue_on(MemoryBroker())

    with pytest.raises(bee.InvalidPayload, match="at most 8192"):
        queue.draft(email, headers={"n": "x" * 8190}, policy=bee.Policy(timeout=1))


async def test_a_draft_does_not_change_with_the_dict_its_headers_came_from() -> None:
    headers = {"trace": "before"}
    draft = queue_on(MemoryBroker()).draft(email, headers=headers)

    headers["trace"] = "after"

    assert {"trace": "before"} == dict(draft.headers)


async def test_headers_are_a_mapping() -> None:
    none: Any = None

    with pytest.raises(bee.InvalidPayload, match="headers"):
        queue_on(MemoryBroker()).draft(email, headers=none)


# Sending many.


async def test_send_many_answers_for_each_job_in_order() -> None:
    broker = MemoryBroker()
    queue = queue_on(broker)
    await queue.send(email, id="b")

    tickets = await queue.send_many([queue.draft(email, id=id) for id in "abc"])

    assert [
        bee.Ticket("a", Sent.CREATED),
        bee.Ticket("b", Sent.KEPT),
        bee.Ticket("c", Sent.CREATED),
    ] == list(tickets)


async def test_send_many_takes_jobs_and_drafts_together() -> None:
    broker = MemoryBroker()
    queue = queue_on(broker)

    tickets = await queue.send_many([email, Resize(path="x"), queue.draft(email, id="a")])

    assert 3 == len(tickets) == await messages(broker)
    assert "a" == tickets[-1].id


async def test_send_many_of_nothing_makes_no_round_trip() -> None:
    broker = RecordingBroker()

    assert [] == list(await queue_on(broker).send_many([]))
    assert [] == broker.calls


@pytest.mark.parametrize(
    ("number", "batches"),
    [(1, [1]), (999, [999]), (1000, [1000]), (1001, [1000, 1]), (2001, [1000, 1000, 1])],
)
async def test_send_many_sends_1000_jobs_in_a_round_trip(number: int, batches: list[int]) -> None:
    broker = RecordingBroker()

    tickets = await queue_on(broker).send_many(SendEmail(to=str(n)) for n in range(number))

    assert batches == [len(ids) for _, ids in broker.calls]
    assert [ticket.id for ticket in tickets] == [id for _, ids in broker.calls for id in ids]
    assert number == await messages(broker)


async def test_send_many_sends_one_mebibyte_in_a_round_trip() -> None:
    broker = RecordingBroker()
    large = SendEmail(to="x" * 200_000)  # five of them fit

    await queue_on(broker).send_many([large] * 12)

    assert [5, 5, 2] == [len(ids) for _, ids in broker.calls]


async def test_a_job_larger_than_a_batch_goes_alone() -> None:
    broker = RecordingBroker()
    queue = bee.Queue(broker, "jobs", SendEmail, max_bytes=4 * 1024 * 1024)
    huge = SendEmail(to="x" * 2_000_000)

    await queue.send_many([email, huge, email, email])

    assert [1, 1, 2] == [len(ids) for _, ids in broker.calls]


async def test_send_many_reads_its_input_batch_by_batch() -> None:
    broker = RecordingBroker()
    batches_before: list[int] = []

    def source() -> Iterator[SendEmail]:
        for _ in range(2500):
            batches_before.append(len(broker.calls))
            yield email

    await queue_on(broker).send_many(source())

    assert [0, 1, 2] == [batches_before[n] for n in (1000, 1001, 2001)]


async def test_an_id_that_is_repeated_in_one_call_is_sent_in_order() -> None:
    broker = RecordingBroker()
    queue = queue_on(broker)
    drafts = [
        queue.draft(SendEmail(to="first"), id="a"),
        queue.draft(SendEmail(to="other"), id="b"),
        queue.draft(SendEmail(to="second"), id="a"),
        queue.draft(SendEmail(to="third"), id="a", if_taken=bee.Update()),
    ]

    tickets = await queue.send_many(drafts)

    assert [("send", ["a", "b"]), ("send", ["a"]), ("send", ["a"])] == broker.calls
    assert [Sent.CREATED, Sent.CREATED, Sent.KEPT, Sent.UPDATED] == [t.sent for t in tickets]
    assert SendEmail(to="third") == queue.decode("a", (await stored(broker, "a")).body)


async def test_a_rejected_id_stops_its_batch_and_no_earlier_one() -> None:
    broker = RecordingBroker()
    queue = queue_on(broker)
    await queue.send(email, id="taken")
    first = [queue.draft(email, id=f"first-{n}") for n in range(1000)]
    second = [
        queue.draft(email, id="second"),
        queue.draft(email, id="taken", if_taken=bee.Reject()),
    ]

    with pytest.raises(bee.IdTaken) as caught:
        await queue.send_many([*first, *second])

    assert ("jobs", frozenset({"taken"})) == (caught.value.queue, caught.value.ids)
    assert 1001 == await messages(broker)
    assert await broker.get("jobs", "second") is None


# Taken ids and lost answers.


async def test_reject_raises_with_the_queue_and_the_id() -> None:
    queue = queue_on(MemoryBroker())
    await queue.send(email, id="a")

    with pytest.raises(bee.IdTaken, match="queue 'jobs' already holds a") as caught:
        await queue.send(email, id="a", if_taken=bee.Reject())

    assert frozenset({"a"}) == caught.value.ids


class LosesAnswers(RecordingBroker):
    """Does what it is asked, but its first answers to `send` are lost on the way."""

    def __init__(self, lost: int, error: type[bee.BrokerError] = bee.OutcomeUnknown) -> None:
        super().__init__()
        self.lost = lost
        self.error = error

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        answer = await super().send(queue, drafts)
        if self.lost:
            self.lost -= 1
            raise self.error("connection reset")
        return answer


@pytest.mark.parametrize("lost", [1, 2])
async def test_a_send_whose_answer_was_lost_is_sent_again_and_stored_once(lost: int) -> None:
    broker = LosesAnswers(lost)

    ticket = await queue_on(broker).send(email)

    assert [("send", [ticket.id])] * (lost + 1) == broker.calls
    assert 1 == await messages(broker)


async def test_many_whose_answer_was_lost_are_sent_again_and_stored_once() -> None:
    broker = LosesAnswers(1)

    tickets = await queue_on(broker).send_many([email] * 1001)

    assert [1000, 1000, 1] == [len(ids) for _, ids in broker.calls]
    assert broker.calls[0] == broker.calls[1]
    assert 1001 == len({ticket.id for ticket in tickets}) == await messages(broker)


async def test_after_three_lost_answers_the_caller_hears_of_it() -> None:
    broker = LosesAnswers(3)

    with pytest.raises(bee.OutcomeUnknown):
        await queue_on(broker).send(email)

    assert 3 == len(broker.calls)
    assert 1 == await messages(broker)


@pytest.mark.parametrize(
    "error",
    [bee.BrokerUnavailable, bee.BrokerFull, bee.BrokerClosed, bee.BrokerMisconfigured],
    ids=lambda error: str(error.__name__),
)
async def test_any_other_trouble_is_the_callers_at_once(error: type[bee.BrokerError]) -> None:
    broker = LosesAnswers(1, error)

    with pytest.raises(error):
        await queue_on(broker).send(email)

    assert 1 == len(broker.calls)


@pytest.mark.parametrize("if_taken", [bee.Reject(), bee.Update()])
async def test_a_send_that_would_meet_itself_is_not_repeated_after_a_lost_answer(
    if_taken: bee.Reject | bee.Update,
) -> None:
    broker = LosesAnswers(1)

    with pytest.raises(bee.OutcomeUnknown) as caught:
        await queue_on(broker).send(email, id="a", if_taken=if_taken)

    assert [("send", ["a"])] == broker.calls
    assert 1 == await messages(broker)
    assert ["ids: a"] == caught.value.__notes__


# The rest.


async def test_cancel_answers_with_the_ids_that_had_nothing_to_cancel() -> None:
    broker = MemoryBroker()
    queue = queue_on(broker)
    await queue.send(email, id="a")

    assert {"b"} == await queue.cancel("a", "b")
    assert State.ARCHIVED is (await stored(broker, "a")).state


async def test_cancel_may_delete() -> None:
    broker = MemoryBroker()
    queue = queue_on(broker)
    await queue.send(email, id="a")

    assert set() == await queue.cancel("a", to=bee.Delete())
    assert await broker.get("jobs", "a") is None


async def test_a_broker_may_be_given_as_a_function_that_is_called_when_it_is_needed() -> None:
    brokers: list[MemoryBroker] = []

    def make() -> MemoryBroker:
        brokers.append(MemoryBroker())
        return brokers[-1]

    queue = bee.Queue(make, "jobs", Jobs)
    assert [] == brokers

    await queue.send(email, id="a")

    assert [1] == [await messages(broker) for broker in brokers]


async def test_a_send_that_may_be_stored_is_never_said_to_have_done_nothing() -> None:
    broker = FaultyBroker(MemoryBroker())
    broker.lose_answer("send")
    broker.fail("send", bee.BrokerUnavailable("away"))

    with pytest.raises(bee.OutcomeUnknown):
        await queue_on(broker).send(email, id="a")

    assert None is not await broker.inner.get(queue_on(broker).name, "a")
