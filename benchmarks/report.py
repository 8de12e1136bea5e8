"""Writes what the last run found: the page about speed, its pictures, the table of the README.

    python -m benchmarks.report [RESULTS]

Only what is generated is written: the whole page, the pictures, and in the README what is between the marks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import tables
from benchmarks.drawing import Bar, Panel, draw
from benchmarks.goals import STORES, goals
from benchmarks.results import LATEST, Entry, Results, read

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "speed.md"
PICTURES = ROOT / "docs" / "pictures"
README = ROOT / "README.md"
KNOWN = {
    "redis": ("bee", "celery", "rq", "dramatiq", "arq", "taskiq stream", "saq"),
    "pg": ("bee", "procrastinate", "pgqueuer", "chancy"),
}
"""Who stands in the README."""
_BLOCK = re.compile(r"(?s)(<!-- speed -->\n).*?(<!-- end of speed -->)")


def page(results: Results) -> str:
    """docs/explanation/speed.md."""
    machine = results.machine
    aims = goals(results)
    met = sum(goal.is_met for goal in aims)
    servers = "; ".join(text for store, text in machine.servers.items() if store in STORES)
    lines = [
        "# How fast it is",
        "",
        "*This page is written by `python -m benchmarks.report` from `benchmarks/results/latest.json`.*",
        "",
        f"Measured {results.date}, in {results.minutes:.0f} minutes, by `{results.command}`: {machine.processors}"
        f" processors ({machine.model}), {machine.kernel}, Python {machine.python}; {servers}.",
        "Rates belong to the machine; compare those of one table. Small figures say how far the rounds were apart.",
        "",
        "## What we aim at",
        "",
        f"{met} of {len(aims)} goals are met in this run. Who counts as a worker that survives a kill is [measured, too](#when-a-worker-is-killed).",
        "",
        *tables.kept(results),
        "",
    ]
    for store, name in STORES.items():
        lines += [
            f"## {name}",
            "",
            *tables.rates(results, store),
            "",
            *tables.costs(results, store),
            "",
        ]
        if store == "redis":
            lines += ["![Jobs drained a second](../pictures/drain.svg)", ""]
    lines += _particulars(results)
    lines += _how(results)
    return "\n".join(lines)


def _particulars(results: Results) -> list[str]:
    return [
        "![Jobs sent a second](../pictures/send.svg)",
        "",
        "## In memory",
        "",
        "No server and no network: what bee itself costs.",
        "",
        *tables.rates(results, "memory"),
        "",
        "## Handlers that wait",
        "",
        "Each job waits 5 ms. What waiting allows is what a bare loop on uvloop does that only waits, with so many"
        " tasks, measured in turns with the others; when the worker process uses a whole processor, or worker and"
        " server together use all there are, that is the limit instead.",
        "",
        *[
            line
            for store, name in STORES.items()
            for line in (f"On {name}:", "", *tables.waiting(results, store), "")
        ],
        "## In front of many others",
        "",
        "A drain while many other jobs wait behind, and while few do; in turns, on two servers. The cost is the"
        " processor time of worker and server together.",
        "",
        *tables.crowds(results, "backlog"),
        "",
        "The same with many jobs that are due tomorrow, and with none:",
        "",
        *tables.crowds(results, "delayed"),
        "",
        "## Many worker processes",
        "",
        "Each has done some jobs before, so that what a new connection costs once is not counted. In the last row nobody"
        " has anything to do with anybody else: so much is the machine's, which has fewer processors than there are"
        " processes.",
        "",
        *tables.contention(results),
        "",
        "## When a worker is killed",
        "",
        "A worker is killed in the middle of a job, and another one is started at once. All have the settings with"
        " which they were measured above.",
        "",
        *tables.kills(results),
        "",
    ]


def _how(results: Results) -> list[str]:
    excluded = tables.no_workers(results)
    return [
        "## How it is measured",
        "",
        "```bash",
        f"{results.command} && python -m benchmarks.report",
        "```",
        "",
        "- Every contender is a program in `benchmarks/contenders/`, with pinned versions and the settings that its own"
        " documentation calls the best, crash-safe where it has the choice; its docstring says which. Each runs in an"
        " environment of its own. bee has uvloop, a log on INFO and 100 jobs at once, and otherwise its defaults.",
        "- *The limit* is a loop written by hand for each store: ids sent once, any number of queues, leases that end and"
        " are taken over and prolonged, tokens that grow, deliveries counted, ordered by priority and due time; one task"
        " for each job, batches of 100, one script or statement for a batch, no library around it. It has less to do than"
        " a library: nothing is counted but deliveries, a failed job is repeated when its lease ends, nothing is archived"
        " or can be cancelled, and a batch is settled when the last of its jobs has ended.",
        "- Every measurement has a new server, on the same machine. PostgreSQL has been vacuumed and has its statistics."
        " A job is about 200 bytes of JSON, its handler does nothing.",
        "- Contenders take turns, round by round, those next to each other that are about equally fast; a peer with less"
        " than 30 % of the speed of the fastest one is measured once, and where one contender is compared with another,"
        " bee, the limit and the two fastest peers have three rounds more (nine, when jobs are sent one by one). The ratio of two contenders is the middle one"
        " of those of the rounds: within one the machine is about equally fast for both. The number of jobs is such that a measurement"
        " takes seconds. A rate is"
        " that from the first report of a worker to the last, so starting up counts for nothing; of several processes,"
        " that while all are at work.",
        "- *Send in batches* is the fastest way that a library documents: a call for many, or many calls at once.",
        "- *Pick-up* is from the call of send to the handler, jobs sent one at a time to an idle worker.",
        "- *Messages to the server* are what Redis reads, with however many commands in it.",
        *([f"- {excluded} runs no handlers: it is compared for sending only."] if excluded else []),
        f"- {tables.noise(results)}",
        "",
    ]


def readme(results: Results, text: str) -> str:
    """The README, with its table of today."""
    rows = []
    for store, name in STORES.items():
        for entry in _known(results, store):
            cells = [tables.cell(results, w, entry.name, f).partition(" <")[0] for w, f in _SHOWN]
            rows.append([tables.title(entry), name, *cells, tables.after_kill(results, entry.name)])
    head = [
        "",
        "store",
        "drain /s",
        "send in batches /s",
        "one by one /s",
        "pick-up ms",
        "job of a killed worker",
    ]
    shown = "\n".join(
        [
            "",
            *tables.table(head, rows, left=2),
            "",
            f"One worker process, jobs that do nothing, {results.machine.processors} processors, {results.date[:10]}; bee"
            " on uvloop, 100 jobs at once: [everything, and how](docs/explanation/speed.md).",
            "",
            "",
        ]
    )
    return _BLOCK.sub(lambda found: found[1] + shown + found[2], text)


_SHOWN = (("drain", "rate"), ("send-many", "rate"), ("send", "rate"), ("pick-up", "p50"))


def _known(results: Results, store: str) -> list[Entry]:
    entries = {entry.title: entry for entry in results.of_store(store)}
    return [entries[title] for title in KNOWN[store] if title in entries]


def pictures(results: Results) -> dict[str, str]:
    """Each by its name."""
    foot = f"{results.machine.processors} processors, Python {results.machine.python}, {results.date[:10]}"
    return {
        "drain.svg": draw(
            "Jobs drained a second, one worker process",
            [
                Panel(name, list(_bars(results, store, "drain", "rate")))
                for store, name in STORES.items()
            ],
            f"{foot}; the limit: a loop by hand with the same guarantees",
        ),
        "send.svg": draw(
            "Jobs sent a second, one client",
            [
                Panel(f"{name}, {way}", list(_bars(results, store, workload, "rate")))
                for workload, way in (("send-many", "in batches"), ("send", "one by one"))
                for store, name in STORES.items()
            ],
            f"{foot}; the limit: by hand with the same guarantees",
        ),
    }


def _bars(results: Results, store: str, workload: str, figure: str) -> Iterator[Bar]:
    for entry in sorted(results.of_store(store), key=tables.by(results, workload, figure)):
        median = results.median(workload, entry.name, figure)
        if median is not None:
            yield Bar(_label(entry), median, tables.number(median), _kind(entry))


def _label(entry: Entry) -> str:
    return "the limit" if entry.title == "raw" else entry.title


def _kind(entry: Entry) -> str:
    return "peer" if entry.is_peer else "bee" if entry.title == "bee" else "limit"


def main() -> None:
    results = read(Path(sys.argv[1]) if len(sys.argv) > 1 else LATEST)
    PAGE.write_text(page(results), encoding="utf-8")
    for name, picture in pictures(results).items():
        (PICTURES / name).write_text(picture, encoding="utf-8")
    README.write_text(readme(results, README.read_text(encoding="utf-8")), encoding="utf-8")
    for goal in goals(results):
        found = "not measured" if goal.found is None else f"{goal.found:.2f}"
        print(
            f"{'met' if goal.is_met else 'NOT MET':8} {found:>12} ({goal.wanted:g})  {goal.what} {goal.against}"
        )


if __name__ == "__main__":
    main()
