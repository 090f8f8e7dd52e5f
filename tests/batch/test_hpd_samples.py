"""Households drawn from a hierarchical product distribution."""

import numpy as np
import pytest
from households import DOMAINS, GROUPS, PEOPLE, counted, model, workload
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dp.batch.groups.workload import exact_counts as exact
from stream_dp.batch.groups.workload.queries import GROUP


@given(seed=st.integers(0, 2**32 - 1), spread=st.sampled_from([0.0, 1.0, 40.0, 1e6]))
@settings(max_examples=15)
@pytest.mark.parametrize("name", DOMAINS)
def test_every_sample_is_a_valid_household(name, seed, spread):
    family, rng = model(name), np.random.default_rng(seed)
    params = {k: (spread * rng.normal(size=s)).astype(np.float32) for k, s in family.shapes.items()}
    drawn = family.sample(
        params, 200, seed
    )  # Hierarchy refuses sizes, codes and roles that are not
    assert drawn.G == 200
    again = family.sample(params, 200, seed)
    assert np.array_equal(drawn.people, again.people)
    assert np.array_equal(drawn.groups, again.groups)


@pytest.mark.parametrize("name", ["alike", "others"])
def test_a_sample_answers_as_the_model_does(name):
    family = model(name)
    params, queries = family.init(21), workload(family, 320)
    drawn = family.sample(params, 40_000, 22)
    added = counted(
        family.layout,
        group=drawn.groups,
        people=drawn.people,
        group_of=drawn.group_of,
        queries=queries,
    )
    assert np.array_equal(added.sum(axis=0), exact.exact_answers(drawn, queries))
    of_groups = queries.level == GROUP
    encoded = family.encode(queries)
    answers = [
        family.answers(params, encoded.take(np.arange(i, i + 40))) for i in range(0, 320, 40)
    ]
    share = np.concatenate(answers) / np.where(of_groups, GROUPS, PEOPLE)
    excess = added - share * np.where(of_groups, 1, np.diff(drawn.starts)[:, None])
    error = excess.std(axis=0) / drawn.G**0.5
    assert (np.abs(excess.mean(axis=0)) < 6 * error + 1e-6).all()
