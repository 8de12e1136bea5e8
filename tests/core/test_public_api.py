"""The shop window: what `import bee_core as bee` offers."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import pytest

import bee_core as bee

FIXED = (
    "Job Hive Policy Repeat Delivery Update Worker Queue connect Codec "
    "Delete Archive Reschedule Keep Reject Backoff "
    "ArchiveStrategy ErrorStrategy TimeoutStrategy StallStrategy "
    "Draft Lease Receipt Settlement Disposition Outcome Event decide "
    "Retry Snooze PermanentError BeeError Broker Inspector Sent"
)
MODULES = [
    "bee_core",
    "bee_core.events",
    "bee_core.explain",
    "bee_core.logs",
    "bee_core.opentelemetry",
    "bee_core.prometheus",
    "bee_core.scaling",
    "bee_core.service.wire",
    "bee_core.testing",
    "bee_memory",
]


def test_everything_that_is_offered_is_there_and_nothing_else() -> None:
    offered = [
        name
        for name, value in vars(bee).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    ]

    assert sorted(offered) == bee.__all__


@pytest.mark.parametrize("name", FIXED.split(" "))
def test_the_names_that_users_rely_on_exist(name: str) -> None:
    assert name in bee.__all__


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (bee.Hive, "queue run working stop aclose broker __aenter__ __aexit__"),
        (bee.HiveQueue, "handler on on_failure send send_many draft cancel"),
        (bee.Queue, "send send_many draft cancel decode rules result group cancel_where explain"),
        (bee.Worker, "run working stop"),
        (bee.Delivery, "id queue attempt counters token then run_in_process remaining"),
        (bee.Delivery, "key progress group awaits reports results from_thread"),
        (bee.Result, "id ok note value"),
        (bee.Broker, "send lease extend settle cancel wait clone aclose __aenter__ __aexit__"),
        (bee.Broker, "results reports announce"),
        (
            bee.Inspector,
            "queues stats get scan restore prune purge drop pause resume adopt expel workers",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_methods_that_users_rely_on_exist(owner: type, names: str) -> None:
    assert [] == [name for name in names.split() if not hasattr(owner, name)]


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (bee.Queue.send, "id delay at priority policy headers if_taken key"),
        (bee.Queue.draft, "id delay at priority policy headers if_taken key"),
        (bee.Queue.group, "jobs then id timeout priority policy headers key"),
        (bee.Queue.result, "id timeout type"),
        (bee.Hive.run, "until_empty"),
        (bee.Hive, "observers tracing"),
        (bee.Worker, "observers tracing"),
        (bee.Queue, "tracing"),
        (bee.Hive.queue, "policy throttle concurrency precedence share size"),
        (bee.Hive, "concurrency capacity"),
        (bee.Auto, "min max start cpu lag every meter"),
        (bee.Policy, "timeout on_success on_error on_timeout on_stall on_interrupt backoff"),
        (bee.Policy, "keep_result"),
        (bee.Throttle, "per_key rate key_rate"),
        (bee.Rate, "times per"),
        (bee.Repeat, "times otherwise backoff"),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_the_options_that_users_rely_on_exist(function: object, options: str) -> None:
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]

    assert [] == [name for name in options.split() if name not in parameters]


@pytest.mark.parametrize("name", MODULES)
def test_the_modules_that_users_rely_on_exist(name: str) -> None:
    importlib.import_module(name)


@pytest.mark.parametrize(
    "name", [name for name in bee.__all__ if inspect.isclass(getattr(bee, name))]
)
def test_every_class_says_what_it_is_for(name: str) -> None:
    assert getattr(bee, name).__doc__


@pytest.mark.parametrize(
    "name", [name for name in bee.__all__ if inspect.isfunction(getattr(bee, name))]
)
def test_every_function_says_what_it_does(name: str) -> None:
    assert getattr(bee, name).__doc__
