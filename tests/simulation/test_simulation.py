"""Simulated runs: that they end well, that a seed replays exactly, that they have teeth."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.simulation.__main__ import play
from tests.simulation.cheap import cheap_texts
from tests.simulation.mutants import MUTANTS
from tests.simulation.world import World

SECONDS = 15.0

pytestmark = pytest.mark.timeout(600)
SEEDS_PER_MUTANT = 2000


def test_whatever_goes_wrong_every_job_ends_once_and_where_it_should() -> None:
    """As many seeds as fit; `python -m tests.simulation --seeds 100000` plays them all."""
    started, first, failed = time.process_time(), 0, dict[int, list[str]]()

    while time.process_time() - started < SECONDS and not failed and first < 3000:
        failed = play(first, 100).failed
        first += 100

    assert {} == failed, "python -m tests.simulation --seed N tells all of it"
    assert first >= 100


@pytest.mark.parametrize("seed", [3, 42, 514])
def test_a_seed_replays_exactly(seed: int) -> None:
    traces = []
    for _ in range(2):
        with cheap_texts():
            world = World(seed)
            world.run()
        traces.append((world.trace_hash, len(world.trace)))

    assert traces[0] == traces[1]
    assert traces[0][1] > 20


def test_a_seed_replays_exactly_in_another_process() -> None:
    program = "from tests.simulation.__main__ import main; main(['--seed', '42'])"
    root = Path(__file__).parents[2]
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hashing},
            cwd=root,
            capture_output=True,
            check=True,
        ).stdout
        for hashing in ("1", "2")
    }

    assert 1 == len(told)
    assert b"\ntrace " in told.pop()


@pytest.mark.parametrize("what", MUTANTS)
def test_a_planted_bug_is_found(what: str) -> None:
    with cheap_texts(), MUTANTS[what]():
        found = next((seed for seed in range(SEEDS_PER_MUTANT) if World(seed).run()), None)

    assert found is not None
