"""`python -m bee_core` is `bee`."""

from __future__ import annotations

from bee_core.cli import main

main(prog_name="bee")
