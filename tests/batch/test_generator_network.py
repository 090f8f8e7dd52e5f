"""HPD-Gen: the network's first rows, its gradient, and a fit in the adaptive loop."""

from fractions import Fraction

import numpy as np
import pytest
from households import model, workload
from kit import small_groups
from kit.small_groups import Never

from stream_dp.batch import kinds
from stream_dp.batch.groups.hpd import hpd_synthesizer as mixture
from stream_dp.batch.groups.hpd.adam import AdamSettings, FitSummary, compiled_logits
from stream_dp.batch.groups.hpd.generator_network import BIAS, LATENT
from stream_dp.batch.groups.hpd.product_mixture import HPD, SPREAD, MeasuredQueries
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import Kind
from stream_dp.study.group_releases import BatchRelease

TRUTH = small_groups.hierarchy(groups=2000)
HIDDEN = (32, 32)


def release(**more):
    facts = {"rho": Fraction(1), "every": 1, "rounds": 4, "per_round": 2, "ways": 2, **more}
    return BatchRelease(name="r", kind="hpd-gen", attributes=("a", "b"), **facts)


def test_a_step_goes_against_the_gradient_and_keeps_the_columns():
    """One tiny step of Adam moves every trained parameter by the rate, and the error falls."""
    family = model("alike", hidden=HIDDEN)
    params, queries = family.init(5), workload(family, 40)
    values = family.answers(family.init(6), queries)

    def error(params):
        return ((family.answers(params, queries) - values) ** 2).mean()

    after, _ = family.fit(
        params, MeasuredQueries(queries, values, np.ones(40)), AdamSettings(1, 1e-4)
    )
    assert after.keys() == params.keys()
    assert np.array_equal(after[LATENT], params[LATENT])
    for name, old in params.items():
        moved = np.abs(after[name] - old)
        assert (moved < 1.1e-4).all()
        if name != LATENT:
            assert (moved > 0.9e-4).mean() > 0.4, name
            assert error({**params, name: after[name]}) < error(params)


def test_a_network_begins_with_members_alike_and_keeps_its_biases():
    family = model("alike", hidden=HIDDEN)
    params, queries = family.init(13), workload(family, 40)
    logits = np.asarray(compiled_logits(family.layout, params)["person"])
    slots = logits.reshape(family.layout.slots, -1, family.rows)
    np.testing.assert_allclose(slots, np.broadcast_to(slots[:1], slots.shape), atol=1e-6)
    assert np.ptp(slots, axis=-1).max() > 0.1  # but rows differ

    values = family.answers(family.init(6), queries) + 100
    measured = MeasuredQueries(queries, values, np.ones(40))
    params = {k: v + np.float32(0.5) if k.endswith(BIAS) else v for k, v in params.items()}
    free, _ = family.fit(params, measured, AdamSettings(1, 1e-3))
    decayed, _ = family.fit(params, measured, AdamSettings(1, 1e-3, 0.5))
    for name, old in params.items():
        lost = 0 if name.endswith(BIAS) or name == LATENT else 1e-3 * 0.5
        np.testing.assert_allclose(free[name] - decayed[name], lost * old, atol=1e-6)


def test_the_first_logits_have_about_the_variance_of_hpd_fixed():
    family = HPD(TRUTH.domain, 10, 20, 400, hidden=(256, 256))
    logits = compiled_logits(family.layout, family.init(1))
    assert np.concatenate([*logits.values()]).var() == pytest.approx(SPREAD, rel=0.35)


def test_it_learns_and_repeats_itself(monkeypatch):
    monkeypatch.setattr(mixture, "ROWS", 20)
    monkeypatch.setattr(mixture, "HIDDEN", (16,))
    monkeypatch.setattr(mixture, "NETWORK_UPDATES", AdamSettings(150, 0.01))
    transcript, fit = MemoryTranscript(), kinds.load_synthesizer("hpd-gen")
    fitted = fit(TRUTH, release(rows=20), FitContext(SeededNoise(1), transcript))
    assert fitted.title == Kind.HPD_GEN.data_set.mechanism
    sample, queries = fitted.sample(3), fitted.workload.queries
    assert sample.G == TRUTH.G
    shares = exact_answers(sample, queries) / sample.G, exact_answers(TRUTH, queries) / TRUTH.G
    assert np.abs(shares[0] - shares[1]).max() < 0.1
    again = fit(TRUTH, release(rows=20), FitContext(Never(), transcript))
    assert (again.sample(3).people == sample.people).all()
    for name, value in fitted.model.params.items():
        assert (again.model.params[name] == value).all()


def test_the_last_round_has_more_updates_and_noise_more_decay(monkeypatch):
    """A prior of weight 1 at most, in proportion to the variance of an answer."""
    settings = []

    def fit(self, params, measured, updates, room):
        settings.append(updates)
        return params, FitSummary(1.0, 1.0, 0, True)

    monkeypatch.setattr(HPD, "fit", fit)
    noisy = []
    for rho in (Fraction(1), Fraction(1, 2), Fraction(1, 10**6)):
        settings.clear()
        mixture.fit_generator(TRUTH, release(rho=rho, rows=20), FitContext(SeededNoise(1)))
        steps = [s.steps for s in settings]
        assert steps[-1] == mixture.LAST_UPDATES
        assert {*steps[:-1]} == {mixture.NETWORK_UPDATES.steps}
        noisy.append(settings[0].decay)
    assert noisy[1] == pytest.approx(min(1, 2 * noisy[0]), rel=1e-3)
    assert 0 < noisy[0] < noisy[2] == 1
