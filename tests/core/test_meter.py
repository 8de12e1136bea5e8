"""The meter that `Auto` reads unless it is given another one."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from bee_core import meter
from bee_core.meter import SAMPLE, LoopMeter


async def read_while(work: float) -> meter.Reading:
    """What it reads after the loop was held up for `work` seconds in every turn, for a while."""
    subject = LoopMeter()
    sampling = asyncio.create_task(subject.run())
    until = time.monotonic() + 8 * SAMPLE
    while time.monotonic() < until:
        await asyncio.sleep(0.001)
        end = time.thread_time() + work
        while time.thread_time() < end:
            pass
    sampling.cancel()
    return subject.read()


async def test_a_loop_that_is_held_up_is_late() -> None:
    assert (await read_while(0.1)).lag >= 0.02


async def test_a_busy_loop_uses_its_processor() -> None:
    """Others may take some of it away: but then the machine has none left."""
    assert (await read_while(0.02)).cpu >= 0.5


async def test_without_samples_nothing_is_late() -> None:
    assert 0.0 == LoopMeter().read().lag


async def test_a_single_pause_is_no_lag() -> None:
    subject = LoopMeter()
    subject._lags.extend([0.001, 0.002, 0.5, 0.001])

    assert 0.002 == subject.read().lag


def test_where_there_is_no_proc_nothing_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = LoopMeter()
    monkeypatch.setattr(meter, "_machine", lambda: (0, 0))
    subject._stat = (0, 0)

    assert 0.0 == subject._of_machine((0, 0), (0, 0))
    assert 0.0 <= subject.read().cpu <= 1.1


def test_a_saturated_machine_needs_as_much_as_wants_to_run() -> None:
    subject = LoopMeter()
    subject._cores = 2
    subject._running = [6, 6]

    assert 0.5 == subject._of_machine((0, 0), (50, 100))
    assert 3.0 == subject._of_machine((0, 0), (100, 100))


def test_a_limited_cgroup_is_measured_against_its_quota(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "cpu.stat").write_text("usage_usec 1000000\nthrottled_usec 0\n")
    before = meter._group(tmp_path)
    (tmp_path / "cpu.stat").write_text("usage_usec 1500000\nthrottled_usec 250000\n")
    after = meter._group(tmp_path)

    assert 1.5 == pytest.approx(meter._of_group(before, after, 1.0))


def test_a_cgroup_without_a_limit_is_none(tmp_path: Path) -> None:
    absent = meter._group(tmp_path)
    (tmp_path / "cpu.max").write_text("max 100000\n")

    assert (None, None) == (absent, meter._group(tmp_path))
    assert 0.0 == meter._of_group(None, None, 1.0)
