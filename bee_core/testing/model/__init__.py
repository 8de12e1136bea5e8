"""The model test."""

from bee_core.testing.model.machine import run_model

__all__ = ["run_model"]
