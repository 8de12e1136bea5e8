"""The program of a child: a fresh interpreter that runs functions for its parent, one at a time.

`parent.py` runs this file by its path, so nothing of bee is imported before a job asks for
it. What both must know of the wire between them stands here: frames, each a kind and a payload.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import pickle
import signal
import struct
import sys
import threading
import traceback
import types
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypedDict

HEADER = struct.Struct("<cQ")
"""What a frame begins with: its kind, and the length of its payload."""

SETUP, CALL = b"S", b"C"
"""What the parent sends: once a Setup, then calls, each a function with its arguments."""

BEGUN, RESULT, ERROR, EXIT, LOG = b"B", b"R", b"E", b"X", b"L"
"""What the child sends: that it has the call; how it ended, in one of three ways; log records."""

MAIN = "__mp_main__"
"""The name of the parent's main module in a child: the one that multiprocessing gives it."""

LOADING = "__bee_loading__"
"""What the main module has while a child imports it."""

_FRAMES = 50


class Setup(TypedDict):
    """What a child is told first."""

    path: list[str]
    argv: list[str]
    main: tuple[str | None, str | None]
    """The main module of the parent: its name if it was run with -m, and its file."""
    modules: list[str]
    """What to import at once, because calls will want it."""
    levels: dict[str, int]
    """The levels of the parent's loggers; "" is the root."""
    disabled: int


class Fault(TypedDict):
    """What a child tells of an error."""

    error: bytes | None
    """The exception, pickled, if it can be."""
    text: str
    """It in one line; or what went wrong, if there is no exception to hand over."""
    trace: str


class Wire:
    """The child's end of the socket. Any thread may send."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.RLock()  # a signal handler may log while something is sent

    def send(self, kind: bytes, payload: bytes) -> None:
        unsent = memoryview(HEADER.pack(kind, len(payload)) + payload)
        with self._lock:
            while unsent:
                unsent = unsent[os.write(self._fd, unsent) :]

    def receive(self) -> bytes | None:
        """The payload of the next frame; None when the parent wants no more."""
        header = self._read(HEADER.size)
        return None if header is None else self._read(HEADER.unpack(header)[1])

    def _read(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            more = os.read(self._fd, min(size - len(data), 1 << 20))
            if not more:
                return None
            data += more
        return bytes(data)


class Forwarder(logging.Handler):
    """Hands log records to the parent, which has the handlers."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire
        self._pid = os.getpid()

    def emit(self, record: logging.LogRecord) -> None:
        if os.getpid() != self._pid:  # a fork: the wire is not its own
            if logging.lastResort is not None:
                logging.lastResort.handle(record)
            return
        try:
            self._wire.send(LOG, self._packed(record))
        except Exception:
            self.handleError(record)

    def _packed(self, record: logging.LogRecord) -> bytes:
        fields = dict(record.__dict__)
        if record.exc_info:  # a traceback cannot be pickled
            fields["exc_text"] = record.exc_text or _trace(record.exc_info[1])
            fields["exc_info"] = None
        try:
            return pickle.dumps(fields)
        except Exception:
            plain = {key: _plain(value) for key, value in fields.items()}
            return pickle.dumps(plain | {"msg": record.getMessage(), "args": None})


class Main(types.ModuleType):
    """Stands for the parent's main module, which is imported when somebody looks into it."""

    def __init__(self, name: str | None, path: str | None) -> None:
        super().__init__("__main__")
        self._origin = name, path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(load_main(*self._origin), name)


def load_main(name: str | None, path: str | None) -> types.ModuleType:
    """Import the parent's main module under another name, so that it does not start again."""
    module = types.ModuleType(MAIN)
    code: types.CodeType | None = None
    if name is not None:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            module.__spec__, module.__package__ = spec, spec.parent
            code = spec.loader.get_code(name)  # type: ignore[attr-defined]
    elif path is not None:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec")
    if code is None:
        raise AttributeError("the main module has no file that a child could import")
    module.__file__ = path
    before = sys.modules["__main__"]
    sys.modules["__main__"] = sys.modules[MAIN] = module
    setattr(module, LOADING, True)
    try:
        exec(code, module.__dict__)  # noqa: S102
    except BaseException:
        sys.modules["__main__"] = before
        raise
    delattr(module, LOADING)
    return module


def answer(payload: bytes) -> tuple[bytes, bytes]:
    """Run a call. Return the frame that tells how it ended."""
    try:
        function, args = pickle.loads(payload)  # noqa: S301
    except BaseException as error:
        return _fault(None, f"a child cannot read its call: {_line(error)}", error)
    try:
        result = function(*args)
    except SystemExit as error:
        return EXIT, f"sys.exit({error.code!r})".encode(errors="replace")
    except BaseException as error:
        try:
            packed = pickle.dumps(error)
        except Exception as why:
            text = f"{_line(error)} (which cannot be handed over itself: {_line(why)})"
            return _fault(None, text, error)
        return _fault(packed, _line(error), error)
    try:
        return RESULT, pickle.dumps(result)
    except Exception as error:
        kind = type(result).__qualname__
        text = f"the result, of type {kind}, cannot be handed over: {_line(error)}"
        return _fault(None, text, error)


def main() -> None:
    wire = Wire(int(sys.argv[1]))
    _prepare(int(sys.argv[1]), int(sys.argv[2]))
    first = wire.receive()
    if first is None:
        return
    _set_up(pickle.loads(first), wire)  # noqa: S301
    own = os.getpid()
    while (payload := wire.receive()) is not None:
        wire.send(BEGUN, b"")
        kind, told = answer(payload)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # it was closed, replaced, or nobody reads it any more
                stream.flush()
        if os.getpid() != own:  # the function has forked and come back twice
            os._exit(kind != RESULT)
        wire.send(kind, told)


def _prepare(wire: int, life: int) -> None:
    for fd in (wire, life):
        os.set_inheritable(fd, False)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _die_with_parent(life)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _die_with_parent(life: int) -> None:
    """See to it that the end of the parent, by whatever cause, is that of this whole group.

    Nobody writes to the pipe `life`; it ends with the parent. Linux can send a signal to a group
    for that, so it works while this interpreter is held up in C, and reaches grandchildren.
    """
    import fcntl

    try:
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    except (AttributeError, OSError):  # not Linux
        threading.Thread(target=_wait_for_end, args=(life,), daemon=True).start()
        return
    with suppress(BlockingIOError):  # raised as long as the parent lives
        _wait_for_end(life)


def _wait_for_end(life: int) -> None:
    os.read(life, 1)
    os.killpg(0, signal.SIGKILL)


def _set_up(setup: Setup, wire: Wire) -> None:
    sys.path[:], sys.argv[:] = setup["path"], setup["argv"]
    sys.modules["__main__"] = Main(*setup["main"])
    logging.disable(setup["disabled"])
    for name, level in setup["levels"].items():
        logging.getLogger(name).setLevel(level)
    logging.getLogger().addHandler(Forwarder(wire))
    for name in setup["modules"]:
        with suppress(Exception):  # the call that wants it will say what is wrong
            if name == "__main__":
                load_main(*setup["main"])
            else:
                importlib.import_module(name)


def _fault(packed: bytes | None, text: str, error: BaseException) -> tuple[bytes, bytes]:
    return ERROR, pickle.dumps(Fault(error=packed, text=text, trace=_trace(error)))


def _trace(error: BaseException | None) -> str:
    return _safely(lambda: "".join(traceback.format_exception(error, limit=-_FRAMES)).rstrip())


def _line(error: BaseException) -> str:
    return f"{type(error).__qualname__}: {_safely(lambda: str(error))}"


def _safely(text: Callable[[], str]) -> str:
    try:
        return text()
    except Exception as error:  # of a __str__ that raises
        return f"(its text cannot be had: {type(error).__name__})"


def _plain(value: object) -> object:
    simple = value is None or isinstance(value, str | int | float | bool)
    return value if simple else _safely(lambda: repr(value))


if __name__ == "__main__":
    main()
