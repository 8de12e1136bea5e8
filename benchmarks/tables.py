"""The tables of the page about speed, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from benchmarks.goals import NO_WORKERS, STORES, goals, served
from benchmarks.results import Entry, Results


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> list[str]:
    """Lines of Markdown; the first `left` columns are words, the others numbers."""
    marks = ["---" if column < left else "---:" for column in range(len(head))]
    return [f"| {' | '.join(row)} |" for row in (head, marks, *rows)]


def number(value: float) -> str:
    """With as many digits as mean something."""
    if value >= 100:
        digits = max(0, len(str(int(value))) - 3)
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}" if value >= 1 else f"{value:.2g}"


def cell(results: Results, workload: str, contender: str, figure: str) -> str:
    """The median, and from where to where it went."""
    values = results.values(workload, contender, figure)
    middle = results.median(workload, contender, figure)
    if middle is None:
        return "no" if results.problem(workload, contender).startswith("unsupported") else "-"
    if len(values) < 2 or number(min(values)) == number(max(values)):
        return number(middle)
    return f"{number(middle)} <small>{number(min(values))} to {number(max(values))}</small>"


def by(results: Results, workload: str, figure: str) -> Callable[[Entry], float]:
    """A key by which the fastest comes first."""
    return lambda entry: -(results.median(workload, entry.name, figure) or 0.0)


def title(entry: Entry) -> str:
    match entry.title:
        case "bee":
            return "**bee**"
        case "raw":
            return "*the limit*"
        case other:
            return f"{other} {entry.version}"


def rates(results: Results, store: str) -> list[str]:
    """Sending and draining, who drains fastest first."""
    head = ["", "send one by one /s", "send in batches /s", "drain, one process /s"]
    columns = [("send", "rate"), ("send-many", "rate"), ("drain", "rate")]
    if store != "memory":
        head += ["drain, a process for each core /s", "idle pick-up p50 ms", "p99 ms"]
        columns += [("drain-cores", "rate"), ("pick-up", "p50"), ("pick-up", "p99")]
    entries = sorted(results.of_store(store), key=by(results, "drain", "rate"))
    rows = [
        [title(entry), *[cell(results, w, entry.name, f) for w, f in columns]] for entry in entries
    ]
    return table(head, rows)


def costs(results: Results, store: str) -> list[str]:
    """What a drained job costs."""
    kind = "bytes to and from the server" if store == "redis" else "bytes of WAL"
    calls = "messages to the server" if store == "redis" else "transactions"
    head = ["a job of a drain", "worker µs", "server µs", calls, kind]
    columns = [("drain", "client"), ("drain", "server"), ("drain", "calls"), ("drain", "bytes")]
    if store == "redis":
        head.append("bytes in memory while it waits")
        columns.append(("memory", "bytes"))
    entries = sorted(results.of_store(store), key=by(results, "drain", "rate"))
    rows = [
        [title(entry), *[cell(results, w, entry.name, f) for w, f in columns]] for entry in entries
    ]
    return table(head, rows)


def waiting(results: Results, store: str) -> list[str]:
    """Handlers that wait 5 ms."""
    used = "processors, worker + server"
    head = ["", "100 at once /s", used, "1,000 at once /s", used]
    rows = [
        [
            title(entry),
            *[
                text
                for workload in ("sleep-100", "sleep-1000")
                for text in (
                    cell(results, workload, entry.name, "rate"),
                    f"{cell(results, workload, entry.name, 'busy')} + {number(served(results, workload, entry.name))}",
                )
            ],
        ]
        for entry in sorted(results.of_store(store), key=by(results, "sleep-1000", "rate"))
        if results.values("sleep-100", entry.name, "rate")
    ]
    return table(head, rows)


def crowds(results: Results, workload: str) -> list[str]:
    """What a job costs among many and among few."""
    head = [
        "",
        "others",
        "rate /s",
        "without them",
        "µs for a job",
        "without them",
        "server µs",
        "without them",
    ]
    rows = []
    for store, name in STORES.items():
        for entry in results.of_store(store):
            if not results.values(workload, entry.name, "size"):
                continue
            figures = (
                "size",
                "many-rate",
                "few-rate",
                "many-cost",
                "few-cost",
                "many-server",
                "few-server",
            )
            cells = [cell(results, workload, entry.name, figure) for figure in figures]
            rows.append([f"{title(entry)}, {name}", *cells])
    return table(head, rows)


def contention(results: Results) -> list[str]:
    """bee with more and more worker processes."""
    head = ["worker processes"]
    columns = []
    for store, name in STORES.items():
        for figure, words in (
            ("rate", "jobs /s"),
            ("server", "server µs a job"),
            ("calls", "calls a job"),
        ):
            head.append(f"{name}: {words}")
            columns.append((f"{store}_bee", figure))
    kinds = {str(n): str(n) for n in (1, 2, 4, 8, 16)} | {"16-apart": "16, a queue for each"}
    rows = [
        [shown, *[cell(results, f"contention-{kind}", name, figure) for name, figure in columns]]
        for kind, shown in kinds.items()
        if results.values(f"contention-{kind}", "redis_bee", "rate")
        or results.values(f"contention-{kind}", "pg_bee", "rate")
    ]
    return table(head, rows, left=0)


def after_kill(results: Results, name: str) -> str:
    """What became of the job of a killed worker, in words."""
    seconds = results.median("kill", name, "seconds")
    if seconds is not None:
        return f"runs again after {seconds:.0f} s"
    return results.problem("kill", name) or "not measured"


def kills(results: Results) -> list[str]:
    """What becomes of the job of a killed worker."""
    rows = [
        [name, title(entry), after_kill(results, entry.name)]
        for store, name in STORES.items()
        for entry in results.of_store(store)
    ]
    return table(["store", "", "the job of a worker killed with -9"], rows, left=3)


def kept(results: Results) -> list[str]:
    """The goals."""
    rows = []
    for goal in goals(results):
        sign = "at most" if goal.at_most else "at least"
        found = "not measured" if goal.found is None else f"{goal.found:.2f}"
        wanted = f"{sign} {goal.wanted:g}" if goal.wanted else "-"
        verdict = "met" if goal.is_met else "-" if goal.found is None else "**not met**"
        what = f"{goal.what} ({goal.against})" if goal.against else goal.what
        rows.append([what, wanted, found, verdict])
    return table(["ratio", "goal", "measured", ""], rows)


def noise(results: Results) -> str:
    """How calm the machine was."""
    loads = sorted(sample.load for sample in results.samples)
    others = sorted(sample.others for sample in results.samples)
    if not loads:
        return "Nothing was measured."
    middle, most = others[len(others) // 2], others[-1]
    return (
        f"Other programs used {middle:.2f} processors in the middle measurement and {most:.2f} in the"
        f" worst one; the load average went from {loads[0]:.1f} to {loads[-1]:.1f}."
    )


def no_workers(results: Results) -> str:
    names = [entry.title for entry in results.entries if entry.name in NO_WORKERS]
    return ", ".join(names)
