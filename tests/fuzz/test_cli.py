"""Arguments of the command line: an answer or a sentence, never a traceback."""

from __future__ import annotations

import random
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bee_core.cli import COMMANDS, main
from tests.servers import RedisServer

ENDLESS = {"worker", "top", "demo", "chaos"}
"""Commands that go on until they are stopped, or whose work is not to be done by chance."""
FINITE = sorted(COMMANDS.keys() - ENDLESS)
WORDS = (
    *("", "q", "Q", "a:b", "*", "'; drop table message --", "\x1b[31m", "x" * 300, "\N{HONEYBEE}"),
    *("0", "-1", "1e999", "nan", "99999999999999999999", "1d", "-", "--", "@", "{", "[1", "null"),
    *("redis://127.0.0.1:1", "postgresql://[", "nothing://", "no.such:thing", "/dev/null", ".."),
    *("--help", "--json", "--yes", "--limit", "--url", "--nothing", "-x", "-h", "failed", "ready"),
)


def arguments(chance: random.Random) -> list[str]:
    """A command, some of its own options, and words that belong to no command."""
    name = chance.choice(FINITE)
    command = main.get_command(click.Context(main), name)
    assert command is not None
    given = [name]
    if isinstance(command, click.Group):
        given.append(chance.choice([*command.list_commands(click.Context(command)), "nothing"]))
        command = command.get_command(click.Context(command), given[-1]) or command
    options = [flag for p in command.params if isinstance(p, click.Option) for flag in p.opts]
    for _ in range(chance.randrange(5)):
        given.append(
            chance.choice(options) if options and chance.random() < 0.4 else chance.choice(WORDS)
        )
    return given


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_typed_there_is_an_answer_and_no_traceback(
    seed: int, valkey: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chance, runner = random.Random(seed), CliRunner()
    environment = {"BEE_URL": f"{valkey.url}?prefix=cli{seed}&deadline=1"}
    for _ in range(60):
        given = arguments(chance)
        result = runner.invoke(main, given, env=environment, input="")

        ended = result.exception is None or isinstance(result.exception, SystemExit)
        assert ended, f"bee {given}: {result.exception!r}"
        assert "Traceback" not in result.output, f"bee {given}: {result.output}"
