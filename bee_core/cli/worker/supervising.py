"""Several processes of `bee worker`, or one that is started again when its code changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bee_core.cli.common.errors import WrongUse
from bee_core.cli.worker.options import Options
from bee_core.cli.worker.working import (
    NOT_IN_MEMORY,
    file_outbox,
    heartbeat_file,
    metrics_observers,
    usage,
)
from bee_core.config import broker_url
from bee_core.events import Observer
from bee_core.logs import configure_logging
from bee_core.service.exits import Exit
from bee_core.service.reload import Reloader, Watch
from bee_core.service.supervisor import Listener, Supervisor
from bee_core.service.wire import Told


def supervise(options: Options) -> Exit:
    """Have others work, and watch over them. The program is never loaded here."""
    configure_logging(options.log, options.log_level.upper())
    with usage():
        in_memory = options.url is not None and broker_url(options.url).startswith("memory:")
        if in_memory and not options.alone:
            raise WrongUse(NOT_IN_MEMORY)
        file = heartbeat_file(options)
        listeners = [_heard_by(observer) for observer in metrics_observers(options)]
        outbox = file_outbox(options, -1)
    if outbox is not None:
        listeners.append(outbox.take)

    def supervisor() -> Supervisor:
        return Supervisor(
            options.command,
            options.processes or 1,
            until_empty=options.until_empty,
            listeners=listeners,
            heartbeat_file=file,
            environment=options.environment(),
        )

    try:
        return asyncio.run(_run(supervisor, options))
    finally:
        if outbox is not None:
            outbox.close()


async def _run(supervisor: Callable[[], Supervisor], options: Options) -> Exit:
    if options.reload:
        return await Reloader(supervisor, Watch.of_program(options.target)).run()
    return await supervisor().run()


def _heard_by(observer: Observer) -> Listener:
    def listener(told: Told) -> None:
        observer(told.event)

    return listener
