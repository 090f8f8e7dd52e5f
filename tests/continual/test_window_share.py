"""The part of a joint release's rho for its windows."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from stream_dp.continual.counters.tree import tree
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.joint.joint import best_window_share, rmse_of_trees
from stream_dp.continual.window.window import FixedWindow

RHO = Fraction(1, 100)


def mechanisms(relation, rho=RHO, **windows):
    fields = {"horizon": 12, "rho": rho, "neighbours": relation}
    window = FixedWindow(values=(0, 1), width=3, strategy="residuals", **fields, **windows)
    return window, Cumulative(rows=100, **fields)


@pytest.mark.parametrize("horizon", [1, 2, 12, 31])
def test_the_error_of_trees_with_equal_parts_of_rho(horizon):
    trees = [tree(n) for n in range(1, horizon + 1)]
    cells = np.concatenate([t.gains * t.column2 * horizon for t in trees])
    one = rmse_of_trees(horizon, Fraction(1, 2), "add_remove")
    assert one == pytest.approx(np.sqrt(cells.mean()), rel=1e-12)
    two = rmse_of_trees(horizon, Fraction(1, 2), "replace_one")
    assert two == pytest.approx(2**0.5 * one)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_no_other_part_has_smaller_errors_over_the_paper_s(relation):
    window, totals = mechanisms(relation, rows=100)
    histograms = replace(window, strategy="histogram").mean_variance
    trees = rmse_of_trees(12, RHO, relation)

    def errors(share):
        patterns = replace(window, rho=RHO * share).mean_variance / histograms
        return patterns + (replace(totals, rho=RHO * (1 - share)).rmse / trees) ** 2

    best = best_window_share(window, totals)
    others = [Fraction(i, 100) for i in range(1, 100)]
    assert errors(best) == pytest.approx(min(map(errors, others)), rel=1e-3)


def test_the_part_is_that_of_the_study_at_any_rho():
    shares = {best_window_share(*mechanisms("add_remove", rho, rows=100)) for rho in (RHO, 1)}
    assert len(shares) == 1


def test_late_entry_gets_more_for_windows():
    late, closed = mechanisms("add_remove", blank=0), mechanisms("add_remove", rows=100)
    assert best_window_share(*late) > best_window_share(*closed)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_large_rho_leaves_windows_and_totals_a_part(relation):
    for rho in (10**3, 10**6):
        share = best_window_share(*mechanisms(relation, Fraction(rho), rows=100))
        assert share == best_window_share(*mechanisms(relation, rows=100))
