"""The rule of ids: several spellings are one person, for everybody who sends them."""

import json
import sys
import unicodedata
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.studies import small_study, window

from stream_dp.errors import UserError
from stream_dp.log.log import Stored
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.study import Study
from stream_dp.study.declared_sections import Ids

ALL = {"case": "fold", "unicode": "NFC"}
RULES = [
    Ids(case=case, unicode=form, **more)
    for more in ({}, {"as_written": True}, {"trim": False})
    for case, form in product((None, "fold"), (None, "NFC", "NFKC"))
]


@cache
def changed():
    """The letters that some rule changes."""
    letters = (chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000)
    return [
        x
        for x in letters
        if unicodedata.normalize("NFKC", x) != x or x.casefold() != x or x.isspace()
    ]


def declared(**head):
    return small_study(
        name="ids",
        size=10,
        periods={"first": "2021-01", "every": "month", "count": 2},
        releases=[window("w", "poverty", width=1, rho=1)],
        **head,
    )


PLAIN = declared()
# The same person, as one table, another one and a producer of its own may write her.
ANA = [
    "Ána ",
    "ána",
    "ÁNA",
    "\u00a0ána\t",
    *(unicodedata.normalize("NFD", x) for x in ("Ána", "ána")),
]


def folded(study, persons, odd=False):
    """The population after a report of each. odd: with an undeclared attribute too."""
    values = {"poverty": 1} | ({"age": 3} if odd else {})
    decoder, population = Decoder(study, bytes(32)), Population(study)
    records = [
        Stored(
            partition=0, offset=i, time=0, key=None, value=json.dumps(report).encode(), headers=()
        )
        for i, report in enumerate(
            {"person": p, "period": "2021-01", "values": values} for p in persons
        )
    ]
    population.fold(*decoder.decode(records, 0))
    return population, population.close()


@pytest.mark.parametrize("odd", [False, True])
def test_spellings_of_an_id_are_one_person(odd):
    population, closed = folded(declared(ids=ALL), [*ANA, "bea"], odd)
    assert closed.symbols["poverty"].sum() == 2
    assert population.accounting.superseded == len(ANA) - 1
    _, closed = folded(PLAIN, [*ANA, "bea"], odd)  # without a rule blanks alone do not count
    assert closed.symbols["poverty"].sum() == len({a.strip() for a in ANA}) + 1
    _, closed = folded(declared(ids={"as_written": True}), [*ANA, "bea"], odd)
    assert closed.symbols["poverty"].sum() == len(ANA) + 1


@pytest.mark.parametrize(
    ("rule", "same", "other"),
    [
        ({"trim": True}, ("Ann ", " Ann"), "ann"),
        ({"trim": False}, ("Ann ", "Ann "), "Ann"),
        ({"case": "fold"}, ("Ann", "aNN "), "an n"),
        ({"unicode": "NFC"}, ("\u00e9", "e\u0301"), "E\u0301"),
        ({"unicode": "NFKC"}, ("\uff17", "7"), "07"),
    ],
)
def test_each_part_of_the_rule_alone(rule, same, other):
    normal = Ids(**rule).normal
    assert normal(same[0]) == normal(same[1]) != normal(other)
    decoder = Decoder(declared(ids=rule), bytes(32))
    one, two, three = decoder.hashes(decoder.ids([*same, other])).tolist()
    assert one == two != three


@pytest.mark.parametrize("odd", [False, True])
def test_answers_of_nobody_are_rejected_by_every_decoder(odd):
    rule = {"nobody": ["NA", " Total"], "case": "fold"}
    people = ["na", "TOTAL ", "NA", "ana", "nan"]
    population, closed = folded(declared(ids=rule), people, odd)
    assert closed.symbols["poverty"].sum() == 2
    assert population.accounting.rejected == {
        "person": 3 + 3 * odd,
        **({"attribute": 2} if odd else {}),
    }
    population, closed = folded(declared(ids={"nobody": ["NA"]}), people, odd)
    assert closed.symbols["poverty"].sum() == 4
    population, closed = folded(PLAIN, people, odd)
    assert closed.symbols["poverty"].sum() == 1


def test_a_study_that_says_that_all_are_people_has_a_rule():
    assert declared(ids={"nobody": []}).ids == Ids(nobody=())
    assert Ids(nobody=()).normal("NA") == "NA"
    assert Ids(nobody=("NA",)).normal("NA") == ""


def test_blanks_of_no_width_do_not_count():
    assert {Ids().normal(x) for x in ("A1", "A1\u200b", "\ufeffA1", "A1\u00a0")} == {"A1"}


def test_leading_zeros_and_numbers_stay():
    normal = Ids(**ALL).normal
    assert [normal(x) for x in ("007", " 7 ", "1e3")] == ["007", "7", "1e3"]
    assert Ids(as_written=True).normal(" 7.0 ") == " 7.0 "


@pytest.mark.parametrize("person", [" ", "\u00a0\n", "x" * 257, ""])
def test_an_id_that_is_empty_or_too_long_by_the_rule_is_rejected(person):
    for odd in (False, True):
        population, _ = folded(declared(ids=ALL), [person], odd)
        assert set(population.accounting.rejected) == {"person"}
    population, _ = folded(declared(ids=ALL), ["x" * 256 + " "])
    assert not population.accounting.rejected


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_every_character_has_one_normal_form(rule):
    for letter in changed():
        assert rule.normal(rule.normal(letter)) == rule.normal(letter), hex(ord(letter))


# Letters whose case, accents and marks change one another.
tricky = st.sampled_from(
    "AaßẞſKİıΣσςΐΐΰᾳᾼǰŉﬃﷺ ͅ\u0301\u0308\u0307\u0323\u0345\u0390\u1fd3 \u00a0\u2003"
)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@given(st.text(tricky | st.characters(exclude_categories=["Cs"]), max_size=12))
def test_the_rule_is_idempotent(rule, text):
    once = rule.normal(text)
    assert rule.normal(once) == once


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=5))
def test_ids_that_are_right_as_they_stand_are_compared_so(persons):
    decoder = Decoder(declared(ids={"as_written": True}), bytes(range(32)))
    assert decoder.ids(persons) == persons
    assert len(np.unique(decoder.hashes(persons), axis=0)) == len(set(persons))


def test_a_study_without_a_rule_has_the_hash_that_it_always_had():
    assert PLAIN.ids is None
    assert b'"ids":' not in PLAIN.canonical()
    assert PLAIN.hash == "da036a71459599d7b2965fa82650dd4536b14485c68cff2e0d944c1c0d0ea373"
    for nothing in ({}, {"as_written": False}, {"trim": True}):
        assert declared(ids=nothing).hash == PLAIN.hash
    ruled = [declared(ids=rule) for rule in (ALL, {"as_written": True}, {"unicode": "NFKC"})]
    assert len({PLAIN.hash, *(study.hash for study in ruled)}) == 4
    for study in ruled:
        assert Study.model_validate(json.loads(study.canonical())) == study


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        (7, "study.ids: must be a table"),
        ({"as_written": 1}, "study.ids.as_written: must be true or false"),
        ({"case": "lower"}, "study.ids.case: must be 'fold'"),
        ({"unicode": "NFD"}, "study.ids.unicode: must be 'NFC' or 'NFKC'"),
        (
            {"lower": True},
            "study.ids.lower: unknown key; known here are trim, case, unicode, nobody, as_written",
        ),
    ],
)
def test_wrong_rules_are_reported(rule, line):
    with pytest.raises(UserError) as fault:
        declared(ids=rule)
    assert [refusal.lower() for refusal in fault.value.lines] == [line.lower()]
