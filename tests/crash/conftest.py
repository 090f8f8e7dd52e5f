"""These tests copy folders for their own sake: what is refused of copies is in test_moved.py."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _copies_pass(copies_pass):
    """Every module of this folder."""
