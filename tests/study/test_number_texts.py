"""Texts of whole numbers: with marks, or without, and which ones are answers."""

import pytest
from kit.studies import attribute, small_study, window

from stream_dp.errors import UserError
from stream_dp.study.number_texts import NumberTexts, WholeNumbers

SPACES = [f"1{space}200" for space in " \u00a0\u202f\u2009"]
# By the declared marks: the texts of 1200, and texts that are no whole number.
WRITTEN = {
    (None, None): (["1200.0", "1200.00"], ["1,200", "1.200", "1.000", "1200,0", "1 200", "1200."]),
    (".", None): (["1200.000", "1200.0"], ["1,200", "1.200", "1200.50", "1200,0"]),
    (",", None): (["1200,0", "1200,000"], ["1.200", "1,200", "1200.0", "1200,50"]),
    (None, ","): (["1,200", "1,200.00", "1200.0"], ["1.200", "1,20", "12,00", ",200", "1,2000"]),
    (None, "."): (["1.200", "1.200,00", "1200,0"], ["1,200", "1.20", "1.2000", "1.200.0"]),
    (",", "."): (["1.200", "1.200,0"], ["1,200", "1.200.0", "0.200"]),
    (",", " "): ([*SPACES, "1 200,00"], ["1 20", "1  200", " 1200", "1,200"]),
    (None, "'"): (["1'200", "1\u2019200", "1'200.00"], ["1,200", "1'20", "''1200"]),
}
NEVER = ["", "-", "+1200", "01200", "1.2e3", "1200-", "(1200)", "$1200", "12:00", "\u0663", "x"]


@pytest.mark.parametrize("marks", WRITTEN)
def test_marks_are_read_as_declared(marks):
    texts, (sound, other) = NumberTexts(*marks), WRITTEN[marks]
    assert {texts.whole(text) for text in [*sound]} == {"1200"}
    assert {texts.whole(f"-{text}") for text in [*sound]} == {"-1200"}
    assert {texts.whole(text) for text in [*other, *NEVER]} == {None}
    assert all(any(sign in text for sign in texts.signs) for text in sound)


@pytest.mark.parametrize("marks", [("x", None), (None, "x"), (",", ","), ("'", None), (None, "")])
def test_other_marks_are_refused(marks):
    with pytest.raises(UserError, match=r"^(decimal|thousands)"):
        NumberTexts(*marks)


@pytest.mark.parametrize(
    ("declared", "texts", "read"),
    [
        (attribute([0, 1, "no"], missing=0), ["1.0", "0.00", "2.0", "no", "x"], "1 0 2.0 no x"),
        (attribute(["1.0", 1], missing=1), ["1.0", "1.00"], "1.0 1"),
        (attribute([0, 1], missing=0, missing_codes=[-9]), ["-9.0", "1.0"], "-9 1"),
    ],
)
def test_an_answer_is_a_declared_one(declared, texts, read):
    study = small_study(attributes={"a": declared}, releases=[window("w", "a", width=1, rho=1)])
    numbers = WholeNumbers.of(NumberTexts(), study.attributes["a"])
    assert [numbers.plain(text) for text in texts] == read.split()


def test_words_alone_have_no_whole_numbers():
    study = small_study(
        attributes={"a": attribute(["y", "n"], missing="n")},
        releases=[window("w", "a", width=1, rho=1)],
    )
    yes_or_no = study.attributes["a"]
    assert WholeNumbers.of(NumberTexts(), yes_or_no) is None
    mapped = WholeNumbers.of(NumberTexts(), yes_or_no, {"1": "y", "2": "n"})
    assert [mapped.plain(text) for text in ("1.0", "2.00", "3.0", "y")] == ["1", "2", "3.0", "y"]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("97.5", "98"),
        ("98.7", "98.7"),  # 99 is a code
        ("-8.6", "-8.6"),
        ("-0.4", "0"),
        ("1" * 29 + ".5", None),
        ("1" * 4000 + ".5", None),
        ("0." + "9" * 60, "1"),
    ],
)
def test_a_fraction_becomes_a_number_of_the_scale_or_none(text, read):
    pay = {"number": {"least": 0, "most": 98}, "bins": [50], "special": [99, -9], "missing": 0}
    study = small_study(
        attributes={"pay": pay, "a": attribute([0, 1], missing=0)},
        releases=[window("w", "a", width=1, rho=1)],
    )
    numbers = WholeNumbers.of(NumberTexts(".", rounds=True), study.attributes["pay"])
    assert numbers.plain(text) == (text if read is None else read)
