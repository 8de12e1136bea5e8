"""Who is measured, and how often."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bench import Bench, Found
from benchmarks.contender import Contender, Trouble
from benchmarks.results import Entry

RATES = {
    "redis_bee": 10.0,
    "redis_swift": 1000.0,
    "redis_fair": 400.0,
    "redis_slow": 200.0,
    "pg_sole": 1.0,
}


def bench() -> Bench:
    entries = [Entry(name=n, title=n.partition("_")[2], version="1", about="") for n in RATES]
    contenders = [Contender(entry, Path("program"), Path("python")) for entry in entries]
    return Bench(contenders=contenders, rounds=3, scale=1.0)


def test_a_peer_far_behind_the_fastest_of_its_store_is_measured_once() -> None:
    run = bench()

    run.in_rounds("drain", run.contenders, lambda one: Found({"rate": RATES[one.name]}))

    times = {name: sum(sample.contender == name for sample in run.samples) for name in RATES}
    assert times == dict.fromkeys(RATES, 3) | {"redis_slow": 1}


def test_who_is_first_in_one_round_is_last_in_the_next() -> None:
    run = bench()

    run.in_rounds("pick-up", run.contenders[:2], lambda one: Found({"p50": 1.0}), 2)

    order = ["redis_bee", "redis_swift", "redis_swift", "redis_bee"]
    assert order == [sample.contender for sample in run.samples]


def test_those_that_are_compared_are_measured_next_to_each_other() -> None:
    run = bench()

    run.in_rounds("drain", run.contenders, lambda one: Found({"rate": RATES[one.name]}), 2)

    order = ["redis_swift", "redis_fair", "redis_bee", "pg_sole"]
    assert order == [sample.contender for sample in run.samples if sample.round == 1]


def test_bee_and_the_two_fastest_peers_have_more_rounds() -> None:
    run = bench()

    run.in_duels("pick-up", run.contenders, lambda one: Found({"p50": 1 / RATES[one.name]}))

    times = {name: sum(sample.contender == name for sample in run.samples) for name in RATES}
    assert times == dict.fromkeys(RATES, 6) | {"redis_slow": 1}


def test_what_a_contender_cannot_do_is_found_once_and_trouble_every_time() -> None:
    run = bench()

    def measure(contender: Contender) -> Found:
        raise Trouble("unsupported: no" if contender.name == "redis_swift" else "it fell over")

    run.in_rounds("drain", run.contenders[:2], measure)

    problems = [(sample.contender, sample.problem) for sample in run.samples]
    assert 3 == problems.count(("redis_bee", "it fell over"))
    assert 1 == problems.count(("redis_swift", "unsupported: no"))


def test_the_fastest_peer_of_a_store_comes_with_ours() -> None:
    run = bench()
    run.in_rounds("drain", run.contenders, lambda one: Found({"rate": RATES[one.name]}), 1)

    assert ["redis_bee", "redis_swift"] == [one.name for one in run.fastest("redis")]
