"""A study goes on elsewhere: nothing is computed again that another machine computes otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import scipy
from kit import portable
from kit.panels import StudyFolder, rows, script

from stream_dp.continual.counters.methods import counter_method
from stream_dp.continual.cumulative import budgets
from stream_dp.services.commands.cli import main
from stream_dp.study.topics import RELEASES

# Kernels of the linear algebra library and of NumPy, as an older processor has them.
OTHER = {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL"}


def run_elsewhere(folder: Path, last: int) -> dict[str, Any]:
    """Closes periods on the other machine, which then reads the public log as an analyst does."""
    command = [sys.executable, "-m", "kit.portable", str(folder), str(last)]
    tests = str(Path(portable.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": tests, "OPENBLAS_NUM_THREADS": "1", **OTHER}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, timeout=600)
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_a_study_goes_on_with_other_kernels_to_the_same_bytes(tmp_path: Path) -> None:
    """Every continual kind, with every counter, in closed and in open populations."""
    for name, last in (("stays", portable.PERIODS), ("moves", 3)):
        (tmp_path / name).mkdir()
        portable.main(tmp_path / name, last)
    one = portable.read(tmp_path / "stays" / "public.db")
    other = run_elsewhere(tmp_path / "moves", portable.PERIODS)
    stays, moves = (rows(tmp_path / name / "public.db", RELEASES) for name in ("stays", "moves"))
    assert len(stays) > 120
    assert stays == moves
    assert one["verified"] == other["verified"]
    assert one["answers"].keys() == other["answers"].keys()
    for release, answers in one["answers"].items():
        assert answers == pytest.approx(other["answers"][release], rel=1e-7, abs=1e-7), release


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StudyFolder]:
    """A study that has begun, on a machine on which nothing can be factorized."""

    def elsewhere(*arguments: Any, **others: Any) -> Any:
        raise AssertionError("computed again")

    study = StudyFolder(tmp_path / "study")
    study.send(script()[0])
    assert not study.run()
    budgets.counter_budget.cache_clear()
    here = budgets.counter

    def counter(kind, length):
        return (here if counter_method(kind).whole_matrices else elsewhere)(kind, length)

    monkeypatch.setattr(budgets, "counter", counter)
    for module, name in (
        (scipy.linalg, "solve_triangular"),
        (budgets, "path_costs"),
        (budgets, "equal_variance_weights"),
        (scipy.linalg, "cholesky_banded"),
    ):
        monkeypatch.setattr(module, name, elsewhere)
    yield study
    budgets.counter_budget.cache_clear()


def test_a_study_that_has_begun_needs_no_factorization(begun: StudyFolder, handlers: None) -> None:
    """Neither to say how it stands, nor to close its periods."""
    assert main(["status", str(begun.file)]) == 0
    for records in script()[1:]:
        begun.send(records)
    assert begun.run()


def test_a_design_that_was_changed_is_refused(begun: StudyFolder, handlers: None) -> None:
    """The hash of the first entry covers it."""
    begun.edit(
        "UPDATE records SET value = substr(value, 1, length(value) - 1) || x'00'"
        " WHERE topic = 'journal' AND offset = 0"
    )
    assert main(["status", str(begun.file)]) == 4
