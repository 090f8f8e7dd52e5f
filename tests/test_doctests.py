"""The examples in docstrings give what they show."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name", ["continual.counters", "estimate.query", "panel", "study.alphabet"]
)
def test_examples_in_docstrings(name):
    results = doctest.testmod(importlib.import_module(f"stream_dp.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
