"""Survey practice on the command line, in the API and on the pages: which interval is which."""

from __future__ import annotations

import json
from dataclasses import replace
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pytest
from kit.kinds_of_releases import public_log_of
from kit.studies import attribute, small_study, window

from stream_dp.client import PublicLog
from stream_dp.log.memory import MemoryLog
from stream_dp.privacy.zcdp import best_guess
from stream_dp.services.commands import estimate
from stream_dp.services.commands.cli import main
from stream_dp.services.monitor import record_rows
from stream_dp.services.monitor.client_limits import Application
from stream_dp.services.monitor.forks import Work
from stream_dp.services.monitor.public_api import CurveAnswer, EstimateAnswer
from stream_dp.services.monitor.public_pages import public_pages
from stream_dp.services.monitor.public_program import answer_of
from stream_dp.services.monitor.public_state import read_state
from stream_dp.services.portals.description import published_facts

WEIGHTED, AMONG = "weighted poor=yes", "poor=yes among respondents"
SAMPLED = "noise and simple random sampling"


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    study = small_study(
        rho=9,
        neighbours="add_remove",
        size=None,
        attributes={
            "poor": attribute(["no", "yes"], missing="absent"),
            "region": attribute(["north", "south"], missing="absent", fixed=True),
        },
        releases=[window("poor", "poor", width=1, rho=9, strata="region", rows=300)],
        weights={"by": "region", "totals": {"north": 60_000, "south": 40_000}},
        sampling={"fraction": "1/100"},
    )
    rng, people = np.random.default_rng(2), 500
    reports = {
        "person": [f"p{i % people}" for i in range(3 * people)],
        "period": [f"2021-0{1 + i // people}" for i in range(3 * people)],
        "poor": rng.choice(["no", "yes", None], 3 * people, p=[0.6, 0.3, 0.1]).tolist(),
        "region": [("north", "south")[i % 2] for i in range(3 * people)],
    }
    log = public_log_of(study, pa.table(reports))
    monkeypatch.setattr(estimate, "open_pinned", lambda _, keep: (PublicLog(log, keep), None))
    return log


def by_command(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["estimate", "the log", *words]) == 0
    return capsys.readouterr().out


def by_monitor(application: Application, path: str, **asked: str) -> tuple[int, str]:
    work = Work({"method": "GET", "path": path, "query": urlencode(asked)})
    answered = answer_of(application, work)
    return answered.data["status"], answered.body.decode()


@pytest.mark.parametrize(("name", "query"), [("poor", WEIGHTED), ("poor-north", AMONG)])
def test_all_ways_give_one_answer(
    log: MemoryLog, capsys: pytest.CaptureFixture[str], name: str, query: str
) -> None:
    answer = PublicLog(log).answer(name, query)
    assert answer.sampled is not None
    stated = json.loads(by_command(capsys, name, query, "--json"))
    assert stated == json.loads(json.dumps(answer.as_dict()))
    application = public_pages(read_state(log), lambda: log)
    status, body = by_monitor(application, "/api/v1/estimate", release=name, query=query)
    assert status == 200
    typed = EstimateAnswer.model_validate_json(body)
    assert typed.sampled is not None
    assert typed.sampled.interval == pytest.approx(list(answer.sampled.interval))
    assert typed.sampled.covers == SAMPLED
    text = by_command(capsys, name, query, "--long")
    assert "  95% interval    " in text
    assert "  with sampling   " in text
    assert (
        f"'estimate' has the errors of the privacy noise alone, 'with sampling' of {SAMPLED}"
        in text
    )


def test_totals_of_the_population(log: MemoryLog, capsys: pytest.CaptureFixture[str]) -> None:
    text = by_command(capsys, "poor", WEIGHTED, "--count")
    assert "(count of persons of the population, weighted by region)" in text
    each = by_command(capsys, "poor", WEIGHTED, "--each-period")
    assert each.count("weighted poor=yes at 2021-0") == 3
    change = by_command(capsys, "poor", WEIGHTED, "--minus", "2021-01")
    assert "change" in change
    assert "with sampling" not in change  # the same people answer twice


@pytest.mark.parametrize("measure", ["share", "count"])
@pytest.mark.parametrize("query", [WEIGHTED, AMONG])
def test_the_page_says_what_each_interval_covers(log: MemoryLog, query: str, measure: str) -> None:
    application = public_pages(read_state(log), lambda: log)
    path = "/release/poor-north"
    for more in ({}, {"band": "simultaneous"}, {"panel": "1"}):
        status, page = by_monitor(application, path, q=query, measure=measure, **more)
        assert status == 200, page
    if measure == "share" or query == WEIGHTED:
        assert f"95% interval of {SAMPLED}:" in page
        assert "the second interval adds the sampling of people" in page
    asked = {"release": "poor-north", "query": query, "measure": measure}
    status, body = by_monitor(application, "/api/v1/curve", **asked)
    assert status == 200
    assert len(CurveAnswer.model_validate_json(body).answers) == 3
    status, page = by_monitor(application, path)
    assert "at-least 1 of last 1 poor=yes among everybody" in page
    assert "weighted" in page
    fields = {"q": query, "q2": query, "period2": "2021-01", "measure": measure}
    assert by_monitor(application, "/compare/poor-north", **fields)[0] == 200


def test_weighted_totals_may_exceed_the_people_of_the_study(log: MemoryLog) -> None:
    application = public_pages(read_state(log), lambda: log)
    total = PublicLog(log).answer("poor", WEIGHTED, count=True)
    assert total.value > 10_000
    asked = {"q": WEIGHTED, "measure": "count"}
    _, page = by_monitor(application, "/release/poor-north", **asked)
    assert f"<strong>{total.value:,.0f}</strong>" in page


def test_a_page_states_a_price_only_where_the_noise_protects(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = PublicLog(log)
    _, page = by_monitor(public_pages(read_state(log), lambda: log), "/privacy")
    assert "it protects nobody, and has no price" in page
    assert "tossed coin 50 times (eps" not in page
    facts = replace(published_facts(public), simulated=False)
    monkeypatch.setattr(record_rows, "published_facts", lambda _: facts)
    words = record_rows.price_words(public)
    assert f"right at most {best_guess(float(facts.rho_spent)):.1f} times in 100" in words
    assert f"(eps {float(facts.epsilon_spent):.3f} at delta" in words
