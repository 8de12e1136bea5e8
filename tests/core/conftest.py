"""How hypothesis runs here: a busy machine is not a failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("bee", deadline=None)
settings.load_profile("bee")
