"""Queues move from one store to another, with all they hold: `move`, and what it tells."""

from bee_core.moving.move import BATCH, check, is_same_store, move, survey

__all__ = ["BATCH", "check", "is_same_store", "move", "survey"]
