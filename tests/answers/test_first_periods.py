"""The first window of a panel answers for the periods before its own."""

import numpy as np
import pytest
from kit.public_logs import Silent, log_in_memory, public, published, with_weights
from kit.studies import attribute, small_study

from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise

PEOPLE, COUNT, WIDTH, ABSENT = 300, 5, 3, 2
LABELS = [f"2021-0{i}" for i in range(1, COUNT + 1)]
SYMBOLS = np.random.default_rng(5).choice(3, (PEOPLE, COUNT), p=[0.5, 0.3, 0.2]).astype(np.uint8)
SYMBOLS[:, 0] %= 2  # everybody is there at first
# By case: the missing rule, the relation, and whether the cohort is closed.
CASES = {
    "everybody": (0, "replace_one", False),
    "absence": ("absent", "replace_one", False),
    "people come and go": ("absent", "add_remove", False),
    "late entry": (0, "add_remove", False),
    "closed cohort": (0, "add_remove", True),
}
KINDS = {"window": {}, "joint": {"event": [1]}}


def log_of(case, kind="window", source=None):
    missing, relation, closed = CASES[case]
    private = relation == "add_remove"
    bound = {"rows": 400} if private and missing == "absent" else {}
    study = small_study(
        name="first",
        neighbours=relation,
        rho="4000",
        periods={"first": LABELS[0], "every": "month", "count": COUNT},
        size=None if private else PEOPLE,
        **({"population": {"closed": True}} if closed else {}),
        attributes={"poor": attribute([0, 1], missing=missing)},
        releases=[
            {
                **{"name": "poor", "attribute": "poor", "rho": "4000", "kind": kind},
                **{"width": WIDTH, **bound, **KINDS[kind]},
            }
        ],
    )
    symbols = SYMBOLS if missing == "absent" else SYMBOLS % 2
    return public(study, {"poor": symbols}, source or Silent()), symbols


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_they_are_the_people_s_own_without_noise(case, kind):
    log, symbols = log_of(case, kind)
    assert log.periods_of("poor") == LABELS[WIDTH - 1 :]
    assert log.periods_with("poor", "poor=1") == LABELS
    assert log.periods_with("poor", "pattern 1 ?") == LABELS[1:]
    for t, label in enumerate(LABELS):
        here = symbols[:, t] != ABSENT
        answer = log.answer("poor", "poor=1", label)
        assert answer.value == pytest.approx((symbols[:, t] == 1).sum() / here.sum(), abs=1e-3)
        assert answer.synthetic == pytest.approx(answer.value, abs=0.02)
        assert answer.period == label
        counted = log.answer("poor", "poor=0", label, count=True)
        assert counted.value == pytest.approx((symbols[:, t] == 0).sum(), abs=0.1)
        if t:
            since = log.answer("poor", "pattern 1 0|1", label, count=True)
            both = (symbols[:, t - 1] == 1) & here
            assert since.value == pytest.approx(both.sum(), abs=0.1)


def test_an_early_answer_is_the_same_question_to_the_first_window():
    log, _ = log_of("absence", source=SeededNoise(3))
    early = log.answer("poor", "poor=1", LABELS[0], count=True)
    wide = log.answer("poor", "pattern 1 ? ?", LABELS[WIDTH - 1], count=True)
    assert (early.value, *early.interval) == pytest.approx((wide.value, *wide.interval))
    rows = {r["query"] for r in log.answer_table("poor").to_pylist() if r["period"] == LABELS[1]}
    assert {"pattern 1", "pattern absent 1", "at-least 1 of last 2 poor=1"} <= rows


def test_early_answers_of_least_error_are_those_of_the_first_window():
    declared, symbols = log_of("absence")
    messages = published(declared.study, {"poor": symbols}, SeededNoise(3))
    log = PublicLog(log_in_memory(with_weights(messages)))
    early = log.answer("poor", "poor=1", LABELS[0], count=True)
    wide = log.answer("poor", "pattern 1 ? ?", LABELS[WIDTH - 1], count=True)
    assert early.method == wide.method
    assert (early.value, *early.interval) == pytest.approx((wide.value, *wide.interval))
    share = log.answer("poor", "pattern 1 0", LABELS[1])
    assert share.base == "respondents"
    true = ((symbols[:, 0] == 1) & (symbols[:, 1] == 0)).sum() / (symbols[:, 1] != ABSENT).sum()
    assert share.value == pytest.approx(true, abs=1e-3)


def test_a_query_that_looks_back_too_far_is_refused_in_words():
    log, _ = log_of("everybody")
    with pytest.raises(UserError, match="looks at 2 periods, and at 2021-01 there are 1 so far"):
        log.answer("poor", "pattern 1 1", LABELS[0])
    with pytest.raises(UserError, match="2021-01"):
        log.answers([("poor", "pattern 1 1 1", LABELS[0]), ("poor", "poor=1", None)])
