"""Functions that the tests of the pool run in child processes. They must be importable there."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

log = logging.getLogger("shop.orders")


def leave(path: str, text: object = "") -> None:
    """Write a file so that it is there with its text or not at all."""
    Path(path + ".new").write_text(str(text))
    Path(path + ".new").rename(path)


def add(first: int, second: int) -> int:
    return first + second


def size(data: bytes) -> int:
    return len(data)


def zeros(size: int) -> bytes:
    return bytes(size)


def wait_for(path: str) -> int:
    while not os.path.exists(path):
        time.sleep(0.005)
    return os.getpid()


def sleep(path: str) -> None:
    """Sleep for long after leaving the process id."""
    leave(path, os.getpid())
    time.sleep(1000)


def sleep_in_c(path: str) -> None:
    """Sleep in C with the interpreter's lock held, so that no Python code can run at all."""
    leave(path, os.getpid())
    ctypes.PyDLL(None).sleep(1000)


def sleep_in_c_deaf_to_sigterm(path: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleep_in_c(path)


def sleep_deaf_to_sigterm(path: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleep(path)


def clean_up_at_sigterm(path: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop"))
    try:
        sleep(path)
    finally:
        leave(path + ".clean")


def return_at_sigterm(path: str) -> str:
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    leave(path, os.getpid())
    while not told.wait(0.01):
        pass
    return "late"


def start_a_program(path: str, then: str = "return", new_session: bool = False) -> int:
    """Start a program that sleeps for long, leave its process id, and go on as told."""
    program = subprocess.Popen(["sleep", "1000"], start_new_session=new_session)
    leave(path, program.pid)
    if then == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if then == "hold on":
        ctypes.PyDLL(None).sleep(1000)
    while then == "sleep":
        time.sleep(1)
    return program.pid


def die(how: str) -> None:
    if how == "exit":
        os._exit(7)
    os.kill(os.getpid(), getattr(signal, how))


def leave_by_sys_exit() -> None:
    sys.exit("enough")


def speak(text: str) -> None:
    print(text)  # noqa: T201
    print(text, file=sys.stderr)  # noqa: T201
    os.write(1, f"raw {text}\n".encode())
    subprocess.run(["echo", f"program {text}"], check=True)


def print_and_die(text: str) -> None:
    print(text)  # noqa: T201
    os._exit(1)


def write_to_the_log() -> int:
    log.debug("not this")
    log.info("%d orders", 3, extra={"shop": "Ghent"})
    log.warning("a lock: %s", threading.Lock())
    try:
        raise ValueError("no way")
    except ValueError:
        log.exception("failed")
    return os.getpid()


class Awkward(Exception):
    """Pickles, but cannot be made again from that."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def fail(how: str) -> None:
    if how == "awkward":
        raise Awkward("a", "b")
    if how == "unpicklable":
        error = ValueError("with a lock")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error
    if how == "unspeakable":
        raise Unspeakable
    try:
        raise KeyError("deep inside")
    except KeyError as error:
        raise ValueError("no way") from error


def a_lock() -> object:
    return threading.Lock()


class OnlyHere:
    """Can be pickled in the child, and not be unpickled in the parent."""

    def __reduce__(self) -> tuple[object, ...]:
        return _in_process, (os.getpid(),)


def _in_process(pid: int) -> OnlyHere:
    raise LookupError(f"not in process {pid}")


def only_here() -> OnlyHere:
    return OnlyHere()


def misbehave(how: str) -> int:
    match how:
        case "closes its wire":
            os.closerange(3, 1000)
            time.sleep(1000)
        case "closes its wire and returns":
            os.closerange(3, 1000)
        case "writes to its wire":
            for fd in _sockets():
                os.write(fd, b"hello, this is not for you" * 10)
            time.sleep(1000)
        case "forks and returns twice":
            os.fork()
        case "forks and raises once":
            if os.fork() == 0:
                raise ValueError("in the fork")
        case "logs in a fork":
            pid = os.fork()
            log.warning("x" * 100_000)
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
        case "goes elsewhere":
            os.chdir("/")
        case "leaves a thread":
            threading.Thread(target=time.sleep, args=(1000,)).start()
        case "closes its streams":
            sys.stdout.close()
            sys.stderr.close()
        case "leaks memory":
            _LEAK.append(bytes(10_000_000))
    return os.getpid()


def _sockets() -> list[int]:
    import stat

    fds = [int(fd) for fd in os.listdir("/dev/fd")]
    found = []
    for fd in fds:
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                found.append(fd)
        except OSError:
            continue
    return found


_LEAK: list[bytes] = []
