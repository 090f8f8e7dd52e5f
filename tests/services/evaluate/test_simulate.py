"""Simulated panels: the published facts are met, by the model and by samples of it."""

from __future__ import annotations

import numpy as np
import pytest
from kit.markov_panels import markov_panel

from stream_dp.services.evaluate import simulated_panels


def test_model_meets_every_fact() -> None:
    probabilities = simulated_panels.model()
    shares = probabilities @ simulated_panels.fact_values(simulated_panels.histories())
    assert probabilities.sum() == pytest.approx(1)
    assert simulated_panels.facts().shape == (26,)
    assert np.abs(shares - simulated_panels.facts()).max() < 3e-4


def test_sample_meets_the_facts_within_sampling_error() -> None:
    months = simulated_panels.poverty(7)
    assert months.shape == (23_374, 12)
    assert months.dtype == np.uint8
    assert set(np.unique(months)) == {0, 1}
    share, wanted = simulated_panels.fact_values(months).mean(axis=0), simulated_panels.facts()
    error = np.sqrt(wanted * (1 - wanted) / months.shape[0])
    assert (np.abs(share - wanted) < 4 * error).all()


def test_facts_are_read_from_histories_as_the_paper_defines_them() -> None:
    months = np.array([[1, 0, 1] + [0] * 9, [0, 1, 1] + [0] * 9, [1] * 3 + [0] * 9], np.uint8)
    values = simulated_panels.fact_values(months)
    assert values[:, :4].astype(int).tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert values[:, 16:].sum(axis=1).tolist() == [0, 0, 10]


def test_same_seed_same_panel() -> None:
    assert (simulated_panels.poverty(3, 500) == simulated_panels.poverty(3, 500)).all()
    assert (simulated_panels.poverty(3, 500) != simulated_panels.poverty(4, 500)).any()
    first = markov_panel(3, n=200, periods=5, symbols=3, stay=0.5)
    assert (first == markov_panel(3, n=200, periods=5, symbols=3, stay=0.5)).all()


def test_plain_panel_persists_as_asked() -> None:
    symbols = markov_panel(1, n=20_000, periods=4, symbols=3, stay=0.9)
    assert symbols.shape == (20_000, 4)
    kept = (symbols[:, 1:] == symbols[:, :-1]).mean()
    assert kept == pytest.approx(0.9 + 0.1 / 3, abs=0.005)
    assert np.bincount(symbols[:, 3], minlength=3).min() > 6300
    with pytest.raises(ValueError, match="stay"):
        markov_panel(1, n=5, periods=4, symbols=3, stay=1.5)
