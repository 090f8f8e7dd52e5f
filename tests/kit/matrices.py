"""Kill matrices: each step and one seed in the suite, the repetitions in the slow run."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(first: int, *more: int) -> Any:
    """Decorates a test with its seeds; all but the first are slow."""
    slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in more]
    return pytest.mark.parametrize("seed", [first, *slow])


def chunks(usual: int, number: int) -> Any:
    """Decorates a test with the seeds below `number`; all but the `usual` first are slow."""
    slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(usual, number)]
    return pytest.mark.parametrize("seed", [*range(usual), *slow])


# Of the calls of a step, of which there is one in most periods.
CALLS = pytest.mark.parametrize("which", ["second", pytest.param("others", marks=pytest.mark.slow)])


def calls_of(which: str, number: int) -> list[int]:
    """The calls (from 0) of a step that is called so often, of either half of CALLS."""
    second = min(1, number - 1)
    return [second] if which == "second" else [call for call in range(number) if call != second]
