"""Groups are drawn evenly, and still each one by the model alone."""

from __future__ import annotations

import numpy as np
import pytest
from households import DOMAINS, compositions, random_logits
from scipy import stats

from stream_dp.batch.groups.hpd.household_draw import draw_households
from stream_dp.batch.groups.hpd.model_arrays import model_layout


def softmax(logits):
    weight = np.exp(np.asarray(logits, float) - logits.max())
    return weight / weight.sum()


def cells(layout, group, width):
    """Of the size and all group attributes."""
    codes = np.zeros(len(group), int)
    for column, values in zip(group.T, (*layout.group_values, layout.max_size), strict=True):
        codes = codes * values + column
    return np.bincount(codes, minlength=width)


@pytest.fixture(scope="module")
def model():
    layout = model_layout(DOMAINS["alike"], 0)
    return layout, random_logits(np.random.default_rng(4), layout, 2, 0.7)


def law(layout, logits):
    """Of size and group attributes: half of each row's product."""
    total = 0
    for k in range(2):
        first, second = np.split(logits["group"][:, k], [layout.group_values[0]])
        sizes = [p for _, p in compositions(layout, logits, k)]
        outer = np.multiply.outer(np.multiply.outer(softmax(first), softmax(second)), sizes)
        total = total + outer.ravel() / 2
    return total


def test_a_data_set_is_nearer_to_its_model_than_independent_draws(model):
    layout, logits = model
    chance, groups, runs = law(layout, logits), 5000, 30
    missed = [
        cells(layout, draw_households(layout, logits, groups, seed)[0], len(chance))
        - groups * chance
        for seed in range(runs)
    ]
    independent = groups * chance * (1 - chance)
    assert (np.mean(np.square(missed), axis=0) < independent / 20).all()


def test_every_single_group_has_the_distribution_of_the_model(model):
    """Of data sets of 7 groups, the third one's cell and its first member: by chi squares."""
    layout, logits = model
    runs, chance = 1500, law(layout, logits)
    counts, first = np.zeros(len(chance)), np.zeros(layout.person_values[0])
    for seed in range(runs):
        group, people, group_of = draw_households(layout, logits, 7, seed)
        counts += cells(layout, group[2:3], len(chance))
        first[people[np.searchsorted(group_of, 2), 0]] += 1
    assert stats.chisquare(counts, runs * chance).pvalue > 1e-4
    values = layout.person_values[0]
    person = logits["person"].reshape(layout.max_size, -1, 2)[0, :values]
    expected = runs * (softmax(person[:, 0]) + softmax(person[:, 1])) / 2
    assert stats.chisquare(first, expected).pvalue > 1e-4


def test_any_number_of_groups_and_of_rows():
    for rows, groups in ((3, 10), (10, 3), (7, 700), (1, 1)):
        layout = model_layout(DOMAINS["alike"], 0)
        logits = random_logits(np.random.default_rng(1), layout, rows)
        group, people, group_of = draw_households(layout, logits, groups, 5)
        assert len(group) == groups
        assert len(people) == len(group_of) == (group[:, -1] + 1).sum()
