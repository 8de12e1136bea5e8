"""A page is read as its reader reads it, and a wrong page fails."""

from __future__ import annotations

import os
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from tests.acceptance import shell
from tests.acceptance.page import Command, File, pattern, steps
from tests.acceptance.shell import Disagrees, Shell

PAGE = """
<!-- run -->
```bash
echo one && echo two
```

```python
# hello.py
print("hello")
```

```python
no file, no step
```

```console
$ echo three
three
$ export WHERE=here
$ (sleep 0.1; echo $WHERE) &
here
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    return page


def test_a_page_has_files_and_commands_in_their_order(page: Path) -> None:
    assert [
        Command(4, "echo one && echo two", None),
        File("hello.py", '# hello.py\nprint("hello")\n'),
        Command(17, "echo three", "three\n"),
        Command(19, "export WHERE=here", ""),
        Command(20, "(sleep 0.1; echo $WHERE) &", "here\n"),
    ] == steps(page)


def test_commands_share_a_shell_and_the_background_is_waited_for(
    page: Path, tmp_path: Path
) -> None:
    with Shell(tmp_path, os.environ) as bash:
        seen = [bash.type(step) for step in steps(page) if isinstance(step, Command)]

    assert ["one\ntwo\n", "three\n", "", "here\n"] == seen
    assert 4 == bash.commands


@pytest.mark.parametrize(
    ("words", "shows"),
    [
        ("echo two", "one\n"),
        ("echo one; echo two", "one\n"),
        ("true", "one\n"),
        ("echo one", ""),
        ("echo one; false", "one\n"),
        ("no-such-command", ""),
        ("exit 3", ""),
    ],
)
def test_what_a_page_does_not_show_is_a_failure(
    words: str, shows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "ATTENTION", 0.2)

    with Shell(tmp_path, os.environ) as bash, pytest.raises(Disagrees, match="line 1"):
        bash.type(Command(1, words, shows))


def test_what_was_left_in_the_background_is_killed_with_the_shell(tmp_path: Path) -> None:
    with Shell(tmp_path, os.environ) as bash:
        pid = int(bash.type(Command(1, "sleep 1000 & echo $!", None)))
        left = psutil.Process(pid)

    left.wait(timeout=10)
    assert not left.is_running()


@pytest.mark.parametrize(
    ("shows", "seen"),
    [
        ("at 2026-11-16 12:04:36+00:00\n", "at 2031-01-02 03:04:05-09:30\n"),
        ("12:04:31.548 INFO\n", "23:59:59.999 INFO\n"),
        ("by host:4711:7bb3afa56dc4, for 5.0 s\n", "by my.vm-1:1:aaaaaaaaaaaa, for 12.3 s\n"),
        ("pid=1 (a+b)\n", "pid=222 (a+b)\n"),
        ("one\n...\nfour\n", "one\ntwo\nthree\nfour\n"),
        ("one\n...\nfour\n", "one\nfour\n"),
    ],
)
def test_what_differs_from_reader_to_reader_is_left_open(shows: str, seen: str) -> None:
    assert pattern(shows).fullmatch(seen)


@pytest.mark.parametrize(
    ("shows", "seen"),
    [
        ("attempt 1\n", "attempt 2\n"),
        ("12:04:31.548 INFO\n", "12:04:31.548 ERROR\n"),
        ("one\n...\nfour\n", "one\ntwo\n"),
        ("a.b\n", "axb\n"),
    ],
)
def test_what_does_not_differ_is_not(shows: str, seen: str) -> None:
    assert not pattern(shows).fullmatch(seen)
