"""Failing assertions about a page show what it says and what its program prints."""

import pytest

pytest.register_assert_rewrite("tests.docs.program")
