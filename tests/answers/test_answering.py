"""What a share is of, in every kind of population; joint releases, strata, products, spans."""

import numpy as np
import pytest
from kit.public_logs import Silent, log_in_memory, public, published
from kit.studies import attribute, small_study

from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise

PEOPLE, COUNT = 400, 5
LABELS = [f"2021-0{i}" for i in range(1, COUNT + 1)]
RNG = np.random.default_rng(7)
# Of two values and 'absent': people come late, go, and some never come.
ABSENT = 2
COMING = RNG.choice(3, (PEOPLE, COUNT), p=[0.4, 0.3, 0.3]).astype(np.uint8)
COMING[: PEOPLE // 10] = ABSENT
STAYING = RNG.choice(2, (PEOPLE, COUNT), p=[0.6, 0.4]).astype(np.uint8)


def study(releases, *, relation="replace_one", missing=0, **more):
    named = [{"name": r["kind"], "attribute": "poor", "rho": "1", **r} for r in releases]
    return small_study(
        name="asked",
        neighbours=relation,
        rho="1000000",
        periods={"first": LABELS[0], "every": "month", "count": COUNT},
        size=None if relation == "add_remove" else PEOPLE,
        attributes={
            "poor": attribute([0, 1], missing=missing),
            "job": attribute(["no", "yes"], missing=(missing and "absent") or "no"),
            "region": attribute(["n", "s"], missing="absent", fixed=True),
        },
        releases=named,
        **more,
    )


WINDOW = {"kind": "window", "width": 3}
TOTALS = {"kind": "cumulative", "event": [1]}
JOINT = {"kind": "joint", "width": 3, "event": [1]}
OPEN = {"relation": "add_remove", "missing": "absent"}
CAP = {"rows": 600}


def exact(releases, symbols, stream="poor", **more):
    return public(study(releases, **more), {stream: symbols}, Silent())


def test_shares_of_those_present():
    asked = exact([{**WINDOW, **CAP}, {**TOTALS, **CAP, "size_share": "1/5"}], COMING, **OPEN)
    here = COMING[:, 3] != ABSENT
    estimate = asked.answer("window", "pattern 1", LABELS[3])
    assert estimate.people == "among respondents"
    assert estimate.value == pytest.approx((COMING[here, 3] == 1).mean())
    assert estimate.value == pytest.approx(estimate.synthetic, abs=0.01)
    everybody = asked.answer("window", "pattern 0|1", LABELS[3])
    assert (everybody.value, everybody.standard_error) == pytest.approx((1, 0), abs=1e-9)
    once = (COMING[:, :4] == 1).any(axis=1).sum()
    entered = (COMING[:, :4] != ABSENT).any(axis=1).sum()
    total = asked.answer("cumulative", "total at-least 1", LABELS[3])
    assert total.people == "who have entered by 2021-04"
    assert total.value == pytest.approx(once / entered)
    assert total.synthetic == pytest.approx(once / entered, abs=0.01)
    assert asked.answer("cumulative", "total at-least 1", count=True).synthetic == pytest.approx(
        (COMING == 1).any(axis=1).sum(), abs=3
    )


@pytest.mark.parametrize("query", ["pattern ? ? ?", "pattern absent", "pattern ? absent absent"])
def test_nobody_knows_how_many_are_absent_throughout(query):
    asked = exact([{**WINDOW, **CAP}], COMING, **OPEN)
    with pytest.raises(UserError, match="absent in all of 3 periods are never counted"):
        asked.answer("window", query, count=True)
    with pytest.raises(UserError, match="looks at 4 periods and the release at 3"):
        asked.answer("window", "pattern 1 ? ? 1")


def test_of_a_padded_panel_it_is_said_which_rows_are_padding():
    asked = exact([{**WINDOW, "padded": True}], STAYING)
    rows = asked.panel("window").rows
    for query, patterns in (
        ("pattern 1 0 1", 1),
        ("poor=1", 4),
        ("at-least 1 of last 2 poor=1", 6),
    ):
        counted = asked.answer("window", query, count=True)
        share = asked.answer("window", query)
        assert counted.padding == patterns * (rows - PEOPLE) / 8 > 0
        assert counted.synthetic - counted.padding == pytest.approx(counted.value)
        assert share.padding == pytest.approx(counted.padding / rows)
    assert exact([TOTALS], STAYING).answer("cumulative", "total at-least 1").padding == 0


def test_a_joint_release_answers_both_and_knows_the_sums_before_its_panel():
    asked = exact([JOINT], STAYING)
    for t in range(1, COUNT + 1):
        true = (STAYING[:, :t].sum(axis=1) >= 1).mean()
        estimate = asked.answer("joint", "total at-least 1", LABELS[t - 1])
        assert (estimate.value, estimate.synthetic) == pytest.approx((true, true), abs=0.01)
        assert estimate.people == "declared"
    estimate = asked.answer("joint", "consecutive 2 of last 3 poor=1")
    assert estimate.value == pytest.approx(estimate.synthetic, abs=0.01)
    assert estimate.sources == ("joint",)
    early = asked.answer("joint", "pattern 1", LABELS[1])
    assert early.value == pytest.approx((STAYING[:, 1] == 1).mean(), abs=0.01)
    for query in asked.queries("joint"):
        asked.answer("joint", query)


def test_totals_of_a_joint_release_of_people_who_come_and_go():
    asked = exact([{**JOINT, **CAP}], COMING, **OPEN)
    estimate = asked.answer("joint", "total at-least 2", count=True)
    assert estimate.value == pytest.approx(((COMING == 1).sum(axis=1) >= 2).sum())
    # Of those who have left nobody counts how many there are.
    with pytest.raises(UserError, match="the number of people is private and not measured"):
        asked.answer("joint", "total at-least 2")
    # The first histogram, of a later period, also counts who was there in the first.
    early = asked.answer("joint", "total at-least 1", LABELS[0])
    assert early.people == "who have entered by 2021-01"
    assert early.value == pytest.approx((COMING[:, 0] == 1).sum() / (COMING[:, 0] != ABSENT).sum())


def test_totals_alone_of_a_stratum_are_shares_of_nobody_known():
    asked = exact([{**TOTALS, **CAP, "where": {"region": "n"}}], COMING, "poor where region=n")
    with pytest.raises(UserError, match="private and not measured; ask for a count"):
        asked.answer("cumulative", "total at-least 1")
    assert asked.answer("cumulative", "total at-least 1", count=True).value > 0


def test_a_stratum_under_replacement_is_of_a_private_number():
    where = {**CAP, "where": {"region": "n"}}
    asked = exact([{**WINDOW, **where}, {**TOTALS, **where}], COMING, "poor where region=n")
    estimate = asked.answer("window", "pattern 1 ?")
    assert estimate.people == "among respondents"
    present = (COMING[:, -1] != ABSENT).sum()
    stayed = (COMING[:, -2] == 1) & (COMING[:, -1] != ABSENT)
    assert estimate.value == pytest.approx(stayed.sum() / present)
    total = asked.answer("cumulative", "total at-least 1", count=True)
    assert total.sources == ("window", "cumulative")
    with pytest.raises(UserError, match="the number of people is private and not measured"):
        asked.answer("cumulative", "total at-least 1")


def test_spans_of_their_own():
    asked = exact([{**WINDOW, "first": "2021-02"}, {**TOTALS, "last": "2021-04"}], STAYING)
    with pytest.raises(UserError, match="none at period '2021-01'; it has 2021-02 to 2021-05"):
        asked.answer("window", "pattern 1", LABELS[0])
    with pytest.raises(UserError, match="none at period '2021-05'; it has 2021-01 to 2021-04"):
        asked.answer("cumulative", "total at-least 1", LABELS[4])
    with pytest.raises(UserError, match="ask for 1 to 4 periods"):
        asked.answer("cumulative", "total at-least 5")
    true = (STAYING[:, 2:] == 1).all(axis=1).mean()
    assert asked.answer("window", "pattern 1 1 1").value == pytest.approx(true)


def test_products_of_attributes():
    codes = (STAYING + 2 * (RNG.random(STAYING.shape) < 0.5)).astype(np.uint8)
    both = {"attribute": ["job", "poor"]}
    asked = exact(
        [{**WINDOW, "width": 2, **both}, {**TOTALS, **both, "event": ["poor=1"]}], codes, "job&poor"
    )
    poor = codes % 2 == 1
    estimate = asked.answer("window", "pattern poor=1 job=yes&poor=1")
    assert estimate.value == pytest.approx((poor[:, -2] & (codes[:, -1] == 3)).mean())
    total = asked.answer("cumulative", "total at-least 2", count=True)
    assert total.value == pytest.approx((poor.sum(axis=1) >= 2).sum())
    table = asked.panel("window").table()
    assert table.column_names[:3] == ["row", "2021-01 job", "2021-01 poor"]


def test_the_terms_of_an_estimate():
    asked = exact([WINDOW, {**WINDOW, "name": "narrow", "width": 1}, TOTALS], STAYING)
    estimate = asked.answer("narrow", "pattern 1", LABELS[2])
    assert estimate.method == "best linear unbiased"
    assert estimate.sources == ("window", "narrow", "cumulative")
    assert (estimate.period, estimate.through) == ("2021-03", "2021-05")
    fields = estimate.as_dict()
    assert fields["sources"] == ["window", "narrow", "cumulative"]
    assert set(fields) >= {"value", "standard_error", "interval", "period", "query", "method"}


def test_later_periods_and_other_releases_say_more():
    declared = study([{**WINDOW, "strategy": "histogram"}, TOTALS])
    sent = published(declared, {"poor": STAYING}, SeededNoise(4))
    errors = []
    for last in LABELS[2:]:
        some = [m for m in sent if m.head.get("period", "") <= last]
        estimate = PublicLog(log_in_memory(some)).answer("window", "pattern 1 0 1", LABELS[2])
        assert estimate.through == last
        errors.append(estimate.standard_error)
    assert errors == sorted(errors, reverse=True)
    assert len(set(errors)) == 3
    alone = [m for m in sent if m.head.get("release") != "cumulative"]
    assert (
        PublicLog(log_in_memory(rechained(alone)))
        .answer("window", "pattern 1 0 1", LABELS[2])
        .standard_error
        > errors[-1]
    )


def rechained(sent):
    from stream_dp.log.message import START, build_message

    chained = []
    for one in sent:
        previous = chained[-1].hash if chained else START
        chained.append(build_message(len(chained), previous, one.head, one.parts))
    return chained


def test_answers_of_every_kind_are_right():
    for releases, symbols, more in (
        ([WINDOW, TOTALS], STAYING, {}),
        ([JOINT], STAYING, {}),
        ([{**WINDOW, **CAP}, {**TOTALS, **CAP, "size_share": "1/5"}], COMING, OPEN),
        ([WINDOW, {**TOTALS, "size_share": "1/5"}], STAYING, {"relation": "add_remove"}),
    ):
        asked = exact(releases, symbols, **more)
        for release in asked.study.releases:
            if release.kind != "cumulative":
                estimate = asked.answer(release.name, "pattern 1 ? 0", LABELS[3])
                true = (symbols[:, 1] == 1) & (symbols[:, 3] == 0)
                present = (symbols[:, 3] != ABSENT).sum()
                assert estimate.value == pytest.approx(true.sum() / present)
                assert estimate.method == "best linear unbiased"
            if release.kind != "window":
                estimate = asked.answer(release.name, "total at-least 2", LABELS[3], count=True)
                true = (symbols[:, :4] == 1).sum(axis=1) >= 2
                assert estimate.value == pytest.approx(true.sum())
                assert 0 < asked.answer(release.name, "total at-least 2", LABELS[3]).value < 1


def test_hardly_any_noise_is_no_fault():
    declared = study([{**WINDOW, "rho": "400000"}, {**TOTALS, "rho": "400000"}])
    asked = public(declared, {"poor": STAYING}, SeededNoise(1))
    estimate = asked.answer("window", "pattern 1 1 1", count=True)
    assert estimate.value == pytest.approx((STAYING[:, 2:] == 1).all(axis=1).sum(), abs=1e-3)
    assert estimate.standard_error < 1e-3
