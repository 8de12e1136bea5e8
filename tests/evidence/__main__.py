"""Writes docs/explanation/evidence.md."""

from tests.evidence.page import PAGE, page
from tests.evidence.proof import read

if __name__ == "__main__":
    PAGE.write_text(page(read()), encoding="utf-8")
