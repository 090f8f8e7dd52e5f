"""Fitting hierarchical product distributions: gradients, programs, rounds, divergence."""

import hashlib
import io
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from households import DOMAINS, expected, model, workload
from kit.fork_server import run

from stream_dp.batch.data.domain import Column, Domain
from stream_dp.batch.groups.hpd import adam as fitting
from stream_dp.batch.groups.hpd.adam import AdamSettings
from stream_dp.batch.groups.hpd.model_arrays import model_layout, pack_queries
from stream_dp.batch.groups.hpd.product_answers import loss_and_gradient
from stream_dp.batch.groups.hpd.product_mixture import MeasuredQueries
from stream_dp.batch.groups.workload.queries import GROUP, Queries

gradient_of = jax.jit(loss_and_gradient, static_argnums=0)


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


def test_the_gradient_is_that_of_the_sum_over_all_households():
    """With all kinds of slots. Gradients come from JAX; their sum over the chunks is ours."""
    family, rng = model("others", rows=2), np.random.default_rng(2)
    logits, queries = starts(family, 2), workload(family, 12)
    target, weight = rng.random(12), rng.random(12)
    chunks, _ = pack_queries(
        layout=family.layout,
        queries=family.encode(queries),
        length=8,
        target=target,
        weight=weight,
    )
    assert (chunks.weight == 0).any()  # padding, which adds nothing
    value, gradient = gradient_of(family.layout, logits, chunks)

    def error(logits):
        return (weight * (expected(family.layout, logits, queries) - target) ** 2).sum()

    assert float(value) == pytest.approx(error(logits), rel=1e-5)
    way = {k: rng.normal(size=v.shape) for k, v in logits.items()}
    ahead, behind = ({k: v + h * way[k] for k, v in logits.items()} for h in (1e-4, -1e-4))
    slope = sum((np.asarray(gradient[k], float) * way[k]).sum() for k in way)
    assert slope == pytest.approx((error(ahead) - error(behind)) / 2e-4, rel=1e-4, abs=1e-6)


def starts(family, rows):
    """Logits of a few rows, drawn without another program of JAX."""
    rng = np.random.default_rng(10)
    return {
        name: rng.normal(0, 0.25, (length, rows)).astype(np.float32)
        for name, (length, _) in family.shapes.items()
    }


def test_rounds_of_one_shape_share_one_program():
    compiled = []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(duration)

    family = model("alike")
    encoded, params = family.encode(workload(family, 64)), family.init(9)

    def rounds(sizes):
        before = len(compiled)
        for n in sizes:
            chosen = encoded.take(np.arange(n))
            measured = MeasuredQueries(chosen, np.ones(n), np.full(n, 2.0))
            family.answers(params, chosen)
            family.fit(params, measured, AdamSettings(n, 1 / n))
        return len(compiled) - before

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        rounds([40])  # its two programs are compiled here, or were by another test
        assert rounds([64, 33, 50, 47]) == 0
        jax.jit(lambda x: x + 1)(1.0)
        assert compiled  # programs are seen
    finally:
        jax.monitoring.clear_event_listeners()


@pytest.mark.parametrize("name", ["alike", "others"])
def test_a_fit_reaches_answers_that_a_model_has(name):
    family = truth = model(name)
    queries = workload(family, 40)
    few = {k: 4 * v for k, v in starts(family, 4).items()}  # far from uniform
    true = truth.answers({k: np.tile(v, truth.rows // 4) for k, v in few.items()}, queries)
    params = family.init(11)
    start = np.abs(family.answers(params, queries) - true).max()
    for _ in range(3):
        params, done = family.fit(
            params, MeasuredQueries(queries, true, np.ones(40)), AdamSettings(60, 0.1)
        )
        assert done.best_error <= done.first_error
        assert (done.steps, done.finite) == (60, True)
    left = np.abs(family.answers(params, queries) - true)
    assert start > 100
    assert left.max() < 15  # of a thousand groups, or 2500 people; much slower steps leave 50
    assert done.best_error == pytest.approx((left**2).mean(), rel=0.01)


def test_what_was_measured_well_weighs_more():
    family, n = model(), 40
    queries = workload(family, n)
    twice = Queries.joined([queries, queries])
    params = family.init(12)
    value = family.answers(params, queries)
    values = np.concatenate([value + 30, value - 30])
    good, bad = np.full(n, 1.0), np.full(n, 100.0)
    up, _ = family.fit(
        params, MeasuredQueries(twice, values, np.concatenate([good, bad])), AdamSettings(100, 0.05)
    )
    down, _ = family.fit(
        params, MeasuredQueries(twice, values, np.concatenate([bad, good])), AdamSettings(100, 0.05)
    )
    assert (family.answers(up, queries) - family.answers(down, queries)).mean() > 10


def test_what_is_not_asked_decays():
    family = model()
    params, queries = family.init(13), workload(family, 40)
    asked = family.encode(queries).take(np.flatnonzero(queries.level == GROUP)[:1])
    # So far off that every update is an improvement.
    value = family.answers(params, asked, room=40) + 100
    measured = MeasuredQueries(asked, value, np.ones(1))
    after, done = family.fit(params, measured, AdamSettings(20, 0.01, 0.5), room=40)
    assert done.steps == 20
    kept = [np.median(after[name] / params[name]) for name in params]
    assert min(abs(k - 0.995**20) for k in kept) < 1e-5
    stays, _ = family.fit(params, measured, AdamSettings(20, 0.01), room=40)
    assert any(np.array_equal(stays[name], params[name]) for name in params)


def test_a_fit_repeats_itself_and_goes_on_from_bytes():
    family = model()
    queries = workload(family, 40)
    values = family.answers(family.init(13), queries)

    def once(params):
        return family.fit(
            params, MeasuredQueries(queries, values, np.ones(40)), AdamSettings(20, 0.1)
        )[0]

    middle = once(family.init(14))
    buffer = io.BytesIO()
    np.savez(buffer, **middle)
    buffer.seek(0)
    with np.load(buffer) as arrays:
        again = {k: arrays[k] for k in arrays.files}
    assert same(once(again), once(middle))
    assert same(once(once(family.init(14))), once(middle))
    assert same(family.init(14), family.init(14))
    assert not same(family.init(14), family.init(15))


def test_another_process_fits_the_same_bits():
    code = "import test_hpd_fit as t; print(t.digest())"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = run("-c", code, env=env)
    assert done.stdout.strip() == digest(), done.stderr


def digest():
    """Of a fit and of a sample from it."""
    family, digester = model("others"), hashlib.sha256()
    queries = workload(family, 40)
    values = family.answers(family.init(13), queries)
    params, _ = family.fit(
        family.init(14), MeasuredQueries(queries, values, np.ones(40)), AdamSettings(50, 0.1)
    )
    drawn = family.sample(params, 1000, 3)
    for array in (*params.values(), drawn.groups, drawn.people):
        digester.update(np.ascontiguousarray(array).tobytes())
    return digester.hexdigest()


@pytest.mark.parametrize("rate", [np.inf, np.nan, 1e38, 1e6])
def test_a_fit_that_diverges_keeps_what_is_finite(rate):
    family = model()
    queries, params = workload(family, 40), family.init(16)
    values = family.answers(family.init(17), queries)
    after, done = family.fit(
        params, MeasuredQueries(queries, values, np.ones(40)), AdamSettings(50, rate)
    )
    assert all(np.isfinite(v).all() for v in after.values())
    assert np.isfinite(done.best_error)
    assert done.best_error <= done.first_error
    if not np.isfinite(rate):
        assert same(after, params)
        assert not done.finite
        assert done.steps == 1
    again, _ = family.fit(
        params, MeasuredQueries(queries, values, np.ones(40)), AdamSettings(50, rate)
    )
    assert same(after, again)


def test_parameters_that_are_not_finite_are_returned():
    family = model()
    params = family.init(18)
    params["spouse"] = np.full_like(params["spouse"], np.nan)
    after, done = family.fit(
        params,
        MeasuredQueries(workload(family, 40), np.ones(40), np.ones(40)),
        AdamSettings(5, 0.1),
    )
    assert after is params
    assert (done.steps, done.finite) == (0, False)
    # A value that single precision cannot hold is no reason to lose anything either.
    params = family.init(18)
    after, done = family.fit(
        params,
        MeasuredQueries(workload(family, 40), np.full(40, 1e300), np.ones(40)),
        AdamSettings(5, 0.1),
    )
    assert after is params
    assert not done.finite


def test_nothing_measured_changes_nothing():
    family = model()
    params, queries = family.init(19), workload(family, 4)
    none = queries.take(slice(0, 0))
    assert (
        family.fit(params, MeasuredQueries(none, np.zeros(0), np.zeros(0)), AdamSettings(10, 0.1))[
            0
        ]
        is params
    )
    assert (
        family.fit(params, MeasuredQueries(queries, np.zeros(4), np.ones(4)), AdamSettings(0, 0.1))[
            0
        ]
        is params
    )
    assert family.answers(params, none).shape == (0,)


def test_what_does_not_fit_is_refused():
    family, queries = model("alike"), workload(model("alike"), 4)
    params, ones = family.init(20), np.ones(4)
    with pytest.raises(ValueError, match="another model's"):
        family.answers({k: v[:, 1:] for k, v in params.items()}, queries)
    with pytest.raises(ValueError, match="a value and a variance"):
        family.fit(params, MeasuredQueries(queries, ones, ones[:3]), AdamSettings(1, 0.1))
    for values, variances in [(ones * np.nan, ones), (ones, ones * 0), (ones, ones * np.inf)]:
        with pytest.raises(ValueError, match="finite"):
            family.fit(params, MeasuredQueries(queries, values, variances), AdamSettings(1, 0.1))
    with pytest.raises(ValueError, match="roles"):
        family.answers(params, Queries(np.array([2]), *(-np.ones((1, n)) for n in (3, 2, 2))))
    with pytest.raises(ValueError, match="columns"):
        family.answers(params, workload(model("typed"), 4))


def test_memory_does_not_grow_with_queries():
    family = model("alike", memory=1 << 19)  # chunks as long as in the other tests
    params, encoded = family.init(23), family.encode(workload(family, 4096))

    def temporary_bytes(n):
        ones = np.ones(n)
        chunks, _ = pack_queries(
            layout=family.layout,
            queries=encoded.take(np.arange(n)),
            length=family.length,
            target=ones,
            weight=ones,
        )
        lowered = fitting.adam.lower(
            family.layout, params, chunks, AdamSettings(1, 0.1).as_arguments()
        )
        return lowered.compile().memory_analysis().temp_size_in_bytes

    slots = family.layout.slots
    tables = 4 * family.rows * (slots * 8 + 3 + slots * 5 * 4)
    few, many = temporary_bytes(40), temporary_bytes(4096)

    assert many < 1.1 * few + 4096 * 64
    assert few < family.memory + 12 * tables


def test_layouts_of_domains():
    assert model_layout(DOMAINS["alike"]).slots == 3
    assert model_layout(DOMAINS["typed"]).slots == 4
    assert model_layout(DOMAINS["others"]).slots == 7
    assert model_layout(DOMAINS["others"], 0).types.other_codes == ()
    sizes = model_layout(DOMAINS["others"]).filled.sum(axis=1)
    assert (sizes.min(), sizes.max()) == (1, 4)
    assert model_layout(Domain((), (Column("a", (0, 1)),), 5)).heads == {
        "group": 0,
        "person": 10,
        "size": 5,
    }


def test_without_jax_there_is_one_clear_line():
    code = """
import sys
sys.modules["jax"] = None
import stream_dp, stream_dp.batch, stream_dp.batch.groups.workload.queries
from stream_dp.errors import UserError
for name in ("product_mixture", "adam", "product_answers"):
    try:
        __import__(f"stream_dp.batch.groups.hpd.{name}")
    except UserError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    line = "this release needs JAX; in a clone of stream-dp: pip install '.[batch]'"
    assert done.stdout.splitlines() == [line] * 3
