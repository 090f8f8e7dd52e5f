"""The fit of a mixture of blocks: programs that serve several numbers of rows."""

import numpy as np
import pytest

pytest.importorskip("jax")

from stream_dp.batch.people import block_mixture
from stream_dp.batch.people.block_mixture import Goal, Layout, fitted, name_of, starting_params

SIZES, BLOCKS, TRIPLES = (3, 4, 2), ((0, 1), (2,)), ((0, 1, 2),)


def fit(rows):
    layout, rng = Layout(SIZES, BLOCKS, rows, TRIPLES), np.random.default_rng(1)

    def shares(*shape):
        return (rng.random(shape) / np.prod(shape)).astype(np.float32)

    values, inner = layout.offsets[-1], layout.inner
    goal = Goal(
        ones=shares(values),
        ones_weight=shares(values),
        outer=shares(values, values),
        outer_weight=shares(values, values),
        product=shares(layout.pair_cells, values),
        product_weight=shares(layout.pair_cells, values),
        inner={name_of(c): shares(*(SIZES[i] for i in c)) for c in inner},
        inner_weight={name_of(c): np.float32(1) for c in inner},
    )
    start = starting_params(layout, tuple(np.full(n, 1 / n) for n in SIZES), 1)
    return fitted(layout, start, goal, 40, 0.1)


def test_a_program_serves_other_numbers_of_rows_with_unchanged_results(monkeypatch):
    before = block_mixture._updated._cache_size()
    padded = [fit(rows) for rows in (4, 18, 25)]
    assert block_mixture._updated._cache_size() == before + 1
    monkeypatch.setattr(block_mixture, "rows_of_program", lambda rows: rows)
    exact = fit(18)
    for name, values in exact.items():
        np.testing.assert_allclose(padded[1][name], values, rtol=1e-4, atol=1e-4)
    assert {len(params["tilt 0"]) for params in padded} == {4, 18, 25}
