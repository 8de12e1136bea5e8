"""The meter that `Auto` reads unless it is given another one."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from bee_core import meter
from bee_core.meter import LoopMeter


async def read_while(work: float, turns: int) -> meter.Reading:
    """What it reads after the loop was held up for so many seconds in so many turns."""
    subject = LoopMeter()
    sampling = asyncio.create_task(subject.run())
    for _ in range(turns):
        await asyncio.sleep(0.001)
        end = time.thread_time() + work
        while time.thread_time() < end:
            pass
    sampling.cancel()
    return subject.read()


async def test_a_loop_that_is_held_up_is_late() -> None:
    assert (await read_while(0.1, 6)).lag >= 0.02


async def test_a_busy_loop_uses_its_processor() -> None:
    """Others may take some of it away, but not nearly all."""
    assert (await read_while(0.02, 20)).cpu >= 0.1


async def test_without_samples_nothing_is_late() -> None:
    assert 0.0 == LoopMeter().read().lag


async def test_a_single_pause_is_no_lag() -> None:
    subject = LoopMeter()
    subject._lags.extend([0.001, 0.002, 0.5, 0.001])

    assert (0.002, 0.0) == (subject.read().lag, subject.read().lag)


async def burn(seconds: float) -> None:
    program = f"import time\nwhile time.process_time() < {seconds}: pass"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    await child.wait()


async def test_what_children_use_counts_while_they_run_and_after_they_have_ended() -> None:
    before = meter._family()
    burning = asyncio.create_task(burn(0.5))
    while meter._family() < before + 0.3:
        assert not burning.done()
        await asyncio.sleep(0.01)
    await burning

    cut = 0.02  # times of user and system are whole ticks, of a hundredth
    assert meter._family() > before + 0.5 - cut


def sample(*, at: float, family: float = 0.0, busy: int = 0) -> meter._Sample:
    return meter._Sample(at, 0.0, family, busy, int(at * 100), None)


@pytest.mark.parametrize(
    ("busy", "runnable", "needed"),
    [
        (50, 9, 0.4),  # of two processors, in a machine that has some left
        (100, 1, 0.4),
        (100, 3 * meter._ALL, 1.2),
    ],
)
def test_where_all_processors_are_busy_more_is_needed_than_is_used(
    busy: int, runnable: int, needed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = LoopMeter()
    subject._cores, subject._runnable = 2, [runnable]
    subject._last = sample(at=1.0)
    after = sample(at=2.0, family=0.8, busy=busy)
    monkeypatch.setattr(meter._Sample, "take", lambda: after)

    assert needed == pytest.approx(subject.read().cpu)


def test_where_there_is_no_proc_the_process_is_all_there_is_to_see(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_file(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", no_file)
    monkeypatch.setattr(meter.os, "listdir", no_file)
    subject = LoopMeter()
    time.sleep(0.01)

    assert 0.0 <= subject.read().cpu <= 1.5


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
