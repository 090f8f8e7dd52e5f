"""What `check` announces as the method of a table of people is what the fit does."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.studies import attribute, small_study

from stream_dp.batch.kinds import load_synthesizer, planned_phases, planned_titles
from stream_dp.batch.people import tree_model
from stream_dp.batch.people.mixture_model import BlockMixture, LinearMixture
from stream_dp.batch.people.people_table import People, study_people
from stream_dp.batch.people.target_shares import reduced_chi_squared
from stream_dp.batch.people.tree_model import TreeModel
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript
from stream_dp.log.message import canonical
from stream_dp.planning.plan import plan_study
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import Kind
from stream_dp.study.table_releases import PICKED_TITLE


def declared(kind, columns, rho, relation, size, **more):
    names = [f"c{i}" for i in range(columns)]
    release = {"name": "people", "kind": kind, "attributes": names, "rho": rho, "every": 1}
    return small_study(
        neighbours=relation,
        size=None if relation == "add_remove" else size,
        rho=50,
        attributes={name: attribute([0, 1, 2], missing=0) for name in names},
        releases=[{**release, **more}],
    )


def people_of(study, size):
    (release,) = study.batches
    domain = study_people(study, release)
    codes = np.random.default_rng(1).integers(0, 3, (size, len(domain.columns)))
    return People(domain, codes)


def learns_nothing(patch):
    """Models that measure, and learn nothing, which is what takes long."""
    patch.setattr(BlockMixture, "learn", lambda self, measured: (self, math.nan))
    patch.setattr(LinearMixture, "learn", lambda self, measured: (self, math.nan))
    patch.setattr(TreeModel, "learn", lambda self, measured: (self, math.nan))
    patch.setattr(TreeModel, "answers", lambda self, rows: np.zeros(len(rows)))


def drawn_study(draw):
    """A study of people, and how many there are."""
    kind = draw(st.sampled_from(["mixture", "rap", "match"]))
    columns = draw(st.sampled_from([2, 3, 6, 12, 23, 24, 30] if kind != "match" else [2, 3, 6, 12]))
    relation = draw(st.sampled_from(["add_remove", "replace_one", "replace_in_place"]))
    size = draw(st.sampled_from([1, 20, 300, 2000]))
    rho = draw(st.sampled_from(["1/100000", "1/2000", "1/50", "1", "15"]))
    more = {}
    if kind == "rap" and draw(st.booleans()):
        more["labels"] = ["c0"]
    if kind != "match" and draw(st.booleans()):
        more["rounds"] = draw(st.sampled_from([0, 3]))
    if kind == "match" and draw(st.booleans()):
        more["marginals"] = draw(st.sampled_from([[["c0", "c1"]], [["c1"]]]))
    return declared(kind, columns, rho, relation, size, **more), size


@given(st.data())
@settings(max_examples=12, deadline=None)
def test_a_certificate_says_what_was_announced(data):
    compare_announced_and_done(*drawn_study(data.draw))


@pytest.mark.slow
@given(st.data())
@settings(max_examples=100, deadline=None)
def test_a_hundred_certificates_say_what_was_announced(data):
    compare_announced_and_done(*drawn_study(data.draw))


def compare_announced_and_done(study, size):
    (release,) = study.batches
    announced = planned_titles(study, release)
    with pytest.MonkeyPatch.context() as patch:
        learns_nothing(patch)
        context = FitContext(SeededNoise(2), MemoryTranscript())
        fit = load_synthesizer(release.kind)(people_of(study, size), release, context)
    assert fit.title in announced
    if study.neighbours != "add_remove" and release.kind != "match":
        assert len(announced) == 1
    assert set(announced) <= set(release.titles)
    if not release.chosen or release.kind == "match":
        assert announced == release.titles
    (planned,) = plan_study(study).releases
    assert planned.facts["mechanism"] == "; or, as noisy counts decide, ".join(announced)
    phases = planned_phases(study, release)
    assert all(0 < phase.rho <= release.rho for phase in phases)


@pytest.mark.parametrize(
    ("kind", "columns", "rho", "more", "expected"),
    [
        ("rap", 24, 1, {"labels": ["c0"]}, PICKED_TITLE),
        ("mixture", 6, "1/2000", {}, PICKED_TITLE),
        ("mixture", 3, 10, {}, Kind.MIXTURE.data_set.mechanism),
    ],
)
def test_the_certificates_mechanism_is_the_announced_one(kind, columns, rho, more, expected):
    study = declared(kind, columns, rho, "replace_one", 300, **more)
    (release,) = study.batches
    assert planned_titles(study, release) == (expected,)
    if columns < 24:  # the others take long to fit, and are decided above
        context = FitContext(SeededNoise(2), MemoryTranscript())
        fit = load_synthesizer(kind)(people_of(study, 300), release, context)
        assert fit.title == expected
        assert isinstance(fit.model, TreeModel) == (expected == PICKED_TITLE)
        unknown = replace(fit, error=math.nan).notes
        assert fit.notes == {**unknown, "error_on_measurements": fit.error}
        assert canonical(dict(unknown))


def test_declared_marginals_have_the_same_unit_of_error(monkeypatch):
    seen = []

    def noted(squares, freedom):
        seen.append(reduced_chi_squared(squares, freedom))
        return seen[-1]

    monkeypatch.setattr(tree_model, "reduced_chi_squared", noted)
    study = declared("match", 3, 1, "replace_one", 300, marginals=[["c0", "c1"]])
    (release,) = study.batches
    assert planned_titles(study, release) == (Kind.MATCH.data_set.mechanism,)
    context = FitContext(SeededNoise(2), MemoryTranscript())
    fit = load_synthesizer("match")(people_of(study, 300), release, context)
    assert fit.notes["error_on_measurements"] == seen[-1]
    assert fit.title == Kind.MATCH.data_set.mechanism


def test_chi_squared_without_anything_that_could_differ_is_unknown():
    assert reduced_chi_squared(6, 3) == 2
    assert math.isnan(reduced_chi_squared(0, 0))
