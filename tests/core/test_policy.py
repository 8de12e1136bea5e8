"""Policies: what they take, which level wins, and what of them travels with a message."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

import bee_core as bee
from bee_core.queue import POLICY_HEADER
from bee_core.strategy import Rules, resolve
from bee_memory import MemoryBroker
from tests.core.support import SendEmail

SLOTS = ["on_success", "on_error", "on_timeout", "on_stall", "on_interrupt", "backoff"]


class Careful(bee.Job, policy=bee.Policy(timeout=20, on_error=bee.Repeat(2))):
    pass


class Child(Careful):
    pass


class Reckless(Careful, policy=bee.Policy(on_error=bee.Delete())):
    pass


def rules_of(queue: bee.Queue[Any], job: Any, **options: Any) -> Rules:
    """What a worker makes of the job after it has travelled."""
    return queue.rules(type(job), queue.draft(job, **options).headers)


# The levels.


def test_without_any_policy_the_defaults_hold() -> None:
    queue = bee.Queue(MemoryBroker(), "jobs", SendEmail)

    assert Rules(
        timeout=60.0,
        on_success=bee.Delete(),
        on_error=bee.Archive(),
        on_timeout=bee.Repeat(2),
        on_stall=bee.Repeat(3),
        on_interrupt=bee.Reschedule(front=True),
        backoff=bee.Backoff(min=2.0, factor=2.0, max=300.0, jitter=0.1),
        keep_result=None,
    ) == rules_of(queue, SendEmail(to="x"))


def test_send_wins_over_class_over_queue_over_defaults_field_by_field() -> None:
    queue = bee.Queue(
        MemoryBroker(),
        "jobs",
        Careful,
        policy=bee.Policy(timeout=10, on_error=bee.Repeat(1), on_success=bee.Archive()),
    )

    rules = rules_of(queue, Careful(), policy=bee.Policy(timeout=30, on_stall=bee.Delete()))

    assert 30.0 == rules.timeout  # send, before class and queue
    assert bee.Repeat(2) == rules.on_error  # class, before queue
    assert bee.Archive() == rules.on_success  # queue, before default
    assert bee.Delete() == rules.on_stall  # send, before default
    assert bee.Repeat(2) == rules.on_timeout  # default


def test_how_long_a_result_is_kept_has_the_same_levels() -> None:
    queue = bee.Queue(MemoryBroker(), "jobs", Careful, policy=bee.Policy(keep_result=10))

    assert 10.0 == rules_of(queue, Careful()).keep_result
    hour = bee.Policy(keep_result=timedelta(hours=1))
    assert 3600.0 == rules_of(queue, Careful(), policy=hour).keep_result
    assert rules_of(queue, Careful(), policy=bee.Policy(keep_result=None)).keep_result is None


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, "60", True])
def test_a_result_is_kept_for_a_time_or_not_at_all(wrong: Any) -> None:
    with pytest.raises(bee.InvalidOption, match="keep_result"):
        bee.Policy(keep_result=wrong)


def test_no_timeout_is_a_wish_like_any_other_and_not_a_blank() -> None:
    queue = bee.Queue(MemoryBroker(), "jobs", Careful, policy=bee.Policy(timeout=10))

    assert 20.0 == rules_of(queue, Careful()).timeout
    assert rules_of(queue, Careful(), policy=bee.Policy(timeout=None)).timeout is None


def test_a_class_inherits_the_policy_of_its_base_unless_it_has_its_own() -> None:
    queue = bee.Queue(MemoryBroker(), "jobs", Careful | Child | Reckless)

    assert bee.Repeat(2) == rules_of(queue, Child()).on_error
    assert bee.Delete() == rules_of(queue, Reckless()).on_error
    assert 60.0 == rules_of(queue, Reckless()).timeout


def test_what_a_queue_leaves_open_comes_from_its_hive() -> None:
    hive = bee.Hive(broker=MemoryBroker(), policy=bee.Policy(timeout=5))
    queue = hive.queue("jobs", SendEmail, policy=bee.Policy(on_error=bee.Delete()))

    rules = rules_of(queue, SendEmail(to="x"))

    assert (5.0, bee.Delete()) == (rules.timeout, rules.on_error)


def test_a_changed_class_applies_to_jobs_that_are_already_waiting() -> None:
    class Before(bee.Job, tag="same", policy=bee.Policy(on_error=bee.Repeat(1))):
        pass

    class After(bee.Job, tag="same", policy=bee.Policy(on_error=bee.Repeat(9))):
        pass

    draft = bee.Queue(MemoryBroker(), "jobs", Before).draft(Before())
    rules = bee.Queue(MemoryBroker(), "jobs", After).rules(After, draft.headers)

    assert bee.Repeat(9) == rules.on_error


terminals = st.sampled_from([bee.Delete(), bee.Archive()])
strategies = terminals | st.builds(
    bee.Repeat,
    st.none() | st.integers(0, 99),
    terminals,
    backoff=st.none() | st.builds(bee.Backoff, factor=st.floats(1, 10)),
)
policies = st.builds(
    bee.Policy,
    timeout=st.just(UNSET)
    | st.none()
    | st.floats(0.001, 1e6)
    | st.timedeltas(timedelta(milliseconds=1), timedelta(days=100)),
    on_success=st.just(UNSET) | terminals,
    on_error=st.just(UNSET) | strategies,
    on_timeout=st.just(UNSET) | strategies,
    on_stall=st.just(UNSET) | strategies,
    on_interrupt=st.just(UNSET) | terminals | st.builds(bee.Reschedule, st.floats(0, 1e6)),
    backoff=st.just(UNSET) | st.builds(bee.Backoff, max=st.floats(2, 1e6)),
)


@given(policies, policies, policies)
def test_each_field_comes_from_the_first_level_that_sets_it(
    send: bee.Policy, kind: bee.Policy, queue: bee.Policy
) -> None:
    rules = resolve(send, kind, queue)

    for name in Rules.__struct_fields__:
        wishes = [getattr(level, name) for level in (send, kind, queue)]
        expected = [w for w in wishes if w is not UNSET] + [getattr(Rules(), name)]
        assert expected[0] == getattr(rules, name)


# What travels.


def test_only_what_send_was_given_travels() -> None:
    queue = bee.Queue(
        MemoryBroker(), "jobs", Careful, policy=bee.Policy(on_success=bee.Archive(), timeout=9)
    )

    assert {} == dict(queue.draft(Careful()).headers)
    assert {POLICY_HEADER: '{"timeout":5.0}'} == dict(
        queue.draft(Careful(), policy=bee.Policy(timeout=5)).headers
    )
    assert {POLICY_HEADER: '{"on_success":{"type":"delete"}}'} == dict(
        queue.draft(Careful(), policy=bee.Policy(on_success=bee.Delete())).headers
    )


def test_what_travels_stands_beside_the_users_own_headers() -> None:
    queue = bee.Queue(MemoryBroker(), "jobs", SendEmail)
    policy = bee.Policy(timeout=None)

    draft = queue.draft(SendEmail(to="x"), policy=policy, headers={"trace": "1"})

    assert {"trace": "1", POLICY_HEADER: '{"timeout":null}'} == dict(draft.headers)


@given(policies)
def test_every_policy_arrives_as_it_was_sent(policy: bee.Policy) -> None:
    queue = bee.Queue(MemoryBroker(), "jobs", SendEmail)

    assert resolve(policy) == rules_of(queue, SendEmail(to="x"), policy=policy)


def test_a_timedelta_travels_as_seconds() -> None:
    queue = bee.Queue(MemoryBroker(), "jobs", SendEmail)
    policy = bee.Policy(timeout=timedelta(minutes=5))

    draft = queue.draft(SendEmail(to="x"), policy=policy)

    assert 300.0 == policy.timeout
    assert {POLICY_HEADER: '{"timeout":300.0}'} == dict(draft.headers)
    assert 300.0 == queue.rules(SendEmail, draft.headers).timeout


@pytest.mark.parametrize(
    "header",
    [
        "",
        "null",
        "[]",
        "not json",
        "{",
        '{"timeout":"soon"}',
        '{"timeout":-1}',
        '{"timeout":1e18}',
        '{"on_error":{"type":"escalate"}}',
        '{"on_error":{"type":"repeat"}}',
        '{"on_error":{"type":"repeat","times":-1}}',
        '{"on_error":{"type":"reschedule"}}',
        '{"on_success":{"type":"repeat","times":1}}',
        '{"on_interrupt":{"type":"repeat","times":1}}',
        '{"backoff":{"min":10,"max":1}}',
        '{"backoff":{"jitter":2}}',
        "[" * 100_000,
    ],
    ids=lambda header: header[:40],
)
def test_a_header_that_this_program_cannot_read_is_a_decode_error_not_a_default(
    header: str,
) -> None:
    queue = bee.Queue(MemoryBroker(), "jobs", SendEmail)

    with pytest.raises(bee.DecodeError, match="cannot read the policy it was sent with"):
        queue.rules(SendEmail, {POLICY_HEADER: header})


# What a policy takes.


@pytest.mark.parametrize(
    ("slot", "value", "takes"),
    [
        ("on_success", bee.Repeat(1), "Delete, Archive"),
        ("on_success", bee.Reschedule(), "Delete, Archive"),
        ("on_error", bee.Reschedule(), "Delete, Archive, Repeat"),
        ("on_timeout", bee.Reschedule(), "Delete, Archive, Repeat"),
        ("on_stall", bee.Reschedule(), "Delete, Archive, Repeat"),
        ("on_interrupt", bee.Repeat(1), "Delete, Archive, Reschedule"),
        ("backoff", bee.Repeat(1), "Backoff"),
        ("backoff", 5.0, "Backoff"),
        *(
            (slot, value, "")
            for slot in SLOTS
            for value in (None, "archive", 3, bee.Archive, bee.Policy(), object)
        ),
    ],
    ids=repr,
)
def test_a_strategy_in_the_wrong_slot_is_refused_at_run_time_too(
    slot: str, value: object, takes: str
) -> None:
    options: dict[str, Any] = {slot: value}

    with pytest.raises(bee.InvalidOption) as caught:
        bee.Policy(**options)

    assert f"Policy {slot} takes {takes}" in str(caught.value)


@pytest.mark.parametrize("times", [-1, 1.0, 1.5, True, "3", math.nan, math.inf, bee.Archive()])
def test_a_repeat_needs_a_whole_number_of_times_or_none(times: Any) -> None:
    with pytest.raises(bee.InvalidOption, match="number of times"):
        bee.Repeat(times)


@pytest.mark.parametrize("otherwise", [bee.Repeat(1), bee.Archive, None], ids=repr)
def test_a_repeat_ends_with_delete_or_archive_and_nothing_else(otherwise: Any) -> None:
    with pytest.raises(bee.InvalidOption, match="otherwise"):
        bee.Repeat(1, otherwise=otherwise)


def test_the_backoff_of_a_repeat_is_a_backoff() -> None:
    wrong: Any = 5.0

    with pytest.raises(bee.InvalidOption, match="backoff"):
        bee.Repeat(1, backoff=wrong)


@pytest.mark.parametrize("factor", [0, 0.99, -1, 1000.1, math.nan, math.inf])
def test_the_factor_of_a_backoff_has_a_range(factor: float) -> None:
    with pytest.raises(bee.InvalidOption, match="Backoff factor must be between 1 and 1000"):
        bee.Backoff(factor=factor)


@pytest.mark.parametrize("jitter", [-0.1, 1.1, math.nan, math.inf])
def test_the_jitter_of_a_backoff_has_a_range(jitter: float) -> None:
    with pytest.raises(bee.InvalidOption, match="Backoff jitter must be between 0 and 1"):
        bee.Backoff(jitter=jitter)


@pytest.mark.parametrize(("name", "value"), [("factor", "2"), ("jitter", None), ("jitter", True)])
def test_the_numbers_of_a_backoff_are_numbers(name: str, value: object) -> None:
    options: dict[str, Any] = {name: value}

    with pytest.raises(bee.InvalidOption, match=f"Backoff {name}"):
        bee.Backoff(**options)


def test_the_longest_delay_of_a_backoff_is_not_shorter_than_the_shortest() -> None:
    with pytest.raises(bee.InvalidOption, match=r"max \(1 s\) is shorter than its min \(5 s\)"):
        bee.Backoff(min=5, max=1)


def test_front_and_delay_exclude_each_other() -> None:
    with pytest.raises(bee.InvalidOption, match="leave out the delay"):
        bee.Reschedule(5, front=True)


def test_what_is_no_policy_is_refused_by_send() -> None:
    queue = bee.Queue(MemoryBroker(), "jobs", SendEmail)
    wrong: Any = bee.Repeat(3)

    with pytest.raises(bee.InvalidOption, match="policy"):
        queue.draft(SendEmail(to="x"), policy=wrong)


def test_what_is_no_policy_is_refused_by_a_queue() -> None:
    wrong: Any = bee.Repeat(3)

    with pytest.raises(bee.InvalidOption, match="policy"):
        bee.Queue(MemoryBroker(), "jobs", SendEmail, policy=wrong)


def test_what_is_no_policy_is_refused_by_a_job_class() -> None:
    wrong: Any = bee.Repeat(3)

    with pytest.raises(bee.InvalidOption, match="policy"):

        class Wrong(bee.Job, policy=wrong):
            pass


def test_policies_and_strategies_are_values() -> None:
    assert bee.Policy(timeout=5) == bee.Policy(timeout=5.0)
    assert hash(bee.Repeat(3, bee.Delete())) == hash(bee.Repeat(3, bee.Delete()))
    assert bee.Repeat(3) != bee.Repeat(3, bee.Delete())
    with pytest.raises(AttributeError):
        bee.Policy().timeout = 5  # type: ignore[misc]
    with pytest.raises(AttributeError):
        bee.Repeat(3).times = 5  # type: ignore[misc]


@given(policies)
def test_a_policy_is_written_as_json_and_read_back(policy: bee.Policy) -> None:
    assert policy == msgspec.json.decode(msgspec.json.encode(policy), type=bee.Policy)
