"""The line between workers and server, in a process of its own: its connections break at random."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from pathlib import Path

from bee_core.cli.chaos.proxy import Fault, Proxy, no_fault, some_fault
from tests.chaos.ledger import Ledger
from tests.chaos.workers import fork
from tests.servers import free_port


class Line:
    """A proxy in front of a port. What happens there is written down."""

    def __init__(self, port: int, directory: Path, *, seed: int, longest: float) -> None:
        self.port = free_port()
        self._pid = fork(lambda: _lead(self.port, port, directory, seed, longest))
        self._happened: Counter[str] = Counter()
        self._read = 0
        self._ledger = directory / f"{self._pid}.ledger"

    def happened(self) -> Counter[str]:
        """Faults until now, by their kind."""
        if self._ledger.exists():
            with self._ledger.open("rb") as file:
                file.seek(self._read)
                new = file.read()
            self._read += len(new)
            self._happened.update(line.split()[1].decode() for line in new.splitlines())
        return self._happened

    def calm(self) -> None:
        """From now on nothing happens to connections any more."""
        os.kill(self._pid, signal.SIGUSR1)

    def end(self) -> None:
        """There is no line any more."""
        os.kill(self._pid, signal.SIGTERM)
        os.waitpid(self._pid, 0)


async def _lead(port: int, to: int, directory: Path, seed: int, longest: float) -> None:
    chance, ledger = random.Random(seed), Ledger(directory)

    def fate() -> Fault:
        return some_fault(chance, longest=longest)

    def tell(fault: Fault) -> None:
        ledger.write("fault", fault.kind.replace(" ", "-"), fault.after)

    def calm() -> None:
        proxy.fate = no_fault
        proxy.end_all()

    proxy = Proxy("127.0.0.1", to, fate=fate, tell=tell)
    proxy.port = port
    await proxy.start()
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, calm)
    loop.add_signal_handler(signal.SIGTERM, over.set)
    await over.wait()
    await proxy.cut()
