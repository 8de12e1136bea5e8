"""The pytest plugin as its users have it: whole test files, run by pytest."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

PLUGINS = ["-p", "bee_core.testing.plugin", "-p", "pytest_asyncio.plugin"]
SHOP = """
import bee_core as bee

class Charge(bee.Job):
    card: str

hive = bee.Hive()
charges = hive.queue("charges", Charge, policy=bee.Policy(on_error=bee.Repeat(3)))
book = []
paid = {}

@charges.handler
async def charge(job, delivery):
    if job.card == "careless":
        book.append(job.card)
    elif paid.get(delivery.id) is None:
        paid[delivery.id] = True
        book.append(job.card)
"""

TESTS = """
import pytest
from shop import Charge, book, charges, hive

@pytest.fixture(autouse=True)
def fresh():
    book.clear()

async def charge_once(bee_hive, card):
    async with bee_hive(hive) as bees:
        await charges.send(Charge(card))
        await bees.drain()
    assert book == [card]

async def test_unmarked(bee_hive):
    await charge_once(bee_hive, "careless")
"""


@pytest.fixture
def shop(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("BEE_URL", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # it takes longer than the tests
    pytester.makepyfile(shop=SHOP)
    pytester.makeini("[pytest]\nasyncio_mode = auto\naddopts = --strict-markers --strict-config\n")
    return pytester


def test_of(shop: pytest.Pytester, text: str, *arguments: str) -> pytest.RunResult:
    shop.makepyfile(test_shop=TESTS + text)
    return shop.runpytest_subprocess(*PLUGINS, *arguments)


test_of.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize("runs", ["twice", "killed"])
def test_the_marker_exposes_a_handler_that_acts_twice(shop: pytest.Pytester, runs: str) -> None:
    result = test_of(
        shop,
        f"""
@pytest.mark.bee(runs="{runs}")
async def test_careless(bee_hive):
    await charge_once(bee_hive, "careless")

@pytest.mark.bee(runs="{runs}")
async def test_careful(bee_hive):
    await charge_once(bee_hive, "careful")
""",
    )

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*assert*'careless', 'careless'*== *'careless'*"])
    result.stdout.fnmatch_lines(["FAILED test_shop.py::test_careless*"])


def test_of_several_there_is_a_test_for_each(shop: pytest.Pytester) -> None:
    result = test_of(
        shop,
        """
@pytest.mark.bee(runs=["once", "twice", "killed"])
class TestAll:
    async def test_careful(self, bee_hive):
        await charge_once(bee_hive, "careful")

    def test_something_else(self):
        pass

    @pytest.mark.bee(runs="once")
    async def test_closest_counts(self, bee_hive):
        await charge_once(bee_hive, "careless")

    @pytest.mark.parametrize("card", ["a", "b"])
    async def test_with_parameters(self, bee_hive, card):
        await charge_once(bee_hive, card)
""",
        "-v",
    )

    result.assert_outcomes(passed=1 + 3 + 1 + 1 + 6)
    result.stdout.fnmatch_lines(["*test_careful[[]killed[]] PASSED*"])


def test_the_setting_is_for_all_tests_that_do_not_say(shop: pytest.Pytester) -> None:
    result = test_of(
        shop,
        """
@pytest.mark.bee(runs="once")
async def test_marked(bee_hive):
    await charge_once(bee_hive, "careless")

async def test_says_so_itself(bee_hive):
    async with bee_hive(hive, runs="once") as bees:
        await charges.send(Charge("careless"))
        await bees.drain()
    assert book == ["careless"]
""",
        "-o",
        "bee_runs=once killed",
    )

    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["FAILED test_shop.py::test_unmarked[[]killed[]]*"])


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        ("bee('twice')", "@pytest.mark.bee takes runs and nothing else, as in *(runs='twice')"),
        ("bee(runs='twice', times=3)", "@pytest.mark.bee takes runs and nothing else*"),
        ("bee", "@pytest.mark.bee takes runs and nothing else*"),
        ("bee(runs='thrice')", "*runs must be one of 'once', 'twice', 'killed', not 'thrice'"),
        ("bee(runs=2)", "@pytest.mark.bee: *"),
        ("bee(runs=[])", "@pytest.mark.bee: say once, twice or killed*"),
        ("bee(runs=['twice', 'twice'])", "@pytest.mark.bee: say once, twice or killed*"),
    ],
)
def test_a_wrong_marker_is_told_in_a_sentence(
    shop: pytest.Pytester, marker: str, says: str
) -> None:
    result = test_of(shop, f"\n@pytest.mark.{marker}\nasync def test_marked(bee_hive):\n    pass\n")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([says])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*plugin.py*")


def test_a_wrong_setting_is_told_in_a_sentence(shop: pytest.Pytester) -> None:
    result = test_of(shop, "", "-o", "bee_runs=thrice")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["bee_runs: runs must be one of 'once', 'twice', 'killed', not*"])


def test_the_marker_is_listed(shop: pytest.Pytester) -> None:
    shop.runpytest_subprocess(*PLUGINS, "--markers").stdout.fnmatch_lines(
        ["@pytest.mark.bee(runs): *"]
    )


PLAIN = """
import asyncio
import pytest
from shop import Charge, book, charges, hive

@pytest.mark.bee(runs="killed")
def test_without_a_plugin(bee_hive, bee_clock):
    async def main():
        async with bee_hive(hive) as bees:
            await charges.send(Charge("careful"), delay=60)
            await bee_clock.advance(60)
    asyncio.run(main())
    assert book == ["careful"]

@pytest.mark.asyncio
async def test_in_strict_mode(bee_hive):
    book.clear()
    async with bee_hive(hive) as bees:
        await charges.send(Charge("careful"))
        await bees.drain()
    assert book == ["careful"]
"""


def test_the_fixtures_need_no_mode_of_pytest_asyncio(shop: pytest.Pytester) -> None:
    shop.makeini("[pytest]\nasyncio_mode = strict\n")
    shop.makepyfile(test_shop=PLAIN)

    shop.runpytest_subprocess(*PLUGINS).assert_outcomes(passed=2)


def test_the_fixtures_are_there_without_a_word_and_need_no_pytest_asyncio(
    shop: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    shop.makeini("[pytest]\n")
    shop.makepyfile(test_shop=PLAIN.partition("@pytest.mark.asyncio")[0])

    shop.runpytest_subprocess("-p", "no:asyncio").assert_outcomes(passed=1)
