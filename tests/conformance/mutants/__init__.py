"""Memory brokers that each break one rule of the contract. The suite has to notice every one.

They are small on purpose: each overrides one verb, or one step that the verbs share, and its
docstring names the rule it breaks. A fault found in a real broker that the suite did not
notice belongs here, with the test that notices it.
"""

from __future__ import annotations

from types import ModuleType

from bee_memory import MemoryBroker

from . import (
    adopt,
    announce,
    archive,
    awaits,
    expel,
    heard,
    history,
    identity,
    keys,
    lease,
    operate,
    order,
    parked,
    progress,
    reports,
    results,
    send,
    settle,
    throttle,
    together,
    wait,
)

LIKELY: dict[ModuleType, tuple[str, ...]] = {
    send: ("send", "guards", "closing", "identity"),
    order: ("order",),
    lease: ("lease", "extend", "merge"),
    settle: ("settle", "then", "cancel"),
    archive: ("archive", "settle"),
    identity: ("identity", "successor", "merge"),
    operate: ("operate", "inspect", "scan", "archive"),
    wait: ("waiting",),
    together: ("interrupt", "together"),
    keys: ("keys", "turns", "parked"),
    parked: ("parked", "turns", "keys"),
    throttle: ("throttle",),
    reports: ("reports", "awaits"),
    awaits: ("awaits", "reports"),
    heard: ("heard", "reports"),
    results: ("results", "guards", "closing"),
    progress: ("progress", "created", "lease"),
    history: ("history", "remarks", "archive"),
    announce: ("announce", "inspect"),
    adopt: ("adopt", "adopt_manners", "adopt_reports"),
    expel: ("expel", "expel_together", "adopt_reports", "adopt_manners"),
}
"""For each kind of mutant, the modules of the suite that ought to notice it. Tried first."""

MUTANTS: dict[type[MemoryBroker], tuple[str, ...]] = {
    kind: likely
    for part, likely in LIKELY.items()
    for kind in vars(part).values()
    if isinstance(kind, type) and issubclass(kind, MemoryBroker)
    if kind.__module__ == part.__name__ and not kind.__name__.startswith("_")
}
"""All of them, in the order of their files, with where to look first."""
