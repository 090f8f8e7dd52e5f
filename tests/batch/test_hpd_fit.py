"""Fitting hierarchical product distributions: gradients, programs, rounds, divergence, samples."""

import hashlib
import io
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from households import DOMAINS, counted, expected, random_queries
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dp.batch.data.domain import Column, Domain
from stream_dp.batch.hpd import fit as fitting
from stream_dp.batch.hpd.answers import loss_and_gradient
from stream_dp.batch.hpd.layout import model_layout, pack_queries
from stream_dp.batch.hpd.mixture import HPD
from stream_dp.batch.workload import counts as exact
from stream_dp.batch.workload.queries import GROUP, Queries

GROUPS, PEOPLE = 1000, 2500
gradient_of = jax.jit(loss_and_gradient, static_argnums=0)
FORMS = {"fixed": (None, 0.1), "generated": ((32, 32), 0.003)}


def model(name="typed", form="fixed", rows=20, **more):
    return HPD(DOMAINS[name], GROUPS, PEOPLE, rows, FORMS[form][0], 8, 2, **more)


def workload(made, n, seed=1):
    return random_queries(np.random.default_rng(seed), made.layout, n)


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("name", DOMAINS)
def test_the_gradient_is_that_of_the_sum_over_all_households(name):
    made, rng = model(name, rows=2), np.random.default_rng(2)
    logits, queries = made.init(3), workload(made, 40)
    target, weight = rng.random(40), rng.random(40)
    chunks, _ = pack_queries(made.layout, made.encode(queries), 16, target, weight)
    value, gradient = gradient_of(made.layout, logits, chunks)

    def error(logits):
        return (weight * (expected(made.layout, logits, queries) - target) ** 2).sum()

    assert float(value) == pytest.approx(error(logits), rel=1e-5)
    for _ in range(2):
        way = {k: rng.normal(size=v.shape) for k, v in logits.items()}
        ahead, behind = ({k: v + h * way[k] for k, v in logits.items()} for h in (1e-4, -1e-4))
        slope = sum((np.asarray(gradient[k], float) * way[k]).sum() for k in way)
        assert slope == pytest.approx((error(ahead) - error(behind)) / 2e-4, rel=1e-4, abs=1e-6)


def test_the_gradient_goes_through_the_network():
    made = model(form="generated")
    params, queries = made.init(5), workload(made, 40)
    values = made.answers(made.init(6), queries)

    def error(params):
        return ((made.answers(params, queries) - values) ** 2).mean()

    # One tiny step of Adam moves every parameter by the rate, against its gradient's sign.
    after, _ = made.fit(params, queries, values, np.ones(40), 1, 1e-4)
    for name, old in params.items():
        moved = np.abs(after[name] - old)
        assert (moved < 1.1e-4).all()
        assert name == fitting.LATENT or (moved > 0.9e-4).mean() > 0.5, name
        one = {**params, name: after[name]}
        assert name == fitting.LATENT or error(one) < error(params)
    assert np.array_equal(after[fitting.LATENT], params[fitting.LATENT])


@pytest.mark.parametrize("name", DOMAINS)
def test_padding_adds_nothing(name):
    made, rng = model(name), np.random.default_rng(7)
    logits, encoded = made.init(8), made.encode(workload(made, 37))
    target, weight = rng.random(37), rng.random(37)

    def summed(rows, length):
        chunks, _ = pack_queries(
            made.layout, encoded.take(rows), length, target[rows], weight[rows]
        )
        value, gradient = gradient_of(made.layout, logits, chunks)
        return float(value), {k: np.asarray(g, float) for k, g in gradient.items()}

    value, gradient = summed(np.arange(37), 64)
    alone = [summed(np.array([i]), 1) for i in range(37)]
    assert value == pytest.approx(sum(v for v, _ in alone), rel=1e-5)
    for k, g in gradient.items():
        np.testing.assert_allclose(g, sum(one[k] for _, one in alone), rtol=1e-4, atol=1e-7)


def test_rounds_of_one_shape_share_one_program():
    compiled = []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(duration)

    made = model("others", rows=23)  # a shape of its own
    encoded, params = made.encode(workload(made, 500)), made.init(9)

    def rounds(sizes):
        before = len(compiled)
        for n in sizes:
            chosen = encoded.take(np.arange(n))
            made.answers(params, chosen)
            made.fit(params, chosen, np.ones(n), np.full(n, 2.0), n, 1 / n)
        return len(compiled) - before

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        assert rounds([40]) == 2
        assert rounds([64, 33, 50, 47]) == 0
        assert rounds([400]) > 0
    finally:
        jax.monitoring.clear_event_listeners()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", DOMAINS)
def test_a_fit_reaches_answers_that_a_model_has(name, form):
    made, truth = model(name, form, rows=50), model(name, rows=4)
    queries, rate = workload(made, 120), FORMS[form][1]
    rows = {k: 4 * v for k, v in truth.init(10).items()}  # far from uniform
    true = truth.answers(rows, queries)
    params = made.init(11)
    start = np.abs(made.answers(params, queries) - true).max()
    for _ in range(4):
        params, done = made.fit(params, queries, true, np.ones(120), 200, rate)
        assert done.after <= done.before
        assert (done.steps, done.finite) == (200, True)
    left = np.abs(made.answers(params, queries) - true)
    assert start > 100
    assert left.max() < 6  # of a thousand groups, or 2500 people
    assert done.after == pytest.approx((left**2).mean(), rel=0.01)


def test_what_was_measured_well_weighs_more():
    made, n = model(), 40
    queries = workload(made, n)
    twice = Queries.joined([queries, queries])
    params = made.init(12)
    value = made.answers(params, queries)
    values = np.concatenate([value + 30, value - 30])
    good, bad = np.full(n, 1.0), np.full(n, 100.0)
    up, _ = made.fit(params, twice, values, np.concatenate([good, bad]), 100, 0.05)
    down, _ = made.fit(params, twice, values, np.concatenate([bad, good]), 100, 0.05)
    assert (made.answers(up, queries) - made.answers(down, queries)).mean() > 10


def test_what_is_not_asked_decays():
    made = model()
    params, queries = made.init(13), workload(made, 40)
    asked = queries.take(np.flatnonzero(queries.level == GROUP)[:1])
    value = made.answers(params, asked) + 100  # so far off that every update is an improvement
    after, done = made.fit(params, asked, value, np.ones(1), 20, 0.01, 0.5)
    assert done.steps == 20
    kept = [np.median(after[name] / params[name]) for name in params]
    assert min(abs(k - 0.995**20) for k in kept) < 1e-5
    stays, _ = made.fit(params, asked, value, np.ones(1), 20, 0.01)
    assert any(np.array_equal(stays[name], params[name]) for name in params)


@pytest.mark.parametrize("form", FORMS)
def test_a_fit_repeats_itself_and_goes_on_from_bytes(form):
    made, rate = model(form=form), FORMS[form][1]
    queries = workload(made, 40)
    values = made.answers(made.init(13), queries)

    def once(params):
        return made.fit(params, queries, values, np.ones(40), 20, rate)[0]

    middle = once(made.init(14))
    held = io.BytesIO()
    np.savez(held, **middle)
    held.seek(0)
    with np.load(held) as arrays:
        again = {k: arrays[k] for k in arrays.files}
    assert same(once(again), once(middle))
    assert same(once(once(made.init(14))), once(middle))
    assert same(made.init(14), made.init(14))
    assert not same(made.init(14), made.init(15))


def test_another_process_fits_the_same_bits():
    code = "import test_hpd_fit as t; print(t.digest())"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    told = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(told, capture_output=True, text=True, env=env)
    assert done.stdout.strip() == digest(), done.stderr


def digest():
    """Of a fit and of a sample from it."""
    made, found = model("others"), hashlib.sha256()
    queries = workload(made, 40)
    values = made.answers(made.init(13), queries)
    params, _ = made.fit(made.init(14), queries, values, np.ones(40), 50, 0.1)
    drawn = made.sample(params, 1000, 3)
    for array in (*params.values(), drawn.groups, drawn.people):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("rate", [np.inf, np.nan, 1e38, 1e6])
@pytest.mark.parametrize("form", FORMS)
def test_a_fit_that_diverges_keeps_what_is_finite(form, rate):
    made = model(form=form)
    queries, params = workload(made, 40), made.init(16)
    values = made.answers(made.init(17), queries)
    after, done = made.fit(params, queries, values, np.ones(40), 50, rate)
    assert all(np.isfinite(v).all() for v in after.values())
    assert np.isfinite(done.after)
    assert done.after <= done.before
    if not np.isfinite(rate):
        assert same(after, params)
        assert not done.finite
        assert done.steps == 1
    again, _ = made.fit(params, queries, values, np.ones(40), 50, rate)
    assert same(after, again)


def test_parameters_that_are_no_good_are_given_back():
    made = model()
    params = made.init(18)
    params["spouse"] = np.full_like(params["spouse"], np.nan)
    after, done = made.fit(params, workload(made, 40), np.ones(40), np.ones(40), 5, 0.1)
    assert after is params
    assert (done.steps, done.finite) == (0, False)
    # A value that single precision cannot hold is no reason to lose anything either.
    params = made.init(18)
    after, done = made.fit(params, workload(made, 40), np.full(40, 1e300), np.ones(40), 5, 0.1)
    assert after is params
    assert not done.finite


def test_nothing_measured_changes_nothing():
    made = model()
    params, queries = made.init(19), workload(made, 4)
    none = queries.take(slice(0, 0))
    assert made.fit(params, none, np.zeros(0), np.zeros(0), 10, 0.1)[0] is params
    assert made.fit(params, queries, np.zeros(4), np.ones(4), 0, 0.1)[0] is params
    assert made.answers(params, none).shape == (0,)


def test_what_does_not_fit_is_refused():
    made, queries = model("alike"), workload(model("alike"), 4)
    params, one = made.init(20), np.ones(4)
    with pytest.raises(ValueError, match="another model's"):
        made.answers(model("alike", rows=21).init(20), queries)
    with pytest.raises(ValueError, match="a value and a variance"):
        made.fit(params, queries, one, one[:3], 1, 0.1)
    for values, variances in [(one * np.nan, one), (one, one * 0), (one, one * np.inf)]:
        with pytest.raises(ValueError, match="finite"):
            made.fit(params, queries, values, variances, 1, 0.1)
    with pytest.raises(ValueError, match="roles"):
        made.answers(params, Queries(np.array([2]), *(-np.ones((1, n)) for n in (3, 2, 2))))
    with pytest.raises(ValueError, match="columns"):
        made.answers(params, workload(model("typed"), 4))


@given(seed=st.integers(0, 2**32 - 1), spread=st.sampled_from([0.0, 1.0, 40.0, 1e6]))
@settings(max_examples=40)
@pytest.mark.parametrize("name", DOMAINS)
def test_every_sample_is_a_valid_household(name, seed, spread):
    made, rng = model(name), np.random.default_rng(seed)
    params = {k: (spread * rng.normal(size=s)).astype(np.float32) for k, s in made.shapes.items()}
    drawn = made.sample(params, 200, seed)  # Hierarchy refuses sizes, codes and roles that are not
    assert drawn.G == 200
    again = made.sample(params, 200, seed)
    assert np.array_equal(drawn.people, again.people)
    assert np.array_equal(drawn.groups, again.groups)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", DOMAINS)
def test_a_sample_answers_as_the_model_does(name, form):
    made = model(name, form)
    params, queries = made.init(21), workload(made, 300)
    drawn = made.sample(params, 40_000, 22)
    added = counted(made.layout, drawn.groups, drawn.people, drawn.group_of, queries)
    assert np.array_equal(added.sum(axis=0), exact.exact_answers(drawn, queries))
    of_groups = queries.level == GROUP
    share = made.answers(params, queries) / np.where(of_groups, GROUPS, PEOPLE)
    excess = added - share * np.where(of_groups, 1, np.diff(drawn.starts)[:, None])
    error = excess.std(axis=0) / drawn.G**0.5
    assert (np.abs(excess.mean(axis=0)) < 6 * error + 1e-6).all()


def test_memory_does_not_grow_with_queries():
    made = model("typed", rows=500, memory=1 << 22)
    params, encoded = made.init(23), made.encode(workload(made, 4096))

    def taken(n):
        ones = np.ones(n)
        chunks, _ = pack_queries(made.layout, encoded.take(np.arange(n)), made.length, ones, ones)
        lowered = fitting.adam.lower(
            made.layout, params, chunks, np.int32(1), *np.float32([0.1, 0])
        )
        return lowered.compile().memory_analysis().temp_size_in_bytes

    tables = 4 * 500 * (made.layout.slots * 8 + 3 + made.layout.slots * 5 * 4)
    few, many = taken(64), taken(4096)
    assert many < 1.1 * few + 4096 * 64
    assert few < made.memory + 12 * tables


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
import stream_dp, stream_dp.batch, stream_dp.batch.workload.queries
from stream_dp.errors import UserError
for name in ("mixture", "fit", "answers"):
    try:
        __import__(f"stream_dp.batch.hpd.{name}")
    except UserError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.splitlines() == ["this release needs JAX: pip install 'stream-dp[batch]'"] * 3
    )
