"""Weighted answers: post-stratified by public totals, of strata and of tables of people."""

import numpy as np
import pyarrow as pa
import pytest
from kit.public_logs import Silent, public
from kit.studies import attribute, small_study, window

import stream_dp
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise

LABELS = ["2021-01", "2021-02", "2021-03"]
RNG = np.random.default_rng(6)
REGION = RNG.choice(2, 500, p=[0.7, 0.3])  # north, south
POOR = (RNG.random((500, 3)) < np.array([0.2, 0.6])[REGION, None]).astype(np.uint8)
POOR[RNG.random((500, 3)) < 0.1] = 2  # absent
TOTALS = {"south": 90_000, "north": 10_000}
SAMPLE = {"north": 350, "south": 150}
STREAMS = {
    f"poor where region={name}": np.where(REGION[:, None] == code, POOR, 2)
    for code, name in enumerate(["north", "south"])
}


def study_of(**more):
    strata = window("poor", "poor", width=1, rho=1, strata="region", rows=450)
    return small_study(
        rho=5,
        neighbours="add_remove",
        size=None,
        attributes={
            "poor": attribute([0, 1], missing="absent"),
            "region": attribute(["north", "south"], missing="absent", fixed=True),
        },
        releases=[strata, window("all", "poor", width=1, rho=1, rows=600)],
        **more,
    )


def weights(**more):
    return {"by": "region", "totals": TOTALS, **more}


def log_of(source, **more):
    study = study_of(**{"weights": weights(), **more})
    return public(study, {**STREAMS, "poor": POOR}, source)


def cell(code, t=2):
    people = (code == REGION) & (POOR[:, t] != 2)
    return POOR[people, t] == 1


def test_without_noise_it_is_the_post_stratified_share():
    log = log_of(Silent())
    expected = 0.1 * cell(0).mean() + 0.9 * cell(1).mean()
    for name in ("poor", "poor-north", "poor-south"):
        answer = log.answer(name, "weighted poor=1")
        assert answer.value == pytest.approx(expected)
    assert answer.query == "weighted poor=1"
    assert answer.people == "of the population, weighted by region"
    assert (answer.weighted_by, answer.synthetic) == ("region", None)
    assert set(answer.sources) == {"poor-north", "poor-south"}
    total = log.answer("poor", "weighted poor=1", count=True)
    assert total.value == pytest.approx(100_000 * expected)
    assert total.standard_error == pytest.approx(100_000 * answer.standard_error)
    assert total.interval == pytest.approx([100_000 * end for end in answer.interval])
    plain = log.answer("all", "poor=1").value
    assert abs(plain - expected) > 0.1


def test_with_declared_numbers_it_is_linear_in_the_measurements():
    log = log_of(SeededNoise(2), weights=weights(sample=SAMPLE))
    cells = [log.answer(f"poor-{name}", "poor=1", count=True) for name in TOTALS]
    factors = [TOTALS[name] / SAMPLE[name] for name in TOTALS]
    total = log.answer("poor", "weighted poor=1", count=True)
    value = sum(f * c.value for f, c in zip(factors, cells, strict=True))
    variance = sum((f * c.standard_error) ** 2 for f, c in zip(factors, cells, strict=True))
    assert total.value == pytest.approx(value)
    assert total.standard_error == pytest.approx(variance**0.5)
    reach = stream_dp.release.answer.QUANTILE * total.standard_error
    assert total.interval == pytest.approx((total.value - reach, total.value + reach))
    share = log.answer("poor", "weighted poor=1")
    assert share.value == pytest.approx(total.value / 100_000)


def test_with_noisy_numbers_the_error_is_of_the_first_order():
    log = log_of(SeededNoise(3))
    cells = [log.answer(f"poor-{name}", "poor=1") for name in TOTALS]
    answer = log.answer("poor", "weighted poor=1")
    shares = [0.9, 0.1]
    variance = sum((w * c.standard_error) ** 2 for w, c in zip(shares, cells, strict=True))
    assert answer.standard_error == pytest.approx(variance**0.5)
    for side in (0, 1):
        distances = [c.value - c.interval[side] for c in cells]
        reach = np.hypot(*(w * d for w, d in zip(shares, distances, strict=True)))
        assert abs(answer.value - answer.interval[side]) == pytest.approx(reach)


def test_changes_and_comparisons_know_the_covariance():
    log = log_of(SeededNoise(4))
    query = stream_dp.ReleaseQuery("poor", "weighted poor=1", LABELS[2])
    change = log.change(query, query._replace(period=LABELS[0]))
    cells = [
        log.change(
            stream_dp.ReleaseQuery(f"poor-{name}", "poor=1", LABELS[2]),
            stream_dp.ReleaseQuery(f"poor-{name}", "poor=1", LABELS[0]),
        )
        for name in TOTALS
    ]
    assert change.value == pytest.approx(0.9 * cells[0].value + 0.1 * cells[1].value)
    variance = (0.9 * cells[0].standard_error) ** 2 + (0.1 * cells[1].standard_error) ** 2
    assert change.standard_error == pytest.approx(variance**0.5)
    mixed = log.answers([query, stream_dp.ReleaseQuery("poor-north", "poor=1", LABELS[2])])
    north = log.answer("poor-north", "poor=1", LABELS[2]).standard_error
    assert mixed.covariance[0, 1] == pytest.approx(0.1 * north**2)


def test_sampling_adds_the_variance_of_each_cell():
    log = log_of(Silent(), sampling={"fraction": "1/10", "design_effect": 2})
    answer = log.answer("poor", "weighted poor=1")
    cells = [log.answer(f"poor-{name}", "poor=1") for name in TOTALS]
    variance = sum(
        (w * c.sampled.standard_error) ** 2 for w, c in zip([0.9, 0.1], cells, strict=True)
    )
    assert answer.sampled.standard_error == pytest.approx(variance**0.5)
    assert answer.sampled.covers == "noise and sampling with design effect 2"
    low, high = answer.sampled.interval
    assert low < answer.interval[0] < answer.interval[1] < high
    (south,) = [c for c, name in zip(cells, TOTALS, strict=True) if name == "south"]
    p, n = south.value, cell(1).size
    noise = south.standard_error**2
    assert south.sampled.standard_error**2 - noise == pytest.approx(2 * 0.9 * p * (1 - p) / n)
    declared = log_of(
        Silent(), sampling={"fraction": "1/10"}, weights=weights(sample=SAMPLE)
    ).answer("poor", "weighted poor=1")
    assert declared.sampled.covers == "noise and simple random sampling"
    assert declared.sampled.standard_error > declared.standard_error


@pytest.mark.parametrize(
    ("name", "query", "words"),
    [
        ("all", "weighted poor=1", "needs a release of every value of 'region'"),
        ("rich", "weighted poor=1", "needs a release of every value of 'region'"),
        ("poor", "weighted poor=1 among poor=0", "both weighted answers together"),
        ("poor", "weighted weighted poor=1", "write 'weighted' once"),
        ("poor", "weighted poor=3", "'3' is no value"),
        ("poor", "weighted", "has no such release"),
    ],
)
def test_refusals_say_what_to_do(name, query, words):
    with pytest.raises(UserError, match=words):
        log_of(Silent()).answer(name, query)


def test_a_part_s_share_is_a_ratio_of_weighted_answers():
    log = log_of(Silent())
    parts = [("poor", "weighted poor=1", None), ("poor", "weighted poor=0|1", None)]
    assert log.answers(parts).ratio(0, 1).value == pytest.approx(
        0.1 * cell(0).mean() + 0.9 * cell(1).mean()
    )


def test_an_empty_cell_is_refused_in_words():
    streams = STREAMS | {"poor where region=south": np.full_like(POOR, 2)}
    study = study_of(weights=weights())
    log = public(study, {**streams, "poor": POOR}, SeededNoise(1))
    with pytest.raises(UserError, match="the cell region=south has no interval: the noisy number"):
        log.answer("poor", "weighted poor=1")


def test_counts_and_declared_numbers_do_not_mix():
    log = log_of(Silent(), weights=weights(sample=SAMPLE))
    both = [("poor", "weighted poor=1", None), ("poor-north", "poor=1", None)]
    with pytest.raises(UserError, match="ask one by one"):
        log.answers(both)
    assert len(log.answers(both, count=True).answers) == 2


def test_a_table_of_people_is_weighted_by_its_column():
    study = stream_dp.parse_study(
        {
            "study": {
                **{"name": "t", "unit": "person", "neighbours": "replace_one", "rho": 10**4},
                **{"delta": "1/1000000", "population": {"size": 500}},
                "periods": {"first": LABELS[0], "every": "month", "count": 1},
                "weights": {"by": "region", "totals": TOTALS},
                "sampling": {"fraction": "1/10"},
            },
            "attributes": {
                "poor": {"values": ["no", "yes"], "missing": "absent"},
                "region": {"values": ["north", "south"], "missing": "north"},
            },
            "releases": [
                {"name": "table", "kind": "mixture", "attributes": ["poor", "region"], "every": 1}
                | {"rho": 10**4}
            ],
        }
    )
    reports = pa.table(
        {
            "person": [str(i) for i in range(500)],
            "period": [LABELS[0]] * 500,
            "poor": [("no", "yes", None)[code] for code in POOR[:, 2]],
            "region": [("north", "south")[code] for code in REGION],
        }
    )
    log = stream_dp.run_study(study, reports, simulation_seed=1)
    respondents = log.answer("table", "poor=yes")
    assert respondents.base == "respondents"
    assert respondents.interval == log.answer("table", "poor=yes among respondents").interval
    present = POOR[POOR[:, 2] != 2, 2]
    assert respondents.value == pytest.approx(present.mean(), abs=0.01)
    assert respondents.sampled.covers == "noise and simple random sampling"
    answer = log.answer("table", "weighted poor=yes")
    assert answer.value == pytest.approx(0.1 * cell(0).mean() + 0.9 * cell(1).mean(), abs=0.01)
    assert answer.sampled.interval[1] > answer.interval[1]
    queries = log.queries("table")
    assert {"poor=yes among everybody", "weighted poor=yes"} <= {*queries}
    assert log.study.hash == study.hash
