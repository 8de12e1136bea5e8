"""From a URL to a broker: who answers to it, and what is never shown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import bee_core as bee
from bee_core.registry import backend
from bee_core.url import Url, redact
from bee_memory import MemoryBroker

SECRET = "s3cr3t"


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty directory and no variable, so that only the test says where the broker is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BEE_URL", raising=False)


# From a URL to a broker.


def test_memory_is_a_memory_broker() -> None:
    assert isinstance(bee.connect("memory://"), MemoryBroker)
    assert isinstance(bee.connect("MEMORY://"), MemoryBroker)


async def test_connect_gives_an_async_context_manager_that_closes_the_broker() -> None:
    async with bee.connect("memory://") as broker:
        assert [] == list(await broker.queues())

    with pytest.raises(bee.BrokerClosed):
        await broker.queues()


async def test_an_unnamed_memory_is_a_store_of_its_own_and_a_named_one_is_shared() -> None:
    one, two = bee.connect("memory://"), bee.connect("memory://")
    red, same, blue = (bee.connect(f"memory://{name}") for name in ("red", "red", "blue"))

    for broker in (one, red):
        await broker.send("jobs", [bee.Draft("a", b"")])

    assert ([], ["jobs"], []) == (
        list(await two.queues()),
        list(await same.queues()),
        list(await blue.queues()),
    )


async def test_the_parameters_of_a_url_reach_the_broker() -> None:
    broker = bee.connect("memory://?max_length=1")
    await broker.send("jobs", [bee.Draft("a", b"")])

    with pytest.raises(bee.BrokerFull):
        await broker.send("jobs", [bee.Draft("b", b"")])


@pytest.mark.parametrize("url", ["foo://host", "", "memory", "://", "foo", "/tmp/x", "foo:bar"])
def test_an_unknown_scheme_is_an_error_that_lists_the_known_ones(url: str) -> None:
    with pytest.raises(bee.UnknownScheme) as caught:
        bee.connect(url)

    assert "known schemes: " in str(caught.value)
    assert "memory://" in str(caught.value)


def test_an_unknown_parameter_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(bee.InvalidOption) as caught:
        bee.connect("memory://?max_length=5&timeout=3&colour=red")

    assert "unknown URL parameter: colour, timeout (memory knows: max_length)" == str(caught.value)


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", "", "1e3", "%C2%B2", "+1", "1_0"])
def test_a_number_in_a_url_is_a_whole_number(value: str) -> None:
    with pytest.raises(bee.InvalidOption, match="max_length must be a whole number from 1"):
        bee.connect(f"memory://?max_length={value}")


def test_a_number_in_a_url_of_more_than_4300_digits_is_refused_like_any_other() -> None:
    with pytest.raises(bee.InvalidOption, match="max_length"):
        bee.connect("memory://?max_length=" + "9" * 5000)


def test_a_parameter_that_is_given_twice_is_refused() -> None:
    with pytest.raises(bee.InvalidOption, match="max_length"):
        bee.connect("memory://?max_length=1&max_length=2")


@pytest.mark.parametrize(
    ("text", "expected"), [("1", True), ("true", True), ("YES", True), ("0", False), ("no", False)]
)
def test_a_flag_in_a_url_is_yes_or_no(text: str, expected: bool) -> None:
    assert expected is Url(f"x://?ssl={text}").flag("ssl")


@pytest.mark.parametrize("text", ["", "2", "maybe", "on"])
def test_any_other_flag_is_refused(text: str) -> None:
    with pytest.raises(bee.InvalidOption, match="ssl must be 1 or 0"):
        Url(f"x://?ssl={text}").flag("ssl")


@pytest.mark.parametrize(("text", "expected"), [("5", 5.0), ("0.5", 0.5), ("1e2", 100.0)])
def test_seconds_in_a_url_are_a_number(text: str, expected: float) -> None:
    assert expected == Url(f"x://?timeout={text}").number("timeout")


@pytest.mark.parametrize("text", ["", "soon", "nan", "inf", "-1", "1e18", "5s"])
def test_any_other_seconds_are_refused_by_name(text: str) -> None:
    with pytest.raises(bee.InvalidOption, match="URL parameter timeout must be"):
        Url(f"x://?timeout={text}").number("timeout")


def test_a_parameter_that_is_not_given_is_none() -> None:
    url = Url("x://")

    assert [None] * 4 == [url.string("a"), url.integer("b"), url.number("c"), url.flag("d")]
    url.finish()


def test_a_third_party_registers_a_scheme_with_an_entry_point_that_is_loaded_when_it_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    info = tmp_path / "beehive_broker-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: beehive-broker\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[bee.brokers]\nbeehive = beehive_broker:HiveBroker\n")
    (tmp_path / "beehive_broker.py").write_text(
        "from bee_memory import MemoryBroker\nclass HiveBroker(MemoryBroker): pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(bee.UnknownScheme, match=r"beehive://, memory://"):
        bee.connect("other://")
    assert "beehive_broker" not in sys.modules

    broker = bee.connect("beehive://somewhere")

    assert "HiveBroker" == type(broker).__name__
    assert type(broker) is backend("beehive")
    monkeypatch.delitem(sys.modules, "beehive_broker")


# Passwords.


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost/0", "redis://localhost/0"),
        ("redis://ada@localhost/0", "redis://ada@localhost/0"),
        (f"redis://ada:{SECRET}@localhost:6379/0", "redis://ada:***@localhost:6379/0"),
        (f"redis://:{SECRET}@localhost/0?a=b", "redis://:***@localhost/0?a=b"),
        ("redis://ada:@localhost", "redis://ada:***@localhost"),
        (f"redis://ada:{SECRET}@[::1]:6379", "redis://ada:***@[::1]:6379"),
        (f"redis://ada:{SECRET}@a,b:2,c", "redis://ada:***@a,b:2,c"),
        (f"redis://a@b:{SECRET}@c", "redis://a@b:***@c"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert shown == redact(url)
    assert f"Url({shown!r})" == repr(Url(url))


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://localhost/db?password={SECRET}",
        f"redis+sentinel://localhost/db?sentinel_password={SECRET}",
        f"redis://ada:{SECRET}/x@localhost",
        f"redis://ada:{SECRET}#x@localhost",
        f"redis://ada:{SECRET}?x@localhost",
        f"redis:/ada:{SECRET}@localhost",
        f"ada:{SECRET}@localhost",
        f"redis://ada:{SECRET}@[localhost",
    ],
)
def test_a_password_in_an_odd_place_is_not_shown_either(url: str) -> None:
    assert SECRET not in redact(url)


@pytest.mark.parametrize(
    "url",
    [
        f"foo://ada:{SECRET}@localhost",
        f"memory://ada:{SECRET}@localhost?colour=red",
        f"memory://ada:{SECRET}@localhost?max_length=x",
        f"memory://localhost?secret={SECRET}",
        f"redis://ada:{SECRET}@[localhost",
        f"redis://ada:{SECRET}@localhost\u2100",
        f"postgresql://ada:{SECRET}%zz@localhost",
        f"postgresql://localhost?password=%00{SECRET}",
    ],
)
def test_no_error_shows_a_password(url: str) -> None:
    with pytest.raises(bee.BeeError) as caught:
        bee.connect(url)

    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value.__cause__)


def test_a_hive_is_shown_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"redis://ada:{SECRET}@localhost/0"

    assert "<Hive of no queues on redis://ada:***@localhost/0>" == repr(bee.Hive(url))

    monkeypatch.setenv("BEE_URL", url)

    assert "<Hive of no queues on redis://ada:***@localhost/0>" == repr(bee.Hive())


def test_a_memory_broker_says_that_it_keeps_nothing() -> None:
    assert "<MemoryBroker: keeps nothing when this process ends>" == repr(MemoryBroker())


async def test_a_hive_finds_its_broker_when_it_first_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hive = bee.Hive()
    monkeypatch.setenv("BEE_URL", "foo://nowhere")

    with pytest.raises(bee.UnknownScheme):
        _ = hive.broker

    monkeypatch.setenv("BEE_URL", "memory://")

    assert isinstance(hive.broker, MemoryBroker)


def test_a_hive_takes_a_url_or_a_broker_but_not_both() -> None:
    with pytest.raises(bee.InvalidOption, match="a url or a broker, not both"):
        bee.Hive("memory://", broker=MemoryBroker())


def test_a_hive_can_be_shown_even_if_its_settings_cannot_be_read() -> None:
    Path("bee.toml").write_text("url = ")

    assert "Hive" in repr(bee.Hive())


@pytest.mark.parametrize(
    ("url", "rest"),
    [
        ("postgresql:///shop?schema=jobs", "postgresql:///shop"),
        ("postgresql://?schema=jobs", "postgresql://"),
        ("postgresql:///?schema=jobs&host=/run", "postgresql:///?host=/run"),
        ("postgresql://ada@/shop?schema=jobs", "postgresql://ada@/shop"),
        ("postgresql://db/shop?host=a&schema=jobs&port=1", "postgresql://db/shop?host=a&port=1"),
    ],
)
def test_a_url_without_some_parameters_leads_to_the_same_place(url: str, rest: str) -> None:
    assert rest == Url(url).without("schema")


def test_an_empty_url_is_called_empty() -> None:
    with pytest.raises(bee.UnknownScheme, match="no broker for a URL that is empty"):
        bee.connect("")
