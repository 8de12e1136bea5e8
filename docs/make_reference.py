"""Write docs/reference/api.md from the docstrings of what `import bee_core as bee` offers.

    python docs/make_reference.py

It reads the sources and imports nothing. A test says when the page is older than they are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "api.md"

GROUPS = {
    "Jobs and queues": (
        "Job Hive HiveQueue Queue Ticket Sent Group Schedule Duration connect new_id"
    ),
    "If the id is taken": "Keep Reject Update",
    "Handlers": "Handler Delivery Retry Snooze Failure",
    "Policies": (
        "Policy Rules Repeat Backoff Delete Archive Reschedule Disposition Terminal "
        "ArchiveStrategy ErrorStrategy TimeoutStrategy StallStrategy InterruptStrategy "
        "Outcome decide"
    ),
    "Limits": "Throttle Rate Auto Meter Reading",
    "Results": "Result Report",
    "Looking at it": (
        "explain Explanation Stored State Episode QueueStats Holder Server Finding Health "
        "QueueHealth Counters Note Event Observer log_events"
    ),
    "Workers by hand": "Worker",
    "Brokers": (
        "Broker Inspector Store Examined Described Draft Lease Receipt Settlement Codec JsonCodec"
    ),
    "Errors": (
        "BeeError InvalidInput InvalidName InvalidOption InvalidPayload PayloadTooLarge IdTaken "
        "UnknownScheme NoHandler MustAwait BrokerError BrokerUnavailable BrokerLocked "
        "OutcomeUnknown BrokerFull BrokerMisconfigured SchemaMissing SchemaMismatch BrokerClosed "
        "DecodeError UnknownJob PermanentError JobFailed NoResult ResultTimeout WorkerStuck"
    ),
}

NOT_MADE_BY_HAND = {"Delivery", "HiveQueue"}
"""Their constructors are nobody's business."""

HEAD = """\
# Python

Everything that `import bee_core as bee` offers, from its docstrings. This page is written by
`python docs/make_reference.py`; change the docstrings, not the page.

More is in modules of their own: [events](events.md) in `bee_core.events`, the reasons of
[`explain`](../howto/explain.md) in `bee_core.explain`, [logs, metrics and
traces](../production/observability.md) in `bee_core.logs`, `bee_core.prometheus` and
`bee_core.opentelemetry`, [scaling](../howto/scaling.md) in `bee_core.scaling`, [the same names
without await](../howto/sync.md) in `bee_core.sync`, and what [tests of your
handlers](../howto/test-your-handlers.md) need in `bee_core.testing`.
"""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Node = ast.ClassDef | Function | ast.AnnAssign | ast.Assign


def main() -> None:
    PAGE.write_text(reference(), encoding="utf-8")


def reference() -> str:
    """The page."""
    found = definitions()
    grouped = [name for names in GROUPS.values() for name in names.split()]
    assert sorted(grouped) == sorted(found), (
        f"to be put into GROUPS: {sorted(set(found) - set(grouped))}; "
        f"not offered any more: {sorted(set(grouped) - set(found))}"
    )
    parts = [HEAD]
    for group, names in GROUPS.items():
        parts.append(f"## {group}\n")
        for name in names.split():
            parts += [f"### {name}\n", *described(name, *found[name])]
    return "\n".join(parts)


def definitions() -> dict[str, tuple[Node, str]]:
    """Where each name is defined, and the text that stands below it if that is no docstring."""
    window = ast.parse((ROOT / "bee_core" / "__init__.py").read_text(encoding="utf-8"))
    offered = {a.name for n in window.body if isinstance(n, ast.ImportFrom) for a in n.names}
    found = {}
    for node in window.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            file = ROOT / (node.module.replace(".", "/") + ".py")
            body = ast.parse(file.read_text(encoding="utf-8")).body
            for alias in node.names:
                found[alias.name] = _definition(alias.name, body)
                if isinstance(kind := found[alias.name][0], ast.ClassDef):
                    _take_in_bases(kind, body, offered)
    return found


def _take_in_bases(kind: ast.ClassDef, body: list[ast.stmt], offered: set[str]) -> None:
    """What a class has of a base beside it that is not offered itself is its own to a reader."""
    for base in body:
        if isinstance(base, ast.ClassDef) and base.name not in offered:
            own = [b for b in kind.bases if ast.unparse(b).partition("[")[0] != base.name]
            if len(own) < len(kind.bases):
                kind.bases = own
                kind.body += [member for member in base.body if isinstance(member, Function)]


def _definition(name: str, body: list[ast.stmt]) -> tuple[Node, str]:
    found: tuple[Node, str] | None = None
    for node, following in zip(body, [*body[1:], None], strict=True):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name:
                found = node, ""
            case ast.AnnAssign(target=ast.Name(id=id)) | ast.Assign(targets=[ast.Name(id=id)]):
                if id == name:
                    found = node, _text(following)
            case _:
                pass
    assert found is not None, f"{name} is not defined where it comes from"
    return found


def described(name: str, node: Node, below: str) -> Iterator[str]:
    """The parts of the page about one name."""
    match node:
        case ast.ClassDef():
            yield from _class(node)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield _code(_signature(node, node.name))
            yield _prose(ast.get_docstring(node) or "")
        case ast.AnnAssign(value=value) | ast.Assign(value=value):
            assert value is not None
            yield _code(f"{name} = {ast.unparse(value)}")
            if below:
                yield _prose(below)


def _class(node: ast.ClassDef) -> Iterator[str]:
    methods = [member for member in node.body if isinstance(member, Function)]
    makers = [method for method in methods if method.name == "__init__"]
    if node.name in NOT_MADE_BY_HAND:
        makers = []
    bases = ", ".join(map(ast.unparse, node.bases))
    yield _code(_signature(makers[-1], node.name) if makers else f"class {node.name}({bases})")
    yield _prose(ast.get_docstring(node) or "")
    fields = list(_fields(node))
    if fields:
        yield "| field | default | |\n| --- | --- | --- |"
        yield "\n".join(fields) + "\n"
    for method in methods:
        decorators = {ast.unparse(decorator) for decorator in method.decorator_list}
        text = ast.get_docstring(method)
        if method.name.startswith("_") or "overload" in decorators or text is None:
            continue
        yield f"#### {node.name}.{method.name}\n"
        if "property" in decorators:
            assert method.returns is not None
            yield _code(f"{method.name}: {ast.unparse(method.returns)}")
        else:
            yield _code(_signature(method, method.name))
        yield _prose(text)


def _fields(node: ast.ClassDef) -> Iterator[str]:
    """Rows of a table: the fields of a struct, the members of an enumeration."""
    for member, following in zip(node.body, [*node.body[1:], None], strict=True):
        match member:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind, value=value):
                shown = f"`{name}: {_cell(ast.unparse(kind))}`"
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                shown = f"`{name}`"
            case _:
                continue
        if not name.startswith("_"):
            default = "" if value is None else f"`{_cell(ast.unparse(value))}`"
            text = _cell(" ".join(_text(following).split()))
            yield f"| {shown} | {default} | {text} |"


def _signature(node: Function, name: str) -> str:
    """With a line for each parameter if it is long."""
    words = [word for word in _parameters(node.args) if word not in ("self", "cls")]
    prefix = "async def " if isinstance(node, ast.AsyncFunctionDef) else "def "
    prefix = "class " if node.name == "__init__" else prefix
    returns = (
        "" if node.returns is None or prefix == "class " else f" -> {ast.unparse(node.returns)}"
    )
    line = f"{prefix}{name}({', '.join(words)}){returns}"
    if len(line) <= 88:
        return line
    return f"{prefix}{name}(\n" + "".join(f"    {word},\n" for word in words) + f"){returns}"


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for argument, default in zip(positional, defaults, strict=True):
        yield _parameter(argument, default)
    if arguments.vararg:
        yield "*" + _parameter(arguments.vararg, None)
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(argument, default)
    if arguments.kwarg:
        yield "**" + _parameter(arguments.kwarg, None)


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    typed = argument.annotation is not None
    kind = f": {ast.unparse(argument.annotation)}" if argument.annotation is not None else ""
    if default is None:
        return f"{argument.arg}{kind}"
    return f"{argument.arg}{kind}{' = ' if typed else '='}{ast.unparse(default)}"


def _text(node: ast.stmt | None) -> str:
    """The text below a field or a name, if there is one."""
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
        case _:
            return ""


def _prose(docstring: str) -> str:
    """A docstring as Markdown. Lines of a word, some room, and what it means become a list."""
    return "\n\n".join(map(_paragraph, docstring.split("\n\n"))).strip() + "\n"


_TERM = re.compile(r"([\w`.*]+(?:, [\w`.*]+)*) {2,}(\S.*)")


def _paragraph(text: str) -> str:
    lines = text.splitlines()
    if not any(_TERM.fullmatch(line) for line in lines):
        return text
    found: list[str] = []
    for line in lines:
        if term := _TERM.fullmatch(line):
            found.append(f"- `{term[1].strip('`')}`: {term[2]}")
        elif found and line.startswith(" "):
            found[-1] += f" {line.strip()}"
        else:
            found.append(f"\n{line}\n" if found and found[-1].startswith("- ") else line)
    return "\n".join(found)


def _code(text: str) -> str:
    return f"```py\n{text}\n```\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
