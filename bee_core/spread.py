"""Where a store spreads a queue over parts, what is one step has to be in one of them."""

from __future__ import annotations

from collections.abc import Sequence

from bee_core.broker import Broker, Spread
from bee_core.ids import new_id
from bee_core.message import Draft


def fresh_id(broker: Broker, beside: str) -> str:
    """A fresh id for what is to be in one part with that id, or key."""
    return broker.id_beside(beside) if isinstance(broker, Spread) else new_id()


def check_together(broker: Broker, id: str, drafts: Sequence[Draft]) -> None:
    """Raise an InvalidOption if the store cannot send these in one step with what has that id."""
    if isinstance(broker, Spread):
        broker.check_beside(id, drafts)
