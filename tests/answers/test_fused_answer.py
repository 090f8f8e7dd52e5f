"""Answers by several months of a table, beside the month's own, from what is published alone."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

import stream_dp
from stream_dp.client import PublicLog
from stream_dp.log.memory import MemoryLog
from stream_dp.release.answer import Fused, ReleaseQuery
from stream_dp.services.commands.estimate import answer_lines
from stream_dp.services.releaser import study_in_memory

PEOPLE, MONTHS = 2000, 6
LABELS = [f"2026-0{month}" for month in range(1, MONTHS + 1)]
KINDS = ["mixture", "match"]
QUERY = "work=yes & sex=f"


def declared(kind: str, *, missing: str = "no", **keys: object) -> dict[str, object]:
    return {
        "study": {
            **{"name": "months", "unit": "person", "neighbours": "replace_one", "rho": 1},
            **{"delta": "1/1000000", "population": {"size": PEOPLE}},
            "periods": {"first": LABELS[0], "every": "month", "count": MONTHS},
        },
        "attributes": {
            "work": {"values": ["no", "yes"], "missing": missing},
            "sex": {"values": ["f", "m"], "missing": "f"},
            "place": {"values": ["a", "b", "c"], "missing": "a"},
        },
        "releases": [
            {
                **{"name": "people", "kind": kind, "rho": "0.003", "every": 1},
                **{"attributes": ["work", "sex", "place"], **keys},
            }
        ],
    }


def truth(month: int) -> tuple[np.ndarray, np.ndarray]:
    """Who works and who is a woman: five people more begin to work each month."""
    rng = np.random.default_rng(5)
    works, woman = rng.random(PEOPLE) < 0.5, rng.random(PEOPLE) < 0.5
    works[: 5 * month] = True
    return works, woman


@cache
def public(kind: str, fuse: bool = True, seed: int = 1, lost: int = 0) -> PublicLog:
    """The public log at the end of the study. lost: the people who stop answering each month."""
    columns: dict[str, list[object]] = {n: [] for n in ("person", "period", "work", "sex", "place")}
    for month, label in enumerate(LABELS):
        works, woman = truth(month)
        columns["person"] += [f"p{i}" for i in range(PEOPLE)]
        columns["period"] += [label] * PEOPLE
        answers = np.where(works, "yes", "no").astype(object)
        answers[PEOPLE - lost * month :] = None
        columns["work"] += answers.tolist()
        columns["sex"] += np.where(woman, "f", "m").tolist()
        columns["place"] += ["abc"[i % 3] for i in range(PEOPLE)]
    logs: list[MemoryLog] = []

    class KeptLog(MemoryLog):
        def __init__(self, *arguments: object, **named: object) -> None:
            super().__init__(*arguments, **named)  # type: ignore[arg-type]
            logs.append(self)

    keys: dict[str, object] = {} if fuse else {"fuse": False}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(study_in_memory, "MemoryLog", KeptLog)
        missing = "absent" if lost else "no"
        study = stream_dp.parse_study(declared(kind, missing=missing, **keys))
        stream_dp.run_study(study, pa.table(columns), simulation_seed=seed)
    return PublicLog(logs[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [False, True])
def test_earlier_months_make_an_answer_more_precise(kind: str, count: bool) -> None:
    answer = public(kind).answer("people", QUERY, count=count)
    assert answer.standard_error is not None
    assert answer.fused is not None
    works, woman = truth(MONTHS - 1)
    true = (works & woman).sum() / (1 if count else PEOPLE)
    assert answer.fused.standard_error < 0.75 * answer.standard_error
    assert answer.fused.interval[0] < true < answer.fused.interval[1]
    low, high = answer.fused.interval
    assert high - low == pytest.approx(5 * answer.fused.standard_error)
    assert answer.fused.periods == tuple(LABELS)
    assert not answer.fused.doubtful
    words = "\n".join(answer_lines(answer, long=True))
    assert "of 6 data sets together, assumes drift as in the past" in words
    assert answer.as_dict()["fused"]["assumes"] == "drift as in the past"  # type: ignore[index]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [False, True])
def test_a_change_is_by_the_joint_posterior(kind: str, count: bool) -> None:
    now, then = (ReleaseQuery("people", QUERY, label) for label in (LABELS[-1], LABELS[2]))
    change = public(kind).change(now, then, count=count)
    assert change.standard_error is not None
    assert change.fused is not None
    assert change.fused.standard_error < 0.5 * change.standard_error
    works, woman = truth(MONTHS - 1)
    before, _ = truth(2)
    true = ((works & woman).sum() - (before & woman).sum()) / (1 if count else PEOPLE)
    assert change.fused.interval[0] < true < change.fused.interval[1]


@pytest.mark.parametrize("kind", KINDS)
def test_shares_of_respondents_and_their_changes_use_earlier_months_too(kind: str) -> None:
    log, lost = public(kind, lost=50), 50

    def share(month: int) -> float:
        works, woman = (column[: PEOPLE - lost * month] for column in truth(month))
        return float((works & woman).mean())

    now, then = (ReleaseQuery("people", QUERY, label) for label in (LABELS[-1], LABELS[2]))
    answer, change = log.answer("people", QUERY), log.change(now, then)
    for asked, true in ((answer, share(5)), (change, share(5) - share(2))):
        assert asked.people == "among respondents"
        assert asked.standard_error is not None
        assert asked.fused is not None
        assert asked.fused.standard_error < 0.8 * asked.standard_error
        assert asked.fused.interval[0] < true < asked.fused.interval[1]
    everybody = log.answer("people", f"{QUERY} among everybody")
    assert everybody.fused is not None
    assert everybody.value < answer.value


def test_without_earlier_months_there_is_no_fused_answer() -> None:
    log = public("mixture")
    assert log.answer("people", QUERY, LABELS[0]).fused is None
    second = log.answer("people", QUERY, LABELS[1]).fused
    assert second is not None
    assert second.periods == (*LABELS[:2],)
    alone = public("mixture", fuse=False)
    assert alone.answer("people", QUERY).fused is None
    assert "fused" not in alone.answer("people", QUERY).as_dict()
    now, then = (ReleaseQuery("people", QUERY, label) for label in (LABELS[-1], LABELS[2]))
    assert alone.change(now, then).fused is None
    backwards = log.change(then, now)
    assert backwards.fused is None
    assert backwards.value == pytest.approx(-log.change(now, then).value)


def test_the_published_fit_uses_the_same_filters() -> None:
    """The synthetic people follow the fused answer, not the month's own."""
    apart, own = [], []
    for place in "abc":
        for sex in "fm":
            answer = public("mixture").answer("people", f"place={place} & sex={sex}")
            assert answer.fused is not None
            assert answer.synthetic is not None
            apart.append(answer.synthetic - answer.fused.value)
            own.append(answer.synthetic - answer.alone().value)
    assert np.std(apart) < np.std(own)


def test_a_fused_answer_far_from_the_months_own_is_doubted() -> None:
    assert not Fused(0.5, 0.01, (0.4, 0.6), (), 2.9).doubtful
    assert Fused(0.5, 0.01, (0.4, 0.6), (), 3.1).doubtful
