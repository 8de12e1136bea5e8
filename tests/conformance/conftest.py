"""Failing assertions of the suite show their values, as they would in a test module."""

import pytest

pytest.register_assert_rewrite("bee_core.testing.conformance")
