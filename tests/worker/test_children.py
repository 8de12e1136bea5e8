"""The pool of child processes by itself: reuse, limits, kills, crashes, and what comes back."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from bee_core import child
from bee_core.attempt import describe
from bee_core.parent import ChildDied
from bee_core.processes import ChildExited, NotHandedOver, Processes

from . import in_children as do
from .support import alive, children, pid_in, until

LONG = 60.0
"""Seconds that no test takes: what waits for that hangs."""


@pytest.fixture
async def pool() -> AsyncIterator[Processes]:
    before = children()
    pool = Processes(2, patience=LONG)
    yield pool
    await pool.aclose()
    await until(lambda: children() <= before)


async def stop(call: asyncio.Task[Any]) -> None:
    """Cancel a call and wait for its end."""
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(call, 10)


# Reuse and limits.


async def test_a_child_is_used_again(pool: Processes) -> None:
    pids = {await pool.run(os.getpid) for _ in range(5)}

    assert 1 == len(pids)
    assert os.getpid() not in pids


async def test_as_many_run_at_once_as_there_may_and_the_others_wait(
    pool: Processes, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    before = children()
    calls = [asyncio.create_task(pool.run(do.wait_for, str(go))) for _ in range(5)]
    await until(lambda: len(children() - before) == 2)
    await asyncio.sleep(0.05)

    assert 2 == len(children() - before)
    go.touch()
    assert 2 == len(set(await asyncio.gather(*calls)))


async def test_its_size_may_be_changed_while_calls_wait(pool: Processes, tmp_path: Path) -> None:
    go, before = tmp_path / "go", children()
    calls = [asyncio.create_task(pool.run(do.wait_for, str(go))) for _ in range(5)]
    await until(lambda: len(children() - before) == 2)

    pool.size = 3
    await until(lambda: len(children() - before) == 3)
    pool.size = 1
    go.touch()
    await asyncio.gather(*calls)

    await until(lambda: len(children() - before) == 1)


async def test_a_call_that_is_cancelled_while_it_waits_holds_nobody_up(
    pool: Processes, tmp_path: Path
) -> None:
    pool.size = 1
    first = asyncio.create_task(pool.run(do.wait_for, str(tmp_path / "go")))
    await asyncio.sleep(0)
    second = asyncio.create_task(pool.run(do.add, 1, 2))
    third = asyncio.create_task(pool.run(do.add, 3, 4))
    await asyncio.sleep(0)
    second.cancel()
    (tmp_path / "go").touch()

    assert 7 == await third
    await first


@pytest.mark.parametrize("size", [0, 10_000_000])
async def test_what_is_handed_over_may_be_large(pool: Processes, size: int) -> None:
    assert size == await pool.run(do.size, bytes(size))
    assert bytes(size) == await pool.run(do.zeros, size)


# Kills.


@pytest.mark.parametrize("function", [do.sleep, do.sleep_in_c])
async def test_a_child_whose_call_is_cancelled_is_dead_when_that_has_ended(
    pool: Processes, tmp_path: Path, function: Callable[[str], None]
) -> None:
    call = asyncio.create_task(pool.run(function, str(tmp_path / "pid")))
    pid = await pid_in(tmp_path / "pid")
    await stop(call)

    assert not psutil.pid_exists(pid)


async def test_after_a_kill_a_new_child_stands_ready(pool: Processes, tmp_path: Path) -> None:
    before = children()
    call = asyncio.create_task(pool.run(do.sleep, str(tmp_path / "pid")))
    killed = await pid_in(tmp_path / "pid")
    await stop(call)

    await until(lambda: len(children() - before) == 1)
    (ready,) = children() - before
    assert killed != ready == await pool.run(os.getpid)


async def test_a_child_may_clean_up_when_it_is_told_to_stop(
    pool: Processes, tmp_path: Path
) -> None:
    call = asyncio.create_task(pool.run(do.clean_up_at_sigterm, str(tmp_path / "pid")))
    pid = await pid_in(tmp_path / "pid")
    await stop(call)

    assert (tmp_path / "pid.clean").exists()
    assert not psutil.pid_exists(pid)


async def test_a_child_that_returns_when_it_is_told_to_stop_ends_too(
    pool: Processes, tmp_path: Path
) -> None:
    call = asyncio.create_task(pool.run(do.return_at_sigterm, str(tmp_path / "pid")))
    pid = await pid_in(tmp_path / "pid")
    await stop(call)

    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize("function", [do.sleep_deaf_to_sigterm, do.sleep_in_c_deaf_to_sigterm])
async def test_a_child_that_ignores_the_first_signal_is_killed_by_the_second(
    pool: Processes, tmp_path: Path, function: Callable[[str], None]
) -> None:
    call = asyncio.create_task(pool.run(function, str(tmp_path / "pid")))
    pid = await pid_in(tmp_path / "pid")
    call.cancel()
    await asyncio.wait({call}, timeout=0.1)
    assert alive(pid)
    assert not call.done()

    await stop(call)
    await until(lambda: not alive(pid))


async def test_a_child_that_ignores_the_first_signal_is_killed_when_the_patience_is_over(
    tmp_path: Path,
) -> None:
    pool = Processes(1, patience=0.2)
    call = asyncio.create_task(pool.run(do.sleep_deaf_to_sigterm, str(tmp_path / "pid")))
    pid = await pid_in(tmp_path / "pid")
    await stop(call)

    assert not psutil.pid_exists(pid)
    await pool.aclose()


@pytest.mark.parametrize("then", ["sleep", "hold on", "crash"])
async def test_what_a_child_has_started_dies_with_it(
    pool: Processes, tmp_path: Path, then: str
) -> None:
    call = asyncio.create_task(pool.run(do.start_a_program, str(tmp_path / "pid"), then))
    grandchild = await pid_in(tmp_path / "pid")
    call.cancel()
    with suppress(asyncio.CancelledError, ChildDied):
        await asyncio.wait_for(call, 10)

    await until(lambda: not alive(grandchild))


async def test_what_a_child_has_started_is_left_alone_as_long_as_the_child_lives(
    pool: Processes, tmp_path: Path
) -> None:
    grandchild = await pool.run(do.start_a_program, str(tmp_path / "pid"))
    await pool.run(do.add, 1, 2)
    assert alive(grandchild)

    await pool.aclose()
    await until(lambda: not alive(grandchild))


async def test_what_makes_a_session_of_its_own_outlives_the_child(
    pool: Processes, tmp_path: Path
) -> None:
    arguments = (str(tmp_path / "pid"), "sleep", True)
    call = asyncio.create_task(pool.run(do.start_a_program, *arguments))
    grandchild = await pid_in(tmp_path / "pid")
    await stop(call)

    assert alive(grandchild)
    os.kill(grandchild, signal.SIGKILL)


async def test_closing_kills_what_runs(pool: Processes, tmp_path: Path) -> None:
    call = asyncio.create_task(pool.run(do.sleep_deaf_to_sigterm, str(tmp_path / "pid")))
    pid = await pid_in(tmp_path / "pid")
    pool.close()

    with pytest.raises(ChildDied, match="killed by SIGKILL"):
        await call
    assert not psutil.pid_exists(pid)
    with pytest.raises(RuntimeError, match="closed"):
        await pool.run(do.add, 1, 2)


# Crashes.


@pytest.mark.parametrize(
    ("how", "why"),
    [("exit", "exit code 7"), ("SIGSEGV", "killed by SIGSEGV"), ("SIGKILL", "killed by SIGKILL")],
)
async def test_a_crash_is_the_end_of_its_own_call_alone(
    pool: Processes, tmp_path: Path, how: str, why: str
) -> None:
    other = asyncio.create_task(pool.run(do.wait_for, str(tmp_path / "go")))
    with pytest.raises(ChildDied, match=f"the process that ran the handler died: {why}"):
        await pool.run(do.die, how)

    (tmp_path / "go").touch()
    await other
    assert 3 == await pool.run(do.add, 1, 2)


async def test_an_idle_child_that_dies_is_replaced_without_a_word(pool: Processes) -> None:
    before = children()
    for _ in range(5):
        os.kill(await pool.run(os.getpid), signal.SIGKILL)
        assert 3 == await pool.run(do.add, 1, 2)  # the pool may know, or find out by this
    os.kill(pid := await pool.run(os.getpid), signal.SIGKILL)
    await until(lambda: not psutil.pid_exists(pid))

    assert 3 == await pool.run(do.add, 1, 2)
    assert 1 == len(children() - before)


async def test_a_call_whose_child_died_before_it_had_begun_is_run_by_another(
    pool: Processes,
) -> None:
    stopped = await pool.run(os.getpid)
    os.kill(stopped, signal.SIGSTOP)  # so that it does not read its call
    call = asyncio.create_task(pool.run(os.getpid))
    await asyncio.sleep(0.05)
    assert not call.done()
    os.kill(stopped, signal.SIGKILL)

    assert stopped != await call


async def test_an_interpreter_that_cannot_be_started_is_an_error_of_the_call(
    pool: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(FileNotFoundError, match="/nowhere/python"):
            await pool.run(do.add, 1, 2)

    assert 3 == await pool.run(do.add, 1, 2)


async def test_a_child_that_dies_at_its_start_is_an_error_of_the_call(
    pool: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/false")
        with pytest.raises(ChildDied, match="exit code 1"):
            await pool.run(do.add, 1, 2)

    assert 3 == await pool.run(do.add, 1, 2)


@pytest.mark.parametrize("how", ["closes its wire", "closes its wire and returns"])
async def test_a_child_that_closes_its_wire_is_given_up(pool: Processes, how: str) -> None:
    with pytest.raises(ChildDied):
        await pool.run(do.misbehave, how)

    assert 3 == await pool.run(do.add, 1, 2)


async def test_a_child_that_writes_to_its_wire_is_given_up(pool: Processes) -> None:
    with pytest.raises(ChildDied, match="wrote to its connection"):
        await pool.run(do.misbehave, "writes to its wire")

    assert 3 == await pool.run(do.add, 1, 2)


@pytest.mark.parametrize(
    "how",
    [
        "forks and returns twice",
        "forks and raises once",
        "logs in a fork",
        "goes elsewhere",
        "leaves a thread",
        "closes its streams",
        "leaks memory",
    ],
)
async def test_a_child_may_do_what_it_likes_to_itself(pool: Processes, how: str) -> None:
    pid = await pool.run(do.misbehave, how)

    assert pid == await pool.run(os.getpid)
    assert 3 == await pool.run(do.add, 1, 2)


# What comes back.


async def test_an_error_comes_back_as_itself_with_where_it_was_raised(pool: Processes) -> None:
    with pytest.raises(ValueError, match="no way") as caught:
        await pool.run(do.fail, "plainly")

    text = describe(caught.value)
    assert "in_children.py" in text
    assert "KeyError: 'deep inside'" in text
    assert text.endswith("ValueError: no way\n")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("awkward", "Awkward: ab .*missing 1 required positional argument"),
        ("unpicklable", "ValueError: with a lock .*cannot pickle '_thread.lock' object"),
    ],
)
async def test_an_error_that_cannot_be_handed_over_is_told_in_words(
    pool: Processes, how: str, said: str
) -> None:
    with pytest.raises(NotHandedOver, match=said) as caught:
        await pool.run(do.fail, how)

    assert "in fail" in describe(caught.value)


async def test_an_error_without_a_text_comes_back(pool: Processes) -> None:
    with pytest.raises(do.Unspeakable):
        await pool.run(do.fail, "unspeakable")


async def test_a_result_that_cannot_be_handed_over_is_an_error(pool: Processes) -> None:
    with pytest.raises(NotHandedOver, match=r"of type lock, .*cannot pickle"):
        await pool.run(do.a_lock)
    with pytest.raises(NotHandedOver, match="LookupError: not in process"):
        await pool.run(do.only_here)


async def test_a_call_that_cannot_be_handed_over_is_an_error_here(pool: Processes) -> None:
    before = children()
    with pytest.raises(NotHandedOver, match="<lambda> or its arguments cannot be pickled"):
        await pool.run(lambda: None)
    with pytest.raises(NotHandedOver, match="add or its arguments cannot be pickled"):
        await pool.run(do.add, 1, lambda: 2)

    assert before == children()


async def test_sys_exit_is_an_error_of_the_call_and_the_child_lives_on(pool: Processes) -> None:
    pid = await pool.run(os.getpid)
    with pytest.raises(ChildExited, match=r"sys.exit\('enough'\)"):
        await pool.run(do.leave_by_sys_exit)

    assert pid == await pool.run(os.getpid)


async def test_what_it_prints_is_printed(
    pool: Processes, capfd: pytest.CaptureFixture[str]
) -> None:
    await pool.run(do.speak, "hello")

    out, err = capfd.readouterr()
    assert ["hello", "raw hello", "program hello"] == out.splitlines()
    assert "hello\n" == err


async def test_what_it_prints_before_it_is_killed_is_printed(
    pool: Processes, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ChildDied):
        await pool.run(do.print_and_die, "last words")

    assert "last words\n" == capfd.readouterr().out


async def test_what_it_logs_is_handled_here(
    pool: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "shop"):
        pid = await pool.run(do.write_to_the_log)

    records = [record for record in caplog.records if record.name == "shop.orders"]
    info, warning, error = records
    assert ("3 orders", (3,), "Ghent") == (info.message, info.args, getattr(info, "shop", None))
    assert {pid} == {record.process for record in records}
    assert warning.message.startswith("a lock: <unlocked _thread.lock")
    assert "ValueError: no way" in (error.exc_text or "")


async def test_what_it_logs_below_the_level_that_holds_here_now_is_dropped(
    pool: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "shop"):
        await pool.run(do.write_to_the_log)
    caplog.clear()
    with caplog.at_level(logging.ERROR, "shop"):
        await pool.run(do.write_to_the_log)

        assert ["failed"] == [record.message for record in caplog.records]


# Programs.

PROGRAM = """
import asyncio, os, signal, sys, time
from bee_core.processes import Processes
from tests.worker import in_children as do

class Odd(Exception):
    pass

class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

def swap(pair):
    return Pair(pair.b, pair.a)

def fail():
    raise Odd("of main")
"""
ROOT = Path(__file__).parents[2]


def start(path: Path, body: str, *command: str) -> subprocess.Popen[str]:
    path.write_text(PROGRAM + dedent(body))
    return subprocess.Popen(
        [sys.executable, *(command or [str(path)])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=path.parent,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


SWAPS = """
async def main():
    pool = Processes(1)
    pair = await pool.run(swap, Pair(1, 2))
    print(type(pair) is Pair, pair.a, pair.b)
    try:
        await pool.run(fail)
    except Odd as error:
        print(repr(error))
    await pool.aclose()
"""
GUARDED = SWAPS + '\nif __name__ == "__main__":\n    asyncio.run(main())\n'


@pytest.mark.parametrize("way", ["a file", "a file without suffix", "a module", "a package"])
async def test_functions_and_classes_of_the_main_module_are_found(tmp_path: Path, way: str) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    match way:
        case "a file":
            program = start(tmp_path / "app.py", GUARDED)
        case "a file without suffix":
            program = start(tmp_path / "app", GUARDED)
        case "a module":
            (package / "near.py").touch()
            body = "\nfrom . import near\n" + GUARDED
            path = package / "app.py"
            path.write_text(PROGRAM + body)
            program = start(tmp_path / "unused", "", "-m", "shop.app")
        case _:
            (package / "__main__.py").write_text(PROGRAM + GUARDED)
            program = start(tmp_path / "unused", "", "-m", "shop")
    out, err = await asyncio.to_thread(program.communicate, timeout=30)

    assert ("True 2 1\nOdd('of main')\n", "") == (out, err)


async def test_a_main_module_that_starts_when_it_is_imported_is_told_so(tmp_path: Path) -> None:
    program = start(tmp_path / "app.py", SWAPS + "\nasyncio.run(main())\n")
    _, err = await asyncio.to_thread(program.communicate, timeout=30)

    assert "put the start under `if __name__" in err
    assert "NotHandedOver: a child cannot read its call: RuntimeError" in err


async def test_a_main_module_that_no_call_needs_is_not_imported(tmp_path: Path) -> None:
    body = """
    print("imported")
    if __name__ == "__main__":
        pool = Processes(1)
        async def main():
            print(await pool.run(do.add, 1, 2))
            await pool.aclose()
        asyncio.run(main())
    """
    program = start(tmp_path / "app.py", body)
    out, _ = await asyncio.to_thread(program.communicate, timeout=30)

    assert "imported\n3\n" == out


async def test_nobody_outlives_a_program_that_is_killed(tmp_path: Path) -> None:
    """A child that is idle, one held up in C with a program of its own, one deaf to signals."""
    body = """
    async def main():
        pool = Processes(4)
        here = os.path.dirname(os.path.abspath(__file__))
        calls = [
            pool.run(do.start_a_program, here + "/grandchild", "hold on"),
            pool.run(do.sleep_deaf_to_sigterm, here + "/deaf"),
            pool.run(do.sleep_in_c, here + "/held"),
        ]
        calls = [asyncio.ensure_future(call) for call in calls]
        do.leave(here + "/idle", await pool.run(os.getpid))
        if (fork := os.fork()) == 0:
            time.sleep(1000)
        do.leave(here + "/fork", fork)
        await asyncio.gather(*calls)

    if __name__ == "__main__":
        asyncio.run(main())
    """
    program = start(tmp_path / "app.py", body)
    try:
        names = ["grandchild", "deaf", "held", "idle"]
        pids = {name: await pid_in(tmp_path / name, patience=20) for name in names}
        fork = await pid_in(tmp_path / "fork")
        family = {child.pid for child in psutil.Process(program.pid).children()} - {fork}
        assert 4 == len(family)
        assert all(alive(pid) for pid in pids.values())
    finally:
        program.kill()
    try:
        assert alive(fork)
        await until(lambda: not any(alive(pid) for pid in family | set(pids.values())))
    finally:
        os.kill(fork, signal.SIGKILL)
        program.communicate()


async def test_where_the_kernel_cannot_kill_orphans_a_thread_of_the_child_does() -> None:
    ours, theirs = socket.socketpair()
    life, end = os.pipe()
    program = f"""if True:
        import fcntl, runpy
        del fcntl.F_SETSIG
        runpy.run_path({child.__file__!r}, run_name="__main__")
    """
    command = [sys.executable, "-c", program, str(theirs.fileno()), str(life)]
    process = subprocess.Popen(  # noqa: ASYNC220
        command, pass_fds=(theirs.fileno(), life), start_new_session=True, cwd="/"
    )
    theirs.close()
    os.close(life)
    await until(lambda: psutil.Process(process.pid).num_threads() == 2)
    os.close(end)

    assert -signal.SIGKILL == await asyncio.to_thread(process.wait, 10)
    ours.close()


async def test_a_program_that_just_ends_leaves_nobody(tmp_path: Path) -> None:
    body = """
    async def main():
        print(await Processes(1).run(os.getpid), flush=True)

    if __name__ == "__main__":
        asyncio.run(main())
    """
    program = start(tmp_path / "app.py", body)
    out, _ = await asyncio.to_thread(program.communicate, timeout=30)

    await until(lambda: not alive(int(out)))


@pytest.mark.skipif(sys.platform != "linux", reason="only there a process can stand in for init")
async def test_the_first_process_of_a_container_keeps_no_zombies(tmp_path: Path) -> None:
    body = """
    async def main():
        ctypes.CDLL(None).prctl(36, *map(ctypes.c_ulong, (1, 0, 0, 0)))  # a child subreaper
        pool = Processes(1)
        path = os.path.dirname(os.path.abspath(__file__)) + "/grandchild"
        call = asyncio.ensure_future(pool.run(do.start_a_program, path, "sleep"))
        while not os.path.exists(path):
            await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.wait({call})
        await asyncio.sleep(1000)

    if __name__ == "__main__":
        import ctypes
        asyncio.run(main())
    """
    program = start(tmp_path / "app.py", body)
    try:
        grandchild = await pid_in(tmp_path / "grandchild", patience=20)
        await until(lambda: not psutil.pid_exists(grandchild))
    finally:
        program.kill()
        program.communicate()
