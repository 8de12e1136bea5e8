"""`bee cron`: the schedules of a program, and what the store knows of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, assert_never

import click
import msgspec
from cronsim import CronSim

from bee_core.broker import Store
from bee_core.cli.asking import ask, json_option, print_json
from bee_core.cli.examples import examples
from bee_core.cli.loading import WrongUse, load_hive
from bee_core.cli.selecting import NotThere
from bee_core.cli.tables import table, terminal_width
from bee_core.cli.words import one_line, span
from bee_core.errors import DecodeError
from bee_core.explain import when
from bee_core.hive import Hive
from bee_core.hive_queue import HiveQueue
from bee_core.ids import new_id
from bee_core.schedule import Plan
from bee_core.stored import State, Stored
from bee_core.ticks import Declared, plan_of
from bee_core.timing import Cron, Every, Timing

_NEXT = 3
_TITLES = ("name", "queue", "when", "next", "last tick", "state")


class Kept(msgspec.Struct, frozen=True):
    """A schedule that a program declares, and what the store has of it."""

    queue: str
    declared: Declared
    stored: Stored | None

    @property
    def plan(self) -> Plan | None:
        """What is planned; None if nothing is, or nothing that can be read here."""
        try:
            return None if self.stored is None else plan_of(self.stored.body)
        except DecodeError:
            return None


@click.group(
    short_help="The schedules of a program.",
    epilog=examples(
        "bee cron list shop.jobs:hive           when is what, and is it planned?",
        "bee cron run shop.jobs:hive nightly    do it once now",
    ),
)
def cron() -> None:
    """The schedules of a program: when they are next, what the store knows of them.

    \b
    Exit codes:
      0  fine
      1  there is no such schedule
      2  wrong use: no such module, hive, option
      3  the store does not answer, or refuses
    """
