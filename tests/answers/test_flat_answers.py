"""The answers of one publication as flat records: unique, finite, and those of the publication."""

import math

import pytest
from kit.kinds_of_releases import PEOPLE, published

import stream_dp
from stream_dp.answers.flat_answers import flat_answers
from stream_dp.study.families import PANEL_FAMILIES, Kind


@pytest.fixture(scope="module", params=[k.value for k in Kind])
def log(request):
    return Kind(request.param), stream_dp.PublicLog(published(Kind(request.param)))


def test_each_answer_occurs_once_and_is_finite(log):
    _, public = log
    keys = set()
    for release in public.published:
        answers = flat_answers(public.study, release)
        assert answers
        for answer in answers:
            keys.add((answer.period, answer.region, answer.query, answer.measure))
            assert math.isfinite(answer.value)
            assert answer.message == release.message.hash
            assert answer.simulated
            if answer.error is not None and answer.lower is not None:
                assert answer.lower <= answer.value <= answer.upper
        assert {a.study for a in answers} == {public.study.name}
    assert len(keys) == sum(len(flat_answers(public.study, r)) for r in public.published)


def test_panels_have_the_estimates_of_their_release(log):
    kind, public = log
    if kind.family not in PANEL_FAMILIES:
        pytest.skip("of panels")
    release = public.published[-1]
    stated = {row["query"]: row for row in release.estimates.to_pylist()}
    answers = flat_answers(public.study, release)
    assert len(answers) == 2 * len(stated)
    for answer in answers:
        whole = {"count": 1, "share": PEOPLE}[answer.measure]
        row = stated[answer.query]
        assert answer.value == pytest.approx(row["value"] / whole, rel=1e-8)
        assert answer.error == pytest.approx(row["standard_error"] / whole, rel=1e-8)


def test_data_sets_have_the_answers_of_an_analyst(log):
    kind, public = log
    if kind.family in PANEL_FAMILIES:
        pytest.skip("of data sets")
    for answer in flat_answers(public.study, public.published[-1])[:20]:
        region = tuple(filter(None, answer.region.split("/"))) or None
        count = None if kind.family.value == "sizes" else answer.measure == "count"
        asked = public.answer("answers", answer.query, answer.period, count=count, region=region)
        assert answer.value == pytest.approx(asked.value, rel=1e-8)
        assert (answer.error is None) == (asked.standard_error is None)
