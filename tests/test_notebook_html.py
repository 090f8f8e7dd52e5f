"""What a notebook shows of a value: short, escaped, and what an analyst needs first."""

import dataclasses
from html.parser import HTMLParser

import pyarrow as pa
import pytest

import stream_dp

HOSTILE = "<script>alert(1)</script>"
STUDY = {
    "study": {
        "name": "work",
        "unit": HOSTILE,
        "neighbours": "replace_one",
        "rho": 1,
        "delta": "1/1000000",
        "population": {"size": 20},
        "periods": {"first": "2024-01", "every": "month", "count": 15},
    },
    "attributes": {"work": {"values": ["<b>", "y\u202ees"], "missing": "<b>"}},
    "releases": [{"name": "now", "kind": "window", "attribute": "work", "width": 1, "rho": 1}],
}


class Balanced(HTMLParser):
    """Notes the open elements, and which there were."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def public():
    reports = pa.table({"person": ["a"], "2024-01": ["<b>"]})
    study = stream_dp.parse_study(STUDY)
    return stream_dp.run_study(study, reports, attribute="work", simulation_seed=1)


SHOWN = {
    "a public log": lambda public: public,
    "a panel": lambda public: public.panel("now"),
    "an answer": lambda public: public.answer("now", "pattern <b>"),
    "answers": lambda public: public.answers([("now", "pattern <b>", None)] * 2),
    "a certificate": lambda public: public.releases[-1].certificate,
    "a plan": lambda public: stream_dp.plan_study(public.study),
}


@pytest.mark.parametrize("what", SHOWN)
def test_what_is_shown_is_short_and_escaped(what, public):
    text = SHOWN[what](public)._repr_html_()
    page = Balanced()
    page.feed(text)
    assert page.open == []
    assert page.seen <= {"table", "caption", "tr", "th", "td"}
    assert len(text) < 6000
    assert "\u202e" not in text


def test_an_answer_is_in_percent(public):
    answer = public.answer("now", "pattern <b>")
    assert f"{100 * answer.value:.2f} %" in answer._repr_html_()
    counted = public.answer("now", "pattern <b>", count=True)
    assert f"{counted.value:,.6g}" in counted._repr_html_()


def test_an_answer_says_of_what_its_error_is(public):
    unbiased = public.answer("now", "pattern <b>").alone()
    assert "one standard error of the noise" in unbiased._repr_html_()
    limited = dataclasses.replace(unbiased, unbiased=unbiased)
    assert "root mean square, with the bias" in limited._repr_html_()


def test_a_certificate_and_a_plan_say_what_is_protected(public):
    for what in ("a certificate", "a plan"):
        assert "whole history is replaced by any other" in SHOWN[what](public)._repr_html_()


def test_a_panel_is_a_table_for_other_libraries(public):
    panel = public.panel("now")
    assert pa.table(panel) == panel.table()
    pandas = pytest.importorskip("pandas", "2.2")
    assert pandas.DataFrame.from_arrow(panel).shape == (20, 16)
