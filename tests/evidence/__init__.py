"""What the long runs have found, kept as one small file each, and the page made of it.

    python -m tests.evidence

A run that proves something ends with `record`. The page is docs/explanation/evidence.md.
"""

from tests.evidence.proof import Proof, read, record

__all__ = ["Proof", "read", "record"]
