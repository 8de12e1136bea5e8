"""What the pages say about speed is what the last run found."""

from __future__ import annotations

import pytest

from benchmarks import report
from benchmarks.results import read

LAST = read()


def test_the_page_is_what_the_report_makes_of_the_last_run() -> None:
    assert report.page(LAST) == report.PAGE.read_text(encoding="utf-8")


def test_the_table_of_the_readme_is_that_of_the_last_run() -> None:
    text = report.README.read_text(encoding="utf-8")

    assert report.readme(LAST, text) == text
    assert "| **bee** | Redis |" in text


@pytest.mark.parametrize("name", report.pictures(LAST))
def test_the_pictures_are_those_of_the_last_run(name: str) -> None:
    assert report.pictures(LAST)[name] == (report.PICTURES / name).read_text(encoding="utf-8")
