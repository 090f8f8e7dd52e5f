"""The list of planted faults: every text is in the product, and every test in the suite."""

import runpy
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_every_mutation_can_be_planted_and_names_tests_of_the_suite():
    if not (ROOT / "benchmarks" / "mutations.toml").is_file():
        pytest.skip("an installed package has no benchmarks")
    mutations = runpy.run_path(str(ROOT / "benchmarks" / "mutations.py"))["read_mutations"]()
    assert [fault for m in mutations if (fault := m.fault(ROOT)) is not None] == []
    assert len(mutations) >= 40
    assert {name: n for name, n in Counter(m.name for m in mutations).items() if n > 1} == {}
    assert all(m.old != m.new and m.tests for m in mutations)
