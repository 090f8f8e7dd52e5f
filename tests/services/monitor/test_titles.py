"""Titles of figures: the declared value of interest and its label instead of the last value."""

import pytest

from stream_dp.answers.query import event_words, example_queries
from stream_dp.errors import UserError
from stream_dp.services.monitor.default_questions import default_query, query_title, questions
from stream_dp.studyfile import parse_study


def study(**attribute: object):
    return parse_study(
        {
            "study": {
                "name": "work",
                "unit": "person",
                "neighbours": "replace_one",
                "rho": "0.02",
                "delta": "1e-6",
                "periods": {"every": "month", "first": "2026-01", "count": 6},
                "population": {"size": 100},
            },
            "attributes": {
                "arbeitslos": {"values": ["Ja", "Nein"], "missing": "Nein", **attribute}
            },
            "releases": [
                {
                    "name": "both",
                    "kind": "joint",
                    "attribute": "arbeitslos",
                    "width": 3,
                    "event": ["Ja"],
                    "rho": "0.02",
                }
            ],
        }
    )


@pytest.mark.parametrize(
    ("declared", "title", "event"),
    [
        ({}, "arbeitslos: Nein in the month", "arbeitslos: Ja"),
        ({"interest": "Ja"}, "arbeitslos: Ja in the month", "arbeitslos: Ja"),
        ({"interest": "Ja", "label": "unemployed"}, "unemployed in the month", "unemployed"),
    ],
)
def test_titles_are_of_the_value_of_interest(declared, title, event):
    made = study(**declared)
    release = made.releases[0]
    assert questions(made, release)[0].title == title
    assert event_words(made, release) == event
    value = declared.get("interest", "Nein")
    assert f"pattern {value} {value} {value}" in example_queries(made, release)


def test_the_value_of_interest_is_a_value():
    with pytest.raises(UserError, match=r"arbeitslos\.interest: 'Yes' is none of the values"):
        study(interest="Yes")


QUERIES = {
    "pattern Ja": "Unemployed in the month",
    "pattern Nein": "Not unemployed in the month",
    "pattern Ja Ja Ja": "Unemployed in all of the last 3 months",
    "pattern Ja ? Ja": "Unemployed in the first and third of the last 3 months",
    "pattern Ja ? Nein": (
        "Unemployed in the first, not unemployed in the third of the last 3 months"
    ),
    "pattern ? ? ?": "Pattern ? ? ?",
    "arbeitslos=Ja": "Unemployed in the month",
    "at-least 1 of last 3 arbeitslos=Ja": "Unemployed in at least 1 of the last 3 months",
    "at-least 3 of last 3 Ja": "Unemployed in all of the last 3 months",
    "at-least 1 of last 1 Ja": "Unemployed in the month",
    "consecutive 2 of last 3 Ja": "Unemployed at least 2 months in a row in the last 3 months",
    "at-least 2 of last 3 Ja|Nein": (
        "Unemployed or not unemployed in at least 2 of the last 3 months"
    ),
    "total at-least 1": "Unemployed in at least 1 month so far",
}


@pytest.mark.parametrize("query", QUERIES)
def test_queries_have_titles_in_words(query):
    made = study(interest="Ja", label="unemployed")
    assert query_title(made, made.releases[0], query) == QUERIES[query]


def test_a_title_without_a_label_names_the_attribute():
    made = study()
    title = query_title(made, made.releases[0], "pattern Ja")
    assert title == "Arbeitslos: Ja in the month"


def test_of_many_values_the_label_is_the_attributes_own():
    made = study(values=["Ja", "Nein", "Rente"], label="Arbeitslosigkeit")
    titles = [question.title for question in questions(made, made.releases[0])]
    assert titles[:2] == [
        "Arbeitslosigkeit: Ja in the month",
        "Arbeitslosigkeit: Nein in the month",
    ]


def test_a_comparison_begins_with_a_question_about_the_present():
    class Public:
        study = study()

    assert default_query(Public(), "both") == "pattern Nein"  # type: ignore[arg-type]
