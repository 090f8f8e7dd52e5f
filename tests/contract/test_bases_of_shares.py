"""Every output that has a share says in words of whom it is. A new output has to be listed here."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urlencode

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from kit.kinds_of_releases import public_log_of
from kit.monitors import ask
from kit.public_logs import TopicInMemory, log_in_memory, with_weights
from kit.studies import attribute, cumulative, joint, small_study, window

from stream_dp.answers.flat_answers import flat_answers, weighted_answers
from stream_dp.client import PublicLog
from stream_dp.log.message import read_messages
from stream_dp.planning import plan_result
from stream_dp.planning.plan import plan_study
from stream_dp.planning.study_summary import summary
from stream_dp.services.commands import estimate, export
from stream_dp.services.commands.cli import main
from stream_dp.services.monitor.figure_files import FIGURES
from stream_dp.services.monitor.public_pages import public_pages
from stream_dp.services.monitor.public_state import State, read_state
from stream_dp.study.topics import RELEASES

pytest.importorskip("fastapi")

PEOPLE, LABELS = 300, ("2021-01", "2021-02", "2021-03")
STUDY = small_study(
    rho=55,
    size=PEOPLE,
    periods={"first": LABELS[0], "every": "month", "count": len(LABELS)},
    attributes={
        "poor": attribute(["no", "yes"], missing="absent"),
        "sex": attribute(["f", "m"], missing="absent"),
    },
    releases=[
        window("pairs", "poor", width=2, rho=10),
        joint("both", "poor", width=2, event=["yes"], rho=10),
        cumulative("months", "poor", ["yes"], 5),
        {
            **{"name": "people", "kind": "match", "attributes": ["poor", "sex"], "every": 1},
            **{"rho": 10},
        },
    ],
)
NAMES = ("pairs", "both", "months", "people")


@pytest.fixture(scope="module")
def log() -> TopicInMemory:
    """A public log of panels and of a table, at its end, with the weights of the panels."""
    random, rows = np.random.default_rng(2), len(LABELS) * PEOPLE
    reports = {
        "person": [f"p{i % PEOPLE}" for i in range(rows)],
        "period": [LABELS[i // PEOPLE] for i in range(rows)],
        "poor": random.choice(["no", "yes", None], rows, p=[0.5, 0.3, 0.2]).tolist(),
        "sex": [("f", "m")[i % 2] for i in range(rows)],
    }
    messages = [*read_messages(public_log_of(STUDY, pa.table(reports)), RELEASES, "log")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stream_dp.answers.error_weights.RERUNS", 5)
        return log_in_memory(with_weights(messages))


@pytest.fixture(scope="module")
def state(log: TopicInMemory) -> State:
    return read_state(log)


@pytest.fixture(scope="module")
def public(log: TopicInMemory) -> PublicLog:
    return PublicLog(log)


@pytest.fixture(scope="module")
def pages(state: State, log: TopicInMemory) -> object:
    return public_pages(state, lambda: log)


# ---- What a share without a base looks like, by the form of the output.

# A share in percent. Levels of intervals, budgets and the scale of an axis are none.
PERCENT = re.compile(r"[0-9]\s?%")
LEVELS = re.compile(r"\b(50|80|95)\s?%")
BASE = re.compile(
    r"\b(of|among) (all (persons|people)|respondents|(persons|people) (with|present|who|counted)"
    r"|the synthetic|synthetic (people|persons))"
)
# Blocks of a page that are read alone: a sentence, a figure, a table with its caption.
BLOCKS = ("p", "li", "figure", "details", "figcaption", "h1", "h2", "meta")


class _Blocks(HTMLParser):
    """The texts of the outermost blocks of a page, with the texts of pictures and labels."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "meta":
            self.texts.append(dict(attrs).get("content") or "")
            return
        if tag in BLOCKS:
            if not self._open:
                self.texts.append("")
            self._open.append(tag)
        label = dict(attrs).get("aria-label")
        if self._open and label:
            self.texts[-1] += f" {label} "

    def handle_endtag(self, tag: str) -> None:
        if self._open and tag == self._open[-1]:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[-1] += f" {data.strip()} "


def bare(text: str) -> bool:
    """Whether a text has a share and no base."""
    words = " ".join(text.split())
    return bool(PERCENT.search(LEVELS.sub("", words))) and not BASE.search(words)


def bare_blocks(page: str) -> list[str]:
    blocks = _Blocks()
    blocks.feed(page)
    return [" ".join(text.split())[:300] for text in blocks.texts if bare(text)]


def bare_answers(data: object) -> Iterator[object]:
    """The answers in plain data that are shares of nobody named."""
    if isinstance(data, list):
        for part in data:
            yield from bare_answers(part)
    elif isinstance(data, dict):
        if data.get("measure") == "share" and "value" in data and not data.get("people"):
            yield data
        for part in data.values():
            yield from bare_answers(part)


def bare_rows(table: pa.Table) -> list[object]:
    """The rows of a table that are shares of nobody named."""
    rows = [{key.lower(): value for key, value in row.items()} for row in table.to_pylist()]
    return [
        row
        for row in rows
        if (row.get("measure") == "share" or "share" in row) and not row.get("people")
    ]


# ---- The outputs.

ASKED = dict.fromkeys(NAMES, "poor=yes") | {"months": "total at-least 2"}
OTHERS = {
    "pairs": ["poor=yes among everybody", "respondents", "pattern yes ?", "pattern absent"],
    "both": ["total at-least 1", "at-least 1 of last 2 poor=yes"],
    "people": ["poor=yes & sex=f", "poor=yes among sex=f", "poor=yes among everybody"],
}


def queries() -> Iterator[tuple[str, str]]:
    for name in NAMES:
        for query in (ASKED[name], *OTHERS.get(name, [])):
            yield name, query


def addresses(path: str) -> list[str] | None:
    """Addresses of the monitor's pages, by their path; an empty list for one without answers."""
    panels = NAMES[:3]
    asked = [(name, query) for name, query in queries() if name in panels]
    two = {"period": LABELS[2], "period2": LABELS[1]}
    figures = {
        "release": [f"pairs.csv?q={quote(q)}" for n, q in asked if n == "pairs"],
        "totals": ["months.csv", "both.csv"],
        "compare": [f"{n}.csv?{urlencode({'q': q, 'q2': q, **two})}" for n, q in queries()],
        "data": ["people.csv?column=people:poor", "people.csv?pair=people:poor:sex"],
        "series": ["people.csv?column=people:poor"],
        "map": [],  # of sizes of places, whose shares of places have a title
    }
    assert {*figures} == {*FIGURES}
    both = [f"{kind}/{file}" for kind, files in figures.items() for file in files]
    svg = [file.replace(".csv", ".svg") for file in both]
    api = [urlencode({"release": n, "query": q}) for n, q in queries()]
    of = [urlencode({"release": "pairs", "query": "poor=yes", "of": "everybody"})]
    curves = [urlencode({"release": n, "query": q}) for n, q in asked]
    return {
        "/": ["/"],
        "/release/{name}": [
            *(f"/release/{name}" for name in panels),
            *(f"/release/{n}?{urlencode({'q': q, 'panel': 1})}" for n, q in asked),
            "/release/pairs?q=poor%3Dyes&of=everybody",
            "/release/pairs?q=poor%3Dyes&beside=both",
        ],
        "/compare/{name}": [
            f"/compare/{n}?{urlencode({'q': q, 'q2': q, **two})}" for n, q in queries()
        ],
        "/ask/{name}": [],
        "/data/{name}": [
            "/data/people",
            "/data/people?pair=people:poor:sex",
            "/data/people?column=people:poor",
            *(f"/data/people?q={quote(q)}" for n, q in queries() if n == "people"),
        ],
        "/privacy": [],  # of budgets and errors alone
        "/verify": [],
        "/downloads": ["/downloads"],
        "/certificate/{index}": [],
        "/api": ["/api"],
        "/figure/{kind}/{name}.{form}": [f"/figure/{file}" for file in both + svg],
        "/embed/{kind}/{name}": [f"/embed/{file.replace('.csv', '')}" for file in both],
        "/api/v1/study": [],
        "/api/v1/releases": [],
        "/api/v1/certificates/{index}": [],
        "/api/v1/queries": [],
        "/api/v1/estimate": [f"/api/v1/estimate?{q}" for q in api + of],
        "/api/v1/curve": [f"/api/v1/curve?{q}" for q in curves + of],
        "/api/v1/compare": [
            f"/api/v1/compare?{q}&{urlencode({'other_period': LABELS[1]})}" for q in api + of
        ],
        "/api/v1/privacy": [],
        "/api/v1/verify": [],
        "/metadata": [],
        "/metadata/{name}": [],
        "/download/log.db": [],
        "/download/series.csv": ["/download/series.csv"],
        "/download/{release}/{table}.{form}": [],  # tables of counts and of synthetic people
        "/events": [],
        "/openapi.json": [],
    }.get(path)


def test_every_address_of_the_monitor_is_listed(pages) -> None:
    paths = {route.path for route in pages.routes}
    assert {path for path in paths if addresses(path) is None} == set()


def test_pages_figures_and_the_api(pages) -> None:
    read, faults = 0, []
    for route in pages.routes:
        for address in addresses(route.path) or ():
            answer = ask(pages, address)
            assert answer.status == 200, (address, answer.text)
            read += 1
            if address.startswith("/api/"):
                found = [*bare_answers(json.loads(answer.text))]
            elif ".csv" in address:
                found = bare_rows(pa.csv.read_csv(io.BytesIO(answer.body)))
            elif ".svg" in address:
                found = [answer.text] * bare(re.sub(r"<[^>]*>", " ", answer.text))
            else:
                found = bare_blocks(answer.text)
            faults += [(address, fault) for fault in found[:5]]
    assert not faults, "\n".join(map(str, faults))
    assert read > 60


def test_tables_topics_and_notebooks(public: PublicLog) -> None:
    for published in public.published:
        rows = [answer._asdict() for answer in flat_answers(STUDY, published)]
        assert any(row["measure"] == "share" for row in rows) or "months" in str(rows)
        assert not bare_rows(pa.Table.from_pylist(rows))
    for name, weights in public.weights.items():
        rows = [a._asdict() for a in weighted_answers(public, name, weights.message.hash)]
        assert rows
        assert not bare_rows(pa.Table.from_pylist(rows))
    assert {*public.weights} == {*NAMES[:3]}
    assert not bare_rows(public.answer_table())
    for name, query in queries():
        for answer in (public.answer(name, query), *public.answers([(name, query, None)]).answers):
            assert not bare(re.sub(r"<[^>]*>", " ", answer._repr_html_()))
            assert not [*bare_answers(answer.as_dict())]


@pytest.fixture
def command(public: PublicLog, monkeypatch, capsys):
    for module in (estimate, estimate, export):
        monkeypatch.setattr(module, "open_pinned", lambda *_: (public, None))

    def said(*words: str) -> str:
        assert main([*words]) == 0
        return capsys.readouterr().out

    return said


def test_commands(command, tmp_path: Path) -> None:
    for name, query in queries():
        forms = [[], ["--period", LABELS[1]], ["--minus", LABELS[1]]]
        forms += [["--also", name, query, LABELS[1]], ["--each-period"]]
        forms += [["--of", "everybody"]] if " among " not in query and name != "months" else []
        for form in forms:
            words = ["estimate", "the log", name, query, *form]
            assert not bare(command(*words)), words
            assert not [*bare_answers(_measured(json.loads(command(*words, "--json"))))], words
    command("estimates", "the log", str(tmp_path / "all.csv"))
    assert not bare_rows(pa.csv.read_csv(tmp_path / "all.csv"))
    for name in NAMES:
        assert not bare(command("export", "the log", name, str(tmp_path / name)))
        for file in (tmp_path / name).glob("*.csv"):
            assert not bare_rows(pa.csv.read_csv(file)), file


def _measured(data: dict) -> dict:
    """Answers that have their measure once, above them."""
    if isinstance(data.get("answers"), list):
        data["answers"] = [{"measure": data["measure"], **answer} for answer in data["answers"]]
    return data


def test_plans_before_any_data() -> None:
    request = plan_result.PlanRequest()
    texts = [summary(plan_study(STUDY)).text(), plan_result.planned(STUDY, request).text()]
    for text in texts:
        assert BASE.search(text), text


def test_the_package_for_r() -> None:
    folder = Path(__file__).parents[2] / "r" / "R"
    assert "people = series$PEOPLE" in (folder / "joint_estimates.R").read_text()
    assert "points$people" in (folder / "fan_chart.R").read_text()
