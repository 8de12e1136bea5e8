"""The faults of bee's ancestors, each with a test that would show it in bee.

Five older job systems were read for their faults: haskell-bee (HB), hworker (HW), redis-work-queue
(RW), worqr (WQ) and queasy (QY). A test is named after its fault, `test_HB_B04_...`, and runs on
every store if the fault is one of stores. Most are also shown, and in more detail, elsewhere: this
is the map from a known fault to its proof.
"""

from __future__ import annotations

FAULTS = {"HB": 28, "HW": 13, "RW": 15, "WQ": 14, "QY": 20}
"""How many faults were found in each: they are numbered B01, B02, ..."""

CANNOT_BE: dict[str, str] = {
    "RW_B15": "a stale page of its README; what bee's pages say is run and checked in tests/docs",
}
"""Those that bee cannot have, and why."""
