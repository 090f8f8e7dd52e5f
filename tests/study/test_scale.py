"""Numbers as answers: their scale, their bins, and what is wrong with a declaration."""

from fractions import Fraction

import pytest
from kit.studies import attribute, small_study, window

from stream_dp.errors import UserError
from stream_dp.planning.plan import plan_study
from stream_dp.study import Numbers, Scale, Study

INCOME = {"number": {"least": -900, "most": 1400, "step": 100}, "bins": [0, 100, 500]}
DERIVED = {"of": "sex", "values": {"f": 1, "m": 0, "absent": 0}}
PEOPLE = {"name": "people", "kind": "rap", "attributes": ["income", "sex"], "rho": 1, "every": 1}


def study(income=None, release=None, **more):
    declared = {**INCOME, "missing": "absent", **(income or {})}
    return small_study(
        neighbours="add_remove",
        size=None,
        rho=4,
        attributes={
            "income": {key: value for key, value in declared.items() if value is not None},
            "sex": attribute(["f", "m"], missing="absent"),
        },
        releases=[{**PEOPLE, **(release or {})}, window("w", "sex", width=1, rho=1)],
        **more,
    )


def test_every_number_has_one_code_and_one_bin():
    numbers = study().attributes["income"].numbers
    assert numbers == Numbers(Scale(least=-900, most=1400, step=100), (0, 100, 500), absent=True)
    assert numbers[:] == (*range(-900, 1500, 100), "absent")
    assert numbers.bin_labels == ("-900..-100", "0", "100..400", "500..1400", "absent")
    assert numbers.starts == (0, 9, 10, 14, 24)
    assert [numbers.scale.read(number) for number in numbers[:24]] == list(range(24))
    assert [numbers.scale.read(str(number)) for number in numbers[:24]] == list(range(24))
    assert len(numbers) == 25


def test_special_codes_are_beside_the_bins():
    numbers = study({"special": [-9000, 9999]}).attributes["income"].numbers
    assert numbers[24:] == (-9000, 9999, "absent")
    assert numbers.bin_labels[-4:] == ("500..1400", "-9000", "9999", "absent")
    assert numbers.starts == (0, 9, 10, 14, 24, 25, 26)
    assert numbers.bin_starts == (0, 9, 10, 14, 24)
    assert numbers.coarser((100,)) == (0, 0, 1, 1, 2, 3, 4)
    assert 9999 in numbers
    assert 10_000 not in numbers


def test_codes_of_no_answer_are_no_symbols():
    attribute = study({"missing_codes": [-9000, "refused"]}).attributes["income"]
    assert attribute.symbols == study().attributes["income"].symbols
    assert attribute.takes("-9000")
    assert attribute.takes("refused")
    assert not attribute.takes("what")
    assert attribute.read(-9000) == "range"


def test_special_codes_alone_change_the_hash():
    assert study({"special": [-9000]}).hash != study().hash
    assert '"special"' not in study().canonical().decode()
    assert "missing_codes" not in study().canonical().decode()


@pytest.mark.parametrize(
    ("number", "special", "told"),
    [
        ({"least": 0, "most": 90}, None, ""),
        ({"least": -9, "most": 90}, None, "begins at -9, below 0: "),
        ({"least": 0, "most": 97}, None, "ends in 97: "),
        ({"least": 0, "most": 9998}, None, "ends in 9998: "),
        ({"least": -1, "most": 99}, None, "begins at -1, below 0 and ends in 99: "),
        ({"least": 0, "most": 197}, None, ""),
        ({"least": 0, "most": 96}, None, ""),
        ({"least": -9, "most": 99}, [], ""),
        ({"least": 0, "most": 97}, [-9, -8], ""),
    ],
)
def test_a_range_that_may_hold_codes_is_a_warning(number, special, told):
    warnings = plan_study(study({"number": number, "bins": [50], "special": special})).warnings
    lines = [line for line in warnings if line.startswith("attributes.income.number: ")]
    assert [line.startswith(f"attributes.income.number: {told}") for line in lines] == (
        [True] if told else []
    )


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (-1000, "range"),
        (1500, "range"),
        (10**40, "range"),
        (50, "step"),
        ("50", "step"),
        ("1500", "range"),
        ("", "value"),
        ("-", "value"),
        ("+100", "value"),
        ("0100", "value"),
        ("-0", "value"),
        ("100.0", "value"),
        ("1e2", "value"),
        (" 100", "value"),
        ("9" * 9000, "value"),
        ("\u0661\u0660\u0660", "value"),
    ],
)
def test_any_other_value_has_a_reason(value, fault):
    assert study().attributes["income"].read(value) == fault


@pytest.mark.parametrize(
    ("income", "line"),
    [
        ({"number": {"least": 5, "most": 5}}, "number: least must be below most"),
        ({"number": {"least": 1, "most": 9, "step": 2}}, "number: least and most must be mult"),
        ({"number": {"least": 0, "most": 1 << 25}}, "number: 33,554,433 numbers; at most"),
        ({"number": {"least": 0, "most": 9.5}}, "number.most: must be a whole number"),
        ({"number": {"least": 0, "most": 9, "step": 0}}, "number.step: must be at least 1"),
        ({"bins": []}, "bins: declare 1 to 1000 edges"),
        ({"bins": [100, 0]}, "bins: edges must increase"),
        ({"bins": [-900]}, "bins: edges must be numbers of the scale above -900, where the"),
        ({"bins": [50]}, "bins: edges must be numbers of the scale"),
        ({"bins": [1500]}, "bins: edges must be numbers of the scale"),
        ({"values": [1, 2]}, "values: goes without number"),
        ({"missing": 50}, "missing: must be 'absent', one of the numbers"),
        ({"missing": -9}, "missing: must be 'absent', one of the numbers"),
        ({"special": [-900]}, "special: -900 is a number of the scale, too"),
        ({"special": [-9, -9]}, "special: -9 stands there twice"),
        ({"special": ["x"]}, "special.0: must be a whole number"),
        ({"special": [*range(1401, 1470)]}, "special: declare at most 64 codes"),
        ({"special": [-9], "missing_codes": [-9]}, "missing_codes: -9 is an answer, too"),
        ({"missing_codes": [0]}, "missing_codes: 0 is an answer, too"),
        ({"missing_codes": ["x", "x"]}, "missing_codes: x stands there twice"),
        ({"missing_codes": ["absent"]}, "missing_codes: 'absent' is reserved"),
        ({"number": None}, "bins: goes with number"),
        ({"number": None, "bins": None, "special": [-9], "values": [1]}, "special: goes with nu"),
        ({"number": None, "bins": None}, "values: is required"),
    ],
)
def test_faults_of_a_number(income, line):
    with pytest.raises(UserError) as raised:
        study(income)
    assert any(text.startswith(f"attributes.income.{line}") for text in raised.value.lines)


@pytest.mark.parametrize(
    ("release", "line"),
    [
        ({"kind": "mixture"}, "attributes: 'income' is a number, which only kinds 'table', 'rap"),
        ({"labels": ["income"]}, "labels: 'income' is a number"),
        ({"labels": ["age"]}, "labels: 'age' is none of the release's attributes"),
        ({"labels": ["sex", "sex"]}, "labels: a column stands there twice"),
        ({"kind": "mixture", "labels": ["sex"]}, "labels: 'mixture' has none"),
        ({"derived": {"sex": DERIVED}}, "derived.sex.values: '1' is no value of sex"),
        ({"derived": {"income": DERIVED}}, "derived.income: 'income' is a number"),
        ({"derived": {"x": {**DERIVED, "of": "y"}}}, "derived.x.of: 'y' is none of the rel"),
        ({"derived": {"x": {**DERIVED, "of": "income"}}}, "derived.x.of: 'income' is a number"),
        ({"derived": {"x": {"of": "sex", "values": {"f": 1, "m": 2}}}}, "derived.x.values: none"),
        (
            {"derived": {"x": {"of": "sex", "values": {**DERIVED["values"], "n": 2}}}},
            "derived.x.values: 'n' is no value of sex",
        ),
    ],
)
def test_faults_of_releases_of_numbers(release, line):
    with pytest.raises(UserError) as raised:
        study(release=release)
    assert any(text.startswith(f"releases[1].{line}") for text in raised.value.lines)


def test_a_panel_has_no_numbers():
    with pytest.raises(UserError, match="'income' is a number, and panels are of listed values"):
        small_study(
            attributes={"income": {**INCOME, "missing": 0}},
            releases=[window("w", "income", width=1, rho=1)],
        )


@pytest.mark.parametrize("missing", ["absent", 100, {"carry": True, "first": -900}])
def test_a_published_study_is_read_again(missing):
    declared = study({"missing": missing})
    again = Study.model_validate_json(declared.canonical())
    assert again.hash == declared.hash
    assert again.attributes["income"].symbols == declared.attributes["income"].symbols
    first = again.attributes["income"].first_code
    assert first == (0 if isinstance(missing, dict) else {"absent": 24, 100: 10}[missing])
    assert again.batches[0].rho == Fraction(1)
