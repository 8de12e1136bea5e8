"""Every contender has a header and says what it is; a worker's lines are understood."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from benchmarks.contender import PROGRAMS, STORES, Contender, Trouble, Worker
from benchmarks.environments import dependencies, version
from benchmarks.results import Entry

CONTENDERS = sorted(p for store in STORES for p in PROGRAMS.glob(f"{store}_*.py"))
ENTRY = Entry(name="memory_fake", title="fake", version="1", about="")

TALKER = """
import os, sys, time
for line in ("words of a library", "up", "done 3 1.5", "done 7 2.5", "late 0.25", "began 3.0"):
    print(line, flush=True)
time.sleep(600)
"""


def worker(folder: Path, program: str) -> Worker:
    file = folder / "fake.py"
    file.write_text(program)
    return Worker(Contender(ENTRY, file, Path(sys.executable)), "memory://", {})


@pytest.mark.parametrize("program", CONTENDERS, ids=lambda program: program.stem)
def test_a_contender_pins_what_it_needs_and_says_what_it_is(program: Path) -> None:
    text = program.read_text(encoding="utf-8")
    wanted = dependencies(text)

    assert wanted
    assert all(re.match(r"bee-jobs\[|[\w.-]+(\[[\w,-]+\])?==\d", one) for one in wanted), wanted
    assert version(wanted)
    assert len(text.split('"""')[1].split()) > 2


def test_the_lines_of_a_worker_are_understood_and_it_is_killed(tmp_path: Path) -> None:
    running = worker(tmp_path, TALKER)
    try:
        running.wait_up()
        assert running.began.wait(10)
        running.check()
    finally:
        running.kill()

    assert ([(3, 1.5), (7, 2.5)], 7, [0.25]) == (running.done, running.count(), running.late)
    with pytest.raises(Trouble):
        running.check()


def test_a_worker_that_ends_is_noticed_with_its_last_words(tmp_path: Path) -> None:
    running = worker(tmp_path, "raise SystemExit('no luck')")
    try:
        with pytest.raises(Trouble, match="no luck"):
            while True:
                running.wait_up()
                time.sleep(0.01)
    finally:
        running.kill()
